"""The price of a model's tokens at a time, and how certain it is. Prices are dated: a call keeps
the price of its day.

The user's own prices come first, then genai-prices, then a small table of ours. The list of
genai-prices is read when the first model is looked up: reports read the price that is stored with
each call, and never come here. Nothing here knows what a call is, or multiplies anything by a
number of tokens; nor audio, images, or fees per request.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import date, datetime, time
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import msgspec
from msgspec.structs import astuple

from ..model import USD
from . import fetched
from .bundled import Part, read
from .table import (
    BUILT_IN,
    FAST,
    LONG,
    US_ONLY,
    ListPrice,
    Match,
    Rate,
    Rates,
    Schedule,
    Sheet,
    Window,
    make_rate,
    share,
    units,
)

if TYPE_CHECKING:
    from genai_prices.types import (
        ConditionalPrice,
        MatchLogic,
        ModelInfo,
        ModelPrice,
        PriceVariant,
        Provider,
    )

Overrides = Mapping[str, ListPrice | Sequence[ListPrice]]

MAX_NAME = 200
"""No model's name is longer, and transcripts are not trusted."""


class Table(msgspec.Struct, frozen=True):
    """A list of genai-prices: the installed one, or the one that was fetched into a home."""

    version: str
    home: Path | None = None


def find(
    model: str | None,
    ts: datetime | None,
    provider: str | None = None,
    overrides: Overrides | None = None,
    sheet_of: Callable[[str, str | None], Sheet | None] | None = None,
) -> Rates | None:
    """Return the prices of a model at a time, without one the newest; None if there is no price.

    `provider` is where the call went, if that is known; a name that itself says so (Bedrock's do)
    is believed first. Names in `overrides` are in lower case, and stand for their dated and
    prefixed forms too. `sheet_of` is `look_up`, or remembers it.
    """
    # An agent writes "<synthetic>" for an answer of its own: no model was called.
    if not model or len(model) > MAX_NAME or model.startswith("<"):
        return None
    if overrides:
        for n, name in enumerate(forms(model)):
            if name in overrides and (
                rates := _own_sheet(
                    name, _lines(overrides[name]), "alias" if n else "exact", "config"
                ).at(ts)
            ):
                return rates
    sheet = (sheet_of or look_up)(model, provider)
    return sheet.at(ts) if sheet else None


@lru_cache(maxsize=1)
def table_version() -> str:
    """Return the version of the installed list, without importing the package."""
    return f"genai-prices {_package()}"


def table_of(home: Path) -> Table:
    """Return the list to use: the one that was fetched last, else the installed one."""
    stored = fetched.read(home, _package())
    return Table(stored[0].version, home) if stored else Table(table_version())


def fetch(home: Path, address: str | None = None) -> bool:
    """Fetch the newest list. Return True if it changed.

    Raises ReadError, and then nothing has changed.
    """
    return fetched.fetch(home, _package(), address)


@lru_cache(maxsize=1)
def _package() -> str:
    """Return the package's version, from the name of the folder with its metadata.

    Importing `importlib.metadata` takes longer than a small sync.
    """
    folders = package.parent.glob("genai_prices-*.dist-info") if (package := _folder()) else ()
    versions = [folder.name.removesuffix(".dist-info").partition("-")[2] for folder in folders]
    if len(versions) == 1:
        return versions[0]
    from importlib.metadata import version

    return version("genai-prices")


def _folder() -> Path | None:
    """Return the folder of the package."""
    spec = find_spec("genai_prices")
    return Path(spec.origin).parent if spec and spec.origin else None


@lru_cache(maxsize=4096)
def look_up(model: str, provider: str | None = None, table: Table | None = None) -> Sheet | None:
    """Return the price sheet of a model, by the name that an agent wrote; None if there is none."""
    names = forms(model)
    try:
        candidates = list(_candidates(names, provider, table or Table(table_version())))
    except Exception:
        # Someone else's table, of any later version: a call that it breaks on has no price until it
        # is priced again, but is counted.
        candidates = []
    for sheet, match in candidates:
        if match != "fuzzy":
            return sheet
    for n, name in enumerate(names):
        if name in BUILT_IN:
            return _own_sheet(
                name,
                BUILT_IN[name],
                "fuzzy" if _is_bedrock(names) else "alias" if n else "exact",
                "built-in",
            )
    return candidates[0][0] if candidates else None


