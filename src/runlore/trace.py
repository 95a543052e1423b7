"""Which sessions a commit or a file comes from: who made it, who touched it, who only speaks of it.

The index says where to look and the events themselves are the proof. Nothing here prints, and
nothing is written.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

import msgspec

from .digest import commits
from .errors import RunloreError, StoreError
from .model import Digest, FileActivity, SessionEvent, format_time, is_own
from .search import SNIPPET, EventHit, QueryError
from .search.text import without_own
from .store import SegmentEvent, SessionLine, Store

PROOFS = 800
"""How many segments are unpacked at most: about a quarter of a second. Then the answer says that it
is partial."""

SHORTEST_SHA, ABBREVIATED, LONGEST_SHA = 4, 7, 40
"""What git takes, what it prints unless it must print more, and all of it."""

EVENTS = 3
"""Events shown of each session."""

_NEAR = (4, 64)
"""Events between a result and its call: most have none, and no agent was seen to do more, parallel
calls and other agents included."""

ACTIONS = ("edit", "read", "search")
"""What is done to a file; the rest is other."""

FIRST = 2
"""Of the results of a session that name a commit, so many may be what made it: before that it had
no name."""


# ── commits ───────────────────────────────────────────────────────────────────────────────────────
class CommitTrace(msgspec.Struct, frozen=True, kw_only=True):
    """A session that made a commit, or has its name. The events are those that show it, the first
    ones."""

    session: SessionLine
    is_made: bool
    events: list[EventHit]


class CommitAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """Those who made it first, then those who mention it; newest first."""

    found: list[CommitTrace]
    total: int
    is_partial: bool


def commit(store: Store, sha: str, *, limit: int = 20, proofs: int | None = None) -> CommitAnswer:
    """The sessions that know a commit by this name or a longer or shorter form of it. Where there
    are too many, the oldest are looked at: one of them made it. Raises QueryError."""
    sha = sha.lower()
    if not re.fullmatch(f"[0-9a-f]{{{SHORTEST_SHA},{LONGEST_SHA}}}", sha):
        raise QueryError(
            f"{sha!r} is not the name of a commit: give {SHORTEST_SHA} to {LONGEST_SHA} characters"
            " of 0-9 and a-f"
        )
    candidates, is_partial = _newest_first(
        store,
        store.index.postings(sha[:ABBREVIATED], prefix=True),
        proofs or PROOFS,
        keeps_oldest=True,
    )
    found = [
        trace
        for session, segments in candidates
        if (trace := _trace_commit(store, session, segments, sha)) is not None
    ]
    found.sort(key=lambda trace: not trace.is_made)
    return CommitAnswer(found=found[:limit], total=len(found), is_partial=is_partial)


def _trace_commit(
    store: Store, session: SessionLine, segments: list[int], sha: str
) -> CommitTrace | None:
    mentioned: list[EventHit] = []
    made: list[EventHit] = []
    digest = _digest(store, session.uid)
    told = {
        made.seq
        for made in (digest.commits if digest else ())
        if made.sha.startswith(sha) or sha.startswith(made.sha)
    }
    left = (digest.before or digest) if digest and session.evicted_at else None
    results = 0
    begin = sha[:ABBREVIATED].encode()
    for data, events in _unpacked(store, segments):
        lower = data.lower()
        for event in events:
            if lower.find(begin, event.offset, event.offset + event.length) < 0:
                continue
            text = data[event.offset : event.offset + event.length].decode("utf-8", "replace")
            spot = next(find_sha(text, sha), None)
            if spot is None:
                continue
            snippet, marks = _line_around(text, *spot)
            hit = EventHit(
                seq=event.seq,
                kind=event.kind,
                ts=event.ts,
                tool=event.tool,
                is_error=event.is_error,
                snippet=snippet,
                marks=marks,
            )
            mentioned.append(hit)
            if event.seq in told:
                made.append(hit)
                continue
            if event.kind != "tool_result" or results >= FIRST or (left and left.knows(event.seq)):
                # Of what has left, the commands are not there any more: what they made is told by
                # the digest.
                continue
            results += 1
            if makes_commit(_command_of(store, session.uid, event.seq), text, sha, event.is_error):
                made.append(hit)
    return (
        CommitTrace(session=session, is_made=bool(made), events=(made or mentioned)[:EVENTS])
        if mentioned
        else None
    )


def _digest(store: Store, uid: str) -> Digest | None:
    try:
        return store.digests.get(uid)
    except RunloreError:  # A damaged one: `doctor` says so.
        return None


def _command_of(store: Store, uid: str, seq: int) -> str:
    """What the shell was given that answered with this event; nothing when it was no shell."""
    for distance in _NEAR:
        near = store.sessions.events(uid, max(0, seq - distance), seq)
        for event in reversed(near):
            if event.is_call and event.call_id == near[-1].call_id:
                return (
                    store.sessions.bodies(uid, event.seq, event.seq).get(event.seq, "")
                    if event.action == "shell"
                    else ""
                )
    return ""


def find_sha(text: str, sha: str) -> Iterator[tuple[int, int]]:
    """Where a text has this commit: its whole name, or as much of it as git abbreviates it to."""
    pattern = rf"(?<![0-9A-Za-z_]){sha[:ABBREVIATED]}[0-9a-f]*(?![0-9A-Za-z_])"
    for match in re.finditer(pattern, text, re.IGNORECASE):
        name = match.group().lower()
        if not (name.startswith(sha) or sha.startswith(name)) or len(name) > LONGEST_SHA:
            continue
        # A short one is only told from words (dead, facade) and from numbers by having both letters
        # and digits.
        is_short = len(name) < ABBREVIATED or (name.isdecimal() and len(sha) < ABBREVIATED)
        if not (is_short and (name.isalpha() or name.isdecimal())) and not _is_uuid(
            text, *match.span()
        ):
            yield match.span()


def _is_uuid(text: str, first: int, last: int) -> bool:
    """Whether this is a part of an id like 1a2b3c4d-0000-4000-8000-000000000000."""
    return bool(
        re.match("-[0-9a-fA-F]{4}-", text[last : last + 6])
        or re.match("-[0-9a-fA-F]{4}-", text[max(0, first - 6) : first])
    )


def makes_commit(command: str, output: str, sha: str, is_error: bool = False) -> bool:
    """Whether a shell command that says `output` made this commit.

    git tells what it made, `[main 1a2b3c4] Subject`, also when what follows fails. A quiet one is
    seen in what is printed after it: the subject that the command gave it, or, where nothing tells
    them apart, the first name that there is.
    """
    made = commits.find_reported_commits(command, lambda: output)
    if made or is_error or not commits.git_verbs(command) & commits.COMMITTING:
        return any(sha.startswith(name) or name.startswith(sha) for name, _ in made)
    told = [name for name, _ in commits.find_printed_commits(command, output)]
    if not told:
        told = [
            found.group()
            for found in commits.COMMIT_NAME.finditer(output)
            if not found.group().isdecimal()
        ][:1]
    return any(next(find_sha(name, sha), None) for name in told)


def _line_around(text: str, first: int, last: int) -> tuple[str, list[tuple[int, int]]]:
    """The line with this in it, or as much as a snippet holds, and where in it this is."""
    begin = text.rfind("\n", 0, first) + 1
    end = text.find("\n", last)
    end = len(text) if end < 0 else end
    start = begin if first - begin <= SNIPPET // 2 else first - SNIPPET // 4
    stop = min(end, start + SNIPPET)
    before = "…" if start > begin else ""
    shift = len(before) - start
    return f"{before}{text[start:stop]}{'…' if stop < end else ''}", [
        (first + shift, min(last, stop) + shift)
    ]


# ── files ─────────────────────────────────────────────────────────────────────────────────────────
class FileTrace(msgspec.Struct, frozen=True, kw_only=True):
    """What a session did to a file. `actions` counts calls by what they do: edit, read, search,
    other."""

    session: SessionLine
    actions: dict[str, int]
    files: list[str]
    """The paths that were meant, in full where they are known."""
    last_seq: int
    last_at: str | None


class FileAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The last to touch it comes first. `elsewhere` counts sessions that touched only other files
    whose path ends alike."""

    path: str | None
    """The one file that all of `found` is about; None when an end of a path is all that is known of
    it."""
    found: list[FileTrace]
    total: int
    elsewhere: int
    is_partial: bool


