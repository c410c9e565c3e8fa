"""Goal:   with any plan, a statement that needs rows which another session has locked fails or waits. It
        never succeeds without these rows, and never misses other rows because of them.
Method: random tables with many indexes. One session locks all or some rows; the other runs a random UPDATE,
        DELETE or SELECT FOR UPDATE that does not wait. If it succeeds, it must find as many rows as without
        the locks.

ATOLL_LOCKED_SECONDS sets the duration, ATOLL_LOCKED_SEED another seed.
"""

from __future__ import annotations

import contextlib
import os
import random
import time
from collections import Counter

import pymysql
from harness.random_sql import dml as dml
from harness.random_sql.schema import Table
from harness.random_sql.sessions import ask, connect, make_tables
from harness.server import Server
from pymysql.constants import CLIENT

SECONDS = float(os.environ.get("ATOLL_LOCKED_SECONDS", "30"))
SEED = int(os.environ.get("ATOLL_LOCKED_SEED", "20261123"))
STATEMENTS = 25  # statements for each table


def add_rows_and_indexes(connection: pymysql.Connection, dice: random.Random, table: Table) -> None:
    """Adds rows and indexes, so that the optimizer can choose index merges, rowid filters and backward
    reads."""
    usable = [column.name for column in table.columns if column.type.indexable and not column.type.long]
    steps = [dml.insert(dice, table).sql for _ in range(4)]
    steps += [f"ALTER TABLE {table.name} ADD KEY z{name} ({name})" for name in usable if dice.random() < 0.6]
    for sql in (*steps, f"ANALYZE TABLE {table.name}"):
        with contextlib.suppress(pymysql.Error):
            ask(connection, sql)


def random_statement(dice: random.Random, table: Table) -> str:
    choice = dice.random()
    if choice < 0.6:
        step = dml.update(dice, table, table) if choice < 0.4 else dml.delete(dice, table, table)
        if step is not None:
            return step.sql
    where = f"{dml.condition(dice, table)} OR {dml.condition(dice, table)}"
    return f"SELECT * FROM {table.name} WHERE {where} FOR UPDATE"


def outcome(connection: pymysql.Connection, sql: str) -> tuple[int, int]:
    """Runs the statement and rolls it back. Returns the number of rows found or changed, and the error number
    or 0."""
    rows, error = 0, 0
    try:
        with connection.cursor() as cursor:
            cursor.execute("BEGIN")
            rows = cursor.execute(sql)
    except pymysql.Error as failed:
        error = failed.args[0]
    ask(connection, "ROLLBACK")
    return rows, error


def outcome_beside_locks(
    holder: pymysql.Connection, other: pymysql.Connection, locks: str, sql: str
) -> tuple[int, int]:
    ask(holder, "BEGIN")
    with contextlib.suppress(pymysql.Error):
        ask(holder, locks)
    seen = outcome(other, sql)
    ask(holder, "ROLLBACK")
    return seen


def play(server: Server, seed: str) -> Counter:
    """Runs one round. Returns the number of cases for each outcome."""
    dice = random.Random(seed)
    server.run("DROP DATABASE IF EXISTS d", "CREATE DATABASE d")
    seen: Counter = Counter()
    with (
        contextlib.closing(connect(server)) as holder,
        contextlib.closing(connect(server, CLIENT.FOUND_ROWS)) as other,
    ):
        level = dice.choice(("READ COMMITTED", "READ COMMITTED", "REPEATABLE READ"))
        for connection in (holder, other):
            ask(connection, f"SET SESSION TRANSACTION ISOLATION LEVEL {level}")
        ask(other, "SET atoll_lock_wait_timeout = 0")
        for table in make_tables(holder, dice):
            add_rows_and_indexes(holder, dice, table)
            for _ in range(STATEMENTS):
                where = f" WHERE {dml.condition(dice, table)}" if dice.random() < 0.6 else ""
                sql = random_statement(dice, table)
                locks = f"SELECT * FROM {table.name}{where} FOR UPDATE"
                beside_locks = outcome_beside_locks(holder, other, locks, sql)
                seen["refused" if beside_locks[1] else "done"] += 1
                alone = outcome(other, sql) if beside_locks[1] == 0 else beside_locks
                assert beside_locks == alone, f"round {seed}: {locks}\n{sql}\n{table.create()}"
    return seen


def test_what_needs_locked_rows_never_succeeds(lab):
    print(f"seed {SEED}, {SECONDS} seconds")
    server = lab.server().start()
    deadline = time.monotonic() + SECONDS
    seen: Counter = Counter()
    rounds = 0
    while time.monotonic() < deadline:
        seen += play(server, f"{SEED}-{rounds}")
        rounds += 1
    print(f"{rounds} rounds, {dict(seen)}")
    assert seen["refused"] > 100 and seen["done"] > 10, "too little to prove anything"
