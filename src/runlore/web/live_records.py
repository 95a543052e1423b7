"""Records that other programs append to live sessions, over the network.

The only part of the API that writes. Whoever may read the page may not write by that alone: the
server must have a token, and the guard has asked for it.
"""

from __future__ import annotations

from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from .. import config as settings
from ..config import Config
from ..errors import Conflict, LogError, SessionBusy, SessionNotFound
from ..live.intake import MAX_REQUEST_BYTES, Appended, NewRecord, append_json
from .json_answers import ROOT, answer, problem
from .live import store_of

PATH = f"{ROOT}/live/{{id}}/records"
REQUEST = NewRecord | list[NewRecord]
ANSWER = list[Appended]
STATUS: tuple[tuple[type[LogError], int], ...] = (
    (Conflict, 409),
    (SessionBusy, 409),
    (SessionNotFound, 404),
)
"""Other errors are the caller's: 400."""


async def append_records(request: Request) -> Response:
    """Append a record, or an array of records, all or none; the session is created if there is
    none. `expect` refuses it when the log has grown since that seq."""
    if request.app.state.door.token is None:
        error = LogError("this server has no token, so nothing can be written to it")
        error.hint = "start it with a token: `runlore serve --help`"
        return problem(error, 403)
    if request.headers.get("content-type", "").partition(";")[0].strip() != "application/json":
        return problem(LogError("the content type must be application/json"), 415)
    expect = request.query_params.get("expect")
    if expect is not None and not (expect.isascii() and expect.isdecimal() and len(expect) < 16):
        return problem(LogError("expect must be the seq of a record"), 400)
    data = await _body(request)
    if data is None:
        return problem(LogError(f"a request may have {MAX_REQUEST_BYTES} bytes"), 413)
    id, seq = request.path_params["id"], None if expect is None else int(expect)
    try:
        return answer(await run_in_threadpool(_append, settings.load(), id, data, seq))
    except LogError as error:
        status = next((status for kind, status in STATUS if isinstance(error, kind)), 400)
        return problem(error, status)


async def _body(request: Request) -> bytes | None:
    """Return the body; None if it is too large."""
    data = bytearray()
    async for part in request.stream():
        data += part
        if len(data) > MAX_REQUEST_BYTES:
            return None
    return bytes(data)


def _append(config: Config, id: str, data: bytes, expect: int | None) -> list[Appended]:
    with store_of(config) as store, store.ensure(id) as session:
        return append_json(session, data, expect=expect)


def described(request: dict[str, Any], answered: dict[str, Any], wrong: Any) -> dict[str, Any]:
    """Return this endpoint as OpenAPI has it."""
    return {
        "post": {
            "operationId": "append_records",
            "summary": (append_records.__doc__ or "").strip(),
            "parameters": [
                {"name": "id", "in": "path", "required": True, "schema": {"type": "string"}},
                {"name": "expect", "in": "query", "schema": {"type": "integer"}},
            ],
            "requestBody": {"required": True, "content": {"application/json": {"schema": request}}},
            "responses": {
                "200": {
                    "description": "the records",
                    "content": {"application/json": {"schema": answered}},
                },
                "4XX": wrong,
            },
            "security": [{"token": []}],
        }
    }


routes = [Route(PATH, append_records, methods=["POST"], name="append_records")]
