"""The template of a message: the message without paths, numbers, ids, times and other values.

What identifies the error stays: words, names of commands, modules and exceptions, and codes
(`E0308`, `HTTP 404`, `exit code 1`, `[Errno 2]`). In doubt a word stays: two errors under one name
hide each other, one error under two names is only listed twice. Messages are short
(`text.MAX_LINE_CHARS`) and every repeat is bounded, so no pattern can be slow.
"""

from __future__ import annotations

import re

from .text import build_finder

PLACEHOLDER = "<*>"


def build_template(message: str) -> str:
    """Return the message for reading, with names like `<path>` or `<n>` for what varies."""
    if not (_OFTEN_VARIABLE.search(message) or _is_variable(message)):
        return " ".join(message.split())
    if not _may_hold_constants(message):
        text = _mask(message)
    else:  # Every other part is a match.
        parts = _CONSTANTS.split(message)
        text = "".join([part if n % 2 else _mask(part) for n, part in enumerate(parts)])
    text = " ".join(text.split())
    return _REPEATED.sub(r"\1", text) if text.count("<") > 1 else text


def _is_variable(message: str) -> bool:
    return bool(
        ("." in message and _DOT.search(message))
        or _has_hex(message)
        or ("tmp" in message and _TMP.search(message))
    )


def build_key(template: str) -> str:
    """Return the template for comparing.

    All placeholders become one, because a slot may hold a number once and a hash later.
    """
    if "<" not in template:
        return template
    key = _NAMED.sub(PLACEHOLDER, template)
    if _QUOTE.search(key):
        key = _QUOTED_MASK.sub(PLACEHOLDER, key)
    return _ANY_REPEATED.sub(PLACEHOLDER, key) if key.count(PLACEHOLDER) > 1 else key


# Separate patterns are faster here than one with alternatives.
_OFTEN_VARIABLE = re.compile(r"[\d/\\'\"`‘“@]")
_DOT = re.compile(r"\.\w")
_has_hex = build_finder(["[a-f]{8}"])
_TMP = re.compile(r"\btmp")
_MASKS = r"<(?:path|n|id|value|url|email|time|\*)>"
_NAMED = re.compile(_MASKS)
_QUOTED_MASK = re.compile(r"'<\*>'|\"<\*>\"|`<\*>`|‘<\*>’|“<\*>”")
_REPEATED = re.compile(rf"({_MASKS})(?:(?:[,;]? |[-.:/x_+=@#%])\1){{1,100}}")
_ANY_REPEATED = re.compile(r"<\*>(?:(?:[,;]? |[-.:/x_+=@#%]{0,2})<\*>){1,100}")


# What stays even with digits or quotes: codes, and the name of what is missing or unknown.