# ── names ─────────────────────────────────────────────────────────────────────────────────────────

_FORMS = (
    (r"^.*/", ""),  # anthropic/claude-…, arn:aws:bedrock:…/us.anthropic.claude-…
    (r"\[1m\]$", ""),
    (r"[-@:](?:latest|beta|default)$", ""),
    (r"-v\d+(?::\d+)?$", ""),  # Bedrock's version
    (r"[-@]20\d\d-?[01]\d-?[0-3]\d$", ""),  # the snapshot
    (r"^(?:[a-z-]+\.)?anthropic\.", ""),  # Bedrock's region and maker
    (r"(?<=\d)\.(?=\d)", "-"),
    (r"(?<=[a-z]-\d)-(?=\d\b)", "."),
)

_OTHER_SIZE = frozenset(
    "mini nano micro lite tiny small large xl pro max ultra plus flash turbo fast free preview"
    " instant".split()
)
"""Words after a model's name that make it another model, with another price."""


@lru_cache(maxsize=4096)
def forms(model: str) -> tuple[str, ...]:
    """Return the names that mean the same model, as written first and the most general last."""
    name = model.strip().lower()
    names = [name]
    for pattern, instead in _FORMS:
        name = re.sub(pattern, instead, name)
        names.append(name)
    return tuple(dict.fromkeys(names))


def _is_variant(rest: str) -> bool:
    """Return True if the rest after a known name may mean the same model.

    Digits would be another version, and some words another size.
    """
    return (
        bool(rest) and not rest[0].isdigit() and not _OTHER_SIZE & set(re.split(r"[^a-z]+", rest))
    )


# ── genai-prices ──────────────────────────────────────────────────────────────────────────────────

_PROVIDERS = {"xai": "x-ai"}
_MAKERS = ["anthropic", "openai", "x-ai"]


@lru_cache(maxsize=2)
def providers_of(table: Table) -> Sequence[Provider]:
    """Return the providers of a list."""
    if table.home is not None and (stored := fetched.read(table.home, _package())):
        return fetched.parse(str(table.home / fetched.FILE), stored[1])
    try:
        return read(str(_folder()))
    except Exception:  # A version that builds it in another way, or is not in files.
        from genai_prices.data_snapshot import get_snapshot

        return get_snapshot().providers


def _candidates(
    names: tuple[str, ...], provider: str | None, table: Table
) -> Iterator[tuple[Sheet, Match]]:
    """Yield the sheets of genai-prices that fit, those of the named provider first."""
    providers = providers_of(table)
    for listed in _likely_providers(providers, names, provider):
        if hit := _match(_names_of(table, listed.id), names):
            info, match, name = hit
            if listed.id != "aws" and _is_bedrock(names):
                match = "fuzzy"  # the maker's price, but somebody else ran it
            if sheet := _sheet(listed, info, match, name, table):
                yield sheet, match
    resold = _names_of(table, "openrouter").get(names[0]) if "/" in names[0] else None
    if resold and (
        sheet := _sheet(
            next(p for p in providers if p.id == "openrouter"), resold, "fuzzy", names[0], table
        )
    ):
        yield sheet, "fuzzy"  # who ran it is not known


def _likely_providers(
    providers: Sequence[Provider], names: tuple[str, ...], provider: str | None
) -> Iterator[Provider]:
    """Yield the providers that the name says, the caller says, and that make models so named."""
    wanted = ["aws"] if _is_bedrock(names) else []
    if provider:
        wanted.append(_PROVIDERS.get(provider, provider))
    wanted += [
        place.id
        for place in providers
        if place.model_match and place.model_match.is_match(names[-1])
    ]
    wanted += _MAKERS  # some of their models have names that do not say so
    by_id = {place.id: place for place in providers}
    for name in dict.fromkeys(wanted):
        if name in by_id:
            yield by_id[name]


def _is_bedrock(names: tuple[str, ...]) -> bool:
    return any(name.startswith("anthropic.") or ".anthropic." in name for name in names)


@lru_cache(maxsize=64)
def _names_of(table: Table, provider: str) -> dict[str, ModelInfo]:
    """Return every full name of a provider's models. An id wins over a pattern of another model."""
    models = next((place.models for place in providers_of(table) if place.id == provider), [])
    names = {info.id.lower(): info for info in models}
    for info in models:
        for word in _words(info.match):
            names.setdefault(word.lower().rstrip("-@:"), info)
    return names


