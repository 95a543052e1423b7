r"""Secrets that are recognized by their name: `DB_PASSWORD=…`, `"apiKey": "…"`, `--token …`,
`<secret>…</secret>`.

This works on UTF-8 bytes. It finds a name, reads the separator after it, and judges whether the
value looks like a secret rather than a path, an identifier, a placeholder or a word. It knows no
provider and replaces nothing.
"""

import re
from functools import lru_cache

from runlore.redact.randomness import WORD, entropy, wordlike
from runlore.redact.rules import LISTED

# The gate: the name of a secret, separators (plain or escaped), perhaps some filling words, then
# eight characters with a digit, or in quotes with a mark. Every class is closed under JSON
# escaping: a character that ends a value also ends it escaped. Counted repetitions are avoided,
# because each count is a state of the automaton, times those of all other rules.
_TAIL = "[A-Za-z0-9_-]*"
_NAMED = (
    rf"(?i:(?:pass(?:w(?:or)?d|phrase|code)?|pwd|secret|cred(?:ential)?s?|key){_TAIL}"
    # Neither `tokens`, which are counted, nor `author`.
    rf"|token(?:[a-rt-z0-9_-]{_TAIL})?|auth(?:[a-np-z0-9_-]{_TAIL})?)"
)
_CURLY = r"(?:\xe2\x80[\x98-\x9f]|\\+u201[89cCdD])"
_NEXT = rf"(?:\n|\\+n)(?:\+| *{LISTED})"  # The next line of a change or of a listing.
_BETWEEN = (
    r"""(?:[ \t\r\n"'\x60\\\[\]{}()<>:=,|?*\x1b-]|<\\*/|\\+[nrtbf]|\\+u00[0-9a-fA-F]{2}|"""
    r"\[[0-9;]{1,8}m|&(?:quot|apos|lt|gt|#[0-9]+);|"
    rf"{_CURLY}|{_NEXT})"
)
FILLING = (
    "(?i:is|was|are|key|value|default|for|to|of|set|string|str|type|with|user|the|this|your|my|basic"
    "|bearer|token)"
)
_OPENING = rf"""[:=,( \t>|]\\*[bruf]{{0,2}}(?:\\*["'\x60]|{_CURLY})"""
_BARE = r"""\x00-\x20"'\x60,;(){}\[\]<>=\\"""
_QUOTED = r"""\x00-\x20"'\x60\\"""
"""Characters that end a value, bare or in quotes, as the inside of a class."""


def _run(ends: str, least: int, one: str) -> str:
    """Return a pattern for `least` or more characters of a value, one of which is in `one`.

    The first of these decides. While there is only one way to read a text, a state of the automaton
    is one place in the pattern.
    """
    each, other = (
        rf"""(?:[^{ends}{not_}]|\\+[^\x00-\x20"'\x60\\nrtbf{not_}])""" for not_ in ("", one)
    )
    run = rf"{other}*\\*[{one}]"
    for more in range(least):
        run = rf"(?:{other}{run}|\\*[{one}]{each}{{{more}}})"
    return run


GATE = (
    rf"{_NAMED}(?:{_BETWEEN}+(?:{FILLING}{_BETWEEN}+)*{_run(_BARE, 8, '0-9')}"
    rf"|{_BETWEEN}*(?:{FILLING}{_BETWEEN}+)*{_OPENING}{_run(_QUOTED, 8, '0-9!@#$%^&*~+')}"
    rf"|(?: [a-z]+){{1,5}}:? \\*[\"'\x60]?{_run(_BARE, 8, '0-9')}"
    r"|>[^<>\r\n\"]*[0-9])"
    r"|(?:KEY|SECRET|TOKEN|PASSWORD|PASS|PWD) ?= ?[^\s\"'\x60\\$<{][^\s\"'\x60\\]*[0-9]"
)


def secret_at(data: bytes, start: int) -> tuple[int, int] | None:
    """Return the span of the secret value that follows the name at `start`."""
    name = _NAME.match(data, start)
    return _value(data, start, name.end()) if name else None


