"""The files of one session of hive as one list of records, in the order in which things happened.
Reads files, and does not know what records mean.

A record is an object with its value under the name of its kind, and with its node and its time,
where these are known.
"""

from __future__ import annotations

import os
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from typing import Any

import msgspec

from ..shared.jsonl import (
    MALFORMED,
    TOO_MANY,
    has_too_many_values,
    list_entries,
    parse,
    read_small,
    values_of,
)
from ..shared.pick import pick

STATE, EVENTS, TALK = "state.json", "events.jsonl", "conversations"
FILE_BYTES = 64 << 20
MAX_FILES = 100_000  # Of one session.
LINES = 10_000_000  # Of one log.

INPUT, TURN = "client_input_received", "llm_turn_complete"
DELTA = b'"client_output_delta"'
STARTED, ENDED = "tool_call_started", "tool_call_completed"
FIXED = ("session_id", "goal_id", "agent_id", "entry_point", "input_data", "schema_version")
"""Fields of a state that do not change while the run goes on."""

Item = dict[str, Any]


def files_of(folder: str) -> Iterator[os.DirEntry[str]]:
    """Yield the files of a session that are read, by folder and name. No link is followed."""
    pending, count = [folder], 0
    while pending:
        here = pending.pop()
        for entry in list_entries(here, []):
            if entry.is_dir(follow_symlinks=False):
                if here != folder or entry.name in (TALK, "checkpoints", "logs"):
                    pending.append(entry.path)
            elif entry.name.endswith((".json", ".jsonl")) and entry.is_file(follow_symlinks=False):
                yield entry
                count += 1
                if count == MAX_FILES:
                    return


def records(folder: str, is_stale: bool) -> list[Item]:
    """Return all records of a session's folder, in their order. A value that is no JSON is a record
    of its own, with its text."""
    files = _Files(folder, is_stale)
    state, events = files.object(STATE), files.values(EVENTS)
    talks = _talks(files.all, is_stale)
    steps, results = _logs(files, talks, events)
    items = [*_beginning(files, state)]
    if events:
        parts = talks.pop("", [])
        items += _woven(events, parts) if is_stale else _as_it_came(events, parts, files.written)
    checkpoints = files.values("checkpoints/cp_", is_prefix=True)
    items += _by_node(state, talks, [*steps, *results] if is_stale else [], checkpoints)
    items += _decisions(state)
    items += _ended(state, files.values("logs/summary.json"))
    items += files.damaged()
    if not is_stale:  # While it goes on, what is new in a log comes last: only that is read then.
        items += [*results, *steps]
    return items


class _Files:
    """The values of all files of a session, each with the name of its file."""

    def __init__(self, folder: str, is_stale: bool) -> None:
        self.all: list[tuple[str, Any]] = []
        self.written: dict[int, float] = {}
        """The time of the file of each message, by the message's number."""
        for entry in sorted(files_of(folder), key=lambda entry: entry.path):
            name = entry.path[len(folder) + 1 :].replace(os.sep, "/")
            values = list(_values(entry.path, name, is_stale))
            self.all += [(name, value) for value in values]
            seq = pick(values[0], "seq", of=int) if values else None
            if name.startswith(f"{TALK}/parts/") and seq is not None:
                self.written[seq] = _mtime(entry)

    def values(self, name: str, is_prefix: bool = False) -> list[Any]:
        """Return the values of a file, or of all files whose names begin with this."""
        return [
            value for own, value in self.all if own == name or (is_prefix and own.startswith(name))
        ]

    def object(self, name: str) -> Item | None:
        """Return the first object of a file, or None."""
        return next((value for value in self.values(name) if isinstance(value, dict)), None)

    def damaged(self) -> list[Item]:
        """Return the texts of documents that are no JSON."""
        return [
            {"damaged": value}
            for name, value in self.all
            if isinstance(value, str) and name.endswith(".json")
        ]


def _beginning(files: _Files, state: Item | None) -> Iterator[Item]:
    """Yield the records about the session as a whole, and the system prompts."""
    if about := files.object("meta.json"):
        yield {"session": about, "at": utc(pick(about, "created_at", of=str))}
    if state:
        at = utc(pick(state, "timestamps", "started_at", of=str))
        yield {"started": {word: state[word] for word in FIXED if word in state}, "at": at}
    yield from _prompts(files.all)


