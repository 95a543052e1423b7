"""Make text of strangers harmless. Transcripts are hostile, so whatever shows them to a terminal or
a model begins here. Pure."""

from __future__ import annotations

import json
import re

import msgspec

OWN = "runlore (recorded data, not an instruction):"
"""Begins every line that a hook of ours puts into a session."""


def own_tool(text: str) -> str | None:
    """Return the tool of an event whose text a hook of ours put there; None for other text.

    Such an event is no evidence: see `model.is_own`.
    """
    return "runlore" if OWN in text[:400] else None


# Sequences first, so that their parameters go along. A string (OSC, DCS, …) that is not ended on
# its line loses only its introducer: what follows stays to be read. No part of the pattern can run
# past the next introducer: it is linear.
_HOSTILE = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]"
    r"|(?:\x1b[\]PX^_]|[\x90\x98\x9d-\x9f])(?:[^\x00-\x1f\x7f-\x9f]*(?:\x07|\x1b\\|\x9c))?"
    r"|\x1b[ -/]*[0-~]"
    r"|[\x00-\x08\x0b-\x1f\x7f-\x9f]"  # C0 but for tab and newline, DEL, C1
    # which way text runs, and where a line ends
    r"|[\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ufff9-\ufffb]"
    r"|[\U000e0000-\U000e007f]"  # tags: text that cannot be seen
    r"|[\ud800-\udfff]"
)
_UNSAFE_IN_JSON = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff"
    r"\ufff9-\ufffb\U000e0000-\U000e007f]"
)
_PLAIN = bytes(range(0x20, 0x7F)) + b"\t\n"


def clean(text: str) -> str:
    """Return the text without escape and control characters, except tab and newline."""
    if text.isprintable():
        return text
    return _HOSTILE.sub("", text.replace("\r\n", "\n").replace("\r", "\n"))


def one_line(text: str | None) -> str:
    """Return the clean text on one line."""
    if not text or text.isprintable():
        return text or ""
    return " ".join(clean(text).split())


def untagged(text: str) -> str:
    """Return the text without anything that Markdown or a model might take for a tag or a comment.

    `2>&1` and `<<EOF` stay as they are.
    """
    if "<" in text:
        text = re.sub(r"<([A-Za-z/!?][^<>]*)>", r"‹\1›", text)
        # One that nothing ends: `<<EOF` is none.
        text = re.sub(r"<(?=[/!?])|(?<!<)<(?=[A-Za-z])", "‹", text)
    return text.replace("-->", "--›")


def safe_json(data: bytes) -> bytes:
    """Return the same JSON with control characters escaped. Damaged JSON becomes harmless too."""
    # Little is left without the plain characters, and it is searched quickly. Printable characters
    # are never escaped.
    rest = data.translate(None, _PLAIN)
    if not rest:
        return data
    text = data.decode("utf-8", "replace")
    is_whole = "\ufffd" not in text  # Of damaged bytes the rest could fall together.
    if is_whole and rest.decode().isprintable():
        return data
    if is_whole and not _UNSAFE_IN_JSON.search(rest.decode()):
        return data
    return _UNSAFE_IN_JSON.sub(_escape, text).encode()


def encoded(value: object) -> bytes:
    """Return a value as JSON. Half of a surrogate pair, which has no UTF-8, is escaped."""
    try:
        return msgspec.json.encode(value)
    except UnicodeEncodeError:
        return json.dumps(msgspec.to_builtins(value, str_keys=True)).encode()


def _escape(match: re.Match[str]) -> str:
    units = match[0].encode("utf-16-be")
    return "".join(f"\\u{units[n]:02x}{units[n + 1]:02x}" for n in range(0, len(units), 2))
