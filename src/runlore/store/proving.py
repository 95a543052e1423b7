"""What a store must answer so that it can be proven right, and how it is put right. For the
doctor."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from ..adapters import Facts, Position

if TYPE_CHECKING:
    from .contract import Counted, Row


class Provable(Protocol):
    """The part of a `Store` that the doctor asks."""

    def snapshot(self) -> AbstractContextManager[None]:
        """Everything read inside is of one moment, whatever is written meanwhile. May be nested."""

    def rows(self, sql: str, bindings: Sequence[Any] = ()) -> list[Row]:
        """The answer to a plain `select`; the tables are those of docs/schema.md. Raises
        StoreError."""

    def check_file(self, *, full: bool = False) -> list[tuple[str, bool]]:
        """What the database itself finds wrong with its file, and whether that is only its index
        over words."""

    def check_index(
        self, ids: Sequence[int] | None, step: Callable[[int], None] | None = None
    ) -> dict[int, str]:
        """Indexes these segments, or all, once more aside, and compares: by segment, what is wrong.
        `step` is told of each."""

    def sums(self, session: int) -> tuple[Facts, dict[str, Any]] | None:
        """What the streams of a session say of it, and the columns that are sums over them; None
        when there is none."""

    def tallies(self, session: int) -> list[Counted]:
        """The totals of each stream of a session, as they are stored and as its events give
        them."""

    # ── putting it right ──────────────────────────────────────────────────────────────────────────
    def reindex(
        self, ids: Sequence[int] | None, step: Callable[[int, int], None] | None = None
    ) -> None:
        """Index these segments, or all, again from their bodies; drop the words of missing ones.

        `step` is called with how many are done, and of how many."""

    def recount(self, sessions: Sequence[int], *, streams: bool = False) -> None:
        """Adds up the sums of these sessions again; with `streams` also the totals of their
        streams, from their events."""

    def relink(self, sessions: Sequence[int]) -> None:
        """Makes the native ids of these sessions again from their events."""

    def derive_again(self, sources: Sequence[int]) -> None:
        """Marks these sources, so that the next sync replaces all that is stored of them."""

    def drop_strays(self, sessions: Sequence[int]) -> None:
        """Removes what is left of sessions that are not there, and all that belongs to no
        source."""

    def set_position(self, number: int, position: Position) -> None:
        """Up to where a source has been read."""

    def restore_session(self, number: int, uid: str) -> None:
        """A session that is known only by its streams: makes it again from what they say."""

    def restore_stream(self, session: int, block: int, source: int) -> None:
        """The events of a block are this source's, which is marked so that the next sync derives
        them again."""

    def restore_source(self, number: int) -> None:
        """A source that is known only by its streams: makes it again from what its session says,
        marked in the same way."""

    def backup(self, path: Path, step: Callable[[int, int], None] | None = None) -> None:
        """Copies the store to a new file, as it is at this moment, also while it is written to.
        Raises StoreError."""
