"""What a token cost. The table of published prices was read off in November 2026; a change of one
is a change of its window."""

import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import UTC, date, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import msgspec
import pytest

from runlore.errors import ReadError
from runlore.pricing import bundled, prices
from runlore.pricing.prices import find
from runlore.pricing.table import ListPrice, Match, Rate, Rates, Schedule, Sheet, Window, share

AUTUMN = datetime(2026, 11, 1, tzinfo=UTC)


def usd(rate: Rate) -> tuple[float, ...]:
    """Per million tokens: input, output, 5-minute write, 1-hour write, read."""
    return tuple(
        unit / 1e6
        for unit in (
            rate.input,
            rate.output,
            rate.cache_write_5m,
            rate.cache_write_1h,
            rate.cache_read,
        )
    )


def rates(model: str, ts: datetime | None = AUTUMN, provider: str | None = None) -> Rates:
    found = find(model, ts, provider)
    assert found is not None, f"{model} has no price"
    return found


@pytest.mark.parametrize(
    ("models", "listed", "fast"),
    [
        ("claude-opus-4-6 claude-opus-4-7", (5, 25, 6.25, 10, 0.5), 30),
        ("claude-opus-4-8 claude-opus-5", (5, 25, 6.25, 10, 0.5), 10),
        ("claude-fable-5 claude-mythos-5", (10, 50, 12.5, 20, 1), None),
        ("claude-fable-5-1 claude-mythos-5-1", (10, 50, 12.5, 20, 0.25), None),
        ("claude-sonnet-5", (2, 10, 2.5, 4, 0.2), None),
        ("claude-sonnet-4 claude-sonnet-4-5 claude-sonnet-4-6", (3, 15, 3.75, 6, 0.3), None),
        ("claude-haiku-4-5", (1, 5, 1.25, 2, 0.1), None),
        ("claude-opus-4-1", (15, 75, 18.75, 30, 1.5), None),
        ("gpt-5.3-codex", (1.75, 14, 1.75 * 1.25, None, 0.175), 3.5),
        ("gpt-5 gpt-5-codex gpt-5.1-codex-max", (1.25, 10, 1.25 * 1.25, None, 0.125), 2.5),
        ("gpt-5.2-codex", (1.75, 14, 1.75 * 1.25, None, 0.175), 3.5),
        ("gpt-5.4", (2.5, 15, 2.5 * 1.25, None, 0.25), 5),
        ("gpt-5.4-mini", (0.75, 4.5, 0.75 * 1.25, None, 0.075), 1.5),
        ("gpt-5.5", (5, 30, 5 * 1.25, None, 0.5), 12.5),
        ("gpt-5.6 gpt-5.6-sol", (4, 20, 5, None, 0.4), 8),
        ("gpt-5.6-terra", (2, 12, 2.5, None, 0.2), 4),
        ("gpt-5.6-luna", (0.2, 1.2, 0.25, None, 0.02), 0.4),
        ("grok-4.5", (2, 6, None, None, 0.3), None),
        ("o4-mini", (1.1, 4.4, None, None, 0.275), 2),
    ],
)
def test_published_prices(
    models: str, listed: tuple[float | None, ...], fast: float | None
) -> None:
    for model in models.split():
        found = rates(model)
        assert [
            (got if want is not None else None)
            for got, want in zip(usd(found.standard.base), listed, strict=True)
        ] == list(listed)
        assert found.match == "exact"
        assert (usd(found.tiers["fast"].base)[0] if "fast" in found.tiers else None) == fast


@pytest.mark.parametrize(
    ("model", "above", "longer"),
    [
        ("claude-sonnet-4-20250514", 200_000, (6, 22.5, 7.5, 12, 0.6)),
        ("claude-sonnet-4-5", 200_000, (6, 22.5, 7.5, 12, 0.6)),
        ("gpt-5.4", 272_000, (5, 22.5)),
        ("gpt-5.5", 272_000, (10, 45)),
        ("gpt-5.6", 272_000, (8, 30)),
        ("grok-4.5", 199_999, (4, 12)),
    ],
)
def test_a_long_prompt_has_a_price_of_its_own(
    model: str, above: int, longer: tuple[float, ...]
) -> None:
    standard = rates(model).standard
    assert standard.rate(above) == (standard.base, None)
    rate, from_here = standard.rate(above + 1)
    assert (usd(rate)[: len(longer)], from_here) == (longer, above)


