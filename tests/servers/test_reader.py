"""Goal:   a reader shows what the writer has in the bucket, at one moment for each transaction, follows it by itself
        through every change of definitions, and changes nothing.
Method: a writer and a reader with a directory and with an S3 server.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import pymysql
import pytest
from conftest import server_maker
from harness.atollctl import atollctl
from harness.process import wait_until
from harness.server import Server

FOLLOWS_WITHIN_S = 60
READ_ONLY = 1290


class Pair:
    """A writer, and a reader on the same bucket."""

    def __init__(self, lab, kind: str):
        make = server_maker(lab, kind, atoll_durability="sync")
        self.writer = make("db")
        self.writer.options |= {
            "log_bin": "log",
            "server_id": 1,
            "gtid_strict_mode": 1,
            "port": self.writer.port,
        }
        self.reader = lab.server(
            "reader",
            **{**self.writer.options, "port": None, "log_bin": None, "server_id": 2, "atoll_role": "reader"},
        )
        self.reader.options.pop("port")
        self.reader.options.pop("log_bin")

    def start(self) -> Pair:
        self.writer.start()
        self.writer.run("CREATE DATABASE shop", "CREATE TABLE shop.first (id INT PRIMARY KEY) ENGINE=ATOLL")
        self.writer.run("CREATE TABLE shop.last (id INT PRIMARY KEY, v DOUBLE) ENGINE=ATOLL")
        self.reader.start()
        return self

    def write(self, *statements: str) -> None:
        """Runs statements on the writer, and waits until the reader shows them."""
        self.writer.run(*statements, "REPLACE INTO last VALUES (1, RAND())", database="shop")
        self.wait()

    def wait(self) -> None:
        position = self.writer.value("SELECT @@gtid_binlog_pos")
        assert self.reader.value(f"SELECT ATOLL_WAIT('{position}', {FOLLOWS_WITHIN_S})") == 0, (
            self.reader.status()
        )

    def assert_equal(self, statement: str) -> None:
        assert answer(self.reader, statement) == answer(self.writer, statement), statement


def answer(server: Server, statement: str) -> list[tuple] | int:
    """Returns the rows, or the number of the error."""
    try:
        return server.run(statement, database="shop")
    except pymysql.Error as error:
        return error.args[0]


@pytest.fixture(params=["file", "versitygw"])
def pair(lab, request) -> Iterator[Pair]:
    yield Pair(lab, request.param)


def test_a_reader_shows_what_the_writer_has(pair: Pair) -> None:
    pair.start()
    pair.write(
        "CREATE TABLE orders (id INT AUTO_INCREMENT PRIMARY KEY, item INT, note TEXT, KEY (item)) ENGINE=ATOLL",
        "CREATE TABLE items (id INT PRIMARY KEY, name VARCHAR(30), UNIQUE (name)) ENGINE=ATOLL",
        "CREATE TABLE parts (id INT PRIMARY KEY, v INT) ENGINE=ATOLL PARTITION BY HASH (id) PARTITIONS 3",
        "CREATE TABLE child (id INT PRIMARY KEY, item INT, FOREIGN KEY (item) REFERENCES items (id)) ENGINE=ATOLL",
        "INSERT INTO items SELECT seq, CONCAT('item ', seq) FROM mysql.seq_1_to_100",
        "INSERT INTO orders (item, note) SELECT seq % 100 + 1, REPEAT('x', seq % 50) FROM mysql.seq_1_to_5000",
        "INSERT INTO parts SELECT seq, seq * 2 FROM mysql.seq_1_to_1000",
        "INSERT INTO child SELECT seq, seq FROM mysql.seq_1_to_50",
    )
    for statement in (
        "SHOW TABLES",
        "SHOW CREATE TABLE orders",
        "SHOW CREATE TABLE parts",
        "SHOW CREATE TABLE child",
        "SELECT COUNT(*), SUM(item), SUM(LENGTH(note)) FROM orders",
        "SELECT name, COUNT(*) FROM orders JOIN items ON items.id = orders.item GROUP BY name ORDER BY name",
        "SELECT SUM(v) FROM parts WHERE id BETWEEN 10 AND 20",
        "SELECT COUNT(*) FROM parts PARTITION (p1)",
        "SELECT * FROM orders ORDER BY id DESC LIMIT 3",
        "SELECT constraint_name, referenced_table_name, unique_constraint_name "
        "FROM information_schema.referential_constraints WHERE constraint_schema = 'shop'",
        "SELECT table_name, column_name, column_type FROM information_schema.columns WHERE table_schema = 'shop' "
        "ORDER BY table_name, ordinal_position",
    ):
        pair.assert_equal(statement)
    assert not list((pair.reader.data / "shop").glob("*.frm")), "tables are discovered each time"


def test_a_reader_changes_nothing_and_says_who_writes(pair: Pair) -> None:
    pair.start()
    pair.write(
        "INSERT INTO first VALUES (1), (2)", "CREATE TABLE p (id INT) ENGINE=ATOLL PARTITION BY HASH (id)"
    )
    for statement in (
        "INSERT INTO first VALUES (3)",
        "UPDATE first SET id = id + 10",
        "DELETE FROM first",
        "REPLACE INTO first VALUES (1)",
        "SELECT * FROM first FOR UPDATE",
        "CREATE TABLE other (id INT) ENGINE=ATOLL",
        "CREATE TABLE other (id INT) ENGINE=ATOLL PARTITION BY HASH (id)",
        "ALTER TABLE first ADD COLUMN b INT",
        "ALTER TABLE first ADD COLUMN b INT, ALGORITHM=COPY",
        "ALTER TABLE first ENGINE=InnoDB",
        "ALTER TABLE p ADD PARTITION PARTITIONS 1",
        "CREATE INDEX i ON first (id)",
        "TRUNCATE TABLE first",
        "DROP TABLE first",
        "RENAME TABLE first TO second",
        "DROP DATABASE shop",
        "OPTIMIZE TABLE first",
        "SELECT ATOLL_SNAPSHOT('s')",
        "SELECT ATOLL_MOUNT('shop', 'then', '2026-01-01')",
        "SELECT ATOLL_CLONE_TABLE('shop.first', 'shop.copy')",
        "SET GLOBAL atoll_history_retention = 60",
    ):
        if statement.startswith("OPTIMIZE"):
            rows = pair.reader.run(statement, database="shop")
            assert any("writes" in str(row[3]) or row[2] == "Error" for row in rows), rows
            continue
        with pytest.raises(pymysql.Error) as error:
            pair.reader.run(statement, database="shop")
        assert f":{pair.writer.port}:" in str(error.value), (statement, error.value)
    assert pair.reader.run("SELECT * FROM first ORDER BY id", database="shop") == [(1,), (2,)]
    pair.assert_equal("SHOW TABLES")
    assert pair.writer.run("SELECT COUNT(*) FROM first", database="shop") == [(2,)]


def test_what_a_reader_may_do_besides_reading(pair: Pair) -> None:
    pair.start()
    pair.write("INSERT INTO first SELECT seq FROM mysql.seq_1_to_1000")
    assert pair.reader.run(
        "CREATE DATABASE own",
        "CREATE TABLE own.copied (id INT PRIMARY KEY) ENGINE=InnoDB",
        "INSERT INTO own.copied SELECT id FROM shop.first",
        "CREATE TEMPORARY TABLE shop.some (id INT PRIMARY KEY) ENGINE=ATOLL",
        "INSERT INTO shop.some SELECT id FROM shop.first WHERE id % 2 = 0",
        "DELETE FROM shop.some WHERE id % 10 = 0",
        "SELECT COUNT(*), (SELECT COUNT(*) FROM own.copied) FROM shop.some JOIN shop.first USING (id)",
    ) == [(400, 1000)]
    assert pair.reader.run("CHECK TABLE shop.first EXTENDED")[0][3] == "OK"
    assert pair.reader.run("LOCK TABLES shop.first READ", "SELECT COUNT(*) FROM shop.first") == [(1000,)]
    assert "READER" in pair.reader.run("SHOW ENGINE ATOLL STATUS")[0][2].upper()
    status = pair.reader.status()
    assert status["atoll_role"] == "reader" and int(status["atoll_reader_lag_ms"]) < 60_000, status
    assert f":{pair.writer.port}:" in status["atoll_reader_writer"]
    assert pair.writer.status("Atoll_role") == {"atoll_role": "writer"}


def test_a_transaction_reads_one_moment(pair: Pair) -> None:
    pair.start()
    pair.write(
        "CREATE TABLE accounts (id INT PRIMARY KEY, amount INT) ENGINE=ATOLL",
        "CREATE TABLE sums (id INT PRIMARY KEY, amount INT) ENGINE=ATOLL",
        "INSERT INTO accounts SELECT seq, 10 FROM mysql.seq_1_to_100",
        "INSERT INTO sums VALUES (1, 1000)",
    )
    sums = "SELECT (SELECT SUM(amount) FROM accounts), (SELECT amount FROM sums)"
    held = pair.reader.connect("shop", autocommit=False)
    by_statement = pair.reader.connect("shop", autocommit=False)
    by_statement.cursor().execute("SET tx_isolation = 'READ-COMMITTED'")
    with held.cursor() as first, by_statement.cursor() as second:
        first.execute("SELECT SUM(amount) FROM accounts")
        second.execute(sums)
        for round_ in range(3):
            pair.write(
                "UPDATE accounts SET amount = amount + 1",
                "UPDATE sums SET amount = (SELECT SUM(amount) FROM accounts)",
                "OPTIMIZE TABLE accounts",
                f"CREATE TABLE other{round_} (id INT PRIMARY KEY) ENGINE=ATOLL",
            )
            first.execute(sums)
            assert first.fetchall() == ((1000, 1000),), "REPEATABLE READ"
            second.execute(sums)
            assert second.fetchall() == ((1100 + 100 * round_, 1100 + 100 * round_),), "READ COMMITTED"
        held.rollback()
        first.execute(sums)
        assert first.fetchall() == ((1300, 1300),)
    held.close()
    by_statement.close()
    pair.write("DROP TABLE sums")


def test_a_reader_follows_every_change_of_definition(pair: Pair) -> None:
    pair.start()
    pair.write(
        "CREATE TABLE t (id INT PRIMARY KEY, a INT) ENGINE=ATOLL",
        "CREATE TABLE p (id INT PRIMARY KEY, a INT) ENGINE=ATOLL PARTITION BY RANGE (id) "
        "(PARTITION p0 VALUES LESS THAN (10), PARTITION p1 VALUES LESS THAN (100))",
        "INSERT INTO t VALUES (1, 1), (2, 2)",
        "INSERT INTO p VALUES (1, 1), (20, 2)",
        "CREATE TRIGGER t_before BEFORE INSERT ON t FOR EACH ROW SET NEW.a = NEW.a + 1",
    )
    asked = [
        "SHOW TABLES",
        "SELECT * FROM t",
        "SHOW CREATE TABLE t",
        "SELECT * FROM p",
        "SHOW CREATE TABLE p",
    ]
    for statement in (*asked, "SHOW TRIGGERS LIKE 't'"):
        if "TRIGGERS" in statement:
            names = [row[0] for row in pair.reader.run(statement, database="shop")]
            wait_until(
                lambda: [r[0] for r in pair.reader.run("SHOW TRIGGERS LIKE 't'", database="shop")]
                == ["t_before"],
                FOLLOWS_WITHIN_S,
                f"the trigger: {names}",
            )
            continue
        pair.assert_equal(statement)
    for change in (
        "ALTER TABLE t ADD COLUMN b VARCHAR(20) DEFAULT 'new'",
        "ALTER TABLE t ADD INDEX (a)",
        "ALTER TABLE t DROP COLUMN a",
        "ALTER TABLE t ENGINE=ATOLL, FORCE",
        "TRUNCATE TABLE t",
        "INSERT INTO t VALUES (5, 'five')",
        "ALTER TABLE p ADD PARTITION (PARTITION p2 VALUES LESS THAN (1000))",
        "INSERT INTO p VALUES (500, 5)",
        "ALTER TABLE p DROP PARTITION p0",
        "ALTER TABLE p REMOVE PARTITIONING",
        "RENAME TABLE t TO u",
        "RENAME TABLE p TO t, u TO p",
        "DROP TABLE p",
        "CREATE TABLE p (x INT PRIMARY KEY) ENGINE=ATOLL",
        "ALTER TABLE t PARTITION BY HASH (id) PARTITIONS 4",
    ):
        pair.write("DROP TRIGGER IF EXISTS t_before", change)
        for statement in asked:
            pair.assert_equal(statement)
    pair.write("CREATE DATABASE late CHARACTER SET latin1", "CREATE TABLE late.t (c CHAR(3)) ENGINE=ATOLL")
    pair.assert_equal("SHOW CREATE DATABASE late")
    pair.assert_equal("SHOW CREATE TABLE late.t")
    pair.write("DROP DATABASE late")
    wait_until(
        lambda: ("late",) not in pair.reader.run("SHOW DATABASES"), FOLLOWS_WITHIN_S, "the database goes"
    )


def test_an_old_transaction_leaves_no_old_definition_behind(pair: Pair) -> None:
    """While it lasts, the position with the new definition is not reached; then it is, for all."""
    pair.start()
    pair.write("CREATE TABLE t (id INT PRIMARY KEY) ENGINE=ATOLL", "INSERT INTO t VALUES (1)")
    held = pair.reader.connect("shop", autocommit=False)
    with held.cursor() as cursor:
        for number in range(3):
            cursor.execute("SELECT id FROM t")
            pair.writer.run(f"ALTER TABLE shop.t ADD COLUMN b{number} INT DEFAULT {number}")
            pair.writer.run("REPLACE INTO shop.last VALUES (1, RAND())")
            position = pair.writer.value("SELECT @@gtid_binlog_pos")
            assert pair.reader.value(f"SELECT ATOLL_WAIT('{position}', 3)") == -1
            cursor.execute("SELECT * FROM t")
            assert len(cursor.fetchall()[0]) == 1 + number, "the transaction's own definition"
            held.rollback()
            pair.wait()
            assert pair.reader.value(f"SELECT b{number} FROM shop.t") == number
            cursor.execute(f"SELECT b{number} FROM t")
            assert cursor.fetchall() == ((number,),)
            held.rollback()
    held.close()


def test_reads_wait_for_own_writes(pair: Pair) -> None:
    pair.start()
    for number in range(5):
        pair.writer.run(f"INSERT INTO shop.first VALUES ({number})")
        position = pair.writer.value("SELECT @@gtid_binlog_pos")
        assert pair.reader.value(f"SELECT ATOLL_WAIT('{position}', {FOLLOWS_WITHIN_S})") == 0
        assert pair.reader.value("SELECT COUNT(*) FROM shop.first") == number + 1
    assert pair.reader.value("SELECT ATOLL_WAIT('0-1-999999', 0.2)") == -1
    assert pair.writer.value("SELECT ATOLL_WAIT('0-1-999999', 0.2)") == -1
    assert pair.writer.value(f"SELECT ATOLL_WAIT('{position}')") == 0
    assert pair.reader.value("SELECT ATOLL_WAIT(NULL)") is None
    for wrong in ("'x'", "'0-1-1', -1", "'0-1-1', NULL", ""):
        with pytest.raises(pymysql.Error):
            pair.reader.run(f"SELECT ATOLL_WAIT({wrong})")


def test_the_gtid_of_a_ddl_statement_comes_without_another_commit(pair: Pair) -> None:
    pair.start()
    pair.writer.run("CREATE TABLE shop.made (id INT PRIMARY KEY) ENGINE=ATOLL")
    pair.wait()
    pair.assert_equal("SHOW TABLES")
    pair.writer.run("DROP TABLE shop.made", "CREATE DATABASE empty")
    pair.wait()
    pair.assert_equal("SHOW TABLES")


def test_the_writer_lists_what_readers_show(pair: Pair) -> None:
    pair.start()
    assert pair.reader.run("SELECT * FROM information_schema.atoll_readers") == [], "a reader has no readers"
    pair.write("INSERT INTO first VALUES (1)")
    held = pair.reader.connect("shop", autocommit=False)
    with held.cursor() as cursor:
        cursor.execute("SELECT COUNT(*) FROM first")
    pair.write("INSERT INTO first VALUES (2)")
    listed = "SELECT server, gtid_position, behind_ms, pin FROM information_schema.atoll_readers"
    wait_until(lambda: len(pair.writer.run(listed)) == 2, FOLLOWS_WITHIN_S, "one pin for each view in use")
    (old, new) = pair.writer.run(listed)
    assert old[0] == new[0] != ""
    assert old[2] > 0 == new[2], (old, new)
    assert new[1] == pair.writer.value("SELECT @@gtid_binlog_pos") != old[1]
    status = atollctl(pair.writer, "status")
    assert status.stdout.count(f"reader     '{new[0]}' shows the state up to the commit at ") == 2, (
        status.stdout
    )
    held.close()
    wait_until(
        lambda: len(pair.writer.run(listed)) == 1, FOLLOWS_WITHIN_S, "a view that nobody uses has no pin"
    )
    pair.reader.stop()
    assert pair.writer.run(listed) == []


def test_a_reader_becomes_the_writer_while_it_runs(pair: Pair) -> None:
    """The former writer is killed; everything that it has acknowledged is there, and it cannot come back as it was."""
    pair.start()
    pair.write("INSERT INTO first SELECT seq FROM mysql.seq_1_to_100")
    reading, idle = pair.reader.connect("shop", autocommit=False), pair.reader.connect("shop")
    reading.cursor().execute("SELECT COUNT(*) FROM first")
    pair.writer.run("INSERT INTO shop.first VALUES (1000)")
    pair.writer.kill()
    begin = time.monotonic()
    pair.reader.run("SET GLOBAL atoll_role = 'writer'")
    pair.reader.run("INSERT INTO shop.first VALUES (1001)")
    print("from the kill to the first write:", time.monotonic() - begin)
    assert pair.reader.run("SELECT COUNT(*), MAX(id) FROM shop.first") == [(102, 1001)]
    with pytest.raises(pymysql.Error):
        reading.cursor().execute("SELECT COUNT(*) FROM first")
    idle.cursor().execute("SELECT COUNT(*) FROM first")
    pair.reader.run(
        "SET GLOBAL atoll_role = 'writer'",
        "CREATE TABLE shop.made (id INT) ENGINE=ATOLL PARTITION BY HASH (id)",
        "ALTER TABLE shop.first ADD COLUMN b INT DEFAULT 5",
        "CREATE TRIGGER shop.t BEFORE INSERT ON shop.first FOR EACH ROW SET NEW.b = 6",
        "INSERT INTO shop.first (id) VALUES (1002)",
    )
    with pytest.raises(pymysql.Error) as error:
        pair.reader.run("SET GLOBAL atoll_role = 'reader'")
    assert "restart" in str(error.value)
    pair.writer.start(atoll_role="reader")
    wait_until(
        lambda: pair.writer.run("SELECT COUNT(*) FROM shop.first") == [(103,)], FOLLOWS_WITHIN_S, "it follows"
    )
    assert pair.writer.value("SELECT b FROM shop.first WHERE id = 1002") == 6
    pair.reader.restart(atoll_role="writer")
    assert pair.reader.value("SELECT COUNT(*) FROM shop.first") == 103
    pair.reader.stop()


def test_a_promotion_fences_a_writer_that_lives(pair: Pair) -> None:
    pair.start()
    pair.write("INSERT INTO first VALUES (1)")
    pair.reader.run("SET GLOBAL atoll_role = 'writer'")
    with pytest.raises(pymysql.Error):
        pair.writer.run("INSERT INTO shop.first VALUES (2)", "INSERT INTO shop.first VALUES (3)")
    assert pair.reader.run("SELECT * FROM shop.first") == [(1,)]
    pair.reader.run("INSERT INTO shop.first VALUES (4)")
    assert pair.reader.run("SELECT * FROM shop.first ORDER BY id") == [(1,), (4,)]


def test_a_reader_starts_before_there_is_anything_and_outlives_the_writer(pair: Pair) -> None:
    pair.reader.start()
    with pytest.raises(pymysql.Error) as error:
        pair.reader.run("CREATE TABLE mysql.t (id INT) ENGINE=ATOLL")
    assert "Could not connect to the storage engine" in str(error.value)
    assert "atoll_role=writer" in pair.reader.status("Atoll_last_error")["atoll_last_error"]
    pair.writer.start()
    pair.writer.run("CREATE DATABASE shop", "CREATE TABLE shop.t (id INT PRIMARY KEY) ENGINE=ATOLL")
    pair.writer.run("CREATE TABLE shop.last (id INT PRIMARY KEY, v DOUBLE) ENGINE=ATOLL")
    wait_until(lambda: pair.reader.status("Atoll_running")["atoll_running"] == "1", 120, "the reader opens")
    pair.write("INSERT INTO t VALUES (1)")
    pair.writer.kill()
    assert pair.reader.value("SELECT COUNT(*) FROM shop.t") == 1
    pair.writer.start()
    pair.write("INSERT INTO t VALUES (2)")
    assert pair.reader.value("SELECT COUNT(*) FROM shop.t") == 2
    pair.reader.kill()
    pair.reader.start()
    assert pair.reader.value("SELECT COUNT(*) FROM shop.t") == 2
    pair.reader.stop()
    pair.writer.stop()


def test_a_reader_becomes_the_writer_by_a_restart(pair: Pair) -> None:
    pair.start()
    pair.write(
        "CREATE TABLE p (id INT PRIMARY KEY) ENGINE=ATOLL PARTITION BY HASH (id) PARTITIONS 2",
        "INSERT INTO p SELECT seq FROM mysql.seq_1_to_100",
    )
    pair.writer.stop()
    pair.reader.stop()
    pair.reader.start(atoll_role="writer")
    pair.writer.start(atoll_role="reader")
    assert pair.writer.value("SELECT COUNT(*) FROM shop.p") == 100
    pair.reader.run("ALTER TABLE shop.p ADD COLUMN b INT DEFAULT 7", "INSERT INTO shop.p VALUES (1000, 1)")
    wait_until(
        lambda: pair.writer.run("SELECT COUNT(*), SUM(b) FROM shop.p WHERE id > 99") == [(2, 8)]
        if pair.writer.run("SHOW COLUMNS FROM shop.p LIKE 'b'")
        else False,
        FOLLOWS_WITHIN_S,
        "the former writer follows",
    )
    pair.reader.run("DROP DATABASE shop", "CREATE DATABASE shop", "CREATE TABLE shop.t (id INT) ENGINE=ATOLL")


def test_many_readers_of_one_moment_beside_a_busy_writer(pair: Pair) -> None:
    """Transfers keep a sum. Every transaction of the reader must see it, whatever the writer does meanwhile."""
    pair.start()
    pair.write(
        "CREATE TABLE a (id INT PRIMARY KEY, amount INT) ENGINE=ATOLL",
        "CREATE TABLE b (id INT PRIMARY KEY, amount INT) ENGINE=ATOLL",
        "INSERT INTO a SELECT seq, 100 FROM mysql.seq_1_to_50",
        "INSERT INTO b SELECT seq, 100 FROM mysql.seq_1_to_50",
    )
    ends = time.monotonic() + 15
    failures: list[str] = []

    def transfer(number: int) -> None:
        connection = pair.writer.connect("shop", autocommit=False)
        with connection.cursor() as cursor:
            while time.monotonic() < ends:
                number = number * 7 % 50 + 1
                try:
                    cursor.execute("UPDATE a SET amount = amount - 1 WHERE id = %s", (number,))
                    cursor.execute("UPDATE b SET amount = amount + 1 WHERE id = %s", (number,))
                    connection.commit()
                except pymysql.err.OperationalError:
                    connection.rollback()

    def define() -> None:
        number = 0
        while time.monotonic() < ends:
            number += 1
            pair.writer.run(
                f"ALTER TABLE a ADD COLUMN c{number} INT",
                "OPTIMIZE TABLE b",
                f"ALTER TABLE a DROP COLUMN c{number}",
                database="shop",
            )

    def read() -> None:
        connection = pair.reader.connect("shop", autocommit=False)
        with connection.cursor() as cursor:
            while time.monotonic() < ends:
                try:
                    cursor.execute("SELECT SUM(amount) FROM a")
                    (first,) = cursor.fetchone()
                    cursor.execute("SELECT SUM(amount) FROM b")
                    (second,) = cursor.fetchone()
                    if first + second != 10000:
                        failures.append(f"{first} + {second}")
                except pymysql.Error as error:
                    if error.args[0] != 1412:  # the definition has changed: the statement can be repeated
                        failures.append(str(error))
                connection.rollback()

    threads = [threading.Thread(target=transfer, args=(n,)) for n in (1, 2)]
    threads += [threading.Thread(target=define), *(threading.Thread(target=read) for _ in range(3))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures, failures[:5]
    assert pair.reader.counter("Atoll_reader_views") > 3
    pair.wait()
    pair.assert_equal("SELECT id, amount FROM a ORDER BY id")
