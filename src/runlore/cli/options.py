"""Parameter types and options that several commands share, with their shell completion."""

from __future__ import annotations

import functools
import os
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, TypeVar

import click
from click.shell_completion import CompletionItem

from .. import adapters, config
from ..answers import Answer
from ..config import Config
from ..errors import ModelError, RunloreError
from ..store import Filter, Store, open_for_reading
from ..text.words import moment, span
from .output import clean, echo, one_line
from .selection import SELECTION, WORDS, declare_answers, selection

if TYPE_CHECKING:
    ParamType = click.ParamType[Any]
else:
    ParamType = click.ParamType  # Not generic in older versions of click.

Decorated = TypeVar("Decorated", bound=Callable[..., Any])

PART = ", or one with this in its name"
"""Ends the help of options that also match a part of a name."""

COMPLETED = 1000
"""Number of newest sessions whose repositories and models are offered as completions."""

OUTCOMES = ("success", "fail", "abandoned", "unknown")
QUALITIES = ("real", "trivial", "automated", "one_shot", "subagent")
"""As `model` has them, the good one first."""

MIN_TOKENS = 200
"""Smallest value of --max-tokens. The note about what was left out has to fit."""


_WRITTEN, _LABELS = "runlore.written", "runlore.labels"
"""Where the context has converted values as they were written, and the filters with them."""


@contextmanager
def open_store() -> Iterator[tuple[Store, Config]]:
    """The configured store, for reading."""
    setting = config.load()
    with closing(open_for_reading(setting.store)) as store:
        yield store, setting


class SessionName(ParamType):
    """The beginning of an id, `latest`, `latest:AGENT`, `latest:REPO`."""

    name = "session"

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        begin = incomplete
        try:
            with open_store() as (store, _):
                if begin:
                    uids = store.sessions.find(begin, limit=30)
                    titles = {
                        uid: session.called for uid in uids if (session := store.sessions.get(uid))
                    }
                else:
                    titles = {
                        line.uid: line.title for line in store.sessions.select(Filter(), limit=30)
                    }
        except RunloreError:  # A completion cannot report errors.
            return []
        # Shells end a word at a colon, so names are offered without the agent unless it was typed.
        names = {
            uid if ":" in begin else uid.partition(":")[2]: title for uid, title in titles.items()
        }
        items = [
            CompletionItem(name, help=one_line(title))
            for name, title in names.items()
            if name.startswith(begin)
        ]
        return [*map(CompletionItem, latest_names(begin)), *items]


def latest_names(begin: str) -> list[str]:
    """Return completions: `latest`, or after its colon the known agents and repositories."""
    if not begin.startswith("latest:"):
        return ["latest"] * "latest".startswith(begin or "-")
    own = (name.rpartition("/")[2] for name in known("repo"))
    return [
        name
        for name in dict.fromkeys(f"latest:{word}" for word in (*known("agent"), *own))
        if name.startswith(begin)
    ]


class AgentName(ParamType):
    """An installed adapter, by any name that people give the agent."""

    name = "agent"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        _keep_words(value, param, ctx)
        name = adapters.find_name(value)
        if name is None:
            self.fail(adapters.describe_unknown(value), param, ctx)
        return name

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        return [CompletionItem(name) for name in adapters.names() if name.startswith(incomplete)]


class When(ParamType):
    """`3d`, `24h`, `tuesday`, `last week`, `2026-07`, a date, ISO 8601."""

    name = "when"

    def convert(
        self, value: str, param: click.Parameter | None, ctx: click.Context | None
    ) -> datetime:
        _keep_words(value, param, ctx)
        try:
            return moment(value, datetime.now(UTC))
        except ModelError as error:
            self.fail(str(error), param, ctx)


