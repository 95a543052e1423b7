"""Reads the words of an ordinary call, and runs it, without click.

Ordinary is what leaves no doubt: names of commands and options in full, values that fit, as many as are needed. Whatever else there is,
help and mistakes among it, is `None` here, and click's to answer: so both always agree, and a test says so.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from importlib import import_module

from ._click import BadParameter, Command, Context, Exit, Group, Parameter, ParamType

TYPE_CHECKING = False  # As in `typing`, which is not imported for this alone.

if TYPE_CHECKING:
    from typing import Any

FOLDER = os.path.dirname(__file__)

_COMMAND = {"help", "epilog", "short_help", "hidden"}
_FLAG = {"is_flag", "help", "hidden"}
_OPTION = {"type", "default", "multiple", "metavar", "help", "hidden"}
_ARGUMENT = {"type", "default", "nargs", "metavar", "required"}
"""The settings whose meaning is known here. With any other a command is click's to read."""

_WINDOWS = frozenset("*?[~$%")
"""Words with one of these are names of files there, which click looks for."""


class NotPlain(Exception):
    """click must have a look."""


class Step:
    """A command of a call, with the values that its words gave."""

    def __init__(self, command: Command, name: str, values: dict[str, Any]) -> None:
        self.command, self.name, self.values = command, name, values


class Call:
    """The steps from a command down to the one below it that is meant."""

    def __init__(self, words: Sequence[str], steps: list[Step], *, no_pager: bool) -> None:
        self.words, self.steps, self.no_pager = words, steps, no_pager
        self.depth = 0
        """Of the step that it is at, or ended at."""

    def run(self) -> int:
        """The exit status. Raises whatever a command raises."""
        root = Context("runlore", {"no_pager": self.no_pager}, self.words)
        root.enter()
        try:
            for step, below in zip(self.steps, [*self.steps[1:], None], strict=True):
                self.depth += 1
                enter(step.command, step.name, step.values, below.name if below else None)
        except Exit as end:
            return end.code
        finally:
            root.close()
        return 0


def enter(command: Command, name: str, values: dict[str, Any], below: str | None = None) -> None:
    """Runs the function of a command, in a context that is closed with that of the whole call."""
    context = Context(name, values)
    context.invoked_subcommand = below
    context.enter()
    command.function(**values)


def names() -> list[str]:
    """Of all commands: the files in this folder."""
    return sorted(name[:-3] for name in os.listdir(FOLDER) if name.endswith(".py") and name[0] != "_")


def read(words: Sequence[str]) -> Call | None:
    """What these words ask for, when there is no doubt about it."""
    if "_RUNLORE_COMPLETE" in os.environ or (os.name == "nt" and any(not _WINDOWS.isdisjoint(word) for word in words)):
        return None
    rest = list(words)
    while rest[:1] == ["--no-pager"]:
        del rest[0]
    if not rest or rest[0] not in names():
        return None
    command = import_module(f"{__package__}.{rest[0]}").command
    try:
        return Call(words, list(_steps(command, *rest)), no_pager=len(rest) < len(words))
    except NotPlain:
        return None


def _steps(command: Any, name: str, *words: str) -> Iterator[Step]:
    while True:
        if not isinstance(command, Command) or not command.settings.keys() <= _COMMAND:
            raise NotPlain
        rest = command.arrange(command, list(words)) if command.arrange else list(words)
        values, left = _values(command, rest, is_group=isinstance(command, Group))
        yield Step(command, name, values)
        if not isinstance(command, Group):
            return
        if not left or left[0] not in command.commands:  # Also one of `more`, none of which is in a hurry.
            raise NotPlain
        name, *words = left  # type: ignore[assignment] # A list is as good.
        command = command.commands[name]


def _values(command: Command, words: list[str], *, is_group: bool) -> tuple[dict[str, Any], list[str]]:
    """The values by the names of their parameters, and of a group what is left for the command below."""
    options = {name: param for param in command.params if param.is_option for name in param.names}
    given: dict[str, list[str]] = {}
    loose: list[str] = []
    rest = iter(words)
    for word in rest:
        if word == "--":
            loose += rest
        elif not word.startswith("-"):
            loose.append(word)
            if is_group:
                loose += rest
        else:
            _take(options, word, rest, given)
    arguments = [param for param in command.params if not param.is_option]
    for param, found in zip(arguments, [] if is_group else _dealt(arguments, loose), strict=True):
        given[param.name] = found
    return {param.name: _value(param, given.get(param.name)) for param in command.params}, loose


def _take(options: dict[str, Parameter], word: str, rest: Iterator[str], given: dict[str, list[str]]) -> None:
    name, equals, value = word.partition("=") if word.startswith("--") else (word, "", "")
    param = options.get(name)
    if param is None:
        raise NotPlain
    if param.settings.get("is_flag"):
        if equals:
            raise NotPlain
    elif not equals:
        value = next(rest, "-")
        if value.startswith("-"):  # Perhaps the value was forgotten.
            raise NotPlain
    given.setdefault(param.name, []).append(value)


def _dealt(arguments: list[Parameter], words: list[str]) -> list[list[str]]:
    """Of each argument its words: one, or all that are left."""
    dealt = []
    for param in arguments:
        size = len(words) if param.settings.get("nargs") == -1 else 1
        dealt.append(words[:size])
        words = words[size:]
    if words or not all(param.settings.get("nargs", 1) == 1 for param in arguments[:-1]):
        raise NotPlain
    return dealt


def _value(param: Parameter, words: list[str] | None) -> Any:
    settings = param.settings
    if not settings.keys() <= (_FLAG if settings.get("is_flag") else _OPTION if param.is_option else _ARGUMENT):
        raise NotPlain
    if settings.get("is_flag"):
        return bool(words)
    is_many = settings.get("multiple") or settings.get("nargs") == -1
    if not words:
        if not param.is_option and settings.get("required", "default" not in settings and not is_many):
            raise NotPlain
        return () if is_many else settings.get("default")
    kind = settings.get("type", _TEXT)
    if not isinstance(kind, ParamType) or "" in words:
        raise NotPlain
    if kind is _TEXT and not isinstance(settings.get("default", ""), str):  # click would take it for the type as well.
        raise NotPlain
    try:
        found = [kind.convert(word) for word in words]
    except BadParameter:
        raise NotPlain from None
    return tuple(found) if is_many else found[-1]


_TEXT = ParamType()
