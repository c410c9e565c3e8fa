"""Goal:   docs/start.md works word by word: each of its commands succeeds and prints what the document shows.
Method: runs the document in a shell with a home directory of its own. Only the port of the S3 service and the
        folder's name differ. As root the test follows the document's sentence for root.
"""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
import sessions
from harness import paths
from harness.process import discard, free_port, scratch_directory, wait_until
from sessions import Command, Shell, missing_line


@pytest.fixture
def home() -> Iterator[Path]:
    made = scratch_directory("start")
    (made / ".cache").mkdir()
    (made / ".cache" / "atoll").symlink_to(paths.cache_dir())
    yield made
    discard(made)


class Reader:
    """Somebody who types what the document says."""

    def __init__(self, home: Path):
        self.folder = home / "try"
        self.port = free_port()
        self.shell = Shell(home, paths.ROOT)

    def do(self, command: Command) -> None:
        text = self._own_words(command.text)
        if command.kind == "file":
            (self.folder / "my.cnf").write_text(text + ("user = root\n" if os.geteuid() == 0 else ""))
            return
        if command.kind == "sql":
            text = f"sql <<'END'\n{text}END"
        elif text == "make build":
            return self._compare(command, f"atoll: built build/ha_atoll.so for MariaDB {built_for()}")
        status, printed = self.shell.run(text)
        assert status == 0, f"{text}\nexit status {status}\n{printed}\n{self._log()}"
        if text.endswith("&"):
            self._wait_for(text)
        self._compare(command, printed)

    def _own_words(self, text: str) -> str:
        text = text.replace("7070", str(self.port)).replace("/home/you/try", str(self.folder))
        text = text.replace("/usr/sbin/mariadbd", "mariadbd")
        if os.geteuid() == 0 and text.startswith("mariadb-install-db"):
            text = text.replace(" >install.log", " --user=root >install.log")
        return text

    def _compare(self, command: Command, printed: str) -> None:
        missing = missing_line(command.output, printed)
        assert missing is None, f"{command.text}\nthe document shows: {missing}\nprinted:\n{printed}"

    def _wait_for(self, text: str) -> None:
        if "versitygw" in text:
            wait_until(lambda: answers(self.port), 30, "versitygw")
        else:
            ask = "mariadb --no-defaults -S socket -uroot -e 'SELECT 1'"
            wait_until(lambda: self.shell.run(ask)[0] == 0 or self._failed(), 60, "the server")

    def _failed(self) -> bool:
        assert "[ERROR] Aborting" not in self._log(), self._log()
        return False

    def _log(self) -> str:
        log = self.folder / "server.log"
        return log.read_text()[-3000:] if log.exists() else ""


def answers(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def built_for() -> str:
    settings = (paths.BUILD / "setup.env").read_text()
    found = re.search(r"MARIADB_VERSION=['\"]?([\d.]+)", settings)
    assert found is not None, settings
    return found.group(1)


def test_each_command_of_start_does_what_it_shows(home):
    sections = sessions.read("start.md")
    assert len(sections) == 6, list(sections)
    reader = Reader(home)
    try:
        for section in sections.values():
            for command in section.commands:
                reader.do(command)
        assert not reader.folder.exists(), "the last step deletes the folder"
    finally:
        reader.shell.close()


def test_the_comparison_sees_what_differs():
    shown = ("root       1/2, published 0 s ago: 2 files, 1.8 MiB", "...")
    assert missing_line(shown, "x\nroot       7/31, published 12 s ago: 1,200 files, 18 KiB\ny") is None
    assert missing_line(shown, "root 7/31, published long ago: 2 files, 18 KiB") == shown[0]
    assert missing_line(("first", "second"), "second\nfirst") == "second"
