"""What the sieve passes over, the gate of the redaction would not have opened for. It may name too much, and never too little."""

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runlore import _anchored, _rules, _sieve, _sieve_table
from runlore.redact import Redactor, Rule

speed = pytest.importorskip("runlore._speed", reason="it was not compiled here")

KEY = b"k" * 32
GATE: Any = Redactor(KEY)._gate
TABLE = _sieve_table.table()
CORPUS = Path(__file__).parents[2] / "shared/corpus"


def without_sieve() -> Redactor:
    redactor = Redactor(KEY)
    redactor._sieve = None
    return redactor


def test_the_table_is_that_of_the_rules() -> None:
    assert _sieve.table() == TABLE, "write it down again: python -m runlore._sieve"


def missed(texts: Iterable[bytes], start: int = 0) -> list[bytes]:
    """Those in which the gate opens, and the sieve does not say so, or not where."""
    all_texts = list(texts)
    named = {n for n, _, _ in speed.sieve(TABLE, all_texts, start)}
    opened = [(n, match.start()) for n, text in enumerate(all_texts) if (match := GATE.search(text, start))]
    return [all_texts[n] for n, at in opened if n not in named or not is_place(all_texts[n], at)]


def is_place(text: bytes, start: int) -> bool:
    """Whether the sieve, asked again and again, comes to a place where a match would begin just there."""
    places = speed.sieve(TABLE, [text], start)
    while places and start not in places[0][1:]:
        places = speed.sieve(TABLE, [text], places[0][1] + 1)
    return bool(places)


def opens(text: bytes) -> bool:
    return GATE.search(text) is not None


def is_named(text: bytes) -> bool:
    return bool(speed.sieve(TABLE, [text]))


# ── what may stand between a name and its value ────────────────────────────────────────────────────────────────────────

BETWEEN: list[bytes] = [
    *(bytes([byte]) for byte in b" \t\r\n\"'`\\[]{}()<>:=,|?*\x1b-"),
    *(b"</", rb"<\/", rb"<\\/"),
    *(rb"\n", rb"\r", rb"\t", rb"\b", rb"\f", rb"\\n", rb"\\\\t"),
    *(rb"\u0022", rb"\u001b", rb"\u00aB", rb"\\u003d"),
    *(b"[%bm" % code for code in (b"1", b"0;31", b";;", b"38;5;123")),
    *(mark.encode() for mark in "“”‘’‟"),
    *(rb"\u2018", rb"\u201c", rb"\u201C", rb"\\u201d"),
    *(b"\n+", rb"\n+", rb"\\n+"),
    *(b"\n12\t", b"\n   7:", rb"\n  123456|", rb"\n1\t", rb"\n1\\t", "\n 12→".encode(), b"\n1\\u2192"),
]
FILLING = _anchored._FILLING.removeprefix("(?i:").removesuffix(")").encode().split(b"|")
OPENING: list[bytes] = [
    *(bytes([byte]) + b'"' for byte in b":=,( \t>|"),
    *(b":'", b":`", b":b'", b":rb'", b':uf"', rb":\"", rb":\\\"", rb":\b\"", rb":\\rb\\'"),
    *(":“".encode(), ":b‘".encode(), rb":\u201c", rb":r\\u2018"),
]


@pytest.mark.parametrize("between", BETWEEN)
def test_a_value_is_reached_over_all_that_may_stand_between(between: bytes) -> None:
    texts = [name + between + value for name in (b"password", b"API_KEY", b"auth-2") for value in (b"hunter.2", b"1bcdefgh", rb"ab\,cdef1")]
    texts += [b"key%b%b%b %b4bcdefgh" % (between, word, between, between) for word in FILLING]
    texts += [b"pwd%b%b%b:'abc.def!" % (between, word.upper(), between) for word in FILLING]
    assert all(map(opens, texts))
    assert all(map(is_named, texts))


@pytest.mark.parametrize("opening", OPENING)
def test_a_mark_is_enough_in_quotes_however_they_open(opening: bytes) -> None:
    texts = [b"secret%b%babc%c(d,e;" % (before, opening, mark) for before in (b"", b" ", b'"', b" is ", b"-IS ") for mark in b"0!@#$%^&*~+"]
    texts += [b"key" + opening + b"(,;)={<!"]
    texts += [b"%b%bab<cd=}!" % (name, opening) for name in (b"Token", b"token_s", b"tokenset ", b"TOKENSTR ", b"authOF ", b"auth-o")]
    assert all(map(opens, texts))
    assert all(map(is_named, texts))


