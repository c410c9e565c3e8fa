"""Goal:   SET GLOBAL changes the configured keys of a running server, as a pair and only to keys that work,
        and no commit is lost.
Method: MinIO issues temporary keys. A proxy notes which key signs each request. From some moment on it
        refuses a key as if it had expired. Commits then wait until SET GLOBAL sets other keys.
"""

from __future__ import annotations

import json

import pymysql
import pytest
from harness.objectstores import Minio
from harness.process import wait_until
from harness.proxy import Fault, Request
from harness.s3 import Credentials
from harness.server import Server
from harness.tables import Statement
from test_secrets import assert_unsaid, said_by

# An access key with its secret key, and their session token.
Keys = tuple[Credentials, str]

EVERYTHING = ["s3:*"]
ONLY_READ = ["s3:GetObject", "s3:ListBucket"]


def keys_for(store: Minio, actions: list[str]) -> Keys:
    """Returns temporary keys that allow `actions`."""
    statement = {"Effect": "Allow", "Action": actions, "Resource": ["arn:aws:s3:::*"]}
    return store.client.limited(json.dumps({"Version": "2012-10-17", "Statement": [statement]}))


def settings_of(keys: Keys) -> dict[str, str]:
    made, token = keys
    return {
        "atoll_s3_access_key": made.access_key,
        "atoll_s3_secret_key": made.secret_key,
        "atoll_s3_session_token": token,
    }


def change(keys: Keys) -> str:
    """Returns the statement that sets access key, session token and secret key."""
    return "SET GLOBAL " + ", ".join(
        f"{name} = '{settings_of(keys)[name]}'"
        for name in ("atoll_s3_access_key", "atoll_s3_session_token", "atoll_s3_secret_key")
    )


class Signers:
    """Notes which access keys sign requests, and refuses requests whose key is in `expired`."""

    def __init__(self, proxy):
        self.seen: set[str] = set()
        self.expired: set[str] = set()
        proxy.add(Fault(self._note))
        self.refusals = Fault(self._is_expired, status=403, code="ExpiredToken")
        proxy.add(self.refusals)

    @staticmethod
    def _of(request: Request) -> str:
        return request.headers.get("authorization", "").partition("Credential=")[2].partition("/")[0]

    def _note(self, request: Request) -> bool:
        self.seen.add(self._of(request))
        return False

    def _is_expired(self, request: Request) -> bool:
        return self._of(request) in self.expired


def scene(lab) -> tuple[Minio, Signers, Server, Keys]:
    """Starts a server with temporary keys whose commits wait for the bucket (durability `sync`)."""
    store = lab.store(Minio)
    proxy = lab.proxy(store)
    signers = Signers(proxy)
    keys = keys_for(store, EVERYTHING)
    server = lab.s3_server(
        store, endpoint=proxy.endpoint, atoll_durability="sync", **settings_of(keys)
    ).start()
    server.run("CREATE DATABASE big", "CREATE TABLE big.t (id INT PRIMARY KEY) ENGINE=ATOLL")
    return store, signers, server, keys


def refused(server: Server, statement: str) -> str:
    with pytest.raises(pymysql.Error) as error:
        server.run(statement)
    assert error.value.args[0] == 1231, error.value
    return str(error.value)


def test_keys_that_expired_are_replaced_and_waiting_commits_go_on(lab):
    store, signers, server, former = scene(lab)
    later = keys_for(store, EVERYTHING)
    signers.expired.add(former[0].access_key)
    waiting = Statement(server, "INSERT INTO big.t VALUES (1)")
    waiting.start()
    wait_until(lambda: signers.refusals.acted > 1, 30, "refusals")
    server.run(change(later))
    assert waiting.finished(60) is None
    server.run("INSERT INTO big.t VALUES (2)")
    signers.seen.clear()
    server.run("INSERT INTO big.t VALUES (3)")
    assert signers.seen == {later[0].access_key}
    assert_unsaid([later[0].secret_key, later[1]], said_by(server))
    for name in settings_of(later):
        assert server.value(f"SELECT @@{name}") == "*****"
    server.kill()
    server.wipe()
    server.initialize()
    server.options.update(settings_of(later), atoll_take_over="ON")
    assert server.start().value("SELECT GROUP_CONCAT(id ORDER BY id) FROM big.t") == "1,2,3"


def test_keys_that_do_not_work_change_nothing(lab):
    store, signers, server, former = scene(lab)
    wrong = (Credentials("nobody", "notthesecret12345"), "nottoken12345")
    said = refused(server, change(wrong))
    reader = keys_for(store, ONLY_READ)
    said += refused(server, change(reader))
    # A secret key alone is tested with the access key in use, and this one is wrong.
    said += refused(server, "SET GLOBAL atoll_s3_secret_key = 'notthesecret12345'")
    said += refused(server, "SET GLOBAL atoll_s3_session_token = 'nottoken12345'")
    said += refused(server, "SET GLOBAL atoll_s3_access_key = ''")
    warned = server.run("SET GLOBAL atoll_s3_access_key = 'nobody'", "SHOW WARNINGS")
    assert "waits for SET GLOBAL atoll_s3_secret_key" in str(warned)
    signers.seen.clear()
    server.run("INSERT INTO big.t VALUES (1)")
    assert signers.seen == {former[0].access_key}, "a new access key waits for its secret key"
    assert_unsaid(
        ["notthesecret12345", "nottoken12345", reader[0].secret_key, reader[1]], said + said_by(server)
    )


def test_keys_from_elsewhere_are_not_changed_by_variables(lab):
    server = lab.server().start()
    said = refused(server, "SET GLOBAL atoll_s3_access_key = 'a', atoll_s3_secret_key = 'notthesecret12345'")
    assert "started without atoll_s3_access_key" in said
    assert "notthesecret12345" not in said