def file(
    store: Store, path: str, *, folder: str, limit: int = 20, proofs: int | None = None
) -> FileAnswer:
    """The sessions that touched a file: the one at this path, seen from `folder`; where none did,
    or the path begins with `*/`, any whose path ends so. Raises QueryError."""
    end = _names(path.removeprefix("*/"))
    if not end:
        raise QueryError(f"{path!r} names no file")
    exact = None if path.startswith("*/") else _full(os.path.expanduser(path), folder)
    proofs = proofs or PROOFS
    segments, is_narrowed = _naming(store, end, proofs)
    candidates, is_partial = _newest_first(store, segments, proofs)
    left = dict(store.digests.search_evicted(end[-1]))
    digests = {digest.session_uid: digest for digest in left.values()}
    also = digests.keys() - {session.uid for session, _ in candidates}
    candidates += [
        (session, [])
        for session in store.sessions.lines(list(left)).values()
        if session.uid in also
    ]
    here: list[FileTrace] = []
    alike: list[FileTrace] = []
    for session, segments in candidates:
        touches = _touched_in(store, session, segments, end, digests.get(session.uid))
        own = [
            touch for touch in touches if exact is not None and touch.path.lower() == exact.lower()
        ]
        if own:
            here.append(_trace_file(session, own))
        elif touches:
            alike.append(_trace_file(session, touches))
    found = sorted(
        here or alike,
        key=lambda trace: (trace.last_at or "", trace.session.ended_at or "", trace.session.uid),
        reverse=True,
    )
    return FileAnswer(
        path=exact if here else None,
        found=found[:limit],
        total=len(found),
        elsewhere=len(alike) if here else 0,
        is_partial=is_partial or is_narrowed,
    )


