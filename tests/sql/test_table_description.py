"""Goal:   the catalog knows the columns and keys of every table, whatever statement has made or changed it. A
        table of an earlier version of Atoll is described when a server that may write opens it. A table that
        differs from its description is refused by the name of the column.
Method: `atollctl ls --schema` is compared with information_schema; records of the catalog are changed while the
        server is stopped (tests/sql/edit_entries.cc).
"""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import pymysql
import pytest
from harness.atollctl import atollctl
from harness.process import wait_until
from harness.server import Server

HEADER_BYTES = 5  # version and checksum of a record of the catalog
EXTENSIONS = b"\1\0\0\0\1"  # one extension, and it is the description

TABLES = (
    "CREATE DATABASE d",
    "CREATE TABLE d.numbers (id INT PRIMARY KEY, a TINYINT, b SMALLINT UNSIGNED, c MEDIUMINT, e BIGINT UNSIGNED, "
    "f FLOAT, g DOUBLE(10,3), h DECIMAL(20,5) UNSIGNED, i BIT(7), j YEAR, k INT(5) ZEROFILL, KEY (a, b DESC), "
    "UNIQUE KEY u (h, e)) ENGINE=ATOLL",
    "CREATE TABLE d.times (a DATE, b TIME(3), c DATETIME, e DATETIME(6), f TIMESTAMP NULL, g TIMESTAMP(2) NULL, "
    "KEY (a, e), KEY (g, b, c, f)) ENGINE=ATOLL",
    "CREATE TABLE d.texts (a CHAR(5) COLLATE latin1_swedish_ci, b VARCHAR(300) COLLATE utf8mb4_unicode_ci, "
    "c VARBINARY(9), e BINARY(4), f TINYTEXT, g MEDIUMBLOB, h LONGTEXT COLLATE utf8mb4_bin, i ENUM('x','y'), "
    "j SET('p','q'), k UUID, l INET6, m JSON, n POINT, o CHAR(3) COLLATE ucs2_general_ci, "
    "p VARCHAR(100) COMPRESSED, q TEXT COMPRESSED, r CHAR(9) COLLATE utf8mb4_nopad_bin, PRIMARY KEY (b(20), c), "
    "KEY (f(7), a DESC), KEY (i, j, k, l), KEY (o, e, r), UNIQUE (h)) ENGINE=ATOLL",
    "CREATE TABLE d.derived (id INT PRIMARY KEY, a INT, v INT AS (a + 1) VIRTUAL, s VARCHAR(9) AS (a) STORED, "
    "w INT INVISIBLE, KEY (v, s), KEY (w)) ENGINE=ATOLL",
    "CREATE TABLE d.versioned (a INT, KEY (a)) ENGINE=ATOLL WITH SYSTEM VERSIONING",
    "CREATE TABLE d.parts (id INT PRIMARY KEY, b VARCHAR(10), KEY (b)) ENGINE=ATOLL "
    "PARTITION BY RANGE (id) (PARTITION p0 VALUES LESS THAN (100), PARTITION p1 VALUES LESS THAN (200))",
    "CREATE TABLE d.apart (id INT PRIMARY KEY, b VARCHAR(10), KEY (b)) ENGINE=ATOLL",
    "INSERT INTO d.numbers VALUES (1, -1, 2, -3, 4, 1.5, -2.5, 3.25, 5, 2020, 7), (2, NULL, 1, 1, 1, 0, 0, 0, 0, 0, 0)",
    "INSERT INTO d.times VALUES ('2020-01-02', '-1:00:00.5', NOW(), NOW(6), NOW(), NOW(2)), "
    "(NULL, NULL, NULL, NULL, NULL, NULL)",
    "INSERT INTO d.texts VALUES ('a', 'Ä', 'x ', 'b', 't', 'g', 'h', 'x', 'p,q', UUID(), '::1', '{}', POINT(1, 2), "
    "'o', REPEAT('p', 100), REPEAT('q', 1000), 'r '), "
    "(NULL, 'B', 'y', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL)",
    "INSERT INTO d.derived (id, a, w) VALUES (1, 5, 6), (2, NULL, NULL)",
    "INSERT INTO d.versioned VALUES (1), (2)",
    "INSERT INTO d.parts VALUES (1, 'a'), (150, 'b')",
    "INSERT INTO d.apart VALUES (2, 'c')",
)

