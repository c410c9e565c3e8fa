"""Runs random ALTERs, shortens failing cases, replays cases.

    make random-alter MINUTES=60 SEED=7          runs cases; writes failures to build/random-alter/
    make random-alter SEED=7 CASE=123            runs one case of a seed, and prints its statements

The seed and the number of a case fix the whole case.
"""

from __future__ import annotations

import argparse
import copy
import itertools
import random
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from harness import paths
from harness.process import exit_cleanly_on_signals, scratch_directory
from harness.random_alter.cases import Case, Maker
from harness.random_alter.kinds import pairs
from harness.random_alter.twins import Difference, Twins
from harness.server import Server

RESULTS = paths.BUILD / "random-alter"
FAILURES_MAX = 20
SHRINK_S = 30.0


@dataclass
class Failure:
    case: Case
    kind: str
    message: str

    def __str__(self) -> str:
        script = "\n".join(f"  {line};" for line in self.case.script())
        return f"case {self.case.name}, {self.kind}: {self.message}\n{script}"


@dataclass
class Result:
    cases: int = 0
    errors: Counter = field(default_factory=Counter)
    ways: Counter = field(default_factory=Counter)
    excused: Counter = field(default_factory=Counter)
    failures: list[Failure] = field(default_factory=list)

    def __str__(self) -> str:
        made = f"{self.cases} cases, {self.ways.total()} ALTERs, {len(self.failures)} failures"
        alike = dict(self.errors.most_common(12))
        return f"{made}; how: {dict(self.ways)}; failed alike: {alike}; excused: {dict(self.excused)}"


def new_server() -> Server:
    """The engines' durability does not matter here: nothing is killed."""
    options: dict[str, object] = {"innodb-flush-log-at-trx-commit": 0, "innodb-strict-mode": "OFF",
                                  "innodb-flush-method": "nosync", "character-set-server": "utf8mb4"}  # fmt: skip
    return Server(scratch_directory("alter") / "s", options)


def cases(seed: int) -> Iterator[Case]:
    """Yields the cases of a seed, without end."""
    for number, (first, second) in enumerate(pairs(random.Random(seed))):
        yield Maker(f"{seed}:{number}", first, second).make()


class Runner:
    """Runs cases with one server. A server that has died is replaced."""

    def __init__(self, log: Callable[[str], None] = lambda _: None):
        self._log = log
        self._server = new_server().start()
        self._twins = Twins(self._server, log)
        self.result = Result()

    def close(self) -> None:
        self._twins.close()
        self._server.destroy()

    def difference(self, case: Case) -> Difference | None:
        """Runs a case. Returns how the tables differ, or None."""
        if not self._server.running():
            self._server.destroy()
            self._server = new_server().start()
            self._twins = Twins(self._server, self._log)
        try:
            outcome = self._twins.run(case)
        except Difference as difference:
            return difference
        self.result.errors.update(outcome.errors)
        self.result.ways.update(outcome.ways)
        if outcome.excused:
            self.result.excused[outcome.excused] += 1
        return None

    def run(self, case: Case, shrink_s: float = SHRINK_S) -> Failure | None:
        """Runs a case, and makes it smaller if it fails."""
        self.result.cases += 1
        found = self.difference(case)
        if found is None:
            return None
        failure = Failure(case, found.kind, str(found))
        if shrink_s > 0:
            failure = self._shrunk(failure, time.monotonic() + shrink_s)
        self.result.failures.append(failure)
        return failure

    def _shrunk(self, failure: Failure, deadline: float) -> Failure:
        """Leaves out what the failure does not need."""
        again = True
        while again:
            again = False
            for part in ("steps", "later", "options", "lines", "rows"):
                number = len(getattr(failure.case, part)) - 1
                while number >= 0 and time.monotonic() < deadline:
                    left = [*getattr(failure.case, part)[:number], *getattr(failure.case, part)[number + 1 :]]
                    candidate = copy.copy(failure.case)
                    setattr(candidate, part, left)
                    found = self.difference(candidate)
                    if found is not None and found.kind == failure.kind:
                        failure, again = Failure(candidate, found.kind, str(found)), True
                    number -= 1
        return failure


def run_minutes(
    seed: int, minutes: float, shrink_s: float = SHRINK_S, cases_max: int | None = None
) -> Result:
    """Runs cases until the time is over, `cases_max` have run or FAILURES_MAX have failed."""
    runner = Runner()
    deadline = time.monotonic() + 60 * minutes
    try:
        for case in itertools.islice(cases(seed), cases_max):
            if time.monotonic() > deadline or len(runner.result.failures) >= FAILURES_MAX:
                break
            failure = runner.run(case, shrink_s)
            if failure is not None:
                save(failure)
        return runner.result
    finally:
        runner.close()


def save(failure: Failure) -> None:
    RESULTS.mkdir(parents=True, exist_ok=True)
    name = f"{failure.case.name}-{failure.kind}".replace(" ", "-").replace(":", "-")
    (RESULTS / f"{name}.txt").write_text(f"{failure}\n", errors="backslashreplace")
    print(failure, flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument(
        "--case", type=int, default=None, help="only this case of the seed; prints its statements"
    )
    parser.add_argument(
        "--shrink", type=float, default=SHRINK_S, help="seconds to make a failing case smaller"
    )
    arguments = parser.parse_args()
    exit_cleanly_on_signals()
    sys.stdout.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
    seed = arguments.seed if arguments.seed is not None else random.randrange(1 << 30)
    print(f"seed {seed}", flush=True)
    if arguments.case is None:
        result = run_minutes(seed, arguments.minutes, arguments.shrink)
        print(result)
        return 1 if result.failures else 0
    runner = Runner(print)
    failure = runner.run(next(itertools.islice(cases(seed), arguments.case, None)), shrink_s=0)
    runner.close()
    print(failure or runner.result)
    return 1 if failure else 0


if __name__ == "__main__":
    sys.exit(main())
