"""Read, normalize, redact, pack, digest what is whole: the part of the journey that needs no store,
run in the worker processes.

One job is a part of one source; the result is a `Batch` for the store to put. Pure but for reading
the source.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from functools import cached_property
from hashlib import blake2b
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import force_setattr

from . import adapters, timeline
from .adapters import Adapter, Facts, Normalized, Position, Record, Source
from .config import Config, Quality, make_home
from .errors import ReadError
from .model import SUMMARY_LENGTH, Call, Digest, Session, SessionEvent, shorten
from .pricing.ledger import merge
from .redact.engine import Redactor, rules_from_config, without_noted
from .redact.key import load_key
from .store import Batch, Kept, Piece, Resume, StreamState
from .store.cleaning import clean_carry, clean_facts, redact_record
from .store.facts import update_facts
from .store.natives import hidden_id, native_hash
from .store.rows import make_row
from .store.segments import cut_words, pack, pack_records  # fmt: skip
from .timeline import PAUSE, Tally

BATCH_BYTES = 8 * 1024 * 1024
"""How much of a source is taken at a time. Memory is a small multiple of it in each process; a
larger one is not faster."""

CALL_WORDS = ("provider", "model", "tier", "region", "request_id")
"""What a call says in words, but for what it is known by."""

EMPTY = b"\0"
"""The content hash of nothing. Not b"", which marks a block without a reading of its own."""


class Setting(msgspec.Struct, kw_only=True):
    """What a worker must know that is the same for every job."""

    key_path: str
    rules: list[dict[str, Any]] = []
    redact: bool = True
    raw: bool = True
    limits: Quality = msgspec.field(default_factory=Quality)
    quiet_s: float = PAUSE.total_seconds()


class Job(msgspec.Struct, kw_only=True):
    """A source, and where to go on in it. When the source itself is gone, `kept` are its records
    out of the store, all of them, and `until` the position up to which they reach."""

    source: Source
    is_new: bool = False
    """Nothing of it is stored."""
    since: Position | None = None
    resume: Resume = msgspec.field(default_factory=Resume)
    kept: list[Record] | None = None
    until: Position | None = None
    cut_words: bool = False
    """The store takes the words of a text in its place."""


class Result(msgspec.Struct, kw_only=True):
    """What became of a job. `more` says that the source goes on; `problem` that it could not be
    read."""

    batch: Batch | None = None
    more: bool = False
    problem: str | None = None
    redacted: dict[str, int] = {}


def setting(config: Config, quiet_s: float = PAUSE.total_seconds()) -> Setting:
    """What the configuration says to a worker. Makes the key of the redaction when there is none
    yet. Raises ConfigError when a rule of the user's own is none."""
    key = config.home / "redact.key"
    if config.redact.enabled:
        make_home(config.home)
        load_key(key)
        rules_from_config(config.redact.rules)
    return Setting(
        key_path=str(key),
        rules=config.redact.rules,
        redact=config.redact.enabled,
        raw=config.raw == "keep",
        limits=config.quality,
        quiet_s=quiet_s,
    )


_preparer: Preparer | None = None
"""That of a worker process."""


def begin_work(setting: Setting) -> None:
    """Get a worker process ready."""
    global _preparer
    _preparer = Preparer(setting)


def prepare_in_worker(job: bytes) -> bytes:
    """Do a job in a worker process: from a packed `Job` to a packed `Result`.

    Not pickled: a pickled default is no longer the default itself, and would be stored.
    """
    assert _preparer is not None
    result = _preparer.prepare(msgspec.msgpack.decode(job, type=Job))
    return msgspec.msgpack.encode(result)


