"""A skill that fails more often than it passes."""

from __future__ import annotations

from collections.abc import Iterator

from . import Case, Fleet, Signal


def mine(case: Case, _: Fleet) -> Iterator[Signal]:
    for name in dict.fromkeys(skill.name for skill in case.skills):
        results = [skill.passed for skill in case.skills if skill.name == name and skill.passed is not None]
        failed = results.count(False)
        if failed > len(results) / 2:
            yield Signal(
                type="failing_skill",
                polarity="problem",
                uid=case.uid,
                locus=name,
                what=f"skill {name} fails",
                magnitude=failed,
            )
