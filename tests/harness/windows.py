"""Stops a server in an exact window between two steps of the protocol, and checks the rows after the next
start.

A window is defined by a request: the proxy keeps this request (harness.proxy.Stop), and the test kills the
server meanwhile. docs/internals/windows.md lists the windows and their tests.
"""

from __future__ import annotations

import os
import re
import threading
import time
from collections.abc import Callable

import pymysql
import pytest

from harness.atollctl import atollctl
from harness.objectstores import Minio, ObjectStore, Versitygw
from harness.process import wait_until
from harness.proxy import Fault, Request, Stop
from harness.server import Server
from harness.tables import Statement

# `make test-bucket` sets this variable: then all windows are tested with both S3 servers. `make test` runs a
# few, with one.
ALL = bool(os.environ.get("ATOLL_WINDOWS_ALL"))
STORES: list[type[ObjectStore]] = [Versitygw, Minio] if ALL else [Versitygw]
# What the next start uses: the directory and the bucket; the bucket alone; both, after another server has
# owned the bucket.
WAYS = ("directory", "bucket", "another_owner")

stores = pytest.mark.parametrize("kind", STORES)
only_in_test_bucket = pytest.mark.skipif(not ALL, reason="make test-bucket runs it")


def ways(short: str) -> pytest.MarkDecorator:
    """Returns the mark of a test that runs with each of WAYS. `make test` runs it only with the way
    `short`."""
    return pytest.mark.parametrize("way", WAYS if ALL else [short])


# Patterns for the kinds of objects, by their names in the bucket (docs/internals/formats-bucket.md, FMT-W0).
CLAIM = r"/epoch/\d{20}$"
FIRST_ROOT = r"/root/\d{20}/0{20}$"
ROOT = r"/root/\d{20}/(?!0{20})\d{20}$"
CHUNK = r"/wal/\d{20}/\d{20}$"
MANIFEST = r"/man/"
MANIFEST_COPY = r"/man/\d{20}/\d{20}-\d{10}/"
TABLE_FILE = r"/sst/[^?]*$"
PIECE = r"/sst/.*partNumber=2"
TOMB = r"/tomb/"


def is_put(pattern: str) -> Callable[[Request], bool]:
    """Returns a matcher of uploads whose target matches the pattern."""
    return lambda request: request.method == "PUT" and re.search(pattern, request.target) is not None


def first_of(pattern: str, methods: tuple[str, ...] = ("PUT",)) -> Callable[[Request], bool]:
    """Returns a matcher that chooses the first object whose upload matches the pattern. It matches that
    upload, its repetitions, and requests of the other `methods` for the same object."""
    chosen: list[str] = []
    lock = threading.Lock()

    def matches(request: Request) -> bool:
        with lock:
            if not chosen and is_put(pattern)(request):
                chosen.append(request.target)
            return bool(chosen) and request.target == chosen[0] and request.method in methods

    return matches


