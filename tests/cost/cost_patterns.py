"""The cost contracts: the bounds for each way to reach or change a row. test_cost.py checks them.

{m} is the id of the row in the middle of the table; the row with number r has the id 10 * r. A contract
bounds the counters of the statement's work (docs/configuration.md, Atoll_work_*). The bounds depend on the
number of rows that it returns, never on the size of the table.
"""

# ruff: noqa: E501 (one pattern a line)

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Pattern:
    """A statement and its bounds. `gets` bounds the rows looked up by key, `unpacked` the rows and entries
    that are unpacked, `steps` the entries to which the read moves its cursors.

    `estimate` bounds the entries read for the optimizer's estimates, which do not count as `steps`. `before`
    and `after` are run before and after the statement and not counted.
    """

    name: str
    statement: str
    seeks: int = 1
    steps: int = 12
    gets: int = 0
    estimate: int = 28
    unpacked: int = 24
    conditions: int = 16
    locks: int = 0
    range_locks: int = 0
    writes: int = 0
    log_syncs: int = 0
    before: str = ""
    after: str = ""


TABLES = """
CREATE TABLE t (id INT NOT NULL PRIMARY KEY, k INT NOT NULL, u INT NOT NULL, ten INT NOT NULL, digit INT NOT NULL,
  seldom INT, word VARCHAR(20) NOT NULL, text VARCHAR(60) NOT NULL, plain INT NOT NULL, KEY by_k (k),
  UNIQUE KEY by_u (u), KEY by_ten (ten, k),
  KEY by_digit (digit, k), KEY by_seldom (seldom), KEY by_word (word), KEY by_text (text(8)));
CREATE TABLE pair (quarter INT NOT NULL, id INT NOT NULL, plain INT NOT NULL, PRIMARY KEY (quarter, id));
CREATE TABLE account (quarter INT NOT NULL, id INT NOT NULL, plain INT NOT NULL, note INT NOT NULL,
  PRIMARY KEY (quarter, id), KEY by_plain (quarter, plain));
CREATE TABLE many (grp INT NOT NULL, id INT NOT NULL, PRIMARY KEY (grp, id));
CREATE TABLE part (id INT NOT NULL PRIMARY KEY, plain INT NOT NULL) PARTITION BY HASH (id DIV 10) PARTITIONS 4;
CREATE TABLE few (id INT NOT NULL PRIMARY KEY) ENGINE=MEMORY;
CREATE TABLE w0 (id INT NOT NULL PRIMARY KEY, a INT, b INT, c INT, d INT);
CREATE TABLE w1 (id INT NOT NULL PRIMARY KEY, a INT, b INT, c INT, d INT, KEY (a));
CREATE TABLE w2 (id INT NOT NULL PRIMARY KEY, a INT, b INT, c INT, d INT, KEY (a), KEY (b));
CREATE TABLE w4 (id INT NOT NULL PRIMARY KEY, a INT, b INT, c INT, d INT, KEY (a), KEY (b), KEY (c), KEY (d));
CREATE TABLE wu (id INT NOT NULL PRIMARY KEY, a INT, b INT, c INT, d INT, UNIQUE KEY (a));
INSERT INTO t SELECT seq * 10, seq * 10, seq * 10, seq DIV 10, seq MOD 10,
  IF(seq BETWEEN {rows} DIV 2 AND {rows} DIV 2 + 9, NULL, seq * 10), CONCAT('w', LPAD(seq * 10, 7, '0')),
  CONCAT(LPAD(seq DIV 10, 8, '0'), ' and more ', seq), seq MOD 7 FROM seq_1_to_{rows};
INSERT INTO pair SELECT (seq - 1) DIV ({rows} DIV 4), seq * 10, seq MOD 7 FROM seq_1_to_{rows};
INSERT INTO account SELECT quarter, id, plain, 0 FROM pair;
INSERT INTO many SELECT seq MOD 20, seq * 10 FROM seq_1_to_{rows};
INSERT INTO part SELECT seq * 10, seq MOD 7 FROM seq_1_to_{rows};
INSERT INTO w0 SELECT seq * 10, seq * 10, seq, seq, seq FROM seq_1_to_{rows};
INSERT INTO w1 SELECT * FROM w0;
INSERT INTO w2 SELECT * FROM w0;
INSERT INTO w4 SELECT * FROM w0;
INSERT INTO wu SELECT * FROM w0;
INSERT INTO few SELECT {rows} * 5 + seq * 100 FROM seq_0_to_9;
ANALYZE TABLE t, pair, account, many, part
"""


