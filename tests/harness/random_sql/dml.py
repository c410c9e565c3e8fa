"""Statements of the random SQL test that read and change rows.

If the result of a statement could depend on the order in which an engine reads the rows, the statement gets a
total order, or is written so that the order does not matter. Otherwise it is not generated.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

from harness.random_sql.schema import Column, Index, Table


@dataclass
class Step:
    """One step of a script: a statement in a session, or another action, such as `restart`, `kill` or
    `verify`."""

    sql: str
    session: str = "main"
    ordered: bool = False  # both engines must return the rows in the same order
    action: str = "sql"

    def as_list(self) -> list:
        return [self.action, self.session, self.ordered, self.sql]

    @staticmethod
    def from_list(values: list) -> Step:
        return Step(values[3], values[1], values[2], values[0])


def literal(rng: random.Random, column: Column) -> str:
    if column.null and not column.auto and rng.random() < 0.15:
        return "NULL"
    return column.type.literal(rng)


def condition(rng: random.Random, table: Table, alias: str = "", depth: int = 0) -> str:
    if depth < 2 and rng.random() < 0.3:
        glue = rng.choice((" AND ", " OR "))
        return f"({condition(rng, table, alias, depth + 1)}{glue}{condition(rng, table, alias, depth + 1)})"
    column = rng.choice([c for c in table.columns if c.type.family not in ("shape", "json")] or table.columns)
    name = f"{alias}{column.name}"
    if column.type.family in ("shape", "json") or rng.random() < 0.1:
        return f"{name} IS {rng.choice(('', 'NOT '))}NULL"
    value = column.type.literal
    choice = rng.random()
    if choice < 0.5:
        return f"{name} {rng.choice(('=', '=', '<', '>', '<=', '>=', '<>', '<=>'))} {value(rng)}"
    if choice < 0.7:
        return f"{name} BETWEEN {value(rng)} AND {value(rng)}"
    if choice < 0.85:
        return f"{name} {rng.choice(('', 'NOT '))}IN ({', '.join(value(rng) for _ in range(rng.randrange(1, 5)))})"
    if column.type.family == "text":
        # In utf16, the range that the server uses for LIKE '_' or '%' ends before the supplementary
        # characters.
        open_patterns = () if "utf16" in column.type.sql else ("_", "%")
        return f"{name} LIKE '{rng.choice(('a%', '%b', 'ss%', 'a_%', 'A%', *open_patterns))}'"
    return f"NOT ({name} > {value(rng)})"


# ---- writing ----------------------------------------------------------------------------------------


def _values(rng: random.Random, columns: list[Column], automatic: bool) -> str:
    values = []
    for column in columns:
        if column.auto and automatic:
            values.append("NULL")
        elif column.default and rng.random() < 0.1:
            values.append("DEFAULT")
        else:
            values.append(literal(rng, column))
    return f"({', '.join(values)})"


def _columns_to_write(rng: random.Random, table: Table) -> list[Column]:
    written = table.written()
    if rng.random() < 0.7:
        return written
    return [c for c in written if (not c.null and not c.default) or rng.random() < 0.6] or written


def insert(rng: random.Random, table: Table, automatic: bool = False) -> Step:
    """An INSERT or REPLACE. `automatic`: the engine chooses the AUTO_INCREMENT values, so the counters of
    both engines must have been aligned."""
    columns = table.written() if automatic else _columns_to_write(rng, table)
    auto = table.auto_column()
    if auto and auto not in columns:
        columns = [auto, *columns]
    rows = ", ".join(_values(rng, columns, automatic) for _ in range(rng.choice((1, 1, 2, 5, 12))))
    verb, tail = "INSERT INTO", ""
    choice = 1.0 if automatic else rng.random()
    if choice < 0.15:
        verb = "INSERT IGNORE INTO"
    elif choice < 0.27:
        verb = "REPLACE INTO"
    elif choice < 0.42 and sum(index.unique for index in table.indexes) <= 1:
        tail = _on_duplicate(rng, table)
    names = ", ".join(column.name for column in columns)
    if table.versioned and table.has_generated_text():
        verb = verb.replace("REPLACE", "INSERT")  # InnoDB stores bytes of another row in the history
    return Step(f"{verb} {table.name} ({names}) VALUES {rows}{tail}{_returning(rng)}")


def _returning(rng: random.Random) -> str:
    return " RETURNING *" if rng.random() < 0.1 else ""


_MANY = {
    "int": ("seq", "seq % 50", "100 - seq"),
    "number": ("seq % 90", "seq % 7"),
    "text": ("CONCAT('a', seq)", "CONCAT('Word ', seq % 40)", "CHAR(97 + seq % 26)"),
    "bytes": ("UNHEX(LPAD(HEX(seq), 4, '0'))", "CHAR(seq % 256)"),
}


def insert_many(rng: random.Random, table: Table) -> Step:
    """Inserts up to 700 rows at once, so that indexes have more than one page or block."""
    columns = table.written()
    values = [rng.choice((*_MANY.get(c.type.family, ()), literal(rng, c))) for c in columns]
    names = ", ".join(column.name for column in columns)
    count = rng.choice((30, 300, 700))
    return Step(
        f"INSERT IGNORE INTO {table.name} ({names}) SELECT {', '.join(values)} FROM seq_1_to_{count} ORDER BY seq"
    )


def _on_duplicate(rng: random.Random, table: Table) -> str:
    column = rng.choice(table.written())
    source = f"VALUES({column.name})" if rng.random() < 0.5 else literal(rng, column)
    return f" ON DUPLICATE KEY UPDATE {column.name} = {source}"


def insert_select(rng: random.Random, table: Table, source: Table) -> Step | None:
    order = source.total_order()
    if not order:
        return None
    target = [c for c in table.written() if not c.auto or rng.random() < 0.8]
    auto = table.auto_column()
    if auto and auto not in target:
        target.append(auto)
    names, values = [], []
    for column in target:
        alike = [
            c for c in source.columns if c.type.family == column.type.family and not (column.auto and c.null)
        ]
        names.append(column.name)
        values.append(rng.choice(alike).name if alike and rng.random() < 0.8 else literal(rng, column))
    verb = rng.choice(("INSERT INTO", "INSERT IGNORE INTO", "INSERT IGNORE INTO", "REPLACE INTO"))
    return Step(
        f"{verb} {table.name} ({', '.join(names)}) SELECT {', '.join(values)} FROM {source.name} "
        f"WHERE {condition(rng, source)} ORDER BY {order} LIMIT {rng.choice((3, 20, 50))}"
    )


def _assignment(rng: random.Random, column: Column) -> str:
    if column.type.family in ("int", "number") and rng.random() < 0.4:
        return f"{column.name} = {column.name} {rng.choice(('+', '-'))} {rng.choice((1, 2, 10))}"
    if column.type.family == "text" and rng.random() < 0.2:
        return f"{column.name} = LEFT(CONCAT({column.name}, 'x'), 20)"
    return f"{column.name} = {literal(rng, column)}"


def _where(rng: random.Random, table: Table, other: Table) -> str:
    """A condition on `table`, sometimes with a subquery on another table."""
    where = condition(rng, table)
    join = _join(rng, table, other, "") if table is not other and rng.random() < 0.15 else None
    if join is None:
        return where
    kind = rng.choice(("EXISTS", "NOT EXISTS"))
    return f"{where} AND {kind} (SELECT 1 FROM {other.name} b WHERE {join})"


def _portion(rng: random.Random, table: Table) -> str:
    first, last = (f"'2024-05-{rng.randrange(1, 29):02d}'" for _ in range(2))
    return f" FOR PORTION OF p FROM {first} TO {last}" if table.period and rng.random() < 0.5 else ""


def update(rng: random.Random, table: Table, other: Table) -> Step | None:
    if portion := _portion(rng, table):
        columns = [c for c in table.written() if c.name not in table.period]
        column = rng.choice(columns) if columns else None
        # Which rows collide in a unique key depends on the order of the changes, and this statement cannot
        # have an ORDER BY.
        if column is None or column.name in table.unique_columns():
            return None
        change = _assignment(rng, column)
        return Step(f"UPDATE {table.name}{portion} SET {change} WHERE {condition(rng, table)}")
    order = table.total_order()
    written = [c for c in table.written() if order or c.name not in table.unique_columns()]
    if not written:
        return None
    chosen = rng.sample(written, min(len(written), rng.choice((1, 1, 2, 3))))
    changes = ", ".join(_assignment(rng, column) for column in chosen)
    ignore = "IGNORE " if rng.random() < 0.1 and order else ""
    tail = f" ORDER BY {order}" if order else ""
    if order and rng.random() < 0.3:
        tail += f" LIMIT {rng.choice((1, 3, 10))}"
    return Step(f"UPDATE {ignore}{table.name} SET {changes} WHERE {_where(rng, table, other)}{tail}")


def delete(rng: random.Random, table: Table, other: Table) -> Step:
    if portion := _portion(rng, table):
        return Step(f"DELETE FROM {table.name}{portion} WHERE {condition(rng, table)}")
    order = table.total_order()
    tail = ""
    # Not with partitions: after a condition that no partition can satisfy, the server finds no rows by an
    # index with either engine.
    if order and not table.partitioning and rng.random() < 0.6:
        tail = f" ORDER BY {order}" + (f" DESC LIMIT {rng.choice((1, 2, 5))}" if rng.random() < 0.8 else "")
    return Step(f"DELETE FROM {table.name} WHERE {_where(rng, table, other)}{tail}{_returning(rng)}")


def _join(rng: random.Random, left: Table, right: Table, alias: str = "a.") -> str | None:
    """A condition that joins `left`, named by `alias`, and `right`, named b.

    The two columns are both NO PAD or both PAD SPACE. Otherwise the server compares them by the PAD SPACE
    collation, in which '' equals ' ', but may look a value up in an index of the NO PAD column, which does
    not find it. So the rows depend on the plan, in InnoDB too.
    """
    pairs = [(a, b) for a in left.columns for b in right.columns
             if a.type.family == b.type.family and a.type.family not in ("shape", "json", "other")
             and ("nopad" in a.type.sql) == ("nopad" in b.type.sql)
             and (a.type.family not in ("time", "list") or a.type.sql == b.type.sql)]  # fmt: skip
    if not pairs:
        return None
    a, b = rng.choice(pairs)
    return f"{alias or left.name + '.'}{a.name} = b.{b.name}"


def change_two(rng: random.Random, left: Table, right: Table) -> Step | None:
    """A multi-table UPDATE or DELETE. The UPDATE assigns constants to columns that are in no unique key.

    It does not change a column from which a generated column in the join condition is computed, and the join
    condition has no column that a trigger sets. The reason is that the server changes rows of the first table
    of its plan during the join, and then matches the new values.
    """
    join = _join(rng, left, right)
    if join is None:
        return None
    where = condition(rng, left, "a.")
    if rng.random() < 0.4:
        target = rng.choice(("a", "a, b"))
        return Step(f"DELETE {target} FROM {left.name} a JOIN {right.name} b ON {join} WHERE {where}")
    sets: list[str] = []
    for alias, table in (("a", left), ("b", right)):
        joined = [c for c in table.columns if f"{alias}.{c.name}" in join]
        if table.set_by_triggers & {name for c in joined for name in (c.name, *c.uses)}:
            return None
        kept = table.unique_columns() | {name for c in joined for name in (c.name, *c.uses)}
        free = [c for c in table.written() if c.name not in kept]
        if free and (not sets or rng.random() < 0.5):
            column = rng.choice(free)
            sets.append(f"{alias}.{column.name} = {literal(rng, column)}")
    if not sets:
        return None
    return Step(f"UPDATE {left.name} a JOIN {right.name} b ON {join} SET {', '.join(sets)} WHERE {where}")


# ---- reading ----------------------------------------------------------------------------------------


def shown(column: Column, name: str) -> str:
    """The expression to show a column's value. An aggregate such as MIN may return any of several equal
    strings, so strings are shown by their weight in the collation."""
    if column.type.sql.startswith(("YEAR", "BIT(")):  # shown as 0, 0000 or bytes, which depends on the plan
        return f"{name} + 0"
    if column.type.family != "text":
        return name
    # WEIGHT_STRING keeps trailing spaces even if the collation ignores them.
    return f"HEX(WEIGHT_STRING({name if 'nopad' in column.type.sql else f'RTRIM({name})'}))"


def _in_order(table: Table, column: Column) -> bool:
    """Whether both engines return rows in the order of an index on this column. With partitions and a virtual
    column they may not: InnoDB's partitions are merged before the virtual column is computed."""
    return not table.partitioning or not column.expression or column.stored


