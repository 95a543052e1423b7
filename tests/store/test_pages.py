"""The pages of the index over words: what is written is found again, by the loops in Python and by the compiled ones."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from runlore.store._pages import (
    PAGE_BYTES,
    PIECE_BYTES,
    WORD_BYTES,
    Page,
    Words,
    bind_pages_in_python,
    find_in_python,
    make_pages_in_python,
    read_pages,
)

ROW_BYTES = 8000
"""Of a row that PostgreSQL keeps in one piece: `body` may not lie apart from it."""
KEY_BYTES = 2600
"""Of what PostgreSQL's own index takes, and `first` is a part of that."""


class Twin(NamedTuple):
    """One of the two that do the same."""

    make: Callable[[list[Words]], list[Page]]
    bind: Callable[[list[tuple[list[bytes], bytes]]], list[Page]]
    find: Callable[[list[bytes], bytes, bytes, int, bytes], bytes]


PYTHON = Twin(make_pages_in_python, bind_pages_in_python, find_in_python)


def compiled() -> Twin:
    speed = pytest.importorskip("runlore._speed", reason="it was not compiled here")
    return Twin(speed.make_pages, speed.bind_pages, speed.find_in_pages)


@pytest.fixture(params=["python", "compiled"])
def twin(request: pytest.FixtureRequest) -> Twin:
    return PYTHON if request.param == "python" else compiled()


def bodies(pages: Iterable[Page]) -> list[bytes]:
    return [body for _, _, body in pages]


def ids_of(count: int) -> list[int]:
    """The ids of so many segments: with numbers that are none of their numbers in the volume."""
    return list(range(1 << 40, (1 << 40) + 7 * count, 7))


def found(twin: Twin, pages: Sequence[Page], count: int, low: bytes, high: bytes, columns: int = 7) -> list[int]:
    """By number, the segments of a volume with so many of them in which words stand from `low` on and before `high`."""
    numbers = {id_: n for n, id_ in enumerate(ids_of(count))}
    return [numbers[id_] for id_ in array("q", twin.find(bodies(pages), low, high, columns, array("q", numbers).tobytes()))]


def with_word(twin: Twin, pages: Sequence[Page], count: int, word: bytes, columns: int = 7) -> list[int]:
    return found(twin, pages, count, word, word + b"\0", columns)


def brute(segments: Sequence[Words], low: bytes, high: bytes, columns: int = 7) -> list[int]:
    """The same, by looking into every segment, for one word after another."""
    asked = [column for column in range(3) if columns >> column & 1]
    cut = [[set((column or b"").split()) for column in segment] for segment in segments]
    words = sorted({word for columns_of in cut for column in columns_of for word in column if low <= word < high})
    found = (n for word in words for n, columns_of in enumerate(cut) if any(word in columns_of[column] for column in asked))
    return list(dict.fromkeys(found))


def read(pages: Sequence[Page]) -> dict[bytes, list[tuple[int, int]]]:
    """Every word with its places, as the pages tell it."""
    made: dict[bytes, list[tuple[int, int]]] = {}
    for word, places in read_pages(bodies(pages)):
        made.setdefault(word, []).extend(places)
    return made


def in_prompts(*texts: bytes) -> list[Words]:
    return [(text, None, None) for text in texts]


def split(segments: list[Words], sizes: Sequence[int], gone: set[int], twin: Twin) -> list[tuple[list[bytes], bytes]]:
    """Volumes of so many segments each and one with the rest, as they are bound: those that are gone have no number."""
    volumes, at, number = [], 0, 0
    for size in (*sizes, len(segments)):
        some, where = segments[at : at + size], array("i")
        for n in range(at, at + len(some)):
            where.append(-1 if n in gone else number)
            number += n not in gone
        volumes.append((bodies(twin.make(some)), where.tobytes()))
        at += len(some)
    return volumes


