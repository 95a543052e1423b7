"""The meaning of a trajectory of mini-SWE-agent: its records, and the fold over them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from hashlib import blake2b
from pathlib import PurePath
from typing import Any

import msgspec

from ... import model as api
from ...errors import ReadError
from .. import Normalized, Record, Source
from ..shared.calls import build_result, describe
from ..shared.fold import load, with_file_time
from ..shared.pick import clean, identifier, moment, number, pick
from ..shared.stream import SessionFold, State
from ..shared.tools import text_of
from ..swe_agent.reader import with_task

CARRY = 1
"""The layout of `Memory`; changed only together with the adapter's `version`."""
LAST_RUN = "last_mini_run"
FINAL = ("COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT", "MINI_SWE_AGENT_FINAL_OUTPUT")
KILLED = "The last command <command>"  # The beginning of a timeout in versions before 2.0.
ROLES = frozenset({"system", "user", "assistant", "tool", "exit"})
PERSONS = frozenset({"UserInterruption", "UserRejection", "UserNewTask"})
"""Interruptions by a person. All others are by the program: a refused answer, or a limit."""
OPEN = 32  # Calls of one answer whose results have not come.


# The records of a document.


def parts(source: Source, document: Any) -> list[Any]:
    """Return a head, the messages, and the end of the run. All but the end stay the same while the
    document grows. Raises ReadError when the document is no trajectory."""
    messages = document if isinstance(document, list) else pick(document, "messages", of=list)
    if messages is None or not all(
        isinstance(message, dict) and message.keys() & {"role", "type"} for message in messages
    ):
        raise ReadError(source.path, "not a trajectory: it has no list of messages")
    info = document.get("info") if isinstance(document, dict) else None
    config = pick(info, "config", of=dict) or {}
    head = {
        "session": _name_of(source.path, messages),
        "format": pick(document, "trajectory_format", of=str),
        "model": pick(config, "model", "model_name", of=str),
        "cwd": pick(config, "environment", "cwd", of=str),
        "version": pick(info, "mini_version", of=str),
    }
    items: list[Any] = [{"head": head}, *map(_slim, map(_Layout1().rewrite, messages))]
    if isinstance(info, dict) and info.get("exit_status") is not None:
        items.append({"end": {word: item for word, item in info.items() if word != "config"}})
    return items


class _Layout1:
    """The messages of layouts before 1.1, rewritten to those of 1.1.

    A block of an answer becomes a call. The next message of the user becomes its result, the end of
    the run, or the refusal of the answer.
    """

    def __init__(self) -> None:
        self.has_answered = False
        self.is_open = False
        """True while the last answer has a call without a result."""
        self.is_final = False
        """True if that call submits the result."""

    def rewrite(self, message: dict[str, Any]) -> dict[str, Any]:
        role, text = message.get("role"), message.get("content")
        extra = pick(message, "extra", of=dict) or {}
        if not isinstance(text, str):
            return message
        if role == "assistant" and not message.get("tool_calls"):
            return self.answer(message, text, extra)
        if role == "user" and self.has_answered and not extra:
            return self.reply(message, text)
        return message

    def answer(self, message: dict[str, Any], text: str, extra: dict[str, Any]) -> dict[str, Any]:
        """Return an answer whose block is a call."""
        actions, blocks = extra.get("actions"), _BLOCK.findall(text)
        if actions is None and len(blocks) == 1:  # Of several none was run.
            actions = [{"command": blocks[0]}]
        self.has_answered = True
        self.is_open = bool(actions)
        self.is_final = any(word in block for word in FINAL for block in blocks)
        content = _BLOCK.sub("", text).strip() if self.is_open else text
        return {**message, "content": content, "extra": {**extra, "actions": actions or []}}

    def reply(self, message: dict[str, Any], text: str) -> dict[str, Any]:
        """Return the message after an answer as what it is."""
        if _is_by_person(text):
            return {**message, "extra": {"interrupt_type": "UserInterruption"}}
        was_open, self.is_open = self.is_open, False
        if not was_open:
            return {**message, "extra": {"interrupt_type": "FormatError"}}
        code, output = output_in(text)
        if self.is_final and code is None:
            return {"role": "exit", "content": text, "extra": {"exit_status": "Submitted"}}
        extra = {} if code is None else {"returncode": code}
        return {"role": "tool", "content": output, "extra": extra}


