"""Plan what a batch changes in a database, from what that has already. Knows no database.

`plan` is given a batch and what is known of it (`known.Known`), and returns `Changes`: rows to
add, none of which is there yet, and rows to change. It notes in `Known` what it plans, so that the
batches of a group are planned one after the other without asking the database in between.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

import msgspec

from ..errors import StoreError
from ..model import BLOCK, SCHEMA_VERSION, Digest
from .calls import hash_of
from .changes import CallChange, Changes, NewSegment, Totals
from .copies import Copies
from .deltas import renumber
from .digest_rows import digest_columns
from .known import (
    LATEST,
    Age,
    File,
    Known,
    KnownCall,
    KnownSession,
    Place,
    Stream,
    age_of,
    originals_first,
    source_key,
)
from .numbering import Renumbering, absolute, numbers_of, rows_in
from .rows import FLAGS, GONE, PARENT, REST, SEQ, outside
from .totals import add_up
from .values import Batch, Delta, Put

MAX_SEGMENTS = 1 << 20
"""Maximum number of segments of a session."""


def plan(batch: Batch, known: Known, now: datetime, machine: str | None = None) -> Changes:
    """Return what a batch changes. `machine` is that of sessions whose source names none."""
    return _Plan(batch, known, now, machine).run()


def outranked_sources(batch: Batch, known: Known) -> list[tuple[int, int]]:
    """Return (session, source) of sources with a worse rank than the batch.

    They are to be demoted before the batch is planned, because both may have the same native ids.
    """
    source = known.sources[source_key(batch)]
    if source.offset != batch.since:
        return []
    found = []
    for delta in batch.deltas:
        session, rank = known.sessions.get(delta.session_uid), delta.facts.rank
        if session is None or rank is None or not delta.rows or _is_forgotten(delta, known):
            continue
        if session.number in known.renumberings:
            continue
        others = session.ranks(source.number)
        if all(other >= rank for other in others.values()):
            found += [(session.number, n) for n, other in others.items() if other > rank]
    return found


def _is_forgotten(delta: Delta, known: Known) -> bool:
    facts = delta.facts
    return delta.session_uid in known.tombstones or (
        facts.relation == "subagent" and facts.parent_uid in known.tombstones
    )


class _Plan:
    """The plan of one batch. Methods are in the order in which they are called."""

    def __init__(self, batch: Batch, known: Known, now: datetime, machine: str | None) -> None:
        self.batch, self.known, self.when, self.machine = batch, known, now, machine
        self.source = known.sources[source_key(batch)]
        self.changes = Changes(batch=batch, source=self.source, when=now, put=Put(sessions=set()))
        self.new: dict[int, Delta] = {}
        """Sessions that this batch creates, by number."""
        self.stale: set[tuple[int, int]] = set()

    def run(self) -> Changes:
        changes, batch = self.changes, self.batch
        if self.source.offset != batch.since:
            changes.is_repeated = True
            return changes
        is_forgotten = False
        counts: list[bool] = []
        for delta in originals_first(batch):
            if _is_forgotten(delta, self.known):
                is_forgotten = True
                changes.put.forgotten += len(delta.rows)
            elif delta.rows or delta.session_uid in self.known.sessions:
                counts.append(self.add(delta))
        is_outranked = bool(counts) and not any(counts)
        self.add_aliases()
        self.add_calls()
        self.add_source(keep=not is_forgotten and not is_outranked)
        if is_outranked:  # Nothing will ever be derived from them.
            changes.drop_records = True
            self.source.records.clear()
        self.mark_stale_copies()
        self.add_totals()
        self.return_evicted()
        return changes

    # ── one session ───────────────────────────────────────────────────────────────────────────────
    def add(self, delta: Delta) -> bool:
        """Add a delta to its session. Return False if another source of the session has a better
        rank, which then counts alone."""
        known, source = self.known, self.source.number
        session = known.sessions.get(delta.session_uid) or self.add_session(delta)
        again = known.renumberings.get(session.number)
        if again is None and self._is_outranked(delta, session):
            self.changes.put.copies += len(delta.rows)
            return False
        is_unread = session.number in known.unread
        is_first = self.batch.since == 0 or is_unread
        blocks = session.last_reading(source)
        # A batch that only says something of the session (a new title) needs no numbers of its own,
        # unless they would count anew.
        if (is_first and again is None and (is_unread or delta.rows)) or not blocks:
            blocks = [self.add_block(session)]
        known.unread.discard(session.number)
        delta = self.set_copies_apart(delta, session, None if is_first else blocks[0])
        while delta.rows and delta.rows[-1][SEQ] >= len(blocks) * BLOCK:
            blocks.append(self.add_block(session))
        home = blocks[0]
        if again is not None:
            delta, blocks, home = self.renumber(delta, session, blocks, again)
        self.write(self.link(delta, session, blocks), session, blocks, home)
        self.changes.put.events += len(delta.rows)
        self.changes.put.sessions.add(delta.session_uid)
        return True

    def add_session(self, delta: Delta) -> KnownSession:
        number = self.known.new_numbers.pop(delta.session_uid)
        session = KnownSession(
            number=number,
            uid=delta.session_uid,
            next_segment=number << 20,
        )
        self.known.add_session(session)
        self.new[number] = delta
        return session

    def _is_outranked(self, delta: Delta, session: KnownSession) -> bool:
        rank = delta.facts.rank
        return rank is not None and any(
            other < rank for other in session.ranks(self.source.number).values()
        )

    def add_block(self, session: KnownSession) -> int:
        stream = session.add_block(self.source.number)
        self.changes.streams[session.number, stream.block] = stream
        self.source.sessions.add(session.number)
        return stream.block

    def set_copies_apart(self, delta: Delta, session: KnownSession, block: int | None) -> Delta:
        """Leave out what the session has, and refer to what happened in another one. `block` is
        that of the stream which the delta continues."""
        copies = Copies(delta, session.number, self.known, self._age(delta, session))
        tally = None if block is None else session.streams[block].tally
        tail = self.known.tails.get((session.number, self.source.number))
        rest = copies.without(tally, tail if block is not None else None)
        self.changes.put.copies += copies.count
        self.stale |= copies.stale
        # A source that was found shorter may grow to what it was.
        blocks = {stream.block for stream in session.of_source(self.source.number)}
        for at, now in copies.list_returned(blocks) if copies.again else ():
            self.changes.events_again.append((at.flags & ~GONE, now, at.session, at.seq))
        return rest

    def _age(self, delta: Delta, session: KnownSession) -> Age:
        """Return the age of the session with the delta in it."""
        parent = delta.facts.parent_uid or session.declared_parent
        again = self.known.renumberings.get(session.number)
        if again is not None and again.age is not None:
            return self.known.age_below(parent, again.age)
        parts = session.parts(but=self.source.number)
        since, reached, _ = own = age_of([*parts, (delta.facts, delta.tally)])
        if self.batch.source.mtime_ns < 0:  # It goes on, and its end is not known yet.
            own = (LATEST if since == reached else since), LATEST, 0
        return self.known.age_below(parent, own)

    def renumber(
        self, delta: Delta, session: KnownSession, blocks: list[int], again: Renumbering
    ) -> tuple[Delta, list[int], int]:
        """Give events the numbers that they had. Return the delta, its blocks, and the one that has
        its totals."""
        if again.block is None and again.fits(delta, blocks):
            again.used.update(numbers_of(delta, blocks))
            return delta, blocks, blocks[0]
        if again.block is None:
            again.block = self.add_block(session)
            for stream in session.of_source(self.source.number):
                if stream.hash:
                    stream.hash = b""
                    self.change_stream(session, stream)
        delta = renumber(delta, again.numbers, again.used, again.block)
        return delta, list(range(again.block + 1)), again.block

    def link(self, delta: Delta, session: KnownSession, blocks: list[int]) -> Delta:
        """Find the parents that are not in the batch. One that comes later in the stream is no
        parent."""
        rows = list(delta.rows)
        for n, parent in delta.links:
            seq = self.known.place_in(session.number, parent)
            if seq is None:
                at = self.known.aliases.get((self.source.number, parent))
                seq = at[1] if at is not None and at[0] == session.number else None
            row = rows[n]
            if seq is not None and seq < absolute(row[SEQ], blocks):
                rows[n] = (*row[:PARENT], outside(seq), *row[PARENT + 1 :])
        return msgspec.structs.replace(delta, rows=rows) if delta.links else delta

    def write(self, delta: Delta, session: KnownSession, blocks: list[int], home: int) -> None:
        """Write the rows, native ids, segments and totals of a delta."""
        number, changes = session.number, self.changes
        rows = rows_in(number, delta, blocks)
        changes.events += rows
        for h, row in zip(delta.natives, rows, strict=True):
            self.add_native(h, row)
        for n, h in (*delta.originals, *delta.twins):
            self.add_native(h, rows[n])
        for segment in delta.segments:
            first, last = absolute(segment.first_seq, blocks), absolute(segment.last_seq, blocks)
            id_, is_old = session.add_segment(first)
            if id_ >= (number << 20) + MAX_SEGMENTS:
                raise StoreError("a session has more than a million segments")
            if is_old:
                changes.replaced_segments.append(id_)
            changes.segments.append(NewSegment(id_, number, first, last, segment))
        stream = session.streams[home]
        stream.fill(delta)
        self.change_stream(session, stream)
        if rows:
            session.last_seq = max(session.last_seq, rows[-1][SEQ + 1])

    def add_native(self, h: int, row: list[Any]) -> None:
        """Note which event a native id is; `row` begins with its session."""
        places = self.known.natives.get(h, ())
        session, seq = row[0], row[SEQ + 1]
        if not h or any(at.session == session for at in places):
            return
        self.changes.natives.append((h, session, seq))
        self.known.natives[h] = (*places, Place(session, seq, row[FLAGS + 1], row[REST + 1]))

    def change_stream(self, session: KnownSession, stream: Stream) -> None:
        key = session.number, stream.block
        if key not in self.changes.streams:
            self.changes.changed_streams[key] = stream

    # ── the rest of the batch ─────────────────────────────────────────────────────────────────────
    def add_aliases(self) -> None:
        """Note which events are meant by records that gave none."""
        known, source = self.known, self.source
        found: dict[int, tuple[int, int]] = {}
        for h, target in self.batch.aliases:
            places = [at[:2] for at in known.natives.get(target, ()) if at[0] in source.sessions]
            at = min(places, default=None) or known.aliases.get((source.number, target))
            if at is not None and (source.number, h) not in known.aliases:
                found.setdefault(h, at)
        self.changes.aliases += [(source.number, h, *at) for h, at in found.items()]
        known.aliases.update({(source.number, h): at for h, at in found.items()})

    def add_calls(self) -> None:
        """Store the merged calls, without those of forgotten sessions, which have no session to
        belong to."""
        known, changes = self.known, self.changes
        for kept in self.batch.calls:
            session, h = known.sessions.get(kept.call.session_uid), hash_of(kept.call)
            if session is None:
                continue
            seq = known.seq_of(session, kept.event) if kept.event else None
            change = CallChange(kept, session.number, kept.call.seq if seq is None else seq)
            changes.called_sessions.add(session.number)
            before = known.calls.get(h)
            if before is None:
                changes.calls.append(change)
                known.calls[h] = KnownCall(kept, session.number, session.uid, change.seq)
            else:
                # What was counted for one session may now count for another.
                changes.called_sessions.add(before.session)
                changes.changed_calls.append(change)
                known.calls[h] = KnownCall(None, session.number, session.uid, change.seq)

    def add_source(self, *, keep: bool) -> None:
        """Move the position of the source, and keep its native records."""
        batch, source, changes = self.batch, self.source, self.changes
        if keep:
            first = batch.records[0][0] if batch.records else 0
            for record in batch.records if source.has_records_before(first) else ():
                is_old = record[0] in source.records
                (changes.changed_records if is_old else changes.records).append(
                    (source.number, *record)
                )
                source.records[record[0]] = record[1]
            skips = dict.fromkeys((skip.offset, skip.reason) for skip in batch.skips)
            changes.skips += [(source.number, *skip) for skip in skips if skip not in source.skips]
            source.skips.update(skips)
        totals = source.merged if batch.since else {}
        source.merged = totals | {
            word: totals.get(word, 0) + count for word, count in batch.merged.items()
        }
        source.offset = batch.position.offset
        old = self.known.files.get(source.number)
        missing_at = old.missing_at if old is not None and batch.is_gone else None
        self.known.files[source.number] = File(batch.source.path, batch.source.size, missing_at)
        if source.is_new:
            changes.new_source = self._source_row()
            source.is_new = False

    def _source_row(self) -> dict[str, Any]:
        batch, at = self.batch, self.batch.position
        return dict(
            number=self.source.number, agent=batch.source.agent, path=batch.source.path,
            root=batch.source.root, machine=batch.source.machine, size=batch.source.size,
            mtime_ns=batch.source.mtime_ns, inode=batch.source.inode, offset=at.offset,
            head=at.head, tail=at.tail, records=at.records, carry=batch.carry,
            adapter_version=batch.adapter_version, redact_version=batch.redact_version,
            merged=msgspec.json.encode(self.source.merged).decode(),
            discovered_at=self.changes.now, synced_at=self.changes.now,
        )  # fmt: skip

    def mark_stale_copies(self) -> None:
        """Have the sources of what turned out to be copies derived again. The one being put sees to
        it itself."""
        for number, block in sorted(self.stale):
            stream = self.known.by_number[number].streams.get(block)
            if stream is not None and stream.source != self.source.number:
                self.changes.stale_sources.append(stream.source)
                self.changes.put.to_rederive += 1

    # ── sessions as a whole ───────────────────────────────────────────────────────────────────────
    def add_totals(self) -> None:
        """Write what the sessions of the source add up to, and when these were put."""
        known, changes = self.known, self.changes
        for number in sorted(self.source.sessions):
            session = known.by_number.get(number)
            if session is None:  # The row is lost: `doctor` says so.
                continue
            streams = [session.streams[block] for block in sorted(session.streams)]
            sums = add_up(streams, known.files, session.last_seq)
            if number in self.new:
                changes.sessions.append(self._session_row(session, sums))
            elif sums is not None:
                facts, columns = sums
                changes.totals.append(Totals(number, facts.repo, facts.task_ref, columns))
        numbers = {known.sessions[uid].number for uid in changes.put.sessions}
        changes.updated += sorted(numbers - self.new.keys())

    def _session_row(self, session: KnownSession, sums: Any) -> dict[str, Any]:
        delta, now = self.new[session.number], self.changes.now
        facts, columns = sums if sums is not None else (delta.facts, {})
        row = dict(
            number=session.number, uid=session.uid, flavor=self.batch.source.agent,
            native_session_id=delta.facts.native_session_id,
            machine=self.batch.source.machine or self.machine,
            source_path=self.batch.source.path, discovered_at=now, ingested_at=now,
            schema_version=SCHEMA_VERSION, repo=facts.repo, task_ref=facts.task_ref,
            analyzed_at=None, analyzed_seq=None, analyzed_hash=None, outcome="unknown",
            outcome_level="unknown", outcome_by="", outcome_evidence=None, quality=None,
            git_state=None,
        )  # fmt: skip
        row |= columns
        digest = delta.digest
        if digest is not None and self._fits(digest, row):
            row |= digest_columns(digest, self.when)
            row["git_state"] = "open" if digest.commits else None
            self.changes.digests.append((session.number, digest))
            self.changes.put.digests += 1
        return row

    def _fits(self, digest: Digest, row: dict[str, Any]) -> bool:
        """Return True if a digest covers its whole session.

        Not if some events are copies, nor if the session has several sources.
        """
        covers = digest.covers
        return (
            not self.changes.put.copies
            and digest.session_uid == row["uid"]
            and len(self.known.sources_of.get(row["uid"], ())) <= 1
            and (covers.last_seq, covers.content_hash) == (row["last_seq"], row["content_hash"])
        )

    def return_evicted(self) -> None:
        """Bring back evicted sessions that got new events.

        Their other sources are to be read again first. If one of them is missing, the session stays
        evicted, because a digest of the rest would know less than the present one.
        """
        changes, own = self.changes, self.source.number
        written = {delta.session_uid for delta in self.batch.deltas if delta.rows}
        for uid in sorted(changes.put.sessions):
            session = self.known.sessions[uid]
            if not session.is_evicted:
                continue
            if uid in written and not session.cut:
                changes.returned.append(session.number)
                session.is_evicted = False
                continue
            changes.still_evicted.append(session.number)
            # Another title, or less, is nothing that would be missing.
            can_return = uid in written and not any(
                part.has_gone or (part.is_missing and (part.source != own or self.batch.is_gone))
                for part in session.cut
            )
            if can_return:
                changes.cut_sources += [part.source for part in session.cut]
                changes.put.to_rederive += len(session.cut)
