"""JSON as people and agents keep it, changed by text edits: comments, order and layout stay as they
are.

`parse` gives a tree of where things stand, `insert` puts one value in as a single stretch of text,
`cut` takes a value out with its comma. Comments and trailing commas are understood, whether or not
the reader of the file does. Nothing here reads one.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

MAX_DEPTH = 100
"""Settings are a few levels deep. Deeper ones are refused, before they exhaust the stack."""

TOKENS = (
    r'[ \t\r\n]+|//[^\n]*|/\*.*?\*/|(?P<text>"(?:[^"\\\n]|\\.)*")'
    r'|(?P<sign>[{}\[\]:,])|(?P<word>[^\s{}\[\]:,"/]+)'
)


class Node(msgspec.Struct):
    """A value: where its text begins and ends, and what is in it."""

    start: int
    end: int = -1
    members: list[Member] | None = None
    """Of an object or a list; None of all others."""
    value: Any = None
    """Of the others."""
    is_list: bool = False

    def get(self, key: str) -> Node | None:
        """Of keys that come twice the last is meant, as in every agent's reader."""
        found = [member for member in self.members or () if member.key == key]
        return found[-1].node if found else None

    def data(self) -> Any:
        if self.members is None:
            return self.value
        values = [(member.key, member.node.data()) for member in self.members]
        return [value for _, value in values] if self.is_list else dict(values)


class Member(msgspec.Struct):
    """A value in an object or list, with its key if it has one."""

    key: str | None
    start: int
    node: Node
    comma: int = -1
    """Where the comma after it stands, if there is one."""


def parse(text: str) -> Node:
    """Raises ValueError, which names the line."""
    tokens = _tokens(text)
    root = _value(text, tokens, next(tokens), 0)
    if (rest := next(tokens))[0] != "end":
        raise _wrong(text, rest, "nothing more")
    return root


Token = tuple[str, str, int]
"""Its kind (text, word, end, or the sign itself), what it says, and where."""


def _tokens(text: str) -> Iterator[Token]:
    at, pattern = 0, re.compile(TOKENS, re.DOTALL)
    while at < len(text):
        found = pattern.match(text, at)
        if found is None:
            raise _wrong(text, ("", text[at], at), "JSON")
        if found.lastgroup:
            yield (found[0] if found.lastgroup == "sign" else found.lastgroup), found[0], at
        at = found.end()
    while True:
        yield "end", "the end", len(text)


def _value(text: str, tokens: Iterator[Token], token: Token, depth: int) -> Node:
    kind, said, at = token
    if kind in ("{", "["):
        return _container(text, tokens, Node(start=at, members=[], is_list=kind == "["), depth + 1)
    if kind not in ("text", "word"):
        raise _wrong(text, token, "a value")
    try:
        return Node(start=at, end=at + len(said), value=json.loads(said))
    except ValueError:
        raise _wrong(text, token, "a value") from None


def _container(text: str, tokens: Iterator[Token], node: Node, depth: int) -> Node:
    if depth > MAX_DEPTH:
        raise ValueError(f"it is nested more than {MAX_DEPTH} levels deep")
    assert node.members is not None
    close = "]" if node.is_list else "}"
    while True:
        token = next(tokens)
        if token[0] == close:
            node.end = token[2] + 1
            return node
        if node.members and node.members[-1].comma < 0:
            raise _wrong(text, token, f"a comma or {close}")
        key, start = None, token[2]
        if not node.is_list:
            if token[0] != "text":
                raise _wrong(text, token, "a key in quotes")
            key = _value(text, tokens, token, depth).value
            if (colon := next(tokens))[0] != ":":
                raise _wrong(text, colon, "a colon")
            token = next(tokens)
        member = Member(key, start, _value(text, tokens, token, depth))
        node.members.append(member)
        token = next(tokens)
        if token[0] == ",":
            member.comma = token[2]
        elif token[0] == close:
            node.end = token[2] + 1
            return node
        else:
            raise _wrong(text, token, f"a comma or {close}")