class Preparer:
    def __init__(self, setting: Setting) -> None:
        self.setting = setting
        self.redactor: Redactor | None = None
        if setting.redact:
            self.redactor = Redactor(
                load_key(Path(setting.key_path)), rules_from_config(setting.rules)
            )
        self.redact_version = self.redactor.version if self.redactor else ""

    def prepare(self, job: Job) -> Result:
        """Takes the next part of the source. A source that cannot be read is a result too, not an
        exception."""
        since = job.since or Position(offset=0)
        try:
            adapter = adapters.get(job.source.agent)
            lines = iter(job.kept) if job.kept is not None else adapter.read(job.source, job.since)
            records, more = _take(lines, BATCH_BYTES if job.kept is None else None)
            carry = job.resume.carry
            if carry is None and job.since is not None and job.kept is None:
                carry = self._carry_at(adapter, job.source, job.since)
            normalized = adapter.normalize(job.source, records, carry)
            position = _position(adapter, job, since, records)
            if (
                job.since is not None
                and job.kept is None
                and not adapter.follows(job.source, job.since)
            ):
                return Result(
                    problem="it was replaced while it was read; it is read again the next time"
                )
        except ReadError as error:
            return Result(problem=error.reason)
        except Exception as error:
            # An adapter is someone else's code: its failure costs this source, not the sync.
            return Result(
                problem=f"the {job.source.agent} adapter failed: {type(error).__name__}: {error}"
            )
        hits = dict(self.redactor.hits) if self.redactor else {}
        noted: dict[int, dict[str, str]] = {}
        # What is not text is no part of any event: it is neither looked at nor kept.
        slim = adapter.slim
        records = [
            (
                record
                if record.aside is not None or (data := slim(record.data)) is record.data
                else _with(record, data)
            )
            for record in records
        ]
        records = self._clean(records, since.records, noted)
        # Counted in the records alone: an event repeats what its record said.
        found = (
            {kind: n - hits.get(kind, 0) for kind, n in self.redactor.hits.items()}
            if self.redactor
            else {}
        )
        followed = _followed(normalized.aliases)
        # Until its last part is stored, a source is not as it was found (none is of such a time):
        # killed in between, the next sync goes on.
        source = msgspec.structs.replace(job.source, mtime_ns=-1) if more else job.source
        batch = Batch(
            source=source,
            since=since.offset,
            position=position,
            carry=self._clean_carry(normalized.carry),
            adapter_version=adapter.version,
            redact_version=self.redact_version,
            pieces=self._pieces(job, normalized, followed, noted, is_whole=job.is_new and not more),
            aliases=_aliases(job.source.agent, normalized, followed),
            records=pack_records(records, since.records) if self.setting.raw else [],
            merged={self._text(word): count for word, count in normalized.merged.items()},
            skips=normalized.skips,
            size=position.offset - since.offset,
            is_gone=job.kept is not None,
            calls=(
                self._clean_calls(_calls(job.source.agent, normalized))
                if noted
                else _calls(job.source.agent, normalized)
            ),
        )
        return Result(batch=batch, more=more, redacted={kind: n for kind, n in found.items() if n})

    def _clean(
        self, records: list[Record], first: int, noted: dict[int, dict[str, str]]
    ) -> list[Record]:
        """The records as they are kept, that is without secrets, which are `noted` by the number of
        their record. One scan over all their bytes finds the few that are worth a closer look."""
        if self.redactor is None:
            return records
        suspects = frozenset(self.redactor.suspects([record.data for record in records]))
        kept = list(records)
        number = first
        for n, record in enumerate(records):
            # A file beside the source is plain text, and belongs to the record that follows it.
            is_aside = record.aside is not None
            if is_aside or n in suspects or number in noted:
                self.redactor.noted = noted.get(number, {})
                kept[n] = _with(record, redact_record(record.data, self.redactor))
                if kept[n] is not record:
                    noted[number] = self.redactor.noted
            number += not is_aside
        self.redactor.noted = None
        return kept

    # ── events to pieces ──────────────────────────────────────────────────────────────────────────
    def _pieces(
        self,
        job: Job,
        found: Normalized,
        followed: Mapping[str, str | None],
        noted: dict[int, dict[str, str]],
        *,
        is_whole: bool,
    ) -> list[Piece]:
        flavor = job.source.agent
        parts: dict[str, _Part] = {}
        for uid, facts in found.facts.items():
            parts[uid] = _Part(uid, self._clean_facts(facts), job.resume.streams.get(uid))
        named: dict[str, SessionEvent] = {}
        for event, body, parent, original in zip(
            found.events, found.bodies, found.parents, found.originals, strict=True
        ):
            uid, native = event.session_uid, event.native_id
            part = parts[uid]
            data = body.encode("utf-8", "replace")
            # The content hash is a chain over the events, from the text before redaction: covering
            # more costs what is new.
            name = f"{event.seq}\0{event.kind}\0{native}\0".encode("utf-8", "replace")
            part.hash = blake2b(part.hash + name + data, digest_size=16).digest()
            if noted and event.record in noted:
                event, body = self._clean_event(event, body, noted[event.record])
                data = body.encode("utf-8", "replace")
                if native is not None and self._text(native) != native:
                    event = msgspec.structs.replace(event, native_id=hidden_id(flavor, native))
            # The event is known to nobody else yet, hence what is still to be set in it is set, and
            # no copy made.
            if (summary := event.summary) is not None and len(summary) > SUMMARY_LENGTH:
                force_setattr(event, "summary", shorten(summary))
            link = None
            if parent is not None:
                if parent in followed:
                    parent = followed[parent]
                above = named.get(parent) if parent is not None else None
                if above is None:
                    link = parent
                elif above.session_uid == uid:
                    force_setattr(event, "parent_seq", above.seq)
            if native is not None and native not in named:
                named[native] = event
            if original is not None and original not in named:
                named[original] = event
            part.add(flavor, event, body, data, link, original)
        pieces = [part.close(self._digest(part) if is_whole else None) for part in parts.values()]
        if job.cut_words:
            for piece in pieces:
                for segment in piece.segments:
                    cut_words(segment)
        return pieces

    def _digest(self, part: _Part) -> Digest | None:
        """Of a session that is here as a whole and has come to rest, as the store will have it.
        There it would have to be read again."""
        ended_at = part.tally.ended_at or part.facts.written_at
        is_quiet = ended_at is None or datetime.now(UTC) - ended_at > timedelta(
            seconds=self.setting.quiet_s
        )
        if not part.events or not is_quiet:
            return None
        # The digest room compiles a hundred patterns, and a sync with nothing new needs none.
        from .digest.session import make

        total, facts = timeline.merge([part.tally]), part.facts
        try:
            session = Session(
                session_uid=part.uid,
                flavor=part.uid.partition(":")[0],
                native_session_id=facts.native_session_id,
                title=facts.title or total.first_prompt,
                relation=facts.relation,
                cost=total.cost,
                last_seq=total.last_seq,
                content_hash=part.hash.hex(),
            )
            return make(session, part.events, part.texts, self.setting.limits)
        except Exception:
            # Any text may be in a session. What could not be made here is tried again later, and
            # told.
            return None

    def _clean_event(
        self, event: SessionEvent, body: str, noted: dict[str, str]
    ) -> tuple[SessionEvent, str]:
        """The event without the secrets of its record: where the record is taken apart, what gave
        one away may be gone."""
        redact = self.redactor
        assert redact is not None

        def text(text: str) -> str:
            return redact.text(without_noted(text, noted))

        clean = msgspec.structs.replace(
            event,
            summary=event.summary and text(event.summary),
            files=tuple(text(file) for file in event.files),
            cwd=event.cwd and text(event.cwd),
            git_branch=event.git_branch and text(event.git_branch),
            tool=event.tool and text(event.tool),
            model=event.model and text(event.model),
            native=event.native and text(event.native),
            call_id=event.call_id and text(event.call_id),
            refs=tuple(text(ref) for ref in event.refs),
        )
        return clean, text(body)

    def _carry_at(self, adapter: Adapter, source: Source, since: Position) -> bytes | None:
        """What was to be remembered at this position. It left with the text, and follows from all
        that lies before."""
        lines = _before(adapter.read(source, None), since)
        carry, more = None, True
        while more:
            records, more = _take(lines, BATCH_BYTES)
            carry = adapter.normalize(source, records, carry).carry
        return carry and self._clean_carry(carry)

    def _clean_calls(self, calls: list[Kept]) -> list[Kept]:
        """Calls of records of which some hold a secret: it may stand where the model should."""
        return [
            msgspec.structs.replace(
                kept,
                call=self._clean_call(kept.call),
                superseded=tuple(map(self._clean_call, kept.superseded)),
            )
            for kept in calls
        ]

    def _clean_call(self, call: Call) -> Call:
        return msgspec.structs.replace(
            call, **{name: self._text(said) for name in CALL_WORDS if (said := getattr(call, name))}
        )

    def _clean_carry(self, carry: bytes) -> bytes:
        return (
            clean_carry(carry, self.redactor)
            if self.redactor and self.redactor.suspects([carry])
            else carry
        )

    def _text(self, text: str) -> str:
        return self.redactor.text(text) if self.redactor else text

    def _clean_facts(self, facts: Facts) -> Facts:
        return clean_facts(facts, self._text)


