"""Secrets go, the rest stays, and nothing that goes is missed by the fast scan. Every secret here
is made up on the spot."""

import importlib.util
import json
import os
import random
import re
import stat
import sys
import threading
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from runlore.adapters.shared.tools import file_change, file_content, key_values
from runlore.errors import ConfigError
from runlore.redact.engine import Redactor, Rule, load_key, rules_from_config, without_noted
from runlore.store.cleaning import clean_carry

_spec = importlib.util.spec_from_file_location(
    "bench_redact", Path(__file__).parent.parent / "bench" / "redact.py"
)
assert _spec
assert _spec.loader
planted = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(planted)

KEY = b"k" * 32
HEX40 = "3b18e512dba79e4c8300dd08aeb37f8e728b8dad"
UUID = "0f469ab8-bece-40b3-b3b8-c37e9ea7bc4b"


def make(template: str, seed: int = 7) -> str:
    made: str = planted.shape(random.Random(seed), template)
    return made


@pytest.fixture
def redactor() -> Redactor:
    return Redactor(KEY)


def test_a_secret_becomes_a_marker_and_its_surroundings_stay(redactor: Redactor) -> None:
    token = make("ghp_<a36>")
    clean = redactor.text(f"export GITHUB_TOKEN={token} && make")
    assert token not in clean
    assert clean.startswith("export GITHUB_TOKEN=[redacted:github:")
    assert clean.endswith("] && make")
    assert redactor.hits == {"github": 1}


def test_equal_secrets_stay_linkable_and_the_key_decides_how_they_look() -> None:
    one, other = make("ghp_<a36>", 1), make("ghp_<a36>", 2)
    clean = Redactor(KEY).text(f"{one} {other} {one}").split(" ")
    assert clean[0] == clean[2] != clean[1]
    assert Redactor(b"another key").text(one) != Redactor(KEY).text(one)


def test_clean_text_and_values_come_back_as_the_same_object(redactor: Redactor) -> None:
    text = "The quick brown fox jumps over 13 lazy dogs."
    value = {"a": [1, None, True, {"b": text}], "tokens": 12345678}
    assert redactor.text(text) is text
    assert redactor.value(value) is value


def test_almost_every_published_token_shape_is_found(redactor: Redactor) -> None:
    share, stayed = planted.recall(redactor, planted.planted_shapes(11), [])
    assert share >= 0.98, stayed


def test_most_named_values_are_found_where_people_write_them(redactor: Redactor) -> None:
    share, stayed = planted.recall(redactor, planted.planted_values(12, planted.PLACES), [])
    assert share >= 0.88, stayed


def test_most_named_values_are_found_in_places_the_rules_were_not_tuned_on(
    redactor: Redactor,
) -> None:
    share, stayed = planted.recall(redactor, planted.planted_values(13, planted.HELD_OUT), [])
    assert share >= 0.75, stayed


@pytest.mark.parametrize(
    "text",
    [
        f"commit {HEX40}",
        f"git checkout token-refresh {HEX40}",
        f'"uuid":"{UUID}","sessionId":"{UUID}"',
        "msg_01XFDUDYJgAACzvnptvVoYEL toolu_01A09q90qw90lq917835lq9 req_011CSHoEeqs5C35K2UUqR7Fy",
        '"integrity": "sha512-' + make("<b86>") + '=="',
        "data:image/png;base64," + make("<b4000>"),
        '{"type":"thinking","signature":"' + make("<b1200>") + '"}',
        "/home/me/.config/tokens/secret_v2/key1.json",
        "token = get_token2(request)",
        "password: str = Field(min_length=8)",
        'password = os.environ["DB_PASSWORD_2"]',
        "api_key: ${OPENAI_API_KEY_2}",
        'api_key="<your-api-key-1>"',
        "secret: xxxxxxxxxxxx1",
        "password=********1",
        '"input_tokens":1004125,"cache_read_input_tokens":20012345,"output_tokens":125',
        "--- PASS: TestFetchPackV1DrainsSecondNAK (0.00s)",
        "pass: test_parse_v2_header and 12 more",
        "the password is required2continue",
        "the token is stored in token_v2.json",
        "password, email, user_id2",
        "| token | integer_32 |",
        "“password”: “your-password-1”",
        "author: someone1234 <a@b.example>",
        'const cacheKey = "v2:user-list-2024";',
        "keyboard layout en_US105, primary_key=user_id_2",
        "postgres://${USER}:${PASSWORD}@localhost:5432/db",
        "https://user:password@example.org/x",
        "-----BEGIN PRIVATE KEY----- is how such a file starts, and then comes the key.",
        "Authorization: Bearer <token>",
        "self.token = token_v2",
        "sk-learn-compatible-estimators-2",
    ],
)
def test_what_only_looks_like_a_secret_stays(redactor: Redactor, text: str) -> None:
    assert redactor.text(text) == text


