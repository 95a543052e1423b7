"""The class of the difference between a failing and a working call."""

from __future__ import annotations

import pytest

from runlore.mine.changes import Change, find_call_change, find_change
from runlore.model import ErrorSummary, Fix, Signature, Step


def change(kind: str, program: str = "", removed: str = "", added: str = "") -> Change:
    return Change(kind=kind, program=program, removed=removed, added=added)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("before", "after", "message", "missing", "expected"),
    [
        ("gh api a?b=1 | head", "gh api 'a?b=1' | head", "", "", change("quoted", added="glob")),
        ("rg x --include=*.go", 'rg x --include="*.go"', "", "", change("quoted", added="glob")),
        ("gh api a/go.mod?r=1", "gh api 'a/x.go?r=1'", "no matches found: a/go.mod?r=1", "",
         change("quoted", added="glob")),
        ("a; echo ===; b", "a; echo '==='; b", "command not found: ==", "==",
         change("quoted", added="=")),
        ("cat app/$id.tsx", "cat 'app/$id.tsx'", "No such file", "", change("quoted", added="$")),
        ("cp a/* b", "cp c/* b", "no matches found: a/*", "", None),
        ("timeout -k 1 5 make all", "make all", "", "timeout", change("left_out", "timeout")),
        ("x | timeout 5 y -z", "x | y -z", "", "timeout", change("left_out", "timeout")),
        ("python a.py -v", "python3 a.py -v", "", "python",
         change("replaced_program", "", "python", "python3")),
        ("python a.py", "uv run python a.py", "", "python",
         change("replaced_program", "", "python", "uv run python")),
        ("javac A.java", "rm A.java", "", "javac", None),
        ("javac A.java", "ls A.java", "", "javac", None),
        ("pytest a -q", "PYTHONPATH=. pytest a -x", "", "",
         change("added_prefix", "pytest", "", "PYTHONPATH=.")),
        ("pytest a", "PYTHONPATH=/home/ada/x:/y pytest a", "", "",
         change("added_prefix", "pytest", "", "PYTHONPATH=…")),
        ("cd a && python -m pytest b", "uv run pytest b", "", "",
         change("added_prefix", "python", "", "uv run")),
        ("cargo test a", "cargo test a --all-features", "", "",
         change("added_flag", "cargo test", "", "--all-features")),
        ("git commit -m x", "git commit -m x --no-verify", "", "", None),
        ("git push", "git push --force", "", "", None),
        ("ruff check a/b.py", "ruff check /w/a/b.py", "", "", change("absolute_path")),
        ("bun x.ts", "bun install && bun run build && bun x.ts", "", "",
         change("setup_first", "bun", "", "bun install && bun run build")),
        ("npm test", "npm install left-pad && npm test", "", "", None),
        ("make a", "make b", "", "", None),
    ],
)  # fmt: skip
def test_a_change_has_a_class_or_none(
    before: str, after: str, message: str, missing: str, expected: Change | None
) -> None:
    assert find_call_change(before, after, message, missing) == expected


def fix_of(how: str, **fields: str) -> tuple[Fix, ErrorSummary]:
    action = fields.pop("action", "shell")
    steps = (Step(seq=2, how=how, summary=fields.get("after", "")),)  # type: ignore[arg-type]
    signature = Signature(fingerprint="f", kind="message", template="t", sample="s")
    error = ErrorSummary(signature=signature, count=1, seqs=(1,), action=action)
    return Fix(fingerprint="f", failed_seq=1, how=how, steps=steps, **fields), error  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("command", "kind"),
    [
        ("bun install", "setup_first"),
        ("pip install -e .", "setup_first"),
        ("make login", "prepared_first"),
        ("pip install pytz", None),
        ("rm -rf dist", None),
        ("cat notes", None),
    ],
)
def test_a_command_in_between_counts_only_if_it_prepares_something(
    command: str, kind: str | None
) -> None:
    found = find_change(*fix_of("command", before="make all", after=command))
    assert (found.kind if found else None) == kind


def test_a_call_that_was_cut_and_an_edit_have_no_class() -> None:
    assert find_change(*fix_of("changed", before="python a…", after="python3 a…")) is None
    assert find_change(*fix_of("edit", before="", after="a.py")) is None
    found = find_change(*fix_of("read", action="edit", after="a.py"))
    assert found == change("read_first", "edit")
