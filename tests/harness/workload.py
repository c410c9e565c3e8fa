"""A mixed load of several clients. Every transaction is noted in a ledger before it is sent.

Tables (database `load`): `progress` has each client's last transaction number. `journal` is filled by
autocommit inserts, whose rows have the number themselves. `accounts` and `pot` are changed in the same
transaction. `notes` has inserts, updates and deletes, and `blobs` large values. Clients share only `pot`, so
they wait for each other's locks, but the other rows of a client depend only on its own transactions.
"""

from __future__ import annotations

import hashlib
import random
import threading
import time
from typing import Any

import pymysql

from harness.ledger import ClientLedger, Entry
from harness.server import Server

ACCOUNTS_PER_CLIENT = 8
OPENING_BALANCE = 1000
POTS = 3
BLOB_BYTES_MAX = 120_000
CONNECTION_LOST = (0, 2003, 2006, 2013)
_RETRY = (1205, 1213)  # lock wait timeout, deadlock: rolled back by the server or by us, then sent again

TABLES = (
    "progress (client VARCHAR(8) NOT NULL PRIMARY KEY, number INT NOT NULL)",
    "journal (client VARCHAR(8) NOT NULL, number INT NOT NULL, payload VARCHAR(300), "
    "PRIMARY KEY (client, number), KEY by_payload (payload(20)))",
    "accounts (client VARCHAR(8) NOT NULL, id INT NOT NULL, balance BIGINT NOT NULL, "
    "PRIMARY KEY (client, id), KEY by_balance (balance))",
    "pot (id INT NOT NULL PRIMARY KEY, total BIGINT NOT NULL)",
    "notes (client VARCHAR(8) NOT NULL, id INT NOT NULL, body TEXT, version INT NOT NULL, "
    "PRIMARY KEY (client, id), UNIQUE KEY one_version (client, version, id), KEY by_body (body(16)))",
    "blobs (client VARCHAR(8) NOT NULL, id INT NOT NULL, content LONGBLOB, PRIMARY KEY (client, id))",
)


def kill_under(server: Server, clients: list) -> None:
    """Kills the server with SIGKILL while the clients send statements. Returns when all clients have
    ended."""
    if any(client.failure for client in clients):
        time.sleep(3)  # a crashed server may still be writing its stack trace to the error log
    for client in clients:
        client.server_dying.set()
    server.kill()
    for client in clients:
        client.join(30)
        assert not client.is_alive(), f"client {client.ledger.client} hangs after the kill"
    failures = [(client.ledger.client, client.failure) for client in clients if client.failure]
    assert not failures, f"statements failed before the kill: {failures}"


def client_names(count: int) -> list[str]:
    return [f"c{index}" for index in range(count)]


def create_tables(server: Server, engine: str, clients: list[str]) -> None:
    server.run("CREATE DATABASE `load` CHARACTER SET utf8mb4")
    server.run(*(f"CREATE TABLE {table} ENGINE={engine}" for table in TABLES), database="load")
    for client in clients:
        rows = ",".join(f"('{client}',{index},{OPENING_BALANCE})" for index in range(ACCOUNTS_PER_CLIENT))
        server.run(
            f"INSERT INTO progress VALUES ('{client}', 0)",
            f"INSERT INTO accounts VALUES {rows}",
            database="load",
        )
    server.run("INSERT INTO pot VALUES " + ",".join(f"({index},0)" for index in range(POTS)), database="load")


def first_state() -> dict:
    """Returns a client's rows right after create_tables()."""
    return {
        "journal": {}, "notes": {}, "blobs": {}, "pot": dict.fromkeys(range(POTS), 0),
        "accounts": dict.fromkeys(range(ACCOUNTS_PER_CLIENT), OPENING_BALANCE),
    }  # fmt: skip


class NotedClient(threading.Thread):
    """A client with one connection. It sends steps, each noted in a ledger, until the server is killed.

    A subclass defines the steps in `_step`. `failure` is an error that the kill does not explain.
    """

    def __init__(self, server: Server, ledger: ClientLedger, seed: str, database: str, **options: Any):
        super().__init__(daemon=True)
        self.ledger = ledger
        self.failure: BaseException | None = None
        self.server_dying = threading.Event()
        self._server = server
        self._database = database
        self._options = options  # of the connection
        self._random = random.Random(seed)

    def run(self) -> None:
        try:
            connection = self._server.connect(self._database, **self._options)
            with connection.cursor() as cursor:
                while not self.server_dying.is_set():
                    self._step(cursor)
        except pymysql.Error as error:
            # A lost connection is expected when the server is killed. Any other error is a failure.
            if not (self.server_dying.is_set() and error.args[0] in CONNECTION_LOST):
                self.failure = error

    def _step(self, cursor) -> None:
        raise NotImplementedError


