"""The report of the TPC-C benchmark: settings, and tables and charts for the figures of bench/tpcc.py."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests"))

from common import charts
from common.compare import figure
from common.figure_table import Line, add_figures, draw_figures
from common.report import Report, megabytes, ratio_text, three_figures, two_digits
from common.rest import DURABILITY
from common.rig import MIB

KINDS = {
    "new_order": "New-Order",
    "payment": "Payment",
    "order_status": "Order-Status",
    "delivery": "Delivery",
    "stock_level": "Stock-Level",
}
LOCAL, REMOTE = "Atoll", "Atoll on MinIO"


def one_digit(value: float) -> str:
    return f"{value:.1f}"


SPEED = (
    Line("new orders a minute", "run.tpcc.new_orders_a_minute"),
    Line("transactions a second", "run.tps"),
    Line("slowest minute : mean", "run.tpcc.slowest_minute", two_digits),
    Line("slowest second : mean", "run.tpcc.slowest_second", two_digits),
    Line("seconds in a row without a new order", "run.tpcc.seconds_without"),
    Line("tried again after a deadlock", "run.tpcc.conflicts.deadlocks"),
    Line("after a lock wait timeout", "run.tpcc.conflicts.lock_wait_timeouts"),
    Line("after a record had changed", "run.tpcc.conflicts.changed_records"),
    Line("after another conflict", "run.tpcc.conflicts.other"),
    Line("rolled back for their unused item", "run.tpcc.rolled_back"),
)
COST = (
    Line("CPU per transaction, µs", "run.cpu_us"),
    Line("the same with the work until rest", "run.with_rest.cpu_us"),
    Line("CPU of the clients per transaction, µs", "run.client_cpu_us"),
    Line("bytes written per transaction", "run.bytes_written"),
    Line("the same with the work until rest", "run.with_rest.bytes_written"),
    Line("bytes read per transaction", "run.bytes_read"),
    Line(
        "requests to the bucket per transaction",
        "run.with_rest.bucket_requests",
        lambda value: f"{value:.5f}",
    ),
    Line("peak RSS, MB", "run.server.rss_peak_bytes", megabytes),
)
LOAD_AND_SPACE = (
    Line("load, seconds", "load.wall_s", one_digit),
    Line("load, CPU seconds", "load.cpu_s", one_digit),
    Line("load, MB written", "load.bytes_written", megabytes),
    Line("the same with the work until rest", "load.with_rest.bytes_written", megabytes),
    Line("until rest after it, seconds", "load.with_rest.settle_s", one_digit),
    Line("tables after the load, MB", "load.space.tables", megabytes),
    Line("tables after the run, MB", "run.space.tables", megabytes),
    Line("all files after the run, MB", "run.space.total", megabytes),
)
CHART = (
    Line("new orders a minute", "run.tpcc.new_orders_a_minute"),
    Line("New-Order p99, ms", "run.tpcc.latency_ms.new_order.p99"),
    Line("New-Order p99.9, ms", "run.tpcc.latency_ms.new_order.p99.9"),
    Line("New-Order longest, ms", "run.tpcc.latency_ms.new_order.max"),
    Line("CPU per transaction, µs", "run.cpu_us"),
    Line("bytes written per transaction until rest", "run.with_rest.bytes_written"),
    Line("load, seconds", "load.wall_s"),
    Line("tables after the run, MB", "run.space.tables", megabytes),
)


def report_of(arguments: argparse.Namespace, plan: Any, repetitions: int) -> Report:
    """Returns a report with its settings and without results. `plan` is a Plan of bench/tpcc.py."""
    memory = f"caches of {plan.caches_bytes // MIB} MiB"
    if plan.group_bytes:
        memory += f" in a memory cgroup of {plan.group_bytes // MIB} MiB, where the page cache counts"
    elif not plan.in_memory:
        memory += (
            "; the page cache is not limited, which helps Atoll alone: the others read and write directly"
        )
    statements = "changes are prepared, queries whose values a transaction needs are text"
    if "db-ps-mode" in plan.script_options():
        statements = "all are text"
    settings = {
        "warehouses": plan.warehouses, "clients": plan.clients,
        "think time": "none, and no keying time; a client takes any warehouse for each transaction",
        "mix": "decks of 10 New-Order, 10 Payment and one each of Order-Status, Delivery and Stock-Level",
        "Delivery": "one transaction for ten districts, which the client waits for",
        "seconds of a run": f"{plan.seconds:g} after {plan.warmup_s:g} of warm-up", "repetitions": repetitions,
        "memory": memory, "values": "filler text is half random, half repeated (2 : 1)",
        "foreign keys": "nine, in the setups that say so" if arguments.foreign_keys else "none",
        "statements": statements,
        "durability of Atoll": DURABILITY,
    }  # fmt: skip
    text = (
        "The tables, population, transactions and mix of TPC-C 5.11, written for sysbench. Without think time its "
        "figures cannot be compared with published ones. A new order counts when it is committed. Before and after "
        "each run all twelve consistency conditions held, and the orders in the tables were those that the clients "
        "saw committed."
    )
    name, title = "tpcc", "TPC-C"
    if not plan.in_memory:
        name, title = "tpcc-memory", "TPC-C, larger than memory"
    if arguments.foreign_keys:
        name, title = f"{name}-foreign", f"{title}, with constraints FOREIGN KEY"
    if arguments.long:
        name, title = f"{name}-long", f"{title}, minute by minute"
    return Report(name, title, command_of(arguments), text, settings, quick=arguments.quick)


def command_of(arguments: argparse.Namespace) -> str:
    parts = ["make bench-tpcc"]
    parts += [f"{name.upper()}=1" for name in ("quick", "long", "foreign_keys") if getattr(arguments, name)]
    names = {"warehouses": "WAREHOUSES", "seconds": "SECONDS", "repeat": "REPEAT", "memory_mib": "MEMORY"}
    parts += [f"{name}={getattr(arguments, key):g}" for key, name in names.items() if getattr(arguments, key)]
    parts += [f"CLIENTS={arguments.clients}"]
    return " ".join([*parts, *([f'SETUPS="{arguments.setups}"'] if arguments.setups else [])])


def add_tables(report: Report, results: dict[str, Any], setups: list[str]) -> None:
    add_figures(report, "Speed", results, setups, SPEED)
    text = (
        "Of the server's process. Rest: all changes are in files; the shutdown of the server is part of the way. In a "
        "short run that is each changed page of InnoDB once and few compactions of the others; half an hour tells more."
    )
    add_figures(report, "What a transaction costs", results, setups, COST, text)
    text = "Space is that of the stopped server, when all changes are in files."
    add_figures(report, "Load and space", results, setups, LOAD_AND_SPACE, text)
    for kind, label in KINDS.items():
        lines = [
            Line(shown, f"run.tpcc.latency_ms.{kind}.{name}", three_figures)
            for name, shown in (
                ("p50", "p50"),
                ("p95", "p95"),
                ("p99", "p99"),
                ("p99.9", "p99.9"),
                ("max", "longest"),
            )
        ]
        add_figures(report, f"Latency of {label}, ms", results, setups, lines)
    add_remote_table(report, results)
    draw_figures(report, f"{report.name}.png", report.title, results, setups, CHART)
    draw_time(report, results)


def add_remote_table(report: Report, results: dict[str, Any]) -> None:
    """Adds a table that compares Atoll with and without MinIO, if both have run. MinIO uses the same cores as
    the server."""
    rows = []
    for label, name in (("CPU per transaction", "run.cpu_us"),
                        ("new orders a minute", "run.tpcc.new_orders_a_minute")):  # fmt: skip
        remote, local = figure(results, REMOTE, name), figure(results, LOCAL, name)
        if remote and local:
            rows.append([label, ratio_text(remote / local)])
    if rows:
        report.add_table("On MinIO (async) against file:// (local)", ["", f"{REMOTE} : {LOCAL}"], rows)


def draw_time(report: Report, results: dict[str, Any]) -> None:
    """Draws the new orders of the last repetition over time: by minute if it lasted ten minutes, otherwise by
    second."""
    by_second = {
        name: runs[-1]["run"]["tpcc"]["new_orders_by_second"]
        for name, runs in results["runs"].items()
        if runs
    }
    long = any(len(values) >= 600 for values in by_second.values())
    window_s, unit = (60, "minute") if long else (1, "second")
    curves = {
        name: [(i / window_s + 1, sum(values[i : i + window_s]))
               for i in range(0, len(values) - window_s + 1, window_s)]
        for name, values in by_second.items()
    }  # fmt: skip
    title = f"{report.title}: new orders in each {unit}"
    target = report.add_chart(f"{report.name}-time.png", title)
    charts.lines({"last repetition": curves}, target, title=title, x_label=unit, y_label="new orders")
    if long:
        minutes = range(max(len(points) for points in curves.values()))
        rows = [
            [
                minute + 1,
                *(f"{points[minute][1]:,}" if minute < len(points) else "" for points in curves.values()),
            ]
            for minute in minutes
        ]
        report.add_table("New orders in each minute", ["minute", *curves], rows)
