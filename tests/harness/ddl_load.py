"""A client that changes table definitions all the time, with a model of the tables after each step."""

from __future__ import annotations

import copy
import re
import time

from harness.ledger import ClientLedger, Entry, LedgerError, differences_count, explain
from harness.server import Server
from harness.workload import NotedClient

TABLES_MAX = 3
DATABASE = "ddl"


def create_database(server: Server, database: str = DATABASE) -> None:
    server.run(f"CREATE DATABASE {database} CHARACTER SET latin1 COLLATE latin1_german2_ci")


class DdlClient(NotedClient):
    """Creates, fills, alters, renames, truncates and drops tables, one acknowledged step at a time.

    Model: {table: {"columns": [..], "indexes": [..], "rows": n, "sum": sum of id}}.
    """

    def __init__(
        self, server: Server, ledger: ClientLedger, engine: str, seed: str, database: str = DATABASE
    ):
        super().__init__(server, ledger, seed, database)
        self._engine = engine
        self._state = ledger.state_at(ledger.last_sent())
        self._number = ledger.last_sent()

    def _step(self, cursor) -> None:
        number = self._number + 1
        kind, statement, after = self._choose(number)
        entry = Entry(
            self.ledger.client, number, kind, lambda state: _replace(state, after), time.monotonic()
        )
        self.ledger.entries.append(entry)
        cursor.execute(statement)
        entry.acked_at = time.monotonic()
        self._number, self._state = number, after
        time.sleep(self._random.random() * 0.05)

    def _choose(self, number: int) -> tuple[str, str, dict]:
        """Chooses the next step. Returns its kind, its statement and the model after it."""
        after = copy.deepcopy(self._state)
        if not after or (len(after) < TABLES_MAX and self._random.random() < 0.3):
            name = f"t{number}"
            after[name] = {"columns": ["id", "word"], "indexes": ["PRIMARY"], "rows": 0, "sum": 0}
            definition = "(id INT NOT NULL PRIMARY KEY, word VARCHAR(50))"
            return "create", f"CREATE TABLE {name} {definition} ENGINE={self._engine}", after
        name = self._random.choice(sorted(after))
        table = after[name]
        actions = [self._insert, self._insert, self._rename, self._index, self._index, self._column]
        actions += [self._column, self._rename_column, self._reorder, self._unique]
        actions += [self._truncate, self._rebuild, self._drop]
        kind = self._random.choice(actions)
        return kind.__name__.strip("_"), kind(after, name, table, number), after

    def _insert(self, _after: dict, name: str, table: dict, number: int) -> str:
        keys = [number * 1000 + index for index in range(self._random.randrange(1, 200))]
        table["rows"] += len(keys)
        table["sum"] += sum(keys)
        rows = ",".join(f"({key},'word {key % 97}')" for key in keys)
        return f"INSERT INTO {name} (id, word) VALUES {rows}"

    def _rename(self, after: dict, name: str, table: dict, number: int) -> str:
        after[f"r{number}"] = after.pop(name)
        return f"RENAME TABLE {name} TO r{number}"

    def _index(self, _after: dict, name: str, table: dict, number: int) -> str:
        extra = [index for index in table["indexes"] if index.startswith("by_word")]
        if extra:
            table["indexes"].remove(extra[0])
            return f"ALTER TABLE {name} DROP INDEX {extra[0]}"
        table["indexes"].append(f"by_word{number}")
        return f"ALTER TABLE {name} ADD INDEX by_word{number} (word, id)"

    def _column(self, _after: dict, name: str, table: dict, number: int) -> str:
        extra = table["columns"][2:]
        if len(extra) >= 2:
            table["columns"].remove(extra[0])
            return f"ALTER TABLE {name} DROP COLUMN {extra[0]}"
        table["columns"].append(f"added{number}")
        return f"ALTER TABLE {name} ADD COLUMN added{number} INT NOT NULL DEFAULT {number}"

    def _rename_column(self, _after: dict, name: str, table: dict, number: int) -> str:
        added = [column for column in table["columns"] if column.startswith("added")]
        if not added:
            return self._column(_after, name, table, number)
        new_name = f"{added[0].split('_')[0]}_{number}"
        table["columns"][table["columns"].index(added[0])] = new_name
        return f"ALTER TABLE {name} RENAME COLUMN {added[0]} TO {new_name}"

    def _reorder(self, _after: dict, name: str, table: dict, number: int) -> str:
        added = [column for column in table["columns"] if column.startswith("added")]
        if not added:
            return self._column(_after, name, table, number)
        table["columns"].remove(added[0])
        table["columns"].insert(2, added[0])
        default = added[0].split("_")[0].removeprefix("added")
        return f"ALTER TABLE {name} MODIFY {added[0]} INT NOT NULL DEFAULT {default} AFTER word"

    def _unique(self, _after: dict, name: str, table: dict, number: int) -> str:
        unique = [index for index in table["indexes"] if index.startswith("one_id")]
        if unique:
            table["indexes"].remove(unique[0])
            table["indexes"].append(f"one_id{number}")
            return f"ALTER TABLE {name} DROP INDEX {unique[0]}, ADD UNIQUE one_id{number} (id)"
        table["indexes"].append(f"one_id{number}")
        return f"ALTER TABLE {name} ADD UNIQUE one_id{number} (id)"

    def _truncate(self, _after: dict, name: str, table: dict, number: int) -> str:
        if table["rows"] == 0:  # the change could not be seen
            return self._insert(_after, name, table, number)
        table["rows"] = table["sum"] = 0
        return f"TRUNCATE TABLE {name}"

    def _rebuild(self, _after: dict, name: str, table: dict, number: int) -> str:
        table["columns"].append(f"copied{number}")
        return f"ALTER TABLE {name} ADD COLUMN copied{number} VARCHAR(20) DEFAULT 'x', FORCE, ALGORITHM=COPY"

    def _drop(self, after: dict, name: str, table: dict, number: int) -> str:
        del after[name]
        return f"DROP TABLE {name}"


