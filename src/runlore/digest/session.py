"""A session in a few kilobytes: `make` says what was asked, what was done, what went wrong, what fixed it and how it ended.

Pure and deterministic: the same events give the same digest, whenever and wherever it is made. Everything in it can be cited, and what
is cited by an error or a fix is there as an excerpt, because the events themselves may be gone one day. Lists are bounded; of long ones
that part is kept which answers questions, and what was cut off is counted.
"""

from __future__ import annotations

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
    TestRun,
    is_own,
    shorten,
)
from .attempts import attempts_in
from .dead_ends import dead_ends
from .errors import errors_in
from .fixes import fixes_in
from .outcome import outcome_in
from .quality import DEFAULT, quality
from .requested_lessons import MOST_TOLD, told_in
from .shell_commands import seems_to_look
from .statements import corrections_of, goal_of, is_stop
from .text import safe
from .work import work_in

EXCERPT = 500
"""Bytes kept of an event that is cited."""
MOST_FILES, MOST_COMMANDS, MOST_TESTS, MOST_MOMENTS, MOST_NAMES = 40, 30, 20, 20, 40
MOST_SLOW = 10
SEVERAL = 3
"""Changes of one file from which on they are counted."""
MOST_ERRORS = 60
"""What was met most often, and what has a fix."""

T = TypeVar("T")


def make(session: Session, events: Iterable[SessionEvent], bodies: Mapping[int, str], limits: Limits = DEFAULT) -> Digest:
    """The digest of a session from all of its events and their bodies, as the store has them, that is without secrets."""
    everything = timeline.in_order(events)
    tools = {tool for tool in set(map(attrgetter("tool"), everything)) if is_own(tool)}
    own = _without(tools, everything)
    attempts = attempts_in(own, bodies)
    fixes = fixes_in(attempts, bodies)
    ended = outcome_in(everything, bodies, attempts, fixes)
    work = work_in(attempts, bodies)
    calls = [event for event in own if event.kind in CALL_KINDS]
    kinds = Counter(map(attrgetter("kind"), own))
    spoken = own.main
    goal = goal_of(timeline.prompts(spoken), bodies)
    cut: dict[str, int] = {}

    def most(name: str, items: Iterable[T], limit: int) -> tuple[T, ...]:
        """The first ones."""
        kept = tuple(items)
        if len(kept) > limit:
            cut[name] = len(kept) - limit
        return kept[:limit]

    errors, answers = _told(errors_in(attempts), fixes, own, cut)
    commands = most("commands", most_notable(work.commands.values()), MOST_COMMANDS)
    slow = most("slow", sorted(work.took.values(), key=lambda took: -took.seconds), MOST_SLOW)
    besides = cited_besides(commands, slow, ended.evidence)
    return Digest(
        session_uid=session.session_uid,
        version=DIGEST_VERSION,
        covers=Covers(session.last_seq, session.content_hash),
        goal=goal.text if goal else None,
        goal_seq=goal.seq if goal else None,
        title=session.title,
        files_read=most("files_read", work.read, MOST_FILES),
        files_edited=most("files_edited", work.edited, MOST_FILES),
        files_created=most("files_created", work.created, MOST_FILES),
        commands=commands,
        tests=_last("tests", work.tests, MOST_TESTS, cut),
        commits=most("commits", work.commits.values(), MOST_MOMENTS),
        pull_requests=most("pull_requests", work.pull_requests.values(), MOST_MOMENTS),
        edits=dict(most("edits", by_use({path: n for path, n in work.edited.items() if n >= SEVERAL}), MOST_FILES)),
        slow=slow,
        actions=_counted("actions", Counter(map(attrgetter("action"), calls)), cut),
        tools=_counted("tools", Counter(map(attrgetter("tool"), calls)), cut),
        kinds=_counted("kinds", kinds, cut),
        subagents=most("subagents", (_moment(event) for event in calls if event.action == "agent"), MOST_MOMENTS),
        wall_s=_span(own),
        active_s=round(session.cost.wall_clock_s, 3),
        interventions=most("interventions", map(_moment, _stops(spoken)) if "human_intervention" in kinds else (), MOST_MOMENTS),
        corrections=most("corrections", corrections_of(spoken, bodies), MOST_MOMENTS),
        told=most("told", told_in(everything, bodies) if tools else (), MOST_TOLD),
        decisions=most("decisions", _decisions(own, bodies) if "decision" in kinds else (), MOST_MOMENTS),
        retries=session.cost.retries,
        compactions=list(map(attrgetter("view"), own)).count("compact"),
        errors=errors,
        fixes=answers,
        outcome=ended.verdict,
        outcome_level=ended.level,
        outcome_confidence=ended.confidence,
        outcome_evidence=ended.evidence,
        outcome_reason=ended.reason,
        quality=quality(everything, bodies, session.relation, limits),
        excerpts=_excerpts(cited(errors, answers, besides), bodies),
        cut=cut,
        dead_ends=dead_ends(everything, session.cost.retries),
    )


def _without(tools: set[str | None], events: timeline.OrderedEvents) -> timeline.OrderedEvents:
    """What happened here: copies count where they happened, and what our own tools answered is no evidence of anything."""
    if not tools:
        return events.own
    calls = {event.call_id for event in events if event.tool in tools} - {None}
    return timeline.OrderedEvents([event for event in events.own if event.tool not in tools and event.call_id not in calls])


def _moment(event: SessionEvent) -> Moment:
    return Moment(event.seq, shorten(" ".join((event.summary or event.native or "").split())))


