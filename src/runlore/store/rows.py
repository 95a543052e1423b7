"""Events as rows of the table `events`: encoding, decoding and changing them. Pure."""

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
    is_injected,
    parse_time,
)
from .cleaning import Cleaner
from .values import SegmentEvent

SIDECHAIN, ERROR, GONE, CUT, OUTRANKED = 1, 2, 4, 8, 16
"""Flags of an event. GONE: its source no longer has it. CUT: a remainder that an eviction has left;
it is replaced when the session is read again. OUTRANKED: another source of a better rank (a
smaller `Facts.rank`) has this part of the session. Such an event can be read by its number, because
it may be cited, but nothing else shows it."""

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

INDEX_COLUMNS = ("prompt", "reply", "tool")
"""The columns of the search index."""
_INDEX_COLUMN = {"user_msg": 0, "assistant_msg": 1, "thinking": 1}
"""The column of the index for the bodies of a kind; all others go to the third, `tool`."""


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
        twin="k",
    ),
):
    """The fields of an event that have no column of their own.

    They are stored under short names, because every row has them.
    """

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
    """The hash of the native id of the original, if the agent says that this is a copy."""
    twin: int | None = None
    """The hash of a name for what the event says, if the agent may copy it under another id."""


_encode_rest = msgspec.msgpack.Encoder().encode

_decode_rest = msgspec.msgpack.Decoder(Rest).decode
_NO_REST = Rest()


def column_of(kind: str) -> str:
    """Return the column of the index that has the bodies of this kind."""
    return INDEX_COLUMNS[column_index(kind)]


def column_index(kind: str) -> int:
    """Return the number of the index column that has the bodies of this kind, from 0 on."""
    return _INDEX_COLUMN.get(kind, 2)


def make_row(
    event: SessionEvent,
    seq: int,
    parent_seq: int | None,
    original: int | None = None,
    twin: int | None = None,
) -> list[Any]:
    """Return an event as a row that has no place for its body yet."""
    # Long, because each field of an event is named here once.
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
        twin,
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
    """Return the event of a row. A kind or a field of a newer version is preserved."""
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
        # Fields are named one by one, because this is faster than passing a dictionary.
        return SessionEvent(
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
        # A kind of a newer version: the constructor rejects it, so it is set afterwards.
        event = read_row(uid, [seq, ts, "lifecycle", *row[3:]], ref)
        force_setattr(event, "kind", kind)
        return event


def read_briefly(uid: str, row: Sequence[Any]) -> SessionEvent:
    """Return an event as an outline has it, without times.

    The row is (seq, kind, parent, flags, call id, tool, summary, rest); the last three are None in
    most rows. A kind of a newer version becomes `lifecycle`.
    """
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
    """Return an event as a search needs it.

    The row is (seq, kind, ts, tool, error flag, rest or None, offset, length). Only for a
    `lifecycle` event the rest is needed always.
    """
    seq, kind, ts, tool, is_error, packed, offset, length = row
    rest = _decode_rest(packed) if packed else _NO_REST
    return SegmentEvent(
        seq,
        kind,
        ts,
        tool,
        bool(is_error),
        rest.files,
        offset,
        length,
        is_injected(kind, rest.view),
    )


def with_origin(row: Sequence[Any], origin: str | None, summary: str | None = None) -> list[Any]:
    """Return the row of a copy, which names its origin and has no body and no tokens of its own.

    Without an origin it is the placeholder of a forgotten event, with the given summary.
    """
    rest = _decode_rest(row[REST])
    copy = msgspec.structs.replace(
        rest, origin=origin, usage=None, tokens=0, extra={}, files=rest.files if origin else ()
    )
    return [*row[:SUMMARY], row[SUMMARY] if origin else summary, None, None, _encode_rest(copy)]


def without_body(row: Sequence[Any]) -> list[Any]:
    """Return the row without a place for its body."""
    return [*row[:OFFSET], None, None, row[REST]]


def cut_down(row: list[Any]) -> None:
    """Reduce a row, whose body was just placed, to the remainder that an eviction leaves.

    Fields that are stored elsewhere are removed: the native id (in `natives`), the usage (in the
    ledger) and the summary (in the body). A row that its source no longer has is only marked,
    because nothing else has its fields.
    """
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
    """Return the rest of a row with another number of its native record."""
    return _encode_rest(msgspec.structs.replace(_decode_rest(rest), record=record))


def copied(rest: bytes) -> tuple[str | None, int | None]:
    """Return the origin of a row that is a copy, and the hash of its original; None for others."""
    try:
        fields = _decode_rest(rest)
    except (msgspec.DecodeError, UnicodeDecodeError):
        # A damaged row must not stop the doctor, which has it derived again.
        return None, None
    return fields.origin, fields.original


def names_of(rest: bytes) -> list[int]:
    """Return the hashes by which an event is known besides its native id."""
    try:
        fields = _decode_rest(rest)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return []
    return [name for name in (fields.original, fields.twin) if name is not None]


def record_of(row: Sequence[Any]) -> int | None:
    """Return the number of a row's native record."""
    return _decode_rest(row[REST]).record


def redact_row(row: Sequence[Any], cleaner: Cleaner) -> list[Any] | None:
    """Return the row without its secrets; None if it has none."""
    rest = _decode_rest(row[REST])
    texts = {name: getattr(rest, name) for name in _REST_TEXTS if getattr(rest, name)}
    changed = msgspec.structs.replace(
        rest,
        files=tuple(map(cleaner.text, rest.files)),
        refs=tuple(map(cleaner.text, rest.refs)),
        extra=cleaner.value(rest.extra),
        **{name: cleaner.text(text) for name, text in texts.items()},
    )
    better = list(row)
    for column in (TOOL, CALL_ID, SUMMARY):
        better[column] = row[column] and cleaner.text(row[column])
    if changed == rest and better == list(row):
        return None
    better[REST] = _encode_rest(changed)
    return better


_REST_TEXTS = ("cwd", "git_branch", "model", "native")


def outside(seq: int) -> int:
    """Encode the seq of a parent that counts within the session and not within the stream.

    Such a parent is written as -1 - seq. The same function decodes it.
    """
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
