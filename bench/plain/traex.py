"""TRAE CLI: the rollouts of Codex in a folder of its own."""

from __future__ import annotations

from .codex import RULES as RULES
from .codex import count as count

AGENT = "traex"
FOLDERS = (".trae/cli",)
