"""Memory cgroups for servers with limited memory."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path


class MemoryGroup:
    """A memory cgroup (version 2 or 1) in which a server is started. The limit includes the server's page
    cache. There is no swap.

    Errors: RuntimeError when no cgroup can be made on this machine.
    """

    def __init__(self, name: str, limit_bytes: int):
        candidates = (
            (Path("/sys/fs/cgroup/memory"), "memory.limit_in_bytes"),
            (Path("/sys/fs/cgroup"), "memory.max"),
        )
        for root, limit in candidates:
            if not (root / "cgroup.procs").exists():
                continue
            self.directory = root / f"atoll-{os.getpid()}-{name}"
            with contextlib.suppress(OSError):
                self.directory.mkdir(exist_ok=True)
                (self.directory / limit).write_text(str(limit_bytes))
                return
            with contextlib.suppress(OSError):
                self.directory.rmdir()
        raise RuntimeError("no memory cgroup can be made here")

    def run_by(self) -> tuple[str, ...]:
        """Returns a command prefix: the process enters the group, then executes the following arguments with
        the same process id."""
        return ("/bin/sh", "-c", f'echo $$ > "{self.directory}/cgroup.procs" && exec "$@"', "sh")

    def remove(self) -> None:
        with contextlib.suppress(OSError):
            self.directory.rmdir()
