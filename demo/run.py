"""The whole way of a row, with real data: into a bucket with ALTER TABLE, used there, lost, recovered, taken back.

Runs on a local directory as bucket (file://), then on an S3 server that it starts. Everything it starts ends
with it. Prints what it does and writes build/demo/result.json.

    build/bin/python demo/run.py [--rows 200000] [--buckets file,versitygw,minio]
"""

from __future__ import annotations

import argparse
import functools
import json
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pymysql

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from harness import datasets, disk, paths
from harness.atollctl import atollctl
from harness.digest import Digest, database_digests
from harness.objectstores import Minio, ObjectStore, Versitygw
from harness.process import discard, exit_cleanly_on_signals, scratch_directory, wait_until
from harness.server import Server, ServerFailed, s3_options
from second_server import Reader

S3_SERVERS = {"versitygw": Versitygw, "minio": Minio}
TABLES = (*datasets.FLIGHTS_TABLES, "s3test")

# Joins an ATOLL table with InnoDB ones; `{0}` is the database of the flights.
JOIN = (
    "SELECT a.name, COUNT(*), ROUND(AVG(f.arr_delay), 3), MAX(p.seats) FROM {0}.flights f "
    "JOIN original.airlines a ON a.carrier = f.carrier LEFT JOIN original.planes p ON p.tailnum = f.tailnum "
    "JOIN {0}.airports d ON d.faa = f.dest WHERE f.month = 7 GROUP BY a.name ORDER BY a.name"
)
CHANGES = (
    "UPDATE {0}.flights SET arr_delay = arr_delay + 1000 WHERE carrier = 'AA' AND month = 2",
    "DELETE FROM {0}.flights WHERE dest = 'LAX' AND day = 13",
    "INSERT INTO {0}.flights SELECT year + 1, month, day, dep_time, sched_dep_time, dep_delay, arr_time, "
    "sched_arr_time, arr_delay, carrier, flight, tailnum, origin, dest, air_time, distance, hour, minute, "
    "time_hour + INTERVAL 1 YEAR, id + 1000000 FROM {0}.flights WHERE origin = 'JFK' AND month = 12",
    "UPDATE {0}.weather w JOIN {0}.airports a ON a.faa = w.origin SET w.temp = w.temp + a.alt WHERE w.month = 3",
    "REPLACE INTO {0}.airlines VALUES ('ZZ', 'Atoll Air'), ('AA', 'American')",
    "UPDATE {0}.s3test SET description = REVERSE(description) WHERE id = 8",
)
INDEXED = "SELECT COUNT(*), MD5(GROUP_CONCAT(description ORDER BY description)) FROM {0}.s3test WHERE id = 8"


SNAPSHOT = "before the cleanup"


class DemoFailed(Exception):
    """Something was not as promised."""


def expect(condition: bool, message: str) -> None:
    if not condition:
        raise DemoFailed(message)


