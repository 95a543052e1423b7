"""Settings: environment over `config.toml` over default.

    store = "~/.runlore/runlore.db"       # or RUNLORE_STORE, or postgresql://… (docs/scale.md)
    raw = "keep"                          # "drop": store no further native records

    [sources.<agent>]
    enabled = true
    roots = ["~/elsewhere"]               # instead of the agent's own
    also = [{ path = "/mnt/laptop/projects", machine = "laptop" }]

    [domains]                             # repository (a glob) → domain
    "api-*" = "backend"

    [exclude]                             # never read, never stored
    paths = ["~/private/*"]               # the session's working folder
    repos = ["client-*"]

    [prices."my-model"]                   # USD per million tokens, over the lists
    input = 3.0
    output = 15.0

    [budget]                              # USD a local day: `runlore usage` warns beyond it
    day = 20.0

    [budget.projects]                     # the same for a repository (a glob)
    "api-*" = 5.0

    [retain]                              # limits for `runlore evict`; nothing leaves by itself
    soft = "5 GB"                         # over this, the oldest that has a digest
    hard = "8 GB"                         # over this, a sync takes in nothing more
    max_age_days = 365                    # what is older and has a digest

    [attention]                           # when `runlore live` points at a run
    retries = 3

    [quality]                             # which sessions count as real work
    trivial_calls = 2                     # with fewer calls, no edit and one prompt: trivial
    one_shot_calls = 5                    # with one prompt and no more calls than this: one-shot
    pace_s = 2.0                          # faster prompts after an answer come from a program
    automated = ["Summarize this log*"]   # prompts (globs) of your own programs

    [lessons]                             # when lessons are proposed, and shown to agents
    auto = false                          # true: what passes is approved without you
    propose = 3                           # independent tasks it must have helped in
    deliver = 3                           # and before agents see it
    half_life_days = 90                   # what is not seen again counts half after so long
    most = 3                              # told at the start of a session
    max_tokens = 800                      # that these may take
    withhold = 0.2                        # share of sessions that get no lesson, to measure it
    distill = ""                          # command that phrases lessons, such as "claude -p"
    distill_tokens = 100000               # that it may take a day

    [redact]
    enabled = true
    rules = [{ name = "acme", pattern = "ACME-[0-9]{8}" }]

Nothing here looks into a source or opens the store.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Callable, Iterable, Mapping
from fnmatch import fnmatchcase
from hashlib import blake2b
from pathlib import Path
from typing import Annotated, Any, Literal, get_args, get_origin

import msgspec

from .errors import ConfigError

FILE = "config.toml"

Usd = Annotated[float, msgspec.Meta(ge=0, le=1_000_000)]


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

    @property
    def mark(self) -> str:
        """The problem noted for a source that these rules leave out.

        It differs for other rules, so that a source is looked at again when the rules change.
        """
        return "excluded " + blake2b(msgspec.json.encode(self), digest_size=4).hexdigest()

    def matches(self, cwd: str | None, repo: str | None) -> bool:
        """Return True if sessions of this folder or repository must not be stored."""
        home = os.path.expanduser("~")
        paths = [
            pattern.replace("~", home, 1) if pattern.startswith("~") else pattern
            for pattern in self.paths
        ]
        in_path = cwd is not None and any(_inside(cwd, pattern) for pattern in paths)
        return in_path or any(_names(pattern, repo) for pattern in self.repos)


class Redact(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    enabled: bool = True
    rules: list[dict[str, Any]] = []


class Budget(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The USD that may be spent in a day: in all, and on repositories by their patterns."""

    day: Usd | None = None
    projects: dict[str, Usd] = {}

    def patterns_of(self, repo: str | None) -> list[str]:
        """Return the patterns of the budgets that a repository counts for."""
        return [pattern for pattern in self.projects if _names(pattern, repo)]


_UNITS = {
    unit + binary: (1024 if binary else 1000) ** n
    for n, unit in enumerate(("", "K", "M", "G", "T"))
    for binary in ("", "I")[: n + 1]
}


def size_bytes(text: str) -> int:
    """Return `5 GB`, `512MiB` or `1000000` as a number of bytes. Raises ValueError."""
    number = text.strip().upper().removesuffix("B").rstrip()
    unit = number.lstrip("0123456789. ")
    if unit not in _UNITS:
        raise ValueError(f"{text!r} is not a size such as 5 GB")
    return int(float(number.removesuffix(unit)) * _UNITS[unit])


