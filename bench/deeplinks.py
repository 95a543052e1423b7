"""Links of search results, opened in a browser: does a hit open where it is?

    python bench/deeplinks.py (--corpus DIR | --home DIR) [--hits 200] [--queries 20] [--seed 1]
        [--write]

`--corpus` is a folder of real transcripts (see sync.py) that is synced into a store below
`--scratch`; `--home` is a RUNLORE_HOME with a store in it. Queries are one or two words of texts
that are drawn from the store, each with a page of results; hits are drawn from all of these pages.
Each link is opened in headless Chromium as a reader would open it. Counted are those in which the
block with the named event is on the page; is in the viewport as well; is unfolded as well; and has,
as well, a highlighted word of the query that can be seen, neither clipped nor covered.
"""

from __future__ import annotations

import argparse
import os
import random
import re
import shutil
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote_plus, unquote, urlsplit

from _agents import lay_out
from _measure import BENCH, Row, note, remove, run, show
from sync import stage

sys.path.insert(0, str(BENCH.parent / "src"))

import uvicorn
from playwright.sync_api import Browser, sync_playwright

from runlore.export.outline import outline
from runlore.query.open_stores import Stores
from runlore.store import Filter, Store, open_store
from runlore.web.app import make_app
from runlore.web.serving import bind

STEPS = ("on the page", "in view", "unfolded", "a word highlighted in view")
WORD = re.compile(r"[A-Za-z]{5,14}")
MAX_TRIES = 50
"""Texts that are drawn for one query until one has a word."""
SETTLE_MS = 400
"""Time for which a page may still move after its last request."""

LOOK = """
([block, words]) => {
  const root = document.getElementById(String(block));
  if (!root) return 0;
  const box = root.getBoundingClientRect();
  if (!box.height || box.bottom <= 0 || box.top >= innerHeight) return 1;
  const folds = [...root.querySelectorAll("details.call, details.note, details.thought")];
  const own = folds.filter((one) => one.closest(".block") === root);
  const isEdit = root.querySelector(".edit");
  if (own.some((one) => !one.open) && !isEdit) return 2;
  for (const mark of root.querySelectorAll("mark")) {
    if (!words.includes(mark.textContent.toLowerCase())) continue;
    for (const one of mark.getClientRects()) {
      const at = document.elementFromPoint(one.left + one.width / 2, one.top + one.height / 2);
      if (at && mark.contains(at)) return 4;
    }
  }
  return 3;
}
"""
"""The number of steps that hold."""

HITS = """
() => [...document.querySelectorAll(".snippets a")].map((a) => [
  a.getAttribute("href"),
  a.querySelector(".kind").textContent,
  [...a.querySelectorAll("mark")].map((mark) => mark.textContent.toLowerCase()),
])
"""


class Hit(NamedTuple):
    link: str
    kind: str
    words: list[str]

    @property
    def uid(self) -> str:
        return unquote(urlsplit(self.link).path.removeprefix("/s/"))

    @property
    def seq(self) -> int:
        return int(urlsplit(self.link).fragment)


