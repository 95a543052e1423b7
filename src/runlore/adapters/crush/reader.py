"""The meaning of the rows of Crush's `crush.db`: a fold over the messages of a session. The traps
of the format are in the package's docstring."""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import datetime
from typing import Any

from ... import model as api
from .. import Normalized, Record, Skip, Source
from ..shared.fold import keep, load
from ..shared.jsonl import parse
from ..shared.pick import clean, identifier, moment, number, pick
from ..shared.stream import CALLS, Call, SessionFold, State
from ..shared.tools import (
    blob_reference,
    file_change,
    file_content,
    is_test_run,
    key_values,
    one_line,
    test_counts,
    text_of,
)

CARRY = 2
"""The layout of `Talk`; changed only together with the adapter's `version`."""

ACTIONS = {
    **dict.fromkeys(("bash", "job_output", "job_kill"), "shell"),
    "view": "read",
    **dict.fromkeys(("edit", "multiedit", "write"), "edit"),
    **dict.fromkeys(
        ("grep", "glob", "ls", "sourcegraph", "diagnostics", "lsp_diagnostics", "lsp_references"),
        "search",
    ),
    **dict.fromkeys(("fetch", "web_fetch", "web_search", "download", "agentic_fetch"), "web"),
    "agent": "agent",
    "todos": "plan",
}
REFUSED = ("User denied permission", "Permission denied", "permission denied")
UNNAMED = ("New Session", "Untitled Session", "New Agent Session", "Fetch Analysis")
"""Titles of sessions that have none yet, and of subagents, which get no other."""
QUIET = frozenset({"end_turn", "tool_use", "stop"})
_HEADLINES = ("command", "file_path", "path", "pattern", "query", "url", "description", "prompt")
_EXIT = re.compile(r"^Exit code (\d{1,9})\b", re.MULTILINE)
_BASE64 = re.compile(rb'("[Dd]ata"\s*:\s*")([A-Za-z0-9+/\\]{256,}={0,2})(?=")')


def without_pictures(line: bytes) -> bytes:
    """A record whose long base64 values are replaced by their references."""
    return _BASE64.sub(
        lambda found: found[1] + blob_reference(found[2].replace(b"\\", b"")).encode(), line
    )


def normalize(source: Source, records: Iterable[Record], carry: bytes | None) -> Normalized:
    """Return what the records of a source mean."""
    return Reader(source, carry).run(records)


class Talk(State):
    version: int = CARRY
    has_begun: bool = False
    summary: str = ""
    """The message that the session says is its summary."""


