"""Goal:   rule BORDER-1. When Atoll's code gets no memory or no thread, the statement fails with an error
        that says so. The server goes on, and the tables are in their state before or after the statement,
        never in between.
Method: the preloaded tests/crash/shortage.cc makes requests of the plugin for memory or threads fail, chosen
        by number. Each case is a few statements. It runs once without a fault, which counts the requests and
        gives the states before and after it. Then it runs with faults at random numbers: one failing request,
        or many in a row. After an error the tables must be in the state before (after an error in COMMIT, in
        either); after success in the state after. A case with several steps, such as DDL, may end between two
        steps; tables and indexes must then be complete, and the case must be repeatable after a clean-up. The
        start of the engine has a test of its own.

ATOLL_SHORTAGE_FAULTS changes the number of faults for each case, ATOLL_SHORTAGE_STARTS that of the faulty starts;
ATOLL_SHORTAGE_SEED repeats a run.
"""

from __future__ import annotations

import itertools
import os
import random
import re
from dataclasses import dataclass

import pymysql
import pytest
from harness.process import wait_until
from harness.server import Server
from harness.shortage import MEMORY, THREADS, Shortage

FAULTS = int(os.environ.get("ATOLL_SHORTAGE_FAULTS", "6"))
STARTS = int(os.environ.get("ATOLL_SHORTAGE_STARTS", "3"))
SEED = int(os.environ.get("ATOLL_SHORTAGE_SEED", str(random.randrange(1 << 30))))
ROWS = 60
# The error for a commit whose outcome is unknown, and the errors for a lost connection.
DURING_COMMIT, GONE = 1180, (2006, 2013)
ALWAYS = 1 << 40


@dataclass(frozen=True)
class Case:
    """Statements on one connection. If `is_read`, the rows of the last one are compared, too."""

    name: str
    statements: tuple[str, ...]
    is_read: bool = False
    # The statement commits before its end, so after an error its changes may be there.
    has_steps: bool = False


def reading(name: str, *statements: str) -> Case:
    return Case(name, statements, is_read=True)


SETUP = (
    "DROP TABLE IF EXISTS t, t2, p",
    "DROP SEQUENCE IF EXISTS s",
    "CREATE TABLE t (id INT AUTO_INCREMENT PRIMARY KEY, v INT, u INT, name VARCHAR(300), w INT AS (v + 1) VIRTUAL,"
    " KEY (v), UNIQUE (u), KEY (w)) ENGINE=ATOLL",
    f"INSERT INTO t (id, v, u, name) SELECT seq, seq % 7, seq, REPEAT(CHAR(65 + seq % 26), 200)"
    f" FROM mysql.seq_1_to_{ROWS}",
)

