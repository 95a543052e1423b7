"""Access control and security headers, before all routes. Knows no page.

Transcripts hold people's work, and any site that a person visits can make their browser send
requests here. So the Host must be ours (a site may point its own name at this machine), a request
that changes something must come from our own pages, and on any address but loopback a token is
required. Neither the token nor anything that reveals it is ever sent: the cookie holds a hash under
it.
"""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
from http.cookies import CookieError, SimpleCookie

import msgspec
from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

COOKIE = "runlore"
LOOPBACK = ("localhost", "127.0.0.1", "::1")
OPEN = ("/login", "/static/")
"""Paths that need no token: the page that asks for it, and its style."""
SAFE = ("GET", "HEAD", "OPTIONS")

HEADERS = {
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src"
        " 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "same-origin",  # Without any, a form of ours would have no origin either.
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
}


class Door(msgspec.Struct, frozen=True, kw_only=True):
    """The host names that the server answers to, and its token; None only on loopback."""

    hosts: tuple[str, ...] = LOOPBACK
    token: str | None = None

    def is_ours(self, host: str) -> bool:
        """Return True if the Host of a request is one of our names. With a token any bare address
        is accepted: no site can point a name at that."""
        name = _name(host)
        return name in self.hosts or (self.token is not None and _is_address(name))

    @property
    def pass_(self) -> str | None:
        """The value of the cookie that a person gets who gave the token."""
        return (
            None
            if self.token is None
            else hmac.new(self.token.encode(), b"runlore web", hashlib.sha256).hexdigest()
        )

    def opens_with(self, token: str) -> bool:
        return self.token is not None and hmac.compare_digest(token.encode(), self.token.encode())


def is_loopback(host: str) -> bool:
    """Return True if only this machine can reach a server bound to this address."""
    return host == "localhost" or (_is_address(host) and ipaddress.ip_address(host).is_loopback)


class Guard:
    """ASGI middleware: refuses requests that the `Door` does not admit, and adds the headers to
    every answer."""

    def __init__(self, app: ASGIApp, door: Door) -> None:
        self.app, self.door = app, door

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":  # Lifespan; there are no web sockets.
            await self.app(scope, receive, send)
            return

        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
                headers.setdefault("cache-control", "no-store")
            await send(message)

        refusal = self._refusal(scope)
        await (refusal or self.app)(scope, receive, send_guarded)

    def _refusal(self, scope: Scope) -> Response | None:
        headers = Headers(scope=scope)
        host, path = headers.get("host", ""), scope["path"]
        if not self.door.is_ours(host):
            return PlainTextResponse(
                "this is not a name of this server; open it as http://localhost and its port\n", 421
            )
        if not _is_from_us(scope["method"], headers, host):
            return PlainTextResponse("refused: the request comes from another site\n", 403)
        if self.door.token is None or path.startswith(OPEN) or self._has_pass(headers):
            return None
        if path.startswith("/api/") or scope["method"] not in SAFE:
            return PlainTextResponse(
                "a token is needed: Authorization: Bearer …\n", 401, {"www-authenticate": "Bearer"}
            )
        return RedirectResponse("/login", 303)

    def _has_pass(self, headers: Headers) -> bool:
        kind, _, token = headers.get("authorization", "").partition(" ")
        if kind.lower() == "bearer" and self.door.opens_with(token.strip()):
            return True
        try:
            found = SimpleCookie(headers.get("cookie", "")).get(COOKIE)
        except CookieError:
            return False
        return found is not None and hmac.compare_digest(
            found.value.encode(), (self.door.pass_ or "").encode()
        )


def _is_from_us(method: str, headers: Headers, host: str) -> bool:
    """Return True for a request by our own pages, by a typed or followed address, or by a
    program, and False for one by a script, picture or form of another site."""
    site, mode = headers.get("sec-fetch-site"), headers.get("sec-fetch-mode")
    origin = headers.get("origin")
    if origin is not None and origin.lower().partition("://")[2] != host.lower():
        return False
    if method in SAFE:
        return site in (None, "same-origin", "none") or mode == "navigate"
    # None: a program, or a browser whose origin was just looked at.
    return site in (None, "same-origin")


def _name(host: str) -> str:
    """Return the name in a Host header, without its port."""
    if host.startswith("["):
        return host[1:].partition("]")[0]
    name, _, port = host.rpartition(":")
    return (name if name and port.isdecimal() else host).lower()


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
