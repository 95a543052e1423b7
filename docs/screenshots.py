"""Makes the pictures of docs/screenshots: every page, light and dark, of a store of invented
sessions.

    .venv/bin/python docs/screenshots.py [--only home,session]

The sessions are those of the demo, told anew many times: other days, repositories, titles, models
and figures, from a seed. Needs Chromium and what tests need (`scripts/test` installs both).
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import socket
import threading
import time
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from playwright.sync_api import Browser, sync_playwright

from runlore import config as settings
from runlore.live import SessionStore
from runlore.store import open_store
from runlore.sync import pipeline
from runlore.web.serving import bind, door_for, serve, url_of

ROOT = Path(__file__).parents[1]
OUT = ROOT / "docs/screenshots"
DEMO = ROOT / "src/runlore/cli/demo/claude/root"
PAGES = {
    "home": "/",
    "sessions": "/sessions",
    "search": "/sessions?q=redis",
    "session": "/s/{session}",
    "errors": "/errors",
    "error": "/errors/{error}",
    "usage": "/usage?since=90d",
    "live": "/live",
    "run": "/live/{run}",
    "agents": "/agents",
}
LARGEST = 150_000

REPOS = ("shop-api", "shop-web", "weather-cli", "ledger", "notes-app", "infra")
MODELS = ("claude-opus-4-6", "claude-sonnet-4-6", "claude-sonnet-4-6", "claude-haiku-4-5-20251001")
TITLES = {
    "cd61": (
        "Fix the flaky checkout test",
        "Checkout fails one time in ten",
        "Make the clock injectable",
        "Carts expire a second early",
    ),
    "d95b": (
        "Rate limiting for the public endpoints",
        "Token bucket for each API key",
        "429 with Retry-After",
        "Throttle the search endpoint",
    ),
    "2163": (
        "Offline forecasts",
        "Show the last known forecast",
        "Keep forecasts for each city",
        "Say how old a forecast is",
    ),
    "b8a1": ("Why 東京 is not aligned", "Columns with wide characters"),
}
"""By how the file of the demo begins."""


def main() -> None:
    parser = argparse.ArgumentParser(description="Make the pictures of the page.")
    parser.add_argument("--only", help="pages, with commas between")
    only = parser.parse_args().only
    names = only.split(",") if only else list(PAGES)
    OUT.mkdir(exist_ok=True)
    fonts = dict(os.environ)  # Those of whoever makes the pictures.
    with TemporaryDirectory() as folder, closing(invented(Path(folder))) as listening:
        threading.Thread(target=serve, args=(listening, door_for("127.0.0.1")), daemon=True).start()
        with sync_playwright() as playwright:
            program = shutil.which("chromium") or shutil.which("google-chrome")
            browser = playwright.chromium.launch(
                executable_path=program, args=["--no-sandbox"], env=fonts
            )
            for name in names:
                for scheme in ("light", "dark"):
                    shoot(browser, url_of(listening), name, scheme)
    os._exit(0)  # The server runs in a thread that has no end.


def invented(home: Path) -> socket.socket:
    """A store in a folder, and what serves it."""
    os.environ.update(HOME=str(home), RUNLORE_HOME=str(home / "runlore"))
    config = settings.load()
    settings.make_home(config.home)
    (config.home / settings.FILE).write_text("[budget]\nday = 20\n")
    projects = home / ".claude/projects"
    write_sessions(projects, random.Random(4))
    with closing(open_store(config.store)) as store:
        pipeline.sync(store, settings.load())
    run = write_run(config.home / "live")
    with closing(open_store(config.store, read_only=True)) as store:
        ((uid,),) = store.maintenance.rows(
            "select uid from sessions where title like 'Fix the flaky%' order by ended_at desc"
            " limit 1"
        )
        ((error,),) = store.maintenance.rows(
            "select fingerprint from errors group by fingerprint order by count(how) desc limit 1"
        )
    PAGES.update(
        {name: path.format(session=uid, error=error, run=run) for name, path in PAGES.items()}
    )
    return bind("127.0.0.1", 0)


def write_sessions(projects: Path, chance: random.Random) -> None:
    now = datetime.now(UTC)
    models = sorted(file for file in DEMO.glob("*/*.jsonl"))
    for n in range(260):
        ago = (
            timedelta(days=abs(chance.gauss(0, 110)), hours=chance.uniform(0, 9))
            if n > 2
            else timedelta(minutes=4 + 25 * n)
        )
        if (now - ago).weekday() >= 5 and chance.random() < 0.7:
            continue
        told(chance.choice(models), projects, n, now - ago, chance)


def told(model: Path, projects: Path, n: int, end: datetime, chance: random.Random) -> None:
    """A session of the demo once more, as if it were another."""
    repo = chance.choice(REPOS)
    records = [json.loads(line) for line in model.read_text(encoding="utf-8").splitlines()]
    times = [
        datetime.fromisoformat(record["timestamp"]) for record in records if "timestamp" in record
    ]
    shift, factor = end - max(times), chance.lognormvariate(2.6, 0.9)
    values = {
        "model": chance.choice(MODELS),
        "repo": repo,
        "title": chance.choice(TITLES[model.name[:4]]),
        "id": f"{chance.getrandbits(128):032x}",
    }
    text = "\n".join(json.dumps(changed(record, n, shift, factor, values)) for record in records)
    file = projects / f"-home-ada-{repo}" / f"{values['id']}.jsonl"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(
        text.replace("shop-api", repo).replace("weather-cli", repo) + "\n", encoding="utf-8"
    )


def changed(
    record: dict[str, Any], n: int, shift: timedelta, factor: float, values: dict[str, str]
) -> dict[str, Any]:
    for name in ("uuid", "parentUuid", "leafUuid"):
        if record.get(name):
            record[name] = f"{n:04x}{record[name][4:]}"
    if "timestamp" in record:
        record["timestamp"] = (
            (datetime.fromisoformat(record["timestamp"]) + shift).isoformat().replace("+00:00", "Z")
        )
    if "sessionId" in record:
        record["sessionId"] = values["id"]
    for name in ("aiTitle", "customTitle", "summary"):
        if name in record:
            record[name] = values["title"]
    message = record.get("message")
    if isinstance(message, dict) and "usage" in message:
        message["id"], message["model"] = f"{message['id']}{n}", values["model"]
        message["usage"] = {
            key: int(count * factor) if isinstance(count, int) else count
            for key, count in message["usage"].items()
        }
        if "requestId" in record:
            record["requestId"] = f"{record['requestId']}{n}"
    return record


def write_run(folder: Path) -> str:
    """Live sessions: one that runs, one that waits, one that is done."""
    store = SessionStore(folder)
    found = ""
    for title, end in (
        ("Nightly report", "run"),
        ("Translate the handbook", "pause"),
        ("Sort incoming invoices", "complete"),
    ):
        with store.create(title, agent="reporter", model="claude-sonnet-4-6") as session:
            session.state.start("nightly")
            for step, node in enumerate(
                ("fetch", "clean", "summarize", "review", "summarize", "send")
            ):
                session.state.progress(
                    node,
                    tokens=3100 + 700 * step,
                    latency_ms=900,
                    buffer={"rows": 120 * (step + 1), "last": node},
                )
                session.state.checkpoint(node, description=f"after {node}")
            for model, code in (("small", 1), ("small", 0), ("large", 0)):
                with session.skill("summarize") as run, run.attempt(model=model) as attempt:
                    attempt.verified(by="exit_code", command="check summary", exit_code=code)
            if end == "pause":
                session.state.pause("review", reason="a person must approve the draft")
            elif end == "complete":
                session.state.complete({"invoices": 42})
            found = found or session.id
    store.close()
    return found


def shoot(browser: Browser, url: str, name: str, scheme: Any) -> None:
    context = browser.new_context(color_scheme=scheme, viewport={"width": 1080, "height": 640})
    page = context.new_page()
    page.goto(url + PAGES[name])
    page.wait_for_load_state("load")
    time.sleep(0.3)
    file = OUT / f"{name}-{scheme}.png"
    page.screenshot(path=file)
    context.close()
    size = file.stat().st_size
    print(f"{file.name}: {size / 1000:.0f} KB", "TOO LARGE" if size > LARGEST else "", flush=True)


if __name__ == "__main__":
    main()
