"""Every known way to miscount tokens and money, as a small home directory of the agent. Codes such
as C01 or X23 name the probe.

Each trap is also put to the laws of the ledger: whatever the order in which files arrive, whether
they are deleted later, and from how many copies of the home they are read, the rows are the same.
"""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import apsw
import msgspec
import pytest

from runlore import config as config_module
from runlore.live import SessionStore
from runlore.model import USD, Call
from runlore.store import LedgerCall, Store, open_store
from runlore.sync import pipeline

Lines = Sequence[dict[str, Any] | bytes]
Files = dict[str, Lines]


class Trap(msgspec.Struct, frozen=True, kw_only=True):
    """What an agent left on disk, and what it took: input, output, cache read, cache write for 5
    minutes and for an hour."""

    agent: str = "claude"
    files: Files
    tokens: tuple[int, int, int, int, int]
    calls: int = 1
    usd: float | None = None
    has: Callable[[list[Call]], bool] = lambda calls: True


# ── Claude Code ───────────────────────────────────────────────────────────────────────────────────

DAY = datetime(2026, 6, 1, 12, tzinfo=UTC)
OPUS, SONNET, HAIKU = "claude-opus-4-6", "claude-sonnet-4-5-20250929", "claude-haiku-4-5-20251001"
ONE, TWO = "11111111-0000-4000-8000-000000000001", "22222222-0000-4000-8000-000000000002"


def stamp(at: float) -> str:
    return (DAY + timedelta(seconds=at)).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def usage(
    given: int = 10, said: int = 5, read: int = 0, write: int = 0, **more: Any
) -> dict[str, Any]:
    counts = {
        "input_tokens": given,
        "output_tokens": said,
        "cache_read_input_tokens": read,
        "cache_creation_input_tokens": write,
    }
    return {**counts, **more}


def reply(
    n: int = 0,
    name: str | None = "msg_1",
    request: str | None = "req_1",
    model: str = OPUS,
    session: str = ONE,
    **more: Any,
) -> dict[str, Any]:
    """A line of the model's; `used` is its usage."""
    used = more.pop("used", usage())
    message: dict[str, Any] = {
        "model": model,
        "role": "assistant",
        "content": [{"type": "text", "text": f"part {n}"}],
        "usage": used,
    }
    if name is not None:
        message["id"] = name
    line: dict[str, Any] = {
        "type": "assistant",
        "uuid": f"{n:08}-0000-4000-8000-00000000000a",
        "sessionId": session,
        "version": "2.1.100",
    }
    line |= {"timestamp": stamp(n), "cwd": "/work/shop", "message": message, **more}
    return line if request is None else {**line, "requestId": request}


def mirror(inner: dict[str, Any], agent: str = "abc") -> dict[str, Any]:
    data = {"type": "agent_progress", "agentId": agent, "message": inner}
    about = {
        "sessionId": ONE,
        "version": "2.1.100",
        "timestamp": inner["timestamp"],
        "uuid": "f" + inner["uuid"][1:],
    }
    return {"type": "progress", "data": data, **about}


def pretty(line: dict[str, Any]) -> bytes:
    return json.dumps(line).encode()


MAIN, OTHER = f"-work-shop/{ONE}.jsonl", f"-work-bar/{TWO}.jsonl"
AGENT = f"-work-shop/{ONE}/subagents/agent-abc.jsonl"
STREAM = [1, 1, 159]


def streamed(outs: list[int]) -> Lines:
    return [reply(n, used=usage(20, out)) for n, out in enumerate(outs)]


PARTS = {"ephemeral_5m_input_tokens": 0, "ephemeral_1h_input_tokens": 0}
FABLE = "claude-fable-5"
ADVICE = {"type": "advisor_message", "model": FABLE, **usage(1000, 100)}
REFUSED = {"type": "message", "model": FABLE, **usage(2000, 8, 300)}


def served(said: int = 50) -> dict[str, Any]:
    return {"type": "fallback_message", "model": OPUS, **usage(2000, said)}


def is_refused_by_fable(calls: list[Call]) -> bool:
    return {call.model: call.output_tokens for call in calls} == {OPUS: 50, FABLE: 8}


