"""JSON for everything that a page shows, under /api/v1, and the OpenAPI document that describes it.

An endpoint is a function with the type of its answer: the document is made from the same list as
the routes, so it cannot differ. Fields are added, none is renamed or taken away. Amounts are in
USD; times in ISO 8601.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, date, datetime
from typing import Any, ClassVar, Self

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from .. import __version__, doctor, query
from .. import search as engine
from ..answers import describe
from ..config import Config
from ..export.outline import Turn, bodies_of
from ..live.skills import Rate
from ..mine.known_errors import Answer, Recurring
from ..model import Session, SessionEvent
from ..retention.policy import Plan
from ..store import SessionLine, Store
from ..store.values import Family, SessionError
from ..timeline import Branch, model_context
from ..usage import Row, Zone
from ..usage.budget import Spent
from ..usage.explain import Check, Explanation, check, explain
from ..usage.report import Alone
from ..usage.waste import wasted
from . import agents, failures, home, live, live_records, session, sessions, usage
from .charts import Stack
from .home import Active
from .json_answers import ROOT, Problem, answer
from .live import LiveLine
from .rendering import borrow_store
from .session import Fault, Part

MAX_EVENTS = 500
"""Events of one answer; `first` of the next is one more than the last seq."""


# ── the shapes of answers ─────────────────────────────────────────────────────────────────────────
class BriefTotals(msgspec.Struct, frozen=True, kw_only=True):
    """The totals of some calls."""

    PRESENTS: ClassVar = (Row,)

    key: str | None
    calls: int
    input_tokens: int
    output_tokens: int
    cache_read_tokens: int
    cache_write_tokens: int
    reasoning_tokens: int
    total_tokens: int
    usd: float
    unpriced: int
    recorded: int

    @classmethod
    def of(cls, row: Row) -> Self:
        return cls(**{name: getattr(row, name) for name in cls.__struct_fields__})


class AloneTotals(BriefTotals, frozen=True, kw_only=True):
    """The totals of a session without its subagents."""

    subagents: int
    """The number of all subagents below it."""

    @classmethod
    def without(cls, alone: Alone) -> Self:
        totals = {name: getattr(alone.row, name) for name in BriefTotals.__struct_fields__}
        return cls(**totals, subagents=alone.subagents)


class HomeAnswer(msgspec.Struct, frozen=True, kw_only=True):
    active: list[Active]
    runs: list[LiveLine]
    sessions: int
    subagents: int
    events: int
    today: BriefTotals
    week: BriefTotals
    month: BriefTotals
    daily_usd: Stack
    daily_tokens: Stack
    days: dict[date, query.Day]
    budgets: list[Spent]
    last_sync: datetime | None


class HitAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """A session, and its events that match the search."""

    session: SessionLine
    name: str
    events: list[engine.EventHit]
    missing: list[str]


class SessionsAnswer(msgspec.Struct, frozen=True, kw_only=True):
    sessions: list[HitAnswer]
    total: int
    page: int
    pages: int
    remarks: list[str]
    seconds: float


class Facet(msgspec.Struct, frozen=True, array_like=True):
    """A value that sessions can be filtered by, and the number of sessions that remain then."""

    value: str
    sessions: int


class SessionAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """A session without its events. `parts` are what the page loads at once; `resume` is the
    agent's command that takes it up; `faults` has by seq the errors that are known again elsewhere,
    each with what fixed it; `family` has the figures with its subagents."""

    session: Session
    family: Family
    branches: list[Branch]
    turns: list[Turn]
    parts: list[Part]
    children: list[SessionLine]
    resume: str | None
    faults: dict[int, Fault]


class EventAnswer(msgspec.Struct, frozen=True, kw_only=True):
    event: SessionEvent
    body: str


class ViewedEvent(msgspec.Struct, frozen=True, kw_only=True):
    """An event in the model's view. When `is_cleared` the model did not see its text."""

    event: SessionEvent
    is_cleared: bool
    body: str


class ErrorAnswer(msgspec.Struct, frozen=True, kw_only=True):
    error: Recurring
    sessions: list[SessionError]


class UsageAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """`alone` has, in a report by session, the totals of sessions with subagents, without these."""

    by: str
    rows: list[BriefTotals]
    total: BriefTotals
    alone: list[AloneTotals]
    titles: dict[str, str]
    budgets: list[Spent]


class WasteAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The figures overlap: an attempt that failed may lie on an abandoned line."""

    abandoned: BriefTotals
    retries: BriefTotals
    failed: BriefTotals
    any: BriefTotals
    of: BriefTotals
    sessions: int


# ── the questions ─────────────────────────────────────────────────────────────────────────────────
def get_home(request: Request, store: Store, config: Config) -> HomeAnswer:
    """The content of the first page."""
    by = "agent" if request.query_params.get("by") == "agent" else "model"
    found = home.home(store, config, by, datetime.now(UTC), Zone())
    same = {name: getattr(found, name) for name in HomeAnswer.__struct_fields__}
    return HomeAnswer(
        **{
            **same,
            **{name: BriefTotals.of(getattr(found, name)) for name in ("today", "week", "month")},
        }
    )


def get_sessions(request: Request, store: Store, _: Config) -> SessionsAnswer:
    """A page of sessions, chosen and searched as on the page."""
    found = sessions.find(store, sessions.parse_params(request.query_params, datetime.now(UTC)))
    lines = []
    for line, name in zip(found.lines, found.names, strict=True):
        hit = found.hits.get(line.uid)
        lines.append(
            HitAnswer(
                session=line,
                name=name,
                events=hit.events if hit else [],
                missing=hit.missing if hit else [],
            )
        )
    same = {name: getattr(found, name) for name in ("total", "page", "pages", "remarks", "seconds")}
    return SessionsAnswer(sessions=lines, **same)


def get_facets(request: Request, store: Store, _: Config) -> dict[str, list[Facet]]:
    """The values that sessions can be filtered by, each with the number of sessions that remain if
    it is chosen too. Takes the filters of `/sessions`."""
    wanted = sessions.parse_params(request.query_params, datetime.now(UTC))
    found = sessions.facets_of(request, store, wanted, limit=50)
    return {name: [Facet(*pair) for pair in pairs] for name, pairs in found.items()}


def get_session(request: Request, store: Store, _: Config) -> SessionAnswer:
    """One session: its branches, turns and what came out of it."""
    found = session.outline_of(
        request, store, session.uid_of(request, store), session.branch_of(request)
    )
    return SessionAnswer(
        session=found.session,
        family=found.family,
        branches=found.branches,
        turns=found.turns,
        parts=session.parts_of(found),
        children=list(found.children.values()),
        resume=session.resume_command(found.session),
        faults=session.faults_of(session.stored_digest(store, found.session.session_uid)),
    )


def get_events(request: Request, store: Store, _: Config) -> list[EventAnswer]:
    """Events with their texts, from `first` to `last`, at most 500."""
    uid, first = session.uid_of(request, store), session.number(request, "first", 0)
    last = session.number(request, "last", first + 10 * MAX_EVENTS)
    events = store.sessions.events(uid, first, last)[:MAX_EVENTS]
    bodies = bodies_of(store, uid, (event.seq for event in events))
    return [EventAnswer(event=event, body=bodies.get(event.seq, "")) for event in events]


def get_context(request: Request, store: Store, _: Config) -> list[ViewedEvent]:
    """The last 500 events that the model saw after event `seq`."""
    uid, seq = session.uid_of(request, store), session.number(request, "seq")
    query.event_at(store, uid, seq)
    view = model_context(session.outline_of(request, store, uid, 0).events, seq)[-MAX_EVENTS:]
    bodies = bodies_of(store, uid, (one.event.seq for one in view if not one.is_cleared))
    return [
        ViewedEvent(event=one.event, is_cleared=one.is_cleared, body=bodies.get(one.event.seq, ""))
        for one in view
    ]


def get_raw(request: Request, store: Store, _: Config) -> list[str]:
    """The agent's own records of event `seq`."""
    uid, seq = session.uid_of(request, store), session.number(request, "seq")
    return [record.decode("utf-8", "replace") for record in query.raw_records(store, uid, seq)]


