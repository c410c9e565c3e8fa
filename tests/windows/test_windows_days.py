"""Goal:   the windows that no single request defines: a clock that jumps, objects that were deleted by hand,
        a directory and a bucket of different databases, a later format version, many refused requests, a
        restored primary.
Method: each is caused with real servers. Either no data are lost or wrong, or an error names the cause.
"""

from __future__ import annotations

import json
import re
import subprocess
import threading
import time

import pymysql
import pytest
from harness import disk
from harness.atollctl import atollctl
from harness.digest import table_digest
from harness.objectstores import Minio
from harness.process import wait_until
from harness.proxy import Fault, Stop
from harness.server import Server, s3_options
from harness.tables import Statement, create_wide, drained
from harness.windows import CHUNK, PIECE, ROOT, TABLE_FILE, Scene, is_put, only_in_test_bucket, stores

DAY_S = 86_400


def tables_of(server: Server, rows: int) -> None:
    server.run(
        "CREATE DATABASE d",
        "CREATE TABLE d.t (id INT PRIMARY KEY, v VARCHAR(100)) ENGINE=ATOLL",
        f"INSERT INTO d.t SELECT seq, REPEAT('x', 50) FROM mysql.seq_1_to_{rows}",
    )


def refusal(server: Server) -> str:
    """Starts a server whose ATOLL must refuse to work. Returns the new messages in its error log."""
    mark = server.log_mark()
    server.start()
    with pytest.raises(pymysql.Error):
        server.run("CREATE DATABASE IF NOT EXISTS e", "CREATE TABLE e.t (id INT) ENGINE=ATOLL")
    said = server.log_since(mark)
    server.stop()
    return said


# ---- clocks ---------------------------------------------------------------------------------------------

