"""Keep lessons: advice on problems that keep happening.

`propose` looks for problems that sessions solved and for corrections that people repeat, and writes
a lesson for each as a proposal. No agent sees a lesson before you have approved it. Each lesson is
a file in ~/.runlore/lessons that can be reviewed, edited and kept under version control.
"""

from __future__ import annotations

import os
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click
import msgspec

from ... import config as settings
from ...files.git import git_remote
from ...lessons import Lesson, actions, describe_advice, rank
from ...lessons.distill import run as run_distill
from ...lessons.render import remove, render_block, upsert
from ...lessons.shelf import parse_lesson, render_lesson
from ...text.tokens import tokens
from ...text.words import count
from ..lesson_block import RenderedLessons, write_block
from ..options import AgentName, as_json, limit_option, open_store
from ..output import Column, clean, echo, note, one_line, paint, table, warn, write_json
from ..progress import Progress

MIN_WIDTH = 40
MAX_ADVICE_CHARS = 240
OPEN = ("proposed", "approved")


class RankedLesson(Lesson, frozen=True, kw_only=True):
    """A lesson, and how it stands."""

    score: float
    """The score it is ranked by, which sinks with time."""
    is_shown: bool
    """True if agents are shown it."""
    is_doubted: bool
    """True if later sessions contradict it."""
    file: str

    @classmethod
    def of(cls, lesson: Lesson, setting: settings.Config) -> RankedLesson:
        score = rank.score(lesson, datetime.now(UTC), setting.lessons.half_life_days)
        return cls(
            **msgspec.structs.asdict(lesson),
            score=round(score, 4),
            is_shown=lesson.is_ready(setting.lessons.deliver),
            is_doubted=lesson.is_doubted,
            file=str(actions.open_shelf(setting).folder / f"{lesson.id}.md"),
        )


class ProposedLessons(msgspec.Struct, frozen=True, kw_only=True):
    """The result of looking for lessons in all sessions."""

    new: list[str]
    """Ids of the proposals that were not there before."""
    changed: list[str]
    """Ids of the lessons whose evidence has changed."""
    lessons: list[RankedLesson]


class DistilledLessons(msgspec.Struct, frozen=True, kw_only=True):
    """The result of asking an agent for lessons."""

    questions: list[run_distill.Distilled]
    stopped: str
    """Why it stopped early; empty if it did not."""


@click.group(help=__doc__)
def command() -> None:
    pass


def scoped(function: Any) -> Any:
    """The options that say where a lesson applies."""
    for name, told in (
        ("tool", "Only with this tool."),
        ("path", "Only for files that end so; * is a wildcard."),
        ("repo", "Only in this repository: owner/name, or the name alone; * is a wildcard."),
    ):
        function = click.option(f"--{name}", metavar="GLOB", help=told)(function)
    return click.option("--agent", type=AgentName(), help="Only for this agent.")(function)


# ── what there is ─────────────────────────────────────────────────────────────────────────────────
@command.command("list")
@click.option(
    "--status",
    type=click.Choice(("proposed", "approved", "rejected", "retired", "superseded")),
    help="Only these.",
)
@click.option(
    "--all", "is_all", is_flag=True, help="Also what was rejected, retired or superseded."
)
@click.option("--repo", metavar="NAME", help="Only what applies in this repository.")
@as_json(list[RankedLesson], items="")
def list_(status: str | None, is_all: bool, repo: str | None, is_json: bool) -> None:
    """List lessons, proposals first, then the most trusted.

    With --json an array of lessons (docs/json.md).
    """
    setting = settings.load()
    lessons, broken = actions.open_shelf(setting).read()
    for one in broken:
        warn(one_line(f"{one.file} is no lesson: {one.reason}"))
    chosen = [
        one
        for one in lessons
        if (one.status == status if status else is_all or one.status in OPEN)
        and one.fits(repo=repo)
    ]
    ranked = sorted(
        rank.rank_lessons(chosen, datetime.now(UTC), setting.lessons.half_life_days),
        key=lambda one: one.status != "proposed",
    )
    if is_json:
        write_json([RankedLesson.of(one, setting) for one in ranked])
    elif ranked:
        show_list(ranked, setting)
    else:
        note(
            "no lessons; `runlore lessons propose` looks for some"
            if not lessons
            else "none of these; --all lists every lesson"
        )


