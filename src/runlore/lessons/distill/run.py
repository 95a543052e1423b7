"""Distill lessons from a store: ask, check, judge, and store the proven answers as proposals.

Each question is asked once for the same evidence. `distilled.jsonl` in runlore's home records each
question with the tokens it used; the tokens of a day are bounded. Everything that is sent was
redacted when it was stored. Nothing is approved here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from functools import cache
from pathlib import Path

import msgspec

from ...config import Config
from ...mine.cases import read_cases
from ...mine.drafts import MAX_EVIDENCE, Draft, hash_id, only_one
from ...mine.intervals import wilson_interval
from ...model import format_time
from ...store import Filter, Store
from ...text.tokens import tokens
from .. import Lesson, record_file
from ..actions import open_shelf, redact_lessons
from ..drafts import build_lesson
from ..gates import find_refusal
from .agent import AgentFailed, ask_agent
from .answers import Checked, Unusable, check_answer, read_answer, read_judgement
from .questions import Question, find_questions, write_judge_prompt, write_prompt

FILE_NAME = "distilled.jsonl"
MAX_BYTES = 16 << 20
ANSWER_TOKENS = 2_000
"""Tokens reserved for an answer before a question is asked."""

Ask = Callable[[str, str], str]
"""Takes a command and a prompt, returns the answer. Raises AgentFailed."""


class DistillRecord(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A question that was put to an agent."""

    at: str
    question: str
    """The question's hash; empty if the agent failed, so that it is asked again."""
    command: str
    tokens: int = 0
    """Estimated tokens of all prompts and answers."""
    lessons: tuple[str, ...] = ()


class Distilled(msgspec.Struct, frozen=True, kw_only=True):
    """The result of one question."""

    question: str
    """A hash of the evidence."""
    error: str
    tasks: int
    """Number of independent tasks that met the error."""
    tokens: int = 0
    """Estimated tokens of all prompts and answers; of the prompt alone in a dry run."""
    lessons: tuple[str, ...] = ()
    """Ids of the lessons that were put down as proposals."""
    dropped: tuple[str, ...] = ()
    """Why the rest of the answer was dropped."""


def distill(
    store: Store,
    config: Config,
    command: str,
    now: datetime,
    *,
    limit: int,
    dry_run: bool = False,
    ask: Ask = ask_agent,
    step: Callable[[int, int], None] | None = None,
) -> tuple[list[Distilled], str]:
    """Ask about the errors that have no lesson yet, the most frequent first.

    Returns what came of each question, and why it stopped early; an empty text if it did not.
    """
    questions = _find_open_questions(store, config)[:limit]
    if dry_run:
        return [_describe(question, tokens(write_prompt(question))) for question in questions], ""
    results: list[Distilled] = []
    for n, question in enumerate(questions):
        if step:
            step(n, len(questions))
        left = config.lessons.distill_tokens - _tokens_of_day(config.home, now)
        if tokens(write_prompt(question)) + ANSWER_TOKENS > left:
            return results, f"the budget of {config.lessons.distill_tokens:,} tokens a day is spent"
        try:
            results.append(_ask_one(config, command, question, now, ask))
        except AgentFailed as error:
            return results, str(error)
    return results, ""


def _find_open_questions(store: Store, config: Config) -> list[Question]:
    """Return the questions that were not asked before and whose errors have no lesson."""
    answered = {record.question for record in read_records(config.home)}
    known = {name for one in open_shelf(config).read()[0] for name in one.fingerprints}
    questions = find_questions(read_cases(store, config, Filter(parents_only=False)))
    return [
        question
        for question in questions
        if question.id not in answered and known.isdisjoint(question.fingerprints)
    ]


def _ask_one(
    config: Config, command: str, question: Question, now: datetime, ask: Ask
) -> Distilled:
    """Ask one question, keep what is proven, and record it with its tokens."""
    exchange = _Exchange(command, ask)
    dropped: list[str] = []
    ids: tuple[str, ...] = ()
    is_answered = False
    try:
        lessons = list(_iter_lessons(question, exchange, now, dropped))
        ids, is_answered = _put(config, lessons), True
    finally:
        # Tokens count also if the agent fails. The question is then asked again.
        record = DistillRecord(
            at=now.isoformat(),
            question=question.id if is_answered else "",
            command=command,
            tokens=exchange.tokens,
            lessons=ids,
        )
        record_file.append_record(config.home / FILE_NAME, record, MAX_BYTES)
    return msgspec.structs.replace(
        _describe(question, exchange.tokens), lessons=ids, dropped=tuple(dropped)
    )


