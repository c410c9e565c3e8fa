"""Random SQL, compared between InnoDB and ATOLL: runs rounds, shortens failing scripts, replays scripts.

    make random MINUTES=60 SEED=7           runs rounds; writes failures to build/random/
    make random REPLAY=build/random/x.json  runs a script again

A round makes a few tables and runs some hundred steps on them. The seed fixes everything except the time of a
kill.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import time
from collections import Counter
from dataclasses import dataclass, field, replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from harness import paths
from harness.process import exit_cleanly_on_signals, scratch_directory
from harness.random_sql import dml as dml
from harness.random_sql.compare import Difference, Pair, Stop
from harness.random_sql.ddl import Change, Definitions
from harness.random_sql.dml import Step
from harness.random_sql.objects import AUDIT, Objects
from harness.random_sql.schema import Table
from harness.server import Server, ServerFailed

STEPS_PER_ROUND = 250
RESULTS = paths.BUILD / "random"
SETTINGS = (
    # Not hashed: hash joins miss pairs of equal strings with different character sets.
    "SET SESSION optimizer_switch = 'mrr=on,mrr_cost_based=off,mrr_sort_keys=on,join_cache_hashed=off', "
    "join_cache_level = 6",
    "SET SESSION optimizer_switch = 'index_condition_pushdown=off,rowid_filter=off', join_cache_level = 0",
    "SET SESSION optimizer_switch = 'index_merge_sort_intersection=on,join_cache_hashed=off', join_cache_level = 6",
    "SET SESSION optimizer_switch = DEFAULT, join_cache_level = DEFAULT",
    "SET SESSION optimizer_use_condition_selectivity = 1, max_length_for_sort_data = 4",
    "SET SESSION sql_mode = REPLACE(@@sql_mode, 'STRICT_TRANS_TABLES', 'NO_UNSIGNED_SUBTRACTION')",
    "SET SESSION sql_mode = CONCAT(@@sql_mode, ',STRICT_TRANS_TABLES')",
    "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED",
    "SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ",
    "SET SESSION TRANSACTION ISOLATION LEVEL SERIALIZABLE",
)


@dataclass
class Failure:
    seed: str
    step: int
    kind: str
    message: str
    script: list[Step]
    path: Path | None = None

    def __str__(self) -> str:
        return (f"seed {self.seed}, step {self.step}, {self.kind}: {self.message}\n"
                f"replay: make random REPLAY={self.path} ({len(self.script)} steps)")  # fmt: skip


@dataclass
class Result:
    rounds: int = 0
    steps: int = 0
    stopped: Counter = field(default_factory=Counter)
    errors: Counter = field(default_factory=Counter)
    failures: list[Failure] = field(default_factory=list)


class Round:
    """One round: makes random steps for the present tables and runs them."""

    def __init__(self, pair: Pair, seed: str):
        self.rng = random.Random(seed)
        self.seed = seed
        self.pair = pair
        self.definitions = Definitions(self.rng)
        self.objects = Objects(self.rng, self.definitions.names)
        self.script: list[Step] = []
        self.errors: Counter = Counter()
        self.in_transaction = False

    def run(self) -> None:
        """Runs the round. Errors: Difference, Stop."""
        self.pair.reset()
        self._do(replace(AUDIT))
        for _ in range(self.rng.choice((2, 3, 4))):
            self._change(self.definitions.create(temporary=self.rng.random() < 0.1))
        while len(self.script) < STEPS_PER_ROUND:
            if not self.definitions.tables:
                self._change(self.definitions.create())
                continue
            self._something()
        self._end_transaction()
        self._do(Step("", action="verify"))

    def _do(self, step: Step):
        self.script.append(step)
        answer = self.pair.run(step)
        if answer.error:
            self.errors[f"{step.sql.split()[0]} {answer.error}"] += 1
        return answer

    def _something(self) -> None:
        choice = self.rng.random()
        if choice < 0.01:
            self._setting()
        elif choice < 0.50:
            self._write()
        elif choice < 0.72:
            self._do(dml.select(self.rng, self.definitions.tables))
        elif choice < 0.76:
            self._all(dml.by_every_index(self.rng, self._table()))
        elif choice < 0.785:
            self._handler()
        elif choice < 0.87:
            self._change(self.definitions.any_change())
        elif choice < 0.88:
            self._beside()
        elif choice < 0.965:
            self._transaction_control()
        elif choice < 0.975:
            self._do(Step("", action="verify"))
        elif choice < 0.979:
            self._exchange_partition()
        elif choice < 0.985:
            self._xa()
        elif choice < 0.990:
            self._duel()
        elif choice < 0.996:
            self._kill_during()
        else:
            self._leave(Step("", action=self.rng.choice(("restart", "kill"))))

    def _table(self) -> Table:
        return self.rng.choice(self.definitions.tables)

    def _all(self, steps: list[Step]) -> None:
        for step in steps:
            self._do(step)

    def _handler(self) -> None:
        """Runs HANDLER reads, until one finds no row: after that the position is undefined."""
        steps = dml.handler_reads(self.rng, self._table())
        for step in steps[:-1]:
            answer = self._do(step)
            if answer.error or (answer.names and not answer.rows and "(" in step.sql):
                break
        self._do(steps[-1])

    def _write(self) -> int:
        """Runs a random write. Returns the number of rows changed."""
        table, other = self._table(), self._table()
        choice = self.rng.random()
        step: Step | None
        if choice < 0.5:
            automatic = bool(table.auto_column()) and not self.in_transaction and not table.temporary
            automatic = automatic and self.rng.random() < 0.5
            if automatic:
                automatic = not self._do(Step(table.name, action="counters")).error
            step = dml.insert(self.rng, table, automatic)
        elif choice < 0.75:
            step = dml.update(self.rng, table, other)
        elif choice < 0.85:
            step = dml.delete(self.rng, table, other)
        elif choice < 0.92:
            step = dml.insert_select(self.rng, table, other)
        elif choice < 0.93:
            step = dml.insert_many(self.rng, table)
        else:
            step = dml.change_two(self.rng, table, other) if table is not other else None
        return max(0, self._do(step).affected) if step and not self._innodb_loses(step) else 0

    def _innodb_loses(self, step: Step) -> bool:
        """InnoDB loses a TEMPORARY table's row if a deletion and new insertion of the row are rolled back.

        This also happens outside of a transaction, if an UPDATE of keys or a REPLACE fails halfway.
        """
        tables = [t for t in self.definitions.tables if t.temporary and f" {t.name} " in f"{step.sql} "]
        keys = [
            name for t in tables for index in t.indexes if index.name == "PRIMARY" for name in index.columns
        ]
        deletes = any(word in step.sql for word in ("REPLACE", "DELETE", *(f"{name} = " for name in keys)))
        may_fail_halfway = "UPDATE" in step.sql or "REPLACE" in step.sql
        return bool(tables) and (self.in_transaction or may_fail_halfway) and deletes

    def _change(self, change: Change | None) -> None:
        if change is None:
            return
        sql, done = change
        keeps = "TEMPORARY" in sql or sql.startswith(("SELECT", "INSERT"))
        self.in_transaction = self.in_transaction and keeps
        if not self._do(Step(sql)).error:
            done()

    def _beside(self) -> None:
        """A step with sequences, triggers, files or system-versioned history."""
        choice = self.rng.random()
        versioned = [table for table in self.definitions.tables if table.versioned]
        if versioned and choice < 0.4:
            self._do(dml.history(self.rng, self.rng.choice(versioned)))
        elif choice < 0.6:
            self._change(self.objects.sequence())
        elif choice < 0.8:
            self._change(self.objects.trigger(self._table()))
        else:
            steps = self.objects.through_a_file(self._table(), self._table())
            self._all([step for step in steps if not self._innodb_loses(step)])

    def _setting(self) -> None:
        """Changes the session's access methods, strictness or isolation level."""
        step = Step(self.rng.choice(SETTINGS))
        if "ISOLATION" not in step.sql or not self.in_transaction:
            self._do(step)

    # ---- transactions ---------------------------------------------------------------------------------

    def _transaction_control(self) -> None:
        if not self.in_transaction:
            self._do(Step("START TRANSACTION" + self.rng.choice(("", " WITH CONSISTENT SNAPSHOT"))))
            self.in_transaction = True
            return
        choice = self.rng.random()
        if choice < 0.35:
            self._do(Step(f"SAVEPOINT s{self.rng.randrange(3)}"))
        elif choice < 0.65:
            self._do(Step(f"ROLLBACK TO SAVEPOINT s{self.rng.randrange(3)}"))
        else:
            self._end_transaction()

    def _end_transaction(self) -> None:
        self._do(Step(self.rng.choice(("COMMIT", "COMMIT", "ROLLBACK"))))
        self.in_transaction = False

    def _xa(self) -> None:
        """An XA transaction. Between PREPARE and its end there may be a restart or a kill."""
        self._end_transaction()
        xid = "'x{E}'"
        self._do(Step(f"XA START {xid}"))
        self.in_transaction = True
        changed = sum(self._write() for _ in range(self.rng.randrange(1, 6)))
        self.in_transaction = False
        self._do(Step(f"XA END {xid}"))
        end = self.rng.choice(("COMMIT", "COMMIT", "ROLLBACK"))
        if self.rng.random() < 0.3:
            self._do(Step(f"XA {end} {xid}" + (" ONE PHASE" if end == "COMMIT" else "")))
            return
        self._do(Step(f"XA PREPARE {xid}"))
        # A prepared transaction without durable changes may be unknown after a restart.
        temporary = any(table.temporary for table in self.definitions.tables)
        if changed and not temporary and self.rng.random() < 0.6:
            self._do(Step("", action=self.rng.choice(("restart", "kill"))))
        self._do(Step(f"XA {end} {xid}"))
        self._do(Step("", action="verify"))

    def _exchange_partition(self) -> None:
        """Exchanges a partition with a table that has the same columns."""
        tables = [t for t in self.definitions.tables if t.partitioning and not t.partitioning.sub]
        tables = [t for t in tables if not t.temporary and not t.changed_engine]
        if not tables or len(self.definitions.tables) > 5:
            return
        self._end_transaction()
        table = self.rng.choice(tables)
        change = self.definitions.like(table)
        if change is None or self._do(Step(change[0])).error:
            return
        change[1]()
        made = self.definitions.tables[-1]
        if self._do(Step(f"ALTER TABLE {made.name} REMOVE PARTITIONING")).error:
            return
        made.partitioning = None
        for _ in range(self.rng.randrange(3)):
            self._do(dml.insert(self.rng, made))
        partition = self.rng.choice(table.partitions())
        self._do(Step(f"ALTER TABLE {table.name} EXCHANGE PARTITION {partition} WITH TABLE {made.name}"))
        self._do(Step("", action="verify"))

    def _leave(self, step: Step) -> None:
        """Runs a restart or kill. The open transaction and the temporary tables are lost."""
        self._do(step)
        self.in_transaction = False
        self.definitions.tables = [table for table in self.definitions.tables if not table.temporary]
        self._do(Step("", action="verify"))

    def _kill_during(self) -> None:
        self._end_transaction()
        self.definitions.tables = [table for table in self.definitions.tables if not table.temporary]
        self._do(Step("FLUSH TABLES"))
        self._do(Step("", action="kill"))
        if not self.definitions.tables:
            return
        change = self.definitions.any_change() if self.rng.random() < 0.7 else None
        if change is None:
            step = dml.update(self.rng, self._table(), self._table())
            change = (step.sql, lambda: None) if step else None
        skipped = ("CREATE TEMP", "DROP TEMP", "ANALYZE", "CHECK", "OPTIMIZE")
        if change is None or change[0].startswith(skipped) or self._truncates_in_pieces(change[0]):
            return
        if self._innodb_would_be_killed(change[0]):
            return
        delay_s = self.rng.choice((0.0, 0.001, 0.003, 0.01, 0.03))
        if not self._do(Step(f"{delay_s} {change[0]}", action="kill during")).error:
            change[1]()

    def _innodb_would_be_killed(self, sql: str) -> bool:
        """A kill in RENAME or ALTER may destroy InnoDB's partitioned tables (make ddl-walk ENGINE=InnoDB)."""
        tables = [t for t in self.definitions.tables if t.partitioning and t.changed_engine]
        return any(f" {table.name} " in f"{sql} " for table in tables)

    def _truncates_in_pieces(self, sql: str) -> bool:
        """The server truncates several (sub)partitions one after the other, with any engine."""
        named = [t.partitioning for t in self.definitions.tables if f" {t.name} " in f"{sql} "]
        return any(p and ("TRUNCATE TABLE" in sql or ("TRUNCATE" in sql and p.sub)) for p in named)

    def _duel(self) -> None:
        """Two sessions in turns. READ COMMITTED: both write single rows. REPEATABLE READ: one of them only
        reads."""
        tables = [t for t in self.definitions.tables if t.has_one_way_to_a_row()]
        tables = [t for t in tables if not t.temporary and not t.changed_engine]
        if not tables:
            return
        self._end_transaction()
        table = self.rng.choice(tables)
        level = self.rng.choice(("READ COMMITTED", "REPEATABLE READ"))
        for session in ("one", "two"):
            self._do(Step(f"SET SESSION TRANSACTION ISOLATION LEVEL {level}", session))
            self._do(
                Step("START TRANSACTION WITH CONSISTENT SNAPSHOT" if level[2] == "P" else "BEGIN", session)
            )
        for _ in range(self.rng.randrange(4, 14)):
            session = self.rng.choice(("one", "two"))
            reads = (level[2] == "P" and session == "two") or self.rng.random() < 0.4
            self._do(dml.duel_step(self.rng, table, session, reads))
        for session in ("one", "two"):
            self._do(Step(self.rng.choice(("COMMIT", "ROLLBACK")), session))
            self._do(Step("SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ", session))


