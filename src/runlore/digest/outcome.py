"""How a session ended: success, fail, abandoned or unknown, from what was observed, strongest evidence first.

Pure functions over events. Each rule looks at one kind of evidence and says nothing when there is none; the first that says something
decides. What an agent says of itself is no evidence: it is as polite when it has failed. Nothing is called a success after a run of
tests that failed, and where the evidence is weak the answer is unknown. What a confidence is worth is measured by `bench/outcome.py`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence

import msgspec

from .. import timeline
from ..model import SessionEvent, is_own
from . import Fix, Level, Outcome
from ._attempts import Attempt, attempts_of
from .fixes import fixes_in

LAST_FAILURES = 3
"""So many calls that failed, one after another and at the end, mean that the agent was stuck."""
SHORT = 25
"""Words of a message that says thanks, or that something is wrong, and not much else."""
MOST_EVIDENCE = 8

Judge = Callable[["_Session"], Outcome | None]


def outcome(events: Iterable[SessionEvent], bodies: Mapping[int, str]) -> Outcome:
    """How a timeline ended. Lines that were rewound, inline side chains and copies of other sessions' events say nothing about that."""
    events = list(events)
    attempts = attempts_of(events, bodies)
    return outcome_in(events, bodies, attempts, fixes_in(attempts, bodies))


def outcome_in(
    events: Iterable[SessionEvent], bodies: Mapping[int, str], attempts: Sequence[Attempt], fixes: Sequence[Fix]
) -> Outcome:  # fmt: skip
    """The same, for a caller that has the attempts and the fixes of these events already."""
    session = _look(list(events), bodies, attempts, fixes)
    for judge in _JUDGES:
        if (found := judge(session)) is not None:
            return found
    return Outcome(verdict="unknown")


class _Session(msgspec.Struct, frozen=True):
    """What the rules look at, of the line that is active."""

    line: list[SessionEvent]
    bodies: Mapping[int, str]
    attempts: list[Attempt]
    """Those whose end is known, but for looks at files and for our own tools."""
    fixes: Sequence[Fix]
    last_edit: int
    """The seq of the end of the last change to a file; -1 when there was none."""
    last_test: Attempt | None


def _look(events: list[SessionEvent], bodies: Mapping[int, str], attempts: Sequence[Attempt], fixes: Sequence[Fix]) -> _Session:
    is_subagent = all(event.is_sidechain for event in events)
    line = [event for event in timeline.active(events) if event.origin is None and (is_subagent or not event.is_sidechain)]
    seqs = {event.seq for event in line}
    done = [attempt for attempt in attempts if attempt.is_done and attempt.end_seq in seqs and not _is_ours(attempt)]
    edits = [attempt.end_seq for attempt in done if attempt.action == "edit" and not attempt.failed]
    tests = [attempt for attempt in done if _is_test(attempt) and _has_passed(attempt) is not None]
    return _Session(line, bodies, done, fixes, edits[-1] if edits else -1, tests[-1] if tests else None)


def _is_ours(attempt: Attempt) -> bool:
    event = attempt.call or attempt.result
    return event is not None and is_own(event.tool)


def _is_test(attempt: Attempt) -> bool:
    return attempt.call is not None and attempt.call.kind == "test_run"


def _has_passed(attempt: Attempt) -> bool | None:
    """Whether a run came to a good end; None when nothing tells."""
    result = attempt.result
    if result is None:
        return None
    tests = result.tests
    if tests is not None and (tests.failed or tests.passed):
        return not tests.failed
    if attempt.failed:
        return False
    return True if result.exit_code == 0 and not attempt.command.hides_status else None


# The rules.


def _by_test(session: _Session) -> Outcome | None:
    test = session.last_test
    if test is None:
        return None
    is_after_edits = test.end_seq > session.last_edit
    if _has_passed(test):
        return _say("success", "test", 0.6, "the last run of tests passed", test.end_seq) if is_after_edits else None
    if is_after_edits:
        return _say("fail", "test", 0.6, "the last run of tests failed", test.end_seq)
    return None


def _by_end(session: _Session) -> Outcome | None:
    """What the program that ran the agent says at the end."""
    for event in reversed(session.line):
        if event.kind == "completion" and event.is_error:
            return _say("fail", "end", 0.9, "the run ended without a result", event.seq)
        if event.kind == "error":
            return _say("fail", "end", 0.6, "the session ends with an error", event.seq)
        if event.kind != "lifecycle":
            return None
    return None


def _by_exit(session: _Session) -> Outcome | None:
    last = session.attempts[-LAST_FAILURES:]
    if len(last) == LAST_FAILURES and all(attempt.failed for attempt in last):
        return _say("fail", "exit", 0.7, "the last calls failed", *(attempt.end_seq for attempt in last))
    return None


