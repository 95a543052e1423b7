"""The meaning of the records of a Gemini CLI session: a header, messages that are written again as
they grow, changes to all of it."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any
from zlib import crc32

import msgspec

from ... import model as api
from .. import Normalized, Record, Source
from ..shared.fold import keep, load
from ..shared.jsonl import to_json
from ..shared.pick import clean, identifier, pick, time_of
from ..shared.stream import CALLS, Call, SessionFold, State
from ..shared.tools import key_values, reminder_line, text_of
from . import LOGS, words
from .names import name_session
from .prompts import Prompts

CARRY = 1
"""The layout of `Chat`; changed only together with the adapter's `version`."""
MESSAGES = 500  # That are remembered. Only the last ones are written again; a rewind may name any.
MAX_COMPACTED = 1000  # Messages that a compaction says it kept.

# The numbers of a message's parts, so that each has its name whatever else was there when it was
# first read.
TOKENS, EXPANDED, FIRST_VERSION = 1, 2, 10
THOUGHTS, PICTURES, PARTS, TOOLS = 100_000, 200_000, 300_000, 1_000_000
REMINDERS = 1 << 33  # Added to the number of a call: behind all calls and results.
VERSIONS = 16  # Of a message. An agent that writes more of them is not known.

TURNS = {
    "user": "user",
    "gemini": "gemini",
    "model": "gemini",
    "assistant": "gemini",
    "qwen": "gemini",
}
NOTES = frozenset({"info", "error", "warning"})
QUIET = frozenset(
    {
        "lastUpdated",
        "sessionId",
        "projectHash",
        "startTime",
        "kind",
        "directories",
        "summary",
        "messages",
    }
)
HEADER = ("sessionId", "projectHash", "startTime", "start_time")
CANCELLED = "Request cancelled"
FAILED = "This request failed"


def normalize(source: Source, records: Iterable[Record], carry: bytes | None) -> Normalized:
    """Return what the records of a source mean."""
    if os.path.basename(source.path) == LOGS:
        return Prompts(source, carry).run(records)
    return Reader(source, carry).run(records)


class History(msgspec.Struct, array_like=True):
    """The events that a message has given."""

    is_turn: bool = False
    is_gone: bool = False
    thoughts: int = 0
    texts: list[bytes] = msgspec.field(default_factory=list)
    """Hashes of what it said, one for each version."""
    has_tokens: bool = False
    first: str = ""
    last: str = ""
    seq: int = -1
    before: str | None = None
    """What it follows."""


class Chat(State):
    version: int = CARRY
    messages: dict[str, History] = msgspec.field(default_factory=dict)
    has_begun: bool = False


