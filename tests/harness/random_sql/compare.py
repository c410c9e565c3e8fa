"""Runs the steps of a random script with InnoDB and ATOLL, and compares the answers.

One server has both: database `inno` has InnoDB's tables, database `atoll` ATOLL's. Every session is a pair of
connections. A difference that the list ALLOWED does not have is raised as Difference.
"""

from __future__ import annotations

import contextlib
import re
import shutil
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pymysql

from harness.random_sql.column_types import INTEGERS
from harness.random_sql.dml import Step
from harness.server import Server, ServerFailed

ENGINES = {"inno": "InnoDB", "atoll": "ATOLL"}
STATEMENT_TIMEOUT_S = 120
SESSION_SETTINGS = (
    "SET time_zone = '+00:00', lock_wait_timeout = 5, innodb_lock_wait_timeout = 1, atoll_lock_wait_timeout = 1, "
    "system_versioning_alter_history = KEEP, "
    "sql_mode = CONCAT(@@sql_mode, ',NO_AUTO_VALUE_ON_ZERO')"
)
HINTS = re.compile(r"(FORCE|IGNORE) INDEX \([^)]*\)")
HOW = re.compile(r", (ALGORITHM|LOCK)=\w+")
_REFUSED_SO = (1845, 1846)  # error numbers for "this algorithm or lock is not supported"
_LOST = (2006, 2013, 2003, 2002)


class Difference(Exception):
    """InnoDB and ATOLL gave different answers. A shortened script counts as showing the same difference if
    its `kind` is the same."""

    def __init__(self, kind: str, message: str):
        super().__init__(message)
        self.kind = kind


class Stop(Exception):
    """The engines differ for a reason in ALLOWED, or InnoDB's table is damaged. The round ends, without a
    failure."""

    def __init__(self, reason: str, detail: str = ""):
        super().__init__(reason)
        self.detail = detail


@dataclass(frozen=True)
class Allowed:
    """A difference that is no error. `errors` are the error numbers of InnoDB and ATOLL; 0 means success."""

    errors: tuple[int, int]
    statement: str  # regular expression
    reason: str


ALLOWED: tuple[Allowed, ...] = (
    Allowed((1118, 0), r"^(CREATE|ALTER)", "InnoDB limits a row to half a page"),
    Allowed(
        (1071, 0), r"^(CREATE|ALTER)", "InnoDB limits an index to 3072 bytes and its prefix to 767 or 3072"
    ),
    Allowed(
        (1235, 0),
        r"^UPDATE IGNORE",
        "InnoDB has no UPDATE IGNORE of a UNIQUE key of unlimited length under READ COMMITTED",
    ),
    Allowed((1713, 0), r"^ALTER", "InnoDB limits an undo record to a page"),
    Allowed(
        (1022, 1062),
        r"^(UPDATE|INSERT|REPLACE)",
        "of a row that changes its partition InnoDB may not name the key",
    ),
)


@dataclass
class Answer:
    error: int = 0
    message: str = ""
    rows: list[tuple] = field(default_factory=list)
    affected: int = 0
    warnings: int = 0
    names: tuple = ()

    def __str__(self) -> str:
        if self.error:
            return f"error {self.error}: {self.message}"
        if self.names:
            shown = "\n".join(f"    {row}" for row in self.rows[:12])
            return f"{len(self.rows)} rows, {self.warnings} warnings\n{shown}"
        return f"{self.affected} rows affected, {self.warnings} warnings"


