"""The archive experiment: one table moved into each engine, queried, indexed, and moved back.

All engines run on one machine. In each repetition every engine takes its turn (A B C D, A B C D), so that a
slow change of the machine's speed affects all of them. Each turn has a server process, data directory and
bucket of its own. Cold means: the server was restarted, the page cache dropped and the part cache emptied.

    build/bin/python bench/archive.py --rows 4000000 --engines InnoDB,ROCKSDB,S3,ATOLL --repeat 3
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import platform
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pymysql

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from harness import datasets, disk, paths
from harness.objectstores import Minio
from harness.process import discard, exit_cleanly_on_signals, scratch_directory
from harness.proxy import FaultProxy
from harness.s3 import S3Client, S3Error
from harness.server import Server, ServerFailed
from workloads import archive_report
from workloads.archive_engines import Bucket, Variant, variants_of

QUERY = "SELECT COUNT(*), MD5(GROUP_CONCAT(description ORDER BY description)) FROM s3test WHERE id = 8"
QUERIED_ID = 8


class WrongResult(Exception):
    """An engine answered the query with other rows than the file has."""


# Failures of one engine that are only noted: the other engines still run, and their figures are kept.
RUN_FAILURES = (pymysql.Error, OSError, KeyError, ServerFailed, WrongResult, S3Error)


@dataclass
class Run:
    """The figures of one variant in one repetition: seconds by step, requests by step and kind."""

    seconds: dict[str, float] = field(default_factory=dict)
    requests: dict[str, dict[str, int]] = field(default_factory=dict)
    sizes_bytes: dict[str, int] = field(default_factory=dict)
    rss_peak_bytes: dict[str, int] = field(default_factory=dict)


class Experiment:
    """Runs one variant once, with one bucket, and fills a Run."""

    def __init__(
        self,
        variant: Variant,
        home: Path,
        bucket: Bucket,
        rows_file: Path,
        expected: tuple[int, str],
        counters: Callable[[Server], dict[str, int]],
    ):
        self.variant = variant
        self.bucket = bucket
        self.rows_file = rows_file
        self.expected = expected
        self.run = Run()
        self._counters = counters
        self.server = Server(home, variant.options(bucket), variant.plugins)

    def execute(self) -> Run:
        server, variant = self.server.initialize().start(), self.variant
        self._load()
        self._timed("alter_in", *variant.alter_in(), after=lambda: self._published("alter_in_published"))
        self.run.sizes_bytes["table"] = variant.size_bytes(server, self.bucket)
        self._query_three_ways("query_plain")
        self._timed(
            "add_index",
            "ALTER TABLE s3test ADD INDEX by_id (id)",
            after=lambda: self._published("add_index_published"),
        )
        self.run.sizes_bytes["table_and_index"] = variant.size_bytes(server, self.bucket)
        self._query_three_ways("query_index")
        self._timed("drop_index", "ALTER TABLE s3test DROP INDEX by_id")
        self._timed("alter_back", f"ALTER TABLE s3test ENGINE={variant.source_engine}")
        self._check(server.run(QUERY, database="bench")[0], "after ALTER back")
        self._note_memory("alter_back")
        server.stop()
        return self.run

    def _load(self) -> None:
        engine = self.variant.source_engine
        self.server.run(
            "CREATE DATABASE bench CHARACTER SET latin1",
            f"CREATE TABLE bench.s3test (id INT, description VARCHAR(40)) ENGINE={engine}",
        )
        self._timed("load", f"LOAD DATA INFILE '{self.rows_file}' INTO TABLE s3test")

    def _query_three_ways(self, name: str) -> None:
        """Runs the query cold, then again, and for Atoll also cold with its disk cache of parts kept."""
        self._restart(empty_cache=True)
        self._timed(f"{name}_cold", QUERY, check=True)
        self._timed(f"{name}_again", QUERY, check=True)
        if self.variant.engine == "ATOLL":
            self._restart(empty_cache=False)
            self._timed(f"{name}_cold_cache_kept", QUERY, check=True)
        self._note_memory(name)

    def _restart(self, empty_cache: bool) -> None:
        self._note_memory("before_restart")
        self.server.stop()
        if empty_cache:
            self.variant.forget_local(self.server.data)
        disk.drop_page_cache(self.server.data)
        self.server.start()

    def _timed(
        self, step: str, *statements: str, check: bool = False, after: Callable[[], None] | None = None
    ) -> None:
        connection = self.server.connect("bench")
        before = self._counters(self.server)
        started = time.perf_counter()
        with connection.cursor() as cursor:
            for statement in statements:
                cursor.execute(statement)
                rows = cursor.fetchall()
        self.run.seconds[step] = time.perf_counter() - started
        if after:
            after()
        later = self._counters(self.server)
        self.run.requests[step] = {kind: later[kind] - before.get(kind, 0) for kind in later}
        connection.close()
        if check:
            self._check(rows[0], step)
        print(f"    {self.variant.label:15} {step:28} {self.run.seconds[step]:8.3f} s", flush=True)

    def _published(self, step: str) -> None:
        """Adds the time from the start of the statement until all its data were in the bucket."""
        started = time.perf_counter()
        self.variant.wait_published(self.server)
        statement = self.run.seconds[step.removesuffix("_published")]
        if self.variant.remote:
            self.run.seconds[step] = statement + time.perf_counter() - started

    def _check(self, row: tuple, step: str) -> None:
        if tuple(row) != self.expected:
            raise WrongResult(f"{self.variant.label}, {step}: {row}, expected {self.expected}")

    def _note_memory(self, phase: str) -> None:
        peaks = self.run.rss_peak_bytes
        peaks[phase] = max(peaks.get(phase, 0), self.server.rss_peak_bytes())


def expected_answer(rows_file: Path) -> tuple[int, str]:
    """Computes the query's answer from the data file, so that the check does not rely on any of the engines.

    The rows are sorted without regard to case, as the column's collation makes GROUP_CONCAT sort them.
    """
    prefix = f"{QUERIED_ID}\t"
    with open(rows_file) as lines:
        found = [line[len(prefix) : -1] for line in lines if line.startswith(prefix)]
    found.sort(key=str.upper)
    return len(found), hashlib.md5(",".join(found).encode()).hexdigest()


def atoll_counters(server: Server) -> dict[str, int]:
    """Returns the engine's own request counters; empty for other engines."""
    prefix = "atoll_requests_"
    return {
        name.removeprefix(prefix): int(value) for name, value in server.status("Atoll\\_requests%").items()
    }


