"""What `secrets` plants: kinds of secrets, and the places of a transcript in which they stand.

The kinds and the places were written from what providers publish and from what agents' files look
like, before the rules that should find them. Everything is made up by a seeded generator.
"""

import base64
import html
import json
import random
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from bench.redact import SHAPES, shape

Records = list[dict[str, Any]]


@dataclass(frozen=True)
class Plant:
    """A secret with the text that it stands in. `secrets` are the strings that must go."""

    kind: str
    text: str
    secrets: tuple[str, ...]


# ── kinds ─────────────────────────────────────────────────────────────────────────────────────────

# NAME of the kind → text; `@` is a password with symbols, `#` a password of letters and digits,
# `~` 40 random letters and digits, `^` 52 lower-case ones, `&` base64 of a user and a password.
_TOLD = {
    "cookie": "Cookie: theme=dark; sessionid=~; lang=en",
    "cookie of curl": "curl -b 'connect.sid=~' https://shop.internal/api",
    "set-cookie": "Set-Cookie: sid=~; Path=/; HttpOnly; Secure",
    "docker login": "docker login -u deploy -p # registry.internal",
    "docker login long": "docker login registry.internal --username deploy --password #",
    "azure devops": "AZURE_DEVOPS_EXT_PAT=^",
    "english sentence": "the password for the staging database is #, please use it",
    "english colon": "Login with user deploy and password: #",
    "english informal": "my pw is # btw",
    "german": "Das Passwort lautet # und gilt bis Freitag",
    "german colon": "Kennwort: #",
    "french": "le mot de passe est # pour la base",
    "spanish": "la contraseña es # para el servidor",
    "portuguese": "a senha do banco é # por enquanto",
    "italian": "la password è # per il database",
    "dutch": "het wachtwoord is # voor de server",
    "polish": "hasło to # do bazy",
    "swedish": "lösenordet är # till databasen",
    "turkish": "veritabanı şifresi: #",
    "russian": "пароль от базы: #",
    "russian dash": "Пароль — # для входа",
    "ukrainian": "пароль: #",
    "chinese": "数据库密码是 #，请使用",
    "chinese colon": "密码：#",
    "japanese": "パスワードは # です",
    "korean": "비밀번호는 # 입니다",
    "env with symbols": "SECRET_KEY=@",
    "django key": "SECRET_KEY=django-insecure-@@",
    "env password with symbols": "DB_PASSWORD=@",
    "npmrc auth": "//registry.internal/:_auth=&",
    "npmrc plain auth": "_auth = &",
    "connection string": "Server=db;Database=shop;User Id=sa;Password=@;Encrypt=true",
    "connection string pwd": "Driver={SQL};Server=db;Uid=sa;Pwd=#;",
    "kubernetes secret": "apiVersion: v1\nkind: Secret\nmetadata:\n  name: shop\ndata:\n  db: &",
    "kubernetes before": "apiVersion: v1\ndata:\n  db: &\nkind: Secret\n",
    "url password": "postgres://shop:#@db.internal:5432/shop",
    "authorization": "Authorization: Bearer ~",
    "basic auth": "curl -u deploy:# https://shop.internal",
    "env token": "SHOP_API_TOKEN=~",
    "yaml": "database:\n  password: #",
    "json": '{"client_secret": "~"}',
    "aws secret": "aws_secret_access_key = ~",
    "flag": "shopctl login --token ~",
    "netrc": "machine shop.internal login deploy password #",
    "sshpass": "sshpass -p # ssh deploy@shop.internal",
    "mysql": "mysql -u root -p# shop",
    "jwt assignment": "export JWT_SECRET='~'",
    "cookies of requests": "requests.get(url, cookies={'sessionid': '~'})",
    "file of cookies": ".shop.internal\tTRUE\t/\tTRUE\t1893456000\tsessionid\t~",
    "piped to docker login": "echo # | docker login -u deploy --password-stdin",
    "azure devops, curl": "curl -u :^ https://dev.azure.com/shop/_apis/projects",
    "azure service principal": "az login --service-principal -u deploy -p ~ --tenant shop",
    "mongosh": "mongosh -u deploy -p # --host db.internal",
    "zip": "zip -P # settings.zip settings",
    "htpasswd": "htpasswd -b -c users deploy #",
    "literal of kubectl": "kubectl create secret generic shop --from-literal=db=#",
    "pgpass": "db.internal:5432:shop:deploy:#",
    "wifi": "WIFI:T:WPA;S:shop;P:#;;",
    "terraform": 'variable "db_password" { default = "#" }',
    "yarn": 'npmAuthIdent: "&"',
    "key with spaces around =": "SECRET_KEY = @",
    "english now": "The root password is now #.",
    "english without is": "use the password # to connect",
    "english pass": "the db pass is #",
    "english slash": "log in with admin / # please",
    "german between": "Das Passwort für die Datenbank ist #.",
    "german slash": "Zugangsdaten: admin / #",
    "italian between": "La password del server è #",
    "spanish clave": "usa la clave # para entrar",
    "french mdp": "utilise le mdp # pour la base",
    "azure storage": "DefaultEndpointsProtocol=https;AccountName=shop;AccountKey=&&;",
}
_LETTERS = "abcdefghijkmnopqrstuvwxyzABCDEFGHJKLMNPQRSTUVWXYZ"