def show_list(found: list[Lesson], setting: settings.Config) -> None:
    now = datetime.now(UTC)
    columns = [
        Column("ID", [one.id for one in found]),
        Column("STATUS", [state_of(one, setting) for one in found]),
        Column(
            "SCORE",
            [f"{rank.score(one, now, setting.lessons.half_life_days):.2f}" for one in found],
            right=True,
            leaves=4,
        ),
        Column("SESSIONS", [str(one.sessions) for one in found], right=True, leaves=3),
        Column("HELPED", [str(one.helped or "") for one in found], right=True, leaves=2),
        Column("WHERE", [where(one) for one in found], max_width=24, leaves=5),
        Column("WHEN", [one_line(one.when) for one in found]),
    ]
    head, *rows = table(columns, min_width=MIN_WIDTH)
    echo(paint(head, "dim"))
    for one, row in zip(found, rows, strict=True):
        echo(row)
        echo(paint(f"    {one_line(describe_advice(one))[:MAX_ADVICE_CHARS]}", "dim"))


def state_of(lesson: Lesson, setting: settings.Config) -> str:
    """Return the state of a lesson. An approved one may lack evidence, or be contradicted."""
    if lesson.status != "approved" or lesson.is_ready(setting.lessons.deliver):
        return lesson.status
    return "doubted" if lesson.is_doubted else "waits"


def where(lesson: Lesson) -> str:
    return one_line(
        " ".join(scope for scope in (lesson.repo, lesson.path, lesson.tool, lesson.agent) if scope)
    )


@command.command()
@click.argument("lesson")
@as_json(RankedLesson)
def show(lesson: str, is_json: bool) -> None:
    """Print a lesson as it stands in its file. With --json the lesson."""
    setting = settings.load()
    found = actions.open_shelf(setting).get(lesson)
    if is_json:
        write_json(RankedLesson.of(found, setting))
        return
    echo(clean(render_lesson(found)).rstrip())
    note(paint(describe_state(found, setting), "dim", sys.stderr))


def describe_state(lesson: Lesson, setting: settings.Config) -> str:
    state = state_of(lesson, setting)
    if state == "waits":
        if not (lesson.evidence and lesson.do):
            return "approved, but without evidence or advice: not shown to agents"
        return (
            f"approved, shown to agents once {setting.lessons.deliver} sessions have its problem;"
            f" {lesson.sessions} do"
        )
    if state == "doubted":
        return (
            f"approved, but {lesson.broken} sessions since went another way and {lesson.kept} this"
            " one: it is not shown to agents"
        )
    return "approved: shown to agents" if state == "approved" else f"{state}: not shown to agents"


# ── what becomes of them ──────────────────────────────────────────────────────────────────────────
@command.command()
@click.option("--dry-run", is_flag=True, help="Show the lessons without writing them.")
@as_json(ProposedLessons, items="lessons")
def propose(dry_run: bool, is_json: bool) -> None:
    """Look through all sessions, and write new lessons as proposals.

    With --json an object: new, changed (ids), lessons.
    """
    with open_store() as (store, setting):
        made = actions.propose(store, setting, datetime.now(UTC), dry_run=dry_run)
    new = [one for one in made.changed if one.id in made.new]
    renewed = [one.id for one in made.changed if one.id not in made.new]
    for one in made.broken:
        warn(one_line(f"{one.file} is no lesson: {one.reason}"))
    if is_json:
        write_json(
            ProposedLessons(
                new=[one.id for one in new],
                changed=renewed,
                lessons=[RankedLesson.of(one, setting) for one in made.changed],
            )
        )
        return
    if new:
        show_list(
            rank.rank_lessons(new, datetime.now(UTC), setting.lessons.half_life_days), setting
        )
    told = f"{count(len(new), 'new proposal')}, {count(len(renewed), 'lesson')} with other evidence"
    note(f"{told}; nothing was written" if dry_run else told)


