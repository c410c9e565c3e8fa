"""Runs MariaDB's test runner on one suite with one engine, and parses its output."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import zlib
from dataclasses import dataclass, field
from pathlib import Path

from edits import Edit
from suites import (
    REFERENCE,
    SYSTEM_SUITES,
    Oracle,
    Suite,
    accept_any_refusal,
    install,
    installed_result,
    own_includes,
    renew,
    substitute,
)

STATUS_LINE = re.compile(
    r"^(?P<test>[\w./-]+)(?: '(?P<combination>[^']*)')?\s+(?:w\d+\s+)?\[ (?P<status>[\w-]+) \]\s*(?P<text>.*)$"
)
MEMORY_BYTES_WANTED = 2_000_000_000  # of /dev/shm for the servers' files; containers often have 64 MB


@dataclass
class Outcome:
    """The outcome of one test in one combination."""

    status: str  # pass, fail, skipped
    text: str = ""  # the runner's reason for a skip, the difference for a failure


@dataclass
class Run:
    """One suite with one engine. Keys are `suite.name` or `suite.name 'combination'`."""

    outcomes: dict[str, Outcome] = field(default_factory=dict)
    timed_out: bool = False

    def count(self, status: str) -> int:
        """Returns how many tests have this status."""
        return sum(outcome.status == status for outcome in self.outcomes.values())


def parse(log: str) -> dict[str, Outcome]:
    """Parses the runner's output. A test that is reported twice has failed: the second report is for a
    warning in the server's log."""
    outcomes: dict[str, Outcome] = {}
    failing: Outcome | None = None
    for line in log.splitlines():
        found = STATUS_LINE.match(line)
        if not found:
            if failing is not None and not line.startswith("worker["):
                failing.text += line + "\n"
            continue
        name = found["test"] + (f" '{found['combination']}'" if found["combination"] else "")
        status = {"disabled": "skipped"}.get(found["status"], found["status"])
        failing = None
        if status not in ("pass", "fail", "skipped"):
            continue
        if status != "pass" or name not in outcomes:
            outcomes[name] = Outcome(status, found["text"] if status != "pass" else "")
        if status == "fail":
            failing = outcomes[name]
            failing.text += "\n"
    return outcomes


