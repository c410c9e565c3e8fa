"""Random tables, and connections to them, for tests in which several sessions meet.

Only what ATOLL says is looked at: what sessions do at once has no one outcome to compare with InnoDB's.
"""

from __future__ import annotations

import contextlib
import random
from dataclasses import dataclass

import pymysql

from harness.random_sql import dml as dml
from harness.random_sql.schema import Names, Table, random_index, random_table
from harness.server import Server

# Engine errors that no statement of these may have: a row or an entry was not where it must be.
BAD_ERRORS = {1030, 1032, 1033, 1034, 1194, 1296, 1815, 2006, 2013}


@dataclass
class Wrong(Exception):
    """What must not be."""

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
    # The server takes BETWEEN 'E' AND 'é' for an equality when the two are equal in the connection's collation, though
    # they are not in the column's; only where it can use an index.
    ask(connection, "SET NAMES utf8mb4 COLLATE utf8mb4_bin")
    return connection


def ask(connection: pymysql.Connection, sql: str) -> list[tuple]:
    """Returns the rows. Errors: Wrong if the engine says what it must never say; others as they are."""
    try:
        with connection.cursor() as cursor:
            cursor.execute(sql)
            return list(cursor.fetchall())
    except pymysql.Error as error:
        if error.args[0] in BAD_ERRORS:
            raise Wrong(f"{sql}\n  {error}") from error
        raise


def make_tables(connection: pymysql.Connection, dice: random.Random) -> list[Table]:
    """Makes up to two tables with at least one secondary index and some rows."""
    names = Names()
    tables = []
    for _ in range(8):
        table = random_table(dice, names)
        table.versioned = False  # needs the clock to go on
        if any(c.type.sql.startswith("CHAR") and "nopad" in c.type.sql for c in table.columns):
            continue  # 'ß' and 'ss' are one to a condition and two to an index, InnoDB's too
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
