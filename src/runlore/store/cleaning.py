"""Redaction of what is stored: records, facts and carries."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import msgspec

from ..adapters import Facts, read_loosely
from ..model import (
    shorten,
)


class Cleaner(Protocol):
    """What takes secrets out: see `redact.Redactor`."""

    def text(self, text: str) -> str:
        """The text without its secrets."""

    def value(self, value: Any) -> Any:
        """A decoded JSON value without its secrets; the same object when there are none."""


def redact_record(line: bytes, cleaner: Cleaner) -> bytes:
    """A native record with every decoded string cleaned; what is not JSON is cleaned as the text it
    is."""
    try:
        value = msgspec.json.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        loose = read_loosely(line)
        if loose:
            import json

            cleaned = [cleaner.value(value) for value in loose]
            same = all(new is old for new, old in zip(cleaned, loose, strict=True))
            return (
                line
                if same
                else " ".join(json.dumps(value, ensure_ascii=False) for value in cleaned).encode(
                    "utf-8", "replace"
                )
            )
        plain = line.decode("utf-8", "replace")
        clean = cleaner.text(plain)
        return line if clean == plain else clean.encode("utf-8", "replace")
    clean_value = cleaner.value(value)
    return line if clean_value is value else msgspec.json.encode(clean_value)


def clean_facts(facts: Facts, text: Callable[[str], str]) -> Facts:
    """The same without secrets in what came from the records."""
    names = ("title", "cwd", "git_branch", "model", "repo", "task_ref")
    clean = msgspec.structs.replace(
        facts, **{name: text(value) for name in names if (value := getattr(facts, name))}
    )
    return msgspec.structs.replace(clean, title=shorten(clean.title)) if clean.title else clean


def clean_carry(carry: bytes, cleaner: Cleaner) -> bytes:
    """A carry is msgpack by contract, so its texts (folders, branches, names of tools) can be
    cleaned like others."""
    try:
        value = msgspec.msgpack.decode(carry)
    except (msgspec.DecodeError, RecursionError):
        return carry
    clean = cleaner.value(value)
    return carry if clean is value else msgspec.msgpack.encode(clean)
