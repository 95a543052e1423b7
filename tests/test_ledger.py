"""Unique calls and what they cost. C11 and the like name the rules of other counters that a test
stands against."""

from datetime import UTC, datetime, timedelta
from fractions import Fraction

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from runlore.model import MAX_TOKENS, MAX_UNITS, USD, Call, split_cache_writes, to_units
from runlore.pricing import ledger, prices
from runlore.pricing.ledger import cost, merge, preference
from runlore.pricing.table import Rate, Rates, Schedule

AUTUMN = datetime(2026, 11, 1, tzinfo=UTC)


def call(**fields) -> Call:
    return Call(**{"key": "msg_1", "session_uid": "a:1", "ts": AUTUMN, **fields})


def price(**fields) -> ledger.Price:
    made = call(**fields)
    return cost(made, prices.find(made.model, made.ts, made.provider))


def parts(**fields) -> tuple[ledger.Part, ...]:
    made = call(**fields)
    return ledger.parts(made, prices.find(made.model, made.ts, made.provider))


def dollars(**fields) -> float:
    return price(**fields).usd / USD


# ── copies ────────────────────────────────────────────────────────────────────────────────────────

few = st.integers(0, 2)
calls = st.builds(
    Call,
    key=st.sampled_from(["k1", "k2"]),
    session_uid=st.sampled_from(["a:1", "a:2", "b:1"]),
    seq=st.integers(-1, 1),
    ts=st.none() | st.integers(0, 2).map(lambda hours: AUTUMN + timedelta(hours=hours)),
    provider=st.sampled_from([None, "anthropic", "openai"]),
    model=st.sampled_from([None, "m1", "m2"]),
    tier=st.sampled_from([None, "fast", "batch"]),
    region=st.sampled_from([None, "us"]),
    input_tokens=few,
    output_tokens=few,
    cache_read_tokens=few,
    cache_write_5m_tokens=few,
    cache_write_1h_tokens=few,
    reasoning_tokens=few,
    web_searches=few,
    is_sidechain=st.booleans(),
    is_sum=st.booleans(),
    invoiced=st.none() | few,
    request_id=st.sampled_from([None, "r1", "r2"]),
    recorded=st.none() | few,
)


def better(a: Call, b: Call) -> Call:
    return min(a, b, key=preference)


@given(calls, calls, calls)
def test_better_knows_no_order(a: Call, b: Call, c: Call) -> None:
    assert better(a, b) == better(b, a)
    assert better(a, better(b, c)) == better(better(a, b), c)
    assert better(a, a) == a
    assert (ledger.preference(a) == ledger.preference(b)) == (a == b), "the order is total"


@given(st.lists(calls, max_size=40), st.randoms(use_true_random=False), st.integers(1, 5))
def test_merge_is_the_same_in_any_order_and_batches(
    found: list[Call], random, batches: int
) -> None:
    at_once = merge(found)
    shuffled = [*found, *found[:3]]
    random.shuffle(shuffled)
    stored: list[ledger.Merged] = []
    for n in range(batches):
        stored = merge(
            [*shuffled[n::batches], *(copy for merged in stored for copy in merged.copies)]
        )
    assert stored == at_once
    assert merge(copy for merged in stored for copy in merged.copies) == at_once


@given(st.lists(calls, max_size=40))
def test_merge_keeps_the_best_copy_of_every_call(found: list[Call]) -> None:
    merged = {(entry.call.flavor, entry.call.key): entry for entry in merge(found)}
    assert merged.keys() == {(one.flavor, one.key) for one in found}
    for one in found:
        entry = merged[one.flavor, one.key]
        assert better(entry.best, one) == entry.best
        assert entry.call.total >= one.total
        assert entry.call.session_uid == entry.best.session_uid
        assert one in entry.copies or len(entry.superseded) >= ledger.MAX_SUPERSEDED


