"""The files of one session of hive as one list of records, in the order in which things happened.
Reads, and knows no meaning.

A record is an object with one word for what it is, and beside that its node and its time, where
these are known.
"""

from __future__ import annotations

import os
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from typing import Any

import msgspec

from ..shared.jsonl import MALFORMED, list_entries, parse, read_small
from ..shared.pick import pick

STATE, EVENTS, TALK = "state.json", "events.jsonl", "conversations"
FILE_BYTES = 64 << 20
MAX_FILES = 100_000  # Of one session.
LINES = 10_000_000  # Of one log.

INPUT, TURN = "client_input_received", "llm_turn_complete"
DELTA = b'"client_output_delta"'
STARTED, ENDED = "tool_call_started", "tool_call_completed"
FIXED = ("session_id", "goal_id", "agent_id", "entry_point", "input_data", "schema_version")
"""Of a state: what does not change while the run goes on."""

Item = dict[str, Any]


def files_of(folder: str) -> Iterator[os.DirEntry[str]]:
    """The files of a session that are read, by folder and name. No link is followed."""
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
    """Return all records of a session's folder. What is not JSON is a record of its own, with its
    text."""
    found, written = _read(folder)
    state, about = _object_in(found, STATE), _object_in(found, "meta.json")
    events = _values_in(found, EVENTS)
    talks = _talks(found, is_stale)
    steps, results = _log_items(found, events, talks)
    items: list[Item] = []
    if about:
        items.append({"session": about, "at": utc(pick(about, "created_at", of=str))})
    if state:
        started = utc(pick(state, "timestamps", "started_at", of=str))
        items.append({"started": _begun(state), "at": started})
    items += _prompts(found)
    if events:
        parts = talks.pop("", [])
        items += _woven(events, parts) if is_stale else _as_it_came(events, parts, written)
    checkpoints = [value for name, value in found if name.startswith("checkpoints/cp_")]
    items += _by_node(state, talks, [*steps, *results] if is_stale else [], checkpoints)
    items += _notes(state)
    items += _ended(state, _values_in(found, "logs/summary.json"))
    items += [
        {"damaged": value}
        for name, value in found
        if isinstance(value, str) and name.endswith(".json")
    ]
    if not is_stale:  # While it goes on, what is new in a log comes last: only that is read then.
        items += [*results, *steps]
    return items


def _read(folder: str) -> tuple[list[tuple[str, Any]], dict[int, float]]:
    """Return the values of all files by name, and the times of the parts of the conversation."""
    found: list[tuple[str, Any]] = []
    written: dict[int, float] = {}
    for entry in sorted(files_of(folder), key=lambda entry: entry.path):
        name = entry.path[len(folder) + 1 :].replace(os.sep, "/")
        values = list(_values(entry.path, name))
        found += [(name, value) for value in values]
        is_part = name.startswith(f"{TALK}/parts/") and values
        if is_part and (seq := pick(values[0], "seq", of=int)) is not None:
            written[seq] = _mtime(entry)
    return found, written


def _values_in(found: list[tuple[str, Any]], file: str) -> list[Any]:
    return [value for name, value in found if name == file]


def _object_in(found: list[tuple[str, Any]], file: str) -> dict[str, Any] | None:
    return next((value for value in _values_in(found, file) if isinstance(value, dict)), None)


def _log_items(
    found: list[tuple[str, Any]], events: list[Any], talks: dict[str, list[Any]]
) -> tuple[list[Item], list[Item]]:
    """Return the steps and the results of nodes in the logs, without what messages tell."""
    is_flat = bool(events) or "" in talks
    steps = _values_in(found, "logs/tool_logs.jsonl")
    if steps:
        parts = [(node, part) for node, parts in talks.items() for part in parts]
        called = {(node, id_) for node, part in parts for id_ in _calls(part)}
        answered = {(node, pick(part, "tool_use_id", of=str)) for node, part in parts}
        has_turns = any(pick(event, "type", of=str) == TURN for event in events)
        steps = [_untold(step, called, answered, is_flat, has_turns) for step in steps]
    visits: dict[str, int] = {}
    return [
        {"step": step, **_visit(step, visits), "node": "" if is_flat else _node(step)}
        for step in steps
    ], [
        {"result": item, **_visit(item, visits), "node": _node(item)}
        for item in _values_in(found, "logs/details.jsonl")
    ]


