"""Every report says the same when the text of all sessions has left: asked of the fixtures of all
agents, before and after."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from runlore import adapters, cli, config, usage
from runlore.retention.evict import let_go
from runlore.store import Filter, open_store
from runlore.sync import pipeline
from tests.cli.conftest import Run

FIXTURES = Path(__file__).parents[1] / "adapters" / "fixtures"
DEMO = Path(cli.__file__).parent / "demo"
EVERY = Filter(parents_only=False)

PLAIN = (
    "ls --all --all-subagents", "ls --all --sort cost", "ls --all --errors",
    "ls --all --outcome fail",
    *(f"usage --by {by}" for by in usage.BY),
    "usage --wasted", "usage --wasted --by session", "usage --check", "usage --subagents only",
    "usage --since 2026-01-02T03:04:05",
    "errors --least 1 --limit 1000", "patterns --least 1 --limit 1000", "measure",
    "measure --by week", "retro --days 3650",
    "secrets --all-subagents", "agents", "lessons list --all",
)  # fmt: skip

ALLOWED = {
    "ls": {"evicted_at"},
    "file": {"evicted_at"},
    "commit": {"evicted_at", "snippet", "marks", "total"},
    "retro": {"since", "until"},  # Of the days up to now.
    # When something was written last, and what the newest native records say.
    "agents": {"last_sync", "version_seen"},
}
"""By command, the fields that may be others. Besides: `commit` finds who only mentions it as long
as the text is there, and of what git printed the name and the subject are kept."""

Question = tuple[str, ...]


def said(session: str, n: int, role: str, **block: Any) -> str:
    """A line of a session that has what no fixture has: a secret, a commit, and an error that
    others have too."""
    message: dict[str, Any] = {"role": role, "content": [block]}
    if role == "assistant":
        message |= {
            "id": f"msg_{session}{n}",
            "model": "claude-sonnet-4-5",
            "usage": {"input_tokens": 10, "output_tokens": 5},
        }
    name = f"{session}-{n}"
    base = {
        "uuid": name,
        "parentUuid": f"{session}-{n - 1}" if n else None,
        "sessionId": session,
        "cwd": "/work/tea",
        "version": "2.0.0",
    }
    return (
        json.dumps(
            {**base, "type": role, "timestamp": f"2026-02-03T04:{n:02}:00.000Z", "message": message}
        )
        + "\n"
    )


def ran(session: str, n: int, command: str, output: str, is_error: bool = False) -> str:
    call = said(
        session,
        n,
        "assistant",
        type="tool_use",
        id=f"t{n}",
        name="Bash",
        input={"command": command},
    )
    return call + said(
        session,
        n + 1,
        "user",
        type="tool_result",
        tool_use_id=f"t{n}",
        content=output,
        is_error=is_error,
    )


def worked(session: str, number: int) -> str:
    sha = f"{number:x}a2b3c4"
    return (
        said(
            session,
            0,
            "user",
            type="text",
            text=(
                f"Make tea number {number} with ghp_a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8, and"
                " commit what it takes."
            ),
        )
        + ran(
            session,
            1,
            "make tea",
            "make: *** No rule to make target 'water'.  Stop.",
            is_error=True,
        )
        + ran(
            session,
            3,
            "make tea",
            "make: *** No rule to make target 'water'.  Stop.",
            is_error=True,
        )
        + ran(session, 5, "touch water", "")
        + ran(session, 7, "make tea", "tea is ready")
        + ran(
            session,
            9,
            "git commit -am 'Boil it'",
            f"[main {sha}] Boil it\n 1 file changed, 1 insertion(+)",
        )
        + ran(
            session,
            11,
            f"gh api repos/acme/tea/contents/pot?ref=b{number}",
            f"zsh: no matches found: repos/acme/tea/contents/pot?ref=b{number}",
            is_error=True,
        )
        + ran(
            session,
            13,
            f"gh api 'repos/acme/tea/contents/pot?ref=b{number}'",
            "name: pot of tea",
        )
        + said(session, 15, "assistant", type="text", text="Done.")
    )


@pytest.fixture
def full(home: Path) -> Iterator[list[str]]:
    """The uids of what all agents left, stored and analyzed."""
    setting = config.load()
    config.make_home(setting.home)
    with closing(open_store(setting.store)) as store:
        own = home / "own" / "work"
        own.mkdir(parents=True)
        for n in range(1, 7):
            (own / f"made{n}.jsonl").write_text(worked(f"made{n}", n))
        pipeline.sync(
            store, setting, agents=["claude"], roots=[str(own.parent)], quiet_s=-1e9, workers=0
        )
        for name in adapters.names():
            roots = [
                case / "root"
                for case in sorted((FIXTURES / name).glob("*"))
                if (case / "root").is_dir()
            ]
            roots += [DEMO / name / "root"] if (DEMO / name).is_dir() else []
            if roots:
                pipeline.sync(
                    store,
                    setting,
                    agents=[name],
                    roots=[str(root) for root in roots],
                    quiet_s=-1e9,
                    workers=0,
                )
        yield store.sessions.uids(EVERY)


def questions(uids: list[str]) -> list[Question]:
    """More of them, about what is there."""
    with closing(open_store(config.load().store, read_only=True)) as store:
        digests = list(store.digests.iter(EVERY))
        billed = sorted(uids, key=lambda uid: (-len(store.ledger.billed(uid)), uid))
        texts = sorted({template for _, _, _, template, _ in store.digests.templates()})
    paths = {
        path.replace("\\", "/") for one in digests for path in (*one.files_edited, *one.files_read)
    }
    names = sorted({path.rpartition("/")[2] for path in paths})
    commits = sorted({commit.sha for one in digests for commit in one.commits})
    return [
        *(("usage", "--explain", uid) for uid in billed[:5]),
        *(("usage", "--by", "model", "--session", uid) for uid in billed[:3]),
        *(("fix", "--", text) for text in texts),
        *(("file", "--limit", "1000", "--", f"*/{name}") for name in names),
        *(("commit", "--", sha) for sha in commits),
    ]


def without(value: Any, names: set[str]) -> Any:
    if isinstance(value, dict):
        return {name: without(one, names) for name, one in value.items() if name not in names}
    return [without(one, names) for one in value] if isinstance(value, list) else value


def answer(run: Run, question: Question) -> Any:
    command, *words = question
    result = run(command, "--json", *words) if command != "lessons" else run(*question, "--json")
    assert result.exit_code in (0, 1), (question, result.stderr)
    found = json.loads(result.stdout)
    if command == "commit":
        found["sessions"] = [session for session in found["sessions"] if session["made"]]
    return without(found, ALLOWED.get(command, set()))


def test_every_report_says_the_same_when_all_text_has_left(run: Run, full: list[str]) -> None:
    asked = [*(tuple(words.split()) for words in PLAIN), *questions(full)]
    assert run("lessons", "propose").exit_code == 0
    before = {question: answer(run, question) for question in asked}
    empty = [question for question in asked if is_empty(before[question])]
    assert len(empty) < len(asked) // 10, "what says nothing shows nothing"
    assert {question[0] for question in empty} <= {"file"}, (
        "of some files only an event without text tells"
    )
    with closing(open_store(config.load().store)) as store:
        let_go(
            store, sorted(weight.uid for weight in store.retention.weights() if weight.is_covered)
        )
        assert store.retention.evicted() == set(full)
    assert run("lessons", "propose").exit_code == 0
    after = {question: answer(run, question) for question in asked}
    assert [question for question in asked if after[question] != before[question]] == []


def is_empty(found: Any) -> bool:
    return not found or (isinstance(found, dict) and found.get("sessions") == [])
