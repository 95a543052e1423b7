"""The group of all commands, as click has it, and what becomes of an error.

The commands of click are made here from what `_click` declares. An ordinary call comes by without this module, until something goes
wrong with it (`tell`).
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from importlib import import_module
from typing import TYPE_CHECKING, Any, NoReturn, TextIO

import click
from click.shell_completion import CompletionItem

from .._version import __version__
from ..errors import RunloreError, StoreBusy
from . import _click as declared
from ._click import Failure as Failure
from ._out import clean, encoded, safe_json, settle_streams
from ._plain import FOLDER, Call, enter, names

if TYPE_CHECKING:
    Type = click.ParamType[Any]
else:
    Type = click.ParamType  # Not generic in older versions of click.

WORDS = "runlore.words"
"""What is kept with click's context: the words of the call."""

OTHERS: dict[str, tuple[str, str | None]] = {
    "usage": ("A command, option or value that there is not.", "`runlore COMMAND --help` says how it is used"),
    "needs_yes": ("Only a person can allow it, and nobody is there to ask.", "add --yes"),
    "no_extra": ("A part of runlore that is not installed.", "install the extra that the message names"),
    "store_damaged": ("The file of the store is damaged.", "run `runlore doctor`"),
    "store_unusable": ("The file of the store cannot be read or written.", "look at the permissions of the store's file and folder"),
    "disk_full": ("There is no room for the store.", "make room, then try again"),
    "system": ("A file, a folder or the output cannot be used.", None),
    "bug": ("Something that should not happen.", "report it, with what RUNLORE_DEBUG=1 shows"),
}
"""The codes beside those of `errors.py`: what each means, and what to do."""


GROUPS: dict[str, tuple[str, ...]] = {
    "Every day": ("up", "sync", "ls", "show", "search", "resume"),
    "What happened, and what to learn of it": (
        "usage",
        "fix",
        "errors",
        "patterns",
        "lessons",
        "measure",
        "retro",
        "file",
        "commit",
        "skills",
    ),
    "Agents": ("agents", "hooks", "mcp", "live"),
    "What is kept": ("mark", "export", "secrets", "evict", "forget", "backup", "copy", "doctor"),
    "More": ("demo", "serve", "autostart", "completion"),
}
"""How the help orders the commands. One that is not here is among the last."""

REST = "More"


class Told(click.ClickException):
    """A failure, for click to show."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.message)
        self.exit_code = failure.exit_code  # type: ignore[misc] # click declares it for the class, and reads it from the error.
        self.code, self.hint, self.line = failure.code, failure.hint, failure.line()

    def show(self, file: Any = None) -> None:
        click.echo(self.line, err=True)


class JsonFailure(click.ClickException):
    """Any error as programs see it: a line of JSON on stderr."""

    def __init__(self, error: click.ClickException) -> None:
        super().__init__(" ".join(error.format_message().split()))
        self.exit_code = error.exit_code  # type: ignore[misc] # click declares it for the class, and reads it from the error.
        self.code, self.hint = getattr(error, "code", "usage"), getattr(error, "hint", None)
        if isinstance(error, click.UsageError) and error.ctx is not None:
            self.hint = f"`{error.ctx.command_path} --help` says how it is used"

    def show(self, file: Any = None) -> None:
        error = {"code": self.code, "message": clean(self.message), "hint": self.hint}
        click.echo(safe_json(encoded({"error": error})), err=True)


class Commands(click.Group):
    """The files in this folder. Listing them reads the first line of each; only the one that is used is imported."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return names()

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self.list_commands(ctx):
            return None
        return made(import_module(f"{__package__}.{cmd_name}").command)

    def resolve_command(self, ctx: click.Context, args: list[str]) -> tuple[str | None, click.Command | None, list[str]]:
        """`help COMMAND` is `COMMAND --help`; a name that is nearly one is answered with it."""
        if ctx.resilient_parsing:  # A completion asks.
            return super().resolve_command(ctx, args)
        if args[:1] == ["help"]:
            if not args[1:]:
                click.echo(ctx.get_help())
                ctx.exit()
            args = [args[1], "--help"]
        if (name := args[0]) not in self.list_commands(ctx) and name[:1].isalpha():
            ctx.fail(f"no such command {name!r}; {self.meant(ctx, name)}`runlore help` lists them all")
        return super().resolve_command(ctx, args)

    def meant(self, ctx: click.Context, name: str) -> str:
        from difflib import get_close_matches

        near = [known for known in self.list_commands(ctx) if known.startswith(name)] or get_close_matches(name, self.list_commands(ctx), 2)
        return f"did you mean {' or '.join(near)}? " if near else ""

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        every = self.list_commands(ctx)
        grouped = {name for group in GROUPS.values() for name in group}
        sections = {**GROUPS, REST: [*GROUPS[REST], *(name for name in every if name not in grouped)]}
        widest = max(map(len, every))
        formatter.write_paragraph()
        for title, group in sections.items():  # Without a line between them: all of it should fit a screen.
            formatter.write_heading(title)
            with formatter.indentation():
                formatter.write_dl([(name.ljust(widest), short_help(name)) for name in group if name in every])

    def make_context(self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any) -> click.Context:
        words = tuple(args)  # They are used up.
        with errors_told(is_json=wants_json(words)):
            ctx = super().make_context(info_name, args, parent, **extra)
        ctx.meta[WORDS] = words
        return ctx

    def invoke(self, ctx: click.Context) -> Any:
        words = ctx.meta.get(WORDS, ())
        root = declared.Context("runlore", ctx.params, words)
        root.enter()
        ctx.call_on_close(root.close)
        with errors_told(is_json=wants_json(words)):
            try:
                settle_streams()
                return super().invoke(ctx)
            finally:  # Also when a command ends with a status of its own: what is wrong with the output is told here.
                sys.stdout.flush()


