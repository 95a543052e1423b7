"""The part of the JSON that --fields, --offset and --max-tokens select, in click's context."""

from __future__ import annotations

from typing import Any

import click
import msgspec

Tree = dict[str, Any]
"""The selected fields by name, each with the selected fields below it; empty means all."""

WANTED = "runlore.wanted"
WORDS = "runlore.words"
"""Keys of `ctx.meta`: the `Wanted` value, and the arguments of the whole call."""


class Wanted(msgspec.Struct, frozen=True):
    """The selected part of the JSON, and the arguments from which a call for more is built."""

    command: str
    words: tuple[str, ...]
    fields: Tree
    max_tokens: int | None
    offset: int


def wanted() -> Wanted | None:
    """Return the part of the JSON that was selected for the running command; None if all of it."""
    ctx = click.get_current_context(silent=True)
    return ctx.meta.get(WANTED) if ctx else None
