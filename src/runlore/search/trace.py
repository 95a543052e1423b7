"""Find the sessions behind a commit or a file: those that made or touched it, and those that only
mention it.

The index gives candidates, and the events themselves are the proof. Nothing here prints or writes.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

import msgspec

from ..digest import commits
from ..digest.command_files import MAY_CHANGE, changed_files
from ..errors import RunloreError, StoreError
from ..model import CALL_KINDS, Digest, FileActivity, Session, SessionEvent, format_time, is_own
from ..store import SegmentEvent, SessionLine, Store
from . import SNIPPET_BYTES, EventHit, QueryError
from .text import without_own

MAX_SEGMENTS = 800
"""Segments that are unpacked for one question. With more of them the answer is partial."""

MIN_SHA, ABBREVIATED, MAX_SHA = 4, 7, 40
"""The characters that git takes, prints unless it must print more, and a whole name has."""

MAX_SHOWN = 3
"""Events shown of each session."""

_DISTANCES = (4, 64)
"""Events between a result and its call. Most have none; the second covers parallel calls and other
agents."""

ACTIONS = ("edit", "read", "search")
"""Actions on a file that are counted by name. All others count as "other"."""
COMMAND = "command"
"""The action of a shell command whose text shows that it changes a file."""

MAX_RESULTS = 2
"""Results of a session that may have made a commit: the first ones that name it, because it had no
name before."""


# ── commits ───────────────────────────────────────────────────────────────────────────────────────
class CommitTrace(msgspec.Struct, frozen=True, kw_only=True):
    """A session that made a commit, or mentions it, with the first events that show it."""

    session: SessionLine
    is_made: bool
    events: list[EventHit]


class CommitAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """Sessions that made a commit, then those that mention it; newest first."""

    found: list[CommitTrace]
    total: int
    is_partial: bool


def commit(store: Store, sha: str, *, limit: int = 20, proofs: int | None = None) -> CommitAnswer:
    """Return the sessions that name a commit in full or abbreviated.

    If there are too many, the oldest are examined, because one of them made it. Raises QueryError.
    """
    sha = sha.lower()
    if not re.fullmatch(f"[0-9a-f]{{{MIN_SHA},{MAX_SHA}}}", sha):
        raise QueryError(
            f"{sha!r} is not the name of a commit: give {MIN_SHA} to {MAX_SHA} characters"
            " of 0-9 and a-f"
        )
    candidates, is_partial = _newest_first(
        store,
        store.index.postings(sha[:ABBREVIATED], prefix=True),
        proofs or MAX_SEGMENTS,
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
    """Return the events of a session that mention a commit, or those that made it."""
    digest = _digest(store, session.uid)
    reported = _reported_in(digest, sha) if digest else set()
    evicted = (digest.before or digest) if digest and session.evicted_at else None
    mentions: list[EventHit] = []
    proofs: list[EventHit] = []
    results = 0
    for event, text, hit in _mentions(store, segments, sha):
        mentions.append(hit)
        if event.seq in reported:
            proofs.append(hit)
            continue
        # The commands of evicted events are gone: their digest reports the commits they made.
        is_evicted = evicted is not None and evicted.knows(event.seq)
        if event.kind != "tool_result" or results >= MAX_RESULTS or is_evicted:
            continue
        results += 1
        if makes_commit(_command_of(store, session.uid, event.seq), text, sha, event.is_error):
            proofs.append(hit)
    if not mentions:
        return None
    return CommitTrace(
        session=session, is_made=bool(proofs), events=(proofs or mentions)[:MAX_SHOWN]
    )


def _reported_in(digest: Digest, sha: str) -> set[int]:
    """Return the events that made a commit, by the digest of their session."""
    return {
        commit.seq
        for commit in digest.commits
        if commit.sha and (commit.sha.startswith(sha) or sha.startswith(commit.sha))
    }


def _mentions(
    store: Store, segments: list[int], sha: str
) -> Iterator[tuple[SegmentEvent, str, EventHit]]:
    """Yield the events that name a commit, with their text and the hit to show."""
    begin = sha[:ABBREVIATED].encode()
    for data, events in _unpacked(store, segments):
        lower = data.lower()
        for event in events:
            if lower.find(begin, event.offset, event.offset + event.length) < 0:
                continue
            text = data[event.offset : event.offset + event.length].decode("utf-8", "replace")
            span = next(find_sha(text, sha), None)
            if span is None:
                continue
            snippet, marks = _line_around(text, *span)
            hit = EventHit(
                seq=event.seq,
                kind=event.kind,
                ts=event.ts,
                tool=event.tool,
                is_error=event.is_error,
                snippet=snippet,
                marks=marks,
                is_injected=event.is_injected,
            )
            yield event, text, hit


def _digest(store: Store, uid: str) -> Digest | None:
    try:
        return store.digests.get(uid)
    except RunloreError:  # A damaged one: `doctor` says so.
        return None


def _command_of(store: Store, uid: str, seq: int) -> str:
    """Return the shell command whose result is this event; empty if it was no shell."""
    for distance in _DISTANCES:
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
    """Yield the places where a text names this commit, in full or abbreviated as git does it."""
    pattern = rf"(?<![0-9A-Za-z_]){sha[:ABBREVIATED]}[0-9a-f]*(?![0-9A-Za-z_])"
    for match in re.finditer(pattern, text, re.IGNORECASE):
        name = match.group().lower()
        if not (name.startswith(sha) or sha.startswith(name)) or len(name) > MAX_SHA:
            continue
        # A short name has both letters and digits. Others are words (dead, facade) or numbers.
        is_short = len(name) < ABBREVIATED or (name.isdecimal() and len(sha) < ABBREVIATED)
        if not (is_short and (name.isalpha() or name.isdecimal())) and not _is_uuid(
            text, *match.span()
        ):
            yield match.span()


def _is_uuid(text: str, first: int, last: int) -> bool:
    """Return True if this is a part of an id like 1a2b3c4d-0000-4000-8000-000000000000."""
    return bool(
        re.match("-[0-9a-fA-F]{4}-", text[last : last + 6])
        or re.match("-[0-9a-fA-F]{4}-", text[max(0, first - 6) : first])
    )


def makes_commit(command: str, output: str, sha: str, is_error: bool = False) -> bool:
    """Return True if a shell command with this output made the commit.

    git prints `[main 1a2b3c4] Subject`, also when a later command fails. A quiet commit is
    recognized in what is printed after it: by the subject that the command gave it, or else as the
    first name of a commit in the output.
    """
    reported = commits.find_reported_commits(command, lambda: output)
    if reported or is_error or not commits.git_verbs(command) & commits.COMMITTING:
        return any(sha.startswith(name) or name.startswith(sha) for name, _ in reported)
    printed = [name for name, _ in commits.find_printed_commits(command, output)]
    if not printed:
        printed = [
            match.group()
            for match in commits.COMMIT_NAME.finditer(output)
            if not match.group().isdecimal()
        ][:1]
    return any(next(find_sha(name, sha), None) for name in printed)


def _line_around(text: str, first: int, last: int) -> tuple[str, list[tuple[int, int]]]:
    """Return the line around a match, as much as a snippet holds, and the match's place in it."""
    begin = text.rfind("\n", 0, first) + 1
    end = text.find("\n", last)
    end = len(text) if end < 0 else end
    start = begin if first - begin <= SNIPPET_BYTES // 2 else first - SNIPPET_BYTES // 4
    stop = min(end, start + SNIPPET_BYTES)
    before = "…" if start > begin else ""
    shift = len(before) - start
    return f"{before}{text[start:stop]}{'…' if stop < end else ''}", [
        (first + shift, min(last, stop) + shift)
    ]