@pytest.mark.parametrize(
    ("before", "secret", "after"),
    [
        ("postgres://app:", "s3cr3tPw", "@db.internal:5432/app"),
        ("mongodb+srv://root:", "p%40ss-word9", "@cluster0.mongodb.net"),
        ("redis://:", "hq7Zk2LmP0", "@cache:6379/0"),
        ("Server=db;Password=", "tR9!kdPq2z", ";Encrypt=true"),
        ("Authorization: Basic ", "dXNlcjpwYXNzd29yZA==", ""),
        ("-H 'Authorization: Bearer ", make("<a40>"), "' https://x"),
        ("Authorization: token ", HEX40, ""),
        ("curl -u admin:", "Zk29xqPLm", " https://x"),
        ("sshpass -p ", "Zk29xqPLm", " ssh host"),
        ("IDENTIFIED BY '", "Zk29xqPLm", "'"),
        ("AccountName=x;AccountKey=", make("<b86>") + "==", ";EndpointSuffix=core"),
        ("https://x.blob.core.windows.net/c?sv=2022&sig=", make("<a40>") + "%3D", "&se=1"),
        ("<secret>{AQAA ", make("<a40>"), "}</secret>"),
        ('{\\"password\\": \\"', "Tr0ub4dor&3x", '\\"}'),
        ("wJ ", make("AKIA<u16>"), ""),
        ("//registry.example.org/:_authToken=", make("<a36>"), ""),
        ("machine h login bob password ", "Zk29xqPLm", ""),
        ("url=https%3A%2F%2Fx%3Ft%3D", make("ghp_<a36>"), ""),
    ],
)
def test_only_the_secret_goes_where_its_place_gives_it_away(
    redactor: Redactor, before: str, secret: str, after: str
) -> None:
    clean = redactor.text(before + secret + after)
    assert secret not in clean
    assert clean.startswith(before.removesuffix("{AQAA "))
    assert clean.endswith(after)


def pem(join: str, kind: str = "RSA PRIVATE KEY") -> tuple[list[str], str]:
    lines = [make("<b64>", seed) for seed in range(6)] + [make("<b20>") + "=="]
    return lines, join.join([f"-----BEGIN {kind}-----", *lines, f"-----END {kind}-----"])


@pytest.mark.parametrize(
    "join", ["\n", "\\n", "\\\\n", "\r\n", '\\n" +\n    "', "\n   12\u2192", "\n    "]
)
@pytest.mark.parametrize(
    "kind", ["RSA PRIVATE KEY", "PRIVATE KEY", "OPENSSH PRIVATE KEY", "PGP PRIVATE KEY BLOCK"]
)
def test_a_private_key_goes_whole_however_its_lines_are_joined(
    redactor: Redactor, join: str, kind: str
) -> None:
    lines, text = pem(join, kind)
    clean = redactor.text(f"key:\n{text}\ndone")
    assert not any(line in clean for line in lines)
    assert f"-----BEGIN {kind}-----" in clean
    assert f"-----END {kind}-----\ndone" in clean


