"""Goal:   a wrong setting or a failing bucket gives an error that names the cause and the next step; the
        server stays up; no data are lost.
Method: start servers with wrong settings; let the bucket, the disk and statements fail in the middle of their
        work.
"""

from __future__ import annotations

import os
import random
import re
import subprocess
import threading
import time

import pymysql
import pytest
from harness import disk, workload
from harness.digest import table_digest
from harness.ledger import ClientLedger, check_local, explain
from harness.process import free_port, wait_until
from harness.proxy import Fault, Request
from harness.server import Server
from harness.tables import Statement, create_wide, drained

ANY_WRITE = "CREATE TABLE d.t (id INT PRIMARY KEY) ENGINE=ATOLL"


def complaint(server: Server) -> str:
    """Starts the server, and expects that it runs and that ATOLL cannot be used. Returns the SQL error and
    the log."""
    mark = server.log_mark()
    server.start()
    server.run(
        "CREATE DATABASE d", "CREATE TABLE d.other (id INT) ENGINE=InnoDB", "INSERT INTO d.other VALUES (1)"
    )
    with pytest.raises(pymysql.Error) as error:
        server.run(ANY_WRITE)
    assert server.running(), "the server must stay up"
    log = "\n".join(line for line in server.log_since(mark).splitlines() if "atoll" in line.lower())
    return f"{error.value}\n{log}"


def assert_names(text: str, *patterns: str) -> None:
    for pattern in patterns:
        assert re.search(pattern, text, re.IGNORECASE), f"no /{pattern}/ in:\n{text}"


# ---- wrong settings ------------------------------------------------------------------------------------


def test_wrong_endpoint(lab):
    port = free_port()
    server = lab.s3_server(lab.store(), endpoint=f"127.0.0.1:{port}")
    assert_names(complaint(server), rf"127\.0\.0\.1:{port}", "atoll_s3_endpoint|endpoint")


@pytest.mark.parametrize("setting", ["atoll_s3_access_key", "atoll_s3_secret_key"])
def test_wrong_key(lab, setting):
    server = lab.s3_server(lab.store(), **{setting: "notthekey12345"})
    text = complaint(server)
    assert_names(
        text, "denied|forbidden|403|InvalidAccessKeyId|SignatureDoesNotMatch", "atoll_s3_(access|secret)_key"
    )
    assert "notthekey12345" not in text or setting != "atoll_s3_secret_key", "a secret was printed"


def test_missing_bucket(lab):
    server = lab.s3_server(lab.store(), atoll_url="s3://no-such-bucket/db")
    assert_names(
        complaint(server), "no-such-bucket", "NoSuchBucket|does not exist|not found", "create|atoll_url"
    )


def test_unknown_kind_of_url(lab):
    assert_names(
        complaint(lab.server(atoll_url="ftp://somewhere/db")), "atoll_url", "file://.*s3://|s3://.*file://"
    )


def test_clock_skew(lab):
    store = lab.store()
    proxy = lab.proxy(store)
    proxy.add(Fault(status=403, code="RequestTimeTooSkewed"))
    text = complaint(lab.s3_server(store, endpoint=proxy.endpoint))
    assert_names(text, "RequestTimeTooSkewed|skew", "clock|time")


@pytest.mark.parametrize("way", ["ignored", "refused"])
def test_bucket_without_conditional_put(lab, way):
    store = lab.store()
    proxy = lab.proxy(store)

    def conditional(request: Request) -> bool:
        return "if-none-match" in request.headers

    if way == "ignored":
        proxy.add(Fault(conditional, unconditional=store.client))
    else:
        proxy.add(Fault(conditional, status=501, code="NotImplemented"))
    assert_names(complaint(lab.s3_server(store, endpoint=proxy.endpoint)), "conditional|If-None-Match")


def test_read_only_directory(lab):
    with disk.small_disk(lab.home / "mounted", 16) as mounted:
        if mounted is None:
            pytest.skip("NOT TESTED: mounting is not allowed here, so no directory is read-only for root")
        subprocess.run(["mount", "-o", "remount,ro", str(mounted)], check=True)
        text = complaint(lab.server(atoll_url=f"file://{mounted}/bucket"))
        assert_names(text, "read-only|permission", re.escape(str(mounted)))


