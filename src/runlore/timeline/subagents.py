"""Subagents with the calls that started them: by an id, else by the prompt.

A pair is only given where something proves it. Calls that run side by side begin in one order and
their subagents in another, so the order proves nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from itertools import islice
from typing import Literal

import msgspec

from .tool_call import ToolCall

MAX_PROMPT_CHARS = 4_000
"""Characters of a subagent's prompt that are compared."""
MAX_CALL_CHARS = 200_000
MAX_ARGUMENTS = 12
MIN_WORDS = 3
"""Words of an argument that prove something when a prompt ends with them."""

_ARGUMENT = re.compile(r"^[A-Za-z_][\w-]{0,60}: ", re.MULTILINE)
_ESCAPES = re.compile(r"\\[nrt]")
_WORDS = re.compile(r"\w+")


class Pair(msgspec.Struct, frozen=True, gc=False):
    """A subagent, and the seq of the call that started it."""

    call: int
    uid: str
    by: Literal["id", "prompt"]


class Subagent(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A subagent whose call is looked for by its prompt."""

    uid: str
    began: datetime | None
    prompt: str
    calls: frozenset[int] | None = None
    """The seqs of the only calls that come into question; None for all."""


class AgentCall(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A call that may have started a subagent, with its text."""

    seq: int
    begun: datetime | None
    ended: datetime | None
    text: str

    def was_running(self, at: datetime | None) -> bool:
        """Return True if the call is known to have been running at this moment."""
        if at is None or self.begun is None:
            return False
        return self.begun <= at and (self.ended is None or at <= self.ended)


def match_ids(
    calls: Sequence[ToolCall], recorded: Mapping[str, str | None]
) -> tuple[list[Pair], dict[str, frozenset[int] | None]]:
    """Return the pairs that ids prove, and the subagents for which the prompt has to decide.

    `recorded` has for each subagent the id of its call, or a session that the same call started,
    where the agent records that (see `Facts.parent_call`). Otherwise the first call that names the
    subagent started it: later ones wait for it, or write to it. For a subagent that is left the
    calls that come into question are given, or None for all of them.
    """
    by_id, naming = _index_calls(calls)
    pairs: list[Pair] = []
    open_: dict[str, frozenset[int] | None] = {}
    for uid, call_id in recorded.items():
        # A recorded call that is not here was made elsewhere. Then no other call started it.
        seqs: list[int] = []
        if call_id is not None:
            seqs = [naming[call_id]] if call_id in naming else by_id.get(call_id, [])
        if len(seqs) == 1:
            pairs.append(Pair(seqs[0], uid, "id"))
        elif call_id is None and uid in naming:
            pairs.append(Pair(naming[uid], uid, "id"))
        elif seqs or call_id is None:
            open_[uid] = frozenset(seqs) or None
    return pairs, open_


def _index_calls(calls: Iterable[ToolCall]) -> tuple[dict[str, list[int]], dict[str, int]]:
    """Return the calls by their id, and the first call that names each session."""
    by_id: dict[str, list[int]] = {}
    naming: dict[str, int] = {}
    for pair in calls:
        if pair.call is None:
            continue
        if pair.call.call_id is not None:
            by_id.setdefault(pair.call.call_id, []).append(pair.call.seq)
        for event in (pair.call, pair.result, *pair.others):
            for uid in event.refs if event is not None else ():
                naming.setdefault(uid, pair.call.seq)
    return by_id, naming


def match_prompts(calls: Iterable[AgentCall], subagents: Iterable[Subagent]) -> list[Pair]:
    """Return the pairs that prompts prove: one call has the prompt of the subagent.

    Of several calls with this prompt the one that was running when the subagent began is meant, if
    there is only one. A call that has a prompt once started one subagent with it.
    """
    texts = {call.seq: (call, _CallText(call.text)) for call in calls}
    claims: dict[tuple[int, str], list[Subagent]] = {}
    for subagent in subagents:
        prompt = _Prompt(subagent.prompt)
        holders = [
            call
            for call, text in texts.values()
            if text.count(prompt) and (subagent.calls is None or call.seq in subagent.calls)
        ]
        if len(holders) > 1:
            holders = [call for call in holders if call.was_running(subagent.began)]
        if len(holders) == 1:
            claims.setdefault((holders[0].seq, prompt.words), []).append(subagent)
    pairs = []
    for (seq, _), rivals in claims.items():
        call, text = texts[seq]
        count = text.count(_Prompt(rivals[0].prompt))
        if len(rivals) > count:
            rivals = [subagent for subagent in rivals if call.was_running(subagent.began)]
        if len(rivals) <= count:
            pairs += [Pair(seq, subagent.uid, "prompt") for subagent in rivals]
    return pairs


def has_prompt(text: str, prompt: str) -> bool:
    """Return True if the text of a call has the prompt of a subagent.

    Only words count: white space is not always copied faithfully, and a prompt may stand in JSON.
    """
    return _CallText(text).count(_Prompt(prompt)) > 0


class _Prompt:
    """The words of a subagent's prompt, between blanks."""

    def __init__(self, text: str) -> None:
        words = _words(text[:MAX_PROMPT_CHARS])
        # One that is cut off ends with a whole word.
        self.words = f" {words if len(text) <= MAX_PROMPT_CHARS else words.rpartition(' ')[0]} "
        self.end = f" {_words(text[-MAX_PROMPT_CHARS:])} "


class _CallText:
    """The words of a call's text, and its arguments, which stand on lines `name: value`."""

    def __init__(self, text: str) -> None:
        text = text[:MAX_CALL_CHARS]
        self.words = f" {_words(text)} "
        starts = list(islice(_ARGUMENT.finditer(text), MAX_ARGUMENTS))
        ends = [*[start.start() for start in starts], len(text)]
        # A line of a prompt may look like an argument, so an argument may end at any later one.
        values = {
            _words(text[start.end() : end])
            for n, start in enumerate(starts)
            for end in ends[n + 1 :]
        }
        self.values = [f" {value} " for value in values if value.count(" ") >= MIN_WORDS - 1]

    def count(self, prompt: _Prompt) -> int:
        """Return how often the call has a prompt. It may have been given to the subagent after
        something else, such as the state of the repository."""
        if not prompt.words.strip():
            return 0
        return self.words.count(prompt.words) or int(
            any(prompt.end.endswith(value) for value in self.values)
        )


def _words(text: str) -> str:
    return " ".join(_WORDS.findall(_ESCAPES.sub(" ", text)))