_NAME = re.compile(
    rb"(?i:pass(?:w(?:or)?d|phrase|code)?|pwd|secret|token|cred(?:ential)?s?|auth|key)"
    rb"[A-Za-z0-9_-]{0,24}"
)
_BEFORE = re.compile(rb"[A-Za-z0-9_.$-]{0,48}$")

# Separators between a name and its value, the clearest first. Values follow bare, or quoted where
# the pattern looks for a quote.
_SPACE = rb"(?:[ \t]|\x1b\[[0-9;]{0,8}m)"
_QUOTE = rb"(?:\\*[\"'`]|\xe2\x80[\x98-\x9f])"
_CLOSE = rb"(?:\\*[\"'`]|\xe2\x80[\x98-\x9f]|[\])}]|\*\*|\x1b\[[0-9;]{0,8}m){0,4}"
_GAP = rb"(?:%s|[ \t\r\n-]|\\+[nrt]){0,24}" % _NEXT.encode()
_SEPARATOR = re.compile(
    rb"(?P<pair>%(close)s(?:,|:?%(space)s?\{|:%(space)s?)?%(gap)s"
    rb"(?:%(quote)s?type%(quote)s?%(space)s?[:=]%(space)s?%(quote)s?[a-z]{3,8}%(quote)s?,?%(gap)s)?"
    rb"%(quote)s?(?i:value|default)%(quote)s?%(space)s{0,3}[:=]%(space)s{0,3}"
    rb"|</key>%(gap)s<string>)"
    rb"|(?P<typed>\??:%(space)s?[A-Za-z_][A-Za-z0-9_.:|\[\]<>]{0,24}%(space)s?=%(space)s?"
    rb"|%(space)s[a-z0-9]{3,12}%(space)s:?=%(space)s?)(?=%(quote)s)"
    rb"|(?P<assign>%(close)s%(space)s{0,32}(?::=|=>|->|:-|[:=])%(close)s%(space)s{0,32})(?![=>:])"
    rb"|(?P<call>%(space)s?===?%(space)s?|%(quote)s%(space)s{0,2},%(gap)s|\()(?=%(quote)s)"
    rb"|(?P<element>>)"
    rb"|(?P<stated>%(close)s(?:%(space)s{1,3}(?i:is|was)%(space)s?:?%(space)s{1,3}|,(?!%(space)s)"
    rb"|%(space)s?\|%(space)s?))"
    rb"|(?P<mentioned>%(close)s(?:%(space)s|[|,]){1,32}(?:[A-Za-z]{1,12}:?%(space)s){0,4}"
    rb"(?:[:=|]%(space)s)?)" % {b"close": _CLOSE, b"quote": _QUOTE, b"space": _SPACE, b"gap": _GAP}
)
_OPEN = re.compile(
    rb"(?:[bruf]{0,2}(\\*[\"'`]|\xe2\x80[\x98\x9a\x9c\x9e]))?"
    rb"\{?(?:(?i:bearer|basic|token|apikey)\s+)?"
)
_IN_QUOTES = re.compile(rb"[^\s\"'`\\\x00-\x1f]{1,4096}")
_IN_CURLY = re.compile(rb"(?:[^\s\\\x00-\x1f\xe2]|\xe2(?!\x80[\x98-\x9f])){1,4096}")
_CURLY_END = re.compile(rb"\xe2\x80[\x98-\x9f]")
_ON_A_LINE = re.compile(rb"[^\s\"'`\\\x00-\x1f]{1,4096}")
# Signs that no expression has in this order.
_TO_LINE_END = re.compile(
    rb"(?=[^\s\"'`\\]*[!@#$%^&*~][!@#$%^&*(=+)~-])[^\s\"'`\\\x00-\x1f]{8,4096}(?:\s|\\+[nr\"']|$)"
)
_CALL = re.compile(rb"[A-Za-z_.]*\(.*\)?$")
_IN_TEXT = re.compile(rb"[^\s\"'`\\,;(){}\[\]<>|=\x00-\x1f]{1,4096}={0,2}")
_IN_QUERY = re.compile(rb"[^\s\"'`\\,;(){}\[\]<>&|=\x00-\x1f]{1,4096}={0,2}")


