"""Goal:   FOREIGN KEY does the same with ATOLL as with InnoDB: which rows statements change, which they refuse,
        with which error and text, and what cascades do. And no child is ever without its parent, however many
        sessions insert children and remove parents.
Method: seeded rounds of random tables with constraints and random statements, in one session, with both
        engines in one server. Every answer is compared, and from time to time all rows. Then eight sessions
        at each isolation level.

ATOLL_FOREIGN_ROUNDS sets the number of rounds, ATOLL_FOREIGN_SEED another seed. docs/limitations.md has the differences
that other seeds find.
"""

from __future__ import annotations

import contextlib
import os
import random
import time
from collections.abc import Iterator
from dataclasses import dataclass, field

import pymysql
import pytest
from harness.foreign_keys.load import HAS_CHILDREN, NO_PARENT, ORPHANS, TABLES, Client
from harness.process import scratch_directory
from harness.server import Server

ROUNDS = int(os.environ.get("ATOLL_FOREIGN_ROUNDS", "30"))
SEED = int(os.environ.get("ATOLL_FOREIGN_SEED", "35"))
# A statement that breaks two constraints of a table that refers to itself can get 1451 where InnoDB gives 1452.
REFERS_TO_ITSELF = bool(os.environ.get("ATOLL_FOREIGN_SELF"))
STATEMENTS = 60  # in a round
DUPLICATE, FOREIGN_DUPLICATE = 1062, 1761
REFUSALS = {DUPLICATE, FOREIGN_DUPLICATE, NO_PARENT, HAS_CHILDREN}
ENGINES = ("InnoDB", "ATOLL")
ACTIONS = ("", " RESTRICT", " CASCADE", " CASCADE", " SET NULL", " SET NULL", " NO ACTION")
# The columns of a child and of its parent in a constraint.
REFERENCES = (
    ("a", "id"),
    ("a", "id"),
    ("b", "id"),
    ("a", "a"),
    ("b", "b"),
    ("s", "s"),
    ("a, b", "a, b"),
    ("id", "id"),
)
# Each has an index for everything to which a constraint may refer.
KEYS = (
    "PRIMARY KEY (id), KEY (a, b), KEY (b), KEY (s)",
    "PRIMARY KEY (id), KEY (a, b), UNIQUE (b), UNIQUE (s)",
    "PRIMARY KEY (id, b), UNIQUE (a, b), KEY (b, s), KEY (s DESC)",
    "UNIQUE (id), KEY (a, b, id), KEY (b), KEY (s)",
    "KEY (id), KEY (a, b), KEY (b DESC), KEY (s)",
)


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    home = scratch_directory("foreign")
    server = Server(home / "server")
    server.start()
    yield server
    server.stop()


class Side:
    """One engine: a database of its own and a connection to it."""

    def __init__(self, server: Server, engine: str):
        self.engine, self.database = engine, f"d_{engine.lower()}"
        self._connection = server.connect()
        self.ask(f"DROP DATABASE IF EXISTS {self.database}")
        self.ask(f"CREATE DATABASE {self.database}")
        self.ask(f"USE {self.database}")
        self.ask(f"SET default_storage_engine = {engine}")

    def ask(self, sql: str) -> object:
        """Runs a statement. Returns its rows, or the number of changed rows with the warnings, or its error."""
        with self._connection.cursor() as cursor:
            try:
                changed = cursor.execute(sql)
                rows = cursor.fetchall()
            except pymysql.Error as error:
                return error.args[0], str(error.args[1]).replace(self.database, "d")
            if rows or sql.startswith("SELECT"):
                return rows
            cursor.execute("SHOW WARNINGS")
            return changed, [str(row).replace(self.database, "d") for row in cursor.fetchall()]

    def close(self) -> None:
        self.ask(f"DROP DATABASE {self.database}")
        self._connection.close()


