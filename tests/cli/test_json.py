"""The command line as agents use it: what --json prints, what chooses from it, and what becomes of
errors."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from datetime import UTC, datetime
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin

import click
import msgspec
import pytest
from msgspec import UnsetType

from runlore import config as settings
from runlore.answers import fields_of, is_list, is_open, is_struct
from runlore.cli import cli, docs, watching
from runlore.cli.commands import autostart
from runlore.cli.options import as_json
from runlore.cli.output import write_json
from runlore.cli.selecting import command_line, parse_fields, parse_selection, select_fields
from runlore.errors import RunloreError
from runlore.lessons import Lesson, deliver
from runlore.lessons.shelf import Shelf
from runlore.live.log import SessionStore
from runlore.store import SessionLine, open_store
from runlore.sync import pipeline
from runlore.text import tokens
from runlore.usage.answers import UsageReport
from tests.cli.conftest import Run
from tests.cli.test_live import orphan
from tests.test_prices import listed, site

__all__ = ["site"]  # a fixture

DECLARED = docs.answers()

ANSWERS: dict[tuple[str, str], str] = {
    ("agents", ""): "agents",
    ("autostart", ""): "autostart on --dry-run",
    ("backup", ""): "backup copy.db --force",
    ("commit", ""): "commit 1a2b3c4d",
    ("copy", ""): "copy copied.db other.db",
    ("demo", ""): "demo --home other",
    ("doctor", ""): "doctor",
    ("errors", ""): "errors --least 1",
    ("export", ""): "export latest:shop-api -o session.md --force",
    ("evict", ""): "evict latest --force-unanalyzed",
    ("evict", "--back"): "evict latest:weather-cli --back",
    ("file", ""): "file */cart.py",
    ("fix", ""): "fix 'failed test: a::test_checkout_expires_cart' -n 9",
    ("forget", ""): "forget latest:weather-cli",
    ("hooks install", ""): "hooks install claude --dry-run",
    ("hooks remove", ""): "hooks remove claude --dry-run",
    ("hooks status", ""): "hooks status",
    ("lessons add", ""): "lessons add --when p --do r --evidence latest",
    ("lessons approve", ""): "lessons approve abc",
    ("lessons edit", ""): "lessons edit abc --repo shop",
    ("lessons list", ""): "lessons list --all",
    ("lessons merge", ""): "lessons merge abc def",
    ("lessons propose", ""): "lessons propose",
    ("lessons distill", ""): "lessons distill --dry-run",
    ("lessons reject", ""): "lessons reject abc",
    ("lessons render", ""): "lessons render --dry-run",
    ("lessons retire", ""): "lessons retire abc",
    ("lessons show", ""): "lessons show abc",
    ("live append", ""): """live append talk-1 '{"type": "note", "payload": {}}'""",
    ("live checkpoints", ""): "live checkpoints work-1",
    ("live checkpoints", "--compare"): "live checkpoints work-1 --compare cp_one cp_two",
    ("live checkpoints", "--prune"): "live checkpoints work-1 --prune 1",
    ("live clear", ""): "live clear talk-1",
    ("live compact", ""): "live compact talk-1 'so far'",
    ("live delete", ""): "live delete gone",
    ("live fork", ""): "live fork talk-1",
    ("live import", ""): "live import old",
    ("live ls", ""): "live ls",
    ("live recover", ""): "live recover --dry-run",
    ("live retitle", ""): "live retitle talk-1 'Another title'",
    ("live rewind", ""): "live rewind talk-1 0",
    ("live show", ""): "live show talk-1",
    ("live state", ""): "live state work-1",
    ("live state", "--history"): "live state work-1 --history",
    ("live tail", ""): "live tail talk-1",
    ("ls", ""): "ls --all-subagents",
    ("mark", ""): "mark latest --tag seen",
    ("measure", ""): "measure",
    ("mcp install", ""): "mcp install codex --dry-run",
    ("mcp remove", ""): "mcp remove codex --dry-run",
    ("mcp status", ""): "mcp status",
    ("patterns", ""): "patterns --least 1",
    ("related", ""): "related runlore:talk-1",
    ("resume", ""): "resume latest:shop-api",
    ("retro", ""): "retro --days 3650",
    ("search", ""): "search test -n 100",
    ("search", "--events"): "search test --events -n 100",
    ("serve", ""): "serve --once --port 0",
    ("secrets", ""): "secrets",  # what was planted by `fill`
    ("secrets", "--check"): "secrets --check",
    ("show", ""): "show latest:shop-api",
    ("show", "--event"): "show latest:shop-api#3",
    ("show", "--context"): "show latest:shop-api --context 20",
    ("show", "--digest"): "show latest:shop-api --digest",
    ("skills", ""): "skills",
    ("skills", "--history"): "skills --history talk-1",
    ("sync", ""): "sync",
    ("sync", "--watch"): "sync --watch",
    ("up", ""): "up --once --port 0 --no-sync",
    ("usage", ""): "usage --by session",
    ("usage", "--explain"): "usage --explain latest:shop-api",
    ("usage", "--check"): "usage --check",
    ("usage", "--wasted"): "usage --wasted",
    ("usage", "--reprice"): "usage --reprice",
    ("usage", "--refresh-prices"): "usage --refresh-prices",
}
"""A call for every form of every command."""

WITH_ITEMS = [
    (key, words)
    for key, words in ANSWERS.items()
    if DECLARED[key[0]][key[1]].items is not None and key[0] != "sync"
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the store is, and a copy of it as it was made: making it takes longer than most
    tests."""
    return tmp_path_factory.mktemp("filled")


