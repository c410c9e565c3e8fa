"""Goal:   `atollctl seed` makes a replica by the binary log that begins at the GTID of its clone, copies no table
        file, and never misses or repeats a transaction: with semi-synchronous replication, parallel workers, and
        kill -9 of either side in turn. `seed --again` brings a replica whose files have drifted back to the primary's.
Method: a primary under the load of several clients, and replicas in other prefixes of its bucket. The statements that
        atollctl writes are run as they are. All tables are compared, and each transaction that was acknowledged must be
        there. ATOLL_REPLICA_SEED repeats the clients' choices.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import shutil
import subprocess
import threading
import time
from collections.abc import Iterator

import pymysql
import pytest
from conftest import Lab, server_maker
from harness.atollctl import atollctl
from harness.digest import database_digests
from harness.process import wait_until
from harness.server import Server

SEED = int(os.environ.get("ATOLL_REPLICA_SEED", "20261130"))
CATCHES_UP_WITHIN_S = 60
ROWS = 20_000
CLIENTS = 4
KILLS = 2  # of each side


class Client(threading.Thread):
    """Runs transactions in the primary until it is stopped. Goes on after errors: the primary may be killed meanwhile,
    and the clients' transactions conflict."""

    def __init__(self, primary: Server, number: int):
        super().__init__()
        self.acknowledged: list[tuple[int, int]] = []
        self._primary, self._number = primary, number
        self._dice = random.Random(SEED * 100 + number)
        self._stopped = threading.Event()

    def run(self) -> None:
        step = 0
        while not self._stopped.wait(0.01):
            step += 1
            low, key = self._dice.randrange(ROWS), self._dice.randrange(500)
            try:
                self._primary.run(
                    "BEGIN",
                    f"UPDATE d.t SET n = n + 1 WHERE id BETWEEN {low} AND {low + 20}",
                    f"REPLACE INTO d.u VALUES ({key}, {low})",
                    f"INSERT INTO d.log (client, step) VALUES ({self._number}, {step})",
                    "COMMIT",
                )
                self.acknowledged.append((self._number, step))
            except (pymysql.Error, OSError):
                time.sleep(0.1)

    def stop(self) -> None:
        self._stopped.set()
        self.join()


@contextlib.contextmanager
def under_load(primary: Server) -> Iterator[list[Client]]:
    print(f"ATOLL_REPLICA_SEED={SEED}")
    clients = [Client(primary, number) for number in range(CLIENTS)]
    for client in clients:
        client.start()
    try:
        yield clients
    finally:
        for client in clients:
            client.stop()


