"""Goal:   a replica with ATOLL tables applies the primary's transactions in parallel, and has the same rows
        in spite of conflicts and kill -9. Commits become visible in the order of the binary log.
Method: a primary with several clients whose transactions conflict on purpose, and a replica of it, both on
        loopback. The rows of a snapshot are compared with the binary log's text up to the snapshot's
        position.
"""

from __future__ import annotations

import contextlib
import os
import random
import re
import threading
import time
import zlib
from collections import deque
from collections.abc import Iterator

import pymysql
import pytest
from harness.digest import database_digests
from harness.process import wait_until

SEED = int(os.environ.get("ATOLL_REPLICATION_SEED", "20261122"))
CLIENTS = 6
STEPS = 100  # transactions of a client
HOT_ROWS = 4
VALUES = 40  # of a unique key and of ranges; few, so that transactions conflict

# The timeout that ends a deadlock which the server does not know of.
LOCK_WAIT_TIMEOUT_S = 50

PARALLEL = {"slave_parallel_threads": 8, "slave_parallel_mode": "optimistic"}

# `history` has no key, so a transaction that is applied twice leaves two rows.
TABLES = (
    "CREATE DATABASE d",
    "CREATE TABLE d.hot (id INT PRIMARY KEY, n INT NOT NULL) ENGINE=ATOLL",
    f"INSERT INTO d.hot SELECT seq, 0 FROM mysql.seq_1_to_{HOT_ROWS}",
    "CREATE TABLE d.free (id INT PRIMARY KEY, v INT NOT NULL, note VARCHAR(40), UNIQUE (v)) ENGINE=ATOLL",
    "CREATE TABLE d.history (client INT NOT NULL, step INT NOT NULL) ENGINE=ATOLL",
)


class Client(threading.Thread):
    """Runs transactions that conflict with those of other clients: `steps` of them, or until `stopped` is
    set."""

    def __init__(self, server, number: int, steps: int, pause_s: float):
        super().__init__()
        self.committed = 0
        self.stopped = False
        self._steps = steps
        self._pause_s = pause_s
        self._server = server
        self._number = number
        self._dice = random.Random(SEED * 100 + number)

    def run(self) -> None:
        connection = self._server.connect("d", autocommit=False)
        with contextlib.closing(connection), connection.cursor() as cursor:
            for step in range(self._steps):
                if self.stopped:
                    return
                time.sleep(self._pause_s)
                try:
                    cursor.execute(f"INSERT INTO history VALUES ({self._number}, {step})")
                    for _ in range(self._dice.randint(1, 3)):
                        cursor.execute(self._statement())
                    connection.commit()
                    self.committed += 1
                except (pymysql.err.OperationalError, pymysql.err.IntegrityError):  # a deadlock; a duplicate
                    connection.rollback()

    def _statement(self) -> str:
        value = self._dice.randrange(VALUES)
        return self._dice.choice(
            (
                f"UPDATE hot SET n = n + 1 WHERE id = {self._dice.randint(1, HOT_ROWS)}",
                f"INSERT INTO free VALUES ({self._dice.randrange(1 << 30)}, {value}, 'inserted')",
                f"REPLACE INTO free VALUES ({self._dice.randrange(VALUES)}, {value}, 'replaced')",
                f"DELETE FROM free WHERE v = {value}",
                f"DELETE FROM free WHERE v BETWEEN {value} AND {value + 3}",
                f"UPDATE free SET note = CONCAT(v, ' changed') WHERE v > {VALUES - 5}",
            )
        )


def primary_and_replica(lab, **replica_options):
    """Starts a primary and a replica. Replication is not set up yet, and only the primary has the tables."""
    print(f"ATOLL_REPLICATION_SEED={SEED}")
    primary = lab.server("primary", server_id=1, log_bin="binlog").start()
    replica = lab.server("replica", server_id=2, **PARALLEL, **replica_options).start()
    primary.run(
        "SET sql_log_bin = 0",
        "CREATE USER replica@'127.0.0.1'",
        "GRANT REPLICATION SLAVE ON *.* TO replica@'127.0.0.1'",
        "SET sql_log_bin = 1",
        *TABLES,
    )
    return primary, replica


