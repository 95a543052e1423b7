"""Messages, replies and thoughts of people, the model and other agents, each of which may be
written by several kinds of records."""

from __future__ import annotations

from ...text.clean import own_tool
from ..shared.fold import keep
from ..shared.tools import one_line, text_of
from . import words
from .calls import Calls
from .fold import CONTEXTS, EVENT, PROMPTS, REPLIES, RESPONSE
from .lines import Block, Payload

_APPROVED = "Approved command prefix saved:"


class Messages(Calls):
    def message(self, payload: Payload) -> None:
        role, content = (
            payload.role,
            payload.message if payload.content is None else payload.content,
        )
        if content is None:
            self.emit(
                "lifecycle",
                self.raw_text(),
                "message",
                summary="message without content",
                role=role,
            )
        elif role == "assistant":
            self.reply(RESPONSE, words.joined(content), "message", payload.phase)
        elif role == "user":
            self.input([Block(text=content)] if isinstance(content, str) else content, RESPONSE)
        else:
            for block in [Block(text=content)] if isinstance(content, str) else content:
                self.instruct(words.shown(block), role)

    def instruct(self, text: str, role: str | None) -> None:
        """Add text that the program told the model, in nobody's place."""
        if not text.strip():
            self.merge("empty")
        elif text.startswith(_APPROVED):
            name = self.emit("human_intervention", text, "approval", role=role, view="context")
            self.remember(role, words.role_key(role, text), name)
        else:
            name = self.emit(
                "lifecycle", text, role or "message", role=role, tool=own_tool(text), view="context"
            )
            self.remember(role, words.role_key(role, text), name)

    def remember(self, role: str | None, key: bytes, name: str) -> None:
        """Note the event of a text, to which a compaction may refer."""
        is_reply = role == "assistant"
        memory = self.state.replies if is_reply else self.state.contexts
        memory.pop(key, None)
        keep(memory, key, name, REPLIES if is_reply else CONTEXTS)

    def input(self, blocks: list[Block], side: int) -> None:
        """A message in the person's role: what they typed, and what the program put beside it."""
        before, found = self.room, words.split_input(blocks)
        for text, word in found.contexts:
            self.context(side, text, word)
        if found.typed or found.pictures:
            self.say(side, "\n".join(found.typed), found.pictures)
        elif self.room == before:
            self.merge(
                "twin" if any(block.text and block.text.strip() for block in blocks) else "empty"
            )

    def context(self, side: int, text: str, word: str) -> None:
        """Add text that the program told the model in the person's place."""
        if self.is_repeated(side, b"user" + words.key_of(text)):
            return
        if word == "user_shell_command" and (command := words.inside("command", text)):
            body = f"!{command}\n{words.inside('result', text)}"
            name = self.emit(
                "user_msg",
                body,
                word,
                one_line(f"!{command}"),
                "user",
                identity=f"user\0{text}",
                parent=self.state.anchor,
            )
            self.remember("user", words.role_key("user", text), name)
            return
        if word == "environment_context" and self.state.cwd is None:
            self.state.cwd = words.cwd_in(text)
        name = self.emit(
            "lifecycle", text, word, identity=f"user\0{text}", role="user", view="context"
        )
        self.remember("user", words.role_key("user", text), name)

    def say(self, side: int, text: str, pictures: list[str]) -> None:
        """Add a prompt that a person typed."""
        key = words.key_of(text or "\n".join(pictures))
        if self.is_repeated(side, b"user" + key):
            self.merge("twin")
            return
        state, parent = self.state, self.state.anchor
        request = words.request_in(text) if text else pictures[0]
        asked = one_line(request)
        body = "\n".join([text, *pictures] if text else pictures)
        prompt = self.emit(
            "user_msg",
            body,
            "user_message",
            asked,
            "user",
            identity=f"user\0{key.hex()}",
            parent=parent,
        )
        state.prompts.append((prompt, parent, key))
        del state.prompts[:-PROMPTS]
        if not state.is_titled and state.replay is None:
            state.is_titled = self.set_title(request, 1)

    def user_message(self, payload: Payload) -> None:
        plain = (
            self.plain()
            if payload.message is None or b'"images":[]' not in self.raw_bytes()
            else {}
        )
        text = payload.message if payload.message is not None else text_of(plain.get("message"))
        images = plain.get("images")
        pictures = [words.image(url) for url in images] if isinstance(images, list) else []
        blocks = [Block(text=text), *[Block(image_url=picture) for picture in pictures]]
        self.input(blocks, EVENT)

    def reply(self, side: int, text: str, native: str, phase: str | None) -> None:
        self.state.has_spoken = self.state.has_spoken or self.state.replay is None
        if not text or text.isspace():
            self.merge("empty")
            return
        key = words.key_of(text)
        if self.is_repeated(side, b"assistant" + key):
            self.merge("twin")
        else:
            native = f"{native}/{phase[:40]}" if phase else native
            name = self.emit(
                "assistant_msg", text, native, None, "assistant", identity=f"assistant\0{key.hex()}"
            )
            self.remember("assistant", b"assistant" + key, name)

    def agent_message(self, payload: Payload) -> None:
        if payload.message is not None or payload.content is None:
            self.reply(EVENT, text_of(payload.message), "agent_message", payload.phase)
        else:
            self.between_agents(RESPONSE, payload)

    def agents_event(self, payload: Payload) -> None:
        self.between_agents(EVENT, payload)

    def between_agents(self, side: int, payload: Payload) -> None:
        """Add a message of one agent to another."""
        state, text = self.state, words.joined(payload.content)
        key = words.agents_key(payload.author, payload.recipient, text)
        if self.is_repeated(side, key):
            self.merge("twin")
            return
        summary = one_line(
            f"{payload.author or '?'} → {payload.recipient or '?'}:"
            f" {one_line(text.partition('Payload:')[2] or text)}"
        )
        if state.is_side and payload.recipient is not None and payload.recipient == state.path:
            parent = state.anchor
            name = self.emit("user_msg", text, "agent_message", summary, "user", parent=parent)
            state.prompts.append((name, parent, b""))
            del state.prompts[:-PROMPTS]
        else:
            name = self.emit("lifecycle", text, "agent_message", summary, "user", view="context")
        self.remember("user", key, name)

    def reasoning(self, payload: Payload) -> None:
        parts = payload.summary if isinstance(payload.summary, list) else []
        more = payload.content if isinstance(payload.content, list) else []
        self.think(RESPONSE, [block.text or "" for block in [*parts, *more]])

    def reasoning_event(self, payload: Payload) -> None:
        self.think(EVENT, [payload.text or ""])

    def think(self, side: int, texts: list[str]) -> None:
        self.state.has_spoken = self.state.has_spoken or self.state.replay is None
        texts = [text for text in texts if text and not text.isspace()]
        before = self.room
        for text in texts:
            key = words.key_of(text)
            if not self.is_repeated(side, b"thinking" + key):
                self.emit(
                    "thinking",
                    text,
                    "reasoning",
                    None,
                    "assistant",
                    identity=f"thinking\0{key.hex()}",
                )
        if self.room == before:
            self.merge("twin" if texts else "empty reasoning")
