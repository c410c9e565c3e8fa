"""Goal:   a transaction larger than its memory was prepared, but not committed, when the machine died. The
        next start decides it correctly, on the same disk and from the bucket alone.
Method: semi-synchronous replication without a replica stops a commit after it has written the binary log and
        before it commits in the engine. The server is killed at this point.
"""

from __future__ import annotations

import re
import shutil
import threading

import pymysql
import pytest
from harness.process import wait_until
from harness.server import ServerFailed

ROWS = 60_000
SPILLING = {"atoll_transaction_memory": 1 << 20, "atoll_durability": "sync"}
STOPPING = {
    "sync_binlog": 1,
    "rpl_semi_sync_master_wait_point": "AFTER_SYNC",
    "rpl_semi_sync_master_timeout": 3_600_000,
}


def fill(server) -> None:
    server.run(
        "CREATE DATABASE d",
        "CREATE TABLE d.t (a INT PRIMARY KEY, b INT, KEY (b)) ENGINE=ATOLL",
        f"INSERT INTO d.t SELECT seq, 0 FROM mysql.seq_1_to_{ROWS}",
    )


def kill_between_binary_log_and_engine(server) -> None:
    """Kills the server when an UPDATE of all rows is in the binary log, and prepared in the engine and in the
    bucket."""
    server.run("SET GLOBAL rpl_semi_sync_master_enabled = 1")

    def update() -> None:
        with pytest.raises(pymysql.Error):
            server.connect("d").cursor().execute("UPDATE t SET b = 1")

    updater = threading.Thread(target=update)
    updater.start()
    waiting = "SELECT COUNT(*) FROM information_schema.processlist WHERE state LIKE '%semi-sync%'"
    wait_until(lambda: server.value(waiting) == 1, 120, "a commit that waits for a replica")
    wait_until(lambda: server.counter("Atoll_wal_lag_bytes") == 0, 120, "the log in the bucket")
    server.kill()
    updater.join()


def expect_whole(server, value: int) -> None:
    assert server.run("SELECT COUNT(*), MIN(b), MAX(b) FROM d.t") == [(ROWS, value, value)]
    assert server.run("CHECK TABLE d.t EXTENDED")[-1][-1] == "OK"
    spills = server.data / "#atoll" / "db" / "spill"
    assert not spills.exists() or not list(spills.iterdir()), "files of a transaction that has ended"
    server.run("SET GLOBAL rpl_semi_sync_master_enabled = 0", "UPDATE d.t SET b = 7")  # no row is locked
    assert server.value("SELECT SUM(b) FROM d.t") == 7 * ROWS


def test_on_the_same_disk_the_binary_log_decides(lab):
    server = lab.s3_server(lab.store(), log_bin="binlog", **SPILLING, **STOPPING)
    fill(server.start())
    kill_between_binary_log_and_engine(server)
    server.start()
    expect_whole(server, 1)


def test_from_the_bucket_alone_it_never_was(lab):
    """The transaction is rolled back, because its commit had not returned, and the binary log is lost with
    the disk."""
    server = lab.s3_server(lab.store(), log_bin="binlog", **SPILLING, **STOPPING)
    fill(server.start())
    kill_between_binary_log_and_engine(server)
    server.wipe()
    server.start(atoll_take_over="ON")
    expect_whole(server, 0)
    server.restart(atoll_take_over="OFF")
    assert server.value("SELECT SUM(b) FROM d.t") == 7 * ROWS


def test_from_the_bucket_a_binary_log_that_was_closed_in_order_decides_nothing(lab):
    """The new machine has run before, with a binary log: users and views were loaded into it."""
    server = lab.s3_server(lab.store(), log_bin="binlog", **SPILLING, **STOPPING)
    fill(server.start())
    kill_between_binary_log_and_engine(server)
    server.wipe()
    server.start(atoll_url=f"file://{lab.home}/another")
    server.run("CREATE USER somebody")
    server.stop()
    shutil.rmtree(server.data / "#atoll")
    server.start(atoll_take_over="ON")
    assert "rolled back 1 transactions that the lost server had prepared" in server.log()
    expect_whole(server, 0)


def test_with_the_binary_log_on_another_disk_the_administrator_decides(lab):
    """The binary log has a transaction whose changes the engine has lost. If the server started without an
    error, its rows would differ from those of its replicas."""
    binlogs = lab.home / "binlogs"
    binlogs.mkdir()
    server = lab.s3_server(lab.store(), log_bin=binlogs / "binlog", **SPILLING, **STOPPING)
    fill(server.start())
    kill_between_binary_log_and_engine(server)
    server.wipe()
    with pytest.raises(ServerFailed):
        server.start(atoll_take_over="ON")
    assert re.search(
        r"prepared transaction .+: its changes were on the local disk .* are gone\. Start", server.log()
    )
    with pytest.raises(ServerFailed):  # this start only decides and then ends
        server.start(tc_heuristic_recover="ROLLBACK")
    server.start()
    expect_whole(server, 0)
