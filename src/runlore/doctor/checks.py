"""The checks. Each looks at one thing that must be true of a store, and yields what is wrong."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from ..adapters import Facts
from ..errors import RunloreError, StoreError
from ..lessons import deliver, rendered_files
from ..lessons.shelf import Shelf
from ..model import BLOCK
from ..store import DAMAGED, Row
from ..store import FORGOTTEN as LEFT_OUT
from ..store.digest_rows import ERROR, error_rows
from ..store.natives import native_hash
from ..store.rows import ROW, Rest, read_row
from ..store.segments import unpack, unpack_records
from .exam import INDEX_SAMPLE, SAMPLE, Exam, Finding, Repair, adapter_of, count_strays, how_it_is

TABLES = 8
"""That belong to something."""
FORGOTTEN = "[forgotten]"
"""What is said of a copy of something that was forgotten."""


def check_file(exam: Exam) -> Iterator[Finding]:
    """The database's own check of its file, and of the indexes in it."""
    exam.expect(1, 1)
    for text, is_index in exam.store.maintenance.check_file(full=exam.full):
        if is_index:
            yield Finding(text, (("index", None),))
        else:
            yield Finding(f"{text}; put a backup in its place, or move the file away and sync anew")
    exam.step(1)


def check_privacy(exam: Exam) -> Iterator[Finding]:
    """What is runlore's is for this user alone, and the key of the redaction is whole."""
    home, store = exam.config.home, os.path.expanduser(exam.store.url)
    key = home / "redact.key"
    notes = [str(home / name) for name in (deliver.FILE_NAME, rendered_files.FILE_NAME)]
    files = [
        str(home),
        str(key),
        *notes,
        store,
        *(store + end for end in ("-wal", "-shm", ".lock")),
    ]
    for file in exam.each([file for file in files if os.path.exists(file)]):
        mode = os.stat(file).st_mode & 0o777
        if os.name == "posix" and mode & 0o077:
            yield Finding(f"{file}: others may read it (mode {mode:o})", (("mode", file),))
    if not exam.config.redact.enabled or not exam.sources:
        return
    if not key.exists():
        yield Finding(
            f"{key} is missing; the next sync makes another, with which the same secret looks"
            " different",
            is_note=True,
        )
    elif key.stat().st_size != 32:
        yield Finding(
            f"{key} is damaged, and no sync can run; put it back from a copy, or delete it to get a"
            " new one"
        )


def check_owners(exam: Exam) -> Iterator[Finding]:
    """Everything belongs to a session and to a source that are there."""
    for session, counts in exam.strays.items():
        left = ", ".join(f"{count:,} {table}" for table, count in counts.items())
        yield _stray(
            exam,
            session,
            f"session {session} is not there, but {left} of it",
            has_events=counts["events"] > 0,
        )
    for source, count in exam.each(
        exam.store.maintenance.rows(count_strays("streams", "source", "sources"))
    ):
        yield from _without_source(
            exam, source, f"source {source} is not there, but {count:,} streams of it"
        )
    for table in ("records", "skips", "aliases"):
        for source, count in exam.store.maintenance.rows(count_strays(table, "source", "sources")):
            if not exam.store.maintenance.rows("select 1 from streams where source = ?", (source,)):
                yield Finding(
                    f"source {source} is not there, but {count:,} {table} of it",
                    (("strays", None),),
                )
    sql = (
        f"select distinct session, seq / {BLOCK} from events where session in (select number from"
        " sessions)"
    )
    for session, block in exam.store.maintenance.rows(
        f"{sql} except select session, block from streams"
    ):
        yield _unclaimed(
            exam,
            session,
            block,
            f"{exam.uid(session)}: no source claims its events in block {block}",
        )
    exam.expect(TABLES, TABLES)
    exam.step(TABLES)


def _stray(exam: Exam, session: int, text: str, *, has_events: bool) -> Finding:
    uid, sources = exam.uid_by_streams(session), exam.sources_of(session)
    derive: list[Repair] = [
        ("derive", source) for source in sources if exam.why_not(source) is None
    ]
    if (
        uid is not None
        and uid not in exam.store.sources.tombstones()
        and exam.store.sessions.get(uid) is None
    ):
        return Finding(text, (("session", (session, uid)), *derive))
    if has_events and len(derive) < max(1, len(sources)):
        return Finding(
            f"{text}; cannot be made again:"
            f" {exam.why_not(sources[0]) if sources else 'no source is known'}"
        )
    return Finding(text, (("strays", session), *derive))


