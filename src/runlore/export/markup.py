"""Safe HTML from hostile text: Markdown, code, diffs. Pure.

Markdown of a transcript is rendered with its HTML shown as text. The result passes a sanitizer with
a short list of tags and attributes. Nothing in it is fetched: a picture becomes a link.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from typing import Any

import nh3
from markdown_it import MarkdownIt
from markdown_it.renderer import RendererHTML
from markdown_it.rules_core import StateCore
from markdown_it.token import Token
from markdown_it.utils import EnvType, OptionsDict
from markupsafe import Markup, escape
from pygments import format as format_tokens
from pygments.formatters import HtmlFormatter
from pygments.lexer import Lexer
from pygments.lexers import get_lexer_by_name
from pygments.util import ClassNotFound

from ..text.clean import clean

MAX_MARKDOWN_CHARS = 60_000
"""Maximum length of a text that is rendered as Markdown. Longer texts are logs and files, and are
shown unchanged."""
MAX_CODE_CHARS = 10_000
"""Maximum length of a text that is highlighted."""
MAX_COLOUR_S = 0.25
"""Maximum processor time for highlighting the code of one text. Code that is left is shown plainly.
A lexer looks far ahead at every place of some texts, and would take minutes for them."""

LANGUAGES = frozenset(
    (
        "bash sh shell zsh c cpp c++ cs csharp css diff docker dockerfile go golang graphql"
        " html java javascript js json jsx kotlin lua make makefile php powershell ps1"
        " py python python3 rb ruby rs rust scala sql swift toml ts tsx typescript xml yaml yml"
    ).split()
)
"""The languages that are highlighted, with all their names. `bench/attack/web.py` looks for texts
on which a lexer hangs: one that takes long for a single token cannot be interrupted, and is not on
this list."""

TAGS = {
    "a", "blockquote", "br", "code", "del", "em", "h1", "h2", "h3", "h4", "h5", "h6", "hr", "li",
    "ol", "p", "pre", "s", "span", "strong",
    "table", "tbody", "td", "th", "thead", "tr", "ul",
}  # fmt: skip
ATTRIBUTES = {"a": {"href", "title"}, "code": {"class"}, "ol": {"start"}, "span": {"class"}}
SCHEMES = {"http", "https", "mailto"}
_ADDRESS = re.compile(r"\bhttps?://[^\s<>\"'`|\\^{}\[\]()]{3,1000}(?<![.,;:!?*_])")
"""A web address in a text, without the punctuation that ends a sentence."""


def markdown(text: str) -> Markup:
    """Return the HTML of a text that a person or a model wrote."""
    text = clean(text)
    if len(text) > MAX_MARKDOWN_CHARS:
        return plain(text)
    rendered = _renderer().render(text, {_DEADLINE: _new_deadline()})
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


def code(text: str, language: str, deadline: float | None = None) -> Markup:
    """Return highlighted code if the language is on the list, else the escaped text.

    The text is also left as it is when it is too long, or would not be done by the deadline, a
    value of `time.thread_time()`.
    """
    text, language = clean(text), language.lower()
    lexer = _lexer(language) if language in LANGUAGES and len(text) <= MAX_CODE_CHARS else None
    if lexer is None:
        return escape(text)
    tokens = _until(_new_deadline() if deadline is None else deadline, lexer.get_tokens(text))
    try:
        # Pygments escapes the text that it colours.
        return Markup(format_tokens(tokens, _formatter()).rstrip("\n"))  # noqa: S704
    except TimeoutError:
        return escape(text)


def _new_deadline() -> float:
    return time.thread_time() + MAX_COLOUR_S


def _until(deadline: float, tokens: Iterable[Any]) -> Iterator[Any]:
    """Pass tokens on. Raises TimeoutError after the deadline.

    It is the time of this thread, so that a busy machine shows the same page.
    """
    for token in tokens:
        if time.thread_time() > deadline:
            raise TimeoutError
        yield token


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
    renderer = MarkdownIt("commonmark", {"html": False}).enable(["table", "strikethrough"])
    renderer.add_render_rule("fence", _fence)
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


_DEADLINE = "deadline"
"""The name under which markdown-it passes the deadline of a text on."""


def _fence(
    _: RendererHTML, tokens: Sequence[Token], index: int, __: OptionsDict, env: EnvType
) -> str:
    """Return the HTML of a block of code (a render rule of markdown-it)."""
    token = tokens[index]
    language = (token.info.split() or [""])[0]
    kind = Markup(' class="language-{}"').format(language) if language else ""
    block = code(token.content, language, env[_DEADLINE])
    return str(Markup("<pre><code{}>{}</code></pre>\n").format(kind, block))


@cache
def _formatter() -> HtmlFormatter[str]:
    return HtmlFormatter(nowrap=True)


@cache
def _lexer(language: str) -> Lexer | None:
    try:
        return get_lexer_by_name(language)
    except ClassNotFound:  # An older Pygments knows fewer names.
        return None
