"""The outcome of a session: success, fail, abandoned or unknown, by the strongest evidence.

Pure functions over events. Each rule looks at one kind of evidence and returns None if there is
none; the first that returns an outcome decides. An agent's statement about its own work is no
evidence. Nothing is called a success after a run of tests that failed, after a person's complaint,
or while something that was asked for is missing. A kind of evidence that `bench/outcome.py` shows
to be no better than a guess leaves the outcome unknown.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import islice, takewhile

from .. import timeline
from ..model import Outcome as Verdict
from ..model import OutcomeBy, SessionEvent, is_own
from . import Fix, Outcome
from .attempts import Attempt, find_attempts
from .code_host import find_merged, may_report, named_pull_request, read_checks
from .evidence import (
    COMMIT,
    Evidence,
    build_evidence,
    find_shipping,
    is_edit,
    is_evidence,
    is_of_before,
    is_test,
)
from .fixes import find_fixes
from .shell_commands import installs, only_commits
from .statements import extract_request, is_stop

LAST_FAILURES = 3
"""This many failed calls in a row at the end mean that the agent was stuck."""
MAX_VERDICT_WORDS = 25
"""The number of words up to which a message is only thanks, or a complaint."""
MAX_EVIDENCE = 8
MIN_TESTS = 50
"""Tests that have to pass in the last run for a success. Fewer are often those that the agent chose
or wrote for the occasion: they say no more than the session's end (docs/outcome.md)."""

Judge = Callable[[Evidence], Outcome | None]


def outcome(events: Iterable[SessionEvent], bodies: Mapping[int, str]) -> Outcome:
    """Return how a timeline ended.

    Rewound lines, inline side chains and copies of other sessions' events do not count.
    """
    events = timeline.in_order(events)
    attempts = find_attempts(events, bodies)
    return judge_outcome(
        events, bodies, [one for one in attempts if not _is_ours(one)], find_fixes(attempts, bodies)
    )


def judge_outcome(
    events: Iterable[SessionEvent], bodies: Mapping[int, str], attempts: Sequence[Attempt],
    fixes: Sequence[Fix]
) -> Outcome:  # fmt: skip
    """Return how a timeline ended, from its attempts and fixes without those of our own tools."""
    session = build_evidence(timeline.in_order(events), bodies, attempts, fixes)
    outcome = next(filter(None, (judge(session) for judge in _JUDGES)), Outcome(verdict="unknown"))
    if outcome.verdict != "success" or outcome.by in ("run", "said"):
        return outcome
    if outcome.evidence[-1] < session.last_complaint:
        return _doubt(outcome, "but a person complained later", session.last_complaint)
    if session.went_on_after(outcome.evidence[-1]):
        return _doubt(outcome, "but the work went on with another request")
    if (missing := session.missing_demand(outcome.by)) is not None:
        return _doubt(outcome, f"but what was asked for is missing: {missing}")
    return outcome


def _is_ours(attempt: Attempt) -> bool:
    event = attempt.call or attempt.result
    return event is not None and event.tool is not None and is_own(event.tool)


def _doubt(outcome: Outcome, reason: str, *seqs: int) -> Outcome:
    """Return an outcome as unknown, with what speaks against it."""
    return Outcome(
        verdict="unknown",
        by=outcome.by,
        evidence=(*outcome.evidence, *seqs),
        reason=f"{outcome.reason}, {reason}",
    )


def _by_run(session: Evidence) -> Outcome | None:
    """Judge by the status that a run gave itself last. A paused run has none yet."""
    last = next((event for event in reversed(session.line) if event.action in _RUN), None)
    if last is None or last.action is None:
        return None
    verdict, reason = _RUN[last.action]
    return None if not reason else _build_outcome(verdict, "run", reason, last.seq)


_RUN: dict[str, tuple[Verdict, str]] = {
    "run:complete": ("success", "the run says that it completed"),
    "run:fail": ("fail", "the run says that it failed"),
    "run:cancel": ("abandoned", "the run was cancelled"),
    "run:pause": ("unknown", "the run is paused"),
    "run:resume": ("unknown", ""),
}
"""The actions of events that change the status of a run, each with what it says of the outcome."""


