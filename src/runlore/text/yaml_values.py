"""The plain values of a small YAML document: the front matter of a text, a file of settings.

Not a parser of YAML: lists, nested maps, anchors and tags are left out. A value may be on one line
or on several, with or without quotes, as people write titles.
"""

from __future__ import annotations

import re

MAX_LINES = 1000

_LINE = re.compile(r"([A-Za-z_][\w-]*):(?:[ \t]+(.*)|[ \t]*)")
_ESCAPE = re.compile(r"\\(?:x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|(.))", re.DOTALL)
_ESCAPED = {"n": "\n", "t": "\t", "r": "\r", "0": "", "e": "", "a": "", "b": "", "v": "", "f": ""}


def read_values(text: str) -> dict[str, str]:
    """Return the values of the document's own keys that are texts, by key."""
    values: dict[str, str] = {}
    lines = text.split("\n")[:MAX_LINES]
    at = 0
    while at < len(lines):
        match = _LINE.fullmatch(lines[at].rstrip("\r"))
        at += 1
        if match is None:
            continue
        end = at
        while end < len(lines) and (lines[end][:1] in (" ", "\t") or not lines[end].strip()):
            end += 1
        values[match[1]] = _value(
            (match[2] or "").strip(), [line.strip() for line in lines[at:end]]
        )
        at = end
    return values


def _value(first: str, more: list[str]) -> str:
    """Return the value that begins on the line of its key and goes on in the lines below it."""
    if first[:1] in ("|", ">"):
        return "\n".join(more).strip()
    if first[:1] == '"':
        return _ESCAPE.sub(_unescape, _until_quote(_folded(first, more)[1:], '"'))
    if first[:1] == "'":
        return _until_quote(_folded(first, more)[1:], "'").replace("''", "'")
    return _folded(first, more) if first else ""


def _folded(first: str, more: list[str]) -> str:
    """Return a text of several lines as YAML joins them: by a blank, or by the line breaks that
    blank lines stand for. A backslash at the end of a line joins without a blank."""
    text = first
    breaks = 0
    for line in more:
        if not line:
            breaks += 1
            continue
        if text.endswith("\\") and not text.endswith("\\\\"):
            text = text[:-1] + line
        else:
            text += ("\n" * breaks or " ") + line
        breaks = 0
    return text


def _until_quote(text: str, quote: str) -> str:
    """Return the text up to the quote that ends it. One that is never ended is the whole text."""
    at = 0
    while (at := text.find(quote, at)) >= 0:
        if quote == "'" and text[at + 1 : at + 2] == "'":
            at += 2
        elif quote == '"' and (len(text[:at]) - len(text[:at].rstrip("\\"))) % 2:
            at += 1
        else:
            return text[:at]
    return text


def _unescape(match: re.Match[str]) -> str:
    code = match[1] or match[2] or match[3]
    if code is None:
        return _ESCAPED.get(match[4], match[4])
    number = int(code, 16)
    return chr(number) if number < 0x110000 and not 0xD800 <= number < 0xE000 else "\ufffd"