def _without_source(exam: Exam, source: int, text: str) -> Iterator[Finding]:
    for session, block in exam.store.maintenance.rows(
        "select session, block from streams where source = ?", (source,)
    ):
        if exam.claimant(session, block) is not None:
            found = _unclaimed(exam, session, block, text)
            yield (
                Finding(found.text, (*found.repairs, ("strays", None))) if found.repairs else found
            )
            continue
        named = exam.store.maintenance.rows(
            "select source_path from sessions where number = ?", (session,)
        )
        path = named[0][0] if named else None
        if path and os.path.exists(path) and exam.source_named(session) is None:
            yield Finding(text, (("source", source),))
        else:
            yield Finding(f"{text}; no source is known to be it, but the next sync may find it")


def _unclaimed(exam: Exam, session: int, block: int, text: str) -> Finding:
    source = exam.claimant(session, block)
    if (why_not := exam.why_not(source)) is not None:
        return Finding(f"{text}; cannot be made again: {why_not}")
    return Finding(text, (("stream", (session, block, source)),))


def check_segments(exam: Exam) -> Iterator[Finding]:
    """Every segment unpacks, and has its length and its hash."""
    ids = [id_ for (id_,) in exam.store.maintenance.rows("select id from segments order by id")]
    for id_ in exam.each(ids, SAMPLE):
        sql = "select session, first_seq, last_seq, body, length, hash from segments where id = ?"
        session, first, last, *packed = exam.store.maintenance.rows(sql, (id_,))[0]
        try:
            unpack(*packed)
        except Exception:  # A damaged length makes zstd raise what it likes.
            yield exam.wrong_event(
                session, first, f": the bodies of events {first} to {last} are damaged"
            )


def check_bodies(exam: Exam) -> Iterator[Finding]:
    """The bodies of a segment's events lie in it one after another and fill it; segments do not
    overlap."""
    for session in exam.some_sessions():
        events = exam.store.maintenance.rows(
            'select seq, "offset", length, rest, summary from events where session = ? order'
            " by seq",
            (session,),
        )
        at, before = 0, -1
        sql = (
            "select id, first_seq, last_seq, length from segments where session = ? order by"
            " first_seq"
        )
        for id_, first, last, length in exam.store.maintenance.rows(sql, (session,)):
            if first <= before or last < first or id_ >> 20 != session:
                yield exam.wrong_event(
                    session,
                    first,
                    f": the segment of events {first} to {last} is not where it should be",
                )
            before, end = last, 0
            while at < len(events) and events[at][0] <= last:
                is_inside = events[at][0] >= first
                yield from _body(exam, session, events[at], end if is_inside else None)
                end += (events[at][2] or 0) * is_inside
                at += 1
            if end != length:
                yield exam.wrong_event(
                    session,
                    first,
                    f": the bodies of events {first} to {last} do not fill their segment",
                )
        for event in events[at:]:
            yield from _body(exam, session, event, None)


def _body(exam: Exam, session: int, event: Row, place: int | None) -> Iterator[Finding]:
    """What is wrong with where a body is; it should be at this place, and None is nowhere."""
    seq, offset, _, rest, summary = event
    if offset is None:
        if _origin(rest) is None and summary != FORGOTTEN:
            yield exam.wrong_event(session, seq, f"#{seq}: it has no body and is no copy")
    elif place is None:
        yield exam.wrong_event(session, seq, f"#{seq}: there is no segment with its body")
    elif offset != place:
        yield exam.wrong_event(
            session, seq, f"#{seq}: its body does not begin where the one before ends"
        )


def _origin(rest: bytes) -> str | None:
    try:
        return msgspec.msgpack.decode(rest, type=Rest).origin
    except (ValueError, TypeError, msgspec.MsgspecError):
        return None  # Said by `check_streams`.