def test_every_field_takes_part_in_the_order() -> None:
    """Or two copies that differ in it alone could be kept by chance."""
    other = {
        **{field.name: 7 for field in msgspec.structs.fields(Call)},
        **dict(
            key="z",
            session_uid="a:9",
            ts=None,
            provider="x",
            model="x",
            tier="fast",
            region="us",
            request_id="x",
        ),
        **dict(is_sidechain=True, is_sum=True),
    }
    for name, value in other.items():
        assert ledger.preference(call()) != ledger.preference(call(**{name: value})), name


def test_the_last_of_the_streamed_copies_counts() -> None:
    """C01, C02: output 1, 1, 159, in any order. First-copy-wins is 2–3 × low, a sum is high."""
    copies = [call(seq=n, input_tokens=20, output_tokens=out) for n, out in enumerate([1, 159, 1])]
    (merged,) = merge(copies)
    assert merged.call.output_tokens == 159
    assert [one.output_tokens for one in merged.superseded] == [1, 1]


def test_a_call_belongs_to_the_main_chain_and_has_the_final_figures() -> None:
    """The main line was written while the call streamed, the side chain when it was over."""
    main = call(session_uid="a:2", seq=3, output_tokens=37, request_id="r1")
    side = call(session_uid="a:1", output_tokens=2872, is_sidechain=True, request_id="r1")
    for copies in ([main, side], [side, main]):
        (merged,) = merge(copies)
        assert merged.call == msgspec.structs.replace(main, output_tokens=2872)
        assert (merged.best, set(merged.copies)) == (main, {main, side})


def test_a_side_question_replays_a_call_and_does_not_add_to_it() -> None:
    """C06, C32: under another request. The message is the same, so the larger figure is its."""
    main, side = (
        call(output_tokens=5, request_id="r1"),
        call(output_tokens=50, is_sidechain=True, request_id="r2"),
    )
    (merged,) = merge([side, main])
    assert merged.call == msgspec.structs.replace(main, output_tokens=50)
    assert list(ledger.by_request(merged)) == []
    (merged,) = merge([main, msgspec.structs.replace(side, output_tokens=4)])
    assert merged.call == main


def test_a_call_counts_once_whatever_its_request() -> None:
    """C03: another tool counts the message once for each request id; that figure can be told as
    well."""
    (merged,) = merge(
        [
            call(output_tokens=5, request_id="r1"),
            call(output_tokens=4, request_id="r2"),
            call(output_tokens=3, request_id="r2"),
        ]
    )
    assert merged.call.output_tokens == 5
    assert [one.output_tokens for one in ledger.by_request(merged)] == [4]


def test_a_resumed_copy_counts_in_one_session() -> None:
    copies = [
        call(session_uid="a:2"),
        call(session_uid="a:1"),
        call(session_uid="a:3", ts=AUTUMN + timedelta(1)),
    ]
    (merged,) = merge(copies)
    assert merged.call.session_uid == "a:1"


def test_keys_of_two_flavors_do_not_meet() -> None:
    assert len(merge([call(session_uid="a:1"), call(session_uid="b:1")])) == 2


def test_an_advisor_is_a_call_under_its_own_model() -> None:
    merged = merge(
        [
            call(key="m", model="claude-opus-4-6", output_tokens=9),
            call(key="m/advisor-0", model="claude-fable-5", output_tokens=9),
        ]
    )
    assert [entry.call.model for entry in merged] == ["claude-opus-4-6", "claude-fable-5"]


def test_many_copies_do_not_grow_for_ever() -> None:
    (merged,) = merge(call(seq=n) for n in range(10_000))
    assert merged.call.seq == 0
    assert [one.seq for one in merged.superseded] == list(range(1, ledger.MAX_SUPERSEDED + 1))


# ── values ────────────────────────────────────────────────────────────────────────────────────────


def test_a_call_holds_whatever_a_transcript_says() -> None:
    strange = call(input_tokens=10**30, output_tokens=-5, invoiced=10**30, web_searches=-1)
    assert (
        strange.input_tokens,
        strange.output_tokens,
        strange.invoiced,
        strange.web_searches,
    ) == (MAX_TOKENS, 0, MAX_UNITS, 0)
    assert call(ts=datetime(2026, 1, 1, 2, tzinfo=UTC).astimezone()).ts == datetime(
        2026, 1, 1, 2, tzinfo=UTC
    )
    priced = price(model="claude-opus-4-6", output_tokens=10**30)
    assert (priced.usd, priced.notes) == (MAX_UNITS, ("capped",))


