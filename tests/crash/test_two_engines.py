"""Goal:   after kill -9, a transaction over tables of InnoDB and ATOLL is complete in both or in neither,
        with and without binary log.
Method: clients insert the same number into both tables in one transaction; the server is killed; after the restart
        both tables hold the same numbers, and every acknowledged one.

When InnoDB itself cannot recover (Server.innodb_cannot_recover), the test proves nothing and begins anew.
"""

from __future__ import annotations

import os
import random
import threading
import time

import pymysql
import pytest
from harness.server import ServerFailed

ROUNDS = 6
CLIENTS = 3
ATTEMPTS = 3
SEED = int(os.environ.get("ATOLL_KILL_SEED", str(random.randrange(1 << 30))))


def insert_pairs(server, numbers: range, acknowledged: set[int]) -> None:
    connection = server.connect("d")
    with connection.cursor() as cursor:
        for number in numbers:
            try:
                cursor.execute("BEGIN")
                cursor.execute(f"INSERT INTO inno VALUES ({number})")
                cursor.execute(f"INSERT INTO atoll VALUES ({number})")
                cursor.execute("COMMIT")
            except pymysql.Error:
                return  # killed
            acknowledged.add(number)


def kill_and_compare(server, dice: random.Random) -> None:
    server.start()
    server.run(
        "CREATE DATABASE d",
        "CREATE TABLE d.inno (id INT PRIMARY KEY) ENGINE=InnoDB",
        "CREATE TABLE d.atoll (id INT PRIMARY KEY) ENGINE=ATOLL",
    )
    acknowledged: set[int] = set()
    for kill in range(ROUNDS):
        clients = [
            threading.Thread(
                target=insert_pairs,
                args=(server, range((kill * CLIENTS + client) * 100_000, 1 << 30), acknowledged),
            )
            for client in range(CLIENTS)
        ]
        for client in clients:
            client.start()
        time.sleep(dice.uniform(0.05, 0.4))
        server.kill()
        for client in clients:
            client.join()
        server.start()
        halves = [{row[0] for row in server.run(f"SELECT id FROM d.{table}")} for table in ("inno", "atoll")]
        assert halves[0] == halves[1], f"round {kill}: {sorted(halves[0] ^ halves[1])[:5]}"
        assert acknowledged <= halves[0]
    assert len(acknowledged) > ROUNDS


@pytest.mark.parametrize(
    "options", [{}, {"log_bin": "binlog", "sync_binlog": 1}], ids=["tc_log", "binary_log"]
)
def test_both_halves_survive_kill_9(lab, options):
    print(f"ATOLL_KILL_SEED={SEED}")
    dice = random.Random(SEED)
    for attempt in range(1, ATTEMPTS + 1):
        server = lab.server(f"server{attempt}", **options)
        try:
            return kill_and_compare(server, dice)
        except ServerFailed:
            if attempt == ATTEMPTS or not server.innodb_cannot_recover():
                raise
            print(f"attempt {attempt}: InnoDB could not recover")