def check_parents(exam: Exam) -> Iterator[Finding]:
    """The parent of an event is there, and lies before it."""
    sql = (
        "select e.seq, e.parent_seq from events e left join events p on p.session = e.session and"
        " p.seq = e.parent_seq where e.session = ? and e.parent_seq is not null and (p.seq is null"
        " or p.seq >= e.seq)"
    )
    for session in exam.some_sessions():
        for seq, parent in exam.store.maintenance.rows(sql, (session,)):
            yield exam.wrong_event(
                session, seq, f"#{seq}: its parent {parent} is not there, or not before it"
            )


def check_copies(exam: Exam) -> Iterator[Finding]:
    """What is a copy says where it happened, and there it is, and no copy itself."""
    numbers = {
        uid: number
        for number, uid in exam.store.maintenance.rows("select number, uid from sessions")
    }
    forgotten = exam.store.sources.tombstones()
    unreadable = 0
    for session in exam.some_sessions():
        for seq, rest in exam.store.maintenance.rows(
            'select seq, rest from events where session = ? and "offset" is null', (session,)
        ):
            origin = _origin(rest) or ""
            uid, _, at = origin.rpartition("#")
            number, place = numbers.get(uid, -1), int(at) if at.isdecimal() else -1
            there = exam.store.maintenance.rows(
                'select "offset" from events where session = ? and seq = ?', (number, place)
            )
            if not origin or (there and there[0][0] is not None):
                continue
            if uid in forgotten or (number >= 0 and number not in exam.sessions):
                unreadable += 1
                continue
            text = (
                f"#{seq}: a copy of {origin}, which is {'a copy itself' if there else 'not there'}"
            )
            # The original comes back when its own source is derived again; else the copy is kept
            # whole.
            lost = [exam.source_of(number, place)] if number in exam.miscounted else []
            if number < 0:
                lost = [source for stray in exam.strays for source in exam.sources_of(stray)]
            back: tuple[Repair, ...] = tuple(
                ("derive", source) for source in lost if exam.why_not(source) is None
            )
            yield (
                Finding(f"{exam.uid(session)}{text}", back)
                if back
                else exam.wrong_event(session, seq, text)
            )
    if unreadable:
        yield Finding(
            f"{unreadable:,} copies of events that were forgotten or evicted", is_note=True
        )


def check_natives(exam: Exam) -> Iterator[Finding]:
    """Every native id leads to its event, and to nothing else."""
    for session in exam.some_sessions():
        uid, flavor = exam.sessions[session]
        sql = "select native_id, seq from events where session = ? and native_id is not null"
        for native_id, seq in exam.store.maintenance.rows(sql, (session,)):
            found = exam.store.maintenance.rows(
                "select seq from natives where hash = ? and session = ?",
                (native_hash(flavor, native_id), session),
            )
            if found != [(seq,)]:
                text = (
                    f"{uid}#{seq}: its native id leads"
                    f" {f'to {found[0][0]}' if found else 'nowhere'}"
                )
                # Where another id leads to it, either may be what is wrong, and the source knows.
                yield _misled(exam, session, seq, text, by_source=seq in exam.led_to(session))
    sql = (
        "select n.session, n.seq, e.seq is not null from natives n left join events e on e.session"
        " = n.session and e.seq = n.seq where e.native_id is null and n.session in (select number"
        " from sessions where evicted_at is null)"
    )
    for session, seq, is_there in exam.store.maintenance.rows(sql):
        text = f"{exam.uid(session)}#{seq}: a native id leads there, and there is none"
        # Where events were lost, this is all that remembers their numbers.
        yield _misled(
            exam, session, seq, text, by_source=bool(is_there) or session in exam.miscounted
        )


def _misled(exam: Exam, session: int, seq: int, text: str, *, by_source: bool) -> Finding:
    source = exam.source_of(session, seq)
    return Finding(
        text,
        (
            (
                ("derive", source)
                if by_source and exam.why_not(source) is None
                else ("natives", session)
            ),
        ),
    )


