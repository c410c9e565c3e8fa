"""Goal:   all data are in the bucket: it fills during a load, reads need no local files, and a restore needs
        nothing else.
Method: list the bucket with a client of the test, remove local files and data directories, and start second
        servers.
"""

from __future__ import annotations

import time

import pymysql
import pytest
from harness import disk
from harness.digest import database_digests, table_digest
from harness.objectstores import Minio, Versitygw
from harness.process import wait_until
from harness.tables import WIDE_ROW, Statement, create_wide, drained

WIDE_ROWS = 300_000  # about 150 MB


def sst_objects(store) -> list[str]:
    return [item.key for item in store.client.list("db/sst/")]


# ---- during a load -------------------------------------------------------------------------------------


def test_objects_appear_while_alter_runs(lab):
    store = lab.store()
    server = lab.s3_server(store).start()
    create_wide(server, "wide", WIDE_ROWS)
    expected = table_digest(server, "big", "wide")
    alter = Statement(server, "ALTER TABLE wide ENGINE=ATOLL COMPRESSION=none")
    alter.start()
    seen = 0
    while alter.is_alive():
        seen = max(seen, len(sst_objects(store)) if alter.is_alive() else 0)
        time.sleep(0.02)
    assert alter.finished() is None
    assert seen > 0, "no table file was in the bucket before ALTER ended"
    assert table_digest(server, "big", "wide") == expected


def test_objects_appear_while_rows_are_inserted(lab):
    store = lab.store()
    server = lab.s3_server(store).start()
    server.run(
        "CREATE DATABASE big", "CREATE TABLE big.t (id INT PRIMARY KEY, body VARCHAR(600)) ENGINE=ATOLL"
    )
    counts = []
    for start in range(1, 200_001, 10_000):
        server.run(f"INSERT INTO big.t SELECT seq, {WIDE_ROW} FROM mysql.seq_{start}_to_{start + 9999}")
        counts.append((len(sst_objects(store)), len(store.client.list("db/wal/"))))
    assert counts[-1][0] + counts[-1][1] > counts[0][0] + counts[0][1], f"nothing new in the bucket: {counts}"
    assert any(sst > 0 for sst, _wal in counts), f"no table file in the bucket during the load: {counts}"
    assert server.value("SELECT COUNT(*) FROM big.t") == 200_000


# ---- the bucket alone ------------------------------------------------------------------------------------


def test_reads_survive_removal_of_every_local_table_file(lab):
    store = lab.store()
    proxy = lab.proxy(store)
    server = lab.s3_server(store, endpoint=proxy.endpoint).start()
    create_wide(server, "wide", 60_000)
    server.run("ALTER TABLE big.wide ENGINE=ATOLL, ADD INDEX by_body (body(20))")
    expected = table_digest(server, "big", "wide")
    drained(server)
    server.stop()
    assert disk.remove_local_objects(server.data) > 0
    proxy.reset_counts()
    server.start()
    before = server.counter("Atoll_requests_get")
    assert table_digest(server, "big", "wide") == expected
    assert (
        server.value("SELECT id FROM big.wide WHERE body = (SELECT body FROM big.wide WHERE id = 77)") == 77
    )
    fetched = server.counter("Atoll_requests_get") - before
    assert fetched > 0, "the engine counted no GET"
    assert proxy.counts()["get"] >= fetched, "the engine counts GETs that were not sent"
    assert server.counter("Atoll_bytes_downloaded") > 10_000_000

    server.restart()  # the part cache survives: few bytes are fetched again
    before = server.counter("Atoll_bytes_downloaded")
    assert table_digest(server, "big", "wide") == expected
    assert server.counter("Atoll_bytes_downloaded") - before < 2_000_000