class Scene:
    """A server whose requests go through a proxy, with transactions that are noted outside of the server.

    Each transaction inserts its number into two tables. Half a transaction is a number that only one of them has.
    Threads: `commit` may be called by several; `sent` and `acked` are guarded by `_lock`.
    """

    def __init__(self, lab, kind: type[ObjectStore], durability: str = "sync", **options: object):
        self.lab = lab
        self.store = lab.store(kind)
        self.proxy = lab.proxy(self.store)
        self.options = {"atoll_durability": durability, **options}
        self.server: Server = lab.s3_server(self.store, endpoint=self.proxy.endpoint, **self.options).start()
        self.sent: set[int] = set()
        self.acked: set[int] = set()
        self._lock = threading.Lock()
        self.server.run(
            "CREATE DATABASE d",
            "CREATE TABLE d.a (id INT PRIMARY KEY, v VARCHAR(600)) ENGINE=ATOLL",
            "CREATE TABLE d.b (id INT PRIMARY KEY, v VARCHAR(600)) ENGINE=ATOLL",
        )
        self.commit(20)

    # ---- work ---------------------------------------------------------------------------------------

    def commit(self, count: int, server: Server | None = None) -> None:
        """Commits `count` transactions. Errors: pymysql.Error of the first one that fails."""
        with (
            (server or self.server).connect("d", autocommit=False) as connection,
            connection.cursor() as cursor,
        ):
            for _ in range(count):
                with self._lock:
                    number = len(self.sent) + 1
                    self.sent.add(number)
                cursor.execute(f"INSERT INTO a VALUES ({number}, REPEAT('x', 500))")
                cursor.execute(f"INSERT INTO b VALUES ({number}, REPEAT('x', 500))")
                connection.commit()
                with self._lock:
                    self.acked.add(number)

    def refuses(self, server: Server) -> bool:
        """Returns whether the server refuses a transaction (which stays in `sent`)."""
        try:
            self.commit(1, server)
        except pymysql.Error:
            return True
        return False

    def writers(self, count: int) -> list[threading.Thread]:
        """Starts threads that commit until the first error."""

        def work() -> None:
            while not self.refuses(self.server):
                pass

        threads = [threading.Thread(target=work, daemon=True) for _ in range(count)]
        for thread in threads:
            thread.start()
        return threads

    def rewrite(self, table: str = "a") -> Statement:
        """Starts to copy a table, which writes new table files, pieces of the MANIFEST and roots. Does not
        wait for the end."""
        statement = Statement(self.server, f"ALTER TABLE {table} FORCE, ALGORITHM=COPY", "d")
        statement.start()
        return statement

    # ---- windows -------------------------------------------------------------------------------------

    def stop_at(self, matches: Callable[[Request], bool], landed: bool = False) -> Stop:
        stop = Stop(landed)
        self.proxy.add(Fault(matches, stop=stop))
        return stop

    def reopen(self, way: str) -> Server:
        """Kills the server and starts it again in one of WAYS. The store never gets the dead server's kept
        requests."""
        self.server.kill()
        for fault in self.proxy.clear():
            if fault.stop:
                fault.stop.cut()
        if way == "bucket":
            self.server.wipe()
        elif way == "another_owner":
            other = self.take_over("other")
            self.check(other)
            self.commit(1, other)
            other.stop()
        return self.server.start(atoll_take_over="ON" if way == "bucket" else "OFF")

    def take_over(self, name: str) -> Server:
        """Starts another server without a data directory, which takes the bucket over. It does not use the
        proxy."""
        return self.lab.s3_server(self.store, name, **self.options).start(atoll_take_over="ON")

    # ---- what must hold -------------------------------------------------------------------------------

    def found(self, server: Server | None = None) -> set[int]:
        """Returns the numbers of the transactions in the tables. Errors: AssertionError for half a
        transaction."""
        server = server or self.server
        rows = [{number for (number,) in server.run(f"SELECT id FROM d.{table}")} for table in "ab"]
        assert rows[0] == rows[1], f"half a transaction: {sorted(rows[0] ^ rows[1])}"
        return rows[0]

    def check(self, server: Server | None = None) -> None:
        """Checks that all acknowledged transactions are there, completely, and none that was not sent; and
        that the bucket passes `atollctl verify --deep`."""
        found = self.found(server)
        assert self.acked <= found, f"lost: {sorted(self.acked - found)}"
        assert found <= self.sent, f"never sent: {sorted(found - self.sent)}"
        verified = atollctl(server or self.server, "verify", "--deep")
        assert verified.returncode == 0, verified.stdout + verified.stderr

    def check_and_go_on(self, way: str) -> None:
        """Kills and starts the server in one of WAYS, checks, and commits. Then deletes its directory, starts
        it again and checks."""
        self.reopen(way)
        self.check()
        self.commit(3)
        self.reopen("bucket")
        self.check()

    def names(self, below: str) -> list[str]:
        return [item.key for item in self.store.client.list(f"db/{below}")]

    def wait_for_names(self, below: str, condition: Callable[[list[str]], bool], what: str) -> None:
        wait_until(lambda: condition(self.names(below)), 150, what, 0.3)


def stays_so(condition: Callable[[], bool], seconds: float, what: str) -> None:
    """Fails the test when the condition does not hold during all of `seconds`."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        assert condition(), what
        time.sleep(0.05)
