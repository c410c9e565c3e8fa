"""Goal:   after kill -9 at any moment, a transaction larger than its memory is there completely or not at
        all, on local disk and in the bucket, with and without binary log.
Method: a statement that changes all rows is repeated with the smallest atoll_transaction_memory. The server
        is killed at a random moment; every third time the local disk is lost, too. All rows must then have
        the same value: that of the last acknowledged statement, or of the next one.

        Other tests: the same with large rows; the memory used by statements over 300,000 rows and by large
        rows; a full disk, a bucket that does not answer, a fenced server.

ATOLL_HUGE_KILL_ROUNDS changes the number of rounds, ATOLL_KILL_SEED repeats a run.
"""

from __future__ import annotations

import os
import random
import threading
import time

import pymysql
import pytest

ROWS = 60_000
ROUNDS = int(os.environ.get("ATOLL_HUGE_KILL_ROUNDS", "6"))
BUCKET_EVERY = 3
SEED = int(os.environ.get("ATOLL_KILL_SEED", "0")) or random.SystemRandom().randrange(1 << 32)


class Counted:
    """Checks a number that each statement raises by one, over kills and starts, with
    atoll_durability=sync."""

    def __init__(self, value: int):
        self._seen = value  # the number found after the last start
        self._promised = value  # the number that must survive even a loss of the disk

    def check(self, found: int, acknowledged: int, disk_lost: bool) -> None:
        """Checks the number `found` after a start. `acknowledged` is the number of statements that the killed
        server has acknowledged.

        The statement in flight may have been carried out, too. If it is found after a start from the local
        disk, it was not acknowledged: until a later statement is acknowledged, it may still be lost with the
        disk.
        """
        most = self._seen + acknowledged
        least = self._promised if disk_lost and acknowledged == 0 else most
        assert least <= found <= most + 1, f"{found} found, {least} to {most + 1} expected"
        if disk_lost:
            self._promised = found
        elif acknowledged > 0:
            self._promised = most
        self._seen = found


class Updater(threading.Thread):
    """Raises b of every row by one, in statement after statement, until the server dies."""

    def __init__(self, server):
        super().__init__(daemon=True)
        self.acknowledged = 0
        self.failure: BaseException | None = None
        self._server = server

    def run(self) -> None:
        try:
            with self._server.connect("d").cursor() as cursor:
                while self.failure is None:
                    cursor.execute("UPDATE t SET b = b + 1")
                    if cursor.rowcount == ROWS:
                        self.acknowledged += 1
                    else:
                        self.failure = AssertionError(f"{cursor.rowcount} rows changed")
        except pymysql.Error:
            pass  # the server was killed, perhaps before the client was connected


def start_after_kill(server, disk_lost: bool) -> None:
    if disk_lost:
        server.wipe()
    server.start(**({"atoll_take_over": "ON"} if disk_lost else {}))


def value_of_all_rows(server) -> int:
    ((count, least, most),) = server.run("SELECT COUNT(*), MIN(b), MAX(b) FROM d.t")
    assert count == ROWS and least == most, f"{count} rows with values from {least} to {most}"
    assert server.run("CHECK TABLE d.t EXTENDED")[-1][-1] == "OK"
    return most


