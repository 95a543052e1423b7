"""The words of Codex: which user messages people did not write, its ids and times, what its smaller
records say.

Pure functions from text to values. Nothing here knows which thread a record belongs to; tools are
in `tools`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from hashlib import blake2b
from typing import Any
from urllib.parse import unquote

import msgspec

from ...model import Tier
from ...text.remotes import remote_name
from ..shared.jsonl import to_json
from ..shared.tools import blob_reference, text_of
from .lines import Block, Counts, Total

# Messages in the person's role that the program wrote.

_CONTEXTS = {
    "<environment_context>": "environment_context",
    "<user_instructions>": "user_instructions",
    "# AGENTS.md instructions": "agents_md",
    "<external_": "external",
    "<skill>": "skill",
    "<turn_aborted>": "turn_aborted",
    "<subagent_notification>": "subagent_notification",
    "<codex_internal_context": "internal_context",
    "<goal_context>": "goal_context",
    "<recommended_plugins>": "recommended_plugins",
    "<hook_prompt": "hook_prompt",
    "<user_action>": "user_action",
    "<user_shell_command>": "user_shell_command",
    "Warning: The maximum number of unified exec": "warning",
    "Warning: apply_patch was requested via": "warning",
}
_CONTEXT_STARTS = tuple(_CONTEXTS)
_REQUEST = "## My request for Codex:"
_OLD_CWD = "Current working directory: "
_IMAGE_TAGS = ("<image", "</image")


def context_of(text: str) -> str | None:
    """The program's word for a message that it wrote in the person's place; None for what a person
    typed."""
    start = text.lstrip()
    if not start.startswith(_CONTEXT_STARTS):
        return None
    return next(word for begin, word in _CONTEXTS.items() if start.startswith(begin))


def request_in(text: str) -> str:
    """Return what a person typed, without what their editor put before it."""
    _, found, rest = text.partition(_REQUEST)
    return rest.strip() if found and rest.strip() else text


def inside(tag: str, text: str) -> str:
    _, opened, rest = text.partition(f"<{tag}>")
    return rest.partition(f"</{tag}>")[0].strip() if opened else ""


def cwd_in(text: str) -> str | None:
    """The folder that an environment context names: the only place where old rollouts have it."""
    _, found, rest = text.partition(_OLD_CWD)
    return (rest.partition("\n")[0].strip() if found else inside("cwd", text)) or None


def is_image_tag(text: str) -> bool:
    return text.startswith(_IMAGE_TAGS) and len(text) < 300


def shown(block: Block) -> str:
    """A block for reading."""
    if block.text is not None:
        return block.text
    if block.image_url is not None:
        return image(block.image_url)
    return f"[{block.type or 'unknown'}]"


def image(url: Any) -> str:
    if isinstance(url, dict):
        url = url.get("url")
    text = text_of(url)
    if text.startswith("data:"):
        return blob_reference(text.partition(",")[2])
    return text if text.startswith("[") else f"[image {text[:500]}]"


class Input(msgspec.Struct, gc=False):
    """A message in the person's role, by who wrote its parts."""

    contexts: list[tuple[str, str]] = msgspec.field(default_factory=list)
    """Texts of the program, and its words for them."""
    typed: list[str] = msgspec.field(default_factory=list)
    pictures: list[str] = msgspec.field(default_factory=list)


def split_input(blocks: Iterable[Block]) -> Input:
    """Return what a person typed, and what the program put beside it."""
    found = Input()
    for block in blocks:
        text = shown(block)
        if block.text is None:
            found.pictures.append(text)
        elif is_image_tag(text) or not text.strip():
            continue
        elif word := context_of(text):
            found.contexts.append((text, word))
        else:
            found.typed.append(text)
    return found


def joined(content: str | list[Block] | None) -> str:
    if isinstance(content, list):
        return "\n".join([shown(block) for block in content])
    return content or ""


@lru_cache(maxsize=8)  # Twins stand near each other, and mostly are the same: a third of the time.
def key_of(text: str) -> bytes:
    """Tells two messages apart by what is not white space: their twins differ in that."""
    if not text.isascii() and _RARE_SPACE.search(text):
        text = "".join(text.split())
    # The same for all others, in a third less time.
    return blake2b(text.encode("utf-8", "replace").translate(None, _SPACE), digest_size=8).digest()


_SPACE = b"\t\n\x0b\x0c\r\x1c\x1d\x1e\x1f "
_RARE_SPACE = re.compile("[\x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]")


# Times and ids.


def born_at(thread: str) -> int | None:
    """The time (ms) in an id that is a UUID of version 7, which those of threads and turns are
    since 2025-10."""
    return int(thread[:8] + thread[9:13], 16) if len(thread) == 36 and _V7.match(thread) else None


