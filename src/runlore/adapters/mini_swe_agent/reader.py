"""What a trajectory of mini-SWE-agent means: its records, and the fold over them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from hashlib import blake2b
from pathlib import PurePath
from typing import Any

import msgspec

from ... import model as api
from ...errors import ReadError
from .. import Normalized, Record, Source
from ..shared.calls import came, describe
from ..shared.fold import load, with_file_time
from ..shared.pick import clean, identifier, moment, number, pick
from ..shared.stream import SessionFold, State
from ..shared.tools import text_of
from ..swe_agent.reader import with_task

CARRY = 1
"""The layout of `Memory`; changed only together with the adapter's `version`."""
LAST_RUN = "last_mini_run"
FINAL = ("COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT", "MINI_SWE_AGENT_FINAL_OUTPUT")
KILLED = "The last command <command>"  # It timed out, say versions before 2.0.
ROLES = frozenset({"system", "user", "assistant", "tool", "exit"})
PERSONS = frozenset({"UserInterruption", "UserRejection", "UserNewTask"})
"""What a person does who stands by; anything else interrupts the model because of what it said, or
of a limit."""
OPEN = 32  # Calls of one answer whose results have not come.


# The records of a document.


def parts(source: Source, document: Any) -> list[Any]:
    """A head, the messages, and how it ended. All but the last of them stay as they are while the
    document grows."""
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
    items: list[Any] = [{"head": head}, *map(_slim, _as_calls(messages))]
    if isinstance(info, dict) and info.get("exit_status") is not None:
        items.append({"end": {word: item for word, item in info.items() if word != "config"}})
    return items


