"""Digests: stored, found to be stale, and looked up by the errors in them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from typing import Any

import msgspec

from ...errors import RunloreError
from ...model import Digest, SessionEvent, format_time
from ..bodies import whole
from ..cleaning import Cleaner
from ..dead_ends import dead_ends_of
from ..digest_rows import (
    ERROR,
    clean_digest,
    digest_columns,
    evidence_of,
    rows_of_digest,
    unpack_digest,
)
from ..filters import Filter
from ..rows import CUT, OUTRANKED
from ..segments import unpack
from ..values import CommittedSession, Row, SessionError
from .charges import Charges
from .database import Database
from .filters import session_filter
from .sessions import UNCOVERED, SqlSessions

_ROW = ", ".join(f"e.{name}" for name in ERROR)

HAS_MORE = (
    "exists (select 1 from events e where e.session = sessions.number and e.flags &"
    f" {CUT | OUTRANKED} = 0)"
)
"""Test that an evicted session has events that were not evicted, or that came since."""

_PART = 1_000_000
"""Money is added up in two parts, because one call may cost as much as 64 bits hold."""


class SqlDigests:
    """See `Digests` in the contracts."""

    def __init__(self, db: Database, sessions: SqlSessions, charges: Charges) -> None:
        self.db, self.sessions, self.charges = db, sessions, charges

    def timeline(self, uid: str) -> tuple[list[SessionEvent], Mapping[int, str]]:
        return whole(uid, *self.stored(uid))

    def stored(self, uid: str) -> tuple[Sequence[Row], Sequence[Row]]:
        session = self.sessions.number(uid)
        return (
            ([], [])
            if session is None
            else (
                self.sessions.rows(session, 0, None),
                self.sessions.segment_rows(session, 0, None),
            )
        )

    def get(self, uid: str) -> Digest | None:
        sql = (
            "select made_at, length, hash, body from digests where session = (select number from"
            " sessions where uid = ?)"
        )
        row = self.db.one(sql, (uid,))
        return None if row is None else unpack_digest(*row)

    def iter(self, chosen: Filter) -> Iterator[Digest]:
        for uid in sorted(self.sessions.uids(chosen)):
            found = self.get(uid)
            if found is not None:
                yield found

    def search_evicted(self, word: str) -> Iterator[tuple[int, Digest]]:
        wanted = msgspec.json.encode(word)[1:-1].lower()  # As it is written in JSON.
        sql = (
            "select number, made_at, length, d.hash, body from sessions join digests d on session ="
            " number where evicted_at is not null"
        )
        for number, made_at, length, hash_, body in self.db.all(sql):
            with suppress(RunloreError):
                if wanted in unpack(body, length, hash_).lower():
                    yield number, unpack_digest(made_at, length, hash_, body)

    def stale(self, version: int, quiet_since: datetime, limit: int | None = None) -> list[str]:
        own, author = self.db.own_sessions  # Fifty people would all make those of all.
        there = f"last_seq >= 0 and {own}"
        is_quiet = "(ended_at is null or ended_at < ? or ingested_at < ?)"
        sql = (
            f"select uid, ended_at from sessions where {UNCOVERED} and (evicted_at is null or"
            f" {HAS_MORE}) and {there} and {is_quiet} union select uid, ended_at from sessions"
            " where number in (select session from digests where version < ?) and evicted_at is"
            f" null and {there} and {is_quiet} order by 2 desc nulls last,"
            f" 1{'' if limit is None else f' limit {limit:d}'}"
        )
        since = format_time(quiet_since)
        return [
            uid
            for uid, _ in self.db.all(sql, (*author, since, since, version, *author, since, since))
        ]

    def errors(
        self, chosen: Filter, fingerprints: Sequence[str] | None = None
    ) -> list[SessionError]:
        where, bindings = self._errors_where(chosen, fingerprints)
        sql = (
            f"select s.uid, s.flavor, s.repo, {_ROW} from errors e join sessions s on s.number ="
            f" e.session {where}"
        )
        return [SessionError(*row) for row in self.db.all(sql, bindings)]

    def spent_on(self, chosen: Filter, fingerprints: Sequence[str]) -> dict[str, float]:
        where, bindings = self._errors_where(chosen, fingerprints)
        sql = (
            f"select e.fingerprint, sum(c.usd / {_PART}), sum(c.usd % {_PART}) from errors e join"
            " calls c on c.session = e.session and c.seq between e.first_seq and case when"
            f" e.fixed_seq > e.last_seq then e.fixed_seq else e.last_seq end {where}"
            f" {'and' if where else 'where'} (c.usd > 0 or c.priced_by in (select number from"
            " tariffs where basis != 'none')) group by e.fingerprint"
        )
        return {
            name: (int(whole) * _PART + int(rest)) / 1e12
            for name, whole, rest in self.db.all(sql, bindings)
        }

    def templates(self) -> list[tuple[str, str, str, str, int]]:
        sql = (
            "select fingerprint, min(kind), min(name), min(template), count(*) from errors group by"
            " fingerprint order by fingerprint"
        )
        return [tuple(row) for row in self.db.all(sql)]

    def _errors_where(
        self, chosen: Filter, fingerprints: Sequence[str] | None
    ) -> tuple[str, list[Any]]:
        where, bindings = session_filter(self.db, chosen)
        parts = [f"e.session in (select number from sessions {where})"] if where else []
        if fingerprints is not None:
            parts.append(
                f"e.fingerprint in ({', '.join('?' * len(fingerprints))})"
                if fingerprints
                else "1 = 0"
            )
        return ("where " + " and ".join(parts)) if parts else "", [*bindings, *(fingerprints or ())]

    def put(self, digest: Digest, when: datetime) -> None:
        with self.db.writing():
            covers = digest.covers
            sql = (
                "select number, version, d.last_seq, d.content_hash from sessions left join digests"
                " d on session = number where uid = ?"
            )
            row = self.db.one(sql, (digest.session_uid,))
            if row is None or (
                row[1] is not None
                and row[1] > digest.version
                and row[2:] == (covers.last_seq, covers.content_hash)
            ):
                return
            self.replace(int(row[0]), digest, when)

    def replace(self, session: int, digest: Digest, when: datetime) -> None:
        self.write(session, digest, when)
        self.charges.to_charge[session] = dead_ends_of(digest)
        columns = digest_columns(digest, when)
        # Watermarks are set in their order.
        later = "evicted_at = case when evicted_at < ? then ? else evicted_at end"
        state = "coalesce(git_state, 'open')" if digest.commits else "null"
        at = columns["analyzed_at"]
        self.db.execute(
            f"update sessions set {' = ?, '.join(columns)} = ?, {later}, git_state = {state} where"
            " number = ?",
            (*columns.values(), at, at, session),
        )

    def write(self, session: int, digest: Digest, when: datetime) -> None:
        row, errors = rows_of_digest(session, digest, when)
        for table in ("digests", "errors"):
            self.db.execute(f"delete from {table} where session = ?", (session,))
        self.db.execute("insert into digests values (?, ?, ?, ?, ?, ?, ?, ?)", row)
        self.db.executemany(f"insert into errors values (?{', ?' * len(ERROR)})", errors)

    def drop(self, uids: Sequence[str]) -> None:
        with self.db.writing():
            for session in [
                number for uid in uids if (number := self.sessions.number(uid)) is not None
            ]:
                for table in ("digests", "errors"):
                    self.db.execute(f"delete from {table} where session = ?", (session,))
                self.db.execute(
                    "update sessions set analyzed_at = null, analyzed_seq = null, analyzed_hash ="
                    " null, outcome = 'unknown', outcome_level = 'unknown', outcome_by = '',"
                    " outcome_evidence = null, quality = null where number = ?",
                    (session,),
                )

    def committed(self, asked_before: datetime, ended_after: datetime) -> list[CommittedSession]:
        own, author = self.db.own_sessions
        # A reverted commit stays reverted. Folders of other machines are not here.
        sql = (
            "select uid, cwd, git_branch, started_at, git_state, git_note from sessions where"
            " git_state in ('open', 'merged') and cwd is not null and (machine is null or machine ="
            f" ?) and {own} and (git_at is null or git_at < ? and ended_at > ?) order by uid"
        )
        bindings = (*author, format_time(asked_before), format_time(ended_after))
        rows = self.db.all(sql, (self.db.own_machine, *bindings))
        return [CommittedSession(*row) for row in rows]

    def folders_since(self, since: datetime) -> list[str]:
        sql = "select distinct cwd from sessions where git_state is not null and git_at >= ?"
        return [cwd for (cwd,) in self.db.all(sql, (format_time(since),)) if cwd]

    def put_fate(self, uid: str, state: str, note: str | None, when: datetime) -> None:
        with self.db.transaction():
            sql = "update sessions set git_state = ?, git_note = ?, git_at = ? where uid = ?"
            self.db.execute(sql, (state, note, format_time(when), uid))

    def redact(self, session: int, cleaner: Cleaner) -> int:
        """Run newer redaction rules over a digest; return the number of changes."""
        row = self.db.one(
            "select made_at, length, hash, body from digests where session = ?", (session,)
        )
        if row is None:
            return 0
        digest = unpack_digest(*row)
        clean = clean_digest(digest, cleaner.text)
        if clean == digest:
            return 0
        assert clean.made_at is not None
        self.write(session, clean, clean.made_at)
        self.db.execute(
            "update sessions set outcome_evidence = ? where number = ?",
            (evidence_of(clean), session),
        )
        return 1
