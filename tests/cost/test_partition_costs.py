"""Goal:   an ALTER of a partitioned table syncs the log as often as one of a table with few partitions.
Method: the engine counts the syncs that a statement waits for. No time is measured.
"""

from __future__ import annotations

import pytest
from conftest import Lab
from harness.server import Server

COUNTS = (2, 40)
ALTERS = (
    "ADD KEY ka (a)",
    "ADD UNIQUE KEY kb (id, b), ADD KEY kab (a, b)",
    "DROP KEY ka, ADD KEY kc (b)",
    "DROP KEY kc",
    "ADD COLUMN c INT DEFAULT 5",
    "AUTO_INCREMENT = 5000",
    "COMMENT 'x'",
    "DROP COLUMN c",
    "ADD KEY ka (a), AUTO_INCREMENT = 9000",
)


def syncs(cursor) -> int:
    cursor.execute("SHOW SESSION STATUS LIKE 'Atoll_work_log_syncs'")
    return int(cursor.fetchone()[1])


def syncs_of_alters(server: Server, partitions: int) -> list[int]:
    table = f"t{partitions}"
    server.run(
        f"CREATE TABLE {table} (id INT AUTO_INCREMENT PRIMARY KEY, a INT, b INT) ENGINE=ATOLL "
        f"PARTITION BY HASH (id) PARTITIONS {partitions}",
        f"INSERT INTO {table} (a, b) SELECT seq MOD 7, seq FROM seq_1_to_1000",
        database="d",
    )
    found = []
    with server.connect("d") as connection, connection.cursor() as cursor:
        for alter in ALTERS:
            before = syncs(cursor)
            cursor.execute(f"ALTER TABLE {table} {alter}")
            found.append(syncs(cursor) - before)
        cursor.execute(f"CHECK TABLE {table} EXTENDED")
        assert cursor.fetchall()[-1][-1] == "OK"
    return found


@pytest.mark.parametrize("durability", ["local", "sync"])
def test_an_alter_syncs_once_for_all_partitions(lab: Lab, durability: str) -> None:
    server = lab.server(atoll_durability=durability).start()
    server.run("CREATE DATABASE d")
    few, many = (syncs_of_alters(server, partitions) for partitions in COUNTS)
    print(dict(zip(ALTERS, zip(few, many, strict=True), strict=True)))
    assert few == many
    assert max(many) <= 2