def _by_merge(session: Evidence) -> Outcome | None:
    """Judge by a pull request of the session that was merged after the last change."""
    for attempt in reversed(session.done):
        if attempt.end_seq <= session.last_edit:
            return None
        if attempt.result is not None and may_report(attempt.shell):
            output = session.bodies.get(attempt.end_seq, "")
            code, is_cut = attempt.result.exit_code, attempt.command.hides_status
            own = session.pull_requests
            if find_merged(attempt.shell, output, code, is_cut, own) is not None:
                reason = "its pull request was merged"
                return _build_outcome("success", "merged", reason, attempt.end_seq)
    return None


def _by_ci(session: Evidence) -> Outcome | None:
    """Judge by the last report about the checks of what was pushed."""
    pushed = session.last_push
    if pushed < session.last_edit:
        return None
    for attempt in reversed(session.done):
        if attempt.end_seq < pushed:
            return None
        if attempt.result is None or not may_report(attempt.shell):
            continue
        number = named_pull_request(attempt.shell)
        if number and session.pull_requests and number not in session.pull_requests:
            continue
        output = session.bodies.get(attempt.end_seq, "")
        code, is_cut = attempt.result.exit_code, attempt.command.hides_status
        result = read_checks(attempt.shell, output, code, is_cut)
        if result is not None:
            verdict: Verdict = "success" if result == "pass" else "fail"
            return _build_outcome(verdict, "ci", f"the checks {result}ed", attempt.end_seq)
    return None


def _by_test(session: Evidence) -> Outcome | None:
    """Judge by the last run of tests after the last change."""
    last = session.last_test
    if last is None:
        return None
    if session.has_passed(last):
        is_enough = not session.is_tested_badly and _what_is_missing(last, session) is None
        reason = "the last run of tests passed"
        return _build_outcome("success", "test", reason, last.end_seq) if is_enough else None
    has_consent = (
        session.shipped is not None and session.shipped.end_seq > last.end_seq
    ) or _has_last_words(session, last.end_seq)
    if has_consent or _was_known(last, session):
        # The failures were known before, or the agent had its reasons. Either way they prove
        # nothing.
        return _build_outcome(
            "unknown", "test", "tests failed, as before or with consent", last.end_seq
        )
    return _build_outcome("fail", "test", "the last run of tests failed", last.end_seq)


def _what_is_missing(run: Attempt, session: Evidence) -> str | None:
    """Return why a run of tests that passed is no success; None if it is one.

    It is a success only with a change, several tests, and a commit. Otherwise a pass says little
    more than that the session went on to its end.
    """
    tests = session.counts(run)
    if session.last_edit < 0:
        return "nothing was changed"
    if tests is None or (tests.passed or 0) < MIN_TESTS:
        return f"fewer than {MIN_TESTS}, or it is not known how many"
    return "nothing was committed" if session.shipped is None else None


def _by_weak_test(session: Evidence) -> Outcome | None:
    """Note a run of tests that passed and is no success."""
    last = session.last_test
    if last is None or session.is_tested_badly:
        return None
    missing = _what_is_missing(last, session)
    return _build_outcome("unknown", "test", f"tests passed, but {missing}", last.end_seq)


def _was_known(run: Attempt, session: Evidence) -> bool:
    """Return True if as many tests failed before the changes, or with the changes set aside."""
    now = session.counts(run)
    for other in session.tests:
        before = session.counts(other)
        if not is_of_before(other) and (
            session.first_edit is None or other.end_seq > session.first_edit
        ):
            continue
        if now is not None and before is not None and (before.failed or 0) >= (now.failed or 0) > 0:
            return True
    return False


def _by_end(session: Evidence) -> Outcome | None:
    """Judge by what the program that ran the agent recorded last, after the agent's last words."""
    last = _last_but(session.line, "lifecycle")
    if last is None or not any(event.kind == "user_msg" for event in session.line):
        return None
    if last.kind == "completion" and last.is_error:
        return _build_outcome("fail", "end", "the run ended without a result", last.seq)
    if last.kind != "error":
        return None
    other = _last_but(session.line, "lifecycle", "error", "retry")
    if other is not None and other.kind in ("assistant_msg", "completion"):
        return None
    if _INTERRUPTS.search(last.summary or ""):
        return _build_outcome(
            "abandoned", "interrupted", "it was interrupted, and nothing followed", last.seq
        )
    return _build_outcome("fail", "end", "the session ends with an error", last.seq)


def _last_but(line: list[SessionEvent], *kinds: str) -> SessionEvent | None:
    return next((event for event in reversed(line) if event.kind not in kinds), None)


