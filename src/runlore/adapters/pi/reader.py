"""The meaning of the entries of pi's sessions: one method for each type of entry. The package's
docstring lists the traps."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable
from datetime import datetime
from hashlib import blake2b
from pathlib import Path
from typing import Any

import msgspec

from ... import model as api
from ...model import Usage, split_cache_writes
from .. import Normalized, Record, Skip, Source
from ..shared import calls
from ..shared.fold import keep, load
from ..shared.pick import clean, identifier, moment, number, pick, time_of
from ..shared.stream import Call, Entries, EntryFold
from ..shared.tools import blob_reference, is_test_run, key_values, one_line, text_of

CARRY = 1
"""The layout of `Tree`; changed only together with the adapter's `version`."""
PLACES, MOVED = 512, 16  # What is remembered between two reads, the oldest going first.

ACTIONS = {
    **dict.fromkeys(("bash", "eval"), "shell"),
    "read": "read",
    **dict.fromkeys(("edit", "write", "ast_edit"), "edit"),
    **dict.fromkeys(("grep", "find", "ls", "glob", "lsp", "ast_grep"), "search"),
    "web_search": "web",
    **dict.fromkeys(("task", "subagent"), "agent"),
    **dict.fromkeys(("todo", "ask"), "plan"),
}
_EXIT = re.compile(r"^Command exited with code (\d{1,9})\s*\Z", re.MULTILINE)
_STAMPED = re.compile(r"\d{4}-\d\d-\d\dT[\d-]+Z?_(?=.)")
ARTIFACTS = "subagent-artifacts"


def normalize(source: Source, records: Iterable[Record], carry: bytes | None) -> Normalized:
    """Return what the records of a source mean."""
    if ARTIFACTS in Path(source.path).parts:
        skips = [
            Skip(record.offset, "of a transcript beside a subagent's session") for record in records
        ]
        return Normalized(skips=skips, carry=msgspec.msgpack.encode({}))
    return Reader(source, carry).run(records)


class Tree(Entries):
    version: int = CARRY
    places: dict[int, str] = msgspec.field(default_factory=dict)
    """The names of entries without ids, by the numbers of their lines."""
    moved: dict[str, str | None] = msgspec.field(default_factory=dict)
    """By entry, the native id that its followers get as their parent instead."""
    origin: str = ""
    """The session whose entries this one begins with."""
    forked_at: datetime | None = None


