"""Home, usage, live, agents and store: what each shows, and that it says so when there is
nothing."""

from __future__ import annotations

import csv
import html
import http.client
import io
import re
from contextlib import closing
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from urllib.parse import quote

import pytest
from markupsafe import Markup

from runlore import query, usage
from runlore.cli.commands.demo import fill
from runlore.cli.progress import Progress
from runlore.config import Config
from runlore.live import SessionStore
from runlore.store import open_store
from runlore.sync import pipeline
from runlore.usage import Zone
from runlore.web.answer_cache import AnswerCache
from runlore.web.charts import REST, bars, heatmap, stacked
from runlore.web.reading import Reading
from runlore.web.usage import behind, parse_params, without_gaps
from tests.ledgers import call, keep
from tests.toy import Toy, line
from tests.web.conftest import SHOP, Client, serving

NOW = datetime(2026, 8, 15, 12, tzinfo=UTC)


def test_the_figure_of_a_session_is_a_number_and_what_it_counts_stands_beside_it(
    home: Path, toy: Toy
) -> None:
    config = query_config()
    with closing(open_store(config.store)) as store:
        calls = [call("a", "s1"), call("b", "s2", input_tokens=2_000)]
        keep(store, calls, {"s2": {"parent_uid": "toy:s1", "relation": "subagent"}})
    with serving() as client:
        page = client.get("/s/toy:s1")
    assert "<dd>2.1k <small>with 1 subagent, 100 without</small></dd>" in page


# ── while transcripts are read ────────────────────────────────────────────────────────────────────
def test_each_page_says_how_far_the_reading_is_until_all_is_read(demo: Config) -> None:
    reading = Reading(Progress())
    with serving(reading=reading) as client:
        assert "Looking for what your agents left." in client.get("/")
        reading.start(1200, 8_000)
        reading.advance(2, 2_000)
        for path in ("/", "/sessions", "/usage", "/errors", "/agents", f"/s/{SHOP}"):
            page = client.get(path)
            assert "newest first: 2 of 1,200 files." in page, path
            assert '<progress max="1" value="0.25"' in page, path
        reading.start(300, 0, "digests")
        reading.advance(30, 0)
        part = client.get("/x/reading")
        assert "looking at what happened in them: 30 of 300 sessions." in part
        assert 'value="0.1"' in part
        reading.mark_done()
        assert "Everything is read." in client.get("/x/reading")
        assert 'id="reading"' not in client.get("/")


def test_an_empty_home_says_that_the_first_sessions_are_on_their_way(home: Path) -> None:
    config = query_config()
    open_store(config.store).close()
    reading = Reading(Progress())
    with serving(reading=reading) as client:
        assert "The first sessions are on their way" in client.get("/")
        reading.mark_done()
        assert "Nothing is stored yet" in client.get("/")


def test_a_reading_that_is_stopped_ends_like_a_sync_that_is_interrupted() -> None:
    reading = Reading(Progress())
    reading.start(2, 0)
    reading.advance(1, 0)
    reading.stop()
    with pytest.raises(KeyboardInterrupt):
        reading.advance(1, 0)


# ── home ──────────────────────────────────────────────────────────────────────────────────────────
def test_home_shows_the_latest_sessions_what_they_cost_and_a_table_behind_each_chart(
    client: Client,
) -> None:
    page = client.get("/")
    assert "Fix the flaky checkout test" in page
    assert page.count("<summary>As a table</summary>") == 2
    assert page.count('role="img"') == 2
    assert "claude-opus-4-8" in page
    assert (
        "claude-opus-4-8"
        not in client.get("/?by=agent").partition("charthead")[2].partition("The last year")[0]
    )


@pytest.mark.parametrize("path", ["/", "/sessions", f"/s/{SHOP}", "/errors", "/usage", "/agents"])
def test_every_page_of_the_demo_says_that_its_sessions_are_invented(
    client: Client, path: str
) -> None:
    assert "These are invented sessions" in client.get(path)


def test_no_page_calls_a_session_of_the_user_invented(home: Path, toy: Toy) -> None:
    config = query_config()
    with closing(open_store(config.store)) as store:
        fill(store, config)
        keep(store, [call("a")])
    with serving() as client:
        assert "These are invented sessions" not in client.get("/")


@pytest.mark.parametrize(("model", "has_price"), [("claude-opus-4-8", True), ("nobody's", False)])
def test_home_shows_tokens_where_no_call_of_the_month_has_a_price(
    home: Path, toy: Toy, model: str, has_price: bool
) -> None:
    config = query_config()
    with closing(open_store(config.store)) as store:
        keep(store, [call("a", ts=datetime.now(UTC), model=model)])
        pipeline.sync(store, config)
    with serving() as client:
        tiles = client.get("/").partition("At a glance")[2].partition("</section>")[0]
    assert tiles.count("$") == (3 if has_price else 0)
    assert tiles.count("<small>tokens</small>") == (0 if has_price else 3)


