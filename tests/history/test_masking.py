"""Goal:   no session can read a clone's rows before they are masked, whatever happens meanwhile, whatever the
        settings are afterwards, and by whatever way into the past (rules MASK-1 to MASK-3).
Method: real servers. A client reads rows from the first moment on, and all rows that it gets must be masked.
        In other tests the masking statements fail, the server is killed while they run, or the file is given
        to a database that is no clone.
"""

from __future__ import annotations

import shutil
import threading
import time
from pathlib import Path

import pymysql
import pytest
from conftest import MakeServer
from harness.atollctl import atollctl
from harness.process import wait_until
from harness.server import Server

ROWS = 20_000
SECRETS = "SELECT COUNT(*) FROM shop.people WHERE mail LIKE '%@real'"
CLOSED = "closed until they are masked"


@pytest.fixture
def parent(make_server: MakeServer) -> Server:
    made = make_server("parent").start()
    made.run(
        "CREATE DATABASE shop",
        "CREATE TABLE shop.people (id INT PRIMARY KEY, mail VARCHAR(100), KEY (mail)) ENGINE=ATOLL",
        f"INSERT INTO shop.people SELECT seq, CONCAT(seq, '@real') FROM mysql.seq_1_to_{ROWS}",
    )
    return made


@pytest.fixture
def child(parent: Server, make_server: MakeServer) -> Server:
    """A server for a clone of the parent, not started."""
    made = make_server("child")
    clone(parent, made)
    return made


def clone(parent: Server, child: Server, *options: str) -> None:
    ran = atollctl(parent, "clone", *options, behind=(str(child.options["atoll_url"]),))
    assert ran.returncode == 0, ran.stdout + ran.stderr


def mask_file(tmp_path: Path, *statements: str) -> Path:
    path = tmp_path / "mask.sql"
    path.write_text("-- mail addresses\n" + "".join(f"{statement};\n" for statement in statements))
    return path


def is_open(server: Server) -> bool:
    try:
        server.run("SELECT 1 FROM shop.people LIMIT 1")
    except pymysql.Error as error:
        assert CLOSED in str(error)
        return False
    return True


def refusal(server: Server, statement: str) -> str:
    with pytest.raises(pymysql.Error) as refused:
        server.run(statement)
    return str(refused.value)


def test_nobody_sees_a_row_that_is_not_masked(child: Server, tmp_path: Path) -> None:
    path = mask_file(
        tmp_path, "UPDATE shop.people SET mail = CONCAT(id, '@mask') WHERE id % 2", "SELECT SLEEP(3)",
        "UPDATE shop.people SET mail = CONCAT(id, '@mask') WHERE id % 2 = 0",
    )  # fmt: skip
    child.start(atoll_mask_file=path)
    wait_until(
        lambda: "1 of the 3 statements" in refusal(child, SECRETS), 60, "the first statement does not end"
    )
    for statement in ("DROP TABLE shop.people", "TRUNCATE shop.people", "ALTER TABLE shop.people ADD c INT"):
        assert refusal(child, statement)
    assert CLOSED in refusal(child, "SELECT ATOLL_CLONE_TABLE('shop.people', 'shop.copy')")
    assert CLOSED in refusal(child, "SELECT ATOLL_SNAPSHOT('with secrets')")
    wait_until(lambda: is_open(child), 60, "the tables stay closed")
    assert child.value(SECRETS) == 0
    assert child.value("SELECT COUNT(*) FROM shop.people") == ROWS
    assert child.run("CHECK TABLE shop.people")[-1][-1] == "OK"

    # The clone is masked only once: rows that are written later stay as they are.
    child.run("INSERT INTO shop.people VALUES (0, 'tester@real')")
    child.restart(atoll_mask_file=path)
    assert child.value(SECRETS) == 1


def test_a_statement_that_fails_leaves_the_tables_closed(child: Server, tmp_path: Path) -> None:
    path = mask_file(tmp_path, "UPDATE shop.people SET mail = ''", "UPDATE shop.nobody SET mail = ''")
    child.start(atoll_mask_file=path)
    wait_until(lambda: "statement 2 of" in refusal(child, SECRETS), 60, "the second statement does not fail")
    assert "shop.nobody' doesn't exist" in child.log()
    child.restart(atoll_mask_file=tmp_path / "no_such_file.sql")
    wait_until(lambda: "cannot be read" in refusal(child, SECRETS), 60, "the file was read")
    mask_file(tmp_path, "UPDATE shop.people SET mail = 'masked'")
    child.restart(atoll_mask_file=path)
    wait_until(lambda: is_open(child), 60, "the tables stay closed")
    assert child.run("SELECT DISTINCT mail FROM shop.people") == [("masked",)]


