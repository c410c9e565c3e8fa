"""Measures the server's CPU for each way to reach or change rows that has a cost contract, compared with
InnoDB.

The statements and tables are those of tests/cost/cost_patterns.py; the tests there count work instead of CPU.
The tables are filled and compacted, then the server restarts. Each change is rolled back, and the rollback is
measured with it.

    build/bin/python bench/access.py --rows 200000 --repeat 3
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "cost"))

from common.compare import interleave, summary_of_ratios
from common.fleet import arguments_parser, command_of, engines_of, fleet, repetitions_of
from common.measure import cpu_clock_s, wait_idle
from common.report import Report
from common.rig import BASELINE, MIB, Running
from cost_patterns import CHANGES, READ_TABLES, READS, Pattern, table_statements

DATABASE = "access"
WARM_UP = 20  # executions


class AccessPaths:
    """The servers with their tables loaded. Measures one statement on one of them at a time."""

    def __init__(self, runnings: dict[str, Running], rows: int, executions: int):
        self.runnings = runnings
        self.middle = rows * 5  # a key in the middle: all keys are multiples of ten
        self.rows = rows
        self.executions = executions

    def load(self) -> None:
        for running in self.runnings.values():
            running.execute(f"CREATE DATABASE {DATABASE}")
            engine = f"SET default_storage_engine = {running.engine}"
            running.execute(engine, *table_statements(self.rows), database=DATABASE)
            running.execute(*(f"OPTIMIZE TABLE {table}" for table in READ_TABLES), database=DATABASE)
            running.settle()
            running.restart()
            # The restart has emptied the MEMORY table `few`, so fill it again.
            few = next(line for line in table_statements(self.rows) if line.startswith("INSERT INTO few"))
            running.execute(few, "SELECT COUNT(text) FROM t IGNORE INDEX (by_text)", database=DATABASE)

    def run(self, pattern: Pattern, repetitions: int) -> dict[str, Any]:
        return interleave(
            list(self.runnings), repetitions, lambda name, _: self._run_one(self.runnings[name], pattern)
        )

    def _run_one(self, running: Running, pattern: Pattern) -> dict[str, Any]:
        is_change = pattern in CHANGES
        statement = pattern.statement.format(m=self.middle)
        wait_idle(running)
        with running.server.connect(DATABASE) as connection, connection.cursor() as cursor:
            if pattern.before:
                cursor.execute(pattern.before)

            def execute(times: int) -> None:
                for _ in range(times):
                    if is_change:
                        cursor.execute("BEGIN")
                    cursor.execute(statement)
                    cursor.fetchall()
                    if is_change:
                        cursor.execute("ROLLBACK")

            execute(WARM_UP)
            before = cpu_clock_s(running.pid)
            execute(self.executions)
            spent_s = cpu_clock_s(running.pid) - before
            if pattern.after:
                cursor.execute(pattern.after)
        return {"cpu_us": spent_s / self.executions * 1e6}


def main() -> int:
    parser = arguments_parser(__doc__.splitlines()[0], rows=200_000)
    parser.add_argument("--only", default="", help="names of statements that contain this")
    arguments = parser.parse_args()
    setups = engines_of(arguments)
    chosen = [pattern for pattern in (*READS, *CHANGES) if arguments.only in pattern.name]
    executions, repetitions = (100 if arguments.quick else 300), repetitions_of(arguments)
    settings = {
        "rows": arguments.rows, "clients": 1,
        "executions of each statement": f"{executions} after {WARM_UP} of warm-up",
        "repetitions": repetitions, "caches": f"{arguments.memory_mib} MiB", "durability of Atoll": "local",
    }  # fmt: skip
    text = "All ways to reach and to change rows that have a cost contract (docs/costs.md), of some ten rows each."
    report = Report(
        "access",
        "Access paths",
        command_of("bench-access", parser, arguments),
        text,
        settings,
        quick=arguments.quick,
    )
    with fleet(setups, report, arguments.memory_mib * MIB) as runnings:
        paths = AccessPaths(runnings, arguments.rows, executions)
        paths.load()
        cases = {pattern.name: paths.run(pattern, repetitions) for pattern in chosen}
    found = summary_of_ratios(cases, [setup for setup in setups if setup != BASELINE], "cpu_us")
    report.results.update(statements=cases, summary={"setups": found})
    report.add_summary(f"Ratios to {BASELINE}", found)
    report.add_comparison("CPU of the server per statement, µs", cases, "cpu_us", setups)
    report.save()
    return 0 if not report.failures else 1


if __name__ == "__main__":
    sys.exit(main())
