"""The random SQL test's model of its tables, and their random first definitions.

Names of indexes and columns are never reused within a round, so that each name in a script has one meaning.
`{E}` in a statement stands for the engine, `{X}` for the other engine, `{C}` for options that only ATOLL has.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field

from harness.random_sql.column_types import Type, any_type, day_type, integer, key_type, quoted


@dataclass
class Column:
    name: str
    type: Type
    null: bool = True
    default: str = ""
    expression: str = ""  # of a generated column
    stored: bool = False
    auto: bool = False
    check: str = ""
    uses: tuple[str, ...] = ()  # columns in its expression or default

    def definition(self) -> str:
        parts = [self.name, self.type.sql]
        if self.expression:
            parts.append(f"GENERATED ALWAYS AS ({self.expression}) {'STORED' if self.stored else 'VIRTUAL'}")
            return " ".join(parts)
        parts.append("NULL" if self.null else "NOT NULL")
        if self.default:
            parts.append(f"DEFAULT {self.default}")
        if self.auto:
            parts.append("AUTO_INCREMENT")
        if self.check:
            parts.append(f"CHECK ({self.check})")
        return " ".join(parts)


@dataclass
class Index:
    name: str
    columns: list[str]
    parts: list[str]  # as written: with prefix length and direction
    unique: bool = False
    whole: bool = True  # no part is a prefix

    def by_hash(self, table: Table) -> bool:
        """Whether this is a unique key of a whole long column. The server makes such a key with a hidden
        virtual column that has the column's hash."""
        parts = zip(self.columns, self.parts, strict=True)
        return (
            self.unique
            and self.name != "PRIMARY"
            and any(table.column(name).type.long and "(" not in part for name, part in parts)
        )

    def definition(self) -> str:
        if self.name == "PRIMARY":
            return f"PRIMARY KEY ({', '.join(self.parts)})"
        return f"{'UNIQUE ' if self.unique else ''}KEY {self.name} ({', '.join(self.parts)})"


@dataclass
class Partitioning:
    kind: str  # HASH, KEY, RANGE, LIST
    column: str
    names: list[str] = field(default_factory=list)
    bounds: list[int] = field(default_factory=list)
    count: int = 0
    sub: str = ""  # HASH or KEY: each partition has subpartitions

    def definition(self) -> str:
        if self.kind in ("HASH", "KEY"):
            return f"PARTITION BY {self.kind} ({self.column}) PARTITIONS {self.count}"
        sub = f" SUBPARTITION BY {self.sub} ({self.column}) SUBPARTITIONS 2" if self.sub else ""
        return f"PARTITION BY {self.kind} ({self.column}){sub} ({', '.join(self.pieces())})"

    def pieces(self) -> list[str]:
        if self.kind == "RANGE":
            limits = [*(str(bound) for bound in self.bounds), "MAXVALUE"]
            return [f"PARTITION {n} VALUES LESS THAN ({b})" for n, b in zip(self.names, limits, strict=True)]
        lists = [",".join(str(v) for v in range(bound, bound + 10)) for bound in self.bounds]
        pieces = [f"PARTITION {n} VALUES IN ({v})" for n, v in zip(self.names[:-1], lists, strict=True)]
        return [*pieces, f"PARTITION {self.names[-1]} DEFAULT"]


@dataclass
class Table:
    name: str
    columns: list[Column]
    indexes: list[Index]
    partitioning: Partitioning | None = None
    temporary: bool = False
    versioned: bool = False  # WITH SYSTEM VERSIONING
    period: tuple[str, ...] = ()  # columns of the application-time period `p`: its start and end
    changed_engine: bool = False  # has the other engine for a while
    set_by_triggers: set[str] = field(default_factory=set)  # columns that a trigger sets in an UPDATE

    def partitions(self) -> list[str]:
        """Returns the names of the table's partitions."""
        if self.partitioning is None:
            return []
        return self.partitioning.names or [f"p{number}" for number in range(self.partitioning.count)]

    def primary(self) -> Index | None:
        return next((index for index in self.indexes if index.name == "PRIMARY"), None)

    def column(self, name: str) -> Column:
        return next(column for column in self.columns if column.name == name)

    def written(self) -> list[Column]:
        return [column for column in self.columns if not column.expression]

    def has_generated_text(self) -> bool:
        """Returns whether the table has a generated TEXT column, stored or virtual."""
        return any(c.type.long and c.expression for c in self.columns)

    def auto_column(self) -> Column | None:
        return next((column for column in self.columns if column.auto), None)

    def unique_columns(self) -> set[str]:
        """Returns the columns on which a unique key depends, directly or through generated columns."""
        names = {name for index in self.indexes if index.unique for name in index.columns}
        for column in self.columns:
            if column.name in names:
                names |= set(column.uses)
        return names

    def used_in_expressions(self) -> set[str]:
        used = {name for column in self.columns for name in column.uses}
        return used | {column.name for column in self.columns if column.check} | set(self.period)

    def total_order(self) -> str:
        """Returns an ORDER BY list that orders all rows without ties; "" if there is none."""
        primary = self.primary()
        return ", ".join(primary.columns) if primary and primary.whole else ""

    def has_one_way_to_a_row(self) -> bool:
        """Whether a row is always found by the primary key. If another index began with one of its columns, a
        plan could use that index and lock rows that do not match."""
        primary = self.primary()
        key = set(primary.columns) if primary and primary.whole else set()
        return bool(key) and not any(i.name != "PRIMARY" and i.columns[0] in key for i in self.indexes)

    def create(self) -> str:
        entries = [column.definition() for column in self.columns]
        entries += [f"PERIOD FOR p ({', '.join(self.period)})"] if self.period else []
        entries += [index.definition() for index in self.indexes]
        head = "CREATE TEMPORARY TABLE" if self.temporary else "CREATE TABLE"
        versioned = " WITH SYSTEM VERSIONING" if self.versioned else ""
        tail = f"{versioned} {self.partitioning.definition()}" if self.partitioning else versioned
        return f"{head} {self.name} ({', '.join(entries)}) ENGINE={{E}}{{C}}{tail}"


