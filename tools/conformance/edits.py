"""Changes to the copies of tests, made before InnoDB records their results: both engines run the same changed test.

A test that uses in one place what only InnoDB has (its own INFORMATION_SCHEMA tables, FULLTEXT, a clause that others
ignore) would say nothing about the rest of it. tools/conformance/edits.txt takes such places out, one line each:

    file of a suite  ~pattern~replacement~  reason

The pattern is a regular expression in which `.` and `^` know lines (re.MULTILINE) and [\\s\\S] goes beyond them. A
pattern that does not occur is an error: the list is as long as what it changes.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

LIST = Path(__file__).resolve().parent / "edits.txt"
LINE = re.compile(r"^(?P<file>\S+)\s+~(?P<pattern>[^~]+)~(?P<replacement>[^~]*)~\s+(?P<reason>\S.*)$")


class BadEdit(Exception):
    """A line of the list that cannot be read or changes nothing."""


@dataclass(frozen=True)
class Edit:
    """One line of the list; `file` is relative to the tree's suite/."""

    file: str
    pattern: re.Pattern[str]
    replacement: str
    reason: str

    def apply(self, suites: Path) -> None:
        """Changes the file in the tree whose suites are in `suites`. Errors: BadEdit when nothing is to change."""
        place = suites / self.file
        text = place.read_bytes().decode("latin-1")
        changed, count = self.pattern.subn(self.replacement, text)
        if count == 0:
            raise BadEdit(f"{LIST.name}: {self.pattern.pattern} does not occur in {self.file}")
        place.write_bytes(changed.encode("latin-1"))


def read_edits(file: Path = LIST) -> list[Edit]:
    """Reads the list. Errors: BadEdit for a line that cannot be read."""
    edits = []
    for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        found = LINE.match(line)
        if not found:
            raise BadEdit(f"{file.name}:{number}: a line is `file  ~pattern~replacement~  reason`")
        pattern = re.compile(found["pattern"], re.MULTILINE)
        edits.append(Edit(found["file"], pattern, found["replacement"], found["reason"]))
    return edits
