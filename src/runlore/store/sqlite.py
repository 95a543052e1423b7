"""The store in one SQLite file, through apsw, which brings its own current SQLite on every machine.

WAL, one writer, readers never blocked. Here is how the file is opened, locked, cleaned and emptied; what is asked of it is in
`_sqlite_read.py`, how a batch is kept in `_sqlite_put.py`, and how it is proved and copied in `_sqlite_check.py`.
"""

from __future__ import annotations

import os
from array import array
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path

import apsw
import msgspec

from ..adapters import Facts
from ..errors import StoreBusy, StoreError, StoreTooNew
from ..model import BLOCK, format_time
from ..timeline import Tally
from . import FORGOTTEN
from ._sqlite_copy import Taker
from ._sqlite_put import INSERT_EVENT, Again
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

MIGRATIONS = Path(__file__).parent / "migrations"


class SqliteStore(Taker):
    """See `Store`: the methods are described there."""

    machine: str | None = None

    def __init__(self, path: str, *, read_only: bool = False) -> None:
        self.path = Path(path).expanduser()
        self.url = str(self.path)
        self._again: dict[int, Again] = {}
        self._to_sum = set()
        self._depth = 0
        try:
            if not read_only:
                self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                # Made by us first, because SQLite would make it readable by everyone.
                os.close(os.open(self.path, os.O_CREAT | os.O_RDWR, 0o600))
            elif not self.path.exists():
                raise StoreError(f"{self.path}: there is no store yet; run `runlore sync` first")
            self.db = _connect(self.path) if read_only else apsw.Connection(self.url)
            self._set_up(read_only)
        except (apsw.NotADBError, apsw.CorruptError) as error:
            raise StoreError(f"{self.path} is damaged ({error}); put a backup there, or move it away and run `runlore sync`") from None
        except apsw.Error as error:
            raise StoreError(f"{self.path}: {error}") from None
        except OSError as error:
            raise StoreError(f"{self.path}: {error.strerror}") from None

    def _set_up(self, read_only: bool) -> None:
        self.db.set_busy_timeout(10_000)
        version = self.db.pragma("user_version")
        if version == 0:
            # Asked again: another process may just have made it ours.
            if self._one("select 1 from sqlite_schema limit 1") and self.db.pragma("user_version") == 0:
                raise StoreError(f"{self.path} is a database of something else; name another file for the store")
            if read_only:
                raise StoreError(f"{self.path}: there is no store yet; run `runlore sync` first")
            # These two shape the file and must come before its first table.
            self.db.pragma("page_size", 8192)
            self.db.pragma("auto_vacuum", 2)
            self.db.pragma("journal_mode", "wal")
        self.db.pragma("synchronous", 1)
        self.db.pragma("cache_size", -64 * 1024)
        self.db.pragma("temp_store", 2)
        if read_only:
            self.db.pragma("query_only", 1)
        self._migrate(version, read_only)

    def _migrate(self, version: int, read_only: bool) -> None:
        steps = migrations()
        newest = steps[-1][0]
        if version > newest:
            raise StoreTooNew(f"{self.path} was made by a newer runlore (format {version}, this one knows {newest}); update runlore")
        if version == newest:
            return
        if read_only:
            raise StoreError(f"{self.path} is of an older format; run `runlore sync` once to bring it up to date")
        for number, sql in steps:
            if number > version:
                with self.transaction():
                    # Another process may have done it while this one waited for the lock.
                    if self.db.pragma("user_version") < number:
                        self.db.execute(sql)
                        self.db.pragma("user_version", number)
        if version == 0:
            # A large hash before the index is flushed means fewer, larger pieces to merge (measured: 1.3 × as fast).
            self.db.execute("insert into search(search, rank) values ('hashsize', 16777216)")

    def close(self) -> None:
        self.db.close()

    # ── transactions and locks ───────────────────────────────────────────────────────────────────────────────────────
    @contextmanager
    def transaction(self) -> Iterator[None]:
        if self._depth:
            yield
            return
        try:
            self.db.execute("begin immediate")
        except apsw.BusyError:
            raise StoreBusy(f"{self.path}: another process is writing; try again in a moment") from None
        self._depth = 1
        try:
            yield
            self._sum_up()
            self.db.execute("commit")
        except BaseException as error:
            self._to_sum.clear()
            if self.db.in_transaction:
                self.db.execute("rollback")
            if isinstance(error, apsw.FullError):
                raise StoreError(f"{self.path}: the disk is full; nothing of this step was kept, what came before is safe") from None
            if isinstance(error, apsw.IOError):
                raise StoreError(f"{self.path}: {error}; nothing of this step was kept") from None
            raise
        finally:
            self._depth = 0

    @contextmanager
    def _step(self) -> Iterator[None]:
        # FTS5 writes out all it has collected at every savepoint, so this is for the rare steps that may fail alone: around
        # each put it would make a first sync a tenth slower.
        with self.transaction():
            self.db.execute("savepoint step")
            try:
                yield
            except BaseException:
                if self.db.in_transaction:
                    self.db.execute("rollback to step")
                raise
            finally:
                if self.db.in_transaction:
                    self.db.execute("release step")

    @contextmanager
    def sync_lock(self) -> Iterator[None]:
        # A lock that the system lets go of when its process dies, on every platform: that of a second small database.
        path = self.path.with_name(self.path.name + ".lock")
        try:
            os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
            lock = apsw.Connection(str(path))
        except (OSError, apsw.Error) as error:
            raise StoreError(f"{path}: {error}") from None
        try:
            lock.execute("begin exclusive")
        except apsw.BusyError:
            lock.close()
            raise StoreBusy("another sync is running; this one has nothing to do") from None
        try:
            yield
        finally:
            lock.close()

    # ── redaction, forgetting, space ─────────────────────────────────────────────────────────────────────────────────
    def redact_again(self, source: int, version: str, cleaner: Cleaner) -> int:
        changed = 0
        with self.transaction():
            for session, block in self._all("select session, block from streams where source = ?", (source,)):
                changed += self._redact_block(session, block, cleaner)
            for first, length, body in self._all("select first, length, body from records where source = ?", (source,)):
                records = unpack_records(body, length)
                clean = [msgspec.structs.replace(record, data=redact_record(record.data, cleaner)) for record in records]
                if clean != records:
                    self.db.execute("delete from records where source = ? and first = ?", (source, first))
                    packed = pack_records(clean, first)
                    self.db.executemany("insert into records values (?, ?, ?, ?, ?)", ((source, *part) for part in packed))
            (carry,) = self._one("select carry from sources where number = ?", (source,))
            carry = carry and clean_carry(carry, cleaner)
            self.db.execute("update sources set redact_version = ?, carry = ? where number = ?", (version, carry, source))
            self._fold_all(source)
            for number, repo, task in self._all(
                "select distinct number, repo, task_ref from sessions join streams on session = number where source = ?", (source,)
            ):
                self.db.execute(
                    "update sessions set repo = ?, task_ref = ? where number = ?",
                    (repo and cleaner.text(repo), task and cleaner.text(task), number),
                )
        return changed

    def _redact_block(self, session: int, block: int, cleaner: Cleaner) -> int:
        text = cleaner.text
        span = (session, block * BLOCK, (block + 1) * BLOCK - 1)
        facts, tally = self._one("select facts, tally from streams where session = ? and block = ?", (session, block))
        clean = clean_facts(msgspec.msgpack.decode(facts, type=Facts), text)
        totals = msgspec.msgpack.decode(tally, type=Tally)
        if totals.first_prompt:
            totals = msgspec.structs.replace(totals, first_prompt=text(totals.first_prompt))
        self.db.execute(
            "update streams set facts = ?, tally = ? where session = ? and block = ?",
            (msgspec.msgpack.encode(clean), msgspec.msgpack.encode(totals), session, block),
        )
        changed = 0
        sql = "select first_seq, last_seq, length, hash, body from segments where session = ? and first_seq between ? and ?"
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
                piece = None if row[OFFSET] is None else data[row[OFFSET] : row[OFFSET] + row[LENGTH]].decode("utf-8", "replace")
                cleaned = None if piece is None else text(piece)
                dirty += cleaned != piece
                bodies.append(None if cleaned is None else cleaned.encode("utf-8", "replace"))
            if not dirty:
                continue
            changed += dirty
            again = pack_one(rows, bodies)
            self.db.execute("delete from events where session = ? and seq between ? and ?", (session, first, last))
            self.db.executemany(INSERT_EVENT, ((session, *row) for row in rows))
            self._write_segment(session, first, last, again)
        return changed

    def forget(self, uids: Iterable[str], when: datetime) -> None:
        names = list(uids)
        with self.transaction():
            stamp = format_time(when)
            self.db.executemany("insert or ignore into tombstones values (?, ?)", ((uid, stamp) for uid in names))
            gone = {uid: number for uid in names if (number := self._number(uid)) is not None}
            shared = self._sharing()
            for uid, number in gone.items():
                if number in shared or self._one("select 1 from sessions where parent_uid = ?", (uid,)):
                    self._forget_copies(uid, number)
            self._drop_sessions(list(gone.values()))
        self.purge()

    def _drop_sessions(self, numbers: list[int]) -> None:
        """All of them at once: for nine tenths of a million events four times as fast as one after the other."""
        these = "(select value from carray(?))"
        sessions = apsw.carray(array("q", numbers or [-1]))
        found = self._all(f"select distinct source from streams where session in {these}", (sessions,))
        sources = apsw.carray(array("q", [number for (number,) in found] or [-1]))
        # By itself the index merges what remains again and again while it is deleted from; `purge` does that once.
        self.db.execute("insert into search(search, rank) values ('deletemerge', 0)")
        self.db.execute(f"delete from search where rowid in (select id from segments where session in {these})", (sessions,))
        self.db.execute("insert into search(search, rank) values ('deletemerge', 10)")
        for table in ("segments", "natives", "events", "streams", "calls", "sums"):
            self.db.execute(f"delete from {table} where session in {these}", (sessions,))
        self.db.execute(f"delete from sessions where number in {these}", (sessions,))
        # Native records of one file cannot be told apart by session, so all of the file's go.
        for table in ("records", "skips", "aliases"):
            self.db.execute(f"delete from {table} where source in {these}", (sources,))
        self.db.execute(
            f"update sources set carry = null, problem = ?2 where number in {these.replace('?', '?1')}"
            " and not exists (select 1 from streams where source = number)",
            (sources, FORGOTTEN),
        )

    def _sharing(self) -> set[int]:
        """The sessions that have a native id in common with another: only those can have copies of each other."""
        sql = "select distinct session from natives where hash in (select hash from natives group by hash having count(*) > 1)"
        return {number for (number,) in self._all(sql)}

    def _forget_copies(self, uid: str, session: int) -> None:
        """What other sessions copied from this one: the place stays, what was said there goes."""
        for number, seq in self._copies(uid, session):
            row = with_origin(self._rows(number, seq, seq)[0], None, "[forgotten]")
            self.db.execute("delete from events where session = ? and seq = ?", (number, seq))
            self.db.execute(INSERT_EVENT, (number, *row))

    def copies_of(self, uids: Iterable[str]) -> list[str]:
        gone = {uid: number for uid in uids if (number := self._number(uid)) is not None}
        found = {number for uid, session in gone.items() for number, _ in self._copies(uid, session)} - set(gone.values())
        return sorted(uid for (uid,) in (self._one("select uid from sessions where number = ?", (n,)) for n in found))

    def _copies(self, uid: str, session: int) -> list[tuple[int, int]]:
        """(session, seq) of the events elsewhere that refer to this session. Looked for where its native ids are known, and in
        what was forked from it under new ones."""
        near = {number for places in self._known([h for h, _ in self._hashes(session)]).values() for number, _ in places}
        near |= {number for (number,) in self._all("select number from sessions where parent_uid = ?", (uid,))}
        rows = ((number, row) for number in near - {session} for row in self._rows(number, 0, None) if row[OFFSET] is None)
        return [(number, row[SEQ]) for number, row in rows if (read_row("toy:x", row).origin or "").startswith(uid + "#")]

    def purge(self) -> None:
        # Deleted pages keep their old bytes until they are overwritten, and so does the index.
        try:
            self.db.execute("insert into search(search) values ('optimize')")
            self.db.execute("vacuum")
            self.db.pragma("wal_checkpoint", "truncate")
        except apsw.Error as error:
            raise StoreError(f"{self.path}: {error}; what was removed may still be in the file, run it again") from None


