"""Attacks on the web page: script in transcripts, strangers' requests, half-open connections, and
code that takes long to colour.

The first needs Chromium and Playwright (the extra `dev`), and is left out without them.
"""

from __future__ import annotations

import itertools
import json
import os
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from bench.attack import Result, not_possible

HARM = "window.pwned=1"
SCRIPTS = [
    f"<script>{HARM}</script>",
    f'<img src=x onerror="{HARM}">',
    f'"><svg onload="{HARM}">',
    f"<svg><animate onbegin={HARM} attributeName=x dur=1s>",
    f"[click](javascript:{HARM})",
    f"[click](JaVaScRiPt&colon;{HARM})",
    f"<javascript:{HARM}>",
    f'<iframe srcdoc="<script>parent.{HARM}</script>"></iframe>',
    f"<details open ontoggle={HARM}>",
    f"<a href='data:text/html,<script>opener.{HARM}</script>'>x</a>",
    f"</script><script>{HARM}</script>",
    f"</pre></code></title></textarea></style><script>{HARM}</script>",
    f"<math><mtext></form><form><mglyph><style></math><img src onerror={HARM}>",
    f"<noscript><p title='</noscript><img src=x onerror={HARM}>'>",
    f"<input autofocus onfocus={HARM}>",
    f"<style>@import 'http://evil.example/x.css'</style><b style='x:expression({HARM})'>",
    "![pixel](http://evil.example/pixel.png)<link rel=prefetch href=http://evil.example/>",
    f"<base href='http://evil.example/'><script src=x.js></script><script>{HARM}</script>",
    f"{{{{constructor.constructor('{HARM}')()}}}}",
    f"<meta http-equiv=refresh content='0;url=javascript:{HARM}'>",
]
WRAPPERS = [
    "{}", "```html\n{}\n```", "```{}\nx\n```", "`{}`", "> {}", "| a |\n|---|\n| {} |", "# {}",
    "[x]({})", "<!-- {} -->",
]  # fmt: skip

REFUSED_HOSTS = (
    "evil.example",
    "localhost.evil.example",
    "192.0.2.7",
    "",
    "[::2]:1",
    "a@localhost",
)
REFUSED_ORIGINS = ("http://evil.example", "null", "http://localhost:1", "http://[", "", "file://")
HALF_REQUESTS = (
    b"",
    b"GET / HT",
    b"GET / HTTP/1.1\r\nhost: localhost\r\nx: ",
    b"POST /login HTTP/1.1\r\nhost: localhost\r\ncontent-length: 9\r\n\r\nab",
    b"GET /login HTTP/1.1\r\nhost: localhost\r\n\r\nGET /login HTTP/1.1\r\nx",
)
MAX_HALF_OPEN_S = 25
"""Seconds after which a half-open connection must be closed."""

MAX_BLOCK_S = 0.6
"""Processor seconds that one block of code may take."""
SPECIAL = [*"!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~ \t\n", *"aA0xbue", "é"]
SCREEN_CHARS = 800
"""The length of the texts by which slow ones are recognized."""


def attack(scale: float, scratch: Path) -> Iterator[Result]:
    """Attack the page in four ways."""
    home = scratch / "home"
    uids = write_transcripts(home, max(3, int(len(SCRIPTS) * len(WRAPPERS) * scale)))
    run(home, "sync")
    with serving(home) as url:
        yield strangers(url)
        yield half_open_connections(url, max(5, int(200 * scale)))
        yield from opened(scripts_in_pages(url, uids), scripts_in_exports(home, scratch, uids))
    yield from colouring_bombs(scale)


# ── a home, and a server for it ───────────────────────────────────────────────────────────────────
def write_transcripts(home: Path, count: int) -> list[str]:
    """Write sessions in which every text of an agent is hostile, and return their uids."""
    folder = home / ".claude" / "projects" / "-work-shop"
    folder.mkdir(parents=True)
    texts = [wrap.format(script) for script, wrap in itertools.product(SCRIPTS, WRAPPERS)]
    random.Random(28).shuffle(texts)
    for number, text in enumerate(texts[:count]):
        records = list(records_of(f"{number:08}-0000-4000-8000-000000000000", text))
        lines = "".join(json.dumps(record) + "\n" for record in records)
        (folder / f"{number:08}-0000-4000-8000-000000000000.jsonl").write_text(lines)
    return [f"claude:{number:08}-0000-4000-8000-000000000000" for number in range(count)]