def _as_calls(messages: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Messages as they are written since 1.1: where an action was a block of an answer it is made a
    call, and the next message of the user what it is: a result, the end, or that the answer was
    refused."""
    is_open = is_final = has_answered = False
    for message in messages:
        role, extra = message.get("role"), message.get("extra")
        extra = extra if isinstance(extra, dict) else {}
        text = message.get("content")
        if role == "assistant" and isinstance(text, str) and not message.get("tool_calls"):
            actions = extra.get("actions")
            blocks = _BLOCK.findall(text)
            has_answered = True
            if actions is None and len(blocks) == 1:  # Of several none was run.
                actions = [{"command": blocks[0]}]
            is_open, is_final = (
                bool(actions),
                any(word in block for word in FINAL for block in blocks),
            )
            said = _BLOCK.sub("", text).strip() if is_open else text
            yield {**message, "content": said, "extra": {**extra, "actions": actions or []}}
        elif (
            role == "user"
            and isinstance(text, str)
            and has_answered
            and not extra
            and not _is_by_person(text)
        ):
            code, said = output_in(text)
            if is_open and is_final and code is None:
                yield {"role": "exit", "content": text, "extra": {"exit_status": "Submitted"}}
            elif is_open:
                yield {
                    "role": "tool",
                    "content": said,
                    "extra": {} if code is None else {"returncode": code},
                }
            else:
                yield {**message, "extra": {"interrupt_type": "FormatError"}}
            is_open = False
        elif role == "user" and isinstance(text, str) and has_answered and not extra:
            yield {**message, "extra": {"interrupt_type": "UserInterruption"}}
        else:
            yield message


_BLOCK = re.compile(r"```(?:mswea_bash_command|bash|sh)[ \t]*\n(.*?)\n?```", re.DOTALL)


def _is_by_person(text: str) -> bool:
    return text.startswith(
        ("Interrupted by user", "Command not executed. The user", "Commands not executed. The user")
    )


def _slim(message: dict[str, Any]) -> dict[str, Any]:
    """Without what the service said twice."""
    response = pick(message, "extra", "response", of=dict)
    if response is None:
        return message
    told = {word: response[word] for word in ("id", "model", "usage") if word in response}
    choices = pick(response, "choices", of=list)
    if choices and (thought := pick(choices[0], "message", "reasoning_content", of=str)):
        told["reasoning_content"] = thought
    return {**message, "extra": {**message["extra"], "response": told}}


def _name_of(path: str, messages: list[dict[str, Any]]) -> str:
    """A run and its instance; of the file that each run of a person writes anew, what tells one run
    from the next."""
    *folders, file = PurePath(path).parts
    stem = file.removesuffix(".traj.json")
    if stem == LAST_RUN:
        times = (stamp for message in messages if (stamp := _stamp(message)) is not None)
        told = [
            text_of(message.get("content")) for message in messages if message.get("role") == "user"
        ][:1]
        key = blake2b(
            f"{next(times, '')}\n{''.join(told)}".encode("utf-8", "replace"), digest_size=6
        ).hexdigest()
        return f"{LAST_RUN}/{key}"
    if folders and folders[-1] == stem:
        folders.pop()
    return clean("/".join([*folders[-1:], stem])[-200:])


def _stamp(message: Any) -> float | None:
    found = (
        message.get("extra", {}).get("timestamp")
        if isinstance(message.get("extra"), dict)
        else None
    )
    return found if isinstance(found, int | float) and not isinstance(found, bool) else None


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
            self.came(value, text)
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
                reasoning_tokens=used.reasoning_tokens,
            )  # fmt: skip
            self.out.calls.append((call, first))
        if not self.count:
            self.merge("empty")

    def call(self, command: Any, call_id: str, part: int) -> None:
        found = describe("bash", {"command": text_of(command)}, "shell")
        self.emit(
            found.kind,
            found.body,
            "action",
            found.summary,
            "assistant",
            "bash",
            call_id,
            "shell",
            part=part,
            model=self.state.model,
        )
        self.state.open = [*self.state.open, Open(call_id, found.kind == "test_run")][-OPEN:]

    def take_call(self, call_id: str | None) -> Open | None:
        """The call that a result belongs to: it says which, or the calls are answered in their
        order."""
        state = self.state
        calls = [call for call in state.open if call.id == call_id] if call_id else state.open
        found = calls[0] if calls else None
        state.open = [call for call in state.open if call is not found]
        return found

    def came(self, value: dict[str, Any], text: str) -> None:
        use = identifier(value.get("tool_call_id"))
        call = self.take_call(use)
        raw = pick(value, "extra", "raw_output", of=str)
        code = pick(value, "extra", "returncode", of=int)
        failure = pick(value, "extra", "exception_info", of=str)
        told, said = output_in(text)
        said = raw if raw is not None else said
        code = told if code is None else code
        is_error = bool(failure or code) or said.startswith(KILLED)
        found = came(
            "\n".join(filter(None, (said, failure))),
            is_error,
            code,
            call is not None and call.is_test,
        )
        self.emit(
            "tool_result", found.text, "tool", found.summary, "tool", "bash",
            call.id if call else use, "shell", part=0,
            is_error=found.is_error, exit_code=found.exit_code, tests=found.tests,
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
        """An answer that could not be understood, and the model was asked again; or a limit."""
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
        """Add the facts about the whole run. Most of them are in a message already."""
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
    """The commands that an answer asks for, each with the id of its call."""
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
        found = msgspec.json.decode(given) if given else None
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return given
    return pick(found, "command", of=str) or given


def output_in(text: str) -> tuple[int | None, str]:
    """Return the exit code of a command and what it printed, from a message that has both."""
    code = _CODE.search(text[:4000])
    start, end = text.find("<output>"), text.rfind("</output>")
    said = (
        text[start + len("<output>") : end].removeprefix("\n")
        if 0 <= start < end
        else _CODE.sub("", text, count=1)
    )
    return int(code[1]) if code else None, said


_CODE = re.compile(r"<returncode>(-?\d{1,9})</returncode>\n?")


def _title(text: str) -> str:
    found = _TITLE.search(text[:20_000])
    return found[1] or found[2] if found else text


_TITLE = re.compile(
    r"<pr_description>\s*\n(?:Consider the following PR description:\s*\n)?([^\n]+)|\A(?:Please"
    r" solve this issue: )([^\n]+)"
)


def _text(content: Any) -> str:
    if isinstance(content, list):
        return "\n".join(filter(None, (pick(block, "text", of=str) for block in content)))
    return text_of(content)


def usage(counts: Any) -> api.Usage:
    """Buckets that do not overlap: the prompt includes what the cache had."""
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
