"""Goal:   a table of the past comes back as a clone of a mounted table, without a copy of its rows: with its rows,
        definition, partitions and indexes of that time, whatever happened to the table and its files since.
        It then lives like any other table.
Method: real servers with a directory and with an S3 server. Sums are noted at a moment and compared with those
        of the clone: after rewrites, DROP, runs of the collector, kill -9, and a restore from the bucket alone.
"""

from __future__ import annotations

import contextlib
import random
import threading
import time

import pymysql
import pytest
from conftest import server_maker
from harness.atollctl import atollctl, moment_now, verify_and_start_again
from harness.process import wait_until
from harness.server import Server

ROWS = 20_000
ROUNDS = 4
TABLES = ("large", "parts", "small")
SUMS = "SELECT COUNT(*), COALESCE(SUM(a), 0), COALESCE(SUM(CRC32(text)), 0) FROM {}.{}"
BY_KEY = "SELECT COUNT(*), COALESCE(SUM(a), 0) FROM {}.{} FORCE INDEX (text) WHERE text > '5'"
COLLECTED_WITHIN_S = 150


@pytest.fixture(params=["file", "versitygw"])
def server(lab, request) -> Server:
    """A running server with a history and three tables: of one family, of partitions, of the shared family."""
    made = server_maker(lab, request.param, atoll_durability="async")("server").start()
    columns = "(a INT PRIMARY KEY AUTO_INCREMENT, text VARCHAR(100), KEY (text)) ENGINE=ATOLL"
    made.run(
        "SET GLOBAL atoll_history_retention = 3600",
        "CREATE DATABASE d",
        "CREATE DATABASE e",
        f"CREATE TABLE d.large {columns} COMPRESSION=lz4",
        f"CREATE TABLE d.parts {columns} COMPRESSION=lz4 PARTITION BY HASH (a) PARTITIONS 3",
        f"CREATE TABLE d.small {columns}",
        f"INSERT INTO d.large SELECT seq, CONCAT(MD5(seq), MD5(-seq)) FROM mysql.seq_1_to_{ROWS}",
        f"INSERT INTO d.parts SELECT seq, MD5(seq) FROM mysql.seq_1_to_{ROWS}",
        "INSERT INTO d.small SELECT seq, MD5(seq) FROM mysql.seq_1_to_300",
    )
    return made


def sums(server: Server, schema: str) -> list[tuple]:
    return [server.run(sql.format(schema, table))[0] for table in TABLES for sql in (SUMS, BY_KEY)]


def publish(server: Server) -> None:
    """Has a root published, because no moment between a CREATE TABLE and the next root can be mounted."""
    server.run("SELECT ATOLL_SNAPSHOT('published')", "SELECT ATOLL_DROP_SNAPSHOT('published')")


def spoil(server: Server) -> None:
    """Changes and rewrites all tables, so that the present has none of the former table files."""
    for table in TABLES:
        server.run(
            f"UPDATE d.{table} SET text = REVERSE(text) WHERE a % 2 = 0",
            f"DELETE FROM d.{table} WHERE a % 3 = 0",
            f"ALTER TABLE d.{table} ENGINE=ATOLL, FORCE",
        )
    server.run("DROP TABLE d.parts")


def bring_back(server: Server, moment: str) -> None:
    server.run(f"SELECT ATOLL_MOUNT('d', 'then', '{moment}')")
    for table in TABLES:
        server.run(f"SELECT ATOLL_CLONE_TABLE('then.{table}', 'e.{table}')")


def test_tables_of_the_past_come_back_and_stay(server: Server) -> None:
    # The newest rows are only in the log at that moment.
    server.run("SELECT ATOLL_SNAPSHOT('flushed')", "INSERT INTO d.large (text) VALUES ('at the end')")
    server.run("DELETE FROM d.large WHERE a BETWEEN 100 AND 200", "UPDATE d.parts SET text = 'z' WHERE a = 7")
    expected, moment = sums(server, "d"), moment_now(server)
    spoil(server)
    bring_back(server, moment)
    assert sums(server, "e") == expected == sums(server, "then")
    assert (
        server.value(
            "SELECT auto_increment FROM information_schema.tables WHERE table_schema = 'e' AND table_name = 'large'"
        )
        == ROWS + 2
    )
    # Nothing holds the files of that time any more but the clones.
    server.run(
        "SELECT ATOLL_UNMOUNT('then')",
        "SELECT ATOLL_DROP_SNAPSHOT('flushed')",
        "SET GLOBAL atoll_history_grace = 0",
        "SET GLOBAL atoll_history_retention = 0",
    )
    wait_until(
        lambda: not server.run("SELECT * FROM information_schema.atoll_snapshots"),
        COLLECTED_WITHIN_S,
        "pins are left",
    )
    verify_and_start_again(server)
    assert sums(server, "e") == expected
    for table in TABLES:
        assert server.run(f"CHECK TABLE e.{table} EXTENDED")[-1][-1] == "OK"
    server.run("INSERT INTO e.large (text) VALUES ('later')", "DELETE FROM e.large WHERE text = 'later'")
    server.stop()
    server.wipe()
    server.initialize().start()
    assert sums(server, "e") == expected, "after a restore from the bucket alone"
    server.run("DROP DATABASE d", "DROP DATABASE e")
    wait_until(
        lambda: server.counter("Atoll_files_bytes") < 100_000,
        COLLECTED_WITHIN_S,
        "files of dropped tables are left",
    )
    verify_and_start_again(server)