# ---- rounds, smaller scripts ------------------------------------------------------------------------------


def new_server() -> Server:
    options: dict[str, object] = {"innodb-flush-log-at-trx-commit": 1, "innodb-strict-mode": "OFF",
                                  "character-set-server": "utf8mb4", "event-scheduler": "OFF"}  # fmt: skip
    return Server(scratch_directory("random") / "s", options)


def running(server: Server) -> Server:
    """Returns the server if it runs; otherwise destroys it and returns a new one."""
    if server.running():
        return server
    server.destroy()
    return new_server().start()


def replay(pair: Pair, script: list[Step]) -> tuple[int, Difference] | None:
    """Runs a script in empty databases. Returns the number of the step that differs, and how; or None."""
    for number, step in enumerate([Step("", action="reset"), *script]):
        try:
            pair.run(step)
        except Difference as difference:
            return number, difference
        except Stop as stop:
            pair.log(f"stopped at an allowed difference: {stop}: {stop.detail}")
            return None
    return None


class Shrinker:
    """Shortens a failing script: removes steps while the same kind of difference remains."""

    def __init__(self, kind: str, seconds: float):
        self._kind = kind
        self._deadline = time.monotonic() + seconds
        self._server = new_server().start()

    def shrink(self, script: list[Step]) -> list[Step]:
        try:
            size = len(script) // 2
            while size >= 1 and time.monotonic() < self._deadline:
                script = self._without(script, size)
                size = size // 2 if size > 1 else 0
            return script
        finally:
            self._server.destroy()

    def _without(self, script: list[Step], size: int) -> list[Step]:
        start = len(script) - 1 - size
        while start >= 0 and time.monotonic() < self._deadline:
            candidate = script[:start] + script[start + size :]
            if self._fails(candidate):
                script = candidate
            start -= size
        return script

    def _fails(self, script: list[Step]) -> bool:
        if not self._server.running():
            self._server.destroy()
            self._server = new_server().start()
        pair = Pair(self._server)
        found = replay(pair, script)
        pair.close()
        if found is not None and found[1].kind == "lost":  # the server may not have ended yet
            self._server.destroy()
            self._server = new_server().start()
        return found is not None and found[1].kind == self._kind


