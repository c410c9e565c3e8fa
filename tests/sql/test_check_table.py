"""Goal:   CHECK TABLE names each damaged row, entry or file. It does not report other failures or concurrent
        writes as corruption.
Method: change entries of a stopped server (tests/sql/edit_entries.cc), flip bytes of table files, make the
        bucket unreachable, and write while CHECK runs.
"""

from __future__ import annotations

import json
import re
import subprocess
import threading
import time
from pathlib import Path

import pymysql
import pytest
from harness import disk
from harness.atollctl import atollctl
from harness.process import wait_until
from harness.proxy import Fault
from harness.server import Server
from harness.tables import Statement, create_wide, drained

TABLE = (
    "CREATE DATABASE d",
    "CREATE TABLE d.t (id INT PRIMARY KEY, name VARCHAR(20) COLLATE utf8mb4_general_ci, n INT, "
    "twice INT AS (n * 2) VIRTUAL, KEY by_name (name), KEY by_twice (twice)) ENGINE=ATOLL",
    "INSERT INTO d.t (id, name, n) SELECT seq, CONCAT('Name ', seq), seq FROM mysql.seq_1_to_500",
)


def check(server: Server, table: str = "d.t", option: str = "EXTENDED") -> tuple[str, str]:
    """Runs CHECK TABLE. Returns its verdict and its messages."""
    rows = server.run(f"CHECK TABLE {table} {option}")
    return rows[-1][3], "\n".join(row[3] for row in rows[:-1])


# ---- damaged entries ------------------------------------------------------------------------------------


class Damaged:
    """A server with table d.t whose entries can be changed while it is stopped."""

    def __init__(self, lab, tool: Path):
        self.tool = tool
        self.url = f"file://{lab.home}/bucket"
        self.server: Server = lab.server(atoll_url=self.url).start()
        self.server.run(*TABLE)

    def entries_of(self, index: str, table: str = "t") -> dict[str, str]:
        """Stops the server. Returns the entries of an index: key -> value, both in hexadecimal digits."""
        place = f"table_schema = 'd' AND table_name = '{table}'"
        family, prefix = self.server.run(
            f"SELECT family_id, key_prefix FROM information_schema.atoll_tables WHERE {place}"
        )[0]
        ordinal = self.server.value(
            f"SELECT ordinal FROM information_schema.atoll_indexes WHERE {place} AND index_name = '{index}'"
        )
        self.server.stop()
        self.family = str(family)
        lines = [line.split(" ") for line in self.edit("list").splitlines()]
        start = f"{prefix:08X}{ordinal:04X}"
        return {key: value for of, key, value in lines if of == self.family and key.startswith(start)}

    def edit(self, verb: str, *words: str) -> str:
        command = [self.tool, self.server.data / "#atoll", self.url, verb, *words]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def verdict(self, verb: str, key: str, *value: str, table: str = "d.t") -> tuple[str, str]:
        self.edit(verb, self.family, key, *value)
        self.server.start()
        # CHECK TABLE without EXTENDED compares entries, too, so it must have the same verdict.
        assert check(self.server, table, "")[0] == check(self.server, table)[0]
        return check(self.server, table)


@pytest.fixture
def damaged(lab, edit_entries) -> Damaged:
    return Damaged(lab, edit_entries)


@pytest.mark.parametrize("index", ["by_name", "by_twice"])
def test_a_removed_entry_is_named_with_its_row(damaged, index):
    entries = damaged.entries_of(index)
    assert len(entries) == 500
    key = next(key for key in entries if key.endswith(f"{0x80000000 + 77:08X}"))
    verdict, said = damaged.verdict("remove", key)
    assert verdict == "Corrupt"
    assert f"table d.t, index {index}: the entry of row '77' is missing: 0x{key}" in said
    assert said.count("the entry ") == 1, said


def test_a_removed_entry_is_missed_from_outside(damaged):
    """`verify --restore --rows` finds a missing entry without MariaDB: each index must have as many entries
    as the table has rows."""

    def verified():
        ran = atollctl(damaged.server, "--json", "verify", "--restore", "--rows")
        return ran.returncode, json.loads(ran.stdout)

    key = next(iter(damaged.entries_of("by_name")))
    status, proof = verified()
    assert (status, proof["rows_read"], proof["report"]["problems"]) == (0, 500, [])
    damaged.verdict("remove", key)
    status, proof = verified()
    assert status == 1 and not proof["is_restorable"]
    assert proof["report"]["problems"] == [
        "table d.t: the index `by_name` (name) has 499 entries for 500 rows"
    ]


