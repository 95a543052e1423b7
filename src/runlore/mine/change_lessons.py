"""The common part of the miners of changed calls, which draft lessons on these changes.

Such a miner looks for one kind of change (`changes`). It words the situation. This module finds
the sessions, how often the change helped, and where it applies.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from ..digest.shell_commands import fetches_and_runs
from ..model import ErrorSummary, Fix
from ..text.clean import clean, one_line
from .changes import Change, ChangeKind, find_change, has_bare_special
from .drafts import Draft, Group, hash_id, only_one
from .ends import OTHER_KEY, End, count_evidence, find_common_ends
from .loci import ChangeLocus
from .values import Case, Fleet, Signal

MIN_MINED_CONFIDENCE = 0.6
MAX_ERRORS_NAMED, MAX_ERROR_CHARS = 2, 80
"""Errors that a lesson quotes to say when it applies, and the length of each."""


class Words(NamedTuple):
    """A lesson in the words of its miner."""

    when: str
    do: str
    avoid: str = ""


class Situation(NamedTuple):
    """What a miner knows when it words a lesson."""

    change: Change
    errors: tuple[str, ...]
    """The errors that the change ended, the most frequent first, for reading."""
    added: tuple[str, ...]
    """What was added, over all sessions, in the order in which it is to be done or tried."""
    programs: tuple[str, ...]
    """The programs whose calls were changed, the most frequent first."""


def mine_changes(
    kind: ChangeKind, *, by_family: bool = False, is_local: bool = False
) -> Callable[[Case, Fleet], Iterator[Signal]]:
    """Return the `mine` function of a miner for one kind of change.

    With `by_family`, the same change for another family of errors is another pattern, and with
    `is_local` the same change in another repository.
    """

    def mine(case: Case, fleet: Fleet) -> Iterator[Signal]:
        for fix, error, change in iter_changes(case):
            if change.kind == kind:
                topic = fleet.family_of[fix.fingerprint] if by_family else ""
                yield Signal(
                    type=kind,
                    polarity="success",
                    uid=case.uid,
                    locus=ChangeLocus(change, topic),
                    what=f"{error.signature.template} → {describe_change(change)}",
                    seqs=_cited_seqs(fix),
                    magnitude=fix.confidence,
                    is_local=is_local,
                )

    return mine


def iter_changes(case: Case) -> Iterator[tuple[Fix, ErrorSummary, Change]]:
    """Yield the fixes of a session that have a class, also some that are too doubtful to be shown.

    Three independent tasks that agree prove more than each of them.
    """
    errors = {error.signature.fingerprint: error for error in case.digest.errors}
    for fix in case.digest.fixes:
        error = errors.get(fix.fingerprint)
        if error is None or fix.confidence < MIN_MINED_CONFIDENCE or fix.how in (None, "retry"):
            continue
        change = find_change(fix, error)
        if change is not None and not is_dangerous(fix):
            yield fix, error, change


def is_dangerous(fix: Fix) -> bool:
    """Return True if a fix fetches code and runs it. Such a fix is never recommended."""
    texts = (fix.after, fix.change, *(step.summary for step in fix.steps))
    return any(fetches_and_runs(text) for text in texts if text)


def describe_change(change: Change) -> str:
    """Return a change in a few words, with nothing of a session but names of programs."""
    match change.kind:
        case "quoted":
            return "the argument was quoted"
        case "left_out":
            return f"`{change.program}` was left out"
        case "replaced_program":
            return f"`{change.added}` instead of `{change.removed}`"
        case "added_prefix":
            return f"`{change.added}` before `{change.program}`"
        case "added_flag":
            return f"`{change.program}` with `{change.added}`"
        case "absolute_path":
            return "the path was given in full"
        case "setup_first" | "prepared_first":
            return f"`{change.added}` was run first"
        case "read_first":
            return "the file was read first"


def find_ends(group: Group) -> list[End]:
    """Return how each session ended the errors that the change ended in some session.

    Errors of the same family count as well: there the change did not help, or was not tried.
    """
    change = _change_of(group)
    known = {one.fix.fingerprint for one in _find_instances(group)}
    families = {group.family_of.get(one, one) for one in known}
    return [
        end
        for case in group.all_cases.values()
        if case.is_work
        and group.pattern.repo in (None, case.repo)
        and (end := _find_end(case, families, group.family_of, change))
    ]


def _find_end(
    case: Case, families: set[str], family_of: Mapping[str, str], change: Change
) -> End | None:
    """Return the end of these errors in a session: by the change, if any of them ended so."""
    met = [
        error for error in case.digest.errors
        if family_of.get(error.signature.fingerprint, error.signature.fingerprint) in families
    ]  # fmt: skip
    if not met:
        return None
    for fix, _, one in iter_changes(case):
        if one.key == change.key and family_of.get(fix.fingerprint, fix.fingerprint) in families:
            ref = f"{case.uid}#{fix.steps[0].seq}"
            return End(case.evidence_key, case.at, ref, change.key, True, fix.confidence)
    fingerprints = {error.signature.fingerprint for error in met}
    fixes = [fix for fix in case.digest.fixes if fix.fingerprint in fingerprints]
    is_known = any(fix.is_shown and fix.how != "retry" and is_rival(fix, change) for fix in fixes)
    return End(
        case.evidence_key,
        case.at,
        f"{case.uid}#{met[0].last_seq}",
        OTHER_KEY if is_known else "",
        any(fix.fixed_seq is not None for fix in fixes),
    )


def is_rival(fix: Fix, change: Change) -> bool:
    """Return True if a fix ended the same problem in another way.

    A pattern that was meant for files is no argument that should have been quoted.
    """
    return change.kind != "quoted" or not has_bare_special(fix.after, change.added)


def draft_change(
    group: Group, ends: Sequence[End], kind: str, word: Callable[[Situation], Words | None]
) -> Draft | None:
    """Propose a change that ended an error in most tasks that got over it.

    `word` says it in words; None if there is nothing to say.
    """
    change = _change_of(group)
    same = [end for end in ends if end.key == change.key]
    common = find_common_ends(same, group.min_sessions)
    instances = _find_instances(group) if common else []
    words = word(_describe_situation(group, instances)) if common else None
    if words is None:
        return None
    fingerprints = _by_frequency(one.fix.fingerprint for one in instances)
    pattern = group.pattern
    return Draft(
        id=hash_id(kind, pattern.about),
        kind=kind,
        when=words.when,
        do=words.do,
        avoid=words.avoid,
        repo=_find_repo(change, instances),
        agent=_find_agent(change, instances),
        key=change.key,
        about=pattern.about,
        error=" ".join(one.error.signature.sample for one in instances),
        fingerprint=fingerprints[0],
        family=tuple(fingerprints[1:]),
        signals=pattern.signals,
        last_at=pattern.last_at,
        **count_evidence(common, ends),
    )


class _Instance(NamedTuple):
    """A change in one session."""

    case: Case
    fix: Fix
    error: ErrorSummary
    change: Change


def _find_instances(group: Group) -> list[_Instance]:
    """Return the changes of the group's sessions that are the group's."""
    key = _change_of(group).key
    return [
        _Instance(case, fix, error, change)
        for case in group.cases
        for fix, error, change in iter_changes(case)
        if change.key == key and _is_of_topic(group, fix)
    ]


def _is_of_topic(group: Group, fix: Fix) -> bool:
    """Return True if a fix is about the family of errors of the group, if it has one."""
    locus = group.pattern.locus
    assert isinstance(locus, ChangeLocus)
    return not locus.topic or group.family_of.get(fix.fingerprint) == locus.topic


def _describe_situation(group: Group, instances: Sequence[_Instance]) -> Situation:
    families = _by_tasks(
        instances,
        lambda one: [group.family_of.get(one.fix.fingerprint, one.error.signature.template)],
    )
    return Situation(
        change=_change_of(group),
        errors=tuple(one_line(clean(text)) for text in families),
        added=_order_added(instances),
        programs=tuple(_by_tasks(instances, lambda one: [one.change.program])),
    )


def _find_repo(change: Change, instances: Sequence[_Instance]) -> str:
    """Return the repository that a lesson is for; empty for a refusal by a tool of the agent."""
    repos = sorted({one.case.repo or "" for one in instances})
    return "" if change.kind == "read_first" else only_one(repos)


def _find_agent(change: Change, instances: Sequence[_Instance]) -> str:
    """Return the agent that a lesson is for: what the tools of one refuse, another may allow."""
    agents = sorted({one.case.agent for one in instances})
    return only_one(agents) if change.kind == "read_first" else ""


def _by_frequency(texts: Iterable[str]) -> tuple[str, ...]:
    return tuple(text for text, _ in Counter(texts).most_common())


def _by_tasks(
    instances: Sequence[_Instance], find_texts: Callable[[_Instance], Iterable[str]]
) -> dict[str, int]:
    """Return in how many tasks each of these texts occurs, the most frequent first."""
    pairs = {(one.case.evidence_key, text): None for one in instances for text in find_texts(one)}
    return dict(Counter(text for _, text in pairs).most_common())


def _order_added(instances: Sequence[_Instance]) -> tuple[str, ...]:
    """Return what was added in a third of the tasks: commands that install first, else the most
    frequent first."""
    counts = _by_tasks(instances, lambda one: filter(None, one.change.added.split(" && ")))
    tasks = len({one.case.evidence_key for one in instances})
    common = [command for command, count in counts.items() if 3 * count >= tasks]
    return tuple(sorted(common, key=lambda one: "install" not in one and "sync" not in one))


def name_errors(errors: Iterable[str]) -> str:
    """Return errors for a sentence: `a` or `b`."""
    return " or ".join(f"`{text[:MAX_ERROR_CHARS]}`" for text in list(errors)[:MAX_ERRORS_NAMED])


def _change_of(group: Group) -> Change:
    locus = group.pattern.locus
    assert isinstance(locus, ChangeLocus)
    return locus.change


def _cited_seqs(fix: Fix) -> tuple[int, ...]:
    worked = [fix.fixed_seq] if fix.fixed_seq is not None else []
    return (fix.failed_seq, fix.steps[0].seq, *worked)
