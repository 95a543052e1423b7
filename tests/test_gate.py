"""The gate of the redaction opens for every record that may hold a secret, and for few others."""

import time

import pytest

from runlore.redact import assigned
from runlore.redact.engine import Redactor, Rule

KEY = b"k" * 32
REDACTOR = Redactor(KEY)


def opens(text: bytes) -> bool:
    return bool(REDACTOR.suspects([text]))


BETWEEN: list[bytes] = [
    *(bytes([byte]) for byte in b" \t\r\n\"'`\\[]{}()<>:=,|?*\x1b-"),
    *(b"</", rb"<\/", rb"<\\/"),
    *(rb"\n", rb"\r", rb"\t", rb"\b", rb"\f", rb"\\n", rb"\\\\t"),
    *(rb"\u0022", rb"\u001b", rb"\u00aB", rb"\\u003d"),
    *(b"[%bm" % code for code in (b"1", b"0;31", b";;", b"38;5;123")),
    *(mark.encode() for mark in "“”‘’‟"),
    *(rb"\u2018", rb"\u201c", rb"\u201C", rb"\\u201d"),
    *(b"\n+", rb"\n+", rb"\\n+"),
    *(
        b"\n12\t",
        b"\n   7:",
        rb"\n  123456|",
        rb"\n1\t",
        rb"\n1\\t",
        "\n 12→".encode(),
        b"\n1\\u2192",
    ),
]
FILLING = assigned.FILLING.removeprefix("(?i:").removesuffix(")").encode().split(b"|")
OPENING: list[bytes] = [
    *(bytes([byte]) + b'"' for byte in b":=,( \t>|"),
    *(b":'", b":`", b":b'", b":rb'", b':uf"', rb":\"", rb":\\\"", rb":\b\"", rb":\\rb\\'"),
    *(":“".encode(), ":b‘".encode(), rb":\u201c", rb":r\\u2018"),
]


@pytest.mark.parametrize("between", BETWEEN)
def test_a_value_is_reached_over_all_that_may_stand_between(between: bytes) -> None:
    names, values = (b"password", b"API_KEY", b"auth-2"), (b"hunter.2", b"1bcdefgh", rb"ab\,cdef1")
    texts = [name + between + value for name in names for value in values]
    texts += [b"key%b%b%b %b4bcdefgh" % (between, word, between, between) for word in FILLING]
    texts += [b"pwd%b%b%b:'abc.def!" % (between, word.upper(), between) for word in FILLING]
    assert all(map(opens, texts))


@pytest.mark.parametrize("opening", OPENING)
def test_a_mark_is_enough_in_quotes_however_they_open(opening: bytes) -> None:
    befores = (b"", b" ", b'"', b" is ", b"-IS ")
    texts = [
        b"secret%b%babc%c(d,e;" % (before, opening, mark)
        for before in befores
        for mark in b"0!@#$%^&*~+"
    ]
    texts += [b"key" + opening + b"(,;)={<!"]
    names = (b"Token", b"token_s", b"tokenset ", b"TOKENSTR ", b"authOF ", b"auth-o")
    texts += [b"%b%bab<cd=}!" % (name, opening) for name in names]
    assert all(map(opens, texts))


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
        b"key_a-b_c.d.e1",
        b"token-_-_-_-_1",
        b"key --type-- =  4bcdefgh",
        b"tokenstring=token:='abcdefg!'",
        rb"password=\;\,\(\)\=\[\<1",
        rb"password=\\{\\}\\{\\}1\\{\\}\\{",
        b"password=\xff\xfe\x80\x81\x82\x83\x847",
        b"ftp://ab\x0bcd@host",
        b"curl -u me:ab\x0bcdef",
    ],
)
def test_other_values_of_a_name_are_reached_too(text: bytes) -> None:
    befores = (b"", b" ", b"x", b"\\", b"key ", b"tokens: ", b"\x00\xff", b'{"a":"')
    assert all(opens(before + text) for before in befores)


@pytest.mark.parametrize(
    "before",
    [
        b"",
        b"-",
        b"_",
        b"\n",
        b"\xe2",
        rb"\n",
        rb"\f",
        rb"\u000a",
        rb"\u0041",
        b"%3D",
        b"x%3d",
        b"xy.",
    ],
)
def test_it_opens_for_a_token_wherever_one_may_start(before: bytes) -> None:
    text = before + b"ghp_" + b"a1B2" * 9
    assert all(map(opens, (text, b"words before " + text, b"\\" * 3 + text + b"\n")))


@pytest.mark.parametrize("before", [r"\uACDb", r"\n", "%AC"])
@pytest.mark.parametrize(
    "token",
    [
        "AKIAZ3K9QW7ZX1LM4NP8",
        "AIzaSyD3k9Qw7Zx1Lm4Np8Rt2Uv6Wy0Bc5Ef9Hj",
        "npm_Zx81Lm4Np8Rt2Uv6Wy0Bc5Ef9HjKq3Ws7Ed1",
    ],
)
def test_an_escape_does_not_hide_the_token_behind_it(before: str, token: str) -> None:
    assert token not in Redactor(KEY).text(f"export X={before}{token}")


@pytest.mark.parametrize(
    "text",
    [
        (
            b'{"type":"user","message":{"content":"The quick brown fox jumps over 13 lazy'
            b' dogs."},"n":12345678}'
        ),
        b'"input_tokens":12345678,"author":"someone1234"',
        b'"key":"value","path":"src/keys/monkey.py","line":12',
        b"xghp_" + b"a1B2" * 9,
        b'"keyboard": "qwerty", passed = "a.b.c": the password. (See 12345678)',
    ],
)
def test_it_stays_shut_for_what_is_clean(text: bytes) -> None:
    assert not opens(text)


@pytest.mark.parametrize(
    "unit",
    [
        b"key ",
        b"key",
        b"key>",
        b"key - ",
        rb"key\\\\",
        b"keykey>a",
        b"key -us1: ",
        b"pwd: is ",
        b"://",
        b":\\",
        b"eyJ",
        b"-u",
        b"-",
    ],
)
def test_names_that_run_into_each_other_take_no_longer(unit: bytes) -> None:
    text = unit * (200_000 // len(unit))
    began = time.process_time()
    assert REDACTOR.suspects(
        [text + b": hunter.2x", b"x" * 100_000 + text + b" password=1bcdefgh"]
    )[-1:] == [1]
    assert time.process_time() - began < 10


def test_it_knows_the_users_own_rules() -> None:
    own = Redactor(KEY, [Rule("ticket", r"zq[0-9]{6}", ("zq",))])
    assert own.suspects([b"zq123456", b"nothing", b"password=hunter.2"]) == [0, 2]
    anything = Redactor(KEY, [Rule("digits", r"[0-9]{6}")])
    assert anything.suspects([b"nothing", b"", b"123456"]) == [0, 2]