class Tree:
    """The private tree of one engine: build/mtr/conformance/<engine>."""

    def __init__(self, project: Path, engine: str, plugin: Path, workers: int) -> None:
        self.engine = engine
        self._workers = workers
        self.home = project / "build" / "mtr" / "conformance" / engine
        self.home.mkdir(parents=True, exist_ok=True)
        self.folder = self.home / "root" / "share" / "mysql" / "mysql-test"
        self._project = project
        self._plugin = plugin

    @property
    def suites(self) -> Path:
        """The folder with the copies of the suites."""
        return self.folder / "suite"

    def make(self) -> None:
        """Builds the tree anew.

        Errors: subprocess.CalledProcessError when the server's tests are missing. The script mtr-root.sh has
        printed a message.
        """
        for outcomes in self.home.glob("*.json"):  # saved outcomes of the old tree
            outcomes.unlink()
        script = self._project / "tools" / "mtr-root.sh"
        subprocess.run([script, self.home / "root", self._plugin], check=True)
        link = self.home / "root" / "lib" / "mysql" / "plugin" / "ha_atoll.so"
        link.unlink()
        shutil.copyfile(self._plugin, link)  # a copy, so that a build meanwhile does no harm
        own_includes(self.folder, self.engine)

    def install_reference(self, suite: Suite, edits: list[Edit]) -> None:
        """Copies `suite` from the installed server and edits the copy. Errors: edits.BadEdit."""
        install(suite, REFERENCE, SYSTEM_SUITES, self.suites)
        for edit in edits:
            if edit.file.split("/")[0] in suite.folders:
                edit.apply(self.suites)
        if suite.oracle is Oracle.RECORDED:
            accept_any_refusal(suite, self.suites)

    def install(self, suite: Suite, source: Path, installed_results: list[str]) -> None:
        """Copies `suite` from `source`, the suite/ folder of another tree.

        `installed_results`: tests (`suite.name`) whose expected result is the one of the installed suite.
        """
        install(suite, self.engine, source, self.suites)
        for name in installed_results:
            result = installed_result(SYSTEM_SUITES, name)
            text = substitute(renew(result.read_bytes().decode("latin-1")), self.engine)
            (self.suites / result.relative_to(SYSTEM_SUITES)).write_bytes(text.encode("latin-1"))

    def run(
        self, suite: Suite, tests: list[str], limit_minutes: int, record: bool = False, again: bool = False
    ) -> Run:
        """Runs `tests`, and waits until they have ended or the time limit is over. The runner's output goes
        to <suite>.log.

        `record`: the tests' output becomes their expected result in this tree. `again`: other tests of the
        suite have just been run, and their logs and differences must be kept.
        """
        command = self._command(suite, limit_minutes) + (["--record"] if record else []) + tests
        log = self.home / (
            suite.name.replace("/", "-") + ("-record" if record else "-again" if again else "") + ".log"
        )
        environment = os.environ | {"ENGINE": self.engine}
        with log.open("wb") as output:
            subprocess.run(
                command,
                cwd=self.folder,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                check=False,
            )
        text = log.read_text(encoding="utf-8", errors="replace")
        run = Run(parse(text), "Test suite timeout" in text)
        folder = self.home / "failed" / suite.name.replace("/", "-")
        if not again:
            shutil.rmtree(folder, ignore_errors=True)
        _write_differences(folder, run)
        return run

    def mend(self, suite: Suite, run: Run, limit_minutes: int) -> None:
        """Records the output of the failed tests of `run` as their expected results, runs them again, and
        puts the new outcomes into `run`."""
        failed = sorted({name.split(" ")[0] for name, one in run.outcomes.items() if one.status == "fail"})
        if not failed:
            return
        self.run(suite, failed, limit_minutes, record=True)
        again = self.run(suite, failed, limit_minutes)
        run.outcomes |= again.outcomes
        run.timed_out |= again.timed_out

    def _command(self, suite: Suite, limit_minutes: int) -> list[str]:
        options = [
            "plugin-load-add=ha_atoll.so",
            "loose-innodb",
            *suite.server_options,
        ]
        command = [
            "perl",
            "mariadb-test-run.pl",
            f"--vardir={self._var()}",
            f"--parallel={self._workers}",
            "--force",
        ]
        command += [
            "--max-test-fail=0",
            "--retry=0",
            "--testcase-timeout=15",
            f"--suite-timeout={limit_minutes}",
        ]
        command += [f"--mysqld=--{option.replace('ENGINE', self.engine)}" for option in options]
        return command + list(suite.runner_options)

    def _var(self) -> Path:
        var = self.home / "var"
        if var.is_symlink():
            shutil.rmtree(var.resolve(), ignore_errors=True)
            var.unlink()
        shutil.rmtree(var, ignore_errors=True)
        memory = Path("/dev/shm")
        if memory.is_dir() and shutil.disk_usage(memory).free >= MEMORY_BYTES_WANTED:
            # The name is the same in each run, because some test results contain it.
            place = memory / f"atoll-conformance-{zlib.crc32(bytes(self.home)):08x}"
            shutil.rmtree(place, ignore_errors=True)
            place.mkdir()
            var.symlink_to(place)
            return place
        var.mkdir()
        return var

    def remove_var(self) -> None:
        """Frees the memory (/dev/shm) that the servers' files take."""
        var = self.home / "var"
        if var.is_symlink():
            shutil.rmtree(var.resolve(), ignore_errors=True)
            var.unlink()


def _write_differences(folder: Path, run: Run) -> None:
    """Writes the runner's output about each failed test to a file of its own."""
    for name, outcome in run.outcomes.items():
        if outcome.status == "fail":
            folder.mkdir(parents=True, exist_ok=True)
            file = re.sub(r"[^\w.,-]", "_", name) + ".txt"
            (folder / file).write_text(outcome.text, encoding="utf-8")
