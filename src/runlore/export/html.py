"""A session as one HTML file that needs nothing else: no script, no server, no network. It reads as
on the page."""

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
from .taking import Taken

STYLE = Path(__file__).parent / "static/session.css"


def html(taken: Taken, *, pictures: bool = False) -> Iterator[str]:
    """In pieces. Pictures are left out unless they are asked for: no rule can see a secret in
    one."""
    session, clean = taken.outline.session, taken.clean
    children = {
        uid: replace(child, title=clean(child.title or ""))
        for uid, child in taken.outline.children.items()
    }
    outline = replace(taken.outline, children=children)
    made = _templates().overlay()
    style = (
        f"{STYLE.read_text(encoding='utf-8')}\nbody {{ max-width: 62rem; margin: 0 auto; padding:"
        " 1.5rem 1rem 4rem; }\n"
    )
    hashed = b64encode(sha256(style.encode()).digest()).decode()

    def picture_url(event: SessionEvent, sha: str) -> str:
        with suppress(NotFound):
            found = images.image(taken.store, event.session_uid, event.seq, sha)
            return f"data:{found.kind};base64,{b64encode(found.data).decode()}"
        return ""

    def link(uid: str, seq: int | str | None = None) -> str:
        return f"#{seq}" if uid == session.session_uid and seq not in (None, "") else "#"

    own = {
        "folds": False,
        "link": link,
        "picture_url": picture_url,
        "picture_names": images.named if pictures else lambda _: [],
    }
    head = made.get_template("file.html").render(
        session=session,
        taken=taken,
        title=clean(session.called or ""),
        repo=clean(session.repo or ""),
        style=style,
        hash=hashed,
    )
    before, after = head.split("<!-- blocks -->")
    yield before
    template = made.get_template("_blocks.html", globals=own)
    for blocks, bodies in taken.parts():
        yield template.render(blocks=blocks, bodies=bodies, outline=outline)
    yield after


@cache
def _templates() -> Environment:
    return environment()
