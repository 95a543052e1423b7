"""The fold that the logs of both programs share: the session of a log, messages, calls, results,
tokens. It knows no record."""

from __future__ import annotations

from hashlib import blake2b
from typing import Any

import msgspec

from ... import model as api
from ...model import Usage
from .. import Source
from ..shared import calls
from ..shared.fold import load
from ..shared.jsonl import parse
from ..shared.pick import clean, identifier, pick
from ..shared.stream import Call, Entries, EntryFold
from . import words
from .paths import owner_of

CARRY = 3
"""The layout of `Log`; changed only together with the adapter's `version`."""
# What is remembered between two reads, the oldest going first.
STEPS, PROMPTS, TURNS, SPEAKERS = 16, 16, 64, 64


class Log(Entries):
    version: int = CARRY
    provider: str | None = None
    steps: list[tuple[int, ...]] = msgspec.field(default_factory=list)
    """The usage of the last steps that no further record has repeated."""
    prompts: list[bytes] = msgspec.field(default_factory=list)
    """Hashes of typed prompts that are not in the context yet."""
    turns: list[tuple[str, str | None]] = msgspec.field(default_factory=list)
    """The last prompts, and the events that they follow."""
    mode: str | None = None
    created: int = 0
    """The time of the log's beginning, in milliseconds."""
    is_imported: bool = False
    """True if records of that time are copies of a session that still exists."""
    agents: set[str] = msgspec.field(default_factory=set)
    """The subagents that have a log of their own."""
    complete: dict[bytes, bool] = msgspec.field(default_factory=dict)
    """Whether the last call of each speaker has all its arguments, by a hash of the speaker."""