@pytest.fixture
def filled(
    run: Run,
    folder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    site: Callable[[bytes], str],
) -> Path:
    """The demo, with live sessions beside it: a conversation with a skill, a run that failed, one
    that lost its process."""
    made, kept = folder / "demo", folder / "kept"
    if kept.exists():
        while made.exists():
            # The index of live sessions, closed behind its reader meanwhile.
            with suppress(FileNotFoundError):
                shutil.rmtree(made)
        shutil.copytree(kept, made)
    else:
        assert run("demo", "--home", str(made)).exit_code == 0
    monkeypatch.setenv("RUNLORE_HOME", str(made))
    if not kept.exists():
        fill(run, made / "live")
        shutil.copytree(made, kept)
    monkeypatch.setenv("RUNLORE_PRICES_URL", site(listed()))
    monkeypatch.chdir(tmp_path)
    shutil.copy(made / "runlore.db", tmp_path / "copied.db")
    (tmp_path / "old").mkdir()
    (tmp_path / "old/messages.jsonl").write_text('{"role": "user", "content": "hello"}\n{ cut\n')
    (tmp_path / "old/meta.json").write_text('{"id": "old-1"}')

    def interrupt(_: list[str]) -> Iterator[bool]:
        raise KeyboardInterrupt

    monkeypatch.setattr(watching, "changes", interrupt)
    monkeypatch.setattr(
        autostart, "start", lambda words: subprocess.CompletedProcess(words, 3, "", "")
    )
    monkeypatch.setattr("sys.platform", "linux")
    return made


def fill(run: Run, live: Path) -> None:
    with SessionStore(live) as store:
        with store.create(id="talk-1", agent="poet", cwd="/work/poems") as session:
            session.append({"role": "user", "content": "see commit 1a2b3c4d5e and test it"})
            call = {"type": "tool_use", "id": "c1", "name": "look_up", "input": {"word": "snow"}}
            session.append(
                {
                    "role": "assistant",
                    "content": [{"type": "text", "text": "half \ud83d of a pair"}, call],
                }
            )
            with (
                session.skills.run("tdd", phase="green", input={"a": 1}) as skill,
                skill.attempt(model="small") as attempt,
            ):
                attempt.output("tried")
                attempt.used(input_tokens=1500, usd=0.5)
                attempt.verified(by="exit_code", command="make", exit_code=1)
        with store.create("Write the report", id="work-1") as session:
            state = session.state
            state.start("report", agent_id="writer")
            state.progress("search", tokens=120_000, retries={"search": 4})
            state.checkpoint("search", {"hits": 3}, next_node="write", id="cp_one")
            state.progress("write", latency_ms=61_000)
            state.checkpoint("write", {"hits": 4, "draft": "x"}, clean=False, id="cp_two")
            state.checkpoint("write", {"hits": 4, "draft": "y"}, id="cp_three")
            state.fail("no paper")
        with store.create(id="careless") as session:
            session.append(
                {
                    "role": "user",
                    "content": "push it with ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8",
                }
            )
        orphan(store, "lost")
        # The command leaves the demo as it is.
        config = settings.load()
        with closing(open_store(config.store)) as made:
            pipeline.sync(made, config, agents=["runlore"], workers=0)
        with store.create(id="later") as session:
            session.append({"role": "user", "content": "not synced yet"})
    deliver.record_delivery(
        live.parent,
        "x",
        datetime(2026, 9, 1, tzinfo=UTC),
        agent="runlore",
        session="x",
        repo="",
        lessons=("abc",),
    )
    for name in ("abc", "def"):
        Shelf(live.parent / "lessons").put(
            Lesson(
                id=name,
                when="it fails",
                do="do this",
                evidence=("runlore:x#1",),
                sessions=3,
            )
        )


