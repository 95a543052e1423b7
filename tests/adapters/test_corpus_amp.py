"""Samples of Amp's threads, where they are at hand: a second count, with plain `json`, agrees."""

import json
import random
from collections.abc import Callable
from pathlib import Path

from runlore.adapters import get
from runlore.testing import check_breakage, check_law, check_noise
from tests.adapters import corpus

CORPUS = corpus.CORPUS / "amp"
ADAPTER = get("amp")

pytestmark = corpus.needs(CORPUS)


def test_every_file_is_a_thread_and_a_second_count_agrees() -> None:
    everything = corpus.read_all(ADAPTER, CORPUS)
    assert corpus.unread(CORPUS, everything) == []
    for source, _, found in everything:
        (facts,) = found.facts.values()
        thread = json.loads(Path(source.path).read_text())
        assert (facts.native_session_id, facts.title) == (thread["id"], thread["title"])
        assert facts.cwd == thread.get("env", {}).get("initial", {}).get("cwd")
        texts = [
            (
                m["role"],
                m["text"] if "text" in m else "".join(block["text"] for block in m["content"]),
            )
            for m in thread["messages"]
        ]
        assert list(zip([event.role for event in found.events], found.bodies, strict=True)) == texts
        sent = [
            m["createdAt"] if "createdAt" in m else m["meta"]["sentAt"] for m in thread["messages"]
        ]
        assert [event.ts and round(event.ts.timestamp() * 1000) for event in found.events] == sent
        used = [m["usage"] for m in thread["messages"] if "usage" in m]
        assert len(found.calls) == len(used)
        assert not found.skips


def test_the_promises_hold(loops: Callable[[int], int]) -> None:
    check_law(ADAPTER, CORPUS, cuts=loops(20))
    check_breakage(ADAPTER, CORPUS, random.Random(), loops(50))
    check_noise(ADAPTER, CORPUS, random.Random(), loops(50))
