"""The evidence in a session that the rules about its outcome look at.

Pure. `Evidence` holds the active line and the calls on it; what it offers is searched from the end,
and only when a rule needs it. The functions below it say what a single call is evidence of.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cached_property

import re2

from .. import timeline
from ..adapters.shared.tools import test_counts
from ..model import OutcomeBy, SessionEvent, Tests
from ..timeline import is_prompt
from . import Fix
from .attempts import Attempt
from .code_host import pull_request_number
from .commits import find_pull_request, find_reported_commits, may_name_pull_request
from .corrections import rejects
from .demands import Demand, find_demand
from .error_lines import find_error_line
from .shell_commands import MAX_CHARS, only_commits


class Evidence:
    """The evidence on the active line, for all rules.

    Most is searched from the end, and only when a rule needs it.
    """

    def __init__(
        self,
        line: list[SessionEvent],
        bodies: Mapping[int, str],
        done: list[Attempt],
        fixes: Sequence[Fix],
    ) -> None:
        self.line, self.bodies, self.fixes = line, bodies, fixes
        self.done = done
        """The attempts whose end is known."""

    @cached_property
    def first_edit(self) -> int | None:
        return next((attempt.end_seq for attempt in self.done if is_edit(attempt)), None)

    @cached_property
    def last_edit(self) -> int:
        """The seq of the result of the last change to a file; -1 if there was none."""
        return next((attempt.end_seq for attempt in reversed(self.done) if is_edit(attempt)), -1)

    @cached_property
    def shipped(self) -> Attempt | None:
        """The last commit, push or pull request after the last change."""
        for attempt in reversed(self.done):
            if attempt.end_seq <= self.last_edit:
                return None
            if attempt.shell and find_shipping(attempt, self.bodies):
                return attempt
        return None

    @cached_property
    def tests(self) -> list[Attempt]:
        """The runs of tests whose end is known.

        After the last change also those that only their output shows to be one.
        """
        return [
            attempt
            for attempt in self.done
            if self._is_run_of_tests(attempt) and (attempt.failed or self.has_passed(attempt))
        ]

    @cached_property
    def last_test(self) -> Attempt | None:
        """The last run of tests of the changes as they were left."""
        for run in reversed(self.tests):
            if run.end_seq <= self.last_edit:
                return None
            if not is_of_before(run) and (self.has_passed(run) or self.has_failures(run)):
                return run
        return None

    def _is_run_of_tests(self, attempt: Attempt) -> bool:
        return is_test(attempt) or (
            attempt.end_seq > self.last_edit and self.counts(attempt) is not None
        )

    def counts(self, attempt: Attempt) -> Tests | None:
        """Return the numbers of tests that a run reports."""
        result = attempt.result
        if result is None or result.tests is not None or is_test(attempt):
            return result.tests if result else None
        body = self.bodies.get(result.seq, "")
        if attempt.action != "shell" or not _MAY_COUNT.search(body[-2000:]):
            return None
        return None if attempt.command.is_read_only else test_counts(body)

    def has_passed(self, attempt: Attempt) -> bool:
        """Return True if tests ran and passed, and the result shows it."""
        result, tests = attempt.result, self.counts(attempt)
        if result is None or attempt.failed:
            return False
        if tests is not None:
            return bool(tests.passed) and not tests.failed
        return result.exit_code == 0 and not attempt.command.hides_status

    def has_failures(self, attempt: Attempt) -> bool:
        """Return True if tests ran and failed. A missing test runner is no evidence."""
        tests = self.counts(attempt)
        if tests is not None:
            return bool(tests.failed)
        return attempt.failed and attempt.signature is not None and attempt.signature.kind == "test"

    @cached_property
    def last_complaint(self) -> int:
        """The seq of the last message of a person that rejects the work or shows a failure; -1 if
        there was none."""
        for event in reversed(self.line):
            if event.kind == "user_msg" and _complains(self.text_of(event)):
                return event.seq
        return -1

    def missing_demand(self, by: OutcomeBy) -> Demand | None:
        """Return what a request asked for and this evidence does not show; None if nothing."""
        if by in ("merged", "reverted"):
            return None
        for event in reversed(self.line):
            if event.kind != "user_msg":
                continue
            demand = find_demand(self.text_of(event))
            if demand is None or (demand != "merge" and by == "ci"):
                continue
            if demand == "pull request" and self.has_pull_request_after(event.seq):
                continue
            return demand
        return None

    def went_on_after(self, seq: int) -> bool:
        """Return True if something was asked for after an event, and something was done for it."""
        asked = next((event.seq for event in self.line if event.seq > seq and is_prompt(event)), -1)
        return asked >= 0 and any(
            attempt.seq > asked and self._works(attempt) for attempt in reversed(self.done)
        )

    def _works(self, attempt: Attempt) -> bool:
        """Return True if a call does more than to look at something, or to ship it."""
        if attempt.action != "shell":
            return is_edit(attempt)
        command = attempt.command
        is_idle = command.is_read_only or only_commits(command)
        return not is_idle and not find_shipping(attempt, self.bodies)

    def has_pull_request_after(self, seq: int) -> bool:
        return any(
            attempt.seq > seq and _find_opened(attempt, self.bodies)
            for attempt in reversed(self.done)
        )

    @cached_property
    def pull_requests(self) -> frozenset[str]:
        """The numbers of the pull requests that were opened."""
        addresses = (_find_opened(attempt, self.bodies) for attempt in self.done)
        return frozenset(pull_request_number(address) for address in addresses if address)

    @cached_property
    def last_push(self) -> int:
        """The seq of the last push or pull request; -1 if there was none."""
        for attempt in reversed(self.done):
            if attempt.shell and find_shipping(attempt, self.bodies) - {COMMIT, *_MERGES}:
                return attempt.end_seq
        return -1

    def text_of(self, event: SessionEvent) -> str:
        return self.bodies.get(event.seq) or event.summary or ""

    @property
    def is_tested_badly(self) -> bool:
        """True if the last run of tests failed: nothing is a success after that."""
        return bool(self.tests) and self.tests[-1].failed


def build_evidence(
    events: timeline.OrderedEvents,
    bodies: Mapping[int, str],
    attempts: Sequence[Attempt],
    fixes: Sequence[Fix],
) -> Evidence:
    line = timeline.active(events)
    if events.own is not events or events.main is not events:
        is_subagent = events.main is events
        line = [
            event
            for event in line
            if event.origin is None and (is_subagent or not event.is_sidechain)
        ]
    done = [attempt for attempt in attempts if attempt.is_done]
    if len(line) < len(events):
        seqs = {event.seq for event in line}
        done = [attempt for attempt in done if attempt.end_seq in seqs]
    return Evidence(line, bodies, done, fixes)


def is_evidence(attempt: Attempt) -> bool:
    """Return True if its end is evidence: it is no question, and not about the state before."""
    return not _is_question(attempt) and not is_of_before(attempt)


def _is_question(attempt: Attempt) -> bool:
    """Return True for a call that failed without a message: a question with the answer no."""
    return attempt.failed and (attempt.signature is None or attempt.signature.kind == "exit")


def is_edit(attempt: Attempt) -> bool:
    if attempt.failed or attempt.action != "shell":
        return attempt.action == "edit" and not attempt.failed
    # Here and below a fast search for words comes before the pattern.
    text = attempt.shell[:MAX_CHARS]
    return (
        "sed" in text or "perl" in text or "git apply" in text or "patch -p" in text
    ) and _IN_PLACE.search(text) is not None


_IN_PLACE = re.compile(
    r"(?:sed(?<!\wsed)|perl(?<!\wperl))\b[^|;&\n]{0,80} -[a-zA-Z]{0,4}i|git apply(?<!\wgit apply)\b"
    r"|patch -p(?<!\wpatch -p)\d"
)


def is_test(attempt: Attempt) -> bool:
    return attempt.call is not None and attempt.call.kind == "test_run"


def is_of_before(attempt: Attempt) -> bool:
    """Return True if the changes were set aside for this run, which then shows the state before."""
    if attempt.action != "shell" or "git " not in (text := attempt.shell[:MAX_CHARS]):
        return False
    return (
        "git stash" in text or "git worktree" in text or "git checkout" in text
    ) and _DISCARDS.search(text) is not None


_DISCARDS = re.compile(
    r"\bgit (?:stash(?! (?:pop|apply|list|show|drop))|worktree add|checkout (?:HEAD|main|master"
    r"|origin)\b)"
)


def find_shipping(attempt: Attempt, bodies: Mapping[int, str]) -> frozenset[str]:
    """Return what a command shipped, unless its output denies it."""
    text = attempt.shell
    if not ("commit" in text or "push" in text or "create" in text or "merge" in text):
        return frozenset()
    shipped = _SHIPS & {
        " ".join(head.split()[:size]) for head in attempt.command.heads for size in (2, 3)
    }
    if not shipped or attempt.failed:
        return frozenset()
    body = bodies.get(attempt.end_seq, "")
    # After a commit the status may print that there is nothing to commit.
    is_done = shipped == {COMMIT} and bool(find_reported_commits(text, lambda: body))
    return shipped if is_done or not _REFUSED.search(body) else frozenset()


def _find_opened(attempt: Attempt, bodies: Mapping[int, str]) -> str:
    """Return the pull request that a call opened; empty if it opened none."""
    call = attempt.call
    if call is None or attempt.failed:
        return ""
    called = attempt.shell if attempt.action == "shell" else call.tool or ""
    if not may_name_pull_request(called):
        return ""
    done = find_pull_request(called, attempt.text, bodies.get(attempt.end_seq, "")) or ""
    return done if done.startswith("opened ") else ""


def _complains(text: str) -> bool:
    """Return True if a person rejects the work, or pastes the output of something that failed."""
    if rejects(text):
        return True
    if _FAILING.search(text[:_MAX_COMPLAINT_CHARS].lower()):
        return True
    line = find_error_line(text[-_MAX_COMPLAINT_CHARS:], proof=True) if "\n" in text else None
    return line is not None and line.is_strong


_MAX_COMPLAINT_CHARS = 20_000
_FAILING = re.compile(
    r"\b(?:build|ci|tests?|checks?|lint|linter|deploy|deployment|pipeline|workflow|compilation)"
    r" (?:is |are |was |has |have |still |now |also )*(?:fail(?:s|ed|ing)?|broken|red|breaks)\b"
)
_MAY_COUNT = re2.compile(r"\d (?:passed|passing|tests?|ok)\b|\btests?: |\bRan \d|test result:")
"""What is in every output that reports the number of tests; a fast check."""

COMMIT = "git commit"
_MERGES = ("gh pr merge", "glab mr merge")
_SHIPS = frozenset({COMMIT, "git push", "gh pr create", "glab mr create", *_MERGES})
_REFUSED = re.compile(
    r"^(?:fatal:|error:|remote: error|.{0,80}! \[(?:remote )?rejected\]|nothing to commit"
    r"|no changes added to commit)",
    re.MULTILINE,
)
