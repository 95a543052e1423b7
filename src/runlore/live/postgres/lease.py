"""The exclusive lease of a session on a server: an epoch, and a time by the server's clock.

A holder renews its lease with every append, and from a thread while it does nothing. Each append
names the epoch, and the server refuses it when someone else has one that is newer. So a host that
slept, or was cut off, cannot write beside its successor, whatever its own clock says.
"""

from __future__ import annotations

import os
import threading
import weakref
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import msgspec

from ...errors import LeaseLost, LogError, SessionBusy, SessionNotFound
from ..backend import Holder
from ..liveness import Owner, here, judge

if TYPE_CHECKING:
    from .session_log import PostgresLog

RECORD = "lease"
RENEWALS = 3
"""How often a lease is renewed in its time, so that one or two may fail."""

READ = """select lease_epoch, lease_until > clock_timestamp(), lease_holder::text,
    deleted_at is null from live_sessions where number = %s"""


class Claim(Owner, frozen=True, kw_only=True):
    """A holder as the row has it: the process, and the name it gave itself."""

    owner: str

    @property
    def holder(self) -> Holder:
        return Holder(self.owner, self.pid, self.host)


class PostgresLease:
    """The lease, seen from one handle, whether it holds the lease or not."""

    def __init__(self, log: PostgresLog, seconds: float) -> None:
        self.seconds = seconds
        self._log = log
        self._epoch: int | None = None
        self._pid = os.getpid()
        self._lost: tuple[str, str | None] | None = None
        self._ended = threading.Event()

    @property
    def epoch(self) -> int | None:
        """The epoch under which this handle writes. A child of a fork does not inherit it."""
        return self._epoch if self._pid == os.getpid() else None

    @property
    def is_ours(self) -> bool:
        return self.epoch is not None

    def take(self, owner: str, take_over: str | None) -> None:
        log, number = self._log, self._log.known_number()
        claim = Claim(owner=owner, **msgspec.structs.asdict(here()))
        with log.mutex:
            with log.connections.borrow() as connection, connection.transaction():
                row = connection.execute(f"{READ} for update", (number,)).fetchone()
                if row is None or not row[3]:
                    raise SessionNotFound(f"{log.id}: the session was deleted")
                if row[1] and not _may_take(_claim(row[2]), take_over):
                    raise self._busy(_claim(row[2]))
                epoch = row[0] + 1
                connection.execute(
                    "update live_sessions set lease_epoch = %s, lease_holder = %s,"
                    " lease_until = clock_timestamp() + make_interval(secs => %s)"
                    " where number = %s",
                    (epoch, msgspec.json.encode(claim).decode(), self.seconds, number),
                )
                self._epoch, self._pid = epoch, os.getpid()
                try:
                    payload = {"epoch": epoch, **msgspec.to_builtins(claim.holder)}
                    records = log.insert(connection, number, [(RECORD, payload, None)], None)
                except BaseException:
                    self._epoch = None
                    raise
            log.added_by_lease(records or [])
        self._ended = threading.Event()
        threading.Thread(
            target=_renew,
            args=(weakref.ref(self), self._ended, epoch),
            name=f"lease of {log.id}",
            daemon=True,
        ).start()

    def release(self) -> None:
        if not self.is_ours:
            return
        self._ended.set()
        log, number, epoch = self._log, self._log.known_number(), self._epoch
        payload = {"epoch": epoch, "released": True}
        with suppress(LogError), log.mutex:
            with log.connections.borrow() as connection, connection.transaction():
                records = log.insert(connection, number, [(RECORD, payload, None)], None)
                connection.execute(
                    "update live_sessions set lease_until = null"
                    " where number = %s and lease_epoch = %s",
                    (number, epoch),
                )
            if records is not None:
                log.added_by_lease(records)
        self._epoch = None

    def holder(self) -> Holder | None:
        _, is_held, claim, _ = self._read()
        return claim.holder if is_held and claim is not None else None

    def run_out(self) -> Holder | None:
        _, is_held, claim, _ = self._read()
        return claim.holder if is_held is False and claim is not None else None

    def check(self) -> None:
        """Raise LeaseLost if this handle has lost its lease. That is permanent."""
        if self._lost is not None:
            raise LeaseLost(*self._lost)

    def raise_if_refused(self) -> None:
        """Raise the error of an append that the server refused, if the lease is its reason."""
        epoch, is_held, claim, _ = self._read()
        if self.is_ours:
            if epoch != self._epoch:
                self._ended.set()
                self._epoch = None
                by = claim.holder if claim is not None and is_held else "another process"
                self._lost = (
                    f"{self._log.id}: the lease was taken over by {by}",
                    claim.owner if claim is not None and is_held else None,
                )
                raise LeaseLost(*self._lost)
        elif is_held:
            raise self._busy(claim)

    def _read(self) -> tuple[int, bool | None, Claim | None, bool]:
        """Return epoch, whether it is held, by whom, and whether the session is there.

        Held is None for a lease that was released or never taken.
        """
        rows = self._log.ask(READ, (self._log.known_number(),))
        if not rows:
            return 0, None, None, False
        epoch, is_held, text, is_there = rows[0]
        return epoch, is_held, _claim(text), is_there

    def renew(self, epoch: int) -> bool:
        """Renew the lease. Return False if it is another's."""
        with self._log.connections.borrow() as connection:
            rows = connection.execute(
                "update live_sessions set"
                " lease_until = clock_timestamp() + make_interval(secs => %s)"
                " where number = %s and lease_epoch = %s and lease_until is not null",
                (self.seconds, self._log.number, epoch),
            ).rowcount
            return rows > 0

    def _busy(self, claim: Claim | None) -> SessionBusy:
        return SessionBusy(
            f"{self._log.id}: held by {claim.holder if claim else 'another process'}",
            claim.owner if claim else None,
        )


def _renew(reference: weakref.ref[PostgresLease], ended: threading.Event, epoch: int) -> None:
    """Renew a lease until it ends. A handle that nobody has any more lets it run out."""
    while (lease := reference()) is not None:
        seconds = lease.seconds / RENEWALS
        with suppress(LogError):  # The next try may succeed before the lease runs out.
            if not lease.renew(epoch):
                return
        del lease
        if ended.wait(seconds):
            return


def _claim(text: Any) -> Claim | None:
    try:
        return msgspec.json.decode(text, type=Claim) if text else None
    except ValueError:
        return None


def _may_take(claim: Claim | None, take_over: str | None) -> bool:
    """Return True if the holder is the one to take over from, or is known to be dead."""
    return claim is not None and (claim.owner == take_over or judge(claim) == "dead")
