"""The ledger's part of a sync: copies merged in any order, prices given once, prices given
again."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runlore.cli.usage_lines import explained_lines
from runlore.config import Config
from runlore.errors import ConfigError
from runlore.model import USD, Call
from runlore.pricing import ledger
from runlore.pricing.sheets import stored_parts
from runlore.store import CallFilter, LedgerCall, Store
from runlore.store.calls import hash_of
from runlore.sync import billing
from runlore.usage.explain import check, explain, why
from tests.ledgers import NOON, call, keep, open_ledger
from tests.test_ledger import calls as any_call

OWN = {"m": {"input": 1.0, "output": 10.0}}


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    made = open_ledger(tmp_path)
    yield made
    made.close()


def config(tmp_path: Path, prices: dict[str, Any] | None = None) -> Config:
    return Config(
        home=tmp_path, store=str(tmp_path / "runlore.db"), prices=OWN if prices is None else prices
    )


@given(st.lists(any_call, max_size=25), st.randoms(use_true_random=False), st.integers(1, 5))
def test_the_order_of_batches_changes_nothing(found: list[Call], random: Any, batches: int) -> None:
    toys = [
        msgspec.structs.replace(one, session_uid=f"toy:{one.session_uid.replace(':', '')}", seq=-1)
        for one in found
    ]
    expected = {hash_of(one.call): (one.call, *one.superseded) for one in ledger.merge(toys)}
    shuffled = [*toys, *toys[:4]]
    random.shuffle(shuffled)
    with TemporaryDirectory() as folder:
        store = open_ledger(Path(folder))
        for n in range(batches):
            keep(store, shuffled[n::batches])
        kept = store.ledger.find(list(expected))
        store.close()
    assert {hash_of(one.call): (one.call, *one.superseded) for one in kept} == expected


def merge_and_move(store: Store, found: list[Call], uid: str) -> Call:
    """Put copies of a call one after the other; each time, the call is moved to a session."""
    keep(store, [call("other", uid.partition(":")[2])])
    for one in found:
        keep(store, [one])
        [entry] = store.ledger.find([hash_of(one)])
        if entry.call.session_uid != uid:
            merged = ledger.Merged(
                call=msgspec.structs.replace(entry.call, seq=-1),
                superseded=entry.superseded,
                is_composed=entry.is_composed,
            )
            there = ledger.in_session(merged, uid)
            moved = LedgerCall(
                call=there.call, superseded=there.superseded, is_composed=there.is_composed
            )
            store.ledger.move([(moved, 12)])
    return store.ledger.find([hash_of(found[0])])[0].call


copies_of_a_call = st.lists(
    st.builds(
        call,
        st.just("k"),
        session_uid=st.sampled_from(["toy:s1", "toy:s2", "toy:s3"]),
        ts=st.sampled_from([NOON, NOON + timedelta(days=1), None]),
        model=st.sampled_from(["m", "m2"]),
        output_tokens=st.sampled_from([1, 2, 50]),
        is_sidechain=st.booleans(),
        request_id=st.sampled_from([None, "r"]),
        recorded=st.sampled_from([None, 7]),
    ),
    min_size=2,
    max_size=4,
)


@settings(max_examples=30)
@given(copies_of_a_call, st.randoms(use_true_random=False))
def test_a_call_that_was_moved_says_the_same_in_any_order_of_its_copies(
    found: list[Call], random: Any
) -> None:
    answers = []
    for _ in range(2):
        with TemporaryDirectory() as folder:
            store = open_ledger(Path(folder))
            answers.append(msgspec.structs.replace(merge_and_move(store, found, "toy:s1"), seq=-1))
            store.close()
        random.shuffle(found)
    [merged] = ledger.merge(found)
    expected = msgspec.structs.replace(merged.call, session_uid="toy:s1")
    assert answers == [expected, expected]


def test_a_call_that_was_moved_keeps_its_event_when_a_larger_copy_comes(store: Store) -> None:
    copy = call("k", session_uid="toy:s2", output_tokens=5)
    assert merge_and_move(store, [copy], "toy:s1").seq == 12
    larger = call("k", session_uid="toy:s3", output_tokens=50, is_sidechain=True)
    keep(store, [larger])
    [entry] = store.ledger.find([hash_of(copy)])
    assert (entry.call.session_uid, entry.call.seq, entry.call.output_tokens) == ("toy:s1", 12, 50)


def test_what_was_priced_stays_priced_and_what_is_new_is_priced(
    store: Store, tmp_path: Path
) -> None:
    keep(store, [call("k1", output_tokens=10)])
    assert billing.price(store, config(tmp_path)) == 1
    assert billing.price(store, config(tmp_path, {"m": {"input": 5.0, "output": 5.0}})) == 0
    [one] = store.ledger.billed("toy:s1")
    assert one.price is not None
    assert (one.price.usd, one.price.basis, one.price.match, one.price.source) == (
        200 * USD // 10**6,
        "listed",
        "exact",
        "config",
    )
    assert store.sessions.get("toy:s1").cost.usd == pytest.approx(0.0002)  # type: ignore[union-attr]


def test_pricing_again_keeps_the_figure_of_before(store: Store, tmp_path: Path) -> None:
    keep(store, [call("k1", output_tokens=10), call("k2", invoiced=77)])
    billing.price(store, config(tmp_path))
    assert billing.reprice(store, config(tmp_path, {"m": {"input": 2.0, "output": 20.0}})) == 1
    found = {
        one.kept.call.key: (one.price.usd if one.price else None, one.old_usd)
        for one in store.ledger.billed("toy:s1")
    }
    assert found == {"k1": (400 * USD // 10**6, 200 * USD // 10**6), "k2": (77, None)}


def test_a_call_without_a_price_is_counted_and_says_so(store: Store, tmp_path: Path) -> None:
    keep(store, [call("k1", model="nobody-lists-this-9000")])
    assert billing.price(store, config(tmp_path)) == 1
    [total] = store.ledger.sum([], CallFilter())
    assert (total.calls, total.usd, total.unpriced) == (1, 0, 1)
    assert store.sessions.get("toy:s1").cost.usd is None  # type: ignore[union-attr]


def test_a_recorded_cost_counts_until_a_price_is_known_and_says_so(
    store: Store, tmp_path: Path
) -> None:
    keep(store, [call("k1", model="nobody-lists-this-9000", recorded=77 * USD)])
    billing.price(store, config(tmp_path))
    [total] = store.ledger.sum([], CallFilter())
    assert (total.usd, total.unpriced, total.recorded) == (77 * USD, 0, 1)
    assert store.sessions.get("toy:s1").cost.usd == 77  # type: ignore[union-attr]
    [one] = explain(store, config(tmp_path), "toy:s1").calls
    assert (one.basis, one.price[:25]) == ("recorded", "as its agent recorded it;")
    assert [row.key for row in check(store).assumed] == ["recorded"]
    listed = {"nobody-lists-this-9000": {"input": 1.0, "output": 10.0}}
    billing.reprice(store, config(tmp_path, listed))
    [total] = store.ledger.sum([], CallFilter())
    assert (total.usd, total.recorded) == (100 * USD // 10**6, 0)
    [one] = explain(store, config(tmp_path), "toy:s1").calls
    assert (one.basis, one.call.recorded) == ("listed", 77 * USD)
    lines = [line.strip() for line in explained_lines(one, 100, "")]
    assert "recorded by its agent: $77" in lines


def test_killed_between_taking_and_giving_prices_the_next_sync_goes_on(
    store: Store, tmp_path: Path
) -> None:
    keep(store, [call("k1", output_tokens=10)])
    billing.price(store, config(tmp_path))
    store.ledger.unprice()
    store.ledger.unprice()
    assert billing.price(store, config(tmp_path)) == 1
    [one] = store.ledger.billed("toy:s1")
    assert one.price is not None
    assert one.price.usd == one.old_usd


def test_a_price_of_the_user_that_is_none_is_said(store: Store, tmp_path: Path) -> None:
    keep(store, [call("k1")])
    with pytest.raises(ConfigError, match="prices"):
        billing.price(store, config(tmp_path, {"m": {"input": "cheap"}}))


def test_parts_are_known_from_the_sheets_that_were_used(store: Store, tmp_path: Path) -> None:
    sonnet = call("k1", model="claude-sonnet-4-5", provider="anthropic", output_tokens=10)
    keep(store, [sonnet])
    assert stored_parts(config(tmp_path))(sonnet) == (), "nothing was looked up yet"
    billing.price(store, config(tmp_path))
    parts = stored_parts(config(tmp_path))(sonnet)
    [one] = store.ledger.billed("toy:s1")
    assert one.price is not None
    assert sum(part.usd for part in parts) == one.price.usd > 0


def test_parts_are_rebuilt_without_the_price_list(tmp_path: Path) -> None:
    code = f"""