def test_totals_count_every_bucket_once() -> None:
    one = call(
        input_tokens=1,
        output_tokens=10,
        cache_read_tokens=100,
        cache_write_5m_tokens=1000,
        cache_write_1h_tokens=10_000,
        reasoning_tokens=7,
    )
    assert (one.total, one.prompt_tokens) == (11_111, 11_101)


@pytest.mark.parametrize(
    ("total", "in_5m", "in_1h", "split"),
    [
        (500, 0, 0, (500, 0)),  # C10: zeros beside a real sum
        (500, 200, 300, (200, 300)),
        (600, 200, 300, (300, 300)),  # what no part claims was for 5 minutes
        (0, 200, 300, (200, 300)),  # parts without a sum
        (100, 0, 300, (0, 300)),
    ],
)
def test_cache_writes_are_the_larger_figure(
    total: int, in_5m: int, in_1h: int, split: tuple[int, int]
) -> None:
    assert split_cache_writes(total, in_5m, in_1h) == split


@pytest.mark.parametrize(
    ("usd", "units"),
    [
        (0.0123, 12_300_000_000),
        (1, USD),
        (0, 0),
        (-1, None),
        (float("nan"), None),
        (1e300, None),
        (True, None),
        ("1", None),
    ],
)
def test_money_in_whole_units(usd: object, units: int | None) -> None:
    assert to_units(usd) == units


# ── cost ──────────────────────────────────────────────────────────────────────────────────────────


def test_an_ordinary_pair_of_calls_costs_what_ccusage_says() -> None:
    """The Claude part of the common fixture: 199 out, 10,819 tokens, 0.016075 USD; hour-long writes
    at 2 × input."""
    bill = dollars(
        model="claude-opus-4-6",
        input_tokens=20,
        output_tokens=199,
        cache_write_1h_tokens=600,
        cache_read_tokens=10_000,
    )
    assert bill == pytest.approx(0.016075, abs=1e-9)


def test_a_turn_of_codex_costs_what_ccusage_says() -> None:
    """Reasoning is inside output: billed again it would be 0.0112 USD."""
    bill = dollars(
        model="gpt-5.2-codex",
        input_tokens=1600,
        cache_read_tokens=900,
        output_tokens=500,
        reasoning_tokens=90,
    )
    assert bill == pytest.approx(0.0099575, abs=1e-9)


def test_every_bucket_has_its_own_price() -> None:
    tokens = dict(
        input_tokens=1,
        output_tokens=2,
        cache_read_tokens=3,
        cache_write_5m_tokens=4,
        cache_write_1h_tokens=5,
        web_searches=6,
    )
    told = parts(model="claude-sonnet-5", **tokens)
    assert [(part.bucket, part.count, part.rate) for part in told] == [
        ("input", 1, 2_000_000),
        ("output", 2, 10_000_000),
        ("cache_read", 3, 200_000),
        ("cache_write_5m", 4, 2_500_000),
        ("cache_write_1h", 5, 4_000_000),
        ("web_search", 6, 10_000_000_000),
    ]
    assert price(model="claude-sonnet-5", **tokens).usd == sum(part.usd for part in told)


def test_a_long_prompt_is_dear_as_a_whole() -> None:
    """C11: 250k of the prompt come from the cache. By class, as ccusage does it, it would be 0.108
    USD."""
    priced = price(
        model="claude-sonnet-4-5", input_tokens=1000, cache_read_tokens=250_000, output_tokens=1000
    )
    assert priced.usd == 178_500_000_000
    assert priced.above == 200_000


def test_what_was_written_to_the_cache_is_part_of_the_prompt() -> None:
    """C12: no class alone is long."""
    part = dict(input_tokens=70_000, cache_read_tokens=70_000)
    assert price(model="claude-sonnet-4-5", **part, cache_write_1h_tokens=60_000).above is None
    assert price(model="claude-sonnet-4-5", **part, cache_write_1h_tokens=60_001).above == 200_000
    assert price(model="claude-sonnet-4-5", **part, output_tokens=200_000).above is None, (
        "output is not"
    )


