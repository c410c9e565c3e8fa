"""The anomalies of isolation levels. Each is a *play*: a short history of two or three transactions.

Names and histories follow Adya's thesis and the Hermitage collection: G0 dirty write, G1a aborted read, G1b
intermediate read, G1c circular information flow, OTV observed transaction vanishes, PMP predicate-many-preceders, P4
lost update, G-single read skew, G2-item write skew, G2 anti-dependency cycle.

A step runs on its transaction's own connection. When a step has to wait for a lock, which the engine's table
of lock waits shows, the play goes on with the next step. Later steps of the waiting transaction are done as
soon as its wait has ended. No play depends on time.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

import pymysql

from harness import paths
from harness.server import Server

DOCUMENT = paths.ROOT / "docs" / "isolation.md"
BEGIN_MARK = "<!-- anomalies: written by `make anomalies` -->\n"
END_MARK = "<!-- end of anomalies -->\n"

LEVELS = ("READ UNCOMMITTED", "READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE")
ENGINES = ("InnoDB", "ATOLL")
DATABASE = "anomalies"
STEP_TIMEOUT_S = 60
DEADLOCK = 1213

WAITING = {
    "InnoDB": "SELECT trx_mysql_thread_id FROM information_schema.innodb_trx WHERE trx_state = 'LOCK WAIT'",
    "ATOLL": "SELECT t.thread_id FROM information_schema.atoll_locks l "
    "JOIN information_schema.atoll_trx t USING (trx_id) WHERE l.lock_state = 'waiting'",
}


# InnoDB refreshes its table of waits only if it was not read for 0.1 s.
POLL_S = {"InnoDB": 0.12, "ATOLL": 0.005}


@dataclass
class Outcome:
    """The result of a play: the rows of each step by its label, and the transactions that ended with an
    error."""

    rows: dict[str, list[tuple]] = field(default_factory=dict)
    changed: dict[str, int] = field(default_factory=dict)
    failed: dict[str, int] = field(default_factory=dict)  # transaction -> error number
    waited: bool = False

    def seen(self, label: str) -> list[tuple]:
        return self.rows.get(label, [])

    def all_committed(self) -> bool:
        return not self.failed


@dataclass(frozen=True)
class Play:
    """`steps` are (transaction, statement, label); each transaction begins with a BEGIN that is not listed.
    `happened` tells from the outcome whether the anomaly occurred."""

    name: str
    what: str
    steps: tuple[tuple[str, str, str], ...]
    happened: Callable[[Outcome], bool]


class Transaction:
    """One connection with a thread of its own, so that a statement can wait while other transactions go
    on."""

    def __init__(self, server: Server, level: str, outcome: Outcome, name: str):
        self._connection = server.connect(DATABASE, autocommit=False)
        self._outcome = outcome
        self._name = name
        self._work: queue.Queue[tuple[str, str] | None] = queue.Queue()
        self._changed = threading.Condition()
        self._pending = 0
        self.id = self._connection.thread_id()
        with self._connection.cursor() as cursor:
            cursor.execute(f"SET SESSION TRANSACTION ISOLATION LEVEL {level}")
            cursor.execute("BEGIN")
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def start(self, statement: str, label: str) -> None:
        """Runs the statement when the transaction's earlier statements have ended."""
        with self._changed:
            self._pending += 1
        self._work.put((statement, label))

    def wait_idle(self, timeout_s: float) -> bool:
        with self._changed:
            return self._changed.wait_for(lambda: self._pending == 0, timeout_s)

    def close(self) -> None:
        self._work.put(None)
        self._thread.join()
        self._connection.close()

    def _run(self) -> None:
        while (work := self._work.get()) is not None:
            if self._name not in self._outcome.failed:
                self._execute(*work)
            with self._changed:
                self._pending -= 1
                self._changed.notify_all()

    def _execute(self, statement: str, label: str) -> None:
        try:
            with self._connection.cursor() as cursor:
                self._outcome.changed[label] = cursor.execute(statement)
                self._outcome.rows[label] = list(cursor.fetchall())
        except pymysql.Error as error:
            self._outcome.failed[self._name] = error.args[0]
            self._connection.rollback()


def play(server: Server, engine: str, level: str, scene: Play) -> Outcome:
    """Runs one play. Errors: TimeoutError when a step does not end and is not shown as waiting for a lock."""
    server.run(
        f"CREATE OR REPLACE TABLE test (id INT PRIMARY KEY, value INT) ENGINE={engine}",
        "INSERT INTO test VALUES (1, 10), (2, 20)",
        database=DATABASE,
    )
    outcome = Outcome()
    names = dict.fromkeys(name for name, _, _ in scene.steps)
    transactions = {name: Transaction(server, level, outcome, name) for name in names}
    try:
        for number, (name, statement, label) in enumerate(scene.steps):
            transactions[name].start(statement, label or f"step {number}")
            for transaction in transactions.values():
                _settle(server, engine, transaction, outcome)
    finally:
        for transaction in transactions.values():
            transaction.close()
    outcome.rows["final"] = server.run("SELECT id, value FROM test ORDER BY id", database=DATABASE)
    return outcome


