"""Goal:   within atoll_history_retention the database can be restored to its state after any transaction,
        given by time or GTID, as a clone and in place, with exactly the transactions up to it. Older states
        are refused.
Method: clients move money between accounts, and note each acknowledged commit with its GTID outside of the
        server. Random moments are restored, and every row is compared with the notes.
"""

from __future__ import annotations

import json
import os
import random
import threading
import time

import pytest
from conftest import MakeServer, server_maker
from harness.atollctl import atollctl, utc
from harness.process import wait_until
from harness.server import Server
from harness.windows import only_in_test_bucket

ACCOUNTS = 200
CLIENTS = 4
LOAD_S = 25
MOMENTS = 4
HISTORY = {"atoll_durability": "sync", "atoll_history_retention": 3600, "log_bin": "binlog", "sync_binlog": 0}


@pytest.fixture(params=["file", pytest.param("versitygw", marks=only_in_test_bucket)])
def make_server(lab, request) -> MakeServer:
    """Returns a function that makes servers with a history, without starting them. The server's name is the
    prefix of its database."""
    return server_maker(lab, request.param, **HISTORY)


@pytest.fixture
def draw() -> random.Random:
    seed = int(os.environ.get("ATOLL_SEED", time.time_ns() % 1_000_000))
    print(f"ATOLL_SEED={seed}")
    return random.Random(seed)


class Client(threading.Thread):
    """Moves money between accounts until stop() is called. Each transaction also inserts a row, and its GTID
    is noted in `committed`."""

    def __init__(self, server: Server, number: int, seed: int):
        super().__init__()
        self.connection = server.connect("bank", autocommit=False)
        self.number, self.draw = number, random.Random(seed)
        self.stopped = threading.Event()
        self.committed: list[tuple[str, int, int, int]] = []  # GTID, from, to, amount

    def run(self) -> None:
        while not self.stopped.is_set():
            (source, target), amount = self.draw.sample(range(ACCOUNTS), 2), self.draw.randint(1, 9)
            first, second = sorted((source, target))
            with self.connection.cursor() as cursor:
                for account in (first, second):
                    change = -amount if account == source else amount
                    cursor.execute(
                        "UPDATE account SET balance = balance + %s, filler = MD5(RAND()) WHERE id = %s",
                        (change, account),
                    )
                cursor.execute(
                    "INSERT INTO moved (client, body) VALUES (%s, REPEAT(MD5(RAND()), 30))", (self.number,)
                )
                self.connection.commit()
                cursor.execute("SELECT @@last_gtid")
                (gtid,) = cursor.fetchone()
            self.committed.append((gtid, source, target, amount))

    def stop(self) -> None:
        self.stopped.set()
        self.join()
        self.connection.close()


def set_up(server: Server) -> None:
    server.run(
        "CREATE DATABASE bank",
        "CREATE TABLE bank.account (id INT PRIMARY KEY, balance INT, filler CHAR(32), KEY (balance)) ENGINE=ATOLL",
        "CREATE TABLE bank.moved (id INT PRIMARY KEY AUTO_INCREMENT, client INT, body TEXT) ENGINE=ATOLL",
        f"INSERT INTO bank.account SELECT seq - 1, 1000, '' FROM mysql.seq_1_to_{ACCOUNTS}",
    )


def work(server: Server, draw: random.Random) -> list[tuple[str, int, int, int]]:
    """Runs the clients, and flushes and rewrites tables meanwhile. Returns all transactions in the order of
    their GTIDs."""
    clients = [Client(server, number, draw.random()) for number in range(CLIENTS)]
    for client in clients:
        client.start()
    end = time.monotonic() + LOAD_S
    while time.monotonic() < end:
        time.sleep(LOAD_S / 6)
        server.run("FLUSH TABLES bank.account, bank.moved", "OPTIMIZE TABLE bank.moved")
    for client in clients:
        client.stop()
    committed = [transaction for client in clients for transaction in client.committed]
    return sorted(committed, key=lambda transaction: int(transaction[0].split("-")[2]))


def told(server: Server, *arguments: str, behind: tuple[str, ...] = ()):
    ran = atollctl(server, "--json", *arguments, behind=behind)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return json.loads(ran.stdout)


def expect_state(server: Server, committed: list[tuple[str, int, int, int]], what: str) -> None:
    """Checks that the accounts are in the state after exactly these transactions."""
    balances = dict.fromkeys(range(ACCOUNTS), 1000)
    for _, source, target, amount in committed:
        balances[source] -= amount
        balances[target] += amount
    assert server.value("SELECT COUNT(*) FROM bank.moved") == len(committed), what
    assert dict(server.run("SELECT id, balance FROM bank.account")) == balances, what
    for table in ("account", "moved"):
        assert server.run(f"CHECK TABLE bank.{table}")[-1][-1] == "OK", what


def place(server: Server) -> str:
    return str(server.options["atoll_url"])


