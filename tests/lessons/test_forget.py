"""What lessons lose when a session that they rest on is forgotten, and what they keep."""

from __future__ import annotations

from datetime import UTC, datetime

import msgspec
import pytest

from runlore.config import Lessons as Thresholds
from runlore.lessons import Lesson
from runlore.lessons.curate import decide
from runlore.lessons.drafts import draft_lessons
from runlore.lessons.forget import FORGOTTEN, ForgottenSession, find_affected, remove_sessions
from runlore.mine.commands import command_head
from runlore.mine.patterns import find_patterns
from runlore.mine.values import Case
from tests.lessons.test_curate import about, proposed
from tests.mine.fleet import fleet

NOW = datetime(2026, 11, 1, tzinfo=UTC)
replace = msgspec.structs.replace


def after(
    lesson: Lesson, cases: list[Case], *uids: str, texts: tuple[str, ...] = ()
) -> Lesson | None:
    """The lesson when these sessions are forgotten."""
    by_uid = {case.uid: case for case in cases}
    gone = {
        uid: ForgottenSession(by_uid[uid].digest if uid in by_uid else None, texts) for uid in uids
    }
    left = [case for case in cases if case.uid not in uids]
    drafted = draft_lessons(find_patterns(left), {case.uid: case for case in left}, Thresholds())
    made = [one.lesson for one in drafted if one.lesson]
    return remove_sessions(lesson, gone, made, NOW)


def with_step(case: Case, summary: str) -> Case:
    """With another fix, as surely known as can be: so it is the one that is told."""
    fixes = tuple(
        replace(fix, after=summary, steps=(replace(fix.steps[0], summary=summary),), confidence=1.0)
        for fix in case.digest.fixes
    )
    return replace(case, digest=replace(case.digest, fixes=fixes))


def test_words_and_evidence_come_from_the_sessions_that_are_left() -> None:
    cases = fleet(1, 30, {"recovery": [2, 9, 20, 25]})
    cases[9] = with_step(cases[9], "npm run build-of-secret-project && npm install")
    cases[20] = with_step(cases[20], "npm run build-of-secret-project && npm install")
    lesson = decide(about(proposed(cases), "vite"), "approved", NOW)
    assert "secret-project" in lesson.do
    found = after(lesson, cases, "toy:0009")
    assert found is not None
    assert (found.status, found.sessions) == ("approved", 3)
    assert {ref.partition("#")[0] for ref in found.evidence} == {
        "toy:0002",
        "toy:0020",
        "toy:0025",
    }
    assert found.notes == "2026-11-01: a session that it rested on was forgotten."
    assert found.is_ready(2)


@pytest.mark.parametrize("status", ["approved", "rejected", "retired", "superseded"])
def test_a_decision_stays_when_too_little_is_left_and_the_words_go(status: str) -> None:
    cases = fleet(1, 30, {"recovery": [2, 9, 20]})
    lesson = decide(about(proposed(cases), "vite"), status, NOW, why="I know this one")
    found = after(lesson, cases, "toy:0002")
    assert found is not None
    assert (found.id, found.status, found.why, found.sessions) == (
        lesson.id,
        status,
        "I know this one",
        2,
    )
    assert (found.when, found.do, found.key) == (FORGOTTEN, "", "")
    assert "its words with it" in found.notes
    assert not found.is_ready(1)


def test_a_proposal_goes_when_too_little_is_left() -> None:
    cases = fleet(1, 30, {"recovery": [2, 9, 20]})
    assert after(about(proposed(cases), "vite"), cases, "toy:0002") is None


def test_a_correction_is_told_in_the_words_of_those_who_are_left() -> None:
    cases = fleet(2, 30, {"correction": [3, 8, 14, 25]})
    lesson = decide(about(proposed(cases), "pnpm"), "approved", NOW)
    loudest = next(
        case.uid
        for case in cases
        if any(moment.text == lesson.do for moment in case.digest.corrections)
    )
    found = after(lesson, cases, loudest)
    assert found is not None
    assert loudest not in {ref.partition("#")[0] for ref in found.evidence}
    assert "pnpm" in found.do