# A library that shifts the time of day for the process into which it is preloaded. The kernel's clock and the
# clocks for waits stay right.
SHIFTED_CLOCK = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <sys/time.h>
#include <time.h>
static long shift(void) { const char *s = getenv("ATOLL_TEST_SHIFT_S"); return s ? atol(s) : 0; }
int clock_gettime(clockid_t clock, struct timespec *at) {
  static int (*real)(clockid_t, struct timespec *);
  if (!real) real = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
  int result = real(clock, at);
  if (clock == CLOCK_REALTIME) at->tv_sec += shift();
  return result;
}
int gettimeofday(struct timeval *at, void *zone) {
  (void)zone;
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  at->tv_sec = now.tv_sec;
  at->tv_usec = now.tv_nsec / 1000;
  return 0;
}
time_t time(time_t *at) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  if (at) *at = now.tv_sec;
  return now.tv_sec;
}
"""

# For each life of the server: the days by which its clock is wrong, and how this life ends.
CLOCKS = (
    (0, "stop"), (1, "stop"), (-1, "stop"), (1, "kill"), (-1, "kill"), (1, "wipe"), (-1, "wipe"), (0, "kill"),
)  # fmt: skip


@only_in_test_bucket
def test_a_clock_that_jumps_a_day(lab):
    """The bucket is a directory, because an S3 server would refuse requests with a wrong time
    (test_clock_skew)."""
    source, library = lab.home / "clock.c", lab.home / "clock.so"
    source.write_text(SHIFTED_CLOCK)
    subprocess.run(["cc", "-shared", "-fPIC", "-o", library, source, "-ldl"], check=True)
    server = lab.server(atoll_url=f"file://{lab.home / 'bucket'}", atoll_durability="sync")
    rows = 0
    wiped = False
    for day, end in CLOCKS:
        server.run_by = ("env", f"LD_PRELOAD={library}", f"ATOLL_TEST_SHIFT_S={day * DAY_S}")
        server.start(atoll_take_over="ON" if wiped else "OFF")
        assert abs(server.value("SELECT UNIX_TIMESTAMP()") - time.time() - day * DAY_S) < 60, "not shifted"
        if not rows:
            tables_of(server, 1)
            rows = 1
        assert server.value("SELECT COUNT(*) FROM d.t") == rows
        for _ in range(20):
            rows += 1
            server.run(f"INSERT INTO d.t VALUES ({rows}, 'x')")
        server.run("ALTER TABLE d.t FORCE, ALGORITHM=COPY")
        server.stop() if end == "stop" else server.kill()
        wiped = end == "wipe"
        if wiped:
            server.wipe()
    server.run_by = ()
    server.start()
    assert server.value("SELECT COUNT(*) FROM d.t") == rows


# ---- what does not belong together ------------------------------------------------------------------------


@only_in_test_bucket
@stores
def test_a_directory_of_another_database(lab, kind):
    """The directory is refused, and nothing is written to the bucket. With its own bucket it still works."""
    store = lab.store(kind)
    server = lab.s3_server(store)
    tables_of(server.start(), 10)
    server.stop()
    two = s3_options(store.endpoint, store.bucket, store.credentials, "two")
    lab.server("other", **two).start().stop()
    before = store.client.list("two/")
    mark = server.log_mark()
    server.start(**two)
    with pytest.raises(pymysql.Error):
        server.run("SELECT * FROM d.t")
    said = server.log_since(mark)
    assert re.search(r"belongs to database \S+, but .+ holds database", said), said
    server.stop()
    assert store.client.list("two/") == before
    assert server.start().value("SELECT COUNT(*) FROM d.t") == 10


@stores
def test_a_bucket_of_a_later_format(lab, kind):
    store = lab.store(kind)
    server = lab.s3_server(store)
    tables_of(server.start(), 10)
    server.stop()
    original = store.client.get("db/db.json")
    # A later version may compute the checksum over other fields, so it need not match here. The server must
    # report the format, not damage.
    later = {**json.loads(original), "format": 9, "crc32c": 1}
    store.client.put("db/db.json", json.dumps(later).encode())
    assert "format 9" in refusal(server)
    store.client.put("db/db.json", original)
    assert server.start().value("SELECT COUNT(*) FROM d.t") == 10


@only_in_test_bucket
@stores
def test_a_table_whose_object_was_deleted_by_hand(lab, kind):
    """The error names the object, and other tables work. When the object is put back, all rows can be
    read."""
    store = lab.store(kind)
    server = lab.s3_server(store).start()
    for table in ("wide", "whole"):
        create_wide(server, table, 20_000)
        server.run(f"ALTER TABLE big.{table} ENGINE=ATOLL COMPRESSION=none")
    drained(server)
    number = server.value(
        "SELECT MAX(file_number) FROM information_schema.atoll_files WHERE table_name = 'wide'"
    )
    listed = json.loads(atollctl(server, "--json", "ls").stdout)
    (key,) = (item["key"] for item in listed if item["number"] == number)
    server.stop()
    assert disk.remove_local_objects(server.data) > 0
    server.start()
    content = store.client.get(f"db/{key}")
    store.client.delete(f"db/{key}")
    with pytest.raises(pymysql.Error) as error:
        server.run("SELECT SUM(LENGTH(body)) FROM big.wide")
    said = f"{error.value}\n{server.log_tail(6000)}"
    assert key in said, said
    assert server.value("SELECT SUM(LENGTH(body)) FROM big.whole") == 20_000 * 512
    server.run("INSERT INTO big.whole VALUES (0, 'new')")
    store.client.put(f"db/{key}", content)
    server.stop()
    assert disk.remove_local_objects(server.data) > 0
    server.start()
    assert server.run("SELECT COUNT(*) FROM big.wide UNION ALL SELECT COUNT(*) FROM big.whole") == [
        (20_000,),
        (20_001,),
    ]


@only_in_test_bucket
@stores
def test_damaged_parts_of_the_cache(lab, kind):
    """Damaged parts are read from the bucket again."""
    server = lab.s3_server(lab.store(kind)).start()
    create_wide(server, "wide", 20_000)
    server.run("ALTER TABLE big.wide ENGINE=ATOLL COMPRESSION=none")
    expected = table_digest(server, "big", "wide")
    drained(server)
    server.stop()
    assert disk.remove_local_objects(server.data) > 0
    assert table_digest(server.start(), "big", "wide") == expected
    settled_cache(server)
    assert downloaded_by_reading(server, expected) < 1_000_000, "the cache is not used"
    server.stop()
    damaged = 0
    for path in disk.files_below(server.data / "#atoll" / "cache"):
        if path.stat().st_size > 1_000_000:
            content = bytearray(path.read_bytes())
            for position in range(70_000, len(content), 500_000):
                content[position] ^= 1
                damaged += 1
            path.write_bytes(content)
    assert damaged > 10
    assert downloaded_by_reading(server, expected) > damaged * 100_000, "no damaged part was fetched again"


def downloaded_by_reading(server: Server, expected) -> int:
    """Restarts the server and reads the table. Returns the bytes that were downloaded for this."""
    server.restart()
    before = server.counter("Atoll_bytes_downloaded")
    assert table_digest(server, "big", "wide") == expected
    return server.counter("Atoll_bytes_downloaded") - before


def settled_cache(server: Server) -> None:
    """Waits until the size of the part cache on disk does not change any more."""
    sizes = [-1]

    def settled() -> bool:
        sizes.append(disk.allocated_bytes(server.data / "#atoll" / "cache"))
        return sizes[-1] == sizes[-2] > 10_000_000

    wait_until(settled, 30, "the cache to be written", 0.5)


@only_in_test_bucket
def test_keys_that_expire_during_an_upload(lab):
    """New keys are written to the profile file, which the server reads again, so it goes on without a
    restart. Only MinIO can issue keys that expire."""
    store = lab.store(Minio)
    proxy = lab.proxy(store)
    profile = lab.home / "credentials"
    everything = json.dumps(
        {
            "Version": "2012-10-17",
            "Statement": [{"Effect": "Allow", "Action": ["s3:*"], "Resource": ["arn:aws:s3:::*"]}],
        }
    )

    def new_keys() -> str:
        keys, token = store.client.limited(everything)
        lines = ("[default]", f"aws_access_key_id = {keys.access_key}", f"aws_secret_access_key = {keys.secret_key}",
                 f"aws_session_token = {token}")  # fmt: skip
        written = profile.with_suffix(".new")
        written.write_text("\n".join(lines) + "\n")
        written.replace(profile)
        return keys.access_key

    expired: list[str] = []
    former = new_keys()
    server = lab.s3_server(store, endpoint=proxy.endpoint, atoll_s3_access_key=None, atoll_s3_secret_key=None)
    server.run_by = ("env", f"AWS_SHARED_CREDENTIALS_FILE={profile}")
    server.start()
    create_wide(server, "wide", 100_000)
    refused = Fault(
        lambda request: any(key in request.headers.get("authorization", "") for key in expired),
        status=403,
        code="ExpiredToken",
    )
    proxy.add(refused)
    stop = Stop()
    proxy.add(Fault(is_put(PIECE), stop=stop, times=1))
    alter = Statement(server, "ALTER TABLE wide ENGINE=ATOLL COMPRESSION=none")
    alter.start()
    stop.wait()
    expired.append(former)
    stop.release()
    wait_until(lambda: refused.acted > 2, 30, "refusals")
    new_keys()
    assert alter.finished() is None
    drained(server)
    server.stop()
    assert server.start().value("SELECT COUNT(*) FROM big.wide") == 100_000


# ---- refusals ------------------------------------------------------------------------------------------------


@only_in_test_bucket
@stores
@pytest.mark.parametrize(
    "begins_at", [TABLE_FILE + "|partNumber=1", "partNumber=2", ROOT], ids=["1%", "50%", "99%"]
)
def test_a_storm_of_refusals_during_alter(lab, kind, begins_at):
    store = lab.store(kind)
    proxy = lab.proxy(store)
    server = lab.s3_server(store, endpoint=proxy.endpoint).start()
    create_wide(server, "wide", 60_000)
    storm = Fault(lambda _request: time.monotonic() < ends[0], status=503)
    ends = [0.0]

    def begins(request) -> bool:
        if not ends[0] and is_put(begins_at)(request):
            ends[0] = time.monotonic() + 3
        return False

    proxy.add(Fault(begins))
    proxy.add(storm)
    alter = Statement(server, "ALTER TABLE wide ENGINE=ATOLL COMPRESSION=none")
    alter.start()
    assert alter.finished() is None
    wait_until(lambda: storm.acted > 0, 60, "the storm")
    drained(server)
    assert server.run("SELECT COUNT(*), SUM(LENGTH(body)) FROM big.wide") == [(60_000, 60_000 * 512)]
    server.stop()
    server.wipe()
    assert server.start().value("SELECT COUNT(*) FROM big.wide") == 60_000


# ---- replication ------------------------------------------------------------------------------------------------


@only_in_test_bucket
@stores
def test_a_replica_that_is_ahead_of_a_restored_primary(lab, kind):
    """The bucket lacks transactions within the lag limit, and the binary log is lost. Replication stops with
    an error that says so."""
    scene = Scene(lab, kind, "async", log_bin="binlog", server_id=1, atoll_lag_max_ms=20_000)
    primary = scene.server
    replica = lab.server("replica", atoll_url=f"file://{lab.home / 'replica_bucket'}", server_id=2).start()
    follow = (
        f"CHANGE MASTER TO MASTER_HOST='127.0.0.1', MASTER_PORT={primary.port}, MASTER_USER='r', "
        "MASTER_PASSWORD='r', MASTER_USE_GTID=slave_pos, MASTER_CONNECT_RETRY=1"
    )
    user = "GRANT ALL ON *.* TO r@'127.0.0.1' IDENTIFIED BY 'r'"
    primary.run(user)
    replica.run(follow, "START SLAVE")
    assert scene.rewrite().finished() is None
    wait_until(lambda: primary.counter("Atoll_wal_lag_bytes") == 0, 60, "the log in the bucket")
    shipped = set(scene.acked)
    scene.stop_at(is_put(CHUNK))
    scene.commit(10)
    wait_until(lambda: rows_of(replica) == len(scene.acked), 60, "the replica")
    acked, scene.acked = scene.acked, shipped
    scene.reopen("bucket")
    scene.check()
    assert len(scene.found()) < len(acked)
    primary.run(user)
    scene.commit(1)

    def error_number() -> int:
        with replica.connect().cursor(pymysql.cursors.DictCursor) as cursor:
            cursor.execute("SHOW SLAVE STATUS")
            return int(cursor.fetchone()["Last_IO_Errno"])

    wait_until(lambda: error_number() == 1236, 60, "replication to stop with error 1236", 0.5)


def rows_of(replica: Server) -> int:
    try:
        return replica.value("SELECT COUNT(*) FROM d.b")
    except pymysql.Error:
        return 0


# ---- a new owner while the old one tidies ------------------------------------------------------------------------


@only_in_test_bucket
@stores
def test_a_restore_while_the_owner_rewrites_and_deletes(lab, kind):
    scene = Scene(lab, kind)
    stopped = threading.Event()

    def rewrite() -> None:
        while not stopped.is_set():
            scene.rewrite().finished()

    def write() -> None:
        while not stopped.is_set() and not scene.refuses(scene.server):
            pass

    threads = [threading.Thread(target=work, daemon=True) for work in (rewrite, write)]
    for thread in threads:
        thread.start()
    time.sleep(3)
    second = scene.take_over("second")
    stopped.set()
    for thread in threads:
        thread.join(60)
    scene.check(second)
    scene.server.kill()
    second.stop()
    scene.reopen("directory")
    scene.check()
