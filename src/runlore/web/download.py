"""Downloads of sessions and parts of them, in the formats of `export`: redacted, and streamed."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route

from ..errors import NotFound
from ..export.html import html
from ..export.jsonl import jsonl
from ..export.markdown import markdown
from ..export.selection import Selection, blocks_between, select
from .rendering import borrow_store
from .session import branch_of, number, outline_of, uid_of

FORMATS: dict[str, tuple[str, Callable[[Selection], Iterator[str]]]] = {
    "md": ("text/markdown", markdown),
    "jsonl": ("application/x-ndjson", jsonl),
    "html": ("text/html", html),
}


def export(request: Request) -> Response:
    """Answer with a file of a session, or of its events from `first` to `last`."""
    kind = request.query_params.get("format", "md")
    if kind not in FORMATS:
        raise NotFound(f"there is no format {kind!r}; there are {', '.join(FORMATS)}")
    media, make = FORMATS[kind]
    with borrow_store(request) as (store, _):
        uid, branch = uid_of(request, store), branch_of(request)
        first, last = (
            number(request, "first", 0),
            number(request, "last") if "last" in request.query_params else None,
        )
        # Raise errors before anything is sent.
        blocks_between(outline_of(request, store, uid, branch), first, last)

    def chunks() -> Iterator[bytes]:
        with borrow_store(request) as (store, config):
            taken = select(
                store,
                config,
                uid,
                first=first,
                last=last,
                branch=branch,
                prepared=outline_of(request, store, uid, branch),
            )
            for piece in make(taken):
                yield piece.encode("utf-8", "replace")

    name = re.sub(r"[^\w.-]+", "-", uid, flags=re.ASCII)[:80]  # A header has no other letters.
    return StreamingResponse(
        chunks(),
        media_type=media,
        headers={"content-disposition": f'attachment; filename="{name}.{kind}"'},
    )


def one(request: Request) -> Response:
    """Answer with an event as Markdown, for the clipboard."""
    with borrow_store(request) as (store, config):
        uid, seq = uid_of(request, store), number(request, "seq")
        taken = select(
            store,
            config,
            uid,
            first=seq,
            last=seq,
            branch=None,
            prepared=outline_of(request, store, uid, None),
        )
        return PlainTextResponse("".join(markdown(taken, head=False)))


routes = [Route("/export/{uid:path}", export), Route("/x/markdown/{uid:path}", one)]