def _naming(store: Store, names: list[str], proofs: int) -> tuple[list[int], bool]:
    """The segments that have the last of these names. An agent may write a path in full or from
    where it is, so the others are asked for only while there are too many; then some may be
    missing."""
    every = found = store.index.postings(names[-1])
    for n in range(2, len(names) + 1):
        if len(found) <= proofs:
            break
        found = store.index.postings("/".join(names[-n:]))
    return found, len(found) < len(every)


def _touched_in(
    store: Store, session: SessionLine, segments: list[int], end: list[str], left: Digest | None
) -> list[FileActivity]:
    """What a session did to each file whose path ends so. What has left is told by its digest."""
    before = left and (left.before or left)
    touches = _touches(store, session, segments, end)
    if before is None or not before.touched:
        return _by_path(touches)
    known = [touch for touch in before.touched if _ends_so(touch.path, end)]
    return known + _by_path(touch for touch in touches if not before.knows(touch[0].seq))


def _touches(
    store: Store, session: SessionLine, segments: list[int], end: list[str]
) -> Iterator[tuple[SessionEvent, str]]:
    """The events on a file whose path ends so, each with that path."""
    for _, events in _unpacked(store, segments):
        for event in events:
            # Most have none.
            if not event.files or not any(_ends_so(file, end[-1:]) for file in event.files):
                continue
            for whole in store.sessions.events(session.uid, event.seq, event.seq):
                yield from (
                    (whole, path) for path in _paths(whole, session.cwd) if _ends_so(path, end)
                )


def _paths(event: SessionEvent, folder: str | None) -> list[str]:
    return [_full(name, event.cwd or folder) for name in event.files]