PUTTY = "PuTTY-User-Key-File-3: ssh-rsa\nPrivate-Lines: 6\n" + "\n".join(pem("\n")[0])
# Text of several lines, and those of its lines that must go.
SPREAD = {
    "PEM": (pem("\n")[1], pem("\n")[0]),
    "PuTTY": (PUTTY, pem("\n")[0]),
    "AWS": (f"{make('AKIA<u16>')}\n{make('<a40>')}\n", [make("<a40>")]),
    "netrc": ("machine h\n  login bob\n  password Zk29xqPLm\n", ["Zk29xqPLm"]),
    "SQL": ("create user bob identified\n  by 'Zk29xqPLm'\n", ["Zk29xqPLm"]),
    "value below": ("password:\n  value: Zk29xqPLm\n", ["Zk29xqPLm"]),
    "name and value": ("- name: DB_PASSWORD\n  value: Zk29xqPLm\n", ["Zk29xqPLm"]),
    "plist": ("<key>api_token</key>\n<string>Zk29xqPLm</string>\n", ["Zk29xqPLm"]),
    "call": ('set("api_token",\n    "Zk29xqPLm")\n', ["Zk29xqPLm"]),
}


@pytest.mark.parametrize("name", SPREAD)
def test_a_secret_of_several_lines_goes_wherever_an_adapter_puts_them(
    redactor: Redactor, name: str
) -> None:
    text, secrets = SPREAD[name]
    around = f"one\ntwo\nthree\nfour\n{text}\nfive\nsix\nseven\neight"
    lines = around.split("\n")
    other = around.replace(secrets[0], secrets[0][::-1])
    shown = {
        "as it is": around,
        "added": file_change("f", [("", around)]),
        "removed": file_change("f", [(around, "")]),
        "changed": file_change("f", [(around, other)]),
        "beside a change": file_change("f", [(around, around.replace("five", "5"))]),
        "before a change": file_change("f", [(around, around.replace("four", "4"))]),
        "written": file_content("f", around),
        "arguments": key_values({"path": "f", "content": around, "list": [around]}),
        "cat -n": "\n".join(f"{n:6}\t{line}" for n, line in enumerate(lines, 1)),
        "read": "\n".join(f"{n:6}→{line}" for n, line in enumerate(lines, 1)),
        "grep -n": "\n".join(f"{n}:{line}" for n, line in enumerate(lines, 1)),
    }
    redactor.noted = {}
    redactor.value({"old_string": around, "new_string": other})
    for how, body in shown.items():
        # In a change, a line may stand apart from what gave it away; the record it was made of has
        # told.
        is_apart = "change" in how
        clean = without_noted(redactor.text(body), redactor.noted if is_apart else {})
        assert not any(secret in clean for secret in secrets), (how, clean)
        assert secrets[0][::-1] not in clean, (how, clean)
        assert "six" in clean or is_apart, (how, clean)
        for ascii_only in (True, False):
            assert is_apart or redactor.suspects(
                [json.dumps(body, ensure_ascii=ascii_only).encode()]
            ), how


def test_a_private_key_whose_start_was_cut_off_goes_too(redactor: Redactor) -> None:
    lines, text = pem("\n")
    clean = redactor.text("[…]\n" + text[text.index(lines[3]) :] + "\ndone")
    assert not any(line in clean for line in lines)
    assert clean.endswith("-----END RSA PRIVATE KEY-----\ndone")


def test_a_key_that_is_changed_into_another_goes_with_it(redactor: Redactor) -> None:
    old, new = (
        [make("<b64>", seed) for seed in seeds] + [make("<b22>", seeds[0])]
        for seeds in ((1, 2, 3), (4, 5, 6))
    )
    whole = [
        "\n".join(["-----BEGIN PRIVATE KEY-----", *lines, "-----END PRIVATE KEY-----"])
        for lines in (old, new)
    ]
    clean = redactor.text(file_change("key.pem", [(whole[0], whole[1])]))
    assert not any(line in clean for line in old + new)


