"""Answers that fit into a number of tokens."""

from __future__ import annotations

import re
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from runlore.text.tokens import MAX_DEPTH, cut, fit, tokens, tokens_of

plain = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=400),
    lambda inner: (
        st.lists(inner, max_size=30) | st.dictionaries(st.text(max_size=300), inner, max_size=8)
    ),
    max_leaves=40,
)


# What tokenizers make of these was counted once: cl100k, and the one that came with Anthropic's SDK
# before 0.39.
@pytest.mark.parametrize(
    ("text", "real"),
    [
        ("The test fails because the module cannot be imported. " * 10, 101),
        ("9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08", 44),
        ("这个错误以前在这里见过吗？什么修复了它？" * 10, 220),
        ("😀🎉🚀🧪✅❌" * 10, 150),
    ],
)
def test_estimate_is_no_less_than_what_tokenizers_make(text: str, real: int) -> None:
    assert real <= tokens(text) <= 4 * real


def test_estimate_of_bytes_is_that_of_their_text() -> None:
    assert tokens("é{}aZ 9\n") == tokens("é{}aZ 9\n".encode())
    assert tokens("") == 0
    assert tokens("\ud800") > 0


@given(st.text(max_size=600), st.integers(20, 120))
def test_a_cut_text_fits_and_says_how_much_is_missing(text: str, room: int) -> None:
    short = cut(text, room)
    assert tokens(short) <= room
    if short != text:
        kept, missing = re.fullmatch(r"(.*)… \[(\d+) more characters\]", short, re.DOTALL).groups()  # type: ignore[union-attr]
        assert text.startswith(kept)
        assert len(kept) + int(missing) == len(text)


def test_what_fits_stays_as_it_is() -> None:
    value = {"total": 1, "hits": [{"text": "a" * 30}]}
    fitted = fit(value, 100, "hits")
    assert (fitted.value, fitted.shown, fitted.is_whole) == (value, 1, True)


def test_whole_items_go_at_the_end() -> None:
    value = {"total": 50, "rows": [{"n": number, "text": "word " * 10} for number in range(50)]}
    fitted = fit(value, 300, "rows")
    assert 5 < fitted.shown < 20
    assert fitted.left == 50 - fitted.shown
    assert fitted.value == {"total": 50, "rows": value["rows"][: fitted.shown]}  # type: ignore[index]
    assert tokens_of(fitted.value) <= 300


def test_long_texts_are_cut_before_the_last_item_goes() -> None:
    rows = [{"id": str(number), "body": "lorem ipsum " * 5000} for number in range(9)]
    fitted = fit(rows, 400, "")
    assert fitted.shown >= 1
    assert fitted.texts == fitted.shown
    assert all(row["body"].endswith("more characters]") for row in fitted.value)
    assert tokens_of(fitted.value) <= 400


def test_a_name_is_whole_or_not_there() -> None:
    rows = [
        {"uid": "claude:b2f87a4e-5689-48c2-8c78-9470485f9a72", "title": "how the session went " * 9}
    ] * 3
    fitted = fit(rows, 70, "")
    assert [row["uid"] for row in fitted.value] == [rows[0]["uid"]]
    assert fitted.texts == 1
    assert fit(rows, 30, "").value == []


def test_what_is_around_a_list_stays_whole_where_no_item_has_room() -> None:
    value = {"query": "permission denied", "hits": [{str(number): number for number in range(99)}]}
    fitted = fit(value, 40, "hits")
    assert (fitted.value, fitted.texts, fitted.left) == (
        {"query": "permission denied", "hits": []},
        0,
        1,
    )


def test_a_value_without_a_list_is_cut() -> None:
    fitted = fit({"seq": 1, "body": "x" * 100_000, "files": ["a"] * 10_000}, 200)
    assert fitted.value["seq"] == 1
    assert (fitted.texts, fitted.lists, fitted.left) == (1, 1, 0)
    assert tokens_of(fitted.value) <= 200


def test_what_cannot_fit_is_null_and_a_list_of_it_is_empty() -> None:
    value = {f"a name that takes room {number}": number for number in range(500)}
    assert fit(value, 100).value is None
    for items, around in (("", []), ("rows", {"total": 3, "rows": []})):
        fitted = fit([value] * 3 if items == "" else {"total": 3, "rows": [value] * 3}, 100, items)
        assert (fitted.value, fitted.shown, fitted.left) == (around, 0, 3)


def test_deep_nesting_is_cut_and_not_followed() -> None:
    value: Any = "x" * 5000
    for _ in range(400):
        value = [value]
    fitted = fit(value, 100)
    assert fitted.lists
    assert msgspec.json.encode(fitted.value).count(b"[") == MAX_DEPTH + 1


@given(plain, st.integers(20, 400))
def test_anything_fits_or_is_null(value: Any, room: int) -> None:
    for items in (None, ""):
        if items is not None and not isinstance(value, list):
            continue
        fitted = fit(value, room, items)
        assert fitted.value is None or tokens_of(fitted.value) <= room
        assert fitted.is_whole <= (fitted.value == value)
        if items == "" and fitted.value is not None:
            assert fitted.shown + fitted.left == len(value)
