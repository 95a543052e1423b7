"""A store that several people share: whose sessions they are, and what is said when the database is
not there or refuses."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from runlore import query
from runlore.cli.failures import COMMAND_LINE_CODES
from runlore.cli.options import open_store
from tests.cli.conftest import Run
from tests.postgres import Server

BOTH = ("ann@desk", "bob@lap")


def write_session(root: Path, name: str, prompt: str, tokens: int) -> None:
    base = {"sessionId": name, "cwd": f"/work/{name}", "timestamp": "2026-03-01T10:00:00.000Z"}
    reply = {
        "role": "assistant",
        "id": f"msg_{name}",
        "model": "claude-sonnet-4-5",
        "content": [{"type": "text", "text": "It rains."}],
        "usage": {"input_tokens": tokens, "output_tokens": 1},
    }
    asked = {"role": "user", "content": prompt}
    records: list[dict[str, Any]] = [
        {**base, "type": "user", "uuid": f"{name}-1", "parentUuid": None, "message": asked},
        {**base, "type": "assistant", "uuid": f"{name}-2", "parentUuid": f"{name}-1"}
        | {"requestId": f"req_{name}", "message": reply},
    ]
    folder = root / "-work"
    folder.mkdir(parents=True)
    lines = "".join(json.dumps(record) + "\n" for record in records)
    (folder / f"{name}.jsonl").write_text(lines)


@pytest.fixture(params=["postgres", "sqlite"])
def shared(
    request: pytest.FixtureRequest,
    run: Run,
    server: Server,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> str:
    """The store of ann, who works at her desk, and of bob with his laptop."""
    address = server.make_schema()
    monkeypatch.setenv("RUNLORE_STORE", address)
    for tokens, person in enumerate(BOTH, 100):
        author, _, machine = person.partition("@")
        monkeypatch.setenv("RUNLORE_AUTHOR", author)
        monkeypatch.setenv("RUNLORE_MACHINE", machine)
        write_session(tmp_path / author, f"of-{author}", "tell of the weather", tokens)
        root = str(tmp_path / author)
        assert run("sync", "--agent", "claude", "--root", root).exit_code == 0
    if request.param == "sqlite":
        file = str(tmp_path / "copy.db")
        assert run("copy", address, file).exit_code == 0
        monkeypatch.setenv("RUNLORE_STORE", file)
    return str(request.param)


def uids(run: Run, *words: str) -> set[str]:
    answer = json.loads(run(*words, "--json").stdout)
    rows = answer if isinstance(answer, list) else answer["hits"]
    return {row["uid"] for row in rows}


def test_sessions_are_chosen_by_author_and_machine(run: Run, shared: str) -> None:
    ann, bob = {"claude:of-ann"}, {"claude:of-bob"}
    assert uids(run, "ls") == ann | bob
    assert uids(run, "ls", "--author", "ann") == ann
    assert uids(run, "ls", "--author", "bob", "--machine", "lap") == bob
    assert uids(run, "ls", "--author", "bob", "--machine", "desk") == set()
    assert uids(run, "search", "weather", "author:bob") == bob
    assert uids(run, "search", "weather", "machine:desk") == ann
    assert uids(run, "search", "weather", "--author", "bob") == bob
    assert uids(run, "search", "weather", "--machine", "desk") == ann
    assert uids(run, "search", "weather", "author:bob", "author:ann") == ann | bob
    assert run("search", "weather", "author:eve").exit_code == 1
    assert "no session matches author:eve" in run("search", "weather", "author:eve").stderr
    with open_store() as (store, _):
        assert query.facets(store)["author"] == [("ann", 1), ("bob", 1)]
    rows = json.loads(run("ls", "--fields", "uid,author,machine").stdout)
    assert {f"{row['author']}@{row['machine']}" for row in rows} == set(BOTH)


def test_usage_is_reported_by_author_and_machine(run: Run, shared: str) -> None:
    def keys(*words: str) -> dict[str, int]:
        answer = json.loads(run("usage", *words, "--json").stdout)
        return {row["key"]: row["input_tokens"] for row in answer["rows"]}

    assert keys("--by", "author") == {"ann": 100, "bob": 101}
    assert keys("--by", "machine") == {"desk": 100, "lap": 101}
    assert keys("--by", "author", "--machine", "lap") == {"bob": 101}
    assert keys("--by", "machine", "--author", "ann") == {"desk": 100}
    assert "\nbob " in run("usage", "--by", "author").stdout


def test_in_a_file_of_ones_own_no_session_has_an_author(
    run: Run, home: Path, tmp_path: Path
) -> None:
    write_session(tmp_path / "me", "own", "tell of the weather", 7)
    assert run("sync", "--agent", "claude", "--root", str(tmp_path / "me")).exit_code == 0
    assert json.loads(run("ls", "--fields", "author").stdout) == [{"author": None}]
    (row,) = json.loads(run("usage", "--by", "author", "--json").stdout)["rows"]
    assert (row["key"], row["input_tokens"]) == (None, 7)


# ── what cannot be read ───────────────────────────────────────────────────────────────────────────
def fails(run: Run, *words: str) -> dict[str, Any]:
    """The error of a command, which is one line for people and one for programs."""
    told, shaped = run(*words), run(*words, "--json")
    assert told.exit_code == shaped.exit_code == 1
    assert told.stdout == shaped.stdout == ""
    assert told.stderr.count("\n") == 1, told.stderr
    assert told.stderr.startswith("runlore: ")
    assert "bug" not in told.stderr
    error: dict[str, Any] = json.loads(shaped.stderr)["error"]
    assert error["message"] in told.stderr
    return error


READS: tuple[tuple[str, ...], ...] = (
    ("ls",),
    ("search", "x"),
    ("usage",),
    ("agents",),
    ("serve", "--once"),
    ("doctor",),
)


@pytest.mark.parametrize("words", READS)
@pytest.mark.parametrize(
    ("store", "told"),
    [
        ("postgresql:/x", "postgresql:/… is not the address of a store; give a path, or postgre"),
        ("postgres:/me:secret@host/x", "postgres:/… is not the address of a store; give a path"),
        ("mysql://me:secret@host/x", "mysql:// stores are not supported; give a path, or postgre"),
        ("postgresql://[me:secret/x", "postgresql://…: "),
        ("postgresql://me:secret@127.0.0.1:1/x", "; look whether the server runs, and whether"),
        ("postgresql://me:secret@localhost:1/x", "; look whether the server runs, and whether"),
        ("postgresql://me:secret@127.0.0.1:nope/x", 'invalid integer value "nope"'),
    ],
)
def test_an_address_that_leads_nowhere_is_one_line_that_says_what_to_do(
    run: Run, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], store: str, told: str
) -> None:
    monkeypatch.setenv("RUNLORE_STORE", store)
    error = fails(run, *words)
    assert error["code"] == "store"
    assert told in error["message"]
    assert "secret" not in error["message"]
    assert error["hint"]


def test_a_wrong_address_makes_no_file(
    run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("RUNLORE_STORE", "postgresql:/x")
    before = sorted(tmp_path.iterdir())
    assert fails(run, "sync")["code"] == "store"
    assert sorted(tmp_path.iterdir()) == before


def test_a_missing_database_and_a_missing_role_are_told_with_what_to_do(
    run: Run, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    missing = server.root_url.replace("/postgres?", "/not_there?")
    assert missing != server.root_url
    monkeypatch.setenv("RUNLORE_STORE", missing)
    for words in (*READS, ("sync",)):
        error = fails(run, *words)
        assert 'database "not_there" does not exist; create the database' in error["message"]
        assert error["hint"].startswith("create the database first")
    stranger = server.root_url.replace("postgresql://postgres:", "postgresql://stranger:")
    assert stranger != server.root_url
    monkeypatch.setenv("RUNLORE_STORE", stranger)
    error = fails(run, "ls")
    assert '"stranger"' in error["message"]
    assert error["hint"].startswith("correct the user and the password")


@pytest.mark.parametrize("given", ["wr0ng", ""], ids=["a wrong one", "none"])
def test_a_wrong_password_is_told_with_what_to_do(
    run: Run, server: Server, monkeypatch: pytest.MonkeyPatch, given: str
) -> None:
    with server.locked_role("careful", "s3cret") as address:
        monkeypatch.setenv("RUNLORE_STORE", address)
        assert fails(run, "ls")["code"] == "no_store", "the right one is taken"
        monkeypatch.setenv("RUNLORE_STORE", address.replace("s3cret", given))
        for words in (*READS, ("sync",)):
            error = fails(run, *words)
            assert error["code"] == "store"
            assert "password" in error["message"]
            assert "wr0ng" not in error["message"]
            assert error["hint"].startswith("correct the user and the password")


@pytest.mark.parametrize("kind", ["postgres", "sqlite"])
def test_an_empty_database_is_no_store_yet(
    run: Run, server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    file = tmp_path / "empty.db"
    file.touch()
    monkeypatch.setenv("RUNLORE_STORE", server.make_schema() if kind == "postgres" else str(file))
    assert fails(run, "ls")["code"] == "no_store"
    agents = run("agents", "--json")
    assert (agents.exit_code, agents.stderr) == (0, "")
    assert {row["sessions"] for row in json.loads(agents.stdout)} == {0}
    assert "claude" in run("agents").stdout
    assert run("serve", "--once").exit_code == 0, "its page says how to fill it"


@pytest.fixture
def reader(server: Server, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The address of a filled store for a role that may only read it."""
    address = server.make_schema()
    monkeypatch.setenv("RUNLORE_STORE", address)
    write_session(tmp_path / "me", "own", "tell of the weather", 7)
    assert run("sync", "--agent", "claude", "--root", str(tmp_path / "me")).exit_code == 0
    schema = address.rpartition("%3D")[2]
    if not server.execute("select 1 from pg_roles where rolname = 'reader'"):
        server.execute("create role reader login")
    server.execute(f"grant usage on schema {schema} to reader")
    server.execute(f"grant select on all tables in schema {schema} to reader")
    return address.replace("postgresql://postgres:", "postgresql://reader:")


