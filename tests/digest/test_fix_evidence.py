"""What is no evidence of a fix, or too little to show it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from runlore.digest import Fix
from runlore.digest.changes import only_adds_output, pick_hunk
from runlore.digest.fixes import fixes
from runlore.model import Tests
from tests.digest.sessions import session
from tests.digest.test_fixes import FAILED, FINE, Turn, edit

BEGIN = datetime(2026, 3, 1, tzinfo=UTC)


def first(*turns: Turn) -> Fix:
    return fixes(*session(*turns))[0]


def shown(*turns: Turn) -> list[Fix]:
    return [fix for fix in fixes(*session(*turns)) if fix.is_shown]


def go_tests(output: str, **fields: Any) -> Turn:
    return ("go test ./...", output, {"kind": "test_run", **fields})


def test_a_call_that_was_sent_together_with_the_failing_one_is_no_fix() -> None:
    def find(called_after_s: int) -> Fix:
        turns = (
            ("git fetch origin/main", "fatal: 'origin/main' is no repository", FAILED),
            ("git fetch origin", "ok", FINE),
        )
        events, bodies = session(*turns)
        seconds = (0, 5, called_after_s, 9)
        timed = [
            msgspec.structs.replace(event, ts=BEGIN + timedelta(seconds=s))
            for event, s in zip(events, seconds, strict=True)
        ]
        return fixes(timed, bodies)[0]

    assert find(called_after_s=6).is_shown
    assert find(called_after_s=1).fixed_seq is None


def test_a_result_that_is_the_error_of_a_tool_is_no_success() -> None:
    failed = ("pattern: a(\npath: src", "regex parse error: unclosed group", {"is_error": True})
    again = "pattern: a\\(\npath: src"
    search = {"action": "other", "files": ("src",)}
    call, text, fields = failed
    fine = first((call, text, search | fields), (again, "src/a.go", search))
    assert fine.is_shown
    for end in (
        "<tool_use_error>InputValidationError: path is missing</tool_use_error>",
        "<tool_use_error>Cancelled: parallel tool call errored</tool_use_error>",
    ):
        assert first((call, text, search | fields), (again, end, search)).fixed_seq is None


@pytest.mark.parametrize(
    ("failed", "error", "later"),
    [
        (
            'rg -n "load|store" src/loader.py -S',
            "rg: src/loader.py: No such file or directory (os error 2)",
            'rg -n "class Cache" src -S',
        ),
        (
            "sed -n 1,80p lib/parse.ts",
            "sed: lib/parse.ts: No such file or directory",
            "sed -n 200,260p lib/parse/main.ts",
        ),
        (
            "patch -p1 a.diff && go test ./store -run TestLoad -count 1",
            "patch: **** Can't find file a.diff : No such file or directory",
            "go test ./store -run TestLoad -count 1",
        ),
        (
            "gsed -i s/a/b/ main.go",
            "zsh: command not found: gsed",
            "rg -n a main.go",
        ),
    ],
)
def test_other_work_on_the_same_file_is_no_retry(failed: str, error: str, later: str) -> None:
    assert first((failed, error, FAILED), (later, "some text", FINE)).fixed_seq is None


@pytest.mark.parametrize("word", ["def load", "def save"])
def test_a_search_in_the_right_place_is_the_same_call(word: str) -> None:
    fix = first(
        ("rg -n 'def load' src/loader.py", "rg: src/loader.py: No such file or directory", FAILED),
        (f"rg -n '{word}' src/io/loader.py", "3:def load():", FINE),
    )
    assert (fix.how, fix.is_shown) == ("changed", True)


BUILD = "make site --jobs 4"
BROKEN = "error: page 'guide' has no title"


@pytest.mark.parametrize("again", [BUILD + " --silent 2>&1", "make site --jobs 1 2>&1"])
def test_an_edit_counts_and_not_the_flags_of_the_second_run(again: str) -> None:
    fix = first((BUILD, BROKEN, FAILED), edit("/w/theme/base.css"), (again, "", FINE))
    assert (fix.how, fix.is_shown) == ("edit", False)
    fix = first((BUILD, BROKEN, FAILED), edit("/w/guide.md", "+title: guide"), (again, "", FINE))
    assert fix.how != "changed"


@pytest.mark.parametrize(
    "command",
    [
        "git checkout --ours -- notes.txt",
        "apply_patch <<'END'\n*** Update File: notes.txt\n-a\n+b\nEND",
        "sed -i s/a/b/ notes.txt",
    ],
)
def test_a_command_that_changed_files_makes_the_changed_call_a_guess(command: str) -> None:
    rebase = ("git rebase main topic", "error: could not apply 1a2b3c4... topic", FAILED)
    again = ("git rebase main topic --quiet", "", FINE)
    assert not first(rebase, (command, "", FINE), again).is_shown


def test_an_edit_of_another_file_than_the_one_with_the_error_is_a_guess() -> None:
    failed = ("go vet ./...", "# w/store\nstore/load.go:12:3: undefined: openFile", FAILED)
    again = ("go vet ./...", "", FINE)
    assert not first(failed, edit("/w/store/names.md", "+words"), again).is_shown
    output = failed[1] + "\nstore/file.go"
    named = ("go vet ./...", output, FAILED)
    assert not first(named, edit("/w/store/file.go", "-x := 1\n+x := 2"), again).is_shown
    assert first(named, edit("/w/store/file.go", "+func openFile() {}"), again).is_shown
    assert first(failed, edit("/w/store/load.go", "-x := 1\n+x := 2"), again).is_shown


@pytest.mark.parametrize(
    "diff",
    [
        "+    print(value)",
        '+\tt.Logf("got %v", got)\n+',
        "+  console.log('here', state);",
        '-\tt.Fatalf("load: %v", err)\n+\tt.Fatalf("load: %v (%s)", err, out)',
        '-    assert total == 3\n+    assert total == 3, f"total: {total}"',
    ],
)
def test_more_output_is_no_fix(diff: str) -> None:
    assert only_adds_output(f"a.go\n@@\n{diff}")
    failed = go_tests(
        "--- FAIL: TestLoad (0.00s)\n    a_test.go:3: load: gone\nFAIL",
        tests=Tests(failed=1, passed=0),
        exit_code=1,
        is_error=True,
    )
    again = go_tests("ok  \tw\t0.01s", tests=Tests(failed=0, passed=1), exit_code=0)
    assert not first(failed, edit("/w/a_test.go", diff), again).is_shown


@pytest.mark.parametrize(
    "diff",
    [
        "+    total = 3\n+    print(total)",
        "-    assert total == 3\n+    assert total == 4",
        '-\tt.Fatalf("load")\n+\tload()',
        "-    print(a)",
    ],
)
def test_an_edit_that_does_more_than_print_may_be_a_fix(diff: str) -> None:
    assert not only_adds_output(f"a.go\n@@\n{diff}")


@pytest.mark.parametrize(
    "error",
    [
        "error: request timed out after 30 s",
        "TimeoutError: page.goto: Timeout 30000 ms exceeded",
        "error: context deadline exceeded",
    ],
)
def test_a_timeout_that_passes_with_another_setting_is_a_guess(error: str) -> None:
    failed = ("crawl pages --workers 8 --depth 2 site.txt", error, FAILED)
    again = ("crawl pages --workers 2 --depth 2 site.txt", "all checks passed", FINE)
    assert not first(failed, again).is_shown
    other = ("crawl pages --workers 8 --depth 2 site.txt", "error: unknown flag --workers", FAILED)
    assert first(other, ("crawl pages --depth 2 site.txt", "", FINE)).is_shown


def test_a_command_that_leaves_out_what_failed_is_no_fix() -> None:
    failed = ("runtests.py forms.test_date forms.test_zone", "ERROR: forms.test_zone", FAILED)
    assert not shown(failed, ("runtests.py forms.test_date", "all checks passed", FINE))
    assert not shown(failed, ("runtests.py forms.test_date cache", "all checks passed", FINE))
    fixed = ("runtests.py forms.test_date forms.test_zones", "all checks passed", FINE)
    assert shown(failed, fixed)


def test_looking_at_another_folder_is_no_fix() -> None:
    missing = "ls: cannot access '/opt/data/maps': No such file or directory"
    failed = ("ls -la /opt/data/maps", missing, FAILED)
    assert not shown(failed, ("ls -la /opt/data", "total 0", FINE))


def rewritten(sign: str, word: str) -> list[str]:
    lines = [f"{sign}line {n}" for n in range(1, 201)]
    lines[0], lines[149] = f"{sign}import parse", f"{sign}value = parse({word})"
    return lines


def test_of_a_file_that_was_rewritten_the_part_is_shown_that_the_error_names() -> None:
    added = rewritten("+", "text")
    by_word = pick_hunk("\n".join(added), {"parse", "text"})
    assert "+value = parse(text)" in by_word
    assert "+import parse" not in by_word
    both = "\n".join([*rewritten("-", "data"), *added])
    by_number = pick_hunk(both, {"nothing"}, 150)
    assert "-value = parse(data)" in by_number
    assert "+import parse" not in by_number
    assert pick_hunk("\n".join(added), {"nothing"}).startswith("+import parse")
