"""Goal:   the part cache gives way first when its disk gets full.
Method: a data directory on a small disk, its bucket elsewhere; the cache is filled by reads, then the disk by a file.
"""

from __future__ import annotations

import os

import pytest
from harness import disk
from harness.digest import table_digest
from harness.process import wait_until
from harness.tables import create_wide, drained


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
        wait_until(lambda: server.counter("Atoll_cache_bytes_used") > 20 << 20, 30, "the cache to fill")
        before = server.counter("Atoll_cache_bytes_used")

        free = os.statvfs(mounted).f_bavail * os.statvfs(mounted).f_frsize
        with (mounted / "filler").open("wb") as filler:
            os.posix_fallocate(filler.fileno(), 0, free - (20 << 20))  # less than a sixteenth is left
        wait_until(lambda: server.counter("Atoll_cache_bytes_used") < before, 30, "the cache to give way")
        assert "gives space back" in server.log()
        server.run("INSERT INTO big.wide VALUES (1000000, 'there was room')")
        server.run("DELETE FROM big.wide WHERE id = 1000000")
        assert table_digest(server, "big", "wide") == expected
        server.stop()
