"""Add up the streams of a session, by column of `sessions`. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from hashlib import blake2b
from typing import Any

import msgspec

from ..adapters import Facts
from ..model import format_time
from ..text.titles import weak_title
from ..timeline import Tally, merge
from .facts import fold_facts
from .known import File, Stream


def add_up(
    streams: Sequence[Stream], files: Mapping[int, File], last_seq: int
) -> tuple[Facts, dict[str, Any]] | None:
    """Return the facts of a session, and its columns; None if no stream counts. `files` are its
    sources by number."""
    counted = [stream for stream in streams if stream.hash and stream.source in files]
    if not counted:
        return None
    facts = fold_facts([stream.facts for stream in counted])
    tally = merge([stream.tally for stream in counted])
    hashes = b"".join(stream.hash for stream in counted)
    content = hashes if len(counted) == 1 else blake2b(hashes, digest_size=16).digest()
    by_path = {file.path: file for file in (files[stream.source] for stream in counted)}
    return facts, _columns(facts, tally, content, last_seq, list(by_path.values()))


def _columns(
    facts: Facts, tally: Tally, content: bytes, last_seq: int, files: Sequence[File]
) -> dict[str, Any]:
    missing = [file.missing_at for file in files]
    parent, relation = facts.parent_uid, facts.relation
    if parent is None and relation is None and tally.origins:
        # The agent does not say so, but the session begins with what happened in another one.
        parent, relation = tally.origins[-1], "fork"
    # A session that has nothing of its own yet is as old as what it begins with.
    began, ended = tally.started_at or tally.copied_until, tally.ended_at or tally.copied_until
    return dict(
        title=facts.title or weak_title(tally.first_prompt),
        cwd=facts.cwd,
        git_branch=facts.git_branch,
        model=facts.model,
        parent_uid=parent,
        relation=relation,
        started_at=_iso(began),
        ended_at=_iso(ended or facts.written_at),
        events=tally.events,
        errors=tally.errors,
        turns=tally.turns,
        retries=tally.retries,
        wall_clock_s=tally.wall_clock_s,
        **msgspec.structs.asdict(tally.usage),
        last_seq=last_seq,
        content_hash=content.hex(),
        source_path=files[0].path,
        source_bytes=sum(file.size for file in files),
        source_missing_at=None if None in missing else max(when for when in missing if when),
    )


def _iso(value: datetime | None) -> str | None:
    return format_time(value) if value else None
