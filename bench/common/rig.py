"""The setups that the benchmarks compare: how each server is configured, started, brought to rest and
stopped.

Every setup gets the same memory for its caches and unwritten changes: InnoDB's buffer pool is as large as the
block cache and memtables together of MyRocks or Atoll. No option is set that the engine's manual advises
against. With every engine, COMMIT syncs the log, and the binary log is off, unless a benchmark says
otherwise. Only the plugin of the engine under test is loaded. Extra options of one benchmark go to
start_setup().

    running = start_setup("Atoll", 512 << 20, home)
    running.execute("CREATE DATABASE sbtest")
    running.stop()
"""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests"))

from harness import disk, paths
from harness.memory_group import MemoryGroup
from harness.objectstores import Minio, ObjectStore, Versitygw
from harness.process import discard, scratch_directory
from harness.proxy import Fault, FaultProxy
from harness.server import Server, s3_options

MIB = 1 << 20
DEFAULT_MEMORY_BYTES = 512 * MIB
SETTLE_TIMEOUT_S = 900

# Options of every server. performance_schema is off because it costs CPU.
COMMON_OPTIONS: dict[str, object] = {
    "performance-schema": 0,
    "max-connections": 400,
    "thread-cache-size": 256,
    "table-open-cache": 4000,
    "back-log": 400,
    "max-allowed-packet": 256 * MIB,
    "max-prepared-stmt-count": 200000,
    "innodb-flush-log-at-trx-commit": 1,
}
# For servers whose test tables are not InnoDB's. Only their system tables are, so a small buffer pool is
# enough.
SMALL_POOL: dict[str, object] = {"innodb-buffer-pool-size": "16M"}
BINLOG_OPTIONS: dict[str, object] = {
    "log-bin": "binlog",
    "sync-binlog": 1,
    "server-id": 1,
    "binlog-format": "ROW",
}
# Source: "my.cnf tuning" in the documentation of MyRocks. Debian's build has lz4 and zstd.
MYROCKS_FAMILY = (
    "write_buffer_size={write_buffer};target_file_size_base=32m;max_bytes_for_level_base=256m;"
    "level0_file_num_compaction_trigger=4;level0_slowdown_writes_trigger=20;level0_stop_writes_trigger=30;"
    "max_write_buffer_number=4;compression=kLZ4Compression;bottommost_compression=kZSTD;"
    "block_based_table_factory={{cache_index_and_filter_blocks=1;filter_policy=bloomfilter:10:false;"
    "whole_key_filtering=1}};level_compaction_dynamic_level_bytes=true;optimize_filters_for_hits=true;"
    "compaction_pri=kMinOverlappingRatio"
)