def answer(run: Run, words: str, *more: str) -> Any:
    result = run(*shlex.split(words), "--json", *more)
    assert result.exit_code in (0, 1), result.stderr
    assert result.stdout, result.stderr
    return json.loads(result.stdout)


BEFORE = {
    ("evict", "--back"): "evict latest:weather-cli --force-unanalyzed --yes",
    ("live compact", ""): """live append talk-1 '{"type": "message", "payload":
        {"role": "user", "content": "more"}}'""",
    ("live delete", ""): """live append gone '{"type": "note", "payload": {}}'""",
}
"""What must have been done, so that there is something to answer."""


def answers(run: Run, key: tuple[str, str], *more: str) -> list[Any]:
    """What is printed: one value, or of a stream one for each line."""
    if key in BEFORE:
        assert run(*shlex.split(BEFORE[key])).exit_code == 0
    result = run(*shlex.split(ANSWERS[key]), "--json", *more)
    # The log of a live session is not redacted, so its token is still there.
    assert result.exit_code == (1 if key == ("secrets", "--check") else 0), result.stderr
    lines = result.stdout.splitlines()
    assert len(lines) == 1 or DECLARED[key[0]][key[1]].is_stream
    return [json.loads(line) for line in lines]


def error(run: Run, *words: str) -> tuple[int, dict[str, Any]]:
    result = run(*words)
    assert result.stdout == ""
    assert result.stderr.count("\n") == 1
    told = json.loads(result.stderr)
    assert list(told) == ["error"]
    assert list(told["error"]) == ["code", "message", "hint"]
    return result.exit_code, told["error"]


def commands(command: click.Command, name: str = "") -> Iterator[tuple[str, click.Command]]:
    if isinstance(command, click.Group):
        ctx = click.Context(command)
        for below in command.list_commands(ctx):
            found = command.get_command(ctx, below)
            assert found is not None
            yield from commands(found, f"{name} {below}".strip())
    yield name, command


# ── shapes ────────────────────────────────────────────────────────────────────────────────────────
def test_every_command_with_json_has_its_shapes_and_every_shape_is_tried() -> None:
    having = {
        name: each
        for name, each in commands(cli)
        if "is_json" in {param.name for param in each.params}
    }
    assert having.keys() == DECLARED.keys()
    assert ANSWERS.keys() == {(name, form) for name, forms in DECLARED.items() for form in forms}
    for name, forms in DECLARED.items():
        options = {option for param in having[name].params for option in param.opts}
        assert forms.keys() - {""} <= options
        assert ("--offset" in options) == any(shape.items is not None for shape in forms.values())
        assert {"--fields", "--max-tokens"} <= options


@pytest.mark.parametrize("key", ANSWERS, ids=" ".join)
def test_what_is_printed_has_the_shape_that_is_documented(
    key: tuple[str, str], run: Run, filled: Path
) -> None:
    found = answers(run, key)
    assert found
    assert any(found)
    for one in found:
        assert not list(differences(one, DECLARED[key[0]][key[1]].type))


def differences(value: Any, kind: Any, path: str = "answer") -> Iterator[str]:
    """The places where a value is not what its type declares: fields too many or too few, too."""
    options = get_args(kind) if get_origin(kind) in (Union, UnionType) else (kind,)
    rest = [one for one in options if one not in (NoneType, UnsetType)]
    if kind is Any or (value is None and NoneType in options):
        return
    if len(rest) == 1 and is_list(rest[0]) and isinstance(value, list):
        for n, one in enumerate(value):
            yield from differences(one, get_args(rest[0])[0], f"{path}[{n}]")
    elif len(rest) == 1 and is_struct(rest[0]):
        yield from object_differences(value, rest[0], path)
    elif len(rest) == 1 and get_origin(rest[0]) is dict and isinstance(value, dict):
        for name, one in value.items():
            yield from differences(one, get_args(rest[0])[1], f"{path}.{name}")
    else:
        try:
            msgspec.convert(value, Union[tuple(rest)], strict=True)  # noqa: UP007
        except msgspec.ValidationError as error:
            yield f"{path}: {error}"


