"""A real Chromium for tests: pages that are watched for everything that must not happen in them."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Literal

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright

expect.set_options(timeout=30_000)  # A busy machine is not a bug.

PROGRAMS = ("chromium", "chromium-browser", "google-chrome")
CHROMIUM = next(filter(None, map(shutil.which, PROGRAMS)), None)

needs_chromium = pytest.mark.skipif(
    CHROMIUM is None, reason="there is no Chromium here; scripts/test installs it as root"
)

SHIFT = """
window.shifted = 0;
new PerformanceObserver((list) => {
  for (const entry of list.getEntries()) if (!entry.hadRecentInput) window.shifted += entry.value;
}).observe({ type: "layout-shift", buffered: true });
"""


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """One for all tests of a module: it takes a second to start."""
    with sync_playwright() as playwright:
        # Tests may run as root, which it refuses.
        made = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield made
        made.close()


class Watched:
    """A page, and what went wrong in it."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.wrong: list[str] = []
        self.asked: list[str] = []
        page.on("console", self._console)
        page.on("pageerror", lambda error: self.wrong.append(f"error: {error}"))
        page.on("dialog", self._dialog)
        page.on("request", lambda request: self.asked.append(request.url))

    def _console(self, message: Any) -> None:
        if message.type in ("error", "warning"):
            self.wrong.append(f"console: {message.text}")

    def _dialog(self, dialog: Any) -> None:
        self.wrong.append(f"dialog: {dialog.message}")
        dialog.dismiss()

    def is_too_wide(self) -> bool:
        """Whether one must scroll sideways."""
        return bool(
            self.page.evaluate(
                "document.documentElement.scrollWidth > document.documentElement.clientWidth + 1"
            )
        )


@contextmanager
def watched(
    browser: Browser,
    scheme: Literal["light", "dark"] = "light",
    width: int = 1280,
    height: int = 860,
    **context: Any,
) -> Iterator[Watched]:
    made = browser.new_context(
        color_scheme=scheme, viewport={"width": width, "height": height}, **context
    )
    made.add_init_script(SHIFT)
    made.set_default_timeout(60_000)
    try:
        yield Watched(made.new_page())
    finally:
        made.close()
