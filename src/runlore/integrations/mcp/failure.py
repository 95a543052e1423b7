"""Errors as answers to a client: a stable code, a sentence, and what to try. Never a traceback,
never recorded text.
"""

from __future__ import annotations

import os
import re
import sys

import msgspec

from ...errors import Ambiguous, NotFound, RunloreError
from .fencing import line

HINTS = {
    "no_store": "run `runlore sync` in a shell",
    "not_found": "the tool `sessions` lists what there is; `runlore sync` reads what is new",
    "ambiguous": "give more of the id; the tool `sessions` lists whole ones",
    "query": "words, begin*, \"a phrase\", -word, and fields as repo:NAME or is:error",
}  # fmt: skip
"""Hints for a model that uses our tools, in place of those for a person with our commands."""

_DATABASES = ("apsw", "psycopg", "zstandard")


class Failure(msgspec.Struct, frozen=True, kw_only=True):
    code: str
    message: str
    hint: str


def describe(error: Exception) -> Failure:
    """The failure to tell of any error."""
    if isinstance(error, RunloreError):
        hint = HINTS.get(error.code) or error.hint or "see the tool's description"
        return Failure(code=error.code, message=_message(error), hint=line(hint, 200))
    if os.environ.get("RUNLORE_DEBUG"):
        sys.excepthook(type(error), error, error.__traceback__)
    kind = type(error)
    # A row with a flipped bit is no valid text, or decodes to what cannot be.
    if kind.__module__.partition(".")[0] in _DATABASES or isinstance(
        error, (UnicodeDecodeError, msgspec.MsgspecError)
    ):
        return Failure(
            code="store",
            message=f"the store cannot be read ({kind.__name__})",
            hint="run `runlore doctor` in a shell",
        )
    # The rest of the message may be recorded text, and is not sent.
    return Failure(
        code="internal",
        message=f"this is a bug in runlore ({kind.__name__})",
        hint="try other arguments, and report it",
    )


def _message(error: RunloreError) -> str:
    message = str(error)
    if isinstance(error, Ambiguous):  # It tells titles.
        message = message.partition(" may be ")[0] + " may be several sessions"
    elif isinstance(error, NotFound):  # It goes on with what a person would type.
        message = re.split("; (?:run )?`runlore", message, maxsplit=1)[0]
    return line(message, 400)