def _by_exit(session: Evidence) -> Outcome | None:
    """Judge by failed calls in a row at the end, or by a run that the changes did not affect."""
    last = list(islice(filter(is_evidence, reversed(session.done)), LAST_FAILURES))[::-1]
    if len(last) == LAST_FAILURES and all(attempt.failed for attempt in last):
        return _build_outcome(
            "fail", "exit", "the last calls failed", *(attempt.end_seq for attempt in last)
        )
    if session.first_edit is None or session.shipped is not None:
        return None
    run = _last_run_after_edit(session)
    before = _find_same_run_before(session, run) if run is not None else None
    if run is None or before is None or not _has_other_edits(session, before, run):
        return None
    return _build_outcome(
        "fail",
        "exit",
        "the same run says what it said before the changes",
        before.end_seq,
        run.end_seq,
    )


def _last_run_after_edit(session: Evidence) -> Attempt | None:
    """Return the last run of something of the work, if it came after the last change."""
    latest = filter(is_evidence, reversed(session.done))
    run = next(
        (attempt for attempt in latest if attempt.end_seq < session.last_edit or _runs(attempt)),
        None,
    )
    return None if run is None or run.end_seq < session.last_edit else run


def _find_same_run_before(session: Evidence, run: Attempt) -> Attempt | None:
    """Return the first run of the same command, if it was earlier and had the same output."""
    output = session.bodies.get(run.end_seq, "").strip()
    words = run.command.key.split()[:4]
    same = (
        other
        for other in session.done
        if other is not run and _is_same_command(other, run, words) and _runs(other)
    )
    before = next(filter(is_evidence, same), None)
    if before is None or before.end_seq > run.end_seq or not output:
        return None
    return before if output == session.bodies.get(before.end_seq, "").strip() else None


def _has_other_edits(session: Evidence, before: Attempt, run: Attempt) -> bool:
    """Return True if between two runs a file was changed that is not an operand of the command."""
    changes = [
        attempt
        for attempt in session.done
        if before.end_seq < attempt.seq < run.seq and is_edit(attempt) and is_evidence(attempt)
    ]
    return any(attempt.files.isdisjoint(run.command.files) for attempt in changes)


def _is_same_command(other: Attempt, run: Attempt, words: list[str]) -> bool:
    """Return True if two commands do the same work.

    The search for words is much faster than parsing.
    """
    for word in words:
        if word not in other.shell:
            return False
    return other.command.key == run.command.key


def _runs(attempt: Attempt) -> bool:
    """Return True if it runs something of the work.

    A command that only reads or commits does not. A test does not count, because it prints the same
    as long as it passes.
    """
    command = attempt.command
    is_run = attempt.action == "shell" and not command.is_read_only and bool(command.key)
    return is_run and not is_test(attempt) and not only_commits(command) and not installs(command)


def _by_shipping(session: Evidence) -> Outcome | None:
    """Note a commit, a push or a pull request after the last change.

    That something was shipped shows that it was done, not that it works.
    """
    shipped = session.shipped
    if shipped is None:
        return None
    is_commit = find_shipping(shipped, session.bodies) == {COMMIT}
    reason = f"it was {'committed' if is_commit else 'pushed'}; nothing shows that it works"
    return _build_outcome("unknown", "shipped", reason, shipped.end_seq)


_GOOD = re.compile(
    r"\b(?:thanks|thank you|thx|perfect|great|awesome|excellent|brilliant|amazing|lovely|lgtm"
    r"|looks good|look good|well done|nice"
    r"|good job|works|working now|it worked|that worked|that fixed it|fixed it|all good|ship it)\b"
)
_BAD = re.compile(
    r"\b(?:still (?:broken|fails?|failing|wrong|not|no|doesn'?t|does not|isn'?t|the same|happens"
    r"|happening|get|getting|see|seeing)"
    r"|(?:does not|doesn'?t|did not|didn'?t|not) (?:work|working|fix(?:ed)?|help(?:ed)?|compile"
    r"|build)"
    r"|(?:that|this|it)(?:'?s| is) (?:all |completely |just |still )?(?:wrong|incorrect|broken"
    r"|worse|useless)|you broke|worse than before"
    r"|(?:revert|undo) (?:it|that|this|all|everything|your|the)|nope|forget it|give up|never mind"
    r"|nevermind)\b"
)
_MORE = re.compile(
    r"\b(?:not|isn'?t|no|never|but|however|except|almost|nearly|would be|if|now|next|then|also"
    r"|please|can you|could you)\b"
)
"""Words that limit an approval, or go on to something else."""


