"""Edits the copies of tests before InnoDB records their results. So both engines run the same edited test.

A test may use something that only InnoDB has (its own INFORMATION_SCHEMA tables, FULLTEXT, a clause that
other engines ignore). Such a test would fail there and not test its other statements.
tools/conformance/edits.txt removes such places, one line for each:

    file of a suite  ~pattern~replacement~  reason

The pattern is a regular expression with re.MULTILINE: `^` matches at the beginning of each line, and
`.` does not match a line break, but [\\s\\S] does. A pattern that does not occur is an error, so the list has
no useless lines.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

LIST = Path(__file__).resolve().parent / "edits.txt"
LINE = re.compile(r"^(?P<file>\S+)\s+~(?P<pattern>[^~]+)~(?P<replacement>[^~]*)~\s+(?P<reason>\S.*)$")


class BadEdit(Exception):
    """A line of the list cannot be parsed, or changes nothing."""


@dataclass(frozen=True)
class Edit:
    """One line of the list. `file` is relative to the folder suite/ of the tree."""

    file: str
    pattern: re.Pattern[str]
    replacement: str
    reason: str

    def apply(self, suites: Path) -> None:
        """Edits the file in the tree whose suites are in `suites`. Errors: BadEdit when the pattern does not
        occur."""
        place = suites / self.file
        text = place.read_bytes().decode("latin-1")
        changed, count = self.pattern.subn(self.replacement, text)
        if count == 0:
            raise BadEdit(f"{LIST.name}: {self.pattern.pattern} does not occur in {self.file}")
        place.write_bytes(changed.encode("latin-1"))


def read_edits(file: Path = LIST) -> list[Edit]:
    """Reads the list. Errors: BadEdit for a line that cannot be parsed."""
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
