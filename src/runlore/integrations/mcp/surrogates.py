"""Requests with half a surrogate, which JSON can write (`\\ud800`) and UTF-8 cannot.

A tool that cuts a text in the middle of a character sends such requests. The SDK refuses to parse
them, and what it cannot parse it does not answer, so the client would wait for ever.
"""

from __future__ import annotations

import json
import re
from types import TracebackType
from typing import Self

from anyio import EndOfStream
from mcp.shared._stream_protocols import ReadStream
from mcp.shared.message import SessionMessage
from mcp.types import jsonrpc_message_adapter
from pydantic import ValidationError

Item = SessionMessage | Exception

HALF = re.compile("[\ud800-\udfff]")


class RepairedStream:
    """The messages of a client, with a replacement character for each half surrogate."""

    def __init__(self, stream: ReadStream[Item]) -> None:
        self._stream = stream

    async def receive(self) -> Item:
        return repair(await self._stream.receive())

    async def aclose(self) -> None:
        await self._stream.aclose()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Item:
        try:
            return await self.receive()
        except EndOfStream:
            raise StopAsyncIteration from None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.aclose()


def repair(item: Item) -> Item:
    """Return the message of a line that could not be parsed for a half surrogate; else the item."""
    if not isinstance(item, ValidationError):
        return item
    line = item.errors()[0]["input"]
    try:
        text = json.dumps(json.loads(line), ensure_ascii=False)
        return SessionMessage(
            jsonrpc_message_adapter.validate_json(HALF.sub("\N{REPLACEMENT CHARACTER}", text))
        )
    except (TypeError, ValueError, RecursionError):
        return item
