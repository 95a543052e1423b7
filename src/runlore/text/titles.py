"""What a person wants, from the text of a prompt: the title of a session without a better one.

A prompt is seldom only the request. Programs put tags, front matter or JSON around it, a command
stands before it, and people say hello first. Pure; knows no agent.
"""

from __future__ import annotations

import re
from typing import Any

import msgspec

from .yaml_values import read_values

MAX_READ_CHARS = 20_000
"""Characters of a prompt that are looked at. Longer JSON is read as far as it goes."""
MAX_SMALL_TALK_CHARS = 600
MAX_LEAD_IN_CHARS = 40
"""Characters of a first line that only announces the next: `Implement the following plan:`."""
MIN_REQUEST_WORDS = 3
"""Words after the name of a command that say alone what is wanted."""
_MAX_TAGS = 8

_GREETING = (
    r"hi|hey|hello|hallo|yo|hola|hiya|howdy|greetings|bonjour|salut|ciao|ola|olá|namaste|привет"
    r"|здравствуйте|你好|您好|こんにちは|안녕하세요|안녕"
)
_PLEASANTRY = (
    r"good (?:morning|afternoon|evening|day)|guten (?:morgen|tag|abend)"
    r"|how are you(?: doing)?(?: today)?|what'?s up|nice to meet you"
    r"|(?:many )?thanks(?: a lot| so much| again| very much| everyone)?"
    r"|thank (?:you|u)(?: so much| very much| again)?|thx|ty|cheers|danke(?: schön)?|merci"
    r"(?: beaucoup)?|gracias|grazie|obrigad[oa]|спасибо|谢谢|ありがとう(?:ございます)?|감사합니다"
    r"|(?:great|good|nice) (?:job|work)|well done|perfect|awesome|bye|goodbye|see you"
)
_TALK = (
    rf"{_PLEASANTRY}|ok|okay|yes|yep|yeah|yup|y|sure|no|nope|continue|go on|go ahead|go for it"
    r"|do it|keep going|proceed|resume|test|testing|ping|please|great|nice|cool|good|fine|alright"
    r"|excellent|lgtm|(?:looks|sounds) (?:good|great)|got it|understood|exit|quit"
    r"|(?:that|this|it) work(?:s|ed)(?: now| well| great| perfectly)?"
)
_SMALL_TALK = re.compile(
    # A name after a greeting must be none of the other words, and each word is read once. Otherwise
    # the pattern would try every reading.
    rf"\W*(?>(?:(?:{_GREETING})(?:"
    rf" (?!(?:{_GREETING}|{_TALK})\b)\w{{1,12}}\b)?|{_TALK})\b\W*)+",
    re.IGNORECASE,
)
_GREETS = re.compile(rf"\W*(?>(?:{_GREETING}|{_PLEASANTRY})\b\W*)+", re.IGNORECASE)
_COMMAND = re.compile(r"\A/([\w:.-]{1,80})(?=\s|\Z)\s*")
_SETUP_COMMANDS = frozenset(
    """add-dir agents approvals clear color compact compress config context copy cost doctor effort
    exit export help hooks ide login logout mcp memory mode model models output-style permissions
    plugin plugins provider quit reload-plugins remote-control rename resume settings status
    statusline theme think tools usage vim""".split()
)
"""Commands that agents have for themselves. They say nothing of what a session is about."""
_TAG = re.compile(r"\s*<([a-zA-Z][\w:-]{0,60})(?:\s[^<>]{0,300})?>")
_PROGRAM_TAG = re.compile(r"\s*<[a-z]+(?:[_-][a-z]+)+>")
"""A tag that no markup has, left open: what follows was put there by a program, and cut off."""
_UNSPACED = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")
"""Letters of languages that put no blanks between words, or few."""
_FIELD_NAME = re.compile(r"\A\s*\[\[ ## \w{1,40} ## \]\][ \t]*\r?\n")
_REQUEST_TAG = re.compile(
    r"(?:user[_-]?)?(?:task|request|query|message|question|goal|prompt|instructions?|objective"
    r"|input|issue|issue_description|pr_description)\Z",
    re.IGNORECASE,
)
_MARKS = re.compile(
    r"\A(?:\s*\[(?:image|pasted text|file|attachment)[^\]\n]{0,80}\])+", re.IGNORECASE
)
_FRONT_MATTER = re.compile(r"\A\s*---[ \t]*\r?\n(.*?)(?:\n---[ \t]*(?:\r?\n|\Z)|\Z)", re.DOTALL)
_KEY_LINE = re.compile(r"[A-Za-z_][\w-]*:(?:[ \t]|\r?$)", re.MULTILINE)
_KEYS = (
    "title", "task", "goal", "request", "prompt", "query", "question", "objective", "description",
    "message", "instructions", "instruction", "input", "text", "content", "summary", "response",
    "name",
)  # fmt: skip
"""The keys of a document under which a request is looked for, best first."""
_JSON = re.compile(r'\s*(?:[\[{]\s*)*"(?:[^"\\\n]|\\.){1,80}"\s*:|\s*\[\s*\{')
_FIELD = re.compile(r'"([^"\\\n]{1,80})"\s*:\s*"((?:[^"\\]|\\.)*)', re.DOTALL)
_WORD = re.compile(r"\w")
_HEADING = re.compile(r"\A#{1,6}[ \t]+(?=\S)")
_CONTINUED = re.compile(r"[ \t]{0,9}\\(?=\r?\n)")
"""A backslash that a terminal needs for a new line."""


