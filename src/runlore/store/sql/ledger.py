"""The ledger: API calls and their prices."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Any

from ...model import Call
from ..calls import ALONE, COLUMNS, PRICED, SUM, from_row, has_other_request, hash_of, to_row
from ..filters import SIDECHAIN
from ..known import KnownCall
from ..rows import copied
from ..values import Billed, LedgerCall, PriceRow
from .charges import Charges
from .database import Database, values_for
from .group import PutGroup
from .rollups import Rollups
from .sessions import SqlSessions
from .terms import MODEL, TARIFF, Terms

CALL = ", ".join(f"c.{name}" for name in COLUMNS)

_MODEL = slice(COLUMNS.index(MODEL[0]), COLUMNS.index(MODEL[-1]) + 1)

_STORED = (*COLUMNS[: _MODEL.start], "made_by", *COLUMNS[_MODEL.stop :])

CALL_COLUMNS = ("hash", "session", *_STORED, "usd", "priced_by")
"""The columns of table `calls`. The view `ledger` has words in place of its numbers."""

_COMPARED = [name for name in _STORED if name in (*PRICED, "made_by")]

_IS_SAME = (
    f"excluded.usd is null and ({', '.join(f'calls.{name}' for name in _COMPARED)})"
    f" is not distinct from ({', '.join(f'excluded.{name}' for name in _COMPARED)})"
).replace(".flags", f".flags & {SIDECHAIN | SUM}")

INTO_CALLS = f"calls ({', '.join(CALL_COLUMNS)})"

PUT_CALL = (
    values_for(f"insert into {INTO_CALLS}", len(CALL_COLUMNS))
    + " on conflict (hash) do update set session = excluded.session, "
    + ", ".join(f"{name} = excluded.{name}" for name in _STORED)
    # One more copy that does not count is no reason to price a call anew.
    + f", usd = case when {_IS_SAME} then calls.usd else excluded.usd end, old_usd = case when"
    f" {_IS_SAME} then calls.old_usd end"
    + ", priced_by = case when excluded.usd is null then calls.priced_by else"
    " excluded.priced_by end"
)

_PRICE_COLUMNS = ", ".join(f"c.{name}" for name in ("hash", "usd", *TARIFF, "old_usd"))

_SEQ = COLUMNS.index("seq")

_UNKNOWN = KnownCall(None, -1, "", -1)
"""Stands for a call that has to be looked up."""


class SqlLedger(Rollups):
    """See `Ledger` in the contracts."""

    def __init__(
        self,
        db: Database,
        sessions: SqlSessions,
        group: PutGroup,
        charges: type[Charges] = Charges,
    ) -> None:
        super().__init__(db)
        self.sessions, self.group = sessions, group
        self.charges = charges(db, self.changed)
        self.terms = Terms(db, self.changed)
        db.pending.append(self)

    def flush(self) -> None:
        self.charges.flush()
        self.write_rollups()

    def clear(self) -> None:
        self.changed.clear()
        self.charges.to_charge.clear()
        self.terms.known.clear()

    def find(self, hashes: Sequence[int]) -> list[LedgerCall]:
        group = self.group.known
        known = [group.calls.get(h, _UNKNOWN) for h in hashes] if group else [_UNKNOWN]
        if all(one is None or one.kept is not None for one in known):
            return [self._as_stored(one) for one in known if one is not None]
        sql = (
            f"select s.uid, {CALL} from carray(?) h join ledger c on c.hash = h.value join"
            " sessions s on s.number = c.session"
        )
        rows = self.db.all(sql, (self.db.ids(hashes),)) if hashes else []
        return [from_row(uid, row) for uid, *row in rows]

    def _as_stored(self, call: KnownCall) -> LedgerCall:
        """Return the call as the database would give it back."""
        assert call.kept is not None
        row = self.db.storable(to_row(call.kept))
        row[_SEQ] = call.seq
        return from_row(call.uid, row)

    def billed(
        self, uid: str, last: int | None = None, at: Sequence[int] | None = None
    ) -> list[Billed]:
        if at is None:
            return self._billed_where("s.uid = ?", (uid,), last)
        return (
            self._billed_where(
                "s.uid = ? and c.seq in (select v.value from carray(?) v)",
                (uid, self.db.ids(at)),
                last,
            )
            if at
            else []
        )

    def resent(self, uid: str) -> list[LedgerCall]:
        sql = f"select {CALL} from ledger c where c.session = ? and c.superseded is not null"
        return [
            from_row(uid, row)
            for row in self.db.all(sql, (self.sessions.number(uid),))
            if has_other_request(row[-1])
        ]

    def spent(self, uid: str) -> list[tuple[int, int, int | None]]:
        sql = (
            "select seq, input_tokens + output_tokens + cache_read_tokens + cache_write_5m_tokens +"
            " cache_write_1h_tokens, case when basis != 'none' then usd end from ledger where"
            " session = ?"
        )
        return [tuple(row) for row in self.db.all(sql, (self.sessions.number(uid),))]

    def copied(self, uid: str) -> list[Billed]:
        # Few sessions have a call of which another has a copy. The uid stands in the packed copies
        # as it is, so few of them are unpacked.
        shared = f"c.session in (select session from sums where flags & {ALONE} = 0) and s.uid != ?"
        found = self._billed_where(
            f"{shared} and c.superseded is not null and {self.db.has_bytes.format('c.superseded')}",
            (uid, uid.encode()),
        )
        return [
            one for one in found if any(copy.session_uid == uid for copy in one.kept.superseded)
        ]

    def _billed_where(
        self, where: str, bindings: Sequence[Any], last: int | None = None
    ) -> list[Billed]:
        order = ("c.ts is null", "c.ts", "c.key")
        sorted_by = (
            ", ".join(order) if last is None else f"{' desc, '.join(order)} desc limit {last:d}"
        )
        sql = (
            f"select {_PRICE_COLUMNS}, s.uid, {CALL} from ledger c join sessions s on s.number ="
            f" c.session where {where} order by {sorted_by}"
        )
        found = []
        for row in self.db.all(sql, bindings)[:: 1 if last is None else -1]:
            price, old, uid, call = row[:9], row[9], row[10], row[11:]
            found.append(
                Billed(
                    kept=from_row(uid, call),
                    price=None if price[1] is None else PriceRow(*price),
                    old_usd=old,
                )
            )
        return found

    def misplaced(self, uids: Collection[str]) -> list[tuple[LedgerCall, str]]:
        if not uids:
            return []
        test, names = self.db.among("s.uid", uids)
        # An event without a body of its own may be a copy.
        sql = (
            f"select e.rest, s.uid, {CALL} from sessions s join ledger c on c.session = s.number"
            ' join events e on e.session = c.session and e.seq = c.seq and e."offset" is null'
            f" where s.relation in ('fork', 'continuation') and {test}"
        )
        found = ((copied(rest)[0], uid, row) for rest, uid, *row in self.db.all(sql, (names,)))
        return [(from_row(uid, row), origin) for origin, uid, row in found if origin is not None]

    def move(self, calls: Sequence[tuple[LedgerCall, int]]) -> None:
        numbers = {uid: self.sessions.number(uid) for uid in {c.call.session_uid for c, _ in calls}}
        rows, hashes = [], []
        for kept, seq in calls:
            number = numbers[kept.call.session_uid]
            if number is not None:
                rows.append(self.row(kept, number, seq))
                hashes.append(hash_of(kept.call))
        if not rows:
            return
        with self.db.transaction():
            self.touch_calls(hashes)
            self.db.executemany(f"{PUT_CALL} {self.db.may_replace_call}", rows)
            self.touch_calls(hashes)

    def unpriced(self, limit: int = 10_000) -> list[tuple[int, Call]]:
        sql = (
            f"select c.hash, s.uid, {CALL} from ledger c join sessions s on s.number = c.session"
            " where c.usd is null limit ?"
        )
        return [(h, from_row(uid, row).call) for h, uid, *row in self.db.all(sql, (limit,))]

    def set_prices(self, prices: Iterable[PriceRow]) -> None:
        given = list(prices)
        if not given:
            return
        with self.db.transaction():
            rows = [
                (price.usd, self.terms.tariff(_tariff_of(price)), price.hash) for price in given
            ]
            self.db.executemany("update calls set usd = ?, priced_by = ? where hash = ?", rows)
            self.changed |= self._sessions_of([price.hash for price in given])

    def unprice(self, sources: Sequence[str] | None = None) -> int:
        with self.db.transaction():
            which = "basis != 'invoiced'"
            if sources is not None:
                which = (
                    "number < 0 and coalesce(price_source, '') not in"
                    f" (?{', ?' * (len(sources) - 1)})"
                )
            chosen = f"usd is not null and priced_by in (select number from tariffs where {which})"
            if sources is not None:
                chosen += " and priced_by < 0"  # As the index of them has it.
            first = "case when coalesce(old_usd, 0) = 0 then usd else old_usd end"
            sql = f"update calls set old_usd = {first}, usd = null where {chosen} returning session"
            changed = [session for (session,) in self.db.all(sql, tuple(sources or ()))]
            self.changed.update(changed)
            return len(changed)

    def touch_calls(self, hashes: list[int]) -> None:
        self.touch_sessions(self._sessions_of(hashes))

    def touch_sessions(self, sessions: set[int]) -> None:
        """Note that the calls of these sessions changed: rollups and marks are made again."""
        self.changed |= sessions
        for session in sessions:
            self.charges.to_charge.setdefault(session)

    def row(self, kept: LedgerCall, session: int, seq: int) -> list[Any]:
        """Return the values of `CALL_COLUMNS` for a call."""
        row, price = to_row(kept), kept.price
        row[_SEQ] = seq
        row[_MODEL] = [self.terms.model(row[_MODEL])]
        cost = (
            (price.usd, self.terms.tariff(_tariff_of(price))) if price is not None else (None, None)
        )
        return [hash_of(kept.call) if price is None else price.hash, session, *row, *cost]

    def _sessions_of(self, hashes: list[int]) -> set[int]:
        return {
            n
            for (n,) in self.db.all(
                "select distinct session from carray(?) h join calls on hash = h.value",
                (self.db.ids(hashes),),
            )
        }


def _tariff_of(price: PriceRow) -> tuple[Any, ...]:
    return price.basis, price.source, price.since, price.match, price.name, price.above, price.notes