CLAUDE = {
    "C01 streaming copies": Trap(files={MAIN: streamed(STREAM)}, tokens=(20, 159, 0, 0, 0),
    usd=0.004075),
    "C02 in another order": Trap(files={MAIN: streamed([159, 1, 1])}, tokens=(20, 159, 0, 0, 0)),
    "C03 one message, two requests": Trap(files={MAIN: [reply(0), reply(1, request="req_2")]},
    tokens=(10, 5, 0, 0, 0)),
    "C04 no request id (gateways have none)": Trap(
        files={MAIN: [reply(n, request=None, model="deepseek-chat", used=usage(100, n)) for n in (1,
        2, 3)]}, tokens=(100, 3, 0, 0, 0)
    ),
    "C05 no message id": Trap(
        files={MAIN: [reply(0, name=None), reply(0, name=None), reply(1, name=None)],
        OTHER: [reply(7, session=TWO)]},
        tokens=(30, 15, 0, 0, 0),
        calls=3,
    ),
    "C06 a side question replays the message": Trap(
        files={MAIN: [reply(0, used=usage(10, 50)),
        reply(1, isSidechain=True, request="req_2", used=usage(10, 70))]},
        tokens=(10, 70, 0, 0, 0),
        has=lambda calls: not calls[0].is_sidechain,
    ),
    "the main line has a placeholder, the side chain the final figure": Trap(
        files={MAIN: [reply(0, used=usage(10, 37))],
        AGENT: [reply(1, isSidechain=True, agentId="abc", used=usage(10, 2872))]},
        tokens=(10, 2872, 0, 0, 0),
        has=lambda calls: calls[0].session_uid == f"claude:{ONE}" and not calls[0].is_sidechain,
    ),
    "C32 main chain after the replay": Trap(
        files={MAIN: [reply(1, isSidechain=True, request="req_2", used=usage(10, 70)),
        reply(2, used=usage(10, 50))]},
        tokens=(10, 70, 0, 0, 0),
        has=lambda calls: not calls[0].is_sidechain,
    ),
    "C09 one hour of cache costs twice the input": Trap(
        files={MAIN: [reply(used=usage(0, 0, 0, 1_000_000,
        cache_creation={**PARTS, "ephemeral_1h_input_tokens": 1_000_000}))]},
        tokens=(0, 0, 0, 0, 1_000_000),
        usd=10,
    ),
    "C10 parts of 0 beside a real sum": Trap(
        files={MAIN: [reply(used=usage(0, 1, 0, 1000, cache_creation=PARTS))]},
        tokens=(0, 1, 0, 1000, 0)
    ),
    "C11 a long prompt is dear as a whole": Trap(
        files={MAIN: [reply(model=SONNET, used=usage(1000, 1000, 250_000))]},
        tokens=(1000, 1000, 250_000, 0, 0), usd=0.1785
    ),
    "C12 a prompt of just the limit is not": Trap(
        files={MAIN: [reply(model=SONNET, used=usage(0, 0, 200_000))]},
        tokens=(0, 0, 200_000, 0, 0), usd=0.06
    ),
    "C13 a null deep in the line": Trap(
        files={MAIN: [reply(toolUseResult={"id": None, "cwd": None}, requestId=None,
        request=None)]}, tokens=(10, 5, 0, 0, 0)
    ),
    "C31 an agent's call with model null": Trap(
        files={MAIN: [{**reply(), "message": {**reply()["message"], "content": [
            {"type": "tool_use", "id": "t1", "name": "Agent",
            "input": {"prompt": "look", "model": None}}
        ]}}]},
        tokens=(10, 5, 0, 0, 0),
    ),
    "C36 cwd and counts that are null": Trap(
        files={MAIN: [reply(cwd=None, used={**usage(), "cache_read_input_tokens": None,
        "speed": None})]}, tokens=(10, 5, 0, 0, 0)
    ),
    "C16 what the program says itself": Trap(
        files={MAIN: [reply(model="<synthetic>", used=usage(10, 5))]}, tokens=(10, 5, 0, 0, 0),
        usd=0
    ),
    "an unknown model": Trap(files={MAIN: [reply(model="zz-unheard-of")]}, tokens=(10, 5, 0, 0, 0),
    usd=0),
    "C18 a resumed session begins with a copy": Trap(
        files={MAIN: [reply(0)], OTHER: [reply(0), reply(9, name="msg_2", session=TWO)]},
        tokens=(20, 10, 0, 0, 0), calls=2
    ),
    "C35 a fork in another project": Trap(
        files={
            MAIN: [reply(0), reply(1, used=usage(10, 90))],
            OTHER: [reply(0, session=TWO,
            forkedFrom={"sessionId": ONE, "messageUuid": reply(0)["uuid"]})],
        },
        tokens=(10, 90, 0, 0, 0),
    ),
    "C19 JSON with spaces": Trap(files={MAIN: [pretty(reply())]}, tokens=(10, 5, 0, 0, 0)),
    "C20 a version that is none": Trap(files={MAIN: [reply(version="dev")]},
    tokens=(10, 5, 0, 0, 0)),
    "a time in microseconds, and none": Trap(
        files={MAIN: [reply(timestamp="2026-06-01T12:00:00.123456Z"),
        reply(1, name="msg_2", timestamp="soon")]},
        tokens=(20, 10, 0, 0, 0),
        calls=2,
    ),
    "C21 web search": Trap(
        files={MAIN: [reply(used=usage(0, 0, 1, server_tool_use={"web_search_requests": 3}))]},
        tokens=(0, 0, 1, 0, 0),
        usd=0.0300005,
    ),
    "C25 inference in the US": Trap(
        files={MAIN: [reply(used=usage(1000, 0, inference_geo="us"))]}, tokens=(1000, 0, 0, 0, 0),
        usd=0.0055
    ),
    "fast mode": Trap(files={MAIN: [reply(used=usage(1000, 0, speed="fast"))]},
    tokens=(1000, 0, 0, 0, 0), usd=0.03),
    "a batch": Trap(
        files={MAIN: [reply(used=usage(service_tier="batch"))]}, tokens=(10, 5, 0, 0, 0),
        has=lambda calls: calls[0].tier == "batch"
    ),
    "C27 a subagent that is only mirrored": Trap(
        files={MAIN: [mirror(reply(n, model=HAIKU, used=usage(20, out))) for n,
        out in enumerate(STREAM)]},
        tokens=(20, 159, 0, 0, 0),
        has=lambda calls: calls[0].session_uid == f"claude:{ONE}/agent-abc",
    ),
    "C27 and one that has a file as well": Trap(
        files={
            MAIN: [mirror(reply(0, used=usage(20, 1)))],
            AGENT: [reply(n, isSidechain=True, agentId="abc", used=usage(20, out)) for n,
            out in enumerate(STREAM)],
        },
        tokens=(20, 159, 0, 0, 0),
    ),
    "subagents count": Trap(
        files={MAIN: [reply(0)], AGENT: [reply(1, name="msg_2", isSidechain=True, agentId="abc",
        model=HAIKU)]},
        tokens=(20, 10, 0, 0, 0),
        calls=2,
    ),
    "C28 an adviser is a call of its own": Trap(
        files={MAIN: [reply(used=usage(10, 5,
        iterations=[{"type": "message", **usage()}, ADVICE]))]},
        tokens=(1010, 105, 0, 0, 0),
        calls=2,
        usd=0.000175 + 0.015,
        has=lambda calls: {call.model for call in calls} == {OPUS, "claude-fable-5"},
    ),
    "a model refused, and another one answered": Trap(
        files={MAIN: [reply(used=usage(2000, 50, iterations=[REFUSED, served()]))]},
        tokens=(4000, 58, 300, 0, 0),
        calls=2,
        usd=(2000 * 5 + 50 * 25 + 2000 * 10 + 8 * 50 + 300 * 1) / 1e6,
        has=is_refused_by_fable,
    ),
    "the same while it streams, with the list on the last line only": Trap(
        files={MAIN: [reply(0, used=usage(2000, 1)), reply(1, used=usage(2000, 50)),
        reply(2, used=usage(2000, 50, iterations=[REFUSED, served()]))]},
        tokens=(4000, 58, 300, 0, 0),
        calls=2,
        has=is_refused_by_fable,
    ),
    "the same, with a list that grows": Trap(
        files={MAIN: [reply(0, used=usage(2000, 1, iterations=[REFUSED, served(1)])),
        reply(1, used=usage(2000, 50, iterations=[REFUSED, served()]))]},
        tokens=(4000, 58, 300, 0, 0),
        calls=2,
        has=is_refused_by_fable,
    ),
    "a refusal that nobody answered": Trap(
        files={MAIN: [reply(model=FABLE, used=usage(0, 0, iterations=[REFUSED]))]},
        tokens=(2000, 8, 300, 0, 0),
        has=lambda calls: calls[0].model == FABLE,
    ),
    "a refusal under a line of the program's": Trap(
        files={MAIN: [reply(model="<synthetic>", used=usage(0, 0, iterations=[REFUSED]))]},
        tokens=(2000, 8, 300, 0, 0),
        has=lambda calls: calls[0].model == FABLE,
    ),
    "a compaction on the server": Trap(
        files={MAIN: [reply(used=usage(23, 10, iterations=[
            {"type": "compaction", **usage(1800, 35)}, {"type": "message", **usage(23, 10)}
        ]))]},
        tokens=(1823, 45, 0, 0, 0),
        calls=2,
        has=lambda calls: {call.model for call in calls} == {OPUS},
    ),
    "attempts that are in the figures of the message": Trap(
        files={MAIN: [reply(used=usage(30, 7, iterations=[
            {"type": "message", **usage(10, 5)}, {"type": "message", **usage(20, 2)}
        ]))]},
        tokens=(30, 7, 0, 0, 0),
    ),
    "C30 the sum that a tool's result has": Trap(
        files={MAIN: [reply(), {**reply(1), "type": "user", "toolUseResult": {"usage": usage(900,
        900)}, "message": {
            "role": "user", "content": [{"type": "tool_result", "tool_use_id": "t1",
            "content": "done"}]
        }}]},
        tokens=(10, 5, 0, 0, 0),
    ),
    "a rewound branch was paid for": Trap(
        files={MAIN: [reply(0, parentUuid="p"), reply(1, name="msg_2", parentUuid="p")]},
        tokens=(20, 10, 0, 0, 0), calls=2
    ),
}  # fmt: skip

