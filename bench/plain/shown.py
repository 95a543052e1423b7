"""What runlore says about a home: synced into a store of its own, read through its commands."""

from __future__ import annotations

import json
import os
from collections import Counter
from pathlib import Path
from typing import NamedTuple
from unittest import mock

from click.testing import CliRunner

from runlore.cli import cli

from .values import JSON, Counts

CALLS = ("tool_call", "edit", "test_run")
ANSWERS = ("human_intervention", "error", "decision")
"""What a result of a call is called when it says more: refused, interrupted, answered."""


class Shown(NamedTuple):
    """A session as `runlore show --json` gives it."""

    uid: str
    agent: str
    id: str
    path: Path
    counts: Counts
    billed: Counts
    """Its tokens as `runlore usage` has them, without subagents."""
    natives: Counter[str]
    """How often each word of the agent's own occurs, as `kind:native`."""


def read_shown(home: Path, data: Path) -> list[Shown]:
    places = {"HOME": str(home), "USERPROFILE": str(home), "RUNLORE_HOME": str(data), "TZ": "UTC"}
    path = os.environ.get("PATH", os.defpath)
    with mock.patch.dict(os.environ, {**places, "PATH": path}, clear=True):
        _run("sync", "--json")
        if not (lines := _run("ls", "--all", "--all-subagents", "--json")):
            return []
        return [_read_session(line["uid"]) for line in json.loads(lines)]


def _read_session(uid: str) -> Shown:
    total = json.loads(_run("usage", "--explain", uid, "-n", "1", "--json"))["total"]
    billed = Counts()
    billed.add_tokens(
        total["input_tokens"],
        total["output_tokens"],
        total["cache_read_tokens"],
        total["cache_write_5m_tokens"] + total["cache_write_1h_tokens"],
    )
    return _shown(json.loads(_run("show", uid, "--json")), billed)


def _run(*words: str) -> str:
    """Return what a command prints; nothing if it fails, as `ls` does without a session."""
    result = CliRunner().invoke(cli, list(words), prog_name="runlore")
    if result.exit_code and words[0] != "ls":
        raise RuntimeError(f"runlore {' '.join(words)}: {result.output}")
    return "" if result.exit_code else result.stdout


def _shown(transcript: JSON, billed: Counts) -> Shown:
    session = transcript["session"]
    kinds = Counter[str]()
    natives = Counter[str]()
    events = transcript["events"]
    answered = {event["call_id"] for event in events if event["kind"] == "tool_result"}
    for event in events:
        kind = event["kind"]
        natives[f"{kind}:{event['native']}"] += 1
        if kind == "decision" and event["call_id"] and event["role"] == "assistant":
            kinds["tool_call"] += 1  # The call of a tool that decides.
        if kind in ANSWERS and event["call_id"] and event["call_id"] not in answered:
            answered.add(event["call_id"])
            kind = "tool_result"
        if kind != "assistant_msg" or event["body"].strip():
            kinds[kind] += 1
    counts = Counts(
        kinds["user_msg"],
        kinds["assistant_msg"],
        sum(kinds[kind] for kind in CALLS),
        kinds["tool_result"],
        *(session[f"{name}_tokens"] for name in ("input", "output", "cache_read", "cache_write")),
    )
    return Shown(
        session["uid"],
        session["agent"],
        session["native_session_id"],
        Path(session["source_path"] or ""),
        counts,
        billed,
        natives,
    )
