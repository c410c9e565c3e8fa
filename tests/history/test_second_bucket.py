"""Goal:   a materialized clone works without its parent. A copy that is kept up to date beside a busy server
        opens with a state that its source had, even if the copier is killed. A protected snapshot cannot be
        dropped by atollctl or by SQL.
Method: real servers with a directory and with an S3 server. The source's objects are deleted before the copy
        is opened. Rows have the number of their transaction, so an incomplete state would be noticed.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import threading
import time

import pytest
from conftest import Lab, MakeServer
from harness import paths
from harness.atollctl import atollctl
from harness.digest import database_digests
from harness.server import Server, s3_options
from test_history import ROWS, change, expect_sound, fill, told


def lose(server: Server) -> None:
    """Deletes the server's bucket if it is a directory."""
    url = str(server.options["atoll_url"])
    if url.startswith("file://"):
        shutil.rmtree(url.removeprefix("file://"))


def test_a_materialized_clone_goes_on_without_its_parent(make_server: MakeServer) -> None:
    parent, child = make_server("parent"), make_server("child")
    parent.start()
    fill(parent)
    before = database_digests(parent, "shop")
    told(parent, "clone", behind=(str(child.options["atoll_url"]),))
    child.start()
    child.run("UPDATE shop.orders SET body = 'changed in the clone' WHERE id = 7")
    changed = database_digests(child, "shop")
    refused = atollctl(child, "materialize", behind=("--yes",))
    assert refused.returncode == 1 and "was not shut down cleanly" in refused.stderr, refused
    child.stop()
    done = told(child, "materialize", behind=("--yes",))
    assert done["adopted"]["copied_files"] == done["foreign_files"] > 0
    assert len(done["independent_of"]) == 1 and done["still_held"] == ""
    assert [file["key"] for file in told(child, "ls") if file["key"].startswith("/")] == []
    change(parent, 1)
    parent.kill()
    lose(parent)
    child.start()
    assert database_digests(child, "shop") == changed != before
    child.run("ALTER TABLE shop.orders ENGINE=ATOLL, FORCE")
    assert database_digests(child, "shop") == changed
    expect_sound(child)


