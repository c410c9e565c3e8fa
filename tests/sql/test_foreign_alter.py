"""Goal:   while an ALTER with a copy puts the new table of a child in place, no session can remove a parent that a row
        of the child needs.
Method: strace holds the ALTER at each renaming of a file in turn, and another session removes the parent. It must wait
        or be refused, never succeed.
"""

from __future__ import annotations

import threading
import time

import pymysql
import pytest
from harness.crash_walk import walk

HOLD_S = 1.5
HAS_CHILDREN = 1451
ALTER = "ALTER TABLE c FORCE, ALGORITHM=COPY"


def holds_at(number: int) -> tuple[str, str]:
    """The strace options that hold the thread for HOLD_S when it enters its `number`-th renaming."""
    return ("-e", f"inject=rename:delay_enter={int(HOLD_S * 1e6)}:when={number}")


@pytest.mark.skipif(not walk.can_trace(), reason="strace may not trace processes here")
@pytest.mark.parametrize("action", ["RESTRICT", "CASCADE"])
def test_no_parent_is_removed_while_a_copy_of_its_child_comes_into_place(lab, action):
    server = lab.server().start()
    server.run(
        "CREATE DATABASE d",
        "CREATE TABLE d.p (id INT PRIMARY KEY) ENGINE=ATOLL",
        "CREATE TABLE d.c (id INT PRIMARY KEY, p INT, "
        f"FOREIGN KEY (p) REFERENCES p (id) ON DELETE {action}) ENGINE=ATOLL",
        "INSERT INTO d.p SELECT seq FROM mysql.seq_1_to_20",
        "INSERT INTO d.c SELECT seq, seq FROM mysql.seq_1_to_20",
    )
    renamings = sum(call == "rename" for call, _ in walk.calls_of(server, ALTER))
    assert renamings > 1
    for number in range(1, renamings + 1):
        with walk.traced(server, *holds_at(number)) as cursor:
            alter = threading.Thread(target=cursor.execute, args=(ALTER,))
            alter.start()
            time.sleep(HOLD_S / 2)
            try:
                server.run(f"DELETE FROM d.p WHERE id = {number}")
                assert action == "CASCADE", f"a parent with a child was removed at renaming {number}"
            except pymysql.err.IntegrityError as error:
                assert error.args[0] == HAS_CHILDREN
            alter.join()
        orphans = server.value("SELECT COUNT(*) FROM d.c WHERE p NOT IN (SELECT id FROM d.p)")
        assert orphans == 0, f"at renaming {number}"
    assert server.value("SELECT COUNT(*) FROM d.c") == 20 - (renamings if action == "CASCADE" else 0)
