"""Samples of aider's histories, where they are at hand: a second count, line by line, agrees."""

import random
import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from runlore.adapters import get
from runlore.testing import check_breakage, check_law, check_noise
from tests.adapters import corpus
from tests.adapters.corpus import Everything

CORPUS = corpus.CORPUS / "aider"
ADAPTER = get("aider")

pytestmark = corpus.needs(CORPUS)


@pytest.fixture(scope="module")
def aged(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return corpus.aged_copy(CORPUS, tmp_path_factory.mktemp("aged") / "aider")


@pytest.fixture(scope="module")
def everything(aged: Path) -> Everything:
    return corpus.read_all(ADAPTER, aged)


def test_every_file_is_a_history_but_what_was_typed_without_one(
    aged: Path, everything: Everything
) -> None:
    assert {path.name for path in corpus.unread(aged, everything)} <= {".aider.input.history"}


def test_a_second_count_agrees(everything: Everything) -> None:
    for source, _, found in everything:
        text = Path(source.path).read_text()
        starts = re.findall(r"^# aider chat started at (.*)$", text, re.MULTILINE)
        has_more = bool(text.partition("# aider chat started at")[0].strip())
        assert len(found.facts) == len(starts) + has_more
        ours = Counter(event.native for event in found.events)
        assert ours["start"] == len(starts)
        lines = text.split("\n")
        assert ours["edit"] + ours["applied"] == sum(
            line.startswith(("> Applied edit", "> Creating empty")) for line in lines
        )
        assert ours["skipped"] == sum(
            line.startswith(("> Did not apply", "> Skipping")) for line in lines
        )
        # A heading within a reply stands directly above its text; a prompt does so only where a
        # session begins.
        headings = [n for n, line in enumerate(lines) if line.startswith("#### ")]
        prompts = [
            n
            for n in headings
            if not lines[n + 1].strip()
            or any(line.startswith("# aider") for line in lines[max(0, n - 2) : n])
        ]
        assert ours["user"] + ours["command"] == len(prompts)
        said = "\n".join(found.bodies)
        assert all(line.lstrip("#> ").strip() in said or line.startswith("> ") for line in lines)
        assert not found.skips


def test_the_promises_hold(aged: Path, loops: Callable[[int], int]) -> None:
    check_law(ADAPTER, aged, cuts=loops(20))
    check_breakage(ADAPTER, aged, random.Random(), loops(50))
    check_noise(ADAPTER, aged, random.Random(), loops(50))