@dataclass
class Round:
    """The statements of one round. `dice` decides everything."""

    dice: random.Random
    tables: list[str] = field(default_factory=list)
    # Whether statements switch checks off, which leaves children without parents. When the primary key of such a child
    # changes, InnoDB checks its unchanged columns, too, and ATOLL does not. So such rounds change no primary key.
    switches_off: bool = False
    references: set[tuple[str, str]] = field(default_factory=set)  # each a child and a parent
    referring: set[tuple[str, str]] = field(default_factory=set)  # each a child and a constraint's columns

    def has_circle(self) -> bool:
        """Whether two tables refer to each other. Longer circles are as rare as their difference."""
        return any((parent, child) in self.references for child, parent in self.references)

    def create(self) -> Iterator[str]:
        self.switches_off = self.dice.random() < 0.3
        for number in range(self.dice.randrange(1, 5)):
            name = f"t{number}"
            columns = f"id INT NOT NULL, a INT{self.null()}, b INT{self.null()}, s VARCHAR(4)"
            yield f"CREATE TABLE {name} ({columns}, {self.dice.choice(KEYS)})"
            self.tables.append(name)
        for constraint in range(1, 1 + self.dice.randrange(1, 6)):
            child, parent = self.dice.choice(self.tables), self.dice.choice(self.tables)
            if child == parent and not REFERS_TO_ITSELF:
                continue
            own, other = self.dice.choice(REFERENCES)
            # InnoDB refuses a cascade by one of two constraints on the same columns, ATOLL does not.
            if (child, own) in self.referring:
                continue
            self.referring.add((child, own))
            self.references.add((child, parent))
            yield (
                f"ALTER TABLE {child} ADD CONSTRAINT c{self.dice.randrange(10)}_{constraint} FOREIGN KEY ({own}) "
                f"REFERENCES {parent} ({other}){self.action('DELETE')}{self.action('UPDATE')}"
            )

    def null(self) -> str:
        return self.dice.choice(("", "", " NOT NULL"))

    def action(self, event: str) -> str:
        action = self.dice.choice(ACTIONS)
        return f" ON {event}{action}" if action else ""

    def number(self) -> str:
        return "NULL" if self.dice.random() < 0.1 else str(self.dice.randrange(6))

    def row(self) -> str:
        text = self.dice.choice(("'a'", "'A'", "'b'", "'b '", "'c'", "NULL"))
        return f"({self.dice.randrange(8)}, {self.number()}, {self.number()}, {text})"

    def rows(self) -> str:
        return ", ".join(self.row() for _ in range(self.dice.choice((1, 1, 2, 5))))

    def assignment(self) -> str:
        if not self.switches_off and self.dice.random() < 0.2:
            return self.dice.choice((f"id = {self.dice.randrange(8)}", "id = id + 1"))
        return self.dice.choice((
            f"a = {self.number()}", "a = b", f"b = {self.number()}",
            "a = a + 1, b = b + 1", "s = UPPER(s)", "s = CONCAT(s, 'x')", "s = NULL", f"a = {self.number()}, s = 'a'",
        ))  # fmt: skip

    def where(self) -> str:
        return self.dice.choice((
            "", f" WHERE id = {self.dice.randrange(8)}", f" WHERE a = {self.dice.randrange(6)}",
            f" WHERE id > {self.dice.randrange(8)}", " WHERE s = 'a'", f" WHERE b <= {self.dice.randrange(6)}",
        ))  # fmt: skip

    def statement(self) -> str:
        dice = self.dice
        table, other = dice.choice(self.tables), dice.choice(self.tables)
        ignore = dice.choice(("", "", " IGNORE"))
        order = " ORDER BY id, a, b, HEX(s)" + dice.choice(("", " DESC", "", " LIMIT 2"))
        what = dice.random()
        if what < 0.35:
            return f"INSERT{ignore} INTO {table} VALUES {self.rows()}"
        if what < 0.40:
            return f"REPLACE INTO {table} VALUES {self.row()}"
        if what < 0.45:
            return f"INSERT INTO {table} VALUES {self.row()} ON DUPLICATE KEY UPDATE {self.assignment()}"
        if what < 0.50:
            return f"INSERT{ignore} INTO {table} SELECT * FROM {other} ORDER BY id, a, b, HEX(s)"
        if what < 0.70:
            return f"UPDATE{ignore} {table} SET {self.assignment()}{self.where()}{order}"
        if what < 0.85:
            return f"DELETE{ignore} FROM {table}{self.where()}{order}"
        return dice.choice((
            f"SET foreign_key_checks = {0 if self.switches_off else 1}", "SET foreign_key_checks = 1", "BEGIN",
            "SAVEPOINT s1", "ROLLBACK TO s1", "COMMIT", "ROLLBACK", f"SELECT * FROM {table}{order}",
        ))  # fmt: skip


class KnownDifference(Exception):
    """The engines differ in a way that docs/limitations.md describes. The round ends, because the tables differ."""


