"""What a request demands beyond passing tests: a pull request, green checks, a merge.

Pure. The words are English; a request in another language demands nothing that is recognized.
"""

from __future__ import annotations

import re
from typing import Literal

Demand = Literal["merge", "green checks", "pull request"]
"""What has to be reached, the strongest first: a merge also meets the others."""

_REQUEST = r"(?:pr|prs|pull[ -]requests?|mr|merge[ -]requests?)"
_CHECKS = r"(?:ci|checks?|pipelines?|workflows?|github actions?|actions)"
_PATTERNS: tuple[tuple[Demand, re.Pattern[str]], ...] = (
    ("merge", re.compile(rf"\bmerge (?:it|this|that|the {_REQUEST}|{_REQUEST})\b")),
    (
        "green checks",
        re.compile(
            rf"\b{_CHECKS}\b[^.\n]{{0,40}}\b(?:green|pass|passes|passed|passing|succeeds?|clean)\b"
            rf"|\b(?:green|passing)\b[^.\n]{{0,20}}\b{_CHECKS}\b"
        ),
    ),
    (
        "pull request",
        re.compile(
            rf"\b(?:open|create|make|raise|submit|file|send|draft)\b[^.\n]{{0,40}}\b{_REQUEST}\b"
        ),
    ),
)
_DENIES = re.compile(r"\b(?:don'?t|do not|never|without|no need to)\b[^.\n]{0,30}\Z")
MAX_CHARS = 4000


def find_demand(text: str) -> Demand | None:
    """Return the strongest thing that a request demands beyond passing tests; None if nothing."""
    low = text[:MAX_CHARS].lower().replace("\u2019", "'")
    for demand, pattern in _PATTERNS:
        for match in pattern.finditer(low):
            if not _DENIES.search(low[: match.start()]):
                return demand
    return None
