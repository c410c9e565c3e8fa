"""Goal:   an idle server makes at most 20 requests in 10 minutes to its bucket, with 100 snapshots as without,
        and still shows that it is alive.
Method: two servers do some work, one of them makes 100 snapshots, and then both do nothing for 75 seconds.
        One uses an S3 server behind a counting proxy, the other a directory and the engine's own counters.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from harness.process import wait_until
from harness.tables import drained

IDLE_S = 75  # longer than the 65 seconds between two hints
SETTLED_S = 15  # longer than the ten seconds in which deletions are gathered
DELETED_S = 150  # grace time, gathering, and further objects that the deletions make unneeded
REQUESTS_IN_10_MINUTES = 20
# At most two hints and one check for a newer owner fall into 75 seconds.
REQUESTS_MAX = 3
SNAPSHOTS = 100
KINDS = ("get", "put", "head", "list", "delete")


def counted(server) -> dict[str, int]:
    """The requests by kind, as the engine counts them."""
    status = server.status("Atoll_requests_%")
    return {kind: int(status[f"atoll_requests_{kind}"]) for kind in KINDS}


def work(server) -> None:
    """Leaves a bucket with table files, WAL and objects to be deleted."""
    server.run("CREATE DATABASE d", "CREATE TABLE d.t (a INT PRIMARY KEY, b INT) ENGINE=ATOLL")
    for step in range(20):
        server.run(f"INSERT INTO d.t SELECT seq, {step} FROM mysql.seq_{step * 50 + 1}_to_{step * 50 + 50}")
    server.run("ALTER TABLE d.t ADD c INT, ALGORITHM=COPY", "DELETE FROM d.t WHERE a % 3 = 0")
    drained(server)


def settle(server) -> None:
    """Waits until the log is shipped and the newest root is published."""
    wait_until(
        lambda: server.counter("Atoll_wal_lag_bytes") == server.counter("Atoll_publish_lag_ms") == 0,
        60,
        "everything to be in the bucket",
        interval_s=0.2,
    )


def deleted(tombs: Callable[[], int]) -> None:
    """Waits until the objects that the work made unneeded are deleted from the bucket."""
    time.sleep(SETTLED_S)
    wait_until(lambda: tombs() == 0, DELETED_S, "the deletions to be done", interval_s=0.5)


def test_an_idle_server_makes_hardly_any_requests(lab):
    store = lab.store()
    proxy = lab.proxy(store)
    on_s3 = lab.s3_server(store, "s3", endpoint=proxy.endpoint).start()
    on_directory = lab.server("directory", atoll_url=f"file://{lab.home / 'bucket'}").start()
    servers = (on_s3, on_directory)
    for server in servers:
        work(server)
        if server is on_s3:
            server.run(*(f"SELECT ATOLL_SNAPSHOT('number {number}')" for number in range(SNAPSHOTS)))
        settle(server)
    deleted(lambda: len(store.client.list("db/tomb/")))
    deleted(lambda: sum(path.is_file() for path in (lab.home / "bucket" / "tomb").rglob("*")))
    proxy.reset_counts()
    before = [counted(server) for server in servers]
    time.sleep(IDLE_S)
    after = [counted(server) for server in servers]
    idle = {
        server.home.name: {kind: new[kind] - old[kind] for kind in KINDS if new[kind] > old[kind]}
        for server, old, new in zip(servers, before, after, strict=True)
    }
    idle["s3, at the proxy"] = proxy.counts()
    for who, requests in idle.items():
        total = sum(requests.values())
        print(f"{who}: {total} requests in {IDLE_S} s ({requests}), {total * 600 / IDLE_S:.0f} in 10 minutes")
        assert 1 <= total <= REQUESTS_MAX, f"{who}: {requests}"
        assert requests.get("put", 0) >= 1, f"{who} does not show that it lives: {requests}"
    for server in servers:
        assert server.value("SELECT COUNT(*) FROM d.t") == 667
    assert (
        on_s3.value("SELECT COUNT(*) FROM information_schema.atoll_snapshots WHERE kind = 'snapshot'")
        == SNAPSHOTS
    )
