"""Measures DDL whose time must not depend on the size of the table: DROP INDEX, TRUNCATE, DROP and instant
ALTER of a large table, in a server with thousands of tables. ATOLL and InnoDB run in the same server.

    bench/ddl.py --tables 5000 --gigabytes 10 --repeat 3      writes build/bench/ddl.json

The large table has rows of 1 KB that do not compress, and an index. Each engine has a large table of its own,
and the engines take turns. The thousands of small tables are in ATOLL.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from harness import paths
from harness.process import discard, exit_cleanly_on_signals, scratch_directory
from harness.server import Server

ENGINES = ("ATOLL", "InnoDB")
ROW_BYTES = 1000
# The statements, in the order in which they are run on the same table. {t} is the table.
STATEMENTS = {
    "add column": "ALTER TABLE {t} ADD COLUMN added INT DEFAULT 5, ALGORITHM=INSTANT",
    "drop column": "ALTER TABLE {t} DROP COLUMN added, ALGORITHM=INSTANT",
    "drop index": "ALTER TABLE {t} DROP INDEX by_b",
    "truncate": "TRUNCATE TABLE {t}",
    "drop": "DROP TABLE {t}",
}


class DdlBenchmark:
    """Measures the milliseconds of each statement, by engine."""

    def __init__(self, tables: int, gigabytes: float):
        self._rows = int(gigabytes * 1e9 / ROW_BYTES)
        self._home = scratch_directory("ddl-bench")
        self._server = Server(
            self._home / "server",
            {
                "innodb_buffer_pool_size": "1G",
                "innodb_log_file_size": "1G",
                "innodb_flush_log_at_trx_commit": 2,
                "atoll_block_cache_size": "1G",
            },
        )
        self._server.initialize().start()
        self._server.run("CREATE DATABASE d")
        self._cursor = self._server.connect("d").cursor()
        for number in range(tables):
            self._cursor.execute(
                f"CREATE TABLE small{number} (a INT PRIMARY KEY, b INT, KEY (b)) ENGINE=ATOLL"
            )
            self._cursor.execute(f"INSERT INTO small{number} VALUES (1, 1)")
        print(f"{tables} tables", flush=True)
        self.milliseconds: dict[str, dict[str, list[float]]] = {
            engine: {name: [] for name in STATEMENTS} for engine in ENGINES
        }

    def round(self) -> None:
        for engine in ENGINES:
            self._fill(f"big_{engine}", engine)
            self._time(engine, ("add column", "drop column", "drop index", "truncate"))
            self._server.run(f"DROP TABLE d.big_{engine}")
            self._fill(f"big_{engine}", engine)
            self._time(engine, ("drop",))

    def stop(self) -> dict:
        report = {
            "server": self._server.version(),
            "rows": self._rows,
            "row_bytes": ROW_BYTES,
            "milliseconds": {
                engine: {
                    name: {"median": statistics.median(values), "min": min(values), "max": max(values)}
                    for name, values in steps.items()
                }
                for engine, steps in self.milliseconds.items()
            },
        }
        self._server.kill()
        discard(self._home)
        return report

    def _fill(self, table: str, engine: str) -> None:
        started = time.monotonic()
        self._cursor.execute(
            f"CREATE TABLE {table} (a INT PRIMARY KEY, b INT, c VARBINARY({ROW_BYTES}), KEY by_b (b)) "
            f"ENGINE={engine} SELECT seq AS a, seq MOD 1000 AS b, RANDOM_BYTES({ROW_BYTES}) AS c "
            f"FROM mysql.seq_1_to_{self._rows}"
        )
        print(f"{engine}: filled in {time.monotonic() - started:.0f} s", flush=True)

    def _time(self, engine: str, names: tuple[str, ...]) -> None:
        for name in names:
            statement = STATEMENTS[name].format(t=f"big_{engine}")
            started = time.monotonic()
            self._cursor.execute(statement)
            taken = (time.monotonic() - started) * 1000
            self.milliseconds[engine][name].append(taken)
            print(f"{engine:8} {name:12} {taken:8.1f} ms", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tables", type=int, default=5000)
    parser.add_argument("--gigabytes", type=float, default=10)
    parser.add_argument("--repeat", type=int, default=3)
    options = parser.parse_args()
    exit_cleanly_on_signals()
    benchmark = DdlBenchmark(options.tables, options.gigabytes)
    for _ in range(options.repeat):
        benchmark.round()
    report = {"tables": options.tables, **benchmark.stop()}
    output = paths.BUILD / "bench" / "ddl.json"
    output.parent.mkdir(parents=True, exist_ok=True)
    output.write_text(json.dumps(report, indent=2) + "\n")
    print(f"wrote {output.relative_to(paths.ROOT)}")


if __name__ == "__main__":
    main()
