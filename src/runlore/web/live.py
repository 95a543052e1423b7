"""The pages about live runs: their state, their path through nodes, checkpoints with their
changes, and skills with pass rates.

An id from a URL is looked up in the list of sessions first, so that nothing but the name of a
session reaches the disk.
"""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from .. import config as settings
from ..config import Config
from ..errors import LogError, SessionNotFound
from ..live.attention import attention
from ..live.checkpoints import Difference
from ..live.liveness import judge
from ..live.log import SessionInfo, SessionStore
from ..live.run import SessionState
from ..live.skills import Rate, entries_of, pass_rates
from ..live.state import Checkpoint, Transition
from .rendering import render

SHOWN = 50
SKILL_WINDOW = "30d"
"""The pass rates on the page are of so long: older ones say little of today's models."""
STATUSES = ("new", "active", "paused", "completed", "failed", "cancelled")


class LiveLine(msgspec.Struct, frozen=True, kw_only=True):
    """A live session in a list. `owner` is the state of its process: alive, dead, silent,
    unknown; None if no process runs it."""

    id: str
    title: str | None
    status: str | None
    agent: str | None
    model: str | None
    updated_at: datetime
    messages: int
    owner: str | None = None
    node: str | None = None
    steps: int = 0
    tokens: int = 0
    attention: list[str] = []

    @property
    def is_stale(self) -> bool:
        return self.status == "active" and self.owner in ("dead", "silent")


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """A run with all that its page shows."""

    line: LiveLine
    state: SessionState | None
    checkpoints: list[Checkpoint]
    history: list[Transition]
    difference: Difference | None


def store_of(config: Config) -> SessionStore:
    return SessionStore(config.home / "live")


def lines(config: Config, status: str | None = None, limit: int = SHOWN) -> list[LiveLine]:
    """Return the newest live sessions, each with the state of its run."""
    store = store_of(config)
    try:
        return [line_of(store, info, config) for info in store.list(status=status, limit=limit)]
    finally:
        store.close()


def running_runs(config: Config, limit: int = 10) -> list[LiveLine]:
    return lines(config, "active", limit)


def line_of(store: SessionStore, info: SessionInfo, config: Config) -> LiveLine:
    line = LiveLine(
        id=info.id,
        title=info.title,
        status=info.status,
        agent=info.agent,
        model=info.model,
        updated_at=info.updated_at,
        messages=info.messages,
    )
    if info.status is None:
        return line
    # It may have been deleted meanwhile.
    with suppress(LogError), store.open(info.id, readonly=True) as live:
        state = live.state.current
        return msgspec.structs.replace(
            line,
            status=state.status,
            owner=judge(state.owner) if state.owner else None,
            node=state.progress.current_node,
            steps=state.progress.steps_executed,
            tokens=max(
                state.progress.total_tokens,
                state.metrics.total_input_tokens + state.metrics.total_output_tokens,
            ),
            attention=list(attention(state, config.attention)),
        )
    return line


def run(config: Config, id: str, compare: tuple[str, str] | None = None) -> Run:
    """Raises SessionNotFound, CheckpointError."""
    store = store_of(config)
    try:
        info = next((info for info in store.list() if info.id == id), None)
        if info is None:
            raise SessionNotFound(f"no live session {id!r}")
        with store.open(info.id, readonly=True) as live:
            has_run = info.status is not None
            points = live.state.checkpoints
            return Run(
                line=line_of(store, info, config),
                state=live.state.current if has_run else None,
                checkpoints=list(points)[::-1] if has_run else [],
                history=list(live.state.history()) if has_run else [],
                difference=points.compare(*compare) if compare else None,
            )
    finally:
        store.close()


def rates(config: Config, window: str | None = SKILL_WINDOW) -> list[Rate]:
    store = store_of(config)
    try:
        now = datetime.now(UTC)
        return list(pass_rates(entries_of(store, window, now=now), window, now=now))
    finally:
        store.close()


# ── pages ─────────────────────────────────────────────────────────────────────────────────────────
def page(request: Request) -> Response:
    config = settings.load()
    status = request.query_params.get("status")
    status = status if status in STATUSES else None
    found = lines(config, status)
    return render(
        request,
        "live.html",
        lines=found,
        rates=rates(config),
        chosen=status,
        statuses=STATUSES,
        window=SKILL_WINDOW,
    )


def one(request: Request) -> Response:
    first, second = request.query_params.get("from"), request.query_params.get("to")
    compare = (first, second) if first and second else None
    found = run(settings.load(), request.path_params["id"], compare)
    return render(request, "run.html", run=found, compare=compare)


routes = [Route("/live", page), Route("/live/{id}", one)]
