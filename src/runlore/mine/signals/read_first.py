"""An edit that succeeded once the file was read."""

from __future__ import annotations

from collections.abc import Sequence

from ..change_lessons import Situation, Words, draft_change, find_ends, mine_changes
from ..drafts import Draft, Group
from ..ends import End

__all__ = ["KIND", "draft", "find_ends", "mine"]

KIND = "read_first"

mine = mine_changes("read_first", by_family=True)


def draft(group: Group, ends: Sequence[End]) -> Draft | None:
    return draft_change(group, ends, KIND, _word)


def _word(situation: Situation) -> Words | None:
    error = situation.errors[0].lower()
    return next((words for text, words in _WORDS.items() if text in error), None)


_WORDS = {
    "not been read": Words(
        when=(
            "An existing file is about to be edited or overwritten that this session has not opened"
            " with its own read tool, even if `cat`, `head` or `grep` has shown it."
        ),
        do=(
            "Open it with the read tool before the first change, in the same session; a few lines"
            " are enough."
        ),
        avoid=(
            "Editing from what a shell command printed or from memory: the edit is refused, and has"
            " to be written again."
        ),
    ),
}
"""What to do, by words of the error. An error that says itself what to do has no lesson."""