class Client(NotedClient):
    """Sends the mixed load."""

    def __init__(self, server: Server, ledger: ClientLedger, seed: str):
        super().__init__(server, ledger, seed, "load")
        self._state = ledger.state_at(ledger.last_sent())
        self._number = ledger.last_sent()

    # ---- one transaction ---------------------------------------------------------------------------

    def _step(self, cursor) -> None:
        kinds = (self._journal, self._transfer, self._notes, self._blob, self._savepoint, self._joined_update)
        kind = self._random.choices(kinds, weights=(4, 4, 5, 2, 2, 2))[0]
        statements, change = kind(self._number + 1)
        entry = Entry(self.ledger.client, self._number + 1, kind.__name__, change, time.monotonic())
        self.ledger.entries.append(entry)
        while True:
            try:
                for statement, arguments in statements:
                    cursor.execute(statement, arguments)
                break
            except pymysql.Error as error:
                if error.args[0] not in _RETRY:
                    raise
                cursor.execute("ROLLBACK")
        entry.acked_at = time.monotonic()
        self._number += 1
        change(self._state)
        if self._random.random() < 0.1:
            self._rolled_back(cursor)

    def _explicit(self, number: int, changes: list[tuple[str, tuple]]) -> list[tuple[str, tuple]]:
        """Makes one transaction of the changes and the update of the client's number, which has a random
        place among them."""
        changes = list(changes)
        mark = ("UPDATE progress SET number = %s WHERE client = %s", (number, self.ledger.client))
        changes.insert(self._random.randrange(len(changes) + 1), mark)
        return [("BEGIN", ()), *changes, ("COMMIT", ())]

    def _journal(self, number: int):
        payload = self._text(self._random.randrange(1, 250))
        statement = ("INSERT INTO journal VALUES (%s, %s, %s)", (self.ledger.client, number, payload))
        return [statement], lambda state: state["journal"].update({number: payload})

    def _transfer(self, number: int):
        giver, taker = self._random.sample(range(ACCOUNTS_PER_CLIENT), 2)
        pot, amount, fee = self._random.randrange(POTS), self._random.randrange(1, 50), 1
        move = "UPDATE accounts SET balance = balance + %s WHERE client = %s AND id = %s"
        changes = [
            (move, (-amount - fee, self.ledger.client, giver)),
            (move, (amount, self.ledger.client, taker)),
            ("UPDATE pot SET total = total + %s WHERE id = %s", (fee, pot)),
        ]

        def change(state: dict) -> None:
            state["accounts"][giver] -= amount + fee
            state["accounts"][taker] += amount
            state["pot"][pot] += fee

        return self._explicit(number, changes), change

    def _note_changes(self, number: int):
        """Returns statements for a few notes and the new content of those notes (None: deleted)."""
        statements: list[tuple[str, tuple]] = []
        result: dict[int, tuple[str, int] | None] = {}
        for key in self._random.sample(range(60), self._random.randrange(1, 6)):
            client = self.ledger.client
            if key not in self._state["notes"]:
                body = self._text(self._random.randrange(400))
                statements.append(("INSERT INTO notes VALUES (%s, %s, %s, %s)", (client, key, body, number)))
                result[key] = (body, number)
            elif self._random.random() < 0.4:
                statements.append(("DELETE FROM notes WHERE client = %s AND id = %s", (client, key)))
                result[key] = None
            else:
                body = self._text(self._random.randrange(400))
                statements.append(
                    ("UPDATE notes SET body = %s, version = %s WHERE client = %s AND id = %s",
                     (body, number, client, key)))  # fmt: skip
                result[key] = (body, number)
        return statements, result

    def _notes(self, number: int):
        statements, result = self._note_changes(number)
        return self._explicit(number, statements), lambda state: _put(state["notes"], result)

    def _savepoint(self, number: int):
        statements, result = self._note_changes(number)
        undone = [
            ("SAVEPOINT one", ()),
            ("DELETE FROM notes WHERE client = %s", (self.ledger.client,)),
            ("UPDATE accounts SET balance = 0 WHERE client = %s", (self.ledger.client,)),
            ("ROLLBACK TO SAVEPOINT one", ()),
        ]
        mark = ("UPDATE progress SET number = %s WHERE client = %s", (number, self.ledger.client))
        return ([("BEGIN", ()), *statements, *undone, mark, ("COMMIT", ())],
                lambda state: _put(state["notes"], result))  # fmt: skip

    def _blob(self, number: int):
        key = self._random.randrange(10)
        content = self._random.randbytes(self._random.randrange(BLOB_BYTES_MAX))
        digest = (len(content), hashlib.md5(content).hexdigest())
        statement = ("REPLACE INTO blobs VALUES (%s, %s, %s)", (self.ledger.client, key, content))
        return self._explicit(number, [statement]), lambda state: state["blobs"].update({key: digest})

    def _joined_update(self, number: int):
        """One autocommit statement that changes two tables."""
        key, amount = self._random.randrange(ACCOUNTS_PER_CLIENT), self._random.randrange(-9, 10)
        statement = (
            "UPDATE progress p JOIN accounts a ON a.client = p.client "
            "SET p.number = %s, a.balance = a.balance + %s WHERE p.client = %s AND a.id = %s",
            (number, amount, self.ledger.client, key),
        )

        def change(state: dict) -> None:
            state["accounts"][key] += amount

        return [statement], change

    def _rolled_back(self, cursor) -> None:
        """A transaction that is rolled back and must leave no changes."""
        try:
            cursor.execute("BEGIN")
            cursor.execute("UPDATE notes SET body = 'never' WHERE client = %s", (self.ledger.client,))
            cursor.execute("DELETE FROM accounts WHERE client = %s", (self.ledger.client,))
        except pymysql.Error as error:
            if error.args[0] not in _RETRY:
                raise
        cursor.execute("ROLLBACK")

    def _text(self, length: int) -> str:
        return "".join(self._random.choices("abcdefghij klmnop äß日", k=length)).strip()


