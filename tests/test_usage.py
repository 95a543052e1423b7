"""Questions about the ledger."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from zoneinfo import ZoneInfo

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from runlore import adapters
from runlore.cli.usage_lines import check_lines, explanation_lines
from runlore.config import Budget, Config, SourceConfig
from runlore.errors import ModelError
from runlore.model import USD, Call
from runlore.pricing.ledger import preference
from runlore.store import CallFilter, Store, copying, open_store
from runlore.sync import pipeline
from runlore.usage import BY, Zone, blocks, report, status
from runlore.usage.budget import budgets
from runlore.usage.explain import check, explain, why
from runlore.usage.report import present_block
from runlore.usage.waste import wasted
from tests.ledgers import NOON, call, keep, open_ledger, price


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    made = open_ledger(tmp_path)
    yield made
    made.close()


def counts(
    store: Store, by: str, zone: str | None = None, **chosen: object
) -> dict[str | None, int]:
    return {
        row.key: row.calls
        for row in report(store, by, CallFilter(**chosen), zone=Zone(zone)).rows  # type: ignore[arg-type]
    }


# ── sums ──────────────────────────────────────────────────────────────────────────────────────────
names = st.sampled_from([None, "one", "two"])
some_calls = st.lists(
    st.builds(
        call,
        key=st.integers(0, 10**6).map(str),
        session=st.sampled_from(["s1", "s2", "s3"]),
        ts=st.none()
        | st.datetimes(datetime(2025, 1, 1), datetime(2027, 1, 1), timezones=st.just(UTC)),  # noqa: DTZ001
        model=st.sampled_from([None, "m1", "m2", "<none>"]),
        input_tokens=st.integers(0, 10**11),
        cache_write_1h_tokens=st.integers(0, 10**6),
        is_sidechain=st.booleans(),
    ),
    max_size=30,
)


@given(
    some_calls,
    names,
    st.sampled_from([None, "s1"]),
    st.sampled_from(["UTC", "Asia/Kathmandu", "America/New_York"]),
)
def test_all_reports_add_up_to_the_same(
    found: list[Call], repo: str | None, parent: str | None, zone: str
) -> None:
    facts = {
        "s1": {"repo": repo, "git_branch": "main"},
        "s2": {
            "cwd": "/work",
            "parent_uid": f"toy:{parent}" if parent else None,
            "relation": "subagent" if parent else None,
        },
    }
    with TemporaryDirectory() as folder:
        store = open_ledger(Path(folder))
        keep(store, found, facts)
        price(store, lambda one: one.total * 3 if one.model else None)
        totals = [report(store, by, zone=Zone(zone)).total for by in BY]
        store.close()
    # The best copy of a call says what it was, the largest has its figures.
    best = {one.key: one for one in sorted(found, key=preference, reverse=True)}
    tokens = {one.key: one.total for one in sorted(found, key=lambda one: one.total)}
    assert all(total == totals[0] for total in totals)
    assert (totals[0].calls, totals[0].total_tokens) == (len(best), sum(tokens.values()))
    assert totals[0].units == sum(tokens[key] * 3 for key, one in best.items() if one.model)
    assert totals[0].unpriced == sum(one.model is None for one in best.values())


def test_what_a_wrong_clock_wrote_is_not_of_today(store: Store) -> None:
    keep(store, [call("a", ts=NOON), call("b", ts=NOON + timedelta(days=700))])
    price(store, lambda _: USD)
    zone = Zone("UTC")
    assert status(store, NOON, zone).today.calls == 1
    assert [one.usd for one in budgets(store, Budget(day=5), NOON, zone)] == [1]


def test_a_period_ends_today_unless_it_begins_later() -> None:
    zone, later = Zone("UTC"), NOON + timedelta(days=9)
    assert zone.end(NOON - timedelta(days=30), None, NOON) == datetime(2026, 3, 15, tzinfo=UTC)
    assert zone.end(NOON, later, NOON) == later
    assert zone.end(later, None, NOON) is zone.end(None, None, NOON) is None


def test_subagents_without_calls_among_the_chosen_are_counted(store: Store) -> None:
    later = NOON + timedelta(days=1)
    below = {"parent_uid": "toy:s1", "relation": "subagent"}
    keep(
        store,
        [call("a"), call("b", "s2", ts=later), call("c", "s3"), call("d", "s4")],
        {"s2": below, "s3": below},
    )
    for chosen, calls in (
        (CallFilter(), 1),
        (CallFilter(since=later), 0),
        (CallFilter(is_subagent=False), 1),
    ):
        alone = report(store, "session", chosen).alone
        assert {uid: (one.row.calls, one.subagents) for uid, one in alone.items()} == {
            "toy:s1": (calls, 2)
        }


moments = st.none() | st.datetimes(
    datetime(2025, 12, 31),  # noqa: DTZ001
    datetime(2026, 1, 2),  # noqa: DTZ001
    timezones=st.just(UTC),
)


@given(st.lists(moments, max_size=20), moments, moments)
def test_any_time_is_counted_to_the_second(
    times: list[datetime | None], since: datetime | None, until: datetime | None
) -> None:
    with TemporaryDirectory() as folder:
        store = open_ledger(Path(folder))
        keep(store, [call(str(n), ts=ts) for n, ts in enumerate(times)])
        found = sum(one.calls for one in store.ledger.sum([], CallFilter(since=since, until=until)))
        by_model = sum(
            one.calls
            for one in store.ledger.sum(
                ["price_match", "model"], CallFilter(since=since, until=until)
            )
        )
        store.close()
    asked = since is not None or until is not None
    wanted = sum(
        (
            (not asked)
            if ts is None
            else (since is None or ts >= since) and (until is None or ts < until)
        )
        for ts in times
    )
    assert found == by_model == wanted


def test_sums_that_are_wrong_are_found_and_made_again(store: Store) -> None:
    keep(store, [call("k1"), call("k2", session="s2", ts=None)])
    price(store, lambda one: one.total * 3)
    assert store.maintenance.wrong_rollups() == []
    store.db.execute("update sums set input_tokens = input_tokens + 1 where slot is null")  # type: ignore[attr-defined]
    [wrong] = store.maintenance.wrong_rollups()
    store.maintenance.recount([wrong])
    assert store.maintenance.wrong_rollups() == []
    store.db.execute("update sessions set usd = 5 where number = ?", (wrong,))  # type: ignore[attr-defined]
    assert store.maintenance.wrong_rollups() == [wrong]
    store.maintenance.recount([wrong])
    store.db.execute("update sums set session = 999 where session = ?", (wrong,))  # type: ignore[attr-defined]
    assert store.maintenance.wrong_rollups() == [wrong, 999], (
        "what is left of a session that is not there"
    )
    store.maintenance.recount([wrong, 999])
    assert store.maintenance.wrong_rollups() == []


def test_a_copy_that_is_made_again_has_the_sums_of_its_calls_and_no_others(
    store: Store, tmp_path: Path
) -> None:
    keep(store, [call("k1"), call("k2", session="s2")])
    with closing(open_store(str(tmp_path / "copy.db"))) as there:
        copying.copy(store, there)
        price(store)
        assert copying.copy(store, there).sessions == 2, "their price is another"
        assert there.maintenance.wrong_rollups() == []
        assert report(there, "session").rows == report(store, "session").rows


def test_a_call_that_a_copy_takes_from_another_session_leaves_the_sums_of_that_one(
    store: Store, tmp_path: Path
) -> None:
    keep(store, [call("k1")])
    with closing(open_store(str(tmp_path / "copy.db"))) as there:
        keep(there, [call("k1", session="s2", is_sidechain=True)])
        copying.copy(store, there)
        assert there.maintenance.wrong_rollups() == []
        assert counts(there, "session") == {"toy:s1": 1}


def test_weeks_begin_on_monday_and_months_on_their_first(store: Store) -> None:
    sunday = datetime(2026, 3, 1, 12, tzinfo=UTC)
    keep(
        store,
        [
            call("k1", ts=sunday),
            call("k2", ts=sunday + timedelta(days=1)),
            call("k3", ts=sunday - timedelta(days=1)),
        ],
    )
    assert counts(store, "week", "UTC") == {"2026-02-23": 2, "2026-03-02": 1}
    assert counts(store, "month", "UTC") == {"2026-02": 1, "2026-03": 2}


def test_a_day_is_the_day_of_the_zone_also_when_its_clock_was_set(store: Store) -> None:
    """New York: 23:30 on the day before the clock went forward (UTC-5), and 23:30 on the day it did
    (UTC-4)."""
    keep(
        store,
        [
            call("k1", ts=datetime(2026, 3, 8, 4, 30, tzinfo=UTC)),
            call("k2", ts=datetime(2026, 3, 9, 3, 30, tzinfo=UTC)),
        ],
    )
    assert counts(store, "day", "America/New_York") == {"2026-03-07": 1, "2026-03-08": 1}
    assert counts(store, "day", "UTC") == {"2026-03-08": 1, "2026-03-09": 1}
    assert counts(store, "day", "Asia/Kathmandu") == {"2026-03-08": 1, "2026-03-09": 1}


def test_a_day_may_begin_at_a_quarter_past(store: Store) -> None:
    """In Kathmandu it is midnight at 18:15 UTC."""
    keep(
        store,
        [
            call(f"k{minute}", ts=datetime(2026, 3, 8, 18, minute, tzinfo=UTC))
            for minute in (0, 14, 15, 29, 45)
        ],
    )
    assert counts(store, "day", "Asia/Kathmandu") == {"2026-03-08": 2, "2026-03-09": 3}


@pytest.mark.parametrize(
    "zone",
    [
        "Europe/Berlin",
        "America/New_York",
        "Australia/Lord_Howe",
        "Asia/Kathmandu",
        "Africa/Casablanca",
    ],
)
def test_spans_say_what_the_zone_says(zone: str) -> None:
    made = Zone(zone)
    first, last = (
        datetime(2024, 1, 1, tzinfo=UTC).timestamp(),
        datetime(2027, 1, 1, tzinfo=UTC).timestamp(),
    )
    spans = made.spans(first, last)
    for moment in range(int(first), int(last), 1800):
        offset = next(offset for start, offset in reversed(spans) if start <= moment)
        assert offset == made.offset(moment)


def test_the_zone_of_this_machine_needs_no_name(monkeypatch: pytest.MonkeyPatch) -> None:
    if not hasattr(time, "tzset"):
        pytest.skip("this system's zone cannot be set")
    monkeypatch.setenv("TZ", "America/New_York")
    time.tzset()
    spans = Zone().spans(NOON.timestamp(), (NOON + timedelta(days=300)).timestamp())
    assert [offset for _, offset in spans] == [-4 * 3600, -5 * 3600]
    assert Zone().spans(-1e11, -1e10) == [(0, -5 * 3600)], (
        "of before there were rules the oldest is taken"
    )


@pytest.mark.parametrize(
    "zone",
    [
        "America/Havana",
        "America/Santiago",
        "Atlantic/Azores",
        "Africa/Cairo",
        "Asia/Beirut",
        "Australia/Lord_Howe",
        "Pacific/Apia",
        "UTC",
    ],
)
def test_a_day_begins_where_the_day_before_ends_also_where_the_clock_is_set_at_midnight(
    zone: str,
) -> None:
    here, info = Zone(zone), ZoneInfo(zone)
    for ordinal in range(date(2011, 1, 1).toordinal(), date(2028, 1, 1).toordinal()):
        begin = here.midnight(date.fromordinal(ordinal))
        assert begin.astimezone(info).date().toordinal() >= ordinal
        assert (begin - timedelta(seconds=1)).astimezone(info).date().toordinal() < ordinal


def test_a_time_of_a_day_whose_midnight_is_left_out_is_that_time() -> None:
    azores = Zone("Atlantic/Azores")  # On 2026-03-29 it is 01:00 when the day before ends.
    for text, utc in (
        ("2026-03-29T01:30", "01:30"),
        ("2026-03-29T12:00", "12:00"),
        ("2026-03-29", "01:00"),
        ("2026-03-28T23:30", "00:30"),
    ):
        assert azores.moment(text, NOON) == datetime.fromisoformat(f"2026-03-29T{utc}+00:00")
    # Where 02:30 is left out, it is 03:00; where it comes twice, it is the first.
    berlin = Zone("Europe/Berlin")
    assert berlin.moment("2026-03-29T02:30", NOON) == datetime(2026, 3, 29, 1, tzinfo=UTC)
    assert berlin.moment("2026-10-25T02:30", NOON) == datetime(2026, 10, 25, 0, 30, tzinfo=UTC)


@pytest.mark.parametrize(
    "text", ["0001-01-01T00:00+14:00", "9999-12-31T23:59-10:00", "9999-12-31T23:59", ""]
)
def test_a_time_that_is_in_no_calendar_is_an_error(text: str) -> None:
    with pytest.raises(ModelError):
        Zone("America/Los_Angeles").moment(text, NOON)


def test_times_in_words_are_those_of_the_zone() -> None:
    zone, now = Zone("America/New_York"), datetime(2026, 3, 9, 3, 30, tzinfo=UTC)
    assert zone.today(now) == date(2026, 3, 8)
    assert zone.moment("today", now) == datetime(2026, 3, 8, 5, tzinfo=UTC)
    assert zone.moment("yesterday", now) == datetime(2026, 3, 7, 5, tzinfo=UTC)
    assert zone.moment("2026-03-09", now) == datetime(2026, 3, 9, 4, tzinfo=UTC)
    assert zone.moment("2026-03-08T12:00", now) == datetime(2026, 3, 8, 16, tzinfo=UTC)
    assert zone.moment("2026-03-08T12:00+00:00", now) == datetime(2026, 3, 8, 12, tzinfo=UTC)
    assert zone.moment("24h", now) == now - timedelta(hours=24)


@pytest.mark.parametrize("name", ["Nowhere/Land", "../etc/passwd", "\0", "Europe", "x" * 5000])
def test_a_zone_that_nobody_knows_is_an_error(name: str) -> None:
    with pytest.raises(ModelError, match="there is no time zone"):
        Zone(name)


def test_rows_in_time_come_in_its_order_and_others_the_dearest_first(store: Store) -> None:
    keep(
        store,
        [
            call("k1", model="b", input_tokens=5),
            call("k2", model="a", input_tokens=9, ts=NOON - timedelta(days=1)),
        ],
    )
    price(store, lambda one: 10 - one.total)
    assert [row.key for row in report(store, "day", zone=Zone("UTC")).rows] == [
        "2026-03-13",
        "2026-03-14",
    ]
    assert [row.key for row in report(store, "model").rows] == ["b", "a"]
    assert [row.key for row in report(store, "model", order="tokens").rows] == ["a", "b"]
    assert [row.key for row in report(store, "model", order="key").rows] == ["a", "b"]
    assert [row.key for row in report(store, "model", order="calls").rows] == ["a", "b"]


def test_a_part_of_the_time_is_exact_to_the_microsecond(store: Store) -> None:
    keep(store, [call(f"k{n}", ts=NOON + timedelta(microseconds=n)) for n in range(4)])
    instant = timedelta(microseconds=1)
    assert counts(store, "agent", since=NOON + instant, until=NOON + 3 * instant) == {"toy": 2}


# ── blocks ────────────────────────────────────────────────────────────────────────────────────────
def at(hours: float) -> datetime:
    return NOON + timedelta(hours=hours)


def test_a_block_begins_at_the_hour_of_its_first_call_and_lasts_five(store: Store) -> None:
    keep(
        store, [call(f"k{n}", ts=at(hours)) for n, hours in enumerate((0.5, 4.99, 5.0, 9.0, 30.2))]
    )
    assert [(block.start, block.row.calls) for block in blocks(store, CallFilter())] == [
        (at(0), 2),
        (at(5), 2),
        (at(30), 1),
    ]


def test_where_a_block_begins_does_not_depend_on_what_is_asked(store: Store) -> None:
    keep(store, [call(f"k{n}", ts=at(n)) for n in range(12)])
    every = blocks(store, CallFilter())
    assert blocks(store, CallFilter(since=at(6))) == every[1:]
    assert blocks(store, CallFilter(until=at(6))) == every[:2]


@given(st.lists(st.integers(0, 400), min_size=1, max_size=40), st.integers(0, 410))
def test_the_present_block_is_the_one_that_the_report_has(hours: list[int], now: int) -> None:
    with TemporaryDirectory() as folder:
        store = open_ledger(Path(folder))
        # Some are later than now: clocks are wrong.
        keep(store, [call(f"k{n}", ts=at(hour)) for n, hour in enumerate(hours)])
        expected = [
            block for block in blocks(store, CallFilter()) if block.start <= at(now) < block.end
        ]
        assert present_block(store, at(now)) == (expected[0] if expected else None)
        store.close()


def test_a_call_at_the_end_of_time_has_a_block(store: Store) -> None:
    keep(
        store,
        [
            call("k1", ts=datetime.max.replace(tzinfo=UTC)),
            call("k2", ts=datetime.min.replace(tzinfo=UTC)),
        ],
    )
    for by in BY:
        assert report(store, by, zone=Zone("Asia/Tokyo")).total.calls == 2
    assert [block.end > block.start for block in blocks(store, CallFilter())] == [True, True]


# ── budgets and prompts ───────────────────────────────────────────────────────────────────────────
def test_budgets_are_about_today_and_know_repositories_by_their_names(store: Store) -> None:
    facts = {"s1": {"repo": "acme/api"}, "s2": {"repo": "acme/web"}}
    keep(store, [call("k1"), call("k2", "s2"), call("k3", ts=NOON - timedelta(days=1))], facts)
    price(store, lambda _: 2 * USD)
    store.ingest.set_places({"toy:s1": ("acme/api", None), "toy:s2": ("acme/web", None)})
    budget = Budget(day=4.0, projects={"api": 1.5, "acme/*": 10.0})
    found = budgets(store, budget, NOON, Zone("UTC"))
    assert [(one.name, one.usd, one.is_over) for one in found] == [
        ("day", 4.0, False),
        ("api", 2.0, True),
        ("acme/*", 4.0, False),
    ]
    assert budgets(store, Budget(), NOON, Zone("UTC")) == []


def test_a_prompt_shows_today_the_block_the_project_and_the_session(store: Store) -> None:
    keep(
        store,
        [call("k1"), call("k2", "s2"), call("k3", ts=at(-13))],
        {"s1": {"cwd": "/work/api"}, "s2": {"cwd": "/work/web"}},
    )
    price(store, lambda _: USD)
    made = status(store, at(1), Zone("UTC"), folder="/work/api", session="toy:s1")
    assert (
        made.today.usd,
        made.project and made.project.usd,
        made.session and made.session.usd,
    ) == (2.0, 1.0, 2.0)
    assert made.block is not None
    assert (made.block.start, made.block.row.calls) == (NOON, 2)
    assert status(store, at(20), Zone("UTC")).block is None


# ── one session, and what is not certain ──────────────────────────────────────────────────────────
def test_copies_are_told_with_what_put_them_behind(store: Store, tmp_path: Path) -> None:
    keep(store, [call("k1", output_tokens=9)])
    keep(store, [call("k1", output_tokens=1)])
    keep(store, [call("k1", "s2", output_tokens=9, ts=at(1))])
    price(store)
    config = Config(home=tmp_path, store="")
    [one] = explain(store, config, "toy:s1").calls
    assert (one.call.total, one.units, one.parts) == (109, 109, ())
    assert [copy.why for copy in one.copies] == [
        "a later copy; the first counts",
        "8 tokens fewer; the copy with most counts",
    ]
    other = explain(store, config, "toy:s2")
    assert (other.calls, [found.call.key for found in other.elsewhere], other.own.calls) == (
        [],
        ["k1"],
        0,
    )


def test_what_a_count_by_request_would_add_is_told(store: Store, tmp_path: Path) -> None:
    keep(
        store,
        [
            call("k1", output_tokens=9, request_id="r1"),
            call("k1", output_tokens=1, request_id="r1"),
            call("k2"),
        ],
    )
    config = Config(home=tmp_path, store="")
    assert explain(store, config, "toy:s1").repeated.calls == 0
    keep(store, [call("k1", output_tokens=4, request_id="r2")])
    made = explain(store, config, "toy:s1")
    assert (made.repeated.calls, made.repeated.total_tokens, made.own.calls) == (1, 104, 2)
    assert any("1 call, 104 tokens more" in line for line in explanation_lines("toy:s1", made))
    last = explain(store, config, "toy:s1", 1)
    assert (last.repeated, last.own, last.with_subagents) == (
        made.repeated,
        made.own,
        made.with_subagents,
    )
    assert last.calls == made.calls[-1:]


def test_the_last_calls_are_those_at_the_end_of_all(store: Store, tmp_path: Path) -> None:
    keep(
        store,
        [call(f"k{n}", ts=None if n == 3 else at(n // 2), is_sidechain=n == 2) for n in range(6)],
    )
    config = Config(home=tmp_path, store="")
    made = explain(store, config, "toy:s1")
    assert [one.call.key for one in made.calls] == ["k0", "k1", "k2", "k4", "k5", "k3"]
    for last in range(1, 8):
        assert explain(store, config, "toy:s1", last) == msgspec.structs.replace(
            made, calls=made.calls[-last:]
        )


@given(some_calls)
def test_why_names_a_rule_that_holds(found: list[Call]) -> None:
    for copy in found[1:]:
        best, other = sorted(
            (msgspec.structs.replace(one, key="k") for one in (found[0], copy)), key=preference
        )
        words = why(best, other)
        assert ("side chain" in words) == (best.is_sidechain != other.is_sidechain)
        assert not words.startswith("-"), "never more tokens than what counts"


def test_what_is_not_certain_is_listed(store: Store) -> None:
    keep(store, [call("k1"), call("k2", model="mystery", ts=None), call("k3", model="<none>")])
    price(store, lambda one: 5 if one.model == "m" else None)
    made = check(store)
    assert [(row.key, row.calls) for row in made.unpriced] == [("mystery", 1)]
    assert (made.calls, made.undated.calls, made.fuzzy, made.sessions) == (3, 1, [], 1)
    assert any("15 to 20 %" in text for text in made.cannot_know)


def test_events_that_add_up_to_something_else_are_a_gap(store: Store) -> None:
    keep(store, [call("k1"), call("k2", "s2")])
    store.db.execute("update sessions set input_tokens = 90 where uid = 'toy:s1'")  # type: ignore[attr-defined]
    assert [(gap.uid, gap.events_tokens, gap.ledger_tokens) for gap in check(store).gaps] == [
        ("toy:s1", 90, 100)
    ]


def test_what_a_running_total_has_and_no_record_is_listed_once_for_all_copies(
    tmp_path: Path,
) -> None:
    def counted(total: int, last: int) -> bytes:
        usage = {
            "total_token_usage": {"input_tokens": total, "total_tokens": total},
            "last_token_usage": {"input_tokens": last, "total_tokens": last},
        }
        return (
            msgspec.json.encode(
                {
                    "timestamp": "2026-03-14T12:00:00Z",
                    "type": "event_msg",
                    "payload": {"type": "token_count", "info": usage},
                }
            )
            + b"\n"
        )

    for folder in ("sessions/2026/03/14", "archived_sessions"):
        file = (
            tmp_path
            / "codex"
            / folder
            / "rollout-2026-03-14T12-00-00-019cadc6-9a80-7000-8000-0000000000aa.jsonl"
        )
        file.parent.mkdir(parents=True)
        file.write_bytes(counted(100, 100) + counted(900, 50) + counted(990, 60))
    config = Config(
        home=tmp_path, store=str(tmp_path / "s.db"),
        sources={name: SourceConfig(enabled=name == "codex",
        roots=[str(tmp_path / "codex")]) for name in adapters.names()},
    )  # fmt: skip
    store = open_store(config.store)
    pipeline.sync(store, config)
    made = check(store)
    [lost] = made.lost
    assert (lost.tokens, Path(lost.path).parent.name) == (750 + 30, "archived_sessions")
    assert check(store, CallFilter(agent="grok")).lost == []
    assert any("in no record: 780 tokens" in line for line in check_lines(made))
    store.close()


def test_nothing_was_wasted_where_nothing_went_wrong(store: Store) -> None:
    keep(store, [call("k1")])
    price(store)
    made = wasted(store)
    assert (made.any.calls, made.of.calls, made.sessions) == (0, 1, 0)


def test_reports_import_no_prices(tmp_path: Path) -> None:
    store = open_ledger(tmp_path)
    keep(store, [call("k1")])
    store.close()
    code = f"""
import os, sys
os.environ["RUNLORE_STORE"] = {str(tmp_path / "runlore.db")!r}
from runlore.cli import cli
for words in ("--by day", "--by session --json", "--statusline", "--check", "--wasted",
              "--explain toy:s1", "--csv"):
    cli.main(["usage", *words.split()], standalone_mode=False)
print(sorted({{"genai_prices", "pydantic", "rich", "re2"}} & sys.modules.keys()))
"""
    done = subprocess.run(
        [sys.executable, "-c", code],
        check=True,
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
    )
    assert done.stdout.splitlines()[-1] == "[]"