# ── Codex ─────────────────────────────────────────────────────────────────────────────────────────

PARENT, CHILD = "019e0000-0000-7000-8000-00000000000a", "019e0001-0000-7000-8000-00000000000b"
OLD_PARENT, OLD_CHILD = (
    "aaaaaaaa-0000-4000-8000-000000000001",
    "bbbbbbbb-0000-4000-8000-000000000002",
)
CODEX = "gpt-5.2-codex"


def row(type: str, payload: dict[str, Any], at: float) -> dict[str, Any]:
    return {"timestamp": stamp(at), "type": type, "payload": payload}


def meta(thread: str, at: float = 0, **more: Any) -> dict[str, Any]:
    return row(
        "session_meta",
        {"id": thread, "timestamp": stamp(at), "cwd": "/w", "model_provider": "openai", **more},
        at,
    )


def context(model: str = CODEX, at: float = 0, **more: Any) -> dict[str, Any]:
    return row("turn_context", {"model": model, "cwd": "/w", **more}, at)


def said(text: str, at: float, role: str = "assistant") -> dict[str, Any]:
    kind = "output_text" if role == "assistant" else "input_text"
    return row(
        "response_item",
        {"type": "message", "role": role, "content": [{"type": kind, "text": text}]},
        at,
    )


def counts(
    given: int, read: int = 0, out: int = 0, thought: int = 0, **more: int
) -> dict[str, int]:
    known = {
        "input_tokens": given,
        "cached_input_tokens": read,
        "output_tokens": out,
        "reasoning_output_tokens": thought,
    }
    return {**known, "total_tokens": given + out, **more}


