"""OpenClaude: a fork of Claude Code that writes the same transcripts to a folder of its own.

Learned from the source of Gitlawb/openclaude (2026-08: `sessionStorage.ts`, `envUtils.ts`); no real
session was at hand. Last checked 2026-11. It never looks into Claude Code's own folder.
"""

from . import Integration, claude


class OpenClaudeAdapter(claude.ClaudeAdapter):
    name = "openclaude"
    label = "OpenClaude"
    aliases = ()
    roots = ("$OPENCLAUDE_CONFIG_DIR/projects", "~/.openclaude/projects")
    command = "openclaude"

    def integration(self) -> Integration | None:
        return None  # How it is made to call us is not known.


adapter = OpenClaudeAdapter()
