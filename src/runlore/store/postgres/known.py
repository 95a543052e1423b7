"""What a transaction knows of what is about to be put, and of what it has put itself. Asks no database."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from ...model import BLOCK
from ..calls import hash_of
from ..deltas import rebuild
from ..rows import PARENT, SEQ, outside
from ..sql.database import plain
from ..values import Batch, Kept, Piece, Put


class NewRow:
    """A row that waits to be sent, and can be changed as long as it does."""

    def __init__(self, names: Sequence[str], values: list[Any], checks: int) -> None:
        self.names, self.values = list(names), values
        self.checks = checks
        """How often rows had been checked when it began to wait."""

    def __getitem__(self, name: str) -> Any:
        return self.values[self.names.index(name)]

    def update(self, **changes: Any) -> None:
        for name, value in changes.items():
            (self.values[self.names.index(name)],) = clean([value])


class Made:
    """A session that was made in this transaction, and what there is of it by now. A further source
    of it need ask for nothing."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.row: NewRow | None = None
        self.streams: list[tuple[Any, ...]] = []
        """(facts, tally, hash, path, size, missing_at) by block."""
        self.spares: set[int] = set()
        """Which tellings of the session these are: see `Facts.spare`."""
        self.natives: dict[int, int] = {}
        self.aliases: dict[int, int] = {}
        """By hash, where events are, and where those are that records without any mean."""
        self.segments = 0
        self.last_seq = -1
        self.has_digest = False

    def seq_of(self, event: int) -> int | None:
        """Where an event is, by the hash of its native id."""
        return self.natives.get(event, self.aliases.get(event))

    def takes(self, piece: Piece) -> bool:
        """Whether a piece only adds to what is told already, and copies nothing from elsewhere."""
        spare = piece.facts.spare
        return (spare is None or self.spares <= {spare}) and not piece.originals

    def rest_of(self, piece: Piece, done: Put) -> Piece:
        """What a piece adds: without what is there, and linked to it."""
        there = {
            n: seq
            for n, h in enumerate(piece.natives)
            if h and (seq := self.natives.get(h)) is not None
        }
        if there:
            done.copies += len(there)
            instead = {piece.rows[n][SEQ]: outside(seq) for n, seq in there.items()}
            piece = rebuild(piece, None, dict.fromkeys(there), instead)
        for n, parent in piece.links:
            # Of an earlier block, hence before it.
            if (seq := self.natives.get(parent)) is not None:
                piece.rows[n] = (
                    *piece.rows[n][:PARENT],
                    outside(seq),
                    *piece.rows[n][PARENT + 1 :],
                )
        return piece


class Call(NamedTuple):
    """A call that was put, and where it is."""

    kept: Kept
    session: int
    seq: int


class Expected:
    """What the database has of what is about to be put, while nobody else writes."""

    def __init__(self, batches: Sequence[Batch]) -> None:
        self.asked = {(batch.source.agent, batch.source.path) for batch in batches}
        self.asked_calls = {hash_of(kept.call) for batch in batches for kept in batch.calls}
        self.sources: set[tuple[str, str]] = set()
        self.uids: set[str] = set()
        self.claimed: set[str] = set()
        self.hashes: set[int] = set()
        self.calls: set[int] = set()
        self.source_numbers: list[int] = []
        self.session_numbers: list[int] = []

    def is_new(self, batch: Batch, made: dict[str, Made], billed: Collection[int]) -> bool:
        """Whether nothing of a batch is there, nor anything that it is a copy of, but for what was
        `made` and `billed` before."""
        if batch.since or batch.is_gone or not self.is_new_source(batch):
            return False
        own = {piece.session_uid for piece in batch.pieces if piece.rows}
        hashes = hashes_of(batch)
        calls = [hash_of(kept.call) for kept in batch.calls]
        return (
            all(uid in made for uid in self.uids & own)
            and self.claimed.isdisjoint(uids_of(batch))
            and all(call in billed for call in self.calls.intersection(calls))
            and len(set(hashes)) == len(hashes)  # What is there twice in one source is kept once.
            and len(set(calls)) == len(calls)
            and len(own) == len(batch.pieces)
            and all(
                kept.call.session_uid in own or kept.call.session_uid in made
                for kept in batch.calls
            )
            and all(piece.rows[-1][SEQ] < BLOCK for piece in batch.pieces)
            and all(self._is_added(piece, made.get(piece.session_uid)) for piece in batch.pieces)
        )

    def is_new_source(self, batch: Batch) -> bool:
        """Whether nothing was read of its source, as far as is known."""
        key = (batch.source.agent, batch.source.path)
        return key in self.asked and key not in self.sources

    def _is_added(self, piece: Piece, made: Made | None) -> bool:
        """Whether what there is of a piece is in its own session."""
        there = self.hashes.intersection(hashes_in(piece))
        return not there if made is None else made.takes(piece) and there <= made.natives.keys()

    def remember(self, put: Expected) -> None:
        """What was put before is there."""
        self.sources |= put.sources
        self.uids |= put.uids
        self.claimed |= put.claimed
        self.hashes |= put.hashes
        self.calls |= put.calls

    def add(self, batch: Batch) -> None:
        """It is there now."""
        self.sources.add((batch.source.agent, batch.source.path))
        self.uids.update(piece.session_uid for piece in batch.pieces)
        self.hashes.update(hashes_of(batch))
        self.calls.update(hash_of(kept.call) for kept in batch.calls)


def uids_of(batch: Batch) -> Iterator[str]:
    """The sessions that a batch is about, and their parents."""
    for piece in batch.pieces:
        yield piece.session_uid
        if piece.facts.parent_uid:
            yield piece.facts.parent_uid


def hashes_of(batch: Batch) -> list[int]:
    """Of the native ids that a batch has, and of those that it has copies of."""
    return [h for piece in batch.pieces for h in hashes_in(piece)]


def hashes_in(piece: Piece) -> list[int]:
    """The same of one piece."""
    return [h for h in piece.natives if h] + [h for _, h in piece.originals if h]


def clean(values: Iterable[Any]) -> list[Any]:
    """As columns can hold them."""
    return [plain(value) if isinstance(value, str) else value for value in values]


class Seen:
    """What a transaction that holds the lock knows. A question costs ten times as long as its
    answer."""

    def __init__(self) -> None:
        self.numbers: dict[str, int] = {}
        self.fresh: set[int] = set()
        """Sessions that were made, and of which nothing is written yet."""
        self.tombstones: set[str] | None = None
        self.claims: dict[str, str] | None = None
        self.is_alone: bool | None = None
        self.expected: Expected | None = None
        """What is about to be put, and what there is of it."""
        self.put: Expected | None = None
        """The same of all that was put in this transaction, sent or not."""
        self.present: set[int] = set()
        """Sessions that are there, and of which nothing was evicted."""
        self.made: dict[str, Made] = {}
        """By uid, sessions that were made in this transaction."""
        self.billed: dict[int, Call] = {}
        """By hash, calls that were put in it."""

    def forget_made(self) -> None:
        """They may be changed by what knows nothing of this."""
        self.present.clear()
        self.made.clear()
        self.billed.clear()
