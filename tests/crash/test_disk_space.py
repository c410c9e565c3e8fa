"""Goal:   when its disk gets full, the part cache shrinks before writes fail; a database can be much larger than its
        disk.
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
            )  # less than a quarter of the disk; the server gives back some of its own
            return server.counter("Atoll_cache_bytes_used") < before

        wait_until(gives_way, 30, "the cache to give way")
        assert "gives space back" in server.log()
        server.run("INSERT INTO big.wide VALUES (1000000, 'there was room')")
        server.run("DELETE FROM big.wide WHERE id = 1000000")
        assert table_digest(server, "big", "wide") == expected
        server.stop()


# The data of the whole database, as a multiple of the small disk. `TIMES=10 pytest -k larger_than` is the long form.
TIMES = int(os.environ.get("TIMES", "2"))
DISK_MIB = 256


def test_a_database_that_is_much_larger_than_its_disk(lab):
    """Loads, changes and reads a database of TIMES times the disk: no statement fails, and no row is wrong."""
    with disk.small_disk(lab.home / "server", DISK_MIB) as mounted:
        if mounted is None:
            pytest.skip("NOT TESTED: mounting is not allowed here, so no disk is small")
        server = lab.s3_server(lab.store(), atoll_block_cache_size="32M", innodb_log_file_size="8M").start()
        server.run(
            "CREATE DATABASE large",
            "CREATE TABLE large.t (id INT PRIMARY KEY, changes INT, sum INT UNSIGNED, pad BLOB, KEY (changes)) "
            "ENGINE=ATOLL COMPRESSION=none",
        )
        batch = 4000  # rows of 4,000 bytes: 16 MB
        batches = TIMES * DISK_MIB // 16
        for number in range(batches):
            low = number * batch
            server.run(
                f"INSERT INTO large.t SELECT {low} + seq, 0, 0, CONCAT(RANDOM_BYTES(1000), RANDOM_BYTES(1000), "
                f"RANDOM_BYTES(1000), RANDOM_BYTES(1000)) FROM mysql.seq_0_to_{batch - 1}",
                f"UPDATE large.t SET changes = 1, sum = CRC32(pad) WHERE id BETWEEN {low} AND {low + batch - 1}",
                # Rows of former batches, which are in the bucket only.
                f"UPDATE large.t SET changes = changes + 1 WHERE id % 997 = {number} AND id < {low}",
            )
        assert server.value("SELECT COUNT(*) FROM large.t WHERE sum <> CRC32(pad)") == 0
        assert server.value("SELECT COUNT(*) FROM large.t") == batches * batch
        changed = sum(len([i for i in range(number, number * batch, 997)]) for number in range(batches))
        assert server.value("SELECT SUM(changes - 1) FROM large.t FORCE INDEX (changes)") == changed
        server.kill()
        server.start()
        assert server.value("SELECT SUM(changes - 1) FROM large.t") == changed
        assert server.run("CHECK TABLE large.t")[0][3] == "OK"
        server.stop()


def test_on_a_small_disk_the_cache_gives_way_before_a_statement_fails(lab):
    """With default settings, on a disk of 200 MB that others fill up to 70 MB."""
    store = lab.store()
    first = lab.s3_server(store).start()
    create_wide(first, "wide", 250_000)
    first.run("ALTER TABLE big.wide ENGINE=ATOLL COMPRESSION=none")
    drained(first)
    first.stop()
    server = lab.s3_server(store, "second").initialize()
    with disk.small_disk(server.data / "#atoll", 200) as mounted:
        if mounted is None:
            pytest.skip("NOT TESTED: mounting is not allowed here, so no disk is small")
        server.start()
        assert server.value("SELECT SUM(LENGTH(body)) FROM big.wide") > 0
        before = filled_cache_bytes(server)
        assert before > 60 << 20, "the cache has too little that it could give"
        fill(mounted, spare=10 << 20)
        wait_until(lambda: server.counter("Atoll_cache_bytes_used") < before, 30, "the cache to give way")
        for number in range(20):
            server.run(f"INSERT INTO big.wide VALUES ({1000000 + number}, 'there was room')")
        server.restart()
        assert server.value("SELECT COUNT(*) FROM big.wide WHERE id >= 1000000") == 20
        server.stop()
