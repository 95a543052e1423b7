"""How Claude Code is made to call us.

Learned from its reference of hooks and of MCP (2026-11), and from reports of its users. Hooks are in settings.json; servers for
all projects of a user are in .claude.json, which lies beside the folder of settings, or in it when CLAUDE_CONFIG_DIR names one. The traps:

- PostToolUse comes only when a tool has worked; a failure is PostToolUseFailure, with its text in `error`.
- Before 2.1.101 a hook that it does not know made it refuse settings.json as a whole (stablyai/orca#10191).
- All hooks of SessionEnd share 1.5 s, unless an entry in the settings asks for more.
- `timeout` is in seconds.
- Neither file may hold comments; Claude Code refuses settings.json as a whole then.
"""

from __future__ import annotations

from collections.abc import Callable

from ..._settings import Entry
from .. import Integration

TIMEOUT_S = 5
"""We are done in 0.3 s; a machine that is just waking up may need longer to start Python."""


def hooks(command: Callable[[str], str]) -> list[Entry]:
    """A session that is resumed, or was compacted, has been told already."""
    return [
        Entry(path=("hooks", "SessionStart"), value={"matcher": "startup|clear", "hooks": [handler(command("start"))]}, in_list=True),
        Entry(path=("hooks", "PostToolUseFailure"), value={"hooks": [handler(command("fail"))]}, in_list=True),
        Entry(path=("hooks", "SessionEnd"), value={"hooks": [handler(command("end"))]}, in_list=True),
    ]


def handler(command: str) -> dict[str, object]:
    return {"type": "command", "command": command, "timeout": TIMEOUT_S}


def server(words: list[str], env: dict[str, str]) -> list[Entry]:
    value: dict[str, object] = {"type": "stdio", "command": words[0], "args": words[1:], "env": env}
    return [Entry(path=("mcpServers", "runlore"), value=value)]


made = Integration(
    hooks_files=("$CLAUDE_CONFIG_DIR/settings.json", "~/.claude/settings.json"),
    hooks=hooks,
    server_files=("$CLAUDE_CONFIG_DIR/.claude.json", "~/.claude.json"),
    server=server,
    answer="json",
    after_hooks="this needs Claude Code 2.1 or newer: older ones refuse settings with a hook that they do not know",
)
