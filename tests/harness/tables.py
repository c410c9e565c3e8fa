"""A large table that several tests use, and a statement that runs in a thread."""

from __future__ import annotations

import threading

import pymysql

from harness.process import wait_until
from harness.server import Server

# About 500 bytes a row that hardly compress, so that even compressed files are large and many.
WIDE_ROW = "CONCAT({})".format(", ".join(f"SHA2(CONCAT(seq, 'part {part}'), 512)" for part in range(4)))


def create_wide(server: Server, table: str, rows: int, engine: str = "InnoDB", database: str = "big") -> None:
    """Creates `table` (id, body) with `rows` rows of about 500 bytes."""
    server.run(
        f"CREATE DATABASE IF NOT EXISTS {database}",
        f"CREATE TABLE {database}.{table} (id INT NOT NULL PRIMARY KEY, body VARCHAR(600)) ENGINE={engine}",
        f"INSERT INTO {database}.{table} SELECT seq, {WIDE_ROW} FROM mysql.seq_1_to_{rows}",
    )


class Statement(threading.Thread):
    """One statement on a connection of its own, so that a test can act while it runs."""

    def __init__(self, server: Server, statement: str, database: str = "big"):
        super().__init__(daemon=True)
        self.error: pymysql.Error | None = None
        self.rows: tuple[tuple, ...] = ()
        self._statement = statement
        self._connection = server.connect(database)
        self.connection_id = self._connection.thread_id()

    def run(self) -> None:
        try:
            with self._connection.cursor() as cursor:
                cursor.execute(self._statement)
                self.rows = cursor.fetchall()
        except pymysql.Error as error:
            self.error = error

    def finished(self, timeout_s: float = 300) -> pymysql.Error | None:
        """Waits until the statement has ended. Returns its error, or None."""
        self.join(timeout_s)
        if self.is_alive():
            raise TimeoutError(f"still running after {timeout_s} s: {self._statement}")
        return self.error


def drained(server: Server, timeout_s: float = 60) -> None:
    """Waits until all local table files are uploaded."""
    wait_until(lambda: server.counter("Atoll_upload_backlog_files") == 0, timeout_s, "the uploads to finish")
