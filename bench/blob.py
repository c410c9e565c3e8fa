"""Objects of 1 KiB to 10 MiB as an object database imports them; then a scan of all, then a third is removed.

The tables are like those of NEO: `data` has each value once, with its hash; `obj` has the revisions of the
objects. An import looks up the newest revision of each object, stores the value if its hash is new, and
stores the new revision. The statements are built before the clock starts, so the times contain only the
server and the connection. Each setup and repetition has a fresh server. At the end every value that should
remain is read, and its hash is compared.

    build/bin/python bench/blob.py --bytes 1073741824
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from common.compare import interleave
from common.figure_table import Line, add_figures, draw_figures
from common.fleet import arguments_parser, repetitions_of
from common.measure import Measurement
from common.report import Report, megabytes, two_digits
from common.rest import DURABILITY, Rest, bring_to_rest, durability_of
from common.rig import MIB, SETUPS, Running, chosen_setups, start_setup
from harness import disk
from harness.process import discard, scratch_directory
from workloads.blob_import import WrongObjects, delete_objects, import_objects, make_tables, scan, verify
from workloads.blob_objects import BYTES_MAX, BYTES_MIN, Objects

DEFAULT_BYTES = 1 << 30
QUICK_BYTES = 64 * MIB
SEED = 20130622
# label -> share of each value that is random bytes; the other bytes compress to almost nothing
CASES = {"values that compress 2 : 1": 0.5, "values that do not compress": 1.0}


class Blobs:
    """Runs one case. All setups get the same objects, which the repetition's seed determines."""

    def __init__(self, report: Report, payload_bytes: int, memory_bytes: int, label: str):
        self.report = report
        self.payload_bytes = payload_bytes
        self.memory_bytes = memory_bytes
        self.label = label

    def run_one(self, name: str, repetition: int) -> dict[str, Any]:
        home = scratch_directory("b")
        running: Running | None = None
        try:
            running = start_setup(
                name, self.memory_bytes, home, durability=durability_of(name),
                innodb_buffer_pool_load_at_startup=0,  # so that the first scan is cold
            )  # fmt: skip
            self.report.note(running)
            objects = Objects(SEED + repetition, self.payload_bytes, CASES[self.label])
            figures = self._measure(running, objects)
        except WrongObjects as error:
            raise RuntimeError(str(error)) from None  # noted as a failure of this setup
        finally:
            if running:
                running.destroy()
            discard(home)
        steps = "  ".join(f"{step} {figures[step]['seconds']:.1f} s" for step in STEPS)
        print(f"  {name:18} {self.label}: {steps}", flush=True)
        return figures

    def _measure(self, running: Running, objects: Objects) -> dict[str, Any]:
        make_tables(running)
        figures: dict[str, Any] = {"import": step(running, lambda: import_objects(running, objects))}
        figures["import"]["payload_bytes"] = objects.stored_bytes
        figures["after_import"] = at_rest(running, objects, figures["import"])
        figures["import"]["written_per_byte"] = figures["import"]["bytes_written"] / objects.stored_bytes
        figures["scan"] = step(running, lambda: scan(running, objects), settle=False)
        figures["scan_again"] = step(running, lambda: scan(running, objects), settle=False)
        figures["delete"] = step(running, lambda: delete_objects(running, objects))
        figures["after_delete"] = at_rest(running, objects, figures["delete"])
        verify(running, objects)
        figures["optimize"] = step(running, lambda: optimize(running))
        figures["after_optimize"] = at_rest(running, objects, figures["optimize"])
        return figures


STEPS = ("import", "scan", "scan_again", "delete", "optimize")


def step(running: Running, work: Callable[[], float], settle: bool = True) -> dict[str, Any]:
    """Runs `work`, then waits for the engine's background work. `work` returns the seconds that it measured.

    Returns those seconds, the seconds of waiting, and for both phases together the server's CPU time, bytes
    written and read, requests to the bucket and peak of resident memory.
    """
    measurement = Measurement.start(running)
    seconds = work()
    settle_s = running.settle() if settle else 0.0
    spent = measurement.stop()
    names = ("cpu_s", "bytes_written", "bytes_read", "rss_peak_bytes", "bucket_requests")
    return {"seconds": seconds, "settle_s": settle_s, **{name: spent[name] for name in names}}


def at_rest(running: Running, objects: Objects, spent: dict[str, Any]) -> dict[str, float]:
    """Brings the server to rest and returns the space it takes. Adds the CPU time and the bytes written by
    the shutdown to `spent`, and drops the page cache."""
    rest: Rest = bring_to_rest(running)
    spent["cpu_s"] += rest.stop_cpu_s
    spent["bytes_written"] += rest.stop_bytes_written
    disk.drop_page_cache(running.server.data)
    return {**rest.space, "per_live_byte": rest.space["tables"] / max(objects.live_bytes(), 1)}


def optimize(running: Running) -> float:
    started = time.perf_counter()
    running.execute("OPTIMIZE TABLE obj", "OPTIMIZE TABLE data", database="neo")
    return time.perf_counter() - started


# ---- The report --------------------------------------------------------------------------------------------


def seconds_shown(value: float) -> str:
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}"