@pytest.mark.parametrize("index", ["by_name", "by_twice"])
def test_an_extra_entry_of_a_row_that_exists_is_named(damaged, index):
    entries = damaged.entries_of(index)
    key, other = [
        key for key in entries if key.endswith((f"{0x80000000 + 77:08X}", f"{0x80000000 + 78:08X}"))
    ]
    extra = key[:-8] + other[-8:]  # the entry of one row, but with the primary key of another row
    verdict, said = damaged.verdict("put", extra, entries[key])
    assert verdict == "Corrupt"
    row = int(other[-8:], 16) - 0x80000000
    assert f"index {index}: the entry 0x{extra} has other values than its row '{row}'" in said
    assert said.count("the entry ") == 1, said


def test_a_stored_column_with_another_value_than_its_expression_is_named(damaged):
    damaged.server.run(
        "CREATE TABLE d.g (id INT PRIMARY KEY, n INT, s INT AS (n * 1000) STORED, b BIT(3) AS (n & 7) STORED) "
        "ENGINE=ATOLL",
        "INSERT INTO d.g (id, n) VALUES (1, 5), (2, 77), (3, NULL)",
    )
    entries = damaged.entries_of("PRIMARY", "g")
    right, wrong = ((77_000 + more).to_bytes(4, "little").hex().upper() for more in (0, 1))
    key, value = next((key, value) for key, value in entries.items() if right in value.upper())
    verdict, said = damaged.verdict("put", key, value.upper().replace(right, wrong), table="d.g")
    assert verdict == "Corrupt"
    assert "table d.g: row '2': column `s` holds '77001', but its expression gives '77000'" in said
    assert said.count(" holds ") == 1, said
    damaged.server.run("ALTER TABLE d.g FORCE, ALGORITHM=COPY")
    assert check(damaged.server, "d.g") == ("OK", "")


@pytest.mark.parametrize("kind", ["BLOB COMPRESSED", "VARCHAR(300) COMPRESSED"])
def test_bytes_that_are_no_compressed_value_are_named(damaged, kind):
    """The first byte of a compressed value names the method: 0 is none. Nobody knows the method 6."""
    damaged.server.run(
        f"CREATE TABLE d.z (id INT PRIMARY KEY, c {kind}) ENGINE=ATOLL",
        "INSERT INTO d.z VALUES (1, 'xyz'), (2, ''), (3, NULL), (4, REPEAT('xyz', 99))",
    )
    right, wrong = "00" + b"xyz".hex(), b"axyz".hex()
    entries = damaged.entries_of("PRIMARY", "z")
    key, value = next((key, value) for key, value in entries.items() if right in value.lower())
    verdict, said = damaged.verdict("put", key, value.lower().replace(right, wrong), table="d.z")
    assert verdict == "Corrupt"
    assert "table d.z: row '1': column `c` holds bytes that are no compressed value, and reads as ''" in said
    assert said.count("row '") == 1, said
    damaged.server.run("UPDATE d.z SET c = 'abc' WHERE id = 1")
    assert check(damaged.server, "d.z") == ("OK", "")


@pytest.mark.parametrize("option", ["EXTENDED", "QUICK"])
def test_a_row_in_another_partition_is_named(damaged, option):
    """The row's bytes are put under the key that they would have in the other partition."""
    damaged.server.run(
        "CREATE TABLE d.p (id INT, n INT, v INT AS (n + 1) VIRTUAL, PRIMARY KEY (id, n)) ENGINE=ATOLL "
        "PARTITION BY HASH (n) PARTITIONS 2",
        "INSERT INTO d.p (id, n) VALUES (1, 0), (2, 1), (3, 2)",
    )
    other = damaged.server.value(
        "SELECT key_prefix FROM information_schema.atoll_tables WHERE table_name = '#mysql50#p#P#p0'"
    )
    (key, value), *rest = damaged.entries_of("PRIMARY", "#mysql50#p#P#p1").items()
    assert not rest
    damaged.edit("put", damaged.family, f"{other:08X}{key[8:]}", value)
    damaged.server.start()
    verdict, said = check(damaged.server, "d.p", option)
    assert verdict == "Corrupt"
    assert "table d.p: row '2-1': it is in partition `p0` and belongs to `p1`" in said
    assert said.count("it is in partition") == 1, said


def test_an_entry_of_no_row_is_named(damaged):
    entries = damaged.entries_of("by_name")
    extra = next(iter(entries))[:-8] + "80009999"
    verdict, said = damaged.verdict("put", extra, "")
    assert verdict == "Corrupt"
    assert f"index by_name: the entry 0x{extra} belongs to a row that does not exist" in said


