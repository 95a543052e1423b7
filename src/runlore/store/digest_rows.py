"""Digests as rows: packed as a whole, with their errors as rows of their own. Knows no database."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any

import msgspec

from ..model import Covers, Digest, ErrorSummary, Fix, format_time, parse_time
from .segments import pack_text, unpack
from .sql.database import plain

ERROR = (
    "fingerprint", "kind", "name", "template", "sample", "count", "first_seq", "last_seq",
    "first_at", "last_at", "tool", "fixed_seq", "how",
    "confidence",
)  # fmt: skip
"""The columns of `errors`, besides the session."""


# ── packing ───────────────────────────────────────────────────────────────────────────────────────
def pack_digest(digest: Digest) -> tuple[int, bytes, bytes]:
    """Return the length, hash and packed bytes of a digest, without its empty fields.

    The bytes do not depend on when it was made.
    """
    said = {
        name: value for name, empty in _EMPTY.items() if (value := getattr(digest, name)) != empty
    }
    if digest.before is not None:
        said["before"] = digest.before.to_dict()
    return pack_text(_encode({**digest.extra, **said}))


def unpack_digest(made_at: str, length: int, hash_: bytes, body: bytes) -> Digest:
    """Return the digest that `pack_digest` packed. Raises StoreError or ModelError."""
    return msgspec.structs.replace(
        Digest.from_json(unpack(body, length, hash_)), made_at=parse_time(made_at)
    )


def clean_digest(digest: Digest, text: Callable[[str], str]) -> Digest:
    """Return the digest with a function applied to every text in it."""
    return msgspec.structs.replace(
        Digest.from_dict(_cleaned(digest.to_dict(), text)), made_at=digest.made_at
    )


_NOTHING = Digest(session_uid="", version=-1, covers=Covers(last_seq=-1, content_hash=""))
_EMPTY = {
    name: getattr(_NOTHING, name)
    for name in Digest.__struct_fields__
    if name not in ("extra", "made_at")
}
_encode = msgspec.json.Encoder(order="sorted").encode
_UNCHANGED = frozenset({"session_uid", "content_hash", "fingerprint"})
"""Texts that are names: cleaned, they would name something else."""


def _cleaned(value: Any, text: Callable[[str], str]) -> Any:
    if isinstance(value, str):
        return text(value)
    if isinstance(value, list | tuple):
        return [_cleaned(one, text) for one in value]
    if isinstance(value, dict):
        return {
            name: one if name in _UNCHANGED else _cleaned(one, text) for name, one in value.items()
        }
    return value


# ── rows ──────────────────────────────────────────────────────────────────────────────────────────
def evidence_of(digest: Digest) -> str | None:
    """Return the line that says how a session ended."""
    where = ", ".join(f"#{seq}" for seq in digest.outcome_evidence)
    return f"{digest.outcome_reason}{f' ({where})' * bool(where)}" or None


def rows_of_digest(
    session: int, digest: Digest, when: datetime
) -> tuple[tuple[Any, ...], list[tuple[Any, ...]]]:
    """Return the row of table `digests`, and those of table `errors`."""
    covers = digest.covers
    row = (
        session,
        digest.version,
        covers.last_seq,
        covers.content_hash,
        format_time(when),
        *pack_digest(digest),
    )
    return row, [(session, *error) for error in error_rows(digest)]


def digest_columns(digest: Digest, when: datetime) -> dict[str, Any]:
    """Return what a digest says of its session, by column of `sessions`."""
    return dict(
        analyzed_at=format_time(when),
        analyzed_seq=digest.covers.last_seq,
        analyzed_hash=digest.covers.content_hash,
        outcome=digest.outcome,
        outcome_level=digest.outcome_level,
        outcome_by=digest.outcome_by,
        outcome_evidence=evidence_of(digest),
        quality=digest.quality,
    )


# ── errors as rows ────────────────────────────────────────────────────────────────────────────────
def error_rows(digest: Digest) -> list[tuple[Any, ...]]:
    """The errors of a digest as rows of `errors`, without their session."""
    fixes = {fix.fingerprint: fix for fix in digest.fixes}
    return [_row(error, fixes.get(error.signature.fingerprint)) for error in digest.errors]


def _row(error: ErrorSummary, fix: Fix | None) -> tuple[Any, ...]:
    signature = error.signature
    is_fixed = fix is not None and fix.is_shown
    return (
        signature.fingerprint, signature.kind, plain(signature.name), plain(signature.template),
        plain(signature.sample), error.count, error.first_seq,
        error.last_seq, _time(error.first_at), _time(error.last_at), plain(error.tool),
        fix.fixed_seq if fix else None,
        fix.how if fix and is_fixed else None, fix.confidence if fix else 0.0,
    )  # fmt: skip


def _time(value: datetime | None) -> str | None:
    return format_time(value) if value else None
