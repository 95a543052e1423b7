"""Checks of events: their owners, bodies, parents, originals and native ids."""

from __future__ import annotations

import os
from collections.abc import Iterator

import msgspec

from ..model import BLOCK
from ..store import Row
from ..store.natives import native_hash
from ..store.rows import Rest
from ..store.segments import unpack
from .exam import SAMPLE, Exam, Finding, Repair, count_strays

TABLES = 8
"""Tables with owners."""
FORGOTTEN = "[forgotten]"
"""The summary of a copy whose original was forgotten."""


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
    """The bodies of events fill their segment one after another; segments do not overlap."""
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
    """Check the place of a body in its segment. It should be `place`; None is nowhere."""
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
        return None  # `check_streams` reports it.


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
    """The original of every copy is there, and is no copy itself."""
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
            original = exam.store.maintenance.rows(
                'select "offset" from events where session = ? and seq = ?', (number, place)
            )
            if not origin or (original and original[0][0] is not None):
                continue
            if uid in forgotten or (number >= 0 and number not in exam.sessions):
                unreadable += 1
                continue
            fault = "a copy itself" if original else "not there"
            text = f"#{seq}: a copy of {origin}, which is {fault}"
            repairs = _original_repairs(exam, number, place)
            if repairs:
                yield Finding(f"{exam.uid(session)}{text}", repairs)
            else:
                yield exam.wrong_event(session, seq, text)
    if unreadable:
        yield Finding(
            f"{unreadable:,} copies of events that were forgotten or evicted", is_note=True
        )


def _original_repairs(exam: Exam, number: int, seq: int) -> tuple[Repair, ...]:
    """Return the repairs that bring an original back: its own source is derived again.

    Without any, the copy itself is derived again, and becomes whole.
    """
    lost = [exam.source_of(number, seq)] if number in exam.miscounted else []
    if number < 0:
        lost = [source for stray in exam.strays for source in exam.sources_of(stray)]
    return tuple(("derive", source) for source in lost if exam.why_not(source) is None)


def check_natives(exam: Exam) -> Iterator[Finding]:
    """Every native id leads to its event, and to nothing else."""
    for session in exam.some_sessions():
        uid, flavor = exam.sessions[session]
        sql = "select native_id, seq from events where session = ? and native_id is not null"
        for native_id, seq in exam.store.maintenance.rows(sql, (session,)):
            events = exam.store.maintenance.rows(
                "select seq from natives where hash = ? and session = ?",
                (native_hash(flavor, native_id), session),
            )
            if events != [(seq,)]:
                text = (
                    f"{uid}#{seq}: its native id leads"
                    f" {f'to {events[0][0]}' if events else 'nowhere'}"
                )
                # If another id leads to the event, either may be wrong, and the source decides.
                yield _misled(exam, session, seq, text, by_source=seq in exam.led_to(session))
    sql = (
        "select n.session, n.seq, e.seq is not null from natives n left join events e on e.session"
        " = n.session and e.seq = n.seq where e.native_id is null and n.session in (select number"
        " from sessions where evicted_at is null)"
    )
    for session, seq, is_there in exam.store.maintenance.rows(sql):
        text = f"{exam.uid(session)}#{seq}: a native id leads there, and there is none"
        # If events were lost, nothing else remembers their numbers.
        yield _misled(
            exam, session, seq, text, by_source=bool(is_there) or session in exam.miscounted
        )


def _misled(exam: Exam, session: int, seq: int, text: str, *, by_source: bool) -> Finding:
    """Return the finding of a wrong native id. It is repaired from the source or from events."""
    source = exam.source_of(session, seq)
    if by_source and exam.why_not(source) is None:
        return Finding(text, (("derive", source),))
    return Finding(text, (("natives", session),))