def test_a_changed_value_is_named(damaged):
    """The entry's value has the original text for covering reads. If it is changed, name 77 is returned with
    other letters."""
    entries = damaged.entries_of("by_name")
    key = next(key for key in entries if key.endswith(f"{0x80000000 + 77:08X}"))
    assert bytes.fromhex(entries[key]).endswith(b"Name 77")
    changed = entries[key].replace(b"Name".hex().upper(), b"NAME".hex().upper())
    verdict, said = damaged.verdict("put", key, changed)
    assert damaged.server.run("SELECT name FROM d.t FORCE INDEX (by_name) WHERE name = 'name 77'") == [
        ("NAME 77",)
    ]
    assert verdict == "Corrupt"
    assert (
        f"index by_name: the entry of row '77' has the value 0x{changed} instead of 0x{entries[key]}" in said
    )


def test_a_virtual_column_computed_under_other_settings_is_explained(lab):
    server = lab.server().start()
    server.run(
        "CREATE DATABASE d",
        "CREATE TABLE d.t (id INT PRIMARY KEY, s VARCHAR(20), d DATE AS (s) VIRTUAL, KEY by_d (d)) ENGINE=ATOLL",
        "SET sql_mode = 'ALLOW_INVALID_DATES'",
        "INSERT INTO d.t (id, s) VALUES (1, '2020-02-31'), (2, '2020-02-28')",
    )
    assert server.run("SET sql_mode = 'ALLOW_INVALID_DATES'", "CHECK TABLE d.t")[-1][3] == "OK"
    verdict, said = check(server)
    assert verdict == "Corrupt"
    assert "the entry of row '1' is missing" in said and "row '2'" not in said
    assert "computed with this session's settings" in said and "sql_mode" in said


def test_a_damaged_row_is_named(damaged):
    rows = damaged.entries_of("PRIMARY")
    key = next(key for key in rows if key.endswith(f"{0x80000000 + 77:08X}"))
    verdict, said = damaged.verdict("put", key, rows[key][:8])
    assert verdict == "Corrupt"
    assert f"table d.t: row with the key 0x{key}: " in said


# ---- damaged files ----------------------------------------------------------------------------------------


