"""Goal:   a start compares the local log with the bucket; differences are repaired, or the start is refused.
Method: damage the local log of a killed server, or combine an older copy of the bucket with a newer data
        directory; start the server, and check the rows, the error log and every object of the bucket.
"""

from __future__ import annotations

import hashlib
import shutil
from contextlib import suppress
from pathlib import Path

import pymysql
import pytest
from harness.process import wait_until

ROWS = 1000
FENCE_BYTES = 137  # docs/internals/formats-bucket.md, FMT-W4


def newest_log(server) -> Path:
    """The newest local log, which has the rows of the killed server."""
    return max((server.data / "#atoll" / "db").glob("*.log"), key=lambda path: int(path.stem))


def former_chunks(bucket: Path) -> list[Path]:
    """The log chunks of all epochs except the newest, without fences. The server may delete some
    meanwhile."""
    *former, _newest = sorted((bucket / "wal").iterdir())
    assert former, "the newest server has no log yet"
    found = []
    for path in [path for epoch in former for path in epoch.iterdir()]:
        with suppress(FileNotFoundError):
            if path.stat().st_size != FENCE_BYTES:
                found.append(path)
    return found


def flip(log: Path, middle: int) -> None:
    content = bytearray(log.read_bytes())
    content[middle] ^= 1
    log.write_bytes(content)


def cut(log: Path, middle: int) -> None:
    with log.open("r+b") as file:
        file.truncate(middle)


def remove(log: Path, _middle: int) -> None:
    log.unlink()


@pytest.mark.parametrize(("damage", "said"), [(flip, "1 bytes"), (cut, "offset"), (remove, "is missing")])
def test_no_synchronous_commit_is_lost_with_the_local_log(lab, damage, said):
    bucket = lab.home / "bucket"
    server = lab.server(atoll_url=f"file://{bucket}", atoll_durability="sync").start()
    server.run("CREATE DATABASE d", "CREATE TABLE d.t (id INT PRIMARY KEY, v VARCHAR(100)) ENGINE=ATOLL")
    connection = server.connect(autocommit=True)
    with connection.cursor() as cursor:
        for number in range(ROWS):
            cursor.execute(f"INSERT INTO d.t VALUES ({number}, REPEAT('x', 50))")
    server.kill()
    log = newest_log(server)
    written = len(log.read_bytes().rstrip(b"\0"))
    assert written > ROWS * 50, "the rows are not in this log"
    damage(log, written // 2)
    if damage is flip:  # as if the server had been killed in the middle of an upload
        half_written = next((bucket / "wal").iterdir()) / f"{7:020}-{31:020}#1"
        half_written.write_bytes(b"half of it")
    mark = server.log_mark()
    server.start()
    assert server.value("SELECT COUNT(*) FROM d.t") == ROWS
    warned = [line for line in server.log_since(mark).splitlines() if "taken from the bucket" in line]
    assert len(warned) == 1, warned
    for part in (log.name, said, "[Warning]"):
        assert part in warned[0], warned[0]
    assert "replay ended early" not in server.log()
    if damage is flip:  # takes more than a minute, because of the collector's grace time
        server.run(
            "INSERT INTO d.t VALUES (-1, '')", "DELETE FROM d.t WHERE id = -1"
        )  # into a log of its own
        with suppress(TimeoutError):
            wait_until(
                lambda: not former_chunks(bucket), 180, "the log of the former server leaves the bucket"
            )
        assert not former_chunks(bucket), "the log of the former server stays in the bucket"
    server.restart()
    assert server.value("SELECT COUNT(*) FROM d.t") == ROWS
    server.stop()


# ---- an older bucket under a newer directory -------------------------------------------------------------


def objects_of(bucket: Path) -> dict[str, str]:
    """The name of every object, and the SHA-256 of its content."""
    files = (path for path in bucket.rglob("*") if path.is_file())
    return {str(path.relative_to(bucket)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def put(bucket: Path, copy: Path) -> None:
    """Replaces the bucket by `copy`."""
    shutil.rmtree(bucket)
    shutil.copytree(copy, bucket)


def add_rows(server, first: int) -> None:
    """Inserts a thousand rows and rebuilds the table, so that new table files have them."""
    server.run(
        f"INSERT INTO d.t SELECT seq, REPEAT('x', 50) FROM mysql.seq_{first}_to_{first + 999}",
        "ALTER TABLE d.t ENGINE=ATOLL, FORCE",
    )


def test_an_older_bucket_under_a_newer_directory_is_refused_and_not_changed(lab):
    bucket, older, newer = lab.home / "bucket", lab.home / "older", lab.home / "newer"
    server = lab.server(atoll_url=f"file://{bucket}").start()
    server.run("CREATE DATABASE d", "CREATE TABLE d.t (id INT PRIMARY KEY, v VARCHAR(100)) ENGINE=ATOLL")
    add_rows(server, 1)
    server.stop()
    shutil.copytree(bucket, older)
    server.start()
    add_rows(server, 1001)
    add_rows(server, 2001)
    server.stop()
    shutil.copytree(bucket, newer)

    put(bucket, older)
    before = objects_of(bucket)
    mark = server.log_mark()
    server.start()
    with pytest.raises(pymysql.Error, match="ATOLL engine is not running"):
        server.run("SELECT COUNT(*) FROM d.t")
    server.stop()
    refusal = [line for line in server.log_since(mark).splitlines() if "is older than the directory" in line]
    assert refusal, "nothing was said"
    for part in (str(bucket), "#atoll/db", "#atoll/cache", "move", "bring back", "Nothing was changed"):
        assert part in refusal[0], refusal[0]
    assert objects_of(bucket) == before, "the older bucket was changed"

    # The first way to repair it: restore the newer bucket.
    put(bucket, newer)
    server.start()
    assert server.value("SELECT COUNT(*) FROM d.t") == 3000
    server.stop()

    # The second way: use the state of the older bucket, without the local directory.
    put(bucket, older)
    shutil.move(server.data / "#atoll", lab.home / "moved-away")
    server.start()
    assert server.value("SELECT COUNT(*) FROM d.t") == 1000
    server.stop()
