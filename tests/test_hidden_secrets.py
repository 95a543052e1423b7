"""Secrets that are written so that a plain look does not see them go too, and text that is written
to be slow is not. Every secret here is made up."""

import base64
import json
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any
from urllib.parse import quote

import msgspec
import pytest

from runlore import config as config_module
from runlore.redact.engine import Redactor
from runlore.store import open_store
from runlore.store.cleaning import clean_carry
from runlore.sync import pipeline

KEY = b"k" * 32
TOKEN = "ghp_" + "a1B2c3D4e5F6g7H8i9J0" + "k1L2m3N4o5P6q7R8"
PASSWORD = "Zk29xqPLm7Rt"
LINES = [
    "MIIEowIBAAKCAQEAq3Jk7Zx81Lm4Np8Rt2Uv6Wy0Bc5Ef9HjKq3Ws7Ed1Rf5Tg9Y",
    "hU2kLm6Np0Qr4St8Uv2Wx6Yz0Ab4Cd8Ef2Gh6Ij0Kl4Mn8Op2Qr6St0Uv4Wx8Yz2",
    "Bd6Fh0Jl4Np8Rt2Vx6Zb0Df4Hj8Ln2Pr6Tv0Xz4==",
]
PEM = ["-----BEGIN RSA PRIVATE KEY-----", *LINES, "-----END RSA PRIVATE KEY-----"]


@pytest.fixture
def redactor() -> Redactor:
    return Redactor(KEY)


def is_suspect(redactor: Redactor, value: Any) -> bool:
    """Whether a record with this value is looked at, however its JSON was written."""
    return all(
        redactor.suspects([json.dumps({"text": value}, ensure_ascii=ascii_only).encode()])
        for ascii_only in (True, False)
    )


@pytest.mark.parametrize(
    "mark",
    [
        "+{}", "-{}", "     7\t{}", "     7→{}", "config/a.pem:7:{}", "config/a.pem-7-{}", "> {}",
        '    "{}\\n" +', "2026-03-02 INFO [web] {}", "\x1b[32m{}\x1b[0m",
    ],
)  # fmt: skip
def test_a_private_key_goes_whatever_stands_around_its_lines(redactor: Redactor, mark: str) -> None:
    text = "\n".join(mark.format(line) for line in ["before", *PEM, "behind"])
    clean = redactor.text(text)
    assert not any(line in clean for line in LINES)
    assert "before" in clean
    assert "behind" in clean
    assert is_suspect(redactor, text)


@pytest.mark.parametrize("wrap", [str, lambda line: {"line": line}, lambda line: [1, line]])
def test_a_private_key_goes_that_is_a_list_of_lines(
    redactor: Redactor, wrap: Callable[[str], Any]
) -> None:
    lines = [" import os", *(f"+{line}" for line in PEM), " run()"]
    patch = {"structuredPatch": [{"oldStart": 1, "lines": [wrap(line) for line in lines]}]}
    clean = json.dumps(redactor.value(patch))
    assert not any(line in clean for line in LINES)
    assert "import os" in clean
    assert "run()" in clean
    assert redactor.value(redactor.value(patch)) == redactor.value(patch)


def test_text_about_a_private_key_stays(redactor: Redactor) -> None:
    code = "\n".join(
        [
            'if text.startswith("-----BEGIN PRIVATE KEY-----"):',
            "    path = /usr/local/share/applications/private/keys/readme",
            "    return load_private_key_from_the_file_that_was_named(text)",
            'elif text.endswith("-----END PRIVATE KEY-----"):',
        ]
    )
    assert redactor.text(code) == code


