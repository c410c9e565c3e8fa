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


def verify_and_start_again(server: Server) -> None:
    """Stops the server, checks that every object that a restore needs is in the bucket and undamaged, and starts the
    server again."""
    server.stop()
    verified = atollctl(server, "verify", "--deep")
    assert verified.returncode == 0, verified.stdout + verified.stderr
    server.start()


def moment_now(server: Server) -> str:
    """A moment for `--at` and ATOLL_MOUNT() that lies between all earlier commits and all later ones."""
    time.sleep(0.05)
    moment = server.value("SELECT DATE_FORMAT(UTC_TIMESTAMP(6), '%Y-%m-%d %H:%i:%s.%f')")
    time.sleep(0.05)
    return str(moment)


def utc(time_us: int) -> str:
    """The moment `time_us`, in microseconds since 1970, in the format of the option `--at`."""
    return (
        time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(time_us // 1_000_000)) + f".{time_us % 1_000_000:06}"
    )
