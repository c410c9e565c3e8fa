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
LONE = ("lone", "lone_cascade", "lone_free")
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
    # Parents without children, by each action, and without a constraint.
    "CREATE TABLE lone (id INT PRIMARY KEY)",
    "CREATE TABLE lone_c (id INT PRIMARY KEY, p INT, FOREIGN KEY (p) REFERENCES lone (id))",
    "CREATE TABLE lone_cascade (id INT PRIMARY KEY)",
    "CREATE TABLE lone_cascade_c (id INT PRIMARY KEY, p INT, "
    "FOREIGN KEY (p) REFERENCES lone_cascade (id) ON DELETE CASCADE)",
    "CREATE TABLE lone_free (id INT PRIMARY KEY)",
    *(f"INSERT INTO {name} SELECT seq FROM seq_1_to_{CHILDREN}" for name in LONE),
    # The entries of the constraint's index have all columns of the child's keys. The children of 5 lie far apart.
    "CREATE TABLE o (id INT PRIMARY KEY)",
    "CREATE TABLE covered (id INT PRIMARY KEY, o INT, note VARCHAR(40), "
    "FOREIGN KEY (o) REFERENCES o (id) ON DELETE CASCADE ON UPDATE CASCADE)",
    "INSERT INTO o SELECT seq FROM seq_1_to_10",
    f"INSERT INTO covered SELECT seq, 1 + seq % 10, 'an item' FROM seq_1_to_{10 * CHILDREN}",
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


def test_parents_without_children_share_a_cursor_and_few_searches(connection):
    for name in ("lone", "lone_cascade"):
        extra = added(connection, f"DELETE FROM {name} WHERE id > 0", "DELETE FROM lone_free WHERE id > 0")
        assert extra.pop("range_locks") == CHILDREN
        assert extra.pop("cursors_opened") == 1
        assert extra.pop("cursor_seeks") <= 10
        assert extra.pop("cursor_steps", 0) <= 10
        assert extra == {}, name


def test_a_cascade_reads_and_writes_each_child_once(connection):
    """The children lie side by side, so a cursor steps from one to the next."""
    found = work(connection, "DELETE FROM p WHERE id = 1")
    assert found["cursors_opened"] <= 6
    assert found["cursor_steps"] <= 2 * CHILDREN + 8
    assert found["point_gets"] <= 20
    assert found["range_locks"] <= 4
    assert found["row_locks"] <= CHILDREN + 2
    assert found["writes"] == 1 + 3 * CHILDREN


def test_a_cascade_reads_no_row_whose_entry_suffices(connection):
    found = work(connection, "DELETE FROM o WHERE id = 5")
    assert found["cursor_steps"] <= CHILDREN + 8
    assert found["point_gets"] <= 2
    assert found["row_locks"] <= CHILDREN + 2
    assert found["range_locks"] <= 4
    assert found["writes"] == 1 + 2 * CHILDREN


def test_an_update_reads_and_writes_each_child_once(connection):
    """The look-ups try, each 32 rows, whether a cursor would find the next row in a few steps."""
    found = work(connection, "UPDATE o SET id = 50 WHERE id = 5")
    assert found["cursors_opened"] <= CHILDREN // 32 + 8
    assert found["cursor_steps"] <= CHILDREN * 9 // 8 + 8
    assert found["point_gets"] <= CHILDREN + 8
    assert found["range_locks"] <= 6
    assert found["writes"] == 2 + 3 * CHILDREN