def check_streams(exam: Exam) -> Iterator[Finding]:
    """What a stream says of its events is what they add up to."""
    chosen = set(exam.spread(list(exam.sessions), SAMPLE)) | exam.miscounted
    exam.seen.of = len(exam.sessions) - len(chosen)
    for session in exam.each(sorted(chosen)):
        try:
            streams = exam.store.maintenance.tallies(session)
        except (ValueError, TypeError, msgspec.MsgspecError):
            yield from _unreadable(exam, session)
            continue
        for stream in streams:
            for name, (old, new) in list(stream.differences.items())[:1]:
                lost = stream.stored.events - stream.made.events if stream.stored else 0
                text = (
                    f"{exam.uid(session)}:"
                    f" {f'{lost:,} events are lost' if lost > 0 else f'{name} is {old} and should be {new}'}"
                )
                # Either may be what is wrong, and the source knows. Where it cannot be asked, the
                # events are believed.
                if (why_not := exam.why_not(stream.source)) is None:
                    yield Finding(text, (("derive", stream.source),))
                else:
                    yield Finding(
                        f"{text}; cannot be made again: {why_not}" if lost > 0 else text,
                        (("streams", session),),
                    )


def _unreadable(exam: Exam, session: int) -> Iterator[Finding]:
    columns = ", ".join(f'"{name}"' for name in ROW)
    for row in exam.store.maintenance.rows(
        f"select {columns} from events where session = ?", (session,)
    ):
        try:
            read_row(exam.uid(session), [*row[:3], None, *row[4:]])
        except (ValueError, TypeError, msgspec.MsgspecError) as error:
            yield exam.wrong_event(session, row[0], f"#{row[0]}: cannot be read: {error}")


def check_sessions(exam: Exam) -> Iterator[Finding]:
    """The sums of every session are those of its streams."""
    for session in exam.each(list(exam.sessions)):
        uid, made = exam.uid(session), exam.sums[session]
        if isinstance(made, Exception):
            yield from _unreadable_facts(exam, session)
        elif made is None:
            if not exam.store.maintenance.rows(
                "select 1 from streams where session = ?", (session,)
            ):
                yield exam.wrong_source(
                    exam.source_named(session), f"{uid}: no source has a part in it"
                )
        else:
            yield from _wrong_sums(exam, session, uid, made)


def _wrong_sums(exam: Exam, session: int, uid: str, made: dict[str, Any]) -> Iterator[Finding]:
    stored = exam.store.maintenance.rows(
        f"select {', '.join(made)} from sessions where number = ?", (session,)
    )[0]
    for name, old, new in zip(made, stored, made.values(), strict=True):
        if old != new:
            yield Finding(f"{uid}: {name} is {old!r} and should be {new!r}", (("sums", session),))
            return
    try:
        exam.store.sessions.get(uid)
    except (ValueError, TypeError, msgspec.MsgspecError) as error:
        yield Finding(f"{uid}: cannot be read: {error}")


def check_ledger(exam: Exam) -> Iterator[Finding]:
    """What reports add up are the sums of the calls."""
    ((number,),) = exam.store.maintenance.rows("select count(*) from sessions")
    exam.expect(number, number)
    for session in exam.store.maintenance.wrong_rollups():
        yield Finding(
            f"{exam.uid(session)}: its use is not the sum of its calls", (("sums", session),)
        )
    exam.step(number)


def check_digests(exam: Exam) -> Iterator[Finding]:
    """Every digest unpacks, says what it is of and covers, its errors are found by what they are,
    and calls are marked as it says."""
    sql = (
        "select s.uid, s.evicted_at is not null, s.analyzed_seq, s.analyzed_hash, s.number,"
        " d.version, d.last_seq, d.content_hash from digests d join sessions s on s.number ="
        " d.session order by s.uid"
    )
    rows = exam.store.maintenance.rows(sql)
    known = {row[0] for row in rows}
    for (uid,) in exam.store.maintenance.rows(
        "select uid from sessions where analyzed_seq is not null order by uid"
    ):
        if uid not in known:
            yield Finding(f"{uid}: is said to have a digest, and has none", (("digest", uid),))
    for uid, is_evicted, *state in exam.each(rows, SAMPLE):
        wrong = _wrong_digest(exam, uid, *state)
        if wrong and is_evicted:
            yield Finding(f"{uid}: {wrong}; cannot be made again: its events were evicted")
        elif wrong:
            yield Finding(f"{uid}: {wrong}", (("digest", uid),))
        elif not exam.store.maintenance.is_charged(state[2]):
            yield Finding(
                f"{uid}: its calls are not marked as its digest says of what led nowhere",
                (("sums", state[2]),),
            )


