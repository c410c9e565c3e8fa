"""Makes the cases: a table with one column `c`, what depends on it, rows, and ALTERs that change `c`.

A case consists of SQL text, so that it can be shortened line by line and read without this program.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field

from harness.random_alter.kinds import SHAPES, Kind, Shape, kind_of

HOWS = ("DEFAULT", "DEFAULT", "INSTANT", "INSTANT", "NOCOPY", "INPLACE", "COPY")


@dataclass
class Case:
    """`lines` are the definitions in CREATE TABLE; `steps` are ALTERs (the part after the table's name, and an
    algorithm), each followed by rows that are written then."""

    name: str
    mode: str = ""  # sql_mode
    lines: list[str] = field(default_factory=list)
    options: list[str] = field(default_factory=list)  # what follows the definitions
    rows: list[str] = field(
        default_factory=list
    )  # each "(id, c)" or with more columns: "id, c) VALUES (1, 2)"
    steps: list[tuple[str, str]] = field(default_factory=list)
    later: list[str] = field(default_factory=list)  # statements after each ALTER

    def create(self) -> str:
        return f"CREATE TABLE t ({', '.join(self.lines)}) ENGINE={{E}} {' '.join(self.options)}".rstrip()

    def script(self) -> list[str]:
        return [f"SET sql_mode = '{self.mode}'", self.create(), *self.rows,
                *(f"ALTER TABLE t {change} -- {how}" for change, how in self.steps), *self.later]  # fmt: skip


# Expressions of `c` for generated columns: type, expression. Each works for all types of `c`.
_EXPRESSIONS = (
    ("INT", "LENGTH(c)"), ("INT", "CHAR_LENGTH(c)"), ("BIGINT", "CRC32(c)"), ("INT", "ASCII(c)"),
    ("INT", "c = 'a'"), ("INT", "c < 'b'"), ("INT", "c LIKE 'a%'"), ("INT", "LOCATE('A', c)"), ("INT", "c IS NULL"),
    ("VARCHAR(600) CHARACTER SET latin1", "LEFT(HEX(c), 500)"), ("VARCHAR(40)", "CONCAT('<', LEFT(c, 9), '>')"),
    ("CHAR(32)", "MD5(c)"), ("BINARY(16)", "UNHEX(MD5(c))"), ("VARBINARY(500)", "c"), ("VARCHAR(500)", "c"),
    ("CHAR(60)", "LEFT(c, 40)"), ("VARCHAR(60)", "UPPER(LEFT(c, 30))"), ("VARCHAR(60)", "RIGHT(c, 3)"),
    ("TEXT", "CONCAT(c, c)"), ("BLOB", "c"), ("VARCHAR(100)", "COALESCE(LEFT(c, 20), 'none')"),
    ("VARCHAR(60)", "REVERSE(LEFT(c, 5))"), ("INT", "FIELD(c, 'a', 'b')"),
)  # fmt: skip
# The server allows a stored or indexed column on CHAR only if it ignores the spaces at the end.
_OF_CHAR = (
    ("INT", "LENGTH(RTRIM(c))"), ("VARCHAR(500)", "RTRIM(c)"), ("CHAR(32)", "MD5(RTRIM(c))"), ("BLOB", "RTRIM(c)"),
    ("VARCHAR(500) CHARACTER SET latin1", "LEFT(HEX(RTRIM(c)), 400)"), ("INT", "RTRIM(c) < 'b'"),
)  # fmt: skip
_OF_NUMBERS = (("BIGINT", "c + 1"), ("BIGINT", "c DIV 2"), ("DECIMAL(40,4)", "c * 2"), ("DOUBLE", "c / 3"))
# Expressions of a generated column `{}`, for chains.
_CHAINED = (
    ("INT", "LENGTH({})"), ("CHAR(32)", "MD5({})"), ("VARCHAR(80)", "CONCAT(LEFT({}, 20), '!')"), ("INT", "{} = 'a'"),
    ("BIGINT", "CRC32({})"),
)  # fmt: skip


class Maker:
    """Makes one case. `first` and `second` are the shapes of the pair whose turn it is."""

    def __init__(self, name: str, first: Shape, second: Shape):
        self.rng = random.Random(name)
        self.case = Case(name, "STRICT_TRANS_TABLES" if self.rng.random() < 0.15 else "")
        self.kind = kind_of(self.rng, first)
        self.kinds = [self.kind, kind_of(self.rng, second, self.kind)]
        while self.rng.random() < 0.5 and len(self.kinds) < 4:
            self.kinds.append(kind_of(self.rng, self._near(self.kinds[-1].shape), self.kinds[-1]))
        self.generated: list[tuple[str, str, bool]] = []  # name, type, is it stored
        self.nullable = self.rng.random() < 0.5
        self.versioned = self.rng.random() < 0.1
        self.unique = False

    def make(self) -> Case:
        self.case.lines = ["id INT NOT NULL", self._column(self.kind)]
        self._generated_columns()
        self._other_lines()
        partitioned = self.rng.random() < 0.3 and self._partition()
        self._keys(partitioned)
        if self.versioned:
            self.case.options.insert(0, "WITH SYSTEM VERSIONING")
        self._rows()
        self.case.steps = [self._step(kind) for kind in self.kinds[1:]]
        if self.rng.random() < 0.3:  # back again: what was lost in between is seen
            self.case.steps.append(self._step(self.kind))
        return self.case

    def _near(self, shape: Shape) -> Shape:
        return self.rng.choice([other for other in SHAPES if other.family == shape.family])

    def _column(self, kind: Kind, default: bool = True) -> str:
        text = f"c {kind.sql()} {'NULL' if self.nullable else 'NOT NULL'}"
        choice = self.rng.random()
        if default and choice < 0.15 and not (kind.shape.prefix and self.rng.random() < 0.5):
            text += f" DEFAULT {self.rng.choice(kind.shape.values)}"
        elif default and choice < 0.2:
            text += f" DEFAULT (COALESCE({self.rng.choice(kind.shape.values)}, NULL))"
        if self.rng.random() < 0.07 and not text.endswith("NOT NULL"):
            text += " INVISIBLE"
        if self.rng.random() < 0.07:
            text += " CHECK (LENGTH(c) < 500)"
        return text

    # ---- what depends on the column -------------------------------------------------------------------

    def _generated_columns(self) -> None:
        for _ in range(self.rng.choice((0, 0, 1, 1, 2))):
            shape = self.kind.shape
            pool = _EXPRESSIONS + (_OF_NUMBERS * 3 if shape.is_number() else ())
            pool += _OF_CHAR * 20 if shape.sql.startswith("CHAR") else ()
            kind, expression = self.rng.choice(pool)
            self._generate(kind, expression)
        if self.generated and self.rng.random() < 0.4:
            base = self.rng.choice(self.generated)
            kind, expression = self.rng.choice(_CHAINED)
            self._generate(kind, expression.format(base[0]))

    def _generate(self, kind: str, expression: str) -> None:
        name = f"g{len(self.generated)}"
        stored = self.rng.random() < 0.4
        text = kind
        if "CHAR" in kind and "latin1" not in kind or kind == "TEXT":
            collation = self.rng.choice(("utf8mb4_general_ci", "utf8mb4_bin", "utf8mb4_general_nopad_ci"))
            text += f" CHARACTER SET utf8mb4 COLLATE {collation}"
        self.case.lines.append(f"{name} {text} AS ({expression}) {'STORED' if stored else 'VIRTUAL'}")
        self.generated.append((name, kind, stored))

    def _changed_generated(self) -> str:
        """Gives a generated column another expression, often of the same type. Keys and other generated columns
        may depend on it."""
        name, kind, stored = self.rng.choice(self.generated)
        same = [pair for pair in _EXPRESSIONS if pair[0] == kind]
        kind, expression = self.rng.choice(same or _EXPRESSIONS if self.rng.random() < 0.7 else _EXPRESSIONS)
        return f"MODIFY {name} {kind} AS ({expression}) {'STORED' if stored else 'VIRTUAL'}"

    def _other_lines(self) -> None:
        rng = self.rng
        if rng.random() < 0.2:
            self.case.lines.append("d VARCHAR(300) CHARACTER SET utf8mb4 DEFAULT (CONCAT('d', LEFT(c, 20)))")
        if rng.random() < 0.2:
            checks = ("LENGTH(c) < 600", "c <> 'nothing'", "LENGTH(c) <= 4 OR id < 1000", "HEX(c) <> 'FF'")
            self.case.lines.append(f"CONSTRAINT k CHECK ({rng.choice(checks)})")
        if rng.random() < 0.3:
            self.case.lines.append("z INT DEFAULT 5")

    def _part(self, name: str, kind: str, prefix: bool) -> str:
        """A key part on a column. `prefix`: the column needs one."""
        length = self.rng.choice((1, 3, 10, 20)) if prefix else 0
        text = any(word in kind for word in ("CHAR", "BINARY", "TEXT", "BLOB"))
        digits = kind.split("(")[1].split(")")[0] if "(" in kind and text else ""
        if text and digits.isdigit() and int(digits) > 4 and self.rng.random() < 0.3:
            length = self.rng.choice((1, 3))
        return f"{name}({length})" if length else name

    def _keys(self, partitioned: bool) -> None:
        rng, lines = self.rng, self.case.lines
        shape = self.kind.shape
        compressed = "COMPRESSED" in shape.sql
        if not partitioned and rng.random() < 0.75:
            in_primary = shape.keyable() and not self.nullable and rng.random() < 0.25
            lines.append(f"PRIMARY KEY ({rng.choice(('id, c', 'c, id')) if in_primary else 'id'})")
        else:
            lines.append("KEY by_id (id)")
        if not compressed and rng.random() < 0.5:
            order = rng.choice(("", "", " DESC"))
            lines.append(
                f"KEY kc ({self._part('c', shape.sql, shape.prefix)}{order}{rng.choice(('', ', id'))})"
            )
        if not compressed and not partitioned and rng.random() < 0.12:
            lines.append("UNIQUE KEY uc (c)")
        # InnoDB's purge ends the server when it opens a table with keys on virtual columns whose partitions are
        # bounded by text.
        purge_crashes = any("COLUMNS (c)" in option for option in self.case.options)
        for name, kind, stored in self.generated:
            if (stored or not purge_crashes) and rng.random() < 0.6:
                part = self._part(name, kind, kind in ("TEXT", "BLOB"))
                unique = not partitioned and rng.random() < 0.2
                lines.append(f"UNIQUE KEY u{name} ({part}, id)" if unique else f"KEY k{name} ({part})")

    def _partition(self) -> bool:
        """Adds PARTITION BY. Returns whether it did."""
        rng, shape = self.rng, self.kind.shape
        columns = [name for name, kind, _ in self.generated if kind not in ("TEXT", "BLOB")]
        numbers = [name for name, kind, _ in self.generated if kind in ("INT", "BIGINT")]
        choices = [f"PARTITION BY KEY ({name}) PARTITIONS 3" for name in columns]
        choices += [f"PARTITION BY HASH ({name}) PARTITIONS 3" for name in numbers]
        if shape.keyable():
            # The column is there three times, because it is what the ALTERs change.
            key = rng.choice(("KEY", "KEY", "LINEAR KEY"))
            by_id = "PARTITION BY RANGE (id) SUBPARTITION BY KEY (c) SUBPARTITIONS 2 "
            choices += [f"PARTITION BY {key} (c) PARTITIONS 3"] * 3
            choices += [by_id + "(PARTITION p0 VALUES LESS THAN (8), PARTITION p1 VALUES LESS THAN MAXVALUE)"]
        if shape.family in ("text", "bytes") and shape.keyable():
            choices += ["PARTITION BY RANGE COLUMNS (c) (PARTITION p0 VALUES LESS THAN ('a'), "
                        "PARTITION p1 VALUES LESS THAN ('b'), PARTITION p2 VALUES LESS THAN (MAXVALUE))",
                        "PARTITION BY LIST COLUMNS (c) (PARTITION p0 VALUES IN ('a', 'b'), "
                        "PARTITION p1 DEFAULT)"]  # fmt: skip
        if shape.family == "integer":
            choices += ["PARTITION BY RANGE (c) (PARTITION p0 VALUES LESS THAN (2), "
                        "PARTITION p1 VALUES LESS THAN MAXVALUE)",
                        "PARTITION BY HASH (c) PARTITIONS 3",
                        "PARTITION BY LIST (c) (PARTITION p0 VALUES IN (0, 1, 7), PARTITION p1 DEFAULT)"]  # fmt: skip
        if shape.sql.startswith(("DATE", "DATETIME")):
            choices += ["PARTITION BY RANGE COLUMNS (c) (PARTITION p0 VALUES LESS THAN ('2010-01-01'), "
                        "PARTITION p1 VALUES LESS THAN (MAXVALUE))"]  # fmt: skip
        if not choices:
            return False
        self.case.options.append(rng.choice(choices))
        return True

    # ---- rows and steps -------------------------------------------------------------------------------

    def _rows(self) -> None:
        values = list(self.kind.shape.values) + (["NULL"] if self.nullable else [])
        for number, value in enumerate(values, 1):
            self.case.rows.append(f"INSERT IGNORE INTO t (id, c) VALUES ({number}, {value})")
        if self.versioned:
            self.case.rows.append("UPDATE t SET id = id + 100 WHERE id < 3")
            self.case.rows.append("DELETE FROM t WHERE id = 4")
        other = self.rng.choice(values)
        self.case.later = [
            f"INSERT IGNORE INTO t (id, c) VALUES ({{n}}1, {other})",
            f"UPDATE IGNORE t SET c = {self.rng.choice(values)} WHERE id = 2",
            "DELETE FROM t WHERE id = 3",
        ]

    def _step(self, kind: Kind) -> tuple[str, str]:
        rng = self.rng
        if rng.random() < 0.1:
            self.nullable = not self.nullable
        clauses = [f"MODIFY {self._column(kind)}{rng.choice(('', '', '', '', ' FIRST', ' AFTER id'))}"]
        if rng.random() < 0.06 and kind.collation:
            clauses = [f"CONVERT TO CHARACTER SET {kind.collation.split('_')[0]} COLLATE {kind.collation}"]
        extra = rng.random()
        if extra < 0.08:
            clauses.append("ADD COLUMN IF NOT EXISTS y INT DEFAULT 3")
        elif extra < 0.14:
            clauses.append("DROP COLUMN IF EXISTS z")
        elif extra < 0.22:
            clauses.append(
                f"DROP KEY IF EXISTS kc, ADD KEY kc ({self._part('c', kind.sql(), kind.shape.prefix)})"
            )
        elif extra < 0.28 and self.generated and not self.case.options:
            clauses.append(f"ADD KEY IF NOT EXISTS n{self.generated[0][0]} ({self.generated[0][0]}, id)")
        elif extra < 0.32:
            clauses.append("ADD COLUMN IF NOT EXISTS w BIGINT AS (CRC32(c)) VIRTUAL")
        elif extra < 0.34:
            clauses.append("ADD CONSTRAINT k2 CHECK (LENGTH(c) < 700)")
        elif extra < 0.36:
            clauses.append("ADD COLUMN IF NOT EXISTS v INT AS (LENGTH(c)) STORED")
        elif extra < 0.39 and kind.shape.values:
            clauses = [f"ALTER c SET DEFAULT {rng.choice(kind.shape.values)}", *clauses[1:]]
        elif extra < 0.45 and self.generated:
            changed = self._changed_generated()
            clauses = [changed] if rng.random() < 0.7 else [*clauses, changed]
        rng.shuffle(clauses)
        return ", ".join(clauses), rng.choice(HOWS)
