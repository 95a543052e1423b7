"""The contracts of a store that keep it in shape: what leaves it, what is checked, what is copied.

See `contracts.py` for those of daily use.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Protocol

from ..adapters import Facts
from .values import (
    Bulk,
    Counted,
    Row,
    TransferredSession,
    Weight,
)

if TYPE_CHECKING:
    from .cleaning import Cleaner


class Retention(Protocol):
    """Removal: by policy, because a user wants it forgotten, or because of a secret."""

    def used_bytes(self) -> int:
        """Return how much of the store's file, or of its server's, is in use."""

    def evicted(self) -> set[str]:
        """Return the uids of the sessions whose events have left."""

    def weights(self) -> list[Weight]:
        """Return what each session takes up, oldest first."""

    def bulks(self) -> list[Bulk]:
        """Return the sources of which native records are stored, oldest first."""

    def drop_records(self, sources: Sequence[int]) -> None:
        """Drop the native records of these sources. Events derived from them stay."""

    def evict(
        self,
        uids: Sequence[str],
        when: datetime,
        is_appended: Callable[[str, str], bool] | None = None,
    ) -> None:
        """Drop the events of these sessions, and what is stored of sources with no others.

        Digests, calls and numbers stay, and so do the events that a digest cites, cut down to what
        it quotes. `is_appended` says by agent and path of which sources the carry can be derived
        again: it is dropped too.
        """

    def bring_back(self, uids: Sequence[str]) -> list[str]:
        """Mark the sources of evicted sessions to be derived again; return those uids."""

    def shrink(self, *, most_left: bool = False) -> None:
        """Give back the room of what was dropped; with `most_left` write the rest anew."""

    def forget(self, uids: Iterable[str], when: datetime) -> None:
        """Remove these sessions from every tier and leave a tombstone for each."""

    def copies_of(self, uids: Iterable[str]) -> list[str]:
        """Return the other sessions that show parts of these as copies."""

    def sharing(self) -> list[set[str]]:
        """Return sets of sessions that have an event in common. One may be in several."""

    def redact_again(self, source: int, version: str, cleaner: Cleaner) -> int:
        """Run newer rules over all that is stored of a source; return how many texts changed."""

    def purge(self) -> None:
        """Leave nothing in the file of what was removed from it."""


class Maintenance(Protocol):
    """Checks and repairs, for the doctor."""

    def rows(self, sql: str, bindings: Sequence[Any] = ()) -> list[Row]:
        """Return the answer to a plain `select` over the tables of docs/schema.md."""

    def check_file(self, *, full: bool = False) -> list[tuple[str, bool]]:
        """Return what the database finds wrong with its file, and whether only the index is."""

    def check_index(
        self, ids: Sequence[int] | None, step: Callable[[int], None] | None = None
    ) -> dict[int, str]:
        """Index these segments, or all, once more, and return what is wrong, by segment."""

    def check_session(self, session: int) -> tuple[Facts, dict[str, Any]] | None:
        """Return the facts and totals that the streams of a session give; None without any."""

    def tallies(self, session: int) -> list[Counted]:
        """Return the totals of each stream of a session, as stored and as its events give them."""

    def wrong_rollups(self) -> list[int]:
        """Return the numbers of the sessions whose rollups are not those of their calls."""

    def is_charged(self, session: int) -> bool:
        """Return True if a session's calls are marked as its digest says."""

    def reindex(
        self, ids: Sequence[int] | None, step: Callable[[int, int], None] | None = None
    ) -> None:
        """Index these segments, or all, again from their bodies; drop words of missing ones.

        `step` is called with how many are done, and of how many.
        """

    def recount(self, sessions: Sequence[int], *, streams: bool = False) -> None:
        """Add up the totals of these sessions again; with `streams` also those of their streams."""

    def relink(self, sessions: Sequence[int]) -> None:
        """Make the native ids of these sessions again from their events."""

    def derive_again(self, sources: Sequence[int]) -> None:
        """Mark these sources, so that the next sync replaces all that is stored of them."""

    def drop_strays(self, sessions: Sequence[int]) -> None:
        """Remove what is left of sessions that are not there, and what belongs to no source."""

    def restore_session(self, number: int, uid: str) -> None:
        """Make a session that is known only by its streams again from what they say."""

    def restore_stream(self, session: int, block: int, source: int) -> None:
        """Make the stream of a block again, whose source is then to be derived again."""

    def restore_source(self, number: int) -> None:
        """Make a source that is known only by its streams again, to be derived again."""


class Transfer(Protocol):
    """Sessions of another store, and backups. Used by `copying`."""

    source_columns: tuple[str, ...]
    """The columns of a source that only this database has."""

    def session_columns(self) -> list[str]:
        """Return the columns of a session, without its number."""

    def take_source(self, row: dict[str, Any]) -> int:
        """Store a source of another store; return its number here."""

    def name_of(self, uid: str, author: str | None) -> tuple[str, str | None]:
        """Return the uid under which a session of another store is stored here, and its author."""

    def take_session(self, taken: TransferredSession) -> int:
        """Store a session of another store in place of what is here; return its number here.

        Parts of it that belong to another author stay.
        """

    def take_rest(
        self, source: int, records: Sequence[Row], skips: Sequence[Row], aliases: Sequence[Row]
    ) -> None:
        """Replace what is stored of a source, by its number here."""

    def claims(self) -> list[Row]:
        """Return (author, uid, number of the session that they mean by it) of shared sessions."""

    def take_claims(self, rows: Sequence[Row]) -> None:
        """Store claims of another store, with the numbers that the sessions have here."""

    def take_tombstones(self, rows: Sequence[tuple[str, str]]) -> None:
        """Store (uid, when) of sessions forgotten elsewhere, which are not read again here."""
