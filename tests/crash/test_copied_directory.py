"""Goal:   without atoll_take_over=ON, a server on a copy of a data directory never takes the bucket from the
        original server. If it cannot know whether the original is alive, its start waits a bounded time, and
        other engines work meanwhile.
Method: the directory of a server is copied while SIGSTOP stops the server, as a snapshot of a machine does
        it. The copy starts with atoll_take_over=OFF, beside the original or after the original's death.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import threading
import time

import pymysql
import pytest
from harness.process import wait_until
from harness.server import Server
from test_in_doubt import (
    SPILLING,
    STOPPING,
    expect_whole,
    fill,
    kill_between_binary_log_and_engine,
)

REFUSED_WITHIN_S = 80  # the original writes a hint each 65 seconds
STARTED_WITHIN_S = 150
SERVER_ANSWERS_WITHIN_S = 30


def original_and_copy(lab, store) -> tuple[Server, Server]:
    """A running server, and a second server on a copy of its directory, which is not started."""
    server = lab.s3_server(store, "original", atoll_durability="sync").start()
    server.run(
        "CREATE DATABASE d",
        "CREATE TABLE d.t (a INT PRIMARY KEY) ENGINE=ATOLL",
        "CREATE TABLE d.other (a INT PRIMARY KEY) ENGINE=InnoDB",
        "INSERT INTO d.t SELECT seq FROM mysql.seq_1_to_1000",
    )
    copy = lab.s3_server(store, "copy", atoll_durability="sync")
    os.kill(server.pid, signal.SIGSTOP)
    shutil.copytree(server.data, copy.data)
    os.kill(server.pid, signal.SIGCONT)
    return server, copy


def epochs(store) -> list[str]:
    return [item.key for item in store.client.list("db/epoch/")]


def started_without_atoll(copy: Server) -> None:
    """Starts the copy. Its other engines work at once, and the log says why ATOLL does not work yet."""
    began = time.monotonic()
    copy.start()
    assert time.monotonic() - began < SERVER_ANSWERS_WITHIN_S
    copy.run("INSERT INTO d.other VALUES (1)")
    with pytest.raises(pymysql.Error) as refused:
        copy.run("INSERT INTO d.t VALUES (-1)")
    assert "may be in use" in str(refused.value), refused.value
    log = copy.log()
    assert "140 s" in log, "the log does not say how long"
    assert "atoll_take_over=ON" in log, "the log does not say what to do"


def rows_when_open(server: Server) -> int | None:
    try:
        return server.value("SELECT COUNT(*) FROM d.t")
    except pymysql.Error:
        return None


def test_a_copy_is_refused_while_the_original_runs(lab):
    store = lab.store()
    original, copy = original_and_copy(lab, store)
    claimed = epochs(store)
    started_without_atoll(copy)
    original.run("INSERT INTO d.t VALUES (1001)")
    began = time.monotonic()
    wait_until(lambda: "is in use by" in copy.log(), REFUSED_WITHIN_S, "the copy to be refused", 0.5)
    print(f"refused after {time.monotonic() - began:.0f} s")
    original.run("INSERT INTO d.t VALUES (1002)")
    assert epochs(store) == claimed, "the refused server has claimed the bucket"
    original.kill()
    original.start()
    assert original.value("SELECT COUNT(*) FROM d.t") == 1002, "a restart after kill -9 waits for nothing"
    original.stop()
    copy.restart()
    assert copy.value("SELECT COUNT(*) FROM d.t") == 1002, "after a clean close nothing is waited for"


def killed_in_doubt_and_copied(lab) -> Server:
    """A server on the copied directory of a dead server, whose last transaction is in the binary log and
    prepared in the engine."""
    options = {"atoll_url": f"file://{lab.home / 'bucket'}", "log_bin": "binlog", **SPILLING, **STOPPING}
    server = lab.server("in_doubt", **options)
    fill(server.start())
    kill_between_binary_log_and_engine(server)
    copy = lab.server("copy_in_doubt", **options)
    shutil.copytree(server.data, copy.data)
    return copy


def listen(manager: socket.socket, heard: list[str]) -> None:
    """Notes all messages to the socket until it is shut down. The senders would block if no one read them."""
    while message := manager.recv(4096):
        heard.append(message.decode())


def test_a_copy_whose_original_died_starts_within_150_seconds(lab, monkeypatch):
    """Two copies. One server answers while ATOLL waits. The start of the other one waits, because its binary
    log has to decide about a transaction."""
    store = lab.store()
    in_doubt = killed_in_doubt_and_copied(lab)
    original, copy = original_and_copy(lab, store)
    original.kill()
    claimed = epochs(store)
    began = time.monotonic()
    started_without_atoll(copy)
    assert epochs(store) == claimed, "claimed before the wait was over"
    seconds: list[float] = []

    def watch() -> None:
        wait_until(lambda: rows_when_open(copy) == 1000, STARTED_WITHIN_S, "the copy to start", 0.5)
        seconds.append(time.monotonic() - began)

    watching = threading.Thread(target=watch)
    watching.start()
    monkeypatch.setattr("harness.server.START_TIMEOUT_S", STARTED_WITHIN_S)
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(lab.home / "notify"))
        in_doubt.run_by = ("env", f"NOTIFY_SOCKET={lab.home / 'notify'}")
        heard: list[str] = []
        listening = threading.Thread(target=listen, args=(manager, heard))
        listening.start()
        in_doubt.start()
        manager.shutdown(socket.SHUT_RD)
        listening.join()
    watching.join()
    print(f"started after {seconds} s")
    assert seconds and seconds[0] <= STARTED_WITHIN_S
    assert "no sign of life" in copy.log()
    assert len(epochs(store)) == len(claimed) + 1
    copy.run("INSERT INTO d.t VALUES (1001)")
    assert "The start of the server waits" in in_doubt.log()
    asked = [text for text in heard if "ATOLL waits" in text]
    assert asked and all("EXTEND_TIMEOUT_USEC=" in text for text in asked), heard
    expect_whole(in_doubt, 1)


def test_a_bucket_in_the_data_directory_is_waited_for_by_nobody(lab):
    """Simulates a crash of the machine: the server has not released the database, and its lock file is not
    the one of its claim."""
    server = lab.server("inside").start()
    server.run(
        "CREATE DATABASE d",
        "CREATE TABLE d.t (a INT PRIMARY KEY) ENGINE=ATOLL",
        "INSERT INTO d.t SELECT seq FROM mysql.seq_1_to_1000",
    )
    server.kill()
    lock = server.data / "#atoll" / "db.lock"
    shutil.copy(lock, lock.with_suffix(".new"))
    lock.with_suffix(".new").replace(lock)
    server.start()
    assert server.value("SELECT COUNT(*) FROM d.t") == 1000
    assert "may be in use" not in server.log()
