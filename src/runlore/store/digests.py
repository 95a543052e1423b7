"""What a store must answer about digests. A digest outlives what it was made from."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Protocol

import msgspec

from ..model import Digest, SessionEvent

if TYPE_CHECKING:
    from .asked import Filter
    from .contract import Row


class SessionError(msgspec.Struct, frozen=True, gc=False):
    """One error of one session. `fixed_seq` is None when it never went away."""

    uid: str
    agent: str
    repo: str | None
    fingerprint: str
    kind: str
    name: str
    template: str
    count: int
    first_seq: int
    last_seq: int
    first_at: str | None
    last_at: str | None
    tool: str | None
    fixed_seq: int | None
    how: str | None
    confidence: float


class Digests(Protocol):
    """The part of a `Store` that is about digests."""

    def timeline(self, uid: str) -> tuple[list[SessionEvent], Mapping[int, str]]:
        """All events of a session but for what an eviction has left of some, and their bodies by
        seq but for those of copies: what a digest is made from, read in one go. Bodies are unpacked
        as they are looked at, so a damaged one is noticed then. Events have no `payload_ref`."""

    def stored(self, uid: str) -> tuple[Sequence[Row], Sequence[Row]]:
        """All rows of a session and all its segments as they are stored, of which `bodies.whole`
        makes the same, here or elsewhere."""

    def digest(self, uid: str) -> Digest | None:
        """The digest of a session, also when it covers less than what is stored now. Raises
        StoreError when it is damaged."""

    def digests(self, chosen: Filter) -> Iterator[Digest]:
        """Those of the sessions that the filter chooses, in the order of their uids."""

    def digests_of_evicted(self, word: str) -> Iterator[tuple[int, Digest]]:
        """The numbers and digests of evicted sessions in which this stands, in whatever case. What
        is damaged is left out."""

    def stale_digests(
        self, version: int, quiet_since: datetime, limit: int | None = None
    ) -> list[str]:
        """The uids of sessions, newest first, that have no digest, one made by older rules than
        `version`, or one that covers less than what is stored; and in which nothing happened, or
        nothing was put, after `quiet_since`. Of what was evicted there is nothing to make a digest
        from but what came since, once, and of other authors' sessions they make them themselves."""

    def fits(self, digest: Digest) -> bool:
        """Whether it covers just what is stored of its session."""

    def put_digest(self, digest: Digest, when: datetime) -> None:
        """Keeps a digest instead of the one that is there, with what it says of its session and of
        its errors. One by newer rules of the same content stays. A session that is not there has
        none."""

    def drop_digests(self, uids: Sequence[str]) -> None:
        """Removes the digests of these sessions, so that the next sync makes them again."""

    def errors_seen(
        self, chosen: Filter, fingerprints: Sequence[str] | None = None
    ) -> list[SessionError]:
        """The errors of the sessions that the filter chooses, all or those of some fingerprints, in
        no order."""

    def spent_on(self, chosen: Filter, fingerprints: Sequence[str]) -> dict[str, float]:
        """By fingerprint, what the API calls cost in USD that were made from where an error was
        first seen to where it was gone, or seen last. What went on beside it is in it, and calls
        between two errors are counted for both."""

    def templates(self) -> list[tuple[str, str, str, str, int]]:
        """(fingerprint, kind, name, template, sessions) of every error that was ever seen."""