def _connect(path: Path) -> apsw.Connection:
    """For reading. Where we may write, SQLite keeps the index of its log beside the file, as for every reader. Where we may not,
    a log is read as it is; and where there is none, as beside a copy on a medium that cannot be written, the file alone."""
    if os.access(path, os.W_OK) and os.access(path.parent, os.W_OK):
        return apsw.Connection(str(path))
    log = Path(f"{path}-wal")
    try:
        return _connect_as(path, "mode=ro")
    except (apsw.CantOpenError, apsw.ReadOnlyError):
        if log.exists() and log.stat().st_size:
            raise StoreError(f"{path}: its last writes are in {log.name} and cannot be read here; copy both elsewhere") from None
    return _connect_as(path, "mode=ro&immutable=1")


def _connect_as(path: Path, options: str) -> apsw.Connection:
    db = apsw.Connection(f"{path.absolute().as_uri()}?{options}", flags=apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI)
    try:
        db.execute("select 1 from sqlite_schema").fetchall()  # Only now the files are opened.
    except apsw.Error:
        db.close()
        raise
    return db


def migrations(folder: Path = MIGRATIONS) -> list[tuple[int, str]]:
    """The numbered steps from an empty file to the present format."""
    files = sorted(folder.glob("[0-9]*.sql"))
    return [(int(file.name[:4]), file.read_text(encoding="utf-8")) for file in files]
