"""The files of `static/`, read once. A name from a URL is looked up among these and never reaches
the disk.
"""

from __future__ import annotations

import gzip
from hashlib import sha256
from pathlib import Path

import msgspec
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

KINDS = {".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
FOLDERS = (Path(__file__).parent / "static", Path(__file__).parents[1] / "export/static")
FOREVER = "public, max-age=31536000, immutable"


class File(msgspec.Struct, frozen=True):
    kind: str
    data: bytes
    packed: bytes


FILES = {
    path.name: File(
        KINDS[path.suffix], path.read_bytes(), gzip.compress(path.read_bytes(), 9, mtime=0)
    )
    for folder in FOLDERS
    for path in sorted(folder.iterdir())
    if path.suffix in KINDS
}
VERSION = sha256(b"".join(file.data for file in FILES.values())).hexdigest()[:12]
"""Part of their URLs, so that browsers cache them until something changes. One version for all,
because scripts import each other."""


def static(request: Request) -> Response:
    file = FILES.get(request.path_params["name"])
    if file is None:
        return PlainTextResponse("there is no such file\n", 404)
    headers = {
        "cache-control": FOREVER if request.path_params["version"] == VERSION else "no-cache",
        "vary": "accept-encoding",
    }
    if "gzip" in request.headers.get("accept-encoding", ""):
        return Response(
            file.packed, media_type=file.kind, headers={**headers, "content-encoding": "gzip"}
        )
    return Response(file.data, media_type=file.kind, headers=headers)


routes = [Route("/static/{version}/{name}", static)]
