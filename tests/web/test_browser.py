"""The page in a real browser: every page, the keyboard, reading, and what axe finds."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, expect

from runlore import config as settings
from runlore.cli.progress import Progress
from runlore.config import Config
from runlore.live import SessionStore
from runlore.store import open_store
from runlore.sync import pipeline
from runlore.usage import Zone
from runlore.web.guard import Door
from runlore.web.reading import Reading
from tests.ledgers import call, keep, price
from tests.toy import Toy, line
from tests.web.browsing import browser, needs_chromium, watched
from tests.web.conftest import SHOP, Client, serving

__all__ = ["browser"]  # a fixture

pytestmark = needs_chromium

OFFLINE = "claude:21636369-8b52-4b4a-97b7-50923ceb3ffd"
PAGES = [
    "/", "/?by=agent&show=tokens", "/sessions", "/sessions?q=test", "/sessions?q=zzqxnever",
    "/errors", "/errors?least=1",
    "/errors?q=ModuleNotFoundError", "/errors/{error}", f"/s/{SHOP}", f"/s/{OFFLINE}?branch=1",
    "/usage?since=all",
    "/usage?by=session&since=all", "/usage?by=model&since=all", "/usage/doubts",
    f"/usage/explain/{SHOP}", "/live", "/live/{run}",
    "/agents",
]  # fmt: skip


@pytest.fixture
def run_id(demo: Config) -> str:
    store = SessionStore(demo.home / "live")
    with store.create("Nightly report", agent="reporter") as session:
        session.state.start("g1")
        for node in ("fetch", "write"):
            session.state.progress(node, tokens=1200, buffer={"rows": 10, node: True})
            session.state.checkpoint(node)
        with session.skill("tdd") as run, run.attempt(model="small") as attempt:
            attempt.verified(by="exit_code", command="pytest", exit_code=0)
    store.close()
    return session.id


@pytest.fixture
def error_id(client: Client) -> str:
    return str(json.loads(client.get("/api/v1/errors?least=1"))["found"][0]["fingerprint"])


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_page_is_sound_accessible_and_still(
    browser: Browser, run_id: str, error_id: str, client: Client, scheme
) -> None:
    """No console error, no serious finding of axe, no scrolling sideways, no shift, and nothing
    asked of anyone but us."""
    with watched(browser, scheme) as here:
        for path in PAGES:
            here.page.goto(client.url + path.format(run=run_id, error=error_id))
            here.page.wait_for_load_state("load")
            assert not barriers(here.page), path
            assert not here.is_too_wide(), path
            assert here.page.evaluate("window.shifted") < 0.02, path
        assert not here.wrong
        assert all(url.startswith(client.url) for url in here.asked)


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1280])
def test_the_note_about_reading_follows_it_and_offers_the_page_at_its_end(
    browser: Browser, demo: Config, scheme, width: int
) -> None:
    reading = Reading(Progress())
    with serving(reading=reading) as client, watched(browser, scheme, width) as here:
        reading.start(1200, 8_000)
        here.page.goto(f"{client.url}/sessions?agent=claude")
        assert not barriers(here.page)
        assert not here.is_too_wide()
        reading.advance(800, 4_000)
        expect(here.page.locator("#reading")).to_contain_text("800 of 1,200 files")
        reading.mark_done()
        here.page.get_by_role("link", name="Show it").click()
        expect(here.page.locator("#reading")).to_have_count(0)
        assert here.page.url == f"{client.url}/sessions?agent=claude"
        assert not here.wrong


def barriers(page: Page) -> list[tuple[str, list[str]]]:
    """What axe finds that is serious, each with where."""
    found = [
        one
        for one in Axe().run(page).response["violations"]
        if one["impact"] in ("serious", "critical")
    ]
    return [(one["id"], [node["html"][:200] for node in one["nodes"][:3]]) for one in found]


def test_every_page_can_be_read_on_a_phone(
    browser: Browser, run_id: str, error_id: str, client: Client
) -> None:
    with watched(browser, width=390, height=844, has_touch=True) as here:
        for path in PAGES:
            here.page.goto(client.url + path.format(run=run_id, error=error_id))
            assert not here.is_too_wide(), path
            small = here.page.evaluate(
                "[...document.querySelectorAll('main *')].filter((one) => one.checkVisibility() &&"
                " one.childNodes.length && [...one.childNodes].some((node) => node.nodeType === 3"
                " && node.data.trim()) && !one.closest('svg') &&"
                " parseFloat(getComputedStyle(one).fontSize) < 10).length"
            )
            assert small == 0, path
            assert not barriers(here.page), path
        assert not here.wrong


def test_what_is_not_there_and_who_has_no_token_gets_a_page_that_helps(
    browser: Browser, demo: Config
) -> None:
    with serving(Door(token="a-token-that-is-long-enough")) as client, watched(browser) as here:
        here.page.goto(f"{client.url}/sessions")
        assert here.page.url.endswith("/login")
        assert not barriers(here.page)
        here.page.get_by_label("Token").fill("a-token-that-is-long-enough")
        here.page.get_by_role("button", name="Open").click()
        here.page.wait_for_url(f"{client.url}/")
        here.page.goto(f"{client.url}/sessions")
        expect(here.page.locator(".session")).to_have_count(4)
        here.page.goto(f"{client.url}/s/nobody")
        expect(here.page.locator("h1")).to_have_text("Not found")
        here.page.get_by_role("button", name="Log out").click()
        here.page.wait_for_url("**/login")
        here.page.goto(f"{client.url}/sessions")
        assert here.page.url.endswith("/login")


def test_the_keyboard_is_enough(browser: Browser, client: Client) -> None:
    with watched(browser) as here:
        page, press = here.page, here.page.keyboard.press
        page.goto(f"{client.url}/")
        press("?")
        expect(page.locator("#help")).to_be_visible()
        press("Escape")
        expect(page.locator("#help")).not_to_be_visible()
        press("g")
        press("s")
        page.wait_for_url("**/sessions")
        press("j")
        press("j")
        press("j")
        press("k")
        expect(page.locator("[data-item].at .title")).to_have_text("Offline forecasts")
        press("Enter")
        page.wait_for_url("**/s/**")
        press("j")
        press("j")
        expect(page.locator(".block.at")).to_have_attribute("id", "1")
        assert page.url.endswith("#1")
        press("Enter")
        expect(page.locator(".block.at details.call")).to_have_attribute("open", "")
        press("f")
        page.keyboard.type("cache")
        expect(page.locator("[data-place]").first).to_be_visible()
        press("Enter")
        expect(page).to_have_url(re.compile(r"#\d+$"))
        press("Escape")
        press("g")
        press("h")
        page.wait_for_url(f"{client.url}/")
        for key in ("/", "Control+k"):
            press("Escape")
            press(key)
            expect(page.get_by_label("Search all sessions")).to_be_focused()
        page.keyboard.type("redis")
        press("Enter")
        page.wait_for_url("**/sessions?q=redis")
        assert not here.wrong


def test_the_list_is_searched_while_typing_and_the_url_follows(
    browser: Browser, client: Client
) -> None:
    with watched(browser) as here:
        here.page.goto(f"{client.url}/sessions")
        here.page.keyboard.press("/")
        here.page.keyboard.type("checko", delay=20)
        expect(here.page.locator(".session")).to_have_count(1)
        expect(here.page.locator("mark").first).to_be_visible()
        expect(here.page).to_have_url(f"{client.url}/sessions?q=checko")
        here.page.get_by_label("Search sessions").fill('"half a phr')
        here.page.get_by_label("Search sessions").fill("")
        expect(here.page.locator(".session")).to_have_count(4)
        here.page.get_by_label("with errors").check()
        expect(here.page.locator(".session")).to_have_count(3)
        expect(here.page).to_have_url(f"{client.url}/sessions?errors=1")
        here.page.locator(".facet a", has_text="shop-api").click()
        expect(here.page.locator(".session")).to_have_count(2)
        here.page.go_back()
        assert not here.wrong


def test_a_session_is_read_with_all_that_is_behind_it(browser: Browser, client: Client) -> None:
    with watched(browser, permissions=["clipboard-read", "clipboard-write"]) as here:
        page = here.page
        page.goto(f"{client.url}/s/{SHOP}#12")
        expect(page.locator('[id="12"]')).to_be_in_viewport()
        assert page.locator('[id="12"] .diff .add').count() > 0
        page.goto(f"{client.url}/s/{SHOP}#8")  # The result of 7, which is shown with it.
        expect(page.locator('[id="7"] details.call')).to_have_attribute("open", "")

        page.locator('[id="7"]').hover()
        page.get_by_label("Actions for event 7").click()
        page.get_by_role("menuitem", name="What the model saw here").click()
        expect(page.locator("#aside .inside")).to_contain_text(
            "The checkout test fails about one run in ten"
        )
        page.keyboard.press("Escape")
        page.get_by_label("Actions for event 7").click()
        page.get_by_role("menuitem", name="Raw record").click()
        expect(page.locator("#aside .inside")).to_contain_text('"sessionId"')
        page.keyboard.press("Escape")
        page.get_by_label("Actions for event 7").click()
        page.get_by_role("menuitem", name="Copy as Markdown").click()
        expect(page.locator("#said")).to_have_text("copied as Markdown")
        assert page.evaluate("navigator.clipboard.readText()").startswith("**7. Bash**")
        page.get_by_label("Actions for event 7").click()
        with page.expect_download() as download:
            page.get_by_role("menuitem", name="Export up to here").click()
        assert download.value.path().read_text().endswith("```\n\n")
        for name, ending, begins in (
            ("up to here as JSONL", ".jsonl", "{"),
            ("from here on as HTML", ".html", "<!doctype html>"),
        ):
            page.get_by_label("Actions for event 7").click()
            with page.expect_download() as download:
                page.get_by_role("menuitem", name=name).click()
            assert download.value.suggested_filename.endswith(ending)
            assert download.value.path().read_text().lower().startswith(begins)
        page.get_by_role("button", name="Copy resume command").click()
        expect(page.locator("#said")).to_contain_text("is copied")
        assert "claude --resume" in page.evaluate("navigator.clipboard.readText()")

        page.locator("details.sub > summary").click()
        expect(page.locator("details.sub .inner .block").first).to_be_visible()
        page.get_by_label("open thoughts").check()
        expect(page.locator("details.thought").first).to_have_attribute("open", "")
        page.locator(".strip a").nth(10).click()
        expect(page).to_have_url(re.compile(r"#\d+$"))
        page.get_by_text("Export", exact=True).click()
        with page.expect_download() as download:
            page.get_by_role("link", name="HTML").click()
        assert download.value.suggested_filename.endswith(".html")
        assert not here.wrong


@pytest.mark.parametrize("width", [390, 1280])
def test_an_event_that_a_link_leads_to_is_not_under_the_bar(
    browser: Browser, client: Client, width: int
) -> None:
    with watched(browser, width=width) as here:
        here.page.goto(f"{client.url}/s/{SHOP}#12")
        expect(here.page.locator('[id="12"]')).to_be_in_viewport()
        here.page.wait_for_timeout(300)  # Until nothing moves any more.
        tops = (
            "[document.getElementById('12').getBoundingClientRect().top,"
            " document.querySelector('{}').getBoundingClientRect().bottom]"
        )
        block, bar = here.page.evaluate(tops.format(".bar" if width > 640 else ".top"))
        assert block >= bar


def deep_call(n: int, tool: str = "Bash", **more: str) -> bytes:
    return line(s="deep", id=f"c{n}", call=f"k{n}", kind="tool_call", tool=tool, **more)


def deep_result(n: int, **more: str) -> bytes:
    return line(s="deep", id=f"r{n}", call=f"k{n}", kind="tool_result", **more)


def deep_session() -> bytes:
    """Parallel calls with late results, a long output, a note, and a branch that was left."""
    before = [
        line(s="deep", id="start", text="begin"),
        *(line(s="deep", id=f"m{n}", kind="assistant_msg", text=f"step {n}") for n in range(70)),
    ]
    calls = [deep_call(n, text=f"run {n}") for n in range(80)]
    results = [deep_result(n, text=f"the outcome is pebble{n}") for n in range(80)]
    after = [
        deep_call(90, text="a long listing"),
        deep_result(90, text="filler words\n" * 900 + "then the Lighthouse_keeper appears\n"),
        line(s="deep", id="note", kind="lifecycle", text="a note about the harbour"),
        line(
            s="deep", id="link", kind="assistant_msg", text="see [here](https://x.test/anchorage)"
        ),
        line(s="deep", id="old", up="start", text="first attempt at the driftwood"),
        line(s="deep", id="new", up="start", text="second attempt"),
    ]
    return b"".join(before + calls + results + after)


@pytest.mark.parametrize("width", [390, 1280])
@pytest.mark.parametrize(
    ("query", "marked"),
    [
        ("pebble3", "pebble3"),  # Parallel calls: its result comes 80 events later.
        ("pebble79", "pebble79"),
        ("lighthouse", "Lighthouse"),  # Behind what is shown of a long output.
        ("harbour", "harbour"),  # Notes are hidden.
        ("anchorage", "anchorage"),  # In an address, which is no text of the page.
        ("driftwood", "driftwood"),  # On a branch that a rewind left behind.
    ],
)
def test_a_hit_opens_where_it_is_with_its_words_marked(
    browser: Browser, fill, query: str, marked: str, width: int
) -> None:
    fill("deep", deep_session())
    with serving() as client, watched(browser, width=width) as here:
        page = here.page
        page.goto(f"{client.url}/sessions?q={query}")
        link = page.locator(".snippets a").first
        seq = (link.get_attribute("href") or "").rpartition("#")[2]
        link.click()
        word = page.locator(f'[data-of="{seq}"] mark.word').first
        expect(word).to_have_text(marked)
        expect(word).to_be_in_viewport()
        page.wait_for_timeout(300)  # Until nothing moves any more.
        expect(word).to_be_in_viewport()
        assert not here.wrong


def test_a_hit_opens_at_the_passage_of_its_snippet(browser: Browser, fill) -> None:
    """As in the index, a part of a name in mixed case counts as a word."""
    text = "a ferry\n" + "filler words\n" * 300 + "FerryTimetable: the ferry leaves\n"
    fill("deep", deep_session() + deep_call(91, text="look") + deep_result(91, text=text))
    with serving() as client, watched(browser) as here:
        page = here.page
        page.goto(f"{client.url}/sessions?q=ferry")
        link = page.locator(".snippets a").first
        expect(link).to_contain_text("FerryTimetable")
        link.click()
        expect(page.locator("mark.word")).to_have_text(["ferry", "Ferry", "ferry"])
        expect(page.locator("mark.word").nth(1)).to_be_in_viewport()
        assert not here.wrong


def test_a_link_without_words_opens_the_call_of_a_result(browser: Browser, fill) -> None:
    fill("deep", deep_session())
    with serving() as client, watched(browser) as here:
        # 71 messages, 80 calls, then the results in the same order.
        here.page.goto(f"{client.url}/s/toy:deep#{71 + 80 + 5}")
        expect(here.page.locator(f'[id="{71 + 5}"] details.call')).to_have_attribute("open", "")
        expect(here.page.locator(f'[id="{71 + 80 + 5}"]')).to_be_in_viewport()
        expect(here.page.locator(".block.at")).to_have_count(1)
        assert not here.wrong


def test_who_comes_from_a_search_goes_on_to_the_next_place(browser: Browser, fill) -> None:
    fill("deep", deep_session())
    with serving() as client, watched(browser) as here:
        page = here.page
        page.goto(f"{client.url}/s/toy:deep?at=3&q=step#3")
        expect(page.locator('[id="3"] mark.word')).to_have_text("step")
        page.locator("[data-find]").press("Enter")
        expect(page).to_have_url(re.compile("#4$"))
        expect(page.locator('[id="4"] mark.word')).to_have_text("step")
        expect(page.locator('[id="3"] mark.word')).to_have_count(0)
        assert not here.wrong


def test_branches_are_switched(browser: Browser, client: Client) -> None:
    with watched(browser) as here:
        here.page.goto(f"{client.url}/s/{OFFLINE}")
        here.page.get_by_text("read that branch").click()
        expect(here.page.get_by_label("Branch", exact=True)).to_have_value("1")
        here.page.get_by_label("Branch", exact=True).select_option("all")
        here.page.wait_for_url("**branch=all*")
        assert not here.wrong


def test_the_choice_of_light_or_dark_stays(browser: Browser, client: Client) -> None:
    with watched(browser, "light") as here:
        here.page.goto(f"{client.url}/sessions")
        before = here.page.evaluate("getComputedStyle(document.documentElement).backgroundColor")
        here.page.get_by_label("Switch between light and dark").click()
        here.page.goto(f"{client.url}/usage")
        assert (
            here.page.evaluate("getComputedStyle(document.documentElement).backgroundColor")
            != before
        )
        assert not here.wrong


# ── long and growing sessions, and many of them ───────────────────────────────────────────────────
@pytest.fixture
def fill(home: Path, toy: Toy) -> Callable[[str, bytes], Config]:
    """Writes a session, and syncs it."""

    def write(name: str, data: bytes) -> Config:
        (home / ".toy").mkdir(exist_ok=True)
        with open(home / f".toy/{name}.jsonl", "ab") as file:
            file.write(data)
        config = settings.load()
        settings.make_home(config.home)
        with closing(open_store(config.store)) as store:
            pipeline.sync(store, config)
        return config

    return write


def test_a_long_session_opens_anywhere_and_holds_little_of_itself(browser: Browser, fill) -> None:
    records = [
        line(s="long", id=f"n{n}", up=f"n{n - 1}" if n else None, text=f"message {n}", at=n)
        for n in range(6000)
    ]
    fill("long", b"".join(records))
    with serving() as client, watched(browser) as here:
        page = here.page
        page.goto(f"{client.url}/s/toy:long#4321")
        expect(page.locator('[id="4321"]')).to_be_in_viewport()
        page.wait_for_timeout(600)  # Parts above it are drawn meanwhile, and must not push it away.
        expect(page.locator('[id="4321"]')).to_be_in_viewport()
        for _ in range(60):
            page.mouse.wheel(0, 4000)
            page.wait_for_timeout(15)
        page.goto(f"{client.url}/s/toy:long#5999")
        expect(page.locator('[id="5999"]')).to_be_in_viewport()
        # Two frames later it is put there once more: on a busy machine that would undo what is done
        # before.
        page.evaluate(
            "(async () => { for (let n = 0; n < 3; n++) await new Promise(requestAnimationFrame);"
            " scrollTo(0, 0); })()"
        )
        expect(page.locator('[id="0"]')).to_be_in_viewport()
        assert page.locator(".block").count() < 6000 / 2
        assert not here.wrong


def test_a_session_that_runs_grows_before_ones_eyes(browser: Browser, fill) -> None:
    now = (datetime.now(UTC) - datetime(2026, 1, 1, tzinfo=UTC)).total_seconds()
    fill("now", line(s="now", id="n0", text="begin", at=now))
    with serving() as client, watched(browser) as here:
        here.page.goto(f"{client.url}/s/toy:now")
        expect(here.page.locator(".block")).to_have_count(1)
        fill(
            "now",
            line(s="now", id="n1", up="n0", kind="assistant_msg", text="going on", at=now + 1),
        )
        expect(here.page.locator(".block")).to_have_count(2)
        expect(here.page.locator('[data-live="events"]')).to_have_text("2")
        here.page.goto(client.url)
        fill("other", line(s="other", id="o0", text="another one begins", at=now + 2))
        expect(here.page.get_by_text("another one begins")).to_be_visible()
        assert not here.wrong


def test_a_run_is_followed_and_what_someone_chooses_is_left_alone(
    browser: Browser, demo: Config
) -> None:
    store = SessionStore(demo.home / "live")
    with (
        store.create("Nightly report", agent="reporter") as session,
        serving() as client,
        watched(browser) as here,
    ):
        session.state.start("g1")
        for node in ("fetch", "write"):
            session.state.progress(node)
            session.state.checkpoint(node)
        here.page.goto(f"{client.url}/live/{session.id}")
        expect(here.page.locator(".nodes li")).to_have_count(2)
        here.page.wait_for_timeout(1500)  # Until it listens.
        session.state.progress("send")
        expect(here.page.locator(".nodes li.here")).to_have_text("send")
        here.page.get_by_label(re.compile("^from ")).first.check()
        session.state.progress("done")
        here.page.wait_for_timeout(2500)
        expect(here.page.locator(".nodes li")).to_have_count(3)
        here.page.goto(f"{client.url}/live")
        here.page.wait_for_timeout(1500)
        store.create("Another", agent="reporter").close()
        expect(here.page.get_by_text("Another")).to_be_visible()
        assert not here.wrong
    store.close()


def test_a_home_without_a_session_is_filled_with_the_first(
    browser: Browser, home: Path, toy: Toy, fill
) -> None:
    (home / ".toy").mkdir()
    config = settings.load()
    settings.make_home(config.home)
    with closing(open_store(config.store)), serving() as client, watched(browser) as here:
        here.page.goto(client.url)
        expect(here.page.get_by_text("Nothing is stored yet")).to_be_visible()
        fill("first", line(s="first", id="n0", text="the first of all"))
        expect(here.page.locator("#now")).to_contain_text("the first of all")
        assert not here.wrong


def test_a_day_of_a_chart_leads_to_what_was_done_on_it(browser: Browser, fill) -> None:
    now = datetime.now(UTC)
    days = [Zone().today(now - timedelta(days=ago)) for ago in (3, 5)]
    for day in days:
        at = (
            Zone().midnight(day) + timedelta(hours=12) - datetime(2026, 1, 1, tzinfo=UTC)
        ).total_seconds()
        config = fill(f"{day}", line(s=f"{day}", id=f"{day}", text=f"on {day}", at=at))
    with closing(open_store(config.store)) as store:
        keep(
            store,
            [
                call(f"{day}", f"{day}", ts=Zone().midnight(day) + timedelta(hours=12))
                for day in days
            ],
        )
        price(store, lambda call: 10**12)
    url = f"since={days[0]}&until={days[0] + timedelta(days=1)}"
    with serving() as client, watched(browser) as here:
        here.page.goto(client.url)
        here.page.locator(f'.heat [data-tip^="{days[0]}"]').click()
        here.page.wait_for_url(f"**/sessions?{url}")
        expect(here.page.locator(".session .title")).to_have_text([f"on {days[0]}"])
        here.page.goto(f"{client.url}/usage?since=all")
        here.page.locator(f'.bars [data-tip^="{days[0]}"]').click()
        here.page.wait_for_url(f"**/usage?by=session&{url}")
        expect(here.page.locator("table:not(.slim) tbody tr")).to_have_count(1)
        assert not here.wrong


def test_pages_of_many_sessions_work(browser: Browser, fill, loops: Callable[[int], int]) -> None:
    """Ten thousand with `scripts/test --all`."""
    number = loops(10_000)
    fill(
        "many",
        b"".join(
            line(s=f"s{n}", id=f"n{n}", text=f"session number {n}", at=n * 60)
            for n in range(number)
        ),
    )
    with serving() as client, watched(browser) as here:
        for path in (
            "/",
            "/sessions",
            "/sessions?page=7",
            "/usage?by=session&since=all",
            "/agents",
        ):
            here.page.goto(client.url + path)
            assert not here.is_too_wide()
        here.page.goto(f"{client.url}/sessions")
        expect(here.page.locator(".session")).to_have_count(50)
        here.page.get_by_role("link", name="more →").click()
        expect(here.page.locator(".session .title").first).to_have_text(
            f"session number {number - 51}"
        )
        here.page.keyboard.press("/")
        here.page.keyboard.type(f"number {number // 2}", delay=10)
        expect(here.page.locator(".session .title").first).to_have_text(
            f"session number {number // 2}"
        )
        assert not here.wrong


def test_a_string_in_code_has_no_colour_of_a_chart_behind_it(
    browser: Browser, client: Client
) -> None:
    with watched(browser) as here:
        here.page.goto(f"{client.url}/s/{SHOP}")
        behind = here.page.evaluate(
            """() => {
              document.querySelector("main").innerHTML =
                '<p class="md"><span class="s1">a</span><span class="s2">b</span></p>';
              return [...document.querySelectorAll("main span")].map(
                (one) => getComputedStyle(one).backgroundColor);
            }"""
        )
    assert behind == ["rgba(0, 0, 0, 0)"] * 2