def total(whole: Any, last: Any, at: float) -> dict[str, Any]:
    """Running total and last request; a number is that many tokens of input."""
    info = {"total_token_usage": counts(whole) if isinstance(whole, int) else whole}
    if last is not None:
        info["last_token_usage"] = counts(last) if isinstance(last, int) else last
    return row("event_msg", {"type": "token_count", "info": info}, at)


def rollout(thread: str, folder: str = "sessions/2026/06/01") -> str:
    return f"{folder}/rollout-2026-06-01T12-00-00-{thread}.jsonl"


def thread(*rows: dict[str, Any], name: str = OLD_PARENT) -> Files:
    return {rollout(name): [meta(name), context(), said("hello", 0.1), *rows]}


def codex(files: Files, tokens: int, calls: int, **more: Any) -> Trap:
    return Trap(agent="codex", files=files, tokens=(tokens, 0, 0, 0, 0), calls=calls, **more)


HISTORY = [
    said("do it", 1, "user"),
    said("done", 9),
    total(1000, 1000, 10),
    said("more", 20, "user"),
    said("did", 29),
    total(3000, 2000, 30),
]
"""What a parent has: two requests."""
OWN = [said("and this", 130, "user"), said("there", 139), total(4700, 1700, 140)]
"""What a fork has of its own, one request; its total goes on from the parent's."""


def fork(copied: Lines, own: Lines = OWN, **about: Any) -> Files:
    first = meta(OLD_CHILD, 100, **(about or {"forked_from_id": OLD_PARENT}))
    return {rollout(OLD_CHILD): [first, context(at=100), *copied, *own]}


def written(first: float, step: float) -> Lines:
    """The history as a fork copies it, with times of its own."""
    return [
        {**line, "timestamp": stamp(first + n * step)}
        for n, line in enumerate(HISTORY)
        if isinstance(line, dict)
    ]


SPAWN: dict[str, Any] = {
    "source": {"subagent": {"thread_spawn": {"parent_thread_id": OLD_PARENT, "depth": 1}}}
}
BEFORE, AFTER = "019e0000-1000-7000-8000-000000000001", "019e0001-1000-7000-8000-000000000002"


def turns(name: str, *rows: dict[str, Any] | bytes, at: float) -> Lines:
    return [
        row("event_msg", {"type": "task_started", "turn_id": name}, at),
        context(at=at, turn_id=name),
        *rows,
    ]


NEW_PARENT: Files = {rollout(PARENT): [meta(PARENT), *turns(BEFORE, *HISTORY, at=0.5)]}
NEW_FORK: Files = {
    rollout(CHILD): [
        meta(CHILD, 100, forked_from_id=PARENT), meta(PARENT, 100),
        *turns(BEFORE, *written(101, 7), at=100.5), *turns(AFTER, *OWN, at=129)
    ]
}  # fmt: skip
PARENTS = thread(*HISTORY)
LIVE, PUT_AWAY = (
    thread(*HISTORY),
    {rollout(OLD_PARENT, "archived_sessions"): thread(*HISTORY)[rollout(OLD_PARENT)]},
)


