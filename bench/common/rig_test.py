"""Tests that the benchmark code parses sysbench's output and compares figures correctly. No server is
started."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import page
from common import compare, goals, report, rig, sysbench
from workloads import neo_cluster

OUTPUT = """
Latency histogram (values are in milliseconds)
       value  ------------- distribution ------------- count
       0.100 |****************************************  90
       0.200 |****                                      9
       5.000 |*                                         1

[ 1s ] thds: 1 tps: 60.00 qps: 120.00 (r/w/o: 120.00/0.00/0.00) lat (ms,99%): 0.20 err/s: 0.00 reconn/s: 0.00
[ 2s ] thds: 1 tps: 0.00 qps: 0.00 (r/w/o: 0.00/0.00/0.00) lat (ms,99%): 0.00 err/s: 0.00 reconn/s: 0.00
[ 3s ] thds: 1 tps: 40.00 qps: 80.00 (r/w/o: 80.00/0.00/0.00) lat (ms,99%): 0.20 err/s: 0.00 reconn/s: 0.00
SQL statistics:
    transactions:                        100    (40.00 per sec.)
    queries:                             200    (80.00 per sec.)
    ignored errors:                      3      (1.20 per sec.)
General statistics:
    total time:                          2.5000s
    total number of events:              100
Latency (ms):
         min:                                    0.09
         avg:                                    0.15
         99th percentile:                        0.20
         max:                                    5.10
"""


def test_all_percentiles_come_from_the_histogram():
    assert sysbench.parse(OUTPUT)["latency_ms"] == {
        "avg": 0.15, "p50": 0.1, "p95": 0.2, "p99": 0.2, "p99.9": 5.0, "max": 5.1
    }  # fmt: skip


def test_a_second_without_a_transaction_is_a_stall():
    found = sysbench.parse(OUTPUT)
    assert found["stall"] == {"ms_max": 5.1, "seconds_without": 1, "slowest_second": 0}
    assert (found["transactions"], found["errors"], found["tps"]) == (100, 3, 40)


def test_text_that_is_no_report_is_an_error():
    with pytest.raises(sysbench.SysbenchFailed):
        sysbench.parse("FATAL: unable to connect")


def test_the_slowest_window_is_a_share_of_the_mean():
    assert sysbench.slowest_window([10, 10, 5, 5], 2) == pytest.approx(5 / 7.5)
    assert sysbench.slowest_window([10], 2) is None


def test_ratios_are_taken_within_a_repetition_so_that_a_slow_machine_cancels_out():
    slow = {0: 1.0, 1: 10.0, 2: 100.0}
    results = compare.interleave(
        ["InnoDB", "Atoll"], 3, lambda name, n: {"cpu": {"us": slow[n] * (2 if name == "Atoll" else 1)}}
    )
    assert results["setups"]["Atoll"]["cpu.us"] == {"median": 20, "min": 2, "max": 200, "ratio": 2}


def test_each_repetition_begins_with_another_competitor():
    order = []
    compare.interleave(["a", "b", "c"], 3, lambda name, _n: order.append(name) or {"x": 1})
    assert "".join(order) == "abcbcacab"


def test_a_competitor_that_fails_does_not_stop_the_others():
    def run(name: str, _repetition: int) -> dict[str, int]:
        if name == "b":
            raise OSError("gone")
        return {"x": 1}

    failures: dict[str, str] = {}
    results = compare.interleave(["a", "b"], 2, run, base="a", failures=failures)
    assert (list(results["setups"]), failures) == (["a"], {"b": "OSError: gone"})


def test_every_lsm_setup_gets_the_memory_of_the_buffer_pool():
    for memory_mib in (128, 512, 4096):
        assert sum(rig.cache_and_memtables(memory_mib * rig.MIB)) == memory_mib * rig.MIB


def test_neo_has_a_name_for_the_engine_of_each_setup():
    assert set(neo_cluster.ENGINES) == {setup.engine for setup in rig.SETUPS.values()}


def test_small_figures_keep_their_digits():
    shown = [report.three_figures(value) for value in (0, 0.00123, 1.234, 12.34, 1234.5)]
    assert shown == ["0", "0.00123", "1.23", "12.3", "1,234"]


def test_a_benchmark_without_report_is_named_as_not_run():
    text = page.page({})
    assert "## oltp\n\nNot run yet" in text
    assert "|---" not in text


def test_reports_are_kept_for_the_next_page(tmp_path):
    reports = {"oltp": {"name": "oltp", "results": {"clients": [1, 2.5]}}, "blob": {"name": "blob"}}
    page.keep(reports, tmp_path / "reports")
    page.keep({"blob": {"name": "blob", "quick": False}}, tmp_path / "reports")
    assert page.load_kept(tmp_path / "reports") == {**reports, "blob": {"name": "blob", "quick": False}}
    assert page.load_kept(tmp_path / "nowhere") == {}


def test_a_goal_is_reached_missed_or_not_measured():
    reports = {
        "oltp": {"results": {"clients": {"1": {"insert": {"setups": {"Atoll": {"cpu_us": {"ratio": 0.9}}}}}}}}
    }
    insert, delete = (
        goals.Goal(case, "oltp", ("clients", "1", case), "cpu_us", most=1.0) for case in ("insert", "delete")
    )
    strict = goals.Goal("insert", "oltp", ("clients", "1", "insert"), "cpu_us", most=0.8)
    lines = goals.goals_table(reports, (insert, delete, strict)).splitlines()[4:]
    assert lines == [
        "| insert | ≤ 1.0 | 0.90 | yes |",
        "| delete | ≤ 1.0 | not measured |  |",
        "| insert | ≤ 0.8 | 0.90 | no |",
    ]


def test_a_goal_compares_any_two_setups():
    setups = {"Atoll local": {"tps": {"median": 200.0}}, "Atoll sync": {"tps": {"median": 50.0}}}
    reports = {"commit": {"results": {"32": {"setups": setups}}}}
    found, missing = (
        goals.Goal("sync", "commit", ("32",), "tps", least=0.5, setup=setup, against="Atoll local")
        for setup in ("Atoll sync", "Atoll async")
    )
    lines = goals.goals_table(reports, (found, missing)).splitlines()[4:]
    assert lines == [
        "| sync | ≥ 0.5 of Atoll local | 0.25 | no |",
        "| sync | ≥ 0.5 of Atoll local | not measured |  |",
    ]


def test_a_goal_may_be_a_figure_of_one_setup():
    figures = {"slowest": {"median": 0.84, "ratio": 1.04}}
    reports = {"tpcc": {"results": {"tpcc": {"setups": {"Atoll": figures}}}}}
    goal = goals.Goal("slowest minute", "tpcc", ("tpcc",), "slowest", least=0.93, against=goals.ITSELF)
    lines = goals.goals_table(reports, (goal,)).splitlines()[4:]
    assert lines == ["| slowest minute | ≥ 0.93, of Atoll alone | 0.84 | no |"]
