"""A timeline as attempts: each call with its end, its target, and its error if there is one.

This module decides what is an error. A call that the agent reports as failed is one, unless its
text shows otherwise: a search without a match, JSON that reports success. A call that the agent
reports as fine is no error, unless its status was hidden (`pytest | tail`) or not reported and the
text has a form that only errors have.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from operator import attrgetter

import msgspec

from ..model import SessionEvent
from ..timeline import ToolCall, pairs
from . import Signature
from .error_forms import ErrorLine
from .error_lines import NEAR_END, find_error_line, may_hold_proof, pick_plain_line
from .json_errors import find_json_error, find_object_error, is_success, parse_object
from .shell_commands import Command, parse
from .signatures import build_signature
from .statements import is_stop

NO_COMMAND = parse("")
NO_FILES: frozenset[str] = frozenset()
MAX_COMMAND_CHARS = 20_000
"""Characters of a command that are looked at, before here-documents are removed."""
_MAX_SHORT_LINES = 30
"""If an output has fewer line breaks, its last line counts as the error of a failed command."""


class Attempt(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A call and its end. For an error that belongs to no call, `call` is None."""

    call: SessionEvent | None
    result: SessionEvent | None
    seq: int
    """The call, which is cited for what was done."""
    end_seq: int
    """The result, which is cited for how it ended."""
    action: str
    files: frozenset[str]
    """The last parts of the paths that it was about."""
    is_done: bool
    """True if an end is known, good or bad."""
    failed: bool
    is_refused: bool = False
    """True if a person did not allow it. It is evidence of nothing else."""
    signature: Signature | None = None
    shell: str = ""
    """The command, if it is a shell call."""
    bodies: Mapping[int, str]

    @property
    def text(self) -> str:
        """The text of the call: a shell command, or the arguments."""
        if self.action == "shell" or self.call is None:
            return self.shell
        return self.bodies.get(self.call.seq, "")

    @property
    def command(self) -> Command:
        """The parsed command.

        It is parsed on demand, because most commands end well and nobody asks.
        """
        return _parse(self.shell) if self.action == "shell" else NO_COMMAND


def find_attempts(events: Iterable[SessionEvent], bodies: Mapping[int, str]) -> list[Attempt]:
    """Return all attempts, in the order in which they ended.

    Copies of other sessions' events count there.
    """
    return build_attempts([event for event in events if event.origin is None], bodies)


def build_attempts(own: Sequence[SessionEvent], bodies: Mapping[int, str]) -> list[Attempt]:
    """Return all attempts of events of which none is a copy, in the order in which they ended."""
    calls = pairs(own)
    attempts = [_build_attempt(call, bodies) for call in calls]
    errors = [event for event in own if event.is_error or event.kind == "error"]
    if errors:
        paired = {pair.call.seq for pair in calls if pair.call is not None}
        paired |= {pair.result.seq for pair in calls if pair.result is not None}
        attempts += [
            _build_lone(event, bodies)
            for event in errors
            if event.seq not in paired and event.kind != "human_intervention"
        ]
    attempts.sort(key=attrgetter("end_seq"))
    return _link_continued(attempts)


def _build_attempt(pair: ToolCall, bodies: Mapping[int, str]) -> Attempt:
    call, result = pair.call, pair.result
    first, last = call or result, result or call
    assert first is not None
    assert last is not None
    action = first.action or last.action or "other"
    shell = bodies.get(first.seq, "") if action == "shell" and call is not None else ""
    is_refused = _is_refusal(result)
    is_done = result is not None and not is_refused
    failed, line = _judge_result(last, bodies, action, shell) if is_done else (False, None)
    return Attempt(
        call=call,
        result=result,
        seq=first.seq,
        end_seq=last.seq,
        action=action,
        files=_last_parts(first.files if last is first else first.files + last.files),
        is_done=is_done,
        failed=failed or line is not None,
        is_refused=is_refused,
        signature=_sign(line),
        shell=shell,
        bodies=bodies,
    )


def _is_refusal(result: SessionEvent | None) -> bool:
    return result is not None and result.kind == "human_intervention" and is_stop(result)


def _judge_result(
    result: SessionEvent, bodies: Mapping[int, str], action: str, shell: str
) -> tuple[bool, ErrorLine | None]:
    """Return True if a result is reported as failed, and the line of its error, reported or
    hidden."""
    if result.is_error or result.exit_code or (result.tests is not None and result.tests.failed):
        return True, _find_reported_error(result, bodies, action, shell)
    return False, _find_hidden_error(result, bodies, shell) if action == "shell" else None