@pytest.mark.parametrize(
    "options", [{}, {"log_bin": "binlog", "sync_binlog": 1}], ids=["one_phase", "binary_log"]
)
def test_kill_9_leaves_all_of_a_huge_statement_or_nothing(lab, options):
    print(f"ATOLL_KILL_SEED={SEED}")
    dice = random.Random(SEED)
    bucket = lab.home / "bucket"
    server = lab.server(
        atoll_url=f"file://{bucket}", atoll_transaction_memory=1 << 20, atoll_durability="sync", **options
    ).start()
    server.run(
        "CREATE DATABASE d",
        "CREATE TABLE d.t (a INT PRIMARY KEY, b INT, c VARCHAR(20), KEY (b)) ENGINE=ATOLL",
        f"INSERT INTO d.t SELECT seq, 0, 'some text' FROM mysql.seq_1_to_{ROWS}",
    )
    started = time.monotonic()
    server.run("UPDATE d.t SET b = b + 1")
    duration = time.monotonic() - started
    counted = Counted(1)
    spills = server.data / "#atoll" / "db" / "spill"
    for index in range(ROUNDS):
        updater = Updater(server)
        updater.start()
        time.sleep(duration * dice.uniform(0.3, 2.2))
        server.kill()
        updater.join()
        assert updater.failure is None, updater.failure
        disk_lost = index % BUCKET_EVERY == BUCKET_EVERY - 1
        start_after_kill(server, disk_lost)
        found = value_of_all_rows(server)
        print(f"round {index}: {updater.acknowledged} acknowledged, {found} found")
        counted.check(found, updater.acknowledged, disk_lost)
        assert not spills.exists() or not list(spills.iterdir()), "files of a transaction that has ended"
    server.stop()


def test_without_room_for_its_changes_a_statement_fails_and_nothing_else(lab):
    server = lab.server(atoll_transaction_memory=1 << 20).start()
    server.run(
        "CREATE DATABASE d",
        "CREATE TABLE d.t (a INT PRIMARY KEY, b INT) ENGINE=ATOLL",
        f"INSERT INTO d.t SELECT seq, 1 FROM mysql.seq_1_to_{ROWS}",
    )
    spills = server.data / "#atoll" / "db" / "spill"
    spills.rmdir()
    spills.touch()  # a file instead of the directory, so that spilling fails
    connection = server.connect("d", autocommit=False)
    with connection.cursor() as cursor:
        cursor.execute("UPDATE t SET b = 2 WHERE a = 1")
        with pytest.raises(pymysql.Error, match="local disk|spill"):
            cursor.execute("UPDATE t SET b = 3")
        cursor.execute("SELECT SUM(b) FROM t")
        assert cursor.fetchone()[0] == ROWS + 1
        spills.unlink()
        cursor.execute("UPDATE t SET b = b + 1")
        connection.commit()
    assert server.value("SELECT SUM(b) FROM d.t") == 2 * ROWS + 1
    server.stop()


def fill(server) -> None:
    server.run(
        "CREATE DATABASE d",
        "CREATE TABLE d.t (a INT PRIMARY KEY, b INT, KEY (b)) ENGINE=ATOLL",
        f"INSERT INTO d.t SELECT seq, 0 FROM mysql.seq_1_to_{ROWS}",
    )


def test_a_commit_outlives_a_silent_bucket(lab):
    store = lab.store()
    # With the default lag limits, the commit would wait for the bucket.
    patient = {"atoll_lag_max_ms": 600_000, "atoll_lag_max_bytes": 1 << 30}
    server = lab.s3_server(store, atoll_transaction_memory=1 << 20, **patient).start()
    fill(server)
    store.pause()
    server.run("UPDATE d.t SET b = 1")
    assert server.value("SELECT SUM(b) FROM d.t") == ROWS
    store.resume()
    server.stop()  # waits until the bucket has everything
    server.wipe()
    server.start()
    assert server.value("SELECT SUM(b) FROM d.t") == ROWS


def test_a_fenced_server_takes_nothing_in(lab):
    store = lab.store()
    first = lab.s3_server(store, "first", atoll_transaction_memory=1 << 20, atoll_durability="sync").start()
    fill(first)
    connection = first.connect("d", autocommit=False)
    with connection.cursor() as cursor:
        cursor.execute("UPDATE t SET b = 1")
    second = lab.s3_server(store, "second", atoll_take_over="ON").start()
    with pytest.raises(pymysql.Error):
        connection.commit()
    assert second.value("SELECT SUM(b) FROM d.t") == 0
    second.run("UPDATE d.t SET b = 2 WHERE a = 1")
    assert second.value("SELECT SUM(b) FROM d.t") == 2


