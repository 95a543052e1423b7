"""Marks on API calls that led nowhere, so that reports can add them up.

The marks follow from the digest of a session and from its calls. When one of the two changes, the
marks of all calls of the session are checked before the transaction ends.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress

from ...errors import RunloreError
from ..dead_ends import charge, dead_ends_of
from ..digest_rows import unpack_digest
from ..filters import MARKED_FROM, MARKS
from .database import Database
from .sessions import UNCOVERED

DeadEnds = Mapping[str, Sequence[int]]


class Charges:
    """Marks calls."""

    def __init__(self, db: Database, changed: set[int]) -> None:
        self.db = db
        self.changed = changed
        """Sessions whose rollups must be made again."""
        self.to_charge: dict[int, dict[str, tuple[int, ...]] | None] = {}
        """Sessions with other calls or another digest, and its dead ends if they are known."""

    def is_right(self, session: int) -> bool:
        return not self.wrongly_charged(self.dead_ends([session]))

    def flush(self) -> None:
        """Mark the calls of changed sessions. Called before a commit or a step."""
        known: dict[int, DeadEnds] = {
            session: dead_ends
            for session, dead_ends in self.to_charge.items()
            if dead_ends is not None
        }
        known |= self.dead_ends(self.to_charge.keys() - known.keys())
        self.to_charge.clear()
        wrong = self.wrongly_charged(known)
        self._set_flags([(flags, h) for _, h, flags in wrong])
        self.changed.update(session for session, _, _ in wrong)

    def _set_flags(self, flags: Sequence[tuple[int, int]]) -> None:
        """Set the flags of calls, given as (flags, hash)."""
        self.db.executemany("update calls set flags = ? where hash = ?", flags)

    def dead_ends(self, sessions: Collection[int]) -> dict[int, DeadEnds]:
        """Return the dead ends of those sessions whose digest covers all that is stored.

        The others will get another digest, and their marks with it.
        """
        found: dict[int, DeadEnds] = {}
        sql = (
            "select session, made_at, length, hash, body from digests where version >="
            f" {MARKED_FROM} and session in (select number from carray(?) w join sessions on number"
            f" = w.value where not {UNCOVERED})"
        )
        for session, *row in self.db.all(sql, (self.db.ids(sessions),)) if sessions else ():
            # One that is damaged is told by the doctor, and is no reason to store nothing.
            with suppress(RunloreError):
                found[session] = dead_ends_of(unpack_digest(*row))
        return found

    def wrongly_charged(self, known: Mapping[int, DeadEnds]) -> list[tuple[int, int, int]]:
        """Return (session, hash, right flags) of calls whose marks are wrong."""
        # Where nothing led nowhere, as in most sessions, no call is to be marked, and few are.
        sql = (
            "select session, hash, seq, flags from carray(?1) w join calls c on c.session = w.value"
            f" where flags & {MARKS} != 0 or session in (select v.value from carray(?2) v)"
        )
        some = [-1, *(session for session, dead_ends in known.items() if dead_ends)]
        rows = self.db.all(sql, (self.db.ids(known), self.db.ids(some))) if known else []
        told: dict[int, list[int]] = {}
        for session, _, seq, _ in rows:
            told.setdefault(session, []).append(seq)
        marks = {session: charge(known[session], seqs) for session, seqs in told.items()}
        right = (
            (session, h, flags, flags & ~MARKS | marks[session].get(seq, 0))
            for session, h, seq, flags in rows
        )
        return [(session, h, new) for session, h, flags, new in right if new != flags]
