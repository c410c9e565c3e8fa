"""Goal:   kill -9 in any phase of any DDL leaves the old or the new definition, never a mixture, and no
        orphaned objects.
Method: seeded rounds of clients that change definitions all the time, each in a database of its own. In a
        further database, one client builds indexes while two writers change the table. Each round ends with
        kill -9 and is reopened from local disk, every fifth from the bucket alone. Definitions and rows must
        be those of one step of each client's ledger, and rows and indexes must agree. At the end the bucket
        must be almost empty.

ATOLL_DDL_KILL_ROUNDS changes the number of rounds, ATOLL_DDL_KILL_SEED repeats a run.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import random
import threading
import time

import pymysql
from harness import ddl_load
from harness.ledger import ClientLedger, LedgerError, check_bucket, check_local
from harness.process import wait_until
from harness.server import Server
from harness.workload import CONNECTION_LOST, kill_under
from pymysql.constants import ER

ROUNDS = int(os.environ.get("ATOLL_DDL_KILL_ROUNDS", "40"))
SEED = int(os.environ.get("ATOLL_DDL_KILL_SEED", str(random.randrange(1 << 30))))
BUCKET_EVERY = 5
LAG_MAX_MS = 500
CLIENTS = 3
CHOICES_MAX = 1000
# The largest size of the bucket's table files when all tables are dropped: only the catalog is left.
OBJECT_BYTES_MAX = 2_000_000


class BusyClient(threading.Thread):
    """Until the server dies: writes rows of one table, or (`alters`) builds its indexes and changes, drops
    and adds its primary key."""

    def __init__(self, server: Server, seed: str, alters: bool):
        super().__init__(daemon=True)
        self.ledger = ClientLedger("busy", {})
        self.failure: BaseException | None = None
        self.server_dying = threading.Event()
        self._server = server
        self._alters = alters
        self._random = random.Random(seed)

    def run(self) -> None:
        try:
            connection = self._server.connect("busy")
            with connection.cursor() as cursor:
                while not self.server_dying.is_set():
                    self._execute(cursor, self._alter() if self._alters else self._write())
        except pymysql.Error as error:
            if not (self.server_dying.is_set() and error.args[0] in CONNECTION_LOST):
                self.failure = error

    @staticmethod
    def _execute(cursor, statement: str) -> None:
        """Executes the statement and ignores two kinds of errors. Deadlocks: under a descending primary key,
        UPDATE and REPLACE lock rows in different orders. Errors about the primary key: the client does not
        know whether the table has one."""
        try:
            cursor.execute(statement)
        except pymysql.Error as error:
            if error.args[0] not in (ER.LOCK_DEADLOCK, ER.CANT_DROP_FIELD_OR_KEY, ER.MULTIPLE_PRI_KEY):
                raise

    def _alter(self) -> str:
        primary_key = f"PRIMARY KEY (a {self._random.choice(['ASC', 'DESC'])})"
        return self._random.choice([
            "ALTER TABLE t DROP INDEX IF EXISTS k, ADD INDEX k (b, c), LOCK=NONE",
            "ALTER TABLE t DROP INDEX IF EXISTS u, ADD UNIQUE u (c, a), LOCK=NONE",
            "ALTER TABLE t DROP INDEX IF EXISTS kv, ADD INDEX kv (v, b), LOCK=NONE",
            "ALTER TABLE t ADD COLUMN IF NOT EXISTS e INT DEFAULT 3, ADD INDEX IF NOT EXISTS ke (e, v), LOCK=NONE",
            "ALTER TABLE t DROP INDEX IF EXISTS ke, DROP COLUMN IF EXISTS e",
            f"ALTER TABLE t DROP PRIMARY KEY, ADD {primary_key}, LOCK=NONE",
            "ALTER TABLE t DROP PRIMARY KEY, LOCK=NONE",
            f"ALTER TABLE t ADD {primary_key}, LOCK=NONE",
        ])  # fmt: skip

    def _write(self) -> str:
        low = self._random.randrange(20000)
        return self._random.choice([
            f"REPLACE INTO t (a, b, c, d) SELECT seq, seq % 7, 'new', seq FROM mysql.seq_{low}_to_{low + 20}",
            f"UPDATE t SET b = b + 1 WHERE d BETWEEN {low} AND {low + 10}",
            f"DELETE FROM t WHERE d BETWEEN {low} AND {low + 5}",
        ])  # fmt: skip


class DdlKillTest:
    """The data that all rounds share: the server and the clients' ledgers."""

    def __init__(self, lab):
        self.random = random.Random(SEED)
        self.store = lab.store()
        self.server: Server = lab.s3_server(
            self.store, atoll_durability="async", atoll_lag_max_ms=LAG_MAX_MS
        ).start()
        self.ledgers = {f"ddl{index}": ClientLedger(f"ddl{index}", {}) for index in range(CLIENTS)}
        for database in self.ledgers:
            ddl_load.create_database(self.server, database)
        self.server.run(
            "CREATE DATABASE busy",
            # Column d has the values of a. Its UNIQUE index keeps a unique while there is no primary key.
            "CREATE TABLE busy.t (a INT PRIMARY KEY, b INT, c VARCHAR(20), d INT, v INT AS (b * 2) VIRTUAL,"
            " KEY k (b), UNIQUE (d)) ENGINE=ATOLL",
            "INSERT INTO busy.t (a, b, c, d) SELECT seq, seq % 100, 'old', seq FROM mysql.seq_1_to_20000",
        )

    def round(self, index: int) -> None:
        self._load_and_kill(f"{SEED}-{index}")
        from_bucket = (index + 1) % BUCKET_EVERY == 0
        if from_bucket:
            self.server.wipe()
            self.server.start(atoll_take_over="ON")
        else:
            self.server.start()
        self._verify(from_bucket)

    def _load_and_kill(self, seed: str) -> None:
        clients: list = [
            ddl_load.DdlClient(self.server, ledger, "ATOLL", f"{seed}-{name}", name)
            for name, ledger in self.ledgers.items()
        ]
        clients += [BusyClient(self.server, f"{seed}-busy{number}", number == 0) for number in range(3)]
        for client in clients:
            client.start()
        time.sleep(self.random.uniform(0.1, 1.0))
        kill_under(self.server, clients)

    def _verify(self, from_bucket: bool) -> None:
        choices = []
        for name, ledger in self.ledgers.items():
            # A database without tables is in the bucket only after a background task has noted it, so it may
            # be missing.
            self.server.run(f"CREATE DATABASE IF NOT EXISTS {name}")
            found = ddl_load.read_state(self.server, name)
            steps = ddl_load.matching_numbers(ledger, found)
            if not steps:
                raise LedgerError(f"{name}: {ddl_load.nearest(ledger, found)}")
            choices.append(list(reversed(steps)))
        self._accept(choices, from_bucket)
        verdict = self.server.run("CHECK TABLE busy.t EXTENDED")
        assert verdict[-1][-1] == "OK", f"the table that is written while indexes are built: {verdict}"
        self._check_leftovers()

    def _accept(self, choices: list[list[int]], from_bucket: bool) -> None:
        """Finds steps of the ledgers that match the definitions and break no rule. Several steps of a client
        may match."""
        error: LedgerError | None = None
        for steps in itertools.islice(itertools.product(*choices), CHOICES_MAX):
            found = dict(zip(self.ledgers, steps, strict=True))
            try:
                if from_bucket:
                    check_bucket(list(self.ledgers.values()), found, LAG_MAX_MS / 1000)
                else:
                    for name, ledger in self.ledgers.items():
                        check_local(ledger, found[name])
            except LedgerError as broken:
                error = error or broken
                continue
            for name, ledger in self.ledgers.items():
                ledger.rebase(found[name])
            return
        assert error is not None
        raise error

    def _check_leftovers(self) -> None:
        tables = {(schema, name) for schema, name in self.server.run(
            "SELECT table_schema, table_name FROM information_schema.atoll_tables")}  # fmt: skip
        expected = {(name, table) for name, ledger in self.ledgers.items() for table in ledger.base}
        assert tables == expected | {("busy", "t")}, f"tables in the engine: {tables}, expected {expected}"
        unfinished = self.server.run("SELECT * FROM information_schema.atoll_indexes WHERE state <> 'ready'")
        assert not unfinished, f"indexes half built: {unfinished}"
        files = [path for database in [*self.ledgers, "busy"] if (self.server.data / database).exists()
                 for path in (self.server.data / database).iterdir() if path.name.startswith("#sql")]  # fmt: skip
        assert not files, f"files of an ALTER: {files}"

    def check_bucket_is_empty(self) -> None:
        """Drops all databases. Then the bucket's objects are unneeded, and after a flush the collector must
        delete them."""
        for database in [*self.ledgers, "busy"]:
            self.server.run(f"DROP DATABASE {database}")
        self.server.restart()
        self.server.run("CREATE DATABASE last", "CREATE TABLE last.t (a INT) ENGINE=ATOLL")
        self.server.restart()
        wait_until(lambda: self.store.client.total_bytes("db/sst/") < OBJECT_BYTES_MAX, 180,
                   "the objects of dropped tables to go", 0.5)  # fmt: skip


