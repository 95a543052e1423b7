"""Changes to a delta: copies left out, events renumbered."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from ..model import BLOCK
from ..timeline import Tally
from .rows import PARENT, SEQ, read_row
from .segments import bodies_of, pack
from .values import Delta, StreamState


def repeated(delta: Delta) -> dict[int, int]:
    """Return the rows that repeat an earlier one, with the number of that row.

    They have the same native id, are copies of it, or are copies of the same original.
    """
    first: dict[int, int] = {}
    if not delta.originals:
        return {
            n: first[h] for n, h in enumerate(delta.natives) if h and first.setdefault(h, n) != n
        }
    found: dict[int, int] = {}
    originals = dict(delta.originals)
    for n, h in enumerate(delta.natives):
        names = [name for name in (h, originals.get(n)) if name]
        earlier = next((first[name] for name in names if name in first), None)
        if earlier is None:
            first.update(dict.fromkeys(names, n))
        else:
            found[n] = earlier
    return found


def rebuild(
    delta: Delta,
    state: StreamState | None,
    replaced: dict[int, list[Any] | None],
    instead: dict[int, int],
) -> Delta:
    """Return the delta with some rows replaced or left out.

    `replaced` has a row without body, or None for one to leave out. Children of a row that is left
    out get the parent in `instead`. Totals and segments are made again.
    """
    all_bodies = bodies_of(delta)
    rows: list[list[Any]] = []
    bodies: list[bytes | None] = []
    place: dict[int, int] = {}
    for n, row in enumerate(delta.rows):
        now = replaced.get(n, row)
        if now is None:
            continue
        place[n] = len(rows)
        rows.append(list(now))
        rows[-1][PARENT] = instead.get(now[PARENT], now[PARENT])
        bodies.append(None if n in replaced else all_bodies[n])
    tally = state.tally if state else Tally()
    segments = pack(rows, bodies, state.tail if state else None)
    return msgspec.structs.replace(
        delta,
        tally=tally.add(
            read_row(delta.session_uid, [*row[:PARENT], None, *row[PARENT + 1 :]]) for row in rows
        ),
        rows=[tuple(row) for row in rows],
        segments=segments,
        natives=[delta.natives[n] for n in place],
        links=[(place[n], parent) for n, parent in delta.links if n in place],
        originals=[(place[n], original) for n, original in delta.originals if n in place],
        twins=[(place[n], twin) for n, twin in delta.twins if n in place],
    )


def renumber(delta: Delta, numbers: dict[int, int], taken: set[int], fresh: int) -> Delta:
    """Return the delta of a newer adapter, numbered within the session.

    A native id that had a number keeps it, unless it is `taken`. The others are numbered in the
    block `fresh`.
    """
    number = _new_numbers(delta, numbers, taken, fresh)
    parent_of = {row[SEQ]: row[PARENT] for row in delta.rows}
    all_bodies = bodies_of(delta)
    order = sorted(range(len(delta.rows)), key=lambda n: number[delta.rows[n][SEQ]])
    rows = [_renumber_row(delta.rows[n], number, parent_of) for n in order]
    segments = pack(rows, [all_bodies[n] for n in order], None)
    place = {n: at for at, n in enumerate(order)}
    return msgspec.structs.replace(
        delta,
        rows=[tuple(row) for row in rows],
        segments=segments,
        natives=[delta.natives[n] for n in order],
        links=[(place[n], h) for n, h in delta.links],
        originals=[(place[n], h) for n, h in delta.originals],
        twins=[(place[n], h) for n, h in delta.twins],
    )


def _new_numbers(
    delta: Delta, numbers: dict[int, int], taken: set[int], fresh: int
) -> dict[int, int]:
    """Return the new number of each event by its present one, and add the new ones to `taken`."""
    number: dict[int, int] = {}
    for native, row in zip(delta.natives, delta.rows, strict=True):
        known = numbers.get(native)
        number[row[SEQ]] = fresh * BLOCK + row[SEQ] if known is None or known in taken else known
        taken.add(number[row[SEQ]])
    return number


def _renumber_row(
    row: Sequence[Any], number: dict[int, int], parent_of: dict[int, int | None]
) -> list[Any]:
    """Return a row with its new number, linked to its nearest ancestor with a lower one.

    A new event has a higher number than a known one, even if it comes before it.
    """
    seq, parent = number[row[SEQ]], row[PARENT]
    while parent is not None and number.get(parent, seq) >= seq:
        parent = parent_of.get(parent)
    renumbered = list(row)
    renumbered[SEQ], renumbered[PARENT] = seq, None if parent is None else number[parent]
    return renumbered
