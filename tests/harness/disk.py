"""Local files: their page cache, their sizes, and the removal of files that the engine can fetch again from
the bucket."""

from __future__ import annotations

import contextlib
import ctypes
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

# Suffixes of the files that are also objects in the bucket. All other files under #atoll/db are small and
# exist only locally.
OBJECT_SUFFIXES = (".sst", ".blob")


def drop_page_cache(*directories: Path) -> str:
    """Empties the page cache. Returns "drop_caches" if the whole cache was dropped, "fadvise" if only the cache of
    these directories' files."""
    os.sync()
    try:
        Path("/proc/sys/vm/drop_caches").write_text("3\n")
        return "drop_caches"
    except OSError:
        for directory in directories:
            for path in files_below(directory):
                with contextlib.suppress(OSError):
                    _forget_file(path)
        return "fadvise"


def _forget_file(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    finally:
        os.close(descriptor)


def files_below(directory: Path) -> list[Path]:
    """Returns all files below `directory`. A running server, such as MinIO, may remove files and folders
    meanwhile."""
    paths = (Path(folder, name) for folder, _, names in os.walk(directory) for name in names)
    return [path for path in paths if path.is_file() and not path.is_symlink()]


def file_sizes(directory: Path) -> dict[Path, int]:
    """Returns the length of every file below `directory`. A running server may remove some of them
    meanwhile."""
    sizes: dict[Path, int] = {}
    for path in files_below(directory):
        with contextlib.suppress(FileNotFoundError):
            sizes[path] = path.stat().st_size
    return sizes


def apparent_bytes(directory: Path, suffixes: tuple[str, ...] = ("",)) -> int:
    return sum(size for path, size in file_sizes(directory).items() if path.name.endswith(suffixes))


def allocated_bytes(*directories: Path) -> int:
    """Returns the bytes that the directories take on disk. A file with several hard links counts once."""
    seen: dict[tuple[int, int], int] = {}
    for directory in directories:
        for path in files_below(directory):
            with contextlib.suppress(FileNotFoundError):
                entry = path.stat()
                seen[(entry.st_dev, entry.st_ino)] = entry.st_blocks * 512
    return sum(seen.values())


def free_bytes(directory: Path) -> int:
    return shutil.disk_usage(directory).free


def remove_local_objects(data: Path) -> int:
    """Removes the part cache and every local table file of a *stopped* server. Returns the number of removed
    files."""
    removed = 0
    for path in files_below(data / "#atoll" / "db"):
        if path.name.endswith(OBJECT_SUFFIXES):
            path.unlink()
            removed += 1
    removed += len(files_below(data / "#atoll" / "cache"))
    shutil.rmtree(data / "#atoll" / "cache", ignore_errors=True)
    return removed


@contextlib.contextmanager
def small_disk(directory: Path, size_mib: int) -> Iterator[Path | None]:
    """Mounts a tmpfs of `size_mib` at `directory`. Yields None if mounting is not allowed."""
    directory.mkdir(parents=True, exist_ok=True)
    command = ["mount", "-t", "tmpfs", "-o", f"size={size_mib}m", "atoll-test", str(directory)]
    if subprocess.run(command, capture_output=True, check=False).returncode != 0:
        yield None
        return
    try:
        yield directory
    finally:
        ctypes.CDLL(None).umount2(os.fsencode(directory), 2)  # MNT_DETACH: works while files are open


def resize_small_disk(directory: Path, size_mib: int) -> None:
    """Changes the size of the file system that small_disk() has mounted at `directory`."""
    subprocess.run(["mount", "-o", f"remount,size={size_mib}m", str(directory)], check=True)
