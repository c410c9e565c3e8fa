"""Goal:   a TEMPORARY table takes no disk space any more when it was dropped and its transaction has ended.
Method: transactions that are larger than their memory, so that their rows are in files, fill TEMPORARY tables
        and drop or rebuild them before the COMMIT. The test measures the directory of the temp database.
"""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest
from harness.process import wait_until

ROWS, ROW_BYTES, ROUNDS = 5000, 2000, 4
FILL = f"INSERT INTO x SELECT seq, RANDOM_BYTES(1000), RANDOM_BYTES(1000) FROM mysql.seq_1_to_{ROWS}"


def used_bytes(directory: Path) -> int:
    """Returns the bytes of the table files in the directory. A file that was deleted meanwhile counts as empty."""
    used = 0
    for file in directory.glob("*.sst"):
        with contextlib.suppress(FileNotFoundError):
            used += file.stat().st_size
    return used


@pytest.mark.parametrize("end", ["DROP TEMPORARY TABLE x", "ALTER TABLE x ADD KEY (b(20)), ALGORITHM=COPY"])
def test_a_temporary_table_that_was_dropped_in_its_transaction_leaves_no_rows(lab, end):
    server = lab.server(atoll_transaction_memory=1 << 20).start()
    directory = server.data / "#atoll" / "temp"
    server.run("CREATE DATABASE d")
    connection = server.connect("d", timeout_s=60)
    with connection, connection.cursor() as cursor:
        for _ in range(ROUNDS):
            cursor.execute("BEGIN")
            cursor.execute("CREATE TEMPORARY TABLE x (a INT PRIMARY KEY, b BLOB, c BLOB) ENGINE=ATOLL")
            cursor.execute(FILL)
            cursor.execute(end)
            cursor.execute("COMMIT")
            cursor.execute("DROP TEMPORARY TABLE IF EXISTS x")
        # A table's worth of rows may stay in files that no compaction has rewritten yet.
        wait_until(lambda: used_bytes(directory) < ROWS * ROW_BYTES, 30, "the rows to be removed")
    server.stop()