TIMES = (
    Line("import, seconds", "import.seconds", seconds_shown),
    Line("until rest after it", "import.settle_s", seconds_shown),
    Line("scan in order of tid, cold", "scan.seconds", seconds_shown),
    Line("scan again", "scan_again.seconds", seconds_shown),
    Line("deletion of a third", "delete.seconds", seconds_shown),
    Line("until rest after it", "delete.settle_s", seconds_shown),
    Line("OPTIMIZE TABLE", "optimize.seconds", seconds_shown),
)
COSTS = (
    Line("import, CPU seconds until rest", "import.cpu_s", seconds_shown),
    Line("scan, CPU seconds", "scan.cpu_s", seconds_shown),
    Line("deletion, CPU seconds until rest", "delete.cpu_s", seconds_shown),
    Line("import, MB written until rest", "import.bytes_written", megabytes),
    Line("bytes written per byte of values", "import.written_per_byte", two_digits),
    Line("deletion, MB written until rest", "delete.bytes_written", megabytes),
    Line("import, requests to the bucket", "import.bucket_requests"),
    Line("import, peak RSS, MB", "import.rss_peak_bytes", megabytes),
    Line("scan, peak RSS, MB", "scan.rss_peak_bytes", megabytes),
)
SPACES = (
    Line("values, MB", "import.payload_bytes", megabytes),
    Line("tables after the import, MB", "after_import.tables", megabytes),
    Line("per byte of values", "after_import.per_live_byte", two_digits),
    Line("after deletion of a third, MB", "after_delete.tables", megabytes),
    Line("per byte of values left", "after_delete.per_live_byte", two_digits),
    Line("after OPTIMIZE TABLE, MB", "after_optimize.tables", megabytes),
)
CHART = (
    Line("import, seconds", "import.seconds"),
    Line("cold scan, seconds", "scan.seconds"),
    Line("deletion, seconds", "delete.seconds"),
    Line("import, CPU seconds", "import.cpu_s"),
    Line("import, MB written", "import.bytes_written", megabytes),
    Line("tables after the import, MB", "after_import.tables", megabytes),
    Line("tables after the deletion, MB", "after_delete.tables", megabytes),
    Line("import, peak RSS, MB", "import.rss_peak_bytes", megabytes),
)


def add_tables(report: Report, cases: dict[str, dict[str, Any]], setups: list[str]) -> None:
    for number, (label, results) in enumerate(cases.items()):
        add_figures(report, f"Time, {label}", results, setups, TIMES)
        text = "Of the server's process. Rest: all changes are in files; the shutdown of the server is part of the way."
        add_figures(report, f"Cost, {label}", results, setups, COSTS, text)
        text = "Files of the stopped server; deleted objects included where they still take space."
        add_figures(report, f"Space, {label}", results, setups, SPACES, text)
        draw_figures(report, f"blob-{number}.png", f"Objects: {label}", results, setups, CHART)


def parse_arguments() -> argparse.Namespace:
    parser = arguments_parser(__doc__.splitlines()[0])
    parser.add_argument("--bytes", type=int, default=int(os.environ.get("BYTES") or 0), help="of values")
    return parser.parse_args()


def command_of(arguments: argparse.Namespace) -> str:
    parts = ["make bench-blob"] + (["QUICK=1"] if arguments.quick else [])
    parts += [f"BYTES={arguments.bytes}"] if arguments.bytes else []
    parts += [f"REPEAT={arguments.repeat}"] if arguments.repeat else []
    return " ".join([*parts, *([f'SETUPS="{arguments.setups}"'] if arguments.setups else [])])


def main() -> int:
    arguments = parse_arguments()
    quick = arguments.quick
    payload_bytes = arguments.bytes or (QUICK_BYTES if quick else DEFAULT_BYTES)
    setups = chosen_setups(arguments.setups, ("InnoDB", "Atoll") if quick else tuple(SETUPS))
    repetitions = repetitions_of(arguments)
    settings = {
        "values": f"{payload_bytes / MIB:.0f} MiB in all",
        "objects": f"{BYTES_MIN} bytes to {BYTES_MAX // MIB} MiB, log-uniform; a fifth are new revisions of an object "
        "that is there, one value in fifty is there already",
        "transactions": "1 to 100 objects, log-uniform", "clients": 1, "repetitions": repetitions,
        "durability of Atoll": DURABILITY, "caches": f"{arguments.memory_mib} MiB",
    }  # fmt: skip
    text = (
        "Objects as an object database (NEO) imports them: the newest revision is looked up, the value is stored once "
        "by its hash, then the revision. Then all objects are read in the order of their transactions, and a third is "
        "removed with the values that nobody needs any more."
    )
    report = Report("blob", "Objects of 1 KiB to 10 MiB", command_of(arguments), text, settings, quick=quick)
    cases = {}
    for label in CASES:
        blobs = Blobs(report, payload_bytes, arguments.memory_mib * MIB, label)
        cases[label] = interleave(setups, repetitions, blobs.run_one, failures=report.failures)
    report.results.update(cases)
    add_tables(report, cases, setups)
    report.save()
    return 0 if not report.failures else 1


if __name__ == "__main__":
    sys.exit(main())
