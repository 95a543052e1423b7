"""The meaning of the rows of superagent's `grok.db`: a fold over messages and their sidecars. The
package's docstring lists the traps."""

from __future__ import annotations

import re
from collections.abc import Iterable
from hashlib import blake2b
from typing import Any

import msgspec

from ... import model as api
from ...model import SessionEvent, Usage
from .. import Facts, Normalized, Record, Source
from ..shared.fold import Fold, keep, load
from ..shared.jsonl import parse
from ..shared.pick import clean, number, pick, time_of
from ..shared.tools import (
    blob_reference,
    file_change,
    file_content,
    is_test_run,
    key_values,
    one_line,
    test_counts,
    text_of,
    title_line,
)

CARRY = 1
"""The layout of `State`; changed only together with the adapter's `version`."""
# How many are remembered between two reads, the oldest going first. More rows than these are not
# written in an hour; one that is read twice all the same has the same name, and the store knows it.
SESSIONS, CALLS, MAX_ROWS = 1024, 64, 2048

ACTIONS = {
    **dict.fromkeys(("bash", "process_logs", "process_stop", "process_list"), "shell"),
    **dict.fromkeys(("read_file", "view_file"), "read"),
    **dict.fromkeys(("write_file", "create_file", "edit_file", "str_replace_editor"), "edit"),
    **dict.fromkeys(("grep", "glob", "search", "list_files", "lsp"), "search"),
    **dict.fromkeys(("search_web", "search_x", "web_fetch"), "web"),
    **dict.fromkeys(("task", "delegate", "delegation_read", "delegation_list"), "agent"),
    **dict.fromkeys(("generate_plan", "create_todo_list", "update_todo_list"), "plan"),
}
_CHANGES = (("old_string", "new_string"), ("old_str", "new_str"))
CHECKPOINT = "[Context checkpoint summary]"
_PATHS = ("file_path", "path", "filePath")
_HEADLINES = ("command", "pattern", "query", *_PATHS, "url", "description", "prompt", "title")
_EXIT = re.compile(r"\b[Ee]xit(?:ed with)? code:? (\d{1,9})\b")


class Call(msgspec.Struct, array_like=True, gc=False):
    tool: str
    action: str
    is_test: bool


def normalize(source: Source, records: Iterable[Record], carry: bytes | None) -> Normalized:
    """Return what the records of a source mean."""
    return Reader(source, carry).run(records)


class SessionState(msgspec.Struct, array_like=True):
    seq: int = 0
    last: str | None = None
    calls: dict[str, Call] = {}


class State(msgspec.Struct, array_like=True):
    """Ids, names of tools and numbers; nothing that people wrote."""

    version: int = CARRY
    records: int = 0
    events: int = 0
    current: str = "unknown"
    """The session of the last message, which gets the records that cannot be read."""
    sidecars: dict[str, bool] = {}
    """The names of sidecars that were read, and may be given again."""
    has_dropped: bool = False
    sessions: dict[str, SessionState] = {}


