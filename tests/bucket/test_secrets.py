"""Goal:   the keys of the bucket appear in no log, SHOW, error, file of the server, object or output of
        atollctl.
Method: servers with right and wrong keys perform all actions that print messages about the bucket. Then their
        messages and all files that they have written are searched for the keys.
"""

from __future__ import annotations

import secrets
import stat
from pathlib import Path

import pymysql
import pytest
from harness.atollctl import atollctl
from harness.proxy import Fault
from harness.server import Server
from harness.tables import create_wide, drained

SHOWS = (
    "SHOW GLOBAL VARIABLES",
    "SHOW SESSION VARIABLES",
    "SELECT * FROM information_schema.system_variables",
    "SHOW GLOBAL STATUS",
    "SHOW ENGINE ATOLL STATUS",
    "SELECT * FROM information_schema.plugins",
    "SELECT * FROM information_schema.processlist",
)


def said_by(server: Server) -> str:
    """Returns the output of all SHOW statements in which the server shows its settings and state."""
    return "\n".join(str(row) for show in SHOWS for row in server.run(show))


def files_of(home: Path):
    """Yields the path and the content of every file that the server has written."""
    for path in sorted(home.rglob("*")):
        if path.parts[-2] != "plugin" and stat.S_ISREG(path.lstat().st_mode):
            yield path, path.read_bytes()


def assert_unsaid(hidden: list[str], text: str) -> None:
    for secret in hidden:
        at = text.find(secret)
        assert at < 0, f"a secret was printed: ...{text[max(0, at - 300) : at]}<here>"


def assert_unwritten(hidden: list[str], home: Path) -> None:
    for path, content in files_of(home):
        assert not any(secret.encode() in content for secret in hidden), f"a secret stands in {path}"


def test_right_keys_are_nowhere(lab):
    store = lab.store()
    proxy = lab.proxy(store)
    hidden = [store.credentials.secret_key, store.credentials.access_key]
    server = lab.s3_server(
        store,
        endpoint=proxy.endpoint,
        atoll_durability="sync",
        general_log=1,
        log_bin="binlog",
        log_warnings=9,
    ).start()
    create_wide(server, "wide", 4000, "ATOLL")
    drained(server)
    said = said_by(server)
    # The bucket first refuses requests, then does not answer, so that the engine's errors describe its
    # requests in detail.
    refusal = proxy.add(
        Fault(lambda request: request.method == "PUT", status=403, code="AccessDenied", times=30)
    )
    server.run("INSERT INTO big.wide VALUES (0, 'x')")
    assert refusal.acted > 0
    said += said_by(server)
    proxy.down()
    server.run("SET GLOBAL atoll_lag_wait_timeout = 1")
    with pytest.raises(pymysql.Error) as error:
        server.run("INSERT INTO big.wide VALUES (-1, 'x')")
    said += str(error.value) + said_by(server)
    proxy.up()
    server.stop()
    for command in (["doctor"], ["certify", "--rounds", "1"], ["status"], ["verify", "--deep"], ["--help"]):
        ran = atollctl(server, *command)
        said += ran.stdout + ran.stderr
    assert "atoll_s3_secret_key" in said
    assert "ATOLL_S3_SECRET_KEY" in said
    assert_unsaid(hidden, said)
    assert_unwritten(hidden, server.home)
    for item in store.client.list():
        content = store.client.get(item.key)
        assert not any(secret.encode() in content for secret in hidden), item.key


def test_wrong_keys_are_not_said_either(lab):
    store = lab.store()
    key, secret, token = (secrets.token_hex(12) for _ in range(3))
    wrong = {"atoll_s3_access_key": key, "atoll_s3_secret_key": secret, "atoll_s3_session_token": token}
    for number, settings in enumerate(
        (wrong, {"atoll_s3_secret_key": secret}, {"atoll_s3_session_token": token})
    ):
        server = lab.s3_server(store, f"server{number}", general_log=1, **settings).start()
        with pytest.raises(pymysql.Error) as error:
            server.run("CREATE DATABASE d", "CREATE TABLE d.t (id INT PRIMARY KEY) ENGINE=ATOLL")
        said = str(error.value) + said_by(server)
        server.stop()
        for command in ("doctor", "status", "certify"):
            ran = atollctl(server, command)
            assert ran.returncode != 0
            said += ran.stdout + ran.stderr
        assert_unsaid([secret, token], said)
        assert_unwritten([secret, token], server.home)