def _last_parts(paths: Sequence[str]) -> frozenset[str]:
    if not paths:
        return NO_FILES
    return frozenset([path.replace("\\", "/").rstrip("/").rpartition("/")[2] for path in paths])


def _build_lone(event: SessionEvent, bodies: Mapping[int, str]) -> Attempt:
    """Return the attempt of an error that belongs to no call."""
    body = bodies.get(event.seq) or event.summary or ""
    line = find_json_error(body) or find_error_line(body) or pick_plain_line(body, from_end=False)
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
        signature=_sign(line),
    )


def _sign(line: ErrorLine | None) -> Signature | None:
    return build_signature(line) if line is not None else None


def _parse(text: str) -> Command:
    return parse(text.strip()[:MAX_COMMAND_CHARS])


def _find_reported_error(
    result: SessionEvent, bodies: Mapping[int, str], action: str, text: str
) -> ErrorLine | None:
    """Return the line of the error of a result that is reported as failed; None if it is no
    error."""
    body = bodies.get(result.seq, "")
    data = parse_object(body) if not (result.tests and result.tests.failed) else None
    if data is not None and is_success(data):
        return None
    line = (find_object_error(data) if data is not None else None) or find_error_line(body)
    command, code = _parse(text), result.exit_code
    # The message of the tool, not of a program.
    if action != "shell" or (code is None and command.is_read_only):
        return line or pick_plain_line(body, from_end=False)
    if command.is_read_only:
        return _find_read_error(line, code, command)
    return line or _unspecific_line(body, code, command)


def _find_read_error(
    line: ErrorLine | None, code: int | None, command: Command
) -> ErrorLine | None:
    """Return the error of a command that only reads.

    The text that it read may hold any word, and is not its error.
    """
    if line is not None and (
        line.kind == "shell"
        or line.text.partition(":")[0] in command.programs
        or (line.kind == "git" and code == 128)
    ):
        return line
    # Nothing matched, or the message about a missing file was hidden.
    return None if code in (0, 1, 2) else _exit_line(code, command)


def _unspecific_line(body: str, code: int | None, command: Command) -> ErrorLine | None:
    """Return the error of a command that failed without a recognizable message.

    It is the last line of a short output, or else the exit code.
    """
    line = pick_plain_line(body, from_end=True) if body.count("\n") < _MAX_SHORT_LINES else None
    if line is None and code is not None:
        return _exit_line(code, command)
    return line


def _exit_line(code: int | None, command: Command) -> ErrorLine:
    head = command.heads[-1] if command.heads else "a command"
    message = f"exit code {code} from {head}"
    return ErrorLine("exit", message, message)


_PROVING_KINDS = ("exception", "test", "compile", "shell", "git")


def _find_hidden_error(
    result: SessionEvent, bodies: Mapping[int, str], text: str
) -> ErrorLine | None:
    """Return an error whose status was not reported, or None.

    Text that a command read may hold anything, so it is no error. Nearly every call that went well
    comes through here, so the cheap checks come first.
    """
    if result.exit_code == 0 and not _may_hide_status(text):
        return None
    if result.tests is not None and result.tests.failed == 0 and result.tests.passed:
        return None
    body = bodies.get(result.seq, "")
    if not body or not may_hold_proof(body):
        return None
    command = _parse(text)
    if command.is_read_only or (result.exit_code == 0 and not command.hides_status):
        return None
    line = find_error_line(body, proof=True)
    is_proof = (
        line is not None
        and line.is_strong
        and line.kind in _PROVING_KINDS
        and _is_near_end(line, body)
    )
    return line if is_proof else None


def _may_hide_status(text: str) -> bool:
    return "|" in text or ";" in text or "\n" in text


def _is_near_end(line: ErrorLine, body: str) -> bool:
    """Return True if the line is among the last of the output.

    Further up it may be part of a log or a report.
    """
    return line.text[:80] in body.rstrip()[-NEAR_END:]


def _link_continued(attempts: list[Attempt]) -> list[Attempt]:
    """Give a shell call without a command the command whose remaining output it asks for."""
    running: Attempt | None = None
    for n, attempt in enumerate(attempts):
        if attempt.action != "shell" or attempt.result is None:
            continue
        if attempt.shell.strip():
            running = attempt if attempt.result.exit_code is None and not attempt.failed else None
        elif running is not None:
            signature = attempt.signature
            if signature is not None and running.command.is_read_only:
                signature = None
            attempts[n] = msgspec.structs.replace(
                attempt,
                shell=running.shell,
                files=running.files,
                signature=signature,
                failed=attempt.failed and signature is not None,
            )
            if attempt.result.exit_code is not None:
                running = None
    return attempts
