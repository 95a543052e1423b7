"""Export a session as Markdown, lines of JSON, or one HTML file.

SESSION is the beginning of an id, latest, latest:AGENT, latest:REPO, or any of these with #EVENT
for that event alone. The output is redacted once more, by the current rules. Pictures are left out
unless --pictures is given: no rule can detect a secret in one. With --json, which needs a file, an
object (docs/json.md).
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path

import click
import msgspec

from ...export.html import html
from ...export.jsonl import jsonl
from ...export.markdown import markdown
from ...export.selection import Selection, select
from ...files.private_file import write_private_file
from ...text.words import size
from ..options import SessionName, as_json, open_store
from ..output import note, one_line, write_json
from ..writing import check_target, tidy_end
from .show import named, which

FORMATS = ("markdown", "jsonl", "html")
ALIASES = {"md": "markdown"}
ENDINGS = {".md": "markdown", ".jsonl": "jsonl", ".html": "html", ".htm": "html"}


class ExportedFile(msgspec.Struct, frozen=True, kw_only=True):
    """A file that was written."""

    path: str
    format: str
    """markdown, jsonl, html."""
    size: int
    """In bytes."""


@click.command(help=__doc__)
@click.argument("session", type=SessionName(), default="latest")
@click.option(
    "--format",
    "kind",
    type=click.Choice((*FORMATS, *ALIASES)),
    metavar="FORMAT",
    help=f"{', '.join(FORMATS)} (else by the file's name).",
)
@click.option("--from", "first", type=click.IntRange(0), metavar="N", help="From event N on.")
@click.option("--to", "last", type=click.IntRange(0), metavar="N", help="Up to event N.")
@click.option(
    "--branch", metavar="N|all", help="Export what a rewind left behind, by number; or everything."
)
@click.option("--pictures", is_flag=True, help="With its pictures, in HTML.")
@click.option(
    "-o",
    "--output",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Write to this file, readable by you alone.",
)
@click.option("--force", is_flag=True, help="Overwrite an existing file without asking.")
@as_json(ExportedFile)
def command(
    session: str,
    kind: str | None,
    first: int | None,
    last: int | None,
    branch: str | None,
    pictures: bool,
    output: Path | None,
    force: bool,
    is_json: bool,
) -> None:
    kind = ALIASES.get(kind or "", kind) or ENDINGS.get(
        output.suffix.lower() if output else "", "markdown"
    )
    check_options(kind, pictures, output, is_json)
    if output is not None:
        check_target(output, force=force, is_json=is_json)
    with open_store() as (store, config):
        uid, seq = named(store, session)
        if seq is not None:
            if first is not None or last is not None:
                raise click.UsageError("#EVENT and --from or --to do not go together")
            first = last = seq
        line = which(branch or "0", sys.maxsize)
        selection = select(store, config, uid, first=first or 0, last=last, branch=line)
        texts = rendered(kind, selection, pictures)
        if output is None:
            sys.stdout.writelines(texts)
            return
        with tidy_end():
            length = write_private_file(output, texts)
    if is_json:
        write_json(ExportedFile(path=str(output.absolute()), format=kind, size=length))
    else:
        note(f"wrote {size(length)} to {one_line(str(output))}")


def check_options(kind: str, pictures: bool, output: Path | None, is_json: bool) -> None:
    """Raise UsageError for options that do not go together."""
    if is_json and output is None:
        raise click.UsageError("--json tells of a file: it goes with --output")
    if pictures and kind != "html":
        raise click.UsageError("--pictures goes with --format html")


def rendered(kind: str, selection: Selection, pictures: bool) -> Iterable[str]:
    if kind == "html":
        return html(selection, pictures=pictures)
    return jsonl(selection) if kind == "jsonl" else markdown(selection)