_BLOCK = re.compile(r"```(?:mswea_bash_command|bash|sh)[ \t]*\n(.*?)\n?```", re.DOTALL)


def _is_by_person(text: str) -> bool:
    return text.startswith(
        ("Interrupted by user", "Command not executed. The user", "Commands not executed. The user")
    )


def _slim(message: dict[str, Any]) -> dict[str, Any]:
    """Return a message without the parts of the service's answer that it repeats."""
    response = pick(message, "extra", "response", of=dict)
    if response is None:
        return message
    fields = {word: response[word] for word in ("id", "model", "usage") if word in response}
    choices = pick(response, "choices", of=list)
    if choices and (thought := pick(choices[0], "message", "reasoning_content", of=str)):
        fields["reasoning_content"] = thought
    return {**message, "extra": {**message["extra"], "response": fields}}


def _name_of(path: str, messages: list[dict[str, Any]]) -> str:
    """Return the name of a run and its instance. The file that each interactive run overwrites is
    named by a hash of the run's first time and task."""
    *folders, file = PurePath(path).parts
    stem = file.removesuffix(".traj.json")
    if stem == LAST_RUN:
        times = (stamp for message in messages if (stamp := _stamp(message)) is not None)
        tasks = (
            text_of(message.get("content")) for message in messages if message.get("role") == "user"
        )
        name = f"{next(times, '')}\n{next(tasks, '')}".encode("utf-8", "replace")
        return f"{LAST_RUN}/{blake2b(name, digest_size=6).hexdigest()}"
    if folders and folders[-1] == stem:
        folders.pop()
    return clean("/".join([*folders[-1:], stem])[-200:])


def _stamp(message: Any) -> float | None:
    stamp = (pick(message, "extra", of=dict) or {}).get("timestamp")
    return stamp if isinstance(stamp, int | float) and not isinstance(stamp, bool) else None


# The fold.


def normalize(source: Source, records: Iterable[Record], carry: bytes | None) -> Normalized:
    """Return what the records of a source mean."""
    return with_file_time(Reader(source, carry).run(records), source)


class Open(msgspec.Struct, array_like=True, gc=False):
    """A call whose result has not come."""

    id: str
    is_test: bool = False


class Memory(State):
    version: int = CARRY
    messages: int = 0
    has_ended: bool = False
    open: list[Open] = msgspec.field(default_factory=list)


