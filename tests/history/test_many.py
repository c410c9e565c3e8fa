"""Goal:   many tables and many clones are nothing special: a restart, a restore from the bucket, lists and the end of
        a clone take a time that is bounded, and nothing is lost.
Method: 500 tables, a kill, a start from the local directory and one from the bucket. 25 clones of one database;
        its tables are dropped, and clones are opened afterwards. MANY=4 makes four times as many.
"""

from __future__ import annotations

import os
import time

import pytest
from conftest import Lab, MakeServer, server_maker
from harness.atollctl import atollctl
from harness.server import Server

MANY = int(os.environ.get("MANY", "1"))
TABLES, CLONES = 500 * MANY, 25 * MANY
# Far above what any machine needs; it only ends a start that takes time in the square of the tables.
START_WITHIN_S = 120 * MANY


@pytest.fixture
def make_server(lab: Lab) -> MakeServer:
    return server_maker(lab, "file", atoll_durability="async")


def seconds_of(action) -> float:
    begin = time.monotonic()
    action()
    return time.monotonic() - begin


def rows_in_all(server: Server) -> int:
    tables = [name for (name,) in server.run("SHOW TABLES FROM many")]
    assert len(tables) == TABLES
    return sum(
        server.value(f"SELECT COUNT(*) FROM many.{name} WHERE a = {name[1:]}") for name in tables[::20]
    )


def test_a_server_with_many_tables_starts_again(make_server: MakeServer) -> None:
    server = make_server("server").start()
    server.run("CREATE DATABASE many")
    for first in range(0, TABLES, 100):
        names = [f"many.t{number}" for number in range(first, first + 100)]
        server.run(
            *(f"CREATE TABLE {name} (a INT PRIMARY KEY, b INT, KEY (b)) ENGINE=ATOLL" for name in names),
            *(f"INSERT INTO {name} VALUES ({name[6:]}, 1)" for name in names),
        )
    server.kill()
    assert seconds_of(server.start) < START_WITHIN_S
    assert rows_in_all(server) == TABLES // 20
    server.stop()
    server.wipe()
    assert seconds_of(server.start) < START_WITHIN_S, "a restore of many small tables is slow"
    assert rows_in_all(server) == TABLES // 20
    assert server.value("SELECT COUNT(*) FROM information_schema.atoll_tables") == TABLES
    server.run("DROP DATABASE many")
    assert server.value("SELECT COUNT(*) FROM information_schema.atoll_tables") == 0


def test_a_database_with_many_clones(make_server: MakeServer) -> None:
    parent = make_server("parent").start()
    parent.run(
        "CREATE DATABASE shop",
        "CREATE TABLE shop.t (id INT PRIMARY KEY, text VARCHAR(50)) ENGINE=ATOLL",
        "INSERT INTO shop.t SELECT seq, MD5(seq) FROM mysql.seq_1_to_1000",
    )
    children = [make_server(f"child{number}") for number in range(CLONES)]
    for number, child in enumerate(children):
        parent.run(f"UPDATE shop.t SET text = '{number}' WHERE id = 1")
        parent.run(f"SELECT ATOLL_SNAPSHOT('{number}')", f"SELECT ATOLL_DROP_SNAPSHOT('{number}')")
        made = atollctl(parent, "clone", behind=(str(child.options["atoll_url"]),))
        assert made.returncode == 0, made.stdout + made.stderr
    count = "SELECT COUNT(*) FROM information_schema.atoll_snapshots WHERE kind = 'clone'"
    assert parent.value(count) == CLONES
    parent.run("DROP TABLE shop.t")
    assert seconds_of(parent.restart) < START_WITHIN_S
    assert parent.value(count) == CLONES
    for number in (0, CLONES // 2, CLONES - 1):
        child = children[number].start()
        assert child.value("SELECT text FROM shop.t WHERE id = 1") == str(number)
        assert child.value("SELECT COUNT(*) FROM shop.t") == 1000
        child.stop()
