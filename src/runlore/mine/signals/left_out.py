"""A call that succeeded without a program that was to start it and is not installed."""

from __future__ import annotations

from collections.abc import Sequence

from ..change_lessons import Situation, Words, draft_change, find_ends, mine_changes
from ..drafts import Draft, Group
from ..ends import End

__all__ = ["KIND", "draft", "find_ends", "mine"]

KIND = "left_out"

mine = mine_changes("left_out")


def draft(group: Group, ends: Sequence[End]) -> Draft | None:
    return draft_change(group, ends, KIND, _word)


def _word(situation: Situation) -> Words:
    program = situation.change.program
    return Words(
        when=f"A command is to be started through `{program}`{_WHERE.get(program, '')}.",
        do=(
            f"Run the command without `{program}`{_INSTEAD.get(program, '')}. Where `{program}` is"
            " not installed, the command behind it does not run at all, and a pipe hides that."
        ),
        avoid=f"`{program}` without having seen `command -v {program}` succeed on this machine.",
    )


_WHERE = {"timeout": " on a Mac, which has none by default"}
_INSTEAD = {
    "timeout": (
        ", with the time limit of the shell tool itself, or through `gtimeout` where coreutils are"
        " installed"
    )
}
