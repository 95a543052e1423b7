"""What leaves a store by policy, and how, in words that both databases understand."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from datetime import datetime
from typing import Any

import msgspec

from ..model import Digest, format_time
from . import DAMAGED
from ._sql_digests import UNCOVERED
from ._sql_forget import Forgetter
from ._sql_put import INSERT_EVENT
from .pieces import SEQ, copied, pack_one, without_body
from .retention import Bulk, Marks, Weight

_AT_A_TIME = 100
"""Sessions that are evicted in one transaction: readers see it go on, and killed halfway nothing is half gone."""


class Evictor(Forgetter):
    """The part of a store that lets go."""

    @abstractmethod
    def used_bytes(self) -> int:
        """See `Store`."""

    @abstractmethod
    def shrink(self) -> None:
        """See `Store`."""

    def evicted(self) -> set[str]:
        return {uid for (uid,) in self._all("select uid from sessions where evicted_at is not null")}

    def weights(self) -> list[Weight]:
        sql = (
            f"select uid, parent_uid, coalesce(name, title), ended_at, events, pinned, not {UNCOVERED} and analyzed_at is not null,"
            " evicted_at is not null, coalesce((select sum(length(body)) from segments g where g.session = number), 0)"
            " from sessions order by ended_at nulls first, uid"
        )
        shown = self._shown_elsewhere()
        found = []
        for uid, parent, title, ended, events, pinned, covered, evicted, size in self._all(sql):
            found.append(Weight(uid, parent, title, ended, events, bool(pinned), bool(covered), bool(evicted), uid in shown, int(size)))
        return found

    def _shown_elsewhere(self) -> set[str]:
        """The sessions that others refer to which are still there. Only what has a native id in common with another, or has a parent, can
        have copies."""
        near = self._sharing() | {number for (number,) in self._all("select number from sessions where parent_uid is not null")}
        here = {number for (number,) in self._all("select number from sessions where evicted_at is null")}
        sql = 'select rest from events where session = ? and "offset" is null'
        origins = {copied(rest)[0] for number in near & here for (rest,) in self._all(sql, (number,))}
        return {origin.rpartition("#")[0] for origin in origins if origin}

    def bulks(self) -> list[Bulk]:
        sql = "select r.source, q.path, sum(length(r.body)) from records r join sources q on q.number = r.source group by 1, 2"
        sizes = {source: (path, int(size)) for source, path, size in self._all(sql)}
        sessions: dict[int, list[str]] = {}
        oldest: dict[int, str] = {}
        for source, uid, ended in self._all("select s.source, t.uid, t.ended_at from streams s join sessions t on t.number = s.session"):
            sessions.setdefault(source, []).append(uid)
            oldest[source] = max(oldest.get(source, ""), ended or "")
        order = sorted(sizes, key=lambda source: (oldest.get(source, ""), source))
        return [Bulk(source, *sizes[source], tuple(sorted(set(sessions.get(source, []))))) for source in order]

    def drop_records(self, sources: Sequence[int]) -> None:
        with self.transaction():
            self.db.executemany("delete from records where source = ?", [(source,) for source in sources])

    def evict(self, uids: Sequence[str], when: datetime) -> None:
        for at in range(0, len(uids), _AT_A_TIME):
            with self.transaction():
                for uid in uids[at : at + _AT_A_TIME]:
                    self._evict(uid, when)

    def _evict(self, uid: str, when: datetime) -> None:
        session = self._number(uid)
        if session is None:
            return
        digest = self.digest(uid)
        cited = cited_in(digest) if digest is not None else {}
        (last,) = self._one("select coalesce(max(seq), -1) from events where session = ?", (session,))
        rows: list[list[Any]] = []
        bodies: list[bytes | None] = []
        # The last one stays, whatever it said: it tells how many there were.
        for seq in sorted({*cited, last}):
            for row in self._rows(session, seq, seq):
                rows.append(without_body(row))
                bodies.append(cited[seq].encode("utf-8", "replace") if seq in cited else None)
        self._drop_segments("session = ?", (session,))
        self.db.execute("delete from events where session = ?", (session,))
        if rows:
            segment = pack_one(rows, bodies)
            self.db.executemany(INSERT_EVENT, [(session, *row) for row in rows])
            self._write_segment(session, rows[0][SEQ], rows[-1][SEQ], segment)
        # Watermarks are set in their order. What no digest covered is still known by `analyzed_seq`, which then says nothing.
        sql = "update sessions set evicted_at = ?1, analyzed_at = coalesce(analyzed_at, ?1) where number = ?2"
        self.db.execute(sql, (format_time(when), session))
        bare = (
            "delete from records where source in (select source from streams where session = ?) and not exists (select 1 from streams t"
            " join sessions s on s.number = t.session where t.source = records.source and s.evicted_at is null)"
        )
        self.db.execute(bare, (session,))

    def bring_back(self, uids: Sequence[str]) -> list[str]:
        back = []
        with self.transaction():
            for uid in uids:
                session = self._number(uid)
                sources = self._all(
                    "select distinct q.number, q.missing_at from streams s join sources q on q.number = s.source where s.session = ?",
                    (session,),
                )
                if sources and all(missing is None for _, missing in sources):
                    rows = [(DAMAGED, source) for source, _ in sources]
                    self.db.executemany("update sources set adapter_version = ? where number = ?", rows)
                    back.append(uid)
        return back

    def mark(self, uid: str, marks: Marks) -> None:
        with self.transaction():
            tags = msgspec.json.encode(marks.tags).decode()
            sql = "update sessions set pinned = ?, name = ?, tags = ?, note = ? where uid = ?"
            self.db.execute(sql, (int(marks.pinned), marks.name, tags, marks.note, uid))


def cited_in(digest: Digest) -> dict[int, str]:
    """The events that a digest quotes, with what it quotes of them."""
    quoted = [*digest.decisions, *digest.interventions, *digest.corrections, *digest.excerpts]
    found = {moment.seq: moment.text for moment in quoted if moment.text}
    if digest.goal and digest.goal_seq is not None:
        found[digest.goal_seq] = digest.goal
    return found
