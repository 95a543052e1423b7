"""The price list of genai-prices without its types, which import pydantic, an HTTP client and
asyncio.

The package ships a module, `data.py`, that builds the list by calls of its types. Here it runs with
types of ours, which hold the arguments and can do no more than `prices` needs. A later version that
builds the list in another way raises an error.
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


class Arguments:
    """The arguments of a call, as attributes."""

    def __init__(self, **arguments: Any) -> None:
        self.__dict__ = arguments


class Part(Arguments):
    """A price that may be of some days or hours only."""

    constraint = None


class _Provider(Arguments):
    model_match = None
    models: Sequence[Any] = ()


class _Model(Arguments):
    price_variants = None


class _Clause(Arguments):
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


def _ignore(**_arguments: Any) -> None:
    """Take the place of types that describe the usage in the answers of an API."""


def read(package: str) -> Sequence[Provider]:
    """Return the providers and their prices, from the package in this folder."""
    name = "genai_prices.data"
    code = SourceFileLoader(name, os.path.join(package, "data.py")).get_code(name)
    assert code is not None
    types = ModuleType("types")
    types.__dict__.update(dict.fromkeys(_CLAUSES, _Clause))
    types.__dict__.update(
        dict.fromkeys(
            ("ModelPrice", "StartDateConstraint", "Tier", "TieredPrices", "TimeOfDateConstraint"),
            Arguments,
        )
    )
    types.__dict__.update(
        dict.fromkeys(("ArrayMatch", "UsageExtractor", "UsageExtractorMapping"), _ignore)
    )
    types.__dict__.update(
        Provider=_Provider, ModelInfo=_Model, ConditionalPrice=Part, PriceVariant=Part
    )

    def import_(module: str, *args: Any) -> ModuleType:
        level = args[3] if len(args) > 3 else 0
        return types if (module, level) == ("types", 1) else __import__(module, *args)

    namespace: dict[str, Any] = {
        "__name__": name,
        "__builtins__": {**vars(builtins), "__import__": import_},
    }
    exec(code, namespace)  # What importing it would do.  # noqa: S102
    return cast("Sequence[Provider]", namespace["providers"])
