"""Samples of aider's histories, where they are at hand: a second count, line by line, agrees."""

import os
import random
import re
import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from runlore.adapters import get
from runlore.testing import check_breakage, check_law, check_noise

CORPUS = Path(__file__).parents[3] / "shared/corpus/aider"
ADAPTER = get("aider")

pytestmark = pytest.mark.skipif(not CORPUS.is_dir(), reason="the corpus is not here")


@pytest.fixture(scope="module")
def aged(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy from long ago: the end of a file that is being written may be held back, and a checkout is new."""
    root = tmp_path_factory.mktemp("aged") / "aider"
    shutil.copytree(CORPUS, root, copy_function=shutil.copyfile)
    for path in root.rglob("*"):
        os.utime(path, (1_700_000_000, 1_700_000_000))
    return root


def test_every_file_is_a_history_but_what_was_typed_without_one(aged: Path) -> None:
    read = {source.path for source in ADAPTER.discover(aged)}
    assert {path.name for path in aged.rglob("*") if path.is_file() and str(path) not in read} == {".aider.input.history"}
    assert len(read) == 3


def test_a_second_count_agrees(aged: Path) -> None:
    sessions = 0
    for source in ADAPTER.discover(aged):
        found = ADAPTER.normalize(source, ADAPTER.read(source, None), None)
        text = Path(source.path).read_text()
        starts = re.findall(r"^# aider chat started at (.*)$", text, re.MULTILINE)
        has_more = bool(text.partition("# aider chat started at")[0].strip())
        assert len(found.facts) == len(starts) + has_more
        sessions += len(found.facts)
        ours = Counter(event.native for event in found.events)
        assert ours["start"] == len(starts)
        lines = text.split("\n")
        assert ours["edit"] + ours["applied"] == sum(line.startswith(("> Applied edit", "> Creating empty")) for line in lines)
        assert ours["skipped"] == sum(line.startswith(("> Did not apply", "> Skipping")) for line in lines)
        # A heading within a reply stands directly above its text; a prompt does so only where a session begins.
        headings = [n for n, line in enumerate(lines) if line.startswith("#### ")]
        prompts = [n for n in headings if not lines[n + 1].strip() or any(line.startswith("# aider") for line in lines[max(0, n - 2) : n])]
        assert ours["user"] + ours["command"] == len(prompts)
        said = "\n".join(found.bodies)
        assert all(line.lstrip("#> ").strip() in said or line.startswith("> ") for line in lines)
        assert not found.skips
    assert sessions == 5


def test_the_promises_hold(aged: Path, loops: Callable[[int], int]) -> None:
    check_law(ADAPTER, aged, cuts=loops(20))
    check_breakage(ADAPTER, aged, random.Random(), loops(50))
    check_noise(ADAPTER, aged, random.Random(), loops(50))