def test_home_of_an_empty_store_says_what_to_do(home: Path, toy: Toy) -> None:
    config = query_config()
    with closing(open_store(config.store)), serving() as client:
        assert "runlore sync" in client.get("/")


def query_config() -> Config:
    from runlore import config as settings

    config = settings.load()
    settings.make_home(config.home)
    return config


def test_what_was_just_written_is_running_and_what_fell_silent_may_wait(
    home: Path, toy: Toy
) -> None:
    root = home / ".toy"
    root.mkdir()
    minutes = (datetime.now(UTC) - datetime(2026, 1, 1, tzinfo=UTC)).total_seconds()
    for name, ago in (("now", 0), ("before", 30 * 60), ("old", 5 * 3600), ("ahead", -9 * 86400)):
        (root / f"{name}.jsonl").write_bytes(
            line(s=name, id=name, text=f"the {name} one", at=minutes - ago)
        )
    with open(root / "old.jsonl", "ab") as file:
        file.write(
            line(s="astray", id="a1", text="the astray one", at=0)
            + line(s="astray", id="a2", up="a1", at=minutes + 9 * 86400)
        )
    config = query_config()
    with closing(open_store(config.store)) as store:
        pipeline.sync(store, config)
    with serving() as client:
        page = client.get("/")
    assert "Running now" in page
    assert re.findall(r'<span class="tag \w+" title="[^"]+">(\w+)</span>', page) == [
        "running",
        "quiet",
    ]
    assert "the ahead one" not in page  # A clock that was wrong: it would be the latest for days.
    assert "the astray one" not in page


def test_days_are_added_up_where_the_person_is(demo: Config) -> None:
    with closing(open_store(demo.store, read_only=True)) as store:
        since = datetime(2026, 1, 1, tzinfo=UTC)
        found = query.activity(store, since, Zone("UTC").today)
        assert {day.isoformat(): one.sessions for day, one in found.items()} == {
            "2026-08-03": 1, "2026-08-11": 1, "2026-08-14": 1, "2026-08-15": 1,
        }  # fmt: skip
        assert min(query.activity(store, since, Zone("Pacific/Kiritimati").today)) == date(
            2026, 8, 3
        )
        assert query.activity(store, datetime(2026, 9, 1, tzinfo=UTC), Zone("UTC").today) == {}


def test_daily_sums_are_those_of_the_report(demo: Config) -> None:
    with closing(open_store(demo.store, read_only=True)) as store:
        chosen, zone = usage.report(store, "day", zone=Zone("UTC")), Zone("UTC")
        found = usage.daily(
            store, "model", parse_params({"since": "all"}, NOW, zone).chosen, zone=zone
        )
        assert {day: usage.total(rows).units for day, rows in found.items()} == {
            row.key: row.units for row in chosen.rows
        }


# ── charts ────────────────────────────────────────────────────────────────────────────────────────
def test_a_stack_keeps_the_largest_names_and_adds_up_the_rest() -> None:
    chart = stacked(
        ["d1", "d2"], {"d1": {f"m{n}": float(n) for n in range(1, 10)}, "d2": {"m1": 1.0}}
    )
    assert chart.names == ["m9", "m8", "m7", "m6", "m5", "m4", REST]
    assert chart.totals == [45.0, 1.0]
    assert stacked(["d1"], {}).names == []


def test_a_chart_says_its_values_and_nothing_in_a_name_is_markup() -> None:
    made = bars(stacked(["2026-01-01"], {"2026-01-01": {'<script>"&': 2.0}}), str, 'a "label"')
    assert isinstance(made, Markup)
    assert 'data-tip="2026-01-01: 2.0"' in made
    assert "<script" not in made
    assert 'aria-label="a &#34;label&#34;"' in made


def test_a_heatmap_has_a_square_for_each_day() -> None:
    last = date(2026, 3, 31)
    made = heatmap(
        last - timedelta(days=370),
        last,
        {last: 9, last - timedelta(days=1): 1},
        lambda number: f"{number} sessions",
    )
    assert made.count("<rect") == 371
    assert 'class="h4"' in made
    assert 'data-tip="2026-03-31: 9 sessions"' in made


