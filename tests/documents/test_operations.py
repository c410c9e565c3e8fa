"""Goal:   the sessions of docs/operations.md work as they are written: each command succeeds and prints what the
        document shows, in a directory, on versitygw and on MinIO.
Method: runs each section in its order, with a server that has the tables of the section. Names of places,
        sockets and transactions are replaced by those of the test. What a section says in words ("stop the
        server") the test does before the command that follows, see `before` and `instead`.

Every section with commands has a test here, or a line in NOT_WALKED.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pymysql
import pytest
import sessions
from conftest import Lab
from harness import paths
from harness.objectstores import Minio, ObjectStore, Versitygw
from harness.process import wait_until
from harness.server import Server, s3_options
from harness.windows import only_in_test_bucket
from sessions import Command, Shell, missing_line

SECTIONS = sessions.read("operations.md")
NOT_WALKED = {
    "Add a reader": "tests/servers/test_reader.py does what this section shows",
    "Move a table to another server": "tests/servers/test_hand_over.py does what this section shows",
    "Back up with MariaDB's own tools": "tests/history/test_backups.py does what this section shows",
}
# Sections whose steps stand in the text.
WITHOUT_COMMANDS = {
    "Restore a lost machine": "tests/crash/test_lost_primary.py does these steps",
    "Move to another machine": "tests/bucket/test_outage.py does these steps",
    "Move from the default directory to S3": "tests/history/test_second_bucket.py does these steps",
    "Choose sizes": "no steps; tests/crash/test_memory_limit.py tries the memory that it names",
}
ROWS = 2000
# The commands that ask before they change something.
ASKS = r"atollctl (restore(?!.*--dry-run)|snapshot drop |drop |seed --again )"
Do = Callable[[], None]


class Operator:
    """Somebody with a server, a shell and the keys of the bucket."""

    def __init__(self, lab: Lab, kind: type[ObjectStore] | None):
        self._lab = lab
        self.store = lab.store(kind) if kind else None
        self._base = f"s3://{self.store.bucket}" if self.store else f"file://{lab.home}/bucket"
        if kind is None:
            (lab.home / "bucket").mkdir()
        self.words = {
            "s3://warehouse": self._base,
            "s3://vault": self._base + "/vault",
            "URL": self.url("shop"),
        }
        self.server = self.new_server("shop", log_bin="binlog", server_id=1).start()
        self._connection: pymysql.Connection | None = None
        self.shell = Shell(lab.home / "home", lab.home, self._keys())
        self._client_settings()
        self.walked: set[str] = set()

    def url(self, name: str) -> str:
        return f"{self._base}/{name}"

    def path(self, name: str) -> Path:
        """The file that stands for /etc/mysql/NAME."""
        return self._lab.home / name

    def new_server(self, name: str, **options: object) -> Server:
        place: dict[str, object] = {"atoll_url": self.url(name), "atoll_durability": "async"}
        if self.store:
            store = self.store
            place |= s3_options(store.endpoint, store.bucket, store.credentials, prefix=name)
        return self._lab.server(name, **place, **options)

    def _keys(self) -> dict[str, str]:
        if self.store is None:
            return {}
        found = {}
        for prefix in ("ATOLL_S3_", "ATOLL_TO_S3_"):
            found[f"{prefix}ENDPOINT"] = f"http://{self.store.endpoint}"
            found[f"{prefix}ACCESS_KEY"] = self.store.credentials.access_key
            found[f"{prefix}SECRET_KEY"] = self.store.credentials.secret_key
        return found

    def _client_settings(self) -> None:
        text = f"[client]\nsocket = {self.server.socket}\nuser = root\n"
        (self._lab.home / "home" / ".my.cnf").write_text(text)

    def walk(
        self, title: str, before: dict[str, Do] | None = None, instead: dict[str, Do] | None = None
    ) -> None:
        """Runs the commands of a section in order. `before`: done before the first command that begins with the
        key. `instead`: done instead of each command that begins with the key."""
        before, instead = dict(before or {}), dict(instead or {})
        unused = set(instead)
        for command in SECTIONS[title].commands:
            for start in [start for start in before if command.text.startswith(start)]:
                before.pop(start)()
            start = next((start for start in instead if command.text.startswith(start)), None)
            if start is not None:
                unused.discard(start)
                instead[start]()
                continue
            self._do(command)
        assert not before and not unused, f"the document has no such commands any more: {[*before, *unused]}"

    def _do(self, command: Command) -> None:
        text = command.text
        for word, own in self.words.items():
            text = re.sub(rf"(?<![\w/]){re.escape(word)}(?![A-Z])", own, text)
        printed = self._sql(text) if command.kind == "sql" else self._run(text)
        missing = missing_line(command.output, printed)
        assert missing is None, f"{text}\nthe document shows: {missing}\nprinted:\n{printed}"

    def _run(self, text: str) -> str:
        text = re.sub(r"\s+# .*", "", text)
        question = ""
        if re.match(ASKS, text):
            _, question = self.shell.run(text)  # no terminal: says what it would do, and does nothing
            text += " --yes"
        status, printed = self.shell.run(text)
        assert status == 0, f"{text}\nexit status {status}\n{printed}"
        return question + "\n" + printed

    def _sql(self, text: str) -> str:
        if self._connection is None:
            self._connection = self.server.connect()
        with self._connection.cursor() as cursor:
            cursor.execute(re.sub(r"\s+--\s.*", "", text))
            rows = cursor.fetchall()
            if text.startswith("SHOW WARNINGS"):
                return "\n".join(f"{level}  {message}" for level, _, message in rows)
            printed = ["\t".join(map(str, row)) for row in rows]
            if not text.startswith("SELECT ATOLL_"):
                return "\n".join(printed)
            # SHOW WARNINGS leaves the warnings in place for the document's own SHOW WARNINGS.
            cursor.execute("SHOW WARNINGS")
            return "\n".join([*printed, *(f"{level}  {message}" for level, _, message in cursor.fetchall())])

    def stop(self) -> None:
        self._connection = None
        self.server.stop()

    def newest_gtid(self) -> str:
        return str(self.server.value("SELECT @@gtid_binlog_pos"))


@pytest.fixture(
    params=["file", *(pytest.param(kind, marks=only_in_test_bucket) for kind in (Versitygw, Minio))]
)
def operator(lab: Lab, request):
    made = Operator(lab, None if request.param == "file" else request.param)
    made.server.run(
        "CREATE DATABASE shop",
        "CREATE TABLE shop.orders (id INT PRIMARY KEY, amount INT, note TEXT, KEY (amount)) ENGINE=ATOLL",
        f"INSERT INTO shop.orders SELECT seq, seq % 100, MD5(seq) FROM mysql.seq_1_to_{ROWS}",
    )
    made.server.restart()  # so that the bucket has all of it
    yield made
    made.shell.close()


def digest(server: Server) -> tuple:
    return server.run("SELECT COUNT(*), SUM(CRC32(CONCAT_WS(',', id, amount, note))) FROM shop.orders")[0]


def test_undo_a_mistake(operator: Operator):
    whole = digest(operator.server)
    second = operator.new_server("shop-rescue")

    def start_second() -> None:
        second.start()
        operator.words["--port=3307"] = f"--socket={second.socket}"

    def make_mistake() -> None:
        operator.server.run(
            "DELETE FROM shop.orders WHERE id % 3 = 0", "UPDATE shop.orders SET note = 'x' WHERE id < 9"
        )

    def change_again() -> None:
        assert digest(operator.server) == whole, "the table of that time is back"
        operator.server.run("UPDATE shop.orders SET note = 'x' WHERE id < 9")

    def stop_all() -> None:
        assert digest(operator.server) == whole, "the dump of the clone brings the changed rows back"
        make_mistake()
        second.stop()
        operator.stop()

    operator.walk(
        "Undo a mistake",
        before={
            "SELECT ATOLL_MOUNT": make_mistake,
            "atollctl clone": change_again,
            "atollctl restore": stop_all,
        },
        instead={"# start a second server": start_second},
    )
    operator.server.start()
    assert digest(operator.server) == whole


def test_undo_a_mistake_to_the_second(operator: Operator):
    whole = []

    def make_mistake() -> None:
        begins = lambda: operator.server.counter("Atoll_history_seconds") > 0  # noqa: E731
        wait_until(begins, 60, "the begin of the history")
        operator.server.run("UPDATE shop.orders SET note = 'the last good change' WHERE id = 1")
        operator.words["0-1-9376"] = operator.newest_gtid()
        whole.extend(digest(operator.server))
        operator.server.run("UPDATE shop.orders SET amount = 0")
        operator.stop()

    operator.walk("Undo a mistake to the second", before={"atollctl restore": make_mistake})
    operator.server.start()
    assert digest(operator.server) == tuple(whole)
    rescue = operator.new_server("shop-rescue").start()
    assert digest(rescue) == tuple(whole)


def test_test_an_upgrade(operator: Operator):
    whole = digest(operator.server)

    def run_tests() -> None:
        operator.server.run("DELETE FROM shop.orders WHERE id % 2 = 0")
        trial = operator.new_server("shop-test").start()
        assert digest(trial) == whole, "the copy has the rows of the snapshot"
        trial.run("TRUNCATE shop.orders")
        trial.stop()

    operator.walk("Test an upgrade", before={"atollctl snapshot drop": run_tests})
    assert operator.server.value("SELECT COUNT(*) FROM shop.orders") == ROWS // 2


def test_hand_out_a_copy(operator: Operator):
    operator.server.run(
        "CREATE TABLE shop.people (id INT PRIMARY KEY, name VARCHAR(50), mail VARCHAR(100)) ENGINE=ATOLL",
        "CREATE TABLE shop.tokens (id INT PRIMARY KEY) ENGINE=ATOLL",
        "INSERT INTO shop.people SELECT seq, 'A. B.', CONCAT(seq, '@real') FROM mysql.seq_1_to_100",
    )
    operator.server.restart()  # so that the bucket has all of it
    mask = operator.path("mask.sql")
    operator.words["/etc/mysql"] = str(mask.parent)
    mask.write_text(
        "\n".join(next(c for c in SECTIONS["Hand out a copy"].commands if c.text.startswith("cat ")).output)
    )

    def remove_copy() -> None:
        """Deletes the copy's objects with other tools, and then drops its pin, as the document says."""
        if operator.store is None:
            shutil.rmtree(operator.url("shop-dev").removeprefix("file://"))
        else:
            for info in list(operator.store.client.list("shop-dev/")):
                operator.store.client.delete(info.key)
        listed = operator.shell.run(f"atollctl snapshot list {operator.url('shop')}")[1]
        pin = re.search(r"pin/clone-\S+", listed)
        assert pin is not None, listed
        drop = f"atollctl snapshot drop {operator.url('shop')} {pin.group()} --pin --yes"
        status, printed = operator.shell.run(drop)
        assert status == 0, printed

    def start_trial() -> None:
        trial = operator.new_server("shop-dev", atoll_mask_file=mask).start()
        try:
            wait_until(lambda: trial.status()["atoll_running"] == "1", 60, "the end of the masking")
            real = "mail LIKE '%@real' OR name <> 'N. N.'"
            assert trial.value(f"SELECT COUNT(*) FROM shop.people WHERE {real}") == 0
            assert trial.value("SELECT COUNT(*) FROM shop.people") == 100
        finally:
            trial.stop()

    operator.walk(
        "Hand out a copy",
        before={
            "atollctl clone URL s3://warehouse/shop-dev --mask": remove_copy,
        },
        instead={"mariadbd ": start_trial},
    )
    assert operator.server.value("SELECT COUNT(*) FROM trial.orders") == ROWS
    assert operator.server.value("SELECT COUNT(*) FROM trial2.orders") == ROWS


