"""How Claude Code is made to call us.

Learned from its reference of hooks and of MCP (2026-11), and from reports of its users. Hooks are
in settings.json; servers for all projects of a user are in .claude.json, which lies beside the
folder of settings, or in it when CLAUDE_CONFIG_DIR names one. The traps:

- PostToolUse comes only when a tool has worked; a failure is PostToolUseFailure, with its text in
  `error`.
- Before 2.1.101 a hook that it does not know made it refuse settings.json as a whole
  (stablyai/orca#10191). The names of ours are in its packages on npm from these versions on:
  SessionStart 1.0.62, SessionEnd 1.0.85, PostToolUseFailure 2.0.56.
- All hooks of SessionEnd share 1.5 s, unless an entry in the settings asks for more.
- `timeout` is in seconds.
- Each MCP call has the id of its tool call in `_meta`. The session's id is only in the environment
  of the server, which other agents that are started from there inherit. After /clear it is that
  of the session before.
- Neither file may hold comments; Claude Code refuses settings.json as a whole then.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from .. import Entry, Integration

TIMEOUT_S = 5
"""We are done in 0.3 s; a machine that is just waking up may need longer to start Python."""


def hooks(command: Callable[[str], str]) -> list[Entry]:
    """A session that is resumed, or was compacted, has been told already."""
    return [
        entry(
            "SessionStart",
            {"matcher": "startup|clear", "hooks": [handler(command("start"))]},
            (1, 0, 62),
        ),
        entry("PostToolUseFailure", {"hooks": [handler(command("fail"))]}, (2, 0, 56)),
        entry("SessionEnd", {"hooks": [handler(command("end"))]}, (1, 0, 85)),
    ]


def entry(name: str, value: dict[str, object], since: tuple[int, ...]) -> Entry:
    return Entry(path=("hooks", name), value=value, in_list=True, since=since)


def handler(command: str) -> dict[str, object]:
    return {"type": "command", "command": command, "timeout": TIMEOUT_S}


def server(words: list[str], env: dict[str, str]) -> list[Entry]:
    value: dict[str, object] = {"type": "stdio", "command": words[0], "args": words[1:], "env": env}
    return [Entry(path=("mcpServers", "runlore"), value=value)]


def find_session(meta: Mapping[str, object], env: Mapping[str, str]) -> str:
    return env.get("CLAUDE_CODE_SESSION_ID", "") if "claudecode/toolUseId" in meta else ""


INTEGRATION = Integration(
    hooks_files=("$CLAUDE_CONFIG_DIR/settings.json", "~/.claude/settings.json"),
    hooks=hooks,
    server_files=("$CLAUDE_CONFIG_DIR/.claude.json", "~/.claude.json"),
    server=server,
    answer="json",
    program="claude",
    find_session=find_session,
)