@command.command()
@click.option(
    "--with", "agent", metavar="COMMAND", help="Command that reads a prompt and prints the answer."
)
@limit_option("questions", 5)
@click.option("--dry-run", is_flag=True, help="Show what would be asked, without asking.")
@as_json(DistilledLessons, items="questions")
def distill(agent: str | None, limit: int, dry_run: bool, is_json: bool) -> None:
    """Let your own agent write lessons, and check its evidence.

    It is asked about errors that several tasks solved, and gets the evidence on its standard
    input: failing and working calls, as they are stored, without secrets. Every statement of its
    answer must cite that evidence, and code checks the citations; what is not proven is dropped. A
    second call judges the rest. The results are proposals. The tokens of a day are bounded
    (`distill_tokens` in config.toml).

    With --json an object: questions, stopped.
    """
    with open_store() as (store, setting):
        chosen = agent or setting.lessons.distill
        if not chosen and not dry_run:
            raise click.UsageError(
                "name your agent's command with --with; docs/lessons.md has examples"
            )
        with Progress() as progress:
            results, stopped = run_distill.distill(
                store,
                setting,
                chosen,
                datetime.now(UTC),
                limit=limit,
                dry_run=dry_run,
                step=lambda done, total: progress.show("questions", done, total),
            )
    if is_json:
        write_json(DistilledLessons(questions=results, stopped=stopped))
        return
    show_distilled(results, dry_run=dry_run)
    if stopped:
        warn(one_line(stopped))


def show_distilled(results: list[run_distill.Distilled], *, dry_run: bool) -> None:
    for one in results:
        echo(f"{one.tasks} tasks  {one_line(one.error)}")
        about = f"about {one.tokens:,} tokens"
        echo(paint(f"    {about}", "dim"))
        for name in one.lessons:
            echo(f"    proposed {name}; `runlore lessons show {name}` prints it")
        for reason in one.dropped:
            echo(paint(f"    dropped: {one_line(reason)}", "dim"))
    if not results:
        note("no error has enough evidence that was not asked about before")
    elif dry_run:
        note("nothing was asked")


def decided(status: str, lessons: tuple[str, ...], why: str, is_json: bool) -> None:
    setting = settings.load()
    tell(actions.decide(setting, lessons, status, datetime.now(UTC), why=why), setting, is_json)


def tell(made: list[Lesson], setting: settings.Config, is_json: bool) -> None:
    if is_json:
        write_json([RankedLesson.of(one, setting) for one in made])
        return
    for one in made:
        echo(f"{one.id}  {one_line(one.when)}")
        note(f"  {describe_state(one, setting)}")


def deciding(name: str, status: str, about: str) -> None:
    """A command that does no more than to decide."""

    @command.command(name, help=f"{about}\n\nWith --json an array of the lessons.")
    @click.argument("lessons", nargs=-1, required=True)
    @click.option("--why", default="", metavar="TEXT", help="Keep the reason with it.")
    @as_json(list[RankedLesson], items="")
    def decide(lessons: tuple[str, ...], why: str, is_json: bool) -> None:
        decided(status, lessons, why, is_json)


deciding("approve", "approved", "Approve LESSONS: agents see them given enough evidence.")
deciding("reject", "rejected", "Reject LESSONS, until more sessions show the problem.")
deciding("retire", "retired", "Take LESSONS out of use, and keep them.")


@command.command()
@click.argument("lesson")
@click.option("--when", metavar="TEXT", help="The situation.")
@click.option("--do", metavar="TEXT", help="What to do.")
@click.option("--avoid", metavar="TEXT", help="What not to do; '' for nothing.")
@scoped
@as_json(list[RankedLesson], items="")
def edit(
    lesson: str,
    when: str | None,
    do: str | None,
    avoid: str | None,
    is_json: bool,
    **scope: str | None,
) -> None:
    """Change the words of a lesson, or where it applies.

    '' is anywhere. Without options, in your editor.

    With --json an array with the lesson.
    """
    setting = settings.load()
    found = actions.open_shelf(setting).get(lesson)
    given = {
        name: value
        for name, value in {"when": when, "do": do, "avoid": avoid, **scope}.items()
        if value is not None
    }
    if not given:
        text = click.edit(render_lesson(found), extension=".md") if sys.stdin.isatty() else None
        if text is None:
            note("nothing was changed")
            return
        changed = parse_lesson(text)
    else:
        changed = msgspec.structs.replace(found, **given)
    tell([actions.edit(setting, found, changed)], setting, is_json)