def touched(store: Store, events: Iterable[SessionEvent], folder: str | None) -> list[FileActivity]:
    """What these events of a session did to files, as `file` tells it, for when they have left:
    where their text names the file. What the session has from another is told there."""
    by_segment: dict[int, list[SessionEvent]] = {}
    for event in events:
        if event.files and event.origin is None and event.payload_ref and not is_own(event.tool):
            by_segment.setdefault(int(event.payload_ref.partition(":")[0]), []).append(event)
    touches = []
    for segment, those in by_segment.items():
        for data, _ in _unpacked(store, [segment]):
            text = data.lower()
            pairs = [(event, path) for event in those for path in _paths(event, folder)]
            touches += [
                (event, path)
                for event, path in pairs
                if path.rpartition("/")[2].lower().encode("utf-8", "replace") in text
            ]
    return _by_path(touches)


def _by_path(touches: Iterable[tuple[SessionEvent, str]]) -> list[FileActivity]:
    by_path: dict[str, list[SessionEvent]] = {}
    for event, path in touches:
        by_path.setdefault(path, []).append(event)
    return [_touched(path, events) for path, events in by_path.items()]


def _touched(path: str, events: list[SessionEvent]) -> FileActivity:
    # Of a call and its result, the call.
    calls = {event.call_id or event.seq: event for event in reversed(events)}
    last = max(events, key=lambda event: (event.ts is not None, event.ts, event.seq))
    actions = Counter(
        event.action if event.action in ACTIONS else "other" for event in calls.values()
    )
    return FileActivity(
        path=path, last_seq=last.seq, last_at=format_time(last.ts) if last.ts else None, **actions
    )


def _trace_file(session: SessionLine, touches: list[FileActivity]) -> FileTrace:
    actions = {
        action: sum(getattr(touch, action) for touch in touches) for action in (*ACTIONS, "other")
    }
    last = max(touches, key=lambda touch: (touch.last_at or "", touch.last_seq))
    return FileTrace(
        session=session,
        actions={action: count for action, count in actions.items() if count},
        files=list(dict.fromkeys(touch.path for touch in touches)),
        last_seq=last.last_seq,
        last_at=last.last_at,
    )


def _full(path: str, folder: str | None) -> str:
    """The path from the root, written in one way."""
    path = path.replace("\\", "/")
    if folder and not re.match(r"/|[A-Za-z]:/", path):
        path = f"{folder.replace(chr(92), '/')}/{path}"
    return os.path.normpath(path).replace("\\", "/")


def _ends_so(path: str, end: list[str]) -> bool:
    """Whether these are the last names of a path, in whatever case: not every system tells them
    apart."""
    return [name.lower() for name in _names(path)[-len(end) :]] == [name.lower() for name in end]


def _names(path: str) -> list[str]:
    """The names that a path is made of."""
    return [name for name in path.replace("\\", "/").split("/") if name not in ("", ".", "..", "~")]


# ── both ──────────────────────────────────────────────────────────────────────────────────────────
def _newest_first(
    store: Store, segments: list[int], proofs: int, *, keeps_oldest: bool = False
) -> tuple[list[tuple[SessionLine, list[int]]], bool]:
    """The sessions of these segments with their own, as many as may be looked at, and whether some
    had to be left out: the oldest, unless those are what is looked for."""
    by_session: dict[int, list[int]] = {}
    for segment in segments:
        by_session.setdefault(segment >> 20, []).append(segment)
    order = store.sessions.newest(list(by_session))
    chosen: list[int] = []
    for number in reversed(order) if keeps_oldest else order:
        proofs -= len(by_session[number])
        if proofs < 0 and chosen:
            break
        chosen.append(number)
    lines = store.sessions.lines(chosen)
    found = [(lines[number], by_session[number]) for number in chosen if number in lines]
    return found[::-1] if keeps_oldest else found, len(chosen) < len(order)


def _unpacked(store: Store, segments: list[int]) -> Iterator[tuple[bytes, Sequence[SegmentEvent]]]:
    for segment in segments:
        try:
            data = store.index.segment(segment)
        except StoreError:  # A damaged one cannot be looked at; `doctor` says so.
            continue
        if data is not None:
            yield data[0], without_own(data[1])
