"""Which of several edits and calls is credited with a fix, and what is shown of it."""

from __future__ import annotations

import msgspec
import pytest

from runlore.digest import Fix
from runlore.digest.changes import diff_edits, pick_hunk
from runlore.digest.error_lines import find_error_lines
from runlore.digest.fixes import fixes
from runlore.digest.sections import find_section
from runlore.digest.signatures import build_signature
from runlore.model import Tests
from tests.digest.sessions import session
from tests.digest.test_fixes import FAILED, FINE, Turn, edit

SURE = 0.8
"""The confidence from which a fix is told to other agents."""


def first(*turns: Turn) -> Fix:
    return fixes(*session(*turns))[0]


def go_tests(output: str, failed: int = 0) -> Turn:
    fields = {"kind": "test_run", "tests": Tests(failed=failed, passed=2)}
    return ("go test ./shop", output, fields | (FAILED if failed else FINE))


PASSED = go_tests("ok  \tw/shop\t0.3s")
TWO_FAILED = go_tests(
    "--- FAIL: TestPrice (0.00s)\n    shop_test.go:12: rounding: got 3, want 4\n"
    "--- FAIL: TestStock (0.00s)\n    shop_test.go:40: reserve: negative amount\n"
    "FAIL\nFAIL\tw/shop\t0.2s",
    failed=2,
)


def test_of_two_failed_tests_each_has_the_edit_with_its_own_names() -> None:
    price = edit("/w/shop_test.go", "-	check(rounding(3), 4)\n+	check(rounding(4), 4)")
    stock = edit("/w/shop_test.go", "-	reserve(-1)\n+	reserve(amount(1))")
    by_test = fixes(*session(TWO_FAILED, price, stock, PASSED))
    assert [fix.steps[0].seq for fix in by_test] == [2, 4]
    assert all(fix.confidence >= SURE for fix in by_test)


def test_an_edit_for_the_other_test_is_no_sure_fix() -> None:
    stock = edit("/w/shop_test.go", "-	reserve(-1)\n+	reserve(amount(1))")
    price, other = fixes(*session(TWO_FAILED, stock, PASSED))
    assert price.confidence < SURE <= other.confidence


def test_an_edit_without_any_name_of_the_error_is_no_sure_fix() -> None:
    failed = go_tests(
        "--- FAIL: TestPrice (0.00s)\n    shop_test.go:12: no such folder: out/pages\nFAIL", 1
    )
    tidied = edit("/w/shop_test.go", "-	x := 1\n+	var x = 1")
    assert first(failed, tidied, PASSED).confidence < SURE


def test_the_edit_of_the_line_that_the_report_quotes_is_credited() -> None:
    report = (
        "____ TestLink.test_link ____\n\n    def test_link(self):\n"
        '>       assert "link_name" in page\nE       AssertionError\n\n'
        "test_page.py:60: AssertionError\n=== short test summary info ===\n"
        "FAILED test_page.py::TestLink::test_link\n=== 1 failed, 1 passed in 0.3s ==="
    )
    run = {"kind": "test_run"}
    right = edit("/w/test_page.py", '-        assert "link_name" in page')
    other = edit("/w/test_page.py", '-        assert "link_name" not in page')
    fix = first(
        ("pytest test_page.py", report, FAILED | run | {"tests": Tests(failed=1, passed=1)}),
        right,
        other,
        ("pytest test_page.py", "2 passed", FINE | run | {"tests": Tests(failed=0, passed=2)}),
    )
    assert fix.steps[0].seq == 2
    assert fix.change == '-        assert "link_name" in page'
    assert fix.confidence >= SURE


def test_two_edits_that_may_both_be_the_fix_are_no_sure_one() -> None:
    failed = ("tsc", "src/a.ts(3,1): error TS2345: Type 'Price' is no 'Amount'.", FAILED)
    edits = (
        edit("/w/src/a.ts", "-  f(Price, Amount)\n+  f(Amount)"),
        edit("/w/src/a.ts", "-  g(Price, Amount)\n+  g(Amount)"),
    )
    assert first(failed, *edits, ("tsc", "", FINE)).confidence < SURE
    assert first(failed, edits[0], ("tsc", "", FINE)).confidence >= SURE


def test_code_that_was_moved_is_not_shown_as_removed() -> None:
    output = "a.ts:9:1 lint/nouns/useBefore\n  send is used before its declaration"
    added = edit("/w/a.ts", "+const send = () => {\n+  post(message)\n+}")
    removed = edit("/w/a.ts", "-const send = () => {\n-  post(message)\n-}")
    fix = first(("lint", f"{output}\nFound 1 error.", FAILED), added, removed, ("lint", "", FINE))
    assert fix.confidence < SURE


def test_an_edit_that_was_replaced_before_the_success_is_not_credited() -> None:
    failed = ("pyright", 'w/a.py:8:5 - error: Type of "price" is unknown', FAILED)
    attempt = edit("/w/a.py", '-    price = row["p"]\n+    price = row["p"]  # type: int')
    final = edit("/w/a.py", '-    price = row["p"]  # type: int\n+    price = int(row["p"])')
    fix = first(failed, attempt, final, ("pyright", "0 errors", FINE))
    assert fix.steps[0].seq == 4
    still = ("pyright", 'w/a.py:9:5 - error: Import "b" could not be resolved', FAILED)
    fix = first(failed, attempt, still, final, ("pyright", "0 errors", FINE))
    assert fix.confidence < SURE