def test_any_transaction_can_be_had_again(make_server: MakeServer, draw: random.Random) -> None:
    bank = make_server("bank")
    bank.start()
    set_up(bank)
    committed = work(bank, draw)
    numbers = {gtid: number for number, (gtid, *_) in enumerate(committed)}
    assert len(numbers) == len(committed) > 100
    for round_ in range(MOMENTS):
        wanted = draw.randrange(len(committed))
        child = make_server(f"child{round_}")
        gtid = committed[wanted][0]
        made = told(bank, "clone", behind=(place(child), "--gtid", gtid))
        assert made["gtid_position"] == gtid
        child.start()
        expect_state(child, committed[: wanted + 1], f"behind {gtid}, {wanted + 1} of {len(committed)}")
        child.stop()
        # The same transaction, given by its commit time.
        plan = told(bank, "restore", behind=("--dry-run", "--gtid", gtid))
        again = make_server(f"again{round_}")
        made = told(bank, "clone", behind=(place(again), "--at", utc(plan["commit_us"])))
        assert numbers[made["gtid_position"]] >= wanted, "a commit of that time is missing"
        again.start()
        expect_state(again, committed[: numbers[made["gtid_position"]] + 1], f"at the time of {gtid}")
        again.stop()
    bank.stop()
    wanted = draw.randrange(len(committed))
    gtid = committed[wanted][0]
    told(bank, "restore", behind=("--gtid", gtid, "--keep", "mistake", "--yes"))
    bank.start()
    expect_state(bank, committed[: wanted + 1], f"in place, behind {gtid}")
    bank.run("INSERT INTO bank.moved (client, body) VALUES (99, 'after the restore')")
    bank.stop()
    # The history behind the restored moment can still be restored.
    later = draw.randrange(wanted, len(committed))
    told(bank, "restore", behind=("--gtid", committed[later][0], "--yes"))
    bank.start()
    expect_state(bank, committed[: later + 1], f"in place once more, behind {committed[later][0]}")


def test_definitions_and_prepared_transactions_are_those_of_the_moment(make_server: MakeServer) -> None:
    shop, child = make_server("shop"), make_server("child")
    shop.start()
    shop.run(
        "CREATE DATABASE shop",
        "CREATE TABLE shop.a (id INT PRIMARY KEY, v INT) ENGINE=ATOLL",
        "CREATE TABLE shop.b (id INT PRIMARY KEY) ENGINE=ATOLL",
        "INSERT INTO shop.a VALUES (1, 1)",
        "INSERT INTO shop.b VALUES (1)",
        "CREATE TABLE shop.c (id INT PRIMARY KEY) ENGINE=ATOLL",
        "XA START 'x'",
        "INSERT INTO shop.c VALUES (1)",
        "XA END 'x'",
        "XA PREPARE 'x'",
    )
    time.sleep(1.5)
    moment = utc(time.time_ns() // 1000)
    time.sleep(1.5)
    shop.run(
        "ALTER TABLE shop.a ADD COLUMN w INT DEFAULT 5",
        "DROP TABLE shop.b",
        "INSERT INTO shop.a VALUES (3, 3, 3)",
    )
    told(shop, "clone", behind=(place(child), "--at", moment))
    child.start()
    assert child.run("SELECT * FROM shop.a") == [(1, 1)]
    assert child.run("SELECT * FROM shop.b") == [(1,)]
    assert [row[-1] for row in child.run("XA RECOVER")] == [b"x"]
    child.run("XA COMMIT 'x'")
    assert child.run("SELECT * FROM shop.c") == [(1,)]


def test_what_cannot_be_had_is_refused_and_the_history_is_shown(make_server: MakeServer) -> None:
    server = make_server("server")
    server.start()
    set_up(server)
    before = told(server, "ls")
    for moment, why in [
        ("2100-01-01", "in the future"),
        ("2020-01-01 10:00:00+02:00", "before the history"),
        ("yesterday", "no moment"),
        ("2026-02-30", "no moment"),
    ]:
        ran = atollctl(server, "restore", behind=("--dry-run", "--at", moment))
        assert ran.returncode != 0 and why in ran.stderr, ran.stderr
    for gtid, why in [("0-1-999999", "no transaction with GTID"), ("1-2", "no GTID")]:
        ran = atollctl(server, "restore", behind=("--dry-run", "--gtid", gtid))
        assert ran.returncode != 0 and why in ran.stderr, ran.stderr
    assert told(server, "ls") == before
    wait_until(lambda: server.counter("Atoll_history_seconds") > 0, 30, "the history does not begin")
    (row,) = [row for row in told(server, "snapshot", "list") if row["kind"] == "history"]
    assert row["problem"] == ""
    server.run("SET GLOBAL atoll_history_grace = 0", "SET GLOBAL atoll_history_retention = 0")
    wait_until(lambda: not told(server, "snapshot", "list"), 30, "the pins of the history stay")
    ran = atollctl(server, "restore", behind=("--dry-run", "--at", utc(time.time_ns() // 1000)))
    assert ran.returncode == 1 and "keeps no history" in ran.stderr, ran.stderr
