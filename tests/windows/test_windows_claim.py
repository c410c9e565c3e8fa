"""Goal:   only one of several owners can write. A former owner that continues, however late, damages nothing
        and acknowledges nothing. When a server dies during its claim, the next one can claim the bucket.
Method: a proxy keeps requests of one owner while another server, which does not use the proxy, takes the
        bucket over.
"""

from __future__ import annotations

import os
import signal
import threading

import pymysql
import pytest
from harness.process import wait_until
from harness.proxy import Fault, Request
from harness.windows import (
    CHUNK,
    CLAIM,
    FIRST_ROOT,
    ROOT,
    TABLE_FILE,
    TOMB,
    Scene,
    is_put,
    only_in_test_bucket,
    stores,
)

SECOND_EPOCH = "/00000000000000000002"


def is_deletion(request: Request) -> bool:
    return request.method == "DELETE" and "/hint/" not in request.target


def overtaken(scene: Scene, stop, meanwhile=lambda _second: None):
    """Stops the first server by SIGSTOP while one of its requests is kept. A second server takes the bucket
    over. Then the first server and its request go on. Returns the second server."""
    stop.wait(150)
    os.kill(scene.server.pid, signal.SIGSTOP)
    second = scene.take_over("second")
    scene.check(second)
    scene.commit(10, second)
    meanwhile(second)
    deleted: list[str] = []
    scene.proxy.add(
        Fault(lambda request: is_deletion(request) and deleted.append(request.target) is not None)
    )
    os.kill(scene.server.pid, signal.SIGCONT)
    stop.release()
    wait_until(lambda: scene.refuses(scene.server), 60, "the overtaken server to refuse a commit", 0.2)
    acked = set(scene.acked)
    assert scene.refuses(scene.server)
    assert scene.acked == acked
    assert "took it over" in scene.server.log(), "the log does not say why"
    assert scene.server.value("SELECT COUNT(*) FROM d.a") > 0, "it stays readable"
    # The first server may finish a batch of deletions that it had begun. Its own root did not need these
    # objects, so the second server does not need them either.
    assert not [target for target in deleted if SECOND_EPOCH in target], (
        "it deletes what the second has written"
    )
    return second


def check_successor(scene: Scene, second) -> None:
    """Checks the second server's transactions and the bucket. Then stops it and restarts the first server,
    which must take over the second one's data."""
    scene.check(second)
    scene.commit(5, second)
    scene.server.kill()
    second.stop()
    scene.reopen("directory")
    scene.check()
    scene.commit(1)


@stores
@pytest.mark.parametrize(
    "pattern",
    [ROOT, *(pytest.param(other, marks=only_in_test_bucket) for other in (CHUNK, TABLE_FILE))],
    ids=["root", "log", "table_file"],
)
def test_an_owner_that_slept_through_a_claim(lab, kind, pattern):
    scene = Scene(lab, kind)
    stop = scene.stop_at(is_put(pattern))
    scene.rewrite()
    check_successor(scene, overtaken(scene, stop))


@only_in_test_bucket
@stores
@pytest.mark.parametrize("matches", [is_put(TOMB), is_deletion], ids=["tomb", "deletion"])
def test_an_owner_that_slept_while_it_deleted(lab, kind, matches):
    scene = Scene(lab, kind)
    for _ in range(2):
        assert scene.rewrite().finished() is None
    check_successor(scene, overtaken(scene, scene.stop_at(matches)))


@only_in_test_bucket
@stores
def test_an_owner_that_slept_through_many_owners_and_their_collectors(lab, kind):
    scene = Scene(lab, kind)

    def live_long(second) -> None:
        former = [name for name in scene.names("") if "/00000000000000000001/" in name]
        for _ in range(3):
            second.restart(atoll_take_over="OFF")
            second.run("ALTER TABLE d.a FORCE, ALGORITHM=COPY", "ALTER TABLE d.b FORCE, ALGORITHM=COPY")
        # Only the first root and the two fences of the first epoch are left. The name of its claim does not
        # match the pattern.
        scene.wait_for_names(
            "", lambda names: sum("/00000000000000000001/" in name for name in names) <= 3, f"{former} to go"
        )

    stop = scene.stop_at(is_put(ROOT))
    scene.rewrite()
    second = overtaken(scene, stop, live_long)
    kept = [name for name in scene.names("") if "/00000000000000000001/" in name]
    assert any("/root/" in name for name in kept) and any("/wal/" in name for name in kept), kept
    assert "db/epoch/00000000000000000001" in scene.names("epoch/")
    check_successor(scene, second)


# ---- claimers ---------------------------------------------------------------------------------------------

CLAIM_STEPS = {"claim": CLAIM, "fence_of_roots": ROOT, "fence_of_the_log": CHUNK, "first_root": FIRST_ROOT}


@stores
@pytest.mark.parametrize(
    "landed", [False, pytest.param(True, marks=only_in_test_bucket)], ids=["kept", "landed"]
)
def test_a_claimer_that_dies_at_each_step(lab, kind, landed):
    """The dead claimer's kept requests reach the store while its successor works."""
    scene = Scene(lab, kind)
    scene.server.kill()
    for step, pattern in CLAIM_STEPS.items():
        stop = scene.stop_at(is_put(pattern), landed)
        claimer = scene.lab.s3_server(
            scene.store, f"claimer_{step}", endpoint=scene.proxy.endpoint, **scene.options
        )
        starting = threading.Thread(target=start_until_killed, args=(claimer,))
        starting.start()
        stop.wait()
        wait_until(claimer.running, 10, "the claimer's process")
        claimer.kill()
        starting.join()
        scene.proxy.clear()
        third = scene.take_over(f"third_{step}")
        scene.check(third)
        scene.commit(3, third)
        stop.release()
        scene.commit(3, third)
        scene.check(third)
        third.kill()
    scene.reopen("bucket")
    scene.check()


def start_until_killed(server) -> None:
    try:
        server.start(atoll_take_over="ON")
    except Exception:  # the test kills it
        return


@only_in_test_bucket
@stores
def test_of_two_claimers_at_once_one_writes(lab, kind):
    scene = Scene(lab, kind)
    scene.server.kill()
    for round_number in range(3):
        claimers = [
            scene.lab.s3_server(scene.store, f"claimer_{round_number}_{name}", **scene.options)
            for name in "xy"
        ]
        done = threading.Event()
        threads = [threading.Thread(target=start_and_stay, args=(claimer, done)) for claimer in claimers]
        for thread in threads:
            thread.start()

        def writers(claimers=claimers) -> list:
            return [claimer for claimer in claimers if not refused(scene, claimer)]

        wait_until(lambda: len(writers()) == 1, 60, "exactly one that writes", 0.2)
        (winner,) = writers()
        scene.commit(5, winner)
        scene.check(winner)
        for claimer in claimers:
            claimer.kill()
        done.set()
    scene.reopen("bucket")
    scene.check()


def start_and_stay(server, done: threading.Event) -> None:
    """Keeps the starting thread alive, because a server ends with the thread that started it."""
    start_until_killed(server)
    done.wait()


def refused(scene: Scene, server) -> bool:
    try:
        return scene.refuses(server)
    except pymysql.Error:
        return True
