"""A load on tables with constraints FOREIGN KEY: clients remove, move and insert parents, and insert and move children,
so that they often meet. After any such load no child is without its parent.
"""

from __future__ import annotations

import contextlib
import random
import threading
import time

import pymysql

from harness.server import Server

PARENTS = 6
TABLES = (
    "DROP DATABASE IF EXISTS anomaly",
    "CREATE DATABASE anomaly",
    "USE anomaly",
    "CREATE TABLE anomaly.p (id INT PRIMARY KEY, k INT, u INT, KEY (k), UNIQUE (u)) ENGINE=ATOLL",
    "CREATE TABLE anomaly.r (id INT AUTO_INCREMENT PRIMARY KEY, p INT, FOREIGN KEY (p) REFERENCES p (id)) ENGINE=ATOLL",
    "CREATE TABLE anomaly.c (id INT AUTO_INCREMENT PRIMARY KEY, p INT, u INT, "
    "FOREIGN KEY (p) REFERENCES p (id) ON DELETE CASCADE ON UPDATE CASCADE, "
    "FOREIGN KEY (u) REFERENCES p (u) ON DELETE SET NULL ON UPDATE CASCADE) ENGINE=ATOLL",
    f"INSERT INTO anomaly.p SELECT seq, seq, seq FROM seq_1_to_{PARENTS}",
)
ORPHANS = (
    "SELECT * FROM anomaly.r WHERE p IS NOT NULL AND p NOT IN (SELECT id FROM anomaly.p)",
    "SELECT * FROM anomaly.c WHERE p IS NOT NULL AND p NOT IN (SELECT id FROM anomaly.p)",
    "SELECT * FROM anomaly.c WHERE u IS NOT NULL AND u NOT IN (SELECT u FROM anomaly.p WHERE u IS NOT NULL)",
)
DEADLOCK, TIMEOUT, NO_PARENT, HAS_CHILDREN = 1213, 1205, 1452, 1451
EXPECTED = (DEADLOCK, TIMEOUT, NO_PARENT, HAS_CHILDREN, 1062, 1761)


class Client(threading.Thread):
    """Inserts and moves children, and removes, moves and inserts parents, until `end`."""

    def __init__(self, server: Server, level: str, seed: str, end: float):
        super().__init__()
        self.done, self.unexpected = 0, ""
        self._dice, self._end = random.Random(seed), end
        self._connection = server.connect()
        for sql in (
            f"SET SESSION TRANSACTION ISOLATION LEVEL {level}",
            "SET atoll_lock_wait_timeout = 1",
            "USE anomaly",
        ):
            self._connection.cursor().execute(sql)

    def run(self) -> None:
        with contextlib.suppress(pymysql.Error), contextlib.closing(self._connection):
            while time.monotonic() < self._end and not self.unexpected:
                self._transaction()

    def _transaction(self) -> None:
        try:
            self._connection.begin()
            with self._connection.cursor() as cursor:
                for _ in range(self._dice.randrange(1, 4)):
                    cursor.execute(self._statement())
            self._connection.commit() if self._dice.random() < 0.8 else self._connection.rollback()
            self.done += 1
        except pymysql.Error as error:
            with contextlib.suppress(pymysql.Error):  # the server has gone
                self._connection.rollback()
            if error.args[0] not in EXPECTED:
                self.unexpected = str(error)

    def _statement(self) -> str:
        one, other = self._dice.randrange(1, PARENTS + 1), self._dice.randrange(1, PARENTS + 1)
        return self._dice.choice((
            f"INSERT INTO r (p) VALUES ({one})", f"INSERT INTO c (p, u) VALUES ({one}, {other})",
            f"INSERT INTO c (p, u) VALUES ({one}, NULL), (NULL, {other})", f"UPDATE c SET u = {one} WHERE p = {other}",
            f"DELETE FROM p WHERE id = {one}", f"DELETE FROM p WHERE u = {one}", f"DELETE FROM r WHERE p = {one}",
            f"UPDATE p SET u = {one} WHERE id = {other}", f"UPDATE p SET id = {one} WHERE id = {other}",
            f"INSERT INTO p VALUES ({one}, {one}, {other})", f"REPLACE INTO p VALUES ({one}, {one}, {other})",
        ))  # fmt: skip
