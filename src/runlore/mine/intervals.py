"""Confidence intervals of shares."""

from __future__ import annotations

from math import sqrt

Z_95 = 1.959964
"""The normal quantile of a 95 % interval."""


def wilson_interval(hits: float, total: float, z: float = Z_95) -> tuple[float, float]:
    """Return the Wilson bounds of the share `hits / total`.

    Without observations they are 0 and 1. The lower bound of 2 of 2 is below that of 40 of 50.
    """
    if total <= 0:
        return 0.0, 1.0
    share = hits / total
    middle = share + z * z / (2 * total)
    spread = z * sqrt(share * (1 - share) / total + z * z / (4 * total * total))
    return max(0.0, (middle - spread) / (1 + z * z / total)), min(
        1.0, (middle + spread) / (1 + z * z / total)
    )
