"""The server's test suites that are run with Atoll, and how each is prepared to run with another engine.

A suite is copied to the runner's private tree at run time, with the name InnoDB replaced by that of the
engine. Nothing of it is kept in this repository. edits.txt lists what is removed from the copies. The
expected results are one of:

* recorded: the output of InnoDB when it ran the same copy with --record, if a second run has the same output.
  For suites whose results are out of date or were written for another default engine.
* stock: the installed result file. For suites that run one test in several combinations with one result.
* mended: the installed result file if InnoDB's output is the same, otherwise a recorded one. For suites whose
  results were written for another default engine, but mostly do not depend on it.
"""

from __future__ import annotations

import re
import shutil
import sys
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests"))

from harness import paths  # noqa: E402

SYSTEM_SUITES = paths.SERVER / "share" / "mysql" / "mysql-test" / "suite"
REFERENCE = "InnoDB"
SUBJECT = "ATOLL"

# Matches InnoDB as a whole word only. innodb_lock_wait_timeout, have_innodb.inc, --innodb and
# include/innodb.inc are not replaced.
ENGINE_WORD = re.compile(r"(?<![\w/.#-])innodb(?![\w.-])(?!\t\t\d+ transactions)", re.IGNORECASE)

ENGINE_CLAUSE = re.compile(r"engine(_type)?\s*=\s*'?innodb", re.IGNORECASE)
SOURCED = re.compile(r"^\s*(?:--\s*)?source\s+(\S+?);?\s*$", re.MULTILINE)

# Names that exist for Atoll, too, with its own name in them: options of the same meaning, and the server's
# table with a replica's position.
NAMESAKE = re.compile(
    r"(?:(?<=gtid_slave_pos_)|(?<=skip-))innodb\b|innodb(?=[-_](?:lock[-_]wait[-_]timeout|read[-_]only)\b)",
    re.IGNORECASE,
)

# Lines that InnoDB prints about itself. They are removed from Atoll's expected results.
INNODB_ONLY_LINES = re.compile(
    # InnoDB cannot optimize in place and prints this note; Atoll can, and prints only OK.
    r"^[^\n]*\toptimize\tnote\tTable does not support optimize[^\n]*\n"
    # InnoDB's files in listings of a directory; Atoll has no file for a table there.
    r"|^[\w#]+\.ibd\n",
    re.MULTILINE,
)
SUBSTITUTED = {".test", ".inc", ".result", ".rdiff", ".sql", ".opt"}

# Tests whose file names contain another engine's name do not use ours.
OTHER_ENGINE = re.compile(
    r"(^|_)(myisam|maria|aria|archive|memory|heap|blackhole|csv|merge|federated|rocksdb|ndb|falcon)(_|$)"
)


class Oracle(Enum):
    """Where the expected results come from; see the docstring of this file."""

    RECORDED = "recorded"
    STOCK = "stock"
    MENDED = "mended"


@dataclass(frozen=True)
class Suite:
    """One line of the report. `folders` are the suites of the runner of which it consists."""

    name: str
    folders: tuple[str, ...]
    oracle: Oracle
    only: str = ""  # pattern of the tests' names; empty: all
    # File name -> text, in which ENGINE stands for the engine. By these files a suite chooses its default
    # engine.
    combinations: dict[str, str] = field(default_factory=dict)
    # True: only tests that name InnoDB or require it, themselves or in a sourced script of their suite.
    # False: only the other tests. None: all tests.
    names_engine: bool | None = None
    keep_names: bool = False  # only the default engine changes; tests that name InnoDB still use it
    server_options: tuple[str, ...] = ()
    runner_options: tuple[str, ...] = ()


DEFAULT_ENGINE = ("default-storage-engine=ENGINE",)

