"""`runlore usage` as people and programs see it. The made-up agent tells what its calls took; a
token is 1 or 10 USD for a million."""

from __future__ import annotations

import csv
import io
import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from runlore import adapters, config, usage
from runlore.cli import usage_lines
from runlore.model import USD
from runlore.store import Store, open_store
from runlore.usage import Row
from runlore.usage.table import write_csv
from tests.cli.conftest import Run
from tests.ledgers import PRICES, Paid, keep, open_ledger, price
from tests.ledgers import call as ledger_call
from tests.test_prices import listed
from tests.test_prices import site as site  # A fixture.
from tests.toy import line


@pytest.fixture
def paid(home: Path, monkeypatch: pytest.MonkeyPatch, run: Run) -> Path:
    """Two sessions, synced: one with a failure, its repetition and an abandoned line; one with a
    copy and a model without a price."""
    adapter = Paid()
    monkeypatch.setattr(adapters, "names", lambda: ("toy",))
    monkeypatch.setattr(adapters, "get", lambda name: {"toy": adapter}[name])
    (home / ".runlore").mkdir()
    (home / ".runlore/config.toml").write_text(PRICES)
    root = home / ".toy"
    root.mkdir()
    (root / "alpha.jsonl").write_bytes(
        line(s="alpha", id="a1", text="build it", at=0)
        + line(
            s="alpha",
            id="a2",
            up="a1",
            kind="tool_call",
            text="make",
            tool="sh",
            call="c1",
            at=1,
            tokens=100,
        )
        + line(
            s="alpha",
            id="a3",
            up="a2",
            kind="tool_result",
            text="no rule",
            call="c1",
            error=True,
            at=2,
        )
        + line(
            s="alpha",
            id="a4",
            up="a3",
            kind="tool_call",
            text="make",
            tool="sh",
            call="c2",
            at=3,
            tokens=200,
        )
        + line(s="alpha", id="a5", up="a4", kind="tool_result", text="done", call="c2", at=4)
        + line(
            s="alpha",
            id="a6",
            up="a5",
            kind="assistant_msg",
            text="Done.",
            at=5,
            tokens=1000,
            input=500,
        )
        + line(s="alpha", id="a7", up="a6", text="wrong way", at=6)
        + line(s="alpha", id="a8", up="a7", kind="assistant_msg", text="Oh.", at=7, tokens=40)
        + line(s="alpha", id="a9", up="a6", text="better way", at=8)
        + line(s="alpha", id="a10", up="a9", kind="assistant_msg", text="Yes.", at=9, tokens=2)
        + line(s="alpha", title="Build \x1b[31mit")
    )
    (root / "beta.jsonl").write_bytes(
        line(s="beta", id="b1", text="hello", at=90_000)
        + line(
            s="beta",
            id="b2",
            up="b1",
            kind="assistant_msg",
            text="Hi.",
            at=90_001,
            tokens=7,
            model="nobody-lists-this-9000",
        )
        + line(
            s="beta",
            id="b3",
            up="b2",
            kind="assistant_msg",
            text="again",
            at=90_002,
            tokens=3,
            msg="a6",
        )
    )
    assert run("sync").exit_code == 0
    return home


def data(run: Run, *words: str) -> Any:
    result = run("usage", *words, "--json")
    assert result.exit_code == 0
    return json.loads(result.stdout)


def test_a_table_has_a_line_for_each_day_and_the_total(paid: Path, run: Run) -> None:
    result = run("usage")
    head, first, second, total = result.stdout.splitlines()
    assert head.split() == ["DAY", "CALLS", "INPUT", "OUTPUT", "READ", "WRITE", "TOKENS", "USD"]
    assert first.split()[:4] == ["2026-01-01", "5", "500", "1.3k"]
    assert "█" in first
    assert second.split()[:2] == ["2026-01-02", "1"]
    assert total.split()[:2] == ["total", "6"]
    assert "* excludes 1 call without a known price" in result.stderr


