"""Checks of what is computed from events: totals of streams and sessions, the ledger, digests."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from ..adapters import Facts
from ..errors import RunloreError
from ..store.digest_rows import ERROR, error_rows
from ..store.rows import ROW, read_row
from .exam import SAMPLE, Exam, Finding, Repair


def check_streams(exam: Exam) -> Iterator[Finding]:
    """The totals of every stream are those of its events."""
    chosen = set(exam.spread(list(exam.sessions), SAMPLE)) | exam.miscounted
    exam.check.of = len(exam.sessions) - len(chosen)
    for session in exam.each(sorted(chosen)):
        try:
            streams = exam.store.maintenance.tallies(session)
        except (ValueError, TypeError, msgspec.MsgspecError):
            yield from _unreadable(exam, session)
            continue
        for stream in streams:
            for name, (old, new) in list(stream.differences.items())[:1]:
                lost = stream.stored.events - stream.made.events if stream.stored else 0
                fault = f"{lost:,} events are lost" if lost > 0 else ""
                text = f"{exam.uid(session)}: {fault or f'{name} is {old} and should be {new}'}"
                # Either may be wrong, and the source decides. Without it the events are believed.
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
        uid, made = exam.uid(session), exam.totals[session]
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
            yield from _wrong_totals(exam, session, uid, made)


def _wrong_totals(exam: Exam, session: int, uid: str, made: dict[str, Any]) -> Iterator[Finding]:
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


def check_ledger(exam: Exam) -> Iterator[Finding]:
    """The totals that reports use are those of the calls."""
    ((number,),) = exam.store.maintenance.rows("select count(*) from sessions")
    exam.expect(number, number)
    for session in exam.store.maintenance.wrong_rollups():
        yield Finding(
            f"{exam.uid(session)}: its use is not the sum of its calls", (("sums", session),)
        )
    exam.step(number)


def check_digests(exam: Exam) -> Iterator[Finding]:
    """Every digest can be read, covers its session, and agrees with errors and calls."""
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
    # Without a hash it is built again anyway.
    if hash_ and (seq, hash_) != (last_seq, content_hash):
        return "its digest does not cover what is said"
    stored = exam.store.maintenance.rows(
        f"select {', '.join(ERROR)} from errors where session = ? order by fingerprint", (session,)
    )
    return (
        None if stored == sorted(error_rows(digest)) else "its errors are not those of its digest"
    )
