"""Checks the cost contracts: the counted work of each statement. No time is measured.

A statement must have the same counts in a table of 1,000 rows and in one of 100,000. They may differ by two
(those of estimates by ten, because an estimate may look at a second place). And they must not exceed the
contract (cost_patterns.py). This is checked with rows in a memtable, in files, in one compacted file, with
half of the rows deleted, and with other transactions open. `make cost-mutants` switches off the engine's
bounds one by one, and each time these tests must fail.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pymysql
import pytest
from conftest import Lab
from cost_patterns import CHANGES, READ_TABLES, READS, Pattern, table_statements
from harness.process import discard, scratch_directory, wait_until
from harness.server import Server

SIZES = (1_000, 100_000)
SAME_WITHIN = 2
SAME_ESTIMATE_WITHIN = 10  # eight entries at a second place, and the usual two
PREFIX = "atoll_work_"
# Bound of a pattern -> the counters that it limits. Blocks are not limited, because they depend on the depth
# of the tree. Hidden entries have a limit of their own.
BOUNDS = {
    "seeks": ("cursor_seeks",),
    "steps": ("read_steps",),
    "estimate": ("estimate_steps",),
    "gets": ("point_gets", "multi_get_keys"),
    "unpacked": ("rows_unpacked",),
    "conditions": ("conditions",),
    "locks": ("row_locks",),
    "range_locks": ("range_locks",),
    "writes": ("writes",),
    "log_syncs": ("log_syncs",),
}
HIDDEN_MAX = (
    450  # of each deleted row the tombstone and the version below it; an estimate passes up to 100 rows twice
)


def create_tables(server: Server, engine: str, database: str, rows: int) -> None:
    server.run(f"CREATE DATABASE {database}")
    server.run(f"SET default_storage_engine = {engine}", *table_statements(rows), database=database)


def fill(server: Server) -> None:
    for rows in SIZES:
        create_tables(server, "ATOLL", f"cost_{rows}", rows)


def compact(server: Server) -> None:
    for rows in SIZES:
        for table in READ_TABLES:
            server.run(f"OPTIMIZE TABLE {table}", database=f"cost_{rows}")


@pytest.fixture(scope="module")
def filled() -> Iterator[Server]:
    """A server whose rows are in memtables. All tests of this file use it."""
    home = scratch_directory("cost")
    server = Server(home / "server", {"atoll_scan_threads": 1})
    server.start()
    fill(server)
    yield server
    server.kill()
    discard(home)


class Session:
    """A connection whose statements' work is counted."""

    def __init__(self, server: Server, rows: int, database: str = "cost"):
        self.connection = server.connect(f"{database}_{rows}")
        self.middle = rows * 5

    def counts(self) -> dict[str, int]:
        with self.connection.cursor() as cursor:
            cursor.execute(f"SHOW SESSION STATUS LIKE '{PREFIX}%'")
            return {name.lower().removeprefix(PREFIX): int(value) for name, value in cursor.fetchall()}

    def run(self, statement: str) -> None:
        if statement:
            with self.connection.cursor() as cursor:
                cursor.execute(statement.format(m=self.middle))
                cursor.fetchall()

    def cost(self, pattern: Pattern, ended_by: str = "ROLLBACK") -> dict[str, int]:
        """Runs the statement twice, and returns the counts of the second run, because the first one may fill
        caches. Each run is a transaction that ends with `ended_by`. If that is "", the statement runs in the
        session's open transaction."""
        for counted in (False, True):
            if ended_by:
                self.run("BEGIN")
            self.run(pattern.before)
            before = self.counts() if counted else {}
            self.run(pattern.statement)
            after = self.counts() if counted else {}
            self.run(pattern.after)
            self.run(ended_by)
        cost = {name: after[name] - before[name] for name in after}
        return {**cost, "read_steps": max(0, cost["cursor_steps"] - cost["estimate_steps"])}


