"""Goal:   a table that outgrows the shared column family moves to one of its own without other effects: no
        statement fails because of the move, old snapshots can still be read, and after kill -9 at any moment
        the table is complete.
Method: two writers change an unpartitioned and a partitioned table and note the acknowledged rows. A reader
        reads the same sum twice in each of its transactions. Meanwhile the size limit is lowered, so that
        both tables move. In the rounds with kill -9 the moment is random, and every third time the local disk
        is lost, too.

ATOLL_MOVE_KILL_ROUNDS changes the number of rounds, ATOLL_KILL_SEED repeats a run.
"""

from __future__ import annotations

import os
import random
import threading
import time

import pymysql
from harness.process import wait_until
from harness.server import Server
from harness.workload import CONNECTION_LOST

ROUNDS = int(os.environ.get("ATOLL_MOVE_KILL_ROUNDS", "8"))
SEED = int(os.environ.get("ATOLL_KILL_SEED", "0")) or random.SystemRandom().randrange(1 << 32)
BUCKET_EVERY = 3
ROWS = 6000
WRITERS = 2
LIMIT_BYTES = 200_000
TABLES = {
    "plain": "",
    "parts": " PARTITION BY RANGE (a) (PARTITION p0 VALUES LESS THAN (2000), PARTITION p1 VALUES LESS THAN MAXVALUE)",
}
PHYSICAL_TABLES = 3  # the unpartitioned table and the two partitions


class Writer(threading.Thread):
    """Changes rows in both tables that no other writer changes. `rows` has the acknowledged values, `sent`
    the change that is not acknowledged yet."""

    def __init__(self, server: Server, number: int, seed: str):
        super().__init__(daemon=True)
        self.stop = threading.Event()
        self.failure: BaseException | None = None
        self.rows = {table: dict.fromkeys(range(number, ROWS, WRITERS), 0) for table in TABLES}
        self.sent: tuple[str, int, int | None] | None = None
        self.longest_s = 0.0
        self._server = server
        self._random = random.Random(f"{seed}-{number}")
        self._value = 0

    def run(self) -> None:
        try:
            with self._server.connect("d", autocommit=True) as connection, connection.cursor() as cursor:
                while not self.stop.is_set():
                    self._change(cursor)
        except pymysql.Error as error:
            if not (self.stop.is_set() and error.args[0] in CONNECTION_LOST):
                self.failure = error

    def _change(self, cursor) -> None:
        self._value += 1
        table = self._random.choice(list(TABLES))
        key = self._random.choice(list(self.rows[table]))
        before = self.rows[table][key]
        after = None if before is not None and self._random.random() < 0.2 else self._value
        if before is None:
            statement = f"INSERT INTO {table} (a, b, c) VALUES ({key}, {after}, REPEAT('n', 200))"
        elif after is None:
            statement = f"DELETE FROM {table} WHERE a = {key}"
        else:
            statement = f"UPDATE {table} SET b = {after} WHERE a = {key}"
        self.sent = (table, key, after)
        began = time.monotonic()
        cursor.execute(statement)
        self.longest_s = max(self.longest_s, time.monotonic() - began)
        assert cursor.rowcount == 1, f"{statement}: {cursor.rowcount} rows"
        self.rows[table][key] = after
        self.sent = None

    def check(self, table: str, found: dict[int, int]) -> None:
        """Checks this writer's rows. `found` has all rows of the table. The change that was not acknowledged
        may be there."""
        for key, value in self.rows[table].items():
            allowed = [value]
            if self.sent is not None and self.sent[:2] == (table, key):
                allowed.append(self.sent[2])
            assert found.get(key) in allowed, (
                f"{table} row {key}: {found.get(key)}, expected one of {allowed}"
            )


