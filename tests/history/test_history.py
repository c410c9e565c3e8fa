"""Goal:   a snapshot keeps the tables as they were, and a clone of it is an independent database. The clone
        reads the old rows whatever its parent drops, rewrites and collects. Parent and clone do not harm each
        other, even with kill -9.
Method: real servers with a directory and with an S3 server; digests of the tables are compared with those
        before the snapshot.
"""

from __future__ import annotations

import json

from conftest import MakeServer
from harness.atollctl import atollctl
from harness.digest import database_digests
from harness.process import wait_until
from harness.server import Server

ROWS = 20_000
# Ten seconds to gather keys for a tomb, a minute of grace time, and a search for unneeded objects.
COLLECTED_WITHIN_S = 150


def told(server: Server, *arguments: str, behind: tuple[str, ...] = ()):
    """Runs atollctl, which must succeed, and returns its JSON output."""
    ran = atollctl(server, "--json", *arguments, behind=behind)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return json.loads(ran.stdout) if ran.stdout.startswith(("{", "[")) else None


def fill(server: Server) -> None:
    server.run(
        "CREATE DATABASE shop",
        "CREATE TABLE shop.orders (id INT PRIMARY KEY, body VARCHAR(200), KEY (body(20))) ENGINE=ATOLL",
        "CREATE TABLE shop.gone (id INT PRIMARY KEY, body VARCHAR(200)) ENGINE=ATOLL",
        f"INSERT INTO shop.orders SELECT seq, REPEAT(MD5(seq), 5) FROM mysql.seq_1_to_{ROWS}",
        f"INSERT INTO shop.gone SELECT seq, REPEAT(MD5(seq + 7), 5) FROM mysql.seq_1_to_{ROWS}",
        "ALTER TABLE shop.orders ENGINE=ATOLL",
        "ALTER TABLE shop.gone ENGINE=ATOLL",
        "INSERT INTO shop.orders VALUES (0, 'in the log only')",
    )


def change(server: Server, round_: int) -> None:
    """Rewrites all tables, so that the server does not need the former table files any more."""
    server.run(
        "DROP TABLE IF EXISTS shop.gone",
        f"DELETE FROM shop.orders WHERE id % 7 = {round_}",
        f"UPDATE shop.orders SET body = CONCAT('{round_} ', body)",
        "ALTER TABLE shop.orders ENGINE=ATOLL, FORCE",
    )


def collected(server: Server) -> None:
    """Waits until the server's collector has nothing left to delete."""

    def is_clean() -> bool:
        plan = told(server, "gc")
        return not plan["tombed"] and not plan["strays"]

    wait_until(is_clean, COLLECTED_WITHIN_S, "superfluous objects are still there", interval_s=1)


def kept_alone(server: Server) -> dict:
    """Waits until the only pin keeps objects that nothing else needs, and returns this pin.

    It has to wait because RocksDB drops files shortly after a statement, and the next root shows that.
    """

    def found() -> list[dict]:
        return [pin for pin in told(server, "snapshot", "list") if pin["alone_bytes"] > 1 << 20]

    (pin,) = wait_until(found, 60, "a pin alone keeps what was given up", interval_s=1)
    return pin


def expect_sound(server: Server) -> None:
    for (table,) in server.run("SHOW TABLES IN shop"):
        checked = server.run(f"CHECK TABLE shop.{table}")
        assert checked[-1][-1] == "OK", checked
    assert told(server, "verify", "--deep")["problems"] == []
    assert told(server, "fsck", "--grace-hours", "1")["foreign"] == []