def _wrong_digest(
    exam: Exam,
    uid: str,
    seq: int,
    hash_: str,
    session: int,
    version: int,
    last_seq: int,
    content_hash: str,
) -> str | None:
    try:
        digest = exam.store.digests.get(uid)
    except RunloreError as error:
        return f"its digest cannot be read: {error}"
    assert digest is not None
    covers = digest.covers
    if (digest.session_uid, digest.version, covers.last_seq, covers.content_hash) != (
        uid,
        version,
        last_seq,
        content_hash,
    ):
        return "its digest is of something else"
    # Without a hash it is to be made again anyway.
    if hash_ and (seq, hash_) != (last_seq, content_hash):
        return "its digest does not cover what is said"
    stored = exam.store.maintenance.rows(
        f"select {', '.join(ERROR)} from errors where session = ? order by fingerprint", (session,)
    )
    return (
        None if stored == sorted(error_rows(digest)) else "its errors are not those of its digest"
    )


def _unreadable_facts(exam: Exam, session: int) -> Iterator[Finding]:
    for source, facts in exam.store.maintenance.rows(
        "select source, facts from streams where session = ?", (session,)
    ):
        try:
            msgspec.msgpack.decode(facts, type=Facts)
        except (ValueError, TypeError, msgspec.MsgspecError):
            repair: Repair = (
                ("derive", source) if exam.why_not(source) is None else ("streams", session)
            )
            yield Finding(
                f"{exam.uid(session)}: what a source says of it cannot be read", (repair,)
            )


def check_sources(exam: Exam) -> Iterator[Finding]:
    """A source is read up to where we say, and what lies before is what was read."""
    notes: Counter[str] = Counter()
    for number, state in exam.each(list(exam.sources.items())):
        path, at, now = state.source.path, state.position, how_it_is(state)
        adapter = adapter_of(state)
        # What was to come back when its source went stays as it is known, and comes back with it.
        if state.adapter_version == DAMAGED and not (
            state.is_evicted and state.missing_at is not None
        ):
            yield Finding(
                f"{path}: is to be derived again; run `runlore sync`", (("derive", number),)
            )
            continue
        if now != "same" and state.problem != LEFT_OUT:
            notes[
                {
                    "gone": "not there any more",
                    "grown": "grown since the last sync",
                    "rewritten": "rewritten since",
                }[now]
            ] += 1
        if adapter is None:
            notes["without an adapter"] += 1
        elif (
            now == "same"
            and at.offset > 0
            and adapter.follows(state.source, at)
            and at.records >= 0
        ):
            continue  # Also where more was read than it is long, because it is packed.
        elif (
            at.offset < 0
            or at.records < 0
            or (at.head and at.offset > state.source.size and state.problem is None)
        ):
            yield _misread(
                exam, number, f"{path}: was read up to {at.offset:,}, of {state.source.size:,}"
            )
        elif now == "same" and at.offset:
            yield _misread(exam, number, f"{path}: has not changed, and is not what was read")
    for word, count in notes.items():
        yield Finding(f"{count:,} {word}", is_note=True)


def _misread(exam: Exam, number: int, text: str) -> Finding:
    found = exam.wrong_source(number, text)
    is_there = found.repairs and how_it_is(exam.sources[number]) != "gone"
    return Finding(text, (("position", number), *found.repairs)) if is_there else found