class Pair:
    """The two databases, and the sessions that are open on them."""

    def __init__(self, server: Server, log: Callable[[str], None] = lambda _: None):
        self.server = server
        self.log = log
        self._connections: dict[tuple[str, str], pymysql.Connection] = {}
        self._clock = 1_700_000_000
        self._same: dict[str, list[str]] = {}

    def reset(self) -> None:
        """Empties both databases."""
        self.close()
        self._clock = 1_700_000_000
        for database in ENGINES:
            shutil.rmtree(self._files(database), ignore_errors=True)
            self._files(database).mkdir(parents=True)
            self._administer(
                f"DROP DATABASE IF EXISTS {database}", f"CREATE DATABASE {database} CHARACTER SET utf8mb4"
            )

    def _sync_sequences(self) -> None:
        """Commits an insert, which syncs InnoDB's redo log. A commit that only changed sequences does not: it
        has no undo log."""
        self._administer(
            "CREATE DATABASE IF NOT EXISTS aside",
            "CREATE TABLE IF NOT EXISTS aside.synced (a INT) ENGINE=InnoDB",
            "INSERT INTO aside.synced VALUES (1)",
        )

    def _administer(self, *statements: str) -> None:
        try:
            self.server.run(*statements)
        except pymysql.Error as error:
            raise Difference(
                "lost" if error.args[0] in _LOST else "databases", f"{statements}: {error}"
            ) from error

    def close(self) -> None:
        for connection in self._connections.values():
            with contextlib.suppress(pymysql.Error):
                connection.close()
        self._connections.clear()

    def _connection(self, session: str, database: str) -> pymysql.Connection:
        key = (session, database)
        if key not in self._connections:
            connection = pymysql.connect(
                unix_socket=str(self.server.socket), user="root", database=database, charset="utf8mb4",
                autocommit=True, conv={}, use_unicode=False, read_timeout=STATEMENT_TIMEOUT_S,
            )  # fmt: skip
            with connection.cursor() as cursor:
                cursor.execute(SESSION_SETTINGS)
            self._connections[key] = connection
        return self._connections[key]

    def ask(self, database: str, sql: str, session: str = "main") -> Answer:
        """Runs one statement with one of the engines. Errors: Difference when the server has died."""
        try:
            connection = self._connection(session, database)
            with connection.cursor() as cursor:
                cursor.execute(f"SET timestamp = {self._clock}")
                cursor.execute(self._rendered(sql, database))
                names = tuple(item[0] for item in cursor.description or ())
                rows = [tuple(map(_text, row)) for row in cursor.fetchall()] if names else []
                return Answer(0, "", rows, cursor.rowcount, cursor.warning_count, names)
        except pymysql.Error as error:
            number = error.args[0] if error.args and isinstance(error.args[0], int) else -1
            if number in _LOST or not self.server.running():
                raise Difference("lost", f"the server is gone ({error}) at {self._rendered(sql, database)}\n"
                                         f"{self.server.log_tail(6000)}") from error  # fmt: skip
            return Answer(number, str(error.args[1]))

    def _rendered(self, sql: str, database: str) -> str:
        """Replaces the placeholders in a statement by the engine's name, options and directory."""
        other = ENGINES["atoll" if database == "inno" else "inno"]
        options = " COMPRESSION=lz4" if database == "atoll" else ""
        values = {"{E}": ENGINES[database], "{X}": other, "{C}": options, "{F}": str(self._files(database))}
        for mark, value in values.items():
            sql = sql.replace(mark, value)
        return sql

    def _files(self, database: str) -> Path:
        return self.server.home / f"files-{database}"

    # ---- steps ----------------------------------------------------------------------------------------

    def run(self, step: Step) -> Answer:
        """Runs one step on both engines. Returns InnoDB's answer. Errors: Difference, Stop."""
        try:
            return self._run(step)
        except Difference as difference:
            if difference.kind.split()[0] in ("rows", "counts", "error"):
                self._stop_if_innodb_is_damaged(difference)
            if difference.kind == "rows SELECT" and step.sql:
                self._stop_if_innodb_contradicts_itself(step, difference)
            if difference.kind in ("counts INSERT", "counts REPLACE"):
                self._stop_if_innodb_reads_virtual_columns(step, difference)
            raise

    def _run(self, step: Step) -> Answer:
        self._clock += 1
        actions = {"restart": self._restart, "kill": self._kill, "verify": self.verify, "reset": self.reset}
        if step.action in actions:
            actions[step.action]()
            return Answer()
        if step.action == "kill during":
            return self._kill_during(step)
        if step.action == "counters":
            return self._align_counters(step.sql)
        answers = {database: self._ask_any_how(database, step.sql, step.session) for database in ENGINES}
        self.log(f"{step.session}: {step.sql}\n  -> {answers['atoll']}")
        self._compare(step, answers["inno"], answers["atoll"])
        if step.action == "same":
            for database, answer in answers.items():
                self._compare_paths(step, database, answer)
        else:
            self._same.clear()
        return answers["inno"]

    def _ask_any_how(self, database: str, sql: str, session: str = "main") -> Answer:
        """Runs a statement; if the engine does not support its ALGORITHM or LOCK, runs it again without
        them."""
        answer = self.ask(database, sql, session)
        return self.ask(database, HOW.sub("", sql), session) if answer.error in _REFUSED_SO else answer

    def _compare(self, step: Step, inno: Answer, atoll: Answer) -> None:
        if inno.error != atoll.error:
            self._excuse(step, inno, atoll)
        if inno.error:
            return
        verb = step.sql.split()[0]
        if verb in ("OPTIMIZE", "ANALYZE", "CHECK") or (verb == "ALTER" and atoll.names):
            return self.healthy(step, inno, atoll)
        if _shape(inno, step.ordered) != _shape(atoll, step.ordered):
            raise Difference(f"rows {verb}", f"{step.sql}\n{_disagreement(inno, atoll, step.ordered)}")
        # Not compared for ALTER, which counts the copied rows: none when it works in place.
        counted = verb in ("INSERT", "UPDATE", "DELETE", "REPLACE", "LOAD")
        if counted and (inno.affected, inno.warnings) != (atoll.affected, atoll.warnings):
            raise Difference(f"counts {verb}", f"{step.sql}\n  InnoDB {inno}\n  ATOLL {atoll}")

    def _excuse(self, step: Step, inno: Answer, atoll: Answer) -> None:
        for allowed in ALLOWED:
            if allowed.errors == (inno.error, atoll.error) and re.search(allowed.statement, step.sql):
                if not all(allowed.errors):
                    raise Stop(allowed.reason, step.sql)
                return
        raise Difference(f"error {inno.error} {atoll.error}", f"{step.sql}\n  InnoDB {inno}\n  ATOLL {atoll}")

    def _compare_paths(self, step: Step, database: str, answer: Answer) -> None:
        """Checks that the same query by different indexes returns the same rows."""
        question = HINTS.sub("", step.sql)
        found = sorted(map(repr, answer.rows))
        first = self._same.setdefault(f"{database}: {question}", found)
        if first != found:
            engine = self._engine(database, step.sql.partition(" FROM ")[2].split()[0])
            message = f"{engine}: {step.sql}\nby another index:\n  {first}\nby this:\n  {found}"
            if engine == "InnoDB":
                raise Stop("InnoDB's indexes disagree", message)
            raise Difference("paths", message)

    # ---- health: which engine a complaint is about ------------------------------------------------------

    def _engine(self, database: str, table: str) -> str:
        """Returns the present engine of a table. ALTER may have changed it, except for temporary tables."""
        query = f"SELECT engine FROM information_schema.tables WHERE table_schema = '{database}' AND table_name = "
        rows = self.ask(database, query + f"'{table}'", "checker").rows
        return rows[0][0] if rows else ENGINES[database]

    def healthy(self, step: Step, inno: Answer, atoll: Answer) -> None:
        """Checks answers of CHECK TABLE and its like. Complaints that both engines make in the same words are
        ignored. Errors: Difference for one about ATOLL's table, Stop for one about InnoDB's."""
        table = step.sql.split()[2]
        rows = {self._engine("inno", table): inno.rows, self._engine("atoll", table): atoll.rows}
        if _complaints(step.sql, rows["ATOLL"], rows["InnoDB"]):
            raise Difference("health", f"{step.sql}\n  InnoDB {inno}\n  ATOLL {atoll}")
        if found := _complaints(step.sql, rows["InnoDB"], rows["ATOLL"]):
            raise Stop("InnoDB's table fails its CHECK", f"{step.sql}: {found[0]}")

    def _check(self, table: str) -> None:
        """Runs CHECK TABLE EXTENDED with both engines. Errors: as for healthy()."""
        step = Step(f"CHECK TABLE {table} EXTENDED")
        self.healthy(step, *(self.ask(database, step.sql, "checker") for database in ENGINES))

    def _stop_if_innodb_is_damaged(self, difference: Difference) -> None:
        """Raises Stop if one of InnoDB's tables is damaged: its answers cannot be compared. ATOLL's must be
        healthy even then."""
        try:
            for table in self._tables("inno"):
                self._check(table)
        except Stop as stop:
            stop.detail += f"; seen by {difference.kind}: {difference}"
            raise stop from difference

    def _stop_if_innodb_contradicts_itself(self, step: Step, difference: Difference) -> None:
        """Raises Stop if InnoDB's answer is wrong: with indexes on virtual columns, its MRR, batched joins
        and sorts lose or repeat rows, and an index keeps a former value that is equal to the new one by the
        collation.

        To find out, the query runs on copies of InnoDB's rows without indexes. If these give ATOLL's answer,
        InnoDB is wrong.
        """
        atoll = self.ask("atoll", step.sql, step.session)
        self._administer("CREATE DATABASE IF NOT EXISTS aside")
        for table in set(re.findall(r"\bt\d*\b", step.sql)):
            copy = f"CREATE TEMPORARY TABLE aside.{table} ENGINE=Aria AS SELECT * FROM {table}"
            keys = re.findall(r"\bKEY `(\w+)`", self.definition("inno", table, step.session))
            self.ask("inno", copy + (f" IGNORE INDEX ({', '.join(keys)})" if keys else ""), step.session)
        self.ask("inno", "USE aside", step.session)
        copies = self.ask("inno", HINTS.sub("", step.sql), step.session)
        if not copies.error and _shape(copies, step.ordered) == _shape(atoll, step.ordered):
            raise Stop("InnoDB contradicts itself", str(difference)) from difference

    def _stop_if_innodb_reads_virtual_columns(self, step: Step, difference: Difference) -> None:
        """Raises Stop for a known bug: InnoDB's INSERT ... SELECT may read NULL from an indexed virtual
        column."""
        source = re.search(r" SELECT .* FROM (t\d+)\b", step.sql)
        if source and " VIRTUAL" in self.definition("inno", source[1], step.session):
            raise Stop("InnoDB's INSERT ... SELECT of a virtual column", str(difference)) from difference

    # ---- the whole content ----------------------------------------------------------------------------

    def verify(self) -> None:
        """Compares all tables and definitions. Also checks that all tables pass CHECK TABLE, and that the
        text of SHOW CREATE TABLE makes ATOLL's tables again."""
        tables = {database: self._tables(database) for database in ENGINES}
        if tables["inno"] != tables["atoll"]:
            raise Difference("tables", f"InnoDB has {tables['inno']}, ATOLL {tables['atoll']}")
        for table in tables["inno"]:
            self._verify_table(table)

    def _tables(self, database: str) -> list[str]:
        return sorted(
            row[0] for row in self.ask(database, f"SHOW FULL TABLES FROM {database}", "checker").rows
        )

    def definition(self, database: str, table: str, session: str = "checker") -> str:
        answer = self.ask(database, f"SHOW CREATE TABLE {table}", session)
        if (
            answer.error and "storage engine InnoDB" in answer.message
        ):  # after EXCHANGE PARTITION of tables whose keys differ in order
            raise Stop("InnoDB cannot open its table", f"{table}: {answer}")
        if answer.error:
            raise Difference("definition", f"SHOW CREATE TABLE {table} in {database}: {answer}")
        return _without_engine(answer.rows[0][1])

    def _verify_table(self, table: str) -> None:
        inno, atoll = (self.definition(database, table) for database in ENGINES)
        if inno != atoll:
            raise Difference("definition", f"{table}\n  InnoDB {inno}\n  ATOLL {atoll}")
        if len({self._engine(database, table) for database in ENGINES}) < 2:  # killed in ALTER TABLE … ENGINE
            raise Difference("engines", f"{table} stands on one engine in both databases")
        past = ", ROW_START, ROW_END" if "SYSTEM VERSIONING" in inno else ""
        rows = Step(f"SELECT *{past} FROM {table}{' FOR SYSTEM_TIME ALL' if past else ''}")
        self._compare(rows, *(self.ask(database, rows.sql, "checker") for database in ENGINES))
        self._check(table)
        self._round_trip(table)

    def _round_trip(self, table: str) -> None:
        text = self.ask("atoll", f"SHOW CREATE TABLE {table}", "checker").rows[0][1]
        if "ENGINE=ATOLL" not in text:  # its engine is InnoDB for a while
            return
        again = self._made_again("atoll", table, text)
        if again == text:
            return
        # CREATE puts unique keys without NULL columns first. If ALTER has made a key's column nullable, the
        # key keeps its place, so the order of keys may differ.
        moved = sorted(line.rstrip(",") for line in text.split("\n")) == sorted(
            line.rstrip(",") for line in again.split("\n")
        )
        inno = self.ask("inno", f"SHOW CREATE TABLE {table}", "checker").rows[0][1]
        if not moved or _without_engine(again) != _without_engine(self._made_again("inno", table, inno)):
            raise Difference("round trip", f"first\n  {text}\nsecond\n  {again}")

    def _made_again(self, database: str, table: str, text: str) -> str:
        """Creates a table by `text`, a SHOW CREATE TABLE, and returns SHOW CREATE TABLE of the new table."""
        made = self.ask(database, text.replace(f"`{table}`", "`again`", 1), "checker")
        if made.error:
            raise Difference("round trip", f"{database}: {text}\n  {made}")
        again = self.ask(database, "SHOW CREATE TABLE again", "checker").rows[0][1]
        self.ask(database, "DROP TABLE again", "checker")
        return again.replace("`again`", f"`{table}`", 1)

    # ---- counters, restarts, kills --------------------------------------------------------------------

    def _align_counters(self, table: str) -> Answer:
        """Aligns the AUTO_INCREMENT counters: failed and ignored inserts use up different numbers in each
        engine.

        At the last number of the column's type this is impossible. InnoDB's counter stays there, and gives
        that number again if no row has it; ATOLL's counter has gone on.
        """
        query = f"SELECT auto_increment FROM information_schema.tables WHERE table_name = '{table}' AND table_schema = "
        found = [int((self.ask(d, query + f"'{d}'", "checker").rows or [("0",)])[0][0] or 0) for d in ENGINES]
        if max(found) >= self._last_number(table):
            return Answer(-1, "the counter is at its end")
        if found[0] != found[1]:
            for database in ENGINES:
                self.ask(database, f"ALTER TABLE {table} AUTO_INCREMENT = {max(found)}")
        return Answer()

    def _last_number(self, table: str) -> int:
        """Returns the largest number that the AUTO_INCREMENT column of a table takes."""
        query = f"""SELECT column_type FROM information_schema.columns WHERE table_schema = 'inno'
                    AND table_name = '{table}' AND extra LIKE '%auto_increment%'"""
        rows = self.ask("inno", query, "checker").rows
        sql = rows[0][0].upper() if rows else "BIGINT"
        bits = INTEGERS[re.split(r"\W", sql)[0]]
        return (1 << (bits if "UNSIGNED" in sql else bits - 1)) - 1

    def _restart(self) -> None:
        self.close()
        self._start(self.server.restart)

    def _kill(self) -> None:
        if self.server.running():
            self._sync_sequences()
        self.server.kill()
        self.close()
        self._start(self.server.start)

    def _start(self, start: Callable[[], Server]) -> None:
        try:
            start()
        except ServerFailed as error:
            if self.server.innodb_cannot_recover():
                raise Stop("InnoDB cannot recover", str(error)) from error
            raise Difference("restart", str(error)) from error

    def _kill_during(self, step: Step) -> Answer:
        """Kills the server while ATOLL runs the statement. After the restart the statement must be done
        completely or not at all."""
        delay_s, _, sql = step.sql.partition(" ")
        self._sync_sequences()
        self._connection("main", "atoll")
        worker = threading.Thread(target=self._ask_quietly, args=(sql,), daemon=True)
        worker.start()
        time.sleep(float(delay_s))
        self.server.kill()
        worker.join(STATEMENT_TIMEOUT_S)
        self._kill()
        try:
            self.verify()
            return Answer(-1, "was killed")
        except Difference as before:
            answer = self._ask_any_how("inno", sql)
            try:
                self.verify()
            except Difference as after:
                raise Difference(
                    "kill during", f"{sql}\nneither before: {before}\nnor after: {after}"
                ) from after
            return answer

    def _ask_quietly(self, sql: str) -> None:
        with (
            contextlib.suppress(pymysql.Error, OSError),
            self._connection("main", "atoll").cursor() as cursor,
        ):
            cursor.execute(f"SET timestamp = {self._clock}")
            cursor.execute(self._rendered(sql, "atoll"))