@pytest.mark.parametrize("value", ["Zk29xqPLm", "a8Kd93kfmLq02mZx7T", "Tr0ub4dor&3x"])
@pytest.mark.parametrize(
    "text",
    [
        "password:\n  value: {}", "the password is {}", "my token is: {}", "passwd,{}",
        "secret|{}|", "pass: {}", "| password | {} |",
        "password: “{}”", "the password is ‘{}’.", "“password”: “{}”",
        '{{"token":{{"type":"string","value":"{}"}}}}',
    ],
)  # fmt: skip
def test_a_value_goes_in_the_places_that_people_write_it(
    redactor: Redactor, text: str, value: str
) -> None:
    whole = text.format(value)
    clean = redactor.text(whole)
    assert value not in clean
    assert re.sub(r"\[redacted:assigned:[0-9a-f]{6}\]", value, clean) == whole
    for ascii_only in (True, False):
        assert redactor.suspects([json.dumps(whole, ensure_ascii=ascii_only).encode()])


def test_tokens_without_anything_between_them_go_in_one_round(redactor: Redactor) -> None:
    token = make("SK<h32>")
    assert redactor.text(token * 1000).count("[redacted:twilio:") == 1000


def test_marks_close_to_each_other_are_searched_as_one(redactor: Redactor) -> None:
    key = make("<b76>+ASt<b6>==")
    assert redactor.text(f"{key} " * 1000).count("[redacted:azure:") == 1000


def test_a_private_key_that_was_cut_off_goes_too(redactor: Redactor) -> None:
    lines, text = pem("\n")
    clean = redactor.text(text[: text.index(lines[3])] + "\n[truncated by the tool]")
    assert not any(line in clean for line in lines[:3])
    assert "[truncated by the tool]" in clean


def test_a_long_secret_that_happens_to_spell_a_word_goes_too(redactor: Redactor) -> None:
    unlucky = make("<b30>") + "TodoXxXxYour" + make("<b30>", 8)
    lines, text = pem("\n")
    assert unlucky not in redactor.text(text.replace(lines[2], unlucky))
    assert unlucky not in redactor.text(f"api_key={unlucky}")


def test_a_public_key_and_a_certificate_stay(redactor: Redactor) -> None:
    for kind in ("PUBLIC KEY", "CERTIFICATE"):
        text = pem("\n", kind)[1]
        assert redactor.text(text) == text


def test_a_value_is_judged_by_its_key_and_keys_are_redacted_too(redactor: Redactor) -> None:
    token = make("ghp_<a36>")
    clean = redactor.value(
        {"db": {"password": "Zk29xqPLm!"}, token: [token, 1], "argv": ["--api-key", "a8Kd02jfLq91"]}
    )
    text = json.dumps(clean)
    assert token not in text
    assert "Zk29xqPLm!" not in text
    assert "a8Kd02jfLq91" not in text
    assert list(clean) == ["db", redactor.text(token), "argv"]
    assert clean["argv"][0] == "--api-key"


@pytest.mark.parametrize(
    "value",
    [
        {"password": "Zk29xqPLm!"},
        {"apiKey": "a8Kd02jfLq91"},
        {"in": [{"env": {"AUTH_TOKEN": "a8Kd02jfLq91"}}]},
        ["--api-key", "a8Kd02jfLq91"],
        {"argv": ["run", "--password", "Zk29xqPLm!"]},
    ],
)
def test_a_name_alone_tells_of_the_secret_behind_it(redactor: Redactor, value: Any) -> None:
    clean = json.dumps(redactor.value(value))
    assert "Zk29xqPLm!" not in clean
    assert "a8Kd02jfLq91" not in clean
    assert redactor.hits.total() == 1


def test_a_secret_is_found_beside_one_that_was_redacted_before(redactor: Redactor) -> None:
    token = make("ghp_<a36>")
    assert token not in redactor.value(["[redacted:assigned:0a1b2c] and " + token])[0]
    assert redactor.hits.total() == 1


def test_a_name_may_be_a_number(redactor: Redactor) -> None:
    token = make("ghp_<a36>")
    assert token not in str(redactor.value({1: token, 2: "Zk29xqPLm!", "cwd": f"/tmp/{token}"}))
    carry = msgspec.msgpack.encode({"places": {3: "anonymous"}, "cwd": f"/tmp/{token}"})
    assert token.encode() not in clean_carry(carry, redactor)


