r"""Values that only their name gives away: `DB_PASSWORD=…`, `"apiKey": "…"`, `--token …`, `<secret>…</secret>`.

Works on UTF-8 bytes. Finds a telling name, reads what separates it from its value, and judges whether the value looks
like a secret rather than a path, an identifier, a placeholder or a word. Knows no provider and replaces nothing.
"""

import re
from collections import Counter
from collections.abc import Iterator
from math import log2
from typing import Any

# The gate: a telling name, marks of separation (written out or escaped), perhaps some filling words, then eight
# characters with a digit, or after a word for password and a quote, with a mark. Each class is closed under JSON escaping.
_NAMED = r"(?i:pass(?:w(?:or)?d|phrase|code)?|pwd|secret|token|cred(?:ential)?s?|auth|key)[A-Za-z0-9_-]{0,24}"
_PASSWORD = r"(?i:pass(?:w(?:or)?d|phrase|code)?|pwd|secret)[A-Za-z0-9_-]{0,24}"
_BETWEEN = r"""(?:[ \t\r\n"'\x60\\\[\]{}()<>:=,|?\x1b-]|\\+[nrtbf]|\\+u00[0-9a-fA-F]{2}|\[[0-9;]{1,8}m)"""
_FILLING = "(?i:is|was|are|value|for|to|of|set|string|str|with|user|the|this|your|my|basic|bearer|token)"
_BARE = r"""[^ \t\r\n"'\x60,;(){}\[\]<>=]"""
_QUOTED = r"""[^ \t\r\n"'\x60]"""


def _eight(each: str, one: str) -> str:
    """Eight or more of `each`, at least one of which is `one`."""
    early = (f"{each}{{{i}}}{one}{each}{{{7 - i}}}" for i in range(8))
    return f"(?:{'|'.join(early)}|{each}{{8,}}{one})"


GATE = (
    rf"{_NAMED}{_BETWEEN}+(?:{_FILLING}{_BETWEEN}+){{0,3}}(?:{_eight(_BARE, '[0-9]')}|[\"'\x60]{_eight(_QUOTED, '[0-9]')})"
    rf"|{_PASSWORD}{_BETWEEN}*[\"'\x60]{_eight(_QUOTED, '[!@#$%^&*~+]')}"
)


def secrets(pattern: Any, data: bytes) -> Iterator[tuple[int, int]]:
    """Where the secret values are. `pattern` is GATE, compiled: it finds the names worth reading on from."""
    at = 0
    while found := pattern.search(data, at):
        at = found.start()
        name = _NAME.match(data, at)
        assert name, "the gate opens with a name"
        value = _value(data, at, name.end())
        if value:
            yield value
        at = value[1] if value else name.end()


_NAME = re.compile(rb"(?i:pass(?:w(?:or)?d|phrase|code)?|pwd|secret|token|cred(?:ential)?s?|auth|key)[A-Za-z0-9_-]{0,24}")
_BEFORE = re.compile(rb"[A-Za-z0-9_.$-]{0,48}$")

_WS = rb"(?:[ \t]|\x1b\[[0-9;]{0,8}m)"
_NL = rb"(?:[ \t\r\n]|\\+[nrt])"
_QUOTE = rb"\\*[\"'`]"
# What may stand between a name and its value, most telling first.
_SEPARATORS = re.compile(
    rb"(?P<pair>(?:%(q)s)?,?%(nl)s{0,12}(?:%(q)s)?(?i:value)(?:%(q)s)?%(ws)s{0,3}[:=]%(ws)s{0,3})"
    rb"|(?P<typed>\??:%(ws)s?[A-Za-z_][A-Za-z0-9_.|\[\]<> ]{0,24}?%(ws)s?=%(ws)s?|%(ws)s[a-z]{3,12}%(ws)s:?=%(ws)s?)(?=%(q)s)"
    rb"|(?P<assign>(?:%(q)s)?[\])}]{0,2}(?:\x1b\[[0-9;]{0,8}m)?%(ws)s{0,24}(?::=|=>|->|[:=])%(ws)s{0,24})(?![=>:])"
    rb"|(?P<call>%(ws)s?===?%(ws)s?|%(q)s%(ws)s{0,2},%(nl)s{0,8}|\()(?=%(q)s)"
    rb"|(?P<element>(?:%(q)s)?>)"
    rb"|(?P<told>(?:%(q)s)?(?:%(ws)s|[:|*]){1,6}(?:(?i:is|was|for|to|of|set|value|with|the|user|this|my|your)%(ws)s{1,2}){0,3}(?:[:=|]%(ws)s)?)"
    % {b"q": _QUOTE, b"ws": _WS, b"nl": _NL}
)
_OPEN = re.compile(rb"(?:[bruf]{0,2}(\\*[\"'`]))?\{?((?i:bearer|basic|token|apikey)\s+)?")
_VALUE_QUOTED = re.compile(rb"[^\s\"'`\\\x00-\x1f]{1,4096}")
_VALUE_BARE = re.compile(rb"[^\s\"'`\\,;(){}\[\]<>&|\x00-\x1f]{1,4096}")
_VALUE_LINE = re.compile(rb"[^\s\"'`\\\x00-\x1f]{1,4096}")