def title_of(prompt: str) -> str | None:
    """Return the part of a prompt that says what is wanted, from its first line on.

    None if it says nothing of the kind: a greeting, thanks, a command alone or one that sets up
    the agent, or JSON without a sentence in it.
    """
    text = unwrap(prompt)
    if match := _COMMAND.match(text):
        arguments = text[match.end() :]
        if not arguments or is_setup_command(text):
            return None
        text = arguments if _is_request(arguments) else text
    text = _HEADING.sub("", _after_lead_in(_after_greeting(text)))
    text = _CONTINUED.sub("", text)
    is_none = not _WORD.search(text) or is_small_talk(text) or _PROGRAM_TAG.match(text)
    return None if is_none else text


def weak_title(line: str | None) -> str | None:
    """Return the title of a session whose first prompt begins with this line and that has no better
    title; None if even this line is none."""
    if not line:
        return None
    title = title_of(line)
    return title or (None if is_small_talk(line) or _JSON.match(line) else line)


def is_setup_command(text: str) -> bool:
    """Return True for a command that sets up the agent, and says nothing of what is wanted."""
    match = _COMMAND.match(text)
    return match is not None and match[1].lower() in _SETUP_COMMANDS


def is_small_talk(text: str) -> bool:
    """Return True if a text only greets, thanks, agrees or asks to go on."""
    return len(text) <= MAX_SMALL_TALK_CHARS and _SMALL_TALK.fullmatch(text) is not None


def is_greeting(text: str) -> bool:
    """Return True if a text only greets, thanks or praises."""
    return len(text) <= MAX_SMALL_TALK_CHARS and _GREETS.fullmatch(text) is not None


def unwrap(prompt: str) -> str:
    """Return a prompt without the tags, the front matter, the JSON, the name of a field and the
    names of pictures that stand before it or around it."""
    text = _FIELD_NAME.sub("", prompt[:MAX_READ_CHARS], count=1)
    text = _without_tags(text) if text.lstrip()[:1] == "<" else text
    if text.lstrip()[:3] == "---":
        text = _without_front_matter(text)
    if text.lstrip()[:1] in ("{", "[", '"') and _JSON.match(text):
        text = _without_json(text)
    if marks := _MARKS.match(text):
        text = text[marks.end() :] if _WORD.search(text, marks.end()) else text
    return text.strip()