from pathlib import Path
from runlore.pricing import prices
from runlore.pricing.sheets import stored_parts
from runlore.config import Config
from runlore.model import Call
call = Call(key="k", session_uid="toy:s1", model="claude-opus-4-6")
stored_parts(Config(home=Path({str(tmp_path)!r}), store=""))(call)
print(prices.providers_of.cache_info().currsize)
"""
    assert (
        subprocess.run(
            [sys.executable, "-c", code], check=True, capture_output=True, text=True
        ).stdout
        == "0\n"
    )


def test_a_copy_that_comes_later_leaves_the_event_of_the_one_that_counts(store: Store) -> None:
    keep(store, [call("k1", output_tokens=5)])
    store.db.execute("update calls set seq = 3")  # type: ignore[attr-defined]
    keep(store, [call("k1", "s2", output_tokens=1)])
    [kept] = store.ledger.find([hash_of(call("k1"))])
    assert (kept.call.seq, len(kept.superseded)) == (3, 1)
    keep(store, [call("k1", output_tokens=6, ts=NOON)])
    [kept] = store.ledger.find([hash_of(call("k1"))])
    assert (kept.call.seq, len(kept.superseded)) == (-1, 2)


def test_final_figures_from_a_side_chain_leave_a_call_at_its_event(
    store: Store, tmp_path: Path
) -> None:
    keep(store, [call("k1", output_tokens=37)])
    store.db.execute("update calls set seq = 3")  # type: ignore[attr-defined]
    billing.price(store, config(tmp_path))
    keep(store, [call("k1", "s2", output_tokens=2872, is_sidechain=True)])
    billing.price(store, config(tmp_path))
    [one] = store.ledger.billed("toy:s1")
    assert (one.kept.call.seq, one.kept.call.output_tokens) == (3, 2872)
    assert one.price is not None
    assert one.price.usd == (100 + 28_720) * USD // 10**6
    assert [why(one.kept.call, copy) for copy in one.kept.superseded] == [
        "a copy on a side chain; its final figures are counted on the main line",
        "2,835 tokens fewer; the copy with most counts",
    ]


def test_pricing_again_and_again_keeps_the_figure_that_was_first_counted(
    store: Store, tmp_path: Path
) -> None:
    keep(store, [call("k1", output_tokens=10), call("k2", model="n", output_tokens=10)])
    billing.price(store, config(tmp_path))
    dearer = {"m": {"input": 2.0, "output": 20.0}, "n": {"input": 1.0, "output": 10.0}}
    for _ in range(2):
        assert billing.reprice(store, config(tmp_path, dearer)) == 2
    found = {
        one.kept.call.key: (one.price.usd if one.price else None, one.old_usd)
        for one in store.ledger.billed("toy:s1")
    }
    assert found == {
        "k1": (400 * USD // 10**6, 200 * USD // 10**6),
        "k2": (200 * USD // 10**6, 200 * USD // 10**6),
    }