def object_differences(value: Any, kind: Any, path: str) -> Iterator[str]:
    if not isinstance(value, dict):
        yield f"{path} is no object"
        return
    fields = fields_of(kind)
    may_miss = {
        field.encode_name
        for field in msgspec.structs.fields(kind)
        if (kind.__struct_config__.omit_defaults and not field.required)
        or UnsetType in get_args(fields.get(field.encode_name))
    }
    for name in fields.keys() - value.keys() - may_miss:
        yield f"{path} has no {name}"
    for name in value.keys() - fields.keys() if not is_open(kind) else ():
        yield f"{path} has {name} too"
    for name in value.keys() & fields.keys():
        yield from differences(value[name], fields[name], f"{path}.{name}")


def test_a_field_too_many_or_too_few_is_a_difference(run: Run, filled: Path) -> None:
    """The test above would pass if there were never a difference."""
    session = answer(run, "ls")[0]
    for wrong in (
        {**session, "more": 1},
        {name: value for name, value in session.items() if name != "usd"},
        {**session, "events": "9"},
        {**session, "uid": None},
    ):
        assert list(differences([wrong], DECLARED["ls"][""].type))


@pytest.mark.parametrize(
    "key", [("ls", ""), ("show", ""), ("usage", ""), ("file", "")], ids=" ".join
)
def test_an_item_has_all_fields_of_its_shape(key: tuple[str, str], run: Run, filled: Path) -> None:
    shape = DECLARED[key[0]][key[1]]
    value = answers(run, key)[0]
    assert set(value[0] if isinstance(value, list) else value) == set(fields_of(shape.type))


def test_the_page_about_it_is_as_the_program_writes_it() -> None:
    page = (Path(__file__).parents[2] / "docs/json.md").read_text(encoding="utf-8")
    assert page == docs.json_page(), "run `python -m runlore.cli.docs`"
    assert all(f"| `runlore {name}` |" in page for name in DECLARED)


def test_figures_with_and_without_subagents_are_explained() -> None:
    rows = re.findall(
        r"^\| `(\w+_with(?:out)?_subagents)` \| [^|]+ \|(.*)\|$", docs.json_page(), re.M
    )
    assert len(rows) >= 7
    assert all(text.strip() for _, text in rows), rows


# ── fields ────────────────────────────────────────────────────────────────────────────────────────
def test_fields_are_seen_from_the_answer_and_through_its_lists(run: Run, filled: Path) -> None:
    everything = answer(run, "ls")
    assert answer(run, "ls --fields uid,title") == [
        {"uid": one["uid"], "title": one["title"]} for one in everything
    ]
    found = answer(run, "search test --fields total,hits.uid,hits.events.ref")
    assert list(found) == ["total", "hits"]
    assert all(list(hit) == ["uid", "events"] for hit in found["hits"])
    assert all(list(event) == ["ref"] for hit in found["hits"] for event in hit["events"])


def test_fields_ask_for_json(run: Run, filled: Path) -> None:
    assert json.loads(run("ls", "--fields", "uid", "-n", "1").stdout)[0].keys() == {"uid"}
    assert json.loads(run("ls", "--offset", "1", "-n", "1").stdout) == answer(run, "ls")[1:2]


