"""Goal:   if a program dies while it makes a clone, the clone is complete, or there is none and the parent is
        unchanged. A clone that is made while its parent rewrites, drops and deletes is complete.
Method: atollctl makes the clone through the proxy, which keeps one of its requests. Then atollctl is killed,
        or waits while the parent goes on.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
from typing import Any

import pymysql
import pytest
from harness import paths
from harness.atollctl import atollctl
from harness.digest import table_digest
from harness.process import wait_until
from harness.server import Server
from harness.tables import drained
from harness.windows import ALL, Scene, is_put, only_in_test_bucket, stores
from pymysql.cursors import SSCursor

# The names of the objects that a clone writes, in this order: the pin in the parent's prefix, the claim, the
# first root that names files, the identity.
PIN = r"/db/pin/clone-"
CLAIM = r"/child/epoch/"
ROOT = r"/child/root/\d{20}/0{19}1$"
IDENTITY = r"/child/db\.json$"
STEPS = [(step, landed) for step in (PIN, CLAIM, ROOT, IDENTITY) for landed in (False, True)]
IN_SHORT = [(PIN, True), (IDENTITY, False), (IDENTITY, True)]
# Ten seconds to gather keys for a tomb, a minute of grace time, and a search for unneeded objects.
COLLECTED_WITHIN_S = 200


def url_of(scene: Scene, name: str) -> str:
    return f"s3://{scene.store.bucket}/{name}"


def prepared(lab, kind) -> Scene:
    """A database with a table d.c, whose rows are in table files, and with commits that are only in the
    log."""
    scene = Scene(lab, kind)
    scene.server.run(
        "CREATE TABLE d.c (id INT PRIMARY KEY, v VARCHAR(200)) ENGINE=ATOLL",
        "INSERT INTO d.c SELECT seq, REPEAT(MD5(seq), 5) FROM mysql.seq_1_to_20000",
        "ALTER TABLE d.c ENGINE=ATOLL",
    )
    scene.commit(5)
    drained(scene.server)
    assert scene.names("sst/"), "no table file"
    return scene


def cloning(scene: Scene, name: str) -> subprocess.Popen:
    """Starts `atollctl clone` through the proxy."""
    settings = {k: v for k, v in scene.server.options.items() if k.startswith("atoll_s3_")}
    return subprocess.Popen(
        [
            str(paths.program("atollctl")),
            "clone",
            str(scene.server.options["atoll_url"]),
            url_of(scene, name),
        ],
        env=os.environ | {setting.upper(): str(value) for setting, value in settings.items()},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def child_of(scene: Scene, name: str) -> Server:
    """Starts a server on the clone. It does not use the proxy."""
    options = {**scene.options, "atoll_url": url_of(scene, name)}
    return scene.lab.s3_server(scene.store, name, **options).start()


def expect_no_clone(scene: Scene, name: str) -> None:
    """Checks that the clone has no objects, or is incomplete so that a server refuses to open it."""
    if scene.store.client.list(f"{name}/"):
        child = child_of(scene, name)
        with pytest.raises(pymysql.Error):
            child.run("CREATE DATABASE e", "CREATE TABLE e.t (id INT) ENGINE=ATOLL")
        child.stop()


def told(server: Server, *arguments: str) -> Any:
    """Runs atollctl, which must succeed, and returns its JSON output."""
    ran = atollctl(server, "--json", *arguments)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return json.loads(ran.stdout)


def content(scene: Scene, server: Server) -> tuple[set[int], Any]:
    """The transactions in the tables, and the digest of table d.c."""
    return scene.found(server), table_digest(server, "d", "c")


def files_in(scene: Scene) -> set[str]:
    """The names of the parent's table files, as `atollctl ls` shows them."""
    return {name.removeprefix("db/") for name in scene.names("sst/")}


@stores
@pytest.mark.parametrize(("step", "landed"), STEPS if ALL else IN_SHORT)
def test_the_maker_of_a_clone_dies(lab, kind, step, landed):
    scene = prepared(lab, kind)
    expected = content(scene, scene.server)
    stop = scene.stop_at(is_put(step), landed)
    maker = cloning(scene, "child")
    stop.wait(60)
    maker.kill()
    maker.wait()
    scene.proxy.clear()
    stop.cut()
    # The parent goes on. Files that it does not need any more are kept for the clone or deleted.
    scene.commit(5)
    scene.server.run("ALTER TABLE d.c FORCE")
    if (step, landed) == (IDENTITY, True):
        child = child_of(scene, "child")
        assert content(scene, child) == expected
        child.stop()
    else:
        expect_no_clone(scene, "child")
        for pin in told(scene.server, "snapshot", "list"):
            dropped = atollctl(scene.server, "snapshot", "drop", "--pin", "--yes", behind=(pin["pin"],))
            assert dropped.returncode == 0, dropped.stdout + dropped.stderr
        assert told(scene.server, "snapshot", "list") == []
    scene.check_and_go_on("directory")
    again = cloning(scene, "second")
    assert again.wait(120) == 0, again.stdout.read()
    assert content(scene, child_of(scene, "second")) == content(scene, scene.server)


