"""Databases that hold many sessions: each session is a source of its own, named as if it lay below
its database.

So a sync reads the sessions that changed, and one that cannot be read costs no other. Knows SQLite,
and no agent's tables.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from hashlib import blake2b
from pathlib import Path

import apsw

from ...errors import ReadError
from .base import OUTSIDE, Adapter, leads_out
from .sqlite import is_passing, reading, up_to_limit
from .values import Position, Source

# About how many bytes a message takes. The true size of a session is only known when it has been
# read.
UNIT = 4096


class SqliteSessionsAdapter(Adapter):
    """The base of adapters whose agent keeps many sessions in one database. A position counts
    messages."""

    def databases(self, root: str, refused: list[ReadError]) -> Iterable[str]:
        """Return the paths at which databases may be."""
        raise AssertionError("the agent's own adapter has it")

    def list_sessions(
        self, db: apsw.Connection, only: str | None
    ) -> Iterator[tuple[str, int, int]]:
        """Yield every session that has messages, or one: its id, the number of messages, and a
        number that changes with what is read of it."""
        raise AssertionError("the agent's own adapter has it")

    def outline(self, db: apsw.Connection, session: str, count: int) -> tuple[str, str]:
        """Return a text that changes with the first so many messages but the last, and one that
        changes with the last of them."""
        raise AssertionError("the agent's own adapter has it")

    def discover(self, root: Path) -> Iterator[Source]:
        self.refused = refused = list[ReadError]()
        for path in dict.fromkeys(self.databases(str(root), refused)):
            if os.path.isfile(path) and path.isprintable():
                yield from self.sessions(path, str(root), refused)

    def sessions(
        self, path: str, root: str, refused: list[ReadError], only: str | None = None
    ) -> list[Source]:
        if leads_out(path, root):
            refused.append(ReadError(path, OUTSIDE))
            return []
        try:
            with reading(path) as db:
                return [
                    Source(
                        agent=self.name,
                        path=os.path.join(path, id_),
                        root=root,
                        size=count * UNIT,
                        mtime_ns=mark,
                    )
                    for id_, count, mark in up_to_limit(db, self.list_sessions(db, only))
                    if id_.isprintable()
                    and os.path.basename(id_) == id_
                    and id_ not in ("", ".", "..")
                ]
        except ReadError as error:
            refused.append(error)
            return []

    def refresh(self, source: Source) -> Source | None:
        """Return the source as it is now, or None when it is gone. Its path is not that of a
        file."""
        path, id_ = os.path.split(source.path)
        return (
            next(iter(self.sessions(path, source.root, [], id_)), None)
            if os.path.isfile(path)
            else None
        )

    def follows(self, source: Source, since: Position) -> bool:
        path, id_ = os.path.split(source.path)
        try:
            with reading(path) as db:
                return (since.head, since.tail) == _hashed(*self.outline(db, id_, since.records))
        except ReadError as error:
            return is_passing(error)

    def position(self, source: Source, offset: int, records: int) -> Position:
        path, id_ = os.path.split(source.path)
        with reading(path) as db:
            head, tail = _hashed(*self.outline(db, id_, records))
        return Position(offset=offset, head=head, tail=tail, records=records)


def _hashed(*texts: str) -> tuple[bytes, bytes]:
    head, tail = (
        blake2b(text.encode("utf-8", "replace"), digest_size=16).digest() for text in texts
    )
    return head, tail
