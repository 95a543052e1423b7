"""MiMo Code (Xiaomi): a fork of opencode that keeps the same tables in a database of its own.

Learned from the source of XiaomiMiMo/MiMo-Code (2026: `session.sql.ts`, `message-v2.ts`,
`opencode-import.ts`); no real session was at hand. Last checked 2026-11. The differences: a message
names its agent (`agent_id`), and those of subagents are in the session that started them; names of
tools begin with a capital; and sessions of opencode, Claude Code and Codex can be imported
(`external_import`). Imported messages are read where they were written, and here only those that
came later.
"""

from . import opencode


class MimoCodeAdapter(opencode.OpenCodeAdapter):
    name = "mimocode"
    label = "MiMo Code"
    aliases = ("mimo",)
    roots = ("$XDG_DATA_HOME/mimocode", "~/.local/share/mimocode")
    stem = "mimocode"
    command = "mimo"
    variable = ""


adapter = MimoCodeAdapter()