def test_kill_9_in_ddl_leaves_the_old_or_the_new_definition(lab):
    print(f"seed {SEED}, {ROUNDS} rounds")
    test = DdlKillTest(lab)
    for index in range(ROUNDS):
        try:
            test.round(index)
        except Exception as error:
            raise AssertionError(f"round {index} of seed {SEED}: {type(error).__name__}: {error}") from error
        if (index + 1) % 10 == 0:
            steps = {name: ledger.base_number for name, ledger in test.ledgers.items()}
            print(f"round {index + 1}: {steps}", flush=True)
    assert all(ledger.base_number > ROUNDS for ledger in test.ledgers.values()), "the load was too thin"
    test.check_bucket_is_empty()
    test.server.stop()


def test_renamed_partitioned_table_is_whole_when_only_its_frm_has_the_old_name(lab):
    """The state after kill -9 between the renaming in the engine and that of the .frm file."""
    server = lab.server().start()
    server.run(
        "CREATE DATABASE d",
        "CREATE TABLE d.t (a INT PRIMARY KEY) ENGINE=ATOLL PARTITION BY HASH (a) PARTITIONS 3",
        "INSERT INTO d.t VALUES (1), (2), (3)",
        "RENAME TABLE d.t TO d.u",
    )
    server.kill()
    (server.data / "d" / "u.frm").rename(server.data / "d" / "t.frm")
    server.start()
    assert server.run("SHOW TABLES FROM d") == [("u",)]
    assert server.value("SELECT SUM(a) FROM d.u") == 6


