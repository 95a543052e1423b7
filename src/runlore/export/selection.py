"""Which part of a session is taken out, and its texts as they may leave: redacted once more, by the
rules of today.

A session is gone through a part at a time, so that one of 100 MB needs no more memory than one of
ten.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec

from ..config import Config
from ..errors import NotFound
from ..model import SessionEvent
from ..redact.engine import Redactor, load_key, rules_from_config
from ..store import Store
from ..timeline import ToolCall
from .outline import Block, Outline, outline, texts

PART = 200
"""Blocks whose texts are read at once."""

Clean = Callable[[str], str]


class Taken(msgspec.Struct, frozen=True, kw_only=True):
    """A session, or the blocks of it that are wanted."""

    outline: Outline
    blocks: list[Block]
    clean: Clean
    store: Store

    @property
    def is_whole(self) -> bool:
        return len(self.blocks) == len(self.outline.blocks)

    def parts(self) -> Iterator[tuple[list[Block], dict[int, str]]]:
        """Blocks with their texts, some at a time."""
        for at in range(0, len(self.blocks), PART):
            some = self.blocks[at : at + PART]
            found = texts(self.store, self.outline.session.session_uid, some)
            yield (
                [self._cleaned(block) for block in some],
                {seq: self.clean(text) for seq, text in found.items()},
            )

    def _cleaned(self, block: Block) -> Block:
        """With what else its events say cleaned as well: lines that sum them up, tools, files."""
        call = block.call
        if call is not None:
            others = tuple(self._said(event) for event in call.others)
            result = self._said(call.result) if call.result is not None else None
            call = ToolCall(call=call.call, result=result, others=others)
        return msgspec.structs.replace(block, event=self._said(block.event), call=call)

    def _said(self, event: SessionEvent) -> SessionEvent:
        said = {
            name: self.clean(text)
            for name in ("summary", "tool", "cwd", "git_branch")
            if (text := getattr(event, name))
        }
        return msgspec.structs.replace(event, files=tuple(map(self.clean, event.files)), **said)


def take(
    store: Store,
    config: Config,
    uid: str,
    *,
    first: int = 0,
    last: int | None = None,
    branch: int | None = 0,
    made: Outline | None = None,
) -> Taken:
    """The blocks that begin between two events, both included. An event that is shown with another
    brings that one. Raises NotFound."""
    whole = made or outline(store, uid, branch)
    return Taken(
        outline=whole, blocks=between(whole, first, last), clean=cleaner(config), store=store
    )


def between(whole: Outline, first: int, last: int | None) -> list[Block]:
    """The blocks that have an event from `first` to `last`. Raises NotFound, when events were asked
    for and there are none."""
    chosen = [
        block
        for block in whole.blocks
        if any(first <= seq and (last is None or seq <= last) for seq in block.seqs)
    ]
    if not chosen and (first or last is not None):
        session = whole.session
        until = "the end" if last is None else last
        raise NotFound(
            f"{session.session_uid} has no event from {first} to {until}; its last is"
            f" {session.last_seq}"
        )
    return chosen


def cleaner(config: Config) -> Clean:
    """Redacts a text by the rules that hold now, whether or not syncs do. Reading makes no key:
    without one the marks are of today only."""
    path = Path(config.home) / "redact.key"
    return Redactor(
        load_key(path) if path.is_file() else os.urandom(32), rules_from_config(config.redact.rules)
    ).text