def wants_json(words: Sequence[str]) -> bool:
    """Whether these ask for JSON; also when they are wrong, and nobody can say what they mean."""
    names = {word.partition("=")[0] for word in words[: words.index("--") if "--" in words else None]}
    return not names.isdisjoint(("--json", "--fields", "--max-tokens"))


@contextmanager
def errors_told(*, is_json: bool) -> Iterator[None]:
    """Whatever goes wrong becomes one line and an exit status."""
    try:
        with all_told():
            yield
    except click.ClickException as error:
        if is_json:
            raise JsonFailure(error) from None
        raise


@contextmanager
def all_told() -> Iterator[None]:
    """Whatever goes wrong becomes an error of click's."""
    try:
        yield
    except (click.ClickException, click.exceptions.Exit, click.Abort):
        raise
    except KeyboardInterrupt:
        raise click.exceptions.Exit(130) from None
    except BrokenPipeError:  # Whoever reads our output had enough.
        drop(sys.stdout, sys.stderr)
        raise click.exceptions.Exit(0) from None
    except Failure as error:
        raise Told(error) from None
    except RunloreError as error:
        fail(error, str(error), error.code, error.hint)
    except OSError as error:
        if error.filename is None:  # The disk that our output goes to is full.
            drop(sys.stdout)
        fail(error, ": ".join(str(part) for part in (error.filename, error.strerror or error) if part), "system")
    except Exception as error:
        bug = f"this is a bug, please report it: {type(error).__name__}: {error} (RUNLORE_DEBUG=1 shows where)"
        fail(error, *(of_database(error) or (bug, "bug", None)))  # Either way one line, and the state is safe.


def drop(*streams: TextIO) -> None:
    """Leads these nowhere: Python would try to write the rest when it ends, and complain once more."""
    for stream in streams:
        with suppress(OSError, ValueError):  # One that is no file needs no help.
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def of_database(error: Exception) -> tuple[str, str, str | None] | None:
    """What to tell of an error that the file of the store, the disk or another program is the cause of, its code and a hint; None for
    all others."""
    if "apsw" not in sys.modules:  # It takes 10 ms to import, and who has not done so has no store open.
        return None
    import apsw
    import msgspec

    # A row with a flipped bit is no valid text, or decodes to what cannot be: nothing else of ours lets these out.
    if isinstance(error, (apsw.CorruptError, apsw.NotADBError, UnicodeDecodeError, msgspec.MsgspecError)):
        return f"the store is damaged: {error}; run `runlore doctor`", "store_damaged", None
    if isinstance(error, (apsw.BusyError, apsw.LockedError)):
        return "the store is in use by another program; try again in a moment", StoreBusy.code, StoreBusy.hint
    if isinstance(error, apsw.FullError):
        return "the disk is full; what was stored before is safe", "disk_full", None
    if isinstance(error, (apsw.IOError, apsw.CantOpenError, apsw.ReadOnlyError, apsw.PermissionsError)):
        return f"the store cannot be used: {error}", "store_unusable", None
    return None