def _wrong(text: str, token: Token, wanted: str) -> ValueError:
    kind, said, at = token
    found = said if kind == "end" else ascii(said[:20])
    return ValueError(
        f"line {text.count(chr(10), 0, at) + 1}: there is {found} where {wanted} should be"
    )


# ── changes ───────────────────────────────────────────────────────────────────────────────────────
def insert(text: str, path: Sequence[str], value: Any, *, in_list: bool = False) -> tuple[str, str]:
    """Return the text with the value at the path, or first in its list, and what was inserted.

    Missing containers are created. The value becomes the first of its container, so that it needs
    no comma before it, and comments and trailing commas after the others stay in place. Raises
    ValueError when something else is in the way.
    """
    node = parse(text)
    for depth, key in enumerate(path):
        if node.members is None or node.is_list:
            raise ValueError(f"{'.'.join(path[:depth]) or 'the whole'} is not an object")
        inner = node.get(key)
        if inner is None:
            wrapped = [value] if in_list else value
            for name in reversed(path[depth + 1 :]):
                wrapped = {name: wrapped}
            return _put(text, node, key, wrapped)
        node = inner
    if not in_list:
        raise ValueError(f"{'.'.join(path)} is there already")
    if not node.is_list:
        raise ValueError(f"{'.'.join(path)} is not a list")
    return _put(text, node, None, value)


def _put(text: str, node: Node, key: str | None, value: Any) -> tuple[str, str]:
    eol = "\r\n" if "\r\n" in text else "\n"
    unit = _unit(text)
    base = _indent(text, node.start)
    first = node.members[0] if node.members else None
    begin = f"{json.dumps(key, ensure_ascii=False)}: " if key is not None else ""
    # A comment ends at its first */, in one way only: it is linear.
    rest_of_line = re.compile(r"(?:[ \t]|/\*(?:[^*\n]|\*(?!/))*\*/)*(?://[^\n]*?)?\r?\n").match(
        text, node.start + 1
    )
    if first is not None and rest_of_line is None:  # All on one line.
        piece, at = f"{begin}{json.dumps(value, ensure_ascii=False)}, ", first.start
        return text[:at] + piece + text[at:], piece
    own = (
        _indent(text, first.start)
        if first is not None
        and not text[text.rfind("\n", 0, first.start) + 1 : first.start].strip()
        else None
    )
    indent = base + unit if own is None else own
    said = begin + json.dumps(value, ensure_ascii=False, indent=unit).replace("\n", eol + indent)
    if rest_of_line is not None:
        piece, at = f"{indent}{said}{',' if first else ''}{eol}", rest_of_line.end()
    else:
        piece, at = f"{eol}{indent}{said}{eol}{base}", node.start + 1
    return text[:at] + piece + text[at:], piece


def cut(text: str, node: Node, member: Member) -> str:
    """The text without this member of the node, its comma, and its lines when there is nothing else
    on them."""
    assert node.members is not None
    at = node.members.index(member)
    start, end, comma = member.start, member.node.end, -1
    if member.comma >= 0:
        end = member.comma + 1
    elif at > 0:
        comma = node.members[at - 1].comma
    line = text.rfind("\n", 0, start) + 1
    rest = re.compile(r"[ \t]*(\r?\n)?").match(text, end)
    assert rest is not None
    if rest[1] and not text[line:start].strip():
        start, end = line, rest.end()
    elif member.comma >= 0:
        end = rest.end(0) if not rest[1] else end
    text = text[:start] + text[end:]
    return text[:comma] + text[comma + 1 :] if comma >= 0 else text


def _unit(text: str) -> str:
    """How much this text is indented by for each level."""
    found = re.search(r"\n([ \t]+)[^\s/*]", text)
    return found[1] if found else "  "


def _indent(text: str, at: int) -> str:
    line = text.rfind("\n", 0, at) + 1
    return text[line : line + len(text[line:at]) - len(text[line:at].lstrip(" \t"))]