class LogFold(EntryFold[Log]):
    def __init__(self, source: Source, carry: bytes | None) -> None:
        super().__init__(source, load(carry, Log, CARRY))
        session, self.agent = owner_of(source.path)
        self.above = clean(session) or "unknown"
        self.is_below = False
        """True if the current record is a subagent's, repeated in the log of its session."""
        self.speaker = ""
        """The name of that subagent."""
        if self.agent is not None and self.state.parent is None:
            self.state.parent, self.state.relation = self.uid(self.above), "subagent"

    def session(self, named: str | None = None) -> str:
        if not self.state.session:
            self.state.session = (
                self.above
                if self.agent is None
                else f"{self.above}/agent-{clean(self.agent).removeprefix('agent-')}"
            )
        return self.state.session

    def begin(self, raw: str | bytes) -> None:
        super().begin(raw)
        self.is_below, self.speaker = False, ""

    # Sidecars.

    def sidecar(self, name: str, data: bytes) -> None:
        state = self.state
        if name == "cwd":
            state.cwd = data.decode("utf-8", "replace")
        elif name == "original":
            state.is_imported = True
        elif name == "agents":
            listed = next((value for value, _, _ in parse(data)), None)
            agents = listed if isinstance(listed, list) else []
            state.agents = {clean(agent) for agent in agents if isinstance(agent, str)}
        else:
            value = next((value for value, _, _ in parse(data) if isinstance(value, dict)), {})
            if name == "meta":
                self.set_title(pick(value, "description", of=str), 2)
            elif name == "state":
                self.about(value)

    def about(self, value: dict[str, Any]) -> None:
        """Take in the session's own file: its folder and title, and the session before or above
        it."""
        state = self.state
        state.cwd = pick(value, "workDir", of=str) or pick(value, "cwd", of=str) or state.cwd
        if self.agent is not None:
            above = pick(value, "agents", self.agent, "parentAgentId", of=str)
            if above not in (None, "main"):
                own = clean(str(above)).removeprefix("agent-")
                state.parent = self.uid(f"{self.above}/agent-{own}")
            return
        title = pick(value, "title", of=str) or pick(value, "custom_title", of=str)
        is_own = value.get("isCustomTitle") is True or value.get("titleKind") == "custom"
        self.set_title(title, 3 if is_own else 2)
        if origin := clean(pick(value, "forkedFrom", of=str) or ""):
            state.parent, state.relation = self.uid(origin), "fork"
        if before := clean(pick(value, "custom", "kimi_cli_session_id", of=str) or ""):
            state.parent, state.relation = self.uid(before), "continuation"

    # Messages.

    def emit(self, *args: Any, **more: Any) -> str:
        if self.is_below:
            more["is_sidechain"] = True
        return super().emit(*args, **more)

    def prompt(self, content: Any, native: str) -> None:
        """Add a prompt by a person, or in a subagent's log its task."""
        text, others = words.split_content(content)
        given, text = words.split_given(text)
        if text.strip():
            follows = self.parent
            name = self.emit("user_msg", text, native, None, "user")
            self.state.turns = [*self.state.turns[1 - TURNS :], (name, follows)]
            if not self.state.is_titled and not self.is_below:
                self.set_title(text, 1)
        if given:
            self.emit("lifecycle", given, f"{native}/given", None, "user", view="context")
        for other in others:
            self.emit("lifecycle", other, f"{native}/attached", None, "user", view="context")
        if not self.count:
            self.merge("empty")

    def part(self, part: Any, native: str) -> None:
        """Add a part of an answer."""
        text, thought = pick(part, "text", of=str), pick(part, "think", of=str)
        if thought is not None:
            if thought.strip():
                self.emit("thinking", thought, native, None, "assistant", model=self.state.model)
        elif text is not None:
            if text.strip():
                self.emit("assistant_msg", text, native, None, "assistant", model=self.state.model)
        else:
            self.emit("lifecycle", words.media(part), native, None, "assistant", view="context")

    # Tools.

    def call(self, call_id: Any, name: Any, given: Any, native: str) -> None:
        call, own = words.describe(name, given), identifier(call_id)
        self.emit_call(call, native, own)
        self.remember_call(own, call)

    def result(self, call_id: Any, text: str, note: str, is_error: bool, native: str) -> None:
        """Add the result of a call; `note` is the program's text about it."""
        own = identifier(call_id)
        call = self.state.calls.get(own or "") or Call("unknown", "other")
        is_shell = call.action == "shell"
        code = words.exit_code(note or text[-300:]) if is_shell and is_error else None
        whole = f"{text.rstrip()}\n{note}" if text and note else text or note
        came = calls.build_result(whole, is_error, code, call.is_test)
        kind = "decision" if call.tool in words.ASKS and not is_error else "tool_result"
        is_refused = is_error and words.REFUSED in whole[-2000:]
        if is_refused:
            kind, native = "human_intervention", f"{native}/rejected"
        self.emit(
            kind, came.text, native, came.summary, "tool", call.tool, own, call.action,
            is_error=is_error and not is_refused, exit_code=came.exit_code, tests=came.tests,
            refs=self.subagents_in(text) if call.action == "agent" else (),
        )  # fmt: skip

    def subagents_in(self, text: str) -> tuple[str, ...]:
        """Return the session of the subagent that the result of its call names."""
        below = words.BELOW.match(text)
        if below is None:
            return ()
        return (self.uid(f"{self.session()}/agent-{below[1].removeprefix('agent-')}"),)

    # Tokens.

    def used(self, used: Usage, native: str, key: str, model: str | None) -> None:
        """Add the usage of a request as an event of its own, for its answer came before."""
        prompt = used.input_tokens + used.cache_read_tokens + used.cache_write_tokens
        summary = f"{prompt} tokens in, {used.output_tokens} out"
        event = self.emit(
            "lifecycle",
            "",
            native,
            summary,
            "assistant",
            usage=used,
            tokens=used.total,
            model=model,
        )
        call = api.Call(
            key=key, session_uid=self.uid(self.session()), ts=self.ts, provider=self.state.provider,
            model=model,
            input_tokens=used.input_tokens, output_tokens=used.output_tokens,
            cache_read_tokens=used.cache_read_tokens,
            cache_write_5m_tokens=used.cache_write_tokens,
            is_sidechain=self.is_below or self.state.relation == "subagent",
        )  # fmt: skip
        self.out.calls.append((call, event))


def stamp(text: str) -> bytes:
    """Return a short hash of a text."""
    return blake2b(text.encode("utf-8", "replace"), digest_size=8).digest()
