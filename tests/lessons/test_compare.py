"""Intervals that hold what they promise, and looks that share out one error."""

from __future__ import annotations

import random
from math import exp, lgamma, log

import pytest

from runlore.lessons.compare import (
    EARLY_ERRORS,
    MIN_GROUP,
    Look,
    compare_means,
    compare_shares,
    difference,
    find_looks,
    mean_difference,
    next_look,
    student_quantile,
)

LOOKS = find_looks(1600)


def binomial(number: int, share: float) -> list[float]:
    """Return the probability of each count."""
    return [
        exp(
            lgamma(number + 1) - lgamma(k + 1) - lgamma(number - k + 1)
            + k * log(share) + (number - k) * log(1 - share)
        )
        for k in range(number + 1)
    ]  # fmt: skip


def test_all_looks_together_are_wrong_in_at_most_4_percent() -> None:
    assert [look.sessions for look in LOOKS] == [50, 100, 200, 400, 800, 1600]
    assert [look.sessions for look in find_looks(399)] == [50, 100, 200]
    assert find_looks(49) == []
    assert sum(look.error for look in find_looks(50 << 40)) == pytest.approx(0.04)
    assert [next_look(n) for n in (0, 49, 50, 199, 200, 5_000)] == [50, 50, 100, 200, 400, 6_400]


@pytest.mark.parametrize("look", LOOKS[:3], ids=lambda look: str(look.sessions))
@pytest.mark.parametrize("share", [0.05, 0.2, 0.5])
@pytest.mark.parametrize("rate", [0.05, 0.1, 0.2, 0.4, 0.6])
def test_groups_without_a_difference_seldom_show_one(look: Look, share: float, rate: float) -> None:
    """The exact probability, over all outcomes."""
    withheld_of = max(MIN_GROUP, round(look.sessions * share))
    shown_of = look.sessions - withheld_of
    wrong = 0.0
    some = [(count, one) for count, one in enumerate(binomial(shown_of, rate)) if one > 1e-9]
    for withheld, of_withheld in enumerate(binomial(withheld_of, rate)):
        for shown, of_shown in some:
            low, high = difference(withheld, withheld_of, shown, shown_of, look.z)
            wrong += of_withheld * of_shown * (high < 0 or low > 0)
    # Slightly more only in groups of 10 beside large ones.
    assert wrong <= look.error + (0.011 if withheld_of == MIN_GROUP else 0.0005)


@pytest.mark.parametrize(
    ("rates", "sizes"),
    [
        ((0.4, 0.4), (40, 160)),
        ((0.4, 0.2), (40, 160)),
        ((0.1, 0.02), (100, 100)),
        ((0.05, 0.3), (10, 190)),
    ],
)
def test_an_interval_of_shares_covers_the_true_difference(
    rates: tuple[float, float], sizes: tuple[int, int]
) -> None:
    rng = random.Random(7)
    covered = 0
    for _ in range(2_000):
        before, after = (
            sum(rng.random() < rate for _ in range(size))
            for rate, size in zip(rates, sizes, strict=True)
        )
        low, high = difference(before, sizes[0], after, sizes[1], 1.959964)
        covered += low <= rates[1] - rates[0] <= high
    assert covered >= 0.935 * 2_000


@pytest.mark.parametrize("sizes", [(8, 30), (40, 160), (100, 100)])
def test_an_interval_of_means_covers_the_true_difference(sizes: tuple[int, int]) -> None:
    rng = random.Random(11)
    covered = 0
    for _ in range(2_000):
        before = [rng.gauss(5, 3) for _ in range(sizes[0])]
        after = [rng.gauss(4, 1) for _ in range(sizes[1])]
        low, high = mean_difference(before, after, 1.959964)
        covered += low <= -1 <= high
    assert 0.935 * 2_000 <= covered <= 0.97 * 2_000


@pytest.mark.parametrize(
    ("z", "freedom", "expected"),
    # From tables: 97.5 % and 99.5 %.
    [(1.959964, 6, 2.4469), (1.959964, 30, 2.0423), (2.575829, 6, 3.7074), (2.575829, 30, 2.75)],
)
def test_quantiles_of_student_are_those_of_the_tables(
    z: float, freedom: float, expected: float
) -> None:
    assert student_quantile(z, freedom) == pytest.approx(expected, rel=0.01)


def test_bounds_hold_the_difference_and_narrow_with_more_sessions() -> None:
    low, high = difference(20, 50, 5, 50, 2.6)
    assert low < -0.3 < high
    closer = difference(200, 500, 50, 500, 2.6)
    assert low < closer[0] < -0.3 < closer[1] < high
    assert difference(0, 0, 3, 9, 2.6) == (-1.0, 1.0)
    assert difference(5, 50, 5, 50, 2)[0] == pytest.approx(-difference(5, 50, 5, 50, 2)[1])


def test_without_a_look_there_is_no_interval_and_without_values_no_mean() -> None:
    share = compare_shares([True, False], [], None)
    assert (share.shown, share.shown_of, share.withheld_of, share.low) == (1, 2, 0, None)
    look = Look(50, EARLY_ERRORS[50])
    assert compare_shares([True] * 50, [False] * 9, look).high is None
    assert (compare_shares([True] * 50, [False] * 10, look).low or 0) > 0.4
    empty = compare_means([], [1.0], look)
    assert (empty.shown, empty.withheld, empty.low, empty.high) == (None, 1.0, None, None)
    same = compare_means([1.0] * 10, [2.0] * 10, look)
    assert (same.low, same.high) == (-1, -1)
