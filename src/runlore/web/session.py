"""The page of one session, and the parts, texts and views that it loads later."""

from __future__ import annotations

import json
from contextlib import suppress
from datetime import UTC, datetime, timedelta

import msgspec
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from .. import adapters, query
from .. import search as engine
from ..errors import NotFound, RunloreError, StoreError
from ..export import images
from ..export.outline import Block, Outline, bodies_of, texts
from ..export.pages import cost_figure
from ..model import Digest, Fix, Session
from ..query import resuming
from ..store import Store
from ..timeline import model_context
from .charts import strip
from .digest import build_sections
from .rendering import borrow_store, render
from .sessions import unfinished

PART = 60
"""Blocks that are shown at once: a few screens."""
RUNNING = timedelta(minutes=10)
"""A session that was written to so lately may be going on."""
MAX_CONTEXT_EVENTS = 80
"""Events of the model's view on one page: the latest come first."""
MAX_RAW_RECORDS = 400_000
"""Characters of a native record that are shown."""
MAX_RELATED = 8
"""Sessions about the same that are listed."""
MAX_MATCHES = 100
"""Places that finding in a session gives."""


class Part(msgspec.Struct, frozen=True):
    """A run of blocks that is loaded at once. `first` and `last` are the seqs it covers."""

    number: int
    first: int
    last: int
    blocks: int


def parts_of(found: Outline) -> list[Part]:
    parts = []
    for number, start in enumerate(range(0, len(found.blocks), PART)):
        some = found.blocks[start : start + PART]
        parts.append(
            Part(
                number,
                some[0].event.seq,
                max(seq for block in some for seq in block.seqs),
                len(some),
            )
        )
    return parts


def blocks_in(found: Outline, part: int) -> list[Block]:
    if not 0 <= part <= len(found.blocks) // PART:
        raise NotFound(f"there is no part {part} of {found.session.session_uid}")
    return found.blocks[part * PART : (part + 1) * PART]


# ── what is asked ─────────────────────────────────────────────────────────────────────────────────
def uid_of(request: Request, store: Store) -> str:
    """Return the uid of the session that a URL names, by its uid or another name."""
    return query.resolve(store, request.path_params["uid"])


def outline_of(request: Request, store: Store, uid: str, branch: int | None) -> Outline:
    """Return the outline, from the cache if nothing changed. Raises NotFound."""
    found: Outline = request.app.state.outlines.get(store, uid, branch)
    return found


def number(request: Request, name: str, default: int | None = None) -> int:
    text = request.query_params.get(name)
    if text is None and default is not None:
        return default
    if text is None or not text.isdecimal() or len(text) > 15:
        raise NotFound(f"{name}={text or ''} is not a number")
    return int(text)


def branch_of(request: Request) -> int | None:
    return None if request.query_params.get("branch") == "all" else number(request, "branch", 0)


def resume_command(session: Session) -> str | None:
    """Return the agent's own command that resumes a session; None if there is none that is safe
    to type."""
    try:
        return resuming.in_shell(resuming.resume_command(session), session.cwd)
    except RunloreError:
        return None


def block_with(found: Outline, seq: int) -> int | None:
    """Return the index of the block that shows an event: its own, or that of its call."""
    blocks = enumerate(found.blocks)
    shown = [(block.event.seq != seq, n) for n, block in blocks if seq in block.seqs]
    return min(shown)[1] if shown else None


def outline_with(request: Request, store: Store, uid: str, seq: int) -> tuple[Outline, int | None]:
    """Return the outline of a branch that shows an event, and the index of its block there.

    It is the branch that the URL names, if that shows the event. The index is None if no branch
    does.
    """
    found = outline_of(request, store, uid, branch_of(request))
    at = block_with(found, seq)
    if at is None:
        numbers = (n for n, line in enumerate(found.branches) if seq in line.seqs)
        if (branch := next(numbers, None)) is not None:
            found = outline_of(request, store, uid, branch)
            at = block_with(found, seq)
    return found, at


