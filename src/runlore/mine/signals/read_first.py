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
        when=(
            "A file that was read is about to be edited again after a formatter, a linter, `git` or"
            " a shell command may have changed it."
        ),
        do="Read the passage again with the read tool, then edit it.",
        avoid="Several edits in a row around a command that rewrites the file.",
    ),
    "not found in file": Words(
        when="An edit is refused because the text that it is to replace is not in the file.",
        do=(
            "Read the passage again, and copy the lines exactly, with their indentation and without"
            " the line numbers that the read tool puts before them."
        ),
        avoid="A second try with slightly different words from memory.",
    ),
    "failed to find expected lines": Words(
        when="A patch is refused because the lines that it expects are not in the file.",
        do=(
            "Print the passage as it is now, and write the patch again from exactly these lines, in"
            " small hunks."
        ),
        avoid="Sending the patch again with context from memory or from before other edits.",
    ),
}