def test_names_are_remembered_up_to_a_number(redactor: Redactor) -> None:
    redactor.value({f"name{n}": "some text" for n in range(50_000)})
    assert len(redactor._clean_names) <= 10_000


def test_a_value_nested_without_end_is_still_redacted(redactor: Redactor) -> None:
    token = make("ghp_<a36>")
    value: Any = [token]
    for _ in range(400):
        value = {"a": value}
    assert token not in json.dumps(redactor.value(value))


@pytest.mark.parametrize(
    "text",
    ["\ud800 password=Zk29xqPLm", "\x00password=Zk29xqPLm\x00", "пароль password=Zk29xqPLm конец"],
)
def test_broken_and_foreign_characters_pass_through(redactor: Redactor, text: str) -> None:
    clean = redactor.text(text)
    assert "Zk29xqPLm" not in clean
    assert clean.replace(redactor.text("password=Zk29xqPLm"), "password=Zk29xqPLm") == text


def test_a_megabyte_of_anything_is_only_read_once_or_twice(redactor: Redactor) -> None:
    for unit in ("a", "=", "-----BEGIN ", "password=", "eyJ", '"', "://", "YWJj"):
        text = unit * (1_000_000 // len(unit))
        assert redactor.text(text) is text


def test_of_tokens_that_run_into_each_other_none_is_read_to_the_end_of_all(
    redactor: Redactor,
) -> None:
    # Each of these opens a token, and none is one: together they took a minute.
    text = "sk-ant-api03-" * 8000
    assert redactor.text(text) is text


@pytest.mark.parametrize(
    "template", ["ghp_<a200>", "ghp_<a251>", "ghp_<a252>", "ghp_<a9000>", "sk.eyJ<w600>.<w40>"]
)
def test_a_token_goes_whole_however_long_it_is(redactor: Redactor, template: str) -> None:
    assert re.fullmatch(
        r"say \[redacted:[a-z]+:[0-9a-f]{6}\], twice", redactor.text(f"say {make(template)}, twice")
    )


# What the properties draw from: names, marks and secrets that meet in every order.
PIECES = [
    *(
        "password",
        "DB_PASSWORD",
        "api_key",
        "apiKey",
        "token",
        "secret",
        "key",
        "auth",
        "Authorization",
        "Bearer ",
        "--token",
        "https://u:",
    ),
    *(
        "=",
        ": ",
        '"',
        '": "',
        "' => '",
        "\\",
        "\\n",
        "\n",
        "\t",
        " ",
        "/",
        "@host",
        ">",
        "<",
        "&",
        ",",
        "\x1b[0m",
        "é",
        "中",
        "\ud800",
        "\x00",
        "(",
        " is ",
        "“",
        "”",
        "|",
        "value: ",
        "\n+",
        "\n  12\t",
    ),
    *(
        "Zk29xqPLm",
        "Tr0ub4dor&3",
        "hunter",
        make("ghp_<a36>"),
        make("AKIA<u16>"),
        make("<a32>"),
        make("<h40>"),
        make("sk-ant-api03-<w40>"),
        UUID,
    ),
    *(
        make("eyJ<a20>.eyJ<a30>.<w30>"),
        make("SG.<w22>.<w43>"),
        make("<d9>:AA<w33>"),
        make("1//0<w50>"),
        make("<b43>="),
        "[redacted:x:0a1b2c]",
    ),
    *(
        pem("\n")[1],
        pem("\\n")[1],
        "hooks.slack.com/services/T0000000/B0000000/",
        make("<a24>"),
        "$2b$12$" + make("<a53>"),
    ),
]
texts = st.lists(st.sampled_from(PIECES) | st.text(max_size=4), max_size=8).map("".join)
values = st.recursive(
    texts | st.integers() | st.none(),
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(texts, inner, max_size=4),
    max_leaves=8,
)
shared = Redactor(KEY)
thorough = settings(
    max_examples=300, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck)
)


