"""A session as Markdown: to read, to paste into an issue, to hand to a model."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ..model import Session
from ..store.values import Family
from ..text import words
from ..text.clean import clean, one_line
from .outline import Block
from .pages import outcome
from .selection import Selection


def markdown(selection: Selection, *, head: bool = True) -> Iterator[str]:
    """Yield the text in parts."""
    if head:
        yield from _head(selection)
    for blocks, bodies in selection.parts():
        for block in blocks:
            for part in _block(block, bodies):
                yield f"{part}\n\n"


def _head(selection: Selection) -> Iterator[str]:
    session, family = selection.outline.session, selection.outline.family
    yield f"# {selection.clean(one_line(session.called)) or session.session_uid}\n\n"
    facts = {
        "session": f"`{session.session_uid}`",
        "repository": selection.clean(one_line(session.repo)),
        "branch": selection.clean(one_line(session.git_branch)),
        "model": one_line(session.model),
        "begun": words.local(session.started_at) if session.started_at else "",
        "cost": _cost(family, session),
    }
    yield "".join(f"- {name}: {value}\n" for name, value in facts.items() if value)
    shown, all_blocks = selection.blocks, selection.outline.blocks
    part = f"- a part of it: {len(shown)} of {len(all_blocks)} entries\n"
    yield "\n" if selection.is_whole else f"{part}\n"


def _cost(family: Family, session: Session) -> str:
    if not words.is_cost_known(family.usd, family.unpriced):
        return ""
    whole = words.usd(family.usd, family.unpriced)
    cost = words.with_subagents(
        whole, words.usd(session.cost.usd, family.own_unpriced), family.subagents
    )
    return f"{cost} ({words.without_price(family.unpriced)})" if family.unpriced else cost


def _block(block: Block, bodies: dict[int, str]) -> Iterator[str]:
    event = block.event
    text = clean(bodies.get(event.seq, "")).strip("\n")
    if block.form == "prompt":
        yield f"## {event.seq}. Prompt"
        yield text
    elif block.form == "reply":
        yield text
    elif block.form == "thought" and text:
        yield "\n".join(f"> {line}".rstrip() for line in text.split("\n"))
    elif block.form == "call":
        yield from _call(block, text, bodies)
    elif block.form in ("error", "result", "person"):
        yield f"**{event.seq}. {one_line(event.tool) or block.form}**"
        yield fenced(text or one_line(event.summary))
    elif block.form == "compact":
        yield f"*{event.seq}. compacted: what came before left the view of the model*"
    elif block.form == "cleared":
        yield f"*{event.seq}. cleared*"
    elif block.form == "summary":
        yield f"**{event.seq}. Summary of what came before**"
        yield text


def _call(block: Block, text: str, bodies: dict[int, str]) -> Iterator[str]:
    event, pair = block.event, block.call
    result = pair.result if pair else None
    output = clean(bodies.get(result.seq, "")).strip("\n") if result else ""
    became = ", ".join(word for word, _ in outcome(block, text, output))
    yield f"**{event.seq}. {one_line(event.tool) or event.kind}** ({became})"
    if text:
        yield fenced(text, "diff" if event.kind == "edit" else "")
    if output and event.kind != "edit":
        yield fenced(output)


def fenced(text: str, language: str = "") -> str:
    """Return the text between fences that are longer than any fence in it."""
    longest = max((len(run) for run in re.findall(r"`{3,}", text)), default=2)
    fence = "`" * (longest + 1)
    return f"{fence}{language}\n{text}\n{fence}"