def test_a_field_of_an_object_with_any_keys_is_taken_as_it_comes(run: Run, filled: Path) -> None:
    assert answer(run, "live state work-1 --fields data_buffer.hits,progress.path") == {
        "data_buffer": {"hits": 4}, "progress": {"path": ["search", "write"]}
    }  # fmt: skip
    assert answer(run, "live show talk-1 --fields messages.message.role") == {
        # The last closes the call.
        "messages": [{"message": {"role": role}} for role in ("user", "assistant", "user")]
    }


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("ls --fields nope", "there is no field nope; the answer has uid, agent, title"),
        ("ls --fields x.?", "there is no field x; the answer has uid, agent, title"),
        ("search x --fields hits.nope.?", "there is no field hits.nope; hits has uid"),
        ("ls --fields uid.?", "uid has no fields"),
        ("ls --fields what?", "what? is no field; ? lists them"),
        ("ls --fields uid.x", "there is no field uid.x; uid has no fields"),
        ("search x --fields hits.nope", "there is no field hits.nope; hits has uid"),
        ("show --fields events.usage.nope", "events.usage has input_tokens"),
        ("show --fields nope", "session.…, events.…, branches.…, children.…"),
        ("ls --fields ,", "name at least one field"),
        ("ls --fields ''", "name at least one field"),
        (
            "show latest:shop-api#1 --fields events.seq",
            "there is no field events; the answer has session_uid",
        ),
    ],
)
def test_a_field_that_there_is_not_is_answered_with_those_that_there_are(
    run: Run, filled: Path, words: str, told: str
) -> None:
    status, found = error(run, *shlex.split(words))
    assert (status, found["code"]) == (2, "usage")
    assert told in found["message"]


@pytest.mark.parametrize(
    ("words", "names"),
    [
        ("ls --fields ?", SessionLine.__struct_fields__),
        ("ls --json --fields uid,?", SessionLine.__struct_fields__),
        ("search --fields ?", ("query", "total", "hits.…", "events.…")),
        ("search --fields hits.events.?", ("hits.events.ref", "hits.events.snippet")),
        ("show --fields session.?", ("session.usd",)),
        ("usage --fields total.?,budgets.?", ("total.usd", "budgets.limit")),
    ],
)
def test_a_question_mark_lists_the_fields(run: Run, words: str, names: tuple[str, ...]) -> None:
    result = run(*shlex.split(words))  # Without a store, and without the command's arguments.
    assert (result.exit_code, result.stderr) == (0, "")
    assert set(names) <= set(result.stdout.splitlines())


def test_a_wrong_field_is_told_before_anything_is_done(run: Run, filled: Path) -> None:
    before = answer(run, "ls")
    assert error(run, "forget", "latest", "--yes", "--fields", "nope")[0] == 2
    assert answer(run, "ls") == before
    assert error(run, "backup", "copy.db", "--fields", "nope")[0] == 2
    assert not os.path.exists("copy.db")


def test_what_is_named_whole_and_in_parts_is_wanted_whole() -> None:
    assert parse_fields("a,b.c,b.d.e") == {"a": {}, "b": {"c": {}, "d": {"e": {}}}}
    assert parse_fields("b,b.c") == parse_fields("b.c,b") == {"b": {}}
    assert select_fields({"a": 1, "b": [{"c": 1, "d": 2}, 7]}, {"b": {"c": {}}}) == {
        "b": [{"c": 1}, 7]
    }


# ── tokens ────────────────────────────────────────────────────────────────────────────────────────
@pytest.mark.parametrize("key", ANSWERS, ids=" ".join)
def test_an_answer_keeps_to_its_tokens_and_says_what_is_missing(
    key: tuple[str, str], run: Run, filled: Path
) -> None:
    for room in (200, 700, 3000):
        for one in answers(run, key, "--max-tokens", str(room)):
            assert tokens.tokens_of(one) <= room
            assert list(one)[-1] == "left_off"


def test_what_fits_is_whole(run: Run, filled: Path) -> None:
    assert answer(run, "ls --max-tokens 100000") == {"items": answer(run, "ls"), "left_off": None}
    commit = answer(run, "commit 1a2b3c4d")
    assert answer(run, "commit 1a2b3c4d --max-tokens 100000") == {**commit, "left_off": None}


@pytest.mark.parametrize(("key", "words"), WITH_ITEMS, ids=[" ".join(key) for key, _ in WITH_ITEMS])
def test_following_what_is_next_gives_every_item_once(
    key: tuple[str, str], words: str, run: Run, filled: Path
) -> None:
    if key[1] == "--prune":
        return  # It would prune again.
    items = DECLARED[key[0]][key[1]].items or "items"
    whole = answers(run, key)
    every = (
        whole
        if DECLARED[key[0]][key[1]].is_stream
        else whole[0]
        if items == "items"
        else whole[0][items]
    )
    line, seen = f"runlore {words} --max-tokens 1600", []
    for _ in range(60):
        part = json.loads(run(*shlex.split(line)[1:]).stdout)
        seen += part[items]
        if part["left_off"] is None or not part["left_off"]["items"]:
            break
        line = part["left_off"]["next"]
        assert line is not None, part["left_off"]
    # Long texts are cut, and some things are counted anew: which item it is stays.
    assert [names(one) for one in seen] == [names(one) for one in every]


