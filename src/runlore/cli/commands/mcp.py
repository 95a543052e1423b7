"""Serve what is stored to agents, over MCP.

Without a command it answers on stdin and stdout, which is how agents start it. With --http it
answers on this machine alone, at http://127.0.0.1:PORT/mcp. docs/mcp.md describes the tools.
"""

from __future__ import annotations

import sys
from importlib import metadata
from pathlib import Path

import click

from ..failures import Failure
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
from ..output import echo, note

PORT = 8808
SDK = 2
"""The oldest major version of the official SDK that will do."""


@click.group(help=__doc__, invoke_without_command=True)
@click.option(
    "--http",
    "port",
    type=click.IntRange(0, 65_535),
    is_flag=False,
    flag_value=PORT,
    metavar="[PORT]",
    help=f"Over HTTP ({PORT}).",
)
@click.pass_context
def command(ctx: click.Context, port: int | None) -> None:
    if ctx.invoked_subcommand is not None:
        return
    need_sdk()
    from ...integrations import mcp  # It needs the extra.

    if port is None:
        if sys.stdin is not None and sys.stdin.isatty():
            note("runlore: answering MCP on stdin and stdout, which is for agents; Ctrl-D ends it")
        mcp.serve_stdio()
        return
    try:
        mcp.serve_http(port, lambda address: note(f"runlore: MCP at {address}; Ctrl-C ends it"))
    except OSError as error:
        raise Failure(
            f"port {port} cannot be used ({error.strerror}); `runlore mcp --http PORT` takes"
            " another"
        ) from None


def need_sdk() -> None:
    """Raises Failure where the official SDK is not there, or is one that another program brought
    and that is too old."""
    found = sdk_version()
    if found is None or int(found.partition(".")[0]) < SDK:
        has = f" (there is mcp {found}, and it takes {SDK} or newer)" if found else ""
        raise Failure(
            f"the MCP server needs the extra `mcp`{has}: `pip install 'runlore[mcp]'`, or in a"
            " checkout `uv tool install '.[mcp]'`",
            "no_extra",
            "pip install 'runlore[mcp]'",
        )


def sdk_version() -> str | None:
    try:
        return metadata.version("mcp")
    except metadata.PackageNotFoundError:
        return None


@command.command()
@changing
@as_json(SettingsChange)
def install(agent: str, yes: bool, dry_run: bool, is_json: bool) -> None:
    """Put the server into the settings of AGENT.

    With --json an object: agent, what, file, state, changed, dry_run, diff (lines).
    """
    need_sdk()
    change(find_target(agent, "mcp"), is_install=True, yes=yes, dry_run=dry_run, is_json=is_json)


@command.command()
@changing
@as_json(SettingsChange)
def remove(agent: str, yes: bool, dry_run: bool, is_json: bool) -> None:
    """Take the server out of the settings of AGENT. With --json as `install`."""
    change(find_target(agent, "mcp"), is_install=False, yes=yes, dry_run=dry_run, is_json=is_json)


@command.command()
@click.argument("agent", type=IntegratedAgent(), required=False)
@as_json(list[SettingsState], items="")
def status(agent: str | None, is_json: bool) -> None:
    """Say whether the server is in the settings of agents.

    With --json an array of objects: agent, what, file, state (installed, outdated, absent,
    unknown), problem, last_sync (null).
    """
    show_states(agent, "mcp", is_json)


@command.command()
@click.option("--skill", is_flag=True, help="As a skill file: SKILL.md.")
def snippet(skill: bool) -> None:
    """Print when to ask runlore: for AGENTS.md, or as a skill."""
    text = (Path(__file__).parents[1] / "ask.md").read_text(encoding="utf-8")
    echo(f"{SKILL}{text}".rstrip("\n") if skill else text.rstrip("\n"))


SKILL = """---
name: runlore
description: Searches earlier sessions of the coding agents here. Use it when an error, file, \
commit or decision may have come up before.
---

"""
