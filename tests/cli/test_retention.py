"""`evict`, `mark` and `secrets` as people use them."""

from __future__ import annotations

import json
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import pytest

import tests.toy as toy_module
from runlore import config
from runlore.adapters import Facts
from runlore.model import BLOCK, Digest
from runlore.store import open_store
from tests.cli.conftest import Run
from tests.toy import line


@pytest.fixture
def covered(run: Run, stored: Path) -> Path:
    """Both sessions have a digest of all that is stored of them."""
    with closing(open_store(config.load().store)) as store:
        for uid, goal in {"toy:alpha": "please fix the build", "toy:beta": "write a poem"}.items():
            session = store.sessions.get(uid)
            assert session is not None
            covers = {"last_seq": session.last_seq, "content_hash": session.content_hash}
            data = {
                "session_uid": uid,
                "version": 1000,
                "covers": covers,
                "goal": goal,
                "goal_seq": 0,
            }
            store.digests.put(Digest.from_dict(data), datetime.now(UTC))
    return stored


def test_evict_shows_what_would_leave_and_changes_nothing(run: Run, covered: Path) -> None:
    result = run("evict", "alpha")
    assert result.stdout.splitlines()[1].split() == [
        "alpha",
        "2026-01-01",
        "6",
        "Fix",
        "the",
        "build",
    ]
    assert "would let go of the text of 1 session" in result.stderr
    assert "--yes does it" in result.stderr
    assert "make all" in run("show", "alpha").stdout


def test_what_is_evicted_is_listed_found_and_comes_back(run: Run, covered: Path) -> None:
    before = run("show", "alpha").stdout
    assert "gone: the text of 1 session" in run("evict", "alpha", "--yes").stderr
    assert {one["uid"]: one["evicted_at"] is not None for one in json.loads(run("ls",
    "--json").stdout)} == {
        "toy:alpha": True, "toy:beta": False,
    }  # fmt: skip
    assert "(evicted) Fix the build" in run("ls").stdout
    assert "evicted 20" in run("show", "alpha").stdout
    assert run("search", "fix", "build").exit_code == 0
    assert run("search", "make").exit_code == 1
    [manifest] = (config.load().home / "evicted").iterdir()
    left = [json.loads(one) for one in manifest.read_text().splitlines()]
    assert [(one["uid"], one["events"], one["analyzed"]) for one in left] == [
        ("toy:alpha", 6, True)
    ]
    assert "nothing new" in run("sync").stderr
    assert run("search", "make").exit_code == 1
    assert "back: 1 session" in run("evict", "alpha", "--back").stderr
    assert run("show", "alpha").stdout == before
    assert "was not evicted" in run("evict", "alpha", "--back").stderr


def test_an_evicted_session_that_is_gone_on_with_is_whole_again(run: Run, covered: Path) -> None:
    run("evict", "alpha", "--yes")
    with (covered / "alpha.jsonl").open("ab") as file:
        file.write(line(s="alpha", id="a7", up="a6", text="and now the tests", at=10))
    run("sync")
    shown = json.loads(run("show", "alpha", "--json").stdout)
    assert [event["seq"] for event in shown["events"]] == [0, 1, 2, 3, 4, 5, 6]
    assert shown["session"]["evicted_at"] is None


@pytest.fixture
def halves(run: Run, stored: Path) -> Path:
    """A session of two files that has been evicted; where its second file is."""
    file = stored / "more.jsonl"
    file.write_bytes(
        line(s="alpha", id="x1", text="second store", at=20)
        + line(s="alpha", id="x2", up="x1", text="more of it", at=21)
    )
    run("sync")
    run("evict", "alpha", "--yes")
    assert _events(run)[1] is not None
    return file


def _events(run: Run) -> tuple[list[int], str | None]:
    shown = json.loads(run("show", "alpha", "--json").stdout)
    return [event["seq"] for event in shown["events"]], shown["session"]["evicted_at"]


FIRST, SECOND = [0, 1, 2, 3, 4, 5], [BLOCK, BLOCK + 1]


