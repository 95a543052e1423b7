"""The fold that the logs of both programs share: whose log it is, what is said, calls, results,
tokens. No record is known here."""

from __future__ import annotations

from typing import Any

import msgspec

from ... import model as api
from ...model import Usage
from .. import Source
from ..shared import calls
from ..shared.fold import keep, load
from ..shared.jsonl import parse
from ..shared.pick import clean, identifier, pick
from ..shared.stream import CALLS, Call, Entries, EntryFold
from . import words
from .paths import owner_of

CARRY = 2
"""The layout of `Log`; changed only together with the adapter's `version`."""
STEPS, PROMPTS, TURNS = 16, 16, 64  # What is remembered between two reads, the oldest going first.


class Log(Entries):
    version: int = CARRY
    provider: str | None = None
    steps: list[tuple[int, ...]] = msgspec.field(default_factory=list)
    """What the last steps took that no further record has repeated."""
    prompts: list[bytes] = msgspec.field(default_factory=list)
    """What was typed and has not been put into the context yet."""
    turns: list[tuple[str, str | None]] = msgspec.field(default_factory=list)
    """The last prompts, and what they follow."""
    mode: str | None = None
    created: int = 0
    """When the log was made, in milliseconds."""
    is_taken_over: bool = False
    """Whether what is of that moment is the copy of a session that is still there."""
    agents: set[str] = msgspec.field(default_factory=set)
    """The subagents that have a log of their own."""


class LogFold(EntryFold[Log]):
    def __init__(self, source: Source, carry: bytes | None) -> None:
        super().__init__(source, load(carry, Log, CARRY))
        session, self.agent = owner_of(source.path)
        self.above = clean(session) or "unknown"
        self.is_below = False
        """Whether the current record is a subagent's, told in the log of its session."""
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
        self.is_below = False

    # What stands beside the log.

    def sidecar(self, name: str, data: bytes) -> None:
        state = self.state
        if name == "cwd":
            state.cwd = data.decode("utf-8", "replace")
            return
        if name == "original":
            state.is_taken_over = True
            return
        if name == "agents":
            listed = next((value for value, _, _ in parse(data)), None)
            state.agents = (
                {clean(agent) for agent in listed if isinstance(agent, str)}
                if isinstance(listed, list)
                else set()
            )
            return
        value = next((value for value, _, _ in parse(data) if isinstance(value, dict)), {})
        if name == "meta":
            self.set_title(pick(value, "description", of=str), 2)
        elif name == "state":
            state.cwd = pick(value, "workDir", of=str) or pick(value, "cwd", of=str) or state.cwd
            if self.agent is None:
                is_own = value.get("isCustomTitle") is True or value.get("titleKind") == "custom"
                self.set_title(
                    pick(value, "title", of=str) or pick(value, "custom_title", of=str),
                    3 if is_own else 2,
                )
                if origin := clean(pick(value, "forkedFrom", of=str) or ""):
                    state.parent, state.relation = self.uid(origin), "fork"
                if before := clean(pick(value, "custom", "kimi_cli_session_id", of=str) or ""):
                    state.parent, state.relation = self.uid(before), "continuation"
            elif (above := pick(value, "agents", self.agent, "parentAgentId", of=str)) not in (
                None,
                "main",
            ):
                state.parent = self.uid(
                    f"{self.above}/agent-{clean(str(above)).removeprefix('agent-')}"
                )

    # What is said.

    def emit(self, *args: Any, **more: Any) -> str:
        if self.is_below:
            more["is_sidechain"] = True
        return super().emit(*args, **more)

    def prompt(self, content: Any, native: str) -> None:
        """Add what a person typed, or in a subagent's log its task."""
        text, others = words.split_content(content)
        if text.strip():
            follows = self.parent
            name = self.emit("user_msg", text, native, None, "user")
            self.state.turns = [*self.state.turns[1 - TURNS :], (name, follows)]
            if not self.state.is_titled and not self.is_below:
                self.set_title(text, 1)
        for other in others:
            self.emit("lifecycle", other, f"{native}/attached", None, "user", view="context")
        if not self.count:
            self.merge("empty")

    def part(self, part: Any, native: str) -> None:
        """A part of what the model says."""
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
        found, own = words.describe(name, given), identifier(call_id)
        self.emit(
            found.kind,
            found.body,
            native,
            found.summary,
            "assistant",
            found.tool,
            own,
            found.action,
            files=found.files,
        )
        if own:
            keep(
                self.state.calls,
                own,
                Call(found.tool, found.action, found.kind == "test_run"),
                CALLS,
            )

    def result(self, call_id: Any, text: str, note: str, is_error: bool, native: str) -> None:
        """Add the result of a call; `note` is what the program says about it."""
        own = identifier(call_id)
        call = self.state.calls.get(own or "") or Call("unknown", "other")
        found = (
            words.EXIT.search(note or text[-300:]) if call.action == "shell" and is_error else None
        )
        came = calls.came(
            f"{text.rstrip()}\n{note}" if text and note else text or note,
            is_error,
            int(found[1]) if found else None,
            call.is_test,
        )
        is_refused = is_error and words.REFUSED in came.text[-2000:]
        kind = (
            "human_intervention"
            if is_refused
            else "decision"
            if call.tool in words.ASKS and not is_error
            else "tool_result"
        )
        below = words.BELOW.match(text) if call.action == "agent" else None
        self.emit(
            kind, came.text, f"{native}/rejected" if is_refused else native, came.summary, "tool",
            call.tool, own, call.action,
            is_error=is_error and not is_refused, exit_code=came.exit_code, tests=came.tests,
            refs=(self.uid(f"{self.session()}/agent-{below[1].removeprefix('agent-')}"),
            ) if below else (),
        )  # fmt: skip

    # Tokens.

    def used(self, used: Usage, native: str, key: str, model: str | None) -> None:
        """Add the tokens of a request: an event of its own, as the reply was read before."""
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