def test_a_masking_that_has_begun_keeps_the_tables_closed_without_the_setting(
    parent: Server, child: Server, make_server: MakeServer, tmp_path: Path
) -> None:
    path = mask_file(
        tmp_path, "UPDATE shop.people SET mail = '' WHERE id % 2", "UPDATE shop.nobody SET mail = ''"
    )
    child.start(atoll_mask_file=path)
    wait_until(lambda: "statement 2 of" in refusal(child, SECRETS), 60, "the second statement does not fail")
    assert child.value("SELECT COUNT(*) FROM information_schema.atoll_locks") == 0
    assert CLOSED in child.run("SHOW ENGINE ATOLL STATUS")[0][2]
    child.restart()
    for _ in range(2):
        assert "has begun and has not ended" in refusal(child, SECRETS)
        assert child.status()["atoll_running"] == "0"
        assert "has begun and has not ended" in child.status()["atoll_last_error"]
        child.stop()
        shutil.rmtree(child.data / "#atoll")  # the record is in the bucket, too
        child.start()
    child.stop()
    # A clone of it has half of the rows unmasked, so it is closed, too.
    grandchild = make_server("grandchild")
    clone(child, grandchild)
    grandchild.start()
    assert CLOSED in refusal(grandchild, SECRETS)
    mask_file(tmp_path, "UPDATE shop.people SET mail = 'masked'")
    for server in (child, grandchild):
        server.stop()
        server.start(atoll_mask_file=path)
        wait_until(lambda server=server: is_open(server), 90, "the tables stay closed")
        assert server.status()["atoll_running"] == "1"
        assert CLOSED not in server.status()["atoll_last_error"]
        server.restart()
        assert server.run("SELECT DISTINCT mail FROM shop.people") == [("masked",)]


def test_a_clone_made_to_be_masked_opens_nowhere_before(
    parent: Server, make_server: MakeServer, tmp_path: Path
) -> None:
    child, copy, late = make_server("child"), make_server("copy"), make_server("late")
    parent.restart()  # its rows go to table files
    clone(parent, child, "--mask")
    child.start()
    assert "atollctl clone --mask" in refusal(child, SECRETS)
    assert child.status()["atoll_running"] == "0"
    child.stop()
    refused = atollctl(child, "materialize", "--yes")
    assert refused.returncode == 1 and "not masked yet" in refused.stderr, refused
    assert "atoll_mask_file" in atollctl(child, "status").stdout
    # Its clones have the same duty.
    clone(child, copy)
    copy.start()
    assert "atollctl clone --mask" in refusal(copy, SECRETS)
    child.start(atoll_mask_file=mask_file(tmp_path, "UPDATE shop.people SET mail = CONCAT(id, '@mask')"))
    wait_until(lambda: is_open(child), 90, "the tables stay closed")
    child.restart()
    assert child.value(SECRETS) == 0
    # What was cloned after the masking need not be masked again.
    clone(child, late)
    late.start()
    assert late.value(SECRETS) == 0
    assert late.value("SELECT COUNT(*) FROM shop.people") == ROWS


def test_no_state_from_before_the_end_of_the_masking_is_mounted(child: Server, tmp_path: Path) -> None:
    def keep(name: str) -> None:
        ran = atollctl(child, "snapshot", "create", behind=(name,))
        assert ran.returncode == 0, ran.stdout + ran.stderr

    keep("fresh clone")
    child.start(
        atoll_mask_file=mask_file(
            tmp_path,
            "UPDATE shop.people SET mail = CONCAT(id, '@mask') WHERE id % 2",
            "SELECT SLEEP(4)",
            "UPDATE shop.people SET mail = CONCAT(id, '@mask')",
        )  # fmt: skip
    )
    wait_until(
        lambda: "1 of the 3 statements" in refusal(child, SECRETS), 60, "the first statement does not end"
    )
    keep("during")
    wait_until(lambda: is_open(child), 90, "the tables stay closed")
    child.run("SELECT ATOLL_SNAPSHOT('masked')")
    for name in ("fresh clone", "during"):
        assert "before the end of the masking" in refusal(
            child, f"SELECT ATOLL_MOUNT('shop', 'past', '{name}')"
        )
        assert name in child.log(), "nobody is told that the bucket still has these rows"
    child.run("DELETE FROM shop.people", "SELECT ATOLL_MOUNT('shop', 'past', 'masked')")
    assert child.value(SECRETS.replace("shop", "past")) == 0
    assert child.value("SELECT COUNT(*) FROM past.people") == ROWS


def test_a_prepared_transaction_of_the_parent_does_not_show_its_rows(
    parent: Server, make_server: MakeServer, tmp_path: Path
) -> None:
    session = parent.connect()
    with session.cursor() as cursor:
        for statement in (
            "XA START 'x'", "INSERT INTO shop.people VALUES (-1, 'late@real')", "XA END 'x'", "XA PREPARE 'x'"
        ):  # fmt: skip
            cursor.execute(statement)
    session.close()
    parent.run("INSERT INTO shop.people VALUES (-2, '')")  # so that the bucket has the log up to here
    child = make_server("child")
    clone(parent, child)
    child.start(atoll_mask_file=mask_file(tmp_path, "UPDATE shop.people SET mail = 'masked' WHERE id > 0"))
    wait_until(lambda: "XA RECOVER" in refusal(child, SECRETS), 60, "the transaction is not seen")
    child.run("XA ROLLBACK 'x'")
    wait_until(lambda: is_open(child), 90, "the tables stay closed")
    assert child.value(SECRETS) == 0


