"""Random tables and connections, for tests in which several sessions use the same tables.

Only ATOLL's answers are checked. They cannot be compared with InnoDB's, because concurrent sessions have no
single right result.
"""

from __future__ import annotations

import contextlib
import random
from dataclasses import dataclass

import pymysql

from harness.random_sql import dml as dml
from harness.random_sql.schema import Names, Table, random_index, random_table
from harness.server import Server

# Errors that no statement of these tests may have, such as a missing row or index entry, or a lost
# connection.
BAD_ERRORS = {1030, 1032, 1033, 1034, 1194, 1296, 1815, 2006, 2013}


@dataclass
class Wrong(Exception):
    """A wrong answer of the engine."""

    what: str

    def __str__(self) -> str:
        return self.what


def connect(server: Server, flags: int = 0) -> pymysql.Connection:
    connection = pymysql.connect(
        unix_socket=str(server.socket),
        user="root",
        database="d",
        charset="utf8mb4",
        autocommit=True,
        conv={},
        use_unicode=False,
        read_timeout=120,
        client_flag=flags,
    )
    ask(connection, "SET atoll_lock_wait_timeout = 2")
    # If 'E' and 'é' are equal in the connection's collation, the server treats BETWEEN 'E' AND 'é' as an
    # equality when it uses an index, even if they differ in the column's collation. So choose a binary
    # collation.
    ask(connection, "SET NAMES utf8mb4 COLLATE utf8mb4_bin")
    return connection


def ask(connection: pymysql.Connection, sql: str) -> list[tuple]:
    """Runs the statement and returns its rows. Errors: Wrong for an error in BAD_ERRORS; other errors are
    raised unchanged."""
    try:
        with connection.cursor() as cursor:
            cursor.execute(sql)
            return list(cursor.fetchall())
    except pymysql.Error as error:
        if error.args[0] in BAD_ERRORS:
            raise Wrong(f"{sql}\n  {error}") from error
        raise


def make_tables(connection: pymysql.Connection, dice: random.Random) -> list[Table]:
    """Creates up to two tables with some rows and usually a secondary index."""
    names = Names()
    tables = []
    for _ in range(8):
        table = random_table(dice, names)
        table.versioned = False  # would need a clock that advances
        if any(c.type.sql.startswith("CHAR") and "nopad" in c.type.sql for c in table.columns):
            continue  # with any engine, 'ß' = 'ss' in a condition, but not in an index
        if index := random_index(dice, names, table):
            table.indexes.append(index)
        with contextlib.suppress(pymysql.Error):
            ask(connection, table.create().replace("{E}", "ATOLL").replace("{C}", ""))
            tables.append(table)
            for _ in range(3):
                with contextlib.suppress(pymysql.Error):
                    ask(connection, dml.insert(dice, table).sql)
        if len(tables) == 2:
            break
    return tables
