"""Roo Code: a fork of Cline with the same two documents for each task.

Learned from descriptions of the format and excerpts of the source of RooCodeInc/Roo-Code; no real
task was at hand. Last checked 2026-11. The differences: `history_item.json` beside the documents
names the task that started this one; since 3.29.5 (2025-11-01) `tokensIn` is the whole prompt, the
cache included.
"""

from datetime import UTC, datetime

from . import cline


class RooAdapter(cline.ClineAdapter):
    name = "roo"
    label = "Roo Code"
    aliases = ("roo-cline",)
    roots = tuple(
        f"{editor}/globalStorage/rooveterinaryinc.{name}"
        for editor in cline.EDITORS
        for name in ("roo-cline", "roo-code-nightly")
    )
    whole_prompts_since = datetime(2025, 11, 1, tzinfo=UTC)


adapter = RooAdapter()
