"""Goal:   a statement locks no row that it need not lock, whatever locks its tables.
Method: each kind of read, after each way to lock tables, at each isolation level. The engine counts the
        row locks and range locks that the statement requests.
"""

from __future__ import annotations

from collections.abc import Iterator

import pymysql
import pytest
from harness.process import discard, scratch_directory
from harness.server import Server

LEVELS = ("READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE")
ROWS = 100
SETUP = (
    "CREATE DATABASE d",
    "USE d",
    "SET default_storage_engine = ATOLL",
    "CREATE TABLE t (a INT PRIMARY KEY, b INT, KEY (b))",
    "CREATE TABLE e LIKE t",
    "CREATE TABLE w LIKE t",
    f"INSERT INTO t SELECT seq, seq FROM seq_1_to_{ROWS}",
    "INSERT INTO e SELECT * FROM t",
    "CREATE FUNCTION f_reads() RETURNS INT RETURN (SELECT COUNT(*) FROM t)",
    "CREATE FUNCTION f_selects() RETURNS INT BEGIN DECLARE x INT; SELECT COUNT(*) INTO x FROM t; RETURN x; END",
    "CREATE PROCEDURE p_steps() BEGIN DECLARE x INT; DECLARE c CURSOR FOR SELECT a FROM t; OPEN c; "
    "FETCH c INTO x; FETCH c INTO x; CLOSE c; SELECT MAX(b) FROM t; END",
)
# How the tables are locked before the statement.
LOCKED_BY = {
    "LOCK TABLES READ": ("LOCK TABLES t READ, e READ",),
    "LOCK TABLES READ LOCAL, as mariadb-dump": ("LOCK TABLES t READ LOCAL, e READ LOCAL",),
    "LOCK TABLES WRITE": ("LOCK TABLES t WRITE, e WRITE",),
    "LOCK TABLES READ without autocommit": ("SET autocommit = 0", "LOCK TABLES t READ, e READ"),
    "LOCK TABLES WRITE without autocommit": ("SET autocommit = 0", "LOCK TABLES t WRITE, e WRITE"),
    "FLUSH TABLES t": ("FLUSH TABLES t, e WITH READ LOCK",),
    "FLUSH TABLES": ("FLUSH TABLES WITH READ LOCK",),
    "nothing": (),
}
PLAIN_READS = (
    "SELECT COUNT(*) FROM t",
    "SELECT * FROM t WHERE a < 50",
    "SELECT * FROM t WHERE a = 5",
    "SELECT a FROM t FORCE INDEX (b) WHERE b BETWEEN 5 AND 20",
    "SELECT * FROM t ORDER BY a DESC LIMIT 3",
    "SELECT COUNT(*) FROM t JOIN e USING (a)",
    "SELECT COUNT(*) FROM t UNION SELECT COUNT(*) FROM e",
    "WITH x AS (SELECT * FROM t) SELECT COUNT(*) FROM x",
    "SELECT (SELECT COUNT(*) FROM t WHERE a < 50)",
    "SELECT f_reads()",
    "SELECT f_selects()",
    "SELECT SUM(e.b + f_reads()) FROM e WHERE e.a < 3",
    "CALL p_steps()",
    "SET @x = (SELECT COUNT(*) FROM t)",
    "DO (SELECT COUNT(*) FROM t)",
    "EXECUTE IMMEDIATE 'SELECT COUNT(*) FROM t'",
    "ANALYZE SELECT COUNT(*) FROM t",
    "CHECKSUM TABLE t EXTENDED",
)
IN_TRANSACTION = {
    "HANDLER t OPEN; HANDLER t READ b FIRST LIMIT 50; HANDLER t CLOSE": (0, 0, 0),
    "SELECT * FROM t": (0, 0, ROWS),
    "SELECT f_reads()": (0, 0, ROWS),
    "SELECT * FROM t LOCK IN SHARE MODE": (ROWS, ROWS, ROWS),
    "SELECT * FROM t FOR UPDATE": (ROWS, ROWS, ROWS),
    "SELECT * FROM t FOR UPDATE SKIP LOCKED": (ROWS, ROWS, ROWS),
    "CREATE TEMPORARY TABLE n SELECT * FROM t": (0, ROWS, ROWS),
    "UPDATE t SET b = b WHERE a = 5": (1, 1, 1),
    # The writes of w lock ROWS more keys, and the sub-select one key.
    "INSERT INTO w SELECT * FROM t": (ROWS, 2 * ROWS, 2 * ROWS),
    "REPLACE INTO w SELECT * FROM t": (ROWS, 2 * ROWS, 2 * ROWS),
    "INSERT INTO w VALUES (1, (SELECT COUNT(*) FROM t))": (1, ROWS + 1, ROWS + 1),
    "INSERT INTO w VALUES (1, f_reads())": (1, ROWS + 1, ROWS + 1),
}
AFTER_TABLE_LOCKS = (
    "SELECT * FROM t LOCK IN SHARE MODE",
    "SELECT * FROM t FOR UPDATE",
    "UPDATE t SET b = b + 1",
    "DELETE FROM t",
)


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    home = scratch_directory("locks")
    server = Server(home / "server")
    server.start()
    server.run(*SETUP)
    yield server
    server.kill()
    discard(home)


