"""What the index is given besides the text itself."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runlore.store import Segment
from runlore.store.segments import add_tokens
from runlore.store.tsvectors import MAX_WORD_CHARS, list_words, tokenize, unpacker
from runlore.store.tsvectors import tokenize_segment as cut_of
from runlore.store.words import (
    MAX_IDENTIFIER_BYTES,
    blank_signs,
    camel_parts,
    cjk_pairs,
    index_text,
)


def test_words_of_mixed_case_are_cut_in_parts() -> None:
    assert camel_parts(b"parseHttpUrl(HTTPServer2)") == [
        b"HTTP",
        b"Http",
        b"Server",
        b"Url",
        b"parse",
    ]


def test_plain_words_are_not_repeated() -> None:
    assert camel_parts(b"plain words, Title and UPPER snake_case 42") == []


def test_a_word_at_either_end_is_seen() -> None:
    assert camel_parts(b"fooBar") == [b"Bar", b"foo"]
    assert camel_parts(b"ABcd") == [b"Bcd"]


def test_long_runs_are_data_and_not_identifiers() -> None:
    assert camel_parts(b"aB" * MAX_IDENTIFIER_BYTES) == []
    assert camel_parts(b"x" * 62 + b"Yz") == [b"Yz", b"x" * 62]


@pytest.mark.parametrize("size", [*range(4090, 4101), *range(8186, 8197)])
def test_a_text_of_any_size_is_looked_at_to_its_end(size: int) -> None:
    assert camel_parts(b" " * (size - 6) + b"endsIn") == [b"In", b"ends"]
    assert camel_parts(b"x" * (size - 3) + b" aB") == []
    assert camel_parts(b" " * (size - 1) + b"B") == []


def test_many_words_over_many_kilobytes_are_all_seen() -> None:
    words = [
        b"%s%s"
        % (
            b"abcdefgh"[: n % 8 + 1],
            b"".join(b"QRSTUVWXYZ"[int(c) : int(c) + 1].title() + b"u" for c in str(n)),
        )
        for n in range(9999)
    ]
    assert camel_parts(b" ".join(words)) == sorted(
        {*(b"abcdefgh"[: n + 1] for n in range(1, 8)), *(b"%cu" % c for c in b"QRSTUVWXYZ")}
    )


@given(st.lists(st.sampled_from("A B a b 1 2 _".split()), max_size=80).map("".join))
def test_the_parts_are_those_of_every_word_with_an_inner_beginning(text: str) -> None:
    words = [word for word in re.findall("[A-Za-z0-9]+", text) if len(word) <= MAX_IDENTIFIER_BYTES]
    mixed = [word for word in words if re.search("[a-z0-9][A-Z]|[A-Z][A-Z][a-z0-9]", word)]
    parts = {
        part for word in mixed for part in re.findall("[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+", word)
    }
    assert camel_parts(text.encode()) == sorted(part.encode() for part in parts if len(part) > 1)


def test_runs_of_characters_without_spaces_are_cut_in_pairs() -> None:
    assert cjk_pairs("搜索功能 and 日本") == [
        pair.encode() for pair in ("搜索", "索功", "功能", "日本")
    ]
    assert cjk_pairs("字") == ["字".encode()]


def test_colours_of_a_terminal_are_no_part_of_a_word() -> None:
    assert index_text([b"\x1b[31merror\x1b[0m: \x1b[1;32mok"]).split() == [b"error", b":", b"ok"]


def test_words_beside_characters_without_spaces_stand_apart() -> None:
    assert {b"parse_http", "数".encode()} <= set(
        index_text(["使用parse_http函数".encode()]).split()
    )


@given(st.lists(st.text(st.characters(exclude_characters="\x1b"))))
def test_any_text_can_be_indexed_and_stays_whole(texts: list[str]) -> None:
    data = [text.encode("utf-8", "replace") for text in texts]
    assert index_text(data).startswith(blank_signs(b"\n".join(data)))


@given(st.text(st.characters() | st.sampled_from(" .-_AZaz09é́ß字日")))
def test_much_text_is_cut_as_sqlite_cuts_it(text: str) -> None:
    data = text.encode("utf-8", "replace")
    assert list_words(data) == [word.encode() for word in tokenize(data)]


def test_a_long_word_of_another_script_is_cut_as_sqlite_cuts_it() -> None:
    data = ("plain " + "é字、" * 100 + " Ünd").encode()
    assert list_words(data) == [word.encode() for word in tokenize(data)]


def test_words_are_listed_in_order() -> None:
    assert (
        list_words(b"  B--ab a\xc3\xa4. b\tlonger1 longer12 ")
        == b"b ab aa b longer1 longer12".split()
    )
    assert list_words(b" - ") == []
    assert list_words("12→x│y—z".encode()) == [b"12", b"x", b"y", b"z"]


PARTS = [
    b"a",
    b"B",
    b"1",
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
def test_bytes_that_are_no_text_can_be_listed(text: bytes) -> None:
    assert b" " not in list_words(text)


def test_words_that_a_worker_cut_are_those_that_the_store_would_have() -> None:
    def segment() -> Segment:
        prompt, reply, tool = (
            b"parse http",
            "Ünd 字".encode(),
            b" ".join(b"w%d" % n for n in range(200_000)),
        )
        return Segment(
            first_seq=0,
            last_seq=1,
            length=0,
            hash=b"",
            body=b"",
            prompt=prompt,
            reply=reply,
            tool=tool,
        )

    ready = segment()
    add_tokens(ready)
    assert (ready.prompt, ready.reply, ready.tool) == (b"", b"", b"")
    assert ready.tokens == cut_of(segment())


def test_the_index_has_each_word_once_in_order_and_as_much_of_it_as_it_holds() -> None:
    long = "x" * MAX_WORD_CHARS
    tool = f"Ünd 字 {long}y {long}z {long} {long[1:]}".encode()
    segment = Segment(
        first_seq=0,
        last_seq=1,
        length=0,
        hash=b"",
        body=b"",
        prompt=b"parse http parse",
        reply=b"",
        tool=tool,
    )
    [(prompt, reply, kept)], stream = cut_of(segment)
    assert (prompt, reply) == (b"\0\0\0\2http\0\0\0parse\0\0\0", None)
    assert kept == b"\0\0\0\4" + b"".join(
        word.encode() + b"\0\0\0" for word in ("und", long[1:], long, "字")
    )
    assert unpacker()(stream).split(b"\n") == [
        b" parse http parse ",
        b"  ",
        f" und 字 {long}y {long}z {long} {long[1:]} ".encode(),
    ]


def test_words_that_one_vector_does_not_hold_are_in_several() -> None:
    tool = b" ".join(b"w%07d" % n for n in range(120_000))
    segment = Segment(
        first_seq=0, last_seq=1, length=0, hash=b"", body=b"", prompt=b"one", reply=b"", tool=tool
    )
    vectors, _ = cut_of(segment)
    assert [column for prompt, reply, _ in vectors for column in (prompt, reply)] == [
        b"\0\0\0\1one\0\0\0",
        *[None] * 5,
    ]
    assert (
        b"".join(kept[4:] for _, _, kept in vectors if kept).split(b"\0\0\0")[:-1] == tool.split()
    )
