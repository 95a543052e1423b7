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
            "A file is about to be edited that this session has not opened with its own read tool,"
            " even if `cat`, `grep`, `sed` or a subagent has shown it."
        ),
        do="Open it with the read tool before the first change, in the same session.",
        avoid=(
            "Editing from what a shell command printed or from memory: the edit is refused, and has"
            " to be written again."
        ),
    ),
    "modified since": Words(
        when="A file that was read before was changed by something else since then.",
        do=(
            "Read the passage again with the read tool before the next edit. If it differs in a way"
            " that you did not cause, look at `git diff` first."
        ),
        avoid="Repeating the edit from the text that was read before.",
    ),
}
"""What to do, by words of the error. An error that says itself what to do has no lesson."""