def _settle(server: Server, engine: str, transaction: Transaction, outcome: Outcome) -> None:
    """Returns when the transaction has finished its statements or waits for a lock."""
    deadline = time.monotonic() + STEP_TIMEOUT_S
    while not transaction.wait_idle(POLL_S[engine]):
        if (transaction.id,) in server.run(WAITING[engine]):
            outcome.waited = True
            return
        if time.monotonic() > deadline:
            raise TimeoutError("a step neither ended nor waited for a lock")


def verdict(scene: Play, outcome: Outcome) -> str:
    """The text for one table cell."""
    unknown = [error for error in outcome.failed.values() if error != DEADLOCK]
    if unknown:
        raise RuntimeError(f"{scene.name}: unexpected error {unknown}")
    if scene.happened(outcome):
        return "**possible**"
    if outcome.failed:
        return "no: deadlock"
    return "no: waits" if outcome.waited else "no"


def run_all(server: Server, engines: tuple[str, ...] = ENGINES) -> dict[str, dict[tuple[str, str], str]]:
    """Runs all plays. Returns the verdicts by play and by (engine, level)."""
    server.run(f"CREATE DATABASE IF NOT EXISTS {DATABASE}")
    return {
        scene.name: {
            (engine, level): verdict(scene, play(server, engine, level, scene))
            for level in LEVELS
            for engine in engines
        }
        for scene in PLAYS
    }


