"""The messages, tool calls and usage in a log of Qwen Code. The traps are in the package's
docstring."""

from __future__ import annotations

import re
from datetime import datetime
from typing import Any

import msgspec

from ... import model as api
from ...model import Usage
from .. import Source
from ..gemini_cli import words
from ..shared.fold import keep, load
from ..shared.jsonl import parse
from ..shared.pick import clean, identifier, pick, time_of
from ..shared.stream import Call, SessionFold, State
from ..shared.tools import text_of

CARRY = 1
"""The layout of `Chat`; changed only together with the adapter's `version`."""
# What is remembered between two reads, the oldest going first.
TAILS, IDS, SAME_ID, PENDING, SAME, MOVED = 256, 256, 16, 16, 64, 16

MAIN = "########"
"""The part of a prompt's name, between its session and its number, that marks the main agent."""
NOT_TYPED = frozenset(
    {"notification", "cron", "goal_runtime", "background_task_completed", "realtime_message"}
)
UUID = re.compile(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}\Z")


class Chat(State):
    version: int = CARRY
    tails: dict[str, int] = msgspec.field(default_factory=dict)
    """The number of the last event of a record with several."""
    stamps: dict[str, list[bytes]] = msgspec.field(default_factory=dict)
    """The hashes of the records that had this id."""
    moved: dict[str, str | None] = msgspec.field(default_factory=dict)
    """By record, the native id that its followers get as their parent instead."""
    pending: dict[str, tuple[str, str]] = msgspec.field(default_factory=dict)
    """Names and times of calls that only telemetry has so far, by their counts."""
    same: dict[str, int] = msgspec.field(default_factory=dict)
    """The number of calls that had these counts."""
    durations: list[tuple[str, int]] = msgspec.field(default_factory=list)
    """The tools and durations (ms) of calls whose results come next."""
    mode: str | None = None