def _aggregates(rng: random.Random, table: Table) -> str:
    items = ["COUNT(*)"]
    for column in rng.sample(table.columns, min(2, len(table.columns))):
        if column.type.family in ("shape", "json") or not _in_order(table, column):
            continue
        if column.type.exact or column.type.family == "text":
            items += [
                shown(column, f"{rng.choice(('MIN', 'MAX'))}({column.name})"),
                f"COUNT(DISTINCT {column.name})",
            ]
        if column.type.family in ("int", "number") and column.type.exact:
            items.append(f"SUM({column.name})")
        items.append(f"COUNT({column.name})")
    return ", ".join(items)


def _hint(rng: random.Random, table: Table) -> str:
    if not table.indexes or rng.random() < 0.4:
        return ""
    return f" FORCE INDEX ({rng.choice(table.indexes).name})"


LOCKS = (" FOR UPDATE", " LOCK IN SHARE MODE", " FOR UPDATE SKIP LOCKED", " LOCK IN SHARE MODE NOWAIT")


def without_lock(sql: str) -> str:
    return next((sql.removesuffix(lock) for lock in LOCKS if sql.endswith(lock)), sql)


def select(rng: random.Random, tables: list[Table]) -> Step:
    table = rng.choice(tables)
    where = f" WHERE {condition(rng, table)}" if rng.random() < 0.85 else ""
    source = f"{table.name}{_hint(rng, table)}"
    lock = rng.choice(LOCKS) if rng.random() < 0.1 else ""
    choice = rng.random()
    if choice < 0.2:
        return Step(f"SELECT {_aggregates(rng, table)} FROM {source}{where}{lock}")
    if choice < 0.35:
        return _grouped(rng, table, source, where)
    if choice < 0.55:
        other = rng.choice(tables)
        join = _join(rng, table, other)
        if join:
            return _joined(rng, table, other, join)
    if choice < 0.65:
        return _with_subquery(rng, table, rng.choice(tables), source)
    order = table.total_order()
    if order and choice < 0.85:
        order = ", ".join(f"{name} DESC" for name in order.split(", ")) if rng.random() < 0.4 else order
        limit = f" LIMIT {rng.choice((1, 5, 20))}" if rng.random() < 0.6 else ""
        if rng.random() < 0.3:  # needs a sort, cannot be read in index order
            order = f"{rng.choice(_sortable(table))}{rng.choice(('', ' DESC'))}, {order}"
        return Step(f"SELECT * FROM {source}{where} ORDER BY {order}{limit}{lock}", ordered=True)
    columns = ", ".join(c.name for c in rng.sample(table.columns, rng.randrange(1, len(table.columns) + 1)))
    return Step(f"SELECT {columns} FROM {source}{where}{lock}")