def test_the_memory_of_a_huge_statement_is_bounded(lab):
    """300,000 rows of 120 bytes. Without the bound, the changes of each statement took 140 MiB at its
    commit."""
    rows, most_mib = 300_000, 100
    server = lab.server(
        atoll_transaction_memory=8 << 20, atoll_block_cache_size=8 << 20, performance_schema="OFF"
    ).start()
    server.run(
        "CREATE DATABASE d",
        "CREATE TABLE d.t (a INT PRIMARY KEY, b INT, c CHAR(100)) ENGINE=ATOLL",
        "INSERT INTO d.t SELECT seq, 1, REPEAT('x', 100) FROM mysql.seq_1_to_10000",
        "DELETE FROM d.t",
    )
    before = server.rss_peak_bytes()
    server.run(f"INSERT INTO d.t SELECT seq, 1, REPEAT('x', 100) FROM mysql.seq_1_to_{rows}")
    server.run("UPDATE d.t SET b = b + 1")
    server.run("BEGIN", "DELETE FROM d.t", "ROLLBACK", database="d")
    server.run(
        "BEGIN", "UPDATE t SET b = 0 WHERE a = 1", "SAVEPOINT s", "UPDATE t SET b = 7", "ROLLBACK TO s", "COMMIT",
        database="d",
    )  # fmt: skip
    grown_mib = (server.rss_peak_bytes() - before) / (1 << 20)
    print(f"memory grew by {grown_mib:.0f} MiB")
    assert grown_mib < most_mib
    assert server.run("SELECT COUNT(*), SUM(b) FROM d.t") == [(rows, 2 * rows - 2)]


def test_large_rows_leave_their_memory_when_the_statement_ends(lab):
    """The server keeps tables open after a statement. The memory for a large row must be freed
    nevertheless."""
    row_bytes, tables = 48 << 20, 10
    server = lab.server(
        atoll_block_cache_size="64M", max_allowed_packet="256M", table_open_cache_instances=1
    ).start()
    server.run("CREATE DATABASE d")
    before = server.rss_bytes()
    for number in range(tables):
        server.run(
            f"CREATE TABLE d.t{number} (a INT PRIMARY KEY, b LONGBLOB) ENGINE=ATOLL",
            f"INSERT INTO d.t{number} VALUES (1, REPEAT('x', {row_bytes}))",
            f"UPDATE d.t{number} SET b = CONCAT(b, 'y')",
        )
    deadline = time.monotonic() + 60  # memtables are flushed in the background
    while server.rss_bytes() - before > tables * row_bytes // 2 and time.monotonic() < deadline:
        time.sleep(0.2)
    assert server.rss_bytes() - before <= tables * row_bytes // 2
    assert server.value("SELECT LENGTH(b) FROM d.t3") == row_bytes + 1


def test_a_large_row_takes_no_more_memory_than_in_innodb(lab):
    """Before large rows were stored in pieces, an INSERT had the row in memory six times; two of these copies
    are the server's."""
    row_mib = 96
    grown_mib = {}
    for engine in ("InnoDB", "ATOLL"):
        server = lab.server(
            engine.lower(), atoll_transaction_memory=16 << 20, atoll_block_cache_size=16 << 20,
            innodb_buffer_pool_size=16 << 20, innodb_log_file_size=1 << 30, max_allowed_packet=1 << 30,
            performance_schema="OFF",
        ).start()  # fmt: skip
        server.run("CREATE DATABASE d", f"CREATE TABLE d.t (a INT PRIMARY KEY, b LONGBLOB) ENGINE={engine}")
        before = server.rss_peak_bytes()
        connection = server.connect("d")
        with connection.cursor() as cursor:
            cursor.execute(f"INSERT INTO t VALUES (1, REPEAT('x', {row_mib << 20}))")
            cursor.execute("UPDATE t SET b = CONCAT(b, 'y')")
            cursor.execute("SELECT LENGTH(b), MD5(b) = MD5(CONCAT(REPEAT('x', LENGTH(b) - 1), 'y')) FROM t")
            assert cursor.fetchall() == (((row_mib << 20) + 1, 1),)
            cursor.execute("BEGIN")
            cursor.execute("DELETE FROM t")
            cursor.execute("ROLLBACK")
            cursor.execute("SELECT LENGTH(b) FROM t WHERE b LIKE 'xx%xy'")
            assert cursor.fetchall() == (((row_mib << 20) + 1,),)
        grown_mib[engine] = (server.rss_peak_bytes() - before) >> 20
        server.stop()
    print(f"memory grew by MiB: {grown_mib}")
    assert grown_mib["ATOLL"] <= grown_mib["InnoDB"] + 16


