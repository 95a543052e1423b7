"""Items of a page of history: what newer Codex programs write in place of messages, calls and their
results, or beside them.

An item is a message, a thought, or a call together with how it ended. One about a call that was
told before only says how it ended. Names of fields have been written in two ways, `exit_code` and
`exitCode`; folders and files as paths, and as addresses.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any, ClassVar

from .. import Normalized, Record, Source
from ..shared.pick import clean
from ..shared.tools import key_values, one_line, text_of
from . import tools, words
from .fold import ITEM, MAX_NAME
from .lines import Block, Payload
from .reader import Reader

_AGENT_TOOLS = {"wait": "wait_agent"}
"""What other records call it. A `wait` by itself is for a command."""


def normalize(source: Source, records: Iterable[Record], carry: bytes | None) -> Normalized:
    """Return what the records of a source mean."""
    return Items(source, carry).run(records)


class Items(Reader):
    def item(self, payload: Payload) -> None:
        found = self.plain().get("item")
        item = (
            {_snake(name): value for name, value in found.items()}
            if isinstance(found, dict)
            else {}
        )
        kind = item.get("type")
        word = f"item/{text_of(kind)[:MAX_NAME]}" if kind else "item_completed"
        handler = self.items.get(kind) if isinstance(kind, str) else None
        if handler is None:
            handler = next((handler for name, handler in self.likes.items() if name in item), None)
        if handler is not None:
            handler(self, item)
        elif not self.is_known(_id_of(item), word):
            self.emit("lifecycle", key_values(item), word, summary=one_line(word))

    # What was said.

    def item_message(self, item: dict[str, Any]) -> None:
        content = item.get("content")
        parts = (
            [part for part in content if isinstance(part, dict)]
            if isinstance(content, list)
            else []
        )
        if item.get("type") == "AgentMessage":
            phase = item.get("phase")
            self.reply(
                ITEM,
                words.texts_in(parts) or text_of(item.get("text")),
                "agent_message",
                phase if isinstance(phase, str) else None,
            )
            return
        blocks = [
            (
                Block(text=text)
                if isinstance(text := part.get("text"), str)
                else Block(image_url=part.get("image_url", part.get("path")))
            )
            for part in parts
        ]
        self.input(blocks, ITEM)

    def item_reasoning(self, item: dict[str, Any]) -> None:
        parts = [item.get("summary_text"), item.get("raw_content")]
        self.think(
            ITEM, [text_of(text) for part in parts if isinstance(part, list) for text in part]
        )

    def item_plan(self, item: dict[str, Any]) -> None:
        self.emit(
            "decision", text_of(item.get("text")), "item/Plan", role="assistant", action="plan"
        )

    def item_hook(self, item: dict[str, Any]) -> None:
        parts = item.get("fragments")
        self.emit(
            "lifecycle",
            words.texts_in(parts if isinstance(parts, list) else []),
            "hook_prompt",
            role="user",
            view="context",
        )

    def item_compaction(self, item: dict[str, Any]) -> None:
        self.add_compaction(ITEM)

    # What was done.

    def item_command(self, item: dict[str, Any]) -> None:
        self.command_ended(_id_of(item), item, "item/CommandExecution")

    def item_change(self, item: dict[str, Any]) -> None:
        self.change_ended(
            _id_of(item), item, "item/FileChange", item.get("status") in ("failed", "declined")
        )

    def item_mcp(self, item: dict[str, Any]) -> None:
        failed = {"result": {"Err": words.error_text(item["error"])}} if item.get("error") else {}
        self.mcp_ended(_id_of(item), item, item | failed, "item/McpToolCall")

    def item_tool(self, item: dict[str, Any]) -> None:
        """A tool that the program around Codex has given it."""
        call_id, word, args, space = (
            _id_of(item),
            "item/DynamicToolCall",
            item.get("arguments"),
            item.get("namespace"),
        )
        failed = item.get("status") == "failed" or item.get("success") is False
        ms = words.milliseconds(item.get("duration"))
        if self.is_known(call_id, word, duration_ms=ms, failed=failed or None):
            return
        tool, space = text_of(item.get("tool")) or None, space if isinstance(space, str) else None
        self.tell_call(
            tools.describe_call(tool, space, args if isinstance(args, dict | str) else {}),
            call_id,
            word,
        )
        text = words.items_text(item.get("content_items")) or text_of(item.get("error"))
        self.answer(call_id, text, word, duration_ms=ms, failed=failed)

    def item_agent(self, item: dict[str, Any]) -> None:
        call_id, word, named = (
            _id_of(item),
            "item/CollabAgentToolCall",
            item.get("receiver_thread_ids"),
        )
        threads = (
            [clean(name) for name in named if isinstance(name, str)]
            if isinstance(named, list)
            else []
        )
        refs = tuple(f"{self.agent_name}:{thread}" for thread in threads[:100] if thread)
        failed = item.get("status") == "failed"
        if self.is_known(call_id, word, refs=refs or None, failed=failed or None):
            return
        tool = _snake(text_of(item.get("tool"))[:MAX_NAME])
        args = {"message": item["prompt"]} if item.get("prompt") else {}
        self.tell_call(tools.describe_call(_AGENT_TOOLS.get(tool, tool), None, args), call_id, word)
        self.answer(call_id, "", word, refs=refs, failed=failed)

    def item_activity(self, item: dict[str, Any]) -> None:
        self.activity(ITEM, {"event_id": item.get("id"), **item})

    def item_search(self, item: dict[str, Any]) -> None:
        self.searched(
            ITEM,
            words.search_text(item.get("action"), item.get("query")),
            _id_of(item),
            words.items_text(item.get("results")),
        )

    def item_view(self, item: dict[str, Any]) -> None:
        call_id, word = _id_of(item), "item/ImageView"
        if not self.is_known(call_id, word):
            self.tell_call(
                tools.describe_call(
                    "view_image", None, {"path": words.place(text_of(item.get("path")))}
                ),
                call_id,
                word,
            )

    def item_picture(self, item: dict[str, Any]) -> None:
        self.drawn(ITEM, _id_of(item), item)

    handlers: ClassVar[dict[str | None, Callable[[Any, Payload], None]]] = {
        **Reader.handlers,
        "item_completed": item,
    }
    shapes = ((("item",), item), *Reader.shapes)
    items: ClassVar[dict[str, Callable[[Any, dict[str, Any]], None]]] = {
        "UserMessage": item_message, "AgentMessage": item_message, "Reasoning": item_reasoning,
        "Plan": item_plan, "HookPrompt": item_hook, "ContextCompaction": item_compaction,
        "CommandExecution": item_command, "FileChange": item_change, "McpToolCall": item_mcp,
        "DynamicToolCall": item_tool, "CollabAgentToolCall": item_agent,
        "SubAgentActivity": item_activity,
        "WebSearch": item_search, "ImageView": item_view, "ImageGeneration": item_picture,
    }  # fmt: skip
    likes: ClassVar[dict[str, Callable[[Any, dict[str, Any]], None]]] = {
        "aggregated_output": item_command, "changes": item_change, "server": item_mcp,
        "query": item_search,
    }  # fmt: skip
    """By what only they have, for items of a type that is not known."""


def _id_of(item: dict[str, Any]) -> str | None:
    found = item.get("id")
    return found if isinstance(found, str) else None


_HUMP = re.compile(r"(?<=[a-z0-9])([A-Z])")


def _snake(name: str) -> str:
    return _HUMP.sub(r"_\1", name).lower() if not name.islower() else name