def breaches(pattern: Pattern, small: dict[str, int], large: dict[str, int], versions: int = 0) -> list[str]:
    found = []
    for bound, names in BOUNDS.items():
        allowed = getattr(pattern, bound)
        costs = [sum(cost[name] for name in names) for cost in (small, large)]
        if max(costs) > allowed:
            found.append(f"{bound} {costs[0]} and {costs[1]}, at most {allowed}")
        tolerance = SAME_ESTIMATE_WITHIN if bound == "estimate" else SAME_WITHIN
        if abs(costs[0] - costs[1]) > tolerance:
            found.append(f"{bound} {costs[0]} in {SIZES[0]} rows, {costs[1]} in {SIZES[1]}")
    hidden = max(small["entries_hidden"], large["entries_hidden"])
    allowed = HIDDEN_MAX if versions == 0 else hidden_versions_max(pattern, versions)
    if hidden > allowed:
        found.append(f"hidden entries {hidden}, at most {allowed}")
    return [f"{pattern.name}: {breach}" for breach in found]


def hidden_versions_max(pattern: Pattern, versions: int) -> int:
    """The bound for hidden entries: of each row that the statement passes, all versions but one are hidden
    from it."""
    return versions * (pattern.seeks + pattern.steps + pattern.estimate + pattern.gets + 2)


def check(server: Server, patterns: tuple[Pattern, ...], versions: int = 0) -> None:
    sessions = [Session(server, rows) for rows in SIZES]
    check_sessions(sessions, patterns, versions)
    for session in sessions:
        session.connection.close()


def check_sessions(
    sessions: list[Session], patterns: tuple[Pattern, ...], versions: int, ended_by: str = "ROLLBACK"
) -> None:
    found = []
    for pattern in patterns:
        small, large = (session.cost(pattern, ended_by) for session in sessions)
        found += breaches(pattern, small, large, versions)
    assert not found, "\n".join(["contracts that are broken:", *found])


def test_reads_of_rows_in_memory(filled: Server) -> None:
    check(filled, READS)


def test_changes_of_rows_in_memory(filled: Server) -> None:
    check(filled, CHANGES)


# The patterns for which Atoll's cursors take more steps than InnoDB reads rows, and why (docs/costs.md).
MORE_STEPS_THAN_INNODB = {
    "index condition": "both pass 20 entries; InnoDB's count leaves out those that the condition refuses",
}


def handler_reads(session: Session, pattern: Pattern) -> int:
    """The number of reads that the server requested from the engine."""
    session.run(pattern.before)
    session.run("FLUSH STATUS")
    session.run(pattern.statement)
    with session.connection.cursor() as cursor:
        cursor.execute("SHOW SESSION STATUS LIKE 'Handler_read%'")
        reads = sum(int(value) for _, value in cursor.fetchall())
    session.run(pattern.after)
    return reads


def test_a_cursor_takes_no_more_steps_than_innodb_reads_rows(filled: Server) -> None:
    rows = SIZES[0]
    create_tables(filled, "InnoDB", f"inno_{rows}", rows)
    atoll, innodb = Session(filled, rows), Session(filled, rows, "inno")
    found = []
    for pattern in READS:
        steps = atoll.cost(pattern)["read_steps"]
        asked, inno = (handler_reads(session, pattern) for session in (atoll, innodb))
        print(f"{pattern.name}: Handler_read {asked}, InnoDB {inno}; steps {steps}")
        if max(steps, asked) > inno + SAME_WITHIN and pattern.name not in MORE_STEPS_THAN_INNODB:
            found.append(f"{pattern.name}: {asked} reads and {steps} steps, InnoDB {inno} reads")
    for session in (atoll, innodb):
        session.connection.close()
    assert not found, "\n".join(found)


# Reads without locks, so they can run beside a transaction that has locked the rows.
PLAIN_READS = tuple(pattern for pattern in READS if pattern.locks == 0 and pattern.range_locks == 0)
VERSIONS = 5
# Changes the rows in the middle of the tables, which the patterns read.
TOUCHED = "UPDATE {table} SET plain = plain + {change} WHERE id BETWEEN {m} - 500 AND {m} + 1000"