def test_the_long_price_of_sonnet_4_is_ours() -> None:
    assert price(model="claude-sonnet-4-20250514", input_tokens=250_000).notes == ("built-in",)
    assert price(model="claude-sonnet-4-20250514", input_tokens=1000).notes == ()


@pytest.mark.parametrize(
    ("prompt", "bill"), [(272_000, 272_000 * 5 + 1000 * 30), (272_001, 272_001 * 10 + 1000 * 45)]
)
def test_gpt_5_5_doubles_above_272k(prompt: int, bill: int) -> None:
    """X13, X31, X32: 2 × input and cached, 1.5 × output."""
    assert price(model="gpt-5.5", input_tokens=prompt, output_tokens=1000).usd == bill * 1_000_000


def test_cache_writes_of_openai_cost_a_quarter_more_than_input() -> None:
    assert dollars(model="gpt-5.6-sol", cache_write_5m_tokens=1_000_000 // 5) == pytest.approx(1.0)
    assert dollars(model="gpt-5.2", cache_write_5m_tokens=1_000_000) == pytest.approx(1.75 * 1.25)


def test_a_figure_for_several_requests_has_no_length() -> None:
    priced = price(model="grok-4.5", input_tokens=300_000, output_tokens=100, is_sum=True)
    assert (priced.usd, priced.above, priced.notes) == (
        (300_000 * 2 + 100 * 6) * 1_000_000,
        None,
        ("sum",),
    )
    assert price(model="grok-4.5", input_tokens=100_000, is_sum=True).notes == (), (
        "none of its parts can have been long"
    )


def test_what_was_invoiced_is_what_it_cost() -> None:
    """Ticks of 1e-10 USD. From the table it would be another figure, up to 46 % off in a day."""
    priced = price(
        model="grok-4.5", input_tokens=1000, output_tokens=100, invoiced=123_000_000 * 100
    )
    assert (priced.usd / USD, priced.basis) == (0.0123, "invoiced")
    assert (
        parts(model="grok-4.5", input_tokens=1000, output_tokens=100, invoiced=123_000_000 * 100)
        == ()
    )
    assert price(model="<synthetic>", invoiced=5).usd == 5
    assert price(model="grok-4.5", output_tokens=100, invoiced=0).usd == 0, "free is a price"


def test_without_an_invoice_the_table_is_taken() -> None:
    assert dollars(
        model="grok-4.5", input_tokens=900, cache_read_tokens=100, output_tokens=100
    ) == pytest.approx(0.00243)


def test_fast_mode_multiplies_everything_but_searches() -> None:
    usage = dict(
        input_tokens=1000,
        output_tokens=1000,
        cache_read_tokens=1000,
        cache_write_5m_tokens=1000,
        cache_write_1h_tokens=1000,
    )
    for model, factor in {
        "claude-opus-4-6": 6,
        "claude-opus-4-8": 2,
        "gpt-5.3-codex": 2,
        "gpt-5.4": 2,
        "gpt-5.6": 2,
    }.items():
        assert (
            price(model=model, tier="fast", **usage).usd == factor * price(model=model, **usage).usd
        ), model
    assert (
        2 * price(model="gpt-5.5", tier="fast", **usage).usd
        == 5 * price(model="gpt-5.5", **usage).usd
    )
    assert (
        price(model="claude-opus-4-6", tier="fast", web_searches=1).usd
        == price(model="claude-opus-4-6", web_searches=1).usd
    )


def test_a_tier_without_a_price_costs_the_standard_and_says_so() -> None:
    usage = dict(model="claude-haiku-4-5", output_tokens=1000)
    assert price(**usage, tier="fast").usd == price(**usage).usd
    assert price(**usage, tier="fast").notes == ("no tier price",)
    assert price(model="claude-opus-4-6", tier="fast", output_tokens=1).notes == ("built-in",)


def test_service_tiers() -> None:
    usage = dict(model="gpt-5", input_tokens=1000, output_tokens=1000)
    assert (
        2 * price(**usage, tier="flex").usd
        == price(**usage).usd
        == price(**usage, tier="priority").usd // 2
    )


def test_inference_in_the_us_costs_a_tenth_more() -> None:
    """C25. Exactly a tenth, on tokens alone."""
    usage = dict(model="claude-opus-4-6", input_tokens=3, cache_read_tokens=7, output_tokens=1)
    assert 10 * price(**usage, region="us").usd == 11 * price(**usage).usd
    assert price(**usage, region="us", tier="fast").usd * 10 == 66 * price(**usage).usd
    assert price(model="claude-opus-4-6", region="us", web_searches=1).usd == USD // 100


def test_web_searches_are_charged() -> None:
    """C21: 10 USD for a thousand."""
    assert dollars(model="claude-opus-4-6", web_searches=3) == pytest.approx(0.03)


@pytest.mark.parametrize("model", ["<synthetic>", "some-unknown-model", None])
def test_without_a_price_tokens_count_and_cost_nothing(model: str | None) -> None:
    priced = price(model=model, input_tokens=1000)
    assert (priced.usd, priced.match, priced.basis) == (0, "none", "none")


@pytest.mark.parametrize("model", ["some-unknown-model", None])
def test_without_a_price_a_call_costs_what_its_agent_recorded(model: str | None) -> None:
    priced = price(model=model, input_tokens=1000, recorded=77)
    assert (priced.usd, priced.basis, priced.notes) == (77, "recorded", ("recorded",))


def test_a_list_price_goes_before_what_an_agent_recorded() -> None:
    usage = dict(model="claude-opus-4-6", input_tokens=1000)
    assert price(**usage, recorded=77) == price(**usage)
    assert price(**usage, recorded=77, invoiced=5).usd == 5


def test_a_call_without_tokens_costs_what_its_agent_recorded() -> None:
    """Some agents write one figure for a session, and no tokens."""
    assert price(model="claude-opus-4-6", recorded=77, is_sum=True).basis == "recorded"


def test_of_growing_figures_for_one_thing_the_last_counts() -> None:
    (merged,) = merge(call(recorded=usd) for usd in (5, 77, 6))
    assert merged.call.recorded == 77


def test_a_price_says_where_it_is_from() -> None:
    priced = price(model="gpt-5.6-sol-20260801", output_tokens=1)
    assert priced.source == prices.table_version()
    assert (priced.match, priced.name, str(priced.since)) == ("alias", "gpt-5.6-sol", "2026-08-21")
    assert price(model="gpt-5.3-codex-spark", output_tokens=1).match == "fuzzy"


def test_a_call_keeps_the_price_of_its_day() -> None:
    """gpt-5.6 became cheaper in August 2026; a counter that takes today's price makes the past
    cheaper too."""
    usage = dict(model="gpt-5.6", output_tokens=1_000_000)
    assert dollars(**usage, ts=datetime(2026, 8, 1, tzinfo=UTC)) == 30
    assert dollars(**usage, ts=datetime(2026, 9, 1, tzinfo=UTC)) == 20


@given(calls, st.lists(st.integers(0, 10**9), min_size=5, max_size=5), st.integers(0, 10**11))
def test_sums_are_exact(one: Call, units: list[int], search: int) -> None:
    """Against fractions: no float is anywhere near money."""
    rates = Rates(
        name="m", match="exact", source="t", standard=Schedule(Rate(*units)), web_search=search
    )
    one = msgspec.structs.replace(one, invoiced=None)
    buckets = [
        one.input_tokens,
        one.output_tokens,
        one.cache_read_tokens,
        one.cache_write_5m_tokens,
        one.cache_write_1h_tokens,
    ]
    wanted = sum(
        Fraction(count * unit, USD)
        for count, unit in zip([*buckets, one.web_searches], [*units, search], strict=True)
    )
    assert Fraction(cost(one, rates).usd, USD) == wanted
