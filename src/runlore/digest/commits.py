"""What git and its servers report of what was made: commits by name and subject, pull requests by address.

Only what is reported counts, and only to a command that makes such things: a log that was looked at names commits of others.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache

MAKERS = frozenset({"commit", "cherry-pick", "revert"})
TELLERS = MAKERS | {"rebase", "merge"}  # These go on after a conflict by a commit, and else only name those of others.

NAME = re.compile(r"\b[0-9a-f]{7,40}\b(?!\.\.)")
"""Of a commit. Of `old..new`, which a push prints, the new one."""
MOST_LINES = 200
_DECORATION = re.compile(r"^\([^)]*\) ")  # What git adds: `(HEAD -> main)`.
# What may not stand in front of it is asked after it, in these: so a search goes from word to word.
_NAMED = re.compile(r"([0-9a-f](?<!\w.)[0-9a-f]{6,39})\b(?!\.\.)(.*)")
"""The first name of each line, and what follows it."""
_COMMANDS = re.compile(r"git(?<!\wgit)\s+([^\n;&|]{1,400})")
_REPORT = re.compile(r"\n\[[^\]\n]* ([0-9a-f]{4,40})\] ([^\n]*)")
_REQUEST = re.compile(r"https?://[^\s\"'<>)\]]{3,200}/(?:pull|pulls|merge_requests|pull-requests)/\d{1,9}\b")
_MAKES_REQUEST = re.compile(
    r"(?:gh(?<!\wgh)\s+pr\s+create|glab(?<!\wglab)\s+mr\s+create|hub(?<!\whub)\s+pull-request|tea(?<!\wtea)\s+pr\s+create)\b"
    r"|create_(?:pull|merge)_request"
)


@lru_cache(maxsize=16)
def verbs(command: str) -> frozenset[str]:
    """What git is told to do by a shell command. Of the same one it is asked two or three times."""
    return frozenset({_verb(found[1].split()) for found in _COMMANDS.finditer(command)})


def may_tell(command: str) -> bool:
    """Asked of every command: a word that is not there is found out a hundred times as fast as what git is told."""
    return "git" in command and (
        "commit" in command or "merge" in command or "rebase" in command or "revert" in command or "cherry-pick" in command
    )


def reported(command: str, output: Callable[[], str]) -> list[tuple[str, str]]:
    """The commits that git says it made, `[main 1a2b3c4] Subject`: (name, subject). The output is asked for when it matters."""
    if not may_tell(command) or not verbs(command) & TELLERS:
        return []
    return [(name, subject.strip()) for name, subject in _REPORT.findall(f"\n{output()}")]


def told(command: str, output: str) -> list[tuple[str, str]]:
    """Of a command that makes commits quietly: those that it prints afterwards, `1a2b3c4 Subject`, with the subject that it gave them."""
    if not verbs(command) & MAKERS:
        return []
    named = _NAMED.findall("\n".join(output.splitlines()[:MOST_LINES]))
    found = [(name, _DECORATION.sub("", rest.strip(), count=1)) for name, rest in named]
    return [(name, subject) for name, subject in found if subject and _gives(command, subject)]


def _gives(command: str, subject: str) -> bool:
    """Whether the command has this as a line, or between quotes."""
    # Nearly none is there at all, which is found out without a pattern of its own for each.
    return subject in command and re.search(rf"(?:^|[\"'\n]){re.escape(subject)}(?:$|[\"'\n])", command) is not None


def requested(output: str) -> str | None:
    """The address of the pull request that was opened, in what the command that opens one printed."""
    found = _REQUEST.search(output)
    return found[0] if found else None


def requests(called: str) -> bool:
    """Whether a command, or a tool of this name, opens a pull request."""
    return ("create" in called or "pull-request" in called) and _MAKES_REQUEST.search(called) is not None


def _verb(words: list[str]) -> str:
    """What git is told to do by these words: its options may stand in front."""
    at = 0
    while at < len(words) and words[at].startswith("-"):
        at += 2 if words[at] in ("-C", "-c") else 1
    return words[at] if at < len(words) else ""