def touch(server: Server, rows: int, change: int) -> None:
    for table in ("t", "pair", "part"):
        server.run(TOUCHED.format(table=table, change=change, m=rows * 5), database=f"cost_{rows}")


def test_reads_of_a_mounted_past(filled: Server) -> None:
    """Reads of a mounted snapshot have the costs of reads of the present, with some rows in files and some in
    the snapshot's log."""
    touch(filled, SIZES[0], 1)
    filled.run("SELECT ATOLL_SNAPSHOT('cost')")
    for rows in SIZES:
        filled.run(f"SELECT ATOLL_MOUNT('cost_{rows}', 'past_{rows}', 'cost')")
    sessions = [Session(filled, rows, "past") for rows in SIZES]
    # The patterns with joins are left out: they need the MEMORY table `few`, which is not in the snapshot.
    check_sessions(
        sessions, tuple(pattern for pattern in PLAIN_READS if " few" not in pattern.statement), VERSIONS
    )
    for session in sessions:
        session.connection.close()
    for rows in SIZES:
        filled.run(f"SELECT ATOLL_UNMOUNT('past_{rows}')")
    filled.run("SELECT ATOLL_DROP_SNAPSHOT('cost')")


def test_reads_beside_other_transactions(filled: Server) -> None:
    """The rows that are read have older versions, which an open snapshot needs, and uncommitted changes."""
    snapshots = [Session(filled, rows) for rows in SIZES]
    writers = [Session(filled, rows) for rows in SIZES]
    for rows, snapshot, writer in zip(SIZES, snapshots, writers, strict=True):
        snapshot.run("START TRANSACTION WITH CONSISTENT SNAPSHOT")
        for _ in range(VERSIONS):
            touch(filled, rows, 1)
        writer.run("BEGIN")
        writer.run(TOUCHED.format(table="t", change=1, m=rows * 5))
    check(filled, PLAIN_READS, VERSIONS)
    check_sessions(snapshots, tuple(p for p in PLAIN_READS if not p.before), VERSIONS, ended_by="")
    for session in snapshots + writers:
        session.connection.close()
    for rows in SIZES:
        touch(filled, rows, -VERSIONS)


# A commit writes its changes to the log once and syncs it once, however large the table is.
COMMITS = (
    (Pattern("INSERT", "INSERT INTO w4 VALUES ({m} + 5 + (@n := @n + 1), 1, 1, 1, 1)"), 700),
    (Pattern("INSERT of two", "INSERT INTO w4 SELECT {m} + 50 + (@n := @n + 1), 1, 1, 1, 1 FROM seq_1_to_2"), 1000),
    (Pattern("UPDATE", "UPDATE w4 SET a = a + 1 WHERE id = {m}"), 500),
    (Pattern("DELETE", "DELETE FROM w4 WHERE id > {m} AND id < {m} + 1000 ORDER BY id LIMIT 1"), 500),
    (Pattern("SELECT", "SELECT * FROM w4 WHERE id = {m}"), 0),
)  # fmt: skip


def test_a_commit_writes_its_changes_once(filled: Server) -> None:
    for rows in SIZES:
        session = Session(filled, rows)
        session.run("SET @n = 0")
        for pattern, log_bytes in COMMITS:
            cost = session.cost(pattern, ended_by="")
            assert cost["log_syncs"] == (log_bytes > 0), pattern.name
            assert cost["log_bytes"] <= log_bytes, (pattern.name, cost["log_bytes"])
        session.connection.close()


WRITERS, COMMITS_OF_WRITER = 8, 100