def make_plants(seed: str) -> list[Plant]:
    """Return one plant of each kind, the same for the same seed."""
    rng = random.Random(seed)
    return [
        *(_token(rng, template) for template in SHAPES),
        *(_told(rng, kind, text) for kind, text in _TOLD.items()),
        *(_private_key(rng, kind) for kind in ("RSA PRIVATE KEY", "OPENSSH PRIVATE KEY")),
    ]


def _token(rng: random.Random, template: str) -> Plant:
    token = shape(rng, template)
    # Of an address only what comes after the host is secret.
    secret = re.sub(r"^https://[a-z.]+/(?:services/|api/webhooks/|bot)|/getMe$", "", token)
    return Plant(template.split("<")[0][:24] or template, token, (secret,))


def _told(rng: random.Random, kind: str, text: str) -> Plant:
    secrets: list[str] = []

    def fill(mark: re.Match[str]) -> str:
        secrets.append(_MAKERS[mark[0]](rng))
        return secrets[-1]

    filled = re.sub(r"&&|@@|[@#~^&]", fill, _hide_at_sign(text))
    return Plant(kind, filled.replace("\0", "@"), tuple(secrets))


def _hide_at_sign(text: str) -> str:
    """Protect the `@` of addresses from being filled in."""
    return re.sub(r"@(?=(?:db|shop)\.)", "\0", text)


def _symbols(rng: random.Random, length: int) -> str:
    marks = rng.choices("!@#$%^&*(-_=+)", k=2)
    letters = [*rng.choices(_LETTERS, k=length - 4), *marks, *rng.choices("23456789", k=2)]
    rng.shuffle(letters)
    return rng.choice(_LETTERS) + "".join(letters)


def _password(rng: random.Random) -> str:
    letters = [*rng.choices(_LETTERS, k=9), *rng.choices("23456789", k=3)]
    rng.shuffle(letters)
    return "".join(letters)


def _encoded(rng: random.Random, length: int) -> str:
    return base64.b64encode(f"deploy:{shape(rng, f'<a{length}>')}".encode()).decode()


_MAKERS: dict[str, Callable[[random.Random], str]] = {
    "@": lambda rng: _symbols(rng, 16),
    "@@": lambda rng: _symbols(rng, 50),
    "#": _password,
    "~": lambda rng: shape(rng, "<a40>"),
    "^": lambda rng: shape(rng, "<l52>"),
    "&": lambda rng: _encoded(rng, 18),
    "&&": lambda rng: base64.b64encode(rng.randbytes(64)).decode(),
}


def _private_key(rng: random.Random, kind: str) -> Plant:
    lines = [*(shape(rng, "<b64>") for _ in range(12)), shape(rng, "<b30>") + "=="]
    text = "\n".join([f"-----BEGIN {kind}-----", *lines, f"-----END {kind}-----"])
    return Plant(kind.lower(), text, tuple(lines))


# ── places ────────────────────────────────────────────────────────────────────────────────────────

PLACES: dict[str, Callable[[str], Records]] = {}
"""By name: the lines of a transcript with a text in this place."""


def _place(name: str) -> Callable[[Callable[[str], Records]], Callable[[str], Records]]:
    def add(build: Callable[[str], Records]) -> Callable[[str], Records]:
        PLACES[name] = build
        return build

    return add


def _entry(kind: str, n: int, **more: Any) -> dict[str, Any]:
    entry = {
        "parentUuid": f"u{n - 1}" if n else None,
        "isSidechain": False,
        "userType": "external",
        "cwd": "/home/dev/shop",
        "sessionId": "SESSION",
        "version": "2.1.204",
        "gitBranch": "main",
        "type": kind,
        "uuid": f"u{n}",
        "timestamp": f"2026-03-02T09:00:{n:02}.000Z",
    }
    return {**entry, **more}


