"""Goal:   MariaDB's own backup tools work for ATOLL tables as a user expects, or the restored server says
        which rows are missing and what to do.
Method: each client transaction changes two ATOLL tables and an InnoDB table; after a restore the sums of all
        three must agree. Tested are mariadb-dump, mariadb-backup, BACKUP STAGE and a copy of a stopped
        directory.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import threading
import time
from pathlib import Path

import pymysql
import pytest
from harness import paths
from harness.atollctl import atollctl
from harness.server import Server

CLIENTS = 2
ACCOUNTS = 50
TABLES = {"a": "ATOLL", "b": "ATOLL", "i": "InnoDB"}
TIMEOUT_S = 60


class Load:
    """Clients whose transactions each take an amount from table a, give it to table b, and note it in table
    i."""

    def __init__(self, server: Server):
        self.server = server
        self.commits = 0
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=self._work, args=(n,)) for n in range(CLIENTS)]

    def __enter__(self) -> Load:
        for thread in self._threads:
            thread.start()
        deadline = time.monotonic() + TIMEOUT_S
        while self.commits < 50 and time.monotonic() < deadline:
            time.sleep(0.01)
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def _work(self, number: int) -> None:
        connection = self.server.connect()
        cursor = connection.cursor()
        count = 0
        while not self._stop.is_set():
            account = (count * 7 + number) % ACCOUNTS
            try:
                cursor.execute("BEGIN")
                cursor.execute(f"UPDATE shop.a SET amount = amount - 1 WHERE id = {account}")
                cursor.execute(f"UPDATE shop.b SET amount = amount + 1 WHERE id = {account}")
                cursor.execute(f"UPDATE shop.i SET amount = amount + 1 WHERE id = {account}")
                cursor.execute("COMMIT")
                self.commits += 1
            except pymysql.OperationalError:
                connection.rollback()
            count += 1


def make_tables(server: Server) -> None:
    server.run("CREATE DATABASE shop")
    for table, engine in TABLES.items():
        server.run(
            f"CREATE TABLE shop.{table} (id INT PRIMARY KEY, amount INT) ENGINE={engine}",
            f"INSERT INTO shop.{table} SELECT seq, 0 FROM mysql.seq_0_to_{ACCOUNTS - 1}",
        )


@pytest.fixture
def server(lab) -> Server:
    """A running server with a binary log, a history, and the three tables."""
    (lab.home / "bucket").mkdir()
    made = lab.server(
        "server",
        log_bin="bin",
        server_id=1,
        atoll_url=f"file://{lab.home}/bucket/db",
        atoll_durability="async",
        atoll_history_retention=3600,
    ).start()
    make_tables(made)
    return made


def check_sums(server: Server) -> int:
    """Checks that all three tables have the same transactions, and returns how many."""
    taken, given, noted = (server.value(f"SELECT SUM(amount) FROM shop.{table}") for table in TABLES)
    assert -taken == given == noted, (taken, given, noted)
    return int(noted)


def tool(name: str, *arguments: object, given: str = "") -> str:
    command = [str(paths.program(name)), "--no-defaults", *map(str, arguments)]
    ran = subprocess.run(command, input=given, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    assert ran.returncode == 0, ran.stderr[-2000:]
    return ran.stdout


def test_a_dump_of_a_single_transaction_is_one_moment(lab, server: Server) -> None:
    with Load(server) as load:
        before = load.commits
        dump = tool(
            "mariadb-dump", "--single-transaction", "--master-data=2", "--user=root", f"--socket={server.socket}",
            "--databases", "shop",
        )  # fmt: skip
        assert load.commits > before, "the dump held the clients up"
    assert "ENGINE=ATOLL" in dump
    other = lab.server("other").start()
    tool("mariadb", "--user=root", f"--socket={other.socket}", given=dump)
    assert 0 < check_sums(other) < check_sums(server)


def back_up(server: Server, to: Path) -> None:
    tool(
        "mariadb-backup", "--backup", f"--target-dir={to}", "--user=root", f"--socket={server.socket}",
        f"--datadir={server.data}",
    )  # fmt: skip
    tool("mariadb-backup", "--prepare", f"--target-dir={to}")


def test_a_restored_backup_says_how_to_get_its_atoll_tables(lab, server: Server) -> None:
    backup = lab.home / "backup"
    with Load(server) as load:
        back_up(server, backup)
        after = load.commits
    other = lab.server("other", log_bin="bin", server_id=2)
    tool("mariadb-backup", "--copy-back", f"--target-dir={backup}", f"--datadir={other.data}")
    other.start()
    kept = int(other.value("SELECT SUM(amount) FROM shop.i"))
    assert 0 < kept <= after
    with pytest.raises(pymysql.Error) as refused:
        other.run("SELECT * FROM shop.a")
    assert refused.value.args[0] == 1146
    gtid = other.log().split("GTID position ")[1].split(". ")[0]
    assert "2 ATOLL tables, shop/" in other.log() and "have no rows here" in other.log()
    assert f"atollctl restore URL --gtid {gtid} --to NEWURL" in other.log()

    # Do what the message advises.
    other.stop()
    restored = f"file://{lab.home}/bucket/restored"
    ran = atollctl(server, "restore", behind=("--gtid", gtid, "--to", restored))
    assert ran.returncode == 0, ran.stderr
    shutil.rmtree(other.data / "#atoll")
    other.options["atoll_url"] = restored
    other.start()
    assert check_sums(other) == kept
    other.run("UPDATE shop.a SET amount = amount + 1", "CREATE TABLE shop.t (a INT) ENGINE=ATOLL")


def test_a_restored_backup_with_the_bucket_of_its_server_says_that_it_may_be_later(
    lab, server: Server
) -> None:
    backup = lab.home / "backup"
    back_up(server, backup)
    server.run("UPDATE shop.a SET amount = amount - 1", "UPDATE shop.b SET amount = amount + 1")
    server.stop()
    other = lab.server("other", **(server.options | {"server_id": 2}))
    tool("mariadb-backup", "--copy-back", f"--target-dir={backup}", f"--datadir={other.data}")
    other.start()
    assert other.value("SELECT SUM(amount) FROM shop.b") == ACCOUNTS, "the bucket's newest state"
    assert "Its ATOLL tables are not: they are as file://" in other.log()
    assert "have no rows here" not in other.log()


def test_backup_stages_hold_commits_and_definitions(server: Server) -> None:
    with server.connect() as holder, server.connect() as writer:
        stages, changes = holder.cursor(), writer.cursor()
        changes.execute("SET lock_wait_timeout = 1")
        for stage in ("START", "FLUSH", "BLOCK_DDL"):
            stages.execute(f"BACKUP STAGE {stage}")
            changes.execute("UPDATE shop.a SET amount = amount WHERE id = 1")
        with pytest.raises(pymysql.OperationalError, match="Lock wait timeout"):
            changes.execute("CREATE TABLE shop.t (a INT) ENGINE=ATOLL")
        with pytest.raises(pymysql.OperationalError, match="Lock wait timeout"):
            changes.execute("SELECT ATOLL_CLONE_TABLE('shop.a', 'shop.t')")
        stages.execute("BACKUP STAGE BLOCK_COMMIT")
        with pytest.raises(pymysql.OperationalError, match="Lock wait timeout"):
            changes.execute("UPDATE shop.a SET amount = 7 WHERE id = 1")
        stages.execute("BACKUP STAGE END")
        changes.execute("SELECT amount FROM shop.a WHERE id = 1")
        assert changes.fetchall() == ((0,),)
        changes.execute("UPDATE shop.a SET amount = 7 WHERE id = 1")


def test_a_snapshot_of_the_file_system_is_a_crash(lab) -> None:
    """If the bucket is in the data directory, or on the same file system, a snapshot of all files at one
    moment is a complete server, as after a crash."""
    server = lab.server("server", log_bin="bin", server_id=1).start()
    make_tables(server)
    other = lab.server("other", log_bin="bin", server_id=2)
    with Load(server) as load:
        os.kill(server.pid, signal.SIGSTOP)  # so that the copy has all files at one moment
        committed = load.commits
        shutil.copytree(server.data, other.data)
        os.kill(server.pid, signal.SIGCONT)
    other.start()
    assert check_sums(other) >= committed
    assert check_sums(server) >= check_sums(other)
