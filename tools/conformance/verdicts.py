"""The list of tests that are known not to pass, and the comparison of a run with this list.

A line of tools/conformance/differences.txt is `verdict  suite.name  reason`; the test's name may be followed by a
combination in quotes. The verdicts:

    skip       neither engine runs it
    innodb     InnoDB does not pass it here, so there is no result to compare with; Atoll does not run it
    installed  Atoll's result is compared with the installed one, because InnoDB's differs from it
    atoll      InnoDB passes it and Atoll does not

A run must agree with the list: tests that are not listed pass with every engine (or the runner skips them
with both), and listed tests fail as their verdict says.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from runner import Run

VERDICTS = ("skip", "innodb", "installed", "atoll")


class BadList(Exception):
    """A line of the list of differences cannot be parsed."""


@dataclass(frozen=True)
class Entry:
    """One line of the list."""

    verdict: str
    test: str
    reason: str


def read_list(file: Path) -> dict[str, Entry]:
    """Reads the list. Returns its lines by the names of the tests.

    Errors: BadList for a line without one of the three parts, an unknown verdict, or a test that is listed
    twice.
    """
    entries: dict[str, Entry] = {}
    for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        parts = line.split(None, 2)
        if len(parts) < 3 or parts[0] not in VERDICTS:
            raise BadList(
                f"{file.name}:{number}: a line is `verdict  suite.name  reason`, verdict one of {VERDICTS}"
            )
        verdict, test, reason = parts
        if reason.startswith("'"):
            combination, _, reason = reason[1:].partition("'")
            test += f" '{combination}'"
        if test in entries or not reason.strip():
            raise BadList(f"{file.name}:{number}: {test} is listed twice or without a reason")
        entries[test] = Entry(verdict, test, reason.strip())
    return entries


def entry_of(entries: dict[str, Entry], name: str) -> Entry | None:
    """Returns the line for this test and combination, or for the test in all combinations; None if there is
    none."""
    return entries.get(name) or entries.get(name.split(" ")[0])


def judge_reference(entries: dict[str, Entry], run: Run) -> list[str]:
    """Returns the differences between InnoDB's run and the list, one sentence each."""
    complaints = []
    for name, outcome in sorted(run.outcomes.items()):
        entry = entry_of(entries, name)
        if outcome.status == "fail" and (entry is None or entry.verdict != "innodb"):
            complaints.append(f"{name}: InnoDB does not pass it, and no line says so")
    for test, passed in _passes_of_listed(entries, run, "innodb").items():
        if passed:
            complaints.append(f"{test}: InnoDB passes it now; remove its line or change its verdict")
    return complaints


def judge_subject(entries: dict[str, Entry], run: Run, reference: Run) -> list[str]:
    """Returns the differences between Atoll's run and the list, one sentence each."""
    complaints = []
    for name, outcome in sorted(run.outcomes.items()):
        entry = entry_of(entries, name)
        listed = entry is not None and entry.verdict == "atoll"
        expected = reference.outcomes.get(name)
        # A test whose verdict is innodb runs if InnoDB passes some of its combinations. The others cannot be
        # compared.
        nothing_to_compare = (
            entry is not None
            and entry.verdict == "innodb"
            and expected is not None
            and expected.status == "fail"
        )
        if outcome.status == "fail" and not listed and not nothing_to_compare:
            complaints.append(f"{name}: Atoll's result is not InnoDB's, and no line says why")
        if outcome.status == "skipped" and not listed and expected is not None and expected.status == "pass":
            complaints.append(f"{name}: the runner skips it with Atoll only ({outcome.text})")
    for test, passed in _passes_of_listed(entries, run, "atoll").items():
        if passed:
            complaints.append(f"{test}: Atoll passes it now; remove its line")
    missing = [name for name, outcome in reference.outcomes.items() if outcome.status == "pass"]
    missing = [name for name in missing if name not in run.outcomes and entry_of(entries, name) is None]
    return complaints + [f"{name}: did not run with Atoll" for name in sorted(missing)]


def _passes_of_listed(entries: dict[str, Entry], run: Run, verdict: str) -> dict[str, bool]:
    """Returns, for each test with this verdict that was run, whether it passed in all its combinations."""
    passes: dict[str, bool] = {}
    for name, outcome in run.outcomes.items():
        entry = entry_of(entries, name)
        if entry is not None and entry.verdict == verdict:
            passes[entry.test] = passes.get(entry.test, True) and outcome.status == "pass"
    return passes
