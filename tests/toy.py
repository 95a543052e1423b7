"""A made-up agent with the simplest format that can say everything a store must keep. No test of
ours needs a real one.

A line is an event, {"s": session, "id": native id, "up": parent, "kind", "text", "of": original,
"tokens", "call", "tool", "files", "error"}, or, with "alias", a record in the chain that gives no
event, or, with "title", a title. A file `s~1.jsonl` tells the session `s`, worse than `s.jsonl`
does.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest

from runlore import adapters
from runlore.adapters import Facts, Normalized, Record, Skip, Source
from runlore.adapters.shared.jsonl import JsonlAdapter
from runlore.model import SessionEvent, Usage, make_uid

START = datetime(2026, 1, 1, tzinfo=UTC)


class Carry(msgspec.Struct):
    seqs: dict[str, int] = {}
    record: int = 0


class Toy(JsonlAdapter):
    name = "toy"
    label = "Toy"
    version = 1
    roots = ("~/.toy",)
    shout = False  # A newer version of the adapter, in tests: the same records, other events.
    twice = False

    def normalize(
        self, source: Source, records: Iterable[Record], carry: bytes | None
    ) -> Normalized:
        state = msgspec.msgpack.decode(carry, type=Carry) if carry else Carry()
        found = Normalized()
        titles: dict[str, str] = {}
        for record in records:
            self._line(record, state, found, source, titles)
            state.record += 1
        undated = {event.session_uid for event in found.events if event.ts is None}
        for name in state.seqs:
            title, is_undated = titles.get(name), make_uid(self.name, name) in undated
            found.facts[make_uid(self.name, name)] = Facts(
                native_session_id=name, title=title, title_rank=3 if title else 0,
                cwd=f"/work/{name}", git_branch="main",
                rank=spare_of(source),
                written_at=datetime.fromtimestamp(source.mtime_ns // 1e9, UTC) if is_undated
                else None,
            )  # fmt: skip
        found.carry = msgspec.msgpack.encode(state)
        return found

    def _line(
        self,
        record: Record,
        state: Carry,
        found: Normalized,
        source: Source,
        titles: dict[str, str],
    ) -> None:
        try:
            line: dict[str, Any] = json.loads(record.data)
        except ValueError:
            found.skips.append(Skip(record.offset, "not JSON"))
            return
        name = line.get("s", Path(source.path).stem.partition("~")[0])
        state.seqs.setdefault(name, 0)
        if "title" in line:
            titles[name] = line["title"]
            found.merged["title"] = found.merged.get("title", 0) + 1
        elif line.get("alias"):
            found.aliases[line["id"]] = line.get("up")
            found.merged["alias"] = found.merged.get("alias", 0) + 1
        else:
            for copy in range(2 if self.twice else 1):
                self._event(line, name, copy, state, found)

    def _event(
        self, line: dict[str, Any], name: str, copy: int, state: Carry, found: Normalized
    ) -> None:
        seq = state.seqs[name]
        state.seqs[name] += 1
        text = line.get("text", "")
        native = line.get("id")
        tokens, at = line.get("tokens", 0), line.get("at", state.record)
        found.events.append(
            SessionEvent(
                session_uid=make_uid(self.name, name),
                seq=seq,
                ts=None if at is None else START + timedelta(seconds=at),
                kind=line.get("kind", "user_msg"),
                role="user",
                summary=text[:40],
                native_id=f"{native}#{copy}" if copy else native,
                call_id=line.get("call"),
                tool=line.get("tool"),
                files=tuple(line.get("files", ())),
                is_error=line.get("error", False),
                tokens=tokens,
                usage=Usage(output_tokens=tokens) if tokens else None,
                record=state.record,
            )
        )
        found.bodies.append(text.upper() if self.shout else text)
        found.parents.append(f"{line['id']}" if copy else line.get("up"))
        found.originals.append(line.get("of"))


def spare_of(source: Source) -> int:
    return int(Path(source.path).stem.partition("~")[2] or 0)


def line(**fields: Any) -> bytes:
    return json.dumps(fields).encode() + b"\n"


@pytest.fixture
def toy(monkeypatch: pytest.MonkeyPatch) -> Toy:
    """The adapter, installed as the only one."""
    made = Toy()
    monkeypatch.setattr(adapters, "names", lambda: ("toy",))
    monkeypatch.setattr(adapters, "get", lambda name: {"toy": made}[name])
    return made
