"""What was done: files, commands, tests, commits and pull requests, as the events tell."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import msgspec

from ..model import CommandRun, Commit, Moment, SlowCommand, TestRun, shorten
from . import commits as git
from .attempts import Attempt

LONG_MS = 30_000
"""A command that takes as long is one that a person would not wait for."""


class Work(msgspec.Struct):
    """All of it, each in the order in which it was first met."""

    read: dict[str, None] = msgspec.field(default_factory=dict)
    edited: dict[str, int] = msgspec.field(default_factory=dict)
    """And how often."""
    created: dict[str, None] = msgspec.field(default_factory=dict)
    commands: dict[str, CommandRun] = msgspec.field(default_factory=dict)
    tests: list[TestRun] = msgspec.field(default_factory=list)
    took: dict[str, SlowCommand] = msgspec.field(default_factory=dict)
    commits: dict[str, Commit] = msgspec.field(default_factory=dict)
    pull_requests: dict[str, Moment] = msgspec.field(default_factory=dict)


def work_in(attempts: Sequence[Attempt], bodies: Mapping[int, str]) -> Work:
    work = Work()
    for attempt in attempts:
        action = attempt.action
        if attempt.is_refused:
            continue
        if action == "shell":
            _command(work, attempt, bodies)
        elif action == "read" and attempt.call is not None and not attempt.failed:
            work.read.update(dict.fromkeys(attempt.call.files))
        elif action == "edit" and attempt.call is not None and not attempt.failed:
            _edit(work, attempt, bodies)
        elif action == "mcp" and attempt.call is not None and git.requests(attempt.call.tool or ""):
            _request(work, attempt, bodies)
    return work


def _edit(work: Work, attempt: Attempt, bodies: Mapping[int, str]) -> None:
    assert attempt.call is not None
    body = bodies.get(attempt.call.seq, "")
    for path in attempt.call.files:
        work.edited[path] = work.edited.get(path, 0) + 1
        if work.edited[path] > 1:
            continue
        if path not in work.read and _only_adds(body, path):
            work.created[path] = None


def _only_adds(body: str, path: str) -> bool:
    """Whether what an edit says of a file are lines to add, and nothing beside them: so the file was not there, as far as was seen."""
    at = body.find(f"{path}\n@@")
    if at < 0:
        return False
    start, end = at + len(path) + 1, at + 20_000
    first = body.find("\n", start, end)
    if first < 0:
        return False
    other = _NOT_ADDED.search(body, first, end)
    # What follows is about another file, or is not there to be seen.
    return other is None or (other.start() > first and body[other.end() : end][:1] not in ("-", " ", "@"))


_NOT_ADDED = re.compile(r"\n(?!\+)")


def _command(work: Work, attempt: Attempt, bodies: Mapping[int, str]) -> None:
    call, result = attempt.call, attempt.result
    said = attempt.shell
    text = shorten(" ".join(said[:1000].split()))
    if call is None or not text:
        return
    if call.kind == "test_run":
        tests = result.tests if result else None
        work.tests.append(
            TestRun(
                seq=attempt.end_seq,
                command=text,
                passed=tests.passed if tests else None,
                failed=tests.failed if tests else None,
                skipped=tests.skipped if tests else None,
                is_error=attempt.failed,
            )
        )
    before = work.commands.get(text)
    code = result.exit_code if result is not None else None
    if before is None:  # Nearly all.
        work.commands[text] = CommandRun(seq=attempt.end_seq, command=text, failed=int(attempt.failed), exit_code=code)
    else:
        count, failed = before.count + 1, before.failed + attempt.failed
        work.commands[text] = CommandRun(seq=attempt.end_seq, command=text, count=count, failed=failed, exit_code=code)
    if result is None:
        return
    if result.duration_ms and result.duration_ms >= LONG_MS:
        known = work.took.get(text)
        is_longer = known is None or result.duration_ms / 1000 > known.seconds / known.count
        work.took[text] = SlowCommand(
            seq=result.seq if known is None or is_longer else known.seq,
            command=text,
            seconds=round((known.seconds if known else 0.0) + result.duration_ms / 1000, 3),
            count=(known.count if known else 0) + 1,
        )
    for sha, subject in _commits(attempt, bodies) if git.may_tell(said) else ():
        work.commits[sha] = Commit(seq=result.seq, sha=sha, subject=shorten(subject))
    if git.requests(said):
        _request(work, attempt, bodies)


def _commits(attempt: Attempt, bodies: Mapping[int, str]) -> list[tuple[str, str]]:
    command = attempt.shell
    made = git.reported(command, lambda: bodies.get(attempt.end_seq, ""))
    if made or attempt.failed or "commit" not in command:
        return made
    return git.told(command, bodies.get(attempt.end_seq, ""))


def _request(work: Work, attempt: Attempt, bodies: Mapping[int, str]) -> None:
    result = attempt.result
    if result is not None and (url := git.requested(bodies.get(result.seq, ""))):
        work.pull_requests.setdefault(url, Moment(result.seq, url))
