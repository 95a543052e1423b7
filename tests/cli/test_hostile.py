"""A transcript is written by a model that read the whole internet: nothing in it may speak to the terminal."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.cli.conftest import Run
from tests.toy import line

OBEYED = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")
POISON = "\x1b]0;owned\x07\x1b[2J\x1b[31mred\x1b[0m\x9b5n\x1bP1$r\x1b\\\u202egnp.exe\x08\x00\rover"


@pytest.fixture
def poisoned(root: Path, run: Run) -> Path:
    kinds = ["user_msg", "thinking", "assistant_msg", "tool_call", "tool_result", "edit", "tool_result", "human_intervention", "error"]
    calls = {"tool_call": "c1", "edit": "c2"}
    text = b""
    for n, kind in enumerate([*kinds, "retry", "decision", "lifecycle", "completion"]):
        call = calls.get(kind) or ({4: "c1", 6: "c2"}.get(n) if kind == "tool_result" else None)
        fields = {"call": call} if call else {}
        body = f"{POISON}\n@@\n-{POISON}\n+{POISON}\n{POISON}"
        text += line(s="poison", id=f"p{n}", kind=kind, text=body, error=kind == "tool_result", at=400 + n, **fields)
    (root / "poison.jsonl").write_bytes(text + line(s="poison", title=f"{POISON}title"))
    (root / "bad\x1b[31m\x07.jsonl").write_bytes(b"\x1b[2J not json \x07\n" + line(s="file", id="f1", text="x", at=1))
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
        assert found is None, f"{words}: {result.stdout[max(0, found.start() - 40) : found.end() + 40]!r}"
    assert "red" in run("show", "poison").stdout, "the text itself is there"