class _Part:
    """What a batch adds to one session, while it is being collected."""

    def __init__(self, uid: str, facts: Facts, state: StreamState | None) -> None:
        self.uid, self.state = uid, state
        self.facts = update_facts(state.facts if state else None, facts)
        self.hash = state.hash if state and state.hash != EMPTY else b""
        self.events: list[SessionEvent] = []
        self.rows: list[list[Any]] = []
        self.bodies: list[bytes | None] = []
        self.texts: dict[int, str] = {}
        self.natives: list[int] = []
        self.links: list[tuple[int, int]] = []
        self.originals: list[tuple[int, int]] = []

    def add(
        self,
        flavor: str,
        event: SessionEvent,
        text: str,
        body: bytes,
        link: str | None,
        original: str | None,
    ) -> None:
        rows, copied = self.rows, None
        if link is not None:
            self.links.append((len(rows), native_hash(flavor, link)))
        if original is not None:
            copied = native_hash(flavor, original)
            self.originals.append((len(rows), copied))
        native = event.native_id
        self.natives.append(native_hash(flavor, native) if native is not None else 0)
        self.events.append(event)
        rows.append(make_row(event, event.seq, event.parent_seq, copied))
        self.bodies.append(body)
        self.texts[event.seq] = text

    @cached_property
    def tally(self) -> Tally:
        """Once all events are there."""
        return (self.state.tally if self.state else Tally()).add(self.events)

    def close(self, digest: Digest | None) -> Piece:
        tail = self.state.tail if self.state else None
        segments = pack(self.rows, self.bodies, tail) if self.rows else []
        return Piece(
            session_uid=self.uid,
            facts=self.facts,
            tally=self.tally,
            hash=self.hash or EMPTY,
            rows=[tuple(row) for row in self.rows],
            segments=segments,
            natives=self.natives,
            links=self.links,
            originals=self.originals,
            digest=digest,
        )


