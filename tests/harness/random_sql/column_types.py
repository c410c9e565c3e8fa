"""Column types of the random SQL test: their declarations, and the literals that are used for them.

The values come from small sets, so that keys collide, ranges match rows, and values next to limits occur.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

# Many words differ from another one only by case, accent, trailing space or length, which collations treat
# differently. The word with the tab begins with b on purpose: in padded binary collations such a word sorts
# before the word without the tab, so "a\t..." would be outside of the range that the server uses for LIKE
# 'a%'.
WORDS = (
    "", " ", "a", "A", "a ", "á", "aa", "Aa", "ab", "b", "B ", "ba", "ss", "ß", "z", "Z", "zz", "é", "e", "E",
    "ñ", "0", "1", "10", "9", "_", "%", "a%", "x y", "b\\tb", "long word number one", "Long Word Number One",
)  # fmt: skip
WIDE_WORDS = (*WORDS, "日本", "日本語", "😀", "😀a", "Ω", "ω", "ﬁ", "fi", "İ", "i", "ı")

# Character set, collation, whether it can store the characters of WIDE_WORDS.
COLLATIONS = (
    ("utf8mb4", "utf8mb4_general_ci", True),
    ("utf8mb4", "utf8mb4_unicode_ci", True),
    ("utf8mb4", "utf8mb4_unicode_520_ci", True),
    ("utf8mb4", "utf8mb4_bin", True),
    ("utf8mb4", "utf8mb4_nopad_bin", True),
    ("utf8mb4", "utf8mb4_unicode_nopad_ci", True),
    ("utf8mb4", "utf8mb4_uca1400_ai_ci", True),
    ("utf8mb3", "utf8mb3_general_ci", False),
    ("latin1", "latin1_swedish_ci", False),
    ("latin1", "latin1_bin", False),
    ("latin1", "latin1_general_cs", False),
    ("latin1", "latin1_nopad_bin", False),
    ("ucs2", "ucs2_general_ci", False),
    ("utf16", "utf16_unicode_ci", True),
)

INTEGERS = {"TINYINT": 8, "SMALLINT": 16, "MEDIUMINT": 24, "INT": 32, "BIGINT": 64}


@dataclass(frozen=True)
class Type:
    """A column type. `family` (int, number, text, blob, bytes, time, list, other) decides how statements may
    use a column."""

    sql: str
    family: str
    literal: Callable[[random.Random], str]
    exact: bool = True  # equal values are shown equally, so MIN, GROUP BY and DISTINCT have one right result
    prefix: int = 0  # an index needs a prefix of at most this many characters; 0: the whole column
    long: bool = False  # cannot have a literal default or an index without a prefix
    indexable: bool = True

    def expands(self) -> bool:
        """Whether the collation may treat one character as equal to two, such as ß and ss. Then prefixes of
        equal values may differ."""
        return "_unicode" in self.sql or "uca1400" in self.sql


def quoted(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "''") + "'"


def integer(rng: random.Random, name: str = "", unsigned: bool | None = None) -> Type:
    name = name or rng.choice(list(INTEGERS))
    unsigned = rng.random() < 0.3 if unsigned is None else unsigned
    bits = INTEGERS[name]
    low, high = (0, (1 << bits) - 1) if unsigned else (-(1 << (bits - 1)), (1 << (bits - 1)) - 1)

    def literal(r: random.Random) -> str:
        if r.random() < 0.85:
            return str(r.randrange(0 if unsigned else -5, 40))
        return str(r.choice((low, low + 1, high, high - 1, 100, 127)))

    return Type(name + (" UNSIGNED" if unsigned else ""), "int", literal)


def _decimal(rng: random.Random) -> Type:
    scale = rng.choice((0, 1, 2, 4, 9))
    precision = scale + rng.choice((2, 3, 9, 18))

    def literal(r: random.Random) -> str:
        if r.random() < 0.1:
            whole = "9" * (precision - scale)
            return r.choice(("", "-")) + whole + ("." + "9" * scale if scale else "")
        return f"{r.randrange(-99, 100)}" + (f".{r.randrange(10**scale):0{scale}d}" if scale else "")

    return Type(f"DECIMAL({precision},{scale})", "number", literal)


def _floating(rng: random.Random) -> Type:
    def literal(r: random.Random) -> str:
        if r.random() < 0.1:
            return r.choice(("1e10", "-1e10", "1e-10", "3e38", "-0.0"))
        return str(r.randrange(-40, 40) / 8)

    return Type(rng.choice(("FLOAT", "DOUBLE")), "number", literal, exact=False)


def _bit(rng: random.Random) -> Type:
    size = rng.choice((1, 3, 8, 9, 33, 64))
    return Type(
        f"BIT({size})", "other", lambda r: "b'" + "".join(r.choices("01", k=r.choice((1, size)))) + "'"
    )


def _words(wide: bool) -> tuple[str, ...]:
    return WIDE_WORDS if wide else WORDS


def text(rng: random.Random) -> Type:
    charset, collation, wide = rng.choice(COLLATIONS)
    kind = rng.choice(("CHAR", "VARCHAR", "VARCHAR"))
    size = rng.choice((1, 3, 10, 20, 64, 120)) if kind == "CHAR" else rng.choice((1, 5, 20, 63, 64, 100, 300))
    words = _words(wide)

    def literal(r: random.Random) -> str:
        word = r.choice(words).replace("\\t", "\t")
        if r.random() < 0.1:
            word = word * r.choice((3, 20))
        return quoted(word if r.random() < 0.03 else word[:size])

    prefix = min(size, 20)
    return Type(f"{kind}({size}) CHARACTER SET {charset} COLLATE {collation}", "text", literal, False, prefix)


def _long_text(rng: random.Random) -> Type:
    charset, collation, wide = rng.choice(COLLATIONS)
    words = _words(wide)

    def literal(r: random.Random) -> str:
        word = quoted(r.choice(words))
        return f"REPEAT({word}, {r.choice((10, 300, 5000))})" if r.random() < 0.2 else word

    kind = rng.choice(("TINYTEXT", "TEXT", "MEDIUMTEXT"))
    if rng.random() < 0.1:  # cannot be indexed
        return Type(f"TEXT COMPRESSED CHARACTER SET {charset} COLLATE {collation}", "text", literal, False, 0,
                    True, indexable=False)  # fmt: skip
    if kind == "TINYTEXT":
        return Type(f"TINYTEXT CHARACTER SET {charset} COLLATE {collation}", "text",
                    lambda r: quoted(r.choice(words)), False, 10, True)  # fmt: skip
    return Type(f"{kind} CHARACTER SET {charset} COLLATE {collation}", "text", literal, False, 20, True)


def _bytes(rng: random.Random) -> Type:
    size = rng.choice((1, 4, 16, 100))

    def literal(r: random.Random) -> str:
        return "x'" + r.randbytes(r.randrange(0, min(size, 6) + 1)).hex() + "'"

    kind = rng.choice(("BINARY", "VARBINARY", "BLOB", "TINYBLOB", "LONGBLOB"))
    if kind == "BLOB" and rng.random() < 0.2:
        return Type("BLOB COMPRESSED", "bytes", literal, True, 0, True, indexable=False)
    if kind.endswith("BLOB"):
        return Type(kind, "bytes", literal, True, 12, True)
    return Type(f"{kind}({size})", "bytes", literal, True, min(size, 12))


def _fraction(r: random.Random, digits: int) -> str:
    return f".{r.randrange(10**digits):0{digits}d}" if digits and r.random() < 0.7 else ""


def _temporal(rng: random.Random) -> Type:
    digits = rng.choice((0, 0, 1, 3, 6))
    suffix = f"({digits})" if digits else ""
    kind = rng.choice(("DATE", "TIME", "DATETIME", "TIMESTAMP", "YEAR"))

    def date(r: random.Random) -> str:
        return f"{r.choice((1999, 2000, 2024))}-{r.randrange(1, 4):02d}-{r.randrange(1, 29):02d}"

    def clock(r: random.Random) -> str:
        return f"{r.randrange(24):02d}:{r.choice((0, 59)):02d}:{r.choice((0, 1, 59)):02d}" + _fraction(
            r, digits
        )

    literals: dict[str, Callable[[random.Random], str]] = {
        "DATE": lambda r: quoted(r.choice(("1000-01-01", "9999-12-31")) if r.random() < 0.1 else date(r)),
        "TIME": lambda r: quoted(r.choice(("-838:59:59", "838:59:59")) if r.random() < 0.1
                                 else r.choice(("", "-")) + clock(r)),
        "DATETIME": lambda r: quoted(f"{date(r)} {clock(r)}"),
        "TIMESTAMP": lambda r: quoted(f"{date(r)} {clock(r)}"),
        "YEAR": lambda r: str(r.choice((0, 1901, 1999, 2000, 2024, 2155))),
    }  # fmt: skip
    sql = kind + (suffix if kind in ("TIME", "DATETIME", "TIMESTAMP") else "")
    return Type(sql, "time", literals[kind])


def day_type(first: int, last: int) -> Type:
    """A DATE in May 2024, from day `first` to day `last`."""
    return Type("DATE", "time", lambda r: f"'2024-05-{r.randrange(first, last + 1):02d}'")


def _list(rng: random.Random) -> Type:
    members = ("a", "b", "B2", "ccc", "d d")
    names = ",".join(quoted(member) for member in members)
    if rng.random() < 0.5:
        return Type(f"ENUM({names})", "list", lambda r: quoted(r.choice(members)))
    return Type(f"SET({names})", "list", lambda r: quoted(",".join(r.sample(members, r.randrange(0, 4)))))


def _address(rng: random.Random) -> Type:
    kind = rng.choice(("INET6", "INET4", "UUID"))
    literals: dict[str, Callable[[random.Random], str]] = {
        "INET6": lambda r: quoted(r.choice(("::", "::1", "2001:db8::7", "::ffff:10.0.0.1", "ff00::"))),
        "INET4": lambda r: quoted(f"10.0.{r.choice((0, 1, 255))}.{r.randrange(4)}"),
        "UUID": lambda r: quoted(f"{r.choice('0af')}23e4567-e89b-{r.choice('14')}2d3-a456-42661417400{r.randrange(4)}"),
    }  # fmt: skip
    return Type(kind, "other", literals[kind])


def _document(rng: random.Random) -> Type:
    if rng.random() < 0.5:
        return Type("JSON", "json",
                    lambda r: quoted(r.choice(('{"a": 1}', "[]", "[1, 2]", '{"a": "é"}', "null", "7"))),
                    False, 20, True)  # fmt: skip
    shapes = ("POINT(1 2)", "POINT(-3.5 0)", "LINESTRING(0 0, 1 1)", "POLYGON((0 0, 1 0, 1 1, 0 0))")
    return Type("GEOMETRY", "shape", lambda r: f"ST_GeomFromText({quoted(r.choice(shapes))})",
                True, 0, True, indexable=False)  # fmt: skip


_MAKERS = (
    (integer, 8), (text, 8), (_decimal, 2), (_floating, 2), (_bit, 1), (_long_text, 2), (_bytes, 2),
    (_temporal, 4), (_list, 2), (_address, 2), (_document, 1),
)  # fmt: skip


def any_type(rng: random.Random) -> Type:
    maker = rng.choices([maker for maker, _ in _MAKERS], [weight for _, weight in _MAKERS])[0]
    return maker(rng)


def key_type(rng: random.Random) -> Type:
    """Returns a random type for a primary key, mostly an integer."""
    if rng.random() < 0.6:
        return integer(rng, rng.choice(("INT", "BIGINT", "SMALLINT")))
    while True:
        candidate = any_type(rng)
        if candidate.indexable and not candidate.long:
            return candidate
