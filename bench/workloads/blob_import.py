"""The statements of bench/blob.py: tables, import, scan, deletion, and the comparison with the expected
objects.

Statements are bytes, and only quotes are escaped, by doubling (NO_BACKSLASH_ESCAPES), so that a value of
megabytes costs the client little CPU. Errors: WrongObjects when an answer differs from the stored objects.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterator

import pymysql
import pymysql.cursors
from common.rig import Running
from workloads.blob_objects import PARTITIONS, NewObject, Objects, Revision

DATABASE = "neo"
DELETED_AT_ONCE = 100
DUPLICATE_KEY = 1062
TABLES = (
    "CREATE TABLE data (id BIGINT UNSIGNED NOT NULL, hash BINARY(20) NOT NULL, compression TINYINT UNSIGNED, "
    "value MEDIUMBLOB NOT NULL, PRIMARY KEY (id), UNIQUE (hash)) ENGINE={engine}",
    "CREATE TABLE obj (`partition` SMALLINT UNSIGNED NOT NULL, oid BIGINT UNSIGNED NOT NULL, "
    "tid BIGINT UNSIGNED NOT NULL, data_id BIGINT UNSIGNED, value_tid BIGINT UNSIGNED, "
    "PRIMARY KEY (`partition`, tid, oid), KEY (`partition`, oid, tid), KEY (data_id)) ENGINE={engine}",
)


class WrongObjects(Exception):
    """The tables do not have the objects that were stored."""


def make_tables(running: Running) -> None:
    running.execute(f"CREATE DATABASE {DATABASE}")
    running.execute(*(table.format(engine=running.engine_clause) for table in TABLES), database=DATABASE)


def connect(running: Running) -> pymysql.Connection:
    connection = running.server.connect(DATABASE, timeout_s=3600)
    connection.query("SET NAMES binary, sql_mode = CONCAT(@@sql_mode, ',NO_BACKSLASH_ESCAPES')")
    return connection


def _rows(connection: pymysql.Connection, statement: str) -> tuple[tuple, ...]:
    with connection.cursor() as cursor:
        cursor.execute(statement)
        return cursor.fetchall()


def _quoted(value: bytes) -> bytes:
    return b"'" + value.replace(b"'", b"''") + b"'"


# ---- Import ----------------------------------------------------------------------------------------------


def import_objects(running: Running, objects: Objects) -> float:
    """Stores all transactions. Returns the seconds of their statements, without the time to make values and
    SQL text."""
    connection, seconds = connect(running), 0.0
    newest: dict[int, int] = {}  # oid -> tid, the expected results of the lookups
    for new_objects in objects.transactions():
        inserts = [_insert_data(new) for new in new_objects]
        started = time.perf_counter()
        connection.begin()
        for new, insert in zip(new_objects, inserts, strict=True):
            _check_newest(connection, new.revision, newest.get(new.revision.oid))
            _store(connection, new, insert)
        connection.commit()
        seconds += time.perf_counter() - started
        newest.update({new.revision.oid: new.revision.tid for new in new_objects})
    connection.close()
    return seconds


def _insert_data(new: NewObject) -> bytes:
    head = f"INSERT INTO data (id, hash, compression, value) VALUES ({new.own_id},".encode()
    return b"".join([head, _quoted(new.hash), b",0,", _quoted(new.value), b")"])


def _check_newest(connection: pymysql.Connection, revision: Revision, expected: int | None) -> None:
    found = _rows(
        connection,
        f"SELECT tid FROM obj WHERE `partition`={revision.partition} AND oid={revision.oid} "
        f"AND tid<{revision.tid} ORDER BY tid DESC LIMIT 1",
    )
    if (found[0][0] if found else None) != expected:
        raise WrongObjects(f"the newest revision of object {revision.oid} is {expected}, not {found}")


def _store(connection: pymysql.Connection, new: NewObject, insert: bytes) -> None:
    revision = new.revision
    try:
        connection.query(insert)
        data_id = new.own_id
    except pymysql.IntegrityError as error:
        if error.args[0] != DUPLICATE_KEY or not new.repeated:
            raise
        data_id = _rows(connection, f"SELECT id FROM data WHERE hash=x'{new.hash.hex()}'")[0][0]
    if data_id != revision.data_id:
        raise WrongObjects(f"the value of object {revision.oid} is {revision.data_id}, not {data_id}")
    connection.query(
        "INSERT INTO obj (`partition`, oid, tid, data_id, value_tid) VALUES "
        f"({revision.partition},{revision.oid},{revision.tid},{data_id},NULL)"
    )


# ---- Reading ---------------------------------------------------------------------------------------------


def _read_all(running: Running) -> Iterator[tuple[int, int, int, bytes, bytes]]:
    """Yields oid, tid, data_id, hash and value of all revisions: one partition after the other, each in the
    order of tids."""
    connection = connect(running)
    with connection.cursor(pymysql.cursors.SSCursor) as cursor:
        for partition in range(PARTITIONS):
            cursor.execute(
                "SELECT STRAIGHT_JOIN oid, tid, id, hash, value FROM obj JOIN data ON id=data_id "
                f"WHERE `partition`={partition} ORDER BY tid, oid"
            )
            yield from cursor
    connection.close()


def scan(running: Running, objects: Objects) -> float:
    """Reads all objects; returns seconds."""
    started = time.perf_counter()
    revisions = size = 0
    for row in _read_all(running):
        revisions += 1
        size += len(row[4])
    seconds = time.perf_counter() - started
    live = objects.live()
    expected = len(live), sum(objects.values[revision.data_id][1] for revision in live)
    if (revisions, size) != expected:
        raise WrongObjects(f"the scan found {revisions} objects with {size} bytes, not {expected}")
    return seconds


def verify(running: Running, objects: Objects) -> None:
    """Compares every revision, the hash of every value, and the number of values with the expected ones."""
    found = set()
    for oid, tid, data_id, digest, value in _read_all(running):
        found.add(Revision(tid, oid, data_id))
        if hashlib.sha1(value).digest() != digest or (digest, len(value)) != objects.values[data_id]:
            raise WrongObjects(f"the value {data_id} of object {oid} is not the one that was stored")
    if found != set(objects.live()):
        raise WrongObjects(
            f"{len(found)} revisions are there instead of {len(objects.live())}, or other ones"
        )
    values = running.execute("SELECT COUNT(*) FROM data", database=DATABASE)[0][0]
    if values != len(objects.live_values()):
        raise WrongObjects(f"{values} values are there instead of {len(objects.live_values())}")


# ---- Deletion --------------------------------------------------------------------------------------------


def delete_objects(running: Running, objects: Objects) -> float:
    """Removes a third of the revisions, and the values that no revision has any more. Returns the seconds."""
    connection, chosen = connect(running), objects.choose_deleted()
    started = time.perf_counter()
    for first in range(0, len(chosen), DELETED_AT_ONCE):
        connection.begin()
        part = chosen[first : first + DELETED_AT_ONCE]
        for revision in part:
            connection.query(
                f"DELETE FROM obj WHERE `partition`={revision.partition} AND tid={revision.tid} "
                f"AND oid={revision.oid}"
            )
        _delete_unused(connection, {revision.data_id for revision in part})
        connection.commit()
    seconds = time.perf_counter() - started
    connection.close()
    return seconds


def _delete_unused(connection: pymysql.Connection, data_ids: set[int]) -> None:
    listed = ",".join(map(str, sorted(data_ids)))
    unused = _rows(
        connection,
        f"SELECT id FROM data LEFT JOIN obj ON id=data_id WHERE id IN ({listed}) AND data_id IS NULL",
    )
    if unused:
        connection.query(f"DELETE FROM data WHERE id IN ({','.join(str(row[0]) for row in unused)})")
