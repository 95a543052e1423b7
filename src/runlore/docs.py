"""The documentation that a program can write: commands, agents, schema, and what --json prints.

`python -m runlore.docs` writes it into docs/ of a checkout, `--check` says which file is stale.
Nothing here knows a command, an agent or a table by name: all of it is asked of the program itself.
"""

from __future__ import annotations

import importlib
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin

import apsw
import click
import msgspec

from . import adapters
from .cli import _json, cli
from .cli._failure import OTHERS
from .cli._shapes import SHAPES, Shape, fields_of, item_of
from .errors import RunloreError
from .search import QueryError
from .store import open_store

DOCS = Path(__file__).parents[2] / "docs"
MIGRATIONS = Path(__file__).parent / "store/migrations"
WIDTH = 88
"""Of the help texts, in columns, so that the terminal does not matter."""


def main(args: list[str]) -> int:
    """Writes the pages, or with `--check` names the first stale one. The result is the exit
    status."""
    if args not in ([], ["--check"]):
        print("usage: python -m runlore.docs [--check]", file=sys.stderr)
        return 2
    if not DOCS.with_name("pyproject.toml").is_file():
        print(
            f"{DOCS.parent} is not a checkout of runlore; there are no docs to write",
            file=sys.stderr,
        )
        return 2
    for name, write in PAGES.items():
        page, text = DOCS / name, write()
        if page.is_file() and page.read_text(encoding="utf-8") == text:
            continue
        if args:
            print(
                f"docs/{name} is stale; run `python -m runlore.docs` and commit the change",
                file=sys.stderr,
            )
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


def _walk(
    command: click.Command, name: str, parent: click.Context | None
) -> Iterator[tuple[str, str]]:
    settings = {
        **command.context_settings,
        "terminal_width": WIDTH,
        "max_content_width": WIDTH,
        "color": False,
    }
    context = click.Context(command, info_name=name, parent=parent, **settings)
    yield context.command_path, command.get_help(context)
    if isinstance(command, click.Group):
        for below in command.list_commands(context):
            child = command.get_command(context, below)
            if child is not None and not child.hidden:
                yield from _walk(child, below, context)


NOT_READ = {
    "QClaw": "there is neither a sample nor a first-hand description of what it writes",
    "Factory Droid": "its sessions are known second-hand, and from fixtures that others made",
    "Kiro": "one real session of its CLI is at hand, none of its editor",
    "OpenHands": "its layouts of before 2026 are known second-hand",
}
"""Agents that people use and that are not read, by label, and why: nothing is guessed."""


def agents_page() -> str:
    """One row for each adapter that comes with runlore."""
    rows = [
        (
            "| agent | name | sessions are read from | variables | deletes after | does not tell |"
            " reads lessons in | about |"
        ),
        "|---|---|---|---|---|---|---|---|",
    ]
    for name, adapter in adapters.load().items():
        if name not in adapters.own_names():
            continue  # of another package, which documents it
        doc = importlib.import_module(f"{adapters.__name__}.{name}").__doc__ or ""
        about = " ".join(doc.partition("\n\n")[0].split())
        roots = ", ".join(f"`{root}`" for root in adapter.roots)
        variables = ", ".join(
            f"`{root[1:].partition('/')[0]}`" for root in adapter.roots if root.startswith("$")
        )
        days = f"{adapter.keeps_days} days" if adapter.keeps_days else ""
        files = ", ".join(f"`{file}`" for file in adapter.instructions)
        cells = (
            adapter.label,
            f"`{name}`",
            roots,
            variables,
            days,
            ", ".join(adapter.lacks),
            files,
            about,
        )
        rows.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    left_out = [f"- {label}: {why}." for label, why in NOT_READ.items()]
    parts = ["\n".join(rows), "\n".join(["Not read:", "", *left_out])]
    return _page(
        "Agents", "The agents whose sessions runlore reads. It never writes to their files.", parts
    )


