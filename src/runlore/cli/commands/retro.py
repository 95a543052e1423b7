"""Look back: what was done, what it cost, what went wrong.

Of the last days, beside as many before: what went wrong most, the three problems of each repository
that matter most, each with its evidence and the approved lesson on it, and what got better. Prints
Markdown. With --json an object (docs/json.md).
"""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import click

from ... import query
from ...errors import NotFound
from ...export.retro import html, markdown, prompt_for_agent
from ...files.private_file import write_private_file
from ...lessons import actions
from ...lessons.retro import Retro
from ...store import Filter
from ...text.words import count
from ..options import RepoName, as_json, open_store
from ..output import clean, echo, note, write_json
from ..writing import check_target, tidy_end


@click.command(help=__doc__)
@click.option(
    "--days",
    type=click.IntRange(1, 3650),
    default=7,
    metavar="N",
    help="Number of days (default 7).",
)
@click.option(
    "--repo",
    type=RepoName(),
    metavar="GLOB",
    help="In this repository: owner/name, or the name alone.",
)
@click.option(
    "--html",
    "page",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Write it as a self-contained page, readable by you alone.",
)
@click.option("--force", is_flag=True, help="Overwrite an existing file without asking.")
@click.option(
    "--pack", "is_pack", is_flag=True, help="Print the evidence as a prompt for your own agent."
)
@as_json(Retro)
def command(
    days: int, repo: str | None, page: Path | None, force: bool, is_pack: bool, is_json: bool
) -> None:
    if page is not None:
        check_target(page, force=force, is_json=is_json)
    with open_store() as (store, setting):
        if query.is_empty(store):
            raise NotFound(query.EMPTY)
        made = actions.look_back(store, setting, days, datetime.now(UTC), chosen=Filter(repo=repo))
    if not made.sessions:
        note(
            f"no session that counts as work ended in the last {count(days, 'day')}; --days N looks"
            " further back"
        )
    if page is not None:
        with tidy_end():
            write_private_file(page, [html(made)])
        note(f"written to {clean(str(page))}")
    if is_json:
        write_json(made)
    elif page is None or is_pack:
        echo(clean(prompt_for_agent(made) if is_pack else markdown(made)).rstrip())
