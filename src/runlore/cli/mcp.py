"""Serve what is stored to agents, over MCP.

Without a command it answers on stdin and stdout, which is how agents start it. With --http it answers on this machine alone, at
http://127.0.0.1:PORT/mcp. docs/mcp.md describes the tools.
"""

from __future__ import annotations

import sys

from . import _click as click
from ._click import Failure
from ._out import note

PORT = 8808
SDK = 2
"""The oldest major version of the official SDK that will do."""


def installers() -> dict[str, click.Command]:
    """The commands that register the server with agents are in a file of their own, and imported when they are asked for."""
    from . import _mcp_install

    return {one.name: one for one in vars(_mcp_install).values() if isinstance(one, click.Command)}


@click.group(help=__doc__, more=installers, invoke_without_command=True)
@click.option(
    "--http", "port", type=click.IntRange(0, 65_535), is_flag=False, flag_value=PORT, metavar="[PORT]", help=f"Over HTTP ({PORT})."
)
@click.pass_context
def command(ctx: click.Context, port: int | None) -> None:
    if ctx.invoked_subcommand is not None:
        return
    need_sdk()
    from .. import mcp_server

    if port is None:
        if sys.stdin is not None and sys.stdin.isatty():
            note("runlore: answering MCP on stdin and stdout, which is for agents; Ctrl-D ends it")
        mcp_server.serve_stdio()
        return
    try:
        mcp_server.serve_http(port, lambda address: note(f"runlore: MCP at {address}; Ctrl-C ends it"))
    except OSError as error:
        raise Failure(f"port {port} cannot be used ({error.strerror}); `runlore mcp --http PORT` takes another") from None


def need_sdk() -> None:
    """Raises Failure where the official SDK is not there, or is one that another program brought and that is too old."""
    found = sdk_version()
    if found is None or int(found.partition(".")[0]) < SDK:
        has = f" (there is mcp {found}, and it takes {SDK} or newer)" if found else ""
        raise Failure(
            f"the MCP server needs the extra `mcp`{has}: `pip install 'runlore[mcp]'`, or in a checkout `uv tool install '.[mcp]'`",
            "no_extra",
            "pip install 'runlore[mcp]'",
        )


def sdk_version() -> str | None:
    from importlib import metadata

    try:
        return metadata.version("mcp")
    except metadata.PackageNotFoundError:
        return None
