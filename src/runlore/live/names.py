"""The name of a session's folder: its id, with what a file name cannot hold as `%XX`.

The names have ASCII letters and digits, `.`, `_`, `-` and `%` only, which every file system takes.
An id of those without `%` is its own name.
"""

from __future__ import annotations

from functools import lru_cache
from urllib.parse import quote, unquote

from ..errors import InvalidId

MAX_NAME_CHARS = 200
"""Maximum length of a name. File systems take 255, and the trash adds the time of a deletion."""
RESERVED = frozenset(
    {"con", "prn", "aux", "nul", *(f"{name}{n}" for name in ("com", "lpt") for n in range(1, 10))}
)
"""Device names of Windows. They are reserved with any extension."""
SHARED = "shared/"
"""Beginning of the ids of values that sessions share. Such logs are not listed as sessions."""


@lru_cache(maxsize=1000)
def name_of(id: str) -> str:
    """Return the name of a session's folder.

    Raises InvalidId for an id that is empty, too long or not printable, and for a path that could
    lead elsewhere.
    """
    if not isinstance(id, str) or not _is_valid(id):
        raise InvalidId(
            f"{str(id)[:80]!r} cannot name a session: an id is printable text in which no part"
            " between slashes is empty, '.' or '..'"
        )
    name = quote(id, safe="").replace("~", "%7E")
    is_reserved = name.partition(".")[0].lower() in RESERVED
    if is_reserved or not (name[0].isalnum() or name[0] == "%"):
        name = f"%{ord(name[0]):02X}{name[1:]}"
    if name.endswith("."):
        name = f"{name[:-1]}%2E"
    if len(name) > MAX_NAME_CHARS:
        raise InvalidId(f"{id[:80]!r} cannot name a session: it is too long")
    return name


def id_of(name: str) -> str | None:
    """Return the id of the session with this folder, or None when it cannot be a session's."""
    id = unquote(name) if "%" in name else name
    try:
        return id if name_of(id) == name else None
    except InvalidId:
        return None


def _is_valid(id: str) -> bool:
    parts = id.replace("\\", "/").split("/")
    return id.isprintable() and id == id.strip() and not {"", ".", ".."}.intersection(parts)