def get_matches(request: Request, store: Store, _: Config) -> list[engine.EventHit]:
    """The events of a session that contain the words of `q`."""
    return session.places(store, session.uid_of(request, store), request.query_params.get("q", ""))


def get_errors(request: Request, store: Store, _: Config) -> Answer:
    """Recurring errors; with `q` what is known of the errors in this text."""
    now = datetime.now(UTC)
    return failures.find(store, *failures.parse_params(request.query_params, now), now)


def get_error(request: Request, store: Store, _: Config) -> ErrorAnswer:
    """One error: every session that has it, and its fixes."""
    error, met = failures.known(store, request.path_params["fingerprint"])
    return ErrorAnswer(error=error, sessions=met)


def get_usage(request: Request, store: Store, config: Config) -> UsageAnswer:
    """Usage and cost `by` day, model, agent, repo, session and more."""
    zone, now = Zone(), datetime.now(UTC)
    found = usage.find_usage(
        store, config, usage.parse_params(request.query_params, now, zone), now, zone
    )
    return UsageAnswer(
        by=found.report.by,
        rows=[BriefTotals.of(row) for row in found.report.rows],
        total=BriefTotals.of(found.report.total),
        alone=[AloneTotals.without(one) for one in found.report.alone.values()],
        titles={uid: title or "" for uid, (_, title, _) in found.labels.items()},
        budgets=found.budgets,
    )


def get_explained(request: Request, store: Store, config: Config) -> Explanation:
    """Every call of a session, and why it counts as it does. Its amounts are in units of 1e-12
    USD."""
    return explain(store, config, session.uid_of(request, store))


def get_waste(request: Request, store: Store, _: Config) -> WasteAnswer:
    """Paid calls that led nowhere, in the last 30 days unless `since` is given."""
    wanted = usage.parse_params(request.query_params, datetime.now(UTC), Zone())
    found = wasted(store, wanted.chosen)
    rows = {
        name: BriefTotals.of(getattr(found, name))
        for name in ("abandoned", "retries", "failed", "any", "of")
    }
    return WasteAnswer(sessions=found.sessions, **rows)


def get_doubts(request: Request, store: Store, _: Config) -> Check:
    """Calls without a certain price, and usage that no transcript records. Amounts are in units of
    1e-12 USD."""
    params = {"since": "all", **request.query_params}
    return check(store, usage.parse_params(params, datetime.now(UTC), Zone()).chosen)


def get_live(request: Request, _: Store, config: Config) -> list[live.LiveLine]:
    """The newest runs that agents log themselves."""
    return live.lines(config, request.query_params.get("status"))


def get_run(request: Request, _: Store, config: Config) -> live.Run:
    """One run: state, path, checkpoints; with `from` and `to` the changes between two
    checkpoints."""
    first, second = request.query_params.get("from"), request.query_params.get("to")
    return live.run(
        config, request.path_params["id"], (first, second) if first and second else None
    )


def get_skills(_: Request, __: Store, config: Config) -> list[Rate]:
    """The pass rates of skills, for each model."""
    return live.rates(config)


def get_agents(request: Request, store: Store, config: Config) -> agents.Stored:
    """The agents on this machine, and how much is stored of each."""
    return agents.stored(
        store,
        config,
        datetime.now(UTC),
        request.app.state.cache.get(store, "stats", store.overview.stats),
    )


def get_retention(_: Request, store: Store, config: Config) -> Plan | None:
    """The sessions that the settings would evict now; null if they never evict."""
    return agents.preview(store, config, datetime.now(UTC))


def get_doctor(_: Request, __: Store, ___: Config) -> doctor.Report:
    """The doctor's report on a sample of the store."""
    return agents.examine()


class Endpoint(msgspec.Struct, frozen=True):
    """A path with its function, the type of its answer, and its parameters."""

    path: str
    ask: Callable[[Request, Store, Config], Any]
    type: Any
    params: tuple[str, ...] = ()


