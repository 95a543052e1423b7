"""A call that succeeded after the project was installed or built."""

from __future__ import annotations

from collections.abc import Sequence

from ..change_lessons import Situation, Words, draft_change, find_ends, mine_changes, name_errors
from ..drafts import Draft, Group
from ..ends import End

__all__ = ["KIND", "draft", "find_ends", "mine"]

KIND = "setup_first"

mine = mine_changes("setup_first", is_local=True)


def draft(group: Group, ends: Sequence[End]) -> Draft | None:
    return draft_change(group, ends, KIND, _word)


def _word(situation: Situation) -> Words:
    first = ", then ".join(f"`{one}`" for one in situation.added)
    return Words(
        when=(
            f"{name_errors(situation.errors)} in a fresh checkout or worktree, or after other"
            " branches were merged."
        ),
        do=f"Run {first} at the root of the repository, then the command again.",
        avoid="Changing imports, exports or versions because of such an error before that.",
    )