def _take(lines: Iterable[Record], limit: int | None) -> tuple[list[Record], bool]:
    """Records up to about `limit` bytes, and whether there may be more."""
    records: list[Record] = []
    size = 0
    for record in lines:
        records.append(record)
        size += len(record.data)
        if limit is not None and size >= limit and record.aside is None:
            return records, True
    return records, False


def _before(lines: Iterable[Record], since: Position) -> Iterator[Record]:
    """The records that lie before the position."""
    left = since.records
    for record in lines if left else ():
        yield record
        left -= record.aside is None
        if not left:
            return


def _with(record: Record, data: bytes) -> Record:
    return record if data is record.data else msgspec.structs.replace(record, data=data)


def _position(adapter: Adapter, job: Job, since: Position, records: list[Record]) -> Position:
    if job.until is not None:
        return job.until
    lines = [record for record in records if record.aside is None]
    if not lines:
        return since
    last = lines[-1]
    end = last.end if last.end >= 0 else last.offset + len(last.data) + 1
    return adapter.position(job.source, end, since.records + len(lines))


def _followed(aliases: Mapping[str, str | None]) -> dict[str, str | None]:
    """By native id of a record without an event, that of the event to which a chain of such records
    leads. None is gone along twice."""
    found: dict[str, str | None] = {}
    for first in aliases:
        chain: list[str] = []
        at: str | None = first
        while at is not None and at in aliases and at not in found:
            found[at] = None  # What leads back to itself leads nowhere.
            chain.append(at)
            at = aliases[at]
        found |= dict.fromkeys(chain, found.get(at, at) if at is not None else None)
    return found


def _aliases(
    flavor: str, found: Normalized, followed: Mapping[str, str | None]
) -> list[tuple[int, int]]:
    named = {event.native_id for event in found.events}
    targets = [
        (alias, target)
        for alias in found.aliases
        if (target := followed[alias]) is not None and alias not in named
    ]
    return [(native_hash(flavor, alias), native_hash(flavor, target)) for alias, target in targets]


def _calls(flavor: str, found: Normalized) -> list[Kept]:
    """The calls of a batch, one for each key."""
    events = {
        (call.key, call.session_uid, call.ts): event
        for call, event in found.calls
        if event is not None
    }
    kept = []
    for one in merge(call for call, _ in found.calls):
        event = events.get((one.call.key, one.call.session_uid, one.call.ts))
        kept.append(
            Kept(
                call=one.call,
                superseded=one.superseded,
                event=native_hash(flavor, event) if event is not None else 0,
            )
        )
    return kept