def check_records(exam: Exam) -> Iterator[Finding]:
    """The native records that are kept unpack, in order, none twice, and none is missing."""
    packs = exam.store.maintenance.rows(
        "select source, first, count, length from records order by source, first"
    )
    ends: dict[int, int] = {}
    torn: set[int] = set()
    for source, first, count, _ in packs:
        if first != ends.get(source, 0):
            torn.add(source)
        ends[source] = first + count
    torn |= {
        number
        for number, end in ends.items()
        if number in exam.sources and end != exam.sources[number].position.records
    }
    wanted = {
        number
        for number, state in exam.sources.items()
        if state.position.records > 0 and state.problem != LEFT_OUT
    }
    none = len(wanted - ends.keys())
    # What was forgotten took records along, and what was read while they were not wanted has none.
    if exam.config.raw == "keep" and not exam.store.sources.tombstones():
        for number in sorted(torn & exam.sources.keys()):
            yield exam.wrong_source(
                number, f"{exam.sources[number].source.path}: its native records are not all kept"
            )
    else:
        none += len(torn)
    if none:
        yield Finding(f"{none:,} sources without all of their native records", is_note=True)
    for source, first, count, length in exam.each(packs, SAMPLE):
        if source not in exam.sources:
            continue  # Said by `check_owners`.
        ((body,),) = exam.store.maintenance.rows(
            "select body from records where source = ? and first = ?", (source, first)
        )
        try:
            offsets = [
                record.offset for record in unpack_records(body, length) if record.aside is None
            ]
        except Exception:
            # zstd, msgpack and UTF-8 each have their own way to say that it cannot be read.
            offsets = []
        if len(offsets) != count or offsets != sorted(set(offsets)):
            path = exam.sources[source].source.path
            yield exam.wrong_source(
                source, f"{path}: its native records {first:,} to {first + count - 1:,} are damaged"
            )


def check_forgotten(exam: Exam) -> Iterator[Finding]:
    """Of what was forgotten nothing is left, here or beside the store: another machine may have
    forgotten it."""
    gone = exam.store.sources.tombstones()
    for uid in exam.each(sorted(gone)):
        if exam.store.maintenance.rows("select 1 from sessions where uid = ?", (uid,)):
            yield Finding(f"{uid}: was forgotten and is there", (("forget", uid),))
    home = exam.config.home
    for uid in sorted({note.uid for note in deliver.read_records(home)} & gone if gone else ()):
        yield Finding(
            f"{uid}: was forgotten, and notes on what it was told are there",
            (("told", (str(home), uid)),),
        )
    for lesson in Shelf(home / "lessons").read()[0] if gone else ():
        if any(ref.partition("#")[0] in gone for ref in lesson.evidence):
            yield Finding(
                f"lesson {lesson.id} cites a session that was forgotten; `runlore lessons edit`"
                " changes it",
                is_note=True,
            )


def check_lessons(exam: Exam) -> Iterator[Finding]:
    """Lessons can be read, and what is told of them is still noted."""
    home = exam.config.home
    known, broken = Shelf(home / "lessons").read()
    exam.expect(len(known) + len(broken), len(known) + len(broken))
    for one in broken:
        yield Finding(f"{one.file} is no lesson, and is told to nobody: {one.reason}", is_note=True)
    for file, largest in (
        (deliver.FILE_NAME, deliver.MAX_BYTES),
        (rendered_files.FILE_NAME, rendered_files.MAX_BYTES),
    ):
        if (home / file).is_file() and (home / file).stat().st_size >= largest:
            yield Finding(
                f"{home / file} is full, and `runlore measure` learns of nothing new; move it away",
                is_note=True,
            )
    exam.step(len(known) + len(broken))


def check_index(exam: Exam) -> Iterator[Finding]:
    """The index over words is what one gets by indexing the bodies once more."""
    ids = [id_ for (id_,) in exam.store.maintenance.rows("select id from segments order by id")]
    chosen = exam.spread(ids, INDEX_SAMPLE)
    exam.expect(len(chosen), len(ids))
    try:
        wrong = exam.store.maintenance.check_index(
            None if len(chosen) == len(ids) else chosen, exam.step
        )
    except StoreError as error:
        yield Finding(f"cannot be looked at: {error}", (("index", None),))
        return
    for id_, text in sorted(wrong.items()):
        yield Finding(f"{exam.uid(id_ >> 20)}, segment {id_ & 0xFFFFF}: {text}", (("index", id_),))


CHECKS: dict[str, Callable[[Exam], Iterator[Finding]]] = {
    "file": check_file,
    "privacy": check_privacy,
    "owners": check_owners,
    "segments": check_segments,
    "bodies": check_bodies,
    "parents": check_parents,
    "copies": check_copies,
    "natives": check_natives,
    "streams": check_streams,
    "sessions": check_sessions,
    "ledger": check_ledger,
    "digests": check_digests,
    "sources": check_sources,
    "records": check_records,
    "forgotten": check_forgotten,
    "lessons": check_lessons,
    "index": check_index,
}
