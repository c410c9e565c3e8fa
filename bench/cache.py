"""Measures reads with block caches from the size of the data down to almost nothing, with large and small
part caches.

The table files are only in the bucket (MinIO on this machine): each restart removes the local copies and
drops the page cache. A run scans the table once, cold; then, after a warm-up, it reads by key and in short
ranges, with uniform and Zipf-distributed keys. With "parts cached", all parts that were read stay on local
disk; with "few parts", at most 16 MiB of parts stay, the smallest possible size.

    build/bin/python bench/cache.py --rows 1000000 --repeat 3
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from common import charts
from common.compare import figure, interleave
from common.fleet import arguments_parser, command_of, fleet, repetitions_of
from common.measure import Measurement, wait_idle
from common.report import Report, spread, thousands, three_figures
from common.rig import MIB, Running, chosen_setups
from common.sysbench import fresh_seed, prepare_sysbench, run_sysbench
from harness.process import wait_until

REMOTE = "Atoll on MinIO"
READS_LUA = Path(__file__).resolve().parent / "reads.lua"
PARTS = {"parts cached": "10G", "few parts": "16M"}
FIRST = "parts cached"
LEAST_BYTES = 8 * MIB  # the minimum of atoll_block_cache_size
PUBLISH_TIMEOUT_S = 600
SHARES = (1.0, 0.5, 0.25, 0.1, 0.0)
ROW_BYTES = (
    260  # of a row in the block cache, with its share of index and filter; the secondary index is not read
)


@dataclass(frozen=True)
class Reads:
    label: str
    options: tuple[tuple[str, object], ...]


READS = (
    Reads("points, uniform", (("keys", "uniform"),)),
    Reads("points, Zipf 0.99", (("keys", "zipf"),)),
    Reads("ranges of 20 rows, uniform", (("keys", "uniform"), ("range_size", 20))),
    Reads("ranges of 20 rows, Zipf 0.99", (("keys", "zipf"), ("range_size", 20))),
)
FIGURES = (
    ("tps", "Reads a second", thousands),
    ("latency_ms.p50", "Latency, median, ms", three_figures),
    ("latency_ms.p99", "Latency p99, ms", three_figures),
    ("requests", "Requests to the bucket per read", three_figures),
    ("downloaded_mb_s", "From the bucket, MB/s", three_figures),
    ("block_hit_share", "Blocks found in the block cache, share", three_figures),
    ("cpu_us", "CPU of the server per read, µs", three_figures),
)


class CacheBenchmark:
    """One server with one bucket. It is restarted with the cache sizes of each cell of the result table."""

    def __init__(self, running: Running, report: Report, rows: int, seconds: float, clients: int):
        self.running = running
        self.report = report
        self.rows = rows
        self.seconds = seconds
        self.clients = clients

    def load(self) -> None:
        """Fills the table and waits until all its files are in the bucket."""
        prepare_sysbench(self.running, {"table-size": self.rows})
        self.running.settle()
        self.running.restart()
        self._wait_published()
        self.report.results["live_bytes"] = self.running.server.counter("Atoll_live_table_bytes")

    def _wait_published(self) -> None:
        server = self.running.server
        waiting = "Atoll_upload_backlog_files"
        wait_until(lambda: server.counter(waiting) == 0, PUBLISH_TIMEOUT_S, "the upload of all files")

    def run(self, share: float, repetitions: int) -> dict[str, Any]:
        """Runs all reads with a block cache of the given share of the data, with both sizes of the part cache
        in turn."""
        results = interleave(
            list(PARTS), repetitions, lambda parts, _repetition: self._run_one(share, parts), FIRST,
            self.report.failures,
        )  # fmt: skip
        for reads in READS:
            cells = [
                f"{parts} {spread(results, parts, f'{reads.label}.tps', thousands)}/s "
                f"{spread(results, parts, f'{reads.label}.requests', three_figures)} requests"
                for parts in results["setups"]
            ]
            print(f"  block cache {share:.0%}, {reads.label}: {'; '.join(cells)}", flush=True)
        return results

    def _run_one(self, share: float, parts: str) -> dict[str, Any]:
        size_bytes = max(round(share * self.rows * ROW_BYTES), LEAST_BYTES)
        self.running.restart(
            forget_local=True, atoll_block_cache_size=size_bytes, atoll_cache_size=PARTS[parts]
        )
        found: dict[str, Any] = {"cold scan": self._scan()}
        for reads in READS:
            found[reads.label] = self._read(reads)
        return found

    def _scan(self) -> dict[str, float]:
        """Measures the first scan of the whole table since the server's start. The scan also fills the
        caches."""
        measurement = Measurement.start(self.running)
        self.running.execute("SELECT COUNT(c), COUNT(pad) FROM sbtest1", database="sbtest")
        server = measurement.stop()
        downloaded = server["counters"].get("atoll_bytes_downloaded", 0)
        return {
            "seconds": server["wall_s"],
            "requests": server["bucket_requests"],
            "downloaded_mb": downloaded / 1e6,
            "downloaded_mb_s": downloaded / 1e6 / server["wall_s"],
        }

    def _read(self, reads: Reads) -> dict[str, Any]:
        options = {"table_size": self.rows, "rand-seed": fresh_seed(self.running), **dict(reads.options)}
        wait_idle(self.running, timeout_s=5)
        found = run_sysbench(
            self.running, READS_LUA, options, threads=self.clients, seconds=self.seconds,
            warmup_s=max(self.seconds / 2, 1),
        )  # fmt: skip
        counters = found["server"]["counters"]
        hits, misses = (counters.get(f"atoll_block_cache_{what}", 0) for what in ("hits", "misses"))
        found["downloaded_mb_s"] = counters.get("atoll_bytes_downloaded", 0) / 1e6 / found["wall_s"]
        found["block_hit_share"] = hits / max(hits + misses, 1)
        return found


def label_of_share(share: float) -> str:
    return f"{share:.0%} of the data" if share else "8 MiB (the least)"


def add_tables(report: Report, found: dict[float, dict[str, Any]]) -> None:
    parts = list(PARTS)
    cases = {label_of_share(share): results for share, results in found.items()}
    for reads in READS:
        rows = []
        for share, results in cases.items():
            for name in parts:
                cells = [spread(results, name, f"{reads.label}.{what}", show) for what, _, show in FIGURES]
                rows.append([share, name, *cells])
        report.add_table(
            reads.label, ["block cache", "local disk", *(title for _, title, _ in FIGURES)], rows
        )
    scans = (("seconds", three_figures), ("requests", thousands), ("downloaded_mb", three_figures),
             ("downloaded_mb_s", three_figures))  # fmt: skip
    rows = [
        [share, name, *(spread(results, name, f"cold scan.{what}", show) for what, show in scans)]
        for share, results in cases.items()
        for name in parts
    ]
    header = ["block cache", "local disk", "seconds", "requests", "downloaded, MB", "MB/s"]
    report.add_table("Scan of the whole table, cold", header, rows)
    panels = {reads.label: _curves(found, reads) for reads in READS}
    charts.lines(
        panels, report.add_chart(f"{report.name}.png", "Reads a second by size of the block cache"),
        title="Reads a second by size of the block cache", x_label="block cache, share of the data",
        y_label="reads a second",
    )  # fmt: skip


def _curves(found: dict[float, dict[str, Any]], reads: Reads) -> dict[str, list[tuple[float, float]]]:
    curves: dict[str, list[tuple[float, float]]] = {}
    for name in PARTS:
        values = [(share, figure(results, name, f"{reads.label}.tps")) for share, results in found.items()]
        curves[name] = [(share, value) for share, value in values if value]
    return {name: points for name, points in curves.items() if points}


def make_parser() -> argparse.ArgumentParser:
    parser = arguments_parser(__doc__.splitlines()[0], rows=0)
    parser.add_argument("--threads", type=int, default=4, help="number of clients")
    return parser


def main() -> int:
    parser = make_parser()
    arguments = parser.parse_args()
    quick = arguments.quick
    rows = arguments.rows or (200_000 if quick else 1_000_000)
    seconds = arguments.seconds or (2 if quick else 10)
    shares = (1.0, 0.0) if quick else SHARES
    settings = {
        "rows": thousands(rows), "clients": arguments.threads, "seconds of a run": f"{seconds:g}",
        "repetitions": repetitions_of(arguments), "data": f"{rows * ROW_BYTES / 1e6:.0f} MB in the block cache",
        "bucket": "MinIO on the same cores, no latency added",
        "local cache of parts": ", ".join(f"{name}: {size}" for name, size in PARTS.items()),
        "values": "sysbench's random digits, about 2 : 1",
    }  # fmt: skip
    text = (
        "Reads of one column of sysbench's table by primary key, prepared statements, autocommit. The table files are "
        "only in the bucket; local disk holds copies of the parts that were read, as many as the cache of parts allows."
    )
    command = command_of("bench-cache", parser, arguments)
    report = Report("cache", "Reads and caches", command, text, settings, quick=quick)
    found: dict[float, dict[str, Any]] = {}
    with fleet(chosen_setups(arguments.setups, (REMOTE,)), report) as runnings:
        for running in runnings.values():
            benchmark = CacheBenchmark(running, report, rows, seconds, arguments.threads)
            benchmark.load()
            for share in shares:
                found[share] = benchmark.run(share, repetitions_of(arguments))
    report.results["block cache"] = found
    add_tables(report, found)
    report.save()
    return 0 if not report.failures else 1


if __name__ == "__main__":
    sys.exit(main())
