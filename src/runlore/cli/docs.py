"""The documentation that a program can write: commands, agents, schema, and what --json prints.

`python -m runlore.cli.docs` writes it into docs/ of a checkout, `--check` says which file is stale.
Nothing here knows a command, an agent or a table by name: all of it is asked of the program itself.
"""

from __future__ import annotations

import importlib
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin

import apsw
import click
import msgspec
from msgspec import UnsetType

from .. import adapters
from ..answers import Answer, describe, fields_of, is_list, structs_in
from ..errors import RunloreError
from ..live import format
from ..search import QueryError
from ..store import open_store
from . import cli, selecting
from .failures import COMMAND_LINE_CODES
from .selection import answers_of

DOCS = Path(__file__).parents[3] / "docs"
MIGRATIONS = Path(__file__).parents[1] / "store/sqlite/migrations"
WIDTH = 88
"""Of the help texts, in columns, so that the terminal does not matter."""


def main(args: list[str]) -> int:
    """Writes the pages, or with `--check` names the first stale one. The result is the exit
    status."""
    if args not in ([], ["--check"]):
        print("usage: python -m runlore.cli.docs [--check]", file=sys.stderr)
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
                f"docs/{name} is stale; run `python -m runlore.cli.docs` and commit the change",
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
    return ((path, text) for path, _, text in _walk(cli, "runlore", None))


def _walk(
    command: click.Command, name: str, parent: click.Context | None
) -> Iterator[tuple[str, click.Command, str]]:
    settings = {
        **command.context_settings,
        "terminal_width": WIDTH,
        "max_content_width": WIDTH,
        "color": False,
    }
    context = click.Context(command, info_name=name, parent=parent, **settings)
    yield context.command_path, command, command.get_help(context)
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
    """Return the rules, the codes of errors, what each command prints, and the values in it."""
    rules = (selecting.__doc__ or "").partition("\n\n")[2].strip()
    codes = ["## Codes of errors", _table(["code", "means", "hint"], _codes())]
    declared = [
        (f"runlore {name} {form}".strip(), answer)
        for name, forms in answers().items()
        for form, answer in forms.items()
    ]
    structs = structs_in(answer.type for _, answer in declared)
    names = _struct_names(structs)
    rows = [
        [
            f"`{line}`",
            _type_words(answer.type, names),
            f"`{answer.items}`" if answer.items else "",
            _remark(answer),
        ]
        for line, answer in declared
    ]
    printed = ["## What each command prints", _table(["command", "prints", "its items", ""], rows)]
    values = [_value_part(kind, names) for kind in sorted(structs, key=lambda kind: names[kind])]
    return _page("JSON", rules, [*codes, *printed, "## Values", *values])


def answers() -> dict[str, Mapping[str, Answer]]:
    """Return what each command prints, as it declares it, by the name of the command."""
    return {
        path.removeprefix("runlore "): declared
        for path, command, _ in _walk(cli, "runlore", None)
        if (declared := answers_of(command))
    }


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
    for code, (means, hint) in COMMAND_LINE_CODES.items():
        yield [f"`{code}`", means, hint or ""]


def _remark(answer: Answer) -> str:
    if answer.is_stream:
        return "a line for each"
    return "the array itself" if answer.items == "" else ""


Names = dict[type[msgspec.Struct], str]


def _struct_names(structs: Iterable[type[msgspec.Struct]]) -> Names:
    """Return the name of each struct on the page; the room comes first where two have the same."""
    structs = list(structs)
    counts = Counter(kind.__name__ for kind in structs)
    return {
        kind: (
            kind.__name__
            if counts[kind.__name__] == 1
            else f"{kind.__module__.split('.')[1]}.{kind.__name__}"
        )
        for kind in structs
    }


def _value_part(kind: type[msgspec.Struct], names: Names) -> str:
    texts = describe.descriptions(kind)
    base = next((base for base in kind.__mro__[1:] if base in names), None)
    known = fields_of(base) if base else {}
    rows = [
        [f"`{name}`", _field_words(kind, name, of, names), _in_json(texts.get(name, ""))]
        for name, of in fields_of(kind).items()
        if known.get(name) != of
    ]
    above = f" All of {_link(names[base])}{', and:' if rows else '.'}" if base else ""
    part = f"### {names[kind]}\n\n{_in_json(describe.about(kind))}{above}"
    return f"{part}\n\n{_table(['field', 'holds', ''], rows)}" if rows else part


def _field_words(kind: type[msgspec.Struct], name: str, of: Any, names: Names) -> str:
    field = next(field for field in msgspec.structs.fields(kind) if field.encode_name == name)
    is_omitted = kind.__struct_config__.omit_defaults and not field.required
    is_absent = is_omitted or UnsetType in get_args(of)
    return _type_words(of, names) + ", may be absent" * is_absent


def _in_json(text: str) -> str:
    """Return a description with the constants of Python in the words of JSON."""
    for python, json in (("None", "null"), ("True", "true"), ("False", "false")):
        text = re.sub(rf"\b{python}\b", json, text)
    return text


def _type_words(of: Any, names: Names) -> str:
    inner, origin = get_args(of), get_origin(of)
    if origin in (Union, UnionType):
        rest = [one for one in inner if one not in (NoneType, UnsetType)]
        words = [_type_words(one, names) for one in rest]
        words = ["number"] if set(words) == {"integer", "number"} else words
        return " or ".join([*words, *(["null"] if NoneType in inner else [])])
    if is_list(of):
        return f"list of {_type_words(inner[0], names)}"
    if origin is tuple:
        return f"pair of {' and '.join(dict.fromkeys(_type_words(one, names) for one in inner))}"
    if origin is dict:
        return f"object with any names, of {_type_words(inner[1], names)}"
    if origin is Literal:
        return f"text: {', '.join(map(str, inner))}"
    return _link(names[of]) if of in names else WORDS[of]


def _link(name: str) -> str:
    return f"[{name}](#{name.replace('.', '').lower()})"


WORDS = {
    str: "text",
    int: "integer",
    float: "number",
    bool: "true or false",
    datetime: "time",
    Any: "anything",
}
"""The types of fields, as the page calls them."""


def _table(heads: list[str], rows: Iterable[list[str]]) -> str:
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join(
        "| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines
    )


def live_schema() -> str:
    """The JSON Schema of a line of a live log."""
    data = msgspec.json.encode(format.schema())
    return msgspec.json.format(data, indent=1).decode() + "\n"


PAGES: dict[str, Callable[[], str]] = {
    "agents.md": agents_page,
    "commands.md": commands_page,
    "json.md": json_page,
    "live-format.schema.json": live_schema,
    "schema.md": schema_page,
}


def _page(title: str, intro: str, parts: list[str]) -> str:
    note = "<!-- Written by `python -m runlore.cli.docs`. Change the program, not this page. -->"
    return "\n\n".join([note, f"# {title}", intro, *parts]) + "\n"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
