"""Statements of people: the first request, and the messages that reject or redirect the work.

Only whole words at the beginning of a message decide: "no" is a rejection, "now" is not. The words
are English; stopping the agent and then writing something else is recognized in any language. Text
that an agent adds to a prompt by itself is marked by its adapter; templates, commands and greetings
are recognized here and in `text.titles`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from ..model import CALL_KINDS, Moment, SessionEvent
from ..text.titles import is_small_talk
from ..timeline import is_prompt
from .text import clean, truncate

MAX_GOAL_CHARS = 600
MAX_REQUEST_CHARS = 200
MAX_RESULT_CHARS = 1000
MAX_CORRECTION_CHARS = 300
_MAX_READ_CHARS = 4000
"""Characters of a prompt that are looked at."""
_MAX_COMMAND_CHARS = 100
"""More characters than the name of a command before a prompt has."""
_BEGINNING_CHARS = 400
"""Characters of a message that decide if it rejects something."""

_TAGS = re.compile(
    r"\A\s*<([a-zA-Z][\w-]{0,60})\b[^>]{0,200}>.{0,4000}?</\1>\s*|\A\s*<[a-zA-Z/][\w -]{0,60}>\s*",
    re.DOTALL,
)
_MARKS = re.compile(
    r"\[(?:(?:image|pasted text|file|attachment)[^\]\n]{0,80}\]|\[ ## \w{1,40} ## \]\])",
    re.IGNORECASE,
)
_LEAD_IN = re.compile(r"\A\s*[^\n#]{3,60}:\s*\n\s*#{1,3} (?=\S)")
"""The first line of a template above a document with a title of its own: `Implement the following
plan:`."""
_COMMAND = re.compile(r"\A/[\w:.-]{1,80}(?=\s|\Z)\s*")


def find_requests(prompts: Iterable[SessionEvent], bodies: Mapping[int, str]) -> list[Moment]:
    """Return the prompts that ask for something, each on one line; the first one is the goal."""
    requests = []
    for event in prompts:
        text = extract_request(bodies.get(event.seq) or event.summary or "")
        if text and not is_small_talk(text):
            requests.append(Moment(event.seq, truncate(text, MAX_GOAL_CHARS)))
    return requests


def find_result(events: Iterable[SessionEvent], bodies: Mapping[int, str]) -> Moment | None:
    """Return the last words of the agent, in its own lines; None if it said nothing."""
    for event in reversed(list(events)):
        if event.kind == "assistant_msg" and (text := clean(bodies.get(event.seq, "")).strip()):
            return Moment(event.seq, truncate(text, MAX_RESULT_CHARS))
    return None


def extract_request(text: str, enough: int = MAX_GOAL_CHARS) -> str:
    """Return a prompt on one line, without what a program put around it.

    That is tags, names of pictures, and the name of a command. Of a long prompt at least `enough`
    characters are returned.
    """
    text = text[:_MAX_READ_CHARS]
    if text.lstrip()[:1] == "<":
        for _ in range(4):
            text, before = _without_start(_TAGS, text), text
            if text is before:
                break
    text = _without_start(_LEAD_IN, text)
    if "[" in text:
        text = _MARKS.sub(" ", text)
    text = _to_line(text, enough + _MAX_COMMAND_CHARS)
    if text.startswith("!"):
        return ""
    if text.startswith("/"):
        text = _without_start(_COMMAND, text)
        return "" if _COMMAND.match(text) or len(text.split()) < 2 else text
    return text


def _to_line(text: str, enough: int) -> str:
    likely = enough * 5 // 4  # Joining blanks shortens the text a little.
    if len(text) > likely:  # Splitting all of a long text would be wasted work.
        line = " ".join(text[:likely].split())
        if len(line) > enough:
            return line
    return " ".join(text.split())


def _without_start(pattern: re.Pattern[str], text: str) -> str:
    """Return the text without a match at its beginning.

    `sub` would try the pattern at each character.
    """
    match = pattern.match(text)
    return text[match.end() :] if match else text


_REJECTS = re.compile(
    r"(?:no|nope|nah)(?:[,.!:;]| (?:no|not|don'?t|that|this|it|i|you|the|we|need|revert|wait)\b|\Z)"
    r"|(?:wait|stop|hold on|hang on|undo|revert|roll ?back|never ?mind|cancel)\b"
    r"|(?:don'?t|do not|please don'?t|you (?:should|must)(?:n'?t| not)|never) "
    r"|(?:that|this|it)(?:'?s| is| was| still| does| did| looks)?"
    r" ?(?:not|n'?t|wrong|incorrect|broken|bad|worse|still)\b"
    r"|(?:that|this|it)(?:'?s| is) (?:too |not |the wrong |wrong)"
    r"|(?:doesn'?t|does not|didn'?t|did not|isn'?t|still|not)"
    r" (?:work|working|fix|right|correct|what|fail|broken|the same|see|get|there|seeing|getting)"
    r"|wrong\b|incorrect\b|why (?:did|do|are|have|would) you\b|you"
    r" (?:broke|forgot|missed|didn'?t|did not|ignored|removed|deleted)\b"
    r"|i (?:said|meant|asked|told you|did ?n'?t|don'?t (?:want|think|like|need)|wanted|still"
    r" (?:see|get|have))\b"
    r"|i actually (?:want|wanted|meant|need|asked|prefer|don'?t)\b"
    r"|(?:actually|instead|rather|but|hmm+|uh|oh|sorry|ok but|okay but|well)[, ]+"
    r"(?:no\b|not\b|don'?t\b|that\b|it'?s\b|this\b|i (?:want|meant|think|don'?t)"
    r"|we (?:should|don'?t|want|need)|revert|undo|use\b|let'?s\b|you\b|can you"
    r" (?:revert|undo)|just\b|the\b)"
    r"|let'?s (?:not|instead)\b|we (?:don'?t|shouldn'?t) "
)
_TURNS = re.compile(
    r"\b(?:instead of (?:what|that|this)|not what i|that'?s wrong|still"
    r" (?:fails|failing|broken|wrong)|you (?:broke|forgot)|undo that"
    r"|revert (?:that|this|it|your))\b"
)
_LEAD = re.compile(r"(?:please|hey|ok(?:ay)?|well|so|hmm+|um+|uh+|ah+|oh)[,.! ]+")


def rejects(text: str) -> bool:
    """Return True if a message begins by rejecting or redirecting what was done."""
    low = text[:_BEGINNING_CHARS].lower().replace("\u2019", "'").strip()
    if _REJECTS.match(low) or (_may_turn(low) and _TURNS.search(low[:200])):
        return True
    lead = _LEAD.match(low)
    return lead is not None and _REJECTS.match(low, lead.end()) is not None


def _may_turn(low: str) -> bool:
    """Return False for nearly all messages, which saves the slow pattern."""
    return any(word in low for word in _TURNING)


_TURNING = ("still", "wrong", "instead of", "not what i", "broke", "forgot", "undo", "revert")


def is_stop(event: SessionEvent) -> bool:
    """Return True if a person stepped in: an interrupt, a refusal, a rewind.

    A command like `/model` begins something of its own, and a permission stops nothing.
    """
    if event.kind != "human_intervention" or is_prompt(event):
        return False
    return event.call_id is not None or _STOPS.search(f"{event.native} {event.summary}") is not None


def find_corrections(events: Iterable[SessionEvent], bodies: Mapping[int, str]) -> list[Moment]:
    """Return the prompts that reject or redirect what was done.

    A new instruction after a person stopped the agent is one, too.
    """
    corrections = []
    has_worked = was_stopped = False
    for event in events:
        kind = event.kind
        if kind == "user_msg":
            if has_worked and (
                text := _correction(
                    bodies.get(event.seq) or event.summary or "", was_stopped=was_stopped
                )
            ):
                corrections.append(Moment(event.seq, truncate(text, MAX_CORRECTION_CHARS)))
            was_stopped = has_worked = False
        elif kind == "human_intervention" and is_stop(event):
            was_stopped = True
        elif not has_worked:
            has_worked = event.role == "assistant" or kind in CALL_KINDS
    return corrections


def _correction(message: str, *, was_stopped: bool) -> str:
    """Return a message that corrects the agent, on one line; an empty text if it corrects
    nothing."""
    # Nearly all messages continue the work, and their beginning shows it.
    if not message or not (was_stopped or rejects(extract_request(message, _BEGINNING_CHARS))):
        return ""
    text = extract_request(message)
    if not text or is_small_talk(text):
        return ""
    return text if (was_stopped and not _continues(text)) or rejects(text) else ""


def _continues(text: str) -> bool:
    """Return True if a stopped agent is only asked to continue, or praised."""
    low = text.lower()
    return _APPROVES.match(low) is not None or (
        len(text.split()) < 8 and _CONTINUES.search(low) is not None
    )


_APPROVES = re.compile(
    r"(?:please |sorry,? |ok(?:ay)?,? )?(?:continue|go on|carry on|keep"
    r" going|proceed|resume|yes|yep|sure|thanks|great|perfect|looks good"
    r"|(?:it|that|this) (?:seems to )?works?)\b"
)
_CONTINUES = re.compile(r"\b(?:continue|go on|carry on|keep going|proceed|resume)\b")
_STOPS = re.compile(
    r"interrupt|abort|cancel|reject|refus|denied|revert|went back|stopp", re.IGNORECASE
)
