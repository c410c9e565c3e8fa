"""Goal:   kill -9 at any system call of any DDL statement leaves the old or the new definition, which the
        server can read and the catalog knows, and no orphaned objects.
Method: strace kills the server when the statement's thread enters a system call that changes files. After the
        restart all definitions and rows must be those before or after the statement; this is checked once
        more from the catalog alone (tests/harness/crash_walk/walk.py). In half as many cases the restarted
        server is killed, too, at a random system call of its main thread, and started again. In as many
        cases it has also lost its data directory then, and must find the same in the bucket. This test
        takes some of the calls; `make ddl-walk` takes all of them.

With ATOLL_DDL_WALK_EVERY=n the server is killed at each n-th call; another ATOLL_DDL_WALK_SEED chooses other
calls. By default every run takes the same calls, so that a new failure comes from the change under test.
"""

from __future__ import annotations

import os

import pytest
from harness.crash_walk import walk as crash_walk

EVERY = int(os.environ.get("ATOLL_DDL_WALK_EVERY", "25"))
SEED = int(os.environ.get("ATOLL_DDL_WALK_SEED", "7"))


@pytest.mark.skipif(not crash_walk.can_trace(), reason="strace may not trace processes here")
@pytest.mark.parametrize(
    ("again", "lost"),
    [(False, False), (True, False), (True, True)],
    ids=["once", "again_at_start", "lost_at_start"],
)
def test_kill_9_at_a_system_call_of_ddl_leaves_the_old_or_the_new_definition(again, lost):
    every = 2 * EVERY if again else EVERY
    print(f"seed {SEED}, every {every}")
    second = crash_walk.SecondKill(SEED) if again else None
    calls, wrong = 0, []
    for _walk, result in crash_walk.take_walks("ATOLL", every, SEED, second=second, loses_disk=lost):
        calls += result.calls
        wrong += result.wrong
    print(f"{calls} calls")
    assert not wrong, "\n".join(wrong)
    assert calls > 1000 / every, "too few calls to prove anything"
