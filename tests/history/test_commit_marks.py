"""Goal:   every acknowledged commit is in the log exactly once, in the order of the binary log, with the
        GTID, position and time that a restore to one transaction needs. This holds for several sessions, each
        kind of commit, a replica without a binary log, and after kill -9.
Method: the commits that atollctl reads in the bucket are compared with the GTIDs that the clients got, and
        with the text of the binary log.
"""

from __future__ import annotations

import contextlib
import json
import re
import subprocess
import threading
import time

import pymysql
from harness import paths
from harness.process import wait_until

CLIENTS = 8
KILL_AFTER = 400  # commits
LARGE_ROWS = 60_000

EVENT = re.compile(r"^#\d{6} .* end_log_pos (\d+)\b(?:.*\tGTID (\d+-\d+-\d+))?")
NO_PART_OF_A_GROUP = ("Binlog checkpoint", "\tRotate to", "\tStop", "\tGtid list")


def start(lab, name: str = "server", /, **options):
    defaults = {"atoll_url": f"file://{lab.home / name}-bucket", "atoll_durability": "sync"}
    server = lab.server(name, **{**defaults, **options}).start()
    server.run(
        "CREATE DATABASE d", "CREATE TABLE d.t (id INT PRIMARY KEY AUTO_INCREMENT, v INT) ENGINE=ATOLL"
    )
    return server


def commits(server) -> list[dict]:
    """The commits that a restore from the bucket would replay."""
    command = [str(paths.program("atollctl")), "--json", "commits", str(server.options["atoll_url"])]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def gtid_of(commit: dict) -> str | None:
    gtid = commit["gtid"]
    return gtid and f"{gtid['domain']}-{gtid['server']}-{gtid['sequence']}"


def gtids_of(found: list[dict]) -> list[str]:
    return [gtid for gtid in map(gtid_of, found) if gtid]


def binary_log(server) -> dict[str, tuple[int, int]]:
    """Returns the GTIDs in the order of the binary log, with file number and end position of each event
    group."""
    groups: dict[str, tuple[int, int]] = {}
    for path in sorted(server.data.glob("binlog.[0-9]*")):
        # The exit status is ignored, because a killed server may have left an empty file.
        done = subprocess.run(
            [paths.program("mariadb-binlog"), str(path)], capture_output=True, text=True, check=False
        )
        gtid = None
        for line in done.stdout.splitlines():
            event = EVENT.match(line)
            if event is None or any(words in line for words in NO_PART_OF_A_GROUP):
                continue
            gtid = event[2] or gtid
            if gtid:
                groups[gtid] = (int(path.suffix[1:]), int(event[1]))
    return groups


class Client(threading.Thread):
    """Commits until the server has died, and notes the GTIDs of acknowledged commits."""

    def __init__(self, server, number: int, rows: int = 1):
        super().__init__()
        self._insert = f"INSERT INTO t (v) SELECT {number} FROM seq_1_to_{rows}"
        self.acknowledged: list[str] = []
        self._connection = server.connect("d", autocommit=False)

    def run(self) -> None:
        with contextlib.suppress(pymysql.Error, OSError):
            cursor = self._connection.cursor()
            while True:
                for _ in range(1 + len(self.acknowledged) % 3):
                    cursor.execute(self._insert)
                self._connection.commit()
                self.acknowledged.append("")
                cursor.execute("SELECT @@last_gtid")
                self.acknowledged[-1] = cursor.fetchone()[0]


def commit_until_killed(server, rows: int = 1) -> list[str]:
    """Lets clients commit until KILL_AFTER commits, then kills the server. A commit has one to three inserts
    of `rows` rows. Returns the GTIDs of all acknowledged commits."""
    clients = [Client(server, number, rows) for number in range(CLIENTS)]
    for client in clients:
        client.start()
    wait_until(lambda: sum(len(client.acknowledged) for client in clients) >= KILL_AFTER, 120, "the commits")
    server.kill()
    for client in clients:
        client.join()
    return [gtid for client in clients for gtid in client.acknowledged]


def expect_as_in(logged: dict[str, tuple[int, int]], found: list[dict]) -> None:
    """Checks that the commits with GTIDs are in the order of the binary log, and have its positions."""
    gtids = gtids_of(found)
    assert gtids == [gtid for gtid in logged if gtid in set(gtids)]
    for commit in found:
        if commit["binlog"]:
            position = (commit["binlog"]["file"], commit["binlog"]["offset"])
            assert logged[gtid_of(commit)] == position, commit