def fill_with_everything(server) -> None:
    """Creates databases, tables, triggers, partitions and values of many kinds. All of them must be restored
    from the bucket."""
    server.run(
        "CREATE DATABASE greek CHARACTER SET greek COLLATE greek_bin",
        "CREATE DATABASE `odd name-ü` CHARACTER SET utf8mb4 COLLATE utf8mb4_nopad_bin",
        "CREATE TABLE greek.t (id INT AUTO_INCREMENT PRIMARY KEY, word VARCHAR(40), n DECIMAL(12,3), d DATETIME(6), "
        "j JSON, b LONGBLOB, e ENUM('a','b'), g INT AS (n * 2) VIRTUAL, p INT AS (n * 3) PERSISTENT, "
        "UNIQUE KEY (word), KEY (d DESC), CHECK (n < 1000000)) ENGINE=ATOLL COMPRESSION=lz4 COMMENT='of words'",
        "INSERT INTO greek.t (word, n, d, j, b, e) SELECT CONCAT('word', seq), seq / 7, "
        "'2020-01-01' + INTERVAL seq MINUTE, JSON_OBJECT('n', seq), REPEAT(CHAR(seq % 256), seq * 10), "
        "IF(seq % 2, 'a', 'b') FROM mysql.seq_1_to_2000",
        "CREATE TABLE greek.log (at TIMESTAMP(6), what VARCHAR(50)) ENGINE=ATOLL",
        "CREATE TRIGGER greek.after_word AFTER INSERT ON greek.t FOR EACH ROW "
        "INSERT INTO greek.log VALUES (NOW(6), NEW.word)",
        "CREATE TABLE `odd name-ü`.`tä ble` (id INT PRIMARY KEY, v VARCHAR(10)) ENGINE=ATOLL "
        "PARTITION BY HASH (id) PARTITIONS 3",
        "INSERT INTO `odd name-ü`.`tä ble` SELECT seq, seq FROM mysql.seq_1_to_900",
        "CREATE VIEW greek.v AS SELECT COUNT(*) AS c FROM greek.t",
        "CREATE TABLE greek.innodb_table (id INT) ENGINE=InnoDB",
    )  # fmt: skip


def check_everything(server, digests) -> None:
    assert {**database_digests(server, "greek"), **database_digests(server, "odd name-ü")} == digests
    assert server.run(
        "SELECT default_character_set_name, default_collation_name FROM information_schema.schemata "
        "WHERE schema_name = 'greek'"
    ) == [("greek", "greek_bin")]
    assert server.value("SELECT MAX(id) FROM greek.t") == 2000
    server.run("INSERT INTO greek.t (word) VALUES ('after')")
    assert server.value("SELECT id FROM greek.t WHERE word = 'after'") > 2000, "AUTO_INCREMENT went back"
    assert server.value("SELECT COUNT(*) FROM greek.log WHERE what = 'after'") == 1, "the trigger is gone"
    with pytest.raises(pymysql.err.IntegrityError):
        server.run("INSERT INTO greek.t (word) VALUES ('word7')")
    with pytest.raises(pymysql.Error):
        server.run("INSERT INTO greek.t (word, n) VALUES ('check', 1000000)")
    definition = server.run("SHOW CREATE TABLE greek.t")[0][1]
    for part in ("of words", "lz4", "VIRTUAL", "CHECK", "ENGINE=ATOLL"):
        assert part in definition, f"{part} is missing in {definition}"
    assert server.value("SELECT COUNT(*) FROM `odd name-ü`.`tä ble` PARTITION (p1)") == 300


def test_everything_returns_after_the_data_directory_is_deleted(lab):
    store = lab.store()
    server = lab.s3_server(store).start()
    fill_with_everything(server)
    server.run("DROP TABLE greek.innodb_table")
    digests = {**database_digests(server, "greek"), **database_digests(server, "odd name-ü")}
    server.stop()
    server.wipe()
    server.initialize()
    mark = server.log_mark()
    server.start()
    check_everything(server, digests)
    assert "view" in server.log_since(mark).lower(), "no warning that views are not in the bucket"
    with pytest.raises(pymysql.Error):
        server.run("SELECT * FROM greek.v")
    server.stop()


def test_a_new_server_knows_sequences_before_it_has_opened_them(lab):
    server = lab.s3_server(lab.store()).start()
    server.run(
        "CREATE DATABASE d",
        "CREATE SEQUENCE d.z ENGINE=ATOLL",
        "CREATE TABLE d.a (n INT DEFAULT NEXTVAL(d.z)) ENGINE=ATOLL",
        "INSERT INTO d.a VALUES (), ()",
    )
    server.stop()
    server.wipe()
    server.initialize().start()
    # mariadb-dump uses these types to decide how to dump each object, and in which order.
    assert server.run("SHOW FULL TABLES FROM d") == [("a", "BASE TABLE"), ("z", "SEQUENCE")]
    assert server.value("SELECT NEXTVAL(d.z)") > 2
    server.run("DROP SEQUENCE d.z")
    assert server.run("SHOW FULL TABLES FROM d") == [("a", "BASE TABLE")]


