"""Fixes of errors: the same call that ended better, and the steps in between.

Pure functions over attempts. For each error of a session the last occurrence is followed to the
next call of the same kind on the same target. The edits and commands between the two are the
evidence, ranked by how close they are to the error. An error whose call was never repeated counts
as one that stayed. Nothing here is certain, so each answer has a confidence, and a weak one is not
shown.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from itertools import islice

import msgspec

from ..model import BLOCK, SessionEvent, shorten
from . import Fix, FixKind, Step
from .attempts import Attempt, find_attempts
from .shell_commands import Command, installs, only_commits, strip_plumbing

MAX_DISTANCE = 150
"""Attempts after which a success is no longer attributed to what was done in between."""
NEAR = 6
"""Attempts within which a call that was made differently is taken for the same one."""
MAX_STEPS = 8
MAX_DIFF_BYTES = 2048


def fixes(events: Iterable[SessionEvent], bodies: Mapping[int, str]) -> list[Fix]:
    """Return one fix for each error of a timeline, by first occurrence of the errors."""
    return find_fixes(find_attempts(events, bodies), bodies)


def find_fixes(attempts: Sequence[Attempt], bodies: Mapping[int, str]) -> list[Fix]:
    """Return one fix for each error.

    Of an error that went away several times the surest counts, and of these the latest.
    """
    best: dict[str, Fix] = {}
    for n, attempt in enumerate(attempts):
        if attempt.signature is None:
            continue
        fix = _find_fix(attempts, n, bodies)
        known = best.get(fix.fingerprint)
        if known is None or fix.confidence >= known.confidence:
            best[fix.fingerprint] = fix
    return list(best.values())


class _End(msgspec.Struct, frozen=True):
    """The attempt that shows an error to be gone, with the confidence that it is the same call."""

    n: int
    confidence: float
    is_same: bool
    """True if the call was made as before, so that something else must have changed."""


def _find_fix(attempts: Sequence[Attempt], n: int, bodies: Mapping[int, str]) -> Fix:
    failed = attempts[n]
    assert failed.signature is not None
    stays = Fix(fingerprint=failed.signature.fingerprint, failed_seq=failed.end_seq)
    end = _find_end(attempts, n, bodies)
    if end is None:
        return stays
    steps, confidence = _find_steps(attempts, n, end, bodies)
    if not steps:
        return stays
    first = steps[0]
    return Fix(
        fingerprint=failed.signature.fingerprint,
        failed_seq=failed.end_seq,
        fixed_seq=attempts[end.n].end_seq,
        how=first.how,
        steps=steps,
        diff=_cut_diff(bodies.get(first.seq, "")) if first.how == "edit" else "",
        confidence=round(confidence, 2),
    )


def _cut_diff(diff: str) -> str:
    return (
        diff[:MAX_DIFF_BYTES].encode("utf-8", "replace")[:MAX_DIFF_BYTES].decode("utf-8", "ignore")
    )


# ── where it ended ────────────────────────────────────────────────────────────────────────────────
def _find_end(attempts: Sequence[Attempt], n: int, bodies: Mapping[int, str]) -> _End | None:
    """Return the next attempt that shows the error to be gone.

    If it occurs again before, that occurrence has its own answer.
    """
    failed = attempts[n]
    fingerprint = failed.signature.fingerprint if failed.signature else ""
    for m, later in _iter_candidates(attempts, n):
        is_same, likeness = _likeness(failed, later, m - n)
        if not likeness:
            continue
        if later.signature is not None and later.signature.fingerprint == fingerprint:
            return None
        body = bodies.get(later.end_seq, "")
        if later.failed and not (is_same and _is_gone(failed, body)):
            continue
        return _End(m, likeness - _doubt(failed, later, m - n, body), is_same)
    return None


def _iter_candidates(attempts: Sequence[Attempt], n: int) -> Iterator[tuple[int, Attempt]]:
    """Yield the later attempts that may be the same call, with their numbers."""
    failed = attempts[n]
    is_command = failed.action == "shell" and failed.call is not None
    near, far = _words_to_share(failed) if is_command else ([], [])
    for m, later in enumerate(attempts[n + 1 : n + 1 + MAX_DISTANCE], n + 1):
        if not later.is_done or later.seq < failed.end_seq:
            continue
        if is_command and (
            later.action != "shell"
            or not _has_all_of_one(near if m - n <= NEAR else far, later.shell)
        ):
            continue
        yield m, later


def _doubt(failed: Attempt, later: Attempt, distance: int, body: str) -> float:
    """Return what speaks against the later attempt as the end of the error."""
    return (
        (0.15 if later.failed else 0)
        + (0.25 if distance > 40 else 0.1 if distance > 15 else 0)
        + (0.3 if _may_hide(failed, later, body) else 0)
    )


def _words_to_share(failed: Attempt) -> tuple[list[list[str]], list[list[str]]]:
    """Return lists of words for near and for far commands.

    A similar command contains all words of one list. This check is much faster than parsing every
    later command.
    """
    command, signature = failed.command, failed.signature
    if not command.key:
        return [], []
    same = [word for word in command.key.split() if word != "&&"]
    if signature is not None and _is_missing_program(failed):
        return [[]], [same, [signature.name]]
    heads = [head.split() for head in command.heads]
    return heads, [same] if command.is_read_only else heads


def _has_all_of_one(lists: list[list[str]], text: str) -> bool:
    for words in lists:
        for word in words:
            if word not in text:
                break
        else:
            return True
    return False


def _is_missing_program(failed: Attempt) -> bool:
    return failed.signature is not None and failed.signature.template.startswith(
        "command not found: "
    )


def _may_hide(failed: Attempt, later: Attempt, body: str) -> bool:
    """Return True if a good status may be that of `tail`, and less output is shown than before."""
    if (
        later.failed
        or not later.command.hides_status
        or later.command.is_read_only
        or len(body) <= 200
    ):
        return False
    tests = later.result.tests if later.result else None
    return (
        _CUTS.search(later.text) is not None
        and _CUTS.search(failed.text) is None
        and not (tests and tests.passed)
    )


_CUTS = re.compile(r"\|\s*(?:tail|head|grep|rg)\b")


def _is_gone(failed: Attempt, body: str) -> bool:
    """Return True if a later failure is another one: the same run no longer reports this error."""
    signature = failed.signature
    return (
        signature is not None
        and signature.kind in ("exception", "test", "compile", "shell")
        and signature.sample[:60] not in body
        and bool(body)
    )


# ── the same call ─────────────────────────────────────────────────────────────────────────────────
_NOT_LIKE = (False, 0.0)


def _likeness(failed: Attempt, later: Attempt, distance: int) -> tuple[bool, float]:
    """Return True if it is the same call, and the confidence that both have the same purpose.

    The confidence is 0 for calls that have nothing in common.
    """
    if failed.call is None:
        return _likeness_after_trouble(failed, later, distance)
    if later.call is None:
        return _NOT_LIKE
    if failed.action != later.action:
        return False, 0.8 if _is_by_shell(failed, later) else 0.0
    if failed.action == "shell":
        return _likeness_of_commands(failed, later, distance)
    is_same = failed.text == later.text
    shared = failed.files & later.files
    if failed.action == "edit":
        return (is_same, 0.9) if shared else _NOT_LIKE
    if failed.call.tool != later.call.tool:
        return _NOT_LIKE
    if shared or is_same:
        return is_same, 0.85
    if failed.files:
        return _NOT_LIKE
    return (
        (False, 0.6)
        if distance <= NEAR and failed.action in ("mcp", "agent", "plan", "other", "search")
        else _NOT_LIKE
    )


def _is_by_shell(failed: Attempt, later: Attempt) -> bool:
    """Return True if a command then read or changed what a tool could not."""
    if later.action != "shell" or not _names_one(later, failed.files):
        return False
    if failed.action == "edit":
        return bool(failed.files & later.command.writes)
    return (
        failed.action in ("read", "search")
        and later.command.is_read_only
        and bool(failed.files & later.command.operands)
    )


def _names_one(attempt: Attempt, files: Iterable[str]) -> bool:
    """Return True if a command may be about one of these files. Much faster than parsing it."""
    return any(name in attempt.shell for name in files)


def _likeness_after_trouble(failed: Attempt, later: Attempt, distance: int) -> tuple[bool, float]:
    """Return the likeness for an error that belongs to no call, like an overloaded service.

    It is over when the agent works again.
    """
    is_trouble = (
        failed.result is not None
        and failed.result.kind in ("error", "retry")
        and failed.end_seq // BLOCK == later.seq // BLOCK
    )
    return (True, 0.6) if is_trouble and later.call is not None and distance <= NEAR else _NOT_LIKE


def _likeness_of_commands(failed: Attempt, later: Attempt, distance: int) -> tuple[bool, float]:
    """Return the likeness of commands that have the words of a head in common."""
    mine, other = failed.command, later.command
    if not other.key:
        return _NOT_LIKE
    if mine.key == other.key:
        return True, 0.9
    if failed.signature is not None and _is_missing_program(failed):
        return _likeness_to_missing(failed.signature.name, mine, other, distance)
    shared = set(mine.heads) & set(other.heads)
    if not shared or (other.asks_help and not mine.asks_help):
        return _NOT_LIKE
    doubt = 0.2 if set(mine.heads) - shared else 0.0  # A part of what failed was not repeated.
    if failed.call is not None and failed.call.kind == "test_run":
        return (True, 0.85 - doubt) if _covers(other, mine, failed) else _NOT_LIKE
    if mine.is_read_only:
        return _likeness_by_overlap(mine.files, other.files, distance)
    if _has_same_target(mine, other, distance):
        return False, 0.8 - doubt
    return (False, 0.6 - doubt) if distance <= NEAR else _NOT_LIKE


def _likeness_to_missing(
    program: str, mine: Command, other: Command, distance: int
) -> tuple[bool, float]:
    """Return the likeness to a command whose program was missing.

    Either the program runs now, or another one does the same soon after.
    """
    if program in other.programs:
        return True, 0.85
    return _likeness_by_overlap(mine.operands, other.operands, distance, min_overlap=0.5)


def _likeness_by_overlap(
    mine: frozenset[str], other: frozenset[str], distance: int, min_overlap: float = 0.0
) -> tuple[bool, float]:
    """Return the likeness of near commands by the words that they share."""
    overlap = _overlap(mine, other)
    is_like = distance <= NEAR and overlap > 0 and overlap >= min_overlap
    return (False, 0.5 + 0.4 * overlap) if is_like else _NOT_LIKE


def _has_same_target(mine: Command, other: Command, distance: int) -> bool:
    if _overlap(mine.operands, other.operands) >= 0.5:
        return True
    return bool(mine.operands) and mine.operands <= other.operands and distance <= 2 * NEAR


def _covers(other: Command, mine: Command, failed: Attempt) -> bool:
    """Return True if a run of tests includes what failed, judged by the commands."""
    signature = failed.signature
    if other.selects and signature is not None and signature.kind == "test":
        pieces = [
            piece for selected in other.selects for piece in _NAME_PARTS.split(selected) if piece
        ]
        return any(piece in signature.sample for piece in pieces)
    targets = other.operands - {"test", "run"} - frozenset(other.selects)
    return not targets or bool(targets & mine.operands) or "..." in targets


_NAME_PARTS = re.compile(r"[|,()\s^$'\"*.?]+")


def _overlap(mine: frozenset[str], other: frozenset[str]) -> float:
    return len(mine & other) / len(mine | other) if mine or other else 1.0


# ── what was done in between ──────────────────────────────────────────────────────────────────────
_Steps = tuple[tuple[Step, ...], float]
"""Steps, the likeliest cause first, with the confidence in it."""


def _find_steps(
    attempts: Sequence[Attempt], n: int, end: _End, bodies: Mapping[int, str]
) -> _Steps:
    """Return what was done between a failed attempt and its end."""
    failed, last = attempts[n], attempts[end.n]
    between = [
        attempt
        for attempt in attempts[n + 1 : end.n]
        if attempt.call is not None and not attempt.failed and attempt.is_done
    ]
    edits = [attempt for attempt in between if attempt.action == "edit"]
    if failed.action == "edit":
        return _steps_to_edit(failed, last, between, end)
    if failed.call is None:
        return (_step(last, "retry"),), end.confidence
    if not end.is_same and (not edits or failed.action != "shell"):
        return (_step(last, "changed"), *_other_steps(between, but=last)), end.confidence
    if edits and (
        steps := _steps_by_edits(edits, failed, end.n - n, end, bodies.get(failed.end_seq, ""))
    ):
        return steps
    if not end.is_same:
        return (_step(last, "changed"),), end.confidence
    return _steps_without_named_edit(failed, last, between, edits, end)


def _kind(failed: Attempt) -> str:
    return failed.signature.kind if failed.signature else ""


def _steps_by_edits(
    edits: list[Attempt], failed: Attempt, distance: int, end: _End, body: str
) -> _Steps | None:
    """Return the edits as the fix if the error names one of their files, or is about code."""
    kind = _kind(failed)
    ranked, nearness = _rank_by_nearness(edits, failed, body)
    is_named = nearness > (3 if kind in ("shell", "http") else 0)
    is_of_code = kind in ("compile", "test", "exception") and (end.is_same or distance > NEAR)
    if not is_named and not is_of_code:
        return None
    doubt = 0.0 if is_named or len({name for edit in edits for name in edit.files}) == 1 else 0.15
    steps = tuple(_step(edit, "edit") for edit in ranked[:MAX_STEPS])
    return steps, end.confidence - doubt - (0.1 if len(edits) > 12 else 0)


def _steps_without_named_edit(
    failed: Attempt, last: Attempt, between: list[Attempt], edits: list[Attempt], end: _End
) -> _Steps:
    """Return the steps to the same call if the error names no edited file.

    These are edits alone, the changed call, commands, or a retry.
    """
    kind = _kind(failed)
    commands = [
        attempt for attempt in between if attempt.action == "shell" and _works(attempt.command)
    ]
    if edits and not commands and kind not in ("shell", "http"):
        steps = tuple(_step(edit, "edit") for edit in reversed(edits[-MAX_STEPS:]))
        return steps, end.confidence - (0.1 if len(edits) == 1 else 0.3)
    is_other_call = strip_plumbing(failed.text) != strip_plumbing(last.text)
    if (
        is_other_call
        and kind in ("shell", "git")
        and not any(installs(attempt.command) for attempt in commands)
    ):
        return (_step(last, "changed"), *_other_steps(commands, but=last)), end.confidence - 0.1
    if commands:
        return _steps_by_commands(commands, end)
    if is_other_call:
        return (_step(last, "changed"),), end.confidence
    return (_step(last, "retry"),), end.confidence - 0.2


def _steps_by_commands(commands: list[Attempt], end: _End) -> _Steps:
    """Return the commands as the fix, those that install something first, then the latest."""
    ranked = sorted(
        commands, key=lambda attempt: (installs(attempt.command), attempt.seq), reverse=True
    )
    steps = tuple(_step(attempt, "command") for attempt in ranked[:MAX_STEPS])
    return steps, end.confidence - (0.05 if installs(ranked[0].command) else 0.2)


def _works(command: Command) -> bool:
    """Return True if it may have changed something, and did not only record what others changed."""
    return command.changes and not only_commits(command)


def _steps_to_edit(failed: Attempt, last: Attempt, between: list[Attempt], end: _End) -> _Steps:
    """Return the steps to an edit that failed at first.

    The file was read and the edit repeated, or another edit was made.
    """
    reads = [
        attempt
        for attempt in between
        if attempt.files & failed.files and attempt.action in ("read", "search")
    ]
    shells = [
        attempt
        for attempt in between
        if attempt.action == "shell" and _names_one(attempt, failed.files)
    ]
    reads += [attempt for attempt in shells if attempt.command.operands & failed.files]
    reads.sort(key=lambda attempt: attempt.seq)
    message = failed.signature.sample.lower() if failed.signature else ""
    if end.is_same or (reads and " read" in message):
        steps = (_step(reads[-1], "read"),) if reads else (_step(last, "retry"),)
        return steps, end.confidence - (0 if reads else 0.2)
    return (
        _step(last, "changed"),
        *(_step(attempt, "read") for attempt in reads[-3:]),
    ), end.confidence


def _rank_by_nearness(
    edits: Iterable[Attempt], failed: Attempt, body: str
) -> tuple[list[Attempt], int]:
    """Return the edits, nearest to the error first, and the nearness of the first.

    An edit is near if its file is named by the error, or by the command that failed.
    """
    sample = failed.signature.sample if failed.signature else ""

    @cache
    def mentioned_stems() -> set[str]:
        return {_stem(name) for name in _FILES.findall(body[:20_000])}

    def nearness(edit: Attempt) -> int:
        names = [name for name in edit.files if name]
        if any(name in sample for name in names):
            return 4
        if any(name in body for name in names):
            return 3
        if any(name in failed.text for name in names):
            return 2
        return int(
            any((stem := _stem(name)) in body and stem in mentioned_stems() for name in names)
        )

    ranked = sorted(
        ((nearness(edit), edit) for edit in edits),
        key=lambda pair: (pair[0], pair[1].seq),
        reverse=True,
    )
    return [edit for _, edit in ranked], ranked[0][0]


_FILES = re.compile(r"[\w.-]{2,80}\.[A-Za-z]{1,5}(?=\W|$)")
_TEST_PARTS = re.compile(r"(?:^test_|_test$|[._-]test$|[._-]spec$|Tests?$)")


def _stem(name: str) -> str:
    """Return a file name without extension and test marks, the same for a file and its tests."""
    return _TEST_PARTS.sub("", name.rpartition(".")[0])


def _other_steps(attempts: Sequence[Attempt], *, but: Attempt) -> tuple[Step, ...]:
    """Return the last three other attempts that may have changed something."""
    done = (
        attempt
        for attempt in reversed(attempts)
        if attempt is not but and (attempt.action == "edit" or attempt.command.changes)
    )
    return tuple(
        _step(attempt, "edit" if attempt.action == "edit" else "command")
        for attempt in list(islice(done, 3))[::-1]
    )


def _step(attempt: Attempt, how: FixKind) -> Step:
    event = attempt.call or attempt.result
    files = attempt.call.files if attempt.call else ()
    text = attempt.text if attempt.action == "shell" else (event.summary if event else "") or ""
    return Step(
        seq=attempt.seq, how=how, summary=shorten(" ".join(text[:1000].split())), files=files[:5]
    )
