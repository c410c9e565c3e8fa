"""Goal:   an ALTER without a copy makes the same table as one with a copy.
Method: seeded random ALTERs, most of them instant, between random DML. An InnoDB table gets the same
        statements. Rows, definition and error codes are compared after each step. The server is killed every
        KILL_EVERY steps.

ATOLL_ALTER_STEPS changes the number of steps, ATOLL_ALTER_SEED repeats a run.
"""

from __future__ import annotations

import os
import random
from dataclasses import dataclass, replace

import pymysql
from harness.server import Server

STEPS = int(os.environ.get("ATOLL_ALTER_STEPS", "150"))
SEED = int(os.environ.get("ATOLL_ALTER_SEED", str(random.randrange(1 << 30))))
COLUMNS_MAX = 12
KILL_EVERY = 40

# Type -> some values as SQL. The first value is also the usual default.
TYPES = {
    "TINYINT": ["1", "-128", "127"],
    "INT": ["7", "-2147483648", "0"],
    "BIGINT UNSIGNED": ["18446744073709551615", "0", "12"],
    "DECIMAL(18,4)": ["12345.6789", "-0.0001", "0"],
    "FLOAT": ["1.5", "-2.25", "0"],
    "DOUBLE": ["2.5", "-1e100", "0"],
    "BIT(11)": ["b'10000000001'", "b'0'"],
    "DATE": ["'2001-02-03'", "'1999-12-31'"],
    "TIME(3)": ["'-11:12:13.456'", "'00:00:00'"],
    "DATETIME(6)": ["'2010-11-12 13:14:15.678901'", "'1970-01-02 00:00:00'"],
    "TIMESTAMP": ["CURRENT_TIMESTAMP", "'2020-02-02 20:20:20'"],
    "YEAR": ["1999", "2030"],
    "ENUM('x','y','z')": ["'y'", "'x'", "'z'"],
    "SET('p','q','r')": ["'p,r'", "''", "'q'"],
    "INET6": ["'::1'", "'fe80::2'"],
    "BINARY({})": ["'bi'", "''"],
    "VARBINARY({})": ["'v'", "'a\\0b'", "''"],
    "CHAR({}) CHARACTER SET utf8mb4": ["'ch'", "'C '", "''"],
    "VARCHAR({}) CHARACTER SET utf8mb4": ["'text'", "'Te '", "''", "'ü'"],
    "VARCHAR({}) CHARACTER SET latin1": ["'one'", "'two'", "''"],
    "CHAR({}) CHARACTER SET ucs2": ["'w'", "''"],
    "TEXT CHARACTER SET utf8mb4": ["'long text'", "''", "REPEAT('x', 300)"],
    "BLOB": ["'blob'", "'\\0'"],
}
GROWS = [name for name in TYPES if "{}" in name and "ucs2" not in name]


@dataclass(frozen=True)
class Column:
    name: str
    type: str
    length: int = 10
    nullable: bool = True
    default: str | None = None
    virtual: str = ""

    def sql(self, name: str = "") -> str:
        head = f"{name or self.name} {self.type.format(self.length)}"
        if self.virtual:
            return f"{head} AS ({self.virtual}) VIRTUAL"
        default = f" DEFAULT {self.default}" if self.default is not None else ""
        return f"{head} {'NULL' if self.nullable else 'NOT NULL'}{default}"


class Model:
    """A model of the columns and indexes, from which statements are chosen. The expected results come from
    the InnoDB table."""

    def __init__(self, generator: random.Random):
        self.random = generator
        self.columns: list[Column] = []
        self.indexes: dict[str, str] = {}  # name: column
        self.altered = 0
        self._names = 0

    def name(self, kind: str) -> str:
        self._names += 1
        return f"{kind}{self._names}"

    def stored(self) -> list[Column]:
        return [column for column in self.columns if not column.virtual]

    def free(self) -> list[Column]:
        """The stored columns that are used by no index and no virtual column."""
        used = set(self.indexes.values()) | {c.virtual.split(" ")[0] for c in self.columns if c.virtual}
        return [column for column in self.stored() if column.name not in used]

    def new_column(self) -> Column:
        kind = self.random.choice(list(TYPES))
        nullable = self.random.random() < 0.6
        value = self.random.choice(TYPES[kind][:2]) if "REPEAT" not in TYPES[kind][-1] else TYPES[kind][0]
        default = value if not nullable or self.random.random() < 0.6 else None
        if kind == "TIMESTAMP" and default is None:
            default = "NULL"
        return Column(self.name("c"), kind, self.random.choice([4, 10, 60]), nullable, default)

    def place(self) -> str:
        choice = self.random.randrange(4)
        if choice == 0:
            return " FIRST"
        return f" AFTER {self.random.choice(self.stored()).name}" if choice == 1 and self.stored() else ""


