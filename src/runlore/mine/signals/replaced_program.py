"""A call that succeeded with another name of the same program."""

from __future__ import annotations

from collections.abc import Sequence

from ..change_lessons import Situation, Words, draft_change, find_ends, mine_changes
from ..drafts import Draft, Group
from ..ends import End

__all__ = ["KIND", "draft", "find_ends", "mine"]

KIND = "replaced_program"

mine = mine_changes("replaced_program")


def draft(group: Group, ends: Sequence[End]) -> Draft | None:
    return draft_change(group, ends, KIND, _word)


def _word(situation: Situation) -> Words:
    missing = situation.change.removed
    others = " or ".join(f"`{one}`" for one in situation.added)
    return Words(
        when=f"A command line calls `{missing}`, which may not be on PATH under that name.",
        do=f"Call {others}: that worked where `{missing}` was not found.",
        avoid=f"Installing `{missing}`, or searching the machine for it.",
    )
