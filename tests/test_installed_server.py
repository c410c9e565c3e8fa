"""Goal:   after a build, the user learns that the installed server cannot load the plugin.
Method: a program in place of mariadbd prints a version.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from harness import paths

pytestmark = pytest.mark.no_plugin


def said_about(home: Path, version: str, built_for: str = "10.11.18") -> str:
    program = home / "mariadbd"
    program.write_text(
        f"#!/bin/sh\necho 'mariadbd  Ver {version} for debian-linux-gnu on x86_64 (Debian 12)'\n"
    )
    program.chmod(0o755)
    command = [paths.ROOT / "tools/installed-server.sh", built_for, program]
    return subprocess.run(command, check=True, capture_output=True, text=True).stderr


def test_another_version_than_that_of_the_build_is_named(tmp_path):
    said = said_about(tmp_path, "10.11.19-MariaDB-0+deb12u1")
    assert "10.11.19" in said
    assert "10.11.18" in said
    assert "apt-mark hold" in said


def test_the_version_of_the_build_is_not_mentioned(tmp_path):
    assert said_about(tmp_path, "10.11.18-MariaDB-0+deb12u1") == ""


def test_no_installed_server_is_no_error(tmp_path):
    command = [paths.ROOT / "tools/installed-server.sh", "10.11.18", tmp_path / "absent"]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    assert "WARNING" not in done.stderr
