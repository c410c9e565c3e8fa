"""Measures NEO's own import: its tools copy a FileStorage into a storage node whose tables use the engine
under test.

NEO is a distributed storage for ZODB, Zope's object database; its storage nodes keep objects in MariaDB. The objects
are those of NEO's own benchmark of imports (`PROD1` of neo.tests.stat_zodb: sizes and counts follow a production
Data.fs). Two of NEO's tools import them. neomigrate is a client that commits each transaction of the source
as a transaction of the cluster. With the Importer backend, the storage node reads the file itself and commits
once a second. Then neomigrate reads all objects back into another FileStorage, and the two files are
compared.

    build/bin/python bench/neo.py --transactions 5000
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from blob import seconds_shown, step
from common.compare import interleave
from common.figure_table import Line, add_figures, draw_figures
from common.fleet import arguments_parser, repetitions_of
from common.report import Report, megabytes, thousands, two_digits
from common.rest import DURABILITY, bring_to_rest, durability_of
from common.rig import MIB, Running, chosen_setups, start_setup
from harness import disk
from harness.process import discard, scratch_directory
from workloads.neo_cluster import PARTITIONS, Cluster, run_script

DEFAULT_TRANSACTIONS = 5000  # the number that NEO's own benchmark imports: 31.5 MB
QUICK_TRANSACTIONS = 300
DEFAULT_SETUPS = ("InnoDB", "MyRocks", "Atoll")
TOOLS = ("neomigrate", "Importer backend")


class Source:
    """The FileStorage to import. Each repetition has another one, made from the repetition's number. All
    setups and tools get the same."""

    def __init__(self, home: Path, transactions: int):
        self.home = home
        self.transactions = transactions
        self.counts: dict[int, tuple[int, ...]] = {}

    def path(self, repetition: int) -> Path:
        return self.home / f"{repetition}.fs"

    def copy(self, repetition: int, target: Path) -> tuple[int, ...]:
        """Copies the FileStorage of the repetition. Returns its numbers of transactions, of object revisions,
        and of bytes of objects."""
        path = self.path(repetition)
        if repetition not in self.counts:
            made = run_script("data_fs.py", "make", repetition, self.transactions, path)
            self.counts[repetition] = tuple(int(word) for word in made.split())
        shutil.copyfile(path, target)
        return self.counts[repetition]


class Import:
    """Measures the import by one of NEO's tools."""

    def __init__(self, report: Report, source: Source, memory_bytes: int, tool: str):
        self.report = report
        self.source = source
        self.memory_bytes = memory_bytes
        self.tool = tool

    def run_one(self, name: str, repetition: int) -> dict[str, Any]:
        home = scratch_directory("b")
        running: Running | None = None
        cluster: Cluster | None = None
        try:
            running = start_setup(name, self.memory_bytes, home, durability=durability_of(name))
            self.report.note(running)
            cluster = Cluster(running, home / "neo")
            figures = self._measure(cluster, home, self.source.copy(repetition, home / "Data.fs"))
        finally:
            if cluster:
                cluster.kill()
            if running:
                running.destroy()
            discard(home)
        speed, cpu = figures["import"]["kb_per_s"], figures["import"]["cpu_us_per_object"]
        print(f"  {name:18} {self.tool}: {speed:.0f} kB/s  {cpu:.0f} µs of CPU per object", flush=True)
        return figures

    def _measure(self, cluster: Cluster, home: Path, counts: tuple[int, ...]) -> dict[str, Any]:
        running, (_, objects, payload_bytes) = cluster.running, counts
        cluster.create_database()
        if self.tool == "neomigrate":
            cluster.start()
            spent = step(running, lambda: migrate(cluster, home / "Data.fs"))
        else:
            spent = step(running, lambda: start_and_import(cluster, home / "Data.fs"))
        rest = bring_to_rest(running)
        spent["cpu_s"] += rest.stop_cpu_s
        spent["bytes_written"] += rest.stop_bytes_written
        spent["kb_per_s"] = payload_bytes / spent["seconds"] / 1000
        spent["cpu_us_per_object"] = spent["cpu_s"] / objects * 1e6
        spent["written_per_byte"] = spent["bytes_written"] / payload_bytes
        disk.drop_page_cache(running.server.data)
        cluster.start()
        back = step(running, lambda: read_back(cluster, home), settle=False)
        back["cpu_us_per_object"] = back["cpu_s"] / objects * 1e6
        return {
            "objects": objects,
            "payload_bytes": payload_bytes,
            "import": spent,
            "space": {**rest.space, "per_byte": rest.space["tables"] / payload_bytes},
            "back": back,
        }


def migrate(cluster: Cluster, source: Path) -> float:
    """Imports with neomigrate, then stops the cluster so that everything is committed. Returns the seconds of
    neomigrate."""
    seconds = cluster.migrate(source, cluster.master)
    cluster.stop()
    return seconds