# The tables with many rows that the patterns read. OPTIMIZE TABLE compacts them.
READ_TABLES = ("t", "pair", "account", "many", "part")


def table_statements(rows: int) -> list[str]:
    """Returns the statements that create and fill the tables of the patterns, in the session's default
    engine."""
    return [statement for statement in TABLES.format(rows=rows).split(";\n") if statement.strip()]


BATCHED_ACCESS = (
    "SET join_cache_level = 6, optimizer_switch = 'mrr=on,mrr_cost_based=off,join_cache_hashed=off'"
)
BATCHED_ACCESS_OFF = "SET join_cache_level = DEFAULT, optimizer_switch = DEFAULT"


# The statements read ten rows if their names do not say otherwise. An estimate takes one search and at most
# 16 entries of the primary key, or all entries in the range of another index; if it also looks at the middle
# of the range, one search and 8 entries more. Entries that an estimate has read are not read again. With an
# index condition, both the entry and its row are unpacked.
READS = (
    Pattern("point by primary key", "SELECT * FROM t WHERE id = {m}", 0, 0, gets=1, unpacked=2),
    Pattern("point by primary key, absent", "SELECT * FROM t WHERE id = {m} + 1", 0, 0, gets=1, unpacked=1),
    Pattern("point by unique key", "SELECT * FROM t WHERE u = {m}", 1, 1, gets=1, unpacked=2),
    Pattern("closed range", "SELECT * FROM t WHERE id BETWEEN {m} AND {m} + 90"),
    Pattern("half open range", "SELECT * FROM t WHERE id >= {m} AND id < {m} + 100"),
    Pattern("range, condition on the key", "SELECT * FROM t WHERE id BETWEEN {m} AND {m} + 90 AND id % 3 = 0"),
    Pattern("range, condition on another column", "SELECT * FROM t WHERE id BETWEEN {m} AND {m} + 90 AND plain < 3"),
    Pattern("range, condition on both", "SELECT * FROM t WHERE id BETWEEN {m} AND {m} + 90 AND plain < 3 AND id % 2 = 0"),
    Pattern("range, nothing passes", "SELECT * FROM t WHERE id BETWEEN {m} AND {m} + 90 AND plain > 100"),
    Pattern("range of no row", "SELECT * FROM t WHERE id > {m} AND id < {m} + 10", 2, 0, unpacked=0),
    Pattern("range with its sum", "SELECT SUM(plain) FROM t WHERE id BETWEEN {m} AND {m} + 90"),
    Pattern("DISTINCT over a range", "SELECT DISTINCT plain FROM t WHERE id BETWEEN {m} AND {m} + 90"),
    Pattern("range ordered by another column", "SELECT * FROM t WHERE id BETWEEN {m} AND {m} + 90 ORDER BY plain", gets=10),
    Pattern("range backwards", "SELECT * FROM t WHERE id BETWEEN {m} AND {m} + 90 ORDER BY id DESC"),
    Pattern("range backwards, other column", "SELECT * FROM t WHERE id BETWEEN {m} AND {m} + 90 AND plain > 100 ORDER BY id DESC"),
    Pattern("LIMIT from a key on", "SELECT * FROM t WHERE id >= {m} ORDER BY id LIMIT 5", 5, 12),
    Pattern("LIMIT backwards from a key on", "SELECT * FROM t WHERE id <= {m} ORDER BY id DESC LIMIT 5", 5, 12),
    Pattern("LIMIT that finds nothing in its range", "SELECT * FROM t WHERE id BETWEEN {m} AND {m} + 90 AND plain > 100 LIMIT 1"),
    Pattern("last row", "SELECT * FROM t ORDER BY id DESC LIMIT 1", 1, 0, unpacked=1),
    Pattern("first rows", "SELECT * FROM t ORDER BY id LIMIT 3", 1, 2, unpacked=3),
    Pattern("several ranges by OR", "SELECT * FROM t WHERE id BETWEEN {m} AND {m} + 20 OR id BETWEEN {m} + 100 AND {m} + 120", 6, 12),
    Pattern("row constructors", "SELECT * FROM t WHERE (id, plain) IN (({m}, 1), ({m} + 10, 2), ({m} + 20, 3))", 0, 0, gets=3),
    Pattern("IN list of the primary key", "SELECT * FROM t WHERE id IN ({m}, {m} + 10, {m} + 20, {m} + 30)", 0, 0, gets=4),
    Pattern("IN list of a secondary index", "SELECT * FROM t FORCE INDEX (by_k) WHERE k IN ({m}, {m} + 10, {m} + 20)", 3, 8, gets=3),
    Pattern("secondary range", "SELECT * FROM t FORCE INDEX (by_k) WHERE k BETWEEN {m} AND {m} + 90", 2, 12, gets=10),
    Pattern("secondary range, covering", "SELECT k, id FROM t FORCE INDEX (by_k) WHERE k BETWEEN {m} AND {m} + 90", 2, 12),
    Pattern("secondary range, other column", "SELECT * FROM t FORCE INDEX (by_k) WHERE k BETWEEN {m} AND {m} + 90 AND plain > 100", 2, 12, gets=10),
    Pattern("secondary range backwards", "SELECT * FROM t FORCE INDEX (by_k) WHERE k BETWEEN {m} AND {m} + 90 ORDER BY k DESC", 2, 12, gets=10),
    Pattern("many short secondary ranges", "SELECT COUNT(k) FROM t WHERE k BETWEEN {m} AND {m} + 20 OR k BETWEEN {m} + 100 AND {m} + 120 OR k BETWEEN {m} + 200 AND {m} + 220", 3, 12),
    Pattern("index condition", "SELECT * FROM t FORCE INDEX (by_ten) WHERE ten BETWEEN {m} DIV 100 AND {m} DIV 100 + 1 AND k % 20 = 0", 3, 24, gets=12, estimate=40, unpacked=36, conditions=40),
    Pattern("equal prefix", "SELECT * FROM t FORCE INDEX (by_ten) WHERE ten = {m} DIV 100", 2, 12, gets=10),
    Pattern("range under an equal prefix", "SELECT * FROM t FORCE INDEX (by_ten) WHERE ten = {m} DIV 100 AND k < {m} + 30", 2, 12, gets=10),
    Pattern("range of the primary key under an equal prefix", "SELECT * FROM pair WHERE quarter = 1 AND id BETWEEN {m} - 100 AND {m} - 10", 5, 12),
    Pattern("newest below a bound under a prefix", "SELECT id FROM pair WHERE quarter = 1 AND id < {m} - 100 ORDER BY id DESC LIMIT 1", 5, 4, unpacked=2),
    Pattern("newest below a bound under a prefix, none", "SELECT id FROM pair WHERE quarter = 2 AND id <= {m} ORDER BY id DESC LIMIT 1", 5, 4, unpacked=2),
    Pattern("range between two rows of a prefix", "SELECT * FROM pair WHERE quarter = 1 AND id > {m} - 100 AND id < {m} - 90", 2, 0, unpacked=0),
    Pattern("MIN under a prefix", "SELECT MIN(id) FROM pair WHERE quarter = 1", 1, 0, unpacked=1),
    Pattern("MAX under a prefix", "SELECT MAX(id) FROM pair WHERE quarter = 1", 1, 0, unpacked=1),
    Pattern("MAX below a bound", "SELECT MAX(id) FROM pair WHERE quarter = 1 AND id < {m} - 100", 1, 1, unpacked=1),
    Pattern("MIN above a bound", "SELECT MIN(id) FROM pair WHERE quarter = 1 AND id > {m} - 100", 1, 0, unpacked=1),
    Pattern("MIN and MAX of an index", "SELECT MIN(k), MAX(k) FROM t", 2, 0, unpacked=2),
    Pattern("loose scan", "SELECT quarter, MIN(id), MAX(id) FROM pair GROUP BY quarter", 24, 12, unpacked=24),
    Pattern("loose scan in a range", "SELECT quarter, MAX(id) FROM pair WHERE quarter < 2 GROUP BY quarter", 24, 12, unpacked=16),
    Pattern("loose scan, condition on the second part", "SELECT quarter, MIN(id) FROM pair WHERE id > {m} GROUP BY quarter", 24, 12, unpacked=24),
    Pattern("loose scan that finds no row in any group", "SELECT grp, MIN(id) FROM many WHERE id > {m} * 3 GROUP BY grp", 80, 4, unpacked=80),
    Pattern("LIMIT by a secondary index", "SELECT * FROM t FORCE INDEX (by_k) WHERE k >= {m} ORDER BY k LIMIT 2", 4, 20, gets=9, estimate=210),
    Pattern("LIMIT of ten by a secondary index", "SELECT * FROM t FORCE INDEX (by_k) WHERE k >= {m} ORDER BY k LIMIT 10", 4, 12, gets=10, estimate=210),
    Pattern("LIMIT of ten backwards by a secondary index", "SELECT * FROM t FORCE INDEX (by_k) WHERE k <= {m} ORDER BY k DESC LIMIT 10", 4, 12, gets=10, estimate=210),
    Pattern("backwards over two ranges, the last without a row", "SELECT * FROM t WHERE id BETWEEN {m} AND {m} + 90 OR id > {m} * 3 ORDER BY id DESC", 8, 14, estimate=40),
    Pattern("LIKE that matches nothing", "SELECT * FROM t FORCE INDEX (by_word) WHERE word LIKE CONCAT('w', LPAD({m} DIV 100, 5, '0'), 'x%')", 3, 0, unpacked=0),
    Pattern("MIN and MAX by a secondary index under a prefix", "SELECT MIN(k), MAX(k) FROM t WHERE digit = 4", 2, 0, unpacked=2),
    Pattern("index merge, OR over two indexes", "SELECT * FROM t WHERE k BETWEEN {m} AND {m} + 40 OR u BETWEEN {m} + 200 AND {m} + 240", 6, 16, gets=10, estimate=40, unpacked=40),
    Pattern("rowid filter", "SELECT * FROM t FORCE INDEX (by_ten, by_k) WHERE ten BETWEEN {m} DIV 100 AND {m} DIV 100 + 1 AND k BETWEEN {m} AND {m} + 50", 8, 40, gets=20, estimate=60, unpacked=80, conditions=40),
    Pattern("IS NULL", "SELECT * FROM t FORCE INDEX (by_seldom) WHERE seldom IS NULL", 2, 12, gets=10),
    Pattern("NULL or a value", "SELECT * FROM t FORCE INDEX (by_seldom) WHERE seldom IS NULL OR seldom = {m} + 1000", 4, 14, gets=11),
    Pattern("LIKE", "SELECT * FROM t FORCE INDEX (by_word) WHERE word LIKE CONCAT('w', LPAD({m} DIV 100, 5, '0'), '%')", 3, 12, gets=10),
    Pattern("prefix index", "SELECT * FROM t FORCE INDEX (by_text) WHERE text LIKE CONCAT(LPAD({m} DIV 100, 8, '0'), '%')", 3, 12, gets=10),
    Pattern("eq_ref join", "SELECT t.* FROM few STRAIGHT_JOIN t ON t.id = few.id", 0, 0, gets=10),
    Pattern("eq_ref join of neighbours", "SELECT SUM(one.plain + other.plain) FROM t AS one STRAIGHT_JOIN t AS other ON other.id = one.id WHERE one.id BETWEEN {m} AND {m} + 990", 3, 210, gets=16, unpacked=220, conditions=110),
    Pattern("ref join", "SELECT t.* FROM few STRAIGHT_JOIN t FORCE INDEX (by_k) ON t.k = few.id", 10, 12, gets=10),
    Pattern("ref join, covering", "SELECT t.k FROM few STRAIGHT_JOIN t FORCE INDEX (by_k) ON t.k = few.id", 10, 12),
    Pattern("ref join to a prefix", "SELECT t.* FROM few STRAIGHT_JOIN t FORCE INDEX (by_ten) ON t.ten = few.id DIV 100", 10, 110, gets=100, unpacked=200, conditions=100),
    Pattern("batched key access, primary key", "SELECT t.* FROM few STRAIGHT_JOIN t ON t.id = few.id", 0, 0, gets=10, before=BATCHED_ACCESS, after=BATCHED_ACCESS_OFF),
    Pattern("batched key access by an index", "SELECT t.* FROM few STRAIGHT_JOIN t FORCE INDEX (by_k) ON t.k = few.id", 10, 12, gets=10, before=BATCHED_ACCESS, after=BATCHED_ACCESS_OFF),
    Pattern("HANDLER, equal", "HANDLER t READ by_k = ({m})", 1, 1, gets=1, before="HANDLER t OPEN", after="HANDLER t CLOSE"),
    Pattern("HANDLER, from a key on", "HANDLER t READ by_k >= ({m}) LIMIT 3", 1, 3, gets=3, before="HANDLER t OPEN", after="HANDLER t CLOSE"),
    Pattern("HANDLER, primary key backwards", "HANDLER t READ `PRIMARY` <= ({m}) LIMIT 3", 1, 3, before="HANDLER t OPEN", after="HANDLER t CLOSE"),
    Pattern("EXISTS", "SELECT few.id FROM few WHERE EXISTS (SELECT 1 FROM t WHERE t.id = few.id AND t.plain >= 0)", 0, 0, gets=10),
    Pattern("semi-join", "SELECT few.id FROM few WHERE few.id IN (SELECT k FROM t FORCE INDEX (by_k))", 10, 12),
    Pattern("anti-join", "SELECT few.id FROM few WHERE NOT EXISTS (SELECT 1 FROM t FORCE INDEX (by_k) WHERE t.k = few.id + 1)", 10, 2),
    Pattern("pruned partition", "SELECT * FROM part WHERE id = {m}", 0, 0, gets=1, unpacked=2),
    Pattern("IN list over partitions", "SELECT * FROM part WHERE id IN ({m}, {m} + 10, {m} + 20)", 0, 0, gets=3),
    Pattern("range over partitions", "SELECT * FROM part WHERE id BETWEEN {m} AND {m} + 90", 20, 24, estimate=112),
    Pattern("FOR UPDATE of a range", "SELECT * FROM t WHERE id BETWEEN {m} AND {m} + 90 FOR UPDATE", 1, locks=10, range_locks=12),
    Pattern("LOCK IN SHARE MODE by an index", "SELECT * FROM t FORCE INDEX (by_k) WHERE k BETWEEN {m} AND {m} + 90 LOCK IN SHARE MODE", 3, 12, gets=10, conditions=24, locks=10, range_locks=12),
    Pattern("FOR UPDATE of the first row under a prefix", "SELECT * FROM pair WHERE quarter = 2 ORDER BY id LIMIT 1 FOR UPDATE", 3, 2, estimate=40, locks=1, range_locks=2),
    Pattern("FOR UPDATE of a range of no row", "SELECT * FROM t WHERE id > {m} AND id < {m} + 10 FOR UPDATE", 2, 0, unpacked=0, range_locks=1),
    Pattern("FOR UPDATE backwards", "SELECT * FROM t WHERE id BETWEEN {m} AND {m} + 90 ORDER BY id DESC FOR UPDATE", 2, locks=10, range_locks=12),
)  # fmt: skip

