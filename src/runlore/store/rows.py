"""An event as a row of table `events`: written, read, and changed in place."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec.structs import force_setattr

from ..model import (
    KINDS,
    SessionEvent,
    Tests,
    Usage,
    format_time,
    parse_time,
)
from .cleaning import Cleaner
from .values import SegmentEvent

SIDECHAIN, ERROR, GONE, CUT, ASIDE = 1, 2, 4, 8, 16
"""CUT: all that an eviction left of a part of a session, to be read again with it. ASIDE: another
store of the agent tells it better; it can be read by its number, because it may be cited, and is
found in no other way."""

ROW = (
    "seq", "ts", "kind", "parent_seq", "tool", "action", "flags", "exit_code", "native_id",
    "call_id", "summary",
    "offset", "length", "rest",
)  # fmt: skip
"""The columns of a row, in order."""

SEQ, TS, KIND, PARENT, TOOL, FLAGS, NATIVE_ID, CALL_ID, SUMMARY, OFFSET, LENGTH, REST = (
    0,
    1,
    2,
    3,
    4,
    6,
    8,
    9,
    10,
    11,
    12,
    13,
)

_COLUMN = {"user_msg": 0, "assistant_msg": 1, "thinking": 1}
"""Which column of the index a kind's body goes to; all others go to the third, `tool`."""


class Rest(
    msgspec.Struct,
    omit_defaults=True,
    gc=False,
    rename=dict(
        role="r",
        native="n",
        record="c",
        usage="u",
        tokens="t",
        duration_ms="d",
        files="f",
        cwd="w",
        git_branch="b",
        model="m",
        origin="o",
        tests="s",
        view="v",
        refs="e",
        extra="x",
        original="h",
    ),
):
    """The fields of an event that have no column of their own; short names, because they are on
    every row."""

    role: str | None = None
    native: str | None = None
    record: int | None = None
    usage: tuple[int, int, int, int, int] | None = None
    tokens: int = 0
    duration_ms: int | None = None
    files: tuple[str, ...] = ()
    cwd: str | None = None
    git_branch: str | None = None
    model: str | None = None
    origin: str | None = None
    tests: Tests | None = None
    view: str | None = None
    refs: tuple[str, ...] = ()
    extra: dict[str, Any] = {}
    original: int | None = None
    """The hash of the native id that the agent says this is a copy of."""


_encode_rest = msgspec.msgpack.Encoder().encode

_decode_rest = msgspec.msgpack.Decoder(Rest).decode


def column_of(kind: str) -> str:
    """The column of the index that has the bodies of this kind."""
    return ("prompt", "reply", "tool")[_COLUMN.get(kind, 2)]


def make_row(
    event: SessionEvent, seq: int, parent_seq: int | None, original: int | None = None
) -> list[Any]:
    """An event as a row, its body still to be placed."""
    usage, ts = event.usage, event.ts
    rest = Rest(
        event.role,
        event.native,
        event.record,
        (
            (
                usage.input_tokens,
                usage.output_tokens,
                usage.cache_read_tokens,
                usage.cache_write_tokens,
                usage.reasoning_tokens,
            )
            if usage
            else None
        ),
        event.tokens,
        event.duration_ms,
        event.files,
        event.cwd,
        event.git_branch,
        event.model,
        event.origin,
        event.tests,
        event.view,
        event.refs,
        event.extra,
        original,
    )
    return [
        seq,
        format_time(ts) if ts else None,
        event.kind,
        parent_seq,
        event.tool,
        event.action,
        event.is_sidechain * SIDECHAIN | event.is_error * ERROR | event.is_gone * GONE,
        event.exit_code,
        event.native_id,
        event.call_id,
        event.summary,
        None,
        None,
        _encode_rest(rest),
    ]


def read_row(uid: str, row: Sequence[Any], ref: str | None = None) -> SessionEvent:
    """The event of a row. A kind or a field that a newer version wrote is kept as it is."""
    (
        seq,
        ts,
        kind,
        parent,
        tool,
        action,
        flags,
        exit_code,
        native_id,
        call_id,
        summary,
        _,
        _,
        blob,
    ) = row
    rest = _decode_rest(blob)
    try:
        return SessionEvent(  # Named one by one: with a dictionary of them it takes a third longer.
            session_uid=uid, seq=seq, ts=parse_time(ts) if ts else None, kind=kind,
            parent_seq=parent, tool=tool, action=action,
            is_sidechain=bool(flags & SIDECHAIN), is_error=bool(flags & ERROR),
            is_gone=bool(flags & GONE), exit_code=exit_code,
            native_id=native_id, call_id=call_id, summary=summary, payload_ref=ref, role=rest.role,
            native=rest.native,
            record=rest.record, tokens=rest.tokens, duration_ms=rest.duration_ms, files=rest.files,
            cwd=rest.cwd,
            git_branch=rest.git_branch, model=rest.model, origin=rest.origin, tests=rest.tests,
            view=rest.view, refs=rest.refs,
            extra=rest.extra, usage=None if rest.usage is None else _usage(rest.usage),
        )  # fmt: skip
    except ValueError:
        if kind in KINDS:
            raise
        # A kind of a newer version: cannot be made here, can be kept.
        event = read_row(uid, [seq, ts, "lifecycle", *row[3:]], ref)
        force_setattr(event, "kind", kind)
        return event


