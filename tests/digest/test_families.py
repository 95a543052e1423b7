"""Near fingerprints come together, whatever their order."""

import random

from hypothesis import given
from hypothesis import strategies as st

from runlore.digest import Signature
from runlore.digest.errors import signature
from runlore.digest.families import families

VALUES = ("alpha", "beta", "gamma", "delta", "epsilon")


def signatures(*texts: str) -> list[Signature]:
    return [found for text in texts if (found := signature(text))]


def test_a_word_that_differs_often_enough_is_a_variable() -> None:
    found = families(
        signatures(*[f"error: branch {value} has no upstream here" for value in VALUES])
    )
    assert set(found.values()) == {"error: branch <*> has no upstream here"}
    assert len(found) == len(VALUES)


def test_two_values_are_not_enough() -> None:
    assert (
        len(set(families(signatures("error: red door shut", "error: blue door shut")).values()))
        == 2
    )


def test_a_value_after_an_equals_sign_is_a_variable() -> None:
    found = families(
        signatures("error: refused user=root on host", "error: refused user=mary on host")
    )
    assert set(found.values()) == {"error: refused user=<*> on host"}


def test_long_messages_that_differ_in_a_word_are_one() -> None:
    words = (
        "error: could not copy the file to the folder because the disk of the {} machine is full"
    )
    assert (
        len(set(families(signatures(words.format("first"), words.format("other"))).values())) == 1
    )


def test_different_names_never_meet() -> None:
    texts = [f"bash: {value}: command not found" for value in VALUES]
    assert len(set(families(signatures(*texts)).values())) == len(VALUES)
    kinds = [f"{value.title()}Error: it went wrong in this very place" for value in VALUES]
    assert len(set(families(signatures(*kinds)).values())) == len(VALUES)


TEXTS = [
    f"error: {verb} {value} {rest}"
    for verb in ("open", "close")
    for value in VALUES
    for rest in ("failed here", "is not a thing", "x=1 y=2")
]


@given(st.lists(st.sampled_from(TEXTS), max_size=30), st.randoms(use_true_random=False))
def test_the_order_makes_no_difference(texts: list[str], chance: random.Random) -> None:
    found = signatures(*texts)
    mixed = list(found)
    chance.shuffle(mixed)
    assert families(mixed) == families(found)
    assert set(families(found)) == {one.fingerprint for one in found}


def test_a_quoted_word_varies_once_a_sibling_shows_it() -> None:
    found = families(
        signatures(
            "fatal: no upstream configured for branch 'main'",
            "fatal: no upstream configured for branch 'fix-it'",
        )
    )
    assert len(set(found.values())) == 1


def test_the_name_of_what_is_missing_tells_two_errors_apart() -> None:
    found = families(signatures("No module named 'redis'", "No module named 'pytz'"))
    assert len(set(found.values())) == 2
