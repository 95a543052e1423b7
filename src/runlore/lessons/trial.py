"""The trial of lessons: decide from which sessions a lesson is withheld, to measure its effect.

The decision is a function of a seed in runlore's home, the lesson and the session alone. So every
hook and every answer of the MCP server decides the same for a session, in any order, and nothing
that happens in a session has a part in it. `deliver` applies and records it, `measure` compares.
"""

from __future__ import annotations

import os
from hashlib import blake2b
from pathlib import Path

import msgspec

from ..store import Store

SEED_FILE = "trial.seed"
"""In runlore's home."""
SEED_BYTES = 16


class Trial(msgspec.Struct, frozen=True):
    """The rule by which lessons are withheld from a share of the sessions."""

    seed: bytes
    share: float
    """From 0 to 1. A session from which a lesson is withheld stays so when the share grows."""

    def withholds(self, lesson: str, session: str) -> bool:
        """Return True if the lesson is withheld from the session, or from its whole family."""
        text = f"{lesson}\0{session}".encode("utf-8", "surrogatepass")
        draw = blake2b(text, key=self.seed, digest_size=8).digest()
        return int.from_bytes(draw) < self.share * 2**64


def read_trial(home: Path, share: float) -> Trial | None:
    """Return the trial with the seed of this home, which is created if there is none.

    None if nothing is to be withheld, or if there can be no seed: then every lesson is shown.
    """
    if not share:
        return None
    seed = _read_seed(home / SEED_FILE) or _create_seed(home / SEED_FILE)
    return Trial(seed, share) if seed else None


def find_root(store: Store, uid: str) -> str:
    """Return the session that a stored one goes back to by its parents: a family is one unit."""
    visited = {uid}
    while (session := store.sessions.get(uid)) and session.parent_uid:
        if session.parent_uid in visited:
            break
        uid = session.parent_uid
        visited.add(uid)
    return uid


def _read_seed(file: Path) -> bytes:
    try:
        seed = file.read_bytes()[:SEED_BYTES]
    except OSError:
        return b""
    return seed if len(seed) == SEED_BYTES else b""


def _create_seed(file: Path) -> bytes:
    """Write a seed, and return the one that is there then: another process may have been first."""
    draft = file.with_name(f"{SEED_FILE}.{os.urandom(4).hex()}")
    try:
        with open(os.open(draft, os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o600), "wb") as data:
            data.write(os.urandom(SEED_BYTES))
        try:
            os.link(draft, file)  # Whole, and never over one that is there.
        except OSError:
            if not _read_seed(file):  # It is damaged, or the file system has no links.
                os.replace(draft, file)
        draft.unlink(missing_ok=True)
    except OSError:
        return b""
    return _read_seed(file)
