"""What several commands take: names of sessions and agents, times, filters. With the completion of each."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, TypeVar

import click
from click.shell_completion import CompletionItem

from .. import config
from ..errors import ModelError, RunloreError
from ..store import Filter, Store

if TYPE_CHECKING:
    Name = click.ParamType[str]
    Time = click.ParamType[datetime]
else:
    Name = Time = click.ParamType  # Not generic in older versions of click.

Decorated = TypeVar("Decorated", bound=Callable[..., Any])


@contextmanager
def open_store() -> Iterator[tuple[Store, config.Config]]:
    """The configured store, for reading."""
    from .. import query

    setting = config.load()
    with closing(query.open_for_reading(setting)) as store:
        yield store, setting


class SessionName(Name):
    """The beginning of an id, `latest`, `latest:AGENT`, `latest:REPO`."""

    name = "session"

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        from ._out import one_line

        try:
            with open_store() as (store, _):
                if incomplete:
                    uids = store.find(incomplete, limit=30)
                    titles = {uid: session.title for uid in uids if (session := store.session(uid))}
                else:
                    titles = {line.uid: line.title for line in store.sessions(Filter(), limit=30)}
        except RunloreError:  # No store, no names: a completion has nobody to complain to.
            return []
        # Shells take a colon for the end of a word, so the part after it is given unless the agent was typed.
        names = {uid if ":" in incomplete else uid.partition(":")[2]: title for uid, title in titles.items()}
        items = [CompletionItem(name, help=one_line(title)) for name, title in names.items() if name.startswith(incomplete)]
        return [CompletionItem("latest")] * "latest".startswith(incomplete or "-") + items


class AgentName(Name):
    """An installed adapter."""

    name = "agent"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        from .. import adapters

        if value not in adapters.names():
            self.fail(f"there is no adapter {value!r}; there are: {', '.join(adapters.names())}", param, ctx)
        return value

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        from .. import adapters

        return [CompletionItem(name) for name in adapters.names() if name.startswith(incomplete)]


class When(Time):
    """`7d`, `24h`, `yesterday`, a date, ISO 8601."""

    name = "when"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> datetime:
        from ..query import moment

        try:
            return value if isinstance(value, datetime) else moment(value, datetime.now(UTC))
        except ModelError as error:
            self.fail(str(error), param, ctx)


as_json = click.option("--json", "is_json", is_flag=True, help="Print JSON.")


def filters(function: Decorated) -> Decorated:
    """Adds the options that choose sessions, and hands them over as one Filter: `chosen`."""

    @functools.wraps(function)
    def with_filter(*args: Any, **options: Any) -> Any:
        given = {name: options.pop(name) for name in _FILTERS}
        given["parents_only"] = not given.pop("all_subagents")
        if given["cwd"] is not None:
            given["cwd"] = _folder(given["cwd"])
        return function(*args, chosen=Filter(**given), **options)

    for name, option in reversed(_FILTERS.items()):
        with_filter = click.option(*option[0], name, **option[1])(with_filter)
    return with_filter  # type: ignore[return-value]


def _folder(text: str) -> str:
    """`.` and other existing folders by their full path, with what lies below; anything else is a pattern."""
    path = os.path.abspath(os.path.expanduser(text))
    if not (text.startswith((".", "~", "/")) and os.path.isdir(path)):
        return text
    if not any(char in path for char in "*?["):
        return path
    return "".join(f"[{char}]" if char in "*?[" else char for char in path) + "*"


_FILTERS: dict[str, tuple[tuple[str, ...], dict[str, Any]]] = {
    "agent": (("--agent",), {"type": AgentName(), "help": "Of this agent."}),
    "repo": (("--repo",), {"metavar": "GLOB", "help": "In this repository."}),
    "domain": (("--domain",), {"metavar": "NAME", "help": "In this domain of your config."}),
    "cwd": (("--cwd",), {"metavar": "GLOB", "help": "In this folder; `.` is here."}),
    "branch": (("--branch",), {"metavar": "GLOB", "help": "On this git branch."}),
    "model": (("--model",), {"metavar": "GLOB", "help": "With this model."}),
    "machine": (("--machine",), {"metavar": "NAME", "help": "From this machine."}),
    "since": (("--since",), {"type": When(), "help": "Active after: 7d, 24h, yesterday, a date."}),
    "until": (("--until",), {"type": When(), "help": "Begun before."}),
    "text": (("--text",), {"metavar": "TEXT", "help": "With this in title or folder."}),
    "errors": (("--errors",), {"is_flag": True, "help": "With errors."}),
    "all_subagents": (("--all-subagents",), {"is_flag": True, "help": "Subagents too."}),
}