def save(failure: Failure) -> None:
    RESULTS.mkdir(parents=True, exist_ok=True)
    name = f"{failure.seed.replace(' ', '-')}-{failure.kind.replace(' ', '-')}"
    failure.path = RESULTS / f"{name}.json"
    steps = ",\n".join(json.dumps(step.as_list(), ensure_ascii=False) for step in failure.script)
    failure.path.write_text(f"[\n{steps}\n]\n")
    (RESULTS / f"{name}.txt").write_text(str(failure) + "\n", errors="backslashreplace")


def run_rounds(
    seed: int, minutes: float, shrink_seconds: float = 60, only_round: int | None = None
) -> Result:
    """Runs rounds for `minutes`. The script of each failure is shortened, saved and printed."""
    result = Result()
    deadline = time.monotonic() + minutes * 60
    server = new_server().start()
    number = only_round or 0
    while time.monotonic() < deadline:
        current = Round(Pair(server), f"{seed}-{number}")
        try:
            current.run()
        except Stop as stop:
            result.stopped[str(stop)] += 1
            print(f"seed {current.seed} ended by an allowed difference: {stop}: {stop.detail}", flush=True)
            server = running(server)
        except Difference as difference:
            failure = Failure(
                current.seed, len(current.script), difference.kind, str(difference), current.script
            )
            known = any(other.kind == failure.kind for other in result.failures)
            if shrink_seconds and not known:
                failure.script = Shrinker(difference.kind, shrink_seconds).shrink(current.script)
            save(failure)
            result.failures.append(failure)
            print(failure, flush=True)
            server.destroy()
            server = new_server().start()
        finally:
            current.pair.close()
        result.rounds += 1
        result.steps += len(current.script)
        result.errors += current.errors
        number += 1
        if only_round is not None:
            break
    try:
        server.stop()
    except ServerFailed as error:
        result.failures.append(Failure(str(seed), 0, "shutdown", str(error), []))
    server.destroy()
    return result


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--round", type=int, default=None, help="only this round of the seed")
    parser.add_argument(
        "--shrink", type=float, default=60, help="seconds to spend on making a failure smaller"
    )
    parser.add_argument("--replay", type=Path)
    parser.add_argument("--smaller", type=float, default=0, help="seconds to make a replayed script smaller")
    arguments = parser.parse_args()
    exit_cleanly_on_signals()
    sys.stdout.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
    if arguments.replay:
        script = [Step.from_list(values) for values in json.loads(arguments.replay.read_text())]
        found = replay(Pair(new_server().start(), print), script)
        print(f"step {found[0]}, {found[1].kind}: {found[1]}" if found else "no difference")
        if found and arguments.smaller:
            smaller = Shrinker(found[1].kind, arguments.smaller).shrink(script[: found[0]])
            save(Failure(arguments.replay.stem, found[0], found[1].kind, str(found[1]), smaller))
        return 1 if found else 0
    seed = arguments.seed if arguments.seed is not None else random.randrange(1 << 30)
    print(f"seed {seed}, {arguments.minutes} minutes", flush=True)
    result = run_rounds(seed, arguments.minutes, arguments.shrink, arguments.round)
    print(f"{result.rounds} rounds, {result.steps} steps, {len(result.failures)} failures")
    print(f"statement errors on both: {dict(result.errors.most_common(20))}")
    print(f"rounds ended by an allowed difference: {dict(result.stopped)}")
    return 1 if result.failures else 0


if __name__ == "__main__":
    sys.exit(main())