_NAMING = (
    r"no module named|cannot find module|module not found:?|command not found:|unknown"
    r" command:?|cannot find package"
    r"|no matching distribution found for"
    r"|unable to locate package|provides package|package|crate|executable file|import|cannot import"
    r" name|has no attribute"
    r"|undefined name|undefined:"
    r"|undeclared name:|unresolved import|unexpected keyword argument|unrecognized"
    r" arguments?:?|unexpected argument|unknown (?:option"
    r"|flag|argument):?"
    r"|unrecognized (?:option|flag):?|flag provided but not defined:|missing script:"
).replace(" ", r"\ ")
NAMING_BEFORE = re.compile(rf"(?i)(?:{_NAMING}) \Z")
"""The words before the name of what is missing or unknown, which identifies an error."""
_STATUS = (
    r"bad request|unauthorized|payment required|forbidden|not found|method not allowed|not"
    r" acceptable|request time-?out|conflict|gone"
    r"|payload too large"
    r"|unprocessable|too many requests|internal server error|not implemented|bad gateway|service"
    r" unavailable|gateway time-?out"
    r"|overloaded|client error|server error"
).replace(" ", r"\ ")
_may_hold_constants = build_finder(
    [
        "(?i)(?:" + _NAMING.replace("\\ ", " ") + ") ",
        (
            r"(?i)(?:exit|error|errno|sqlstate|signal|return|status|code|http|curl)["
            r" a-z:=(\[/.\d-]{0,24}\d|[45]\d\d [a-z]"
        ),
    ]
)
"""A fast check, which saves the slow pattern below."""
_CONSTANTS = re.compile(rf"""(?ix)(?<![\w/.=&?-])(
      (?:{_NAMING})\ (?:['"`‘“](?![/~.\\<]|[a-z]:[\\/])[\w@-][\w@.+:/-]{{0,99}}['"`’”]
        | (?![/~.\\<'"`‘“]|[a-z]:[\\/])[\w@-][\w@.+-]{{0,99}}(?<![.:,]))(?![\w/\\])
      | exit(?:ed)?(?:\ with)?(?:\ (?:non-zero|error|exit))?(?:\ (?:code|status|value))?
        [\ :=(]{{1,3}}-?\d{{1,10}}\b
      | sqlstate[\ :=\[(]{{1,3}}[0-9a-z]{{5}}\b
      | (?:os\ error|errno|winerror|signal|error\ code|return(?:ed)?(?:\ code|\ status)
          |status(?:\ code)?|code|hresult)
        [\ :=\[(]{{1,3}}(?![123]\d\d\b)-?(?:0x[0-9a-f]{{1,16}}|[1-9]\d{{0,4}})(?![\w.]\w|\w)
      | http(?:/\d(?:\.\d)?)?[\ :]{{1,2}}(?:error\ |status\ )?[45]\d\d\b
      | (?:api|server|client|request|response|http)\ error[\ :(]{{1,3}}[45]\d\d\b
      | error[\ :]{{1,2}}(?:[45]\d\d|1?\d?\d|\d{{4}}(?=\ \())(?![\w.,]\w|\w)
      | [45]\d\d\ (?:{_STATUS})\b
      | curl:\ \(\d{{1,3}}\)
    )""")


def _mask(text: str) -> str:
    """Replace the variable parts. Each step runs only if a fast check finds something for it."""
    if "://" in text:
        text = _URL.sub("<url>", text)
    if "@" in text:
        text = _EMAIL.sub("<email>", text)
    if "/" in text or "\\" in text:
        text = _SLASHED.sub(_mask_path, text)
    if "." in text and _MAY_BE_FILE.search(text):
        text = _FILE.sub("<path>", text)
    if _MAY_BE_COLONS.search(text):
        text = _COLONS.sub("<id>", text)
    if _DIGIT.search(text) or "tmp" in text or _has_hex(text):
        text = _TOKEN.sub(_mask_token, text)
    if "<n>" in text and _MAY_BE_DATE.search(text):
        text = _DATE.sub("<time>", text)
    if _QUOTE.search(text):
        text = _QUOTES.sub(_mask_quoted, text)
    return text


