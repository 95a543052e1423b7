"""Transcripts that want to do harm: in a real browser nothing of them runs, and no layout
breaks."""

from __future__ import annotations

import json
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from urllib.parse import quote

import pytest
from playwright.sync_api import Browser

from runlore import config as settings
from runlore.export.html import html
from runlore.export.selection import select
from runlore.live import SessionStore
from runlore.store import open_store
from runlore.store.values import Marks
from runlore.sync import pipeline
from tests.ledgers import call, keep, price
from tests.toy import Toy, line
from tests.web.browsing import browser, needs_chromium, watched
from tests.web.conftest import serving

__all__ = ["browser"]  # a fixture

pytestmark = needs_chromium

NOW = datetime.now(UTC)
HARM = "window.pwned = true"
TEXTS = [
    f"<script>{HARM}</script>",
    f'<img src=x onerror="{HARM}">',
    f'"><svg onload="{HARM}"><script>{HARM}</script></svg>',
    f"[click](javascript:{HARM.replace(' ', '')}) and <javascript:{HARM.replace(' ', '')}>",
    f'<a href="javascript:{HARM}">x</a><iframe srcdoc="<script>parent.{HARM}</script>"></iframe>',
    (
        "![pixel](https://evil.example/pixel.png) <link rel=stylesheet"
        " href=https://evil.example/x.css>"
    ),
    f"```html\n<script>{HARM}</script>\n```\n\n```<script>{HARM}</script>\nx\n```",
    "</pre></details></article></main><h1>broken</h1><style>* { display: none !important }</style>",
    "{{ 7 * 7 }} {% raw %} ${7*7} `",
    "\x1b[31mred\x1b[0m \x1b]0;title\x07 \x9b31m",
    "\u202egnp.exe\u202c \u2066left\u2069 \u200bzero\u200d\ufeff \U000e0041",
    "x" * 200_000,
    "word " * 20_000,
    "| " * 400 + "\n" + "|---" * 400 + "|\n" + "| x " * 400,
    "> " * 500 + "deep",
    "𝔘𝔫𝔦𝔠𝔬𝔡𝔢 " * 100 + "Z͑ͫ̓ͪ̂ͫ̽͏̴̙̤̞͉͚̯̞̠͍A̴̵̜̰͔ͫ͗͢L̠ͨͧͩ͘G̴̻͈͍͔̹̑͗̎̅͛́Ǫ̵̹̻̝̳͂̌̌͘!͖̬̰̙̗̿̋ͥͥ̂ͣ̐́́͜͞" * 50,
]
KINDS = (
    "user_msg",
    "assistant_msg",
    "thinking",
    "tool_call",
    "tool_result",
    "edit",
    "error",
    "human_intervention",
    "lifecycle",
)


@pytest.fixture
def hostile(home: Path, toy: Toy) -> str:
    """Every text in every kind of event, as a title, a tool, a call's id and a live session."""
    root = home / ".toy"
    root.mkdir()
    records = []
    for n, text in enumerate(TEXTS):
        for m, kind in enumerate(KINDS):
            call_id = f"c{n}{text[:50]}" if kind in ("tool_call", "tool_result", "edit") else None
            records.append(
                line(
                    s="bad",
                    id=f"n{n}-{m}",
                    kind=kind,
                    text=text,
                    error=kind == "error",
                    tool=text[:200],
                    call=call_id,
                    files=[text[:100]],
                    at=n * 10 + m,
                )
            )
    records += [
        line(s=f"bad{n}", id=f"t{n}", text=text, at=5000 + n) + line(s=f"bad{n}", title=text[:500])
        for n, text in enumerate(TEXTS)
    ]
    (root / "bad.jsonl").write_bytes(b"".join(records))
    config = settings.load()
    settings.make_home(config.home)
    with closing(open_store(config.store)) as store:
        pipeline.sync(store, config)
        store.sessions.mark(
            "toy:bad3", Marks(name=TEXTS[1], tags=(TEXTS[2], TEXTS[10]), note=TEXTS[4])
        )
        facts = {
            "paid": {"title": TEXTS[0], "repo": TEXTS[1], "git_branch": TEXTS[2], "model": TEXTS[4]}
        }
        keep(
            store,
            [
                call(f"k{n}", "paid", model=text[:150], ts=NOW - timedelta(days=n))
                for n, text in enumerate(TEXTS)
            ],
            facts,
        )
        price(store, lambda call: 10**12)
        (home / "out.html").write_text(
            "".join(html(select(store, config, "toy:bad"))), encoding="utf-8", errors="replace"
        )
    live = SessionStore(config.home / "live")
    with live.create(TEXTS[2][:200], agent=TEXTS[1]) as session:
        session.state.start(TEXTS[0])
        session.state.progress(TEXTS[2], buffer={TEXTS[1]: TEXTS[0]})
        session.state.checkpoint(TEXTS[2], description=TEXTS[1])
        session.state.pause(TEXTS[0], reason=TEXTS[4])
    live.close()
    return session.id


