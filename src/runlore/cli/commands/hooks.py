"""Let an agent call runlore when a session starts and ends.

When a session ends, it is synced in the background. When one starts, the agent gets a line on the
earlier sessions in the repository. `install` and `remove` show the change to the agent's settings
first, and leave the rest of the file as it is, to the byte.
"""

from __future__ import annotations

import click

from ..integrate import (
    IntegratedAgent,
    SettingsChange,
    SettingsState,
    change,
    changing,
    find_target,
    show_states,
)
from ..options import as_json


@click.group(help=__doc__)
def command() -> None:
    pass


@command.command()
@changing
@as_json(SettingsChange)
def install(agent: str, yes: bool, dry_run: bool, is_json: bool) -> None:
    """Put the hooks into the settings of AGENT.

    With --json an object: agent, what, file, state, changed, dry_run, diff (lines).
    """
    change(find_target(agent, "hooks"), is_install=True, yes=yes, dry_run=dry_run, is_json=is_json)


@command.command()
@changing
@as_json(SettingsChange)
def remove(agent: str, yes: bool, dry_run: bool, is_json: bool) -> None:
    """Take the hooks out of the settings of AGENT. With --json as `install`."""
    change(find_target(agent, "hooks"), is_install=False, yes=yes, dry_run=dry_run, is_json=is_json)


@command.command()
@click.argument("agent", type=IntegratedAgent(), required=False)
@as_json(list[SettingsState], items="")
def status(agent: str | None, is_json: bool) -> None:
    """Say whether the hooks are there, and how the last sync went.

    With --json an array of objects: agent, what, file, state (installed, outdated, absent,
    unknown), problem, last_sync (at, sessions, events, problems, or error).
    """
    show_states(agent, "hooks", is_json)
