"""The prices that apply on this machine: the user's own, and the price sheets looked up before.

Loading the whole price table takes much longer than reading the few sheets that a user's models
need, so these are cached in a file of their own, which may be deleted at any time.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress

import msgspec

from ..config import FILE, Config
from ..errors import ConfigError
from ..model import Call
from . import ledger, prices
from .table import ListPrice, Rates, Sheet

CACHE = "prices.cache"
"""In runlore's home."""


class PriceSheets:
    """The price sheets of models, looked up in the table when they are first needed."""

    def __init__(self, config: Config) -> None:
        self.table = prices.table_of(config.home)
        self._own = _own_prices(config)
        self._file = config.home / CACHE
        self._known = self._read_cache()
        self._is_changed = False

    def find(self, call: Call) -> Rates | None:
        """Return the price of a call's model at its time; None if no table has one."""
        return prices.find(call.model, call.ts, call.provider, self._own, self._look_up)

    def find_known(self, call: Call) -> Rates | None:
        """Return the price of a call from the sheets that are known, without the whole table."""
        return prices.find(call.model, call.ts, call.provider, self._own, self._known_sheet)

    def save(self) -> None:
        """Write the sheets that were looked up, so that the next user need not load the table."""
        if not self._is_changed:
            return
        new_file = self._file.with_name(f"{self._file.name}.{os.getpid()}")
        flags = os.O_WRONLY | os.O_CREAT | getattr(os, "O_BINARY", 0)
        with suppress(OSError):
            with open(os.open(new_file, flags, 0o600), "wb") as file:
                file.write(msgspec.msgpack.encode((self.table.version, self._known)))
            new_file.replace(self._file)

    def _read_cache(self) -> dict[str, Sheet | None]:
        try:
            version, sheets = msgspec.msgpack.decode(
                self._file.read_bytes(), type=tuple[str, dict[str, Sheet | None]]
            )
        except (OSError, msgspec.DecodeError):
            return {}
        return sheets if version == self.table.version else {}

    def _look_up(self, model: str, provider: str | None) -> Sheet | None:
        name = _name(model, provider)
        if name not in self._known:
            self._known[name] = prices.look_up(model, provider, self.table)
            self._is_changed = True
        return self._known[name]

    def _known_sheet(self, model: str, provider: str | None) -> Sheet | None:
        return self._known.get(_name(model, provider))


def stored_parts(config: Config) -> Callable[[Call], tuple[ledger.Part, ...]]:
    """Return a function that splits the cost of a call into its parts.

    It uses only price sheets that were looked up before, and gives nothing for other models.
    """
    sheets = PriceSheets(config)
    return lambda call: ledger.parts(call, sheets.find_known(call))


def _name(model: str, provider: str | None) -> str:
    return f"{provider or ''} {model}"


def _own_prices(config: Config) -> prices.Overrides:
    lower = {name.lower(): lines for name, lines in config.prices.items()}
    try:
        return msgspec.convert(lower, dict[str, ListPrice | list[ListPrice]])
    except msgspec.ValidationError as error:
        raise ConfigError(f"{config.home / FILE}: prices: {error}") from None
