"""Goal:   a server whose local directory is older than the bucket says whether anything is missing. It keeps the
        directory only if it may have commits that the bucket lacks.
Method: two servers use one database in turn; one of them is closed in order, killed, or finds a database that
        `atollctl restore` has put back.
"""

from __future__ import annotations

import os
import time

from harness.atollctl import atollctl
from harness.server import Server


def stale(server: Server) -> list[str]:
    return sorted(path.name for path in (server.data / "#atoll").glob("db.stale-*"))


def two(lab) -> tuple[Server, Server]:
    url = f"file://{lab.home}/bucket"
    (lab.home / "bucket").mkdir()
    first = lab.server("first", atoll_url=url, atoll_durability="sync").start()
    first.run("CREATE DATABASE d", "CREATE TABLE d.t (id INT PRIMARY KEY) ENGINE=ATOLL")
    return first, lab.server("second", atoll_url=url, atoll_durability="sync")


def test_after_a_move_and_back_nothing_is_missing(lab):
    first, second = two(lab)
    first.run("INSERT INTO d.t VALUES (1)")
    first.stop()
    second.start().run("INSERT INTO d.t VALUES (2)")
    second.stop()
    mark = first.log_mark()
    first.start()
    assert first.run("SELECT id FROM d.t ORDER BY id") == [(1,), (2,)]
    assert "Nothing is missing" in first.log_since(mark)
    assert "NOT in the database" not in first.log_since(mark)
    assert stale(first) == []
    # The note of the clean shutdown must not outlive the start.
    first.run("INSERT INTO d.t VALUES (3)")
    first.kill()
    second.start(atoll_take_over="ON").stop()
    mark = first.log_mark()
    first.start()
    assert "was moved to" in first.log_since(mark)
    assert len(stale(first)) == 1


def test_an_old_directory_of_a_dead_server_is_kept_for_a_month(lab):
    first, second = two(lab)
    ancient = first.data / "#atoll" / "db.stale-0"
    ancient.mkdir()
    month = time.time() - 31 * 86400
    os.utime(ancient, (month, month))
    first.kill()
    second.start(atoll_take_over="ON").run("INSERT INTO d.t VALUES (2)")
    second.stop()
    mark = first.log_mark()
    first.start()
    assert "commits that only it has are NOT in the database any more" in first.log_since(mark)
    assert len(stale(first)) == 1
    assert not ancient.exists()


def test_after_a_restore_the_log_says_who_has_put_the_database_back(lab):
    first, _ = two(lab)
    first.run("INSERT INTO d.t VALUES (1)", "SELECT ATOLL_SNAPSHOT('one')", "INSERT INTO d.t VALUES (2)")
    first.stop()
    restored = atollctl(first, "restore", behind=("--snapshot", "one", "--yes"))
    assert restored.returncode == 0, restored.stderr
    mark = first.log_mark()
    first.start()
    assert first.run("SELECT id FROM d.t") == [(1,)]
    assert "was put back by atollctl restore" in first.log_since(mark)
    assert "NOT in the database" not in first.log_since(mark)
    assert stale(first) == []
