"""TPC-H on InnoDB and ATOLL in one server: are plans and answers the same, and how long do both take.

Both engines hold the same data in one server, with the same optimizer; ANALYZE ran on both. A plan is the order of
tables with access type and index. Runs are interleaved (query by query, engine by engine), warm, medians.

    build/bin/python bench/tpch.py --scale 0.1 --repeat 3
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from harness import paths
from harness.process import discard, exit_cleanly_on_signals, scratch_directory
from harness.server import Server
from workloads.tpch_queries import QUERIES, TABLES

GENERATOR = "tpchgen-cli"
GENERATOR_VERSION = "4.0.0"
ENGINES = ("InnoDB", "ATOLL")
CACHE_BYTES = 512 << 20
# Plans that differ, and why. Any other difference fails the run.
EXPLAINED = {
    3: "a scan of customer, which runs on all cores and filters packed rows, instead of orders by date",
    5: "a rowid filter by date on the lookups of orders, at the edge of being worth it",
    12: "a scan of lineitem instead of a lookup of its rows for each order",
    18: "the same tables and indexes; the join with the subquery's result comes one step earlier",
}


def generate(scale: float, target: Path) -> None:
    """Writes one <table>.tbl per table. The generator comes from PyPI, once per machine."""
    home = paths.cache_dir() / "data" / f"{GENERATOR}-{GENERATOR_VERSION}"
    if not home.exists():
        requirement = f"{GENERATOR}=={GENERATOR_VERSION}"
        part = home.with_suffix(".part")
        command = [
            sys.executable,
            "-m",
            "pip",
            "install",
            "--quiet",
            "--no-deps",
            f"--target={part}",
            requirement,
        ]
        subprocess.run(command, check=True)
        part.rename(home)
    program = next(home.rglob("bin/tpchgen-cli"))
    program.chmod(0o755)
    subprocess.run([program, "-s", str(scale), "--output-dir", target], check=True)


def load(server: Server, engine: str, data: Path) -> float:
    """Creates and fills the engine's database; returns seconds."""
    started = time.perf_counter()
    server.run(f"CREATE DATABASE {engine} CHARACTER SET latin1 COLLATE latin1_bin")
    for table, columns in TABLES.items():
        server.run(
            f"CREATE TABLE {table} ({columns}) ENGINE={engine}",
            f"LOAD DATA INFILE '{data / table}.tbl' INTO TABLE {table} FIELDS TERMINATED BY '|' "
            "LINES TERMINATED BY '|\\n'",
            f"ANALYZE TABLE {table}",
            database=engine,
        )
    return time.perf_counter() - started


def plan_of(connection: Any, query: str) -> list[list[str]]:
    """Returns [table, access, index] in the order of the plan."""
    with connection.cursor() as cursor:
        cursor.execute("EXPLAIN " + query)
        names = [column[0] for column in cursor.description]
        rows = [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]
    return [[str(row["table"]), str(row["type"]), str(row["key"])] for row in rows]


def run_query(connection: Any, query: str) -> tuple[float, list[tuple]]:
    with connection.cursor() as cursor:
        started = time.perf_counter()
        cursor.execute(query)
        rows = list(cursor.fetchall())
        return time.perf_counter() - started, rows


def compare(server: Server, repeat: int, timeout_s: int) -> dict[int, dict[str, Any]]:
    connections = {engine: server.connect(engine) for engine in ENGINES}
    for connection in connections.values():
        with connection.cursor() as cursor:
            cursor.execute(f"SET max_statement_time = {timeout_s}")
    results = {}
    for number, query in QUERIES.items():
        plans = {engine: plan_of(connections[engine], query) for engine in ENGINES}
        seconds: dict[str, list[float]] = {engine: [] for engine in ENGINES}
        answers = {}
        for _ in range(repeat + 1):  # the first one warms
            for engine in ENGINES:
                spent, answers[engine] = run_query(connections[engine], query)
                seconds[engine].append(spent)
        medians = {engine: statistics.median(times[1:]) for engine, times in seconds.items()}
        results[number] = {
            "same_plan": plans["InnoDB"] == plans["ATOLL"],
            "same_answer": answers["InnoDB"] == answers["ATOLL"],
            "rows": len(answers["InnoDB"]),
            "plans": plans,
            "seconds": seconds,
            "ratio": medians["ATOLL"] / medians["InnoDB"],
        }
        print(line_of(number, results[number]), flush=True)
    return results


def line_of(number: int, result: dict[str, Any]) -> str:
    medians = {engine: statistics.median(result["seconds"][engine][1:]) for engine in ENGINES}
    plan = "same plan" if result["same_plan"] else EXPLAINED.get(number, "OTHER PLAN")
    answer = "same answer" if result["same_answer"] else "OTHER ANSWER"
    return (
        f"  Q{number:<3} InnoDB {medians['InnoDB']:7.3f} s  ATOLL {medians['ATOLL']:7.3f} s  "
        f"ratio {result['ratio']:5.2f}  {answer}, {plan}"
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--scale", type=float, default=float(os.environ.get("SCALE", "0.1")))
    parser.add_argument("--repeat", type=int, default=int(os.environ.get("REPEAT", "3")))
    parser.add_argument("--timeout", type=int, default=120, help="seconds for one query")
    parser.add_argument("--output", type=Path, default=paths.BUILD / "bench")
    arguments = parser.parse_args()
    exit_cleanly_on_signals()
    home = scratch_directory("tpch")
    server = Server(home, {"innodb-buffer-pool-size": CACHE_BYTES, "innodb-log-file-size": "512M",
                           "atoll-block-cache-size": CACHE_BYTES})  # fmt: skip
    try:
        generate(arguments.scale, home / "data-files")
        server.initialize().start()
        loaded = {engine: load(server, engine, home / "data-files") for engine in ENGINES}
        server.restart()
        results = compare(server, arguments.repeat, arguments.timeout)
        version = server.version()
        server.stop()
    finally:
        server.kill()
        discard(home)
    same_plans = sum(result["same_plan"] for result in results.values())
    same_answers = sum(result["same_answer"] for result in results.values())
    unexplained = [n for n, result in results.items() if not result["same_plan"] and n not in EXPLAINED]
    report = {
        "ok": same_answers == len(results) and not unexplained,
        "unexplained_plans": unexplained,
        "scale": arguments.scale,
        "repeat": arguments.repeat,
        "mariadb": version,
        "load_seconds": loaded,
        "same_plans": same_plans,
        "queries": results,
    }
    arguments.output.mkdir(parents=True, exist_ok=True)
    (arguments.output / "tpch.json").write_text(json.dumps(report, indent=1) + "\n")
    median = statistics.median(result["ratio"] for result in results.values())
    print(
        f"{same_answers} of 22 answers and {same_plans} of 22 plans are the same; ATOLL takes {median:.2f} of InnoDB"
    )
    return 0 if report["ok"] else 1


if __name__ == "__main__":
    sys.exit(main())
