"""Live sessions on a PostgreSQL server: a file `NAME.server` among the live sessions has the
address of one.

A session there is named as if it lay below that file, so that its source says nothing of the
address, which may have a password. Its records are read as the lines that a folder would have. The
tables are those of the page on the format; nothing of `live/` is imported.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from contextlib import closing
from hashlib import blake2b
from typing import Any
from urllib.parse import quote

import msgspec

from ...errors import ReadError
from ..shared.jsonl import read_small
from ..shared.values import Position, Record, Source

SUFFIX = ".server"
LOG = "log.jsonl"
ADDRESS_BYTES = 4 << 10
PAGE = 500
BLOB_BYTES = 8 << 20
BLOBS = 16  # Whole outputs that are read for one record.
HASH = re.compile(r'"sha256"\s*:\s*"([0-9a-f]{64})"')

SESSIONS = """
select number, live_sessions.id, last_seq, extract(epoch from ts)::float8
from live_sessions join live_records on session = number and seq = last_seq
where deleted_at is null
"""
RECORDS = """
select seq, id, to_char(ts at time zone 'utc', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'), type, key, epoch,
    payload::text
from live_records where session = %s and seq >= %s order by seq limit %s
"""


def is_on_server(path: str) -> bool:
    """Return True for the path of a session on a server."""
    return os.path.dirname(os.path.dirname(path)).endswith(SUFFIX)


def find_sessions(file: str, root: str, agent: str) -> Iterator[Source]:
    """Yield the sessions of the server in this file. Raises ReadError if it cannot be asked."""
    for number, id, last_seq, time_s in ask(file, f"{SESSIONS} order by number"):
        yield Source(
            agent=agent,
            path=os.path.join(file, quote(id, safe=""), LOG),
            root=root,
            size=last_seq + 1,
            mtime_ns=int(time_s * 1e6) * 1000,
            inode=number,
        )


def refresh(source: Source) -> Source | None:
    """Return the source as it is now, or None when the session is gone."""
    rows = ask(_file(source), f"{SESSIONS} and number = %s", source.inode)
    if not rows:
        return None
    _, _, last_seq, time_s = rows[0]
    return msgspec.structs.replace(source, size=last_seq + 1, mtime_ns=int(time_s * 1e6) * 1000)


def read(source: Source, start: int) -> Iterator[Record]:
    """Yield the records from a seq on, each after the whole outputs that it names."""
    while rows := ask(_file(source), RECORDS, source.inode, start, PAGE):
        for seq, id, time, type, key, epoch, payload in rows:
            for name in list(dict.fromkeys(HASH.findall(payload)))[:BLOBS]:
                if (data := _blob(source, name)) is not None:
                    yield Record(data, -1, f"output:{name}")
            yield Record(_line(seq, id, time, type, key, epoch, payload), seq, None, None, seq + 1)
        start = rows[-1][0] + 1


def position(source: Source, offset: int, records: int) -> Position:
    """Return the position before the record with this seq."""
    return Position(offset=offset, tail=_mark(source, offset), records=records)


def follows(source: Source, since: Position) -> bool:
    """Return True if the record before the position is the one that was read."""
    try:
        return since.tail == _mark(source, since.offset)
    except ReadError:
        return False


def ask(file: str, sql: str, *values: Any) -> list[Any]:
    """Return the rows of a query to the server in a file. Raises ReadError."""
    address = (read_small(file, ADDRESS_BYTES) or b"").decode("utf-8", "replace").strip()
    if not address.startswith(("postgresql://", "postgres://")):
        raise ReadError(file, "it has no address like postgresql://USER@HOST/DATABASE")
    try:
        import psycopg
    except ImportError:
        raise ReadError(
            file, "a server needs the extra `postgres`: `pip install 'runlore[postgres]'`"
        ) from None
    try:
        with closing(
            psycopg.connect(
                address, autocommit=True, connect_timeout=10, application_name="runlore"
            )
        ) as connection:
            connection.execute("set default_transaction_read_only = on")
            return connection.execute(sql, values or None).fetchall()
    except psycopg.Error as error:
        # Only the kind of error: its words may have parts of the address.
        raise ReadError(file, f"the server cannot be asked ({type(error).__name__})") from None


def _file(source: Source) -> str:
    return os.path.dirname(os.path.dirname(source.path))


def _mark(source: Source, offset: int) -> bytes:
    """Return what tells the record before a position from any other."""
    sql = "select id from live_records where session = %s and seq = %s"
    rows = ask(_file(source), sql, source.inode, offset - 1)
    return blake2b("".join(id for (id,) in rows).encode(), digest_size=16).digest()


def _blob(source: Source, name: str) -> bytes | None:
    sql = """select data from live_blobs
        where session = %s and name = %s and octet_length(data) <= %s"""
    rows = ask(_file(source), sql, source.inode, name, BLOB_BYTES)
    return bytes(rows[0][0]) if rows else None


def _line(
    seq: int, id: str, time: str, type: str, key: str | None, epoch: int | None, payload: str
) -> bytes:
    """Return the record as a line of a log, without a checksum."""
    words = [f'"n":{seq}', f'"i":{json.dumps(id)}', f'"d":"{time}"', f'"t":{_text(type)}']
    if key is not None:
        words.append(f'"k":{_text(key)}')
    if epoch is not None:
        words.append(f'"e":{epoch}')
    return f'{{{",".join(words)},"p":{payload}}}'.encode()


def _text(column: str) -> str:
    """Return a text as JSON. One that a column cannot hold is JSON there already."""
    return column if column.startswith('"') else json.dumps(column)