def test_commits_that_change_one_row_share_syncs(filled: Server) -> None:
    """The next writer of a row does not wait for the disk, because a commit releases the row's lock before it
    syncs the log."""
    filled.run(
        "CREATE TABLE hot (id INT PRIMARY KEY, n INT)", "INSERT INTO hot VALUES (1, 0)", database="cost_1000"
    )

    def increment() -> None:
        with filled.connect("cost_1000") as connection, connection.cursor() as cursor:
            for _ in range(COMMITS_OF_WRITER):
                cursor.execute("UPDATE hot SET n = n + 1 WHERE id = 1")

    before = filled.counter("Atoll_wal_syncs")
    with ThreadPoolExecutor(WRITERS) as writers:
        for done in [writers.submit(increment) for _ in range(WRITERS)]:
            done.result()
    commits = WRITERS * COMMITS_OF_WRITER
    assert filled.value("SELECT n FROM cost_1000.hot") == commits
    assert filled.counter("Atoll_wal_syncs") - before < commits * 0.8


def test_a_full_scan_unpacks_only_rows_that_may_match(filled: Server) -> None:
    nothing = Pattern("full scan", "SELECT * FROM t WHERE plain = 100")
    for rows in SIZES:
        session = Session(filled, rows)
        assert session.cost(nothing)["rows_unpacked"] <= 12, rows
        session.connection.close()


def test_reads_and_changes_of_rows_in_files(filled: Server) -> None:
    filled.restart()
    with filled.connect() as connection, connection.cursor() as cursor:  # MEMORY is empty after a restart
        for rows in SIZES:
            cursor.execute(f"USE cost_{rows}")
            cursor.execute(f"INSERT INTO few SELECT {rows} * 5 + seq * 100 FROM seq_0_to_9")
    check(filled, READS)
    check(filled, CHANGES)


def test_reads_of_compacted_rows(filled: Server) -> None:
    compact(filled)
    check(filled, READS)


def test_reads_where_half_of_the_rows_are_deleted(filled: Server) -> None:
    for rows in SIZES:
        filled.run(
            "DELETE FROM t WHERE id % 20 = 10", "DELETE FROM pair WHERE id % 20 = 10", database=f"cost_{rows}"
        )
    check(filled, READS)


def test_a_loose_scan_passes_nothing_that_was_deleted_behind_its_range(filled: Server) -> None:
    loose = Pattern("loose scan", "SELECT grp, MAX(id) FROM many WHERE grp < 10 GROUP BY grp")
    rows = SIZES[-1]
    filled.run("DELETE FROM many WHERE grp BETWEEN 10 AND 18", "ANALYZE TABLE many", database=f"cost_{rows}")
    session = Session(filled, rows)
    assert session.cost(loose)["entries_hidden"] <= HIDDEN_MAX
    session.connection.close()


# How a consumer takes the first task.
QUEUES = {
    "read": """
    SELECT id INTO head FROM queue ORDER BY id LIMIT 1;
    DELETE FROM queue WHERE id = head;
""",
    "locked read": """
    START TRANSACTION;
    SELECT id INTO head FROM queue ORDER BY id LIMIT 1 FOR UPDATE;
    DELETE FROM queue WHERE id = head;
    COMMIT;
""",
    "index": """
    SELECT id INTO head FROM queue FORCE INDEX (state) WHERE state = 'new' ORDER BY id LIMIT 1;
    UPDATE queue SET state = 'done' WHERE id = head;
""",
    "delete": """
    DELETE FROM queue ORDER BY id LIMIT 1;
""",
}
QUEUE = """
CREATE PROCEDURE work(steps INT)
BEGIN
  DECLARE head BIGINT;
  WHILE steps > 0 DO
    INSERT INTO queue (state) VALUES ('new');
    {take}
    SET steps = steps - 1;
  END WHILE;
END
"""
QUEUE_STEPS = int(os.environ.get("ATOLL_QUEUE_STEPS", "20000"))  # `make cost-queue`: a million
# Limits for hidden entries. For each step, on average: the deleted entry of the step before, and the version
# below it. For any step: as many of a few steps whose heads could not be noted. At rest: the number that flush
# and compaction may leave.
HIDDEN_AT_WORK_MAX = 2
HIDDEN_OF_STEP_MAX = 64
HIDDEN_AT_REST_MAX = 64
HIDDEN_BESIDE_OTHERS_MAX = 1000


