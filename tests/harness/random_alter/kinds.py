"""The column types between which the random ALTERs change a column, with values for each.

A shape is a type without its collation. Pairs of shapes are what the walk enumerates; collations are drawn.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator
from dataclasses import dataclass

# The values differ by case, accents, spaces and zeros at the end, and in what other types read in them. There is
# no 'ss' beside the 'ß', because the server loses one of them when it reads by a prefix of a column.
WORDS = ("''", "'a'", "'A'", "'a '", "'ab'", "'b'", "'ba  '", "'é'", "'E'", "'ß'", "'12'", "'2020-02-02'",
         "'[1, 2]'", "'zzzz'", "'long word number 1'")  # fmt: skip
BYTES = ("''", "'a'", "'A'", "'a\\0'", "'ab'", "'a '", "'b'", "x'00'", "x'ff01'", "'12'", "'abcd'")
NUMBERS = ("0", "1", "2", "7", "-1", "12", "99", "100", "127", "-128", "255", "300", "99999")
FRACTIONS = ("0", "1", "-1.5", "2.25", "12.3456", "99.994", "-99.995", "7", "1000")
DAYS = ("'2020-02-02'", "'2001-12-31'", "'1999-01-01'", "'2038-01-01'")
MOMENTS = ("'2020-02-02 20:20:20.123456'", "'2001-12-31 23:59:59.999999'", "'1999-01-01 00:00:00'",
           "'2020-02-02 20:20:20'")  # fmt: skip
TIMES = ("'00:00:00'", "'11:12:13.456789'", "'-01:02:03.5'", "'23:59:59.999999'", "'11:12:13'")

COLLATIONS = (
    "latin1_swedish_ci", "latin1_bin", "latin1_swedish_nopad_ci", "latin1_nopad_bin", "ascii_general_ci",
    "utf8mb3_general_ci", "utf8mb3_general_nopad_ci", "utf8mb4_general_ci", "utf8mb4_general_nopad_ci",
    "utf8mb4_bin", "utf8mb4_nopad_bin", "utf8mb4_unicode_520_ci", "utf8mb4_unicode_nopad_ci",
    "utf8mb4_uca1400_ai_ci", "ucs2_general_ci", "utf16_general_ci",
)  # fmt: skip


@dataclass(frozen=True)
class Shape:
    """`family` groups the shapes between which an engine might think that nothing changes."""

    sql: str
    family: str
    values: tuple[str, ...]
    collated: bool = False  # takes a character set and a collation
    prefix: bool = False  # a key needs a prefix; there is no literal default of some of them

    def is_number(self) -> bool:
        return self.family in ("integer", "decimal", "float", "bit", "year")

    def keyable(self) -> bool:
        """Whether a key, a primary key and PARTITION BY KEY can contain the whole column."""
        return not self.prefix and "COMPRESSED" not in self.sql


def _integers() -> Iterator[Shape]:
    for name in ("TINYINT", "SMALLINT", "MEDIUMINT", "INT", "BIGINT"):
        for attribute in ("", " UNSIGNED", " ZEROFILL"):
            yield Shape(name + attribute, "integer", NUMBERS)
    yield Shape("INT(3) ZEROFILL", "integer", NUMBERS)
    yield Shape("INT(7) ZEROFILL", "integer", NUMBERS)
    yield Shape("INT(5)", "integer", NUMBERS)
    yield Shape("YEAR", "year", ("1999", "2020", "0", "2155"))


def _numbers() -> Iterator[Shape]:
    sizes = (
        "(5,2)",
        "(6,2)",
        "(10,0)",
        "(10,2)",
        "(10,4)",
        "(20,4)",
        "(30,10)",
        "(10,2) UNSIGNED",
        "(10,2) ZEROFILL",
    )
    for size in sizes:
        yield Shape(f"DECIMAL{size}", "decimal", FRACTIONS)
    for name in ("FLOAT", "FLOAT(7,3)", "FLOAT UNSIGNED", "DOUBLE", "DOUBLE(12,4)", "DOUBLE ZEROFILL"):
        yield Shape(name, "float", FRACTIONS)
    for bits in (1, 7, 8, 11, 64):
        yield Shape(f"BIT({bits})", "bit", ("b'0'", "b'1'", "b'1'"))


def _temporal() -> Iterator[Shape]:
    yield Shape("DATE", "time", DAYS)
    for digits in ("", "(1)", "(3)", "(6)"):
        yield Shape(f"TIME{digits}", "time", TIMES)
        yield Shape(f"DATETIME{digits}", "time", MOMENTS)
        yield Shape(f"TIMESTAMP{digits}", "time", MOMENTS)


def _texts() -> Iterator[Shape]:
    for length in (1, 4, 10, 63, 64, 255):
        yield Shape(f"CHAR({length})", "text", WORDS, collated=True)
    for length in (4, 10, 63, 64, 85, 86, 255, 256, 400):
        yield Shape(f"VARCHAR({length})", "text", WORDS, collated=True)
    for length in (20, 100, 300):
        yield Shape(f"VARCHAR({length}) COMPRESSED", "text", WORDS, collated=True)
    for name in ("TINYTEXT", "TEXT", "MEDIUMTEXT", "LONGTEXT"):
        yield Shape(name, "text", WORDS, collated=True, prefix=True)
        yield Shape(f"{name} COMPRESSED", "text", WORDS, collated=True, prefix=True)


def _bytes() -> Iterator[Shape]:
    for length in (1, 4, 8, 16, 255):
        yield Shape(f"BINARY({length})", "bytes", BYTES)
    for length in (4, 8, 16, 255, 256, 400):
        yield Shape(f"VARBINARY({length})", "bytes", BYTES)
    yield Shape("VARBINARY(300) COMPRESSED", "bytes", BYTES)
    for name in ("TINYBLOB", "BLOB", "MEDIUMBLOB", "LONGBLOB"):
        yield Shape(name, "bytes", BYTES, prefix=True)
        yield Shape(f"{name} COMPRESSED", "bytes", BYTES, prefix=True)


def _lists() -> Iterator[Shape]:
    many = ",".join(f"'m{number}'" for number in range(260))
    some = ",".join(f"'s{number}'" for number in range(9))
    for members in ("'a','b'", "'a','b','c'", "'b','a'", "'a','x','b'", "'A','B'", f"'a','b',{many}"):
        yield Shape(f"ENUM({members})", "list", ("'a'", "'b'", "1"), collated=True)
    for members in ("'a','b'", "'a','b','c'", "'b','a'", f"'a','b',{some}"):
        yield Shape(f"SET({members})", "list", ("'a'", "'b'", "'a,b'", "''"), collated=True)


def _others() -> Iterator[Shape]:
    yield Shape("JSON", "json", ("'[1, 2]'", "'{\"a\": 1}'", "'\"a\"'", "'12'"), prefix=True)
    uuid = ("'00000000-0000-0000-0000-000000000001'", "'12345678-1234-4123-8123-123456789abc'")
    yield Shape("UUID", "other", uuid)
    yield Shape("INET6", "other", ("'::1'", "'fe80::2'", "'::ffff:1.2.3.4'"))
    yield Shape("INET4", "other", ("'1.2.3.4'", "'10.0.0.1'"))


SHAPES: tuple[Shape, ...] = (
    *_integers(), *_numbers(), *_temporal(), *_texts(), *_bytes(), *_lists(), *_others(),
)  # fmt: skip


def _may_stay(first: Shape, second: Shape) -> bool:
    """Whether an engine might read the values of the first shape as those of the second: the same type with
    other parameters, or one that stores its bytes in the same way."""
    words = [shape.sql.replace("(", " ").split()[0].replace("VAR", "") for shape in (first, second)]
    large = all(shape.prefix or shape.sql.startswith("VAR") for shape in (first, second))
    return first.family == second.family and (words[0] == words[1] or large)


def pairs(rng: random.Random) -> Iterator[tuple[Shape, Shape]]:
    """Yields all pairs of shapes again and again, in random order. Most are those for which an engine may do
    without a copy."""
    every = [(a, b) for a in SHAPES for b in SHAPES]
    near = [(a, b) for a, b in every if a.family == b.family]
    free = [(a, b) for a, b in every if _may_stay(a, b)]
    walks = [free, near, free, every]
    left: list[list[tuple[Shape, Shape]]] = [[] for _ in walks]
    for turn in itertools.count():
        number = turn % len(walks)
        left[number] = left[number] or rng.sample(walks[number], len(walks[number]))
        yield left[number].pop()


@dataclass(frozen=True)
class Kind:
    """A whole column type: a shape with its collation."""

    shape: Shape
    collation: str = ""

    def sql(self) -> str:
        if not self.collation:
            return self.shape.sql
        return f"{self.shape.sql} CHARACTER SET {self.collation.split('_')[0]} COLLATE {self.collation}"


def kind_of(rng: random.Random, shape: Shape, like: Kind | None = None) -> Kind:
    """Draws the collation. Often it is that of `like`, or one of the same character set."""
    if not shape.collated:
        return Kind(shape)
    if like is not None and like.collation and rng.random() < 0.75:
        charset = like.collation.split("_")[0]
        same = [name for name in COLLATIONS if name.startswith(charset + "_")]
        return Kind(shape, like.collation if rng.random() < 0.7 else rng.choice(same))
    return Kind(shape, rng.choice(COLLATIONS))
