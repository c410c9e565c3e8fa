"""Goal:   after kill -9 of the server, the S3 server or both, at any moment, no acknowledged transfer is lost
        with atoll_durability=sync. With async, a restore from the bucket alone loses none that is older than
        the lag. The sum of all accounts never changes.
Method: seeded rounds of transfers between the accounts of several clients, noted in ledgers outside the
        server; kill -9; a start from the directory or from the bucket alone, chosen at random; the rows are
        compared with the ledgers.

ATOLL_CRASH_ROUNDS changes the number of rounds (`make test-crash ROUNDS=1000`), ATOLL_CRASH_SEED repeats a run.
"""

from __future__ import annotations

import os
import random
import time

import pytest
from harness.ledger import ClientLedger, Entry, LedgerError, check_bucket, check_local, explain
from harness.objectstores import Minio, Versitygw
from harness.process import wait_until
from harness.server import Server
from harness.workload import NotedClient, kill_under

ROUNDS = int(os.environ.get("ATOLL_CRASH_ROUNDS", "12"))
SEED = int(os.environ.get("ATOLL_CRASH_SEED", str(random.randrange(1 << 30))))
CLIENTS = 4
ACCOUNTS = 10  # of each client
OPENING = 1000
LAG_MAX_MS = 500
# Which of the two is killed in a round, and which one first.
KILLS = ("server", "store", "store and server", "server and store")


class Client(NotedClient):
    """Moves money between two of its accounts, in a loop, until the server is killed.

    Each transaction also writes its number, so that the rows tell which transaction was the last.
    """

    def __init__(self, server: Server, ledger: ClientLedger, seed: str):
        super().__init__(server, ledger, seed, "bank", autocommit=False)

    def _step(self, cursor) -> None:
        number = self.ledger.last_sent() + 1
        giver, taker = self._random.sample(range(ACCOUNTS), 2)
        amount = self._random.randrange(1, 100)

        def change(state: dict) -> None:
            state["accounts"][giver] -= amount
            state["accounts"][taker] += amount

        entry = Entry(self.ledger.client, number, "transfer", change, time.monotonic())
        self.ledger.entries.append(entry)
        move = "UPDATE accounts SET balance = balance + %s WHERE client = %s AND id = %s"
        cursor.execute(move, (-amount, self.ledger.client, giver))
        cursor.execute("UPDATE progress SET number = %s WHERE client = %s", (number, self.ledger.client))
        cursor.execute(move, (amount, self.ledger.client, taker))
        cursor.connection.commit()
        entry.acked_at = time.monotonic()


