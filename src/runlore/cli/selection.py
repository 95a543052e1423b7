"""The part of the JSON that --fields, --offset and --max-tokens select, in click's context."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click
import msgspec

from ..answers import Answer

Tree = dict[str, Any]
"""The selected fields by name, each with the selected fields below it; empty means all."""

SELECTION = "runlore.selection"
WORDS = "runlore.words"
"""Keys of `ctx.meta`: the `Selection`, and the arguments of the whole call."""

_DECLARED = "runlore_answers"
"""The attribute of a command's function that holds what `declare_answers` was given."""


class Selection(msgspec.Struct, frozen=True):
    """The selected part of the JSON, and the arguments from which a call for more is built."""

    answers: Mapping[str, Answer]
    words: tuple[str, ...]
    fields: Tree
    max_tokens: int | None
    offset: int


def selection() -> Selection | None:
    """Return the part of the JSON that was selected for the running command; None if all of it."""
    ctx = click.get_current_context(silent=True)
    return ctx.meta.get(SELECTION) if ctx else None


def declare_answers(function: Any, answers: Mapping[str, Answer]) -> None:
    """Attach to a command's function what it prints, by the option that selects the form."""
    setattr(function, _DECLARED, answers)


def answers_of(command: click.Command) -> Mapping[str, Answer]:
    """Return what a command prints as JSON, by the option that selects the form.

    The usual form is under "". The mapping is empty if the command has no --json.
    """
    return getattr(command.callback, _DECLARED, {})
