"""The engines of the archive benchmark: server options, statements, and how to measure sizes.

Every server has a buffer pool of 256 MiB for InnoDB, which has the source table. Every other engine also has
a cache of 256 MiB. No option is set that the engine's manual advises against.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from harness import disk
from harness.process import wait_until
from harness.s3 import Credentials, S3Client
from harness.server import Server, s3_options

CACHE_MEMORY = "256M"
CACHE_MEMORY_BYTES = 256 << 20
PUBLISH_TIMEOUT_S = 600

COMMON_OPTIONS: dict[str, object] = {
    "innodb-buffer-pool-size": CACHE_MEMORY,
    "innodb-log-file-size": "512M",
    "innodb-sort-buffer-size": "16M",
    "aria-pagecache-buffer-size": CACHE_MEMORY,
    "group-concat-max-len": 16 << 20,
    "performance-schema": 0,
}


@dataclass(frozen=True)
class Bucket:
    """The bucket in which a remote engine stores its objects during one run."""

    endpoint: str
    name: str
    credentials: Credentials

    def client(self) -> S3Client:
        return S3Client(self.endpoint, self.name, self.credentials)


@dataclass(frozen=True)
class Variant:
    """One engine with one compression."""

    engine: str
    compression: str
    table_options: str = ""
    plugins: tuple[str, ...] = ()
    remote: bool = False
    fixed_options: tuple[tuple[str, object], ...] = ()
    bulk_switch: str = ""  # session variable that makes this engine's ALTER a bulk load

    @property
    def label(self) -> str:
        return f"{self.engine} {self.compression}"

    @property
    def source_engine(self) -> str:
        """Returns the engine into which the table is loaded first, and to which it is moved back at the
        end."""
        return "Aria" if self.engine == "InnoDB" else "InnoDB"

    def options(self, bucket: Bucket) -> dict[str, object]:
        options = {**COMMON_OPTIONS, **dict(self.fixed_options)}
        if self.engine == "S3":
            options.update(_s3_engine_options(bucket))
        if self.engine == "ATOLL":
            options.update(s3_options(bucket.endpoint, bucket.name, bucket.credentials))
        return options

    def alter_in(self) -> list[str]:
        statement = f"ALTER TABLE s3test ENGINE={self.engine} {self.table_options}".strip()
        if self.bulk_switch:
            return [f"SET {self.bulk_switch}=1", statement, f"SET {self.bulk_switch}=0"]
        return [statement]

    def forget_local(self, data: Path) -> None:
        """Removes Atoll's local copies of objects, so that the stopped server's next reads come from the
        bucket."""
        if self.engine == "ATOLL":
            disk.remove_local_objects(data)

    def wait_published(self, server: Server) -> None:
        """Waits until the bucket has all table files. Only Atoll needs this, because its ALTER returns
        earlier."""
        if self.engine == "ATOLL":
            wait_until(
                lambda: server.counter("Atoll_upload_backlog_files") == 0,
                PUBLISH_TIMEOUT_S,
                "the upload backlog to drain",
                interval_s=0.01,
            )

    def size_bytes(self, server: Server, bucket: Bucket) -> int:
        """Returns the size of the table: that of its objects in the bucket, or of its files on disk."""
        if self.remote:
            return bucket.client().total_bytes()
        if self.engine == "ROCKSDB":
            server.run("SET GLOBAL rocksdb_force_flush_memtable_now=1")
            return disk.apparent_bytes(server.data / "#rocksdb", (".sst",))
        server.run("FLUSH TABLES bench.s3test FOR EXPORT", "UNLOCK TABLES")  # writes all dirty pages
        return (server.data / "bench" / "s3test.ibd").stat().st_blocks * 512


def _s3_engine_options(bucket: Bucket) -> dict[str, object]:
    host, _, port = bucket.endpoint.partition(":")
    return {
        "s3-host-name": host,
        "s3-port": port,
        "s3-use-http": "ON",
        "s3-bucket": bucket.name,
        "s3-access-key": bucket.credentials.access_key,
        "s3-secret-key": bucket.credentials.secret_key,
        "s3-region": bucket.credentials.region,
        "s3-protocol-version": "Path",
        "s3-pagecache-buffer-size": CACHE_MEMORY,
    }


def _rocksdb(compression: str, column_family: str) -> Variant:
    options: tuple[tuple[str, object], ...] = (("rocksdb-block-cache-size", CACHE_MEMORY_BYTES),)
    if column_family:
        options += (("rocksdb-default-cf-options", column_family),)
    return Variant(
        "ROCKSDB",
        compression,
        plugins=("ha_rocksdb",),
        fixed_options=options,
        bulk_switch="rocksdb_bulk_load",
    )


def _atoll(compression: str) -> Variant:
    return Variant(
        "ATOLL",
        compression,
        f"COMPRESSION={compression}",
        ("ha_atoll",),
        True,
        (("atoll-block-cache-size", CACHE_MEMORY_BYTES),),
    )


VARIANTS = (
    Variant("InnoDB", "none"),
    Variant("InnoDB", "zlib", "PAGE_COMPRESSED=1"),
    _rocksdb("default", ""),
    _rocksdb("zstd", "compression=kZSTD;bottommost_compression=kZSTD"),
    Variant("S3", "none", "COMPRESSION_ALGORITHM=none", ("ha_s3",), True),
    Variant("S3", "zlib", "COMPRESSION_ALGORITHM=zlib", ("ha_s3",), True),
    _atoll("zstd"),
    _atoll("lz4"),
    _atoll("none"),
)


def variants_of(engines: list[str], compressions: list[str] | None = None) -> list[Variant]:
    """Returns the variants to run, in the order of VARIANTS."""
    wanted = {name.upper() for name in engines}
    return [
        variant
        for variant in VARIANTS
        if variant.engine.upper() in wanted
        and (not compressions or variant.compression in compressions or variant.engine != "ATOLL")
    ]
