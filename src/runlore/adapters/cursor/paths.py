"""Paths and addresses in the agent's own words."""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import unquote, urlsplit

from ..shared.pick import pick

_DRIVE = re.compile(r"/[A-Za-z]:")


def path_in(value: Any) -> str | None:
    """The path of a folder or a file, from an address or a path."""
    if isinstance(value, dict):
        return path_in(
            pick(value, "fsPath", of=str) or pick(value, "path", of=str) or value.get("uri")
        )
    if not isinstance(value, str) or not value:
        return None
    try:
        path = unquote(urlsplit(value).path) if "://" in value else value
    except ValueError:
        return None
    return (path[1:] if _DRIVE.match(path) else path)[:4096] or None
