"""The group of all commands, and what becomes of an error."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from typing import Any, NoReturn, TextIO

import click

from .._version import __version__
from ..errors import RunloreError
from ._out import clean, settle_streams

FOLDER = os.path.dirname(__file__)


class Failure(click.ClickException):
    """An error as people see it: one line, and exit status 1."""

    def show(self, file: Any = None) -> None:
        click.echo(f"runlore: {clean(self.message)}", err=True)


class Commands(click.Group):
    """The files in this folder. Listing them reads the first line of each; only the one that is used is imported."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(name[:-3] for name in os.listdir(FOLDER) if name.endswith(".py") and name[0] != "_")

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self.list_commands(ctx):
            return None
        command: click.Command = import_module(f"{__package__}.{cmd_name}").command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, short_help(name)) for name in self.list_commands(ctx)])

    def make_context(self, *args: Any, **options: Any) -> click.Context:
        with errors_told():
            return super().make_context(*args, **options)

    def invoke(self, ctx: click.Context) -> Any:
        settle_streams()
        with errors_told():
            result = super().invoke(ctx)
            sys.stdout.flush()
        return result


@contextmanager
def errors_told() -> Iterator[None]:
    """Whatever goes wrong becomes one line and an exit status."""
    try:
        yield
    except (click.ClickException, click.exceptions.Exit, click.Abort):
        raise
    except KeyboardInterrupt:
        raise click.exceptions.Exit(130) from None
    except BrokenPipeError:  # Whoever reads our output had enough.
        drop(sys.stdout, sys.stderr)
        raise click.exceptions.Exit(0) from None
    except RunloreError as error:
        fail(str(error), error)
    except OSError as error:
        if error.filename is None:  # The disk that our output goes to is full.
            drop(sys.stdout)
        fail(": ".join(str(part) for part in (error.filename, error.strerror or error) if part), error)
    except Exception as error:
        bug = f"this is a bug, please report it: {type(error).__name__}: {error} (RUNLORE_DEBUG=1 shows where)"
        fail(of_database(error) or bug, error)  # Either way one line, and the state is safe.


def drop(*streams: TextIO) -> None:
    """Leads these nowhere: Python would try to write the rest when it ends, and complain once more."""
    for stream in streams:
        with suppress(OSError, ValueError):  # One that is no file needs no help.
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def of_database(error: Exception) -> str | None:
    """What to tell of an error that the file of the store, the disk or another program is the cause of; None for all others."""
    if "apsw" not in sys.modules:  # It takes 10 ms to import, and who has not done so has no store open.
        return None
    import apsw
    import msgspec

    # A row with a flipped bit is no valid text, or decodes to what cannot be: nothing else of ours lets these out.
    if isinstance(error, (apsw.CorruptError, apsw.NotADBError, UnicodeDecodeError, msgspec.MsgspecError)):
        return f"the store is damaged: {error}; run `runlore doctor`"
    if isinstance(error, (apsw.BusyError, apsw.LockedError)):
        return "the store is in use by another program; try again in a moment"
    if isinstance(error, (apsw.IOError, apsw.FullError, apsw.CantOpenError, apsw.ReadOnlyError, apsw.PermissionsError)):
        return f"the store cannot be used: {error}"
    return None


def fail(message: str, error: Exception) -> NoReturn:
    if os.environ.get("RUNLORE_DEBUG"):
        raise error
    raise Failure(" ".join(message.split())) from None


def short_help(name: str) -> str:
    """The first line of a command's module, which is the first line of its help as well."""
    with open(os.path.join(FOLDER, f"{name}.py"), encoding="utf-8") as file:
        return file.readline().strip().strip('"').removesuffix(".")


@click.command(
    cls=Commands,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="A session is named by the beginning of its id, `latest`, `latest:AGENT` or `latest:REPO`.",
)
@click.version_option(__version__, "-V", "--version", message="runlore %(version)s")
@click.option("--no-pager", is_flag=True, help="Print long output all at once.")
def cli(no_pager: bool) -> None:
    """Keeps every session your coding agents ever ran, and makes them readable."""
