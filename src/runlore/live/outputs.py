"""Tool outputs that are too long for the log: files named by their hash; head and tail stay inline.

A file is written before the record that names it, so the file of a record is always there. Equal
outputs share one file.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

from ..errors import LogError
from ..files.locks import O_BINARY, sync, sync_folder

FOLDER = "outputs"
MAX_INLINE_BYTES = 64 * 1024
"""Maximum size of an output in the log. A longer one goes to a file."""
EDGE_CHARS = 4096
"""Length of the head and of the tail that stay in the log."""
FIELDS = ("content", "model_text", "display_text")
"""The fields of a tool result that may be long."""


class Outputs:
    def __init__(self, folder: Path, durable: bool) -> None:
        self.folder = folder / FOLDER
        self._durable = durable

    def put(self, data: bytes | str) -> dict[str, Any]:
        """Store an output and return its reference: `{"sha256": …, "size_bytes": …}`."""
        raw = data.encode("utf-8", "surrogatepass") if isinstance(data, str) else data
        name = hashlib.sha256(raw).hexdigest()
        path = self.folder / name
        if not path.exists():
            try:
                self._write(path, raw)
            except OSError as error:
                raise LogError(f"{path}: {error.strerror}; the output was not kept") from None
        return {"sha256": name, "size_bytes": len(raw)}

    def get(self, ref: dict[str, Any] | str) -> bytes:
        """Return the whole output. Raises LogError when it is missing or damaged."""
        name = ref if isinstance(ref, str) else ref.get("sha256")
        if not isinstance(name, str) or not _hash().match(name):
            raise LogError(f"{str(name)[:80]!r} names no output")
        try:
            raw = (self.folder / name).read_bytes()
        except OSError as error:
            raise LogError(f"{self.folder / name}: {error.strerror}") from None
        if hashlib.sha256(raw).hexdigest() != name:
            raise LogError(f"{self.folder / name}: damaged; it is not what was kept")
        return raw

    def drop(self, names: Iterable[str]) -> None:
        """Delete outputs for good. Raises LogError when one cannot be deleted."""
        for name in names:
            if _hash().match(name):
                try:
                    (self.folder / name).unlink(missing_ok=True)
                except OSError as error:
                    raise LogError(f"{self.folder / name}: {error.strerror}") from None

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
        if left_out <= 0:
            return text, ref
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

    def _write(self, path: Path, raw: bytes) -> None:
        # A draft has no folder before its first record, which comes after the output.
        self.folder.parent.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.folder.parent.mkdir(mode=0o700, exist_ok=True)
        self.folder.mkdir(mode=0o700, exist_ok=True)
        temporary = self.folder / f".{os.getpid()}.{os.urandom(4).hex()}"
        try:
            with open(
                os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | O_BINARY, 0o600), "wb"
            ) as file:
                file.write(raw)
                file.flush()
                if self._durable:
                    sync(file.fileno())
            temporary.replace(path)
        except OSError:
            temporary.unlink(missing_ok=True)
            raise
        if self._durable:
            sync_folder(self.folder)
            sync_folder(self.folder.parent)


@cache
def _hash() -> re.Pattern[str]:
    return re.compile(r"[0-9a-f]{64}\Z")
