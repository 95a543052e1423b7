"""Messages to and from the request formats of Anthropic, OpenAI chat and OpenAI responses.

Pure functions.

Content that a provider does not accept (thinking without a signature, our own marks) is left out of
its request and stays in the log. Every call gets its result right after it, in the order and roles
that the provider requires.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from .views import Message, adjacent, as_blocks, calls_of, chat_calls, parse_arguments, results_of

Block = dict[str, Any]

OURS = frozenset({"display_text", "model_text", "output", "whole", "meta", "native", "native_chat"})
"""Fields of blocks that only runlore uses."""
BEGINNING = "(The beginning of the conversation is not included.)"


# ── Anthropic ─────────────────────────────────────────────────────────────────────────────────────


def to_anthropic(messages: Sequence[Message]) -> dict[str, Any]:
    """Return `{"system": …, "messages": […]}`: user first, alternating roles, results in front.

    `system` is left out if there is none.
    """
    converted: list[Message] = []
    system = [
        _text_block(text)
        for message in messages
        if _role(message) == "system"
        for text in _texts(message)
        if text
    ]
    for message in adjacent([message for message in messages if _role(message) != "system"]):
        role = "assistant" if _role(message) == "assistant" else "user"
        blocks = [block for block in map(_for_anthropic, _sendable(message)) if block is not None]
        if not blocks:
            continue
        if converted and converted[-1]["role"] == role:
            converted[-1]["content"] += blocks
        else:
            converted.append({"role": role, "content": blocks})
    for message in converted:
        # A stable sort: only results move.
        message["content"].sort(key=lambda block: block["type"] != "tool_result")
    if converted and converted[0]["role"] == "assistant":
        converted.insert(0, {"role": "user", "content": [_text_block(BEGINNING)]})
    return {"messages": converted, **({"system": system} if system else {})}


def from_anthropic(request: Mapping[str, Any] | Sequence[Message]) -> list[Message]:
    """Return the messages of a request, or of its `messages` alone. Nothing is lost."""
    if not isinstance(request, Mapping):
        return [dict(message) for message in request]
    system = request.get("system")
    head: list[Message] = [{"role": "system", "content": system}] if system else []
    return head + [dict(message) for message in request.get("messages", ())]


def _for_anthropic(block: Block) -> Block | None:
    kind = block.get("type")
    if _file_id(block):
        return None
    clean = {name: value for name, value in block.items() if name not in OURS}
    if kind == "text":
        # Blank text is refused.
        return clean if isinstance(text := block.get("text"), str) and text.strip() else None
    if kind == "thinking":
        return clean if block.get("signature") else None
    if kind == "tool_use":
        return {**clean, "input": _object(block.get("input"))}
    if kind == "tool_result":
        content = _result_content(block)
        return {
            **clean,
            "content": (
                [part for part in map(_for_anthropic, content) if part]
                if isinstance(content, list)
                else content
            ),
        }
    is_foreign = isinstance(block.get("native"), dict) and kind not in ("image", "document")
    return clean if isinstance(kind, str) and not is_foreign else None


def _object(given: Any) -> dict[str, Any]:
    """Return arguments as an object, which is required here.

    Another provider may have sent text.
    """
    if isinstance(given, dict):
        return given
    return {} if given is None else {"arguments": given}


# ── OpenAI chat ───────────────────────────────────────────────────────────────────────────────────


def to_openai_chat(messages: Sequence[Message], *, repaired: bool = True) -> dict[str, Any]:
    """Return `{"messages": […]}`: the results of a call follow it with the role `tool`.

    Without `repaired`, calls without a result stay so, as they came in.
    """
    ordered = adjacent(messages) if repaired else map(as_blocks, messages)
    return {"messages": [one for message in ordered for one in _chat(message)]}


def from_openai_chat(request: Mapping[str, Any] | Sequence[Message]) -> list[Message]:
    """Return the messages of a request.

    A message that our shape does not hold in full (names, details, refusals) is kept beside it in
    `native_chat`, so that `to_openai_chat` gives back what came in.
    """
    converted: list[Message] = []
    for message in request.get("messages", ()) if isinstance(request, Mapping) else request:
        if _role(message) == "tool":
            _add_result(converted, _chat_result(message))
        else:
            converted.append(_chat_message(message))
    return converted


def _chat_result(message: Mapping[str, Any]) -> Block:
    block = _result_of(message.get("tool_call_id"), message.get("content"))
    is_all = _is_same([*_chat({"role": "user", "content": [block]})], [message])
    return block if is_all else {**block, "native_chat": dict(message)}


def _chat_message(message: Mapping[str, Any]) -> Message:
    content = [
        *_from_parts(message.get("content")),
        *chat_calls(message.get("tool_calls")),
    ]
    role = "system" if _role(message) == "developer" else _role(message)
    converted: Message = {"role": role, "content": _simple(content)}
    is_all = _is_same([*_chat(converted)], [message])
    return converted if is_all else {**converted, "native_chat": dict(message)}


def _chat(message: Message) -> Iterator[Message]:
    role, blocks, native = _role(message), _sendable(message), message.get("native_chat")
    if isinstance(native, dict) and _chat_message(native) == message:
        yield native
        return
    if role == "system":
        yield {"role": "system", "content": "\n\n".join(_texts(message))}
        return
    if role == "assistant":
        if reply := _chat_assistant(blocks):
            yield reply
        return
    results = [block for block in blocks if block.get("type") == "tool_result"]
    yield from map(_tool_message, results)
    pictures = [
        part
        for block in results
        if "native_chat" not in block
        for part in _result_parts(block)
        if part.get("type") in ("image", "document")
    ]
    parts = [part for part in map(_chat_part, [*pictures, *blocks]) if part is not None]
    if parts:
        is_plain = len(parts) == 1 and parts[0]["type"] == "text"
        yield {"role": "user", "content": parts[0]["text"] if is_plain else parts}


def _tool_message(block: Block) -> Message:
    """Return a result as a message of the role `tool`."""
    native = block.get("native_chat")
    if isinstance(native, dict) and _chat_result(native) == block:
        return native
    text = _result_text(block)
    return {"role": "tool", "tool_call_id": block.get("tool_use_id"), "content": text}


def _chat_assistant(blocks: list[Block]) -> Message | None:
    calls = [
        {
            "id": block["id"],
            "type": "function",
            "function": {"name": block.get("name", ""), "arguments": _arguments(block)},
        }
        for block in blocks
        if block.get("type") == "tool_use" and block.get("id")
    ]
    text = "".join(str(block.get("text", "")) for block in blocks if block.get("type") == "text")
    if not text and not calls:
        return None
    return {
        "role": "assistant",
        "content": text or None,
        **({"tool_calls": calls} if calls else {}),
    }


def _chat_part(block: Block) -> Block | None:
    kind = block.get("type")
    if file_id := _file_id(block):
        return {"type": "file", "file": {"file_id": file_id}}
    if kind == "text" and block.get("text"):
        return {"type": "text", "text": block["text"]}
    url = _url(block)
    if kind == "image" and url:
        return {"type": "image_url", "image_url": {"url": url}}
    if kind == "document":
        if (
            isinstance(text := _source(block).get("data"), str)
            and _source(block).get("type") == "text"
        ):
            return {"type": "text", "text": text}
        return (
            {
                "type": "file",
                "file": {"filename": str(block.get("title") or "document"), "file_data": url},
            }
            if url
            else None
        )
    return None


# ── OpenAI responses ──────────────────────────────────────────────────────────────────────────────


def to_openai_responses(messages: Sequence[Message], *, repaired: bool = True) -> dict[str, Any]:
    """Return `{"input": […]}`: messages, calls and their outputs as items of one list.

    Without `repaired`, calls without a result stay so, as they came in.
    """
    ordered = adjacent(messages) if repaired else map(as_blocks, messages)
    return {"input": [item for message in ordered for item in _items(message, repaired)]}


def to_openai_items(message: Message) -> list[dict[str, Any]]:
    """Return the items of one message as they are: no result is moved, and none is added."""
    return [*_items(message)]


def from_openai_responses(request: Mapping[str, Any] | Sequence[Message]) -> list[Message]:
    """Return the messages of a request or a response.

    An item that our shape does not hold in full (ids, status, annotations, files) is kept beside it
    in `native`, so that `to_openai_responses` gives back what came in.
    """
    items = (
        request.get("input", request.get("output", ())) if isinstance(request, Mapping) else request
    )
    if isinstance(items, str):
        return [{"role": "user", "content": items}]
    converted: list[Message] = []
    for item in items:
        role, blocks = _native_blocks(item)
        if role == "assistant":
            for block in blocks:
                _add_block(converted, block)
        elif item.get("type") == "function_call_output":
            _add_result(converted, blocks[0])
        else:
            converted.append(_item_message(item))
    return [{**message, "content": _simple(message["content"])} for message in converted]


def _blocks_of(item: Mapping[str, Any]) -> tuple[str, list[Block]]:
    """Return the role of an item and its blocks in our shape."""
    kind = item.get("type", "message")
    if kind == "function_call_output":
        return "user", [_result_of(item.get("call_id"), item.get("output"))]
    if kind == "function_call":
        name, arguments = item.get("name"), parse_arguments(item.get("arguments"))
        call = {"type": "tool_use", "id": item.get("call_id"), "name": name, "input": arguments}
        return "assistant", [call]
    if kind == "reasoning":
        thinking = {"type": "thinking", "thinking": _summary_text(item), "native": dict(item)}
        return "assistant", [thinking]
    if kind == "message":
        role = "system" if _role(item) == "developer" else _role(item)
        return role, [*_from_parts(item.get("content"))]
    return "assistant", [{"type": kind, "native": dict(item)}]


def _native_blocks(item: Mapping[str, Any]) -> tuple[str, list[Block]]:
    """Return role and blocks, with the item in `native` of the first if they do not hold all of it.

    The others have an empty `native`: they belong to the same item.
    """
    role, blocks = _blocks_of(item)
    is_all = _is_same([*_items({"role": role, "content": blocks})], [item])
    if is_all or (blocks and "native" in blocks[0]):
        return role, blocks
    if role == "assistant" and not blocks:
        return role, [{"type": "message", "native": dict(item)}]
    first = [{**block, "native": dict(item)} for block in blocks[:1]]
    return role, first + [{**block, "native": {}} for block in blocks[1:]]


def _item_message(item: Mapping[str, Any]) -> Message:
    """Return the message of a user or of the system; `native` stands beside its content."""
    role, blocks = _blocks_of(item)
    message: Message = {"role": role, "content": _simple(blocks)}
    is_all = _is_same([*_items(message)], [item])
    return message if is_all else {**message, "native": dict(item)}


def _items(message: Message, repaired: bool = True) -> Iterator[dict[str, Any]]:
    role, native = _role(message), message.get("native")
    if isinstance(native, dict) and role != "assistant" and _item_message(native) == message:
        yield native
        return
    texts = "output_text" if role == "assistant" else "input_text"
    blocks = _sendable(message) if repaired else _blocks(message)
    parts: list[Block] = []
    place = 0
    while place < len(blocks):
        item, count = _item_at(blocks, place)
        if item is None:
            if part := _input_part(blocks[place], texts):
                parts.append(part)
        else:
            if parts:
                yield {"type": "message", "role": role, "content": parts}
                parts = []
            yield item
        place += count
    if parts:
        yield {"type": "message", "role": role, "content": parts}


def _item_at(blocks: list[Block], place: int) -> tuple[dict[str, Any] | None, int]:
    """Return the item that begins with a block, and its number of blocks.

    None for a part of a message. A block that was changed since is not what its item says.
    """
    block = blocks[place]
    kind, native = block.get("type"), block.get("native")
    if isinstance(native, dict) and native:
        if native.get("type") in ("reasoning", kind) and kind not in ("tool_use", "tool_result"):
            return native, 1
        expected = _native_blocks(native)[1]
        if expected and blocks[place : place + len(expected)] == expected:
            return native, len(expected)
    if kind == "tool_use":
        return {
            "type": "function_call",
            "call_id": block.get("id"),
            "name": block.get("name", ""),
            "arguments": _arguments(block),
        }, 1
    if kind == "tool_result":
        return {
            "type": "function_call_output",
            "call_id": block.get("tool_use_id"),
            "output": _result_output(block),
        }, 1
    return None, 1


def _input_part(block: Block, texts: str) -> Block | None:
    if file_id := _file_id(block):
        kind = "input_image" if block.get("type") == "image" else "input_file"
        return {"type": kind, "file_id": file_id}
    part = _chat_part(block)
    if part is None:
        return None
    if part["type"] == "text":
        return {"type": texts, "text": part["text"]}
    if part["type"] == "image_url":
        return {"type": "input_image", "image_url": part["image_url"]["url"]}
    return {
        "type": "input_file",
        "filename": part["file"]["filename"],
        "file_data": part["file"]["file_data"],
    }


def _result_output(block: Block) -> str | list[Block]:
    parts = [
        part for part in (_input_part(one, "input_text") for one in _result_parts(block)) if part
    ]
    return parts if any(part["type"] != "input_text" for part in parts) else _result_text(block)


def _is_same(converted: list[Any], given: list[Any]) -> bool:
    """Return True if both are the same JSON, byte by byte: also in the order of their names."""
    try:
        return json.dumps(converted) == json.dumps(given)
    except (TypeError, ValueError, RecursionError):
        return converted == given


# ── shared ────────────────────────────────────────────────────────────────────────────────────────


def _role(message: Mapping[str, Any]) -> str:
    role = message.get("role")
    return role if isinstance(role, str) else "user"


def _blocks(message: Mapping[str, Any]) -> list[Block]:
    content = message.get("content")
    if isinstance(content, str):
        return [_text_block(content)]
    return (
        [block for block in content if isinstance(block, dict)] if isinstance(content, list) else []
    )


def _sendable(message: Mapping[str, Any]) -> list[Block]:
    """Return the blocks without misplaced calls and results: wrong role, no id, or repeated."""
    allowed = {id(block) for block in (*calls_of(dict(message)), *results_of(dict(message)))}
    return [
        block
        for block in _blocks(message)
        if block.get("type") not in ("tool_use", "tool_result") or id(block) in allowed
    ]


def _texts(message: Mapping[str, Any]) -> list[str]:
    return [block["text"] for block in _blocks(message) if isinstance(block.get("text"), str)]


def _text_block(text: str) -> Block:
    return {"type": "text", "text": text}


def _simple(blocks: list[Block]) -> str | list[Block]:
    """Return a single text block as a plain text."""
    is_text = (
        isinstance(blocks, list)
        and len(blocks) == 1
        and blocks[0].keys() == {"type", "text"}
        and blocks[0]["type"] == "text"
    )
    return blocks[0]["text"] if is_text else blocks


def _result_content(block: Block) -> str | list[Block]:
    content = block.get("content")
    if isinstance(content, list):
        return [
            _text_block(part) if isinstance(part, str) else part
            for part in content
            if isinstance(part, str | dict)
        ]
    return content if isinstance(content, str) else str(block.get("model_text") or "")


def _result_parts(block: Block) -> list[Block]:
    content = _result_content(block)
    return content if isinstance(content, list) else [_text_block(content)]


def _result_text(block: Block) -> str:
    return "\n".join(
        part["text"] for part in _result_parts(block) if isinstance(part.get("text"), str)
    )


def _arguments(block: Block) -> str:
    value = block.get("input")
    return (
        value
        if isinstance(value, str)
        else json.dumps({} if value is None else value, separators=(",", ":"))
    )


def _source(block: Block) -> dict[str, Any]:
    source = block.get("source")
    return source if isinstance(source, dict) else {}


def _file_id(block: Block) -> str | None:
    """Return the id of a file that was uploaded to OpenAI; no other provider knows it."""
    file_id = _source(block).get("file_id")
    is_ours = _source(block).get("provider") == "openai" and isinstance(file_id, str)
    return str(file_id) if is_ours else None


def _file_source(part: Mapping[str, Any], url: Any) -> dict[str, Any]:
    if url is None and isinstance(part.get("file_id"), str):
        return {"type": "file", "provider": "openai", "file_id": part["file_id"]}
    return _from_url(url)


def _url(block: Block) -> str | None:
    source = _source(block)
    if isinstance(source.get("url"), str):
        return str(source["url"])
    if source.get("type") == "base64" and isinstance(source.get("data"), str):
        return (
            f"data:{source.get('media_type', 'application/octet-stream')};base64,{source['data']}"
        )
    return None


def _from_url(url: Any) -> dict[str, Any]:
    if isinstance(url, str) and url.startswith("data:") and ";base64," in url[:200]:
        media, _, data = url[5:].partition(";base64,")
        return {"type": "base64", "media_type": media, "data": data}
    return {"type": "url", "url": url}


def _from_parts(content: Any) -> Iterator[Block]:
    """Yield the parts of a message of either OpenAI format as blocks."""
    if isinstance(content, str):
        yield _text_block(content)
    for part in content if isinstance(content, list) else ():
        kind = part.get("type") if isinstance(part, dict) else None
        if kind in ("text", "input_text", "output_text", "refusal"):
            yield _text_block(str(part.get("text", part.get("refusal", ""))))
        elif kind in ("image_url", "input_image"):
            image = part.get("image_url")
            url = image.get("url") if isinstance(image, dict) else image
            yield {"type": "image", "source": _file_source(part, url)}
        elif kind in ("file", "input_file"):
            file = part["file"] if isinstance(part.get("file"), dict) else part
            yield {
                "type": "document",
                "title": file.get("filename"),
                "source": _file_source(file, file.get("file_data") or file.get("file_url")),
            }
        elif isinstance(part, dict):
            yield dict(part)


def _result_of(id: Any, output: Any) -> Block:
    content: Any = output if isinstance(output, str) else [*_from_parts(output)]
    return {"type": "tool_result", "tool_use_id": id, "content": content}


def _add_result(messages: list[Message], block: Block) -> None:
    last = messages[-1]["content"] if messages and messages[-1]["role"] == "user" else None
    if isinstance(last, list) and last and all(one.get("type") == "tool_result" for one in last):
        last.append(block)
    else:
        messages.append({"role": "user", "content": [block]})


def _add_block(messages: list[Message], block: Block) -> None:
    if (
        not messages
        or messages[-1]["role"] != "assistant"
        or not isinstance(messages[-1]["content"], list)
    ):
        messages.append({"role": "assistant", "content": []})
    messages[-1]["content"].append(block)


def _summary_text(item: Mapping[str, Any]) -> str:
    summary: Iterable[Any] = item.get("summary") or ()
    return "\n".join(
        part["text"]
        for part in summary
        if isinstance(part, dict) and isinstance(part.get("text"), str)
    )
