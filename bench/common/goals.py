"""The goals of the engine compared with InnoDB, and whether the reports reach them: the first table of
docs/benchmarks.md."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from common.compare import figure
from common.report import table_lines
from common.rig import BASELINE

ITSELF = ""


@dataclass(frozen=True)
class Goal:
    """One goal. `path` has the keys that lead, in the results of `report`, to the results of one
    interleave(). `most` and `least` bound the ratio.

    The ratio is that of `setup` to `against`. If `against` is ITSELF, the figure of `setup` is itself a
    ratio.
    """

    what: str
    report: str
    path: tuple[str, ...]
    figure: str
    most: float | None = None
    least: float | None = None
    setup: str = "Atoll"
    against: str = BASELINE
    why: str = ""  # the cause, from a profile, if the goal is missed

    def aim(self) -> str:
        bound = f"≤ {self.most}" if self.most is not None else f"≥ {self.least}"
        if self.against == ITSELF:
            return f"{bound}, of Atoll alone"
        return bound if self.against == BASELINE else f"{bound} of {self.against}"

    def reached(self, ratio: float) -> bool:
        if self.most is not None:
            return ratio <= self.most
        return self.least is not None and ratio >= self.least


SEARCH = "a search goes through memtables and levels, each with its own misses of the CPU's cache"
MEMTABLE = "fewer instructions than InnoDB, but the memtable's skip list waits for memory (docs/costs.md)"
LOAD = "rows go through the log and a memtable into files, and each file to the bucket; InnoDB writes pages later"
SCAN = "all rows are scanned: each goes through RocksDB's six iterators, 60 % of the CPU; the S3 engine steps in a page"
LEVEL_0 = (
    "what was loaded last is in level 0, in the fast compression: after the run, which compacts it, 0.66"
)
ALTER_BACK = "reading the rows takes a tenth of the CPU, writing them into InnoDB the rest"
DELAYS = "threads wait 5 to 12 ms for one of the two cores now and then: compactions take their share"
PARSER = "the server's parser alone takes 0.6 of InnoDB's time for the literals; MyRocks 0.91"
TWO_ON_TWO_CORES = "MinIO and the server share the two cores"
MINUTES = "no minute is like the other on this machine: see InnoDB's, half an hour earlier"
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
    Goal("TPC-C on MinIO (async), throughput", "tpcc", ("tpcc",), "run.tps", least=0.85, setup="Atoll on MinIO",
         against="Atoll"),
    Goal("TPC-C on MinIO (async), CPU of the server per transaction", "tpcc", ("tpcc",), "run.cpu_us", most=1.05,
         setup="Atoll on MinIO", against="Atoll", why="uploads by HTTP with checksums"),
    Goal("TPC-C over 30 minutes, slowest minute to the mean", "tpcc-long", ("tpcc",), "run.tpcc.slowest_minute",
         least=0.93, against=ITSELF, why=MINUTES),
    Goal("LinkBench in memory, requests a second", "linkbench", ("linkbench",), "run.tps", least=1.0, why=CLIENTS),
    Goal("LinkBench, p99.9", "linkbench", ("linkbench",), "run.latency_ms.p99.9", most=1.0, why=DELAYS),
    Goal("LinkBench, load", "linkbench", ("linkbench",), "load.wall_s", most=1.0, why=LOAD),
    Goal("LinkBench, space", "linkbench", ("linkbench",), "load.space.tables", most=0.6,
         against="InnoDB compressed", why=LEVEL_0),
    Goal("LinkBench larger than memory, requests a second", "linkbench-memory", ("linkbench",), "run.tps",
         least=1.0, why=CLIENTS),
    Goal("NEO's own import, speed", "neo", ("neomigrate",), "import.kb_per_s", least=1.0, why=CLIENTS),
    Goal("BLOB import, time", "blob", ("values that compress 2 : 1",), "import.seconds", most=0.6,
         why=PARSER),
    Goal("BLOB import, space", "blob", ("values that compress 2 : 1",), "after_import.tables", most=0.6),
    Goal("TPC-H 0.1 warm, median query, time", "tpch", ("summary",), "median", most=1.0, why=SEARCH),
    Goal("TPC-H 0.1 warm, slowest query, time", "tpch", ("summary",), "greatest", most=1.3, why=SEARCH),
    Goal("commits by 32 clients, sync, MinIO on the same machine", "commit", ("binlog", "false", "0.0", "32"), "tps",
         least=0.5, setup="Atoll sync", against="Atoll local", why=TWO_ON_TWO_CORES),
    Goal("commits by 32 clients, async, MinIO on the same machine", "commit", ("binlog", "false", "0.0", "32"), "tps",
         least=0.95, setup="Atoll async", against="Atoll local", why=TWO_ON_TWO_CORES),
    Goal("archive experiment, query again, time", "archive", ("query_plain_again",), "seconds", most=1.0,
         setup="Atoll zstd", against="S3 engine", why=SCAN),
    Goal("archive experiment, ALTER back, time", "archive", ("alter_back",), "seconds", most=0.8, setup="Atoll zstd",
         against="S3 engine", why=ALTER_BACK),
)  # fmt: skip


def _ratio(goal: Goal, reports: dict[str, dict[str, Any]]) -> float | None:
    if goal.report not in reports:
        return None
    case: Any = reports[goal.report]["results"]
    for key in goal.path:
        if key not in case:
            return None
        case = case[key]
    if "setups" not in case:
        return None
    if goal.against == BASELINE:
        return figure(case, goal.setup, goal.figure, "ratio")
    if goal.against == ITSELF:
        return figure(case, goal.setup, goal.figure)
    own, other = (figure(case, setup, goal.figure) for setup in (goal.setup, goal.against))
    return own / other if own is not None and other else None


def goals_table(reports: dict[str, dict[str, Any]], goals: Sequence[Goal] = GOALS) -> str:
    """Returns the section with the table of goals. A goal whose benchmark has no report is shown as "not
    measured"."""
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