class Reader(threading.Thread):
    """Reads both tables twice in the same snapshot, in a loop."""

    def __init__(self, server: Server):
        super().__init__(daemon=True)
        self.stop = threading.Event()
        self.failure: BaseException | None = None
        self.transactions = 0
        self._server = server

    def run(self) -> None:
        try:
            with self._server.connect("d", autocommit=False) as connection, connection.cursor() as cursor:
                while not self.stop.is_set():
                    self._read(cursor)
                    connection.commit()
        except (pymysql.Error, AssertionError) as error:
            self.failure = error

    def _read(self, cursor) -> None:
        cursor.execute("START TRANSACTION WITH CONSISTENT SNAPSHOT")
        first = None
        for _ in range(4):
            sums = []
            for table in TABLES:
                cursor.execute(f"SELECT COUNT(*), SUM(b) FROM {table} IGNORE INDEX (kb)")
                sums.append(cursor.fetchone())
                cursor.execute(f"SELECT COUNT(*), SUM(b) FROM {table} FORCE INDEX (kb) WHERE b > -1")
                sums.append(cursor.fetchone())
            assert sums[0] == sums[1] and sums[2] == sums[3], f"row and index disagree: {sums}"
            first = first or sums
            assert sums == first, f"{sums} after {first} in one snapshot"
            time.sleep(0.05)
        self.transactions += 1


def fill(server: Server) -> None:
    server.run("DROP DATABASE IF EXISTS d", "CREATE DATABASE d")
    for table, partitions in TABLES.items():
        server.run(
            f"CREATE TABLE {table} (a INT PRIMARY KEY, b INT, c VARCHAR(300), KEY kb (b)) ENGINE=ATOLL{partitions}",
            f"INSERT INTO {table} SELECT seq, 0, RPAD(MD5(seq), 250, SHA2(seq, 512)) FROM seq_0_to_{ROWS - 1}",
            database="d",
        )


def moved(server: Server) -> int:
    found = server.run(
        "SELECT COUNT(*) FROM information_schema.atoll_tables WHERE table_schema = 'd' AND own_family = 'YES'"
    )
    return found[0][0]


def check(server: Server, writers: list[Writer]) -> None:
    for table in TABLES:
        found = dict(server.run(f"SELECT a, b FROM {table}", database="d"))
        for writer in writers:
            writer.check(table, found)
        result = server.run(f"CHECK TABLE {table} EXTENDED", database="d")
        assert result[-1][-1] == "OK", result


def test_nobody_notices_a_move(lab):
    server = lab.server("server", atoll_shared_table_max=0)
    server.start()
    fill(server)
    writers = [Writer(server, number, str(SEED)) for number in range(WRITERS)]
    reader = Reader(server)
    for thread in [*writers, reader]:
        thread.start()
    wait_until(lambda: reader.transactions > 0 or reader.failure, 30, "the reader to read")
    server.run(f"SET GLOBAL atoll_shared_table_max = {LIMIT_BYTES}")
    wait_until(lambda: moved(server) == PHYSICAL_TABLES or reader.failure, 120, "the tables to move")
    done = reader.transactions
    wait_until(lambda: reader.transactions > done + 1 or reader.failure, 30, "the reader to go on")
    for thread in [*writers, reader]:
        thread.stop.set()
    for thread in [*writers, reader]:
        thread.join()
        assert thread.failure is None, thread.failure
    print(f"longest statement of a writer: {max(writer.longest_s for writer in writers):.3f} s")
    check(server, writers)
    server.stop()
    server.start()
    assert moved(server) == PHYSICAL_TABLES
    check(server, writers)


def test_kill_9_in_a_move_leaves_the_table_whole(lab):
    print(f"seed {SEED}")
    chance = random.Random(SEED)
    server = lab.s3_server(lab.store(), atoll_durability="sync", atoll_shared_table_max=0)
    server.start()
    finished = 0
    for index in range(ROUNDS):
        fill(server)
        writers = [Writer(server, number, f"{SEED}-{index}") for number in range(WRITERS)]
        for writer in writers:
            writer.start()
        server.run(f"SET GLOBAL atoll_shared_table_max = {LIMIT_BYTES}")
        time.sleep(chance.uniform(0.0, 1.5))
        for writer in writers:
            writer.stop.set()
        server.kill()
        for writer in writers:
            writer.join()
            assert writer.failure is None, writer.failure
        if index % BUCKET_EVERY == BUCKET_EVERY - 1:
            server.wipe()
            server.start(atoll_take_over="ON")
        else:
            server.start()
        finished += moved(server)
        check(server, writers)
    print(f"{finished} of {ROUNDS * PHYSICAL_TABLES} moves had ended when the server was killed")
    server.run("DROP DATABASE d")
