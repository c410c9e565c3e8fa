"""Goal:   `atollctl seed` makes a replica by the binary log that begins at the GTID of its clone, copies no table
        file, and never misses or repeats a transaction: with semi-synchronous replication, parallel workers, and
        kill -9 of either side. `seed --again` brings a replica whose files have drifted back to the primary's.
Method: a primary under load and replicas in other prefixes of its bucket. The statements that atollctl writes are
        run as they are. All tables are compared.
"""

from __future__ import annotations

import json
import random
import shutil
import subprocess
import threading
import time

import pymysql
import pytest
from conftest import Lab, server_maker
from harness.atollctl import atollctl
from harness.digest import database_digests
from harness.server import Server

CATCHES_UP_WITHIN_S = 60
ROWS = 20_000


class Load(threading.Thread):
    """Changes the primary until it is stopped. Goes on after errors: the primary may be killed meanwhile."""

    def __init__(self, primary: Server, seed: int):
        super().__init__()
        self._primary, self._dice = primary, random.Random(seed)
        self._stopped = threading.Event()

    def run(self) -> None:
        while not self._stopped.wait(0.01):
            low = self._dice.randrange(ROWS)
            try:
                self._primary.run(
                    f"UPDATE d.t SET n = n + 1 WHERE id BETWEEN {low} AND {low + 20}",
                    f"REPLACE INTO d.u VALUES ({self._dice.randrange(500)}, {low})",
                    f"INSERT INTO d.log (low) VALUES ({low})",
                )
            except (pymysql.Error, OSError):
                time.sleep(0.2)

    def stop(self) -> None:
        self._stopped.set()
        self.join()


@pytest.fixture(params=["file", "versitygw"])
def primary(lab: Lab, request) -> Server:
    options = {"server_id": 1, "log_bin": "binlog", "rpl_semi_sync_master_enabled": 1}
    made = server_maker(lab, request.param, atoll_durability="async", **options)("primary").start()
    made.run(
        "SET sql_log_bin = 0",
        "CREATE USER replica@'127.0.0.1'",
        "GRANT REPLICATION SLAVE ON *.* TO replica@'127.0.0.1'",
        "SET sql_log_bin = 1",
        "CREATE DATABASE d",
        "CREATE TABLE d.t (id INT PRIMARY KEY, n INT, text VARCHAR(64), KEY (n)) ENGINE=ATOLL COMPRESSION=lz4",
        "CREATE TABLE d.u (id INT PRIMARY KEY, v INT) ENGINE=ATOLL",
        "CREATE TABLE d.log (id INT AUTO_INCREMENT PRIMARY KEY, low INT) ENGINE=ATOLL",
        f"INSERT INTO d.t SELECT seq, seq % 100, CONCAT(MD5(seq), MD5(-seq)) FROM mysql.seq_1_to_{ROWS}",
        "SELECT ATOLL_SNAPSHOT('loaded')",
    )
    return made


def replica_of(primary: Server, lab: Lab, name: str) -> Server:
    """A server, not started, whose database is beside that of the primary."""
    options = {key: value for key, value in primary.options.items() if key.startswith("atoll_")}
    options["atoll_url"] = f"{str(primary.options['atoll_url']).rpartition('/')[0]}/{name}"
    return lab.server(
        name,
        server_id=2,
        skip_slave_start=1,
        rpl_semi_sync_slave_enabled=1,
        slave_parallel_threads=4,
        slave_parallel_mode="optimistic",
        **options,
    )


def seed(primary: Server, replica: Server, *options: str) -> subprocess.CompletedProcess[str]:
    return atollctl(
        primary,
        "seed",
        *("--primary-host", "127.0.0.1", "--primary-port", str(primary.port), "--primary-user", "replica"),
        *options,
        behind=(str(replica.options["atoll_url"]),),
    )


def start(replica: Server, sql: str) -> None:
    replica.start()
    replica.run(*(line.rstrip(";") for line in sql.splitlines()))


def check_equal(primary: Server, replica: Server) -> None:
    position = primary.value("SELECT @@gtid_binlog_pos")
    waited = replica.value(f"SELECT MASTER_GTID_WAIT('{position}', {CATCHES_UP_WITHIN_S})")
    assert waited == 0, replica.run("SHOW SLAVE STATUS")
    assert database_digests(replica, "d") == database_digests(primary, "d")


def test_a_replica_begins_where_its_clone_ends(lab: Lab, primary: Server, tmp_path) -> None:
    load = Load(primary, 1)
    load.start()
    try:
        time.sleep(1)
        replica, file = replica_of(primary, lab, "replica"), tmp_path / "start.sql"
        made = seed(primary, replica, "--sql", str(file))
        assert made.returncode == 0, made.stdout + made.stderr
        assert "NO TABLE OF ANOTHER ENGINE" in made.stdout and "--system=all" in made.stdout
        assert file.read_text() in made.stdout
        start(replica, file.read_text())
        time.sleep(1)
        replica.kill()
        replica.start()
        replica.run("START SLAVE")
        time.sleep(1)
        primary.kill()
        primary.start()
        time.sleep(1)
    finally:
        load.stop()
    replica.run("STOP SLAVE", "START SLAVE")  # it would try to connect again only once in a minute
    check_equal(primary, replica)
    again = seed(primary, replica, "--sql", str(file))
    assert again.returncode == 1 and "exists" in again.stderr


def test_a_replica_that_has_drifted_shares_files_again(lab: Lab, primary: Server, tmp_path) -> None:
    primary.run("OPTIMIZE TABLE d.t", "SELECT ATOLL_SNAPSHOT('all is in the bucket')")
    replica = replica_of(primary, lab, "replica")
    first = seed(primary, replica, "--json")
    assert first.returncode == 0, first.stdout + first.stderr
    start(replica, json.loads(first.stdout)["statements"])
    primary.run("UPDATE d.t SET text = REVERSE(text)")
    check_equal(primary, replica)
    replica.run("OPTIMIZE TABLE d.t")
    running = seed(primary, replica, "--again", "--yes")
    assert running.returncode == 1, "its server runs"
    primary.run("OPTIMIZE TABLE d.t", "SELECT ATOLL_SNAPSHOT('again')")
    replica.stop()
    asked = seed(primary, replica, "--again")
    assert asked.returncode != 0 and "--yes" in asked.stderr
    made = seed(primary, replica, "--again", "--yes", "--json")
    assert made.returncode == 0, made.stdout + made.stderr
    clone = json.loads(made.stdout)["clone"]
    assert clone["shared_bytes"] > 500_000 and clone["files"] > 0, "the large table is in shared files"
    shutil.rmtree(replica.data / "#atoll")
    start(replica, json.loads(made.stdout)["statements"])
    primary.run("DELETE FROM d.t WHERE id % 3 = 0", "INSERT INTO d.log (low) VALUES (-1)")
    check_equal(primary, replica)


def test_what_cannot_be_seeded_is_said(lab: Lab, primary: Server) -> None:
    replica = replica_of(primary, lab, "replica")
    missing = replica_of(primary, lab, "other")
    missing.options["atoll_url"] = "s3://another-bucket/replica"
    if str(primary.options["atoll_url"]).startswith("file"):
        refused = seed(primary, missing)
        assert refused.returncode == 1 and "cannot share files" in refused.stderr
    assert seed(primary, replica).returncode == 0
    twice = seed(primary, replica)
    assert twice.returncode == 1 and "--again" not in twice.stdout
