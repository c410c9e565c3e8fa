"""Runs sysbench against the server of a setup and turns its output into figures.

sysbench prints only one percentile, but also a histogram (1,024 steps of 1.8 % from 1 µs to 100 s). All
percentiles are computed from the histogram. The client's CPU is not in the server's figures. One run is one
sysbench process. It connects within the measured time, which takes 0.2 ms a connection, so runs must be much
longer than that.
"""

from __future__ import annotations

import collections
import os
import re
import resource
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests"))

from common.measure import Measurement
from common.rig import Running

DATABASE = "sbtest"
PERCENTILES = (50, 95, 99, 99.9)
START_AND_END_S = 300  # the longest time of sysbench beyond the seconds of the run
_DIE_WITH_PARENT = ("setpriv", "--pdeathsig", "KILL", "--")
_BUCKET = re.compile(r"^\s+(\d+\.\d+) \|[*]*\s+(\d+)\s*$", re.MULTILINE)
_SECOND = re.compile(r"^\[ \d+s \] thds: \d+ tps: (\d+\.\d+)", re.MULTILINE)


_seeds: collections.Counter[str] = collections.Counter()


def fresh_seed(running: Running) -> int:
    """Returns a seed that was not used on this server yet. The n-th seed is the same for all servers, so all
    of them get the same keys."""
    _seeds[str(running.home)] += 1
    return 1000 + _seeds[str(running.home)]


class SysbenchFailed(Exception):
    """sysbench ended with an error; the message has the end of its output."""


def sysbench(
    running: Running,
    script: str | Path,
    command: str,
    options: dict[str, object] | None = None,
    *,
    threads: int = 1,
    timeout_s: float = 3600,
    database: str = DATABASE,
) -> str:
    """Runs `sysbench script command`; returns its output. Errors: SysbenchFailed, subprocess.TimeoutExpired."""
    given = {
        "db-driver": "mysql",
        "mysql-socket": running.socket,
        "mysql-user": "root",
        "mysql-db": database,
        "threads": threads,
        **{
            name.replace("-", "_") if _of_script(name) else name: value
            for name, value in (options or {}).items()
        },
    }
    arguments = [f"--{name}={value}" for name, value in given.items()]
    environment, folder = dict(os.environ), running.home
    if isinstance(script, Path):
        folder = script.resolve().parent
        environment["LUA_PATH"] = f"{folder}/?.lua;;"
        script = str(script.resolve())
    if shutil.which("sysbench") is None:
        raise SysbenchFailed("sysbench is not installed; as root: apt-get install sysbench")
    done = subprocess.run(
        [*_DIE_WITH_PARENT, "sysbench", script, *arguments, command],
        capture_output=True, text=True, errors="replace", timeout=timeout_s, check=False, cwd=folder, env=environment,
    )  # fmt: skip
    # When threads of a parallel command fail, sysbench's exit status is still 0.
    if done.returncode != 0 or "FATAL: " in done.stdout:
        raise SysbenchFailed(f"sysbench {script} {command}: {done.stdout[-1500:]}{done.stderr[-1500:]}")
    return done.stdout


def _of_script(name: str) -> bool:
    """Returns whether the option belongs to the script: its options have underscores, those of sysbench have
    dashes."""
    return not name.startswith(("mysql-", "rand-", "db-", "report-", "thread-", "forced-"))


def prepare_sysbench(
    running: Running,
    options: dict[str, object] | None = None,
    script: str | Path = "oltp_read_write",
    *,
    threads: int = 1,
    database: str = DATABASE,
) -> dict[str, Any]:
    """Creates the database anew and fills it by the script's command `prepare`. Returns the figures of a
    Measurement of the server for this."""
    running.execute(f"DROP DATABASE IF EXISTS {database}", f"CREATE DATABASE {database}")
    engine: dict[str, object] = {"mysql-storage-engine": running.engine_clause}
    measurement = Measurement.start(running)
    sysbench(running, script, "prepare", {**engine, **(options or {})}, threads=threads, database=database)
    figures = measurement.stop()
    for (table,) in running.execute("SHOW TABLES", database=database):
        running.execute(f"ANALYZE TABLE `{table}`", database=database)
    return figures