@pytest.mark.parametrize(
    "text",
    [
        f"\x1b[32m{TOKEN}\x1b[0m",
        f"ghp_\x1b[01;31m\x1b[K{TOKEN[4:9]}\x1b[m\x1b[K{TOKEN[9:]}",
        f"\\x1b[1m{TOKEN}\\x1b[0m",
        f"url=https%3A%2F%2Fh%3Fpassword%3D{quote(PASSWORD + '!', safe='')}",
        base64.b64encode(f"# settings\nTOKEN={TOKEN}\n".encode()).decode(),
        f"line\n{base64.b64encode(TOKEN.encode()).decode()}\nend",
        f"{'.' * 70} {TOKEN[:6]}\n{TOKEN[6:]}\nend",
        f"take {TOKEN[:20]}\n    {TOKEN[20:]}\nend",
        f"\x1b]8;;https://h.example/x\x1b\\{TOKEN[:9]}\x1b]8;;\x1b\\{TOKEN[9:]}",
        f"\x1b]8;id=1;https://h.example/{'x' * 300}\x07{TOKEN[:9]}\x1b]8;;\x07{TOKEN[9:]}",
        f"\x1b]8;;https://h.example/?t={TOKEN}\x1b\\link\x1b]8;;\x1b\\",
        *(
            f"{TOKEN[:9]}{code}{TOKEN[9:]}"
            for code in (
                "\x1b", "\x1b=", "\x1b7", "\x1b(B", "\x1bP1$r0m\x1b\\", "\x9b31m", "x\x08", "\x00",
                "\u200b", "\u00ad", "\ufeff",
            )
        ),
        base64.encodebytes(f"# settings\nUSER=deploy\nDB_PASSWORD={PASSWORD}\n".encode()).decode(),
        f"{'.' * 60} your password \nis {PASSWORD} and",
        f"&quot;password&quot;: &quot;{PASSWORD}&quot;",
    ],
)  # fmt: skip
def test_a_secret_goes_however_it_is_written(redactor: Redactor, text: str) -> None:
    clean = redactor.text(text)
    assert not any(part in clean for part in (TOKEN[-12:], PASSWORD))
    assert "[redacted:" in clean
    assert redactor.text(clean) == clean
    assert is_suspect(redactor, text)


@pytest.mark.parametrize(
    "text",
    [
        "Cookie: theme=dark; sessionid={long}; lang=en", "Set-Cookie: sid={long}; Path=/; HttpOnly",
        "curl -b 'connect.sid={long}' https://x.example", "AZURE_DEVOPS_EXT_PAT={long}",
        "docker login -u me -p {short} registry.example", "SECRET_KEY=k3$9x(!q&{short}",
        "Server=db;Password={short})=;Encrypt=true", "_auth={long}",
        "kind: Secret\ndata:\n  db: {base64}\n", "data:\n  db: {base64}\nkind: Secret\n",
        "the password for the staging database is {short}, please", "my pw is {short} btw",
        "Das Passwort lautet {short} und", "Kennwort: {short}", "le mot de passe est {short} pour",
        "la contraseña es {short} para", "a senha do banco é {short} agora",
        "la password è {short} per", "het wachtwoord is {short} voor", "hasło to {short} do",
        "lösenordet är {short} till", "şifresi: {short}", "пароль от базы: {short}",
        "Пароль — {short} для", "数据库密码是 {short}，请", "密码：{short}",
        "パスワードは {short} です", "비밀번호는 {short} 입니다",
        "cookies={{'sessionid': '{long}'}}", "h\tTRUE\t/\tTRUE\t1893456000\tsid\t{long}",
        "echo {short} | docker login -u me --password-stdin", "echo {long} | az devops login",
        "curl -u :{long} https://x.example", "az login --service-principal -u a -p {long} -t b",
        "mongosh -u a -p {short} --host x", "zip -P {short} a.zip b", "htpasswd -b f me {short}",
        "net use \\\\h\\c /user:me {short}",
        "kubectl create secret generic a --from-literal=b={short}",
        "db.internal:5432:shop:me:{short}", "WIFI:T:WPA;S:net;P:{short};;", "SMTP_PASS={letters}",
        'variable "db_password" {{\n  default = "{short}"\n}}', 'npmAuthIdent: "{base64}"',
        "SECRET_KEY = wdry&*(o{short}\nDEBUG",
        "SECRET_KEY = '3oj!#fc*322jas(6=d$(+-8+o1+(ypx&{long}'",
        "The root password is now {short}.", "the db pass is {short}",
        "log in with admin / {short}",
        "use the password {short} to connect", "mit dem Passwort {short} einloggen",
        "Das Passwort für die Datenbank ist {short}.", "La password del server è {short}",
        "Zugangsdaten: admin / {short}", "utilise le mdp {short}", "usa la clave {short} para",
    ],
)  # fmt: skip
def test_kinds_that_were_never_found_go(redactor: Redactor, text: str) -> None:
    values = {
        "long": "q7Zk2LmP0xW9vB4nT6yR1sD8fG3hJ5kL",
        "short": PASSWORD,
        "letters": "mmqlurpdkhvqwybe",
        "base64": base64.b64encode(b"deploy:" + PASSWORD.encode()).decode(),
    }
    clean = redactor.text(text.format(**values))
    assert not any(value in clean for value in values.values())
    assert is_suspect(redactor, text.format(**values))


