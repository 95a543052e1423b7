"""What an adapter makes of a file with one wrong value. `check_breakage` breaks records; what is
read as a whole is wrong before that."""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from runlore.adapters import Adapter
from runlore.errors import ReadError
from runlore.testing import Fixture, iter_fixtures

WRONG: tuple[Any, ...] = (
    None,
    True,
    -1,
    1 << 63,
    10**400,
    1e300,
    "x",
    [],
    ["x"],
    {},
    {"a": {"b": 1}},
)
FIXTURES = list(iter_fixtures(Path(__file__).parent / "fixtures"))


@pytest.mark.parametrize("fixture", FIXTURES, ids=lambda fixture: f"{fixture.agent}-{fixture.case}")
def test_a_wrong_value_in_a_file_raises_nothing(
    fixture: Fixture, loops: Callable[[int], int], tmp_path: Path
) -> None:
    rng = random.Random()
    root = Path(shutil.copytree(fixture.root, tmp_path / fixture.root.name))
    files = sorted(path for path in root.rglob("*.json*") if path.is_file() and path.stat().st_size)
    for _ in range(loops(40) if files else 0):
        file = rng.choice(files)
        right = file.read_bytes()
        with suppress(ValueError, RecursionError):  # The fixture itself is strange there.
            file.write_bytes(_broken(right, file.suffix == ".jsonl", rng))
            _read_all(fixture.adapter, root)
        file.write_bytes(right)


def _read_all(adapter: Adapter, root: Path) -> None:
    for source in adapter.discover(root):
        try:
            adapter.normalize(source, adapter.read(source, None), None)
        except ReadError:
            continue
        except ValueError as error:
            raise AssertionError(f"{source.path}: {error!r}") from error


def _broken(data: bytes, is_lines: bool, rng: random.Random) -> bytes:
    """One value of one document, wherever it is in it, is another."""
    lines = data.splitlines() if is_lines else [data]
    n = rng.randrange(len(lines))
    holder: Any = [json.loads(lines[n])]
    whole, key = holder, 0
    while isinstance(holder[key], dict | list) and holder[key] and rng.random() < 0.9:
        holder = holder[key]
        key = rng.choice(list(holder) if isinstance(holder, dict) else range(len(holder)))
    holder[key] = rng.choice(WRONG)
    lines[n] = json.dumps(whole[0]).encode()
    return b"\n".join(lines) + b"\n"


@pytest.mark.parametrize(
    ("agent", "path", "right", "wrong"),
    [
        ("vscode_copilot", "*.json", '"timestamp"', '"timestamp": 1' + "0" * 400 + ', "_"'),
        ("vscode_copilot", "*.json", '"requests"', '"strange": "abc", "requests"'),
        (
            "vscode_copilot",
            "*.jsonl",
            '"copilotCredits"],"v":',
            '"copilotCredits"],"v":1' + "0" * 400 + ',"_":',
        ),
        ("amp", "T-*.json", '"toMessageId":', '"toMessageId": ["x"], "_":'),
        ("cline", "ui_messages.json", '"ts":', '"partial": true, "ts": {}, "_":'),
    ],
)
def test_what_once_cost_a_session_costs_no_more_than_itself(
    agent: str, path: str, right: str, wrong: str, tmp_path: Path
) -> None:
    for fixture in (fixture for fixture in FIXTURES if fixture.agent == agent):
        root = Path(shutil.copytree(fixture.root, tmp_path / fixture.case / fixture.root.name))
        for file in root.rglob(path):
            file.write_text(
                file.read_text(encoding="utf-8").replace(right, wrong), encoding="utf-8"
            )
        _read_all(fixture.adapter, root)
