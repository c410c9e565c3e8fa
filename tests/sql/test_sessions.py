"""Goal:   while several sessions write at any isolation level, all indexes of a table agree with its rows, in
        every snapshot and at the end, and unique keys stay unique.
Method: seeded rounds with random tables, and random transactions in several threads. In every second round,
        ALTERs add and drop indexes and the primary key meanwhile. Within a snapshot, and at the end of a
        round, the same query runs by every index and without one. At the end CHECK TABLE EXTENDED checks all
        tables.

The seed does not determine the order in which the threads run. ATOLL_SESSIONS_SECONDS sets the duration,
ATOLL_SESSIONS_SEED another seed.
"""

from __future__ import annotations

import contextlib
import os
import random
import threading
import time

import pymysql
from harness.random_sql import dml as dml
from harness.random_sql.schema import Index, Names, Table, random_column, random_generated, random_index
from harness.random_sql.sessions import Wrong, ask, connect, make_tables
from harness.server import Server

SECONDS = float(os.environ.get("ATOLL_SESSIONS_SECONDS", "60"))
SEED = int(os.environ.get("ATOLL_SESSIONS_SEED", "20261122"))
SESSIONS = 4
TRANSACTIONS = 30  # of a session in a round
LEVELS = ("READ COMMITTED", "REPEATABLE READ", "REPEATABLE READ", "SERIALIZABLE")


class Session(threading.Thread):
    """Runs random transactions on the tables. `wrong` describes a wrong answer of the engine, if there was
    one."""

    def __init__(self, server: Server, tables: list[Table], seed: str):
        super().__init__()
        self.wrong = ""
        self.questions = 0
        self._tables = tables
        self._dice = random.Random(seed)
        self._connection = connect(server)

    def run(self) -> None:
        try:
            with contextlib.closing(self._connection):
                for _ in range(TRANSACTIONS):
                    self._transaction()
        except Wrong as wrong:
            self.wrong = str(wrong)

    def _transaction(self) -> None:
        level = self._dice.choice(LEVELS)
        self._ask(f"SET TRANSACTION ISOLATION LEVEL {level}")
        self._ask("START TRANSACTION")
        has_written = False
        for _ in range(self._dice.randrange(1, 7)):
            table = self._dice.choice(self._tables)
            what = self._dice.random()
            if what < 0.3:
                if level == "REPEATABLE READ" and self._is_in_transaction():
                    indexes = comparable(table, unique=not has_written)
                    self.questions += compare_indexes(self._connection, self._dice, table, indexes)
            elif what < 0.4:
                self._ask(self._dice.choice(("SAVEPOINT s", "ROLLBACK TO s")))
            elif what < 0.5:
                if steps := dml.by_every_index(self._dice, table):
                    self._ask(steps[0].sql + self._dice.choice(dml.LOCKS))
            elif (step := self._write(table)) is not None:
                has_written = True
                self._ask(step.sql)
        self._ask("COMMIT" if self._dice.random() < 0.8 else "ROLLBACK")

    def _is_in_transaction(self) -> bool:
        """Whether the transaction is still open: a deadlock ends it, and its snapshot."""
        return ask(self._connection, "SELECT @@in_transaction") == [(b"1",)]

    def _write(self, table: Table) -> dml.Step | None:
        choice = self._dice.random()
        if choice < 0.45:
            return dml.insert(self._dice, table)
        if choice < 0.8:
            return dml.update(self._dice, table, table)
        return dml.delete(self._dice, table, table)

    def _ask(self, sql: str) -> None:
        """Runs a statement that may fail: values out of range, duplicates, deadlocks."""
        with contextlib.suppress(pymysql.Error):
            ask(self._connection, sql)


class Builder(threading.Thread):
    """Until `stopped` is set: adds indexes, alone or with a column, drops them, and changes the primary key.
    `wrong`: as in Session."""

    def __init__(self, server: Server, tables: list[Table], seed: str):
        super().__init__()
        self.wrong = ""
        self.built = 0
        self.stopped = False
        self._tables = tables
        self._dice = random.Random(seed)
        self._names = Names()
        self._connection = connect(server)

    def run(self) -> None:
        try:
            with contextlib.closing(self._connection):
                ask(self._connection, "SET lock_wait_timeout = 2")
                while not self.stopped:
                    self._alter()
        except Wrong as wrong:
            self.wrong = str(wrong)

    def _alter(self) -> None:
        table = self._dice.choice(self._tables)
        steps = self._steps_of_column(table) if self._dice.random() < 0.3 else self._steps_of_index(table)
        for step in steps:
            with contextlib.suppress(pymysql.Error):
                ask(self._connection, f"ALTER TABLE {table.name} {step}")
                self.built += 1

    def _steps_of_index(self, table: Table) -> list[str]:
        index = random_index(self._dice, self._names, table, unique=False)
        if self._dice.random() < 0.4:
            index = table.primary()
        if index is None or loses_rows(index):
            return []
        if index.name == "PRIMARY":
            return ["DROP PRIMARY KEY", f"ADD {index.definition()}"]
        add = index.definition().replace(f"KEY {index.name}", f"KEY b{index.name}")
        return [f"ADD {add}", f"DROP KEY b{index.name}"]

    def _steps_of_column(self, table: Table) -> list[str]:
        """Adds a column and an index on it in one statement, then drops both."""
        column = random_generated(self._dice, self._names, table)
        if column is None or column.stored:
            column = random_column(self._dice, self._names)
            column.null, column.check = True, ""
        column.name = f"b{column.name}"
        part = f"{column.name}(5)" if column.type.long else column.name
        place = self._dice.choice(("", " FIRST"))
        add = f"ADD COLUMN {column.definition()}{place}, ADD KEY k{column.name} ({part}), ALGORITHM=INPLACE, LOCK=NONE"
        return [add, f"DROP KEY k{column.name}, DROP COLUMN {column.name}"]


