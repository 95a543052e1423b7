"""Removal from a store: by policy, because a user wants it forgotten, or because of a secret."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from itertools import groupby

import msgspec

from ...adapters import Facts
from ...model import BLOCK, Digest, TestRun, format_time
from ...timeline import Tally
from ..cleaning import Cleaner, clean_carry, clean_facts, redact_record
from ..rows import (
    CUT,
    GONE,
    LENGTH,
    OFFSET,
    OUTRANKED,
    SEQ,
    copied,
    cut_down,
    read_row,
    redact_row,
    with_origin,
    without_body,
)
from ..segments import pack_one, pack_records, unpack, unpack_records
from ..values import DAMAGED, Bulk, Weight
from .database import Database
from .digests import HAS_MORE, SqlDigests
from .index import SqlIndex
from .ingest import SqlIngest
from .ledger import SqlLedger
from .put import INSERT_EVENT
from .sessions import UNCOVERED, SqlSessions
from .totals import SqlTotals

_AT_A_TIME = 100
"""Number of sessions that are evicted in one transaction.

Readers see the progress, and a process that is killed leaves no session half evicted.
"""


class SqlRetention(ABC):
    """See `Retention` in the contracts."""

    def __init__(
        self,
        db: Database,
        sessions: SqlSessions,
        index: SqlIndex,
        ledger: SqlLedger,
        totals: SqlTotals,
        digests: SqlDigests,
        ingest: SqlIngest,
    ) -> None:
        self.db, self.sessions, self.index = db, sessions, index
        self.ledger, self.totals = ledger, totals
        self.digests, self.ingest = digests, ingest

    @abstractmethod
    def purge(self) -> None:
        """See `Retention`."""

    @abstractmethod
    def drop_sessions(self, numbers: list[int]) -> None:
        """Drop all that is stored of these sessions, and the native records of their sources."""

    def redact_again(self, source: int, version: str, cleaner: Cleaner) -> int:
        with self.db.transaction():
            changed = self.ledger.terms.redact_models(source, cleaner)
            for session, block in self.db.all(
                "select session, block from streams where source = ?", (source,)
            ):
                changed += self._redact_block(session, block, cleaner)
            for (session,) in self.db.all(
                "select distinct session from streams where source = ?", (source,)
            ):
                changed += self.digests.redact(session, cleaner)
            for first, length, body in self.db.all(
                "select first, length, body from records where source = ?", (source,)
            ):
                records = unpack_records(body, length)
                clean = [
                    msgspec.structs.replace(record, data=redact_record(record.data, cleaner))
                    for record in records
                ]
                if clean != records:
                    self.db.execute(
                        "delete from records where source = ? and first = ?", (source, first)
                    )
                    packed = pack_records(clean, first)
                    self.db.executemany(
                        "insert into records values (?, ?, ?, ?, ?)",
                        ((source, *part) for part in packed),
                    )
            (carry,) = self.db.one("select carry from sources where number = ?", (source,))
            carry = carry and clean_carry(carry, cleaner)
            self.db.execute(
                "update sources set redact_version = ?, carry = ? where number = ?",
                (version, carry, source),
            )
            self.totals.update_source(source)
            for number, repo, task in self.db.all(
                "select distinct number, repo, task_ref from sessions join streams on session ="
                " number where source = ?",
                (source,),
            ):
                self.db.execute(
                    "update sessions set repo = ?, task_ref = ? where number = ?",
                    (repo and cleaner.text(repo), task and cleaner.text(task), number),
                )
        return changed

    def _redact_block(self, session: int, block: int, cleaner: Cleaner) -> int:
        text = cleaner.text
        span = (session, block * BLOCK, (block + 1) * BLOCK - 1)
        facts, tally = self.db.one(
            "select facts, tally from streams where session = ? and block = ?", (session, block)
        )
        clean = clean_facts(msgspec.msgpack.decode(facts, type=Facts), text)
        totals = msgspec.msgpack.decode(tally, type=Tally)
        if totals.first_prompt:
            totals = msgspec.structs.replace(totals, first_prompt=text(totals.first_prompt))
        self.db.execute(
            "update streams set facts = ?, tally = ? where session = ? and block = ?",
            (msgspec.msgpack.encode(clean), msgspec.msgpack.encode(totals), session, block),
        )
        changed = 0
        sql = (
            "select first_seq, last_seq, length, hash, body from segments where session = ? and"
            " first_seq between ? and ?"
        )
        for first, last, length, hash_, body in self.db.all(sql, span):
            rows = [list(row) for row in self.sessions.rows(session, first, last)]
            data = unpack(body, length, hash_)
            bodies: list[bytes | None] = []
            dirty = 0
            for n, row in enumerate(rows):
                better = redact_row(row, cleaner)
                if better is not None:
                    rows[n] = better
                    dirty += 1
                body_text = (
                    None
                    if row[OFFSET] is None
                    else data[row[OFFSET] : row[OFFSET] + row[LENGTH]].decode("utf-8", "replace")
                )
                cleaned = None if body_text is None else text(body_text)
                dirty += cleaned != body_text
                bodies.append(None if cleaned is None else cleaned.encode("utf-8", "replace"))
            if not dirty:
                continue
            changed += dirty
            again = pack_one(rows, bodies)
            self.db.execute(
                "delete from events where session = ? and seq between ? and ?",
                (session, first, last),
            )
            self.db.executemany(INSERT_EVENT, ((session, *row) for row in rows))
            self.index.write(session, first, last, again)
        return changed

    def forget(self, uids: Iterable[str], when: datetime) -> None:
        names = list(uids)
        with self.db.transaction():
            stamp = format_time(when)
            self.db.executemany(
                "insert or ignore into tombstones values (?, ?)", ((uid, stamp) for uid in names)
            )
            gone = {
                uid: number for uid in names if (number := self.sessions.number(uid)) is not None
            }
            shared = self._sharing_numbers()
            for uid, number in gone.items():
                if number in shared or self.db.one(
                    "select 1 from sessions where parent_uid = ?", (uid,)
                ):
                    self._forget_copies(uid, number)
            self.drop_sessions(list(gone.values()))
            self.ledger.terms.drop_unused_models()
        self.purge()

    def _sharing_numbers(self) -> set[int]:
        """Return the sessions that share a native id: only those can have copies of each other."""
        sql = (
            "select distinct session from natives where hash in (select hash from natives group by"
            " hash having count(*) > 1)"
        )
        return {number for (number,) in self.db.all(sql)}

    def _forget_copies(self, uid: str, session: int) -> None:
        """Empty the events that other sessions copied from this one. Their places stay."""
        for number, seq in self._copies(uid, session):
            row = with_origin(self.sessions.rows(number, seq, seq)[0], None, "[forgotten]")
            self.db.execute("delete from events where session = ? and seq = ?", (number, seq))
            self.db.execute(INSERT_EVENT, (number, *row))

    def copies_of(self, uids: Iterable[str]) -> list[str]:
        gone = {uid: number for uid in uids if (number := self.sessions.number(uid)) is not None}
        found = {
            number for uid, session in gone.items() for number, _ in self._copies(uid, session)
        } - set(gone.values())
        return sorted(
            uid
            for (uid,) in (
                self.db.one("select uid from sessions where number = ?", (n,)) for n in found
            )
        )

    def sharing(self) -> list[set[str]]:
        several = "select hash from natives group by hash having count(*) > 1"
        sql = (
            "select hash, uid from natives join sessions on number = session where hash in"
            f" ({several})"
        )
        groups: dict[int, set[str]] = {}
        for name, uid in self.db.all(sql):
            groups.setdefault(name, set()).add(uid)
        return [set(group) for group in sorted({tuple(sorted(group)) for group in groups.values()})]

    def _copies(self, uid: str, session: int) -> list[tuple[int, int]]:
        """Return (session, seq) of the events of other sessions that refer to this one.

        They are in sessions that share a native id with it, or were forked from it.
        """
        near = {
            number
            for places in self.ingest.find_natives(
                [h for h, _ in self.ingest.native_hashes(session)]
            ).values()
            for number, _ in places
        }
        near |= {
            number
            for (number,) in self.db.all("select number from sessions where parent_uid = ?", (uid,))
        }
        rows = (
            (number, row)
            for number in near - {session}
            for row in self.sessions.rows(number, 0, None)
            if row[OFFSET] is None
        )
        return [
            (number, row[SEQ])
            for number, row in rows
            if (read_row("toy:x", row).origin or "").startswith(uid + "#")
        ]

    @abstractmethod
    def used_bytes(self) -> int:
        """See `Retention`."""

    @abstractmethod
    def shrink(self, *, most_left: bool = False) -> None:
        """See `Retention`."""

    def evicted(self) -> set[str]:
        return {
            uid for (uid,) in self.db.all("select uid from sessions where evicted_at is not null")
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
        for uid, parent, title, ended, events, pinned, covered, evicted, size in self.db.all(sql):
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
        """Return the sessions to which others refer that are not evicted.

        Only sessions that share a native id, or have a parent, can have copies.
        """
        near = self._sharing_numbers() | {
            number
            for (number,) in self.db.all("select number from sessions where parent_uid is not null")
        }
        here = {
            number
            for (number,) in self.db.all("select number from sessions where evicted_at is null")
        }
        sql = 'select rest from events where session = ? and "offset" is null'
        origins = {
            copied(rest)[0] for number in near & here for (rest,) in self.db.all(sql, (number,))
        }
        return {origin.rpartition("#")[0] for origin in origins if origin}

    def bulks(self) -> list[Bulk]:
        sql = (
            "select r.source, q.path, sum(length(r.body)) from records r join sources q on q.number"
            " = r.source group by 1, 2"
        )
        sizes = {source: (path, int(size)) for source, path, size in self.db.all(sql)}
        sessions: dict[int, list[str]] = {}
        oldest: dict[int, str] = {}
        for source, uid, ended in self.db.all(
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
        with self.db.transaction():
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
            with self.db.transaction():
                for uid in uids[at : at + _AT_A_TIME]:
                    if (session := self.sessions.number(uid)) is not None:
                        self._evict_one(session, uid, when)
                        self._strip_sources(session, is_appended)

    def _evict_one(self, session: int, uid: str, when: datetime) -> None:
        digest = self.digests.get(uid)
        cited = cited_in(digest) if digest is not None else {}
        # The last one of each block stays, whatever it said: it tells how many there were, and that
        # the block is cut. So does one that is no longer in its source, if there is any: it tells
        # that the block cannot come back.
        gone = f"min(case when flags & {GONE} != 0 then seq end)"
        sql = (
            f"select max(seq), {gone} from events where session = ? and flags & {OUTRANKED} = 0"
            f" group by seq / {BLOCK}"
        )
        seqs = sorted(
            {
                *cited,
                *(seq for told in self.db.all(sql, (session,)) for seq in told if seq is not None),
            }
        )
        rows = [without_body(row) for seq in seqs for row in self.sessions.rows(session, seq, seq)]
        self.index.drop("session = ?", (session,))
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
            self.index.write(session, part[0][SEQ], part[-1][SEQ], segment)
        # Watermarks are set in their order. What no digest covered is still known by
        # `analyzed_seq`, which then says nothing. A clock may have been ahead of ours when the
        # others were set.
        marks = self.db.one(
            "select ingested_at, analyzed_at from sessions where number = ?", (session,)
        )
        sql = (
            "update sessions set evicted_at = ?1, analyzed_at = coalesce(analyzed_at, ?1) where"
            " number = ?2"
        )
        self.db.execute(sql, (max(format_time(when), *filter(None, marks)), session))

    def _strip_sources(self, session: int, is_appended: Callable[[str, str], bool] | None) -> None:
        """Drop the records and aliases of those sources of a session whose events have all left."""
        bare = (
            "select distinct q.number, q.agent, q.path from streams b join sources q on q.number ="
            " b.source where b.session = ? and not exists (select 1 from streams t join sessions"
            " on sessions.number = t.session where t.source = q.number and (evicted_at is null or"
            f" {HAS_MORE}))"
        )
        found = self.db.all(bare, (session,))
        sources = [(number,) for number, _, _ in found]
        self.db.executemany("delete from records where source = ?", sources)
        # What comes back is read from its beginning.
        self.db.executemany("delete from aliases where source = ?", sources)
        known = [
            (number,) for number, agent, path in found if is_appended and is_appended(agent, path)
        ]
        self.db.executemany("update sources set carry = null where number = ?", known)

    def bring_back(self, uids: Sequence[str]) -> list[str]:
        back = []
        with self.db.transaction():
            for uid in uids:
                session = self.sessions.number(uid)
                if session is None or not self.ingest.is_evicted(session):
                    continue  # Nothing is missing: derived again, it could only become less.
                sources = self.db.all(
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
                    and not self.db.one(lost, (session,))
                ):
                    rows = [(DAMAGED, source) for source, _ in sources]
                    self.db.executemany(
                        "update sources set adapter_version = ? where number = ?", rows
                    )
                    back.append(uid)
        return back


def cited_in(digest: Digest) -> dict[int, str]:
    """Return the events that a digest quotes, with the quoted text.

    A session is found by these when its text has left.
    """
    found = {ran.seq: f"$ {ran.command}" for ran in digest.commands}
    found |= {run.seq: f"$ {run.command}\n{_counts(run)}".strip() for run in digest.tests}
    found |= {request.seq: request.text for request in digest.pull_requests}
    found |= {fix.steps[0].seq: fix.diff for fix in digest.fixes if fix.diff}
    found |= {request.seq: request.text for request in digest.requests}
    if digest.result is not None:
        found[digest.result.seq] = digest.result.text
    quoted = [*digest.decisions, *digest.interventions, *digest.corrections, *digest.excerpts]
    found |= {moment.seq: moment.text for moment in quoted if moment.text}
    if digest.goal and digest.goal_seq is not None:
        found[digest.goal_seq] = digest.goal
    # What else is quoted of the same event may be another part of it, or another commit.
    for commit in digest.commits:
        line = f"[{commit.sha}] {commit.subject}".removeprefix("[] ").rstrip()
        found[commit.seq] = f"{line}\n{found[commit.seq]}" if commit.seq in found else line
    return found


def _counts(run: TestRun) -> str:
    return ", ".join(
        f"{count} {word}"
        for word in ("passed", "failed", "skipped")
        if (count := getattr(run, word)) is not None
    )