def test_add_a_replica(operator: Operator):
    primary = operator.server
    replica = operator.new_server("shop-replica", server_id=2, skip_slave_start=1)
    primary.run(
        "SET sql_log_bin = 0",
        "CREATE USER replication@'127.0.0.1'",
        "GRANT REPLICATION SLAVE ON *.* TO replication@'127.0.0.1'",
        # The tests' servers ignore accounts of the machine's name (skip_name_resolve), which the dump stumbles on.
        *(f"DELETE FROM mysql.{table} WHERE host = @@hostname" for table in ("global_priv", "proxies_priv")),
        "FLUSH PRIVILEGES",
        "SET sql_log_bin = 1",
        "CREATE VIEW shop.large_orders AS SELECT * FROM shop.orders WHERE amount > 90",
        "CREATE PROCEDURE shop.pay(IN this INT) UPDATE shop.orders SET amount = 0 WHERE id = this",
        "CREATE EVENT shop.nightly ON SCHEDULE EVERY 1 DAY DO CALL shop.pay(1)",
    )
    primary.run("UPDATE shop.orders SET note = 'behind all that' WHERE id = 1", "SELECT ATOLL_SNAPSHOT('s')")
    operator.words |= {
        "--host db1 ": f"--host 127.0.0.1 --port {primary.port} ",
        "-h db1 ": "",
        "--port=3307": f"--socket={replica.socket}",
    }

    def start_again() -> None:
        shutil.rmtree(replica.data / "#atoll")
        replica.start()

    def change() -> None:
        has_all = "SELECT @@gtid_slave_pos"
        wait_until(lambda: replica.value(has_all) == operator.newest_gtid(), 60, "all transactions")
        assert digest(replica) == digest(primary)

    def drift() -> None:
        primary.run("CALL shop.pay(7)", "DELETE FROM shop.orders WHERE id % 3 = 0")
        change()
        assert replica.value("SELECT COUNT(*) FROM shop.large_orders") > 0
        replica.run("CALL shop.pay(8)", "OPTIMIZE TABLE shop.orders")
        replica.stop()

    operator.walk(
        "Add a replica",
        before={'mariadb --port=3307 -e "SHOW SLAVE': change},
        instead={
            "# start the replica": replica.start,
            "# stop the replica": drift,
            "# move #atoll": start_again,
        },
    )
    change()
    assert replica.value("SELECT COUNT(*) FROM shop.large_orders") > 0