def _complaints(sql: str, rows: list[tuple], others: list[tuple]) -> list[tuple]:
    """Returns the rows of `rows` that report damage, except those that `others` has in the same words."""
    unwanted = ("error", "warning") if "CHECK" in sql else ("error",)
    bad = [row for row in rows if row[2].lower() in unwanted]
    if sql.startswith("CHECK") and rows[-1][3] != "OK":
        bad.append(rows[-1])
    said = {row[2:] for row in others}
    return [row for row in bad if row[2:] not in said]


def _without_engine(definition: str) -> str:
    own = r" AUTO_INCREMENT=\d+| /\* `COMPRESSION`=\w+ \*/| `COMPRESSION`=\w+"
    return re.sub(r"ENGINE ?= ?(InnoDB|ATOLL)", "ENGINE", re.sub(own, "", definition))


def _text(value: bytes | None) -> str | None:
    """Decodes the value so that every byte is kept, even if it is no character. So a statement can be sent
    back unchanged."""
    return None if value is None else value.decode("utf-8", "surrogateescape")


def _shape(answer: Answer, ordered: bool) -> tuple:
    rows = answer.rows if ordered else sorted(answer.rows, key=repr)
    return rows, answer.names


def _disagreement(inno: Answer, atoll: Answer, ordered: bool) -> str:
    if not inno.names:
        return f"  InnoDB {inno}\n  ATOLL {atoll}"
    if ordered or len(inno.rows) + len(atoll.rows) < 10:
        return f"  InnoDB {inno}\n  ATOLL {atoll}"
    only_inno = [row for row in inno.rows if row not in atoll.rows]
    only_atoll = [row for row in atoll.rows if row not in inno.rows]
    return (f"  InnoDB {len(inno.rows)} rows, ATOLL {len(atoll.rows)} rows\n"
            f"  only InnoDB: {only_inno[:8]}\n  only ATOLL: {only_atoll[:8]}")  # fmt: skip
