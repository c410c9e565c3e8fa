"""Goal:   an ALTER of a column, however it is done, makes the table that a copy makes, and the one that InnoDB
        makes; what depends on the column is right afterwards.
Method: walks pairs of column types in random order, with generated columns, keys, constraints, defaults and
        partitions on the column (tests/harness/random_alter). After each ALTER compares rows, definition,
        partition of each row, lookups by every index, and CHECK TABLE EXTENDED.

ATOLL_MATRIX_CASES sets their number. By default every run has the same cases on every machine, so that a new
failure comes from the change under test; ATOLL_MATRIX_SEED sets another seed. `make random-alter` tries new seeds.
"""

from __future__ import annotations

import os

import pytest
from harness.random_alter.cases import Case
from harness.random_alter.run import Runner, run_minutes

CASES = int(os.environ.get("ATOLL_MATRIX_CASES", "400"))
MINUTES_MAX = 20
SEED = int(os.environ.get("ATOLL_MATRIX_SEED", "1129"))
VALUES = ("''", "'a'", "'ab '", "'A'", "'abcd'", "x'6100'")


@pytest.fixture(scope="module")
def runner():
    made = Runner()
    yield made
    made.close()


def case(name: str, lines: list[str], change: str, *options: str) -> Case:
    """A table with a column `c` that holds VALUES, and one ALTER of it."""
    rows = [f"INSERT INTO t (id, c) VALUES ({number}, {value})" for number, value in enumerate(VALUES)]
    later = ["INSERT INTO t (id, c) VALUES (20, 'new')", "DELETE FROM t WHERE c = 'ab '"]
    return Case(name, "", ["id INT NOT NULL", *lines], list(options), rows, [(change, "DEFAULT")], later)


# Not a power of two: zeros at the end of a value do not change the low bits of its hash.
BY_KEY = "PARTITION BY KEY (c) PARTITIONS 7"
BINARY = "c BINARY(4)"
LONGER = "MODIFY c BINARY(8)"
NOPAD = "c CHAR(4) CHARACTER SET latin1 COLLATE latin1_swedish_nopad_ci"
# Each was once believed to need no change of the rows.
BELIEVED = [
    case("text_compressed", ["c TEXT"], "MODIFY c TEXT COMPRESSED"),
    case("blob_compressed", ["c BLOB"], "MODIFY c BLOB COMPRESSED"),
    case("longer_text_compressed", ["c TINYTEXT"], "MODIFY c LONGTEXT COMPRESSED"),
    case("varchar_to_text_compressed", ["c VARCHAR(10)"], "MODIFY c TEXT COMPRESSED"),
    case("binary_virtual_indexed", [BINARY, "g CHAR(32) AS (MD5(c)) VIRTUAL", "KEY g (g)"], LONGER),
    case("binary_virtual_chain", [BINARY, "f INT AS (LENGTH(c)) VIRTUAL", "g INT AS (f + 1) VIRTUAL", "KEY g (g)"],
         LONGER),
    case("binary_stored", [BINARY, "g CHAR(32) AS (MD5(c)) STORED"], LONGER),
    case("binary_partition_of_virtual", [BINARY, "g INT AS (LENGTH(c)) VIRTUAL"], LONGER,
         "PARTITION BY KEY (g) PARTITIONS 7"),
    case("binary_check", [BINARY, "CHECK (LENGTH(c) < 6)"], LONGER),
    case("zerofill_stored", ["c INT(3) ZEROFILL", "g CHAR(9) AS (CONCAT(c)) STORED"], "MODIFY c INT UNSIGNED"),
    case("zerofill_virtual_indexed", ["c INT(3) ZEROFILL", "g INT AS (LENGTH(c)) VIRTUAL", "KEY g (g)"],
         "MODIFY c INT(7) ZEROFILL"),
    case("char_nopad_partition_key", [NOPAD], NOPAD.replace("c CHAR(4)", "MODIFY c CHAR(9)"), BY_KEY),
]  # fmt: skip


@pytest.mark.parametrize("believed", BELIEVED, ids=lambda made: made.name)
def test_an_alter_that_changes_values_is_done_by_computing_them(runner, believed):
    failure = runner.run(believed, shrink_s=0)
    assert failure is None, failure
    assert not runner.result.excused


def test_the_comparison_sees_what_differs(runner):
    """A row that each engine writes with another value, and one that only ATOLL's tables have."""
    same = case("same", ["c VARCHAR(20)"], "MODIFY c VARCHAR(30)")
    assert runner.difference(same) is None
    unequal_rows = {
        "INSERT INTO t SELECT 50, LENGTH('{E}')": "rows inno",
        "INSERT INTO t SELECT 50, 'x' FROM DUAL WHERE '{E}' = 'ATOLL'": "counts inno",
        "INSERT INTO t SELECT 50, 'x' FROM DUAL WHERE DATABASE() = 'atoll'": "counts atoll",
    }
    for row, kind in unequal_rows.items():
        unequal = Case(same.name, "", same.lines, [], [*same.rows, row], same.steps)
        found = runner.difference(unequal)
        assert found is not None and found.kind == kind, found


@pytest.mark.skipif(CASES == 0, reason="ATOLL_MATRIX_CASES is 0")
def test_random_alters_make_what_a_copy_makes():
    print(f"seed {SEED}, {CASES} cases")
    result = run_minutes(SEED, MINUTES_MAX, cases_max=CASES)
    print(result)
    assert not result.failures, "\n\n".join(map(str, result.failures))
    assert result.cases == CASES, f"only {result.cases} cases in {MINUTES_MAX} minutes"
    assert result.ways["in place"] > 5, "too few ALTERs in place to prove anything"
