"""Outcomes of sessions compared with hidden tests: precision and coverage of each level and kind of
evidence, beside what simple rules reach.

    python bench/outcome.py --labelled DIR/labelled
    python bench/outcome.py --labelled DIR/labelled --half tuning    # while writing the rules

The bars: a `fail` is right in 97 % of the cases, and a `success` more often by 5 points than the
base rate, which is the share of sessions that the hidden tests accept. Coverage is the share of all
sessions. The baselines: "submitted" calls a session a success if it handed its work in (a
submission, a commit), else a failure; "last test" goes by the last run of tests; "who spoke last"
calls it a success if the agent did.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable
from pathlib import Path

from _labelled import Labelled, sweagent, vorflux

from runlore.digest import Outcome
from runlore.digest.outcome import outcome

HALVES = ("tuning", "held-out")
MIN_FAIL = 0.97
MIN_LIFT = 0.05

Judged = list[tuple[Labelled, Outcome]]
Pairs = list[tuple[bool, str]]
"""The truth (resolved or not), and a verdict."""


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--labelled", type=Path, required=True, help="the folder with sweagent and vorflux"
    )
    parser.add_argument(
        "--half", choices=HALVES, help="one of them; without it both, and the whole"
    )
    parser.add_argument("--each", action="store_true", help="a line for each session")
    options = parser.parse_args()
    sets = {
        "sweagent": list(sweagent(options.labelled / "sweagent")),
        "vorflux": list(vorflux(options.labelled / "vorflux")),
    }
    for half in (options.half,) if options.half else (*HALVES, None):
        for name, sessions in sets.items():
            judged = judge(sessions, half)
            report(f"{name}, {half or 'both'} half" + "s" * (half is None), judged)
            for session, found in judged if options.each else ():
                truth = "resolved" if session.is_resolved else "failed"
                print(f"  {truth:9} {found.verdict:9} {found.by:12} {session.name} {found.reason}")


def judge(sessions: Iterable[Labelled], half: str | None) -> Judged:
    return [
        (session, outcome(session.events, session.bodies))
        for session in sessions
        if half is None or session.is_held_out == (half == "held-out")
    ]


def report(title: str, judged: Judged) -> None:
    base = sum(session.is_resolved for session, _ in judged) / max(1, len(judged))
    print(f"\n{title}: {len(judged)} sessions, base rate of success {base:.3f}")
    print(f"  {'':30}{'claimed':>8}{'right':>7}{'precision':>11}{'bar':>7}{'coverage':>10}")
    for verdict in ("success", "fail"):
        row(f"{verdict}", pairs_of(judged, lambda _: True), verdict, base)
    kinds = sorted({(found.level, found.by) for _, found in judged if found.verdict != "unknown"})
    for level in sorted({level for level, _ in kinds}):
        for verdict in ("success", "fail"):
            row(f"  {level}", pairs_of(judged, in_level(level)), verdict, base)
    for level, by in kinds:
        for verdict in ("success", "fail"):
            row(f"    {level}: {by}", pairs_of(judged, of_kind(by)), verdict, base)
    unknown = sum(found.verdict == "unknown" for _, found in judged)
    print(f"  unknown: {unknown} of {len(judged)}")
    for name, guess in BASELINES.items():
        pairs = [(session.is_resolved, guess(session)) for session, _ in judged]
        for verdict in ("success", "fail"):
            row(f"baseline {name}", pairs, verdict, base)


def in_level(level: str) -> Callable[[Outcome], bool]:
    return lambda found: found.level == level


def of_kind(by: str) -> Callable[[Outcome], bool]:
    return lambda found: found.by == by


def pairs_of(judged: Judged, counts: Callable[[Outcome], bool]) -> Pairs:
    """Return the truth and the verdict of all sessions; what does not count is unknown."""
    return [
        (session.is_resolved, found.verdict if counts(found) else "unknown")
        for session, found in judged
    ]


def row(name: str, pairs: Pairs, verdict: str, base: float) -> None:
    """Print how often a verdict is claimed and right, if it is claimed at all."""
    rights = [truth == (verdict == "success") for truth, claimed in pairs if claimed == verdict]
    if not rights:
        return
    bar = MIN_FAIL if verdict == "fail" else min(1.0, base + MIN_LIFT)
    precision = sum(rights) / len(rights)
    print(
        f"  {name + ' ' + verdict if name != verdict else name:30}{len(rights):8}{sum(rights):7}"
        f"{precision:11.3f}{bar:7.3f}{len(rights) / len(pairs):10.1%}"
        f"{'' if precision >= bar else '  below'}"
    )


def submitted(session: Labelled) -> str:
    has_completed = any(event.kind == "completion" for event in session.events[-1:])
    has_committed = any(
        event.kind == "tool_call" and "git commit" in session.bodies.get(event.seq, "")
        for event in session.events
    )
    return "success" if has_committed or has_completed else "fail"


def last_test(session: Labelled) -> str:
    runs = [event for event in session.events if event.tests is not None]
    if not runs or runs[-1].tests is None:
        return "unknown"
    return "fail" if runs[-1].tests.failed else "success"


def who_spoke_last(session: Labelled) -> str:
    spoken = [event for event in session.events if event.role in ("user", "assistant", "tool")]
    return "abandoned" if spoken and spoken[-1].role == "user" else "success"


BASELINES = {"submitted": submitted, "last test": last_test, "who spoke last": who_spoke_last}


if __name__ == "__main__":
    main()