def records_of(session: str, text: str) -> Iterator[dict[str, Any]]:
    """Yield a prompt, a reply with a thought and a call, and its result, all of this text."""
    common = {"sessionId": session, "cwd": f"/work/{text[:40]}", "gitBranch": text[:60]}
    call = {"type": "tool_use", "id": "t1", "name": text[:60], "input": {"command": text}}
    reply = [{"type": "thinking", "thinking": text}, {"type": "text", "text": text}, call]
    result = {"type": "tool_result", "tool_use_id": "t1", "content": text, "is_error": True}
    messages = [("user", text), ("assistant", reply), ("user", [result]), ("user", text)]
    before = None
    for number, (role, content) in enumerate(messages):
        uuid = f"{session[:8]}-{number:04}-4000-8000-000000000001"
        message = {"role": role, "content": content, "model": text[:60], "id": f"m{uuid}"}
        yield {
            **common, "type": role, "uuid": uuid, "parentUuid": before, "message": message,
            "timestamp": f"2026-08-01T10:00:0{number}.000Z",
        }  # fmt: skip
        before = uuid


def environment(home: Path) -> dict[str, str]:
    wanted = ("PATH", "SYSTEMROOT", "TMP", "TEMP", "PYTHONPATH")
    return {
        **{name: os.environ[name] for name in wanted if name in os.environ},
        "HOME": str(home), "USERPROFILE": str(home), "RUNLORE_HOME": str(home / ".runlore"),
    }  # fmt: skip


def run(home: Path, *words: str) -> None:
    subprocess.run(
        [sys.executable, "-m", "runlore", *words], env=environment(home), check=True,
        capture_output=True,
    )  # fmt: skip