def connect(primary, replica) -> None:
    replica.run(
        f"CHANGE MASTER TO MASTER_HOST='127.0.0.1', MASTER_PORT={primary.port}, MASTER_USER='replica', "
        "MASTER_USE_GTID=slave_pos, MASTER_CONNECT_RETRY=1",
        "START SLAVE",
    )


@contextlib.contextmanager
def clients_of(primary, steps: int | None = None) -> Iterator[list[Client]]:
    """Starts clients that make `steps` transactions each; None: until the block ends. Waits for them at the
    end of the block."""
    pause_s = 0 if steps else 0.01  # so that the replica can keep up
    clients = [Client(primary, number, steps or 1 << 30, pause_s) for number in range(CLIENTS)]
    for client in clients:
        client.start()
    try:
        yield clients
    finally:
        for client in clients:
            client.stopped = steps is None
            client.join()


def committed(clients: list[Client]) -> int:
    return sum(client.committed for client in clients)


def position_of(replica) -> str:
    """Returns the replica's GTID position. Fails when replication has stopped with an error."""
    connection = replica.connect()
    with contextlib.closing(connection), connection.cursor(pymysql.cursors.DictCursor) as cursor:
        cursor.execute("SHOW SLAVE STATUS")
        status = cursor.fetchone()
        assert status["Last_SQL_Errno"] == 0, status["Last_SQL_Error"]
        cursor.execute("SELECT @@gtid_slave_pos AS position")
        return cursor.fetchone()["position"]


def wait_for_replica(primary, replica, timeout_s: float) -> float:
    """Waits until the replica has applied all transactions of the primary. Returns the seconds of waiting."""
    started = time.monotonic()
    goal = primary.value("SELECT @@gtid_binlog_pos")
    wait_until(lambda: position_of(replica) == goal, timeout_s, f"the replica at {goal}")
    return time.monotonic() - started


def expect_equal(primary, replica) -> None:
    assert database_digests(replica, "d") == database_digests(primary, "d")
    for table in ("hot", "free", "history"):
        assert replica.run(f"CHECK TABLE d.{table} EXTENDED")[-1][-1] == "OK"


@pytest.mark.parametrize("binlog_format", ["ROW", "MIXED"])
def test_conflicts_of_parallel_workers_end_at_once(lab, binlog_format):
    """A worker may wait for a lock of a later transaction, which itself waits because it must commit after
    the worker's. Only the server can detect this deadlock, and only if the engine reports which transaction
    waits for which.
    """
    primary, replica = primary_and_replica(lab)
    primary.run(f"SET GLOBAL binlog_format = {binlog_format}")
    with clients_of(primary, STEPS) as clients:
        pass  # all transactions are in the binary log before the replica begins
    connect(primary, replica)
    seconds = wait_for_replica(primary, replica, LOCK_WAIT_TIMEOUT_S / 2)
    retries = replica.counter("Slave_retried_transactions")
    print(f"{binlog_format}: {committed(clients)} transactions applied in {seconds:.1f} s, {retries} retries")
    assert retries > 0, "no transactions met"
    expect_equal(primary, replica)


def execute(connection: pymysql.Connection, *statements: str) -> None:
    with connection.cursor() as cursor:
        for statement in statements:
            cursor.execute(statement)


def test_a_prepared_transaction_holds_up_no_other_on_the_replica(lab):
    """The replica finds a row of `history`, which has no key, by a scan that locks what it passes. The primary
    has changed and committed these rows between XA PREPARE and XA COMMIT.
    """
    primary, replica = primary_and_replica(lab, atoll_lock_wait_timeout=2, slave_transaction_retries=1)
    primary.run(
        "SET GLOBAL tx_isolation = 'READ-COMMITTED'",
        "INSERT INTO d.history SELECT 0, seq FROM mysql.seq_1_to_20",
    )
    connect(primary, replica)
    one, two = primary.connect("d"), primary.connect("d")
    execute(
        one, "XA START 'x'", "UPDATE history SET client = 1 WHERE step = 20", "XA END 'x'", "XA PREPARE 'x'"
    )
    execute(two, "UPDATE history SET client = 2 WHERE step = 1", "INSERT INTO history VALUES (2, 21)")
    wait_for_replica(primary, replica, 30)
    execute(one, "XA COMMIT 'x'")
    wait_for_replica(primary, replica, 30)
    one.close()
    two.close()
    expect_equal(primary, replica)


