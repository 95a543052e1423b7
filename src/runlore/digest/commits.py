"""Reports of git and its servers: commits by name and subject, pull requests by address.

Reported commits count only in the output of a command that creates them: the log of a repository
names the commits of others. A command that reports nothing and succeeds has made the commit that
its message describes.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache

COMMITTING = frozenset({"commit", "cherry-pick", "revert"})
# These continue after a conflict by a commit, and else only name those of others.
REPORTING = COMMITTING | {"rebase", "merge"}

COMMIT_NAME = re.compile(r"\b[0-9a-f]{7,40}\b(?!\.\.)")
"""The name of a commit. Of `old..new`, which a push prints, the new one."""
MAX_LINES = 200
_DECORATION = re.compile(r"^\([^)]*\) ")  # Added by git: `(HEAD -> main)`.
# Lookbehinds stand after the word in these patterns, so that a search goes from word to word.
_FIRST_NAME = re.compile(r"([0-9a-f](?<![\w.].)[0-9a-f]{6,39})\b(?!\.\.)(.*)")
"""The first commit name of each line, and what follows it. The digits of a fraction are none."""
_COMMANDS = re.compile(r"git(?<!\wgit)\s+([^\n;&|]{1,400})")
_REPORT = re.compile(r"(?:\n|\\n|: \")\[[^\]\n\"]* ([0-9a-f]{4,40})\] ((?:[^\n\\]|\\[^n])*)")
"""A report of git. Some agents show output as JSON."""
_WORD = re.compile(r"[^\W\d_]{2}")
_PULL_REQUEST = re.compile(
    r"https?://[^\s\"'<>)\]]{3,200}/(?:pull|pulls|merge_requests|pull-requests)/\d{1,9}\b"
)
_PULL_REQUEST_CALL = re.compile(
    r"(?:gh(?<!\wgh)\s+pr|glab(?<!\wglab)\s+mr|tea(?<!\wtea)\s+pr)"
    r"\s+(create|new|merge|comment|note|review|close|approve)\b(?:\s+[#!]?([1-9]\d{0,8})\b)?"
    r"|hub(?<!\whub)\s+(pull-request)\b"
    r"|(?:^|_)(create|merge|comment|review|close|approve)(?:_on)?_(?:pull|merge)_request"
)
_DONE_TO_IT = {
    "create": "opened", "new": "opened", "pull-request": "opened", "merge": "merged",
    "comment": "commented", "note": "commented", "review": "reviewed", "close": "closed",
    "approve": "approved",
}  # fmt: skip
_NUMBER = re.compile(
    r"(?:pull request|merge request|\bpr|\bmr|pullnumber|pull_number)\"?:?\s*(?:\S+/\S+)?[#!]?"
    r"([1-9]\d{0,8})\b",
    re.IGNORECASE,
)


@lru_cache(maxsize=16)
def git_verbs(command: str) -> frozenset[str]:
    """Return the git subcommands of a shell command."""
    return frozenset({_verb(match[1].split()) for match in _COMMANDS.finditer(command)})


def may_commit(command: str) -> bool:
    """Return False for a command that cannot report commits.

    This fast check rules out most commands.
    """
    return "git" in command and (
        "commit" in command
        or "merge" in command
        or "rebase" in command
        or "revert" in command
        or "cherry-pick" in command
    )


def find_reported_commits(command: str, output: Callable[[], str]) -> list[tuple[str, str]]:
    """Return (name, subject) of the commits that git says it made, as in `[main 1a2b3c4] Subject`.

    The output is only fetched for a command that may report commits.
    """
    if not may_commit(command) or not git_verbs(command) & REPORTING:
        return []
    return [(name, subject.strip()) for name, subject in _REPORT.findall(f"\n{output()}")]


def find_printed_commits(command: str, output: str) -> list[tuple[str, str]]:
    """Return (name, subject) of the commits that a quiet command prints afterwards.

    They look like `1a2b3c4 Subject`, and count if the command itself contains their subject.
    """
    if not git_verbs(command) & COMMITTING:
        return []
    lines = _FIRST_NAME.findall("\n".join(output.splitlines()[:MAX_LINES]))
    commits = [(name, _DECORATION.sub("", rest.strip(), count=1)) for name, rest in lines]
    return [
        (name, subject)
        for name, subject in commits
        if _WORD.search(subject) and _has_subject(command, subject)
    ]


def find_quiet_commits(command: str, output: str) -> list[str]:
    """Return the subjects of the commits that a command made without a report.

    The command has succeeded. A commit in a repository that it creates first is an experiment.
    """
    verbs = git_verbs(command)
    if "commit" not in verbs or "init" in verbs or _NOT_COMMITTED.search(output):
        return []
    return [" ".join(match[match.lastindex or 0].split()) for match in _MESSAGE.finditer(command)]


_MESSAGE = re.compile(
    r"\bcommit\b[^\n;&|]{0,200}?\s(?:-\w{0,4}[mF]|--message|--file)[\s=]{0,3}"
    r"(?:(?:\"\$\(cat |- ?)<<-?\s?['\"]?\w+['\"]?\n\s*([^\n]+)"
    r"|\"(?!\$)([^\"\n]+)|'([^'\n]+)|(?<=m )(\w\S*))"
)
"""The first line of a message of `git commit`: from a document in the command, between quotes, or
one word."""
_NOT_COMMITTED = re.compile(
    r"nothing (?:added )?to commit|no changes added|^(?:fatal|error): |pre-commit"
    r"|hook (?:failed|exited)",
    re.MULTILINE,
)


def _has_subject(command: str, subject: str) -> bool:
    """Return True if the command has this as a line, or between quotes."""
    # The fast check first, because a pattern of its own for each subject is slow.
    return (
        subject in command
        and re.search(rf"(?:^|[\"'\n]){re.escape(subject)}(?:$|[\"'\n])", command) is not None
    )


def find_pull_request(called: str, arguments: str, output: str) -> str | None:
    """Return what a call did to a pull request, as in `merged #12` or `opened https://…/pull/12`.

    `called` is a command, or the name of a tool with its arguments. The number or address is in the
    call or in its output; None if it is in neither.
    """
    if not may_name_pull_request(called) or (call := _PULL_REQUEST_CALL.search(called)) is None:
        return None
    done = _DONE_TO_IT[call[1] or call[3] or call[4]]
    address = _PULL_REQUEST.search(arguments if done != "opened" else "")
    address = address or _PULL_REQUEST.search(output)
    if address is not None:
        return f"{done} {address[0]}"
    number = call[2] or next((m[1] for m in map(_NUMBER.search, (arguments, output)) if m), None)
    return f"{done} #{number}" if number and done != "opened" else None


def may_name_pull_request(called: str) -> bool:
    """Return False for nearly all calls, which do nothing to a pull request."""
    return any(word in called for word in (" pr ", " mr ", "pull-request", "_request"))


def _verb(words: list[str]) -> str:
    """Return the git subcommand. Options may stand before it."""
    at = 0
    while at < len(words) and words[at].startswith("-"):
        at += 2 if words[at] in ("-C", "-c") else 1
    return words[at] if at < len(words) else ""
