"""Decisions of people, with their content: the question and its answer, the plan and its headline.

An agent reports "User has approved your plan": what was approved is in the call. A person says
"yes" or "b": what that means is in the agent's last words. A permission to run a call, a changed
setting and the progress of a list of steps are no decisions.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from operator import attrgetter
from typing import Any

import msgspec

from ..model import Moment, SessionEvent
from .text import clean, truncate

MAX_DECISION_CHARS = 300
MAX_ANSWER_CHARS = 40
"""Characters up to which an answer means nothing without its question."""
MIN_QUESTION_CHARS = 60
"""Characters of a question that says by itself what it is about. `Shall I?` does not."""
_MAX_READ_CHARS = 8000


def iter_decisions(events: Sequence[SessionEvent], bodies: Mapping[int, str]) -> Iterator[Moment]:
    """Yield each decision in one line."""
    decisions = [*_iter_recorded(events, bodies), *_iter_short_answers(events, bodies)]
    for decision in sorted(decisions, key=attrgetter("seq")):
        line = " ".join(decision.text.split())
        yield Moment(decision.seq, truncate(line, MAX_DECISION_CHARS))


def _iter_recorded(events: Sequence[SessionEvent], bodies: Mapping[int, str]) -> Iterator[Moment]:
    """Yield the decisions that the agent recorded as such."""
    decisions = [
        event for event in events if event.kind == "decision" and not _is_permission(event)
    ]
    wanted = {event.call_id for event in decisions} - {None}
    calls = {
        event.call_id: clean(bodies.get(event.seq, "")[:_MAX_READ_CHARS])
        for event in events
        if event.kind == "tool_call" and event.call_id in wanted
    }
    for event in decisions:
        body = clean(bodies.get(event.seq, "")[:_MAX_READ_CHARS]).strip()
        if text := _describe(event, body, calls.get(event.call_id, "")):
            yield Moment(event.seq, text)


def _is_permission(event: SessionEvent) -> bool:
    """Return True if a person only let a call run, or changed a setting of the agent."""
    summary = event.summary or ""
    return (event.tool is not None and event.action is None) or (
        event.call_id is None and _NO_DECISION.match(summary) is not None
    )


def _describe(event: SessionEvent, body: str, call: str) -> str:
    """Return what was decided; "" if the event tells nothing of it."""
    if _PROGRESS.search(body):
        return ""
    if _is_statement(event):
        return _describe_statement(event, body)
    if event.action == "plan" and event.role == "assistant":
        return f"plan: {_headline(body)}"
    if _APPROVED.match(body):
        return _describe_approval(body, call)
    return _describe_answer(event, body, call)


def _is_statement(event: SessionEvent) -> bool:
    """Return True for a decision that is recorded by itself, without a call."""
    return event.call_id is None and event.role != "user" and event.action is None


def _describe_statement(event: SessionEvent, body: str) -> str:
    is_plain = event.role is None or body[:1] == "{"
    return (_answer_in(body) if is_plain else "") or event.summary or body


def _describe_approval(body: str, call: str) -> str:
    plan = body.partition("## Approved Plan:")[2] or _plan_in(call)
    return f"plan approved: {_headline(plan)}" if plan.strip() else ""


def _describe_answer(event: SessionEvent, body: str, call: str) -> str:
    """Return the questions with their answers, as far as both are known."""
    if pairs := _ANSWERED.findall(body):
        return "; ".join(f"{question} → {answer}" for question, answer in pairs)
    answer = _answer_in(body) or event.summary or ""
    questions = [_unescaped(text) for text in _QUESTION.findall(call)]
    question = "; ".join(questions) or _first(_KEYED_QUESTION.search(call))
    return f"{question} → {answer}" if question and answer else answer


_NO_DECISION = re.compile(
    r"(?:approve\w*|allow\w*|model \S.*|plan_mode\.exit)\Z|.*\(Y\)es/\(N\)o", re.IGNORECASE
)
_PROGRESS = re.compile(
    r"^\s*(?:[-*] )?\[(?:x| |~|completed|pending|in[_ ]progress|done|cancelled)\] ", re.M | re.I
)
"""A step of a list that an agent keeps for itself."""
_APPROVED = re.compile(
    r"(?:the )?user (?:has )?approved|plan (?:was |has been )?approved|exited plan mode", re.I
)
_ANSWERED = re.compile(
    r'"([^\n]{1,600}?)"="(.{0,600}?)"(?=\s*(?:[,.;]|selected|user notes|\Z|\n))', re.DOTALL
)
_QUESTION = re.compile(r'"(?:question|prompt)"\s*:\s*"((?:[^"\\]|\\.)+)"')
_KEYED_QUESTION = re.compile(r"^(?:question|prompt|message|text): ([^\n\[{]+)", re.M)
_PLAN = re.compile(r"^plan: (.*)", re.M | re.DOTALL)
_LEAD_IN = re.compile(
    r"(?:the )?user (?:has )?(?:selected|answered|said|chose)[^:\n]{0,30}:\s*", re.I
)


def _first(match: re.Match[str] | None) -> str:
    return match[1].strip() if match else ""


def _plan_in(call: str) -> str:
    """Return the plan in the call that proposes it: its value `plan`, or all of a text that has
    none."""
    if match := _PLAN.search(call):
        return match[1]
    return "" if re.match(r"\w+: ", call) else call


def _headline(plan: str) -> str:
    """Return the first lines of a plan, without the marks of its headings."""
    lines = [line.replace("**", "").strip(" #-\t") for line in plan.splitlines()]
    chosen = [line for line in lines if line and line.rstrip(":").lower() not in _HEADINGS][:3]
    return ". ".join(line.rstrip(".:") for line in chosen)


_HEADINGS = frozenset("context plan overview summary background changes goal".split())
"""Headings that say nothing."""


def _answer_in(body: str) -> str:
    """Return the answer of a person, as a sentence or as the texts of a JSON document."""
    if body[:1] in "[{":
        try:
            return ", ".join(_texts(msgspec.json.decode(body)))
        except (msgspec.DecodeError, UnicodeError, RecursionError):
            return body
    return _LEAD_IN.sub("", body, count=1)


def _texts(value: Any, depth: int = 0) -> Iterator[str]:
    """Yield the texts of a decoded document, without names."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list) and depth < 6:
        skipped = {"id", "type", "chosen_option_id", "options"}
        items = (
            [item for name, item in value.items() if name not in skipped]
            if isinstance(value, dict)
            else value
        )
        for item in items[:50]:
            yield from _texts(item, depth + 1)


