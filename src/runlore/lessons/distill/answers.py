"""Answers of an agent, and what is proven of them. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import TypeVar

import msgspec

from ...mine.tasks import MIN_TASKS
from ...text.clean import clean, one_line, untagged
from ..gates import is_harmful
from .questions import MAX_LESSONS, Exhibit, Question, What

MAX_ANSWER_CHARS = 100_000
MAX_PART_CHARS = 400
MIN_QUOTE_CHARS = 4
"""A shorter quotation proves nothing."""

T = TypeVar("T")


class Citation(msgspec.Struct, frozen=True):
    id: str
    quote: str


class Part(msgspec.Struct, frozen=True):
    """A statement of the answer and what it cites."""

    text: str
    citations: tuple[Citation, ...] = ()


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """One lesson of an agent's answer, as it was written."""

    when: Part
    do: Part
    avoid: Part | None = None


class Checked(msgspec.Struct, frozen=True, kw_only=True):
    """A lesson whose statements are proven, and what was dropped of the answer."""

    when: str
    do: str
    avoid: str
    evidence: tuple[str, ...]
    """The cited events, as uid#seq."""
    tasks: int
    """Number of independent tasks whose working calls are cited."""
    dropped: tuple[str, ...] = ()


class Judgement(msgspec.Struct, frozen=True, kw_only=True):
    """A second opinion on a checked lesson. All three must hold for it to be kept."""

    true: bool
    non_obvious: bool
    scoped: bool
    why: str = ""

    @property
    def is_good(self) -> bool:
        return self.true and self.non_obvious and self.scoped


class Unusable(Exception):
    """An answer, or a lesson in it, that cannot be used. The text says why, for a person."""


# ── what is answered ─────────────────────────────────────────────────────────────────────────────
class _Answers(msgspec.Struct):
    lessons: list[Answer]


def read_answer(text: str) -> list[Answer]:
    """Return the lessons of an answer. Raises Unusable if it is not in the form that was asked."""
    answers = _decode(text, _Answers)
    return answers.lessons[:MAX_LESSONS]


def read_judgement(text: str) -> Judgement:
    """Return a second opinion. Raises Unusable."""
    return _decode(text, Judgement)


def _decode(text: str, wanted: type[T]) -> T:
    """Return the first JSON object of a text: agents like to write around it."""
    text = text[:MAX_ANSWER_CHARS]
    begin = text.find("{")
    if begin < 0:
        raise Unusable("the answer is empty" if not text.strip() else "the answer has no JSON")
    try:
        data, _ = json.JSONDecoder().raw_decode(text, begin)
        return msgspec.convert(data, wanted)
    except (ValueError, RecursionError, msgspec.ValidationError) as error:
        raise Unusable(f"the answer is not in the form that was asked for: {error}") from None


# ── what is proven ───────────────────────────────────────────────────────────────────────────────
PROOFS: dict[str, tuple[What, ...]] = {
    "when": ("error", "failing call"),
    "do": ("working call",),
    "avoid": ("error", "failing call"),
}
"""The kinds of exhibits that prove each part."""


def check_answer(question: Question, answer: Answer) -> Checked:
    """Return what is proven of a lesson. Raises Unusable if `when` or `do` is not."""
    dropped: list[str] = []
    when = _prove(question, "when", answer.when)
    do = _prove(question, "do", answer.do)
    tasks = {one.task for one in do if one.what == "working call"}
    if len(tasks) < MIN_TASKS:
        raise Unusable(f"`do` cites working calls of {len(tasks)} tasks; {MIN_TASKS} are needed")
    avoid: list[Exhibit] = []
    avoid_text = ""
    if answer.avoid is not None and answer.avoid.text.strip():
        try:
            avoid = _prove(question, "avoid", answer.avoid)
            avoid_text = _statement(answer.avoid)
        except Unusable as error:
            dropped.append(str(error))
    refs = dict.fromkeys(one.ref for one in (*do, *when, *avoid))
    return Checked(
        when=_statement(answer.when),
        do=_statement(answer.do),
        avoid=avoid_text,
        evidence=tuple(refs),
        tasks=len(tasks),
        dropped=tuple(dropped),
    )


def _prove(question: Question, name: str, part: Part) -> list[Exhibit]:
    """Return the exhibits that a part cites rightly. Raises Unusable if it is not proven."""
    text = _statement(part)
    if not text:
        raise Unusable(f"`{name}` is empty")
    if len(text) > MAX_PART_CHARS:
        raise Unusable(f"`{name}` is longer than {MAX_PART_CHARS} characters")
    by_id = {one.id: one for one in question.exhibits}
    cited = [
        by_id[one.id] for one in part.citations if one.id in by_id and _quotes(by_id[one.id], one)
    ]
    if len(cited) < len(part.citations):
        raise Unusable(f"`{name}` cites what the evidence does not say")
    if not any(one.what in PROOFS[name] for one in cited):
        raise Unusable(f"`{name}` does not cite {' or '.join(PROOFS[name])}")
    if is_harmful(text):
        raise Unusable(f"`{name}` fetches and runs something, or silences a check")
    if strange := _find_strange(text, question.exhibits):
        raise Unusable(f"`{name}` names {strange!r}, which is not in the evidence")
    return cited


def _quotes(exhibit: Exhibit, citation: Citation) -> bool:
    quote = " ".join(citation.quote.split())
    return len(quote) >= MIN_QUOTE_CHARS and quote in " ".join(exhibit.text.split())


def _find_strange(text: str, exhibits: Sequence[Exhibit]) -> str:
    """Return a command or an address of the text that no exhibit has; empty if there is none."""
    evidence = " ".join(" ".join(one.text.split()) for one in exhibits)
    named = [*_COMMANDS.findall(text), *_ADDRESSES.findall(text)]
    return next((one for one in named if " ".join(one.split()) not in evidence), "")


_COMMANDS = re.compile(r"`([^`]+)`")
_ADDRESSES = re.compile(r"\b(?:https?|ftp|ssh)://[^\s`'\"<>)]+|\bwww\.[^\s`'\"<>)]+")


def _statement(part: Part) -> str:
    return one_line(untagged(clean(part.text[: 2 * MAX_PART_CHARS]))).strip()
