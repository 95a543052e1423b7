"""From planted patterns to proposals, and what decisions do to them."""

from __future__ import annotations

from datetime import UTC, datetime

import msgspec

from runlore.config import Lessons as Thresholds
from runlore.lessons import Lesson
from runlore.lessons.curate import decide, merge, propose
from runlore.mine.patterns import find_patterns
from runlore.mine.values import Case
from tests.mine.fleet import PLANTS, fleet

NOW = datetime(2026, 9, 1, tzinfo=UTC)
LATER = datetime(2027, 1, 1, tzinfo=UTC)


def proposed(
    cases: list[Case],
    known: list[Lesson] | None = None,
    thresholds: Thresholds = Thresholds(),  # noqa: B008
) -> list[Lesson]:  # A value.
    return propose(
        find_patterns(cases), {case.uid: case for case in cases}, known or [], thresholds, NOW
    )


def about(lessons: list[Lesson], word: str) -> Lesson:
    [found] = [one for one in lessons if word in one.when + one.do]
    return found


def test_an_error_that_sessions_got_over_becomes_a_proposal_with_what_ended_it() -> None:
    found = about(proposed(fleet(1, 30, {"recovery": [2, 9, 20]})), "vite")
    assert (found.status, found.kind, found.by) == ("proposed", "setup_first", "mined")
    assert "`Error: Cannot find module 'vite'`" in found.when
    assert found.do == "Run `npm install` at the root of the repository, then the command again."
    assert "imports" in found.avoid
    assert (found.sessions, found.helped, found.repo) == (3, 3, "acme/shop")
    assert {ref.partition("#")[0] for ref in found.evidence} == {"toy:0002", "toy:0009", "toy:0020"}
    assert 0 < found.confidence < 1


def test_a_correction_that_people_repeat_becomes_a_proposal_in_their_words() -> None:
    found = about(proposed(fleet(2, 30, {"correction": [3, 8, 14, 25]})), "pnpm")
    assert found.kind == "correction"
    assert found.evidence


def test_what_nothing_helped_against_and_what_came_once_becomes_no_lesson() -> None:
    assert proposed(fleet(3, 30, {"recurring_error": [1, 5, 9]})) == []
    assert proposed(fleet(4, 30, {"recovery": [7]})) == []
    assert proposed(fleet(5, 60, {})) == []


def test_what_ended_an_error_in_one_session_only_becomes_no_lesson() -> None:
    cases = fleet(1, 30, {"recovery": [2, 9, 20]})
    for n, name in ((2, "one"), (9, "two")):
        fixes = tuple(
            msgspec.structs.replace(
                fix,
                after=f"{name} install",
                steps=(
                    msgspec.structs.replace(fix.steps[0], summary=f"{name} install"),
                    *fix.steps[1:],
                ),
            )
            for fix in cases[n].digest.fixes
            if fix.steps
        )
        cases[n] = msgspec.structs.replace(
            cases[n], digest=msgspec.structs.replace(cases[n].digest, fixes=fixes)
        )
    assert [one for one in proposed(cases) if "vite" in one.when] == []


def test_a_second_look_changes_nothing() -> None:
    cases = fleet(1, 30, {"recovery": [2, 9, 20], "correction": [3, 8, 14]})
    known = proposed(cases)
    assert len(known) == 2
    assert proposed(cases, known) == []


def test_a_reject_is_remembered_until_there_is_more_evidence() -> None:
    few, more = (fleet(1, 40, {"recovery": numbers}) for numbers in ([2, 9, 20], [2, 9, 20, 35]))
    rejected = decide(about(proposed(few), "vite"), "rejected", NOW, why="no")
    assert proposed(few, [rejected]) == []
    [again] = proposed(more, [rejected])
    assert (again.id, again.status, again.sessions, again.why) == (rejected.id, "proposed", 4, "no")


def test_a_rejected_correction_stays_rejected_when_its_words_and_sessions_change() -> None:
    few = fleet(2, 30, {"correction": [3, 8, 14]})
    rejected = msgspec.structs.replace(
        decide(about(proposed(few), "pnpm"), "rejected", NOW),
        id="0old",
        evidence=("toy:gone#1",),
        sessions=9,
    )
    assert proposed(few, [rejected]) == []


def test_what_was_approved_keeps_its_words_and_gets_the_evidence_of_today() -> None:
    approved = msgspec.structs.replace(
        decide(about(proposed(fleet(1, 40, {"recovery": [2, 9, 20]})), "vite"), "approved", NOW),
        do="mine",
    )
    [now] = proposed(fleet(1, 40, {"recovery": [2, 9, 20, 35]}), [approved])
    assert (now.do, now.status, now.sessions) == ("mine", "approved", 4)
    edited = msgspec.structs.replace(approved, status="proposed", edited=True)
    [now] = proposed(fleet(1, 40, {"recovery": [2, 9, 20, 35]}), [edited])
    assert (now.do, now.sessions) == ("mine", 4)