def priced(model: str, given: int, usd: float, tier: str | None = None, read: int = 0) -> Trap:
    settings = row(
        "event_msg",
        {
            "type": "thread_settings_applied",
            "thread_settings": {"model": model, "service_tier": tier},
        },
        0.2,
    )
    rows = [
        meta(OLD_PARENT),
        context(model),
        settings,
        said("hi", 0.5),
        total(counts(given, read, 1000), counts(given, read, 1000), 1),
    ]
    return Trap(
        agent="codex",
        files={rollout(OLD_PARENT): rows},
        tokens=(given - read, 1000, read, 0, 0),
        usd=usd,
    )


THOUGHT = counts(1000, 600, 90, 80, cache_write_input_tokens=100)

CODEX_TRAPS = {
    "X02 a total told again": codex(thread(total(1000, 1000, 1), total(1000, 1000, 2)), 1000, 1),
    "X20 whatever the last request says": codex(thread(total(1000, 1000, 1), total(1000, 500, 2)),
    1000, 1),
    "X26 an old total told again": codex(thread(total(1000, 1000, 1), total(2500, 1500, 2),
    total(1000, 1000, 3)), 2500, 2),
    "no info": codex(thread(total(1000, 1000, 1),
    row("event_msg", {"type": "token_count", "info": None}, 2)), 1000, 1),
    "X06 a missed event": codex(thread(total(1000, 1000, 1), total(9000, 1500, 2)), 2500, 2),
    "X07 a total that begins anew": codex(thread(total(5000, 5000, 1), total(1200, 1200, 2)), 6200,
    2),
    "totals without the last request": codex(thread(total(1000, None, 1), total(1700, None, 2),
    total(1700, None, 3)), 1700, 2),
    "reasoning is a part of output": Trap(
        agent="codex", files=thread(total(THOUGHT, THOUGHT, 1)), tokens=(300, 90, 600, 100, 0),
        has=lambda calls: calls[0].reasoning_tokens == 80,
        usd=(300 * 1.75 + 600 * 0.175 + 100 * 1.75 * 1.25 + 90 * 14) / 1e6,
    ),
    "more cached than given": Trap(
        agent="codex", files=thread(total(counts(100, 900, 5), counts(100, 900, 5), 1)),
        tokens=(0, 5, 100, 0, 0)
    ),
    "X08 a fork with the parent's times": codex({**PARENTS, **fork(HISTORY)}, 4700, 3),
    "X09 a fork written within a second": codex({**PARENTS, **fork(written(100.1, 0.05))}, 4700, 3),
    "X10 a fork written over seconds": codex({**PARENTS, **fork(written(101, 1.5))}, 4700, 3),
    "X11 a subagent with the parent's history": codex(
        {**PARENTS, **fork(written(100.1, 0.05), **SPAWN, forked_from_id=OLD_PARENT)}, 4700, 3
    ),
    "X21 a fork without its parent": codex(fork(written(100.1, 0.05)), 1700, 1),
    "X23 the same, written over seconds": codex(fork(written(101, 1.5)), 1700, 1),
    "X23 with turns that say when they were": codex(NEW_FORK, 1700, 1),
    "a fork and its parent, with such turns": codex({**NEW_PARENT, **NEW_FORK}, 4700, 3),
    "X25 a fork that tells the parent's last total": codex({**PARENTS,
    **fork([total(3000, 2000, 103)])}, 4700, 3),
    "a subagent that tells totals before it speaks": codex(
        {**PARENTS, **fork([total(1000, 1000, 101), total(3000, 2000, 102)], **SPAWN)}, 4700, 3
    ),
    "a subagent with a total of its own": codex(
        {**PARENTS, **fork([], [said("mine", 101), total(700, 700, 102)], **SPAWN)}, 3700, 3,
        has=lambda calls: sum(call.is_sidechain for call in calls) == 1,
    ),
    "X15 an archived copy": codex({**LIVE, **PUT_AWAY}, 3000, 2),
    "a session that is only archived": codex(PUT_AWAY, 3000, 2),
    "X17 two sessions in the same millisecond": codex(
        {**thread(total(1200, 1200, 1)), **thread(total(1200, 1200, 1), name=OLD_CHILD)}, 2400, 2
    ),
    "X28 a run without a screen": Trap(
        agent="codex", tokens=(1000, 50, 200, 0, 0), has=lambda calls: calls[0].is_sum,
        files={"sessions/run.jsonl": [
            {"type": "thread.started", "thread_id": OLD_PARENT},
            {"type": "turn.completed", "usage": counts(1200, 200, 50)}
        ]},
    ),
    "X13 above 272k, all of it": priced("gpt-5.5", 300_000, (300_000 * 10 + 1000 * 45) / 1e6),
    "X31 cached tokens belong to the prompt": priced("gpt-5.4", 300_000,
    (1000 * 5 + 299_000 * 0.5 + 1000 * 22.5) / 1e6, read=299_000),
    "X32 not above 272k": priced("gpt-5.5", 272_000, (272_000 * 5 + 1000 * 30) / 1e6),
    "X30 a tier that the settings name": priced("gpt-5.5", 1000, (1000 * 12.5 + 1000 * 75) / 1e6,
    tier="priority"),
    "X30 the program calls it fast": priced("gpt-5.5", 1000, (1000 * 12.5 + 1000 * 75) / 1e6,
    tier="fast"),
    "a model that is not named": codex(
        {rollout(OLD_PARENT): [meta(OLD_PARENT), said("hi", 0.5), total(10, 10, 1)]}, 10, 1,
        has=lambda calls: calls[0].model is None, usd=0
    ),
}  # fmt: skip