CASES = (
    Case("insert", ("INSERT INTO t (id, v, u) VALUES (101, 1, 101), (102, 2, 102), (103, 3, 103)",)),
    Case("insert_select", ("INSERT INTO t (id, v, u, name) SELECT id + 1000, v, u + 1000, name FROM t",)),
    Case(
        "insert_duplicate", ("INSERT INTO t (id, v, u) VALUES (7, 0, 7) ON DUPLICATE KEY UPDATE v = v + 100",)
    ),
    Case("replace", ("REPLACE INTO t (id, v, u, name) VALUES (5, 50, 6, 'replaced')",)),
    Case("update", ("UPDATE t SET v = v + 10, name = CONCAT(name, 'x') WHERE v BETWEEN 2 AND 5",)),
    Case("update_key", ("UPDATE t SET id = id + 1000 WHERE id > 40",)),
    Case("delete", ("DELETE FROM t WHERE v = 3",)),
    Case(
        "blob",
        ("ALTER TABLE t ADD b LONGBLOB", "UPDATE t SET b = REPEAT('y', 3000000) WHERE id = 9"),
        has_steps=True,
    ),
    Case(
        "transaction",
        (
            "BEGIN",
            "INSERT INTO t (id, v, u) VALUES (201, 1, 201)",
            "SAVEPOINT a",
            "UPDATE t SET v = 0 WHERE id < 9",
            "ROLLBACK TO a",
            "DELETE FROM t WHERE id = 3",
            "SELECT * FROM t WHERE v < 3 FOR UPDATE",
            "COMMIT",
        ),
    ),
    Case("auto_increment", ("BEGIN", "INSERT INTO t (v, u) VALUES (1, 401)", "ROLLBACK")),
    Case("rollback", ("BEGIN", "UPDATE t SET v = 0", "DELETE FROM t WHERE id = 3", "ROLLBACK")),
    Case(
        "xa",
        (
            "XA START 'x'",
            "INSERT INTO t (id, v, u) VALUES (301, 1, 301)",
            "XA END 'x'",
            "XA PREPARE 'x'",
            "XA COMMIT 'x'",
        ),
        has_steps=True,
    ),
    Case(
        "create",
        ("CREATE TABLE t2 (a INT PRIMARY KEY, b TEXT) ENGINE=ATOLL COMPRESSION=lz4",),
        has_steps=True,
    ),
    Case(
        "create_select",
        ("CREATE TABLE t2 (PRIMARY KEY (id)) ENGINE=ATOLL SELECT id, name FROM t",),
        has_steps=True,
    ),
    Case(
        "partitions",
        (
            "CREATE TABLE p (a INT PRIMARY KEY) ENGINE=ATOLL PARTITION BY HASH (a) PARTITIONS 3",
            "INSERT INTO p SELECT id FROM t",
        ),
        has_steps=True,
    ),
    Case("temporary", ("CREATE TEMPORARY TABLE tt ENGINE=ATOLL SELECT * FROM t", "SELECT COUNT(*) FROM tt")),
    Case(
        "sequence", ("CREATE SEQUENCE s ENGINE=ATOLL", "SELECT NEXTVAL(s)", "DROP SEQUENCE s"), has_steps=True
    ),
    Case("truncate", ("TRUNCATE t",), has_steps=True),
    Case("rename", ("RENAME TABLE t TO t2", "RENAME TABLE t2 TO t"), has_steps=True),
    Case("drop", ("CREATE TABLE t2 (a INT) ENGINE=ATOLL", "DROP TABLE t2"), has_steps=True),
    Case("instant", ("ALTER TABLE t ADD c INT DEFAULT 4, ALGORITHM=INSTANT",), has_steps=True),
    Case("add_key", ("ALTER TABLE t ADD KEY k (name(20)), ALGORITHM=INPLACE",), has_steps=True),
    Case(
        "primary_key", ("ALTER TABLE t MODIFY id INT, DROP PRIMARY KEY, ADD PRIMARY KEY (u)",), has_steps=True
    ),
    Case("copy", ("ALTER TABLE t FORCE, ALGORITHM=COPY",), has_steps=True),
    Case("snapshot", ("SELECT ATOLL_SNAPSHOT('a')", "SELECT ATOLL_DROP_SNAPSHOT('a')"), has_steps=True),
    Case(
        "settings",
        (
            "SET GLOBAL atoll_cache_size = 1 << 30",
            "SET GLOBAL atoll_block_cache_size = 1 << 26",
            "SET GLOBAL atoll_durability = 'local'",
            "SET GLOBAL atoll_snapshot_schedule = 'daily 2'",
            "SET GLOBAL atoll_snapshot_schedule = ''",
        ),
    ),
    Case("consistent_snapshot", ("START TRANSACTION WITH CONSISTENT SNAPSHOT", "SELECT * FROM t", "COMMIT")),
    Case("flush_logs", ("FLUSH LOGS",)),
    Case("admin", ("ANALYZE TABLE t", "CHECK TABLE t", "OPTIMIZE TABLE t", "SHOW ENGINE ATOLL STATUS")),
    Case("status", ("SHOW GLOBAL STATUS LIKE 'atoll%'",)),
    Case(
        "views",
        tuple(
            f"SELECT * FROM information_schema.atoll_{view}"
            for view in ("tables", "indexes", "trx", "locks", "files", "compactions", "snapshots")
        ),
    ),
    reading("point", "SELECT v, name FROM t WHERE id = 17"),
    reading("scan", "SELECT COUNT(*), SUM(v) FROM t WHERE name LIKE 'C%'"),
    reading("range", "SELECT id, w FROM t WHERE v BETWEEN 2 AND 4 ORDER BY id"),
    reading("backwards", "SELECT id FROM t WHERE v <= 3 ORDER BY v DESC, id DESC LIMIT 20"),
    reading("many_ranges", "SELECT id FROM t WHERE v IN (1, 3, 5) AND name > 'B' ORDER BY id"),
    reading("join", "SELECT COUNT(*) FROM t a JOIN t b ON a.u = b.v JOIN t c ON c.id = b.u"),
    reading("merge", "SELECT id FROM t WHERE v = 2 OR u = 30 ORDER BY id"),
    reading("for_update", "SELECT id FROM t WHERE v > 4 ORDER BY id FOR UPDATE"),
    reading(
        "handler", "HANDLER t OPEN", "HANDLER t READ v = (3)", "HANDLER t READ v NEXT", "HANDLER t CLOSE"
    ),
)


