"""`events.jsonl` of a Grok Build session: its telemetry, of which only the decisions of a person
are in no other file.

No line names the call that it is about. A decision by a rule takes no time, and a person's answer
does: the wait shows which one it was.
"""

from __future__ import annotations

from typing import Any

from ..shared.pick import number, pick, time_of
from .fold import GrokFold

# Nobody answers sooner, and a rule does not need as long.
ANSWER_MS = 50
SILENT = (
    "turn_", "tool_", "phase_", "loop_", "permission_requested", "interjected", "mcp_", "goal_",
    "todo_gate_", "laziness_", "stream_",
    "session_", "model_", "api_", "inference_", "compaction_", "subagent_", "first_token", "hook_",
    "skill_", "plugin_",
)  # fmt: skip


class Events(GrokFold):
    is_second = True
    rank = None

    def line(self, value: dict[str, Any]) -> None:
        kind = pick(value, "type", of=str) or ""
        self.session(pick(value, "session_id", of=str))
        self.ts = time_of(pick(value, "ts", of=str))
        if kind == "permission_resolved":
            self.permission(value)
        elif kind == "yolo_toggled":
            state = next(
                (
                    text
                    for name in ("enabled", "yolo_mode", "value")
                    if (text := pick(value, name, of=bool)) is not None
                ),
                None,
            )
            word = {True: "on", False: "off", None: "toggled"}[state]
            self.emit("human_intervention", word, kind, f"approve everything: {word}", "user")
        elif kind.startswith(SILENT):
            self.merge(kind)
        else:
            self.emit("lifecycle", self.raw_text(), kind or "unknown", kind or "unknown record")

    def permission(self, value: dict[str, Any]) -> None:
        decision = pick(value, "decision", of=str) or "unknown"
        wait = number(value.get("wait_ms"))
        tool = pick(value, "tool_name", of=str)
        is_human = wait is None or wait >= ANSWER_MS
        if not is_human and decision == "allow":
            self.merge("permission_resolved/allow")
            return
        self.emit(
            "human_intervention" if is_human else "lifecycle", decision,
            f"permission_resolved/{decision}",
            f"permission for {tool or 'a call'}: {decision}", "user" if is_human else None,
            tool[:200] if tool else None,
            duration_ms=wait,
        )  # fmt: skip
