"""Runs a case on three tables and compares them after each ALTER.

    inno   InnoDB, always altered with ALGORITHM=COPY
    copy   ATOLL, always altered with ALGORITHM=COPY
    atoll  ATOLL, altered with the algorithm of the case, or with the default if the engine refuses that one

A difference that EXCUSES lists ends the case without a failure.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

import pymysql

from harness.random_alter.cases import Case
from harness.random_sql.compare import Answer
from harness.server import Server

TWINS = {"inno": "InnoDB", "copy": "ATOLL", "atoll": "ATOLL"}
CLOCK = 1_700_000_000
_REFUSED_SO = (1845, 1846)  # error numbers for "this algorithm is not supported"
_LOST = (2002, 2003, 2006, 2013)
SETTINGS = (
    "SET NAMES utf8mb4",
    "SET SESSION lock_wait_timeout = 5, system_versioning_alter_history = KEEP, time_zone = '+00:00'",
)


class Difference(Exception):
    """Two of the tables differ. `kind` stays the same while a case is shortened."""

    def __init__(self, kind: str, message: str):
        super().__init__(message)
        self.kind = kind


class Excused(Exception):
    """The tables differ for a reason in EXCUSES. The case ends."""


@dataclass(frozen=True)
class Excuse:
    """A difference that is no error of ATOLL. Each pattern must be found in the text it is for."""

    kind: str
    statement: str
    message: str
    reason: str


EXCUSES: tuple[Excuse, ...] = (
    Excuse(
        "error inno",
        "",
        "(1118|1071|1709|1713)[: ]",
        "InnoDB limits rows to half a page and keys to 3072 bytes",
    ),
    Excuse(
        "error atoll",
        "^ALTER",
        r"copy error (1292|1366|1406): (Truncated|Incorrect|Data too long)[^\n]*\n  atoll 0 rows",
        "in strict mode a copy computes generated columns again, and what was a warning at the INSERT is an error",
    ),
)


@dataclass
class Outcome:
    """What one case has shown. `ways` counts how ATOLL did the ALTERs: copied or in place."""

    ways: Counter = field(default_factory=Counter)
    errors: Counter = field(default_factory=Counter)  # of statements that failed on all three tables
    excused: str = ""


def _text(value: object) -> str:
    if value is None:
        return "NULL"
    return value.decode("utf8", "backslashreplace") if isinstance(value, bytes) else str(value)


class Twins:
    """The three databases of one server, with a connection for each."""

    def __init__(self, server: Server, log: Callable[[str], None] = lambda _: None):
        self.server = server
        self.log = log
        self._connections: dict[str, pymysql.Connection] = {}

    def close(self) -> None:
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()

    # ---- statements -----------------------------------------------------------------------------------

    def ask(self, twin: str, sql: str) -> Answer:
        """Runs one statement on one of the tables. Errors: Difference when the server has died."""
        try:
            with self._connection(twin).cursor() as cursor:
                cursor.execute(sql.replace("{E}", TWINS[twin]))
                names = tuple(item[0] for item in cursor.description or ())
                rows = [tuple(map(_text, row)) for row in cursor.fetchall()] if names else []
                return Answer(0, "", rows, cursor.rowcount, cursor.warning_count, names)
        except pymysql.Error as error:
            number = error.args[0] if isinstance(error.args[0], int) else -1
            if number in _LOST or not self.server.running():
                raise Difference("lost", f"{twin}: {sql}: {error}\n{self.server.log_tail(4000)}") from error
            return Answer(number, str(error.args[1]))

    def _connection(self, twin: str) -> pymysql.Connection:
        if twin not in self._connections:
            connection = pymysql.connect(
                unix_socket=str(self.server.socket), user="root", charset="utf8mb4", autocommit=True, conv={},
                use_unicode=False, read_timeout=120,
            )  # fmt: skip
            with connection.cursor() as cursor:
                for statement in (*SETTINGS, f"CREATE DATABASE IF NOT EXISTS {twin}", f"USE {twin}"):
                    cursor.execute(statement)
            self._connections[twin] = connection
        return self._connections[twin]

    def _all(self, sql: str) -> Answer:
        """Runs the same statement on all tables. The answers must be the same."""
        answers = {twin: self.ask(twin, sql) for twin in TWINS}
        self.log(f"{sql};\n  -> {answers['atoll']}")
        for twin in ("inno", "atoll"):
            self._compare(f"{twin}", sql, answers["copy"], answers[twin])
        return answers["copy"]

    def _compare(self, twin: str, sql: str, copy: Answer, other: Answer) -> None:
        if copy.error != other.error:
            self._differ(f"error {twin}", sql, f"copy {copy}\n  {twin} {other}")
        # InnoDB computes virtual columns more often, and each time warns again.
        same = copy.affected == other.affected and (twin == "inno" or copy.warnings == other.warnings)
        if sql.startswith(("INSERT", "UPDATE", "DELETE")) and not same:
            self._differ(f"counts {twin}", sql, f"copy {copy}\n  {twin} {other}")
        if sorted(copy.rows) != sorted(other.rows):
            missing = [row for row in copy.rows if row not in other.rows][:5]
            extra = [row for row in other.rows if row not in copy.rows][:5]
            self._differ(f"rows {twin}", sql, f"only in copy: {missing}\n  only in {twin}: {extra}")

    def _differ(self, kind: str, sql: str, message: str) -> None:
        for excuse in EXCUSES:
            if (
                excuse.kind == kind
                and re.search(excuse.statement, sql)
                and re.search(excuse.message, message)
            ):
                raise Excused(excuse.reason)
        raise Difference(kind, f"{sql}\n  {message}")

    # ---- a case ---------------------------------------------------------------------------------------

    def run(self, case: Case) -> Outcome:
        """Runs a case. Errors: Difference."""
        outcome = Outcome()
        try:
            self._run(case, outcome)
        except Excused as excused:
            outcome.excused = str(excused)
        return outcome

    def _run(self, case: Case, outcome: Outcome) -> None:
        for twin in TWINS:
            self.ask(twin, "DROP TABLE IF EXISTS t")
            self.ask(twin, f"SET sql_mode = '{case.mode}', timestamp = {CLOCK}")
        if error := self._all(case.create()).error:
            outcome.errors[f"CREATE {error}"] += 1
            return
        for row in case.rows:
            self._all(row)
        for number, (change, how) in enumerate(case.steps):
            if not self._alter(change, how, outcome):
                continue
            self._compare_tables()
            for statement in case.later:
                self._all(statement.replace("{n}", str(20 + number)))
        self._compare_tables()

    def _alter(self, change: str, how: str, outcome: Outcome) -> bool:
        """Alters the three tables. Returns whether that succeeded."""
        sql = f"ALTER TABLE t {change}"
        copied = {twin: self.ask(twin, f"{sql}, ALGORITHM=COPY") for twin in ("inno", "copy")}
        answer = self.ask("atoll", f"{sql}, ALGORITHM={how}")
        if answer.error in _REFUSED_SO:
            how = "DEFAULT"
            answer = self.ask("atoll", f"{sql}, ALGORITHM=DEFAULT")
        self.log(f"{sql}, ALGORITHM={how};\n  -> {answer}")
        self._compare("inno", sql, copied["copy"], copied["inno"])
        copied["copy"].affected = answer.affected  # the rows that were copied: none when it works in place
        self._compare("atoll", f"{sql}, ALGORITHM={how}", copied["copy"], answer)
        if answer.error:
            outcome.errors[f"ALTER {answer.error}"] += 1
        else:
            outcome.ways["copied" if answer.affected else "in place"] += 1
        return answer.error == 0

    # ---- what is compared -----------------------------------------------------------------------------

    def _compare_tables(self) -> None:
        definitions = {twin: self._definition(twin) for twin in TWINS}
        for twin in ("inno", "atoll"):
            if definitions[twin] != definitions["copy"]:
                self._differ(
                    f"definition {twin}", "", f"copy {definitions['copy']}\n  {twin} {definitions[twin]}"
                )
        definition = definitions["copy"]
        columns = re.findall(r"^  `(\w+)`", definition, re.MULTILINE)
        versioned = "WITH SYSTEM VERSIONING" in definition
        listed = ", ".join([*columns, *(("ROW_START", "ROW_END") if versioned else ())])
        past = " FOR SYSTEM_TIME ALL" if versioned else ""
        self._all(f"SELECT {listed} FROM t{past}")
        self._compare_partitions(columns, versioned)
        self._compare_indexes(definition)
        self._check()

    def _definition(self, twin: str) -> str:
        text = self.ask(twin, "SHOW CREATE TABLE t").rows[0][1]
        return re.sub(r"ENGINE ?= ?\w+", "", text)

    def _compare_partitions(self, columns: list[str], versioned: bool) -> None:
        if "PARTITION BY" not in self._definition("copy"):
            return
        names = self.ask("copy", "SELECT DISTINCT COALESCE(subpartition_name, partition_name) FROM "
                                 "information_schema.partitions WHERE table_schema = 'copy'").rows  # fmt: skip
        past = " FOR SYSTEM_TIME ALL" if versioned else ""
        for (name,) in names:
            self._all(f"SELECT id, HEX(c) FROM t PARTITION ({name}){past}")

    def _compare_indexes(self, definition: str) -> None:
        """Looks every row up by every index, and compares with what a scan of the table finds."""
        for name, parts in re.findall(r"^  (?:UNIQUE )?KEY `(\w+)` \((.*)\)", definition, re.MULTILINE):
            column = re.findall(r"`(\w+)`", parts)[0]
            query = (
                f"SELECT x.id, y.id FROM t x IGNORE INDEX ({name}) STRAIGHT_JOIN t y {{}} INDEX ({name}) "
                f"ON y.{column} = x.{column}"
            )
            by_scan, by_index = query.format("IGNORE"), query.format("FORCE")
            for twin in ("copy", "atoll"):
                scanned, found = self.ask(twin, by_scan), self.ask(twin, by_index)
                if sorted(scanned.rows) != sorted(found.rows):
                    self._excuse_server(by_scan, by_index)
                    self._differ(f"index {twin}", query, f"by scan {scanned}\n  by index {found}")
            self._all(query.format("FORCE"))
            self._compare_values(
                f"SELECT {column} FROM t {{}} INDEX ({name}) WHERE {column} > '' OR {column} < '1' "
            )

    def _compare_values(self, query: str) -> None:
        """Compares the values of an index with those of the rows. InnoDB is asked for its rows only: when an UPDATE
        gives a virtual column a value that is equal by the collation ('a ' after 'a'), its index keeps the old one."""
        self._all(query.format("IGNORE"))
        for twin in ("copy", "atoll"):
            scanned, found = (self.ask(twin, query.format(hint)) for hint in ("IGNORE", "FORCE"))
            if sorted(scanned.rows) != sorted(found.rows):
                self._differ(f"values {twin}", query, f"by scan {scanned}\n  by index {found}")

    def _excuse_server(self, by_scan: str, by_index: str) -> None:
        """InnoDB's rows may differ in the same way: the server hashes equal values of some NO PAD collations to
        different partitions, and then looks in one of them."""
        if sorted(self.ask("inno", by_scan).rows) != sorted(self.ask("inno", by_index).rows):
            raise Excused("an index of InnoDB's table gives other rows than a scan, too")

    def _check(self) -> None:
        """CHECK TABLE must find nothing. Warnings that are not ATOLL's come from the server, which reads a
        partitioned table once more and computes its virtual columns with warnings."""
        for twin in ("copy", "atoll"):
            rows = self.ask(twin, "CHECK TABLE t EXTENDED").rows
            found = [(kind, text) for _, _, kind, text in rows if kind != "Warning" or "ATOLL" in text]
            if found != [("status", "OK")]:
                self._differ(f"check {twin}", "CHECK TABLE t EXTENDED", str(found))