def _words(clause: MatchLogic) -> Iterator[str]:
    """Yield the literal texts of a pattern.

    Patterns are not run: `claude-opus-4-1…` would match `claude-opus-4-10`, and a dated name is
    looked up without its date.
    """
    for several in ("or_", "and_"):
        for part in getattr(clause, several, ()):
            yield from _words(part)
    for kind in ("equals", "starts_with", "contains", "ends_with"):
        if word := getattr(clause, kind, None):
            yield word


def _match(
    listed: Mapping[str, ModelInfo], names: tuple[str, ...]
) -> tuple[ModelInfo, Match, str] | None:
    for n, name in enumerate(names):
        if name in listed:
            return listed[name], "alias" if n else "exact", name
    # The longest listed name that the wanted one goes on from: gpt-5.3-codex-spark is some
    # gpt-5.3-codex.
    for name in names:
        for dash in reversed([at.start() for at in re.finditer("[-:]", name)]):
            head = name[:dash]
            if head in listed and any(map(str.isdigit, head)):
                return (listed[head], "fuzzy", head) if _is_variant(name[dash + 1 :]) else None
    return None


def _sheet(place: Provider, info: ModelInfo, match: Match, name: str, table: Table) -> Sheet | None:
    lines = _conditional(info)
    variants = info.price_variants or []
    starts = {*map(_start, lines), *map(_start, variants)}
    days = sorted(day for day in starts if day is not None)
    windows = []
    for day in (None, *days):
        at = _in_force(lines, day)
        for n, line in enumerate(lines):
            hours = _hours(line)
            if line is at or (hours and n > lines.index(at)):
                rates = _rates(place, info, line, day, match, name, table)
                if rates is None:
                    return None
                windows.append(Window(day, hours, rates))
    return Sheet(tuple(windows))


def _rates(
    place: Provider,
    info: ModelInfo,
    line: ConditionalPrice,
    day: date | None,
    match: Match,
    name: str,
    table: Table,
) -> Rates | None:
    standard = _schedule(line.prices.__dict__, place.id)
    if standard is None:
        return None
    is_maker = place.id == "anthropic"
    if is_maker and not standard.steps and info.id in LONG:
        above, on_input, on_output = LONG[info.id]
        standard = Schedule(
            standard.base, ((above, standard.base.times(on_input, on_output)),), "built-in"
        )
    tiers = dict(_tiers(place, info, line.prices, standard, day))
    if is_maker and "fast" not in tiers and info.id in FAST:
        tiers["fast"] = standard.times(FAST[info.id], "built-in")
    search = line.prices.__dict__.get("web_searches_kcount", 0)
    return Rates(
        name=info.id if match == "fuzzy" else name,
        provider=place.id,
        match=match,
        source=table.version,
        since=_start(line),
        standard=standard,
        tiers=tiers,
        web_search=round(getattr(search, "base", search) * USD / 1000),
        us_permille=US_ONLY if is_maker else 1000,
    )


def _tiers(
    place: Provider, info: ModelInfo, now: ModelPrice, standard: Schedule, day: date | None
) -> Iterator[tuple[str, Schedule]]:
    """Yield the prices of service tiers.

    Before the first day of a tier's price, its ratio to the standard price is used.
    """
    by_tier: dict[str, list[PriceVariant]] = {}
    for variant in info.price_variants or ():
        tier = variant.when.get("service_tier") or variant.when.get("processing")
        if len(variant.when) == 1 and tier in ("fast", "priority", "flex", "batch"):
            by_tier.setdefault(tier, []).append(variant)
    for tier, variants in by_tier.items():
        active = next((variant for variant in variants if _has_begun(variant, day)), None)
        variant = active or variants[0]
        then = now if active else _in_force(_conditional(info), _start(variant)).prices
        usual, priced = (
            _schedule(then.__dict__, place.id),
            _schedule({**then.__dict__, **variant.prices.__dict__}, place.id),
        )
        if usual and priced:
            yield (
                tier,
                (
                    priced
                    if active
                    else _scaled(priced, usual, standard, f"ratio of {_start(variant)}")
                ),
            )


