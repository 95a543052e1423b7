"""Type checkers find mistakes in programs that use the live log, asynchronously as well."""

import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PROGRAM = """\
from runlore.live import AsyncSessionStore, SessionStore


async def main(store: AsyncSessionStore) -> int:
    session = await store.create("Chat", model="m")
    await session.append("a text")  # MISTAKE 1: not a message
    await session.append({"role": "user", "content": "x"}, kee="k")  # MISTAKE 2: a wrong name
    await session.apend({"role": "user", "content": "x"})  # MISTAKE 3: a wrong method
    count = len(session.messages())  # MISTAKE 4: not awaited
    latest = await store.latest()
    print(latest.title)  # MISTAKE 5: there may be none
    print((await session.tail(3)).seq)  # MISTAKE 6: a list
    records = [record.seq async for record in session.records(after=1)]
    fork = await session.fork(at=records[0])
    return count + len(await fork.messages(last=3))


def sync(store: SessionStore) -> str:
    with store.create("Chat") as session:
        return session.append({"role": "user", "content": "x"}).id
"""
MISTAKES = [n for n, line in enumerate(PROGRAM.splitlines(), 1) if "MISTAKE" in line]


def errors(output: str) -> list[int]:
    return sorted({int(n) for n in re.findall(r"program\.py:(\d+):.*error", output)})


@pytest.fixture
def program(tmp_path: Path) -> Path:
    path = tmp_path / "program.py"
    path.write_text(PROGRAM)
    return path


def test_mypy_finds_six_of_six_mistakes(program: Path) -> None:
    command = [sys.executable, "-m", "mypy", "--strict", "--follow-imports=silent", str(program)]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert errors(ran.stdout) == MISTAKES, ran.stdout + ran.stderr


@pytest.mark.skipif(find_spec("pyright") is None, reason="pyright is not installed")
def test_pyright_finds_six_of_six_mistakes(program: Path) -> None:
    (program.parent / "pyrightconfig.json").write_text(
        f'{{"extraPaths": ["{(ROOT / "src").as_posix()}"], "typeCheckingMode": "strict",'
        f' "pythonVersion": "3.11"}}'
    )
    command = [sys.executable, "-m", "pyright", "--pythonpath", sys.executable, str(program)]
    ran = subprocess.run(command, cwd=program.parent, capture_output=True, text=True, check=False)
    assert errors(ran.stdout) == MISTAKES, ran.stdout + ran.stderr
