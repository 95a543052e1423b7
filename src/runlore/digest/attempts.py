"""A timeline as attempts: each call with its end, what it was about, and the error it met, if it met one.

Here it is decided what is an error at all. What an agent reports as failed is one, unless its text says otherwise: a search that finds
nothing, JSON that reports success. What an agent reports as fine is none, unless its end was hidden (`pytest | tail`) or never
reported and the text has a form that only errors have.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from operator import attrgetter

import msgspec

from ..model import SessionEvent
from ..timeline import ToolCall, pairs
from . import Signature
from .error_forms import Line
from .error_lines import NEAR_END, find, may_prove, plain
from .json_errors import is_success, line_of_json, line_of_object, object_in
from .shell_commands import Command, parse
from .signatures import sign
from .statements import is_stop

NO_COMMAND = parse("")
NO_FILES: frozenset[str] = frozenset()
LONGEST_TEXT = 20_000
"""Characters of a command that are looked at, before here-documents are left out."""


class Attempt(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A call and its end; or an error that no call led to, and then `call` is None."""

    call: SessionEvent | None
    result: SessionEvent | None
    seq: int
    """The call's, which is what is cited for something that was done."""
    end_seq: int
    """The result's, which is what is cited for how it ended."""
    action: str
    files: frozenset[str]
    """The last parts of the paths that it was about."""
    is_done: bool
    """Whether an end is known, be it good or bad."""
    failed: bool
    is_refused: bool = False
    """A person did not let it be done: it tells nothing but that."""
    signature: Signature | None = None
    shell: str = ""
    """The command, of a shell."""
    bodies: Mapping[int, str]

    @property
    def text(self) -> str:
        """What was called: a shell command, or the arguments."""
        if self.action == "shell" or self.call is None:
            return self.shell
        return self.bodies.get(self.call.seq, "")

    @property
    def command(self) -> Command:
        """What was run, understood when someone asks: most commands come to a good end, and nobody does."""
        return _parsed(self.shell) if self.action == "shell" else NO_COMMAND


def attempts_of(events: Iterable[SessionEvent], bodies: Mapping[int, str]) -> list[Attempt]:
    """All attempts, in the order in which they ended. Copies of events of other sessions are left out: they count where they happened."""
    return attempts_in([event for event in events if event.origin is None], bodies)


def attempts_in(own: Sequence[SessionEvent], bodies: Mapping[int, str]) -> list[Attempt]:
    """The same, for a caller that has left out the copies already."""
    calls = pairs(own)
    found = [_attempt(call, bodies) for call in calls]
    errors = [event for event in own if event.is_error or event.kind == "error"]
    if errors:
        paired = {pair.call.seq for pair in calls if pair.call is not None}
        paired |= {pair.result.seq for pair in calls if pair.result is not None}
        found += [_lone(event, bodies) for event in errors if event.seq not in paired and event.kind != "human_intervention"]
    found.sort(key=attrgetter("end_seq"))
    return _continued(found)


def _attempt(pair: ToolCall, bodies: Mapping[int, str]) -> Attempt:
    call, result = pair.call, pair.result
    first, last = call or result, result or call
    assert first is not None
    assert last is not None
    action = first.action or last.action or "other"
    paths = first.files if last is first else first.files + last.files
    shell = bodies.get(first.seq, "") if action == "shell" and call is not None else ""
    is_refused = failed = False
    line = None
    if result is not None:
        is_refused = result.kind == "human_intervention" and is_stop(result)
        if not is_refused:
            failed = _has_failed(result)
            if failed:
                line = _line_of(result, bodies, action, shell)
            elif action == "shell":
                line = _hidden(result, bodies, shell)
    return Attempt(
        call=call,
        result=result,
        seq=first.seq,
        end_seq=last.seq,
        action=action,
        files=_last_parts(paths) if paths else NO_FILES,
        is_done=result is not None and not is_refused,
        failed=failed or line is not None,
        is_refused=is_refused,
        signature=sign(line) if line is not None else None,
        shell=shell,
        bodies=bodies,
    )


def _last_parts(paths: Iterable[str]) -> frozenset[str]:
    return frozenset([path.replace("\\", "/").rstrip("/").rpartition("/")[2] for path in paths])