@pytest.mark.parametrize("width", [390, 1280])
def test_nothing_of_a_transcript_runs_and_no_layout_breaks(
    browser: Browser, hostile: str, home: Path, width: int
) -> None:
    paths = [
        "/", "/sessions?subagents=1", "/sessions?q=pwned", "/s/toy:bad", "/s/toy:bad?at=80",
        "/s/toy:bad?at=140", "/live",
        "/usage?by=session&since=all", f"/live/{hostile}", "/agents",
        *(f"/s/toy:bad{n}" for n in (0, 2, 3, 7, 11)), "/?by=model",
        *(f"/usage?by={by}&since=all" for by in ("day", "model", "repo", "branch")),
        "/usage/doubts", "/usage/explain/toy:paid",
        f"/usage?model={quote(TEXTS[2])}",
        f"/sessions?repo={quote(TEXTS[1])}&tag={quote(TEXTS[2])}", "/errors?least=1",
        *(f"/errors?q={quote(text[:2000])}" for text in TEXTS[:5]),
    ]  # fmt: skip
    with serving() as client, watched(browser, width=width) as here:
        page = here.page
        known = json.loads(client.get("/api/v1/errors?least=1"))["found"]
        assert len(known) > 5
        paths += [f"/errors/{quote(error['fingerprint'])}" for error in known]
        for path in paths:
            page.goto(client.url + path)
            page.evaluate(
                "document.querySelectorAll('details').forEach((one) => (one.open = true))"
            )
            page.wait_for_timeout(50)
            assert page.evaluate("window.pwned") is None, path
            assert not here.is_too_wide(), path
            assert page.locator("main").count() == 1, path
            assert page.locator("h1:has-text('broken')").count() == 0 or path.startswith(
                "/s/toy:bad7"
            ), path
            assert (
                page.locator(
                    "main script, main iframe, main object, main style, main link, main [onload],"
                    " main [onerror]"
                ).count()
                == 0
            ), path
            hrefs = page.evaluate(
                "[...document.querySelectorAll('main a[href]:not(svg a)')].map((one) =>"
                " one.protocol)"
            )
            assert set(hrefs) <= {"http:", "https:", "mailto:"}, path
        for query in (
            "raw/toy:bad?seq=3",
            "seen/toy:bad?seq=100",
            "text/toy:bad?seq=2",
            "find/toy:bad?q=pwned",
        ):
            page.goto(f"{client.url}/s/toy:bad")
            page.evaluate(
                f"fetch('/x/{query}').then((a) => a.text()).then((html) =>"
                " (document.querySelector('main').innerHTML = html))"
            )
            page.wait_for_timeout(100)
            assert page.evaluate("window.pwned") is None, query
            assert (
                page.locator("main script, main iframe, main [onload], main [onerror]").count() == 0
            ), query
        assert not here.wrong
        assert all(url.startswith(client.url) for url in here.asked)


def test_nothing_of_an_exported_file_runs(browser: Browser, hostile: str, home: Path) -> None:
    with watched(browser) as here:
        here.page.goto((home / "out.html").as_uri())
        here.page.evaluate(
            "document.querySelectorAll('details').forEach((one) => (one.open = true))"
        )
        assert here.page.evaluate("window.pwned") is None
        assert not here.wrong
        assert not here.is_too_wide()
        assert all(url.startswith("file:") for url in here.asked)
