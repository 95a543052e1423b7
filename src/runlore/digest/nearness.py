"""The edits and commands that have to do with an error, by the names that both have."""

from __future__ import annotations

import re
from collections.abc import Sequence

from . import Signature
from .attempts import Attempt
from .command_files import changed_files
from .shell_commands import Command, installs, only_commits


def find_names(text: str) -> set[str]:
    """Return the names of a text that may tell code from code."""
    return {name for name in _IDENTIFIERS.findall(text[:8000]) if name.lower() not in _COMMON}


def find_quoted_names(text: str) -> set[str]:
    """Return the names that an error puts in quotes, which are what it is about."""
    names = {name for part in _QUOTED.findall(text) for name in _IDENTIFIERS.findall(part)}
    return names | {name for rule in _RULE.findall(text) for name in rule if name}


_QUOTED = re.compile(r"(?<!\w)['\"`‘“]([^'\"`’”]{2,80})['\"`’”](?!\w)")
_RULE = re.compile(r"\((\w{4,40})\)\Z|\blint/\w+/(\w+)")
_IDENTIFIERS = re.compile(r"[A-Za-z_$][\w$]{2,}")
_COMMON = frozenset(
    "error errors the and for not with from this that type test tests failed fail import function"
    " const let var def class return self true false null none string expected got value name file"
    " module line assert assertionerror typeerror warning object has have attribute".split()
)


def rate_nearness(edit: Attempt, failed: Attempt, signature: Signature, output: str) -> int:
    """Return how near an edit is to an error: 3 if the error names its file, 2 if the output or the
    command does, 1 if they name a file like it."""
    names = [name for name in edit.files if name]
    if any(name in signature.sample for name in names):
        return 3
    if any(name in output or name in failed.text for name in names):
        return 2
    mentioned = {_stem(name) for name in _FILES.findall(output[:20_000])}
    return int(any(_stem(name) in mentioned for name in names))


_FILES = re.compile(r"(?<![\w.-])[\w.-]{2,80}\.[A-Za-z]{1,5}(?=\W|$)")
_TEST_PARTS = re.compile(r"(?:^test_|_test$|[._-]test$|[._-]spec$|Tests?$)")


def _stem(name: str) -> str:
    """Return a file name without extension and test marks, the same for a file and its tests."""
    return _TEST_PARTS.sub("", name.rpartition(".")[0])


def find_places(text: str) -> dict[str, int]:
    """Return the files of which a text names a line, by the last part of their paths."""
    return {match[1]: int(match[2]) for match in _PLACES.finditer(text[:20_000])}


def strip_places(text: str) -> str:
    """Return a text without the files and lines that it names."""
    return _PLACES.sub(" ", text)


_PLACES = re.compile(
    r"(?<![\w@.+~/\\-])(?:[\w@.+~-]*[/\\])*([\w@.+-]{1,80}\.[A-Za-z]{1,5})"
    r"(?:\", line |:|\()(\d{1,6})(?![\w.])(?:[:,]\d{1,6})?\)?"
)


def changes_files(attempt: Attempt) -> bool:
    """Return True for a command that edits files or resolves their conflicts."""
    return _RESOLVES.search(attempt.shell) is not None or bool(changed_files(attempt.shell))


_RESOLVES = re.compile(
    r"\bgit (?:checkout|restore)\b.* --(?:ours|theirs)\b|\bgit (?:apply|am)\b|\bapply_patch\b"
)


def rank_commands(between: Sequence[Attempt], signature: Signature) -> list[tuple[int, Attempt]]:
    """Return the commands that may have helped with their ranks, the likeliest first."""
    ranked = [
        (rank, attempt)
        for attempt in between
        if attempt.action == "shell"
        and attempt.result
        and not attempt.result.exit_code
        and (rank := rank_command(attempt.command, signature))
    ]
    ranked.sort(key=lambda entry: (entry[0], entry[1].seq), reverse=True)
    return ranked


def rank_command(command: Command, signature: Signature) -> int:
    """Return 3 for a command that installs what an error names, 2 for one that installs something
    where something is missing, 1 for any other that may have changed something, and else 0."""
    if not command.changes or only_commits(command):
        return 0
    if not installs(command):
        return 1
    if (find_names(signature.sample) | {signature.name}) & find_names(command.key):
        return 3
    return 2 if _MISSING.search(signature.sample) is not None else 1


_MISSING = re.compile(
    r"(?i)not found|no module named|cannot find (?:module|package)|not installed|missing"
    r"|unable to (?:locate|resolve)|could not (?:resolve|find)|no such file"
)