def copy_and_kill(source: Server, target: str, seconds: float) -> None:
    """Starts `atollctl copy`, and kills it after `seconds`."""
    settings = {name: value for name, value in source.options.items() if name.startswith("atoll_s3_")}
    connection = {name.upper(): str(value) for name, value in settings.items()}
    command = [str(paths.program("atollctl")), "copy", str(source.options["atoll_url"]), target]
    with subprocess.Popen(
        command, env=os.environ | connection, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as copier:
        time.sleep(seconds)
        copier.kill()


def test_a_copy_of_a_busy_server_is_of_one_moment_and_opens_without_it(make_server: MakeServer) -> None:
    source, heir = make_server("source"), make_server("heir")
    target = str(heir.options["atoll_url"])
    source.start()
    fill(source)
    source.run(
        "CREATE TABLE shop.a (round INT PRIMARY KEY, body VARCHAR(999)) ENGINE=ATOLL",
        "CREATE TABLE shop.b (round INT PRIMARY KEY, body VARCHAR(999)) ENGINE=ATOLL",
    )
    stop, rounds = threading.Event(), [0]

    def work() -> None:
        with source.connect() as connection, connection.cursor() as cursor:
            while not stop.is_set():
                rounds[0] += 1
                cursor.execute("BEGIN")
                for table in "ab":
                    cursor.execute(f"INSERT INTO shop.{table} VALUES ({rounds[0]}, REPEAT('x', 900))")
                cursor.execute("COMMIT")
                if rounds[0] % 50 == 0:
                    cursor.execute("ALTER TABLE shop.a ENGINE=ATOLL, FORCE")

    worker = threading.Thread(target=work)
    worker.start()
    try:
        for kill_after_s in (0.02, 0.1, 0.3):
            copy_and_kill(source, target, kill_after_s)
        first = told(source, "copy", behind=(target,))
        second = told(source, "copy", behind=(target, "--limit-mib-per-second", "100"))
        least = rounds[0]
        third = told(source, "copy", behind=(target,))
    finally:
        stop.set()
        worker.join()
    assert second["adopted"]["reused_files"] > 0 and second["db_uuid"] == first["db_uuid"] == third["db_uuid"]
    assert not [pin for pin in told(source, "snapshot", "list") if pin["kind"] == "copy"]
    proof = told(heir, "verify", "--restore")
    assert proof["is_restorable"] and proof["report"]["bytes_read"] > 0, proof
    source.kill()
    lose(source)
    heir.start()
    ((in_a, last_a, in_b, last_b),) = heir.run(
        "SELECT (SELECT COUNT(*) FROM shop.a), (SELECT MAX(round) FROM shop.a), COUNT(*), MAX(round) FROM shop.b"
    )
    assert in_a == last_a == in_b == last_b and least - 1 <= last_a <= rounds[0]
    assert heir.value("SELECT COUNT(*) FROM shop.orders") == ROWS + 1
    expect_sound(heir)


def test_a_copy_that_a_server_has_opened_is_left_alone(make_server: MakeServer) -> None:
    source, heir = make_server("source"), make_server("heir")
    target = str(heir.options["atoll_url"])
    source.start()
    source.run("CREATE DATABASE shop", "CREATE TABLE shop.t (a INT PRIMARY KEY) ENGINE=ATOLL")
    told(source, "copy", behind=(target,))
    heir.start()
    heir.run("INSERT INTO shop.t VALUES (1)")
    source.run("INSERT INTO shop.t VALUES (2)")
    refused = atollctl(source, "copy", behind=(target,))
    assert refused.returncode == 1 and "so it is no copy any more" in refused.stderr, refused
    assert heir.run("SELECT a FROM shop.t") == [(1,)] or heir.value("SELECT a FROM shop.t") == 1


def test_the_default_directory_moves_to_s3_as_operations_md_says(lab: Lab) -> None:
    server = lab.server("server").start()
    fill(server)
    server.run("SELECT ATOLL_SNAPSHOT('monday')", "SET GLOBAL atoll_history_retention = 86400")
    store = lab.store()
    place = s3_options(store.endpoint, store.bucket, store.credentials, prefix="shop")
    server.options |= place | {"atoll_url": f"file://{server.data}/atoll_bucket"}
    told(server, "copy", behind=(str(place["atoll_url"]),))
    server.run("INSERT INTO shop.orders VALUES (-1, 'between the two copies')")
    digests = database_digests(server, "shop")
    server.stop()
    done = told(server, "copy", behind=(str(place["atoll_url"]),))
    assert done["left_behind"] == {"snapshots": ["monday"], "protected_snapshots": [], "history": True}
    kept = atollctl(server, "clone", behind=(f"s3://{store.bucket}/shop-monday", "--snapshot", "monday"))
    assert kept.returncode == 0, kept.stderr
    server.options |= place
    assert atollctl(server, "verify", "--deep").returncode == 0
    (server.data / "#atoll").rename(server.data / "#atoll-before-s3")
    server.start()
    assert database_digests(server, "shop") == digests
    assert server.value("SELECT @@atoll_durability") == "async"
    assert server.value("SELECT @@atoll_history_retention") == 86400
    shutil.rmtree(server.data / "#atoll-before-s3")
    shutil.rmtree(server.data / "atoll_bucket")
    server.run("ALTER TABLE shop.orders ENGINE=ATOLL, FORCE")
    server.restart()
    assert database_digests(server, "shop") == digests
    expect_sound(server)


def test_a_protected_snapshot_is_dropped_neither_by_sql_nor_from_outside(make_server: MakeServer) -> None:
    server = make_server("shop")
    server.start()
    server.run("CREATE DATABASE shop", "CREATE TABLE shop.t (a INT PRIMARY KEY) ENGINE=ATOLL")
    assert server.value("SELECT ATOLL_SNAPSHOT('keep')") == "keep"
    unconfirmed = atollctl(server, "snapshot", "drop", behind=("keep",))
    assert unconfirmed.returncode == 1 and "give --yes" in unconfirmed.stderr, unconfirmed
    until = time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(time.time() + 3600))
    told(server, "snapshot", "protect", behind=("keep", "--until", until))
    with pytest.raises(Exception, match="is protected until"):
        server.run("SELECT ATOLL_DROP_SNAPSHOT('keep')")
    refused = atollctl(server, "snapshot", "drop", behind=("keep", "--yes"))
    assert refused.returncode == 1 and "is protected until" in refused.stderr, refused
    assert [pin["name"] for pin in told(server, "snapshot", "list")] == ["keep"]
