"""Steps from an error to its end: which of the edits, commands and calls was the fix.

Each rule looks at what happened in between and returns the steps, the fix first, with the class of
evidence for it (`fixes.SHARES`), or None if it does not apply. The first rule that applies counts.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cached_property
from itertools import chain
from typing import NamedTuple

import msgspec

from ..model import shorten
from . import FixKind, Proof, Signature, Step
from .attempts import Attempt
from .changes import (
    adds_skip,
    changed_names,
    changed_words,
    count_changed_lines,
    deletes_test,
    explains_refusal,
    is_moved,
    is_replaced,
    likeness,
    only_adds_output,
    rate_edit,
    removed_lines,
)
from .nearness import (
    changes_files,
    find_names,
    find_places,
    find_quoted_names,
    rank_command,
    rank_commands,
    rate_nearness,
    strip_places,
)
from .proof import has_own_status
from .same_calls import (
    MIN_LIKENESS,
    has_named_change,
    has_other_wrapper,
    is_prepared,
    leaves_out_missing,
)
from .sections import find_section, find_source_lines
from .shell_commands import installs

MAX_STEPS = 8
MAX_NEAR_EDITS = 6
"""Edits above which it is not sure which of them mattered."""

Steps = tuple[tuple[Step, ...], str]
"""Steps, the fix first, and the class of evidence for it."""


class End(msgspec.Struct, frozen=True):
    """The run that no longer reports an error, and the one that proves it gone."""

    gone: int
    """The number of the first later run without the error."""
    proven: int
    proof: Proof | None
    evidence: str = ""
    """How a call that was made differently is known to be the same one, as in `fixes.SHARES`. Empty
    if it was made as before, so that something else must have changed."""


class Course(msgspec.Struct, frozen=True, dict=True):
    """What happened from an error to its end."""

    signature: Signature
    failed: Attempt
    last: Attempt
    """The first later run without the error."""
    end: End
    distance: int
    """Attempts from `failed` to `last`, without calls that only ask for the output of another."""
    between: list[Attempt]
    """What succeeded between the two."""
    afterwards: list[Attempt]
    """What succeeded from `last` to the run that proves the end."""
    has_helper: bool
    """True if a person said something in between, or a subagent worked: what they changed is not
    known."""
    cleanups: list[str]
    """The commands up to some time after the end that remove files."""
    bodies: Mapping[int, str]

    @cached_property
    def edits(self) -> list[Attempt]:
        """The edits in between that may have helped: not those that only add output, and not
        those that were replaced before the success."""
        edits = [
            attempt
            for attempt in self.between
            if attempt.action == "edit" and not only_adds_output(self.text_of(attempt))
        ]
        return [edit for edit in edits if not self._is_replaced(edit)]

    def _is_replaced(self, edit: Attempt) -> bool:
        later = [
            self.text_of(other)
            for other in (*self.between, *self.afterwards)
            if other.action == "edit" and other.seq > edit.seq and other.files & edit.files
        ]
        return bool(later) and is_replaced(self.text_of(edit), later)

    def text_of(self, attempt: Attempt) -> str:
        return self.bodies.get(attempt.seq, "")

    @cached_property
    def output(self) -> str:
        """What the failing call printed."""
        return self.bodies.get(self.failed.end_seq, "")

    @cached_property
    def others(self) -> list[Signature]:
        """The other errors of the failing call."""
        mine = self.signature.fingerprint
        return [other for other in self.failed.signatures if other.fingerprint != mine]

    @cached_property
    def section(self) -> str:
        """What the failing call printed about this error."""
        return find_section(self.output, self.signature, self.others)

    @cached_property
    def names(self) -> set[str]:
        """The names that are printed with the error."""
        return find_names(self.section)

    @cached_property
    def places(self) -> dict[str, int]:
        """The lines of files that are printed with the error, by the name of the file."""
        return find_places(self.section)

    @cached_property
    def source_lines(self) -> set[str]:
        """The lines of code that are quoted with the error."""
        return find_source_lines(self.section)

    @cached_property
    def commands(self) -> list[tuple[int, Attempt]]:
        """The commands that may have helped with their ranks, the likeliest first, each once."""
        best: dict[str, tuple[int, Attempt]] = {}
        for rank, attempt in rank_commands(self.between, self.signature):
            best.setdefault(attempt.shell, (rank, attempt))
        return list(best.values())

    @property
    def is_proven(self) -> bool:
        """True if the first run without the error has succeeded."""
        return self.end.gone == self.end.proven


def find_steps(course: Course) -> Steps:
    """Return what was done between an error and its end, the fix first, with its evidence."""
    steps, evidence = _choose_steps(course)
    if course.signature.kind in ("test", "compile", "exception") and _was_dropped(course):
        return steps, "dropped"
    if evidence.startswith("changed") and (
        _is_timeout(course.signature) or _only_changes_limits(course)
    ):
        # It may have been faster this time without any change.
        evidence = "changed guessed"
    return steps, evidence


def _was_dropped(course: Course) -> bool:
    """Return True if what failed does not exist any more: a test that was deleted or is skipped, or
    a file that was only written to find something out."""
    if course.cleanups and _was_removed(course):
        return True
    if course.signature.kind != "test":
        return False
    edits = [
        course.text_of(attempt)
        for attempt in (*course.between, *course.afterwards)
        if attempt.action == "edit"
    ]
    return any(map(adds_skip, edits)) or any(
        deletes_test(name, edits) for name in _TEST_NAMES.findall(course.signature.sample)
    )


def _was_removed(course: Course) -> bool:
    """Return True if a file that the error names was removed."""
    tests = _FILE_OF_TEST.findall(course.signature.sample)
    return any(
        re.search(rf"\brm\b[^;&|\n]*{re.escape(name)}(?![\w.])", command)
        for name in {*course.places, *tests}
        for command in course.cleanups
    )


_FILE_OF_TEST = re.compile(r"([\w.-]+\.\w{1,5})::")
_TEST_NAMES = re.compile(r"(?<![\w/.])(?:[tT]est\w{2,}|\w+(?:_test|Test|Spec))(?![\w/.])")


def _is_timeout(signature: Signature) -> bool:
    return signature.kind != "shell" and _TIMED_OUT.search(signature.sample) is not None


_TIMED_OUT = re.compile(
    r"(?i)\btimed[ -]?out\b|\btimeout (?:of \d|exceeded|expired|after|reached|waiting)"
    r"|\b\w*TimeoutE\w+|\bETIMEDOUT\b|deadline exceeded|exit code 124\b"
)


def _only_changes_limits(course: Course) -> bool:
    """Return True if a command only differs in numbers, as in `--timeout 60`, that the error does
    not name."""
    if course.failed.action != "shell":
        return False
    words = list(chain(*changed_words(course.failed.text, course.last.text)))
    limits = [match for word in words if (match := _LIMIT.fullmatch(word))]
    named = (part for match in limits for part in match.groups() if part)
    sample = course.signature.sample
    return bool(words) and len(limits) == len(words) and not any(one in sample for one in named)


_LIMIT = re.compile(r"(?:(?:--?)?([A-Za-z][\w-]*)=)?(\d{1,9})(?:ms|s|m|h|[kKMG]i?B?)?")
"""A number, with the name of what it limits if that is in the same word."""


def _choose_steps(course: Course) -> Steps:
    if course.failed.action == "edit":
        return _steps_to_edit(course)
    if course.failed.action != "shell":
        return _steps_of_tool(course)
    if course.end.evidence:
        return _steps_to_changed_call(course)
    for rule in _SAME_CALL:
        if (steps := rule(course)) is not None:
            return steps
    return _last_as("retry", course), "retry"


def _steps_to_edit(course: Course) -> Steps:
    """Return the steps to an edit that failed at first.

    The file was read and the edit repeated, or it was made with other text.
    """
    failed, is_same = course.failed, not course.end.evidence
    reads = [attempt for attempt in course.between if _reads(attempt, failed.files)]
    message = failed.signatures[0].sample.lower() if failed.signatures else ""
    if reads and (is_same or "read" in message):
        return (_step(reads[-1], "read"),), "read"
    if is_same:
        return _last_as("retry", course), "retry"
    others = tuple(_step(attempt, "read") for attempt in reads[-3:])
    is_explained = explains_refusal(failed.text, course.last.text, course.output)
    return (*_last_as("changed", course), *others), (
        "changed edit" if is_explained else "changed patch"
    )


def _reads(attempt: Attempt, files: frozenset[str]) -> bool:
    if attempt.action == "shell":
        return bool(attempt.command.operands & files)
    return attempt.action in ("read", "search") and bool(attempt.files & files)


def _steps_of_tool(course: Course) -> Steps:
    evidence = course.end.evidence
    return _last_as("changed" if evidence else "retry", course), evidence or "retry"


def _steps_to_changed_call(course: Course) -> Steps:
    """Return the steps to a call that was made differently: that, or an edit that the error
    names."""
    by_edits = _by_edits(course)
    is_dressing = _is_dressing(course)
    if by_edits is not None and (by_edits[1] in _NAMED_EDITS or is_dressing):
        return by_edits
    evidence = course.end.evidence
    is_doubtful = by_edits is not None or any(
        installs(attempt.command) or changes_files(attempt) for _, attempt in course.commands
    )
    if is_doubtful and (evidence == "changed alike" or is_dressing):
        evidence = "changed guessed"
    return _last_as("changed", course), evidence


_NAMED_EDITS = ("edit named", "edit of several")


def _is_dressing(course: Course) -> bool:
    """Return True if a call only differs in flags that the error does not name, or in what is done
    with its output."""
    removed, added = changed_words(course.failed.text, course.last.text)
    words = [word for word in (*removed, *added) if not _NUMBER.match(word)]
    return all(
        word.startswith("-") and word.partition("=")[0] not in course.signature.sample
        for word in words
    )


_NUMBER = re.compile(r"\d+\Z")


# ── the same call succeeds ────────────────────────────────────────────────────────────────────────
def _by_preparation(course: Course) -> Steps | None:
    """Return the last call if it also installs what was missing."""
    command = course.last.command
    rank = rank_command(command, course.signature)
    if rank > 1 and not set(command.heads) <= set(course.failed.command.heads):
        return _last_as("changed", course), _COMMAND_EVIDENCE[rank]
    return None


_COMMAND_EVIDENCE = {3: "command named", 2: "command install", 1: "command guessed"}


def _by_commands(course: Course) -> Steps | None:
    """Return the commands in between, unless an edit is likelier."""
    commands = course.commands
    if not commands or (commands[0][0] == 1 and course.edits):
        return None
    rank, first = commands[0]
    steps = tuple(_step(attempt, "command") for _, attempt in commands[:MAX_STEPS])
    is_alone = len(commands) == 1 and course.is_proven
    if rank == 1 and is_alone and has_own_status(first):
        return steps, "command alone"
    return steps, _COMMAND_EVIDENCE[rank]


def _by_edits(course: Course) -> Steps | None:
    """Return the edits in between, nearest to the error first."""
    edits = course.edits
    if not edits:
        return None
    ranked = sorted(
        ((_rank_edit(edit, course), edit) for edit in edits),
        reverse=True,
        key=lambda entry: (entry[0], entry[1].seq),
    )
    steps = tuple(_step(edit, "edit") for _, edit in ranked[:MAX_STEPS])
    return steps, _rate_edits(ranked, course)


def _rate_edits(ranked: list[tuple[_Rank, Attempt]], course: Course) -> str:
    """Return the class of evidence for the first of these edits."""
    first, edit = ranked[0]
    if _is_elsewhere(edit, course):
        return "edit guessed"
    if _is_named(first, course):
        if len(ranked) > MAX_NEAR_EDITS:
            return "edit of many"
        has_rival = any(_is_rival(first, rank) for rank, _ in ranked[1:])
        return "edit of several" if has_rival or _is_partial(edit, course) else "edit named"
    if course.signature.kind == "compile":
        return "edit of several" if first.nearness == 3 else "edit guessed"
    is_only_one = len(ranked) == 1 and count_changed_lines(course.text_of(edit)) > 0
    is_alone = course.signature.kind in ("test", "exception") and (first.shared or is_only_one)
    return "edit alone" if is_alone else "edit guessed"


class _Rank(NamedTuple):
    """How near an edit is to an error, the strongest evidence first."""

    replaces_line: bool
    """True if it removes a line of code that is quoted with the error."""
    quoted: int
    """How many of the names that the error quotes it changes."""
    nearness: int
    is_more: bool
    """True if it does more than add or import something."""
    shared: int
    """How many of the names around the error it changes, the removed ones twice."""


def _rank_edit(edit: Attempt, course: Course) -> _Rank:
    diff = course.text_of(edit)
    # Of several errors, each has its own part of the output.
    output = course.section if course.others else course.output
    nearness = rate_nearness(edit, course.failed, course.signature, output)
    quoted, shared, is_more = rate_edit(
        diff, course.names, find_quoted_names(course.signature.sample)
    )
    return _Rank(
        replaces_line=not course.source_lines.isdisjoint(removed_lines(diff)),
        quoted=quoted if quoted >= 2 or nearness else 0,
        nearness=nearness,
        is_more=is_more,
        shared=shared,
    )


def _is_named(rank: _Rank, course: Course) -> bool:
    """Return True if an error or what is printed with it names what an edit changes.

    The line of a compiler is enough; that a test is in the same file is not.
    """
    if rank.quoted or (rank.replaces_line and rank.nearness):
        return True
    if rank.nearness == 3 and course.signature.kind != "test":
        return bool(rank.shared) or not course.others
    return rank.nearness > 0 and rank.shared > 0


def _is_rival(first: _Rank, other: _Rank) -> bool:
    """Return True if another edit may be the fix as well, as far as the evidence goes."""
    is_like = first[:3] == other[:3]
    return is_like and (other.is_more or not first.is_more) and 2 * other.shared > first.shared


def _is_partial(edit: Attempt, course: Course) -> bool:
    """Return True if an edit is not the whole fix.

    The file was edited again after a run that failed for another reason, or what it removes was
    added elsewhere.
    """
    diff = course.text_of(edit)
    return any(
        other.action == "edit" and other.files & edit.files for other in course.afterwards
    ) or any(
        other.action == "edit" and other is not edit and is_moved(diff, course.text_of(other))
        for other in course.between
    )


def _is_elsewhere(edit: Attempt, course: Course) -> bool:
    """Return True if the error names a line of another file, and no word that the edit changes."""
    sample = course.signature.sample
    places = find_places(sample)
    if not places or edit.files & places.keys():
        return False
    words = find_names(strip_places(sample))
    return not words & changed_names(course.text_of(edit))


def _by_named_change(course: Course) -> Steps | None:
    """Return the last call if it does without what the error names."""
    signature, failed, last = course.signature, course.failed, course.last
    is_alike = course.is_proven and likeness(failed.text, last.text) >= MIN_LIKENESS
    if leaves_out_missing(signature, last) or (
        is_alike and has_named_change(signature, failed, last)
    ):
        return _last_as("changed", course), "changed named"
    return None


def _by_wrapper(course: Course) -> Steps | None:
    """Return the last call if it was started differently."""
    failed, last = course.failed, course.last
    if course.is_proven and (has_other_wrapper(failed, last) or is_prepared(failed, last)):
        return _last_as("changed", course), "changed wrapper"
    return None


_SAME_CALL = (_by_preparation, _by_commands, _by_edits, _by_named_change, _by_wrapper)
"""The rules for a call that was made as before, surest first."""


def _last_as(how: FixKind, course: Course) -> tuple[Step, ...]:
    return (_step(course.last, how),)


def _step(attempt: Attempt, how: FixKind) -> Step:
    event = attempt.call or attempt.result
    files = attempt.call.files if attempt.call else ()
    text = attempt.text if attempt.action == "shell" else (event.summary if event else "") or ""
    return Step(
        seq=attempt.seq, how=how, summary=shorten(" ".join(text[:1000].split())), files=files[:5]
    )