def _by_words(session: Evidence) -> Outcome | None:
    """Judge by the user's last words, if nothing was done after them."""
    messages = [event for event in session.line if event.kind == "user_msg"]
    if len(messages) < 2:
        return None
    last = messages[-1]
    if any(attempt.seq > last.seq and is_evidence(attempt) for attempt in reversed(session.done)):
        return None
    text = " ".join(
        session.bodies.get(last.seq, last.summary or "")[:2000]
        .lower()
        .replace("\u2019", "'")
        .split()
    )
    if not text or len(text.split()) > MAX_VERDICT_WORDS or "?" in text:
        return None
    if _BAD.search(text):
        return _build_outcome("fail", "said", "the user's last words reject it", last.seq)
    rest, count = _GOOD.subn(" ", text)
    if count and not _MORE.search(rest) and not session.is_tested_badly:
        return _build_outcome("success", "said", "the user's last words accept it", last.seq)
    return None


def _by_errors(session: Evidence) -> Outcome | None:
    """Judge by errors that never went away.

    They count after the last change, if the agent wrote nothing after them.
    """
    if session.shipped is not None:
        return None
    failures = {
        attempt.end_seq: attempt
        for attempt in session.done
        if attempt.failed and attempt.action in ("shell", "edit") and is_evidence(attempt)
    }
    stayed = sorted(
        fix.failed_seq
        for fix in session.fixes
        if fix.fixed_seq is None and fix.failed_seq in failures
    )
    stayed = [
        seq for seq in stayed if seq > session.last_edit and not failures[seq].command.is_read_only
    ]
    if not stayed or _has_last_words(session, stayed[-1]):
        return None
    return _build_outcome("fail", "errors", "the last errors never went away", *stayed)


def _has_last_words(session: Evidence, seq: int) -> bool:
    """Return True if the agent or a person wrote something after this event."""
    return any(event.seq > seq and event.kind in _LAST_WORDS for event in session.line)


_LAST_WORDS = frozenset({"assistant_msg", "human_intervention"})
_INTERRUPTS = re.compile(
    r"\b(?:interrupt(?:ed)?|cancel(?:l?ed)?|abort(?:ed)?|stopped)\b", re.IGNORECASE
)
"""Words of an error that a person caused."""
_OF_AGENT = frozenset(
    {
        "assistant_msg",
        "thinking",
        "tool_call",
        "edit",
        "test_run",
        "tool_result",
        "completion",
        "error",
    }
)


def _by_interruption(session: Evidence) -> Outcome | None:
    """Judge by an interruption that nothing followed.

    A rejected plan does not count: it is often carried out in a session of its own.
    """
    last = list(
        takewhile(
            lambda event: event.kind not in _OF_AGENT and not timeline.is_prompt(event),
            reversed(session.line),
        )
    )
    stop = next((event for event in last if is_stop(event)), None)
    if stop is None:
        return None
    plans = {
        event.call_id for event in session.line if event.action == "plan" and event.is_call
    } - {None}
    if any(event.call_id in plans for event in last):
        return None
    return _build_outcome(
        "abandoned", "interrupted", "the user interrupted it, and nothing followed", stop.seq
    )


def _by_silence(session: Evidence) -> Outcome | None:
    """Judge by a last prompt without a reply."""
    for event in reversed(session.line):
        if event.kind in _OF_AGENT:
            return None
        if event.kind == "user_msg":
            if not extract_request(session.bodies.get(event.seq) or event.summary or ""):
                return None  # A command. Agents do not reply to these.
            return _build_outcome("abandoned", "silent", "the last prompt has no reply", event.seq)
    return None


_JUDGES: tuple[Judge, ...] = (
    _by_run,
    _by_merge,
    _by_ci,
    _by_test,
    _by_end,
    _by_exit,
    _by_words,
    _by_weak_test,
    _by_shipping,
    _by_errors,
    _by_interruption,
    _by_silence,
)


def _build_outcome(verdict: Verdict, by: OutcomeBy, reason: str, *seqs: int) -> Outcome:
    return Outcome(verdict=verdict, by=by, evidence=seqs[-MAX_EVIDENCE:], reason=reason)