def is_known(sql: str, expected: object, found: object, plan: Round) -> bool:
    """Whether InnoDB's answer `expected` and ATOLL's answer `found` may differ.

    InnoDB checks a child whose reference does not change if another column of the same index changes; this is seen
    when the child has no parent, or when a DELETE that will remove the child sets that column NULL. It keeps a row
    whose cascade would remove the row's own parent, and changes two rows that refer to each other. It cascades before
    it looks for a duplicate of the parent's new key, so of two broken rules it raises the other one, which IGNORE does
    not ignore. Of two broken rules, each engine may name another one.
    """
    said, answered = str(expected), str(found)
    innodb_misses, atoll_misses = str(NO_PARENT) in said, str(NO_PARENT) in answered
    if innodb_misses and not atoll_misses and (plan.switches_off or sql.startswith("DELETE")):
        return True
    if plan.has_circle() and said.count(f"{HAS_CHILDREN}, ") > answered.count(f"{HAS_CHILDREN}, "):
        return True
    if plan.has_circle() and atoll_misses and not innodb_misses:
        return True
    if sql.startswith("UPDATE IGNORE") and (plan.switches_off or str(FOREIGN_DUPLICATE) in said):
        return True  # with IGNORE, InnoDB says nothing of a row that it refuses for its orphan
    errors = [answer[0] for answer in (expected, found) if isinstance(answer, tuple)]
    return len(errors) == 2 and errors[0] != errors[1] and set(errors) <= REFUSALS


class Pair:
    """Runs the same statements on both engines. `script`: all that ran."""

    def __init__(self, server: Server, plan: Round):
        self._plan = plan
        self.sides = [Side(server, engine) for engine in ENGINES]
        self.script: list[str] = []

    def ask(self, sql: str) -> object:
        self.script.append(sql)
        expected, found = (side.ask(sql) for side in self.sides)
        if expected != found and is_known(sql, expected, found, self._plan):
            raise KnownDifference
        assert expected == found, self.report(expected, found)
        return expected

    def report(self, expected: object, found: object) -> str:
        return f"InnoDB: {expected}\nATOLL:  {found}\n" + ";\n".join(self.script) + ";"

    def verify(self, tables: list[str]) -> None:
        for table in tables:
            self.ask(f"SELECT id, a, b, s FROM {table} ORDER BY id, a, b, HEX(s)")
            self.ask(f"SELECT b FROM {table} FORCE INDEX (b) WHERE b >= 0 ORDER BY b")
        for table in tables:
            # On both sides, because the statement ends the transaction.
            _, checked = (side.ask(f"CHECK TABLE {table} EXTENDED") for side in self.sides)
            assert "OK" in str(checked), self.report("OK", checked)

    def close(self) -> None:
        for side in self.sides:
            side.close()


def run_round(server: Server, seed: str) -> int:
    """Returns how many statements the constraints have refused."""
    plan, refused = Round(random.Random(seed)), 0
    statements = list(plan.create())
    with contextlib.closing(Pair(server, plan)) as pair, contextlib.suppress(KnownDifference):
        for sql in statements:
            pair.ask(sql)
        for number in range(STATEMENTS):
            answer = pair.ask(plan.statement())
            refused += isinstance(answer, tuple) and answer[:1] in ((NO_PARENT,), (HAS_CHILDREN,))
            if number % 10 == 9:
                pair.verify(plan.tables)
        pair.ask("COMMIT")
        pair.verify(plan.tables)
    return refused


def test_random_statements_do_the_same_on_both_engines(server):
    print(f"seed {SEED}")
    refused = sum(run_round(server, f"{SEED}/{number}") for number in range(ROUNDS))
    print(f"{ROUNDS} rounds, {refused} statements refused")
    assert refused > ROUNDS, "too few constraints were broken to prove anything"


# ---- many sessions -------------------------------------------------------------------------------

CLIENTS = 8
ANOMALY_SECONDS = float(os.environ.get("ATOLL_FOREIGN_ANOMALY_SECONDS", "6"))


@pytest.mark.parametrize("level", ["READ UNCOMMITTED", "READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE"])
def test_no_child_is_ever_without_its_parent(server, level):
    server.run(*TABLES)
    end = time.monotonic() + ANOMALY_SECONDS
    clients = [Client(server, level, f"{SEED}/{level}/{number}", end) for number in range(CLIENTS)]
    for client in clients:
        client.start()
    with contextlib.closing(server.connect()) as checker, checker.cursor() as cursor:
        while time.monotonic() < end:
            cursor.execute("START TRANSACTION WITH CONSISTENT SNAPSHOT")
            for query in ORPHANS:
                cursor.execute(query)
                assert cursor.fetchall() == (), query
            cursor.execute("COMMIT")
    for client in clients:
        client.join()
    assert [client.unexpected for client in clients if client.unexpected] == []
    assert sum(client.done for client in clients) > 20
    for query in ORPHANS:
        assert not server.run(query), query
    for table in ("p", "r", "c"):
        assert server.run(f"CHECK TABLE anomaly.{table} EXTENDED")[-1][-1] == "OK"
