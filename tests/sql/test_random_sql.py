"""Goal:   the same SQL has the same results with ATOLL and with InnoDB, for all types, indexes and DDL, and
        over restarts and kills.
Method: seeded rounds of random tables and statements with both engines in one server. Every answer is
        compared; from time to time also all rows, all definitions and CHECK TABLE EXTENDED
        (tests/harness/random_sql/rounds.py).

ATOLL_RANDOM_MINUTES sets the duration; with 0 only the tests of the comparator run. ATOLL_RANDOM_SEED sets
another seed. By default every run has the same seed, so that a new failure comes from the change under test.
`make random` tries new seeds.
"""

from __future__ import annotations

import os

import pytest
from harness.random_sql.compare import Answer, Difference, Pair, Stop
from harness.random_sql.dml import Step
from harness.random_sql.rounds import new_server, replay, run_rounds

MINUTES = float(os.environ.get("ATOLL_RANDOM_MINUTES", "4"))
SEED = int(os.environ.get("ATOLL_RANDOM_SEED", "9102"))
CREATE = Step("CREATE TABLE t (a INT PRIMARY KEY, b INT, KEY b (b)) ENGINE={E}{C}")
# Inserts the length of the engine's name, so the two engines get different rows.
UNEQUAL = Step("INSERT INTO t VALUES (1, LENGTH('{E}'))")


@pytest.fixture
def pair():
    """A pair of databases, one for each engine, in a new server."""
    made = Pair(new_server().start())
    yield made
    made.close()
    made.server.destroy()


@pytest.mark.skipif(MINUTES == 0, reason="ATOLL_RANDOM_MINUTES is 0")
def test_random_sql_says_the_same_on_both_engines():
    print(f"seed {SEED}, {MINUTES} minutes")
    result = run_rounds(SEED, MINUTES)
    print(f"{result.rounds} rounds, {result.steps} steps; ended early: {dict(result.stopped)}")
    assert not result.failures, "\n\n".join(map(str, result.failures))
    assert result.steps > 100, "too few steps to prove anything"


def test_comparator_sees_what_differs(pair):
    insert = Step("INSERT INTO t VALUES (1, 1), (2, 2)")
    scripts = {
        "rows SELECT": [CREATE, UNEQUAL, Step("SELECT b FROM t")],
        "counts INSERT": [CREATE, insert, Step("INSERT IGNORE INTO t VALUES (LENGTH('{E}') - 5, 1)")],
        "error 0 1062": [CREATE, insert, Step("INSERT INTO t VALUES (LENGTH('{E}') DIV 6 + 2, 1)")],
        "definition": [CREATE, Step("ALTER TABLE t COMMENT='{E}.'"), Step("", action="verify")],
        "tables": [Step("CREATE TABLE t_{E} (a INT) ENGINE={E}"), Step("", action="verify")],
    }
    found = {kind: replay(pair, script) for kind, script in scripts.items()}
    kinds = {kind: difference and difference[1].kind for kind, difference in found.items()}
    assert kinds == {kind: kind for kind in found}


def test_a_table_that_stands_on_one_engine_in_both_databases_is_seen(pair):
    found = replay(pair, [CREATE, Step("ALTER TABLE t ENGINE=ATOLL"), Step("", action="verify")])
    assert found and found[1].kind == "engines", found


def test_keys_that_create_puts_in_another_order_on_both_engines_make_no_difference(pair):
    found = replay(pair, [
        Step("CREATE TABLE t (a INT PRIMARY KEY, b INT NOT NULL, UNIQUE KEY b (b), UNIQUE KEY a (a)) ENGINE={E}{C}"),
        Step("ALTER TABLE t MODIFY b INT NULL"),
        Step("", action="verify"),
    ])  # fmt: skip
    assert found is None, found


def test_innodb_that_contradicts_itself_is_not_believed(pair):
    """InnoDB's MRR with an index on a virtual column counts wrongly. A copy of its rows without indexes gives
    ATOLL's answer."""
    found = replay(pair, [
        Step("CREATE TABLE t (a INT PRIMARY KEY, b INT, v INT AS (b + 1) VIRTUAL, KEY v (v)) ENGINE={E}"),
        Step("INSERT INTO t (a, b) SELECT seq, seq % 10 FROM seq_1_to_40"),
        Step("SET optimizer_switch = 'mrr=on,mrr_cost_based=off,mrr_sort_keys=on'"),
        Step("SELECT COUNT(*), COUNT(b) FROM t FORCE INDEX (v) WHERE v <> 5"),
    ])  # fmt: skip
    assert found is None, found


def test_a_clean_script_survives_restart_and_kill(pair):
    insert = Step("INSERT INTO t VALUES (1, 1), (2, 2), (3, NULL)")
    ends = [Step("", action=action) for action in ("restart", "verify", "kill", "verify")]
    found = replay(pair, [CREATE, insert, *ends, Step("SELECT * FROM t ORDER BY a", ordered=True)])
    assert found is None, found


def test_damage_is_laid_to_the_engine_the_table_stands_on(pair):
    """ALTER TABLE … ENGINE exchanges the engines of the two tables for a while."""
    swapped = [CREATE, Step("ALTER TABLE t ENGINE={X}"), Step("", action="verify")]
    assert replay(pair, swapped) is None
    fine = Answer(rows=[("t", "check", "status", "OK")], names=("",))
    damaged = Answer(rows=[("t", "check", "error", "Corrupt")], names=("",))
    with pytest.raises(Difference):
        pair.healthy(Step("CHECK TABLE t"), inno=damaged, atoll=fine)
    with pytest.raises(Stop):
        pair.healthy(Step("CHECK TABLE t"), inno=fine, atoll=damaged)
