"""Simulates shortages: lets chosen requests of Atoll's own code for memory or a thread fail in a running
server.

tests/crash/shortage.cc is preloaded into the server. `Shortage` tells it which request is to fail through a
file that both map into memory. The symbols in the plugin's debug information tell whether Atoll's code or
RocksDB's makes a request.
"""

from __future__ import annotations

import mmap
import re
import struct
import subprocess
from contextlib import contextmanager
from pathlib import Path

from harness import paths
from harness.server import Server

MEMORY, THREADS = 1, 2
# The struct Control of shortage.cc: kind, is_counting, left, counted, failed, repeat.
_CONTROL = struct.Struct("=IIQQQQ")
_ATOLL, _OTHERS, _INITIALIZER = 1, 2, 3
_OURS = re.compile(r"_Z+NK?(12atoll_engine|8ha_atoll|12_GLOBAL__N_1)")
_THEIRS = re.compile(r"_Z+NK?7rocksdb|_R|.*17h[0-9a-f]{16}E$")
_INITIALIZERS = re.compile(r"_GLOBAL__sub_I_|_Z41__static_initialization_and_destruction_0")


def library(folder: Path) -> Path:
    """Compiles shortage.cc into a library in `folder`. Errors: subprocess.CalledProcessError."""
    built = folder / "shortage.so"
    source = paths.ROOT / "tests" / "crash" / "shortage.cc"
    command = ["c++", "-std=c++20", "-O1", "-shared", "-fPIC", "-o", str(built), str(source), "-ldl"]
    subprocess.run(command, check=True)
    return built


def _functions(symbols: Path) -> list[tuple[int, int, int]]:
    """Returns first address, end address and owner of each function of a known owner: Atoll, others, or an
    initializer."""
    listed = subprocess.run(
        ["nm", "--print-size", "--defined-only", symbols], capture_output=True, text=True, check=True
    )
    found = []
    for line in listed.stdout.splitlines():
        fields = line.split()
        if len(fields) != 4 or fields[2] not in "tTwWi":
            continue
        start, size, name = int(fields[0], 16), int(fields[1], 16), fields[3]
        patterns = ((_OURS, _ATOLL), (_THEIRS, _OTHERS), (_INITIALIZERS, _INITIALIZER))
        owner = next((owner for pattern, owner in patterns if pattern.match(name)), 0)
        if owner:
            found.append((start, start + size, owner))
    return sorted(set(found))


class Shortage:
    """The shortages of one server. Make this object before the server is started."""

    def __init__(self, server: Server):
        owners = server.home / "owners"
        symbols = paths.plugin().with_name(paths.plugin().name + ".debug")
        owners.write_bytes(b"".join(struct.pack("=QQQ", *function) for function in _functions(symbols)))
        control = server.home / "control"
        control.write_bytes(bytes(_CONTROL.size))
        with control.open("r+b") as file:
            self._shared = mmap.mmap(file.fileno(), _CONTROL.size)
        server.run_by = (
            "env",
            f"LD_PRELOAD={library(server.home)}",
            f"ATOLL_SHORTAGE_CONTROL={control}",
            f"ATOLL_SHORTAGE_OWNERS={owners}",
        )

    def _set(self, kind: int, is_counting: bool, left: int, repeat: int) -> None:
        self._shared[: _CONTROL.size] = _CONTROL.pack(0, is_counting, left, 0, 0, repeat)
        self._shared[:4] = struct.pack("=I", kind)

    @property
    def counted(self) -> int:
        """The number of requests since the last counting() or failing() began."""
        return _CONTROL.unpack(self._shared[:])[3]

    @property
    def failed(self) -> int:
        """The number of failed requests since the last counting() or failing() began."""
        return _CONTROL.unpack(self._shared[:])[4]

    @contextmanager
    def counting(self, kind: int):
        """While this context is open, requests of this kind are counted, and none fails."""
        self._set(kind, True, 0, 0)
        try:
            yield self
        finally:
            self._shared[:4] = bytes(4)

    @contextmanager
    def failing(self, kind: int, number: int, repeat: int = 1):
        """While this context is open, `repeat` successive requests fail, beginning with request `number`,
        counted from 1."""
        self._set(kind, False, number + repeat - 1, repeat)
        try:
            yield self
        finally:
            self._shared[:4] = bytes(4)
