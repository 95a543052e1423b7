"""The meaning of the records of a history: prompts, replies with edits in them, and lines of the
program. The traps of the format are in the package's docstring."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from datetime import datetime
from hashlib import blake2b
from typing import Any

import msgspec

from ... import model as api
from ...model import Usage
from .. import Facts, Normalized, Record, Source
from ..shared.fold import keep, load
from ..shared.pick import pick, time_of
from ..shared.stream import SessionFold, State
from ..shared.tools import file_change, is_test_run, one_line, text_of
from .history import FAILED, QUESTION, STATEMENT, is_question

CARRY = 1
"""The layout of `History`; changed only together with the adapter's `version`."""
OPEN = 64  # Edits that are remembered until it is told whether they were applied.

PROMPT_COMMANDS = frozenset({"/ask", "/code", "/architect", "/context", "/help", "/web"})
"""Commands that begin a prompt."""
_MODEL = re.compile(
    r"^(?:Main model|Models?): (\S+?),?(?:\s|$)"
    # The lines of the program have become one.
    r"|\s(?:Main model|Models?): (\S+) (?:with|using) (?:\S+ )?\S+ edit format",
    re.MULTILINE,
)
_COUNT = r"([\d.,]+[kM]?)"
_TOKENS = re.compile(
    rf"Tokens: {_COUNT} sent(?:, {_COUNT} cache write)?(?:, {_COUNT} cache hit)?, {_COUNT} received"
)


def normalize(source: Source, records: Iterable[Record], carry: bytes | None) -> Normalized:
    """Return what the records of a source mean."""
    return Reader(source, carry).run(records)


class History(State):
    version: int = CARRY
    header: str = ""
    again: int = 0
    """How many sessions before had the same time."""
    next_record: int = 0
    """The number of the next record of the session."""
    last_ts: datetime | None = None
    provider: str | None = None
    reply: bytes = b""
    """What the last reply was."""
    open: dict[str, str] = msgspec.field(default_factory=dict)
    """The calls of edits of which it was not told whether they were applied, by path."""


