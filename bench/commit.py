"""Measures commits for each durability, number of clients and latency of the bucket, with and without binary
log.

Each transaction updates one row by its key (sysbench's oltp_update_non_index). Atoll's tables are on MinIO; a proxy on
this machine adds the latency to each request, and at 0 ms there is no proxy. InnoDB, on local disk, is the
baseline. The latency does not affect it, so its figures at 20 and 50 ms are further runs of the same case.

    build/bin/python bench/commit.py --threads 1,8,32,128 --latencies 0,20,50 --repeat 3
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from common import charts
from common.compare import figure, interleave
from common.fleet import arguments_parser, command_of, fleet, repetitions_of
from common.measure import wait_idle
from common.report import Report, spread, thousands, three_figures
from common.rig import BASELINE, MIB, SETUPS, Running, chosen_setups
from common.sysbench import fresh_seed, prepare_sysbench, run_sysbench
from harness.s3 import S3Client

REMOTE = "Atoll on MinIO"
DURABILITIES = ("local", "async", "sync")
DRAIN_TIMEOUT_S = 60
BARE_PUT_BYTES = 700  # about a chunk with one commit (docs/costs.md)
BARE_PUTS = 50
FIGURES = (
    ("tps", "Commits a second", thousands),
    ("latency_ms.p50", "Latency, median, ms", three_figures),
    ("latency_ms.p99", "Latency p99, ms", three_figures),
    ("latency_ms.p99.9", "Latency p99.9, ms", three_figures),
    ("latency_ms.max", "Latency, longest, ms", three_figures),
    ("requests", "Requests to the bucket per commit", three_figures),
    ("cpu_us", "CPU of the server per commit, µs", three_figures),
)


def label_of(name: str, durability: str) -> str:
    """Returns for example "Atoll sync" if the S3 server is MinIO, and "Atoll sync on versitygw" for another
    one."""
    return f"Atoll {durability}{name.removeprefix('Atoll').removesuffix(' on MinIO')}" if durability else name


def competitors(setups: list[str]) -> dict[str, tuple[str, str]]:
    """Returns label -> (setup, durability). A setup of Atoll with a remote bucket appears once for each
    durability."""
    found = {}
    for name in setups:
        for durability in DURABILITIES if SETUPS[name].remote else ("",):
            found[label_of(name, durability)] = (name, durability)
    return found


class Commits:
    """The servers of one half of the benchmark: those with, or those without, a binary log."""

    def __init__(self, runnings: dict[str, Running], report: Report, rows: int, seconds: float):
        self.runnings = runnings
        self.report = report
        self.rows = rows
        self.seconds = seconds
        self.labels = competitors(list(runnings))

    def load(self) -> None:
        for running in self.runnings.values():
            prepare_sysbench(running, {"table-size": self.rows})
            running.settle()

    def run(self, threads: int, latency_ms: float, repetitions: int) -> dict[str, Any]:
        """Runs all competitors in turn. Requires: the latency is set (set_latency)."""
        results = interleave(
            list(self.labels), repetitions,
            lambda label, _repetition: self._run_one(*self.labels[label], threads),
            failures=self.report.failures,
        )  # fmt: skip
        cells = [f"{label} {spread(results, label, 'tps', thousands)}/s" for label in results["setups"]]
        print(f"  {latency_ms:g} ms, clients: {threads}: {'; '.join(cells)}", flush=True)
        return results

    def set_latency(self, latency_ms: float) -> None:
        """Sets the latency of the bucket. Then reads the table, because a restart has left nothing of it in
        memory."""
        for running in self.runnings.values():
            if running.store:
                running.set_latency(latency_ms / 1000)
                running.execute("SELECT COUNT(c), COUNT(pad) FROM sbtest1", database="sbtest")
                self._time_bare_puts(running, latency_ms)

    def _time_bare_puts(self, running: Running, latency_ms: float) -> None:
        """Measures what the bucket itself takes. A `sync` commit of one client cannot be faster."""
        assert running.store is not None
        endpoint = running.s3_endpoint().removeprefix("http://")
        client = S3Client(endpoint, running.store.bucket, running.store.credentials)
        took = statistics.median(client.put_times_ms(BARE_PUT_BYTES, BARE_PUTS))
        name = f"a bare PUT of {BARE_PUT_BYTES} bytes at {latency_ms:g} ms"
        self.report.settings[name] = f"{took:.1f} ms, median of {BARE_PUTS}"
        print(f"  {name}: {took:.1f} ms", flush=True)

    def _run_one(self, name: str, durability: str, threads: int) -> dict[str, Any]:
        running = self.runnings[name]
        if durability:
            self._drain(running)
            running.set_durability(durability)
            self._drain(running)
        wait_idle(running, timeout_s=5)
        options = {"table-size": self.rows, "rand-type": "uniform", "rand-seed": fresh_seed(running)}
        return run_sysbench(
            running, "oltp_update_non_index", options, threads=threads, seconds=self.seconds, warmup_s=1
        )

    def _drain(self, running: Running) -> None:
        """Waits until the bucket has all commits of the previous run, so that their uploads do not slow down
        the next one.

        With durability `local` there is no wait, because no deadline makes the server ship the log.
        """
        deadline = time.monotonic() + DRAIN_TIMEOUT_S
        while running.server.value("SELECT @@atoll_durability") != "local" and time.monotonic() < deadline:
            status = running.server.status()
            if not int(status["atoll_wal_lag_bytes"]) and not int(status["atoll_upload_backlog_files"]):
                return
            time.sleep(0.05)


def add_tables(report: Report, found: dict[bool, dict[float, dict[int, Any]]], labels: list[str]) -> None:
    for binlog, by_latency in found.items():
        log = "binary log synced" if binlog else "no binary log"
        cases = {
            f"{latency:g} ms, {threads} client{'s' if threads > 1 else ''}": results
            for latency, by_threads in by_latency.items()
            for threads, results in by_threads.items()
        }
        for name, title, show in FIGURES:
            shown = labels if name != "requests" else [label for label in labels if "Atoll" in label]
            report.add_comparison(f"{title}, {log}", cases, name, shown, show=show)
        file = f"{report.name}-{'binlog' if binlog else 'plain'}.png"
        title = f"Commits a second, {log}"
        panels = {
            f"{latency:g} ms": _curves(by_threads, labels) for latency, by_threads in by_latency.items()
        }
        charts.lines(
            panels, report.add_chart(file, title), title=title, x_label="clients", y_label="commits a second",
            x_log=True, y_log=True,
        )  # fmt: skip


def _curves(by_threads: dict[int, Any], labels: list[str]) -> dict[str, list[tuple[float, float]]]:
    curves: dict[str, list[tuple[float, float]]] = {}
    for label in labels:
        values = [(threads, figure(results, label, "tps")) for threads, results in by_threads.items()]
        points = [(float(threads), value) for threads, value in values if value]
        if points:
            curves[label] = points
    return curves


def make_parser() -> argparse.ArgumentParser:
    parser = arguments_parser(__doc__.splitlines()[0], rows=100_000)
    parser.add_argument("--threads", default="", help="numbers of clients, by commas (1,8,32,128)")
    parser.add_argument("--latencies", default="", help="added to each request, ms, by commas (0,20,50)")
    parser.add_argument("--binlog", default="", help="off, on or both (both; quick: off)")
    return parser


def make_report(parser: argparse.ArgumentParser, arguments: argparse.Namespace, seconds: float) -> Report:
    settings = {
        "rows": arguments.rows, "keys": "uniform", "seconds of a run": f"{seconds:g}",
        "repetitions": repetitions_of(arguments), "caches": f"{arguments.memory_mib} MiB",
        "binary log": "off, and ROW with sync_binlog = 1",
        "lag": "atoll_lag_max_ms and atoll_lag_max_bytes are the defaults, 2000 ms and 64 MiB",
        "values": "sysbench's random digits, about 2 : 1",
    }  # fmt: skip
    text = (
        "Updates of one row by its key, each a transaction. `local`, `async` and `sync` are Atoll's durabilities with "
        "its tables on MinIO, or the S3 server that is named, on the same cores; InnoDB is on local disk. The latency "
        "is added to every request to the bucket."
    )
    command = command_of("bench-commit", parser, arguments)
    return Report("commit", "Commits by durability", command, text, settings, quick=arguments.quick)


def numbers_of(text: str, default: str) -> list[float]:
    return [float(number) for number in (text or default).split(",")]


def main() -> int:
    parser = make_parser()
    arguments = parser.parse_args()
    quick = arguments.quick
    setups = chosen_setups(arguments.setups, (BASELINE, REMOTE))
    clients = [int(number) for number in numbers_of(arguments.threads, "1,32" if quick else "1,8,32,128")]
    latencies = numbers_of(arguments.latencies, "0,20" if quick else "0,20,50")
    binlogs = {"off": [False], "on": [True], "both": [False, True]}[
        arguments.binlog or ("off" if quick else "both")
    ]
    seconds = arguments.seconds or (2 if quick else 5)
    report = make_report(parser, arguments, seconds)
    found: dict[bool, dict[float, dict[int, Any]]] = {}
    for binlog in binlogs:
        with fleet(setups, report, arguments.memory_mib * MIB, binlog=binlog) as runnings:
            commits = Commits(runnings, report, arguments.rows, seconds)
            commits.load()
            for latency_ms in latencies:
                commits.set_latency(latency_ms)
                found.setdefault(binlog, {})[latency_ms] = {
                    threads: commits.run(threads, latency_ms, repetitions_of(arguments))
                    for threads in clients
                }
    report.results["binlog"] = found
    add_tables(report, found, list(competitors(setups)))
    report.save()
    return 0 if not report.failures else 1


if __name__ == "__main__":
    sys.exit(main())
