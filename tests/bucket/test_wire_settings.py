"""Goal:   requests follow the connection's settings: every upload asks for the configured encryption, and
        errors name wrong values. The printed policy is sufficient and has no needless permission.
Method: a proxy records the headers that a server sends to a MinIO with an encryption key. MinIO issues
        credentials limited to a policy. certify runs with the whole policy, and once without each of its
        permissions.
"""

from __future__ import annotations

import base64
import json
import os
from dataclasses import replace

import pytest
from harness.atollctl import atollctl
from harness.digest import table_digest
from harness.objectstores import Minio, Versitygw
from harness.proxy import Fault, Request
from harness.s3 import S3Client
from harness.tables import create_wide, drained

KIND = "x-amz-server-side-encryption"
KEY_ID = "x-amz-server-side-encryption-aws-kms-key-id"


class MinioWithKey(Minio):
    """A MinIO that can encrypt objects, with one key named `testkey`."""

    def _environment(self) -> dict[str, str]:
        key = base64.b64encode(os.urandom(32)).decode()
        return super()._environment() | {"MINIO_KMS_SECRET_KEY": f"testkey:{key}"}


class MinioElsewhere(Minio):
    def _environment(self) -> dict[str, str]:
        return super()._environment() | {"MINIO_SITE_REGION": "eu-west-3"}


class VersitygwElsewhere(Versitygw):
    def _arguments(self) -> list[str]:
        program, *rest = super()._arguments()
        return [program, "--region", "eu-west-3", *rest]


def begins_an_object(request: Request) -> bool:
    """Whether the request determines how an object is encrypted: a PUT of a whole object, or the start of an
    upload in pieces."""
    query = request.target.partition("?")[2]
    return (request.method == "PUT" and "partNumber" not in query) or (
        request.method == "POST" and "uploads" in query
    )


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, {}),
        ({"atoll_s3_sse": "AES256"}, {KIND: "AES256"}),
        (
            {"atoll_s3_sse": "aws:kms", "atoll_s3_sse_kms_key_id": "testkey"},
            {KIND: "aws:kms", KEY_ID: "testkey"},
        ),
    ],
)
def test_encryption_is_asked_for_with_every_upload(lab, settings, expected):
    store = lab.store(MinioWithKey)
    proxy = lab.proxy(store)
    seen: list[Request] = []

    def record(request: Request) -> bool:
        seen.append(request)
        return False

    proxy.add(Fault(record))
    server = lab.s3_server(store, endpoint=proxy.endpoint, atoll_durability="sync", **settings).start()
    create_wide(server, "wide", 60_000)
    server.run("ALTER TABLE big.wide ENGINE=ATOLL COMPRESSION=none")  # about 30 MB: more than one piece
    server.run("INSERT INTO big.wide VALUES (0, 'in the log')")
    drained(server)
    digest = table_digest(server, "big", "wide")
    server.stop()
    begun = [request for request in seen if begins_an_object(request)]
    targets = " ".join(request.target for request in begun)
    assert all(
        kind in targets for kind in ("/sst/", "uploads", "/root/", "/wal/", "/man/", "/epoch/", "/hint/")
    )
    for request in begun:
        sent = {name: value for name, value in request.headers.items() if name.startswith(KIND)}
        assert sent == expected, request.target
    assert atollctl(server, "verify", "--deep").returncode == 0
    server.wipe()
    server.initialize().start()
    assert table_digest(server, "big", "wide") == digest


@pytest.mark.parametrize(
    ("setting", "value", "named"),
    [
        ("atoll_s3_sse", "rot13", "AES256, aws:kms"),
        ("atoll_s3_sse_kms_key_id", "k", "atoll_s3_sse is not aws:kms"),
        ("atoll_s3_addressing", "host", "auto, path or virtual"),
        ("atoll_s3_addressing", "virtual", "use path"),
        ("atoll_s3_ca_file", "/nonexistent/ca.pem", "/nonexistent/ca.pem"),
    ],
)
def test_a_wrong_setting_is_named(lab, setting, value, named):
    store = lab.store()
    settings: dict[str, object] = {setting: value}
    if setting == "atoll_s3_ca_file":
        settings["atoll_s3_endpoint"] = f"https://{store.endpoint}"
    server = lab.s3_server(store, **settings).start()
    assert named in server.status()["atoll_last_error"]
    assert setting in server.log()


