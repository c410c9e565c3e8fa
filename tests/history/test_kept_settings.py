"""Goal:   the history and the schedule of snapshots belong to the database in the bucket. No restart, lost
        machine or configuration shortens them; SET GLOBAL does, after a grace time.
Method: starts servers whose configuration lacks the settings, asks for less, or for more, and restores moments
        from before these starts.
"""

from __future__ import annotations

import time

import pymysql
import pytest
from harness.atollctl import atollctl, utc
from harness.process import wait_until
from harness.server import Server

RETENTION = "SELECT @@atoll_history_retention"
SCHEDULE = "SELECT @@atoll_snapshot_schedule"


@pytest.fixture
def server(lab) -> Server:
    made = lab.server("server", atoll_url=f"file://{lab.home}/bucket").start()
    made.run("CREATE DATABASE shop", "CREATE TABLE shop.t (a INT PRIMARY KEY) ENGINE=ATOLL")
    return made


def history_begins(server: Server) -> str:
    """Switches a history on, and returns a moment that it has."""
    server.run("SET GLOBAL atoll_history_retention = 172800", "INSERT INTO shop.t VALUES (1)")
    wait_until(lambda: server.counter("Atoll_history_seconds") > 0, 30, "the history does not begin")
    time.sleep(0.1)
    moment = utc(time.time_ns() // 1000)
    time.sleep(0.1)
    server.run("INSERT INTO shop.t VALUES (2)")
    return moment


def rows_at(server: Server, moment: str) -> list[tuple]:
    server.run(f"SELECT ATOLL_MOUNT('shop', 'past', '{moment}')")
    rows = server.run("SELECT * FROM past.t ORDER BY a")
    server.run("SELECT ATOLL_UNMOUNT('past')")
    return rows


@pytest.mark.parametrize("end", ["stop", "kill", "kill and wipe"])
def test_a_restart_without_the_option_keeps_the_history(server: Server, end: str) -> None:
    moment = history_begins(server)
    server.run("SET GLOBAL atoll_snapshot_schedule = 'daily 7'")
    server.run("DO SLEEP(1)")  # the log is in the bucket after half a second
    server.stop() if end == "stop" else server.kill()
    if "wipe" in end:
        server.wipe()
    mark = server.log_mark()
    server.start(atoll_take_over=1)
    log = server.log_since(mark)
    assert "atoll_history_retention is 172800, as was decided for this database" in log, log
    assert "atoll_snapshot_schedule is 'daily 7', as was decided for this database" in log, log
    assert server.value(RETENTION) == 172800 and server.value(SCHEDULE) == "daily 7"
    time.sleep(6)  # a history that is given up would be gone by then
    assert rows_at(server, moment) == [(1,)]


def test_a_configuration_asks_for_less_in_vain_and_for_more_with_success(server: Server) -> None:
    moment = history_begins(server)
    mark = server.log_mark()
    server.restart(atoll_history_retention=60)
    log = server.log_since(mark)
    assert "[Warning]" in log and "SET GLOBAL atoll_history_retention = 60" in log, log
    assert server.value(RETENTION) == 172800 and rows_at(server, moment) == [(1,)]
    server.restart(atoll_history_retention=200000, atoll_snapshot_schedule="hourly 3")
    assert server.value(RETENTION) == 200000
    wait_until(lambda: "hourly 3" in atollctl(server, "settings").stdout, 30, "the schedule is not stored")
    server.restart()
    assert server.value(RETENTION) == 200000 and server.value(SCHEDULE) == "hourly 3"


def test_a_shorter_history_goes_after_the_grace_time_and_can_be_had_back_before(server: Server) -> None:
    moment = history_begins(server)
    server.run("SET GLOBAL atoll_history_grace = 3600")
    with server.connect() as connection, connection.cursor() as cursor:
        cursor.execute("SET GLOBAL atoll_history_retention = 0")
        cursor.execute("SHOW WARNINGS")
        (note,) = cursor.fetchall()
        assert "the history of 172800 s stays for another 3600 s" in note[2], note
    server.restart()
    time.sleep(6)
    assert server.value(RETENTION) == 0 and rows_at(server, moment) == [(1,)]
    server.run("SET GLOBAL atoll_history_retention = 172800")
    assert rows_at(server, moment) == [(1,)]
    server.run("SET GLOBAL atoll_history_grace = 3", "SET GLOBAL atoll_history_retention = DEFAULT")
    wait_until(lambda: server.counter("Atoll_history_seconds") == 0, 60, "the history stays")
    with pytest.raises(pymysql.Error, match="keeps no history"):
        rows_at(server, moment)
    server.restart()
    assert server.value(RETENTION) == 0


def test_atollctl_changes_the_settings_of_a_stopped_server(server: Server) -> None:
    server.stop()
    ran = atollctl(server, "settings", behind=("--history-retention", "86400", "--history-max-bytes", "5G"))
    assert ran.returncode == 0 and "86400 s" in ran.stdout and "5.0 GiB" in ran.stdout, ran
    server.start()
    assert server.value(RETENTION) == 86400
    assert server.value("SELECT @@atoll_history_max_bytes") == 5 << 30
    server.run("SET GLOBAL atoll_history_retention = 99999999999")
    assert server.value(RETENTION) == 366 * 86400
    server.run("SET GLOBAL atoll_history_max_bytes = 1")
    assert "1.0 MiB" in atollctl(server, "settings").stdout