def test_prove_a_backup(operator: Operator):
    operator.server.run("SELECT ATOLL_SNAPSHOT('year-end')")
    # tests/history/test_object_lock.py has a bucket with object lock.
    operator.walk(
        "Prove a backup",
        instead={"atollctl snapshot protect URL year-end --until 2036-12-31 --object-lock": lambda: None},
    )
    drill = operator.new_server("shop-drill").start()
    assert digest(drill) == digest(operator.server)


def test_keep_a_second_bucket(operator: Operator):
    operator.walk("Keep a second bucket", instead={"export ": lambda: None})
    rows = digest(operator.server)
    operator.stop()
    copied = operator.new_server("vault/shop").start()
    assert digest(copied) == rows


def test_remove_atoll_again(operator: Operator):
    rows = digest(operator.server)
    operator.words["'/var/lib/mysql/#atoll'"] = f"'{operator.server.data}/#atoll'"

    def start_without() -> None:
        operator.server.plugins, operator.server.options = (), {}
        operator.server.start()

    operator.walk(
        "Remove Atoll again",
        instead={"systemctl stop": operator.stop, "systemctl start": start_without},
    )
    operator.server.restart()
    assert not operator.server.has_engine()
    assert digest(operator.server) == rows


def test_move_tables_with_foreign_keys(operator: Operator):
    """Moves a schema of InnoDB to ATOLL by the statements that those of the document write, and back."""
    [command] = SECTIONS["Move tables with foreign keys"].commands
    server = operator.server
    server.run(
        "CREATE TABLE shop.people (id INT PRIMARY KEY, name VARCHAR(20)) ENGINE=InnoDB",
        "CREATE TABLE shop.bills (id INT PRIMARY KEY, person INT, refers INT, "
        "CONSTRAINT of_person FOREIGN KEY (person) REFERENCES people (id) ON DELETE CASCADE, "
        "FOREIGN KEY (refers) REFERENCES bills (id) ON UPDATE SET NULL) "
        "ENGINE=InnoDB",
        "INSERT INTO shop.people VALUES (1, 'one'), (2, 'two')",
        "INSERT INTO shop.bills VALUES (10, 1, NULL), (11, 2, 10)",
    )

    def constraints() -> list[str]:
        """Without the actions that InnoDB adds: it stores RESTRICT as NO ACTION when it does not check."""
        text = re.sub(" ON (DELETE|UPDATE) NO ACTION", "", server.run("SHOW CREATE TABLE shop.bills")[0][1])
        assert f"ENGINE={engine} " in text, text
        return re.findall("CONSTRAINT .*", text)

    engine = "InnoDB"
    before = constraints()
    for source, engine in (("InnoDB", "ATOLL"), ("ATOLL", "InnoDB")):
        text = command.text.replace("ENGINE=ATOLL", f"ENGINE={engine}").replace("'InnoDB'", f"'{source}'")
        if source == "ATOLL":  # and not the table that was ATOLL's before
            text = text.replace("engine = 'ATOLL'", "engine = 'ATOLL' AND table_name <> 'orders'")
        drops, moves, adds = (
            server.run(part, database="shop") for part in text.rstrip().rstrip(";").split(";\n")
        )
        for statements in (drops, moves, [("SET foreign_key_checks = 0",), *adds]):
            server.run(*(row[0] for row in statements), database="shop")
        assert constraints() == before
    assert server.value("SELECT COUNT(*) FROM shop.bills") == 2


def test_each_section_is_walked():
    titles = set(re.findall(r"^## (.*)$", (paths.ROOT / "docs" / "operations.md").read_text(), re.MULTILINE))
    assert titles - set(SECTIONS) == set(WITHOUT_COMMANDS)
    walked = {title for title in SECTIONS if title not in NOT_WALKED}
    tests = Path(__file__).read_text()
    assert not [title for title in walked if f'"{title}"' not in tests]
    assert set(NOT_WALKED) <= set(SECTIONS)
    named = re.findall(r"tests/[\w/]+\.py", " ".join([*NOT_WALKED.values(), *WITHOUT_COMMANDS.values()]))
    assert not [name for name in named if not (paths.ROOT / name).exists()]
