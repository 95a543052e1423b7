"""What a person wants, from the text of a prompt."""

import time

import pytest

from runlore.adapters.shared.tools import title_line
from runlore.text.titles import is_small_talk, title_of, weak_title
from runlore.text.yaml_values import read_values


@pytest.mark.parametrize(
    ("prompt", "title"),
    [
        ("fix the parser", "fix the parser"),
        ("  \n# Cache the index\nIt is slow.", "Cache the index\nIt is slow."),
        # A lead-in
        ("Implement the following plan:\n\n# Cache the index", "Cache the index"),
        ("Look at this:", "Look at this:"),
        # Commands
        ("/planner build a shop with baskets", "build a shop with baskets"),
        ("/team:planner build a\nshop", "build a\nshop"),
        ("/review the parser", "/review the parser"),
        ("/review src/", "/review src/"),
        ("/planner @shop.md を最新の状態にしてください", "@shop.md を最新の状態にしてください"),
        ("/model big-one", None),
        ("/compact and keep the plan", None),
        ("/clear", None),
        ("/review", None),
        ("/home/ada/shop is empty", "/home/ada/shop is empty"),
        # Tags
        ("<task>\nadd a basket\n</task>\n<env>\nlinux\n</env>", "add a basket"),
        ("<env>linux</env>\n<user_query>add a basket</user_query>", "add a basket"),
        ("<env>linux</env>\nadd a basket", "add a basket"),
        ('<note kind="a">add a basket</note>', "add a basket"),
        ("<div> is not closed", "<div> is not closed"),
        ("<git-context> Branch: main and it is cut…", None),
        ("[[ ## user_query ## ]]\n\nadd a basket", "add a basket"),
        # Front matter
        ("---\nname: shop\ntools: [a, b]\n---\n\nAdd a basket.", "Add a basket."),
        (
            '---\nname: shop\ndescription: "Add a\n  basket, \\"now\\""\n---\n',
            'Add a basket, "now"',
        ),
        ("---\ndescription: 'Ada''s\n\n  shop'\n---", "Ada's\nshop"),
        ("---\nis no front matter\n---\nat all", "---\nis no front matter\n---\nat all"),
        # JSON
        ('{\n  "response": "Totals are wrong.\\nFix them."\n}', "Totals are wrong.\nFix them."),
        ('"response": "Totals are wrong', "Totals are wrong"),
        ('{"id": "a1", "task": {"prompt": "add a basket", "n": 3}}', "add a basket"),
        ('[{"type": "text", "text": "add a basket"}]', "add a basket"),
        ('{"id": 5, "name": "x"}', None),
        ('{"text": "cut \\"off\\" in the mid', 'cut "off" in the mid'),
        ("[link](https://example.com) is dead", "[link](https://example.com) is dead"),
        # Pictures
        ("[Image #1] [Image #2] make it blue", "make it blue"),
        ("[Image #1]", "[Image #1]"),
        # Marks of headings and of new lines
        (
            "# Task: add a basket\n\nIt is for the shop.",
            "Task: add a basket\n\nIt is for the shop.",
        ),
        ("#12 is broken", "#12 is broken"),
        ("add a basket \\\nand a till", "add a basket\nand a till"),
        ("look into C:\\", "look into C:\\"),
        # Small talk
        ("hi", None),
        ("Hello Ada!", None),
        ("Thank you so much!", None),
        ("Good morning 👋", None),
        ("你好", None),
        ("ok, continue please", None),
        ("Great, go ahead!", None),
        ("cool, thanks", None),
        ("Thanks, that worked perfectly", None),
        ("y", None),
        ("lgtm", None),
        ("exit", None),
        ("Great!\nNow add a basket", "Now add a basket"),
        ("good names for baskets", "good names for baskets"),
        ("Hello Ada,\n\nadd a basket", "add a basket"),
        ("Thanks! Now add a basket", "Thanks! Now add a basket"),
        ("", None),
        ("…", None),
    ],
)
def test_a_title_says_what_is_wanted(prompt: str, title: str | None) -> None:
    assert title_of(prompt) == title


@pytest.mark.parametrize(
    ("line", "title"),
    [
        ("/model big-one", "/model big-one"),
        ('"response": "Totals are wrong.', "Totals are wrong."),
        ('"id": 5,', None),
        ("thanks", None),
        (None, None),
    ],
)
def test_a_first_line_is_a_title_unless_it_says_nothing(
    line: str | None, title: str | None
) -> None:
    assert weak_title(line) == title


@pytest.mark.parametrize(
    "text",
    [
        "hi thanks ok " * 40 + "@x",
        "hi there many thanks a lot " * 20 + "x",
        "great good it works looks good that worked " * 13 + "x",
        "{" * 20_000,
        '"a": "' * 4000,
        '{"a": "\\' * 3000,
        "<a>" * 7000,
        "---\n" * 5000,
        "/" * 20_000,
    ],
)
def test_hostile_text_takes_no_time(text: str) -> None:
    start = time.perf_counter()
    title_of(text)
    is_small_talk(text)
    read_values(text)
    assert time.perf_counter() - start < 1


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("a: one\nb: 'two'\nc: \"three\"", {"a": "one", "b": "two", "c": "three"}),
        ('a: "one\n  two\n\n  three"\nb: x', {"a": "one two\nthree", "b": "x"}),
        ('a: "one \\\n  two\\u00e9\\n\\\\"', {"a": "one twoé\n\\"}),
        ("a: one\n  two\nb: x", {"a": "one two", "b": "x"}),
        ("a: |-\n  one\n  two\nb: >\n  three\n", {"a": "one\ntwo", "b": "three"}),
        ("a:\n  b: nested\nc: x\r\n", {"a": "", "c": "x"}),
        ("a: 'it''s\n  one'", {"a": "it's one"}),
        ('a: "never ended\n  x', {"a": "never ended x"}),
        ("no key\n- a: b", {}),
    ],
)
def test_values_of_several_lines_are_read(text: str, values: dict[str, str]) -> None:
    assert read_values(text) == values


def test_a_title_has_single_blanks_so_that_more_of_it_is_shown() -> None:
    assert title_line("find out why   the hook\t\tfails", 1) == "find out why the hook fails"
