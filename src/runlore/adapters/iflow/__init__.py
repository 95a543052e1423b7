"""iFlow CLI: one file of JSON lines for each session, with the envelope of Claude Code and the
tools of Gemini CLI.

Learned from one real session of 2026-01 and from where others look for them. Last checked 2026-11.
The traps:

- Replies are written as they grow: a call is in every line until its result has come, and is one
  event.
- A result has the fields of Gemini CLI: `responseParts` for the model, and `resultDisplay` for the
  person, with the changed lines.
- `usage` is there and is always zero.
"""

from __future__ import annotations

from ..shared.jsonl import JsonlAdapter


class IflowAdapter(JsonlAdapter):
    name = "iflow"
    label = "iFlow CLI"
    aliases = ("iflow-code",)
    version = 3
    reader = "runlore.adapters.iflow.reader"
    roots = ("~/.iflow/projects",)
    lacks = ("tokens",)
    instructions = ("IFLOW.md",)


adapter = IflowAdapter()