def test_commits_of_several_sessions_after_kill_9(lab):
    began = time.time()
    server = start(lab, log_bin="binlog", max_binlog_size=65536)
    acknowledged = commit_until_killed(server)
    found = commits(server)
    gtids = gtids_of(found)
    missing = {gtid for gtid in acknowledged if gtid} - set(gtids)
    assert not missing
    assert len(gtids) == len(set(gtids))
    logged = binary_log(server)
    expect_as_in(logged, found)
    assert all(commit["binlog"] for commit in found if commit["gtid"])
    assert len({commit["binlog"]["file"] for commit in found if commit["binlog"]}) > 1, "one file only"
    assert all(began <= commit["time_us"] / 1e6 <= time.time() for commit in found)
    server.start()
    rows = server.value("SELECT COUNT(*) FROM d.t")
    assert rows >= len(acknowledged)


def test_groups_without_a_binary_log(lab):
    """RocksDB writes several commits as one group, and each commit must keep its mark."""
    server = start(lab, skip_log_bin=None)
    before = len(commits(server))
    # Commits of one row are too short to come into the same group often.
    acknowledged = commit_until_killed(server, rows=200)
    found = commits(server)[before:]
    assert not gtids_of(found)
    assert len(acknowledged) <= len(found) <= len(acknowledged) + CLIENTS
    records = [(commit["log"], commit["sequence"]) for commit in found]
    assert len(set(records)) < len(records), "no group"
    ends = [(commit["log"], commit["sequence"], commit["end"], commit["changes"]) for commit in found]
    assert ends == sorted(set(ends)), "each commit of a group ends behind the one before"


def run_kinds_of_commits(server) -> tuple[list[str], int]:
    """Runs one commit of each kind. Returns the GTIDs of those that are in the binary log, and the number of
    the others."""
    connection, other = server.connect("d"), server.connect("d")
    cursor, second = connection.cursor(), other.cursor()
    told = []

    def run(*statements: str, on=cursor) -> None:
        for statement in statements:
            on.execute(statement)

    def logged(*statements: str, on=cursor) -> None:
        run(*statements, on=on)
        on.execute("SELECT @@last_gtid")
        told.append(on.fetchone()[0])

    logged("INSERT INTO t (v) VALUES (1)")
    logged("BEGIN", "INSERT INTO t (v) VALUES (1)", "INSERT INTO i VALUES (1)", "COMMIT")
    logged("START TRANSACTION WITH CONSISTENT SNAPSHOT", "UPDATE t SET v = v + 1", "COMMIT")
    run("SET sql_log_bin = 0", "INSERT INTO t (v) VALUES (2)")
    run("START TRANSACTION WITH CONSISTENT SNAPSHOT", "INSERT INTO t (v) VALUES (2)", "COMMIT")
    run("BEGIN", "INSERT INTO t (v) VALUES (2)", "INSERT INTO i VALUES (2)", "COMMIT", "SET sql_log_bin = 1")
    logged("XA START 'a'", "INSERT INTO t (v) VALUES (3)", "XA END 'a'", "XA PREPARE 'a'", "XA COMMIT 'a'")
    logged("XA START 'b'", "INSERT INTO t (v) VALUES (3)", "XA END 'b'", "XA COMMIT 'b' ONE PHASE")
    run("XA START 'c'", "INSERT INTO t (v) VALUES (3)", "XA END 'c'", "XA PREPARE 'c'")
    connection.close()
    wait_until(lambda: server.run("XA RECOVER"), 60, "a prepared transaction without a connection")

    def commit_c() -> bool:
        with contextlib.suppress(pymysql.Error):
            logged("XA COMMIT 'c'", on=second)
            return True
        return False

    wait_until(commit_c, 60, "XA COMMIT by another connection")
    other.close()
    return told, 3


def test_each_kind_of_commit_has_its_gtid(lab):
    server = start(lab, log_bin="binlog")
    server.run("CREATE TABLE d.i (id INT) ENGINE=InnoDB")
    before = len(commits(server))
    told, unlogged = run_kinds_of_commits(server)
    found = commits(server)[before:]
    assert gtids_of(found) == told
    assert len(found) - len(told) == unlogged
    expect_as_in(binary_log(server), found)
    assert [bool(commit["binlog"]) for commit in found if commit["gtid"]].count(False) == 2, "XA COMMIT twice"


def test_a_transaction_larger_than_its_memory_has_a_mark(lab):
    server = start(lab, log_bin="binlog", atoll_transaction_memory=1 << 20)
    large = f"INSERT INTO t (v) SELECT seq FROM mysql.seq_1_to_{LARGE_ROWS}"
    told = server.run(large, "SELECT @@last_gtid", database="d")[0][0]
    assert gtid_of(commits(server)[-1]) == told
    server.run("SET sql_log_bin = 0", large, database="d")
    last = commits(server)[-1]
    assert gtid_of(last) is None
    assert not last["is_recovered"]


