"""Goal:   a disk that is full while a copy, a materialize or a mount writes to it gives an error that says so, changes
        nothing that was there, and leaves nothing behind; with more room the same call succeeds.
Method: small file systems in memory under the target of each call. They are made larger afterwards.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pymysql
import pytest
from conftest import Lab, MakeServer, server_maker
from harness import disk
from harness.atollctl import atollctl
from harness.process import wait_until
from harness.server import Server

ROWS = 3000  # of 10,000 bytes that do not compress: 30 MB
SUMS = "SELECT COUNT(*), SUM(CRC32(text)) FROM {}.t"


@pytest.fixture
def small(lab: Lab) -> Iterator[Path]:
    with disk.small_disk(lab.home / "small", 12) as mounted:
        if mounted is None:
            pytest.skip("mounting a tmpfs is not allowed")
        yield mounted


@pytest.fixture
def make_server(lab: Lab) -> MakeServer:
    return server_maker(lab, "file", atoll_durability="async")


@pytest.fixture
def server(make_server: MakeServer) -> Server:
    made = make_server("parent").start()
    made.run(
        "CREATE DATABASE shop",
        "CREATE TABLE shop.t (id INT PRIMARY KEY, text LONGBLOB) ENGINE=ATOLL COMPRESSION=none",
        f"INSERT INTO shop.t SELECT seq, REPEAT(MD5(seq), 313) FROM mysql.seq_1_to_{ROWS}",
    )
    return made.restart()  # the rows are in table files now, and the log is empty


def problems_of(server: Server) -> str:
    ran = atollctl(server, "verify", "--deep")
    return "" if ran.returncode == 0 else ran.stdout + ran.stderr


def test_a_copy_to_a_full_disk_fails_with_the_reason_and_goes_on_when_there_is_room(
    lab: Lab, make_server: MakeServer, server: Server, small: Path
) -> None:
    copy = make_server("copy")
    copy.options["atoll_url"] = f"file://{small}/copy"
    for _ in range(2):
        full = atollctl(server, "copy", behind=(f"file://{small}/copy",))
        assert full.returncode != 0 and "no space" in (full.stdout + full.stderr).lower(), full
    pins = atollctl(server, "snapshot", "list").stdout
    assert "copy in" not in pins, "a copy that failed still holds files of the source"
    disk.resize_small_disk(small, 100)
    done = atollctl(server, "copy", behind=(f"file://{small}/copy",))
    assert done.returncode == 0, done.stdout + done.stderr
    assert problems_of(copy) == "" and problems_of(server) == ""
    copy.start()
    assert copy.run(SUMS.format("shop")) == server.run(SUMS.format("shop"))


def test_materialize_to_a_full_disk_leaves_the_clone_as_it_was(
    lab: Lab, make_server: MakeServer, server: Server, small: Path
) -> None:
    child = make_server("child")
    child.options["atoll_url"] = f"file://{small}/child"
    made = atollctl(server, "clone", behind=(f"file://{small}/child",))
    assert made.returncode == 0, made.stdout + made.stderr
    full = atollctl(child, "materialize", "--yes")
    assert full.returncode != 0 and "no space" in (full.stdout + full.stderr).lower(), full
    assert problems_of(child) == ""
    disk.resize_small_disk(small, 100)
    expected = server.run(SUMS.format("shop"))
    done = atollctl(child, "materialize", "--yes")
    assert done.returncode == 0, done.stdout + done.stderr
    server.stop()
    (lab.home / "bucket" / "parent").rename(lab.home / "bucket" / "gone")
    child.start()
    assert child.run(SUMS.format("shop")) == expected


def test_a_mount_on_a_full_disk_is_refused_and_leaves_nothing(lab: Lab, server: Server) -> None:
    past = server.data / "#atoll" / "past"
    # The rows are only in the log, which a mount copies to the local disk.
    server.run(f"INSERT INTO shop.t SELECT {ROWS} + seq, REPEAT(MD5(seq), 313) FROM mysql.seq_1_to_1500")
    server.run("SELECT ATOLL_SNAPSHOT('s')")
    expected = server.run(SUMS.format("shop"))
    with disk.small_disk(past, 2) as mounted:
        if mounted is None:
            pytest.skip("mounting a tmpfs is not allowed")
        with pytest.raises(pymysql.Error, match="(?i)no space"):
            server.run("SELECT ATOLL_MOUNT('shop', 'then', 's')")
        assert list(past.iterdir()) == [], "the refused mount has left files"
        assert ("then",) not in server.run("SHOW DATABASES")
        assert server.run(SUMS.format("shop")) == expected
        server.run("INSERT INTO shop.t VALUES (-1, 'a write while the disk of the mounts is full')")
        disk.resize_small_disk(past, 100)
        server.run("SELECT ATOLL_MOUNT('shop', 'then', 's')")
        assert server.run(SUMS.format("then")) == expected
        server.run("SELECT ATOLL_UNMOUNT('then')")
        wait_until(lambda: list(past.iterdir()) == [], 30, "files of the mount are left")