def _unescaped(text: str) -> str:
    return text.replace('\\"', '"').replace("\\n", " ")


# ── short answers ─────────────────────────────────────────────────────────────────────────────────
def _iter_short_answers(
    events: Sequence[SessionEvent], bodies: Mapping[int, str]
) -> Iterator[Moment]:
    """Yield what a person approved, declined or chose in a word or two."""
    reply = ""
    for event in events:
        if event.kind == "assistant_msg" and not event.is_sidechain:
            reply = bodies.get(event.seq, "")
        elif event.kind == "user_msg" and not event.is_sidechain:
            answer = (bodies.get(event.seq) or event.summary or "").strip()
            is_short = len(answer) <= MAX_ANSWER_CHARS
            if is_short and (text := _describe_short_answer(answer, reply[-_MAX_READ_CHARS:])):
                yield Moment(event.seq, text)
            reply = ""


def _describe_short_answer(answer: str, reply: str) -> str:
    """Return what a short answer means, by the words that it answers; "" if it decides nothing."""
    reply = clean(reply).replace("**", "")
    if choice := _CHOICE.fullmatch(answer):
        options = re.findall(rf"(?im)^[^\w\n]*(?:option )?{choice[1]}\W?[).:]\W*(.+)$", reply)
        return f"chose {choice[1]}: {options[-1]}" if options else ""
    is_yes = _YES.fullmatch(answer) is not None
    if not is_yes and not _NO.fullmatch(answer):
        return ""
    question = _last_question(reply)
    return f"{'approved' if is_yes else 'declined'}: {question}" if question else ""


def _last_question(reply: str) -> str:
    """Return the question at the end of a reply, after what it is about; "" if it ends with
    none."""
    sentences = [each.strip(" -*") for each in _SENTENCE_END.split(reply[-1500:])]
    sentences = [each for each in sentences if re.search(r"\w", each)][-3:]
    while sentences and not sentences[-1].endswith(("?", "？")):
        sentences.pop()
    if not sentences or _OPEN_QUESTION.match(sentences[-1]):
        return ""
    has_more = len(sentences[-1]) < MIN_QUESTION_CHARS
    return " ".join(sentences[-2:] if has_more else sentences[-1:])


_OPEN_QUESTION = re.compile(
    r"(?:(?:(?:is|are) there )?any(?:thing)?|what|which|how|where|who|when)\b", re.IGNORECASE
)
"""A question that "yes" does not answer."""
_SENTENCE_END = re.compile(r"(?<=[.!?。！？])\s+|\n+")
_POLITE = r"(?!\W*(?:(?:thanks?|thank you|great|perfect|please)\W*)+\Z)"
"""Polite words alone answer nothing."""
_YES = re.compile(
    _POLITE + r"\W*(?:(?:yes|yep|yeah|yup|sure|ok(?:ay)?|please|go(?: ahead| for it)?"
    r"|do (?:it|that|this|so)"
    r"|(?:sounds|looks?) (?:good|great|right)|that'?s (?:right|correct|fine)|correct|agreed?"
    r"|perfect|great|lgtm|let'?s (?:do (?:it|that|this)|go)|make it so|proceed|thanks?"
    r"|ja|oui|sí|si|sim|да|好的?|可以|是的?|はい|お願いします|네)(?:\W+|\Z))+",
    re.IGNORECASE,
)
_NO = re.compile(
    _POLITE + r"\W*(?:(?:no|nope|nah|thanks?|thank you|not (?:now|yet|needed)|skip(?: it)?"
    r"|leave it|nein|non|não|нет|不用|不要|いいえ|아니요)(?:\W+|\Z))+",
    re.IGNORECASE,
)
_CHOICE = re.compile(
    r"(?:(?:ok(?:ay)?|please|let'?s|do|go with|take|pick|choose|use|option|number)[\s,]+)*#?"
    r"([a-e]|[1-9])(?:[\s,]+(?:then|please))?\W*",
    re.IGNORECASE,
)
