"""The statements during which walk.py kills the server: every kind of DDL, on unpartitioned and partitioned
tables."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Walk:
    """A statement, and the statements that set up its tables. They run in the database d; there is also an
    empty database e."""

    name: str
    setup: tuple[str, ...]
    statement: str
    # With any engine, the server runs the statement in several steps. So a state between two steps is right,
    # too, if all its tables are complete.
    in_pieces: bool = False


def walks(engine: str) -> list[Walk]:
    """Returns all walks. `engine` is the engine of the tables, or that to or from which they are copied."""
    tables = _Tables(engine)
    return [*_whole(engine, tables), *_altered(engine, tables), *_partitioned(tables), *_partitions(tables),
            *_constrained(engine), *_beside(engine, tables)]  # fmt: skip


class _Tables:
    """Statements that create the tables: t, unpartitioned or partitioned in several ways, always with the
    same rows; and u."""

    def __init__(self, engine: str):
        self.columns = f"(a INT PRIMARY KEY, b INT, c VARCHAR(20), KEY b (b)) ENGINE={engine}"
        fill = "INSERT INTO t (a, b, c) SELECT seq, seq % 10, CONCAT('w', seq) FROM mysql.seq_1_to_120"
        ranges = ("PARTITION p0 VALUES LESS THAN (50)", "PARTITION p1 VALUES LESS THAN (100)",
                  "PARTITION p2 VALUES LESS THAN (1000)")  # fmt: skip

        def table(partitioning: str = "") -> tuple[str, ...]:
            return f"CREATE TABLE t {self.columns} {partitioning}", fill

        self.t = table()
        self.u = (f"CREATE TABLE u {self.columns}", "INSERT INTO u VALUES (1, 1, 'u')")
        self.by_hash = table("PARTITION BY HASH (a) PARTITIONS 3")
        self.by_key = table("PARTITION BY KEY (a) PARTITIONS 3")
        self.by_range = table(f"PARTITION BY RANGE (a) ({', '.join(ranges)})")
        self.in_subpartitions = table(
            f"PARTITION BY RANGE (a) SUBPARTITION BY HASH (a) SUBPARTITIONS 2 ({', '.join(ranges)})"
        )
        self.trigger = ("CREATE TRIGGER g BEFORE INSERT ON t FOR EACH ROW SET NEW.b = 7",)


def _whole(engine: str, tables: _Tables) -> list[Walk]:
    t, u, trigger = tables.t, tables.u, tables.trigger
    select = "(a INT PRIMARY KEY, b INT, c VARCHAR(20))"
    return [
        Walk("create", (), t[0]),
        Walk("create select", u, f"CREATE TABLE t {select} ENGINE={engine} SELECT * FROM u"),
        Walk(
            "create or replace",
            t,
            f"CREATE OR REPLACE TABLE t (x INT PRIMARY KEY) ENGINE={engine}",
            in_pieces=True,
        ),
        Walk("create like", t, "CREATE TABLE u LIKE t"),
        Walk("drop", t, "DROP TABLE t"),
        Walk("drop with a trigger", t + trigger, "DROP TABLE t"),
        Walk("drop two", t + u, "DROP TABLE t, u", in_pieces=True),
        Walk("truncate", t, "TRUNCATE TABLE t"),
        Walk("rename", t, "RENAME TABLE t TO v"),
        Walk("rename into another database", t, "RENAME TABLE t TO e.v"),
        Walk("rename crosswise", t + u, "RENAME TABLE t TO x, u TO t, x TO u"),
        Walk("rename with a trigger", t + trigger, "RENAME TABLE t TO v"),
    ]


def _altered(engine: str, tables: _Tables) -> list[Walk]:
    t = tables.t
    changes = {
        "add column": "ADD COLUMN d INT NOT NULL DEFAULT 3",
        "drop column": "DROP COLUMN c",
        "rename column": "RENAME COLUMN c TO cc",
        "reorder": "MODIFY c VARCHAR(20) AFTER a",
        "add index": "ADD INDEX c (c)",
        "add unique": "ADD UNIQUE c (c)",
        "drop index": "DROP INDEX b",
        "replace index": "DROP INDEX b, ADD INDEX b (b, c)",
        "change primary key": "DROP PRIMARY KEY, ADD PRIMARY KEY (c)",
        "drop primary key": "DROP PRIMARY KEY",
        "drop primary key, add unique": "DROP PRIMARY KEY, ADD UNIQUE c (c)",
        "copy": "ADD COLUMN d INT DEFAULT 9, ALGORITHM=COPY",
        "rename and add column": "RENAME TO v, ADD COLUMN d INT DEFAULT 3",
        "rename and copy": "RENAME TO v, ADD COLUMN d INT DEFAULT 3, ALGORITHM=COPY",
        "to InnoDB": "ENGINE=InnoDB",
        "partition": "PARTITION BY HASH (a) PARTITIONS 2",
    }
    to_innodb = "ALTER TABLE t ENGINE=InnoDB"
    into_other = "ALTER TABLE t RENAME TO e.v, ADD COLUMN d INT DEFAULT 3"
    return [
        *(Walk(name, t, f"ALTER TABLE t {change}") for name, change in changes.items()),
        Walk("from InnoDB", (*t, to_innodb), f"ALTER TABLE t ENGINE={engine}"),
        Walk("from InnoDB in partitions", (*tables.by_hash, to_innodb), f"ALTER TABLE t ENGINE={engine}"),
        Walk("rename into another database and add column", t, into_other, in_pieces=True),
        Walk("optimize", t, "OPTIMIZE TABLE t"),
    ]


def _partitioned(tables: _Tables) -> list[Walk]:
    by_hash, by_range, u = tables.by_hash, tables.by_range, tables.u
    rename = "ALTER TABLE t RENAME TO v"
    altered = (
        *by_hash,
        "ALTER TABLE t ADD COLUMN d INT DEFAULT 5, ADD INDEX c (c)",
        "ALTER TABLE t COMMENT='x'",
    )
    changed = (*by_range, "ALTER TABLE t ADD PARTITION (PARTITION p3 VALUES LESS THAN MAXVALUE)",
               "ALTER TABLE t DROP PARTITION p0")  # fmt: skip
    changes = {
        "rename and add column": "RENAME TO v, ADD COLUMN d INT DEFAULT 3",
        "rename and copy": "RENAME TO v, ADD COLUMN d INT DEFAULT 3, ALGORITHM=COPY",
        "add column": "ADD COLUMN d INT NOT NULL DEFAULT 3",
        "add index": "ADD INDEX c (c)",
        "drop index": "DROP INDEX b",
        "change primary key": "DROP PRIMARY KEY, ADD PRIMARY KEY (a, b)",
        "copy": "ADD COLUMN d INT DEFAULT 9, ALGORITHM=COPY",
        "to InnoDB": "ENGINE=InnoDB",
    }
    return [
        Walk("partitioned: create", (), by_hash[0]),
        Walk("partitioned: create like", by_hash, "CREATE TABLE u LIKE t"),
        Walk("partitioned: drop", by_hash, "DROP TABLE t"),
        Walk("partitioned: truncate", by_hash, "TRUNCATE TABLE t", in_pieces=True),
        Walk("partitioned: rename", by_hash, rename),
        Walk("partitioned: rename after ALTER", altered, rename),
        Walk("partitioned: rename after ALTER of partitions", changed, rename),
        Walk("partitioned: rename after a copy", (*by_hash, "ALTER TABLE t FORCE, ALGORITHM=COPY"), rename),
        Walk("partitioned: rename back", (*by_hash, rename), "RENAME TABLE v TO t"),
        Walk("partitioned: rename with a trigger", (*by_hash, *tables.trigger), rename),
        Walk("partitioned: rename into another database", by_hash, "RENAME TABLE t TO e.v"),
        Walk("partitioned: rename crosswise", by_hash + u, "RENAME TABLE t TO x, u TO t, x TO u"),
        Walk("subpartitioned: rename", tables.in_subpartitions, rename),
        *(
            Walk(f"partitioned: {name}", by_hash, f"ALTER TABLE t {change}")
            for name, change in changes.items()
        ),
        Walk(
            "partitioned: rename into another database and add column",
            by_hash,
            "ALTER TABLE t RENAME TO e.v, ADD COLUMN d INT DEFAULT 3",
            in_pieces=True,
        ),
        # Partitioned by KEY, because the server itself copies a table that is partitioned by an expression.
        Walk("partitioned: drop primary key", tables.by_key, "ALTER TABLE t DROP PRIMARY KEY, LOCK=NONE"),
        # After a kill it is not known whether the new table is complete, so the old table may be left under
        # another name.
        Walk(
            "partitioned: to InnoDB, not partitioned",
            by_hash,
            "ALTER TABLE t ENGINE=InnoDB REMOVE PARTITIONING",
            in_pieces=True,
        ),
    ]


def _partitions(tables: _Tables) -> list[Walk]:
    by_hash, by_range, u = tables.by_hash, tables.by_range, tables.u
    other = (f"CREATE TABLE u {tables.columns}", "INSERT INTO u VALUES (2000, 1, 'x')")
    of_range = {
        "truncate": "TRUNCATE PARTITION p1",
        "add": "ADD PARTITION (PARTITION p3 VALUES LESS THAN MAXVALUE)",
        "drop": "DROP PARTITION p0",
        "reorganize": "REORGANIZE PARTITION p0, p1 INTO (PARTITION q VALUES LESS THAN (100))",
        "rebuild": "REBUILD PARTITION p1",
        "to a table": "CONVERT PARTITION p1 TO TABLE v",
    }
    of_hash = {
        "add to hash": "ADD PARTITION PARTITIONS 1",
        "coalesce": "COALESCE PARTITION 1",
        "remove": "REMOVE PARTITIONING",
    }
    from_table = "CONVERT TABLE u TO PARTITION p9 VALUES LESS THAN MAXVALUE"
    return [
        *(
            Walk(f"partition: {name}", by_range, f"ALTER TABLE t {change}")
            for name, change in of_range.items()
        ),
        *(Walk(f"partition: {name}", by_hash, f"ALTER TABLE t {change}") for name, change in of_hash.items()),
        Walk("partition: exchange", by_range + u, "ALTER TABLE t EXCHANGE PARTITION p0 WITH TABLE u"),
        Walk("partition: from a table", by_range + other, f"ALTER TABLE t {from_table}"),
    ]


def _constrained(engine: str) -> list[Walk]:
    """Statements on a parent p and its child c, which also refers to itself."""
    parent = (
        f"CREATE TABLE p (a INT PRIMARY KEY, b INT, KEY b (b)) ENGINE={engine}",
        "INSERT INTO p SELECT seq, seq % 10 FROM mysql.seq_1_to_120",
    )
    columns = "a INT PRIMARY KEY, b INT, c INT, KEY b (b), KEY c (c)"
    of_parent = "CONSTRAINT of_p FOREIGN KEY (b) REFERENCES p (a) ON DELETE CASCADE ON UPDATE CASCADE"
    of_itself = "CONSTRAINT of_c FOREIGN KEY (c) REFERENCES c (a) ON DELETE SET NULL"
    fill = "INSERT INTO c SELECT seq, seq + 20, IF(seq > 5, seq - 5, NULL) FROM mysql.seq_1_to_100"
    free = (*parent, f"CREATE TABLE c ({columns}) ENGINE={engine}", fill)
    create = f"CREATE TABLE c ({columns}, {of_parent}, {of_itself}) ENGINE={engine}"
    both = (*parent, create, fill)
    no_checks = "SET STATEMENT foreign_key_checks = 0 FOR"
    alone = {
        "create": (parent, create),
        "create before the parent": ((), f"{no_checks} {create}"),
        "create the parent after the child": ((f"{no_checks} {create}",), parent[0]),
        "add": (free, f"ALTER TABLE c ADD {of_parent}"),
        "add without checks": (free, f"{no_checks} ALTER TABLE c ADD {of_parent}, ADD {of_itself}"),
        "add and change by copy": (free, f"ALTER TABLE c ADD {of_parent}, ADD COLUMN d INT, ALGORITHM=COPY"),
        "drop parent without checks": (both, f"{no_checks} DROP TABLE p"),
        "truncate parent without checks": (both, f"{no_checks} TRUNCATE TABLE p"),
        "rename crosswise": (both, "RENAME TABLE p TO x, c TO p, x TO c"),
    }
    changes = {
        "drop": "ALTER TABLE c DROP FOREIGN KEY of_p",
        "drop and add": f"ALTER TABLE c DROP FOREIGN KEY of_c, ADD {of_itself.replace('of_c', 'again')}",
        "replace its index": "ALTER TABLE c DROP INDEX b, ADD INDEX bc (b, c)",
        "rename column of child": "ALTER TABLE c RENAME COLUMN b TO bb",
        "rename column of parent": "ALTER TABLE p RENAME COLUMN a TO aa",
        "rename column that refers to its table": "ALTER TABLE c RENAME COLUMN a TO aa",
        "copy child": "ALTER TABLE c ADD COLUMN d INT DEFAULT 9, ALGORITHM=COPY",
        "copy parent": "ALTER TABLE p ADD COLUMN d INT DEFAULT 9, ALGORITHM=COPY",
        "rename and change child": "ALTER TABLE c RENAME TO v, ADD COLUMN d INT DEFAULT 3",
        "rename parent": "RENAME TABLE p TO v",
        "rename child": "RENAME TABLE c TO v",
        "rename parent into another database": "RENAME TABLE p TO e.v",
        "rename child into another database": "RENAME TABLE c TO e.v",
        "drop child": "DROP TABLE c",
        "truncate child": "TRUNCATE TABLE c",
    }
    return [
        *(Walk(f"constraint: {name}", *walk) for name, walk in alone.items()),
        *(Walk(f"constraint: {name}", both, change) for name, change in changes.items()),
        Walk(
            "constraint: rename child into another database and change it",
            both,
            "ALTER TABLE c RENAME TO e.v, ADD COLUMN d INT DEFAULT 3",
            in_pieces=True,
        ),
        Walk("constraint: drop both", both, "DROP TABLE c, p", in_pieces=True),
        Walk("constraint: drop database", both, "DROP DATABASE d", in_pieces=True),
    ]


def _beside(engine: str, tables: _Tables) -> list[Walk]:
    sequence = f"CREATE SEQUENCE s ENGINE={engine}"
    return [
        Walk("sequence: create", (), sequence),
        Walk("sequence: alter", (sequence,), "ALTER SEQUENCE s INCREMENT 5"),
        Walk("sequence: drop", (sequence,), "DROP SEQUENCE s"),
        Walk("sequence: rename", (sequence,), "RENAME TABLE s TO s2"),
        Walk("trigger: create", tables.t, tables.trigger[0]),
        Walk("database: drop", tables.t + tables.u, "DROP DATABASE d", in_pieces=True),
        Walk("database: drop with partitions", tables.by_hash, "DROP DATABASE d", in_pieces=True),
    ]
