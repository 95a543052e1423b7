"""Changes as server-sent events: of one session, of all, or of the runs that agents log themselves.

The store is asked once a second for each page that listens, so changes by any process are noticed,
also those of a sync elsewhere.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import msgspec
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from .. import config as settings
from .. import query
from ..config import Config
from ..errors import LogError, NotFound, StoreError
from ..store import Store
from .live import SHOWN, store_of
from .rendering import borrow_store

EVERY_S = 1.0
ALIVE_S = 15.0
"""Interval of sending something, so that a closed connection is noticed."""


class Changed(msgspec.Struct, frozen=True, kw_only=True):
    """The current figures of a session or of the store."""

    sessions: int
    events: int
    usd: float | None
    ended_at: str | None


def state(store: Store, uid: str | None) -> Changed:
    """Raises NotFound."""
    if uid is None:
        now = store.overview.state()
        return Changed(sessions=now.sessions, events=now.events, usd=now.usd, ended_at=now.ended_at)
    session = query.get(store, uid)
    ended_at = session.ended_at.isoformat() if session.ended_at else None
    return Changed(sessions=1, events=session.events, usd=session.cost.usd, ended_at=ended_at)


def live_state(config: Config) -> Changed:
    """Return the figures of the newest runs. `events` counts their records."""
    store = store_of(config)
    try:
        found = store.list(limit=SHOWN)
    finally:
        store.close()
    latest = max((info.updated_at for info in found), default=None)
    records = sum(info.seq + 1 for info in found)
    return Changed(
        sessions=len(found),
        events=records,
        usd=None,
        ended_at=latest.isoformat() if latest else None,
    )


async def events(request: Request) -> Response:
    """Send changes. `events` is the number that the page knows: if more came since, they are sent
    at once."""
    uid, known = request.query_params.get("session"), request.query_params.get("events", "")

    def look() -> Changed | None:
        try:
            if "live" in request.query_params:
                return live_state(settings.load())
            with borrow_store(request) as (store, _):
                return state(store, uid)
        except (NotFound, StoreError, LogError):
            # Forgotten, or being made: there may be something to tell later.
            return None

    async def stream() -> AsyncIterator[str]:
        last, silent = await run_in_threadpool(look), 0.0
        yield "retry: 3000\n\n"
        if last is not None and known not in ("", str(last.events)):
            yield _message(last)
        while not request.app.state.is_ending():
            await asyncio.sleep(EVERY_S)
            now = await run_in_threadpool(look)
            silent += EVERY_S
            if now is not None and now != last:
                yield _message(now)
                silent = 0.0
            elif silent >= ALIVE_S:
                yield ": still here\n\n"
                silent = 0.0
            last = now or last

    return StreamingResponse(stream(), media_type="text/event-stream")


def _message(now: Changed) -> str:
    return f"event: changed\ndata: {msgspec.json.encode(now).decode()}\n\n"


routes = [Route("/events", events)]
