"""What may leave, and in which order; and that nothing is missed when it has left."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from runlore.config import size_bytes
from runlore.retention.policy import PINNED, REFERRED, UNANALYZED, by_name, by_policy
from runlore.store.values import Bulk, Weight

NOW = datetime(2026, 12, 1, tzinfo=UTC)


def weight(n: int, **fields: Any) -> Weight:
    """The n-th session, ended in the n-th month."""
    plain: dict[str, Any] = dict(
        uid=f"toy:{n}", parent_uid=None, title=None, ended_at=f"2026-{n:02}-01T00:00:00.000000Z",
        events=1, is_pinned=False,
        is_covered=True, is_evicted=False, is_shown_elsewhere=False, body_bytes=100,
    )  # fmt: skip
    return Weight(**{**plain, **fields})


def bulk(n: int, size: int = 100) -> Bulk:
    return Bulk(n, f"/toy/{n}", size, (f"toy:{n}",))


def uids(weights: list[Weight]) -> list[str]:
    return [one.uid for one in weights]


def test_what_is_old_and_analyzed_leaves_whatever_the_size() -> None:
    plan = by_policy([weight(1), weight(2), weight(11)], [], used=300, now=NOW, max_age_days=100)
    assert uids(plan.sessions) == ["toy:1", "toy:2"]
    assert plan.freed == 200


def test_over_the_soft_budget_records_leave_before_bodies_and_the_oldest_first() -> None:
    weights, bulks = [weight(1), weight(2), weight(3)], [bulk(1), bulk(2), bulk(3)]
    assert [b.source for b in by_policy(weights, bulks, used=600, now=NOW, soft=450).bulks] == [
        1,
        2,
    ]
    assert by_policy(weights, bulks, used=600, now=NOW, soft=450).sessions == []
    more = by_policy(weights, bulks, used=600, now=NOW, soft=150)
    assert (len(more.bulks), uids(more.sessions), more.is_short) == (3, ["toy:1", "toy:2"], False)


def test_what_came_free_when_some_left_says_how_many_more_must() -> None:
    weights = [weight(1), weight(2), weight(3)]
    assert uids(by_policy(weights, [], used=1000, now=NOW, soft=850).sessions) == ["toy:1"]
    assert uids(by_policy(weights, [], used=1000, now=NOW, soft=850, factor=1.0).sessions) == [
        "toy:1",
        "toy:2",
    ]
    assert uids(by_policy(weights, [], used=1000, now=NOW, soft=850, factor=99.0).sessions) == [
        "toy:1"
    ]


def test_within_the_budget_nothing_leaves() -> None:
    plan = by_policy([weight(1)], [bulk(1)], used=200, now=NOW, soft=200)
    assert not plan.sessions
    assert not plan.bulks


def test_what_is_pinned_unanalyzed_or_referred_to_stays_and_is_counted() -> None:
    weights = [
        weight(1, is_pinned=True),
        weight(2, is_covered=False),
        weight(3, is_shown_elsewhere=True),
    ]
    weights += [weight(4, parent_uid="toy:1"), weight(5)]
    plan = by_policy(weights, [bulk(1), bulk(2), bulk(3)], used=800, now=NOW, soft=1)
    assert uids(plan.sessions) == ["toy:5"]
    assert [b.source for b in plan.bulks] == [3]
    assert plan.stays == {PINNED: 2, UNANALYZED: 1, REFERRED: 1}
    assert plan.is_short


def test_records_stay_with_a_session_that_was_pinned_when_it_had_left() -> None:
    plan = by_policy(
        [weight(1, is_pinned=True, is_evicted=True)], [bulk(1)], used=200, now=NOW, soft=1
    )
    assert plan.bulks == []


def test_force_takes_what_no_digest_covers_and_never_what_is_pinned() -> None:
    weights = [weight(1, is_covered=False), weight(2, is_covered=False, is_pinned=True)]
    assert uids(by_policy(weights, [], used=200, now=NOW, soft=0, is_forced=True).sessions) == [
        "toy:1"
    ]
    assert uids(by_name(weights, [], ["toy:1", "toy:2"], used=200, is_forced=True).sessions) == [
        "toy:1"
    ]


def test_sessions_that_are_named_leave_if_they_may() -> None:
    plan = by_name(
        [weight(1), weight(2, is_covered=False), weight(3)], [bulk(3)], ["toy:2", "toy:3"], used=400
    )
    assert (uids(plan.sessions), plan.stays) == (["toy:3"], {UNANALYZED: 1})
    assert plan.freed == 200


@given(
    st.lists(
        st.tuples(st.booleans(), st.booleans(), st.booleans(), st.booleans(), st.integers(0, 500)),
        max_size=11,
    ),
    st.integers(0, 6000),
    st.none() | st.integers(0, 6000),
    st.none() | st.integers(1, 400),
)
def test_no_policy_takes_what_it_must_not(
    flags: list[tuple[bool, bool, bool, bool, int]], used: int, soft: int | None, age: int | None
) -> None:
    names = ("is_pinned", "is_covered", "is_evicted", "is_shown_elsewhere", "body_bytes")
    weights = [weight(n, **dict(zip(names, one, strict=True))) for n, one in enumerate(flags, 1)]
    plan = by_policy(
        weights,
        [bulk(n) for n in range(1, len(weights) + 1)],
        used=used,
        now=NOW,
        soft=soft,
        max_age_days=age,
    )
    assert all(
        one.is_covered and not (one.is_pinned or one.is_evicted or one.is_shown_elsewhere)
        for one in plan.sessions
    )
    assert len(set(uids(plan.sessions))) == len(plan.sessions)
    kept = {
        one.uid for one in weights if one.is_pinned or (not one.is_covered and not one.is_evicted)
    }
    assert not kept & {uid for b in plan.bulks for uid in b.uids}


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("5 GB", 5_000_000_000),
        ("512MiB", 1 << 29),
        ("1.5kb", 1500),
        ("1000000", 1_000_000),
        (" 2 T ", 2_000_000_000_000),
    ],
)
def test_sizes_are_read_as_people_write_them(text: str, number: int) -> None:
    assert size_bytes(text) == number


@pytest.mark.parametrize("text", ["", "GB", "-1 GB", "five", "1 PB", "1..2 GB"])
def test_what_is_no_size_is_refused(text: str) -> None:
    with pytest.raises(
        ValueError  # noqa: PT011
    ):  # Python's own words will do: whoever asks says which setting it was.
        size_bytes(text)


def test_a_plan_is_plain_data() -> None:
    plan = by_policy([weight(1)], [bulk(1)], used=300, now=NOW, soft=0)
    assert msgspec.json.decode(msgspec.json.encode(plan))["freed"] == plan.freed
