"""What --fields, --offset and --max-tokens ask for, and where a command that runs has it: in click's context."""

from __future__ import annotations

from typing import Any

import click
import msgspec

Tree = dict[str, Any]
"""Fields by name, each with those below that are wanted: an empty one means all."""

WANTED = "runlore.wanted"
WORDS = "runlore.words"
"""Where `ctx.meta` has what is wanted of the JSON, and the words of the whole call."""


class Wanted(msgspec.Struct, frozen=True):
    """What was asked for, and the words that asked: the next part is asked for with them."""

    command: str
    words: tuple[str, ...]
    fields: Tree
    max_tokens: int | None
    offset: int


def wanted() -> Wanted | None:
    """Return what is wanted of the JSON of the command that runs, if one does."""
    ctx = click.get_current_context(silent=True)
    return ctx.meta.get(WANTED) if ctx else None
