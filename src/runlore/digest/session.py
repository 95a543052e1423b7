"""The digest of a session: what was asked, what was done, what went wrong, and how it ended.

`make` is the one place that builds a digest from events. It is pure and deterministic: the same
events give the same digest, wherever it is made. Everything in it can be cited, and what an error
or a fix cites is included as an excerpt, because the events may be gone one day. A digest has a few
kilobytes: lists are bounded, of long ones the part that answers questions is kept, and the rest is
counted in `cut`.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from operator import attrgetter
from typing import TypeVar

import msgspec

from .. import timeline
from ..config import Quality as Limits
from ..model import (
    CALL_KINDS,
    DIGEST_VERSION,
    CommandRun,
    Covers,
    Digest,
    ErrorSummary,
    Fix,
    Moment,
    Session,
    SessionEvent,
    SlowCommand,
    is_own,
    shorten,
)
from ..text.task_ref import task_ref
from .attempts import build_attempts
from .corrections import find_corrections
from .dead_ends import dead_ends
from .decisions import iter_decisions
from .errors import summarize_errors
from .fixes import find_fixes
from .outcome import judge_outcome
from .paths import Root
from .quality import DEFAULT, quality
from .requested_lessons import MAX_LESSONS, find_requested_lessons
from .shell_commands import seems_read_only
from .statements import MAX_REQUEST_CHARS, find_requests, find_result, is_stop
from .text import clean, truncate
from .work import find_work

MAX_EXCERPT_BYTES = 500
MAX_FILES, MAX_COMMANDS, MAX_TESTS, MAX_MOMENTS, MAX_NAMES, MAX_SLOW, MAX_ERRORS = (
    40,
    30,
    20,
    20,
    40,
    10,
    60,
)
MAX_REQUESTS = 30
MIN_EDITS = 3
"""The number of changes of one file from which they are counted."""

T = TypeVar("T")


def make(
    session: Session,
    events: Iterable[SessionEvent],
    bodies: Mapping[int, str],
    limits: Limits = DEFAULT,
) -> Digest:
    """Return the digest of a session from all of its events and their bodies.

    Both must be as the store has them, that is without secrets.
    """
    everything = timeline.in_order(events)
    own_tools = {tool for tool in set(map(attrgetter("tool"), everything)) if is_own(tool)}
    own = _leave_out(own_tools, everything)
    attempts = build_attempts(own, bodies)
    all_fixes = find_fixes(attempts, bodies, own)
    outcome = judge_outcome(everything, bodies, attempts, all_fixes)
    work = find_work(attempts, bodies, Root(session.cwd))
    calls = [event for event in own if event.kind in CALL_KINDS]
    kinds = Counter(map(attrgetter("kind"), own))
    spoken = own.main
    requests = find_requests(spoken, bodies)
    goal = requests[0] if requests else None
    bounded = Bounded()
    errors, fixes = _select_errors(summarize_errors(attempts), all_fixes, own, bounded)
    commands = choose_commands(work.commands.values(), bounded)
    slow = bounded.first(
        "slow", sorted(work.slow.values(), key=lambda command: -command.seconds), MAX_SLOW
    )
    # Long, because each field of a digest is named here once.
    return Digest(
        session_uid=session.session_uid,
        version=DIGEST_VERSION,
        covers=Covers(session.last_seq, session.content_hash),
        goal=goal.text if goal else None,
        goal_seq=goal.seq if goal else None,
        requests=bounded.first_and_last("requests", _in_one_line(requests), MAX_REQUESTS),
        result=find_result(timeline.active(spoken), bodies),
        task_ref=_find_task(session, goal, bodies),
        title=session.title,
        files_read=bounded.first("files_read", work.read, MAX_FILES),
        files_edited=bounded.first("files_edited", work.edited, MAX_FILES),
        files_created=bounded.first("files_created", work.created, MAX_FILES),
        commands=commands,
        tests=bounded.first_and_last("tests", work.tests, MAX_TESTS),
        commits=bounded.first("commits", work.commits.values(), MAX_MOMENTS),
        pull_requests=bounded.first("pull_requests", work.pull_requests.values(), MAX_MOMENTS),
        edits=bounded.counts(
            "edits", {path: n for path, n in work.edited.items() if n >= MIN_EDITS}, MAX_FILES
        ),
        slow=slow,
        actions=bounded.counts("actions", Counter(event.action for event in calls if event.action)),
        tools=bounded.counts("tools", Counter(event.tool for event in calls if event.tool)),
        kinds=bounded.counts("kinds", kinds),
        subagents=bounded.first(
            "subagents",
            (_moment(event) for event in calls if _starts_agent(event, bodies)),
            MAX_MOMENTS,
        ),
        wall_s=_span_s(own),
        active_s=round(session.cost.wall_clock_s, 3),
        interventions=bounded.first(
            "interventions", map(_moment, _iter_stops(spoken)), MAX_MOMENTS
        ),
        corrections=bounded.first("corrections", find_corrections(spoken, bodies), MAX_MOMENTS),
        requested_lessons=bounded.first(
            "requested_lessons",
            find_requested_lessons(everything, bodies) if own_tools else (),
            MAX_LESSONS,
        ),
        decisions=bounded.first("decisions", iter_decisions(own, bodies), MAX_MOMENTS),
        retries=session.cost.retries,
        compactions=list(map(attrgetter("view"), own)).count("compact"),
        errors=errors,
        fixes=fixes,
        outcome=outcome.verdict,
        outcome_level=outcome.level,
        outcome_by=outcome.by,
        outcome_evidence=outcome.evidence,
        outcome_reason=outcome.reason,
        quality=quality(everything, bodies, session.relation, limits),
        excerpts=_excerpts(
            cited_lines(errors, fixes, other_citations(commands, slow, outcome.evidence)), bodies
        ),
        cut=bounded.cut,
        dead_ends=dead_ends(everything, session.cost.retries),
    )


class Bounded:
    """Cuts lists to their limits, and counts in `cut` by name what was left out."""

    def __init__(self, cut: Mapping[str, int] | None = None) -> None:
        self.cut: dict[str, int] = dict(cut or {})

    def first(self, name: str, items: Iterable[T], limit: int) -> tuple[T, ...]:
        """Return the first items."""
        all_items = tuple(items)
        self.count(name, len(all_items) - limit)
        return all_items[:limit]

    def first_and_last(self, name: str, items: Sequence[T], limit: int) -> tuple[T, ...]:
        """Return the first item and the last ones: where it began, and where it ended."""
        if len(items) <= limit:
            return tuple(items)
        self.count(name, len(items) - limit)
        return (items[0], *items[1 - limit :])

    def counts(
        self, name: str, counts: Mapping[str, int], limit: int = MAX_NAMES
    ) -> dict[str, int]:
        """Return the largest counts, largest first."""
        return dict(
            self.first(name, sorted(counts.items(), key=lambda pair: (-pair[1], pair[0])), limit)
        )

    def count(self, name: str, missing: int) -> None:
        """Count items that were left out."""
        if missing > 0:
            self.cut[name] = self.cut.get(name, 0) + missing


def _leave_out(tools: set[str | None], events: timeline.OrderedEvents) -> timeline.OrderedEvents:
    """Return what happened here, without copies and without these tools.

    The answers of our own tools are no evidence.
    """
    if not tools:
        return events.own
    calls = {event.call_id for event in events if event.tool in tools} - {None}
    return timeline.OrderedEvents(
        [event for event in events.own if event.tool not in tools and event.call_id not in calls]
    )


def _in_one_line(requests: list[Moment]) -> list[Moment]:
    """Return the requests in the length of a line. The goal itself is longer."""
    return [Moment(each.seq, truncate(each.text, MAX_REQUEST_CHARS)) for each in requests]


def _find_task(session: Session, goal: Moment | None, bodies: Mapping[int, str]) -> str | None:
    """Return the issue or pull request of a session, or else its branch if that says something."""
    branch = session.git_branch
    prompt = bodies.get(goal.seq) or goal.text if goal else None
    task = session.task_ref or task_ref(branch, prompt)
    return task or (branch if branch and branch not in _DEFAULT_BRANCHES else None)


_DEFAULT_BRANCHES = frozenset("HEAD main master trunk develop dev gh-pages".split())


def _moment(event: SessionEvent) -> Moment:
    return Moment(event.seq, shorten(" ".join((event.summary or event.native or "").split())))


def _starts_agent(call: SessionEvent, bodies: Mapping[int, str]) -> bool:
    """Return True for a call that gives a task to a subagent, and does not talk to a running
    one."""
    if call.action != "agent":
        return False
    body = bodies.get(call.seq, "")
    return bool(body.strip()) and _TO_AGENT.search(body[:2000]) is None


_TO_AGENT = re.compile(r"^(?:target|to|recipient|agent_id|agent_ids|ids|timeout_ms): ", re.M)


def _iter_stops(events: Iterable[SessionEvent]) -> Iterator[SessionEvent]:
    """Yield each time that a person stepped in.

    Agents record the refused call, and then the interruption.
    """
    was_stop = False
    for event in events:
        stops = event.kind == "human_intervention" and is_stop(event)
        if stops and not was_stop:
            yield event
        was_stop = stops


def _span_s(events: Sequence[SessionEvent]) -> float:
    times = [event.ts for event in events if event.ts is not None]
    return round((max(times) - min(times)).total_seconds(), 3) if times else 0.0


def choose_commands(commands: Iterable[CommandRun], bounded: Bounded) -> tuple[CommandRun, ...]:
    """Return commands in their order: of many the first and the last, then those that tell what
    was done."""
    all_commands = list(commands)
    if len(all_commands) <= MAX_COMMANDS:
        return tuple(all_commands)
    ends = (all_commands[0].command, all_commands[-1].command)
    ranked = sorted(all_commands, key=lambda run: (run.command not in ends, *_rank(run)))
    chosen = {run.command for run in bounded.first("commands", ranked, MAX_COMMANDS)}
    return tuple(run for run in all_commands if run.command in chosen)


def _rank(run: CommandRun) -> tuple[bool, bool, int, int]:
    """Return what orders commands by what they tell: those that only read come last, and tests,
    builds, commits and repeated failures come first."""
    is_step = run.failed > 1 or _STEP.search(run.command) is not None
    return seems_read_only(run.command), not is_step, -run.failed, -run.count


_STEP = re.compile(
    r"\b(?:py)?tests?\b"
    r"|\b(?:make|build|tsc|mypy|ruff|eslint|lint|check|install|migrate|deploy|publish)\b"
    r"|\bgit (?:-C \S+ )?(?:commit|push|merge|rebase)\b|\bgh pr (?:create|merge)\b"
)
"""Commands that are steps of the work."""


# ── errors and what they cite ─────────────────────────────────────────────────────────────────────
def _select_errors(
    errors: Sequence[ErrorSummary],
    fixes: Sequence[Fix],
    events: Sequence[SessionEvent],
    bounded: Bounded,
) -> tuple[tuple[ErrorSummary, ...], tuple[Fix, ...]]:
    """Return the errors that are kept, by first occurrence and with their times, and their
    fixes."""
    by_fingerprint = {fix.fingerprint: fix for fix in fixes}
    errors = keep_weightiest(errors, by_fingerprint, bounded)
    cited = {seq for error in errors for seq in (error.first_seq, error.last_seq)}
    times = {event.seq: event.ts for event in events if event.seq in cited} if cited else {}
    selected = tuple(
        msgspec.structs.replace(
            error,
            seqs=_ends(error),
            first_at=times.get(error.first_seq),
            last_at=times.get(error.last_seq),
        )
        for error in errors
    )
    return selected, tuple(
        by_fingerprint[error.signature.fingerprint]
        for error in errors
        if error.signature.fingerprint in by_fingerprint
    )


def keep_weightiest(
    errors: Sequence[ErrorSummary], fixes: Mapping[str, Fix], bounded: Bounded
) -> Sequence[ErrorSummary]:
    """Return at most `MAX_ERRORS` errors: those with a fix first, then the most frequent ones."""
    if len(errors) <= MAX_ERRORS:
        return errors
    bounded.count("errors", len(errors) - MAX_ERRORS)
    weightiest = sorted(errors, key=lambda error: _weight(error, fixes), reverse=True)[:MAX_ERRORS]
    return sorted(weightiest, key=lambda error: error.first_seq)


def _weight(error: ErrorSummary, fixes: Mapping[str, Fix]) -> tuple[bool, int, int]:
    fix = fixes.get(error.signature.fingerprint)
    return fix is not None and fix.is_shown, error.count, -error.first_seq


def _ends(error: ErrorSummary) -> tuple[int, ...]:
    return (error.first_seq, error.last_seq) if error.count > 1 else (error.first_seq,)


def _excerpts(lines: Mapping[int, str], bodies: Mapping[int, str]) -> tuple[Moment, ...]:
    """Return the part that matters of each cited event."""
    return tuple(
        Moment(seq, text)
        for seq in sorted(lines)
        if (text := excerpt(bodies.get(seq, ""), lines[seq]))
    )


def cited_lines(
    errors: Sequence[ErrorSummary], fixes: Sequence[Fix], others: Iterable[int]
) -> dict[int, str]:
    """Return the events that are kept as excerpts, each with the line that matters.

    These are the events of errors and fixes, and the `others` that a pattern may cite. The line is
    empty if none stands out.
    """
    lines = {seq: error.signature.sample for error in errors for seq in error.seqs}
    for fix in fixes:
        lines.setdefault(fix.failed_seq, "")
        # The diff of an edit is in the fix itself.
        steps = (step.seq for n, step in enumerate(fix.steps) if n or not fix.diff)
        for seq in chain(steps, () if fix.fixed_seq is None else (fix.fixed_seq,)):
            lines.setdefault(seq, "")
    for seq in others:
        lines.setdefault(seq, "")
    return lines


def other_citations(
    commands: Iterable[CommandRun], slow: Iterable[SlowCommand], evidence: Iterable[int]
) -> Iterator[int]:
    """Yield the events that patterns cite apart from errors and fixes.

    These are commands that failed repeatedly, slow commands, and the evidence of the outcome.
    """
    yield from (run.seq for run in commands if run.failed > 1)
    yield from (command.seq for command in slow)
    yield from evidence


def excerpt(body: str, line: str = "") -> str:
    """Return at most 500 bytes of a body, around this line or else from the beginning."""
    limit = MAX_EXCERPT_BYTES
    at = body.find(line[:60].rstrip("…")) if line and len(body) > limit else -1
    begin = max(0, at - limit // 3) if at > limit // 2 else 0
    text = clean(body[begin : begin + limit]).strip()
    data = f"{'…' * bool(begin)}{text}".encode()
    is_cut = len(data) > limit or begin + limit < len(body)
    return f"{data[: limit - 3].decode(errors='ignore')}…" if is_cut else data.decode()