# ── files ─────────────────────────────────────────────────────────────────────────────────────────
class FileTrace(msgspec.Struct, frozen=True, kw_only=True):
    """What a session did to a file."""

    session: SessionLine
    actions: dict[str, int]
    """Number of calls by what they do: edit, read, search, command (a shell command that changes
    the file), other."""
    files: list[str]
    """The paths of the file, in full where they are known."""
    last_seq: int
    last_at: str | None


class FileAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """Sessions that touched a file, the last one first.

    `elsewhere` counts sessions that touched only other files whose path ends alike.
    """

    path: str | None
    """The one file that all of `found` is about; None if only the end of a path is known."""
    found: list[FileTrace]
    total: int
    elsewhere: int
    is_partial: bool


def file(
    store: Store, path: str, *, folder: str, limit: int = 20, proofs: int | None = None
) -> FileAnswer:
    """Return the sessions that touched a file, given by its path from `folder`.

    If none did, or if the path begins with `*/`, any file whose path ends alike counts. Raises
    QueryError.
    """
    end = _names(path.removeprefix("*/"))
    if not end:
        raise QueryError(f"{path!r} names no file")
    exact = None if path.startswith("*/") else _full(os.path.expanduser(path), folder)
    proofs = proofs or MAX_SEGMENTS
    segments, is_narrowed = _naming(store, end, proofs)
    candidates, is_partial = _newest_first(store, segments, proofs)
    evicted = dict(store.digests.search_evicted(end[-1]))
    digests = {digest.session_uid: digest for digest in evicted.values()}
    missing = digests.keys() - {session.uid for session, _ in candidates}
    candidates += _without_segments(store, list(evicted), missing)
    here: list[FileTrace] = []
    alike: list[FileTrace] = []
    for session, its_segments in candidates:
        touches = _touched_in(store, session, its_segments, end, digests.get(session.uid))
        own = [touch for touch in touches if exact and touch.path.lower() == exact.lower()]
        if own:
            here.append(_trace_file(session, own))
        elif touches:
            alike.append(_trace_file(session, touches))
    traces = sorted(here or alike, key=_by_time, reverse=True)
    return FileAnswer(
        path=exact if here else None,
        found=traces[:limit],
        total=len(traces),
        elsewhere=len(alike) if here else 0,
        is_partial=is_partial or is_narrowed,
    )