# ── pages ─────────────────────────────────────────────────────────────────────────────────────────
def page(request: Request) -> Response:
    with borrow_store(request) as (store, _):
        uid = uid_of(request, store)
        if "at" in request.query_params:
            found, index = outline_with(request, store, uid, number(request, "at"))
            at = (index or 0) // PART
        else:
            found = outline_of(request, store, uid, branch_of(request))
            at = number(request, "part", 0)
        parts = parts_of(found)
        shown = blocks_in(found, at) if parts else []
        session = found.session
        return render(
            request,
            "session.html",
            outline=found,
            session=session,
            label=label_of(session.flavor),
            parts=parts,
            part=at,
            blocks=shown,
            bodies=texts(store, uid, shown),
            words=request.query_params.get("q", ""),
            strip=strip(found),
            resume=resume_command(session),
            is_running=session.ended_at is not None
            and abs(datetime.now(UTC) - session.ended_at) < RUNNING,
            is_inside=False,
            faults=faults_of(digest := stored_digest(store, uid)),
            digest=build_sections(digest) if digest else [],
        )


def stored_digest(store: Store, uid: str) -> Digest | None:
    """Return the digest of a session; None if there is none yet, or a damaged one, which the
    doctor reports."""
    try:
        return store.digests.get(uid)
    except StoreError:
        return None


class Fault(msgspec.Struct, frozen=True):
    """An error in the session's digest: its name and its fix."""

    fingerprint: str
    fix: Fix | None


def faults_of(digest: Digest | None) -> dict[int, Fault]:
    """Return the errors of a session by the event at which they were seen."""
    if digest is None:
        return {}
    fixes = {fix.fingerprint: fix for fix in digest.fixes if fix.how is not None and fix.is_shown}
    names = {seq: error.signature.fingerprint for error in digest.errors for seq in error.seqs}
    return {seq: Fault(name, fixes.get(name)) for seq, name in names.items()}


def label_of(flavor: str) -> str:
    """Return the display name of an agent, or its stored name if its adapter is gone."""
    return adapters.get(flavor).label if flavor in adapters.names() else flavor


def part(request: Request) -> Response:
    """Answer with the blocks of a part."""
    with borrow_store(request) as (store, _):
        uid = uid_of(request, store)
        found = outline_of(request, store, uid, branch_of(request))
        shown = blocks_in(found, number(request, "n", 0))
        is_inside = "inside" in request.query_params
        is_last = (number(request, "n", 0) + 1) * PART >= len(found.blocks)
        bodies = texts(store, uid, shown)
        return render(
            request,
            "_part.html",
            outline=found,
            session=found.session,
            blocks=shown,
            bodies=bodies,
            is_inside=is_inside,
            faults=faults_of(stored_digest(store, uid)),
            following=None if is_last or not is_inside else number(request, "n", 0) + 1,
        )


def parts(request: Request) -> Response:
    """Answer with the current parts; an open page asks for them when the session grew."""
    with borrow_store(request) as (store, _):
        found = outline_of(request, store, uid_of(request, store), branch_of(request))
        cost, beside = cost_figure(found.family, found.session.cost.usd)
        return JSONResponse(
            {
                "parts": msgspec.to_builtins(parts_of(found)),
                "events": found.session.events,
                "cost": cost,
                "beside": beside,
            }
        )


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """Where a session shows an event."""

    branch: int | None
    """None if everything that happened is shown."""
    part: int
    block: int
    """The seq of its block. A result is shown with its call."""
    words: list[str]
    """The words of a query as the text of the event has them."""


def place(request: Request) -> Response:
    """Answer with the place of an event, for a link that leads to it."""
    with borrow_store(request) as (store, _):
        uid, seq = uid_of(request, store), number(request, "seq")
        found, index = outline_with(request, store, uid, seq)
        if index is None:
            raise NotFound(f"{uid} has no event {seq}")
        shown = Place(
            branch=found.branch,
            part=index // PART,
            block=found.blocks[index].event.seq,
            words=words_at(store, uid, seq, request.query_params.get("q", "")),
        )
        return JSONResponse(msgspec.to_builtins(shown))


def words_at(store: Store, uid: str, seq: int, asked: str) -> list[str]:
    """Return the words of a query in the text of an event. The last word may be half typed."""
    _, body = query.event_at(store, uid, seq)
    for text in (asked, unfinished(asked)):
        with suppress(engine.QueryError):
            if words := engine.words_in(engine.parse(text), body):
                return words
    return []