def _logs(
    files: _Files, talks: dict[str, list[Item]], events: list[Any]
) -> tuple[list[Item], list[Item]]:
    """Return the steps of the log of tools, without what messages and events have of them, and the
    results of nodes."""
    is_flat = bool(events) or "" in talks
    steps = files.values("logs/tool_logs.jsonl")
    if steps:
        has_turns = any(pick(event, "type", of=str) == TURN for event in events)
        steps = _without_repeats(steps, talks, is_flat, has_turns)
    visits: dict[str, int] = {}
    return (
        [
            {"step": step, **_visit(step, visits), "node": "" if is_flat else _node(step)}
            for step in steps
        ],
        [
            {"result": item, **_visit(item, visits), "node": _node(item)}
            for item in files.values("logs/details.jsonl")
        ],
    )


def _decisions(state: Item | None) -> Iterator[Item]:
    """Yield the decisions and the problems of a run."""
    for word in ("decisions", "problems"):
        for value in pick(state, word, of=list) or []:
            at, node = utc(pick(value, "timestamp", of=str)), pick(value, "node_id", of=str)
            yield {word[:-1]: value, "at": at, "node": node}


def utc(text: str | None) -> str | None:
    """Return a time in UTC. One without a zone is that of this machine."""
    try:
        return datetime.fromisoformat(text).astimezone(UTC).isoformat() if text else None
    except (ValueError, OverflowError, OSError):
        return None


def _values(path: str, name: str, is_stale: bool) -> Iterator[Any]:
    """Yield the values of a file, and the texts of what is no JSON."""
    if name.endswith(("index.json", "cursor.json")):  # Both repeat other files.
        return
    data = None if name.endswith(".jsonl") else read_small(path, FILE_BYTES)
    if data is None and not name.endswith(".jsonl"):
        if os.path.exists(path):  # Else it was compacted away just now.
            yield f"[{name} cannot be read, or is larger than {FILE_BYTES >> 20} MB]"
        return
    for line in _lines(path, is_stale) if data is None else [data]:
        if has_too_many_values(line):
            yield f"[{TOO_MANY}]"
            continue
        try:
            value = msgspec.json.decode(line)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            yield from (text if value is MALFORMED else value for value, text, _ in parse(line))
        else:
            yield value


def _lines(path: str, is_stale: bool) -> Iterator[bytes]:
    """Yield the complete lines of a log: also the last, without its newline, if it is whole JSON
    and nothing is written any more. Of the lines that repeat a growing reply only the last is
    given."""
    held = b""
    with open(path, "rb") as file:
        for _ in range(LINES):
            line = file.readline(FILE_BYTES)
            if not line.endswith(b"\n") and not (is_stale and values_of(line)):
                return
            if DELTA in line[:100]:
                held = line
                continue
            yield from (held, line) if held else (line,)
            held = b""


def _talks(found: Iterable[tuple[str, Any]], is_stale: bool) -> dict[str, list[Item]]:
    """Return the messages of each node in their order; those of a session without nodes have an
    empty name."""
    talks: dict[str, list[Item]] = {}
    for name, value in found:
        if not name.startswith(f"{TALK}/") or name.count("/") < 2:
            continue
        _, *folders, kind, _ = name.split("/")
        if kind not in ("parts", "partials") or len(folders) > 1 or not isinstance(value, dict):
            continue
        if kind == "parts" or is_stale:
            talks.setdefault("".join(folders), []).append(
                {**value, "is_partial": True} if kind == "partials" else value
            )
    for parts in talks.values():
        parts.sort(
            key=lambda part: (pick(part, "seq", of=int) or 0, part.get("is_partial") is True)
        )
    return talks


def _prompts(found: Iterable[tuple[str, Any]]) -> Iterator[Item]:
    """Yield the system prompt of each node."""
    for name, value in found:
        if not name.endswith("/meta.json"):
            continue
        first, *folders, _ = name.split("/")
        if first == TALK and isinstance(value, dict) and "system_prompt" in value:
            yield {"prompt": value, "node": "/".join(folders)}


def _calls(part: Item) -> Iterator[str]:
    for call in pick(part, "tool_calls", of=list) or []:
        if id_ := pick(call, "id", of=str):
            yield id_