def _user(n: int, content: Any, **more: Any) -> dict[str, Any]:
    return _entry("user", n, message={"role": "user", "content": content}, **more)


def _assistant(n: int, *blocks: dict[str, Any], model: str = "claude-opus-4-6", **more: Any) -> Any:
    message = {
        "model": model,
        "id": f"msg_{n}",
        "type": "message",
        "role": "assistant",
        "content": list(blocks),
        "usage": {"input_tokens": 4, "output_tokens": 20},
    }
    return _entry("assistant", n, message=message, **more)


def _call(name: str, **arguments: Any) -> dict[str, Any]:
    return {"type": "tool_use", "id": "toolu_1", "name": name, "input": arguments}


def _talk(*records: dict[str, Any]) -> Records:
    return [_user(0, "please look at the shop"), *records]


def _result(text: Any, outcome: Any = None, *, failed: bool = False, name: str = "Bash") -> Records:
    block = {"tool_use_id": "toolu_1", "type": "tool_result", "content": text, "is_error": failed}
    more = {} if outcome is None else {"toolUseResult": outcome}
    return _talk(_assistant(1, _call(name, command="make show")), _user(2, [block], **more))


def _around(text: str) -> str:
    return f"started at noon\nreading the settings\n{text}\nall settings are there\ndone in 3 s"


def _lines(text: str, mark: Callable[[int, str], str]) -> str:
    return "\n".join(mark(n, line) for n, line in enumerate(_around(text).split("\n"), 9))


@_place("prompt")
def _(text: str) -> Records:
    return [_user(0, f"Deploy the shop. {text}\nThen run the tests.")]


@_place("prompt of blocks")
def _(text: str) -> Records:
    return [_user(0, [{"type": "text", "text": f"Use this:\n\n{text}\n"}])]


@_place("reply")
def _(text: str) -> Records:
    return _talk(_assistant(1, {"type": "text", "text": f"The file says:\n{text}\nShall I go on?"}))


@_place("thinking")
def _(text: str) -> Records:
    return _talk(_assistant(1, {"type": "thinking", "thinking": f"It printed\n{text}\nso be it."}))


@_place("command")
def _(text: str) -> Records:
    return _talk(_assistant(1, _call("Bash", command=f"cat > .conf <<'X'\n{text}\nX\nmake")))


@_place("written file")
def _(text: str) -> Records:
    return _talk(_assistant(1, _call("Write", file_path="/home/dev/shop/c", content=_around(text))))


@_place("edit")
def _(text: str) -> Records:
    edit = _call("Edit", file_path="/home/dev/shop/c", old_string="nothing", new_string=text)
    return _talk(_assistant(1, edit))


@_place("argument in lists")
def _(text: str) -> Records:
    todo = _call("TodoWrite", todos=[{"content": "first"}, {"content": text}], more=[["a", text]])
    return _talk(_assistant(1, todo))


@_place("name of an argument")
def _(text: str) -> Records:
    return _talk(_assistant(1, _call("mcp__shop__set", **{text: "on", "other": 1})))


@_place("result")
def _(text: str) -> Records:
    return _result(_around(text))


@_place("result of blocks")
def _(text: str) -> Records:
    return _result([{"type": "text", "text": _around(text)}])


@_place("failed result")
def _(text: str) -> Records:
    return _result(f"Exit code 1\nError: could not connect with\n{text}", failed=True)


@_place("stdout beside the result")
def _(text: str) -> Records:
    return _result("ok", {"stdout": _around(text), "stderr": "", "interrupted": False})


@_place("name of a tool")
def _(text: str) -> Records:
    return _result("fine", name=text)


@_place("name of a tool, result later")
def _(text: str) -> Records:
    return [{"split": 2}, *_result("fine", name=f"mcp__{text}")]


@_place("working folder")
def _(text: str) -> Records:
    return [_user(0, "list it", cwd=f"/home/dev/{text}/shop")]


@_place("working folder, then another")
def _(text: str) -> Records:
    return [
        {"split": 1},
        _user(0, "list it", cwd=f"/srv/{text}"),
        _assistant(1, {"type": "text", "text": "yes"}),
    ]


@_place("branch")
def _(text: str) -> Records:
    return [_user(0, "list it", gitBranch=f"fix/{text}")]


@_place("model")
def _(text: str) -> Records:
    return _talk(_assistant(1, {"type": "text", "text": "yes"}, model=text))


@_place("title")
def _(text: str) -> Records:
    return [*_talk(), {"type": "custom-title", "customTitle": text, "sessionId": "SESSION"}]


