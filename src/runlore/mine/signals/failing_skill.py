"""A skill that fails more often than it passes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ...text.clean import one_line
from ..drafts import Draft, Group, hash_id
from ..ends import OTHER_KEY, End, count_evidence, find_common_ends
from ..loci import SkillLocus
from ..values import Case, Fleet, Signal

KIND = "skill"


def mine(case: Case, _: Fleet) -> Iterator[Signal]:
    for name in dict.fromkeys(skill.name for skill in case.skills):
        results = [
            skill.passed for skill in case.skills if skill.name == name and skill.passed is not None
        ]
        failed = results.count(False)
        if failed > len(results) / 2:
            yield Signal(
                type="failing_skill",
                polarity="problem",
                uid=case.uid,
                locus=SkillLocus(name),
                what=f"skill {name} fails",
                magnitude=failed,
            )


def find_ends(group: Group) -> list[End]:
    """Return the sessions in which the skill failed, and those in which a model rescued it."""
    name = group.pattern.locus.key
    ends = [End(case.evidence_key, case.at, case.uid, OTHER_KEY) for case in group.cases]
    for case in group.all_cases.values():
        models = {
            skill.rescued_by for skill in case.skills if skill.name == name and skill.rescued_by
        }
        ends += [
            End(case.evidence_key, case.at, case.uid, model, is_over=True)
            for model in sorted(models)
        ]
    return ends


def draft(group: Group, ends: Sequence[End]) -> Draft | None:
    """Propose the model that passed most often where another had failed."""
    common = find_common_ends(ends, group.min_sessions)
    if not common:
        return None
    pattern, model = group.pattern, common[0].key
    return Draft(
        id=hash_id("failing_skill", pattern.locus.key, model),
        kind=KIND,
        about=pattern.locus.key,
        key=model,
        when=f"The skill `{one_line(pattern.locus.key)}` is to be used.",
        do=(f"Give it to {one_line(model)}: it passed the check where another model had failed."),
        signals=pattern.signals,
        last_at=pattern.last_at,
        **count_evidence(common, ends),
    )


def recurred(about: str, case: Case) -> bool:
    """Return True if the skill failed in this session."""
    return any(skill.name == about and skill.passed is False for skill in case.skills)
