"""Harmless HTML from hostile text: Markdown, code, changes. Pure.

Markdown of a transcript is rendered with its HTML shown as text, and what comes out passes a
sanitizer that knows a few tags and no attribute but those named here. Nothing that is fetched is
left in it: a picture becomes a link.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import cache

import nh3
from markdown_it import MarkdownIt
from markdown_it.rules_core import StateCore
from markdown_it.token import Token
from markupsafe import Markup, escape
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexer import Lexer
from pygments.lexers import get_lexer_by_name
from pygments.util import ClassNotFound

from ..text.clean import clean

MOST_MARKDOWN = 60_000
"""Characters that are read as Markdown. Longer texts are logs and files, and are shown as they
are."""
MOST_CODE = 30_000
"""Characters that are coloured."""

TAGS = {
    "a", "blockquote", "br", "code", "del", "em", "h1", "h2", "h3", "h4", "h5", "h6", "hr", "li",
    "ol", "p", "pre", "s", "span", "strong",
    "table", "tbody", "td", "th", "thead", "tr", "ul",
}  # fmt: skip
ATTRIBUTES = {"a": {"href", "title"}, "code": {"class"}, "ol": {"start"}, "span": {"class"}}
SCHEMES = {"http", "https", "mailto"}
_ADDRESS = re.compile(r"\bhttps?://[^\s<>\"'`|\\^{}\[\]()]{3,1000}(?<![.,;:!?*_])")
"""Of an address that stands in a text; what ends a sentence is no part of it."""
_LANGUAGE = re.compile(r"[\w+#.-]{1,30}")


def markdown(text: str) -> Markup:
    """What a person or a model wrote."""
    text = clean(text)
    if len(text) > MOST_MARKDOWN:
        return plain(text)
    made = _renderer().render(text)
    safe = nh3.clean(
        made,
        tags=TAGS,
        attributes=ATTRIBUTES,
        url_schemes=SCHEMES,
        link_rel="noopener noreferrer nofollow",
    )
    return Markup('<div class="md">{}</div>').format(Markup(safe))  # It was just sanitized.  # noqa: S704


def plain(text: str) -> Markup:
    """As it is, in the letters of a machine."""
    return Markup("<pre>{}</pre>").format(clean(text))


def code(text: str, language: str) -> Markup:
    """Coloured, when the language is known."""
    text = clean(text)
    lexer = (
        _lexer(language.lower())
        if _LANGUAGE.fullmatch(language) and len(text) <= MOST_CODE
        else None
    )
    if lexer is None:
        return escape(text)
    return Markup(  # noqa: S704
        highlight(text, lexer, _formatter()).rstrip("\n")
    )  # Pygments escapes what it colours.


def change(text: str) -> Markup:
    """An edit: its lines marked as added, taken away or kept."""
    lines = clean(text).split("\n")
    kinds = [_KINDS.get(line[:1], "keep") for line in lines]
    # The path stands alone, and where the first change begins says nothing more.
    if kinds[1:2] == ["hunk"]:
        kinds[0] = "path"
        if lines[1].strip("@ ") == "":
            del lines[1], kinds[1]
    marked = [
        Markup('<span class="{}">{}\n</span>').format(kind, line)
        for kind, line in zip(kinds, lines, strict=True)
    ]
    return Markup('<pre class="diff">{}</pre>').format(Markup("").join(marked))


_KINDS = {"+": "add", "-": "cut", "@": "hunk"}


@cache
def _renderer() -> MarkdownIt:
    made = MarkdownIt("commonmark", {"html": False, "highlight": _fence}).enable(
        ["table", "strikethrough"]
    )
    made.core.ruler.after("inline", "urls", _link_urls)
    # An image would be fetched; its link stays.
    return made.disable(["image", "html_block", "html_inline"])


def _link_urls(state: StateCore) -> None:
    """A core rule: addresses that stand in a text as they are become links. What is a link already,
    or code, stays."""
    for token in state.tokens:
        if token.type == "inline" and token.children and "://" in token.content:
            token.children = list(_linked(token.children))


def _linked(tokens: Iterable[Token]) -> Iterator[Token]:
    inside = 0
    for token in tokens:
        inside += (token.type == "link_open") - (token.type == "link_close")
        if inside or token.type != "text":
            yield token
            continue
        at = 0
        for found in _ADDRESS.finditer(token.content):
            yield Token("text", "", 0, content=token.content[at : found.start()])
            yield Token("link_open", "a", 1, attrs={"href": found[0]})
            yield Token("text", "", 0, content=found[0])
            yield Token("link_close", "a", -1)
            at = found.end()
        yield Token("text", "", 0, content=token.content[at:])


def _fence(text: str, language: str, _: str) -> str:
    return str(code(text, language)) if language else ""


@cache
def _formatter() -> HtmlFormatter[str]:
    return HtmlFormatter(nowrap=True)


@cache
def _lexer(language: str) -> Lexer | None:
    try:
        return get_lexer_by_name(language)
    except ClassNotFound:
        return None
