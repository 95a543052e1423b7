"""The part of a session to export, with its texts redacted once more by the current rules.

A session is read a part at a time, so that memory does not grow with its size.
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

PART_BLOCKS = 200
"""Blocks whose texts are read at once."""

Clean = Callable[[str], str]


class Selection(msgspec.Struct, frozen=True, kw_only=True):
    """A session, or some of its blocks."""

    outline: Outline
    blocks: list[Block]
    clean: Clean
    store: Store

    @property
    def is_whole(self) -> bool:
        return len(self.blocks) == len(self.outline.blocks)

    def parts(self) -> Iterator[tuple[list[Block], dict[int, str]]]:
        """Yield the blocks with their texts, some at a time."""
        for at in range(0, len(self.blocks), PART_BLOCKS):
            some = self.blocks[at : at + PART_BLOCKS]
            bodies = texts(self.store, self.outline.session.session_uid, some)
            yield (
                [self._clean_block(block) for block in some],
                {seq: self.clean(text) for seq, text in bodies.items()},
            )

    def _clean_block(self, block: Block) -> Block:
        """Return the block with its other texts redacted as well: summaries, tools, files."""
        call = block.call
        if call is not None:
            others = tuple(self._clean_event(event) for event in call.others)
            result = self._clean_event(call.result) if call.result is not None else None
            call = ToolCall(call=call.call, result=result, others=others)
        return msgspec.structs.replace(block, event=self._clean_event(block.event), call=call)

    def _clean_event(self, event: SessionEvent) -> SessionEvent:
        texts = {
            name: self.clean(text)
            for name in ("summary", "tool", "cwd", "git_branch")
            if (text := getattr(event, name))
        }
        return msgspec.structs.replace(event, files=tuple(map(self.clean, event.files)), **texts)


def select(
    store: Store,
    config: Config,
    uid: str,
    *,
    first: int = 0,
    last: int | None = None,
    branch: int | None = 0,
    prepared: Outline | None = None,
) -> Selection:
    """Return the blocks from event `first` to `last`. Raises NotFound.

    An event that is shown with another brings that one.
    """
    whole = prepared or outline(store, uid, branch)
    return Selection(
        outline=whole, blocks=blocks_between(whole, first, last), clean=cleaner(config), store=store
    )


def blocks_between(whole: Outline, first: int, last: int | None) -> list[Block]:
    """Return the blocks with an event from `first` to `last`.

    Raises NotFound if a range has none.
    """
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
    """Return a function that redacts a text by the current rules, whether or not syncs redact.

    Reading creates no key: without one a random key is used, and its marks are not stable.
    """
    path = Path(config.home) / "redact.key"
    return Redactor(
        load_key(path) if path.is_file() else os.urandom(32), rules_from_config(config.redact.rules)
    ).text