class Days(ParamType):
    """`yesterday`, `tuesday`, `last week`, `2026-07`, a date: its beginning and its end."""

    name = "day"

    def convert(
        self,
        value: str | tuple[datetime, datetime],
        param: click.Parameter | None,
        ctx: click.Context | None,
    ) -> tuple[datetime, datetime]:
        if isinstance(value, tuple):
            return value
        _keep_words(value, param, ctx)
        try:
            return span(value, datetime.now(UTC))
        except ModelError as error:
            self.fail(str(error), param, ctx)


def _keep_words(value: str, param: click.Parameter | None, ctx: click.Context | None) -> None:
    """Keep what was written for a value that is converted, for messages."""
    if param is not None and param.name and ctx is not None:
        ctx.meta.setdefault(_WRITTEN, {})[param.name] = value


class RepoName(ParamType):
    """A repository that has sessions, or a pattern."""

    name = "glob"
    column = "repo"

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        return [CompletionItem(name) for name in known(self.column) if name.startswith(incomplete)]


class ModelName(RepoName):
    column = "model"


def known(column: str) -> list[str]:
    """Return the distinct values of a column in the newest sessions."""
    try:
        with open_store() as (store, _):
            found = dict.fromkeys(
                getattr(line, column)
                for line in store.sessions.select(Filter(parents_only=False), limit=COMPLETED)
            )
    except RunloreError:  # As above.
        return []
    return [name for name in found if name and clean(name) == name]


def as_json(
    kind: Any,
    *,
    items: str | None = None,
    whole: str | None = None,
    is_stream: bool = False,
    forms: Mapping[str, Answer] | None = None,
) -> Callable[[Decorated], Decorated]:
    """Declare what a command prints as JSON, and add --json and the options that select a part.

    The first arguments are those of an `Answer`. `forms` has further answers, by the option that
    asks for them. --offset is added if one of them has items. The selection is stored in the
    context, where `write_json` reads it.
    """
    answers = {"": Answer(kind, items, whole, is_stream), **(forms or {})}
    has_items = any(answer.items is not None for answer in answers.values())

    def decorate(function: Decorated) -> Decorated:
        decorated: Any = _with_selection(function, answers)
        declare_answers(decorated, answers)
        options = [_JSON, _fields_option(answers), _MAX_TOKENS, *([_OFFSET] if has_items else [])]
        for option in reversed(options):
            decorated = option(decorated)
        return decorated  # type: ignore[no-any-return]

    return decorate


def _with_selection(function: Decorated, answers: Mapping[str, Answer]) -> Decorated:
    @functools.wraps(function)
    def with_selection(
        *args: Any,
        is_json: bool,
        fields: str | None,
        max_tokens: int | None,
        offset: int = 0,
        **options: Any,
    ) -> Any:
        if fields is not None or max_tokens is not None or offset:
            from .selecting import parse_selection  # As in `write_json`.

            is_json, ctx = True, click.get_current_context()
            ctx.meta[SELECTION] = parse_selection(
                answers, ctx.meta.get(WORDS, ()), fields, max_tokens, offset
            )
        return function(*args, is_json=is_json, **options)

    return with_selection  # type: ignore[return-value]


def _fields_option(answers: Mapping[str, Answer]) -> Callable[[Decorated], Decorated]:
    """Return the option --fields. With `?` it lists the fields of these answers and exits."""

    def list_fields(ctx: click.Context, _: click.Parameter, value: str | None) -> str | None:
        if value is not None and "?" in value and not ctx.resilient_parsing:
            from .selecting import listed_fields  # As in `write_json`.

            echo("\n".join(listed_fields(value, [answer.type for answer in answers.values()])))
            ctx.exit()
        return value

    return click.option(
        "--fields",
        metavar="A,B.C",
        is_eager=True,  # The list needs no argument of the command.
        callback=list_fields,
        help="Print only these fields, as JSON; `?` lists them.",
    )


_JSON = click.option("--json", "is_json", is_flag=True, help="Print JSON.")
_MAX_TOKENS = click.option(
    "--max-tokens",
    type=click.IntRange(MIN_TOKENS),
    metavar="N",
    help="Maximum number of tokens, as JSON.",
)
_OFFSET = click.option(
    "--offset",
    type=click.IntRange(0),
    default=0,
    metavar="N",
    help="Leave the first N items out.",
)


