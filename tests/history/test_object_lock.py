"""Goal:   what `atollctl snapshot protect --object-lock` locks is deleted for nobody, and is all that a clone of the
        snapshot needs; a bucket without object lock says so.
Method: an intruder with all rights deletes every version of every object that the store gives up; then a clone.
"""

from __future__ import annotations

import json
import time

from harness.atollctl import atollctl
from harness.digest import database_digests
from harness.objectstores import Minio
from harness.s3 import S3Client
from harness.server import Server
from test_history import fill, told


def in_an_hour() -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(time.time() + 3600))


def lock(server: Server, mode: str) -> int:
    """Protects the snapshot `audit`; returns how many objects the store has locked."""
    behind = ("audit", "--until", in_an_hour(), "--object-lock", mode)
    return told(server, "snapshot", "protect", behind=behind)["locked_objects"]


def test_a_locked_snapshot_outlives_whoever_may_delete_everything(lab) -> None:
    store = lab.store(Minio)
    bucket = S3Client(store.endpoint, "locked", store.credentials)
    bucket.create_bucket(object_lock=True)
    server = lab.s3_server(store, atoll_url="s3://locked/db", atoll_durability="sync")
    server.start()
    fill(server)
    before = database_digests(server, "shop")
    server.run("SELECT ATOLL_SNAPSHOT('audit')")
    locked = lock(server, "compliance")
    assert locked > 5
    assert lock(server, "governance") == locked, "a stronger lock stays"
    server.run("DELETE FROM shop.orders")
    server.stop()

    kept = {version.key for version in bucket.versions() if not bucket.gives_up(version)}
    assert len(kept) == locked
    child = lab.s3_server(store, "child", atoll_url="s3://locked/child", atoll_durability="sync")
    told(server, "clone", behind=("s3://locked/child", "--snapshot", "audit"))
    child.start()
    assert database_digests(child, "shop") == before


def test_a_bucket_without_object_lock_says_so_and_protects_nothing(lab) -> None:
    server = lab.s3_server(lab.store(), atoll_durability="sync")
    server.start()
    server.run("SELECT ATOLL_SNAPSHOT('audit')")
    refused = atollctl(
        server,
        "snapshot",
        "protect",
        behind=("audit", "--until", in_an_hour(), "--object-lock", "compliance"),
    )
    assert refused.returncode == 1 and "no object lock" in refused.stderr, refused
    assert told(server, "snapshot", "list")[0]["protected_until_s"] is None


def test_a_lock_that_the_key_may_not_set_is_refused_with_the_reason(lab) -> None:
    store = lab.store(Minio)
    bucket = S3Client(store.endpoint, "locked", store.credentials)
    bucket.create_bucket(object_lock=True)
    server = lab.s3_server(store, atoll_url="s3://locked/db", atoll_durability="sync")
    server.start()
    server.run("SELECT ATOLL_SNAPSHOT('audit')")
    statements = [
        {"Effect": effect, "Action": [action], "Resource": ["arn:aws:s3:::*"]}
        for effect, action in (("Allow", "s3:*"), ("Deny", "s3:PutObjectRetention"))
    ]
    limited, token = bucket.limited(json.dumps({"Version": "2012-10-17", "Statement": statements}))
    server.options |= {
        "atoll_s3_access_key": limited.access_key,
        "atoll_s3_secret_key": limited.secret_key,
        "atoll_s3_session_token": token,
    }
    refused = atollctl(
        server,
        "snapshot",
        "protect",
        behind=("audit", "--until", in_an_hour(), "--object-lock", "governance"),
    )
    assert refused.returncode != 0 and "AccessDenied" in refused.stderr, refused