def start_and_import(cluster: Cluster, source: Path) -> float:
    """Starts a cluster whose storage node imports the file, and stops the cluster when the import is
    complete. Returns the seconds until then."""
    started = time.perf_counter()
    cluster.start(source)
    cluster.wait_imported()
    seconds = time.perf_counter() - started
    cluster.stop()
    return seconds


def read_back(cluster: Cluster, home: Path) -> float:
    """Reads all objects back with neomigrate and returns its seconds. Errors: NeoFailed when they differ from
    the imported ones."""
    seconds = cluster.migrate(cluster.master, home / "back.fs")
    run_script("data_fs.py", "compare", home / "Data.fs", home / "back.fs")
    return seconds


# ---- The report --------------------------------------------------------------------------------------------


LINES = (
    Line("import, kB of objects per second", "import.kb_per_s", thousands),
    Line("import, seconds", "import.seconds", seconds_shown),
    Line("import, CPU µs of the server per object until rest", "import.cpu_us_per_object", thousands),
    Line("import, MB written until rest", "import.bytes_written", megabytes),
    Line("bytes written per byte of objects", "import.written_per_byte", two_digits),
    Line("import, requests to the bucket", "import.bucket_requests"),
    Line("import, peak RSS, MB", "import.rss_peak_bytes", megabytes),
    Line("objects, MB", "payload_bytes", megabytes),
    Line("tables after the import, MB", "space.tables", megabytes),
    Line("per byte of objects", "space.per_byte", two_digits),
    Line("reading all back, seconds", "back.seconds", seconds_shown),
    Line("reading all back, CPU µs of the server per object", "back.cpu_us_per_object", thousands),
)
CHART = (
    Line("import, kB of objects per second", "import.kb_per_s"),
    Line("import, CPU µs per object", "import.cpu_us_per_object"),
    Line("import, MB written", "import.bytes_written", megabytes),
    Line("tables, MB", "space.tables", megabytes),
    Line("reading back, CPU µs per object", "back.cpu_us_per_object"),
    Line("import, peak RSS, MB", "import.rss_peak_bytes", megabytes),
)
TEXTS = {
    "neomigrate": "Each transaction is voted, locked and finished by the master; each new object is looked for first.",
    "Importer backend": "The start of NEO's three nodes is in the figures, as the import begins with it.",
}


def parse_arguments() -> argparse.Namespace:
    parser = arguments_parser(__doc__.splitlines()[0])
    transactions = int(os.environ.get("TRANSACTIONS") or 0)
    parser.add_argument("--transactions", type=int, default=transactions, help="of the source")
    return parser.parse_args()


def command_of(arguments: argparse.Namespace) -> str:
    parts = ["make bench-neo"] + (["QUICK=1"] if arguments.quick else [])
    parts += [f"TRANSACTIONS={arguments.transactions}"] if arguments.transactions else []
    parts += [f"REPEAT={arguments.repeat}"] if arguments.repeat else []
    return " ".join([*parts, *([f'SETUPS="{arguments.setups}"'] if arguments.setups else [])])


def settings_of(arguments: argparse.Namespace, transactions: int) -> dict[str, Any]:
    return {
        "objects": f"{transactions} transactions of NEO's PROD1 (log-normal: 4.4 objects a transaction, 1.4 kB an "
        "object, a fifth of them new revisions), compressible 2 : 1",
        "NEO": f"1.12.0, one master, one storage node, {PARTITIONS} partitions, no replica; it compresses objects "
        "itself (zlib), as is its default",
        "clients": 1, "repetitions": repetitions_of(arguments),
        "durability of Atoll": DURABILITY, "caches": f"{arguments.memory_mib} MiB",
    }  # fmt: skip


def main() -> int:
    arguments = parse_arguments()
    quick = arguments.quick
    transactions = arguments.transactions or (QUICK_TRANSACTIONS if quick else DEFAULT_TRANSACTIONS)
    setups = chosen_setups(arguments.setups, ("InnoDB", "Atoll") if quick else DEFAULT_SETUPS)
    text = (
        "NEO (a distributed storage for ZODB, Zope's object database) imports a FileStorage with its own tools, then "
        "reads all of it back; what comes back is compared. The engine is chosen by NEO's option; CPU and bytes are "
        "those of the MariaDB server alone, seconds have NEO's own work in them."
    )
    settings = settings_of(arguments, transactions)
    report = Report("neo", "NEO's own import", command_of(arguments), text, settings, quick=quick)
    home = scratch_directory("neo")
    source = Source(home, transactions)
    for number, tool in enumerate(TOOLS):
        case = Import(report, source, arguments.memory_mib * MIB, tool)
        results = interleave(setups, repetitions_of(arguments), case.run_one, failures=report.failures)
        report.results[tool] = results
        add_figures(report, f"Import by {tool}", results, setups, LINES, TEXTS[tool])
        draw_figures(report, f"neo-{number}.png", f"NEO's import by {tool}", results, setups, CHART)
    discard(home)
    report.save()
    return 0 if not report.failures else 1


if __name__ == "__main__":
    sys.exit(main())
