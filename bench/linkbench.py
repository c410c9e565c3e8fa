"""LinkBench (SIGMOD 2013) with each setup: load, requests a second, latency by type, CPU and bytes per
request, space.

The workload is bench/linkbench/linkbench.lua. Every setup and repetition has a fresh server. Its phases are:
load, rest, warm-up, run, rest. The run fails if counttable does not agree with the visible links. Without
--memory-mib the data fit in the caches. With it the server runs in a memory cgroup of that size, which
includes the page cache, and the data are four times as large. If no cgroup can be made, only the engines'
caches are limited.

    build/bin/python bench/linkbench.py --nodes 300000 --clients 4 --seconds 120
    build/bin/python bench/linkbench.py --memory-mib 512
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from common import charts
from common.compare import interleave
from common.figure_table import Line, add_figures, draw_figures
from common.fleet import arguments_parser, repetitions_of
from common.measure import Measurement
from common.report import Report, megabytes, thousands, two_digits
from common.rest import (
    DURABILITY,
    GROUP_BYTES_MIN,
    SERVER_BYTES,
    Rest,
    bring_to_rest,
    cgroups_work,
    durability_of,
)
from common.rig import MIB, SETUPS, Running, chosen_setups, start_setup
from common.sysbench import prepare_sysbench, run_sysbench, sysbench
from harness.process import discard, scratch_directory
from workloads.linkbench_latency import read_latencies, total_of

SCRIPT = Path(__file__).resolve().parent / "linkbench" / "linkbench.lua"
CACHES_BYTES = 1024 * MIB  # if the data fit in memory
LOAD_THREADS = 4
DATA_TO_MEMORY = 4
NODE_BYTES = 1100  # of a node with its links and counts in InnoDB, about
TYPES = (
    "GET_LINKS_LIST", "GET_NODE", "COUNT_LINK", "MULTIGET_LINK", "ADD_LINK", "UPDATE_LINK", "DELETE_LINK",
    "ADD_NODE", "UPDATE_NODE", "DELETE_NODE",
)  # fmt: skip


@dataclass(frozen=True)
class Plan:
    """The size and duration of a run, the same for every setup."""

    nodes: int
    clients: int
    seconds: float
    warmup_s: float
    caches_bytes: int
    group_bytes: int = 0  # 0: no limit
    partitions: int = 0

    def script_options(self) -> dict[str, object]:
        return {"nodes": self.nodes, "partitions": self.partitions}


def start(name: str, plan: Plan, home: Path) -> Running:
    options: dict[str, Any] = {"group_bytes": plan.group_bytes} if plan.group_bytes else {}
    return start_setup(name, plan.caches_bytes, home, durability=durability_of(name), **options)


def load(running: Running, plan: Plan) -> dict[str, Any]:
    """Fills the tables. Returns the resources that this took, and the space of the tables afterwards."""
    whole = Measurement.start(running)
    spent = prepare_sysbench(running, plan.script_options(), SCRIPT, threads=LOAD_THREADS)
    settle_s = running.settle()
    until_rest = whole.stop()
    rest = bring_to_rest(running)
    names = ("wall_s", "cpu_s", "bytes_written", "rss_peak_bytes", "bucket_requests")
    return {
        **{name: spent[name] for name in names},
        "with_rest": with_rest(until_rest, settle_s, rest, 1),
        "space": rest.space,
    }


def with_rest(until_settled: dict[str, Any], settle_s: float, rest: Rest, requests: int) -> dict[str, float]:
    """Returns the cost per request, including all work until the changes are in files, and the shutdown."""
    return {
        "cpu_us": (until_settled["cpu_s"] + rest.stop_cpu_s) * 1e6 / requests,
        "bytes_written": (until_settled["bytes_written"] + rest.stop_bytes_written) / requests,
        "bucket_requests": until_settled["bucket_requests"] / requests,
        "settle_s": settle_s,
    }


def drive(running: Running, plan: Plan) -> dict[str, Any]:
    """Warms up, runs the mix of requests, checks the counts, and brings the server to rest."""
    prefix = running.home / "latency"
    options = {**plan.script_options(), "latency_file": prefix}
    if plan.warmup_s:
        warmup = {**options, "time": round(plan.warmup_s)}
        sysbench(running, SCRIPT, "run", warmup, threads=plan.clients)
    whole = Measurement.start(running)
    figures = run_sysbench(running, SCRIPT, options, threads=plan.clients, seconds=plan.seconds)
    settle_s = running.settle()
    until_settled, requests = whole.stop(), max(figures["transactions"], 1)
    check(running)
    rest, types = bring_to_rest(running), read_latencies(prefix)
    return {
        **figures,
        "bytes_read": figures["server"]["bytes_read"] / requests,
        "latency_ms": {**figures["latency_ms"], **total_of(types).figures()},
        "types": {name: latencies.figures() for name, latencies in types.items()},
        "with_rest": with_rest(until_settled, settle_s, rest, requests),
        "space": rest.space,
    }


def check(running: Running) -> None:
    """Compares each count with the visible links. Errors: SysbenchFailed when they do not agree."""
    print(f"    {running.name}: {sysbench(running, SCRIPT, 'check').strip().splitlines()[-1]}", flush=True)


class LinkBench:
    """Runs the plan; each run has a fresh server of the setup."""

    def __init__(self, plan: Plan, report: Report):
        self.plan = plan
        self.report = report

    def run_one(self, name: str, _repetition: int) -> dict[str, Any]:
        home = scratch_directory("b")
        running: Running | None = None
        try:
            running = start(name, self.plan, home)
            self.report.note(running)
            figures = self._measure(running)
        finally:
            if running:
                running.destroy()
            discard(home)
        latency = figures["run"]["latency_ms"]
        print(
            f"  {name:18} load {figures['load']['wall_s']:.1f} s, {figures['run']['tps']:.0f} requests/s, "
            f"p99.9 {latency['p99.9']:.1f} ms, longest {latency['max']:.0f} ms, "
            f"{figures['run']['cpu_us']:.0f} µs, {figures['run']['bytes_written']:.0f} bytes",
            flush=True,
        )
        return figures

    def _measure(self, running: Running) -> dict[str, Any]:
        loaded = load(running, self.plan)
        check(running)
        ran = drive(running, self.plan)
        check(running)  # also after the restart, from the files
        return {"load": loaded, "run": ran}


# ---- The report --------------------------------------------------------------------------------------------

SPEED = (
    Line("requests a second", "run.tps"),
    Line("latency p50, ms", "run.latency_ms.p50", two_digits),
    Line("p95", "run.latency_ms.p95", two_digits),
    Line("p99", "run.latency_ms.p99", two_digits),
    Line("p99.9", "run.latency_ms.p99.9", two_digits),
    Line("longest", "run.latency_ms.max", two_digits),
    Line("slowest second : mean", "run.stall.slowest_second", two_digits),
    Line("deadlocks, lock timeouts", "run.errors"),
)
COST = (
    Line("CPU per request, µs", "run.cpu_us"),
    Line("the same with the work until rest", "run.with_rest.cpu_us"),
    Line("bytes written per request", "run.bytes_written"),
    Line("the same with the work until rest", "run.with_rest.bytes_written"),
    Line("bytes read per request", "run.bytes_read"),
    Line("requests to the bucket per request", "run.with_rest.bucket_requests", lambda value: f"{value:.5f}"),
    Line("peak RSS, MB", "run.server.rss_peak_bytes", megabytes),
)
LOAD_AND_SPACE = (
    Line("load, seconds", "load.wall_s", lambda value: f"{value:.1f}"),
    Line("load, CPU seconds", "load.cpu_s", lambda value: f"{value:.1f}"),
    Line("load, MB written", "load.bytes_written", megabytes),
    Line("the same with the work until rest", "load.with_rest.bytes_written", megabytes),
    Line("until rest after it, seconds", "load.with_rest.settle_s", lambda value: f"{value:.1f}"),
    Line("tables after the load, MB", "load.space.tables", megabytes),
    Line("tables after the run, MB", "run.space.tables", megabytes),
    Line("all files after the run, MB", "run.space.total", megabytes),
)
CHART = (
    Line("requests a second", "run.tps"),
    Line("latency p99.9, ms", "run.latency_ms.p99.9"),
    Line("longest request, ms", "run.latency_ms.max"),
    Line("CPU per request, µs", "run.cpu_us"),
    Line("bytes written per request", "run.with_rest.bytes_written"),
    Line("load, seconds", "load.wall_s"),
    Line("tables after the load, MB", "load.space.tables", megabytes),
    Line("tables after the run, MB", "run.space.tables", megabytes),
)


def add_tables(report: Report, results: dict[str, Any], setups: list[str]) -> None:
    add_figures(report, "Speed", results, setups, SPEED)
    text = "Of the server's process. Rest: all changes are in files; the shutdown of the server is part of the way."
    add_figures(report, "What a request costs", results, setups, COST, text)
    text = "Space is that of the stopped server, when all changes are in files."
    add_figures(report, "Load and space", results, setups, LOAD_AND_SPACE, text)
    for label, name in (("p50", "p50"), ("p99", "p99"), ("p99.9", "p99.9"), ("longest", "max")):
        lines = [Line(kind, f"run.types.{kind}.{name}", two_digits) for kind in TYPES]
        add_figures(report, f"Latency by type, {label}, ms", results, setups, lines)
    title = report.title
    draw_figures(report, f"{report.name}.png", title, results, setups, CHART)
    series: dict[str, list[tuple[float, float]]] = {
        name: list(enumerate(runs[-1]["run"]["series"])) for name, runs in results["runs"].items() if runs
    }
    target = report.add_chart(f"{report.name}-time.png", f"{title}: requests in each second")
    charts.lines(
        {"last repetition": series}, target, title=title, x_label="second", y_label="requests a second"
    )


# ---- Arguments ---------------------------------------------------------------------------------------------


def parse_arguments() -> argparse.Namespace:
    parser = arguments_parser(__doc__.splitlines()[0])
    parser.add_argument("--nodes", type=int, default=0, help="300,000; quick 20,000; or by the memory")
    parser.add_argument("--clients", type=int, default=0, help="4")
    parser.add_argument("--partitions", type=int, default=0, help="of linktable by key (id1)")
    parser.set_defaults(memory_mib=0)
    return parser.parse_args()


def plan_of(arguments: argparse.Namespace) -> Plan:
    """Returns the plan for the arguments. Errors: SystemExit when the given memory is too small for a
    server."""
    quick = arguments.quick
    caches, group, nodes = CACHES_BYTES, 0, 20_000 if quick else 300_000
    if arguments.memory_mib:
        group = arguments.memory_mib * MIB
        if group < GROUP_BYTES_MIN:
            raise SystemExit(f"a server needs at least {GROUP_BYTES_MIN // MIB} MiB")
        caches = group - SERVER_BYTES
        nodes = group * (1 if quick else DATA_TO_MEMORY) // NODE_BYTES
        group = group if cgroups_work() else 0
    return Plan(
        arguments.nodes or nodes, arguments.clients or 4, arguments.seconds or (10 if quick else 120),
        2 if quick else 30, caches, group, arguments.partitions,
    )  # fmt: skip


def command_of(arguments: argparse.Namespace) -> str:
    parts = ["make bench-linkbench"] + (["QUICK=1"] if arguments.quick else [])
    names = {"nodes": "NODES", "clients": "CLIENTS", "seconds": "SECONDS", "repeat": "REPEAT"}
    names |= {"memory_mib": "MEMORY", "partitions": "PARTITIONS"}
    parts += [f"{name}={getattr(arguments, key):g}" for key, name in names.items() if getattr(arguments, key)]
    return " ".join([*parts, *([f'SETUPS="{arguments.setups}"'] if arguments.setups else [])])


def report_of(arguments: argparse.Namespace, plan: Plan, repetitions: int) -> Report:
    larger = bool(arguments.memory_mib)
    memory = f"caches of {plan.caches_bytes // MIB} MiB"
    if plan.group_bytes:
        memory += f" in a memory cgroup of {plan.group_bytes // MIB} MiB, where the page cache counts"
    elif larger:
        memory += (
            "; the page cache is not limited, which helps Atoll alone: the others read and write directly"
        )
    settings = {
        "nodes": f"{plan.nodes:,}; 3.7 links each on average, 40 % of them at 1 % of the nodes", "link types": 2,
        "clients": plan.clients, "seconds of a run": f"{plan.seconds:g} after {plan.warmup_s:g} of warm-up",
        "repetitions": repetitions, "memory": memory, "values": "compress 2 : 1",
        "linktable": f"{plan.partitions} partitions" if plan.partitions else "not partitioned",
        "durability of Atoll": DURABILITY, "statements": "text, one round trip each; link writes in transactions",
    }  # fmt: skip
    text = (
        "The social graph of the paper (Armstrong et al., SIGMOD 2013), its tables and its mix of ten requests, "
        "written for sysbench. Which nodes are asked for and how many links they have follows power laws. After each "
        "run every count was compared with the visible links."
    )
    title = "LinkBench, larger than memory" if larger else "LinkBench"
    name = "linkbench-memory" if larger else "linkbench"
    return Report(name, title, command_of(arguments), text, settings, quick=arguments.quick)


def main() -> int:
    arguments = parse_arguments()
    plan, repetitions = plan_of(arguments), repetitions_of(arguments)
    default = ("InnoDB", "Atoll") if arguments.quick else tuple(SETUPS)
    setups = chosen_setups(arguments.setups, default)
    report = report_of(arguments, plan, repetitions)
    print(
        f"LinkBench: {thousands(plan.nodes)} nodes, {plan.clients} clients, {', '.join(setups)}", flush=True
    )
    bench = LinkBench(plan, report)
    results = interleave(setups, repetitions, bench.run_one, failures=report.failures)
    report.results["linkbench"] = results
    add_tables(report, results, setups)
    report.save()
    return 0 if not report.failures else 1


if __name__ == "__main__":
    sys.exit(main())
