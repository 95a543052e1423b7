"""The page that asks for the token of a server that has one. The right token gets a cookie with a
hash made of it."""

from __future__ import annotations

from urllib.parse import parse_qs

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from .guard import COOKIE
from .rendering import render

MAX_BYTES = 4096
"""Bytes of a form: a token is short."""


async def login(request: Request) -> Response:
    door = request.app.state.door
    if door.token is None:
        return RedirectResponse("/", 303)
    if request.method != "POST":
        return render(request, "login.html", is_wrong=False)
    data = b""
    async for part in request.stream():
        data += part
        if len(data) > MAX_BYTES:
            return render(request, "login.html", 413, is_wrong=True)
    given = parse_qs(data.decode("utf-8", "replace")).get("token", [""])[0]
    if not door.opens_with(given.strip()):
        return render(request, "login.html", 403, is_wrong=True)
    answer = RedirectResponse("/", 303)
    answer.set_cookie(COOKIE, door.pass_, httponly=True, samesite="strict", path="/")
    return answer


async def logout(_: Request) -> Response:
    answer = RedirectResponse("/login", 303)
    answer.delete_cookie(COOKIE, httponly=True, samesite="strict", path="/")
    return answer


routes = [
    Route("/login", login, methods=["GET", "POST"]),
    Route("/logout", logout, methods=["POST"]),
]