def test_a_call_that_two_sessions_have_is_counted_once(paid: Path, run: Run) -> None:
    made = data(run, "--by", "session")
    assert {row["key"]: (row["calls"], row["output_tokens"]) for row in made["rows"]} == {
        "toy:alpha": (5, 1342),
        "toy:beta": (1, 7),
    }
    assert made["total"]["usd"] == pytest.approx((500 + 13_420) / 1e6)
    assert (made["total"]["unpriced"], made["total"]["total_tokens"]) == (1, 1849)
    assert made["rows"][0]["title"] == "Build \x1b[31mit"


def test_a_table_of_sessions_says_that_subagents_are_in_it(
    run: Run, paid: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run("usage", "--by", "session").stdout.startswith("SESSION + SUBAGENTS ")
    monkeypatch.setenv("COLUMNS", "40")
    assert run("usage", "--by", "session").stdout.startswith("SESSION ")


@pytest.fixture
def nested(tmp_path: Path) -> Iterator[Store]:
    """Sessions whose subagents cost much, next to nothing, and nothing."""
    with closing(open_ledger(tmp_path)) as store:
        above = {"a1": "a", "a2": "a", "b1": "b", "c1": "c"}
        tokens = {"a": 2000, "a1": 3000, "a2": 5000, "b": 700, "b1": 10, "c": 4000, "c1": 0}
        below = {
            name: {"parent_uid": f"toy:{parent}", "relation": "subagent"}
            for name, parent in above.items()
        }
        calls = [ledger_call(name, name, input_tokens=n) for name, n in tokens.items()]
        keep(store, calls, below)
        price(store, lambda call: call.total * USD // 10**4)
        yield store


def test_a_session_has_its_cost_without_subagents_where_that_differs(
    nested: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    made = usage.report(nested, "session")
    head, *lines = usage_lines.as_table(nested, made, made.rows, usage.Zone())
    assert "TOKENS  WITHOUT SUBAGENTS  USD" in head
    at = slice(head.index("WITHOUT"), head.index("USD") + 5)
    assert {one.split()[0]: one[at].split() for one in lines} == {
        "a": ["0.20", "(2)", "1.00"],
        "b": ["0.07"],
        "c": ["0.40"],
        "total": ["1.47"],
    }


def test_the_cost_without_subagents_is_the_first_to_leave(
    nested: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = usage.report(nested, "session")
    heads = []
    for width in range(120, 60, -1):
        monkeypatch.setenv("COLUMNS", str(width))
        heads.append(usage_lines.as_table(nested, made, made.rows, usage.Zone())[0])
    lost = next(head for head in heads if "WITHOUT" not in head)
    assert {"CALLS", "INPUT", "TOKENS", "USD"} <= set(lost.split())
    assert "WITHOUT" in heads[0]
    monkeypatch.setenv("COLUMNS", "80")
    rows = [row for row in made.rows if row.key != "toy:a"]
    without = usage_lines.as_table(nested, made, rows, usage.Zone())[0]
    assert without.split() == heads[40].split(), "no column is lost to it"


@pytest.mark.parametrize("by", usage.BY)
def test_every_report_adds_up_to_the_same(paid: Path, run: Run, by: str) -> None:
    made = data(run, "--by", by)
    assert made["by"] == by
    assert made["total"]["total_tokens"] == sum(row["total_tokens"] for row in made["rows"]) == 1849
    assert run("usage", "--by", by).exit_code == 0


def test_a_repository_may_be_called_a_project(paid: Path, run: Run) -> None:
    assert data(run, "--by", "project") == data(run, "--by", "repo")


def test_filters_choose(paid: Path, run: Run) -> None:
    def calls(*words: str) -> int:
        return data(run, *words)["total"]["calls"]  # type: ignore[no-any-return]

    assert calls("--model", "toy") == 5
    assert calls("--agent", "toy") == 6
    assert calls("--session", "beta") == 1
    assert calls("--branch", "main") == 6
    assert calls("--project", "/work/alpha") == 5
    assert calls("--machine", "x") == calls("--subagents", "only") == 0
    assert (
        calls("--since", "2026-01-02")
        == calls("--since", "2026-01-02", "--until", "2026-01-03")
        == 1
    )
    assert calls("--until", "2026-01-02") == 5
    assert calls("--days", "1") == 0
    assert calls("--since", "2026-01-02", "--timezone", "America/New_York") == 0
    assert calls("--since", "2026-01-01", "--timezone", "America/New_York") == 1


def test_days_are_those_of_the_zone(paid: Path, run: Run) -> None:
    assert [row["key"] for row in data(run, "--timezone", "America/New_York")["rows"]] == [
        "2025-12-31",
        "2026-01-01",
    ]
    assert run("usage", "--timezone", "Nowhere").exit_code == 2


def test_csv_is_exact_and_no_name_in_it_is_a_formula(paid: Path, run: Run) -> None:
    rows = list(csv.DictReader(io.StringIO(run("usage", "--by", "session", "--csv").stdout)))
    assert [(row["session"], row["usd"]) for row in rows] == [
        ("toy:alpha", "0.01392"),
        ("toy:beta", "0"),
    ]
    from runlore.usage.table import escape_formula

    assert [escape_formula(name) for name in ("=1+1", "@x", "main", None, "a\x1b[31mb")] == [
        "'=1+1",
        "'@x",
        "main",
        "",
        "ab",
    ]


def test_a_limit_shows_the_last_days_and_the_dearest_others(paid: Path, run: Run) -> None:
    result = run("usage", "-n", "1")
    assert "2026-01-01" not in result.stdout
    assert "the last 1 of 2 days" in result.stderr
    assert [row["key"] for row in data(run, "--by", "model", "-n", "1")["rows"]] == ["toy-1"]
    made = data(run, "-n", "1")
    assert made["total"]["calls"] == 6, "the total is of all"
    assert made["total_of_rows"]["calls"] == made["rows"][0]["calls"] < 6
    *_, row, shown, total = result.stdout.splitlines()
    assert shown.split()[:2] == ["shown", row.split()[1]], "of what is listed above it"
    assert total.split()[:2] == ["total", "6"], "of all, as in JSON"


@pytest.mark.parametrize("columns", ["20", "40", "60", "80", "200"])
@pytest.mark.parametrize("by", ["day", "session", "block"])
def test_a_table_fits_the_screen_and_obeys_no_transcript(
    paid: Path, run: Run, monkeypatch: pytest.MonkeyPatch, by: str, columns: str
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    lines = run("usage", "--by", by).stdout.splitlines()
    assert max(map(len, lines)) <= max(int(columns), 30)
    assert "\x1b" not in "".join(lines)
    assert "USD" in lines[0]


def test_an_explanation_shows_copies_prices_and_parts(paid: Path, run: Run) -> None:
    text = run("usage", "--explain", "alpha").stdout
    assert "5 calls, 1,842 tokens, $0.01392" in text
    assert (
        "input 500 × $1 = $0.0005; output 1,000 × $10 = $0.01 (× the price of a million)"
        in " ".join(text.split())
    )
    assert (
        "not counted: input 0, output 3: 1,497 tokens fewer; the copy with most counts"
        in " ".join(text.split())
    )
    made = data(run, "--explain", "beta")
    assert [(one["key"], one["basis"]) for one in made["calls"]] == [("b2", "none")]
    assert [(one["key"], one["session_uid"]) for one in made["elsewhere"]] == [("a6", "toy:alpha")]


def test_of_many_calls_the_last_are_explained_unless_more_are_asked_for(
    paid: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run("usage", "--explain", "alpha").stderr == ""
    monkeypatch.setattr("runlore.cli.commands.usage.EXPLAINED", 2)
    result = run("usage", "--explain", "alpha")
    assert "the last 2 of 5 calls" in result.stderr
    assert ("5 calls, 1,842 tokens" in result.stdout, result.stdout.count("price: ")) == (True, 2)
    assert run("usage", "--explain", "alpha", "-n", "9").stdout.count("price: ") == 5
    assert [
        len(data(run, "--explain", "alpha", *words)["calls"]) for words in ((), ("-n", "3"))
    ] == [2, 3]


def test_a_check_says_what_is_not_certain(paid: Path, run: Run) -> None:
    text = " ".join(run("usage", "--check").stdout.split())
    assert "without a price: 1 call nobody-lists-this-9000: 1 call, 7 tokens, $0" in text
    assert "what transcripts cannot know" in text
    made = data(run, "--check")
    assert [row["key"] for row in made["unpriced"]] == ["nobody-lists-this-9000"]
    assert [(gap["uid"], gap["events_tokens"], gap["ledger_tokens"]) for gap in made["gaps"]] == [
        ("toy:alpha", 1342, 1842),  # its events say nothing of input
        ("toy:beta", 10, 7),  # one of its calls counts for the other
    ]


def test_waste_is_told_apart(paid: Path, run: Run) -> None:
    made = data(run, "--wasted")
    tokens = {
        name: made[name]["output_tokens"]
        for name in ("abandoned", "retries", "failed", "any", "of")
    }
    assert tokens == {"abandoned": 40, "retries": 200, "failed": 100, "any": 340, "of": 1349}
    assert made["sessions"] == 1
    assert data(run, "--wasted", "--session", "beta")["any"]["calls"] == 0
    assert data(run, "--wasted", "--until", "2026-01-01T00:00:02")["any"]["output_tokens"] == 100
    assert "abandoned lines" in run("usage", "--wasted").stdout


def test_pricing_again_says_what_changed(paid: Path, run: Run) -> None:
    (paid / ".runlore/config.toml").write_text(PRICES.replace("10.0", "20.0"))
    assert data(run, "--by", "agent")["total"]["usd"] == pytest.approx(0.01392), (
        "a price stays as it was"
    )
    assert json.loads(run("usage", "--reprice", "--json").stdout) == {
        "calls": 6,
        "usd_before": 0.01392,
        "usd": pytest.approx(0.02734),
    }
    assert data(run, "--by", "agent")["total"]["usd"] == pytest.approx(0.02734)
    assert "before: $0.001" in run("usage", "--explain", "alpha").stdout


def test_newer_prices_are_fetched_and_used_where_none_was_known(
    paid: Path, run: Run, site: Callable[[bytes], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(
        "RUNLORE_PRICES_URL", site(listed().replace(b"gpt-9-new", b"nobody-lists-this-9000"))
    )
    made = json.loads(run("usage", "--refresh-prices", "--json").stdout)
    assert made == {
        "table": made["table"], "models": 1, "is_new": True, "calls": 1, "usd_before": 0.01392,
        "usd": pytest.approx(0.01392 + 7 * 14e-6)
    }  # fmt: skip
    assert data(run, "--by", "agent")["total"]["unpriced"] == 0
    assert "fetched 20" in run("usage", "--explain", "beta").stdout
    result = run("usage", "--refresh-prices")
    assert "the list is as it was" in result.stdout
    assert "priced again: 0 calls" in result.stdout


def test_without_a_network_prices_stay_and_one_line_says_so(
    paid: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("no_proxy", "*")
    monkeypatch.setenv("RUNLORE_PRICES_URL", "http://127.0.0.1:9/prices")
    result = run("usage", "--refresh-prices")
    assert (result.exit_code, result.stdout, result.stderr.count("\n")) == (1, "", 1)
    assert "cannot be fetched" in result.stderr
    assert data(run, "--by", "agent")["total"]["usd"] == pytest.approx(0.01392)


def test_a_spent_budget_warns_and_may_fail(
    paid: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Then(datetime):
        @classmethod
        def now(cls, tz: Any = None) -> Any:
            return datetime(2026, 1, 1, 12, tzinfo=UTC)

    monkeypatch.setattr("runlore.cli.commands.usage.datetime", Then)
    assert "budget" not in run("usage").stderr
    file = paid / ".runlore/config.toml"
    file.write_text("[budget]\nday = 0.01\n" + PRICES)
    result = run("usage")
    assert (result.exit_code, "today: $0.01 of a budget of $0.01" in result.stderr) == (0, True)
    assert run("usage", "--fail-over-budget").exit_code == 3
    result = run("usage", "--json", "--fail-over-budget")
    assert json.loads(result.stdout)["budgets"] == [
        {"name": "day", "limit": 0.01, "usd": 0.01392, "is_over": True}
    ]
    file.write_text("[budget]\nday = 1\n" + PRICES)
    assert run("usage", "--fail-over-budget").exit_code == 0
    file.write_text("[budget]\nday = -1\n" + PRICES)
    assert run("usage").exit_code == 1


def test_the_status_line_is_one_short_line(
    paid: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Then(datetime):
        @classmethod
        def now(cls, tz: Any = None) -> Any:
            return datetime(2026, 1, 1, 2, tzinfo=UTC)

    monkeypatch.setattr("runlore.cli.commands.usage.datetime", Then)
    assert (
        run("usage", "--statusline").stdout == "$0.01 today, 1.8k tokens · block $0.01, 3h00 left\n"
    )


def test_the_status_line_knows_the_session_that_an_agent_tells_it(paid: Path) -> None:
    told = json.dumps({"session_id": "alpha", "cwd": "/work/alpha", "other": {"deep": [1]}})
    for text, expected in (
        (told, "session $0.01"),
        ("", "today"),
        ("[1", "today"),
        ('{"session_id": 5, "cwd": null}', "today"),
    ):
        done = subprocess.run(
            [sys.executable, "-m", "runlore", "usage", "--statusline"],
            input=text,
            capture_output=True,
            text=True,
        )
        assert (done.returncode, done.stderr) == (0, "")
        assert expected in done.stdout
        assert done.stdout.count("\n") == 1


def test_a_prompt_does_not_complain_without_a_store(home: Path, run: Run) -> None:
    result = run("usage", "--statusline")
    assert (result.exit_code, result.stdout) == (0, "no usage yet\n")
    assert run("usage").exit_code == 1
    assert run("usage", "--reprice").exit_code == 1


def test_sessions_without_calls_are_said(stored: Path, run: Run) -> None:
    result = run("usage")
    assert (result.exit_code, result.stdout) == (0, "")
    assert "no call is stored" in result.stderr
    assert data(run)["rows"] == []
    assert data(run, "--wasted")["any"]["calls"] == 0
    assert run("usage", "--check").exit_code == run("usage", "--explain", "alpha").exit_code == 0


@pytest.mark.parametrize(
    "words",
    [
        ("--check", "--wasted"),
        ("--csv", "--json"),
        ("--csv", "--check"),
        ("--days", "3", "--since", "7d"),
    ],
)
def test_what_does_not_go_together_is_wrong_usage(
    paid: Path, run: Run, words: tuple[str, ...]
) -> None:
    assert run("usage", *words).exit_code == 2


def test_ls_shows_what_a_session_cost(paid: Path, run: Run) -> None:
    head, *lines = run("ls").stdout.splitlines()
    assert "USD" in head.split()
    assert [line.split()[0] for line in lines if "0.01" in line.split()] == ["alpha"]


def test_reports_stay_when_the_transcripts_are_gone(paid: Path, run: Run) -> None:
    before = data(run, "--by", "session")
    for file in (paid / ".toy").iterdir():
        file.unlink()
    assert run("sync").exit_code == 0
    assert data(run, "--by", "session") == before


@pytest.mark.parametrize(
    "name",
    ["=1+1", "+1", "-1", "@a", "\t=1", "\r\n=1", " =1", "\x1b[31m=1", "＝1", '=cmd|"/c calc"!A1,2'],
)
def test_no_name_is_a_formula_in_a_spreadsheet(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    write_csv("model", [Row(name, 1)], sys.stdout)
    (cell,) = [row[0] for row in csv.reader(io.StringIO(capsys.readouterr().out))][1:]
    assert cell[0] == "'"
    assert cell.isprintable()


def test_days_that_exclude_each_other_are_answered_as_in_a_listing(run: Run, home: Path) -> None:
    words = ("--on", "today", "--since", "3d")
    answers = {run(command, *words).stderr.splitlines()[-1] for command in ("ls", "usage")}
    assert answers == {"Error: --on does not go together with --since or --until"}


def test_the_last_days_end_today(home: Path, run: Run) -> None:
    now = datetime.now(UTC)
    with closing(open_store(config.load().store)) as store:
        keep(
            store,
            [ledger_call("a", "a", ts=now), ledger_call("b", "b", ts=now + timedelta(days=700))],
        )
    for words in (["--days", "30"], ["--since", "30d"], ["--since", "30d", "--by", "session"]):
        assert data(run, *words)["total"]["calls"] == 1, words
    assert data(run)["total"]["calls"] == 2
