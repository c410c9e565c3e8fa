"""Goal:   a constraint FOREIGN KEY costs only the look-ups and locks that it needs, whatever the number of rows.
Method: statements on tables with and without constraints. The engine counts their work.
"""

from __future__ import annotations

from collections.abc import Iterator

import pymysql
import pytest
from harness.process import discard, scratch_directory
from harness.server import Server

CHILDREN = 1000
SETUP = (
    "CREATE DATABASE d",
    "USE d",
    "SET default_storage_engine = ATOLL",
    "CREATE TABLE p (id INT PRIMARY KEY, n INT)",
    "CREATE TABLE q (id INT PRIMARY KEY, k INT, UNIQUE (k))",
    "CREATE TABLE free (id INT PRIMARY KEY, p INT, q INT, KEY (p), KEY (q))",
    "CREATE TABLE c (id INT PRIMARY KEY, p INT, q INT, FOREIGN KEY (p) REFERENCES p (id) ON DELETE CASCADE, "
    "FOREIGN KEY (q) REFERENCES q (id))",
    "INSERT INTO p SELECT seq, seq FROM seq_1_to_20",
    "INSERT INTO q SELECT seq, seq FROM seq_1_to_20",
    f"INSERT INTO c SELECT seq, 1, NULL FROM seq_1_to_{CHILDREN}",
)
# What a statement may add to the counters, beside what it costs without constraints.
COUNTED = (
    "point_gets",
    "cursors_opened",
    "cursor_seeks",
    "cursor_steps",
    "row_locks",
    "range_locks",
    "writes",
)


@pytest.fixture(scope="module")
def connection() -> Iterator[pymysql.Connection]:
    home = scratch_directory("foreign_cost")
    server = Server(home / "server")
    server.start()
    server.run(*SETUP)
    connection = server.connect("d")
    yield connection
    connection.close()
    server.kill()
    discard(home)


def counters(connection: pymysql.Connection) -> dict[str, int]:
    with connection.cursor() as cursor:
        cursor.execute("SHOW SESSION STATUS LIKE 'atoll_work_%'")
        return {name.lower().removeprefix("atoll_work_"): int(value) for name, value in cursor.fetchall()}


def work(connection: pymysql.Connection, statement: str) -> dict[str, int]:
    """Runs the statement in a transaction that is rolled back. Returns the counters that are not 0."""
    with connection.cursor() as cursor:
        cursor.execute("BEGIN")
        before = counters(connection)
        cursor.execute(statement)
        after = counters(connection)
        cursor.execute("ROLLBACK")
    return {name: after[name] - before[name] for name in COUNTED if after[name] != before[name]}


def added(connection: pymysql.Connection, statement: str, without: str) -> dict[str, int]:
    base, all_work = work(connection, without), work(connection, statement)
    return {name: count - base.get(name, 0) for name, count in all_work.items() if count != base.get(name, 0)}


def test_a_child_looks_up_each_parent_once(connection):
    extra = added(connection, "INSERT INTO c VALUES (-1, 2, 3)", "INSERT INTO free VALUES (-1, 2, 3)")
    assert extra == {"point_gets": 2, "row_locks": 2}


def test_a_child_with_null_looks_up_nothing(connection):
    extra = added(
        connection, "INSERT INTO c VALUES (-1, NULL, NULL)", "INSERT INTO free VALUES (-1, NULL, NULL)"
    )
    assert extra == {}


def test_a_statement_looks_up_a_parent_once_for_all_its_children(connection):
    rows = f"SELECT 100000 + seq, 1 + seq % 3, 1 + seq % 5 FROM seq_1_to_{CHILDREN}"
    extra = added(connection, f"INSERT INTO c {rows}", f"INSERT INTO free {rows}")
    assert extra == {"point_gets": 8, "row_locks": 8}


def test_an_update_that_keeps_the_key_checks_nothing(connection):
    for statement in ("UPDATE p SET n = n + 1 WHERE id = 2", "UPDATE q SET k = -k WHERE id = 2"):
        plain = statement.replace("WHERE", "WHERE 1 AND")
        assert added(connection, statement, plain) == {}


def test_a_parent_without_children_costs_one_search(connection):
    found = work(connection, "DELETE FROM p WHERE id = 7")
    assert found["cursors_opened"] <= 3
    assert found["cursor_seeks"] <= 3
    assert found["writes"] == 1


def test_a_cascade_reads_and_writes_each_child_once(connection):
    found = work(connection, "DELETE FROM p WHERE id = 1")
    assert found["cursors_opened"] <= 6
    assert found["cursor_steps"] <= CHILDREN + 8
    assert found["point_gets"] <= CHILDREN + 2
    assert found["row_locks"] <= CHILDREN + 2
    assert found["writes"] == 1 + 3 * CHILDREN
