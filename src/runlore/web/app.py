"""The app: all routes behind one guard, and the answers to requests that fail."""

from __future__ import annotations

from collections.abc import Callable

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.gzip import GZipMiddleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp

from ..errors import (
    Ambiguous,
    CheckpointError,
    ModelError,
    NotFound,
    RunloreError,
    SessionNotFound,
    StoreMissing,
)
from ..query.open_stores import Stores
from ..search import QueryError
from . import (
    agents,
    api,
    download,
    events,
    failures,
    home,
    live,
    login,
    reading,
    session,
    sessions,
    static_files,
    usage,
)
from .answer_cache import AnswerCache
from .guard import Door, Guard
from .json_answers import ROOT, problem
from .outline_cache import Outlines
from .reading import Reading
from .rendering import render

ROUTES = [
    *api.routes,
    *home.routes,
    *failures.routes,
    *usage.routes,
    *live.routes,
    *agents.routes,
    *events.routes,
    *reading.routes,
    *sessions.routes,
    *session.routes,
    *download.routes,
    *login.routes,
    *static_files.routes,
]

STATUS: dict[type[Exception], int] = {
    NotFound: 404,
    SessionNotFound: 404,
    CheckpointError: 404,
    Ambiguous: 404,
    StoreMissing: 404,
    QueryError: 400,
    ModelError: 400,
}


def make_app(
    door: Door | None = None,
    stores: Stores | None = None,
    is_ending: Callable[[], bool] = lambda: False,
    reading: Reading | None = None,
) -> ASGIApp:
    """Return the app for this configuration, which is read again with each request. The guard
    comes before everything else, failures included. The caller closes the stores that it passes.
    Streams of events end when `is_ending` is set."""
    # Pages shrink to a fifth; what is sent as it happens is left as it is.
    middleware = [Middleware(GZipMiddleware, minimum_size=1024, compresslevel=5)]
    handlers = {RunloreError: refuse, HTTPException: refuse, Exception: fail}
    app = Starlette(routes=ROUTES, middleware=middleware, exception_handlers=handlers)
    app.state.stores, app.state.door = stores or Stores(), door or Door()
    app.state.is_ending, app.state.reading = is_ending, reading
    app.state.outlines, app.state.cache = Outlines(), AnswerCache()
    return Guard(app, app.state.door)


def refuse(request: Request, error: Exception) -> Response:
    """Return the answer to a request that cannot be met: what is wrong, and what to try."""
    status = (
        error.status_code
        if isinstance(error, HTTPException)
        else next((STATUS[c] for c in type(error).__mro__ if c in STATUS), 500)
    )
    message = (
        "there is no such page"
        if isinstance(error, HTTPException) and status == 404
        else str(error)
    )
    if request.url.path.startswith(ROOT):
        return problem(error, status)
    hint = error.hint if isinstance(error, RunloreError) else None
    return render(
        request,
        "error.html",
        status,
        code=status,
        message=message,
        hint=hint,
        is_empty=isinstance(error, StoreMissing),
    )


def fail(request: Request, error: Exception) -> Response:
    """Return the answer after a bug, or for a store that cannot be read: one line without
    details."""
    if request.url.path.startswith(ROOT):
        return problem(error, 500)
    message = f"this did not work ({type(error).__name__}); `runlore doctor` looks at the store"
    return render(request, "error.html", 500, code=500, message=message, hint=None, is_empty=False)
