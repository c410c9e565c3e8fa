"""Goal:   bytes that are damaged on their way to the bucket are never stored there.
Method: a proxy flips one bit in the body of one upload of each kind; the store must refuse that upload, the
        engine must repeat it, and afterwards all bytes in the bucket and all rows must be right.
"""

from __future__ import annotations

import json

import pytest
from harness.atollctl import atollctl
from harness.digest import table_digest
from harness.objectstores import Minio, Versitygw
from harness.proxy import Fault, Request
from harness.tables import create_wide, drained

# The kinds of uploads that are damaged: a piece of a multipart upload, a whole table file, and objects of the
# protocol.
KINDS = {
    "piece": lambda request: "/sst/" in request.target and "partNumber=" in request.target,
    "table file": lambda request: "/sst/" in request.target and "?" not in request.target,
    "root": lambda request: "/root/" in request.target,
    "log": lambda request: "/wal/" in request.target,
    "MANIFEST": lambda request: "/man/" in request.target,
}


@pytest.mark.parametrize("kind", [Minio, Versitygw])
def test_damaged_uploads_are_refused_and_repeated(lab, kind):
    store = lab.store(kind)
    proxy = lab.proxy(store)

    def one(matches) -> Fault:
        return proxy.add(
            Fault(lambda request: request.method == "PUT" and matches(request), damage=True, times=1)
        )

    server = lab.s3_server(store, endpoint=proxy.endpoint, atoll_durability="sync").start()
    damaged = {name: one(matches) for name, matches in KINDS.items()}
    create_wide(server, "wide", 60_000)
    server.run(
        "ALTER TABLE big.wide ENGINE=ATOLL COMPRESSION=none",  # about 30 MB: more than one piece
        "CREATE TABLE big.small (id INT PRIMARY KEY, body VARCHAR(600)) ENGINE=ATOLL COMPRESSION=none",
        # The index of a table with at most 2,000 rows would go into the log.
        "INSERT INTO big.small SELECT id, body FROM big.wide WHERE id <= 5000",
        "ALTER TABLE big.small ADD INDEX (body)",
    )
    drained(server)
    digests = [table_digest(server, "big", table) for table in ("wide", "small")]
    server.stop()
    assert {name: fault.acted for name, fault in damaged.items()} == dict.fromkeys(KINDS, 1)

    verified = atollctl(server, "verify", "--deep")
    assert verified.returncode == 0, verified.stdout + verified.stderr
    server.wipe()
    server.initialize().start()
    assert [table_digest(server, "big", table) for table in ("wide", "small")] == digests


@pytest.mark.parametrize("kind", [Minio, Versitygw])
def test_doctor_knows_whether_uploads_are_checked(lab, kind):
    store = lab.store(kind)
    proxy = lab.proxy(store)
    server = lab.s3_server(store, endpoint=proxy.endpoint)

    def verdict() -> str:
        examined = atollctl(server, "--json", "doctor")
        steps = {step["step"]: step for step in json.loads(examined.stdout)}
        return steps["upload checksum"]["verdict"]

    assert verdict() == "ok"

    # A provider that does not check uploads.
    def is_damaged_probe(request: Request) -> bool:
        return request.method == "PUT" and request.target.endswith("-damaged")

    proxy.add(Fault(is_damaged_probe, unconditional=store.client))
    assert verdict() == "warning"