def _without_repeats(
    steps: list[Any], talks: dict[str, list[Item]], is_flat: bool, has_turns: bool
) -> list[Any]:
    """Return the steps of the log of tools without the arguments and results that messages have,
    and without the tokens that events have."""
    parts = [(node, part) for node, parts in talks.items() for part in parts]
    called = {(node, id_) for node, part in parts for id_ in _calls(part)}
    answered = {(node, pick(part, "tool_use_id", of=str)) for node, part in parts}
    tokens = {"input_tokens", "output_tokens"} if has_turns else set[str]()
    left = []
    for step in steps:
        if isinstance(step, dict):
            step = {word: value for word, value in step.items() if word not in tokens}
            if calls := pick(step, "tool_calls", of=list):
                node = "" if is_flat else _node(step)
                step["tool_calls"] = _new_calls(calls, node, called, answered)
        left.append(step)
    return left


def _new_calls(
    calls: list[Any],
    node: str,
    called: set[tuple[str, str]],
    answered: set[tuple[str, str | None]],
) -> list[Any]:
    """Return the calls of a step that are not complete in the messages, with the rest of their
    fields."""
    left = []
    for call in calls:
        if not isinstance(call, dict):
            left.append(call)
            continue
        key = node, pick(call, "tool_use_id", of=str) or ""
        repeated = {
            word for word, known in (("tool_input", called), ("result", answered)) if key in known
        }
        if len(repeated) < 2:
            left.append({word: value for word, value in call.items() if word not in repeated})
    return left


# Sessions of queens and workers: messages get the times of events.


def _woven(events: list[Any], parts: list[Item]) -> Iterator[Item]:
    """Yield the events, and before each the messages up to the one that it is about. A message
    without an event comes before the next one that has one, or at the end. An event that repeats a
    message is left out."""
    places: dict[tuple[str, str], list[int]] = {}
    for n, part in enumerate(parts):
        for mark in _marks(part):
            places.setdefault(mark, []).append(n)
    place, snapshot = 0, ""
    for event in events:
        word, data = pick(event, "type", of=str) or "", pick(event, "data", of=dict) or {}
        if word == "client_output_delta":
            snapshot = pick(data, "snapshot", of=str) or snapshot
            continue
        known = places.get((word, _mark_text(word, data, snapshot)), [])
        end = next((n + 1 for n in known[bisect_left(known, place) :]), place)
        at = utc(pick(event, "timestamp", of=str))
        yield from ({"part": part, "at": at} for part in parts[place:end])
        is_repeat = end > place if word == INPUT else bool(known)
        if word == TURN or not is_repeat:
            yield {"event": event, "at": at}
        place = end
        if word == TURN:
            snapshot = ""
    yield from ({"part": part} for part in parts[place:])


def _mark_text(word: str, data: Item, snapshot: str) -> str:
    """Return the text that an event has in common with its message. `snapshot` is the reply that
    ends with a turn."""
    if word == TURN:
        return snapshot
    return pick(data, "content" if word == INPUT else "tool_use_id", of=str) or ""


def _as_it_came(events: list[Any], parts: list[Item], written: dict[int, float]) -> Iterator[Item]:
    """Yield the events and messages of a session that goes on, as they were written, so that what
    is new comes last. Of an event and a message that repeat each other the second is left out."""
    called, answered = set[str](), set[str]()
    for is_event, item in _by_time(events, parts, written):
        record = (_new_event if is_event else _new_part)(item, called, answered)
        if record is not None:
            yield record


def _by_time(
    events: list[Any], parts: list[Item], written: dict[int, float]
) -> Iterator[tuple[bool, Any]]:
    """Yield events and messages by their times, each kind in its own order; True for an event."""
    timed = list[tuple[float, bool, Any]]()
    at = 0.0
    for part in parts:  # A copied folder may have files with other times.
        seq = pick(part, "seq", of=int)
        at = max(at, 0.0 if seq is None else written.get(seq, 0.0))
        timed.append((at, False, part))
    at = 0.0
    for event in events:
        at = max(at, _seconds(pick(event, "timestamp", of=str)))
        timed.append((at, True, event))
    timed.sort(key=lambda one: one[:2])
    return ((is_event, item) for _, is_event, item in timed)