def _without_segments(
    store: Store, numbers: list[int], uids: set[str]
) -> list[tuple[SessionLine, list[int]]]:
    """Return those of these sessions that have the uids, without segments: they were evicted."""
    return [
        (session, []) for session in store.sessions.lines(numbers).values() if session.uid in uids
    ]


def _by_time(trace: FileTrace) -> tuple[str, str, str]:
    return trace.last_at or "", trace.session.ended_at or "", trace.session.uid


def _naming(store: Store, names: list[str], proofs: int) -> tuple[list[int], bool]:
    """Return the segments that have the last of these names, and True if some may be missing.

    An agent may write a path in full or from its folder. So the names before the last one are used
    only while there are too many segments.
    """
    every = narrowed = store.index.postings(names[-1])
    for n in range(2, len(names) + 1):
        if len(narrowed) <= proofs:
            break
        narrowed = store.index.postings("/".join(names[-n:]))
    return narrowed, len(narrowed) < len(every)


def _touched_in(
    store: Store, session: SessionLine, segments: list[int], end: list[str], left: Digest | None
) -> list[FileActivity]:
    """Return what a session did to each file whose path ends so.

    The digest answers for evicted events.
    """
    before = left and (left.before or left)
    touches = _touches(store, session, segments, end)
    if before is None or not before.touched:
        return _by_path(touches)
    known = [touch for touch in before.touched if _ends_so(touch.path, end)]
    return known + _by_path(touch for touch in touches if not before.knows(touch[0].seq))


_Touch = tuple[SessionEvent, str, str]
"""An event, the full path of a file, and what the event did to it."""


def _touches(
    store: Store, session: SessionLine, segments: list[int], end: list[str]
) -> Iterator[_Touch]:
    """Yield the events on a file whose path ends so."""
    name = end[-1].lower().encode("utf-8", "replace")
    has_home = _has_own_home(store, session)
    for data, events in _unpacked(store, segments):
        for event in events:
            body = data[event.offset : event.offset + event.length]
            # Most have none.
            is_named = any(_ends_so(file, end[-1:]) for file in event.files)
            if not (is_named or (_may_change(event, body) and name in body.lower())):
                continue
            for whole in store.sessions.events(session.uid, event.seq, event.seq):
                touches = _touches_of(whole, body, session.cwd, has_home=has_home)
                yield from (touch for touch in touches if _ends_so(touch[1], end))


def _may_change(event: SegmentEvent, body: bytes) -> bool:
    return event.kind in CALL_KINDS and MAY_CHANGE.search(body) is not None