class ChatFold(SessionFold[Chat]):
    def __init__(self, source: Source, carry: bytes | None) -> None:
        super().__init__(source, load(carry, Chat, CARRY))
        self.value: dict[str, Any] = {}
        self.follows: str | None = None

    def sidecar(self, name: str, data: bytes) -> None:
        about = next((value for value, _, _ in parse(data) if isinstance(value, dict)), {})
        self.state.call = identifier(pick(about, "toolUseId", of=str)) or self.state.call
        self.set_title(pick(about, "description", of=str), 2)

    def place(self, value: dict[str, Any]) -> None:
        """Take in the parent, the folder, the branch and the origin that a record names."""
        state = self.state
        if "parentUuid" in value:
            above = identifier(value["parentUuid"])
            self.parent = self.reference(self.named(above)) if above else None
        state.cwd = state.cwd or pick(value, "cwd", of=str)
        state.branch = pick(value, "gitBranch", of=str) or state.branch
        origin = clean(pick(value, "forkedFrom", "sessionId", of=str) or "")
        if origin and origin != state.session and state.relation is None:
            state.parent, state.relation = self.uid(origin), "fork"

    def close(self, name: str, stamp: bytes) -> None:
        """Remember the event that followers of this record get as their parent."""
        state = self.state
        if not self.count:
            self.out.aliases[self.native_id] = self.follows
        elif name in state.stamps:
            keep(state.moved, name, state.last, MOVED)
        elif self.count > 1:
            keep(state.tails, name, self.count - 1, TAILS)
        keep(state.stamps, name, [*state.stamps.get(name, [])[-SAME_ID:], stamp], IDS)

    def named(self, uuid: str) -> str:
        """Return a name that no other session has: ids that are no UUIDs were written by hand."""
        return uuid if UUID.match(uuid) else f"{self.session()}/{uuid}"

    def reference(self, native: str) -> str | None:
        """Return the native id of the last event of a record."""
        state = self.state
        if native in state.moved:
            return state.moved[native]
        return f"{native}#{state.tails[native]}" if native in state.tails else native

    # Messages.

    def user(self, value: dict[str, Any]) -> None:
        subtype = pick(value, "subtype", of=str) or ""
        native = f"user/{subtype}" if subtype else "user"
        parts = words.listed(
            pick(value, "message", "parts", of=list) or pick(value, "message", "content", of=str)
        )
        typed = pick(value, "systemPayload", "displayText", of=str)
        is_typed = subtype not in NOT_TYPED and pick(value, "provenance", of=str) not in (
            "system",
            "goal_control",
            "goal_runtime",
        )
        for part in parts:
            self.spoken(part, native, is_typed, typed)
            is_typed = is_typed and not self.has_prompt()
        if not parts and typed:
            self.say(typed, native, is_typed)
        if not self.count:
            self.nothing(parts)

    def spoken(self, part: Any, native: str, is_typed: bool, typed: str | None) -> None:
        if not words.is_speech(part):
            self.part(part)
            return
        text = words.shown(part)
        if not text.strip():
            return
        if not is_typed or words.is_wrapped(text):
            self.emit("lifecycle", text, f"{native}/context", None, "user", view="context")
            return
        self.say(typed or text, native, is_typed)
        if typed and words.stamp(typed) != words.stamp(text):
            self.emit("lifecycle", text, f"{native}/expanded", None, "user", view="context")

    def has_prompt(self) -> bool:
        return self.count > 0 and any(
            event.kind == "user_msg" for event in self.out.events[-self.count :]
        )

    def say(self, text: str, native: str, is_typed: bool) -> None:
        """Add a prompt, or a text that nobody typed. A command is here only when it was sent to the
        model like any other text."""
        if not is_typed:
            self.emit("lifecycle", text, f"{native}/context", None, "user", view="context")
            return
        self.emit("user_msg", text, native, None, "user")
        if not self.state.is_titled:
            self.set_title(text, 1)

    def assistant(self, value: dict[str, Any]) -> None:
        self.state.model = pick(value, "model", of=str) or self.state.model
        parts = words.listed(
            pick(value, "message", "parts", of=list) or pick(value, "message", "content", of=str)
        )
        for part in parts:
            if words.is_speech(part):
                text = words.shown(part)
                if text.strip():
                    self.emit(
                        "assistant_msg",
                        text,
                        "assistant",
                        None,
                        "assistant",
                        model=self.state.model,
                    )
            else:
                self.part(part)
        counts = pick(value, "usageMetadata", of=dict)
        if not self.count and counts is not None and "message" not in value:
            self.merge("empty")
        elif not self.count:
            self.nothing(parts)
        if counts is not None:
            self.used(counts)

    def nothing(self, parts: list[Any]) -> None:
        """Count a message without text; keep one without parts as it is, for its text may be in an
        unknown place."""
        if parts:
            self.merge("empty")
        else:
            self.unknown(pick(self.value, "type", of=str))

    def part(self, part: dict[str, Any]) -> None:
        """Add a thought, a call or a result."""
        if (call := pick(part, "functionCall", of=dict)) is not None:
            self.call(call)
        elif (response := pick(part, "functionResponse", of=dict)) is not None:
            self.result(part, response)
        elif part.get("thought") is True:
            text = words.shown(part)
            if text.strip():
                self.emit("thinking", text, "thought", None, "assistant")
        else:
            self.emit("lifecycle", text_of(part), "unknown part", "unknown part")

    # Tools.

    def call(self, given: dict[str, Any]) -> None:
        call = words.describe(given.get("name"), given.get("args"))
        call_id = identifier(given.get("id"))
        self.emit_call(call, "functionCall", call_id)
        self.remember_call(call_id, call)

    def tool_result(self, value: dict[str, Any]) -> None:
        parts = pick(value, "message", "parts", of=list) or []
        about = pick(value, "toolCallResult", of=dict) or {}
        for part in parts:
            response = pick(part, "functionResponse", of=dict)
            if response is not None:
                self.result(part, response)
            elif words.is_speech(part) and (text := words.shown(part)).strip():
                self.emit(
                    "lifecycle",
                    text,
                    "tool_result/more",
                    None,
                    "tool",
                    call_id=identifier(about.get("callId")),
                    view="context",
                )
        if not self.count and about:
            self.result({}, {"id": about.get("callId")})
        elif not self.count:
            self.unknown("tool_result")

    def result(self, part: dict[str, Any], response: dict[str, Any]) -> None:
        about = pick(self.value, "toolCallResult", of=dict) or {}
        call_id = identifier(response.get("id")) or identifier(about.get("callId"))
        call = self.state.calls.get(call_id or "")
        if call is None:
            described = words.describe(response.get("name"), None)
            call = Call(described.tool, described.action)
        status = pick(about, "status", of=str)
        came = words.result(
            [part] if part else [], about.get("resultDisplay"), status, call.action, call.is_test
        )
        kind, native = "tool_result", "functionResponse"
        if status == "cancelled":
            kind, native, came.is_error = "human_intervention", "functionResponse/cancelled", False
        elif call.tool in words.ASKS and not came.is_error:
            kind = "decision"
        self.emit(
            kind, came.text, native, came.summary, "tool", call.tool, call_id, call.action,
            is_error=came.is_error,
            exit_code=came.exit_code, tests=came.tests, duration_ms=self.duration(call.tool),
        )  # fmt: skip
        self.remind(came.reminders, call_id)

    def duration(self, tool: str) -> int | None:
        """Return the duration of a call from the telemetry before it; None when there were several
        calls of this tool."""
        durations = [ms for name, ms in self.state.durations if name == tool]
        self.state.durations = [item for item in self.state.durations if item[0] != tool]
        return durations[0] if len(durations) == 1 else None

    # Tokens.

    def used(self, counts: dict[str, Any]) -> None:
        """Bill a call of the main agent. It has the name of the same call in the telemetry, where
        that has it."""
        names = (
            "promptTokenCount",
            "candidatesTokenCount",
            "cachedContentTokenCount",
            "thoughtsTokenCount",
            "",
            "totalTokenCount",
        )
        used = words.usage(*(counts.get(name) for name in names))
        if not used.total:
            return
        event = self.charge(used, self.state.model)
        name, ts = self.state.pending.pop(counted(used), ("", ""))
        key = name or (
            self.key_of(used, self.above) if self.above else self.native_id or self.new_id()
        )
        self.bill(
            key,
            used,
            self.state.model,
            time_of(ts) or self.ts,
            event,
            is_sidechain=bool(self.above),
        )

    def key_of(self, used: Usage, session: str) -> str:
        """Return the name of a subagent's call. The telemetry of its session and its own file both
        have the counts."""
        counts = f"{session}/{counted(used)}"
        again = self.state.same.get(counts, 0)
        keep(self.state.same, counts, again + 1, SAME)
        return f"{counts}~{again}" if again else counts

    def bill(
        self,
        key: str,
        used: Usage,
        model: str | None,
        ts: datetime | None,
        event: str | None,
        is_sidechain: bool,
    ) -> None:
        call = api.Call(
            key=key, session_uid=self.uid(self.session()), ts=ts, provider=words.provider_of(model),
            model=model,
            input_tokens=used.input_tokens, output_tokens=used.output_tokens,
            cache_read_tokens=used.cache_read_tokens,
            reasoning_tokens=used.reasoning_tokens, is_sidechain=is_sidechain,
        )  # fmt: skip
        self.out.calls.append((call, event))


def counted(used: Usage) -> str:
    return (
        f"{used.input_tokens}-{used.cache_read_tokens}-{used.output_tokens}-{used.reasoning_tokens}"
    )