def test_a_role_that_may_only_read_reads_and_is_refused_what_writes(
    run: Run, reader: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RUNLORE_STORE", reader)
    for words in (*READS, ("show", "own"), ("errors",), ("fix", "ValueError: x")):
        result = run(*words)
        assert result.exit_code in (0, 1), words
        assert "permission" not in result.stderr, words
    assert uids(run, "ls") == {"claude:own"}
    write_session(tmp_path / "more", "more", "tell of the wind", 7)
    for words in (
        ("sync", "--agent", "claude", "--root", str(tmp_path / "more")),
        ("mark", "own", "--pin"),
    ):
        error = fails(run, *words)
        assert "permission denied" in error["message"], words
        assert "this role may only read" in error["message"], words
    assert "this role may only read" in run("forget", "own", "--yes").stderr
    assert uids(run, "ls") == {"claude:own"}


def test_a_role_without_rights_is_told_so(
    run: Run, reader: str, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    schema = reader.rpartition("%3D")[2]
    server.execute(f"revoke select on {schema}.sessions from reader")
    monkeypatch.setenv("RUNLORE_STORE", reader)
    assert "permission denied for table sessions; ask the owner" in fails(run, "ls")["message"]
    server.execute(f"revoke usage on schema {schema} from reader")
    assert "or this role may not use it" in fails(run, "ls")["message"]


@pytest.mark.parametrize("words", ["ls", "serve --once", "agents", "sync"])
def test_without_psycopg_a_command_says_what_to_install(home: Path, words: str) -> None:
    code = """
import runpy, sys
sys.modules["psycopg"] = None
sys.argv = ["runlore", *sys.argv[1:], "--json"]
runpy.run_module("runlore", run_name="__main__")
"""
    source = Path(sys.modules["runlore"].__file__ or "").parents[1]
    result = subprocess.run(
        [sys.executable, "-c", code, *words.split()],
        capture_output=True,
        text=True,
        check=False,
        env={"HOME": str(home), "RUNLORE_STORE": "postgresql://h/x", "PYTHONPATH": str(source)},
    )
    assert (result.returncode, result.stdout) == (1, "")
    error = json.loads(result.stderr)["error"]
    assert (error["code"], error["hint"]) == (
        "no_extra",
        "install runlore again with its extra `postgres`",
    )
    assert error["code"] in COMMAND_LINE_CODES


@pytest.mark.parametrize("content", [b"no database at all " * 400, b"SQLite format 3\0" + b"x" * 9])
def test_serve_does_not_start_on_a_store_that_it_cannot_read(
    run: Run, home: Path, content: bytes
) -> None:
    (home / ".runlore").mkdir()
    (home / ".runlore/runlore.db").write_bytes(content)
    error = fails(run, "serve", "--port", "0")
    assert error["code"] in ("store", "store_damaged")
    (home / ".runlore/runlore.db").unlink()
    assert run("serve", "--once").exit_code == 0, "no store is no reason: the page says what to do"