@pytest.mark.parametrize(
    "text",
    [
        "the password is stored in config2.json and is not printed",
        "password reset is handled in 3 steps: request, mail, form2",
        "Cookie: name=value; other=thing", "document.cookie = 'theme=dark'",
        "docker login registry.example", "la contraseña es obligatoria", "пароль обязателен: да",
        "kind: SecretStore\ndata:\n  refreshInterval: abcdefgh12345678\n",
        "%20s and %3d are formats", "aGVsbG8gd29ybGQsIHRoaXMgaXMgYSB0ZXN0IG9mIHdvcmRz",
        "the longest line of this text is here, and it ends with a word\nthat goes on",
        "log in with admin / the-usual-name", "use the password sha256sum prints",
        "zip -r a.zip src1",
        "Version=1.0.2.0, Culture=neutral, PublicKeyToken=b03f5f7f11d50a3a",
        "echo finished | docker login --help", "SECRET_KEY = load_key(path, 16)",
        "pass=word and more",
        "SMTP_HOST=smtp.example.com:5432", "the pass rate is 12 of 30 tests in run a1b2",
    ],
)  # fmt: skip
def test_what_only_resembles_them_stays(redactor: Redactor, text: str) -> None:
    assert redactor.text(text) == text


def test_the_length_of_a_text_does_not_hide_a_token_in_a_carry(redactor: Redactor) -> None:
    # In msgpack the byte before a text is its length, which may be a letter.
    token = TOKEN + "q7Zk2LmP0xW9vB4nT6yR1sD8fG3hJ5kLw2Ve8Mu4Xi0Yo6Pa1Sc3Dg5Fh7"[: 97 - len(TOKEN)]
    carry = msgspec.msgpack.encode({"tool": token})
    assert carry[carry.index(b"ghp_") - 1 : carry.index(b"ghp_")].isalpha()
    assert token.encode() not in clean_carry(carry, redactor)


def test_the_result_of_a_call_does_not_bring_back_the_name_of_its_tool(home: Path) -> None:
    folder = home / ".claude" / "projects" / "-x"
    folder.mkdir(parents=True)
    file = folder / "00000000-0000-4000-8000-000000000001.jsonl"
    common = {"sessionId": file.stem, "cwd": "/x", "timestamp": "2026-03-02T09:00:00.000Z"}
    call = {"type": "tool_use", "id": "t1", "name": TOKEN, "input": {}}
    reply = {"role": "assistant", "id": "m1", "model": "m", "content": [call]}
    result = {"type": "tool_result", "tool_use_id": "t1", "content": "fine"}
    answer = {"role": "user", "content": [result]}
    records = [
        {**common, "type": "assistant", "uuid": "u1", "parentUuid": None, "message": reply},
        {**common, "type": "user", "uuid": "u2", "parentUuid": "u1", "message": answer},
    ]
    config = config_module.load()
    store = open_store(config.store)
    for record in records:
        with file.open("a") as out:
            out.write(json.dumps(record) + "\n")
        pipeline.sync(store, config, workers=1)
    events = store.sessions.events(f"claude:{file.stem}")
    store.close()
    assert [event.kind for event in events] == ["tool_call", "tool_result"]
    assert [str(event.tool)[:17] for event in events] == ["[redacted:github:"] * 2