class Reader(Fold[State]):
    def __init__(self, source: Source, carry: bytes | None) -> None:
        super().__init__(source, load(carry, State, CARRY))
        self.native, self.session = "unknown", SessionState()

    def record(self, data: bytes) -> None:
        self.tolerate(data)

    def blank(self, data: bytes) -> None:
        self.strange(data.decode("utf-8", "replace"), "empty")

    def take_damaged(self, value: dict[str, Any], text: str) -> list[str]:
        self.message(value)
        return []

    def strange(self, text: str, reason: str, native: str = "malformed") -> None:
        data = b"%d\n" % self.offset + text.encode("utf-8", "replace")
        name = "~" + blake2b(data, digest_size=8).hexdigest()
        self.begin_row(self.state.current, name, None)
        self.emit("lifecycle", text, native, reason)
        self.skip(reason)

    # Sidecars.

    def sidecar(self, kind: str, data: bytes) -> None:
        # It belongs to the record that follows, and has that one's number.
        self.number = self.state.records
        row = next((value for value, _, _ in parse(data) if isinstance(value, dict)), {})
        if kind == "session":
            self.about(row)
            return
        name = f"{kind}-{number(row.get('rowid')) or 0}"
        if name not in self.state.sidecars:
            keep(self.state.sidecars, name, True, MAX_ROWS)
            self.begin_row(pick(row, "session_id", of=str), name, row.get("created_at"))
            (self.used if kind == "usage" else self.compacted)(row)

    def about(self, row: dict[str, Any]) -> None:
        native = clean(pick(row, "id", of=str) or "")
        title = title_line(pick(row, "title", of=str), 2)
        if native:
            self.out.facts[self.uid(native)] = Facts(
                native_session_id=native, title=title or None, title_rank=2 if title else 0,
                model=pick(row, "model", of=str) or None,
                cwd=pick(row, "cwd_at_start", of=str) or pick(row, "cwd_last", of=str) or None,
            )  # fmt: skip

    def used(self, row: dict[str, Any]) -> None:
        """Add the usage of an API call."""
        source = pick(row, "source", of=str) or "other"
        sent = number(row.get("input_tokens")) or 0
        received = number(row.get("output_tokens")) or 0
        usage = Usage(input_tokens=sent, output_tokens=received)
        cost = number(row.get("cost_micros"))
        self.emit(
            "lifecycle", "", f"usage/{source}", f"{source}: {sent} tokens in, {received} out",
            usage=usage, tokens=usage.total,
            model=pick(row, "model", of=str), extra={"cost_estimate_micros": cost} if cost else {},
        )  # fmt: skip
        if usage.total:
            created = pick(row, "created_at", of=str) or ""
            self.bill(usage, pick(row, "model", of=str), created, cost)

    def bill(self, usage: Usage, model: str | None, created: str, micros: int | None) -> None:
        """Add an API call to the ledger. The time is a part of its key: the numbers of deleted rows
        are used again."""
        call = api.Call(
            key=f"{self.native_id}@{created[:40]}", session_uid=self.uid(self.native),
            ts=self.ts, provider="xai",
            model=(model or "")[:200] or None, input_tokens=usage.input_tokens,
            output_tokens=usage.output_tokens, recorded=api.to_units((micros or 0) / 1e6) or None,
        )  # fmt: skip
        self.out.calls.append((call, self.native_id))

    def compacted(self, row: dict[str, Any]) -> None:
        """Add a compaction: the summary replaces the messages before the first one that stays in
        the context."""
        first, last = pick(row, "first_kept", of=str), self.session.last
        before = number(row.get("tokens_before"))
        refs = (first, "..", last) if first and last else ()
        self.emit(
            "lifecycle",
            "",
            "compaction",
            f"compacted {before} tokens" if before else "compacted",
            view="compact",
            refs=refs,
        )
        if summary := pick(row, "summary", of=str):
            self.emit("lifecycle", summary, "compaction/summary", None, "user", view="summary")

    # Messages.

    def message(self, row: dict[str, Any]) -> None:
        name = pick(row, "name", of=str)
        if not name:
            name = "~" + blake2b(msgspec.json.encode(row), digest_size=8).hexdigest()
        self.begin_row(pick(row, "session_id", of=str), name[:200], row.get("created_at"))
        self.state.current = self.native
        value = row.get("message")
        role = pick(value, "role", of=str) or pick(row, "role", of=str) or "unknown"
        content = value.get("content") if isinstance(value, dict) else None
        if value is None:
            self.skip("the message is not JSON")
        if content is None:
            body = text_of(value) or text_of(row.get("message_json"))
            self.emit("lifecycle", body, role, f"{role} message without content", role)
            return
        parts = content if isinstance(content, list) else [{"type": "text", "text": content}]
        if role == "user":
            self.user(parts)
        else:
            for part in parts:
                self.part(role, part)
        if not self.count:
            self.merge("empty")

    def user(self, parts: list[Any]) -> None:
        """Add a message of the user: its first text is the prompt, the rest is context."""
        has_prompt = False
        for part in parts:
            text = text_in(part)
            if not isinstance(part, dict):
                self.emit("lifecycle", text_of(part), "user", "unknown part", "user")
            elif text is not None and not has_prompt:
                has_prompt = True
                self.emit("user_msg", text, "user", None, "user")
            else:
                text = shown(part) if text is None else text
                self.emit("lifecycle", text, "user/more", None, "user", view="context")

    def part(self, role: str, part: Any) -> None:
        """Add a part of a message that is not the user's."""
        if not isinstance(part, dict):
            self.emit("lifecycle", text_of(part), role, "unknown part", role)
            return
        kind, text = pick(part, "type", of=str) or guess(part), text_in(part)
        if kind == "tool-call":
            self.call(part)
        elif kind == "tool-result":
            self.result(part)
        elif kind == "reasoning":
            self.emit("thinking", text_of(part.get("text")), kind, None, "assistant")
        elif text is not None and role == "assistant":
            self.emit("assistant_msg", text, role, None, role)
        elif text is not None:
            self.emit(
                "lifecycle",
                text,
                role,
                None,
                role,
                view="summary" if text.startswith(CHECKPOINT) else "context",
            )
        else:
            self.emit("lifecycle", shown(part), f"{role}/{kind}", None, role)

    def call(self, part: dict[str, Any]) -> None:
        tool, given = (
            (pick(part, "toolName", of=str) or "unknown")[:200],
            part.get("input", part.get("args")),
        )
        args = given if isinstance(given, dict) else {}
        action = ACTIONS.get(tool) or ("mcp" if tool.startswith("mcp_") else "other")
        command = pick(args, "command", of=str)
        files = (
            tuple(path for name in _PATHS if (path := pick(args, name, of=str)))
            if action in ("read", "edit")
            else ()
        )
        kind, body = "tool_call", key_values(args) or text_of(given)
        if action == "shell" and command is not None:
            kind, body = "test_run" if is_test_run(command) else kind, command
        elif action == "edit":
            kind, body = "edit", change(args) or body
        headline = next((text for name in _HEADLINES if (text := pick(args, name, of=str))), tool)
        call_id = identifier(part.get("toolCallId"))
        self.emit(
            kind,
            body,
            "tool-call",
            one_line(headline),
            "assistant",
            tool,
            call_id,
            action,
            files=files,
        )
        if call_id:
            keep(self.session.calls, call_id, Call(tool, action, kind == "test_run"), CALLS)

    def result(self, part: dict[str, Any]) -> None:
        call_id = identifier(part.get("toolCallId"))
        tool = (pick(part, "toolName", of=str) or "unknown")[:200]
        call = self.session.calls.pop(call_id, None) if call_id else None
        call = call or Call(tool, ACTIONS.get(tool, "other"), False)
        output = part.get("output", part.get("result"))
        text, is_error = outcome(output)
        code = _EXIT.search(text, 0, 4000) if call.action == "shell" and is_error else None
        tests = test_counts(text) if call.is_test else None
        summary = f"{tests.passed or 0} passed, {tests.failed or 0} failed" if tests else None
        is_decision = call.action == "plan" and not is_error
        kind, native = "decision" if is_decision else "tool_result", "tool-result"
        if pick(output, "type", of=str) == "execution-denied":
            kind, native, is_error = "human_intervention", "tool-result/denied", False
        self.emit(
            kind, text, native, summary, "tool", call.tool, call_id, call.action,
            is_error=is_error, exit_code=int(code[1]) if code else None, tests=tests,
        )  # fmt: skip

    # Events.

    def begin_row(self, session: str | None, name: str, created: Any) -> None:
        """Make this row the current one, in the session that it belongs to."""
        state = self.state
        self.native = clean(session or "") or state.current
        current = state.sessions.pop(self.native, None)
        if current is None:
            # A session that was forgotten is counted from beyond all others, so that no number is
            # given twice.
            state.has_dropped = state.has_dropped or len(state.sessions) >= SESSIONS
            current = SessionState(seq=state.events if state.has_dropped else 0)
        keep(state.sessions, self.native, current, SESSIONS)
        self.session, self.count, self.ts = current, 0, time_of(created)
        self.parent = current.last
        self.native_id = name if name.startswith(f"{self.native}/") else f"{self.native}/{name}"
        self.out.facts.setdefault(self.uid(self.native), Facts(native_session_id=self.native))

    def stream(self) -> SessionState:
        return self.session

    def stream_uid(self) -> str:
        return self.uid(self.native)

    def add(self, event: SessionEvent, body: str, parent: str | None, original: str | None) -> None:
        super().add(event, body, parent, original)
        self.state.events += 1