@pytest.fixture(params=["file", "versitygw"])
def primary(lab: Lab, request) -> Server:
    options = {
        "server_id": 1,
        "log_bin": "binlog",
        "rpl_semi_sync_master_enabled": 1,
        "rpl_semi_sync_master_timeout": 2000,  # ms, for which commits wait while the replica is dead
    }
    made = server_maker(lab, request.param, atoll_durability="async", **options)("primary").start()
    made.run(
        "SET sql_log_bin = 0",
        "CREATE USER replica@'127.0.0.1'",
        "GRANT REPLICATION SLAVE ON *.* TO replica@'127.0.0.1'",
        "SET sql_log_bin = 1",
        "CREATE DATABASE d",
        "CREATE TABLE d.t (id INT PRIMARY KEY, n INT, text VARCHAR(64), KEY (n)) ENGINE=ATOLL COMPRESSION=lz4",
        "CREATE TABLE d.u (id INT PRIMARY KEY, v INT) ENGINE=ATOLL",
        "CREATE TABLE d.log (id INT AUTO_INCREMENT PRIMARY KEY, client INT, step INT) ENGINE=ATOLL",
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


def seeded(primary: Server, replica: Server, *options: str) -> dict:
    """Seeds the replica. Returns what atollctl says: the clone, and the statements."""
    made = seed(primary, replica, "--json", *options)
    assert made.returncode == 0, made.stdout + made.stderr
    return json.loads(made.stdout)


def run_script(replica: Server, sql: str) -> None:
    replica.run(*(line.rstrip(";") for line in sql.splitlines() if not line.startswith("--")))


def check_equal(primary: Server, replica: Server) -> None:
    position = primary.value("SELECT @@gtid_binlog_pos")
    waited = replica.value(f"SELECT MASTER_GTID_WAIT('{position}', {CATCHES_UP_WITHIN_S})")
    assert waited == 0, replica.run("SHOW SLAVE STATUS")
    assert database_digests(replica, "d") == database_digests(primary, "d")


def kill_in_turn(primary: Server, replica: Server) -> None:
    """Kills the replica and then the primary, under load. Before that the primary waits for the replica."""

    def is_semi_synchronous() -> bool:
        status = primary.status("Rpl_semi_sync_master%")
        return (
            status["rpl_semi_sync_master_status"] == "ON" and int(status["rpl_semi_sync_master_yes_tx"]) > 0
        )

    for round_number in range(KILLS):
        wait_until(is_semi_synchronous, 30, f"semi-synchronous commits in round {round_number}")
        replica.kill()
        time.sleep(0.5)
        replica.start()
        replica.run("START SLAVE")
        wait_until(is_semi_synchronous, 30, "semi-synchronous commits after the kill of the replica")
        primary.kill()
        primary.start()
        replica.run("STOP SLAVE", "START SLAVE")  # it would try to connect again only once in a minute


def test_a_replica_begins_where_its_clone_ends(lab: Lab, primary: Server, tmp_path) -> None:
    replica, file = replica_of(primary, lab, "replica"), tmp_path / "start.sql"
    with under_load(primary) as clients:
        time.sleep(0.5)
        made = seed(primary, replica, "--sql", str(file))
        assert made.returncode == 0, made.stdout + made.stderr
        assert "NO TABLE OF ANOTHER ENGINE" in made.stdout and "--system=users" in made.stdout
        assert file.read_text() in made.stdout
        replica.start()
        run_script(replica, file.read_text())
        kill_in_turn(primary, replica)
    check_equal(primary, replica)
    acknowledged = {step for client in clients for step in client.acknowledged}
    assert len(acknowledged) > 50, "there was no load"
    assert acknowledged <= set(replica.run("SELECT client, step FROM d.log"))
    again = seed(primary, replica, "--sql", str(file))
    assert again.returncode == 1 and "exists" in again.stderr


@pytest.mark.parametrize("was_replica", [False, True])
def test_a_replica_that_has_drifted_shares_files_again(lab: Lab, primary: Server, was_replica: bool) -> None:
    """`was_replica`: the primary has a table with the position of replication in ATOLL, which its clones have, too."""

    def now() -> dict[str, int]:
        listed = atollctl(primary, "clone", "list", "--json")
        [clone] = json.loads(listed.stdout)
        return clone["now"]

    if was_replica:
        primary.run("SET GLOBAL gtid_slave_pos = '5-5-5'", "ALTER TABLE mysql.gtid_slave_pos ENGINE=ATOLL")
    primary.run("OPTIMIZE TABLE d.t", "SELECT ATOLL_SNAPSHOT('all is in the bucket')")
    replica = replica_of(primary, lab, "replica")
    made = seeded(primary, replica)
    replica.start()
    run_script(replica, made["statements"])
    primary.run("UPDATE d.t SET text = REVERSE(text)")
    check_equal(primary, replica)
    replica.run("OPTIMIZE TABLE d.t", "SELECT ATOLL_SNAPSHOT('the files of the replica are in the bucket')")
    assert now()["own_bytes"] > 500_000 > now()["shared_bytes"], "the replica has drifted"
    running = seed(primary, replica, "--again", "--yes")
    assert running.returncode == 1, "its server runs"
    primary.run("OPTIMIZE TABLE d.t", "SELECT ATOLL_SNAPSHOT('again')")
    replica.stop()
    asked = seed(primary, replica, "--again")
    assert asked.returncode != 0 and "--yes" in asked.stderr
    made = seeded(primary, replica, "--again", "--yes")
    assert made["clone"]["shared_bytes"] > 500_000, "the large table is in shared files"
    assert (now()["shared_bytes"], now()["own_bytes"]) == (made["clone"]["shared_bytes"], 0)
    shutil.rmtree(replica.data / "#atoll")
    replica.start()
    run_script(replica, made["statements"])
    primary.run("DELETE FROM d.t WHERE id % 3 = 0", "INSERT INTO d.log (client) VALUES (-1)")
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


def test_a_primary_without_gtids_is_refused_and_an_empty_one_is_not(lab: Lab) -> None:
    make = server_maker(lab, "file", server_id=1)
    primary = make("primary").start()
    primary.restart()  # so that the bucket has a state
    replica = replica_of(primary, lab, "replica")
    assert "gtid_slave_pos = ''" in seeded(primary, replica)["statements"], "it misses nothing"
    primary.run(
        "CREATE DATABASE d",
        "CREATE TABLE d.t (id INT PRIMARY KEY) ENGINE=ATOLL",
        "SELECT ATOLL_SNAPSHOT('s')",
    )
    other = replica_of(primary, lab, "other")
    refused = seed(primary, other)
    assert refused.returncode == 1 and "log_bin" in refused.stderr, refused.stdout + refused.stderr
    primary.stop()
    primary.options["log_bin"] = "binlog"
    primary.start()
    primary.run("INSERT INTO d.t VALUES (1)", "SELECT ATOLL_SNAPSHOT('t')")
    assert "gtid_slave_pos = '0-1-" in seeded(primary, other)["statements"]
