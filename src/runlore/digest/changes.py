"""The difference between a call that failed and one that worked, for reading.

Calls differ by words; of an edit the part is shown that touches what the error names.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Set
from difflib import SequenceMatcher

from .shell_commands import strip_plumbing
from .text import clean, truncate

MAX_CALL_CHARS = 1000
MAX_CHANGE_LINES = 24
MAX_CHANGE_CHARS = 1500
_MAX_WORDS = 400
_MAX_WORD_CHARS = 120
_MAX_EDIT_LINES = 4
"""Lines shown of each of two edits, of which only one could be made."""
_CONTEXT = 2
"""Words around a difference that are shown with it."""


def to_line(text: str) -> str:
    """Return a call on one line, in at most `MAX_CALL_CHARS` characters."""
    return truncate(" ".join(clean(text[: 4 * MAX_CALL_CHARS]).split()), MAX_CALL_CHARS)


def split_words(call: str) -> list[str]:
    """Return the words of a call without what is done with its output. A quoted text is one."""
    return _CALL_WORDS.findall(strip_plumbing(call[: 4 * MAX_CALL_CHARS]))[:_MAX_WORDS]


_CALL_WORDS = re.compile(r"(?:[^\s'\"]|\"(?:[^\"\\]|\\.){0,3000}\"|'[^']{0,3000}'|['\"])+")


def likeness(before: str, after: str) -> float:
    """Return the share of equal words of two calls, quoted text included, from 0 to 1."""
    mine, other = (
        strip_plumbing(call[: 4 * MAX_CALL_CHARS]).split()[:_MAX_WORDS] for call in (before, after)
    )
    return SequenceMatcher(None, mine, other, autojunk=False).ratio()


def changed_words(before: str, after: str) -> tuple[list[str], list[str]]:
    """Return the words of the first call that the second does not have there, and the reverse."""
    mine, other = split_words(before), split_words(after)
    removed: list[str] = []
    added: list[str] = []
    for tag, i, j, k, m in SequenceMatcher(None, mine, other, autojunk=False).get_opcodes():
        if tag != "equal":
            removed += mine[i:j]
            added += other[k:m]
    return removed, added


def diff_calls(before: str, after: str) -> str:
    """Return the words that differ, as lines that begin with `-` and `+`, with a little context."""
    mine, other = split_words(before), split_words(after)
    lines: list[str] = []
    for tag, i, j, k, m in SequenceMatcher(None, mine, other, autojunk=False).get_opcodes():
        if tag == "equal":
            continue
        lead, rest = mine[max(0, i - _CONTEXT) : i], mine[j : j + _CONTEXT]
        for sign, words in (("-", mine[i:j]), ("+", other[k:m])):
            if words or not (j > i and m > k):
                shown = (truncate(word, _MAX_WORD_CHARS) for word in (*lead, *words, *rest))
                lines.append(f"{sign} {' '.join(shown)}".rstrip())
    return _bound(lines)


def diff_edits(before: str, after: str) -> str:
    """Return the difference of two edits of a file, lines of the first as `-`, the others as `+`.

    It is the first of these that differs: the place of the edits, the indentation of the replaced
    text, the replaced text, the new text. An edit is refused because of the first three. Blanks at
    the beginning of a line count.
    """
    if (mine := _edit_place(before)) != (other := _edit_place(after)):
        return _bound([*(f"- {line}" for line in mine), *(f"+ {line}" for line in other)])
    if (indented := find_indented(before, after)) is not None:
        return f"indentation of `{truncate(indented, _MAX_WORD_CHARS)}`"
    removed, added = diff_replaced(before, after)
    if not (removed or added):
        removed, added = _only_in(_edit_lines(before, "+"), _edit_lines(after, "+"))
    lines = []
    for sign, only in (("-", removed), ("+", added)):
        lines += [f"{sign} {line}" for line in only[:_MAX_EDIT_LINES]]
        lines += [f"{sign} …"] if len(only) > _MAX_EDIT_LINES else []
    return _bound(lines)


def explains_refusal(before: str, after: str, output: str) -> bool:
    """Return True if the difference between two edits tells why the first one was refused.

    It does not if there were several parts, of which only some were made later, or if nothing
    differs in what was to be replaced.
    """
    if before.count("\n@@") > 1 or after.count("\n@@") > 1:
        return False
    if _edit_place(before) != _edit_place(after) or find_indented(before, after) is not None:
        return True
    if "indent" in output[:_MAX_REFUSAL_CHARS].lower():
        return False
    removed, added = diff_replaced(before, after)
    if not (removed or added):
        removed, added = _only_in(_edit_lines(before, "+"), _edit_lines(after, "+"))
    elif "matches of the string" in output[:_MAX_REFUSAL_CHARS]:
        removed = added  # It needs more text around it.
    return bool(removed) and len(removed) + len(added) <= 2 * _MAX_EDIT_LINES


_MAX_REFUSAL_CHARS = 2000
"""Characters of a refusal that say why, before it quotes the edit."""


def find_indented(before: str, after: str) -> str | None:
    """Return the first line that differs if two edits differ only in the blanks before lines."""
    mine, other = (
        [line for line in clean(edit).splitlines()[1:] if line[1:].strip()]
        for edit in (before, after)
    )
    if mine == other or len(mine) != len(other):
        return None
    pairs = list(zip(mine, other, strict=True))
    if any(a[:1] + a[1:].strip() != b[:1] + b[1:].strip() for a, b in pairs):
        return None
    return next((b[1:].strip() for a, b in pairs if a.rstrip() != b.rstrip()), None)


def diff_replaced(before: str, after: str) -> tuple[list[str], list[str]]:
    """Return the lines that only the first of two edits was to replace or to stand beside, and
    those of the second one."""
    return _only_in(_edit_lines(before, "- "), _edit_lines(after, "- "))


def _only_in(mine: list[str], other: list[str]) -> tuple[list[str], list[str]]:
    in_mine, in_other = set(mine), set(other)
    return [line for line in mine if line not in in_other], [
        line for line in other if line not in in_mine
    ]


def _edit_place(edit: str) -> list[str]:
    """Return the file of an edit, and the numbers of its lines if it names them."""
    lines = edit.splitlines()
    return [*(line.strip() for line in lines[:1]), *filter(_NUMBERED_PART.match, lines)]


_NUMBERED_PART = re.compile(r"@@ [-+\d:, ]*\d[-+\d:, ]* @@")


def _edit_lines(edit: str, signs: str) -> list[str]:
    """Return the lines of an edit that begin with one of these signs, without the sign."""
    return [
        line[1:]
        for hunk in _split_hunks(clean(edit).partition("\n")[2])
        for line in hunk
        if line[:1] in signs and line.strip()
    ]


def differs_twice(before: str, after: str) -> bool:
    """Return True if two edits were made in different places, and the second also lacks lines that
    the first one adds: either may be why the first one was refused."""
    if _edit_place(before) == _edit_place(after):
        return False
    return bool(_only_in(_edit_lines(before, "+"), _edit_lines(after, "+"))[0])


def count_changed_lines(diff: str) -> int:
    """Return how many lines an edit removes and adds."""
    return sum(map(_is_changed, diff.splitlines()))


def removed_lines(diff: str) -> set[str]:
    """Return the lines that an edit removes, without blanks around them."""
    return _stripped(diff, "-") - _stripped(diff, "+")


def is_replaced(diff: str, later: Iterable[str]) -> bool:
    """Return True if later edits remove at least half of the lines that an edit adds."""
    added = _stripped(diff, "+") - _stripped(diff, "-")
    gone = {line for other in later for line in removed_lines(other)}
    return bool(added) and len(added & gone) >= len(added) / 2


def is_moved(diff: str, other: str) -> bool:
    """Return True if another edit adds what this one removes."""
    removed = removed_lines(diff)
    return bool(removed) and len(removed & _stripped(other, "+")) >= len(removed) / 2


def _stripped(diff: str, sign: str) -> set[str]:
    lines = {line.strip() for line in _changed(diff, sign)}
    return {line for line in lines if len(line) > _MIN_LINE_CHARS}


_MIN_LINE_CHARS = 3
"""Characters up to which a line is a bracket or the like, which many edits have."""


def rate_edit(diff: str, names: set[str], quoted: set[str]) -> tuple[int, int, bool]:
    """Return how much an edit has to do with an error: how many of the names that the error quotes
    it changes, how many of all its names (what is removed counts twice), and if it does more than
    add something new or import it."""
    removed = {name for line in _changed(diff, "-") for name in _NAMES.findall(line)}
    added = {name for line in _changed(diff, "+") for name in _NAMES.findall(line)}
    lines = [line for line in (*_changed(diff, "-"), *_changed(diff, "+")) if line.strip()]
    is_import = all(_IMPORT.match(line) for line in lines)
    return (
        len(quoted & (removed | added)),
        2 * len(names & removed) + len(names & (added - removed)),
        bool(removed) and not is_import,
    )


def changed_names(diff: str) -> set[str]:
    """Return the names in the lines that an edit removes or adds."""
    lines = (*_changed(diff, "-"), *_changed(diff, "+"))
    return {name for line in lines for name in _NAMES.findall(line)}


def only_adds_output(diff: str) -> bool:
    """Return True for an edit that only prints or logs more, or says more when something fails."""
    removed, added = (
        [line.strip() for line in _changed(diff, sign) if line.strip(" \t)]}(;,+-")]
        for sign in ("-", "+")
    )
    if not added or not any(_PRINTS.match(line) or _REPORTS.match(line) for line in added):
        return False
    fresh = [line for line in added if line not in removed]
    gone = [line for line in removed if line not in added]
    return all(_PRINTS.match(line) or _extends(line, gone) for line in fresh) and all(
        _PRINTS.match(line) or _REPORTS.match(line) for line in gone
    )


def adds_skip(diff: str) -> bool:
    """Return True for an edit after which a test is skipped or expected to fail."""
    return any(_SKIPS.search(line) for line in _changed(diff, "+")) and not any(
        _SKIPS.search(line) for line in _changed(diff, "-")
    )


_SKIPS = re.compile(
    r"^\s*(?:@(?:pytest\.mark\.|unittest\.)?(?:skip|xfail|expectedFailure)\w*"
    r"|@(?:Disabled|Ignore)\b|#\[ignore|[tb]\.Skip(?:f|Now)?\(|pytest\.skip\(|self\.skipTest\()"
    r"|\b(?:it|test|describe)\.(?:skip|todo|failing)\b|\bx(?:it|describe|test)\("
)


def deletes_test(name: str, edits: Iterable[str]) -> bool:
    """Return True if edits remove the definition of a test and do not write it anew."""
    defines = re.compile(rf"\b(?:def|func|fn|function|void|fun)\b.*\b{re.escape(name)}\b")
    deleted = False
    for edit in edits:
        if any(defines.search(line) for line in _changed(edit, "+")):
            deleted = False
        elif any(defines.search(line) for line in _changed(edit, "-")):
            deleted = True
    return deleted


def _extends(line: str, removed: list[str]) -> bool:
    """Return True if a line reports the same failure as a removed one, with more words."""
    begin = _REPORTS.match(line)
    return begin is not None and any(
        other.rstrip(");,") and line.startswith(other.rstrip(");,").rpartition('"')[0] or other)
        for other in removed
        if other.startswith(begin[0])
    )


_PRINTS = re.compile(
    r"(?:print|println|printf|console\.(?:log|error|warn|info|debug)|fmt\.(?:Print|Fprint)\w*"
    r"|log(?:ger|ging)?\.\w+|t\.Logf?|b\.Logf?|e?println!|dbg!|System\.(?:out|err)\.print\w*"
    r"|Console\.Write\w*|sys\.std(?:out|err)\.write|pprint|echo|var_dump|process\.stderr\.write)"
    r"\s*\(|(?:puts|p|echo|printf) [\"'$]"
)
"""The beginnings of lines that print something."""
_REPORTS = re.compile(r"[tb]\.(?:Fatal|Error)f?\(|assert\b|self\.assert\w+\(|(?:self\.)?fail\(")
"""The beginnings of lines that report the failure of a test."""
_IMPORT = re.compile(
    r"\s*(?:import\b|from\s|#include|use\s|require|[\w.]*\s*\"[\w./@-]+\"$|[)(]$|\w+,?$)"
)


def _changed(diff: str, sign: str) -> list[str]:
    return [line[1:] for line in diff.splitlines() if line[:1] == sign]


def pick_hunk(
    diff: str,
    words: Iterable[str],
    line: int | None = None,
    source: Set[str] = frozenset(),
) -> str:
    """Return the part of an edit that touches one of the source lines, else most of these words,
    else its first part.

    Of a file that was rewritten, it is the part around such a line, or the line of this number. The
    lines begin with `-`, `+` or a blank; the name of the file is left out.
    """
    wanted = {word for word in words if len(word) > 2}
    hunks = [hunk for hunk in _split_hunks(clean(diff)) if any(map(_is_changed, hunk))]
    if not hunks:
        return ""
    best = max(hunks, key=lambda hunk: (_touches(hunk, source), _count_words(hunk, wanted)))
    return _bound(_near_changes(best, wanted, line, source))


def _touches(lines: Iterable[str], source: Set[str]) -> bool:
    return any(_is_source(line, source) for line in lines)


def _is_source(line: str, source: Set[str]) -> bool:
    return line[:1] == "-" and line[1:].strip() in source


def _split_hunks(diff: str) -> list[list[str]]:
    hunks: list[list[str]] = [[]]
    for line in diff.splitlines():
        if line.startswith("@@"):
            hunks.append([])
        elif line[:1] in ("+", "-", " ", "") and not line.startswith(("+++ ", "--- ")):
            hunks[-1].append(line.rstrip())
    return hunks


def _is_changed(line: str) -> bool:
    return line[:1] in ("+", "-")


def _count_words(lines: Iterable[str], wanted: set[str]) -> int:
    present = {word for line in lines if _is_changed(line) for word in _NAMES.findall(line)}
    return len(present & wanted)


_NAMES = re.compile(r"[A-Za-z_$][\w$]*")


def _near_changes(
    lines: list[str], wanted: set[str], number: int | None, source: Set[str]
) -> list[str]:
    """Return the changed lines, of many those around what is wanted, with a line of context."""
    compact = _drop_unchanged(lines)
    if any(map(_is_changed, compact)) and len(compact) < min(len(lines), MAX_CHANGE_LINES):
        return compact
    changed = [n for n, line in enumerate(lines) if _is_changed(line)]
    if len(changed) <= MAX_CHANGE_LINES:
        start = max(0, changed[0] - 1)
    else:
        at = next((n for n in changed if _is_source(lines[n], source)), None)
        start = max(0, (_find_wanted(lines, changed, wanted, number) if at is None else at) - 3)
    shown = lines[start : changed[-1] + 2]
    return shown[1:] if shown and not shown[0].strip() else shown


def _drop_unchanged(lines: list[str]) -> list[str]:
    """Return a part of an edit without the lines that it removes and adds again.

    Many edits replace a whole function to change one of its lines.
    """
    old, new = (
        [line[1:] for line in lines[:_MAX_COMPARED] if line[:1] in signs]
        for signs in (("-", " ", ""), ("+", " ", ""))
    )
    result: list[str] = []
    for tag, i, j, k, m in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if tag == "equal":
            same = [f" {line}" for line in old[i:j]]
            result += same[-1:] if not i else same[:1] if j == len(old) else _keep_ends(same)
        else:
            result += [f"-{line}" for line in old[i:j]] + [f"+{line}" for line in new[k:m]]
    return [line for line in result if line.strip()]


def _keep_ends(lines: list[str]) -> list[str]:
    """Return the unchanged lines next to the changes before and after them."""
    return lines if len(lines) <= 2 else [lines[0], " …", lines[-1]]


_MAX_COMPARED = 300
"""Lines of a part of an edit up to which what it removes is compared with what it adds."""


def _find_wanted(lines: list[str], changed: list[int], wanted: set[str], number: int | None) -> int:
    """Return the first changed line with a wanted word.

    Of a file that was rewritten, the one with most of them, nearest to the line of this number.
    """
    counts = {n: len(wanted & set(_NAMES.findall(lines[n]))) for n in changed}
    numbered = _find_numbered(lines, changed, number)
    if not numbered:
        return next((n for n in changed if counts[n]), changed[0])
    at = numbered[min(number or 1, len(numbered)) - 1]
    best = max(counts.values())
    return min((n for n in changed if counts[n] == best), key=lambda n: abs(n - at)) if best else at


def _find_numbered(lines: list[str], changed: list[int], number: int | None) -> list[int]:
    """Return the lines of a file that was rewritten, from its first one; empty for another edit.

    The old lines count if the edit has them, because the error is about them.
    """
    is_whole = all(_is_changed(line) or not line.strip() for line in lines)
    removed = [n for n in changed if lines[n].startswith("-")]
    if not is_whole or (removed and len(removed) < (number or _MIN_REWRITTEN)):
        return []
    return removed or changed


_MIN_REWRITTEN = 100
"""Lines from which an edit that replaces all of its lines counts as a file that was rewritten."""


def _bound(lines: list[str]) -> str:
    text = "\n".join(truncate(line, 300) for line in lines[:MAX_CHANGE_LINES])
    return truncate(text + ("\n…" if len(lines) > MAX_CHANGE_LINES else ""), MAX_CHANGE_CHARS)