def test_a_session_of_two_files_comes_back_whole(run: Run, halves: Path) -> None:
    assert "back: 1 session" in run("evict", "alpha", "--back").stderr
    assert _events(run) == (FIRST + SECOND, None)
    assert run("doctor", "--full").exit_code == 0


def test_when_one_file_of_an_evicted_session_grows_the_other_is_read_again_as_well(
    run: Run, halves: Path
) -> None:
    with halves.open("ab") as file:
        file.write(line(s="alpha", id="x3", up="x2", text="grown", at=30))
    run("sync")
    assert _events(run) == ([*FIRST, *SECOND, BLOCK + 2], None)
    assert run("doctor", "--full").exit_code == 0


def test_an_evicted_session_that_goes_on_in_a_new_file_is_whole_again(
    run: Run, halves: Path
) -> None:
    (halves.parent / "third.jsonl").write_bytes(line(s="alpha", id="y1", text="third store", at=40))
    run("sync")
    assert _events(run) == ([*FIRST, *SECOND, 2 * BLOCK], None)
    assert run("doctor", "--full").exit_code == 0


def test_an_evicted_session_with_a_file_missing_keeps_its_digest_when_another_grows(
    run: Run, halves: Path
) -> None:
    known = json.loads(run("show", "alpha", "--digest", "--json").stdout)
    (halves.parent / "alpha.jsonl").unlink()
    for id_ in ("x3", "x4"):
        with halves.open("ab") as file:
            file.write(line(s="alpha", id=id_, up="x2", text="grown", at=30))
        run("sync")
    seqs, evicted_at = _events(run)
    assert seqs[-4:] == [*SECOND, BLOCK + 2, BLOCK + 3]
    assert evicted_at is not None
    now = json.loads(run("show", "alpha", "--digest", "--json").stdout)
    assert {**now["before"], "made_at": known["made_at"]} == known
    assert (now["goal"], now["kinds"]["user_msg"]) == (
        known["goal"],
        known["kinds"]["user_msg"] + 2,
    )
    assert run("doctor", "--full").exit_code == 0


def test_an_evicted_session_without_its_transcript_stays_as_it_is(run: Run, covered: Path) -> None:
    run("evict", "alpha", "--yes")
    (covered / "alpha.jsonl").unlink()
    run("sync")
    result = run("evict", "alpha", "--back")
    assert "cannot come back" in result.stderr
    assert json.loads(run("show", "alpha", "--json").stdout)["session"]["events"] == 6


def test_what_was_evicted_stays_so_through_a_newer_adapter_and_doctor_is_content(
    run: Run, covered: Path, toy: object
) -> None:
    run("evict", "alpha", "--yes")
    toy.version = 2  # type: ignore[attr-defined]
    run("sync")
    assert json.loads(run("show", "alpha", "--json").stdout)["session"]["evicted_at"] is not None
    assert run("doctor", "--full").exit_code == 0


def test_evict_without_a_word_on_what_is_to_leave_is_refused(run: Run, covered: Path) -> None:
    result = run("evict", "--yes")
    assert result.exit_code == 2
    assert "[retain]" in result.stderr
    assert run("evict", "--soft", "lots").exit_code == 2


def test_the_configured_budget_is_kept_to_and_what_may_not_leave_is_told(
    run: Run, covered: Path
) -> None:
    (config.load().home / "config.toml").write_text('[retain]\nsoft = "1 kB"\n')
    run("mark", "beta", "--pin")
    data = json.loads(run("evict", "--yes", "--json").stdout)
    assert [one["uid"] for one in data["sessions"]] == ["toy:alpha"]
    assert data["stays"] == {"pinned": 1}
    assert data["dry_run"] is False
    assert "White, light." in run("show", "beta").stdout


def test_what_a_budget_asks_for_leaves_or_it_is_said_that_nothing_else_may(
    run: Run, covered: Path
) -> None:
    result = run("evict", "--soft", "1 kB", "--yes")
    assert "not enough for" in result.stderr
    listed = json.loads(run("ls", "--all-subagents", "--json").stdout)
    with closing(open_store(config.load().store)) as store:
        assert store.retention.evicted() == {one["uid"] for one in listed}
    [manifest] = (config.load().home / "evicted").iterdir()
    assert {json.loads(one).get("uid") for one in manifest.read_text().splitlines()} - {None} == {
        one["uid"] for one in listed
    }