@pytest.mark.parametrize(("option", "named"), [
    ("COMPRESSION=snappy", "snappy|compression"),
    ("COMPRESSION=zstd COMPRESSION_LEVEL=99", "COMPRESSION_LEVEL|level"),
])  # fmt: skip
def test_unknown_table_option_value(lab, option, named):
    server = lab.server().start()
    server.run("CREATE DATABASE d")
    with pytest.raises(pymysql.Error) as error:
        server.run(f"CREATE TABLE d.t (id INT) ENGINE=ATOLL {option}")
    assert_names(str(error.value), named)
    assert server.run("SHOW TABLES IN d") == []


def test_row_and_key_too_large(lab):
    server = lab.server().start()
    server.run("CREATE DATABASE d", "CREATE TABLE d.t (id INT PRIMARY KEY, b LONGBLOB) ENGINE=ATOLL")
    with pytest.raises(pymysql.Error) as error:
        server.run("CREATE TABLE d.k (v VARCHAR(16000) PRIMARY KEY) ENGINE=ATOLL CHARSET latin1")
    assert_names(str(error.value), "key|too long|too large")
    server.run("INSERT INTO d.t VALUES (1, 'kept')")
    with pytest.raises(pymysql.Error):
        server.run("INSERT INTO d.t VALUES (2, REPEAT('x', 64 * 1024 * 1024))")
    assert server.run("SELECT id, b FROM d.t") == [(1, b"kept")]


# ---- the bucket in trouble ------------------------------------------------------------------------------


class Load:
    """Three writers on one server, with ledgers of their commits."""

    def __init__(self, server: Server):
        self.server = server
        names = workload.client_names(3)
        workload.create_tables(server, "ATOLL", names)
        self.ledgers = {name: ClientLedger(name, workload.first_state()) for name in names}
        self.clients = [workload.Client(server, ledger, f"7-{name}") for name, ledger in self.ledgers.items()]
        for client in self.clients:
            client.start()

    def acked(self) -> int:
        return sum(ledger.last_acked() for ledger in self.ledgers.values())

    def kill_and_check(self) -> None:
        workload.kill_under(self.server, self.clients)
        self.server.start()
        self.check()

    def check(self) -> None:
        for name, ledger in self.ledgers.items():
            number = workload.read_number(self.server, name)
            check_local(ledger, number)
            expected = ledger.state_at(number)
            expected.pop("pot")
            assert explain(expected, workload.read_state(self.server, name)) == ""
        assert workload.index_differences(self.server) == []


def wait_for_progress(load: Load, what: str, timeout_s: float = 60) -> None:
    before = load.acked()
    wait_until(lambda: load.acked() > before + 30, timeout_s, what)


def test_bucket_down_for_a_while(lab):
    """Commits wait at the lag limit while the bucket does not answer. They go on by themselves when it
    answers again."""
    store = lab.store()
    proxy = lab.proxy(store)
    server = lab.s3_server(store, endpoint=proxy.endpoint, atoll_lag_max_ms=500).start()
    load = Load(server)
    wait_for_progress(load, "the load to begin")
    proxy.down()
    time.sleep(6)
    assert server.value("SELECT COUNT(*) FROM load.accounts") > 0, "reads of local data need no bucket"
    stalled = load.acked()
    time.sleep(1)
    assert load.acked() - stalled <= 3, "commits go on although the bucket lags more than atoll_lag_max_ms"
    proxy.up()
    wait_for_progress(load, "commits to go on after the bucket came back")
    load.kill_and_check()
    server.stop()
    server.wipe()
    server.initialize().start()
    load.check()


def test_bucket_server_killed_during_load(lab):
    store = lab.store()
    server = lab.s3_server(store).start()
    load = Load(server)
    wait_for_progress(load, "the load to begin")
    store.kill()
    time.sleep(2)
    store.start()
    wait_for_progress(load, "commits to go on after kill -9 of the bucket's server")
    load.kill_and_check()
    server.stop()
    server.wipe()
    server.initialize().start()
    load.check()


