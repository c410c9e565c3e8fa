"""Simulates a loss of power: the server ends at its n-th sync, and the disk then has the synced bytes and
perhaps some others.

tests/crash/power_loss.c is preloaded into the server and keeps a copy of everything that is synced. From
these copies and from the files that the process has left, `PowerSupply.lose` makes a possible content of the
disk:

* each directory has the names of its last sync, or those when the process ended;
* each file has the bytes of its last sync, those when the process ended, or some sectors of each.

So a rename or a deletion may be lost while later bytes survive, and the other way round. Without `torn`, only
synced names and bytes survive.
"""

from __future__ import annotations

import random
import shutil
import subprocess
from pathlib import Path

from harness import paths
from harness.server import Server

SECTOR_BYTES = 512


def library(folder: Path) -> Path:
    """Compiles power_loss.c into a library in `folder`. Errors: subprocess.CalledProcessError."""
    built = folder / "power_loss.so"
    source = paths.ROOT / "tests" / "crash" / "power_loss.c"
    subprocess.run(["cc", "-O1", "-shared", "-fPIC", "-o", built, source, "-ldl"], check=True)
    return built


class PowerSupply:
    """Simulates the power of the disk with one server's directory `#atoll`. Call `connect` before each
    start."""

    def __init__(self, server: Server):
        self._server = server
        self._library = library(server.home)
        self.root = (server.data / "#atoll").resolve()
        self._durable = server.home / "durable"

    def connect(self, last: int = 0, lie: str = "") -> None:
        """Sets up the next start of the server: it ends at its sync number `last` (0: never), and that sync
        is not carried out.

        `lie`: if a file's path contains this text, syncs of the file succeed but do nothing.
        """
        shutil.rmtree(self._durable, ignore_errors=True)
        for kind in ("file", "directory"):
            (self._durable / kind).mkdir(parents=True)
        self._server.run_by = (
            "env",
            f"LD_PRELOAD={self._library}",
            f"ATOLL_POWER_ROOT={self.root}",
            f"ATOLL_POWER_DURABLE={self._durable}",
            f"ATOLL_POWER_LAST={last}",
            f"ATOLL_POWER_LIE={lie}",
        )

    def is_lost(self) -> bool:
        """Returns whether the server has ended because it reached its last sync."""
        return (self._durable / "ended").exists()

    def lose(self, chance: random.Random, torn: bool) -> None:
        """Replaces the files that the dead server has left by the content of its disk after the loss of
        power."""
        after = self.root.with_name("after")
        _Disk(self.root, self._durable, chance, torn).write(after)
        shutil.rmtree(self.root, ignore_errors=True)
        after.rename(self.root)


class _Disk:
    """The synced names and bytes by inode, and those when the process ended."""

    def __init__(self, root: Path, durable: Path, chance: random.Random, torn: bool):
        self._durable = durable
        self._chance = chance
        self._torn = torn
        self._root = root
        self._at_the_end = {path.lstat().st_ino: path for path in [root, *sorted(root.rglob("*"))]}

    def write(self, target: Path) -> None:
        self._write_directory(self._root.stat().st_ino, target)

    def _write_directory(self, inode: int, target: Path) -> None:
        target.mkdir()
        for name, inner in sorted(self._names(inode).items()):
            end = self._at_the_end.get(inner)
            if (self._durable / "directory" / str(inner)).exists() or (end and end.is_dir()):
                self._write_directory(inner, target / name)
            else:
                (target / name).write_bytes(self._content(inner))

    def _names(self, inode: int) -> dict[str, int]:
        """The names in a directory after the loss, with their inodes."""
        end = self._at_the_end.get(inode)
        if self._torn and end and self._chance.random() < 0.5:
            return {path.name: path.lstat().st_ino for path in end.iterdir()}
        noted = self._durable / "directory" / str(inode)
        lines = noted.read_text().splitlines() if noted.exists() else []
        return {name: int(number) for number, _, name in (line.partition(" ") for line in lines)}

    def _content(self, inode: int) -> bytes:
        noted = self._durable / "file" / str(inode)
        synced = noted.read_bytes() if noted.exists() else b""
        end = self._at_the_end.get(inode)
        if not self._torn or end is None:
            return synced
        written = end.read_bytes()
        return self._chance.choice([lambda: synced, lambda: written, lambda: self._mixed(synced, written)])()

    def _mixed(self, synced: bytes, written: bytes) -> bytes:
        """Mixes sectors of both contents. Bytes beyond the synced length are zero where no written sector is
        taken."""
        shorter, longer = sorted((len(synced), len(written)))
        mixed = bytearray(synced.ljust(longer, b"\0"))
        for at in range(0, len(written), SECTOR_BYTES):
            if self._chance.random() < 0.5:
                mixed[at : at + SECTOR_BYTES] = written[at : at + SECTOR_BYTES]
        return bytes(mixed[: self._chance.randint(shorter, longer)])