# ── made and found ───────────────────────────────────────────────────────────────────────────────────────────────────
def test_nothing_takes_no_page_and_nothing_is_found_on_none(twin: Twin) -> None:
    assert twin.make([]) == []
    assert twin.make([(None, None, None), (b"", b" ", b"  ")]) == []
    assert twin.bind([]) == []
    assert twin.bind([([], b""), ([], array("i", [0, 1]).tobytes())]) == []
    assert twin.find([], b"a", b"b", 7, b"") == b""
    assert twin.find([b""], b"a", b"b", 7, b"") == b""


def test_a_page_is_what_it_is_said_to_be(twin: Twin) -> None:
    """Byte by byte: what is in a store already has to be read by later versions."""
    pages = twin.make([(b"pear peach", None, b"pear"), (None, b"apple pear", None)])
    apple = b"\x00\x05apple" + b"\x01" + bytes([1 << 3 | 2])
    peach = b"\x00\x05peach" + b"\x01" + bytes([0 << 3 | 1])
    pear = b"\x03\x01r" + b"\x02" + bytes([0 << 3 | 5, 1 << 3 | 2])
    assert pages == [(b"apple", 0, apple + peach + pear)]


def test_words_are_found_whole_by_their_beginning_and_by_column(twin: Twin) -> None:
    segments: list[Words] = [(b"apple pear", None, b"pear"), (None, b"apples pear", None), (b"plum", b"", b"apple")]
    pages = twin.make(segments)
    assert with_word(twin, pages, 3, b"apple") == [0, 2]
    assert with_word(twin, pages, 3, b"appl") == []
    assert with_word(twin, pages, 3, b"pear", 1) == [0]
    assert with_word(twin, pages, 3, b"pear", 2) == [1]
    assert with_word(twin, pages, 3, b"pear", 4) == [0]
    assert with_word(twin, pages, 3, b"pear", 3) == [0, 1]
    assert with_word(twin, pages, 3, b"pear", 0) == []
    assert found(twin, pages, 3, b"app", b"app\xff") == [0, 2, 1], "one word after another"
    assert found(twin, pages, 3, b"p", b"p\xff") == [0, 1, 2]
    assert found(twin, pages, 3, b"q", b"q\xff") == []


def test_a_word_that_is_told_again_has_one_place(twin: Twin) -> None:
    assert read(twin.make([(b"a a  a", b"a", b" a ")])) == {b"a": [(0, 7)]}


def test_bytes_are_in_order_as_numbers_are(twin: Twin) -> None:
    """Not as letters: PostgreSQL compares `first` byte by byte, and a byte beyond ASCII is no negative number."""
    words = [b"\x01", b"a", b"a\x01", b"aa", b"aaaaaaaa", b"aaaaaaaa\x01", b"aaaaaaaaa", b"ab", "é".encode(), "字".encode(), b"\xf4"]
    pages = twin.make([(b" ".join(reversed(words)), None, None)])
    assert list(read(pages)) == sorted(words) == words
    assert all(with_word(twin, pages, 1, word) == [0] for word in words)


@pytest.mark.parametrize("count", [2000, 3000, 20_000])
def test_a_word_of_many_segments_takes_pages_of_its_own_and_its_neighbours_stay(twin: Twin, count: int) -> None:
    segments: list[Words] = [(b"many", None, b"many" if n % 3 else None) for n in range(count)]
    segments[1] = (b"l a many", b"manx", None)
    segments[count - 1] = (b"many manz z", None, None)
    pages = twin.make(segments)
    parts = [part for first, part, _ in pages if first == b"many"]
    assert parts == ([] if count < 3000 else list(range(len(parts))))
    assert all(len(list(read_pages([body]))) == 1 for first, _, body in pages if first == b"many"), "there is no other word on them"
    if count == 20_000:
        assert len(parts) > 5
        assert [first for first, _, _ in pages] == [b"a", *[b"many"] * len(parts), b"manz"]
    for word, numbers in {b"many": [*range(count)], b"a": [1], b"l": [1], b"manx": [1], b"manz": [count - 1], b"z": [count - 1]}.items():
        assert with_word(twin, pages, count, word) == numbers
    assert with_word(twin, pages, count, b"many", 4) == [n for n in range(count - 1) if n % 3 and n != 1]
    assert with_word(twin, pages, count, b"mana") == []


