"""The command line tool, with the connection of a server."""

from __future__ import annotations

import os
import subprocess

from harness import paths
from harness.server import Server


def atollctl(server: Server, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Runs `atollctl ARGUMENTS URL` on the bucket of a server, which need not run."""
    names = ("endpoint", "region", "access_key", "secret_key")
    connection = {f"ATOLL_S3_{name.upper()}": str(server.options[f"atoll_s3_{name}"]) for name in names}
    command = [str(paths.program("atollctl")), *arguments, str(server.options["atoll_url"])]
    return subprocess.run(
        command, env=os.environ | connection, capture_output=True, text=True, timeout=120, check=False
    )