# ── Grok Build ────────────────────────────────────────────────────────────────────────────────────

GROK, GROK_FORK = "019fb000-0000-7000-8000-000000000001", "019fb000-0000-7000-8000-000000000002"


def spent(given: int, read: int, out: int, ticks: int | None = None, **more: Any) -> dict[str, Any]:
    known = {
        "inputTokens": given,
        "cachedReadTokens": read,
        "outputTokens": out,
        "reasoningTokens": 1,
        "totalTokens": given + out,
    }
    return {**known, **({} if ticks is None else {"costUsdTicks": ticks}), **more}


def turn(n: int, used: dict[str, Any], session: str = GROK) -> dict[str, Any]:
    update = {"sessionUpdate": "turn_completed", "stop_reason": "end_turn", "usage": used}
    about = {"eventId": f"{GROK}-{n}", "agentTimestampMs": int(DAY.timestamp() * 1000) + n}
    return {
        "timestamp": 1,
        "method": "_x.ai/session/update",
        "params": {"sessionId": session, "update": update, "_meta": about},
    }


def grok(session: str = GROK) -> str:
    return f"%2Fw/{session}/updates.jsonl"


USED = spent(1000, 300, 100, 123_000_000)
BY_MODEL = {"grok-4.5": spent(900, 300, 80, 100_000_000), "grok-4.1": spent(100, 0, 20, 23_000_000)}

GROK_TRAPS = {
    "G01 what was invoiced": Trap(
        agent="grok", files={grok(): [turn(1, {**USED, "modelUsage": {"grok-4.5": USED}})]},
        tokens=(700, 100, 300, 0, 0), usd=0.0123,
        has=lambda calls: calls[0].is_sum and calls[0].model == "grok-4.5",
    ),
    "G02 nothing was invoiced": Trap(
        agent="grok", files={grok(): [turn(1, spent(1000, 300, 100,
        modelUsage={"grok-4.5": spent(1000, 300, 100)}))]},
        tokens=(700, 100, 300, 0, 0), usd=(700 * 2 + 300 * 0.3 + 100 * 6) / 1e6,
    ),
    "G03 an event told twice": Trap(agent="grok", files={grok(): [turn(1, USED), turn(1, USED)]},
    tokens=(700, 100, 300, 0, 0)),
    "G04 a fork copies its parent's lines": Trap(
        agent="grok", files={grok(): [turn(1, USED)], grok(GROK_FORK): [turn(1, USED, GROK_FORK),
        turn(2, USED, GROK_FORK)]},
        tokens=(1400, 200, 600, 0, 0), calls=2, usd=0.0246,
    ),
    "G05 a turn of two models": Trap(
        agent="grok", files={grok(): [turn(1, {**USED, "modelUsage": BY_MODEL})]},
        tokens=(700, 100, 300, 0, 0), calls=2, usd=0.0123
    ),
    "G06 a turn that cost nothing": Trap(
        agent="grok", files={grok(): [turn(1, spent(1000, 300, 100, 0))]},
        tokens=(700, 100, 300, 0, 0), usd=0
    ),
}  # fmt: skip

# ── pi ────────────────────────────────────────────────────────────────────────────────────────────

PI, PI_FORK, PI_CHILD = (f"0199cc0{n}-0000-7000-8000-00000000000{n}" for n in (1, 2, 3))
PI_FILE, PI_FOLDER = (
    f"--w--/2026-06-01T12-00-00-000Z_{PI}.jsonl",
    f"--w--/2026-06-01T12-00-00-000Z_{PI}",
)


def opened(session: str, at: float, **more: Any) -> dict[str, Any]:
    return {
        "type": "session",
        "version": 3,
        "id": session,
        "timestamp": stamp(at),
        "cwd": "/w",
        **more,
    }


def answered(n: int) -> dict[str, Any]:
    used = {
        "input": 10 * n,
        "output": n,
        "cacheRead": 0,
        "cacheWrite": 0,
        "totalTokens": 11 * n,
        "cost": {"total": 0.1},
    }
    return {
        "role": "assistant", "provider": "anthropic", "model": OPUS, "stopReason": "stop",
        "usage": used,
        "content": [{"type": "text", "text": f"answer {n}"}],
        "timestamp": int(DAY.timestamp() * 1000) + n * 1000,
    }  # fmt: skip


