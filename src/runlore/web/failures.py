"""The pages about errors: recurring ones with their trend, places and fixes, and a field to look
up a pasted one."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from ..errors import NotFound
from ..mine import known_errors
from ..mine.known_errors import Answer, Recurring
from ..query import names as naming
from ..store import Filter, Store
from ..store.values import SessionError
from ..text.words import bounds
from .rendering import borrow_store, render
from .sessions import agent_of, check_agent, facets_of

SHOWN = 100
NAMES = ("q", "agent", "repo", "model", "since", "until", "on", "least")
MET = 100
"""Sessions that are listed of one error."""
_VARIES = re.compile(r"<[a-z]+>|\"")


def parse_params(params: Mapping[str, str], now: datetime) -> tuple[dict[str, str], Filter]:
    """Raises ModelError."""
    given = {name: value.strip() for name in NAMES if (value := params.get(name, "")).strip()}
    since, until = bounds(given.get("since"), given.get("until"), given.get("on"), now)
    return given, Filter(
        agent=agent_of(given),
        repo=given.get("repo"),
        model=given.get("model"),
        since=since,
        until=until,
        parents_only=False,
    )


def find(store: Store, given: dict[str, str], chosen: Filter, now: datetime) -> Answer:
    """Answer with the recurring errors, or with what is known of the errors in a text."""
    if "q" in given:
        answer = known_errors.find_fixes(store, given["q"], chosen, now, limit=20)
    else:
        text = given.get("least", "")
        least = max(1, int(text) if text.isdecimal() and len(text) < 4 else 2)
        answer = known_errors.find_recurring(store, chosen, now, min_sessions=least, limit=SHOWN)
    if not answer.found:
        check_agent(chosen.agent)
    return answer


def known(store: Store, fingerprint: str) -> tuple[Recurring, list[SessionError]]:
    """Raises NotFound."""
    found = known_errors.find_error(store, fingerprint, datetime.now(UTC))
    if found is None:
        raise NotFound(f"no session has an error {fingerprint!r}")
    return found


def recurring_errors(request: Request, store: Store, now: datetime) -> list[Recurring]:
    """Return the recurring errors of all sessions, for the first page."""
    answer: Answer = request.app.state.cache.get(
        store, "recurring", lambda: known_errors.find_recurring(store, Filter(), now, limit=20)
    )
    return answer.found


def page(request: Request) -> Response:
    now = datetime.now(UTC)
    with borrow_store(request) as (store, _):
        given, chosen = parse_params(request.query_params, now)
        question = ("errors", tuple(sorted(given.items())))
        found = request.app.state.cache.get(
            store, question, lambda: find(store, given, chosen, now)
        )
        return render(
            request, "errors.html", given=given, found=found, facets=facets_of(request, store)
        )


def one(request: Request) -> Response:
    """Answer with one error: every session that has it, and its fixes."""
    with borrow_store(request) as (store, _):
        error, met = known(store, request.path_params["fingerprint"])
        titles = store.sessions.labels([row.uid for row in met[:MET]])
        return render(
            request,
            "fault.html",
            error=error,
            met=met[:MET],
            words=words_of(error.template),
            titles=titles,
            names=naming.names(store, [fix.uid for fix in error.fixes]),
        )


def words_of(template: str) -> str:
    """Return a query that finds an error: the longest part of its template that does not vary."""
    longest = max(_VARIES.split(template), key=len).strip()
    return f'"{longest}"' if longest else ""


routes = [Route("/errors", page), Route("/errors/{fingerprint}", one)]