def limit_option(what: str, default: int) -> Callable[[Decorated], Decorated]:
    """Return the option -n/--limit of a command that lists so many of something."""
    return click.option(
        "-n",
        "--limit",
        type=click.IntRange(1),
        default=default,
        metavar="N",
        help=f"Maximum number of {what} (default {default}).",
    )


least_option = click.option(
    "--least",
    type=click.IntRange(1),
    default=2,
    metavar="N",
    help="Minimum number of sessions (default 2).",
)


def skipped() -> int:
    """Return the number of items to leave out (--offset) before a limit applies."""
    choice = selection()
    return choice.offset if choice else 0


def is_bounded() -> bool:
    """Return True if --max-tokens was given.

    Output that is otherwise one line for each item is then a single answer.
    """
    choice = selection()
    return choice is not None and choice.max_tokens is not None


def no_pager(function: Decorated) -> Decorated:
    """Add --no-pager to a command. It means the same as `runlore --no-pager`."""

    @functools.wraps(function)
    def with_pager(*args: Any, no_pager: bool, **options: Any) -> Any:
        if no_pager:
            click.get_current_context().find_root().params["no_pager"] = True
        return function(*args, **options)

    option = click.option("--no-pager", is_flag=True, help="Print it all at once.")
    return option(with_pager)  # type: ignore[return-value]


def is_paged(ctx: click.Context) -> bool:
    return not ctx.find_root().params["no_pager"]


def filters(function: Decorated, *, is_exact: bool = False, names: Sequence[str] = ()) -> Decorated:
    """Add the options that select sessions, and pass them to the command as one Filter, `chosen`.

    `names` limits them to some of the options.
    """
    kinds = {name: _FILTERS[name] for name in names or _FILTERS}

    @functools.wraps(function)
    def with_filter(*args: Any, **options: Any) -> Any:
        given = {name: options.pop(name) for name in kinds}
        _keep_labels(given)
        given["parents_only"] = (
            not given.pop("all_subagents", names) and given.get("quality") != "subagent"
        )
        if (given.get("text") or "").startswith("#"):
            word = given.pop("text")[1:]
            given |= {"pinned": True} if word == "pinned" else {"tag": word}
        if given["cwd"] is not None:
            given["cwd"] = _folder(given["cwd"])
        given |= _days(given.pop("on"), given["since"], given["until"])
        return function(
            *args, chosen=exact(Filter(**given)) if is_exact else Filter(**given), **options
        )

    for name, (flags, settings) in reversed(kinds.items()):
        told = {**settings, "help": settings["help"].replace(PART, "" if is_exact else PART)}
        with_filter = click.option(*flags, name, **told)(with_filter)
    return with_filter  # type: ignore[return-value]


def _keep_labels(given: Mapping[str, Any]) -> None:
    meta = click.get_current_context().meta
    words = {**given, **meta.get(_WRITTEN, {})}
    labels = {
        name: f"--{name}" if value is True else f"--{name} {shlex.quote(str(words[name]))}"
        for name, value in given.items()
        if value not in (None, "", False)
    }
    if "on" in labels:
        labels["since"] = labels["until"] = labels.pop("on")
    if "text" in labels:  # It may be a tag, or #pinned.
        labels["tag"] = labels["pinned"] = labels["text"]
    meta[_LABELS] = labels


def filter_labels() -> dict[str, str]:
    """Return the options that were given, as they were written, by the field of the filter."""
    labels: dict[str, str] = click.get_current_context().meta.get(_LABELS, {})
    return labels


def check_days(on: object, since: object, until: object) -> None:
    """Raise UsageError if --on is given together with one of the others."""
    if on is not None and (since is not None or until is not None):
        raise click.UsageError("--on does not go together with --since or --until")


