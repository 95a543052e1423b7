"""Tool outputs that are too long for the log: blobs named by their hash; head and tail stay inline.

A blob is stored before the record that names it, so the blob of a record is always there. Equal
outputs share one.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from functools import cache
from typing import Any

from ..errors import LogError
from .backend import Blobs

MAX_INLINE_BYTES = 64 * 1024
"""Maximum size of an output in the log. A longer one becomes a blob."""
EDGE_CHARS = 4096
"""Length of the head and of the tail that stay in the log."""
FIELDS = ("content", "model_text", "display_text")
"""The fields of a tool result that may be long."""


class Outputs:
    def __init__(self, blobs: Blobs) -> None:
        self._blobs = blobs

    def put(self, data: bytes | str) -> dict[str, Any]:
        """Store an output and return its reference: `{"sha256": …, "size_bytes": …}`."""
        raw = data.encode("utf-8", "surrogatepass") if isinstance(data, str) else data
        name = hashlib.sha256(raw).hexdigest()
        self._blobs.put(name, raw)
        return {"sha256": name, "size_bytes": len(raw)}

    def get(self, ref: dict[str, Any] | str) -> bytes:
        """Return the whole output. Raises LogError when it is missing or damaged."""
        name = ref if isinstance(ref, str) else ref.get("sha256")
        if not isinstance(name, str) or not _hash().match(name):
            raise LogError(f"{str(name)[:80]!r} names no output")
        raw = self._blobs.get(name)
        if hashlib.sha256(raw).hexdigest() != name:
            raise LogError(f"{name}: damaged; it is not what was kept")
        return raw

    def drop(self, names: Iterable[str]) -> None:
        """Delete outputs for good. Raises LogError when one cannot be deleted."""
        for name in names:
            if _hash().match(name):
                self._blobs.delete(name)

    def shorten(self, message: dict[str, Any]) -> dict[str, Any]:
        """Return the message with long tool outputs replaced by head, tail and a reference.

        `whole` of a block has the reference of each field that was shortened, `output` the first.
        """
        content = message.get("content")
        if not isinstance(content, list):
            return message
        blocks = [self._shorten_block(block) for block in content]
        return (
            {**message, "content": blocks}
            if any(new is not old for new, old in zip(blocks, content, strict=True))
            else message
        )

    def restore(self, message: dict[str, Any]) -> dict[str, Any]:
        """Return the message as it was before `shorten`.

        An output that is missing or damaged stays short.
        """
        content = message.get("content")
        if not isinstance(content, list):
            return message
        blocks = [self._restore_block(block) for block in content]
        return {**message, "content": blocks} if blocks != content else message

    def restore_output(self, payload: dict[str, Any]) -> Any:
        """Return the whole output of a tool from the payload of its record."""
        output, ref = payload.get("output"), payload.get("whole")
        if isinstance(output, list):
            return [self._restore_part(part) for part in output]
        text = self._text(ref) if isinstance(output, str) else None
        return output if text is None else text

    def shorten_output(self, output: Any) -> tuple[Any, dict[str, Any] | None]:
        """Return a tool's output as the log stores it, and the reference to the whole if it is a
        long text.

        In a list of blocks the long texts are replaced one by one.
        """
        if isinstance(output, str):
            return self.shorten_text(output)
        return (
            [self._shorten_part(part) for part in output] if isinstance(output, list) else output
        ), None

    def shorten_text(self, text: str) -> tuple[str, dict[str, Any] | None]:
        """Return the text unchanged, or its head and tail with the reference to the whole."""
        if len(text) <= MAX_INLINE_BYTES and (
            text.isascii() or len(text.encode("utf-8", "surrogatepass")) <= MAX_INLINE_BYTES
        ):
            return text, None
        ref = self.put(text)
        left_out = len(text) - 2 * EDGE_CHARS
        return (
            f"{text[:EDGE_CHARS]}\n[… {left_out} characters left out …]\n{text[-EDGE_CHARS:]}",
            ref,
        )

    def _shorten_block(self, block: Any) -> Any:
        if not isinstance(block, dict) or block.get("type") != "tool_result" or "whole" in block:
            return block
        changed, refs = dict(block), {}
        for name in FIELDS:
            value = block.get(name)
            if isinstance(value, str):
                changed[name], ref = self.shorten_text(value)
                if ref is not None:
                    refs[name] = ref
            elif isinstance(value, list):
                changed[name] = [self._shorten_part(part) for part in value]
        if refs:
            changed = {"output": next(iter(refs.values())), **changed, "whole": refs}
        return changed if changed != block else block

    def _restore_block(self, block: Any) -> Any:
        if not isinstance(block, dict) or block.get("type") != "tool_result":
            return block
        changed = dict(block)
        for name in FIELDS:
            if isinstance(value := block.get(name), list):
                changed[name] = [self._restore_part(part) for part in value]
        refs = block.get("whole")
        if isinstance(refs, dict):
            texts = {name: self._text(ref) for name, ref in refs.items() if name in FIELDS}
            if None not in texts.values():
                changed.update(texts)
                del changed["whole"]
                if changed.get("output") in refs.values():
                    del changed["output"]
        return changed if changed != block else block

    def _restore_part(self, part: Any) -> Any:
        ref = part.get("output") if isinstance(part, dict) else None
        text = self._text(ref) if isinstance(ref, dict) else None
        if text is None:
            return part
        return {**{name: value for name, value in part.items() if name != "output"}, "text": text}

    def _text(self, ref: Any) -> str | None:
        """Return the text of an output, or None when it cannot be read."""
        try:
            return self.get(ref).decode("utf-8", "surrogatepass")
        except (AttributeError, LogError, UnicodeDecodeError):
            return None

    def _shorten_part(self, part: Any) -> Any:
        if not isinstance(part, dict) or not isinstance(part.get("text"), str) or "output" in part:
            return part
        text, ref = self.shorten_text(part["text"])
        return {**part, "text": text, "output": ref} if ref is not None else part


@cache
def _hash() -> re.Pattern[str]:
    return re.compile(r"[0-9a-f]{64}\Z")
