"""Goal:   the alert rules and the dashboard of the package work with what a real server and a real exporter give.
Method: a server with the engine, Debian's mysqld_exporter beside it, and promtool for the rules. The names in the
        dashboard and the rules are compared with SHOW GLOBAL STATUS in `make test`, too; the rest is for
        `make test-package`, whose set-up fetches the two programs.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import urllib.error
import urllib.request
from pathlib import Path

import pytest
from harness import paths
from harness.process import Child, free_port, wait_until

FOLDER = paths.ROOT / "packages/monitoring"
RULES = FOLDER / "atoll-alerts.yml"
DASHBOARD = FOLDER / "atoll-dashboard.json"
PREFIX = "mysql_global_status_"
READER_ONLY = {"atoll_reader_lag_ms"}  # a writer does not show it
needs_programs = pytest.mark.skipif(
    "ATOLL_TEST_PACKAGES" not in os.environ, reason="make test-package runs it"
)

# For each alert the values of its metric, one a minute, at whose end it fires. `x` repeats, `_` is no value.
FIRES = {
    "AtollNotLoaded": ("mysql_up", "1x10"),
    "AtollNotRunning": ("running", "0x10"),
    "AtollFenced": ("fenced", "1x10"),
    "AtollCommitsWait": ("commits_waiting", "3x10"),
    "AtollObjectsMissing": ("objects_missing", "1x10"),
    "AtollWritesStopped": ("write_stopped", "1x10"),
    "AtollPublishLag": ("publish_lag_ms", "300001x10"),
    "AtollUploadBacklog": ("upload_backlog_bytes", "600000000x20"),
    "AtollRequestErrors": ("request_errors", "0+1x30"),
    "AtollBackgroundErrors": ("background_errors", "0x5 1x5"),
    "AtollCacheCorruptions": ("cache_corruptions", "0x5 1x5"),
    "AtollDeletionsRefused": ("trim_disabled", "1x130"),
    "AtollHistoryCut": ("history_cuts", "0x5 1x5"),
    "AtollLockWaits": ("lock_wait_longest_ms", "31000x10"),
    "AtollReaderBehind": ("reader_lag_ms", "61000x10"),
}


def alerts() -> dict[str, tuple[str, str]]:
    """Returns severity and summary of each alert, by its name."""
    found = re.findall(
        r"- alert: (\w+)\n.*?severity: (\w+)\}.*?summary: ([^\n]+)", RULES.read_text(), re.DOTALL
    )
    return {name: (severity, summary) for name, severity, summary in found}


def named_metrics(file: Path) -> set[str]:
    return set(re.findall(rf"{PREFIX}(\w+)", file.read_text()))


def dashboard_queries() -> list[str]:
    panels = json.loads(DASHBOARD.read_text())["panels"]
    return [target["expr"] for panel in panels for target in panel.get("targets", [])]


@pytest.mark.parametrize("file", [RULES, DASHBOARD], ids=["rules", "dashboard"])
def test_each_metric_is_a_number_of_the_status(lab, file):
    status = lab.server().start().status()
    numbers = {name for name, value in status.items() if re.fullmatch(r"-?\d+(\.\d+)?", value)}
    assert named_metrics(file), file
    assert named_metrics(file) - READER_ONLY <= numbers


def test_each_panel_of_the_dashboard_asks_for_something():
    panels = json.loads(DASHBOARD.read_text())["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    assert all(panel.get("targets") for panel in panels if panel["type"] != "row")
    assert all('instance=~"$instance"' in query for query in dashboard_queries())


def test_each_alert_has_values_at_which_it_fires():
    assert set(alerts()) == set(FIRES)
    assert len(re.findall("- alert:", RULES.read_text())) == len(FIRES)


@needs_programs
def test_an_exporter_gives_each_metric(lab):
    server = lab.server().start()
    port = free_port()
    program = str(paths.program("prometheus-mysqld-exporter"))
    exporter = Child(
        [program, f"--web.listen-address=127.0.0.1:{port}"],
        lab.home / "exporter.log",
        env={"DATA_SOURCE_NAME": f"root@unix({server.socket})/"},
    )
    try:
        text = wait_until(lambda: scraped(port), 20, "the exporter")
    finally:
        exporter.kill()
    given = set(re.findall(rf"^{PREFIX}(\w+) ", text, re.MULTILINE))
    assert "mysql_up 1" in text
    assert (named_metrics(RULES) | named_metrics(DASHBOARD)) - READER_ONLY <= given
    assert f"{PREFIX}atoll_running 1" in text


def scraped(port: int) -> str:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
            return str(answer.read().decode())
    except urllib.error.URLError:
        return ""


def rule_test(name: str, severity: str, summary: str) -> dict:
    """Returns a test of promtool: the alert fires for the server `bad`, and not for one that is well."""
    metric, values = FIRES[name]
    full = metric if metric == "mysql_up" else f"{PREFIX}atoll_{metric}"
    well = [("mysql_up", "1x200"), (f"{PREFIX}atoll_running", "1x200"), (full, "0x200")]
    if metric in ("mysql_up", "running"):
        well = well[:2]
    minutes = sum(int(count) for count in re.findall(r"x(\d+)", values))
    labels = {"severity": severity, "instance": "bad", "job": "mysql"}
    return {
        "interval": "1m",
        "input_series": [
            {"series": f'{full}{{instance="bad",job="mysql"}}', "values": values},
            *({"series": f'{one}{{instance="well",job="mysql"}}', "values": zeros} for one, zeros in well),
        ],
        "alert_rule_test": [
            {
                "alertname": name,
                "eval_time": f"{minutes}m",
                "exp_alerts": [{"exp_labels": labels, "exp_annotations": {"summary": summary}}],
            }
        ],
    }


@needs_programs
def test_each_alert_fires_for_the_server_that_needs_it_and_for_no_other(tmp_path):
    tests = [rule_test(name, severity, summary) for name, (severity, summary) in alerts().items()]
    file = tmp_path / "rules.json"  # YAML contains JSON
    file.write_text(json.dumps({"rule_files": [str(RULES)], "evaluation_interval": "1m", "tests": tests}))
    done = subprocess.run(
        [paths.program("promtool"), "test", "rules", file], check=False, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    without_variables = [
        query.replace("$__rate_interval", "5m").replace("$instance", ".*") for query in dashboard_queries()
    ]
    record = {
        "groups": [
            {"name": "g", "rules": [{"record": "r", "expr": query} for query in set(without_variables)]}
        ]
    }
    queries = tmp_path / "queries.json"
    queries.write_text(json.dumps(record))
    done = subprocess.run(
        [paths.program("promtool"), "check", "rules", "--lint=none", queries],
        check=False,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