class Retain(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The size of Tier 1, and the age up to which something stays in it."""

    soft: str | None = None
    hard: str | None = None
    max_age_days: Annotated[int, msgspec.Meta(ge=1)] | None = None

    def __post_init__(self) -> None:
        # A size that cannot be read is an error when the file is read.
        self.soft_bytes, self.hard_bytes  # noqa: B018

    @property
    def soft_bytes(self) -> int | None:
        return None if self.soft is None else size_bytes(self.soft)

    @property
    def hard_bytes(self) -> int | None:
        return None if self.hard is None else size_bytes(self.hard)


class Attention(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Limits above which a run needs a person's attention; 0 is no limit."""

    retries: int = 3
    latency_s: float = 60.0
    tokens: int = 100_000
    steps: int = 20


class Quality(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The limits between kinds of sessions."""

    trivial_calls: Annotated[int, msgspec.Meta(ge=0)] = 2
    one_shot_calls: Annotated[int, msgspec.Meta(ge=0)] = 5
    pace_s: Annotated[float, msgspec.Meta(ge=0)] = 2.0
    automated: list[str] = []

    def is_automated(self, prompt: str) -> bool:
        """Return True if a session that begins with this prompt is of the user's own programs."""
        return any(fnmatchcase(prompt, pattern) for pattern in self.automated)


class Lessons(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The evidence that a lesson needs, and the amount of lessons that is shown to an agent."""

    auto: bool = False
    propose: Annotated[int, msgspec.Meta(ge=3)] = 3
    deliver: Annotated[int, msgspec.Meta(ge=3)] = 3
    half_life_days: Annotated[float, msgspec.Meta(gt=0)] = 90.0
    most: Annotated[int, msgspec.Meta(ge=0, le=3)] = 3
    max_tokens: Annotated[int, msgspec.Meta(ge=0, le=800)] = 800
    withhold: Annotated[float, msgspec.Meta(ge=0, le=0.9)] = 0.2
    distill: str = ""
    distill_tokens: Annotated[int, msgspec.Meta(ge=0)] = 100_000


class Config(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The whole configuration. `home` is where runlore keeps its own files, for this user alone."""

    home: Path
    store: str
    raw: Literal["keep", "drop"] = "keep"
    sources: dict[str, SourceConfig] = {}
    domains: dict[str, str] = {}
    exclude: Exclude = Exclude()
    redact: Redact = Redact()
    attention: Attention = Attention()
    quality: Quality = Quality()
    budget: Budget = Budget()
    retain: Retain = Retain()
    lessons: Lessons = Lessons()
    prices: dict[str, Any] = {}
    """By model, as in the file: read by `pricing.sheets` when something is priced."""

    def roots_of(
        self, agent: str, find_own: Callable[[Mapping[str, str]], list[Path]]
    ) -> list[tuple[Path, str | None]]:
        """Return the folders in which to look for an agent's sessions, each with its machine.

        Configured folders replace those that `find_own` finds for an environment. The machine is
        None for this one.
        """
        setting = self.sources.get(agent, SourceConfig())
        own = find_own(os.environ) if setting.roots is None else map(absolute, setting.roots)
        return [(root, None) for root in own] + [
            (absolute(root.path), root.machine) for root in setting.also
        ]

    def domain(self, repo: str | None) -> str | None:
        """Return the domain of a repository, by the first pattern that fits."""
        return next((name for pattern, name in self.domains.items() if _names(pattern, repo)), None)


def absolute(path: str) -> Path:
    """Return the path from the root, with `~` replaced by the user's home."""
    return Path(path).expanduser().absolute()


def home_folder(env: Mapping[str, str] = os.environ) -> str:
    """Return the folder where runlore keeps its own files."""
    return os.path.abspath(os.path.expanduser(env.get("RUNLORE_HOME") or "~/.runlore"))


def load(env: Mapping[str, str] | None = None) -> Config:
    """Return the configuration. A missing file is an empty one.

    Raises ConfigError with what to change.
    """
    env = os.environ if env is None else env
    home = Path(home_folder(env))
    file = home / FILE
    data = _read(file)
    store = env.get("RUNLORE_STORE") or data.get("store") or str(home / "runlore.db")
    if not data:
        return Config(home=home, store=store)
    data |= {"home": str(home), "store": store}
    try:
        return msgspec.convert(data, Config, dec_hook=_decode)
    except msgspec.ValidationError as error:
        raise ConfigError(f"{file}: {_what_is_wrong(data, Config) or error}") from None


def make_home(home: Path) -> None:
    """Create the folder if it is missing, readable by this user alone."""
    try:
        home.mkdir(mode=0o700, parents=True, exist_ok=True)
        if os.name == "posix" and home.stat().st_mode & 0o077:
            home.chmod(0o700)
    except OSError as error:
        raise ConfigError(
            f"{home}: {error.strerror}; set RUNLORE_HOME to a folder that can be written"
        ) from None


def _read(file: Path) -> dict[str, Any]:
    try:
        text = file.read_bytes()
    except FileNotFoundError:
        return {}
    except NotADirectoryError:
        raise ConfigError(f"{file.parent} is not a folder; set RUNLORE_HOME to one") from None
    except OSError as error:
        raise ConfigError(f"{file}: {error.strerror}") from None
    try:
        return tomllib.loads(text.decode())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{file}: {error}") from None


def _what_is_wrong(data: Any, wanted: Any, key: str = "") -> str | None:
    """Return the first value that cannot be used, by its key, and what could stand there.

    None if there is none.
    """
    if get_origin(wanted) is list and isinstance(data, list):
        [kind] = get_args(wanted)
        return _first(_what_is_wrong(item, kind, f"{key}[{n}]") for n, item in enumerate(data))
    if not isinstance(data, dict):
        return _misfit(data, wanted, key)
    inner: dict[str, Any] = {}
    if isinstance(wanted, type) and issubclass(wanted, msgspec.Struct):
        inner = {field.name: field.type for field in msgspec.structs.fields(wanted)}
        if strange := next((name for name in data if name not in inner), None):
            return _unknown_setting(strange, inner, key)
    elif get_origin(wanted) is dict:
        inner = dict.fromkeys(data, get_args(wanted)[1])
    if not inner:
        return _misfit(data, wanted, key)
    return _first(
        _what_is_wrong(data[name], kind, _key(key, name))
        for name, kind in inner.items()
        if name in data
    )


def _unknown_setting(name: str, known: Iterable[str], key: str) -> str:
    others = ", ".join(other for other in known if key or other != "home")
    return (
        f"{_key(key, name)} is no setting; {'there' if key else 'at the top there'} are: {others}"
    )


def _first(problems: Iterable[str | None]) -> str | None:
    return next(filter(None, problems), None)


def _key(above: str, name: str) -> str:
    return f"{above}.{name}" if above else name


def _misfit(data: Any, wanted: Any, key: str) -> str | None:
    """Return what is wrong with a value that has no others in it; None if nothing is."""
    try:
        msgspec.convert(data, wanted, dec_hook=_decode)
    except msgspec.ValidationError as error:
        if get_origin(wanted) is Literal:
            return f"{key} = {data!r} must be one of {', '.join(map(repr, get_args(wanted)))}"
        kinds, _, rest = str(error).partition("`")[2].partition("`")
        words = [_KINDS.get(kind, kind) for kind in kinds.split(" | ") if kind != "null"]
        return f"{key} = {data!r} must be {' or '.join(words)}{rest.partition(',')[0]}"
    return None


_KINDS = {
    "str": "a text",
    "bool": "true or false",
    "int": "a whole number",
    "float": "a number",
    "array": "a list",
    "object": "a table",
}
"""The kinds of values as msgspec calls them, in the words of people."""


def _decode(wanted: type, value: Any) -> Any:
    if wanted is Path and isinstance(value, str):
        return Path(value)
    raise ConfigError(f"cannot read {value!r} as {wanted.__name__}")


def _names(pattern: str, repo: str | None) -> bool:
    """Return True if a pattern fits a repository. Without a slash it ignores the owner."""
    if repo is None:
        return False
    return fnmatchcase(repo if "/" in pattern else repo.rpartition("/")[2], pattern)


def _inside(cwd: str, pattern: str) -> bool:
    """Return True if a folder fits a pattern, or lies below one that does.

    `*` also crosses separators, as people expect of `~/work/*`.
    """
    cwd, pattern = cwd.replace("\\", "/").rstrip("/"), pattern.replace("\\", "/").rstrip("/")
    return fnmatchcase(cwd, pattern) or fnmatchcase(cwd, pattern + "/*")
