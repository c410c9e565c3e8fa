"""Goal:   a table changes servers with all its rows and nothing else, no table file is copied, and exactly one
        server has it whatever dies when.
Method: two databases in one bucket (a directory and an S3 server), each with a server of its own.
"""

from __future__ import annotations

import contextlib
import os
import random
import threading
import time
from collections.abc import Iterator

import pymysql
import pytest
from conftest import only_in_test_bucket, server_maker
from harness.atollctl import atollctl
from harness.digest import Digest, database_digests, table_digest
from harness.process import wait_until
from harness.server import Server

SEED = int(os.environ.get("ATOLL_HAND_OVER_SEED", str(random.randrange(1 << 30))))
ROUNDS = int(os.environ.get("ATOLL_HAND_OVER_ROUNDS", "8"))
SETTLED_WITHIN_S = 60
ROWS = 20_000


class Pair:
    """Two writers, each with a database of its own."""

    def __init__(self, lab, kind: str):
        make = server_maker(lab, kind, atoll_durability="sync")
        self.giver, self.taker = make("giver"), make("taker")

    def start(self) -> Pair:
        for server in (self.giver, self.taker):
            server.start()
            server.run("CREATE DATABASE shop")
        return self

    def move(self, table: str = "t", name: str = "") -> None:
        give_to(self.giver, self.taker, table, name or table)

    def wait_settled(self, server: Server) -> None:
        """Waits until the server's catalog has no table of an unfinished hand-over."""
        wait_until(lambda: not hidden(server), SETTLED_WITHIN_S, "the hand-over to be settled")


def url(server: Server) -> str:
    return str(server.options["atoll_url"])


def give_to(giver: Server, taker: Server, table: str, name: str) -> None:
    id_ = giver.value(f"SELECT ATOLL_HAND_OVER('shop.{table}')")
    taker.run(f"SELECT ATOLL_TAKE('{url(giver)}', '{id_}', 'shop.{name}')")


def hidden(server: Server) -> list[tuple]:
    """The tables under the internal names of hand-overs."""
    found = server.run("SELECT table_name FROM information_schema.atoll_tables")
    return [name for (name,) in found if "#sqlh-" in name or "#sqlt-" in name]


def tables(server: Server) -> list[str]:
    return [name for (name,) in server.run("SHOW TABLES FROM shop")]


def make_table(server: Server, name: str = "t", more: str = "") -> Digest:
    server.run(
        f"CREATE TABLE shop.{name} (id INT AUTO_INCREMENT PRIMARY KEY, k INT, body VARCHAR(200), KEY (k)) "
        f"ENGINE=ATOLL {more}",
        f"INSERT INTO shop.{name} (k, body) SELECT seq % 17, MD5(seq) FROM mysql.seq_1_to_{ROWS}",
        f"DELETE FROM shop.{name} WHERE id % 7 = 0",
    )
    return table_digest(server, "shop", name)


def check(server: Server, name: str = "t") -> None:
    verdict = server.run(f"CHECK TABLE shop.{name} EXTENDED")
    assert verdict[-1][-1] == "OK", verdict


@pytest.fixture(params=["file", pytest.param("versitygw", marks=only_in_test_bucket)])
def pair(lab, request) -> Iterator[Pair]:
    yield Pair(lab, request.param)


@pytest.mark.parametrize(
    "more",
    ["COMPRESSION=zstd", "", "PARTITION BY HASH (id) PARTITIONS 3"],
    ids=["own family", "small", "partitions"],
)
def test_a_table_moves_with_all_that_it_has(pair: Pair, more: str) -> None:
    pair.start()
    make_table(pair.giver, more=more)
    pair.giver.run("ALTER TABLE shop.t ADD COLUMN late INT DEFAULT 5", "ANALYZE TABLE shop.t")
    before = table_digest(pair.giver, "shop", "t")
    definition = pair.giver.run("SHOW CREATE TABLE shop.t")[0][1]
    counter = pair.giver.value("SELECT auto_increment FROM information_schema.tables WHERE table_name = 't'")
    pair.move(name="u")
    assert tables(pair.giver) == [] and tables(pair.taker) == ["u"]
    assert table_digest(pair.taker, "shop", "u") == before
    assert pair.taker.run("SHOW CREATE TABLE shop.u")[0][1] == definition.replace("TABLE `t`", "TABLE `u`")
    pair.taker.run("INSERT INTO shop.u (k) VALUES (99)")
    assert pair.taker.value("SELECT id FROM shop.u WHERE k = 99") == counter
    check(pair.taker, "u")
    pair.wait_settled(pair.giver)
    with pytest.raises(pymysql.Error):
        pair.giver.run("SELECT * FROM shop.t")
    # Both go on, lose their disks, and go on again.
    make_table(pair.giver, "t")
    pair.giver.run("OPTIMIZE TABLE shop.t", "DROP TABLE shop.t")
    for server in (pair.giver, pair.taker):
        server.kill()
        server.wipe()
        server.start(atoll_take_over="ON")
    pair.taker.run("DELETE FROM shop.u WHERE k = 99")
    assert table_digest(pair.taker, "shop", "u") == before
    pair.taker.run("UPDATE shop.u SET k = k + 1", "ALTER TABLE shop.u FORCE")
    check(pair.taker, "u")
    assert atollctl(pair.taker, "verify", "--deep").returncode == 0


