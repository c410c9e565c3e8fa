"""Starts the servers of several setups at once, and has the command line arguments that all benchmarks share.

All servers run for the whole benchmark, but only one at a time gets statements. An idle server uses almost no
CPU.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests"))

from common.compare import RUN_FAILURES
from common.report import Report
from common.rig import DEFAULT_MEMORY_BYTES, MIB, Running, chosen_setups, start_setup
from harness.process import discard, exit_cleanly_on_signals, scratch_directory


@contextlib.contextmanager
def fleet(
    names: Sequence[str], report: Report, memory_bytes: int = DEFAULT_MEMORY_BYTES, **options: object
) -> Iterator[dict[str, Running]]:
    """Starts the setups and yields their servers by name; finally destroys them all. `options` go to
    start_setup().

    A setup that does not start is added to the report's failures and left out of the yielded dictionary.
    """
    homes = []
    runnings: dict[str, Running] = {}
    try:
        for name in names:
            homes.append(scratch_directory("b"))
            try:
                runnings[name] = start_setup(name, memory_bytes, homes[-1], **options)  # type: ignore[arg-type]
                report.note(runnings[name])
            except RUN_FAILURES as error:
                report.failures[name] = f"{type(error).__name__}: {error}"
                print(f"  {name} does not start: {error}", flush=True)
        yield runnings
    finally:
        for running in runnings.values():
            running.destroy()
        for home in homes:
            discard(home)


def arguments_parser(description: str, *, rows: int = 0, repeat: int = 3) -> argparse.ArgumentParser:
    """Returns a parser with --quick, --rows, --repeat, --setups, --memory-mib and --seconds."""
    exit_cleanly_on_signals()
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--quick", action="store_true", default=bool(os.environ.get("QUICK")),
                        help="ends within 3 minutes; shows that it works")  # fmt: skip
    parser.add_argument("--rows", type=int, default=rows)
    parser.add_argument("--repeat", type=int, default=0, help=f"repetitions ({repeat}, quick: 1)")
    parser.add_argument("--setups", default="", help="names of competitors, by commas")
    parser.add_argument("--seconds", type=float, default=0, help="of each run")
    parser.add_argument("--memory-mib", type=int, default=DEFAULT_MEMORY_BYTES // MIB)
    parser.set_defaults(repeat_default=repeat)
    return parser


def engines_of(arguments: argparse.Namespace) -> list[str]:
    """Returns the setups of a run; without a choice, the engines on the local disk, in a quick run without MyRocks."""
    default = ("InnoDB", "Atoll") if arguments.quick else ("InnoDB", "MyRocks", "Atoll")
    return chosen_setups(arguments.setups, default)


def repetitions_of(arguments: argparse.Namespace) -> int:
    return arguments.repeat or (1 if arguments.quick else arguments.repeat_default)


def command_of(target: str, parser: argparse.ArgumentParser, arguments: argparse.Namespace) -> str:
    """Returns the make command that repeats this run."""
    names = {
        "rows": "ROWS",
        "repeat": "REPEAT",
        "seconds": "RUN_SECONDS",
        "threads": "THREADS",
        "latencies": "LATENCIES",
        "binlog": "BINLOG",
        "only": "ONLY",
        "memory_mib": "MEMORY_MIB",
        "bytes": "BYTES",
        "history_s": "HISTORY_S",
    }
    parts = [f"make {target}"] + (["QUICK=1"] if arguments.quick else [])
    for name, variable in names.items():
        value = getattr(arguments, name, None)
        if value and value != parser.get_default(name):
            parts.append(f"{variable}={value:g}" if isinstance(value, float) else f"{variable}={value}")
    if arguments.setups:
        parts.append(f'SETUPS="{arguments.setups}"')
    return " ".join(parts)