def _lone(event: SessionEvent, bodies: Mapping[int, str]) -> Attempt:
    body = bodies.get(event.seq) or event.summary or ""
    line = line_of_json(body) or find(body) or plain(body, from_end=False)
    return Attempt(
        call=None,
        result=event,
        seq=event.seq,
        end_seq=event.seq,
        action=event.action or "other",
        files=NO_FILES,
        bodies=bodies,
        is_done=True,
        failed=True,
        signature=sign(line) if line is not None else None,
    )


def _has_failed(result: SessionEvent) -> bool:
    return result.is_error or bool(result.exit_code) or (result.tests is not None and bool(result.tests.failed))


def _parsed(text: str) -> Command:
    return parse(text.strip()[:LONGEST_TEXT])


def _line_of(result: SessionEvent, bodies: Mapping[int, str], action: str, text: str) -> Line | None:
    """The line that tells of the error of what is reported as failed; None when there is no error."""
    command = _parsed(text)
    body = bodies.get(result.seq, "")
    said = object_in(body) if not (result.tests and result.tests.failed) else None
    if said is not None and is_success(said):
        return None
    line = (line_of_object(said) if said is not None else None) or find(body)
    code = result.exit_code
    if action != "shell" or (code is None and command.only_looks):  # What the tool itself says, not what a program printed.
        return line or plain(body, from_end=False)
    if command.only_looks:
        if line is not None and (
            line.kind == "shell" or line.text.partition(":")[0] in command.programs or (line.kind == "git" and code == 128)
        ):
            return line
        # What was looked at may hold any word. Nothing was found, or something that is not there was hidden from us.
        return None if code in (0, 1, 2) else _exit(code, command)
    return line or _unsaid(body, code, command)


def _unsaid(body: str, code: int | None, command: Command) -> Line | None:
    """Of a command that failed without a word that tells so: a line if there are few, or the code."""
    line = plain(body, from_end=True) if body.count("\n") < 30 else None
    if line is None and code is not None:
        return _exit(code, command)
    return line


def _exit(code: int | None, command: Command) -> Line:
    head = command.heads[-1] if command.heads else "a command"
    message = f"exit code {code} from {head}"
    return Line("exit", message, message)


def _hidden(result: SessionEvent, bodies: Mapping[int, str], text: str) -> Line | None:
    """An error whose end was not reported. Files and matches that were looked at hold all kinds of text. Nearly every call that went
    well is asked this, so what is cheap to know comes first."""
    if result.exit_code == 0 and not _may_hide_status(text):
        return None
    if result.tests is not None and result.tests.failed == 0 and result.tests.passed:
        return None
    body = bodies.get(result.seq, "")
    if not body or not may_prove(body):
        return None
    command = _parsed(text)
    if command.only_looks or (result.exit_code == 0 and not command.hides_status):
        return None
    line = find(body, proof=True)
    return (
        line
        if line is not None
        and line.is_strong
        and line.kind in ("exception", "test", "compile", "shell", "git")
        and _is_near_end(line, body)
        else None
    )


def _may_hide_status(text: str) -> bool:
    return "|" in text or ";" in text or "\n" in text


def _is_near_end(line: Line, body: str) -> bool:
    """What a program that failed says last. Further up it may be a part of a log, a report or a test's output."""
    return line.text[:80] in body.rstrip()[-NEAR_END:]


def _continued(attempts: list[Attempt]) -> list[Attempt]:
    """A shell call without a command asks for the rest of one that had not come to its end: it is about that command."""
    running: Attempt | None = None
    for n, attempt in enumerate(attempts):
        if attempt.action != "shell" or attempt.result is None:
            continue
        if attempt.shell.strip():
            running = attempt if attempt.result.exit_code is None and not attempt.failed else None
        elif running is not None:
            line = attempt.signature
            if line is not None and running.command.only_looks:
                line = None
            attempts[n] = msgspec.structs.replace(
                attempt,
                shell=running.shell,
                files=running.files,
                signature=line,
                failed=attempt.failed and line is not None,
            )
            if attempt.result.exit_code is not None:
                running = None
    return attempts
