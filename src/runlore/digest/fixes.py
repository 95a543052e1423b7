"""Fixes of errors: the same call that succeeded, with proof, and what was done in between.

Pure functions over attempts. For each error of a session an occurrence is followed to the next run
of the same command, test or target (`same_calls`) that no longer reports it, and on to one that is
proven to have succeeded (`proof`). The fix (`steps`) is the change between the occurrence and the
first of these runs: an edit, a command, the call itself. What the agent wrote in between may
name the cause (`causes`). An error without such an end counts as not seen again. `confidence` says
how many of the fixes with the same evidence were right when they were read; see
design/2026-11-18-fixes.md.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence

import msgspec

from ..model import BLOCK, SessionEvent
from ..timeline import is_prompt
from . import Fix, Signature, Step
from .attempts import Attempt, find_attempts
from .causes import find_cause, is_disowned
from .changes import diff_calls, diff_edits, pick_hunk, to_line
from .doubts import weigh_doubts
from .nearness import find_places
from .proof import find_proof
from .same_calls import NEAR, find_place, match_calls
from .steps import Course, End, find_steps

MAX_DISTANCE = 40
"""Attempts after which a success is no longer attributed to what was done before it."""
MAX_TASK_DISTANCE = 12
"""Attempts after which a new prompt of the person begins another task."""
MAX_EVENTS = 300
"""Events after which a success is no longer attributed to what was done before it."""
MAX_DIFF_BYTES = 2048
SHARES = {
    "edit named": 0.89,
    "edit alone": 0.75,
    "edit of several": 0.54,
    "edit of many": 0.4,
    "edit guessed": 0.3,
    "command named": 0.9,
    "command install": 0.6,
    "command alone": 0.6,
    "command guessed": 0.3,
    "changed named": 0.9,
    "changed edit": 0.9,
    "changed patch": 0.2,
    "changed alike": 0.75,
    "changed wrapper": 0.75,
    "changed tool": 0.75,
    "changed program": 0.65,
    "changed place": 0.65,
    "changed script": 0.4,
    "changed guessed": 0.3,
    "read": 0.9,
    "retry": 0.3,
    "dropped": 0.2,
}
"""By class of evidence, the share of fixes that were right among those that were read. The design
page says what the classes are, how many were read, and on which data."""


def fixes(events: Iterable[SessionEvent], bodies: Mapping[int, str]) -> list[Fix]:
    """Return one fix for each error of a timeline, by first occurrence of the errors."""
    own = [event for event in events if event.origin is None]
    return find_fixes(find_attempts(own, bodies), bodies, own)


def find_fixes(
    attempts: Sequence[Attempt], bodies: Mapping[int, str], events: Iterable[SessionEvent] = ()
) -> list[Fix]:
    """Return one fix for each error.

    Of an error that went away several times the surest counts, and of these the latest. `events`
    are those of the timeline; without them neither prompts nor causes are known.
    """
    search = _Search(attempts, bodies, events)
    best: dict[str, tuple[Fix, Course | None]] = {}
    for n, attempt in enumerate(attempts):
        for signature in attempt.signatures:
            fix, course = search.find_fix(n, signature)
            known = best.get(fix.fingerprint)
            if known is None or fix.confidence >= known[0].confidence:
                best[fix.fingerprint] = fix, course
    return [search.add_details(fix, course) if course else fix for fix, course in best.values()]


class _Search:
    """The attempts of a timeline, in which the ends of errors are looked for."""

    def __init__(
        self,
        attempts: Sequence[Attempt],
        bodies: Mapping[int, str],
        events: Iterable[SessionEvent],
    ) -> None:
        self.attempts, self.bodies = attempts, bodies
        self.words: list[SessionEvent] = []
        self.prompts: list[int] = []
        for event in events:
            if event.kind in ("assistant_msg", "thinking"):
                self.words.append(event)
            elif is_prompt(event):
                self.prompts.append(event.seq)
        self.words.sort(key=lambda event: event.seq)
        self.prompts.sort()

    def find_fix(self, n: int, signature: Signature) -> tuple[Fix, Course | None]:
        """Return the fix of an error without its details, and what happened up to its end."""
        failed = self.attempts[n]
        stays = Fix(fingerprint=signature.fingerprint, failed_seq=failed.end_seq)
        end = self._find_end(n, signature)
        if end is None:
            return stays, None
        course = self._find_course(n, end, signature)
        steps, evidence = find_steps(course)
        confidence = SHARES[evidence] * weigh_doubts(course, steps)
        return self._end_fix(stays, end, steps, confidence), course

    def _find_course(self, n: int, end: End, signature: Signature) -> Course:
        """Return what happened from an error to its end."""
        failed = self.attempts[n]
        between, afterwards = (
            [
                attempt
                for attempt in attempts
                if attempt.is_done and not attempt.failed and _was_called_after(failed, attempt)
            ]
            for attempts in (
                self.attempts[n + 1 : end.gone],
                self.attempts[end.gone + 1 : end.proven],
            )
        )
        cleanups = [
            attempt.shell
            for attempt in self.attempts[n + 1 : end.proven + MAX_DISTANCE]
            if attempt.action == "shell" and "rm " in attempt.shell
        ]
        return Course(
            signature=signature,
            failed=failed,
            last=self.attempts[end.gone],
            end=end,
            distance=sum(one.start_seq is None for one in self.attempts[n + 1 : end.gone + 1]),
            between=between,
            afterwards=afterwards,
            has_helper=self._has_helper(n, end),
            cleanups=cleanups,
            bodies=self.bodies,
        )

    def _has_helper(self, n: int, end: End) -> bool:
        """Return True if a person or a subagent took part between an error and its end."""
        gone = self.attempts[end.gone]
        return self._has_prompt(self.attempts[n].end_seq, gone.seq) or any(
            attempt.action == "agent" for attempt in self.attempts[n + 1 : end.gone]
        )

    def _end_fix(self, stays: Fix, end: End, steps: tuple[Step, ...], share: float) -> Fix:
        gone = self.attempts[end.gone]
        if is_disowned(self._between(stays.failed_seq, gone.end_seq), self.bodies):
            share /= 2
        return msgspec.structs.replace(
            stays,
            fixed_seq=self.attempts[end.proven].end_seq,
            how=steps[0].how,
            steps=steps,
            confidence=round(share, 2),
            proof=end.proof,
        )

    def add_details(self, fix: Fix, course: Course) -> Fix:
        """Add the agent's words about the cause, and what was changed."""
        words = self._between(course.failed.end_seq, course.last.end_seq)
        cause = find_cause(words, self.bodies, course.signature)
        if cause is not None:
            fix = msgspec.structs.replace(fix, cause=cause.text, cause_seq=cause.seq)
        return self._add_change(fix, course)

    def _add_change(self, fix: Fix, course: Course) -> Fix:
        """Add what was changed: the part of the edit, or the two calls and their difference."""
        replace = msgspec.structs.replace
        failed, gone = course.failed, course.last
        if fix.how == "edit":
            diff = self.bodies.get(fix.steps[0].seq, "")
            path = fix.steps[0].files[0] if fix.steps[0].files else ""
            name = path.replace("\\", "/").rpartition("/")[2]
            number = course.places.get(name) or find_places(course.output).get(name)
            hunk = pick_hunk(diff, course.names, number, course.source_lines)
            return replace(
                fix, change=hunk, diff=_cut_diff(f"{path}\n@@\n{hunk}" if hunk else diff)
            )
        if fix.how == "command":
            step = next(one for one in self.attempts if one.seq == fix.steps[0].seq)
            return replace(fix, before=_call(failed), after=to_line(step.text))
        if fix.how == "changed":
            before, after = _call(failed), _call(gone)
            if find_place(failed) != find_place(gone) and before == after:
                before, after = (
                    to_line(f"cd {find_place(one) or '.'} && {one.text}") for one in (failed, gone)
                )
            is_edit = failed.action == "edit"
            change = (diff_edits if is_edit else diff_calls)(failed.text, gone.text)
            if not is_edit and (before, after) != (_call(failed), _call(gone)):
                change = diff_calls(before, after)
            return replace(fix, before=before, after=after, change=change)
        return fix

    def _between(self, first: int, last: int) -> list[SessionEvent]:
        """Return what the agent wrote between two events."""
        start = bisect_right(self.words, first, key=lambda event: event.seq)
        return self.words[start : bisect_left(self.words, last, key=lambda event: event.seq)]

    # ── where it ended ────────────────────────────────────────────────────────────────────────────
    def _find_end(self, n: int, signature: Signature) -> End | None:
        """Return where the error was gone for good.

        If it occurs again before, that occurrence has its own answer.
        """
        failed, gone = self.attempts[n], None
        if failed.call is None:
            return self._find_end_of_trouble(n)
        for m, match in self._iter_repeats(n, signature):
            later = self.attempts[m]
            if gone is not None and match != "same":
                continue
            if not later.failed:
                proof = find_proof(failed, later, self._output(later), signature)
                if proof is not None and not _is_gone(signature, self._output(later)):
                    return None  # What a success reports as well is not what failed.
                if proof is not None:
                    evidence = "" if match == "same" else match
                    return End(m if gone is None else gone, m, proof, evidence)
            elif gone is None and match == "same" and self._reports_another(later, signature):
                # The same run with another error: this one is gone if a later run succeeds.
                gone = m
        return None

    def _iter_repeats(self, n: int, signature: Signature) -> Iterator[tuple[int, str]]:
        """Yield the numbers of later runs of a call until the error occurs again, each with how it
        is known to be the same call."""
        for m, later in self._iter_reachable(n):
            if any(one.fingerprint == signature.fingerprint for one in later.signatures):
                return
            match = match_calls(self.attempts[n], later, signature, m - n)
            if match is not None:
                yield m, match

    def _find_end_of_trouble(self, n: int) -> End | None:
        """Return the end of an error that belongs to no call, like an overloaded service: the agent
        works again."""
        result = self.attempts[n].result
        if result is None or result.kind not in ("error", "retry"):
            return None
        m = next((m for m, _ in self._iter_reachable(n)), len(self.attempts))
        return End(m, m, None) if m - n <= NEAR and m < len(self.attempts) else None

    def _reports_another(self, later: Attempt, signature: Signature) -> bool:
        """Return True if a run reports something, and not this error any more."""
        output = self._output(later)
        return bool(output) and _is_gone(signature, output)

    def _output(self, attempt: Attempt) -> str:
        return self.bodies.get(attempt.end_seq, "")

    def _iter_reachable(self, n: int) -> Iterator[tuple[int, Attempt]]:
        """Yield the later attempts of the same task, with their numbers."""
        failed = self.attempts[n]
        for m, later in enumerate(self.attempts[n + 1 : n + 1 + MAX_DISTANCE], n + 1):
            if later.end_seq - failed.end_seq > MAX_EVENTS:
                return
            if failed.end_seq // BLOCK != later.seq // BLOCK:
                return
            if m - n > MAX_TASK_DISTANCE and self._has_prompt(failed.end_seq, later.seq):
                return
            if later.is_done and _was_called_after(failed, later):
                yield m, later

    def _has_prompt(self, first: int, last: int) -> bool:
        return bisect_right(self.prompts, first) < bisect_left(self.prompts, last)


