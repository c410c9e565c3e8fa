"""Goal:   `atollctl diff --rows` counts exactly the rows that differ between two states, even if tables were
        flushed, compacted, moved, rebuilt or renamed in between. It reads only keys of files that differ, and
        leaves no files behind.
Method: real servers with a directory and with an S3 server; random changes are made to a table and to a model
        of its rows. Seeds are printed.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
from pathlib import Path

import pytest
from conftest import server_maker
from harness import paths
from harness.atollctl import atollctl
from harness.process import wait_until
from harness.server import Server

HISTORY = {"atoll_durability": "sync", "atoll_history_retention": 3600}
KEYS = 3000
ROUNDS = 6
Counts = tuple[int, int, int]
Rows = dict[int, tuple[int, str]]


@pytest.fixture(params=["file", "versitygw"])
def server(lab, request) -> Server:
    server = server_maker(lab, request.param, **HISTORY)("server").start()
    server.run("CREATE DATABASE shop")
    return server


def differing(server: Server, first: str, second: str = "now") -> dict[str, dict]:
    ran = atollctl(server, "--json", "diff", "--rows", behind=(first, second))
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return {row["name"]: row for row in json.loads(ran.stdout)["rows"]}


def counts(row: dict) -> Counts:
    return row["inserted"], row["changed"], row["deleted"]


def expected(before: Rows, after: Rows) -> Counts:
    changed = sum(1 for key, row in after.items() if key in before and before[key] != row)
    return len(after.keys() - before.keys()), changed, len(before.keys() - after.keys())


def change(server: Server, rows: Rows, chance: random.Random) -> Rows:
    """Inserts, deletes and changes random rows, changes some back, and may rewrite the table. Returns the new
    rows."""
    rows = dict(rows)
    statements = []
    for _ in range(chance.randint(1, 40)):
        key, number = chance.randint(1, KEYS), chance.randint(0, 9)
        kind = chance.random()
        if kind < 0.4:
            rows[key] = (number, f"text {number}")
            statements.append(f"REPLACE INTO shop.t VALUES ({key}, {number}, 'text {number}')")
        elif kind < 0.7:
            first, last = key, key + chance.choice([0, 5, 300])
            for hit in [hit for hit in rows if first <= hit <= last]:
                del rows[hit]
            statements.append(f"DELETE FROM shop.t WHERE id BETWEEN {first} AND {last}")
        elif kind < 0.9 and key in rows:
            rows[key] = (rows[key][0] + 1, rows[key][1])
            statements.append(f"UPDATE shop.t SET a = a + 1 WHERE id = {key}")
        else:
            statements += [f"UPDATE shop.t SET a = a + {by} WHERE id = {key}" for by in (1, -1)]
    statements += chance.sample(
        ["FLUSH TABLES", "OPTIMIZE TABLE shop.t", "ALTER TABLE shop.t ENGINE=ATOLL, FORCE", "DO 0", "DO 0"], 1
    )
    server.run(*statements)
    return rows


@pytest.mark.parametrize("seed", [int(os.environ.get("SEED", random.randrange(1_000_000)))])
def test_random_changes_are_counted_as_a_model_counts_them(server: Server, seed: int) -> None:
    print("SEED", seed)
    chance = random.Random(seed)
    server.run(
        "CREATE TABLE shop.t (id INT PRIMARY KEY, a INT, b VARCHAR(40), KEY (a), UNIQUE (b, id)) ENGINE=ATOLL",
        f"INSERT INTO shop.t SELECT seq * 2, seq, 'start' FROM mysql.seq_1_to_{KEYS // 4}",
    )
    rows: Rows = {number * 2: (number, "start") for number in range(1, KEYS // 4 + 1)}
    states = []
    for round_ in range(ROUNDS):
        server.run(f"SELECT ATOLL_SNAPSHOT('s{round_}')")
        states.append((f"s{round_}", rows))
        rows = change(server, rows, chance)
    states.append(("now", rows))
    for index, (first, before) in enumerate(states):
        for second, after in (states[-1], states[(index + 1) % len(states)]):
            found = differing(server, first, second).get("shop.t")
            wanted = expected(before, after)
            context = f"seed {seed}: {first} to {second}: {found}"
            assert wanted == (counts(found) if found else (0, 0, 0)), context
    listed = atollctl(server, "--json", "snapshot", "list").stdout
    assert not [row for row in json.loads(listed) if row["kind"] == "copy"], listed


def test_what_happened_to_tables_is_told_beside_their_rows(server: Server) -> None:
    huge = "REPEAT('x', 6 * 1024 * 1024)"
    server.run(
        "CREATE TABLE shop.kept (id INT PRIMARY KEY, b LONGTEXT) ENGINE=ATOLL",
        f"INSERT INTO shop.kept VALUES (1, 'same'), (2, {huge}), (3, {huge})",
        *[
            f"CREATE TABLE shop.{name} LIKE shop.kept"
            for name in ("gone", "old", "emptied", "rebuilt", "altered", "moved")
        ],
        *[
            f"INSERT INTO shop.{name} VALUES (1, 'one'), (2, 'two')"
            for name in ("gone", "old", "emptied", "rebuilt", "altered", "moved")
        ],
        "CREATE TABLE shop.parts (id INT PRIMARY KEY, b INT) ENGINE=ATOLL PARTITION BY HASH (id) PARTITIONS 2",
        "INSERT INTO shop.parts VALUES (1, 1), (2, 2), (3, 3)",
        "CREATE TABLE shop.`büro-2` (a INT) ENGINE=ATOLL",
        "SELECT ATOLL_SNAPSHOT('before')",
        f"UPDATE shop.kept SET b = CONCAT({huge}, 'y') WHERE id = 3",
        "DROP TABLE shop.gone",
        "RENAME TABLE shop.old TO shop.new",
        "TRUNCATE TABLE shop.emptied",
        "ALTER TABLE shop.rebuilt FORCE, ALGORITHM=COPY",
        # The statement by which the server itself moves a table that has outgrown the shared column family.
        "ALTER TABLE shop.moved FORCE, ALGORITHM=INPLACE",
        "ALTER TABLE shop.altered ADD COLUMN c INT DEFAULT 7, ALGORITHM=INSTANT",
        "CREATE TABLE shop.added (id INT PRIMARY KEY) ENGINE=ATOLL",
        "INSERT INTO shop.added VALUES (5), (6)",
        "DELETE FROM shop.parts WHERE id = 2",
        "INSERT INTO shop.`büro-2` VALUES (1), (2)",
        "SELECT ATOLL_SNAPSHOT('after')",
    )
    found = differing(server, "before", "after")
    told = {name: (row["change"], counts(row)) for name, row in found.items()}
    buro = next(name for name in told if name.endswith("ro-2"))
    assert told.pop(buro) == ("changed", (2, 0, 0))
    part = next(name for name in told if name.startswith("shop.parts#P#"))
    assert told.pop(part) == ("changed", (0, 0, 1))
    gone = next(name for name in told if name.startswith("shop.gone"))
    assert told.pop(gone) == ("dropped", (0, 0, 2))
    assert told == {
        "shop.kept": ("changed", (0, 1, 0)),
        "shop.new": ("renamed", (0, 0, 0)),
        "shop.emptied": ("changed", (0, 0, 2)),
        "shop.rebuilt": ("rebuilt", (0, 0, 0)),
        "shop.altered": ("altered", (0, 0, 0)),
        "shop.added": ("added", (2, 0, 0)),
    }
    assert found["shop.new"]["former_name"] == "shop.old"
    back = differing(server, "after", "before")
    assert (back["shop.old"]["change"], back["shop.old"]["former_name"]) == ("renamed", "shop.new")
    assert counts(back["shop.gone"]) == (2, 0, 0) and counts(back["shop.kept"]) == (0, 1, 0)
    shown = atollctl(server, "diff", "--rows", behind=("before", "after")).stdout
    assert "shop.new (was shop.old)" in shown and "inserted" in shown
    assert differing(server, "after", "after") == {}
    assert "both have the same rows" in atollctl(server, "diff", "--rows", behind=("after", "after")).stdout


def test_few_changes_of_a_large_table_read_few_keys(server: Server) -> None:
    """The cost contract: the number of keys read depends on the files that differ, not on the size of the
    table."""
    server.run(
        "CREATE TABLE shop.t (id INT PRIMARY KEY, b VARCHAR(100)) ENGINE=ATOLL COMPRESSION=lz4",
        "INSERT INTO shop.t SELECT seq, MD5(seq) FROM mysql.seq_1_to_100000",
        "OPTIMIZE TABLE shop.t",
        "SELECT ATOLL_SNAPSHOT('before')",
        "UPDATE shop.t SET b = 'new' WHERE id IN (1, 50000, 100000)",
        "DELETE FROM shop.t WHERE id = 7",
    )
    row = differing(server, "before")["shop.t"]
    assert counts(row) == (0, 3, 1)
    assert row["keys_read"] == 4, row


def test_bad_states_and_an_interrupt_leave_nothing(lab) -> None:
    server = server_maker(lab, "file", **HISTORY)("server").start()
    server.run(
        "CREATE DATABASE shop",
        "CREATE TABLE shop.t (id INT PRIMARY KEY, b VARCHAR(100)) ENGINE=ATOLL",
        "INSERT INTO shop.t SELECT seq, MD5(seq) FROM mysql.seq_1_to_300000",
        "SELECT ATOLL_SNAPSHOT('before')",
        "ALTER TABLE shop.t ENGINE=ATOLL, FORCE",
    )
    url = str(server.options["atoll_url"])
    bucket = Path(url.removeprefix("file://"))
    scratch = lab.home / "scratch"
    scratch.mkdir()

    def pins() -> list[str]:
        return [path.name for path in (bucket / "pin").glob("copy-*")]

    refused = atollctl(server, "diff", "--rows", behind=("2999-01-01", "now"))
    assert refused.returncode == 2 and "in the future" in refused.stderr, refused.stderr
    rows = str(paths.program("atollctl-rows"))
    taken = subprocess.run(
        [rows, "diff", url, str(scratch), "before", "now"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert taken.returncode == 1 and "File exists" in taken.stderr and scratch.is_dir(), taken.stderr

    from_atollctl = [
        str(paths.program("atollctl")),
        "diff",
        url,
        "before",
        "now",
        "--rows",
        "--scratch",
        str(scratch),
    ]
    alone = [rows, "diff", url, str(scratch / "rows"), "before", "now"]
    for command, signal_sent in (
        (alone, signal.SIGTERM),
        (alone, signal.SIGINT),
        (from_atollctl, signal.SIGKILL),
    ):
        with subprocess.Popen(
            command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
        ) as program:
            wait_until(pins, 30, "a state is pinned", interval_s=0.001)
            program.send_signal(signal_sent)
            assert program.wait(120) != 0
            if command is alone:
                said = program.stderr.read()  # by the part that was at work
                assert "killed" in said or "interrupted" in said, said
        # The program that atollctl has started ends with atollctl.
        wait_until(
            lambda: pins() == [] and list(scratch.iterdir()) == [], 30, f"nothing is left: {signal_sent}"
        )
