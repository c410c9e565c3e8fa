"""Tests statements over very many rows in a server with little memory: they must complete, or roll back
completely.

The same is tested with one very large value, which is stored before the limit applies. Each step prints its
time and the server's peak of resident memory. The limit is enforced by a memory cgroup (of either version) if
one can be made; the kernel then kills a server beyond the limit. Otherwise the peak is only measured. The
exit status is 1 when a step fails, the server ends, or its peak is beyond the limit.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from pathlib import Path

import pymysql

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from harness.process import discard, exit_cleanly_on_signals, scratch_directory
from harness.server import Server

MIB = 1 << 20
BLOB_MIB = 256
INSERT_BLOB = f"INSERT INTO d.blobs VALUES (1, 1, REPEAT('x', {BLOB_MIB * MIB}))"
SERVER_OPTIONS = {
    "atoll_block_cache_size": 64 * MIB,
    "atoll_bound_heap": "ON",
    "innodb-buffer-pool-size": 16 * MIB,
    "performance-schema": "OFF",
    "max_allowed_packet": 1 << 30,
}


class MemoryGroup:
    """A memory cgroup with a limit. `active` is False if no cgroup can be made."""

    def __init__(self, limit_bytes: int):
        self.limit_bytes = limit_bytes
        self._directory: Path | None = None
        for root, file in (
            ("/sys/fs/cgroup/memory", "memory.limit_in_bytes"),
            ("/sys/fs/cgroup", "memory.max"),
        ):
            directory = Path(root) / f"atoll-{os.getpid()}"
            if not (Path(root) / "cgroup.procs").exists():
                continue
            try:
                directory.mkdir()
                (directory / file).write_text(str(limit_bytes))
                self._directory = directory
                return
            except OSError:
                if directory.exists():
                    directory.rmdir()

    @property
    def active(self) -> bool:
        return self._directory is not None

    def add(self, pid: int) -> None:
        if self._directory is not None:
            (self._directory / "cgroup.procs").write_text(str(pid))

    def remove(self) -> None:
        if self._directory is not None:
            self._directory.rmdir()


class Run:
    def __init__(self, server: Server, rows: int):
        self.server = server
        self.rows = rows
        self.connection = server.connect("d", timeout_s=24 * 3600)
        self.failures: list[str] = []

    def execute(self, statement: str) -> int:
        with self.connection.cursor() as cursor:
            return cursor.execute(statement)

    def value(self, statement: str):
        with self.connection.cursor() as cursor:
            cursor.execute(statement)
            return cursor.fetchone()

    def step(self, name: str, *statements: str) -> None:
        started = time.monotonic()
        for statement in statements:
            self.execute(statement)
        peak = self.server.rss_peak_bytes() / MIB
        print(
            f"{name}: {time.monotonic() - started:.1f} s, peak of resident memory {peak:.0f} MiB", flush=True
        )

    def expect(self, what: str, query: str, wanted: tuple) -> None:
        found = tuple(int(value) for value in self.value(query))
        if found != wanted:
            self.failures.append(f"{what}: {found} instead of {wanted}")

    def statements(self) -> None:
        rows = self.rows
        totals = "SELECT COUNT(*), SUM(b) FROM t"
        self.step(
            f"INSERT … SELECT of {rows} rows", f"INSERT INTO t SELECT seq, 1 FROM mysql.seq_1_to_{rows}"
        )
        self.expect("INSERT", totals, (rows, rows))
        self.step("UPDATE of all", "UPDATE t SET b = b + 1")
        self.expect("UPDATE", totals, (rows, 2 * rows))
        self.step("the same, rolled back", "BEGIN", "UPDATE t SET b = b + 1", "ROLLBACK")
        self.expect("ROLLBACK", totals, (rows, 2 * rows))
        self.step("back to a savepoint", "BEGIN", "UPDATE t SET b = 0 WHERE a = 1", "SAVEPOINT s",
                  "DELETE FROM t", "ROLLBACK TO s", "COMMIT")  # fmt: skip
        self.expect("ROLLBACK TO", totals, (rows, 2 * rows - 2))
        self.step("INSERT … SELECT into another table", "INSERT INTO copy SELECT a, b FROM t")
        self.expect("the copy", "SELECT COUNT(*), SUM(b) FROM copy", (rows, 2 * rows - 2))
        self.step("DELETE of all", "DELETE FROM t")
        self.expect("DELETE", "SELECT COUNT(*) FROM t", (0,))

    def large_value(self) -> None:
        """Runs statements over the one row of `blobs`, whose value has BLOB_MIB."""
        row = "SELECT COUNT(*), SUM(n), SUM(LENGTH(b)) FROM "
        bytes_wanted = BLOB_MIB * MIB
        self.step("INSERT … SELECT", "INSERT INTO blob_copy SELECT * FROM blobs")
        self.expect("the copy", row + "blob_copy", (1, 1, bytes_wanted))
        self.step("UPDATE of another column", "UPDATE blobs SET n = n + 1")
        self.step("the same, rolled back", "BEGIN", "UPDATE blobs SET n = n + 1", "ROLLBACK")
        self.expect("ROLLBACK", row + "blobs", (1, 2, bytes_wanted))
        self.step("DELETE, rolled back to a savepoint",
                  "BEGIN", "SAVEPOINT s", "DELETE FROM blobs", "ROLLBACK TO s", "COMMIT")  # fmt: skip
        self.expect("ROLLBACK TO", row + "blobs", (1, 2, bytes_wanted))
        self.step("CREATE … SELECT", "CREATE TABLE blob_created ENGINE=ATOLL AS SELECT * FROM blobs")
        self.expect("the new table", row + "blob_created", (1, 2, bytes_wanted))
        self.step("ALTER by a copy", "ALTER TABLE blobs MODIFY n BIGINT")
        self.expect("the altered table", row + "blobs", (1, 2, bytes_wanted))
        self.step("DELETE", "DELETE FROM blobs")
        self.expect("DELETE", "SELECT COUNT(*) FROM blobs", (0,))


def many_rows(server: Server, group: MemoryGroup, rows: int) -> list[str]:
    server.start()
    group.add(server.pid)
    server.run("CREATE DATABASE d", "CREATE TABLE d.t (a INT PRIMARY KEY, b INT) ENGINE=ATOLL",
               "CREATE TABLE d.copy LIKE d.t")  # fmt: skip
    run = Run(server, rows)
    run.statements()
    return run.failures + beyond(server, group)


def large_value(server: Server, group: MemoryGroup) -> list[str]:
    """Runs statements over a very large value. The value is stored before the limit applies, because with any
    engine a server with 512 MiB cannot receive a value of this size."""
    server.restart()
    server.run("CREATE TABLE d.blobs (a INT PRIMARY KEY, n INT, b LONGBLOB) ENGINE=ATOLL",
               "CREATE TABLE d.blob_copy LIKE d.blobs", INSERT_BLOB)  # fmt: skip
    server.restart()
    group.add(server.pid)
    run = Run(server, 1)
    run.large_value()
    failures = run.failures + beyond(server, group)
    if not group.active:
        return failures
    return failures + too_large_value(server)


def too_large_value(server: Server) -> list[str]:
    """Inserts a value for which the server itself needs more memory than the limit. The kernel kills the
    server, and no part of the value may be stored."""
    try:
        server.run(INSERT_BLOB)
        return ["a value the server has no memory for was stored"]
    except pymysql.Error as error:
        print(f"a new BLOB of {BLOB_MIB} MiB: {error}")
    server.kill()
    server.start()
    run = Run(server, 1)
    run.expect("after the restart", "SELECT COUNT(*) FROM blobs", (0,))
    run.expect("after the restart", "SELECT COUNT(*) FROM blob_copy", (1,))
    return run.failures


def beyond(server: Server, group: MemoryGroup) -> list[str]:
    peak = server.rss_peak_bytes()
    return [f"peak of {peak / MIB:.0f} MiB"] if peak > group.limit_bytes else []


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--memory-mib", type=int, default=512)
    parser.add_argument("--transaction-memory-mib", type=int, default=64)
    options = parser.parse_args()
    exit_cleanly_on_signals()
    home = scratch_directory("memory")
    server = Server(
        home, {**SERVER_OPTIONS, "atoll_transaction_memory": options.transaction_memory_mib * MIB}
    )
    group = MemoryGroup(options.memory_mib * MIB)
    print(
        "the limit is enforced by a cgroup" if group.active else "no cgroup can be made: the peak is measured"
    )
    try:
        failures = many_rows(server, group, options.rows) + large_value(server, group)
        for failure in failures:
            print(f"FAILED: {failure}")
        return 1 if failures else 0
    finally:
        server.kill()
        group.remove()
        discard(home)


if __name__ == "__main__":
    sys.exit(main())
