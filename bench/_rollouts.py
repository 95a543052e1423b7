"""Homes of Codex and Grok Build from a seed, for counting: every way in which these agents repeat a
total, with hardly any text.

Knows the shapes of their lines, and neither runlore nor ccusage.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

START = datetime(2026, 10, 20, tzinfo=UTC)
"""After the last change of a price of these models, so that the price of the day is today's."""
CODEX_MODELS = ("gpt-5.2-codex", "gpt-5.4", "gpt-5.5", "gpt-5.4-mini")
GROK_MODELS = ("grok-4.5", "grok-4.1")

Line = dict[str, Any]


def make_codex(home: Path, threads: int, seed: int = 1) -> None:
    """Threads, forks and subagents of them, and copies of some in the archive."""
    maker = _Codex(random.Random(seed))
    for n in range(threads):
        began, name, lines = maker.fork(n) if n % 4 == 3 else maker.thread()
        day = home / ".codex" / "sessions" / f"{began:%Y/%m/%d}"
        file = f"rollout-{began:%Y-%m-%dT%H-%M-%S}-{name}.jsonl"
        _write(day / file, lines)
        if n % 9 == 0:
            _write(home / ".codex" / "archived_sessions" / file, lines)


def make_grok(home: Path, sessions: int, seed: int = 1) -> None:
    """Sessions, and forks that begin with their parent's lines."""
    rng = random.Random(seed)
    lines: list[Line] = []
    for n in range(sessions):
        began = START + timedelta(minutes=37 * n)
        session = _uuid7(began, rng)
        copied = lines[: rng.randint(1, len(lines))] if n % 5 == 4 else []
        lines = [{**line, "params": {**line["params"], "sessionId": session}} for line in copied]
        lines += [
            _turn(session, k, began + timedelta(seconds=40 * k + rng.random()), rng)
            for k in range(rng.randint(1, 8))
        ]
        folder = home / ".grok" / "sessions" / "%2Fwork%2Fshop" / session
        _write(folder / "updates.jsonl", lines)
        (folder / "summary.json").write_text(
            json.dumps(
                {"info": {"id": session, "cwd": "/work/shop"}, "current_model_id": "grok-4.5"}
            )
        )


