"""Corrections: what people said to reject or redirect what the agent did.

Four things count, all of them only after the agent has worked: the reason that was typed when a
call was refused; a message that redirects an agent that was stopped; one that begins by rejecting
something, or says so in its first sentences (an opinion counts only if the agent has edited files);
and a failure that is pasted after the agent said that it was done, because it says that the work is
not. The next task, a question, an approval, a request to look again, added information and
criticism of what others wrote are none. The words are in `correction_words`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

import msgspec

from ..model import CALL_KINDS, Moment, SessionEvent
from ..text.titles import is_small_talk
from .correction_words import (
    ENGLISH_OPENINGS,
    ENGLISH_PHRASES,
    OPENINGS,
    OPINIONS,
    PHRASES,
    REDIRECTS,
    STRONG_PHRASES,
)
from .statements import extract_request, is_stop
from .text import build_finder, truncate

MAX_CORRECTION_CHARS = 300
_BEGINNING_CHARS = 400
_PHRASE_CHARS = 240
"""Characters of a message in which a phrase rejects something. What is pasted comes later."""
_MAX_PASTE_CHARS = 20_000


class _Context(msgspec.Struct):
    """What happened since the last message of the person."""

    has_worked: bool = False
    was_stopped: bool = False
    calls: int = 0
    has_edited: bool = False
    reply: str = ""
    """The last words of the agent."""


def find_corrections(events: Iterable[SessionEvent], bodies: Mapping[int, str]) -> list[Moment]:
    """Return the statements that reject or redirect what was done, in order."""
    corrections: list[Moment] = []
    context = _Context()
    for event in events:
        kind = event.kind
        if kind == "user_msg":
            message = bodies.get(event.seq) or event.summary or ""
            if context.has_worked and (text := _find_correction(message, context)):
                corrections.append(Moment(event.seq, truncate(text, MAX_CORRECTION_CHARS)))
            context = _Context()
        elif kind == "human_intervention" and is_stop(event):
            context.was_stopped = True
            if reason := find_reason(event, bodies.get(event.seq, "")):
                corrections.append(Moment(event.seq, truncate(reason, MAX_CORRECTION_CHARS)))
        elif event.role == "assistant" or kind in CALL_KINDS:
            context.has_worked, context.was_stopped = True, False
            context.calls += kind in CALL_KINDS
            context.has_edited = context.has_edited or event.action == "edit"
            if kind == "assistant_msg":
                context.reply = bodies.get(event.seq) or context.reply
    return corrections


# ── stopping the agent ────────────────────────────────────────────────────────────────────────────
def find_reason(event: SessionEvent, body: str) -> str:
    """Return what a person typed when refusing a call, on one line; "" if only the program
    speaks."""
    if event.call_id is None:
        return ""
    if match := _REASON.search(body[:4000]):
        reason = match[1]
    else:
        reason = "" if event.role != "user" or _CANNED.search(body[:300]) else body[:4000]
    line = " ".join(reason.split())
    low = _lowered(line)
    if is_small_talk(line) or _goes_on(low) or (_is_question(low) and not rejects(line)):
        return ""
    return line


_REASON = re.compile(
    r"(?:following (?:reason|feedback)[^:\n]{0,60}|the user said|user (?:feedback|message)):\s*"
    r"(.+?)(?:\n\nNote: |\Z)",
    re.IGNORECASE | re.DOTALL,
)
_CANNED = re.compile(
    r"reject|refus|den(?:y|ied)|cancel|abort|interrupt|dismiss|permission|approval|skipped"
    r"|wants to clarify|\bthe user\b|\berror\b",
    re.IGNORECASE,
)
"""Words of programs about a refusal."""


# ── messages ──────────────────────────────────────────────────────────────────────────────────────
def _find_correction(message: str, context: _Context) -> str:
    """Return a message that corrects the agent, on one line; "" if it corrects nothing."""
    text = extract_request(message)
    if not text or is_small_talk(text) or _REVIEW.match(text):
        return ""
    low = _lowered(text)
    if _resumes(low):
        return ""
    if context.was_stopped:
        return text if _redirects(low) else ""
    if _pastes_failure(message, context):
        return text
    is_answer = _asks(context.reply)
    is_rejected = rejects(text, is_answer=is_answer) or (
        context.has_edited and not is_answer and _is_opinion(low)
    )
    return text if is_rejected and not _only_doubts(low) else ""


def _is_opinion(low: str) -> bool:
    """Return True for an opinion on what the agent did, as long as nothing is asked."""
    start, _ = _after_lead_in(low)
    return _OPINIONS.match(low, start) is not None and not _QUESTION.match(low, start)


def _only_doubts(low: str) -> bool:
    """Return True for a question that may be meant as one: it rejects nothing and blames nobody."""
    _, is_no = _after_lead_in(low)
    is_plain = not _STRONG_PHRASES.search(low) and not _BLAMES.search(low)
    return low.endswith(("?", "？")) and not is_no and is_plain


_BLAMES = re.compile(r"\byou\b")


def _redirects(low: str) -> bool:
    """Return True if an agent that was stopped is to do something else, or the same differently.

    A request for the next task does not count.
    """
    if _goes_on(low) or _STATUS.match(low):
        return False
    start, is_no = _after_lead_in(low)
    if is_no or _STRONG_PHRASES.search(low) or _is_opinion(low):
        return True
    if low.endswith(("?", "？")) or _is_question(low) or _ADDS.match(low):
        return False
    if rejects(low) or _REDIRECTS.match(low[:_PHRASE_CHARS], start):
        return True
    return _NEW_TASK.match(low, start) is None and len(_WORDS.findall(low)) >= MIN_WORDS


MIN_WORDS = 3
"""Words that a message to a stopped agent needs to say what is wrong."""
_WORDS = re.compile(r"\w+")
_ADDS = re.compile(r"(?:also|and also|additionally|one more|another thing|btw|by the way)\b")
_NEW_TASK = re.compile(
    r"(?:now|next|then|add|create|implement|write|review|commit|push|merge|explain|give|show|check"
    r"|list|read|find|search|summari[sz]e|tell|here(?:'s| is| are))\b"
)
"""How a new task begins, as far as it says nothing of the old one."""


def _is_question(low: str) -> bool:
    """Return True if a message only asks something."""
    start, _ = _after_lead_in(low)
    return low.endswith(("吗", "吗？", "吗?", "か？", "か?")) or bool(_QUESTION.match(low, start))


def _resumes(low: str) -> bool:
    """Return True if work goes on after a failure outside of it: of the network, of a machine."""
    return _OUTAGE.search(low) is not None and _CONTINUES.search(low) is not None


def rejects(text: str, *, is_answer: bool = False) -> bool:
    """Return True if a message rejects or redirects what was done.

    A "no" to a question of the agent (`is_answer`) is an answer.
    """
    low = _lowered(text)
    start, is_no = _after_lead_in(low)
    if (is_no and not is_answer) or _OPENINGS.match(low, start):
        return True
    if _APPROVES.match(low) or _VERIFIES.match(low, start) or _INFORMS.match(low, start):
        return False
    beginning = low[:_PHRASE_CHARS]
    if _STRONG_PHRASES.search(beginning):
        return True
    if _QUESTION.match(low, start) or _NEXT_TASK.match(low, start):
        return False
    return any(not _is_about_others(match) for match in _PHRASES.finditer(beginning))


def _is_about_others(match: re.Match[str]) -> bool:
    """Return True if the sentence of a phrase is about what others wrote or said."""
    text = match.string
    begin = max(text.rfind(mark, 0, match.start()) for mark in ".!?\n")
    return _OF_OTHERS.search(text, begin + 1, match.end()) is not None


def _lowered(text: str) -> str:
    return text[:_BEGINNING_CHARS].lower().replace("\u2019", "'").strip()


def _after_lead_in(low: str) -> tuple[int, bool]:
    """Return where a message begins after words like "hm, ok", and True if "no" is one of them."""
    at, is_no = 0, False
    for _ in range(5):
        if match := _NO.match(low, at):
            is_no = True
        elif (match := _LEAD_IN.match(low, at)) is None:
            break
        at = match.end()
    return at, is_no


def _asks(reply: str) -> bool:
    """Return True if the last sentences of the agent ask something."""
    return "?" in reply[-200:] or "？" in reply[-200:]


_NO = re.compile(
    r"(?:no|nope|nah)(?:[,.!:;…]+\s*|\s+(?=(?:no|not|don'?t|that|this|it|i|i'?m|you|the|we|revert"
    r"|wait|use|just)\b)|\Z)"
    r"|(?:nein|nee|nö|non|não|нет|不|不用|不需要|いいえ|아니요|아뇨)(?:[,.!:…，。、！\s]+|\Z)"
)
_LEAD_IN = re.compile(
    r"(?:please|hey|ok(?:ay)?|well|so|hmm+|um+|uh+|ah+|oh+|sorry|also|and|or|yeah)[,.!:… ]+"
)
_OPENINGS = re.compile(
    "|".join([*ENGLISH_OPENINGS, *(each for words in OPENINGS.values() for each in words)])
)
_OPINIONS = re.compile("|".join(OPINIONS))
_REDIRECTS = re.compile("|".join(REDIRECTS), re.DOTALL)
_STRONG_PHRASES = re.compile("|".join(STRONG_PHRASES))
_PHRASES = re.compile("|".join([*ENGLISH_PHRASES, *PHRASES]))
_QUESTION = re.compile(
    r"(?:can|could|will) (?:you|we|i)\b(?! (?:please )?(?:revert|undo|replace))"
    r"|do\b(?! we (?:even|really) need)|should\b(?!n'?t)"
    r"|(?:how|what|where|when|which|who)(?:'?s|'?re)?\b|(?:does|is|are|would|any|question)\b"
)
_NEXT_TASK = re.compile(
    r"(?:now|next(?!\.)|then|add|create|implement|write|fix|review|run|commit|push|merge|explain"
    r"|give|show|check|update|remove|rename|open|start)\b"
)
_APPROVES = re.compile(
    r"(?:yes|yep|yeah|sure|great|perfect|awesome|nice|thanks?|thank you|cool|excellent"
    r"|looks? (?:good|great|right)|lgtm|go ahead|sounds good|agreed?|correct|right)\b"
    r"|(?:it|that|this) (?:seems to )?(?:now )?works?\b(?! (?:only|but))|ja\b|oui\b|sí\b|sim\b|да\b"
    r"|好的?|可以|はい|네\b"
)
_VERIFIES = re.compile(
    r"(?:(?:can|could|would) you |please |also |just |now |once more )*"
    r"(?:(?:double|cross|sanity)[- ]?check|re-?(?:check|verify|review|read|test|validate)|verify"
    r"|validate|confirm|review|check|test|make sure|ensure|look (?:again|once more)"
    r"|take another look|have another look)\b"
)
"""How a request begins to look at the work again, which may be fine."""
_INFORMS = re.compile(
    r"(?:fyi|for (?:your )?(?:info(?:rmation)?|context|reference)|in (?:the )?context of|btw"
    r"|by the way|just so you know|(?:more |some )?(?:context|background|details)[:,]"
    r"|some (?:more )?(?:context|background))\b"
)
"""How a message begins that adds information."""
_OF_OTHERS = re.compile(
    r"\b(?:the|our) (?:old|current|existing|original|upstream|legacy|official|third[- ]party)\b"
    r"|\btheir\b|\bupstream\b|\b(?:users?|customers?|clients?|people|they|he|she|somebody|someone)"
    r" (?:say|said|complain|report|see|get|told|think|claim|ha[sd]|have)"
)
"""What says that a sentence is about the work of others, which may be the next task."""
_OUTAGE = re.compile(
    r"\b(?:network|connection|internet|wi-?fi|vpn|offline|online|power|battery|laptop|computer"
    r"|rate.?limit|usage limit|quota|credits|overloaded|api error|crash(?:ed)?|rebooted|restarted"
    r"|disconnected|timed out)\b|网络|断网|断线"
)
_CONTINUES = re.compile(
    r"\b(?:continue|go on|carry on|keep going|proceed|resume|try again|retry|pick up where|weiter"
    r"|continua)|继续"
)
_STATUS = re.compile(r"(?:are you (?:still )?there|what happened|how(?:'s| is) it going|status)\b")
_REVIEW = re.compile(
    r"(?:(?:pr|code|review(?:er)?|more)\W{1,3}){0,2}(?:feedback|findings?|review)\b"
    r"|(?:first|second|third|another|one more) (?:pass|remaining)\b|one remaining finding"
    r"|\d+\. (?:high|medium|low|critical|minor|major|nit)\b|#{1,4} ?(?:findings|review)"
    r"|in \S{3,200} (?:around|at|on) lines? \d",
    re.IGNORECASE,
)
"""A review that was pasted: the next task."""


def _goes_on(low: str) -> bool:
    """Return True if a stopped agent is only asked to continue, or praised."""
    start, _ = _after_lead_in(low)
    if (
        low.startswith(("sorry", "never mind", "nevermind"))
        or _APPROVES.match(low)
        or _CONTINUES.match(low, start)
    ):
        return True
    return len(low.split()) < 8 and _CONTINUES.search(low) is not None


# ── failures that were pasted ─────────────────────────────────────────────────────────────────────
def _pastes_failure(message: str, context: _Context) -> bool:
    """Return True for a failure that is pasted after the agent said that its work is done."""
    text = message[:_MAX_PASTE_CHARS]
    if "\n" not in text and len(text) < 200:
        return False
    low = _lowered(text)
    if _QUESTION.match(low) or _NEXT_TASK.match(low) or _INFORMS.match(low):
        return False
    if not _find_failures(text):
        return False
    is_done = context.calls > 0 and _DONE.search(context.reply[-3000:]) is not None
    return is_done or _CODE.search(context.reply) is not None


_DONE = re.compile(
    r"\b(?:done|fixed|complete[d]?|works?|working|pass(?:es|ing|ed)?|ready|success(?:ful(?:ly)?)?"
    r"|implemented|updated|created|added|pushed|committed|merged|resolved|all set|shipped|landed"
    r"|should (?:now )?(?:work|be|load)|will (?:now )?(?:work|ensure|resolve))\b|✅|完成|已"
    r"|\bfertig\b|\bterminé\b|\blisto\b|готово",
    re.IGNORECASE,
)
_CODE = re.compile(r"```(?!bash|sh\b|shell|console|text|zsh)\w")
"""Code that an agent without tools hands over."""
_find_failures = build_finder(
    (
        r"(?m)^\S*(?:Error|Exception)\b[^\n]{0,40}:",
        r"(?m)^(?:\S+: )?(?:fatal|error|panic)(?:\[\w+\])?: ",
        r"\berror (?:TS|NG)\d+|\bnpm (?:ERR!|error)|\bNS_ERROR_\w",
        r"(?m)^Traceback \(most recent|^\s+at [^\n]{1,200}:\d+:\d+|^FAILED |^(?:ERROR|FAIL)\b",
        r"\bexit (?:status|code):? [1-9]|\bexited with (?:code )?[1-9]",
        r"\b(?:build|test|job)s? failed\b|\wError: ",
    )
)
