"""Statements in a session: what people asked for, and the last words of the agent, and where a
person stepped in.

Text that an agent adds to a prompt by itself is marked by its adapter; templates, commands and
greetings are recognized here and in `text.titles`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from ..model import CALL_KINDS, Moment, SessionEvent
from ..text.titles import find_tagged_request, is_greeting, is_setup_command, is_small_talk
from ..timeline import OrderedEvents, is_prompt, prompts
from .text import clean, truncate

MAX_GOAL_CHARS = 600
MAX_REQUEST_CHARS = 200
MAX_RESULT_CHARS = 1000
MIN_RESULT_CHARS = 60
"""Characters of a reply from which it is more than a bare remark."""
MIN_STATEMENT_CHARS = 35
"""The same for words between two calls, which are shorter."""
MAX_CLOSING = 3
"""Replies at the end of turns among which one of substance is looked for."""
MAX_REMARKS = 8
"""The same for words between two calls."""
_MAX_READ_CHARS = 4000
"""Characters of a prompt that are looked at."""
_MAX_COMMANDS = 5
"""Commands before a prompt."""
_MAX_COMMAND_CHARS = 100
"""More characters than the name of a command before a prompt has."""

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


def find_requests(events: OrderedEvents, bodies: Mapping[int, str]) -> list[Moment]:
    """Return the prompts that ask for something, each on one line; the first one is the goal.

    If there are none, the only request is the first command of the agent, like `/init`.
    """
    requests = []
    for event in prompts(events):
        text = extract_request(bodies.get(event.seq) or event.summary or "")
        if _asks(text):
            requests.append(Moment(event.seq, truncate(text, MAX_GOAL_CHARS)))
    return requests or _find_command(events, bodies)


def _find_command(events: Iterable[SessionEvent], bodies: Mapping[int, str]) -> list[Moment]:
    """Return the first command that the agent worked on, with what it stands for if the
    transcript has that."""
    command, meaning = None, ""
    for event in events:
        if is_prompt(event):
            line = _to_line(bodies.get(event.seq) or event.summary or "", MAX_GOAL_CHARS)
            is_command = _COMMAND.match(line) and not is_setup_command(line)
            command, meaning = (Moment(event.seq, line) if is_command else None), ""
        elif command is None:
            continue
        elif event.view == "context" and event.role == "user":
            meaning = meaning or extract_request(bodies.get(event.seq, ""))
        elif event.role == "assistant":
            text = f"{command.text}: {meaning}" if meaning else command.text
            return [Moment(command.seq, truncate(text, MAX_GOAL_CHARS))]
    return []


def _asks(text: str) -> bool:
    """Return True if a prompt asks for something: it is no greeting, no bare answer, and does not
    only tell the agent to go on."""
    return bool(text) and not is_small_talk(text) and _NO_REQUEST.fullmatch(text) is None


_NO_REQUEST = re.compile(
    r"\W*(?:(?:ok(?:ay)?|yes|please|sorry|now|let'?s)\W+)*(?:[a-z]|\d{1,2}|try (?:it )?again|retry"
    r"|go(?: ahead| for it)?|do it|keep going|carry on|weiter|继续|続けて|계속)(?: please)?\W*",
    re.IGNORECASE,
)
_DIRECTIVES = re.compile(r"^::[\w-]+\{[^\n]*\}[ \t]*$", re.MULTILINE)
"""Lines that an agent writes for its own program."""
_CODE = re.compile(r"```.*?(?:```|\Z)", re.DOTALL)


def find_result(events: Iterable[SessionEvent], bodies: Mapping[int, str]) -> Moment | None:
    """Return the last words of substance of the agent, in its own lines; None if it said nothing.

    Words that end a turn come before those between two calls, and a whole sentence comes before a
    bare remark. If the agent only thinks aloud, the result is its last thought. A sentence that
    only announces the next call is no result.
    """
    closing, other, thoughts = _group_replies(events, bodies)
    # From the end, because the last few are enough.
    closed = ((event.seq, _to_result(bodies.get(event.seq, ""))) for event in reversed(closing))
    if result := _first_of_substance(closed, MAX_CLOSING, MIN_RESULT_CHARS):
        return result
    for events_between in (other, thoughts):
        remarks = (
            (event.seq, _without_plans(_to_result(bodies.get(event.seq, ""))))
            for event in reversed(events_between)
        )
        if result := _first_of_substance(remarks, MAX_REMARKS, MIN_STATEMENT_CHARS):
            return result
    return None


def _first_of_substance(
    texts: Iterable[tuple[int, str]], count: int, min_chars: int
) -> Moment | None:
    """Return the first of so many texts that is long enough, or else the first that is not
    empty."""
    short: Moment | None = None
    for n, (seq, text) in enumerate(texts):
        if n < count and len(text) >= min_chars:
            return Moment(seq, truncate(text, MAX_RESULT_CHARS))
        if short is None and text:
            short = Moment(seq, truncate(text, MAX_RESULT_CHARS))
        if short is not None and n + 1 >= count:
            break
    return short


def _without_plans(text: str) -> str:
    """Return words between two calls without the sentences at their end that announce the next."""
    sentences = _SENTENCE_END.split(text[-_MAX_READ_CHARS:])
    while sentences and _PLAN.match(sentences[-1]):
        sentences.pop()
    return " ".join(sentences)


_SENTENCE_END = re.compile(r"(?<=[.!?:。])\s+")
_PLAN = re.compile(
    r"(?:(?:good|great|perfect|excellent|ok(?:ay)?|alright|now|next|then|so|finally|first|also)"
    r"[,.!]?\s+)*(?:now )?(?:that [^,]{1,100}, )?"
    r"(?:let me\b(?! know)|let'?s\b|i(?:'ll| will|'m going to| need to| should)\b"
    r"|we(?:'ll| will| can| should| need to)\b|(?:calling|submit|submitting|running|setting)\b)"
    r"|[^.!?]{0,200}:\Z",
    re.IGNORECASE,
)
"""How a sentence begins that announces the next call. One may also end with a colon."""


_Replies = tuple[list[SessionEvent], list[SessionEvent], list[SessionEvent]]


def _group_replies(events: Iterable[SessionEvent], bodies: Mapping[int, str]) -> _Replies:
    """Return the replies that end a turn, those that a call follows, and the thoughts.

    Thanks for thanks end nothing, unless the agent said nothing else.
    """
    closing: list[SessionEvent] = []
    other: list[SessionEvent] = []
    thoughts: list[SessionEvent] = []
    turn: list[SessionEvent] = []
    is_talk = False
    for event in events:
        if event.kind == "user_msg":
            closing += turn
            turn = []
            is_talk = is_greeting(bodies.get(event.seq) or event.summary or "")
        elif event.kind in CALL_KINDS:
            other += turn
            turn, is_talk = [], False
        elif event.kind == "assistant_msg" and not (is_talk and (closing or other)):
            turn.append(event)
        elif event.kind == "thinking":
            thoughts.append(event)
    return closing + turn, other, thoughts


def _to_result(body: str) -> str:
    """Return a reply without code and directives, unless nothing else is in it."""
    text = clean(body).strip()
    return _CODE.sub("…", _DIRECTIVES.sub("", text)).strip(" …\n") or text


def extract_request(text: str, enough: int = MAX_GOAL_CHARS) -> str:
    """Return a prompt on one line, without what a program put around it.

    That is tags, names of pictures, and the name of a command. Of a long prompt at least `enough`
    characters are returned.
    """
    text = text[:_MAX_READ_CHARS]
    if text.lstrip()[:1] == "<":
        text = find_tagged_request(text) or text
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
    is_command = text.startswith("/")
    for _ in range(_MAX_COMMANDS if is_command else 0):
        text, before = _without_start(_COMMAND, text), text
        if text is before:
            break
    return "" if is_command and len(text.split()) < 2 else text


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


def is_stop(event: SessionEvent) -> bool:
    """Return True if a person stepped in: an interrupt, a refusal, a rewind.

    A command like `/model` begins something of its own, and a permission stops nothing.
    """
    if event.kind != "human_intervention" or is_prompt(event):
        return False
    return event.call_id is not None or _STOPS.search(f"{event.native} {event.summary}") is not None


_STOPS = re.compile(
    r"interrupt|abort|cancel|reject|refus|denied|revert|went back|stopp", re.IGNORECASE
)
