"""Goal:   ATOLL_MOUNT shows exactly the state at any moment of the history. A mount stays complete whatever
        the server rewrites, drops and collects meanwhile, and kill -9 leaves nothing of it behind.
Method: real servers with a directory and with an S3 server. Sums of the tables are noted at several moments,
        and compared with those in mounts of these moments.
"""

from __future__ import annotations

import time

import pytest
from conftest import server_maker
from harness.atollctl import atollctl, moment_now
from harness.process import wait_until
from harness.server import Server

HISTORY = {"atoll_durability": "local", "atoll_history_retention": 3600}
SUMS = "SELECT COUNT(*), COALESCE(SUM(amount), 0), COALESCE(SUM(CRC32(text)), 0) FROM {}.orders"
COLLECTED_WITHIN_S = 150


@pytest.fixture(params=["file", "versitygw"])
def server(lab, request) -> Server:
    """A running server with a history."""
    return server_maker(lab, request.param, **HISTORY)("server").start()


def change(server: Server, round_: int) -> tuple[tuple[int, ...], str]:
    """Changes the table in several ways. Returns its sums, and a moment at which it had these sums."""
    server.run(
        f"INSERT INTO shop.orders SELECT {round_} * 10000 + seq, seq, MD5(seq + {round_}) FROM mysql.seq_1_to_2000",
        f"DELETE FROM shop.orders WHERE id % 5 = {round_}",
        f"UPDATE shop.orders SET amount = amount + {round_}",
    )
    sums = server.run(SUMS.format("shop"))[0]
    moment = moment_now(server)
    if round_ % 2:
        server.run("ALTER TABLE shop.orders ENGINE=ATOLL, FORCE")
    return sums, moment


def test_every_moment_can_be_mounted(server: Server) -> None:
    server.run(
        "CREATE DATABASE shop",
        "CREATE TABLE shop.orders (id INT PRIMARY KEY, amount INT, text VARCHAR(50), KEY (text)) ENGINE=ATOLL",
    )
    server.run("SELECT ATOLL_SNAPSHOT('empty')")
    known = [change(server, round_) for round_ in range(5)]
    for number, (_, moment) in enumerate(known):
        server.run(f"SELECT ATOLL_MOUNT('shop', 'past{number}', '{moment}')")
    server.run("SELECT ATOLL_MOUNT('shop', 'nothing', 'empty')")

    def check() -> None:
        for number, (sums, moment) in enumerate(known):
            assert server.run(SUMS.format(f"past{number}"))[0] == sums, moment
        assert server.run(SUMS.format("nothing"))[0][0] == 0

    check()
    server.run(
        "SET GLOBAL atoll_history_grace = 0",
        "SET GLOBAL atoll_history_retention = 0",
        "DROP TABLE shop.orders",
    )
    server.run("SELECT ATOLL_DROP_SNAPSHOT('empty')")
    time.sleep(2)
    server.run("SET GLOBAL atoll_block_cache_size = 0")
    check()
    rows = server.run("SELECT COUNT(*) FROM past3.orders AS a JOIN past4.orders AS b USING (id)")[0][0]
    assert 0 < rows <= known[3][0][0]

    server.kill()
    server.start()
    databases = [row[0] for row in server.run("SHOW DATABASES")]
    assert "shop" in databases and not [name for name in databases if name.startswith(("past", "nothing"))]

    def has_no_mount() -> bool:
        return not server.run("SELECT * FROM information_schema.atoll_snapshots WHERE kind = 'mount'")

    # These statements leave unneeded files, so the collector starts to search, and also finds pins of lost
    # mounts.
    server.run("CREATE TABLE shop.t (a INT) ENGINE=ATOLL", "ALTER TABLE shop.t ENGINE=ATOLL, FORCE")
    wait_until(has_no_mount, COLLECTED_WITHIN_S, "pins of mounts are left")
    server.stop()
    verified = atollctl(server, "verify")
    assert verified.returncode == 0, verified.stdout + verified.stderr
