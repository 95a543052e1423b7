"""The name of a repository, from the address of its remote. Pure."""

from __future__ import annotations

MAX_CHARS = 200


def remote_name(url: str) -> str | None:
    """Return `owner/name` from the address of a remote: `https://host/owner/name.git`,
    `user@host:owner/name`, or a path, which gives the name alone. None if it names nothing."""
    url, path, is_path = url.strip(), "", False
    if "://" in url:
        scheme, _, rest = url.partition("://")
        is_path = scheme.lower() == "file"
        path = rest.partition("/")[2]
    else:
        host, colon, path = url.partition(":")
        # A path: of Windows, or without a host before a colon.
        if not colon or "/" in host or (len(host) == 1 and path[:1] in ("/", "\\")):
            path, is_path = url, True
    path = path.replace("\\", "/").partition("?")[0].partition("#")[0].rstrip("/")
    parts = [part for part in path.removesuffix(".git").split("/") if part not in ("", "_git")]
    name = "/".join(parts[-1:] if is_path else parts[-2:])[:MAX_CHARS]
    return name if is_repository(name) else None


def is_repository(name: str) -> bool:
    """Return True if a text can be the name of a repository: no part of it is empty or dots."""
    return name.isprintable() and not any(part.strip(". ") == "" for part in name.split("/"))
