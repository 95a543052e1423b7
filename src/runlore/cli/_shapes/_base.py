"""What all shapes are made of."""

from __future__ import annotations

import msgspec

Number = int | float


class Value(msgspec.Struct, forbid_unknown_fields=True):
    """An object that has its fields and no others, unless it says so."""
