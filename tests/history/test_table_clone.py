"""Goal:   ATOLL_CLONE_TABLE copies no rows. Clone and source stay complete whatever happens to the other one:
        kill -9 at any moment of the cloning, restarts, a restore from the bucket alone, and runs of the
        collector.
Method: real servers with a directory and with an S3 server. One connection clones in a loop while the server
        is killed at a random time (the seed is printed). Every table that exists afterwards must have the
        rows of its source.
"""

from __future__ import annotations

import contextlib
import random
import threading
import time

import pymysql
import pytest
from conftest import server_maker
from harness.atollctl import verify_and_start_again
from harness.process import wait_until
from harness.server import Server

ROUNDS = 4
ROWS = 20_000
SUMS = "SELECT COUNT(*), COALESCE(SUM(a), 0), COALESCE(SUM(CRC32(text)), 0) FROM d.{}"
COLLECTED_WITHIN_S = 60


@pytest.fixture(params=["file", "versitygw"])
def server(lab, request) -> Server:
    """A running server with the table d.t in a column family of its own."""
    made = server_maker(lab, request.param, atoll_durability="async")("server").start()
    made.run(
        "CREATE DATABASE d",
        "CREATE TABLE d.t (a INT PRIMARY KEY, text VARCHAR(100), KEY (text)) ENGINE=ATOLL COMPRESSION=lz4",
        f"INSERT INTO d.t SELECT seq, CONCAT(MD5(seq), MD5(-seq)) FROM mysql.seq_1_to_{ROWS}",
    )
    return made


def test_a_clone_copies_no_rows(server: Server) -> None:
    server.run("OPTIMIZE TABLE d.t", "SELECT ATOLL_SNAPSHOT('everything is in the bucket')")
    uploaded = server.counter("Atoll_bytes_uploaded")
    files = server.counter("Atoll_files")
    begin = time.monotonic()
    server.run("SELECT ATOLL_CLONE_TABLE('d.t', 'd.t2')")
    print(f"cloned {ROWS} rows in {time.monotonic() - begin:.3f} s")
    assert server.run(SUMS.format("t2")) == server.run(SUMS.format("t"))
    assert server.counter("Atoll_files") > files
    # Only the root, the MANIFEST and the log are uploaded.
    assert server.counter("Atoll_bytes_uploaded") - uploaded < 100_000


def test_kills_leave_whole_tables(server: Server) -> None:
    seed = random.randrange(1 << 30)
    print(f"seed {seed}")
    dice = random.Random(seed)
    for round_ in range(ROUNDS):
        server.run(
            f"UPDATE d.t SET text = CONCAT(text, '{round_}') WHERE a % 7 = {round_}",
            f"DELETE FROM d.t WHERE a % 101 = {round_}",
        )
        expected = server.run(SUMS.format("t"))

        def clone(number: int = round_) -> None:
            with contextlib.suppress(pymysql.Error, OSError):  # the server was killed
                connection = server.connect()
                for count in range(20):
                    connection.cursor().execute(f"SELECT ATOLL_CLONE_TABLE('d.t', 'd.c{number}_{count}')")

        thread = threading.Thread(target=clone)
        thread.start()
        time.sleep(dice.uniform(0, 0.5))
        server.kill()
        thread.join()
        server.start()
        tables = [row[0] for row in server.run("SHOW TABLES FROM d")]
        for table in tables:
            if table == "t" or table.startswith(f"c{round_}_"):
                assert server.run(SUMS.format(table)) == expected, table
        print(f"round {round_}: {len(tables) - 1} clones")
        for table in dice.sample([t for t in tables if t != "t"], len(tables) // 2):
            server.run(f"DROP TABLE d.{table}")
        server.run("ALTER TABLE d.t ENGINE=ATOLL, FORCE")
    verify_and_start_again(server)


def test_each_survives_the_other_and_a_restore(server: Server) -> None:
    expected = server.run(SUMS.format("t"))
    server.run("SELECT ATOLL_CLONE_TABLE('d.t', 'd.t2')", "SELECT ATOLL_CLONE_TABLE('d.t2', 'd.t3')")
    server.run("UPDATE d.t2 SET text = 'x'", "OPTIMIZE TABLE d.t2", "DROP TABLE d.t")
    time.sleep(1)
    assert server.run(SUMS.format("t3")) == expected
    changed = server.run(SUMS.format("t2"))
    verify_and_start_again(server)
    server.stop()
    server.wipe()
    server.initialize().start()
    assert server.run(SUMS.format("t3")) == expected
    assert server.run(SUMS.format("t2")) == changed
    server.run("DROP TABLE d.t2", "DROP TABLE d.t3")
    wait_until(
        lambda: server.counter("Atoll_files_bytes") < 100_000,
        COLLECTED_WITHIN_S,
        "files of dropped tables are left",
    )
    verify_and_start_again(server)