def _iter_lessons(
    question: Question, exchange: _Exchange, now: datetime, dropped: list[str]
) -> Iterator[Lesson]:
    """Yield the lessons of an answer that are proven; to `dropped` goes why others are not."""
    try:
        answers = read_answer(exchange.send(write_prompt(question)))
    except Unusable as error:
        dropped.append(str(error))
        return
    if not answers:
        dropped.append("the agent sees no lesson in the evidence")
    for answer in answers:
        try:
            checked = check_answer(question, answer)
            dropped += checked.dropped
            _judge(question, checked, exchange)
            yield _build_lesson(question, checked, exchange.command, now)
        except Unusable as error:
            dropped.append(str(error))


class _Exchange:
    """Prompts and answers, with their tokens counted."""

    def __init__(self, command: str, ask: Ask) -> None:
        self.command, self.ask, self.tokens = command, ask, 0

    def send(self, prompt: str) -> str:
        self.tokens += tokens(prompt)
        answer = self.ask(self.command, prompt)
        self.tokens += tokens(answer)
        return answer


def _judge(question: Question, checked: Checked, exchange: _Exchange) -> None:
    """Ask for a second opinion. Raises Unusable if it is not good."""
    parts = {"when": checked.when, "do": checked.do, "avoid": checked.avoid}
    judgement = read_judgement(exchange.send(write_judge_prompt(question, parts, checked.evidence)))
    if not judgement.is_good:
        raise Unusable(f"a second opinion rejects it: {judgement.why[:200]}")


def _build_lesson(question: Question, checked: Checked, command: str, now: datetime) -> Lesson:
    """Return the lesson, not yet decided on. Raises Unusable if a gate refuses it."""
    first, *others = question.fingerprints
    draft = Draft(
        id=hash_id("distill", *question.fingerprints, checked.do),
        when=checked.when,
        do=checked.do,
        avoid=checked.avoid,
        kind="error",
        agent=only_one(question.agents),
        repo=only_one(question.repos),
        tool=only_one(question.tools),
        fingerprint=first,
        family=tuple(others),
        error=question.error,
        evidence=checked.evidence[:MAX_EVIDENCE],
        signals=question.tasks,
        sessions=question.tasks,
        helped=checked.tasks,
        confidence=round(wilson_interval(checked.tasks, question.tasks)[0], 4),
        last_at=question.last_at,
    )
    if refusal := find_refusal(draft):
        raise Unusable(f"this does not hold: {refusal}")
    return msgspec.structs.replace(
        build_lesson(draft), by="agent", writer=command, made_at=format_time(now)
    )


def _put(config: Config, lessons: Sequence[Lesson]) -> tuple[str, ...]:
    """Write new lessons as proposals, without secrets, and return their ids."""
    if not lessons:
        return ()
    shelf = open_shelf(config)
    with shelf.lock():
        known = {one.id for one in shelf.read()[0]}
        new = [one for one in redact_lessons(config, lessons) if one.id not in known]
        for lesson in new:
            shelf.put(lesson)
    return tuple(one.id for one in new)


def _describe(question: Question, number: int) -> Distilled:
    return Distilled(
        question=question.id, error=question.error, tasks=question.tasks, tokens=number
    )


# ── records ──────────────────────────────────────────────────────────────────────────────────────
def read_records(home: Path) -> list[DistillRecord]:
    """Return all questions that were asked."""
    lines = record_file.read_lines(home / FILE_NAME, MAX_BYTES * 2)
    return [record for line in lines if (record := record_file.decode_record(line, _decoder()))]


def _tokens_of_day(home: Path, now: datetime) -> int:
    """Return the tokens that were spent on the local day of a time."""
    today = now.astimezone().date()
    return sum(
        record.tokens
        for record in read_records(home)
        if record_file.is_time(record.at)
        and datetime.fromisoformat(record.at).astimezone().date() == today
    )


@cache
def _decoder() -> msgspec.json.Decoder[DistillRecord]:
    return msgspec.json.Decoder(DistillRecord)
