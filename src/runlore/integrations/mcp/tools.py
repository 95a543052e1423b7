"""The tools: what each is for, and what it finds, asked of `query`, `search`, `trace` and `usage`
as the command line does."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec

from ... import adapters, query, usage
from ... import search as engine
from ...config import Config
from ...errors import ModelError, NotFound
from ...model import USD, SessionEvent, describe_outcome
from ...search import EventHit, trace
from ...store import CallFilter, Filter, SessionLine, Store
from ...text.words import (
    Bounds,
    bounds,
    count,
    errors_of,
    is_cost_known,
    usd,
    with_subagents,
)
from ...timeline import model_context
from . import arguments, learning
from . import events as event_entries
from .arguments import BadArguments
from .cursor import Place, hash_of, resume
from .fencing import is_name, line
from .fitting import Entry, Result

HIT, LINE = 250, 40
"""Tokens that a session with its events, and one without, takes at least, or nearly: so many are
looked for as a page may have."""

EVENTS = 2
"""Events of each session that a search shows."""

PROOFS, TOUCHES, MENTIONS = 100, 250, 60
"""Maximum number of segments that are read for a search (its first page), a file and a commit. An
agent waits for the answer, so it is less than on the command line."""

STALE_S = 3_600

DEEP = 20_000
"""Events in front of one up to which what the model saw there is worked out: a third of a
second."""


class Tool(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    kind: type[arguments.Arguments]
    find: Callable[..., Result]
    """Given the store, the configuration, the arguments, and the place to go on at, if any."""
    about: str
    is_writing: bool = False
    """True if it writes something. It never writes to the store."""
    needs_caller: bool = False
    """True if `find` is also given the session that asks, if that is known."""


# ── search ────────────────────────────────────────────────────────────────────────────────────────
def search(store: Store, config: Config, args: arguments.Search, place: Place | None) -> Result:
    since, until = _bounds(args)
    asked = engine.parse(args.query).narrowed(
        Filter(
            agent=_agent(args),
            repo=args.repo or None,
            cwd=args.cwd or None,
            branch=args.branch or None,
            model=args.model or None,
            since=since,
            until=until,
        ),
        _time_labels(args),
    )
    seen = place.at if place else 0
    most = seen + max(3, args.max_tokens // HIT)
    answer = engine.search(
        store, asked, limit=most, sort=args.sort, events=EVENTS, proofs=PROOFS * (1 + seen // 8)
    )
    hits = answer.hits
    start = resume(place, [hit.session.uid for hit in hits]) if place else 0
    return Result(
        name="hits",
        pieces=(
            _hit(at, hits[at].session, hits[at].events, hits[at].missing)
            for at in range(start, len(hits))
        ),
        about={"total": answer.total, "partial": answer.is_partial},
        hints=_advice(store, config, args.query, asked, answer),
        more=Place(len(hits)) if len(hits) >= most else None,
    )


def _hit(
    at: int,
    session: SessionLine,
    events: Sequence[EventHit],
    missing: Sequence[str] = (),
    note: str = "",
) -> Entry:
    without = f"  without: {line(', '.join(missing))}" if missing else ""
    lines = [_session_line(session, note, is_named=not events) + without]
    for event in events:
        tool = f"/{line(event.tool, 40)}" if event.tool else ""
        kind = "injected" if event.is_injected else event.kind
        label = f"{kind}{tool}{' error' if event.is_error else ''}"
        lines.append(f"  {line(session.uid, 200)}#{event.seq} {label}: {line(event.snippet, 240)}")
    data = (
        {"uid": session.uid, "events": [event.seq for event in events]}
        if is_name(session.uid)
        else None
    )
    return Entry(at=at, key=session.uid, head="\n".join(lines), data=data)


def _advice(
    store: Store, config: Config, text: str, asked: engine.Query, answer: engine.Answer
) -> list[str]:
    """Return the limits of the answer that the client needs to judge it, and what to try
    instead."""
    said = []
    if answer.missing:
        said.append(f"no session has all words; missing: {line(', '.join(answer.missing))}")
    if answer.ignored:
        said.append(f"not words, and ignored: {line(' '.join(answer.ignored))}")
    if answer.is_damaged:
        said.append(
            "the store is damaged, and not all of its texts can be read; `runlore doctor` says more"
        )
    if answer.is_partial:
        said.append("not everything was looked at; a rarer word or a narrower field finds more")
    said += engine.remarks(text)
    if not answer.hits:
        # It searches once more for each field.
        said += engine.blame(store, asked) + _nothing(store, config)
    return [line(one, 300) for one in said]


def _nothing(store: Store, config: Config) -> list[str]:
    """Why there may be nothing, whatever was asked."""
    if query.is_empty(store):
        raise NotFound(query.EMPTY)
    synced = query.last_sync(config)
    age = (datetime.now(UTC) - synced).total_seconds() if synced else 0
    return (
        [f"the last sync was {age / 3600:.0f} h ago; `runlore sync` reads what is new"]
        if age > STALE_S
        else []
    )


# ── sessions ──────────────────────────────────────────────────────────────────────────────────────
def sessions(store: Store, config: Config, args: arguments.Sessions, place: Place | None) -> Result:
    since, until = _bounds(args)
    names = ("repo", "cwd", "branch", "model", "machine", "author", "text", "outcome")
    given: dict[str, Any] = {name: getattr(args, name) or None for name in names}
    chosen = Filter(
        **given,
        agent=_agent(args),
        pinned=False,
        since=since,
        until=until,
        errors=args.errors,
        parents_only=not args.subagents,
    )
    most = args.max_tokens // LINE + 2
    start = _start(store, chosen, args.sort, place)
    lines = store.sessions.select(chosen, sort=args.sort, limit=most, offset=start)
    if not lines:
        _check_agent(chosen.agent)
    return Result(
        name="sessions",
        pieces=(_listed(at, one) for at, one in enumerate(lines, start)),
        about={"total": store.sessions.count(chosen)},
        hints=(
            [] if lines else [*_explain_exclusion(store, chosen, args), *_nothing(store, config)]
        ),
        more=Place(start + most) if len(lines) >= most else None,
    )


def _explain_exclusion(store: Store, chosen: Filter, args: arguments.Sessions) -> list[str]:
    """Return which argument excludes every session."""
    lines = query.explain_exclusion(chosen, _time_labels(args), store.sessions.count)
    return [line(one, 300) for one in ("no session matches", *lines)]


def _start(store: Store, chosen: Filter, sort: str, place: Place | None) -> int:
    """Return the position to continue at. The whole list is read only if it has changed."""
    if place is None or place.at == 0:
        return 0
    before = store.sessions.select(chosen, sort=sort, limit=1, offset=place.at - 1)
    if before and hash_of(before[0].uid) == place.last:
        return place.at
    return resume(place, [one.uid for one in store.sessions.select(chosen, sort=sort)])


def _listed(at: int, one: SessionLine) -> Entry:
    cost = ""
    if is_cost_known(one.usd_with_subagents, one.unpriced_with_subagents):
        whole = usd(one.usd_with_subagents, one.unpriced_with_subagents)
        cost = ", " + with_subagents(whole, usd(one.usd, one.unpriced), one.subagents)
    errors = errors_of(one.errors_with_subagents, one.errors, one.subagents)
    end = "" if one.outcome == "unknown" else f", {describe_outcome(one)}"
    figures = f"  {one.turns} turns, {one.events} events, {errors}{cost}{end}"
    data = {"uid": one.uid, "ended_at": one.ended_at} if is_name(one.uid) else None
    return Entry(at=at, key=one.uid, head=_session_line(one) + figures, data=data)


def _session_line(one: SessionLine, note: str = "", *, is_named: bool = True) -> str:
    """Return a session in one line, without its uid if its events, which name it, follow."""
    name = line(one.uid, 200) if is_named else ""
    parts = [
        name,
        note,
        (one.ended_at or "?")[:16],
        line(one.repo, 80) or line(one.cwd, 80),
        line(one.title) or "(no title)",
    ]
    return "  ".join(part for part in parts if part)


# ── show ──────────────────────────────────────────────────────────────────────────────────────────
def show(store: Store, _: Config, args: arguments.Show, place: Place | None) -> Result:
    name, seq = query.split_name(args.session)
    if seq is not None and seq > arguments.LAST_SEQ:
        raise NotFound(f"no event has a number like {str(seq)[:20]}…")
    if args.context and seq is None:
        raise BadArguments("context needs an event: session is to be uid#seq")
    if args.first > args.last:
        raise BadArguments("first is behind last")
    uid = query.resolve(store, name)
    if args.context and seq is not None:
        return _context(store, uid, seq, args, place)
    if seq is not None:
        return _event(store, uid, seq, place)
    return _range(store, uid, args, place)


def _range(store: Store, uid: str, args: arguments.Show, place: Place | None) -> Result:
    session = query.get(store, uid)
    first, offset = (max(args.first, place.at), place.offset) if place else (args.first, 0)
    last = min(args.last, session.last_seq if session.last_seq is not None else -1)
    seqs = event_entries.active_seqs(store, session)

    def entries() -> Iterator[Entry]:
        if place is None:
            children = store.sessions.select(
                Filter(parent_uid=uid, parents_only=False), sort="started", limit=100
            )[::-1]
            yield Entry(
                at=first - 1,
                head=event_entries.session_head(session, store.overview.family(uid), children),
            )
        yield from event_entries.iter_range(
            store, uid, first, last, offset, full=args.full, active_seqs=seqs
        )

    hints = (
        []
        if args.full or place
        else ["notes of the agent itself are left out and long texts shortened; full shows all"]
    )
    if seqs is None:
        hints.append(
            "in a session this long it is not marked what was rewound; context shows what the"
            " model saw"
        )
    return Result(name="events", pieces=entries(), about=_about(uid), hints=hints)


def _event(store: Store, uid: str, seq: int, place: Place | None) -> Result:
    event, body = _event_at(store, uid, seq)

    def entries() -> Iterator[Entry]:
        if place is None:
            yield Entry(at=seq - 1, head=event_entries.event_facts(event))
        if place is None or place.at == seq:
            yield from event_entries.whole(event, body or None, place.offset if place else 0)

    return Result(name="events", pieces=entries(), about=_about(uid, seq))


def _context(store: Store, uid: str, seq: int, args: arguments.Show, place: Place | None) -> Result:
    _event_at(store, uid, seq)
    if (before := min(query.get(store, uid).events, seq)) > DEEP:
        raise BadArguments(
            f"there are {before} events before it, and what the model saw is worked out for up to"
            f" {DEEP}"
        )
    found = model_context(store.sessions.events(uid, 0, seq), seq)
    first, offset = (place.at, place.offset) if place else (0, 0)
    return Result(
        name="events",
        pieces=event_entries.iter_context(found, store, uid, first, offset, full=args.full),
        about={**_about(uid, seq), "seen": len(found)},
        hints=(
            []
            if args.full or place
            else ["long texts are shortened; full shows them as the model saw them"]
        ),
    )


def _event_at(store: Store, uid: str, seq: int) -> tuple[SessionEvent, str]:
    try:
        return query.event_at(store, uid, seq)
    except NotFound:  # It names the uid, which a transcript may have chosen.
        raise NotFound(
            f"this session has no event {seq}; its last is {query.get(store, uid).last_seq}"
        ) from None


def _about(uid: str, seq: int | None = None) -> dict[str, Any]:
    return {"session": uid, **({} if seq is None else {"event": seq})} if is_name(uid) else {}


# ── file, commit ──────────────────────────────────────────────────────────────────────────────────
def file(store: Store, config: Config, args: arguments.File, place: Place | None) -> Result:
    answer = trace.file(store, args.path, folder=_here(), limit=1 << 30, proofs=TOUCHES)
    start = resume(place, [one.session.uid for one in answer.found]) if place else 0
    hints = (
        ["not everything was looked at; more of the path finds the rest"]
        if answer.is_partial
        else []
    )
    if answer.elsewhere:
        hints.append(
            f"{answer.elsewhere} sessions touched only other files whose path ends so; a path that"
            " begins with */ finds them"
        )
    if not answer.found:
        hints += ["the name alone, or a search for it, may find more", *_nothing(store, config)]
    return Result(
        name="sessions",
        pieces=(_touched(at, answer.found[at]) for at in range(start, len(answer.found))),
        about={"total": answer.total, "partial": answer.is_partial},
        hints=hints,
    )


def _touched(at: int, found: trace.FileTrace) -> Entry:
    ref = f"{line(found.session.uid, 200)}#{found.last_seq}"
    did = ", ".join(f"{line(action, 20)} {number}" for action, number in found.actions.items())
    files = ", ".join(line(path, 160) for path in found.files[:3]) + (
        " and more" if len(found.files) > 3 else ""
    )
    data = (
        {"uid": found.session.uid, "last": found.last_seq, "actions": found.actions}
        if is_name(found.session.uid)
        else None
    )
    head = (
        f"{_session_line(found.session)}\n  {did}; last {ref} {(found.last_at or '?')[:16]}:"
        f" {files}"
    )
    return Entry(at=at, key=found.session.uid, head=head, data=data)


def commit(store: Store, config: Config, args: arguments.Commit, place: Place | None) -> Result:
    answer = trace.commit(store, args.sha, limit=1 << 30, proofs=MENTIONS)
    found = answer.found
    start = resume(place, [one.session.uid for one in found]) if place else 0
    hints = (
        ["not everything was looked at; more of the name finds the rest"]
        if answer.is_partial
        else []
    )
    if not found:
        hints += ["its message may be found by a search", *_nothing(store, config)]

    def entry(at: int) -> Entry:
        made = _hit(
            at,
            found[at].session,
            found[at].events,
            note="made it" if found[at].is_made else "mentions it",
        )
        return msgspec.structs.replace(
            made, data=made.data and {**made.data, "made": found[at].is_made}
        )

    return Result(
        name="sessions",
        pieces=(entry(at) for at in range(start, len(found))),
        about={"total": answer.total, "partial": answer.is_partial},
        hints=hints,
    )


def _here() -> str:
    try:
        return os.getcwd()
    except OSError:  # Somebody removed it under the server.
        return os.path.expanduser("~")


# ── usage ─────────────────────────────────────────────────────────────────────────────────────────
def cost(store: Store, config: Config, args: arguments.Usage, place: Place | None) -> Result:
    zone = usage.Zone()
    since, until = _bounds(args, zone)
    chosen = CallFilter(
        agent=_agent(args),
        repo=args.repo or None,
        branch=args.branch or None,
        model=args.model or None,
        machine=args.machine or None,
        author=args.author or None,
        since=since,
        until=zone.end(since, until, datetime.now(UTC)),
        session=query.resolve(store, args.session) if args.session else None,
    )
    made = usage.report(store, args.by, chosen, zone=zone)
    # The latest first.
    rows = made.rows[::-1] if args.by in ("day", "week", "month", "block") else made.rows
    start = resume(place, [row.key or "" for row in rows]) if place else 0
    total = made.total
    hints = _price_hints(total)
    if not rows:
        _check_agent(chosen.agent)
        hints += ["no call matches", *_nothing(store, config)]
    return Result(
        name="rows",
        pieces=(_row(store, at, rows[at], made) for at in range(start, len(rows))),
        about={"by": args.by, "total": len(rows), **_totals(total)},
        hints=hints,
    )


def _price_hints(total: usage.Row) -> list[str]:
    """Return what is not exact about the price of some calls."""
    hints = [
        (total.unpriced, "calls have no price"),
        (total.fuzzy, "calls have the price of a model with a like name"),
        (total.recorded, "calls cost what their agent recorded: no price is known"),
    ]
    return [f"{number} {words}" for number, words in hints if number]


def _row(store: Store, at: int, row: usage.Row, made: usage.Report) -> Entry:
    title = ""
    if made.by in ("session", "subagent") and row.key:
        _, called, _ = store.sessions.labels([row.key]).get(row.key, ("", None, None))
        title = f"  {line(called, 80)}" if called else ""
    sums, remarks = _totals(row), []
    words = ", ".join(f"{name} {value}" for name, value in sums.items() if name != "recorded_calls")
    if alone := made.alone.get(row.key):
        sums |= {"subagents": alone.subagents, "usd_without_subagents": _usd(alone.row)}
        if _usd(alone.row) != _usd(row):
            remarks.append(f"{_usd(alone.row)} without {count(alone.subagents, 'subagent')}")
    if row.recorded:
        remarks.append(f"of {count(row.recorded, 'call')} as their agent recorded it")
    words += f" ({'; '.join(remarks)})" if remarks else ""
    return Entry(
        at=at,
        key=row.key or "",
        head=f"{line(row.key, 200) or '(not known)'}: {words}{title}",
        data={"key": row.key if is_name(row.key) else None, **sums},
    )


def _totals(row: usage.Row) -> dict[str, Any]:
    return {
        "calls": row.calls,
        "input": row.input_tokens,
        "output": row.output_tokens,
        "cache_read": row.cache_read_tokens,
        "cache_write": row.cache_write_tokens,
        "usd": _usd(row),
        "recorded_calls": row.recorded,
    }


def _usd(row: usage.Row) -> float:
    return round(row.units / USD, 4)


_Narrowing = arguments.Search | arguments.Sessions | arguments.Usage


def _bounds(args: _Narrowing, zone: usage.Zone | None = None) -> Bounds:
    """Return from when on and before when. Raises BadArguments."""
    now, given = datetime.now(UTC), (args.since, args.until, args.on)
    try:
        return bounds(*given, now, zone.moment, zone.span) if zone else bounds(*given, now)
    except (ModelError, OverflowError, ValueError) as error:
        raise BadArguments(line(str(error), 200)) from None


def _agent(args: _Narrowing) -> str | None:
    """Return the agent that is meant, by the name that its sessions have."""
    return adapters.find_name(args.agent) or args.agent or None


def _check_agent(agent: str | None) -> None:
    """Raise BadArguments if there is no such agent: nothing can be found of it."""
    if agent is not None and agent not in adapters.names():
        raise BadArguments(line(adapters.describe_unknown(agent), 300))


def _time_labels(args: arguments.Search | arguments.Sessions) -> dict[str, str]:
    """Return how the bounds of a time were given, by the field of the filter."""
    if args.on:
        return dict.fromkeys(("since", "until"), f"on:{args.on}")
    return {name: f"{name}:{getattr(args, name)}" for name in ("since", "until")}


TOOLS = (
    Tool(
        name="search",
        kind=arguments.Search,
        find=search,
        about=(
            "Has this been seen before? Searches prompts, replies, tool calls and their output of"
            " all recorded sessions of coding agents: an error message, a command, a name, a"
            " decision. The best sessions first, each with the events that have the words. Fields"
            " narrow it: agent: repo: cwd: branch: model: machine: author: after:7d before:"
            " session: choose sessions, tool: kind: is:error file: events."
        ),
    ),
    Tool(
        name="sessions",
        kind=arguments.Sessions,
        find=sessions,
        about=(
            "Lists recorded sessions, newest first: what was worked on in a repository or a folder,"
            " and when."
        ),
    ),
    Tool(
        name="show",
        kind=arguments.Show,
        find=show,
        about=(
            "Reads a recorded session: all of it or a range of events, shortened; one event whole"
            " (session uid#seq); or what the model saw when an event had happened (context)."
        ),
    ),
    Tool(
        name="file",
        kind=arguments.File,
        find=file,
        about=(
            "Which sessions edited or read a file, the last first: whom to ask why it is as it is."
        ),
    ),
    Tool(
        name="commit",
        kind=arguments.Commit,
        find=commit,
        about="Which sessions made a git commit, and which mention it.",
    ),
    Tool(
        name="usage",
        kind=arguments.Usage,
        find=cost,
        about=(
            "Tokens and cost in USD of all recorded sessions, each API call counted once, by day,"
            " model, repository and so on."
        ),
    ),
    Tool(
        name="fix",
        kind=arguments.Fix,
        find=learning.fix,
        about=(
            "Seen this error before, and what fixed it? With the edit or command after which it was"
            " gone in your repository, or what several independent tasks elsewhere agree on; where"
            " it is not known, the nearest errors."
        ),
    ),
    Tool(
        name="lessons",
        kind=arguments.Lessons,
        find=learning.lessons,
        about=(
            "Lessons that people have approved for a task, a file or an error: when they apply,"
            " what to do, and what to avoid."
        ),
        needs_caller=True,
    ),
    Tool(
        name="propose_lesson",
        kind=arguments.Propose,
        find=learning.propose,
        about=(
            "Writes down what you have learned (when, do, avoid), as a proposal with its evidence."
            " A person decides whether other agents see it."
        ),
        is_writing=True,
    ),
)
