"""A call that succeeded with one more flag."""

from __future__ import annotations

from collections.abc import Sequence

from ..change_lessons import Situation, Words, draft_change, find_ends, mine_changes, name_errors
from ..drafts import Draft, Group
from ..ends import End

__all__ = ["KIND", "draft", "find_ends", "mine"]

KIND = "added_flag"

mine = mine_changes("added_flag", by_family=True)


def draft(group: Group, ends: Sequence[End]) -> Draft | None:
    return draft_change(group, ends, KIND, _word)


def _word(situation: Situation) -> Words:
    change = situation.change
    return Words(
        when=f"`{change.program}` fails with {name_errors(situation.errors)}.",
        do=f"Call it with `{change.added}`.",
    )