def _notes(state: dict[str, Any] | None) -> Iterator[Item]:
    """Yield the decisions and the problems that the state lists."""
    for word in ("decisions", "problems"):
        for value in pick(state, word, of=list) or []:
            yield {
                word[:-1]: value,
                "at": utc(pick(value, "timestamp", of=str)),
                "node": pick(value, "node_id", of=str),
            }


def utc(text: str | None) -> str | None:
    """A time without a zone as that of this machine."""
    try:
        return datetime.fromisoformat(text).astimezone(UTC).isoformat() if text else None
    except (ValueError, OverflowError, OSError):
        return None


def _values(path: str, name: str) -> Iterator[Any]:
    """The objects of a file, and the texts of what is none."""
    if name.endswith(("index.json", "cursor.json")):  # Both repeat what other files say.
        return
    data = None if name.endswith(".jsonl") else read_small(path, FILE_BYTES)
    if data is None and not name.endswith(".jsonl"):
        if os.path.exists(path):  # Else it was compacted away just now.
            yield f"[{name} cannot be read, or is larger than {FILE_BYTES >> 20} MB]"
        return
    for line in _lines(path) if data is None else [data]:
        try:
            value = msgspec.json.decode(line)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            yield from (text if value is MALFORMED else value for value, text, _ in parse(line))
        else:
            yield value


def _lines(path: str) -> Iterator[bytes]:
    """Yield the lines of a log. Of a reply that grows with each word only the last state is given.
    Text after the last newline is still being written."""
    held = b""
    with open(path, "rb") as file:
        for _ in range(LINES):
            line = file.readline(FILE_BYTES)
            if not line.endswith(b"\n"):
                return
            if DELTA in line[:100]:
                held = line
                continue
            yield from (held, line) if held else (line,)
            held = b""


def _talks(found: Iterable[tuple[str, Any]], is_stale: bool) -> dict[str, list[Item]]:
    """The messages of each node in their order; those of a session without nodes are of one that
    has no name."""
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
    """Return the instructions with which each node began."""
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


def _untold(
    step: Any,
    told: set[tuple[str, str]],
    answered: set[tuple[str, str | None]],
    is_flat: bool,
    has_turns: bool,
) -> Any:
    """A step of the log of tools without what the messages tell of its calls, and the events of its
    tokens."""
    if not isinstance(step, dict):
        return step
    if has_turns:
        step = {
            word: value
            for word, value in step.items()
            if word not in ("input_tokens", "output_tokens")
        }
    calls = pick(step, "tool_calls", of=list)
    if not calls:
        return step
    node = "" if is_flat else pick(step, "node_id", of=str) or ""
    left = []
    for call in calls:
        if not isinstance(call, dict):
            left.append(call)
            continue
        id_ = pick(call, "tool_use_id", of=str) or ""
        gone = {"tool_input"} if (node, id_) in told else set[str]()
        gone |= {"result"} if (node, id_) in answered else set[str]()
        if gone != {"tool_input", "result"}:
            left.append({word: value for word, value in call.items() if word not in gone})
    return {**step, "tool_calls": left}


# Sessions of queens and workers: events say when a message came.