@given(texts)
@thorough
def test_redacting_again_changes_nothing(text: str) -> None:
    once = shared.text(text)
    assert shared.text(once) == once


@given(values)
@thorough
def test_redacting_a_value_again_changes_nothing(value: Any) -> None:
    once = shared.value(value)
    assert shared.value(once) == once


@given(values, st.booleans(), st.booleans(), st.booleans())
@thorough
def test_whatever_is_redacted_was_a_suspect_in_the_undecoded_line(
    value: Any, ascii_only: bool, slashes: bool, compact: bool
) -> None:
    line = json.dumps(value, ensure_ascii=ascii_only, separators=(",", ":") if compact else None)
    line = line.replace("/", "\\/") if slashes else line
    if shared.value(value) != value:
        assert 1 in shared.suspects(
            [b'{"clean":1}', line.encode("utf-8", "surrogatepass"), b'{"clean":2}']
        )


@pytest.mark.parametrize("lead", ["glc_", "glsa_", "t1.9eu", "dapi"])
def test_of_a_token_with_an_end_that_need_not_be_there_nothing_stays(
    redactor: Redactor, lead: str
) -> None:
    assert re.fullmatch(
        r"key \[redacted:\w+:\w{6}\] end", redactor.text(f"key {lead}{'0a1b2c3d' * 12} end")
    )


@given(
    st.sampled_from([make("ghp_<a36>"), "password=Zk29xqPLm", 'say "token": "a8Kd02jfLq91"']),
    st.integers(0, 200),
)
@thorough
def test_a_letter_written_as_an_escape_does_not_hide_a_secret(text: str, where: int) -> None:
    where %= len(text)
    line = (
        json.dumps(text[:where])[:-1]
        + f"\\u{ord(text[where]):04x}"
        + json.dumps(text[where + 1 :])[1:]
    )
    assert json.loads(line) == text
    assert shared.suspects([line.encode()])


def test_suspects_are_in_order_and_name_no_clean_line(redactor: Redactor) -> None:
    token = make("ghp_<a36>")
    lines = [
        json.dumps(
            {"n": i, "text": f"say {token} twice {token}" if i % 3 == 0 else "nothing here"}
        ).encode()
        for i in range(30)
    ]
    assert redactor.suspects(lines) == list(range(0, 30, 3))


@pytest.mark.parametrize("before", [b'{"clean":1}', b"", b'{"password": "Zk29xqPLm"}'])
def test_a_line_that_is_no_json_and_opens_with_a_token_is_a_suspect_whatever_comes_before(
    redactor: Redactor, before: bytes
) -> None:
    assert 1 in redactor.suspects([before, make("ghp_<a36>").encode(), b'{"clean":2}'])


def test_lines_are_suspects_wherever_they_stand_among_many(redactor: Redactor) -> None:
    clean, secret = (
        json.dumps({"text": "nothing here " * 3000}).encode(),
        json.dumps(make("ghp_<a36>")).encode(),
    )
    lines = [secret if i % 7 == 3 else clean for i in range(40)] + [b"", secret]
    assert redactor.suspects(lines) == [*range(3, 40, 7), 41]


def test_a_token_too_long_for_a_window_is_found_behind_something_else(redactor: Redactor) -> None:
    token = make("eyJ<a9000>.<a80>.<w43>")
    assert token not in redactor.text(f"key: page12345 {'and so on ' * 1300}{token}")


def test_the_users_own_rules_are_added_and_counted_by_name() -> None:
    redactor = Redactor(
        KEY,
        [
            Rule("ticket", r"ACME-[0-9]{6}"),
            Rule("badge", r"badge no\. (\d+)", ("badge",)),
            Rule("anything", r"(?i)zz+top"),
        ],
    )
    clean = redactor.text("ACME-123456, badge no. 77, ZZZtop")
    assert clean.count("[redacted:") == 3
    assert "badge no. [redacted:badge:" in clean
    assert redactor.hits == {"ticket": 1, "badge": 1, "anything": 1}
    assert redactor.text(clean) == clean