class Demo:
    """All steps on one kind of bucket."""

    def __init__(self, bucket: str, rows: int, steps: list[dict]):
        self.bucket = bucket
        self.rows = rows
        self.steps = steps
        self.home = scratch_directory("demo")
        self.s3: ObjectStore | None = None
        self.server = Server(self.home / "server")
        self.reader = Reader(self.server, self.home / "reader")
        self.files: dict[str, Path] = {}
        self.innodb_bytes = 0
        self.expected: dict[str, Digest] = {}

    def run(self) -> None:
        try:
            self._prepare_bucket()
            for name, step in self._plan():
                self._step(name, step)
        except (DemoFailed, TimeoutError, pymysql.Error):
            print(self.server.log_tail(2500), file=sys.stderr)
            raise
        finally:
            self.server.kill()
            self.reader.server.kill()
            if self.s3:
                self.s3.stop()
            discard(self.home)

    def _plan(self) -> list[tuple[str, Callable[[], dict | None]]]:
        plan: list[tuple[str, Callable[[], dict | None]]] = [
            ("start a server", self._start),
            ("load the data into InnoDB", self._load),
        ]
        plan += [
            (f"ALTER TABLE {table} ENGINE=ATOLL", functools.partial(self._move, table)) for table in TABLES
        ]
        plan += [
            ("counts and checksums after the move", self._compare),
            ("join across engines", self._join),
            ("update, insert, delete in place", self._change),
            ("add an index", self._add_index),
            ("query by the index", self._query_by_index),
            ("drop the index", self._drop_index),
            ("take a snapshot", self._take_snapshot),
            ("destroy rows and a table", self._destroy),
            ("read the rows of the snapshot beside the present", self._mount_the_past),
            ("read them from a clone", self._read_a_clone),
            ("restore the snapshot in place", self._restore_snapshot),
            ("counts and checksums after the restore", self._compare_stored),
            ("kill -9 in the middle of a load, recover", self._kill_and_recover),
            ("counts and checksums after kill -9", self._compare_stored),
            ("objects in the bucket", self._list_bucket),
            ("delete the data directory, recover from the bucket", self._lose_and_recover),
            ("counts and checksums after the recovery", self._compare_stored),
            ("start a reader on the same bucket", self.reader.start),
            ("counts and checksums on the reader", self._compare_reader),
            ("a new table reaches the reader", self.reader.follow),
            ("kill -9 the writer, the reader takes its place", self._promote_reader),
            ("counts and checksums on the new writer", self._compare_stored),
        ]
        plan += [
            (f"ALTER TABLE {table} ENGINE=InnoDB", functools.partial(self._move_back, table))
            for table in TABLES
        ]
        plan += [
            ("counts and checksums back in InnoDB", self._compare_stored),
            ("stop the server", self._stop),
        ]
        return plan

    def _step(self, name: str, step: Callable[[], dict | None]) -> None:
        started = time.perf_counter()
        details = step() or {}
        seconds = details.pop("seconds", time.perf_counter() - started)
        self.steps.append({"name": name, "bucket": self.bucket, "seconds": round(seconds, 4), **details})
        shown = ", ".join(
            f"{key} {value}" for key, value in details.items() if not isinstance(value, list | dict)
        )
        print(f"  {seconds:8.3f} s  {name:52} {shown}", flush=True)

    # ---- set-up --------------------------------------------------------------------------------------

    def _prepare_bucket(self) -> None:
        print(f"\nbucket: {self.bucket}", flush=True)
        if self.bucket in S3_SERVERS:
            self.s3 = S3_SERVERS[self.bucket](self.home / self.bucket)
            self.s3.start()
            options = s3_options(self.s3.endpoint, self.s3.bucket, self.s3.credentials)
        else:
            (self.home / "bucket").mkdir()
            options = {"atoll_url": f"file://{self.home}/bucket"}
        self.server.options.update(options)
        self.server.options["innodb-buffer-pool-size"] = "256M"
        self.files = datasets.write_flights(self.home / "rows")
        self.files["s3test"] = datasets.write_s3test(self.home / "rows" / "s3test.tsv", self.rows)

    def _start(self) -> dict:
        self.server.initialize().start()
        expect(self.server.has_engine(), "the server does not know ENGINE=ATOLL; its log says why")
        return {"version": self.server.version(), "url": str(self.server.value("SELECT @@atoll_url"))}

    def _load(self) -> dict:
        columns = {**datasets.FLIGHTS_TABLES, "s3test": "id INT, description VARCHAR(40)"}
        self.server.run("CREATE DATABASE original", "CREATE DATABASE moved")
        for table in TABLES:
            create = f"CREATE TABLE original.{table} ({columns[table]}) ENGINE=InnoDB"
            self.server.run(
                create,
                f"LOAD DATA INFILE '{self.files[table]}' INTO TABLE original.{table}",
                f"CREATE TABLE moved.{table} LIKE original.{table}",
                f"INSERT INTO moved.{table} SELECT * FROM original.{table}",
            )
        for table, rows in datasets.FLIGHTS_ROWS.items():
            found = self.server.value(f"SELECT COUNT(*) FROM original.{table}")
            expect(found == rows, f"{table}: {found} rows loaded, expected {rows}")
        self.server.run(*(f"FLUSH TABLES moved.{table} FOR EXPORT" for table in TABLES[:1]), "UNLOCK TABLES")
        self.innodb_bytes = disk.apparent_bytes(self.server.data / "moved", (".ibd",))
        return {"rows": sum(datasets.FLIGHTS_ROWS.values()) + self.rows, "bytes": self.innodb_bytes}

    # ---- there -----------------------------------------------------------------------------------------

    def _move(self, table: str) -> dict:
        size = (self.server.data / "moved" / f"{table}.ibd").stat().st_size
        self.server.run(f"ALTER TABLE moved.{table} ENGINE=ATOLL")
        expect(self._engine_of(table) == "ATOLL", f"{table} is still {self._engine_of(table)}")
        return {"innodb_bytes": size}

    def _compare(self) -> dict:
        """Compares with the same tables in InnoDB, then keeps what must be found from now on."""
        original, moved = database_digests(self.server, "original"), database_digests(self.server, "moved")
        expect(set(original) == set(TABLES), f"tables: {sorted(original)}")
        for table in TABLES:
            expect(
                original[table] == moved[table],
                f"{table}: {original[table]} in InnoDB, {moved[table]} in ATOLL",
            )
        self.expected = moved
        return {"rows": sum(digest.rows for digest in moved.values())}

    def _compare_stored(self) -> dict:
        return self._compare_stored_on(self.server)

    def _compare_stored_on(self, server: Server) -> dict:
        found = database_digests(server, "moved")
        found.pop("load_target", None)
        for table in TABLES:
            expect(
                found.get(table) == self.expected[table],
                f"{table}: {found.get(table)} now, {self.expected[table]} before",
            )
        return {"rows": sum(digest.rows for digest in found.values())}

    def _join(self) -> dict:
        wanted, found = self.server.run(JOIN.format("original")), self.server.run(JOIN.format("moved"))
        expect(len(wanted) > 10 and wanted == found, f"the join gives {found}, InnoDB alone {wanted}")
        return {"airlines": len(found)}

    def _change(self) -> dict:
        """The same changes in both databases; only those of the ATOLL tables are timed."""
        seconds, changed = 0.0, 0
        for statement in CHANGES:
            connection = self.server.connect()
            with connection.cursor() as cursor:
                twin = cursor.execute(statement.format("original"))
                started = time.perf_counter()
                rows = cursor.execute(statement.format("moved"))
                seconds += time.perf_counter() - started
            connection.close()
            expect(rows == twin and rows > 0, f"{statement}: {rows} rows, InnoDB {twin}")
            changed += rows
        self._compare()
        return {"rows": changed, "seconds": seconds}

    def _add_index(self) -> None:
        self.server.run("ALTER TABLE moved.s3test ADD INDEX by_id (id)")

    def _query_by_index(self) -> dict:
        plan = self.server.run("EXPLAIN " + INDEXED.format("moved"))[0]
        expect("by_id" in [str(cell) for cell in plan], f"the index is not used: {plan}")
        wanted = self.server.run(INDEXED.format("original"))
        started = time.perf_counter()
        found = self.server.run(INDEXED.format("moved"))
        seconds = time.perf_counter() - started
        expect(found == wanted, f"by the index: {found}, InnoDB {wanted}")
        return {"rows": int(found[0][0]), "seconds": seconds}

    def _drop_index(self) -> None:
        self.server.run("ALTER TABLE moved.s3test DROP INDEX by_id")

    # ---- the past --------------------------------------------------------------------------------------

    def _take_snapshot(self) -> None:
        self.server.run(f"SELECT ATOLL_SNAPSHOT('{SNAPSHOT}')")

    def _destroy(self) -> dict:
        self.server.run("DELETE FROM moved.flights WHERE month > 1", "DROP TABLE moved.weather")
        rows = self.server.value("SELECT COUNT(*) FROM moved.flights")
        return {"rows left": rows}

    def _mount_the_past(self) -> dict:
        """The schema as it was, in the running server."""
        started = time.perf_counter()
        self.server.run(f"SELECT ATOLL_MOUNT('moved', 'past', '{SNAPSHOT}')")
        mounted = time.perf_counter() - started
        rows = self.server.value("SELECT COUNT(*) FROM past.flights WHERE month > 1")
        found = database_digests(self.server, "past")
        self.server.run("SELECT ATOLL_UNMOUNT('past')")
        expect(found == self.expected, f"the past has {found}, the snapshot {self.expected}")
        return {"destroyed rows": rows, "seconds": mounted}

    def _read_a_clone(self) -> dict:
        """A second server on a clone of the snapshot, beside the one that goes on."""
        url = f"file://{self.home}/clone" if self.s3 is None else f"s3://{self.s3.bucket}/clone"
        self._atollctl("clone", behind=(url, "--snapshot", SNAPSHOT))
        clone = Server(self.home / "clone-server", {**self.server.options, "atoll_url": url})
        started = time.perf_counter()
        try:
            clone.initialize().start()
            rows = clone.value("SELECT COUNT(*) FROM moved.flights")
            seconds = time.perf_counter() - started
            found = database_digests(clone, "moved")
        finally:
            clone.kill()
        expect(found == self.expected, f"the clone has {found}, the snapshot {self.expected}")
        return {"rows": rows, "seconds": seconds}

    def _restore_snapshot(self) -> dict:
        self.server.stop()
        started = time.perf_counter()
        self._atollctl("restore", behind=("--snapshot", SNAPSHOT, "--yes"))
        self.server.start()
        rows = self.server.value("SELECT COUNT(*) FROM moved.flights")
        return {"rows": rows, "seconds": time.perf_counter() - started}

    def _atollctl(self, command: str, behind: tuple[str, ...]) -> None:
        ran = atollctl(self.server, command, behind=behind)
        expect(ran.returncode == 0, f"atollctl {command}: {ran.stdout}{ran.stderr}")

    # ---- bad days --------------------------------------------------------------------------------------

    def _kill_and_recover(self) -> dict:
        """kill -9 while rows are inserted; every acknowledged one must be there afterwards."""
        self.server.run("CREATE TABLE moved.load_target (id INT PRIMARY KEY, body VARCHAR(100)) ENGINE=ATOLL")
        acknowledged = 0
        enough = threading.Event()

        def load() -> None:
            nonlocal acknowledged
            connection = self.server.connect("moved")
            with connection.cursor() as cursor:
                try:
                    while True:
                        cursor.execute(
                            f"INSERT INTO load_target VALUES ({acknowledged + 1}, REPEAT('x', 100))"
                        )
                        acknowledged += 1
                        if acknowledged == 300:
                            enough.set()
                except pymysql.Error:
                    enough.set()

        loader = threading.Thread(target=load)
        loader.start()
        enough.wait(60)
        self.server.kill()
        loader.join()
        started = time.perf_counter()
        self.server.start()
        seconds = time.perf_counter() - started
        found, highest = self.server.run("SELECT COUNT(*), MAX(id) FROM moved.load_target")[0]
        expect(acknowledged >= 300, f"only {acknowledged} rows were acknowledged before the kill")
        expect(
            found == highest and acknowledged <= found <= acknowledged + 1,
            f"{acknowledged} rows acknowledged, {found} found, highest {highest}",
        )
        return {"acknowledged": acknowledged, "found": found, "seconds": seconds}

    def _list_bucket(self) -> dict:
        wait_until(lambda: self.server.counter("Atoll_upload_backlog_files") == 0, 120, "uploads")
        objects = self._objects()
        groups: dict[str, list[int]] = {}
        for name, size in objects:
            groups.setdefault(name.split("/")[0], []).append(size)
        for group, sizes in sorted(groups.items()):
            print(f"               {group:10} {len(sizes):5} objects {sum(sizes):12} bytes")
        for name, size in [entry for entry in objects if entry[0].startswith("sst/")][:5]:
            print(f"               {name} {size}")
        expect("sst" in groups and "root" in groups, f"the bucket holds only {sorted(groups)}")
        return {
            "objects": len(objects),
            "bytes": sum(size for _, size in objects),
            "innodb_bytes": self.innodb_bytes,
            "groups": {
                group: {"objects": len(sizes), "bytes": sum(sizes)} for group, sizes in groups.items()
            },
        }

    def _objects(self) -> list[tuple[str, int]]:
        if self.s3:
            prefix = "db/"
            return [(item.key.removeprefix(prefix), item.size_bytes) for item in self.s3.client.list(prefix)]
        bucket = self.home / "bucket"
        return sorted((str(path.relative_to(bucket)), size) for path, size in disk.file_sizes(bucket).items())

    def _lose_and_recover(self) -> dict:
        self.server.stop()
        self.server.wipe()
        self.server.initialize()
        started = time.perf_counter()
        self.server.start()
        tables = self.server.run("SHOW TABLES IN moved")
        seconds = time.perf_counter() - started
        expect({name for (name,) in tables} >= set(TABLES), f"recovered only {tables}")
        expect(
            not self.server.run("SHOW DATABASES LIKE 'original'"), "the InnoDB copy cannot be in the bucket"
        )
        return {"tables": len(tables), "seconds": seconds}

    # ---- a second server -------------------------------------------------------------------------------

    def _compare_reader(self) -> dict:
        return self._compare_stored_on(self.reader.server)

    def _promote_reader(self) -> dict:
        details = self.reader.take_over()
        expect(details["rows"] == 100, f"the new writer has changed {details['rows']} of 100 rows")
        self.server = self.reader.server
        return details

    # ---- and back ----------------------------------------------------------------------------------------

    def _move_back(self, table: str) -> None:
        self.server.run(f"ALTER TABLE moved.{table} ENGINE=InnoDB")
        expect(self._engine_of(table) == "InnoDB", f"{table} is still {self._engine_of(table)}")

    def _stop(self) -> None:
        self.server.run("DROP TABLE moved.load_target")
        self.server.stop()

    def _engine_of(self, table: str) -> str:
        return str(
            self.server.value(
                "SELECT engine FROM information_schema.tables "
                f"WHERE table_schema = 'moved' AND table_name = '{table}'"
            )
        )