def cache_and_memtables(memory_bytes: int) -> tuple[int, int]:
    """Splits the memory of an LSM engine as Atoll does: the memtables get a quarter of the cache's size, 64
    to 512 MiB."""
    memtables = min(max(memory_bytes // 5, 64 * MIB), 512 * MIB)
    return max(memory_bytes - memtables, 8 * MIB), memtables


def _innodb(memory_bytes: int) -> dict[str, object]:
    # O_DIRECT is the server's default. Its manual advises O_DIRECT and a large log. io_capacity is set for an
    # SSD.
    return {
        "innodb-log-file-size": "1G",
        "innodb-buffer-pool-size": memory_bytes,
        "innodb-flush-method": "O_DIRECT",
        "innodb-io-capacity": 2000,
    }


def _innodb_compressed(memory_bytes: int) -> dict[str, object]:
    # zlib is built into the server; the other algorithms need packages of their own.
    return {**_innodb(memory_bytes), "innodb-compression-algorithm": "zlib", "innodb-compression-level": 6}


def _myrocks(memory_bytes: int) -> dict[str, object]:
    cache, memtables = cache_and_memtables(memory_bytes)
    return {
        **SMALL_POOL,
        "rocksdb-block-cache-size": cache,
        "rocksdb-db-write-buffer-size": memtables,
        "rocksdb-block-size": 16384,
        "rocksdb-max-open-files": -1,
        "rocksdb-max-background-jobs": 2,
        "rocksdb-bytes-per-sync": 4 * MIB,
        "rocksdb-wal-bytes-per-sync": 4 * MIB,
        "rocksdb-max-total-wal-size": "1G",
        "rocksdb-use-direct-io-for-flush-and-compaction": "ON",
        "rocksdb-use-direct-reads": "ON",
        "rocksdb-flush-log-at-trx-commit": 1,
        "rocksdb-lock-wait-timeout": 50,
        "rocksdb-max-row-locks": 1 << 30,  # INSERT ... SELECT of a whole table
        "rocksdb-default-cf-options": MYROCKS_FAMILY.format(write_buffer=min(memtables // 2, 64 * MIB)),
    }


def _atoll(memory_bytes: int) -> dict[str, object]:
    cache, _ = cache_and_memtables(memory_bytes)  # the engine takes its memtables from the size of the cache
    return {**SMALL_POOL, "atoll-block-cache-size": cache, "atoll-flush-log-at-trx-commit": 1}


@dataclass(frozen=True)
class Setup:
    """One setup: an engine with its options, and where its tables are stored."""

    name: str
    engine: str
    options_of: Callable[[int], dict[str, object]]
    table_options: str = ""  # options of CREATE TABLE besides ENGINE
    plugins: tuple[str, ...] = ()
    remote: type[ObjectStore] | None = None  # the kind of S3 server to start for the tables

    @property
    def engine_clause(self) -> str:
        """Returns the text that follows "ENGINE=" in CREATE TABLE."""
        return f"{self.engine} {self.table_options}".strip()

    def available(self) -> str:
        """Returns "" when this setup can run on this machine, otherwise the reason why it cannot."""
        for plugin in self.plugins:
            if plugin == "ha_atoll":
                there = paths.plugin().exists()
            else:
                there = (paths.SERVER_PLUGINS / f"{plugin}.so").exists()
            if not there:
                return f"{plugin}.so is not here"
        if self.remote:
            try:
                paths.program(self.remote.program_name)
            except paths.Missing as error:
                return str(error)
        return ""


SETUPS: dict[str, Setup] = {
    setup.name: setup
    for setup in (
        Setup("InnoDB", "InnoDB", _innodb),
        Setup("InnoDB compressed", "InnoDB", _innodb_compressed, "PAGE_COMPRESSED=1"),
        Setup("MyRocks", "ROCKSDB", _myrocks, "", ("ha_rocksdb",)),
        Setup("Atoll", "ATOLL", _atoll, "", ("ha_atoll",)),
        Setup("Atoll on MinIO", "ATOLL", _atoll, "", ("ha_atoll",), remote=Minio),
        Setup("Atoll on versitygw", "ATOLL", _atoll, "", ("ha_atoll",), remote=Versitygw),
    )
}
BASELINE = "InnoDB"


def chosen_setups(names: str | None, default: tuple[str, ...]) -> list[str]:
    """Returns the setups that a comma-separated list names, leaving out what this machine cannot run (with a note).

    Errors: SystemExit for a name that does not exist, and when no setup is left.
    """
    wanted = [name.strip() for name in names.split(",")] if names else list(default)
    by_lower = {name.lower(): name for name in SETUPS}
    chosen = []
    for name in wanted:
        if name.lower() not in by_lower:
            raise SystemExit(f"no setup is called {name!r}; there are {', '.join(SETUPS)}")
        setup = SETUPS[by_lower[name.lower()]]
        reason = setup.available()
        if reason:
            print(f"  {setup.name} is left out: {reason}", flush=True)
        else:
            chosen.append(setup.name)
    if not chosen:
        raise SystemExit("none of the setups can run here")
    return chosen


@dataclass
class Running:
    """A started setup. Its home has the data directory, the bucket and the logs; destroy() removes it."""

    setup: Setup
    server: Server
    home: Path
    memory_bytes: int
    store: ObjectStore | None = None
    proxy: FaultProxy | None = None
    group: MemoryGroup | None = None
    start_options: dict[str, object] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return self.setup.name

    @property
    def engine(self) -> str:
        return self.setup.engine

    @property
    def engine_clause(self) -> str:
        return self.setup.engine_clause

    @property
    def socket(self) -> Path:
        return self.server.socket

    @property
    def pid(self) -> int:
        return self.server.pid

    def execute(self, *statements: str, database: str | None = None) -> list[tuple]:
        """Runs the statements on one connection; returns the rows of the last one."""
        return self.server.run(*statements, database=database)

    def options(self) -> dict[str, str]:
        """Returns the server options for the report, without keys and paths of this machine."""
        merged = {**self.server.options, **self.start_options}
        hidden = ("key", "endpoint")
        return {
            name: str(value) for name, value in merged.items() if not any(word in name for word in hidden)
        }

    def s3_endpoint(self) -> str:
        """Returns the URL at which the server reaches the S3 server: its own, or the proxy's."""
        return str({**self.server.options, **self.start_options}["atoll-s3-endpoint"])

    def set_latency(self, latency_s: float) -> None:
        """Delays every request to the bucket from now on. Restarts the server if its endpoint changes.

        With 0 the server connects to the S3 server directly. Any other latency needs a proxy, which uses CPU
        of this process. Requires: a setup with a remote bucket.
        """
        assert self.store is not None
        if self.proxy is None and latency_s > 0:
            self.proxy = FaultProxy(self.store.endpoint)
        if self.proxy:
            self.proxy.clear()
            self.proxy.add(Fault(delay_s=latency_s))
        endpoint = f"http://{self.proxy.endpoint if self.proxy and latency_s > 0 else self.store.endpoint}"
        if self.s3_endpoint() != endpoint:
            self.restart(atoll_s3_endpoint=endpoint)

    def set_durability(self, durability: str) -> None:
        self.execute(f"SET GLOBAL atoll_durability = '{durability}'")

    def bucket_directory(self) -> Path | None:
        """Returns the directory in which the S3 server keeps the bucket's objects. None if there is no S3
        server."""
        # Not MinIO's whole directory, because MinIO keeps deleted objects in another folder of it for a
        # while.
        return self.store.home / "objects" / self.store.bucket if self.store else None

    def settle(self, timeout_s: float = SETTLE_TIMEOUT_S) -> float:
        """Waits until the engine's flushes, compactions and uploads have ended. Returns the seconds."""
        started = time.monotonic()
        _SETTLE[self.engine](self.server, started + timeout_s)
        return time.monotonic() - started

    def restart(self, *, forget_local: bool = False, **extra: object) -> Running:
        """Stops the server cleanly and starts it again. The options `extra` are used from now on.

        `forget_local`, for remote buckets: removes the local copies of objects, and drops the page cache.
        """
        self.start_options.update({name.replace("_", "-"): value for name, value in extra.items()})
        self.server.stop()
        if forget_local:
            disk.remove_local_objects(self.server.data)
            disk.drop_page_cache(self.server.data)
        self.server.start(**self.start_options)
        return self

    def stop(self) -> None:
        """Stops the server cleanly, and then its S3 server. Their files are kept."""
        self.server.stop()
        self._end_bucket()

    def destroy(self) -> None:
        """Kills the server, stops its S3 server and removes all files."""
        self.server.kill()
        self._end_bucket()
        if self.group:
            self.group.remove()
        discard(self.home)

    def _end_bucket(self) -> None:
        if self.proxy:
            self.proxy.stop()
            self.proxy = None
        if self.store:
            self.store.stop()


def keep_plugin() -> None:
    """Makes this process use a copy of the plugin, so that a build meanwhile does not affect a running
    benchmark."""
    source = paths.plugin()
    if not source.parent.name.startswith("atoll-plugin-"):
        copy = scratch_directory("plugin") / source.name
        shutil.copyfile(source, copy)
        os.environ["ATOLL_PLUGIN"] = str(copy)


def _server_options(
    setup: Setup, memory_bytes: int, durability: str, binlog: bool, store: ObjectStore | None
) -> dict[str, object]:
    options = {**COMMON_OPTIONS, **setup.options_of(memory_bytes)}
    if binlog:
        options.update(BINLOG_OPTIONS)
    if setup.engine == "ATOLL":
        options["atoll-durability"] = durability
    if store:
        options.update(s3_options(store.endpoint, store.bucket, store.credentials))
    return options


def start_setup(
    name: str,
    memory_bytes: int,
    home: Path,
    *,
    durability: str = "local",
    binlog: bool = False,
    group_bytes: int = 0,
    **extra: object,
) -> Running:
    """Starts a fresh server of the setup `name` below `home`. The path must be short, because the socket is
    in it.

    `extra`: server options besides those of the setup. `group_bytes`: runs the server in a memory cgroup of
    this size, which also limits its page cache. Errors: ServerFailed, TimeoutError, paths.Missing,
    RuntimeError (no cgroup).
    """
    setup = SETUPS[name]
    if setup.engine == "ATOLL":
        keep_plugin()
    store = setup.remote(home / "store").start() if setup.remote else None
    options = _server_options(setup, memory_bytes, durability, binlog, store)
    if group_bytes and setup.engine == "ATOLL":
        options["atoll-bound-heap"] = "ON"
    options.update(extra)
    dashed = {option.replace("_", "-"): value for option, value in options.items()}
    server = Server(home / "server", dashed, setup.plugins)
    running = Running(setup, server, home, memory_bytes, store)
    if group_bytes:
        running.group = MemoryGroup(home.name, group_bytes)
        server.run_by = running.group.run_by()
    try:
        server.initialize().start()
        if not server.has_engine(setup.engine):
            raise RuntimeError(f"{setup.engine} does not run: {server.log_tail()}")
    except BaseException:
        running.destroy()
        raise
    return running


# ---- Rest --------------------------------------------------------------------------------------------


def _wait(condition: Callable[[], bool], deadline: float, what: str, quiet_s: float = 1.0) -> None:
    """Waits until the condition has held for `quiet_s`. Errors: TimeoutError."""
    since: float | None = None
    while since is None or time.monotonic() - since < quiet_s:
        if time.monotonic() > deadline:
            raise TimeoutError(what)
        if not condition():
            since = None
        elif since is None:
            since = time.monotonic()
        time.sleep(0.1)


def _settle_innodb(server: Server, deadline: float) -> None:
    limits = ("innodb_max_dirty_pages_pct", "innodb_max_dirty_pages_pct_lwm")
    before = {limit: server.value(f"SELECT @@{limit}") for limit in limits}
    server.run(*(f"SET GLOBAL {limit} = 0" for limit in reversed(limits)))
    dirty = "Innodb_buffer_pool_pages_dirty"
    _wait(lambda: server.counter(dirty) == 0, deadline, "InnoDB to write its dirty pages", 0.3)
    server.run(*(f"SET GLOBAL {limit} = {value}" for limit, value in before.items()))


def _settle_myrocks(server: Server, deadline: float) -> None:
    server.run("SET GLOBAL rocksdb_force_flush_memtable_now = 1")
    busy = (
        "SELECT SUM(value) FROM information_schema.rocksdb_dbstats WHERE stat_type IN "
        "('DB_BACKGROUND_ERRORS', 'DB_NUM_RUNNING_COMPACTIONS', 'DB_NUM_RUNNING_FLUSHES')"
    )
    pending = (
        "SELECT SUM(value) FROM information_schema.rocksdb_cfstats WHERE stat_type = 'COMPACTION_PENDING'"
    )
    _wait(
        lambda: not (server.value(busy) or 0) and not (server.value(pending) or 0),
        deadline,
        "MyRocks to end its compactions",
    )


def _settle_atoll(server: Server, deadline: float) -> None:
    """Memtables are not flushed, because Atoll has no statement for that. They are flushed when the server
    stops."""
    names = ("flushes_running", "compactions_running", "compaction_pending_bytes", "upload_backlog_files")

    def at_rest() -> bool:
        status = server.status()
        return not any(int(status[f"atoll_{name}"]) for name in names)

    _wait(at_rest, deadline, "Atoll to end its compactions and uploads")


_SETTLE: dict[str, Callable[[Server, float], None]] = {
    "InnoDB": _settle_innodb,
    "ROCKSDB": _settle_myrocks,
    "ATOLL": _settle_atoll,
}


def describe(values: dict[str, Any]) -> str:
    """Returns one line of "name value" for the terminal."""
    return "  ".join(f"{name} {value:g}" for name, value in values.items() if isinstance(value, int | float))
