"""The table of `ls`: what it says of a session on screens of any width."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from runlore.cli.commands import ls
from runlore.cli.output import cells
from runlore.query.names import handle
from runlore.store import SessionLine, Store, open_store
from tests.cli.conftest import Run

UIDS = (
    "toy:alpha",
    "toy:b2f87a4e-5689-48c2-8c78-9470485f9a72",
    "toy:51636369-5689-48c2-8c78-9470485f9a72/agent-of-a-subagent-of-it",
    f"toy:{'n' * 300}",
    f"toy:{'会話の記録' * 3}",
    f"toy:{'会話の記録' * 90}",
    "toy:2026-11-18T09-00-00-review-of-the-first-part",
    "toy:2026-11-18T09-00-00-review-of-the-second-part",
)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with closing(open_store(str(tmp_path / "a.db"))) as made:
        yield made


def session(uid: str, **fields: Any) -> SessionLine:
    empty: dict[str, Any] = dict.fromkeys(SessionLine.__struct_fields__)
    numbers = {
        name: 0
        for name in SessionLine.__struct_fields__
        if name.endswith(("tokens", "with_subagents"))
        or name in ("events", "errors", "retries", "source_bytes", "subagents", "unpriced")
    }
    known = {
        "uid": uid,
        "agent": "toy",
        "title": "Fix the build",
        "ended_at": "2026-01-01T00:00:00Z",
        "outcome": "abandoned",
        "outcome_level": "observed",
        "outcome_by": "interrupted",
        "turns": 1234,
        "usd": 1234.56,
        "usd_with_subagents": 1234.56,
        "wall_clock_s": 4000.0,
        "repo": "acme/a-repository-with-a-long-name",
    }
    return SessionLine(**{**empty, **numbers, **known, **fields})


@pytest.mark.parametrize("width", [80, 100, 120, 200])
@pytest.mark.parametrize("title", ["short", "long " * 200, "会話の記録" * 60, "-"])
def test_outcome_turns_and_cost_are_shown_on_every_screen(
    store: Store, monkeypatch: pytest.MonkeyPatch, width: int, title: str
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    monkeypatch.setenv("LINES", "40")
    head, *lines = ls.as_table(store, [session(uid, title=title) for uid in UIDS], is_whole=True)
    assert {"ID", "WHEN", "OUTCOME", "TURNS", "USD", "TITLE"} <= set(head.split())
    assert len(lines) == len(UIDS)
    for line in lines:
        assert cells(line) <= width
        assert {"abandoned", "1234", "1,234.56"} <= set(line.split())


def test_a_long_id_is_shown_as_a_handle_that_names_the_session(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LINES", "40")
    ids = {}
    for width in (80, 200):
        monkeypatch.setenv("COLUMNS", str(width))
        _, *lines = ls.as_table(store, [session(uid) for uid in UIDS], is_whole=True)
        ids[width] = [line.split()[0] for line in lines]
    assert ids[80][:2] == ["alpha", "b2f87a4e"]
    assert ids[80][2] == handle(UIDS[2])
    assert ids[200][2].endswith("/agent-of-a-subagent-of-it")
    assert len(set(ids[80])) == len(UIDS)


def test_the_cost_is_with_subagents_and_without_them_where_there_is_room(
    store: Store, monkeypatch: pytest.MonkeyPatch, run: Run
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    costs = [(0.07, 0.12, 3), (0.07, 0.071, 1), (None, 0.5, 2), (0.3, 0.3, 0), (None, None, 0)]
    lines = [
        session(f"toy:{n}", usd=usd, usd_with_subagents=whole, subagents=below)
        for n, (usd, whole, below) in enumerate(costs)
    ]
    head, *rows = ls.as_table(store, lines, is_whole=True)
    at = slice(head.index("TOKENS") + 6, head.index("REPO"))
    shown = [row[at].split() for row in rows]
    assert shown == [["0.12", "0.07", "(3)"], ["0.07"], ["0.50", "0.00", "(2)"], ["0.30"], []]
    assert "USD  WITHOUT SUBAGENTS" in head
    assert "WITHOUT SUBAGENTS" in run("ls", "--help").stdout
    for width in ("80", "120"):
        monkeypatch.setenv("COLUMNS", width)
        head, first, *_ = ls.as_table(store, lines, is_whole=True)
        assert "WITHOUT" not in head
        assert "0.12" in first.split()


def test_errors_and_tokens_are_those_with_subagents(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    below = {"subagents": 5, "errors_with_subagents": 23, "tokens_with_subagents": 12_000}
    head, row = ls.as_table(store, [session("toy:a", **below)], is_whole=True)
    at = slice(head.index("ERR"), head.index("REPO"))
    assert row[at].split() == ["23", "12k", "1,234.56", "0", "err", "(5)"]


def test_a_cost_without_some_prices_is_marked_and_without_any_it_is_blank(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    costs = [(0.5, 2), (0.0001, 1), (0.0, 3), (None, 4), (0.0, 0)]
    lines = [
        session(
            f"toy:{n}",
            usd=usd,
            usd_with_subagents=usd,
            unpriced=unpriced,
            unpriced_with_subagents=unpriced,
        )
        for n, (usd, unpriced) in enumerate(costs)
    ]
    head, *rows = ls.as_table(store, lines, is_whole=True)
    at = slice(head.index("TOKENS") + 6, head.index("REPO"))
    assert [row[at].split() for row in rows] == [["0.50*"], ["<0.01*"], [], [], ["0.00"]]


def test_a_subagent_in_a_list_is_named_as_such(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    _, row = ls.as_table(store, [session("toy:a/b", relation="subagent")], is_whole=True)
    assert row.endswith("(subagent) Fix the build")


def test_a_screen_without_room_loses_the_cost_last(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    monkeypatch.setenv("LINES", "40")
    head, line = ls.as_table(store, [session("toy:alpha")], is_whole=True)
    assert "REPO" not in head
    assert "EVENTS" not in head
    assert cells(line) <= 40


def test_the_outcome_of_each_session_is_that_of_its_digest(
    run: Run, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run("demo").exit_code == 0
    monkeypatch.setenv("RUNLORE_HOME", str(home / ".runlore/demo"))
    head, *lines = run("ls").stdout.splitlines()
    at = head.index("OUTCOME")
    shown = [line[at:].split()[0] for line in lines]
    rows = json.loads(run("ls", "--json").stdout)
    assert shown == [row["outcome"] for row in rows]
    assert set(shown) == {"success", "unknown"}
    for row in rows:
        digest = json.loads(run("show", row["uid"], "--digest", "--json").stdout)
        assert digest["outcome"] == row["outcome"]
