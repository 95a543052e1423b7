"""The shape of the code, checked: layers, limits, names.

The limits are at the top.
"""

import ast
import io
import re
import subprocess
import sys
import tokenize
from collections.abc import Callable, Iterator
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

import runlore
from runlore import adapters
from runlore.cli import docs

ROOT = Path(__file__).parent.parent
SRC = ROOT / "src/runlore"
FILES = sorted(SRC.rglob("*.py"))

MAX_TOP_LEVEL_NAMES = 26
MAX_FILE_LINES = 600
MAX_COLUMNS = 100
MAX_BASES = 4
MAX_CONTRACT_METHODS = 15
MAX_COMPLEXITY = 15
MAX_COMPLEX_FUNCTIONS = 7
MAX_FUNCTION_LINES = 50

# Words that say when something happened, and not what it is; and those that the glossary replaces
# by another one. A name is one of them if any of its parts is.
BANNED_WORDS = frozenset(
    "told said made kept found asked taken seen ran took telling tellings lending lent piece pieces"
    " aside beside besides sums summer spare spares struck overtaken most longest largest"
    " fewest".split()
)
# A sentence that begins with a clause in place of a noun has to be read twice: "What was read is
# stored." Name the thing: "Records are stored once they are read."
PUZZLE = re.compile(
    r"(^|\. )(Who|What|Which|Whether|Where|So many|As many|The same)\b[^.?]*"
    r"\b(is|are|has|have|was|says|tells|goes|comes|stands|takes)\b",
    re.MULTILINE,
)
USUAL_NAMES = frozenset({"NotFound", "SessionNotFound"})
"""Names that every programmer knows."""