def session(server: Server, level: str, *statements: str) -> pymysql.Connection:
    connection = server.connect("d")
    run(connection, f"SET SESSION TRANSACTION ISOLATION LEVEL {level}", "SET default_storage_engine = ATOLL")
    run(connection, *statements)
    return connection


def run(connection: pymysql.Connection, *statements: str) -> None:
    with connection.cursor() as cursor:
        for statement in statements:
            cursor.execute(statement)
            while cursor.nextset():
                pass


def locks(connection: pymysql.Connection) -> int:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT SUM(variable_value) FROM information_schema.session_status "
            "WHERE variable_name IN ('atoll_work_row_locks', 'atoll_work_range_locks')"
        )
        return int(cursor.fetchone()[0])


def row_locks(connection: pymysql.Connection) -> int:
    with connection.cursor() as cursor:
        cursor.execute("SHOW SESSION STATUS LIKE 'atoll_work_row_locks'")
        return int(cursor.fetchone()[1])


@pytest.mark.parametrize("locked_by", LOCKED_BY)
def test_plain_reads_lock_no_rows(server: Server, locked_by: str) -> None:
    found = []
    for level in LEVELS:
        connection = session(server, level, *LOCKED_BY[locked_by])
        for statement in PLAIN_READS:
            before = locks(connection)
            run(connection, statement)
            if locks(connection) != before:
                found.append(f"{level}: {statement}: {locks(connection) - before} locks")
        connection.close()
    assert not found, "\n".join([f"reads that lock rows after {locked_by}:", *found])


@pytest.mark.parametrize("statement", IN_TRANSACTION)
def test_other_reads_lock_what_they_must(server: Server, statement: str) -> None:
    for level, expected in zip(LEVELS, IN_TRANSACTION[statement], strict=True):
        connection = session(server, level, "BEGIN")
        before = row_locks(connection)
        run(connection, *statement.split("; "))
        assert row_locks(connection) - before == expected, level
        run(connection, "ROLLBACK")
        connection.close()


@pytest.mark.parametrize("statement", AFTER_TABLE_LOCKS)
def test_reads_that_ask_for_locks_get_them_under_table_locks(server: Server, statement: str) -> None:
    """A prepared XA transaction whose connection is gone has row locks, but no lock on the table."""
    connection = session(server, "REPEATABLE READ", "SET autocommit = 0", "LOCK TABLES t WRITE")
    run(connection, "SELECT COUNT(*) FROM t")  # a read without locks before it changes nothing
    before = row_locks(connection)
    run(connection, statement)
    assert row_locks(connection) - before >= ROWS
    run(connection, "ROLLBACK")
    connection.close()
