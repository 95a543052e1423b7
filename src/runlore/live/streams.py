"""A message that arrives in pieces: the log has the pieces while they arrive, then the message.

A piece is a `partial` record with a `delta`, so that a stream costs its size twice and not its size
for each piece. Pieces are collected until a write is worth it.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from ..errors import LogError
from ..model import LogRecord
from .views import join_blocks

if TYPE_CHECKING:
    from .session import LiveSession

FLUSH_CHARS = 512
"""Number of characters after which a piece is written. A record costs about 160 bytes beside it."""
FLUSH_AFTER_S = 1.0
"""Maximum age of what is not written yet, when more arrives."""


class Stream:
    """A message of a model while it arrives: `with session.stream() as stream`.

    At the end of the block the whole message is appended. After an exception or a kill the pieces
    stay in view, marked `partial`, until the next message of the same role.
    """

    def __init__(self, session: LiveSession, role: str, key: str | None) -> None:
        self._session = session
        self._role = role
        self._key = key
        self._id = os.urandom(4).hex()
        self._blocks: list[dict[str, Any]] = []
        self._unwritten: list[dict[str, Any]] = []
        self._chars = 0
        self._written_at = time.monotonic()
        self.record: LogRecord | None = None
        """The record of the whole message, once it was appended."""

    @property
    def message(self) -> dict[str, Any]:
        """The message so far."""
        blocks = list(self._blocks)
        join_blocks(blocks, self._unwritten)
        return {"role": self._role, "content": blocks}

    def text(self, text: str) -> None:
        """Add a piece of the reply."""
        self._add({"type": "text", "text": text}, len(text))

    def thinking(self, text: str) -> None:
        """Add a piece of the model's thinking."""
        self._add({"type": "thinking", "thinking": text}, len(text))

    def block(self, block: Mapping[str, Any]) -> None:
        """Add a whole block, such as a tool call."""
        self._add(dict(block), FLUSH_CHARS)

    def flush(self) -> None:
        """Write what has arrived, so that other readers see it."""
        if self._unwritten:
            delta, self._unwritten, self._chars = self._unwritten, [], 0
            join_blocks(self._blocks, delta)
            self._session.record(
                "partial", {"role": self._role, "stream": self._id, "delta": delta}
            )
        self._written_at = time.monotonic()

    def finish(self, message: Mapping[str, Any] | None = None) -> LogRecord:
        """Append the whole message: the given one, or what has arrived."""
        if self.record is not None:
            raise LogError(f"{self._session.id}: the stream was finished before")
        whole = self.message if message is None else message
        self.record = self._session.append(whole, key=self._key)
        return self.record

    def _add(self, block: dict[str, Any], chars: int) -> None:
        join_blocks(self._unwritten, [block])
        self._chars += chars
        is_due = time.monotonic() - self._written_at >= FLUSH_AFTER_S
        if self._chars >= FLUSH_CHARS or is_due:
            self.flush()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is not None:
            self.flush()
        elif self.record is None and (self._blocks or self._unwritten):
            self.finish()