def _value(data: bytes, start: int, name_end: int) -> tuple[int, int] | None:
    """Return the span of the value of a name, if it is a secret."""
    separator = _SEPARATOR.match(data, name_end)
    if not separator:
        return None
    before = _BEFORE.search(data, max(0, start - 48), start)
    name = ((before.group() if before else b"") + data[start:name_end]).decode("ascii")
    level = _level(name)
    opening = _OPEN.match(data, separator.end())
    if not level or not opening:
        return None
    if separator.lastgroup == "element":
        return _content(data, separator.end(), level, name)
    is_quoted = opening[1] is not None
    span = _value_span(data, name, separator, opening)
    how = _kind_of_assignment(name, level, separator, is_quoted)
    if span is None or how is None:
        return None
    value = data[span[0] : span[1]].decode("utf-8", "replace")
    return span if _is_secret(value, level, how, is_quoted, name) else None


def _value_span(
    data: bytes, name: str, separator: re.Match[bytes], opening: re.Match[bytes]
) -> tuple[int, int] | None:
    """Return where a value begins and ends; None if there is none, or a call in its place."""
    quote = opening[1]
    if quote is not None and quote[:1] == b"\xe2":
        body = _IN_CURLY.match(data, opening.end())
        is_ended = body is not None and _CURLY_END.match(data, body.end())
        return body.span() if body and is_ended else None
    if quote:
        body = _IN_QUOTES.match(data, opening.end())
        return body.span() if body and data.startswith(quote, body.end()) else None
    return _bare_span(data, name, separator, opening.end())


def _bare_span(
    data: bytes, name: str, separator: re.Match[bytes], start: int
) -> tuple[int, int] | None:
    """Return where a value without quotes begins and ends."""
    how, text = separator.lastgroup, separator.group()
    is_on_a_line = how == "assign" and name.isupper() and text == b"="
    if how == "assign" and name.isupper() and text.strip() == b"=":
        is_on_a_line = is_on_a_line or _TO_LINE_END.match(data, start) is not None
    bare = _ON_A_LINE if is_on_a_line else _IN_QUERY if text.endswith(b"=") else _IN_TEXT
    body = bare.match(data, start)
    if not body:
        return None
    value = _CURLY_END.split(body.group(), 1)[0]
    value = value.rstrip(b".,:;" if how in ("assign", "pair") else b".,:;!?*")
    end = start + len(value)
    is_call = _CALL.fullmatch(value) if is_on_a_line else data.startswith(b"(", end)
    return None if is_call else (start, end)


def _kind_of_assignment(
    name: str, level: int, separator: re.Match[bytes], is_quoted: bool
) -> str | None:
    """Return how a name is connected with its value; None if the name is a verb or a verdict."""
    how = separator.lastgroup or ""
    if how == "stated" and level == 1:
        how = "mentioned"
    if name.lower() == "pass":
        # `pass` is a verb in prose, and the verdict on a test.
        is_assigned = is_quoted or b"=" in separator.group() or name == "pass"
        if how in ("mentioned", "stated") or not is_assigned:
            return None
    if how == "mentioned" and (
        is_quoted or name.startswith("-") or (name.isupper() and "_" in name)
    ):
        return "assign"
    return how


_CONTENT = re.compile(rb"\{?([^<>\"\r\n{}]{8,400})\}?<")


def _content(data: bytes, start: int, level: int, name: str) -> tuple[int, int] | None:
    """Return the span of what is in `<secret>…</secret>`, if any of its words is a secret."""
    content = _CONTENT.match(data, start)
    if not content:
        return None
    words = content[1].decode("utf-8", "replace").split()
    return (
        content.span(1)
        if any(_is_secret(word, level, "assign", True, name) for word in words)
        else None
    )


