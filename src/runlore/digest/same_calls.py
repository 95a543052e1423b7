"""Tests for whether a later call repeats one that failed, unchanged or made differently.

Work of another kind with the same program is another call, and so is the same work in another
folder.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Set
from difflib import SequenceMatcher

from . import Signature
from .attempts import Attempt
from .changes import changed_words, likeness
from .proof import fails_to_load
from .shell_commands import Command, is_wrapper

NEAR = 6
"""Attempts within which a call that was made differently is taken for the same one."""
MIN_LIKENESS, MIN_SCRIPT_LIKENESS, MIN_NAMED_LIKENESS = 0.6, 0.75, 0.4
"""The share of equal words from which two calls are the same call, made differently: of any two, of
two scripts within a command, and of two of which the error names what differs."""


def match_calls(failed: Attempt, later: Attempt, signature: Signature, distance: int) -> str | None:
    """Return "same" for the same call, or how a call that was made differently is known to have the
    same purpose; None for other work."""
    if failed.call is None or later.call is None or failed.action != later.action:
        return None
    if failed.action == "shell":
        return _match_commands(failed, later, signature, distance)
    if failed.action == "edit":
        return _match_edits(failed, later)
    if failed.call.tool != later.call.tool:
        return None
    if failed.text == later.text:
        return "same"
    is_near = distance <= NEAR and bool(failed.text) and failed.action != "web"
    if not is_near:
        return None
    if failed.files:
        return "changed tool" if failed.files & later.files else None
    is_alike = likeness(failed.text, later.text) >= MIN_LIKENESS
    return "changed tool" if is_alike and not _has_other_target(failed, later) else None


def _has_other_target(failed: Attempt, later: Attempt) -> bool:
    """Return True if two calls of a tool are about different things, as in `task_id: 7`."""
    mine, other = (
        {match[1]: match[2] for match in _TARGETS.finditer(call.text)} for call in (failed, later)
    )
    return any(other.get(name, value) != value for name, value in mine.items())


_TARGETS = re.compile(
    r"(?im)^((?:\w+_?)?(?:id|ids|session|path|url|uri|ref|selector|target|key|task|cell|pid))"
    r"\s*[:=]\s*(.+)$"
)


def _match_edits(failed: Attempt, later: Attempt) -> str | None:
    """Return how an edit is known to be one that failed: it makes the same change to the file."""
    if not failed.files & later.files:
        return None
    if failed.text == later.text:
        return "same"
    mine, other = _added_lines(failed.text), _added_lines(later.text)
    shared = len(mine & other)
    return "changed edit" if shared and shared >= len(mine) / 2 else None


def _added_lines(diff: str) -> set[str]:
    return {line[1:].strip() for line in diff.splitlines() if line[:1] == "+" and line[1:].strip()}


def _match_commands(
    failed: Attempt, later: Attempt, signature: Signature, distance: int
) -> str | None:
    # One function, because the order of these tests is the rule.
    # Most commands share no word, and need not be parsed.
    if not _may_match(failed.command, later.shell, signature):
        return None
    mine, other = failed.command, later.command
    if not other.key or _gives_up(failed, later):
        return None
    if find_place(failed) != find_place(later):
        is_moved = distance <= NEAR and _ABOUT_PLACE.search(signature.sample) is not None
        return "changed place" if is_moved and mine.key == other.key else None
    if _is_same_command(failed, later) or (fails_to_load(signature) and _run_one_file(mine, other)):
        return "same"
    # A program that only a script calls is not what the command was to do.
    if _is_missing_program(signature) and signature.name in failed.text:
        return _match_missing(signature.name, mine, other, distance)
    if _is_test_run(failed):
        return "same" if _is_test_run(later) and _covers(other, mine, signature) else None
    return _match_changed(failed, later, signature) if distance <= NEAR else None


def _may_match(command: Command, text: str, signature: Signature) -> bool:
    return bool(command.key) and (_is_missing_program(signature) or _may_share_head(command, text))


def _is_missing_program(signature: Signature) -> bool:
    return signature.template.startswith("command not found: ")


def _is_test_run(attempt: Attempt) -> bool:
    return attempt.call is not None and attempt.call.kind == "test_run"


def _is_same_command(failed: Attempt, later: Attempt) -> bool:
    """Return True if two commands do the same, as far as their words tell."""
    mine, other = failed.command, later.command
    if "git commit" in mine.heads and "git commit" in other.heads:
        return True  # Its message makes no difference.
    if _has_script(failed, later):
        return mine.key == other.key and failed.text == later.text
    return mine.key == other.key or is_prepared(failed, later)


def _run_one_file(mine: Command, other: Command) -> bool:
    """Return True if two commands run the same file of code, whatever they tell it."""
    return any(_FILE_OF_CODE.search(head) for head in set(mine.heads) & set(other.heads))


_FILE_OF_CODE = re.compile(r" [\w.-]+\.(?:py|[cm]?[jt]sx?|rb|php|pl)\Z")


def _lacks_program_of_error(mine: Command, other: Command, signature: Signature) -> bool:
    """Return True if the program that reports the error, as in `perl: …`, is not run again."""
    program = signature.sample.partition(":")[0]
    return program in mine.programs and program not in other.programs


def _has_script(failed: Attempt, later: Attempt) -> bool:
    return _holds_script(failed.text) or _holds_script(later.text)


def _match_changed(failed: Attempt, later: Attempt, signature: Signature) -> str | None:
    """Return how a command with other words is known to have the same purpose."""
    mine, other = failed.command, later.command
    if not set(mine.heads) & set(other.heads) or _lacks_program_of_error(mine, other, signature):
        return None
    if _leaves_out(mine, other):
        return None
    alike = likeness(failed.text, later.text)
    if _has_script(failed, later):
        return "changed script" if alike >= MIN_SCRIPT_LIKENESS else None
    if alike >= MIN_NAMED_LIKENESS and has_named_change(signature, failed, later):
        return "changed named"
    is_alike = alike >= MIN_LIKENESS and not mine.is_read_only and _share_target(mine, other)
    return "changed alike" if is_alike and not _does_another_thing(mine, other) else None


def _does_another_thing(mine: Command, other: Command) -> bool:
    """Return True if the only thing that a command was about is not in the later one."""
    operands = _find_things(mine)
    return len(operands) == 1 and _lacks_one(operands, mine, other)


def _leaves_out(mine: Command, other: Command) -> bool:
    """Return True if a command does only a part of what the one that failed did: what it leaves out
    never succeeded."""
    operands = _find_things(mine)
    if mine.is_read_only or len(operands) < 2:
        return False
    return _lacks_one(operands, mine, other)


def _find_things(command: Command) -> set[str]:
    """Return what a command is about: its operands without subcommands and numbers."""
    heads = {word for head in command.heads for word in head.split()}
    return {word for word in command.operands - heads if not word.isdigit()}


def _lacks_one(operands: Set[str], mine: Command, other: Command) -> bool:
    """Return True if a command has one of these words neither as it was nor as a like one."""
    added = other.operands - mine.operands
    return any(
        not any(_is_like(word, one) or one in word for one in added)
        for word in operands - other.operands
    )


def _may_share_head(command: Command, text: str) -> bool:
    return any(all(word in text for word in head.split()) for head in command.heads)


def _share_target(mine: Command, other: Command) -> bool:
    """Return True if two commands name the same thing, whichever version of it."""
    heads = {word for command in (mine, other) for head in command.heads for word in head.split()}
    names, others = (
        {
            name
            for word in command.operands - heads
            if len(name := _VERSION.split(word)[0]) > 1  # `--verbosity 2` names nothing.
        }
        for command in (mine, other)
    )
    return bool(names & others - _SUBCOMMANDS) or names <= _SUBCOMMANDS


_VERSION = re.compile(r"[=<>~!@\[]")
_SUBCOMMANDS = frozenset("install add run test build i pip exec".split())


def _gives_up(failed: Attempt, later: Attempt) -> bool:
    """Return True for a call that asks for help or undoes the work, which is no success of it."""
    if "git stash" in failed.text:  # It showed the state before the work.
        return True
    return any(word in _GIVES_UP and word not in failed.text for word in later.text.split())


_GIVES_UP = frozenset(
    "--help -h help --version --abort --skip --quit --dry-run --collect-only --list stash".split()
)


def _holds_script(text: str) -> bool:
    """Return True for a command with a program in it: a here-document, or the text after `-c`."""
    return "<<" in text or _INLINE_CODE.search(text) is not None


_INLINE_CODE = re.compile(r"\b(?:python[\d.]*|node|ruby|perl|php|deno|bun)\s(?:-\S+\s+)*-[ce]\b")


_ABOUT_PLACE = re.compile(
    r"(?i)no such file|not found|not a git repo|does not exist|no rule to make|missing script"
    r"|could ?n[o']t (?:find|open|read)|cannot find|can't (?:find|open|read)|no matches found"
)


def find_place(attempt: Attempt) -> str:
    """Return the folder in which a command ran, as far as it is known."""
    cwd = (attempt.call.cwd if attempt.call else None) or ""
    folder = attempt.command.directory.strip("'\"")
    return posixpath.normpath(posixpath.join(cwd, folder)) if cwd or folder else ""


def _match_missing(program: str, mine: Command, other: Command, distance: int) -> str | None:
    """Return how a command is known to do what one with a missing program was to do.

    Either the program runs now, or another one does the same soon after.
    """
    if program in other.programs:
        return "same" if mine.key == other.key else None
    only_reads_now = other.is_read_only and not mine.is_read_only
    if distance > NEAR or only_reads_now:
        return None
    rest = mine.operands - {program}
    return "changed program" if rest and len(rest & other.operands) / len(rest) >= 0.5 else None


def _covers(other: Command, mine: Command, signature: Signature) -> bool:
    """Return True if a run of tests includes what failed, judged by the commands."""
    if not set(mine.heads) & set(other.heads):
        return False
    if other.selects and signature.kind == "test":
        pieces = [
            piece for selected in other.selects for piece in _NAME_PARTS.split(selected) if piece
        ]
        if not any(piece in signature.sample for piece in pieces):
            return False
    targets = other.operands - {"test", "run"} - frozenset(other.selects)
    return (
        not targets
        or "..." in targets
        or bool(targets & mine.operands)
        or any(target in signature.sample for target in targets)
    )


_NAME_PARTS = re.compile(r"[|,()\s^$'\"*.?]+")


def is_prepared(failed: Attempt, later: Attempt) -> bool:
    """Return True if the later command is the one that failed, after others in the same line."""
    return later.command.key.endswith(f" && {failed.command.key}")


def leaves_out_missing(signature: Signature, later: Attempt) -> bool:
    """Return True if a program was missing, and the later call does without it."""
    return (
        _is_missing_program(signature)
        and re.search(rf"\b{re.escape(signature.name)}\b", later.text) is None
    )


def has_named_change(signature: Signature, failed: Attempt, later: Attempt) -> bool:
    """Return True if the error names a word that only the failing call has.

    Of a command that only reads, it must have been replaced by a like one, and something else must
    be the same, the file or what is looked for: else other text was read.
    """
    removed, added = changed_words(failed.text, later.text)
    named = _find_named(removed, signature)
    if signature.kind == "shell" and named & {re.sub(r"['\"\\]", "", word) for word in added}:
        return True  # It was quoted.
    targets = [word.strip("'\"`;,()") for word in added if not word.startswith("-")]
    is_like = any(_is_like(word, target) for word in named for target in targets)
    mine, other = failed.command, later.command
    if mine.is_read_only:
        return is_like and (_has_same_file(named, targets) or _keeps_rest(mine, other, named))
    if is_like or not named or _only_swaps_target(removed, added):
        return is_like
    return not targets or len(mine.operands & other.operands) >= len(mine.operands) / 2


def _only_swaps_target(removed: list[str], added: list[str]) -> bool:
    """Return True if all that differs is what the call is about: the same was done elsewhere."""
    if len(removed) != 1 or len(added) != 1 or removed[0].startswith("-"):
        return False
    return not _is_like(removed[0], added[0])


def _has_same_file(named: set[str], targets: list[str]) -> bool:
    """Return True if a file was looked for in another folder."""
    names = {posixpath.basename(word) for word in named if "/" in word} - {""}
    return any(posixpath.basename(target) in names for target in targets)


def _find_named(words: list[str], signature: Signature) -> set[str]:
    """Return the words, or the values in them, that an error names."""
    return {
        part
        for word in words
        for part in {word.strip("'\"`;,()"), *_VALUES.findall(word)}
        if len(part) > 2 and " " not in word and part in signature.sample
    }


def _keeps_rest(mine: Command, other: Command, named: set[str]) -> bool:
    """Return True if most of what the error does not name is in the later command as well.

    Else something else was looked for in another place.
    """
    names = {posixpath.basename(word.rstrip("/")) for word in named} | named
    rest = {word for word in mine.operands if not any(word in name for name in names)}
    return bool(rest) and len(rest & other.operands) >= len(rest) / 2


def has_other_wrapper(failed: Attempt, later: Attempt) -> bool:
    """Return True if the same command was started differently: by another program or in another
    environment, as in `PYTHONPATH=. pytest` and `uv run pytest`."""
    if failed.command.key != later.command.key:
        return False
    removed, added = changed_words(failed.text, later.text)
    return any(is_wrapper(word) for word in (*removed, *added))


_VALUES = re.compile(r"--?[\w-]{2,}|[\w./@-]{4,}")


_ID = re.compile(r"\d+|\b[0-9a-f-]{7,}\b")


def _is_like(word: str, other: str) -> bool:
    """Return True if a word was quoted or corrected: the same file elsewhere, its folder, or nearly
    the same name."""
    if _ID.sub("", word) == _ID.sub("", other) and not _VERSION.search(word):
        return word == other  # The same thing with another number is another thing.
    if word in other or posixpath.basename(word) == posixpath.basename(other):
        return True
    is_folder = len(other) > 3 and word.startswith(f"{other.rstrip('/')}/")
    return is_folder or _is_misspelt(word, other)


def _is_misspelt(word: str, other: str) -> bool:
    """Return True if two words differ in a few letters at one place: `test_reader` and
    `test_writer` are two names of two things."""
    if SequenceMatcher(None, word, other).ratio() < MIN_WORD_LIKENESS:
        return False
    begin = len(posixpath.commonprefix((word, other)))
    rest, other_rest = word[begin:][::-1], other[begin:][::-1]
    end = len(posixpath.commonprefix((rest, other_rest)))
    return min(len(rest), len(other_rest)) - end <= MAX_MISSPELT_CHARS


MIN_WORD_LIKENESS, MAX_MISSPELT_CHARS = 0.8, 3