# ── usage ─────────────────────────────────────────────────────────────────────────────────────────
@pytest.mark.parametrize("by", usage.BY)
def test_usage_can_be_seen_by_anything(client: Client, by: str) -> None:
    page = client.get(f"/usage?by={by}&since=all")
    assert "$0.25" in page
    assert "No call in this time" not in page


def test_usage_by_session_leads_to_the_session_and_to_why(client: Client) -> None:
    page = client.get("/usage?by=session&since=all")
    assert f'href="/s/{SHOP}"' in page
    assert "session with its subagents" in page
    assert 'title="with its subagents' in client.get("/sessions")
    why = client.get(re.findall(r'href="(/usage/explain/[^"]+)"', page)[0])
    assert "from genai-prices" in why


def test_usage_is_narrowed_by_the_url_and_says_when_nothing_is_left(client: Client) -> None:
    assert "claude-opus-4-8" in client.get("/usage?by=model&since=all&project=shop-api")
    assert "No call in this time" in client.get("/usage?since=all&model=nobody")
    assert client.ask("/usage?by=wrong").status == 400
    assert client.ask("/usage?since=whenever").status == 400


def test_csv_has_every_row_of_the_page(client: Client) -> None:
    answer = client.ask("/usage.csv?by=model&since=all")
    assert answer.headers["content-type"].startswith("text/csv")
    assert {row["model"] for row in csv.DictReader(io.StringIO(answer.text))} == {
        "claude-haiku-5",
        "claude-opus-4-8",
        "claude-sonnet-5",
    }


def test_waste_and_doubts_are_told(client: Client) -> None:
    assert "on attempts that failed" in client.get("/usage?since=all")
    assert "claude-haiku-5" in client.get("/usage/doubts").partition("Without a price")[2]


def test_a_span_of_days_begins_at_midnight_and_a_chart_has_no_gaps() -> None:
    assert parse_params({"since": "7d"}, NOW, Zone("UTC")).chosen.since == datetime(
        2026, 8, 9, tzinfo=UTC
    )
    assert parse_params({"since": "99999d"}, NOW, Zone("UTC")).chosen.since is not None
    assert without_gaps("day", ["2026-08-01", "2026-08-03"]) == [
        "2026-08-01",
        "2026-08-02",
        "2026-08-03",
    ]
    assert len(without_gaps("day", ["1999-01-01", "2026-08-03"])) == 90
    assert without_gaps("month", ["2026-01", "2026-08"]) == ["2026-01", "2026-08"]


# ── live ──────────────────────────────────────────────────────────────────────────────────────────
@pytest.fixture
def run_id(demo: Config) -> str:
    """A run that went through three nodes, with two checkpoints and a skill."""
    store = SessionStore(demo.home / "live")
    with store.create("Nightly <b>report</b>", agent="reporter") as session:
        session.state.start("g1")
        session.state.progress("fetch", tokens=1200, buffer={"rows": 10})
        session.state.checkpoint("fetch")
        session.state.progress("write", buffer={"rows": 25, "file": "out.md"})
        session.state.checkpoint("write")
        session.state.progress("send", failures="send")
        with session.skill("tdd") as run, run.attempt(model="small") as attempt:
            attempt.verified(by="exit_code", command="pytest", exit_code=0)
        found = session.id
    store.close()
    return found


def test_live_runs_are_listed_with_their_state_and_skills_with_their_rates(
    client: Client, run_id: str
) -> None:
    page = client.get("/live")
    assert "Nightly &lt;b&gt;report&lt;/b&gt;" in page
    assert "at send" in page
    assert ">100%<" in page
    assert run_id in client.get("/")
    assert "No live session is completed" in client.get("/live?status=completed")


def test_a_run_shows_its_path_and_what_changed_between_checkpoints(
    client: Client, run_id: str
) -> None:
    page = client.get(f"/live/{run_id}")
    assert re.findall(
        r"<li[^>]*>(\w+)</li>", page.partition("Path")[2].partition("Checkpoints")[0]
    ) == ["fetch", "write", "send"]
    newest, oldest = re.findall(r'name="from" value="([^"]+)"', page)
    compared = client.get(f"/live/{run_id}?from={oldest}&to={newest}").partition(
        "What is different"
    )[2]
    assert "<code>10</code> → <code>25</code>" in compared
    assert "+ file" in compared


def test_a_checkpoint_that_there_is_not_is_named(client: Client, run_id: str) -> None:
    answer = client.ask(f"/live/{run_id}?from=x&to=y")
    assert answer.status == 404
    assert "has no checkpoint" in answer.text
    for only in ("from=x", "to=x"):  # There is nothing to compare it with.
        assert client.get(f"/live/{run_id}?{only}") == client.get(f"/live/{run_id}")


