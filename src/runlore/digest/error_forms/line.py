"""The line that reports an error, as a value."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

Form = Callable[[list[str], int], "ErrorLine | None"]


class ErrorLine(msgspec.Struct, frozen=True, gc=False):
    """A line that reports an error. `message` identifies it, `text` is shown."""

    kind: str
    """As in `Signature`."""
    message: str
    text: str
    name: str = ""
    """The exception or the code. Messages with different names are different errors."""
    detail: str = ""
    """What else is worth reading and does not identify it: the assertion of a failed test."""
    is_strong: bool = False
    """True if the form alone proves an error, whatever the status is."""
