"""A newer price list than the installed one, fetched on request and stored in a file.

The file is the list of genai-prices as its authors publish it, below a line with the day it was
fetched and the version of the package. After an upgrade of the package its own list is used until
the next fetch.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from ..errors import ReadError

if TYPE_CHECKING:
    from genai_prices.types import Provider

FILE = "prices.json"
ADDRESS = "RUNLORE_PRICES_URL"
"""The environment variable for another address than that of the authors, such as a mirror."""
MAX_BYTES = 64 << 20  # The list has 2 MB.
TIMEOUT_S = 10
STAYS = "the prices stay as they are"


class Head(msgspec.Struct, frozen=True, kw_only=True):
    """The first line of the file."""

    package: str
    fetched: str
    hash: str

    @property
    def version(self) -> str:
        """The name of the list, stored with each price from it."""
        return f"genai-prices {self.package}, fetched {self.fetched} ({self.hash[:8]})"


def read(home: Path, package: str) -> tuple[Head, bytes] | None:
    """Return the list that was last fetched with this version of the package; None if none was."""
    try:
        line, _, data = (home / FILE).read_bytes().partition(b"\n")
        head = msgspec.json.decode(line, type=Head)
    except (OSError, msgspec.DecodeError):
        return None
    return (head, data) if head.package == package and head.hash == _hash(data) else None


def fetch(home: Path, package: str, address: str | None = None) -> bool:
    """Fetch the list, and store it if it changed. Return True if it did.

    Raises ReadError, and then nothing has changed.
    """
    address = address or _usual_address()
    data = _download(address)
    if not any(provider.models for provider in parse(address, data)):
        raise ReadError(address, f"there is no price in it; {STAYS}")
    head = Head(package=package, fetched=datetime.now(UTC).date().isoformat(), hash=_hash(data))
    known = read(home, package)
    if known is not None and known[0].hash == head.hash:
        return False
    new_file = home / f"{FILE}.{os.getpid()}"
    try:
        with open(
            os.open(
                new_file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | getattr(os, "O_BINARY", 0), 0o600
            ),
            "wb",
        ) as file:
            file.write(msgspec.json.encode(head) + b"\n" + data)
        new_file.replace(home / FILE)
    except OSError as error:
        with suppress(OSError):
            new_file.unlink()
        raise ReadError(str(home / FILE), f"{error.strerror}; {STAYS}") from None
    return True


def parse(address: str, data: bytes) -> Sequence[Provider]:
    """Return the providers of a list. Raises ReadError for anything else."""
    try:
        # The package reads a list from an address alone, and has no name for doing it from bytes
        # that others may use.
        from genai_prices.types import _providers_from_raw

        raw: Any = msgspec.json.decode(data)
        return _providers_from_raw(raw) if isinstance(raw, list) else []
    except Exception as error:  # Someone else's reader, and anybody's bytes.
        raise ReadError(
            address,
            f"not a price list of this version of genai-prices ({type(error).__name__}); {STAYS}",
        ) from None


def _usual_address() -> str:
    from genai_prices.update_prices import DEFAULT_UPDATE_URL

    return DEFAULT_UPDATE_URL


def _download(address: str) -> bytes:
    from http.client import HTTPException
    from urllib.request import Request, urlopen

    if not address.startswith(("https://", "http://")):
        raise ReadError(address, f"not an address of the web; {STAYS}")
    try:
        with urlopen(  # noqa: S310
            Request(address, headers={"User-Agent": "runlore"}),  # noqa: S310
            timeout=TIMEOUT_S,
        ) as answer:  # checked above
            data: bytes = answer.read(MAX_BYTES + 1)
    except (OSError, ValueError, HTTPException) as error:  # URLError and HTTPError are OSErrors.
        raise ReadError(
            address, f"cannot be fetched: {getattr(error, 'reason', None) or error}; {STAYS}"
        ) from None
    if len(data) > MAX_BYTES:
        raise ReadError(address, f"more than {MAX_BYTES >> 20} MB; {STAYS}")
    return data


def _hash(data: bytes) -> str:
    return blake2b(data, digest_size=16).hexdigest()
