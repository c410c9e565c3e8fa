"""Fixtures of the reliability tests: scratch directories, servers and buckets. `make test` runs these tests.

When a test fails, the end of each of its servers' error logs is part of the report.
"""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent))

from harness import paths
from harness.objectstores import Minio, ObjectStore, Versitygw
from harness.process import discard, exit_cleanly_on_signals, scratch_directory, stop_everything
from harness.proxy import FaultProxy
from harness.server import Server, s3_options
from harness.windows import only_in_test_bucket

# Test modules draw their seeds when they are imported. With `pytest -n`, each worker imports them, and all workers must
# draw the same ones, because seeds are part of the tests' names. The environment tells them the first number.
random.seed(os.environ.setdefault("ATOLL_SEEDS_FROM", str(random.randrange(1 << 30))))

# The S3 server of tests that do not choose one. `make test-bucket` runs its tests with each of the two in
# turn.
STORE = {"minio": Minio, "versitygw": Versitygw}[os.environ.get("ATOLL_TEST_STORE", "minio")]


def pytest_configure(config: pytest.Config) -> None:
    exit_cleanly_on_signals()
    config.addinivalue_line("markers", "no_plugin: runs without the built engine")


def pytest_unconfigure() -> None:
    stop_everything()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    needs_plugin = [item for item in items if item.get_closest_marker("no_plugin") is None]
    if needs_plugin and not paths.plugin().exists():
        pytest.exit(f"{paths.plugin()} does not exist: run `make build` first", returncode=3)


class Lab:
    """The servers and buckets of one test. All of them are stopped when the test ends."""

    def __init__(self, home: Path):
        self.home = home
        self.servers: list[Server] = []
        self._stores: list[ObjectStore] = []
        self._proxies: list[FaultProxy] = []

    def server(self, name: str = "server", /, **options: object) -> Server:
        """Makes a server without starting it. `options` are those of the server's command line."""
        server = Server(self.home / name, options)
        self.servers.append(server)
        return server

    def store(self, kind: type[ObjectStore] = STORE, name: str = "store") -> ObjectStore:
        store = kind(self.home / name)
        self.keep(store)
        return store.start()

    def keep(self, store: ObjectStore) -> None:
        """Takes over a store that the test has made itself, so that it is stopped when the test ends."""
        self._stores.append(store)

    def proxy(self, store: ObjectStore) -> FaultProxy:
        proxy = FaultProxy(store.endpoint)
        self._proxies.append(proxy)
        return proxy

    def s3_server(
        self, store: ObjectStore, name: str = "server", /, endpoint: str = "", **options: object
    ) -> Server:
        """Makes a server whose bucket is in `store`. It connects to `endpoint`, for example a proxy, if one
        is given."""
        wanted = s3_options(endpoint or store.endpoint, store.bucket, store.credentials)
        return self.server(name, **{**wanted, **options})

    def close(self) -> None:
        for server in self.servers:
            server.kill()
        for proxy in self._proxies:
            proxy.stop()
        for store in self._stores:
            store.kill()

    def logs(self) -> str:
        return "\n".join(f"---- {server.home.name} ----\n{server.log_tail(4000)}" for server in self.servers)


@pytest.fixture(scope="session")
def edit_entries() -> Path:
    """The program that changes entries of a stopped server's tables and catalog."""
    subprocess.run([paths.ROOT / "tools/build.sh", "--target", "atoll_edit_entries"], check=True)
    return paths.BUILD / "cmake/engine/atoll_edit_entries"


@pytest.fixture
def lab(request: pytest.FixtureRequest) -> Iterator[Lab]:
    laboratory = Lab(scratch_directory("test"))
    yield laboratory
    laboratory.close()
    if request.node.stash.get(_FAILED, False):
        print(laboratory.logs())
        kept = paths.BUILD / "test-failures" / request.node.name
        shutil.rmtree(kept, ignore_errors=True)
        for server in laboratory.servers:
            if server.error_log_path.exists():
                kept.mkdir(parents=True, exist_ok=True)
                shutil.copy(server.error_log_path, kept / f"{server.home.name}.log")
    discard(laboratory.home)


_FAILED = pytest.StashKey[bool]()


MakeServer = Callable[[str], Server]


def server_maker(lab: Lab, kind: str, **options: object) -> MakeServer:
    """Returns a function that makes servers without starting them. The server's name is also the prefix of
    its database. All are in one bucket: a directory (`kind` "file") or that of an S3 server ("versitygw")."""
    if kind == "file":
        (lab.home / "bucket").mkdir()
        return lambda name: lab.server(name, atoll_url=f"file://{lab.home}/bucket/{name}", **options)
    store = lab.store(Versitygw)

    def in_bucket(name: str) -> Server:
        place = s3_options(store.endpoint, store.bucket, store.credentials, prefix=name)
        return lab.server(name, **place, **options)

    return in_bucket


@pytest.fixture(params=["file", pytest.param("versitygw", marks=only_in_test_bucket)])
def make_server(lab, request) -> MakeServer:
    return server_maker(lab, request.param, atoll_durability="sync")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]):
    report = yield
    if call.when == "call":
        item.stash[_FAILED] = report.failed
    return report