def fail(error: Exception, message: str, code: str, hint: str | None = None) -> NoReturn:
    if os.environ.get("RUNLORE_DEBUG"):
        raise error
    raise Told(Failure(" ".join(message.split()), code, hint or OTHERS.get(code, ("", None))[1])) from None


def short_help(name: str) -> str:
    """The first line of a command's module, which is the first line of its help as well."""
    with open(os.path.join(FOLDER, f"{name}.py"), encoding="utf-8") as file:
        return file.readline().strip().strip('"').removesuffix(".")


@click.command(
    cls=Commands,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="A session is named by the beginning of its id, `latest`, `latest:AGENT` or `latest:REPO`. Exit status: 0 done, 1 failed,"
    " or nothing found by search, fix, file and commit, 2 wrong usage, 3 over budget, 130 interrupted.",
)
@click.version_option(__version__, "-V", "--version", message="runlore %(version)s")
@click.option("--no-pager", is_flag=True, help="Print long output all at once.")
def cli(no_pager: bool) -> None:
    """Keeps every session your coding agents ever ran, and makes them readable."""


def tell(call: Call, error: BaseException) -> None:
    """Ends the program as click would have, if it had run this call and met this error."""
    cli.main(list(call.words), prog_name="runlore", obj=_Met(error, call.depth))


class _Met:
    """An error that was met when a call ran without click: its commands are not run again."""

    def __init__(self, error: BaseException, depth: int) -> None:
        self.error, self.depth = error, depth


# ── from declarations ────────────────────────────────────────────────────────────────────────────────────────────────
def made(command: declared.Command) -> click.Command:
    """The command of click that is declared so."""
    params = [made_parameter(param) for param in command.params]
    settings = {"help": command.function.__doc__, **command.settings}
    if isinstance(command, declared.Group):
        below = {name: made(one) for name, one in command.commands.items()}
        return MadeGroup(command, name=command.name, params=params, callback=_callback(command), commands=below, **settings)
    return MadeCommand(command, name=command.name, params=params, callback=_callback(command), **settings)


class MadeCommand(click.Command):
    def __init__(self, command: declared.Command, **settings: Any) -> None:
        super().__init__(**settings)
        self.declared = command

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        return super().parse_args(ctx, self.declared.arrange(self.declared, args) if self.declared.arrange else args)


class MadeGroup(MadeCommand, click.Group):
    declared: declared.Group

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted([*self.commands, *self.declared.more()])

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self.commands and (one := self.declared.more().get(cmd_name)) is not None:
            return made(one)
        return super().get_command(ctx, cmd_name)


def made_parameter(param: declared.Parameter) -> click.Parameter:
    settings = {**param.settings, "type": made_type(param.settings["type"])} if "type" in param.settings else param.settings
    if param.is_option:
        return click.Option([*param.names, param.name], **settings)
    return click.Argument([param.name], **settings)


def made_type(kind: Any) -> Any:
    if isinstance(kind, declared.Choice):
        return click.Choice(kind.choices)
    if isinstance(kind, declared.IntRange):
        return click.IntRange(kind.min, kind.max)
    if isinstance(kind, declared.Path):
        return click.Path(**kind.settings)
    return MadeType(kind) if isinstance(kind, declared.ParamType) else kind


class MadeType(Type):
    def __init__(self, kind: declared.ParamType) -> None:
        self.kind, self.name = kind, kind.name

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        try:
            return self.kind.convert(value) if isinstance(value, str) else value
        except declared.BadParameter as error:
            self.fail(error.message, param, ctx)

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        return [CompletionItem(word, help=told) for word, told in self.kind.complete(incomplete)]


def _callback(command: declared.Command) -> Any:
    def run(**values: Any) -> None:
        ctx = click.get_current_context()
        met = ctx.find_root().obj
        try:
            if not isinstance(met, _Met):
                enter(command, ctx.info_name or "", values, ctx.invoked_subcommand)
            elif met.depth == _depth(ctx):
                raise met.error
        except declared.Exit as end:
            ctx.exit(end.code)
        except declared.BadParameter as error:
            raise click.BadParameter(error.message, ctx, param_hint=error.param_hint) from None
        except declared.UsageError as error:
            raise click.UsageError(error.message, ctx) from None

    return run


def _depth(ctx: click.Context) -> int:
    return 0 if ctx.parent is None else 1 + _depth(ctx.parent)