class Names:
    """Makes new names: t1, c7, i3, ..."""

    def __init__(self) -> None:
        self._last: dict[str, int] = {}

    def fresh(self, letter: str) -> str:
        self._last[letter] = self._last.get(letter, 0) + 1
        return f"{letter}{self._last[letter]}"


def random_default(rng: random.Random, column_type: Type) -> str:
    if column_type.sql.startswith(("TIMESTAMP", "DATETIME")) and rng.random() < 0.4:
        digits = column_type.sql.partition("(")[2].rstrip(")")
        now = f"CURRENT_TIMESTAMP({digits})" if digits else "CURRENT_TIMESTAMP"
        return now + (f" ON UPDATE {now}" if rng.random() < 0.5 else "")
    if column_type.family == "shape":
        return ""
    if column_type.family == "int" and rng.random() < 0.3:
        return "(1 + 2 * 3)"
    if column_type.family == "text" and rng.random() < 0.2 and "(1)" not in column_type.sql:
        return "(LOWER('D'))"
    return column_type.literal(rng)


def random_column(rng: random.Random, names: Names, column_type: Type | None = None) -> Column:
    column = Column(names.fresh("c"), column_type or any_type(rng), null=rng.random() < 0.6)
    if rng.random() < 0.4:
        column.default = random_default(rng, column.type)
    if rng.random() < 0.1:
        if column.type.family == "int":
            column.check = f"{column.name} <> 13"
        elif column.type.family == "text":
            column.check = f"CHAR_LENGTH({column.name}) < 4000"
    return column


_EXPRESSIONS = {
    "int": (("BIGINT", "{0} % 10"), ("BIGINT", "{0} DIV 2"), ("VARCHAR(30)", "CONCAT('n', {0})")),
    "text": (("VARCHAR(100)", "LEFT(UPPER({0}), 30)"), ("INT", "CHAR_LENGTH({0})"),
             ("VARCHAR(80) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin", "CONCAT(LEFT({0}, 40), '-')"),
             ("TEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin", "CONCAT({0}, '-')")),
    "time": (("INT", "YEAR({0})"),),
    "json": (("VARCHAR(60)", "LEFT(JSON_VALUE({0}, '$.a'), 40)"),),
}  # fmt: skip


def random_generated(rng: random.Random, names: Names, table: Table) -> Column | None:
    usable = [c for c in table.columns if c.type.family in _EXPRESSIONS and not c.expression and not c.auto]
    usable = [c for c in usable if not c.type.sql.startswith(("TIME", "YEAR"))]
    if not usable:
        return None
    base = rng.choice(usable)
    sql, pattern = rng.choice(_EXPRESSIONS[base.type.family])
    if sql == "BIGINT" and "UNSIGNED" in base.type.sql:
        sql = "BIGINT UNSIGNED"
    if sql.startswith(("VARCHAR", "TEXT")):
        long = sql.startswith("TEXT")
        made = Type(
            sql, "text", lambda r: quoted(r.choice(("A", "AA", "n1", "é-", "a-", "B"))), False, 15, long
        )
    else:
        made = integer(rng, sql.split()[0], "UNSIGNED" in sql)
    # When the server merges partitions in index order, it confuses their virtual TEXT columns, so store
    # these.
    stored = rng.random() < 0.5 or (made.long and table.partitioning is not None)
    return Column(names.fresh("c"), made, expression=pattern.format(base.name), stored=stored,
                  uses=(base.name,))  # fmt: skip


