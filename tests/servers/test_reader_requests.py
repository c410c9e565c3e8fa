"""Goal:   a reader asks the bucket seldom while nothing changes, and goes on by itself after an outage, with the rows
        that it had meanwhile.
Method: a writer at an S3 server, and a reader behind a proxy that counts and cuts its requests.
"""

from __future__ import annotations

import time

import pymysql
import pytest
from harness.process import wait_until
from harness.server import Server

IDLE_S = 25
# Two LISTs each ten seconds, and what is left of the time in which the pauses grow.
IDLE_REQUESTS_MAX = 16
FOLLOWS_WITHIN_S = 60


@pytest.fixture
def three(lab) -> tuple[Server, Server, object]:
    """A writer, a reader, and the proxy through which the reader sees the bucket."""
    store = lab.store()
    proxy = lab.proxy(store)
    writer = lab.s3_server(store, "writer", atoll_durability="sync", log_bin="log", server_id=1).start()
    writer.run(
        "CREATE DATABASE shop",
        "CREATE TABLE shop.t (id INT PRIMARY KEY, v CHAR(100)) ENGINE=ATOLL",
        "INSERT INTO shop.t SELECT seq, seq FROM mysql.seq_1_to_1000",
    )
    reader = lab.s3_server(
        store, "reader", endpoint=proxy.endpoint, atoll_role="reader", server_id=2, atoll_request_timeout=2
    ).start()
    caught_up(writer, reader)
    return writer, reader, proxy


def caught_up(writer: Server, reader: Server) -> None:
    position = writer.value("SELECT @@gtid_binlog_pos")
    assert reader.value(f"SELECT ATOLL_WAIT('{position}', {FOLLOWS_WITHIN_S})") == 0


def test_an_idle_reader_asks_less_and_less_often(three) -> None:
    _, reader, proxy = three
    time.sleep(30)  # the pauses between two questions grow to ten seconds
    proxy.reset_counts()
    time.sleep(IDLE_S)
    counts = proxy.counts()
    assert sum(counts.values()) <= IDLE_REQUESTS_MAX, counts
    assert set(counts) <= {"LIST", "list"}, counts
    assert int(reader.status("Atoll_reader_lag_ms")["atoll_reader_lag_ms"]) < 30_000


def test_a_reader_outlives_an_outage_and_follows_again(three) -> None:
    writer, reader, proxy = three
    mark = reader.log_mark()
    held = reader.connect("shop", autocommit=False)
    held.cursor().execute("SELECT COUNT(*) FROM t")
    proxy.down()
    writer.run("UPDATE shop.t SET v = 'new' WHERE id = 1", "ALTER TABLE shop.t ADD COLUMN b INT DEFAULT 3")
    wait_until(lambda: "does not follow the writer" in reader.log_since(mark), 90, "the reader says so")
    assert reader.value("SELECT v FROM shop.t WHERE id = 1") == "1", "what it had"
    assert int(reader.status("Atoll_reader_lag_ms")["atoll_reader_lag_ms"]) > 0
    with pytest.raises(pymysql.Error):
        reader.run("DELETE FROM shop.t")
    proxy.up()
    wait_until(lambda: "follows the writer again" in reader.log_since(mark), 90, "the reader says so")
    with held.cursor() as cursor:
        cursor.execute("SELECT v FROM t WHERE id = 1")
        assert cursor.fetchall() == (("1",),), "the transaction keeps its view"
    held.rollback()
    held.close()
    caught_up(writer, reader)
    assert reader.run("SELECT v, b FROM shop.t WHERE id = 1") == [("new", 3)]


def test_a_promotion_that_fails_leaves_a_reader(three) -> None:
    writer, reader, proxy = three
    proxy.down()
    with pytest.raises(pymysql.Error) as error:
        reader.run("SET GLOBAL atoll_role = 'writer'")
    assert "role was not changed" in str(error.value)
    assert reader.status("Atoll_role") == {"atoll_role": "reader"}
    assert reader.value("SELECT COUNT(*) FROM shop.t WHERE id < 10") == 9
    proxy.up()
    writer.run("INSERT INTO shop.t VALUES (5000, 'after')")
    caught_up(writer, reader)
    assert reader.value("SELECT v FROM shop.t WHERE id = 5000") == "after"