class Reader(SessionFold[Talk]):
    def __init__(self, source: Source, carry: bytes | None) -> None:
        super().__init__(source, load(carry, Talk, CARRY))

    def sidecar(self, name: str, data: bytes) -> None:
        """Take in the facts about the session."""
        state = self.state
        row = next((value for value, _, _ in parse(data) if isinstance(value, dict)), {})
        session = self.session(pick(row, "id", of=str))
        title = pick(row, "title", of=str)
        if title not in UNNAMED:
            self.set_title(title, 2)
        state.cwd = (pick(row, "cwd", of=str) or "")[:4096] or state.cwd
        state.summary = (pick(row, "summary_message_id", of=str) or "")[:200]
        if above := clean(pick(row, "parent_session_id", of=str) or ""):
            state.parent, state.relation = self.uid(above), "subagent"
            state.call = session.rpartition("$$")[2]
        self.bill(row, session)
        if not state.has_begun:
            state.has_begun = True
            self.begin(b"")
            self.identify(f"{session}/start")
            self.ts = time_of(row.get("created_at"))
            self.emit("lifecycle", "", "session", "session started")

    def bill(self, row: dict[str, Any], session: str) -> None:
        """Add what the agent says the session cost: one figure for all of its requests, that grows
        with them."""
        total, below = row.get("cost"), row.get("subagents_cost") or 0
        if not isinstance(total, int | float) or not isinstance(below, int | float):
            return
        if recorded := api.to_units(max(total - below, 0)):
            call = api.Call(
                key=f"{session}/cost",
                session_uid=self.uid(session),
                ts=time_of(row.get("updated_at")) or time_of(row.get("created_at")),
                provider=pick(row, "provider", of=str),
                model=pick(row, "model", of=str),
                is_sidechain=self.state.relation == "subagent",
                is_sum=True,
                recorded=recorded,
            )
            self.out.calls.append((call, None))

    # Messages.

    def line(self, row: dict[str, Any]) -> None:
        state = self.state
        self.session(pick(row, "session_id", of=str))
        self.identify((pick(row, "id", of=str) or "")[:200] or self.new_id())
        self.ts = time_of(row.get("created_at"))
        role = pick(row, "role", of=str) or "unknown"
        state.model = pick(row, "model", of=str) or state.model
        parts = row.get("content")
        if not isinstance(parts, list):
            self.emit(
                "lifecycle", text_of(row.get("parts", parts)), role, "a message without parts", role
            )
            self.out.skips.append(Skip(self.offset, "the parts are not a list"))
            return
        is_summary = row.get("is_summary_message") == 1 or (
            bool(state.summary) and self.native_id == state.summary
        )
        if is_summary:
            self.emit("lifecycle", "", "compaction", "compacted", role, view="compact")
        for part in parts:
            self.part(part, role, is_summary)
        if not self.count:
            self.merge("empty")

    def part(self, part: Any, role: str, is_summary: bool) -> None:
        data = pick(part, "data", of=dict)
        kind = guess(pick(part, "type", of=str), data or {})
        if data is None:
            self.emit("lifecycle", text_of(part), kind, "unknown part", role)
        elif kind == "text":
            self.say(text_of(data.get("text")), role, is_summary)
        elif kind == "reasoning":
            if thought := text_of(data.get("thinking")):
                self.emit("thinking", thought, kind, None, "assistant", model=self.state.model)
        elif kind == "tool_call":
            self.call(data)
        elif kind == "tool_result":
            self.result(data)
        elif kind == "finish":
            self.ending(data, role)
        elif kind == "shell_command":
            self.shell(data)
        elif kind in ("image_url", "binary"):
            self.emit("lifecycle", picture(data), kind, None, role, view="context")
        else:
            self.emit("lifecycle", text_of(part), kind[:200], f"part: {kind[:200]}", role)

    def say(self, text: str, role: str, is_summary: bool) -> None:
        if not text.strip():
            self.merge("empty part")
        elif is_summary:
            self.emit("lifecycle", text, "compaction/summary", None, role, view="summary")
        elif role == "user":
            self.emit("user_msg", text, "text", None, role)
            if not self.state.is_titled:
                self.set_title(text, 1)
        elif role == "assistant":
            self.emit("assistant_msg", text, "text", None, role, model=self.state.model)
        else:
            self.emit("lifecycle", text, f"{role[:100]}/text", None, role, view="context")

    def call(self, data: dict[str, Any]) -> None:
        tool, given = (pick(data, "name", of=str) or "unknown")[:200], data.get("input")
        args = given if isinstance(given, dict) else {}
        action = ACTIONS.get(tool) or ("mcp" if tool.startswith("mcp_") else "other")
        command, path = pick(args, "command", of=str), pick(args, "file_path", of=str)
        kind, body = "tool_call", key_values(args) or text_of(given)
        if action == "shell" and command is not None:
            kind, body = "test_run" if is_test_run(command) else kind, command
        elif action == "edit":
            kind, body = "edit", change(args) or body
        headline = next((text for name in _HEADLINES if (text := pick(args, name, of=str))), tool)
        call_id = identifier(data.get("id"))
        files = (path,) if path and action in ("read", "edit") else ()
        self.emit(
            kind,
            body,
            "tool_call",
            one_line(headline),
            "assistant",
            tool,
            call_id,
            action,
            files=files,
        )
        if call_id:
            keep(self.state.calls, call_id, Call(tool, action, kind == "test_run"), CALLS)

    def result(self, data: dict[str, Any]) -> None:
        call_id = identifier(data.get("tool_call_id"))
        call = self.end_call(call_id, (pick(data, "name", of=str) or "unknown")[:200])
        text = text_of(data.get("content"))
        attached = pick(data, "data", of=str)
        body = f"{text}\n{blob_reference(attached)}" if attached else text
        exit_code = exit_code_of(data, text, call.action)
        tests = test_counts(text) if call.is_test else None
        kind, native = "tool_result", "tool_result"
        is_error = data.get("is_error") is True or bool(exit_code)
        if text.startswith(REFUSED) and len(text) < 200:
            kind, native, is_error = "human_intervention", "tool_result/refused", False
        self.emit(
            kind, body, native,
            f"{tests.passed or 0} passed, {tests.failed or 0} failed" if tests else None, "tool",
            call.tool, call_id, call.action,
            is_error=is_error, exit_code=exit_code, tests=tests, duration_ms=duration_of(data),
        )  # fmt: skip

    def end_call(self, call_id: str | None, name: str) -> Call:
        """Return the call that a result is of, which is then no longer open."""
        call = self.state.calls.pop(call_id, None) if call_id else None
        return call or Call(name, ACTIONS.get(name, "other"))

    def ending(self, data: dict[str, Any], role: str) -> None:
        reason = (pick(data, "reason", of=str) or "unknown")[:100]
        text = "\n".join(
            text for name in ("message", "details") if (text := pick(data, name, of=str))
        )
        self.ts = time_of(data.get("time")) or self.ts
        if role != "assistant" or (reason in QUIET and not text):
            self.merge("finish")
        elif reason in ("canceled", "permission_denied"):
            self.emit(
                "human_intervention",
                text,
                f"finish/{reason}",
                "interrupted" if reason == "canceled" else "refused",
                "user",
            )
        elif reason == "error":
            self.emit("error", text, "finish/error", None, "system", is_error=True)
        else:
            self.emit("lifecycle", text, f"finish/{reason}", f"ended: {reason}", "system")

    def shell(self, data: dict[str, Any]) -> None:
        """A command that the person ran."""
        command, exit_code = text_of(data.get("command")), pick(data, "exit_code", of=int)
        exit_code = exit_code if exit_code is not None and abs(exit_code) < 1 << 31 else None
        kind = "test_run" if is_test_run(command) else "tool_call"
        call_id = f"{self.native_id}/{self.count}"
        self.emit(kind, command, "shell_command", None, "user", "bash", call_id, "shell")
        output = text_of(data.get("output"))
        tests = test_counts(output) if kind == "test_run" else None
        self.emit(
            "tool_result", output, "shell_command/output", None, "tool", "bash", call_id, "shell",
            is_error=bool(exit_code),
            exit_code=exit_code, tests=tests,
        )  # fmt: skip


