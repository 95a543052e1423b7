"""`NamedTuple` without `typing`, whose import takes longer than a report: what lists and reports are asked for, and what they answer.

For the type checker it is `typing.NamedTuple`, and so it is to be used: a class with annotated fields, of which the last may have defaults.
"""

from __future__ import annotations

from collections import namedtuple

TYPE_CHECKING = False  # As in `typing`.

if TYPE_CHECKING:
    from typing import Any
    from typing import NamedTuple as NamedTuple
else:

    class _Fields(type):
        def __new__(cls, name: str, bases: tuple[type, ...], body: dict[str, Any]) -> type:
            if not bases:
                return super().__new__(cls, name, bases, body)
            fields = body.get("__annotations__", {})
            defaults = [body.pop(field) for field in fields if field in body]
            made = namedtuple(name, fields, defaults=defaults, module=body["__module__"])
            return type(name, (made,), {"__slots__": (), **body})

    class NamedTuple(metaclass=_Fields):
        """What `typing` calls so."""