SUITES = (
    Suite(
        "storage_engine",
        ("storage_engine", "storage_engine/trx", "storage_engine/parts"),
        Oracle.RECORDED,
        server_options=("innodb-lock-wait-timeout=1", "loose-atoll-lock-wait-timeout=1"),
        runner_options=("--enable-disabled",),
    ),
    Suite(
        "engines/iuds",
        ("engines/iuds",),
        Oracle.STOCK,
        combinations={"combinations": "[engine]\ninnodb\ndefault-storage-engine=ENGINE\n"},
    ),
    Suite(
        "engines/funcs",
        ("engines/funcs",),
        Oracle.STOCK,
        combinations={"combinations": "[engine]\ninnodb\ndefault-storage-engine=ENGINE\npartition\n"},
    ),
    Suite("parts", ("parts",), Oracle.RECORDED, server_options=DEFAULT_ENGINE),
    Suite("vcol", ("vcol",), Oracle.RECORDED, server_options=DEFAULT_ENGINE),
    Suite("gcol", ("gcol",), Oracle.RECORDED, server_options=DEFAULT_ENGINE),
    Suite("handler", ("handler",), Oracle.RECORDED, server_options=DEFAULT_ENGINE),
    Suite(
        "period",
        ("period",),
        Oracle.STOCK,
        combinations={"engines.combinations": "[engine]\ninnodb\ndefault-storage-engine=ENGINE\n"},
    ),
    Suite(
        "versioning",
        ("versioning",),
        Oracle.STOCK,
        combinations={
            # The suite's own scripts require a combination with this name.
            "engines.combinations": "[timestamp]\ndefault-storage-engine=ENGINE\n",
            "innodb.combinations": "[timestamp]\ndefault-storage-engine=ENGINE\n",
        },
        keep_names=True,  # only InnoDB has system versioning by transaction
    ),
    Suite("sql_sequence", ("sql_sequence",), Oracle.RECORDED, server_options=DEFAULT_ENGINE),
    Suite(
        "foreign_keys",
        ("innodb", "binlog"),
        Oracle.RECORDED,
        only=r"^(add_foreign_key|cascade_lock_wait|fk_.*|foreign.*|innodb-(fk.*|get-fk|index-online-fk)|stored_fk"
        r"|truncate_foreign|update-cascade)$",
    ),
    # The default engine stays that of the suite (MyISAM), because its results were written for MyISAM.
    Suite("rpl", ("rpl",), Oracle.STOCK, names_engine=True),
    # The other tests of rpl, whose results should not depend on the engine of the tables.
    Suite("rpl_default", ("rpl",), Oracle.MENDED, names_engine=False, server_options=DEFAULT_ENGINE),
)


def substitute(text: str, engine: str) -> str:
    """Returns `text` with the reference engine's name replaced by that of `engine`. Lower case stays lower
    case."""
    if engine == REFERENCE:
        return text

    def own_name(found: re.Match[str]) -> str:
        return engine.lower() if found[0].islower() else engine.upper()

    return NAMESAKE.sub(own_name, ENGINE_WORD.sub(own_name, text))


def translate(result: str, engine: str) -> str:
    """Returns InnoDB's expected result, changed into what `engine` should print."""
    return result if engine == REFERENCE else INNODB_ONLY_LINES.sub("", substitute(result, engine))


def renew(result: str) -> str:
    """Returns an installed result with the changes in the server's output since the result was written."""
    return re.sub(
        r" DEFAULT CHARSET=latin1(?! COLLATE)", " DEFAULT CHARSET=latin1 COLLATE=latin1_swedish_ci", result
    )


def installed_result(tree: Path, name: str) -> Path:
    """Returns the file with a test's expected result below a tree's suite/."""
    folder, _, test = name.rpartition(".")
    result = tree / folder / "r" / f"{test}.result"
    return result if result.exists() else tree / folder / f"{test}.result"


def own_includes(folder: Path, engine: str) -> None:
    """Replaces the tree's links include/ and main/ by folders, for suites that source scripts from there.

    Their scripts create tables in `engine`, and print nothing that differs between runs. The installed
    wait_show_condition.inc does: it shows the process list, with connection numbers and times, when it gives
    up. It also waits a second longer than requested, when other timeouts of storage_engine's tests are
    expected to expire.
    """
    for name in ("include", "main"):
        own = folder / name
        installed = own.resolve()
        own.unlink()
        own.mkdir()
        for file in installed.iterdir():
            text = file.read_bytes().decode("latin-1") if file.suffix in (".inc", ".test") else ""
            if ENGINE_CLAUSE.search(text):
                (own / file.name).write_bytes(substitute(text, engine).encode("latin-1"))
            else:
                (own / file.name).symlink_to(file)
    wait = folder / "include" / "wait_show_condition.inc"
    text = wait.read_text(encoding="utf-8")
    wait.unlink()
    text = text.replace("eval $show_statement;", "").replace("inc $max_run_time;", "")
    wait.write_text(text, encoding="utf-8")