def _days(
    on: tuple[datetime, datetime] | None, since: datetime | None, until: datetime | None
) -> dict[str, datetime]:
    """Return the bounds of --on. Raises UsageError if another option sets one of them."""
    check_days(on, since, until)
    if on is None:
        return {}
    return {"since": on[0], "until": on[1]}


def exact_filters(function: Decorated) -> Decorated:
    """Add filters for commands that cannot be undone: branch, model and folder match exactly."""
    return filters(function, is_exact=True)


def few_filters(function: Decorated) -> Decorated:
    """Add the filters that apply to data derived from sessions. Subagents are included."""
    return filters(function, names=("agent", "repo", "cwd", "model", "since", "until", "on"))


def search_filters(function: Decorated) -> Decorated:
    """Add the filters for a search, which includes subagents."""
    names = ("agent", "repo", "cwd", "branch", "model", "machine", "author", "since", "until", "on")
    return filters(function, names=(*names, "outcome", "quality"))


def exact(chosen: Filter) -> Filter:
    given = {
        name: value
        for name in ("branch", "model", "cwd")
        if (value := getattr(chosen, name)) is not None
    }
    whole: dict[str, Any] = {name: _whole(value) for name, value in given.items()}
    return chosen._replace(**whole)


def _whole(text: str) -> str:
    """Return a pattern that matches only this text.

    Absolute paths and patterns are returned as they are.
    """
    if text.startswith("/") or text[1:3] in (":\\", ":/") or any(char in text for char in "*?["):
        return text
    return f"[{text[:1]}]{text[1:]}"


def _folder(text: str) -> str:
    """Return the full path of an existing folder, which also matches the folders below it.

    Any other text is returned as it is, as a pattern.
    """
    path = os.path.abspath(os.path.expanduser(text))
    if not (text.startswith((".", "~", "/")) and os.path.isdir(path)):
        return text
    if not any(char in path for char in "*?["):
        return path
    return "".join(f"[{char}]" if char in "*?[" else char for char in path) + "*"


_FILTERS: dict[str, tuple[tuple[str, ...], dict[str, Any]]] = {
    "agent": (("--agent",), {"type": AgentName(), "help": "Sessions of this agent."}),
    "repo": (
        ("--repo",),
        {
            "type": RepoName(),
            "metavar": "GLOB",
            "help": "In this repository: owner/name, or the name alone.",
        },
    ),
    "domain": (("--domain",), {"metavar": "NAME", "help": "In this domain of your config."}),
    "cwd": (("--cwd",), {"metavar": "GLOB", "help": "In this folder; `.` is here."}),
    "branch": (("--branch",), {"metavar": "GLOB", "help": f"On this git branch{PART}."}),
    "model": (
        ("--model",),
        {"type": ModelName(), "metavar": "GLOB", "help": f"With this model{PART}."},
    ),
    "machine": (("--machine",), {"metavar": "NAME", "help": "From this machine."}),
    "author": (("--author",), {"metavar": "NAME", "help": "Of this person."}),
    "since": (
        ("--since",),
        {"type": When(), "help": "Active after: 3d, tuesday, last week, 2026-07."},
    ),
    "until": (("--until",), {"type": When(), "help": "Started before this time."}),
    "on": (
        ("--on",),
        {
            "type": Days(),
            "help": "Active on this day, or in this week or month.",
        },
    ),
    "text": (
        ("--text",),
        {"metavar": "TEXT", "help": "With this in title or folder; #TAG, #pinned."},
    ),
    "errors": (
        ("--errors",),
        {"is_flag": True, "help": "With errors."},
    ),
    "outcome": (
        ("--outcome",),
        {"type": click.Choice(OUTCOMES), "metavar": "HOW", "help": f"{', '.join(OUTCOMES)}."},
    ),
    "quality": (
        ("--quality",),
        {
            "type": click.Choice(QUALITIES),
            "metavar": "KIND",
            "help": f"{', '.join(QUALITIES)}.",
        },
    ),
    "all_subagents": (
        ("--all-subagents",),
        {"is_flag": True, "help": "Subagents too."},
    ),
}