def _woven(events: list[Any], parts: list[Item]) -> Iterator[Item]:
    """Return the events, and before each the messages up to the one that it tells of. Messages
    without an event come before the next one that has one, or at the end. The text of a message is
    left out of its event."""
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
        text = (
            snapshot
            if word == TURN
            else pick(data, "content" if word == INPUT else "tool_use_id", of=str) or ""
        )
        known = places.get((word, text), [])
        end = next((n + 1 for n in known[bisect_left(known, place) :]), place)
        at = utc(pick(event, "timestamp", of=str))
        yield from ({"part": part, "at": at} for part in parts[place:end])
        if word == TURN or not (end > place if word == INPUT else known):
            yield {"event": event, "at": at}
        place = end
        snapshot = "" if word == TURN else snapshot
    yield from ({"part": part} for part in parts[place:])


def _as_it_came(events: list[Any], parts: list[Item], written: dict[int, float]) -> Iterator[Item]:
    """Return events and messages in the order in which they were written, while the session goes
    on, so that new records come last. Of an event and a message that say the same, the second is
    left out. A typed text has a message soon."""
    at, all_ = 0.0, list[tuple[float, bool, Item]]()
    for part in parts:  # In their own order, whatever a copy made of the times of their files.
        seq = pick(part, "seq", of=int)
        at = max(at, 0.0 if seq is None else written.get(seq, 0.0))
        all_.append((at, False, part))
    at = 0.0
    for event in events:
        at = max(at, _seconds(pick(event, "timestamp", of=str)))
        all_.append((at, True, event))
    told, answered = set[str](), set[str]()
    for _, is_event, item in sorted(all_, key=lambda one: one[:2]):
        if not is_event:
            if (result := pick(item, "tool_use_id", of=str)) and result in answered:
                continue
            calls = item.get("tool_calls")
            left = (
                [call for call in calls if pick(call, "id", of=str) not in told]
                if isinstance(calls, list)
                else calls
            )
            told.update(_calls(item))
            answered.update([result] if result else [])
            yield {"part": item if left == calls else {"content": "", **item, "tool_calls": left}}
            continue
        word, id_ = (
            pick(item, "type", of=str) or "",
            pick(item, "data", "tool_use_id", of=str) or "",
        )
        seen = {STARTED: told, ENDED: answered}.get(word)
        if word in (INPUT, "client_output_delta") or (seen is not None and id_ in seen):
            continue
        if seen is not None and id_:
            seen.add(id_)
        yield {"event": item, "at": utc(pick(item, "timestamp", of=str))}


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
    """The events that tell of a message: their words, and what they have in common with it."""
    said, role = pick(part, "content", of=str) or "", part.get("role")
    if said and role in ("user", "assistant"):
        yield INPUT if role == "user" else TURN, said
    for id_ in _calls(part):
        yield STARTED, id_
    if id_ := pick(part, "tool_use_id", of=str) or "":
        yield ENDED, id_


# Graph agents: node by node.


def _by_node(
    state: Item | None, talks: dict[str, list[Item]], logs: list[Item], checkpoints: list[Any]
) -> Iterator[Item]:
    """Return what nodes said and did between their checkpoints."""
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


def _visit(item: Any, seen: dict[str, int]) -> Item:
    """A node that is visited again counts its steps from the beginning: which visit this one is of,
    but for the first."""
    key = repr(
        [item.get(word) for word in ("node_id", "step_index", "attempt", "exit_status")]
        if isinstance(item, dict)
        else item
    )
    again = seen[key] = seen.get(key, -1) + 1
    return {"visit": again} if again else {}


def _begins(checkpoint: Any) -> bool:
    return pick(checkpoint, "checkpoint_type", of=str) == "node_start"


def _time_of(checkpoint: Any) -> str | None:
    return utc(pick(checkpoint, "created_at", of=str))


# The run as a whole.


def _begun(state: Item) -> Item:
    return {word: state[word] for word in FIXED if word in state}


def _ended(state: Item | None, summaries: list[Any]) -> Iterator[Item]:
    """Return the state of a run that is not at work, without what other records tell."""
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
    told = {word: value for word, value in state.items() if word not in left}
    times = ("completed_at", "paused_at_time", "updated_at")
    at = next((at for word in times if (at := pick(state, "timestamps", word, of=str))), None)
    yield {"ended": told, "at": utc(at)}
