"""What a batch adds to one session, changed: copies left out, numbers given anew."""

from __future__ import annotations

from typing import Any

import msgspec

from ..model import (
    BLOCK,
)
from ..timeline import Tally
from .rows import PARENT, SEQ, read_row
from .segments import bodies_of, pack
from .values import Delta, StreamState


def repeated(delta: Delta) -> dict[int, int]:
    """The rows that repeat an earlier one, by its native id or as copies of it or of the same
    original, and which it is."""
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
    """The delta as it is when some rows are copies: None leaves the row out, another row stands in
    its place, without its body. What followed a row that was left out follows `instead`. Every sum
    over the rows is made again."""
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
    )


def renumber(delta: Delta, numbers: dict[int, int], taken: set[int], fresh: int) -> Delta:
    """A newer adapter made other events of the same records: a native id that had a number keeps
    it, unless that is `taken`, the others get the number that counting gives them in the block
    `fresh`. What comes out is numbered within the session."""
    number: dict[int, int] = {}
    for h, row in zip(delta.natives, delta.rows, strict=True):
        known = numbers.get(h)
        number[row[SEQ]] = fresh * BLOCK + row[SEQ] if known is None or known in taken else known
        taken.add(number[row[SEQ]])
    parent_of = {row[SEQ]: row[PARENT] for row in delta.rows}
    all_bodies = bodies_of(delta)
    order = sorted(range(len(delta.rows)), key=lambda n: number[delta.rows[n][SEQ]])
    rows: list[list[Any]] = []
    for n in order:
        made = list(delta.rows[n])
        seq, parent = number[made[SEQ]], made[PARENT]
        # The parent may be one of the new ones and lie behind: then the one before it is the
        # parent.
        while parent is not None and number.get(parent, seq) >= seq:
            parent = parent_of.get(parent)
        made[SEQ], made[PARENT] = seq, None if parent is None else number[parent]
        rows.append(made)
    segments = pack(rows, [all_bodies[n] for n in order], None)
    place = {n: at for at, n in enumerate(order)}
    return msgspec.structs.replace(
        delta,
        rows=[tuple(row) for row in rows],
        segments=segments,
        natives=[delta.natives[n] for n in order],
        links=[(place[n], h) for n, h in delta.links],
        originals=[(place[n], h) for n, h in delta.originals],
    )
