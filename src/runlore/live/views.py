"""The conversation as the model should see it now: pure functions from messages to messages.

A message is `{"role": …, "content": text or blocks}`; blocks are text, thinking, image, document,
tool_use and tool_result, and what is not known is handed on. Nothing here reads a log; `log.py`
says which messages are in view, and what became of calls.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal

import msgspec

from ..model import LogRecord

Message = dict[str, Any]
Fate = Literal["settled", "not_started", "unknown", "running", "waiting", "open"]
"""What became of a tool call that has no result in the conversation. `unknown`: it may have begun,
and nobody knows how it ended. `open`: nobody was asked."""

COMPACT_AT = 0.8
SUMMARY_PROMPT = """Summarize this conversation so that the work can go on from the summary alone. Use these headings:

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
TOLD: dict[Fate, str] = {
    "not_started": f"{INTERRUPTED} before the tool began",
    "unknown": f"{INTERRUPTED}; whether it took effect is not known",
    "running": "The tool is still running; its result will follow.",
    "waiting": "The tool call is waiting for approval.",
    "open": "There is no result yet.",
}


class ToolCall(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A call that the model made and that has no result in the conversation."""

    call_id: str
    name: str = ""
    input: Any = None
    fate: Fate = "unknown"
    replay: str = "never"
    has_begun: bool = False
    output: Any = None
    is_error: bool = False
    record: str = ""
    """The id of the record that holds the call."""


class Entry(msgspec.Struct, frozen=True, gc=False):
    """A message in view, and the record it comes from; None for one that the view made."""

    message: Message
    record: LogRecord | None = None


class Conversation(msgspec.Struct, frozen=True):
    """What is in view at a position of the log. `open_calls` have no result: of those, the last
    loop's may still get one."""

    entries: list[Entry]
    open_calls: list[ToolCall] = []

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
    """The conversation made of a compaction or clear, and what is seen behind it.

    `fates` is asked, only when calls without a result are in view, what became of them; its second
    argument is the seq of the first.
    """
    entries = (
        [Entry(message) for message in summary_pair(mark)]
        if mark is not None and mark.type == "compact"
        else []
    )
    if all(
        [node.type == "message" and type(node.payload.get("content")) is str for node in nodes]  # noqa: C419
    ):  # quicker
        return Conversation(entries + [Entry(node.payload, node) for node in nodes])
    for place, node in enumerate(nodes):
        if node.type == "message":
            entries.append(Entry(node.payload, node))
        elif node.type == "partial" and partial and not _is_superseded(nodes, place):
            entries.append(Entry(_without_calls(node.payload), node))
    if is_in_order(entry.message for entry in entries):
        return Conversation(entries)
    missing = [*_unanswered(entries)]
    if not repaired:
        return Conversation(entries, [call for _, call in missing])
    calls: list[ToolCall] = []
    if missing:
        first = entries[missing[0][0]].record
        calls = fates([call for _, call in missing], first.seq if first else -1)
    return Conversation(_closed(entries, {call.call_id: call for call in calls}), calls)


def adjacent(messages: Sequence[Message]) -> list[Message]:
    """The messages with a result right behind every call, as providers want it. Nothing is left
    open."""
    if is_in_order(messages):
        return list(messages)
    entries = [Entry(message) for message in messages]
    calls = [msgspec.structs.replace(call, fate="open") for _, call in _unanswered(entries)]
    return [entry.message for entry in _closed(entries, {call.call_id: call for call in calls})]


def is_in_order(messages: Iterable[Message]) -> bool:
    """Whether each call has its result in the very next message, and each result its call, in the
    same order.

    So it is as a rule, and telling it takes a seventh of the time that working it out takes.
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
    """What stands in place of what a compaction covers: the summary as the user's, and an
    acknowledgement."""
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
    """Whether the context is so full that it is time to compact. Tokens that came from a cache fill
    it as others do."""
    if not usage or not window or threshold <= 0:
        return False
    return context_tokens(usage) >= window * threshold


def context_tokens(usage: Mapping[str, Any]) -> int:
    """How many tokens the model read, by the words of any provider.

    Where `input_tokens` leaves out what was cached, the cached tokens have a count of their own
    beside it; where they are a part of it (`input_tokens_details`, `prompt_tokens`), that count
    stands elsewhere.
    """
    own = next(
        (
            count
            for name in ("input_tokens", "prompt_tokens", "prompt_token_count")
            if (count := _count(usage, name))
        ),
        0,
    )
    beside = (
        "cache_read_input_tokens",
        "cache_creation_input_tokens",
        "cache_read_tokens",
        "cache_write_tokens",
    )
    return own + sum(_count(usage, name) for name in beside)


def calls_of(message: Message) -> Iterator[dict[str, Any]]:
    """The tool_use blocks of an assistant's message that can be answered: those with an id, each id
    once."""
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
    """The result that the view gives to a call that has none: the ledger's, or the news that there
    is none."""
    block: dict[str, Any] = {"type": "tool_result", "tool_use_id": call.call_id}
    if call.fate == "settled":
        return {**block, "content": _content(call.output), "is_error": call.is_error}
    text = INTERRUPTED if call.fate == "unknown" and not call.has_begun else TOLD[call.fate]
    is_open = call.fate in ("running", "waiting", "open")
    return {
        **block,
        "content": text,
        "display_text": "" if is_open else "Tool call was interrupted",
        "is_error": not is_open,
    }


def _content(output: Any) -> Any:
    """What a tool gave, as the content of a result: text and blocks as they are, other values as
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
    """The calls without a result behind them, each with its place."""
    answered: set[str] = set()
    found: list[tuple[int, ToolCall]] = []
    for place in range(len(entries) - 1, -1, -1):
        entry = entries[place]
        answered.update(
            block["tool_use_id"]
            for block in results_of(entry.message)
            if isinstance(block.get("tool_use_id"), str)
        )
        here = [block for block in calls_of(entry.message) if block["id"] not in answered]
        # An id used twice needs two results.
        answered.difference_update(block["id"] for block in calls_of(entry.message))
        found += [(place, _call(block, entry.record)) for block in reversed(here)]
    yield from reversed(found)


def _closed(entries: Sequence[Entry], calls: Mapping[str, ToolCall]) -> list[Entry]:
    """Every call with its result right behind it: where it was, moved there from further on, or
    made."""
    results = _claimed(entries)
    in_place = {id(block) for (call, _), (place, block) in results.items() if place == call + 1}
    last = max(
        (place for place, entry in enumerate(entries) if any(calls_of(entry.message))), default=-1
    )
    is_last_loop_open = not any(
        _is_other_than_results(entry.message) for entry in entries[last + 1 :]
    )
    closed: list[Entry] = []
    more: list[dict[str, Any]] = []
    for place, entry in enumerate(entries):
        kept = _with_results(entry, in_place, more)
        if kept is not None:
            closed.append(kept)
        more = []
        for block in calls_of(entry.message):
            found = results.get((place, block["id"]))
            call = calls.get(block["id"])
            if found is not None:
                more += [found[1]] if found[0] != place + 1 else []
            elif call is not None and not (
                place == last and is_last_loop_open and call.fate in ("running", "waiting")
            ):
                more.append(result_block(call))
        if more and not (
            place + 1 < len(entries)
            and any(id(block) in in_place for block in results_of(entries[place + 1].message))
        ):
            closed.append(Entry({"role": "user", "content": more, "meta": {"synthetic": True}}))
            more = []
    return closed


def _claimed(entries: Sequence[Entry]) -> dict[tuple[int, str], tuple[int, dict[str, Any]]]:
    """For each call, by its place and id, the place and block of its result: the first one behind
    it that no call has yet."""
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
    """A message with the results that belong there, and `more` of them. None when nothing is left:
    orphans and repeats are dropped."""
    own = [*results_of(entry.message)]
    kept = [block for block in own if id(block) in in_place]
    if len(kept) == len(own) and not more:
        return entry
    others = [
        block
        for block in entry.message["content"]
        if not (isinstance(block, dict) and block.get("type") == "tool_result")
    ]
    content = kept + more + others
    return Entry({**entry.message, "content": content}, entry.record) if content else None


def _is_other_than_results(message: Message) -> bool:
    content = message.get("content")
    return not isinstance(content, list) or any(
        not (isinstance(block, dict) and block.get("type") == "tool_result") for block in content
    )


def _is_superseded(nodes: Sequence[LogRecord], place: int) -> bool:
    """A stream that was kept while it came in is followed by more of it, or by the whole
    message."""
    following = nodes[place + 1] if place + 1 < len(nodes) else None
    return following is not None and following.payload.get("role") == nodes[place].payload.get(
        "role"
    )


def _without_calls(message: Message) -> Message:
    """A cut-off message: marked, and without the calls in it, which were not complete and never
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
    return all([isinstance(value, str) for value in values]) and len(set(values)) == len(  # noqa: C419
        values
    )  # quicker


def _blocks(message: Message) -> Iterable[dict[str, Any]]:
    content = message.get("content")
    return (
        (block for block in content if isinstance(block, dict)) if isinstance(content, list) else ()
    )


def _count(usage: Mapping[str, Any], name: str) -> int:
    value = usage.get(name)
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 0
