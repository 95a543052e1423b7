"""The owner of a session, and a check that it is still alive.

An owner is a process: its pid, its start, its boot, machine and pid namespace, and its last
heartbeat. On its own machine the system is asked, so that a reused pid is recognised. For other
machines only the age of the heartbeat is known: their silent sessions are reported, and changed
from here only when the heartbeat is long over. On a server an owner with the lease of its session
is dead when the lease has run out, by the server's clock.
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
from ..model import Plain
from . import process

if TYPE_CHECKING:
    from .backend import SessionLog
    from .state import StateHandle

Verdict = Literal["alive", "dead", "silent", "unknown"]
"""`silent`: on another machine, without a heartbeat for long. `unknown`: there is no evidence."""

Mark = Literal["failed", "paused", "cancelled"]

HEARTBEAT_S = 30.0
"""Interval of heartbeats. A day of them is less than 1 MB of log."""

SILENT_AFTER = timedelta(minutes=5)
"""Ten heartbeats: a machine that sleeps, or a disk that hangs, for a minute is not called dead."""

LOST_AFTER = timedelta(days=1)
"""Default age of the last heartbeat after which `recover` takes a run from another machine.

A machine that sleeps over night goes on with its runs in the morning.
"""

BOOT_SLACK_S = 120.0
"""Tolerance for a clock that was set since boot, before the owner counts as another machine with
the same name."""


class Owner(Plain, frozen=True, kw_only=True):
    """The process that runs a session. Fields that its system did not report are empty."""

    pid: int
    started: str = ""
    boot: str = ""
    host: str = ""
    machine: str = ""
    space: str = ""
    heartbeat: datetime | None = None

    def __post_init__(self) -> None:
        # Written by another program.
        if self.heartbeat is not None and self.heartbeat.tzinfo is None:
            msgspec.structs.force_setattr(self, "heartbeat", self.heartbeat.replace(tzinfo=UTC))

    def is_same(self, other: Owner | None) -> bool:
        """Return True if both are one process, whatever their heartbeats."""
        return other is not None and identity(self) == identity(other)


def identity(owner: Owner) -> tuple[int, str, str, str, str, str]:
    return (owner.pid, owner.started, owner.boot, owner.host, owner.machine, owner.space)


def here(now: datetime | None = None) -> Owner:
    """Return this process as an owner."""
    # Cached by pid: a forked process must not use its parent's identity.
    return msgspec.structs.replace(_owner_of(os.getpid()), heartbeat=now or datetime.now(UTC))


@cache
def _owner_of(pid: int) -> Owner:
    return Owner(
        pid=pid,
        started=process.start_of(pid) or "",
        boot=process.boot_id(),
        host=process.host_name(),
        machine=process.machine_id(),
        space=process.pid_space(),
    )


def judge(
    owner: Owner, *, now: datetime | None = None, silent_after: timedelta = SILENT_AFTER
) -> Verdict:
    """Return a verdict on the owner. Only a process of this machine is ever called dead."""
    me = here(now)
    if not _is_local(owner, me):
        return _by_heartbeat(owner, now, silent_after)
    if owner.boot and me.boot and owner.boot != me.boot:
        return _by_heartbeat(owner, now, silent_after) if _was_heard_since_boot(owner) else "dead"
    started = process.start_of(owner.pid)
    if started is None:
        return "dead"
    # If one of the starts is unknown, the pid decides: a dead session that is called alive is the
    # smaller error.
    return "dead" if started and owner.started and started != owner.started else "alive"


def judge_run(
    session: HasRun, owner: Owner, *, now: datetime | None = None, silent_after: timedelta
) -> Verdict:
    """Return a verdict on the owner of a session's run, who may hold its lease."""
    if not _is_local(owner, here(now)):
        holder = session.backend_log.lease.run_out()
        if holder is not None and (holder.pid, holder.host) == (owner.pid, owner.host):
            return "dead"
    return judge(owner, now=now, silent_after=silent_after)


def _is_local(owner: Owner, me: Owner) -> bool:
    return (owner.host, owner.machine, owner.space) == (me.host, me.machine, me.space)


