"""What a batch adds to each session: rows, segments, links and a digest. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from hashlib import blake2b
from typing import Any

from msgspec.structs import force_setattr

from ..adapters import Facts
from ..model import Digest, SessionEvent
from ..store import Delta, StreamState
from ..store.facts import update_facts
from ..store.natives import native_hash
from ..store.rows import make_row
from ..store.segments import pack
from ..timeline import Tally

EMPTY = b"\0"
"""The content hash of nothing. Not b"", which marks a block without a reading of its own."""


class DeltaBuilder:
    """Collects what a batch adds to one session."""

    def __init__(self, uid: str, facts: Facts, state: StreamState | None) -> None:
        self.uid, self.state = uid, state
        self.facts = update_facts(state.facts if state else None, facts)
        self.hash = state.hash if state and state.hash != EMPTY else b""
        self.events: list[SessionEvent] = []
        self.texts: dict[int, str] = {}
        self._rows: list[list[Any]] = []
        self._bodies: list[bytes | None] = []
        self._natives: list[int] = []
        self._links: list[tuple[int, int]] = []
        self._originals: list[tuple[int, int]] = []
        self._twins: list[tuple[int, int]] = []

    def extend_hash(self, event: SessionEvent, body: bytes) -> None:
        """Add an event to the content hash, with its text before redaction.

        The hash is a chain over the events, so that a new event costs no more than itself.
        """
        name = f"{event.seq}\0{event.kind}\0{event.native_id}\0".encode("utf-8", "replace")
        self.hash = blake2b(self.hash + name + body, digest_size=16).digest()

    def add(
        self,
        flavor: str,
        event: SessionEvent,
        text: str,
        body: bytes,
        link: str | None,
        original: str | None,
        twin: str | None = None,
    ) -> None:
        """Add an event. `link` is the native id of a parent in an earlier batch."""
        rows, copied, named = self._rows, None, None
        if link is not None:
            self._links.append((len(rows), native_hash(flavor, link)))
        if original is not None:
            copied = native_hash(flavor, original)
            self._originals.append((len(rows), copied))
        if twin is not None:
            named = native_hash(flavor, twin)
            self._twins.append((len(rows), named))
        native = event.native_id
        self._natives.append(native_hash(flavor, native) if native is not None else 0)
        self.events.append(event)
        rows.append(make_row(event, event.seq, event.parent_seq, copied, named))
        self._bodies.append(body)
        self.texts[event.seq] = text

    @cached_property
    def tally(self) -> Tally:
        """The totals of the session, once all events are added."""
        return (self.state.tally if self.state else Tally()).add(self.events)

    def build(self, digest: Digest | None) -> Delta:
        """Return the delta, packed for the store."""
        tail = self.state.tail if self.state else None
        # Packing sets in each row where its body is, so it comes before the rows are copied.
        segments = pack(self._rows, self._bodies, tail) if self._rows else []
        return Delta(
            session_uid=self.uid,
            facts=self.facts,
            tally=self.tally,
            hash=self.hash or EMPTY,
            rows=[tuple(row) for row in self._rows],
            segments=segments,
            natives=self._natives,
            links=self._links,
            originals=self._originals,
            has_place=self.state is None or _place(self.facts) != _place(self.state.facts),
            twins=self._twins,
            digest=digest,
        )


def _place(facts: Facts) -> tuple[str | None, ...]:
    return facts.cwd, facts.repo, facts.linked_repo


class ParentLinks:
    """Finds the parents of events by their native ids."""

    def __init__(self, followed: Mapping[str, str | None]) -> None:
        self._followed = followed
        self._named: dict[str, SessionEvent] = {}

    def link(self, event: SessionEvent, parent: str | None) -> str | None:
        """Set the parent of an event if it is in this batch; else return the parent's native id."""
        if parent is None:
            return None
        if parent in self._followed:
            parent = self._followed[parent]
        above = self._named.get(parent) if parent is not None else None
        if above is None:
            return parent
        if above.session_uid == event.session_uid:
            # Nobody else has the event yet, so it is changed and not copied.
            force_setattr(event, "parent_seq", above.seq)
        return None

    def add(self, event: SessionEvent, native: str | None, original: str | None) -> None:
        """Remember an event by its native ids, as they were before redaction."""
        if native is not None and native not in self._named:
            self._named[native] = event
        if original is not None and original not in self._named:
            self._named[original] = event


def follow_aliases(aliases: Mapping[str, str | None]) -> dict[str, str | None]:
    """Return for each record without an event the native id of the event that its chain leads to.

    No record is followed twice. A chain that leads back to itself leads to None.
    """
    targets: dict[str, str | None] = {}
    for first in aliases:
        chain: list[str] = []
        at: str | None = first
        while at is not None and at in aliases and at not in targets:
            targets[at] = None
            chain.append(at)
            at = aliases[at]
        targets |= dict.fromkeys(chain, targets.get(at, at) if at is not None else None)
    return targets