class Benchmark:
    """Runs all variants in all repetitions, with one MinIO server for all."""

    def __init__(self, rows: int, repeat: int, variants: list[Variant]):
        self.rows = rows
        self.repeat = repeat
        self.variants = variants
        self.home = scratch_directory("bench")
        self.minio = Minio(self.home / "minio").start()
        self.rows_file = datasets.write_s3test(self.home / "s3test.tsv", rows)
        self.expected = expected_answer(self.rows_file)
        self.runs: dict[str, list[Run]] = {variant.label: [] for variant in variants}
        self.request_counts: dict[str, dict[str, dict[str, int]]] = {}
        self.failures: dict[str, str] = {}
        self.versions: dict[str, str] = {}

    def execute(self, count_requests: bool) -> None:
        for repetition in range(self.repeat):
            print(f"  repetition {repetition + 1} of {self.repeat}", flush=True)
            for variant in self.variants:
                self._one(variant, repetition)
        if count_requests:
            print("  request counts, untimed, through a counting proxy", flush=True)
            for variant in self.variants:
                if variant.remote and variant.label not in self.failures:
                    self._count(variant)

    def _one(self, variant: Variant, repetition: int) -> None:
        if variant.label in self.failures:
            return
        bucket = self._bucket(f"run-{variant.engine}-{variant.compression}-{repetition}".lower())
        try:
            run = self._experiment(variant, bucket, atoll_counters)
        except RUN_FAILURES as error:
            self.failures[variant.label] = f"{type(error).__name__}: {error}"
            print(f"    {variant.label:15} FAILED: {error}", flush=True)
        else:
            self.runs[variant.label].append(run)
        self._empty(bucket)

    def _count(self, variant: Variant) -> None:
        proxy = FaultProxy(self.minio.endpoint)
        bucket = self._bucket(f"count-{variant.engine}-{variant.compression}".lower())
        through = Bucket(proxy.endpoint, bucket.name, bucket.credentials)
        try:
            self.request_counts[variant.label] = self._experiment(
                variant, through, lambda _server: proxy.counts()
            ).requests
        except RUN_FAILURES as error:
            self.failures[variant.label + " (counting)"] = f"{type(error).__name__}: {error}"
        finally:
            proxy.stop()
            self._empty(bucket)

    def _experiment(
        self, variant: Variant, bucket: Bucket, counters: Callable[[Server], dict[str, int]]
    ) -> Run:
        home = scratch_directory("run")
        experiment = Experiment(variant, home, bucket, self.rows_file, self.expected, counters)
        try:
            return experiment.execute()
        finally:
            if experiment.server.running():
                self.versions["mariadb"] = experiment.server.version()
            experiment.server.kill()
            discard(home)

    def _bucket(self, name: str) -> Bucket:
        S3Client(self.minio.endpoint, name, self.minio.credentials).create_bucket()
        return Bucket(self.minio.endpoint, name, self.minio.credentials)

    def _empty(self, bucket: Bucket) -> None:
        client = bucket.client()
        for item in client.list():
            client.delete(item.key)


def describe_machine() -> dict[str, object]:
    memory = Path("/proc/meminfo").read_text().splitlines()[0].split()[1]
    return {
        "cpus": os.cpu_count(),
        "memory_bytes": int(memory) * 1024,
        "kernel": platform.release(),
        "python": platform.python_version(),
    }


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=int(os.environ.get("ROWS", "4000000")))
    parser.add_argument("--engines", default=os.environ.get("ENGINES", "InnoDB,ROCKSDB,S3,ATOLL"))
    parser.add_argument("--repeat", type=int, default=int(os.environ.get("REPEAT", "3")))
    parser.add_argument(
        "--compressions",
        default=os.environ.get("COMPRESSIONS", ""),
        help="only these of Atoll's compressions, e.g. zstd,none",
    )
    parser.add_argument("--no-counts", action="store_true", help="skip the untimed pass that counts requests")
    parser.add_argument("--output", type=Path, default=paths.BUILD / "bench")
    return parser.parse_args()


def main() -> int:
    arguments = parse_arguments()
    exit_cleanly_on_signals()
    compressions = [name for name in arguments.compressions.split(",") if name]
    variants = variants_of(arguments.engines.split(","), compressions)
    print(f"archive benchmark: {arguments.rows} rows, {', '.join(v.label for v in variants)}", flush=True)
    benchmark = Benchmark(arguments.rows, arguments.repeat, variants)
    benchmark.execute(count_requests=not arguments.no_counts)
    report = archive_report.build(benchmark, describe_machine())
    arguments.output.mkdir(parents=True, exist_ok=True)
    (arguments.output / "archive.json").write_text(json.dumps(report, indent=1) + "\n")
    archive_report.draw(report, arguments.output / "archive.png")
    print(archive_report.as_text(report))
    return 0 if report["ok"] else 1


if __name__ == "__main__":
    sys.exit(main())
