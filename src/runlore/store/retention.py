"""What a store must answer about what may leave it, and how it leaves. What is to leave is decided
elsewhere: see `retain`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Protocol

import msgspec

if TYPE_CHECKING:
    from .contract import Batch, Put


class Weight(msgspec.Struct, frozen=True, gc=False):
    """What a session takes up, and what is to be known before it may leave."""

    uid: str
    parent_uid: str | None
    title: str | None
    ended_at: str | None
    events: int
    is_pinned: bool
    is_covered: bool
    """Whether its digest covers all that is stored of it."""
    is_evicted: bool
    """Whether nothing is there any more that could leave."""
    is_shown_elsewhere: bool
    """Whether a session that has not been evicted refers to what happened here: its text would go
    as well."""
    body_bytes: int
    """What its bodies take, packed."""


class Bulk(msgspec.Struct, frozen=True, gc=False):
    """The native records that are kept of a source, packed, and the sessions that they are of."""

    source: int
    path: str
    size: int
    uids: tuple[str, ...]


class Marks(msgspec.Struct, frozen=True, kw_only=True):
    """What people say of a session."""

    pinned: bool = False
    name: str | None = None
    tags: tuple[str, ...] = ()
    note: str | None = None


class Retention(Protocol):
    """The part of a `Store` that is about leaving it."""

    def used_bytes(self) -> int:
        """How much of the store's file, or of its server's, is in use."""

    def evicted(self) -> set[str]:
        """The uids of the sessions whose events have left."""

    def weights(self) -> list[Weight]:
        """Every session, oldest first."""

    def bulks(self) -> list[Bulk]:
        """The sources of which native records are kept, oldest first."""

    def drop_records(self, sources: Sequence[int]) -> None:
        """Drops the native records of these sources. What is derived from them stays."""

    def evict(
        self,
        uids: Sequence[str],
        when: datetime,
        is_appended: Callable[[str, str], bool] | None = None,
    ) -> None:
        """Drops the events of these sessions, and all that is kept of sources with no other. Their
        digests, calls and numbers stay, and so do the events that a digest cites, cut down to what
        it keeps of them: they can be found and cited as before. `is_appended` says by agent and
        path of which sources the carry can be had again: it leaves as well."""

    def return_whole(self, source: int, batches: Iterable[Batch], *, is_proved: bool) -> Put | None:
        """Derives a source again of which something was evicted, that is there again then. None,
        and nothing has changed, when not all that was read from it comes again. `is_proved`: it
        begins with what was read from it, whatever ids that had."""

    def part_with(self, source: int, batches: Iterable[Batch], when: datetime) -> Put:
        """The same where not all comes again: what was read is of a source that is missing from now
        on, under a path of its own, and is known as it was; the batches are those of a new source.
        What is in both is not kept twice."""

    def bring_back(self, uids: Sequence[str]) -> list[str]:
        """Marks the sources of these, so that the next sync derives what was evicted again. Those
        of them that were, and whose sources are there."""

    def shrink(self, *, most_left: bool = False) -> None:
        """Gives back the room of what was dropped; where most of what was there has left, also what
        lies between the rest."""

    def mark(self, uid: str, marks: Marks) -> None:
        """What people say of a session from now on."""
