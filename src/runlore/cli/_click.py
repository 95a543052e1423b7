"""What commands use of click, in its own words, without importing it: that takes 25 ms, and hardly any call needs it.

A command is declared here, once. `_plain` reads the words of an ordinary call by the declarations; for all else (help, completion, a
mistake) `_group` makes the commands of click from the same declarations. A command says `from . import _click as click`, and what
this module does not have is click's own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps

from .._text import clean

TYPE_CHECKING = False  # As in `typing`, which is not imported for this alone.

if TYPE_CHECKING:
    from typing import Any, NoReturn, TypeVar

    from ._json import Wanted

    Decorated = TypeVar("Decorated", bound=Callable[..., Any])


# ── declarations ─────────────────────────────────────────────────────────────────────────────────────────────────────
class Parameter:
    """An option or an argument, with the settings that click would be given."""

    def __init__(self, names: tuple[str, ...], settings: dict[str, Any], *, is_option: bool) -> None:
        self.settings, self.is_option = settings, is_option
        self.names = tuple(name for name in names if not (is_option and name.isidentifier()))
        own = [name for name in names if name.isidentifier()]
        self.name = own[0] if own else max(names, key=lambda name: name.startswith("--")).lstrip("-").replace("-", "_").lower()


class Command:
    """A function that the words of a call are given to. `arrange` may put these in another order before they are read."""

    def __init__(
        self,
        function: Callable[..., Any],
        name: str | None,
        arrange: Callable[[Command, list[str]], list[str]] | None = None,
        **settings: Any,
    ) -> None:
        self.function, self.settings, self.arrange = function, settings, arrange
        self.name = name or function.__name__.lower().replace("_", "-")
        self.params: list[Parameter] = list(reversed(getattr(function, _PARAMS, [])))


class Group(Command):
    """A command with others below it. Those of `more` are imported when one is asked for that is not among `commands`."""

    def __init__(
        self, function: Callable[..., Any], name: str | None, more: Callable[[], dict[str, Command]] | None = None, **settings: Any
    ) -> None:
        super().__init__(function, name, **settings)
        self.commands: dict[str, Command] = {}
        self.more = more or dict

    def command(self, name: str | None = None, **settings: Any) -> Callable[[Callable[..., Any]], Command]:
        def declare(function: Callable[..., Any]) -> Command:
            made = Command(function, name, **settings)
            self.commands[made.name] = made
            return made

        return declare


_PARAMS = "__declared__"


def command(name: str | None = None, **settings: Any) -> Callable[[Callable[..., Any]], Command]:
    return lambda function: Command(function, name, **settings)


def group(name: str | None = None, **settings: Any) -> Callable[[Callable[..., Any]], Group]:
    return lambda function: Group(function, name, **settings)


def option(*names: str, **settings: Any) -> Callable[[Decorated], Decorated]:
    return lambda function: _declare(function, Parameter(names, settings, is_option=True))


def argument(*names: str, **settings: Any) -> Callable[[Decorated], Decorated]:
    return lambda function: _declare(function, Parameter(names, settings, is_option=False))


def _declare(function: Decorated, param: Parameter) -> Decorated:
    if not hasattr(function, _PARAMS):
        setattr(function, _PARAMS, [])
    getattr(function, _PARAMS).append(param)
    return function


def pass_context(function: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(function)
    def with_context(*args: Any, **values: Any) -> Any:
        return function(get_current_context(), *args, **values)

    return with_context


def pass_obj(function: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(function)
    def with_obj(*args: Any, **values: Any) -> Any:
        return function(get_current_context().obj, *args, **values)

    return with_obj


# ── types ────────────────────────────────────────────────────────────────────────────────────────────────────────────
class ParamType:
    """What a word may be. Without a class of click's own, `name` stands in the help."""

    name = "text"

    def convert(self, word: str) -> Any:
        """What the word means. Raises BadParameter."""
        return word

    def complete(self, begin: str) -> list[tuple[str, str | None]]:
        """Words that begin so, each with a help."""
        return []


class Choice(ParamType):
    def __init__(self, choices: Sequence[str]) -> None:
        self.choices = choices

    def convert(self, word: str) -> str:
        if word not in self.choices:
            raise BadParameter(f"{word!r} is not one of {', '.join(self.choices)}")
        return word


class IntRange(ParamType):
    def __init__(self, min: int | None = None, max: int | None = None) -> None:
        self.min, self.max = min, max

    def convert(self, word: str) -> int:
        # Of what else is a number, `1_000` and those of other scripts among it, click is asked.
        if not (word.isascii() and word.isdecimal() and len(word) < 19):
            raise BadParameter(f"{word!r} is not a plain number")
        number = int(word)
        if (self.min is not None and number < self.min) or (self.max is not None and number > self.max):
            raise BadParameter(f"{number} is not in the range")
        return number


class Path(ParamType):
    """A file or a folder. What it must be like is looked at by click."""

    def __init__(self, **settings: Any) -> None:
        self.settings = settings

    def convert(self, word: str) -> Any:
        raise BadParameter("only click knows")


# ── a call ───────────────────────────────────────────────────────────────────────────────────────────────────────────
class Context:
    """A command while it runs, below the group that it belongs to. `words` are those of the whole call."""

    def __init__(self, name: str, values: dict[str, Any], words: Sequence[str] = ()) -> None:
        self.parent = _running[-1] if _running else None
        self.name, self.params = name, values
        self.words: tuple[str, ...] = self.parent.words if self.parent else tuple(words)
        self.obj: Any = self.parent.obj if self.parent else None
        self.wanted: Wanted | None = None
        """What is wanted of its JSON."""
        self.invoked_subcommand: str | None = None
        self._at_close: list[Callable[[], object]] = []

    @property
    def path(self) -> str:
        """`live ls`: the command without the program before it."""
        return "" if self.parent is None else f"{self.parent.path} {self.name}".strip()

    def find_root(self) -> Context:
        return self if self.parent is None else self.parent.find_root()

    def exit(self, code: int = 0) -> NoReturn:
        raise Exit(code)

    def call_on_close(self, function: Callable[[], object]) -> None:
        self._at_close.append(function)

    def enter(self) -> None:
        _running.append(self)

    def close(self) -> None:
        """Also of those below that are still open."""
        while self in _running:
            _running.pop()._finish()

    def _finish(self) -> None:
        while self._at_close:
            self._at_close.pop()()


_running: list[Context] = []


def get_current_context() -> Context:
    return _running[-1]


def wanted() -> Wanted | None:
    """What is wanted of the JSON of the command that runs, if one does."""
    return _running[-1].wanted if _running else None


# ── the end of one ───────────────────────────────────────────────────────────────────────────────────────────────────
class Exit(Exception):
    """A command ends with this status."""

    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code


class UsageError(Exception):
    """The words of a call are wrong. click says so, with how they are used."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


class BadParameter(UsageError):
    """One of them is."""

    def __init__(self, message: str, *, param_hint: str | None = None) -> None:
        super().__init__(message)
        self.param_hint = param_hint


class Failure(Exception):
    """An error as people see it: one line, and exit status 1. Programs get its code and a hint as well."""

    exit_code = 1

    def __init__(self, message: str, code: str = "failed", hint: str | None = None) -> None:
        super().__init__(message)
        self.message, self.code, self.hint = message, code, hint

    def line(self) -> str:
        return f"runlore: {clean(self.message)}"


def __getattr__(name: str) -> Any:
    if name.startswith("_"):  # Python asks, when it imports.
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import click

    return getattr(click, name)
