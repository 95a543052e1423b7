"""Tokens of a request or a turn, from totals that also grow by the tokens of other threads."""

from __future__ import annotations

from ...model import Call, Usage
from .. import LOST
from ..shared.fold import keep
from ..shared.jsonl import lenient
from ..shared.tools import text_of
from . import words
from .fold import MAX_NAME, TOTALS
from .lines import Counts, Info, Payload, Total
from .messages import Messages

_NONE_USED = 0, 0, 0, 0, 0


class Requests(Messages):
    def token_count(self, payload: Payload) -> None:
        info = payload.info
        used = self.used(info) if info is not None else None
        if used is None or used[:5] == _NONE_USED:
            self.merge("token_count")
            return
        total, usage = self.state.total or used, _usage(used)
        identity = f"tokens\0{total[0]}\0{total[1]}\0{total[3]}\0{total[5]}"
        model = (info.model if info else None) or self.state.model
        summary = f"{used[0] + used[1] + used[2]} tokens in, {used[3]} out"
        event = self.emit(
            "lifecycle",
            "",
            "token_count",
            summary,
            identity=identity,
            usage=usage,
            model=model,
            tokens=usage.total,
        )
        told = info.total_token_usage if info is not None else None
        self.bill(
            used,
            model,
            f"{self.owner}:{words.name_of(total)}" if told is not None else event,
            event,
        )

    def headless_turn(self, payload: Payload) -> None:
        """The end of a turn as `codex exec --json` prints it, with its tokens."""
        plain, state = self.plain(), self.state
        found = plain.get("usage")
        used = words.total_of(lenient(Counts, found)[0]) if isinstance(found, dict) else None
        text = text_of(plain.get("message"))
        if (
            used is None
            or used[:5] == _NONE_USED
            or state.total is not None
            or state.replay is not None
        ):
            self.emit("completion", text, "turn.completed", "turn finished")
        else:
            usage = _usage(used)
            event = self.emit(
                "completion",
                text,
                "turn.completed",
                "turn finished",
                usage=usage,
                model=state.model,
                tokens=usage.total,
            )
            self.bill(used, state.model, event, event, is_sum=True)

    def bill(
        self, used: Total, model: str | None, key: str, event: str, *, is_sum: bool = False
    ) -> None:
        """For the ledger: a request of this thread, or a turn. A copy of another thread's never
        comes here: it is billed there."""
        given, read, written, said, thought, _ = used
        call = Call(
            key=key, session_uid=self.stream_uid(), ts=self.ts, provider=self.state.provider,
            tier=self.state.tier,
            model=model and model[:MAX_NAME],
            input_tokens=given, cache_read_tokens=read, cache_write_5m_tokens=written,
            output_tokens=said, reasoning_tokens=thought,
            is_sidechain=self.state.is_side, is_sum=is_sum,
        )  # fmt: skip
        self.out.calls.append((call, event))

    def used(self, info: Info) -> Total | None:
        """Return the tokens of one request; None when they were counted before, or are counted
        where they were used."""
        state = self.state
        total, last = _total_of(info.total_token_usage), _total_of(info.last_token_usage)
        if total is None:
            return last if state.replay is None else None
        before, state.total = state.total, total
        is_repeated = self.is_repeated_total(total)
        if state.replay is not None:
            state.has_own_total = False
            return None
        if is_repeated or self.is_inherited_total(total, before, last):
            return None
        if last is not None:
            self.count_lost(total, before, last)
            state.has_own_total = True
            return last
        if before is None:
            return total if state.parent is None else None
        return _difference(total, before)

    def is_repeated_total(self, total: Total) -> bool:
        """Return True if a total was read before, and remember it."""
        name = f"{total[0]}/{total[1]}/{total[2]}/{total[3]}/{total[4]}/{total[5]}"
        is_repeated = name in self.state.totals
        keep(self.state.totals, name, True, TOTALS)
        return is_repeated

    def is_inherited_total(self, total: Total, before: Total | None, last: Total | None) -> bool:
        """Return True if a total is the parent's. That of a thread which has said nothing yet is,
        unless the thread has the parent's history, and so its total."""
        state = self.state
        if state.parent is None or state.has_spoken:
            return False
        return (before is None and total != last) or len(state.kin) == 1

    def count_lost(self, total: Total, before: Total | None, last: Total) -> None:
        """Count the tokens by which the total grew beyond those of the request."""
        if before is None or not self.state.has_own_total:
            return
        if (lost := total[5] - before[5] - last[5]) > 0:
            self.skip(f"{lost} {LOST}")


def _total_of(counts: Counts | None) -> Total | None:
    return None if counts is None else words.total_of(counts)


def _difference(total: Total, before: Total) -> Total:
    grown = [max(0, now - then) for now, then in zip(total, before, strict=True)]
    return grown[0], grown[1], grown[2], grown[3], grown[4], grown[5]


def _usage(used: Total) -> Usage:
    given, read, written, said, thought, _ = used
    return Usage(
        input_tokens=given,
        cache_read_tokens=read,
        cache_write_tokens=written,
        output_tokens=said,
        reasoning_tokens=thought,
    )
