"""A document as a list of records, in the order in which things happened: the prompt, each part of
the answer, its end. Pure.

A call is shown to people in one place; its arguments and its result are in others. Here they are
joined.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from ..shared.calls import opened
from ..shared.pick import pick
from .words import path_of, rendered_text, shown

# Complete, cancelled, failed: the states of a request in which nothing is added to it.
FINAL = (1, 2, 3)
MORE = 1_000_000  # The first number of calls that are only in the model's own rounds.
_SUFFIX = re.compile(r"__vscode-\d+\Z")


def is_open(request: Any) -> bool:
    """Return True if a request is still being answered."""
    if (
        not isinstance(request, dict)
        or request.get("isCanceled") is True
        or isinstance(request.get("result"), dict)
    ):
        return False
    return pick(request, "modelState", "value", of=int) not in FINAL


def records(requests: list[Any], strange: list[tuple[int, Any]]) -> Iterator[dict[str, Any]]:
    """Yield all records of these requests, and between them the strange lines of the log, each of
    which has the number of requests before it."""
    for n, request in enumerate(requests):
        yield from ({"kind": "strange", "value": value} for place, value in strange if place == n)
        if not isinstance(request, dict):
            yield {"kind": "strange", "value": request}
            continue
        name = pick(request, "requestId", of=str) or str(n)
        for record in _request(request):
            yield {"request": name, **record}
    yield from (
        {"kind": "strange", "value": value} for place, value in strange if place == len(requests)
    )


def _request(request: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield _prompt(request)
    yield from _answer(request)
    yield _end(request)


def _prompt(request: dict[str, Any]) -> dict[str, Any]:
    metadata = pick(request, "result", "metadata", of=dict) or {}
    message = request.get("message")
    variables = pick(request, "variableData", "variables", of=list) or []
    record = {
        "kind": "prompt",
        "timestamp": request.get("timestamp"),
        "text": message if isinstance(message, str) else pick(message, "text", of=str),
        "model": request.get("modelId"),
        "mode": pick(request, "modeInfo", "kind", of=str) or pick(request, "agent", "name", of=str),
        "command": pick(request, "slashCommand", "name", of=str),
        "variables": [
            {"name": pick(item, "name", of=str), "path": path_of(item), "text": _text(item)}
            for item in variables
        ],
        "global": rendered_text(metadata.get("renderedGlobalContext")),
        "context": rendered_text(metadata.get("renderedUserMessage")),
    }
    return {name: value for name, value in record.items() if value not in (None, "", [])}


def _text(variable: Any) -> str | None:
    value = variable.get("value") if isinstance(variable, dict) else variable
    return value if isinstance(value, str) else None


def _answer(request: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the parts of an answer. Adjacent texts and references are joined to one."""
    parts = request.get("response")
    parts = parts if isinstance(parts, list) else [] if parts is None else [parts]
    calls = _Calls(request, parts)
    run: dict[str, Any] | None = None
    for n, part in enumerate(parts):
        kind = kind_of(part)
        if kind in ("markdown", "inlineReference"):
            run = run or {"kind": "text", "n": n, "text": ""}
            run["text"] += shown(part)
            if base := pick(part, "baseUri", "path", of=str):
                run["base"] = base
            continue
        if run is not None:
            yield run
            run = None
        yield (
            calls.of(n, part)
            if kind == "toolInvocationSerialized"
            else {"kind": kind, "n": n, "part": part}
        )
    if run is not None:
        yield run
    yield from calls.others()


_KEYS = {
    "toolCallId": "toolInvocationSerialized",
    "inlineReference": "inlineReference",
    "edits": "textEditGroup",
}


def kind_of(part: Any) -> str:
    """Return the kind of a part: its own word, else one judged by its fields. Text has no word."""
    if not isinstance(part, dict):
        return "markdown" if isinstance(part, str) else "unknown"
    word = pick(part, "kind", of=str)
    if word is None:
        return next(
            (kind for key, kind in _KEYS.items() if key in part),
            "markdown" if "value" in part else "unknown",
        )
    return "markdown" if word in ("markdownContent", "markdownVuln") else word


