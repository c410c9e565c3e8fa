"""Goal:   commits and table files take no more requests than docs/costs.md says.
Method: a proxy between the server and the S3 server counts requests; the engine counts the bytes.
"""

from __future__ import annotations

import pytest
from harness.server import Server
from harness.tables import create_wide, drained

COMMITS = 480  # 20 times the number of chunks that are merged at once
MIB = 1 << 20


def bytes_up(server: Server) -> int:
    return server.counter("Atoll_bytes_uploaded")


def commit_one_by_one(server: Server, first: int, count: int) -> None:
    with server.connect("d") as connection, connection.cursor() as cursor:
        for number in range(first, first + count):
            cursor.execute(f"INSERT INTO t VALUES ({number}, REPEAT('x', 200))")


# Commits of one client, one after the other, which is the case with the most requests per commit.
@pytest.mark.parametrize(("durability", "per_commit_max"), [("sync", 2.5), ("async", 1.0), ("local", 0.2)])
def test_requests_of_commits(lab, durability, per_commit_max):
    store = lab.store()
    proxy = lab.proxy(store)
    server = lab.s3_server(store, endpoint=proxy.endpoint, atoll_durability=durability).start()
    server.run("CREATE DATABASE d", "CREATE TABLE d.t (id INT PRIMARY KEY, v VARCHAR(300)) ENGINE=ATOLL")
    commit_one_by_one(server, 1, 1)
    proxy.reset_counts()
    before = bytes_up(server)
    commit_one_by_one(server, 2, COMMITS)
    counts = proxy.counts()
    per_commit = sum(counts.values()) / COMMITS
    print(
        f"{durability}: {per_commit:.2f} requests, {(bytes_up(server) - before) / COMMITS:.0f} bytes a commit: {counts}"
    )
    assert per_commit <= per_commit_max, counts


def test_requests_of_table_files(lab):
    store = lab.store()
    proxy = lab.proxy(store)
    server = lab.s3_server(store, endpoint=proxy.endpoint, atoll_durability="sync").start()
    create_wide(server, "wide", 120_000)
    drained(server)
    proxy.reset_counts()
    before = bytes_up(server)
    server.run("ALTER TABLE big.wide ENGINE=ATOLL COMPRESSION=none")
    drained(server)
    counts = proxy.counts()
    uploaded = (bytes_up(server) - before) / MIB
    print(f"{uploaded:.0f} MiB: {sum(counts.values()) / uploaded:.2f} requests a MiB: {counts}")
    assert uploaded > 40
    assert sum(counts.values()) <= 20 + uploaded / 2, counts