_V7 = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}\Z")


def place(name: str) -> str:
    """A path, which some versions write as an address."""
    if not name.startswith("file://"):
        return name
    host, _, path = name[7:].partition("/")
    path = unquote(
        f"/{path}" if host in ("", "localhost") else f"//{host}/{path}", errors="replace"
    )
    return path[1:] if _DRIVE.match(path) else path


_DRIVE = re.compile(r"/[A-Za-z]:/")


def repo_of(url: str | None) -> str | None:
    """`owner/name` of a remote."""
    return remote_name(url) if url else None


def seconds(value: Any) -> float | None:
    """A time in Unix seconds, which some writers give in milliseconds."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < 1e14:
        return None
    return value / 1000 if value > 1e11 else float(value)


def milliseconds(value: Any) -> int | None:
    """A duration: a number of ms, or `{"secs", "nanos"}`."""
    if isinstance(value, dict):
        whole, rest = value.get("secs"), value.get("nanos")
        if not isinstance(whole, int) or isinstance(whole, bool):
            return None
        value = whole * 1000 + (rest // 1_000_000 if isinstance(rest, int) else 0)
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return int(value) if is_number and 0 <= value < MAX_COUNT else None


# A larger count is damage. The sum over a million events still fits a database column.
MAX_COUNT = 1 << 40


def exit_number(value: Any) -> int | None:
    return value if type(value) is int and abs(value) < 1 << 31 else None


_TIERS: dict[object, Tier] = {
    "priority": "priority",
    "fast": "priority",
    "flex": "flex",
    "batch": "batch",
}


def tier_of(value: Any) -> Tier | None:
    """Return the service tier of requests. "fast" is the program's word for the provider's tier
    "priority"."""
    return _TIERS.get(value) if isinstance(value, str) else None


def name_of(total: Total) -> str:
    """A running total as a part of a name: within a thread, no two requests end at the same."""
    return f"{total[0]}.{total[1]}.{total[2]}.{total[3]}.{total[4]}.{total[5]}"


def total_of(counts: Counts) -> Total:
    """Input without what came from the cache or went there, cache read, cache write, output,
    reasoning, and the sum as written."""
    given, read, said = (
        counts.input_tokens or 0,
        counts.cached_input_tokens or 0,
        counts.output_tokens or 0,
    )
    written = counts.cache_write_input_tokens or counts.cache_creation_input_tokens or 0
    thought, total = counts.reasoning_output_tokens or 0, counts.total_tokens or 0
    # Nearly always it is as it should be, and written so that asking costs little.
    if (
        min(read, written, thought, total) >= 0
        and read + written <= given < MAX_COUNT
        and thought <= said < MAX_COUNT
        and total < MAX_COUNT
    ):
        return given - read - written, read, written, said, thought, total
    given, said = _sane(given), _sane(said)
    read = min(_sane(read), given)
    written = min(_sane(written), given - read)
    return given - read - written, read, written, said, min(_sane(thought), said), _sane(total)


def _sane(count: int) -> int:
    return count if 0 <= count < MAX_COUNT else 0


# What other records say.


def mcp_result(value: Any) -> tuple[str, bool]:
    """The text of what an MCP server answered, and whether it failed: `{"Ok": …}` or `{"Err": …}`,
    or the answer itself."""
    if isinstance(value, dict) and "Err" in value:
        return text_of(value["Err"]), True
    answer = value.get("Ok", value) if isinstance(value, dict) else value
    if not isinstance(answer, dict):
        return text_of(answer), False
    failed = answer.get("isError") is True or answer.get("is_error") is True
    content = answer.get("content")
    texts = (
        [_item_text(item) for item in content] if isinstance(content, list) else [text_of(content)]
    )
    structured = answer.get("structuredContent", answer.get("structured_content"))
    return "\n".join([text for text in [*texts, text_of(structured)] if text]), failed


def _item_text(item: Any) -> str:
    if not isinstance(item, dict):
        return text_of(item)
    if isinstance(text := item.get("text"), str):
        return text
    return image(item["image_url"]) if "image_url" in item else f"[{text_of(item.get('type'))}]"


def items_text(items: Any) -> str:
    return (
        "\n".join([_item_text(item) for item in items])
        if isinstance(items, list)
        else text_of(items)
    )


def search_text(action: Any, query: Any) -> str:
    """Return the query of a web search."""
    if isinstance(action, dict):
        for name in ("url", "query", "queries", "pattern"):
            value = action.get(name)
            if value:
                return "\n".join(map(text_of, value)) if isinstance(value, list) else text_of(value)
    return text_of(query)


def review_text(output: Any) -> str:
    if not isinstance(output, dict):
        return text_of(output)
    findings = output.get("findings")
    found = (
        [finding for finding in findings if isinstance(finding, dict)]
        if isinstance(findings, list)
        else []
    )
    parts = [
        f"{text_of(finding.get('title'))}\n{text_of(finding.get('body'))}" for finding in found
    ]
    return "\n\n".join(filter(None, [text_of(output.get("overall_explanation")), *parts]))


def error_text(value: Any) -> str:
    """The readable part of an error."""
    for _ in range(8):
        if not isinstance(value, dict):
            break
        inner = next((value[name] for name in ("message", "error") if value.get(name)), None)
        if inner is None:
            break
        value = inner
    return text_of(value)


# The history that a compaction leaves.

_SEALED = frozenset({"compaction", "compaction_summary", "context_compaction"})
_UNSENT = frozenset({"ghost_snapshot"})  # The program's own notes: the model does not get them.


class Part(msgspec.Struct, gc=False):
    """A part of the history that the model has after a compaction."""

    role: str | None
    key: bytes
    """The same for the event of the same text in the same role."""
    text: str
    is_summary: bool = False


def history_parts(item: dict[str, Any]) -> list[Part]:
    """Return what an item of such a history says, divided as the events of a message are."""
    kind, role = text_of(item.get("type")), item.get("role")
    if kind in _UNSENT:
        return []
    if not isinstance(role, str):
        return [_other_part(item, kind)]
    blocks = _blocks(item.get("content"))
    if role == "assistant":
        texts = [joined(blocks)]
    elif role == "user":
        found = split_input(blocks)
        texts = [text for text, _ in found.contexts]
        if found.typed or found.pictures:
            typed = "\n".join(found.typed)
            key = b"user" + key_of(typed or "\n".join(found.pictures))
            said = "\n".join([typed, *found.pictures] if typed else found.pictures)
            return [*_parts(role, texts), Part(role, key, said)]
    else:
        texts = [shown(block) for block in blocks]
    return _parts(role, texts)


def _parts(role: str, texts: list[str]) -> list[Part]:
    return [Part(role, role_key(role, text), text) for text in texts if text.strip()]


def role_key(role: str | None, text: str) -> bytes:
    """Tells messages apart by who is said to speak, and by what is not white space."""
    return (role or "").encode("utf-8", "replace")[:40] + key_of(text)


def agents_key(author: Any, recipient: Any, text: str) -> bytes:
    """Tells messages between agents apart."""
    return b"agents" + key_of(f"{author} {recipient} {text}")


def _other_part(item: dict[str, Any], kind: str) -> Part:
    """An item that is no message of the conversation: a summary that only the provider can read, a
    message of another agent, or a call."""
    if kind in _SEALED:
        sealed = text_of(item.get("encrypted_content"))
        text = sealed if sealed.startswith("[encrypted") else f"[encrypted {len(sealed)} B]"
        return Part(None, b"", text if sealed else "[encrypted]", is_summary=True)
    text = joined(_blocks(item.get("content")))
    if kind == "agent_message":
        return Part("user", agents_key(item.get("author"), item.get("recipient"), text), text)
    role = "tool" if kind.endswith("_output") else "assistant" if kind.endswith("_call") else None
    return Part(role, b"", text or without_blobs(to_json(item)).decode("utf-8", "replace"))


def _blocks(content: Any) -> list[Block]:
    if isinstance(content, str):
        return [Block(text=content)]
    parts = content if isinstance(content, list) else []
    return [
        Block(
            type=kind if isinstance(kind := part.get("type"), str) else None,
            text=text if isinstance(text := part.get("text"), str) else None,
            image_url=part.get("image_url"),
        )
        for part in parts
        if isinstance(part, dict)
    ]


def texts_in(items: Iterable[Any]) -> str:
    """The texts of the content of a message that is not decoded into blocks."""
    return "".join([text_of(item.get("text")) for item in items if isinstance(item, dict)])


_DATA = re.compile(rb'(?<=")data:[\w.+/-]{1,100};base64,([A-Za-z0-9+/\\]{256,}={0,2})(?=")')
_CIPHER = re.compile(rb'("encrypted_content"\s{0,9}:\s{0,9}")([A-Za-z0-9+/_=\\-]{128,})(?=")')


def without_blobs(line: bytes) -> bytes:
    """A line whose pictures and ciphertexts, which nobody can read, are replaced by short
    references."""
    if b";base64," in line:
        line = _DATA.sub(lambda found: blob_reference(found[1].replace(b"\\", b"")).encode(), line)
    if b'"encrypted_content"' in line:
        line = _CIPHER.sub(lambda found: b"%s[encrypted %d B]" % (found[1], len(found[2])), line)
    return line