def test_a_part_tells_its_segments_without_the_one_before(twin: Twin) -> None:
    """A search may look at the last part alone, and a number that is far away takes more bytes there."""
    pages = twin.make(in_prompts(*[b"w"] * 10_000))
    last = pages[-1:]
    numbers = with_word(twin, last, 10_000, b"w")
    assert len(pages) > 2
    assert numbers == list(range(10_000 - len(numbers), 10_000))


def test_words_share_their_beginnings_on_a_page_and_on_none_with_the_page_before(twin: Twin) -> None:
    words = [b"%s%04d" % (b"b" * 40, n) for n in range(2000)]
    pages = twin.make(in_prompts(b" ".join(words)))
    assert 1 < len(pages) < 10, "written out they would be on more than twenty"
    for first, part, body in pages:
        assert part == 0
        alone = [word for word, _ in read_pages([body])]
        assert alone[0] == first
        assert alone == words[: len(alone)], "each page is read by itself"
        del words[: len(alone)]
        assert with_word(twin, [(first, part, body)], 1, alone[-1]) == [0]
    assert not words


@pytest.mark.parametrize("size", [1, 7, 8, 9, 127, 128, 129, WORD_BYTES - 1, WORD_BYTES])
def test_a_word_may_be_so_long(twin: Twin, size: int) -> None:
    word = b"x" * size
    segments = in_prompts(b"w %s y" % word, word + b" z", *[b"y z"] * 3)
    pages = twin.make(segments)
    assert read(pages)[word] == [(0, 1), (1, 1)]
    assert with_word(twin, pages, 5, word) == [0, 1]
    assert twin.bind([(bodies(pages), array("i", range(5)).tobytes())]) == pages


def test_a_word_may_not_be_longer(twin: Twin) -> None:
    with pytest.raises(ValueError, match="a word is too long"):
        twin.make(in_prompts(b"a " + b"x" * (WORD_BYTES + 1) + b" b"))


def test_a_page_with_its_first_word_fits_a_row(twin: Twin) -> None:
    """Long words that share nothing, that share nearly all, and such with as many places as one page may have, or more."""
    longest = [bytes([97 + n]) * WORD_BYTES for n in range(20)]
    alike = [b"z" * (WORD_BYTES - 2) + b"%02d" % n for n in range(100)]
    rare = b" ".join([*longest, *alike])
    for count in (1, PIECE_BYTES - 1, PIECE_BYTES, PIECE_BYTES + 1, 4 * PIECE_BYTES):
        segments = in_prompts(rare, *[longest[3] + b" " + alike[5] + b" short"] * count)
        pages = twin.make(segments)
        for first, _, body in pages:
            assert len(first) + len(body) < ROW_BYTES
            assert len(first) < KEY_BYTES
            assert len(body) <= PAGE_BYTES or len(list(read_pages([body]))) == 1, "only one that is alone may be so long"
        assert {word: len(places) for word, places in read(pages).items()} == {
            word: count + 1 if word in (longest[3], alike[5]) else count if word == b"short" else 1
            for word in (*longest, *alike, b"short")
        }  # fmt: skip


LETTERS = st.sampled_from([b"a", b"ab", b"abc", b"b", b"aaaaaaaa", b"aaaaaaab", b"aaaaaaaaa", b"\xc3\xa9", b"\xe5\xad\x97", b"x" * 300])
WORD = st.lists(LETTERS, min_size=1, max_size=4).map(b"".join)
COLUMN = st.none() | st.lists(WORD, max_size=12).map(b" ".join)
SEGMENT = st.tuples(COLUMN, COLUMN, COLUMN)
SEGMENTS = st.lists(SEGMENT, max_size=30)


@given(SEGMENTS, WORD, st.integers(0, 7))
def test_what_was_made_is_found_as_if_every_segment_was_looked_into(segments: list[Words], word: bytes, columns: int) -> None:
    pages = make_pages_in_python(segments)
    for low, high in ((word, word + b"\0"), (word, word + b"\xff"), (word[:1], word), (b"", b"\xff")):
        assert found(PYTHON, pages, len(segments), low, high, columns) == brute(segments, low, high, columns)