def identifier(value: Any) -> str | None:
    return value[:200] if isinstance(value, str) and value else None


def guess(part: dict[str, Any]) -> str:
    """Return the type of a part without one, judged by its fields."""
    if "input" in part:
        return "tool-call"
    return "tool-result" if "output" in part else "unknown"


def text_in(part: Any) -> str | None:
    """Return the text of a part that is a text, else None."""
    if isinstance(part, dict) and part.get("type") in ("text", None):
        return text_of(part.get("text"))
    return None


def change(args: dict[str, Any]) -> str | None:
    """Return the path and the lines that change."""
    path = next((path for name in _PATHS if (path := pick(args, name, of=str))), "")
    if (content := pick(args, "content", of=str)) is not None:
        return file_content(path, content)
    names = next((names for names in _CHANGES if args.keys() & set(names)), None)
    return (
        file_change(path, [(text_of(args.get(names[0])), text_of(args.get(names[1])))])
        if names
        else None
    )


def outcome(output: Any) -> tuple[str, bool]:
    """Return the text of a result, and True if it is an error. Results are wrapped by the SDK, and
    once more by the tool."""
    kind, value = pick(output, "type", of=str) or "", output
    if isinstance(output, dict):
        value = output.get("value", output.get("reason", output))
    is_error = kind.startswith("error") or kind == "execution-denied"
    if isinstance(value, dict) and "success" in value:
        return tool_text(value), is_error or value["success"] is not True
    if kind == "content" and isinstance(value, list):
        return "\n".join(shown(item) for item in value), is_error
    return text_of(value), is_error


def tool_text(value: dict[str, Any]) -> str:
    """Return the text in a tool's own wrapper of its result."""
    texts = [value.get(name) for name in ("error", "output")]
    text = "\n".join(text for text in texts if isinstance(text, str) and text)
    return text or key_values({name: item for name, item in value.items() if name != "success"})


def shown(part: Any) -> str:
    """Return a part for reading: its text, or a short reference to a picture or a file."""
    if not isinstance(part, dict):
        return text_of(part)
    if (text := pick(part, "text", of=str)) is not None:
        return text
    data = next((part[name] for name in ("image", "data") if isinstance(part.get(name), str)), None)
    if data is not None:
        is_address = data.startswith(("http://", "https://"))
        return (
            f"[{data}]"
            if is_address
            else blob_reference(data.partition(";base64,")[2] if data.startswith("data:") else data)
        )
    kind, name = pick(part, "type", of=str) or "unknown", pick(part, "filename", of=str) or ""
    return f"[{kind} {name}]".replace(" ]", "]")
