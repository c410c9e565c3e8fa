"""Runs the command line tool atollctl with the connection settings of a server."""

from __future__ import annotations

import os
import subprocess
import time

from harness import paths
from harness.server import Server


def atollctl(
    server: Server, *arguments: str, behind: tuple[str, ...] = ()
) -> subprocess.CompletedProcess[str]:
    """Runs `atollctl ARGUMENTS URL BEHIND` with the URL of the server's bucket. The server need not run."""
    settings = {name: value for name, value in server.options.items() if name.startswith("atoll_s3_")}
    connection = {name.upper(): str(value) for name, value in settings.items()}
    command = [str(paths.program("atollctl")), *arguments, str(server.options["atoll_url"]), *behind]
    return subprocess.run(
        command, env=os.environ | connection, capture_output=True, text=True, timeout=120, check=False
    )


def utc(time_us: int) -> str:
    """The moment `time_us`, in microseconds since 1970, in the format of the option `--at`."""
    return (
        time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(time_us // 1_000_000)) + f".{time_us % 1_000_000:06}"
    )
