"""Real transcripts, where they are at hand: nothing raises, every line is accounted for, and a
second count agrees.

The second count is written from the format's description alone, with plain `json`, and shares no
code with the adapter.
"""

import json
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from runlore.adapters import Record, Source, get
from runlore.adapters.claude import fold
from runlore.model import make_uid
from runlore.testing import check_law
from tests.adapters import corpus
from tests.adapters.corpus import Everything

CORPUS = corpus.CORPUS / "claude-code"
ADAPTER = get("claude")

pytestmark = corpus.needs(CORPUS)


@pytest.fixture(scope="module")
def everything() -> Everything:
    return corpus.read_all(ADAPTER, CORPUS)


def test_every_transcript_is_read(everything: Everything) -> None:
    assert [path for path in corpus.unread(CORPUS, everything) if path.suffix == ".jsonl"] == []


def test_every_line_is_accounted_for(everything: Everything) -> None:
    for source, records, found in everything:
        lines = sum(record.sidecar is None for record in records)
        with_events = {event.record for event in found.events}
        assert with_events <= set(range(lines))
        assert lines <= len(with_events) + sum(found.merged.values()), source.path
        assert len(found.events) == len(found.bodies) == len(found.parents) == len(found.originals)


def test_sessions_are_named_and_numbered(everything: Everything) -> None:
    for source, _, found in everything:
        seqs: dict[str, list[int]] = {}
        for event in found.events:
            seqs.setdefault(event.session_uid, []).append(event.seq)
        assert seqs.keys() <= found.facts.keys(), source.path
        for uid, numbers in seqs.items():
            assert uid == make_uid(ADAPTER.name, found.facts[uid].native_session_id)
            assert numbers == list(range(len(numbers)))


def test_both_ways_of_decoding_agree(
    everything: Everything, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_: bytes) -> Any:
        raise msgspec.DecodeError

    monkeypatch.setattr(fold, "_decode", refuse)
    for source, records, fast in everything:
        slow = ADAPTER.normalize(source, records, None)
        assert fast.events == slow.events, source.path
        assert (fast.bodies, fast.parents, fast.facts, fast.merged, fast.skips) == (
            slow.bodies,
            slow.parents,
            slow.facts,
            slow.merged,
            slow.skips,
        )


def test_any_cut_gives_the_same(everything: Everything, tmp_path: Path) -> None:
    small = [
        source
        for source, _, _ in everything
        if source.size < 200_000 and "/subagents/" not in source.path
    ]
    assert small
    for n, source in enumerate(small[::3]):
        (tmp_path / str(n)).mkdir()
        (tmp_path / str(n) / Path(source.path).name).write_bytes(Path(source.path).read_bytes())
    check_law(ADAPTER, tmp_path, cuts=3)


def test_a_second_count_agrees(everything: Everything) -> None:
    for source, records, found in everything:
        mine: Counter[str] = Counter()
        for event in found.events:
            mine["tool_call" if event.kind == "test_run" else event.kind] += 1
        plain = Counter(kind for kind in Second(source).kinds(records) if kind)
        assert mine == plain, source.path


# The second count.

EDITS = {"Edit", "Write", "MultiEdit", "NotebookEdit"}
SILENT = {
    "last-prompt",
    "mode",
    "file-history-snapshot",
    "file-history-delta",
    "queue-operation",
    "bridge-session",
}
SILENT |= {"ai-title", "custom-title", "agent-name", "summary"}
REFUSALS = (
    "The user doesn't want to proceed with this tool use",
    "The user doesn't want to take this action",
    "User rejected tool use",
)
SYSTEM = {
    "turn_duration": "completion",
    "api_error": "retry",
    "error": "error",
    "model_refusal_fallback": "error",
    "api_refusal": "error",
}
NOTICES = (
    "<task-notification>",
    "<teammate-message",
    "<local-command-",
    "<bash-stdout>",
    "<bash-stderr>",
    "Caveat: The messages below",
)
WRAPPERS = ("ide_opened_file", "ide_selection", "ide_diagnostics", "system-reminder")
WRAPPED = tuple(f"<{name}>" for name in WRAPPERS)


