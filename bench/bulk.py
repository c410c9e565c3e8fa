"""Measures statements that read or change many rows at once, compared with InnoDB and MyRocks.

Each change is committed, and CPU counts until the server is idle again, so that what an engine does later
counts too.

    build/bin/python bench/bulk.py --rows 200000 --repeat 3
"""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from common.compare import interleave, summary_of_ratios
from common.fleet import arguments_parser, command_of, engines_of, fleet, repetitions_of
from common.measure import cpu_clock_s, wait_idle
from common.report import Report
from common.rig import BASELINE, MIB, Running

DATABASE = "bulk"


@dataclass(frozen=True)
class Bulk:
    name: str
    statement: str
    before: tuple[str, ...] = ()  # not measured


FILL = "INSERT INTO w SELECT * FROM t"
STATEMENTS = (
    Bulk("UPDATE of all rows", "UPDATE t SET p = p + 1"),
    Bulk("UPDATE of all rows, indexed column", "UPDATE t SET k = k + 1"),
    Bulk("UPDATE of a tenth, all rows are scanned", "UPDATE t SET p = p + 1 WHERE f LIKE '%7'"),
    Bulk("UPDATE of 5 % by an index", "UPDATE t SET p = p + 1 WHERE k BETWEEN {rows} / 20 AND {rows} / 10"),
    Bulk("UPDATE by a join", "UPDATE t JOIN w ON t.id = w.id SET t.p = w.p + 1"),
    Bulk("INSERT ... SELECT", FILL, ("TRUNCATE w",)),
    Bulk("INSERT IGNORE, all rows exist", "INSERT IGNORE INTO w SELECT * FROM t"),
    Bulk("REPLACE of all rows", "REPLACE INTO w SELECT * FROM t"),
    Bulk("ON DUPLICATE KEY UPDATE of all rows", FILL + " ON DUPLICATE KEY UPDATE p = w.p + 1"),
    Bulk("DELETE of a tenth by a join", "DELETE w FROM w JOIN t USING (id) WHERE t.p % 10 = 0"),
    Bulk("DELETE of all rows", "DELETE FROM w", ("TRUNCATE w", FILL)),
    Bulk("CREATE TABLE ... SELECT", "CREATE TABLE x SELECT * FROM t", ("DROP TABLE IF EXISTS x",)),
    Bulk("FOR UPDATE of all rows", "SELECT COUNT(*) FROM (SELECT * FROM t FOR UPDATE) AS locked"),
    Bulk("COUNT with a condition", "SELECT COUNT(*) FROM t WHERE f LIKE '%7'"),
    Bulk("GROUP BY", "SELECT p % 100 AS part, COUNT(*) FROM t GROUP BY part"),
    Bulk("join by the primary key", "SELECT COUNT(*) FROM t JOIN w ON t.id = w.id AND w.p >= 0", ("TRUNCATE w", FILL)),
    Bulk("join by an index", "SELECT COUNT(*) FROM t JOIN w ON t.k = w.k"),
)  # fmt: skip


def load(running: Running, rows: int) -> None:
    running.execute(f"CREATE DATABASE {DATABASE}")
    running.execute(
        f"SET default_storage_engine = {running.engine}",
        "CREATE TABLE t (id INT PRIMARY KEY, k INT, p INT, f VARCHAR(100), KEY k (k))",
        "CREATE TABLE w LIKE t",
        "INSERT INTO t SELECT seq, seq, seq, CONCAT(REPEAT('abcdefghij', 8), seq) "
        f"FROM mysql.seq_1_to_{rows}",
        FILL,
        "ANALYZE TABLE t, w",
        database=DATABASE,
    )
    running.settle()


def run_one(running: Running, bulk: Bulk, rows: int) -> dict[str, Any]:
    engine = f"SET default_storage_engine = {running.engine}"
    with running.server.connect(DATABASE) as connection, connection.cursor() as cursor:
        for statement in (engine, *bulk.before):
            cursor.execute(statement)
        wait_idle(running)
        before, begin = cpu_clock_s(running.pid), time.monotonic()
        cursor.execute(bulk.statement.format(rows=rows))
        cursor.fetchall()
        spent_s = time.monotonic() - begin
        wait_idle(running)
        return {"spent_s": spent_s, "cpu_s": cpu_clock_s(running.pid) - before}


def main() -> int:
    parser = arguments_parser(__doc__.splitlines()[0], rows=200_000)
    parser.add_argument("--only", default="", help="names of statements that contain this")
    arguments = parser.parse_args()
    setups = engines_of(arguments)
    repetitions = repetitions_of(arguments)
    settings = {
        "rows": arguments.rows, "clients": 1, "repetitions": repetitions,
        "caches": f"{arguments.memory_mib} MiB", "durability of Atoll": "local",
    }  # fmt: skip
    report = Report(
        "bulk",
        "Many rows at once",
        command_of("bench-bulk", parser, arguments),
        "Statements that read or change all or many rows of a table with a primary key and an index.",
        settings,
        quick=arguments.quick,
    )
    with fleet(setups, report, arguments.memory_mib * MIB) as runnings:
        for running in runnings.values():
            load(running, arguments.rows)

        def case_of(bulk: Bulk) -> dict[str, Any]:
            return interleave(
                setups, repetitions, lambda name, _: run_one(runnings[name], bulk, arguments.rows)
            )

        chosen = [bulk for bulk in STATEMENTS if arguments.only in bulk.name]
        cases = {bulk.name: case_of(bulk) for bulk in chosen}
    others = [setup for setup in setups if setup != BASELINE]
    report.results["statements"] = cases
    for unit, title in (("spent_s", "time"), ("cpu_s", "CPU of the server, until it is idle")):
        found = summary_of_ratios(cases, others, unit)
        report.add_summary(f"Ratios to {BASELINE}: {title}", found)
        report.add_comparison(f"Seconds: {title}", cases, unit, setups)
    report.save()
    return 0 if not report.failures else 1


if __name__ == "__main__":
    sys.exit(main())
