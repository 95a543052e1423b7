"""Serve the web page, without a sync.

It answers on this machine alone. On any other address (--host) it asks for a token, which is
printed once, or taken from the variable RUNLORE_TOKEN. With --json an object when it answers
(docs/json.md).
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from contextlib import suppress

import click
import msgspec

from ...errors import StoreMissing
from ...store import Filter
from ...web.guard import Door
from ...web.serving import bind, door_for, serve, url_of
from ..options import as_json, open_store
from ..output import note, write_json


class Address(msgspec.Struct, frozen=True, kw_only=True):
    """The address of the web page. It is printed when the server is ready."""

    url: str
    needs_token: bool
    """True if it asks for the token that was printed, or given in RUNLORE_TOKEN."""


def listen_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options of commands that listen for a browser."""
    options = (
        click.option(
            "--host",
            default="127.0.0.1",
            metavar="ADDRESS",
            help="Address to listen on (default 127.0.0.1).",
        ),
        click.option(
            "--port",
            type=click.IntRange(0, 65535),
            metavar="N",
            help="Port; 0 is any free one (default 8765, or any).",
        ),
        click.option(
            "--name",
            "names",
            multiple=True,
            metavar="NAME",
            help="Further host name to answer to. May be repeated.",
        ),
    )
    for option in reversed(options):
        command = option(command)
    return command


@click.command(help=__doc__)
@listen_options
@click.option("--once", is_flag=True, help="Print the address and exit.")
@as_json(Address)
def command(host: str, port: int | None, names: tuple[str, ...], once: bool, is_json: bool) -> None:
    door = door_of(host, names)
    check_store()
    with bind(host, port) as listening:
        announce(url_of(listening), door, is_json, once=once)
        if not once:
            serve(listening, door)


def check_store() -> None:
    """Read from the store once, so that an unreadable one fails now and not on every page.

    A missing store is not an error: the page says how to fill it.
    """
    with suppress(StoreMissing), open_store() as (store, _):
        store.sessions.count(Filter())


def door_of(host: str, names: tuple[str, ...]) -> Door:
    """Return the access rules for this address."""
    return door_for(
        host, tuple(name.lower() for name in names), os.environ.get("RUNLORE_TOKEN") or None
    )


def announce(url: str, door: Door, is_json: bool, *, once: bool) -> None:
    if is_json:
        write_json(Address(url=url, needs_token=door.token is not None))
        sys.stdout.flush()
    note(f"runlore would be at {url}" if once else f"runlore is at {url}; Ctrl-C ends it")
    if door.token is not None and not os.environ.get("RUNLORE_TOKEN"):
        note(f"the token is {door.token}")