def entry(n: int, above: str | None = None) -> dict[str, Any]:
    return {
        "type": "message",
        "id": f"entry-{n}",
        "parentId": above,
        "timestamp": stamp(n),
        "message": answered(n),
    }


def watched(n: int) -> dict[str, Any]:
    """What an extension that runs subagents writes down of one, beside the session that this one
    has itself."""
    about = {
        "version": 1,
        "recordType": "message",
        "runId": "run1",
        "agent": "worker",
        "cwd": "/w",
        "timestamp": stamp(n + 0.2),
    }
    return {
        **about,
        "sourceEventType": "message_end",
        "role": "assistant",
        "usage": answered(n)["usage"],
        "message": answered(n),
    }


PI_TRAPS = {
    "a subagent's calls in three files of one tree": Trap(
        agent="pi",
        files={
            PI_FILE: [opened(PI, 0), entry(1)],
            f"{PI_FOLDER}/forks/2026-06-01T12-00-02-000Z_{PI_FORK}.jsonl": [
                opened(PI_FORK, 2, parentSession=PI_FILE), entry(1), entry(3, "entry-1")
            ],
            f"{PI_FOLDER}/subagent-artifacts/run1_worker_0_transcript.jsonl": [watched(3),
            watched(4)],
            f"{PI_FOLDER}/run1/run-0/session.jsonl": [opened(PI_CHILD, 3), entry(4)],
        },
        tokens=(10 + 30 + 40, 1 + 3 + 4, 0, 0, 0),
        calls=3,
    ),
}  # fmt: skip

TRAPS: dict[str, Trap] = CLAUDE | CODEX_TRAPS | GROK_TRAPS | PI_TRAPS


# ── the homes, and what the ledger makes of them ──────────────────────────────────────────────────


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    made = open_store(str(tmp_path / "ledger.db"))
    yield made
    made.close()


def put(root: Path, files: Mapping[str, Lines]) -> None:
    for name, lines in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        data = [
            line if isinstance(line, bytes) else json.dumps(line, separators=(",", ":")).encode()
            for line in lines
        ]
        path.write_bytes(b"".join(line + b"\n" for line in data))


def sync(store: Store, agent: str, *roots: Path) -> None:
    report = pipeline.sync(
        store, config_module.load(), agents=[agent], roots=[str(root) for root in roots], workers=0
    )
    assert not report.problems


def ledger(store: Store) -> list[tuple[LedgerCall, int]]:
    """All rows with their price. Where a call's event is, is not compared: that is the store's own
    numbering."""
    rows = dict(store.db.execute("select hash, usd from calls order by hash"))  # type: ignore[attr-defined]
    kept = {kept.call.key: kept for kept in store.ledger.find(list(rows))}
    bare = [
        msgspec.structs.replace(one, call=msgspec.structs.replace(one.call, seq=-1))
        for _, one in sorted(kept.items())
    ]
    return [
        (one, rows[h]) for one, h in zip(bare, (_hash(store, one) for one in bare), strict=True)
    ]


def _hash(store: Store, kept: LedgerCall) -> int:
    (found,) = store.db.execute("select hash from calls where key = ?", (kept.call.key,))  # type: ignore[attr-defined]
    return int(found[0])


def whole(calls: list[Call]) -> tuple[int, ...]:
    buckets = ("input", "output", "cache_read", "cache_write_5m", "cache_write_1h")
    return tuple(sum(getattr(call, f"{bucket}_tokens") for call in calls) for bucket in buckets)


@pytest.mark.parametrize("name", TRAPS)
def test_a_trap_is_counted_right(store: Store, tmp_path: Path, name: str) -> None:
    trap = TRAPS[name]
    put(tmp_path / "root", trap.files)
    sync(store, trap.agent, tmp_path / "root")
    rows = ledger(store)
    calls = [kept.call for kept, _ in rows]
    assert (whole(calls), len(calls)) == (trap.tokens, trap.calls)
    assert trap.has(calls)
    if trap.usd is not None:
        assert sum(usd for _, usd in rows) == round(trap.usd * USD)


@pytest.mark.parametrize("name", TRAPS)
def test_the_order_in_which_files_arrive_changes_nothing(
    store: Store, tmp_path: Path, name: str
) -> None:
    trap = TRAPS[name]
    put(tmp_path / "root", trap.files)
    sync(store, trap.agent, tmp_path / "root")
    other = open_store(str(tmp_path / "other.db"))
    files = list(trap.files)
    random.Random(name).shuffle(files)
    if files == list(trap.files):
        files.reverse()
    for file in files:
        put(tmp_path / "again", {file: trap.files[file]})
        sync(other, trap.agent, tmp_path / "again")
    assert ledger(other) == ledger(store)
    other.close()