def text(request: Request) -> Response:
    """Answer with the whole text of an event. Its block shows only the beginning."""
    with borrow_store(request) as (store, _):
        event, body = query.event_at(store, uid_of(request, store), number(request, "seq"))
        is_plain = "plain" in request.query_params
        return render(request, "_text.html", event=event, body=body, is_plain=is_plain)


def show_context(request: Request) -> Response:
    """Show what the model saw after an event."""
    with borrow_store(request) as (store, _):
        uid, seq = uid_of(request, store), number(request, "seq")
        query.event_at(store, uid, seq)
        found = outline_of(request, store, uid, 0)
        view = model_context(found.events, seq)
        last = max(1, number(request, "until", len(view)))
        shown = view[max(0, last - MAX_CONTEXT_EVENTS) : last]
        bodies = bodies_of(store, uid, (one.event.seq for one in shown if not one.is_cleared))
        cleared = sum(one.is_cleared for one in view)
        return render(
            request,
            "_seen.html",
            uid=uid,
            seq=seq,
            shown=shown,
            bodies=bodies,
            total=len(view),
            cleared=cleared,
            earlier=max(0, last - MAX_CONTEXT_EVENTS),
        )


def raw(request: Request) -> Response:
    """Answer with the agent's own record of an event, as it is stored."""
    with borrow_store(request) as (store, _):
        uid, seq = uid_of(request, store), number(request, "seq")
        records = [pretty(record) for record in query.raw_records(store, uid, seq)]
        return render(request, "_raw.html", uid=uid, seq=seq, records=records)


def pretty(record: bytes) -> str:
    """Return a record as text, indented if it is JSON."""
    text = record.decode("utf-8", "replace")
    with suppress(ValueError, RecursionError):
        text = json.dumps(json.loads(text), indent=2, ensure_ascii=False)
    return (
        text
        if len(text) <= MAX_RAW_RECORDS
        else f"{text[:MAX_RAW_RECORDS]}\n… {len(text) - MAX_RAW_RECORDS:,} more characters"
    )


def find(request: Request) -> Response:
    """Show the events of this session that contain the words."""
    with borrow_store(request) as (store, _):
        text = request.query_params.get("q", "").strip()
        return render(
            request, "_found.html", text=text, hits=places(store, uid_of(request, store), text)
        )


def places(store: Store, uid: str, text: str) -> list[engine.EventHit]:
    """Return the events of a session that have these words, in order. The last word may be only
    begun. Raises QueryError."""
    text = text.strip()
    if not text:
        return []
    asked = engine.parse(unfinished(text))
    chosen = asked.with_fields(
        [
            *((name, values) for name, values in asked.fields if name != "session"),
            ("session", [uid]),
        ]
    )
    answer = engine.search(store, chosen, limit=5, events=MAX_MATCHES)
    return sorted(
        (event for hit in answer.hits if hit.session.uid == uid for event in hit.events),
        key=lambda event: event.seq,
    )


def show_related(request: Request) -> Response:
    """Show the sessions that are about the same."""
    with borrow_store(request) as (store, _):
        found = engine.related(store, uid_of(request, store), limit=MAX_RELATED)
        return render(request, "_related.html", found=found)


def image(request: Request) -> Response:
    """Answer with a picture of an event, from the agent's own record."""
    with borrow_store(request) as (store, _):
        found = images.image(
            store,
            uid_of(request, store),
            number(request, "seq"),
            request.query_params.get("sha", ""),
        )
    return Response(
        found.data, media_type=found.kind, headers={"cache-control": "private, max-age=86400"}
    )


routes = [
    Route("/s/{uid:path}", page),
    Route("/x/part/{uid:path}", part),
    Route("/x/parts/{uid:path}", parts),
    Route("/x/place/{uid:path}", place),
    Route("/x/text/{uid:path}", text),
    Route("/x/seen/{uid:path}", show_context),
    Route("/x/raw/{uid:path}", raw),
    Route("/x/find/{uid:path}", find),
    Route("/x/related/{uid:path}", show_related),
    Route("/x/image/{uid:path}", image),
]