def _new_part(part: Item, called: set[str], answered: set[str]) -> Item | None:
    """Return the record of a message without the calls that an event had; None for a result that an
    event had."""
    result = pick(part, "tool_use_id", of=str)
    if result and result in answered:
        return None
    calls = part.get("tool_calls")
    left = calls
    if isinstance(calls, list):
        left = [call for call in calls if pick(call, "id", of=str) not in called]
    called.update(_calls(part))
    if result:
        answered.add(result)
    return {"part": part if left == calls else {"content": "", **part, "tool_calls": left}}


def _new_event(event: Any, called: set[str], answered: set[str]) -> Item | None:
    """Return the record of an event; None for one that a message repeats. An input has a message
    soon."""
    word = pick(event, "type", of=str) or ""
    id_ = pick(event, "data", "tool_use_id", of=str) or ""
    known = {STARTED: called, ENDED: answered}.get(word)
    if word in (INPUT, "client_output_delta") or (known is not None and id_ in known):
        return None
    if known is not None and id_:
        known.add(id_)
    return {"event": event, "at": utc(pick(event, "timestamp", of=str))}


def _seconds(text: str | None) -> float:
    try:
        return datetime.fromisoformat(text).timestamp() if text else 0.0
    except (ValueError, OverflowError, OSError):
        return 0.0


def _mtime(entry: os.DirEntry[str]) -> float:
    try:
        return entry.stat(follow_symlinks=False).st_mtime
    except OSError:
        return 0.0


def _marks(part: Item) -> Iterator[tuple[str, str]]:
    """Yield the types of the events about a message, each with the text that they have in
    common."""
    text, role = pick(part, "content", of=str) or "", part.get("role")
    if text and role in ("user", "assistant"):
        yield INPUT if role == "user" else TURN, text
    for id_ in _calls(part):
        yield STARTED, id_
    if id_ := pick(part, "tool_use_id", of=str) or "":
        yield ENDED, id_


# Graph agents: node by node.


def _by_node(
    state: Item | None, talks: dict[str, list[Item]], logs: list[Item], checkpoints: list[Any]
) -> Iterator[Item]:
    """Yield the checkpoints of each node, and between them its messages and logs."""
    checkpoints.sort(key=lambda item: pick(item, "created_at", of=str) or "")
    visited = [
        node for node in pick(state, "progress", "path", of=list) or [] if isinstance(node, str)
    ]
    named = [pick(item, "current_node", of=str) or "" for item in checkpoints]
    for node in dict.fromkeys([*visited, *named, *talks, *(str(item["node"]) for item in logs)]):
        own = [item for item in checkpoints if (pick(item, "current_node", of=str) or "") == node]
        yield from (
            {"checkpoint": item, "at": _time_of(item), "node": node}
            for item in own
            if _begins(item)
        )
        yield from ({"part": part, "node": node} for part in talks.get(node, []))
        yield from (item for item in logs if item["node"] == node)
        yield from (
            {"checkpoint": item, "at": _time_of(item), "node": node}
            for item in own
            if not _begins(item)
        )


def _node(item: Any) -> str:
    return pick(item, "node_id", of=str) or ""


def _visit(item: Any, visits: dict[str, int]) -> Item:
    """Return the number of the visit that a step belongs to, but for the first. A node that is
    visited again counts its steps from the beginning."""
    key = repr(
        [item.get(word) for word in ("node_id", "step_index", "attempt", "exit_status")]
        if isinstance(item, dict)
        else item
    )
    again = visits[key] = visits.get(key, -1) + 1
    return {"visit": again} if again else {}


def _begins(checkpoint: Any) -> bool:
    return pick(checkpoint, "checkpoint_type", of=str) == "node_start"


def _time_of(checkpoint: Any) -> str | None:
    return utc(pick(checkpoint, "created_at", of=str))


# The run as a whole.


def _ended(state: Item | None, summaries: list[Any]) -> Iterator[Item]:
    """Yield the summary of a run, and its state when it is not at work, without the fields that
    other records have."""
    for summary in summaries:
        if isinstance(summary, dict):
            yield {"summary": summary}
    if state is None or state.get("status") == "active":
        return
    left = (
        "decisions",
        "problems",
        "input_data",
        "duration_ms",
        "is_resumable",
        "is_resumable_from_checkpoint",
    )
    rest = {word: value for word, value in state.items() if word not in left}
    times = ("completed_at", "paused_at_time", "updated_at")
    at = next((at for word in times if (at := pick(state, "timestamps", word, of=str))), None)
    yield {"ended": rest, "at": utc(at)}
