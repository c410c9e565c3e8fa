"""Runs MariaDB's own test suites with ATOLL, and with InnoDB, whose results are the expected ones.

    build/bin/python tools/conformance/run.py                          all suites; hours
    build/bin/python tools/conformance/run.py --suites storage_engine  some, separated by commas
    build/bin/python tools/conformance/run.py --minutes 30             stops then; what was not run is an error
    build/bin/python tools/conformance/run.py --keep-reference ...     uses the InnoDB run of last time
    build/bin/python tools/conformance/run.py --workers 4 ...          more tests at a time than two
    build/bin/python tools/conformance/run.py --tests vcol.vcol_keys_innodb   these tests only

InnoDB runs each suite first, with the edits of edits.txt. Atoll then runs InnoDB's copy of the suite, with
results recorded or as installed, and with the engine's name replaced. Prints `N passed, M failed, K skipped`
per suite and engine, and writes the outcome of all tests to build/mtr/conformance.json. Fails when the runs
do not agree with differences.txt, which lists the tests that do not pass, and why. The messages of failed
tests are in build/mtr/conformance/<engine>/failed/.
"""

from __future__ import annotations

import argparse
import fcntl
import json
import sys
import time
import zlib
from dataclasses import asdict
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests"))

from edits import BadEdit, Edit, read_edits
from harness import paths
from runner import Outcome, Run, Tree
from suites import REFERENCE, SUBJECT, SUITES, SYSTEM_SUITES, Oracle, Suite, tests_of
from verdicts import BadList, Entry, entry_of, judge_reference, judge_subject, read_list

LIST = Path(__file__).resolve().parent / "differences.txt"
RESULT = paths.BUILD / "mtr" / "conformance.json"


class Conformance:
    """The state of one run of this program."""

    def __init__(self, entries: dict[str, Entry], edits: list[Edit], arguments: argparse.Namespace) -> None:
        self.report: dict[str, dict] = {}
        self.complaints: list[str] = []
        self._entries = entries
        self._edits = edits
        self._only: set[str] = arguments.tests
        self._keep_reference: bool = arguments.keep_reference
        self._deadline = time.monotonic() + arguments.minutes * 60
        self._trees = {
            name: Tree(paths.ROOT, name, paths.plugin(), arguments.workers) for name in (REFERENCE, SUBJECT)
        }
        for tree in self._trees.values():
            if tree.engine == SUBJECT or not self._keep_reference or not tree.suites.exists():
                tree.make()

    def close(self) -> None:
        """Removes the files of the test servers."""
        for tree in self._trees.values():
            tree.remove_var()

    def run(self, suite: Suite) -> None:
        """Runs one suite with both engines and adds it to the report."""
        reference = self._reference_run(suite)
        tree = self._trees[SUBJECT]
        by_suite = [name for name, entry in self._entries.items() if entry.verdict == "installed"]
        by_suite = [name for name in by_suite if name.rpartition(".")[0] in suite.folders]
        tree.install(suite, self._trees[REFERENCE].suites, by_suite)
        # Tests that are known to fail run last, because they may leave objects behind that make other tests
        # fail.
        sound = self._chosen(suite, {"skip", "innodb", "atoll"})
        unsound = [name for name in self._chosen(suite, {"skip", "innodb"}) if name not in sound]
        subject = self._timed(suite, SUBJECT, [sound, unsound])
        self.complaints += judge_subject(self._entries, subject, reference)

    def _chosen(self, suite: Suite, left_out: set[str]) -> list[str]:
        names = [name for name in tests_of(suite, SYSTEM_SUITES) if not self._only or name in self._only]
        listed = {name: self._entries.get(name) for name in names}
        return [name for name in names if not (listed[name] and listed[name].verdict in left_out)]

    def _reference_run(self, suite: Suite) -> Run:
        tree = self._trees[REFERENCE]
        saved = tree.home / f"{suite.name.replace('/', '-')}-{self._fingerprint(suite):08x}.json"
        if self._keep_reference and saved.exists():
            outcomes = json.loads(saved.read_text(encoding="utf-8"))
            run = Run({name: Outcome(**outcome) for name, outcome in outcomes.items()})
            if self._only:
                run.outcomes = {k: v for k, v in run.outcomes.items() if k.split(" ")[0] in self._only}
            self._add(suite, REFERENCE, run, 0)
            return run
        tree.install_reference(suite, self._edits)
        chosen = self._chosen(suite, {"skip"})
        if suite.oracle is Oracle.RECORDED:
            # The second run finds tests whose results differ between runs. Such results cannot be used for a
            # comparison.
            tree.run(suite, chosen, self._minutes_left(), record=True)
        run = self._timed(suite, REFERENCE, [chosen])
        self.complaints += judge_reference(self._entries, run)
        if not self._only:
            outcomes = {name: asdict(outcome) for name, outcome in run.outcomes.items()}
            saved.write_text(json.dumps(outcomes, indent=1), encoding="utf-8")
        return run

    def _fingerprint(self, suite: Suite) -> int:
        """A checksum of everything that determines how InnoDB runs the suite. A kept InnoDB run with another
        one must not be used."""
        edits = [edit for edit in self._edits if edit.file.split("/")[0] in suite.folders]
        return zlib.crc32(repr((suite, edits)).encode())

    def _minutes_left(self) -> int:
        return int((self._deadline - time.monotonic()) / 60)

    def _timed(self, suite: Suite, engine: str, batches: list[list[str]]) -> Run:
        """Runs the batches of tests one after another. Their outcomes become one entry of the report."""
        if not any(batches):
            self.complaints.append(f"{suite.name}: {engine} did not run, no test")
            return Run()
        started = time.monotonic()
        run = Run()
        for number, tests in enumerate(batches):
            minutes = self._minutes_left()
            if not tests:
                continue
            if minutes < 1:
                self.complaints.append(f"{suite.name}: {engine} did not run to the end, no time")
                break
            part = self._trees[engine].run(suite, tests, minutes, again=number > 0)
            if engine == REFERENCE and suite.oracle is Oracle.MENDED:
                self._trees[engine].mend(suite, part, max(self._minutes_left(), 1))
            run.outcomes |= part.outcomes
            run.timed_out |= part.timed_out
        if run.timed_out:
            self.complaints.append(f"{suite.name}: {engine} did not come to the end in the time given")
        if not run.outcomes:
            self.complaints.append(f"{suite.name}: {engine} ran no test; see {self._trees[engine].home}")
        self._add(suite, engine, run, time.monotonic() - started)
        return run

    def _add(self, suite: Suite, engine: str, run: Run, seconds: float) -> None:
        passed, failed, skipped = (run.count(status) for status in ("pass", "fail", "skipped"))
        print(f"{suite.name:15} {engine:7} {passed} passed, {failed} failed, {skipped} skipped", flush=True)
        tests = {}
        for name, outcome in sorted(run.outcomes.items()):
            entry = entry_of(self._entries, name)
            if outcome.status != "pass":
                reason = entry.reason if entry else outcome.text.partition("\n")[0]
                tests[name] = {"status": outcome.status, "reason": reason}
        self.report.setdefault(suite.name, {})[engine] = {
            "passed": passed,
            "failed": failed,
            "skipped": skipped,
            "seconds": round(seconds),
            "edited": sorted({edit.file for edit in self._edits if edit.file.split("/")[0] in suite.folders}),
            "not_passed": tests,
        }