class Alter:
    """A random ALTER: its clauses, whether it must be instant, and the columns and indexes after it."""

    def __init__(self, model: Model):
        self.model = model
        self.clauses: list[str] = []
        self.instant = True
        self.columns = list(model.columns)
        self.indexes = dict(model.indexes)
        touched: set[str] = set()
        actions = [self.add, self.add, self.drop, self.rename, self.move, self.default, self.nullable,
                   self.grow, self.virtual, self.add_index, self.drop_index, self.change_type]  # fmt: skip
        for action in model.random.sample(actions, model.random.choice([1, 1, 2, 3])):
            action(touched)

    def _pick(self, columns: list[Column], touched: set[str]) -> Column | None:
        names = {column.name for column in self.columns}
        left = [column for column in columns if column.name not in touched and column.name in names]
        if not left:
            return None
        column = self.model.random.choice(left)
        touched.add(column.name)
        return column

    def _change(self, before: Column, after: Column, place: str = "") -> None:
        self.columns[self.columns.index(before)] = after
        verb = f"CHANGE {before.name}" if before.name != after.name else "MODIFY"
        self.clauses.append(f"{verb} {after.sql()}{place}")

    def add(self, _touched: set[str]) -> None:
        if len(self.columns) < COLUMNS_MAX:
            column = self.model.new_column()
            self.columns.append(column)
            self.clauses.append(f"ADD COLUMN {column.sql()}")

    def drop(self, touched: set[str]) -> None:
        column = self._pick(self.model.free(), touched)
        if column:
            self.columns.remove(column)
            self.clauses.append(f"DROP COLUMN {column.name}")

    def rename(self, touched: set[str]) -> None:
        column = self._pick(self.model.free(), touched)
        if column:
            self._change(column, replace(column, name=self.model.name("r")))

    def move(self, touched: set[str]) -> None:
        column = self._pick(self.model.stored(), touched)
        if column:
            self._change(column, column, " FIRST")

    def default(self, touched: set[str]) -> None:
        column = self._pick(self.model.stored(), touched)
        if column and "TEXT" not in column.type and column.type not in ("BLOB", "TIMESTAMP"):
            value = self.model.random.choice(TYPES[column.type])
            self.columns[self.columns.index(column)] = replace(column, default=value)
            self.clauses.append(f"ALTER {column.name} SET DEFAULT {value}")

    def nullable(self, touched: set[str]) -> None:
        column = self._pick([c for c in self.model.free() if not c.nullable], touched)
        if column:
            self._change(column, replace(column, nullable=True))

    def grow(self, touched: set[str]) -> None:
        column = self._pick([c for c in self.model.free() if c.type in GROWS and c.length < 250], touched)
        if column:
            more = self.model.random.choice([1, 20, 300]) if column.type.startswith("VAR") else 5
            self._change(column, replace(column, length=column.length + more))

    def virtual(self, touched: set[str]) -> None:
        existing = self._pick([c for c in self.model.columns if c.virtual], touched)
        if existing:
            self.columns.remove(existing)
            self.clauses.append(f"DROP COLUMN {existing.name}")
            return
        base = self._pick([c for c in self.model.stored() if c.type == "INT"], touched)
        if base:
            column = Column(self.model.name("v"), "BIGINT", virtual=f"{base.name} + 1")
            self.columns.append(column)
            self.clauses.append(f"ADD COLUMN {column.sql()}")

    def add_index(self, touched: set[str]) -> None:
        column = self._pick([c for c in self.model.stored() if c.type != "BLOB" and "TEXT" not in c.type],
                            touched)  # fmt: skip
        if column and len(self.indexes) < 3:
            name = self.model.name("k")
            self.indexes[name] = column.name
            self.clauses.append(f"ADD INDEX {name} ({column.name})")
            self.instant = False

    def drop_index(self, _touched: set[str]) -> None:
        old = [name for name in self.model.indexes if name in self.indexes]
        if old:
            name = self.model.random.choice(old)
            del self.indexes[name]
            self.clauses.append(f"DROP INDEX {name}")

    def change_type(self, touched: set[str]) -> None:
        column = self._pick([c for c in self.model.free() if c.type == "TINYINT"], touched)
        if column and self.model.random.random() < 0.3:
            self._change(column, replace(column, type="INT"))
            self.instant = False


