"""Text of strangers becomes HTML that does nothing."""

from __future__ import annotations

import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runlore.export.markup import (
    LANGUAGES,
    MAX_CODE_CHARS,
    MAX_COLOUR_S,
    MAX_MARKDOWN_CHARS,
    change,
    code,
    markdown,
    plain,
)

HOSTILE = [
    "<script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "[x](javascript:alert(1))",
    "[x](JaVaScRiPt&colon;alert(1))",
    "[x](data:text/html;base64,PHNjcmlwdD4=)",
    "![x](https://evil.example/pixel.png)",
    "<svg onload=alert(1)><animate onbegin=alert(1)></svg>",
    "<a href='javascript:alert(1)' style='position:fixed'>x</a>",
    "<iframe srcdoc='<script>alert(1)</script>'></iframe>",
    "```html\n<script>alert(1)</script>\n```",
    "```\"><script>alert(1)</script>\nx\n```",
    "<https://evil.example/\"onmouseover=alert(1)>",
    "[x]: javascript:alert(1)\n\n[x]",
    "| a |\n|---|\n| <b onclick=alert(1)>x</b> |",
    "`<style>*{display:none}</style>`",
]  # fmt: skip
LIVE = re.compile(
    r"<(?!/?(?:a|blockquote|br|code|del|div|em|h[1-6]|hr|li|ol|p|pre|s|span|strong|t(?:able|body|d"
    r"|h|head|r)|ul)\b)"
)
LIVE_ATTRIBUTE = re.compile(
    r"<[a-z0-9]+[^>]*\s(?:on\w+|style|src|srcset|id|name|action)\s*=", re.IGNORECASE
)


def is_harmless(made: str) -> bool:
    schemes = re.findall(r'href="([a-z]+):', made, re.IGNORECASE)
    return (
        not LIVE.search(made)
        and not LIVE_ATTRIBUTE.search(made)
        and set(schemes) <= {"http", "https", "mailto"}
    )


@pytest.mark.parametrize("text", HOSTILE)
@pytest.mark.parametrize("make", [markdown, plain, change, lambda text: code(text, "html")])
def test_hostile_text_is_shown_and_not_run(text: str, make) -> None:
    assert is_harmless(str(make(text)))


@given(
    st.text(
        alphabet=st.sampled_from("<>\"'&`[]()!#*_|\n -:;=/\\javscriptonlerhfmgdu\u202e\x1b\x00"),
        max_size=200,
    )
)
def test_any_text_is_harmless(text: str) -> None:
    for make in (markdown, plain, change):
        assert is_harmless(str(make(text)))


def test_markdown_reads_as_it_was_meant() -> None:
    made = str(
        markdown(
            "# Title\n\n- **a** `b`\n\n| x |\n|---|\n| 1"
            " |\n\n[l](https://e.example/)\n\n```python\ndef f(): ...\n```"
        )
    )
    for part in (
        "<h1>Title</h1>",
        "<strong>a</strong>",
        "<code>b</code>",
        "<td>1</td>",
        'href="https://e.example/"',
        '<span class="k">def</span>',
    ):
        assert part in made
    assert 'rel="noopener noreferrer nofollow"' in made


def test_what_a_screen_would_obey_is_gone() -> None:
    assert str(plain("a\x1b[31mb\u202ec\x00")) == "<pre>abc</pre>"
    assert "\u202e" not in str(markdown("x \u202e y"))


def test_a_text_that_is_too_long_for_markdown_is_shown_as_it_is() -> None:
    assert str(markdown("*a* " * MAX_MARKDOWN_CHARS)).startswith("<pre>*a* *a*")


def test_deep_nesting_ends() -> None:
    assert is_harmless(str(markdown("> " * 3000 + "x" + "[" * 3000 + "*" * 3000)))


def test_a_change_shows_what_came_and_went() -> None:
    made = str(change("src/a.c\n@@\n-int a;\n+long a;\n keep"))
    assert (
        made == '<pre class="diff"><span class="path">src/a.c\n</span><span class="cut">-int'
        ' a;\n</span><span class="add">+long a;\n</span><span class="keep"> keep\n</span></pre>'
    )


def test_a_language_that_nobody_knows_is_shown_plainly() -> None:
    assert str(code("<x>", "no-such-language")) == "&lt;x&gt;"
    assert str(code("<x>", "../etc")) == "&lt;x&gt;"


def test_an_address_in_a_text_is_a_link_and_what_is_one_or_code_stays() -> None:
    assert '<a href="https://example.com/a?b=1&amp;c" rel=' in markdown(
        "see https://example.com/a?b=1&c, or not"
    )
    assert (
        markdown(
            "(https://example.com/x). `https://example.com/code` [t](https://example.com/t)"
        ).count("<a ")
        == 2
    )
    assert "<a " not in markdown("javascript://example.com data://x file://y xhttps://z.example")
    assert markdown("https://example.com/<script>alert(1)</script>").count("<script") == 0


SLOW_CODE = {
    "gherkin": " \n",
    "c": "\n ",
    "console": "A_u:u:",
    "python": "\t\n",
    "bash": "<<-  '\\aaa",
    "typescript": "/a",
    "html": "<a ",
}
"""Parts of texts that a lexer takes long for, because it looks at the rest of the text at every
place."""


@pytest.mark.parametrize("language", SLOW_CODE)
def test_code_that_takes_long_to_colour_is_shown_plainly(language: str) -> None:
    part = SLOW_CODE[language]
    text = part * (MAX_CODE_CHARS // len(part))
    began = time.thread_time()
    block = code(text, language)
    assert time.thread_time() - began < 2 * MAX_COLOUR_S
    assert block.striptags().split() == " ".join(text.split()).split()


def test_a_text_with_many_slow_blocks_has_one_limit() -> None:
    block = "```python\n" + "\t\n" * 5_000 + "x = 1\n```\n\n"
    text = block * (MAX_MARKDOWN_CHARS // len(block))
    markdown(block)  # Loads what is needed.
    began = time.thread_time()
    rendered = markdown(text)
    assert time.thread_time() - began < 4 * MAX_COLOUR_S
    assert rendered.count("x = 1") + rendered.count('<span class="n">x</span>') == text.count("x =")


def test_every_language_on_the_list_is_one_that_pygments_knows() -> None:
    for language in LANGUAGES:
        assert "<span" in code('+ a = <b c="d"> # 1\n', language), language


def test_the_languages_of_most_transcripts_are_coloured_however_they_are_written() -> None:
    for language in ("python", "Bash", "YAML", "ts", "sh", "go", "json", "diff"):
        assert "<span" in code('a: "b" # 1\n+x\n', language), language
    assert "<span" not in code("Feature: x", "gherkin")
