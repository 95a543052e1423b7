"""The number by which a store finds a native id. Pure."""

from __future__ import annotations

from .._hash import blake2b

_HIDDEN = "hidden="


def native_hash(flavor: str, native_id: str) -> int:
    """A signed 64-bit number for a native id: what the store finds it by."""
    if native_id.startswith(_HIDDEN) and len(native_id) == len(_HIDDEN) + 16:
        return int.from_bytes(bytes.fromhex(native_id[len(_HIDDEN) :]), "little", signed=True)
    digest = blake2b(f"{flavor}:{native_id}".encode("utf-8", "replace"), digest_size=8).digest()
    return int.from_bytes(digest, "little", signed=True) or 1


def hidden_id(flavor: str, native_id: str) -> str:
    """A name for a native id that must not be stored as it is, with the same hash."""
    return _HIDDEN + native_hash(flavor, native_id).to_bytes(8, "little", signed=True).hex()