@pytest.mark.parametrize(
    "text",
    [
        b"password of hunter9xhunter9xhunter",
        b"password for the staging server: hunter9xhunter9x",
        rb"password for staging is \"hunter9xhunter9x",
        b"auth some words here: `a.b.c.d.e.f.g.h1",
        b"<secret>x 1</secret>",
        b"<token>some words; (and) a\x00\xe2 number, 7",
        b"key-hunter.2",
        b"key-hunter2a",
        b"key_a-b_c.d.e1",
        b"token-_-_-_-_1",
        b"key --type-- =  4bcdefgh",
        b"tokenstring=token:='abcdefg!'",
        rb"password=\;\,\(\)\=\[\<1",
        rb"password=\\{\\}\\{\\}1\\{\\}\\{",
        b"password=\xff\xfe\x80\x81\x82\x83\x847",
    ],
)
def test_other_values_of_a_name_are_reached_too(text: bytes) -> None:
    assert opens(text)
    assert is_named(text)
    assert not missed([before + text for before in (b" ", b"x", b"\\", b"key ", b"tokens: ", b"\x00\xff", b'{"a":"')])


@pytest.mark.parametrize("before", [b"", b"-", b"_", b"\n", b"\xe2", rb"\n", rb"\f", rb"\u000a", rb"\u0041", b"%3D", b"x%3d", b"xy."])
def test_a_token_is_named_wherever_one_may_start(before: bytes) -> None:
    text = before + b"ghp_" + b"a1B2" * 9
    assert opens(text)
    assert not missed([text, b"words before " + text, b"\\" * 3 + text + b"\n"])


@pytest.mark.parametrize(
    "text",
    [
        b'{"type":"user","message":{"content":"The quick brown fox jumps over 13 lazy dogs."},"n":12345678}',
        b'"input_tokens":12345678,"author":"someone1234"',
        b'"key":"value","path":"src/keys/monkey.py","line":12',
        b"xghp_" + b"a1B2" * 9,
        b'"keyboard": "qwerty", passed = "a.b.c": the password. (See 12345678)',
    ],
)
def test_what_is_clean_is_mostly_passed_over(text: bytes) -> None:
    assert not is_named(text)


def test_a_space_is_what_it_is_for_the_gate() -> None:
    """For Python's `\\s`, a vertical tab is one more."""
    texts = [b"ftp://ab\x0bcd@host", b"curl -u me:ab\x0bcdef"]
    assert all(map(opens, texts))
    assert not missed(texts)


# ── the law ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def matches(pattern: str) -> st.SearchStrategy[bytes]:
    return st.from_regex(re.compile(pattern.encode()), fullmatch=True)


def joined(*parts: st.SearchStrategy[bytes]) -> st.SearchStrategy[bytes]:
    return st.tuples(*parts).map(b"".join)


def many(part: st.SearchStrategy[bytes], least: int = 0, most: int = 4) -> st.SearchStrategy[bytes]:
    return st.lists(part, min_size=least, max_size=most).map(b"".join)


# Not of `_anchored.GATE` as a whole: to check what it made, Hypothesis asks Python, which takes ages for that.
_name, _between, _filling = matches(_anchored._NAMED), matches(_anchored._BETWEEN), matches(_anchored._FILLING)
_fillings = many(joined(_filling, many(_between, 1)))
_digit, _mark = matches(r"\\*[0-9]"), matches(r"\\*[0-9!@#$%^&*~+]")
_escaped = r"\\+[^\x00-\x20\"'\x60\\nrtbf]"
_bare, _quoted = (matches(rf"[^{ends}]|{_escaped}") for ends in (_anchored._BARE, _anchored._QUOTED))
NAMED = st.one_of(
    joined(_name, many(_between, 1), _fillings, many(_bare, 0, 9), _digit, many(_bare, 7, 9)),
    joined(_name, many(_between), _fillings, matches(_anchored._OPENING), many(_quoted, 0, 9), _mark, many(_quoted, 7, 9)),
    joined(_name, matches(r"(?: [a-z]{1,9}){1,4}:? \\*[\"'\x60]?"), many(_bare, 15, 18), _digit, many(_bare)),
    joined(_name, matches(r">[^<>\r\n\"]*[0-9]")),
)
GATES = sorted({rule.gate for rule in _rules.PLACED + _rules.MARKED} | {_rules.ESCAPED_ASCII})
OPENED = st.one_of(
    NAMED,
    st.sampled_from(GATES).flatmap(matches),
    joined(matches(_rules._START), st.sampled_from(sorted({rule.gate for rule in _rules.LED})).flatmap(matches)),
)
PIECES = [
    *(*BETWEEN, *OPENING, *FILLING),
    *b"password KEY Secret token tokens auth author _id - . ; / u n ab words Xy 1 42 a1b2c3d4 a!b@c#d$".split(),
    *(rb"\,", rb"\;", rb"\=", rb"\u00", b"\x00", b"\x0b", b"\xe2", b"\x80", b"\xff"),
    *(
        b"ACDb",
        rb"\uACDb",
        b"AKIA",
        b"AIzaSyD3k9Qw7Zx1",
        b"eyJ",
        b"://",
        b"@",
        b"ghp_",
        b"-u ",
        b"bearer ",
        b"sig=",
        b"%3D",
        b"0123456789abcdef",
        b"ABCDEFGHIJKLMNOPQRST",
    ),
]
MIXED = many(st.sampled_from(PIECES), 0, 30)


@settings(max_examples=300)
@given(MIXED, OPENED, MIXED)
def test_no_text_is_passed_over_in_which_the_gate_opens(before: bytes, text: bytes, after: bytes) -> None:
    assert not missed([text, before + text, text + after, before + text + after])