def _was_called_after(failed: Attempt, later: Attempt) -> bool:
    """Return True if the failure was known when the later call was made.

    Calls that were sent together with the failing one answer nothing.
    """
    begin = later.seq if later.start_seq is None else later.start_seq
    if later.call is None or begin <= failed.end_seq:
        return False
    known, called = failed.result.ts if failed.result else None, later.call.ts
    return known is None or called is None or called >= known


def _is_gone(signature: Signature, output: str) -> bool:
    """Return True if the output of a later run does not report an error any more."""
    if signature.kind == "test" and (match := _TEST_NAME.match(signature.template)):
        return not any(
            match[1] in line and _REPORTS_FAILURE.search(line) for line in output.splitlines()
        )
    longest = max(_WORDS.findall(signature.sample), key=len, default="")
    # Most outputs lack even one word of the error, and need not be compared.
    return longest not in output or _mask_numbers(signature.sample) not in _mask_numbers(output)


def _mask_numbers(text: str) -> str:
    """Return a text in which times, durations and the like are the same."""
    return _NUMBERS.sub("0", " ".join(text.split()))


_NUMBERS = re.compile(r"\d+")
_WORDS = re.compile(r"[A-Za-z_]+")


_TEST_NAME = re.compile(r"failed test: (?:.*::)?([^:<>]{3,})")
_REPORTS_FAILURE = re.compile(r"(?i)fail|error|[✗✕✖●]|not ok|___ ")


def _call(attempt: Attempt) -> str:
    return to_line(attempt.text)


def _cut_diff(diff: str) -> str:
    return (
        diff[:MAX_DIFF_BYTES].encode("utf-8", "replace")[:MAX_DIFF_BYTES].decode("utf-8", "ignore")
    )