class CrashTest:
    """The data that all rounds share: the servers, the ledgers and the counts."""

    def __init__(self, lab, kind, durability: str, seed: str):
        self.random = random.Random(seed)
        self.seed = seed
        self.store = lab.store(kind)
        self.server: Server = lab.s3_server(
            self.store, atoll_durability=durability, atoll_lag_max_ms=LAG_MAX_MS
        ).start()
        self.is_sync = durability == "sync"
        self.ledgers = {
            name: ClientLedger(name, {"accounts": dict.fromkeys(range(ACCOUNTS), OPENING)})
            for name in (f"c{index}" for index in range(CLIENTS))
        }
        self.server.run(
            "CREATE DATABASE bank",
            "CREATE TABLE bank.accounts (client CHAR(4), id INT, balance BIGINT NOT NULL, PRIMARY KEY (client, id)) "
            "ENGINE=ATOLL",
            "CREATE TABLE bank.progress (client CHAR(4) PRIMARY KEY, number INT NOT NULL) ENGINE=ATOLL",
            *(f"INSERT INTO bank.progress VALUES ('{name}', 0)" for name in self.ledgers),
            *(
                f"INSERT INTO bank.accounts VALUES ('{name}', {index}, {OPENING})"
                for name in self.ledgers
                for index in range(ACCOUNTS)
            ),
        )
        # With async, the newest commits may be lost. These must not include the creation of the tables.
        wait_until(lambda: self.server.counter("Atoll_wal_lag_bytes") == 0, 60, "the tables in the bucket")
        self.acked = self.kills = self.from_bucket = self.lost_in_lag = 0
        self.oldest_lost_s = 0.0

    def round(self, index: int) -> None:
        clients = [
            Client(self.server, ledger, f"{self.seed}-{index}-{name}")
            for name, ledger in self.ledgers.items()
        ]
        for client in clients:
            client.start()
        wait_until(self._anything_acked, 60, "a transfer to be acknowledged", 0.01)
        time.sleep(self.random.uniform(0, 0.6))
        what = self.random.choice(KILLS)
        self._kill(what, clients)
        from_bucket = self.random.random() < 0.5
        if from_bucket:
            self.server.wipe()
        self.server.start(atoll_take_over="ON" if from_bucket else "OFF")
        self._verify(from_bucket)

    def _kill(self, what: str, clients: list[Client]) -> None:
        """Kills the servers that `what` names; both may be down at the same time. At the end the S3 server
        runs again."""
        self.kills += 1 + (" and " in what)
        if what.startswith("store"):
            self.store.kill()
            if what == "store":
                time.sleep(self.random.uniform(0, 1))
                self.store.start()
                time.sleep(self.random.uniform(0, 0.6))
                self.kills += 1  # the server, which is killed in every case so that its rows can be compared
            else:
                time.sleep(self.random.uniform(0, 0.3))
        kill_under(self.server, clients)
        if what == "server and store":
            self.store.kill()
        if " and " in what:
            self.store.start()

    def _anything_acked(self) -> bool:
        return any(ledger.last_acked() > ledger.base_number for ledger in self.ledgers.values())

    def _verify(self, from_bucket: bool) -> None:
        rows = self.server.run("SELECT client, number FROM bank.progress")
        found = {client: number for client, number in rows}
        if from_bucket and not self.is_sync:
            lost_s = check_bucket(list(self.ledgers.values()), found, LAG_MAX_MS / 1000)
            self.oldest_lost_s = max(self.oldest_lost_s, lost_s)
        else:
            for name, ledger in self.ledgers.items():
                check_local(ledger, found[name])
        for name, ledger in self.ledgers.items():
            accounts = dict(self.server.run(f"SELECT id, balance FROM bank.accounts WHERE client = '{name}'"))
            difference = explain(ledger.state_at(found[name]), {"accounts": accounts})
            if difference:
                raise LedgerError(f"client {name} at transfer {found[name]}: {difference}")
            assert sum(accounts.values()) == ACCOUNTS * OPENING
            self.acked += ledger.last_acked() - ledger.base_number
            self.lost_in_lag += max(0, ledger.last_acked() - found[name])
            ledger.rebase(found[name])
        self.from_bucket += from_bucket

    def result(self, name: str, rounds: int) -> str:
        oldest_ms = self.oldest_lost_s * 1000
        within = (
            f"{self.lost_in_lag} lost within the lag of {LAG_MAX_MS} ms (the oldest {oldest_ms:.0f} ms old)"
        )
        lost = "0 lost" if self.is_sync else within
        return (
            f"{name}: {rounds} rounds, {self.kills} kills, {self.from_bucket} starts from the bucket alone, "
            f"{self.acked} transfers acknowledged, {lost}"
        )


@pytest.mark.parametrize(
    ("durability", "kind", "part"),
    [("sync", Versitygw, 0), ("async", Minio, 1), ("sync", Minio, 2), ("async", Versitygw, 3)],
)
def test_no_transfer_is_lost_whatever_is_killed(lab, durability, kind, part):
    rounds = (ROUNDS + 3 - part) // 4
    name = f"{durability}, {kind.program_name}"
    print(f"seed {SEED}, {name}")
    started = time.monotonic()
    test = CrashTest(lab, kind, durability, f"{SEED}-{part}")
    for index in range(rounds):
        try:
            test.round(index)
        except Exception as error:
            raise AssertionError(
                f"round {index} of seed {SEED} ({name}): {type(error).__name__}: {error}"
            ) from error
        if (index + 1) % 25 == 0:
            print(f"{test.result(name, index + 1)}; {time.monotonic() - started:.0f} s", flush=True)
    print(f"{test.result(name, rounds)}; {time.monotonic() - started:.0f} s", flush=True)
    assert test.acked >= rounds