def state(server: Server) -> dict[str, object]:
    """The definitions and rows of all tables; the rows of `t` also by an index."""
    found: dict[str, object] = {}
    for (table,) in server.run("SHOW TABLES", database="d"):
        definition = server.run(f"SHOW CREATE TABLE {table}", database="d")[0][1]
        found[table] = re.sub(r" AUTO_INCREMENT=\d+", "", definition)
        found[f"rows of {table}"] = sorted(server.run(f"SELECT * FROM {table}", database="d"))
        if table == "t":
            by_index = server.run("SELECT id FROM t FORCE INDEX (v) WHERE v > -1 ORDER BY id", database="d")
            found["by index"] = by_index
            assert len(by_index) == len(found["rows of t"]), "an index has lost entries, or kept some"
    return found


def end_prepared(server: Server) -> None:
    for *_, name in server.run("XA RECOVER"):
        server.run(f"XA ROLLBACK '{name}'")


def drop_snapshots(server: Server) -> None:
    server.run("SELECT ATOLL_DROP_SNAPSHOT(snapshot_name) FROM information_schema.atoll_snapshots")


def has_recovered(server: Server) -> bool:
    """Whether RocksDB writes again. After an error in the background it retries once a second."""
    return "background_error none" in server.run("SHOW ENGINE ATOLL STATUS")[0][2]


class Trial:
    """Runs one case on one server, without and with faults."""

    def __init__(self, server: Server, shortage: Shortage, case: Case, chance: random.Random):
        self.server, self.shortage, self.case, self.chance = server, shortage, case, chance
        self.failures = self.faults = 0

    def run(self, kind: int, faults: int) -> None:
        self._set_up()
        self.before = state(self.server)
        with self.shortage.counting(kind) as counting:
            error, self.expected = self._execute()
        assert error is None, error
        requests = counting.counted
        self.after = state(self.server)
        self._restore()
        numbers = range(1, requests + 1)
        for number in self.chance.sample(numbers, min(faults, len(numbers))):
            # A statement with several steps cannot clean up during a lasting shortage, so only one request
            # fails.
            repeat = 1 if self.case.has_steps else self.chance.choice([1, 1, 5, ALWAYS])
            try:
                self._fault(kind, number, repeat)
            except Exception as problem:
                context = (
                    f"{self.case.name}: request {number} of {requests} fails, {repeat} in a row, seed {SEED}"
                )
                raise AssertionError(f"{context}: {type(problem).__name__}: {problem}") from problem
        checked = self.server.run("CHECK TABLE t EXTENDED", database="d")
        assert [row[2:] for row in checked] == [("status", "OK")], checked

    def _fault(self, kind: int, number: int, repeat: int) -> None:
        with self.shortage.failing(kind, number, repeat) as failing:
            error, rows = self._execute()
        assert self.server.running(), "the server has ended"
        self.failures += error is not None
        self.faults += failing.failed > 0
        assert error is None or failing.failed, f"an error without a fault: {error}"
        wait_until(lambda: has_recovered(self.server), 20, "RocksDB to recover")
        end_prepared(self.server)
        drop_snapshots(self.server)
        self.server.run("FLUSH TABLES")  # makes the server forget a new table that it could not open
        found = state(self.server)
        if error is None:
            assert found == self.after, "success, but not its result"
            assert not self.case.is_read or rows == self.expected, "a wrong result"
        else:
            self._check_error(error)
            may_be_done = self.case.has_steps or error.args[0] == DURING_COMMIT
            assert found == self.before or may_be_done, "an error, but something has changed"
            assert found in (self.before, self.after) or self.case.has_steps
        if found != self.before:
            self._restore()

    def _set_up(self) -> None:
        connection = self.server.connect("d", timeout_s=60)
        try:
            with connection.cursor() as cursor:
                for statement in SETUP:
                    try:
                        cursor.execute(statement)
                    except pymysql.Error as error:
                        where = f"outside of a shortage, before {self.case.name}, seed {SEED}"
                        warnings = connection.show_warnings()
                        raise AssertionError(f"{where}: {statement}: {error}: {warnings}") from error
        finally:
            connection.close()

    def _restore(self) -> None:
        self._set_up()
        assert state(self.server) == self.before

    def _check_error(self, error: pymysql.Error) -> None:
        assert isinstance(error, pymysql.MySQLError) and error.args[0] not in GONE, (
            f"the connection broke: {error}"
        )
        assert "rash" not in str(error), f"a healthy table is called crashed: {error}"

    def _execute(self):
        connection = self.server.connect("d", timeout_s=60)
        rows = ()
        try:
            with connection.cursor() as cursor:
                for statement in self.case.statements:
                    cursor.execute(statement)
                    rows = cursor.fetchall()
            return None, rows
        except pymysql.Error as error:
            return error, rows
        finally:
            connection.close()


