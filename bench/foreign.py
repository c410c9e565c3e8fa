"""Measures what constraints FOREIGN KEY cost, compared with InnoDB: statements on tables with and without them.

Each change is committed, and CPU counts until the server is idle again. MyRocks and the S3 engine have no constraints.

    build/bin/python bench/foreign.py --rows 1000000 --repeat 5
"""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from common.compare import interleave, summary_of_ratios
from common.fleet import arguments_parser, command_of, fleet, repetitions_of
from common.measure import cpu_clock_s, wait_idle
from common.report import Report
from common.rig import BASELINE, MIB, Running

DATABASE = "shop"
SETUPS = (BASELINE, "Atoll")
PARENTS = 10_000
SINGLE = 2_000  # statements of one row in a measurement
CHILDREN = 1_000  # of one parent, and rows of a statement


@dataclass(frozen=True)
class Step:
    """Statements that are measured together. `before` and `after` are not measured."""

    name: str
    statements: tuple[str, ...]
    before: tuple[str, ...] = ()
    after: tuple[str, ...] = ()


def singles(table: str) -> tuple[str, ...]:
    """One-row inserts that refer to parents all over the two tables."""
    return tuple(
        f"INSERT INTO {table} VALUES ({row}, {row * 7919 % PARENTS}, {row * 104729 % PARENTS}, 'a line of an order')"
        for row in range(SINGLE)
    )


def many(table: str) -> str:
    return (
        f"INSERT INTO {table} SELECT seq, seq * 7919 % {PARENTS}, seq * 104729 % {PARENTS}, 'a line of an order' "
        f"FROM mysql.seq_1_to_{CHILDREN}"
    )


FAMILY = (
    "DELETE FROM `order`",
    "INSERT INTO `order` SELECT seq, 'an order' FROM mysql.seq_1_to_10",
    f"INSERT INTO item SELECT seq, seq MOD 10 + 1, 'an item' FROM mysql.seq_1_to_{10 * CHILDREN}",
)
ADD = "ALTER TABLE big ADD CONSTRAINT of_item FOREIGN KEY (a) REFERENCES part (id)"
DROP = ("ALTER TABLE big DROP FOREIGN KEY of_item",)
STEPS = (
    Step("INSERT, two parents", singles("line"), ("DELETE FROM line",)),
    Step("INSERT, no constraint", singles("free_line"), ("DELETE FROM free_line",)),
    Step("INSERT of 1,000 rows, two parents", (many("line"),), ("DELETE FROM line",)),
    Step("INSERT of 1,000 rows, no constraint", (many("free_line"),), ("DELETE FROM free_line",)),
    Step("DELETE of a parent, 1,000 children by CASCADE", ("DELETE FROM `order` WHERE id = 5",), FAMILY),
    Step(
        "UPDATE of a parent's key, 1,000 children by CASCADE",
        ("UPDATE `order` SET id = 50 WHERE id = 5",),
        FAMILY,
    ),
    Step(
        "DELETE of 1,000 parents without children",
        (f"DELETE FROM part WHERE id >= {PARENTS}",),
        (f"INSERT INTO part SELECT seq + {PARENTS}, 'a part' FROM mysql.seq_0_to_{CHILDREN - 1}",),
    ),
    Step("ADD FOREIGN KEY", (ADD,), (), DROP),
    Step(
        "ADD FOREIGN KEY, foreign_key_checks=0",
        (ADD,),
        ("SET foreign_key_checks = 0",),
        ("SET foreign_key_checks = 1", *DROP),
    ),
)


def load(running: Running, rows: int) -> None:
    running.execute(f"CREATE DATABASE {DATABASE}")
    line = "(id INT PRIMARY KEY, a INT, b INT, note VARCHAR(40), KEY (a), KEY (b)"
    running.execute(
        f"SET default_storage_engine = {running.engine}",
        "CREATE TABLE part (id INT PRIMARY KEY, name VARCHAR(40))",
        "CREATE TABLE store (id INT PRIMARY KEY, name VARCHAR(40))",
        f"INSERT INTO part SELECT seq, 'a part' FROM mysql.seq_0_to_{PARENTS - 1}",
        f"INSERT INTO store SELECT seq, 'a store' FROM mysql.seq_0_to_{PARENTS - 1}",
        f"CREATE TABLE line {line}, FOREIGN KEY (a) REFERENCES part (id), FOREIGN KEY (b) REFERENCES store (id))",
        f"CREATE TABLE free_line {line})",
        "CREATE TABLE `order` (id INT PRIMARY KEY, name VARCHAR(40))",
        "CREATE TABLE item (id INT PRIMARY KEY, o INT, name VARCHAR(40), "
        "FOREIGN KEY (o) REFERENCES `order` (id) ON DELETE CASCADE ON UPDATE CASCADE)",
        f"CREATE TABLE big {line})",
        f"INSERT INTO big SELECT seq, seq * 7919 % {PARENTS}, seq % {PARENTS}, 'a row' FROM mysql.seq_1_to_{rows}",
        "ANALYZE TABLE part, store, big",
        database=DATABASE,
    )
    running.settle()


def run_one(running: Running, step: Step) -> dict[str, Any]:
    with running.server.connect(DATABASE) as connection, connection.cursor() as cursor:
        for statement in step.before:
            cursor.execute(statement)
        wait_idle(running)
        before, begin = cpu_clock_s(running.pid), time.monotonic()
        for statement in step.statements:
            cursor.execute(statement)
        spent_s = time.monotonic() - begin
        wait_idle(running)
        cpu_s = cpu_clock_s(running.pid) - before
        for statement in step.after:
            cursor.execute(statement)
    return {"spent_ms": spent_s * 1e3 / len(step.statements), "cpu_ms": cpu_s * 1e3 / len(step.statements)}


def main() -> int:
    parser = arguments_parser(__doc__.splitlines()[0], rows=1_000_000)
    parser.add_argument("--only", default="", help="names of steps that contain this")
    arguments = parser.parse_args()
    repetitions = repetitions_of(arguments)
    settings = {
        "rows of the table that gets a constraint": arguments.rows, "clients": 1, "repetitions": repetitions,
        "caches": f"{arguments.memory_mib} MiB", "durability of Atoll": "local",
    }  # fmt: skip
    report = Report(
        "foreign",
        "Constraints FOREIGN KEY",
        command_of("bench-foreign", parser, arguments),
        "Statements on tables with constraints FOREIGN KEY, and the same on tables without.",
        settings,
        quick=arguments.quick,
    )
    with fleet(SETUPS, report, arguments.memory_mib * MIB) as runnings:
        for running in runnings.values():
            load(running, arguments.rows)

        def case_of(step: Step) -> dict[str, Any]:
            return interleave(SETUPS, repetitions, lambda name, _: run_one(runnings[name], step))

        cases = {step.name: case_of(step) for step in STEPS if arguments.only in step.name}
    report.results["statements"] = cases
    for unit, title in (("spent_ms", "time"), ("cpu_ms", "CPU of the server, until it is idle")):
        report.add_summary(f"Ratios to {BASELINE}: {title}", summary_of_ratios(cases, ["Atoll"], unit))
        report.add_comparison(f"Milliseconds a statement: {title}", cases, unit, SETUPS)
    report.save()
    return 0 if not report.failures else 1


if __name__ == "__main__":
    sys.exit(main())
