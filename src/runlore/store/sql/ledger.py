"""The ledger: API calls and their prices."""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from typing import Any

from ...model import Call
from ..calls import ALONE, COLUMNS, PRICED, SUM, from_row, has_other_request, hash_of, to_row
from ..filters import SIDECHAIN
from ..values import Billed, Kept, PriceRow
from .charges import Charges
from .database import Database, values_for
from .rollups import Rollups
from .sessions import SqlSessions
from .terms import MODEL, TARIFF, Terms

_CALL = ", ".join(f"c.{name}" for name in COLUMNS)

_MODEL = slice(COLUMNS.index(MODEL[0]), COLUMNS.index(MODEL[-1]) + 1)

_KEPT = (*COLUMNS[: _MODEL.start], "made_by", *COLUMNS[_MODEL.stop :])

CALL_COLUMNS = ("hash", "session", *_KEPT, "usd", "priced_by")
"""Of table `calls`. The view `ledger` has the words for its numbers."""

_COMPARED = [name for name in _KEPT if name in (*PRICED, "made_by")]

_IS_SAME = (
    f"excluded.usd is null and ({', '.join(f'calls.{name}' for name in _COMPARED)})"
    f" is not distinct from ({', '.join(f'excluded.{name}' for name in _COMPARED)})"
).replace(".flags", f".flags & {SIDECHAIN | SUM}")

INTO_CALLS = f"insert into calls ({', '.join(CALL_COLUMNS)})"

PUT_CALL = (
    values_for(INTO_CALLS, len(CALL_COLUMNS))
    + " on conflict (hash) do update set session = excluded.session, "
    + ", ".join(f"{name} = excluded.{name}" for name in _KEPT)
    # One more copy that does not count is no reason to price a call anew.
    + f", usd = case when {_IS_SAME} then calls.usd else excluded.usd end, old_usd = case when"
    f" {_IS_SAME} then calls.old_usd end"
    + ", priced_by = case when excluded.usd is null then calls.priced_by else"
    " excluded.priced_by end"
)

_PRICE_COLUMNS = ", ".join(f"c.{name}" for name in ("hash", "usd", *TARIFF, "old_usd"))

_SEQ = COLUMNS.index("seq")


class SqlLedger(Rollups):
    """See `Ledger` in the contracts."""

    def __init__(
        self,
        db: Database,
        sessions: SqlSessions,
        charges: type[Charges] = Charges,
    ) -> None:
        super().__init__(db)
        self.sessions = sessions
        self.charges = charges(db, self.changed)
        self.terms = Terms(db, self.changed)
        self.placed: dict[str, dict[int, int]] = {}
        """By uid of a session, the hashes and numbers of the events that were just put there."""
        db.pending.append(self)

    def flush(self) -> None:
        self.charges.flush()
        self.write_rollups()

    def clear(self) -> None:
        self.changed.clear()
        self.charges.to_charge.clear()
        self.terms.known.clear()

    def find(self, hashes: Sequence[int]) -> list[Kept]:
        sql = (
            f"select s.uid, {_CALL} from carray(?) h join ledger c on c.hash = h.value join"
            " sessions s on s.number = c.session"
        )
        rows = self.db.all(sql, (self.db.ids(hashes),)) if hashes else []
        return [from_row(uid, row) for uid, *row in rows]

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

    def resent(self, uid: str) -> list[Kept]:
        sql = f"select {_CALL} from ledger c where c.session = ? and c.superseded is not null"
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
        sql = (
            f"select {_PRICE_COLUMNS}, s.uid, {_CALL} from ledger c join sessions s on s.number ="
            f" c.session where {where}"
            " order by"
            f" {', '.join(order) if last is None else ' desc, '.join(order) + f' desc limit {last:d}'}"
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

    def unpriced(self, limit: int = 10_000) -> list[tuple[int, Call]]:
        sql = (
            f"select c.hash, s.uid, {_CALL} from ledger c join sessions s on s.number = c.session"
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

    def put(self, calls: Iterable[Kept]) -> None:
        """Keeps calls as they are settled. One of a session that was forgotten has none to belong
        to."""
        kept_calls = list(calls)
        if not kept_calls:
            return
        events: dict[str, list[int]] = {}
        for kept in kept_calls:
            if kept.event:
                events.setdefault(kept.call.session_uid, []).append(kept.event)
        places = {uid: self._seqs(uid, wanted) for uid, wanted in events.items()}
        # Not by a select in the statement: see `_put_aliases`.
        numbers = {
            uid: self.sessions.number(uid) for uid in {kept.call.session_uid for kept in kept_calls}
        }
        rows = []
        for kept in kept_calls:
            call = kept.call
            number = numbers[call.session_uid]
            if number is None:
                continue
            seq = places[call.session_uid].get(kept.event, call.seq) if kept.event else call.seq
            rows.append(self.row(kept, number, seq))
        if not rows:
            return
        with self.db.transaction():
            there = self._stored([row[0] for row in rows])
            self._put_rows(rows, there)
            # What was counted for one session may now count for another.
            self.touch_sessions({*there.values(), *(row[1] for row in rows)})

    def _stored(self, hashes: Sequence[int]) -> dict[int, int]:
        """Those of these calls that are there, with their session."""
        sql = "select hash, session from carray(?) h join calls on hash = h.value"
        return dict(self.db.all(sql, (self.db.ids(hashes),))) if hashes else {}

    def _put_rows(self, rows: list[list[Any]], there: Container[int]) -> None:
        """Puts calls; `there` has the hashes of those that are there already."""
        self.db.executemany(f"{PUT_CALL} {self.db.may_replace_call}", rows)

    def touch_calls(self, hashes: list[int]) -> None:
        self.touch_sessions(self._sessions_of(hashes))

    def touch_sessions(self, sessions: set[int]) -> None:
        """The calls of these sessions are to be added up again, and to be charged."""
        self.changed |= sessions
        for session in sessions:
            self.charges.to_charge.setdefault(session)

    def _seqs(self, uid: str, events: list[int]) -> dict[int, int]:
        """Where events are, by the hash of their native id; of a record that gave none, the one
        that it follows."""
        # Nearly all came with the calls. Looking for each of them again would take a fifth of what
        # keeping the calls does.
        placed = self.placed.get(uid, {})
        found = {event: placed[event] for event in events if event in placed}
        if not (rest := [event for event in events if event not in found]):
            return found
        session = self.sessions.number(uid)
        natives = (
            "select n.hash, n.seq from carray(?) c join natives n on n.hash = c.value and"
            " n.session = ?"
        )
        found |= dict(self.db.all(natives, (self.db.ids(rest), session)))
        if rest := [event for event in rest if event not in found]:
            aliases = (
                "select a.hash, a.seq from carray(?2) c join aliases a on a.hash = c.value and"
                " a.source in (select source from streams where session = ?1) and a.session = ?1"
            )
            found |= dict(self.db.all(aliases, (session, self.db.ids(rest))))
        return found

    def row(self, kept: Kept, session: int, seq: int) -> list[Any]:
        """A call of a session as it is kept: the values of `CALL_COLUMNS`."""
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
