"""The base of all values that are written as JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import cache
from typing import Any, ClassVar, Self

import msgspec
from msgspec.structs import force_setattr

from ..errors import MissingField, ModelError
from .units import format_time, parse_time


class Value(msgspec.Struct, frozen=True, kw_only=True):
    """A frozen value. A field that a newer runlore wrote is kept in `extra` and written back."""

    TIMES: ClassVar[frozenset[str]] = frozenset()
    """The fields that hold a time."""

    extra: dict[str, Any] = msgspec.field(default_factory=dict)

    def __post_init__(self) -> None:
        check_types(self)

    def to_dict(self) -> dict[str, Any]:
        """Return plain data, with times as ISO 8601 and unknown fields on the level they came
        from."""
        out = dict(self.extra)
        for name in self.__struct_fields__:
            if name != "extra":
                out[name] = _plain(getattr(self, name))
        return out

    def to_json(self) -> str:
        """Return JSON with sorted keys in ASCII: equal values give equal text."""
        return json.dumps(self.to_dict(), sort_keys=True)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """Build the value from plain data.

        Raises MissingField for a required field that is missing, ModelError for an invalid one.
        """
        known, extra = {}, {}
        for name, value in data.items():
            if name in cls.__struct_fields__ and name != "extra":
                known[name] = (
                    parse_time(value) if name in cls.TIMES and value is not None else value
                )
            else:
                extra[name] = value
        missing = [name for name in _required_fields(cls) if name not in known]
        if missing:
            raise MissingField(f"{cls.__name__} needs {', '.join(missing)}")
        return cls._load(known, extra)

    @classmethod
    def from_json(cls, text: str | bytes) -> Self:
        """Read what `to_json` of this, an older or a newer version wrote."""
        return cls.from_dict(_object(text, cls.__name__))

    @classmethod
    def _load(cls, known: dict[str, Any], extra: dict[str, Any]) -> Self:
        try:
            # convert() checks the types of the fields, the constructor the rules between them.
            return msgspec.convert({**known, "extra": extra}, cls)
        except msgspec.ValidationError as error:
            raise ModelError(f"{cls.__name__}: {error}") from None


class Plain(msgspec.Struct, frozen=True):
    """A frozen value that is written and read as plain data, by the names of its fields."""

    def to_dict(self) -> dict[str, Any]:
        """Return plain data, with times as ISO 8601."""
        data = msgspec.to_builtins(self)
        fields = msgspec.structs.fields(self)
        return {one.name: data[one.encode_name] for one in fields if one.encode_name in data}

    def to_json(self) -> str:
        """Return JSON with sorted keys in ASCII: equal values give equal text."""
        return json.dumps(self.to_dict(), sort_keys=True)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """Build the value from plain data. Fields that it does not have are left out.

        Raises MissingField for a required field that is missing, ModelError for an invalid one.
        """
        known = {field.name: field for field in msgspec.structs.fields(cls)}
        missing = [name for name in _required_fields(cls) if name not in data]
        if missing:
            raise MissingField(f"{cls.__name__} needs {', '.join(missing)}")
        encoded = {known[name].encode_name: part for name, part in data.items() if name in known}
        try:
            return msgspec.convert(encoded, cls)
        except (msgspec.ValidationError, RecursionError) as error:
            raise ModelError(f"{cls.__name__}: {error}") from None

    @classmethod
    def from_json(cls, text: str | bytes) -> Self:
        """Read what `to_json` of this, an older or a newer version wrote."""
        return cls.from_dict(_object(text, cls.__name__))


def check_types(value: msgspec.Struct) -> None:
    """Raise ModelError when a field does not have its type. For constructors.

    Another sequence in place of a tuple becomes one.
    """
    cls, parts = type(value), msgspec.structs.astuple(value)
    known, texts = _CHECKED.get(cls) or _CHECKED.setdefault(cls, (set(), _texts(cls)))
    kinds = tuple(map(type, parts))
    if kinds in known:
        for n in texts:
            if parts[n] and not all(type(text) is str for text in parts[n]):
                break
        else:
            return
    names = cls.__struct_fields__
    try:
        checked = msgspec.convert(dict(zip(names, parts, strict=True)), _shape(cls))
    except msgspec.ValidationError as error:
        raise ModelError(f"{cls.__name__}: {error}") from None
    changed = {n for n, name in enumerate(names) if type(getattr(checked, name)) is not kinds[n]}
    for n in changed:
        force_setattr(value, names[n], getattr(checked, names[n]))
    if not changed and len(known) < MAX_CHECKED:
        known.add(kinds)


MAX_CHECKED = 10_000
"""Maximum number of combinations of types that are remembered for a class."""
_CHECKED: dict[type, tuple[set[tuple[type, ...]], tuple[int, ...]]] = {}
"""For each class, the combinations of types of its fields that were found to be right, and the
places of the fields that are tuples of texts."""


@cache
def _shape(cls: type[msgspec.Struct]) -> type[msgspec.Struct]:
    """Return a struct with the same fields and no rules of its own."""
    return msgspec.defstruct(
        cls.__name__, [(field.name, field.type) for field in msgspec.structs.fields(cls)]
    )


def _texts(cls: type[msgspec.Struct]) -> tuple[int, ...]:
    """Return the places of the fields that are tuples of texts."""
    fields = msgspec.structs.fields(cls)
    return tuple(n for n, field in enumerate(fields) if field.type == tuple[str, ...])


def check_times(value: Value) -> None:
    """Convert all times of a value to UTC. Raises ModelError for a time without a zone."""
    for name in value.TIMES:
        moment: datetime | None = getattr(value, name)
        if moment is None:
            continue
        if moment.tzinfo is None:
            raise ModelError(f"{name} {moment} must be an aware time, with a zone")
        if moment.tzinfo is not UTC:
            force_setattr(value, name, moment.astimezone(UTC))


def _object(text: str | bytes, name: str) -> dict[str, Any]:
    """Return the object in a JSON text. Raises ModelError."""
    try:
        data = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ModelError(f"{name}: not JSON: {error}") from None
    if not isinstance(data, dict):
        raise ModelError(f"{name} must be a JSON object")
    return data


@cache
def _required_fields(kind: type[msgspec.Struct]) -> tuple[str, ...]:
    return tuple(field.name for field in msgspec.structs.fields(kind) if field.required)


def _plain(value: Any) -> Any:
    if isinstance(value, datetime):
        return format_time(value)
    if isinstance(value, Value):
        return value.to_dict()
    return msgspec.to_builtins(value)
