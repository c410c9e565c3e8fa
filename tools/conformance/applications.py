"""Runs the tests of applications on ATOLL tables and, as the measure, on InnoDB tables.

    build/bin/python tools/conformance/applications.py                          all; about an hour
    build/bin/python tools/conformance/applications.py --suites sqlalchemy      some, separated by commas
    build/bin/python tools/conformance/applications.py --minutes 30             at most for each run of a suite
    build/bin/python tools/conformance/applications.py --only "migrations"      the suite's own choice of tests

The server makes every table in the engine under test, also those for which an application names InnoDB or
MyISAM. Prints `N passed, M failed, K skipped` per suite and engine, and writes the outcome of all tests to
build/mtr/applications.json. Fails when a test fails on ATOLL and not on InnoDB and does not stand in
applications.txt, which has the reason of each such test. The output of the tests is in build/mtr/applications/.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import time
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests"))

from harness import paths
from harness.process import scratch_directory
from harness.server import Server

ENGINES = ("InnoDB", "ATOLL")
LIST = Path(__file__).resolve().parent / "applications.txt"
CHOICE = Path(__file__).resolve().parent / "applications-tests.txt"
OUTPUT = paths.BUILD / "mtr" / "applications"
RESULT = paths.BUILD / "mtr" / "applications.json"
PROGRAMS = paths.BUILD / "bin" / "applications"
# Without NO_ENGINE_SUBSTITUTION, enforce_storage_engine replaces the engine that a statement names.
SQL_MODE = "STRICT_TRANS_TABLES,ERROR_FOR_DIVISION_BY_ZERO,NO_AUTO_CREATE_USER"

# Settings of Django's tests. The password's hash is a quick one, as in the settings that Django has for them.
DJANGO_SETTINGS = """
def _database(name):
    return {{
        "ENGINE": "django.db.backends.mysql",
        "NAME": name,
        "USER": "root",
        "HOST": "127.0.0.1",
        "PORT": {port},
        "TEST": {{"CHARSET": "utf8mb4"}},
    }}


DATABASES = {{"default": _database("d"), "other": _database("d2")}}
SECRET_KEY = "django_tests_secret_key"
PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
DEFAULT_AUTO_FIELD = "django.db.models.AutoField"
USE_TZ = False
"""


@dataclass
class Run:
    """What a suite did with one engine: how many tests passed and were skipped, and the names of those that failed."""

    passed: int
    skipped: int
    failed: list[str]
    seconds: float = 0.0

    def __str__(self) -> str:
        return (
            f"{self.passed} passed, {len(self.failed)} failed, {self.skipped} skipped, {self.seconds:.0f} s"
        )


def source_of(application: str) -> Path:
    """Returns the unpacked source of an application. Errors: paths.Missing."""
    found = sorted((PROGRAMS / "sources").glob(f"{application}-*"))
    if not found:
        raise paths.Missing(f"{application} is not here: tools/setup/applications.sh fetches it")
    return found[0]


def chosen_tests(suite: str) -> list[str]:
    """Returns the files or folders of tests that are run of a suite."""
    lines = [
        line.split() for line in CHOICE.read_text(encoding="utf-8").splitlines() if not line.startswith("#")
    ]
    return [test for name, test in lines if name == suite]


def run_logged(command: list[str], cwd: Path, log: Path, minutes: int, environment: dict[str, str]) -> None:
    """Runs a command whose exit code says nothing, because tests may fail. Its output goes to `log`.

    Errors: subprocess.TimeoutExpired.
    """
    with log.open("w") as output:
        subprocess.run(
            command, cwd=cwd, stdout=output, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, check=False,
            timeout=minutes * 60, env=os.environ | environment
        )  # fmt: skip


def run_sqlalchemy(server: Server, log: Path, minutes: int, only: list[str]) -> Run:
    """Runs the tests of SQLAlchemy's dialect and those of its core and ORM that write tables."""
    server.run("CREATE DATABASE test", "CREATE DATABASE test_schema")
    report = log.with_suffix(".xml")
    report.unlink(missing_ok=True)
    url = f"mysql+pymysql://root@127.0.0.1:{server.port}/test?charset=utf8mb4"
    command = [
        str(PROGRAMS / "bin" / "python"),
        "-m",
        "pytest",
        *(only or chosen_tests("sqlalchemy")),
        "--dburi",
        url,
    ]
    command += ["-q", "-p", "no:cacheprovider", "--maxfail=1000000", f"--junitxml={report}"]
    run_logged(command, source_of("sqlalchemy"), log, minutes, {})
    return read_junit(report)


def read_junit(report: Path) -> Run:
    """Reads pytest's report. Errors: paths.Missing when the tests ended without one."""
    if not report.is_file():
        raise paths.Missing(f"the tests ended without a report; see {report.with_suffix('.log')}")
    run = Run(0, 0, [])
    for case in ElementTree.parse(report).getroot().iter("testcase"):
        if case.find("skipped") is not None:
            run.skipped += 1
        elif case.find("failure") is not None or case.find("error") is not None:
            name = f"{case.get('classname')}.{case.get('name')}"
            run.failed.append(re.sub(r"_mariadb\+pymysql\w*", "", name))  # that this server has run it
        else:
            run.passed += 1
    return run


