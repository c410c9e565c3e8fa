"""Measures the resources that a server process uses, as the difference of two readings of kernel counters;
and space on disk.

CPU time comes from the CPU clock of the process (nanoseconds); user and system time come from
/proc/<pid>/stat (10 ms). Bytes written and read come from /proc/<pid>/io, which counts bytes for the storage
layer; writes to the page cache count when pages become dirty. Background threads are included, because their
work is caused by the transactions.
"""

from __future__ import annotations

import contextlib
import os
import platform
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests"))

from common.rig import Running
from harness import disk, paths

PINNED = paths.ROOT / "tools" / "setup" / "versions.env"
TICK_HZ = os.sysconf("SC_CLK_TCK")
LOG_NAMES = ("ib_logfile", "aria_log", "binlog.", "tc.log", "ddl_recovery")
SYSTEM_NAMES = ("ibdata", "ibtmp", "undo", "ib_buffer_pool")
SYSTEM_FOLDERS = ("mysql", "sys", "performance_schema")


@dataclass
class Reading:
    """The kernel's counters for a process, and the engine's counters, at one moment."""

    wall_s: float
    cpu_s: float
    user_s: float
    system_s: float
    bytes_written: int
    bytes_read: int
    switches: dict[int, tuple[int, int]]  # by thread: voluntary, involuntary
    rss_bytes: int
    counters: dict[str, int]
    bucket_cpu_s: float = 0.0


def cpu_clock_s(pid: int) -> float:
    """Returns the CPU time of a process and all its threads, including threads that have ended."""
    return time.clock_gettime((~pid << 3) | 2)  # CPUCLOCK_SCHED of that process, see clock_getcpuclockid(3)


def _stat_times_s(pid: int) -> tuple[float, float]:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return int(fields[11]) / TICK_HZ, int(fields[12]) / TICK_HZ


def _pairs(path: Path) -> dict[str, str]:
    lines = (line.partition(":") for line in path.read_text().splitlines())
    return {name: value.strip() for name, _, value in lines}


def _switches(pid: int) -> dict[int, tuple[int, int]]:
    found = {}
    for task in Path(f"/proc/{pid}/task").iterdir():
        with contextlib.suppress(OSError):
            fields = _pairs(task / "status")
            counts = int(fields["voluntary_ctxt_switches"]), int(fields["nonvoluntary_ctxt_switches"])
            found[int(task.name)] = counts
    return found


def engine_counters(running: Running) -> dict[str, int]:
    """Returns the engine's status variables that are numbers: those of Atoll, MyRocks or InnoDB."""
    patterns = {"ATOLL": "Atoll%", "ROCKSDB": "Rocksdb%"}
    status = running.server.status(patterns.get(running.engine, "Innodb%"))
    return {name: int(value) for name, value in status.items() if value.isdigit()}


def read_accounts(running: Running) -> Reading:
    counters = engine_counters(running)  # first, so that their cost is not in the difference
    pid = running.pid
    io = _pairs(Path(f"/proc/{pid}/io"))
    user_s, system_s = _stat_times_s(pid)
    return Reading(
        wall_s=time.monotonic(),
        cpu_s=cpu_clock_s(pid),
        user_s=user_s,
        system_s=system_s,
        bytes_written=int(io["write_bytes"]) - int(io["cancelled_write_bytes"]),
        bytes_read=int(io["read_bytes"]),
        switches=_switches(pid),
        rss_bytes=running.server.rss_bytes(),
        counters=counters,
        bucket_cpu_s=cpu_clock_s(running.store.pid) if running.store else 0.0,
    )


@dataclass
class Measurement:
    """Measures what the server uses between start() and stop(). The memory peak is of this time if Linux
    allows to reset it.

    measurement = Measurement.start(running)
    ...
    figures = measurement.stop()
    """

    running: Running
    before: Reading
    figures: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def start(cls, running: Running) -> Measurement:
        with contextlib.suppress(OSError):
            Path(f"/proc/{running.pid}/clear_refs").write_text("5\n")
        return cls(running, read_accounts(running))

    def stop(self) -> dict[str, Any]:
        """Returns cpu_s, user_s, system_s, bytes_written, bytes_read, wall_s, rss_peak_bytes, context switches,
        requests to the bucket by kind, and the increase of each of the engine's counters (`counters`)."""
        after = self._read()
        before = self.before
        switches = [
            [new[i] - before.switches.get(thread, (0, 0))[i] for i in (0, 1)]
            for thread, new in after.switches.items()
        ]
        grown = {name: value - before.counters.get(name, 0) for name, value in after.counters.items()}
        requests = {
            name.removeprefix("atoll_requests_"): n for name, n in grown.items() if "atoll_requests_" in name
        }
        self.figures = {
            "wall_s": after.wall_s - before.wall_s,
            "cpu_s": after.cpu_s - before.cpu_s,
            "user_s": after.user_s - before.user_s,
            "system_s": after.system_s - before.system_s,
            "bytes_written": after.bytes_written - before.bytes_written,
            "bytes_read": after.bytes_read - before.bytes_read,
            "switches_voluntary": sum(pair[0] for pair in switches),
            "switches_forced": sum(pair[1] for pair in switches),
            "rss_peak_bytes": self.running.server.rss_peak_bytes(),
            "bucket_requests": sum(requests.values()),
            "requests": requests,
            "bucket_cpu_s": after.bucket_cpu_s - before.bucket_cpu_s,
            "counters": {name: value for name, value in grown.items() if value},
        }
        return self.figures

    def _read(self) -> Reading:
        pid = self.running.pid
        cpu_s, wall_s = cpu_clock_s(pid), time.monotonic()  # before the counters are read
        after = read_accounts(self.running)
        after.cpu_s, after.wall_s = cpu_s, wall_s
        return after