def flip_a_byte(path: Path) -> None:
    """Flips a bit in the middle of the file, which is data. Writes to the same inode, because the server may
    have the file open."""
    with path.open("r+b") as file:
        file.seek(path.stat().st_size // 2)
        byte = file.read(1)
        file.seek(-1, 1)
        file.write(bytes([byte[0] ^ 0x10]))


def create_compacted(server: Server) -> None:
    """Creates and compacts table big.wide. Before that it waits until the table has moved to a column family
    of its own, because the move changes its files."""
    create_wide(server, "wide", 20_000, "ATOLL")
    wait_until(lambda: server.counter("Atoll_tables_moved") > 0, 60, "the table to have a family of its own")
    server.run("OPTIMIZE TABLE big.wide")


def a_table_file(server: Server, directory: Path) -> Path:
    """Returns a present table file of big.wide below `directory`, where older files of it may still be."""
    number = server.value(
        "SELECT MAX(file_number) FROM information_schema.atoll_files WHERE table_name = 'wide'"
    )
    files = directory.rglob("*.sst")
    return next(path for path in files if path.stem.split("-")[-1].lstrip("0") == str(number))


def test_a_flipped_byte_is_found_behind_the_block_cache(lab):
    server = lab.server(atoll_url=f"file://{lab.home}/bucket").start()
    create_compacted(server)
    assert server.value("SELECT SUM(LENGTH(body)) FROM big.wide") > 0  # the blocks are in the cache now
    assert check(server, "big.wide") == ("OK", "")
    path = a_table_file(server, lab.home / "bucket")
    flip_a_byte(path)
    assert server.value("SELECT SUM(LENGTH(body)) FROM big.wide") > 0, "the blocks should have been cached"
    verdict, said = check(server, "big.wide")
    assert verdict == "Corrupt"
    assert re.search(r"table big\.wide: table file .*\.sst: .*checksum mismatch.*offset \d+", said), said


def test_a_damaged_local_copy_is_healed_from_the_bucket(lab):
    """As in every read, a damaged local block is read again from the bucket. Cached parts have their own
    checksums."""
    server = lab.s3_server(lab.store()).start()
    create_compacted(server)
    drained(server)
    flip_a_byte(a_table_file(server, server.data / "#atoll"))
    before = server.counter("Atoll_requests_get")
    assert check(server, "big.wide") == ("OK", "")
    assert server.counter("Atoll_requests_get") > before, (
        "the damaged block was not read, or not fetched again"
    )


# ---- trouble that is no damage -------------------------------------------------------------------------------


class OnlyInBucket:
    """A server whose table big.wide has no local files, so that it is read from the bucket, through a
    proxy."""

    def __init__(self, lab, **options: object):
        store = lab.store()
        self.proxy = lab.proxy(store)
        self.server: Server = lab.s3_server(store, endpoint=self.proxy.endpoint, **options).start()
        create_wide(self.server, "wide", 60_000, "ATOLL")
        self.server.run("ALTER TABLE big.wide ADD INDEX by_body (body(20))")
        drained(self.server)
        self.server.stop()
        assert disk.remove_local_objects(self.server.data) > 0
        self.server.start()
        self.server.run("SELECT id FROM big.wide LIMIT 1")  # open


def test_an_unreachable_bucket_is_not_corruption(lab):
    case = OnlyInBucket(lab, atoll_request_timeout=2)
    case.proxy.down()
    for option in ("", "EXTENDED"):
        verdict, said = check(case.server, "big.wide", option)
        assert verdict == "Operation failed", said
        assert "table big.wide: " in said and "nothing is known to be damaged. Repeat CHECK TABLE" in said
        assert "orrupt" not in said
    case.proxy.up()
    wait_until(
        lambda: check(case.server, "big.wide")[0] == "OK", 60, "CHECK to succeed with the bucket back", 0.5
    )


@pytest.mark.parametrize("option", ["", "EXTENDED"])
def test_kill_query_ends_check(lab, option):
    case = OnlyInBucket(lab)
    slow = case.proxy.add(Fault(lambda request: request.kind == "get", delay_s=0.4))
    statement = Statement(case.server, f"CHECK TABLE wide {option}")
    statement.start()
    wait_until(lambda: slow.acted > 3, 20, "CHECK to read from the bucket")
    assert statement.is_alive(), "CHECK ended before it could be killed"
    case.server.run(f"KILL QUERY {statement.connection_id}")
    assert statement.finished(10) is None  # because the server returns errors of CHECK as rows
    assert [row[3] for row in statement.rows] == [
        "ATOLL: table big.wide: CHECK TABLE was interrupted",
        "Operation failed",
    ]
    case.proxy.clear()
    assert check(case.server, "big.wide") == ("OK", "")


def write_until(stop: threading.Event, server: Server, writer: int, errors: list[Exception]) -> None:
    """Inserts, updates and deletes rows that no other writer uses, until `stop` is set."""
    connection = server.connect("d")
    number = 0
    try:
        with connection.cursor() as cursor:
            while not stop.is_set():
                number += 1
                key = 1000 + number % 50 * 10 + writer
                cursor.execute(f"REPLACE INTO t (id, name, n) VALUES ({key}, 'w{number}', {number})")
                cursor.execute(f"UPDATE t SET name = UPPER(name), n = n + 1 WHERE id = {key}")
                if number % 3 == 0:
                    cursor.execute(f"DELETE FROM t WHERE id = {key}")
    except pymysql.Error as error:
        errors.append(error)
    finally:
        connection.close()


def test_check_beside_writers_finds_nothing(lab):
    server = lab.server(atoll_durability="local").start()
    server.run(*TABLE)
    stop, errors = threading.Event(), []
    writers = [threading.Thread(target=write_until, args=(stop, server, n, errors)) for n in range(3)]
    for writer in writers:
        writer.start()
    try:
        until = time.monotonic() + 8
        checks = 0
        while time.monotonic() < until:
            assert check(server, option="" if checks % 2 else "EXTENDED") == ("OK", "")
            checks += 1
    finally:
        stop.set()
        for writer in writers:
            writer.join()
    assert not errors
    assert checks > 10, "too few to meet a writer"


@pytest.mark.parametrize("kind", ["TABLE", "TEMPORARY TABLE"])
def test_check_in_a_transaction_with_changes_finds_nothing(lab, kind):
    server = lab.server().start()
    server.run("CREATE DATABASE d")
    connection = server.connect("d", autocommit=False)
    with connection.cursor() as cursor:
        cursor.execute(f"CREATE {kind} t (id INT PRIMARY KEY, a INT, KEY (a)) ENGINE=ATOLL")
        cursor.execute("INSERT INTO t SELECT seq, seq FROM mysql.seq_1_to_100")
        cursor.execute("COMMIT")
        cursor.execute("INSERT INTO t VALUES (200, 200)")
        cursor.execute("UPDATE t SET a = a + 1 WHERE id < 50")
        cursor.execute("DELETE FROM t WHERE id = 60")
        cursor.execute("CHECK TABLE t EXTENDED")
        assert cursor.fetchall()[-1][-1] == "OK"
        cursor.execute("LOCK TABLES t WRITE")
        cursor.execute("UPDATE t SET a = a + 1 WHERE id < 50")
        cursor.execute("CHECK TABLE t EXTENDED")
        assert cursor.fetchall()[-1][-1] == "OK"
    connection.close()