@contextmanager
def serving(home: Path) -> Iterator[str]:
    """Give the address of `runlore serve` for this home."""
    words = [sys.executable, "-m", "runlore", "serve", "--port", "0", "--json"]
    process = subprocess.Popen(
        words, env=environment(home), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    try:
        assert process.stdout is not None
        text = b""
        while not text.rstrip().endswith(b"}"):
            text += process.stdout.readline()
        yield json.loads(text)["url"]
    finally:
        process.send_signal(signal.SIGINT if os.name == "posix" else signal.SIGTERM)
        process.wait(20)


# ── requests ──────────────────────────────────────────────────────────────────────────────────────
def strangers(url: str) -> Result:
    """Ask by other names and from other sites. Every request must be refused."""
    port = urlsplit(url).port
    own = f"localhost:{port}"
    requests = [
        *(("GET", {"Host": host}) for host in REFUSED_HOSTS),
        *(("GET", {"Host": own, "Origin": origin}) for origin in REFUSED_ORIGINS),
        *(("POST", {"Host": own, "Origin": origin}) for origin in REFUSED_ORIGINS),
        *(
            ("GET", {"Host": own, "Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": mode})
            for mode in ("cors", "no-cors", "websocket")
        ),
    ]
    open_to = [
        f"{method} {headers}"
        for method, headers in requests
        for path in ("/sessions", "/api/v1/sessions", "/logout")
        if status_of(port, method, path, headers) not in (400, 403, 421)
    ]
    tried = 3 * len(requests)
    return Result(
        "requests with another Host or Origin", tried, tried - len(open_to), "".join(open_to[:1])
    )


def status_of(port: int | None, method: str, path: str, headers: dict[str, str]) -> int:
    connection = HTTPConnection("localhost", port, timeout=30)
    try:
        connection.putrequest(method, path, skip_host=True)
        for name, value in headers.items():
            connection.putheader(name, value)
        connection.endheaders()
        return connection.getresponse().status
    finally:
        connection.close()


def half_open_connections(url: str, count: int) -> Result:
    """Leave connections half open. The server must drop them, and answer others meanwhile."""
    port = urlsplit(url).port
    connections = []
    for number in range(count):
        connection = socket.create_connection(("localhost", port or 0), timeout=30)
        connection.sendall(HALF_REQUESTS[number % len(HALF_REQUESTS)])
        connections.append(connection)
    began = time.monotonic()
    is_answering = status_of(port, "GET", "/sessions", {"Host": f"localhost:{port}"}) == 200
    waited = time.monotonic() - began
    time.sleep(MAX_HALF_OPEN_S)
    dropped = sum(map(is_closed, connections))
    note = f"another page came after {waited:.2f} s" if is_answering else "no other page came"
    return Result("connections left half open", count, dropped if is_answering else 0, note)


def is_closed(connection: socket.socket) -> bool:
    """Close our end, and return True if the other end was closed before."""
    connection.setblocking(False)
    try:
        while connection.recv(65536):
            pass
        return True
    except BlockingIOError:
        return False
    except OSError:
        return True
    finally:
        connection.close()


# ── scripts ───────────────────────────────────────────────────────────────────────────────────────
Addresses = tuple[str, list[str], str]
"""A case, what is opened in it, and how the addresses begin that may be asked for."""


def scripts_in_pages(url: str, uids: list[str]) -> Addresses:
    """Return every page of the hostile sessions. Of few sessions, fewer lists too."""
    paths = [
        "/", "/sessions", "/sessions?q=pwned", "/errors", "/errors?q=pwned", "/usage?since=all",
        *(f"/usage?since=all&by={by}" for by in ("model", "repo", "session", "branch")), "/agents",
        *(f"/s/{uid}" for uid in uids),
    ]  # fmt: skip
    chosen = paths if len(uids) > 3 else [paths[2], paths[4], *paths[-len(uids) :]]
    return "pages full of script, in Chromium", [url + path for path in chosen], url


def scripts_in_exports(home: Path, scratch: Path, uids: list[str]) -> Addresses:
    """Export the hostile sessions, and a look back at them, and return the files."""
    files = [scratch / f"{number}.html" for number in range(len(uids[:60]))]
    for uid, file in zip(uids, files, strict=False):
        run(home, "export", uid, "-o", str(file))
    run(home, "retro", "--days", "3650", "--html", str(scratch / "retro.html"))
    urls = [file.as_uri() for file in (*files, scratch / "retro.html")]
    return "exports full of script, in Chromium", urls, "file:"


def opened(*cases: Addresses) -> Iterator[Result]:
    """Open addresses, with all that is folded in them, and count those where nothing ran."""
    programs = ("chromium", "chromium-browser", "google-chrome")
    chromium = next(filter(None, map(shutil.which, programs)), None)
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        chromium = None
    if chromium is None:
        for case, _, _ in cases:
            yield not_possible(case, "needs Chromium, and Playwright from the extra `dev`")
        return
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        for case, urls, own in cases:
            broken = [problem for url in urls if (problem := run_page(browser, url, own))]
            yield Result(case, len(urls), len(urls) - len(broken), "".join(broken[:1]))
        browser.close()


def run_page(browser: Any, url: str, own: str) -> str:
    """Open an address, and return what was run or asked for elsewhere; empty if nothing was."""
    page, outside = browser.new_page(), list[str]()
    page.on("dialog", lambda dialog: dialog.dismiss())
    page.on("request", lambda request: outside.append(request.url))
    page.goto(url)
    page.evaluate("document.querySelectorAll('details').forEach((one) => one.open = true)")
    page.wait_for_timeout(30)
    outside = [asked for asked in outside if not asked.startswith((own, "data:"))]
    is_harmed = outside or page.evaluate("window.pwned !== undefined")
    page.close()
    return f"{url} {outside}" if is_harmed else ""


# ── colouring ─────────────────────────────────────────────────────────────────────────────────────
def colouring_bombs(scale: float) -> Iterator[Result]:
    """Search slow texts for every lexer that is used, and colour them at full length."""
    from pygments.lexers import get_lexer_by_name

    from runlore.export.markup import LANGUAGES, MAX_CODE_CHARS, code

    lexers = {get_lexer_by_name(name).name: name for name in sorted(LANGUAGES)}
    slowest, held = (0.0, "", ""), 0
    languages = list(lexers.values())[:: max(1, round(0.02 / scale))]
    for language in languages:
        code("x", language)  # Loads the lexer.
        worst = (0.0, language, "")
        for text in slow_texts(language, max(8, int(1500 * scale))):
            began = time.thread_time()
            code(grow(text, MAX_CODE_CHARS), language)
            worst = max(worst, (time.thread_time() - began, language, text[:20]))
        slowest = max(slowest, worst)
        held += worst[0] <= MAX_BLOCK_S
    note = f"slowest: {slowest[0]:.2f} s for {slowest[1]}, {slowest[2]!r}".replace("|", "&#124;")
    yield Result("languages with their slowest block of code", len(languages), held, note)


def slow_texts(language: str, count: int) -> list[str]:
    """Return the three of many repetitive texts between two of whose tokens most time passes.

    That is what the limit cannot interrupt.
    """
    from pygments.lexers import get_lexer_by_name

    lexer, chance = get_lexer_by_name(language), random.Random(language)
    parts = [*SPECIAL, *literals(lexer)]
    texts = []
    for _ in range(count):
        unit = "".join(chance.choices(parts, k=chance.randint(1, 4)))
        texts.append((chance.choice(["", *parts]) + grow(unit, SCREEN_CHARS))[:SCREEN_CHARS])
    return sorted(texts, key=lambda text: longest_token_s(lexer, text), reverse=True)[:3]


def literals(lexer: Any) -> list[str]:
    """Return the words and signs in a lexer's patterns."""
    patterns = (
        getattr(rule[0], "__self__", None)
        for rules in getattr(lexer, "_tokens", {}).values()
        for rule in rules
    )
    words = {
        word
        for pattern in patterns
        if isinstance(pattern, re.Pattern)
        for word in re.findall(r"[a-zA-Z]{2,12}|[^\w\s\\()\[\]|?*+]{2,4}", pattern.pattern)
    }
    return sorted(words)[:300]


def longest_token_s(lexer: Any, text: str) -> float:
    last, longest = time.thread_time(), 0.0
    for _ in lexer.get_tokens(text):
        now = time.thread_time()
        longest, last = max(longest, now - last), now
    return longest


def grow(unit: str, length: int) -> str:
    """Return a text of this length that repeats another."""
    return (unit * (length // len(unit) + 1))[:length]
