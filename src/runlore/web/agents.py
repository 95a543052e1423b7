"""The pages about agents and the store: the sessions of each agent, the size of the store, and
the doctor's checks."""

from __future__ import annotations

from contextlib import closing
from datetime import UTC, datetime

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from .. import config as settings
from .. import doctor, query
from ..config import Config
from ..retention import policy as retain
from ..store import Store, open_for_reading
from .rendering import borrow_store, render


class Stored(msgspec.Struct, frozen=True, kw_only=True):
    """Every agent that can be read, and the store. `stats` are counts and sizes in bytes."""

    agents: list[query.AgentFacts]
    url: str
    stats: dict[str, int]
    risks: list[query.Risk]
    last_sync: datetime | None


def stored(store: Store, config: Config, now: datetime, stats: dict[str, int]) -> Stored:
    return Stored(
        agents=query.agents(store, config),
        url=store.url,
        stats=stats,
        risks=query.sources_at_risk(store, config, now),
        last_sync=query.last_sync(config),
    )


def preview(store: Store, config: Config, now: datetime) -> retain.Plan | None:
    """Return the eviction that the settings ask for now, or None if they never evict."""
    soft, days = config.retain.soft_bytes, config.retain.max_age_days
    if soft is None and days is None:
        return None
    return retain.by_policy(
        store.retention.weights(),
        store.retention.bulks(),
        used=store.retention.used_bytes(),
        now=now,
        soft=soft,
        max_age_days=days,
    )


def page(request: Request) -> Response:
    with borrow_store(request) as (store, config):
        found = stored(
            store,
            config,
            datetime.now(UTC),
            request.app.state.cache.get(store, "stats", store.overview.stats),
        )
        present = [agent for agent in found.agents if agent.sessions or agent.is_there]
        absent = [agent for agent in found.agents if agent not in present]
        return render(
            request,
            "agents.html",
            found=found,
            present=present,
            absent=absent,
            retain=config.retain,
        )


def examine() -> doctor.Report:
    config = settings.load()
    # One of its own: it begins and ends what it reads itself.
    with closing(open_for_reading(config.store)) as store:
        return doctor.examine(store, config)


def examined(request: Request) -> Response:
    """Show the doctor's report on a sample of the store. Nothing is changed."""
    report = examine()
    about = {name: (check.__doc__ or "").removesuffix(".") for name, check in doctor.CHECKS.items()}
    return render(request, "_doctor.html", report=report, about=about)


def retention(request: Request) -> Response:
    """Show what the settings would evict from the store. Nothing is evicted."""
    with borrow_store(request) as (store, config):
        return render(request, "_retention.html", plan=preview(store, config, datetime.now(UTC)))


routes = [
    Route("/agents", page),
    Route("/agents/retention", retention),
    Route("/agents/doctor", examined),
]