@_place("summary")
def _(text: str) -> Records:
    return [{"type": "summary", "summary": f"About {text}", "leafUuid": "u0"}, *_talk()]


@_place("path of a file")
def _(text: str) -> Records:
    return _talk(_assistant(1, _call("Read", file_path=f"/home/dev/shop/{text}")))


@_place("structured patch")
def _(text: str) -> Records:
    lines = [" import os", *(f"+{line}" for line in text.split("\n")), " run()"]
    hunk = {"oldStart": 1, "oldLines": 2, "newStart": 1, "newLines": len(lines), "lines": lines}
    return _result(
        "updated", {"filePath": "/home/dev/shop/c", "structuredPatch": [hunk]}, name="Edit"
    )


@_place("lines as a list")
def _(text: str) -> Records:
    return _talk(_assistant(1, _call("mcp__shop__put", lines=_around(text).split("\n"))))


@_place("environment")
def _(text: str) -> Records:
    return _result(f"HOME=/home/dev\nSHELL=/bin/bash\n{text}\nLANG=C.UTF-8\nPWD=/home/dev/shop")


@_place("coloured")
def _(text: str) -> Records:
    return _result(_lines(text, lambda _n, line: f"\x1b[32m{line}\x1b[0m"))


@_place("coloured in bold, words apart")
def _(text: str) -> Records:
    return _result(
        _around(re.sub(r"\S+", lambda word: f"\x1b[1;38;5;208m{word[0]}\x1b[39;49m\x1b[K", text))
    )


