"""From values to pages: the templates, the words they may use, and how a page gets a store.

Whatever a template prints is cleaned of what a screen would obey (escapes, characters that turn text around) and escaped, unless it
was made safe by `export.markup`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

import jinja2
from markupsafe import Markup, escape
from starlette.requests import Request
from starlette.responses import HTMLResponse

from .. import _words
from .._text import clean
from ..config import Config
from ..store import Store
from ._files import VERSION

FOLDERS = (Path(__file__).parent / "templates", Path(__file__).parents[1] / "export/templates")


def render(request: Request, template: str, status: int = 200, **values: Any) -> HTMLResponse:
    """A page, or a part of one."""
    text = TEMPLATES.get_template(template).render(path=request.url.path, has_token=request.app.state.door.token is not None, **values)
    return HTMLResponse(text, status)


@contextmanager
def lent(request: Request) -> Iterator[tuple[Store, Config]]:
    """The store as it is at one moment, and the settings."""
    with request.app.state.stores.lend() as found:
        yield found


# ── the words of templates ───────────────────────────────────────────────────────────────────────────────────────────
def when(value: str | datetime | None, pattern: str = "ago") -> Markup:
    """A time, said as people do, and exactly when asked."""
    moment = datetime.fromisoformat(value) if isinstance(value, str) else value
    if moment is None:
        return Markup("<span class=dim>?</span>")
    text = _words.ago(moment, datetime.now(UTC)) if pattern == "ago" else _words.local(moment, pattern)
    exact = _words.local(moment, "%Y-%m-%d %H:%M:%S")
    return Markup('<time datetime="{}" title="{}">{}</time>').format(moment.isoformat(), exact, text)


def usd(value: float | None) -> str:
    """$0.0042, $0.37, $12.40, $1,234: as many digits as say something."""
    if value is None:
        return "–"
    if 0 < value < 0.01:
        return f"${value:.4f}"
    return f"${value:,.2f}" if value < 1000 else f"${value:,.0f}"


def session_url(uid: str, seq: int | None = None) -> str:
    """Agents choose ids: whatever is in one stays one part of the path."""
    return f"/s/{quote(uid, safe=':')}" + ("" if seq is None else f"#{seq}")


def marked(text: str, marks: list[tuple[int, int]]) -> Markup:
    """The text with what was found in it marked."""
    parts, at = [], 0
    for first, last in marks:
        parts += [escape(clean(text[at:first])), Markup("<mark>"), escape(clean(text[first:last])), Markup("</mark>")]
        at = last
    return Markup("").join([*parts, escape(clean(text[at:]))])


def with_query(given: dict[str, str], **changed: Any) -> str:
    """The same question with some of it changed; what is empty is left out."""
    merged = {**given, **{name: "" if value is None else str(value) for name, value in changed.items()}}
    text = urlencode({name: value for name, value in merged.items() if value != ""})
    return f"?{text}" if text else "?"


def _finish(value: Any) -> Any:
    """Jinja's last step for each value it prints."""
    return clean(value) if isinstance(value, str) and not isinstance(value, Markup) else value


TEMPLATES = jinja2.Environment(
    loader=jinja2.FileSystemLoader([str(folder) for folder in FOLDERS]),
    autoescape=True,
    undefined=jinja2.StrictUndefined,
    finalize=_finish,
    trim_blocks=True,
    lstrip_blocks=True,
    auto_reload=False,
)
TEMPLATES.filters.update(
    when=when,
    usd=usd,
    short=_words.short,
    size=_words.size,
    duration=_words.duration,
    brief=_words.brief,
    count=_words.count,
    marked=marked,
    repo=lambda name: (name or "").rpartition("/")[2],
)
PAGES = (("/sessions", "Sessions"),)
"""In the bar at the top."""

TEMPLATES.globals.update(pages=PAGES, session_url=session_url, with_query=with_query, static=f"/static/{VERSION}")
