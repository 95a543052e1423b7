"""Short names of commands and files, by which miners recognise them in another session."""

from __future__ import annotations

from ..digest.shell_commands import parse


def command_head(command: str) -> str:
    """Return a command's last program and its subcommand, without operands: `make deploy`."""
    heads = parse(command).heads
    return heads[-1] if heads else " ".join(command.split()[:2])


def short_path(path: str) -> str:
    """Return the last three parts of a path, which are the same in another checkout."""
    return "/".join(path.replace("\\", "/").split("/")[-3:])
