"""What a reviewer would tire of saying."""

import ast
import io
import re
import subprocess
import sys
import tokenize
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

import runlore
from runlore import adapters, docs

ROOT = Path(__file__).parent.parent
SRC = ROOT / "src/runlore"
FILES = sorted(SRC.rglob("*.py"))

# Lowest first: a room may import from its own layer and from those before it. Modules like
# `_version` are in the lowest, but for those that are named here.
LAYERS = [
    {"errors", "model", "timeline", "text"},
    {"config", "redact"},
    {"adapters", "store"},
    {"files", "answers"},
    {"pricing", "live"},
    {"digest"},
    {"mine"},
    {"query"},
    {"lessons", "train"},
    {"sync", "doctor", "search", "usage", "export"},
    {"retention"},
    {"cli", "web", "integrations", "testing", "docs", "__init__", "__main__"},
]
LAYER = {room: number for number, rooms in enumerate(LAYERS) for room in rooms}

# Names of agents that are words as well: these count only where a text is the name and nothing
# else.
WORDS = {"amp", "cursor", "live", "pi", "runlore"}


def test_every_room_has_its_layer() -> None:
    assert not {room for room in map(room_of, FILES) if not is_helper(room)} - LAYER.keys()


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(SRC)))
def test_imports_point_one_way(file: Path) -> None:
    upward = [
        f"line {line}: {room}" for room, line in imports(file) if layer(room) > layer(room_of(file))
    ]
    assert not upward, f"{file.relative_to(ROOT)} imports from above"


def test_rooms_do_not_import_each_other_in_a_circle() -> None:
    graph: dict[str, set[str]] = {}
    for file in FILES:
        graph.setdefault(room_of(file), set()).update(
            room for room, _ in imports(file) if room != room_of(file)
        )
    TopologicalSorter(graph).prepare()  # raises CycleError, which shows the circle


def test_every_way_to_import_is_seen() -> None:
    """The tests above would pass if `imports` saw nothing."""
    file = SRC / "mine/made_up.py"
    source = """
import runlore.config, json
from .. import model, Session
from ..store import open_store
from . import other
from runlore import errors
if TYPE_CHECKING:
    from ..cli import cli
else:
    from ..web import app
def lazily():
    from ..query import search
"""
    assert [room for room, _ in imports(file, source)] == [
        "config",
        "model",
        "__init__",
        "store",
        "mine",
        "errors",
        "web",
        "query",
    ]


@pytest.mark.parametrize("name", adapters.own_names())
def test_adapter_has_a_fixture(name: str) -> None:
    cases = [case for case in (ROOT / "tests/adapters/fixtures" / name).glob("*") if case.is_dir()]
    assert cases, f"tests/adapters/fixtures/{name}/ needs a folder for at least one case"


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(SRC)))
def test_no_agent_is_named_outside_its_adapter(file: Path) -> None:
    # Adapters may build on each other; what they all share knows none of them. The adapter of our
    # own logs has the program's name.
    names = set() if is_of_an_adapter(file) else set(adapters.names()) - {"runlore"}
    named = (
        [f"line {line}: {text}" for text, line in agents_named(file.read_text(), names)]
        if names
        else []
    )
    assert not named, (
        f"{file.relative_to(ROOT)} names an agent; that belongs in the agent's adapter"
    )


def is_of_an_adapter(file: Path) -> bool:
    """A module `name.py`, or a file of the package `name`."""
    room, *rest = file.relative_to(SRC).parts
    return room == "adapters" and rest[0].removesuffix(".py") in adapters.own_names()


def test_agents_are_found_in_code_and_not_in_prose() -> None:
    """The test above would pass if `agents_named` saw nothing."""
    guilty = ['x = "abc"', 'x = "cursor"', "AbcReader()", 'open(f"{home}/.abc")', "abc_home = 1"]
    innocent = [
        '"""Docstring: abc."""',
        "# abc",
        'x = "abc-4"',
        "cursor = 1",
        'x = "the cursor"',
        "abcd = 1",
    ]
    lines = innocent + guilty
    assert [
        lines[line - 1] for _, line in agents_named("\n".join(lines), {"abc", "cursor"})
    ] == guilty


