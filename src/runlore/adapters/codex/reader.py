"""The meaning of the records of a Codex rollout: origin of a thread, turns, compaction, rollback.

Calls are in `calls.py`, messages in `messages.py`, tokens in `usage.py`, and items of a page of
history in `items.py`; ids, parents and copies are those of `fold.py`; texts are read in `words.py`.
The traps of the format are in the package's docstring.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from typing import Any, ClassVar

from ...text.clean import own_tool
from ..shared.fold import MAX_EVENTS
from ..shared.pick import clean, pick
from ..shared.tools import key_values, one_line, text_of
from . import words
from .calls import Calls
from .fold import EVENT, ITEM, MAX_NAME, NEXT, RESPONSE, time_of
from .lines import Payload
from .messages import Messages
from .usage import Requests


class Reader(Requests):
    def guess(self, payload: Payload) -> Callable[[Any, Payload], None] | None:
        found = self.plain()
        return next(
            (handler for names, handler in self.shapes if all(name in found for name in names)),
            None,
        )

    # The thread.

    def meta(self, payload: Payload) -> None:
        state, named = self.state, clean(payload.id or "")
        was_head = state.is_head
        self.name(named)
        self.begin_line(self.current)
        if named and named != state.thread:
            self.ancestor(named, was_head)
        elif state.is_named:
            # It is written again when something has changed, by some programs in every turn.
            self.place(
                payload.cwd,
                payload.git.branch if payload.git else None,
                payload.git.repository_url if payload.git else None,
            )
            self.merge("session_meta")
        else:
            self.origin(payload)

    def ancestor(self, named: str, was_head: bool) -> None:
        """The first record of the thread that this one is a copy of."""
        if was_head or self.state.replay is not None:
            thread = self.start_replay(named)
            if thread.is_emitted:
                self.merge("session_meta")
                return
            thread.is_emitted = True
            self.emit(
                "lifecycle",
                self.about(),
                "session_meta",
                summary="session started",
                native_id=f"{named}:meta",
            )
        else:
            self.emit(
                "lifecycle", self.about(), "session_meta", summary="session of another thread"
            )

    def origin(self, payload: Payload) -> None:
        """This thread's own first record: where it comes from."""
        state, plain, git = self.state, self.plain(), payload.git
        state.is_named = True
        self.set_birth(payload)
        self.place(payload.cwd, git.branch if git else None, git.repository_url if git else None)
        source = payload.source if isinstance(payload.source, dict) else {}
        above = pick(source, "subagent", "thread_spawn", "parent_thread_id", of=str)
        fork = clean(payload.forked_from_id or "")
        parent = clean(payload.parent_thread_id or above or "") or fork
        is_started = source.get("subagent") is not None or "internal" in source
        state.is_side = is_started or plain.get("thread_source") == "subagent"
        state.path = payload.agent_path
        if parent and parent != state.thread:
            state.parent = self.uid(parent)
            state.relation = "subagent" if state.is_side else "fork"
        self.serve(plain.get("model_provider"))
        self.emit(
            "lifecycle",
            self.about(),
            "session_meta",
            summary="session started",
            native_id=f"{state.thread}:meta",
        )
        self.find_replay(parent, fork)

    def set_birth(self, payload: Payload) -> None:
        """Note when the thread began, in milliseconds."""
        thread = self.state.kin[0]
        if thread.born is None and (began := time_of(payload.timestamp) or self.ts) is not None:
            thread.born = int(began.timestamp() * 1000)

    def find_replay(self, parent: str, fork: str) -> None:
        """Note whether the history of another thread follows."""
        plain = self.plain()
        first = plain.get("subagent_history_start_ordinal")
        if type(first) is int and parent:
            self.start_replay(fork or parent, first)
        elif fork and fork != self.state.thread and plain.get("history_base") is None:
            self.start_replay(fork)

    def about(self) -> str:
        plain = self.plain()
        shown = (
            "originator",
            "cli_version",
            "source",
            "model_provider",
            "cwd",
            "agent_nickname",
            "agent_role",
            "agent_path",
        )
        return key_values({name: plain[name] for name in shown if plain.get(name) is not None})

    def silent(self, payload: Payload) -> None:
        self.merge(payload.type or self.current.type or "unknown")

    # Turns.

    def turn_started(self, payload: Payload) -> None:
        self.enter(payload.turn_id)
        self.emit(
            "lifecycle", "", "task_started", "turn started", identity=f"started\0{payload.turn_id}"
        )

    def turn_complete(self, payload: Payload) -> None:
        plain = self.plain()
        ms = words.milliseconds(plain.get("duration_ms"))
        identity = f"complete\0{payload.turn_id}"
        if plain.get("error"):
            text = words.error_text(plain["error"])
            # The error itself may have been told before: then this is only the end of the turn.
            kind = (
                "completion" if self.is_repeated(ITEM, b"error" + words.key_of(text)) else "error"
            )
            self.emit(
                kind,
                text,
                "task_complete",
                identity=identity,
                duration_ms=ms,
                is_error=kind == "error",
            )
        else:
            summary = "turn finished" if ms is None else f"turn finished after {ms / 1000:.1f} s"
            self.emit("completion", "", "task_complete", summary, identity=identity, duration_ms=ms)

    def turn_aborted(self, payload: Payload) -> None:
        plain = self.plain()
        reason = text_of(plain.get("reason")) or "interrupted"
        kind = "human_intervention" if reason in ("interrupted", "replaced") else "lifecycle"
        ms = words.milliseconds(plain.get("duration_ms"))
        self.emit(
            kind,
            reason,
            "turn_aborted",
            one_line(f"turn {reason}"),
            "user",
            identity=f"aborted\0{payload.turn_id}",
            duration_ms=ms,
        )

    def turn_context(self, payload: Payload) -> None:
        self.enter(payload.turn_id)
        self.change(payload.cwd, payload.model, payload.approval_policy, "turn_context")

    def settings(self, payload: Payload) -> None:
        found = self.plain().get("thread_settings")
        now = found if isinstance(found, dict) else {}
        self.serve(now.get("model_provider_id"))
        self.state.tier = words.tier_of(now.get("service_tier"))
        model, cwd = now.get("model"), now.get("cwd")
        self.change(
            cwd if isinstance(cwd, str) else None,
            model if isinstance(model, str) else None,
            now.get("approval_policy"),
            "settings",
        )

    def serve(self, provider: Any) -> None:
        """Note the provider of the requests that follow."""
        if isinstance(provider, str) and provider:
            self.state.provider = provider[:MAX_NAME]

    def change(self, cwd: str | None, model: str | None, policy: Any, native: str) -> None:
        """Note the settings that hold from here on. The first time the thread begins with them;
        later a person changed them."""
        state = self.state
        was_model, was_policy = state.model, state.policy
        now = text_of(policy)[:MAX_NAME] or None
        state.cwd, state.here = state.cwd or cwd, cwd or state.here
        state.model, state.policy = model or was_model, now or was_policy
        changes = []
        if model and was_model and model != was_model:
            changes.append(f"model {was_model} → {model}")
        if now and was_policy and now != was_policy:
            changes.append(f"approvals {was_policy} → {now}")
        if not changes:
            self.merge(native)
            return
        # The text is what is set now: it does not depend on what was before.
        is_steering = changes[-1].startswith("approvals")
        kind = "human_intervention" if is_steering else "decision"
        settings = {"model": model, "approval_policy": now}
        body = key_values({name: value for name, value in settings.items() if value})
        self.emit(kind, body, native, one_line(", ".join(changes)), "user")

    def compacted(self, payload: Payload) -> None:
        """Add a compaction: another history takes the place of what the model had."""
        history, message = self.plain().get("replacement_history"), payload.message
        if isinstance(history, list):
            self.state.twins.pop(b"compact", None)  # It tells more than any record before it.
        if self.is_repeated(RESPONSE, b"compact", NEXT):
            self.merge("twin")
        elif isinstance(history, list):
            self.replace_history(history, message)
            return
        else:
            self.emit("lifecycle", "", "compacted", "context compacted", view="compact")
        if message:
            self.emit("lifecycle", message, "compact_summary", None, "user", view="summary")

    def replace_history(self, history: list[Any], message: str | None) -> None:
        """Add the history that the model has from here on: references to what was said before, and
        events for all else."""
        items = (item for item in history if isinstance(item, dict))
        parts = list(
            islice((part for item in items for part in words.history_parts(item)), MAX_EVENTS)
        )
        summary = words.role_key("user", message) if message else None
        known = self.find_repeated(parts, summary)
        names = [
            known.get(n) or self.identify(f"replacement\0{part.role}\0{part.text}")
            for n, part in enumerate(parts)
        ]
        refs = tuple(names)
        self.emit("lifecycle", "", "compacted", "context compacted", view="compact", refs=refs)
        for n, part in enumerate(parts):
            if n not in known:
                self.add_part(part, names[n], part.is_summary or part.key == summary)
        if message and summary not in [part.key for part in parts]:
            self.emit("lifecycle", message, "compact_summary", None, "user")  # Not for the model.

    def find_repeated(self, parts: list[words.Part], summary: bytes | None) -> dict[int, str]:
        """Return the events that parts of a history repeat, by the number of the part. Of equal
        texts the latest ones stay."""
        state = self.state
        said = {key: [name] for key, name in (*state.contexts.items(), *state.replies.items())}
        for name, _, key in state.prompts:
            said.setdefault(b"user" + key, []).append(name)
        found: dict[int, str] = {}
        for n, part in reversed(list(enumerate(parts))):
            if part.key != summary and (names := said.get(part.key)):
                found[n] = names.pop()
        return found

    def add_part(self, part: words.Part, name: str, is_summary: bool) -> None:
        self.emit(
            "lifecycle",
            part.text,
            "compact_summary" if is_summary else "replacement",
            None,
            part.role,
            own_tool(part.text),
            native_id=name,
            view="summary" if is_summary else "context",
        )
        if part.key and not is_summary:
            self.remember(part.role, part.key, name)

    def context_compacted(self, payload: Payload) -> None:
        self.add_compaction(EVENT)

    def add_compaction(self, side: int) -> None:
        if self.is_repeated(side, b"compact", NEXT):
            self.merge("twin")
        else:
            self.emit("lifecycle", "", "context_compacted", "context compacted", view="compact")

    def rolled_back(self, payload: Payload) -> None:
        """Takes the last prompts back, with all that followed them: what comes next follows what
        the first of these followed."""
        state, count = self.state, self.plain().get("num_turns")
        count = min(count, len(state.prompts)) if type(count) is int and count > 0 else 0
        refs: tuple[str, ...] = ()
        if count:
            prompt, before, _ = state.prompts[-count]
            refs = (prompt, "..", state.anchor or prompt)
            del state.prompts[-count:]
            state.contexts, state.replies = {}, {}  # Some of them are taken back as well.
            state.last = state.anchor = before
        self.emit(
            "lifecycle",
            "",
            "thread_rolled_back",
            f"{count} turns rolled back",
            "user",
            view="retract",
            refs=refs,
        )

    def thread_name(self, payload: Payload) -> None:
        self.merge("thread_name_updated")
        if self.state.replay is None:
            self.set_title(text_of(self.plain().get("thread_name")), 2)

    def goal(self, payload: Payload) -> None:
        found = self.plain().get("goal")
        self.emit(
            "lifecycle",
            text_of(found.get("objective") if isinstance(found, dict) else found),
            "thread_goal_updated",
        )

    def review(self, payload: Payload) -> None:
        plain, word = self.plain(), payload.type or "review"
        text = (
            words.review_text(plain["review_output"])
            if "review_output" in plain
            else text_of(plain.get("user_facing_hint"))
        )
        self.emit("lifecycle", text, word, summary=one_line(f"review: {one_line(text)}"))

    def assessment(self, payload: Payload) -> None:
        """Add the decision of the program's own reviewer about a command."""
        plain = self.plain()
        action = plain.get("action")
        what = action.get("command") or action.get("type") if isinstance(action, dict) else action
        status, why = text_of(plain.get("status")), text_of(plain.get("rationale"))
        text = "\n".join(filter(None, [status, text_of(what), why]))
        self.emit(
            "lifecycle",
            text,
            "guardian_assessment",
            one_line(f"{status}: {text_of(what)}"),
            identity=f"guardian\0{payload.id}\0{status}",
        )

    def error(self, payload: Payload) -> None:
        text = words.error_text(self.plain())
        self.is_repeated(EVENT, b"error" + words.key_of(text))
        self.emit("error", text, "error", is_error=True)

    def stream_error(self, payload: Payload) -> None:
        self.emit("retry", words.error_text(self.plain()), "stream_error", is_error=True)

    def notice(self, payload: Payload) -> None:
        self.emit("lifecycle", text_of(self.plain().get("message")), payload.type or "warning")

    handlers: ClassVar[dict[str | None, Callable[[Any, Payload], None]]] = {
        "session_meta": meta, "turn_context": turn_context, "compacted": compacted,
        "world_state": silent,
        "inter_agent_communication_metadata": silent, "security_risk_score": silent,
        "additional_tools": silent,
        "inter_agent_communication": Messages.agents_event,
        "message": Messages.message, "reasoning": Messages.reasoning,
        "function_call": Calls.call, "custom_tool_call": Calls.call,
        "local_shell_call": Calls.shell_call,
        "function_call_output": Calls.result, "custom_tool_call_output": Calls.result,
        "local_shell_call_output": Calls.result,
        "web_search_call": Calls.web_search, "web_search_end": Calls.web_search,
        "web_search_begin": silent,
        "tool_search_call": Calls.tool_search, "tool_search_output": Calls.tool_search_output,
        "image_generation_call": Calls.picture, "image_generation_end": Calls.picture,
        "agent_message": Messages.agent_message, "user_message": Messages.user_message,
        "agent_reasoning": Messages.reasoning_event,
        "agent_reasoning_raw_content": Messages.reasoning_event,
        "token_count": Requests.token_count,
        "turn.completed": Requests.headless_turn,
        "task_started": turn_started, "turn_started": turn_started,
        "task_complete": turn_complete, "turn_complete": turn_complete,
        "turn_aborted": turn_aborted,
        "context_compacted": context_compacted, "thread_rolled_back": rolled_back,
        "thread_name_updated": thread_name, "thread_goal_updated": goal,
        "thread_settings_applied": settings,
        "exec_command_end": Calls.exec_end, "patch_apply_end": Calls.patch_end,
        "mcp_tool_call_end": Calls.mcp_end,
        "view_image_tool_call": Calls.call_event, "dynamic_tool_call_request": Calls.call_event,
        "dynamic_tool_call_response": Calls.dynamic_end,
        "collab_agent_spawn_end": Calls.collab_end,
        "collab_agent_interaction_end": Calls.collab_end,
        "collab_waiting_end": Calls.collab_end, "collab_close_end": Calls.collab_end,
        "collab_resume_end": Calls.collab_end,
        "sub_agent_activity": Calls.agent_activity,
        "entered_review_mode": review, "exited_review_mode": review,
        "guardian_assessment": assessment,
        "error": error, "stream_error": stream_error, "warning": notice,
    }  # fmt: skip

    # What only one type of record has, for those whose type is damaged or new.
    shapes: ClassVar[tuple[tuple[tuple[str, ...], Callable[[Any, Payload], None]], ...]] = (
        (("model_context_window", "turn_id"), turn_started), (("thread_settings",), settings),
        (("replacement_history",), compacted), (("invocation", "result"), Calls.mcp_end),
        (("summary", "id"), Messages.reasoning),
        (("command", "aggregated_output"), Calls.exec_end),
        (("changes", "success"), Calls.patch_end),
        (("approval_policy", "model"), turn_context), (("action", "query"), Calls.web_search),
        (("role", "content"), Messages.message),
        (("action", "status"), Calls.web_search),
        (("summary", "encrypted_content"), Messages.reasoning),
    )  # fmt: skip
