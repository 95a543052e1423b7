"""Who runs a session, and whether they still do.

An owner is a process: its pid, when it began, which boot, machine and pid namespace it belongs to,
and when it was last heard of. On its own machine the system is asked, so a pid that was given to
another process is told apart. Of other machines only the age of the heartbeat is known: their
sessions are shown when they fall silent, and never changed from here.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import AbstractContextManager, suppress
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import TYPE_CHECKING, Literal, Protocol

import msgspec

from ..errors import LogError
from . import _process

if TYPE_CHECKING:
    from .state import StateHandle

Verdict = Literal["alive", "dead", "silent", "unknown"]
"""`silent`: of another machine, and not heard of for long. `unknown`: nothing tells."""

Mark = Literal["failed", "paused", "cancelled"]

HEARTBEAT_S = 30.0
"""How often a running owner says so: rarely enough that a day of it is under 1 MB of log."""

SILENT_AFTER = timedelta(minutes=5)
"""Ten heartbeats: a machine that sleeps or a disk that hangs for a minute is not called dead."""

BOOT_SLACK_S = 120.0
"""How far the clocks of a machine may have been set since it booted before we take it for another
machine of the same name."""


class Owner(msgspec.Struct, frozen=True, kw_only=True):
    """The process that runs a session. What its system did not tell is empty."""

    pid: int
    started: str = ""
    boot: str = ""
    host: str = ""
    machine: str = ""
    space: str = ""
    heartbeat: datetime | None = None

    def __post_init__(self) -> None:
        if self.heartbeat is not None and self.heartbeat.tzinfo is None:  # Not of our making.
            msgspec.structs.force_setattr(self, "heartbeat", self.heartbeat.replace(tzinfo=UTC))

    def is_same(self, other: Owner | None) -> bool:
        """Whether both are one process, whenever they were heard of."""
        return other is not None and identity(self) == identity(other)


def identity(owner: Owner) -> tuple[int, str, str, str, str, str]:
    return (owner.pid, owner.started, owner.boot, owner.host, owner.machine, owner.space)


def here(now: datetime | None = None) -> Owner:
    """This process as an owner."""
    # By pid: a process that was forked is another one, and must not go by its parent's name.
    return msgspec.structs.replace(_me(os.getpid()), heartbeat=now or datetime.now(UTC))


@cache
def _me(pid: int) -> Owner:
    return Owner(
        pid=pid,
        started=_process.start_of(pid) or "",
        boot=_process.boot_id(),
        host=_process.host_name(),
        machine=_process.machine_id(),
        space=_process.pid_space(),
    )


def judge(
    owner: Owner, *, now: datetime | None = None, silent_after: timedelta = SILENT_AFTER
) -> Verdict:
    """Whether the owner still runs. Only a process of this machine is ever called dead."""
    me = here(now)
    if (owner.host, owner.machine, owner.space) != (me.host, me.machine, me.space):
        return _by_heartbeat(owner, now, silent_after)
    if owner.boot and me.boot and owner.boot != me.boot:
        return _by_heartbeat(owner, now, silent_after) if _was_heard_since_boot(owner) else "dead"
    started = _process.start_of(owner.pid)
    if started is None:
        return "dead"
    # Where one of the two starts is not known, the pid alone has to do: better a dead session
    # called alive than the reverse.
    return "dead" if started and owner.started and started != owner.started else "alive"


def _was_heard_since_boot(owner: Owner) -> bool:
    """A heartbeat that is younger than this machine's boot, from another boot: two machines go by
    one name."""
    booted = _process.boot_time()
    return (
        booted is not None
        and owner.heartbeat is not None
        and owner.heartbeat.timestamp() > booted + BOOT_SLACK_S
    )


def _by_heartbeat(owner: Owner, now: datetime | None, silent_after: timedelta) -> Verdict:
    if owner.heartbeat is None:
        return "unknown"
    return "silent" if (now or datetime.now(UTC)) - owner.heartbeat > silent_after else "alive"


class Stale(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A session that is said to be running, by an owner that is dead (`dead`) or on another machine
    and silent (`silent`)."""

    session_id: str
    owner: Owner
    verdict: Verdict
    updated_at: datetime
    marked: Mark | None = None
    """What `recover` made of it; None: it was left alone."""


class Listed(Protocol):
    """What a store's list says of a session."""

    @property
    def id(self) -> str: ...


class HasState(Protocol):
    @property
    def state(self) -> StateHandle: ...


class Sessions(Protocol):
    """What is needed of a store: the sessions said to be active, and a way to open one."""

    def list(self, *, status: str | None = None) -> Iterable[Listed]: ...

    def open(self, id: str, *, readonly: bool = False) -> AbstractContextManager[HasState]: ...


def stale(
    store: Sessions, *, now: datetime | None = None, silent_after: timedelta = SILENT_AFTER
) -> list[Stale]:
    """The active sessions whose owner does not run any more. Nothing is written; paused and
    finished sessions have no owner."""
    found = []
    for listed in store.list(status="active"):
        # One that cannot be read cannot be judged.
        with suppress(LogError), store.open(listed.id, readonly=True) as session:
            state = session.state.current
            if state.status != "active" or state.owner is None:
                continue
            verdict = judge(state.owner, now=now, silent_after=silent_after)
            if verdict in ("dead", "silent"):
                owner, updated = state.owner, state.timestamps.updated_at
                found.append(
                    Stale(session_id=listed.id, owner=owner, verdict=verdict, updated_at=updated)
                )
    return found


def recover(store: Sessions, *, mark: Mark = "failed", now: datetime | None = None) -> list[Stale]:
    """Marks the sessions of this machine whose owner died; gives all that are stale, those of other
    machines unmarked.

    `failed` and `cancelled` can be resumed from a checkpoint, `paused` from where they stopped as
    well. A session that got a new owner in the meantime is left alone: the mark names the owner who
    died, and means nothing to another.
    """
    return [
        _mark(store, found, mark) if found.verdict == "dead" else found
        for found in stale(store, now=now)
    ]


def _mark(store: Sessions, found: Stale, mark: Mark) -> Stale:
    # Another process holds it, so it is not dead after all.
    with suppress(LogError), store.open(found.session_id) as session:
        if session.state.recover(found.owner, mark):
            return msgspec.structs.replace(found, marked=mark)
    return found
