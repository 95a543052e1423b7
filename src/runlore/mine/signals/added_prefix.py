"""A call that succeeded with a runner or a variable in front of it."""

from __future__ import annotations

from collections.abc import Sequence

from ..change_lessons import Situation, Words, draft_change, find_ends, mine_changes, name_errors
from ..drafts import Draft, Group
from ..ends import End

__all__ = ["KIND", "draft", "find_ends", "mine"]

KIND = "added_prefix"

mine = mine_changes("added_prefix")


def draft(group: Group, ends: Sequence[End]) -> Draft | None:
    return draft_change(group, ends, KIND, _word)


def _word(situation: Situation) -> Words:
    prefix, errors = situation.change.added, name_errors(situation.errors)
    names = " or ".join(f"`{one}`" for one in situation.programs[:2])
    example = f"`{prefix} {situation.programs[0]} …`"
    if "=" in prefix:
        return Words(
            when=f"{names} fails with {errors}.",
            do=f"Set the variable for the call: {example}.",
            avoid="Changing imports or paths in the code because of it.",
        )
    return Words(
        when=f"{names} fails with {errors} in a project that is run through `{prefix}`.",
        do=f"Run it as {example}, in the environment of the project.",
        avoid=f"Installing what is missing for the {names} that is on PATH.",
    )
