"""Tests of the conformance tool's own rules; no server is started."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent))

from runner import Outcome, Run, parse
from suites import copy_folder, renew, substitute, translate
from verdicts import BadList, judge_reference, judge_subject, read_list


def entries_of(folder: Path, text: str) -> dict:
    file = folder / "list.txt"
    file.write_text(text, encoding="utf-8")
    return read_list(file)


def run_of(**statuses: str) -> Run:
    return Run({"s." + name: Outcome(status) for name, status in statuses.items()})


def test_only_the_word_of_the_engine_is_replaced() -> None:
    text = "ENGINE=InnoDB engine=innodb innodb_lock_wait_timeout --innodb have_innodb.inc t1_innodb t1.innodb"
    expected = (
        "ENGINE=ATOLL engine=atoll innodb_lock_wait_timeout --innodb have_innodb.inc t1_innodb t1.innodb"
    )
    assert substitute(text, "ATOLL") == expected
    assert substitute(text, "InnoDB") == text


def test_what_only_innodb_prints_is_not_expected_of_atoll() -> None:
    result = "test.t1\toptimize\tnote\tTable does not support optimize, doing x\nt1.frm\nt1#P#p0.ibd\n"
    assert translate(result, "ATOLL") == "t1.frm\n"
    assert translate(result, "InnoDB") == result


def test_installed_results_get_the_collation_once() -> None:
    renewed = ") ENGINE=X DEFAULT CHARSET=latin1 COLLATE=latin1_swedish_ci"
    assert renew(") ENGINE=X DEFAULT CHARSET=latin1") == renewed
    assert renew(renewed) == renewed


def test_bytes_that_are_not_utf8_survive_the_copy(tmp_path: Path) -> None:
    (tmp_path / "a" / "t").mkdir(parents=True)
    (tmp_path / "a" / "t" / "x.test").write_bytes(b"select '\xe4' engine=InnoDB")
    copy_folder(tmp_path / "a", tmp_path / "b", "ATOLL")
    assert (tmp_path / "b" / "t" / "x.test").read_bytes() == b"select '\xe4' engine=ATOLL"


def test_the_runners_lines_are_understood() -> None:
    log = (
        "s.one                [ pass ]     12\n"
        "s/sub.two 'mix'      w1 [ fail ]\n"
        "        what went wrong\n"
        "s.three              w2 [ skipped ]  needs debug\n"
        "s.one                w1 [ fail ]  Found warnings/errors in server log file!\n"
    )
    outcomes = parse(log)
    assert {name: outcome.status for name, outcome in outcomes.items()} == {
        "s.one": "fail",
        "s/sub.two 'mix'": "fail",
        "s.three": "skipped",
    }
    assert "what went wrong" in outcomes["s/sub.two 'mix'"].text
    assert outcomes["s.three"].text == "needs debug"


def test_a_line_without_reason_or_verdict_is_refused(tmp_path: Path) -> None:
    for text in ("atoll s.one\n", "perhaps s.one because\n", "atoll s.one why\nskip s.one why\n"):
        with pytest.raises(BadList):
            entries_of(tmp_path, text)


def test_unexpected_failures_and_passes_are_both_reported(tmp_path: Path) -> None:
    entries = entries_of(tmp_path, "atoll s.listed why\natoll s.gone why\ninnodb s.odd why\n")
    reference = run_of(listed="pass", gone="pass", new="pass", absent="pass", odd="fail")
    assert judge_reference(entries, reference) == []
    complaints = judge_subject(entries, run_of(listed="fail", gone="pass", new="fail"), reference)
    assert [line.split(":")[0] for line in complaints] == ["s.new", "s.gone", "s.absent"]


def test_a_skip_with_atoll_only_is_reported(tmp_path: Path) -> None:
    complaints = judge_subject(entries_of(tmp_path, ""), run_of(one="skipped"), run_of(one="pass"))
    assert len(complaints) == 1
    assert judge_subject({}, run_of(one="skipped"), run_of(one="skipped")) == []


def test_a_test_with_combinations_passes_when_all_do(tmp_path: Path) -> None:
    entries = entries_of(tmp_path, "atoll s.one why\n")
    run = Run({"s.one 'row'": Outcome("pass"), "s.one 'stmt'": Outcome("fail")})
    assert judge_subject(entries, run, Run()) == []
    run.outcomes["s.one 'stmt'"].status = "pass"
    assert len(judge_subject(entries, run, Run())) == 1
