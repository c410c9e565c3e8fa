"""Child processes that never outlive the test, and the scratch directory they work in.

Invariants:
1. Only processes that this module has started are ever signalled, by their pid.
2. A child ends with the interpreter, even when the interpreter is killed (parent-death signal). The signal is
   sent when the starting *thread* ends, so start children from threads that live as long as the children.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

# Sets the parent-death signal and then executes the program with the same pid. setpriv is part of util-linux.
_DIE_WITH_PARENT = ("setpriv", "--pdeathsig", "KILL", "--")
PATIENCE = 4
_children: list[Child] = []
_directories: list[Path] = []


class Child:
    """One started process. Its output goes to the file `log_path`."""

    def __init__(
        self, arguments: list[str], log_path: Path, env: dict[str, str] | None = None, cwd: Path | None = None
    ):
        self.log_path = log_path
        with open(log_path, "ab") as log:
            self._popen = subprocess.Popen(
                [*_DIE_WITH_PARENT, *arguments],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=cwd,
                env={**os.environ, **(env or {})},
                start_new_session=True,
            )
        self.pid = self._popen.pid
        _children.append(self)

    def running(self) -> bool:
        return self._popen.poll() is None

    def exit_code(self) -> int | None:
        return self._popen.poll()

    def signal(self, number: int) -> None:
        if self.running():
            os.kill(self.pid, number)

    def stop(self, timeout_s: float = 60) -> int:
        """Sends SIGTERM and waits; kills the process when `timeout_s` is over. Returns the exit code
        (negative: a signal)."""
        self.signal(signal.SIGCONT)
        self.signal(signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            return self._forget(self._popen.wait(timeout_s))
        self.kill()
        return -int(signal.SIGKILL)

    def kill(self) -> None:
        """Sends SIGKILL and waits until the process has ended."""
        self.signal(signal.SIGKILL)
        self._forget(self._popen.wait())

    def pause(self) -> None:
        self.signal(signal.SIGSTOP)

    def resume(self) -> None:
        self.signal(signal.SIGCONT)

    def rss_peak_bytes(self) -> int:
        """Returns the peak of resident memory so far; 0 when the process has ended."""
        return self._memory_bytes("VmHWM")

    def rss_bytes(self) -> int:
        """Returns the resident memory now; 0 when the process has ended."""
        return self._memory_bytes("VmRSS")

    def _memory_bytes(self, name: str) -> int:
        try:
            for line in Path(f"/proc/{self.pid}/status").read_text().splitlines():
                if line.startswith(f"{name}:"):
                    return int(line.split()[1]) * 1024
        except OSError:
            pass
        return 0

    def _forget(self, code: int) -> int:
        if self in _children:
            _children.remove(self)
        return code


def scratch_directory(name: str) -> Path:
    """Makes a private directory. It is removed at exit, except with ATOLL_KEEP=1.

    Its path stays short, because a server's socket path may have 107 bytes at most.
    """
    path = Path(tempfile.mkdtemp(prefix=f"atoll-{name}-", dir=os.environ.get("ATOLL_SCRATCH")))
    _directories.append(path)
    return path


def discard(path: Path) -> None:
    """Removes a scratch directory now instead of at exit."""
    if path in _directories:
        _directories.remove(path)
    if not os.environ.get("ATOLL_KEEP"):
        shutil.rmtree(path, ignore_errors=True)


def free_port() -> int:
    """Returns a TCP port of 127.0.0.1 that was free a moment ago."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def wait_until(condition, timeout_s: float, what: str, interval_s: float = 0.02):
    """Returns the first true value of `condition()`; raises TimeoutError naming `what` otherwise.

    `timeout_s` is for a machine with nothing else to do. Tests run beside each other, so the wait ends only
    after PATIENCE times as long.
    """
    deadline = time.monotonic() + PATIENCE * timeout_s
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > deadline:
            raise TimeoutError(f"not within {PATIENCE * timeout_s} s: {what}")
        time.sleep(interval_s)


def stop_everything() -> None:
    """Ends all children and removes all scratch directories; safe to call twice."""
    for child in _children.copy():
        with contextlib.suppress(OSError):
            child.kill()
    for path in _directories.copy():
        discard(path)


def exit_cleanly_on_signals() -> None:
    """Turns SIGTERM and SIGHUP into a normal exit, so that the clean-up above runs."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda received, _frame: sys.exit(128 + received))


atexit.register(stop_everything)