def read_briefly(uid: str, row: Sequence[Any]) -> SessionEvent:
    """The event of (seq, kind, parent, flags, call id, tool, summary, rest), as an outline has it:
    without times, and most without the last three. A kind of a newer version is `lifecycle`."""
    seq, kind, parent, flags, call_id, tool, summary, blob = row
    rest = _decode_rest(blob) if blob is not None else None
    return SessionEvent(
        session_uid=uid, seq=seq, kind=kind if kind in KINDS else "lifecycle", parent_seq=parent,
        is_sidechain=bool(flags & SIDECHAIN),
        is_error=bool(flags & ERROR), call_id=call_id, tool=tool, summary=summary,
        files=rest.files if rest else (),
        origin=rest.origin if rest else None,
    )  # fmt: skip


def segment_event(row: Sequence[Any]) -> SegmentEvent:
    """What a search asks of a row: (seq, kind, ts, tool, whether it is an error, rest or None,
    offset, length)."""
    seq, kind, ts, tool, is_error, rest, offset, length = row
    return SegmentEvent(
        seq,
        kind,
        ts,
        tool,
        bool(is_error),
        _decode_rest(rest).files if rest else (),
        offset,
        length,
    )


def with_origin(row: Sequence[Any], origin: str | None, summary: str | None = None) -> list[Any]:
    """The row of a copy: it says where it happened, and has no body and no tokens of its own.
    Without an origin, and with another summary, it is the place of something that was forgotten."""
    rest = _decode_rest(row[REST])
    copy = msgspec.structs.replace(
        rest, origin=origin, usage=None, tokens=0, extra={}, files=rest.files if origin else ()
    )
    return [*row[:SUMMARY], row[SUMMARY] if origin else summary, None, None, _encode_rest(copy)]


def without_body(row: Sequence[Any]) -> list[Any]:
    """The row with its body still to be placed."""
    return [*row[:OFFSET], None, None, row[REST]]


def cut_down(row: list[Any]) -> None:
    """Marks a row whose body was just placed as what an eviction has left, without what is known
    elsewhere then: what it was called in `natives`, what it took in the ledger, and what it says in
    its body. One that is no longer in its source is all that there is of it."""
    row[FLAGS] |= CUT
    if row[FLAGS] & GONE:
        return
    row[NATIVE_ID] = row[CALL_ID] = None
    if row[OFFSET] is not None:
        row[SUMMARY] = None
    rest = _decode_rest(row[REST])
    native = rest.native if row[KIND] == "lifecycle" else None
    row[REST] = _encode_rest(
        msgspec.structs.replace(
            rest, native=native, record=None, usage=None, tokens=0, model=None, git_branch=None
        )
    )


def with_record(rest: bytes, record: int | None) -> bytes:
    """The rest of a row whose native record has another number now."""
    return _encode_rest(msgspec.structs.replace(_decode_rest(rest), record=record))


def copied(rest: bytes) -> tuple[str | None, int | None]:
    """Of a row's rest: where the event happened, when this is a reference to it; and the hash of
    what it is a copy of."""
    try:
        found = _decode_rest(rest)
    except (msgspec.DecodeError, UnicodeDecodeError):
        # Damaged: the doctor has it derived again, and this is a part of that.
        return None, None
    return found.origin, found.original


def record_of(row: Sequence[Any]) -> int | None:
    """The number of a row's native record."""
    return _decode_rest(row[REST]).record


def redact_row(row: Sequence[Any], cleaner: Cleaner) -> list[Any] | None:
    """The row without secrets, or None when it has none."""
    text = cleaner.text
    rest = _decode_rest(row[REST])
    changed = msgspec.structs.replace(
        rest,
        files=tuple(text(file) for file in rest.files),
        cwd=text(rest.cwd) if rest.cwd else rest.cwd,
        git_branch=text(rest.git_branch) if rest.git_branch else rest.git_branch,
    )
    summary = text(row[SUMMARY]) if row[SUMMARY] else row[SUMMARY]
    if changed == rest and summary == row[SUMMARY]:
        return None
    return [*row[:SUMMARY], summary, row[OFFSET], row[LENGTH], _encode_rest(changed)]


def outside(seq: int) -> int:
    """A parent that is not numbered within the stream but within the session is written as -1 -
    seq; and back."""
    return -1 - seq


def _usage(buckets: tuple[int, int, int, int, int]) -> Usage:
    fresh, output, read, write, reasoning = buckets
    return Usage(
        input_tokens=fresh,
        output_tokens=output,
        cache_read_tokens=read,
        cache_write_tokens=write,
        reasoning_tokens=reasoning,
    )
