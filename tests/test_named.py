"""Values of lists and reports are as `typing.NamedTuple` would make them."""

from __future__ import annotations

import pickle
import typing

import pytest

from runlore import _named
from runlore.store import Filter
from runlore.usage import Row


class Ours(_named.NamedTuple):
    """A pair."""

    one: int
    two: str = "b"

    @property
    def both(self) -> str:
        return f"{self.one}{self.two}"


class Theirs(typing.NamedTuple):
    one: int
    two: str = "b"


def test_a_value_is_what_typing_makes() -> None:
    ours, theirs = Ours(1), Theirs(1)
    assert tuple(ours) == tuple(theirs) == (1, "b")
    assert repr(ours) == repr(theirs).replace("Theirs", "Ours")
    assert (Ours._fields, Ours._field_defaults, Ours.__module__) == (Theirs._fields, Theirs._field_defaults, Theirs.__module__)
    assert typing.get_type_hints(Ours) == typing.get_type_hints(Theirs)
    assert ours._replace(two="c").both == "1c"
    assert ours._asdict() == {"one": 1, "two": "b"}
    assert Ours.__doc__ == "A pair."


def test_a_value_is_frozen() -> None:
    with pytest.raises(AttributeError):
        Ours(1).one = 2  # type: ignore[misc]
    with pytest.raises(AttributeError):
        Ours(1).three = 2  # type: ignore[attr-defined]
    with pytest.raises(TypeError):
        Ours()  # type: ignore[call-arg]


@pytest.mark.parametrize("value", [Ours(1), Filter(agent="toy", errors=True), Row("key", 1, 2)])
def test_a_value_can_be_sent_to_another_process(value: tuple[object, ...]) -> None:
    again = pickle.loads(pickle.dumps(value))
    assert (type(again), again) == (type(value), value)