# ── hostile text ──────────────────────────────────────────────────────────────────────────────────
@pytest.mark.parametrize("sign", [",", "&", ";", "|"])
def test_many_names_before_a_token_do_not_hide_it(redactor: Redactor, sign: str) -> None:
    names = sign.join(f"key{n}=primary-key-value{n}" for n in range(40))
    assert TOKEN not in redactor.text(f"{names}{sign}{TOKEN}")


def counted_work(redactor: Redactor, text: str) -> int:
    """Return the number of calls of functions that redacting a text takes."""
    count = 0

    def step(_frame: FrameType, event: str, _argument: Any) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(step)
    try:
        redactor.text(text)
    finally:
        sys.setprofile(None)
    return count


LEADS = ["xoxb-", "sk-ant-api03-", "ghp_", "AKIA", "SG.", "pat-na1-", "live_", "1000.", "eyJ"]
UNITS = [
    *LEADS, *(f"{lead}a1a1a1a1a1 " for lead in LEADS),
    "\x1b", "a\x08", "\x1b]8;;a\x07", "zip -P uDop2LNTixd9 a.zip b ",
    "the password is Zk29xqPLm7Rt ",
    "echo a1 | docker login ", "login a / b1 ", "cookies={'a':'", "TRUE\t/\tTRUE\t1\ta\t",
    "ghp_a\n", "password=1", "password is ", "пароль: ", "Cookie: a=", "docker login ",
    "eyJhbGci.", "%41",
    "\x1b[0m", "://a:b1@", "-----BEGIN PRIVATE KEY-----", "-----END PRIVATE KEY-----\n",
    "kind: Secret\ndata: abcdefgh\n", "aGVsbG8gd29ybGQgaGVsbG8gd29ybGQg ", "Authorization: ",
]  # fmt: skip


@pytest.mark.parametrize("unit", UNITS)
def test_twice_as_much_hostile_text_takes_about_twice_the_work(
    redactor: Redactor, unit: str
) -> None:
    texts = [unit * (size // len(unit)) for size in (10_000, 20_000)]
    redactor.text(texts[0])  # Patterns are compiled.
    once, twice = (counted_work(redactor, text) for text in texts)
    assert twice <= 2.5 * once + 500


@pytest.mark.parametrize(
    "unit",
    [
        "docker login -p abcdefgh ", "mysql -pabcdefgh1 ", "password=Zk29xqPLm7Rt ", "a\x1b",
        "the password is Zk29xqPLm7Rt ", "a\0", "a\u200b", "\x1b]a\x07",
    ],
)  # fmt: skip
def test_what_a_text_repeats_takes_little_work_each_time(redactor: Redactor, unit: str) -> None:
    texts = [unit * count for count in (500, 1500)]
    redactor.text(texts[0])  # Patterns are compiled.
    once, more = (counted_work(redactor, text) for text in texts)
    assert (more - once) / 1000 < 90, "calls for each time"


def test_a_secret_among_many_codes_goes_and_the_codes_stay(redactor: Redactor) -> None:
    text = "a\x1b[1mb\x07" * 50 + f"pass\x1b[0mword={PASSWORD[:5]}\x1b[1m{PASSWORD[5:]} c\x1b"
    clean = redactor.text(text)
    before, after = text.split(PASSWORD[:5])[0], " c\x1b"
    assert clean.startswith(before)
    assert clean.endswith(after)
    assert clean[len(before) : -len(after)].startswith("[redacted:assigned:")
    link = f"see \x1b]8;;https://a\x07\x1b]8;;https://u:{PASSWORD}@host.internal/x\x07here"
    assert PASSWORD not in redactor.text(link)
    assert redactor.text(link).startswith("see \x1b]8;;https://a\x07\x1b]8;;https://u:[redacted:")