def test_a_partition_moves_as_a_table(pair: Pair) -> None:
    pair.start()
    ranges = "PARTITION p0 VALUES LESS THAN (5000), PARTITION p1 VALUES LESS THAN (30000)"
    before = make_table(pair.giver, more=f"PARTITION BY RANGE (id) ({ranges})")
    pair.giver.run("ALTER TABLE shop.t CONVERT PARTITION p1 TO TABLE shop.late")
    pair.move("late")
    pair.move("t")
    pair.taker.run("ALTER TABLE shop.t CONVERT TABLE shop.late TO PARTITION p1 VALUES LESS THAN (30000)")
    assert table_digest(pair.taker, "shop", "t") == before
    check(pair.taker)


def test_no_table_file_is_copied(pair: Pair) -> None:
    pair.start()
    make_table(pair.giver, more="COMPRESSION=zstd")
    pair.giver.run("OPTIMIZE TABLE shop.t")
    before = pair.taker.counter("Atoll_bytes_uploaded")
    pair.move()
    assert pair.taker.counter("Atoll_bytes_uploaded") - before < 200_000, (
        "the table's files have 500,000 bytes"
    )


def test_the_taker_becomes_independent(pair: Pair) -> None:
    pair.start()
    before = make_table(pair.giver, more="COMPRESSION=zstd")
    pair.move()
    pair.wait_settled(pair.giver)
    pair.taker.stop()
    done = atollctl(pair.taker, "materialize", "--yes")
    assert done.returncode == 0, done.stderr
    pair.giver.run("DROP DATABASE shop")
    pair.giver.stop()
    gone = atollctl(pair.giver, "drop", "--yes")
    assert gone.returncode == 0, gone.stderr
    pair.taker.start()
    assert table_digest(pair.taker, "shop", "t") == before
    check(pair.taker)


def test_a_table_comes_back(pair: Pair) -> None:
    pair.start()
    before = make_table(pair.giver)
    id_ = pair.giver.value("SELECT ATOLL_HAND_OVER('shop.t')")
    assert tables(pair.giver) == []
    pair.giver.run(f"SELECT ATOLL_TAKE_BACK('{id_}')")
    assert table_digest(pair.giver, "shop", "t") == before
    with pytest.raises(pymysql.Error, match="taken back|NotFound|no such|does not exist|not found"):
        pair.taker.run(f"SELECT ATOLL_TAKE('{url(pair.giver)}', '{id_}', 'shop.t')")
    assert tables(pair.taker) == [] == hidden(pair.taker)


def test_a_table_goes_on_when_its_files_are_its_own(pair: Pair) -> None:
    pair.start()
    before = make_table(pair.giver, more="COMPRESSION=zstd")
    pair.move()
    pair.wait_settled(pair.giver)
    id_ = pair.taker.value("SELECT ATOLL_HAND_OVER('shop.t')")
    with pytest.raises(pymysql.Error, match="another database"):
        pair.giver.run(f"SELECT ATOLL_TAKE('{url(pair.taker)}', '{id_}', 'shop.t')")
    pair.taker.run(f"SELECT ATOLL_TAKE_BACK('{id_}')", "OPTIMIZE TABLE shop.t")
    give_to(pair.taker, pair.giver, "t", "back")
    assert table_digest(pair.giver, "shop", "back") == before
    check(pair.giver, "back")
    pair.wait_settled(pair.taker)
    assert tables(pair.taker) == []