def duel_step(rng: random.Random, table: Table, session: str, reads: bool) -> Step:
    """A read without locks, or an UPDATE or a lock of one row by its primary key."""
    primary = table.primary()
    assert primary is not None
    where = " AND ".join(f"{n} = {table.column(n).type.literal(rng)}" for n in primary.columns)
    if reads:
        step = select(rng, [table])
        step.sql = without_lock(step.sql)
    elif rng.random() < 0.5:
        free = [c for c in table.written() if c.name not in table.unique_columns()]
        if not free:
            return Step("SELECT 1", session)
        column = rng.choice(free)
        step = Step(f"UPDATE {table.name} SET {column.name} = {literal(rng, column)} WHERE {where}")
    elif rng.random() < 0.3:
        step = Step(f"DELETE FROM {table.name} WHERE {where}")
    else:
        step = Step(f"SELECT {', '.join(primary.columns)} FROM {table.name} WHERE {where} FOR UPDATE")
    step.session = session
    return step


def _sortable(table: Table) -> list[str]:
    return [c.name for c in table.columns if c.type.family not in ("shape", "json") and _in_order(table, c)]


def _grouped(rng: random.Random, table: Table, source: str, where: str) -> Step:
    columns = [
        c for c in table.columns if c.type.exact and c.type.family != "shape" or c.type.family == "text"
    ]
    columns = [c for c in columns if _in_order(table, c)]
    if not columns:
        return Step(f"SELECT COUNT(*) FROM {source}{where}")
    column = rng.choice(columns)
    pairs = [i.columns for i in table.indexes if len(i.columns) > 1 and i.columns[0] == column.name]
    if pairs and rng.random() < 0.7:  # the server may use a loose index scan
        second = table.column(rng.choice(pairs)[1])
        if second in columns:
            best = shown(second, f"{rng.choice(('MIN', 'MAX'))}({second.name})")
            first = shown(column, f"MIN({column.name})")
            return Step(f"SELECT {first}, {best} FROM {source}{where} GROUP BY {column.name}")
    name = shown(column, f"MIN({column.name})") if column.type.family == "text" else column.name
    if rng.random() < 0.3 and column.type.family != "text":
        return Step(f"SELECT DISTINCT {name} FROM {source}{where}")
    return Step(f"SELECT {name}, COUNT(*) FROM {source}{where} GROUP BY {column.name}")


