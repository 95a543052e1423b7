"""Prepare a part of a source for the store: read → normalize → redact → rows → segments.

This is the part of a sync that needs no store, so worker processes run it. A `Job` is a part of one
source, and its `Result` has a `Batch` for the store to put. Pure except for reading the source.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime, timedelta

import msgspec
from msgspec.structs import force_setattr

from .. import adapters, timeline
from ..adapters import Adapter, Normalized, Position, Record, Source
from ..adapters.shared.base import OUTSIDE, leads_out
from ..config import Config, Quality
from ..digest import session as digest_session
from ..errors import ReadError, Rejected
from ..model import SUMMARY_LENGTH, Digest, Session, shorten
from ..pricing.ledger import merge
from ..store import Batch, Delta, LedgerCall, Resume
from ..store.natives import native_hash
from ..store.segments import add_tokens, pack_records
from ..text import words
from ..text.task_ref import task_ref
from ..text.titles import weak_title
from ..timeline import PAUSE
from .deltas import DeltaBuilder, ParentLinks, follow_aliases
from .redaction import Cleaner, RedactSetting, Secrets, redact_setting, replace_names

BATCH_BYTES = 8 * 1024 * 1024
"""The part of a source that is read at a time. Memory is a small multiple of it in each process; a
larger one is not faster."""

MAX_BATCH_RECORDS = 20_000
"""Records that are read at a time: short ones take more memory than their bytes."""

MIN_RECORD_BYTES = 64
MIN_LATER_RECORD_BYTES = 96
MAX_SHORT_RECORDS = 20_000
"""A part with MAX_BATCH_RECORDS is rejected if they are shorter than MIN_RECORD_BYTES on average,
or, after the first MAX_SHORT_RECORDS, than MIN_LATER_RECORD_BYTES. In real long transcripts the
average is 800 bytes or more; the records of a live log may have little more than 100."""


class Setting(msgspec.Struct, kw_only=True):
    """Settings of a worker, the same for every job."""

    redact: RedactSetting | None = None
    raw: bool = True
    """Native records are stored."""
    limits: Quality = msgspec.field(default_factory=Quality)
    quiet_s: float = PAUSE.total_seconds()


class Job(msgspec.Struct, kw_only=True):
    """A source, and where to continue in it.

    When the source itself is gone, `stored_records` are its records from the store, and `until` is
    the position up to which they reach.
    """

    source: Source
    is_new: bool = False
    """Nothing of it is stored."""
    since: Position | None = None
    resume: Resume = msgspec.field(default_factory=Resume)
    stored_records: list[Record] | None = None
    until: Position | None = None
    with_tokens: bool = False
    """The store takes the words of a text in its place."""

    @property
    def start(self) -> Position:
        return self.since or Position(offset=0)


class Result(msgspec.Struct, kw_only=True):
    """The result of a job.

    `more` is True if the source continues; `problem` is why it could not be read.
    """

    batch: Batch | None = None
    more: bool = False
    problem: str | None = None
    is_rejected: bool = False
    """The problem stays as long as the source and its adapter are the same."""
    redacted: dict[str, int] = {}


class Reading(msgspec.Struct, kw_only=True):
    """A part of a source as its adapter reads it."""

    adapter: Adapter
    records: list[Record]
    normalized: Normalized
    position: Position
    more: bool


def prepare_setting(config: Config, quiet_s: float = PAUSE.total_seconds()) -> Setting:
    """Return the setting of a worker. Raises ConfigError for a wrong redaction rule."""
    return Setting(
        redact=redact_setting(config),
        raw=config.raw == "keep",
        limits=config.quality,
        quiet_s=quiet_s,
    )


# ── in a worker process ───────────────────────────────────────────────────────────────────────────
_preparer: Preparer | None = None


def start_worker(setting: Setting) -> None:
    """Make a worker process ready."""
    global _preparer
    _preparer = Preparer(setting)


def prepare_in_worker(job: bytes) -> bytes:
    """Do a job in a worker process: from a packed `Job` to a packed `Result`.

    They are not pickled: a pickled default is no longer the default itself, and would be stored.
    """
    assert _preparer is not None
    try:
        result = _preparer.prepare(msgspec.msgpack.decode(job, type=Job))
        return msgspec.msgpack.encode(result)
    except MemoryError:  # The result itself was too much.
        return msgspec.msgpack.encode(out_of_memory())


def out_of_memory() -> Result:
    """Return the result for a source that needs more memory than there is."""
    return Result(problem="there is not enough memory to read it", is_rejected=True)


class Preparer:
    """Prepares jobs, one after another."""

    def __init__(self, setting: Setting) -> None:
        self.setting = setting
        self._cleaner = Cleaner(setting.redact)

    def prepare(self, job: Job) -> Result:
        """Prepare the next part of a source. A source that cannot be read gives a problem."""
        try:
            return self._prepare(job)
        except MemoryError:
            return out_of_memory()

    def _prepare(self, job: Job) -> Result:
        try:
            reading = self._read(job)
        except ReadError as error:
            return Result(problem=error.reason, is_rejected=isinstance(error, Rejected))
        except MemoryError:
            raise
        except Exception as error:
            # An adapter is someone else's code: its failure costs this source, not the sync.
            return Result(
                problem=f"the {job.source.agent} adapter failed: {type(error).__name__}: {error}"
            )
        hits = self._cleaner.hits
        records, secrets = self._redact(job, reading)
        # Only hits in records count, because events repeat what their record has.
        redacted = {
            kind: count - hits.get(kind, 0)
            for kind, count in self._cleaner.hits.items()
            if count != hits.get(kind, 0)
        }
        batch = self._build_batch(job, reading, records, secrets)
        return Result(batch=batch, more=reading.more, redacted=redacted)

    # ── read and normalize ────────────────────────────────────────────────────────────────────────
    def _read(self, job: Job) -> Reading:
        adapter = adapters.get(job.source.agent)
        if job.stored_records is not None:
            records, more = job.stored_records, False
        elif leads_out(job.source.path, job.source.root):
            raise Rejected(job.source.path, OUTSIDE)
        else:
            found = adapter.read(job.source, job.since)
            records, more = read_part(job.source, found, job.start.records)
        is_continued = job.since is not None and job.stored_records is None
        carry = job.resume.carry
        if carry is None and is_continued:
            carry = self._carry_at(adapter, job.source, job.start)
        normalized = adapter.normalize(job.source, records, carry)
        position = _end_position(adapter, job, records)
        if is_continued and not adapter.follows(job.source, job.start):
            problem = "it was replaced while it was read; it is read again the next time"
            raise ReadError(job.source.path, problem)
        return Reading(
            adapter=adapter, records=records, normalized=normalized, position=position, more=more
        )

    def _carry_at(self, adapter: Adapter, source: Source, since: Position) -> bytes | None:
        """Return the adapter's carry at a position, from all records before it.

        The carry of an evicted source is not stored any more.
        """
        records_before = _before(adapter.read(source, None), since)
        carry, more = None, True
        while more:
            records, more = read_part(source, records_before)
            carry = adapter.normalize(source, records, carry).carry
        return carry and self._cleaner.clean_carry(carry)

    # ── redact ────────────────────────────────────────────────────────────────────────────────────
    def _redact(self, job: Job, reading: Reading) -> tuple[list[Record], Secrets]:
        """Return the records as they are stored, and the secrets that they had."""
        # Data that is not text is no part of any event: it is neither searched nor stored.
        slim = reading.adapter.slim
        records = [
            record
            if record.sidecar is not None or (data := slim(record.data)) is record.data
            else msgspec.structs.replace(record, data=data)
            for record in reading.records
        ]
        return self._cleaner.clean_records(records, job.start.records)

    # ── rows and segments ─────────────────────────────────────────────────────────────────────────
    def _build_batch(
        self, job: Job, reading: Reading, records: list[Record], secrets: Secrets
    ) -> Batch:
        normalized, start = reading.normalized, job.start
        followed = follow_aliases(normalized.aliases)
        calls = _calls(job.source.agent, normalized)
        return Batch(
            # Until its last part is stored, a source has a time that none has: if the sync is
            # killed in between, the next one continues.
            source=(
                msgspec.structs.replace(job.source, mtime_ns=-1) if reading.more else job.source
            ),
            since=start.offset,
            position=reading.position,
            carry=self._cleaner.clean_carry(normalized.carry),
            adapter_version=reading.adapter.version,
            redact_version=self._cleaner.version,
            deltas=self._build_deltas(job, reading, followed, secrets),
            aliases=_aliases(job.source.agent, normalized, followed),
            records=pack_records(records, start.records) if self.setting.raw else [],
            merged={
                self._cleaner.clean_text(word): count for word, count in normalized.merged.items()
            },
            skips=normalized.skips,
            size=reading.position.offset - start.offset,
            is_gone=job.stored_records is not None,
            calls=self._cleaner.clean_calls(calls),
        )

    def _build_deltas(
        self, job: Job, reading: Reading, followed: Mapping[str, str | None], secrets: Secrets
    ) -> list[Delta]:
        """Return what the part adds to each session."""
        # One loop, because it runs once for each event.
        normalized, flavor = reading.normalized, job.source.agent
        deltas = {
            uid: DeltaBuilder(uid, self._cleaner.clean_facts(facts), job.resume.streams.get(uid))
            for uid, facts in normalized.facts.items()
        }
        links, twins = ParentLinks(followed), normalized.twins
        unclean = self._cleaner.unclean_names(normalized.events)
        for event, body, parent, original in zip(
            normalized.events,
            normalized.bodies,
            normalized.parents,
            normalized.originals,
            strict=True,
        ):
            delta, native = deltas[event.session_uid], event.native_id
            data = body.encode("utf-8", "replace")
            delta.extend_hash(event, data)
            if secrets and event.record in secrets:
                event, body = self._cleaner.clean_event(flavor, event, body, secrets[event.record])
                data = body.encode("utf-8", "replace")
            elif unclean:
                event = replace_names(flavor, event, unclean)
            if (summary := event.summary) is not None and len(summary) > SUMMARY_LENGTH:
                # Nobody else has the event yet, so it is changed and not copied.
                force_setattr(event, "summary", shorten(summary))
            link = links.link(event, parent)
            links.add(event, native, original)
            twin = twins.get(native) if twins and native is not None else None
            delta.add(flavor, event, body, data, link, original, twin)
        is_whole = job.is_new and not reading.more
        built = [
            delta.build(self._digest(delta) if is_whole else None) for delta in deltas.values()
        ]
        if job.with_tokens:
            for segment in (segment for delta in built for segment in delta.segments):
                add_tokens(segment)
        return built

    def _digest(self, delta: DeltaBuilder) -> Digest | None:
        """Return the digest of a whole session that came to rest, as the store will have it.

        Building it later would mean to read the session again from the store.
        """
        ended_at = delta.tally.ended_at or delta.facts.written_at
        is_quiet = ended_at is None or datetime.now(UTC) - ended_at > timedelta(
            seconds=self.setting.quiet_s
        )
        if not delta.events or not is_quiet:
            return None
        total, facts = timeline.merge([delta.tally]), delta.facts
        try:
            session = Session(
                session_uid=delta.uid,
                flavor=delta.uid.partition(":")[0],
                native_session_id=facts.native_session_id,
                title=facts.title or weak_title(total.first_prompt),
                cwd=facts.cwd,
                git_branch=facts.git_branch,
                task_ref=facts.task_ref or task_ref(facts.git_branch, total.first_prompt),
                relation=facts.relation,
                cost=total.cost,
                last_seq=total.last_seq,
                content_hash=delta.hash.hex(),
            )
            return digest_session.make(session, delta.events, delta.texts, self.setting.limits)
        except Exception:
            # Any text may be in a session. The digest is tried again later, with its problem.
            return None


def read_part(
    source: Source, records: Iterable[Record], done: int = 0
) -> tuple[list[Record], bool]:
    """Return records up to about BATCH_BYTES or MAX_BATCH_RECORDS, and True if there may be more.

    `done` records come before them. Raises Rejected if they are too many for their size.
    """
    part: list[Record] = []
    size = 0
    min_bytes = MIN_RECORD_BYTES if done < MAX_SHORT_RECORDS else MIN_LATER_RECORD_BYTES
    for record in records:
        part.append(record)
        size += len(record.data)
        is_full = len(part) >= MAX_BATCH_RECORDS
        if is_full and size < len(part) * min_bytes:
            reason = f"{len(part):,} records in {words.size(size)} are no transcript"
            raise Rejected(source.path, reason)
        if (is_full or size >= BATCH_BYTES) and record.sidecar is None:
            return part, True
    return part, False


def _before(records: Iterable[Record], since: Position) -> Iterator[Record]:
    """Yield the records before a position."""
    left = since.records
    for record in records if left else ():
        yield record
        left -= record.sidecar is None
        if not left:
            return


def _end_position(adapter: Adapter, job: Job, records: list[Record]) -> Position:
    """Return the position after these records."""
    if job.until is not None:
        return job.until
    own = [record for record in records if record.sidecar is None]
    if not own:
        return job.start
    last = own[-1]
    end = last.end if last.end >= 0 else last.offset + len(last.data) + 1
    return adapter.position(job.source, end, job.start.records + len(own))


def _aliases(
    flavor: str, normalized: Normalized, followed: Mapping[str, str | None]
) -> list[tuple[int, int]]:
    """Return the records without an event, each with the event that it leads to, as hashes."""
    named = {event.native_id for event in normalized.events}
    return [
        (native_hash(flavor, alias), native_hash(flavor, target))
        for alias in normalized.aliases
        if (target := followed[alias]) is not None and alias not in named
    ]


def _calls(flavor: str, normalized: Normalized) -> list[LedgerCall]:
    """Return the calls of a batch, one for each key."""
    events = {
        (call.key, call.session_uid, call.ts): event
        for call, event in normalized.calls
        if event is not None
    }
    calls = []
    for merged in merge(call for call, _ in normalized.calls):
        call = merged.call
        event = events.get((call.key, call.session_uid, call.ts))
        native = native_hash(flavor, event) if event is not None else 0
        calls.append(
            LedgerCall(
                call=call,
                superseded=merged.superseded,
                is_composed=merged.is_composed,
                event=native,
            )
        )
    return calls
