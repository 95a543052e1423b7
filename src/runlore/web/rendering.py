"""Render pages by templates, and open the store for a page. Functions for templates are in
`export.pages`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from starlette.requests import Request
from starlette.responses import HTMLResponse

from .. import query
from ..config import Config
from ..export.markup import markdown
from ..export.pages import environment
from ..store import Store
from .static_files import VERSION

PAGES = (
    ("/", "Home"),
    ("/sessions", "Sessions"),
    ("/errors", "Errors"),
    ("/usage", "Usage"),
    ("/live", "Live"),
    ("/agents", "Agents"),
)
"""The pages in the bar at the top."""


def render(request: Request, template: str, status: int = 200, **values: Any) -> HTMLResponse:
    """Render a page, or a part of one."""
    reading = request.app.state.reading
    text = TEMPLATES.get_template(template).render(
        path=request.url.path,
        has_token=request.app.state.door.token is not None,
        is_demo=getattr(request.state, "is_demo", False),
        reading=reading.state if reading is not None else None,
        **values,
    )
    return HTMLResponse(text, status)


@contextmanager
def borrow_store(request: Request) -> Iterator[tuple[Store, Config]]:
    """Give the store as of one moment, and the settings."""
    with request.app.state.stores.lend() as (store, config):
        request.state.is_demo = query.is_demo(store)
        yield store, config


def warm() -> None:
    """Load templates and the Markdown parser, so that the first page does not wait for them."""
    for name in TEMPLATES.list_templates():
        TEMPLATES.get_template(name)
    markdown("*a*\n\n```python\na = 1\n```")


def with_query(given: dict[str, str], **changed: Any) -> str:
    """Return the query string with some parameters changed and empty ones left out."""
    merged = {
        **given,
        **{name: "" if value is None else str(value) for name, value in changed.items()},
    }
    text = urlencode({name: value for name, value in merged.items() if value != ""})
    return f"?{text}" if text else "?"


TEMPLATES = environment(Path(__file__).parent / "templates")
TEMPLATES.globals.update(pages=PAGES, with_query=with_query, static=f"/static/{VERSION}")
