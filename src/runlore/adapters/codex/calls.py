"""Calls and results of a Codex rollout: commands, patches, MCP, agents, searches, and the records
between that say how they ended.

Ids, parents and copies are `fold`'s; what a call does and how it ended is read in `tools`.
"""

from __future__ import annotations

from typing import Any

from ..shared.fold import AllFields, keep
from ..shared.pick import clean
from ..shared.tools import one_line, test_counts, text_of
from . import tools, words
from .fold import CALLS, DONE, EVENT, MAX_NAME, RESPONSE, SHELLS, CodexFold
from .lines import Call, Payload

_SPAWNED = "You are the newly spawned agent"
_NO_CALL = Call("", "other")


class Calls(CodexFold):
    def call(self, payload: Payload) -> None:
        args = payload.arguments if payload.arguments is not None else payload.input
        if args is None:
            plain = self.plain()
            args = {
                name: plain[name]
                for name in ("arguments", "input", "parameters")
                if plain.get(name) is not None
            }
        self.tell_call(
            tools.describe_call(payload.name, payload.namespace, args),
            payload.call_id,
            payload.type or "function_call",
            args,
        )

    def shell_call(self, payload: Payload) -> None:
        action = self.plain().get("action")
        call_id = payload.call_id or payload.id
        self.tell_call(
            tools.describe_call("local_shell", None, action if isinstance(action, dict) else {}),
            call_id,
            "local_shell_call",
            action,
        )

    def tell_call(
        self, found: tools.Described, call_id: str | None, native: str, args: Any = None
    ) -> None:
        state = self.state
        state.has_spoken = state.has_spoken or state.replay is None
        more: AllFields = {}
        if found.files:
            more["files"] = found.files
        if found.cwd is not None and (found.cwd != state.cwd or state.here != state.cwd):
            more["cwd"] = found.cwd if found.cwd != state.cwd else None
        # What is named is told apart by its name; equal beginnings are counted like equal texts.
        identity = f"call\0{call_id}\0{found.tool}\0{found.body[:200]}"
        self.emit(
            found.kind,
            found.body,
            native,
            found.summary,
            "assistant",
            found.tool,
            call_id,
            found.action,
            identity=identity,
            **more,
        )
        if call_id and len(call_id) <= MAX_NAME:
            is_test = found.kind == "test_run" or (
                found.tool == "write_stdin" and self.goes_on(args)
            )
            is_silent, is_pull = found.tool in tools.PLANS, tools.opens_pull(found)
            keep(
                state.calls,
                call_id,
                Call(found.tool[:MAX_NAME], found.action, is_test, is_silent, is_pull),
                CALLS,
            )
            state.done.pop(call_id, None)

    def goes_on(self, args: Any) -> bool:
        """Return True if the keys go to a command that runs tests."""
        values = tools.arguments(args)
        return bool(values) and self.state.shells.get(
            text_of((values or {}).get("session_id")), False
        )

    def result(self, payload: Payload) -> None:
        text = (
            words.joined(payload.output)
            if payload.output is not None
            else text_of(self.plain().get("output"))
        )
        if self.state.replay is not None and text.startswith(_SPAWNED):
            self.pass_on(0)
        self.tell_result(payload.call_id, text, payload.type or "function_call_output")

    def tell_result(self, call_id: str | None, text: str, native: str) -> None:
        call = self.end_call(call_id)
        if call.is_silent and text == "Plan updated":
            self.merge("plan updated")
            return
        out = tools.output_of(text)
        is_error = out.is_error if call.failed is None else call.failed
        kind = "tool_result"
        if tools.is_rejection(text, out):
            kind, native, is_error = "human_intervention", "rejected", False
        elif tools.is_abort(text, out):
            native, is_error = tools.CANCELLED, False
        elif call.tool in tools.ASKS and not is_error:
            kind = "decision"
        self.note_output(call, out, is_error)
        fields = self.ending(call, out, text, is_error)
        if call.is_test and kind == "tool_result" and native != tools.CANCELLED:
            fields["tests"] = test_counts(out.text)
        self.emit(
            kind, out.text, native,
            tools.result_summary(out, fields.get("exit_code"), fields.get("tests")),
            "user", call.tool or None, call_id, call.action if call.tool else None,
            identity=f"result\0{call_id}\0{len(text)}\0{text[:200]}", **fields,
        )  # fmt: skip

    def end_call(self, call_id: str | None) -> Call:
        """Return the call that a result is of, which is then no longer open."""
        if not call_id:
            return _NO_CALL
        if len(call_id) <= MAX_NAME:
            keep(self.state.done, call_id, True, DONE)
        return self.state.calls.pop(call_id, _NO_CALL)

    def note_output(self, call: Call, out: tools.Output, is_error: bool) -> None:
        """Note the pull request that a call opened, and the command that it left running."""
        state = self.state
        if call.is_pull and state.replay is None and not is_error:
            state.task = tools.pull_in(out.text) or state.task
        if out.shell is not None:
            keep(state.shells, out.shell, call.is_test, SHELLS)

    def ending(self, call: Call, out: tools.Output, text: str, is_error: bool) -> AllFields:
        """Return the fields of a result that tell how its call ended."""
        fields: AllFields = {"is_error": True} if is_error else {}
        exit_code = out.exit_code if call.exit_code is None else call.exit_code
        if exit_code is not None:
            fields["exit_code"] = exit_code
        if (ms := out.duration_ms if call.duration_ms is None else call.duration_ms) is not None:
            fields["duration_ms"] = ms
        if refs := call.refs or self.started(call.tool, text):
            fields["refs"] = refs
        return fields

    def started(self, tool: str, text: str) -> tuple[str, ...]:
        """Return the sessions of the subagents that a call started, by its output."""
        if tool not in tools.STARTS_AGENT:
            return ()
        return tuple([self.uid(thread) for thread in tools.agents_in(text)])

    def is_known(self, call_id: str | None, word: str, **outcome: Any) -> bool:
        """Return True if a record is about a call that was read before: it tells how the call
        ended, and is no event."""
        state = self.state
        if not call_id or (call_id not in state.calls and call_id not in state.done):
            return False
        call = state.calls.get(call_id)
        if call is not None:
            for name, value in outcome.items():
                if value is not None:
                    setattr(call, name, value)
        self.merge(word)
        return True

    def exec_end(self, payload: Payload) -> None:
        self.command_ended(payload.call_id, self.plain(), "exec_command_end")

    def command_ended(self, call_id: str | None, plain: dict[str, Any], word: str) -> None:
        code, ms = (
            words.exit_number(plain.get("exit_code")),
            words.milliseconds(plain.get("duration")),
        )
        failed = code != 0 if code is not None else plain.get("status") == "failed" or None
        if self.is_known(call_id, word, exit_code=code, duration_ms=ms, failed=failed):
            return
        command = plain.get("command")
        values = {
            "cmd": tools.command_line(command) if isinstance(command, list) else text_of(command)
        }
        if isinstance(cwd := plain.get("cwd"), str):
            values["workdir"] = words.place(cwd)
        self.tell_call(tools.describe_call("exec_command", None, values), call_id, word)
        self.answer(
            call_id,
            text_of(plain.get("aggregated_output")),
            word,
            exit_code=code,
            duration_ms=ms,
            failed=bool(failed),
        )

    def answer(self, call_id: str | None, text: str, word: str, **outcome: Any) -> None:
        """The result of a call that the same record told."""
        call = self.state.calls.get(call_id or "")
        for name, value in outcome.items():
            if call is not None and value is not None:
                setattr(call, name, value)
        self.tell_result(call_id, text, word)

    def patch_end(self, payload: Payload) -> None:
        plain = self.plain()
        self.change_ended(payload.call_id, plain, "patch_apply_end", plain.get("success") is False)

    def change_ended(
        self, call_id: str | None, plain: dict[str, Any], word: str, failed: bool
    ) -> None:
        if self.is_known(call_id, word, failed=failed or None):
            return
        body, files = tools.changes_body(plain.get("changes"))
        self.tell_call(
            tools.Described(
                "edit",
                "apply_patch",
                "edit",
                body,
                one_line(", ".join(files) or "apply_patch"),
                files,
            ),
            call_id,
            word,
        )
        said = [text_of(plain.get(name)) for name in ("stdout", "stderr")]
        self.answer(call_id, "\n".join(filter(None, said)), word, failed=failed)

    def mcp_end(self, payload: Payload) -> None:
        plain = self.plain()
        about = plain.get("invocation")
        self.mcp_ended(
            payload.call_id, about if isinstance(about, dict) else {}, plain, "mcp_tool_call_end"
        )

    def mcp_ended(
        self, call_id: str | None, about: dict[str, Any], plain: dict[str, Any], word: str
    ) -> None:
        text, failed = words.mcp_result(plain.get("result"))
        ms = words.milliseconds(plain.get("duration"))
        if self.is_known(call_id, word, duration_ms=ms, failed=failed or None):
            return
        args = about.get("arguments")
        server, tool = text_of(about.get("server")), text_of(about.get("tool"))
        found = tools.describe_call(tool, f"mcp__{server}", args if isinstance(args, dict) else {})
        self.tell_call(found, call_id, word)
        self.answer(call_id, text, word, duration_ms=ms, failed=failed)

    def call_event(self, payload: Payload) -> None:
        plain = self.plain()
        call_id = payload.call_id or plain.get("callId")
        call_id = call_id if isinstance(call_id, str) else None
        word = payload.type or "call"
        if not self.is_known(call_id, word):
            tool, args = plain.get("tool"), plain.get("arguments")
            name = (
                tool
                if isinstance(tool, str)
                else "view_image"
                if word == "view_image_tool_call"
                else word
            )
            values = (
                args
                if isinstance(args, dict)
                else {"path": plain["path"]}
                if "path" in plain
                else {}
            )
            self.tell_call(tools.describe_call(name, payload.namespace, values), call_id, word)

    def dynamic_end(self, payload: Payload) -> None:
        plain, call_id = self.plain(), payload.call_id
        failed = plain.get("success") is False
        if call_id and call_id in self.state.done:
            self.merge("dynamic_tool_call_response")
        else:
            self.answer(
                call_id,
                words.items_text(plain.get("content_items")),
                "dynamic_tool_call_response",
                failed=failed,
            )

    def collab_end(self, payload: Payload) -> None:
        plain, word = self.plain(), payload.type or "collab"
        thread = plain.get("new_thread_id") or plain.get("receiver_thread_id")
        refs = (
            (f"{self.agent_name}:{clean(thread)}",)
            if isinstance(thread, str) and clean(thread)
            else ()
        )
        if not self.is_known(payload.call_id, word, refs=refs or None):
            self.emit(
                "lifecycle", text_of(plain.get("prompt")), word, call_id=payload.call_id, refs=refs
            )

    def agent_activity(self, payload: Payload) -> None:
        self.activity(EVENT, self.plain())

    def activity(self, side: int, plain: dict[str, Any]) -> None:
        thread, word = plain.get("agent_thread_id"), text_of(plain.get("kind"))
        if self.is_repeated(side, b"agent" + words.key_of(f"{thread} {word}")):
            self.merge("twin")
            return
        refs = (
            (f"{self.agent_name}:{clean(thread)}",)
            if isinstance(thread, str) and clean(thread)
            else ()
        )
        call = plain.get("event_id")
        self.emit(
            "lifecycle",
            text_of(plain.get("agent_path")),
            "sub_agent_activity",
            one_line(f"agent {text_of(plain.get('agent_path'))} {word}"),
            identity=f"activity\0{thread}\0{word}\0{call}",
            call_id=call if isinstance(call, str) else None,
            refs=refs,
        )

    def web_search(self, payload: Payload) -> None:
        """Told twice, and without what was found."""
        plain = self.plain()
        text = words.search_text(plain.get("action"), plain.get("query"))
        side = EVENT if payload.type == "web_search_end" else RESPONSE
        self.searched(
            side, text, payload.call_id or payload.id, words.items_text(plain.get("results"))
        )

    def searched(self, side: int, text: str, call_id: str | None, results: str) -> None:
        key = words.key_of(text)
        if self.is_repeated(side, b"web" + key):
            self.merge("twin")
            return
        call_id = call_id or f"web_{key.hex()}"
        self.state.has_spoken = self.state.has_spoken or self.state.replay is None
        self.emit(
            "tool_call",
            text,
            "web_search",
            identity=f"web\0{text}",
            role="assistant",
            tool="web_search",
            call_id=call_id,
            action="web",
        )
        self.emit(
            "tool_result",
            results,
            "web_search",
            identity=f"found\0{text}",
            role="user",
            tool="web_search",
            call_id=call_id,
            action="web",
        )

    def tool_search(self, payload: Payload) -> None:
        args = payload.arguments if isinstance(payload.arguments, dict) else {}
        self.tell_call(
            tools.describe_call("tool_search", None, args), payload.call_id, "tool_search_call"
        )

    def tool_search_output(self, payload: Payload) -> None:
        offered = self.plain().get("tools")
        named = (
            [text_of(tool.get("name")) for tool in offered if isinstance(tool, dict)]
            if isinstance(offered, list)
            else []
        )
        self.tell_result(payload.call_id, "\n".join(named), "tool_search_output")

    def picture(self, payload: Payload) -> None:
        side = EVENT if payload.type == "image_generation_end" else RESPONSE
        self.drawn(side, payload.call_id or payload.id, self.plain())

    def drawn(self, side: int, call_id: str | None, plain: dict[str, Any]) -> None:
        asked = text_of(plain.get("revised_prompt"))
        if self.is_repeated(side, b"picture" + words.key_of(call_id or asked)):
            self.merge("twin")
            return
        made = plain.get("saved_path") or (
            words.image(f"data:,{plain['result']}") if plain.get("result") else ""
        )
        self.emit(
            "tool_call",
            asked,
            "image_generation",
            None,
            "assistant",
            "image_generation",
            call_id,
            "other",
            identity=f"picture\0{call_id}\0{asked}",
        )
        self.emit(
            "tool_result",
            text_of(made),
            "image_generation",
            None,
            "user",
            "image_generation",
            call_id,
            "other",
            identity=f"made\0{call_id}",
        )