@settings(max_examples=300)
@given(OPENED, st.integers(0), st.integers(0, 2), st.sampled_from(PIECES))
def test_nor_when_something_in_it_is_changed(text: bytes, at: int, gone: int, new: bytes) -> None:
    at %= len(text) + 1
    assert not missed([text[:at] + text[at + gone :], text[:at] + new + text[at + gone :], text[:at], text[at:], text.swapcase()])


@settings(max_examples=500)
@given(st.lists(MIXED, max_size=20))
def test_nor_when_it_is_a_mixture_of_what_matters(texts: list[bytes]) -> None:
    assert not missed(texts)
    assert not missed([b"password" + text + b"hunter2hunter2hunter2" for text in texts])


@given(MIXED, OPENED, MIXED, st.integers(0, 200))
def test_nor_when_the_look_begins_in_its_midst(before: bytes, text: bytes, after: bytes, start: int) -> None:
    assert not missed([before + text + after], min(start, len(before + text + after)))


@given(st.lists(st.binary(max_size=12)))
def test_texts_of_any_bytes_are_taken(texts: list[bytes]) -> None:
    assert not missed([*texts, b"", *(text[:size] for text in texts for size in range(6))])


# ── what it is used for ────────────────────────────────────────────────────────────────────────────────────────────────

PLAIN, SIFTED = without_sieve(), Redactor(KEY)


def is_found_alike(text: bytes, at: int) -> bool:
    found, expected = SIFTED._first_match(text, at, at, len(text)), GATE.search(text, at)
    return bool((found and found.start()) == (expected and expected.start()))


def is_redacted_alike(text: bytes) -> bool:
    said = text.decode("utf-8", "replace")
    return PLAIN.text(said) == SIFTED.text(said) and PLAIN.value({said: [said, 1]}) == SIFTED.value({said: [said, 1]})


@settings(max_examples=300)
@given(MIXED, OPENED, MIXED, OPENED, st.integers(0, 60))
def test_the_first_match_and_what_is_redacted_are_the_same_without_it(
    before: bytes, one: bytes, after: bytes, other: bytes, at: int
) -> None:
    text = before + one + after + other
    assert is_found_alike(text, at)
    assert is_redacted_alike(text)


@pytest.mark.parametrize("before", [rb"\uACDb", rb"\u0ACDb", b"%AC", rb"\n", rb"login x\n", b"-us1", b"login me " * 9])
@pytest.mark.parametrize(
    "token", [b"AKIAZ3K9QW7ZX1LM4NP8", b"AIzaSyD3k9Qw7Zx1Lm4Np8Rt2Uv6Wy0Bc5Ef9Hj", b"npm_Zx81Lm4Np8Rt2Uv6Wy0Bc5Ef9HjKq3Ws7Ed1"]
)
def test_a_place_in_an_escape_does_not_hide_the_token_behind_it(before: bytes, token: bytes) -> None:
    text = b"export X=" + before + token
    assert is_redacted_alike(text)
    assert is_found_alike(text, 0)


@pytest.mark.parametrize(
    "unit", [b"key ", b"key", b"key>", b"key - ", rb"key\\\\", b"keykey>a", b"key -us1: ", b"pwd: is ", b"://", b":\\", b"eyJ", b"-u", b"-"]
)
def test_names_that_run_into_each_other_are_left_to_the_gate(unit: bytes) -> None:
    """It would take minutes to follow each of them to the end."""
    text = unit * (200_000 // len(unit))
    texts = [text, text + b": hunter.2", b"." * 99 + text + b'="abcdefg!"', b"x" * 100_000 + text + b" 1bcdefgh"]
    assert not missed(texts)
    assert set(Redactor(KEY).suspects(texts)) == {n for n, text in enumerate(texts) if opens(text)}


def test_the_users_own_rules_are_looked_for_without_it() -> None:
    redactor = Redactor(KEY, [Rule("ticket", r"zq[0-9]{6}", ("zq",))])
    assert redactor._sieve is None
    assert redactor.suspects([b"zq123456", b"nothing", b"password=hunter.2"]) == [0, 2]
    assert Redactor(KEY)._sieve is not None


def test_a_gate_that_cannot_be_followed_is_no_silent_miss() -> None:
    for pattern in ("abcd.e", "abcd(?=e)", "abc", "(?i)abcd"):
        with pytest.raises(ValueError, match="the sieve"):
            _sieve.paths(pattern)


@pytest.mark.skipif(not CORPUS.is_dir(), reason="the corpus is not here")
def test_real_transcripts_have_the_same_suspects_as_without_it() -> None:
    redactor = Redactor(KEY)
    for file in [*sorted(CORPUS.rglob("*.jsonl"))[::9], *sorted(CORPUS.rglob("*.json"))[::99]]:
        lines = file.read_bytes().split(b"\n")
        assert redactor.suspects(lines) == [n for n, line in enumerate(lines) if opens(line)], file
        assert not missed(lines), file
