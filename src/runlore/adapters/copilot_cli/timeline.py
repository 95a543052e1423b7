"""The documents of 2025, and what was made of them when a later version took them over: entries of
a timeline."""

from __future__ import annotations

from typing import Any

from ..shared.pick import pick, time_of
from ..shared.tools import text_of
from . import words
from .usage import Spending

ENTRIES = {
    "user": ("user_msg", "user"),
    "copilot": ("assistant_msg", "assistant"),
    "error": ("error", "system"),
}


class Timeline(Spending):
    def document(self, value: dict[str, Any]) -> None:
        word = pick(value, "type", of=str) or ""
        if "sessionId" in value and "startTime" in value:
            self.heading(value)
        elif not self.entry(value, word):
            self.unknown(word[:200] or None)

    def heading(self, value: dict[str, Any]) -> None:
        self.state.model = pick(value, "selectedModel", of=str) or self.state.model
        self.ts = time_of(value.get("startTime"))
        if self.state.has_begun:
            self.merge("heading")
            return
        self.state.has_begun = True
        self.identify(f"{self.session()}/start")
        self.emit("lifecycle", "", "session", "session started", "system")

    def imported(self, data: dict[str, Any]) -> None:
        own = self.native_id
        self.emit(
            "lifecycle",
            text_of(data.get("sourceFile")),
            "session.import_legacy",
            "taken over from an older version",
            "system",
        )
        for entry in pick(data, "legacySession", "timeline", of=list) or []:
            self.native_id, self.count = "", 0
            if not isinstance(entry, dict) or not self.entry(
                entry, pick(entry, "type", of=str) or ""
            ):
                self.native_id = own
                self.emit("lifecycle", text_of(entry), "timeline", "unknown entry")
        self.native_id = own

    def entry(self, value: dict[str, Any], word: str) -> bool:
        """One entry of a timeline; False when it is none."""
        native, text = pick(value, "id", of=str), pick(value, "text", of=str)
        self.ts = time_of(value.get("timestamp"))
        is_call = bool(value.keys() & {"callId", "arguments"})
        call_id = pick(value, "callId", of=str) or native
        if text is None and not is_call:
            return False
        if native is not None:
            self.identify(self.named(call_id if is_call and call_id else native))
        if is_call:
            self.legacy_call(value, call_id or "")
        elif text is not None:
            kind, role = ENTRIES.get(word, ("lifecycle", "system"))
            if text.strip():
                self.emit(kind, text, word[:200] or "entry", None, role, is_error=word == "error")
            else:
                self.merge("empty entry")
            if word == "user" and not self.state.is_titled:
                self.set_title(text, 1)
        return True

    def legacy_call(self, value: dict[str, Any], call_id: str) -> None:
        if (call_id not in self.state.calls) or "result" not in value:
            self.call(value, value.get("name"), call_id)
        result = value.get("result")
        if result is not None:
            word, text = pick(result, "type", of=str), pick(result, "log", of=str)
            text = text if text is not None else text_of(result)
            code = words.exit_of(text) if self.called(call_id).action == "shell" else None
            self.result(call_id, text, word == "failure", code, word in words.REFUSED, part=1)