def loses_rows(index: Index) -> bool:
    """Returns whether range reads by this index may lose rows, with any engine: the server reads wrong
    ranges if a part behind the first one is descending."""
    return any(part.endswith(" DESC") for part in index.parts[1:])


def comparable(table: Table, unique: bool) -> list[Index]:
    """Returns the indexes by which a query must have the same result as without an index.

    After own writes (`unique` False), unique keys are left out. The snapshot may show, beside a row that the
    transaction has written, an old row with the same key that others have removed since. A scan returns both
    rows, a read by the unique key one of them; InnoDB does the same.
    """
    usable = [index for index in table.indexes if not loses_rows(index)]
    return [index for index in usable if unique or not index.unique or index.name == "PRIMARY"]


def compare_indexes(
    connection: pymysql.Connection, dice: random.Random, table: Table, indexes: list[Index]
) -> int:
    """Runs one query by each of `indexes` and without an index. Returns the number of answers. Errors: Wrong
    when they differ."""
    answers: dict[str, list[str]] = {}
    for step in dml.by_every_index(dice, table, indexes):
        with contextlib.suppress(pymysql.Error):
            answers[step.sql] = sorted(map(repr, ask(connection, step.sql)))
    different = list({tuple(rows): sql for sql, rows in answers.items()}.items())
    if len(different) > 1:
        shown = "\n".join(f"  {sql}\n    {rows}" for rows, sql in different)
        raise Wrong(f"the indexes of {table.name} disagree:\n{shown}")
    return len(answers)


def look_for_duplicates(connection: pymysql.Connection, table: Table) -> None:
    """Looks for rows with the same unique key. Errors: Wrong when there are some."""
    existing = {row[2].decode() for row in ask(connection, f"SHOW INDEX FROM {table.name}")}
    for index in table.indexes:
        if not index.unique or not index.whole or index.name not in existing:
            continue
        columns = ", ".join(index.columns)
        given = " AND ".join(f"{name} IS NOT NULL" for name in index.columns)
        query = f"SELECT {columns}, COUNT(*) FROM {table.name} WHERE {given} GROUP BY {columns} HAVING COUNT(*) > 1"
        if found := ask(connection, query):
            raise Wrong(f"{index.definition()} of {table.name} has duplicates: {found}")


def play(server: Server, seed: str, alters: bool) -> tuple[int, int]:
    """Runs one round. Returns the number of compared answers and of successful ALTERs. Errors: Wrong."""
    dice = random.Random(seed)
    server.run("DROP DATABASE IF EXISTS d", "CREATE DATABASE d")
    with contextlib.closing(connect(server)) as connection:
        tables = make_tables(connection, dice)
        definitions = "\n".join(table.create() for table in tables)
        sessions = [Session(server, tables, f"{seed}-{number}") for number in range(SESSIONS)]
        builders = [Builder(server, tables, f"{seed}-alter")] if alters else []
        for thread in (*sessions, *builders):
            thread.start()
        for session in sessions:
            session.join()
        for builder in builders:
            builder.stopped = True
            builder.join()
        if seen := next((thread.wrong for thread in (*sessions, *builders) if thread.wrong), ""):
            raise Wrong(f"{definitions}\n{seen}")
        for table in tables:
            compare_indexes(connection, dice, table, comparable(table, unique=True))
            look_for_duplicates(connection, table)
            answers = ask(connection, f"CHECK TABLE {table.name} EXTENDED")
            if complaints := [row for row in answers if row[3] != b"OK"]:
                raise Wrong(f"{definitions}\n" + "\n".join(map(str, complaints)))
    return sum(session.questions for session in sessions), sum(builder.built for builder in builders)


def test_indexes_agree_with_rows_whatever_sessions_do_at_once(lab):
    print(f"seed {SEED}, {SECONDS} seconds")
    server = lab.server().start()
    deadline = time.monotonic() + SECONDS
    rounds = questions = built = 0
    while time.monotonic() < deadline:
        asked, altered = play(server, f"{SEED}-{rounds}", alters=rounds % 2 == 1)
        questions, built, rounds = questions + asked, built + altered, rounds + 1
    print(f"{rounds} rounds, {questions} questions, {built} ALTERs")
    assert questions > 100 and built > 10, "too little to prove anything"