def wait_idle(running: Running, share: float = 0.05, window_s: float = 0.2, timeout_s: float = 20) -> bool:
    """Waits until the server uses less than the given share of a core. Returns False if the time is over
    before that."""
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        before = cpu_clock_s(running.pid)
        time.sleep(window_s)
        if cpu_clock_s(running.pid) - before < share * window_s:
            return True
    return False


def space(running: Running) -> dict[str, int]:
    """Returns allocated bytes: tables, logs, system and total of the data directory, and those of a bucket
    elsewhere.

    `tables` is the larger of the tables' bytes in the data directory and those in the bucket. Local copies of
    objects in the bucket are only a cache, but count in `total`.
    """
    data = running.server.data
    sums = {"tables": 0, "logs": 0, "system": 0}
    seen: set[tuple[int, int]] = set()
    for path in disk.files_below(data):
        with contextlib.suppress(FileNotFoundError):
            entry = path.stat()
            if (entry.st_dev, entry.st_ino) not in seen:
                seen.add((entry.st_dev, entry.st_ino))
                sums[_kind(path.relative_to(data))] += entry.st_blocks * 512
    sums["total"] = sum(sums.values())
    bucket = running.bucket_directory()
    sums["bucket"] = disk.allocated_bytes(bucket) if bucket else 0
    sums["tables"] = max(sums["tables"], sums["bucket"])
    return sums


def _kind(path: Path) -> str:
    if path.name.startswith(LOG_NAMES) or (path.suffix == ".log" and path.parts[0] in ("#rocksdb", "#atoll")):
        return "logs"
    if path.name.startswith(SYSTEM_NAMES) or path.parts[0] in SYSTEM_FOLDERS or len(path.parts) == 1:
        return "system"
    return "tables"


# ---- The machine and what runs on it -------------------------------------------------------------------


def describe_machine() -> dict[str, Any]:
    memory = _pairs(Path("/proc/meminfo"))["MemTotal"].split()[0]
    models = [
        line for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("model name")
    ]
    return {
        "cores": os.cpu_count(),
        "cpu": models[0].partition(":")[2].strip() if models else "unknown",
        "memory_bytes": int(memory) * 1024,
        "kernel": platform.release(),
        "python": platform.python_version(),
        "file_system": _file_system(paths.ROOT),
    }


def _file_system(directory: Path) -> str:
    done = subprocess.run(["stat", "-f", "-c", "%T", directory], capture_output=True, text=True, check=False)
    return done.stdout.strip()


def describe_versions(running: Running | None = None) -> dict[str, str]:
    """Returns the versions of server, sysbench, RocksDB, MinIO and the work tree."""
    versions = {"atoll": _commit()}
    if shutil.which("sysbench"):  # most benchmarks do not need it
        versions["sysbench"] = _first_line(["sysbench", "--version"]).removeprefix("sysbench ")
    pinned = dict(line.partition("=")[::2] for line in PINNED.read_text().splitlines() if "=" in line)
    versions["rocksdb of atoll"] = pinned["ROCKSDB_VERSION"]
    if running is None:
        # "/path/of/mariadbd  Ver 10.11.18-MariaDB-… for …"
        versions["mariadb"] = (
            _first_line([str(paths.program("mariadbd")), "--version"]).partition("Ver ")[2].partition(" ")[0]
        )
        return versions
    versions["mariadb"] = running.server.version().removesuffix("-log")
    if running.store:
        program = running.store.program_name
        versions[program] = pinned[f"{program.upper()}_VERSION"]
    if running.engine == "ROCKSDB":
        versions["rocksdb of myrocks"] = str(running.server.value("SELECT @@rocksdb_git_hash"))
    return versions


def _commit() -> str:
    commit = _first_line(["git", "-C", str(paths.ROOT), "rev-parse", "--short", "HEAD"])
    changed = _first_line(
        ["git", "-C", str(paths.ROOT), "status", "--porcelain", "-uno", "--", "engine", "crates"]
    )
    return commit + (" with changes" if changed else "")


def _first_line(command: list[str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    return done.stdout.splitlines()[0].strip() if done.stdout.strip() else ""
