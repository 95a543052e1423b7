"""What lowers the confidence of a fix: the way from the error to its end, and what is not shown."""

from __future__ import annotations

import msgspec
import pytest

from runlore.digest import Fix
from runlore.digest.changes import differs_twice
from runlore.digest.doubts import MAX_CLEAR_DISTANCE, MAX_DISTANCE_SHOWN
from runlore.digest.fixes import fixes
from runlore.model import SessionEvent
from tests.digest.sessions import UID, session
from tests.digest.test_fix_credit import SURE
from tests.digest.test_fixes import FAILED, FINE, Turn, edit

BROKEN: Turn = ("make", "shop.c:12:2: error: no type named price", FAILED)
MENDED = edit("/w/shop.c", "-price p;\n+struct price p;")
BUILT: Turn = ("make", "", FINE)
LOOK: Turn = ("ls", "shop.c", FINE)
CHANGE: Turn = ("make config", "", FINE)


def first(*turns: Turn) -> Fix:
    return fixes(*session(*turns))[0]


def test_the_longer_the_way_the_less_is_known() -> None:
    def after(looks: int) -> float:
        return first(BROKEN, MENDED, *[LOOK] * (looks - 2), BUILT).confidence

    assert after(MAX_CLEAR_DISTANCE) >= SURE > after(MAX_CLEAR_DISTANCE + 1) >= 0.5
    assert after(MAX_DISTANCE_SHOWN) >= 0.5 > after(MAX_DISTANCE_SHOWN + 1)


def test_what_else_was_changed_may_have_been_the_fix() -> None:
    assert first(BROKEN, MENDED, BUILT).confidence >= SURE
    assert 0.5 <= first(BROKEN, MENDED, CHANGE, BUILT).confidence < SURE
    missing: Turn = ("pytest app", "ModuleNotFoundError: No module named 'attrs'", FAILED)
    install: Turn = ("pip install attrs", "Successfully installed attrs", FINE)
    passed: Turn = ("pytest app", "1 passed", FINE)
    assert first(missing, install, passed).confidence >= SURE
    assert first(missing, edit("/w/setup.cfg"), install, passed).confidence < SURE


def test_one_of_many_edits_is_not_sure() -> None:
    others = [edit(f"/w/page{n}.c", f"-a{n}\n+b{n}") for n in range(3)]
    assert first(BROKEN, MENDED, *others[:2], BUILT).confidence >= SURE
    assert first(BROKEN, MENDED, *others, BUILT).confidence < SURE


def test_two_doubts_are_too_many_to_show_a_fix() -> None:
    looks = [LOOK] * MAX_CLEAR_DISTANCE
    assert first(BROKEN, MENDED, *looks, BUILT).is_shown
    assert not first(BROKEN, MENDED, CHANGE, *looks, BUILT).is_shown


def test_what_a_subagent_or_a_person_changed_in_between_is_not_known() -> None:
    helper: Turn = ("look at the build", "done", {"action": "agent"})
    assert first(BROKEN, helper, MENDED, BUILT).confidence < SURE
    events, bodies = session(BROKEN, MENDED, BUILT)
    apart = [msgspec.structs.replace(event, seq=10 * event.seq) for event in events]
    bodies = {10 * seq: body for seq, body in bodies.items()}
    assert fixes(apart, bodies)[0].confidence >= SURE
    prompt = SessionEvent(session_uid=UID, seq=35, kind="user_msg", role="user")
    said = fixes([*apart, prompt], {**bodies, 35: "I changed the header, try again"})
    assert said[0].confidence < SURE


def test_an_edit_too_long_to_be_shown_is_not_sure() -> None:
    lines = "\n".join(f"+int line{n};" for n in range(30))
    assert first(BROKEN, edit("/w/shop.c", f"-price p;\n{lines}"), BUILT).confidence < SURE


@pytest.mark.parametrize(
    ("later", "twice"),
    [
        ("/w/a.py\n@@ 70:72 @@\n+if x:\n+    y()", False),  # Another place.
        ("/w/a.py\n@@ 70:71 @@\n+if x:\n+    z()", False),  # Another line.
        ("/w/a.py\n@@ 70:72 @@\n+if x:\n+    y()\n+else:", False),  # It extends the first one.
        ("/w/a.py\n@@ 70:72 @@\n+if x:\n+    z()", True),
    ],
)
def test_two_edits_that_differ_in_place_and_lines_do_not_tell_which_mattered(
    later: str, twice: bool
) -> None:
    assert differs_twice("/w/a.py\n@@ 70:71 @@\n+if x:\n+    y()", later) is twice


def test_a_file_that_was_found_elsewhere_is_told_to_nobody_else() -> None:
    fix = first(
        ("cat docs/install.md", "cat: docs/install.md: No such file or directory", FAILED),
        ("cat doc/install.md", "Install it", FINE),
    )
    assert 0.5 <= fix.confidence < SURE


def test_another_test_is_no_correction_of_the_first_one() -> None:
    missing = "ModuleNotFoundError: No module named 'migrations.test_recorder'"
    run = {"kind": "test_run"}
    failed: Turn = ("python runtests.py -v 2 migrations.test_recorder", missing, FAILED | run)
    other: Turn = ("python runtests.py -v 2 migrations.test_executor", "OK", FINE | run)
    assert not first(failed, other).is_shown


def test_the_same_program_about_another_thing_is_no_fix() -> None:
    failed: Turn = ("pip install --quiet .[test]", "error: metadata-generation-failed", FAILED)
    other: Turn = ("pip install --quiet cython", "Successfully installed cython", FINE)
    assert not first(failed, other).is_shown


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("flow wait worker --timeout 1200", "flow wait worker --timeout 600"),
        ("flow wait worker", "FLOW_LIMIT=600 flow wait worker"),
    ],
)
def test_another_limit_fixes_nothing_that_does_not_name_it(before: str, after: str) -> None:
    failed: Turn = (before, "Error: unknown process 33370", FAILED)
    assert not first(failed, (after, "ready", FINE)).is_shown


def test_a_limit_that_the_error_names_may_be_the_fix() -> None:
    failed: Turn = ("flow wait worker", "Error: FLOW_LIMIT is not set", FAILED)
    assert first(failed, ("FLOW_LIMIT=600 flow wait worker", "ready", FINE)).is_shown


def test_a_file_that_is_only_removed_or_one_of_many_is_no_edit_alone() -> None:
    run = {"kind": "test_run"}
    failed: Turn = ("pytest", "E   RuntimeError: it went wrong", FAILED | run)
    passed: Turn = ("pytest", "3 passed", FINE | run)
    alone = edit("/w/page.py", "-    draw(1)\n+    draw(2)")
    assert first(failed, alone, passed).is_shown
    assert not first(failed, edit("/w/page.py", ""), passed).is_shown
    again = edit("/w/page.py", "-    paint(1)\n+    paint(2)")
    assert not first(failed, alone, again, passed).is_shown