class Reader(SessionFold[Chat]):
    def __init__(self, source: Source, carry: bytes | None) -> None:
        super().__init__(source, load(carry, Chat, CARRY))
        self.events = History()
        self.view: str | None = None
        """Set while a history is read that the program wrote anew: what is new in it nobody
        typed."""
        self.is_first = True
        """True if the message has given no event yet."""
        self.is_known = False
        """True if the message is one of such a history and was read before: then its calls were,
        too."""

    def sidecar(self, name: str, data: bytes) -> None:
        if name == "cwd":
            self.state.cwd = data.decode("utf-8", "replace").strip()[:4096] or None
        elif name == "relation" and not self.state.session:
            self.state.relation = "subagent" if data == b"subagent" else "continuation"

    def line(self, value: dict[str, Any]) -> None:
        if "$rewindTo" in value:
            self.rewind(value["$rewindTo"])
        elif "$set" in value:
            self.update(value["$set"])
        elif value.keys() & {"type", "role", "content", "parts", "toolCalls", "thoughts", "tokens"}:
            self.message(value)
        elif value.keys() & set(HEADER):
            self.header(value)
        else:
            self.unknown(None)

    # The session.

    def header(self, value: dict[str, Any]) -> None:
        state = self.state
        if pick(value, "kind", of=str) == "subagent":
            state.relation = "subagent"
        name, first = pick(value, "sessionId", of=str), None
        if not self.above and not state.session:
            name, first = name_session(value, self.file, state.relation)
        state.parent = self.uid(first) if first else state.parent
        session = self.session(name)
        self.about(value)
        if state.has_begun:
            self.merge("header")
            return
        state.has_begun = True
        self.ts = time_of(value.get("startTime", value.get("start_time")))
        self.native_id = f"{session}/start"
        self.emit("lifecycle", "", "header", "session started")

    def about(self, value: dict[str, Any]) -> None:
        state = self.state
        folders = pick(value, "directories", of=list) or []
        if state.cwd is None and folders and isinstance(folders[0], str):
            state.cwd = folders[0][:4096]
        self.set_title(pick(value, "summary", of=str), 2)

    def update(self, value: Any) -> None:
        """A change to the header, or to the whole list of messages."""
        if not isinstance(value, dict):
            self.unknown("$set")
            return
        self.about(value)
        more = {word: item for word, item in value.items() if word not in QUIET}
        if more:
            self.emit("lifecycle", key_values(more), "$set", ", ".join(more))
        messages = value.get("messages")
        if isinstance(messages, list):
            self.history(messages)
        elif messages is not None:
            self.unknown("$set/messages")
        if not self.count:
            self.merge("$set")

    def history(self, messages: list[Any]) -> None:
        """The messages as the program wrote them anew. Those that are missing have left the model's
        context; what is new stands for them; results that are masked were emptied."""
        state, raw, begun = self.state, self.raw, self.count
        keys = {key for message in messages if (key := identifier(pick(message, "id", of=str)))}
        lost = self.find_lost(messages, keys)
        self.native_id = self.native_id or self.new_id()
        if lost:
            self.add_compaction(lost, keys)
        masked = list(
            dict.fromkeys(call_id for message in messages for call_id in self.masked(message))
        )
        if masked:
            self.add_masking(masked)
        own, count = self.native_id, self.count - begun
        self.view = "summary" if lost else "context"
        count += self.read_again(self.unforgotten(messages, bool(lost)))
        self.view = None
        for call_id in masked:
            if call := state.calls.get(call_id):
                call.is_cleared = True
        self.raw, self.native_id, self.count = raw, own, begun + count
        # From here on the messages come in this order; what has left is remembered as the oldest.
        ordered = [key for key in state.messages if key not in keys] + [
            key for key in map(self.key_of, messages) if key in state.messages
        ]
        state.messages = {key: state.messages[key] for key in ordered}

    def find_lost(self, messages: list[Any], keys: set[str]) -> list[str]:
        """Return the turns that are missing from a history. A message that has the same words under
        another id is not missing."""
        texts = {
            words.stamp(words.split_content(message.get("content"))[0])
            for message in _dicts(messages)
        }
        turns = [
            (key, events)
            for key, events in self.state.messages.items()
            if events.is_turn and not events.is_gone
        ]
        return [key for key, events in turns if key not in keys and texts.isdisjoint(events.texts)]

    def add_compaction(self, lost: list[str], keys: set[str]) -> None:
        remaining = [key for key in self.state.messages if key in keys]
        refs = tuple(self.named(key) for key in remaining[-MAX_COMPACTED:])
        summary = f"compacted: {len(lost)} messages left"
        self.emit("lifecycle", "", "compaction", summary, view="compact", refs=refs)
        for key in lost:
            self.state.messages[key].is_gone = True

    def add_masking(self, masked: list[str]) -> None:
        summary = f"the output of {len(masked)} calls was masked"
        refs = tuple(masked[:MAX_COMPACTED])
        self.emit("lifecycle", "", "masking", summary, view="clear", refs=refs)

    def read_again(self, messages: list[Any]) -> int:
        """Add what is new in the messages of a history. Return the number of events."""
        count = 0
        for message in messages:
            self.begin(to_json(message))
            if isinstance(message, dict):
                self.message(message, is_again=True)
            else:
                self.unknown("$set/messages")
            count += self.count
        return count

    def unforgotten(self, messages: list[Any], is_compacted: bool) -> list[Any]:
        """The messages without those at the beginning that were told so long ago that they are no
        longer remembered."""
        if is_compacted or len(self.state.messages) < MESSAGES:
            return messages
        first = next(
            (
                n
                for n, message in enumerate(messages)
                if self.key_of(message) in self.state.messages
            ),
            0,
        )
        return messages[first:]

    def key_of(self, message: Any) -> str:
        return identifier(pick(message, "id", of=str)) or ""

    def masked(self, message: Any) -> list[str]:
        """The calls whose results are masked in this message, and were not before."""
        calls = [
            (pick(call, "id", of=str), call.get("result"))
            for call in _dicts(pick(message, "toolCalls", of=list))
        ]
        parts = _dicts(words.listed(message.get("content")) if isinstance(message, dict) else None)
        calls += [
            (pick(part, "functionResponse", "id", of=str), part)
            for part in parts
            if "functionResponse" in part
        ]
        names = [identifier(call_id) or "" for call_id, found in calls if words.is_masked(found)]
        return [
            name
            for name in names
            if name and ((call := self.state.calls.get(name)) is None or not call.is_cleared)
        ]

    def rewind(self, target: Any) -> None:
        """Add a rewind to before a message. Later messages stay, on a branch that was left."""
        state, name = self.state, identifier(target)
        keys = [key for key, events in state.messages.items() if not events.is_gone]
        if name in keys:
            removed = [state.messages[key] for key in keys[keys.index(name) :]]
            first = removed[0]
        else:  # The agent then begins with nothing.
            removed = [state.messages[key] for key in keys]
            first = min(state.messages.values(), key=lambda events: events.seq, default=History())
        refs = (first.first, "..", state.last or first.last) if removed else ()
        for events in removed:
            events.is_gone = True
        self.parent = first.before
        word = "message" if len(removed) == 1 else "messages"
        view = "retract" if refs else None
        self.emit(
            "human_intervention",
            "",
            "$rewindTo",
            f"rewound {len(removed)} {word}",
            "user",
            view=view,
            refs=refs,
        )
        state.last = first.before

    def named(self, key: str) -> str:
        return key if key.startswith("~") else f"{self.session()}/{key}"

    # Messages.

    def message(self, value: dict[str, Any], is_again: bool = False) -> None:
        state = self.state
        key = self.identify_message(value, is_again)
        self.ts = time_of(value.get("timestamp"))
        known = key in state.messages
        self.is_first, self.is_known = not known, known and is_again
        self.events = state.messages.get(key) or History(before=self.parent)
        self.events.is_gone = False
        kind = self.add_message(value)
        if self.count:
            self.events.is_turn = kind in ("gemini", "user")
            keep(state.messages, key, self.events, MESSAGES)
        elif not is_again:
            self.merge("told before" if known else "empty")

    def identify_message(self, value: dict[str, Any], is_again: bool) -> str:
        """Return the key of a message, and name the record for it."""
        key = identifier(value.get("id"))
        if key is None:
            self.native_id = self.new_id()
            return self.native_id
        key = key.lstrip("~") or "unknown"
        if is_again:
            self.native_id = self.named(key)
        else:
            self.identify(self.named(key))
        return key

    def add_message(self, value: dict[str, Any]) -> str:
        """Add the events of a message that are new. Return its kind."""
        word = pick(value, "type", of=str) or pick(value, "role", of=str) or ""
        kind = TURNS.get(word) or words.guess(value, word)
        if kind == "gemini":
            self.answer(value, word or kind)
        elif kind == "user":
            self.prompt(value, word or kind)
        else:
            self.note(value, word)
        is_understood = value.keys() & {"content", "parts", "toolCalls"}
        if not self.count and self.is_first and not is_understood:
            name = word or "unknown"
            summary = word or "unknown message"
            self.speak("lifecycle", self.raw_text(), name, "system", summary=summary)
        return kind

    def say(
        self, kind: str, text: str, native: str, role: str, part: int | None = None, **more: Any
    ) -> None:
        """An event of the current message, which remembers where it stands."""
        events = self.events
        events.last = self.emit(
            kind, text, native, more.pop("summary", None), role, part=part, **more
        )
        events.first = events.first or events.last
        events.seq = self.state.seq - 1

    def speak(self, kind: str, text: str, native: str, role: str, **more: Any) -> None:
        """Add the text of a message, once. A changed text replaces the earlier one."""
        events, stamp = self.events, words.stamp(text)
        if not text.strip() or stamp in events.texts or len(events.texts) == VERSIONS:
            return
        if events.texts:
            before = len(events.texts) - 1
            more |= {
                "view": "retract",
                "refs": (
                    f"{self.native_id}#{FIRST_VERSION + before}" if before else self.native_id,
                ),
            }
        self.say(
            kind,
            text,
            native,
            role,
            FIRST_VERSION + len(events.texts) if events.texts else 0,
            **more,
        )
        events.texts.append(stamp)

    def prompt(self, value: dict[str, Any], native: str) -> None:
        content = value.get("content", value.get("parts"))
        self.parts(content)
        text, pictures = words.split_content(content)
        typed = words.split_content(value.get("displayContent"))[0] or text
        begun = self.count
        if self.view is not None and not self.events.texts:
            self.speak("lifecycle", text, f"{native}/{self.view}", "user", view=self.view)
        elif words.is_wrapped(typed):
            self.speak("lifecycle", typed, f"{native}/context", "user", view="context")
        elif words.is_command(typed):
            self.speak("human_intervention", typed, "slash_command", "user", view="context")
        else:
            self.speak("user_msg", typed, native, "user")
            if typed.strip() and not self.state.is_titled:
                self.set_title(typed, 1)
        if self.count == begun or len(self.events.texts) > 1:
            return
        if words.stamp(typed) != words.stamp(text):
            self.say("lifecycle", text, f"{native}/expanded", "user", EXPANDED, view="context")
        self.pictures(pictures, native, "user")

    def pictures(self, pictures: list[str], native: str, role: str) -> None:
        for n, picture in enumerate(pictures):
            self.say("lifecycle", picture, f"{native}/picture", role, PICTURES + n, view="context")

    def answer(self, value: dict[str, Any], native: str) -> None:
        state, events = self.state, self.events
        state.model = pick(value, "model", of=str) or state.model
        thoughts = pick(value, "thoughts", of=list) or []
        for n, thought in enumerate(thoughts[events.thoughts :], events.thoughts):
            self.think(thought, THOUGHTS + n)
        events.thoughts = max(events.thoughts, len(thoughts))
        self.ts = time_of(value.get("timestamp"))
        content = value.get("content", value.get("parts"))
        text, pictures = words.split_content(content)
        begun = self.count
        if self.view is not None and not events.texts:
            self.speak("lifecycle", text, f"{native}/context", "assistant", view="context")
        else:
            self.speak("assistant_msg", text, native, "assistant", model=state.model)
        if self.count > begun and len(events.texts) == 1:
            self.pictures(pictures, native, "assistant")
        for n, call in enumerate(pick(value, "toolCalls", of=list) or []):
            self.tool(call, n)
        self.parts(content)
        self.used(value.get("tokens"), value)

    def think(self, thought: Any, part: int) -> None:
        self.ts = time_of(pick(thought, "timestamp", of=str)) or self.ts
        lines = [pick(thought, word, of=str) for word in ("subject", "description")]
        text = "\n".join(line for line in lines if line) or text_of(thought)
        self.say("thinking", text, "thought", "assistant", part)

    def note(self, value: dict[str, Any], word: str) -> None:
        """Add a message of the program to the person."""
        text, pictures = words.split_content(value.get("content", value.get("parts")))
        self.pictures(pictures, word or "unknown", "system")
        if word == "info" and text.startswith(CANCELLED):
            self.speak("human_intervention", text, "interrupt", "user")
        elif word == "error" or (word == "info" and text.startswith(FAILED)):
            self.speak("error", text, word, "system", is_error=True)
        elif word == "warning":
            self.speak("error", text, word, "system")
        elif text.strip():
            self.speak("lifecycle", text, word or "unknown", "system")
        elif word not in NOTES:
            self.speak(
                "lifecycle",
                self.raw_text(),
                word or "unknown",
                "system",
                summary=word or "unknown message",
            )

    def parts(self, content: Any) -> None:
        """Calls, results and thoughts that are parts of a message, as histories have them."""
        for n, part in enumerate(_dicts(words.listed(content))):
            if (call := pick(part, "functionCall", of=dict)) is not None:
                self.call(
                    self.call_id(call, f"{self.native_id}/{n}"),
                    call.get("name"),
                    call.get("args"),
                    None,
                )
            elif (response := pick(part, "functionResponse", of=dict)) is not None:
                call_id = self.call_id(response, f"{self.native_id}/{n}")
                self.result(call_id, [part], None, None, tool=response.get("name"))
            elif part.get("thought") is True and self.is_first and self.view is None:
                self.say("thinking", words.shown(part), "thought", "assistant", PARTS + n)

    # Tools.

    def call_id(self, call: dict[str, Any], instead: str) -> str:
        return identifier(call.get("id")) or instead

    def tool(self, call: Any, n: int) -> None:
        name = f"{self.native_id}/{n}"
        if not isinstance(call, dict):
            if name not in self.state.calls:
                keep(self.state.calls, name, Call("unknown", "other"), CALLS)
                self.say(
                    "lifecycle",
                    text_of(call),
                    "toolCall",
                    "assistant",
                    number_of(name),
                    summary="unknown call",
                )
            return
        call_id = self.call_id(call, name)
        self.call(call_id, call.get("name"), call.get("args"), call.get("resultDisplay"))
        status, parts = pick(call, "status", of=str), call.get("result")
        if status in words.ENDED or parts:
            said = self.ts
            self.ts = time_of(call.get("timestamp")) or said
            agent = clean(pick(call, "agentId", of=str) or "")
            refs = (self.uid(f"{self.session()}/agent-{agent}"),) if agent else ()
            self.result(call_id, parts, call.get("resultDisplay"), status, refs=refs)
            self.ts = said

    def call(self, call_id: str, name: Any, args: Any, display: Any) -> None:
        if call_id in self.state.calls or self.is_known:
            return
        found = words.describe(name, args, display)
        self.say(
            found.kind, found.body, "toolCall", "assistant", number_of(call_id),
            summary=found.summary, tool=found.tool, call_id=call_id,
            action=found.action, files=found.files,
        )  # fmt: skip
        keep(
            self.state.calls,
            call_id,
            Call(found.tool, found.action, found.kind == "test_run"),
            CALLS,
        )

    def result(
        self, call_id: str, parts: Any, display: Any, status: Any, tool: Any = None, **more: Any
    ) -> None:
        call = self.state.calls.get(call_id)
        if self.view is not None and (
            words.is_masked(parts)
            or (call is None and (self.is_known or len(self.state.calls) >= CALLS))
        ):
            return
        if call is None:
            found = words.describe(tool, None)
            call = Call(found.tool, found.action)
            keep(self.state.calls, call_id, call, CALLS)
        if call.is_done:
            return
        call.is_done = True
        came = words.result(parts, display, status, call.action, call.is_test)
        kind, native = "tool_result", "toolResult"
        if status == "cancelled":
            kind, native, came.is_error = "human_intervention", "toolResult/cancelled", False
        elif call.tool in words.ASKS and not came.is_error:
            kind = "decision"
        self.say(
            kind, came.text, native, "tool", number_of(call_id) + 1, summary=came.summary,
            tool=call.tool, call_id=call_id,
            action=call.action, is_error=came.is_error, exit_code=came.exit_code, tests=came.tests,
            **more,
        )  # fmt: skip
        if came.reminders:
            text = "\n\n".join(came.reminders)
            self.say(
                "lifecycle", text, "system-reminder", "user", number_of(call_id) + REMINDERS,
                summary=reminder_line(text), call_id=call_id, view="context",
            )  # fmt: skip

    # Tokens.

    def used(self, tokens: Any, value: dict[str, Any]) -> None:
        """Add the tokens of a request. They are an event of their own, as the message may have been
        read before they were known."""
        if not isinstance(tokens, dict) or self.events.has_tokens:
            return
        used = words.usage(
            *(
                tokens.get(word)
                for word in ("input", "output", "cached", "thoughts", "tool", "total")
            )
        )
        if not used.total:
            return
        self.events.has_tokens = True
        model = pick(value, "model", of=str) or self.state.model
        prompt = used.input_tokens + used.cache_read_tokens
        summary = f"{prompt} tokens in, {used.output_tokens} out"
        self.say(
            "lifecycle",
            "",
            "tokens",
            "assistant",
            TOKENS,
            summary=summary,
            usage=used,
            tokens=used.total,
            model=model,
        )
        call = api.Call(
            key=self.native_id, session_uid=self.uid(self.session()), ts=self.ts,
            provider=words.provider_of(model), model=model,
            input_tokens=used.input_tokens, output_tokens=used.output_tokens,
            cache_read_tokens=used.cache_read_tokens,
            reasoning_tokens=used.reasoning_tokens, is_sidechain=self.state.relation == "subagent",
        )  # fmt: skip
        self.out.calls.append((call, f"{self.native_id}#{TOKENS}"))


def number_of(call_id: str) -> int:
    """Return the number of a call among the parts of its message; its result has the next one. The
    position of a call may change."""
    return TOOLS + 2 * crc32(call_id.encode("utf-8", "replace"))


def _dicts(items: Any) -> list[dict[str, Any]]:
    return [item for item in items if isinstance(item, dict)] if isinstance(items, list) else []