def test_versitygw_holds_the_data_as_well(lab):
    store = lab.store(Versitygw)
    server = lab.s3_server(store).start()
    create_wide(server, "wide", 40_000)
    server.run("ALTER TABLE big.wide ENGINE=ATOLL", "DELETE FROM big.wide WHERE id % 10 = 0")
    expected = table_digest(server, "big", "wide")
    server.stop()
    server.wipe()
    server.initialize().start()
    assert table_digest(server, "big", "wide") == expected
    assert sst_objects(store)


def test_sync_durability_loses_nothing_with_the_machine(lab):
    store = lab.store()
    server = lab.s3_server(store, atoll_durability="sync").start()
    server.run("CREATE DATABASE d", "CREATE TABLE d.t (id INT PRIMARY KEY) ENGINE=ATOLL")
    connection = server.connect("d")
    with connection.cursor() as cursor:
        for number in range(60):
            cursor.execute(f"INSERT INTO t VALUES ({number})")
    server.kill()
    server.wipe()
    server.initialize().start(atoll_take_over="ON")
    assert server.value("SELECT COUNT(*) FROM d.t") == 60


# ---- two servers -----------------------------------------------------------------------------------------


def test_second_server_is_refused_while_the_first_runs(lab):
    store = lab.store()
    first = lab.s3_server(store, "first").start()
    first.run(
        "CREATE DATABASE d",
        "CREATE TABLE d.t (id INT PRIMARY KEY) ENGINE=ATOLL",
        "INSERT INTO d.t VALUES (1)",
    )
    second = lab.s3_server(store, "second").start()
    with pytest.raises(pymysql.Error) as refused:
        second.run("CREATE DATABASE e", "CREATE TABLE e.t (id INT PRIMARY KEY) ENGINE=ATOLL")
    assert refused.value.args[0] == 1005, refused.value
    assert "atoll_take_over" in second.log(), "the log does not say what to do"
    first.run("INSERT INTO d.t VALUES (2)")
    assert first.value("SELECT COUNT(*) FROM d.t") == 2
    second.stop()
    first.restart()
    assert first.value("SELECT COUNT(*) FROM d.t") == 2


def test_take_over_fences_the_first_server(lab):
    store = lab.store()
    first = lab.s3_server(store, "first").start()
    first.run("CREATE DATABASE d", "CREATE TABLE d.t (id INT PRIMARY KEY, v INT) ENGINE=ATOLL",
              "INSERT INTO d.t SELECT seq, seq FROM mysql.seq_1_to_1000")  # fmt: skip
    drained(first)
    time.sleep(2.5)  # longer than the default lag limit
    second = lab.s3_server(store, "second", atoll_take_over="ON").start()
    assert second.value("SELECT COUNT(*) FROM d.t") == 1000
    second.run("UPDATE d.t SET v = -1 WHERE id <= 10", "INSERT INTO d.t VALUES (5000, 1)")

    def next_commit_fails() -> pymysql.Error | None:
        try:
            first.run("UPDATE d.t SET v = v + 1 WHERE id = 500")
        except pymysql.Error as error:
            return error
        return None

    error = wait_until(next_commit_fails, 10, "the fenced server's commit to fail", interval_s=0.2)
    assert any(word in str(error).lower() for word in ("fenced", "read-only", "read only", "took over")), (
        error
    )
    with pytest.raises(pymysql.Error) as refused:
        first.run("UPDATE d.t SET v = v + 1 WHERE id = 500")
    assert refused.value.args[0] == 1036, refused.value
    assert first.value("SELECT COUNT(*) FROM d.t") == 1000, "the fenced server must stay up and readable"
    with pytest.raises(pymysql.Error):
        first.run("CREATE TABLE d.u (id INT) ENGINE=ATOLL")
    assert second.run("SELECT COUNT(*), SUM(v = -1) FROM d.t") == [(1001, 10)]
    first.kill()
    second.restart(atoll_take_over="OFF")
    assert second.run("SELECT COUNT(*), SUM(v = -1) FROM d.t") == [(1001, 10)]