def _joined(rng: random.Random, table: Table, other: Table, join: str) -> Step:
    kind = rng.choice(("JOIN", "LEFT JOIN", "STRAIGHT_JOIN"))
    left, right = rng.choice(table.columns).name, rng.choice(other.columns).name
    where = f" WHERE {condition(rng, table, 'a.')}" if rng.random() < 0.7 else ""
    return Step(f"SELECT a.{left}, b.{right} FROM {table.name} a {kind} {other.name} b ON {join}{where}")


def _with_subquery(rng: random.Random, table: Table, other: Table, source: str) -> Step:
    join = _join(rng, table, other) or "1 = 1"
    kind = rng.choice(("EXISTS", "NOT EXISTS"))
    inner = f"SELECT 1 FROM {other.name} b WHERE {join} AND {condition(rng, other, 'b.')}"
    source = source.replace(table.name, f"{table.name} a", 1)
    return Step(f"SELECT a.{rng.choice(table.columns).name} FROM {source} WHERE {kind} ({inner})")


def history(rng: random.Random, table: Table) -> Step:
    """Reads old versions of a table with system versioning, or deletes some of them."""
    past = f"TIMESTAMP FROM_UNIXTIME(UNIX_TIMESTAMP() - {rng.choice((1, 5, 30))})"
    return Step(rng.choice((
        f"SELECT *, ROW_START, ROW_END FROM {table.name} FOR SYSTEM_TIME ALL WHERE {condition(rng, table)}",
        f"SELECT * FROM {table.name} FOR SYSTEM_TIME AS OF {past} WHERE {condition(rng, table)}",
        f"SELECT COUNT(*) FROM {table.name} FOR SYSTEM_TIME FROM {past} TO NOW(6)",
        f"DELETE HISTORY FROM {table.name} BEFORE SYSTEM_TIME {past}",
    )))  # fmt: skip