def copy_folder(source: Path, target: Path, engine: str) -> None:
    """Copies one folder of a suite, with its sub-folders, for `engine`. Deletes `target` first.

    All files are decoded as Latin-1, which keeps every byte, because some of them are not UTF-8.
    """
    if target.is_symlink():
        target.unlink()
    elif target.exists():
        shutil.rmtree(target)
    for file in sorted(source.rglob("*")):
        place = target / file.relative_to(source)
        if file.is_dir() or file.suffix == ".reject":
            continue
        place.parent.mkdir(parents=True, exist_ok=True)
        if file.suffix in SUBSTITUTED:
            text = file.read_bytes().decode("latin-1")
            text = translate(text, engine) if file.suffix == ".result" else substitute(text, engine)
            place.write_bytes(text.encode("latin-1"))
        else:
            shutil.copyfile(file, place)


def mask_engine(folder: Path, engine: str) -> None:
    """Edits tests that print ENGINE instead of the default engine's name: they then replace the name of
    `engine`."""
    for file in folder.rglob("*.test"):
        text = file.read_bytes().decode("latin-1")
        text = text.replace(f"replace_result {REFERENCE} ENGINE", f"replace_result {engine} ENGINE")
        file.write_bytes(text.encode("latin-1"))


def install(suite: Suite, engine: str, source: Path, target: Path) -> None:
    """Copies `suite` from one tree's suite/ to another's, and sets the engine with which it runs."""
    for folder in suite.folders:
        if "/" in folder and folder.split("/")[0] in suite.folders:
            continue  # was copied with its parent
        if "/" in folder:
            parent = target / folder.split("/")[0]
            if parent.is_symlink():
                real = parent.resolve()
                parent.unlink()
                parent.mkdir()
                for entry in real.iterdir():
                    (parent / entry.name).symlink_to(entry)
        copy_folder(source / folder, target / folder, REFERENCE if suite.keep_names else engine)
        if suite.keep_names:
            mask_engine(target / folder, engine)
        for name, text in suite.combinations.items():
            (target / folder / name).write_text(text.replace("ENGINE", engine), encoding="ascii")


def accept_any_refusal(suite: Suite, tree: Path) -> None:
    """If a test expects that an ALTER's ALGORITHM or LOCK is refused, lets it accept the error with and
    without a reason."""
    refusal = re.compile(
        r"^(\s*(?:--\s*)?error )ER_ALTER_OPERATION_NOT_SUPPORTED(?:_REASON)?(;?)$", re.MULTILINE
    )
    both = r"\1ER_ALTER_OPERATION_NOT_SUPPORTED,ER_ALTER_OPERATION_NOT_SUPPORTED_REASON\2"
    for folder in suite.folders:
        for file in (tree / folder).rglob("*"):
            if file.suffix not in (".test", ".inc"):
                continue
            text = file.read_bytes().decode("latin-1")
            file.write_bytes(refusal.sub(both, text).encode("latin-1"))


def tests_of(suite: Suite, tree: Path) -> list[str]:
    """Returns the names (`suite.name`) of the suite's tests below a tree's suite/ that are relevant for the
    engine."""
    names = []
    for folder in suite.folders:
        place = tree / folder / "t"
        place = place if place.is_dir() else tree / folder
        for file in sorted(place.glob("*.test")):
            if not re.search(suite.only, file.stem) or OTHER_ENGINE.search(file.stem):
                continue
            if suite.names_engine in (None, names_engine(file, tree, set())):
                names.append(f"{folder}.{file.stem}")
    return names


def names_engine(file: Path, tree: Path, seen: set[Path]) -> bool:
    """Returns whether a script, or one that it sources from its suite, names InnoDB or requires it."""
    if file in seen or not file.is_file():
        return False
    seen.add(file)
    text = re.sub(r"^\s*#.*$", "", file.read_bytes().decode("latin-1"), flags=re.MULTILINE)
    if "have_innodb.inc" in text or ENGINE_WORD.search(text):
        return True
    sourced = SOURCED.findall(text)
    places = [place for name in sourced for place in (file.parent / name, tree.parent / name)]
    return any(names_engine(place, tree, seen) for place in places if tree in place.parents)