def find_tagged_request(text: str) -> str | None:
    """Return what is in the tag at the beginning of a text that is named for a request."""
    tag = _TAG.match(text)
    if tag is None or not _REQUEST_TAG.match(tag[1]):
        return None
    end = text.find(f"</{tag[1]}>", tag.end())
    inner = text[tag.end() : end] if end >= 0 else text[tag.end() :]
    return inner if _WORD.search(inner) else None


def _is_request(arguments: str) -> bool:
    """Return True if the arguments of a command say what is wanted without its name."""
    if arguments.startswith("/"):
        return False
    words = arguments.split(None, MIN_REQUEST_WORDS)
    return len(words) >= MIN_REQUEST_WORDS or len(_UNSPACED.findall(arguments)) > MIN_REQUEST_WORDS


def _without_tags(text: str) -> str:
    """Return the request of a text that begins with tags: in a tag that is named for it, or after
    the tags, or in the first of them."""
    first = None
    at = 0
    for _ in range(_MAX_TAGS):
        tag = _TAG.match(text, at)
        end = text.find(f"</{tag[1]}>", tag.end()) if tag else -1
        if tag is None or end < 0:
            break
        inner = text[tag.end() : end]
        if _REQUEST_TAG.match(tag[1]) and _WORD.search(inner):
            return inner
        first = inner if first is None else first
        at = end + len(tag[1]) + 3
    rest = text[at:]
    return rest if first is None or _WORD.search(rest) else first


def _without_front_matter(text: str) -> str:
    """Return the text below front matter, or the best value in it when there is none."""
    match = _FRONT_MATTER.match(text)
    if match is None or not _KEY_LINE.match(match[1].lstrip()):
        return text
    below = text[match.end() :]
    if _WORD.search(below):
        return below
    values = read_values(match[1])
    return next((values[key] for key in _KEYS if values.get(key)), text)


def _without_json(text: str) -> str:
    """Return the sentence in a JSON document, or in the beginning of one; "" if there is none."""
    try:
        fields = list(_texts(msgspec.json.decode(text), 0))
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        fields = [(match[1], _decoded(match[2])) for match in _FIELD.finditer(text)]
    sentences = [(key, value) for key, value in fields if len(value.split(None, 1)) > 1]
    known = dict(reversed(sentences))
    best = next((known[key] for key in _KEYS if key in known), None)
    return best if best is not None else sentences[0][1] if sentences else ""


def _texts(value: Any, depth: int) -> list[tuple[str, str]]:
    """Return the keys and texts of a decoded document, not deeper than a message in a list."""
    if isinstance(value, list):
        return [field for item in value[:20] for field in _texts(item, depth + 1)]
    if not isinstance(value, dict) or depth > 3:
        return []
    fields: list[tuple[str, str]] = []
    for key, item in list(value.items())[:100]:
        fields += [(str(key), item)] if isinstance(item, str) else _texts(item, depth + 1)
    return fields


def _decoded(text: str) -> str:
    """Return a text of a JSON document that was cut off, without its escapes."""
    try:
        return str(msgspec.json.decode(f'"{text}"'))
    except (msgspec.DecodeError, UnicodeError):
        return text.replace("\\n", "\n").replace('\\"', '"')


def _after_greeting(text: str) -> str:
    """Return the text after a greeting on lines of its own, when something follows it."""
    while (end := text.find("\n")) >= 0 and is_small_talk(text[:end]):
        if not _WORD.search(text, end):
            break
        text = text[end:].lstrip()
    return text


def _after_lead_in(text: str) -> str:
    """Return the text after a first line that only announces it. A long first line says itself what
    is requested, and the details follow."""
    line, _, rest = text.strip().partition("\n")
    if not line.rstrip().endswith(":") or len(line.strip()) > MAX_LEAD_IN_CHARS:
        return text
    rest = rest.lstrip().lstrip("#*->0123456789. ")
    return rest if _WORD.search(rest) else text