# Lowest first: a room may import from its own layer and from those before it.
LAYERS = [
    {"errors", "model", "timeline", "text"},
    {"config", "redact"},
    {"adapters", "store"},
    {"files", "answers"},
    {"pricing", "live"},
    {"digest"},
    {"mine"},
    {"query"},
    {"lessons"},
    {"sync", "doctor", "search", "usage", "export"},
    {"retention"},
    {"cli", "web", "integrations", "testing", "__init__", "__main__"},
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
    # own logs has the program's name. A bridge is named for its framework.
    is_free = is_of_an_adapter(file) or file.is_relative_to(SRC / "live/bridges")
    names = set() if is_free else set(adapters.names()) - {"runlore"}
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
    mentioned = set(re.findall(r"`([a-z_]+)(?:/|\.py)", (ROOT / "ARCHITECTURE.md").read_text()))
    rooms = {room_of(file) for file in FILES} - {"__init__", "__main__"}
    shared = {file.stem for file in (SRC / "adapters/shared").glob("*.py")} - {"__init__"}
    assert not (rooms | shared) - mentioned


def test_every_name_on_the_tour_exists() -> None:
    page = (ROOT / "ARCHITECTURE.md").read_text()
    names = {
        name
        for name in re.findall(r"`([A-Za-z_][\w./]*)`", page)
        if not name.islower() or not name.isalpha()
    }
    assert len(names) > 100
    assert not {name for name in names if not is_on_the_tour(name)}


@pytest.mark.parametrize(
    "name",
    "lost_name Adapter.lost_name model.LostName sync.pipeline.lost_name sync.lost_name.sync"
    " store.digests.lost_name Store.digests.lost_name shared/lost_name.py lost_name/".split(),
)
def test_a_name_that_is_gone_is_not_on_the_tour(name: str) -> None:
    assert not is_on_the_tour(name)


def test_every_command_is_documented() -> None:
    page = (ROOT / "docs/commands.md").read_text().splitlines()
    assert not [path for path, _ in docs.commands() if f"## {path}" not in page]


def test_public_names_are_sorted_and_exist() -> None:
    assert list(runlore.__all__) == sorted(set(runlore.__all__))
    for name in runlore.__all__:
        getattr(runlore, name)


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


# ── limits ────────────────────────────────────────────────────────────────────────────────────────
BRANCHES = (
    ast.If, ast.For, ast.AsyncFor, ast.While, ast.ExceptHandler, ast.With, ast.AsyncWith, ast.IfExp,
    ast.Assert, ast.comprehension, ast.match_case,
)  # fmt: skip


def find_long_files() -> Iterator[str]:
    """Files that hold more than one idea."""
    for file in FILES:
        if len(file.read_text().splitlines()) > MAX_FILE_LINES:
            yield name_of(file)


def find_surplus_names() -> Iterator[str]:
    """All names at the top level, if there are too many."""
    rooms = {room_of(file) for file in FILES} - {"__init__", "__main__"}
    if len(rooms) > MAX_TOP_LEVEL_NAMES:
        yield f"{len(rooms)} names at the top level"


def find_private_rooms() -> Iterator[str]:
    yield from {room for room in map(room_of, FILES) if is_helper(room)}


def find_classes_with_many_bases() -> Iterator[str]:
    """Classes with too many bases, but for errors, which are also Python's own errors."""
    for name in classes():
        bases = bases_of(name)
        if len(bases) > MAX_BASES and "RunloreError" not in bases:
            yield name


def find_large_contracts() -> Iterator[str]:
    for name, node in classes().items():
        is_contract = any(ast.unparse(base).startswith("Protocol") for base in node.bases)
        if is_contract and method_count(name) > MAX_CONTRACT_METHODS:
            yield name


def find_banned_names() -> Iterator[str]:
    """Modules, types, functions and constants that are named by a banned word."""
    for file in FILES:
        for name in [*file.relative_to(SRC).with_suffix("").parts, *defined_names(tree_of(file))]:
            if words_of(name) & BANNED_WORDS and name not in USUAL_NAMES:
                yield f"{name_of(file)}: {name}"


def find_puzzles() -> Iterator[str]:
    """Docstrings with a sentence that has to be read twice."""
    documented = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
    for file in FILES:
        for node in ast.walk(tree_of(file)):
            if isinstance(node, documented) and (
                match := PUZZLE.search(ast.get_docstring(node) or "")
            ):
                yield f"{name_of(file)}: {match[0].strip('. ')}"


def find_long_lines() -> Iterator[str]:
    """Markdown with lines that are too long. Python is checked by the linter, at the same width."""
    for file in markdown_files():
        if any(len(line) > MAX_COLUMNS for line in prose_lines(file.read_text())):
            yield name_of(file)


def find_complex_functions() -> Iterator[str]:
    """Complex functions without a reason, and all of them if there are too many."""
    functions = {
        f"{file}: {node.name}": node
        for file, node in functions_of_all_files()
        if complexity(node) > MAX_COMPLEXITY
    }
    is_many = len(functions) > MAX_COMPLEX_FUNCTIONS
    for name, node in functions.items():
        if is_many or not has_reason(name.partition(":")[0], node):
            yield name


def find_long_functions() -> Iterator[str]:
    """Long functions without a reason."""
    for file, node in functions_of_all_files():
        length = (node.end_lineno or node.lineno) - node.lineno + 1
        if length > MAX_FUNCTION_LINES and not has_reason(file, node):
            yield f"{file}: {node.name}"


def find_tests_of_private_modules() -> Iterator[str]:
    for file in python_files("tests"):
        for node in ast.walk(tree_of(file)):
            if any(is_private(path) for path in imported_paths(node)):
                yield name_of(file)


LIMITS: dict[str, Callable[[], Iterator[str]]] = {
    "files that are too long": find_long_files,
    "names at the top level": find_surplus_names,
    "private modules at the top level": find_private_rooms,
    "classes with many bases": find_classes_with_many_bases,
    "large contracts": find_large_contracts,
    "banned names": find_banned_names,
    "docstrings that have to be read twice": find_puzzles,
    "files with long lines": find_long_lines,
    "complex functions": find_complex_functions,
    "long functions": find_long_functions,
    "tests of private modules": find_tests_of_private_modules,
}


@pytest.mark.parametrize("limit", LIMITS)
def test_limit_holds(limit: str) -> None:
    assert not set(LIMITS[limit]())


def test_prose_is_what_is_no_table_code_or_link() -> None:
    text = "one\n```\ncode\n```\n| a |\n[name]: https://x\ntwo [name](https://x)\nthree\n"
    assert list(prose_lines(text)) == ["one", "three"]


def test_words_are_found_in_names_of_every_style() -> None:
    assert words_of("MOST_EVENTS") == {"most", "events"}
    assert words_of("_FoundFile") == {"found", "file"}
    assert words_of("is_made") == {"is", "made"}


def name_of(file: Path) -> str:
    return file.relative_to(ROOT).as_posix()


@cache
def tree_of(file: Path) -> ast.Module:
    return ast.parse(file.read_text())


def python_files(*folders: str) -> list[Path]:
    files = (file for folder in folders for file in (ROOT / folder).rglob("*.py"))
    return sorted(file for file in files if "fixtures" not in file.parts)


def markdown_files() -> list[Path]:
    """Pages that people write; the benchmarks write their own results."""
    folders = ("docs", "design", "bench", "src")
    files = [
        *ROOT.glob("*.md"),
        *(file for name in folders for file in (ROOT / name).rglob("*.md")),
    ]
    return sorted({*files} - {ROOT / "bench/RESULTS.md", ROOT / "bench/USAGE.md"})


def prose_lines(text: str) -> Iterator[str]:
    """The lines of a page that can be wrapped: no code, no table, no link."""
    is_code = False
    for line in text.splitlines():
        if line.lstrip().startswith("```"):
            is_code = not is_code
        elif (
            not is_code
            and not line.startswith(("|", "    "))
            and not re.search(r"\]\(|\]: |https?://", line)
        ):
            yield line


def complexity(function: ast.AST) -> int:
    """One more than the branches of a function."""
    return 1 + sum(
        isinstance(node, BRANCHES) + (len(node.values) - 1 if isinstance(node, ast.BoolOp) else 0)
        for node in ast.walk(function)
    )


Function = ast.FunctionDef | ast.AsyncFunctionDef


def functions_of_all_files() -> Iterator[tuple[str, Function]]:
    for file in FILES:
        for node in ast.walk(tree_of(file)):
            if isinstance(node, Function):
                yield name_of(file), node


def has_reason(file: str, function: Function) -> bool:
    """Return True if a comment in a function says why it is as long or as complex as it is."""
    lines = (ROOT / file).read_text().splitlines()[function.lineno : function.end_lineno]
    reason = re.compile(r"\s*# (?:Long|One loop|One function), because\b")
    return any(reason.match(line) for line in lines)


def words_of(name: str) -> set[str]:
    """The words of a name in any style."""
    return set(re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower().split("_")) - {""}


def defined_names(tree: ast.Module) -> Iterator[str]:
    """Types and functions anywhere in a module, and its constants."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name
    for node in tree.body:
        targets = (
            node.targets
            if isinstance(node, ast.Assign)
            else ([node.target] if isinstance(node, ast.AnnAssign) else [])
        )
        for target in targets:
            for part in ast.walk(target):
                if isinstance(part, ast.Name) and part.id.isupper():
                    yield part.id


def is_on_the_tour(name: str) -> bool:
    """Return True for a name that exists, as pages write it: the end of the path of a file or
    folder, a module, or something that a module, a class or a part of the store has."""
    if "/" in name or name.endswith(".py"):
        return (ROOT / name).exists() or f"/{name.strip('/')}" in ends_of_paths()
    room, *parts = name.split(".")
    if room == "Store" and parts and (contract := contract_of(parts[0])):
        return {contract, *parts[1:]} <= {contract} | members_of(contract)
    return name in dotted_names()


@cache
def ends_of_paths() -> set[str]:
    paths = {path.relative_to(SRC).parts for file in FILES for path in (file, file.parent)}
    paths |= {path.relative_to(SRC).parts for path in SRC.rglob("migrations")}
    return {"/" + "/".join(parts[n:]) for parts in paths for n in range(len(parts))}


@cache
def dotted_names() -> set[str]:
    """Modules by all parts of their paths, with what they define, and members of classes."""
    names: set[str] = set()
    for file in FILES:
        path = file.relative_to(SRC).with_suffix("").parts
        ends = [".".join(path[a:b]) for a in range(len(path)) for b in range(a + 1, len(path) + 1)]
        names.update(ends)
        names.update(name for name in defined_names(tree_of(file)) if name.isupper())
        for node in tree_of(file).body:
            if name := defined_name(node):
                names |= {name, *(f"{end}.{name}" for end in ends)}
            if isinstance(node, ast.ClassDef):
                members = {f"{node.name}.{member}" for member in members_of(node.name)}
                names |= members.union(f"{end}.{member}" for end in ends for member in members)
                names |= members_of(node.name)
    return names


def defined_name(node: ast.stmt) -> str | None:
    """The name that a statement of a module or a class defines."""
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return node.name
    target = node.targets[0] if isinstance(node, ast.Assign) else getattr(node, "target", None)
    return target.id if isinstance(target, ast.Name) else None


def members_of(name: str) -> set[str]:
    """The methods and fields of classes of this name, and of those that they derive from."""
    return {
        member
        for one in {name, *bases_of(name)}
        for node in classes_of_all_files().get(one, ())
        for part in node.body
        if (member := defined_name(part))
    }


@cache
def classes_of_all_files() -> dict[str, list[ast.ClassDef]]:
    """Classes by name. Several rooms may have one of the same name."""
    named: dict[str, list[ast.ClassDef]] = {}
    for file in FILES:
        for node in tree_of(file).body:
            if isinstance(node, ast.ClassDef):
                named.setdefault(node.name, []).append(node)
    return named


def contract_of(part: str) -> str | None:
    """The name of the contract of a part of a store; None if there is no such part."""
    for node in classes()["Store"].body:
        if isinstance(node, ast.FunctionDef) and node.name == part and node.returns:
            return ast.unparse(node.returns)
    return None


@cache
def classes() -> dict[str, ast.ClassDef]:
    return {
        node.name: node
        for file in FILES
        for node in ast.walk(tree_of(file))
        if isinstance(node, ast.ClassDef)
    }


def bases_of(name: str, below: frozenset[str] = frozenset()) -> set[str]:
    """The classes that a class derives from, directly or not."""
    if name not in classes() or name in below:
        return set()
    own = {
        base.id if isinstance(base, ast.Name) else base.attr
        for base in classes()[name].bases
        if isinstance(base, ast.Name | ast.Attribute)
    }
    return own.union(*(bases_of(base, below | {name}) for base in own))


def method_count(name: str) -> int:
    """The methods that a class has itself, without properties."""
    methods = [
        node
        for node in classes()[name].body
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]
    return sum(
        all(ast.unparse(decorator) != "property" for decorator in node.decorator_list)
        for node in methods
    )


def imported_paths(node: ast.AST) -> list[str]:
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom) and not node.level:
        return [f"{node.module}.{alias.name}" for alias in node.names]
    return []


def is_private(path: str) -> bool:
    room, *parts = path.split(".")
    return room == "runlore" and any(
        part.startswith("_") and not part.startswith("__") for part in parts
    )


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