# ---- the order of commits -------------------------------------------------------------------------

SUM_OF_IDS = "SELECT COUNT(*), IFNULL(SUM(CRC32(id)), 0) FROM"
INSERTED = re.compile(r"INSERT INTO (\w+) VALUES \((\d+)\)")


def insert_numbers(server, numbers: range, stop: threading.Event) -> None:
    """Runs transactions that each insert a row into the ATOLL table, the InnoDB table, or both."""
    dice = random.Random(SEED + numbers.start)
    connection = server.connect("d", autocommit=False)
    with contextlib.closing(connection), connection.cursor() as cursor:
        for number in numbers:
            if stop.is_set():
                return
            for table in dice.choice((("atoll",), ("inno",), ("atoll", "inno"))):
                cursor.execute(f"INSERT INTO {table} VALUES ({number})")
            connection.commit()


def read_snapshots(server, seen: list, stop: threading.Event) -> None:
    """Takes snapshots, and appends for each its position in the binary log and its sums of both tables."""
    connection = server.connect("d", autocommit=False)
    with contextlib.closing(connection), connection.cursor() as cursor:
        while not stop.is_set():
            cursor.execute("START TRANSACTION WITH CONSISTENT SNAPSHOT")
            cursor.execute("SHOW STATUS LIKE 'Binlog_snapshot_position'")
            place = int(cursor.fetchall()[0][1])
            shown = []
            for table in ("atoll", "inno"):
                cursor.execute(f"{SUM_OF_IDS} {table}")
                shown += cursor.fetchall()
            connection.commit()
            seen.append((place, *shown))


def committed_by_binary_log(server) -> deque[tuple[int, dict[str, list[int]]]]:
    """Returns the end position of each transaction and the rows that it inserted, in the order of the binary
    log."""
    transactions: deque[tuple[int, dict[str, list[int]]]] = deque()
    inserted: dict[str, list[int]] = {"atoll": [], "inno": []}
    for _, _, kind, _, end, text in server.run("SHOW BINLOG EVENTS"):
        if kind == "Annotate_rows":
            for table, number in INSERTED.findall(text):
                inserted[table].append(int(number))
        elif kind == "Xid":
            transactions.append((end, inserted))
            inserted = {"atoll": [], "inno": []}
    return transactions


def test_a_snapshot_shows_the_binary_log_up_to_its_place(lab):
    """Commits become visible in the order of the binary log, in both engines at the same time.

    There is only one reader, because the server keeps the position for SHOW STATUS in variables that sessions
    share. And there is only one log file, because the server moves the position to a new file before the last
    commits of the old file are visible (with InnoDB, too).
    """
    print(f"ATOLL_REPLICATION_SEED={SEED}")
    server = lab.server(server_id=1, log_bin="binlog", binlog_format="ROW").start()
    server.run(
        "CREATE DATABASE d",
        "CREATE TABLE d.atoll (id INT PRIMARY KEY) ENGINE=ATOLL",
        "CREATE TABLE d.inno (id INT PRIMARY KEY) ENGINE=InnoDB",
    )
    seen: list[tuple[int, tuple[int, int], tuple[int, int]]] = []
    stop = threading.Event()
    numbers = [range(client * 1_000_000, (client + 1) * 1_000_000) for client in range(CLIENTS)]
    threads = [threading.Thread(target=insert_numbers, args=(server, part, stop)) for part in numbers]
    threads += [threading.Thread(target=read_snapshots, args=(server, seen, stop))]
    for thread in threads:
        thread.start()
    time.sleep(4)
    stop.set()
    for thread in threads:
        thread.join()

    transactions = committed_by_binary_log(server)
    print(f"{len(transactions)} transactions, {len(seen)} snapshots")
    places = {place for place, _, _ in seen}
    assert len(transactions) > 100 and len(places) > 20, "too few to prove anything"
    expected = {"atoll": (0, 0), "inno": (0, 0)}
    for place, atoll, inno in seen:
        while transactions and transactions[0][0] <= place:
            for table, ids in transactions.popleft()[1].items():
                count, total = expected[table]
                expected[table] = (count + len(ids), total + sum(zlib.crc32(b"%d" % id) for id in ids))
        assert (atoll, inno) == (expected["atoll"], expected["inno"]), f"at {place}"


