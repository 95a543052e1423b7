"""opencode in Go: the database that Crush went on with, in its first form. It is what of Crush's
format is at hand from real sessions.

The database of the fixture is made from the `content.json` beside it: `REGENERATE=1 pytest
tests/adapters/test_opencode_go.py`.
"""

import json
import os
import shutil
import sqlite3
from collections import Counter
from pathlib import Path

import apsw

from runlore.adapters import get
from runlore.testing import derive
from tests.adapters import corpus
from tests.adapters.test_crush import put

ADAPTER = get("opencode_go")
CASE = Path(__file__).parent / "fixtures/opencode_go/session"
CORPUS = corpus.CORPUS / "opencode-go"
SCHEMA = """
create table sessions (id text primary key, parent_session_id text, title text not null,
    message_count integer not null default 0,
    prompt_tokens integer not null default 0, completion_tokens integer not null default 0,
    cost real not null default 0,
    updated_at integer not null, created_at integer not null, summary_message_id text);
create table messages (id text primary key, session_id text not null, role text not null,
    parts text not null default '[]', model text,
    created_at integer not null, updated_at integer not null, finished_at integer);
"""


def make(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    db = apsw.Connection(str(path))
    db.pragma("page_size", 1024)  # small enough to be kept as a fixture
    db.execute(SCHEMA)
    for table, rows in json.loads((CASE / "content.json").read_text(encoding="utf-8")).items():
        for row in rows:
            put(db, table, row)
    db.close()


def test_the_database_of_the_fixture_holds_what_its_content_says(tmp_path: Path) -> None:
    if os.environ.get("REGENERATE") == "1":
        shutil.rmtree(CASE / "root", ignore_errors=True)
        # Not below `.opencode`: then it would tell where this repository lies.
        make(CASE / "root/opencode.db")
    make(tmp_path / "wanted/opencode.db")
    assert derive(ADAPTER, CASE / "root") == derive(ADAPTER, tmp_path / "wanted")


def test_the_folder_of_a_session_is_the_one_that_its_database_lies_below(tmp_path: Path) -> None:
    make(tmp_path / "yard/.opencode/opencode.db")
    found = [
        ADAPTER.normalize(source, ADAPTER.read(source, None), None)
        for source in ADAPTER.discover(tmp_path)
    ]
    assert {about.cwd for each in found for about in each.facts.values()} == {
        str(tmp_path / "yard")
    }


@corpus.needs(CORPUS)
def test_a_second_count_of_real_sessions_agrees(tmp_path: Path) -> None:
    theirs, ours = Counter[str](), Counter[str]()
    for n, path in enumerate(sorted(CORPUS.rglob("opencode.db"))):
        for end in ("", "-wal"):
            if Path(f"{path}{end}").exists():
                shutil.copyfile(f"{path}{end}", tmp_path / f"{n}.db{end}")
        db = sqlite3.connect(tmp_path / f"{n}.db")
        for role, parts in db.execute("select role, parts from messages"):
            for part in json.loads(parts):
                data = part["data"]
                if part["type"] == "text" and data["text"].strip():
                    theirs[role] += 1
                elif part["type"].startswith("tool_"):
                    theirs[part["type"]] += 1
                    theirs["error"] += part["type"] == "tool_result" and bool(data.get("is_error"))
        (count,) = db.execute("select count(distinct session_id) from messages").fetchone()
        theirs["sessions"] += count
        db.close()
    for _, _, found in corpus.read_all(ADAPTER, CORPUS):
        assert not found.skips
        ours["sessions"] += len(found.facts)
        for event in found.events:
            word = (
                "tool_call"
                if event.is_call
                else {"user_msg": "user", "assistant_msg": "assistant"}.get(event.kind, event.kind)
            )
            ours[word] += event.kind != "lifecycle"
            ours["error"] += (
                event.is_error and event.kind == "tool_result" and event.exit_code is None
            )
    assert +ours == +theirs
