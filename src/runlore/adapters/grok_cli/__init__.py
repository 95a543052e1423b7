"""The `grok` of superagent-ai (npm `@vibe-kit/grok-cli`, from 1.0): all sessions in one SQLite
database.

Learned from its source (2026-05: `src/storage`). Last checked 2026-11. Versions before 1.0 keep no
sessions. The root is the one of xAI's own `grok`, and the two live there side by side. The traps:

- A message is a row of `messages`, numbered from 1 within its session, and a message of the AI SDK
  in JSON. `tool_calls` and `tool_results` repeat the messages, and are not read.
- Usage and compactions are rows of their own that come after the message they are about: they are
  sidecars between the messages, in the order of time. Every read gives those again that the read
  before may have missed, and they are counted by their own number.
- Titles, models and folders of sessions change in place: every read gives those that changed since
  the last message.
- A compaction leaves all messages where they are, and names the first that stays in the context.
- `cost_micros` is the agent's own estimate from a price list, not an invoice: the event has it as
  `cost_estimate_micros`, the call as recorded.
- The rowids of deleted messages are used again. The last message that was read is then another one,
  so the database is compared as a whole. A message is named by session, number and content: the
  same number with another text is new.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from hashlib import blake2b
from itertools import islice
from typing import Any, TypeVar
from zlib import crc32

import apsw

from ...errors import ModelError, ReadError, Rejected
from ...model import Session, format_time, parse_time
from .. import Position, Record, Source
from ..shared.sqlite import SqliteAdapter, as_record, columns, is_passing, reading, rows

MESSAGES = "messages"
SLACK = timedelta(hours=1)
"""The maximum age of a row that was written after the last message was read: clocks are set,
programs wait."""

MAX_AGAIN = 20_000
"""Rows of sessions or sidecars that a read which goes on may find. Only those of the last hour are
read again; without times it would be all of them, for each part of the messages."""

T = TypeVar("T")


class GrokCliAdapter(SqliteAdapter):
    name = "grok_cli"
    label = "Grok CLI (superagent)"
    aliases = ("superagent-grok",)
    version = 5
    reader = "runlore.adapters.grok_cli.reader"
    blob_mark = b'"data"'
    roots = ("~/.grok",)
    files = ("grok.db",)

    def follows(self, source: Source, since: Position) -> bool:
        try:
            with reading(source.path) as db:
                return (since.head, since.tail) == _samples(db, since.offset)
        except ReadError as error:
            # Nothing shows that it is another database, and `read` raises the same error.
            return is_passing(error)

    def position(self, source: Source, offset: int, records: int) -> Position:
        with reading(source.path) as db:
            head, tail = _samples(db, offset)
        return Position(offset=offset, head=head, tail=tail, records=records)

    def read(self, source: Source, since: Position | None) -> Iterator[Record]:
        """Yield every message after the position, and before each the sidecars since the last
        one."""
        last = since.offset if since else 0
        with reading(source.path) as db:
            begin = _time_before(db, last) if since else None
            max_rows = MAX_AGAIN if since else None
            latest = _up_to(max_rows, db, _recent(db, "sessions", "updated_at", begin))
            sessions = {row["id"]: row for row in latest}
            sidecars = _up_to(max_rows, db, _sidecars(db, begin))
            pending = sorted(sidecars, key=lambda item: item[0], reverse=True)
            for row in rows(db, MESSAGES, "where rowid > ? order by rowid", (last,)):
                yield from _due(pending, str(row.get("created_at")))
                if session := sessions.pop(row.get("session_id"), None):
                    yield Record(as_record(session, {})[0], -1, "session")
                data, problem = as_record(
                    {"name": message_id(row), **row}, {"message_json": "message"}
                )
                yield Record(data, row["rowid"] - 1, None, problem, row["rowid"])
            yield from _due(pending, None)
            yield from (
                Record(as_record(session, {})[0], -1, "session") for session in sessions.values()
            )

    def resume(self, session: Session) -> list[str] | None:
        return ["grok", "--session", session.native_session_id]


adapter = GrokCliAdapter()


def _up_to(max_rows: int | None, db: apsw.Connection, found: Iterator[T]) -> list[T]:
    """Return all that is found. Raises Rejected if it is more than `max_rows`."""
    items = list(islice(found, None if max_rows is None else max_rows + 1))
    if max_rows is not None and len(items) > max_rows:
        reason = f"more than {max_rows:,} rows would be read again and again"
        raise Rejected(db.db_filename("main"), reason)
    return items


def _samples(db: apsw.Connection, offset: int) -> tuple[bytes, bytes]:
    """Return hashes of the first message and of the last one that was read."""
    first = rows(db, MESSAGES, "order by rowid limit 1")
    last = rows(db, MESSAGES, "where rowid = ?", (offset,))
    return _hash(next(first, None)), _hash(next(last, None))


def _hash(row: dict[str, Any] | None) -> bytes:
    return blake2b(
        repr(row and sorted(row.items())).encode("utf-8", "replace"), digest_size=16
    ).digest()


def _time_before(db: apsw.Connection, rowid: int) -> str | None:
    """Return the time from which on sidecars may be new; None when all of them may be."""
    row = next(rows(db, MESSAGES, "where rowid = ?", (rowid,)), None)
    try:
        moment = parse_time(str(row["created_at"])) - SLACK if row else None
    except (ModelError, KeyError, OverflowError):
        return None
    return format_time(moment)[:23] if moment else None


def _recent(
    db: apsw.Connection, table: str, column: str, begin: str | None
) -> Iterator[dict[str, Any]]:
    known = begin is not None and column in columns(db, table)
    yield from rows(
        db,
        table,
        f"where {column} >= ? order by rowid" if known else "order by rowid",
        (begin,) if known else (),
    )


def _sidecars(
    db: apsw.Connection, begin: str | None
) -> Iterator[tuple[tuple[str, int, int], Record]]:
    """Yield the rows about messages, each with a key that sorts them by time. Those of one table
    stay in their order, whatever the clock did: they are counted."""
    for rank, (table, kind) in enumerate(
        (("compactions", "compaction"), ("usage_events", "usage"))
    ):
        latest = ""
        for row in _recent(db, table, "created_at", begin):
            latest = max(latest, str(row.get("created_at")))
            if table == "compactions":
                row["first_kept"] = _name_of(db, row)
            yield (latest, rank, row["rowid"]), Record(as_record(row, {})[0], -1, kind)


def _name_of(db: apsw.Connection, row: dict[str, Any]) -> str | None:
    """Return the name of the first message that stays in the context after a compaction."""
    where = "where session_id = ? and seq >= ? order by seq limit 1"
    given = (row.get("session_id"), row.get("first_kept_seq"))
    first = next(rows(db, MESSAGES, where, given), None)
    return message_id(first) if first else None


def message_id(row: dict[str, Any]) -> str:
    """Return the name of a message: its session, number and content."""
    content = text if isinstance(text := row.get("message_json"), str) else ""
    return (
        f"{row.get('session_id')}/{row.get('seq')}-{crc32(content.encode('utf-8', 'replace')):08x}"
    )


def _due(pending: list[tuple[tuple[str, int, int], Record]], until: str | None) -> Iterator[Record]:
    """Yield the sidecars that were written before this time, and remove them from the list."""
    while pending and (until is None or pending[-1][0][0] < until):
        yield pending.pop()[1]
