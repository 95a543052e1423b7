"""What is taken out of a store again, in words that both databases understand: secrets, and
sessions that are to be forgotten."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable
from datetime import datetime

import msgspec

from ..adapters import Facts
from ..model import BLOCK, format_time
from ..timeline import Tally
from ._sql_copy import Taker
from ._sql_digests import Shelf
from ._sql_put import INSERT_EVENT
from .pieces import (
    LENGTH,
    OFFSET,
    SEQ,
    Cleaner,
    clean_carry,
    clean_facts,
    pack_one,
    pack_records,
    read_row,
    redact_record,
    redact_row,
    unpack,
    unpack_records,
    with_origin,
)


class Forgetter(Taker, Shelf):
    """The part of a store that removes."""

    @abstractmethod
    def purge(self) -> None:
        """See `Store`."""

    @abstractmethod
    def _drop_sessions(self, numbers: list[int]) -> None:
        """Drops all that is stored of these sessions, and what is kept of their sources."""

    def redact_again(self, source: int, version: str, cleaner: Cleaner) -> int:
        with self.transaction():
            changed = self._redact_models(source, cleaner)
            for session, block in self._all(
                "select session, block from streams where source = ?", (source,)
            ):
                changed += self._redact_block(session, block, cleaner)
            for (session,) in self._all(
                "select distinct session from streams where source = ?", (source,)
            ):
                changed += self._redact_digest(session, cleaner)
            for first, length, body in self._all(
                "select first, length, body from records where source = ?", (source,)
            ):
                records = unpack_records(body, length)
                clean = [
                    msgspec.structs.replace(record, data=redact_record(record.data, cleaner))
                    for record in records
                ]
                if clean != records:
                    self.db.execute(
                        "delete from records where source = ? and first = ?", (source, first)
                    )
                    packed = pack_records(clean, first)
                    self.db.executemany(
                        "insert into records values (?, ?, ?, ?, ?)",
                        ((source, *part) for part in packed),
                    )
            (carry,) = self._one("select carry from sources where number = ?", (source,))
            carry = carry and clean_carry(carry, cleaner)
            self.db.execute(
                "update sources set redact_version = ?, carry = ? where number = ?",
                (version, carry, source),
            )
            self._fold_all(source)
            for number, repo, task in self._all(
                "select distinct number, repo, task_ref from sessions join streams on session ="
                " number where source = ?",
                (source,),
            ):
                self.db.execute(
                    "update sessions set repo = ?, task_ref = ? where number = ?",
                    (repo and cleaner.text(repo), task and cleaner.text(task), number),
                )
        return changed

    def _redact_block(self, session: int, block: int, cleaner: Cleaner) -> int:
        text = cleaner.text
        span = (session, block * BLOCK, (block + 1) * BLOCK - 1)
        facts, tally = self._one(
            "select facts, tally from streams where session = ? and block = ?", (session, block)
        )
        clean = clean_facts(msgspec.msgpack.decode(facts, type=Facts), text)
        totals = msgspec.msgpack.decode(tally, type=Tally)
        if totals.first_prompt:
            totals = msgspec.structs.replace(totals, first_prompt=text(totals.first_prompt))
        self.db.execute(
            "update streams set facts = ?, tally = ? where session = ? and block = ?",
            (msgspec.msgpack.encode(clean), msgspec.msgpack.encode(totals), session, block),
        )
        changed = 0
        sql = (
            "select first_seq, last_seq, length, hash, body from segments where session = ? and"
            " first_seq between ? and ?"
        )
        for first, last, length, hash_, body in self._all(sql, span):
            rows = [list(row) for row in self._rows(session, first, last)]
            data = unpack(body, length, hash_)
            bodies: list[bytes | None] = []
            dirty = 0
            for n, row in enumerate(rows):
                better = redact_row(row, cleaner)
                if better is not None:
                    rows[n] = better
                    dirty += 1
                piece = (
                    None
                    if row[OFFSET] is None
                    else data[row[OFFSET] : row[OFFSET] + row[LENGTH]].decode("utf-8", "replace")
                )
                cleaned = None if piece is None else text(piece)
                dirty += cleaned != piece
                bodies.append(None if cleaned is None else cleaned.encode("utf-8", "replace"))
            if not dirty:
                continue
            changed += dirty
            again = pack_one(rows, bodies)
            self.db.execute(
                "delete from events where session = ? and seq between ? and ?",
                (session, first, last),
            )
            self.db.executemany(INSERT_EVENT, ((session, *row) for row in rows))
            self._write_segment(session, first, last, again)
        return changed

    def forget(self, uids: Iterable[str], when: datetime) -> None:
        names = list(uids)
        with self.transaction():
            stamp = format_time(when)
            self.db.executemany(
                "insert or ignore into tombstones values (?, ?)", ((uid, stamp) for uid in names)
            )
            gone = {uid: number for uid in names if (number := self._number(uid)) is not None}
            shared = self._sharing()
            for uid, number in gone.items():
                if number in shared or self._one(
                    "select 1 from sessions where parent_uid = ?", (uid,)
                ):
                    self._forget_copies(uid, number)
            self._drop_sessions(list(gone.values()))
            self._drop_models()
        self.purge()

    def _sharing(self) -> set[int]:
        """The sessions that have a native id in common with another: only those can have copies of
        each other."""
        sql = (
            "select distinct session from natives where hash in (select hash from natives group by"
            " hash having count(*) > 1)"
        )
        return {number for (number,) in self._all(sql)}

    def _forget_copies(self, uid: str, session: int) -> None:
        """What other sessions copied from this one: the place stays, what was said there goes."""
        for number, seq in self._copies(uid, session):
            row = with_origin(self._rows(number, seq, seq)[0], None, "[forgotten]")
            self.db.execute("delete from events where session = ? and seq = ?", (number, seq))
            self.db.execute(INSERT_EVENT, (number, *row))

    def copies_of(self, uids: Iterable[str]) -> list[str]:
        gone = {uid: number for uid in uids if (number := self._number(uid)) is not None}
        found = {
            number for uid, session in gone.items() for number, _ in self._copies(uid, session)
        } - set(gone.values())
        return sorted(
            uid
            for (uid,) in (
                self._one("select uid from sessions where number = ?", (n,)) for n in found
            )
        )

    def sharing(self) -> list[set[str]]:
        several = "select hash from natives group by hash having count(*) > 1"
        sql = (
            "select hash, uid from natives join sessions on number = session where hash in"
            f" ({several})"
        )
        groups: dict[int, set[str]] = {}
        for name, uid in self._all(sql):
            groups.setdefault(name, set()).add(uid)
        return [set(group) for group in sorted({tuple(sorted(group)) for group in groups.values()})]

    def _copies(self, uid: str, session: int) -> list[tuple[int, int]]:
        """(session, seq) of the events elsewhere that refer to this session. Looked for where its
        native ids are known, and in what was forked from it under new ones."""
        near = {
            number
            for places in self._known([h for h, _ in self._hashes(session)]).values()
            for number, _ in places
        }
        near |= {
            number
            for (number,) in self._all("select number from sessions where parent_uid = ?", (uid,))
        }
        rows = (
            (number, row)
            for number in near - {session}
            for row in self._rows(number, 0, None)
            if row[OFFSET] is None
        )
        return [
            (number, row[SEQ])
            for number, row in rows
            if (read_row("toy:x", row).origin or "").startswith(uid + "#")
        ]
