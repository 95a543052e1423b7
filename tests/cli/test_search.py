"""`search`, `commit` and `file`: what people and programs are told, and what the shell hands
over."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

import apsw
import msgspec
import pytest

from runlore import search as engine
from runlore.adapters import Facts
from runlore.cli import hits
from runlore.cli.output import cells
from runlore.search import EventHit, trace
from runlore.store import Filter
from tests.cli.conftest import Run
from tests.cli.test_group import python
from tests.cli.test_hostile import OBEYED, POISON
from tests.toy import Toy, line

SHA = "1a2b3c4d5e6f708192a3b4c5d6e7f8091a2b3c4d"
UUID = "1a2b3c4d-0000-4000-8000-000000000000"


@pytest.fixture
def tools(monkeypatch: pytest.MonkeyPatch, toy: Toy) -> None:
    """The made-up agent's lines may also say which tool was used, for what, and on which files."""
    plain = Toy._event

    def with_tools(self: Toy, line: dict[str, Any], name: str, *rest: Any) -> None:
        plain(self, line, name, *rest)
        events = rest[-1].events
        told = {
            "tool": line.get("tool"),
            "action": line.get("action"),
            "files": tuple(line.get("files", ())),
        }
        events[-1] = msgspec.structs.replace(events[-1], **told)

    monkeypatch.setattr(Toy, "_event", with_tools)


@pytest.fixture
def worked(root: Path, run: Run, tools: None) -> Path:
    """Three more sessions: one that edits a file and commits it, one that reads it, one that speaks
    of the commit."""
    shell = {"kind": "tool_call", "tool": "Sh", "action": "shell"}
    result = {"kind": "tool_result", "tool": "Sh"}
    (root / "maker.jsonl").write_bytes(
        line(s="maker", id="m1", text="rename the flag --force", at=200)
        + line(
            s="maker",
            id="m2",
            kind="edit",
            tool="Ed",
            action="edit",
            files=["src/app/main.py"],
            text="src/app/main.py\n@@\n+x",
            at=201,
        )
        + line(
            s="maker",
            id="m3",
            kind="edit",
            tool="Ed",
            action="edit",
            files=["src/app/main.py"],
            text="src/app/main.py\n@@\n+y",
            at=202,
        )
        + line(
            s="maker",
            id="m4",
            **shell,
            call="c1",
            text="git -C . commit -am 'Rename the flag' && git push",
            at=203,
        )
        + line(
            s="maker",
            id="m5",
            **result,
            call="c1",
            text="[main 1a2b3c4] Rename the flag\n 1 file\nrejected",
            error=True,
            at=204,
        )
        + line(s="maker", title="Rename a flag")
    )
    (root / "reader.jsonl").write_bytes(
        line(s="reader", id="r1", text="what does it do?", at=300)
        + line(s="reader", id="r2", kind="tool_call", tool="Rd", action="read",
        files=["/work/maker/src/app/main.py"],
               text="path: /work/maker/src/app/main.py", at=301)
        + line(s="reader", id="r3", kind="tool_call", tool="Rd", action="read",
        files=["/work/other/main.py"],
               text="path: /work/other/main.py", at=302)
        + line(s="reader", id="r4", kind="tool_result", text=f"id {UUID}, hash {SHA[:7]}ffff",
        at=303)
    )  # fmt: skip
    (root / "talker.jsonl").write_bytes(
        line(s="talker", id="t1", **shell, call="c1", text="git log --oneline", at=400)
        + line(
            s="talker",
            id="t2",
            **result,
            call="c1",
            text=f"0000000 Before\n{SHA[:8]} Rename the flag",
            at=401,
        )
        + line(s="talker", id="t3", kind="assistant_msg", text=f"That was {SHA}.", at=402)
    )
    assert run("sync").exit_code == 0
    return root


def data(run: Run, *words: str) -> Any:
    return json.loads(run(words[0], "--json", *words[1:]).stdout)


def uids(run: Run, *words: str) -> list[str]:
    return [hit["uid"] for hit in data(run, "search", *words)["hits"]]


# ── search ────────────────────────────────────────────────────────────────────────────────────────
def test_search_shows_sessions_and_below_them_events_that_show_can_be_given(
    run: Run, worked: Path
) -> None:
    result = run("search", "fix")
    head, first = result.stdout.splitlines()
    assert head.split() == ["alpha", "toy", "2026-01-01", "alpha", "Fix", "the", "build"]
    assert first.split() == ["alpha#0", "user_msg", "please", "fix", "the", "build"]
    assert result.stderr == ""
    assert run("show", first.split()[0]).exit_code == 0


def test_search_takes_its_words_as_they_come(run: Run, worked: Path) -> None:
    assert uids(run, "git", "push", "rejected", "tool:Sh") == ["toy:maker"]
    assert uids(run, "git push rejected") == ["toy:maker"]
    assert uids(run, '"push rejected"') == []
    assert (
        uids(run, "--limit", "1", "fix", "build")
        == uids(run, "fix", "build", "-n", "1")
        == uids(run, "fix", "-n1", "build")
    )


