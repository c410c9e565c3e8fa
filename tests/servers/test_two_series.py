"""Goal:   a server of an older series serves what it can read of a bucket, and refuses by name the tables that a newer
        series has defined.
Method: MariaDB 11.8 and 10.11 take turns on one bucket. Needs build/11.8 (make build SERIES=11.8).
"""

from __future__ import annotations

import os
import subprocess
import sys

import pymysql
import pytest
from harness import paths
from harness.digest import table_digest

NEWER = paths.BUILD / "11.8"


def on_newer(code: str, *arguments: str) -> None:
    """Runs Python code with the server and the plugin of 11.8."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("ATOLL_")}
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments],
        env=environment | {"SERIES": "11.8", "PYTHONPATH": str(paths.ROOT / "tests")},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


TURN_OF_NEWER = """
import sys
from pathlib import Path
from harness.server import Server
home, url = sys.argv[1:]
server = Server(Path(home), {"atoll_url": url, "atoll_durability": "sync"})
server.start(atoll_take_over="ON")
assert server.version().startswith("11.8"), server.version()
assert server.value("SELECT SUM(a) FROM d.old") == 55
server.run("INSERT INTO d.old VALUES (11)", "CREATE TABLE d.new (a INT PRIMARY KEY) ENGINE=ATOLL",
           "INSERT INTO d.new VALUES (1)", "ALTER TABLE d.altered ADD COLUMN b INT DEFAULT 3")
assert server.run("CHECK TABLE d.old EXTENDED")[-1][-1] == "OK"
server.stop()
"""


@pytest.mark.skipif(not (NEWER / "ha_atoll.so").exists(), reason="make build SERIES=11.8 was not run")
def test_an_older_series_refuses_what_a_newer_one_has_defined(lab):
    url = f"file://{lab.home}/bucket"
    older = lab.server("older", atoll_url=url, atoll_durability="sync").start()
    older.run(
        "CREATE DATABASE d",
        "CREATE TABLE d.old (a INT PRIMARY KEY) ENGINE=ATOLL",
        "CREATE TABLE d.altered (a INT PRIMARY KEY) ENGINE=ATOLL",
        "INSERT INTO d.old SELECT seq FROM mysql.seq_1_to_10",
    )
    older.stop()
    older.wipe()
    on_newer(TURN_OF_NEWER, str(lab.home / "newer"), url)
    older.start(atoll_take_over="ON")
    assert older.value("SELECT SUM(a) FROM d.old") == 66
    assert table_digest(older, "d", "old").rows == 11
    for name in ("new", "altered"):
        for statement in ("SELECT * FROM", "SHOW CREATE TABLE"):
            with pytest.raises(pymysql.Error, match=rf"11\.8\.\d+.*d/{name}.*10\.11"):
                older.run(f"{statement} d.{name}")
    older.run("DROP TABLE d.new", "ALTER TABLE d.old ADD COLUMN c INT DEFAULT 7", "UPDATE d.old SET c = a")
    assert older.value("SELECT SUM(c) FROM d.old") == 66
