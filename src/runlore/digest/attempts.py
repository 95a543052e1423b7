"""A timeline as attempts: each call with its end, its target, and its error if there is one.

This module decides what is an error: a failing result's own line. A call that the agent reports as
failed has one, unless its text shows otherwise: a search without a match, JSON that reports
success, the words of a person who refused it, a text that the command itself printed. A call that
the agent reports as fine has none, unless its status was hidden (`pytest | tail`) or not reported
and the text has a form that only errors have. A result without such a line may have failed, but it
is no error that can be recognized. The submission at the end of a run is no error either.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from operator import attrgetter

import msgspec

from ..model import SessionEvent
from ..timeline import ToolCall, pairs
from . import Signature
from .error_forms import ErrorLine
from .error_lines import (
    NEAR_END,
    count_lines,
    find_error_lines,
    may_hold_proof,
    pick_plain_line,
)
from .json_errors import find_json_error, find_object_error, is_success, parse_object
from .shell_commands import Command, parse, unwrap_script
from .signatures import build_signature
from .statements import is_stop

NO_COMMAND = parse("")
NO_FILES: frozenset[str] = frozenset()
MAX_COMMAND_CHARS = 20_000
"""Characters of a command that are looked at, before here-documents are removed."""
_MAX_SHORT_LINES = 2
"""If an output has at most so many lines, its last line counts as the error of a failed command."""


class Attempt(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """A call and its end. For an error that belongs to no call, `call` is None."""

    call: SessionEvent | None
    result: SessionEvent | None
    seq: int
    """The call, which is cited for what was done."""
    end_seq: int
    """The result, which is cited for how it ended."""
    start_seq: int | None = None
    """The call that began it, if this one only asks for what it has printed since then."""
    action: str
    files: frozenset[str]
    """The last parts of the paths that it was about."""
    is_done: bool
    """True if an end is known, good or bad."""
    failed: bool
    is_refused: bool = False
    """True if it was not allowed or not run: evidence of nothing else."""
    signatures: tuple[Signature, ...] = ()
    """The errors of the result, the most telling first: each failed test is one."""
    shell: str = ""
    """The command, if it is a shell call."""
    bodies: Mapping[int, str]

    @property
    def signature(self) -> Signature | None:
        """The first error of the result."""
        return self.signatures[0] if self.signatures else None

    @property
    def text(self) -> str:
        """The text of the call: a shell command, or the arguments."""
        if self.action == "shell" or self.call is None:
            return self.shell
        return self.bodies.get(self.call.seq, "")

    @cached_property
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
    errors = [event for event in own if event.is_error]
    if errors:
        paired = {pair.call.seq for pair in calls if pair.call is not None}
        paired |= {pair.result.seq for pair in calls if pair.result is not None}
        attempts += [
            _build_lone(event, bodies)
            for event in errors
            if event.seq not in paired and event.kind not in _NO_ERRORS
        ]
    attempts.sort(key=attrgetter("end_seq"))
    return _link_continued(attempts)


_NO_ERRORS = frozenset({"human_intervention", "completion"})
"""Kinds of events that report no error: what a person did, and how a run ended."""


def _build_attempt(pair: ToolCall, bodies: Mapping[int, str]) -> Attempt:
    call, result = pair.call, pair.result
    first, last = call or result, result or call
    assert first is not None
    assert last is not None
    action = first.action or last.action or "other"
    is_command = action == "shell" and call is not None
    shell = unwrap_script(bodies.get(first.seq, "")) if is_command else ""
    is_refused = result is not None and _is_refusal(result, bodies)
    is_done = result is not None and not is_refused
    failed, lines = _judge_result(last, bodies, action, shell) if is_done else (False, [])
    return Attempt(
        call=call,
        result=result,
        seq=first.seq,
        end_seq=last.seq,
        action=action,
        files=_last_parts(first.files if last is first else first.files + last.files),
        is_done=is_done,
        failed=failed or bool(lines),
        is_refused=is_refused,
        signatures=_sign(lines),
        shell=shell,
        bodies=bodies,
    )


_TOOL_ERROR = "<tool_use_error>"
"""The beginning of a result that is the error of a tool, whether it is marked as one or not."""


def _is_refusal(result: SessionEvent, bodies: Mapping[int, str]) -> bool:
    """Return True if a person or a policy did not allow the call, or interrupted it, or if it was
    not run because of another one."""
    if result.kind == "human_intervention":
        return is_stop(result)
    beginning = bodies.get(result.seq, "")[:600]
    if beginning.startswith(_TOOL_ERROR) and _CANCELLED.match(beginning):
        return True
    return result.is_error and _REFUSED.search(beginning) is not None


_CANCELLED = re.compile(
    rf"{_TOOL_ERROR}\s*(?:Sibling tool call errored|Cancelled: parallel tool call)"
)
"""The end of a call that was not run, because one that was sent together with it failed."""


_REFUSED = re.compile(
    r"(?im)^\W{0,3}(?:<\w{1,30}>\s*)?(?:\[?request interrupted by (?:the )?user"
    r"|(?:the )?user (?:aborted|cancel|declined|denied|rejected|refused|doesn't want|chose not)"
    r"|request was aborted|this command requires approval"
    r"|(?:command|tool) (?:execution )?(?:was )?(?:aborted|cancell?ed|interrupted|rejected) by"
    r" (?:the )?user|permission (?:for this action )?(?:was |has been )?denied by)"
    r"|following part requires approval|you haven't granted it|action was rejected due to"
)
"""The words of agents for a call that was not allowed or was stopped."""


def _judge_result(
    result: SessionEvent, bodies: Mapping[int, str], action: str, shell: str
) -> tuple[bool, list[ErrorLine]]:
    """Return True if a result is reported as failed, and the lines of its errors, reported or
    hidden."""
    if (
        result.is_error
        or result.exit_code
        or (result.tests is not None and result.tests.failed)
        or bodies.get(result.seq, "").startswith(_TOOL_ERROR)
    ):
        return True, _find_reported_errors(result, bodies, action, shell)
    return False, _find_hidden_errors(result, bodies, shell) if action == "shell" else []


def _last_parts(paths: Sequence[str]) -> frozenset[str]:
    if not paths:
        return NO_FILES
    return frozenset([path.replace("\\", "/").rstrip("/").rpartition("/")[2] for path in paths])


def _build_lone(event: SessionEvent, bodies: Mapping[int, str]) -> Attempt:
    """Return the attempt of an error that belongs to no call."""
    body = bodies.get(event.seq) or event.summary or ""
    json_line = find_json_error(body)
    lines = [json_line] if json_line is not None else find_error_lines(body)
    if not lines and event.kind == "error":
        plain = pick_plain_line(body, from_end=False)
        # A single word is a status.
        lines = [plain] if plain is not None and " " in plain.text else []
    if _is_submission(event, body):
        lines = []
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
        signatures=_sign(lines),
    )


def _is_submission(event: SessionEvent, body: str) -> bool:
    """Return True for the end of a run that was given up: its status, or the patch it leaves."""
    status = f"{event.native or ''} {event.summary or ''}".lower()
    return "submitted" in status or body.startswith(("diff --git ", "--- a/"))


def _sign(lines: Iterable[ErrorLine]) -> tuple[Signature, ...]:
    signatures = {one.fingerprint: one for one in map(build_signature, lines)}
    return tuple(signatures.values())


def _parse(text: str) -> Command:
    return parse(text.strip()[:MAX_COMMAND_CHARS])


def _find_reported_errors(
    result: SessionEvent, bodies: Mapping[int, str], action: str, text: str
) -> list[ErrorLine]:
    """Return the lines of the errors of a result that is reported as failed, if it has any."""
    body = bodies.get(result.seq, "")
    data = parse_object(body) if not (result.tests and result.tests.failed) else None
    if data is not None and is_success(data):
        return []
    if data is not None and (line := find_object_error(data)) is not None:
        return [line]
    if action in _QUOTING:  # The tool's own message, above what it quotes.
        return _first_plain_line(body)
    if action == "shell":
        return _find_shell_errors(body, result.exit_code, text)
    # A result without a tool may be anything, so only a form of an error counts.
    return find_error_lines(body) or (_first_plain_line(body) if result.tool else [])


def _first_plain_line(body: str) -> list[ErrorLine]:
    line = pick_plain_line(body, from_end=False)
    return [line] if line is not None else []


def _find_shell_errors(body: str, code: int | None, text: str) -> list[ErrorLine]:
    """Return the errors of a command that is reported as failed."""
    lines, command = find_error_lines(body), _parse(text)
    if command.is_read_only and code is not None:
        return _find_read_error(lines, code, command)
    lines = [line for line in lines if _is_of_program(line, body, text)]
    return lines or _find_plain_error(body, code, text)


_QUOTING = frozenset({"edit", "read", "search"})
"""The actions of tools that say what went wrong first, and then quote what they were given."""


def _find_read_error(lines: list[ErrorLine], code: int, command: Command) -> list[ErrorLine]:
    """Return the error of a command that only reads.

    The text that it read may hold any word, and is not its error.
    """
    return [
        line
        for line in lines
        if line.kind == "shell"
        or line.text.partition(":")[0] in command.programs
        or (line.kind == "git" and code == 128)
    ]


def _is_of_program(line: ErrorLine, body: str, shell: str) -> bool:
    """Return True if a line is the message of a program.

    The command may have printed it itself, a person may have written it in the place of a result,
    and a pipe that was closed early is no fault.
    """
    if line.kind in ("message", "text", "http"):
        return (
            line.text not in shell
            and _WORDS.search(_ERROR_WORD.sub("", line.text)) is not None
            and not (_SPEECH.match(line.text) and count_lines(body) <= _MAX_SHORT_LINES)
        )
    return not (line.kind == "shell" and "broken pipe" in line.text.lower() and "|" in shell)


_ERROR_WORD = re.compile(r"(?i)\b(?:error|fail(?:ed|ure)?|fatal|exception|exit code)\b")
_WORDS = re.compile(r"[^\W\d_]{2}")
_SPEECH = re.compile(
    r"(?i)(?:(?:i|i'm|i'd|we|you|please|let's|wait|nope|yes|ok|okay|can you|could you|why|what|how"
    r"|don't|so|actually|hmm+|maybe|should|but|and|also|no(?=[,.!]))\b[ ,.!].{8,}|.{10,}\?)\Z"
)
"""The words of a person, which some agents record as the result of a refused call."""


def _find_plain_error(body: str, code: int | None, shell: str) -> list[ErrorLine]:
    """Return the last line of a short output as the error of a command that reports a code.

    Without a code it may be anything, and in a longer output it is any line of a report.
    """
    lines = count_lines(body)
    if code is None or code in _INTERRUPTED or lines > _MAX_SHORT_LINES:
        return []
    if not lines:
        return _exit_line(code, _parse(shell))
    line = pick_plain_line(body, from_end=True)
    return [line] if line is not None and _is_of_program(line, body, shell) else []


def _exit_line(code: int, command: Command) -> list[ErrorLine]:
    """Return the exit code as the error of a single command that printed nothing.

    That of several may be the answer to a question, like `test -d x && make`.
    """
    if len(command.programs - {"cd"}) != 1 or command.is_read_only or not command.heads:
        return []
    message = f"exit code {code} from {command.heads[-1]}"
    return [ErrorLine("exit", message, message)]


_INTERRUPTED = frozenset({130, 137, 143})
"""The exit codes of commands that were stopped from outside."""


_PROVING_KINDS = ("exception", "test", "compile", "shell", "git")


def _find_hidden_errors(
    result: SessionEvent, bodies: Mapping[int, str], text: str
) -> list[ErrorLine]:
    """Return the errors of a result whose status was not reported.

    Text that a command read may hold anything, so it is no error. Nearly every call that went well
    comes through here, so the cheap checks come first.
    """
    if result.exit_code == 0 and not _may_hide_status(text):
        return []
    if result.tests is not None and result.tests.failed == 0 and result.tests.passed:
        return []
    body = bodies.get(result.seq, "")
    if not body or not may_hold_proof(body):
        return []
    command = _parse(text)
    if command.is_read_only or (result.exit_code == 0 and not command.hides_status):
        return []
    return [
        line
        for line in find_error_lines(body, proof=True)
        if line.is_strong
        and line.kind in _PROVING_KINDS
        and _is_near_end(line, body)
        and _is_of_program(line, body, text)
    ]


def _may_hide_status(text: str) -> bool:
    return "|" in text or ";" in text or "\n" in text


def _is_near_end(line: ErrorLine, body: str) -> bool:
    """Return True if the line is among the last of the output.

    Further up it may be part of a log or a report.
    """
    return line.text.partition("\n")[0][:80] in body.rstrip()[-NEAR_END:]


def _link_continued(attempts: list[Attempt]) -> list[Attempt]:
    """Give a shell call without a command the command whose remaining output it asks for.

    If the call names a running process, it is that one's, else the last one's.
    """
    running: Attempt | None = None
    processes: dict[str, Attempt] = {}
    for n, attempt in enumerate(attempts):
        if attempt.action != "shell" or attempt.result is None:
            continue
        if attempt.shell.strip():
            is_running = attempt.result.exit_code is None and not attempt.failed
            running = attempt if is_running else None
            if running and (process := _find_process(attempt)):
                processes[process] = attempt
            continue
        begun = processes.get(_find_waited(attempt), running)
        if begun is not None:
            attempts[n] = _continue_attempt(begun, attempt)
            if attempt.result.exit_code is not None and begun is running:
                running = None
    return attempts


def _continue_attempt(begun: Attempt, attempt: Attempt) -> Attempt:
    signatures = () if begun.command.is_read_only else attempt.signatures
    return msgspec.structs.replace(
        attempt,
        start_seq=begun.seq,
        shell=begun.shell,
        files=begun.files,
        signatures=signatures,
        failed=attempt.failed and bool(signatures),
    )


def _find_process(attempt: Attempt) -> str:
    """Return the number of the process that a command left running."""
    match = _PROCESS.search(attempt.bodies.get(attempt.end_seq, "")[:400])
    return match[1] if match else ""


def _find_waited(attempt: Attempt) -> str:
    """Return the number of the process that a call without a command names."""
    match = _WAITED.match((attempt.call.summary if attempt.call else None) or "")
    return match[1] if match else ""


_PROCESS = re.compile(r"(?i)running with session (?:id )?(\w{1,40})")
_WAITED = re.compile(r"session (\w{1,40})\Z")