def test_every_room_is_on_the_tour() -> None:
    """What is in a room is told by its own files; what all adapters share is a room of its own."""
    told = set(re.findall(r"`([a-z_]+)(?:/|\.py)", (ROOT / "ARCHITECTURE.md").read_text()))
    rooms = {room_of(file) for file in FILES} - {"__init__", "__main__"}
    shared = {file.stem for file in (SRC / "adapters/shared").glob("*.py")} - {"__init__"}
    assert not (rooms | shared) - told


def test_every_command_is_documented() -> None:
    page = (ROOT / "docs/commands.md").read_text().splitlines()
    assert not [path for path, _ in docs.commands() if f"## {path}" not in page]


def test_public_names_are_sorted_and_exist() -> None:
    assert list(runlore.__all__) == sorted(set(runlore.__all__))
    for name in runlore.__all__:
        getattr(runlore, name)


def test_no_file_is_long() -> None:
    """A file that needs more than 600 lines holds more than one idea."""
    lengths = {str(file.relative_to(ROOT)): len(file.read_text().splitlines()) for file in FILES}
    assert not {file: lines for file, lines in lengths.items() if lines > 600}


def test_import_is_light() -> None:
    """Faces and stores are paid for by those who use them."""
    heavy = {
        "apsw",
        "click",
        "starlette",
        "uvicorn",
        "jinja2",
        "nh3",
        "pygments",
        "genai_prices",
        "pydantic",
        "re2",
        "rich",
        "zstandard",
    }
    code = "import sys, runlore; print(*sys.modules)"
    loaded = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True
    ).stdout.split()
    assert not heavy & set(loaded)


def test_migrations_are_numbered_without_gaps() -> None:
    for folder in {file.parent for file in SRC.glob("store/**/*.sql")}:
        numbers = sorted(
            int(file.name.partition("_")[0].removesuffix(".sql")) for file in folder.glob("*.sql")
        )
        assert numbers == list(range(1, len(numbers) + 1))


def room_of(file: Path) -> str:
    """The part of the house that a file belongs to: a folder, or a module at the top."""
    return file.relative_to(SRC).parts[0].removesuffix(".py")


def is_helper(room: str) -> bool:
    return room.startswith("_") and not room.startswith("__")


def layer(room: str) -> int:
    return LAYER.get(room, 0) if is_helper(room) else LAYER[room]


def imports(file: Path, source: str | None = None) -> Iterator[tuple[str, int]]:
    """The rooms that a file imports from at run time, anywhere in it, each with its line."""
    package = ("runlore", *file.relative_to(SRC).parent.parts)
    for node in runtime_nodes(ast.parse(file.read_text() if source is None else source)):
        if isinstance(node, ast.Import):
            found = [tuple(alias.name.split(".")) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else ()
            base += tuple(node.module.split(".")) if node.module else ()
            found = [(*base, alias.name) for alias in node.names]
        else:
            continue
        for path in found:
            if path[0] == "runlore":
                is_room = len(path) > 1 and (path[1] in LAYER or is_helper(path[1]))
                yield (path[1] if is_room else "__init__"), node.lineno


def runtime_nodes(tree: ast.AST) -> Iterator[ast.AST]:
    """All nodes but those that only the type checker sees."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            for other in node.orelse:
                yield other
                yield from runtime_nodes(other)
        else:
            yield node
            yield from runtime_nodes(node)


def agents_named(source: str, names: set[str]) -> Iterator[tuple[str, int]]:
    """Identifiers and texts that name an agent. Comments and docstrings may: an example helps a
    reader."""
    # A model may begin like the agent: "name-4" is not the name.
    pattern = re.compile(
        rf"(?<![a-z0-9-])({'|'.join(names - WORDS) or 'no name'})(?![a-z0-9-])", re.IGNORECASE
    )
    code = {tokenize.NAME, tokenize.STRING, getattr(tokenize, "FSTRING_MIDDLE", tokenize.STRING)}
    is_first = True  # in its statement; a text that comes first is a docstring
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type in code and not (is_first and token.type == tokenize.STRING):
            words = re.sub("(?<=[a-z])(?=[A-Z])", "_", token.string)
            if pattern.search(words) or token.string.strip("\"'") in names & WORDS - {token.string}:
                yield token.string[:60], token.start[0]
        if token.type not in (tokenize.COMMENT, tokenize.NL):
            is_first = token.type in (tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT)
