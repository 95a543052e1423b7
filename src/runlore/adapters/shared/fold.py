"""What folds over an agent's records share: the rarer fields of an event, and what is remembered
between two reads."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, Protocol, TypedDict, TypeVar

import msgspec

from ...model import Tests, Usage
from .values import Normalized, Source

LATEST_NS = 4 * 10**18  # The year 2096. What is said to be later is no time.


class Fields(TypedDict, total=False):
    """What only some events say."""

    is_error: bool
    exit_code: int | None
    duration_ms: int | None
    files: tuple[str, ...]
    tests: Tests | None
    view: str | None
    refs: tuple[str, ...]
    cwd: str | None
    git_branch: str | None
    is_sidechain: bool


class AllFields(Fields, total=False):
    """The same, where what a call used comes with a record of its own."""

    model: str | None
    usage: Usage | None
    tokens: int
    extra: dict[str, Any]


class Remembered(Protocol):
    """The state of a fold. Its layout has a number."""

    version: int


K = TypeVar("K")
V = TypeVar("V")
S = TypeVar("S", bound=Remembered)


def dated(found: Normalized, source: Source) -> Normalized:
    """The same, with the time of the file for what has none: the session, and what it took as a
    whole."""
    at = (
        datetime.fromtimestamp(source.mtime_ns // 1000 / 1e6, UTC)
        if 0 < source.mtime_ns < LATEST_NS
        else None
    )
    found.facts = {
        uid: msgspec.structs.replace(facts, written_at=at) for uid, facts in found.facts.items()
    }
    found.calls = [
        (call if call.ts else msgspec.structs.replace(call, ts=at), event)
        for call, event in found.calls
    ]
    return found


def as_spare(found: Normalized, spare: int) -> Normalized:
    """The same, as what another store of the agent tells better: see `Facts.spare`."""
    found.facts = {
        uid: msgspec.structs.replace(facts, spare=spare) for uid, facts in found.facts.items()
    }
    return found


def keep(kept: dict[K, V], key: K, value: V, most: int) -> None:
    """Puts it in, and the oldest out when there are too many."""
    kept[key] = value
    if len(kept) > most:
        del kept[next(iter(kept))]


def load(carry: bytes | None, kind: type[S], layout: int) -> S:
    """What was remembered; nothing when it has another layout, which is why that only changes with
    the adapter's version."""
    if carry:
        try:
            state = msgspec.msgpack.decode(carry, type=kind)
        except msgspec.DecodeError:
            return kind()
        if state.version == layout:
            return state
    return kind()