_SHIPS = frozenset({"git push", "gh pr create", "gh pr merge", "glab mr create", "glab mr merge"})
_COMMITS = frozenset({"git commit"})


def _by_shipping(session: _Session) -> Outcome | None:
    if session.last_test is not None and not _has_passed(session.last_test):
        return None
    for attempt in reversed(session.attempts):
        if attempt.end_seq < session.last_edit:
            return None
        heads = {" ".join(head.split()[:3]) for head in attempt.command.heads}
        heads |= {" ".join(head.split()[:2]) for head in heads}
        if attempt.failed or not heads & (_SHIPS | _COMMITS):
            continue
        if heads & _SHIPS:
            return _say("success", "shipped", 0.6, "it was pushed", attempt.end_seq)
        return _say("success", "shipped", 0.5, "it was committed", attempt.end_seq)
    return None


_GOOD = re.compile(
    r"\b(?:thanks|thank you|thx|perfect|great|awesome|excellent|brilliant|amazing|lovely|lgtm|looks good|look good|well done|nice"
    r"|good job|works|working now|it worked|that worked|that fixed it|fixed it|all good|ship it)\b"
)
_BAD = re.compile(
    r"\b(?:still (?:broken|fails?|failing|wrong|not|no|doesn'?t|does not|isn'?t|the same|happens|happening|get|getting|see|seeing)"
    r"|(?:does not|doesn'?t|did not|didn'?t|not) (?:work|working|fix(?:ed)?|help(?:ed)?|compile|build)|that'?s wrong|that is wrong|wrong"
    r"|incorrect|broken|worse|revert|undo|useless|you broke|nope|forget it|give up|never mind|nevermind|stop)\b"
)
_NEGATED = re.compile(r"\b(?:not|isn'?t|no|never|but|however|except|almost|nearly|would be|if)\b")


def _by_words(session: _Session) -> Outcome | None:
    """The user's last words, when nothing was done about them any more."""
    last = next((event for event in reversed(session.line) if event.kind == "user_msg"), None)
    if last is None or sum(event.kind == "user_msg" for event in session.line) < 2:
        return None
    if any(attempt.seq > last.seq for attempt in session.attempts):
        return None
    text = " ".join(session.bodies.get(last.seq, last.summary or "")[:2000].lower().replace("\u2019", "'").split())
    if not text or len(text.split()) > SHORT:
        return None
    if _BAD.search(text):
        return _say("fail", "said", 0.6, "the user's last words reject it", last.seq)
    if _GOOD.search(text) and not _NEGATED.search(text) and "?" not in text and not _tests_failed(session):
        return _say("success", "said", 0.6, "the user's last words accept it", last.seq)
    return None


def _tests_failed(session: _Session) -> bool:
    return session.last_test is not None and not _has_passed(session.last_test)


def _by_errors(session: _Session) -> Outcome | None:
    """Errors that were met after the last change, and never went away."""
    stayed = [fix for fix in session.fixes if fix.fixed_seq is None and fix.failed_seq > session.last_edit]
    seqs = {attempt.end_seq for attempt in session.attempts[-LAST_FAILURES:] if attempt.failed and attempt.signature is not None}
    found = sorted(fix.failed_seq for fix in stayed if fix.failed_seq in seqs)
    return _say("fail", "errors", 0.5, "the last errors never went away", *found) if found else None


_INTERRUPTS = re.compile(r"\b(?:interrupt(?:ed)?|cancel(?:l?ed)?|abort(?:ed)?|stopped|rejected|refused|denied)\b", re.IGNORECASE)
_OF_AGENT = frozenset({"assistant_msg", "thinking", "tool_call", "edit", "test_run", "tool_result", "completion", "error"})


def _by_interruption(session: _Session) -> Outcome | None:
    for event in reversed(session.line):
        if event.kind in _OF_AGENT or timeline.is_prompt(event):
            return None
        if event.kind == "human_intervention" and _INTERRUPTS.search(f"{event.native or ''} {event.summary or ''}".replace("_", " ")):
            return _say("abandoned", "interrupted", 0.7, "the user interrupted it, and nothing followed", event.seq)
    return None


def _by_silence(session: _Session) -> Outcome | None:
    for event in reversed(session.line):
        if event.kind in _OF_AGENT:
            return None
        if event.kind == "user_msg":
            return _say("abandoned", "silent", 0.7, "the last prompt has no reply", event.seq)
    return None


_JUDGES: tuple[Judge, ...] = (_by_test, _by_end, _by_exit, _by_shipping, _by_words, _by_errors, _by_interruption, _by_silence)


def _say(verdict: str, level: Level, confidence: float, reason: str, *seqs: int) -> Outcome:
    return Outcome(verdict=verdict, level=level, confidence=confidence, evidence=seqs[-MOST_EVIDENCE:], reason=reason)  # type: ignore[arg-type]
