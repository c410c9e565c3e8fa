"""Brings servers to rest, so that figures do not depend on changes that an engine keeps in memory or files
that it deletes later.

At rest every change is in files (the server was stopped once), no background work is left, and files that are
not needed any more are deleted. The kernel's counters for the stopped process tell how much the shutdown
itself wrote.
"""

from __future__ import annotations

import resource
import sys
import time
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests"))

from common.measure import cpu_clock_s, space
from common.rig import MIB, SETUPS, MemoryGroup, Running
from harness import disk

# Sizes for a memory cgroup: the server's memory besides the engine's caches, and the smallest group, which
# leaves room for the page cache.
SERVER_BYTES = 192 * MIB
GROUP_BYTES_MIN = 320 * MIB
# The collector may have to finish an earlier tombstone first. Each of the two takes ten seconds to gather
# keys and a minute of grace time; the limit has room to spare.
DELETE_TIMEOUT_S = 300
PURGE_TIMEOUT_S = 120
PURGED = 20  # transactions in InnoDB's history that may stay
BUCKET_FOLDERS = {"sst", "wal"}  # of table files, and of the log
# Allowance for files in the bucket that are not table files, and for blocks that a file does not fill.
TABLES_SLACK = 1.03
TABLES_SLACK_BYTES = 1 * MIB


DURABILITY = "local, on MinIO async"


def durability_of(name: str) -> str:
    """Returns Atoll's durability for a setup: "async" with a remote bucket, for which async is meant,
    otherwise "local"."""
    return "async" if SETUPS[name].remote else "local"


@dataclass
class Rest:
    """The space that a server at rest takes on disk (see measure.space), and the CPU time and bytes written
    of its shutdown."""

    space: dict[str, int]
    stop_cpu_s: float
    stop_bytes_written: int


def bring_to_rest(running: Running) -> Rest:
    """Stops the server, measures its space while it is stopped, and starts it again."""
    _wait_purged(running)
    running.settle()
    cpu_s, bytes_written = _stop(running)
    if running.engine == "ATOLL":
        # The shutdown writes new table files. The collector deletes the files that these replace some seconds
        # later, so a server must run then.
        running.server.start(**running.start_options)
        running.settle()
        _wait_deleted(running)
        running.server.stop()
    found = space(running)
    running.server.start(**running.start_options)
    running.settle()
    return Rest(found, cpu_s, bytes_written)


def space_at_rest(running: Running) -> dict[str, int]:
    """Returns the space that the server takes on disk at rest (see measure.space)."""
    return bring_to_rest(running).space


def cgroups_work() -> bool:
    try:
        MemoryGroup("probe", GROUP_BYTES_MIN).remove()
        return True
    except RuntimeError as error:
        print(f"  {error}: only the engines' caches are small", flush=True)
        return False


def _stop(running: Running) -> tuple[float, int]:
    """Stops the server. Returns the CPU seconds and the bytes written that the shutdown took."""
    pid = running.pid
    cpu_s, bytes_written = cpu_clock_s(pid), _bytes_written(pid)
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    running.server.stop()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)  # includes the whole life of the server's process
    life_cpu_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    life_bytes = (after.ru_oublock - before.ru_oublock) * 512
    return max(life_cpu_s - cpu_s, 0.0), max(life_bytes - bytes_written, 0)


def _bytes_written(pid: int) -> int:
    for line in Path(f"/proc/{pid}/io").read_text().splitlines():
        if line.startswith("write_bytes:"):
            return int(line.split()[1])
    return 0


def _wait_purged(running: Running) -> None:
    """Waits until InnoDB has purged deleted rows. Gives up after PURGE_TIMEOUT_S, because on a busy machine
    InnoDB may never finish."""
    deadline = time.monotonic() + PURGE_TIMEOUT_S
    while running.engine == "InnoDB" and time.monotonic() < deadline:
        if running.server.counter("Innodb_history_list_length") <= PURGED:
            return
        time.sleep(0.2)


def _wait_deleted(running: Running) -> None:
    """Waits until table files and log in the bucket take hardly more bytes than the table files in use.
    Errors: TimeoutError."""
    deadline = time.monotonic() + DELETE_TIMEOUT_S
    folder = running.bucket_directory() or running.server.data / "atoll_bucket"
    while True:
        in_use = running.server.counter("Atoll_files_bytes")
        files = disk.file_sizes(folder)
        there = {
            kind: sum(size for path, size in files.items() if kind in path.relative_to(folder).parts)
            for kind in BUCKET_FOLDERS
        }
        if sum(there.values()) <= in_use * TABLES_SLACK + TABLES_SLACK_BYTES:
            return
        if time.monotonic() > deadline:
            raise TimeoutError(f"bytes in the bucket: {there}, of which tables in use are {in_use}")
        time.sleep(0.5)