def test_a_list_of_what_leaves_is_written_before_it_does(
    run: Run, covered: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("runlore.cli.commands.evict.let_go", killed)
    run("evict", "alpha", "--yes")
    [manifest] = (config.load().home / "evicted").iterdir()
    assert "toy:alpha" in manifest.read_text()


def test_what_is_not_analyzed_leaves_by_force_alone_and_the_loss_is_named(
    run: Run, stored: Path
) -> None:
    with closing(open_store(config.load().store)) as store:
        store.digests.drop(["toy:alpha"])
    assert "not analyzed yet" in run("evict", "alpha").stderr
    result = run("evict", "alpha", "--force-unanalyzed", "--yes")
    assert result.stdout.splitlines()[0].split() == ["ID", "ENDED", "EVENTS", "TITLE"]
    assert result.stdout.splitlines()[1].split()[:4] == ["alpha", "2026-01-01", "6", "NOT"]
    assert "NOT ANALYZED" in result.stdout
    assert "nothing is kept of it" in result.stderr
    assert run("doctor", "--full").exit_code == 0


def test_each_session_that_would_be_lost_is_named_however_many_there_are(
    run: Run, stored: Path
) -> None:
    for n in range(30):
        (stored / f"lost{n:02}.jsonl").write_bytes(
            line(s=f"lost{n:02}", id=f"l{n}", text=f"question {n}", at=n)
        )
    run("sync")
    with closing(open_store(config.load().store)) as store:
        store.digests.drop([f"toy:lost{n:02}" for n in range(30)])
    shown = run("evict", "--older-than", "1", "--force-unanalyzed").stdout
    assert shown.count("NOT ANALYZED") == 30


def test_file_knows_what_an_evicted_session_did(run: Run, covered: Path) -> None:
    with (covered / "alpha.jsonl").open("ab") as file:
        for n, action in enumerate(["read", "edit", "edit"]):
            call = {
                "call": f"f{n}",
                "tool": "Edit" if action == "edit" else "Read",
                "files": ["src/main.py"],
            }
            file.write(
                line(
                    s="alpha",
                    id=f"f{n}",
                    kind="edit" if action == "edit" else "tool_call",
                    text=f"src/main.py {n}",
                    at=40 + n,
                    **call,
                )
            )
    run("sync")
    before = json.loads(run("file", "*/main.py", "--json").stdout)
    assert [one["uid"] for one in before["sessions"]] == ["toy:alpha"]
    assert sum(before["sessions"][0]["actions"].values()) == 3
    run("evict", "alpha", "--yes", "--force-unanalyzed")
    assert "(evicted) Fix the build" in run("file", "*/main.py").stdout
    after = json.loads(run("file", "*/main.py", "--json").stdout)
    assert after["sessions"][0].pop("evicted_at")
    assert before["sessions"][0].pop("evicted_at") is None
    assert after == before


def test_file_says_that_what_was_evicted_without_a_digest_may_have_touched_it(
    run: Run, stored: Path
) -> None:
    with closing(open_store(config.load().store)) as store:
        store.digests.drop(["toy:alpha"])
    assert "evicted" not in run("file", "main.py").stderr
    run("evict", "alpha", "--yes", "--force-unanalyzed")
    assert (
        "1 session was evicted without a digest, and may have touched it"
        in run("file", "main.py").stderr
    )
    assert "evicted" not in run("file", "main.py", "--json").stderr


def test_days_may_be_told_as_elsewhere(run: Run, stored: Path) -> None:
    told = [run("evict", "--older-than", word, "--json") for word in ("1", "1d")]
    assert [result.exit_code for result in told] == [0, 0]
    assert told[0].stdout == told[1].stdout
    wrong = run("evict", "--older-than", "soon")
    assert (wrong.exit_code, "'soon' is not a number of days" in wrong.stderr) == (2, True)


def test_over_the_hard_budget_a_sync_takes_nothing_in_and_says_so(run: Run, stored: Path) -> None:
    (config.load().home / "config.toml").write_text('[retain]\nhard = "1 kB"\n')
    with (stored / "alpha.jsonl").open("ab") as file:
        file.write(line(s="alpha", id="a7", up="a6", text="and now the tests", at=10))
    result = run("sync")
    assert "runlore evict" in result.stderr
    assert len(json.loads(run("show", "alpha", "--json").stdout)["events"]) == 6
    (config.load().home / "config.toml").unlink()
    run("sync")
    assert len(json.loads(run("show", "alpha", "--json").stdout)["events"]) == 7


def test_evict_makes_room_where_only_a_hard_budget_is_set(run: Run, covered: Path) -> None:
    (config.load().home / "config.toml").write_text('[retain]\nhard = "10 kB"\n')
    result = run("evict")
    assert result.exit_code == 0
    assert "the text of 2 sessions" in result.stderr
    assert "not enough for 9" in result.stderr


def test_marks_are_shown_chosen_by_and_taken_back(run: Run, stored: Path) -> None:
    assert (
        "pinned #hard"
        in run(
            "mark", "alpha", "--pin", "--tag", "hard", "--name", "The build", "--note", "ask  Ada"
        ).stdout
    )
    assert json.loads(run("mark", "alpha", "--json").stdout) == {
        "uid": "toy:alpha", "pinned": True, "name": "The build", "tags": ["hard"],
        "note": "ask Ada", "outcome": None,
    }  # fmt: skip
    [one] = json.loads(run("ls", "--text", "#hard", "--json").stdout)
    assert (one["uid"], one["title"]) == ("toy:alpha", "The build")
    assert run("show", "alpha").stdout.startswith("The build\n")
    assert run("export", "alpha").stdout.startswith("# The build\n")
    assert run("export", "alpha", "--format", "md").stdout == run("export", "alpha").stdout
    assert json.loads(run("ls", "--text", "#soft", "--json").stdout) == []
    assert [one["uid"] for one in json.loads(run("ls", "--text", "#pinned", "--json").stdout)] == [
        "toy:alpha"
    ]
    run("mark", "alpha", "--unpin", "--untag", "hard", "--name", "", "--note", "")
    assert json.loads(run("mark", "alpha", "--json").stdout)["tags"] == []
    assert json.loads(run("ls", "--json").stdout)[1]["title"] == "Fix the build"
    assert run("mark", "alpha", "--pin", "--unpin").exit_code == 2


def test_a_marked_outcome_is_shown_everywhere_and_taken_back(run: Run, covered: Path) -> None:
    def outcome() -> str:
        [one] = [one for one in json.loads(run("ls", "--json").stdout) if one["uid"] == "toy:alpha"]
        return f"{one['outcome']} {one['outcome_level']} {one['outcome_by']}".strip()

    assert outcome() == "unknown unknown"
    assert "success" in run("mark", "alpha", "--outcome", "success").stdout
    assert json.loads(run("mark", "alpha", "--json").stdout)["outcome"] == "success"
    assert outcome() == "success verified mark"
    assert [
        one["uid"] for one in json.loads(run("ls", "--outcome", "success", "--json").stdout)
    ] == ["toy:alpha"]
    assert "success  verified: marked" in run("ls").stdout
    for shown in (run("show", "alpha"), run("show", "alpha", "--digest")):
        assert "success (verified: marked)" in shown.stdout
    digest = json.loads(run("show", "alpha", "--digest", "--json").stdout)
    assert (digest["outcome"], digest["outcome_by"]) == ("success", "mark")
    with (covered / "alpha.jsonl").open("ab") as file:
        file.write(line(s="alpha", id="new", text="more", at=99))
    assert run("sync").exit_code == 0
    assert run("mark", "alpha", "--note", "still so").exit_code == 0
    assert outcome() == "success verified mark"
    there = str(covered.parent / "copy.db")
    assert run("backup", there).exit_code == 0
    with closing(open_store(there)) as store:
        copied = store.sessions.get("toy:alpha")
        assert copied is not None
        assert (copied.outcome, copied.marked_outcome) == ("success", "success")
    assert run("mark", "alpha", "--outcome", "none").exit_code == 0
    assert outcome() == "abandoned observed silent", "what the digest says of the new prompt"
    assert run("mark", "alpha", "--outcome", "great").exit_code == 2


def test_a_secret_that_is_found_in_two_ways_is_one_secret(run: Run, stored: Path) -> None:
    for name, text in (
        ("gamma", "curl -sk -u 'ada:Xk29vQm4Lp7z' x.example"),
        ("delta", "https://ada:Xk29vQm4Lp7z@example.com/x"),
    ):
        (stored / f"{name}.jsonl").write_bytes(line(s=name, id=name, text=text, at=200))
    run("sync")
    found = json.loads(run("secrets", "--json").stdout)
    assert len({one["kind"] for one in found}) == 2
    assert run("secrets").stderr.startswith("1 different secret in 2 sessions: ")


def test_secrets_says_when_there_was_nothing_to_look_into(run: Run, stored: Path) -> None:
    assert run("secrets").stderr == "no secret was found in 2 sessions\n"
    assert "no session matches" in run("secrets", "--repo", "elsewhere").stderr
    run("forget", "alpha", "beta", "--yes")
    empty = run("secrets")
    assert (empty.exit_code, "the store is empty" in empty.stderr, empty.stdout) == (1, True, "")
    assert run("secrets", "--json").stdout == "[]\n"


def test_secrets_names_the_subagents_that_it_left_out(
    run: Run, stored: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    facts = Facts
    monkeypatch.setattr(
        toy_module,
        "Facts",
        lambda **told: facts(
            **told,
            relation="subagent" if "/" in told["native_session_id"] else None,
            parent_uid="toy:alpha" if "/" in told["native_session_id"] else None,
        ),
    )
    secret = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
    (stored / "gamma.jsonl").write_bytes(line(s="alpha/agent-1", id="g", text=secret, at=200))
    run("sync")
    assert (
        run("secrets").stderr == "no secret was found in 2 sessions (1 subagent: --all-subagents)\n"
    )
    assert "1 different secret in 1 session:" in run("secrets", "--all-subagents").stderr


def test_secrets_says_where_and_never_what(run: Run, stored: Path) -> None:
    assert "no secret" in run("secrets").stderr
    token = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
    for name in ("gamma", "delta"):
        (stored / f"{name}.jsonl").write_bytes(
            line(s=name, id=name, text=f"use {token} here, and {token} there", at=200)
        )
    run("sync")
    result = run("secrets")
    assert token not in result.stdout
    assert "gamma.jsonl" in result.stdout
    assert "1 different secret in 2 sessions: 4 × github" in result.stderr
    found = json.loads(run("secrets", "--json").stdout)
    assert sorted((one["uid"], one["kind"], one["count"], one["events"]) for one in found) == [
        ("toy:delta", "github", 2, [0]),
        ("toy:gamma", "github", 2, [0]),
    ]
    assert len({one for leak in found for one in leak["secrets"]}) == 1
    assert (
        json.loads(run("secrets", "--cwd", "/work/gamma", "--json").stdout)[0]["uid"] == "toy:gamma"
    )


def test_reports_are_the_same_when_the_events_have_left(run: Run, stored: Path) -> None:
    token = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
    (stored / "gamma.jsonl").write_bytes(
        line(s="gamma", id="g", text=f"use {token} here", at=200, tokens=10)
    )
    run("sync")
    asked = ["usage --json", "usage --wasted --json", "usage --by session --json", "errors --json"]
    before = [run(*words.split()).stdout for words in asked]
    listed = json.loads(run("ls", "--json").stdout)
    secrets = json.loads(run("secrets", "--json").stdout)
    assert "gone: " in run("evict", "alpha", "beta", "gamma", "--yes").stderr
    assert [run(*words.split()).stdout for words in asked] == before
    now = json.loads(run("ls", "--json").stdout)
    assert [{**one, "evicted_at": None} for one in now] == listed
    assert all(one["evicted_at"] for one in now)
    assert json.loads(run("secrets", "--json").stdout) == secrets
    assert [one["events"] for one in secrets] == [[0]]
