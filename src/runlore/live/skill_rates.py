"""Totals over skill invocations: pass rates per skill and model, and a history for the next prompt.

Pure functions over entries. The time is passed in.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta

from ..errors import ModelError
from ..model import Plain
from .skill_fold import SkillAttempt, SkillEntry, Status

REFUSED = frozenset({"escalate", "error"})
"""Verdicts of a verifier that rejected an attempt's output; `accept` is the one that did not."""

HISTORY_ENTRIES, HISTORY_CHARS, LINE_CHARS = 20, 8000, 300
"""Limits that leave room in a prompt: number of entries, characters, characters per line."""


class Rate(Plain, frozen=True, kw_only=True):
    """The results of a model at a skill.

    An invocation counts once for each model that tried it, with the result of that model's last
    attempt: a small model whose output was escalated has failed, even if the larger one then
    passed. `model` is None if the log names none.
    """

    skill: str
    model: str | None
    rate: float | None = None
    """Share of passed, of all that were not skipped; None if none passed or failed."""
    passed: int = 0
    failed: int = 0
    skipped: int = 0
    running: int = 0
    unknown: int = 0
    verified: int = 0
    """Number of passes with a check as evidence."""
    attempts: int = 0
    tokens: int = 0
    usd: float | None = None
    duration_ms: int = 0


def pass_rates(
    entries: Iterable[SkillEntry], window: str | None = None, *, now: datetime
) -> list[Rate]:
    """Return the rates of all (skill, model), sorted.

    A window is `Nh` or `Nd`: only invocations that began within it count.
    """
    rates: dict[tuple[str, str | None], Rate] = {}
    for entry in within(entries, window, now):
        for model, attempts in _by_model(entry).items():
            key = entry.skill, model
            rates[key] = _counted(
                rates.get(key) or Rate(skill=entry.skill, model=model), entry, attempts
            )
    return [rates[key] for key in sorted(rates, key=lambda key: (key[0], key[1] or ""))]


def pass_rate(
    entries: Iterable[SkillEntry],
    skill: str,
    model: str | None,
    window: str | None,
    *,
    now: datetime,
) -> float | None:
    """Return the rate of one skill for one model, or for its invocations as a whole.

    Those without a result count as well. None if no result is known.
    """
    chosen = [entry for entry in within(entries, window, now) if entry.skill == skill]
    if model is None:
        words = [entry.final_status for entry in chosen]
        others = words.count("running") + words.count("unknown")
        return _rate(words.count("pass"), words.count("fail"), others)
    return next((rate.rate for rate in pass_rates(chosen, now=now) if rate.model == model), None)


def within(
    entries: Iterable[SkillEntry], window: str | None, now: datetime
) -> Iterable[SkillEntry]:
    """Return the entries that began in the window. An entry without a time is in no window."""
    if window is None:
        return entries
    start = now - window_of(window)
    return [entry for entry in entries if entry.timestamp is not None and entry.timestamp >= start]


def window_of(text: str) -> timedelta:
    """Parse a window such as `24h` or `7d`. Raises ModelError for anything else."""
    # A longer window would begin before the first datetime.
    match = re.fullmatch(r"\s*([1-9][0-9]{0,4})\s*([hd])\s*", text)
    if match is None:
        raise ModelError(f"window {text!r} must be a number of hours or days: 24h, 7d")
    number = int(match[1])
    return timedelta(hours=number) if match[2] == "h" else timedelta(days=number)


def result_of(entry: SkillEntry, attempt: SkillAttempt) -> Status:
    """Return the result of an attempt: by its checks, its verifier or its error.

    Without these, the last attempt has the result of the invocation.
    """
    if attempt.verified is not None:
        return "pass" if attempt.verified else "fail"
    if attempt.error is not None or attempt.verdict in REFUSED:
        return "fail"
    if attempt.verdict == "accept":
        return "pass"
    # Someone tried again, so this attempt was not good enough.
    return entry.final_status if attempt is entry.attempts[-1] else "fail"


def _by_model(entry: SkillEntry) -> dict[str | None, list[SkillAttempt]]:
    if not entry.attempts:
        return {entry.model_used: []}
    attempts_by_model: dict[str | None, list[SkillAttempt]] = {}
    for attempt in entry.attempts:
        attempts_by_model.setdefault(attempt.model or entry.model_used, []).append(attempt)
    return attempts_by_model


_COLUMNS: dict[Status, str] = {
    "pass": "passed",
    "fail": "failed",
    "skip": "skipped",
    "running": "running",
    "unknown": "unknown",
}


