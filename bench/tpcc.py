"""TPC-C with each setup: new orders a minute, latency by transaction, CPU and bytes per transaction, space.

The workload is bench/tpcc/tpcc.lua. Every setup and repetition has a fresh server. Its phases are: load,
rest, check, warm-up, run, rest, check. A check evaluates the consistency conditions of the specification. The
run fails if one does not hold, or if the number of orders in the tables is not the number that the clients
saw committed. Without --memory-mib the data fit in the caches. With it the server runs in a memory cgroup of
that size, which includes the page cache, and the data are four times as large. If no cgroup can be made, only
the engines' caches are limited. --long runs for half an hour and reports each minute. --foreign-keys runs each
setup a second time, with the nine constraints FOREIGN KEY of the specification's tables.

    build/bin/python bench/tpcc.py --warehouses 10 --clients 4 --seconds 120
    build/bin/python bench/tpcc.py --memory-mib 512
    build/bin/python bench/tpcc.py --long
    build/bin/python bench/tpcc.py --foreign-keys --setups InnoDB,Atoll
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from common.compare import interleave
from common.fleet import arguments_parser, repetitions_of
from common.measure import Measurement, wait_idle
from common.rest import GROUP_BYTES_MIN, SERVER_BYTES, bring_to_rest, cgroups_work, durability_of
from common.rig import MIB, SETUPS, Running, chosen_setups, start_setup
from common.sysbench import SysbenchFailed, prepare_sysbench, run_sysbench, slowest_window, sysbench
from harness.process import discard, scratch_directory
from linkbench import with_rest
from workloads.tpcc_report import add_tables, report_of

SCRIPT = Path(__file__).resolve().parent / "tpcc" / "tpcc.lua"
DATABASE = "tpcc"
CACHES_BYTES = 2048 * MIB  # if the data fit in memory; ten warehouses take 1.1 GB in InnoDB
PREPARED_SECONDS_MAX = 600  # longer runs send all statements as text, see script_options()
LONG_CACHES_BYTES = 4096 * MIB  # half an hour adds more than a million orders
DATA_TO_MEMORY = 4
WAREHOUSE_BYTES = 110_000_000  # in InnoDB, about
LOAD_THREADS = 2
CHECK_THREADS = 2
WINDOW_S = 60
WITH_KEYS = ", with keys"  # behind the name of a setup: its tables have constraints FOREIGN KEY
WARMUP_SEED = 1000
# Statements that bring the tables into the caches: the rows by the primary key, and the two other indexes.
SCANS = (
    "SELECT SUM(LENGTH(c_data)) FROM customer FORCE INDEX (PRIMARY)",
    "SELECT COUNT(c_first) FROM customer FORCE INDEX (customer_name) WHERE c_w_id >= 0",
    "SELECT COUNT(o_entry_d) FROM orders FORCE INDEX (PRIMARY)",
    "SELECT COUNT(o_c_id) FROM orders FORCE INDEX (orders_customer) WHERE o_w_id >= 0",
    "SELECT SUM(ol_amount) FROM order_line",
    "SELECT SUM(LENGTH(s_data)) FROM stock",
    "SELECT SUM(LENGTH(i_data)) FROM item",
)


@dataclass(frozen=True)
class Plan:
    """The size and duration of a run, the same for every setup."""

    warehouses: int
    clients: int
    seconds: float
    warmup_s: float
    caches_bytes: int
    in_memory: bool = True
    group_bytes: int = 0  # 0: no limit
    foreign_keys: bool = False  # whether the tables have their nine constraints

    def script_options(self, seed: int = 0) -> dict[str, object]:
        """Returns the options of tpcc.lua. `seed` is that of the clients' random numbers; 0 uses the time.

        Long runs do not use prepared statements, because sysbench with libmariadb keeps 2 to 3 KB of memory
        for each execution: 20 GiB in half an hour.
        """
        prepared = {} if self.seconds < PREPARED_SECONDS_MAX else {"db-ps-mode": "disable"}
        constraints = {"fk": "all"} if self.foreign_keys else {}
        return {"warehouses": self.warehouses, "seed": seed, **prepared, **constraints}


class Inconsistent(RuntimeError):
    """The tables violate a consistency condition, or do not have the orders that the clients saw
    committed."""


def start(name: str, plan: Plan, home: Path) -> Running:
    options: dict[str, Any] = {"group_bytes": plan.group_bytes} if plan.group_bytes else {}
    return start_setup(name, plan.caches_bytes, home, durability=durability_of(name), **options)


def load(running: Running, plan: Plan) -> dict[str, Any]:
    """Fills the tables. Returns the resources that this took, and the space of the tables afterwards."""
    whole = Measurement.start(running)
    spent = prepare_sysbench(running, plan.script_options(), SCRIPT, threads=LOAD_THREADS, database=DATABASE)
    settle_s = running.settle()
    until_settled = whole.stop()
    rest = bring_to_rest(running)
    names = ("wall_s", "cpu_s", "bytes_written", "rss_peak_bytes", "bucket_requests")
    return {
        **{name: spent[name] for name in names},
        "with_rest": with_rest(until_settled, settle_s, rest, 1),
        "space": rest.space,
    }


def check(running: Running, plan: Plan) -> None:
    """Checks the consistency conditions of all warehouses. Errors: Inconsistent, with the first
    violations."""
    options = plan.script_options()
    output = sysbench(running, SCRIPT, "check", options, threads=CHECK_THREADS, database=DATABASE)
    consistent = len(re.findall(r"^warehouse \d+ is consistent$", output, re.MULTILINE))
    if consistent != plan.warehouses:
        wrong = re.findall(r"^(?:VIOLATION|FATAL): .*$", output, re.MULTILINE)
        raise Inconsistent(
            f"{consistent} of {plan.warehouses} warehouses are consistent: {'; '.join(wrong[:5])}"
        )


def orders_in(running: Running) -> int:
    return int(running.execute("SELECT SUM(d_next_o_id - 1) FROM district", database=DATABASE)[0][0])


def drive(running: Running, plan: Plan, seed: int) -> dict[str, Any]:
    """Warms up, runs the mix of transactions, compares the orders with the clients' counts, and brings the
    server to rest."""
    if plan.in_memory:
        running.execute(*SCANS, database=DATABASE)
    wait_idle(running)
    if plan.warmup_s:
        warmup = {**plan.script_options(WARMUP_SEED + seed), "time": round(plan.warmup_s)}
        sysbench(running, SCRIPT, "run", warmup, threads=plan.clients, database=DATABASE)
    orders_before = orders_in(running)
    whole = Measurement.start(running)
    figures = run_sysbench(
        running,
        SCRIPT,
        plan.script_options(seed),
        threads=plan.clients,
        seconds=plan.seconds,
        database=DATABASE,
    )
    settle_s = running.settle()
    until_settled, transactions = whole.stop(), max(figures["transactions"], 1)
    clients, new_orders = clients_of(figures["output"]), orders_in(running) - orders_before
    if new_orders != clients["transactions"]["new_order"]:
        committed = clients["transactions"]["new_order"]
        raise Inconsistent(f"{new_orders} new orders are in the tables, {committed} were committed")
    rest = bring_to_rest(running)
    return {
        **figures,
        "tpcc": clients,
        "bytes_read": figures["server"]["bytes_read"] / transactions,
        "with_rest": with_rest(until_settled, settle_s, rest, transactions),
        "space": rest.space,
    }


def clients_of(output: str) -> dict[str, Any]:
    """Returns the clients' counts from the line `tpcc-json:` in the script's output. Errors: SysbenchFailed
    when there is none.

    new_orders_a_minute, transactions {kind: committed}, rolled_back (because of their unused item), conflicts
    {kind: retries}, latency_ms {kind: {p50, …, max}}, new_orders_by_second, slowest_minute, slowest_second
    (both as a ratio to the mean), seconds_without (the most successive seconds without a new order).
    """
    line = re.search(r"^tpcc-json: (.*)$", output, re.MULTILINE)
    if not line:
        raise SysbenchFailed(f"the clients told no counts:\n{output[-1500:]}")
    counts = json.loads(line.group(1))
    whole_seconds = counts["new_orders_by_second"][: int(counts["seconds"])]
    empty = re.findall("x+", "".join("x" if value == 0 else "." for value in whole_seconds))
    counts["seconds_without"] = max(map(len, empty), default=0)
    for name, window_s in (("slowest_minute", WINDOW_S), ("slowest_second", 1)):
        slowest = slowest_window(whole_seconds[: len(whole_seconds) // window_s * window_s], window_s)
        if slowest is not None:
            counts[name] = slowest
    return counts


class Tpcc:
    """Runs the plan; each run has a fresh server of the setup."""

    def __init__(self, plan: Plan, report: Any):
        self.plan = plan
        self.report = report

    def run_one(self, name: str, repetition: int) -> dict[str, Any]:
        home = scratch_directory("b")
        running: Running | None = None
        try:
            plan = replace(self.plan, foreign_keys=name.endswith(WITH_KEYS))
            running = start(name.removesuffix(WITH_KEYS), plan, home)
            self.report.note(running)
            figures = self._measure(running, plan, 1 + repetition)
        finally:
            if running:
                running.destroy()
            discard(home)
        run = figures["run"]
        print(
            f"  {name:18} load {figures['load']['wall_s']:.1f} s, "
            f"{run['tpcc']['new_orders_a_minute']:,.0f} new orders a minute, {run['cpu_us']:.0f} µs, "
            f"{run['with_rest']['bytes_written']:,.0f} bytes, retries {sum(run['tpcc']['conflicts'].values())}",
            flush=True,
        )
        return figures

    @staticmethod
    def _measure(running: Running, plan: Plan, seed: int) -> dict[str, Any]:
        loaded = load(running, plan)
        check(running, plan)
        ran = drive(running, plan, seed)
        check(running, plan)  # after the restart, from the files
        return {"load": loaded, "run": ran}


# ---- Arguments ---------------------------------------------------------------------------------------------


def parse_arguments() -> argparse.Namespace:
    parser = arguments_parser(__doc__.splitlines()[0])
    parser.add_argument("--warehouses", type=int, default=0, help="10; quick 2; or by the memory")
    parser.add_argument("--clients", type=int, default=4)
    parser.add_argument(
        "--foreign-keys", action="store_true", help="each setup also with constraints FOREIGN KEY"
    )
    parser.add_argument("--long", action="store_true", help="half an hour, new orders by minute")
    parser.set_defaults(memory_mib=0)
    return parser.parse_args()


def plan_of(arguments: argparse.Namespace) -> Plan:
    """Returns the plan for the arguments. Errors: SystemExit when the given memory is too small for a
    server."""
    quick, long = arguments.quick, arguments.long
    caches, group, warehouses = LONG_CACHES_BYTES if long else CACHES_BYTES, 0, 2 if quick else 10
    if arguments.memory_mib:
        group = arguments.memory_mib * MIB
        if group < GROUP_BYTES_MIN:
            raise SystemExit(f"a server needs at least {GROUP_BYTES_MIN // MIB} MiB")
        caches = group - SERVER_BYTES
        warehouses = max(group * (1 if quick else DATA_TO_MEMORY) // WAREHOUSE_BYTES, 1)
        group = group if cgroups_work() else 0
    seconds = (60 if long else 10) if quick else (1800 if long else 120)
    return Plan(
        arguments.warehouses or warehouses, arguments.clients, arguments.seconds or seconds,
        2 if quick else 30, caches, not arguments.memory_mib, group,
    )  # fmt: skip


def main() -> int:
    arguments = parse_arguments()
    repetitions = arguments.repeat or (1 if arguments.long else repetitions_of(arguments))
    plan = plan_of(arguments)
    setups = chosen_setups(arguments.setups, ("InnoDB", "Atoll") if arguments.quick else tuple(SETUPS))
    if arguments.foreign_keys:
        setups = [name for setup in setups for name in (setup, setup + WITH_KEYS)]
    report = report_of(arguments, plan, repetitions)
    print(f"TPC-C: {plan.warehouses} warehouses, {plan.clients} clients, {', '.join(setups)}", flush=True)
    bench = Tpcc(plan, report)
    results = interleave(setups, repetitions, bench.run_one, failures=report.failures)
    report.results["tpcc"] = results
    add_tables(report, results, setups)
    report.save()
    return 0 if not report.failures else 1


if __name__ == "__main__":
    sys.exit(main())