class Reader(EntryFold[Tree]):
    def __init__(self, source: Source, carry: bytes | None) -> None:
        super().__init__(source, load(carry, Tree, CARRY))
        below = next(
            (hint.removeprefix("below:") for hint in source.hints if hint.startswith("below:")), ""
        )
        if below:
            self.state.parent, self.state.relation = self.uid(session_of(below)), "subagent"
        self.value: dict[str, Any] = {}

    def session(self, named: str | None = None) -> str:
        if not self.state.session:
            self.state.session = clean(named or "") or session_of(self.file)
        return self.state.session

    def line(self, value: dict[str, Any]) -> None:
        self.value = value
        word = pick(value, "type", of=str) or ""
        if word == "session" or (not word and "cwd" in value):
            self.header(value)
        elif word == "title":
            # It comes before the header, and is overwritten. Every change has an entry as well.
            self.merge("title")
        elif self.enter(value):
            name, follows = self.native_id, self.parent
            handler = HANDLERS.get(word) or HANDLERS.get(guess(value))
            if handler is not None:
                handler(self, value)
            else:
                self.unknown(word)
            self.remember(name, follows)

    def header(self, value: dict[str, Any]) -> None:
        state = self.state
        if state.session:
            self.unknown("session")
            return
        self.session(pick(value, "id", of=str))
        state.cwd = pick(value, "cwd", of=str)
        state.model = pick(value, "modelId", of=str)
        self.set_title(pick(value, "title", of=str), 2)
        above = pick(value, "parentSession", of=str) or pick(value, "branchedFrom", of=str)
        if above and state.relation is None:
            state.origin = session_of(above)
            state.parent, state.relation = self.uid(state.origin), "fork"
            state.forked_at = time_of(value.get("timestamp"))
        self.merge("session")

    def enter(self, value: dict[str, Any]) -> bool:
        """Set the name, the parent and the time of an entry; return False if it was read before."""
        state, session = self.state, self.session()
        own = identifier(value.get("id"))
        name = self.content_name() if own is None else f"{session}/{own}"
        if not self.admit(name):
            return False
        if own is None:
            keep(state.places, state.records - 1, name, PLACES)
        if "parentId" in value:
            above = identifier(value["parentId"])
            self.parent = self.last_of(f"{session}/{above}") if above else None
        written = time_of(value.get("timestamp"))
        sent_ms = number((pick(value, "message", of=dict) or {}).get("timestamp"), 1 << 50)
        self.ts = moment(sent_ms / 1000 if sent_ms else None) or written
        if (
            own is not None
            and state.forked_at is not None
            and written is not None
            and written <= state.forked_at
        ):
            self.original = f"{state.origin}/{own}"
        return True

    def content_name(self) -> str:
        """Return a name for an entry without an id. It does not contain the session, for a fork has
        the same entry."""
        return super().content_name() if "timestamp" in self.value else self.new_id()

    def last_of(self, name: str) -> str | None:
        return self.state.moved[name] if name in self.state.moved else super().last_of(name)

    def finish(self) -> Normalized:
        if self.state.session:
            return super().finish()
        # No record has named the session yet.
        self.out.carry = msgspec.msgpack.encode(self.state)
        return self.out

    # Messages.

    def message(self, value: dict[str, Any]) -> None:
        message = pick(value, "message", of=dict)
        if message is None:
            self.unknown("message")
            return
        role = pick(message, "role", of=str) or ""
        handler = ROLES.get(role) or ROLES.get(guess_role(message))
        if handler is not None:
            handler(self, message)
        else:
            text, others = split_content(message.get("content"))
            for part in (text, *others) if text or others else (self.raw_text(),):
                self.emit("lifecycle", part, f"message/{role[:100]}", None, role[:100] or None)

    def user(self, message: dict[str, Any]) -> None:
        texts, others = split_content(message.get("content"))
        if texts.strip():
            self.emit("user_msg", texts, "user", None, "user")
            if not self.state.is_titled:
                self.set_title(texts, 1)
        for other in others:
            self.emit("lifecycle", other, "user/attached", None, "user", view="context")
        self.note_empty("user")

    def assistant(self, message: dict[str, Any]) -> None:
        state = self.state
        state.model = pick(message, "model", of=str) or state.model
        reason = pick(message, "stopReason", of=str) or ""
        blocks = message.get("content")
        for block in blocks if isinstance(blocks, list) else [blocks]:
            self.block(block, reason)
        why = pick(message, "errorMessage", of=str) or ""
        if reason == "error" or (why and reason != "aborted"):
            self.emit("error", why, "assistant/error", None, "system", is_error=True)
        elif reason == "aborted":
            self.emit("human_intervention", why, "assistant/aborted", "interrupted", "user")
        elif reason not in ("stop", "toolUse", ""):
            self.emit(
                "lifecycle", "", f"assistant/{reason[:100]}", f"stopped: {reason[:100]}", "system"
            )
        self.note_empty("assistant")
        self.used(message.get("usage"), state.model, pick(message, "provider", of=str))

    def block(self, block: Any, reason: str) -> None:
        """Add a block of an answer: a text, a thought, a call, or one that no rule knows."""
        model = self.state.model
        word = (pick(block, "type", of=str) or "")[:100]
        text = block if isinstance(block, str) else pick(block, "text", of=str)
        thought = pick(block, "thinking", of=str)
        if text is not None:
            if text.strip():
                native = "assistant/stop" if reason == "stop" else "assistant"
                self.emit("assistant_msg", text, native, None, "assistant", model=model)
        elif thought is not None:
            if thought.strip():
                self.emit("thinking", thought, "thinking", None, "assistant", model=model)
        elif isinstance(block, dict) and (word == "toolCall" or "arguments" in block):
            self.call(block)
        elif block is not None:
            native = word or "unknown block"
            self.emit("lifecycle", shown([block]), native, native, "assistant")

    def call(self, block: dict[str, Any]) -> None:
        name = pick(block, "name", of=str) or "unknown"
        call = calls.describe(name, block.get("arguments"), calls.action_of(name, ACTIONS))
        call_id = identifier(block.get("id"))
        self.emit_call(call, "toolCall", call_id)
        self.remember_call(call_id, call)

    def result(self, message: dict[str, Any]) -> None:
        call_id = identifier(message.get("toolCallId"))
        named = (pick(message, "toolName", of=str) or "unknown")[:200]
        call = self.state.calls.get(call_id or "") or Call(named, calls.action_of(named, ACTIONS))
        text = shown(message.get("content"))
        match = _EXIT.search(text) if call.action == "shell" else None
        came = calls.build_result(
            text, message.get("isError") is True, int(match[1]) if match else None, call.is_test
        )
        self.emit(
            "tool_result", came.text, "toolResult", came.summary, "tool", call.tool, call_id,
            call.action,
            is_error=came.is_error or bool(came.exit_code), exit_code=came.exit_code,
            tests=came.tests,
        )  # fmt: skip
        self.used(message.get("usage"), None, None, is_sum=True)

    def shell(self, message: dict[str, Any]) -> None:
        """Add a command that a person ran. The model does not see one with two marks in front."""
        command, exit_code = (
            text_of(message.get("command")),
            number(message.get("exitCode"), 1 << 31),
        )
        view = None if message.get("excludeFromContext") is True else "context"
        call_id = f"{self.native_id}/shell"
        kind = "test_run" if is_test_run(command) else "tool_call"
        self.emit(kind, command, "bashExecution", None, "user", "bash", call_id, "shell", view=view)
        came = calls.build_result(
            text_of(message.get("output")), bool(exit_code), exit_code, kind == "test_run"
        )
        is_stopped = message.get("cancelled") is True
        self.emit(
            "human_intervention" if is_stopped else "tool_result", came.text,
            "bashExecution/output",
            "cancelled" if is_stopped else came.summary, "tool", "bash", call_id, "shell",
            is_error=came.is_error and not is_stopped, exit_code=came.exit_code, tests=came.tests,
            view=view,
        )  # fmt: skip

    def injected(self, message: dict[str, Any]) -> None:
        """Add a text for the model by an extension."""
        word = pick(message, "customType", of=str) or "message"
        self.emit(
            "lifecycle",
            shown(message.get("content")),
            f"custom/{word[:100]}",
            None,
            "user",
            view="context",
        )

    def summarized(self, message: dict[str, Any]) -> None:
        self.emit(
            "lifecycle",
            text_of(message.get("summary")),
            pick(message, "role", of=str) or "summary",
            None,
            "user",
            view="summary",
        )

    def prompt(self, message: dict[str, Any]) -> None:
        """Add the prompt of the program, or the changed sections of it."""
        sections = pick(message, "sections", of=dict) or {}
        text = "\n\n".join(
            text for text in (shown(message.get("content")), key_values(sections)) if text
        )
        self.emit(
            "lifecycle",
            text,
            "system",
            f"prompt: {', '.join(sections)}" if sections else "prompt",
            "system",
        )

    # Changes to the session.

    def compacted(self, value: dict[str, Any]) -> None:
        """Add a compaction: a summary replaces the entries before the first one that stays in the
        context."""
        state, before = self.state, number(value.get("tokensBefore"))
        entry = identifier(value.get("firstKeptEntryId"))
        line = number(value.get("firstKeptEntryIndex"))
        first = (
            f"{self.session()}/{entry}"
            if entry
            else state.places.get(line if line is not None else -1)
        )
        refs = (
            (first, "..", self.parent) if first and self.parent and first != self.native_id else ()
        )
        self.emit(
            "lifecycle",
            "",
            "compaction",
            "compacted" if before is None else f"compacted {before} tokens",
            view="compact",
            refs=refs,
        )
        if (text := text_of(value.get("summary"))).strip():
            self.emit("lifecycle", text, "compaction/summary", None, "user", view="summary")
        self.used(value.get("usage"), state.model, None)

    def branched(self, value: dict[str, Any]) -> None:
        """Add the summary of a branch that a person left. The next entry gets the same parent as
        this one, so that its prompt is a sibling of the one that was left."""
        keep(self.state.moved, self.native_id, self.parent, MOVED)
        self.emit(
            "human_intervention",
            text_of(value.get("summary")),
            "branch_summary",
            None,
            "user",
            view="context",
        )
        self.used(value.get("usage"), self.state.model, None)

    def edited(self, value: dict[str, Any]) -> None:
        """Add the removal or the replacement of an entry in the model's context."""
        target = identifier(value.get("targetId"))
        refs = (f"{self.session()}/{target}",) if target else ()
        instead = value.get("replacement")
        self.emit("lifecycle", "", "context_edit",
        "replaced in the context" if instead else "left out of the context",
                  view="retract", refs=refs)  # fmt: skip
        if isinstance(instead, dict) and (text := shown(instead.get("content"))):
            self.emit("lifecycle", text, "context_edit/replacement", None, "user", view="context")

    def cleared(self, value: dict[str, Any]) -> None:
        self.emit("human_intervention", "", "reset_boundary", "/clear", "user", view="compact")

    def chosen_model(self, value: dict[str, Any]) -> None:
        before = self.state.model
        model = (
            pick(value, "modelId", of=str)
            or (pick(value, "model", of=str) or "").rpartition("/")[2]
            or None
        )
        self.state.model = model or before
        summary = f"model {before} → {model}" if before not in (None, model) else f"model {model}"
        self.emit("lifecycle", model or "", "model_change", summary)

    def chosen_level(self, value: dict[str, Any]) -> None:
        level = pick(value, "thinkingLevel", of=str) or "unknown"
        self.emit("lifecycle", level, "thinking_level_change", f"thinking level {level[:100]}")

    def named(self, value: dict[str, Any]) -> None:
        title = pick(value, "name", of=str) or ""
        if self.state.relation != "subagent":  # An extension numbers its subagents in this way.
            self.set_title(title, 3)
        self.emit("lifecycle", title, "session_info", None, "user")

    def titled(self, value: dict[str, Any]) -> None:
        title = pick(value, "title", of=str) or ""
        self.set_title(title, 3 if value.get("source") == "user" else 2)
        self.emit("lifecycle", title, "title_change")

    def labelled(self, value: dict[str, Any]) -> None:
        label = pick(value, "label", of=str)
        self.emit(
            "lifecycle",
            label or "",
            "label",
            f"label: {one_line(label)}" if label else "label removed",
            "user",
        )

    def extension(self, value: dict[str, Any]) -> None:
        word = (pick(value, "customType", of=str) or "custom")[:100]
        data = value.get("data")
        self.emit(
            "lifecycle",
            key_values(data) if isinstance(data, dict) else text_of(data),
            f"custom/{word}",
            word,
        )

    def started(self, value: dict[str, Any]) -> None:
        """Add the system prompt of a subagent. Its task is its first prompt as well."""
        agent = one_line(pick(value, "agent", of=str) or "subagent")
        self.emit(
            "lifecycle",
            text_of(value.get("systemPrompt")),
            "session_init",
            f"{agent} started",
            "system",
        )

    def mode(self, value: dict[str, Any]) -> None:
        mode = (pick(value, "mode", of=str) or "unknown")[:100]
        self.emit("lifecycle", text_of(value.get("data")), "mode_change", f"mode {mode}")

    def counted(self, value: dict[str, Any]) -> None:
        """Add the tokens of a request that is no part of the conversation."""
        kind = (pick(value, "kind", of=str) or pick(value, "purpose", of=str) or "unknown")[:100]
        note = pick(value, "note", of=str) or pick(value, "errorMessage", of=str) or ""
        self.emit("lifecycle", note, f"usage/{kind}", f"{kind}: tokens beside the conversation")
        self.used(value.get("usage"), pick(value, "model", of=str), pick(value, "provider", of=str))

    def pinned(self, value: dict[str, Any]) -> None:
        """Add the choice of an account, without the hash that names it."""
        self.emit("lifecycle", "", "credential_pin", "account chosen")

    # Tokens.

    def used(
        self, usage: Any, model: str | None, provider: str | None, is_sum: bool = False
    ) -> None:
        if not isinstance(usage, dict):
            return
        given, out, read, wrote, in_1h, thought = (
            number(usage.get(word)) or 0
            for word in ("input", "output", "cacheRead", "cacheWrite", "cacheWrite1h", "reasoning")
        )
        used = Usage(
            input_tokens=given,
            output_tokens=out,
            cache_read_tokens=read,
            cache_write_tokens=wrote,
            reasoning_tokens=thought,
        )
        if not used.total:
            return
        in_5m, in_1h = split_cache_writes(wrote, 0, in_1h)
        cost = pick(usage, "cost", of=dict) or {}
        stamp = f"{self.value.get('timestamp')} {self.ts} {model} {used}"
        call = api.Call(
            key=blake2b(stamp.encode("utf-8", "replace"), digest_size=12).hexdigest(),
            session_uid=self.uid(self.session()), ts=self.ts,
            provider=provider, model=model, input_tokens=given, output_tokens=out,
            cache_read_tokens=read, cache_write_5m_tokens=in_5m,
            cache_write_1h_tokens=in_1h, reasoning_tokens=thought, is_sum=is_sum,
            recorded=api.to_units(cost.get("total")) or None,
            is_sidechain=is_sum or self.state.relation == "subagent",
        )  # fmt: skip
        self.out.calls.append((call, self.charge(used, model)))

    def note_empty(self, word: str) -> None:
        """Count a message without events; keep one without content as it is, for its text may be in
        an unknown place."""
        if self.count:
            return
        if (
            pick(self.value, "message", "content", of=list) is not None
            or pick(self.value, "message", "content", of=str) is not None
        ):
            self.merge("empty")
        else:
            self.unknown(word)