class _Codex:
    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.clock = START
        self.total = dict.fromkeys(
            (
                "input_tokens",
                "cached_input_tokens",
                "output_tokens",
                "reasoning_output_tokens",
                "total_tokens",
            ),
            0,
        )
        self.last: tuple[str, list[Line], dict[str, int]] = ("", [], self.total)

    def thread(self) -> tuple[datetime, str, list[Line]]:
        began, name = self.begin()
        self.total = dict.fromkeys(self.total, 0)
        lines = [self.row("session_meta", self.about(name)), *self.turns()]
        self.last = name, lines, self.total
        return began, name, lines

    def fork(self, n: int) -> tuple[datetime, str, list[Line]]:
        """Begin with the parent's lines, with new times and written at once; the total
        continues."""
        parent, copied, self.total = self.last
        began, name = self.begin()
        first = self.row(
            "session_meta",
            self.about(name, forked_from_id=parent, **(_SPAWNED if n % 8 == 7 else {})),
        )
        if n % 8 == 7:
            first["payload"]["source"]["subagent"]["thread_spawn"]["parent_thread_id"] = parent
        stamps = (began + timedelta(milliseconds=n * 500 / len(copied)) for n in range(len(copied)))
        again = [{**line, "timestamp": _stamp(at)} for line, at in zip(copied, stamps, strict=True)]
        self.clock = began + timedelta(seconds=self.rng.uniform(20, 60))
        return began, name, [first, *again, *self.turns()]

    def begin(self) -> tuple[datetime, str]:
        self.clock += timedelta(minutes=self.rng.uniform(5, 300))
        return self.clock, _uuid7(self.clock, self.rng)

    def about(self, name: str, **more: Any) -> Line:
        stamp = _stamp(self.clock)
        return {
            "id": name,
            "timestamp": stamp,
            "cwd": "/work/shop",
            "source": "cli",
            "model_provider": "openai",
            **json.loads(json.dumps(more)),
        }

    def turns(self) -> Iterator[Line]:
        for _ in range(self.rng.randint(1, 4)):
            turn, model = _uuid7(self.clock, self.rng), self.rng.choice(CODEX_MODELS)
            yield self.row("event_msg", {"type": "task_started", "turn_id": turn})
            yield self.row("turn_context", {"turn_id": turn, "model": model, "cwd": "/work/shop"})
            yield self.row("response_item", _message("user", "go on"))
            if self.rng.random() < 0.5:  # Every turn begins with the total of the one before.
                yield self.row(
                    "event_msg",
                    {
                        "type": "token_count",
                        "info": None if not any(self.total.values()) else self.info(self.total),
                    },
                )
            for _ in range(self.rng.randint(1, 6)):
                yield from self.request()
            yield self.row("event_msg", {"type": "task_complete", "turn_id": turn})

    def request(self) -> Iterator[Line]:
        """Write one request, whose total is recorded once, or again when the limits are
        refreshed."""
        given = self.rng.choice(
            (self.rng.randint(1_000, 90_000), self.rng.randint(250_000, 400_000))
        )
        out = self.rng.randint(1, 5_000)
        cached, thought = self.rng.randint(0, given), self.rng.randint(0, out)
        last = {"input_tokens": given, "cached_input_tokens": cached, "output_tokens": out}
        last |= {"reasoning_output_tokens": thought, "total_tokens": given + out}
        self.total = {name: self.total[name] + last[name] for name in last}
        yield self.row("response_item", _message("assistant", f"{self.clock.timestamp()}"))
        for _ in range(self.rng.choice((1, 1, 1, 2, 3))):
            yield self.row("event_msg", {"type": "token_count", "info": self.info(last)})

    def info(self, last: dict[str, int]) -> Line:
        return {
            "total_token_usage": self.total,
            "last_token_usage": last,
            "model_context_window": 400_000,
        }

    def row(self, kind: str, payload: Line) -> Line:
        self.clock += timedelta(seconds=self.rng.uniform(0.5, 9))
        return {"timestamp": _stamp(self.clock), "type": kind, "payload": payload}


_SPAWNED: dict[str, Any] = {
    "source": {"subagent": {"thread_spawn": {"parent_thread_id": "", "depth": 1}}}
}


def _message(role: str, text: str) -> Line:
    kind = "input_text" if role == "user" else "output_text"
    return {"type": "message", "role": role, "content": [{"type": kind, "text": text}]}


def _turn(session: str, n: int, at: datetime, rng: random.Random) -> Line:
    models = rng.sample(GROK_MODELS, rng.choice((1, 1, 2)))
    parts = {model: _used(rng) for model in models}
    whole = {name: sum(part[name] for part in parts.values()) for name in parts[models[0]]}
    update = {
        "sessionUpdate": "turn_completed",
        "stop_reason": "end_turn",
        "usage": {**whole, "modelUsage": parts},
    }
    ms = int(at.timestamp() * 1000)
    about = {"eventId": f"{session}-{n}", "agentTimestampMs": ms}
    return {
        "timestamp": ms // 1000,
        "method": "_x.ai/session/update",
        "params": {"sessionId": session, "update": update, "_meta": about},
    }


def _used(rng: random.Random) -> dict[str, int]:
    given, out = rng.randint(1_000, 300_000), rng.randint(1, 4_000)
    used = {
        "inputTokens": given,
        "cachedReadTokens": rng.randint(0, given),
        "outputTokens": out,
        "reasoningTokens": rng.randint(0, out),
    }
    return {**used, "totalTokens": given + out, "costUsdTicks": rng.randint(0, 10**10)}


def _uuid7(at: datetime, rng: random.Random) -> str:
    ms = f"{int(at.timestamp() * 1000):012x}"
    return (
        f"{ms[:8]}-{ms[8:]}-7{rng.randrange(16**3):03x}"
        f"-8{rng.randrange(16**3):03x}-{rng.randrange(16**12):012x}"
    )


def _stamp(at: datetime) -> str:
    return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _write(path: Path, lines: list[Line]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines))