def schema_page() -> str:
    """The statements that make the tables of a new SQLite store, each with its indexes and
    triggers."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "runlore.db"
        open_store(str(path)).close()
        connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
        statements = connection.execute("""
            select tbl_name, sql from sqlite_schema
            where sql is not null and tbl_name not like 'sqlite\\_%' escape '\\'
              and tbl_name not in (select name from pragma_table_list where type = 'shadow')
            order by tbl_name, type not in ('table', 'view'), name
            """).fetchall()
        connection.close()
    tables: dict[str, list[str]] = {}
    for table, sql in statements:
        tables.setdefault(str(table), []).append(f"{sql};")
    comments = _table_comments()
    parts = [
        f"## {table}\n\n{comments.get(table, '')}```sql\n" + "\n".join(sqls) + "\n```"
        for table, sqls in tables.items()
    ]
    intro = "The tables of the SQLite store. Read them as you like; only runlore writes."
    return _page("Schema", intro, parts)


def _table_comments() -> dict[str, str]:
    """The lines above each `create table`, as a paragraph: SQLite keeps only the comments
    inside."""
    text = "\n".join(file.read_text(encoding="utf-8") for file in sorted(MIGRATIONS.glob("*.sql")))
    found = re.findall(r"((?:^--.*\n)+)create (?:virtual )?table (\w+)", text, re.MULTILINE)
    return {table: re.sub(r"^-- ?", "", lines, flags=re.MULTILINE) + "\n" for lines, table in found}


# ── what --json prints ────────────────────────────────────────────────────────────────────────────
def json_page() -> str:
    """The rules, the codes of errors, what each command prints, and all that is in it."""
    rules = (_json.__doc__ or "").partition("\n\n")[2].strip()
    codes = ["## Codes of errors", _table(["code", "means", "hint"], _codes())]
    rows = [
        [
            f"`runlore {name}{f' {form}' * bool(form)}`",
            _type_words(shape.type),
            f"`{shape.items}`" if shape.items else "",
            _remark(shape),
        ]
        for name, forms in SHAPES.items()
        for form, shape in forms.items()
    ]
    printed = ["## What each command prints", _table(["command", "prints", "its items", ""], rows)]
    values = [_value_part(kind) for kind in _values()]
    return _page("JSON", rules, [*codes, *printed, "## Values", *values])


def _codes() -> Iterator[list[str]]:
    """Those of our errors, and those of the command line."""
    waiting: list[type[RunloreError]] = [RunloreError]
    while waiting:
        kind = waiting.pop(0)
        # Of others it is chance whether they are imported.
        if kind.__module__ in (RunloreError.__module__, QueryError.__module__):
            means = (kind.__doc__ or "").partition("\n")[0].partition(". ")[0].removesuffix(".")
            yield [
                f"`{kind.code}`",
                "Anything else." if kind is RunloreError else f"{means}.",
                kind.hint or "",
            ]
            waiting[:0] = kind.__subclasses__()
    for code, (means, hint) in OTHERS.items():
        yield [f"`{code}`", means, hint or ""]


def _remark(shape: Shape) -> str:
    return "a line for each" if shape.is_stream else "the array itself" if shape.items == "" else ""


def _values() -> list[type[msgspec.Struct]]:
    """Every kind of object that is printed, in the order in which they first occur."""
    found: dict[type[msgspec.Struct], None] = {}
    waiting = [shape.type for forms in SHAPES.values() for shape in forms.values()]
    while waiting:
        kind = item_of(waiting.pop(0))
        if isinstance(kind, type) and issubclass(kind, msgspec.Struct) and kind not in found:
            found[kind] = None
            waiting[:0] = [
                *fields_of(kind).values(),
                *(base for base in kind.__bases__ if not _is_hidden(base)),
            ]
    return sorted(found, key=lambda kind: kind.__name__)


def _value_part(kind: type[msgspec.Struct]) -> str:
    about, _, rest = (kind.__doc__ or "").partition("\n")
    told = dict(line.strip().split(": ", 1) for line in rest.splitlines() if ": " in line)
    base = kind.__bases__[0]
    known = fields_of(base) if not _is_hidden(base) else {}
    optional = {field.name for field in msgspec.structs.fields(kind) if not field.required}
    rows = [
        [f"`{name}`", _type_words(of) + ", may be absent" * (name in optional), told.pop(name, "")]
        for name, of in fields_of(kind).items()
        if known.get(name) != of
    ]
    assert not told, f"{kind.__name__} has no {', '.join(told)}"
    above = f" All of [{base.__name__}](#{base.__name__.lower()}), and:" if known else ""
    return f"### {kind.__name__}\n\n{about}{above}\n\n{_table(['field', 'holds', ''], rows)}"


def _is_hidden(kind: type) -> bool:
    return kind.__name__ in ("Value", "Struct") or kind.__name__.startswith("_")


def _type_words(of: Any) -> str:
    inner, origin = get_args(of), get_origin(of)
    if origin in (Union, UnionType):
        words = [_type_words(one) for one in inner if one is not NoneType]
        words = ["number"] if set(words) == {"integer", "number"} else words
        return " or ".join([*words, *(["null"] if NoneType in inner else [])])
    if origin is list:
        return f"list of {_type_words(inner[0])}"
    if origin is tuple:
        return f"pair of {' and '.join(dict.fromkeys(_type_words(one) for one in inner))}"
    if origin is dict:
        return f"object with any names, of {_type_words(inner[1])}"
    if isinstance(of, type) and issubclass(of, msgspec.Struct):
        return f"[{of.__name__}](#{of.__name__.lower()})"
    return {str: "text", int: "integer", float: "number", bool: "true or false", Any: "anything"}[
        of
    ]


def _table(heads: list[str], rows: Iterable[list[str]]) -> str:
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join(
        "| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines
    )


PAGES: dict[str, Callable[[], str]] = {
    "agents.md": agents_page,
    "commands.md": commands_page,
    "json.md": json_page,
    "schema.md": schema_page,
}


def _page(title: str, intro: str, parts: list[str]) -> str:
    note = "<!-- Written by `python -m runlore.docs`. Change the program, not this page. -->"
    return "\n\n".join([note, f"# {title}", intro, *parts]) + "\n"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