@_place("match of a coloured grep")
def _(text: str) -> Records:
    middle = min(6, len(text) // 3)
    red = f"\x1b[01;31m\x1b[K{text[middle : middle + 5]}\x1b[m\x1b[K"
    return _result(_around(text[:middle] + red + text[middle + 5 :]))


@_place("link of a terminal in the middle")
def _(text: str) -> Records:
    middle = len(text) // 2
    link = "\x1b]8;;https://shop.internal/x\x1b\\"
    return _result(_around(text[:middle] + link + text[middle:] + "\x1b]8;;\x1b\\"))


@_place("address of a link of a terminal")
def _(text: str) -> Records:
    return _result(_around(f"\x1b]8;;https://shop.internal/?{text}\x07here\x1b]8;;\x07"))


@_place("characters that nobody sees in the middle")
def _(text: str) -> Records:
    middle = len(text) // 2
    return _result(_around(text[:middle] + "\u200b\x1b(B\x1b=x\x08" + text[middle:]))


@_place("HTML")
def _(text: str) -> Records:
    return _result(f"<p>It is</p>\n<pre>{html.escape(text)}</pre>\n<p>so.</p>")


@_place("base64 in lines")
def _(text: str) -> Records:
    return _result(_around(base64.encodebytes(f"# all settings of us\n{text}\n".encode()).decode()))


@_place("URL-encoded")
def _(text: str) -> Records:
    return _result(f"GET /redirect?next={quote(text, safe='')}&page=2 HTTP/1.1 302")


@_place("base64")
def _(text: str) -> Records:
    return _result(_around(base64.b64encode(text.encode()).decode()))


@_place("base64 of a file")
def _(text: str) -> Records:
    packed = base64.b64encode(f"# settings\n{text}\nDEBUG=1\n".encode()).decode()
    return _talk(_assistant(1, _call("Bash", command=f"echo {packed} | base64 -d > .env")))


@_place("JSON in JSON")
def _(text: str) -> Records:
    return _result(json.dumps({"ok": True, "log": _around(text)}))


@_place("JSON in JSON in JSON")
def _(text: str) -> Records:
    return _result(json.dumps({"body": json.dumps({"log": text, "n": 1})}))


@_place("wrapped at 76 columns")
def _(text: str) -> Records:
    # The line ends in the middle of what stands there.
    whole = "." * (76 - len(text.split("\n")[0]) % 76 // 2) + " " + text
    lines = [part[i : i + 76] for part in whole.split("\n") for i in range(0, len(part), 76)]
    return _result("\n".join(["output of the server:", *lines, "end"]))


@_place("cat -n")
def _(text: str) -> Records:
    return _result(_lines(text, lambda n, line: f"{n:6}\t{line}"))


@_place("listing of a read tool")
def _(text: str) -> Records:
    return _result(_lines(text, lambda n, line: f"{n:6}→{line}"))


@_place("grep with names and numbers")
def _(text: str) -> Records:
    return _result(_lines(text, lambda n, line: f"config/keys/server-1.conf:{n}:{line}"))


@_place("grep with names and context")
def _(text: str) -> Records:
    return _result(_lines(text, lambda n, line: f"config/server.conf-{n}-{line}"))


@_place("diff")
def _(text: str) -> Records:
    return _result("@@ -1,3 +1,9 @@\n" + _lines(text, lambda _n, line: f"+{line}"))


@_place("quoted in Markdown")
def _(text: str) -> Records:
    return [_user(0, "As he wrote:\n\n" + _lines(text, lambda _n, line: f"> {line}"))]


@_place("log with times")
def _(text: str) -> Records:
    return _result(_lines(text, lambda n, line: f"2026-03-02T09:00:{n:02}Z INFO [web-1] {line}"))


@_place("string in source code")
def _(text: str) -> Records:
    return _result(_lines(text, lambda _n, line: f'    "{line}\\n" +'))


@_place("output of a hook")
def _(text: str) -> Records:
    hook = {"type": "hook_success", "hookName": "Stop", "content": text, "stdout": text}
    return [*_talk(), _entry("attachment", 1, attachment=hook)]


@_place("prompt of a subagent")
def _(text: str) -> Records:
    task = _call("Task", description=text[:60], prompt=f"Do it with {text}", subagent_type="x")
    return _talk(_assistant(1, task))


@_place("Codex: arguments")
def _(text: str) -> Records:
    call = {"type": "function_call", "name": "shell", "call_id": "c1"}
    arguments = json.dumps({"command": ["bash", "-lc", f"echo\n{text}\n"], "workdir": "/srv"})
    return _codex({**call, "arguments": arguments})


@_place("Codex: output")
def _(text: str) -> Records:
    output = json.dumps({"output": _around(text), "metadata": {"exit_code": 0}})
    call = {"type": "function_call", "name": "shell", "call_id": "c1", "arguments": "{}"}
    return _codex(call, {"type": "function_call_output", "call_id": "c1", "output": output})


@_place("Codex: name of a tool, output later")
def _(text: str) -> Records:
    call = {"type": "function_call", "name": text, "call_id": "c1", "arguments": "{}"}
    output = {"type": "function_call_output", "call_id": "c1", "output": "fine"}
    return [{"split": 4}, *_codex(call, output)]


@_place("Codex: patch")
def _(text: str) -> Records:
    lines = "\n".join(f"+{line}" for line in text.split("\n"))
    patch = f"*** Begin Patch\n*** Add File: c\n{lines}\n*** End Patch"
    return _codex(
        {"type": "custom_tool_call", "name": "apply_patch", "call_id": "c", "input": patch}
    )


@_place("Codex: reasoning")
def _(text: str) -> Records:
    summary = [{"type": "summary_text", "text": f"**Thinking** about {text}"}]
    return _codex({"type": "reasoning", "summary": summary})


@_place("Codex: folder, branch and model")
def _(text: str) -> Records:
    records = _codex({"type": "message", "role": "user", "content": []})
    records[0]["payload"]["git"] = {"branch": text, "repository_url": f"https://h/{text}.git"}
    context = {"turn_id": "t", "cwd": f"/srv/{text}", "model": text}
    return [*records, {"timestamp": _NOON, "type": "turn_context", "payload": context}]


_NOON = "2026-03-02T09:00:00.000Z"


def _codex(*items: dict[str, Any]) -> Records:
    meta = {"id": "SESSION", "timestamp": _NOON, "cwd": "/srv", "cli_version": "0.142.0"}
    ask = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "go"}]}
    head = [
        {"timestamp": _NOON, "type": "session_meta", "payload": meta},
        {"timestamp": _NOON, "type": "turn_context", "payload": {"cwd": "/srv", "model": "gpt-5"}},
    ]
    return head + [
        {"timestamp": _NOON, "type": "response_item", "payload": item} for item in (ask, *items)
    ]


def traces(plant: Plant) -> list[str]:
    """Return strings of which none may be stored, in any of the ways a place may write them."""
    found: list[str] = []
    for secret in plant.secrets:
        whole = [secret, quote(secret, safe=""), secret.replace("/", "\\/")]
        found += [chunk for each in whole for chunk in _chunks(each)]
    # The text may stand at any of three places in the groups of base64.
    for skip in range(3):
        found += _chunks(base64.b64encode(plant.text[skip:].encode()).decode()[:-4], 16)
    return list(dict.fromkeys(found))


def _chunks(text: str, length: int = 12) -> list[str]:
    """Return parts of the last two thirds of a text: a provider's name may stay."""
    if len(text) < 2 * length:
        return [text[-length:]] if len(text) > length else [text]
    first = len(text) // 3
    return [text[i : i + length] for i in range(first, len(text) - length + 1, length)]
