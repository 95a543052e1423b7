"""Random families of Claude Code transcripts that begin with the same records.

A family grows as people work: someone goes on with a session, forks it, or resumes it in a new
file. All three kinds of forks are in it: those that the agent declares, those that it does not, and
continuations.
"""

from __future__ import annotations

import json
import random
import uuid
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

Transcripts = dict[str, bytes]
"""By the id of the session."""

BEGIN = datetime(2026, 3, 2, 9, tzinfo=UTC)
KINDS = ("silent", "declared", "continuation")


class Family:
    """A family that grows, one step at a time, to a number of sessions. `turns` counts what people
    asked."""

    def __init__(self, seed: int, size: int | None = None) -> None:
        self.rng = random.Random(seed)
        self.entrypoint = self.rng.choice(["cli", "claude-desktop"])
        self.records: dict[str, list[dict[str, Any]]] = {}
        self.turns = 0
        self.hours = 0
        self.ask(self.new_session())
        size = size or self.rng.randint(3, 6)
        while len(self.records) < size:
            self.step()

    def transcripts(self) -> Transcripts:
        return {
            session: b"".join(json.dumps(record).encode() + b"\n" for record in records)
            for session, records in self.records.items()
        }

    def step(self) -> None:
        """Let someone work in a session, or in a new one that comes from it."""
        rng = self.rng
        session = rng.choice(list(self.records))
        self.hours += 1
        if rng.random() < 0.3:
            self.ask(session)
            return
        session = self.fork(session, rng.choice(KINDS))
        if rng.random() < 0.8:
            self.ask(session)

    def new_session(self) -> str:
        session = self.new_uuid()
        self.records[session] = []
        if self.rng.random() < 0.3:  # No fork copies such a record.
            mode = {"type": "mode", "mode": "normal", "sessionId": session}
            self.records[session].append(mode | {"timestamp": self.time()})
        return session

    def ask(self, session: str) -> None:
        """Add a prompt and its answer to a session."""
        number, self.turns = self.turns, self.turns + 1
        usage = {"input_tokens": 4, "output_tokens": 1 << number}
        answer: dict[str, Any] = {"id": f"msg_{number}", "role": "assistant", "usage": usage}
        answer |= {"model": "claude-opus-4-6", "content": [{"type": "text", "text": "done"}]}
        prompt = {"role": "user", "content": f"please do number {number}"}
        for kind, message in ("user", prompt), ("assistant", answer):
            told = [record["uuid"] for record in self.records[session] if "uuid" in record]
            self.records[session].append(
                {"type": kind, "uuid": self.new_uuid(), "message": message, "sessionId": session}
                | {"parentUuid": told[-1] if told else None, "entrypoint": self.entrypoint}
                | {"timestamp": self.time(kind == "assistant"), "cwd": "/home/dev/shop"}
            )

    def fork(self, session: str, kind: str) -> str:
        """Begin a session with the records of another one, or with the first of them."""
        records = [record for record in self.records[session] if "uuid" in record]
        if len(records) > 2 and self.rng.random() < 0.3:
            records = records[: self.rng.randrange(2, len(records), 2)]
        fork = self.new_session()
        self.records[fork] += getattr(self, f"copy_{kind}")(records, session, fork)
        return fork

    def copy_continuation(
        self, records: list[dict[str, Any]], session: str, fork: str
    ) -> list[dict[str, Any]]:
        return records

    def copy_silent(
        self, records: list[dict[str, Any]], session: str, fork: str
    ) -> list[dict[str, Any]]:
        is_bare = self.rng.random() < 0.5
        copies = records if self.entrypoint == "cli" else self.renamed(records)
        return [
            {
                name: value
                for name, value in {**copy, "sessionId": fork}.items()
                if not is_bare or name != "forkedFrom"
            }
            for copy in copies
        ]

    def copy_declared(
        self, records: list[dict[str, Any]], session: str, fork: str
    ) -> list[dict[str, Any]]:
        return [
            {**copy, "sessionId": fork}
            | {"forkedFrom": {"sessionId": session, "messageUuid": record["uuid"]}}
            for record, copy in zip(records, self.renamed(records), strict=True)
        ]

    def renamed(self, records: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
        """The records under other ids."""
        names = {record["uuid"]: self.new_uuid() for record in records}
        for record in records:
            parent = names.get(record["parentUuid"])
            yield {**record, "uuid": names[record["uuid"]], "parentUuid": parent}

    def new_uuid(self) -> str:
        return str(uuid.UUID(int=self.rng.getrandbits(128), version=4))

    def time(self, seconds: int = 0) -> str:
        return f"{BEGIN + timedelta(hours=self.hours, seconds=seconds):%Y-%m-%dT%H:%M:%S}.000Z"
