"""Goal:   when its disk gets full, the part cache shrinks before writes fail.
Method: the data directory is on a small disk, the bucket elsewhere. Reads fill the cache, then a file fills
        the disk.
"""

from __future__ import annotations

import contextlib
import os
import time
from pathlib import Path

import pytest
from harness import disk
from harness.digest import table_digest
from harness.process import wait_until
from harness.tables import create_wide, drained


def fill(directory: Path, spare: int) -> None:
    """Enlarges a file until less than `spare` bytes of the disk are free. The server may write to the disk
    meanwhile."""
    step = 4 << 20
    with (directory / "filler").open("ab") as filler:
        while (free := disk.free_bytes(directory)) > spare:
            with contextlib.suppress(OSError):  # the server has taken the space meanwhile
                size = os.fstat(filler.fileno()).st_size
                os.posix_fallocate(filler.fileno(), size, min(step, free))


def filled_cache_bytes(server) -> int:
    """Waits until the size of the part cache does not change any more, and returns it."""
    sizes: list[int] = [0]

    def is_steady() -> bool:
        sizes.append(server.counter("Atoll_cache_bytes_used"))
        time.sleep(0.5)
        return sizes[-1] > 20 << 20 and sizes[-4:] == sizes[-1:] * 4

    wait_until(is_steady, 30, "the cache to fill")
    return sizes[-1]


def test_the_cache_shrinks_when_others_need_the_disk(lab):
    with disk.small_disk(lab.home / "server", 600) as mounted:
        if mounted is None:
            pytest.skip("NOT TESTED: mounting is not allowed here, so no disk is small")
        server = lab.s3_server(lab.store()).start()
        create_wide(server, "wide", 100_000, engine="ATOLL")
        server.run("ALTER TABLE big.wide FORCE", "SET GLOBAL atoll_cache_size = 1 << 40")
        assert "more than half of the disk" in server.log(), "SET GLOBAL was believed"
        expected = table_digest(server, "big", "wide")
        drained(server)
        server.stop()
        assert disk.remove_local_objects(server.data) > 0
        server.start()
        assert table_digest(server, "big", "wide") == expected
        before = filled_cache_bytes(server)

        def gives_way() -> bool:
            fill(
                mounted, spare=20 << 20
            )  # less than a sixteenth of the disk; the server gives back some of its own
            return server.counter("Atoll_cache_bytes_used") < before

        wait_until(gives_way, 30, "the cache to give way")
        assert "gives space back" in server.log()
        server.run("INSERT INTO big.wide VALUES (1000000, 'there was room')")
        server.run("DELETE FROM big.wide WHERE id = 1000000")
        assert table_digest(server, "big", "wide") == expected
        server.stop()