@pytest.mark.parametrize("id", ["no-such", "..", "%2e%2e", "..%2f..", "a%00b", ".trash"])
def test_only_the_id_of_a_live_session_reaches_the_disk(
    client: Client, run_id: str, id: str
) -> None:
    assert client.ask(f"/live/{id}").status == 404


def test_live_without_a_run_says_how_to_log_one(client: Client) -> None:
    assert "No agent has logged a session here" in client.get("/live")


# ── agents and store ──────────────────────────────────────────────────────────────────────────────
def test_agents_and_the_store_are_told_and_examined(client: Client) -> None:
    page = client.get("/agents")
    assert "sessions, with subagents" in page
    assert "Claude Code" in page
    assert "81 events" in page
    assert "The store is right" in client.get("/agents/doctor")


# ── what changed ──────────────────────────────────────────────────────────────────────────────────
def test_a_page_that_listens_is_told_when_a_session_grew(home: Path, toy: Toy) -> None:
    file = home / ".toy/one.jsonl"
    file.parent.mkdir()
    file.write_bytes(line(s="one", id="n0", text="first", at=0))
    config = query_config()
    with closing(open_store(config.store)) as store, serving() as client:
        pipeline.sync(store, config)
        with closing(
            http.client.HTTPConnection("127.0.0.1", client.port, timeout=20)
        ) as connection:
            connection.request("GET", "/events?session=toy:one", headers={"host": "localhost"})
            told = connection.getresponse()
            assert told.getheader("content-type", "").startswith("text/event-stream")
            assert told.readline() == b"retry: 3000\n"
            file.write_bytes(file.read_bytes() + line(s="one", id="n1", text="second", at=1))
            pipeline.sync(store, config)
            lines = [told.readline() for _ in range(3)]
        assert b"event: changed\n" in lines
        assert b'"events":2' in b"".join(lines)


def test_usage_of_a_day_or_a_month_is_asked_for_by_its_name(client: Client) -> None:
    month = client.get("/usage?on=2026-08&by=model")
    assert month == client.get("/usage?since=2026-08-01&until=2026-09-01&by=model")
    assert client.get("/usage.csv?on=2026-08") == client.get(
        "/usage.csv?since=2026-08&until=2026-09"
    )
    assert client.ask("/usage?on=2026-08&since=7d").status == 400


# ── errors ────────────────────────────────────────────────────────────────────────────────────────
def test_errors_are_ranked_with_what_fixed_them(client: Client) -> None:
    page = client.get("/errors?least=1")
    assert "NameError: name &#39;Callable&#39; is not defined" in page
    assert "No error was met twice" in client.get("/errors")
    first, *_ = re.findall(r'href="(/errors/[0-9a-f]+)"', page)
    fault = client.get(first)
    assert '<span class="add">' in fault
    assert re.search(rf'href="/s/{SHOP}\?at=(\d+)#\1"', fault)
    assert client.ask("/errors/0123456789abcdef").status == 404


def test_a_pasted_error_is_answered_with_what_fixed_it(client: Client) -> None:
    known = client.get("/errors?q=Traceback:%0AModuleNotFoundError:+No+module+named+%27redis%27")
    assert "Known:" in known
    assert "uv add redis" in known
    assert "Never seen" in client.get("/errors?q=FrobnicationError:+the+zork+is+missing")
    assert client.ask("/errors?since=whenever").status == 400


def test_an_error_in_a_session_leads_to_its_fix_and_to_where_else_it_was_met(
    client: Client,
) -> None:
    page = client.get(f"/s/{SHOP}")
    assert re.search(r'fixed by a change at <a href="#\d+">', page)
    assert re.search(r'href="/errors/[0-9a-f]+">where else it was met', page)


def test_what_would_leave_is_shown_and_nothing_does(client: Client, demo: Config) -> None:
    assert "Nothing leaves" in client.get("/agents")
    (demo.home / "config.toml").write_text("[retain]\nmax_age_days = 1\n")
    assert "text stays 1 day." in client.get("/agents")
    assert "would leave" in client.get("/agents/retention")
    assert "would leave" in client.get("/agents/retention")


def test_an_answer_is_kept_until_the_store_changes(demo: Config) -> None:
    cache, made = AnswerCache(), []
    with closing(open_store(demo.store)) as store:
        for _ in range(2):
            cache.get(store, "a question", lambda: made.append(1))
        assert len(made) == 1
        store.retention.forget([SHOP], NOW)
        cache.get(store, "a question", lambda: made.append(1))
        assert len(made) == 2