def options(lab) -> dict[str, object]:
    return {
        "atoll_url": f"file://{lab.home / 'bucket'}",
        "innodb_stats_persistent": "OFF",
        "log_bin": "binlog",
        "max_statement_time": "60",
    }


@pytest.mark.parametrize("kind", [MEMORY, THREADS], ids=["memory", "threads"])
def test_a_shortage_fails_the_statement_and_nothing_else(lab, kind):
    chance = random.Random(f"{SEED}-{kind}")
    server = lab.server(**options(lab))
    shortage = Shortage(server)
    server.start()
    server.run("CREATE DATABASE d")
    failures = faults = 0
    for case in CASES:
        trial = Trial(server, shortage, case, chance)
        trial.run(kind, FAULTS)
        failures, faults = failures + trial.failures, faults + trial.faults
    server.stop()
    print(
        f"seed {SEED}: {len(CASES)} cases, {faults} faults, {failures} statements failed, 0 left anything half done"
    )
    assert failures > len(CASES) if kind == MEMORY else faults > 0


def test_an_alter_that_copies_ends_with_an_error_or_with_its_result(lab):
    """Each of the ALTER's requests for memory fails once."""
    server = lab.server(**options(lab))
    shortage = Shortage(server)
    server.start()
    server.run("CREATE DATABASE d")
    server.run("CREATE TABLE t (id INT PRIMARY KEY, v INT) ENGINE=ATOLL", database="d")
    connection = server.connect("d")
    cursor = connection.cursor()
    kinds = itertools.cycle(["bigint(20)", "int(11)"])
    before, after, failures = "int(11)", next(kinds), 0
    for number in itertools.count(1):
        error = None
        with shortage.failing(MEMORY, number) as failing:
            try:
                cursor.execute(f"ALTER TABLE t MODIFY v {after}, ALGORITHM=COPY")
            except pymysql.Error as reported:
                error = reported
        found = server.run("SHOW COLUMNS FROM t LIKE 'v'", database="d")[0][1]
        assert found == after if error is None else found in (before, after), f"request {number}: {error}"
        failures += error is not None
        if found == after:
            before, after = after, next(kinds)
        if not failing.failed:
            break
    assert failures > number / 4, (failures, number)


@pytest.mark.parametrize("kind", [MEMORY, THREADS], ids=["memory", "threads"])
def test_a_shortage_at_start_leaves_a_server_that_says_why(lab, kind):
    chance = random.Random(f"{SEED}-start-{kind}")
    server = lab.server(**options(lab))
    shortage = Shortage(server)
    with shortage.counting(kind):
        server.start()
    requests = shortage.counted
    server.run("CREATE DATABASE d")
    server.run(*SETUP, database="d")
    before = state(server)
    for number in chance.sample(range(1, requests + 1), min(STARTS, requests)):
        server.stop()
        with shortage.failing(kind, number):
            server.start()
        try:
            assert state(server) == before
        except pymysql.Error as error:
            assert "ATOLL" in str(error) or error.args[0] == 1286, f"request {number}, seed {SEED}: {error}"
    server.restart()
    assert state(server) == before
