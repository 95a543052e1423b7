"""A session as one self-contained HTML file: no script, no server, no network.

It looks like the web page.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from hashlib import sha256
from pathlib import Path

from jinja2 import Environment
from msgspec.structs import replace

from ..errors import NotFound
from ..model import SessionEvent
from . import images
from .pages import environment
from .selection import Selection

STYLE = Path(__file__).parent / "static/session.css"


def html(selection: Selection, *, pictures: bool = False) -> Iterator[str]:
    """Yield the file in parts.

    Pictures are left out by default: no redaction rule can see a secret in one.
    """
    session, clean = selection.outline.session, selection.clean
    children = {
        uid: replace(child, title=clean(child.title or ""))
        for uid, child in selection.outline.children.items()
    }
    outline = replace(selection.outline, children=children)
    templates = _templates().overlay()
    style = (
        f"{STYLE.read_text(encoding='utf-8')}\nbody {{ max-width: 62rem; margin: 0 auto; padding:"
        " 1.5rem 1rem 4rem; }\n"
    )
    hashed = b64encode(sha256(style.encode()).digest()).decode()

    def picture_url(event: SessionEvent, sha: str) -> str:
        with suppress(NotFound):
            picture = images.image(selection.store, event.session_uid, event.seq, sha)
            return f"data:{picture.kind};base64,{b64encode(picture.data).decode()}"
        return ""

    def link(uid: str, seq: int | str | None = None) -> str:
        return f"#{seq}" if uid == session.session_uid and seq not in (None, "") else "#"

    own = {
        "folds": False,
        "link": link,
        "picture_url": picture_url,
        "picture_names": images.named if pictures else lambda _: [],
    }
    head = templates.get_template("file.html").render(
        session=session,
        selection=selection,
        title=clean(session.called or ""),
        repo=clean(session.repo or ""),
        style=style,
        hash=hashed,
    )
    before, after = head.split("<!-- blocks -->")
    yield before
    template = templates.get_template("_blocks.html", globals=own)
    for blocks, bodies in selection.parts():
        yield template.render(blocks=blocks, bodies=bodies, outline=outline)
    yield after


@cache
def _templates() -> Environment:
    return environment()
