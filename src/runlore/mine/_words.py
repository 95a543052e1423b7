"""What several miners say alike: the head of a command, a file without where it lies."""

from __future__ import annotations

from ..digest.shell_commands import parse


def head(command: str) -> str:
    """What a command is about: its last program and what that is told to do, without what it is told to do it to."""
    heads = parse(command).heads
    return heads[-1] if heads else " ".join(command.split()[:2])


def place(path: str) -> str:
    """The last parts of a path: the same file in another checkout."""
    return "/".join(path.replace("\\", "/").split("/")[-3:])
