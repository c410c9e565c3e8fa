"""Measures the cost of a transaction with each engine, by sysbench's own scripts, with one client and with
several.

The main figure is the server's CPU per transaction, because on a shared machine it varies less than time. The
tables are filled once per setup, then the server restarts, so that rows are in files and (after one scan) in
the caches. The servers of all setups stay up, but only one at a time gets statements. The setups take turns
within each repetition.

    build/bin/python bench/oltp.py --rows 200000 --threads 1,4 --repeat 3
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from common import charts
from common.compare import RUN_FAILURES, interleave
from common.fleet import arguments_parser, command_of, fleet
from common.measure import space, wait_idle
from common.report import Report, megabytes, spread, thousands, three_figures
from common.rig import MIB, SETUPS, Running, chosen_setups
from common.sysbench import fresh_seed, prepare_sysbench, run_sysbench

NO_STATEMENTS = {
    "point_selects": 0,
    "simple_ranges": 0,
    "sum_ranges": 0,
    "order_ranges": 0,
    "distinct_ranges": 0,
}
DELETED_SHARE = (
    10  # a run deletes at most one row in so many: then few of its statements meet a row already gone
)
SHRINKING, GROWING, BULK = "sbdelete", "sbinsert", "sbbulk"


@dataclass(frozen=True)
class Case:
    """One script with its options. It runs in `database`; a script that changes the number of rows has one of
    its own."""

    label: str
    script: str
    options: tuple[tuple[str, object], ...] = ()
    writes: bool = False
    database: str = "sbtest"


def _single(label: str, name: str) -> Case:
    """Returns a case that runs only one statement of oltp_read_only, without BEGIN and COMMIT."""
    return Case(label, "oltp_read_only", tuple({**NO_STATEMENTS, name: 1, "skip_trx": "on"}.items()))


# The cases that only read come first, so that they read the tables as they were loaded.
CASES = (
    Case("point select", "oltp_point_select"),
    _single("range of 100 rows", "simple_ranges"),
    _single("sum of 100 rows", "sum_ranges"),
    _single("100 rows ordered", "order_ranges"),
    _single("100 rows distinct", "distinct_ranges"),
    Case("10 secondary ranges", "select_random_ranges"),
    Case("10 points by IN", "select_random_points"),
    Case("read only (14 statements)", "oltp_read_only"),
    Case("update without index", "oltp_update_non_index", writes=True),
    Case("update with index", "oltp_update_index", writes=True),
    Case("write only (4 statements)", "oltp_write_only", writes=True),
    Case("read write (18 statements)", "oltp_read_write", writes=True),
    Case("insert", "oltp_insert", writes=True, database=GROWING),
    Case("delete", "oltp_delete", writes=True, database=SHRINKING),
    Case("bulk insert (per row)", "bulk_insert", writes=True, database=BULK),
)


class Oltp:
    """The servers with their tables loaded. Runs one case on one of them at a time."""

    def __init__(self, runnings: dict[str, Running], report: Report, rows: int, seconds: float):
        self.runnings = runnings
        self.report = report
        self.rows = rows
        self.seconds = seconds
        self._deleted: dict[str, int] = {}

    def load(self) -> None:
        """Fills the tables of every setup, then brings the rows from memory into files, and into the
        caches."""
        for name, running in list(self.runnings.items()):
            try:
                figures = self._load_one(running)
            except RUN_FAILURES as error:
                self.report.failures[name] = f"load: {type(error).__name__}: {error}"
                continue
            self.report.results.setdefault("load", {})[name] = figures
            print(
                f"  {name:18} loaded in {figures['wall_s']:.1f} s, {figures['space']['tables'] / 1e6:.1f} MB",
                flush=True,
            )

    def _load_one(self, running: Running) -> dict[str, Any]:
        options: dict[str, object] = {"table-size": self.rows}
        prepare_sysbench(running, options, database=GROWING)
        figures = prepare_sysbench(running, options)
        running.settle()
        running.restart()
        if running.setup.remote:
            running.set_durability("async")
        running.execute(
            "SELECT COUNT(c), COUNT(pad) FROM sbtest1",
            "SELECT COUNT(k) FROM sbtest1 FORCE INDEX (k_1) WHERE k >= 0",
            database="sbtest",
        )
        return {**figures, "space": space(running)}

    def run(self, case: Case, threads: int, repetitions: int) -> dict[str, Any]:
        results = interleave(
            list(self.runnings), repetitions,
            lambda name, repetition: self._run_one(self.runnings[name], case, threads, repetition),
            failures=self.report.failures,
        )  # fmt: skip
        cells = [
            f"{name} {spread(results, name, 'cpu_us', three_figures)} µs, {spread(results, name, 'tps', thousands)}/s"
            for name in results["setups"]
        ]
        print(f"  {case.label}, {threads}: {'; '.join(cells)}", flush=True)
        return results

    def _run_one(self, running: Running, case: Case, threads: int, repetition: int) -> dict[str, Any]:
        options: dict[str, object] = {
            "table-size": self.rows,
            "rand-type": "uniform",
            "rand-seed": fresh_seed(running),
            **dict(case.options),
        }
        events = 0
        if case.database == SHRINKING:
            events = max(self.rows // DELETED_SHARE, 1)
            self._fill_shrinking(running, events)
        if case.database == BULK:
            self._make_bulk_tables(running, threads)
            del options["table-size"]
        wait_idle(running)
        warmup_s = 1 if repetition == 0 and not case.writes and not self.report.quick else 0
        found = run_sysbench(
            running, case.script, options, threads=threads, seconds=self.seconds, events=events, warmup_s=warmup_s,
            database=case.database,
        )  # fmt: skip
        if case.database == SHRINKING:
            self._deleted[running.name] += found["transactions"]
        return found

    def _fill_shrinking(self, running: Running, deleted_max: int) -> None:
        """Fills the table of the deletions anew when at least `deleted_max` of its rows were deleted."""
        if self._deleted.get(running.name, deleted_max) >= deleted_max:
            prepare_sysbench(running, {"table-size": self.rows}, database=SHRINKING)
            running.settle()
            self._deleted[running.name] = 0

    def _make_bulk_tables(self, running: Running, threads: int) -> None:
        """Creates the tables of bulk_insert. The script itself would create them with the server's default
        engine."""
        running.execute(f"DROP DATABASE IF EXISTS {BULK}", f"CREATE DATABASE {BULK}")
        for number in range(1, threads + 1):
            running.execute(
                f"CREATE TABLE sbtest{number} (id INT NOT NULL, k INT DEFAULT '0' NOT NULL, PRIMARY KEY (id)) "
                f"ENGINE={running.engine_clause}",
                database=BULK,
            )


def add_tables(report: Report, by_threads: dict[int, dict[str, Any]], setups: list[str]) -> None:
    """Adds the tables and charts for the results to the report."""
    for threads, cases in by_threads.items():
        clients = "1 client" if threads == 1 else f"{threads} clients"
        report.add_comparison(f"CPU of the server per transaction, µs, {clients}", cases, "cpu_us", setups)
        report.add_comparison(f"Transactions a second, {clients}", cases, "tps", setups, show=thousands)
        for name, shown in (("p99", "p99"), ("p99.9", "p99.9"), ("max", "longest")):
            title = f"Latency {shown}, ms, {clients}"
            report.add_comparison(title, cases, f"latency_ms.{name}", setups, show=three_figures)
        writing = {case.label: cases[case.label] for case in CASES if case.writes and case.label in cases}
        text = "Log and what happened to be flushed meanwhile; longer runs show what each engine writes in the end."
        title = f"Bytes written per transaction, {clients}"
        report.add_comparison(title, writing, "bytes_written", setups, show=thousands, text=text)
        if any("MinIO" in name for name in setups):
            title = f"Requests to the bucket per transaction, {clients}"
            report.add_comparison(title, writing, "requests", setups, show=three_figures)
        target = report.add_chart(f"{report.name}-{threads}.png", f"CPU per transaction, {clients}")
        title = f"CPU of the server per transaction, {clients}, medians"
        charts.bars(cases, "cpu_us", setups, target, title=title, unit="µs")
    loads = report.results.get("load", {})
    rows = [
        [name, f"{load['wall_s']:.1f}", f"{load['cpu_s']:.1f}", megabytes(load["bytes_written"]),
         megabytes(load["space"]["tables"]), megabytes(load["rss_peak_bytes"])]
        for name, load in loads.items()
    ]  # fmt: skip
    header = ["", "seconds", "CPU s", "MB written", "tables on disk, MB", "peak RSS, MB"]
    report.add_table("Load (one table; on disk: two tables)", header, rows)


def make_parser() -> argparse.ArgumentParser:
    parser = arguments_parser(__doc__.splitlines()[0], rows=200_000)
    parser.add_argument("--threads", default="", help="numbers of clients, by commas (1,4)")
    parser.add_argument("--only", default="", help="labels of cases that contain this")
    return parser


def main() -> int:
    parser = make_parser()
    arguments = parser.parse_args()
    quick = arguments.quick
    setups = chosen_setups(arguments.setups, ("InnoDB", "Atoll") if quick else tuple(SETUPS))
    threads = [int(number) for number in (arguments.threads or ("1" if quick else "1,4")).split(",")]
    # Many short turns instead of one long one: then a disturbance of the machine affects both sides of a
    # ratio.
    repetitions, seconds = arguments.repeat or 3, arguments.seconds or (1 if quick else 5)
    settings = {
        "rows": arguments.rows, "keys": "uniform", "clients": ", ".join(map(str, threads)),
        "seconds of a run": f"{seconds:g}", "repetitions": repetitions,
        "caches": f"{arguments.memory_mib} MiB", "durability of Atoll": "local, on MinIO async",
        "values": "sysbench's random digits, about 2 : 1",
    }  # fmt: skip
    text = (
        "sysbench's own scripts on one table, and statements of oltp_read_only alone, without BEGIN and COMMIT. "
        "A transaction is one event of the script, in bulk_insert one row."
    )
    report = Report(
        "oltp", "sysbench", command_of("bench-oltp", parser, arguments), text, settings, quick=quick
    )
    with fleet(setups, report, arguments.memory_mib * MIB) as runnings:
        oltp = Oltp(runnings, report, arguments.rows, seconds)
        oltp.load()
        by_threads: dict[int, dict[str, Any]] = {number: {} for number in threads}
        for case in CASES:
            for number in threads if arguments.only in case.label else ():
                by_threads[number][case.label] = oltp.run(case, number, repetitions)
    report.results["clients"] = by_threads
    add_tables(report, by_threads, setups)
    report.save()
    return 0 if not report.failures else 1


if __name__ == "__main__":
    sys.exit(main())