def is_over(
    owner: Owner, lost_after: timedelta | None = LOST_AFTER, *, now: datetime | None = None
) -> bool:
    """Return True if the owner is dead, or was last heard of so long ago that it must be."""
    verdict = judge(owner, now=now)
    if verdict != "silent" or lost_after is None or owner.heartbeat is None:
        return verdict == "dead"
    return (now or datetime.now(UTC)) - owner.heartbeat > lost_after


def _was_heard_since_boot(owner: Owner) -> bool:
    """Return True if a heartbeat of another boot is younger than this boot: two machines share a
    name."""
    booted = process.boot_time()
    return (
        booted is not None
        and owner.heartbeat is not None
        and owner.heartbeat.timestamp() > booted + BOOT_SLACK_S
    )


def _by_heartbeat(owner: Owner, now: datetime | None, silent_after: timedelta) -> Verdict:
    if owner.heartbeat is None:
        return "unknown"
    return "silent" if (now or datetime.now(UTC)) - owner.heartbeat > silent_after else "alive"


class Stale(Plain, frozen=True, kw_only=True, omit_defaults=True):
    """A session that is marked as running by a `dead` owner, or by a `silent` one on another
    machine."""

    session_id: str
    owner: Owner
    verdict: Verdict
    updated_at: datetime
    marked: Mark | None = None
    """The mark that `recover` set; None if it was left alone."""


class Listed(Protocol):
    """A session in a store's list."""

    @property
    def id(self) -> str: ...


class HasRun(Protocol):
    """The parts of a session that are needed."""

    @property
    def state(self) -> StateHandle: ...

    @property
    def backend_log(self) -> SessionLog: ...


class Sessions(Protocol):
    """The parts of a store that are needed: list the active sessions, and open one."""

    def list(self, *, status: str | None = None) -> Iterable[Listed]: ...

    def open(self, id: str, *, readonly: bool = False) -> AbstractContextManager[HasRun]: ...


def stale(
    store: Sessions, *, now: datetime | None = None, silent_after: timedelta = SILENT_AFTER
) -> list[Stale]:
    """Return the active sessions whose owner does not run any more. Writes nothing.

    Paused and finished sessions have no owner.
    """
    stale_sessions = []
    for listed in store.list(status="active"):
        # A session that cannot be read cannot be judged.
        with suppress(LogError), store.open(listed.id, readonly=True) as session:
            state = session.state.current
            if state.status != "active" or state.owner is None:
                continue
            verdict = judge_run(session, state.owner, now=now, silent_after=silent_after)
            if verdict in ("dead", "silent"):
                owner, updated = state.owner, state.timestamps.updated_at
                stale_sessions.append(
                    Stale(session_id=listed.id, owner=owner, verdict=verdict, updated_at=updated)
                )
    return stale_sessions


def recover(
    store: Sessions,
    *,
    mark: Mark = "failed",
    now: datetime | None = None,
    lost_after: timedelta | None = LOST_AFTER,
) -> list[Stale]:
    """Mark the sessions whose owner died; return all stale ones.

    Of other machines only the last heartbeat is known: their sessions are marked when it is older
    than `lost_after`, and never with None. If such an owner is alive after all, its next record is
    refused. `failed` and `cancelled` sessions can be resumed from
    a checkpoint, `paused` ones also from where they stopped. A session that got a new owner
    meanwhile is left alone: the mark names the owner who died and does not apply to another.
    """
    return [
        _mark(store, session, mark, lost_after, now)
        if session.verdict == "dead" or is_over(session.owner, lost_after, now=now)
        else session
        for session in stale(store, now=now)
    ]


def _mark(
    store: Sessions,
    stale_session: Stale,
    mark: Mark,
    lost_after: timedelta | None,
    now: datetime | None,
) -> Stale:
    # Another process holds it, so it is not dead after all.
    with suppress(LogError), store.open(stale_session.session_id) as session:
        is_dead = stale_session.verdict == "dead"
        if session.state.recover(
            stale_session.owner, mark, lost_after=lost_after, now=now, is_dead=is_dead
        ):
            return msgspec.structs.replace(stale_session, marked=mark)
    return stale_session
