"""Goal:   when a server dies between two steps of publishing, no acknowledged commit is lost, and the bucket
        is consistent.
Method: a proxy keeps the request that defines the window (docs/internals/windows.md). The server is killed at
        this point, and started with its directory, from the bucket alone, or with both after another owner.
"""

from __future__ import annotations

import pytest
from harness.process import wait_until
from harness.proxy import Fault
from harness.tables import Statement, create_wide
from harness.windows import (
    MANIFEST,
    MANIFEST_COPY,
    PIECE,
    ROOT,
    TABLE_FILE,
    TOMB,
    Scene,
    is_put,
    only_in_test_bucket,
    stores,
    ways,
)


def die_at(scene: Scene, pattern: str, landed: bool) -> None:
    """Rewrites a table, and kills the server at its first upload that matches `pattern`."""
    stop = scene.stop_at(is_put(pattern), landed)
    scene.rewrite()
    stop.wait()
    scene.server.kill()


# ---- table files ---------------------------------------------------------------------------------------


@stores
@ways(short="another_owner")
def test_a_table_file_in_the_bucket_that_no_manifest_names(lab, kind, way):
    scene = Scene(lab, kind)
    die_at(scene, TABLE_FILE, landed=True)
    scene.check_and_go_on(way)


@only_in_test_bucket
@stores
def test_half_of_a_table_file_in_pieces(lab, kind):
    scene = Scene(lab, kind)
    create_wide(scene.server, "wide", 50_000)
    stop = scene.stop_at(is_put(PIECE))
    Statement(scene.server, "ALTER TABLE wide ENGINE=ATOLL COMPRESSION=none").start()
    stop.wait()
    scene.server.kill()
    scene.reopen("directory")
    scene.check()
    assert (
        scene.server.value("SELECT engine FROM information_schema.tables WHERE table_name = 'wide'")
        == "InnoDB"
    )
    assert scene.server.value("SELECT COUNT(*) FROM big.wide") == 50_000


# ---- roots ------------------------------------------------------------------------------------------------


@stores
@ways(short="bucket")
def test_a_manifest_on_disk_that_no_root_names(lab, kind, way):
    scene = Scene(lab, kind)
    die_at(scene, ROOT, landed=False)
    scene.check_and_go_on(way)


@only_in_test_bucket
@stores
@ways(short="bucket")
def test_pieces_of_a_manifest_in_the_bucket_that_no_root_names(lab, kind, way):
    scene = Scene(lab, kind)
    die_at(scene, MANIFEST, landed=True)
    scene.check_and_go_on(way)


@stores
@ways(short="directory")
def test_a_root_whose_answer_is_lost_with_the_server(lab, kind, way):
    scene = Scene(lab, kind)
    die_at(scene, ROOT, landed=True)
    scene.check_and_go_on(way)


@only_in_test_bucket
@stores
def test_a_root_whose_answer_is_lost_is_published_once(lab, kind):
    scene = Scene(lab, kind)
    lost = scene.proxy.add(Fault(is_put(ROOT), drop_reply=True, times=1))
    late = scene.proxy.add(Fault(is_put(ROOT), delay_s=2.5, times=1))
    assert scene.rewrite().finished() is None
    assert scene.rewrite("b").finished() is None
    wait_until(lambda: lost.acted + late.acted == 2, 60, "two roots")
    wait_until(lambda: len(scene.names("root/")) >= 4, 60, "both in the bucket")
    slots = [int(name.rsplit("/", 1)[1]) for name in scene.names("root/")]
    assert slots == list(range(slots[0], slots[0] + len(slots))), "a slot was left out"
    scene.check()
    scene.check_and_go_on("bucket")


# ---- the MANIFEST begins anew -------------------------------------------------------------------------------


@only_in_test_bucket
@stores
@ways(short="bucket")
@pytest.mark.parametrize("landed", [False, True], ids=["kept", "landed"])
def test_a_copy_of_the_manifest_that_no_root_names(lab, kind, way, landed):
    scene = Scene(lab, kind)
    stop = scene.stop_at(is_put(MANIFEST_COPY), landed)
    for _ in range(40):  # the MANIFEST is uploaded as a whole when it has 20 objects
        pieces = len(scene.names("man/"))
        assert scene.rewrite().finished() is None
        wait_until(lambda pieces=pieces: stop.targets or len(scene.names("man/")) != pieces, 60, "a publish")
        if stop.targets:
            break
    stop.wait(1)
    scene.server.kill()
    scene.check_and_go_on(way)


# ---- deletions ----------------------------------------------------------------------------------------------


def with_superfluous_files(lab, kind) -> tuple[Scene, set[str]]:
    """A scene with table files in the bucket that no root needs any more, and the names of these files."""
    scene = Scene(lab, kind)
    assert scene.rewrite().finished() is None
    scene.wait_for_names("sst/", bool, "a table file")
    old = set(scene.names("sst/"))
    assert scene.rewrite().finished() is None
    return scene, old


@only_in_test_bucket
@stores
@ways(short="bucket")
@pytest.mark.parametrize("landed", [False, True], ids=["kept", "landed"])
def test_a_root_whose_superfluous_files_have_no_tomb(lab, kind, way, landed):
    scene, old = with_superfluous_files(lab, kind)
    stop = scene.stop_at(is_put(TOMB), landed)
    stop.wait()
    scene.server.kill()
    scene.reopen(way)
    scene.check()
    scene.wait_for_names("sst/", lambda names: not old & set(names), "superfluous files to go")
    scene.check()


@only_in_test_bucket
@stores
def test_a_deletion_whose_tomb_is_still_there(lab, kind):
    scene, old = with_superfluous_files(lab, kind)
    stop = scene.stop_at(lambda request: request.method == "DELETE" and TOMB in request.target)
    tomb = stop.wait(150)
    assert not old & set(scene.names("sst/"))
    scene.server.kill()
    scene.reopen("directory")
    scene.wait_for_names(
        "tomb/", lambda names: not any(tomb.endswith(name) for name in names), "the tomb to go"
    )
    scene.check()