@command.command()
@click.argument("lesson")
@click.argument("into")
@as_json(list[RankedLesson], items="")
def merge(lesson: str, into: str, is_json: bool) -> None:
    """Merge LESSON and its evidence into INTO.

    LESSON is superseded by it.

    With --json an array of both.
    """
    setting = settings.load()
    shelf = actions.open_shelf(setting)
    if shelf.get(lesson).id == shelf.get(into).id:
        raise click.UsageError("these are the same lesson")
    tell(list(actions.merge(setting, lesson, into, datetime.now(UTC))), setting, is_json)


@command.command()
@click.option("--when", required=True, metavar="TEXT", help="The situation.")
@click.option("--do", required=True, metavar="TEXT", help="What to do.")
@click.option("--avoid", default="", metavar="TEXT", help="What not to do.")
@click.option(
    "--evidence",
    multiple=True,
    required=True,
    metavar="UID#SEQ",
    help="Where it shows; several times for several.",
)
@click.option(
    "--error",
    default="",
    metavar="TEXT",
    help="The error that it is about: the lesson is shown when the error occurs again.",
)
@scoped
@as_json(list[RankedLesson], items="")
def add(
    when: str,
    do: str,
    avoid: str,
    evidence: tuple[str, ...],
    error: str,
    is_json: bool,
    **scope: str | None,
) -> None:
    """Write a lesson by hand, as a proposal.

    With --json an array with the lesson.
    """
    given = {name: value for name, value in scope.items() if value}
    with open_store() as (store, setting):
        made = actions.write(
            store,
            setting,
            when,
            do,
            evidence,
            datetime.now(UTC),
            avoid=avoid,
            by="person",
            error=error,
            **given,
        )
    tell([made], setting, is_json)


# ── a block in a file ─────────────────────────────────────────────────────────────────────────────
@command.command()
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path), default=Path("AGENTS.md"))
@click.option(
    "--repo", metavar="NAME", help="With the lessons of this repository; else that of the file."
)
@limit_option("lessons", 20)
@click.option("--remove", "is_removed", is_flag=True, help="Take the block out again.")
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
@click.option("--dry-run", is_flag=True, help="Show the change without writing it.")
@as_json(RenderedLessons)
def render(
    file: Path,
    repo: str | None,
    limit: int,
    is_removed: bool,
    yes: bool,
    dry_run: bool,
    is_json: bool,
) -> None:
    """Put the approved lessons into FILE (AGENTS.md).

    As a block between two marks; the change is shown first. --remove takes the block out again, to
    the byte. With --json an object: file, changed, dry_run, lessons (ids), diff (lines).
    """
    setting = settings.load()
    file = Path(os.path.abspath(file))
    repo = _choose_repo(file, repo, is_removed)
    lessons = (
        []
        if is_removed
        else actions.redact_lessons(
            setting, actions.find_lessons(setting, datetime.now(UTC), repo=repo)[:limit]
        )
    )

    block = render_block(lessons)

    def change(receipt: Any) -> Any:
        return remove(file, receipt) if is_removed else upsert(file, block, receipt)

    unchanged = "no lesson may be shown here; `runlore lessons list --all` says why"
    if lessons or is_removed:
        why = "there is no block of runlore in it" if is_removed else "it has them already"
        unchanged = f"nothing to change in {one_line(str(file))}: {why}"
    write_block(
        file,
        [one.id for one in lessons],
        change,
        setting,
        yes,
        dry_run,
        is_json,
        unchanged=unchanged,
    )
    if lessons and not is_json:
        note(
            f"every session that reads it pays about {tokens(block):,} tokens for"
            f" {count(len(lessons), 'lesson')}"
        )


def _choose_repo(file: Path, repo: str | None, is_removed: bool) -> str:
    """Return the repository whose lessons go into a file, with a warning if it is another one."""
    here = git_remote(file.parent) or ""
    if not repo or repo in (here, here.rpartition("/")[2]):
        return here
    if here and not is_removed:
        warn(
            f"{one_line(str(file))} is in {one_line(here)}, and sessions there will read lessons of"
            f" {one_line(repo)}"
        )
    return repo
