"""The issue or pull request that a session is about, from its branch and its first prompt. Pure."""

from __future__ import annotations

import re


def task_ref(branch: str | None, prompt: str | None) -> str | None:
    """Return the issue or pull request of a session: `#123`, `owner/repo#12` or `ABC-123`.

    The branch comes first, then the beginning of the first prompt. Numbers that may be something
    else (a date, a version, a colour, an ordinal) are ignored, because a wrong reference is worse
    than none. None if there is no reference.
    """
    return (_ref_in_branch(branch) if branch else None) or (
        _ref_in_prompt(prompt[:_PROMPT_CHARS]) if prompt else None
    )


# A task is named where the prompt begins. Logs and files that people paste come later.
_PROMPT_CHARS = 10_000

_URL = (
    r"https?://[^\s/]+/(?:repos/)?([\w.-]+(?:/[\w.-]+){1,5}?)/(?:-/)?"
    r"(?:issues|pulls?|merge_requests)/([1-9]\d*)"
)
_CODE = r"(?s)```.*?(?:```|\Z)|`[^`\n]*`"
_FULL = r"(?<![\w./-])[\w.-]+/[\w.-]+(?<!\.md)(?<!\.html)#[1-9]\d*(?!\w)"
_MARKED = (
    r"(?i)(?<!\w)(?:fix(?:es|ed|ing)?|close[sd]?|resolve[sd]?|implements?|address(?:es)?|issues?"
    r"|bugs?|tickets?|prs?|mrs?|(?:pull|merge)"
    r" requests?)(?:\s(?:issue|bug|ticket|pr))?[:(\[]?\s{0,2}[#!]([1-9]\d{0,6})(?!\w|\.\d)"
)
_UNMARKED = r"(?i)(?<!\w)(?:issue|ticket|pr|mr|(?:pull|merge) request)[ -]([1-9]\d{1,5})(?!\w|\.\d)"
_BARE = r"(?<![\w#&/\"'=:-])#([1-9]\d{1,4})(?![\w%]|\.\d)"
_BEFORE_OTHERS = (
    r"(?i)(?:colou?r|background|border|fill|stroke|hex|gr[ae]y)[^\n]*\Z"
    r"|(?:case|chapter|column|comment|connection|example|figure|finding|image|item|job|line|no"
    r"|number|option|page|part|phase|point"
    r"|question|row|rule|run|section|slide|step|suggestion|test|thread|version)\s*\Z"
)
_KEY = r"(?<![\w-])([A-Z][A-Z0-9]{1,9})-[1-9]\d{0,5}(?![A-Za-z0-9]|[.-]\d)"
_NOT_KEYS = frozenset(
    "AES ARM ASCII BASE BM BSD CC0 COVID CP CVE CWE ERR ES EXIT FIPS GH GMT GPL GPT HMAC HTTP IEEE"
    " IPV ISO ISSUE LATIN LGPL MD MP MPL MR NIST PART PEP PHASE PKCS PR PULL Q1 Q2 Q3 Q4 RC RELEASE"
    " RFC RSA RTX SHA SPRINT SSE STEP TLS TOP UCS USB UTC UTF VERSION WIN WINDOWS X86".split()
)
_BRANCH_NAMES = (
    r"(?i)(?:^|[/_-])(?:issues?|gh|prs?|pull|mr|bug|ticket|closes|fixes)[/_-]?#?([1-9]\d{0,6})"
    r"(?![A-Za-z0-9.])"
)
_BRANCH_BEGINS = (
    r"(?i)(?:^|/)(?:(?:bugfix|chore|feat|feature|fix|hotfix|task)[_-])?([1-9]\d{1,5})(?=[/_-]|$)"
    r"(?![_-]\d+(?:[/_-]|$))"
)
_RELEASE = (
    r"(?i)(?:^|/)(?:releases?|versions?|stable|support|sprint|milestone|dependabot|renovate)"
    r"(?:[/_-]|$)"
)
# Years, days as YYMMDD, and the status codes of web servers that people fix ("fix-404-page").
_OTHER_NUMBER = (
    r"(?:19[89]\d|20\d\d|[12]\d(?:0[1-9]|1[0-2])(?:0[1-9]|[12]\d|3[01])|40\d|4[12]\d|50[0-4])\Z"
)


def _ref_in_branch(branch: str) -> str | None:
    if key := _key_in(branch):
        return key
    if named := re.search(_BRANCH_NAMES, branch):
        return f"#{named[1]}"
    begins = re.search(_BRANCH_BEGINS, branch)
    if begins is None or re.match(_OTHER_NUMBER, begins[1]) or re.search(_RELEASE, branch):
        return None
    return f"#{begins[1]}"


def _ref_in_prompt(text: str) -> str | None:
    if url := re.search(_URL, text):
        return f"{url[1]}#{url[2]}"
    text = re.sub(_CODE, " ", text)
    if full := re.search(_FULL, text):
        return full[0]
    if marked := re.search(_MARKED, text):
        return f"#{marked[1]}"
    unmarked = (m[1] for m in re.finditer(_UNMARKED, text) if not re.match(_OTHER_NUMBER, m[1]))
    if number := next(unmarked, None):
        return f"#{number}"
    return _key_in(text) or _bare_in(text)


def _key_in(text: str) -> str | None:
    return next((m[0] for m in re.finditer(_KEY, text) if m[1] not in _NOT_KEYS), None)


def _bare_in(text: str) -> str | None:
    """Return a lone `#123`. Two different ones are a list of something, and `#333` is a grey."""
    numbers = set()
    for m in re.finditer(_BARE, text):
        is_other = re.match(_OTHER_NUMBER, m[1]) or (len(m[1]) == 3 and len(set(m[1])) == 1)
        if not is_other and not re.search(_BEFORE_OTHERS, text[max(0, m.start() - 24) : m.start()]):
            numbers.add(m[1])
    return f"#{numbers.pop()}" if len(numbers) == 1 else None