def hidden_entries(connection: pymysql.Connection) -> int:
    with connection.cursor() as cursor:
        cursor.execute(f"SHOW SESSION STATUS LIKE '{PREFIX}entries_hidden'")
        return int(cursor.fetchone()[1])


def wait_for_rest(server: Server) -> None:
    deadline = time.monotonic() + 60
    busy = ("atoll_flushes_running", "atoll_compactions_running", "atoll_compaction_pending_bytes")
    while any(int(server.status()[name]) for name in busy):
        assert time.monotonic() < deadline, "compaction does not come to rest"
        time.sleep(0.2)


def make_queue(server: Server, take: str) -> pymysql.Connection:
    server.run("DROP DATABASE IF EXISTS q", "CREATE DATABASE q")
    connection = server.connect("q")
    with connection.cursor() as cursor:
        cursor.execute(
            "CREATE TABLE queue (id BIGINT AUTO_INCREMENT PRIMARY KEY, state VARCHAR(20), KEY state (state, id)) "
            "ENGINE=ATOLL"
        )
        cursor.execute(QUEUE.format(take=take))
        cursor.execute("INSERT INTO queue (state) SELECT 'new' FROM seq_1_to_10")
    return connection


def hidden_of_steps(connection: pymysql.Connection, steps: int) -> int:
    before = hidden_entries(connection)
    with connection.cursor() as cursor:
        cursor.execute(f"CALL work({steps})")
    return hidden_entries(connection) - before


@pytest.mark.parametrize("take", QUEUES)
def test_a_queue_does_not_slow_down_with_what_was_deleted(lab: Lab, take: str) -> None:
    server = lab.server(atoll_flush_log_at_trx_commit=0).start()
    connection = make_queue(server, QUEUES[take])
    hidden_of_steps(connection, 10)  # the first steps find out that the table is a queue
    each = hidden_of_steps(connection, QUEUE_STEPS) / QUEUE_STEPS
    most = max(hidden_of_steps(connection, 1) for _ in range(100))
    print(f"hidden entries passed for each step: {each:.2f}, at most {most}")
    assert each <= HIDDEN_AT_WORK_MAX
    assert most <= HIDDEN_OF_STEP_MAX
    connection.close()
    server.restart()  # flushes, as five idle minutes do
    wait_for_rest(server)
    connection = server.connect("q")
    wait_until(lambda: hidden_of_read(connection) <= HIDDEN_AT_REST_MAX, 60, "compaction of what was deleted")
    connection.close()


def hidden_of_read(connection: pymysql.Connection) -> int:
    before = hidden_entries(connection)
    with connection.cursor() as cursor:
        cursor.execute("SELECT id FROM queue ORDER BY id LIMIT 1")
    return hidden_entries(connection) - before


def test_consumers_of_one_queue_pass_little_of_what_was_deleted(lab: Lab) -> None:
    """Four consumers skip each other's tasks, and a reader keeps an old snapshot. A head is not remembered if
    another consumer commits during the search, so a step passes more than the step of a single consumer."""
    server = lab.server(atoll_flush_log_at_trx_commit=0).start()
    take = QUEUES["locked read"].replace("FOR UPDATE", "FOR UPDATE SKIP LOCKED")
    first = make_queue(server, take)
    steps = 2000
    with first.cursor() as cursor:
        cursor.execute("START TRANSACTION WITH CONSISTENT SNAPSHOT")
    consumers = [server.connect("q") for _ in range(4)]
    hidden_of_steps(consumers[0], 10)
    with ThreadPoolExecutor(len(consumers)) as pool:
        hidden = sum(pool.map(lambda connection: hidden_of_steps(connection, steps), consumers))
    each = hidden / (steps * len(consumers))
    print(f"hidden entries passed for each step: {each:.2f}")
    assert each <= HIDDEN_BESIDE_OTHERS_MAX
    for connection in (first, *consumers):
        connection.close()