@given(SEGMENTS, WORD, st.integers(0, 7))
def test_the_compiled_loops_make_the_same_pages_and_find_the_same(segments: list[Words], word: bytes, columns: int) -> None:
    twin = compiled()
    pages = twin.make(segments)
    assert pages == make_pages_in_python(segments)
    for low, high in ((word, word + b"\0"), (word, word + b"\xff"), (word[:1], word), (b"", b"\xff")):
        assert found(twin, pages, len(segments), low, high, columns) == brute(segments, low, high, columns)


@given(st.data())
def test_the_compiled_loops_make_the_same_of_many_places(data: st.DataObject) -> None:
    """Of words in many segments, on pages of their own or nearly so: what is in all, in most, in every so manieth, in a few at the end."""
    count = data.draw(st.integers(1400, 6500))
    steps = data.draw(st.lists(st.integers(1, 400), min_size=1, max_size=6))
    segments: list[Words] = [
        (b" ".join(b"w%d" % i for i, step in enumerate(steps) if n % step == 0), b"last w0" if n > count - 3 else None, None)
        for n in range(count)
    ]
    pages = compiled().make(segments)
    is_same = pages == make_pages_in_python(segments)
    assert is_same
    assert found(compiled(), pages, count, b"w0", b"w0\0") == brute(segments, b"w0", b"w0\0")


# ── bound ────────────────────────────────────────────────────────────────────────────────────────────────────────────
def test_volumes_that_are_bound_are_as_if_made_of_what_is_left(twin: Twin) -> None:
    segments = in_prompts(b"apple pear", b"pear", b"plum apple", b"quince", b"apple")
    bound = twin.bind(split(segments, [2, 2], {1, 3}, twin))
    assert bound == twin.make([segments[0], segments[2], segments[4]])
    assert b"quince" not in b"".join(bodies(bound)), "no word is left that only what is gone had"
    assert twin.bind(split(segments, [2, 2], set(range(5)), twin)) == []


def is_bound_as_made(segments: list[Words], sizes: Sequence[int], gone: set[int], twin: Twin) -> bool:
    """Told by a word, for pytest takes minutes to say where a megabyte differs."""
    return twin.bind(split(segments, sizes, gone, twin)) == twin.make([s for n, s in enumerate(segments) if n not in gone])


def test_words_with_pages_of_their_own_are_bound_to_fewer_or_more(twin: Twin) -> None:
    segments = in_prompts(*[b"all", b"all even"] * 5000)
    for sizes, gone in (([4000], set()), ([1, 9000], set(range(0, 10_000, 2))), ([5000], set(range(100, 9900)))):
        assert is_bound_as_made(segments, sizes, gone, twin)


def test_many_words_are_bound_without_losing_one(twin: Twin) -> None:
    """More than a megabyte of them: where they are kept meanwhile there is not room for all in one piece."""
    segments = in_prompts(*(b" ".join(b"%s%06d" % (b"k" * 190, n + 1000 * part) for n in range(1000)) for part in range(8)))
    assert is_bound_as_made(segments, [3, 3], {5}, twin)


@given(SEGMENTS, st.lists(st.integers(0, 10), max_size=4), st.sets(st.integers(0, 29)))
def test_binding_any_volumes_with_any_segments_gone_is_making_one_of_the_others(
    segments: list[Words], sizes: list[int], gone: set[int]
) -> None:
    made = make_pages_in_python([segment for n, segment in enumerate(segments) if n not in gone])
    assert bind_pages_in_python(split(segments, sizes, gone, PYTHON)) == made


@given(SEGMENTS, st.lists(st.integers(0, 10), max_size=4), st.sets(st.integers(0, 29)))
def test_the_compiled_loop_binds_the_same(segments: list[Words], sizes: list[int], gone: set[int]) -> None:
    volumes = split(segments, sizes, gone, compiled())
    assert compiled().bind(volumes) == bind_pages_in_python(volumes)


