"""The fold over a log or a document of Copilot CLI: its sessions, the one that it is named for and
those of its subagents, and calls."""

from __future__ import annotations

import os
import re
from datetime import datetime
from hashlib import blake2b
from typing import Any

import msgspec

from ... import model as api
from ...model import Relation, Usage
from ...text.yaml_values import read_values
from .. import Facts, Normalized, Source
from ..shared.calls import build_result, describe, opened
from ..shared.fold import keep, load
from ..shared.pick import identifier, pick
from ..shared.stream import REPEATS, Call, SessionFold, State
from . import words
from .tokens import Counts

CARRY = 2
"""The layout of `Log`; changed only together with the adapter's `version`."""
AGENTS = 64  # That are remembered between two reads, the oldest going first.

UUID = re.compile(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}\Z")
_LEGACY = re.compile(r"session_(.+)_\d+\Z")


class Agent(msgspec.Struct, array_like=True):
    """A subagent, which is a session of its own in the same file."""

    seq: int = 0
    last: str | None = None
    model: str | None = None
    name: str | None = None
    is_busy: bool = False
    relation: Relation | None = "subagent"
    cwd: str | None = None
    branch: str | None = None
    repo: str | None = None


class Unnamed(msgspec.Struct, array_like=True, gc=False):
    """A call whose model is not known."""

    agent: str | None
    ts: datetime | None
    output: int
    event: str | None


class Log(State):
    version: int = CARRY
    agents: dict[str, Agent] = msgspec.field(default_factory=dict)
    """By the call that started it."""
    started: dict[str, str] = msgspec.field(default_factory=dict)
    """That call, by the name of the subagent."""
    is_busy: bool = False
    """Whether the last message of the model asked for tools."""
    has_begun: bool = False
    run: dict[str, Counts] = msgspec.field(default_factory=dict)
    """What was counted since the program started, by model."""
    total: dict[str, Counts] = msgspec.field(default_factory=dict)
    """What was counted before that."""
    unnamed: dict[str, Unnamed] = msgspec.field(default_factory=dict)
    """The calls of the run that no record has named the model of, by their keys."""
    requests: dict[str, int] = msgspec.field(default_factory=dict)
    """How much output was counted of a call of the model."""
    thought: bytes = b""
    """A hash of the last reasoning that was told."""
    repo: str | None = None
    has_title: bool = False
    """Whether the file about the session has one: it is read every time, and the log is not."""


class CopilotFold(SessionFold[Log]):
    """The sessions of one file."""

    def __init__(self, source: Source, carry: bytes | None) -> None:
        super().__init__(source, load(carry, Log, CARRY))
        self.agent: str | None = None
        """The call that started the subagent which the current record is about."""
        self.touched: dict[str, str | None] = {}
        """The subagents of this batch, and their titles."""

    def own_name(self) -> str:
        stem = (
            os.path.basename(self.folder)
            if self.file == "events.jsonl"
            else os.path.splitext(self.file)[0]
        )
        found = _LEGACY.match(stem)
        return found[1] if found else stem

    def session(self, named: str | None = None) -> str:
        return self.state.session or super().session(named or self.own_name())

    def identify(self, native: str) -> None:
        """A name that was given before gets a number."""
        repeats, key = (
            self.state.repeats,
            blake2b(native.encode("utf-8", "replace"), digest_size=8).digest(),
        )
        again = repeats.get(key, 0)
        keep(repeats, key, again + 1, REPEATS)
        super().identify(f"{native}~{again + 1}" if again else native)

    def stream(self) -> Log | Agent:
        return self.state if self.agent is None else self.known(self.agent)

    def current(self) -> str:
        if self.agent is None:
            return self.session()
        self.touched.setdefault(self.agent, None)
        return f"{self.session()}/agent-{self.agent}"

    def known(self, call: str) -> Agent:
        if call not in self.state.agents:
            keep(
                self.state.agents,
                call,
                Agent(cwd=self.state.cwd, branch=self.state.branch, repo=self.state.repo),
                AGENTS,
            )
        return self.state.agents[call]

    def named(self, native: str) -> str:
        """A name that no other session has: ids that are no UUIDs were made by hand."""
        return native if UUID.match(native) else f"{self.session()}/{native[:200]}"

    def sidecar(self, name: str, data: bytes) -> None:
        about, state = read_values(data.decode("utf-8", "replace")), self.state
        title = about.get("summary") or about.get("name")
        state.has_title = bool(title)
        self.set_title(title, 2)
        state.cwd = state.cwd or about.get("cwd", "")[:4096] or None
        state.branch = state.branch or about.get("branch", "")[:200] or None
        state.repo = state.repo or about.get("repository", "")[:200] or None

    # Calls.

    def call(self, request: Any, name: Any, call_id: str | None, role: str = "assistant") -> None:
        call_id = identifier(call_id)
        if call_id is not None and call_id in self.state.calls:
            self.merge("told before")
            return
        args = opened(request.get("arguments")) if isinstance(request, dict) else request
        found = describe(
            name, args, words.action(name, args, pick(request, "mcpServerName", of=str) is not None)
        )
        self.emit_call(found, "tool_call", call_id, role)
        self.remember_call(call_id, found)

    def called(self, call_id: str | None) -> Call:
        return self.state.calls.get(identifier(call_id) or "") or Call("unknown", "other")

    def result(
        self,
        call_id: str | None,
        text: str,
        is_error: bool,
        code: int | None,
        is_refused: bool,
        part: int | None = None,
    ) -> None:
        call = self.called(call_id)
        found = build_result(text, is_error or bool(code), code, call.is_test)
        kind = (
            "human_intervention"
            if is_refused
            else "decision"
            if call.tool in words.ASKS and not is_error
            else "tool_result"
        )
        self.emit(
            kind, text, "tool_result/refused" if is_refused else "tool_result", found.summary,
            "tool", call.tool, identifier(call_id),
            call.action, part, is_error=found.is_error, exit_code=found.exit_code,
            tests=found.tests,
        )  # fmt: skip

    def bill(
        self, key: str, used: Usage, event: str | None, model: str | None, is_sum: bool = False
    ) -> None:
        call = api.Call(
            key=key, session_uid=self.uid(self.current()), ts=self.ts,
            model=model or self.state.model, input_tokens=used.input_tokens,
            output_tokens=used.output_tokens, cache_read_tokens=used.cache_read_tokens,
            cache_write_5m_tokens=used.cache_write_tokens,
            reasoning_tokens=used.reasoning_tokens, is_sidechain=self.agent is not None,
            is_sum=is_sum,
        )  # fmt: skip
        self.out.calls.append((call, event))

    def finish(self) -> Normalized:
        out = super().finish()
        own = self.uid(self.session()) if self.state.records else ""
        if own:
            out.facts[own] = msgspec.structs.replace(out.facts[own], repo=self.state.repo)
        for call, title in self.touched.items():
            agent = self.state.agents.get(call) or Agent()
            name = f"{self.session()}/agent-{call}"
            shown, rank = (agent.name, 2) if agent.name else (title, 1 if title else 0)
            out.facts[self.uid(name)] = Facts(
                native_session_id=name, title=shown, title_rank=rank, cwd=agent.cwd,
                repo=agent.repo, git_branch=agent.branch,
                model=agent.model, parent_uid=own, relation="subagent", parent_call=call,
            )  # fmt: skip
        return out