@pytest.mark.parametrize(
    "model",
    ["claude-opus-4-6", "claude-opus-4-8", "claude-sonnet-4-6", "claude-sonnet-5", "gpt-5.2-codex"],
)
def test_most_models_cost_the_same_at_any_length(model: str) -> None:
    assert rates(model).standard.steps == ()


@pytest.mark.parametrize(
    ("model", "match", "name", "provider"),
    [
        ("claude-opus-4-6", "exact", "claude-opus-4-6", "anthropic"),
        ("claude-opus-4-6-20260115", "alias", "claude-opus-4-6", "anthropic"),
        ("claude-sonnet-4-5@20250929", "alias", "claude-sonnet-4-5", "anthropic"),
        ("claude-sonnet-4-5-20250929[1m]", "alias", "claude-sonnet-4-5", "anthropic"),
        ("anthropic/claude-sonnet-4.5", "alias", "claude-sonnet-4.5", "anthropic"),
        ("openrouter/anthropic/claude-opus-4.6", "alias", "claude-opus-4.6", "anthropic"),
        ("claude-fable-5.1", "alias", "claude-fable-5-1", "anthropic"),
        ("us.anthropic.claude-opus-4-6-v1:0", "alias", "us.anthropic.claude-opus-4-6", "aws"),
        ("openai/gpt-5.5", "alias", "gpt-5.5", "openai"),
        ("gpt-5.5-2026-04-23", "exact", "gpt-5.5-2026-04-23", "openai"),
        ("gpt-5.2-codex", "exact", "gpt-5.2-codex", "openai"),
        ("codex-mini-latest", "exact", "codex-mini-latest", "openai"),
        ("grok-4-latest", "exact", "grok-4-latest", "x-ai"),
        ("grok-4.5-20260801", "alias", "grok-4.5", "x-ai"),
        ("gpt-5.3-codex-spark", "fuzzy", "gpt-5.3-codex", "openai"),
        ("gpt-5-high", "fuzzy", "gpt-5", "openai"),
        ("meta-llama/llama-4-maverick", "fuzzy", "meta-llama/llama-4-maverick", "openrouter"),
        ("us.anthropic.claude-mythos-5-v1:0", "fuzzy", "claude-mythos-5", None),
        ("anthropic.claude-3-5-sonnet-20241022-v2:0", "fuzzy", "claude-3-5-sonnet", "anthropic"),
    ],
)
def test_names_as_agents_write_them(
    model: str, match: str, name: str, provider: str | None
) -> None:
    found = rates(model)
    assert (found.match, found.name, found.provider) == (match, name, provider)


@pytest.mark.parametrize(
    "model",
    [
        *(
            "<synthetic>",
            "",
            None,
            "   ",
            "/",
            "-",
            "opus",
            "default",
            "coder-model",
            "codex-auto-review",
            "openai/",
            "x" * 5000,
            "claude-\x00",
        ),
        # other versions
        *(
            "claude-opus-4-15",
            "claude-opus-4-10-20270101",
            "gpt-5.9",
            "gpt-5.9-codex",
            "claude-sonnet-5-7",
        ),
        *("gpt-5.6-sol-mini", "claude-opus-4-6-lite", "grok-4-mini"),  # other sizes
    ],
)
def test_what_nobody_lists_has_no_price(model: str | None) -> None:
    assert find(model, AUTUMN) is None