class Second:
    def __init__(self, source: Source) -> None:
        self.hints = source.hints
        self.asks: set[str] = set()
        self.mode: str | None = None
        self.link: Any = None

    def kinds(self, records: list[Record]) -> Iterator[str | None]:
        for record in records:
            if record.sidecar is None:
                yield from self.line(record.data)

    def line(self, data: bytes) -> Iterator[str | None]:
        try:
            value = json.loads(data)
        except ValueError:
            if data.strip():
                yield "lifecycle"
            return
        if not isinstance(value, dict):
            yield "lifecycle"
            return
        kind = value.get("type")
        if kind in SILENT:
            return
        if kind in ("user", "assistant"):
            yield from self.message(value)
        elif kind == "system":
            yield self.system(value)
        elif kind == "attachment":
            yield self.attachment(value["attachment"])
        elif kind == "progress":
            about = value["data"]
            if (
                about.get("type") == "agent_progress"
                and f"agent:{about['agentId']}" not in self.hints
            ):
                yield from self.message(about["message"])
        elif kind == "permission-mode":
            if self.mode not in (None, value["permissionMode"]):
                yield "human_intervention"
            self.mode = value["permissionMode"]
        elif kind == "pr-link":
            link = value["prRepository"], value["prNumber"]
            yield "lifecycle" if link != self.link else None
            self.link = link
        elif (
            (value.get("message") or {}).get("role") in ("user", "assistant")
            if isinstance(value.get("message"), dict)
            else False
        ):
            yield from self.message({**value, "type": value["message"]["role"]})
        else:
            yield "lifecycle"

    def message(self, value: dict[str, Any]) -> Iterator[str | None]:
        message = value.get("message")
        if not isinstance(message, dict) or message.get("content") is None:
            yield "lifecycle"
            return
        content = message["content"]
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        for n, block in enumerate(blocks):
            kind = block.get("type") if isinstance(block, dict) else None
            if kind == "tool_result" or (kind and kind.endswith("_tool_result")):
                yield self.result(value, block)
                yield from ["lifecycle"] * count_reminders(block.get("content"))
            elif value["type"] == "assistant":
                yield self.spoken(value, block)
            elif kind == "text":
                kind = self.typed(value, block["text"])
                yield kind
                if kind != "lifecycle" and block["text"].strip().startswith(WRAPPED):
                    yield "lifecycle"
            elif kind in ("image", "document"):
                alone = (
                    n == 0
                    and all(other["type"] in ("image", "document") for other in blocks)
                    and not value.get("isMeta")
                )
                yield "user_msg" if alone else "lifecycle"
            else:
                yield "lifecycle"

    def spoken(self, value: dict[str, Any], block: dict[str, Any]) -> str | None:
        kind = block["type"]
        if kind == "thinking":
            return "thinking" if block["thinking"] else None
        if kind == "text":
            is_local = value["message"].get("model") == "<synthetic>"
            if value.get("isApiErrorMessage") or (is_local and "API Error" in block["text"]):
                return "error"
            return "lifecycle" if is_local else "assistant_msg" if block["text"].strip() else None
        if kind != "tool_use":
            return "lifecycle"
        if block["name"] in ("AskUserQuestion", "ExitPlanMode", "exit_plan_mode"):
            self.asks.add(block["id"])
        if block["name"] in EDITS:
            return "edit"
        # Which commands run tests is a judgement, and has tests of its own: here they are taken
        # together.
        return "tool_call"

    def result(self, value: dict[str, Any], block: dict[str, Any]) -> str:
        content = block.get("content")
        is_error = block.get("is_error") is True
        raw = value.get("toolUseResult")
        if is_error and (
            (isinstance(content, str) and content.startswith(REFUSALS))
            or raw == "User rejected tool use"
        ):
            return "human_intervention"
        if is_error and value.get("toolDenialKind") == "user-rejected":
            return "human_intervention"
        is_answer = isinstance(raw, dict) and (
            isinstance(raw.get("answers"), dict) or isinstance(raw.get("plan"), str)
        )
        return (
            "decision"
            if not is_error and (block.get("tool_use_id") in self.asks or is_answer)
            else "tool_result"
        )

    def typed(self, value: dict[str, Any], text: str) -> str | None:
        if value.get("isCompactSummary") or value.get("isMeta"):
            return "lifecycle"
        if text.startswith("[Request interrupted by user"):
            return "human_intervention"
        if (value.get("origin") or {}).get("kind") == "task-notification":
            return "lifecycle"
        return typed(text)

    def system(self, value: dict[str, Any]) -> str:
        subtype = value.get("subtype")
        if subtype == "local_command" and value["content"].startswith("<command-name>"):
            return "human_intervention"
        if subtype == "stop_hook_summary":
            return "error" if value["hookErrors"] else "lifecycle"
        return SYSTEM.get(subtype or "", "lifecycle")

    def attachment(self, about: dict[str, Any]) -> str:
        kind = about["type"]
        if kind == "queued_command":
            is_notice = about.get("commandMode") == "task-notification" or str(
                about["prompt"]
            ).startswith("<task-notification>")
            return "lifecycle" if is_notice else "user_msg"
        return (
            "error" if kind in ("hook_blocking_error", "hook_non_blocking_error") else "lifecycle"
        )


def count_reminders(content: Any) -> int:
    """Count what the program put before and behind a tool's own text, unless that is all."""
    parts = content if isinstance(content, list) else [{"type": "text", "text": content}]
    text = "\n".join(part.get("text") or "" for part in parts if isinstance(part, dict))
    head = re.match(r"(?:<system-reminder>.*?</system-reminder>[\r\n]*)*", text, re.DOTALL)
    assert head is not None
    rest = text[head.end() :].rstrip()
    count = head[0].count("<system-reminder>")
    while rest.endswith("</system-reminder>") and "\n<system-reminder>" in rest:
        rest = rest[: rest.rindex("\n<system-reminder>")].rstrip("\r\n")
        count += 1
    return count if rest.strip() else 0


def typed(text: str) -> str | None:
    stripped = text.strip()
    if not stripped:
        return None
    for wrapper in WRAPPERS:
        if stripped.startswith(f"<{wrapper}>"):
            rest = stripped.partition(f"</{wrapper}>")[2].strip()
            return typed(rest) if rest else "lifecycle"
    if stripped.startswith(("<command-name>", "<command-message>", "<command-args>")):
        return (
            "user_msg" if re.search(r"<command-args>\s*[^<\s]", stripped) else "human_intervention"
        )
    return "lifecycle" if stripped.startswith(NOTICES) else "user_msg"
