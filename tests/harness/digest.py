"""Digests of tables, to compare their content across engines, independently of row order and row format."""

from __future__ import annotations

from typing import NamedTuple

from harness.server import Server


class Digest(NamedTuple):
    """Tables with equal digests have the same rows. The sum of CRCs notices pairs of equal rows, which cancel
    in the exclusive-or."""

    rows: int
    crc_sum: int
    md5_xor: int


def table_digest(server: Server, database: str, table: str) -> Digest:
    """Computes the digest of a table by a full scan."""
    columns = [
        row[0]
        for row in server.run(
            "SELECT column_name FROM information_schema.columns "
            f"WHERE table_schema = '{database}' AND table_name = '{table}' ORDER BY ordinal_position"
        )
    ]
    # NULL becomes 'null', which is the HEX() of no value. The separator keeps the columns apart.
    fields = ", ".join(f"IFNULL(HEX(`{name}`), 'null')" for name in columns)
    row = f"CONCAT_WS('|', {fields})"
    statement = (
        f"SELECT COUNT(*), SUM(CRC32({row})), "
        f"BIT_XOR(CAST(CONV(LEFT(MD5({row}), 15), 16, 10) AS UNSIGNED)) FROM `{database}`.`{table}`"
    )
    count, crc_sum, md5_xor = server.run(statement)[0]
    return Digest(int(count), int(crc_sum or 0), int(md5_xor or 0))


def database_digests(server: Server, database: str) -> dict[str, Digest]:
    """Returns the digest of every base table of the database."""
    tables = server.run(
        "SELECT table_name FROM information_schema.tables "
        f"WHERE table_schema = '{database}' AND table_type = 'BASE TABLE'"
    )
    return {name: table_digest(server, database, name) for (name,) in tables}