def test_bedrock_has_prices_of_its_own() -> None:
    assert usd(rates("us.anthropic.claude-opus-4-6-v1:0").standard.base)[:2] == (5.5, 27.5)
    assert usd(rates("global.anthropic.claude-opus-4-6-v1").standard.base)[:2] == (5, 25)
    assert rates("us.anthropic.claude-opus-4-6-v1:0").us_permille == 1000, (
        "the region is in the price"
    )


def test_the_provider_that_is_named_goes_first() -> None:
    assert rates("claude-opus-4-6", provider="aws").provider == "aws"
    assert rates("grok-4.5", provider="xai").provider == "x-ai"


def test_an_agent_may_be_pointed_at_a_model_of_another_maker() -> None:
    assert rates("kimi-k2.7-code", provider="anthropic").provider == "moonshotai"


def test_the_price_is_that_of_the_day() -> None:
    before, after = (
        rates("gpt-5.6", datetime(2026, 8, 20, 23, 59, tzinfo=UTC)),
        rates("gpt-5.6", datetime(2026, 8, 21, tzinfo=UTC)),
    )
    assert (usd(before.standard.base)[:2], before.since) == ((5, 30), None)
    assert (usd(after.standard.base)[:2], after.since) == ((4, 20), date(2026, 8, 21))
    assert rates("gpt-5.6", None) == rates("gpt-5.6", datetime(2026, 11, 1, tzinfo=UTC)), (
        "without a time, the newest"
    )


def test_opus_4_6_had_a_long_context_price_until_march_2026() -> None:
    assert (
        rates("claude-opus-4-6", datetime(2026, 3, 12, tzinfo=UTC)).standard.steps[0][0] == 200_000
    )
    assert rates("claude-opus-4-6", datetime(2026, 3, 13, tzinfo=UTC)).standard.steps == ()


def test_before_a_tier_was_listed_it_keeps_its_ratio() -> None:
    """The price of fast mode is listed from October 2026 on, and gpt-5.6 was dearer before."""
    early = rates("gpt-5.6", datetime(2026, 8, 1, tzinfo=UTC)).tiers["fast"]
    assert usd(early.base) == (10, 60, 12.5, 20, 1)
    assert usd(early.steps[0][1])[:2] == (20, 90)
    assert early.note == "ratio of 2026-10-12"
    assert usd(rates("gpt-5.5", datetime(2026, 6, 1, tzinfo=UTC)).tiers["fast"].base)[0] == 12.5
    assert rates("gpt-5.6").tiers["fast"].note is None


def test_tiers_that_cost_less() -> None:
    assert usd(rates("gpt-5").tiers["flex"].base)[:2] == (0.625, 5)
    assert usd(rates("claude-opus-4-8").tiers["batch"].base) == (2.5, 12.5, 3.125, 5, 0.25)


def test_hours_of_the_day_may_have_a_price() -> None:
    night, day = (
        rates("deepseek-v4-flash", datetime(2026, 11, 1, hour, tzinfo=UTC)) for hour in (2, 12)
    )
    assert night.standard.base.output == 2 * day.standard.base.output


def test_hours_may_run_over_midnight() -> None:
    def rate(units: int) -> Rates:
        return Rates(
            name="m", match="exact", source="t", standard=Schedule(Rate(units, 0, 0, 0, 0))
        )

    night = (
        datetime(2026, 1, 1, 22).time(),  # noqa: DTZ001
        datetime(2026, 1, 1, 6).time(),  # noqa: DTZ001
    )
    sheet = Sheet((Window(None, None, rate(2)), Window(None, night, rate(1))))
    assert [sheet.at(datetime(2026, 1, 1, hour, tzinfo=UTC)) for hour in (5, 6, 21, 22)] == [
        rate(1),
        rate(2),
        rate(2),
        rate(1),
    ]


def test_web_search_is_priced_by_the_search() -> None:
    assert rates("claude-opus-4-6").web_search == 10**10, "10 USD for a thousand"


def test_inference_in_the_us_costs_a_tenth_more() -> None:
    assert rates("claude-opus-4-6").us_permille == 1100
    assert rates("gpt-5.5").us_permille == 1000