def _scaled(tier: Schedule, usual: Schedule, now: Schedule, note: str) -> Schedule:
    def scaled(rate: Rate, prompt: int) -> Rate:
        old, new = usual.rate(prompt)[0], now.rate(prompt)[0]
        return Rate(
            *(
                share(getattr(new, f), getattr(rate, f), getattr(old, f))
                for f in Rate.__struct_fields__
            )
        )

    return Schedule(
        scaled(tier.base, 0),
        tuple((above, scaled(rate, above + 1)) for above, rate in tier.steps),
        note,
    )


def _conditional(info: ModelInfo) -> list[ConditionalPrice]:
    return (
        info.prices
        if isinstance(info.prices, list)
        else [cast("ConditionalPrice", Part(prices=info.prices))]
    )


def _in_force(lines: Sequence[ConditionalPrice], day: date | None) -> ConditionalPrice:
    """Return the line of a day: the last that has begun, except those of certain hours."""
    for line in reversed(lines):
        if not _hours(line) and _has_begun(line, day):
            return line
    return lines[0]


def _has_begun(part: ConditionalPrice | PriceVariant, day: date | None) -> bool:
    start = _start(part)
    return start is None or (day is not None and start <= day)


def _start(part: ConditionalPrice | PriceVariant) -> date | None:
    return getattr(part.constraint, "start_date", None)


def _hours(line: ConditionalPrice) -> tuple[time, time] | None:
    begin, end = (getattr(line.constraint, name, None) for name in ("start_time", "end_time"))
    return (begin.replace(tzinfo=None), end.replace(tzinfo=None)) if begin and end else None


# ── from list prices to rates ─────────────────────────────────────────────────────────────────────

_DEFAULTS = {
    "anthropic": (100, 1250),
    "openai": (1000, 1250),
}
"""Cache read and 5-minute write in thousandths of input, where a list has none. Elsewhere there is
no discount and no surcharge."""


def _schedule(prices: Mapping[str, Any], provider: str) -> Schedule | None:
    """Return the token prices of a line (USD per million, possibly in steps by prompt length).

    None if it has none, or a negative one.
    """
    if prices.get("input_mtok") is None and prices.get("output_mtok") is None:
        return None
    starts = {step.start for value in prices.values() for step in getattr(value, "tiers", ())}
    base, steps = (
        _rate(prices, 0, provider),
        tuple((above, _rate(prices, above + 1, provider)) for above in sorted(starts)),
    )
    is_possible = all(min(astuple(rate)) >= 0 for rate in (base, *(rate for _, rate in steps)))
    return Schedule(base, steps) if is_possible else None


def _rate(prices: Mapping[str, Any], prompt: int, provider: str) -> Rate:
    def unit(key: str) -> int | None:
        value = prices.get(key)
        for step in getattr(value, "tiers", ()):
            if prompt > step.start:
                value = step.price
        return None if value is None else units(getattr(value, "base", value))

    return make_rate(
        unit("input_mtok") or 0,
        unit("output_mtok") or 0,
        unit("cache_read_mtok"),
        unit("cache_write_mtok"),
        unit("cache_write_1h_mtok"),
        _DEFAULTS.get(provider, (1000, 1000)),
    )


def _lines(lines: ListPrice | Sequence[ListPrice]) -> tuple[ListPrice, ...]:
    return (lines,) if isinstance(lines, ListPrice) else tuple(lines)


@lru_cache(maxsize=4096)
def _own_sheet(name: str, lines: tuple[ListPrice, ...], match: Match, source: str) -> Sheet:
    """Return a sheet from the configuration, or from our own table."""
    windows = [Window(line.since, None, _own_rates(name, line, match, source)) for line in lines]
    return Sheet(tuple(sorted(windows, key=lambda window: window.start or date.min)))


def _own_rates(name: str, line: ListPrice, match: Match, source: str) -> Rates:
    read, write, write_1h = (
        None if usd is None else units(usd)
        for usd in (line.cache_read, line.cache_write, line.cache_write_1h)
    )
    standard = Schedule(make_rate(units(line.input), units(line.output), read, write, write_1h))
    return Rates(
        name=name,
        match=match,
        source=source,
        since=line.since,
        standard=standard,
        tiers=(
            {} if line.fast is None else {"fast": standard.times(round(line.fast * 1000), source)}
        ),
        web_search=round((line.web_search or 0) * USD / 1000),
        us_permille=US_ONLY,
    )