def test_no_table_file_is_copied(server: Server) -> None:
    server.run("OPTIMIZE TABLE d.large", "SELECT ATOLL_SNAPSHOT('s')")
    expected = server.run(SUMS.format("d", "large"))
    server.run("ALTER TABLE d.large ENGINE=ATOLL, FORCE", "SELECT ATOLL_SNAPSHOT('later')")
    server.run("SELECT ATOLL_MOUNT('d', 'then', 's')")
    uploaded = server.counter("Atoll_bytes_uploaded")
    server.run("SELECT ATOLL_CLONE_TABLE('then.large', 'e.large')")
    publish(server)
    assert server.run(SUMS.format("e", "large")) == expected
    # Only roots, the MANIFEST, the log and the few small files that a snapshot flushes are uploaded.
    assert server.counter("Atoll_bytes_uploaded") - uploaded < 150_000


def test_a_schema_of_the_past_comes_back_with_its_constraints(server: Server) -> None:
    server.run(
        "CREATE TABLE d.child (b INT PRIMARY KEY, a INT, FOREIGN KEY (a) REFERENCES d.large (a)) ENGINE=ATOLL"
    )
    publish(server)
    server.run("INSERT INTO d.child VALUES (1, 5)")
    expected, moment = sums(server, "d"), moment_now(server)
    server.run("DROP TABLE d.child")
    spoil(server)
    server.run(f"SELECT ATOLL_MOUNT('d', 'then', '{moment}')", "SELECT ATOLL_CLONE_DATABASE('then', 'e')")
    assert sums(server, "e") == expected
    with pytest.raises(pymysql.Error, match="foreign key constraint fails"):
        server.run("DELETE FROM e.large WHERE a = 5")
    verify_and_start_again(server)


def test_kills_leave_whole_tables_or_none(server: Server) -> None:
    seed = random.randrange(1 << 30)
    print(f"seed {seed}")
    dice = random.Random(seed)
    publish(server)
    expected, moment = sums(server, "d"), moment_now(server)
    spoil(server)
    for round_ in range(ROUNDS):
        server.run(f"SELECT ATOLL_MOUNT('d', 'then', '{moment}')")

        def clone(number: int = round_) -> None:
            with contextlib.suppress(pymysql.Error, OSError):  # the server was killed
                connection = server.connect()
                for count in range(10):
                    for table in TABLES:
                        connection.cursor().execute(
                            f"SELECT ATOLL_CLONE_TABLE('then.{table}', 'e.{table}_{number}_{count}')"
                        )

        thread = threading.Thread(target=clone)
        thread.start()
        time.sleep(dice.uniform(0, 1))
        server.kill()
        thread.join()
        server.start()
        made = [row[0] for row in server.run("SHOW TABLES FROM e")]
        for name in made:
            at = TABLES.index(name.split("_")[0]) * 2
            assert server.run(SUMS.format("e", name))[0] == expected[at], name
            assert server.run(BY_KEY.format("e", name))[0] == expected[at + 1], name
        print(f"round {round_}: {len(made)} clones")
        for name in dice.sample(made, len(made) // 2):
            server.run(f"DROP TABLE e.{name}")
    verify_and_start_again(server)


def test_a_clone_does_not_take_files_of_its_parent_again(lab, server: Server) -> None:
    """The clone may have told its parent that it needs none of the parent's files any more."""
    server.run("OPTIMIZE TABLE d.large")
    publish(server)
    url = str(server.options["atoll_url"])
    assert atollctl(server, "clone", behind=(url + "-clone",)).returncode == 0
    options = {name: value for name, value in server.options.items() if name.startswith("atoll_")}
    clone = lab.server("clone", **options | {"atoll_url": url + "-clone"}).start()
    clone.run("SELECT ATOLL_SNAPSHOT('then')", "SELECT ATOLL_MOUNT('d', 'past', 'then')", "CREATE DATABASE f")
    with pytest.raises(pymysql.Error, match="use INSERT"):
        clone.run("SELECT ATOLL_CLONE_TABLE('past.large', 'f.large')")
    assert not clone.run("SHOW TABLES FROM f")
    clone.run("CREATE TABLE f.large LIKE d.large", "INSERT INTO f.large SELECT * FROM past.large")
    assert clone.run(SUMS.format("f", "large")) == server.run(SUMS.format("d", "large"))
