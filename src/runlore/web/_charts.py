"""Charts as SVG, made here: the numbers are in the page, as hover values and as a table, and no script draws anything.

From values to markup; colours are classes, so that they follow the theme.
"""

from __future__ import annotations

from markupsafe import Markup

from .._words import local, short
from ..export.outline import Outline
from ..model import SessionEvent

STRIP_BARS = 160
"""Of a session's strip: about five pixels each."""
FEWEST_BARS = 60
"""A short session does not fill it: wide bars say no more."""


def strip(found: Outline) -> Markup:
    """A session at a glance: for each stretch of it the tokens that were made, errors and prompts. Each leads to where it begins."""
    blocks = found.blocks
    if not blocks:
        return Markup("")
    size = max(1, -(-len(blocks) // STRIP_BARS))
    groups = [blocks[at : at + size] for at in range(0, len(blocks), size)]
    made = [sum(_made(block.event) for block in group) for group in groups]
    most = max(made) or 1
    width = 1000 / max(len(groups), FEWEST_BARS)
    tick = Markup('<rect class="{}" x="{:.2f}" y="{}" width="{:.2f}" height="3"/>')
    bars = []
    for n, (group, tokens) in enumerate(zip(groups, made, strict=True)):
        errors = sum(block.event.is_error or bool(block.call and block.call.failed) or block.form == "error" for block in group)
        prompts = sum(block.form == "prompt" for block in group)
        first, last = group[0].event, group[-1].event
        tip = f"#{first.seq}–#{last.seq}\n{local(first.ts, '%m-%d %H:%M')}\n{short(tokens)} tokens made"
        tip += f", {errors} errors" if errors else ""
        height = max(2.0, 30 * (tokens / most) ** 0.5) if tokens else 1.5  # The root: one long answer would flatten all else.
        parts = [Markup('<rect class="hit" x="{:.2f}" y="0" width="{:.2f}" height="44"/>').format(n * width, width)]
        bar = Markup('<rect class="bar" x="{:.2f}" y="{:.2f}" width="{:.2f}" height="{:.2f}"/>')
        parts.append(bar.format(n * width + width * 0.12, 34 - height, width * 0.76, height))
        for kind, top, number in (("ask", 36, prompts), ("err", 40, errors)):
            if number:
                parts.append(tick.format(kind, n * width + width * 0.12, top, max(2.0, width * 0.76)))
        link = Markup('<a href="#{0}" data-first="{0}" data-last="{1}" data-tip="{2}" tabindex="-1">{3}</a>')
        bars.append(link.format(first.seq, last.seq, tip, Markup("").join(parts)))
    return Markup('<svg class="strip" viewBox="0 0 1000 44" preserveAspectRatio="none" aria-hidden="true">{}</svg>').format(
        Markup("").join(bars)
    )


def _made(event: SessionEvent) -> int:
    return event.usage.output_tokens if event.usage is not None else 0
