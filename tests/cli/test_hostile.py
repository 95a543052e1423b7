"""A transcript is written by a model that read the whole internet: nothing in it may speak to the
terminal."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from runlore.lessons import Lesson
from runlore.lessons.shelf import Shelf
from tests.cli.conftest import Run
from tests.toy import line

OBEYED = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")
POISON = "\x1b]0;owned\x07\x1b[2J\x1b[31mred\x1b[0m\x9b5n\x1bP1$r\x1b\\\u202egnp.exe\x08\x00\rover"


@pytest.fixture
def poisoned(root: Path, run: Run) -> Path:
    kinds = [
        "user_msg",
        "thinking",
        "assistant_msg",
        "tool_call",
        "tool_result",
        "edit",
        "tool_result",
        "human_intervention",
        "error",
    ]
    calls = {"tool_call": "c1", "edit": "c2"}
    text = b""
    for n, kind in enumerate([*kinds, "retry", "decision", "lifecycle", "completion"]):
        call = calls.get(kind) or ({4: "c1", 6: "c2"}.get(n) if kind == "tool_result" else None)
        fields = {"call": call} if call else {}
        body = f"{POISON}\n@@\n-{POISON}\n+{POISON}\n{POISON}"
        text += line(
            s="poison",
            id=f"p{n}",
            kind=kind,
            text=body,
            error=kind == "tool_result",
            at=400 + n,
            **fields,
        )
    (root / "poison.jsonl").write_bytes(text + line(s="poison", title=f"{POISON}title"))
    (root / "bad\x1b[31m\x07.jsonl").write_bytes(
        b"\x1b[2J not json \x07\n" + line(s="file", id="f1", text="x", at=1)
    )
    return root


COMMANDS = [
    ["sync", "--dry-run"],
    ["ls"],
    ["ls", "--json"],
    ["show", "poison"],
    ["show", "poison", "--full", "--thinking", "--branch", "all"],
    ["show", "poison", "--json"],
    ["show", "poison", "--raw"],
    ["show", "file", "--raw"],
    *(["show", f"poison#{n}"] for n in range(13)),
    ["show", "poison#3", "--raw"],
    ["show", "poison", "--context", "8"],
    ["show", "poison", "--context", "8", "--json"],
    ["agents"],
    ["resume", "poison"],
    ["forget", "poison"],
    ["show", POISON],
]


def test_no_command_lets_an_escape_through(poisoned: Path, run: Run) -> None:
    first = run("sync")
    assert not OBEYED.search(first.stdout + first.stderr)
    for words in COMMANDS:
        result = run(*words)
        found = OBEYED.search(result.stdout + result.stderr)
        assert found is None, (
            f"{words}: {result.stdout[max(0, found.start() - 40) : found.end() + 40]!r}"
        )
    assert "red" in run("show", "poison").stdout, "the text itself is there"


LEARNED = [
    ["patterns"],
    ["patterns", "--json"],
    ["lessons", "propose"],
    ["lessons", "list", "--all"],
    ["lessons", "list", "--json"],
    ["lessons", "show", "evil"],
    ["lessons", "show", "evil", "--json"],
    ["lessons", "approve", "evil", "--why", POISON],
    ["lessons", "edit", "evil", "--when", POISON],
    ["lessons", "render", "--dry-run"],
    ["lessons", "render", "--json", "--dry-run"],
    ["lessons", "show", POISON],
    ["measure"],
    ["measure", "--json"],
    ["retro", "--days", "3650"],
    ["retro", "--days", "3650", "--pack"],
    ["retro", "--days", "3650", "--json"],
]


def test_no_lesson_lets_an_escape_through(
    poisoned: Path, run: Run, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A team's lessons come out of version control: whoever can write there can write anything."""
    for name in ("again", "once"):
        text = (
            (poisoned / "poison.jsonl")
            .read_bytes()
            .replace(b'"poison"', f'"{name}"'.encode())
            .replace(b'"p', f'"{name}'.encode())
        )
        (poisoned / f"{name}.jsonl").write_bytes(text)
    run("sync")
    fields = "when do avoid kind repo path tool agent about key why notes last_at".split()
    words = dict.fromkeys(fields, POISON)
    shelf = Shelf(home / ".runlore/lessons")
    shelf.put(
        Lesson(
            id="evil",
            status="approved",
            sessions=9,
            evidence=(POISON, f"toy:{POISON}#3"),
            extra={POISON: [POISON]},
            **words,  # type: ignore[arg-type]
        )
    )
    shelf.put(
        Lesson(
            id="evil2",
            status="approved",
            sessions=9,
            when=POISON,
            do=POISON,
            evidence=("toy:once#3",),
        )
    )
    (shelf.folder / "broken.md").write_text(f"+++\n{POISON}\n+++\n")
    monkeypatch.chdir(tmp_path)
    for asked in LEARNED:
        result = run(*asked)
        found = OBEYED.search(result.stdout + result.stderr)
        assert found is None, (
            f"{asked}:"
            f" {(result.stdout + result.stderr)[max(0, found.start() - 40) : found.end() + 40]!r}"
        )
        assert "bug" not in result.stderr, result.stderr
    run("lessons", "render", "--yes")
    block = (tmp_path / "AGENTS.md").read_text()
    assert "[evil2]" in block
    assert not OBEYED.search(block)
    run("retro", "--days", "3650", "--html", "retro.html")
    assert not OBEYED.search((tmp_path / "retro.html").read_text())
