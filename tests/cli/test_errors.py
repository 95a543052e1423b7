"""`runlore errors`, `runlore fix` and `runlore show --digest`, on the demo and on what a hostile
session may say."""

from __future__ import annotations

import json
import re
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import pytest

from runlore import config as settings
from runlore.cli.commands.patterns import as_lines
from runlore.cli.error_lines import head
from runlore.mine import known_errors
from runlore.mine.loci import SessionLocus
from runlore.mine.values import Pattern
from runlore.store import Filter, open_store
from runlore.sync import pipeline
from tests.cli.conftest import Run
from tests.toy import Toy, line


@pytest.fixture
def demo(run: Run, home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    made = home / "demo"
    assert run("demo", "--home", str(made)).exit_code == 0
    monkeypatch.setenv("RUNLORE_HOME", str(made))
    return made


def test_errors_are_listed_with_what_fixed_them(run: Run, demo: Path) -> None:
    lines = run("errors", "--least", "1").stdout.splitlines()
    at = next(
        n for n, text in enumerate(lines) if "NameError: name 'Callable' is not defined" in text
    )
    assert "cd613e30#18  fixed by an edit (in shop-api): …/shop-api/shop/cart.py" in lines[at + 1]
    assert "1/1" in lines[at]
    assert len(run("errors", "--least", "1", "-n", "1").stdout.splitlines()) <= 3


def test_a_cost_that_is_not_known_is_not_shown_as_nothing(run: Run, stored: Path) -> None:
    answer = run("fix", "make: *** No rule")
    assert "cost" not in answer.stdout
    assert " until " not in answer.stdout
    assert "$0.00" not in answer.stdout
    (error,) = json.loads(run("fix", "make: *** No rule", "--json").stdout)["errors"]
    assert error["usd"] is None


def test_the_cost_of_an_error_says_until_when(run: Run, demo: Path) -> None:
    with closing(open_store(settings.load().store)) as store:
        answer = known_errors.find_recurring(store, Filter(), datetime.now(UTC), min_sessions=1)
    (error, *_) = answer.found
    known = msgspec.structs.replace(error, usd=1.5, stayed=0, sessions=1)
    assert head(known).endswith("$1.50 spent until it was gone")
    stayed = msgspec.structs.replace(known, stayed=1)
    assert head(stayed).endswith("$1.50 spent until its last occurrence")
    assert "until" not in head(msgspec.structs.replace(stayed, usd=None))


def test_the_types_of_patterns_are_listed_and_a_wrong_one_is_answered_with_them(
    run: Run, home: Path
) -> None:
    names = run("patterns", "--type", "all").stdout.split()
    assert {"recurring_error", "retry_storm", "correction"} < set(names)
    for asked in (["nope"], ["all", "--json"], ["nope", "--type", "retry_storm"]):
        wrong = run("patterns", "--type", *asked)
        assert (wrong.exit_code, all(name in wrong.stderr for name in names)) == (2, True)


def test_the_examples_of_patterns_are_short_names_that_can_be_shown(run: Run, demo: Path) -> None:
    names = re.findall(r"^ +e\.g\. (\S+)", run("patterns", "--least", "1").stdout, re.MULTILINE)
    assert names
    for name in names:
        assert len(name) < 24
        assert run("show", name).exit_code == 0


def test_an_example_that_is_a_whole_session_is_named_without_a_number() -> None:
    one = Pattern(
        id="1", type="budget_overrun", polarity="problem", what="sessions cost more",
        locus=SessionLocus("cost"), repo=None,
        signals=2, sessions=2, uids=("toy:a", "toy:b"), repos=(), agents=("toy",), usd=1.0,
        magnitude=1.0,
        first_at="", last_at="", months={}, trend="new",
        examples=("toy:a", "toy:b#3"),
    )  # fmt: skip
    assert as_lines([one], {"toy:a": "a", "toy:b": "b"})[-1].split() == ["e.g.", "a", "b#3"]


def test_where_nothing_came_back_that_is_said(run: Run, demo: Path) -> None:
    result = run("errors")
    assert (result.exit_code, result.stdout) == (0, "")
    assert "--least 1" in result.stderr


def test_errors_are_filtered(run: Run, demo: Path) -> None:
    found = json.loads(run("errors", "--least", "1", "--repo", "weather-cli", "--json").stdout)
    assert [error["repos"] for error in found["errors"]] == [["weather-cli"]]
    assert (
        json.loads(run("errors", "--least", "1", "--since", "2026-08-14", "--json").stdout)["total"]
        == 1
    )


def test_a_fix_is_shown_with_its_change_and_where_it_is(run: Run, demo: Path) -> None:
    result = run("fix", "NameError: name 'Callable' is not defined")
    assert result.exit_code == 0
    assert "    +from collections.abc import Callable" in result.stdout
    assert run("show", "cd613e30#18").stdout.count("+from collections.abc import Callable") == 1


def test_a_log_may_come_through_a_pipe(
    run: Run, demo: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = (
        b"collecting\n"
        * 500
        + b'Traceback (most recent call last):\n  File "x.py", line 1\nModuleNotFoundError: No'
        b" module named 'redis'\n"
    )
    monkeypatch.setattr("runlore.cli.commands.fix.read_pipe", lambda: log.decode())
    found = json.loads(run("fix", "-", "--json").stdout)
    assert (found["asked"]["name"], found["errors"][0]["fixes"][0]["how"]) == (
        "ModuleNotFoundError",
        "changed",
    )


def test_an_error_that_is_not_known_is_an_answer_with_status_1(run: Run, demo: Path) -> None:
    result = run("fix", "FrobnicationError: never seen")
    assert (result.exit_code, result.stdout) == (1, "")
    assert "not seen before" in result.stderr
    result = run("fix", "FrobnicationError: never seen", "--json")
    assert (result.exit_code, json.loads(result.stdout)["errors"]) == (1, [])
    assert run("fix", "  ").exit_code == 2


def test_nothing_is_asked_of_a_store_that_is_not_there(run: Run, home: Path) -> None:
    for words in (["errors"], ["fix", "Error: x"]):
        result = run(*words)
        assert (result.exit_code, "runlore sync" in result.stderr) == (1, True)


def test_a_digest_is_shown_on_one_screen(run: Run, demo: Path) -> None:
    shown = run("show", "latest:shop-api", "--digest").stdout
    for text in (
        "asked ",
        "Add rate limiting",
        "unknown: it was pushed",
        "not to main! open a pull request",
        "pull/157",
        "No module named",
    ):
        assert text in shown
    assert max(map(len, shown.splitlines())) <= 100
    assert run("show", "latest", "--digest", "--raw").exit_code == 2


def test_a_digest_that_is_not_there_yet_is_made_to_be_shown_and_nothing_is_written(
    run: Run, demo: Path
) -> None:
    with closing(open_store(str(demo / "runlore.db"))) as store:
        store.digests.drop(store.sessions.uids(Filter(parents_only=False)))
        shown = json.loads(run("show", "latest:shop-api", "--digest", "--json").stdout)
        assert (shown["outcome_by"], shown["made_at"]) == ("shipped", None)
        assert store.maintenance.rows("select count(*) from digests") == [(0,)]


def test_of_an_evicted_session_the_digest_is_shown_and_what_it_cites(run: Run, demo: Path) -> None:
    words = ["fix", "NameError: name 'Callable' is not defined"]
    before, errors = run(*words).stdout, run("errors", "--least", "1").stdout
    digest = run("show", "cd613e30", "--digest").stdout
    with closing(open_store(str(demo / "runlore.db"))) as store:
        store.retention.evict(["claude:cd613e30-d8f1-4adf-91b7-584a2265b1f5"], datetime.now(UTC))
    assert (run(*words).stdout, run("errors", "--least", "1").stdout) == (before, errors)
    shown = run("show", "cd613e30").stdout
    counts = [
        int(part.split(" × ")[0])
        for line in shown.splitlines()
        if line.startswith("did ")
        for part in line[16:].split(", ")[:3]
    ]
    assert counts == sorted(counts, reverse=True)
    assert shown.splitlines()[-5:] == digest.splitlines()[-5:]
    for seq, text in (
        (17, "NameError: name 'Callable' is not defined"),
        (0, json.loads(run("show", "cd613e30", "--digest", "--json").stdout)["goal"]),
    ):
        result = run("show", f"cd613e30#{seq}")
        assert (text in result.stdout, "what its digest quotes" in result.stderr) == (True, True)
    result = run("show", "cd613e30#1")
    assert (result.exit_code, "was evicted" in result.stderr) == (1, True)


def test_sessions_are_chosen_by_what_kind_they_are(run: Run, demo: Path) -> None:
    every = json.loads(run("ls", "--all", "--all-subagents", "--json").stdout)
    kinds = {one["quality"] for one in every}
    assert {"real", "subagent"} <= kinds
    for kind in kinds:
        chosen = json.loads(run("ls", "--all", "--quality", kind, "--json").stdout)
        assert {one["uid"] for one in chosen} == {
            one["uid"] for one in every if one["quality"] == kind
        }
    assert run("ls", "--quality", "odd").exit_code == 2


def test_sessions_are_chosen_by_how_they_ended(run: Run, demo: Path) -> None:
    assert {
        one["outcome"] for one in json.loads(run("ls", "--outcome", "success", "--json").stdout)
    } == {"success"}
    assert json.loads(run("ls", "--outcome", "abandoned", "--json").stdout) == []
    assert run("ls", "--outcome", "odd").exit_code == 2


def test_what_a_session_says_reaches_no_terminal(run: Run, home: Path, toy: Toy) -> None:
    hostile = "Error: \x1b]0;owned\x07\x1b[31mred\u202e is missing"
    (home / ".toy").mkdir()
    for name in ("s1", "s2"):
        lines = [line(id=f"{name}a", text=f"\x1b[2Jgo {hostile}")]
        lines.append(
            line(
                id=f"{name}b",
                kind="tool_call",
                text=f"make \x1b[5m{hostile}",
                call="c",
                tool="\x1b[1mSh",
            )
        )
        lines.append(line(id=f"{name}c", kind="tool_result", text=hostile, call="c", error=True))
        (home / ".toy" / f"{name}.jsonl").write_bytes(b"".join(lines))
    config = settings.load()
    with closing(open_store(config.store)) as store:
        pipeline.sync(store, config)
    for words in (
        ["errors"],
        ["fix", hostile],
        ["show", "s1", "--digest"],
        ["errors", "--json"],
        ["show", "s1", "--digest", "--json"],
    ):
        result = run(*words)
        assert result.exit_code == 0, words
        assert not {"\x1b", "\x07", "\u202e"} & set(result.stdout + result.stderr), words


def test_a_digest_of_older_rules_says_so() -> None:
    from runlore.cli.digest_lines import render
    from runlore.model import DIGEST_VERSION, Digest

    data = {"session_uid": "toy:1", "covers": {"last_seq": 0, "content_hash": "h"}}
    told = [
        "\n".join(render(Digest.from_dict({**data, "version": DIGEST_VERSION - older})))
        for older in (1, 0)
    ]
    assert ["older rules; `runlore evict --back toy:" in text for text in told] == [True, False]