def run_sysbench(
    running: Running,
    script: str | Path,
    options: dict[str, object] | None = None,
    *,
    threads: int = 1,
    seconds: float = 0,
    events: int = 0,
    warmup_s: float = 0,
    percentiles: Sequence[float] = PERCENTILES,
    database: str = DATABASE,
) -> dict[str, Any]:
    """Runs sysbench for `seconds` or for `events`. Returns figures of client and server:

    transactions, tps, queries, errors, wall_s, latency_ms {avg, p50, …, max}, series (transactions in each
    second), stall {ms_max: the longest latency, so no pause of all clients was longer; seconds_without: the
    most successive seconds without a transaction; slowest_second: its share of the mean}, cpu_us,
    bytes_written and requests (to the bucket), each per transaction, client_cpu_us, and the whole Measurement
    as `server`. `output` is sysbench's text. A seed (rand-seed) is used for one run only. A second run with
    it would write the values that the rows already have, which costs almost nothing. So the warm-up uses
    another seed. Errors: SysbenchFailed, subprocess.TimeoutExpired.
    """
    if warmup_s:
        limits: dict[str, object] = {"time": round(warmup_s), "rand-seed": 0}
        sysbench(running, script, "run", {**(options or {}), **limits}, threads=threads, database=database)
    limits = {"time": round(seconds) if seconds else 0, "events": events}
    reports: dict[str, object] = {"histogram": "on", "report-interval": 1, "percentile": 99}
    client_before = _children_cpu_s()
    measurement = Measurement.start(running)
    output = sysbench(
        running, script, "run", {**(options or {}), **limits, **reports},
        threads=threads, timeout_s=seconds + START_AND_END_S if seconds else 24 * 3600, database=database,
    )  # fmt: skip
    server = measurement.stop()
    figures = {**parse(output, percentiles), "threads": threads, "server": server, "output": output}
    return {**figures, **_per_transaction(figures, _children_cpu_s() - client_before)}


def _per_transaction(figures: dict[str, Any], client_cpu_s: float) -> dict[str, float]:
    server, done = figures["server"], max(figures["transactions"], 1)
    return {
        "cpu_us": server["cpu_s"] * 1e6 / done,
        "bytes_written": server["bytes_written"] / done,
        "requests": server["bucket_requests"] / done,
        "client_cpu_us": client_cpu_s * 1e6 / done,
    }


def _children_cpu_s() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


# ---- Reading the report ----------------------------------------------------------------------------------


def parse(output: str, percentiles: Sequence[float] = PERCENTILES) -> dict[str, Any]:
    """Turns the output of `sysbench run` into figures. Errors: SysbenchFailed when the text is no such
    output."""
    wall_s = _number(output, r"total time:\s+([\d.]+)s")
    transactions = int(_number(output, r"transactions:\s+(\d+) "))
    latency = {
        "avg": _number(output, r"\n\s+avg:\s+([\d.]+)"),
        **{f"p{number:g}": value for number, value in _percentiles(output, percentiles).items()},
        "max": _number(output, r"\n\s+max:\s+([\d.]+)"),
    }
    series = [float(value) for value in _SECOND.findall(output)]
    return {
        "transactions": transactions,
        "tps": transactions / wall_s if wall_s else 0.0,
        "queries": int(_number(output, r"queries:\s+(\d+) ")),
        "errors": int(_number(output, r"ignored errors:\s+(\d+) ")),
        "wall_s": wall_s,
        "latency_ms": latency,
        "series": series,
        "stall": stall(series, latency["max"]),
    }


def stall(series: Sequence[float], latency_max_ms: float) -> dict[str, float]:
    """Returns two bounds of the longest pause of all clients, and the ratio of the slowest second to the
    mean."""
    longest = current = 0
    for value in series:
        current = current + 1 if value == 0 else 0
        longest = max(longest, current)
    mean = sum(series) / len(series) if series else 0.0
    slowest = min(series) / mean if mean else 0.0
    return {"ms_max": latency_max_ms, "seconds_without": longest, "slowest_second": slowest}


def slowest_window(series: Sequence[float], seconds: int = 60) -> float | None:
    """Returns the slowest window of `seconds` as a share of the mean. None when the series is shorter."""
    windows = [sum(series[i : i + seconds]) / seconds for i in range(0, len(series) - seconds + 1, seconds)]
    mean = sum(series) / len(series) if series else 0
    return min(windows) / mean if windows and mean else None


def _number(output: str, pattern: str) -> float:
    found = re.search(pattern, output)
    if not found:
        raise SysbenchFailed(f"sysbench's report has no {pattern!r}:\n{output[-1500:]}")
    return float(found.group(1))


def _percentiles(output: str, wanted: Sequence[float]) -> dict[float, float]:
    """Returns, for each wanted percentile, the lowest latency of the histogram that this share of the
    transactions did not exceed."""
    buckets = [(float(value), int(count)) for value, count in _BUCKET.findall(output)]
    total = sum(count for _, count in buckets)
    found: dict[float, float] = {}
    for number in wanted:
        so_far = 0
        for value, count in buckets:
            so_far += count
            if so_far >= total * number / 100:
                found[number] = value
                break
    return found
