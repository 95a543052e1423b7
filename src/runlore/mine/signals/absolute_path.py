"""A call that succeeded with the full path in place of a relative one."""

from __future__ import annotations

from collections.abc import Sequence

from ..change_lessons import Situation, Words, draft_change, find_ends, mine_changes
from ..drafts import Draft, Group
from ..ends import End

__all__ = ["KIND", "draft", "find_ends", "mine"]

KIND = "absolute_path"

mine = mine_changes("absolute_path")


def draft(group: Group, ends: Sequence[End]) -> Draft | None:
    return draft_change(group, ends, KIND, _word)


def _word(_: Situation) -> Words:
    return Words(
        when=(
            "A shell command says that a relative path does not exist, and the file is known to be"
            " there: the `cd` of an earlier call may still be in effect."
        ),
        do="Give the path in full, or begin the command with a `cd` to the root of the repository.",
        avoid="Concluding that the file is missing, or trying other relative paths.",
    )
