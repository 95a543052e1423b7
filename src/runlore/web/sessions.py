"""The list of sessions: filters, order, pages, and search. All of its state is in the URL."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from .. import adapters, query
from .. import search as engine
from ..errors import ModelError
from ..query import names as naming
from ..store import Filter, SessionLine, Store
from ..text.words import bounds
from .rendering import borrow_store, render

SHOWN, HITS_PER_PAGE = 50, 20
"""Sessions on a page; of those that were searched for fewer, because each is shown with what was
found in it."""
FARTHEST = 10_000
"""Sessions that paging goes through: whoever is so far down wants a filter."""
SORTS = {
    "ended": "last active",
    "started": "begun",
    "cost": "cost",
    "tokens": "tokens",
    "errors": "errors",
    "duration": "time at work",
    "events": "events",
}
PLAIN = ("agent", "repo", "branch", "model", "outcome", "quality", "machine", "author", "tag")
"""Parameters that are fields of a `Filter` as they are."""
NAMES = (
    "q",
    *PLAIN,
    "parent",
    "since",
    "until",
    "on",
    "min_usd",
    "errors",
    "pinned",
    "subagents",
    "sort",
    "page",
)
_LAST_WORD = re.compile(r"(?:^|\s)[^\W_][\w.-]{2,}\Z")
"""The last word of a query that is being typed, which may be incomplete. It has at least three
letters: two are the beginning of too many words."""


class SessionsQuestion(msgspec.Struct, frozen=True, kw_only=True):
    """The question in a URL. `given` has its parameters unchanged, for links that change some."""

    text: str
    chosen: Filter
    sort: str
    page: int
    given: dict[str, str]

    @property
    def is_narrowed(self) -> bool:
        """True if it has more than words and an order."""
        return bool(self.given.keys() - {"q", "sort", "page"})

    @property
    def labels(self) -> dict[str, str]:
        """The filters as the page calls them, by the field of the filter."""
        labels = {name: f"{name}:{value}" for name, value in self.given.items()}
        if "on" in labels:
            labels["since"] = labels["until"] = labels["on"]
        renamed = {
            "errors": "“with errors”",
            "pinned": "“pinned”",
            "min_usd": f"“cost from {self.given.get('min_usd')}”",
            "parent_uid": labels.get("parent", ""),
        }
        return labels | renamed


class SessionsPage(msgspec.Struct, frozen=True, kw_only=True):
    """A page of sessions. In a search, `hits` has the matching events of each."""

    lines: list[SessionLine]
    names: list[str]
    hits: dict[str, engine.Hit]
    total: int
    page: int
    pages: int
    remarks: list[str]
    seconds: float


def parse_params(params: Mapping[str, str], now: datetime) -> SessionsQuestion:
    """Return the question that URL parameters ask. Raises ModelError for invalid ones."""
    given = {name: value.strip() for name in NAMES if (value := params.get(name, "")).strip()}
    sort = given.get("sort", "ended")
    if sort not in SORTS and sort != "relevance":
        raise ModelError(f"sort={sort!r} is not one of {', '.join(SORTS)}, relevance")
    plain: dict[str, Any] = {name: given.get(name) for name in PLAIN}
    plain["agent"] = agent_of(given)
    since, until = bounds(given.get("since"), given.get("until"), given.get("on"), now)
    chosen = Filter(
        since=since,
        until=until,
        min_usd=_number(given, "min_usd"),
        errors=bool(given.get("errors")),
        pinned=bool(given.get("pinned")),
        parents_only=not (given.get("subagents") or given.get("parent")),
        parent_uid=given.get("parent"),
        **plain,
    )
    page = int(_number(given, "page") or 1)
    return SessionsQuestion(
        text=given.get("q", ""),
        chosen=chosen,
        sort=sort,
        page=max(1, min(page, FARTHEST // HITS_PER_PAGE)),
        given=given,
    )


def agent_of(given: Mapping[str, str]) -> str | None:
    """Return an agent under the name that its sessions have in the store."""
    name = given.get("agent")
    return name and (adapters.find_name(name) or name)


def check_agent(agent: str | None) -> None:
    """Raise ModelError if there is no such agent."""
    if agent is not None and agent not in adapters.names():
        raise ModelError(adapters.describe_unknown(agent))


def find(store: Store, wanted: SessionsQuestion, *, is_typing: bool = False) -> SessionsPage:
    """Return the page of sessions for a question. Raises QueryError."""
    if not wanted.text:
        total = store.sessions.count(wanted.chosen)
        if not total:
            check_agent(wanted.chosen.agent)
        sort = wanted.sort if wanted.sort in SORTS else "ended"
        lines = store.sessions.select(
            wanted.chosen, sort=sort, limit=SHOWN, offset=(wanted.page - 1) * SHOWN
        )
        remarks = (
            []
            if total
            else query.explain_exclusion(wanted.chosen, wanted.labels, store.sessions.count)
        )
        return _build_page(store, wanted, lines, total, remarks)
    asked_for = _among(
        engine.parse(unfinished(wanted.text) if is_typing else wanted.text), wanted.chosen
    )
    order = "newest" if wanted.given.get("sort") == "ended" else "relevance"
    answer = engine.search(store, asked_for, limit=wanted.page * HITS_PER_PAGE, sort=order)
    hits = answer.hits[(wanted.page - 1) * HITS_PER_PAGE :]
    remarks = [
        *(
            [f"no session has all words; missing: {', '.join(answer.missing)}"]
            if answer.missing and answer.hits
            else []
        )
    ]
    if answer.ignored:
        remarks.append(f"not words, and ignored: {' '.join(answer.ignored)}")
    if not answer.hits and not is_typing:
        remarks += [*engine.remarks(wanted.text), *_explain_nothing(store, wanted, asked_for)]
    found = _build_page(store, wanted, [hit.session for hit in hits], answer.total, remarks)
    return msgspec.structs.replace(
        found, hits={hit.session.uid: hit for hit in hits}, seconds=answer.seconds
    )


def _explain_nothing(store: Store, wanted: SessionsQuestion, asked_for: engine.Query) -> list[str]:
    """Return which filter of the page excludes what the words find; without one, which field of
    the query does."""
    if not wanted.is_narrowed:
        return engine.blame(store, asked_for)
    words = engine.parse(wanted.text)

    def count_matches(chosen: Filter) -> int:
        return engine.search(store, _among(words, chosen), limit=HITS_PER_PAGE).total

    return query.explain_exclusion(wanted.chosen, wanted.labels, count_matches)


def _among(asked_for: engine.Query, chosen: Filter) -> engine.Query:
    """Return the query for the sessions that a filter chooses. A search finds subagents too."""
    chosen = chosen._replace(parents_only=False)
    if chosen == Filter(parents_only=False):
        return asked_for
    return msgspec.structs.replace(asked_for, sessions=(*asked_for.sessions, (chosen,)))


def unfinished(text: str) -> str:
    """Return a query whose last word may be only begun."""
    return f"{text}*" if _LAST_WORD.search(text) else text


def _build_page(
    store: Store,
    wanted: SessionsQuestion,
    lines: list[SessionLine],
    total: int,
    remarks: Sequence[str] = (),
) -> SessionsPage:
    pages = max(1, -(-min(total, FARTHEST) // (HITS_PER_PAGE if wanted.text else SHOWN)))
    names = naming.short_ids(store, lines)
    return SessionsPage(
        lines=lines,
        names=names,
        hits={},
        total=total,
        page=wanted.page,
        pages=pages,
        remarks=list(remarks),
        seconds=0.0,
    )


def _number(given: dict[str, str], name: str) -> float | None:
    try:
        value = float(given[name]) if name in given else None
    except ValueError:
        raise ModelError(f"{name}={given[name]!r} is not a number") from None
    if value is not None and not 0 <= value < 1e9:
        raise ModelError(f"{name}={given[name]!r} is not a number that can be meant")
    return value


# ── pages ─────────────────────────────────────────────────────────────────────────────────────────
def page(request: Request) -> Response:
    with borrow_store(request) as (store, _):
        wanted = parse_params(request.query_params, datetime.now(UTC))
        return render(
            request,
            "sessions.html",
            wanted=wanted,
            found=find(store, wanted),
            facets=facets_of(request, store, wanted),
            sorts=SORTS,
            is_empty=query.is_empty(store),
        )


def facets_of(
    request: Request, store: Store, wanted: SessionsQuestion | None = None, limit: int = 30
) -> dict[str, list[tuple[str, int]]]:
    """Return the values that sessions can be filtered by, beside what is chosen already."""
    text, chosen = (wanted.text, wanted.chosen) if wanted else ("", Filter())

    def matches(others: Filter) -> set[int]:
        asked_for = _among(engine.parse(text), others)
        return set(engine.search(store, asked_for, limit=HITS_PER_PAGE).numbers)

    if text:
        chosen = chosen._replace(parents_only=False)
    # `3d` is another moment with every load, so it counts by its words and to the minute.
    words = [wanted.given.get(name) for name in ("since", "until", "on")] if wanted else []
    since, until = (
        moment and moment.replace(second=0, microsecond=0)
        for moment in (chosen.since, chosen.until)
    )
    found: dict[str, list[tuple[str, int]]] = request.app.state.cache.get(
        store,
        ("facets", chosen._replace(since=since, until=until), *words, text, limit),
        lambda: query.facets(store, limit, chosen, matches if text else None),
    )
    return found


def results(request: Request) -> Response:
    """The list alone, for search while typing."""
    with borrow_store(request) as (store, _):
        wanted = parse_params(request.query_params, datetime.now(UTC))
        found = find(store, wanted, is_typing=True)
        return render(request, "_results.html", wanted=wanted, found=found, is_empty=False)


routes = [Route("/sessions", page), Route("/sessions/results", results)]