def test_what_is_refused(pair: Pair) -> None:
    pair.start()
    giver, taker = pair.giver, pair.taker
    make_table(giver)
    giver.run(
        "CREATE TABLE shop.parent (id INT PRIMARY KEY) ENGINE=ATOLL",
        "CREATE TABLE shop.child (id INT PRIMARY KEY, p INT, FOREIGN KEY (p) REFERENCES shop.parent (id)) ENGINE=ATOLL",
        "CREATE TABLE shop.other (id INT PRIMARY KEY) ENGINE=InnoDB",
        "CREATE TABLE shop.guarded (id INT PRIMARY KEY) ENGINE=ATOLL",
        "CREATE TRIGGER shop.g BEFORE INSERT ON shop.guarded FOR EACH ROW SET NEW.id = NEW.id + 1",
    )
    for name in ("parent", "child", "other", "guarded", "absent"):
        with pytest.raises(pymysql.Error, match="ATOLL"):
            giver.run(f"SELECT ATOLL_HAND_OVER('shop.{name}')")
    for statement in (
        "SELECT ATOLL_HAND_OVER(NULL)",
        "SELECT ATOLL_HAND_OVER('a.b.c')",
        "SELECT ATOLL_TAKE_BACK('nothing')",
        f"SELECT ATOLL_TAKE('{url(giver)}', '../../x', 'shop.n')",
        f"SELECT ATOLL_TAKE('{url(giver)}', '0123-abc', 'shop.n')",
        "SELECT ATOLL_TAKE('s3://another-bucket/x', '0123-abc', 'shop.n')",
        f"SELECT ATOLL_TAKE('{url(taker)}', '0123-abc', 'shop.n')",
        f"SELECT ATOLL_TAKE('{url(giver)}', '0123-abc', 'nowhere.n')",
    ):
        with pytest.raises(pymysql.Error):
            taker.run(statement)
    held = giver.connect("shop", autocommit=False)
    with held.cursor() as cursor:
        cursor.execute("SELECT COUNT(*) FROM t")
        with pytest.raises(pymysql.Error, match="timeout|Lock wait"):
            giver.run("SET lock_wait_timeout = 1", "SELECT ATOLL_HAND_OVER('shop.t')")
    held.close()
    id_ = giver.value("SELECT ATOLL_HAND_OVER('shop.t')")
    taker.run("CREATE TABLE shop.t (id INT) ENGINE=InnoDB")
    with pytest.raises(pymysql.Error, match="already"):
        taker.run(f"SELECT ATOLL_TAKE('{url(giver)}', '{id_}', 'shop.t')")
    taker.run("DROP TABLE shop.t", f"SELECT ATOLL_TAKE('{url(giver)}', '{id_}', 'shop.t')")
    with pytest.raises(pymysql.Error, match="belongs to|no table"):
        giver.run(f"SELECT ATOLL_TAKE_BACK('{id_}')")
    with pytest.raises(pymysql.Error, match="already"):
        taker.run(f"SELECT ATOLL_TAKE('{url(giver)}', '{id_}', 'shop.twice')")
    # The table of an open hand-over goes with its schema; then nobody can take it.
    giver.run("CREATE DATABASE brief", "CREATE TABLE brief.t (id INT PRIMARY KEY) ENGINE=ATOLL")
    id_ = giver.value("SELECT ATOLL_HAND_OVER('brief.t')")
    giver.run("DROP DATABASE brief", f"SELECT ATOLL_TAKE_BACK('{id_}')")
    with pytest.raises(pymysql.Error):
        taker.run(f"SELECT ATOLL_TAKE('{url(giver)}', '{id_}', 'shop.brief')")


@pytest.mark.parametrize("kind", ["file", "versitygw"])
def test_exactly_one_server_has_the_table_whatever_dies(lab, kind: str) -> None:
    """Rounds of hand-overs in which one server, or both, are killed at a random time."""
    pair = Pair(lab, kind)
    print(f"seed {SEED}, {ROUNDS} rounds")
    dice = random.Random(SEED)
    pair.start()
    expected = {f"t{number}": make_table(pair.giver, f"t{number}") for number in range(ROUNDS)}
    for number in range(ROUNDS):
        one_round(pair, dice, f"t{number}")
        found = [database_digests(server, "shop") for server in (pair.giver, pair.taker)]
        assert not set(found[0]) & set(found[1]), f"round {number}: both have {set(found[0]) & set(found[1])}"
        assert found[0] | found[1] == expected, f"round {number}: {found}"
    for server in (pair.giver, pair.taker):
        for name in tables(server):
            check(server, name)
        assert atollctl(server, "verify", "--deep").returncode == 0


def one_round(pair: Pair, dice: random.Random, name: str) -> None:
    givers = {"id": ""}

    def move() -> None:
        with contextlib.suppress(pymysql.Error, OSError):
            givers["id"] = pair.giver.value(f"SELECT ATOLL_HAND_OVER('shop.{name}')")
            if dice.random() < 0.2:
                pair.giver.run(f"SELECT ATOLL_TAKE_BACK('{givers['id']}')")
            pair.taker.run(f"SELECT ATOLL_TAKE('{url(pair.giver)}', '{givers['id']}', 'shop.{name}')")

    thread = threading.Thread(target=move)
    thread.start()
    time.sleep(dice.uniform(0, 0.8))
    victims = dice.choice([[pair.giver], [pair.taker], [pair.giver, pair.taker]])
    for victim in victims:
        victim.kill()
    thread.join()
    for victim in victims:
        if dice.random() < 0.5:
            victim.wipe()
            victim.start(atoll_take_over="ON")
            # A database without tables is in the bucket only after a background task has noted it.
            victim.run("CREATE DATABASE IF NOT EXISTS shop")
        else:
            victim.start()
    # The taker finds out by itself. What nobody has decided, the giver takes back.
    pair.wait_settled(pair.taker)
    if givers["id"] and hidden(pair.giver):
        with contextlib.suppress(pymysql.Error):
            pair.giver.run(f"SELECT ATOLL_TAKE_BACK('{givers['id']}')")
    if not givers["id"]:
        take_back_unknown(pair.giver)
    pair.wait_settled(pair.giver)


def take_back_unknown(giver: Server) -> None:
    """The statement that handed the table over was killed, so its id is only in the internal name."""
    for name in hidden(giver):
        with contextlib.suppress(pymysql.Error):  # settled meanwhile
            giver.run(f"SELECT ATOLL_TAKE_BACK('{str(name).split('#sqlh-')[-1].split('#')[0]}')")
