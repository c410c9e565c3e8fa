"""Goal:   after operations on a database's past in any order, with kills and outages in between, every table,
        snapshot, mount, clone and restored state has exactly the right rows, and the buckets have all needed
        objects and no others.
Method: random steps (the seed is printed) on a server and its clones. The digests of all tables are
        remembered for the present state of each database and for each snapshot, and compared. `make
        test-history ROUNDS=1000` takes more steps.
"""

from __future__ import annotations

import contextlib
import os
import random
import threading
import time
from collections import Counter
from collections.abc import Callable

import pymysql
import pytest
from conftest import Lab
from harness.digest import database_digests
from harness.objectstores import Versitygw
from harness.process import wait_until
from harness.proxy import FaultProxy
from harness.server import Server, s3_options
from test_history import told

ROUNDS = int(os.environ.get("ATOLL_HISTORY_ROUNDS", "40"))
SEED = int(os.environ.get("ATOLL_HISTORY_SEED", str(random.randrange(1 << 30))))
TABLES = 4
ROWS = 300
CHILDREN_MAX = 2
SNAPSHOTS_MAX = 8
OUTAGE_S = 1.0
# Two tombs in succession; each takes ten seconds to gather keys and a minute of grace time. The limit
# has room to spare.
COLLECTED_WITHIN_S = 240

Digests = dict[str, object]


class Database:
    """A server, with the expected digests of its present tables and of its snapshots."""

    def __init__(self, name: str, server: Server):
        self.name = name
        self.server = server
        self.present: Digests = {}
        self.snapshots: dict[str, Digests] = {}

    def look(self) -> Digests:
        return database_digests(self.server, "shop")

    def check(self, why: str) -> None:
        assert self.look() == self.present, f"{self.name} after {why}"


