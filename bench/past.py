"""Measures the cost of snapshots, clones, mounts and restores of a database with a table of a given size.

Every repetition has a fresh server. Its steps are: load; flush; a clone of the table inside the server; a
snapshot while clients commit; a clone of the database, with a server of its own; a mount of the snapshot, and
scans of the table and of the mounted table. Then clients write for a while, the database is restored to the
middle of that time, and another server opens the restored state. A ledger outside of the server says which
rows it must have. For InnoDB, a copy of the table is measured for comparison.

    build/bin/python bench/past.py --bytes 1073741824 --repeat 3
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from common.compare import interleave
from common.figure_table import Line, add_figures, draw_figures
from common.fleet import arguments_parser, command_of, repetitions_of
from common.report import Report, three_figures
from common.rig import BASELINE, MIB, Running, chosen_setups, start_setup
from harness import disk, paths
from harness.atollctl import utc
from harness.process import discard, scratch_directory
from harness.server import Server

ROW_BYTES = 1000
CLIENTS = 4
ROWS_OF_TRANSACTION = 10
WATCHED_S = 3.0  # commits before the snapshot, to compare with
TABLE = "d.t"
LINES = (
    Line("a copy of the table by INSERT ... SELECT, s", "copy_s", three_figures),
    Line("a clone of it by ATOLL_CLONE_TABLE, s", "clone_s", three_figures),
    Line("uploaded for the clone, MB", "clone_uploaded_mb", three_figures),
    Line("a snapshot while clients commit, s", "snapshot_s", three_figures),
    Line("longest commit before it, ms", "pause_ms.before", three_figures),
    Line("longest commit during it, ms", "pause_ms.during", three_figures),
    Line("a clone of the database, until its server answers, s", "child_s", three_figures),
    Line("table files that the clone wrote, from the log", "child_files", three_figures),
    Line("bytes of them, MB", "child_mb", three_figures),
    Line("a mount of the snapshot, s", "mount_s", three_figures),
    Line("a restore to a moment, until its server answers, s", "restore.s", three_figures),
    Line("log written around that moment, MB", "restore.log_mb", three_figures),
    Line("transactions that came back", "restore.transactions", three_figures),
    Line("a scan of the table, not in memory, s", "scan.present_s", three_figures),
    Line("the same in the mount, s", "scan.mount_s", three_figures),
)


class Commits:
    """Clients that commit small transactions and note the duration of each commit."""

    def __init__(self, server: Server):
        self._server = server
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=self._work, args=(number,)) for number in range(CLIENTS)]
        self.took: list[tuple[float, float]] = []  # begin of the commit, its milliseconds

    def __enter__(self) -> Commits:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def longest_ms(self, begin: float, end: float) -> float:
        """Returns the longest duration of all commits that were running at some time between `begin` and
        `end`."""
        return max((ms for at, ms in list(self.took) if at < end and at + ms / 1000 > begin), default=0.0)

    def _work(self, number: int) -> None:
        cursor = self._server.connect().cursor()
        count = 0
        while not self._stop.is_set():
            begin = time.monotonic()
            cursor.execute(f"INSERT INTO d.commits VALUES ({number}, {count}, 'x')")
            self.took.append((begin, (time.monotonic() - begin) * 1000))
            count += 1


def seconds_of(running: Running, statement: str) -> float:
    begin = time.monotonic()
    running.execute(statement)
    return time.monotonic() - begin


def load(running: Running, table_bytes: int) -> None:
    running.execute(
        "CREATE DATABASE d",
        f"CREATE TABLE d.commits (client INT, number INT, body TEXT, PRIMARY KEY (client, number)) "
        f"ENGINE={running.engine_clause}",
        f"CREATE TABLE {TABLE} (a INT PRIMARY KEY, b INT, c VARBINARY({ROW_BYTES}), KEY by_b (b)) "
        f"ENGINE={running.engine_clause} SELECT seq AS a, seq MOD 1000 AS b, "
        f"CONCAT(RANDOM_BYTES({ROW_BYTES // 2}), REPEAT('x', {ROW_BYTES // 2})) AS c "
        f"FROM mysql.seq_1_to_{table_bytes // ROW_BYTES}",
    )
    running.settle()


def clone_table(running: Running) -> dict[str, float]:
    running.execute("SELECT ATOLL_SNAPSHOT('all is in the bucket')")
    before = running.server.counter("Atoll_bytes_uploaded")
    seconds = seconds_of(running, f"SELECT ATOLL_CLONE_TABLE('{TABLE}', 'd.clone')")
    uploaded = running.server.counter("Atoll_bytes_uploaded") - before
    return {"clone_s": seconds, "clone_uploaded_mb": uploaded / 1e6}


def take_snapshot(running: Running) -> dict[str, Any]:
    with Commits(running.server) as commits:
        start = time.monotonic()
        time.sleep(WATCHED_S)
        begin = time.monotonic()
        running.execute("SELECT ATOLL_SNAPSHOT('measured')")
        end = time.monotonic()
    pauses = {"before": commits.longest_ms(start, begin), "during": commits.longest_ms(begin, end)}
    return {"snapshot_s": end - begin, "pause_ms": pauses}


class Writers(Commits):
    """Clients that write as fast as they can and keep a ledger of their transactions."""

    def __init__(self, server: Server):
        super().__init__(server)
        # For each client and transaction: the begin and the end of its commit, in microseconds since 1970.
        self.ledger: list[list[tuple[int, int]]] = [[] for _ in range(CLIENTS)]

    def __enter__(self) -> Writers:
        super().__enter__()
        return self

    def _work(self, number: int) -> None:
        cursor = self._server.connect().cursor()
        ledger = self.ledger[number]
        while not self._stop.is_set():
            count = len(ledger)
            rows = ", ".join(
                f"({number}, {count}, {row}, RANDOM_BYTES({ROW_BYTES}))" for row in range(ROWS_OF_TRANSACTION)
            )
            cursor.execute("BEGIN")
            cursor.execute(f"INSERT INTO d.writes VALUES {rows}")
            cursor.execute(
                f"UPDATE d.writes SET body = 'x' WHERE client = {number} AND number = {count // 2}"
            )
            begin = time.time_ns() // 1000
            cursor.execute("COMMIT")
            ledger.append((begin, time.time_ns() // 1000))

    def check(self, child: Server, moment_us: int) -> int:
        """Returns how many transactions the child holds. Errors: RuntimeError when these are not the
        transactions that were committed at this moment."""
        found: dict[int, tuple[int, int]] = {
            client: (count, rows)
            for client, count, rows in child.run(
                "SELECT client, COUNT(DISTINCT number), COUNT(*) FROM d.writes GROUP BY client"
            )
        }
        for client, ledger in enumerate(self.ledger):
            count, rows = found.get(client, (0, 0))
            committed = sum(end <= moment_us for _, end in ledger)
            begun = sum(begin <= moment_us for begin, _ in ledger)
            if not committed <= count <= begun or rows != count * ROWS_OF_TRANSACTION:
                raise RuntimeError(
                    f"client {client}: {count} transactions and {rows} rows came back; committed {committed} to {begun}"
                )
        return sum(count for count, _ in found.values())


class Child:
    """A second server for a database that atollctl makes from the running server's bucket, in a prefix beside
    it."""

    def __init__(self, running: Running, name: str):
        self._running = running
        self._options = {**running.server.options, **running.start_options}
        if running.store:
            self.url = f"s3://{running.store.bucket}/{name}"
            self.folder = running.store.home / "objects" / running.store.bucket / name
        else:
            self.folder = running.home / f"{name}-bucket"
            self.url = f"file://{self.folder}"
        options = self._options | {"atoll-url": self.url}
        self.server = Server(running.home / name, options, running.setup.plugins).initialize()

    def make(self, command: str, *behind: str) -> None:
        """Runs atollctl. Errors: CalledProcessError."""
        parent = str(self._options.get("atoll-url", f"file://{self._running.server.data}/atoll_bucket"))
        keys = {
            name.replace("-", "_").upper(): str(value)
            for name, value in self._options.items()
            if name.startswith("atoll-s3-")
        }
        subprocess.run(
            [str(paths.program("atollctl")), command, parent, *behind],
            env=os.environ | keys, capture_output=True, check=True,
        )  # fmt: skip


def clone_database(running: Running) -> dict[str, float]:
    """Measures the time of `atollctl clone` and of the start of a server on the clone, until that server has
    read a row."""
    child = Child(running, "child")
    begin = time.monotonic()
    child.make("clone", child.url, "--snapshot", "measured")
    try:
        child.server.start()
        child.server.run(f"SELECT b FROM {TABLE} WHERE a = 1")
        seconds = time.monotonic() - begin
        sizes = [
            size
            for path, size in disk.file_sizes(child.folder).items()
            if "sst" in path.relative_to(child.folder).parts
        ]
        return {"child_s": seconds, "child_files": float(len(sizes)), "child_mb": sum(sizes) / 1e6}
    finally:
        child.server.kill()


def restore(running: Running, history_s: int) -> dict[str, Any]:
    """Measures the time of `atollctl restore` to the middle of a period of many writes, and of the start of a
    server on the result."""
    running.execute(
        f"SET GLOBAL atoll_history_retention = {2 * history_s + 3600}",
        "CREATE TABLE d.writes (client INT, number INT, part INT, body VARBINARY(1000), "
        f"PRIMARY KEY (client, number, part), KEY by_body (body(8))) ENGINE={running.engine_clause}",
    )
    before = running.server.counter("Atoll_work_log_bytes")
    with Writers(running.server) as writers:
        time.sleep(history_s / 2)
        moment_us = time.time_ns() // 1000
        time.sleep(history_s / 2)
    written = running.server.counter("Atoll_work_log_bytes") - before
    running.execute("SELECT ATOLL_SNAPSHOT('the end of the history is in the bucket')")
    child = Child(running, "restored")
    begin = time.monotonic()
    child.make("restore", "--at", utc(moment_us), "--to", child.url)
    try:
        child.server.start()
        child.server.run("SELECT number FROM d.writes LIMIT 1")
        seconds = time.monotonic() - begin
        transactions = writers.check(child.server, moment_us)
    finally:
        child.server.kill()
    return {"restore": {"s": seconds, "log_mb": written / 1e6, "transactions": float(transactions)}}


def mount(running: Running) -> dict[str, Any]:
    seconds = seconds_of(running, "SELECT ATOLL_MOUNT('d', 'past', 'measured')")

    def scan(table: str) -> float:
        cache = running.execute("SELECT @@atoll_block_cache_size")[0][0]
        running.execute(
            "SET GLOBAL atoll_block_cache_size = 0", f"SET GLOBAL atoll_block_cache_size = {cache}"
        )
        return seconds_of(running, f"SELECT SUM(LENGTH(c)) FROM {table}")

    scan(TABLE)  # so that part cache and page cache have the files before both scans
    return {"mount_s": seconds, "scan": {"present_s": scan(TABLE), "mount_s": scan("past.t")}}


def run_one(name: str, table_bytes: int, history_s: int, memory_bytes: int, report: Report) -> dict[str, Any]:
    home = scratch_directory("b")
    running = start_setup(name, memory_bytes, home / name.split()[-1])
    try:
        report.note(running)
        load(running, table_bytes)
        found: dict[str, Any] = {}
        if running.engine == "ATOLL":
            found = {
                **clone_table(running),
                **take_snapshot(running),
                **clone_database(running),
                **mount(running),
                **restore(running, history_s),
            }
        running.execute(f"CREATE TABLE d.copy LIKE {TABLE}")
        found["copy_s"] = seconds_of(running, f"INSERT INTO d.copy SELECT * FROM {TABLE}")
        print(f"  {name}: {found}", flush=True)
        return found
    finally:
        running.destroy()
        discard(home)


def main() -> int:
    parser = arguments_parser(__doc__.splitlines()[0])
    parser.add_argument("--bytes", type=int, default=1 << 30, help="of the table's rows")
    parser.add_argument(
        "--history-s", type=int, default=600, help="seconds of writes to restore a moment from"
    )
    arguments: argparse.Namespace = parser.parse_args()
    table_bytes = arguments.bytes if not arguments.quick else min(arguments.bytes, 64 * MIB)
    history_s = arguments.history_s if not arguments.quick else min(arguments.history_s, 20)
    setups = chosen_setups(arguments.setups, (BASELINE, "Atoll", "Atoll on MinIO"))
    settings = {
        "rows": f"{table_bytes // ROW_BYTES:,} of {ROW_BYTES} bytes, half of which compress, and an index",
        "repetitions": repetitions_of(arguments), "caches": f"{arguments.memory_mib} MiB", "clients": CLIENTS,
        "history": f"{history_s} s of transactions of {ROWS_OF_TRANSACTION} rows of {ROW_BYTES} bytes and an UPDATE",
    }  # fmt: skip
    text = (
        "Each repetition has a fresh server. A copy inside the server is INSERT ... SELECT, as every engine has it. "
        "A clone copies no table file of its parent: the few that it writes hold the changes which were still in the "
        "log at the moment of the snapshot."
    )
    command = command_of("bench-past", parser, arguments)
    report = Report("past", "Snapshots, clones and mounts", command, text, settings, quick=arguments.quick)
    results = interleave(
        setups, repetitions_of(arguments),
        lambda name, _repetition: run_one(name, table_bytes, history_s, arguments.memory_mib * MIB, report),
        failures=report.failures,
    )  # fmt: skip
    report.results["all"] = results
    add_figures(report, "", results, setups, LINES)
    draw_figures(
        report,
        "past.png",
        "Snapshots, clones and mounts",
        results,
        setups,
        LINES[:2] + LINES[3:4] + LINES[6:7],
    )
    report.save()
    return 0 if not report.failures else 1


if __name__ == "__main__":
    sys.exit(main())
