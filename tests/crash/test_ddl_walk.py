"""Goal:   kill -9 at any system call of any DDL statement leaves the old definition or the new one, readable by the
        server and known to the catalog, and no orphans.
Method: strace ends the server as the statement's thread enters a call that changes files; after the restart all
        definitions and rows must be those of before or after, then once more from the catalog alone
        (tests/harness/crash_walk/walk.py). Half as often the restarted server is killed as well, at a random
        call of its main thread, and started again. Here some of the calls; all of them by `make ddl-walk`.

ATOLL_DDL_WALK_EVERY says each how many calls; ATOLL_DDL_WALK_SEED takes others. They are the same in every run, so that
a failure comes from the change under test.
"""

from __future__ import annotations

import os

import pytest
from harness.crash_walk import walk as crash_walk

EVERY = int(os.environ.get("ATOLL_DDL_WALK_EVERY", "25"))
SEED = int(os.environ.get("ATOLL_DDL_WALK_SEED", "7"))


@pytest.mark.skipif(not crash_walk.can_trace(), reason="strace may not trace processes here")
@pytest.mark.parametrize("again", [False, True], ids=["once", "again_at_start"])
def test_kill_9_at_a_system_call_of_ddl_leaves_the_old_or_the_new_definition(again):
    every = 2 * EVERY if again else EVERY
    print(f"seed {SEED}, every {every}")
    second = crash_walk.SecondKill(SEED) if again else None
    calls, wrong = 0, []
    for _walk, result in crash_walk.take_walks("ATOLL", every, SEED, second=second):
        calls += result.calls
        wrong += result.wrong
    print(f"{calls} calls")
    assert not wrong, "\n".join(wrong)
    assert calls > 1000 / every, "too few calls to prove anything"
