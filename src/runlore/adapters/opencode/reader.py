"""The meaning of the messages of an opencode session: a fold over messages with their parts. The
package's docstring lists the traps."""

from __future__ import annotations

import os
from collections.abc import Iterable
from datetime import datetime
from hashlib import blake2b
from typing import Any, Unpack

import msgspec

from ... import model as api
from ...model import Relation, Usage
from .. import Facts, Normalized, Record, Source
from ..shared.fold import REFUSALS, AllFields, Fold, decode, keep, load, with_rank
from ..shared.jsonl import to_json
from ..shared.pick import clean, moment, number, pick
from ..shared.tools import key_values, text_of, title_line
from . import words
from .sessions import to_ms

CARRY = 1
"""The layout of `State`; changed only together with the adapter's `version`."""
MAIN = "main"  # The agent that is none of the subagents. Only a fork names it.
AGENTS = 64  # Subagents of one session whose last events are remembered.
# Messages whose first event is remembered. A compaction, or going back, names one of the last.
FIRSTS = 2000


def normalize(source: Source, records: Iterable[Record], carry: bytes | None) -> Normalized:
    """Return what the records of a source mean."""
    normalized = Reader(source, carry).run(records)
    is_bare = not source.path.endswith(".json") and not os.path.dirname(source.path).endswith(".db")
    # Messages whose session has no file, which may be copied here later.
    return with_rank(normalized, 1) if is_bare else normalized


class State(msgspec.Struct, array_like=True):
    """Ids, paths and numbers; nothing that people wrote."""

    version: int = CARRY
    records: int = 0
    seq: int = 0
    session: str = ""
    has_begun: bool = False
    last: str | None = None
    """The last event of the branch that continues."""
    last_removed: str | None = None
    """The last event of removed messages, while these are read."""
    retracted: str = ""
    """The first of these messages."""
    reverted: str = ""
    """The message that a person went back to, while the messages after it still exist."""
    model: str | None = None
    cwd: str | None = None
    parent: str | None = None
    relation: Relation | None = None
    call: str | None = None
    shell: str = ""
    """The message with which a person ran a command."""
    firsts: dict[str, str] = {}
    agents: dict[str, str] = {}
    """The last event of each subagent whose messages are in this session."""


