"""Errors on the command line: one line on stderr, as text or JSON, and an exit status."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, NoReturn, TextIO

import apsw
import click
import msgspec

from ..errors import RunloreError, StoreBusy
from ..text.clean import clean, encoded, safe_json

COMMAND_LINE_CODES: dict[str, tuple[str, str | None]] = {
    "usage": ("Unknown command, option or value.", "`runlore COMMAND --help` says how it is used"),
    "needs_yes": ("Only a person can allow it, and nobody is there to ask.", "add --yes"),
    "no_extra": (
        "A part of runlore that is not installed.",
        "install the extra that the message names",
    ),
    "store_damaged": ("The file of the store is damaged.", "run `runlore doctor`"),
    "store_unusable": (
        "The file of the store cannot be read or written.",
        "look at the permissions of the store's file and folder",
    ),
    "disk_full": ("There is no room for the store.", "make room, then try again"),
    "system": ("A file, a folder or the output cannot be used.", None),
    "bug": ("Something that should not happen.", "report it, with what RUNLORE_DEBUG=1 shows"),
}
"""The codes beside those of `errors.py`: what each means, and what to do."""


class Failure(click.ClickException):
    """An error that is shown as one line, with exit status 1. JSON adds its code and a hint."""

    def __init__(self, message: str, code: str = "failed", hint: str | None = None) -> None:
        super().__init__(message)
        self.code, self.hint = code, hint

    def line(self) -> str:
        return f"runlore: {clean(self.message)}"

    def show(self, file: Any = None) -> None:
        click.echo(self.line(), err=True)


class JsonFailure(click.ClickException):
    """Any error as programs see it: a line of JSON on stderr."""

    def __init__(self, error: click.ClickException) -> None:
        super().__init__(" ".join(error.format_message().split()))
        # Click declares the exit code for the class, and reads it from the error.
        self.exit_code = error.exit_code  # type: ignore[misc]
        self.code, self.hint = getattr(error, "code", "usage"), getattr(error, "hint", None)
        if isinstance(error, click.UsageError) and error.ctx is not None:
            self.hint = f"`{error.ctx.command_path} --help` says how it is used"

    def show(self, file: Any = None) -> None:
        error = {"code": self.code, "message": clean(self.message), "hint": self.hint}
        click.echo(safe_json(encoded({"error": error})), err=True)


@contextmanager
def shown_errors(words: Sequence[str]) -> Iterator[None]:
    """Turn any exception into an error that click shows, as JSON if the arguments ask for it."""
    try:
        with click_errors():
            yield
    except click.ClickException as error:
        if wants_json(words):
            raise JsonFailure(error) from None
        raise


def wants_json(words: Sequence[str]) -> bool:
    """Return True if the arguments ask for JSON. They need not be valid."""
    names = {
        word.partition("=")[0] for word in words[: words.index("--") if "--" in words else None]
    }
    return not names.isdisjoint(("--json", "--fields", "--max-tokens"))


@contextmanager
def click_errors() -> Iterator[None]:
    """Turn whatever goes wrong into an error of click's."""
    try:
        yield
    except (click.ClickException, click.exceptions.Exit, click.Abort):
        raise
    except KeyboardInterrupt:
        raise click.exceptions.Exit(130) from None
    except BrokenPipeError:  # The reader of our output closed it.
        discard(sys.stdout, sys.stderr)
        raise click.exceptions.Exit(0) from None
    except RunloreError as error:
        fail(error, str(error), error.code, error.hint)
    except OSError as error:
        if error.filename is None:  # The disk that our output goes to is full.
            discard(sys.stdout)
        fail(
            error,
            ": ".join(str(part) for part in (error.filename, error.strerror or error) if part),
            "system",
        )
    except Exception as error:
        bug = (
            f"this is a bug, please report it: {type(error).__name__}: {error} (RUNLORE_DEBUG=1"
            " shows where)"
        )
        fail(error, *(database_failure(error) or (bug, "bug", None)))


def discard(*streams: TextIO) -> None:
    """Redirect streams to the null device, so that flushing them at exit does not fail again."""
    for stream in streams:
        with suppress(OSError, ValueError):  # Some streams are not files.
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def database_failure(error: Exception) -> tuple[str, str, str | None] | None:
    """Return message, code and hint for an error of the database; None for any other error."""
    # Damaged rows are invalid text or cannot be decoded. Other code does not raise these errors.
    if isinstance(
        error, (apsw.CorruptError, apsw.NotADBError, UnicodeDecodeError, msgspec.MsgspecError)
    ):
        return f"the store is damaged: {error}; run `runlore doctor`", "store_damaged", None
    if isinstance(error, (apsw.BusyError, apsw.LockedError)):
        return (
            "the store is in use by another program; try again in a moment",
            StoreBusy.code,
            StoreBusy.hint,
        )
    if isinstance(error, apsw.FullError):
        return "the disk is full; what was stored before is safe", "disk_full", None
    if isinstance(
        error, (apsw.IOError, apsw.CantOpenError, apsw.ReadOnlyError, apsw.PermissionsError)
    ):
        return f"the store cannot be used: {error}", "store_unusable", None
    return None


def fail(error: Exception, message: str, code: str, hint: str | None = None) -> NoReturn:
    if os.environ.get("RUNLORE_DEBUG"):
        raise error
    raise Failure(
        " ".join(message.split()), code, hint or COMMAND_LINE_CODES.get(code, ("", None))[1]
    ) from None
