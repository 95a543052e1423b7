"""Agent frameworks for the tests of bridges. A test is skipped where one is not installed."""

from __future__ import annotations

import importlib
import warnings
from types import ModuleType

import pytest


def load(*names: str, extra: str) -> list[ModuleType]:
    """Return modules of a framework, or of a bridge to it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Frameworks warn about each other.
        try:
            return [importlib.import_module(name) for name in names]
        except ModuleNotFoundError as error:
            pytest.skip(
                f"{error.name} is not installed: pip install 'runlore[{extra}]'",
                allow_module_level=True,
            )
