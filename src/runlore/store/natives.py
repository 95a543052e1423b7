"""The numbers by which a store finds native ids. Pure."""

from __future__ import annotations

import struct
from hashlib import blake2b

_HIDDEN = "hidden="
_HIDDEN_LENGTH = len(_HIDDEN) + 16

_number = struct.Struct("<q").unpack
_empty = blake2b(digest_size=8)  # Copying it is cheaper than creating a new one.


def native_hash(flavor: str, native_id: str) -> int:
    """Return the signed 64-bit number by which a store finds a native id."""
    if len(native_id) == _HIDDEN_LENGTH and native_id.startswith(_HIDDEN):
        return int.from_bytes(bytes.fromhex(native_id[len(_HIDDEN) :]), "little", signed=True)
    hashed = _empty.copy()
    hashed.update(f"{flavor}:{native_id}".encode("utf-8", "replace"))
    number: int = _number(hashed.digest())[0]
    return number or 1


def hidden_id(flavor: str, native_id: str) -> str:
    """Return a name with the same hash, for a native id that must not be stored as it is."""
    return _HIDDEN + native_hash(flavor, native_id).to_bytes(8, "little", signed=True).hex()
