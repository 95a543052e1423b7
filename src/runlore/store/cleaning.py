"""Redaction of stored records, facts and carries."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Protocol

import msgspec

from ..adapters import Facts, read_loosely
from ..model import shorten


class Cleaner(Protocol):
    """Removes secrets: see `redact.Redactor`."""

    def text(self, text: str) -> str:
        """Return the text without its secrets."""

    def value(self, value: Any) -> Any:
        """Return a decoded JSON value without its secrets; the same object if it has none."""


def redact_record(line: bytes, cleaner: Cleaner) -> bytes:
    """Return a native record with the secrets removed from each of its strings.

    A record that is not valid JSON is redacted as several loose values, or else as plain text.
    """
    try:
        value = msgspec.json.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return _redact_invalid(line, cleaner)
    clean_value = cleaner.value(value)
    return line if clean_value is value else msgspec.json.encode(clean_value)


def _redact_invalid(line: bytes, cleaner: Cleaner) -> bytes:
    values = read_loosely(line)
    if not values:
        plain = line.decode("utf-8", "replace")
        clean = cleaner.text(plain)
        return line if clean == plain else clean.encode("utf-8", "replace")
    clean_values = [cleaner.value(value) for value in values]
    if all(new is old for new, old in zip(clean_values, values, strict=True)):
        return line
    texts = (json.dumps(value, ensure_ascii=False) for value in clean_values)
    return " ".join(texts).encode("utf-8", "replace")


def clean_facts(facts: Facts, text: Callable[[str], str]) -> Facts:
    """Return the facts without secrets in the texts that came from the records."""
    names = ("title", "cwd", "git_branch", "model", "repo", "linked_repo", "task_ref")
    clean = msgspec.structs.replace(
        facts, **{name: text(value) for name in names if (value := getattr(facts, name))}
    )
    return msgspec.structs.replace(clean, title=shorten(clean.title)) if clean.title else clean


def clean_carry(carry: bytes, cleaner: Cleaner) -> bytes:
    """Return a carry without secrets in its texts (folders, branches, names of tools).

    A carry is msgpack by contract. One that cannot be decoded is returned as it is.
    """
    try:
        value = msgspec.msgpack.decode(carry)
    except (msgspec.DecodeError, RecursionError):
        return carry
    clean = cleaner.value(value)
    return carry if clean is value else msgspec.msgpack.encode(clean)