@pytest.mark.parametrize("word", ["-snow", "-nothing", "-h2", "-sort", '-"about snow"'])
def test_a_word_with_a_dash_excludes_and_is_no_option(run: Run, worked: Path, word: str) -> None:
    result = run("search", "about", word, "--json")
    assert result.exit_code == 0
    found = [
        event["snippet"] for hit in json.loads(result.stdout)["hits"] for event in hit["events"]
    ]
    assert "about rain" in found
    assert ("about snow" in found) == ("snow" not in word)


def test_behind_two_dashes_a_word_is_what_it_is(run: Run, worked: Path) -> None:
    assert uids(run, "--", "--force") == uids(run, "flag", "--", "--force") == ["toy:maker"]
    assert run("search", "--force").exit_code == 2


def test_a_value_with_a_dash_stays_the_value_of_its_option(run: Run, worked: Path) -> None:
    result = run("search", "x", "--limit", "-5")
    assert result.exit_code == 2
    assert "-5" in result.stderr


def test_search_gives_programs_the_documented_shape(run: Run, worked: Path) -> None:
    answer = data(run, "search", "fix")
    assert list(answer) == [
        "query",
        "total",
        "missing",
        "ignored",
        "hints",
        "partial",
        "damaged",
        "seconds",
        "hits",
    ]
    assert (answer["query"], answer["total"], answer["missing"], answer["partial"]) == (
        "fix",
        1,
        [],
        False,
    )
    (hit,) = answer["hits"]
    assert (hit["uid"], hit["agent"], hit["title"], hit["repo"]) == (
        "toy:alpha",
        "toy",
        "Fix the build",
        "alpha",
    )
    event = hit["events"][0]
    assert set(event) == {
        "ref", "seq", "kind", "tool", "ts", "is_error", "snippet", "marks", "is_injected"
    }  # fmt: skip
    assert (event["ref"], event["snippet"]) == ("toy:alpha#0", "please fix the build")
    assert [event["snippet"][first:last] for first, last in event["marks"]] == ["fix"]


def test_search_gives_events_alone(run: Run, worked: Path) -> None:
    answer = data(run, "search", "about", "--events")
    assert "hits" not in answer
    assert {event["ref"] for event in answer["events"]} >= {"toy:beta#2", "toy:beta#4"}
    assert {event["uid"] for event in answer["events"]} == {"toy:beta"}
    result = run("search", "about", "--events", "-n", "1")
    assert len(result.stdout.splitlines()) == 1
    assert result.stdout.startswith("  beta#")
    assert "the best 1 event" in result.stderr


def test_search_gives_as_many_events_of_a_session_as_there_are(run: Run, worked: Path) -> None:
    (worked / "many.jsonl").write_bytes(
        b"".join(line(s="many", id=f"n{n}", text=f"walnut {n}") for n in range(8))
    )
    run("sync")
    assert [event["seq"] for event in data(run, "search", "walnut", "--events")["events"]] == list(
        range(8)
    )
    assert [
        event["seq"] for event in data(run, "search", "--regex", "walnut", "--events")["events"]
    ] == list(range(8))
    assert len(data(run, "search", "walnut", "--events", "-n5")["events"]) == 5
    assert (
        "the best 5 events; -n 25 shows more" in run("search", "walnut", "--events", "-n5").stderr
    )
    assert "shows more" not in run("search", "walnut", "--events", "-n8").stderr
    assert len(data(run, "search", "walnut")["hits"][0]["events"]) == 3


def test_search_sorts_by_time_when_asked(run: Run, worked: Path) -> None:
    assert uids(run, "the", "--sort", "newest")[0] == "toy:talker"
    assert run("search", "the", "--sort", "beauty").exit_code == 2


def test_search_says_how_many_more_there_are(run: Run, worked: Path) -> None:
    assert run("search", "the", "-n", "1").stderr == "1 of 3 sessions; -n 3 shows all\n"
    assert run("search", "the", "-n", "3").stderr == ""
    for n in range(8):
        (worked / f"w{n}.jsonl").write_bytes(line(s=f"w{n}", id=f"w{n}", text="walnut", at=n))
    run("sync")
    assert run("search", "walnut", "-n", "1").stderr == "1 of 8 sessions; -n 5 shows more\n"
    assert (
        run("search", "--regex", "walnut", "-n", "2").stderr.splitlines()[-1]
        == "the newest 2 sessions; -n 10 looks further"
    )


def test_search_says_why_it_does_not_know_how_many_there_are(run: Run, worked: Path) -> None:
    for n in range(3):
        (worked / f"w{n}.jsonl").write_bytes(
            line(s=f"w{n}", id=f"w{n}", kind="tool_result", tool="Sh", text="walnut", at=n)
        )
    run("sync")
    said = run("search", "walnut", "tool:Sh", "-n", "1").stderr
    assert (
        said == "1 of at most 3 sessions (only those shown were checked for phrases and filters);"
        " -n 3 shows all\n"
    )


