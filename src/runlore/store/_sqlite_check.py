"""How the SQLite store is proved right, put right and copied. What is to be looked at and done is decided by `doctor`."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

import apsw
import msgspec

from ..adapters import Facts, Position
from ..errors import StoreError
from ..model import BLOCK, SCHEMA_VERSION, SessionEvent, format_time
from ..timeline import Tally, merge
from . import DAMAGED, Counted, Row, Segment
from ._sqlite_put import PUT_BACK, Writer
from ._sqlite_read import Reader
from .pieces import LENGTH, OFFSET, PARENT, SEQ, pack_one, read_row, unpack

T = TypeVar("T")

BACKUP_PAGES = 1000
"""Pages of 8 KB that are copied between two looks at the clock."""

_BESIDE = ("-wal", "-shm", "-journal")
"""What SQLite may have beside a file."""

SOUGHT = 1000
"""So many of the words of a sample are also searched for."""

# Of every word: how often it is there, and a sum that changes with each place. Only words that differ are looked at closely.
_WORDS = "select term, count(*), sum(((doc % 1000003) * 1009 + offset * 31 + length(col)) % 1000003) from {} {} group by term"


class Checker(Writer):
    """The proving half of `SqliteStore`."""

    url: str

    @contextmanager
    def snapshot(self) -> Iterator[None]:
        self.db.execute("begin")
        try:
            self.rows("select 1 from sqlite_schema limit 1")  # The moment is that of the first read.
            yield
        finally:
            self.db.execute("rollback")

    def rows(self, sql: str, bindings: Sequence[Any] = ()) -> list[Row]:
        with _told(self.url):
            return self._all(sql, bindings)

    # ── proving ──────────────────────────────────────────────────────────────────────────────────────────────────────
    def check_file(self, *, full: bool = False) -> list[tuple[str, bool]]:
        found = self.rows("pragma integrity_check" if full else "pragma quick_check")
        lines = [line for (text,) in found for line in text.splitlines() if text != "ok"]
        return [(line, "FTS5 table" in line or "fts5" in line) for line in lines]

    def check_index(self, ids: Sequence[int] | None, step: Callable[[int], None] | None = None) -> dict[int, str]:
        wanted = [id_ for (id_,) in self.rows("select id from segments")] if ids is None else ids
        with _told(self.url), closing(_Aside(self.url)) as aside:
            for id_ in wanted:
                aside.add(id_)
                if step is not None:
                    step(1)
            return aside.compare(is_all=ids is None)

    def tallies(self, session: int) -> list[Counted]:
        (uid,) = self._one("select uid from sessions where number = ?", (session,))
        sql = "select block, tally, hash from streams where session = ? and source = ? order by block"
        found = []
        for (source,) in self._all("select distinct source from streams where session = ? order by source", (session,)):
            streams = self._all(sql, (session, source))
            stored = {block: _decode(tally, Tally) for block, tally, _ in streams}
            for homes, blocks in readings([(block, hash_) for block, _, hash_ in streams]):
                events = [
                    _as_counted(uid, n * BLOCK + row[SEQ] % BLOCK, row)
                    for n, block in enumerate(blocks)
                    for row in self._rows(session, block * BLOCK, (block + 1) * BLOCK - 1)
                ]
                is_ordered = homes == blocks[:1] and all(event.origin != "" for event in events)
                known = [tally for home in homes if (tally := stored[home]) is not None]
                total = None if len(known) < len(homes) else known[0] if len(homes) == 1 else merge(known)
                found.append(Counted(blocks=homes, source=source, stored=total, made=Tally().add(events), is_ordered=is_ordered))
        return found

    # ── repairing ────────────────────────────────────────────────────────────────────────────────────────────────────
    def reindex(self, ids: Sequence[int] | None) -> None:
        with self.transaction(), _told(self.url):
            if ids is None:
                self.db.execute("insert into search(search) values ('delete-all')")
                ids = [id_ for (id_,) in self._all("select id from segments order by id")]
            for id_ in ids:
                self.db.execute("delete from search where rowid = ?", (id_,))
                segment = made_again(self, id_)
                if segment is not None:
                    _insert(self.db, "search", id_, segment)

    def recount(self, sessions: Sequence[int], *, streams: bool = False) -> None:
        with self.transaction(), _told(self.url):
            self._to_sum.update(sessions)
            for session in sessions:
                if streams:
                    self._salvage("session = ?", (session,))
                for counted in self.tallies(session) if streams else ():
                    for tally, block in zip([counted.better] + [Tally()] * len(counted.blocks), reversed(counted.blocks), strict=False):
                        packed = msgspec.msgpack.encode(tally)
                        self.db.execute("update streams set tally = ? where session = ? and block = ?", (packed, session, block))
                (uid,) = self._one("select uid from sessions where number = ?", (session,))
                self._fold(uid)

    def relink(self, sessions: Sequence[int]) -> None:
        # Where a source is to be derived again, this is all that remembers the numbers of the events that it lost.
        lost = (
            f"select 1 from streams join sources on number = source and adapter_version = {DAMAGED}"
            f" where session = natives.session and block = natives.seq / {BLOCK}"
            " and not exists (select 1 from events e where e.session = natives.session and e.seq = natives.seq)"
        )
        with self.transaction(), _told(self.url):
            for session in sessions:
                self.db.execute(f"delete from natives where session = ? and not exists ({lost})", (session,))
                rows = sorted((h, session, seq) for h, seq in self._hashes(session))
                self.db.executemany("insert or ignore into natives values (?, ?, ?)", rows)

    def derive_again(self, sources: Sequence[int]) -> None:
        # Where nothing was read a sync sees nothing to replace, hence an offset that is not 0; the reading sets it right.
        sql = f'update sources set adapter_version = {DAMAGED}, "offset" = case when "offset" > 1 then "offset" else 1 end where number = ?'
        with self.transaction(), _told(self.url):
            for number in sources:
                self.db.execute(sql, (number,))
                self._salvage("source = ?", (number,))
                # A segment that lies in no block would be overlooked.
                nowhere = f"(first_seq < 0 or first_seq / {BLOCK} not in (select block from streams s where s.session = segments.session))"
                self._drop_segments(f"session in (select session from streams where source = ?) and {nowhere}", (number,))

    def _salvage(self, where: str, bindings: tuple[Any, ...]) -> None:
        """Puts what the session says in the place of what its streams say, where that cannot be read: no sync could go on."""
        for session, block, facts, tally in self._all(f"select session, block, facts, tally from streams where {where}", bindings):
            row = self._one(
                "select native_session_id, title, cwd, git_branch, model, task_ref, parent_uid, relation from sessions where number = ?",
                (session,),
            )
            if row is None:
                continue
            native_id, title, cwd, branch, model, task, parent, relation = row
            known = Facts(
                native_session_id=native_id, title=title, title_rank=1, cwd=cwd, git_branch=branch, model=model, task_ref=task,
                parent_uid=parent, relation=relation,
            )  # fmt: skip
            better = (_decode(facts, Facts) or known, _decode(tally, Tally) or Tally())
            self.db.execute(
                "update streams set facts = ?, tally = ? where session = ? and block = ?",
                (*map(msgspec.msgpack.encode, better), session, block),
            )

    def drop_strays(self, sessions: Sequence[int]) -> None:
        with self.transaction(), _told(self.url):
            for session in sessions:
                self._drop_segments("session = ?", (session,))
                for table in ("events", "streams", "natives", "aliases"):
                    self.db.execute(f"delete from {table} where session = ?", (session,))
            for table in ("records", "skips", "aliases"):
                known = "select number from sources union all select source from streams"
                self.db.execute(f"delete from {table} where source not in ({known})")

    def set_position(self, number: int, position: Position) -> None:
        sql = 'update sources set "offset" = ?, head = ?, tail = ?, records = ? where number = ?'
        with self.transaction(), _told(self.url):
            self.db.execute(sql, (position.offset, position.head, position.tail, position.records, number))

    def restore_session(self, number: int, uid: str) -> None:
        flavor, _, native_id = uid.partition(":")
        now = format_time(datetime.now(UTC))
        with self.transaction(), _told(self.url):
            self.db.execute(
                "insert into sessions (number, uid, flavor, native_session_id, discovered_at, ingested_at, schema_version, machine)"
                " values (?, ?, ?, ?, ?, ?, ?, (select machine from sources join streams on source = number where session = ? limit 1))",
                (number, uid, flavor, native_id, now, now, SCHEMA_VERSION, number),
            )
            self._fold(uid)

    def restore_stream(self, session: int, block: int, source: int) -> None:
        (native_id,) = self._one("select native_session_id from sessions where number = ?", (session,))
        facts, tally = Facts(native_session_id=native_id), Tally()
        row = (session, block, source, msgspec.msgpack.encode(facts), msgspec.msgpack.encode(tally), b"")
        with self.transaction(), _told(self.url):
            self.db.execute(
                "insert into streams values (?, ?, ?, ?, ?, ?) on conflict (session, block) do update set source = excluded.source", row
            )
            self.derive_again([source])

    def restore_source(self, number: int) -> None:
        sql = (
            "select flavor, source_path, machine from sessions where source_path is not null"
            " and number in (select session from streams where source = ?)"
            " and not exists (select 1 from sources where agent = flavor and path = source_path)"
        )
        with self.transaction(), _told(self.url):
            row = self._one(sql, (number,))
            if row is None:
                raise StoreError(f"source {number} is known only by its number, and no session says where it is")
            agent, path, machine = row
            self.db.execute(
                'insert into sources (number, agent, path, root, machine, size, mtime_ns, inode, "offset", records, adapter_version,'
                " redact_version, discovered_at) values (?, ?, ?, ?, ?, 0, 0, 0, 1, ?, ?, '', ?)",
                (number, agent, path, str(Path(path).parent), machine, self.kept_count(number), DAMAGED, format_time(datetime.now(UTC))),
            )

    # ── copying ──────────────────────────────────────────────────────────────────────────────────────────────────────
    def backup(self, path: Path, step: Callable[[int, int], None] | None = None) -> None:
        part = path.with_name(f"{path.name}.{os.getpid()}.part")
        try:
            os.close(os.open(part, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
            # In one snapshot: without it every write of a sync would make the copy begin anew.
            with _told(str(path)), self.snapshot(), closing(apsw.Connection(str(part))) as copy:
                with copy.backup("main", self.db, "main") as work:
                    while not work.done:
                        work.step(BACKUP_PAGES)
                        if step is not None:
                            step(work.page_count - work.remaining, work.page_count)
                wrong = [text for (text,) in copy.execute("pragma quick_check") if text != "ok"]
            if wrong:
                raise StoreError(f"{path}: the copy is damaged ({wrong[0].splitlines()[0]}); run `runlore doctor` on the store")
            with open(part, "rb") as file:
                os.fsync(file.fileno())
            # What a database that was here left beside it would be read as the newest part of the copy.
            for end in _BESIDE:
                Path(f"{path}{end}").unlink(missing_ok=True)
            os.replace(part, path)
        except OSError as error:
            raise StoreError(f"{path}: {error.strerror}") from None
        finally:
            for name in (part, *(Path(f"{part}{end}") for end in _BESIDE)):
                name.unlink(missing_ok=True)


class _Aside:
    """A second index with the settings of the store's, in a database of its own that is gone when it is closed."""

    def __init__(self, path: str) -> None:
        self.db = apsw.Connection("")
        self.db.execute("attach ? as store", (path,))
        sql = str(self.db.execute("select sql from store.sqlite_schema where name = 'search'").get)
        self.db.execute(f"create virtual table made {sql[sql.lower().index('using') :]}")
        self.db.execute("create virtual table temp.stored_words using fts5vocab('store', 'search', 'instance')")
        self.db.execute("create virtual table temp.made_words using fts5vocab('main', 'made', 'instance')")
        self.db.execute("create table chosen (id integer primary key)")
        self.db.execute("begin")
        # The tables of the store are found by their bare names: only `made` and `chosen` are here.
        self.reader = Reader()
        self.reader.db = self.db

    def add(self, id_: int) -> None:
        segment = made_again(self.reader, id_)
        if segment is not None:
            self.db.execute("insert into chosen values (?)", (id_,))
            _insert(self.db, "made", id_, segment)

    def compare(self, *, is_all: bool) -> dict[int, str]:
        """By segment, what is wrong with what the store's index says of it."""
        wrong = {id_: "is not in the index" for (id_,) in self.db.execute("select id from chosen except select id from search_docsize")}
        stray = self.db.execute("select id from search_docsize except select id from segments")
        wrong |= {id_: "is in the index and nowhere else" for (id_,) in stray}
        where = "" if is_all else "where doc in chosen"
        stored = {word: places for word, *places in self.db.execute(_WORDS.format("stored_words", where))}
        made = {word: places for word, *places in self.db.execute(_WORDS.format("made_words", ""))}
        for word in sorted(word for word in stored.keys() | made.keys() if stored.get(word) != made.get(word)):
            for id_ in self._differing(word, where):
                wrong.setdefault(id_, f"the index is wrong about the word {word[:40]!r}")
        words = sorted(made)
        for word in words if is_all else words[:: len(words) // SOUGHT + 1]:
            for id_ in self._unfound(word):
                wrong.setdefault(id_, f"a search does not find the word {word[:40]!r}")
        return wrong

    def _unfound(self, word: str) -> set[int]:
        """The segments that have a word and are not found by it: a search takes another way into the index than a scan."""
        sql = "select doc from made_words where term = ?1 except select rowid from store.search where search match '\"' || ?1 || '\"'"
        return {doc for (doc,) in self.db.execute(sql, (word,))}

    def _differing(self, word: str, where: str) -> set[int]:
        """The segments of which the two indexes say other things about a word."""
        one = f"select doc, col, offset from stored_words {where or 'where true'} and term = ?1"
        two = "select doc, col, offset from made_words where term = ?1"
        sql = f"select doc from (select * from ({one} except {two}) union all select * from ({two} except {one}))"
        return {doc for (doc,) in self.db.execute(sql, (word,))}

    def close(self) -> None:
        self.db.close()


def made_again(reader: Reader, id_: int) -> Segment | None:
    """The segment with its words, from its bodies; None when it is not there, or is broken, which is another finding."""
    row = reader.db.execute("select session, first_seq, last_seq, length, hash, body from segments where id = ?", (id_,)).fetchone()
    if row is None:
        return None
    session, first, last, length, hash_, body = row
    try:
        data = unpack(body, length, hash_)
    except Exception:  # A damaged length makes zstd raise what it likes.
        return None
    rows = [list(row) for row in reader._rows(session, first, last)]
    bodies = [None if row[OFFSET] is None else data[row[OFFSET] : row[OFFSET] + row[LENGTH]] for row in rows]
    return pack_one(rows, bodies) if rows else None


def readings(streams: list[tuple[int, bytes]]) -> list[tuple[list[int], list[int]]]:
    """(homes, blocks) of each reading of a source in a session. A home has a hash, and the totals. A block without one goes on
    where the home before it was full; with no home before it, it was replaced by the reading that follows. Where something
    that is gone from the source was put back, blocks are shared, and all is one."""
    if any(hash_ == PUT_BACK for _, hash_ in streams):
        return [([block for block, hash_ in streams if hash_], [block for block, _ in streams])]
    found: list[tuple[list[int], list[int]]] = []
    before: list[int] = []
    for block, hash_ in streams:
        if hash_:
            found.append(([block], [*before, block]))
            before = []
        elif found:
            found[-1][1].append(block)
        else:
            before.append(block)
    return found


def _as_counted(uid: str, seq: int, row: Row) -> SessionEvent:
    """The event as its stream counted it. What was a copy, and has no origin since that was forgotten, is a copy of nothing."""
    event = read_row(uid, [seq, *row[1:PARENT], None, *row[PARENT + 1 :]])
    return msgspec.structs.replace(event, origin="") if row[OFFSET] is None and event.origin is None else event


def _insert(db: apsw.Connection, table: str, id_: int, segment: Segment) -> None:
    sql = f"insert into {table} (rowid, prompt, reply, tool) values (?, ?, ?, ?)"
    db.execute(sql, (id_, segment.prompt, segment.reply, segment.tool))


def _decode(blob: bytes, kind: type[T]) -> T | None:
    try:
        return msgspec.msgpack.decode(blob, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError, TypeError):
        return None


@contextmanager
def _told(path: str) -> Iterator[None]:
    """What SQLite raises as what runlore raises. A damaged text may be none."""
    try:
        yield
    except (apsw.Error, UnicodeDecodeError) as error:
        # A copy that ran out of room ends with the code of a success.
        is_full = isinstance(error, apsw.FullError) or getattr(error, "result", -1) == apsw.SQLITE_OK
        raise StoreError(f"{path}: {'the disk is full' if is_full else error}") from None