_BENIGN_LAST = frozenset(
    "url uri endpoint file files path dir id ids name names type types count counts limit length"
    " len size expiry expires expiration ttl age at in prefix suffix field fields label header"
    " param params policy regex pattern min max provider method mode status required enabled"
    " version index map list class column hint placeholder usage budget input output error errors"
    " err manager store storage service helper format reset rotation strength cost price rate date"
    " time timestamp description desc message msg title text algorithm alg hash digest fingerprint"
    " checksum arn ref reference source env var variable config settings handler callback host port"
    " user username email scope scopes issuer audience number num word words board pair pairs event"
    " events press code down up binding bindings by validator validation generator".split()
)
_PLAIN_KEYS = frozenset(  # Before `key`: a name in a table, a keyboard or a cache.
    "public primary foreign cache sort partition hash range row dict map object idempotency dedupe"
    " i18n translation locale index composite natural surrogate unique group routing event hot"
    " short shift ctrl alt arrow enter return escape lookup search the cookie storage query state"
    " react list item config property field column json registry feature flag issue project"
    " deploy".split()
)
_SECRET_WORDS = frozenset(
    "secret secrets token apikey credential credentials cred creds authtoken".split()
)
_SECRET_KEYS = tuple(
    f"{what}key"
    for what in "api access secret private auth account shared signing encryption master".split()
)
_ENDINGS = frozenset("value val string str here data env b base".split())
_PASSWORDS = ("password", "passwd", "pwd", "passphrase", "passcode")


@lru_cache(4096)
def _level(name: str) -> int:
    """Return how clearly a name is that of a secret.

    0 is not at all, 1 hardly, 2 a secret, 3 a password, which may consist of words.
    """
    words = _words_of(name)
    if not words or words[-1] in _BENIGN_LAST:
        return 0
    joined, last = "".join(words), words[-1]
    if joined.endswith("publickeytoken"):
        return 0
    if last == "pass" or joined.endswith(_PASSWORDS):
        return 3
    if last in _SECRET_WORDS or joined.endswith(("token", "secret", "authident", *_SECRET_KEYS)):
        return 2
    if last == "key":
        return 0 if len(words) > 1 and words[-2] in _PLAIN_KEYS else 1
    return 1 if last == "auth" or "secret" in words or "password" in words else 0


def _words_of(name: str) -> list[str]:
    """Return the words of a name, without numbers and words such as `value` at its end."""
    words = [word.lower() for word in WORD.findall(name)]
    while words and (words[-1].isdigit() or words[-1] in _ENDINGS):
        words.pop()
    return words


