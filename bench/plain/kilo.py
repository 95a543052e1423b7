"""Kilo: the database of opencode in a folder of its own."""

from __future__ import annotations

from .opencode import RULES as RULES
from .opencode import count as count

AGENT = "kilo"
FOLDERS = (".local/share/kilo",)