def test_a_persons_own_words_stay_and_what_they_quote_goes() -> None:
    cases = fleet(1, 30, {"recovery": [2, 9, 20]})
    own = Lesson(
        id="own",
        by="person",
        when="builds break",
        do="npm install vite",
        evidence=("toy:0002#1", "toy:0009#1"),
    )
    found = after(
        own, cases, "toy:0002", texts=("the build of the secret project breaks on a Monday",)
    )
    assert found is not None
    assert (found.when, found.do, found.evidence) == (
        own.when,
        own.do,
        ("toy:0009#1",),
    )
    quoting = replace(own, when="the build of the secret project breaks")
    found = after(
        quoting, cases, "toy:0002", texts=("the build of the secret project breaks on a Monday",)
    )
    assert found is not None
    assert (found.when, found.do) == (FORGOTTEN, own.do)


def test_a_command_that_an_edited_lesson_still_tells_goes_with_its_session() -> None:
    cases = fleet(1, 30, {"recovery": [2, 9, 20]})
    mined = replace(decide(about(proposed(cases), "vite"), "approved", NOW), edited=True)
    cases[9] = with_step(cases[9], "npm install secret-project")
    quoting = replace(mined, do="Run `npm install secret-project` first.")
    for edited in (quoting, replace(quoting, do=f"{quoting.do} Ask Ann first.")):
        assert "secret-project" in edited.do
        found = after(edited, cases, "toy:0009")
        assert found is not None
        assert "secret-project" not in found.do
    own = replace(mined, when="builds break", do="Ask Ann for the registry first.")
    found = after(own, cases, "toy:0009")
    assert found is not None
    assert (found.when, found.do) == (own.when, own.do)


def test_the_command_that_a_lesson_is_about_goes_with_the_sessions_that_ran_it() -> None:
    cases = fleet(3, 30, {"retry_storm": [2, 9, 20]})
    about_it = next(command_head(run.command) for run in cases[2].digest.commands if run.failed)
    decided = Lesson(
        id="storm",
        kind="retries",
        status="approved",
        when="it fails",
        do="stop",
        evidence=("toy:0002#1",),
    )
    mined = replace(decided, about=about_it)
    assert find_affected(
        [replace(mined, evidence=())], {"toy:0009": ForgottenSession(cases[9].digest)}
    ) == [replace(mined, evidence=())]
    found = after(mined, cases, "toy:0002")
    assert found is not None
    assert (found.about, found.when, found.do) == ("", FORGOTTEN, "")
    edited = replace(mined, edited=True, evidence=("toy:0002#1", "toy:0009#1"))
    kept, gone = after(edited, cases, "toy:0002"), after(edited, cases, "toy:0002", "toy:0009")
    assert kept is not None
    assert gone is not None
    assert (kept.about, kept.do, "its words" in kept.notes) == (about_it, "stop", False)
    assert (gone.about, gone.do, "its words" in gone.notes) == ("", "stop", True)


def test_lessons_that_have_nothing_of_a_session_are_not_touched() -> None:
    cases = fleet(1, 30, {"recovery": [2, 9, 20], "correction": [3, 8, 14]})
    known = proposed(cases)
    by_uid = {case.uid: ForgottenSession(case.digest) for case in cases}
    assert find_affected(known, {"toy:0005": by_uid["toy:0005"]}) == []
    assert [one.kind for one in find_affected(known, {"toy:0009": by_uid["toy:0009"]})] == [
        "setup_first"
    ]
    # A lesson names no more than the newest of its sessions.
    uncited = [replace(one, evidence=()) for one in known]
    assert [one.kind for one in find_affected(uncited, {"toy:0009": by_uid["toy:0009"]})] == [
        "setup_first"
    ]
    assert find_affected(known, {"toy:unknown": ForgottenSession(None)}) == []


def test_words_that_other_sessions_have_as_well_stay_without_a_note() -> None:
    cases = fleet(1, 30, {"recovery": [2, 9, 20]})
    title = "Error: Cannot find module 'vite'"
    cases[5] = replace(cases[5], digest=replace(cases[5].digest, title=title))
    lesson = decide(about(proposed(cases), "vite"), "approved", NOW)
    assert find_affected([lesson], {"toy:0005": ForgottenSession(cases[5].digest)}) == [lesson]
    assert after(lesson, cases, "toy:0005") == lesson