def test_own_prices_go_first_from_their_day_on() -> None:
    own = {
        "claude-opus-4-6": ListPrice(input=1, output=2, since=date(2026, 6, 1)),
        "house-model": ListPrice(input=3, output=15, fast=2),
    }
    before = find("claude-opus-4-6", datetime(2026, 5, 31, tzinfo=UTC), None, own)
    after = find("claude-opus-4-6-20260115", datetime(2026, 6, 1, tzinfo=UTC), None, own)
    house = find("house-model", None, None, own)
    assert before
    assert before.source.startswith("genai-prices ")
    assert after
    assert (after.source, after.since, after.match, after.name) == (
        "config",
        date(2026, 6, 1),
        "alias",
        "claude-opus-4-6",
    )
    assert usd(after.standard.base) == (1, 2, 1.25, 2, 0.1), "cache prices follow from input"
    assert house
    assert usd(house.tiers["fast"].base)[:2] == (6, 30)


def test_own_prices_may_change() -> None:
    lines = [
        ListPrice(input=2, output=4, since=date(2026, 6, 1)),
        ListPrice(input=1, output=2, cache_read=0, web_search=5),
    ]
    found = [
        find("m", datetime(2026, month, 1, tzinfo=UTC), None, {"m": lines}) for month in (5, 6)
    ]
    assert [usd(rate.standard.base)[0] for rate in found if rate] == [1, 2]
    assert found[0]
    assert (found[0].standard.base.cache_read, found[0].web_search) == (0, 5 * 10**9)


@pytest.mark.parametrize(
    "bad",
    [
        {"input": -1},
        {"input": float("nan")},
        {"input": float("inf")},
        {"inptu": 1},
        {"from": "soon"},
    ],
)
def test_an_own_price_that_cannot_be_one_is_refused(bad: dict) -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert({"input": 1, "output": 2, **bad}, ListPrice)


def test_own_prices_read_as_they_are_written_in_the_configuration() -> None:
    line = msgspec.convert({"input": 3, "output": 15.0, "from": date(2026, 1, 1)}, ListPrice)
    assert line == ListPrice(input=3.0, output=15.0, since=date(2026, 1, 1))


def test_a_sheet_can_be_stored() -> None:
    sheet = prices.look_up("gpt-5.6")
    assert msgspec.json.decode(msgspec.json.encode(sheet), type=Sheet) == sheet


def test_a_model_is_searched_once(monkeypatch: pytest.MonkeyPatch) -> None:
    searched: list[str] = []
    real = prices._candidates

    def spy(
        names: tuple[str, ...], provider: str | None, table: prices.Table
    ) -> Iterator[tuple[Sheet, Match]]:
        searched.append(names[0])
        return real(names, provider, table)

    monkeypatch.setattr(prices, "_candidates", spy)
    prices.look_up.cache_clear()
    for day in range(1, 29):
        assert find("gpt-5.5", datetime(2026, 5, day, tzinfo=UTC))
        assert find("no-such-model", datetime(2026, 5, day, tzinfo=UTC)) is None
    assert searched == ["gpt-5.5", "no-such-model"]


def test_a_table_that_cannot_be_read_costs_the_price_and_no_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def broken(*names: object) -> object:
        raise AttributeError("a later version")

    monkeypatch.setattr(prices, "_candidates", broken)
    prices.look_up.cache_clear()
    try:
        assert find("gpt-5.5", AUTUMN) is None
        assert find("claude-mythos-5", AUTUMN)
    finally:
        prices.look_up.cache_clear()


def test_the_table_is_read_by_the_first_search_only_and_without_the_package() -> None:
    code = """
import sys, runlore.pricing.ledger, runlore.pricing.prices as prices
prices.find("<synthetic>", None)
prices.find("m", None, None, {"m": prices.ListPrice(input=1, output=1)})
prices.table_version()
assert not prices.providers_of.cache_info().currsize
assert prices.find("gpt-5.5", None)
assert prices.providers_of.cache_info().currsize
assert not {"genai_prices", "pydantic"} & set(sys.modules)
"""
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.fixture
def afresh() -> Iterator[Callable[[], None]]:
    """Forgets what was looked up."""

    def forget() -> None:
        for remembered in (prices.look_up, prices.providers_of, prices._names_of):
            remembered.cache_clear()

    forget()
    yield forget
    forget()