# ---- syncs of a replica's log -----------------------------------------------------------------------

APPLIED = 2000  # transactions that insert one row each


def syncs_of_applying(lab, **replica_options) -> int:
    """Returns how many syncs of the log a replica needs to apply APPLIED transactions. Without
    `replica_options`, the table with its position is in ATOLL."""
    primary, replica = primary_and_replica(lab, **replica_options)
    if not replica_options:
        replica.run("ALTER TABLE mysql.gtid_slave_pos ENGINE=ATOLL")
    connection = primary.connect("d")
    with contextlib.closing(connection), connection.cursor() as cursor:
        for step in range(APPLIED):
            cursor.execute(f"INSERT INTO history VALUES (0, {step})")
    before = replica.counter("Atoll_wal_syncs")
    connect(primary, replica)
    wait_for_replica(primary, replica, 60)
    syncs = replica.counter("Atoll_wal_syncs") - before
    print(f"{APPLIED} transactions, {syncs} syncs")
    replica.kill()
    replica.start()
    wait_for_replica(primary, replica, 60)
    expect_equal(primary, replica)
    return syncs


def test_workers_share_the_syncs_of_the_log(lab):
    """Each commit lets the next one go on before it waits for its sync, so commits that come meanwhile share
    one sync. No worker begins another transaction before its sync has ended.
    """
    syncs = syncs_of_applying(lab)
    assert APPLIED // PARALLEL["slave_parallel_threads"] < syncs < APPLIED * 3 // 4


def test_a_position_in_another_engine_waits_for_the_sync(lab):
    """Without a wait, InnoDB could make the position durable before the ATOLL commit to which it belongs."""
    assert syncs_of_applying(lab, gtid_pos_auto_engines="ATOLL") >= APPLIED


# ---- kill -9 of a replica -------------------------------------------------------------------------

KILLS = 3
PROGRESS = 100  # transactions applied between two kills


def wait_for_progress(replica) -> None:
    def last_applied() -> int:
        return int(position_of(replica).rpartition("-")[2] or 0)

    goal = last_applied() + PROGRESS
    wait_until(lambda: last_applied() >= goal, 60, f"transaction {goal} on the replica")


@pytest.mark.parametrize(
    ("alter_position", "replica_options"),
    [
        (False, {}),
        (False, {"gtid_pos_auto_engines": "ATOLL"}),
        (True, {}),
        (True, {"log_bin": "binlog", "log_slave_updates": "ON"}),
    ],
    ids=["position_in_innodb", "position_in_both", "position_in_atoll", "position_in_atoll_binary_log"],
)
def test_a_killed_replica_goes_on_where_it_was(lab, alter_position, replica_options):
    """The rows and the replica's position are committed together, whichever engine mysql.gtid_slave_pos
    has."""
    primary, replica = primary_and_replica(lab, **replica_options)
    if alter_position:
        replica.run("ALTER TABLE mysql.gtid_slave_pos ENGINE=ATOLL")
    dice = random.Random(SEED)
    connect(primary, replica)
    with clients_of(primary) as clients:
        for _ in range(KILLS):
            wait_for_progress(replica)
            time.sleep(dice.uniform(0, 0.5))
            replica.kill()
            replica.start()
    seconds = wait_for_replica(primary, replica, 120)
    print(f"{committed(clients)} transactions, the rest applied in {seconds:.1f} s")
    expect_equal(primary, replica)