KINDS = {
    "thinking": "reasoning",
    "tool_call_id": "tool_result",
    "input": "tool_call",
    "command": "shell_command",
    "reason": "finish",
}
KNOWN = frozenset({*KINDS.values(), "text", "image_url", "binary"})


def exit_code_of(data: dict[str, Any], text: str, action: str) -> int | None:
    """Return the exit code of a result; of a command it may stand in the output only."""
    code = pick(data, "metadata", "exit_code", of=int)
    if code is None and action == "shell" and (found := _EXIT.search(text)):
        code = int(found[1])
    return code if code is not None and abs(code) < 1 << 31 else None


def duration_of(data: dict[str, Any]) -> int | None:
    """Return how many milliseconds a call took, if both times are known and in order."""
    times = pick(data, "metadata", of=dict) or {}
    start, end = (number(times.get(name), 1 << 50) for name in ("start_time", "end_time"))
    return end - start if start and end and end >= start else None


def guess(word: str | None, data: dict[str, Any]) -> str:
    """Return the type of a part: its own word, or by what it holds."""
    if word in KNOWN and word is not None:
        return word
    held = next(
        (kind for name, kind in KINDS.items() if name in data), "text" if "text" in data else None
    )
    return held or word or "unknown"


def change(args: dict[str, Any]) -> str | None:
    """The path and the lines that change."""
    path = pick(args, "file_path", of=str) or ""
    if (content := pick(args, "content", of=str)) is not None:
        return file_content(path, content)
    edits = pick(args, "edits", of=list) or [args]
    pairs = [
        (text_of(edit.get("old_string")), text_of(edit.get("new_string")))
        for edit in edits
        if isinstance(edit, dict)
    ]
    return file_change(path, pairs) if any(old or new for old, new in pairs) else None


def picture(data: dict[str, Any]) -> str:
    """Return a reference that replaces a picture or a file."""
    if (content := pick(data, "Data", of=str) or pick(data, "data", of=str)) is not None:
        return f"{pick(data, 'Path', of=str) or ''} {blob_reference(content)}".strip()
    head, mark, content = (pick(data, "url", of=str) or "").partition(";base64,")
    return blob_reference(content) if mark else f"[{head}]"


def time_of(value: Any) -> datetime | None:
    """A time in seconds or milliseconds."""
    found = number(value, 1 << 50)
    return moment(found / 1000 if found > 1e11 else found) if found else None
