"""A small store that follows the rules of an older one (a folder with `meta.json` and
`messages.jsonl` for each session).

It is here to fail: each of its rules that loses data is one that our own log must not follow.
Written for these tests.
"""

import json
import os
import shutil
from datetime import UTC, datetime
from pathlib import Path
from typing import Any


class OldStore:
    def __init__(self, folder: Path, id: str) -> None:
        self.folder = folder / id
        self.meta = self.folder / "meta.json"
        self.log = self.folder / "messages.jsonl"

    @property
    def title(self) -> str:
        return str(json.loads(self.meta.read_text())["title"])

    def create(self, title: str = "New chat") -> None:
        (self.folder / "tool-output").mkdir(parents=True, exist_ok=True)
        self.meta.write_text(
            json.dumps({"id": self.folder.name, "title": title, "updated_at": _now()})
        )
        self.log.touch()

    def append(self, message: dict[str, Any]) -> None:
        if not self.meta.exists():
            self.create()
        meta = json.loads(self.meta.read_text())
        with self.log.open("a", encoding="utf-8") as file:
            file.write(json.dumps(message, ensure_ascii=False) + "\n")
        if meta["title"] == "New chat" and message["role"] == "user":
            meta["title"] = str(message["content"]).replace("\n", " ")[:48] or "New chat"
        self.meta.write_text(json.dumps({**meta, "updated_at": _now()}, indent=2))

    def messages(self) -> list[dict[str, Any]]:
        if not self.meta.exists():
            return []
        json.loads(self.meta.read_text())
        visible = self._rewound(self._compacted(self._lines()))
        for message in self._interrupted(visible):
            self.append(message)
            visible.append(message)
        return visible

    def compact(self, summary: str) -> None:
        self.append({"role": "compact", "content": [{"type": "text", "text": summary}]})

    def rewind(self, index: Any) -> None:
        self.append({"role": "rewind", "meta": {"rewind_to": index}})

    def clear(self) -> None:
        self.log.write_text("")

    def should_compact(self, usage: dict[str, int], window: int) -> bool:
        tokens = next(
            (
                usage[name]
                for name in ("input_tokens", "prompt_tokens", "prompt_token_count")
                if usage.get(name)
            ),
            0,
        )
        return tokens >= window * 0.8

    def read_newer(self) -> None:
        """Reads a session of a format that is not known yet."""
        self.meta.write_text(
            json.dumps({**json.loads(self.meta.read_text()), "message_format_version": 99})
        )
        self.append({"role": "user", "content": "written into it"})

    def delete(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)

    def _lines(self) -> list[dict[str, Any]]:
        found = []
        for line in self.log.read_text(encoding="utf-8").split("\n"):
            try:
                value = json.loads(line)
            except ValueError:
                continue
            if isinstance(value, dict):
                found.append(value)
        return found

    def _compacted(self, messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
        places = [n for n, message in enumerate(messages) if message.get("role") == "compact"]
        if not places:
            return messages
        text = messages[places[-1]]["content"][0]["text"]
        pair = [
            {"role": "user", "content": f"[Conversation Summary]\n\n{text}"},
            {"role": "assistant", "content": "Understood."},
        ]
        return pair + messages[places[-1] + 1 :]

    def _rewound(self, messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
        visible: list[dict[str, Any]] = []
        for message in messages:
            if message.get("role") == "rewind":
                visible = visible[: message["meta"]["rewind_to"]]
            else:
                visible.append(message)
        return visible

    def _interrupted(self, messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
        for place in range(len(messages) - 1, -1, -1):
            calls = [
                block["id"] for block in _blocks(messages[place]) if block.get("type") == "tool_use"
            ]
            if not calls:
                continue
            later = [block for message in messages[place + 1 :] for block in _blocks(message)]
            done = {block["tool_use_id"] for block in later if block.get("type") == "tool_result"}
            missing = [
                {"type": "tool_result", "tool_use_id": id, "is_error": True}
                for id in calls
                if id not in done
            ]
            return [{"role": "user", "content": missing}] if missing else []
        return []


def _blocks(message: dict[str, Any]) -> list[dict[str, Any]]:
    content = message.get("content")
    return content if isinstance(content, list) else []


def _now() -> str:
    return datetime.now(UTC).isoformat()


def open_old(folder: Path, id: str) -> OldStore:
    os.makedirs(folder, exist_ok=True)
    return OldStore(folder, id)
