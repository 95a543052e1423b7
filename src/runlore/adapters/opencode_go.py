"""opencode in Go (opencode-ai, archived 2025): the predecessor of Crush, with the same database in
each project's `.opencode`.

Learned from databases of 2025 with real sessions. Last checked 2026-11. Nothing lists the projects:
only that of the home folder is looked for, the others are to be named in the config.
"""

from . import crush


class OpenCodeGoAdapter(crush.CrushAdapter):
    name = "opencode_go"
    label = "opencode (Go)"
    roots = ("~/.opencode",)
    instructions = ("CLAUDE.md", "OpenCode.md")
    folder, file = ".opencode", "opencode.db"


adapter = OpenCodeGoAdapter()
