"""What the engine aims at beside InnoDB, and whether the reports reach it: the first table of docs/benchmarks.md."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from common.report import table_lines
from common.rig import BASELINE


@dataclass(frozen=True)
class Goal:
    """`path` leads through the results of `report` to what interleave() returned; `most`, `least` bound the ratio."""

    what: str
    report: str
    path: tuple[str, ...]
    figure: str
    most: float | None = None
    least: float | None = None
    setup: str = "Atoll"
    why: str = ""  # what the profile says when it is missed

    def aim(self) -> str:
        return f"≤ {self.most}" if self.most is not None else f"≥ {self.least}"

    def reached(self, ratio: float) -> bool:
        if self.most is not None:
            return ratio <= self.most
        return self.least is not None and ratio >= self.least


SEARCH = "a search goes through memtables and levels, each with its own misses of the CPU's cache"
MEMTABLE = "fewer instructions than InnoDB, but the memtable's skip list waits for memory (docs/costs.md)"
CLIENTS = "CPU bound on two cores: what a statement costs, above"


def _cpu(case: str, most: float, why: str = SEARCH) -> Goal:
    return Goal(f"CPU, {case}", "oltp", ("clients", "1", case), "cpu_us", most=most, why=why)


GOALS = (
    _cpu("point select", 1.05),
    _cpu("range of 100 rows", 1.5),
    _cpu("sum of 100 rows", 1.5),
    _cpu("100 rows ordered", 1.5),
    _cpu("10 secondary ranges", 1.3),
    _cpu("10 points by IN", 1.3),
    _cpu("update without index", 1.0, MEMTABLE),
    _cpu("update with index", 1.0, MEMTABLE),
    _cpu("insert", 1.0, MEMTABLE),
    _cpu("delete", 1.0, MEMTABLE),
    Goal("read write, 4 clients, throughput", "oltp", ("clients", "4", "read write (18 statements)"), "tps",
         least=1.0, why=CLIENTS),
    Goal("access paths, median", "access", ("summary",), "median", most=1.2, why=SEARCH),
    Goal("access paths, greatest", "access", ("summary",), "greatest", most=2.0, why=SEARCH),
    Goal("TPC-C in memory, throughput", "tpcc", ("tpcc",), "run.tps", least=1.0, why=CLIENTS),
    Goal("TPC-C, data 4 × memory, throughput", "tpcc-memory", ("tpcc",), "run.tps", least=1.0, why=CLIENTS),
    Goal("the same, bytes written per transaction", "tpcc-memory", ("tpcc",), "run.with_rest.bytes_written", most=0.5),
    Goal("LinkBench in memory, requests a second", "linkbench", ("linkbench",), "run.tps", least=1.0, why=CLIENTS),
    Goal("LinkBench, p99.9", "linkbench", ("linkbench",), "run.latency_ms.p99.9", most=1.0, why=CLIENTS),
    Goal("LinkBench, load", "linkbench", ("linkbench",), "load.wall_s", most=1.0),
    Goal("LinkBench larger than memory, requests a second", "linkbench-memory", ("linkbench",), "run.tps",
         least=1.0, why=CLIENTS),
    Goal("NEO's own import, speed", "neo", ("neomigrate",), "import.kb_per_s", least=1.0, why=CLIENTS),
    Goal("BLOB import, time", "blob", ("values that compress 2 : 1",), "import.seconds", most=0.6),
    Goal("BLOB import, space", "blob", ("values that compress 2 : 1",), "after_import.tables", most=0.6),
)  # fmt: skip


def _ratio(goal: Goal, reports: dict[str, dict[str, Any]]) -> float | None:
    if goal.report not in reports:
        return None
    node: Any = reports[goal.report]["results"]
    for key in (*goal.path, "setups", goal.setup, goal.figure, "ratio"):
        if not isinstance(node, dict) or key not in node:
            return None
        node = node[key]
    return float(node)


def goals_table(reports: dict[str, dict[str, Any]], goals: Sequence[Goal] = GOALS) -> str:
    """Returns the section; a goal whose benchmark has no report says so."""
    rows = []
    for goal in goals:
        ratio = _ratio(goal, reports)
        if ratio is None:
            rows.append([goal.what, goal.aim(), "not measured", ""])
        else:
            missed = f"no: {goal.why}" if goal.why else "no"
            rows.append([goal.what, goal.aim(), f"{ratio:.2f}", "yes" if goal.reached(ratio) else missed])
    header = ["Atoll on file://, durability local", f"aim, ratio to {BASELINE}", "measured", "reached"]
    return "\n".join(["## What is aimed at", "", *table_lines(header, rows), ""])
