"""TPC-H with InnoDB and ATOLL in one server: compares the plans and the answers, and measures the time of
both.

Both engines have the same data in one server, with the same optimizer, and ANALYZE has run on both. A plan is
the order of the tables, with access type and index. For each query the engines take turns; the caches are
warm, and the figures are medians.

    build/bin/python bench/tpch.py --scale 0.1 --repeat 3
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from common.compare import figure, summarize, summary_of_ratios
from common.report import Report
from harness import paths
from harness.process import discard, exit_cleanly_on_signals, scratch_directory
from harness.server import Server
from workloads.tpch_queries import QUERIES, TABLES

GENERATOR = "tpchgen-cli"
GENERATOR_VERSION = "4.0.0"
# Name of the setup in the reports -> its engine.
ENGINES = {"InnoDB": "InnoDB", "Atoll": "ATOLL"}
CACHE_BYTES = 512 << 20
# The queries whose plans may differ, and why. Any other difference makes the run fail.
EXPLAINED = {
    3: "a scan of customer, which runs on all cores and filters packed rows, instead of orders by date",
    5: "a rowid filter by date on the lookups of orders, at the edge of being worth it",
    12: "a scan of lineitem instead of a lookup of its rows for each order",
    18: "the same tables and indexes; the join with the subquery's result comes one step earlier",
}


def generate(scale: float, target: Path) -> None:
    """Writes one <table>.tbl per table. The generator is downloaded from PyPI, once per machine."""
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
    """Returns [table, access type, index] for each table, in the order of the plan."""
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
    """Returns for each query: the plans, whether plans and answers are the same, and the figures by setup."""
    connections = {setup: server.connect(engine) for setup, engine in ENGINES.items()}
    for connection in connections.values():
        with connection.cursor() as cursor:
            cursor.execute(f"SET max_statement_time = {timeout_s}")
    results = {}
    for number, query in QUERIES.items():
        plans = {setup: plan_of(connection, query) for setup, connection in connections.items()}
        runs: dict[str, list[dict[str, float]]] = {setup: [] for setup in ENGINES}
        answers = {}
        for repetition in range(repeat + 1):  # the first one warms the caches
            for setup, connection in connections.items():
                seconds, answers[setup] = run_query(connection, query)
                if repetition:
                    runs[setup].append({"seconds": seconds})
        results[number] = {
            "same_plan": plans["InnoDB"] == plans["Atoll"],
            "same_answer": answers["InnoDB"] == answers["Atoll"],
            "rows": len(answers["InnoDB"]),
            "plans": plans,
            "setups": summarize(runs),
        }
        print(line_of(number, results[number]), flush=True)
    return results


def line_of(number: int, result: dict[str, Any]) -> str:
    innodb, atoll = (figure(result, setup, "seconds") for setup in ENGINES)
    ratio = figure(result, "Atoll", "seconds", "ratio")
    plan = "same plan" if result["same_plan"] else EXPLAINED.get(number, "OTHER PLAN")
    answer = "same answer" if result["same_answer"] else "OTHER ANSWER"
    return (
        f"  Q{number:<3} InnoDB {innodb:7.3f} s  Atoll {atoll:7.3f} s  ratio {ratio:5.2f}  {answer}, {plan}"
    )


def report_of(
    results: dict[int, dict[str, Any]], loaded: dict[str, float], arguments: argparse.Namespace
) -> Report:
    """Makes the report. Different answers are a failure, and so are different plans if EXPLAINED does not
    name the query."""
    settings = {"scale": arguments.scale, "repetitions": arguments.repeat, "clients": 1,
                "caches": f"{CACHE_BYTES >> 20} MiB, warm", "values": "TPC-H's own"}  # fmt: skip
    command = f"make bench-tpch SCALE={arguments.scale} REPEAT={arguments.repeat}"
    text = (
        "All 22 queries on both engines in one server, with the same optimizer and statistics of ANALYZE; the answers "
        "are compared."
    )
    report = Report("tpch", "TPC-H", command, text, settings)
    for number, result in results.items():
        if not result["same_answer"]:
            report.failures[f"Q{number}"] = "the answers differ"
        elif not result["same_plan"] and number not in EXPLAINED:
            report.failures[f"Q{number}"] = "the plans differ"
    cases = {f"Q{number}": result for number, result in results.items()}
    report.results.update(
        queries=cases, load_seconds=loaded, summary={"setups": summary_of_ratios(cases, ["Atoll"], "seconds")}
    )
    report.add_comparison("Seconds of each query", cases, "seconds", list(ENGINES))
    rows = [
        [f"Q{number}", EXPLAINED.get(number, "")]
        for number, result in results.items()
        if not result["same_plan"]
    ]
    if rows:
        report.add_table("Plans that differ", ["", "Atoll's plan"], rows)
    return report


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--scale", type=float, default=float(os.environ.get("SCALE", "0.1")))
    parser.add_argument("--repeat", type=int, default=int(os.environ.get("REPEAT", "3")))
    parser.add_argument("--timeout", type=int, default=120, help="seconds for one query")
    arguments = parser.parse_args()
    exit_cleanly_on_signals()
    home = scratch_directory("tpch")
    server = Server(home, {"innodb-buffer-pool-size": CACHE_BYTES, "innodb-log-file-size": "512M",
                           "atoll-block-cache-size": CACHE_BYTES})  # fmt: skip
    try:
        generate(arguments.scale, home / "data-files")
        server.initialize().start()
        loaded = {setup: load(server, engine, home / "data-files") for setup, engine in ENGINES.items()}
        server.restart()
        results = compare(server, arguments.repeat, arguments.timeout)
        server.stop()
    finally:
        server.kill()
        discard(home)
    report = report_of(results, loaded, arguments)
    report.save()
    same_plans, same_answers = (
        sum(result[what] for result in results.values()) for what in ("same_plan", "same_answer")
    )
    median = report.results["summary"]["setups"]["Atoll"]["median"]["ratio"]
    print(
        f"{same_answers} of 22 answers and {same_plans} of 22 plans are the same; Atoll takes {median:.2f} of InnoDB"
    )
    return 0 if not report.failures else 1


if __name__ == "__main__":
    sys.exit(main())