def parse_arguments() -> argparse.Namespace:
    """Parses the command line. The docstring of this file explains the options."""
    known = {suite.name: suite for suite in SUITES}
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--suites", default=",".join(known))
    parser.add_argument("--minutes", type=int, default=600)
    parser.add_argument("--keep-reference", action="store_true")
    parser.add_argument("--tests", default="")
    parser.add_argument("--workers", type=int, default=2)
    arguments = parser.parse_args()
    names = [name for name in arguments.suites.replace(",", " ").split() if name]
    unknown = sorted(set(names) - set(known))
    if unknown or not names:
        parser.error(f"no suite {', '.join(unknown)}; there are: {', '.join(known)}")
    arguments.suites = [known[name] for name in names]
    arguments.tests = set(arguments.tests.replace(",", " ").split())
    return arguments


def main() -> int:
    """Runs the chosen suites. Returns the exit status: 0 when all runs agree with the list."""
    arguments = parse_arguments()
    if not paths.plugin().exists():
        print(f"{paths.plugin()} is not built; run: make build", file=sys.stderr)
        return 1
    try:
        entries, edits = read_list(LIST), read_edits()
    except (BadList, BadEdit) as error:
        print(error, file=sys.stderr)
        return 1
    RESULT.parent.mkdir(parents=True, exist_ok=True)
    lock = (paths.BUILD / "mtr" / "conformance.lock").open("w")
    fcntl.flock(lock, fcntl.LOCK_EX)  # only one run at a time can use the trees
    work = Conformance(entries, edits, arguments)
    try:
        for suite in arguments.suites:
            work.run(suite)
    finally:
        work.close()
    RESULT.write_text(
        json.dumps({"suites": work.report, "unexpected": work.complaints}, indent=1), encoding="utf-8"
    )
    for complaint in work.complaints:
        print(complaint)
    print(f"{len(work.complaints)} unexpected; {RESULT.relative_to(paths.ROOT)}")
    return 1 if work.complaints else 0


if __name__ == "__main__":
    sys.exit(main())
