"""The ledger: calls are kept and priced, in words that both databases understand. `_sql_sums` adds them up, `_sql_charges` marks them."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from typing import Any, ClassVar

from ..model import Call
from . import Billed, Kept, PriceRow
from ._sql_charges import Charger
from .asked import MARKS
from .calls import COLUMNS, PRICED, from_row, hash_of, to_row

_CALL = ", ".join(f"c.{name}" for name in COLUMNS)
_PRICE = ("usd", "basis", "price_source", "price_since", "price_match", "price_name", "price_above", "price_notes")
CALL_COLUMNS = ("hash", "session", *COLUMNS, *_PRICE)
_IS_SAME = (
    f"excluded.usd is null and ({', '.join(f'calls.{name}' for name in PRICED)})"
    f" is not distinct from ({', '.join(f'excluded.{name}' for name in PRICED)})"
).replace("calls.flags", f"calls.flags & {~MARKS}")
_PUT = (
    f"insert into calls ({', '.join(CALL_COLUMNS)}) values (?{', ?' * (len(CALL_COLUMNS) - 1)})"
    " on conflict (hash) do update set session = excluded.session, "
    + ", ".join(f"{name} = excluded.{name}" for name in COLUMNS)
    # One more copy that does not count is no reason to price a call anew.
    + f", usd = case when {_IS_SAME} then calls.usd else excluded.usd end, old_usd = case when {_IS_SAME} then calls.old_usd end"
    + "".join(f", {name} = case when excluded.usd is null then calls.{name} else excluded.{name} end" for name in _PRICE[1:])
)
_SET_PRICE = f"update calls set {' = ?, '.join(_PRICE)} = ? where hash = ?"
_PRICE_COLUMNS = (
    "c.hash, c.usd, c.basis, c.price_source, c.price_since, c.price_match, c.price_name, c.price_above, c.price_notes, c.old_usd"
)

_SEQ = COLUMNS.index("seq")


class Ledger(Charger):
    """The part of a store that counts and prices."""

    keeps_calls: ClassVar[str] = ""
    """What must be true of a call that is there, so that another may take its place."""

    @abstractmethod
    def transaction(self) -> AbstractContextManager[None]:
        """See `Store`."""

    # ── single calls ─────────────────────────────────────────────────────────────────────────────────────────────────
    def calls(self, hashes: Sequence[int]) -> list[Kept]:
        sql = f"select s.uid, {_CALL} from carray(?) h join calls c on c.hash = h.value join sessions s on s.number = c.session"
        rows = self._all(sql, (self.ids(hashes),)) if hashes else []
        return [from_row(uid, row) for uid, *row in rows]

    def billed(self, uid: str) -> list[Billed]:
        return self._billed("s.uid = ?", (uid,))

    def spent(self, uid: str) -> list[tuple[int, int, int | None]]:
        sql = (
            "select seq, input_tokens + output_tokens + cache_read_tokens + cache_write_5m_tokens + cache_write_1h_tokens,"
            " case when basis != 'none' then usd end from calls where session = ?"
        )
        return [tuple(row) for row in self._all(sql, (self._number(uid),))]

    def copied_calls(self, uid: str) -> list[Billed]:
        # The uid stands in the packed copies as it is, so most rows need not be unpacked.
        found = self._billed(f"c.superseded is not null and s.uid != ? and {self.has_bytes.format('c.superseded')}", (uid, uid.encode()))
        return [one for one in found if any(copy.session_uid == uid for copy in one.kept.superseded)]

    def _billed(self, where: str, bindings: Sequence[Any]) -> list[Billed]:
        sql = (
            f"select {_PRICE_COLUMNS}, s.uid, {_CALL} from calls c join sessions s on s.number = c.session"
            f" where {where} order by c.ts is null, c.ts, c.key"
        )
        found = []
        for row in self._all(sql, bindings):
            price, old, uid, call = row[:9], row[9], row[10], row[11:]
            found.append(Billed(kept=from_row(uid, call), price=None if price[1] is None else PriceRow(*price), old_usd=old))
        return found

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
        # Not by a select in the statement: see `_put_aliases`.
        numbers = {uid: self._number(uid) for uid in {kept.call.session_uid for kept in kept_calls}}
        rows = []
        for kept in kept_calls:
            call = kept.call
            number = numbers[call.session_uid]
            if number is None:
                continue
            seq = places[call.session_uid].get(kept.event, call.seq) if kept.event else call.seq
            rows.append(call_row(kept, number, seq))
        if not rows:
            return
        hashes = [row[0] for row in rows]
        with self.transaction():
            self._touch_calls(hashes)  # What was counted for one session may now count for another.
            self.db.executemany(f"{_PUT} {self.keeps_calls}", rows)
            self._touch_calls(hashes)

    def _touch_calls(self, hashes: list[int]) -> None:
        """The sessions of these calls are to be added up again, and to be charged."""
        sessions = self._sessions_of(hashes)
        self._to_sum |= sessions
        for session in sessions:
            self._to_charge.setdefault(session)

    def _seqs(self, uid: str, events: list[int]) -> dict[int, int]:
        """Where events are, by the hash of their native id; of a record that gave none, the one that it follows."""
        session = self._number(uid)
        natives = "select n.hash, n.seq from carray(?) c join natives n on n.hash = c.value and n.session = ?"
        found: dict[int, int] = dict(self._all(natives, (self.ids(events), session)))
        rest = [event for event in events if event not in found]
        if rest:
            aliases = (
                "select a.hash, a.seq from carray(?2) c join aliases a on a.hash = c.value"
                " and a.source in (select source from streams where session = ?1) and a.session = ?1"
            )
            found |= dict(self._all(aliases, (session, self.ids(rest))))
        return found

    def unpriced(self, limit: int = 10_000) -> list[tuple[int, Call]]:
        sql = f"select c.hash, s.uid, {_CALL} from calls c join sessions s on s.number = c.session where c.usd is null limit ?"
        return [(h, from_row(uid, row).call) for h, uid, *row in self._all(sql, (limit,))]

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

    def _sessions_of(self, hashes: list[int]) -> set[int]:
        return {n for (n,) in self._all("select distinct session from carray(?) h join calls on hash = h.value", (self.ids(hashes),))}


def call_row(kept: Kept, session: int, seq: int) -> list[Any]:
    """A call of a session as it is kept: the values of `CALL_COLUMNS`."""
    row = to_row(kept)
    row[_SEQ] = seq
    return [hash_of(kept.call), session, *row, *_price_values(kept.price)]


def _price_values(price: PriceRow | None) -> tuple[Any, ...]:
    if price is None:
        return (None,) * len(_PRICE)
    return price.usd, price.basis, price.source, price.since, price.match, price.name, price.above, price.notes