def test_segments_that_are_out_of_order_are_refused(twin: Twin) -> None:
    pages = bodies(twin.make(in_prompts(b"a", b"a")))
    for where in ([1, 0], [5, 4]):
        with pytest.raises(ValueError, match="segments are out of order"):
            twin.bind([(pages, array("i", where).tobytes())])
    with pytest.raises(ValueError, match="segments are out of order"):
        twin.bind([(pages, array("i", [2, 3]).tobytes()), (pages, array("i", [0, 1]).tobytes())])


# ── damaged ──────────────────────────────────────────────────────────────────────────────────────────────────────────
def number(value: int) -> bytes:
    """As a page has it."""
    made = b""
    while value >= 0x80:
        made, value = made + bytes([value & 0x7F | 0x80]), value >> 7
    return made + bytes([value])


def entry(word: bytes, *places: int, shared: int = 0) -> bytes:
    piece = b"".join(map(number, places))
    return number(shared) + number(len(word)) + word + number(len(piece)) + piece


BAD = {
    "a place of a segment that the volume has not": entry(b"a", 2 << 3 | 1),
    "a second place of one": entry(b"a", 1 << 3 | 1, 1 << 3 | 1),
    "a number beyond all segments": entry(b"a", (1 << 28) << 3 | 1),
    "two numbers that go beyond them together": entry(b"a", (1 << 28) - 1 << 3 | 1, (1 << 28) - 1 << 3 | 1),
    "a number of more than 32 bits": b"\x00\x01a\x05\xff\xff\xff\xff\x1f",
    "a number of more than five bytes": b"\x00\x01a\x06\x81\x80\x80\x80\x80\x00",
    "a number that does not end": b"\x00\x01a\x01\x81",
    "places that go beyond the page": b"\x00\x01a\x02\x01",
    "a word that goes beyond the page": b"\x00\x02a",
    "a word that is longer than any": entry(b"a" * (WORD_BYTES + 1), 1),
    "a word that is longer than any with what it shares": entry(b"a" * WORD_BYTES, 1) + entry(b"b", 1, shared=WORD_BYTES),
    "a word that shares more than there is": entry(b"b", 1, shared=1),
    "a word that shares more than 32 bits": entry(b"a", 1) + b"\xff\xff\xff\xff\x0f\x01b\x01\x01",
    "a word that is as long as 32 bits tell": entry(b"a", 1) + b"\x01\xff\xff\xff\xff\x0fb\x01\x01",
    "places that are as long as 32 bits tell": b"\x00\x01a\xff\xff\xff\xff\x0f\x01",
    "a word of nothing": entry(b"", 1),
    "nothing behind a word": b"\x00\x01a",
}  # fmt: skip


@pytest.mark.parametrize("kind", BAD)
def test_a_damaged_page_is_said_to_be(twin: Twin, kind: str) -> None:
    two = array("q", [5, 6]).tobytes()
    with pytest.raises(ValueError, match="a page is damaged"):
        twin.find([BAD[kind]], b"", b"\xff", 7, two)
    with pytest.raises(ValueError, match="a page is damaged"):
        twin.bind([([BAD[kind]], array("i", [0, 1]).tobytes())])


def test_the_largest_number_of_a_segment_is_one_less_than_there_may_be(twin: Twin) -> None:
    where = array("i", [(1 << 28) - 1]).tobytes()
    pages = bodies(twin.make(in_prompts(b"a")))
    assert read(twin.bind([(pages, where)])) == {b"a": [((1 << 28) - 1, 1)]}


def test_a_segment_may_not_have_a_number_that_no_page_can_tell(twin: Twin) -> None:
    pages = bodies(twin.make(in_prompts(b"a")))
    with pytest.raises(ValueError, match="too many segments"):
        twin.bind([(pages, array("i", [1 << 28]).tobytes())])