_URL = re.compile(r"\b[A-Za-z][A-Za-z0-9+.-]{1,15}://[^\s\"'`<>)\]}]{1,400}(?<![.,:;])")
_EMAIL = re.compile(r"\b[\w.+-]{1,64}@[\w-]{1,63}(?:\.[\w-]{1,63}){1,4}\b")
# An extension makes a bare word a file. These are of source, data and documents; `.com` is not
# among them.
_EXT = (
    r"(?:[cm]?[jt]sx?|py[iwxc]?|go|rs|rb|java|kts?|swift|cs|fs|php|lua|pl|scala|clj|exs?|erl|hs|ml"
    r"|dart|vue|svelte|astro|c|cc|cpp|cxx|h"
    r"|hh|hpp"
    r"|mm?|sh|bash|zsh|ps1|bat|cmd|sql|graphql|proto|json[l5c]?|ya?ml|toml|ini|cfg|conf|lock|xml"
    r"|html?|s?css|less|mdx?|rst|txt|csv|tsv|log"
    r"|ipynb|parquet|db|sqlite3?|pdf|png|jpe?g|gif|svg|webp|ico|zip|gz|tgz|tar|whl|jar|so|dll|dylib"
    r"|exe|o|a|wasm|env|tmp|bak|mod|sum"
    r"|gradle|tf)"
)
_POSITION = (
    r"(?::\d{1,7}(?::\d{1,7})?(?:-\d{1,7}(?::\d{1,7})?)?|\(\d{1,7}(?:,\d{1,7})?\)|,? (?:on |at"
    r" )?line \d{1,7}(?:,? col(?:umn)? \d{1,7})?)?"
)
_SLASHED = re.compile(
    r"(?<![^\s'\"`‘“(\[{<,;|:=])(?:[A-Za-z]:(?=[\\/]))?"
    rf"[^\s'\"`’”()\[\]{{}}<>,;|:=/\\]{{0,120}}[\\/][^\s'\"`’”()\[\]{{}}<>,;|:]{{0,400}}{_POSITION}"
)
_HAS_EXTENSION = re.compile(rf"\.{_EXT}{_POSITION}\Z")
_NO_FILE = r"(?![\w(/\\]|\.\w|-\w|<\*>)"
_MAY_BE_FILE = re.compile(rf"\.{_EXT}{_NO_FILE}")
_FILE = re.compile(
    rf"(?<![\w./\\@<-])(?<!<\*>)\.?[\w+-]{{1,80}}(?:\.[\w+-]{{1,40}}){{0,3}}"
    rf"\.{_EXT}{_NO_FILE}{_POSITION}"
)
_MAY_BE_COLONS = re.compile(r":[0-9a-fA-F]{0,4}:")
_COLONS = re.compile(r"(?<![\w:])(?:[0-9a-fA-F]{0,4}:){2,7}[0-9a-fA-F]{1,4}(?![\w:])")
_TOKEN = re.compile(
    r"(?<![\w$<])(?:[A-Za-z_$+-]{0,80}\d(?:[\w$.:%+-]|,(?=\d{3}(?!\d))){0,200}"
    r"|[a-f]{8,128}(?![\w-])|tmp[\w.-]{4,60})"
)
_DIGIT = re.compile(r"\d")
_DAY = r"(?:(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)[a-z]{0,6},? {1,2})?"
_MONTH = r"\b(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)[a-z]{0,6}"
_MAY_BE_DATE = re.compile(
    r"(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)[a-z]{0,6} {1,2}<n>|<n> ?[AaPp][Mm]"
)
_DATE = re.compile(
    rf"{_DAY}(?:<n> )?{_MONTH} {{1,2}}<n>(?:,? {{1,2}}(?:at )?<n>){{0,3}}(?: ?[AP]M\b)?|<n>"
    r" ?[AaPp][Mm]\b"
)
_QUOTE = re.compile(r"['\"`‘“]")
# Lookbehinds stand after the quote, so that a search goes from quote to quote and not from letter
# to letter.
_QUOTES = re.compile(
    r"'(?<![\w\\]')(?:[^'\\]|\\.){1,400}'(?!\w)|\"(?<![\w\\]\")(?:[^\"\\]|\\.){1,400}\"(?!\w)"
    r"|`(?<![\w\\]`)[^`]{1,400}`(?!\w)|‘(?<![\w\\]‘)[^’]{1,400}’|“(?<![\w\\]“)[^”]{1,400}”"
)


def _mask_path(match: re.Match[str]) -> str:
    text = match[0]
    word = text.rstrip(".")
    # `a/<*>` is a masked `a/1`, and no folder.
    is_folder = word.endswith(("/", "\\")) and not match.string.startswith(
        ("<*>", ":<*>"), match.end()
    )
    if len(word) > 1 and (
        word.startswith(_ROOTS)
        or is_folder
        or word[1:3] in (":\\", ":/")
        or _HAS_EXTENSION.search(word)
    ):
        return "<path>" + text[len(word) :]
    return text


_ROOTS = ("/", "~", "./", "../", ".\\", "..\\", "\\\\")


