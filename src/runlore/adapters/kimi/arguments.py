"""Calls of Kimi CLI whose arguments are written in parts, with other messages in between.

A part has no id. It continues the last call of whoever speaks: the session itself, or a subagent
whose messages its log repeats, several of which may speak in turn.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from ..shared.jsonl import to_json
from ..shared.values import Record

MAX_HELD = 10_000  # Records between the beginning of a call's arguments and their end.
MAX_HELD_BYTES = 16 << 20
MAX_DEPTH = 8  # Subagents of subagents.
ENDS = frozenset(
    {
        "ToolCall",
        "StatusUpdate",
        "StepBegin",
        "StepInterrupted",
        "TurnBegin",
        "TurnEnd",
        "SteerInput",
    }
)
"""Types of messages that only come after the last of a speaker's arguments."""
_MESSAGE = re.compile(
    rb'"message": ?\{"type":'
    rb' ?"(ToolCall|ToolCallPart|ToolResult|StatusUpdate|StepBegin|StepInterrupted'
    rb'|TurnBegin|TurnEnd|SteerInput|SubagentEvent)"'
)
_REFUSALS = (msgspec.DecodeError, UnicodeDecodeError, RecursionError, KeyError, TypeError)


class Message(msgspec.Struct, gc=False):
    """A record about a call, or about the end of a step."""

    speaker: str
    word: str
    call_id: str = ""
    text: str = ""


class Call(msgspec.Struct, gc=False):
    """A call whose arguments are not complete yet, among the records that are held back."""

    at: int
    call_id: str
    texts: list[str]
    parts: list[int] = msgspec.field(default_factory=list)

    @property
    def arguments(self) -> str:
        return "".join(self.texts)


def whole_calls(records: Iterable[Record], is_stale: bool) -> Iterator[Record]:
    """Yield the records, with all arguments of a call in its first record: redaction would miss a
    secret that is split over two. A call whose rest may still come is held back with all that
    follows it, unless the log has not changed for long."""
    held = _Held()
    for record in records:
        yield from held.take(record)
    yield from held.finish(is_stale)


class _Held:
    def __init__(self) -> None:
        self.records: list[Record] = []
        self.size = 0
        self.calls: dict[str, Call] = {}
        """The calls that are not complete, by their speakers."""

    def take(self, record: Record) -> Iterator[Record]:
        message = read_message(record, bool(self.calls))
        if message is not None:
            self.close_for(message)
        if len(self.records) >= MAX_HELD or self.size >= MAX_HELD_BYTES:
            self.close(list(self.calls))
        yield from self.release()
        self.records.append(record)
        self.size += len(record.data)
        if message is not None:
            self.note(message)
        yield from self.release()

    def finish(self, is_stale: bool) -> Iterator[Record]:
        """Yield what can be given at the end of the log."""
        if is_stale:
            self.close(list(self.calls))
        yield from self.release()

    def close_for(self, message: Message) -> None:
        """Close the calls that cannot be continued after this message: the one of its speaker, or
        those of a subagent whose own call has its result."""
        speaker = message.speaker
        if message.word in ENDS:
            self.close([speaker])
        elif message.word == "ToolResult" and message.call_id:
            below = speaker + _below(message.call_id, "")
            ended = [name for name in self.calls if name.startswith(below)]
            call = self.calls.get(speaker)
            self.close([*ended, speaker] if call and call.call_id == message.call_id else ended)

    def note(self, message: Message) -> None:
        """Note what the record that came last says of a call."""
        speaker, at = message.speaker, len(self.records) - 1
        if message.word == "ToolCall" and not is_whole(message.text):
            self.calls[speaker] = Call(at, message.call_id, [message.text])
        elif message.word == "ToolCallPart" and (call := self.calls.get(speaker)):
            call.texts.append(message.text)
            call.parts.append(at)
            # Most parts do not end like an object, and need not be joined.
            if message.text.rstrip().endswith("}") and is_whole(call.arguments):
                self.close([speaker])

    def close(self, speakers: list[str]) -> None:
        """Put the arguments of calls together."""
        for speaker in speakers:
            call = self.calls.pop(speaker, None)
            if call is None or not call.parts:
                continue
            self.records[call.at] = _with_arguments(self.records[call.at], call.arguments)
            for at in call.parts:
                self.records[at] = _with_arguments(self.records[at], "")

    def release(self) -> Iterator[Record]:
        """Yield the records before the first call that is not complete."""
        end = min((call.at for call in self.calls.values()), default=len(self.records))
        if not end:
            return
        given, self.records = self.records[:end], self.records[end:]
        self.size -= sum(len(record.data) for record in given)
        for call in self.calls.values():
            call.at -= end
            call.parts = [at - end for at in call.parts]
        yield from given


def read_message(record: Record, is_open: bool) -> Message | None:
    """Return what a record says about a call; None where that is nothing that matters. While no
    call is open, only another one does."""
    found = None if record.sidecar else _MESSAGE.search(record.data, 0, 200)
    if found is None:
        return None
    word = found[1].decode()
    if not is_open and word != "ToolCall" and b'"ToolCall"' not in record.data:
        return None
    if word in ENDS and word != "ToolCall":
        return Message("", word)
    try:
        speaker, message = unwrapped(msgspec.json.decode(record.data)["message"])
        word, payload = message["type"], message["payload"]
        if word == "ToolCall":
            text, call_id = payload["function"].get("arguments"), payload.get("id")
        else:
            text, call_id = payload.get("arguments_part"), payload.get("tool_call_id")
    except (*_REFUSALS, AttributeError):
        return None
    if not isinstance(word, str) or not isinstance(text, str | None):
        return None
    return Message(speaker, word, call_id if isinstance(call_id, str) else "", text or "")


def unwrapped(message: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """Return who speaks, and what, of a message that may be repeated from a subagent."""
    speaker = ""
    for _ in range(MAX_DEPTH):
        if message["type"] != "SubagentEvent":
            break
        payload = message["payload"]
        speaker += speaker_of(payload)
        message = payload["event"]
    return speaker, message


def speaker_of(payload: dict[str, Any]) -> str:
    """Return the name of the subagent whose message is repeated."""
    return _below(
        str(payload.get("parent_tool_call_id", payload.get("task_tool_call_id")))[:200],
        str(payload.get("agent_id"))[:200],
    )


def _below(call_id: str, agent: str) -> str:
    return f"{call_id}\0{agent}" + "\0" * bool(agent)


def is_whole(arguments: str) -> bool:
    """Return True if arguments are a complete JSON object."""
    if not arguments.rstrip().endswith("}"):
        return False
    try:
        msgspec.json.decode(arguments)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return False
    return True


def _with_arguments(record: Record, arguments: str) -> Record:
    """Return the record of a call, or of a part of one, with these arguments."""
    value = msgspec.json.decode(record.data)
    _, message = unwrapped(value["message"])
    if message["type"] == "ToolCall":
        message["payload"]["function"]["arguments"] = arguments
    else:
        message["payload"]["arguments_part"] = arguments
    return msgspec.structs.replace(record, data=to_json(value))