@pytest.mark.parametrize("bad", [None, [None], [(b"a", None)], [("a", None, None)], [[b"a", None, None]], [(1, 2, 3)], ((b"a", b"", b""),)])
def test_what_is_no_list_of_segments_crashes_nothing(bad: Any) -> None:
    with pytest.raises((TypeError, ValueError, IndexError, SystemError)):
        compiled().make(bad)


@pytest.mark.parametrize("bad", [None, [None], [([b""],)], [(b"", b"")], [([None], b"")], [([b""], None)], [(None, b"")]])
def test_what_is_no_list_of_volumes_crashes_nothing(bad: Any) -> None:
    with pytest.raises((TypeError, ValueError, IndexError, SystemError)):
        compiled().bind(bad)


def outcome(does: Callable[[], Any]) -> Any:
    """What is answered, or that it is not."""
    try:
        return does()
    except ValueError as error:
        return str(error)


def are_alike(pages: list[bytes], count: int) -> Any:
    """What both make of pages that may be damaged, which is the same, and ends."""
    ids, where = array("q", ids_of(count)).tobytes(), array("i", range(count)).tobytes()
    answers = []
    for twin in (PYTHON, compiled()):
        ways = ((b"", b"\xff" * 9, 7), (b"b", b"b\0", 7), (b"a", b"a\xff", 2))
        answer = [outcome(lambda: twin.find(pages, *way, ids)) for way in ways]  # noqa: B023
        answers.append([*answer, outcome(lambda: twin.bind([(pages, where)]))])  # noqa: B023
    assert answers[0] == answers[1]
    return answers[0]


SMALL = make_pages_in_python(
    [(b"apple apples abc", None, b"b"), (None, b"b apple", b"bcd"), *in_prompts(*[b"b"] * 40), (b"last", b"b", "é".encode() * 30)]
)


def test_any_byte_that_is_changed_is_damage_or_another_answer_and_the_same_for_both() -> None:
    ((_, _, body),) = SMALL
    right, refused = are_alike([body], 43), 0
    for at in range(len(body)):
        for change in (0x01, 0x08, 0x10, 0x80, 0xFF):
            answer = are_alike([body[:at] + bytes([body[at] ^ change]) + body[at + 1 :]], 43)
            refused += "a page is damaged" in answer
            assert answer != right, f"byte {at} says nothing"
    assert 100 < refused < len(body) * 5


def test_a_page_that_was_cut_anywhere_is_damage_or_a_shorter_page_and_the_same_for_both() -> None:
    ((_, _, body),) = SMALL
    right = are_alike([body], 43)
    for at in range(len(body)):
        assert are_alike([body[:at]], 43) != right
        assert are_alike([body[at + 1 :]], 43) != right


def test_a_volume_that_says_it_has_fewer_segments_is_damaged_for_both() -> None:
    ((_, _, body),) = SMALL
    assert all(are_alike([body], count)[0] == "a page is damaged" for count in range(43))
    assert are_alike([body], 43)[0] != "a page is damaged"


@given(st.lists(st.binary(max_size=60), max_size=3), st.integers(0, 300))
@example([b"\x00\x01a\x01\x01\x01\x00\x01\x01"], 3)  # A word that is only what the one before was.
@example([b"\x00\x01a\x00"], 3)  # One without a place.
@example([b"\x00\x01a\x02\x08\x00", b"\x00\x01a\x01\x01"], 3)  # One without a column, and a second page that goes back.
def test_what_is_no_page_at_all_is_the_same_for_both(pages: list[bytes], count: int) -> None:
    are_alike(pages, count)


@given(SEGMENTS, st.data())
def test_any_damage_to_any_pages_is_the_same_for_both(segments: list[Words], data: st.DataObject) -> None:
    pages = bodies(make_pages_in_python(segments))
    for n in range(len(pages)):
        for _ in range(data.draw(st.integers(0, 3))):
            at = data.draw(st.integers(0, max(len(pages[n]) - 1, 0)))
            pages[n] = pages[n][:at] + data.draw(st.binary(max_size=2)) + pages[n][at + data.draw(st.integers(0, 3)) :]
    are_alike(pages, len(segments))
