"""The ledger in the PostgreSQL store: calls are kept, priced, and added up."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from ..model import format_time
from . import Billed, CallFilter, CallSum, Filter, Kept, PriceRow
from ._postgres_db import array
from ._postgres_read import PostgresReader, glob, where_of
from ._sqlite_calls import _CALL, _KEYS, _PART, _SLOT, _TOPS, Ledger, _day, _price_values, _sum
from .calls import COLUMNS, PRICED, SIDECHAIN, from_row, hash_of, to_row

_SEQ = COLUMNS.index("seq")
_PRICES = ("usd", "basis", "price_source", "price_since", "price_match", "price_name", "price_above", "price_notes")
_IS_SAME = " and ".join(f"c.{name} is not distinct from excluded.{name}" for name in PRICED)
_PUT = (
    f"insert into calls as c (hash, session, {', '.join(COLUMNS + _PRICES)})"
    f" select ?, number{', ?' * len(COLUMNS + _PRICES)} from sessions where uid = ?"
    " on conflict (hash) do update set session = excluded.session, "
    + ", ".join(f"{name} = excluded.{name}" for name in COLUMNS)
    # One more copy that does not count is no reason to price a call anew.
    + "".join(f", {name} = case when c.usd is not null and {_IS_SAME} then c.{name} else excluded.{name} end" for name in _PRICES)
    + f", old_usd = case when {_IS_SAME} then c.old_usd end"
    # Whoever stored a call first has it: nobody can take it from them.
    + " where (select author from sessions where number = c.session) is not distinct from"
    " (select author from sessions where number = excluded.session)"
)
_SET_PRICE = f"update calls set {' = ?, '.join(_PRICES)} = ? where hash = ?"
_USD = "(select (sum(usd) * 0.000000000001)::double precision from calls where session = number and basis != 'none')"
_SUMS = (
    "count(*)",
    *(
        f"sum(c.{name})::bigint"
        for name in (
            "input_tokens", "output_tokens", "cache_read_tokens", "cache_write_5m_tokens", "cache_write_1h_tokens",
            "reasoning_tokens", "web_searches",
        )
    ),
    f"coalesce(sum(c.usd / {_PART}), 0)::bigint",
    f"coalesce(sum(c.usd % {_PART}), 0)::bigint",
    "count(*) filter (where (c.usd is null or c.basis = 'none') and (c.model is null or c.model not like '<%'))",
    "count(*) filter (where c.price_match = 'fuzzy')",
)  # fmt: skip
_BELOW = (
    '(with recursive below (uid) as (select ?::text collate "C" union'
    " select s.uid from below join sessions s on s.parent_uid = below.uid and s.relation = 'subagent')"
    " select number from sessions where uid in (select uid from below))"
)
_TIME = "floor(extract(epoch from c.ts::timestamptz))::bigint"
_SLOTS = f"floor({_TIME} / {_SLOT}.0)::bigint"


class PostgresLedger(PostgresReader, Ledger):
    """The part of `PostgresStore` that counts and prices."""

    # ── sums ─────────────────────────────────────────────────────────────────────────────────────────────────────────
    def sum_calls(self, by: Sequence[str], chosen: CallFilter, offsets: Sequence[tuple[int, int]] = ()) -> list[CallSum]:
        keys = [(_day(offsets) if name == "day" else _KEYS[name]).replace(f"g.flags & {SIDECHAIN}", "c.flags & 1 != 0") for name in by]
        keys = [key.replace("g.slot", _SLOTS).replace("g.", "c.") for key in keys]
        where, bindings = _calls_where(chosen)
        sql = (
            f"{_TOPS if 'session' in by else ''}select {''.join(f'{key}, ' for key in keys)}{', '.join(_SUMS)}"
            f" from calls c join sessions s on s.number = c.session"
            f"{' left join tops t on t.number = c.session' if 'session' in by else ''} {where}"
            f" {'group by ' + ', '.join(map(str, range(1, len(keys) + 1))) if keys else 'having count(*) > 0'}"
        )
        return [_sum(row, len(keys)) for row in self._all(sql, bindings)]

    # ── single calls ─────────────────────────────────────────────────────────────────────────────────────────────────
    def calls(self, hashes: Sequence[int]) -> list[Kept]:
        sql = f"select s.uid, {_CALL} from calls c join sessions s on s.number = c.session where c.hash = any(?::bigint[])"
        rows = self._all(sql, (array(hashes),)) if hashes else []
        return [from_row(uid, row) for uid, *row in rows]

    def copied_calls(self, uid: str) -> list[Billed]:
        # The uid stands in the packed copies as it is, so most rows need not be unpacked.
        found = self._billed("c.superseded is not null and s.uid != ? and position(?::bytea in c.superseded) > 0", (uid, uid.encode()))
        return [one for one in found if any(copy.session_uid == uid for copy in one.kept.superseded)]

    # ── keeping and pricing ──────────────────────────────────────────────────────────────────────────────────────────
    def _put_calls(self, calls: Iterable[Kept]) -> None:
        """Keeps calls as they are settled. One of a session that was forgotten has none to belong to."""
        kept_calls = list(calls)
        if not kept_calls:
            return
        events: dict[str, list[int]] = {}
        for kept in kept_calls:
            if kept.event:
                events.setdefault(kept.call.session_uid, []).append(kept.event)
        places = {uid: self._seqs(uid, wanted) for uid, wanted in events.items()}
        rows = []
        for kept in kept_calls:
            row = to_row(kept)
            if kept.event:
                row[_SEQ] = places[kept.call.session_uid].get(kept.event, kept.call.seq)
            rows.append([hash_of(kept.call), *row, *_price_values(kept.price), kept.call.session_uid])
        hashes = [row[0] for row in rows]
        with self.transaction():
            self._to_sum |= self._sessions_of(hashes)  # What was counted for one session may now count for another.
            self.db.executemany(_PUT, rows)
            self._to_sum |= {number for kept in kept_calls if (number := self._number(kept.call.session_uid)) is not None}

    def _seqs(self, uid: str, events: list[int]) -> dict[int, int]:
        """Where events are, by the hash of their native id; of a record that gave none, the one that it follows."""
        session = self._number(uid)
        natives = "select hash, seq from natives where hash = any(?::bigint[]) and session = ?"
        found: dict[int, int] = dict(self._all(natives, (array(events), session)))
        rest = [event for event in events if event not in found]
        if rest:
            aliases = (
                "select hash, seq from aliases where source in (select source from streams where session = ?1)"
                " and hash = any(?2::bigint[]) and session = ?1"
            )
            found |= dict(self._all(aliases, (session, array(rest))))
        return found

    def set_prices(self, prices: Iterable[PriceRow]) -> None:
        rows = [(*_price_values(price), price.hash) for price in prices]
        if not rows:
            return
        with self.transaction():
            self.db.executemany(_SET_PRICE, rows)
            self._to_sum |= self._sessions_of([row[-1] for row in rows])

    def unprice(self, sources: Sequence[str] | None = None) -> int:
        with self.transaction():
            chosen = "usd is not null and basis != 'invoiced'"
            if sources is not None:
                chosen += f" and price_match != 'exact' and coalesce(price_source, '') not in (?{', ?' * (len(sources) - 1)})"
            first = "case when coalesce(old_usd, 0) = 0 then usd else old_usd end"
            sql = f"update calls set old_usd = {first}, usd = null where {chosen} returning session"
            changed = [session for (session,) in self._all(sql, tuple(sources or ()))]
            self._to_sum.update(changed)
            return len(changed)

    def _sessions_of(self, hashes: Any) -> set[int]:
        sql = "select distinct session from calls where hash = any(?::bigint[])"
        return {session for (session,) in self._all(sql, (array(hashes),))}

    def wrong_sums(self) -> list[int]:
        return [number for (number,) in self._all(f"select number from sessions where usd is distinct from {_USD}")]

    def _sum_up(self) -> None:
        """What the sessions cost whose calls changed. All other sums are made when they are asked for."""
        if self._to_sum:
            self.db.execute(f"update sessions set usd = {_USD} where number = any(?::bigint[])", (array(sorted(self._to_sum)),))
            self._to_sum.clear()


def _calls_where(chosen: CallFilter) -> tuple[str, list[Any]]:
    parts: list[str] = []
    bindings: list[Any] = []
    for sign, moment in ((">=", chosen.since), ("<", chosen.until)):
        if moment is not None:
            parts.append(f"c.ts {sign} ?")
            bindings.append(format_time(moment))
    if chosen.model is not None:
        parts.append("lower(c.model) ~ ?")
        bindings.append(glob(chosen.model.lower(), is_part=True))
    if chosen.session is not None:
        parts.append(f"c.session in {_BELOW}")
        bindings.append(chosen.session)
    if chosen.is_subagent is not None:
        sub = f"(c.flags & {SIDECHAIN} != 0 or c.session in (select number from sessions where relation = 'subagent'))"
        parts.append(sub if chosen.is_subagent else f"not {sub}")
    names = ("agent", "repo", "cwd", "branch", "machine")
    where, more = where_of(Filter(parents_only=False, **{name: getattr(chosen, name) for name in names}))
    if where:
        parts.append(f"c.session in (select number from sessions {where})")
        bindings += more
    return f"where {' and '.join(parts)}" if parts else "", bindings
