"""Goal:   whatever happens to log chunks on their way to the bucket, every acknowledged commit is found
        again, and the found commits are a prefix of the history.
Method: a proxy keeps one log chunk, or all of them, while clients commit. The server is killed or goes on.
"""

from __future__ import annotations

import time

import pytest
from harness.process import wait_until
from harness.windows import CHUNK, Scene, first_of, is_put, only_in_test_bucket, stays_so, stores, ways

WRITERS = 6


def later_chunks(scene: Scene, target: str) -> list[str]:
    """The log chunks in the bucket that follow the kept one."""
    return [name for name in scene.names("wal/") if name.endswith(target.rsplit("/", 1)[1]) is False
            and name.rsplit("/", 1)[1] > target.rsplit("/", 1)[1]]  # fmt: skip


@stores
def test_nothing_is_acknowledged_behind_a_piece_whose_answer_is_lost(lab, kind):
    """The chunk's repeated PUTs and the GETs and HEADs of it get no answer either."""
    scene = Scene(lab, kind)
    stop = scene.stop_at(first_of(CHUNK, ("PUT", "GET", "HEAD")), landed=True)
    writers = scene.writers(WRITERS)
    target = stop.wait()
    wait_until(lambda: later_chunks(scene, target), 20, "a later piece in the bucket")
    time.sleep(0.5)  # until clients have noted earlier acknowledgements
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
    """A chunk is missing while later chunks are in the bucket. It never reaches the bucket, or only when the
    next owner works."""
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
    """Waits for a root with all changes so far. With durability `local`, the log is shipped only for a
    root."""
    assert scene.rewrite().finished() is None
    wait_until(lambda: scene.server.counter("Atoll_publish_lag_ms") == 0, 60, "a root that says all")


@stores
def test_no_root_goes_in_front_of_the_log_it_needs(lab, kind):
    """A flush has written one table's half of the transactions to a file; the other half is only in the
    log."""
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
    acked, scene.acked = scene.acked, set()  # with `local`, these may be lost with the directory
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