def names(item: Any) -> Any:
    told = {
        name: item[name]
        for name in ("uid", "session_uid", "session", "seq", "id", "ref", "name", "key", "skill")
        if name in item
    }
    return told or item


def test_an_offset_skips_before_a_limit_counts(run: Run, filled: Path) -> None:
    every = answer(run, "ls --all")
    assert answer(run, "ls -n 2 --offset 1") == every[1:3]
    assert answer(run, "ls --all --offset 1") == every[1:]
    assert answer(run, "ls --offset 99") == []
    assert answer(run, "search test --fields total --offset 1") == {
        "total": answer(run, "search test")["total"]
    }
    assert [hit["uid"] for hit in answer(run, "search test -n 1 --offset 1")["hits"]] == [
        answer(run, "search test")["hits"][1]["uid"]
    ]


def test_long_texts_are_cut_with_a_mark_and_a_way_to_the_whole(run: Run, filled: Path) -> None:
    found = answer(run, "show latest:shop-api --fields events.seq,events.body --max-tokens 600")
    assert found["left_off"]["texts_cut"]
    assert any(event["body"].endswith("more characters]") for event in found["events"])
    assert "runlore show UID#SEQ --json" in found["left_off"]["hint"]


def test_where_not_one_item_has_room_it_says_how_much_it_takes(run: Run, filled: Path) -> None:
    found = answer(run, "search test --max-tokens 300")
    assert (found["hits"], found["left_off"]["items"] > 0, found["left_off"]["next"]) == (
        [],
        True,
        None,
    )
    needed = found["left_off"]["hint"].partition("--max-tokens ")[2].partition(";")[0]
    assert len(answer(run, f"search test --max-tokens {needed}")["hits"]) == 1


def test_the_next_command_is_the_same_one_further_on() -> None:
    for words, line in {
        "ls --json --max-tokens 300": "runlore ls --json --max-tokens 300 --offset=5",
        "ls --offset 2 --max-tokens 300": "runlore ls --max-tokens 300 --offset=5",
        "ls --offset=2 --max-tokens=300": "runlore ls --max-tokens=300 --offset=5",
        "search --max-tokens 300 -- -x 'a b' --offset 3": (
            "runlore search --max-tokens 300 --offset=5 -- -x 'a b' --offset 3"
        ),
    }.items():
        selection = parse_selection({}, shlex.split(words), None, 300, 0)
        if os.name == "posix":
            assert command_line(selection, 5) == line


@pytest.mark.parametrize(
    "value",
    [
        {
            "rows": [
                {"\x1b[2J" * 90 + str(number): ["\u202e" * 5000, {"x": None}] * 40}
                for number in range(9)
            ]
        },
        {"rows": [{"key": "\u202e\u2066" * 20, "n": number} for number in range(300)]},
        {"rows": [{"key": "x", "deep": [[[["y" * 90] * 3] * 3] * 3] * 9} for number in range(300)]},
    ],
)
def test_a_hostile_value_stays_within_its_tokens(
    run: Run, monkeypatch: pytest.MonkeyPatch, value: Any
) -> None:
    @click.command("ls")
    @as_json(UsageReport, items="rows")
    def command(is_json: bool) -> None:
        write_json(value)

    monkeypatch.setattr("runlore.cli.commands.ls.command", command)
    result = run("ls", "--max-tokens", "900")
    assert tokens.tokens(result.stdout.rstrip()) <= 900
    assert "\x1b" not in result.stdout
    assert "\u202e" not in result.stdout
    assert json.loads(result.stdout)["left_off"]["items"]