@only_in_test_bucket
@stores
@pytest.mark.parametrize("step", [PIN, CLAIM, ROOT, IDENTITY], ids=["pin", "claim", "root", "identity"])
def test_a_clone_is_made_while_its_parent_deletes(lab, kind, step):
    scene = prepared(lab, kind)
    expected = content(scene, scene.server)
    stop = scene.stop_at(is_put(step), landed=step == PIN)
    maker = cloning(scene, "child")
    stop.wait(60)
    os.kill(maker.pid, signal.SIGSTOP)  # without this it would give up and delete its pin
    pinned = files_in(scene)
    scene.server.run(
        "CREATE TABLE d.w LIKE d.c", "INSERT INTO d.w SELECT * FROM d.c", "ALTER TABLE d.w ENGINE=ATOLL"
    )
    unpinned = files_in(scene) - pinned
    assert unpinned, "no file is younger than the pin"
    scene.server.run("DROP TABLE d.c", "DROP TABLE d.w", "DELETE FROM d.a", "DELETE FROM d.b")
    wait_until(
        lambda: not unpinned & files_in(scene),
        COLLECTED_WITHIN_S,
        "files that nothing needs to be deleted",
        1,
    )
    needed = {file["key"] for file in told(scene.server, "ls")}
    assert files_in(scene) - needed, "the pin keeps no file of the clone"
    stop.release()
    os.kill(maker.pid, signal.SIGCONT)
    status, said = maker.wait(120), maker.stdout.read()
    if step == PIN and status != 0:
        # The pin was in the bucket, but its maker had not yet checked that the collector respects it (PIN-1).
        assert "may have deleted objects" in said, said
        expect_no_clone(scene, "child")
        assert told(scene.server, "snapshot", "list") == [], "a pin that nobody holds"
        return
    assert status == 0, said
    child = child_of(scene, "child")
    assert content(scene, child) == expected
    for server in (scene.server, child):
        assert told(server, "verify", "--deep")["problems"] == []


def big_table(scene: Scene) -> None:
    """Creates d.big: 100 MB that do not compress, in table files of its own."""
    scene.server.run(
        "CREATE TABLE d.big (id INT PRIMARY KEY, v VARBINARY(1000)) ENGINE=ATOLL",
        "INSERT INTO d.big SELECT seq, RANDOM_BYTES(1000) FROM mysql.seq_1_to_100000",
        "ALTER TABLE d.big ENGINE=ATOLL",
    )
    drained(scene.server)


def rows_until_an_error(cursor: SSCursor) -> tuple[list[tuple], str]:
    """Reads the remaining rows. Returns them and the error that ended the read, or ""."""
    rows: list[tuple] = []
    try:
        for row in iter(cursor.fetchone, None):
            rows.append(row)
    except pymysql.Error as error:
        return rows, str(error)
    return rows, ""


@only_in_test_bucket
@stores
@pytest.mark.parametrize("reader", ["clone", "mount"])
def test_a_reader_whose_pin_is_gone(lab, kind, reader):
    # The caches are so small that a scan needs the bucket.
    scene = Scene(lab, kind, atoll_cache_size="16M", atoll_block_cache_size="8M")
    big_table(scene)
    rows = scene.server.run("SELECT * FROM d.big ORDER BY id")
    # Files that were made by bulk loading have such names, and all of them belong to d.big.
    needed = {name for name in files_in(scene) if re.search(r"-s\d+\.sst$", name)}
    assert needed, "no table file"
    if reader == "clone":
        made = cloning(scene, "child")
        assert made.wait(120) == 0, made.stdout.read()
        server, schema = child_of(scene, "child"), "d"
    else:
        scene.server.run("SELECT ATOLL_SNAPSHOT('now')", "SELECT ATOLL_MOUNT('d', 'past', 'now')")
        scene.server.run("SELECT ATOLL_DROP_SNAPSHOT('now')")
        server, schema = scene.server, "past"
    with (
        server.connect(schema, timeout_s=120) as connection,
        connection.cursor(SSCursor) as cursor,
    ):
        # By default the server ends a query when the client does not read for a minute.
        cursor.execute("SET net_write_timeout = 600")
        cursor.execute("SELECT * FROM big ORDER BY id")
        first = [cursor.fetchone() for _ in range(100)]
        for pin in scene.names("pin/"):
            scene.store.client.delete(pin)
        scene.server.run("DROP TABLE d.big")
        wait_until(
            lambda: not needed & files_in(scene),
            COLLECTED_WITHIN_S,
            "the files of the reader to be deleted",
            1,
        )
        rest, failed = rows_until_an_error(cursor)
    # The read may fail early or late. The rows before the error must be right; without an error, all rows
    # must have come.
    came = first + rest
    assert came == rows[: len(came)] and (failed or len(came) == len(rows)), f"{len(came)} rows, {failed}"
    with pytest.raises(pymysql.Error) as error:
        server.run(f"SELECT COUNT(*), SUM(LENGTH(v)) FROM {schema}.big")
    assert re.search(r"sst/\S+", str(error.value)), error.value
    assert scene.found() == scene.acked, "the other tables of the owner"