ENDPOINTS = [
    Endpoint("/home", get_home, HomeAnswer, ("by",)),
    Endpoint("/sessions", get_sessions, SessionsAnswer, sessions.NAMES),
    Endpoint("/facets", get_facets, dict[str, list[Facet]], sessions.NAMES),
    Endpoint("/session/{uid:path}", get_session, SessionAnswer, ("branch",)),
    Endpoint("/events/{uid:path}", get_events, list[EventAnswer], ("first", "last")),
    Endpoint("/context/{uid:path}", get_context, list[ViewedEvent], ("seq",)),
    Endpoint("/raw/{uid:path}", get_raw, list[str], ("seq",)),
    Endpoint("/find/{uid:path}", get_matches, list[engine.EventHit], ("q",)),
    Endpoint("/errors", get_errors, Answer, failures.NAMES),
    Endpoint("/errors/{fingerprint}", get_error, ErrorAnswer),
    Endpoint("/usage", get_usage, UsageAnswer, usage.NAMES),
    Endpoint("/usage/waste", get_waste, WasteAnswer, usage.NAMES),
    Endpoint("/usage/doubts", get_doubts, Check, usage.NAMES),
    Endpoint("/usage/explain/{uid:path}", get_explained, Explanation),
    Endpoint("/live", get_live, list[live.LiveLine], ("status",)),
    Endpoint("/live/{id}", get_run, live.Run, ("from", "to")),
    Endpoint("/skills", get_skills, list[Rate]),
    Endpoint("/agents", get_agents, agents.Stored),
    Endpoint("/retention", get_retention, Plan | None),
    Endpoint("/doctor", get_doctor, doctor.Report),
]


def _route(endpoint: Endpoint) -> Route:
    def respond(request: Request) -> Response:
        with borrow_store(request) as (store, config):
            return answer(endpoint.ask(request, store, config))

    return Route(ROOT + endpoint.path, respond, name=endpoint.ask.__name__)


# ── the document ──────────────────────────────────────────────────────────────────────────────────
def openapi(_: Request) -> Response:
    return answer(document())


def document() -> dict[str, Any]:
    """OpenAPI 3.1 of all endpoints."""
    schemas, components = describe.schema_components(
        [
            *(endpoint.type for endpoint in ENDPOINTS),
            live_records.REQUEST,
            live_records.ANSWER,
            Problem,
        ],
        ref_template="#/components/schemas/{name}",
    )
    wrong = {
        "description": "why there is no answer",
        "content": _content({"type": "object", "properties": {"error": schemas[-1]}}),
    }
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "runlore",
            "version": __version__,
            "description": (__doc__ or "").partition("\n\n")[2].strip(),
        },
        "paths": {
            ROOT + endpoint.path.replace(":path}", "}"): {
                "get": {
                    "operationId": endpoint.ask.__name__.removeprefix("get_"),
                    "summary": (endpoint.ask.__doc__ or "").strip(),
                    "parameters": _parameters(endpoint),
                    "responses": {
                        "200": {"description": "the answer", "content": _content(schema)},
                        "4XX": wrong,
                    },
                }
            }
            for endpoint, schema in zip(ENDPOINTS, schemas, strict=False)
        }
        | {live_records.PATH: live_records.described(schemas[-3], schemas[-2], wrong)},
        "components": {
            "schemas": components,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{}, {"token": []}],
    }


def _content(schema: dict[str, Any]) -> dict[str, Any]:
    return {"application/json": {"schema": schema}}


def _parameters(endpoint: Endpoint) -> list[dict[str, Any]]:
    named = [
        part.strip("{}").partition(":")[0]
        for part in endpoint.path.split("/")
        if part.startswith("{")
    ]
    return [
        *(
            {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}
            for name in named
        ),
        *({"name": name, "in": "query", "schema": {"type": "string"}} for name in endpoint.params),
    ]


routes = [
    Route(f"{ROOT}/openapi.json", openapi),
    *map(_route, ENDPOINTS),
    *live_records.routes,
]