def test_the_list_is_read_as_the_package_reads_it(
    monkeypatch: pytest.MonkeyPatch, afresh: Callable[[], None]
) -> None:
    from genai_prices.data import providers

    names = sorted(
        {
            name
            for place in providers
            for info in place.models
            for name in (info.id, *prices._words(info.match))
        }
    )
    asked = [(name, provider) for name in names for provider in (None, "openai", "aws")]
    ours = [prices.look_up(*one) for one in asked]
    afresh()
    with monkeypatch.context() as patch:
        patch.setattr(bundled, "read", lambda package: providers)
        theirs = [prices.look_up(*one) for one in asked]
    assert ours == theirs
    assert sum(sheet is not None for sheet in ours) > 3000

    own = bundled.read(str(prices._folder()))
    some = [*names[::7], "claude", "GPT-5", "o3", ""]
    for mine, their in zip(own, providers, strict=True):
        for name in ("model_match", "provider_match"):
            if (other := getattr(their, name)) is not None:
                assert [getattr(mine, name).is_match(text) for text in some] == [
                    other.is_match(text) for text in some
                ]


def test_a_list_that_is_said_in_another_way_is_left_to_the_package(
    monkeypatch: pytest.MonkeyPatch, afresh: Callable[[], None]
) -> None:
    before = find("gpt-5.5", AUTUMN)
    monkeypatch.setattr(bundled, "_CLAUSES", ())
    afresh()
    assert find("gpt-5.5", AUTUMN) == before
    assert (
        type(prices.providers_of(prices.Table(prices.table_version()))[0]).__module__
        == "genai_prices.types"
    )


def test_shares_are_exact_where_prices_are() -> None:
    assert share(250_000, 1100, 1000) == 275_000
    assert share(5, 1, 2) == 3, "the nearest, half goes up"
    assert share(7, 3, 0) == 3, "a ratio to nothing is the figure itself"


# ── a list that was fetched ───────────────────────────────────────────────────────────────────────
def listed(usd: float = 7) -> bytes:
    """A price list as its authors publish it, with one model."""
    model = {
        "id": "gpt-9-new",
        "match": {"equals": "gpt-9-new"},
        "prices": {"input_mtok": usd, "output_mtok": 2 * usd},
    }
    provider = {
        "id": "openai",
        "name": "OpenAI",
        "api_pattern": "https://api",
        "model_match": {"starts_with": "gpt-"},
        "models": [model],
    }
    return msgspec.json.encode([provider])


@pytest.fixture
def site(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[bytes, int], str]]:
    """A web site on this machine: given an answer and its status, the address where it is."""
    answers: dict[str, tuple[bytes, int]] = {}
    monkeypatch.setenv("no_proxy", "*")

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body, status = answers[self.path]
            self.send_response(status)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()

    def put(body: bytes, status: int = 200) -> str:
        answers[path := f"/{len(answers)}"] = body, status
        return f"http://127.0.0.1:{server.server_port}{path}"

    yield put
    server.shutdown()
    server.server_close()
    thread.join()


def test_a_fetched_list_takes_the_place_of_the_installed_one(
    tmp_path: Path, site: Callable[[bytes], str]
) -> None:
    assert prices.table_of(tmp_path) == prices.Table(prices.table_version())
    assert prices.fetch(tmp_path, site(listed()))
    table = prices.table_of(tmp_path)
    assert table.home == tmp_path
    assert table.version.startswith(f"{prices.table_version()}, fetched 20")
    found = find(
        "gpt-9-new", AUTUMN, sheet_of=lambda model, provider: prices.look_up(model, provider, table)
    )
    assert found is not None
    assert (usd(found.standard.base)[:2], found.source, found.match) == (
        (7, 14),
        table.version,
        "exact",
    )
    assert find("gpt-9-new", AUTUMN) is None, "elsewhere nothing has changed"


