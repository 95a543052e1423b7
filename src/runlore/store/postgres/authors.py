"""Whose session it is.

Several authors may write to one PostgreSQL store, and one may have a transcript of another's
session, or records of the same name that are others."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import msgspec

from ...model import SCHEMA_VERSION, format_time
from ..numbering import Renumbering
from ..rows import CALL_ID, KIND, OFFSET, SEQ, TOOL, TS
from ..segments import bodies_of
from ..sql.database import plain, without_nul
from ..values import STALE_COPIES, Batch, Delta
from .claims import Claims
from .connection import array
from .months import month_of

_MARKER = re.compile(r"(\[redacted:[^\s:\]]{1,64}:)[0-9a-f]{6}\]")

_COMPARED = (TS, KIND, TOOL, CALL_ID)
"""The columns that are the same in two rows of one record."""


if TYPE_CHECKING:
    from .ingest import PostgresIngest


class Authors:
    """Finds the session that an author means by a uid."""

    def __init__(self, ingest: PostgresIngest, claims: Claims) -> None:
        self.ingest, self.claims = ingest, claims
        self.db, self.sessions = ingest.db, ingest.sessions

    def find_foreign(self, uids: set[str]) -> set[str]:
        self.claims.of_author()  # Whoever asks for them later would wait for the rows of the group.
        if not uids or self._is_alone():
            return set()
        sql = (
            "select uid from sessions where uid = any(?2) and author is distinct from ?1"
            " union select uid from claims where uid = any(?2)"
            " and (author = ?1 or session in (select number from sessions where author = ?1))"
        )
        return {
            uid for (uid,) in self.db.all(sql, (self.db.author, [without_nul(uid) for uid in uids]))
        }

    def in_own_name(self, batch: Batch) -> Batch:
        """The batch with the uids under which its sessions are stored for this author."""
        names = {delta.session_uid: self._name(delta) for delta in batch.deltas}
        names |= {
            uid: stored for uid, stored in self.claims.of_author().items() if uid not in names
        }
        calls = [
            msgspec.structs.replace(
                kept, call=msgspec.structs.replace(kept.call, session_uid=names.get(uid, uid))
            )
            for kept in batch.calls
            for uid in (kept.call.session_uid,)
        ]
        return msgspec.structs.replace(
            batch, deltas=[_renamed(delta, names) for delta in batch.deltas], calls=calls
        )

    def _is_alone(self) -> bool:
        """Return True if all sessions are this author's."""
        assert self.db.notes is not None
        if self.db.notes.is_alone is None:
            sql = (
                "select not exists (select 1 from claims) and not exists (select 1 from sessions"
                " where author is distinct from ?)"
            )
            (self.db.notes.is_alone,) = self.db.one(sql, (self.db.author,))
        return bool(self.db.notes.is_alone)

    def _name(self, delta: Delta) -> str:
        """The uid of the session that a delta belongs to: of this author, of someone else whose
        records agree, or a second one."""
        uid = delta.session_uid
        sql = (
            "select s.number, s.uid, s.author from claims c join sessions s on s.number = c.session"
            " where c.author = ? and c.uid = ?"
        )
        claim = self.db.one(sql, (self.db.author, uid))
        found = claim or self.db.one(
            "select number, uid, author from sessions where uid = ?", (uid,)
        )
        if found is None:
            return uid
        number, stored, author = found
        if author in (self.db.author, None):
            if self._agrees(number, delta) is False:
                self._expel(number, uid)
            return str(stored)
        agrees = self._agrees(number, delta)
        if agrees or (agrees is None and claim is not None):
            self.claims.add(self.db.author, uid, number)
            return str(stored)
        return self._second(self.db.author, uid, month_of(delta.tally.started_at), self.db.machine)

    def _agrees(self, session: int, delta: Delta) -> bool | None:
        """Return True if the records that a session and a delta both have are the same.

        None if they have none in common.
        """
        sql = "select hash, seq from natives where session = ? and hash = any(?::bigint[])"
        seqs = dict(self.db.all(sql, (session, array(filter(None, delta.natives)))))
        places = [
            seqs.get(h) if h else row[SEQ] for h, row in zip(delta.natives, delta.rows, strict=True)
        ]
        wanted = {seq for seq in places if seq is not None}
        if not wanted:
            return None
        (uid,) = self.db.one("select uid from sessions where number = ?", (session,))
        low, high = min(wanted), max(wanted)
        stored = {row[SEQ]: row for row in self.sessions.counted_rows(session, low, high)}
        # What a digest quotes of a session that was evicted is cut.
        texts = None if self.ingest.is_evicted(session) else self.sessions.bodies(uid, low, high)
        pairs = [
            (stored[seq], row, body)
            for seq, row, body in zip(places, delta.rows, bodies_of(delta), strict=True)
            if seq in stored
        ]
        return (
            all(_is_same(there, row, body, texts) for there, row, body in pairs) if pairs else None
        )

    def _add_session(
        self,
        uid: str,
        flavor: str,
        native_id: str,
        month: int,
        machine: str | None,
        path: str | None,
        author: str,
    ) -> int:
        self.db.months.make({month})
        now = format_time(datetime.now(UTC))
        row = self.db.one(
            "insert into sessions (number, uid, flavor, native_session_id, machine, author,"
            " source_path, discovered_at, ingested_at, schema_version) values (?::bigint << 31 |"
            " nextval('session_numbers'), ?, ?, ?, ?, ?, ?, ?, ?, ?) returning number",
            (month, uid, flavor, native_id, machine, author, path, now, now, SCHEMA_VERSION),
        )
        return int(row[0])

    def _second(self, author: str, uid: str, month: int, machine: str | None) -> str:
        """The uid of this author's own session, beside someone else's."""
        name = f"{uid}~{author}"
        number = self.sessions.number(name)
        if number is None:
            flavor, _, native_id = name.partition(":")
            number = self._add_session(name, flavor, native_id, month, machine, None, author)
        self.claims.add(author, uid, number)
        return name

    def _expel(self, session: int, uid: str) -> None:
        """Someone else's records in a session of this author turn out to be others: they are
        derived again, as a session of their own."""
        sql = (
            "select block, number, author, reader from streams join sources on number = source"
            " where session = ? and author != ?"
        )
        for block, source, author, reader in self.db.all(sql, (session, self.db.author)):
            self.ingest.take_out(session, block, Renumbering(), is_damaged=False)
            self.db.execute(
                "update sources set adapter_version = ? where number = ?", (STALE_COPIES, source)
            )
            self._second(author, uid, session >> 31, reader.removeprefix(f"{author}@"))


def _is_same(
    there: Sequence[Any], row: Sequence[Any], body: bytes | None, texts: Mapping[int, str] | None
) -> bool:
    """Return True if a stored row and a new one are of the same record.

    `texts` are the stored bodies; None if they have left.
    """
    if [plain(row[n]) for n in _COMPARED] != [there[n] for n in _COMPARED]:
        return False
    if texts is None or there[OFFSET] is None:
        return True
    text = None if body is None else body.decode("utf-8", "replace")
    return _unmarked(text) == _unmarked(texts.get(there[SEQ]))


def _renamed(delta: Delta, names: dict[str, str]) -> Delta:
    uid, facts = names.get(delta.session_uid, delta.session_uid), delta.facts
    if facts.parent_uid in names and names[facts.parent_uid] != facts.parent_uid:
        facts = msgspec.structs.replace(facts, parent_uid=names[facts.parent_uid])
    return msgspec.structs.replace(delta, session_uid=uid, facts=facts)


def _unmarked(text: str | None) -> str:
    """The text without what another key makes of the same secret."""
    return _MARKER.sub(r"\1]", plain(text or "") or "")
