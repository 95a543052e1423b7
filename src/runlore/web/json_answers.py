"""The answers of the JSON API, and why there is none."""

from __future__ import annotations

from typing import Any

import msgspec
from starlette.responses import Response

from ..errors import RunloreError
from ..text.clean import encoded

ROOT = "/api/v1"


class Problem(msgspec.Struct, frozen=True, kw_only=True):
    """Why there is no answer. `code` stays the same when the words change."""

    code: str
    message: str
    hint: str | None = None


def answer(value: Any, status: int = 200) -> Response:
    return Response(encoded(value), status, media_type="application/json")


def problem(error: Exception, status: int) -> Response:
    """Return the answer of an endpoint that failed."""
    code = error.code if isinstance(error, RunloreError) else "failed"
    hint = error.hint if isinstance(error, RunloreError) else None
    message = (
        str(error)
        if isinstance(error, RunloreError)
        else "this did not work"
        if status >= 500
        else "there is no such thing here"
    )
    return answer({"error": Problem(code=code, message=message, hint=hint)}, status)