def test_what_came_between_a_page_and_its_listening_is_told_at_once(client: Client) -> None:
    with closing(http.client.HTTPConnection("127.0.0.1", client.port, timeout=20)) as connection:
        connection.request("GET", f"/events?session={SHOP}&events=3", headers={"host": "localhost"})
        told = connection.getresponse()
        assert [told.readline() for _ in range(3)] == [b"retry: 3000\n", b"\n", b"event: changed\n"]


@pytest.mark.parametrize("number", ["9" * 5000, "-1", "1e9", "nan", "", "\u0661", "0x1"])
def test_no_number_in_a_url_is_a_failure_of_ours(client: Client, number: str) -> None:
    given = quote(number)
    paths = [
        *(f"/sessions?{name}={given}" for name in ("page", "min_usd", "since")),
        *(f"/{path}={given}" for path in ("errors?least", "errors?since", "usage?since")),
        *(f"/s/{SHOP}?{name}={given}" for name in ("at", "part", "branch")),
        *(f"/x/{what}/{SHOP}?seq={given}" for what in ("text", "seen", "raw", "image", "markdown")),
        f"/x/seen/{SHOP}?seq=3&until={given}",
        f"/export/{SHOP}?first={given}",
        f"/api/v1/events/{SHOP}?first={given}",
    ]
    assert [
        (path[:60], status)
        for path in paths
        if (status := client.ask(path).status) not in (200, 400, 404)
    ] == []
    with closing(http.client.HTTPConnection("127.0.0.1", client.port, timeout=20)) as connection:
        connection.request("GET", f"/events?events={given}", headers={"host": "localhost"})
        told = connection.getresponse()
        assert told.readline() == b"retry: 3000\n"
        assert told.readline() == b"\n"
        if number:
            assert told.readline() == b"event: changed\n"


def test_what_a_wrong_clock_wrote_leaves_no_chart_empty(home: Path, toy: Toy) -> None:
    now = datetime.now(UTC)
    config = query_config()
    with closing(open_store(config.store)) as store:
        keep(
            store,
            [call(f"{days}", f"{days}", ts=now + timedelta(days=days)) for days in (-90, -80, 700)],
        )
    day = Zone().today(now - timedelta(days=80))
    with serving() as client:
        assert f"30 days up to {day}" in client.get("/?show=tokens")
        assert "no call of these days has a price" in client.get("/")
        assert f'data-tip="{day}: ' in client.get("/usage?since=all")


def test_usage_takes_project_for_repo(client: Client) -> None:
    found = client.get("/usage?by=repo&since=all&repo=shop-api")
    assert "shop-api" in found
    assert client.get("/usage?by=project&since=all&project=shop-api") == found


def test_a_call_in_the_future_is_in_none_of_the_last_days(home: Path, toy: Toy) -> None:
    now, config = datetime.now(UTC), query_config()
    with closing(open_store(config.store)) as store:
        later = call("later", "s2", ts=now + timedelta(days=700), input_tokens=44_000_000)
        keep(store, [call("now", ts=now - timedelta(days=2), input_tokens=49_000), later])
    with serving() as client:
        for path in ("/", "/usage?since=30d", "/usage?since=30d&by=session", "/usage"):
            page = client.get(path)
            assert "49k" in page, path
            assert "44M" not in page, path
        assert "44M" in client.get("/usage?since=all")


@pytest.mark.parametrize(
    "by", ["day", "week", "month", "model", "agent", "repo", "branch", "block"]
)
def test_every_figure_leads_to_the_sessions_behind_it(client: Client, by: str) -> None:
    page = client.get(f"/usage?by={by}&since=all")
    rows = re.findall(
        r'<td class="num"[^>]*>(\$[\d.,]+\*?)[^$]*?<a href="(\?[^"]*by=session[^"]*)">why</a>',
        page,
        re.DOTALL,
    )
    assert len(rows) > 0
    for usd, url in rows:
        assert f"<b>{usd}</b><span>cost</span>" in client.get(f"/usage{html.unescape(url)}")


def test_what_is_behind_a_row_ends_where_the_next_begins() -> None:
    assert behind("month", "2026-12") == {"since": "2026-12-01", "until": "2027-01-01"}
    assert behind("month", "2026-02") == {"since": "2026-02-01", "until": "2026-03-01"}
    assert behind("week", "2026-12-28") == {"since": "2026-12-28", "until": "2027-01-04"}
    assert behind("block", "2026-11-15T21:00:00Z") == {
        "since": "2026-11-15T21:00:00Z",
        "until": "2026-11-16T02:00:00.000000Z",
    }
    assert behind("day", "9999-12-31") == {"since": "9999-12-31"}
    assert behind("session", "toy:a") is behind("model", None) is None