def session_of(path: str) -> str:
    """Return the session that a file is named for, or that an id names."""
    stem = os.path.basename(path.replace("\\", "/")).removesuffix(".jsonl")
    return clean(_STAMPED.sub("", stem, count=1)) or clean(stem) or "unknown"


def split_content(content: Any) -> tuple[str, list[str]]:
    """Return the text of a message, and its other blocks as texts."""
    if isinstance(content, str):
        return content, []
    blocks = content if isinstance(content, list) else []
    texts = [text for block in blocks if (text := pick(block, "text", of=str)) is not None]
    return "\n".join(texts), [
        picture(block)
        for block in blocks
        if pick(block, "text", of=str) is None and block is not None
    ]


def shown(content: Any) -> str:
    """Return a whole content for reading."""
    text, others = split_content(content)
    return "\n".join(part for part in (text, *others) if part)


def picture(block: Any) -> str:
    data = pick(block, "data", of=str)
    return text_of(block) if data is None else blob_reference(data)


def guess(value: dict[str, Any]) -> str:
    """Return the type of an entry without a known one, judged by its fields; "" if none fits."""
    return next((kind for name, kind in GIVEN.items() if name in value), "")


def guess_role(message: dict[str, Any]) -> str:
    """Return the role of a message without a known one, judged by its fields; "" if none fits."""
    return next((role for name, role in SPOKEN.items() if name in message), "")


