"""Goal:   a table object that is missing or truncated in the bucket is named by errors, error log, status variables
        and CHECK TABLE. When it is put back, everything works at once. An unreachable bucket is no damage.
Method: delete or truncate the largest object of a table in an S3 server.
"""

from __future__ import annotations

import pymysql
import pytest
from harness import disk
from harness.process import wait_until
from harness.server import Server
from harness.tables import create_wide, drained

KEY = "db/sst/"


class Scene:
    """A server with a table whose rows are only in the bucket, and the largest of its objects."""

    def __init__(self, lab):
        self.store = lab.store()
        self.proxy = lab.proxy(self.store)
        self.server: Server = lab.s3_server(
            self.store, endpoint=self.proxy.endpoint, atoll_cache_size=16 << 20, atoll_request_timeout=2
        ).start()
        create_wide(self.server, "wide", 60_000)
        self.server.run("ALTER TABLE big.wide ENGINE=ATOLL COMPRESSION=none")
        create_wide(self.server, "kept", 100, "ATOLL")
        drained(self.server)
        found = max(self.store.client.list(KEY), key=lambda item: item.size_bytes)
        self.key, self.bytes = found.key, found.size_bytes
        self.whole = self.store.client.get(self.key)
        self.server.stop()
        assert disk.remove_local_objects(self.server.data) > 0
        self.server.start()

    def error(self) -> tuple[int, str]:
        with pytest.raises(pymysql.Error) as error:
            self.server.run("SELECT SUM(LENGTH(body)) FROM big.wide")
        return error.value.args[0], error.value.args[1]

    def check(self) -> list[tuple]:
        return self.server.run("CHECK TABLE big.wide EXTENDED")


@pytest.mark.parametrize("kept_bytes", [0, 5_000_000], ids=["missing", "truncated"])
def test_a_lost_object_is_named_everywhere_until_it_is_put_back(lab, kept_bytes):
    scene = Scene(lab)
    server, name = scene.server, scene.key.removeprefix("db/")
    assert scene.bytes > kept_bytes
    if kept_bytes == 0:
        scene.store.client.delete(scene.key)
    else:
        scene.store.client.put(scene.key, scene.whole[:kept_bytes])
    mark = server.log_mark()
    for _ in range(3):
        message = scene.error()[1]
        assert name in message, message
        assert f"must have {scene.bytes} bytes: damaged; run `atollctl verify`" in message
        assert "missing" in message if kept_bytes == 0 else f"has only {kept_bytes} bytes" in message
    assert server.log_since(mark).count(f"must have {scene.bytes} bytes") == 1, server.log_since(mark)
    assert server.counter("Atoll_objects_missing") == 1
    assert name in server.status()["atoll_last_error"]
    verdict = scene.check()
    assert verdict[-1][3] == "Corrupt", verdict
    assert name in str(verdict)
    assert server.value("SELECT COUNT(*) FROM big.kept WHERE body LIKE '%'") == 100, "other tables work"

    scene.store.client.put(scene.key, scene.whole)
    assert server.value("SELECT COUNT(*) FROM big.wide WHERE body LIKE '%'") == 60_000
    assert scene.check()[-1][3] == "OK"
    assert server.counter("Atoll_objects_missing") == 0
    assert server.status()["atoll_last_error"] == ""
    server.run("UPDATE big.wide SET body = 'x' WHERE id % 10 = 0", "OPTIMIZE TABLE big.wide")


def test_a_bucket_that_does_not_answer_is_no_damage(lab):
    scene = Scene(lab)
    scene.server.run("SELECT id FROM big.wide LIMIT 1")  # open
    scene.proxy.down()
    number, message = scene.error()
    assert "damaged" not in message
    verdict = scene.check()
    assert "nothing is known to be damaged" in str(verdict)
    assert verdict[-1][3] != "Corrupt"
    assert scene.server.counter("Atoll_objects_missing") == 0
    assert number == 1296
    scene.proxy.up()
    assert scene.server.value("SELECT COUNT(*) FROM big.wide WHERE body LIKE '%'") == 60_000


def test_a_table_that_is_dropped_takes_its_lost_objects_with_it(lab):
    scene = Scene(lab)
    scene.store.client.delete(scene.key)
    scene.error()
    assert scene.server.counter("Atoll_objects_missing") == 1
    scene.server.run("DROP TABLE big.wide")
    wait_until(lambda: scene.server.counter("Atoll_objects_missing") == 0, 60, "the object to be forgotten")