def test_a_rule_without_keywords_makes_every_line_a_suspect_unless_it_opens_with_a_word() -> None:
    lines = [b'{"a":"x"}', b'{"a":"ACME-123456"}']
    assert len(Redactor(KEY, [Rule("ticket", r"ACME-[0-9]{6}")]).suspects(lines)) == 1
    assert len(Redactor(KEY, [Rule("ticket", r"[A-Z]{4}-[0-9]{6}")]).suspects(lines)) == 2
    assert (
        len(Redactor(KEY, [Rule("ticket", r"[A-Z]{4}-[0-9]{6}", ("acme",))]).suspects(lines)) == 1
    )


def test_a_users_rule_is_looked_for_in_a_list_whose_name_has_its_keyword() -> None:
    redactor = Redactor(KEY, [Rule("badge", r"[0-9]{6}", ("badge",))])
    assert "123456" not in redactor.value({"badges": ["one", "two", "three", "123456"]})["badges"]


def test_the_version_follows_the_rules_and_not_the_key() -> None:
    rule = Rule("ticket", r"ACME-[0-9]{6}")
    assert Redactor(KEY).version == Redactor(b"other").version
    assert Redactor(KEY, [rule]).version == Redactor(b"other", [rule]).version
    assert (
        len(
            {
                Redactor(KEY, rules).version
                for rules in ([], [rule], [Rule("ticket", r"ACME-[0-9]{7}")])
            }
        )
        == 3
    )


def test_configured_rules_are_read() -> None:
    assert rules_from_config(
        [{"name": "ticket", "pattern": "ACME-\\d+", "keywords": ["acme"]}]
    ) == (Rule("ticket", "ACME-\\d+", ("acme",)),)


@pytest.mark.parametrize(
    "item",
    [
        {"name": "x", "pattern": "a(b"},
        {"name": "x", "pattern": "(?<=a)b"},
        {"name": "a b", "pattern": "x"},
        {"name": "x"},
        {"name": "x", "pattern": "y", "z": 1},
    ],
)
def test_a_rule_that_cannot_be_used_is_told_in_one_line(item: dict[str, Any]) -> None:
    with pytest.raises(ConfigError) as told:
        rules_from_config([item])
    assert "redact.rules" in str(told.value)
    assert "\n" not in str(told.value)


def test_the_key_is_made_once_for_its_owner_alone(tmp_path: Path) -> None:
    path = tmp_path / "new" / "redact.key"
    key = load_key(path)
    assert len(key) == 32
    assert load_key(path) == key
    assert os.listdir(path.parent) == ["redact.key"]
    if sys.platform != "win32":
        assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_processes_that_race_for_the_key_get_the_same_one(tmp_path: Path) -> None:
    keys: list[bytes] = []
    start = threading.Barrier(8)

    def take() -> None:
        start.wait()
        keys.append(load_key(tmp_path / "redact.key"))

    threads = [threading.Thread(target=take) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(keys) == 8
    assert len(set(keys)) == 1


def test_a_damaged_key_is_not_replaced_in_silence(tmp_path: Path) -> None:
    (tmp_path / "redact.key").write_bytes(b"short")
    with pytest.raises(ConfigError, match="damaged"):
        load_key(tmp_path / "redact.key")


@pytest.mark.parametrize("tail", ["\u201c", "\u00e9", "\U0001f600", "\ud83d"])
@pytest.mark.parametrize("at", range(4))
def test_a_secret_ends_with_a_whole_character(redactor: Redactor, tail: str, at: int) -> None:
    """A rule counts bytes: a hundred of them may end inside a character."""
    text = " -ue:c-" + "0a1f" * 8 + "key_" + "0a1b" * 14 + "0a1b"[at:] + tail * 9 + " and on"
    clean = redactor.text(text)
    assert "[redacted:basic-auth:" in clean
    assert "0a1f0a1f" not in clean
    assert clean.endswith(" and on")
    assert redactor.text(clean) == clean
