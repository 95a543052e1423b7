"""Answers: how a command declares what it prints, and what is known of the types it names.

The structs themselves stand where an answer is computed, each field with its description below it.
This room does not know any of them: `Answer` names the type of one, `fields_of` looks into a type,
and `describe` reads the descriptions for the docs and for OpenAPI.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

import msgspec
from msgspec import UnsetType

from ..model import Value


class Answer(msgspec.Struct, frozen=True):
    """What a command prints as JSON, in one of its forms."""

    type: Any
    items: str | None = None
    """The field with the list that --offset and --max-tokens shorten; "" is the answer itself."""
    whole: str | None = None
    """How to get a text that --max-tokens cut."""
    is_stream: bool = False
    """True if it prints one value on each line."""


def fields_of(kind: Any) -> dict[str, Any]:
    """Return the fields below a type, by name, each with its type.

    An object with any names has one field, `*`. Lists are looked through.
    """
    kind = item_of(kind)
    if is_struct(kind):
        return struct_fields(kind)
    if kind is Any:
        return {"*": Any}
    return {"*": get_args(kind)[1]} if get_origin(kind) is dict else {}


@cache
def struct_fields(kind: type[msgspec.Struct]) -> dict[str, Any]:
    """Return the fields of a struct as they are printed, by name, each with its type."""
    hints = get_type_hints(kind)
    # A `Value` prints its unknown fields beside those that it knows.
    hidden = {"extra"} if is_open(kind) else set()
    return {
        field.encode_name: hints[field.name]
        for field in msgspec.structs.fields(kind)
        if field.name not in hidden
    }


def item_of(kind: Any) -> Any:
    """Return what a field holds, without null and without the list around it."""
    origin, inner = get_origin(kind), get_args(kind)
    if origin in (Union, UnionType):
        rest = [one for one in inner if one not in (NoneType, UnsetType)]
        return item_of(rest[0]) if len(rest) == 1 else kind
    return item_of(inner[0]) if is_list(kind) else kind


def is_list(kind: Any) -> bool:
    """Return True for a list, or for a tuple of any length."""
    origin, inner = get_origin(kind), get_args(kind)
    return origin is list or (origin is tuple and inner[1:] == (...,))


def is_struct(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, msgspec.Struct)


def is_open(kind: Any) -> bool:
    """Return True if an object may have fields that its type does not name."""
    return isinstance(kind, type) and issubclass(kind, Value)


def structs_in(kinds: Iterable[Any]) -> list[type[msgspec.Struct]]:
    """Return every struct that occurs in these types, in the order of their first occurrence."""
    known: dict[type[msgspec.Struct], None] = {}
    waiting = list(kinds)
    while waiting:
        kind = waiting.pop(0)
        if is_struct(kind):
            if kind not in known:
                known[kind] = None
                waiting[:0] = struct_fields(kind).values()
        else:
            waiting[:0] = [one for one in get_args(kind) if one is not ...]
    return list(known)
