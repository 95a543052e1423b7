"""What the index is given besides the text itself."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runlore.store import Segment
from runlore.store._postgres_words import LONGEST as LONGEST_KEPT
from runlore.store._postgres_words import cut, cut_foreign, fold, list_words_in_python, words_in
from runlore.store._postgres_words import cut_words as cut_of
from runlore.store.pieces import cut_words
from runlore.store.words import LONGEST, blank_signs, camel_parts_in_python, cjk_pairs, index_text

CamelParts = Callable[[bytes], list[bytes]]


def compiled(name: str) -> Any:
    return getattr(pytest.importorskip("runlore._speed", reason="it was not compiled here"), name)


@pytest.fixture(params=["python", "compiled"])
def camel_parts(request: pytest.FixtureRequest) -> Any:
    return camel_parts_in_python if request.param == "python" else compiled("camel_parts")


def test_words_of_mixed_case_are_cut_in_parts(camel_parts: CamelParts) -> None:
    assert camel_parts(b"parseHttpUrl(HTTPServer2)") == [b"HTTP", b"Http", b"Server", b"Url", b"parse"]


def test_plain_words_are_not_repeated(camel_parts: CamelParts) -> None:
    assert camel_parts(b"plain words, Title and UPPER snake_case 42") == []


def test_a_word_at_either_end_is_seen(camel_parts: CamelParts) -> None:
    assert camel_parts(b"fooBar") == [b"Bar", b"foo"]
    assert camel_parts(b"ABcd") == [b"Bcd"]


def test_long_runs_are_data_and_not_identifiers(camel_parts: CamelParts) -> None:
    assert camel_parts(b"aB" * LONGEST) == []
    assert camel_parts(b"x" * 62 + b"Yz") == [b"Yz", b"x" * 62]


@pytest.mark.parametrize("size", [*range(4090, 4101), *range(8186, 8197)])
def test_a_text_of_any_size_is_looked_at_to_its_end(camel_parts: CamelParts, size: int) -> None:
    assert camel_parts(b" " * (size - 6) + b"endsIn") == [b"In", b"ends"]
    assert camel_parts(b"x" * (size - 3) + b" aB") == []
    assert camel_parts(b" " * (size - 1) + b"B") == []


def test_many_words_over_many_kilobytes_are_all_seen(camel_parts: CamelParts) -> None:
    words = [
        b"%s%s" % (b"abcdefgh"[: n % 8 + 1], b"".join(b"QRSTUVWXYZ"[int(c) : int(c) + 1].title() + b"u" for c in str(n)))
        for n in range(9999)
    ]
    assert camel_parts(b" ".join(words)) == sorted({*(b"abcdefgh"[: n + 1] for n in range(1, 8)), *(b"%cu" % c for c in b"QRSTUVWXYZ")})


@given(st.lists(st.sampled_from([b"A", b"B", b"a", b"b", b"1", b"2", b" ", b"_", b"\xc3"]), max_size=200).map(b"".join))
def test_the_compiled_parts_of_words_are_the_same(text: bytes) -> None:
    assert compiled("camel_parts")(text) == camel_parts_in_python(text)


def test_runs_of_characters_without_spaces_are_cut_in_pairs() -> None:
    assert cjk_pairs("搜索功能 and 日本") == [pair.encode() for pair in ("搜索", "索功", "功能", "日本")]
    assert cjk_pairs("字") == ["字".encode()]


def test_colours_of_a_terminal_are_no_part_of_a_word() -> None:
    assert index_text([b"\x1b[31merror\x1b[0m: \x1b[1;32mok"]).split() == [b"error", b":", b"ok"]


def test_words_beside_characters_without_spaces_stand_apart() -> None:
    assert {b"parse_http", "数".encode()} <= set(index_text(["使用parse_http函数".encode()]).split())


@given(st.lists(st.text(st.characters(exclude_characters="\x1b"))))
def test_any_text_can_be_indexed_and_stays_whole(texts: list[str]) -> None:
    data = [text.encode("utf-8", "replace") for text in texts]
    assert index_text(data).startswith(blank_signs(b"\n".join(data)))


@given(st.text(st.characters() | st.sampled_from(" .-_AZaz09é́ß字日")))
def test_much_text_is_cut_as_sqlite_cuts_it(text: str) -> None:
    data = text.encode("utf-8", "replace")
    assert fold(data, cut_foreign).split() == [word.encode() for word in cut(data)]


def test_a_long_word_of_another_script_is_cut_as_sqlite_cuts_it() -> None:
    data = ("plain " + "é字、" * 100 + " Ünd").encode()
    assert fold(data, cut_foreign).split() == [word.encode() for word in cut(data)]


ListWords = Callable[[bytes, Callable[[bytes], bytes]], tuple[bytes, bytes, int]]


@pytest.fixture(params=["python", "compiled"])
def list_words(request: pytest.FixtureRequest) -> Any:
    return list_words_in_python if request.param == "python" else compiled("list_words")


def test_words_are_told_in_order_and_each_once(list_words: ListWords) -> None:
    assert list_words(b"  B--ab a\xc3\xa4. b\tlonger1 longer12 ", cut_foreign) == (
        b" b ab aa b longer1 longer12 ", b"b ab aa longer1 longer12", 8
    )  # fmt: skip
    assert list_words(b" - ", cut_foreign) == (b"  ", b"", 0)
    assert list_words("12→x│y—z".encode(), cut_foreign)[0] == b" 12 x y z "


def test_many_words_are_told_once(list_words: ListWords) -> None:
    words = [b"w%d" % (n * 7919 % 5000) for n in range(20_000)]
    assert list_words(b" ".join(words), cut_foreign) == (b" %b " % b" ".join(words), b" ".join(words[:5000]), 5)


def test_a_word_may_be_cut_into_more_than_it_was(list_words: ListWords) -> None:
    made = list_words("é x é".encode(), lambda word: b"longer " * 1000)
    assert made == (b" " + b"longer " * 1000 + b"x " + b"longer " * 1000, b"longer x", 6)


def test_what_cuts_words_may_fail(list_words: ListWords) -> None:
    with pytest.raises(ZeroDivisionError):
        list_words("a é".encode(), lambda word: b"" if 1 / 0 else word)
    with pytest.raises(TypeError):
        list_words("a é".encode(), lambda word: None)  # type: ignore[arg-type, return-value]


PARTS = [
    b"a",
    b"B",
    b"1",
    b"aaaaaaaa",
    b"aaaaaaaB",
    b" ",
    b"_",
    b"\0",
    "é".encode(),
    "→".encode(),
    "字".encode(),
    b"\xe2",
    b"\x86\x92",
    b"\xff",
]


@given(st.lists(st.sampled_from(PARTS), max_size=300).map(b"".join))
def test_words_listed_by_the_compiled_loop_are_the_same(text: bytes) -> None:
    assert compiled("list_words")(text, cut_foreign) == list_words_in_python(text, cut_foreign)


def test_words_that_a_worker_cut_are_those_that_the_store_would_have() -> None:
    def segment() -> Segment:
        prompt, reply, tool = b"parse http", "Ünd 字".encode(), b" ".join(b"w%d" % n for n in range(200_000))
        return Segment(first_seq=0, last_seq=1, length=0, hash=b"", body=b"", prompt=prompt, reply=reply, tool=tool)

    ready = segment()
    cut_words(ready)
    assert (ready.prompt, ready.reply, ready.tool) == (b"", b"", b"")
    assert ready.cut == cut_of(segment())


def test_the_words_of_a_stream_are_those_that_it_was_made_with() -> None:
    long = "x" * LONGEST_KEPT
    tool = f"Ünd 字 {long}y {long}z {long} {long[1:]}".encode()
    segment = Segment(first_seq=0, last_seq=1, length=0, hash=b"", body=b"", prompt=b"parse http parse", reply=b"", tool=tool)
    *words, stream = cut_of(segment)
    assert words == [b"parse http", None, f"und 字 {long} {long[1:]}".encode()], "the index has as much of a word, and that once"
    assert words_in(stream) == tuple(words)