class Reader(Fold[State]):
    def __init__(self, source: Source, carry: bytes | None) -> None:
        super().__init__(source, load(carry, State, CARRY))
        self.fallback = (
            clean(os.path.basename(source.path.replace("\\", "/")).removesuffix(".json"))
            or "unknown"
        )
        self.message = ""
        self.copied: tuple[str, list[Any]] | None = None
        """The message that the current one is a copy of, and its parts."""
        self.is_removed = False
        self.agent = ""
        """The subagent of the current message; "" for none."""

    def take(self, value: dict[str, Any], raw: str | bytes) -> None:
        self.step(value)

    def blank(self, data: bytes) -> None:
        self.strange(data.decode("utf-8", "replace"), "empty")

    def strange(self, text: str, reason: str, native: str = "malformed") -> None:
        name = self.anonymous(text.encode("utf-8", "replace"))
        self.begin_message(name, None, is_removed=False)
        self.emit_as(name, "lifecycle", text, native, reason)
        self.skip(reason)

    def anonymous(self, data: bytes) -> str:
        """Return a name for a message that has none."""
        place = f"{self.session()} {self.offset}\n".encode("utf-8", "replace")
        return "~" + blake2b(place + data, digest_size=8).hexdigest()

    # The session.

    def session(self, named: str | None = None) -> str:
        state = self.state
        if not state.session:
            state.session = clean(named or "") or self.fallback
        return state.session

    def sidecar(self, name: str, data: bytes) -> None:
        # It belongs to the message that follows, and has that one's number.
        self.number = self.state.records
        try:
            value = decode(data)
        except REFUSALS:
            return
        if name == "session" and isinstance(value, dict):
            self.about(value)
        elif name == "revert":
            self.revert(value)

    def about(self, value: dict[str, Any]) -> None:
        state = self.state
        session = self.session(pick(value, "id", of=str))
        title = title_line(pick(value, "title", of=str), 2)
        self.title = (title, 2) if title and not title.startswith(words.UNNAMED) else (None, 0)
        state.cwd = (pick(value, "directory", of=str) or "")[:4096] or state.cwd
        if above := clean(pick(value, "parentID", of=str) or ""):
            state.parent, state.relation = self.uid(above), "subagent"
            state.call = (pick(value, "call", of=str) or "")[:200] or state.call
        if state.has_begun:
            return
        state.has_begun = True
        self.begin_message(
            f"{session}/start",
            (pick(value, "time", of=dict) or {}).get("created"),
            is_removed=False,
        )
        texts = {name: text for name in ("version", "agent") if (text := pick(value, name, of=str))}
        self.emit_as(self.message, "lifecycle", key_values(texts), "session", "session started")

    def revert(self, value: Any) -> None:
        """Add a revert, or the end of one. The messages after it are deleted with the next prompt,
        or come back."""
        state = self.state
        message = (pick(value, "messageID", of=str) or "")[:200]
        if message == state.reverted:
            return
        if message:
            part = pick(value, "partID", of=str)
            first = f"{message}/{part}" if part else state.firsts.get(message)
            self.take_back(message, (first, "..", state.last) if first and state.last else ())
        else:
            self.begin_message(f"{state.reverted}/back", None, is_removed=False)
            name = f"{state.reverted}/revert"
            self.emit_as(
                self.message,
                "human_intervention",
                "",
                "unrevert",
                "what was taken back is back",
                "user",
                view="retract",
                refs=(name,),
            )
        state.reverted = message

    def take_back(self, message: str, refs: tuple[str, ...]) -> None:
        """Add the event of a person who went back to before this message. The next message does not
        follow it."""
        before = self.state.last
        self.begin_message(f"{message}/revert", None, is_removed=False)
        view = "retract" if refs else None
        self.emit_as(
            self.message,
            "human_intervention",
            "",
            "revert",
            "went back to before a message",
            "user",
            view=view,
            refs=refs,
        )
        self.state.last = before

    # Messages.

    def begin_message(
        self, name: str, created: Any, *, is_removed: bool,
        copied: tuple[str, list[Any]] | None = None, agent: str = ""
    ) -> None:  # fmt: skip
        """Make this message the current one. Removed messages are on a branch of their own."""
        state = self.state
        self.message, self.count, self.copied, self.original, self.agent = (
            name,
            0,
            copied,
            None,
            agent,
        )
        self.ts = time_of(created)
        self.is_removed = is_removed
        if is_removed:
            state.retracted = state.retracted or name
            self.parent = state.last_removed or state.last
        else:
            self.parent = state.agents.get(self.agent, state.last)

    def step(self, value: dict[str, Any]) -> None:
        """Add a message and its parts."""
        info, parts = pick(value, "info", of=dict) or {}, value.get("parts")
        self.session(pick(info, "sessionID", of=str))
        name = (pick(info, "id", of=str) or "")[:200] or self.anonymous(to_json(value))
        is_removed = value.get("removed") is True
        if not is_removed:
            self.end_removed()
        copy = pick(value, "original", "message", of=str)
        agent = (pick(info, "agentID", of=str) or MAIN)[:200]
        self.begin_message(
            name,
            (pick(info, "time", of=dict) or {}).get("created"),
            is_removed=is_removed,
            copied=(copy, pick(value, "original", "parts", of=list) or []) if copy else None,
            agent="" if agent == MAIN else agent,
        )
        if copy:
            self.trace(pick(value, "original", "session", of=str))
        self.say(info, parts if isinstance(parts, list) else [parts] if parts else [])
        if not self.count:
            self.note_empty(name, info, value)

    def end_removed(self) -> None:
        """Add the revert after the removed messages, where the current message is the first that
        is not removed."""
        state = self.state
        if state.retracted:
            first, end = state.retracted, state.last_removed
            head = state.firsts.get(first)
            state.retracted, state.last_removed = "", None
            self.take_back(first, (head, "..", end) if head and end else ())

    def trace(self, session: str | None) -> None:
        """Note the session that a fork copied its messages from."""
        origin = clean(session or "")
        if origin and not self.state.parent:
            self.state.parent, self.state.relation = self.uid(origin), "fork"

    def note_empty(self, name: str, info: dict[str, Any], value: dict[str, Any]) -> None:
        """Count a message without events; keep one that could not be read."""
        if "data" in info or not info:
            reason, native, text = "the message is not JSON", "malformed", info.get("data", value)
        elif info.keys() & {"parts", "content", "text"}:
            reason, native, text = "a message of another layout", "unknown", info
        else:
            self.merge("empty")
            return
        self.emit_as(name, "lifecycle", text_of(text), native, reason)
        self.skip(reason)

    def say(self, info: dict[str, Any], parts: list[Any]) -> None:
        """Add the parts of a message, its error, and its usage where no part has it."""
        state = self.state
        role = pick(info, "role", of=str) or (
            "assistant" if info.keys() & {"parentID", "tokens", "finish"} else "user"
        )
        state.model = (
            pick(info, "modelID", of=str) or pick(info, "model", "modelID", of=str) or state.model
        )
        steps = 0
        for n, part in enumerate(parts):
            name = f"{self.message}/{(pick(part, 'id', of=str) or str(n))[:200]}"
            self.original = self.original_of(n)
            if usage := words.step_usage(part):
                self.used(usage, info, part, name, steps)
                steps += 1
            else:
                self.part(part, name, role, info)
        self.ts = time_of((pick(info, "time", of=dict) or {}).get("completed")) or self.ts
        self.original = None
        self.fail(info.get("error"))
        if not steps and (usage := words.usage_of(info.get("tokens"))):
            self.original = f"{self.copied[0]}/usage" if self.copied else None
            self.used(usage, info, info, f"{self.message}/usage", 0)

    def original_of(self, n: int) -> str | None:
        """Return the native id of the part that this part of a copied message is a copy of."""
        message, parts = self.copied or ("", [])
        if n < len(parts) and isinstance(parts[n], str):
            return f"{message}/{parts[n]}"[:500]
        return None

    def part(self, part: Any, name: str, role: str, info: dict[str, Any]) -> None:
        if not isinstance(part, dict):
            self.emit_as(name, "lifecycle", text_of(part), "unknown", "unknown part", role)
            self.skip("a part is not an object")
            return
        kind = words.kind_of(part)
        if role != "user" or kind in ("tool", "reasoning"):
            self.answer(kind, part, name, info)
        else:
            self.prompt(kind, part, name)

    def prompt(self, kind: str, part: dict[str, Any], name: str) -> None:
        text = text_of(part.get("text"))
        if kind != "text":
            self.other(kind, part, name, "user")
        elif part.get("synthetic") is True or part.get("ignored") is True:
            view = None if part.get("ignored") is True else "context"
            if text.startswith(words.BY_USER):
                self.state.shell = self.message
            self.emit_as(name, "lifecycle", text, "text/synthetic", None, "user", view=view)
        elif text.strip():
            self.emit_as(name, "user_msg", text, "text", None, "user")
        else:
            self.merge("empty part")

    def answer(self, kind: str, part: dict[str, Any], name: str, info: dict[str, Any]) -> None:
        self.ts = time_of((pick(part, "time", of=dict) or {}).get("start")) or self.ts
        text = text_of(part.get("text"))
        if kind == "tool":
            is_by_user = part.get("is_by_user") is True or (
                bool(self.state.shell) and info.get("parentID") == self.state.shell
            )
            self.tool(part, name, "user" if is_by_user else "assistant", info)
        elif kind not in ("text", "reasoning"):
            self.other(kind, part, name, "assistant")
        elif not text.strip():
            self.merge("empty part")
        elif kind == "reasoning":
            self.emit_as(name, "thinking", text, kind, None, "assistant", model=self.state.model)
        elif info.get("summary") is True:
            self.emit_as(
                name, "lifecycle", text, "compaction/summary", None, "assistant", view="summary"
            )
        elif part.get("synthetic") is True:
            self.emit_as(
                name, "lifecycle", text, "text/synthetic", None, "assistant", view="context"
            )
        else:
            self.emit_as(
                name,
                "assistant_msg",
                text,
                kind,
                None,
                "assistant",
                model=self.state.model,
                cwd=self.elsewhere(info),
            )

    def other(self, kind: str, part: dict[str, Any], name: str, role: str) -> None:
        """Add a part that is no text, no thought and no call."""
        if kind in ("step-start", "step-finish", "snapshot"):
            self.merge(kind)
        elif kind == "file":
            self.emit_as(name, "lifecycle", words.shown(part), kind, None, role, view="context")
        elif kind == "agent":
            self.emit_as(
                name, "lifecycle", f"@{text_of(part.get('name'))}", kind, None, role, view="context"
            )
        elif kind == "subtask":
            summary = pick(part, "description", of=str) or pick(part, "command", of=str)
            self.emit_as(name, "user_msg", text_of(part.get("prompt")), kind, summary, role)
        elif kind == "patch":
            files = tuple(
                file for file in pick(part, "files", of=list) or [] if isinstance(file, str)
            )[:1000]
            self.emit_as(
                name,
                "lifecycle",
                "\n".join(files),
                kind,
                f"{len(files)} files changed",
                role,
                files=files,
            )
        elif kind == "compaction":
            self.compact(part, name)
        elif kind == "retry":
            text = pick(part, "error", "data", "message", of=str) or text_of(part.get("error"))
            self.emit_as(name, "retry", text, kind, None, "system", is_error=True)
        else:
            native = kind[:200] if "data" not in part else "malformed"
            self.emit_as(
                name, "lifecycle", text_of(part.get("data", part)), native, f"part: {native}", role
            )
            if native == "malformed":
                self.skip("a part is not JSON")

    def compact(self, part: dict[str, Any], name: str) -> None:
        """Add a compaction: all messages leave the model's context, but for those from a certain
        one on."""
        tail = self.state.firsts.get(pick(part, "tail_start_id", of=str) or "")
        refs = (tail, "..", self.state.last) if tail and self.state.last else ()
        summary = "compacted" if part.get("auto") is not True else "compacted by itself"
        self.emit_as(
            name, "lifecycle", "", "compaction", summary, "user", view="compact", refs=refs
        )

    def tool(self, part: dict[str, Any], name: str, role: str, info: dict[str, Any]) -> None:
        """Add a call and its result."""
        tool = (pick(part, "tool", of=str) or "unknown")[:200]
        state = pick(part, "state", of=dict) or {}
        call_id = (pick(part, "callID", of=str) or "")[:200] or None
        call = words.call_of(tool, state)
        self.ts = time_of((pick(state, "time", of=dict) or {}).get("start")) or self.ts
        native = "tool" if role == "assistant" else "tool/by-user"
        self.emit_as(
            name, call.kind, call.body, native, call.summary, role, tool, call_id, call.action,
            files=call.files, cwd=self.elsewhere(info),
        )  # fmt: skip
        outcome = words.outcome_of(tool, state, call)
        if outcome is not None:
            self.original = self.original and f"{self.original}#1"
            self.result(outcome, state, f"{name}#1", tool, call_id, call.action)

    def result(
        self,
        outcome: words.Outcome,
        state: dict[str, Any],
        name: str,
        tool: str,
        call_id: str | None,
        action: str,
    ) -> None:
        times = pick(state, "time", of=dict) or {}
        start, end = to_ms(times.get("start")), to_ms(times.get("end"))
        self.ts = time_of(end) or self.ts
        tests = outcome.tests
        summary = f"{tests.passed or 0} passed, {tests.failed or 0} failed" if tests else None
        duration_ms = end - start if start is not None and end is not None else -1
        self.emit_as(
            name, outcome.kind, outcome.text, outcome.native, summary, "tool", tool, call_id,
            action, is_error=outcome.is_error, exit_code=outcome.exit_code, tests=tests,
            duration_ms=duration_ms if duration_ms >= 0 else None,
        )  # fmt: skip

    def elsewhere(self, info: dict[str, Any]) -> str | None:
        """Return the folder of a step, when it is not the session's."""
        folder = pick(info, "path", "cwd", of=str)
        return folder[:4096] if folder and folder != self.state.cwd else None

    def fail(self, error: Any) -> None:
        if not error:
            return
        self.original = f"{self.copied[0]}/error" if self.copied else None
        word = (pick(error, "name", of=str) or "error")[:200]
        text = pick(error, "data", "message", of=str) or text_of(error)
        if word == "MessageAbortedError":
            self.emit_as(
                f"{self.message}/error", "human_intervention", text, word, "interrupted", "user"
            )
        else:
            self.emit_as(
                f"{self.message}/error",
                "error",
                text,
                word,
                f"{word}: {text}",
                "system",
                is_error=True,
            )

    def used(
        self, usage: Usage, info: dict[str, Any], finish: dict[str, Any], name: str, step: int
    ) -> None:
        """Add the usage of an API call. In the ledger it has the name that is the same in every
        copy of the message."""
        cost = finish.get("cost")
        micros = (
            number(cost * 1e6)
            if isinstance(cost, int | float) and not isinstance(cost, bool) and 0 <= cost < 1e9
            else None
        )
        reason = pick(finish, "reason", of=str) or pick(finish, "finish", of=str) or "usage"
        self.emit_as(
            name,
            "lifecycle",
            "",
            f"step-finish/{reason[:100]}",
            f"{usage.total} tokens",
            usage=usage,
            tokens=usage.total,
            model=self.state.model,
            extra={"cost_estimate_micros": micros} if micros else {},
        )
        if self.room < 0:
            return
        key = self.copied[0] if self.copied else self.message
        call = api.Call(
            key=f"{key}/{step}" if step else key, session_uid=self.uid(self.session()), ts=self.ts,
            provider=pick(info, "providerID", of=str), model=self.state.model,
            input_tokens=usage.input_tokens,
            output_tokens=usage.output_tokens, cache_read_tokens=usage.cache_read_tokens,
            cache_write_5m_tokens=usage.cache_write_tokens, reasoning_tokens=usage.reasoning_tokens,
            is_sidechain=self.state.relation == "subagent" or bool(self.agent),
            recorded=api.to_units(cost) or None,
        )  # fmt: skip
        self.out.calls.append((call, name))

    # Events.

    def emit_as(
        self, name: str, kind: str, body: str, native: str, summary: str | None = None,
        role: str | None = None, tool: str | None = None,
        call_id: str | None = None, action: str | None = None, **fields: Unpack[AllFields],
    ) -> None:  # fmt: skip
        """Add an event of this name. Events of removed messages and of subagents are on branches of
        their own."""
        self.room -= 1
        if self.room < 0:
            return
        state, before = self.state, self.state.last
        if not self.count:
            keep(state.firsts, self.message, name, FIRSTS)
        self.put(
            name, kind, body, native, summary, role, tool, call_id, action, fields, self.original
        )
        if self.is_removed:
            state.last, state.last_removed = before, name
        elif self.agent:
            state.last = before
            keep(state.agents, self.agent, name, AGENTS)

    def stream(self) -> State:
        return self.state

    def stream_uid(self) -> str:
        return self.uid(self.session())

    def annotate(self, fields: AllFields) -> None:
        if self.state.relation == "subagent" or self.agent:
            fields["is_sidechain"] = True

    def finish(self) -> Normalized:
        state, out = self.state, self.out
        if state.records or out.events:
            session = self.session()
            out.facts[self.uid(session)] = Facts(
                native_session_id=session, title=self.title[0], title_rank=self.title[1],
                cwd=state.cwd, model=state.model,
                parent_uid=state.parent, relation=state.relation, parent_call=state.call,
            )  # fmt: skip
        return self.pack()


def time_of(value: Any) -> datetime | None:
    """Return a time that is written in milliseconds since 1970, or as ISO 8601."""
    since_1970 = to_ms(value)
    return moment(since_1970 / 1000) if since_1970 else None