def test_copying_a_large_row_takes_it_once_and_what_a_sort_may(lab):
    """Before large rows were stored in pieces, further copies of the row were in memory: packed, in a block,
    and compressed."""
    row_mib, sort_mib = 160, 16
    server = lab.server(
        atoll_transaction_memory=16 << 20, atoll_block_cache_size=16 << 20, max_allowed_packet=1 << 30,
        performance_schema="OFF",
    ).start()  # fmt: skip
    server.run(
        "CREATE DATABASE d",
        "CREATE TABLE d.t (a INT PRIMARY KEY, n INT, b LONGBLOB) ENGINE=ATOLL",
        f"INSERT INTO d.t VALUES (1, 1, REPEAT('x', {row_mib << 20}))",
    )
    server.restart()
    before = server.rss_peak_bytes()
    server.run("CREATE TABLE d.c ENGINE=ATOLL AS SELECT * FROM d.t", "ALTER TABLE d.t MODIFY n BIGINT")
    grown_mib = (server.rss_peak_bytes() - before) >> 20
    print(f"memory grew by {grown_mib} MiB")
    assert grown_mib < row_mib + sort_mib + 32
    for table in ("c", "t"):
        assert server.run(f"SELECT n, b = REPEAT('x', {row_mib << 20}) FROM d.{table}") == [(1, 1)]


def test_the_size_of_a_table_has_the_pieces_of_its_rows(lab):
    value = random.Random(SEED).randbytes(6 << 20)
    server = lab.server(max_allowed_packet=64 << 20).start()
    server.run("CREATE DATABASE d", "CREATE TABLE d.t (a INT PRIMARY KEY, b LONGBLOB) ENGINE=ATOLL")
    with server.connect("d").cursor() as cursor:
        cursor.execute("INSERT INTO t VALUES (1, %s)", (value,))
    server.run("CREATE TABLE d.c ENGINE=ATOLL AS SELECT * FROM d.t")
    sizes = server.run("SELECT data_length FROM information_schema.tables WHERE table_schema = 'd'")
    assert len(sizes) == 2
    assert all(len(value) <= bytes_ <= 2 * len(value) for (bytes_,) in sizes), sizes


def test_a_row_of_4_gib_is_refused(lab):
    """Such a row used to be stored with lengths that had overflowed, and could not be read."""
    value_bytes, columns = 256 << 20, 17
    server = lab.server(max_allowed_packet=1 << 30, performance_schema="OFF").start()
    names = [f"c{number}" for number in range(columns)]
    definitions = ", ".join(f"{name} LONGBLOB" for name in names)
    copies = ", ".join(f"b AS {name}" for name in names)
    server.run(
        "CREATE DATABASE d",
        "CREATE TABLE d.t (a INT PRIMARY KEY, b LONGBLOB) ENGINE=ATOLL",
        f"INSERT INTO d.t VALUES (1, REPEAT('x', {value_bytes}))",
        f"CREATE TABLE d.wide (a INT PRIMARY KEY, {definitions}) ENGINE=ATOLL",
        "INSERT INTO d.wide (a, c0) SELECT a, b FROM d.t",
    )
    for statement in (
        f"INSERT INTO wide SELECT a + 1, {copies} FROM t",
        f"UPDATE wide SET {', '.join(f'{name} = c0' for name in names[1:])}",
        f"CREATE TABLE copy ENGINE=ATOLL AS SELECT {copies} FROM t",
    ):
        with pytest.raises(pymysql.Error, match="row is too large") as refused:
            server.run(statement, database="d")
        assert refused.value.args[0] == 1296
    assert server.run("SELECT a, LENGTH(c0), c1 IS NULL FROM d.wide") == [(1, value_bytes, 1)]
    assert server.run("SHOW TABLES FROM d LIKE 'copy'") == []