def table(verdicts: dict[str, dict[tuple[str, str], str]]) -> str:
    """The verdicts as a Markdown table. Where the engines differ, a cell has both, InnoDB's first."""
    lines = ["| Anomaly | " + " | ".join(LEVELS) + " |", "|---" * (len(LEVELS) + 1) + "|"]
    for scene in PLAYS:
        cells = []
        for level in LEVELS:
            innodb, atoll = (verdicts[scene.name][engine, level] for engine in ENGINES)
            cells.append(atoll if innodb == atoll else f"InnoDB {innodb}; Atoll {atoll}")
        lines.append(f"| {scene.name}: {scene.what} | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def documented() -> str:
    """The table that is in the document now."""
    return DOCUMENT.read_text().split(BEGIN_MARK)[1].split(END_MARK)[0]


def write_document(text: str) -> None:
    head, rest = DOCUMENT.read_text().split(BEGIN_MARK)
    DOCUMENT.write_text(head + BEGIN_MARK + text + END_MARK + rest.split(END_MARK)[1])


def _update(value: int, row: int) -> str:
    return f"UPDATE test SET value = {value} WHERE id = {row}"


def _read(row: int) -> str:
    return f"SELECT value FROM test WHERE id = {row}"


ALL = "SELECT id, value FROM test"

PLAYS = (
    Play(
        "G0",
        "dirty write",
        (
            ("1", _update(11, 1), ""),
            ("2", _update(12, 1), ""),
            ("1", _update(21, 2), ""),
            ("1", "COMMIT", ""),
            ("2", _update(22, 2), ""),
            ("2", "COMMIT", ""),
        ),
        lambda o: o.seen("final") not in ([(1, 11), (2, 21)], [(1, 12), (2, 22)]),
    ),
    Play(
        "G1a",
        "aborted read",
        (
            ("1", _update(101, 1), ""),
            ("2", _read(1), "read"),
            ("1", "ROLLBACK", ""),
            ("2", "COMMIT", ""),
        ),
        lambda o: o.seen("read") == [(101,)],
    ),
    Play(
        "G1b",
        "intermediate read",
        (
            ("1", _update(101, 1), ""),
            ("2", _read(1), "read"),
            ("1", _update(11, 1), ""),
            ("1", "COMMIT", ""),
            ("2", "COMMIT", ""),
        ),
        lambda o: o.seen("read") == [(101,)],
    ),
    Play(
        "G1c",
        "circular information flow",
        (
            ("1", _update(11, 1), ""),
            ("2", _update(22, 2), ""),
            ("1", _read(2), "read 2"),
            ("2", _read(1), "read 1"),
            ("1", "COMMIT", ""),
            ("2", "COMMIT", ""),
        ),
        lambda o: o.seen("read 2") == [(22,)] and o.seen("read 1") == [(11,)],
    ),
    Play(
        "OTV",
        "observed transaction vanishes",
        (
            ("1", _update(11, 1), ""),
            ("1", _update(19, 2), ""),
            ("2", _update(12, 1), ""),
            ("1", "COMMIT", ""),
            ("3", _read(1), "first"),
            ("3", _read(2), "second"),
            ("2", _update(18, 2), ""),
            ("2", "COMMIT", ""),
            ("3", "COMMIT", ""),
        ),
        lambda o: (o.seen("first"), o.seen("second")) == ([(12,)], [(19,)]),
    ),
    Play(
        "PMP",
        "predicate-many-preceders, read",
        (
            ("1", "SELECT id FROM test WHERE value = 30", "before"),
            ("2", "INSERT INTO test VALUES (3, 30)", ""),
            ("2", "COMMIT", ""),
            ("1", "SELECT id FROM test WHERE value % 3 = 0", "after"),
            ("1", "COMMIT", ""),
        ),
        lambda o: o.seen("after") != [],
    ),
    Play(
        "PMP write",
        "predicate-many-preceders, DELETE by what a snapshot showed",
        (
            ("1", "UPDATE test SET value = value + 10", ""),
            ("2", "SELECT id FROM test WHERE value = 20", "seen"),
            ("2", "DELETE FROM test WHERE value = 20", "deleted"),
            ("1", "COMMIT", ""),
            ("2", "COMMIT", ""),
        ),
        lambda o: o.seen("seen") == [(2,)] and o.seen("final") == [(2, 30)],
    ),
    Play(
        "P4",
        "lost update",
        (
            ("1", _read(1), ""),
            ("2", _read(1), ""),
            ("1", _update(11, 1), ""),
            ("2", _update(12, 1), ""),
            ("1", "COMMIT", ""),
            ("2", "COMMIT", ""),
        ),
        Outcome.all_committed,
    ),
    Play(
        "P4 locked",
        "lost update, read with FOR UPDATE",
        (
            ("1", _read(1) + " FOR UPDATE", "1"),
            ("2", _read(1) + " FOR UPDATE", "2"),
            ("1", _update(11, 1), ""),
            ("1", "COMMIT", ""),
            ("2", _update(12, 1), ""),
            ("2", "COMMIT", ""),
        ),
        lambda o: o.seen("2") == [(10,)],
    ),
    Play(
        "G-single",
        "read skew",
        (
            ("1", _read(1), ""),
            ("2", _update(12, 1), ""),
            ("2", _update(18, 2), ""),
            ("2", "COMMIT", ""),
            ("1", _read(2), "read"),
            ("1", "COMMIT", ""),
        ),
        lambda o: o.seen("read") == [(18,)],
    ),
    Play(
        "G-single write",
        "read skew, DELETE by what a snapshot showed",
        (
            ("1", ALL, "seen"),
            ("2", _update(12, 1), ""),
            ("2", _update(18, 2), ""),
            ("2", "COMMIT", ""),
            ("1", "DELETE FROM test WHERE value = 20", "deleted"),
            ("1", "COMMIT", ""),
        ),
        lambda o: o.all_committed() and o.seen("final") == [(1, 12), (2, 18)],
    ),
    Play(
        "P3 locked",
        "phantom in a range read with FOR UPDATE",
        (
            ("1", "SELECT id FROM test WHERE id BETWEEN 2 AND 9 FOR UPDATE", "before"),
            ("2", "INSERT INTO test VALUES (5, 50)", ""),
            ("2", "COMMIT", ""),
            ("1", "SELECT id FROM test WHERE id BETWEEN 2 AND 9 FOR UPDATE", "after"),
            ("1", "COMMIT", ""),
        ),
        lambda o: o.seen("before") != o.seen("after"),
    ),
    Play(
        "G2-item",
        "write skew on rows",
        (
            ("1", ALL, ""),
            ("2", ALL, ""),
            ("1", _update(11, 1), ""),
            ("2", _update(21, 2), ""),
            ("1", "COMMIT", ""),
            ("2", "COMMIT", ""),
        ),
        Outcome.all_committed,
    ),
    Play(
        "G2",
        "anti-dependency cycle over a predicate",
        (
            ("1", "SELECT id FROM test WHERE value % 3 = 0", ""),
            ("2", "SELECT id FROM test WHERE value % 3 = 0", ""),
            ("1", "INSERT INTO test VALUES (3, 30)", ""),
            ("2", "INSERT INTO test VALUES (4, 42)", ""),
            ("1", "COMMIT", ""),
            ("2", "COMMIT", ""),
        ),
        Outcome.all_committed,
    ),
    Play(
        "G2 locked",
        "the same, read with FOR UPDATE",
        (
            ("1", "SELECT id FROM test WHERE value % 3 = 0 FOR UPDATE", "1"),
            ("2", "SELECT id FROM test WHERE value % 3 = 0 FOR UPDATE", "2"),
            ("1", "INSERT INTO test VALUES (3, 30)", ""),
            ("2", "INSERT INTO test VALUES (4, 42)", ""),
            ("1", "COMMIT", ""),
            ("2", "COMMIT", ""),
        ),
        lambda o: o.all_committed() and o.seen("2") == [],
    ),
)
