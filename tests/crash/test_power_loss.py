"""Goal:   after a loss of power at any sync of the engine's directory, the next start finds all acknowledged
        changes, no half transactions, and the tables as the last DDL left them.
Method: the preloaded tests/crash/power_loss.c ends the server at its n-th sync: in a start, a commit, a
        flush, DDL or a publish. Then the directory is reset to the synced bytes; bytes that were not synced
        are lost or torn at random (harness.power_loss). The next life of the server starts with this
        directory. Transactions and DDL are noted outside of the server. One test uses a disk whose syncs do
        nothing, which the checks must notice.

ATOLL_POWER_LIVES changes the number of lives for each durability (`make power-loss LIVES=400`), ATOLL_POWER_SEED
repeats a run.
"""

from __future__ import annotations

import os
import random
import threading
import time

import pymysql
import pytest
from harness.power_loss import PowerSupply
from harness.process import wait_until
from harness.server import Server, ServerFailed

LIVES = int(os.environ.get("ATOLL_POWER_LIVES", "8"))
SEED = int(os.environ.get("ATOLL_POWER_SEED", str(random.randrange(1 << 30))))
CLIENTS = 3
# The server's life ends at a random sync up to this number. A start takes about 30 syncs.
SYNCS_MAX = 150
ROWS_OF_A_TABLE = 300
ER_NO_SUCH_TABLE = 1146


class History:
    """One database with its lives, and the changes that clients have sent and that were acknowledged.

    A transaction inserts its number into two tables, so a number in only one of them is half a transaction.
    `tables` has the tables made by DDL that must exist, and `unsure` is the table whose DDL was not
    acknowledged.
    Threads: `_lock` guards `sent` and `acked`. Only the DDL thread uses the others and, after its end, the
    checks.
    """

    def __init__(self, lab, durability: str, seed: str):
        self.chance = random.Random(seed)
        self.seed = seed
        options = {"atoll_url": f"file://{lab.home / 'bucket'}", "atoll_durability": durability}
        self.server: Server = lab.server(**options).start(atoll_take_over="ON")
        self.server.run(
            "CREATE DATABASE d",
            "CREATE TABLE d.a (id INT PRIMARY KEY, v VARCHAR(600)) ENGINE=ATOLL",
            "CREATE TABLE d.b (id INT PRIMARY KEY, v VARCHAR(600), KEY (v)) ENGINE=ATOLL",
        )
        self.server.stop()
        self.power = PowerSupply(self.server)
        self.sent: set[int] = set()
        self.acked: set[int] = set()
        self.tables: set[int] = set()
        self.unsure: int | None = None
        self.made = self.ended_in_start = self.checks = 0
        self._lock = threading.Lock()

    def live(self, last: int, lie: str = "", torn: bool | None = None) -> None:
        """Starts the server, checks its rows, and runs clients until its sync number `last`, at which the
        power is lost.

        Errors: AssertionError when a change is lost or only half there; ServerFailed when the server does not
        start.
        """
        self.power.connect(last, lie)
        try:
            self.server.start(atoll_take_over="ON")
            self.check()
            self._work()
        except (pymysql.Error, ServerFailed):
            if self._has_ended():
                self.ended_in_start += 1
            else:
                raise
        self.server.kill()
        self.power.lose(self.chance, self.chance.random() < 0.7 if torn is None else torn)

    def end(self) -> None:
        """Starts the server without a loss of power, and checks its rows and tables once more."""
        self.power.connect()
        self.server.start(atoll_take_over="ON")
        self.check()

    def check(self) -> None:
        rows = [self._numbers(table) for table in "ab"]
        assert rows[0] == rows[1], f"half a transaction: {sorted(rows[0] ^ rows[1])}"
        assert self.acked <= rows[0], f"lost: {sorted(self.acked - rows[0])}"
        assert rows[0] <= self.sent, f"never sent: {sorted(rows[0] - self.sent)}"
        assert self.server.value("SELECT COUNT(*) FROM d.b FORCE INDEX (v) WHERE v >= ''") == len(rows[1])
        self._check_tables()
        self.checks += 1

    def _numbers(self, table: str) -> set[int]:
        try:
            return {number for (number,) in self.server.run(f"SELECT id FROM d.{table}")}
        except pymysql.err.ProgrammingError as error:
            assert error.args[0] != ER_NO_SUCH_TABLE, f"lost: table {table}"
            raise

    def _check_tables(self) -> None:
        listed = self.server.run("SELECT table_name FROM information_schema.tables WHERE table_schema = 'd'")
        found = {int(name[1:]) for (name,) in listed if name not in ("a", "b")}
        assert found - {self.unsure} == self.tables - {self.unsure}, f"{found}, not {self.tables}"
        for number in found:
            count = self.server.value(f"SELECT COUNT(*) FROM d.t{number}")
            assert count == ROWS_OF_A_TABLE, f"table {number} has {count} rows"
        if self.unsure in found:
            self.server.run(f"DROP TABLE d.t{self.unsure}")
        self.tables.discard(self.unsure)
        self.unsure = None

    # ---- work ---------------------------------------------------------------------------------------

    def _work(self) -> None:
        jobs = [self._commit] * CLIENTS + [self._change_tables]
        threads = [threading.Thread(target=self._until_lost, args=(job,), daemon=True) for job in jobs]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
            assert not thread.is_alive(), "the server lives on"
        if not self._has_ended():
            raise ServerFailed(f"statements fail:\n{self.server.log_tail()}")

    def _until_lost(self, job) -> None:
        try:
            with self.server.connect("d", autocommit=False) as connection, connection.cursor() as cursor:
                while True:
                    job(cursor)
        except pymysql.Error:
            return

    def _commit(self, cursor) -> None:
        with self._lock:
            number = len(self.sent) + 1
            self.sent.add(number)
        for table in "ab":
            cursor.execute(f"INSERT INTO {table} VALUES ({number}, REPEAT('x', {number % 500}))")
        cursor.connection.commit()
        with self._lock:
            self.acked.add(number)

    def _change_tables(self, cursor) -> None:
        """Rebuilds a table, creates one and drops one. This causes flushes, new table files, MANIFEST edits
        and roots."""
        cursor.execute("ALTER TABLE a FORCE, ALGORITHM=COPY")
        self.made += 1
        self.unsure = self.made
        select = f"SELECT seq AS id, REPEAT('y', 100) AS v FROM mysql.seq_1_to_{ROWS_OF_A_TABLE}"
        cursor.execute(f"CREATE TABLE t{self.made} (PRIMARY KEY (id)) ENGINE=ATOLL {select}")
        self.tables.add(self.made)
        self.unsure = None
        if len(self.tables) > 2:
            self.unsure = min(self.tables)
            cursor.execute(f"DROP TABLE t{self.unsure}")
            self.tables.discard(self.unsure)
            self.unsure = None

    def _has_ended(self) -> bool:
        if self.power.is_lost():
            wait_until(lambda: not self.server.running(), 10, "the server to end")
        return self.power.is_lost()