class World:
    """All databases of a test, and the steps that change them."""

    def __init__(self, lab: Lab, kind: str, dice: random.Random):
        self.dice = dice
        self.lab = lab
        self.proxy: FaultProxy | None = None
        self.count = 0
        self.done: Counter[str] = Counter()
        self.log: list[str] = []
        if kind == "versitygw":
            self.store = lab.store(Versitygw)
            self.proxy = lab.proxy(self.store)
        else:
            (lab.home / "bucket").mkdir()
        self.main = Database("main", self.make_server("main").start())
        self.children: list[Database] = []
        self.main.server.run("CREATE DATABASE shop")
        for number in range(TABLES):
            self.create(self.main, number)
        self.main.present = self.main.look()

    def make_server(self, name: str) -> Server:
        options: dict[str, object] = {"atoll_durability": "sync"}
        if self.proxy is None:
            return self.lab.server(name, atoll_url=f"file://{self.lab.home}/bucket/{name}", **options)
        place = s3_options(self.proxy.endpoint, self.store.bucket, self.store.credentials, prefix=name)
        return self.lab.server(name, **place, **options)

    def new(self, kind: str) -> str:
        self.count += 1
        return f"{kind}{self.count}"

    def create(self, db: Database, number: int) -> None:
        # A table with COMPRESSION has a column family of its own.
        compressed = self.dice.choice(["", " COMPRESSION=zstd"])
        partitioned = self.dice.choice(["", "", " PARTITION BY HASH (id) PARTITIONS 3"])
        name = f"shop.t{number}"
        db.server.run(
            f"CREATE TABLE {name} (id INT PRIMARY KEY, k INT, body VARCHAR(200), KEY (k)) "
            f"ENGINE=ATOLL{compressed}{partitioned}",
            f"INSERT INTO {name} SELECT seq, seq % 17, MD5(seq + {number}) FROM mysql.seq_1_to_{ROWS}",
        )

    # ---- Steps: each returns its name, and updates `present` ----

    def change(self, db: Database) -> str:
        table = self.dice.choice(sorted(db.present))
        number = self.dice.randrange(1000)
        statement = self.dice.choice(
            [
                f"UPDATE shop.{table} SET body = CONCAT(LEFT(body, 150), '{number}') WHERE id % 5 = {number % 5}",
                f"DELETE FROM shop.{table} WHERE id % 11 = {number % 11}",
                f"REPLACE INTO shop.{table} (id, k, body) "
                f"SELECT seq, {number}, MD5(seq) FROM mysql.seq_{number}_to_{number + 50}",
                f"UPDATE shop.{table} SET k = k + 1",
            ]
        )
        db.server.run(statement)
        db.present = db.look()
        return statement.split()[0]

    def alter(self, db: Database) -> str:
        table = self.dice.choice(sorted(db.present))
        what = self.dice.choice(
            ["FORCE", "COMPRESSION=zlib", "COMPRESSION=lz4", "ENGINE=ATOLL, ALGORITHM=COPY"]
        )
        db.server.run(f"ALTER TABLE shop.{table} {what}")
        db.check(f"ALTER TABLE {table} {what}")
        return "alter"

    def drop_and_create(self, db: Database) -> str:
        table = self.dice.choice(sorted(db.present))
        db.server.run(f"DROP TABLE shop.{table}")
        number = self.dice.randrange(TABLES)
        if f"t{number}" not in {name for (name,) in db.server.run("SHOW TABLES IN shop")}:
            self.create(db, number)
        db.present = db.look()
        return "drop table"

    def clone_table(self, db: Database) -> str:
        source, clone = self.dice.choice(sorted(db.present)), self.new("c")
        db.server.run(f"SELECT ATOLL_CLONE_TABLE('shop.{source}', 'shop.{clone}')")
        db.present = db.present | {clone: db.present[source]}
        db.check(f"cloning {source}")
        return "clone table"

    def snapshot(self, db: Database) -> str:
        if len(db.snapshots) >= SNAPSHOTS_MAX:
            return self.drop_snapshot(db)
        name = self.new("s")
        if self.dice.random() < 0.3:
            # The snapshot has the state of the bucket. After a kill, the server may later upload a change
            # that was not acknowledged to any client. So the test waits for the log first.
            wait_until(
                lambda: db.server.counter("Atoll_wal_lag_bytes") == 0, 60, "the log does not reach the bucket"
            )
            told(db.server, "snapshot", "create", behind=(name,))
        else:
            db.server.run(f"SELECT ATOLL_SNAPSHOT('{name}')")
        db.snapshots[name] = db.present
        return "snapshot"

    def drop_snapshot(self, db: Database) -> str:
        if db.snapshots:
            name = self.dice.choice(sorted(db.snapshots))
            db.server.run(f"SELECT ATOLL_DROP_SNAPSHOT('{name}')")
            del db.snapshots[name]
        return "drop snapshot"

    def mount(self, db: Database) -> str:
        if db.snapshots:
            self.check_snapshot(db, self.dice.choice(sorted(db.snapshots)))
        return "mount"

    def check_snapshot(self, db: Database, name: str) -> None:
        """Mounts the snapshot and compares all its tables."""
        schema = self.new("m")
        db.server.run(f"SELECT ATOLL_MOUNT('shop', '{schema}', '{name}')")
        assert database_digests(db.server, schema) == db.snapshots[name], f"{db.name}: {name}"
        db.server.run(f"SELECT ATOLL_UNMOUNT('{schema}')")

    def clone(self, db: Database) -> str:
        if len(self.children) >= CHILDREN_MAX:
            return self.end_child(db)
        name = self.new("child")
        server = self.make_server(name)
        behind: tuple[str, ...] = (str(server.options["atoll_url"]),)
        child = Database(name, server)
        child.present = db.present
        if db.snapshots and self.dice.random() < 0.7:
            snapshot = self.dice.choice(sorted(db.snapshots))
            behind = (*behind, "--snapshot", snapshot)
            child.present = db.snapshots[snapshot]
        told(db.server, "clone", behind=behind)
        server.start()
        child.check(f"cloning {db.name} {behind[1:]}")
        self.children.append(child)
        return "clone"

    def end_child(self, _: Database) -> str:
        """Stops the server of a clone for good. The clone's pin stays, and so do the parent's files that it
        reads."""
        if self.children:
            self.children.pop(self.dice.randrange(len(self.children))).server.stop()
        return "end clone"

    def restore(self, db: Database) -> str:
        if not db.snapshots:
            return "nothing"
        name, kept = self.dice.choice(sorted(db.snapshots)), self.new("kept")
        db.server.stop()
        told(db.server, "restore", behind=("--snapshot", name, "--keep", kept, "--yes"))
        db.snapshots[kept] = db.present
        db.present = db.snapshots[name]
        db.server.start()
        db.check(f"restoring {name}")
        return "restore"

    def kill(self, db: Database) -> str:
        db.server.kill()
        db.server.start()
        db.check("a kill")
        return "kill"

    def lose_disk(self, db: Database) -> str:
        db.server.stop()
        db.server.wipe()
        db.server.start()
        db.check("a lost disk")
        return "lose disk"

    def kill_within(self, db: Database) -> str:
        """Kills the server while it makes a snapshot or a table clone, which must then exist completely or
        not at all."""
        snapshot, clone = self.new("s"), self.new("c")
        source = self.dice.choice(sorted(db.present))
        statement = self.dice.choice(
            [
                f"SELECT ATOLL_SNAPSHOT('{snapshot}')",
                f"SELECT ATOLL_CLONE_TABLE('shop.{source}', 'shop.{clone}')",
            ]
        )

        def run() -> None:
            with contextlib.suppress(pymysql.Error, OSError):  # the server was killed
                db.server.run(statement)

        thread = threading.Thread(target=run)
        thread.start()
        time.sleep(self.dice.uniform(0, 0.15))
        db.server.kill()
        thread.join()
        db.server.start()
        found = db.look()
        if clone in found:
            db.present = db.present | {clone: db.present[source]}
        db.check(f"a kill within {statement}")
        names = {
            name
            for (name,) in db.server.run(
                "SELECT snapshot_name FROM information_schema.atoll_snapshots WHERE kind = 'snapshot'"
            )
        }
        if snapshot in names:
            db.snapshots[snapshot] = db.present
        return "kill within"

    def outage(self, db: Database) -> str:
        """The S3 server does not answer for OUTAGE_S, while a statement changes rows."""
        if self.proxy is None:
            return self.change(db)
        self.proxy.down()
        timer = threading.Timer(OUTAGE_S, self.proxy.up)
        timer.start()
        try:
            self.change(db)
        finally:
            timer.join()
        db.check("an outage")
        return "outage"

    def step(self) -> None:
        steps: list[tuple[int, Callable[[Database], str]]] = [
            (30, self.change),
            (8, self.alter),
            (4, self.drop_and_create),
            (8, self.clone_table),
            (12, self.snapshot),
            (6, self.drop_snapshot),
            (8, self.mount),
            (5, self.clone),
            (2, self.end_child),
            (3, self.restore),
            (4, self.kill),
            (2, self.lose_disk),
            (5, self.kill_within),
            (3, self.outage),
        ]
        weights, functions = zip(*steps, strict=True)
        (function,) = self.dice.choices(functions, weights)
        db = self.dice.choice([self.main, self.main, *self.children])
        if len(db.present) > 2 * TABLES:
            self.drop_some(db)
        before = set(db.snapshots)
        what = function(db)
        self.done[what] += 1
        changed = [f"+{name}" for name in sorted(set(db.snapshots) - before)]
        changed += [f"-{name}" for name in sorted(before - set(db.snapshots))]
        self.log.append(" ".join([f"{db.name}: {what}", *changed]))

    def drop_some(self, db: Database) -> None:
        for table in self.dice.sample(sorted(db.present), TABLES):
            db.server.run(f"DROP TABLE shop.{table}")
        if not db.look():
            self.create(db, 0)
        db.present = db.look()

    # ---- The end ----

    def check_all(self) -> None:
        for db in [self.main, *self.children]:
            db.check("everything")
            for name in sorted(db.snapshots):
                self.check_snapshot(db, name)
            assert told(db.server, "verify", "--deep")["problems"] == []

    def check_collected(self) -> None:
        for db in [self.main, *self.children]:
            for name in sorted(db.snapshots):
                db.server.run(f"SELECT ATOLL_DROP_SNAPSHOT('{name}')")
            db.server.restart()  # a new owner searches its bucket for unneeded objects

            def is_clean(db: Database = db) -> bool:
                plan = told(db.server, "gc")
                return not plan["tombed"] and not plan["strays"]

            try:
                wait_until(
                    is_clean, COLLECTED_WITHIN_S, f"{db.name}: superfluous objects are there", interval_s=1
                )
            except TimeoutError:
                print(told(db.server, "gc"), told(db.server, "snapshot", "list"))
                raise
            db.check("the collector")
            assert told(db.server, "verify", "--deep")["problems"] == []


@pytest.mark.parametrize("kind", ["file", "versitygw"])
def test_any_order_of_steps(lab: Lab, kind: str) -> None:
    print(f"seed {SEED}, {ROUNDS} steps, {kind}")
    world = World(lab, kind, random.Random(f"{SEED} {kind}"))
    for number in range(ROUNDS):
        try:
            world.step()
        except BaseException:
            print(f"at step {number}; before it: " + "; ".join(world.log[-100:]))
            raise
    print(dict(world.done))
    world.check_all()
    if ROUNDS > 100:
        world.check_collected()