def _value(data: bytes, start: int, name_end: int) -> tuple[int, int] | None:
    """The span of the secret that the name from `start` to `name_end` gives away."""
    before = _BEFORE.search(data, max(0, start - 48), start)
    lead = before.group() if before else b""
    level = _level((lead + data[start:name_end]).decode("ascii"))
    if not level:
        return None
    separator = _SEPARATORS.match(data, name_end)
    if not separator:
        return None
    how = separator.lastgroup
    if lead + data[start:name_end] in (b"PASS", b"Pass", b"pass") and not (how == "assign" and b"=" in separator.group()):
        return None
    opened = _OPEN.match(data, separator.end())
    assert opened, "every part of it is optional"
    quote = opened[1]
    flag = lead.startswith(b"-") or lead == b"" and data[max(0, start - 1) : start] == b"-"
    body = (_VALUE_QUOTED if quote or how == "element" and False else _VALUE_BARE).match(data, opened.end())
    if not body:
        return None
    value, end = body.group(), body.end()
    if quote:
        if data[end : end + len(quote)] != quote:
            return None
    else:
        value = value.rstrip(b".,:;!?*")
        end = opened.end() + len(value)
        following = data[end : end + 1]
        if following in (b"(", b"["):
            return None
        if how == "element" and following != b"<":
            return None
    if how == "told":
        how = "flag" if flag and not quote else "quoted" if quote and level >= 3 else "told"
    if not _is_secret(value.decode("utf-8", "replace"), level, how or "", bool(quote), (lead + data[start:name_end]).decode("ascii")):
        return None
    return opened.end(), end


_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
_BENIGN_LAST = frozenset(
    "url uri endpoint file files path dir id ids name names type types count counts limit length len size expiry expires expiration ttl age at "
    "in prefix suffix field fields label header param params policy regex pattern min max provider method mode status required enabled version "
    "index map list class column hint placeholder usage budget input output error errors err manager store storage service helper format "
    "reset rotation strength input cost price rate date time timestamp description desc message msg title text algorithm alg hash digest "
    "fingerprint checksum arn ref reference source env var variable config settings handler callback host port user username email "
    "scope scopes issuer audience number num word words board board pair pairs event events press code down up binding bindings by "
    "validator validation generator".split()
)
_WEAK_BEFORE_KEY = frozenset(
    "public primary foreign cache sort partition hash range row dict map object idempotency dedupe i18n translation locale index composite "
    "natural surrogate unique group routing event hot short shift ctrl alt arrow enter return escape lookup search the cookie storage query "
    "state react list item config property field column json registry feature flag issue project deploy".split()
)


def _level(name: str) -> int:
    """How telling a name is: 0 not at all, 1 weak (`cache`-like keys are 0), 2 a secret, 3 a password."""
    words = [word.lower() for word in _WORD.findall(name)]
    while words and (words[-1].isdigit() or words[-1] in ("value", "val", "string", "str", "here", "data", "env", "b", "base")):
        words.pop()
    if not words or words[-1] in _BENIGN_LAST:
        return 0
    joined = "".join(words)
    last = words[-1]
    if last in ("password", "passwd", "pwd", "passphrase", "passcode", "pass", "passw") or joined.endswith(("password", "passwd", "pwd")):
        return 3
    if last in ("secret", "token", "apikey", "credential", "credentials", "creds", "authtoken", "secrets", "cred"):
        return 2
    if joined.endswith(("apikey", "accesskey", "secretkey", "privatekey", "authkey", "accountkey", "sharedkey", "signingkey", "encryptionkey", "masterkey")):
        return 2
    if joined.endswith(("token", "secret")) and last not in ("nexttoken", "tokens"):
        return 2
    if last == "key":
        return 0 if len(words) > 1 and words[-2] in _WEAK_BEFORE_KEY else 1
    if last == "auth" or "secret" in words or "password" in words:
        return 1
    return 0


def is_token(value: str) -> bool:
    """Whether what has the shape of a provider's token was drawn at random, rather than written to look like one."""
    if entropy(value) < 2.5 or _FAKE.search(value):
        return False
    parted = "_" in value[8:] or "-" in value[8:]
    return any(map(str.isdigit, value)) and not (parted and wordlike(value)) or not parted and not wordlike(value)


