"""Tests the conformance tool's own rules. No server is started."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent))

import applications
from edits import BadEdit, read_edits
from harness import paths
from runner import Outcome, Run, Tree, parse
from suites import Oracle, Suite, accept_any_refusal, copy_folder, renew, substitute, translate
from suites import tests_of as names_of
from verdicts import BadList, judge_reference, judge_subject, read_list


def entries_of(folder: Path, text: str) -> dict:
    file = folder / "list.txt"
    file.write_text(text, encoding="utf-8")
    return read_list(file)


def run_of(**statuses: str) -> Run:
    return Run({"s." + name: Outcome(status) for name, status in statuses.items()})


def test_only_the_word_of_the_engine_is_replaced() -> None:
    text = "ENGINE=InnoDB engine=innodb innodb_flush_method --innodb have_innodb.inc t1_innodb t1.innodb"
    expected = "ENGINE=ATOLL engine=atoll innodb_flush_method --innodb have_innodb.inc t1_innodb t1.innodb"
    assert substitute(text, "ATOLL") == expected
    assert substitute(text, "InnoDB") == text


def test_what_has_a_namesake_is_replaced_too() -> None:
    text = "--loose-innodb-lock-wait-timeout=4 @@innodb_lock_wait_timeout mysql.gtid_slave_pos_InnoDB"
    expected = "--loose-atoll-lock-wait-timeout=4 @@atoll_lock_wait_timeout mysql.gtid_slave_pos_ATOLL"
    assert substitute(text, "ATOLL") == expected
    assert substitute("innodb_read_only_compressed", "ATOLL") == "innodb_read_only_compressed"


def test_what_only_innodb_prints_is_not_expected_of_atoll() -> None:
    result = "test.t1\toptimize\tnote\tTable does not support optimize, doing x\nt1.frm\nt1#P#p0.ibd\n"
    assert translate(result, "ATOLL") == "t1.frm\n"
    assert translate(result, "InnoDB") == result


def test_installed_results_get_the_collation_once() -> None:
    renewed = ") ENGINE=X DEFAULT CHARSET=latin1 COLLATE=latin1_swedish_ci"
    assert renew(") ENGINE=X DEFAULT CHARSET=latin1") == renewed
    assert renew(renewed) == renewed


def test_an_edit_that_changes_nothing_is_an_error(tmp_path: Path) -> None:
    file = tmp_path / "s" / "t" / "x.test"
    file.parent.mkdir(parents=True)
    file.write_text("one;\ntwo;\n", encoding="utf-8")
    lines = tmp_path / "edits.txt"
    lines.write_text("# why\ns/t/x.test  ~^two;$~2;~  because\n", encoding="utf-8")
    (edit,) = read_edits(lines)
    edit.apply(tmp_path)
    assert file.read_text(encoding="utf-8") == "one;\n2;\n"
    with pytest.raises(BadEdit):
        edit.apply(tmp_path)
    lines.write_text("s/t/x.test ~two~~\n", encoding="utf-8")
    with pytest.raises(BadEdit):
        read_edits(lines)


def test_a_test_that_names_the_engine_is_found_through_what_it_sources(tmp_path: Path) -> None:
    folder = tmp_path / "suite" / "s" / "t"
    folder.mkdir(parents=True)
    (folder / "a.inc").write_text("create table t (a int) engine=InnoDB;", encoding="utf-8")
    (folder / "far.test").write_text("--source a.inc\n", encoding="utf-8")
    (folder / "not.test").write_text("# source a.inc\n# InnoDB\n--source include/b.inc\n", encoding="utf-8")
    for names_engine, expected in ((True, ["s.far"]), (False, ["s.not"]), (None, ["s.far", "s.not"])):
        suite = Suite("s", ("s",), Oracle.STOCK, names_engine=names_engine)
        assert names_of(suite, tmp_path / "suite") == expected


class FakeTree(Tree):
    """A tree whose tests pass once their results are recorded, except the tests in `unstable`."""

    def __init__(self, unstable: set[str]) -> None:
        self.recorded: list[str] = []
        self._unstable = unstable

    def run(
        self, suite: Suite, tests: list[str], limit_minutes: int, record: bool = False, again: bool = False
    ) -> Run:
        if record:
            self.recorded = tests
        statuses = {name: "fail" if name in self._unstable else "pass" for name in tests}
        return Run({f"{name} 'row'": Outcome(status) for name, status in statuses.items()})


def test_what_fails_with_the_installed_result_is_recorded_and_must_come_again() -> None:
    statuses = {"s.a 'row'": "fail", "s.b 'row'": "fail", "s.c": "pass"}
    run = Run({name: Outcome(status) for name, status in statuses.items()})
    tree = FakeTree(unstable={"s.b"})
    tree.mend(Suite("s", ("s",), Oracle.MENDED), run, 1)
    assert tree.recorded == ["s.a", "s.b"]
    assert [outcome.status for outcome in run.outcomes.values()] == ["pass", "fail", "pass"]


def test_any_refusal_of_an_alter_is_accepted(tmp_path: Path) -> None:
    file = tmp_path / "s" / "x.test"
    file.parent.mkdir()
    file.write_text("--error ER_ALTER_OPERATION_NOT_SUPPORTED\nalter;\n--error 1062\n", encoding="utf-8")
    accept_any_refusal(Suite("s", ("s",), Oracle.RECORDED), tmp_path)
    both = "ER_ALTER_OPERATION_NOT_SUPPORTED,ER_ALTER_OPERATION_NOT_SUPPORTED_REASON"
    assert file.read_text(encoding="utf-8") == f"--error {both}\nalter;\n--error 1062\n"


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


def test_a_combination_that_innodb_does_not_pass_either_is_no_difference(tmp_path: Path) -> None:
    entries = entries_of(tmp_path, "innodb s.one 'stmt' why\n")
    failed = Run({"s.one 'mix'": Outcome("pass"), "s.one 'stmt'": Outcome("fail")})
    assert judge_subject(entries, failed, failed) == []
    passed = Run({"s.one 'mix'": Outcome("pass"), "s.one 'stmt'": Outcome("pass")})
    assert len(judge_subject(entries, failed, passed)) == 1


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


def test_applications_failed_tests_are_read_from_both_kinds_of_reports(tmp_path):
    xml = tmp_path / "run.xml"
    xml.write_text(
        '<testsuites><testsuite><testcase classname="a.B" name="good"/>'
        '<testcase classname="a.B" name="bad"><failure message="no"/></testcase>'
        '<testcase classname="a.B_mariadb+pymysql_10_11_18_0" name="broken"><error message="no"/></testcase>'
        '<testcase classname="a.B" name="left_out"><skipped/></testcase></testsuite></testsuites>'
    )
    assert applications.read_junit(xml) == applications.Run(1, 1, ["a.B.bad", "a.B.broken"])
    log = tmp_path / "run.log"
    log.write_text(
        "FAIL: test_x (schema.tests.SchemaTests.test_x)\nERROR: test_y (basic.tests.ModelTest.test_y) (value=1)\n"
        "ERROR: test_y (basic.tests.ModelTest.test_y) (value=2)\nRan 9 tests in 1.5s\n\n"
        "FAILED (failures=1, skipped=3)\n"
    )
    failed = ["basic.tests.ModelTest.test_y", "schema.tests.SchemaTests.test_x"]
    assert applications.read_unittest(log) == applications.Run(4, 3, failed)


@pytest.mark.parametrize("read", [applications.read_junit, applications.read_unittest])
def test_applications_a_run_without_a_summary_is_no_success(tmp_path, read):
    broken = tmp_path / "run.log"
    broken.write_text("collecting ...\n")
    if read is applications.read_junit:
        broken = tmp_path / "none.xml"
    with pytest.raises(paths.Missing):
        read(broken)
