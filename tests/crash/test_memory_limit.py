"""Goal:   a server in a container respects the container's memory limit. The kernel does not kill it while a
        load makes a table outgrow the shared family, so that the mover moves and sorts the table meanwhile.
        Nor does it kill the server when the block cache is configured too large for the container, or when
        nothing is configured and one statement changes all rows.
Method: the server runs in a memory cgroup of 352 MiB, which includes the page cache. Four clients insert 240
        MB of rows that hardly compress, then all rows are read. With the default settings the cgroup has 320
        MiB.
"""

from __future__ import annotations

import random
import threading

import pytest
from harness.memory_group import MemoryGroup
from harness.process import wait_until

MIB = 1 << 20
GROUP_BYTES = 352 * MIB  # 320 MiB were enough in all trials, too
CLIENTS, STATEMENTS, ROWS_OF_STATEMENT, ROW_BYTES = 4, 120, 500, 1000


@pytest.fixture(params=[GROUP_BYTES])
def group(request):
    try:
        group = MemoryGroup("memory-limit", request.param)
    except RuntimeError as error:
        pytest.skip(str(error))
    yield group
    group.remove()


def _insert(server, client: int, failures: list) -> None:
    numbers = random.Random(client)
    try:
        with server.connect(database="shop") as connection, connection.cursor() as cursor:
            for statement in range(STATEMENTS):
                first = (statement * CLIENTS + client) * ROWS_OF_STATEMENT
                rows = (
                    (first + i, numbers.randbytes(ROW_BYTES // 2).hex()) for i in range(ROWS_OF_STATEMENT)
                )
                cursor.execute(
                    "INSERT INTO t VALUES" + ",".join(f"({key},{key % 977},'{text}')" for key, text in rows)
                )
                connection.commit()
    except Exception as failure:
        failures.append(failure)


@pytest.mark.parametrize("cache", ["64M", "320M"])
def test_a_load_stays_within_the_memory_of_a_small_container(lab, group, cache):
    server = lab.server(
        atoll_block_cache_size=cache,
        atoll_shared_table_max="32M",
        performance_schema=0,
        atoll_bound_heap="ON",
    )
    server.run_by = group.run_by()
    server.start()
    assert int(server.value("SELECT @@atoll_transaction_memory")) == 64 * MIB, (
        "a sixteenth of 352 MiB, at least 64"
    )
    server.run("CREATE DATABASE shop")
    server.run(
        "CREATE TABLE t (a INT PRIMARY KEY, b INT, c VARCHAR(1000), KEY(b)) ENGINE=ATOLL", database="shop"
    )
    failures: list = []
    clients = [threading.Thread(target=_insert, args=(server, client, failures)) for client in range(CLIENTS)]
    for client in clients:
        client.start()
    for client in clients:
        client.join()
    assert not failures, f"{failures[0]}; {server.log_tail()}"
    wait_until(lambda: server.counter("Atoll_tables_moved") > 0, 60, "the table has moved")
    rows = CLIENTS * STATEMENTS * ROWS_OF_STATEMENT
    assert server.run("SELECT COUNT(*), SUM(b >= 0) FROM t", database="shop")[0] == (rows, rows)
    # Read by the index, so that each block of the rows is read into the cache more than once.
    for part in range(4):
        query = f"SELECT SUM(LENGTH(c)) FROM t FORCE INDEX (b) WHERE b % 4 = {part}"
        assert server.run(query, database="shop")[0][0] > 0
    if cache == "320M":
        assert "the block cache is held below" in server.log()


@pytest.mark.parametrize("group", [320 * MIB], indirect=True)
def test_an_update_of_all_rows_stays_within_320_mib_by_default(lab, group):
    rows = 1_200_000
    server = lab.server()
    server.run_by = group.run_by()
    server.start()
    server.run(
        "CREATE DATABASE shop",
        "CREATE TABLE shop.t (a INT PRIMARY KEY, b INT, c VARCHAR(100), KEY (b)) ENGINE=ATOLL",
        f"INSERT INTO shop.t SELECT seq, seq % 977, CONCAT(MD5(seq), MD5(-seq)) FROM mysql.seq_1_to_{rows}",
        "UPDATE shop.t SET b = b + 1, c = REVERSE(c)",
    )
    assert server.run("SELECT COUNT(*), SUM(b > 0) FROM shop.t")[0] == (rows, rows)