def test_a_transaction_that_the_file_leaves_open_is_committed(child: Server, tmp_path: Path) -> None:
    child.start(
        atoll_mask_file=mask_file(tmp_path, "START TRANSACTION", "UPDATE shop.people SET mail = 'masked'")
    )
    wait_until(lambda: is_open(child), 60, "the tables stay closed")
    assert child.value(SECRETS) == 0
    child.kill()
    child.start()
    assert child.run("SELECT DISTINCT mail FROM shop.people") == [("masked",)]


def test_a_kill_between_two_statements_shows_nothing(child: Server, tmp_path: Path) -> None:
    path = mask_file(tmp_path, "SELECT SLEEP(3)", "UPDATE shop.people SET mail = 'masked'")
    child.start(atoll_mask_file=path)
    assert not is_open(child)
    child.kill()
    child.start(atoll_mask_file=path)
    assert not is_open(child)
    begin = time.monotonic()
    child.stop()
    assert time.monotonic() - begin < 20, "the shutdown waits for a statement of the file"
    child.start(atoll_mask_file=path)
    wait_until(lambda: is_open(child), 60, "the tables stay closed")
    assert child.value(SECRETS) == 0


def test_a_session_that_was_there_first_is_kept_out(child: Server, tmp_path: Path) -> None:
    """The tables that the masking session opens go into the server's table cache, from which other sessions
    take them."""
    path = mask_file(
        tmp_path, "SELECT COUNT(*) FROM shop.people", "SELECT SLEEP(2)", "UPDATE shop.people SET mail = ''"
    )
    child.start(atoll_mask_file=path)
    seen: list[object] = []

    def look() -> None:
        for _ in range(200):
            try:
                seen.append(child.value(SECRETS))
            except pymysql.Error as error:
                assert CLOSED in str(error)
            time.sleep(0.02)

    lookers = [threading.Thread(target=look) for _ in range(2)]
    for looker in lookers:
        looker.start()
    for looker in lookers:
        looker.join()
    assert set(seen) == {0}


@pytest.mark.parametrize("at_start", [True, False])
def test_the_history_begins_behind_the_masking_whoever_asks_for_it(
    child: Server, tmp_path: Path, at_start: bool
) -> None:
    path = mask_file(tmp_path, "SELECT SLEEP(3)", "UPDATE shop.people SET mail = CONCAT(id, '@mask')")
    child.start(atoll_mask_file=path, atoll_history_retention=86400 if at_start else 0)
    child.run("SET GLOBAL atoll_history_retention = 86400")
    before = now(child)
    assert not is_open(child), "the masking was over before the question"
    wait_until(lambda: is_open(child), 60, "the clone to open")
    message = refusal(child, f"SELECT ATOLL_MOUNT('shop', 'past', '{before}')")
    assert before[:10] in message or "keeps no history" in message, message
    child.run("UPDATE shop.people SET mail = 'late' WHERE id = 1")
    after = now(child)
    child.run("DELETE FROM shop.people", f"SELECT ATOLL_MOUNT('shop', 'past', '{after}')")
    assert child.value("SELECT COUNT(*) FROM past.people") == ROWS


def now(server: Server) -> str:
    time.sleep(0.05)
    moment = server.value("SELECT DATE_FORMAT(UTC_TIMESTAMP(6), '%Y-%m-%d %H:%i:%s.%f')")
    time.sleep(0.05)
    return str(moment)


def test_a_database_that_is_no_clone_is_not_changed(parent: Server, tmp_path: Path) -> None:
    parent.restart(atoll_history_retention=86400)
    parent.run("INSERT INTO shop.people VALUES (0, '')")
    moment = now(parent)
    path = mask_file(tmp_path, "UPDATE shop.people SET mail = ''")
    parent.restart(atoll_history_retention=86400, atoll_mask_file=path)
    wait_until(lambda: "is no clone" in refusal(parent, SECRETS), 60, "nothing is said")
    parent.run("SET GLOBAL atoll_history_max_bytes = 1 << 40")
    time.sleep(2)  # history that a SET gives up would be deleted at once
    parent.restart(atoll_history_retention=86400)
    assert parent.value(SECRETS) == ROWS
    parent.run("DELETE FROM shop.people", f"SELECT ATOLL_MOUNT('shop', 'past', '{moment}')")
    assert parent.value("SELECT COUNT(*) FROM past.people") == ROWS + 1


def test_a_clone_of_a_masked_clone_is_masked_anew(
    child: Server, make_server: MakeServer, tmp_path: Path
) -> None:
    child.start(atoll_mask_file=mask_file(tmp_path, "UPDATE shop.people SET mail = 'first'"))
    wait_until(lambda: is_open(child), 60, "the tables stay closed")
    grandchild = make_server("grandchild")
    clone(child, grandchild)
    grandchild.start(
        atoll_mask_file=mask_file(tmp_path, "UPDATE shop.people SET mail = CONCAT(mail, ', second')")
    )
    wait_until(lambda: is_open(grandchild), 60, "the tables stay closed")
    assert grandchild.run("SELECT DISTINCT mail FROM shop.people") == [("first, second",)]