@pytest.mark.parametrize("name", TRAPS)
def test_what_was_counted_stays_when_transcripts_are_deleted(
    store: Store, tmp_path: Path, name: str
) -> None:
    trap = TRAPS[name]
    put(tmp_path / "root", trap.files)
    sync(store, trap.agent, tmp_path / "root")
    before = ledger(store)
    shutil.rmtree(tmp_path / "root")
    (tmp_path / "root").mkdir()
    sync(store, trap.agent, tmp_path / "root")
    assert ledger(store) == before


@pytest.mark.parametrize("name", TRAPS)
def test_a_copy_of_the_home_elsewhere_counts_nothing_twice(
    store: Store, tmp_path: Path, name: str
) -> None:
    trap = TRAPS[name]
    put(tmp_path / "root", trap.files)
    sync(store, trap.agent, tmp_path / "root")
    before = ledger(store)
    put(tmp_path / "mnt" / "laptop" / "home", trap.files)
    sync(store, trap.agent, tmp_path / "root", tmp_path / "mnt" / "laptop" / "home")
    assert ledger(store) == before


@pytest.mark.parametrize("name", TRAPS)
def test_lines_that_arrive_one_by_one_count_the_same(
    store: Store, tmp_path: Path, name: str
) -> None:
    trap = TRAPS[name]
    put(tmp_path / "root", trap.files)
    sync(store, trap.agent, tmp_path / "root")
    other = open_store(str(tmp_path / "other.db"))
    longest = max(map(len, trap.files.values()))
    for end in range(1, longest + 1):
        put(tmp_path / "growing", {file: lines[:end] for file, lines in trap.files.items()})
        sync(other, trap.agent, tmp_path / "growing")
    assert ledger(other) == ledger(store)
    other.close()


def test_no_key_has_a_path_in_it(store: Store, tmp_path: Path) -> None:
    for trap in TRAPS.values():
        put(tmp_path / trap.agent, trap.files)
    for agent in {trap.agent for trap in TRAPS.values()}:
        sync(store, agent, tmp_path / agent)
    assert not [
        kept.call.key
        for kept, _ in ledger(store)
        if str(tmp_path) in kept.call.key or "jsonl" in kept.call.key
    ]


def test_every_call_leads_to_its_event(store: Store, tmp_path: Path) -> None:
    for name in ("C01 streaming copies", "X02 a total told again", "G01 what was invoiced"):
        put(tmp_path / TRAPS[name].agent, TRAPS[name].files)
        sync(store, TRAPS[name].agent, tmp_path / TRAPS[name].agent)
    hashes = [h for (h,) in store.maintenance.rows("select hash from calls")]
    for kept in store.ledger.find(hashes):
        events = {event.seq: event for event in store.sessions.events(kept.call.session_uid)}
        assert events[kept.call.seq].usage


# ── agents that keep no lines of JSON, and ours ───────────────────────────────────────────────────


def test_rows_of_usage_in_a_database_count_once_in_every_copy_of_it(
    store: Store, tmp_path: Path
) -> None:
    """The agent's own estimate of the cost is none of the provider's: the table is taken."""
    fixtures = Path(__file__).parent / "adapters/fixtures/grok_cli"
    for name in ("root", "copy"):
        (tmp_path / name).mkdir()
        db = apsw.Connection(str(tmp_path / name / "grok.db"))
        db.execute(
            (fixtures / "schema.sql").read_text() + (fixtures / "usage/rows.sql").read_text()
        )
        db.close()
        sync(store, "grok_cli", tmp_path / name)
    calls = [kept.call for kept, _ in ledger(store)]
    assert (whole(calls), len(calls)) == ((2800, 195, 0, 0, 0), 4)
    assert {call.provider for call in calls} == {"xai"}
    assert {call.invoiced for call in calls} == {None}


def test_messages_of_a_live_log_count_once_in_every_fork(store: Store, tmp_path: Path) -> None:
    live = SessionStore(tmp_path / "live")
    with live.create() as session:
        session.append({"role": "user", "content": "hi"})
        used = usage(
            10,
            5,
            100,
            70,
            cache_creation={**PARTS, "ephemeral_1h_input_tokens": 70},
            service_tier="batch",
        )
        session.append({"role": "assistant", "content": "hello", "model": OPUS, "usage": used})
        other = session.fork()
        other.append(
            {
                "role": "assistant",
                "content": "again",
                "model": HAIKU,
                "usage": {"prompt_tokens": 30, "completion_tokens": 3},
            }
        )
        session.compact("said hello", usage=usage(50, 20))
        other.close()
    for _ in range(2):
        sync(store, "runlore", tmp_path / "live")
    calls = [kept.call for kept, _ in ledger(store)]
    assert (whole(calls), len(calls)) == ((90, 28, 100, 0, 70), 3)
    assert sorted(((call.model or "", call.tier) for call in calls), key=str) == [
        (HAIKU, None),
        (OPUS, "batch"),
        (OPUS, None),
    ]
