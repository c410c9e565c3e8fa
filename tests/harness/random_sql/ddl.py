"""Statements of the random SQL test that change definitions.

Every maker returns the statement and a function that updates the test's model of the tables when the
statement has succeeded. It returns None when the change does not apply to the table.
"""

from __future__ import annotations

import copy
import random
from collections.abc import Callable
from dataclasses import replace

from harness.random_sql import schema as schema
from harness.random_sql.column_types import COLLATIONS, INTEGERS, integer
from harness.random_sql.schema import Column, Index, Names, Partitioning, Table

Change = tuple[str, Callable[[], None]]
HOW = ("ALGORITHM=INSTANT", "ALGORITHM=NOCOPY", "ALGORITHM=INPLACE", "ALGORITHM=COPY", "LOCK=NONE", "LOCK=SHARED",
       "LOCK=EXCLUSIVE", "ALGORITHM=INPLACE, LOCK=NONE")  # fmt: skip


def _nothing() -> None:
    pass


class Definitions:
    """All tables of a round, and the makers of DDL statements on them."""

    def __init__(self, rng: random.Random):
        self.rng = rng
        self.names = Names()
        self.tables: list[Table] = []

    def any_change(self) -> Change | None:
        table = self.rng.choice(self.tables)
        makers = ((self.add_column, 6), (self.drop_column, 4), (self.modify_column, 6), (self.rename_column, 3),
                  (self.add_index, 6), (self.drop_index, 4), (self.rename_index, 2), (self.primary_key, 3),
                  (self.set_default, 2), (self.check, 1), (self.rebuild, 3), (self.several, 3), (self.collate, 1),
                  (self.rename_table, 2), (self.truncate, 1), (self.recreate, 2), (self.like, 1),
                  (self.as_select, 1), (self.maintenance, 3), (self.partitions, 4))  # fmt: skip
        maker = self.rng.choices([m for m, _ in makers], [w for _, w in makers])[0]
        return self._explicitly(maker(table))

    def _explicitly(self, change: Change | None) -> Change | None:
        """Sometimes adds an ALGORITHM or LOCK. compare.py leaves these out again for an engine that does not
        support them."""
        if change is None or self.rng.random() > 0.2:
            return change
        sql, done = change
        if not sql.startswith("ALTER TABLE") or "PARTITION" in sql or "ALGORITHM" in sql:
            return change
        return f"{sql}, {self.rng.choice(HOW)}", done

    # ---- columns --------------------------------------------------------------------------------------

    def add_column(self, table: Table) -> Change:
        column = None
        if self.rng.random() < 0.25:
            column = schema.random_generated(self.rng, self.names, table)
        column = column or schema.random_column(self.rng, self.names)
        if column.type.sql == "JSON":  # InnoDB checks the old rows only if its ADD COLUMN copies them
            column.null = True
        place, at = "", len(table.columns)
        if self.rng.random() < 0.2 and not column.uses:
            place, at = " FIRST", 0
        elif self.rng.random() < 0.4:
            after = self.rng.randrange(len(table.columns))
            place, at = f" AFTER {table.columns[after].name}", after + 1

        def done() -> None:
            table.columns.insert(at, column)

        return f"ALTER TABLE {table.name} ADD COLUMN {column.definition()}{place}", done

    def _free(self, table: Table) -> list[Column]:
        """The columns that no index, expression or partitioning of the table uses."""
        used = table.used_in_expressions() | {name for index in table.indexes for name in index.columns}
        if table.partitioning:
            used.add(table.partitioning.column)
        return [column for column in table.columns if column.name not in used]

    def drop_column(self, table: Table) -> Change | None:
        free = self._free(table)
        if not free or len(table.columns) < 3:
            return None
        column = self.rng.choice(free)
        return f"ALTER TABLE {table.name} DROP COLUMN {column.name}", lambda: table.columns.remove(column)

    def modify_column(self, table: Table) -> Change | None:
        used = table.used_in_expressions()
        usable = [c for c in table.written() if c.name not in used and not c.auto]
        if table.partitioning:
            usable = [c for c in usable if c.name != table.partitioning.column]
        if not usable:
            return None
        column = self.rng.choice(usable)
        changed = self._modified(table, column)
        place = (
            f" AFTER {table.columns[0].name}"
            if self.rng.random() < 0.1 and table.columns[0] is not column
            else ""
        )

        # InnoDB replaces NULL by the old default when it alters the table in place, by 0 or '' when it
        # copies. So demand a copy.
        how = ", ALGORITHM=COPY" if column.default and column.null and not changed.null else ""

        def done() -> None:
            position = table.columns.index(column)
            table.columns[position] = changed
            if place:
                table.columns.insert(1, table.columns.pop(position))

        return f"ALTER TABLE {table.name} MODIFY COLUMN {changed.definition()}{place}{how}", done

    def _modified(self, table: Table, column: Column) -> Column:
        indexed = any(column.name in index.columns for index in table.indexes)
        if self.rng.random() < 0.3 and not ((primary := table.primary()) and column.name in primary.columns):
            return replace(column, null=not column.null, default="")
        if column.type.family == "int" and self.rng.random() < 0.7:
            return replace(column, type=integer(self.rng, self.rng.choice(list(INTEGERS))), default="")
        if "VARCHAR" in column.type.sql and self.rng.random() < 0.7:
            size = self.rng.choice((20, 50, 63, 64, 100, 300))
            sql = f"VARCHAR({size})" + column.type.sql.partition(")")[2]
            return replace(column, type=replace(column.type, sql=sql), default="")
        if indexed:
            return replace(column, default=column.type.literal(self.rng) if not column.type.long else "")
        return replace(schema.random_column(self.rng, self.names), name=column.name, check="")

    def rename_column(self, table: Table) -> Change | None:
        usable = [c for c in table.columns if c.name not in table.used_in_expressions()]
        if table.partitioning:
            usable = [c for c in usable if c.name != table.partitioning.column]
        if not usable:
            return None
        column, name = self.rng.choice(usable), self.names.fresh("c")
        old = column.name

        def done() -> None:
            column.name = name
            for index in table.indexes:
                index.columns = [name if c == old else c for c in index.columns]
                index.parts = [name + p[len(old):] if p.rstrip(" DESC").partition("(")[0] == old else p
                               for p in index.parts]  # fmt: skip

        return f"ALTER TABLE {table.name} RENAME COLUMN {old} TO {name}", done

    def set_default(self, table: Table) -> Change | None:
        usable = [c for c in table.written() if not c.type.long and not c.auto]
        if not usable:
            return None
        column = self.rng.choice(usable)
        default = column.type.literal(self.rng) if self.rng.random() < 0.7 else ""

        def done() -> None:
            column.default = default

        action = f"SET DEFAULT {default}" if default else "DROP DEFAULT"
        return f"ALTER TABLE {table.name} ALTER COLUMN {column.name} {action}", done

    def check(self, table: Table) -> Change:
        column = self.rng.choice(table.columns)
        name = self.names.fresh("k")
        other = column.type.literal(self.rng) if column.type.family in ("int", "text", "list") else "NULL"
        if (
            "REPEAT" in other
        ):  # the server would write CONVERT(...) into the definition, and cannot always parse it
            other = "'x'"

        def done() -> None:
            column.uses = (*column.uses, column.name)

        return f"ALTER TABLE {table.name} ADD CONSTRAINT {name} CHECK ({column.name} <> {other})", done

    def collate(self, table: Table) -> Change:
        # The test's model of the table keeps the old types. utf16 is left out, because statements on utf16
        # columns must avoid some conditions.
        charset, collation, _ = self.rng.choice([c for c in COLLATIONS if c[2] and c[0] != "utf16"])
        sql = f"ALTER TABLE {table.name} CONVERT TO CHARACTER SET {charset} COLLATE {collation}"
        return sql, _nothing

    # ---- indexes --------------------------------------------------------------------------------------

    def add_index(self, table: Table) -> Change | None:
        index = schema.random_index(self.rng, self.names, table)
        if index is None or len(table.indexes) > 6:
            return None
        return f"ALTER TABLE {table.name} ADD {index.definition()}", lambda: table.indexes.append(index)

    def drop_index(self, table: Table) -> Change | None:
        usable = [index for index in table.indexes if index.name != "PRIMARY"]
        if not usable:
            return None
        index = self.rng.choice(usable)
        return f"ALTER TABLE {table.name} DROP INDEX {index.name}", lambda: table.indexes.remove(index)

    def rename_index(self, table: Table) -> Change | None:
        usable = [index for index in table.indexes if index.name != "PRIMARY"]
        if not usable:
            return None
        index, name = self.rng.choice(usable), self.names.fresh("i")

        def done() -> None:
            index.name = name

        return f"ALTER TABLE {table.name} RENAME INDEX {index.name} TO {name}", done

    def primary_key(self, table: Table) -> Change | None:
        if table.period:
            return None
        primary = table.primary()
        made = None
        if primary is None or self.rng.random() < 0.5:
            usable = [c for c in table.written() if not c.null and c.type.indexable and not c.type.long]
            if not usable or (
                table.partitioning and table.partitioning.column not in [c.name for c in usable]
            ):
                return None
            columns = [c.name for c in self.rng.sample(usable, min(len(usable), self.rng.choice((1, 2))))]
            if table.partitioning and table.partitioning.column not in columns:
                columns.append(table.partitioning.column)
            made = Index("PRIMARY", columns, list(columns), True)
        clauses = ["DROP PRIMARY KEY"] if primary else []
        clauses += [f"ADD {made.definition()}"] if made else []

        def done() -> None:
            if primary:
                table.indexes.remove(primary)
            if made:
                table.indexes.insert(0, made)

        return f"ALTER TABLE {table.name} {', '.join(clauses)}", done

    def several(self, table: Table) -> Change | None:
        """An ALTER with two actions that do not concern the same column or index."""
        makers = self.rng.sample((self.add_column, self.drop_column, self.add_index, self.drop_index,
                                  self.rename_index, self.set_default), 2)  # fmt: skip
        changes = [change for change in (maker(table) for maker in makers) if change]
        if len(changes) < 2 or {self.drop_column, self.set_default} <= set(makers):
            return None
        if {self.drop_index, self.rename_index} <= set(makers) or {self.drop_column, self.add_index} <= set(
            makers
        ):
            return None
        if {self.drop_column, self.add_column} <= set(makers):
            return None
        head = f"ALTER TABLE {table.name} "

        def done() -> None:
            for _, apply in changes:
                apply()

        return head + ", ".join(sql.removeprefix(head) for sql, _ in changes), done

    # ---- tables ---------------------------------------------------------------------------------------

    def rebuild(self, table: Table) -> Change | None:
        if not table.temporary and self.rng.random() < 0.25:
            table_engine = "{E}" if table.changed_engine else "{X}"

            def done() -> None:
                table.changed_engine = not table.changed_engine

            return f"ALTER TABLE {table.name} ENGINE={table_engine}", done
        if table.changed_engine:
            return None
        options = self.rng.choice(
            ("ENGINE={E}", "FORCE", "ENGINE={E}{C}", "COMMENT='again'", "FORCE, ALGORITHM=COPY")
        )
        return f"ALTER TABLE {table.name} {options}", _nothing

    def rename_table(self, table: Table) -> Change | None:
        if table.temporary:
            return None
        name = self.names.fresh("t")

        def done() -> None:
            table.name = name

        sql = self.rng.choice(("RENAME TABLE {} TO {}", "ALTER TABLE {} RENAME TO {}"))
        return sql.format(table.name, name), done

    def truncate(self, table: Table) -> Change:
        return f"TRUNCATE TABLE {table.name}", _nothing

    def create(self, temporary: bool = False) -> Change:
        table = schema.random_table(self.rng, self.names, temporary)
        return table.create(), lambda: self.tables.append(table)

    def recreate(self, table: Table) -> Change:
        if len(self.tables) < 4:
            return self.create(temporary=self.rng.random() < 0.2)
        kind = "TEMPORARY TABLE" if table.temporary else "TABLE"
        return f"DROP {kind} {table.name}", lambda: self.tables.remove(table)

    def like(self, table: Table) -> Change | None:
        if table.changed_engine or len(self.tables) > 5:
            return None
        if table.temporary:
            return None
        made = copy.deepcopy(table)
        made.name = self.names.fresh("t")
        return f"CREATE TABLE {made.name} LIKE {table.name}", lambda: self.tables.append(made)

    def as_select(self, table: Table) -> Change | None:
        order = table.total_order()
        usable = [c for c in table.columns if c.type.family in ("int", "text", "bytes")]
        if not order or not usable or len(self.tables) > 5:
            return None
        columns = [schema.Column(column.name, column.type) for column in usable]
        made = Table(self.names.fresh("t"), columns, [])
        names = ", ".join(c.name for c in usable)
        sql = (
            f"CREATE TABLE {made.name} ENGINE={{E}}{{C}} AS SELECT {names} FROM {table.name} ORDER BY {order}"
        )
        return sql, lambda: self.tables.append(made)

    def maintenance(self, table: Table) -> Change:
        verb = self.rng.choice(("OPTIMIZE TABLE {}", "ANALYZE TABLE {}", "CHECK TABLE {} EXTENDED",
                                "ANALYZE TABLE {} PERSISTENT FOR ALL", "CHECK TABLE {}", "FLUSH TABLES"))  # fmt: skip
        # With every engine, the copy of a TEMPORARY table loses ON UPDATE. Only InnoDB's OPTIMIZE makes a
        # copy, so the engines would differ.
        if table.temporary and any(c.type.sql.startswith(("DATETIME", "TIMESTAMP")) for c in table.columns):
            verb = verb.replace("OPTIMIZE", "CHECK")
        return verb.format(table.name), _nothing

    # ---- partitions -----------------------------------------------------------------------------------

    def partitions(self, table: Table) -> Change | None:
        if table.temporary or table.changed_engine or table.versioned or table.period:
            return None
        partitioning = table.partitioning
        head = f"ALTER TABLE {table.name} "
        if partitioning is None or self.rng.random() < 0.15:
            made = schema.random_partitioning(self.rng, self.names, table)
            if made is None:
                return None
            return head + made.definition(), lambda: setattr(table, "partitioning", made)
        if self.rng.random() < 0.15:
            return head + "REMOVE PARTITIONING", lambda: setattr(table, "partitioning", None)
        if partitioning.kind in ("HASH", "KEY"):
            return self._hash_partitions(partitioning, head)
        return self._named_partitions(table, partitioning, head)

    def _hash_partitions(self, partitioning: Partitioning, head: str) -> Change:
        if partitioning.count < 2 or self.rng.random() < 0.4:
            return head + "ADD PARTITION PARTITIONS 1", lambda: setattr(
                partitioning, "count", partitioning.count + 1
            )
        if self.rng.random() < 0.7:
            return head + "COALESCE PARTITION 1", lambda: setattr(
                partitioning, "count", partitioning.count - 1
            )
        verb = self.rng.choice(("REBUILD", "OPTIMIZE", "ANALYZE", "CHECK", "TRUNCATE"))
        return head + f"{verb} PARTITION p0", _nothing

    def _named_partitions(self, table: Table, partitioning: Partitioning, head: str) -> Change:
        position = self.rng.randrange(len(partitioning.names))
        name = partitioning.names[position]
        choice = self.rng.random()
        if choice < 0.4:
            return (
                head + f"{self.rng.choice(('REBUILD', 'TRUNCATE', 'OPTIMIZE', 'CHECK'))} PARTITION {name}",
                _nothing,
            )
        if choice < 0.6 and position < len(partitioning.bounds) and len(partitioning.bounds) > 1:

            def dropped() -> None:
                partitioning.names.pop(position)
                partitioning.bounds.pop(position)

            if self.rng.random() < 0.4 and len(self.tables) < 6:
                return self._to_table(table, name, dropped)
            return head + f"DROP PARTITION {name}", dropped
        if partitioning.kind == "LIST":  # a split of DEFAULT leaves rows in the wrong part
            return head + f"REBUILD PARTITION {name}", _nothing
        last, added, again = partitioning.names[-1], self.names.fresh("p"), self.names.fresh("p")
        bound = max(partitioning.bounds) + 10

        def split() -> None:
            partitioning.names[-1:] = [added, again]
            partitioning.bounds.append(bound)

        pieces = replace(partitioning, names=[*partitioning.names[:-1], added, again],
                         bounds=[*partitioning.bounds, bound]).pieces()[-2:]  # fmt: skip
        return head + f"REORGANIZE PARTITION {last} INTO ({', '.join(pieces)})", split

    def _to_table(self, table: Table, partition: str, dropped: Callable[[], None]) -> Change:
        made = copy.deepcopy(table)
        made.name, made.partitioning = self.names.fresh("t"), None

        def done() -> None:
            dropped()
            self.tables.append(made)

        return f"ALTER TABLE {table.name} CONVERT PARTITION {partition} TO TABLE {made.name}", done
