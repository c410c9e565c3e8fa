"""Goal:   a start that the bucket refuses for a reason that can pass is tried again, and SET GLOBAL gives other keys.
        Statements learn the reason, also those on tables that the server does not know yet.
Method: a proxy refuses requests, or the server starts with wrong keys. Then the cause goes away.
"""

from __future__ import annotations

import pymysql
import pytest
from harness.process import wait_until
from harness.proxy import Fault
from harness.server import Server, s3_options


def refused(server: Server, statement: str) -> tuple[int, str]:
    with pytest.raises(pymysql.Error) as error:
        server.run(statement)
    return error.value.args[0], error.value.args[1]


def with_a_row(lab, store, endpoint: str = "") -> Server:
    server = lab.s3_server(store, endpoint=endpoint).start()
    server.run(
        "CREATE DATABASE d",
        "CREATE TABLE d.t (id INT PRIMARY KEY) ENGINE=ATOLL",
        "INSERT INTO d.t VALUES (1)",
    )
    server.stop()
    return server


@pytest.mark.parametrize("code", ["RequestTimeTooSkewed", "AccessDenied", "NoSuchBucket"])
def test_a_refusal_that_passes_does_not_keep_the_engine_down(lab, code):
    store = lab.store()
    proxy = lab.proxy(store)
    server = with_a_row(lab, store, proxy.endpoint)
    proxy.add(Fault(status=404 if code == "NoSuchBucket" else 403, code=code))
    server.start()
    number, message = refused(server, "SELECT id FROM d.t")
    assert number == 1296
    assert f"not running: HTTP {404 if code == 'NoSuchBucket' else 403} {code}" in message, (
        "the reason comes before the path of its causes"
    )
    assert "tries again every 30 seconds" in server.log()
    assert server.status()["atoll_last_error_time"] != ""
    proxy.clear()
    wait_until(lambda: server.counter("Atoll_running") == 1, 60, "the next try to open", 0.5)
    assert server.run("SELECT id FROM d.t") == [(1,)]


def test_new_keys_start_an_engine_that_waits(lab):
    store = lab.store()
    server = with_a_row(lab, store)
    right = s3_options(store.endpoint, store.bucket, store.credentials)
    server.start(atoll_s3_secret_key="notthesecret12345")
    assert server.counter("Atoll_running") == 0

    still_wrong = "SET GLOBAL atoll_s3_secret_key = 'alsonotthesecret'"
    number, message = refused(server, still_wrong)
    assert number == 1231
    assert "SignatureDoesNotMatch" in message
    assert server.counter("Atoll_running") == 0

    keys = ", ".join(f"{name} = '{right[name]}'" for name in ("atoll_s3_access_key", "atoll_s3_secret_key"))
    server.run(f"SET GLOBAL {keys}")
    assert server.counter("Atoll_running") == 1, "the statement returns when the engine is open"
    assert server.run("SELECT id FROM d.t") == [(1,)]
    server.run("INSERT INTO d.t VALUES (2)")
    assert str(right["atoll_s3_secret_key"]) not in server.log()


def test_keys_are_refused_when_other_keys_would_not_help(lab):
    server = lab.server(atoll_url="ftp://somewhere/db").start()
    number, message = refused(server, "SET GLOBAL atoll_s3_access_key = 'a', atoll_s3_secret_key = 'b'")
    assert number == 1231
    assert "ftp://somewhere" in message


def test_an_unknown_table_is_not_said_to_be_absent_while_the_engine_waits(lab):
    """A new server waits until the dead owner has shown no sign of life for a while. Applications create tables
    that do not exist."""
    store = lab.store()
    first = lab.s3_server(store).start()
    first.run("CREATE DATABASE d", "CREATE TABLE d.t (id INT PRIMARY KEY) ENGINE=ATOLL")
    first.kill()
    second = lab.s3_server(store, "second").start()
    second.run("CREATE DATABASE d")
    for statement in ("SELECT * FROM d.t", "INSERT INTO d.t VALUES (1)", "SHOW CREATE TABLE d.t"):
        number, message = refused(second, statement)
        assert number == 1296, message
        assert "the ATOLL engine waits, " in message
        assert " s more: " in message
    assert refused(second, "SELECT * FROM mysql.nosuch")[0] == 1146
    # Tables of other engines can be created and used.
    second.run("CREATE TABLE d.i (id INT) ENGINE=InnoDB", "INSERT INTO d.i VALUES (1)", "DROP TABLE d.i")
    assert refused(second, "DROP TABLE d.nosuch")[0] == 1051
    second.stop()


def test_an_error_on_the_way_to_the_bucket_ends_with_the_next_success(lab):
    store = lab.store()
    proxy = lab.proxy(store)
    server = lab.s3_server(store, endpoint=proxy.endpoint, atoll_durability="sync").start()
    server.run("CREATE DATABASE d", "CREATE TABLE d.t (id INT PRIMARY KEY) ENGINE=ATOLL")
    assert server.status()["atoll_last_error"] == ""
    assert server.status()["atoll_last_error_time"] == ""
    # A refused change of the keys is no error of the running engine.
    refused(server, "SET GLOBAL atoll_s3_access_key = 'nobody', atoll_s3_secret_key = 'nothing'")
    assert server.status()["atoll_last_error"] == ""

    fault = proxy.add(Fault(status=403, code="AccessDenied"))
    writing = server.connect("d")
    with writing.cursor() as cursor:
        cursor.execute("SET max_statement_time = 3")
        with pytest.raises(pymysql.Error):
            cursor.execute("INSERT INTO t VALUES (1)")
    assert fault.acted > 0
    wait_until(lambda: "AccessDenied" in server.status()["atoll_last_error"], 30, "the error")
    proxy.clear()
    wait_until(lambda: server.status()["atoll_last_error"] == "", 90, "the error to end", 0.5)
    assert server.status()["atoll_last_error_time"] != ""
