"""What several miners say alike: the head of a command, a file without where it lies."""

from __future__ import annotations

import re

_ASSIGNED = re.compile(r"[A-Za-z_]\w*=\S*")
_SUB = re.compile(r"[a-z][a-z0-9:_-]{1,30}")
WRAPPERS = frozenset("sudo env time timeout nice nohup xargs npx uv uvx poetry pipenv bundle exec run python python3 node".split())
"""What is said before a program, and says nothing of what it does."""


def head(command: str) -> str:
    """What a command is about: the program and what it is told to do, without what it is told to do it to."""
    last = re.split(r"&&|\|\||;", command)[-1].partition("|")[0] if not command.startswith("cd ") else command.partition("&&")[2] or command
    words = [word for word in last.split() if not _ASSIGNED.fullmatch(word)]
    kept: list[str] = []
    for word in words:
        plain = word.rpartition("/")[2] if not kept else word
        if word.startswith("-"):
            if kept and kept[-1] not in WRAPPERS:
                break
            if word == "-m":
                continue
            if len(word) > 2:
                continue
            break
        if plain.isdecimal() and kept and kept[-1] in WRAPPERS:
            continue
        if kept and kept[-1] not in WRAPPERS and not _SUB.fullmatch(plain):
            break
        kept.append(plain)
        if len([one for one in kept if one not in WRAPPERS]) >= 2:
            break
    return " ".join(kept) or command[:40]


def place(path: str) -> str:
    """The last parts of a path: the same file in another checkout."""
    return "/".join(path.replace("\\", "/").split("/")[-3:])