def print_table(steps: list[dict]) -> None:
    """Prints one line per step with a column of seconds per bucket, and the sizes."""
    buckets = list(dict.fromkeys(step["bucket"] for step in steps))
    print(f"\n{'seconds':60}" + "".join(f"{bucket:>12}" for bucket in buckets))
    for name in dict.fromkeys(step["name"] for step in steps):
        cells = {step["bucket"]: step["seconds"] for step in steps if step["name"] == name}
        print(
            f"{name:60}"
            + "".join(f"{cells[bucket]:12.3f}" if bucket in cells else f"{'-':>12}" for bucket in buckets)
        )
    for step in steps:
        if "groups" in step:
            print(
                f"size, {step['bucket']}: InnoDB {step['innodb_bytes'] / 1e6:.1f} MB, "
                f"bucket {step['bytes'] / 1e6:.1f} MB in {step['objects']} objects"
            )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=200_000, help="rows of s3test")
    parser.add_argument(
        "--buckets", default="file,versitygw", help="file, versitygw, minio (which make setup builds)"
    )
    arguments = parser.parse_args()
    exit_cleanly_on_signals()
    steps: list[dict] = []
    started, error = time.perf_counter(), ""
    try:
        for bucket in arguments.buckets.split(","):
            Demo(bucket, arguments.rows, steps).run()
    except (DemoFailed, ServerFailed, OSError, paths.Missing, datasets.WrongData, pymysql.Error) as failure:
        error = f"{type(failure).__name__}: {failure}"
    result = {
        "ok": not error,
        "error": error,
        "seconds": round(time.perf_counter() - started, 2),
        "steps": steps,
    }
    target = paths.BUILD / "demo" / "result.json"
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(json.dumps(result, indent=1) + "\n")
    print_table(steps)
    print(
        f"\n{'all steps passed' if not error else 'FAILED: ' + error}; see {target.relative_to(paths.ROOT)}"
    )
    return 1 if error else 0


if __name__ == "__main__":
    sys.exit(main())