class _Calls:
    """The arguments and the results of the calls of a request.

    Newer versions show a call under the id that the model gave it; in older ones only the order
    matches them."""

    def __init__(self, request: dict[str, Any], parts: list[Any]) -> None:
        metadata = pick(request, "result", "metadata", of=dict) or {}
        self.results = pick(metadata, "toolCallResults", of=dict) or {}
        self.rounds: list[tuple[str, dict[str, Any]]] = []
        for turn in pick(metadata, "toolCallRounds", of=list) or []:
            about = {
                "retry": pick(turn, "toolInputRetry", of=int),
                "timestamp": pick(turn, "timestamp", of=int),
            }
            for call in pick(turn, "toolCalls", of=list) or []:
                given = call if isinstance(call, dict) else {}
                self.rounds.append(
                    (
                        str(given.get("id")),
                        {**given, **{name: value for name, value in about.items() if value}},
                    )
                )
                about.pop("retry", None)
        self.left = dict.fromkeys(range(len(self.rounds)))
        self.by_id = {_SUFFIX.sub("", name): n for n, (name, _) in enumerate(self.rounds)}
        shown = [part for part in parts if kind_of(part) == "toolInvocationSerialized"]
        is_named = any(pick(part, "toolCallId", of=str) in self.by_id for part in shown)
        self.is_ordered = not is_named and len(shown) == len(self.rounds)

    def of(self, n: int, part: Any) -> dict[str, Any]:
        part = part if isinstance(part, dict) else {}
        place = self.by_id.get(str(part.get("toolCallId")))
        if place is None and self.is_ordered:
            place = next(iter(self.left), None)
        return {
            "kind": "call",
            "n": n,
            "part": _slim(part),
            **(self._given(place) if place is not None else {}),
        }

    def others(self) -> Iterator[dict[str, Any]]:
        """Yield the calls that were not shown."""
        for place in list(self.left) if self.left and not self.is_ordered else ():
            yield {"kind": "call", "n": MORE + place, **self._given(place)}

    def _given(self, place: int) -> dict[str, Any]:
        self.left.pop(place, None)
        name, call = self.rounds[place]
        fields = {
            "id": _SUFFIX.sub("", name),
            "name": call.get("name"),
            "arguments": opened(call.get("arguments")),
            "retry": call.get("retry"),
            "timestamp": call.get("timestamp"),
            "result": rendered_text(pick(self.results.get(name), "content", of=list))
            if name in self.results
            else None,
        }
        return {word: value for word, value in fields.items() if value is not None}


def _slim(part: dict[str, Any]) -> dict[str, Any]:
    """Return a call as it is shown, without the fields that only its drawing needs."""
    return {
        word: value
        for word, value in part.items()
        if word not in ("source", "presentation", "generatedTitle", "kind")
    } | {"source": pick(part, "source", "type", of=str)}


def _end(request: dict[str, Any]) -> dict[str, Any]:
    result = pick(request, "result", of=dict) or {}
    metadata = pick(result, "metadata", of=dict) or {}
    record = {
        "kind": "end",
        "started": request.get("timestamp"),
        "completed": pick(request, "modelState", "completedAt", of=int),
        "elapsed": pick(result, "timings", "totalElapsed", of=int) or request.get("elapsedMs"),
        "state": pick(request, "modelState", "value", of=int),
        "canceled": request.get("isCanceled") is True or None,
        "error": result.get("errorDetails"),
        "vote": request.get("vote"),
        "model": pick(metadata, "resolvedModel", of=str) or request.get("modelId"),
        "input": request.get("promptTokens", metadata.get("promptTokens")),
        "output": request.get("completionTokens", metadata.get("outputTokens")),
        "credits": request.get("copilotCredits"),
        "rounds": len(pick(metadata, "toolCallRounds", of=list) or []),
        "open": is_open(request) or None,
    }
    return {name: value for name, value in record.items() if value is not None}
