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
        try:
            data = json.loads(text)
        except ValueError as error:
            raise ModelError(f"{cls.__name__}: not JSON: {error}") from None
        if not isinstance(data, dict):
            raise ModelError(f"{cls.__name__} must be a JSON object")
        return cls.from_dict(data)

    @classmethod
    def _load(cls, known: dict[str, Any], extra: dict[str, Any]) -> Self:
        try:
            # convert() checks the types of the fields, the constructor the rules between them.
            return msgspec.convert({**known, "extra": extra}, cls)
        except msgspec.ValidationError as error:
            raise ModelError(f"{cls.__name__}: {error}") from None


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


@cache
def _required_fields(kind: type[Value]) -> tuple[str, ...]:
    return tuple(field.name for field in msgspec.structs.fields(kind) if field.required)


def _plain(value: Any) -> Any:
    if isinstance(value, datetime):
        return format_time(value)
    if isinstance(value, Value):
        return value.to_dict()
    return msgspec.to_builtins(value)