def _counted(rate: Rate, entry: SkillEntry, attempts: Sequence[SkillAttempt]) -> Rate:
    # A skipped invocation says nothing about the model, whatever was tried before.
    is_decisive = attempts and entry.final_status != "skip"
    status = result_of(entry, attempts[-1]) if is_decisive else entry.final_status
    counts = {name: getattr(rate, name) for name in _COLUMNS.values()}
    counts[_COLUMNS[status]] += 1
    costs = [attempt.usd for attempt in attempts if attempt.usd is not None]
    return Rate(
        skill=rate.skill,
        model=rate.model,
        rate=_rate(counts["passed"], counts["failed"], counts["running"] + counts["unknown"]),
        **counts,
        verified=rate.verified
        + (status == "pass" and bool(attempts) and attempts[-1].verified is True),
        attempts=rate.attempts + len(attempts),
        tokens=rate.tokens + sum(attempt.usage.total for attempt in attempts if attempt.usage),
        usd=sum(costs, rate.usd or 0.0) if costs else rate.usd,
        duration_ms=rate.duration_ms
        + (
            sum(attempt.duration_ms or 0 for attempt in attempts)
            if attempts
            else entry.duration_ms or 0
        ),
    )


def _rate(passed: int, failed: int, others: int) -> float | None:
    return passed / (passed + failed + others) if passed + failed else None


# ── history ───────────────────────────────────────────────────────────────────────────────────────


def format_history(
    entries: Iterable[SkillEntry], exclude_phase: str | None = None, *, limit: int = HISTORY_ENTRIES
) -> str:
    """Return earlier attempts as text for a next prompt: the latest invocations, oldest first.

    Those of `exclude_phase` are left out. Empty without any.
    """
    chosen = [entry for entry in entries if exclude_phase is None or entry.phase != exclude_phase]
    texts: list[str] = []
    room = HISTORY_CHARS
    for entry in reversed(chosen[-limit:] if limit > 0 else []):
        text = "\n".join(_lines(entry))
        room -= len(text) + 1
        if room < 0:
            break
        texts.append(text)
    left_out = len(chosen) - len(texts)
    note = [f"({left_out} earlier left out)"] if left_out else []
    return (
        "\n".join(["Earlier skill runs in this session, oldest first:", *note, *reversed(texts)])
        if texts
        else ""
    )


def prepend_history(
    prompt: str, entries: Iterable[SkillEntry], exclude_phase: str | None = None
) -> str:
    """Return the prompt with the history before it, if there is one."""
    history = format_history(entries, exclude_phase)
    return f"{history}\n\n{prompt}" if history else prompt


def _lines(entry: SkillEntry) -> Iterable[str]:
    name = f"{entry.skill}/{entry.phase}" if entry.phase else entry.skill
    # The log does not tell whether it still runs or was killed.
    facts = [
        entry.status_word
        or ("not ended" if entry.final_status == "running" else entry.final_status),
        _checked(entry.verified),
    ]
    facts += [entry.model_used] if entry.model_used else []
    facts += [f"{len(entry.attempts) + entry.left_out} attempts"] if len(entry.attempts) > 1 else []
    yield _line(f"- {name}: {', '.join(facts)}")
    for label, text in (
        ("file", entry.file_path),
        ("message", entry.message),
        ("error", entry.error),
    ):
        if text:
            yield _line(f"  {label}: {text}")
    # The next try must differ from the latest ones.
    for attempt in entry.attempts[-5:]:
        model = attempt.model or "model not named"
        yield _line(f"  attempt {attempt.attempt} ({model}): {_describe_attempt(attempt)}")


def _describe_attempt(attempt: SkillAttempt) -> str:
    checks = [
        f"{check.command or check.by} {_ended(check.exit_code, check.passed)}"
        for check in attempt.checks
    ]
    parts = [
        attempt.output_summary,
        *checks,
        attempt.feedback and f"feedback: {attempt.feedback}",
        attempt.error,
    ]
    return "; ".join(part for part in parts if part) or _checked(attempt.verified)


def _ended(exit_code: int | None, passed: bool) -> str:
    word = "passed" if passed else "failed"
    return word if exit_code is None else f"{word} (exit code {exit_code})"


def _checked(verified: bool | None) -> str:
    return "not checked" if verified is None else "verified" if verified else "checked and failed"


def _line(text: str) -> str:
    """Return the text on one line: an output cannot pose as another entry."""
    indent = text[: len(text) - len(text.lstrip())]
    line = " ".join(text[: 8 * LINE_CHARS].split())
    return indent + (line if len(line) <= LINE_CHARS else line[: LINE_CHARS - 1] + "…")