def by_every_index(rng: random.Random, table: Table, indexes: list[Index] | None = None) -> list[Step]:
    """The same query by every index, or by each of `indexes`, and without an index. All must return the same
    rows."""
    if not table.indexes:
        return []
    columns = ", ".join(c.name for c in rng.sample(table.columns, rng.randrange(1, len(table.columns) + 1)))
    where = condition(rng, table)
    hints = [f"FORCE INDEX ({index.name})" for index in (table.indexes if indexes is None else indexes)]
    hints.append(f"IGNORE INDEX ({', '.join(index.name for index in table.indexes)})")
    return [Step(f"SELECT {columns} FROM {table.name} {hint} WHERE {where}", action="same") for hint in hints]


def handler_reads(rng: random.Random, table: Table) -> list[Step]:
    """HANDLER reads in index order. The order is the same for both engines only if each index entry ends with
    the primary key."""
    steps = [Step(f"HANDLER {table.name} OPEN AS h")]
    usable = [i for i in table.indexes if all(_in_order(table, table.column(name)) for name in i.columns)]
    usable = [i for i in usable if not table.partitioning or not i.by_hash(table)]
    index = rng.choice([None, *usable])
    if index is None or not table.total_order():
        # Reads all rows, because the first rows may differ after the engines have run an UPDATE with
        # different plans.
        steps.append(Step(f"HANDLER h READ {rng.choice(('FIRST', 'NEXT'))} LIMIT 1000000"))
    else:
        name = f"`{index.name}`"
        column = table.column(index.columns[0])
        start = rng.choice(
            ("FIRST", "LAST", f"{rng.choice(('=', '>=', '>', '<', '<='))} ({column.type.literal(rng)})")
        )
        limit = (
            1 if start.startswith("= ") else rng.choice((1, 3))
        )  # the position after the last equal key is undefined
        if table.partitioning and start.startswith("<"):  # the server crashes if it reads on
            limit = 1
        steps.append(Step(f"HANDLER h READ {name} {start} LIMIT {limit}", ordered=True))
        ways: tuple[str, ...] = ("NEXT", "PREV")
        if table.partitioning:  # the server cannot change direction while it merges partitions
            ways = ("NEXT",) if start == "FIRST" or start.startswith(">") else ()
        for _ in range(rng.randrange(0, 4) if ways else 0):
            way = rng.choice(ways)
            steps.append(Step(f"HANDLER h READ {name} {way} LIMIT {rng.choice((1, 2, 7))}", ordered=True))
    return [*steps, Step("HANDLER h CLOSE")]
