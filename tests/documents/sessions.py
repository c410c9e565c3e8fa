"""Reads the commands of a document and runs them as they are written there.

A block of a document is a session, a list of SQL statements (```sql), or the text of a file. In a session each
command begins with a prompt, and the lines below it are what the command prints:

    $ COMMAND                  runs in a shell
    MariaDB> STATEMENT;        runs in one connection to the server

A block that begins with `# ` shows what root types; it is not run.

The printed lines must come in this order. Numbers, dates, GTIDs and names that a machine has made may differ; a
line `...` stands for any lines.
"""

from __future__ import annotations

import os
import re
import secrets
import select
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from harness import paths

QUESTION = "Go on? "  # only a terminal is asked; the option --yes answers it
PROMPTS = {"$ ": "shell", "MariaDB> ": "sql"}
ROOT_PROMPT = "# "
COMMAND_TIMEOUT_S = 120


@dataclass(frozen=True)
class Command:
    kind: str  # shell, sql, or file: a block without a prompt
    text: str
    output: tuple[str, ...] = ()


@dataclass(frozen=True)
class Section:
    title: str
    commands: tuple[Command, ...]


def read(name: str) -> dict[str, Section]:
    """Returns the sections of docs/NAME that have commands, by their titles."""
    title, found = "", {}
    text = (paths.ROOT / "docs" / name).read_text()
    for part in re.split(r"^## ", text, flags=re.MULTILINE):
        title = part.splitlines()[0]
        blocks = re.findall(r"^```(\w*)\n(.*?)^```$", part, re.MULTILINE | re.DOTALL)
        commands = [command for language, block in blocks for command in _commands(language, block)]
        if commands:
            found[title] = Section(title, tuple(commands))
    return found


def _commands(language: str, block: str) -> Iterator[Command]:
    if language == "sql":
        yield Command("sql", block)
        return
    if block.startswith(ROOT_PROMPT):
        return
    if not any(block.startswith(prompt) for prompt in PROMPTS):
        yield Command("file", block)
        return
    kind, text, output = "", "", []
    for line in block.splitlines():
        prompt = next((prompt for prompt in PROMPTS if line.startswith(prompt)), None)
        if prompt is None:
            output.append(line)
            continue
        if text:
            yield Command(kind, text, tuple(output))
        kind, text, output = PROMPTS[prompt], line.removeprefix(prompt), []
    yield Command(kind, text, tuple(output))


# ---- what a command prints ----------------------------------------------------------------------------------

# What differs from run to run, and the pattern for it.
_VARIABLE = (
    (r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", r"[0-9a-f-]{36}"),
    (r"'\w+:\d+:\d+'", r"'[^']+'"),  # a server's name in the bucket
    (r"\w*\.\.\.", r"\S*"),  # the rest of a long name
    (r"(?:s3|file)://[\w./-]+", r"(?:s3|file)://\S+"),
    (r"\d+ (?:s|min|h|days) ago", r"\d+ (?:s|min|h|days) ago"),
    (r"\d[\d.,]*(?: (?:B|KiB|MiB|GiB|bytes)\b)?", r"[\d][\d.,]*(?: (?:B|KiB|MiB|GiB|bytes))?"),
    (r"\s+", r"\s+"),
)


def pattern_of(line: str) -> str:
    """Returns the regular expression for a printed line of a document."""
    pattern, rest = "", line.strip()
    while rest:
        hits = [
            (match.start(), -len(match.group()), match, by)
            for what, by in _VARIABLE
            if (match := re.search(what, rest))
        ]
        if not hits:
            return pattern + re.escape(rest)
        _, _, match, by = min(hits, key=lambda hit: hit[:2])
        pattern += re.escape(rest[: match.start()]) + by
        rest = rest[match.end() :]
    return pattern


def missing_line(expected: tuple[str, ...], printed: str) -> str | None:
    """Returns the first line of `expected` that `printed` does not have after the lines before it; None if it
    has all. Lines of a document may be broken at other places than those that were printed."""
    text, position = re.sub(r"\s+", " ", printed), 0
    for line in expected:
        if line.strip() in ("", "...") or line.startswith(QUESTION):
            continue
        found = re.compile(pattern_of(line)).search(text, position)
        if found is None:
            return line
        position = found.end()
    return None


class Shell:
    """One bash that runs commands in turn, as a user's terminal does. `home` is the user's home directory."""

    def __init__(self, home: Path, directory: Path, environment: dict[str, str] | None = None):
        programs = home / ".programs"
        programs.mkdir(parents=True)
        self._write_programs(programs)
        self._bash = subprocess.Popen(
            ["setpriv", "--pdeathsig", "KILL", "--", "bash", "--norc", "--noprofile"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            cwd=directory,
            env=os.environ
            | {"HOME": str(home), "PATH": f"{programs}:{os.environ['PATH']}"}
            | (environment or {}),
            start_new_session=True,
        )
        self._printed = b""
        self.run("shopt -s expand_aliases")

    @staticmethod
    def _write_programs(directory: Path) -> None:
        """The server is unpacked, not installed, so its programs must be told where it is."""
        for name in ("mariadbd", "mariadb-install-db", "mariadb", "mariadb-dump", "atollctl"):
            basedir = f" --basedir={paths.SERVER}" if name in ("mariadbd", "mariadb-install-db") else ""
            (directory / name).write_text(f'#!/bin/sh\nexec {paths.program(name)} "$@"{basedir}\n')
            (directory / name).chmod(0o755)

    def run(self, text: str) -> tuple[int, str]:
        """Runs a command. Returns its exit status and what it has printed. Errors: AssertionError when the
        command does not end within COMMAND_TIMEOUT_S."""
        assert self._bash.stdin is not None
        mark = secrets.token_hex(8)
        # The two halves keep the mark out of what bash prints about the command itself.
        line = f'{text}\nprintf "\\n%s%s %s\\n" {mark[:8]} {mark[8:]} $?\n'
        self._bash.stdin.write(line.encode())
        self._bash.stdin.flush()
        printed = self._read_until(f"\n{mark} ".encode(), text)
        status = self._read_until(b"\n", text)
        return int(status), printed.decode(errors="replace").strip("\n")

    def _read_until(self, end: bytes, text: str) -> bytes:
        """Returns what the shell prints before `end`, and keeps what comes after it for the next call."""
        assert self._bash.stdout is not None
        deadline = time.monotonic() + COMMAND_TIMEOUT_S
        while end not in self._printed:
            left = deadline - time.monotonic()
            ready, _, _ = select.select([self._bash.stdout], [], [], max(left, 0))
            more = os.read(self._bash.stdout.fileno(), 1 << 16) if ready else b""
            assert more, f"no end of: {text}\n{self._printed.decode(errors='replace')}"
            self._printed += more
        found, _, self._printed = self._printed.partition(end)
        return found

    def close(self) -> None:
        """Ends the shell and what it has started in the background."""
        if self._bash.poll() is None:
            self.run("kill -9 $(jobs -p) 2>/dev/null; true")
        self._bash.kill()
        self._bash.wait()