def _mask_token(match: re.Match[str]) -> str:
    """Mask a word with digits.

    A number is masked with its unit. In a name only the digits are masked, unless it is a known
    name, a code, or random letters and digits.
    """
    text = match[0]
    word = text.rstrip(".:,-+")
    rest = text[len(word) :]
    first = word[:1]
    if first.isdigit() or (first in "+-" and word[1:2].isdigit()):
        return "<n>" + rest
    if _CODE.match(word) and _is_at_code(match):
        return text
    if _KNOWN.match(word):
        return text
    if is_random(word) or word.startswith("tmp"):
        return "<id>" + rest
    return _DIGITS.sub("<n>", word) + rest


_DIGITS = re.compile(r"(?:(?<![A-Za-z0-9])-)?\d[\d.,:]*(?<![.,:])")
_CODE = re.compile(r"[A-Z]{1,7}-?\d{2,6}\Z")
_KNOWN = re.compile(
    r"""(?ix)(?: utf-?(?:8|16|32)(?:-sig|le|be)? | latin-?1 | cp\d{3,4} | iso-8859-\d{1,2}
    | sha-?(?:1|224|256|384|512) | md[45]
    | base(?:32|58|64)(?:url)? | ipv[46]
    | http/?[123] | oauth-?2 | h264 | mp[34] | s3 | ec2 | k8s | i18n | l10n | a11y
    | x86(?:[_-]64)? | x64 | arm64 | amd64 | aarch64
    | win(?:32|64) | log4j
    | u?int(?:8|16|32|64|128)(?:_t)? | [iu](?:8|16|32|64|128) | [fc](?:16|32|64|128)
    | float(?:16|32|64) | complex(?:64|128)
    | vec[234] | mat[234]
    | python[23] | pip[23] | es(?:5|6|20\d\d) | sqlite3 | boto3 | urllib3 | psycopg[23] | bzip2
    | pg8000 | re2 | web3 | h5py | jinja2 | log1p )\Z"""
)
_SWITCHES = re.compile(r"[A-Za-z](?=\d)|\d(?=[A-Za-z])")
_HEX = re.compile(
    r"(?:[0-9a-f]{6,128}|[0-9A-F]{7,128}|0[xX][0-9a-fA-F]{1,64}"
    r"|(?:[0-9a-fA-F]{4,16}-){2,8}[0-9a-fA-F]{4,32})\Z"
)


def is_random(word: str) -> bool:
    """Return True if letters and digits are mixed as in no name that a person gives."""
    if len(word) < 6:
        return False
    if _HEX.match(word):
        return True
    for part in _PART.split(word):
        switches = len(_SWITCHES.findall(part))
        if switches >= 4 or (switches >= 2 and len(part) >= 8 and len(_DIGITS.findall(part)) >= 2):
            return True
    return False


_PART = re.compile(r"[_.:-]")


def _is_at_code(match: re.Match[str]) -> bool:
    """Return True where a code may stand: first, in brackets, or after a word like `error`."""
    before = match.string[: match.start()]
    return (
        not before
        or before[-1] in "[("
        or before.endswith((": ", "error ", "Error ", "warning ", "rule ", "code "))
    )


def _mask_quoted(match: re.Match[str]) -> str:
    """Mask a text in quotes.

    A name stays, because it is what the error is about; any other text is a value.
    """
    text = match[0]
    inside = text[1:-1]
    if (" " not in inside and _IDENTIFIER.match(inside)) or (
        inside[0] == "<" and _NAMED.fullmatch(inside)
    ):
        return text
    method = _METHOD.match(inside)
    return f"{text[0]}{method[0] if method else ''}<value>{text[-1]}"


_METHOD = re.compile(r"(?:GET|POST|PUT|PATCH|DELETE|HEAD|OPTIONS) ")


_W = r"(?:[\w$]|<n>|<\*>)"
_IDENTIFIER = re.compile(
    rf"(?:--?[A-Za-z][\w-]{{0,60}}|@[\w.-]{{1,60}}/[\w.-]{{1,60}}|[A-Za-z_$]{_W}{{0,60}}(?:(?:\.|::"
    rf"|->){_W}{{1,60}}){{0,6}}(?:\(\))?)\Z"
)
