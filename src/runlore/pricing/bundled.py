"""The list of genai-prices without the rest of it: its types bring pydantic, an HTTP client and
asyncio, which takes 0.17 s.

The package ships a module, `data.py`, that says the list in calls of its types. It is run here with
types of ours, which keep what is said and can do no more than `prices` asks for: 0.03 s. Raises
what it meets when a later version says it in another way.
"""

from __future__ import annotations

import builtins
import os
import re
from collections.abc import Callable, Sequence
from importlib.machinery import SourceFileLoader
from types import ModuleType
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from genai_prices.types import Provider


class Said:
    """What a call said, as attributes."""

    def __init__(self, **said: Any) -> None:
        self.__dict__ = said


class Part(Said):
    """A price that may be of some days or hours only."""

    constraint = None


class _Provider(Said):
    model_match = None
    models: Sequence[Any] = ()


class _Model(Said):
    price_variants = None


class _Clause(Said):
    def is_match(self, text: str) -> bool:
        [(kind, wanted)] = self.__dict__.items()
        return _IS_MATCH[kind](text, wanted)


_IS_MATCH: dict[str, Callable[[str, Any], bool]] = {
    "starts_with": lambda text, wanted: text.lower().startswith(wanted.lower()),
    "ends_with": lambda text, wanted: text.lower().endswith(wanted.lower()),
    "contains": lambda text, wanted: wanted.lower() in text.lower(),
    "equals": lambda text, wanted: text.lower() == wanted.lower(),
    "regex": lambda text, wanted: re.search(wanted, text) is not None,
    "or_": lambda text, wanted: any(clause.is_match(text) for clause in wanted),
    "and_": lambda text, wanted: all(clause.is_match(text) for clause in wanted),
}
_CLAUSES = (
    "ClauseAnd",
    "ClauseContains",
    "ClauseEndsWith",
    "ClauseEquals",
    "ClauseOr",
    "ClauseRegex",
    "ClauseStartsWith",
)


def _unread(**_said: Any) -> None:
    """How usage is told by an API, which nobody asks for here."""


def read(package: str) -> Sequence[Provider]:
    """The providers and their prices, as the package in this folder lists them."""
    name = "genai_prices.data"
    code = SourceFileLoader(name, os.path.join(package, "data.py")).get_code(name)
    assert code is not None
    types = ModuleType("types")
    types.__dict__.update(dict.fromkeys(_CLAUSES, _Clause))
    types.__dict__.update(
        dict.fromkeys(
            ("ModelPrice", "StartDateConstraint", "Tier", "TieredPrices", "TimeOfDateConstraint"),
            Said,
        )
    )
    types.__dict__.update(
        dict.fromkeys(("ArrayMatch", "UsageExtractor", "UsageExtractorMapping"), _unread)
    )
    types.__dict__.update(
        Provider=_Provider, ModelInfo=_Model, ConditionalPrice=Part, PriceVariant=Part
    )

    def import_(module: str, *args: Any) -> ModuleType:
        level = args[3] if len(args) > 3 else 0
        return types if (module, level) == ("types", 1) else __import__(module, *args)

    said: dict[str, Any] = {
        "__name__": name,
        "__builtins__": {**vars(builtins), "__import__": import_},
    }
    exec(code, said)  # What importing it would do.  # noqa: S102
    return cast("Sequence[Provider]", said["providers"])
