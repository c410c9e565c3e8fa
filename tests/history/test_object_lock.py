"""Goal:   nobody can delete the objects that `atollctl snapshot protect --object-lock` locks, and they are
        all that a clone of the snapshot needs. With a bucket without object lock, the command says so.
Method: an attacker with all permissions deletes every version that is not locked, and hides the locked ones
        behind delete markers and newer versions. Then the test deletes these and clones the snapshot.
"""

from __future__ import annotations

import json
import time

from harness.atollctl import atollctl
from harness.digest import database_digests
from harness.objectstores import Minio, ObjectStore
from harness.s3 import ObjectVersion, S3Client
from harness.server import Server
from test_history import fill, told


def in_an_hour() -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(time.time() + 3600))


def locking(mode: str, until: str) -> tuple[str, ...]:
    return ("audit", "--until", until, "--object-lock", mode)


def lock(server: Server, mode: str, until: str) -> int:
    """Protects the snapshot `audit`. Returns how many objects the store has locked."""
    return told(server, "snapshot", "protect", behind=locking(mode, until))["locked_objects"]


def locked_bucket(store: ObjectStore) -> S3Client:
    bucket = S3Client(store.endpoint, "locked", store.credentials)
    bucket.create_bucket(object_lock=True)
    return bucket


def attack(bucket: S3Client) -> set[ObjectVersion]:
    """Deletes every version that is not locked, and hides the others. Returns the locked versions."""
    kept = {version for version in bucket.versions() if not bucket.gives_up(version)}
    for number, key in enumerate(sorted({version.key for version in kept})):
        bucket.delete(key)
        if number % 2 == 0:
            bucket.put(key, b"nothing of yours")
    return kept


def uncover(bucket: S3Client, kept: set[ObjectVersion]) -> None:
    """Makes the locked versions visible again, as docs/operations.md says."""
    for version in set(bucket.versions()) - kept:
        assert bucket.gives_up(version), version


def test_a_locked_snapshot_outlives_whoever_may_delete_everything(lab) -> None:
    store = lab.store(Minio)
    bucket = locked_bucket(store)
    server = lab.s3_server(store, atoll_url="s3://locked/db", atoll_durability="sync")
    server.start()
    fill(server)
    before = database_digests(server, "shop")
    server.run("SELECT ATOLL_SNAPSHOT('audit')")
    until = in_an_hour()
    locked = lock(server, "compliance", until)
    lock(server, "governance", until)
    assert bucket.lock_mode("db/db.json") == "COMPLIANCE", "a stronger lock stays"
    server.run("DELETE FROM shop.orders")
    server.stop()

    kept = attack(bucket)
    assert len(kept) == locked > 5
    lost = atollctl(server, "snapshot", "list")
    assert lost.returncode != 0, lost
    uncover(bucket, kept)
    child = lab.s3_server(store, "child", atoll_url="s3://locked/child", atoll_durability="sync")
    told(server, "clone", behind=("s3://locked/child", "--snapshot", "audit"))
    child.start()
    assert database_digests(child, "shop") == before


def test_a_locked_snapshot_of_a_clone_keeps_what_its_parent_has(lab) -> None:
    store = lab.store(Minio)
    bucket = locked_bucket(store)
    parent = lab.s3_server(store, "parent", atoll_url="s3://locked/db", atoll_durability="sync")
    parent.start()
    fill(parent)
    told(parent, "clone", behind=("s3://locked/child",))
    parent.stop()
    child = lab.s3_server(store, "child", atoll_url="s3://locked/child", atoll_durability="sync")
    child.start()
    child.run("UPDATE shop.orders SET body = 'changed in the clone' WHERE id = 7")
    before = database_digests(child, "shop")
    child.run("SELECT ATOLL_SNAPSHOT('audit')")
    for _ in range(2):  # the second time with a slightly later date
        lock(child, "governance", in_an_hour())
    child.stop()

    uncover(bucket, attack(bucket))
    heir = lab.s3_server(store, "heir", atoll_url="s3://locked/heir", atoll_durability="sync")
    told(child, "clone", behind=("s3://locked/heir", "--snapshot", "audit"))
    heir.start()
    assert database_digests(heir, "shop") == before


def test_a_bucket_without_object_lock_says_so_and_protects_nothing(lab) -> None:
    server = lab.s3_server(lab.store(), atoll_durability="sync")
    server.start()
    server.run("SELECT ATOLL_SNAPSHOT('audit')")
    refused = atollctl(server, "snapshot", "protect", behind=locking("compliance", in_an_hour()))
    assert refused.returncode == 1 and "no object lock" in refused.stderr, refused
    assert told(server, "snapshot", "list")[0]["protected_until_s"] is None


def test_a_lock_that_the_key_may_not_set_is_refused_with_the_reason(lab) -> None:
    store = lab.store(Minio)
    bucket = locked_bucket(store)
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
    refused = atollctl(server, "snapshot", "protect", behind=locking("governance", in_an_hour()))
    assert refused.returncode != 0 and "s3:PutObjectRetention" in refused.stderr, refused
    assert "not all of its objects are locked: repeat" in refused.stderr, refused