def main() -> None:
    parser = argparse.ArgumentParser(description="Open the links of search results.")
    parser.add_argument("--corpus", type=Path, help="folder of real transcripts")
    parser.add_argument("--home", type=Path, help="a RUNLORE_HOME with a store in it")
    parser.add_argument("--hits", type=int, default=200)
    parser.add_argument("--queries", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--width", type=int, default=1280, help="of the window, in pixels")
    parser.add_argument("--scratch", type=Path, default=Path.home() / ".cache/runlore-bench")
    parser.add_argument("--list", action="store_true", help="print the links that do not open")
    parser.add_argument("--write", action="store_true", help="put the table into RESULTS.md")
    args = parser.parse_args()
    if args.home is None and args.corpus is None:
        parser.error("give --corpus or --home")
    home = args.home or synced(args.corpus, args.scratch)
    os.environ["RUNLORE_HOME"] = str(home)
    chance = random.Random(args.seed)
    with closing(open_store(str(home / "runlore.db"), read_only=True)) as store:
        asked = list(queries(store, args.queries, chance))
        with serving() as url, chromium() as browser:
            hits = [hit for text in asked for hit in results(browser, url, text)]
            chosen = chance.sample(hits, min(args.hits, len(hits)))
            reached = [opened(browser, url, store, hit, args.width) for hit in chosen]
    if args.list:
        for hit, steps in zip(chosen, reached, strict=True):
            if steps < len(STEPS):
                note(f"{hit.link} {hit.kind}: not {STEPS[steps]}")
    report(len(asked), chosen, reached, args)


def report(queries: int, hits: list[Hit], reached: list[int], args: argparse.Namespace) -> None:
    rows = []
    for n, step in enumerate(STEPS, 1):
        number = sum(steps >= n for steps in reached)
        bar = f"{len(hits)}" if n == len(STEPS) else ""
        rows.append(Row(f"{n}. {step}", bar, f"{number} of {len(hits)}", "", ""))
    failing = Counter(
        hit.kind for hit, steps in zip(hits, reached, strict=True) if steps < len(STEPS)
    )
    remarks = [
        f"{len(hits)} hits of {queries} queries, seed {args.seed}, window {args.width} pixels wide."
    ]
    if failing:
        kinds = ", ".join(f"{kind} {number}" for kind, number in failing.most_common())
        remarks.append(f"Not reached, by kind of event or tool: {kinds}.")
    show("Links of search results", rows, remarks, args.write)


# ── the store and the server ──────────────────────────────────────────────────────────────────────
def synced(corpus: Path, scratch: Path) -> Path:
    """Return a RUNLORE_HOME with everything that the corpus has."""
    user, home = scratch / "deeplinks-user", scratch / "deeplinks-home"
    for folder in (user, home):
        remove(folder)
    stage(corpus, user)
    lay_out(corpus, user)
    note("syncing …")
    env = {
        **os.environ,
        "HOME": str(user),
        "RUNLORE_HOME": str(home),
        "PYTHONPATH": str(BENCH.parent / "src"),
    }
    run([sys.executable, "-m", "runlore", "sync"], env)
    return home


@contextmanager
def serving() -> Iterator[str]:
    """Serve the store of RUNLORE_HOME."""
    listening = bind("127.0.0.1", 0)
    config = uvicorn.Config(make_app(None, Stores()), lifespan="off", log_level="critical")
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
    thread.start()
    try:
        yield f"http://localhost:{listening.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join()


@contextmanager
def chromium() -> Iterator[Browser]:
    programs = ("chromium", "chromium-browser", "google-chrome")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=next(filter(None, map(shutil.which, programs)), None),
            args=["--no-sandbox"],
        )
        yield browser
        browser.close()


# ── queries and hits ──────────────────────────────────────────────────────────────────────────────
def queries(store: Store, number: int, chance: random.Random) -> Iterator[str]:
    """Yield queries of one and of two words, by turns, that some text has."""
    lines = store.sessions.select(Filter(parents_only=False), sort="started")
    for n in range(number):
        for _ in range(MAX_TRIES):
            words = drawn_words(store, chance.choice(lines).uid, chance)
            if len(words) >= 2:
                yield " ".join(chance.sample(words, 1 + n % 2))
                break


def drawn_words(store: Store, uid: str, chance: random.Random) -> list[str]:
    bodies = store.sessions.bodies(uid)
    texts = [text for _, text in sorted(bodies.items()) if text]
    return sorted(set(WORD.findall(chance.choice(texts)))) if texts else []


def results(browser: Browser, url: str, text: str) -> list[Hit]:
    with closing(browser.new_context()) as context:
        page = context.new_page()
        page.goto(f"{url}/sessions?q={quote_plus(text)}")
        given = text.lower().split()
        return [Hit(link, kind, [*given, *marked]) for link, kind, marked in page.evaluate(HITS)]


def opened(browser: Browser, url: str, store: Store, hit: Hit, width: int) -> int:
    """Return the number of steps that hold for a link."""
    block: Any = next(
        (
            one.event.seq
            for one in sorted(
                outline(store, hit.uid, None).blocks, key=lambda one: one.event.seq != hit.seq
            )
            if hit.seq in one.seqs
        ),
        None,
    )
    viewport = {"width": width, "height": 860}
    with closing(browser.new_context(viewport=viewport)) as context:  # type: ignore[arg-type]
        page = context.new_page()
        page.goto(url + hit.link)
        page.wait_for_load_state("networkidle")
        page.wait_for_timeout(SETTLE_MS)
        return int(page.evaluate(LOOK, [block, hit.words]))


if __name__ == "__main__":
    main()