def test_fenced_server_restarted_takes_the_winners_data(lab):
    """Local files of a closed epoch are never merged into the new owner's data: the fenced server restores
    from the bucket."""
    store = lab.store()
    first = lab.s3_server(store, "first").start()
    first.run(
        "CREATE DATABASE d",
        "CREATE TABLE d.t (id INT PRIMARY KEY) ENGINE=ATOLL",
        "INSERT INTO d.t VALUES (1)",
    )
    first.stop()
    second = lab.s3_server(store, "second", atoll_take_over="ON").start()
    second.run("INSERT INTO d.t VALUES (2)")
    second.stop()
    first.start()
    assert first.run("SELECT id FROM d.t ORDER BY id") == [(1,), (2,)]
    first.run("INSERT INTO d.t VALUES (3)")


# ---- a directory as bucket ---------------------------------------------------------------------------------


def test_file_bucket_stores_nothing_twice(lab):
    server = lab.server().start()
    create_wide(server, "wide", 100_000)
    server.run("ALTER TABLE big.wide ENGINE=ATOLL COMPRESSION=none")
    server.run("INSERT INTO big.wide SELECT id + 1000000, body FROM big.wide WHERE id <= 50000")
    expected = table_digest(server, "big", "wide")
    server.stop()
    bucket, local = server.data / "atoll_bucket", server.data / "#atoll"
    objects = [path for path in disk.files_below(bucket) if path.name.endswith(disk.OBJECT_SUFFIXES)]
    assert sum(path.stat().st_size for path in objects) > 50_000_000
    assert disk.apparent_bytes(local / "cache") < 1_000_000, "a file:// bucket needs no part cache"
    names: dict[int, int] = {}
    for path in objects + disk.files_below(local / "db"):
        names[path.stat().st_ino] = names.get(path.stat().st_ino, 0) + 1
    for path in disk.files_below(local / "db"):
        if path.name.endswith(disk.OBJECT_SUFFIXES):
            assert names[path.stat().st_ino] == 2, f"{path} is a copy of its object, not a link"
    total = disk.allocated_bytes(bucket, local)
    assert total < 1.35 * sum(path.stat().st_size for path in objects), (
        "WAL and MANIFEST copies are not bounded"
    )
    server.start()
    assert table_digest(server, "big", "wide") == expected


def test_file_bucket_outside_the_data_directory_recovers(lab):
    bucket = lab.home / "bucket"
    bucket.mkdir()
    server = lab.server(atoll_url=f"file://{bucket}").start()
    fill_with_everything(server)
    server.run("DROP TABLE greek.innodb_table")
    digests = {**database_digests(server, "greek"), **database_digests(server, "odd name-ü")}
    server.stop()
    server.wipe()
    server.initialize().start()
    check_everything(server, digests)


def uncompressed_table(lab):
    """Returns a store that has the uncompressed table big.wide, and the store's Atoll server."""
    store = lab.store(Minio)
    server = lab.s3_server(store).start()
    create_wide(server, "wide", 60_000)
    server.run("ALTER TABLE big.wide ENGINE=ATOLL COMPRESSION=none")
    drained(server)
    return store, server


@pytest.mark.parametrize("statement", ["DROP TABLE big.wide", "TRUNCATE TABLE big.wide"])
def test_dropped_rows_leave_the_bucket(lab, statement):
    store, server = uncompressed_table(lab)
    full = store.client.total_bytes("db/sst/")
    assert full > 20_000_000
    server.run(statement)
    wait_until(lambda: store.client.total_bytes("db/sst/") < full / 4, 180, "objects to be deleted", 0.5)


def test_a_dropped_index_leaves_the_bucket(lab):
    store, server = uncompressed_table(lab)
    rows = store.client.total_bytes("db/sst/")
    server.run("ALTER TABLE big.wide ADD INDEX large (body(500))")
    drained(server)
    assert store.client.total_bytes("db/sst/") > 1.5 * rows
    server.run("ALTER TABLE big.wide DROP INDEX large")
    wait_until(lambda: store.client.total_bytes("db/sst/") < 1.2 * rows, 180, "objects to be deleted", 0.5)