def both(server: Server, statement: str, atoll_suffix: str = "") -> int:
    """Runs the statement ({} is the table) on both tables. Returns the error code, which must be the same for
    both; 0 for success."""
    codes = []
    for table, suffix in (("i", ""), ("a", atoll_suffix)):
        try:
            server.run("SET timestamp = 1500000000", statement.format(table) + suffix, database="r")
            codes.append(0)
        except pymysql.Error as error:
            codes.append(error.args[0])
    assert codes[0] == codes[1], f"InnoDB says {codes[0]}, ATOLL {codes[1]}"
    return codes[0]


def change_rows(server: Server, model: Model) -> str:
    """Returns a random statement that changes rows."""
    choice = model.random.randrange(5)
    columns = model.stored()
    chosen = model.random.sample(columns, model.random.randrange(len(columns) + 1)) if columns else []
    values = {c.name: model.random.choice(TYPES[c.type] + (["NULL"] if c.nullable else [])) for c in chosen}
    low = model.random.randrange(400)
    if choice <= 1:
        names = "".join(f", {name}" for name in values)
        rows = ", ".join(
            "({}{})".format(low + i, "".join(f", {v}" for v in values.values())) for i in range(9)
        )
        return f"REPLACE INTO {{}} (id{names}) VALUES {rows}"
    where = f"WHERE id BETWEEN {low} AND {low + 60}"
    if choice == 4 or not values:
        return f"DELETE FROM {{}} {where}"
    return f"UPDATE {{}} SET {', '.join(f'{name} = {value}' for name, value in values.items())} {where}"


def definition(server: Server, table: str) -> str:
    text = server.run(f"SHOW CREATE TABLE {table}", database="r")[0][1]
    return text.replace(f"`{table}`", "`t`").replace("ENGINE=InnoDB", "").replace("ENGINE=ATOLL", "")


def compare(server: Server, indexes: dict[str, str]) -> None:
    assert definition(server, "a") == definition(server, "i")
    rows = {table: server.run(f"SELECT * FROM {table} ORDER BY id", database="r") for table in "ai"}
    for ours, theirs in zip(rows["a"], rows["i"], strict=False):
        assert ours == theirs
    assert len(rows["a"]) == len(rows["i"])
    assert server.run("CHECK TABLE a EXTENDED", database="r")[-1][-1] == "OK"
    for name, column in indexes.items():
        order = f"ORDER BY 2, HEX({column}), {column}"
        query = f"SELECT {column}, COUNT(*) FROM {{}} FORCE INDEX ({name}) GROUP BY {column} {order}"
        assert server.run(query.format("a"), database="r") == server.run(query.format("i"), database="r")


def step(server: Server, model: Model, number: int) -> str:
    """Takes one step on both tables. Returns its statement."""
    if number % 3 != 0:
        statement = change_rows(server, model)
        both(server, statement)
        return statement
    alter = Alter(model)
    if not alter.clauses:
        return ""
    statement = "ALTER TABLE {} " + ", ".join(alter.clauses)
    if both(server, statement, ", ALGORITHM=INSTANT" if alter.instant else "") == 0:
        model.columns, model.indexes = alter.columns, alter.indexes
        model.altered += 1
    return statement


def test_random_alters_agree_with_innodb(lab):
    print(f"seed {SEED}, {STEPS} steps")
    model = Model(random.Random(SEED))
    server = lab.s3_server(lab.store(), sql_mode="STRICT_TRANS_TABLES", character_set_server="utf8mb4")
    server.start()
    server.run("CREATE DATABASE r")
    for table, engine in (("i", "InnoDB"), ("a", "ATOLL")):
        server.run(f"CREATE TABLE {table} (id INT PRIMARY KEY) ENGINE={engine}", database="r")
    statement = ""
    for number in range(STEPS):
        try:
            statement = step(server, model, number)
            compare(server, model.indexes)
        except Exception as error:
            raise AssertionError(f"seed {SEED}, step {number}: {statement}: {error}") from error
        if (number + 1) % KILL_EVERY == 0:
            server.kill()
            server.start()
    assert model.altered > STEPS / 15, "four of five ALTERs failed on both sides: they prove little"
    server.stop()
