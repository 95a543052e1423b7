"""The tools on what was learned: fixes of errors, lessons, and a lesson that an agent proposes.

Agents write proposals; only a person, on the command line, approves them.
"""

from __future__ import annotations

from datetime import UTC, datetime

from ... import query
from ...config import Config
from ...errors import NotFound
from ...lessons import Lesson, actions, deliver, describe_advice
from ...lessons.trial import find_root
from ...mine import known_errors
from ...mine.known_errors import Recurring
from ...mine.trusted_fixes import TrustedFix, find_trusted_fixes
from ...store import Filter, Store
from ...text.words import count
from . import arguments as ask
from .caller import Caller
from .cursor import Place, resume
from .fencing import is_name, line
from .fitting import Entry, Result, fit

ERRORS = 5
"""That a text may tell of."""


def _check(store: Store) -> None:
    if query.is_empty(store):
        raise NotFound(query.EMPTY)


def fix(store: Store, _: Config, args: ask.Fix, place: Place | None) -> Result:
    _check(store)
    answer = known_errors.find_fixes(store, args.error, Filter(), datetime.now(UTC), limit=ERRORS)
    start = resume(place, [one.fingerprint for one in answer.found]) if place else 0
    hints = []
    if not answer.found:
        hints = [
            (
                "there is no error in this text"
                if answer.asked is None
                else "not seen before; a search for its rarest words may find more"
            )
        ]
    elif answer.found[0].likeness < 1:
        hints = ["not seen before; these are the nearest that were"]
    return Result(
        name="errors",
        pieces=(
            _error(store, args.repo, at, answer.found[at], _offset(place, at, start))
            for at in range(start, len(answer.found))
        ),
        about={"total": answer.total},
        hints=hints,
    )


def _offset(place: Place | None, at: int, start: int) -> int:
    """Return the offset in a long text at which the page begins. Only the first text of a page can
    have an offset."""
    return place.offset if place and at == start else 0


def _error(store: Store, repo: str, at: int, error: Recurring, offset: int) -> Entry:
    """Return an error with the fixes that may be shown in this repository."""
    trusted = find_trusted_fixes(store, error.fingerprint, repo)
    head = (
        f"{line(error.template, 200)}\n  {count(error.sessions, 'session')}, last"
        f" {(error.last_at or '?')[:10]}, got over it in {error.fixed}"
    )
    fixes = [_describe_fix(fix) for fix in trusted]
    if not fixes:
        state = (
            "no fix is certain enough to be shown here; name your repository as `repo` for those of"
            " its own sessions"
            if error.fixes
            else "what fixed it is not known"
        )
        fixes = [f"  {line(error.last_uid, 200)}#{error.last_seq} {state}"]
    data = {
        "fingerprint": error.fingerprint,
        "likeness": error.likeness,
        "fixes": [f"{fix.uid}#{fix.seq}" for fix in trusted if is_name(fix.uid)],
    }
    return Entry(
        at=at,
        key=error.fingerprint,
        head="\n".join([head, *fixes]),
        body=trusted[0].diff if trusted else "",
        offset=offset,
        data=data,
    )


def _describe_fix(fix: TrustedFix) -> str:
    where = f"in {line(fix.repo, 80)}" if fix.repo else f"in {fix.tasks} independent tasks"
    return f"  {line(fix.uid, 200)}#{fix.seq} {fix.how}, {where}: {line(fix.text, 200)}"


def lessons(
    store: Store, config: Config, args: ask.Lessons, place: Place | None, caller: Caller | None
) -> Result:
    """Return the lessons that fit, without those that the trial withholds from this session.

    Nothing in the answer says that there are others.
    """
    _check(store)
    now = datetime.now(UTC)
    given = {name: getattr(args, name) or None for name in ("agent", "repo", "path", "tool")}
    fitting = actions.find_lessons(config, now, error=args.error, words=args.task, **given)
    if caller is None:
        return _list_lessons(fitting, place)
    unit = deliver.find_unit(config.home, caller.uid) or find_root(store, caller.uid)
    choice = deliver.divide_lessons(config.home, config.lessons, fitting, unit)
    # A decision counts for what this page would have without the trial.
    page = fit(_list_lessons(fitting, place), {}, args.max_tokens).data.get("lessons", [])
    ids = {one["id"] for one in page}
    if ids:
        deliver.record_delivery(
            config.home,
            "",
            now,
            agent=caller.agent,
            session=caller.session,
            repo=args.repo,
            lessons=tuple(one.id for one in choice.shown if one.id in ids),
            withheld=tuple(one.id for one in choice.withheld if one.id in ids),
            share=choice.share,
            unit=unit,
            event="request",
        )
    return _list_lessons(choice.shown, place)


def _list_lessons(found: list[Lesson], place: Place | None) -> Result:
    start = resume(place, [one.id for one in found]) if place else 0
    return Result(
        name="lessons",
        pieces=(
            _lesson(at, found[at], _offset(place, at, start)) for at in range(start, len(found))
        ),
        about={"total": len(found)},
        hints=[] if found else ["no lesson to show here; the tool `fix` knows single errors"],
    )


def _lesson(at: int, lesson: Lesson, offset: int = 0) -> Entry:
    where = ", ".join(
        f"{name} {line(value, 80)}"
        for name in ("agent", "repo", "path", "tool")
        if (value := getattr(lesson, name))
    )
    head = f"{lesson.id} ({lesson.status}): {line(lesson.when, 300)}"
    rests = (
        f"  {count(lesson.sessions, 'session')}{f'; {where}' if where else ''}; e.g."
        f" {' '.join(line(ref, 200) for ref in lesson.evidence[:2])}"
    )
    data = {"id": lesson.id, "status": lesson.status}
    return Entry(
        at=at,
        key=lesson.id,
        head=f"{head}\n{rests}",
        body=describe_advice(lesson),
        offset=offset,
        data=data,
    )


def propose(store: Store, config: Config, args: ask.Propose, _: Place | None) -> Result:
    _check(store)
    scope = {
        name: value for name in ("agent", "repo", "path", "tool") if (value := getattr(args, name))
    }
    made = actions.write(
        store,
        config,
        args.when,
        args.do,
        args.evidence,
        datetime.now(UTC),
        by="agent",
        avoid=args.avoid,
        error=args.error,
        **scope,
    )
    return Result(
        name="lessons",
        pieces=[_lesson(0, made)],
        about={"total": 1},
        hints=(
            [
                "a person decides on it: `runlore lessons approve` in a shell; until then no agent"
                " is told"
            ]
            if made.status == "proposed"
            else []
        ),
    )
