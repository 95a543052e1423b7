"""What leaves a store by policy, and how, in words that both databases understand."""

from __future__ import annotations

import os
from abc import abstractmethod
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from itertools import groupby

import msgspec

from ..model import BLOCK, Digest, TestRun, format_time
from ..timeline import Tally
from ._sql_digests import HAS_MORE
from ._sql_forget import Forgetter
from ._sql_list import UNCOVERED
from ._sql_put import INSERT_EVENT, Short, add
from .contract import DAMAGED, Batch, Put
from .pieces import ASIDE, CUT, GONE, SEQ, copied, cut_down, pack_one, without_body
from .retention import Bulk, Marks, Weight

_AT_A_TIME = 100
"""Sessions that are evicted in one transaction: readers see it go on, and killed halfway nothing is
half gone."""


class Evictor(Forgetter):
    """The part of a store that lets go."""

    @abstractmethod
    def used_bytes(self) -> int:
        """See `Store`."""

    @abstractmethod
    def shrink(self, *, most_left: bool = False) -> None:
        """See `Store`."""

    def evicted(self) -> set[str]:
        return {
            uid for (uid,) in self._all("select uid from sessions where evicted_at is not null")
        }

    def weights(self) -> list[Weight]:
        sql = (
            "select uid, parent_uid, coalesce(name, title), ended_at, events, pinned, not"
            f" {UNCOVERED} and analyzed_at is not null, evicted_at is not null and not {HAS_MORE},"
            " coalesce((select sum(length(body)) from segments g where g.session = number), 0)"
            " from sessions order by ended_at nulls first, uid"
        )
        shown = self._shown_elsewhere()
        found = []
        for uid, parent, title, ended, events, pinned, covered, evicted, size in self._all(sql):
            found.append(
                Weight(
                    uid,
                    parent,
                    title,
                    ended,
                    events,
                    bool(pinned),
                    bool(covered),
                    bool(evicted),
                    uid in shown,
                    int(size),
                )
            )
        return found

    def _shown_elsewhere(self) -> set[str]:
        """The sessions that others refer to which are still there. Only what has a native id in
        common with another, or has a parent, can have copies."""
        near = self._sharing() | {
            number
            for (number,) in self._all("select number from sessions where parent_uid is not null")
        }
        here = {
            number
            for (number,) in self._all("select number from sessions where evicted_at is null")
        }
        sql = 'select rest from events where session = ? and "offset" is null'
        origins = {
            copied(rest)[0] for number in near & here for (rest,) in self._all(sql, (number,))
        }
        return {origin.rpartition("#")[0] for origin in origins if origin}

    def bulks(self) -> list[Bulk]:
        sql = (
            "select r.source, q.path, sum(length(r.body)) from records r join sources q on q.number"
            " = r.source group by 1, 2"
        )
        sizes = {source: (path, int(size)) for source, path, size in self._all(sql)}
        sessions: dict[int, list[str]] = {}
        oldest: dict[int, str] = {}
        for source, uid, ended in self._all(
            "select s.source, t.uid, t.ended_at from streams s join sessions t on t.number ="
            " s.session"
        ):
            sessions.setdefault(source, []).append(uid)
            oldest[source] = max(oldest.get(source, ""), ended or "")
        order = sorted(sizes, key=lambda source: (oldest.get(source, ""), source))
        return [
            Bulk(source, *sizes[source], tuple(sorted(set(sessions.get(source, [])))))
            for source in order
        ]

    def drop_records(self, sources: Sequence[int]) -> None:
        with self.transaction():
            self.db.executemany(
                "delete from records where source = ?", [(source,) for source in sources]
            )

    def evict(
        self,
        uids: Sequence[str],
        when: datetime,
        is_appended: Callable[[str, str], bool] | None = None,
    ) -> None:
        for at in range(0, len(uids), _AT_A_TIME):
            with self.transaction():
                for uid in uids[at : at + _AT_A_TIME]:
                    if (session := self._number(uid)) is not None:
                        self._evict(session, uid, when)
                        self._strip_sources(session, is_appended)

    def _evict(self, session: int, uid: str, when: datetime) -> None:
        digest = self.digest(uid)
        cited = cited_in(digest) if digest is not None else {}
        # The last one of each block stays, whatever it said: it tells how many there were, and that
        # the block is cut. So does one that is no longer in its source, if there is any: it tells
        # that the block cannot come back.
        gone = f"min(case when flags & {GONE} != 0 then seq end)"
        sql = (
            f"select max(seq), {gone} from events where session = ? and flags & {ASIDE} = 0 group"
            f" by seq / {BLOCK}"
        )
        seqs = sorted(
            {
                *cited,
                *(seq for told in self._all(sql, (session,)) for seq in told if seq is not None),
            }
        )
        rows = [without_body(row) for seq in seqs for row in self._rows(session, seq, seq)]
        self._drop_segments("session = ?", (session,))
        self.db.execute("delete from events where session = ?", (session,))
        # One segment each: a block comes back alone.
        for _, block in groupby(rows, key=lambda row: row[SEQ] // BLOCK):
            part = list(block)
            segment = pack_one(
                part,
                [
                    cited[row[SEQ]].encode("utf-8", "replace") if row[SEQ] in cited else None
                    for row in part
                ],
            )
            for row in part:
                cut_down(row)
            self.db.executemany(INSERT_EVENT, [(session, *row) for row in part])
            self._write_segment(session, part[0][SEQ], part[-1][SEQ], segment)
        # Watermarks are set in their order. What no digest covered is still known by
        # `analyzed_seq`, which then says nothing. A clock may have been ahead of ours when the
        # others were set.
        marks = self._one(
            "select ingested_at, analyzed_at from sessions where number = ?", (session,)
        )
        sql = (
            "update sessions set evicted_at = ?1, analyzed_at = coalesce(analyzed_at, ?1) where"
            " number = ?2"
        )
        self.db.execute(sql, (max(format_time(when), *filter(None, marks)), session))

    def _strip_sources(self, session: int, is_appended: Callable[[str, str], bool] | None) -> None:
        """Drops what is kept of those sources of a session of which nothing is there any more."""
        bare = (
            "select distinct q.number, q.agent, q.path from streams b join sources q on q.number ="
            " b.source where b.session = ? and not exists (select 1 from streams t join sessions"
            " on sessions.number = t.session where t.source = q.number and (evicted_at is null or"
            f" {HAS_MORE}))"
        )
        found = self._all(bare, (session,))
        sources = [(number,) for number, _, _ in found]
        self.db.executemany("delete from records where source = ?", sources)
        # What comes back is read from its beginning.
        self.db.executemany("delete from aliases where source = ?", sources)
        known = [
            (number,) for number, agent, path in found if is_appended and is_appended(agent, path)
        ]
        self.db.executemany("update sources set carry = null where number = ?", known)

    def _return_evicted(self, told: set[str], done: Put) -> None:
        """What was evicted and has got something is back. Not before the rest of it is: other
        sources of it are to be read again, and when one of them is missing it stays evicted, for a
        digest of what is left would know less than the one that it has."""
        cut = (
            f"select q.number, q.missing_at, max(e.flags & {GONE}) from events e join streams s on"
            f" s.session = e.session and s.block = e.seq / {BLOCK} join sources q on q.number ="
            f" s.source where e.session = ? and e.flags & {CUT} != 0 group by 1, 2"
        )
        # A clock may have been ahead when it was analyzed, as for `_evict`.
        latest = "case when analyzed_at > ingested_at then analyzed_at else ingested_at end"
        stays = f"update sessions set evicted_at = {latest} where number = ?"
        for uid in sorted(done.sessions):
            session = self._number(uid)
            if session is None or not self._is_evicted(session):
                continue
            if uid not in told:  # Another title, or less: nothing that would be missing.
                self.db.execute(stays, (session,))
                continue
            others = self._all(cut, (session,))
            if not others:
                sql = (
                    "update sessions set evicted_at = null, analyzed_at = case when analyzed_seq is"
                    " not null then analyzed_at end"
                )
                self.db.execute(f"{sql} where number = ?", (session,))
                continue
            self.db.execute(stays, (session,))
            if all(missing is None and not is_gone for _, missing, is_gone in others):
                rows = [(DAMAGED, other) for other, _, _ in others]
                self.db.executemany("update sources set adapter_version = ? where number = ?", rows)
                done.overtaken += len(others)

    def return_whole(self, source: int, batches: Iterable[Batch], *, is_proved: bool) -> Put | None:
        cut = (
            "select 1 from streams s join events e on e.session = s.session and e.seq between"
            f" s.block * {BLOCK} and (s.block + 1) * {BLOCK} - 1 where s.source = ? and e.flags & ?"
            " = ? limit 1"
        )
        if self._one(cut, (source, CUT | GONE, CUT | GONE)):
            return None
        wanted: set[tuple[int, int]] = set()
        # Also of its sessions that are still there: what they lack afterwards would be lost.
        told = "select session, block, tally from streams where source = ?"
        for session, block, tally in [] if is_proved else self._all(told, (source,)):
            sql = "select hash, seq from natives where session = ? and seq between ? and ?"
            known = self._all(sql, (session, block * BLOCK, (block + 1) * BLOCK - 1))
            if len({seq for _, seq in known}) < msgspec.msgpack.decode(tally, type=Tally).events:
                return None  # What has no native id cannot be known again.
            wanted |= {(session, h) for h, _ in known}
        try:
            with self._step():
                done = self.rederive(source, batches)
                here = {
                    (session, h)
                    for h, places in self._known([h for _, h in wanted]).items()
                    for session, _ in places
                }
                if not wanted <= here:
                    raise Short
        except Short:
            return None
        return done

    def part_with(self, source: int, batches: Iterable[Batch], when: datetime) -> Put:
        done = Put(sessions=set())
        with self._step():
            (path,) = self._one("select path from sources where number = ?", (source,))
            aside = os.path.join(
                os.path.dirname(path), f"until {when:%Y%m%dT%H%M%S%f}Z", os.path.basename(path)
            )
            sql = "update sources set path = ?, inode = 0, missing_at = ? where number = ?"
            self.db.execute(sql, (aside, format_time(when), source))
            for batch in batches:
                add(done, self.put(batch))
            self._fold_all(source)
        return done

    def bring_back(self, uids: Sequence[str]) -> list[str]:
        back = []
        with self.transaction():
            for uid in uids:
                session = self._number(uid)
                if session is None or not self._is_evicted(session):
                    continue  # Nothing is missing: derived again, it could only become less.
                sources = self._all(
                    "select distinct q.number, q.missing_at from streams s join sources q on"
                    " q.number = s.source where s.session = ? and s.hash != x''",
                    (session,),
                )
                lost = (
                    f"select 1 from events where session = ? and flags & {CUT | GONE} ="
                    f" {CUT | GONE} limit 1"
                )
                if (
                    sources
                    and all(missing is None for _, missing in sources)
                    and not self._one(lost, (session,))
                ):
                    rows = [(DAMAGED, source) for source, _ in sources]
                    self.db.executemany(
                        "update sources set adapter_version = ? where number = ?", rows
                    )
                    back.append(uid)
        return back

    def mark(self, uid: str, marks: Marks) -> None:
        with self.transaction():
            tags = msgspec.json.encode(marks.tags).decode()
            sql = "update sessions set pinned = ?, name = ?, tags = ?, note = ? where uid = ?"
            self.db.execute(sql, (int(marks.pinned), marks.name, tags, marks.note, uid))


def cited_in(digest: Digest) -> dict[int, str]:
    """The events that a digest quotes, with what it says of them: by these a session is found when
    its text has left."""
    found = {ran.seq: f"$ {ran.command}" for ran in digest.commands}
    found |= {run.seq: f"$ {run.command}\n{_counts(run)}".strip() for run in digest.tests}
    found |= {request.seq: request.text for request in digest.pull_requests}
    found |= {fix.steps[0].seq: fix.diff for fix in digest.fixes if fix.diff}
    quoted = [*digest.decisions, *digest.interventions, *digest.corrections, *digest.excerpts]
    found |= {moment.seq: moment.text for moment in quoted if moment.text}
    if digest.goal and digest.goal_seq is not None:
        found[digest.goal_seq] = digest.goal
    # What else is quoted of the same event may be another part of it, or another commit.
    for commit in digest.commits:
        line = f"[{commit.sha}] {commit.subject}".rstrip()
        found[commit.seq] = f"{line}\n{found[commit.seq]}" if commit.seq in found else line
    return found


def _counts(run: TestRun) -> str:
    return ", ".join(
        f"{count} {word}"
        for word in ("passed", "failed", "skipped")
        if (count := getattr(run, word)) is not None
    )
