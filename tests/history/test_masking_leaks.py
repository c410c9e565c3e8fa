"""Goal:   when the tables of a masked clone open, nothing that the clone still needs has a row from before: no
        table file, no log, no MANIFEST, in the bucket and on the local disk (rule MASK-4).
Method: values of which the bytes can be found in every file, because nothing is compressed. A copy of the clone
        gets exactly the files that its newest state needs.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from conftest import Lab, server_maker
from harness.atollctl import atollctl
from harness.process import wait_until
from harness.server import Server
from test_masking import clone, is_open, mask_file

ROWS = 20_000
SECRET = b"s3cr3t"
PEOPLE = """CREATE TABLE shop.people (
    id INT PRIMARY KEY, mail VARCHAR(100) CHARACTER SET ascii COLLATE ascii_bin, note VARCHAR(300), KEY (mail)
    ) ENGINE=ATOLL COMPRESSION=none"""


@pytest.fixture
def pair(lab: Lab) -> tuple[Server, Server]:
    """A parent with secrets in rows, in keys, in rows that were deleted, and in its newest log; and a clone."""
    make_server = server_maker(lab, "file", atoll_durability="sync", atoll_compression="none")
    parent, child = make_server("parent").start(), make_server("child")
    parent.run(
        "CREATE DATABASE shop",
        PEOPLE,
        PEOPLE.replace("people", "former"),
        PEOPLE.replace("people", "few"),
        PEOPLE.replace("people", "untouched"),
        *(
            f"INSERT INTO shop.{table} SELECT seq, CONCAT('s3cr3t-', seq), REPEAT('s3cr3t', 40)"
            f" FROM mysql.seq_1_to_{rows}"
            for table, rows in (("people", ROWS), ("former", ROWS), ("few", 50), ("untouched", 50))
        ),
        "UPDATE shop.untouched SET mail = id, note = ''",  # the former values are in the files of the parent
    )
    parent.restart()
    parent.run("INSERT INTO shop.people VALUES (-1, 's3cr3t in the log', '')")
    clone(parent, child)
    return parent, child


def files_with_secrets(*directories: Path) -> list[str]:
    found = []
    for directory in directories:
        files = [file for file in directory.rglob("*") if file.is_file()]
        assert files, f"{directory} has no files"
        found += [str(file.relative_to(directory)) for file in files if SECRET in file.read_bytes()]
    return found


def newest_state(lab: Lab, server: Server, name: str) -> Path:
    """Copies what the newest state of the server's database needs into a directory, and returns that."""
    copied = atollctl(server, "copy", behind=(f"file://{lab.home}/{name}",))
    assert copied.returncode == 0, copied.stdout + copied.stderr
    return lab.home / name


def test_nothing_that_a_masked_clone_needs_has_rows_from_before(
    lab: Lab, pair: tuple[Server, Server], tmp_path: Path
) -> None:
    parent, child = pair
    assert files_with_secrets(newest_state(lab, child, "before")), "this test can find nothing"
    child.start(
        atoll_mask_file=mask_file(
            tmp_path,
            *(
                f"UPDATE shop.{table} SET mail = CONCAT(id, '@mask'), note = ''"
                for table in ("people", "few")
            ),
            "TRUNCATE TABLE shop.former",
        )
    )
    wait_until(lambda: is_open(child), 120, "the tables stay closed")
    assert files_with_secrets(newest_state(lab, child, "masked")) == []
    # The caches and the log on the local disk are gone soon after.
    wait_until(lambda: not files_with_secrets(child.data / "#atoll"), 60, "the local disk has former rows")
    child.stop()
    assert files_with_secrets(newest_state(lab, child, "stopped")) == []

    # No file of the parent is needed any more: materialize has nothing to copy, and says what is left.
    done = atollctl(child, "materialize", "--yes")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "nothing was copied" in done.stdout and "independent of" in done.stdout, done.stdout
    if files_with_secrets(lab.home / "bucket" / "child"):
        assert "former states" in done.stdout, done.stdout
    parent.destroy()
    shutil.rmtree(lab.home / "bucket" / "parent")
    shutil.rmtree(child.data / "#atoll")
    child.start()
    assert child.value("SELECT COUNT(*) FROM shop.people WHERE mail LIKE '%@mask'") == ROWS + 1
    assert child.value("SELECT COUNT(*) FROM shop.untouched") == 50
    assert child.run("CHECK TABLE shop.people, shop.few, shop.untouched EXTENDED")[0][-1] == "OK"
