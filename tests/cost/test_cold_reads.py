"""Goal:   rows of many keys are read together: a query on a cold table fetches their parts with few requests,
        not one for each row.
Method: a proxy in front of the bucket counts GETs while a query reads rows that are far apart in the table,
        with no data in memory or on local disk. Read one by one, the rows take 20 requests or more; read
        together, 6 to 10.
"""

from __future__ import annotations

import time

import pytest
from harness.proxy import Fault
from harness.tables import drained

ROWS = 30_000
DELAY_S = 0.2
KEYS = ", ".join(str(key) for key in range(100, ROWS, ROWS // 40))
SETTINGS = "SET join_cache_level = 6, optimizer_switch = 'mrr=on,mrr_cost_based=off'"
QUERIES = {
    "rows by primary key": f"SELECT COUNT(*), SUM(LENGTH(c)) FROM d.t WHERE a IN ({KEYS})",
    "rows by index": f"SELECT COUNT(*), SUM(LENGTH(c)) FROM d.t FORCE INDEX (b) WHERE b IN ({KEYS})",
    "rows of a join": "SELECT COUNT(*), SUM(LENGTH(c)) FROM d.u STRAIGHT_JOIN d.t ON t.a = u.k",
}


@pytest.mark.parametrize("name", QUERIES)
def test_rows_of_many_keys_come_in_few_requests(lab, name):
    store = lab.store()
    proxy = lab.proxy(store)
    server = lab.s3_server(store, endpoint=proxy.endpoint, atoll_compression="none").start()
    server.run(
        "CREATE DATABASE d",
        "CREATE TABLE d.t (a INT PRIMARY KEY, b INT, c VARBINARY(1000), KEY b (b)) ENGINE=ATOLL "
        f"SELECT seq AS a, seq AS b, RANDOM_BYTES(1000) AS c FROM mysql.seq_1_to_{ROWS}",
        f"CREATE TABLE d.u ENGINE=ATOLL SELECT seq AS k FROM mysql.seq_100_to_{ROWS}_step_{ROWS // 40}",
    )
    drained(server)
    server.stop()
    server.wipe()
    server.initialize().start()
    server.run("SELECT COUNT(*) FROM d.u")
    connection = server.connect()
    proxy.reset_counts()
    proxy.add(Fault(matches=lambda request: request.kind == "get", delay_s=DELAY_S))
    with connection.cursor() as cursor:
        cursor.execute(SETTINGS)
        started = time.monotonic()
        cursor.execute(QUERIES[name])
        found = cursor.fetchone()
    taken_s = time.monotonic() - started
    requests = proxy.counts()["get"]
    print(f"{name}: {requests} requests, {taken_s:.1f} s")
    assert tuple(map(int, found)) == (40, 40_000)
    assert requests <= 14