def test_search_says_which_word_no_session_had(run: Run, worked: Path) -> None:
    result = run("search", "build", "xyzzy")
    assert result.exit_code == 0
    assert "alpha" in result.stdout
    assert "  without xyzzy" in result.stdout.splitlines()
    assert "no session has all words; missing: xyzzy" in result.stderr
    answer = data(run, "search", "build", "xyzzy")
    assert answer["missing"] == answer["hits"][0]["missing"] == ["xyzzy"]


def test_search_says_when_it_did_not_look_everywhere(
    run: Run, worked: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer = engine.Answer(
        hits=[], total=9, missing=[], ignored=["?!"], is_partial=True, seconds=0.1
    )
    found = data(run, "search", "build")["hits"][0]

    def partial(store: Any, text: str, **options: Any) -> engine.Answer:
        line = next(line for line in store.sessions.select(Filter()) if line.uid == found["uid"])
        answer.hits = [engine.Hit(session=line, score=1.0, events=[])]
        return answer

    monkeypatch.setattr(engine, "search", partial)
    said = run("search", "build").stderr
    assert "not everything was looked at" in said
    assert "ignored: ?!" in said


def test_nothing_found_is_exit_1_and_says_what_to_try(run: Run, worked: Path) -> None:
    result = run("search", "xyzzy")
    assert (result.exit_code, result.stdout) == (1, "")
    assert (
        result.stderr
        == "nothing found\nno session has xyzzy\ntry begin* for all words that begin so, or"
        " --regex\n"
    )
    said = run("search", "xyzzy", "plugh").stderr
    assert "no session has any of: xyzzy, plugh\ntry fewer words" in said
    result = run("search", "xyzzy", "--json")
    assert result.exit_code == 1
    assert json.loads(result.stdout)["hits"] == []


def test_an_empty_store_says_so(run: Run, home: Path, toy: Toy) -> None:
    run("sync")
    result = run("search", "xyzzy")
    assert result.exit_code == 1
    assert result.stderr.startswith("runlore: the store is empty; ")


@pytest.mark.parametrize(
    "words", [[], [""], ["after:soon"], ["is:blue", "x"], ["x", "--regex", "y"], ["--regex", ""]]
)
def test_a_question_that_makes_no_sense_is_wrong_usage(
    run: Run, worked: Path, words: list[str]
) -> None:
    result = run("search", *words)
    assert (result.exit_code, result.stdout) == (2, "")


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["after:soon"], "after:soon is not a time"),
        (["kind:nope", "build"], "there is no kind 'nope'; there are: assistant_msg, "),
        (["agent:nope", "build"], "there is no agent 'nope'; there are: toy"),
        (["--regex", "build", "agent:nope"], "there is no agent 'nope'; there are: toy"),
        (["file:", "build"], "file: has no value"),
        (["OR"], "OR alone"),
        (["--regex", "(foo"], "missing ): (foo\n"),
    ],
)
def test_what_is_wrong_with_a_query_is_said_in_one_line(
    run: Run, worked: Path, words: list[str], reason: str
) -> None:
    result = run("search", *words)
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith("runlore: ")
    assert reason in result.stderr
    assert result.stderr.count("\n") == 1


def test_an_unknown_agent_is_named_as_ls_does(run: Run, worked: Path) -> None:
    told = run("search", "agent:nope", "build").stderr.removeprefix("runlore: ").strip()
    assert told in run("ls", "--agent", "nope").stderr


def test_an_unknown_session_is_named_as_show_does(run: Run, worked: Path) -> None:
    result = run("search", "session:nope", "build")
    assert (result.exit_code, result.stderr) == (
        1,
        "runlore: no session 'nope'; `runlore ls` lists them\n",
    )
    assert result.stderr == run("show", "nope").stderr