def test_unclear_answers_lose_and_double_nothing(lab):
    """Replies lost after the request was applied, 503, 409, cut connections, at random."""
    seed = random.randrange(1 << 30)
    print(f"seed {seed}")
    chance, lock = random.Random(seed), threading.Lock()

    def sometimes(share: float):
        def decide(_request) -> bool:
            with lock:
                return chance.random() < share

        return decide

    store = lab.store()
    proxy = lab.proxy(store)
    server = lab.s3_server(store, endpoint=proxy.endpoint).start()
    faults = [proxy.add(fault) for fault in (
        Fault(sometimes(0.05), drop_reply=True), Fault(sometimes(0.05), status=503), Fault(sometimes(0.05), cut=True),
        Fault(lambda request: request.kind == "put" and sometimes(0.05)(request), status=409),
        Fault(sometimes(0.05), delay_s=0.3))]  # fmt: skip
    load = Load(server)
    time.sleep(8)
    assert all(fault.acted > 0 for fault in faults), f"not enough requests: {proxy.counts()}"
    wait_for_progress(load, "commits under faults")
    load.kill_and_check()
    server.stop()
    proxy.clear()
    server.wipe()
    server.initialize().start()
    load.check()


def test_server_starts_when_the_bucket_is_down_and_says_so(lab):
    store = lab.store()
    proxy = lab.proxy(store)
    server = lab.s3_server(store, endpoint=proxy.endpoint).start()
    server.run(
        "CREATE DATABASE d",
        "CREATE TABLE d.t (id INT PRIMARY KEY) ENGINE=ATOLL",
        "INSERT INTO d.t VALUES (1)",
    )
    server.stop()
    proxy.down()
    server.start()
    with pytest.raises(pymysql.Error) as error:
        server.run("INSERT INTO d.t VALUES (2)")
    assert_names(f"{error.value}\n{server.log()}", "endpoint|connect|unreachable|reach")
    proxy.up()
    server.restart()
    assert server.run("SELECT id FROM d.t") == [(1,)], "a table must not vanish because the bucket was away"


# ---- ALTER interrupted -----------------------------------------------------------------------------------

ALTER_ROWS = 300_000  # about 150 MB: some seconds of ALTER


class InterruptedAlter:
    """A wide InnoDB table, its ALTER to ATOLL in a thread, and the checks after the interruption."""

    def __init__(self, lab, **options: object):
        self.store = lab.store()
        self.proxy = lab.proxy(self.store)
        self.server: Server = lab.s3_server(self.store, endpoint=self.proxy.endpoint, **options).start()
        create_wide(self.server, "wide", ALTER_ROWS)
        # A second ATOLL table, so that the bucket has objects that must stay when the litter is removed.
        create_wide(self.server, "kept", 1000, "ATOLL")
        self.digest = table_digest(self.server, "big", "wide")
        self.before = self.store.client.total_bytes("db/sst/")
        self.alter = Statement(self.server, "ALTER TABLE wide ENGINE=ATOLL COMPRESSION=none")

    def start_and_reach_the_middle(self) -> None:
        """Returns when part of the table has been written, locally or into the bucket."""
        self.alter.start()
        atoll = self.server.data / "#atoll"
        wait_until(lambda: not self.alter.is_alive() or disk.allocated_bytes(atoll) > 40_000_000
                   or self.store.client.total_bytes("db/sst/") > self.before + 20_000_000,
                   60, "ALTER to write something")  # fmt: skip
        assert self.alter.is_alive(), f"ALTER ended before it could be interrupted: {self.alter.error}"

    def check_old_table(self) -> None:
        engine = self.server.value("SELECT engine FROM information_schema.tables WHERE table_schema = 'big' "
                                   "AND table_name = 'wide'")  # fmt: skip
        assert engine == "InnoDB"
        assert table_digest(self.server, "big", "wide") == self.digest
        assert {name for (name,) in self.server.run("SHOW TABLES IN big")} == {"wide", "kept"}
        assert not [
            path.name for path in (self.server.data / "big").iterdir() if path.name.startswith("#sql")
        ]

    def check_no_litter(self, timeout_s: float = 180) -> None:
        local = self.server.data / "#atoll"
        wait_until(lambda: disk.apparent_bytes(local, disk.OBJECT_SUFFIXES) < 5_000_000, timeout_s,
                   "the local files of the interrupted ALTER to go")  # fmt: skip
        wait_until(lambda: self.store.client.total_bytes("db/sst/") < self.before + 5_000_000, timeout_s,
                   "the objects of the interrupted ALTER to go", 0.5)  # fmt: skip

    def check_repeatable(self) -> None:
        self.server.run("ALTER TABLE big.wide ENGINE=ATOLL")
        assert table_digest(self.server, "big", "wide") == self.digest


