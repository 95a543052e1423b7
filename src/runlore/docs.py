"""The documentation that a program can write: commands, agents, schema.

`python -m runlore.docs` writes it into docs/ of a checkout, `--check` says which file is stale. Nothing here knows a
command, an agent or a table by name: all of it is asked of the program itself.
"""

from __future__ import annotations

import importlib
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import apsw
import click

from . import adapters
from .cli import cli
from .store import open_store

DOCS = Path(__file__).parents[2] / "docs"
MIGRATIONS = Path(__file__).parent / "store/migrations"
WIDTH = 88
"""Of the help texts, in columns, so that the terminal does not matter."""


def main(args: list[str]) -> int:
    """Writes the pages, or with `--check` names the first stale one. The result is the exit status."""
    if args not in ([], ["--check"]):
        print("usage: python -m runlore.docs [--check]", file=sys.stderr)
        return 2
    if not DOCS.with_name("pyproject.toml").is_file():
        print(f"{DOCS.parent} is not a checkout of runlore; there are no docs to write", file=sys.stderr)
        return 2
    for name, write in PAGES.items():
        page, text = DOCS / name, write()
        if page.is_file() and page.read_text(encoding="utf-8") == text:
            continue
        if args:
            print(f"docs/{name} is stale; run `python -m runlore.docs` and commit the change", file=sys.stderr)
            return 1
        DOCS.mkdir(exist_ok=True)
        page.write_text(text, encoding="utf-8", newline="\n")
    return 0


def commands_page() -> str:
    """The `--help` of every command."""
    parts = [f"## {path}\n\n```\n{text}\n```" for path, text in commands()]
    return _page("Commands", "What `--help` says, for every command.", parts)


def commands() -> Iterator[tuple[str, str]]:
    """The full name and the help text of every command, `runlore` itself first."""
    return _walk(cli, "runlore", None)


def _walk(command: click.Command, name: str, parent: click.Context | None) -> Iterator[tuple[str, str]]:
    settings = {**command.context_settings, "terminal_width": WIDTH, "max_content_width": WIDTH, "color": False}
    context = click.Context(command, info_name=name, parent=parent, **settings)
    yield context.command_path, command.get_help(context)
    if isinstance(command, click.Group):
        for below in command.list_commands(context):
            child = command.get_command(context, below)
            if child is not None and not child.hidden:
                yield from _walk(child, below, context)


def agents_page() -> str:
    """One row for each adapter that comes with runlore."""
    rows = ["| agent | name | sessions are read from | variables | deletes after | about |", "|---|---|---|---|---|---|"]
    for name, adapter in adapters.load().items():
        if not Path(adapters.__file__).with_name(f"{name}.py").is_file():
            continue  # of another package, which documents it
        about = (importlib.import_module(f"{adapters.__name__}.{name}").__doc__ or "").partition("\n")[0]
        roots = ", ".join(f"`{root}`" for root in adapter.roots)
        variables = ", ".join(f"`{root[1:].partition('/')[0]}`" for root in adapter.roots if root.startswith("$"))
        days = f"{adapter.keeps_days} days" if adapter.keeps_days else ""
        cells = (adapter.label, f"`{name}`", roots, variables, days, about)
        rows.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return _page("Agents", "The agents whose sessions runlore reads. It never writes to their files.", ["\n".join(rows)])


def schema_page() -> str:
    """The statements that make the tables of a new SQLite store, each with its indexes and triggers."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "runlore.db"
        open_store(str(path)).close()
        connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
        statements = connection.execute(
            """
            select tbl_name, sql from sqlite_schema
            where sql is not null and tbl_name not like 'sqlite\\_%' escape '\\'
              and tbl_name not in (select name from pragma_table_list where type = 'shadow')
            order by tbl_name, type not in ('table', 'view'), name
            """
        ).fetchall()
        connection.close()
    tables: dict[str, list[str]] = {}
    for table, sql in statements:
        tables.setdefault(str(table), []).append(f"{sql};")
    comments = _table_comments()
    parts = [f"## {table}\n\n{comments.get(table, '')}```sql\n" + "\n".join(sqls) + "\n```" for table, sqls in tables.items()]
    return _page("Schema", "The tables of the SQLite store. Read them as you like; only runlore writes.", parts)


def _table_comments() -> dict[str, str]:
    """The lines above each `create table`, as a paragraph: SQLite keeps only the comments inside."""
    text = "\n".join(file.read_text(encoding="utf-8") for file in sorted(MIGRATIONS.glob("*.sql")))
    found = re.findall(r"((?:^--.*\n)+)create (?:virtual )?table (\w+)", text, re.MULTILINE)
    return {table: re.sub(r"^-- ?", "", lines, flags=re.MULTILINE) + "\n" for lines, table in found}


PAGES: dict[str, Callable[[], str]] = {"agents.md": agents_page, "commands.md": commands_page, "schema.md": schema_page}


def _page(title: str, intro: str, parts: list[str]) -> str:
    note = "<!-- Written by `python -m runlore.docs`. Change the program, not this page. -->"
    return "\n\n".join([note, f"# {title}", intro, *parts]) + "\n"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