def test_the_same_list_again_is_no_newer_one(tmp_path: Path, site: Callable[[bytes], str]) -> None:
    assert prices.fetch(tmp_path, site(listed()))
    before = prices.table_of(tmp_path)
    assert not prices.fetch(tmp_path, site(listed()))
    assert prices.table_of(tmp_path) == before
    assert prices.fetch(tmp_path, site(listed(8)))
    assert prices.table_of(tmp_path) != before
    assert [file.name for file in tmp_path.glob("prices*")] == ["prices.json"]


@pytest.mark.parametrize(
    "body",
    [b"", b"<html>", b"{}", b"[]", b"[1]", b'[{"id": 3}]', listed()[:-9], b"[" * 5000, b"\xff\xfe"],
)
def test_what_is_no_price_list_changes_nothing(
    tmp_path: Path, site: Callable[[bytes], str], body: bytes
) -> None:
    prices.fetch(tmp_path, site(listed()))
    before = prices.table_of(tmp_path)
    with pytest.raises(ReadError, match="the prices stay as they are"):
        prices.fetch(tmp_path, site(body))
    assert prices.table_of(tmp_path) == before


def test_a_list_that_cannot_be_fetched_is_said_in_one_line(
    tmp_path: Path, site: Callable[[bytes, int], str]
) -> None:
    gone = site(listed(), 404)
    nobody = gone.replace(gone.split(":")[2].partition("/")[0], "9")
    for address in (
        gone,
        nobody,
        "file:///etc/hosts",
        "nonsense",
        "http://[",
        "http://127.0.0.1:9/\n",
    ):
        with pytest.raises(ReadError) as caught:
            prices.fetch(tmp_path, address)
        assert str(caught.value).endswith("the prices stay as they are")
        assert "\n" not in str(caught.value).removeprefix(address)
    assert not list(tmp_path.glob("prices*"))


def test_a_list_beyond_all_bounds_is_not_kept(
    tmp_path: Path, site: Callable[[bytes], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("runlore.pricing.fetched.MAX_BYTES", 100)
    with pytest.raises(ReadError, match="more than"):
        prices.fetch(tmp_path, site(listed()))


@pytest.mark.parametrize(
    "damage", [b"", b"{}\n[]", b'{"package":"0.0","fetched":"2026-01-01","hash":""}\n[]', None]
)
def test_a_damaged_or_older_file_is_not_used(
    tmp_path: Path, site: Callable[[bytes], str], damage: bytes | None
) -> None:
    prices.fetch(tmp_path, site(listed()))
    file = tmp_path / "prices.json"
    file.write_bytes(
        file.read_bytes().replace(b"7.0", b"0.7").replace(b":7", b":6")
        if damage is None
        else damage
    )
    assert prices.table_of(tmp_path) == prices.Table(prices.table_version())


@pytest.mark.parametrize("damage", [b"-7.0", b'"NaN"', b'"-Infinity"', b"1e400", b"true", b"null"])
def test_a_price_that_cannot_be_one_is_none(
    tmp_path: Path, site: Callable[[bytes], str], damage: bytes
) -> None:
    with suppress(ReadError):  # The package may refuse such a list itself.
        prices.fetch(tmp_path, site(listed(7.0).replace(b"7.0", damage)))
    table = prices.table_of(tmp_path)
    found = find(
        "gpt-9-new", AUTUMN, sheet_of=lambda model, provider: prices.look_up(model, provider, table)
    )
    assert found is None or min(usd(found.standard.base)) >= 0


def test_the_version_of_the_package_is_that_of_its_metadata() -> None:
    from importlib.metadata import version

    assert prices.table_version() == f"genai-prices {version('genai-prices')}"
