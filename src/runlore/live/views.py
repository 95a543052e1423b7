"""The conversation as the model should see it: pure functions from messages to messages.

A message is `{"role": …, "content": text or blocks}`. Blocks are text, thinking, image, document,
tool_use and tool_result; unknown ones are passed on. Nothing here reads a log: `session.py`
provides the messages in view and the fate of calls.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal

import msgspec

from ..model import LogRecord, Plain

Message = dict[str, Any]
Fate = Literal[
    "settled", "not_started", "unknown", "running", "waiting", "approved", "refused", "open"
]
"""Fate of a tool call that has no result in the conversation.

`unknown`: it may have begun, and its end is not known. `waiting`: for a decision; `approved`: it
was approved and has not begun. `open`: its fate was not looked up.
"""
GROWING = (("text", "text"), ("thinking", "thinking"))
"""The blocks that arrive in pieces, and the field that grows."""
OPEN: frozenset[Fate] = frozenset({"running", "waiting", "approved", "open"})
"""The fates of calls that may still get a result."""

USAGE_NAMES = ("usage", "usage_metadata", "usageMetadata", "token_usage", "tokenUsage")
USAGE_HOLDERS = ("meta", "metadata", "response_metadata", "usage_details", "response")
"""The fields of a message in which its usage may be."""
INPUT_NAMES = (
    "input_tokens", "prompt_tokens", "prompt_token_count", "promptTokenCount", "inputTokens",
    "input_token_count", "prompt_eval_count", "request_tokens",
)  # fmt: skip
OUTPUT_NAMES = (
    "output_tokens", "completion_tokens", "candidates_token_count", "candidatesTokenCount",
    "outputTokens", "output_token_count", "eval_count", "response_tokens",
)  # fmt: skip
CACHED_INPUT = (
    "cache_read_input_tokens", "cache_creation_input_tokens", "cache_read_tokens",
    "cache_write_tokens", "cacheReadInputTokens", "cacheWriteInputTokens",
)  # fmt: skip
"""Cached tokens, in the fields of providers that do not count them as input."""

COMPACT_AT = 0.8
SUMMARY_PROMPT = """Summarize this conversation so that the work can go on from the summary alone.\
 Use these headings:

## User Requests
Everything the user asked for, in order, with the exact words where they matter.
## Completed Work
What was done: files, commands, results.
## Current State
What works now and what does not; what was being done last.
## Key Decisions
What was decided, and why.
## Next Steps
What is left to do, most urgent first.