class Reader(SessionFold[Memory]):
    def __init__(self, source: Source, carry: bytes | None) -> None:
        super().__init__(source, load(carry, Memory, CARRY))
        self.path = source.path

    def session(self, named: str | None = None) -> str:
        return self.state.session or super().session(named or _name_of(self.path, []))

    def line(self, value: dict[str, Any]) -> None:
        if "head" in value:
            self.head(value["head"])
        elif "end" in value:
            self.end_of_run(value["end"])
        elif value.keys() & {"role", "content", "extra", "tool_calls", "output"}:
            self.message(value)
        else:
            self.unknown(None)

    def head(self, value: Any) -> None:
        state = self.state
        name, cwd = pick(value, "model", of=str), pick(value, "cwd", of=str)
        state.model = name[:200] if name else None
        state.cwd = cwd[:4096] if cwd else None
        self.identify(f"{self.session(pick(value, 'session', of=str))}/start")
        self.emit(
            "lifecycle",
            text_of(pick(value, "format", of=str)),
            "start",
            "session started",
            "system",
        )

    # Messages.

    def message(self, value: dict[str, Any]) -> None:
        state = self.state
        state.messages += 1
        self.identify(f"{self.session()}/{state.messages}")
        self.ts = moment(_stamp(value))
        role = pick(value, "role", of=str)
        text = _text(value.get("content"))
        if role == "system":
            self.emit("lifecycle", text, "system", None, "system", view="context")
        elif role == "exit":
            self.ended(
                pick(value, "extra", "exit_status", of=str) or "",
                pick(value, "extra", "submission", of=str) or text,
            )
        elif role == "assistant" or (role not in ROLES and _is_answer(value)):
            self.answer(value, text)
        elif (
            role == "tool"
            or "tool_call_id" in value
            or pick(value, "extra", "returncode", of=int) is not None
        ):
            self.build_result(value, text)
        elif role == "user":
            self.user(value, text)
        else:
            self.emit("lifecycle", text or self.raw_text(), role or "message", None, role)

    def answer(self, value: dict[str, Any], text: str) -> None:
        state = self.state
        response = pick(value, "extra", "response", of=dict) or {}
        state.model = pick(response, "model", of=str) or state.model
        used = usage(response.get("usage"))
        thought = pick(value, "reasoning_content", of=str) or pick(
            response, "reasoning_content", of=str
        )
        commands = commands_in(value)
        first = self.native_id
        if thought:
            self.emit(
                "thinking", thought, "reasoning", None, "assistant", part=1, model=state.model
            )
        if text.strip():
            first = self.emit(
                "assistant_msg", text.strip(), "text", None, "assistant", part=0, model=state.model
            )
        for n, (command, call_id) in enumerate(commands):
            self.call(command, call_id or f"{self.native_id}#call-{n}", 2 + n)
        if used.total:
            cost = pick(value, "extra", "cost", of=float)
            first = self.emit(
                "lifecycle", "", "usage",
                f"{used.total - used.output_tokens} tokens in, {used.output_tokens} out",
                "assistant",
                part=100_000, usage=used, tokens=used.total, model=state.model,
                extra={"cost_usd": cost} if api.to_units(cost) else {},
            )  # fmt: skip
            call = api.Call(
                key=identifier(response.get("id")) or self.native_id,
                session_uid=self.uid(self.session()), ts=self.ts, model=state.model,
                input_tokens=used.input_tokens, output_tokens=used.output_tokens,
                cache_read_tokens=used.cache_read_tokens,
                reasoning_tokens=used.reasoning_tokens, recorded=api.to_units(cost) or None,
            )  # fmt: skip
            self.out.calls.append((call, first))
        if not self.count:
            self.merge("empty")

    def call(self, command: Any, call_id: str, part: int) -> None:
        call = describe("bash", {"command": text_of(command)}, "shell")
        self.emit(
            call.kind,
            call.body,
            "action",
            call.summary,
            "assistant",
            "bash",
            call_id,
            "shell",
            part=part,
            model=self.state.model,
        )
        self.state.open = [*self.state.open, Open(call_id, call.kind == "test_run")][-OPEN:]

    def take_call(self, call_id: str | None) -> Open | None:
        """Return the call that a result belongs to, and close it: the one with this id, else the
        oldest."""
        state = self.state
        calls = [call for call in state.open if call.id == call_id] if call_id else state.open
        answered = calls[0] if calls else None
        state.open = [call for call in state.open if call is not answered]
        return answered

    def build_result(self, value: dict[str, Any], text: str) -> None:
        use = identifier(value.get("tool_call_id"))
        call = self.take_call(use)
        raw = pick(value, "extra", "raw_output", of=str)
        code = pick(value, "extra", "returncode", of=int)
        failure = pick(value, "extra", "exception_info", of=str)
        code_in_text, output = output_in(text)
        output = raw if raw is not None else output
        code = code_in_text if code is None else code
        is_error = bool(failure or code) or output.startswith(KILLED)
        result = build_result(
            "\n".join(filter(None, (output, failure))),
            is_error,
            code,
            call is not None and call.is_test,
        )
        self.emit(
            "tool_result", result.text, "tool", result.summary, "tool", "bash",
            call.id if call else use, "shell", part=0,
            is_error=result.is_error, exit_code=result.exit_code, tests=result.tests,
        )  # fmt: skip

    def user(self, value: dict[str, Any], text: str) -> None:
        state = self.state
        kind = pick(value, "extra", "interrupt_type", of=str)
        actions = pick(value, "extra", "actions", of=list)
        if kind is not None and kind not in PERSONS:
            self.refused(kind, text)
        elif kind is not None and kind != "UserNewTask":
            call = self.take_call(None)
            state.open = []  # None of them was run.
            self.emit(
                "human_intervention",
                text,
                kind,
                None,
                "user",
                call_id=call.id if call else None,
                part=0,
            )
        elif actions:
            command = text_of(pick(actions[0], "command", of=str)) or text
            self.emit("human_intervention", command, "user_command", f"! {command}", "user", part=0)
        else:
            self.emit("user_msg", text, kind or "task", None, "user", part=0)
            if not state.is_titled:
                self.set_title(_title(text), 1)

    def refused(self, kind: str, text: str) -> None:
        """Add the refusal of an answer, after which the model was asked again; or a limit."""
        if not text.strip():
            self.merge("empty")
            return
        self.emit(
            "retry" if kind == "FormatError" else "error",
            text,
            kind,
            None,
            "system",
            part=0,
            is_error=True,
        )

    # The end.

    def ended(self, status: str, submitted: str) -> None:
        self.state.has_ended = True
        is_fine = status == "Submitted"
        summary = "submitted nothing" if is_fine and not submitted.strip() else status or "ended"
        self.emit(
            "completion" if is_fine else "error", submitted or status, status or "exit", summary,
            "system", part=0,
            is_error=not is_fine or not submitted.strip(),
        )  # fmt: skip

    def end_of_run(self, info: Any) -> None:
        """Add the end of the run, where no message had it."""
        status = pick(info, "exit_status", of=str)
        if self.state.has_ended or not status:
            self.merge("info")
            return
        self.identify(f"{self.session()}/end")
        self.ended(status, pick(info, "submission", of=str) or "")

    def finish(self) -> Normalized:
        return with_task(super().finish())


