"""Power losses: a server that is ended at its n-th sync, and a disk that then has what was synced and little else.

tests/crash/power_loss.c is preloaded into the server and notes what is synced. `PowerSupply.lose` makes of these notes
and of the files that the process has left what a disk may hold:

* each directory has the names of its last sync, or those at the end;
* each file has its bytes of the last sync, those at the end, or some sectors of each.

So the names of a rename or a deletion may be lost while the bytes are there, and the other way round. With `torn` off,
nothing that was not synced survives.
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
    """Compiles the library into the folder. Errors: subprocess.CalledProcessError."""
    built = folder / "power_loss.so"
    source = paths.ROOT / "tests" / "crash" / "power_loss.c"
    subprocess.run(["cc", "-O1", "-shared", "-fPIC", "-o", built, source, "-ldl"], check=True)
    return built


class PowerSupply:
    """The power of one server's `#atoll`. Set it up with `connect` before each start."""

    def __init__(self, server: Server):
        self._server = server
        self._library = library(server.home)
        self.root = (server.data / "#atoll").resolve()
        self._durable = server.home / "durable"

    def connect(self, last: int = 0, lie: str = "") -> None:
        """The next start of the server ends at its sync number `last` (0: never), which does not happen.

        `lie`: syncs of files whose path contains it keep nothing, though they succeed.
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
        """Returns whether the server was ended by its last sync."""
        return (self._durable / "ended").exists()

    def lose(self, chance: random.Random, torn: bool) -> None:
        """Replaces what the dead server has left by what its disk holds after the loss."""
        after = self.root.with_name("after")
        _Disk(self.root, self._durable, chance, torn).write(after)
        shutil.rmtree(self.root, ignore_errors=True)
        after.rename(self.root)


class _Disk:
    """What is synced, by inode, and what was there at the end."""

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
        """The names in a directory and their inodes."""
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
        """Some sectors of each. What is beyond the synced length and not written yet is zero."""
        shorter, longer = sorted((len(synced), len(written)))
        mixed = bytearray(synced.ljust(longer, b"\0"))
        for at in range(0, len(written), SECTOR_BYTES):
            if self._chance.random() < 0.5:
                mixed[at : at + SECTOR_BYTES] = written[at : at + SECTOR_BYTES]
        return bytes(mixed[: self._chance.randint(shorter, longer)])