State facts only: no opinions, no advice, nothing that is not in the conversation."""
SUMMARY_HEAD = "[Conversation Summary]\n\n"
SUMMARY_ACK = "Understood. I have the summary of our conversation so far and will go on from there."

INTERRUPTED = "error: tool call was interrupted"
RESULT_TEXTS: dict[Fate, str] = {
    "not_started": f"{INTERRUPTED} before the tool began",
    "unknown": f"{INTERRUPTED}; whether it took effect is not known",
    "running": "The tool is still running; its result will follow.",
    "waiting": "The tool call is waiting for approval.",
    "approved": "The tool call was approved; its result will follow.",
    "refused": "error: the tool call was refused",
    "open": "There is no result yet.",
}


class ToolCall(Plain, frozen=True, kw_only=True, omit_defaults=True):
    """A call of the model that has no result in the conversation."""

    call_id: str
    name: str = ""
    input: Any = None
    fate: Fate = "unknown"
    replay: str = "never"
    has_begun: bool = False
    output: Any = None
    is_error: bool = False
    decided_by: str = ""
    """Who approved or refused it."""
    decision: Any = None
    """What they said: the payload of `tool_decided`."""
    record: str = ""
    """Id of the record that holds the call."""


class Entry(Plain, frozen=True, gc=False):
    """A message in view and its record; None for a message that the view created."""

    message: Message
    record: LogRecord | None = None


class Conversation(Plain, frozen=True):
    """The conversation at a position of the log.

    `open_calls` have no result. Those of the last turn may still get one.
    """

    entries: list[Entry]
    open_calls: list[ToolCall] = msgspec.field(default_factory=list)

    @property
    def messages(self) -> list[Message]:
        return [entry.message for entry in self.entries]


def assemble(
    mark: LogRecord | None,
    nodes: Sequence[LogRecord],
    fates: Callable[[list[ToolCall], int], list[ToolCall]],
    *,
    partial: bool = True,
    repaired: bool = True,
) -> Conversation:
    """Build the conversation from a compaction or clear and the records in view after it.

    `fates` is called only if calls without a result are in view. It returns them with their fate;
    its second argument is the seq of the first.
    """
    entries = [Entry(message) for message in summary_of(mark)]
    if are_plain(nodes):
        return Conversation(entries + [Entry(node.payload, node) for node in nodes])
    entries += _entries_of(nodes, partial)
    if is_in_order(entry.message for entry in entries):
        return Conversation(entries)
    missing = [*_unanswered(entries)]
    if not repaired:
        return Conversation(entries, [call for _, call in missing])
    calls: list[ToolCall] = []
    if missing:
        first = entries[missing[0][0]].record
        calls = fates([call for _, call in missing], first.seq if first else -1)
    return Conversation(close_calls(entries, {call.call_id: call for call in calls}), calls)


def are_plain(nodes: Sequence[LogRecord]) -> bool:
    """Return True if all records are messages of text alone, which is common and cheap to show."""
    return all(
        node.type == "message"
        and type(node.payload.get("content")) is str
        and "tool_call_id" not in node.payload
        and "tool_calls" not in node.payload
        for node in nodes
    )


def is_self_contained(nodes: Sequence[LogRecord]) -> bool:
    """Return True if every result in these messages has its call there too.

    Their view is then the same as at the end of a longer conversation.
    """
    calls: set[Any] = set()
    for node in nodes:
        if node.type == "message":
            message = as_blocks(node.payload)
            if any(block.get("tool_use_id") not in calls for block in results_of(message)):
                return False
            calls.update(block["id"] for block in calls_of(message))
    return True


def summary_of(mark: LogRecord | None) -> list[Message]:
    """Return the messages in place of what a compaction covers; none for a clear."""
    return summary_pair(mark) if mark is not None and mark.type == "compact" else []


def adjacent(messages: Sequence[Message]) -> list[Message]:
    """Return the messages with a result right after every call, as providers require."""
    messages = [as_blocks(message) for message in messages]
    if is_in_order(messages):
        return messages
    entries = [Entry(message) for message in messages]
    calls = [msgspec.structs.replace(call, fate="open") for _, call in _unanswered(entries)]
    return [entry.message for entry in close_calls(entries, {call.call_id: call for call in calls})]


def as_blocks(message: Message) -> Message:
    """Return a raw message of OpenAI chat with its calls, or with its result, as blocks.

    Other messages are returned unchanged.
    """
    id, calls = message.get("tool_call_id"), message.get("tool_calls")
    if message.get("role") == "tool" and isinstance(id, str):
        result = {"type": "tool_result", "tool_use_id": id, "content": message.get("content")}
        return {"role": "user", "content": [result]}
    if message.get("role") != "assistant" or not isinstance(calls, list):
        return message
    text = message.get("content")
    blocks = [{"type": "text", "text": text}] if isinstance(text, str) and text else text or []
    rest = {name: value for name, value in message.items() if name != "tool_calls"}
    return {**rest, "content": [*blocks, *chat_calls(calls)]}


def chat_calls(calls: Any) -> Iterator[dict[str, Any]]:
    """Yield the calls of an OpenAI chat message as blocks."""
    for call in calls if isinstance(calls, list) else ():
        function = call.get("function") if isinstance(call, dict) else None
        if isinstance(function, dict):
            yield {
                "type": "tool_use",
                "id": call.get("id"),
                "name": function.get("name"),
                "input": parse_arguments(function.get("arguments")),
            }


def parse_arguments(arguments: Any) -> Any:
    """Return arguments as a value. Text that is not JSON, which a model may write, stays text."""
    if not isinstance(arguments, str):
        return arguments if arguments is not None else {}
    try:
        return json.loads(arguments) if arguments else {}
    except (ValueError, RecursionError):
        return arguments


def is_in_order(messages: Iterable[Message]) -> bool:
    """Return True if each call has its result in the next message, in the same order.

    This is the common case, and cheap to recognise.
    """
    waiting: list[Any] = []
    for message in messages:
        content, calls, results = message.get("content"), [], []
        for block in content if type(content) is list else ():
            kind = block.get("type") if isinstance(block, dict) else None
            if kind == "tool_use":
                calls.append(block.get("id"))
            elif kind == "tool_result":
                results.append(block.get("tool_use_id"))
        if results != waiting or (results and message.get("role") != "user"):
            return False
        if calls and not (
            message.get("role") == "assistant" and all(calls) and _are_distinct_texts(calls)
        ):
            return False
        waiting = calls
    return not waiting


def summary_pair(mark: LogRecord) -> list[Message]:
    """Return the messages that replace a compacted part: the summary as the user's, and a reply."""
    summary = mark.payload.get("summary")
    text = summary if isinstance(summary, str) else ""
    return [
        {
            "role": "user",
            "content": [{"type": "text", "text": SUMMARY_HEAD + text}],
            "meta": {"synthetic": True},
        },
        {
            "role": "assistant",
            "content": [{"type": "text", "text": SUMMARY_ACK}],
            "meta": {"synthetic": True},
        },
    ]


