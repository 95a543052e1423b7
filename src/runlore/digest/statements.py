"""What people said: what they asked for first, and where they had to reject or redirect what was done.

Only words at the beginning of a message decide, and only whole ones: "no" is a rejection, "now" is not. The words are English ones; who
stops the agent and then tells it something else is heard in any language. What an agent puts into a prompt by itself is told apart by its
adapter; templates, commands and greetings are told apart here.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from ..model import CALL_KINDS, Moment, SessionEvent
from ..timeline import is_prompt
from .text import cut

LONGEST_GOAL = 600
LONGEST_WORDS = 300
"""Characters kept of what was said."""
_LOOKED_AT = 4000
_NAME = 100
"""Characters that the name of a command in front of a prompt may have, and more."""
_BEGINNING = 400
"""Characters of a message that say whether it rejects something."""

_TAGS = re.compile(r"\A\s*<([a-zA-Z][\w-]{0,60})\b[^>]{0,200}>.{0,4000}?</\1>\s*|\A\s*<[a-zA-Z/][\w -]{0,60}>\s*", re.DOTALL)
_MARKS = re.compile(r"\[(?:(?:image|pasted text|file|attachment)[^\]\n]{0,80}\]|\[ ## \w{1,40} ## \]\])", re.IGNORECASE)
_LEAD_IN = re.compile(r"\A\s*[^\n#]{3,60}:\s*\n\s*#{1,3} (?=\S)")
"""A template's first line, with a document below it that has a title of its own: `Implement the following plan:`."""
_COMMAND = re.compile(r"\A/[\w:.-]{1,80}(?=\s|\Z)\s*")
_GREETING = r"hi|hey|hello|hallo|yo|hola"
_TALK = (
    r"good (?:morning|afternoon|evening)|thanks|thank you|thx|ok|okay|yes|yep|yeah|sure|no|continue|go on|keep going|proceed|resume|test"
    r"|testing|ping|please"
)
_SMALL_TALK = re.compile(
    # The name of who is greeted is none of the other words: whatever could be read in two ways would be tried in all of them.
    rf"(?:(?:(?:{_GREETING})(?: (?!(?:{_GREETING}|{_TALK})\b)\w{{1,12}}\b)?|{_TALK})\b[\s.,!?:)]*)+",
    re.IGNORECASE,
)


def goal_of(prompts: Iterable[SessionEvent], bodies: Mapping[int, str]) -> Moment | None:
    """The first prompt that asks for something; where none does, the first that says anything."""
    small: Moment | None = None
    for event in prompts:
        text = asked(bodies.get(event.seq) or event.summary or "")
        if not text:
            continue
        if not _is_small_talk(text):
            return Moment(event.seq, cut(text, LONGEST_GOAL))
        small = small or Moment(event.seq, text)
    return small


def _is_small_talk(text: str) -> bool:
    return len(text) <= LONGEST_GOAL and _SMALL_TALK.fullmatch(text) is not None


def asked(text: str, enough: int = LONGEST_GOAL) -> str:
    """What a prompt says on one line, without what a program put around it: tags, names of pictures, the name of a command. Of a long
    one at least as many characters as are enough; by itself as many as are ever kept."""
    text = text[:_LOOKED_AT]
    if text.lstrip()[:1] == "<":
        for _ in range(4):
            text, before = _without_start(_TAGS, text), text
            if text is before:
                break
    text = _without_start(_LEAD_IN, text)
    if "[" in text:
        text = _MARKS.sub(" ", text)
    text = _line_of(text, enough + _NAME)
    if text.startswith("!"):
        return ""
    if text.startswith("/"):
        text = _without_start(_COMMAND, text)
        return "" if _COMMAND.match(text) or len(text.split()) < 2 else text
    return text


def _line_of(text: str, enough: int) -> str:
    likely = enough * 5 // 4  # With a few blanks more than are kept.
    if len(text) > likely:  # All of it would take five times as long, for nothing.
        line = " ".join(text[:likely].split())
        if len(line) > enough:
            return line
    return " ".join(text.split())


def _without_start(pattern: re.Pattern[str], text: str) -> str:
    """What `sub` would give for a pattern of how a text begins, which it would try at each character: a fiftieth of the time."""
    found = pattern.match(text)
    return text[found.end() :] if found else text