def _replace(state: dict, after: dict) -> None:
    state.clear()
    state.update(copy.deepcopy(after))


def read_state(server: Server, database: str = DATABASE) -> dict:
    """Returns the existing tables in the form of the model. Reads every row and every index.

    Errors: LedgerError when rows and indexes of a table do not agree, or when rows that are older than an
    instantly added column do not have its default. The name of such a column contains the default.
    """
    state = {}
    for (name,) in server.run("SHOW TABLES", database=database):
        columns = [row[0] for row in server.run(f"SHOW COLUMNS FROM `{name}`", database=database)]
        indexes = [
            row[2] for row in server.run(f"SHOW INDEX FROM `{name}`", database=database) if row[3] == 1
        ]
        count, total = server.run(f"SELECT COUNT(*), SUM(id) FROM `{name}` IGNORE INDEX (PRIMARY)",
                                  database=database)[0]  # fmt: skip
        state[name] = {"columns": columns, "indexes": sorted(indexes, key=_index_order),
                       "rows": count, "sum": int(total or 0)}  # fmt: skip
        _check_values(server, database, name, columns)
    return state


def _check_values(server: Server, database: str, name: str, columns: list[str]) -> None:
    for column in columns:
        default = re.match(r"added(\d+)", column)
        if default is None:
            continue
        wrong = server.value(f"SELECT COUNT(*) FROM `{name}` WHERE NOT {column} <=> {default[1]}", database)
        if wrong:
            raise LedgerError(f"{wrong} rows of {name} do not have {default[1]} in {column}")
    verdict = server.run(f"CHECK TABLE `{name}` EXTENDED", database=database)
    if verdict[-1][-1] != "OK":
        raise LedgerError(f"CHECK TABLE says of {name}: {verdict}")


def _index_order(name: str) -> tuple[bool, str]:
    return name != "PRIMARY", name


def in_order(state: dict) -> dict:
    """Returns the model `state` with indexes in the order in which read_state() returns them."""
    return {name: {**table, "indexes": sorted(table["indexes"], key=_index_order)}
            for name, table in state.items()}  # fmt: skip


def matching_numbers(ledger: ClientLedger, found: dict) -> list[int]:
    """Returns the numbers of the steps after which the model equals `found`."""
    return [number for number in range(ledger.base_number, ledger.last_sent() + 1)
            if in_order(ledger.state_at(number)) == found]  # fmt: skip


def nearest(ledger: ClientLedger, found: dict) -> str:
    """Returns a text with the differences between the tables found and the model of the most similar step."""
    numbers = range(ledger.base_number, ledger.last_sent() + 1)
    number = min(numbers, key=lambda number: differences_count(ledger.state_at(number), found))
    steps = ", ".join(f"{entry.number} {entry.kind}" for entry in ledger.entries)
    return (
        f"tables after DDL match no step; nearest is {number}: {explain(in_order(ledger.state_at(number)), found)}; "
        f"verified earlier {ledger.base_number}, acknowledged {ledger.last_acked()}, sent: {steps}"
    )
