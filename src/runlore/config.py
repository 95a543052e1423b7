"""Where things are and what the user wants: environment over `config.toml` over default.

    store = "~/.runlore/runlore.db"       # or RUNLORE_STORE
    raw = "keep"                          # "drop": keep no further native records (those there are stay)

    [sources.<agent>]
    enabled = true
    roots = ["~/elsewhere"]               # instead of the agent's own
    also = [{ path = "/mnt/laptop/projects", machine = "laptop" }]

    [domains]                             # repository (a glob) → domain
    "api-*" = "backend"

    [exclude]                             # never read, never stored
    paths = ["~/private/*"]               # the session's working folder
    repos = ["client-*"]

    [redact]
    enabled = true
    rules = [{ name = "acme", pattern = "ACME-[0-9]{8}" }]

Nothing here looks into a source or opens the store.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Literal

import msgspec

from .errors import ConfigError

FILE = "config.toml"


class ExtraRoot(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A further folder of an agent, with the name of the machine that its sessions come from."""

    path: str
    machine: str | None = None


class SourceConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    enabled: bool = True
    roots: list[str] | None = None
    also: list[ExtraRoot] = []


class Exclude(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    paths: list[str] = []
    repos: list[str] = []

    def matches(self, cwd: str | None, repo: str | None) -> bool:
        """Whether a session with this folder or repository is not to be stored."""
        home = os.path.expanduser("~")
        paths = [pattern.replace("~", home, 1) if pattern.startswith("~") else pattern for pattern in self.paths]
        in_path = cwd is not None and any(_inside(cwd, pattern) for pattern in paths)
        return in_path or any(_names(pattern, repo) for pattern in self.repos)


class Redact(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    enabled: bool = True
    rules: list[dict[str, Any]] = []


class Config(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The whole configuration. `home` is where runlore keeps its own files, for this user alone."""

    home: Path
    store: str
    raw: Literal["keep", "drop"] = "keep"
    sources: dict[str, SourceConfig] = {}
    domains: dict[str, str] = {}
    exclude: Exclude = Exclude()
    redact: Redact = Redact()

    def domain(self, repo: str | None) -> str | None:
        """The domain of a repository: the first pattern that fits, in the order of the file."""
        return next((name for pattern, name in self.domains.items() if _names(pattern, repo)), None)


def load(env: Mapping[str, str] | None = None) -> Config:
    """Reads the configuration; a missing file is an empty one. Raises ConfigError with what to change."""
    env = os.environ if env is None else env
    home = Path(env.get("RUNLORE_HOME") or "~/.runlore").expanduser().absolute()
    file = home / FILE
    data = _read(file)
    data["home"] = str(home)
    data["store"] = env.get("RUNLORE_STORE") or data.get("store") or str(home / "runlore.db")
    try:
        return msgspec.convert(data, Config, dec_hook=_decode)
    except msgspec.ValidationError as error:
        raise ConfigError(f"{file}: {error}") from None


def make_home(home: Path) -> None:
    """Makes the folder when it is missing, readable by this user alone."""
    try:
        home.mkdir(mode=0o700, parents=True, exist_ok=True)
        if os.name == "posix" and home.stat().st_mode & 0o077:
            home.chmod(0o700)
    except OSError as error:
        raise ConfigError(f"{home}: {error.strerror}; set RUNLORE_HOME to a folder that can be written") from None


def _read(file: Path) -> dict[str, Any]:
    try:
        text = file.read_bytes()
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise ConfigError(f"{file}: {error.strerror}") from None
    import tomllib  # Only when there is a file: it takes 5 ms.

    try:
        return tomllib.loads(text.decode())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{file}: {error}") from None


def _decode(wanted: type, value: Any) -> Any:
    if wanted is Path and isinstance(value, str):
        return Path(value)
    raise ConfigError(f"cannot read {value!r} as {wanted.__name__}")


def _names(pattern: str, repo: str | None) -> bool:
    """A pattern without a slash is about the repository's own name, whoever owns it."""
    if repo is None:
        return False
    return fnmatchcase(repo if "/" in pattern else repo.rpartition("/")[2], pattern)


def _inside(cwd: str, pattern: str) -> bool:
    """A pattern names a folder and what is below it; `*` also crosses separators, as people expect of `~/work/*`."""
    cwd, pattern = cwd.replace("\\", "/").rstrip("/"), pattern.replace("\\", "/").rstrip("/")
    return fnmatchcase(cwd, pattern) or fnmatchcase(cwd, pattern + "/*")