def run_django(server: Server, log: Path, minutes: int, only: list[str]) -> Run:
    """Runs the folders of Django's tests that work with tables."""
    settings = server.home / "atoll_settings.py"
    settings.write_text(DJANGO_SETTINGS.format(port=server.port))
    command = [
        str(PROGRAMS / "bin" / "python"),
        "runtests.py",
        "--settings=atoll_settings",
        "--parallel=1",
        "--noinput",
    ]
    source = source_of("django")
    search = os.pathsep.join((str(settings.parent), str(source)))
    run_logged(
        [*command, *(only or chosen_tests("django"))], source / "tests", log, minutes, {"PYTHONPATH": search}
    )
    return read_unittest(log)


def read_unittest(log: Path) -> Run:
    """Reads the output of Python's unittest. Errors: paths.Missing when the tests ended without their summary."""
    text = log.read_text(errors="replace")
    total = re.search(r"^Ran (\d+) tests? in ", text, re.MULTILINE)
    if not total:
        raise paths.Missing(f"the tests ended without a summary; see {log}")
    skipped = re.search(r"\bskipped=(\d+)", text[total.end() :])
    failed = sorted(set(re.findall(r"^(?:FAIL|ERROR): \S+ \(([^)\s]+)\)", text, re.MULTILINE)))
    skips = int(skipped[1]) if skipped else 0
    return Run(int(total[1]) - len(failed) - skips, skips, failed)


SUITES: dict[str, Callable[[Server, Path, int, list[str]], Run]] = {
    "sqlalchemy": run_sqlalchemy,
    "django": run_django,
}


def run_suite(name: str, engine: str, minutes: int, only: list[str]) -> Run:
    """Starts a server whose tables are all of `engine`, and runs the suite on it.

    Errors: RuntimeError when the server makes tables of another engine before or after the run.
    """
    options = {
        "atoll_flush_log_at_trx_commit": 2,
        "innodb_flush_log_at_trx_commit": 2,
        "character_set_server": "utf8mb4",
    }
    server = Server(scratch_directory("applications") / engine, options).start()
    try:
        server.run(
            f"SET GLOBAL sql_mode = '{SQL_MODE}'",
            f"SET GLOBAL default_storage_engine = {engine}",
            f"SET GLOBAL enforce_storage_engine = {engine}",
        )
        check_engine(server, engine)
        load_time_zones(server)
        started = time.monotonic()
        run = SUITES[name](server, OUTPUT / f"{name}-{engine}.log", minutes, only)
        run.seconds = time.monotonic() - started
        check_engine(server, engine)
        return run
    finally:
        server.destroy()


def check_engine(server: Server, engine: str) -> None:
    """Checks that a new connection makes tables of `engine`, whatever its statement says. Errors: RuntimeError."""
    wanted = "SELECT ENGINE FROM information_schema.TABLES WHERE TABLE_SCHEMA = 'engine_check'"
    statements = ("CREATE DATABASE engine_check", "CREATE TABLE engine_check.t (a INT) ENGINE=MyISAM", wanted)
    made = server.run(*statements)[0][0]
    server.run("DROP DATABASE engine_check")
    if made != engine:
        raise RuntimeError(f"the server makes tables of {made}, not of {engine}")


def load_time_zones(server: Server) -> None:
    """Fills the time zone tables, which Django's tests of dates read."""
    zones = subprocess.run(
        [str(paths.program("mariadb-tzinfo-to-sql")), "/usr/share/zoneinfo"],
        capture_output=True,
        text=True,
        check=True,
    )
    client = [str(paths.program("mariadb")), f"--socket={server.socket}", "--user=root", "mysql"]
    subprocess.run(client, input=zones.stdout, text=True, check=True, capture_output=True)


def read_list() -> dict[str, str]:
    """Returns the tests that may fail on ATOLL alone, and why: lines `suite test: reason`."""
    lines = (line.strip() for line in LIST.read_text(encoding="utf-8").splitlines())
    entries = (line.partition(": ") for line in lines if line and not line.startswith("#"))
    return {name: reason for name, _, reason in entries}


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--suites", default=",".join(SUITES), type=lambda text: re.split(r"[ ,]+", text.strip())
    )
    parser.add_argument("--minutes", type=int, default=120)
    parser.add_argument("--only", default="", type=str.split)
    arguments = parser.parse_args()
    OUTPUT.mkdir(parents=True, exist_ok=True)
    listed, unexpected, report = read_list(), [], {}
    for name in arguments.suites:
        runs = {}
        for engine in ENGINES:
            runs[engine] = run_suite(name, engine, arguments.minutes, arguments.only)
            print(f"{name:<12} {engine:<7} {runs[engine]}", flush=True)
        report[name] = {engine: vars(run) for engine, run in runs.items()}
        ours = sorted(set(runs["ATOLL"].failed) - set(runs["InnoDB"].failed))
        unexpected += [test for test in (f"{name} {one}" for one in ours) if test not in listed]
    RESULT.write_text(json.dumps(report, indent=1), encoding="utf-8")
    for test in unexpected:
        print(f"fails on ATOLL, not on InnoDB: {test}")
    return 1 if unexpected else 0


if __name__ == "__main__":
    sys.exit(main())
