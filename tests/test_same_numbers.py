"""One number for one thing: whichever face is asked, a session has the same turns, errors, tokens
and cost."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from runlore import config as settings
from runlore.cli import cli
from runlore.store import Store, open_store
from runlore.sync import pipeline
from runlore.text.words import errors_of, short, usd, with_subagents
from tests.web.conftest import Client, serving

FIXTURES = Path(__file__).parent / "adapters/fixtures"
AGENTS = ("claude", "codex", "opencode", "crush", "cline", "kimi")
"""Agents whose fixtures have subagents, forks, retries, compactions, rewinds and own prices."""


@pytest.fixture
def store(home: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Store]:
    monkeypatch.setenv("COLUMNS", "400")
    made = open_store(settings.load().store)
    for agent in AGENTS:
        for root in sorted((FIXTURES / agent).glob("*/root")):
            pipeline.sync(made, settings.load(), agents=[agent], roots=[str(root)], workers=0)
    made.db.execute(  # type: ignore[attr-defined]  # No subagent of the fixtures met an error.
        "update sessions set errors = 23 where uid = (select min(s.uid) from sessions s join"
        " sessions p on p.uid = s.parent_uid where s.relation = 'subagent')"
    )
    yield made
    made.close()


def run(*words: str) -> str:
    result = CliRunner().invoke(cli, list(words), prog_name="runlore")
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == 0, result.output
    return result.stdout


def data(*words: str) -> Any:
    return json.loads(run(*words, "--json"))


def tokens(figures: dict[str, Any]) -> int:
    names = ("input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens")
    return sum(figures[name] for name in names)


def figures(line: dict[str, Any], cost: dict[str, Any]) -> dict[str, Any]:
    """Return the figures of a session from a listing, or from the session itself."""
    names = ("errors", "tokens", "usd", "unpriced")
    with_all = ("subagents", *(f"{name}_with_subagents" for name in names))
    return {
        "turns": cost["turns"],
        "errors": line["errors"],
        "tokens": tokens(cost),
        "usd": cost["usd"],
        "unpriced": line["unpriced"],
        **{name: line[name] for name in with_all},
    }


@pytest.fixture
def listed(store: Store) -> dict[str, dict[str, Any]]:
    lines = data("ls", "--all", "--all-subagents")
    return {line["uid"]: figures(line, line) for line in lines}


def test_the_fixtures_have_what_makes_numbers_differ(
    store: Store, listed: dict[str, dict[str, Any]]
) -> None:
    assert sum(one["subagents"] > 0 for one in listed.values()) >= 5
    for name in ("errors", "tokens", "usd"):
        assert any(one[name] != one[f"{name}_with_subagents"] for one in listed.values()), name
    assert any(one["usd"] and one["unpriced"] for one in listed.values())
    rows = store.maintenance.rows
    assert rows("select 1 from sessions where relation = 'fork'")
    assert rows("select 1 from sessions where retries > 0")
    assert rows("select 1 from events where kind = 'lifecycle' and native_id like '%compact%'") or (
        rows("select 1 from events where summary like 'compacted%'")
    )
    assert rows("select 1 from tariffs where basis = 'recorded'")


def test_show_and_ls_name_everything_alike(store: Store) -> None:
    for wanted in data("ls", "--all", "--all-subagents"):
        session = data("show", wanted["uid"])["session"]
        assert {name: session.get(name) for name in wanted} == wanted


def test_usage_has_the_numbers_of_ls(listed: dict[str, dict[str, Any]]) -> None:
    rows = {row["key"]: row for row in data("usage", "--by", "session")["rows"]}
    with_calls = {uid for uid, one in listed.items() if one["tokens_with_subagents"]}
    assert len(rows) > 20
    assert {uid for uid in rows if rows[uid]["total_tokens"]} <= with_calls
    for uid, row in rows.items():
        wanted = listed[uid]
        assert row["total_tokens"] == wanted["tokens_with_subagents"], uid
        assert row["total_tokens_without_subagents"] == wanted["tokens"], uid
        assert row["usd"] == pytest.approx(wanted["usd_with_subagents"] or 0), uid
        assert row["usd_without_subagents"] == pytest.approx(wanted["usd"] or 0), uid
        assert row["subagents"] == wanted["subagents"], uid
        assert row["unpriced"] == wanted["unpriced_with_subagents"], uid
    for uid, wanted in listed.items():
        made = data("usage", "--explain", uid)
        assert made["total"]["total_tokens"] == wanted["tokens"], uid
        assert made["total"]["usd"] == pytest.approx(wanted["usd"] or 0), uid
        both = made["total_with_subagents"]
        assert both["total_tokens"] == wanted["tokens_with_subagents"], uid
        assert both["usd"] == pytest.approx(wanted["usd_with_subagents"] or 0), uid


def test_the_sessions_of_ls_add_up_to_usage(store: Store) -> None:
    store.db.execute(  # type: ignore[attr-defined]
        "update sessions set parent_uid = 'claude:nobody' where uid = (select min(uid) from"
        " sessions where relation = 'subagent' and usd > 0)"
    )
    lines, total = data("ls", "--all"), data("usage")["total"]
    assert any(line["relation"] == "subagent" for line in lines)
    assert total["total_tokens"] == sum(line["tokens_with_subagents"] for line in lines)
    assert total["usd"] == pytest.approx(sum(line["usd_with_subagents"] or 0 for line in lines))


def test_usage_of_a_repository_adds_up_to_the_numbers_of_ls(store: Store) -> None:
    repos = {line["repo"] for line in data("ls", "--all")} - {None}
    assert len(repos) > 1
    for repo in repos:
        lines = data("ls", "--all", "--repo", repo)
        total = data("usage", "--repo", repo)["total"]
        assert data("usage", "--project", repo)["total"] == total
        assert total["total_tokens"] == sum(line["tokens_with_subagents"] for line in lines), repo
        usd = sum(line["usd_with_subagents"] or 0 for line in lines)
        assert total["usd"] == pytest.approx(usd), repo


def words_of(wanted: dict[str, Any]) -> tuple[str, str]:
    """Return tokens and cost in words."""
    below = wanted["subagents"]
    return (
        with_subagents(short(wanted["tokens_with_subagents"]), short(wanted["tokens"]), below),
        with_subagents(
            usd(wanted["usd_with_subagents"], wanted["unpriced_with_subagents"]),
            usd(wanted["usd"], wanted["unpriced"]),
            below,
        ),
    )


def test_the_words_of_show_have_the_numbers_of_ls(listed: dict[str, dict[str, Any]]) -> None:
    for uid, wanted in listed.items():
        text = run("show", uid, "--branch", "all", "--no-pager")
        head = text.partition("──")[0]
        count = wanted["turns"]
        assert f"{count} turn{'s' * (count != 1)}" in head, uid
        if whole := wanted["errors_with_subagents"]:
            assert errors_of(whole, wanted["errors"], wanted["subagents"]) in head, uid
        _, cost = words_of(wanted)
        assert (f"  {cost}" in head) == (cost != "–"), uid
        numbers = [int(number) for number in re.findall(r"^── turn (\d+)  ", text, re.MULTILINE)]
        assert numbers == list(range(1, count + 1)), uid


def test_the_page_and_its_data_have_the_numbers_of_ls(
    store: Store, listed: dict[str, dict[str, Any]]
) -> None:
    with serving() as client:
        pages = [api(client, f"/sessions?subagents=1&page={n}") for n in range(1, 20)]
        lines = {
            one["session"]["uid"]: one["session"] for page in pages for one in page["sessions"]
        }
        assert {uid: figures(line, line) for uid, line in lines.items()} == listed
        for uid, wanted in listed.items():
            made = api(client, f"/session/{uid}?branch=all")
            family = {f"{name}_with_subagents": value for name, value in made["family"].items()}
            family["subagents"] = made["family"]["subagents"]
            family["unpriced"] = made["family"]["own_unpriced"]
            assert figures({**made["session"], **family}, made["session"]["cost"]) == wanted, uid
            assert [turn["number"] for turn in made["turns"]] == list(range(1, wanted["turns"] + 1))
            page = client.get(f"/s/{uid}")
            figures_shown = re.findall(r"<dt>([a-z ]+)</dt><dd[^>]*>(.*?)</dd>", page)
            shown = {name: re.sub(r"<[^>]+>", "", text).strip() for name, text in figures_shown}
            in_words = words_of(wanted)
            assert shown["turns"] == str(wanted["turns"]), uid
            whole, alone = str(wanted["errors_with_subagents"]), str(wanted["errors"])
            assert shown["errors"] == with_subagents(whole, alone, wanted["subagents"]), uid
            assert (html.unescape(shown["tokens"]), html.unescape(shown["cost"])) == in_words, uid


def api(client: Client, path: str) -> Any:
    return json.loads(client.get(f"/api/v1{path}"))
