"""GitHub Copilot in Visual Studio: traces of OpenTelemetry as JSON lines, which the program leaves
among temporary files.

Learned from a description of the format and from four short traces of Visual Studio 18 that others
have made unrecognizable. Last checked 2026-11. The traps:

- A line holds spans, each with a list of attributes: `invoke_agent` is an answer to a prompt,
  `execute_tool` a call with its result. A conversation goes on in several files, and a file has
  several conversations.
- A span is written when it is over, so the spans of an answer may come before or after it. Events
  have the order of the file.
- The texts of people and of the model, and tokens, are in none of the traces at hand. An attribute
  that no rule knows is kept as text.
"""

from __future__ import annotations

from ..shared.jsonl import JsonlAdapter


class VisualStudioCopilotAdapter(JsonlAdapter):
    name = "visualstudio_copilot"
    label = "Visual Studio Copilot"
    aliases = ("visual-studio",)
    version = 3
    reader = "runlore.adapters.visualstudio_copilot.reader"
    roots: tuple[str, ...] = (
        "$VISUALSTUDIO_COPILOT_DIR", "~/AppData/Local/Temp/VSGitHubCopilotLogs/traces",
        "~/Library/Caches/VSGitHubCopilotLogs/traces",
        "~/.cache/VSGitHubCopilotLogs/traces",
    )  # fmt: skip
    lacks = ("what was said", "tokens", "folder")
    suffix = "_VSGitHubCopilot_traces.jsonl"


adapter = VisualStudioCopilotAdapter()