CHANGES = (
    "ALTER TABLE d.numbers RENAME COLUMN a TO renamed, ALGORITHM=INSTANT",
    "ALTER TABLE d.numbers ADD COLUMN late VARCHAR(5) DEFAULT 'x' FIRST, ALGORITHM=INSTANT",
    "ALTER TABLE d.numbers ADD KEY added (c), RENAME INDEX u TO u2, ALGORITHM=INPLACE",
    "ALTER TABLE d.numbers MODIFY i BIT(12), DROP COLUMN j",
    "DELETE FROM d.times WHERE a IS NULL",
    "ALTER TABLE d.times DROP KEY a, ADD PRIMARY KEY (a)",
    "ALTER TABLE d.texts MODIFY c VARBINARY(20)",
    "ALTER TABLE d.texts FORCE, ALGORITHM=COPY",
    "ALTER TABLE d.derived ADD v2 INT AS (id * 2) VIRTUAL, ALGORITHM=INSTANT",
    "ALTER TABLE d.derived MODIFY w INT, RENAME TO d.derived2",
    "ALTER TABLE d.parts ADD PARTITION (PARTITION p2 VALUES LESS THAN (300))",
    "ALTER TABLE d.parts EXCHANGE PARTITION p0 WITH TABLE d.apart",
    "ALTER TABLE d.parts RENAME COLUMN b TO b2, ALGORITHM=INSTANT",
    "TRUNCATE TABLE d.apart",
    "CREATE TABLE d.liked LIKE d.texts",
    "CREATE TABLE d.selected ENGINE=ATOLL AS SELECT * FROM d.numbers",
    "CREATE SEQUENCE d.seq ENGINE=ATOLL",
)


def schema(server: Server) -> dict[str, dict]:
    ran = atollctl(server, "--json", "ls", "--schema")
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return {table["name"]: table for table in json.loads(ran.stdout)}


def names_of_server(server: Server) -> dict[str, tuple[set[str], set[str]]]:
    """The names of the columns and keys of each table, as the server shows them."""
    columns = server.run(
        "SELECT table_name, column_name FROM information_schema.columns WHERE table_schema = 'd'"
    )
    keys = server.run(
        "SELECT table_name, index_name FROM information_schema.statistics WHERE table_schema = 'd'"
    )
    tables = {f"d.{row[0]}" for row in columns}
    return {
        table: (
            {name for of, name in columns if f"d.{of}" == table},
            {name for of, name in keys if f"d.{of}" == table},
        )
        for table in tables
    }


def assert_described(server: Server) -> None:
    """Opens every table, checks it with what the catalog says about it, and compares names with the catalog."""
    server.run("FLUSH TABLES")
    tables = names_of_server(server)
    for table in tables:
        if table != "d.seq":
            assert server.run(f"CHECK TABLE {table} EXTENDED")[-1][3] == "OK", table
    # A description that a table gets when it is opened is not synced, so it reaches the bucket a little later.
    wait_until(
        lambda: all(one["columns"] for one in schema(server).values()), 20, "descriptions in the bucket"
    )
    described = schema(server)
    assert tables.keys() == described.keys()
    for table, (columns, keys) in tables.items():
        found = described[table]
        assert found["server_version"] == server.value("SELECT VERSION()").split("-")[0]
        shown = {c["name"] for c in found["columns"] if "HIDDEN" not in c["definition"].split()}
        assert {name for name in shown if name not in ("row_start", "row_end")} == columns, table
        assert {key["name"] for key in found["keys"]} == keys, table