def is_placed(value: str, kind: str) -> bool:
    """Whether what stands in a secret's place is one, rather than a placeholder or a word of prose."""
    if _PLACEHOLDER.search(value) or value.lower() in _STOCK or value.isdigit():
        return False
    return kind == "url-password" or entropy(value) >= 2 and not (value.isalpha() and wordlike(value))


_FAKE = re.compile(r"(?i)x{6,}|\*{3,}|\.{3,}|0{10,}|redacted|placeholder|your[-_]|[-_]here\b|insert|changeme")
_STOCK = frozenset("password passwd pass pwd secret token postgres guest root admin user test example mypassword pw key hunter2 xxx foo bar".split())


def _is_secret(value: str, level: int, how: str, quoted: bool, name: str) -> bool:
    if len(value) < 8 or _PLACEHOLDER.search(value) or _KNOWN.match(value):
        return False
    letters, digits = sum(map(str.isalpha, value)), sum(map(str.isdigit, value))
    marks = len(value) - letters - digits
    if not letters or entropy(value) < 2.8:
        return False
    strong = digits >= 2 and len(value) >= 16 and entropy(value) >= 3.0 and not wordlike(value)
    if how == "told" or level == 1:
        return strong and not _HASH.fullmatch(value) and len(_WORDS.findall(value)) < 2
    if level == 3:
        if quoted:
            return digits > 0 or marks > 0 and not re.fullmatch(r"[\w./:-]+", value)
        return digits > 0 and (not wordlike(value) or name.isupper() or how == "flag")
    return digits > 0 and not wordlike(value)


_PLACEHOLDER = re.compile(
    r"(?i)x{4,}|\*{3,}|\.{3,}|-{4,}|_{4,}|0{6,}|\$\{|\$\(|\{\{|<%|%\(|#\{|%[sdv]\b|^\$[a-z_]|^%[a-z_]+%$|^<.*>$|^\{.*\}$|^\[.*\]$|://|redacted|"
    r"example|changeme|change[-_]?me|placeholder|your[-_]?|dummy|insert|replace|todo|foobar|process\.env|environ|getenv|secrets\.|"
    r"^(?:self|this|config|settings|var|env|args|opts|options|req|request|res|data|ctx|props|state|params|local|module|ref|import)\."
)
_KNOWN = re.compile(
    r"(?:msg|toolu|req|call|chatcmpl|resp|run|thread|asst|srvtoolu|session|sess|cse)_|sha(?:1|256|384|512)[-:]|data:|arn:|"
    r"v?[0-9]+(?:\.[0-9]+)+|[0-9]{4}-[0-9]{2}-[0-9]{2}|/|\./|\.\./|~/|[A-Za-z]:[\\/]|@[a-z]|[\w.-]+\.(?:[a-z]{1,4}|json|yaml|html)$|[\w.+-]+@[\w-]+\."
)
_WORDS = re.compile(r"(?<![A-Za-z])(?:[A-Z]?[a-z]{4,}|[A-Z]{4,})(?![A-Za-z])")
_HASH = re.compile(r"(?:v[0-9]:)?[0-9a-f]{7,64}|[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}")


def entropy(value: str) -> float:
    """Bits per character."""
    counts = Counter(value).values()
    return log2(len(value)) - sum(n * log2(n) for n in counts) / len(value)


# The commonest pairs of letters in English: nine of ten pairs in words and identifiers, one of four in random letters.
_PAIRS = frozenset(
    "th he in er an re on at en nd ti es or te of ed is it al ar st to nt ng se ha as ou io le ve co me de hi ri ro ic ne ea ra ce li ch ll "
    "be ma si om ur ca el ta la ns di fo ho pe ec pr no ct us ac ot il tr ly nc et ut ss so rs un lo wa ge ie wh ee wi em ad ol rt po we na "
    "ul ni ts mo ow pa im mi ai sh ir su id os iv ia am fi ci vi pl ig tu ev ld ry mp fe bl ab gh ty op wo sa ay ex ke fr oo av ag if ap gr "
    "od bo sp rd do uc bu ei ov by rm ep tt oc fa ef cu rn sc gi da cr cl du ga qu ue ff ba ey ls va um pp up lu go".split()
)
_LETTERS = re.compile(r"[A-Za-z]{2,}")


def wordlike(value: str) -> bool:
    """Made of words, as identifiers, paths and test names are, rather than drawn at random."""
    runs = [run.lower() for run in _LETTERS.findall(value)]
    pairs = [run[i : i + 2] for run in runs for i in range(len(run) - 1)]
    common = sum(pair in _PAIRS for pair in pairs)
    return sum(map(len, runs)) * 2 > len(value) and common >= 0.6 * len(pairs)
