"""`runlore mcp install|remove|status|snippet`: registers the server with an agent, and says when to ask it."""

from __future__ import annotations

from pathlib import Path

from . import _click as click
from . import mcp
from ._integrate import ToldAgent, change, changing, find_target, show_states
from ._options import as_json, as_json_list
from ._out import echo


@click.command()
@changing
@as_json
def install(agent: str, yes: bool, dry_run: bool, is_json: bool) -> None:
    """Put the server into the settings of AGENT.

    With --json an object: agent, what, file, state, changed, dry_run, diff (lines).
    """
    mcp.need_sdk()
    change(find_target(agent, "mcp"), is_install=True, yes=yes, dry_run=dry_run, is_json=is_json)


@click.command()
@changing
@as_json
def remove(agent: str, yes: bool, dry_run: bool, is_json: bool) -> None:
    """Take the server out of the settings of AGENT. With --json as `install`."""
    change(find_target(agent, "mcp"), is_install=False, yes=yes, dry_run=dry_run, is_json=is_json)


@click.command()
@click.argument("agent", type=ToldAgent(), required=False)
@as_json_list
def status(agent: str | None, is_json: bool) -> None:
    """Say whether the server is in the settings of agents.

    With --json an array of objects: agent, what, file, state (installed, outdated, absent, unknown), problem, last_sync (null).
    """
    show_states(agent, "mcp", is_json)


@click.command()
@click.option("--skill", is_flag=True, help="As a skill file: SKILL.md.")
def snippet(skill: bool) -> None:
    """Print when to ask runlore: for AGENTS.md, or as a skill."""
    text = (Path(__file__).parents[1] / "ask.md").read_text(encoding="utf-8")
    echo(f"{SKILL}{text}".rstrip("\n") if skill else text.rstrip("\n"))


SKILL = """---
name: runlore
description: Searches earlier sessions of the coding agents here. Use it when an error, file, commit or decision may have come up before.
---

"""