def _put(table: dict, changed: dict) -> None:
    for key, value in changed.items():
        if value is None:
            table.pop(key, None)
        else:
            table[key] = value


# ---- reading back ----------------------------------------------------------------------------------


def read_number(server: Server, client: str) -> int:
    """Returns the highest transaction number of the client that is in the tables."""
    rows = server.run(
        f"SELECT number FROM progress WHERE client = '{client}' UNION ALL "
        f"SELECT MAX(number) FROM journal WHERE client = '{client}'", database="load")  # fmt: skip
    return max(row[0] or 0 for row in rows)


def read_state(server: Server, client: str) -> dict:
    """Returns the client's rows in the form of first_state(), without `pot`."""

    def rows(statement: str) -> list[tuple]:
        return server.run(f"{statement} WHERE client = '{client}'", database="load")

    return {
        "journal": dict(rows("SELECT number, payload FROM journal")),
        "accounts": dict(rows("SELECT id, balance FROM accounts")),
        "notes": {key: (body, version) for key, body, version in rows("SELECT id, body, version FROM notes")},
        "blobs": {key: (size, digest) for key, size, digest in
                  rows("SELECT id, LENGTH(content), MD5(content) FROM blobs")},
    }  # fmt: skip


def read_pot(server: Server) -> dict[int, int]:
    return dict(server.run("SELECT id, total FROM pot", database="load"))


# A table, columns to read by its primary key and by a secondary index, and that index.
INDEX_PAIRS = (
    ("accounts", "SUM(balance), COUNT(*)", "by_balance"),
    ("notes", "SUM(id), SUM(version), COUNT(*)", "one_version"),
    ("notes", "SUM(id), COUNT(body)", "by_body"),
    ("journal", "SUM(number), COUNT(*)", "by_payload"),
)


def index_differences(server: Server) -> list[str]:
    """Returns descriptions of all differences between a secondary index and the primary key."""
    found = []
    for table, columns, index in INDEX_PAIRS:
        where = "balance > -999999999" if index == "by_balance" else "client >= ''"
        if index in ("by_body", "by_payload"):
            where = ("body" if index == "by_body" else "payload") + " >= ''"
        by_index = server.run(
            f"SELECT {columns} FROM {table} FORCE INDEX ({index}) WHERE {where}", database="load"
        )
        by_primary = server.run(
            f"SELECT {columns} FROM {table} FORCE INDEX (PRIMARY) WHERE {where}", database="load"
        )
        if by_index != by_primary:
            found.append(f"{table}.{index}: {by_index} by the index, {by_primary} by the primary key")
    return found