@pytest.mark.parametrize("durability", ["local", "async", "sync"])
def test_a_power_loss_at_any_sync_loses_nothing_acknowledged(lab, durability):
    seed = f"{SEED}-{durability}"
    history = History(lab, durability, seed)
    started = time.monotonic()
    for life in range(LIVES):
        last = 1 + life if LIVES > SYNCS_MAX else history.chance.randint(1, SYNCS_MAX)
        try:
            history.live(last)
        except Exception as error:
            context = f"life {life}, until sync {last}, seed {SEED}"
            raise AssertionError(f"{context}: {type(error).__name__}: {error}") from error
    history.end()
    print(
        f"seed {SEED}, {durability}: {LIVES} power losses, {history.ended_in_start} of them during a start, "
        f"{len(history.acked)} transactions and {history.made} tables acknowledged, 0 lost; "
        f"{time.monotonic() - started:.0f} s"
    )
    assert history.acked


def lives_on_a_disk_that_lies(lab, durability: str) -> History:
    """Runs lives in which syncs of the log do nothing. Each is long enough that some commits are only in the
    log."""
    history = History(lab, durability, f"{SEED}-lie")
    for _ in range(3):
        history.live(SYNCS_MAX, lie=".log", torn=False)
    history.end()
    return history


def test_a_disk_that_lies_is_noticed_by_this_test(lab):
    with pytest.raises(AssertionError, match="lost: "):
        lives_on_a_disk_that_lies(lab, "local")


def test_with_sync_the_bucket_has_what_a_disk_that_lies_has_lost(lab):
    history = lives_on_a_disk_that_lies(lab, "sync")
    assert history.acked
