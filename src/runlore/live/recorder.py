"""The records of a session beside its messages: its title and metadata, tools, requests to models.

Each method appends one record. `session.py` has the conversation and the views.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Literal

import msgspec

from ..errors import LogError
from ..model import LogRecord
from .backend import Durability, LogBackend
from .handle import Handle
from .liveness import here
from .outputs import Outputs

FIXED = frozenset({"version", "title", "origin"})
"""Names in the first record that `update_meta` does not change."""

RecordRef = LogRecord | int | str
"""A record, its seq or its id."""


class Recorder(Handle):
    """A log with methods for what happens around the messages."""

    def __init__(
        self,
        backend: LogBackend,
        id: str,
        *,
        durability: Durability,
        readonly: bool,
        first: dict[str, Any] | None,
        joins: bool,
    ) -> None:
        super().__init__(
            backend, id, durability=durability, readonly=readonly, first=first, joins=joins
        )
        self._outputs = Outputs(self.backend_log.blobs)

    def set_title(self, title: str) -> LogRecord:
        return self.record("title", {"title": title})

    def update_meta(self, changes: Mapping[str, Any] | None = None, /, **more: Any) -> LogRecord:
        """Change what `create` was given about the session, such as its model; None removes a name.

        `meta` and `list(where=…)` have the new values at once.
        """
        changed = {**(changes or {}), **more}
        if fixed := FIXED.intersection(changed):
            raise LogError(f"{self.id}: {', '.join(sorted(fixed))} cannot be changed so")
        return self.record("meta", changed)

    def tool_started(
        self,
        call_id: str,
        name: str = "",
        input: Any = None,
        *,
        replay: Literal["never", "safe"] = "never",
    ) -> LogRecord:
        """Record that a tool is about to run. Call it first, so that a crash leaves no doubt.

        `replay` says whether the call may be run twice.
        """
        owner = msgspec.to_builtins(here())
        return self.record(
            "tool_started",
            {"call_id": call_id, "name": name, "input": input, "replay": replay, "owner": owner},
        )

    def tool_waiting(self, call_id: str, reason: str = "approval") -> LogRecord:
        """Record that the call waits for someone. It does not count as interrupted."""
        return self.record("tool_waiting", {"call_id": call_id, "reason": reason})

    def tool_decided(
        self, call_id: str, approved: bool, *, by: str = "", payload: Any = None
    ) -> LogRecord:
        """Record that someone approved or refused a call.

        `payload` is what they said, such as a reason or a changed input: `recover()` returns it as
        the `decision` of the call. The view shows a refusal to the model as the call's result.
        """
        decision = {"call_id": call_id, "approved": bool(approved), "by": by}
        return self.record(
            "tool_decided", decision if payload is None else {**decision, "payload": payload}
        )

    def model_started(self, model: str = "", *, request: Any = None) -> LogRecord:
        """Record that a request to a model begins; `model_finished` records its end."""
        about = {"model": model, "request": request}
        return self.record("model_started", {name: value for name, value in about.items() if value})

    def model_finished(
        self,
        usage: Mapping[str, Any],
        *,
        started: RecordRef | None = None,
        model: str = "",
        duration_ms: int | None = None,
    ) -> LogRecord:
        """Record the usage of one request to a model, in the words of its provider.

        Do so for requests whose usage is in no message. From the record of `model_started` follow
        the model and the duration.
        """
        begun = self.find(started) if started is not None else None
        if begun is not None:
            model = model or str(begun.payload.get("model") or "")
            if duration_ms is None:
                duration_ms = max(
                    0, round((datetime.now(UTC) - begun.ts) / timedelta(milliseconds=1))
                )
        about = {
            "model": model or None,
            "started": begun.id if begun else None,
            "duration_ms": duration_ms,
        }
        given = {name: value for name, value in about.items() if value is not None}
        return self.record("model_finished", {"usage": dict(usage), **given})

    def tool_finished(
        self, call_id: str, output: Any = None, *, is_error: bool = False
    ) -> LogRecord:
        """Record the output of a tool.

        The view shows this output until the result is appended as a message.
        """
        shown, ref = self._outputs.shorten_output(output)
        payload = {"call_id": call_id, "output": shown, "is_error": is_error}
        return self.record("tool_finished", {**payload, "whole": ref} if ref else payload)

    def put_output(self, data: bytes | str) -> dict[str, Any]:
        """Store something large beside the log and return a reference to it."""
        return self._outputs.put(data)

    def output(self, ref: dict[str, Any] | str) -> bytes:
        return self._outputs.get(ref)