# ── errors ────────────────────────────────────────────────────────────────────────────────────────
@pytest.mark.parametrize(
    ("words", "status", "code", "told"),
    [
        ("ls --json", 1, "no_store", "runlore sync"),
        ("ls --json --nonsense", 2, "usage", "--nonsense"),
        ("ls --json --limit none", 2, "usage", "none"),
        ("ls --json --agent nobody", 2, "usage", "nobody"),
        ("ls --since soon --json", 2, "usage", "soon"),
        ("ls --max-tokens 5", 2, "usage", "200"),
        ("nonsense --json", 2, "usage", "nonsense"),
        ("--json", 2, "usage", "--json"),
        ("forget --json", 2, "usage", "nothing else is forgotten"),
        ("live show zzz --json", 1, "session_not_found", "zzz"),
        ("live show ../x --json", 1, "session_not_found", "../x"),
        ("show --raw --json", 1, "no_store", ""),
        ("usage --statusline --json", 2, "usage", "--statusline"),
        ("usage --csv --json", 2, "usage", "--csv"),
    ],
)
def test_an_error_is_an_object_on_stderr(
    run: Run, home: Path, words: str, status: int, code: str, told: str
) -> None:
    found = error(run, *words.split())
    assert (found[0], found[1]["code"]) == (status, code)
    assert told in found[1]["message"]
    assert found[1]["hint"]


@pytest.mark.parametrize(
    ("words", "status", "code"),
    [
        (["show", "zzz"], 1, "not_found"),
        (["show", "claude:"], 1, "ambiguous"),
        (["show", "--raw"], 2, "usage"),
        (["search", "kind:nothing"], 2, "query"),
        (["search", "--regex", "("], 2, "query"),
        (["resume", "talk-1"], 1, "failed"),
        (["backup", "."], 2, "usage"),
        (["live", "rewind", "talk-1", "999999"], 1, "log"),
        (["live", "fork", "talk-1", "--id", "../x"], 1, "invalid_id"),
        (["live", "checkpoints", "work-1", "--compare", "a", "b"], 1, "checkpoint"),
    ],
)
def test_errors_have_codes_that_stay(
    run: Run, filled: Path, words: list[str], status: int, code: str
) -> None:
    found = error(run, *words, "--json")
    assert (found[0], found[1]["code"]) == (status, code), found


def test_people_get_a_line_and_no_object(run: Run, filled: Path) -> None:
    assert run("show", "zzz").stderr == "runlore: no session 'zzz'; `runlore ls` lists them\n"
    assert not run("search", "--", "--json").stdout.startswith("{")


def test_every_error_of_ours_has_a_code_of_its_own() -> None:
    def below(kind: type[RunloreError]) -> Iterator[type[RunloreError]]:
        yield kind
        for each in kind.__subclasses__():
            yield from below(each)

    kinds = [
        kind
        for kind in dict.fromkeys(below(RunloreError))
        if kind.__module__ in ("runlore.errors", "runlore.search.syntax")
    ]
    assert len(kinds) > 15
    assert len({kind.code for kind in kinds}) == len(kinds)


def test_escapes_in_an_error_do_not_reach_whoever_reads_it(run: Run, filled: Path) -> None:
    result = run("show", "\x1b[2J\u202e", "--json")
    assert "\x1b" not in result.stderr
    assert "\u202e" not in result.stderr
    assert json.loads(result.stderr)["error"]["code"] == "not_found"


def test_a_bug_has_a_code_as_well(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken() -> None:
        raise ZeroDivisionError("by zero")

    monkeypatch.setattr("runlore.cli.commands.ls.open_store", broken)
    assert error(run, "ls", "--json")[1]["code"] == "bug"


@pytest.mark.parametrize("words", ["hooks install claude", "mcp install codex"])
def test_nothing_is_asked_where_nobody_answers(run: Run, home: Path, words: str) -> None:
    status, found = error(run, *words.split(), "--json")
    assert (status, found["code"]) == (2, "needs_yes")
    assert "--yes" in found["hint"]
    result = run(*words.split())
    assert result.exit_code == 2
    assert "--yes" in result.stderr


def test_whoever_asks_looks_first_whether_somebody_is_there() -> None:
    for file in Path(autostart.__file__).parents[1].rglob("*.py"):
        text = file.read_text(encoding="utf-8")
        asks = any(
            word in text
            for word in ("click.confirm(", "click.prompt(", "confirmation_option", "prompt=")
        )
        assert not asks or "stdin.isatty()" in text, file


@pytest.mark.skipif(
    os.name != "posix", reason="pipes that close early are a matter of signals elsewhere"
)
@pytest.mark.parametrize(
    "words",
    [["ls", "--json", "--max-tokens", "400"], ["search", "zzz", "--json"], ["doctor", "--json"]],
)
def test_a_reader_that_has_had_enough_is_no_error(stored: Path, words: list[str]) -> None:
    with subprocess.Popen(
        [sys.executable, "-m", "runlore", *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait() == 0