class Reader(SessionFold[History]):
    def __init__(self, source: Source, carry: bytes | None) -> None:
        super().__init__(source, load(carry, History, CARRY))
        self.state.cwd = os.path.dirname(source.path) or None

    def session(self, named: str | None = None) -> str:
        """Return the session that the last header began. Text before the first header is a session
        too."""
        state = self.state
        if not state.session:
            # Its path may change, and is another on every machine.
            repository = os.path.basename(self.folder)
            stamp = blake2b(
                f"{repository}\n{state.header}\n{state.again}".encode("utf-8", "replace"),
                digest_size=5,
            ).hexdigest()
            when = "".join(char for char in state.header if char.isdigit()) or "before"
            state.session = f"{when}-{stamp}"
        return state.session

    def line(self, value: dict[str, Any]) -> None:
        said, text = pick(value, "said", of=str) or "", pick(value, "text", of=str)
        if said == "start" and text is not None:
            self.start(text, time_of(value.get("at")))
            return
        self.identify(f"{self.session()}/{self.state.next_record}")
        self.state.next_record += 1
        lines = [line for line in pick(value, "lines", of=list) or [] if isinstance(line, str)]
        if said == "user" and text is not None:
            self.user(text, value.get("typed"))
        elif lines:
            self.program(lines)
        elif said != "user" and (text is not None or value.keys() & {"thought", "edits"}):
            self.assistant(
                text or "", pick(value, "thought", of=str), pick(value, "edits", of=list) or []
            )
        else:
            self.unknown(said)
        if not self.count:
            self.merge("empty")

    def start(self, text: str, at: datetime | None) -> None:
        self.close()
        state = self.state
        header = text.removeprefix("# aider chat started at ").strip()[:40]
        again = state.again + 1 if header == state.header else 0
        self.state = History(
            records=state.records, cwd=state.cwd, header=header, again=again, last_ts=at
        )
        self.title = (None, 0)
        self.begin(self.raw)
        self.identify(f"{self.session()}/start")
        self.ts = at
        self.emit("lifecycle", text, "start", "chat started", "system")

    # What was said.

    def user(self, text: str, typed: Any) -> None:
        self.set_time(typed if isinstance(typed, list) else [])
        command = text.split(maxsplit=1)[0] if text.startswith(("/", "!")) else ""
        if self.state.reply and stamp(text) == self.state.reply:
            self.emit(
                "lifecycle",
                text,
                "architect",
                "the plan is given to the editor",
                "user",
                view="context",
            )
        elif text == "<blank>" or not text:
            self.merge("blank prompt")
        elif is_question(text):
            self.answered(text)
        elif command and command not in PROMPT_COMMANDS:
            self.emit("human_intervention", text, "command", None, "user")
        else:
            self.emit("user_msg", text, "user", None, "user")
            if not self.state.is_titled:
                self.set_title(text, 1)

    def set_time(self, typed: list[Any]) -> None:
        """Take the first time at which the prompt was typed that is not before the last event."""
        last = self.state.last_ts
        times = [time for item in typed if (time := time_of(item))]
        later = [time for time in times if last is None or time >= last]
        if later and self.state.header:
            self.ts = self.state.last_ts = later[0]

    def assistant(self, text: str, thought: str | None, edits: list[Any]) -> None:
        if thought:
            self.emit("thinking", thought, "thinking", None, "assistant", model=self.state.model)
        if text.strip():
            self.state.reply = stamp(text)
            self.emit("assistant_msg", text, "assistant", None, "assistant", model=self.state.model)
        for edit in edits:
            path = pick(edit, "path", of=str) or ""
            body = file_change(
                path, [(text_of(pick(edit, "old", of=str)), text_of(pick(edit, "new", of=str)))]
            )
            call_id = f"{self.native_id}/{self.count}"
            self.emit(
                "edit",
                body,
                "edit",
                path,
                "assistant",
                "edit",
                call_id,
                "edit",
                files=(path,) if path else (),
            )
            keep(self.state.open, path, call_id, OPEN)

    # What the program said.

    def program(self, said: list[str]) -> None:
        """Every line that tells of something is an event, and so are the lines between two of
        them."""
        for text in said:
            handler = next(
                (handler for start, handler in STARTS.items() if text.startswith(start)), None
            )
            if handler is not None:
                handler(self, text)
            elif is_question(text):
                self.answered(text)
            elif FAILED.match(text):
                self.emit("error", text, "error", None, "system", is_error=True)
            else:
                self.plain(text)

    def plain(self, text: str) -> None:
        if found := _MODEL.search(text):
            provider, _, model = (found[1] or found[2])[:200].rpartition("/")
            self.state.model, self.state.provider = model, provider.rpartition("/")[2] or None
        self.emit("lifecycle", text, "program", None, "system")

    def answered(self, line: str) -> None:
        found = QUESTION.search(line)
        answer = ((found[1] or found[2] or "") if found else "").lower()
        kind = "human_intervention" if answer[:1] in ("n", "s", "d") else "decision"
        self.emit(kind, line, "question", None, "user")

    def applied(self, line: str) -> None:
        """Add an edit that was applied: the result of the edit in the reply, or an edit of its own
        if the reply shows none in a known format."""
        path = (
            line.partition(" edit to ")[2].strip()
            or line.removeprefix("Creating empty file ").strip()
        )
        call_id = self.state.open.pop(path, None)
        kind, native = ("edit", "edit") if call_id is None else ("tool_result", "applied")
        role = "assistant" if call_id is None else "tool"
        self.emit(kind, path, native, one_line(line), role, "edit", call_id, "edit", files=(path,))

    def skipped(self, line: str) -> None:
        path = (
            line.partition(" edit to ")[2].partition(" (")[0]
            or line.removeprefix("Skipping edits to ").partition(" that ")[0]
        )
        self.emit(
            "human_intervention",
            line,
            "skipped",
            None,
            "tool",
            "edit",
            self.state.open.pop(path.strip(), None),
            "edit",
        )

    def command(self, line: str) -> None:
        command = line.removeprefix("Running ").strip()
        kind = "test_run" if is_test_run(command) else "tool_call"
        self.emit(
            kind,
            command,
            "run",
            None,
            "assistant",
            "shell",
            f"{self.native_id}/{self.count}",
            "shell",
        )

    def interrupted(self, line: str) -> None:
        self.emit("human_intervention", line, "interrupt", "interrupted", "user")

    def retried(self, line: str) -> None:
        self.emit("retry", line, "retry", None, "system")

    def committed(self, line: str) -> None:
        self.emit("lifecycle", line, "commit", None, "system")

    def cleared(self, line: str) -> None:
        self.emit("lifecycle", line, "clear", None, "user", view="compact")

    def used(self, line: str) -> None:
        found = _TOKENS.match(line)
        sent, wrote, had, out = (count(found[n]) for n in (1, 2, 3, 4)) if found else (0, 0, 0, 0)
        is_inside = "deepseek" in (self.state.model or "").lower()
        used = Usage(
            input_tokens=max(0, sent - wrote - (had if is_inside else 0)),
            output_tokens=out,
            cache_read_tokens=had,
            cache_write_tokens=wrote,
        )
        if not used.total:
            self.emit("lifecycle", line, "tokens", None, "system")
            return
        model = self.state.model
        event = self.emit(
            "lifecycle", line, "tokens", None, "system", usage=used, tokens=used.total, model=model
        )
        call = api.Call(
            key=event, session_uid=self.uid(self.session()), ts=self.state.last_ts, model=model,
            provider=self.state.provider, input_tokens=used.input_tokens, output_tokens=out,
            cache_read_tokens=had,
            cache_write_5m_tokens=wrote,
        )  # fmt: skip
        self.out.calls.append((call, event))

    # Sessions.

    def close(self) -> None:
        """Add the facts that are known of the session so far."""
        state = self.state
        if not state.session:
            return
        uid = self.uid(state.session)
        self.out.facts[uid] = Facts(
            native_session_id=state.session,
            title=self.title[0],
            title_rank=self.title[1],
            cwd=state.cwd,
            model=state.model,
        )

    def finish(self) -> Normalized:
        self.close()
        self.out.carry = msgspec.msgpack.encode(self.state)
        return self.out


def stamp(text: str) -> bytes:
    """Return a hash that tells texts apart, however their lines are broken."""
    return blake2b("".join(text.split()).encode("utf-8", "replace"), digest_size=8).digest()


def count(text: str | None) -> int:
    """A number as it is written: 900, 2.4k, 1.2M."""
    if not text:
        return 0
    factor = {"k": 1000, "M": 1_000_000}.get(text[-1], 1)
    try:
        return min(round(float(text.rstrip("kM").replace(",", "")) * factor), 1 << 40)
    except (ValueError, OverflowError):
        return 0


HANDLERS = {
    "Tokens: ": Reader.used,
    "Applied edit to ": Reader.applied,
    "Creating empty file ": Reader.applied,
    "Did not apply edit to ": Reader.skipped,
    "Skipping edits to ": Reader.skipped,
    "Running ": Reader.command,
    "Retrying in ": Reader.retried,
    "Commit ": Reader.committed,
    "^C ": Reader.interrupted,
    "All chat history cleared": Reader.cleared,
    "All files dropped and chat history cleared": Reader.cleared,
}
STARTS = {start: HANDLERS[start] for start in STATEMENT}
