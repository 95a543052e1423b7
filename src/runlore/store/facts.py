"""The facts of a session, combined from several batches or sources."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from ..adapters import Facts


def update_facts(old: Facts | None, new: Facts) -> Facts:
    """Return the facts of a stream after a further batch.

    New values replace old ones, except that a title does not replace one of a higher rank.
    """
    if old is None:
        return new
    changes = {
        name: value for name in Facts.__struct_fields__ if (value := getattr(new, name)) is not None
    }
    if new.title is None or new.title_rank < old.title_rank:
        changes |= {"title": old.title, "title_rank": old.title_rank}
    return msgspec.structs.replace(old, **changes)


def fold_facts(parts: Sequence[Facts]) -> Facts:
    """Return the facts of a session from those of its streams.

    The first stream with a value wins. The title is the one of the highest rank, and of equal ones
    the last; the model is the last one, `written_at` the latest and `own_since` the earliest.
    """
    first = parts[0]
    best = max(enumerate(parts), key=lambda item: (item[1].title_rank, item[0]))[1]

    def first_value(name: str) -> Any:
        return next((value for part in parts if (value := getattr(part, name)) is not None), None)

    return msgspec.structs.replace(
        first,
        title=best.title,
        title_rank=best.title_rank,
        **{
            name: first_value(name)
            for name in (
                "cwd",
                "git_branch",
                "repo",
                "linked_repo",
                "task_ref",
                "parent_uid",
                "parent_call",
                "relation",
            )
        },
        model=next((part.model for part in reversed(parts) if part.model is not None), None),
        written_at=max(
            (part.written_at for part in parts if part.written_at is not None), default=None
        ),
        own_since=min(
            (part.own_since for part in parts if part.own_since is not None), default=None
        ),
    )
