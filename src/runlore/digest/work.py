"""The work of a session: files, commands, tests, commits and pull requests."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import msgspec

from ..adapters.shared.tools import counts_packages
from ..model import CommandRun, Commit, Moment, SessionEvent, SlowCommand, TestRun, shorten
from . import commits as git
from .attempts import Attempt
from .command_files import MAY_WRITE, changed_files, shown_files
from .paths import Root

MIN_SLOW_MS = 30_000
"""The duration from which a command counts as slow: a person would not wait for it."""
_MAX_DIFF_CHARS = 20_000


class Work(msgspec.Struct):
    """All work of a session, each kind in the order of first occurrence."""

    read: dict[str, None] = msgspec.field(default_factory=dict)
    edited: dict[str, int] = msgspec.field(default_factory=dict)
    """The number of edits by path."""
    created: dict[str, None] = msgspec.field(default_factory=dict)
    commands: dict[str, CommandRun] = msgspec.field(default_factory=dict)
    tests: list[TestRun] = msgspec.field(default_factory=list)
    slow: dict[str, SlowCommand] = msgspec.field(default_factory=dict)
    commits: dict[str, Commit] = msgspec.field(default_factory=dict)
    pull_requests: dict[str, Moment] = msgspec.field(default_factory=dict)


def find_work(attempts: Sequence[Attempt], bodies: Mapping[int, str], root: Root) -> Work:
    """Return the work of all attempts that were not refused. Paths are relative to the root."""
    work = Work()
    for attempt in attempts:
        action = attempt.action
        if attempt.is_refused:
            continue
        if action == "shell":
            commands = iter_commands(attempt.shell)
            _add_commands(work, attempt, commands, bodies)
            _add_command_files(work, attempt, commands, root)
        elif action == "read" and attempt.call is not None and not attempt.failed:
            paths = [root.relative(path, attempt.call.cwd) for path in attempt.call.files]
            work.read.update(dict.fromkeys(path for path in paths if path != "."))
        elif action == "edit" and attempt.call is not None and not attempt.failed:
            _add_edit(work, attempt.call, bodies, root)
        elif action == "mcp" and attempt.call is not None:
            _add_pull_request(work, attempt, attempt.call.tool or "", bodies)
    return work


def _add_edit(work: Work, call: SessionEvent, bodies: Mapping[int, str], root: Root) -> None:
    body = bodies.get(call.seq, "")
    for name in call.files:
        path = root.relative(name, call.cwd)
        is_first = path not in work.edited
        work.edited[path] = work.edited.get(path, 0) + 1
        if is_first and path not in work.read and _only_adds(body, name):
            work.created[path] = None


def _add_command_files(work: Work, attempt: Attempt, commands: list[str], root: Root) -> None:
    """Add the files of the repository that a command shows or changes. They count as no edit,
    because the text of a command does not tell how much it changes."""
    if attempt.call is None or attempt.failed:
        return
    for command in commands:
        for name in shown_files(command):
            path = root.relative(name, attempt.call.cwd)
            if root.has(path) and not _IN_GIT.search(path):
                work.read[path] = None
        may_write = MAY_WRITE.search(command.encode("utf-8", "replace"))
        for name in changed_files(command) if may_write else ():
            path = root.relative(name, attempt.call.cwd)
            if root.has(path) and not _NO_SOURCE.search(path):
                if path not in work.edited and path not in work.read and _writes(command, name):
                    work.created[path] = None
                work.edited.setdefault(path, 0)


def _writes(command: str, name: str) -> bool:
    """Return True if a command writes a whole file, as `cat > a.py << EOF` does."""
    return any(
        (match[1] or match[2]).strip("'\"").endswith(name) for match in _WHOLE.finditer(command)
    )


_WHOLE = re.compile(
    r"(?m)\bcat\s*>\s*([^\s<>|;&]{1,300})\s*<<|\bcat\s*<<[^\s<>|;&]{1,40}\s*>\s*([^\s<>|;&]{1,300})"
)


_IN_GIT = re.compile(r"(?:^|/)\.git(?:/|$)")
_NO_SOURCE = re.compile(
    r"(?:^|/)(?:\.git|node_modules|\.venv|dist|build|target|__pycache__)(?:/|$)"
    r"|\.(?:log|out|err|pid|tmp|bak|backup|egg-info)$"
)
"""Files that a command writes and nobody would call a change of the repository."""


def _only_adds(body: str, path: str) -> bool:
    """Return True if an edit gives a file all of its lines, so that it probably did not exist.

    A hunk with line numbers, other than those of a new file, changes a part of one that does. An
    empty file has no hunk.
    """
    at = body.find(f"{path}\n@@")
    if at < 0:
        return body == path
    start, end = at + len(path) + 1, at + _MAX_DIFF_CHARS
    if body[start : start + 10].partition("\n")[0] not in ("@@", "@@ -0,0 +1"):
        return False
    first = body.find("\n", start, end)
    if first < 0:
        return False
    other = _NOT_ADDED.search(body, first, end)
    # What follows is about another file, or is cut off.
    return other is None or (
        other.start() > first and body[other.end() : end][:1] not in ("-", " ", "@")
    )


_NOT_ADDED = re.compile(r"\n(?!\+)")


def _add_commands(
    work: Work, attempt: Attempt, commands: list[str], bodies: Mapping[int, str]
) -> None:
    call, result = attempt.call, attempt.result
    texts = [shorten(" ".join(command[:1000].split())) for command in commands]
    if call is None or not any(texts):
        return
    text = texts[0] if len(texts) == 1 else shorten("; ".join(texts))
    if call.kind == "test_run":
        work.tests.append(_test_run(attempt, text, bodies))
    for each in texts:
        _count_run(work, attempt, each, failed=attempt.failed and len(texts) == 1)
    if result is None:
        return
    if result.duration_ms and result.duration_ms >= MIN_SLOW_MS:
        _add_slow(work, text, result.seq, result.duration_ms / 1000)
    for sha, subject in _find_commits(attempt, bodies) if git.may_commit(attempt.shell) else ():
        # Commits without a name are told apart by where they were made.
        name = sha or f"{result.seq} {subject}"
        work.commits[name] = Commit(seq=result.seq, sha=sha, subject=shorten(subject))
    _add_pull_request(work, attempt, attempt.shell, bodies)


def iter_commands(shell: str) -> list[str]:
    """Return the commands of a shell call.

    Some agents run commands from a program of their own: its other calls are no commands, and
    neither are arguments that only name a shell, to wait for it or to stop it.
    """
    if _PROGRAM.match(shell):
        found = (match[1] or match[2] or match[3] for match in _PROGRAM_COMMAND.finditer(shell))
        return [_ESCAPED.sub(r"\1", command.replace("\\n", "\n")) for command in found]
    return [] if _ARGUMENTS.match(shell) else [shell]


_PROGRAM = re.compile(
    r"\s*(?:const|let|var|await|async|function)\s"
    r"|\s*(?://|text\(|for \(|return )[^\0]*\b(?:tools\.|ALL_TOOLS)"
)
_PROGRAM_COMMAND = re.compile(
    r"""\b(?:cmd|command)['"]?:\s*(?:"((?:[^"\\]|\\.)*)"|'((?:[^'\\]|\\.)*)'|`((?:[^`\\]|\\.)*)`)"""
)
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)
_ARGUMENTS = re.compile(r"\s*\w+: ")


def _test_run(attempt: Attempt, text: str, bodies: Mapping[int, str]) -> TestRun:
    """Return a run of tests. How many tests are in the packages that passed is not known."""
    tests = attempt.result.tests if attempt.result else None
    if tests is not None and counts_packages(bodies.get(attempt.end_seq, "")):
        tests = None
    return TestRun(
        seq=attempt.end_seq,
        command=text,
        passed=tests.passed if tests else None,
        failed=tests.failed if tests else None,
        skipped=tests.skipped if tests else None,
        is_error=attempt.failed,
    )


def _count_run(work: Work, attempt: Attempt, text: str, *, failed: bool) -> None:
    before = work.commands.get(text)
    work.commands[text] = CommandRun(
        seq=attempt.end_seq,
        command=text,
        count=(before.count if before else 0) + 1,
        failed=(before.failed if before else 0) + failed,
        exit_code=attempt.result.exit_code if attempt.result is not None else None,
    )


def _add_slow(work: Work, text: str, seq: int, seconds: float) -> None:
    known = work.slow.get(text)
    if known is None:
        work.slow[text] = SlowCommand(seq=seq, command=text, seconds=round(seconds, 3))
        return
    is_slowest = seconds > known.seconds / known.count
    work.slow[text] = SlowCommand(
        seq=seq if is_slowest else known.seq,
        command=text,
        seconds=round(known.seconds + seconds, 3),
        count=known.count + 1,
    )


def _find_commits(attempt: Attempt, bodies: Mapping[int, str]) -> list[tuple[str, str]]:
    command, output = attempt.shell, bodies.get(attempt.end_seq, "")
    commits = git.find_reported_commits(command, lambda: output)
    if commits or attempt.failed or "commit" not in command:
        return commits
    if printed := git.find_printed_commits(command, output):
        return printed
    if attempt.result is None or attempt.result.exit_code != 0:
        return []
    return [("", subject) for subject in git.find_quiet_commits(command, output)]


def _add_pull_request(work: Work, attempt: Attempt, called: str, bodies: Mapping[int, str]) -> None:
    result = attempt.result
    if result is None or attempt.failed or not git.may_name_pull_request(called):
        return
    arguments = bodies.get(attempt.seq, "")
    if done := git.find_pull_request(called, arguments, bodies.get(result.seq, "")):
        work.pull_requests.setdefault(done, Moment(result.seq, done))
