"""What made an error go away: the same call that came to a better end, and what was done in between.

Pure functions over attempts. For each error of a session the last time it was seen is followed to the next call of the same kind on
the same target; the edits and commands between the two are the evidence, ranked by how near they are to the error. An error whose
call was never made again is said to have stayed. Nothing here is certain, so each answer has a confidence, and a weak one is not shown.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from itertools import islice

import msgspec

from ..model import BLOCK, SessionEvent, shorten
from . import Fix, FixKind, Step
from .attempts import Attempt, attempts_of
from .shell_commands import Command, carries, installs, without_plumbing

FARTHEST = 150
"""Attempts after which a success is no longer put down to what was done in between."""
NEAR = 6
"""Attempts within which a call that was made differently is taken for the same one."""
MOST_STEPS = 8
LONGEST_DIFF = 2048
"""Bytes."""


def fixes(events: Iterable[SessionEvent], bodies: Mapping[int, str]) -> list[Fix]:
    """One for each error of a timeline, in the order in which the errors were first seen."""
    return fixes_in(attempts_of(events, bodies), bodies)


def fixes_in(attempts: Sequence[Attempt], bodies: Mapping[int, str]) -> list[Fix]:
    """Of an error that went away several times the surest answer counts, and of these the latest."""
    best: dict[str, Fix] = {}
    for n, attempt in enumerate(attempts):
        if attempt.signature is None:
            continue
        fix = _fix(attempts, n, bodies)
        known = best.get(fix.fingerprint)
        if known is None or fix.confidence >= known.confidence:
            best[fix.fingerprint] = fix
    return list(best.values())


class _End(msgspec.Struct, frozen=True):
    """Where an error was gone: the attempt, and how sure it is that this is the same call."""

    n: int
    confidence: float
    is_same: bool
    """Whether the call was made as before, so that something else must have changed."""


def _fix(attempts: Sequence[Attempt], n: int, bodies: Mapping[int, str]) -> Fix:
    failed = attempts[n]
    assert failed.signature is not None
    stays = Fix(fingerprint=failed.signature.fingerprint, failed_seq=failed.end_seq)
    end = _end_of(attempts, n, bodies)
    if end is None:
        return stays
    steps, confidence = _steps(attempts, n, end, bodies)
    if not steps:
        return stays
    first = steps[0]
    return Fix(
        fingerprint=failed.signature.fingerprint,
        failed_seq=failed.end_seq,
        fixed_seq=attempts[end.n].end_seq,
        how=first.how,
        steps=steps,
        diff=_cut(bodies.get(first.seq, "")) if first.how == "edit" else "",
        confidence=round(confidence, 2),
    )


def _cut(diff: str) -> str:
    return diff[:LONGEST_DIFF].encode("utf-8", "replace")[:LONGEST_DIFF].decode("utf-8", "ignore")


def _end_of(attempts: Sequence[Attempt], n: int, bodies: Mapping[int, str]) -> _End | None:
    """The next attempt that shows the error to be gone. Where it is met again on the way, that later time has its own answer."""
    failed = attempts[n]
    fingerprint = failed.signature.fingerprint if failed.signature else ""
    end_seq, is_command = failed.end_seq, failed.action == "shell" and failed.call is not None
    near, far = _words_to_share(failed) if is_command else ([], [])
    for m, later in enumerate(attempts[n + 1 : n + 1 + FARTHEST], n + 1):
        if not later.is_done or later.seq < end_seq:
            continue
        if is_command and (later.action != "shell" or not _has_one(near if m - n <= NEAR else far, later.shell)):
            continue
        is_same, likeness = _likeness(failed, later, m - n)
        if not likeness:
            continue
        if later.signature is not None and later.signature.fingerprint == fingerprint:
            return None
        if later.failed and not (is_same and _is_gone(failed, bodies.get(later.end_seq, ""))):
            continue
        doubt = (
            (0.15 if later.failed else 0)
            + (0.25 if m - n > 40 else 0.1 if m - n > 15 else 0)
            + (0.3 if _may_hide(failed, later, bodies.get(later.end_seq, "")) else 0)
        )
        return _End(m, likeness - doubt, is_same)
    return None


def _words_to_share(failed: Attempt) -> tuple[list[list[str]], list[list[str]]]:
    """The words of which a command must have all of one list to be like the one that failed, when it is near and when it is not. To see
    that they are not there takes a hundredth of the time of understanding it."""
    command, signature = failed.command, failed.signature
    if not command.key:
        return [], []
    same = [word for word in command.key.split() if word != "&&"]
    if signature is not None and _is_missing(failed):
        return [[]], [same, [signature.name]]
    heads = [head.split() for head in command.heads]
    return heads, [same] if command.only_looks else heads


def _has_one(lists: list[list[str]], text: str) -> bool:
    for words in lists:
        for word in words:
            if word not in text:
                break
        else:
            return True
    return False


def _is_missing(failed: Attempt) -> bool:
    """Whether there was no such program."""
    return failed.signature is not None and failed.signature.template.startswith("command not found: ")


def _may_hide(failed: Attempt, later: Attempt, body: str) -> bool:
    """Whether a good end may be that of `tail`, and what is shown less than what was shown before."""
    if later.failed or not later.command.hides_status or later.command.only_looks or len(body) <= 200:
        return False
    tests = later.result.tests if later.result else None
    return _CUTS.search(later.text) is not None and _CUTS.search(failed.text) is None and not (tests and tests.passed)


_CUTS = re.compile(r"\|\s*(?:tail|head|grep|rg)\b")


def _is_gone(failed: Attempt, body: str) -> bool:
    """Whether a later failure is another one: the same run no longer tells of this error."""
    signature = failed.signature
    return (
        signature is not None
        and signature.kind in ("exception", "test", "compile", "shell")
        and signature.sample[:60] not in body
        and bool(body)
    )


def _likeness(failed: Attempt, later: Attempt, distance: int) -> tuple[bool, float]:
    """Whether it is the very same call, and how much speaks for it being about the same thing; 0 when nothing does."""
    if failed.call is None:
        return _after_trouble(failed, later, distance)
    if later.call is None:
        return False, 0.0
    if failed.action != later.action:
        return False, 0.8 if _is_by_shell(failed, later) else 0.0
    if failed.action == "shell":
        return _likeness_of_commands(failed, later, distance)
    is_same = failed.text == later.text
    shared = failed.files & later.files
    if failed.action == "edit":
        return (is_same, 0.9) if shared else (False, 0.0)
    if failed.call.tool != later.call.tool:
        return False, 0.0
    if shared or is_same:
        return is_same, 0.85
    if failed.files:
        return False, 0.0
    return (False, 0.6) if distance <= NEAR and failed.action in ("mcp", "agent", "plan", "other", "search") else (False, 0.0)


def _is_by_shell(failed: Attempt, later: Attempt) -> bool:
    """Whether what a tool could not read or change was then read or changed by a command."""
    if later.action != "shell" or not _names(later, failed.files):
        return False
    if failed.action == "edit":
        return bool(failed.files & later.command.writes)
    return failed.action in ("read", "search") and later.command.only_looks and bool(failed.files & later.command.operands)


def _names(attempt: Attempt, files: Iterable[str]) -> bool:
    """Whether a command may be about one of these. To understand it takes a hundred times as long as to see that it has no such word."""
    return any(name in attempt.shell for name in files)


def _after_trouble(failed: Attempt, later: Attempt, distance: int) -> tuple[bool, float]:
    """An error that no call led to (a service that was overloaded) is over when the agent is at work again."""
    is_trouble = failed.result is not None and failed.result.kind in ("error", "retry") and failed.end_seq // BLOCK == later.seq // BLOCK
    return (True, 0.6) if is_trouble and later.call is not None and distance <= NEAR else (False, 0.0)


def _likeness_of_commands(failed: Attempt, later: Attempt, distance: int) -> tuple[bool, float]:
    """Of commands that have the words of a head in common."""
    mine, other = failed.command, later.command
    if not other.key:
        return False, 0.0
    if mine.key == other.key:
        return True, 0.9
    if failed.signature is not None and _is_missing(failed):
        if failed.signature.name in other.programs:
            return True, 0.85
        overlap = _overlap(mine.operands, other.operands)
        return (False, 0.5 + 0.4 * overlap) if overlap >= 0.5 and distance <= NEAR else (False, 0.0)
    shared = set(mine.heads) & set(other.heads)
    if not shared or (other.asks_help and not mine.asks_help):
        return False, 0.0
    doubt = 0.2 if set(mine.heads) - shared else 0.0  # A part of what failed was not done again.
    if failed.call is not None and failed.call.kind == "test_run":
        return (True, 0.85 - doubt) if _covers(other, mine, failed) else (False, 0.0)
    if mine.only_looks:
        overlap = _overlap(mine.files, other.files)
        return (False, 0.5 + 0.4 * overlap) if distance <= NEAR and overlap > 0 else (False, 0.0)
    if _overlap(mine.operands, other.operands) >= 0.5 or (mine.operands and mine.operands <= other.operands and distance <= 2 * NEAR):
        return False, 0.8 - doubt
    return (False, 0.6 - doubt) if distance <= NEAR else (False, 0.0)


def _covers(other: Command, mine: Command, failed: Attempt) -> bool:
    """Whether a run of tests has what failed among its tests, as far as the commands tell."""
    signature = failed.signature
    if other.selects and signature is not None and signature.kind == "test":
        pieces = [piece for selected in other.selects for piece in _PIECES.split(selected) if piece]
        return any(piece in signature.sample for piece in pieces)
    targets = other.operands - {"test", "run"} - frozenset(other.selects)
    return not targets or bool(targets & mine.operands) or "..." in targets


_PIECES = re.compile(r"[|,()\s^$'\"*.?]+")


def _overlap(mine: frozenset[str], other: frozenset[str]) -> float:
    return len(mine & other) / len(mine | other) if mine or other else 1.0


def _steps(attempts: Sequence[Attempt], n: int, end: _End, bodies: Mapping[int, str]) -> tuple[tuple[Step, ...], float]:
    """What was done between, the likeliest cause first, and how sure that is."""
    failed, last = attempts[n], attempts[end.n]
    between = [attempt for attempt in attempts[n + 1 : end.n] if attempt.call is not None and not attempt.failed and attempt.is_done]
    edits = [attempt for attempt in between if attempt.action == "edit"]
    if failed.action == "edit":
        return _steps_to_edit(failed, last, between, end)
    if failed.call is None:
        return (_step(last, "retry"),), end.confidence
    if not end.is_same and (not edits or failed.action != "shell"):
        return (_step(last, "changed"), *_others(between, "command", but=last)), end.confidence
    body = bodies.get(failed.end_seq, "")
    kind = failed.signature.kind if failed.signature else ""
    if edits:
        ranked, nearness = _by_nearness(edits, failed, body)
        is_named = nearness > (3 if kind in ("shell", "http") else 0)
        if is_named or (kind in ("compile", "test", "exception") and (end.is_same or end.n - n > NEAR)):
            doubt = 0.0 if is_named or len({name for edit in edits for name in edit.files}) == 1 else 0.15
            return tuple(_step(edit, "edit") for edit in ranked[:MOST_STEPS]), end.confidence - doubt - (0.1 if len(edits) > 12 else 0)
    if not end.is_same:
        return (_step(last, "changed"),), end.confidence
    commands = [attempt for attempt in between if attempt.action == "shell" and _works(attempt.command)]
    if edits and not commands and kind not in ("shell", "http"):
        return tuple(_step(edit, "edit") for edit in reversed(edits[-MOST_STEPS:])), end.confidence - (0.1 if len(edits) == 1 else 0.3)
    is_other_call = without_plumbing(failed.text) != without_plumbing(last.text)
    if is_other_call and kind in ("shell", "git") and not any(installs(command.command) for command in commands):
        return (_step(last, "changed"), *_others(commands, "command", but=last)), end.confidence - 0.1
    if commands:
        ranked = sorted(commands, key=lambda attempt: (installs(attempt.command), attempt.seq), reverse=True)
        return tuple(_step(command, "command") for command in ranked[:MOST_STEPS]), end.confidence - (
            0.2 if not installs(ranked[0].command) else 0.05
        )
    if is_other_call:
        return (_step(last, "changed"),), end.confidence
    return (_step(last, "retry"),), end.confidence - 0.2


def _works(command: Command) -> bool:
    """Whether it may have changed something, and not only handed on what others changed."""
    return command.changes and not carries(command)


def _steps_to_edit(failed: Attempt, last: Attempt, between: list[Attempt], end: _End) -> tuple[tuple[Step, ...], float]:
    """An edit that was refused: the file was looked at and the same edit made again, or another edit was made."""
    looked = [attempt for attempt in between if attempt.files & failed.files and attempt.action in ("read", "search")]
    shells = [attempt for attempt in between if attempt.action == "shell" and _names(attempt, failed.files)]
    looked += [attempt for attempt in shells if attempt.command.operands & failed.files]
    looked.sort(key=lambda attempt: attempt.seq)
    said = failed.signature.sample.lower() if failed.signature else ""
    if end.is_same or (looked and " read" in said):
        steps = (_step(looked[-1], "read"),) if looked else (_step(last, "retry"),)
        return steps, end.confidence - (0 if looked else 0.2)
    return (_step(last, "changed"), *(_step(attempt, "read") for attempt in looked[-3:])), end.confidence


def _by_nearness(edits: Iterable[Attempt], failed: Attempt, body: str) -> tuple[list[Attempt], int]:
    """The edits, first those for which most speaks, and how much speaks for the first: its file is named by the error, or by the
    command that failed."""
    sample = failed.signature.sample if failed.signature else ""

    @cache
    def mentioned() -> set[str]:  # Once for all edits: it takes longer than all else.
        return {_stem(name) for name in _FILES.findall(body[:20_000])}

    def nearness(edit: Attempt) -> int:
        named = [name for name in edit.files if name]
        if any(name in sample for name in named):
            return 4
        if any(name in body for name in named):
            return 3
        if any(name in failed.text for name in named):
            return 2
        return int(any((stem := _stem(name)) in body and stem in mentioned() for name in named))

    ranked = sorted(((nearness(edit), edit) for edit in edits), key=lambda pair: (pair[0], pair[1].seq), reverse=True)
    return [edit for _, edit in ranked], ranked[0][0]


_FILES = re.compile(r"[\w.-]{2,80}\.[A-Za-z]{1,5}(?=\W|$)")
_TEST_PARTS = re.compile(r"(?:^test_|_test$|[._-]test$|[._-]spec$|Tests?$)")


def _stem(name: str) -> str:
    """A file and its tests have the same."""
    return _TEST_PARTS.sub("", name.rpartition(".")[0])


def _others(attempts: Sequence[Attempt], how: FixKind, *, but: Attempt) -> tuple[Step, ...]:
    """The last three that may have changed something, besides."""
    done = (attempt for attempt in reversed(attempts) if attempt is not but and (attempt.action == "edit" or attempt.command.changes))
    return tuple(_step(attempt, "edit" if attempt.action == "edit" else how) for attempt in list(islice(done, 3))[::-1])


def _step(attempt: Attempt, how: FixKind) -> Step:
    event = attempt.call or attempt.result
    files = attempt.call.files if attempt.call else ()
    said = attempt.text if attempt.action == "shell" else (event.summary if event else "") or ""
    return Step(seq=attempt.seq, how=how, summary=shorten(" ".join(said[:1000].split())), files=files[:5])
