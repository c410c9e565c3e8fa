"""Kills the server at each system call of a statement in turn, so that every state is tested that a kill -9
can leave on disk.

    make ddl-walk                         all calls of all statements on ATOLL
    make ddl-walk ENGINE=InnoDB EVERY=5   every fifth call, on InnoDB
    make ddl-walk AGAIN=7                 with a second kill at a random call of the start that follows; 7: the seed
    make ddl-walk LOST=1                  with the data directory lost after the last kill; with AGAIN=7, too

A kill at a random time hits a window of a few microseconds only once in hundreds of attempts. Here strace is
attached to the thread that runs the statement, and kills the server when that thread enters a system call
that changes files. The kills at random times (tests/crash/test_ddl_kill.py) cover the other threads. Recovery
runs in the server's main thread, so that one is traced for the second kill.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import random
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import pymysql

from harness import paths
from harness.crash_walk.statements import Walk, walks
from harness.process import exit_cleanly_on_signals, scratch_directory, wait_until
from harness.server import Server, ServerFailed

# The system calls that change a file or make a change durable. strace counts each kind separately.
CALLS = (
    "write", "pwrite64", "writev", "pwritev", "fsync", "fdatasync", "ftruncate", "fallocate",
    "rename", "renameat", "link", "symlink", "unlink", "unlinkat", "mkdir", "rmdir",
)  # fmt: skip
DATABASES = ("d", "e")
# Statements that need the server's DDL log, which is on its disk, when a crash interrupts them (docs/limitations.md).
NEEDS_DISK = re.compile(r"partition: |partitioned: create$")
# Statements of several steps, of which the bucket may have only the first ones.
IN_STEPS = re.compile(r".*rename crosswise$")
ATTACH_TIMEOUT_S = 20
STATEMENT_TIMEOUT_S = 60
DEATH_TIMEOUT_S = 10


@dataclass
class State:
    """The content of the databases as SQL shows it."""

    tables: dict[str, tuple] = field(default_factory=dict)
    in_engine: frozenset = frozenset()

    def from_bucket(self) -> State:
        """What an empty data directory shows of this state: other engines' tables and triggers are left out.
        The background thread notes triggers in the bucket, at a time of its own."""
        kept = {f"{database}.{name}" for database, name in self.in_engine}
        return State({name: table for name, table in self.tables.items() if name in kept}, self.in_engine)

    def differences(self, other: State) -> str:
        """Lists what only this state has, what only `other` has, and what differs."""
        said = [f"extra {name}" for name in sorted(self.tables.keys() - other.tables.keys())]
        said += [f"missing {name}" for name in sorted(other.tables.keys() - self.tables.keys())]
        said += [f"other {name}" for name in sorted(self.tables.keys() & other.tables.keys())
                 if self.tables[name] != other.tables[name]]  # fmt: skip
        said += [f"extra in the engine {name}" for name in sorted(self.in_engine - other.in_engine)]
        said += [f"missing in the engine {name}" for name in sorted(other.in_engine - self.in_engine)]
        return ", ".join(said)


def can_trace() -> bool:
    """Whether strace is allowed to trace processes on this machine."""
    with contextlib.suppress(OSError, subprocess.SubprocessError, paths.Missing):
        command = [str(paths.program("strace")), "-qq", "-o", "/dev/null", "true"]
        return subprocess.run(command, capture_output=True, timeout=10, check=False).returncode == 0
    return False


def trace(server: Server, *options: str) -> list[str]:
    """The strace command that writes the calls of one thread to the file `calls` in the server's home."""
    calls = ",".join(CALLS)
    output = server.home / "calls"
    return [str(paths.program("strace")), "-qq", "-o", str(output), "-e", f"trace={calls}", *options]


def kill_at(call: str, number: int) -> tuple[str, str]:
    """The strace options that kill the process when the traced thread enters its `number`-th such call."""
    return ("-e", f"inject={call}:signal=KILL:when={number}")


