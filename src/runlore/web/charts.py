"""Charts as SVG markup, drawn without scripts. The numbers are in the page, as hover values and
as a table. Colours are classes, so that they follow the theme.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import date, timedelta

import msgspec
from markupsafe import Markup

from ..export.outline import Block, Outline
from ..model import SessionEvent
from ..text.words import local, short

STRIP_BARS = 160
"""Maximum number of bars in a session's strip, about five pixels each."""
MIN_BARS = 60
"""A shorter session does not fill the strip: wider bars would show no more."""


def strip(found: Outline) -> Markup:
    """Return a session at a glance: a bar for each stretch of it, with the tokens that were
    generated, errors and prompts. Each links to the beginning of its stretch."""
    blocks = found.blocks
    if not blocks:
        return Markup("")
    size = max(1, -(-len(blocks) // STRIP_BARS))
    groups = [blocks[at : at + size] for at in range(0, len(blocks), size)]
    stretches = [_stretch(group) for group in groups]
    max_tokens = max(stretch.tokens for stretch in stretches) or 1
    width = 1000 / max(len(groups), MIN_BARS)
    drawn = [_strip_bar(one, max_tokens, n * width, width) for n, one in enumerate(stretches)]
    return Markup(
        '<svg class="strip" viewBox="0 0 1000 44" preserveAspectRatio="none"'
        ' aria-hidden="true">{}</svg>'
    ).format(Markup("").join(drawn))


class _Stretch(msgspec.Struct, frozen=True, kw_only=True):
    """The figures of consecutive blocks of a session."""

    first: SessionEvent
    last: SessionEvent
    tokens: int
    errors: int
    prompts: int


def _stretch(blocks: Sequence[Block]) -> _Stretch:
    return _Stretch(
        first=blocks[0].event,
        last=blocks[-1].event,
        tokens=sum(_output_tokens(block.event) for block in blocks),
        errors=sum(
            block.event.is_error or bool(block.call and block.call.failed) or block.form == "error"
            for block in blocks
        ),
        prompts=sum(block.form == "prompt" for block in blocks),
    )


def _strip_bar(stretch: _Stretch, max_tokens: int, x: float, width: float) -> Markup:
    first, last, tokens = stretch.first, stretch.last, stretch.tokens
    tip = f"#{first.seq}–#{last.seq}\n{local(first.ts, '%m-%d %H:%M')}\n{short(tokens)} tokens made"
    tip += f", {stretch.errors} errors" if stretch.errors else ""
    # The square root, because one long answer would flatten all others.
    height = max(2.0, 30 * (tokens / max_tokens) ** 0.5) if tokens else 1.5
    left, wide = f"{x + width * 0.12:.2f}", width * 0.76
    drawn = f'<rect class="hit" x="{x:.2f}" y="0" width="{width:.2f}" height="44"/>'
    drawn += (
        f'<rect class="bar" x="{left}" y="{34 - height:.2f}" width="{wide:.2f}"'
        f' height="{height:.2f}"/>'
    )
    for kind, top, number in (("ask", 36, stretch.prompts), ("err", 40, stretch.errors)):
        if number:
            drawn += (
                f'<rect class="{kind}" x="{left}" y="{top}" width="{max(2.0, wide):.2f}"'
                ' height="3"/>'
            )
    link = Markup(
        '<a href="#{0}" data-first="{0}" data-last="{1}" data-tip="{2}" tabindex="-1">{3}</a>'
    )
    # All of `drawn` are our own numbers; the tip is escaped.
    return link.format(first.seq, last.seq, tip, Markup(drawn))  # noqa: S704


def _output_tokens(event: SessionEvent) -> int:
    return event.usage.output_tokens if event.usage is not None else 0


# ── days ──────────────────────────────────────────────────────────────────────────────────────────
HALF, WHOLE = 560, 1130
"""Widths of a chart in pixels at its natural size: half the page, or all of it."""
HIGH, LEFT, FOOT = 190, 48, 18
WIDEST = 30
"""Maximum width of a bar: with few days, wider bars would show no more."""
SERIES = 6
"""Number of series in a stacked chart with a colour of their own; the rest is added up."""
REST = "others"


class Stack(msgspec.Struct, frozen=True, kw_only=True):
    """A chart of days: for each of the names its value on each day, the largest name first."""

    days: list[str]
    names: list[str]
    values: dict[str, list[float]]

    @property
    def totals(self) -> list[float]:
        return [sum(self.values[name][n] for name in self.names) for n in range(len(self.days))]


def stacked(days: Sequence[str], found: Mapping[str, Mapping[str, float]]) -> Stack:
    """Return a chart of values by day and name. Names beyond the largest few are added up."""
    sums: dict[str, float] = {}
    for row in found.values():
        for name, value in row.items():
            sums[name] = sums.get(name, 0.0) + value
    names = sorted(
        (name for name, value in sums.items() if value), key=lambda name: (-sums[name], name)
    )
    few, rest = (names, []) if len(names) <= SERIES + 1 else (names[:SERIES], names[SERIES:])
    values = {name: [found.get(day, {}).get(name, 0.0) for day in days] for name in few}
    if rest:
        values[REST] = [sum(found.get(day, {}).get(name, 0.0) for name in rest) for day in days]
    return Stack(days=list(days), names=list(values), values=values)


def bars(chart: Stack, say: Callable[[float], str], label: str, wide: int = HALF) -> Markup:
    """Return stacked bars, one for each day, with a scale of two lines."""
    most = max(chart.totals, default=0) or 1
    width = (wide - LEFT) / max(1, len(chart.days))
    height = HIGH - FOOT - 8
    line = Markup(
        '<line class="grid" x1="{1}" x2="{2}" y1="{0:.1f}" y2="{0:.1f}"/><text class="tick" x="{3}"'
        ' y="{4:.1f}">{5}</text>'
    )
    levels = [(most * part, HIGH - FOOT - height * part) for part in (0.5, 1.0)]
    scale = [line.format(top, LEFT, wide, LEFT - 6, top + 3.5, say(value)) for value, top in levels]
    columns = [
        _day_column(chart, n, say, LEFT + n * width, width, height / most)
        for n in range(len(chart.days))
    ]
    step = max(1, len(chart.days) // 6)
    dates = [
        Markup('<text class="date" x="{:.1f}" y="{}">{}</text>').format(
            min(LEFT + (n + 0.5) * width, wide - 16), HIGH - 4, chart.days[n][5:]
        )
        for n in range(len(chart.days) - 1, -1, -step)
    ]
    return Markup(
        '<svg class="bars" viewBox="0 0 {} {}" role="img" aria-label="{}">{}{}{}</svg>'
    ).format(
        wide, HIGH, label, Markup("").join(scale), Markup("").join(columns), Markup("").join(dates)
    )


def _day_column(
    chart: Stack, n: int, say: Callable[[float], str], left: float, width: float, scale: float
) -> Markup:
    """Return the stacked bar of one day, with its figures as a tip. `scale` is pixels per unit."""
    day, at, bar = chart.days[n], float(HIGH - FOOT), min(width * 0.8, WIDEST)
    parts = [
        Markup('<rect class="hit" x="{:.2f}" y="0" width="{:.2f}" height="{}"/>').format(
            left, width, HIGH - FOOT
        )
    ]
    rect = Markup('<rect class="s{}" x="{:.2f}" y="{:.2f}" width="{:.2f}" height="{:.2f}"/>')
    figures = []
    for series, name in enumerate(chart.names):
        if value := chart.values[name][n]:
            size = value * scale
            at -= size
            parts.append(rect.format(series, left + (width - bar) / 2, at, bar, size))
            figures.append(f"{name} {say(value)}")
    tip = "\n".join([f"{day}: {say(chart.totals[n])}", *(figures if len(chart.names) > 1 else [])])
    is_day = len(day) == len("2026-03-14")
    go = f"/usage?by=session&{_on(date.fromisoformat(day))}" if figures and is_day else ""
    return Markup('<g data-tip="{}"{}>{}</g>').format(tip, _going(go), Markup("").join(parts))


CELL, GAP = 17, 4
MIN_HEAT = 4
"""Sessions on a day that are dark: one a day is not much, also where there never were two."""


def _on(day: date) -> str:
    """The part of a URL that chooses a day."""
    return f"since={day}&until={day + timedelta(days=1)}"


def _going(url: str) -> Markup:
    """Return the attribute that makes a click open a page. It is no link: screen readers get the
    table below the chart."""
    return Markup(' data-go="{}"').format(url) if url else Markup("")


def heatmap(
    first: date, last: date, found: Mapping[date, int], say: Callable[[int], str]
) -> Markup:
    """Return a square for each day in columns of weeks; higher values are darker."""
    most = max(MIN_HEAT, *found.values(), 0)
    start = first - timedelta(days=first.weekday())
    squares, months = [], []
    day = start
    while day <= last:
        week = (day - start).days // 7
        if day >= first:
            number = found.get(day, 0)
            level = 1 + int(3.999 * (number / most) ** 0.5) if number else 0
            x, y = week * (CELL + GAP), 18 + day.weekday() * (CELL + GAP)
            go = _going(f"/sessions?{_on(day)}" if number else "")
            square = (
                f'<rect class="h{level}" x="{x}" y="{y}" width="{CELL}" height="{CELL}" rx="2"'
                f' data-tip="{day}: {say(number)}"{go}/>'
            )
            # Safe: the texts are our own numbers and days.
            squares.append(Markup(square))  # noqa: S704
        if day.day == 1 and day + timedelta(days=14) <= last:
            months.append(
                Markup('<text class="month" x="{}" y="11">{}</text>').format(
                    week * (CELL + GAP), day.strftime("%b")
                )
            )
        day += timedelta(days=1)
    width = ((last - start).days // 7 + 1) * (CELL + GAP)
    return Markup(
        '<svg class="heat" viewBox="0 0 {} {}" role="img" aria-label="{}">{}{}</svg>'
    ).format(
        width,
        18 + 7 * (CELL + GAP),
        f"Sessions on each day from {first} to {last}",
        Markup("").join(months),
        Markup("").join(squares),
    )
