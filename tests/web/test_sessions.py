"""The list of sessions: what a URL asks for, and what is shown."""

from __future__ import annotations

import json
import re
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from urllib.parse import quote

import pytest
from starlette.requests import Request

from runlore import query, usage
from runlore.config import Config
from runlore.errors import ModelError
from runlore.export.pages import marked, session_url, usd
from runlore.store import CallFilter, Filter, open_store
from runlore.store.values import Marks
from runlore.web import static_files
from runlore.web.answer_cache import AnswerCache
from runlore.web.rendering import with_query
from runlore.web.sessions import facets_of, parse_params, unfinished
from tests.ledgers import call as ledger_call
from tests.ledgers import keep, open_ledger
from tests.web.conftest import SHOP, Client, serving

FLAKY, RATE = "Fix the flaky checkout test", "Rate limiting for the public endpoints"
NOW = datetime(2026, 3, 14, 15, 9, 26, tzinfo=UTC)


def titles(page: str) -> list[str]:
    return re.findall(r'<span class="title">(.*?)</span>', page)


def test_the_list_shows_every_session_newest_first(client: Client) -> None:
    assert titles(client.get("/sessions"))[1:] == ["Offline forecasts", RATE, FLAKY]


def test_the_url_chooses_and_orders(client: Client) -> None:
    assert titles(client.get("/sessions?repo=shop-api&sort=cost")) == [RATE, FLAKY]
    assert titles(client.get("/sessions?branch=fix*")) == [FLAKY]
    assert titles(client.get("/sessions?min_usd=0.1")) == [RATE]
    outcomes = [
        titles(client.get(f"/sessions?outcome={word}"))
        for word in ("success", "fail", "abandoned", "unknown")
    ]
    assert sorted(title for found in outcomes for title in found) == sorted(
        titles(client.get("/sessions"))
    )
    assert len(outcomes[0]) < 4
    assert len(titles(client.get("/sessions?errors=1"))) == 3
    assert len(titles(client.get("/sessions?subagents=1"))) == 5
    assert titles(client.get("/sessions?until=2026-08-05")) == [FLAKY]
    assert titles(client.get("/sessions?on=2026-08-03")) == [FLAKY]
    assert titles(client.get("/sessions?on=2026-08")) == titles(
        client.get("/sessions?since=2026-08")
    )
    assert titles(client.get("/sessions?agent=Claude+Code")) == titles(
        client.get("/sessions?agent=claude")
    )


