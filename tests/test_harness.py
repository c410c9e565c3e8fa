"""Goal:   the tools that check the engine are right themselves. For example, a ledger that never complains
        proves nothing.
Method: falsify the found rows and expect a complaint; run load and kills with InnoDB; break requests in the
        proxy and check what the client sees.
"""

from __future__ import annotations

import http.client
import os
import subprocess
import time

import pytest
from harness import datasets, disk, paths, workload
from harness.ledger import ClientLedger, Entry, LedgerError, check_bucket, check_local, explain
from harness.proxy import Fault
from harness.s3 import S3Client, S3Error
from harness.server import Server

pytestmark = pytest.mark.no_plugin


def test_the_archive_benchmark_compares_all_engines_unless_told_otherwise():
    for given, engines in (((), "InnoDB,ROCKSDB,S3,ATOLL"), (("ENGINES=S3,ATOLL",), "S3,ATOLL")):
        make = ["make", "--dry-run", "-C", str(paths.ROOT), "bench-archive", *given]
        shown = subprocess.run(make, capture_output=True, text=True, check=True, timeout=60).stdout
        assert f"--engines {engines} " in shown


def numbered(client: str, times: list[tuple[float, float | None]]) -> ClientLedger:
    """A ledger whose transaction n adds n to a set; times are (sent, acknowledged)."""
    ledger = ClientLedger(client, {"numbers": {}})
    for index, (sent, acked) in enumerate(times, 1):
        ledger.entries.append(
            Entry(client, index, "add", lambda state, n=index: state["numbers"].update({n: n}), sent, acked)
        )
    return ledger


def test_local_loss_of_an_acknowledged_transaction_is_found():
    ledger = numbered("a", [(0.0, 0.1), (0.2, 0.3), (0.4, None)])
    check_local(ledger, 2)
    check_local(ledger, 3)
    for wrong in (1, 4):
        with pytest.raises(LedgerError):
            check_local(ledger, wrong)


def test_bucket_may_lose_only_what_the_lag_allows():
    ledger = numbered("a", [(0.0, 0.1), (1.0, 1.1), (2.0, 2.1)])
    assert check_bucket([ledger], {"a": 3}, 0.5) == 0
    assert check_bucket([ledger], {"a": 2}, 0.5) == 0  # the lost one is the last, so it is within the lag
    with pytest.raises(LedgerError, match="enforced lag"):
        check_bucket([ledger], {"a": 1}, 0.5)


def test_bucket_with_a_hole_is_found():
    first = numbered("a", [(0.0, 0.10), (0.2, 0.30)])
    second = numbered("b", [(0.0, 0.05), (0.4, 0.50)])
    assert check_bucket([first, second], {"a": 2, "b": 1}, 10) >= 0
    with pytest.raises(LedgerError, match="more than a suffix"):
        check_bucket([first, second], {"a": 1, "b": 2}, 10)


def test_rebase_keeps_exactly_the_accepted_transactions():
    ledger = numbered("a", [(0.0, 0.1), (0.2, None)])
    ledger.rebase(1)
    assert (ledger.base, ledger.last_sent()) == ({"numbers": {1: 1}}, 1)
    assert "numbers[1]" in explain({"numbers": {}}, ledger.base)


def test_load_on_innodb_matches_its_ledger_after_kill(lab):
    """Tests the load, the reading back and the comparison with InnoDB, which is assumed to be right."""
    server = Server(lab.home / "innodb", plugins=())
    lab.servers.append(server)
    server.start()
    names = workload.client_names(3)
    workload.create_tables(server, "InnoDB", names)
    ledgers = {name: ClientLedger(name, workload.first_state()) for name in names}
    clients = [workload.Client(server, ledgers[name], f"1-{name}") for name in names]
    for client in clients:
        client.start()
    time.sleep(1.5)
    workload.kill_under(server, clients)
    server.start()
    for name in names:
        number = workload.read_number(server, name)
        assert number > 10
        check_local(ledgers[name], number)
        expected = ledgers[name].state_at(number)
        expected.pop("pot")
        assert explain(expected, workload.read_state(server, name)) == ""
    assert workload.index_differences(server) == []
    server.run("DELETE FROM notes WHERE client = 'c0' LIMIT 1", database="load")
    number = workload.read_number(server, "c0")
    tampered = workload.read_state(server, "c0")
    assert "notes[" in explain(ledgers["c0"].state_at(number), tampered)


def test_proxy_breaks_requests_as_told(lab):
    store = lab.store()
    proxy = lab.proxy(store)
    client = S3Client(proxy.endpoint, store.bucket, store.credentials)
    body = b"x" * 3_000_000
    client.put("one", body)
    assert client.get("one") == body
    assert [item.key for item in client.list()] == ["one"]
    assert proxy.counts() == {"put": 1, "get": 1, "list": 1}

    proxy.add(Fault(status=503, times=1))
    with pytest.raises(S3Error, match="SlowDown"):
        client.get("one")
    proxy.add(Fault(drop_reply=True, times=1))
    with pytest.raises((OSError, http.client.HTTPException)):
        client.put("two", b"applied")
    assert client.get("two") == b"applied"
    with pytest.raises(S3Error) as refused:
        client.put("two", b"other", {"If-None-Match": "*"})
    assert refused.value.status == 412
    proxy.add(Fault(lambda request: "if-none-match" in request.headers, unconditional=store.client))
    client.put("two", b"other", {"If-None-Match": "*"})
    proxy.clear()
    proxy.down()
    with pytest.raises((OSError, http.client.HTTPException)):
        client.get("one")
    proxy.up()
    assert client.get("two") == b"other"


def test_sizes_of_files_that_vanish_meanwhile(tmp_path, monkeypatch):
    kept, lost = tmp_path / "kept.sst", tmp_path / "lost.sst"
    kept.write_bytes(b"12345")
    monkeypatch.setattr(disk, "files_below", lambda _: [kept, lost])
    assert disk.file_sizes(tmp_path) == {kept: 5}
    assert disk.apparent_bytes(tmp_path, disk.OBJECT_SUFFIXES) == 5


def test_a_folder_that_goes_while_files_are_listed_is_passed_over(tmp_path, monkeypatch):
    for name in ("kept", "lost"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "object").write_bytes(b"bytes")
    scandir = os.scandir

    def remove_and_scan(path="."):
        if str(path) == str(tmp_path / "lost"):
            os.unlink(f"{path}/object")
            os.rmdir(path)
        return scandir(path)

    monkeypatch.setattr(os, "scandir", remove_and_scan)
    assert disk.files_below(tmp_path) == [tmp_path / "kept" / "object"]


def test_s3test_rows_are_as_the_article_says(tmp_path):
    rows = [
        line.split("\t") for line in datasets.write_s3test(tmp_path / "rows", 5120).read_text().splitlines()
    ]
    assert [int(key) for key, _ in rows[:11]] == [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 0]
    assert {len(text) for _, text in rows} == {33}
    assert sum(1 for key, _ in rows if key == "8") == datasets.S3TEST_ROWS_PER_ID
    assert all(text.isalnum() and text.isascii() for _, text in rows)