def test_only_the_configuration_approves_by_itself_and_only_what_passes() -> None:
    enough, few = fleet(1, 40, {"recovery": [2, 9, 35]}), fleet(1, 40, {"recovery": [2, 9]})
    auto, strict = Thresholds(auto=True), Thresholds(auto=True, deliver=4)
    assert about(proposed(enough, thresholds=auto), "vite").status == "approved"
    assert about(proposed(enough, thresholds=strict), "vite").status == "proposed"
    assert about(proposed(enough), "vite").status == "proposed"
    assert proposed(few, thresholds=auto) == []


def test_sessions_after_the_decision_that_go_another_way_are_counted() -> None:
    cases = fleet(1, 40, {"recovery": [2, 9, 20, 30, 35, 38]})
    made = about(proposed(cases), "vite")
    times = sorted(
        case.at for case in cases if case.uid in {ref.partition("#")[0] for ref in made.evidence}
    )
    approved = msgspec.structs.replace(made, status="approved", decided_at=times[1])
    assert (
        about(proposed(cases, [approved]), "vite").kept,
        about(proposed(cases, [approved]), "vite").broken,
    ) == (4, 0)
    other = msgspec.structs.replace(approved, id="0other", key="setup_first yarn", confidence=0.01)
    found = {one.id: one for one in proposed(cases, [other])}
    assert (found["0other"].kept, found["0other"].broken, found["0other"].is_doubted) == (
        0,
        4,
        True,
    )
    better = found[made.id]
    # It is proposed, and takes no place by itself.
    assert (better.status, better.supersedes) == ("proposed", "0other")


def test_two_lessons_are_merged_and_one_is_superseded() -> None:
    one = Lesson(
        id="a",
        when="p",
        do="r",
        evidence=("toy:1#1", "toy:2#1"),
        sessions=2,
        repo="x/y",
        fingerprint="f",
    )
    other = Lesson(
        id="b",
        when="q",
        do="s",
        evidence=("toy:2#1", "toy:3#4"),
        sessions=2,
        status="approved",
    )
    gone, kept = merge(one, other, LATER)
    assert (gone.status, gone.superseded_by, gone.when) == ("superseded", "b", "p")
    assert kept.evidence == ("toy:2#1", "toy:3#4", "toy:1#1")
    assert (kept.sessions, kept.repo, kept.status, kept.fingerprint) == (3, "", "approved", "f")


def test_nothing_that_may_be_told_is_without_evidence_on_a_fleet_with_everything_planted() -> None:
    free = iter(range(200))
    cases = fleet(7, 200, {name: [next(free) for _ in range(5)] for name in PLANTS})
    by_uid = {case.uid: case for case in cases}
    ready = [one for one in proposed(cases, thresholds=Thresholds(auto=True)) if one.is_ready(3)]
    changes = {
        "setup_first",
        "quoted",
        "left_out",
        "replaced_program",
        "added_prefix",
        "read_first",
    }
    others = {"added_flag", "absolute_path"}
    assert {one.kind for one in ready} == {"correction", "flaky", *changes, *others}
    for one in ready:
        assert one.do
        for ref in one.evidence:
            uid, _, seq = ref.partition("#")
            assert 0 <= int(seq) <= by_uid[uid].digest.covers.last_seq


def test_a_lesson_in_a_persons_words_is_not_doubted_for_what_sessions_did() -> None:
    cases = fleet(1, 40, {"recovery": [2, 9, 20, 30, 35, 38]})
    made = about(proposed(cases), "vite")
    own = msgspec.structs.replace(
        made, id="0own", by="person", status="approved", key="", decided_at=cases[0].at
    )
    [found] = [one for one in [own, *proposed(cases, [own])] if one.id == "0own"]
    assert (found.kept, found.broken, found.is_doubted) == (0, 0, False)


def test_a_session_that_got_over_an_error_nobody_knows_how_contradicts_nothing() -> None:
    cases = fleet(1, 40, {"recovery": [2, 9, 20, 30, 35, 38]})
    approved = msgspec.structs.replace(
        about(proposed(cases), "vite"), status="approved", decided_at=cases[0].at
    )
    for n, is_over in ((30, True), (35, False)):
        fixes = tuple(
            msgspec.structs.replace(
                fix, fixed_seq=fix.fixed_seq if is_over else None, steps=(), confidence=0.0
            )
            for fix in cases[n].digest.fixes
        )
        cases[n] = msgspec.structs.replace(
            cases[n], digest=msgspec.structs.replace(cases[n].digest, fixes=fixes)
        )
    found = about(proposed(cases, [approved]), "vite")
    assert (found.kept, found.broken) == (4, 1)


def test_what_was_merged_into_a_lesson_stays_its_evidence() -> None:
    cases = fleet(1, 40, {"recovery": [2, 9, 20], "correction": [3, 8, 14]})
    one, into = (about(proposed(cases), word) for word in ("pnpm", "vite"))
    gone, kept = merge(one, decide(into, "approved", NOW), NOW)
    assert kept.merged == (one.id,)
    assert len(kept.evidence) == 6
    more = fleet(1, 40, {"recovery": [2, 9, 20, 35], "correction": [3, 8, 14, 25]})
    [now] = proposed(more, [gone, kept])
    assert (now.id, len(now.evidence), now.sessions) == (kept.id, 8, 8)
    assert proposed(more, [gone, now]) == []