@pytest.mark.parametrize(
    "turn",
    [
        edit("/w/shop_test.go", "-func TestPrice(t *testing.T) {\n-	rounding(3)\n-}"),
        edit("/w/shop_test.go", ' func TestPrice(t *testing.T) {\n+	t.Skip("rounding")'),
        ("rm shop/shop_test.go", "", FINE),
    ],
)
def test_a_test_that_is_gone_or_skipped_was_not_fixed(turn: Turn) -> None:
    failed = go_tests("--- FAIL: TestPrice (0.00s)\n    shop_test.go:12: rounding\nFAIL", 1)
    other = edit("/w/shop_test.go", "-	rounding(3)\n+	rounding(4)")
    assert first(failed, other, PASSED).is_shown
    assert not first(failed, other, turn, PASSED).is_shown


def test_a_file_that_is_thrown_away_later_was_no_problem() -> None:
    error = "try_test.go:3:2: undefined: price"
    fix_it = edit("/w/try_test.go", "-	price()\n+	shop.price()")
    turns = (go_tests(f"# w/shop\n{error}\nFAIL", 1), fix_it, PASSED)
    assert first(*turns).is_shown
    assert not first(*turns, ("rm try_test.go && git status", "", FINE)).is_shown


def test_a_line_that_the_success_prints_as_well_is_not_what_failed() -> None:
    warning = "Error: cannot find module 'colors' (12 ms)"
    build = ("make site", f"{warning}\nmake: stopped", FAILED)
    install = ("npm install colors", "added 1 package", FINE)
    assert first(build, install, ("make site", "done", FINE)).is_shown
    again = ("make site", warning.replace("12", "9") + "\ndone", FINE)
    assert first(build, install, again).fixed_seq is None


INDENTED = (
    "/w/a.py\n@@ 8:8 @@\n+return total",
    "Your edit has a new syntax error: E999 IndentationError: unexpected indent",
    {"action": "edit", "kind": "edit", "files": ("/w/a.py",), "is_error": True},
)


def test_a_fix_of_the_indentation_says_so() -> None:
    right = ("/w/a.py\n@@ 8:8 @@\n+    return total", "updated", INDENTED[2] | {"is_error": False})
    fix = first(INDENTED, right)
    assert (fix.change, fix.confidence >= SURE) == ("indentation of `return total`", True)
    other = ("/w/a.py\n@@ 8:8 @@\n+    return total\n+    # sum", *right[1:])
    assert first(INDENTED, other).confidence < SURE


def test_of_a_refused_edit_what_was_to_be_replaced_is_compared() -> None:
    before = "a.go\n@@\n+// Sums it\n+func sum() {}\n // Counts all.\n func count() {}"
    after = "a.go\n@@\n+// Sums it up\n+func sum() {}\n // Counts some.\n func count() {}"
    assert diff_edits(before, after) == "- // Counts all.\n+ // Counts some."


def test_a_patch_that_was_split_is_no_sure_change() -> None:
    body = {"action": "edit", "kind": "edit", "files": ("/w/a.yaml",)}
    large = "/w/a.yaml\n@@\n-a: 1\n+a: 2\n@@\n-b: 1\n+b: 2"
    failed = (large, "failed to find expected lines", body | {"is_error": True})
    fix = first(failed, ("/w/a.yaml\n@@\n-a: 1\n+a: 2", "done", body))
    assert (fix.how, fix.confidence < SURE) == ("changed", True)


def test_the_remaining_output_of_an_older_process_is_no_repetition() -> None:
    running = {"exit_code": None}
    turns = (
        ("go build ./shop", "Process running with session ID 11", running),
        ("go build ./shop", "shop/a.go:3:1: undefined: price", FAILED),
        edit("/w/shop/a.go", "-price()\n+cost()"),
        ("", "Process exited with code 0", FINE),
    )
    events, bodies = session(*turns)
    events[6] = msgspec.structs.replace(events[6], summary="session 11")
    assert fixes(events, bodies)[0].fixed_seq is None


@pytest.mark.parametrize(
    ("failed", "later"),
    [
        ("tmux kill-session -t shop-11", "tmux kill-session -t shop-12"),
        ("kubectl delete pod carrot", "kubectl delete pod potato"),
    ],
)
def test_the_same_done_to_something_else_is_no_sure_fix(failed: str, later: str) -> None:
    error = f"error: cannot find {failed.split()[-1]}"
    assert first((failed, error, FAILED), (later, "done", FINE)).confidence < SURE


def test_a_tool_that_is_called_for_another_task_is_no_repetition() -> None:
    def call(task: int, **fields: object) -> Turn:
        text = f"task_id: {task}\nblock: true\nwait: 30\nformat: text"
        return (text, "Error: no task has this id", {"action": "other", **fields})

    assert first(call(7, is_error=True), call(8)).fixed_seq is None


def test_lines_that_an_edit_removes_and_adds_again_are_not_shown() -> None:
    old = "\n".join(f"-line {n}" for n in range(30))
    new = "\n".join(f"+line {n}" for n in range(30)).replace("+line 20", "+line twenty")
    hunk = pick_hunk(f"a.py\n@@\n{old}\n{new}", [])
    assert hunk == " line 19\n-line 20\n+line twenty\n line 21"


def test_the_report_of_one_of_several_errors_ends_where_the_next_begins() -> None:
    output = TWO_FAILED[1]
    price, stock = map(build_signature, find_error_lines(output))
    assert "rounding" in find_section(output, price, [stock])
    assert "rounding" not in find_section(output, stock, [price])
    assert "reserve" in find_section(output, stock, [price])