_REJECTS = re.compile(
    r"(?:no|nope|nah)(?:[,.!:;]| (?:no|not|don'?t|that|this|it|i|you|the|we|need|revert|wait)\b|\Z)"
    r"|(?:wait|stop|hold on|hang on|undo|revert|roll ?back|never ?mind|cancel)\b"
    r"|(?:don'?t|do not|please don'?t|you (?:should|must)(?:n'?t| not)|never) "
    r"|(?:that|this|it)(?:'?s| is| was| still| does| did| looks)? ?(?:not|n'?t|wrong|incorrect|broken|bad|worse|still)\b"
    r"|(?:that|this|it)(?:'?s| is) (?:too |not |the wrong |wrong)"
    r"|(?:doesn'?t|does not|didn'?t|did not|isn'?t|still|not)"
    r" (?:work|working|fix|right|correct|what|fail|broken|the same|see|get|there|seeing|getting)"
    r"|wrong\b|incorrect\b|why (?:did|do|are|have|would) you\b|you (?:broke|forgot|missed|didn'?t|did not|ignored|removed|deleted)\b"
    r"|i (?:said|meant|asked|told you|did ?n'?t|don'?t (?:want|think|like|need)|wanted|still (?:see|get|have))\b"
    r"|i actually (?:want|wanted|meant|need|asked|prefer|don'?t)\b"
    r"|(?:actually|instead|rather|but|hmm+|uh|oh|sorry|ok but|okay but|well)[, ]+"
    r"(?:no\b|not\b|don'?t\b|that\b|it'?s\b|this\b|i (?:want|meant|think|don'?t)"
    r"|we (?:should|don'?t|want|need)|revert|undo|use\b|let'?s\b|you\b|can you (?:revert|undo)|just\b|the\b)"
    r"|let'?s (?:not|instead)\b|we (?:don'?t|shouldn'?t) "
)
_TURNS = re.compile(
    r"\b(?:instead of (?:what|that|this)|not what i|that'?s wrong|still (?:fails|failing|broken|wrong)|you (?:broke|forgot)|undo that"
    r"|revert (?:that|this|it|your))\b"
)
_LEAD = re.compile(r"(?:please|hey|ok(?:ay)?|well|so|hmm+|um+|uh+|ah+|oh)[,.! ]+")


def rejects(text: str) -> bool:
    """Whether a message begins by rejecting or redirecting what was done."""
    low = text[:_BEGINNING].lower().replace("\u2019", "'").strip()
    if _REJECTS.match(low) or (_may_turn(low) and _TURNS.search(low[:200])):
        return True
    lead = _LEAD.match(low)
    return lead is not None and _REJECTS.match(low, lead.end()) is not None


def _may_turn(low: str) -> bool:
    """A quick look that saves a slow one, at nearly all messages."""
    return (
        "still" in low or "wrong" in low or "instead of" in low or "not what i" in low or "broke" in low or "forgot" in low
        or "undo" in low or "revert" in low
    )  # fmt: skip


def is_stop(event: SessionEvent) -> bool:
    """Whether a person stepped in: an interrupt, a refusal, a way back. A command like `/model` begins something of its own, and what is
    allowed from now on stops nothing."""
    if event.kind != "human_intervention" or is_prompt(event):
        return False
    return event.call_id is not None or _STOPS.search(f"{event.native} {event.summary}") is not None


def corrections_of(events: Iterable[SessionEvent], bodies: Mapping[int, str]) -> list[Moment]:
    """The prompts that reject or redirect, and those that follow when a person stopped the agent and then told it something else."""
    found = []
    has_worked = was_stopped = False
    for event in events:
        kind = event.kind
        if kind == "user_msg":
            said = (bodies.get(event.seq) or event.summary or "") if has_worked else ""
            # Nearly all go on with the work, which is told by how they begin.
            if said and (was_stopped or rejects(asked(said, _BEGINNING))):
                text = asked(said)
                if text and not _is_small_talk(text) and ((was_stopped and not _goes_on(text)) or rejects(text)):
                    found.append(Moment(event.seq, cut(text, LONGEST_WORDS)))
            was_stopped = has_worked = False
        elif kind == "human_intervention" and is_stop(event):
            was_stopped = True
        elif not has_worked:
            has_worked = event.role == "assistant" or kind in CALL_KINDS
    return found


def _goes_on(text: str) -> bool:
    """Whether an agent that was stopped is only told to go on, or that it did well."""
    low = text.lower()
    return _WELL.match(low) is not None or (len(text.split()) < 8 and _ON.search(low) is not None)


_WELL = re.compile(
    r"(?:please |sorry,? |ok(?:ay)?,? )?(?:continue|go on|carry on|keep going|proceed|resume|yes|yep|sure|thanks|great|perfect|looks good"
    r"|(?:it|that|this) (?:seems to )?works?)\b"
)
_ON = re.compile(r"\b(?:continue|go on|carry on|keep going|proceed|resume)\b")
_STOPS = re.compile(r"interrupt|abort|cancel|reject|refus|denied|revert|went back|stopp", re.IGNORECASE)
