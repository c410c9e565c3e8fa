"""Goal:   whatever happens to pieces of the log on their way, a commit that was acknowledged is found again, and what
        is found is a prefix of the history.
Method: a proxy keeps one piece of the log, or all of them, while clients commit; the server is killed or goes on.
"""

from __future__ import annotations

import time

import pytest
from harness.process import wait_until
from harness.windows import CHUNK, Scene, first_of, is_put, only_in_test_bucket, stays_so, stores, ways

WRITERS = 6


def later_chunks(scene: Scene, target: str) -> list[str]:
    """Pieces of the log in the bucket that are behind the kept one."""
    return [name for name in scene.names("wal/") if name.endswith(target.rsplit("/", 1)[1]) is False
            and name.rsplit("/", 1)[1] > target.rsplit("/", 1)[1]]  # fmt: skip


@stores
def test_nothing_is_acknowledged_behind_a_piece_whose_answer_is_lost(lab, kind):
    """Its repetitions and the looks at it stay without an answer, too."""
    scene = Scene(lab, kind)
    stop = scene.stop_at(first_of(CHUNK, ("PUT", "GET", "HEAD")), landed=True)
    writers = scene.writers(WRITERS)
    target = stop.wait()
    wait_until(lambda: later_chunks(scene, target), 20, "a later piece in the bucket")
    time.sleep(0.5)  # clients note what was acknowledged before
    acked = len(scene.acked)
    stays_so(lambda: len(scene.acked) == acked, 2.5, "acknowledged behind an unknown outcome")
    stop.release()
    wait_until(lambda: len(scene.acked) > acked + 50, 20, "commits to go on")
    scene.server.kill()
    for writer in writers:
        writer.join()
    scene.check_and_go_on("bucket")


@stores
@ways(short="bucket")
@pytest.mark.parametrize(
    "late", [False, pytest.param(True, marks=only_in_test_bucket)], ids=["never", "late"]
)
def test_a_hole_in_the_log(lab, kind, way, late):
    """Pieces behind it are in the bucket; it lands never, or when the next owner works."""
    scene = Scene(lab, kind)
    stop = scene.stop_at(first_of(CHUNK))
    writers = scene.writers(WRITERS)
    target = stop.wait()
    wait_until(lambda: later_chunks(scene, target), 20, "a later piece in the bucket")
    time.sleep(0.2)
    scene.server.kill()
    for writer in writers:
        writer.join()
    if late:
        scene.proxy.clear()
    scene.reopen(way)
    scene.check()
    if way != "directory":
        assert scene.found() <= scene.acked, "something behind the hole"
    stop.release()
    time.sleep(0.3)
    scene.check()
    scene.commit(3)
    scene.reopen("bucket")
    scene.check()


def publish(scene: Scene) -> None:
    """Waits for a root with all that was written so far: `local` ships nothing without one."""
    assert scene.rewrite().finished() is None
    wait_until(lambda: scene.server.counter("Atoll_publish_lag_ms") == 0, 60, "a root that says all")


@stores
def test_no_root_goes_in_front_of_the_log_it_needs(lab, kind):
    """A flush has moved one table's half of the transactions into a file, the other half is in the log only."""
    scene = Scene(lab, kind, "local")
    publish(scene)
    chunks = scene.stop_at(is_put(CHUNK))
    scene.commit(30)
    scene.rewrite()
    chunks.wait()
    roots = scene.names("root/")
    stays_so(
        lambda: scene.names("root/") == roots,
        3,
        "a root although the log in front of it is not in the bucket",
    )
    acked, scene.acked = scene.acked, set()  # `local` promises nothing of them once the directory is lost
    scene.reopen("bucket")
    scene.check()
    assert scene.found() <= acked


@only_in_test_bucket
@stores
def test_with_local_durability_what_was_published_is_found(lab, kind):
    scene = Scene(lab, kind, "local")
    before = set(scene.acked)
    publish(scene)
    scene.commit(30)
    acked, scene.acked = scene.acked, before
    scene.reopen("bucket")
    scene.check()
    found = scene.found()
    assert found == set(range(1, len(found) + 1)), "not a prefix of the history"
    assert found <= acked
