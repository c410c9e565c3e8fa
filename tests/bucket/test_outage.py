"""Goal:   while the bucket does not answer, everybody can see that commits wait, and for what. Whoever ends the wait
        of a commit learns whether its changes were made.
Method: a proxy cuts the connections between server and bucket. Statements wait, are killed, and reach their time
        limits. In the end the rows of a new server on the bucket are those that the errors have promised.
"""

from __future__ import annotations

import time

import pymysql
import pytest
from harness.process import wait_until
from harness.server import Server
from harness.tables import Statement

BEGIN = "commits wait for the bucket: "
END = "commits do not wait for the bucket any more: "
# The transaction was rolled back, so a program may repeat it.
REFUSED, TIMED_OUT, KILLED = 1180, 1969, 1317
# The transaction is done, so a program must not repeat it.
DONE = 1183


def waits(server: Server, statement: Statement) -> bool:
    where = f"id = {statement.connection_id} AND state = 'Waiting for the bucket'"
    return server.value(f"SELECT COUNT(*) FROM information_schema.processlist WHERE {where}") == 1


def waiting(server: Server, sql: str) -> Statement:
    """Starts a statement; returns it when it waits for the bucket."""
    statement = Statement(server, sql, "d")
    statement.start()
    wait_until(lambda: waits(server, statement), 30, f"the wait of {sql}")
    return statement


def error_of(statement: Statement) -> pymysql.Error:
    error = statement.finished(30)
    assert error is not None, "the commit succeeded although the bucket does not have it"
    return error


def scene(lab, **options: object):
    store = lab.store()
    proxy = lab.proxy(store)
    server = lab.s3_server(store, endpoint=proxy.endpoint, **options).start()
    server.run("CREATE DATABASE d", "CREATE TABLE d.t (id INT PRIMARY KEY) ENGINE=ATOLL")
    return proxy, server


def rows_on_a_new_server(proxy, server: Server) -> str:
    server.kill()
    server.wipe()
    server.initialize().start(atoll_take_over="ON")
    return server.value("SELECT GROUP_CONCAT(id ORDER BY id) FROM d.t")


def test_commits_that_wait_are_seen_and_can_be_ended(lab):
    proxy, server = scene(lab, atoll_durability="sync")
    mark = server.log_mark()
    proxy.down()
    first = waiting(server, "INSERT INTO t VALUES (1)")
    assert server.counter("Atoll_commits_waiting") == 1
    wait_until(lambda: BEGIN in server.log_since(mark), 30, "the log to tell of the outage")

    # From now on commits wait before they write anything.
    killed = waiting(server, "INSERT INTO t VALUES (2)")
    server.run(f"KILL QUERY {killed.connection_id}")
    assert error_of(killed).args[0] == KILLED
    impatient = server.connect("d")
    with impatient.cursor() as cursor:
        cursor.execute("SET max_statement_time = 2")
        with pytest.raises(pymysql.Error) as timed_out:
            cursor.execute("INSERT INTO t VALUES (3)")
        assert timed_out.value.args[0] == TIMED_OUT
        cursor.execute("SELECT id FROM t")
        assert cursor.fetchall() == ((1,),), "the timed-out statement must be rolled back"
    later = waiting(server, "INSERT INTO t VALUES (4)")
    assert server.counter("Atoll_commits_waiting") == 2

    server.run(f"KILL QUERY {first.connection_id}")
    number, message = error_of(first).args
    assert number == DONE, message
    assert "must not be repeated" in message
    assert "interrupted" in message

    proxy.up()
    assert later.finished(60) is None
    wait_until(lambda: END in server.log_since(mark), 30, "the log to tell of the end")
    assert server.counter("Atoll_commits_waiting") == 0
    log = server.log_since(mark)
    assert (log.count(BEGIN), log.count(END)) == (1, 1), log
    assert "4 statements have waited" in log
    assert rows_on_a_new_server(proxy, server) == "1,4"


def test_the_end_of_an_outage_is_told_although_no_commit_waits_any_more(lab):
    proxy, server = scene(lab, atoll_durability="sync")
    mark = server.log_mark()
    proxy.down()
    only = waiting(server, "INSERT INTO t VALUES (1)")
    wait_until(lambda: BEGIN in server.log_since(mark), 30, "the log to tell of the outage")
    server.run(f"KILL {only.connection_id}")
    only.join(30)
    proxy.up()
    wait_until(lambda: END in server.log_since(mark), 60, "the log to tell of the end")


def test_the_limit_of_a_wait_says_whether_the_change_is_made(lab):
    """With `async`, commits wait as soon as the bucket is too far behind."""
    proxy, server = scene(lab, atoll_durability="async", atoll_lag_max_ms=200, atoll_lag_wait_timeout=4)
    mark = server.log_mark()
    proxy.down()
    numbers, rows = [], []
    for number in range(1, 1000):
        try:
            server.run(f"INSERT INTO d.t VALUES ({number})")
            rows.append(number)
        except pymysql.Error as error:
            numbers.append(error.args[0])
            if error.args[0] == DONE:
                rows.append(number)
            elif error.args[0] == REFUSED:
                assert "rolled back" in str(error), error
                assert "atoll_lag_wait_timeout" in str(error), error
                break
    assert numbers == [DONE, REFUSED], numbers
    assert server.log_since(mark).count(BEGIN) == 1
    # Deadline errors of a transaction in two engines are the same.
    with pytest.raises(pymysql.Error) as refused:
        server.run(
            "CREATE TABLE d.other (id INT) ENGINE=InnoDB",
            "BEGIN",
            "INSERT INTO d.other VALUES (1)",
            "INSERT INTO d.t VALUES (100000)",
            "COMMIT",
        )
    assert refused.value.args[0] == REFUSED
    assert server.value("SELECT COUNT(*) FROM d.other") == 0
    proxy.up()
    wait_until(lambda: END in server.log_since(mark), 60, "the log to tell of the end")
    server.run("INSERT INTO d.t VALUES (1000)")
    server.run("SELECT ATOLL_SNAPSHOT('all')")
    assert rows_on_a_new_server(proxy, server) == ",".join(map(str, [*rows, 1000]))


def test_a_database_moves_to_another_machine_only_when_the_bucket_has_all_of_it(lab):
    """A stop during an outage says that commits are missing. They are in the bucket after a start and a stop without
    one, and then a new machine has them at once, without taking over."""
    proxy, server = scene(lab, atoll_durability="local")
    server.run("INSERT INTO d.t VALUES (1)")
    proxy.down()
    server.run("INSERT INTO d.t VALUES (2)")
    mark = server.log_mark()
    server.stop()
    assert "closed without publishing everything" in server.log_since(mark)

    proxy.up()
    server.start()
    for counter in ("Atoll_upload_backlog_bytes", "Atoll_wal_lag_bytes"):
        wait_until(lambda name=counter: server.counter(name) == 0, 60, f"{counter} to be 0")
    mark = server.log_mark()
    server.stop()
    assert "closed without publishing everything" not in server.log_since(mark)

    server.wipe()
    started = time.monotonic()
    server.initialize().start()
    assert time.monotonic() - started < 100, (
        "the owner has stopped, so nobody needs to wait 140 seconds for it"
    )
    assert server.value("SELECT GROUP_CONCAT(id ORDER BY id) FROM d.t") == "1,2"