def _has_own_home(store: Store, session: Session | SessionLine) -> bool:
    """Return True if `~` in a session means the home folder of whoever asks."""
    is_here = session.machine in (None, store.own_machine)
    return is_here and (store.own_author is None or session.author in (None, store.own_author))


def _touches_of(
    event: SessionEvent, body: bytes, folder: str | None, *, has_home: bool
) -> Iterator[_Touch]:
    """Yield the files of an event: those of its tool, and those that its command changes."""
    here = event.cwd or folder
    action = event.action if event.action in ACTIONS else "other"
    own = [_full(name, here) for name in event.files]
    yield from ((event, path, action) for path in own)
    if event.is_call and event.action == "shell":
        names = changed_files(body.decode("utf-8", "replace"))
        whole = (os.path.expanduser(name) if has_home else name for name in names)
        # A home folder that nobody here knows is left as it is written.
        paths = dict.fromkeys(_full(name, None if name[:1] == "~" else here) for name in whole)
        yield from ((event, path, COMMAND) for path in paths if path not in own)


def touched(store: Store, session: Session, events: Iterable[SessionEvent]) -> list[FileActivity]:
    """Return what these events of a session did to files, as `file` reports it, for a digest that
    outlives them.

    Only events whose text names the file count. Copied events count in the session where they
    happened.
    """
    by_segment: dict[int, list[SessionEvent]] = {}
    for event in events:
        is_shell = event.is_call and event.action == "shell"
        if not (event.files or is_shell) or event.origin is not None or is_own(event.tool):
            continue
        if event.payload_ref:
            by_segment.setdefault(int(event.payload_ref.partition(":")[0]), []).append(event)
    touches: list[_Touch] = []
    has_home = _has_own_home(store, session)
    for segment, those in by_segment.items():
        for data, places in _unpacked(store, [segment]):
            text = data.lower()
            bodies = {at.seq: data[at.offset : at.offset + at.length] for at in places}
            found = (
                touch
                for event in those
                for touch in _touches_of(
                    event, bodies.get(event.seq, b""), session.cwd, has_home=has_home
                )
            )
            touches += [
                touch
                for touch in found
                if touch[1].rpartition("/")[2].lower().encode("utf-8", "replace") in text
            ]
    return _by_path(touches)


def _by_path(touches: Iterable[_Touch]) -> list[FileActivity]:
    by_path: dict[str, list[_Touch]] = {}
    for touch in touches:
        by_path.setdefault(touch[1], []).append(touch)
    return [_touched(path, some) for path, some in by_path.items()]


def _touched(path: str, touches: list[_Touch]) -> FileActivity:
    # Of a call and its result, the call.
    calls = {event.call_id or event.seq: action for event, _, action in reversed(touches)}
    events = [event for event, _, _ in touches]
    last = max(events, key=lambda event: (event.ts is not None, event.ts, event.seq))
    actions = Counter(calls.values())
    return FileActivity(
        path=path, last_seq=last.seq, last_at=format_time(last.ts) if last.ts else None, **actions
    )


def _trace_file(session: SessionLine, touches: list[FileActivity]) -> FileTrace:
    actions = {
        action: sum(getattr(touch, action) for touch in touches)
        for action in (*ACTIONS, COMMAND, "other")
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
    """Return the normalized path from the root."""
    path = path.replace("\\", "/")
    if folder and not re.match(r"/|[A-Za-z]:/", path):
        path = f"{folder.replace(chr(92), '/')}/{path}"
    return os.path.normpath(path).replace("\\", "/")


def _ends_so(path: str, end: list[str]) -> bool:
    """Return True if these are the last names of a path, in whatever case."""
    return [name.lower() for name in _names(path)[-len(end) :]] == [name.lower() for name in end]


def _names(path: str) -> list[str]:
    """Split a path into names."""
    return [name for name in path.replace("\\", "/").split("/") if name not in ("", ".", "..", "~")]


# ── both ──────────────────────────────────────────────────────────────────────────────────────────
def _newest_first(
    store: Store, segments: list[int], proofs: int, *, keeps_oldest: bool = False
) -> tuple[list[tuple[SessionLine, list[int]]], bool]:
    """Return the sessions of these segments with their own ones, and True if some are left out.

    The oldest are left out, or the newest with `keeps_oldest`.
    """
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
