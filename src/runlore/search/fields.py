"""The sessions that the fields of a query choose."""

from __future__ import annotations

from .. import adapters
from ..query import resolve
from ..store import Filter, Store
from .syntax import Query, QueryError


def allowed(store: Store, query: Query) -> set[int] | None:
    """Return the sessions that the query's fields choose; None means all.

    Raises QueryError, NotFound.
    """
    chosen: set[int] | None = None
    for either in query.sessions:
        here = set().union(*(_numbers(store, one) for one in either))
        chosen = here if chosen is None else chosen & here
    return chosen


def _numbers(store: Store, chosen: Filter) -> set[int]:
    """Return the sessions that a filter chooses.

    A session or agent that chooses none must at least exist.
    """
    is_latest = (chosen.name or "").lower().partition(":")[0] == "latest"
    numbers = set() if is_latest else store.sessions.numbers(chosen)
    if not numbers and chosen.name is not None:
        numbers = store.sessions.numbers(
            Filter(name=resolve(store, chosen.name), parents_only=False)
        )
    if not numbers and chosen.agent is not None and chosen.agent not in adapters.names():
        name = adapters.find_name(chosen.agent)
        if name is None:
            raise QueryError(adapters.describe_unknown(chosen.agent))
        numbers = store.sessions.numbers(chosen._replace(agent=name))
    return numbers