def _is_answer(value: dict[str, Any]) -> bool:
    """Return True if a message has fields that only an answer has, whatever its role."""
    extra = pick(value, "extra", of=dict) or {}
    return "tool_calls" in value or bool(extra.keys() & {"actions", "response"})


def commands_in(value: dict[str, Any]) -> list[tuple[Any, str | None]]:
    """Return the commands of an answer, each with the id of its call."""
    actions = pick(value, "extra", "actions", of=list)
    if actions:
        texts = [
            action.get("command") if isinstance(action, dict) else action for action in actions
        ]
        return [
            (text, identifier(pick(action, "tool_call_id", of=str)))
            for text, action in zip(texts, actions, strict=True)
        ]
    return [
        (_command(call), identifier(pick(call, "id", of=str)))
        for call in pick(value, "tool_calls", of=list) or []
    ]


def _command(call: Any) -> Any:
    given = pick(call, "function", "arguments", of=str)
    try:
        args = msgspec.json.decode(given) if given else None
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return given
    return pick(args, "command", of=str) or given


def output_in(text: str) -> tuple[int | None, str]:
    """Return the exit code of a command and its output, from a message that has both."""
    code = _CODE.search(text[:4000])
    start, end = text.find("<output>"), text.rfind("</output>")
    output = (
        text[start + len("<output>") : end].removeprefix("\n")
        if 0 <= start < end
        else _CODE.sub("", text, count=1)
    )
    return int(code[1]) if code else None, output


_CODE = re.compile(r"<returncode>(-?\d{1,9})</returncode>\n?")


def _title(text: str) -> str:
    match = _TITLE.search(text[:20_000])
    return match[1] or match[2] if match else text


_TITLE = re.compile(
    r"<pr_description>\s*\n(?:Consider the following PR description:\s*\n)?([^\n]+)|\A(?:Please"
    r" solve this issue: )([^\n]+)"
)


def _text(content: Any) -> str:
    if isinstance(content, list):
        return "\n".join(filter(None, (pick(block, "text", of=str) for block in content)))
    return text_of(content)


def usage(counts: Any) -> api.Usage:
    """Return the usage in buckets that do not overlap: the prompt includes the cached tokens."""
    prompt = number(pick(counts, "prompt_tokens", of=int)) or 0
    cached = min(
        number(pick(counts, "prompt_tokens_details", "cached_tokens", of=int)) or 0, prompt
    )
    return api.Usage(
        input_tokens=prompt - cached, cache_read_tokens=cached,
        output_tokens=number(pick(counts, "completion_tokens", of=int)) or 0,
        reasoning_tokens=number(pick(counts, "completion_tokens_details", "reasoning_tokens",
        of=int)) or 0,
    )  # fmt: skip
