"""Tokens of Copilot CLI: what messages and the ends of runs say of them."""

from __future__ import annotations

from typing import Any

import msgspec

from ...model import Usage
from ..shared.fold import keep
from ..shared.pick import number, pick
from . import words
from .fold import CopilotFold, Unnamed
from .tokens import UNNAMED, Counts, counts_of, unaccounted

# That are remembered between two reads, the oldest going first.
MODELS, REQUESTS, CALLS = 16, 16, 128


class Spending(CopilotFold):
    def count_output(self, data: dict[str, Any], model: str | None) -> None:
        """The output of a message. A call of the model may be told in several messages that all
        have its count."""
        count = number(data.get("outputTokens")) or 0
        request = pick(data, "apiCallId", of=str)
        new = max(0, count - self.state.requests.get(request, 0)) if request else count
        if not new:
            return
        used = Usage(output_tokens=new)
        event = self.charge(used, model)
        self.count_in(used, model, request)
        key = request or self.native_id
        self.bill(key, Usage(output_tokens=count), event, model)
        if not model and not self.state.model:
            call = Unnamed(self.agent, self.ts, count, event)
            keep(self.state.unnamed, key, call, CALLS)

    def used(self, data: dict[str, Any]) -> None:
        """All that a call took. It is not written in most versions."""
        model, request = pick(data, "model", of=str), pick(data, "apiCallId", of=str)
        whole = words.usage(data)
        before = self.state.requests.get(request, 0) if request else 0
        new = msgspec.structs.replace(whole, output_tokens=max(0, whole.output_tokens - before))
        event = self.emit(
            "lifecycle", "", "assistant.usage",
            f"{whole.total - whole.output_tokens} tokens in, {whole.output_tokens} out",
            "assistant",
            usage=new, tokens=new.total, model=model,
        )  # fmt: skip
        self.count_in(new, model, request)
        self.bill(request or self.native_id, whole, event, model)

    def count_in(self, new: Usage, model: str | None, request: str | None) -> None:
        run, name = self.state.run, (model or UNNAMED)[:200]
        keep(run, name, run.get(name, Counts()).plus(new), MODELS)
        if request:
            keep(
                self.state.requests,
                request,
                self.state.requests.get(request, 0) + new.output_tokens,
                REQUESTS,
            )

    def ended(self, data: dict[str, Any]) -> None:
        """The totals of a run of the program: what no message told of is counted here."""
        state, used = self.state, Counts()
        metrics = pick(data, "modelMetrics", of=dict) or {}
        told = {
            name[:200]: counts_of(words.usage(pick(item, "usage", of=dict)))
            for name, item in list(metrics.items())[:MODELS]
        }
        rest, counted = unaccounted(told, state.run, state.total)
        if len(told) == 1:
            self.name_calls(*told)
        for counts in rest.values():
            used = used.plus(counts.usage())
        usage = used.usage()
        summary = (
            f"session ended: {usage.total - usage.output_tokens} tokens in"
            if usage.total
            else "session ended"
        )
        text = words.rest_of(data, "modelMetrics", "tokenDetails", "agentMetrics")
        event = self.emit(
            "lifecycle",
            text,
            "session.shutdown",
            summary,
            "system",
            usage=usage if usage.total else None,
            tokens=usage.total,
        )
        for name, counts in rest.items():
            if counts.usage().total:
                self.bill(f"{self.native_id}/{name}", counts.usage(), event, name, is_sum=True)
            before = state.total.get(name, Counts())
            keep(
                state.total,
                name,
                before.plus(counted.get(name, Counts()).usage()).plus(counts.usage()),
                MODELS,
            )
        state.run, state.requests, state.unnamed = {}, {}, {}

    def name_calls(self, model: str) -> None:
        """Bill the calls of the run once more, now that their model is known: of two copies of a
        call the one with a model counts."""
        state, at, agent = self.state, self.ts, self.agent
        state.model = state.model or model
        for key, call in state.unnamed.items():
            if call.agent is not None and call.agent not in state.agents:
                continue  # Too long ago.
            self.agent, self.ts = call.agent, call.ts
            self.bill(key, Usage(output_tokens=call.output), call.event, model)
        self.agent, self.ts = agent, at