def test_partitioned_table_is_whole_when_only_its_list_of_partitions_has_the_new_name(lab):
    """The state after kill -9 while the server renamed the table: it renames the .par file before the table
    and the .frm file."""
    server = lab.server().start()
    server.run(
        "CREATE DATABASE d",
        "CREATE TABLE d.t (a INT PRIMARY KEY) ENGINE=ATOLL PARTITION BY HASH (a) PARTITIONS 3",
        "INSERT INTO d.t VALUES (1), (2), (3)",
    )
    server.stop()
    (server.data / "d" / "t.par").rename(server.data / "d" / "u.par")
    server.start()
    assert server.run("SELECT a FROM d.t ORDER BY a") == [(1,), (2,), (3,)]
    assert not (server.data / "d" / "u.par").exists()
    server.stop()
    (server.data / "d" / "t.par").unlink()
    server.start()
    assert server.run("SELECT a FROM d.t ORDER BY a") == [(1,), (2,), (3,)]
    server.stop()


def test_kill_9_in_drop_of_a_partitioned_table_leaves_all_of_it_or_nothing(lab):
    """The server drops one partition after the other. Before that it has removed the file that lists them."""
    server = lab.server().start()
    server.run("CREATE DATABASE d")
    for moment_ms in range(1, 21):
        server.run(
            "CREATE TABLE d.t (a INT PRIMARY KEY) ENGINE=ATOLL PARTITION BY HASH (a) PARTITIONS 16",
            "INSERT INTO d.t SELECT seq FROM d.seq_1_to_100",
        )
        kill = threading.Timer(moment_ms / 1000, server.kill)
        kill.start()
        with contextlib.suppress(pymysql.Error):
            server.run("DROP TABLE d.t")
        kill.join()
        server.start()
        if server.run("SHOW TABLES FROM d"):
            with contextlib.closing(server.connect(timeout_s=20)) as connection:
                cursor = connection.cursor()
                cursor.execute("SELECT COUNT(*) FROM d.t")
                assert cursor.fetchone() == (100,)
            server.run("DROP TABLE d.t")
        assert server.run("SELECT * FROM information_schema.atoll_tables") == []