def test_every_statement_that_makes_or_changes_a_table_describes_it(lab) -> None:
    server = lab.server(atoll_url=f"file://{lab.home}/bucket", atoll_durability="sync").start()
    server.run(*TABLES)
    assert_described(server)
    before = schema(server)
    for statement in CHANGES:
        server.run(statement)
        server.run("FLUSH TABLES", "SELECT COUNT(*) FROM d.parts")
    assert_described(server)
    after = schema(server)

    def definition(tables: dict[str, dict], table: str, kind: str, name: str) -> str:
        return next(one["definition"] for one in tables[table][kind] if one["name"] == name)

    assert definition(before, "d.numbers", "columns", "h") == "decimal(20,5) unsigned"
    assert definition(before, "d.texts", "columns", "b") == "varchar(300) COLLATE utf8mb4_unicode_ci NOT NULL"
    assert definition(before, "d.texts", "columns", "g") == "mediumblob"
    assert definition(before, "d.texts", "columns", "k") == "uuid"
    assert definition(before, "d.texts", "keys", "PRIMARY") == "UNIQUE (b(20), c)"
    assert definition(before, "d.derived", "columns", "v") == "int(11) VIRTUAL"
    assert definition(before, "d.derived", "columns", "w") == "int(11) INVISIBLE"
    assert definition(before, "d.numbers", "keys", "a") == "(a, b DESC)"
    assert definition(after, "d.numbers", "keys", "a") == "(renamed, b DESC)"
    assert definition(after, "d.numbers", "columns", "i") == "bit(12)"
    assert definition(after, "d.derived2", "columns", "w") == "int(11)"


# ---- tables of earlier versions, and damaged descriptions ------------------------------------------------


def crc32c(data: bytes) -> int:
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def sealed(version: int, fields: bytes) -> str:
    return (bytes([version]) + crc32c(fields).to_bytes(4, "little") + fields).hex().upper()


def extension_of(fields: bytes) -> int | None:
    """Where the list of extensions begins in the fields of a table's record; None: the list is empty."""
    at = fields.find(EXTENSIONS)
    while at >= 0:
        length = int.from_bytes(fields[at + len(EXTENSIONS) : at + len(EXTENSIONS) + 4], "little")
        if at + len(EXTENSIONS) + 4 + length == len(fields):
            return at
        at = fields.find(EXTENSIONS, at + 1)
    return None


class Catalog:
    """A server whose catalog can be changed while it is stopped."""

    def __init__(self, lab, tool: Path):
        self.tool = tool
        self.url = f"file://{lab.home}/bucket"
        self.server: Server = lab.server(atoll_url=self.url, atoll_durability="sync").start()
        self.server.run(*TABLES)

    def edit(self, *words: str) -> str:
        command = [self.tool, self.server.data / "#atoll", self.url, *words]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def change(self, change) -> None:
        """Stops the server and replaces the fields of each table's record by `change(fields)`, which returns the
        version and the fields; None leaves the record."""
        self.server.stop()
        for line in self.edit("list-catalog").splitlines():
            family, key, value = line.split(" ")
            fields = bytes.fromhex(value)[HEADER_BYTES:]
            if bytes.fromhex(key)[:1] == b"T" and (new := change(fields)) is not None:
                self.edit("put", family, key, sealed(*new))


@pytest.fixture
def catalog(lab, edit_entries) -> Catalog:
    return Catalog(lab, edit_entries)


def without_description(fields: bytes) -> tuple[int, bytes]:
    begin = extension_of(fields)
    return 2, fields[:-4] if begin is None else fields[:begin]  # an empty list is a count of 4 bytes


def test_tables_of_an_earlier_version_are_described_when_a_server_opens_them(catalog) -> None:
    catalog.change(without_description)
    server = catalog.server.start(atoll_read_only=1)
    assert server.value("SELECT COUNT(*) FROM d.numbers") == 2
    assert schema(server)["d.numbers"]["server_version"] == ""
    server.stop()

    server.start(atoll_read_only=0)
    assert server.value("SELECT COUNT(*) FROM d.numbers") == 2
    server.run("FLUSH TABLES", "INSERT INTO d.numbers (id, h, e) VALUES (3, 1, 1)")
    described = schema(server)
    assert described["d.numbers"]["columns"]
    assert not described["d.texts"]["columns"]
    assert_described(server)
    server.stop()
    server.start()
    assert_described(server)


def test_a_table_that_differs_from_its_description_is_refused_by_the_column(catalog) -> None:
    def other_column(fields: bytes) -> tuple[int, bytes] | None:
        # The column `id` becomes `ie` in the descriptions of all tables that have it.
        begin = extension_of(fields)
        if begin is None:
            return None
        return 3, fields[:begin] + fields[begin:].replace(b"\2\0\0\0id", b"\2\0\0\0ie")

    catalog.change(other_column)
    server = catalog.server.start()
    with pytest.raises(pymysql.Error):
        server.run("SELECT * FROM d.numbers")
    assert re.search(r"column ie .* has id", server.log()), server.log_tail()
    assert server.value("SELECT COUNT(*) FROM d.times") == 2