# Each of these runs in a transaction that is rolled back. A statement that changes a row reads it first.
CHANGES = (
    Pattern("UPDATE by key", "UPDATE t SET plain = plain + 1 WHERE id = {m}", 0, 0, gets=2, conditions=0, locks=1, writes=1),
    Pattern("UPDATE by key, another index begins with its columns", "UPDATE account SET note = note + 1 WHERE quarter = 1 AND id = {m}", 0, 0, gets=2, conditions=0, estimate=0, locks=1, writes=1),
    Pattern("UPDATE by key, indexed", "UPDATE t SET k = k + 1 WHERE id = {m}", 0, 0, gets=2, conditions=0, locks=1, writes=7),
    Pattern("UPDATE of a range", "UPDATE t SET plain = plain + 1 WHERE id BETWEEN {m} AND {m} + 90", 5, 14, unpacked=12, locks=10, range_locks=12, writes=10),
    Pattern("UPDATE of a range of no row", "UPDATE t SET plain = 1 WHERE id > {m} AND id < {m} + 10", 2, 0, unpacked=0, range_locks=1),
    Pattern("UPDATE of a range, nothing passes", "UPDATE t SET plain = 1 WHERE id BETWEEN {m} AND {m} + 90 AND plain > 100", 5, 14, locks=10, range_locks=12),
    Pattern("UPDATE ordered by an index, LIMIT", "UPDATE t SET plain = plain + 1 WHERE k >= {m} ORDER BY k LIMIT 1", 5, 4, gets=4, estimate=210, locks=2, range_locks=4, writes=1),
    Pattern("UPDATE of the last row by an index, LIMIT", "UPDATE t SET plain = plain + 1 WHERE k <= {m} ORDER BY k DESC LIMIT 1", 5, 4, gets=4, estimate=210, locks=2, range_locks=4, writes=1),
    Pattern("DELETE ordered by an index, LIMIT", "DELETE FROM t WHERE k >= {m} ORDER BY k LIMIT 1", 5, 4, gets=4, estimate=210, locks=2, range_locks=4, writes=9),
    Pattern("DELETE by key", "DELETE FROM t WHERE id = {m}", 0, 0, gets=2, conditions=0, locks=1, writes=9),
    Pattern("DELETE of a range", "DELETE FROM t WHERE id BETWEEN {m} AND {m} + 90", 5, 14, unpacked=12, locks=10, range_locks=12, writes=90),
    Pattern("DELETE of a range of no row", "DELETE FROM t WHERE id > {m} AND id < {m} + 10", 2, 0, unpacked=0, range_locks=1),
    Pattern("INSERT, no index", "INSERT INTO w0 VALUES ({m} + 1, 1, 1, 1, 1)", 0, 0, gets=2, locks=1, writes=1),
    Pattern("INSERT, one index", "INSERT INTO w1 VALUES ({m} + 1, 1, 1, 1, 1)", 0, 0, gets=2, locks=1, writes=2),
    Pattern("INSERT, two indexes", "INSERT INTO w2 VALUES ({m} + 1, 1, 1, 1, 1)", 0, 0, gets=2, locks=1, writes=3),
    Pattern("INSERT, four indexes", "INSERT INTO w4 VALUES ({m} + 1, 1, 1, 1, 1)", 0, 0, gets=2, locks=1, writes=5),
    Pattern("INSERT, unique index", "INSERT INTO wu VALUES ({m} + 1, 1, 1, 1, 1)", 1, 0, gets=2, locks=2, writes=2),
    Pattern("INSERT of five rows", "INSERT INTO w1 VALUES ({m}+1,1,1,1,1),({m}+2,1,1,1,1),({m}+3,1,1,1,1),({m}+4,1,1,1,1),({m}+5,1,1,1,1)", 0, 0, gets=10, locks=5, writes=10),
    Pattern("INSERT ... SELECT of a range", "INSERT INTO w1 SELECT {m} * 3 + id, 1, 1, 1, 1 FROM t WHERE id BETWEEN {m} AND {m} + 90", 3, 12, gets=10, locks=20, range_locks=12, writes=20),
    Pattern("INSERT of fifty rows behind the last", "INSERT INTO w1 SELECT {m} * 3 + seq, 1, 1, 1, 1 FROM seq_1_to_50", 1, 0, gets=10, locks=50, writes=100),
    Pattern("REPLACE", "REPLACE INTO w1 VALUES ({m}, 1, 1, 1, 1)", 0, 0, gets=5, locks=4, writes=4),
    Pattern("ON DUPLICATE KEY UPDATE", "INSERT INTO w1 VALUES ({m}, 1, 1, 1, 1) ON DUPLICATE KEY UPDATE b = b + 1", 0, 0, gets=5, locks=3, writes=1),
)  # fmt: skip
