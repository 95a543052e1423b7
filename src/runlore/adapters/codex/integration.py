"""How Codex is made to call us.

Learned from the source of openai/codex (its crates `hooks` and `config`), its pages on hooks and
MCP, and reports of its users. Last checked 2026-11. Hooks are in hooks.json, servers in
config.toml. The traps:

- A hook that is new or was changed is skipped without a word until the user has trusted it.
- What a SessionStart hook prints becomes context as it is. As `additionalContext` in JSON some
  versions refuse it (openai/codex#45999).
- SessionEnd is known to the newest versions only. Stop is known to all that have hooks: it comes at
  the end of each turn, and what was written until then is all there is.
- There is no hook for a tool that failed, and PostToolUse does not come then: what fixed an error
  is not told unasked.
- A server gets few of the variables that Codex has, so those that matter are named.
- Each MCP call has the id of the session as `threadId` in `_meta`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from .. import Entry, Integration

TIMEOUT_S = 5
"""In seconds. We are done in 0.3; a machine that is just waking up may need longer to start
Python."""


def hooks(command: Callable[[str], str]) -> list[Entry]:
    return [
        Entry(
            path=("hooks", "SessionStart"),
            value={"matcher": "startup|clear", "hooks": [handler(command("start"))]},
            in_list=True,
        ),
        Entry(path=("hooks", "Stop"), value={"hooks": [handler(command("end"))]}, in_list=True),
    ]


def handler(command: str) -> dict[str, object]:
    return {"type": "command", "command": command, "timeout": TIMEOUT_S}


def server(words: list[str], env: dict[str, str]) -> list[Entry]:
    value: dict[str, object] = {
        "command": words[0],
        "args": words[1:],
        "env_vars": ["RUNLORE_STORE"],
        **({"env": env} if env else {}),
    }
    return [Entry(path=("mcp_servers", "runlore"), value=value)]


def find_session(meta: Mapping[str, object], _: Mapping[str, str]) -> object:
    return meta.get("threadId")


INTEGRATION = Integration(
    hooks_files=("$CODEX_HOME/hooks.json", "~/.codex/hooks.json"),
    hooks=hooks,
    server_files=("$CODEX_HOME/config.toml", "~/.codex/config.toml"),
    server=server,
    find_session=find_session,
    after_hooks="Codex runs a hook only after you have trusted it: type /hooks in Codex",
)
