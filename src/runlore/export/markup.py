"""Safe HTML from hostile text: Markdown, code, diffs. Pure.

Markdown of a transcript is rendered with its HTML shown as text. The result passes a sanitizer with
a short list of tags and attributes. Nothing in it is fetched: a picture becomes a link.
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

MAX_MARKDOWN_CHARS = 60_000
"""Maximum length of a text that is rendered as Markdown. Longer texts are logs and files, and are
shown unchanged."""
MAX_CODE_CHARS = 30_000
"""Maximum length of a text that is highlighted."""

TAGS = {
    "a", "blockquote", "br", "code", "del", "em", "h1", "h2", "h3", "h4", "h5", "h6", "hr", "li",
    "ol", "p", "pre", "s", "span", "strong",
    "table", "tbody", "td", "th", "thead", "tr", "ul",
}  # fmt: skip
ATTRIBUTES = {"a": {"href", "title"}, "code": {"class"}, "ol": {"start"}, "span": {"class"}}
SCHEMES = {"http", "https", "mailto"}
_ADDRESS = re.compile(r"\bhttps?://[^\s<>\"'`|\\^{}\[\]()]{3,1000}(?<![.,;:!?*_])")
"""A web address in a text, without the punctuation that ends a sentence."""
_LANGUAGE = re.compile(r"[\w+#.-]{1,30}")


def markdown(text: str) -> Markup:
    """Return the HTML of a text that a person or a model wrote."""
    text = clean(text)
    if len(text) > MAX_MARKDOWN_CHARS:
        return plain(text)
    rendered = _renderer().render(text)
    safe = nh3.clean(
        rendered,
        tags=TAGS,
        attributes=ATTRIBUTES,
        url_schemes=SCHEMES,
        link_rel="noopener noreferrer nofollow",
    )
    # It was just sanitized.
    return Markup('<div class="md">{}</div>').format(Markup(safe))  # noqa: S704


def plain(text: str) -> Markup:
    """Return the HTML of a text in a fixed-width font, unchanged."""
    return Markup("<pre>{}</pre>").format(clean(text))


def code(text: str, language: str) -> Markup:
    """Return highlighted code if the language is known, else the escaped text."""
    text = clean(text)
    lexer = (
        _lexer(language.lower())
        if _LANGUAGE.fullmatch(language) and len(text) <= MAX_CODE_CHARS
        else None
    )
    if lexer is None:
        return escape(text)
    # Pygments escapes the text that it colours.
    return Markup(highlight(text, lexer, _formatter()).rstrip("\n"))  # noqa: S704


def change(text: str) -> Markup:
    """Return the HTML of a diff with its lines marked as added, removed or unchanged."""
    lines = clean(text).split("\n")
    kinds = [_KINDS.get(line[:1], "keep") for line in lines]
    # The path gets a line of its own, and an empty first hunk header says nothing.
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
    renderer = MarkdownIt("commonmark", {"html": False, "highlight": _fence}).enable(
        ["table", "strikethrough"]
    )
    renderer.core.ruler.after("inline", "urls", _link_urls)
    # An image would be fetched; its link stays.
    return renderer.disable(["image", "html_block", "html_inline"])


def _link_urls(state: StateCore) -> None:
    """Turn plain addresses in a text into links (a core rule of markdown-it).

    Existing links and code stay.
    """
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
        for match in _ADDRESS.finditer(token.content):
            yield Token("text", "", 0, content=token.content[at : match.start()])
            yield Token("link_open", "a", 1, attrs={"href": match[0]})
            yield Token("text", "", 0, content=match[0])
            yield Token("link_close", "a", -1)
            at = match.end()
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