def test_a_clone_of_a_snapshot_goes_its_own_way(make_server: MakeServer) -> None:
    parent, child = make_server("parent"), make_server("child")
    parent.start()
    fill(parent)
    before = database_digests(parent, "shop")
    made = told(parent, "snapshot", "create", behind=("before 'it' ☂",))
    assert made["alone_bytes"] + made["shared_bytes"] > 1 << 20
    change(parent, 1)
    kept_alone(parent)
    collected(parent)
    parent.kill()
    parents = told(parent, "ls")
    (snapshot,) = told(parent, "snapshot", "list")
    assert snapshot["alone_bytes"] > 1 << 20 and snapshot["shared_bytes"] == 0

    cloned = told(parent, "clone", behind=(str(child.options["atoll_url"]), "--snapshot", "before 'it' ☂"))
    assert cloned["files"] == snapshot["files"]
    child.start()
    assert database_digests(child, "shop") == before
    assert child.value("SELECT body FROM shop.orders WHERE id = 0") == "in the log only"
    child.run(
        "INSERT INTO shop.orders VALUES (-1, 'written in the clone')", "CREATE TABLE shop.new LIKE shop.gone"
    )

    parent.start()
    assert [file["key"] for file in parents if file["key"].startswith("/")] == []
    told(parent, "snapshot", "drop", "--yes", behind=("before 'it' ☂",))
    child.kill()
    change(parent, 2)
    collected(parent)
    parent.kill()
    parent.start()
    assert parent.value("SELECT COUNT(*) FROM shop.orders WHERE id % 7 IN (1, 2)") == 0

    child.wipe()
    child.start(atoll_take_over="ON")
    assert child.value("SELECT body FROM shop.orders WHERE id = -1") == "written in the clone"
    child.run("DELETE FROM shop.orders WHERE id = -1", "DROP TABLE shop.new")
    assert database_digests(child, "shop") == before
    expect_sound(child)
    expect_sound(parent)


def test_a_clone_that_reads_nothing_of_its_parent_frees_it(make_server: MakeServer) -> None:
    parent, child = make_server("parent"), make_server("child")
    parent.start()
    fill(parent)
    told(parent, "clone", behind=(str(child.options["atoll_url"]),))
    change(parent, 1)
    child.start()
    ran = atollctl(child, "release")
    assert ran.returncode == 1 and "still reads" in ran.stderr, ran.stdout + ran.stderr
    pin = kept_alone(parent)
    assert pin["kind"] == "clone" and pin["name"] == child.options["atoll_url"]


def test_a_restore_in_place_undoes_a_mistake_and_is_undone(make_server: MakeServer) -> None:
    server = make_server("shop")
    server.start()
    fill(server)
    before = database_digests(server, "shop")
    assert server.value("SELECT ATOLL_SNAPSHOT('before ☂')") == "before ☂"
    change(server, 1)
    server.run("CREATE TABLE shop.late (a INT PRIMARY KEY) ENGINE=ATOLL", "INSERT INTO shop.late VALUES (1)")
    server.run("ALTER TABLE shop.orders ADD COLUMN extra INT DEFAULT 7, DROP KEY body")
    after = database_digests(server, "shop")
    refused = atollctl(server, "restore", behind=("--snapshot", "before ☂", "--yes"))
    assert refused.returncode == 1 and "may still be running" in refused.stderr, refused
    server.stop()
    unasked = atollctl(server, "restore", behind=("--snapshot", "before ☂"))
    assert unasked.returncode == 1 and "Nothing was changed" in unasked.stderr, unasked
    planned = told(server, "restore", behind=("--snapshot", "before ☂", "--dry-run"))
    assert planned["commit_us"] < planned["present_commit_us"] and planned["root"] is None
    done = told(server, "restore", behind=("--snapshot", "before ☂", "--keep", "mistake", "--yes"))
    assert done["kept"]["name"] == "mistake"

    server.start()  # the local directory still has the state before the restore
    assert database_digests(server, "shop") == before
    server.run("INSERT INTO shop.gone VALUES (-1, 'after the restore')")
    expect_sound(server)
    names = {name for (name,) in server.run("SELECT snapshot_name FROM information_schema.atoll_snapshots")}
    assert names == {"before ☂", "mistake"}
    server.stop()
    told(server, "restore", behind=("--snapshot", "mistake", "--keep", "restored", "--yes"))
    server.wipe()
    server.start()
    assert database_digests(server, "shop") == after
    expect_sound(server)
