"""Goal:   `atollctl` shows from outside of the server how much space each table and index takes, follows the
        published objects, and draws both on a page that shows any name as text.
Method: a real server with a directory as bucket; the page is opened in a real browser (Debian's chromium) if
        one is installed.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from harness import paths
from harness.atollctl import atollctl
from harness.process import wait_until
from harness.server import Server

ROWS = 20_000
ROOTS = 10_000
# A name that would end an HTML attribute, an element and a script if the page did not escape it.
EVIL = "\"'><img src=x onerror=alert(1)></script>"
BROWSER = shutil.which("chromium")


def told(server: Server, *arguments: str, behind: tuple[str, ...] = ()):
    ran = atollctl(server, "--json", *arguments, behind=behind)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return json.loads(ran.stdout)


@pytest.fixture
def shop(lab) -> Server:
    """A server with a table that has an index, and a table whose name must be escaped."""
    bucket = lab.home / "bucket"
    server = lab.server("shop", atoll_url=f"file://{bucket}", atoll_durability="sync")
    server.start()
    server.run(
        "CREATE DATABASE shop",
        "CREATE TABLE shop.orders (id INT PRIMARY KEY, body VARCHAR(200), KEY by_body (body(20))) ENGINE=ATOLL",
        f"CREATE TABLE shop.`{EVIL}` (id INT PRIMARY KEY) ENGINE=ATOLL",
        f"INSERT INTO shop.`{EVIL}` VALUES (1)",
        f"INSERT INTO shop.orders SELECT seq, REPEAT(MD5(seq), 5) FROM mysql.seq_1_to_{ROWS}",
        "ALTER TABLE shop.orders ENGINE=ATOLL, FORCE",
    )
    wait_until(lambda: (bucket / "hint/tables").exists(), 60, "the server writes the names down")
    return server


def test_what_differs_between_two_states_is_told_by_table(lab, shop: Server) -> None:
    shop.run("CREATE TABLE shop.gone (id INT PRIMARY KEY, body TEXT) ENGINE=ATOLL COMPRESSION=lz4")
    shop.run(
        f"INSERT INTO shop.gone SELECT seq, MD5(seq) FROM mysql.seq_1_to_{ROWS}", "OPTIMIZE TABLE shop.gone"
    )
    shop.run("SELECT ATOLL_SNAPSHOT('before')")
    assert [
        row["change"] for row in told(shop, "diff", behind=("before",))["tables"] if "shop" in row["name"]
    ] == []
    hint = lab.home / "bucket/hint/tables"
    wait_until(lambda: '"name":"gone"' in hint.read_text(), 90, "the names are written down")
    shop.run(
        "DROP TABLE shop.gone",
        "SELECT ATOLL_CLONE_TABLE('shop.orders', 'shop.copy')",
        "DELETE FROM shop.orders WHERE id % 2",
        "OPTIMIZE TABLE shop.orders",
        "SELECT ATOLL_SNAPSHOT('after')",
    )

    def changes() -> dict[str, str]:
        return {
            row["name"]: row["change"] for row in told(shop, "diff", behind=("before", "after"))["tables"]
        }

    wait_until(lambda: changes().get("shop.copy") == "added", 60, "the names are written down")
    found = changes()
    assert found["shop.orders"] == "changed"
    assert found["shop.gone (dropped)"] == "dropped"
    ran = atollctl(shop, "diff", behind=("before", "after"))
    assert "shop.copy" in ran.stdout and "with the commits until" in ran.stdout
    refused = atollctl(shop, "diff", behind=("nothing",))
    assert refused.returncode != 0 and "no snapshot 'nothing'" in refused.stderr


def test_space_is_told_by_table_and_index_and_what_only_a_snapshot_keeps_is_history(shop: Server) -> None:
    def rows(*options: str) -> dict[str, dict]:
        return {row["name"] + "/" + row["index"]: row for row in told(shop, "du", behind=options)["rows"]}

    orders = wait_until(lambda: rows().get("shop.orders/"), 30, "a root has the table", interval_s=1)
    assert orders["live_bytes"] > 1 << 18 and orders["history_bytes"] == 0
    by_index = rows("--indexes")
    assert {"shop.orders/PRIMARY", "shop.orders/by_body"} <= set(by_index), by_index.keys()
    assert by_index["shop.orders/PRIMARY"]["live_bytes"] > by_index["shop.orders/by_body"]["live_bytes"] > 0

    told(shop, "snapshot", "create", behind=(EVIL,))
    assert rows()["shop.orders/"]["live_bytes"] == 0, "all of it is shared"
    shop.run("ALTER TABLE shop.orders ENGINE=ATOLL, FORCE")
    kept = wait_until(
        lambda: [row for row in rows().values() if row["history_bytes"] > 1 << 18], 60, "it is history"
    )
    assert sum(row["history_bytes"] for row in kept) == pytest.approx(orders["live_bytes"], rel=0.2)

    report = told(shop, "du")
    listed = told(shop, "ls", behind=("--objects",))
    assert report["total"]["objects"] == pytest.approx(len(listed), abs=8), (
        "a server that runs adds and deletes"
    )
    cost = told(shop, "cost")
    assert cost["history_per_month"] == pytest.approx(
        cost["prices"]["stored_gib_month"] * cost["space"]["total"]["history_bytes"] / (1 << 30)
    )
    status = shop.home / "status.txt"
    lines = ["\t".join(str(cell) for cell in row) for row in shop.run("SHOW GLOBAL STATUS")]
    status.write_text("\n".join(lines))
    requests = told(shop, "cost", behind=("--status", str(status)))["requests"]
    assert {"put", "list", "get"} <= {of["kind"] for of in requests}
    assert next(of for of in requests if of["kind"] == "put")["count"] > 0


def test_tail_tells_roots_files_and_log_as_they_come(shop: Server) -> None:
    command = [
        str(paths.program("atollctl")),
        "--json",
        "tail",
        str(shop.options["atoll_url"]),
        "--seconds",
        "8",
    ]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as tail:
        time.sleep(2)
        shop.run("INSERT INTO shop.orders VALUES (-1, 'new')", "ALTER TABLE shop.orders ENGINE=ATOLL, FORCE")
        out, _ = tail.communicate(timeout=60)
    events = [json.loads(line) for line in out.splitlines()]
    assert tail.returncode == 0
    assert events[0]["event"] == "root" and events[0]["added"]["files"] == 0
    assert any(event["event"] == "log" and event["bytes"] > 0 for event in events[1:]), events
    assert any(event["event"] == "root" and event["added"]["bytes"] > 1 << 18 for event in events[1:]), events


def test_completion_and_man_pages_name_every_command(tmp_path: Path) -> None:
    program = str(paths.program("atollctl"))
    for shell in ("bash", "zsh", "fish"):
        script = subprocess.run(
            [program, "completion", shell], check=True, capture_output=True, text=True
        ).stdout
        assert "snapshot" in script and "take-over" in script
    subprocess.run([program, "man", str(tmp_path)], check=True, capture_output=True)
    assert {"atollctl.1", "atollctl-du.1", "atollctl-snapshot-create.1"} <= {
        page.name for page in tmp_path.iterdir()
    }


@contextmanager
def page_of(url: str) -> Iterator[str]:
    """Starts `atollctl ui` and yields the address of its page."""
    command = [str(paths.program("atollctl")), "ui", url]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as serving:
        try:
            assert serving.stdout is not None
            address = re.search(r"http://127\.0\.0\.1:\d+/[0-9a-f]{32}/", serving.stdout.readline())
            assert address, "it says where it serves"
            yield address.group()
        finally:
            serving.terminate()


def drawn(address: str, home: Path) -> str:
    """Returns the page as the browser has drawn it. With ATOLL_PICTURE, also saves a picture under that
    name."""
    if BROWSER is None:
        pytest.skip("there is no chromium")
    flags = [
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-background-networking",
        "--disable-dev-shm-usage",
    ]
    flags += [f"--user-data-dir={home}/browser", "--virtual-time-budget=20000", "--window-size=1200,1400"]
    if os.environ.get("ATOLL_PICTURE"):
        picture = [BROWSER, *flags, f"--screenshot={os.environ['ATOLL_PICTURE']}", address]
        subprocess.run(picture, check=True, capture_output=True, timeout=120)
    dom = subprocess.run(
        [BROWSER, *flags, "--dump-dom", address], check=True, capture_output=True, text=True, timeout=120
    )
    assert 'data-state="ready"' in dom.stdout, dom.stdout[-2000:] + dom.stderr[-2000:]
    return dom.stdout


def test_only_who_knows_the_token_and_the_host_gets_the_page(shop: Server) -> None:
    told(shop, "snapshot", "create", behind=(EVIL,))
    with page_of(str(shop.options["atoll_url"])) as address:
        data = json.load(urllib.request.urlopen(address + "data.json", timeout=60))
        assert data["roots"] and data["states"][0]["name"] == EVIL
        other_host = urllib.request.Request(address, headers={"Host": "evil.example"})
        without_token = re.sub("[0-9a-f]{32}", "0" * 32, address)
        for request, status in [
            (other_host, 421),
            (without_token, 403),
            (address + "../x", 404),
            (address + "x", 404),
        ]:
            with pytest.raises(urllib.error.HTTPError) as refused:
                urllib.request.urlopen(request, timeout=60)
            assert refused.value.code == status


def test_the_page_draws_a_running_database_and_shows_every_name_as_text(shop: Server) -> None:
    told(shop, "snapshot", "create", behind=(EVIL,))
    with page_of(str(shop.options["atoll_url"])) as address:
        page = drawn(address, shop.home)
    assert "shop.orders" in page and "<circle" in page and 'class="roots"' in page
    assert "<img" not in page, "a name became an element"
    assert page.count("&lt;img src=x onerror=alert(1)&gt;") >= 2, (
        "the snapshot is in the picture and in the table"
    )


@pytest.mark.parametrize("roots", [0, ROOTS])
def test_the_page_works_without_a_root_and_with_ten_thousand(shop: Server, lab, roots: int) -> None:
    shop.stop()
    bucket = lab.home / "bucket"
    if roots == 0:
        empty = lab.home / "empty"
        empty.mkdir()
        shutil.copy(bucket / "db.json", empty)
        bucket = empty
    else:
        # Fake roots of a former epoch, which are listed but never read.
        shop.start()
        shop.stop()
        former = next(iter(sorted((bucket / "root").iterdir())))
        for slot in range(roots):
            path = former / f"{1_000_000 + slot:020}"
            path.write_bytes(b"x")
            os.utime(path, (time.time() - 60 * slot,) * 2)
    with page_of(f"file://{bucket}") as address:
        page = drawn(address, lab.home)
    if roots == 0:
        assert "Nothing was published yet" in page
    else:
        assert 20 < page.count('class="roots"') < 1000, "ten thousand roots are summed up in bars"
