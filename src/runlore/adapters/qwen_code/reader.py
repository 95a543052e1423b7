"""The meaning of the records of Qwen Code by type, and of the program's own records."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ...model import format_time
from .. import Normalized, Record, Source
from ..gemini_cli import words
from ..gemini_cli.reader import normalize as normalize_document
from ..shared.fold import keep
from ..shared.pick import clean, identifier, number, pick, time_of
from ..shared.tools import key_values, one_line, text_of
from .chat import MAIN, MOVED, PENDING, UUID, ChatFold, counted

SUGGESTION = "prompt_suggestion"
SNAPSHOTS = frozenset(
    {
        "attribution_snapshot", "file_history_snapshot", "session_artifact_snapshot",
        "session_artifact_event",
        "session_sources_snapshot", "user_text_elements", "branch_checkpoint", "session_source",
        "agent_session_ready",
        "session_execution_engine",
    }
)  # fmt: skip
"""Subtypes with the program's own data, which it writes again and again."""


def normalize(source: Source, records: Iterable[Record], carry: bytes | None) -> Normalized:
    """Return what the records of a source mean."""
    if source.path.endswith(".json"):
        return normalize_document(source, records, carry)
    return Reader(source, carry).run(records)


class Reader(ChatFold):
    def line(self, value: dict[str, Any]) -> None:
        state = self.state
        self.value = value
        if not state.session:
            stem = self.file.removesuffix(".jsonl")
            self.session(
                stem if UUID.match(stem) or self.above else pick(value, "sessionId", of=str)
            )
        uuid = identifier(value.get("uuid"))
        if uuid is not None:
            name = self.named(uuid)
            stamp = self.stamp()
            if stamp in state.stamps.get(name, ()):
                self.merge("told before")
                return
            self.identify(f"{name}~{stamp.hex()}" if name in state.stamps else name)
        self.place(value)
        # The rest of a message whose parts were written one after another.
        if uuid is not None and name in state.stamps:
            self.parent = self.reference(name)
        self.ts = time_of(value.get("timestamp"))
        self.follows = self.parent
        word = pick(value, "type", of=str) or ""
        handler = HANDLERS.get(word) or HANDLERS.get(guess(value))
        if handler is not None:
            handler(self, value)
        else:
            self.unknown(word)
        if uuid is not None:
            self.close(name, stamp)

    # Records of the program itself.

    def system(self, value: dict[str, Any]) -> None:
        subtype = pick(value, "subtype", of=str) or ""
        payload = pick(value, "systemPayload", of=dict)
        handler = SYSTEM.get(subtype) or SYSTEM.get(
            next((GIVEN[name] for name in payload or () if name in GIVEN), "")
        )
        if handler is not None and payload is not None:
            handler(self, payload)
        elif subtype in SNAPSHOTS or (subtype == "ui_telemetry" and payload is None):
            self.merge(subtype)
        else:
            text = key_values(payload) if payload else self.raw_text()
            self.emit(
                "lifecycle",
                text,
                f"system/{subtype}" if subtype else "system",
                subtype or "system record",
            )

    def telemetry(self, payload: dict[str, Any]) -> None:
        event = pick(payload, "uiEvent", of=dict) or {}
        name = (pick(event, "event.name", of=str) or "unknown").removeprefix("qwen-code.")
        prompt = pick(event, "prompt_id", of=str) or ""
        if name == "api_error" and prompt != SUGGESTION:
            reason = text_of(event.get("error_message", event.get("error")))
            self.emit(
                "error", reason or text_of(event), "ui_telemetry/api_error", None, is_error=True
            )
        elif name == "user_feedback":
            self.emit(
                "human_intervention",
                key_values(event),
                "ui_telemetry/user_feedback",
                f"rated {event.get('rating')}",
                "user",
            )
        else:
            self.merge(f"ui_telemetry/{name}")
            if name == "api_response":
                self.responded(event, prompt)
            elif (
                name == "tool_call"
                and MAIN in prompt
                and (ms := number(event.get("duration_ms"))) is not None
            ):
                self.state.durations = [
                    *self.state.durations[-PENDING:],
                    (text_of(event.get("function_name"))[:200], ms),
                ]

    def responded(self, event: dict[str, Any], prompt: str) -> None:
        names = (
            "input_token_count",
            "output_token_count",
            "cached_content_token_count",
            "thoughts_token_count",
            "",
            "total_token_count",
        )
        used = words.usage(*(event.get(name) for name in names))
        if not used.total:
            return
        model = pick(event, "model", of=str)
        session, _, agent = prompt.partition("#")
        is_main = MAIN in prompt or not agent
        if is_main:
            key = self.native_id or self.new_id()
            keep(
                self.state.pending,
                counted(used),
                (key, format_time(self.ts) if self.ts else ""),
                PENDING,
            )
        else:
            key = self.key_of(used, clean(session) or self.session())
        self.bill(key, used, model, self.ts, None, is_sidechain=not is_main or bool(self.above))

    def command(self, payload: dict[str, Any]) -> None:
        text = text_of(payload.get("rawCommand"))
        if payload.get("phase") == "result":
            texts = [
                item.get("text")
                for item in words.listed(payload.get("outputHistoryItems"))
                if isinstance(item, dict)
            ]
            body = "\n".join(item for item in texts if isinstance(item, str))
            self.emit("lifecycle", body, "slash_command/result", body or text)
        else:
            self.emit("human_intervention", text, "slash_command", None, "user")

    def files(self, payload: dict[str, Any]) -> None:
        paths = tuple(
            path for path in words.listed(payload.get("filesRead")) if isinstance(path, str)
        )[:100]
        text = pick(payload, "userText", of=str) or text_of(payload.get("message"))
        is_error = payload.get("status") == "error"
        self.emit(
            "lifecycle",
            text,
            "at_command",
            one_line(", ".join(paths)) or None,
            files=paths,
            is_error=is_error,
        )

    def compaction(self, payload: dict[str, Any]) -> None:
        """Add a compaction: the first message of the new history replaces all messages before."""
        before, after = (
            number(pick(payload, "info", of=dict) and payload["info"].get(name))
            for name in ("originalTokenCount", "newTokenCount")
        )
        summary = (
            f"compacted from {before} to {after} tokens"
            if before is not None and after is not None
            else "compacted"
        )
        self.emit("lifecycle", "", "chat_compression", summary, view="compact")
        history = pick(payload, "compressedHistory", of=list) or []
        text = words.split_content(pick(history[0], "parts", of=list))[0] if history else ""
        if text.strip():
            self.emit("lifecycle", text, "chat_compression/summary", None, "user", view="summary")

    def rewind(self, payload: dict[str, Any]) -> None:
        """Add a rewind. The next record gets the same parent as this one."""
        count = number(payload.get("truncatedCount"))
        summary = "rewound" if count is None else f"rewound {count} items"
        self.emit("human_intervention", "", "rewind", summary, "user")
        keep(self.state.moved, self.native_id, self.follows, MOVED)

    def titled(self, payload: dict[str, Any]) -> None:
        """Set the title. The last one counts: the program makes none while there is one by a
        person, unless that one was taken back by a rewind."""
        self.set_title(pick(payload, "customTitle", of=str), 3)
        self.merge("custom_title")

    def above_it(self, payload: dict[str, Any]) -> None:
        if (
            origin := clean(pick(payload, "parentSessionId", of=str) or "")
        ) and self.state.parent is None:
            self.state.parent, self.state.relation = self.uid(origin), "subagent"
        self.merge("parent_session")

    def chosen_model(self, payload: dict[str, Any]) -> None:
        model, before = pick(payload, "modelId", of=str), self.state.model
        self.state.model = model or before
        if model is None or before in (None, model):
            self.merge("session_model")
        else:
            self.emit("lifecycle", model, "session_model", f"model {before} → {model}")

    def approval(self, payload: dict[str, Any]) -> None:
        """Add a change of the approval mode, which a person made. The mode is also written at every
        start, where it is no change."""
        mode, before = pick(payload, "mode", of=str), self.state.mode
        self.state.mode = mode or before
        if mode is None or before in (None, mode):
            self.merge("session_approval_mode")
        else:
            self.emit(
                "human_intervention",
                mode,
                "session_approval_mode",
                f"approval mode {before} → {mode}",
                "user",
            )

    def retried(self, payload: dict[str, Any]) -> None:
        self.emit("retry", "", "agent_retry", f"attempt {number(payload.get('attempt')) or '?'}")

    def ended(self, payload: dict[str, Any]) -> None:
        state = pick(payload, "state", of=str) or "unknown"
        reason = text_of(pick(payload, "error", "message", of=str) or payload.get("stopReason"))
        kind = {"completed": "completion", "cancelled": "human_intervention", "error": "error"}.get(
            state, "lifecycle"
        )
        self.emit(kind, reason, f"turn_result/{state}",
        one_line(f"turn {state}: {reason}" if reason else f"turn {state}"),
                  is_error=state == "error")  # fmt: skip

    def started_with(self, payload: dict[str, Any]) -> None:
        """Add the start of a subagent with a copy of the conversation of its parent session."""
        count = len(pick(payload, "history", of=list) or [])
        self.emit(
            "lifecycle",
            "",
            "agent_bootstrap",
            f"started with {count} messages of the session above",
        )