def should_compact(
    usage: Mapping[str, Any] | None, window: int | None, threshold: float = COMPACT_AT
) -> bool:
    """Return True if the context is full enough to compact. Cached tokens count as others do."""
    if not usage or not window or threshold <= 0:
        return False
    return context_tokens(usage) >= window * threshold


def find_usage(message: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Return the usage that a message carries, where each provider or framework puts it."""
    holders = [message, *(message.get(name) for name in USAGE_HOLDERS)]
    for holder in holders:
        if isinstance(holder, Mapping):
            for usage in [holder.get(name) for name in USAGE_NAMES]:
                if isinstance(usage, dict) and context_tokens(usage):
                    return usage
    return message if _count(message, "prompt_eval_count") else None


def context_tokens(usage: Mapping[str, Any]) -> int:
    """Return the number of tokens the model read, from the usage fields of any provider.

    Some providers leave cached tokens out of `input_tokens` and count them in a field beside it:
    these are added. Others include them and report the cached part in a nested field, which is
    ignored, or beside the total: then input and output alone add up to the total.
    """
    own = _first_count(usage, INPUT_NAMES)
    total = _first_count(usage, ("total_tokens", "totalTokens"))
    if total and total == own + _first_count(usage, OUTPUT_NAMES):
        return own
    return own + sum(_count(usage, name) for name in CACHED_INPUT)


def _first_count(usage: Mapping[str, Any], names: Iterable[str]) -> int:
    return next((count for name in names if (count := _count(usage, name))), 0)


def calls_of(message: Message) -> Iterator[dict[str, Any]]:
    """Yield the tool_use blocks of an assistant's message that can be answered: each id once."""
    if message.get("role") == "assistant":
        ids: set[str] = set()
        for block in _blocks(message):
            id = block.get("id")
            if block.get("type") == "tool_use" and isinstance(id, str) and id and id not in ids:
                ids.add(id)
                yield block


def results_of(message: Message) -> Iterator[dict[str, Any]]:
    if message.get("role") == "user":
        for block in _blocks(message):
            if block.get("type") == "tool_result":
                yield block


def result_block(call: ToolCall) -> dict[str, Any]:
    """Return the result that the view gives to a call without one: the recorded one, or a
    notice."""
    block: dict[str, Any] = {"type": "tool_result", "tool_use_id": call.call_id}
    if call.fate == "settled":
        return {**block, "content": _content(call.output), "is_error": call.is_error}
    text = INTERRUPTED if call.fate == "unknown" and not call.has_begun else RESULT_TEXTS[call.fate]
    is_open = call.fate in OPEN
    shown = "Tool call was interrupted"
    if call.fate == "refused":
        shown = "Tool call was refused"
        text = f"{text}: {call.decision}" if isinstance(call.decision, str) else text
    return {
        **block,
        "content": text,
        "display_text": "" if is_open else shown,
        "is_error": not is_open,
    }


def _content(output: Any) -> Any:
    """Return a tool's output as the content of a result: other values than text and blocks as
    JSON."""
    if output is None:
        return ""
    if isinstance(output, str) or (
        isinstance(output, list)
        and all(isinstance(part, dict) and "type" in part for part in output)
    ):
        return output
    return json.dumps(output, ensure_ascii=False)


def _unanswered(entries: Sequence[Entry]) -> Iterator[tuple[int, ToolCall]]:
    """Yield the calls without a result after them, each with its position."""
    answered: set[str] = set()
    unanswered: list[tuple[int, ToolCall]] = []
    for place in range(len(entries) - 1, -1, -1):
        entry = entries[place]
        answered.update(
            block["tool_use_id"]
            for block in results_of(entry.message)
            if isinstance(block.get("tool_use_id"), str)
        )
        here = [block for block in calls_of(entry.message) if block["id"] not in answered]
        # An id that is used twice needs two results.
        answered.difference_update(block["id"] for block in calls_of(entry.message))
        unanswered += [(place, _call(block, entry.record)) for block in reversed(here)]
    yield from reversed(unanswered)


def close_calls(entries: Sequence[Entry], calls: Mapping[str, ToolCall]) -> list[Entry]:
    """Return the entries with the result of every call right after it.

    A result stays in place, is moved there from further on, or is created.
    """
    results = _pair_results(entries)
    in_place = {id(block) for (call, _), (place, block) in results.items() if place == call + 1}
    unanswered = _without_result(entries, calls)
    closed: list[Entry] = []
    more: list[dict[str, Any]] = []
    for place, entry in enumerate(entries):
        shown = _with_results(entry, in_place, more)
        if shown is not None:
            closed.append(shown)
        more = _results_to_add(place, entry, results, unanswered)
        if more and not _has_results_in_place(entries[place + 1 : place + 2], in_place):
            closed.append(Entry({"role": "user", "content": more, "meta": {"synthetic": True}}))
            more = []
    return closed


def _without_result(
    entries: Sequence[Entry], calls: Mapping[str, ToolCall]
) -> Callable[[int, str], ToolCall | None]:
    """Return a lookup, by position and id, of the calls that need a result from the view.

    A call of the last turn that is running or waiting stays open.
    """
    last = max(
        (place for place, entry in enumerate(entries) if any(calls_of(entry.message))), default=-1
    )
    is_last_open = not any(_is_other_than_results(entry.message) for entry in entries[last + 1 :])

    def find(place: int, call_id: str) -> ToolCall | None:
        call = calls.get(call_id)
        if call is None:
            return None
        stays_open = place == last and is_last_open and call.fate in OPEN - {"open"}
        return None if stays_open else call

    return find


def _results_to_add(
    place: int,
    entry: Entry,
    results: Mapping[tuple[int, str], tuple[int, dict[str, Any]]],
    unanswered: Callable[[int, str], ToolCall | None],
) -> list[dict[str, Any]]:
    """Return the results that the message after this one lacks."""
    more: list[dict[str, Any]] = []
    for block in calls_of(entry.message):
        result = results.get((place, block["id"]))
        if result is not None:
            more += [result[1]] if result[0] != place + 1 else []
        elif (call := unanswered(place, block["id"])) is not None:
            more.append(result_block(call))
    return more


def _has_results_in_place(following: Sequence[Entry], in_place: set[int]) -> bool:
    return any(id(block) in in_place for entry in following for block in results_of(entry.message))


def _pair_results(
    entries: Sequence[Entry],
) -> dict[tuple[int, str], tuple[int, dict[str, Any]]]:
    """Map each call (position and id) to the position and block of its result.

    That is the first result after it that no other call has claimed.
    """
    waiting: dict[str, int] = {}
    claimed = {}
    for place, entry in enumerate(entries):
        for block in results_of(entry.message):
            id = block.get("tool_use_id")
            if isinstance(id, str) and id in waiting:
                claimed[waiting.pop(id), id] = (place, block)
        for block in calls_of(entry.message):
            waiting[block["id"]] = place
    return claimed


def _with_results(entry: Entry, in_place: set[int], more: list[dict[str, Any]]) -> Entry | None:
    """Return a message with its own results in place and `more` of them, or None if nothing is
    left.

    Orphaned and repeated results are dropped.
    """
    own = [*results_of(entry.message)]
    own_results = [block for block in own if id(block) in in_place]
    if len(own_results) == len(own) and not more:
        return entry
    others = [
        block
        for block in entry.message["content"]
        if not (isinstance(block, dict) and block.get("type") == "tool_result")
    ]
    content = own_results + more + others
    return Entry({**entry.message, "content": content}, entry.record) if content else None


def _is_other_than_results(message: Message) -> bool:
    content = message.get("content")
    return not isinstance(content, list) or any(
        not (isinstance(block, dict) and block.get("type") == "tool_result") for block in content
    )


def _entries_of(nodes: Sequence[LogRecord], partial: bool) -> Iterator[Entry]:
    pieces: list[dict[str, Any]] = []
    for place, node in enumerate(nodes):
        following = nodes[place + 1] if place + 1 < len(nodes) else None
        if node.type == "message":
            yield Entry(as_blocks(node.payload), node)
        elif node.type == "partial" and partial:
            delta = node.payload.get("delta")
            join_blocks(pieces, delta if isinstance(delta, list) else [])
            if _continues(node, following):
                continue
            if not _is_superseded(node, following):
                message = node.payload
                if delta is not None:
                    message = {"role": message.get("role"), "content": pieces}
                yield Entry(_without_calls(message), node)
            pieces = []


def join_blocks(blocks: list[dict[str, Any]], more: Iterable[Any]) -> None:
    """Add the blocks of a piece to those before it: text continues text, thinking thinking."""
    for block in more:
        if not isinstance(block, dict):
            continue
        last = blocks[-1] if blocks else {}
        field = next((name for kind, name in GROWING if kind == block.get("type")), "")
        old, new = last.get(field), block.get(field)
        if last.get("type") == block.get("type") and isinstance(old, str) and isinstance(new, str):
            blocks[-1] = {**last, **block, field: old + new}
        else:
            blocks.append(dict(block))


def _continues(node: LogRecord, following: LogRecord | None) -> bool:
    """Return True if the next record is another piece of the same stream."""
    stream = node.payload.get("stream")
    return (
        following is not None
        and stream is not None
        and following.type == "partial"
        and following.payload.get("stream") == stream
    )


def _is_superseded(node: LogRecord, following: LogRecord | None) -> bool:
    """Return True if a partial message is followed by more of it, or by the whole message."""
    role = node.payload.get("role")
    return following is not None and following.payload.get("role") == role


def _without_calls(message: Message) -> Message:
    """Return a cut-off message, marked and without its calls, which were incomplete and never
    ran."""
    content = message.get("content")
    if isinstance(content, list):
        content = [
            block
            for block in content
            if not (isinstance(block, dict) and block.get("type") == "tool_use")
        ]
    return {**message, "content": content, "partial": True}


def _call(block: dict[str, Any], record: LogRecord | None) -> ToolCall:
    name = block.get("name")
    return ToolCall(
        call_id=block["id"],
        name=name if isinstance(name, str) else "",
        input=block.get("input"),
        record=record.id if record else "",
    )


def _are_distinct_texts(values: list[Any]) -> bool:
    return all(isinstance(value, str) for value in values) and len(set(values)) == len(values)


def _blocks(message: Message) -> Iterable[dict[str, Any]]:
    content = message.get("content")
    return (
        (block for block in content if isinstance(block, dict)) if isinstance(content, list) else ()
    )


def _count(usage: Mapping[str, Any], name: str) -> int:
    value = usage.get(name)
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 0