def test_search_says_which_field_chooses_nothing(run: Run, worked: Path) -> None:
    result = run("search", "tool:Nope", "build")
    told = ["nothing found", "no event matches tool:Nope", "without tool:Nope there is 1 session"]
    assert (result.exit_code, result.stderr.splitlines()) == (1, told)
    told = ["nothing found", "no session matches after:7d", "without after:7d there is 1 session"]
    assert run("search", "after:7d", "build").stderr.splitlines() == told
    assert run("search", "repo:nope", "xyzzy").stderr.splitlines()[1:] == [
        "no session has xyzzy",
        "no session matches repo:nope",
    ]
    assert (
        run("search", "after:2026-01-01T00:01", "build").stderr
        == "nothing found\nwithout after:2026-01-01T00:01 there is 1 session\n"
    )
    assert (
        run("search", "--regex", "build", "tool:Nope").stderr
        == "nothing found\nno event matches tool:Nope\n(?i) finds capitals too\n"
    )
    assert data(run, "search", "tool:Nope", "xyzzy")["hints"] == ["no event matches tool:Nope"]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["--repo", "maker"], ["toy:maker"]),
        (["--repo", "alpha"], []),
        (["--agent", "Toy", "--branch", "mai"], ["toy:maker", "toy:talker"]),
        (["--since", "2026-01-01T00:06Z"], ["toy:talker"]),
        (["--until", "2026-01-01T00:06Z"], ["toy:maker"]),
        (["--on", "2026-01"], ["toy:maker", "toy:talker"]),
        (["--on", "2026-01-02"], []),
        (["--model", "nothing-like-it"], []),
        (["--machine", "elsewhere"], []),
        (["--machine", "here"], ["toy:maker", "toy:talker"]),
        (["--author", "somebody"], []),
        (["--outcome", "unknown"], ["toy:talker"]),
        (["--outcome", "success"], []),
        (["--quality", "automated"], []),
    ],
)
def test_search_is_narrowed_by_the_options_of_every_listing(
    run: Run,
    worked: Path,
    options: list[str],
    expected: list[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("RUNLORE_MACHINE", "here")
    assert sorted(uids(run, "rename", *options)) == expected
    found = data(run, "search", "--regex", "(?i)rename", *options)["hits"]
    assert sorted(hit["uid"] for hit in found) == expected


def test_search_says_which_option_chooses_nothing(run: Run, worked: Path) -> None:
    assert run("search", "build", "--repo", "nope").stderr.splitlines() == [
        "nothing found",
        "no session matches --repo nope",
        "without --repo nope there is 1 session",
    ]
    assert run("search", "build", "--on", "2020").stderr.splitlines() == [
        "nothing found",
        "no session matches --on 2020",
        "without --on 2020 there is 1 session",
    ]
    assert data(run, "search", "build", "--since", "last year", "--until", "2020")["hints"][:1] == [
        "no session matches --until 2020"
    ]
    result = run("search", "build", "repo:alpha", "--repo", "beta")
    assert result.exit_code == 2
    assert "repo: is both in the query and in the filters" in result.stderr
    assert run("search", "build", "--on", "today", "--since", "3d").exit_code == 2


def test_options_alone_choose_sessions(run: Run, worked: Path) -> None:
    assert uids(run, "--repo", "maker") == ["toy:maker"]
    assert run("search").exit_code == 2
    text = run("search", "--help").stdout
    assert text.startswith("Usage: runlore search [OPTIONS] [WORD]...\n")
    assert "Without words, the options choose sessions." in " ".join(text.split())


def test_words_that_only_a_field_hides_are_not_called_missing(run: Run, worked: Path) -> None:
    said = run("search", "tool:Sh", "rejected", "poem").stderr
    assert said == "no session that the fields choose has all words; missing: poem\n"
    assert (
        run("search", "tool:Sh", "poem").stderr
        == "nothing found\nwithout tool:Sh there is 1 session\n"
    )


def test_search_says_what_it_took_for_words(run: Run, worked: Path) -> None:
    assert "tol: is no field; did you mean tool:?" in run("search", "tol:Sh", "rejected").stderr
    assert "use -snow" in run("search", "about", "NOT", "snow").stderr
    assert data(run, "search", "fix", "AND", "build")["hints"] == [
        "AND is looked for as a word; leave it out: every word must be there"
    ]
    assert "ignored: ++; --regex finds signs" in run("search", "about", "C++").stderr
    assert data(run, "search", "fix", "build")["hints"] == []


def test_here_is_where_the_person_is(
    run: Run, worked: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = tmp_path / "here"
    (here / "below").mkdir(parents=True)
    facts = Facts(native_session_id="here", cwd=str(here / "below"))
    plain = Toy.normalize

    def moved(self: Toy, *rest: Any) -> Any:
        found = plain(self, *rest)
        found.facts.update({uid: facts for uid in found.facts if uid == "toy:here"})
        return found

    monkeypatch.setattr(Toy, "normalize", moved)
    (worked / "here.jsonl").write_bytes(line(s="here", id="h", text="walnut", at=700))
    (worked / "there.jsonl").write_bytes(line(s="there", id="t", text="walnut", at=700))
    run("sync", "--workers", "0")
    monkeypatch.chdir(here)
    assert uids(run, "cwd:.", "walnut") == uids(run, "cwd:./below", "walnut") == ["toy:here"]
    assert [hit["uid"] for hit in data(run, "search", "--regex", "waln.t", "cwd:.")["hits"]] == [
        "toy:here"
    ]
    assert {line["uid"] for line in json.loads(run("ls", "--cwd", ".", "--json").stdout)} == {
        "toy:here"
    }
    monkeypatch.chdir(tmp_path / "home")
    assert (
        run("search", "cwd:.", "walnut").stderr.splitlines()[1]
        == f"no session matches cwd:{tmp_path / 'home'}"
    )


def test_a_damaged_text_is_not_shown_and_said(run: Run, worked: Path, home: Path) -> None:
    db = apsw.Connection(str(home / ".runlore" / "runlore.db"))
    of_alpha = "where session = (select number from sessions where uid = 'toy:alpha')"
    db.execute(f"update segments set body = cast(x'00' || substr(body, 2) as blob) {of_alpha}")
    db.close()
    result = run("search", "fix")
    assert result.exit_code == 0
    assert result.stdout.split()[0] == "alpha"
    assert len(result.stdout.splitlines()) == 1
    assert (
        "the store is damaged, and not all of its texts can be read; run `runlore doctor`"
        in result.stderr
    )
    assert data(run, "search", "fix")["damaged"]
    assert not data(run, "search", "poem")["damaged"]


def test_search_finds_a_pattern(run: Run, worked: Path) -> None:
    answer = data(run, "search", "--regex", r"Dri[a-z], dr.p")
    assert [hit["uid"] for hit in answer["hits"]] == ["toy:beta"]
    assert answer["query"] == r"Dri[a-z], dr.p"
    assert run("search", "--regex", "-am 'Re").stdout.startswith("maker ")
    assert [
        hit["uid"] for hit in data(run, "search", "--regex", "flag$", "kind:user_msg")["hits"]
    ] == []
    assert "not everything was looked at" in run("search", "--regex", "e", "-n", "1").stderr
    assert run("search", "--regex", "xy+zzy").exit_code == 1
    assert run("search", "--regex", "(").exit_code == 2


def test_the_words_are_marked_on_a_terminal_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    event = EventHit(
        seq=7,
        kind="user_msg",
        ts=None,
        tool=None,
        is_error=False,
        snippet="fix the build",
        marks=[(0, 3), (8, 13)],
    )
    assert list(hits.event_lines(["a#7"], [event])) == ["  a#7  user_msg  fix the build"]
    monkeypatch.setattr("runlore.cli.output.is_colored", lambda stream: True)
    (shown,) = hits.event_lines(["a#7"], [event])
    assert "\x1b[1;33mfix\x1b[0m the \x1b[1;33mbuild\x1b[0m" in shown


def test_a_mark_goes_on_where_its_line_is_broken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("runlore.cli.output.is_colored", lambda stream: True)
    lines = [f"a {hits.OPEN}long", f"mark{hits.CLOSE} b {hits.OPEN}cut…"]
    assert list(hits.paint_marks(lines)) == [
        "a \x1b[1;33mlong\x1b[0m",
        "\x1b[1;33mmark\x1b[0m b \x1b[1;33mcut…\x1b[0m",
    ]


def test_marks_stay_on_their_words_when_escapes_are_taken_out() -> None:
    snippet = f"\x9b31m{hits.OPEN}evil\u202e build \x1b]0;x\x07 now"
    at = snippet.index("build")
    assert hits.with_marks(snippet, [(at, at + 5)]) == f"evil {hits.OPEN}build{hits.CLOSE}  now"


@pytest.mark.parametrize("width", [20, 60, 100, 200])
def test_no_line_is_wider_than_the_screen(
    run: Run, worked: Path, monkeypatch: pytest.MonkeyPatch, width: int
) -> None:
    (worked / "wide.jsonl").write_bytes(
        line(s="wide", id="w", text="wide " + "中文字 " * 200 + "x" * 500, at=600)
    )
    run("sync")
    monkeypatch.setenv("COLUMNS", str(width))
    lines = [
        *run("search", "wide").stdout.splitlines(),
        *run("commit", SHA[:7]).stdout.splitlines(),
    ]
    # They are never cut, and have a line of their own.
    names = [line for line in lines if re.fullmatch(r"  \S+#\d+  \S+", line)]
    assert max(cells(line) for line in lines if line not in names) <= max(width, 24)


# ── commit ────────────────────────────────────────────────────────────────────────────────────────
@pytest.mark.parametrize("name", ["1a2b", "1a2b3c4", "1A2B3C4D", SHA])
def test_commit_tells_who_made_it_from_who_mentions_it(run: Run, worked: Path, name: str) -> None:
    answer = data(run, "commit", name)
    assert list(answer) == ["sha", "total", "partial", "sessions"]
    found = [
        (session["uid"], session["made"])
        for session in answer["sessions"]
        if session["uid"] != "toy:reader"
    ]
    assert found == [("toy:maker", True), ("toy:talker", False)]
    made = answer["sessions"][0]["events"][0]
    assert made["ref"] == "toy:maker#4"
    assert made["snippet"] == "[main 1a2b3c4] Rename the flag"
    assert [made["snippet"][first:last] for first, last in made["marks"]] == ["1a2b3c4"]


def test_commit_knows_who_made_it_when_the_text_has_left(run: Run, worked: Path) -> None:
    before = data(run, "commit", SHA)["sessions"][0]
    run("evict", "maker", "--yes")
    after = data(run, "commit", SHA)["sessions"][0]
    assert after["evicted_at"] is not None
    assert (after["uid"], after["made"], after["events"][0]["ref"]) == (
        "toy:maker",
        True,
        before["events"][0]["ref"],
    )


def test_commit_is_not_led_astray_by_other_names(run: Run, worked: Path) -> None:
    assert "toy:reader" not in {session["uid"] for session in data(run, "commit", SHA)["sessions"]}
    assert run("commit", "1a2b3c5").exit_code == 1


def test_commit_speaks_to_people(run: Run, worked: Path) -> None:
    lines = run("commit", SHA[:12]).stdout.splitlines()
    assert lines[0] == "made in"
    assert lines[1].startswith("maker  toy  2026-01-01")
    assert lines[2] == "  maker#4  tool_result/Sh  [main 1a2b3c4] Rename the flag"
    assert lines[4] == "mentioned in"
    assert lines[5].startswith("talker")
    assert "1 of 2 sessions" in run("commit", SHA, "-n", "1").stderr


def test_a_commit_that_nobody_knows_is_exit_1(run: Run, worked: Path) -> None:
    result = run("commit", "fffffff")
    assert (result.exit_code, result.stdout) == (1, "")
    assert "no session has the commit fffffff" in result.stderr
    assert run("commit", "fffffff", "--json").exit_code == 1
    for wrong in ("abc", "main", "g" * 8, "a" * 41):
        assert run("commit", wrong).exit_code == 2


@pytest.mark.parametrize(
    ("command", "output", "is_made"),
    [
        ("git commit -m x", "[main 1a2b3c4] x", True),
        ("git commit -m x", "[main (root-commit) 1a2b3c4] x", True),
        ("git -c a=b -C /x commit -m x", "[detached HEAD 1a2b3c4d] x", True),
        ("cd /x && git cherry-pick abc", "[topic 1a2b3c4] x", True),
        ("git commit -m x", "[main 7654321] x\n1a2b3c4 earlier", False),
        (
            "git commit -qm 'Fix it' && git log --oneline -2",
            "1a2b3c4 Fix it\n7654321 Earlier",
            True,
        ),
        (
            "git commit -qm 'Fix it' && git log --oneline -2",
            "1a2b3c4 (HEAD -> main) Fix it\n7654321 Earlier",
            True,
        ),
        ("git commit -qm 'Fix it' && git log --oneline -2", "7654abc Fix it\n1a2b3c4 Fix", False),
        (
            "git commit -q -F - <<E\nFix it\n\nWhy\nE\ngit log --oneline",
            "ok 0.2s\n1a2b3c4 Fix it",
            True,
        ),
        ("git commit -q --amend --no-edit; git rev-parse HEAD", SHA, True),
        ("git commit -q --amend --no-edit; git push", "   7654abc..1a2b3c4  main -> main", True),
        ("git commit -q --amend --no-edit; git push", "   1a2b3c4..7654abc  main -> main", False),
        (
            "git add . && GIT_EDITOR=true git rebase --continue 2>&1 | tail",
            "[detached HEAD 1a2b3c4] x",
            True,
        ),
        ("git merge --continue", "[main 1a2b3c4] x", True),
        ("git merge origin/main", "Updating 7654321..1a2b3c4\nFast-forward", False),
        ("git rebase main", "HEAD is now at 1a2b3c4 x", False),
        ("git log --oneline", "1a2b3c4 Fix it", False),
        ("git show 1a2b3c4 # before git-commit", "commit 1a2b3c4", False),
        ("cat git commit", "", False),
    ],
)
def test_a_commit_is_made_where_the_output_of_git_commit_shows_it(
    command: str, output: str, is_made: bool
) -> None:
    assert trace.makes_commit(command, output, SHA) is is_made
    assert not trace.makes_commit(command, output, SHA, is_error=True) or "] x" in output


def test_short_names_are_told_from_words_and_numbers() -> None:
    def has(text: str, sha: str) -> bool:
        return next(trace.find_sha(text, sha), None) is not None

    assert has("see 1a2b, or (1A2B3C4)", "1a2b")
    assert not has("dead code", "dead")
    assert has("deadbee was it", "dead")
    assert not has("line 1262 of 1262000", "1262")
    assert has("at 1262000", "1262000")
    assert not has(UUID, "1a2b3c4d")
    assert not has(f"x_{SHA} {SHA}0 z{SHA}", SHA)


def test_finding_names_takes_linear_time() -> None:
    assert not trace.makes_commit("git -c " * 100_000, "[" * 100_000 + "a" * 100_000, SHA)
    assert next(trace.find_sha("1a2b3c4" * 100_000, SHA), None) is None


# ── file ──────────────────────────────────────────────────────────────────────────────────────────
@pytest.mark.parametrize(
    "path",
    [
        "src/app/main.py",
        "app/main.py",
        "*/app/main.py",
        "SRC/app/Main.py",
        "/work/maker/src/app/main.py",
    ],
)
def test_file_finds_who_touched_it_the_last_first(run: Run, worked: Path, path: str) -> None:
    answer = data(run, "file", path)
    assert list(answer) == ["path", "total", "elsewhere", "partial", "sessions"]
    found = [
        (session["uid"], session["actions"], session["last_ref"]) for session in answer["sessions"]
    ]
    assert found == [
        ("toy:reader", {"read": 1}, "toy:reader#1"),
        ("toy:maker", {"edit": 2}, "toy:maker#2"),
    ]
    assert answer["sessions"][1]["files"] == ["/work/maker/src/app/main.py"], (
        "a path from the session's folder is made whole"
    )
    assert answer["path"] == (path if path.startswith("/") else None)


def test_file_tells_what_commands_changed(run: Run, worked: Path) -> None:
    shell = {"kind": "tool_call", "tool": "Sh", "action": "shell"}
    (worked / "sheller.jsonl").write_bytes(
        line(s="sheller", id="s1", **shell, call="k1", text="sed -i s/a/b/ app/conf.ini", at=800)
        + line(s="sheller", id="s2", kind="tool_result", tool="Sh", call="k1", text="", at=801)
        + line(s="sheller", id="s3", **shell, text="cd app && mv conf.ini conf.toml", at=802)
        + line(s="sheller", id="s4", **shell, text="cat app/conf.ini", at=803)
        + line(s="sheller", id="s5", kind="assistant_msg", text="echo > app/conf.ini", at=804)
    )
    assert run("sync").exit_code == 0
    [found] = data(run, "file", "app/conf.ini")["sessions"]
    assert (found["uid"], found["actions"]) == ("toy:sheller", {"command": 2})
    assert found["last_ref"] == "toy:sheller#2"
    assert found["files"] == ["/work/sheller/app/conf.ini"]
    assert data(run, "file", "app/conf.toml")["sessions"][0]["actions"] == {"command": 1}
    assert "COMMANDS" in run("file", "app/conf.ini").stdout.splitlines()[0]
    assert run("evict", "sheller", "--yes").exit_code == 0
    [found] = data(run, "file", "app/conf.ini")["sessions"]
    assert found["actions"] == {"command": 2}, "its digest knows"


def test_the_home_folder_of_another_machine_is_not_taken_for_ones_own(
    run: Run, worked: Path, home: Path, tmp_path: Path
) -> None:
    shell = {"kind": "tool_call", "tool": "Sh", "action": "shell", "text": "touch ~/notes/todo.md"}
    there = tmp_path / "laptop"
    there.mkdir()
    (worked / "near.jsonl").write_bytes(line(s="near", id="n1", **shell, at=800))
    (there / "far.jsonl").write_bytes(line(s="far", id="f1", **shell, at=801))
    with (home / ".runlore/config.toml").open("a") as config:
        config.write(
            f"[sources.toy]\nalso = [{{ path = {json.dumps(str(there))}, machine = 'laptop' }}]\n"
        )
    assert run("sync").exit_code == 0
    own = os.path.expanduser("~/notes/todo.md")

    def files() -> dict[str, list[str]]:
        found = data(run, "file", "*/notes/todo.md")["sessions"]
        return {session["uid"]: session["files"] for session in found}

    assert files() == {"toy:near": [own], "toy:far": ["~/notes/todo.md"]}
    assert run("evict", "far", "--yes").exit_code == 0
    assert files() == {"toy:near": [own], "toy:far": ["~/notes/todo.md"]}, "its digest knows"


def test_file_by_its_name_alone_is_any_file_of_that_name(run: Run, worked: Path) -> None:
    answer = data(run, "file", "main.py")
    assert answer["sessions"][0]["files"] == ["/work/maker/src/app/main.py", "/work/other/main.py"]
    assert run("file", "ain.py").exit_code == 1, "names are whole"


def test_file_is_seen_from_here(
    run: Run, worked: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = tmp_path / "here"
    here.mkdir()
    monkeypatch.chdir(here)
    path = str(here / "main.py")
    (worked / "here.jsonl").write_bytes(
        line(
            s="here",
            id="h",
            kind="tool_call",
            tool="Rd",
            action="read",
            files=[path],
            text=path,
            at=700,
        )
    )
    run("sync")
    answer = data(run, "file", "main.py")
    assert (answer["path"], answer["elsewhere"]) == (path, 2)
    assert [session["uid"] for session in answer["sessions"]] == ["toy:here"]
    assert (
        "2 other sessions touched other files whose path ends so: '*/main.py'"
        in run("file", "./main.py").stderr
    )
    assert data(run, "file", "../here/main.py")["path"] == path
    assert len(data(run, "file", "*/main.py")["sessions"]) == 3


def test_file_lists_for_people(run: Run, worked: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    head, reader, maker = run("file", "main.py").stdout.splitlines()
    assert head.split() == ["LAST", "AGENT", "WHEN", "EDITS", "READS", "REPO", "FILE", "TITLE"]
    assert reader.split()[:4] == ["reader#2", "toy", "2026-01-01", "2"]
    assert maker.split()[:4] == ["maker#2", "toy", "2026-01-01", "2"]
    assert maker.index("2", 30) < reader.index("2", 30), (
        "edits and reads are in columns of their own"
    )
    assert re.search(r"src/app/main\.py +Rename a flag$", maker)
    monkeypatch.setenv("COLUMNS", "60")
    assert max(map(len, run("file", "main.py").stdout.splitlines())) <= 60


def test_on_a_narrow_screen_titles_shrink_before_files_leave(
    run: Run, worked: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = ["LAST", "AGENT", "WHEN", "EDITS", "READS", "REPO", "FILE", "TITLE"]
    found = {}
    for width in range(100, 60, -1):
        monkeypatch.setenv("COLUMNS", str(width))
        head, *rows = run("file", "main.py").stdout.splitlines()
        assert max(map(len, [head, *rows])) <= width
        found[width] = head.split(), any(row.endswith("…") for row in rows)
    assert found[100] == (whole, False)
    assert (whole, True) in found.values(), "a title is cut while every column is there"


def test_file_says_how_many_there_are_and_how_to_see_them(run: Run, worked: Path) -> None:
    assert "1 of 2 sessions; -n 2 shows them all\n" in run("file", "*/main.py", "-n", "1").stderr


def test_file_can_be_told_not_to_page(
    run: Run, worked: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paged: list[bool] = []
    monkeypatch.setattr("runlore.cli.commands.file.page", lambda lines, pager: paged.append(pager))
    run("file", "main.py")
    run("file", "main.py", "--no-pager")
    assert paged == [True, False]


def test_a_file_that_nobody_touched_is_exit_1(run: Run, worked: Path) -> None:
    result = run("file", "lib/none.py")
    assert (result.exit_code, result.stdout) == (1, "")
    assert "no session touched lib/none.py" in result.stderr
    assert "'*/none.py'" in result.stderr
    assert run("file", "none.py", "--json").exit_code == 1
    assert run("file", "/").exit_code == 2


def test_the_end_of_a_long_path_is_what_is_shown(
    run: Run, worked: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = "/very/long/" + "folder/" * 20 + "main.py"
    (worked / "deep.jsonl").write_bytes(
        line(s="deep", id="d", kind="tool_call", action="read", files=[path], text=path, at=800)
    )
    run("sync")
    monkeypatch.setenv("COLUMNS", "120")
    assert re.search(r"…\S*/folder/main\.py  ", run("file", "main.py").stdout)


# ── all three ─────────────────────────────────────────────────────────────────────────────────────
def test_they_look_at_no_more_than_they_may(
    run: Run, worked: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trace, "MAX_SEGMENTS", 1)
    assert data(run, "commit", SHA)["partial"]
    assert [session["uid"] for session in data(run, "commit", SHA)["sessions"]] == ["toy:maker"], (
        "the oldest are looked at: one of them made it"
    )
    assert "not everything was looked at" in run("commit", SHA).stderr
    assert data(run, "file", "main.py")["partial"]
    assert "not everything was looked at" in run("file", "main.py").stderr
    assert data(run, "file", "/work/other/main.py")["partial"], (
        "a path may be written from where an agent is"
    )
    monkeypatch.setattr(trace, "MAX_SEGMENTS", 9)
    assert not data(run, "file", "/work/other/main.py")["partial"]


def test_no_escape_of_a_transcript_reaches_the_terminal(run: Run, worked: Path) -> None:
    body = f"{POISON} needle {SHA[:7]} {POISON}"
    bad = "/work/\x1b[31mbad\x07\u202e/main.py"
    (worked / "poison.jsonl").write_bytes(
        line(
            s="poison",
            id="p1",
            kind="tool_call",
            tool=f"T{POISON}",
            action="read",
            files=[bad],
            text=f"{bad} {body}",
            at=900,
        )
        + line(s="poison", id="p2", kind="tool_result", text=f"\x1b[1m{body}", error=True, at=901)
        + line(s="poison", title=f"{POISON} title")
    )
    run("sync")
    for words in (
        ["search", "needle"],
        ["search", "needle", "--events"],
        ["search", "needle", "--json"],
        ["search", "needle", "--sort", "newest"],
        ["search", f"needle {POISON}"],
        ["search", f"after:{POISON}"],
        ["commit", SHA],
        ["commit", SHA, "--json"],
        ["commit", POISON],
        ["file", "main.py"],
        ["file", "main.py", "--json"],
        ["file", POISON],
    ):
        result = run(*words)
        assert not OBEYED.search(result.stdout + result.stderr), words
    assert "needle" in run("search", "needle").stdout


def test_a_search_imports_nothing_that_it_does_not_need(worked: Path) -> None:
    code = (
        "import sys; from runlore.cli import cli\n"
        "try: cli.main(['search', 'build'])\n"
        "except SystemExit: print(*sys.modules, file=sys.stderr)"
    )
    loaded = set(python(code).stderr.split())
    assert "runlore.cli.commands.search" in loaded
    assert (
        not {"rich", "watchfiles", "shutil", "runlore.sync.pipeline", "runlore.redact.engine"}
        & loaded
    )


def test_related_sessions_are_listed_with_what_both_have(worked: Path, run: Run) -> None:
    answer = json.loads(run("related", "maker", "--json").stdout)
    assert answer["uid"] == "toy:maker"
    assert [one["uid"] for one in answer["sessions"]]
    assert all(one["why"] for one in answer["sessions"])
    assert run("related", "nobody").exit_code


def test_explain_says_what_a_score_is_made_of(worked: Path, run: Run) -> None:
    assert "score" not in run("search", "rename", "the", "flag").stdout
    assert re.search(
        r"score [0-9.]+ = .*words", run("search", "--explain", "rename", "flag").stdout
    )