@lru_cache(4096)
def is_token(value: str) -> bool:
    """Return True if a value with the form of a provider's token was drawn at random.

    Otherwise it was written to look like one.
    """
    if entropy(value) < 2.5 or _FAKE.search(value):
        return False
    body = value[len(value) // 3 :]  # What comes after the provider's own words.
    parted = "_" in body or "-" in body
    return not wordlike(body) or (not parted and any(map(str.isdigit, body)))


@lru_cache(4096)
def is_placed(value: str, kind: str) -> bool:
    """Return True if a value in the place of a secret is one, and no placeholder or word."""
    if kind == "jwt":
        return entropy(value) >= 3
    if kind == "cookie":
        return any(_is_random(pair) for pair in _COOKIE.findall(value))
    if _is_placeholder(value) or value.lower() in _STOCK or value.isdigit():
        return False
    if kind == "url-password":
        return True
    digits = any(map(str.isdigit, value))
    if kind == "url-token":
        return digits and entropy(value) >= 3 and not wordlike(value)
    return entropy(value) >= 2 and (digits or not wordlike(value))


@lru_cache(4096)
def is_spoken(value: str, *, is_linked: bool = True) -> bool:
    """Return True if what a sentence calls a password is one.

    Unless a word such as `is` stands before it, only what was drawn at random counts.
    """
    kinds = (str.isupper, str.islower, str.isdigit)
    if not is_linked and not all(any(map(kind, value)) for kind in kinds):
        return False
    if not _may_be_secret(value) or _HASH.fullmatch(value) or _IDENTIFIER.fullmatch(value):
        return False
    return any(map(str.isdigit, value)) and not wordlike(value)


_COOKIE = re.compile(r"=([^;\s]+)")
_FAKE = re.compile(
    r"(?i)x{6,}|\*{3,}|\.{3,}|0{10,}|redacted|placeholder|your[-_]|[-_]here\b|insert|changeme"
)
_STOCK = frozenset(
    "password passwd pass pwd secret token postgres guest root admin user test example mypassword"
    " pw key hunter2 xxx foo bar".split()
)


@lru_cache(4096)
def _is_secret(value: str, level: int, how: str, quoted: bool, name: str) -> bool:
    if not _may_be_secret(value):
        return False
    if how == "mentioned" or level == 1:
        is_hash = (_HASH if name.lower() == "key" else _COMMIT).fullmatch(value)
        return _is_random(value) and not is_hash
    has_digit, has_mark = any(map(str.isdigit, value)), bool(_MARK.search(value))
    if has_mark or not wordlike(value):
        return has_digit or (has_mark and quoted and level >= 2)
    # Only a password may consist of words.
    return level == 3 and has_digit and _is_word_password(value, quoted, name)


def _may_be_secret(value: str) -> bool:
    """Return False for short values, placeholders, and ids and paths of known form."""
    if len(value) < 8 or _is_placeholder(value) or _KNOWN.match(value):
        return False
    return any(map(str.isalpha, value)) and entropy(value) >= 2.5


def _is_word_password(value: str, quoted: bool, name: str) -> bool:
    is_set = quoted or name.isupper() or name.startswith("-")
    return is_set and not _IDENTIFIER.fullmatch(value)


def _is_random(value: str) -> bool:
    """Return True if a long value was drawn at random."""
    if len(value) < 16 or not any(map(str.isdigit, value)):
        return False
    return entropy(value) >= 3 and not wordlike(value) and len(_PART.findall(value)) < 5


def _is_placeholder(value: str) -> bool:
    if _TEMPLATE.search(value):
        # So does a long key of letters and signs.
        return len(value) < 40 or len(set(value) & _SIGNS) < 6
    # A long key spells a short word now and then, by chance.
    return bool(_FILLED_IN_LATER.search(value)) and (
        len(value) < 32 or wordlike(value) or entropy(value) < 3
    )


_SIGNS = frozenset("!@#$%^&*(-_=+)")
_TEMPLATE = re.compile(
    r"(?i)\*{3,}|\.{3,}|-{4,}|\$\{|\$\(|\{\{|<%|%\(|#\{|%[sdv]\b|^\$[a-z_]|^%[a-z_]+%$|^<.*>$"
    r"|^\{.*\}$|^\[.*\]$|://|process\.env|os\.environ|"
    r"^(?:self|this|config|settings|var|env|args|opts|options|req|request|res|data|ctx|props|state"
    r"|params|local|module|ref|import|secrets)\."
)
_FILLED_IN_LATER = re.compile(
    r"(?i)x{4,}|_{4,}|0{6,}|redacted|example|change[-_]?me|placeholder|your|dummy|insert|replace"
    r"|todo|foobar|environ|getenv"
)
_KNOWN = re.compile(
    r"(?:msg|toolu|req|call|chatcmpl|resp|run|thread|asst|srvtoolu|session|sess|cse)_"
    r"|sha(?:1|256|384|512)[-:]|data:|arn:|"
    r"v?[0-9]+(?:\.[0-9]+)+|[0-9]{4}-[0-9]{2}-[0-9]{2}|/[a-z]{2,}/|\./|\.\./|~/|[A-Za-z]:[\\/]"
    r"|@[a-z]|[\w.-]+\.(?:[a-z]{1,4}|json|yaml|html)$|[\w.+-]+@[\w-]+\."
)
_PART = re.compile(r"[-_.:/@]+")
_MARK = re.compile(r"[!@#$%^&~]|\*(?!$)|[0-9]\*")
_IDENTIFIER = re.compile(r"[a-z]+(?:[_.-][a-z]+)+[_.-]?[0-9]{0,2}|[a-z]+[0-9]?")
_COMMIT = re.compile(
    r"[0-9a-f]{7,12}|[0-9a-f]{40}|[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}"
)
_HASH = re.compile(
    r"(?:v[0-9]:)?[0-9a-f]{7,64}|[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}"
)