def test_killed_alter_leaves_the_old_table_and_no_litter(lab):
    case = InterruptedAlter(lab)
    case.start_and_reach_the_middle()
    case.server.run(f"KILL QUERY {case.alter.connection_id}")
    asked = time.monotonic()
    error = case.alter.finished(60)
    assert error is not None and error.args[0] in (1317, 1927), f"KILL was not obeyed: {error}"
    assert time.monotonic() - asked < 10, "KILL took too long"
    case.check_old_table()
    case.check_no_litter()
    case.check_repeatable()


def test_kill_9_during_alter_leaves_the_old_table_and_no_litter(lab):
    case = InterruptedAlter(lab)
    case.start_and_reach_the_middle()
    case.server.kill()
    case.alter.finished(30)
    case.server.start()
    case.check_old_table()
    case.check_no_litter()
    case.check_repeatable()


def test_short_outage_of_the_bucket_does_not_fail_alter(lab):
    case = InterruptedAlter(lab)
    case.start_and_reach_the_middle()
    case.proxy.down()
    time.sleep(4)
    case.proxy.up()
    assert case.alter.finished() is None
    assert table_digest(case.server, "big", "wide") == case.digest
    drained(case.server)


def test_alter_can_be_killed_while_the_bucket_is_away(lab):
    """ALTER may end by itself after atoll_lag_wait_timeout. If it waits longer, KILL must end it, although
    the bucket does not answer."""
    case = InterruptedAlter(lab, atoll_lag_wait_timeout=5, atoll_request_timeout=3)
    case.start_and_reach_the_middle()
    case.proxy.down()
    case.alter.join(15)
    if case.alter.is_alive():
        case.server.run(f"KILL QUERY {case.alter.connection_id}")
    error = case.alter.finished(45)
    assert case.server.running()
    case.proxy.up()
    if error is None:  # everything was uploaded before the bucket went down
        assert table_digest(case.server, "big", "wide") == case.digest
        return
    assert_names(str(error), "bucket|endpoint|connect|timed? ?out|atoll|interrupted")
    case.check_old_table()
    case.check_no_litter()
    case.check_repeatable()


# ---- the disk is full -------------------------------------------------------------------------------------


def test_full_disk_gives_an_error_and_is_survived(lab):
    store = lab.store()
    server = lab.s3_server(store, atoll_cache_size=16 << 20).initialize()
    with disk.small_disk(server.data / "#atoll", 160) as mounted:
        if mounted is None:
            pytest.skip("NOT TESTED: mounting a small file system is not allowed here")
        server.start()
        server.run("CREATE DATABASE d", "CREATE TABLE d.t (id INT PRIMARY KEY, b LONGBLOB) ENGINE=ATOLL")
        server.run("INSERT INTO d.t VALUES (0, 'first')")
        filler = mounted / "filler"
        free_bytes = disk.free_bytes(mounted)
        filler.write_bytes(b"x" * max(0, free_bytes - 3_000_000))
        acked, error = insert_until_refused(server, 400)
        assert error is not None, "the disk was full and yet every row was accepted"
        assert_names(f"{error}\n{server.log_tail(6000)}", "space|full|errno: 28|ENOSPC")
        assert server.running()
        assert server.value("SELECT COUNT(*) FROM d.t") >= 1
        filler.unlink()
        wait_until(lambda: accepts_rows(server), 60, "writes to work again after space was freed", 0.5)
        server.restart()
        found = {number for (number,) in server.run("SELECT id FROM d.t WHERE id BETWEEN 1 AND 900000")}
        assert set(range(1, acked + 1)) <= found, f"of {acked} acknowledged rows only {len(found)} are there"
        server.kill()


def insert_until_refused(server: Server, attempts: int) -> tuple[int, pymysql.Error | None]:
    connection = server.connect("d")
    with connection.cursor() as cursor:
        cursor.execute("SET SESSION max_statement_time = 60")
        for number in range(1, attempts + 1):
            try:
                # Half a megabyte of random bytes, which cannot be compressed.
                cursor.execute("INSERT INTO t VALUES (%s, %s)", (number, os.urandom(500_000)))
            except pymysql.Error as error:
                return number - 1, error
    return attempts, None


def accepts_rows(server: Server) -> bool:
    try:
        server.run("REPLACE INTO d.t VALUES (1000000, 'again')")
        return True
    except pymysql.Error:
        return False