def random_index(rng: random.Random, names: Names, table: Table, unique: bool | None = None) -> Index | None:
    usable = [column for column in table.columns if column.type.indexable]
    if not usable:
        return None
    unique = False if table.period else unique  # FOR PORTION OF may split a row into two
    chosen = rng.sample(usable, min(len(usable), rng.choice((1, 1, 1, 2, 2, 3))))
    parts, whole = [], True
    unique = rng.random() < 0.25 if unique is None else unique
    by_hash = unique and rng.random() < 0.2  # see Index.by_hash()
    for column in chosen:
        part = column.name
        expands = column.type.expands()  # with a short prefix, the result would depend on the plan
        if column.type.prefix and not by_hash and (column.type.long or (rng.random() < 0.25 and not expands)):
            part += f"({column.type.prefix if expands else rng.randrange(1, column.type.prefix + 1)})"
            whole = False
        if rng.random() < 0.2:
            part += " DESC"
        parts.append(part)
    columns = [column.name for column in chosen]
    if unique and table.partitioning and table.partitioning.column not in columns:
        columns.append(table.partitioning.column)
        parts.append(table.partitioning.column)
    return Index(names.fresh("i"), columns, parts, unique, whole)


def _random_primary(rng: random.Random, names: Names) -> tuple[list[Column], Index]:
    columns = [
        Column(names.fresh("c"), key_type(rng), null=False) for _ in range(rng.choice((1, 1, 1, 2, 3)))
    ]
    if len(columns) == 1 and columns[0].type.family == "int" and rng.random() < 0.5:
        columns[0].auto = True
    parts = [c.name for c in columns]
    for position, column in enumerate(columns):
        if column.type.prefix and not column.type.expands() and rng.random() < 0.15:
            parts[position] += f"({rng.randrange(1, column.type.prefix + 1)})"
    whole = not any("(" in part for part in parts)
    parts = [p + (" DESC" if rng.random() < 0.1 and not columns[0].auto else "") for p in parts]
    return columns, Index("PRIMARY", [c.name for c in columns], parts, True, whole)


def random_partitioning(rng: random.Random, names: Names, table: Table) -> Partitioning | None:
    """Partitions by an integer column that is part of every unique key. None if there is no such column, or
    if the table has a virtual TEXT column."""
    if any(c.type.long and c.expression and not c.stored for c in table.columns):
        return None
    keys = [set(index.columns) for index in table.indexes if index.unique]
    usable = [c.name for c in table.columns if c.type.family == "int" and not c.expression
              and all(c.name in key for key in keys)]  # fmt: skip
    if not usable:
        return None
    made = Partitioning(rng.choice(("HASH", "KEY", "RANGE", "LIST")), rng.choice(usable))
    if made.kind in ("HASH", "KEY"):
        made.count = rng.randrange(1, 5)
    else:
        made.bounds = sorted(rng.sample((0, 10, 20, 30), rng.randrange(1, 4)))
        made.names = [names.fresh("p") for _ in range(len(made.bounds) + 1)]
        made.sub = rng.choice(("", "", "HASH", "KEY"))
    return made


def _make_period(rng: random.Random, names: Names, table: Table) -> None:
    """Gives the table an application-time period of days, and in most cases a primary key that contains the
    period."""
    number = Column(names.fresh("c"), integer(rng, "INT"), null=False)
    days = [Column(names.fresh("c"), day, null=False) for day in (day_type(1, 15), day_type(14, 28))]
    table.columns = [number, *days]
    table.period = tuple(day.name for day in days)
    if rng.random() < 0.6:
        key = [number.name, *table.period]
        table.indexes.append(Index("PRIMARY", key, [number.name, "p WITHOUT OVERLAPS"], True))


def random_table(rng: random.Random, names: Names, temporary: bool = False) -> Table:
    table = Table(names.fresh("t"), [], [], temporary=temporary)
    if not temporary and rng.random() < 0.08:
        _make_period(rng, names, table)
    elif rng.random() < 0.8:
        table.columns, primary = _random_primary(rng, names)
        table.indexes.append(primary)
    table.columns += [random_column(rng, names) for _ in range(rng.randrange(1, 6))]
    for _ in range(rng.choice((0, 0, 1, 2))):
        generated = random_generated(rng, names, table)
        if generated:
            table.columns.append(generated)
    if not temporary and not table.period and rng.random() < 0.25:
        table.partitioning = random_partitioning(rng, names, table)
    table.versioned = not temporary and not table.partitioning and rng.random() < 0.06
    for _ in range(rng.choice((0, 1, 1, 2, 3))):
        index = random_index(rng, names, table)
        if index:
            table.indexes.append(index)
    return table