class Tracer:
    """A strace that is attached to one thread of the server."""

    def __init__(self, server: Server, thread: int, *options: str):
        self._child = subprocess.Popen(
            [*trace(server, *options), "-p", str(thread)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        wait_until(lambda: self._has_attached(thread), ATTACH_TIMEOUT_S, "strace to attach")

    @staticmethod
    def _has_attached(thread: int) -> bool:
        lines = Path(f"/proc/{thread}/status").read_text().splitlines()
        return any(line.startswith("TracerPid:") and line.split()[1] != "0" for line in lines)

    def stop(self) -> None:
        self._child.terminate()
        self._child.wait()


@contextlib.contextmanager
def traced(server: Server, *options: str) -> Iterator:
    """Yields a cursor of a connection whose server thread is traced."""
    connection = server.connect(DATABASES[0], timeout_s=STATEMENT_TIMEOUT_S)
    cursor = connection.cursor()
    cursor.execute("SELECT tid FROM information_schema.processlist WHERE id = CONNECTION_ID()")
    row = cursor.fetchone()
    assert row is not None
    tracer = Tracer(server, int(row[0]), *options)
    try:
        yield cursor
    finally:
        tracer.stop()
        with contextlib.suppress(pymysql.Error):
            connection.close()


def run_killed(server: Server, statement: str, call: str, number: int) -> bool:
    """Runs the statement and kills the server when it enters its `number`-th such call. Returns False if the
    statement ended before that."""
    with traced(server, *kill_at(call, number)) as cursor:
        try:
            cursor.execute(statement)
            return False
        except pymysql.OperationalError:
            # The connection breaks shortly before the process has ended.
            wait_until(lambda: not server.running(), DEATH_TIMEOUT_S, "the server to die")
    server.kill()  # forgets the process
    return True


def calls_of(server: Server, statement: str) -> list[tuple[str, int]]:
    """Runs the statement. Returns all its calls, each as kind and number."""
    with traced(server) as cursor:
        cursor.execute(statement)
    return [(call, number) for call, count in _counted(server).items() for number in range(1, count + 1)]


def _counted(server: Server) -> dict[str, int]:
    lines = (server.home / "calls").read_text(errors="replace").splitlines()
    counts = Counter(line.partition("(")[0] for line in lines)
    return {call: counts[call] for call in CALLS if counts[call]}


def start_traced(server: Server, *options: str) -> bool:
    """Starts the server with its main thread traced. Returns whether the start succeeded."""
    server.run_by = (*trace(server, *options), "-D")
    try:
        server.start()
        return True
    except ServerFailed:
        return False
    finally:
        server.run_by = ()


class SecondKill:
    """Kills the server once more, at a random call of the start after the first kill."""

    def __init__(self, seed: int):
        self._rng = random.Random(seed)
        self._calls: dict[str, int] = {}  # counted in an earlier start after the same statement

    def forget(self) -> None:
        self._calls = {}

    def strike(self, server: Server) -> str:
        """Starts the server and kills it. Returns at which call, as text. The first time after forget() it
        only counts the calls."""
        if not self._calls:
            start_traced(server)
            self._calls = _counted(server)
            server.kill()
            return ""
        call = self._rng.choice(list(self._calls))  # the kind first: writes are many, renames few
        number = self._rng.randint(1, self._calls[call])
        start_traced(server, *kill_at(call, number))
        server.kill()  # if the start had fewer calls this time, the server still runs
        return f", then {call} {number} of the start"


def read_state(server: Server) -> State:
    """Reads the content of the databases. Errors: pymysql.Error when a table cannot be read, AssertionError
    when its rows and indexes do not agree."""
    state = State()
    for database in (name for (name,) in server.run("SHOW DATABASES") if name in DATABASES):
        for (name,) in server.run(f"SHOW TABLES FROM {database}"):
            table = f"{database}.`{name}`"
            rows = tuple(sorted(map(repr, server.run(f"SELECT * FROM {table}"))))
            definition = server.run(f"SHOW CREATE TABLE {table}")[0][1]
            state.tables[f"{database}.{name}"] = (definition, rows)
            if "SEQUENCE=1" not in definition:
                verdict = server.run(f"CHECK TABLE {table} EXTENDED")
                assert verdict[-1][-1] == "OK", f"CHECK TABLE {table}: {verdict}"
        for trigger, event, table, statement, *_ in server.run(f"SHOW TRIGGERS FROM {database}"):
            state.tables[f"trigger {database}.{trigger}"] = (event, table, statement)
    state.in_engine = frozenset(_tables_in_engine(server))
    return state


def _tables_in_engine(server: Server) -> list[tuple]:
    return server.run("SELECT table_schema, table_name FROM information_schema.atoll_tables")


def _leftovers(server: Server) -> list[str]:
    """Files with internal names (#sql). Those of InnoDB are left out, because the server may leave them after
    an ALTER from InnoDB."""
    files = [path for database in DATABASES for path in (server.data / database).glob("#sql*")]
    return [str(path.relative_to(server.data)) for path in files if not _is_innodbs(path)]


def _is_innodbs(path: Path) -> bool:
    # A .par file has three words, then the engines of its partitions.
    return path.suffix == ".ibd" or (path.suffix == ".par" and path.read_bytes()[12:13] == b"\x0c")


def _clear(server: Server) -> None:
    # The tables of one database may refer to those of the other.
    server.run("SET foreign_key_checks = 0", *(f"DROP DATABASE IF EXISTS {name}" for name in DATABASES))
    left = _tables_in_engine(server)
    assert not left, f"left in the engine after DROP DATABASE: {left}"


@dataclass
class Result:
    calls: int = 0
    wrong: list[str] = field(default_factory=list)


class Walker:
    """Takes one walk after the other on a server. After a failure it continues on a new server.

    `loses_disk`: the server has lost its data directory when it starts after the last kill.
    """

    def __init__(self, engine: str, second: SecondKill | None, loses_disk: bool):
        self._engine = engine
        self._second = second
        self._loses_disk = loses_disk
        self._server = self._new_server()

    def close(self) -> None:
        self._server.destroy()

    def take(self, walk: Walk, every: int, first: int) -> Result:
        """Runs the statement of `walk` and kills the server at each `every`-th call, beginning with `first`
        (from 0)."""
        result = Result()
        self._prepare(walk)
        before = read_state(self._server)
        calls = calls_of(self._server, walk.statement)
        after = read_state(self._server)
        if self._second:
            self._second.forget()
        for call, number in calls[first::every]:
            self._prepare(walk)
            if not run_killed(self._server, walk.statement, call, number):
                continue
            result.calls += 1
            then = self._second.strike(self._server) if self._second else ""
            look = self._look_in_bucket if self._loses_disk else self._look
            if message := look(walk, before, after):
                result.wrong.append(f"{walk.name}, {call} {number}{then}: {message}")
                self._server.destroy()
                self._server = self._new_server()
        return result

    def _new_server(self) -> Server:
        home = scratch_directory("walk")
        if not self._loses_disk:
            return Server(home / "s").start()
        options: dict[str, object] = {"atoll_url": f"file://{home}/bucket", "atoll_durability": "sync"}
        return Server(home / "s", options).start()

    def _prepare(self, walk: Walk) -> None:
        _clear(self._server)
        self._server.run(*(f"CREATE DATABASE {database}" for database in DATABASES))
        self._server.run(*walk.setup, database=DATABASES[0])

    def _look(self, walk: Walk, before: State, after: State) -> str:
        """Restarts the server. Returns a text that says what is wrong, or ""."""
        try:
            self._server.start()
            found = read_state(self._server)
            if found not in (before, after) and not walk.in_pieces:
                return (
                    f"against before: {found.differences(before)}; against after: {found.differences(after)}"
                )
            if left := _leftovers(self._server):
                return f"files left: {left}"
            return self._discover(found) if self._engine == "ATOLL" else ""
        except Exception as error:  # any error is a result of the kill at this call
            return f"{type(error).__name__}: {error}"

    def _look_in_bucket(self, walk: Walk, before: State, after: State) -> str:
        """Starts the server with an empty data directory. Returns a text that says what is wrong, or ""."""
        try:
            self._server.wipe()
            self._server.start(atoll_take_over="ON")
            found = read_state(self._server).from_bucket()
            states = (before.from_bucket(), after.from_bucket())
            _clear(self._server)
            if found in states or walk.in_pieces or IN_STEPS.match(walk.name):
                return ""
            against = [found.differences(state) for state in states]
            return f"against before: {against[0]}; against after: {against[1]}"
        except Exception as error:  # any error is a result of the kill at this call
            return f"{type(error).__name__}: {error}"

    def _discover(self, expected: State) -> str:
        """Removes the tables' .frm and .par files, so that the server discovers the tables from the catalog.
        They must be the same as before."""
        self._server.stop()
        for database, name in expected.in_engine:
            for extension in (".frm", ".par"):
                (self._server.data / database / f"{name}{extension}").unlink(missing_ok=True)
        self._server.start()
        found = read_state(self._server)
        _clear(self._server)
        return "" if found == expected else f"discovered otherwise: {found.differences(expected)}"


def take_walks(
    engine: str,
    every: int,
    seed: int,
    only: str = "",
    second: SecondKill | None = None,
    loses_disk: bool = False,
) -> Iterator[tuple[Walk, Result]]:
    """Takes all walks whose names match `only`, and yields each with its result. Each walk begins at a random
    one of its first `every` calls."""
    rng = random.Random(seed)
    walker = Walker(engine, second, loses_disk)
    try:
        for walk in walks(engine):
            first = rng.randrange(every)
            if re.search(only, walk.name) and not (loses_disk and NEEDS_DISK.match(walk.name)):
                yield walk, walker.take(walk, every, first)
    finally:
        walker.close()


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--engine", default="ATOLL")
    parser.add_argument("--every", type=int, default=1, help="kill at each so many calls")
    parser.add_argument("--only", default="", help="a regular expression for the names of the walks")
    parser.add_argument("--again", type=int, help="also kill at a random call of the start; the seed")
    parser.add_argument("--lost", action="store_true", help="the data directory is lost after the last kill")
    arguments = parser.parse_args()
    exit_cleanly_on_signals()
    total = Result()
    second = None if arguments.again is None else SecondKill(arguments.again)
    walked = take_walks(arguments.engine, arguments.every, 1, arguments.only, second, arguments.lost)
    for walk, result in walked:
        print(f"{walk.name}: {result.calls} calls, {len(result.wrong)} wrong", flush=True)
        for message in itertools.islice(result.wrong, 5):
            print(f"    {message}", flush=True)
        total.calls += result.calls
        total.wrong += result.wrong
    print(f"{arguments.engine}: {total.calls} calls, {len(total.wrong)} wrong")
    return 1 if total.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