def test_repositories_of_the_same_name_are_told_apart_by_their_owners(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    facets = query.facets
    repos = [("ada/shop", 2), ("bob/shop", 1), ("ada/weather", 1)]
    monkeypatch.setattr(query, "facets", lambda *given: {**facets(*given), "repo": repos})
    shown = re.findall(
        r'<span title="[^"]+">(.*?)</span><b>', client.get("/sessions").partition("Repository")[2]
    )
    assert shown[:3] == ["ada/shop", "bob/shop", "weather"]


@pytest.mark.parametrize(
    "asked",
    ["", "repo=shop-api", "errors=1", "model=claude", "q=checkout+OR+ratelimit", "subagents=1",
     "q=checkout+OR+ratelimit&agent=claude", "outcome=success&branch=fix",
     "agent=claude&until=2026-08-05"],
)  # fmt: skip
def test_a_facet_counts_what_choosing_it_would_show(client: Client, asked: str) -> None:
    found = json.loads(client.get(f"/api/v1/facets?{asked}"))
    assert any(found.values())
    for name, values in found.items():
        others = "&".join(part for part in asked.split("&") if not part.startswith(f"{name}="))
        for value, number in values:
            answer = client.get(f"/api/v1/sessions?{others}&{name}={quote(value)}")
            assert json.loads(answer)["total"] == number, (name, value)


def test_facets_of_a_page_change_with_its_filters(client: Client) -> None:
    def counts(path: str) -> dict[str, str]:
        return dict(re.findall(r'<span title="([^"]+)">.*?</span><b>(\d+)</b>', client.get(path)))

    assert counts("/sessions?errors=1") != counts("/sessions")
    assert counts("/sessions?q=checkout") != counts("/sessions")


def test_a_name_with_signs_of_a_pattern_chooses_itself(tmp_path: Path) -> None:
    with closing(open_ledger(tmp_path)) as store:
        facts = {
            "s1": {"model": "opus[1m]", "git_branch": "fix"},
            "s2": {"model": "opus", "git_branch": "fix-2"},
        }
        keep(store, [ledger_call("k1"), ledger_call("k2", "s2")], facts)
        found = query.facets(store)
        assert dict(found["model"]) == {"opus[1m]": 1, "opus": 2}
        assert dict(found["branch"]) == {"fix": 2, "fix-2": 1}
        assert store.sessions.count(Filter(model="opus[1m]")) == 1
        assert usage.report(store, "session", CallFilter(model="m")).total.calls == 2


def test_facets_count_again_only_what_they_show(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with closing(open_ledger(tmp_path)) as store:
        facts = {f"s{n}": {"git_branch": f"fix-{n}"} for n in range(120)}
        facts["s120"] = facts["s121"] = facts["s1"]
        keep(store, [ledger_call(name, name) for name in facts], facts)
        counted: list[Filter] = []
        numbers = store.sessions.numbers

        def counting(chosen: Filter) -> set[int]:
            counted.append(chosen)
            return numbers(chosen)

        monkeypatch.setattr(store.sessions, "numbers", counting)
        found = query.facets(store, limit=5)["branch"]
        assert [value for value, _ in found][:2] == ["fix-1", "fix-10"]
        assert len(found) == 5
        assert len(counted) <= 5
        for value, number in found:
            assert store.sessions.count(Filter(branch=value)) == number


def test_facets_of_the_last_days_are_counted_once_a_minute(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    counted: list[object] = []
    monkeypatch.setattr(query, "facets", lambda *given: counted.append(given))
    request = Request(
        {"type": "http", "app": SimpleNamespace(state=SimpleNamespace(cache=AnswerCache()))}
    )
    with closing(open_ledger(tmp_path)) as store:

        def ask(since: str, seconds: int) -> int:
            wanted = parse_params({"since": since}, NOW + timedelta(seconds=seconds))
            facets_of(request, store, wanted)
            return len(counted)

        assert [ask("3d", 0), ask("3d", 1), ask("3d", 60)] == [1, 1, 2]
        assert [ask("2026-03-01T10:00:01Z", 0), ask("2026-03-01T10:00:02Z", 0)] == [3, 4]


def test_sessions_of_this_machine_have_its_name(tmp_path: Path) -> None:
    with closing(open_ledger(tmp_path)) as store:
        keep(store, [ledger_call("k1")])
        own = store.own_machine
        assert query.facets(store)["machine"] == [(own, 1)]
        assert store.sessions.count(Filter(machine=own)) == 1
        assert store.sessions.count(Filter(machine="elsewhere")) == 0
        assert [row.key for row in usage.report(store, "machine").rows] == [own]
        assert usage.report(store, "day", CallFilter(machine=own)).total.calls == 1


def test_sessions_are_chosen_by_their_author(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    facets = query.facets
    authors = [("ann", 2), ("bob", 1)]
    monkeypatch.setattr(query, "facets", lambda *given: {**facets(*given), "author": authors})
    page = client.get("/sessions").partition("<legend>Author</legend>")[2]
    assert "author=ann" in page.partition("</fieldset>")[0]
    chosen = client.get("/sessions?author=ann")
    assert 'aria-label="Author ann: take this filter away"' in chosen


@pytest.mark.parametrize("path", ["/sessions", "/sessions?q=checkout", "/usage", "/errors"])
def test_an_agent_that_there_is_not_is_named_as_such(client: Client, path: str) -> None:
    sign = "&" if "?" in path else "?"
    answer = client.ask(f"{path}{sign}agent=cloude")
    assert answer.status == 400
    assert "there is no agent &#39;cloude&#39;; did you mean claude? there are: " in answer.text


def test_search_shows_what_was_found_and_where(client: Client) -> None:
    page = client.get("/sessions?q=checkout+OR+ratelimit&repo=shop-api")
    assert len(titles(page)) == 2
    assert "<mark>" in page
    assert re.search(rf'href="/s/{SHOP}\?at=(\d+)&amp;q=checkout\+OR\+ratelimit#\1"', page)


def test_while_typing_a_word_need_not_be_at_its_end(client: Client) -> None:
    assert titles(client.get("/sessions?q=checko")) == []
    assert titles(client.get("/sessions/results?q=checko")) == [FLAKY]


def test_two_letters_are_a_word_and_not_the_beginning_of_all_words() -> None:
    assert [unfinished(text) for text in ("ch", "che", "a b", "see che", "che ", '"a che',
    "repo:che")] == [
        "ch", "che*", "a b", "see che*", "che ", '"a che*', "repo:che",
    ]  # fmt: skip


def test_no_match_helps(client: Client) -> None:
    page = client.get("/sessions?q=zzqxnever")
    assert "No session matches" in page
    assert "begin*" in page


def test_the_filter_to_drop_is_named_where_no_session_matches(client: Client) -> None:
    every = len(titles(client.get("/sessions")))
    page = client.get("/sessions?branch=nowhere")
    assert f"without branch:nowhere there are {every} sessions" in page
    assert "fewer words" not in page, "there are none"
    page = client.get("/sessions?q=checkout&branch=nowhere")
    assert "without branch:nowhere there is 1 session<" in page
    page = client.get("/sessions?agent=claude&errors=1&on=2020")
    assert "without on:2020 there " in page
    assert "without “with errors”" not in page, "there are none without it either"


@pytest.mark.parametrize(
    "query",
    [
        "sort=wrong",
        "since=soon",
        "on=soon",
        "on=today&since=3d",
        "min_usd=much",
        "min_usd=nan",
        "page=-1",
        "q=agent:nobody",
        "q=OR",
    ],
)
def test_what_cannot_be_meant_is_said_in_one_line(client: Client, query: str) -> None:
    answer = client.ask(f"/sessions?{query}")
    assert answer.status == 400
    assert "That cannot be answered" in answer.text


def test_a_store_that_is_not_there_yet_says_what_to_do(home: Path) -> None:
    with serving() as client:
        answer = client.ask("/sessions")
    assert answer.status == 404
    assert "runlore sync" in answer.text
    assert not (home / ".runlore/runlore.db").exists()


def test_what_is_asked_is_read_as_it_was_given() -> None:
    wanted = parse_params(
        {"q": " a b ", "agent": "toy", "since": "7d", "errors": "1", "page": "3", "unknown": "x"},
        NOW,
    )
    assert (wanted.text, wanted.page, wanted.sort) == ("a b", 3, "ended")
    assert (wanted.chosen.agent, wanted.chosen.errors, wanted.chosen.since) == (
        "toy",
        True,
        datetime(2026, 3, 7, 15, 9, 26, tzinfo=UTC),
    )
    assert wanted.given == {"q": "a b", "agent": "toy", "since": "7d", "errors": "1", "page": "3"}
    with pytest.raises(ModelError):
        parse_params({"sort": "; drop"}, NOW)


def test_static_files_are_known_by_name_and_kept_by_browsers(client: Client) -> None:
    answer = client.ask(f"/static/{static_files.VERSION}/app.css", accept_encoding="gzip")
    assert (answer.status, answer.headers["content-encoding"]) == (200, "gzip")
    assert "immutable" in answer.headers["cache-control"]
    for path in (
        "/static/x/..%2f_guard.py",
        "/static/x/%2e%2e",
        "/static/x//etc/passwd",
        "/static/x/app.py",
    ):
        assert client.ask(path).status == 404


def test_pieces_of_a_page_are_harmless() -> None:
    assert marked("<b>\x1b[31mred\u202e</b>", [(3, 11)]) == "&lt;b&gt;<mark>red</mark>&lt;/b&gt;"
    assert session_url("toy:a/b?#é", 7) == "/s/toy:a%2Fb%3F%23%C3%A9?at=7#7"
    assert session_url("toy:a", 7, '"a&b') == "/s/toy:a?at=7&q=%22a%26b#7"
    assert with_query({"q": "a&b", "page": "2"}, page=None, sort="cost") == "?q=a%26b&sort=cost"
    assert [usd(value) for value in (None, 0, 0.0042, 0.5, 1234.5)] == [
        "–",
        "$0.00",
        "$0.0042",
        "$0.50",
        "$1,234",
    ]


def test_what_a_person_marked_is_found_by_it_and_said(client: Client, demo: Config) -> None:
    assert "#flaky" not in client.get(f"/s/{SHOP}")
    with closing(open_store(demo.store)) as store:
        store.sessions.mark(SHOP, Marks(pinned=True, tags=("flaky",), note="ask <b>Ada</b>"))
    for given in ("pinned=1", "tag=flaky"):
        found = json.loads(client.get(f"/api/v1/sessions?{given}"))
        assert [one["session"]["uid"] for one in found["sessions"]] == [SHOP]
    page = client.get(f"/s/{SHOP}")
    assert '<span class="tag">pinned</span>' in page
    assert '<a href="/sessions?tag=flaky">#flaky</a>' in page
    assert "ask &lt;b&gt;Ada&lt;/b&gt;" in page