def guess(value: dict[str, Any]) -> str:
    """Return the type of a record without a known one, judged by its fields; "" if none fits."""
    if "systemPayload" in value and "message" not in value:
        return "system"
    if "toolCallResult" in value:
        return "tool_result"
    if "usageMetadata" in value or pick(value, "message", "role", of=str) == "model":
        return "assistant"
    return "user" if pick(value, "message", "role", of=str) == "user" else ""


HANDLERS = {
    "user": Reader.user,
    "assistant": Reader.assistant,
    "tool_result": Reader.tool_result,
    "system": Reader.system,
}
GIVEN = {
    "compressedHistory": "chat_compression",
    "uiEvent": "ui_telemetry",
    "rawCommand": "slash_command",
    "filesRead": "at_command",
}
"""Fields that show the subtype where that is missing or not known."""
SYSTEM = {
    "ui_telemetry": Reader.telemetry,
    "slash_command": Reader.command,
    "at_command": Reader.files,
    "chat_compression": Reader.compaction,
    "rewind": Reader.rewind,
    "custom_title": Reader.titled,
    "parent_session": Reader.above_it,
    "session_model": Reader.chosen_model,
    "session_approval_mode": Reader.approval,
    "agent_retry": Reader.retried,
    "turn_result": Reader.ended,
    "agent_bootstrap": Reader.started_with,
}
