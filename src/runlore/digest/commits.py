"""What git and its servers report of what was made: commits by name and subject, pull requests by address.

Only what is reported counts, and only to a command that makes such things: a log that was looked at names commits of others.
"""

from __future__ import annotations

import re
from collections.abc import Callable

MAKERS = frozenset({"commit", "cherry-pick", "revert"})
TELLERS = MAKERS | {"rebase", "merge"}  # These go on after a conflict by a commit, and else only name those of others.

NAME = re.compile(r"\b[0-9a-f]{7,40}\b(?!\.\.)")
"""Of a commit. Of `old..new`, which a push prints, the new one."""
MOST_LINES = 200
_DECORATION = re.compile(r"^\([^)]*\) ")  # What git adds: `(HEAD -> main)`.
_COMMANDS = re.compile(r"\bgit\s+([^\n;&|]{1,400})")
_REPORT = re.compile(r"^\[[^\]\n]* ([0-9a-f]{4,40})\] ([^\n]*)", re.MULTILINE)
_REQUEST = re.compile(r"https?://[^\s\"'<>)\]]{3,200}/(?:pull|pulls|merge_requests|pull-requests)/\d{1,9}\b")
_MAKES_REQUEST = re.compile(
    r"\b(?:gh\s+pr\s+create|glab\s+mr\s+create|hub\s+pull-request|tea\s+pr\s+create)\b|create_(?:pull|merge)_request"
)


def verbs(command: str) -> set[str]:
    """What git is told to do by a shell command."""
    return {_verb(found[1].split()) for found in _COMMANDS.finditer(command)}


def reported(command: str, output: Callable[[], str]) -> list[tuple[str, str]]:
    """The commits that git says it made, `[main 1a2b3c4] Subject`: (name, subject). The output is asked for when it matters."""
    # Asked of every command: a word that is not there is found out a hundred times as fast as what git is told.
    if "git" not in command or not any(word in command for word in TELLERS) or not verbs(command) & TELLERS:
        return []
    return [(found[1], found[2].strip()) for found in _REPORT.finditer(output())]


def told(command: str, output: str) -> list[tuple[str, str]]:
    """Of a command that makes commits quietly: those that it prints afterwards, `1a2b3c4 Subject`, with the subject that it gave them."""
    if not verbs(command) & MAKERS:
        return []
    lines = ((NAME.search(line), line) for line in output.splitlines()[:MOST_LINES])
    found = [(name[0], _DECORATION.sub("", line[name.end() :].strip(), count=1)) for name, line in lines if name]
    return [(name, subject) for name, subject in found if subject and _gives(command, subject)]


def _gives(command: str, subject: str) -> bool:
    """Whether the command has this as a line, or between quotes."""
    # Nearly none is there at all, which is found out without a pattern of its own for each.
    return subject in command and re.search(rf"(?:^|[\"'\n]){re.escape(subject)}(?:$|[\"'\n])", command) is not None


def requested(called: str, output: Callable[[], str]) -> str | None:
    """The address of the pull request that a command, or a tool of this name, has opened."""
    if not _requests(called):
        return None
    found = _REQUEST.search(output())
    return found[0] if found else None


def _requests(called: str) -> bool:
    """Whether a command, or a tool of this name, opens a pull request."""
    return ("create" in called or "pull-request" in called) and _MAKES_REQUEST.search(called) is not None


def _verb(words: list[str]) -> str:
    """What git is told to do by these words: its options may stand in front."""
    at = 0
    while at < len(words) and words[at].startswith("-"):
        at += 2 if words[at] in ("-C", "-c") else 1
    return words[at] if at < len(words) else ""
