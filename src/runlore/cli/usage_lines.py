"""Usage as people and programs see it: tables with bars, CSV, plain data, a line for prompts.

From values to text; of the store only titles are asked. All names come from transcripts, and pass
`one_line`.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta

from .. import usage
from ..model import Call, parse_time
from ..query import names as naming
from ..store import Store
from ..text.words import (
    PARTLY_PRICED,
    brief,
    count,
    is_cost_known,
    local,
    short,
    usd_cell,
    without_price,
)
from ..usage import Report, Row, Status
from ..usage.explain import Check, Explained, Explanation
from ..usage.table import exact
from ..usage.waste import Wasted
from .output import (
    LEAVES_FIRST,
    Column,
    cells,
    fit,
    is_colored,
    one_line,
    paint,
    screen,
    table,
    wrap,
)

BAR = 24
"""Columns of the longest bar, where there is room."""

WITH_SUBAGENTS = "SESSION + SUBAGENTS"
"""`ls` tells of each alone: what has no row of its own is added to the one it worked for."""


# ── the table ─────────────────────────────────────────────────────────────────────────────────────
def as_table(store: Store, made: Report, rows: Sequence[Row], zone: usage.Zone) -> list[str]:
    """Heads, a line for each row with a bar, what these add up to if rows are left out, and the
    total of all."""
    totals = {"shown": usage.total(rows)} if len(rows) < len(made.rows) else {}
    totals["total"] = made.total
    every = [*rows, *totals.values()]
    most = max(16, screen()[0] // 3)
    first = (
        WITH_SUBAGENTS if made.by == "session" and len(WITH_SUBAGENTS) <= most else made.by.upper()
    )
    columns = [
        Column(first, [*names(store, made.by, rows, zone), *totals], max_width=most),
        Column("CALLS", [f"{row.calls:,}" for row in every], right=True, leaves=3),
        Column("INPUT", [short(row.input_tokens) for row in every], right=True, leaves=4),
        Column("OUTPUT", [short(row.output_tokens) for row in every], right=True, leaves=5),
        Column("READ", [short(row.cache_read_tokens) for row in every], right=True, leaves=2),
        Column("WRITE", [short(row.cache_write_tokens) for row in every], right=True, leaves=1),
        Column("TOKENS", [short(row.total_tokens) for row in every], right=True, leaves=6),
        *without_subagents(made, every),
        Column("USD", dollars(every)),
    ]
    head, *lines = table(columns, min_width=8)
    room = min(BAR, screen()[0] - max(map(cells, (head, *lines))) - 2)
    drawn = bars(rows, room) if room >= 4 else [""] * len(rows)
    width = max(map(cells, lines))
    body = [
        f"{line}{' ' * (width - cells(line))}  {paint(bar, 'cyan')}".rstrip()
        for line, bar in zip(lines, drawn, strict=False)
    ]
    return [paint(head, "dim"), *body, *(paint(line, "bold") for line in lines[len(rows) :])]


def without_subagents(made: Report, rows: Sequence[Row]) -> list[Column]:
    """Return the column with what sessions cost without their subagents, and the number of these;
    none if that makes no difference in any row."""
    words = [
        f"{in_usd(alone.row)} ({alone.subagents})"
        if (alone := made.alone.get(row.key)) and in_usd(alone.row) != in_usd(row)
        else ""
        for row in rows
    ]
    return (
        [Column("WITHOUT SUBAGENTS", words, right=True, leaves=LEAVES_FIRST)] if any(words) else []
    )


def names(store: Store, by: str, rows: Sequence[Row], zone: usage.Zone) -> list[str]:
    if by in ("session", "subagent"):
        known = store.sessions.labels([row.key for row in rows if row.key])
        ids = naming.names(store, list(known))
        return [
            (
                f"{ids[row.key]} {one_line(known[row.key][1])}"
                if row.key in ids
                else one_line(row.key) or "?"
            )
            for row in rows
        ]
    if by == "block":
        return [block_name(row.key, zone) for row in rows]
    return [one_line(row.key) or "?" for row in rows]


def block_name(key: str | None, zone: usage.Zone) -> str:
    if key is None:
        return "?"
    start = parse_time(key)
    shift = timedelta(seconds=zone.offset(start.timestamp()))
    try:
        return (start + shift).strftime("%Y-%m-%d %H:%M")
    except OverflowError:  # On the last day that there is.
        return key


def dollars(rows: Sequence[Row]) -> list[str]:
    """Amounts, aligned, with a mark for each doubt; empty where no price is known."""
    amounts = [in_usd(row) for row in rows]
    width = max(map(len, amounts), default=0)
    return [
        f"{words:>{width}}{PARTLY_PRICED * bool(row.unpriced)}{'~' * bool(row.fuzzy)}"
        f"{'r' * bool(row.recorded)}"
        if words
        else ""
        for row, words in zip(rows, amounts, strict=True)
    ]


def in_usd(row: Row) -> str:
    """Return the cost of a row as a table has it, without marks; empty if no price is known."""
    return usd_cell(row.usd, row.unpriced).rstrip(PARTLY_PRICED)


def marks(total: Row) -> Iterator[str]:
    if total.unpriced:
        yield (
            f"{PARTLY_PRICED} {without_price(total.unpriced)}; `runlore usage --check` lists them"
        )
    if total.fuzzy:
        yield (
            f"~ at the price of a model with a like name: {count(total.fuzzy, 'call')}; `runlore"
            " usage --check` lists them"
        )
    if total.recorded:
        yield (f"r no price known, cost as the agent recorded it: {count(total.recorded, 'call')}")


def bars(rows: Sequence[Row], room: int) -> list[str]:
    """For each row a bar of its cost, or of its tokens where nothing has a price."""
    amounts = [row.units for row in rows]
    if not any(amounts):
        amounts = [row.total_tokens for row in rows]
    most = max(amounts, default=0) or 1
    eighths = [amount * room * 8 // most for amount in amounts]
    if not _can_draw():
        return ["#" * round(length / 8) for length in eighths]
    return ["█" * (length // 8) + " ▏▎▍▌▋▊▉"[length % 8].strip() for length in eighths]


def _can_draw() -> bool:
    try:
        "█▏".encode(sys.stdout.encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return False
    return True


# ── one session ───────────────────────────────────────────────────────────────────────────────────
def explanation_lines(uid: str, made: Explanation) -> Iterator[str]:
    yield paint(
        f"{one_line(uid)}: {_calls_and_cost(made.own)}",
        "bold",
    )
    if made.with_subagents.calls > made.own.calls:
        yield f"with its subagents: {_calls_and_cost(made.with_subagents)}"
    if unpriced := made.with_subagents.unpriced:
        yield f"{PARTLY_PRICED} {without_price(unpriced)}"
    if made.repeated.calls:
        more = made.repeated
        yield (
            f"a count by message and request, as other tools have it: {count(more.calls, 'call')},"
            f" {more.total_tokens:,} tokens more"
        )
    # Asked once: of a long session there are thousands.
    width, dim = screen()[0], "dim" if is_colored(sys.stdout) else ""
    for one in made.calls:
        yield from explained_lines(one, width, dim)
    if made.elsewhere:
        yield ""
        yield paint(
            f"counted in another session: {count(len(made.elsewhere), 'call')} of which this one"
            " has a copy",
            "bold",
        )
    for one in made.elsewhere:
        yield from explained_lines(one, width, dim, is_elsewhere=True)


def _calls_and_cost(row: Row) -> str:
    is_known = is_cost_known(row.usd, row.unpriced)
    cost = f"${exact(row.units)}{PARTLY_PRICED * bool(row.unpriced)}" if is_known else "–"
    return f"{count(row.calls, 'call')}, {row.total_tokens:,} tokens, {cost}"


def explained_lines(
    one: Explained, width: int, dim: str, *, is_elsewhere: bool = False
) -> Iterator[str]:
    call = one.call
    where = (
        f"  in {one_line(call.session_uid)}"
        if is_elsewhere
        else f"  #{call.seq}"
        if call.seq >= 0
        else ""
    )
    amount = "not priced" if one.units is None else f"${exact(one.units)}"
    before = (
        "" if one.old_units in (None, one.units) else f" (before: ${exact(one.old_units or 0)})"
    )
    yield ""
    yield (
        f"{local(call.ts, '%Y-%m-%d %H:%M:%S')}  {one_line(call.model) or '?'}{where} "
        f" {amount}{before}"
    )
    yield from _wrapped(figures(call), "  ", width)
    if one.parts:
        parts = [
            f"{part.bucket.replace('_', ' ')} {part.count:,} × ${part.rate / 10**6:g} ="
            f" ${exact(part.usd)}"
            for part in one.parts
        ]
        yield from _wrapped("; ".join(parts) + " (× the price of a million)", "  ", width, dim)
    yield from _wrapped(f"price: {one_line(one.price)}", "  ", width, dim)
    if call.recorded is not None and one.basis != "recorded":
        yield from _wrapped(f"recorded by its agent: ${exact(call.recorded)}", "  ", width, dim)
    for copy in one.copies:
        yield from _wrapped(f"not counted: {figures(copy.call)}: {copy.why}", "  - ", width, dim)


def figures(call: Call) -> str:
    shown = {
        "input": call.input_tokens,
        "output": call.output_tokens,
        "cache read": call.cache_read_tokens,
        "cache write 5m": call.cache_write_5m_tokens,
        "cache write 1h": call.cache_write_1h_tokens,
        "reasoning": call.reasoning_tokens,
        "web searches": call.web_searches,
    }
    words = [
        f"{name} {number:,}"
        for name, number in shown.items()
        if number or name in ("input", "output")
    ]
    said = [
        word
        for word in (call.tier, call.region, "side chain" * call.is_sidechain, "sum" * call.is_sum)
        if word
    ]
    return ", ".join(words + said)


def _wrapped(text: str, indent: str, width: int, style: str = "") -> Iterator[str]:
    for n, line in enumerate(wrap(text, max(20, width - len(indent)))):
        full = (indent if n == 0 else " " * len(indent)) + line
        yield paint(full, style) if style else full


# ── doubts and waste ──────────────────────────────────────────────────────────────────────────────
def check_lines(made: Check) -> Iterator[str]:
    yield paint(f"{count(made.calls, 'call')} in {count(made.sessions, 'session')}", "bold")
    yield from _doubts("without a price", made.unpriced)
    if made.unpriced:
        yield (
            '  for one: `runlore usage --refresh-prices`; or [prices."NAME"] in config.toml, then'
            " `runlore usage --reprice`"
        )
    yield from _doubts("at the price of a model with a like name", made.fuzzy)
    yield from _doubts("with something assumed about the price", made.assumed)
    if made.undated.calls:
        yield (
            f"without a time, and in no day: {count(made.undated.calls, 'call')},"
            f" ${exact(made.undated.units)}"
        )
    if made.gaps:
        yield (
            f"sessions whose events have other token totals than their calls: {len(made.gaps):,}"
            " (a call that several sessions contain counts in one of them)"
        )
        for gap in made.gaps[:10]:
            yield (
                f"  {one_line(gap.uid)}: events {gap.events_tokens:,}, calls {gap.ledger_tokens:,}"
                " tokens"
            )
    else:
        yield "the events of every session add up to the totals of its calls"
    if made.lost:
        lost_tokens = sum(one.tokens for one in made.lost)
        yield (
            f"in the running totals of transcripts, and in no record: {lost_tokens:,} tokens, which"
            " are not counted"
        )
        for lost in made.lost[:10]:
            yield f"  {one_line(lost.path)}: {lost.tokens:,} tokens"
    yield ""
    yield paint("what transcripts cannot know", "bold")
    for text in made.cannot_know:
        yield from _wrapped(text, "- ", screen()[0])


def _doubts(title: str, rows: Sequence[Row]) -> Iterator[str]:
    if not rows:
        yield f"{title}: none"
        return
    yield f"{title}: {count(sum(row.calls for row in rows), 'call')}"
    for row in rows[:20]:
        yield (
            f"  {fit(one_line(row.key) or '?', 60)}: {count(row.calls, 'call')},"
            f" {row.total_tokens:,} tokens, ${exact(row.units)}"
        )


def wasted_lines(made: Wasted) -> Iterator[str]:
    rows = {
        "abandoned lines": made.abandoned,
        "retries of what failed": made.retries,
        "attempts that failed": made.failed,
        "any of these": made.any,
        "everything": made.of,
    }
    share = [
        f"{100 * row.units / made.of.units:.1f} %" if made.of.units else "" for row in rows.values()
    ]
    head, *lines = table(
        [
            Column("SPENT ON", list(rows)),
            Column("CALLS", [f"{row.calls:,}" for row in rows.values()], right=True, leaves=1),
            Column(
                "TOKENS", [short(row.total_tokens) for row in rows.values()], right=True, leaves=2
            ),
            Column("USD", dollars(list(rows.values())), right=True),
            Column("SHARE", share),
        ],
        min_width=6,
    )
    yield paint(head, "dim")
    yield from lines
    yield ""
    yield (
        f"in {count(made.sessions, 'session')}; a call may be in several lines, and is once in any"
        " of these"
    )
    if made.unplaced.calls:
        yield (
            f"of unknown place: {count(made.unplaced.calls, 'call')}, ${exact(made.unplaced.units)}"
        )


# ── a line for prompts ────────────────────────────────────────────────────────────────────────────
def status_line(made: Status, now: datetime) -> str:
    """$3.21 today, 1.2M tokens · block $1.10, 2h14 left · project $2.00 · session $0.40."""
    parts = [f"${made.today.usd:.2f} today, {short(made.today.total_tokens)} tokens"]
    if made.block is not None:
        parts.append(
            f"block ${made.block.row.usd:.2f}, {brief((made.block.end - now).total_seconds())} left"
        )
    if made.project is not None and made.project.calls:
        parts.append(f"project ${made.project.usd:.2f}")
    if made.session is not None and made.session.calls:
        parts.append(f"session ${made.session.usd:.2f}")
    return " · ".join(parts)