@pytest.mark.parametrize("memory", [1 << 20, 64 << 20], ids=["spilled", "in_memory"])
def test_kill_9_leaves_large_rows_whole(lab, memory):
    """Each row has the number from which its value is computed, so wrong values are noticed. A row with
    pieces of two versions would also fail its checksum."""
    print(f"ATOLL_KILL_SEED={SEED}")
    dice = random.Random(SEED)
    server = lab.server(
        atoll_url=f"file://{lab.home / 'bucket'}", atoll_transaction_memory=memory, atoll_durability="sync"
    ).start()
    value = "REPEAT(CHAR(97 + {0} % 26), 5000000 + {0} % 7 * 100000)"
    server.run(
        "CREATE DATABASE d",
        "CREATE TABLE d.t (a INT PRIMARY KEY, n INT, b LONGBLOB) ENGINE=ATOLL",
        f"INSERT INTO d.t SELECT seq, 0, {value.format(0)} FROM mysql.seq_1_to_3",
    )
    counted = Counted(0)
    for index in range(3):
        acknowledged = 0
        connection = server.connect("d")
        killer = threading.Timer(dice.uniform(0.2, 2), server.kill)
        killer.start()
        try:
            while True:
                with connection.cursor() as cursor:
                    cursor.execute(f"UPDATE t SET n = n + 1, b = {value.format('n')}")
                acknowledged += 1
        except pymysql.Error:
            killer.join()
        start_after_kill(server, disk_lost=index == 1)
        rows = server.run(f"SELECT n, b = {value.format('n')} FROM d.t")
        assert len(rows) == 3 and all(same == 1 for _, same in rows)
        print(f"round {index}: {acknowledged} acknowledged, {rows} found")
        assert len({n for n, _ in rows}) == 1
        counted.check(rows[0][0], acknowledged, disk_lost=index == 1)
        assert server.run("CHECK TABLE d.t EXTENDED")[-1][-1] == "OK"
    server.stop()


def test_memory_that_was_freed_goes_back_to_the_system(lab):
    """Each scan runs in new threads. Without atoll_bound_heap, memory that earlier threads had freed stayed
    in their heaps."""
    rows, most_mib = 1_000_000, 120
    server = lab.server(
        atoll_transaction_memory=8 << 20,
        atoll_block_cache_size=32 << 20,
        performance_schema="OFF",
        atoll_bound_heap="ON",
    ).start()
    server.run(
        "CREATE DATABASE d",
        "CREATE TABLE d.t (a INT PRIMARY KEY, b INT, c CHAR(40)) ENGINE=ATOLL",
        f"INSERT INTO d.t SELECT seq, 1, MD5(seq) FROM mysql.seq_1_to_{rows}",
        "UPDATE d.t SET b = b + 1",
        "SELECT COUNT(*), SUM(b) FROM d.t",
    )
    before = server.rss_bytes()
    for _ in range(6):
        assert server.run("SELECT COUNT(*), SUM(b) FROM d.t") == [(rows, 2 * rows)]
    grown_mib = (server.rss_peak_bytes() - before) / (1 << 20)
    print(f"memory grew by {grown_mib:.0f} MiB")
    assert grown_mib < most_mib