def store_elsewhere(lab, kind):
    """Starts a store whose region is eu-west-3, and creates its bucket with requests signed for that
    region."""
    store = kind(lab.home / "store")
    store.credentials = replace(store.credentials, region="eu-west-3")
    store.client = S3Client(store.endpoint, store.bucket, store.credentials)
    lab.keep(store)
    return store.start()


@pytest.mark.no_plugin
@pytest.mark.parametrize("kind", [MinioElsewhere, VersitygwElsewhere])
def test_the_region_is_asked_for(lab, kind):
    store = store_elsewhere(lab, kind)
    told = atollctl(lab.s3_server(store, "told", atoll_s3_region=""), "doctor")
    assert told.returncode == 0, told.stdout
    wrong = atollctl(lab.s3_server(store, "wrong", atoll_s3_region="us-east-1"), "doctor")
    assert wrong.returncode == 1
    assert "eu-west-3" in wrong.stdout, wrong.stdout
    assert "set atoll_s3_region" in wrong.stdout


@pytest.mark.parametrize("kind", [MinioElsewhere])
def test_a_server_asks_for_the_region(lab, kind):
    server = lab.s3_server(store_elsewhere(lab, kind), atoll_s3_region="").start()
    server.run("CREATE DATABASE d", "CREATE TABLE d.t (id INT PRIMARY KEY) ENGINE=ATOLL")


def limit(server, store, policy: dict) -> None:
    """Gives the server credentials that have only the permissions of the policy."""
    made, token = store.client.limited(json.dumps(policy))
    server.options |= {
        "atoll_s3_access_key": made.access_key,
        "atoll_s3_secret_key": made.secret_key,
        "atoll_s3_session_token": token,
    }


def certified(server, store, policy: dict) -> dict:
    """Returns the certificate of certify, run with credentials that have only the permissions of the
    policy."""
    limit(server, store, policy)
    ended = atollctl(server, "--json", "certify", "--rounds", "1")
    return json.loads(ended.stdout) if ended.stdout else {"fitness": "nothing", "why": ended.stderr}


@pytest.mark.no_plugin
def test_the_printed_policy_is_enough_and_the_least(lab):
    store = lab.store()
    server = lab.s3_server(store)
    printed = atollctl(server, "doctor", "--policy")
    assert printed.returncode == 0, printed.stderr
    policy = json.loads(printed.stdout)
    whole = certified(server, store, policy)
    assert whole["fitness"] == "fit", whole
    for statement in policy["Statement"]:
        for action in list(statement["Action"]):
            statement["Action"].remove(action)
            limited = certified(server, store, policy)
            assert limited["fitness"] != "fit" or action == "s3:ListBucketMultipartUploads", action
            statement["Action"].append(action)


def test_a_key_that_cannot_delete_is_warned_of_and_used(lab):
    store = lab.store(Minio)
    server = lab.s3_server(store, atoll_durability="sync")
    policy = json.loads(atollctl(server, "doctor", "--policy").stdout)
    for statement in policy["Statement"]:
        statement["Action"] = [action for action in statement["Action"] if action != "s3:DeleteObject"]
    limit(server, store, policy)
    doctor = atollctl(server, "doctor")
    assert doctor.returncode == 0 and "warning" in doctor.stdout, doctor.stdout
    server.start()
    server.run("CREATE DATABASE d", "CREATE TABLE d.t (id INT PRIMARY KEY) ENGINE=ATOLL")
    server.run("INSERT INTO d.t VALUES (1)")
    for begin in (server.restart, lambda: (server.kill(), server.wipe(), server.start(atoll_take_over=1))):
        mark = server.log_mark()
        begin()
        assert server.value("SELECT COUNT(*) FROM d.t") == 1
        assert server.counter("Atoll_trim_disabled") == 1
        log = server.log_since(mark)
        assert "[Warning]" in log and "deletes nothing, and the bucket grows" in log, log
