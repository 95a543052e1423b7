"""Codex: rollouts of JSON lines, three envelopes, and forks that begin with a copy."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from datetime import datetime, timedelta
from itertools import pairwise
from pathlib import Path

from .values import JSON, Counts, Rule, Session, get, number, read_json, read_lines, starts, texts

AGENT = "codex"
FOLDERS = (".codex",)
CONTEXT = (
    "<environment_context>", "<user_instructions>", "# AGENTS.md instructions", "<external_",
    "<skill>", "<turn_aborted>", "<subagent_notification>",
    "<codex_internal_context", "<goal_context>", "<recommended_plugins>", "<hook_prompt",
    "<user_action>", "Warning: The maximum number of unified exec",
    "Warning: apply_patch was requested via",
)  # fmt: skip
CALLS = (
    "function_call", "custom_tool_call", "local_shell_call", "web_search_call",
    "tool_search_call", "image_generation_call",
)  # fmt: skip
RESULTS = (
    "function_call_output", "custom_tool_call_output", "local_shell_call_output",
    "tool_search_output", "tool_search_call_output",
)  # fmt: skip
IMAGE = re.compile(r"</?image\b[^>]*>")
ENDS = ("mcp_tool_call_end", "patch_apply_end", "exec_command_end")
ITEM_CALLS = (
    "CommandExecution", "FileChange", "McpToolCall", "DynamicToolCall", "CollabAgentToolCall",
    "WebSearch", "ImageView",
)  # fmt: skip


def count(root: Path) -> Iterator[Session]:
    """Count rollouts; of one that was archived and is there again, the active copy."""
    names = ("history.jsonl", "session_index.jsonl")
    paths = sorted((*root.rglob("*.jsonl"), *root.rglob("rollout-*.json")))
    by_name = {path.name: path for path in paths if path.name not in names}
    unique = [path for path in paths if path.name not in names]
    if any("archived_sessions" in path.parts for path in paths):
        unique = list(by_name.values())
    rollouts = {path: _records(path) for path in unique}
    parents = {_thread(records): records for records in rollouts.values()}
    for path, records in rollouts.items():
        counts = count_rollout(records)
        _add_tokens(counts, _events(_own_records(records, parents)))
        yield Session(path, _thread(records) or path.stem, counts)


def _thread(records: list[JSON]) -> str:
    first = records[0] if records else {}
    return str(get(first, "payload", "id") or first.get("id") or "")


def _records(path: Path) -> list[JSON]:
    if path.suffix == ".jsonl":
        return list(read_lines(path))
    document = read_json(path)
    return [get(document, "session") or {}, *(get(document, "items") or ())]


def count_rollout(records: list[JSON]) -> Counts:
    items = [
        record.get("payload", record)
        for record in records
        if record.get("type") in ("response_item", "request_item") or "payload" not in record
    ]
    items = [item for item in items if isinstance(item, dict)]
    events = _events(records)
    counts = Counts(
        calls=sum(item.get("type") in CALLS for item in items),
        results=sum(item.get("type") in (*RESULTS, "web_search_call") for item in items),
    )
    ids = {item.get("call_id") for item in items}
    ended = {event.get("call_id") for event in events if event.get("type") in ENDS}
    done = [get(event, "item") for event in events if event.get("type") == "item_completed"]
    ended |= {get(item, "id") for item in done if get(item, "type") in ITEM_CALLS}
    counts.calls += len(ended - ids)  # A script made them: only their end is recorded.
    counts.results += len(ended - ids)
    _add_messages(counts, items, _without_echoes(records))
    return counts


def _events(records: list[JSON]) -> list[JSON]:
    return [
        record["payload"]
        for record in records
        if record.get("type") == "event_msg" and isinstance(record.get("payload"), dict)
    ]


def _add_messages(counts: Counts, items: list[JSON], events: list[JSON]) -> None:
    """Count messages that are recorded twice, as an item and as an event, once."""
    done = [get(event, "item") for event in events if event.get("type") == "item_completed"]
    messages = [item for item in items if item.get("type") in ("message", None) and "role" in item]
    for role, event, whole in (
        ("user", "user_message", "UserMessage"),
        ("assistant", "agent_message", "AgentMessage"),
    ):
        in_items = Counter(_text(item) for item in messages if item["role"] == role)
        in_events = Counter(_text(one) for one in events if one.get("type") == event)
        written = in_items | in_events
        if not written:
            written = Counter(_text(item) for item in done if get(item, "type") == whole)
        number = sum(n for text, n in written.items() if text and not starts(text, CONTEXT))
        if role == "user":
            tasks = [_text(item) for item in items if item.get("type") == "agent_message"]
            counts.prompts = number + sum("Message Type: NEW_TASK" in text for text in tasks)
        else:
            counts.replies = number


def _without_echoes(records: list[JSON]) -> list[JSON]:
    """Return the events, and of the same prompt twice within a second (a review) the first."""
    last: JSON = None
    events = []
    for record in records:
        event = record.get("payload")
        if record.get("type") == "event_msg" and isinstance(event, dict):
            prompt = (event.get("message"), str(record.get("timestamp"))[:19])
            if event.get("type") != "user_message" or prompt != last:
                events.append(event)
            last = prompt if event.get("type") == "user_message" else last
    return events


def _text(message: JSON) -> str:
    """Return the text of a message; of one with a picture alone, that there is one."""
    content = message.get("content") or message.get("message")
    text = " ".join(IMAGE.sub("", " ".join(texts(content))).split())
    return text or ("[picture]" if message.get("images") or content else "")


def _add_tokens(counts: Counts, events: list[JSON]) -> None:
    """Add the last request of each count, unless its total has been told before."""
    total: JSON = None
    totals: list[JSON] = []
    for event in events:
        info = event.get("info")
        if event.get("type") == "turn.completed":
            _add_usage(counts, event.get("usage") or {})
        if event.get("type") != "token_count" or not isinstance(info, dict):
            continue
        last, now = info.get("last_token_usage"), info.get("total_token_usage")
        if not (last or now) or (now is not None and now in totals):
            continue
        totals.append(now)
        if not last:
            before = total or {}
            last = {key: number(value) - number(before.get(key)) for key, value in now.items()}
        total = now
        _add_usage(counts, last)


def _add_usage(counts: Counts, usage: JSON) -> None:
    whole = number(usage.get("input_tokens"))
    cached = min(whole, number(usage.get("cached_input_tokens")))
    written = min(whole - cached, number(usage.get("cache_write_input_tokens")))
    into = whole - cached - written
    counts.add_tokens(into, usage.get("output_tokens"), cached, written)


def _own_records(records: list[JSON], parents: dict[str, list[JSON]]) -> list[JSON]:
    """Leave out what a fork or a subagent copied of its parent.

    Its own history begins with the first turn whose id was made after the thread's id; both begin
    with 48 bits of time. If it does not name its turns, copies are what its parent has; without
    the parent, what was written within a minute of the record before, from the first one on.
    """
    metas = [record for record in records if record.get("type") == "session_meta"]
    ids = {get(meta, "payload", "id") for meta in metas}
    own = get(metas[0], "payload", "id") if metas else None
    if isinstance(own, str) and len(ids) > 1:
        for at, record in enumerate(records):
            turn = get(record, "payload", "turn_id")
            begins = record.get("type") == "turn_context" or get(record, "payload", "type") in (
                "task_started",
                "turn_started",
            )
            if begins and isinstance(turn, str) and turn[:13] >= own[:13]:
                return records[at:]
    origin = get(metas[0], "payload", "forked_from_id") if metas else None
    if not origin or any(get(record, "payload", "turn_id") for record in records):
        return records
    if origin in parents:
        copies = [record.get("payload") for record in parents[origin]]
        return [record for record in records if record.get("payload") not in copies]
    events = [record for record in records if record.get("type") == "event_msg"]
    times = [datetime.fromisoformat(event["timestamp"]) for event in events]
    for at, (before, now) in enumerate(pairwise(times), 1):
        if now - before > timedelta(minutes=1):
            return events[at:]
    return []


def _is_lost(session: Session, _: object) -> Counts:
    """Leave out a fork that does not name its turns and went on within a minute."""
    records = _records(session.path)
    is_copy = not _own_records(records, {}) and bool(records)
    return Counts() - session.counts if is_copy else Counts()


RULES = (
    Rule(
        "the copy at the beginning of a fork ends with a pause, and here is none",
        _is_lost,
        is_fault=True,
        in_usage=lambda session: _is_lost(session, None),
    ),
)