def _decisions(events: Iterable[SessionEvent], bodies: Mapping[int, str]) -> Iterator[Moment]:
    """Each in one line, from all of its lines: the first of them may merely say that answers follow."""
    for event in events:
        if event.kind == "decision":
            yield Moment(event.seq, shorten(" ".join((bodies.get(event.seq) or event.summary or "")[:2000].split())))


def _stops(events: Iterable[SessionEvent]) -> Iterator[SessionEvent]:
    """Each time that a person stepped in: agents tell of the call that was refused, and then of the interruption."""
    was_stop = False
    for event in events:
        stops = event.kind == "human_intervention" and is_stop(event)
        if stops and not was_stop:
            yield event
        was_stop = stops


def _span(events: Sequence[SessionEvent]) -> float:
    times = [event.ts for event in events if event.ts is not None]
    return round((max(times) - min(times)).total_seconds(), 3) if times else 0.0


def _counted(name: str, words: Mapping[str | None, int], cut: dict[str, int]) -> dict[str, int]:
    counts = by_use({word: count for word, count in words.items() if word})
    if len(counts) > MOST_NAMES:
        cut[name] = len(counts) - MOST_NAMES
    return dict(counts[:MOST_NAMES])


def by_use(counts: Mapping[str, int]) -> list[tuple[str, int]]:
    return sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))


def _last(name: str, runs: Sequence[TestRun], limit: int, cut: dict[str, int]) -> tuple[TestRun, ...]:
    """The first run and the last ones: where it began, and what it came to."""
    if len(runs) <= limit:
        return tuple(runs)
    cut[name] = len(runs) - limit
    return (runs[0], *runs[1 - limit :])


def most_notable(commands: Iterable[CommandRun]) -> list[CommandRun]:
    """Commands that did something first, then looks; those that failed or came again before those that did not."""
    return sorted(commands, key=lambda ran: (seems_to_look(ran.command), -ran.failed, -ran.count))


# ── errors and what they cite ────────────────────────────────────────────────────────────────────────────────────────
def _told(
    errors: Sequence[ErrorSummary], fixes: Sequence[Fix], events: Sequence[SessionEvent], cut: dict[str, int]
) -> tuple[tuple[ErrorSummary, ...], tuple[Fix, ...]]:
    """The errors that are kept, in the order in which they were first seen, with when that was, and their fixes."""
    by_fingerprint = {fix.fingerprint: fix for fix in fixes}
    if len(errors) > MOST_ERRORS:
        cut["errors"] = len(errors) - MOST_ERRORS
        kept = sorted(errors, key=lambda error: weight(error, by_fingerprint), reverse=True)[:MOST_ERRORS]
        errors = sorted(kept, key=lambda error: error.first_seq)
    wanted = {seq for error in errors for seq in (error.first_seq, error.last_seq)}
    times = {event.seq: event.ts for event in events if event.seq in wanted} if wanted else {}
    told = tuple(
        msgspec.structs.replace(error, seqs=_ends(error), first_at=times.get(error.first_seq), last_at=times.get(error.last_seq))
        for error in errors
    )
    return told, tuple(by_fingerprint[error.signature.fingerprint] for error in errors if error.signature.fingerprint in by_fingerprint)


def _ends(error: ErrorSummary) -> tuple[int, ...]:
    return (error.first_seq, error.last_seq) if error.count > 1 else (error.first_seq,)


def weight(error: ErrorSummary, fixes: Mapping[str, Fix]) -> tuple[bool, int, int]:
    fix = fixes.get(error.signature.fingerprint)
    return fix is not None and fix.is_shown, error.count, -error.first_seq


def _excerpts(lines: Mapping[int, str], bodies: Mapping[int, str]) -> tuple[Moment, ...]:
    """Of each event that is cited, once, the part that matters."""
    return tuple(Moment(seq, text) for seq in sorted(lines) if (text := excerpt(bodies.get(seq, ""), lines[seq])))


def cited(errors: Sequence[ErrorSummary], fixes: Sequence[Fix], others: Iterable[int]) -> dict[int, str]:
    """The events that are kept as excerpts, each with the line that matters, where one does: those of errors and fixes, and the `others`
    that a pattern may cite."""
    found = {seq: error.signature.sample for error in errors for seq in error.seqs}
    for fix in fixes:
        found.setdefault(fix.failed_seq, "")
        # What was changed by an edit is in the fix itself.
        steps = (step.seq for n, step in enumerate(fix.steps) if n or not fix.diff)
        for seq in chain(steps, () if fix.fixed_seq is None else (fix.fixed_seq,)):
            found.setdefault(seq, "")
    for seq in others:
        found.setdefault(seq, "")
    return found


def cited_besides(commands: Iterable[CommandRun], slow: Iterable[SlowCommand], evidence: Iterable[int]) -> Iterator[int]:
    """What patterns cite besides errors and fixes: commands that failed again and again, or took long, and what says how it ended."""
    yield from (ran.seq for ran in commands if ran.failed > 1)
    yield from (took.seq for took in slow)
    yield from evidence


def excerpt(body: str, line: str = "") -> str:
    """At most 500 bytes of a body: around this line, where it is in it, or else from the beginning."""
    at = body.find(line[:60].rstrip("…")) if line and len(body) > EXCERPT else -1
    begin = max(0, at - EXCERPT // 3) if at > EXCERPT // 2 else 0
    text = safe(body[begin : begin + EXCERPT]).strip()
    data = f"{'…' * bool(begin)}{text}".encode()
    is_cut = len(data) > EXCERPT or begin + EXCERPT < len(body)
    return f"{data[: EXCERPT - 3].decode(errors='ignore')}…" if is_cut else data.decode()