Handler = Callable[[Reader, dict[str, Any]], None]

HANDLERS: dict[str, Handler] = {
    "message": Reader.message,
    "compaction": Reader.compacted,
    "branch_summary": Reader.branched,
    "context_edit": Reader.edited,
    "reset_boundary": Reader.cleared,
    "model_change": Reader.chosen_model,
    "thinking_level_change": Reader.chosen_level,
    "session_info": Reader.named,
    "title_change": Reader.titled,
    "label": Reader.labelled,
    "custom": Reader.extension,
    "custom_message": Reader.injected,
    "session_init": Reader.started,
    "mode_change": Reader.mode,
    "usage": Reader.counted,
    "model_usage": Reader.counted,
    "credential_pin": Reader.pinned,
}
GIVEN = {
    "message": "message", "firstKeptEntryId": "compaction", "firstKeptEntryIndex": "compaction",
    "fromId": "branch_summary",
    "replacement": "context_edit", "systemPrompt": "session_init",
}  # fmt: skip
ROLES: dict[str, Handler] = {
    "user": Reader.user,
    "assistant": Reader.assistant,
    "toolResult": Reader.result,
    "bashExecution": Reader.shell,
    "custom": Reader.injected,
    "hookMessage": Reader.injected,
    "branchSummary": Reader.summarized,
    "compactionSummary": Reader.summarized,
    "system": Reader.prompt,
}
SPOKEN = {
    "toolCallId": "toolResult", "toolName": "toolResult", "command": "bashExecution",
    "customType": "custom", "sections": "system",
    **dict.fromkeys(("stopReason", "usage", "model", "provider", "api"), "assistant"),
}  # fmt: skip
