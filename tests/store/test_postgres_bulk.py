"""Rows in the binary format of COPY. That a server takes them is shown by the contract suite; here, that both ways to make them agree."""

import struct
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runlore.store._postgres_bulk import pack_in_python

Pack = Callable[[list[Sequence[Any]], bytes, int], list[bytes]]


def compiled() -> Any:
    return pytest.importorskip("runlore._speed", reason="it was not compiled here").pack_rows


@pytest.fixture(params=["python", "compiled"])
def pack(request: pytest.FixtureRequest) -> Any:
    return pack_in_python if request.param == "python" else compiled()


def test_a_row_is_its_count_and_each_value_behind_its_length(pack: Pack) -> None:
    row = (1 << 40, -2, 3, 0.5, "ä", b"\0\xff", memoryview(b"m"), None)
    told = struct.pack(">hiqihiiid", 8, 8, 1 << 40, 2, -2, 4, 3, 8, 0.5)
    told += b"\0\0\0\2\xc3\xa4\0\0\0\2\0\xff\0\0\0\1m\xff\xff\xff\xff"
    assert pack([row, list(row)], b"qhidssss", 1000) == [told + told]
    assert pack([], b"q", 1000) == [b""]


def test_much_comes_in_parts(pack: Pack) -> None:
    rows: list[Sequence[Any]] = [("x" * 400, n) for n in range(10)]
    parts = pack(rows, b"sq", 1000)
    assert len(parts) == 4
    assert b"".join(parts) == b"".join(pack(rows, b"sq", 1 << 30))


@pytest.mark.parametrize(
    ("value", "sign"), [(1 << 63, b"q"), (-(1 << 31) - 1, b"i"), (1 << 15, b"h"), ("1", b"q"), (1.5, b"h"), ("x", b"d"), (b"", b"i")]
)
def test_a_value_that_is_not_the_number_that_its_column_takes_is_told(pack: Pack, value: Any, sign: bytes) -> None:
    with pytest.raises(OverflowError):
        pack([(value,)], sign, 1)


def test_half_a_character_is_told(pack: Pack) -> None:
    with pytest.raises(UnicodeError):
        pack([("\ud800",)], b"s", 1)


def test_a_row_of_another_length_is_an_error(pack: Pack) -> None:
    for row in [(1,), (1, 2, 3)]:
        with pytest.raises(ValueError, match=r"row|argument"):
            pack([row], b"qq", 1)


_values = {
    "q": st.integers(-(1 << 64), 1 << 64),
    "i": st.integers(-(1 << 33), 1 << 33),
    "h": st.integers(-(1 << 17), 1 << 17),
    "d": st.floats(allow_nan=False),
    "s": st.text() | st.binary(),
}


@given(
    st.text("qihds", max_size=5).flatmap(
        lambda signs: st.tuples(st.just(signs), st.lists(st.tuples(*(st.none() | _values[s] for s in signs))))
    )
)
def test_both_make_the_same(given_: tuple[str, list[tuple[Any, ...]]]) -> None:
    signs, rows = given_

    def made(pack: Pack) -> Any:
        try:
            return b"".join(pack([*rows], signs.encode(), 64))
        except (OverflowError, UnicodeError) as error:
            return "does not fit" if isinstance(error, OverflowError) else type(error)

    assert made(compiled()) == made(pack_in_python)