def test_a_commit_that_recovery_decides_says_so(lab):
    server = start(lab, log_bin="binlog", rpl_semi_sync_master_wait_point="AFTER_SYNC",
                   rpl_semi_sync_master_timeout=3_600_000)  # fmt: skip
    server.run("SET GLOBAL rpl_semi_sync_master_enabled = 1")
    before = len(commits(server))
    writer = Client(server, 1)
    writer.start()
    waiting = "SELECT COUNT(*) FROM information_schema.processlist WHERE state LIKE '%semi-sync%'"
    wait_until(lambda: server.value(waiting) == 1, 120, "a commit that waits for a replica")
    server.kill()
    writer.join()
    assert len(commits(server)) == before
    server.start()
    server.run("INSERT INTO d.t (v) VALUES (2)")  # waits until all earlier log is in the bucket
    recovered = [commit for commit in commits(server) if commit["is_recovered"]]
    assert [gtid_of(commit) for commit in recovered] == [None]
    assert server.value("SELECT COUNT(*) FROM d.t") == 2


def test_a_replica_without_a_binary_log_has_the_gtids_of_its_primary(lab):
    primary = start(lab, "primary", server_id=1, log_bin="binlog")
    primary.run(
        "SET sql_log_bin = 0",
        "CREATE USER replica@'127.0.0.1'",
        "GRANT REPLICATION SLAVE ON *.* TO replica@'127.0.0.1'",
    )
    replica = lab.server(
        "replica",
        atoll_url=f"file://{lab.home / 'replica-bucket'}",
        atoll_durability="sync",
        server_id=2,
        slave_parallel_threads=4,
        slave_parallel_mode="optimistic",
    ).start()
    replica.run(
        f"CHANGE MASTER TO MASTER_HOST='127.0.0.1', MASTER_PORT={primary.port}, MASTER_USER='replica', "
        "MASTER_USE_GTID=slave_pos, MASTER_CONNECT_RETRY=1",
        "START SLAVE",
    )
    primary.run("CREATE TABLE d.i (id INT) ENGINE=InnoDB")
    told, _ = run_kinds_of_commits(primary)
    for value in range(40):
        primary.run(f"INSERT INTO d.t (v) VALUES ({value})")
    goal = primary.value("SELECT @@gtid_binlog_pos")
    wait_until(lambda: replica.value("SELECT @@gtid_slave_pos") == goal, 120, "the replica")
    replica.kill()
    found = commits(replica)
    gtids = gtids_of(found)
    logged = binary_log(primary)
    assert set(told) <= set(gtids)
    of_rows = [gtid for gtid in logged if gtid in set(gtids)]
    assert [gtid for gtid in gtids if gtid in set(told)] == told
    assert gtids == sorted(gtids, key=of_rows.index)
    assert not any(commit["binlog"] for commit in found)


def newest_root(server) -> dict:
    command = [str(paths.program("atollctl")), "--json", "roots", str(server.options["atoll_url"])]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    return [root for root in json.loads(done.stdout) if root["kind"] == "root"][-1]


def test_roots_say_how_far_the_commits_go(lab):
    """A root has the last GTID of each domain, also after a restart, a crash and the loss of the
    directory."""
    server = start(lab, log_bin="binlog", server_id=7)
    last = server.run(
        "INSERT INTO t (v) VALUES (1)",
        "SET gtid_domain_id = 3",
        "INSERT INTO t (v) VALUES (2)",
        "SET gtid_domain_id = 0",
        "INSERT INTO t (v) VALUES (3)",
        "SELECT @@last_gtid",
        database="d",
    )[0][0]
    expected = sorted(server.value("SELECT @@gtid_binlog_pos").split(","))
    assert len(expected) == 2
    at = binary_log(server)[last]
    server.kill()
    server.start()
    server.restart()
    root = newest_root(server)
    assert root["gtid_position"].split(",") == expected
    assert root["binlog"] == {"file": at[0], "offset": at[1]}
    assert abs(root["commit_us"] / 1e6 - time.time()) < 600
    assert root["sequence"] > 0
    server.stop()
    server.wipe()
    server.start()
    server.run("SET sql_log_bin = 0", "INSERT INTO d.t (v) VALUES (4)")
    server.restart()
    later = newest_root(server)
    assert later["gtid_position"].split(",") == expected
    assert later["epoch"] > root["epoch"]
    assert later["commit_us"] > root["commit_us"]
