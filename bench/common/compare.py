"""Runs the setups to be compared in turn, and computes medians with their spread and ratios to InnoDB.

In each repetition every setup has its turn, and each repetition begins with another setup. So a slow change
of the machine's speed affects all of them. A setup that fails is noted and left out from then on; the others
go on.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pymysql

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests"))

from common.rig import BASELINE
from common.sysbench import SysbenchFailed
from harness.server import ServerFailed

RUN_FAILURES = (
    pymysql.Error, OSError, KeyError, ServerFailed, SysbenchFailed, subprocess.TimeoutExpired, RuntimeError,
)  # fmt: skip
# Entries of a run's results that the summary leaves out, because they are text or too long.
NOT_COMPARED = ("output", "series", "counters")


def interleave(
    setups: Sequence[str],
    repetitions: int,
    run_one: Callable[[str, int], dict[str, Any]],
    base: str = BASELINE,
    failures: dict[str, str] | None = None,
) -> dict[str, Any]:
    """Calls `run_one(setup name, repetition)` for all setups in turn. It returns figures in dictionaries of
    any depth.

    Returns {"setups": {name: {figure: {"median", "min", "max", "ratio"}}}, "runs": {name: [what run_one returned]}}.
    Nested names are joined by dots ("latency_ms.p99"). `ratio` is the median, over the repetitions, of the
    ratio to the setup `base`; None without that setup.
    `failures`: setup -> error. Setups in it are not run, and new failures are added.
    """
    failed = {} if failures is None else failures
    runs: dict[str, list[dict[str, Any]]] = {name: [] for name in setups}
    for repetition in range(repetitions):
        first = repetition % len(setups)
        for name in [*setups[first:], *setups[:first]]:
            if name in failed:
                continue
            try:
                runs[name].append(run_one(name, repetition))
            except RUN_FAILURES as error:
                failed[name] = f"{type(error).__name__}: {error}"
                print(f"    {name} FAILED: {failed[name]}", flush=True)
    return {
        "setups": summarize(runs, base),
        "runs": {name: [_slim(run) for run in done] for name, done in runs.items()},
    }


def summarize(runs: dict[str, list[dict[str, Any]]], base: str = BASELINE) -> dict[str, dict[str, Any]]:
    """Returns median, min, max and ratio to `base` of every figure of every setup."""
    flat = {name: [dict(_flat(run)) for run in done] for name, done in runs.items() if done}
    summary: dict[str, dict[str, Any]] = {}
    for name, done in flat.items():
        summary[name] = {}
        for figure in done[0]:
            values = [run[figure] for run in done if figure in run]
            spread = {"median": statistics.median(values), "min": min(values), "max": max(values)}
            summary[name][figure] = {**spread, "ratio": _ratio(done, flat.get(base, []), figure)}
    return summary


def _ratio(runs: list[dict[str, float]], references: list[dict[str, float]], figure: str) -> float | None:
    """Returns the median of the ratios within each repetition: a phase in which the machine is slow does not
    change these."""
    pairs = [(run.get(figure), other.get(figure)) for run, other in zip(runs, references, strict=False)]
    ratios = [value / reference for value, reference in pairs if value is not None and reference]
    return statistics.median(ratios) if ratios else None


def figure(results: dict[str, Any], setup: str, name: str, what: str = "median") -> float | None:
    """Returns one figure from the results of interleave(). None when that setup does not have the figure."""
    return results["setups"].get(setup, {}).get(name, {}).get(what)


def summary_of_ratios(
    cases: dict[str, dict[str, Any]], setups: Sequence[str], name: str
) -> dict[str, dict[str, dict[str, float]]]:
    """Returns for each setup, from the ratios of one figure in all cases: the median, the greatest, and how
    many are above 1.5 and above 2."""
    found = {}
    for setup in setups:
        ratios = [ratio for case in cases.values() if (ratio := figure(case, setup, name, "ratio"))]
        if ratios:
            values = {
                "median": statistics.median(ratios),
                "greatest": max(ratios),
                "above 1.5": float(sum(ratio > 1.5 for ratio in ratios)),
                "above 2": float(sum(ratio > 2 for ratio in ratios)),
            }
            found[setup] = {what: {"ratio": value} for what, value in values.items()}
    return found


def _flat(values: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, float]]:
    for name, value in values.items():
        if name in NOT_COMPARED:
            continue
        if isinstance(value, dict):
            yield from _flat(value, f"{prefix}{name}.")
        elif isinstance(value, int | float) and not isinstance(value, bool):
            yield f"{prefix}{name}", value


def _slim(run: dict[str, Any]) -> dict[str, Any]:
    """Returns the run without sysbench's text and the engine's counters, for the JSON file."""
    return {
        name: _slim(value) if isinstance(value, dict) else value
        for name, value in run.items()
        if name not in ("output", "counters")
    }
