"""Recall, false positives and speed of the redaction: `python bench/redact.py FOLDER…` (folders of
transcripts).

The tests plant these secrets too. The shapes here were written independently of the rules, from
what providers publish. `HELD_OUT` has contexts that the rules were not tuned on: their recall is
printed separately.
"""

import json
import random
import re
import string
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from runlore.redact.engine import Redactor

_CLASSES = {
    "a": string.ascii_letters + string.digits,
    "b": string.ascii_letters + string.digits + "+/",
    "d": string.digits,
    "h": "0123456789abcdef",
    "l": string.ascii_lowercase + string.digits,
    "s": string.ascii_letters,
    "u": string.ascii_uppercase + string.digits,
    "w": string.ascii_letters + string.digits + "_-",
}

# `<a36>` is 36 of the alphabet `a` above.
SHAPES = """
sk-ant-api03-<w93>AA
sk-ant-oat01-<w93>AA
sk-ant-admin01-<w93>AA
sk-proj-<w74>T3BlbkFJ<w74>
sk-svcacct-<w60>T3BlbkFJ<w60>
sk-<a20>T3BlbkFJ<a20>
sk-or-v1-<h64>
sk-<h32>
AIza<w35>
GOCSPX-<w28>
ya29.<w160>
1//0<w60>
gsk_<a52>
xai-<a80>
r8_<a37>
pplx-<a48>
hf_<s34>
tgp_v1_<w43>
fw_<a24>
csk-<l48>
nvapi-<w64>
sk_<h48>
lsv2_pt_<h32>_<h10>
tvly-<a32>
tvly-dev-<a32>
fc-<h32>
pcsk_<a6>_<a63>
jina_<h32><a28>
llx-<a48>
e2b_<h40>
phx_<a43>
AKIA<u16>
ASIA<u16>
<a3><d1>Q~<w34>
<b76>+ASt<b6>==
<a76>AZDO<a4>
LTAI<a20>
AKID<a32>
AQVN<w38>
dop_v1_<h64>
doo_v1_<h64>
fo1_<w43>
fm2_<b200>
rnd_<a32>
vercel_blob_rw_<a16>_<a30>
nfp_<a40>
HRKU-<h8>-<h4>-<h4>-<h4>-<h12>
sbp_<h40>
sb_secret_<w22>_<w8>
pscale_tkn_<w43>
pscale_pw_<w43>
napi_<l64>
mdb_sa_sk_<w40>
CCDB1_<a22>_<a40>
dapi<h32>
dapi<h32>-2
AVNS_<w19>
pul-<h40>
<a14>.atlasv1.<w67>
hvs.<w95>
hvb.<w140>
dp.pt.<a43>
dp.st.dev.<a43>
ops_eyJ<a250>
tskey-auth-<a17>CNTRL-<a33>
glc_<b90>=
glsa_<a32>_<h8>
NRAK-<u27>
<h36>NRAL
sntrys_<a80>
sntryu_<h64>
dt0c01.<u24>.<u64>
xaat-<h8>-<h4>-<h4>-<h4>-<h12>
sdk-<h8>-<h4>-<h4>-<h4>-<h12>
sgp_<h40>
ghp_<a36>
gho_<a36>
ghs_<a36>
ghu_<a36>
ghr_<a76>
github_pat_<a22>_<a59>
glpat-<w20>
gldt-<w20>
glrt-<w20>
glcbt-1a_<w20>
glptt-<h40>
ATBB<a32>
ATATT3xFfGF0<w170>=<h8>
CCIPAT_<a22>_<h40>
bkua_<h40>
squ_<h40>
sqp_<h40>
AKCp<a69>
cmVmdGtu<a56>
API-<u32>
npm_<a36>
pypi-AgEIcHlwaS5vcmc<w90>
pypi-AgENdGVzdC5weXBpLm9yZw<w90>
rubygems_<h48>
cio<a32>
oy2<l43>
CLOJARS_<l60>
dckr_pat_<w27>
ddp_<a36>
xoxb-<d12>-<d13>-<a24>
xoxp-<d12>-<d12>-<d13>-<h32>
xapp-1-<u11>-<d13>-<h64>
xoxe.xoxp-1-<a160>
https://hooks.slack.com/services/T<u8>/B<u8>/<a24>
sk_live_<a24>
sk_test_<a99>
rk_live_<a24>
whsec_<a32>
SK<h32>
SG.<w22>.<w43>
key-<h32>
<h32>-<h8>-<h8>
<h32>-us12
xkeysib-<h64>-<a16>
re_<a8>_<a24>
mlsn.<h64>
shpat_<h32>
shpss_<h32>
sq0atp-<w22>
sq0csp-<w43>
EAAA<w60>
access_token$production$<l16>$<h32>
access-sandbox-<h8>-<h4>-<h4>-<h4>-<h12>
rzp_live_<a14>
FLWSECK_TEST-<h32>-X
EZAK<a54>
shippo_live_<h40>
lin_api_<a40>
lin_oauth_<h64>
ntn_<d11><a35>
secret_<a43>
figd_<w40>
pat<a14>.<h64>
pk_<d8>_<u32>
ATTA<h64>
tfp_<w44>
CFPAT-<w43>
pat-na1-<h8>-<h4>-<h4>-<h4>-<h12>
dG9rOi<b54>=
00D<a15>!<a96>
PMAK-<h24>-<h34>
sk.eyJ<a60>.<w22>
pnu_<a36>
dbtu_<w40>
alcht_<a30>
sha256~<w43>
ptr_<b43>=
aio_<a28>
1000.<h32>.<h32>
EAAC<a120>
AGE-SECRET-KEY-1<u58>
nsec1<l58>
xprv<a107>
M<a23>.<w6>.<w27>
MT<a24>.<w6>.<w38>
https://discord.com/api/webhooks/<d18>/<w68>
<d10>:AA<w33>
https://api.telegram.org/bot<d9>:AA<w33>/getMe
eyJ<a33>.eyJ<a80>.<w43>
rdme_<l70>
bedrock-api-key-<b100>
ABSK<b120>
ico-<a32>
$2b$12$<a53>
""".split()

SHAPE_PLACES = """
{}
using {} for this run
"{}"
Authenticated with `{}`.
client = Client("{}")
echo {} | base64
\\n{}\\n
{{"args": ["--x", "{}"]}}
{{\\"x\\": \\"{}\\"}}
+ {}
  12\t{}
- item: {}
x={};
({})
https://host.internal/cb?x={}&y=1
""".strip("\n").split("\n")

NAMES = """
DB_PASSWORD API_KEY SECRET_KEY AWS_SECRET_ACCESS_KEY ACCESS_TOKEN POSTGRES_PASSWORD JWT_SECRET
CLIENT_SECRET STRIPE_API_KEY AUTH_TOKEN DATADOG_API_KEY REDIS_PASSWORD SMTP_PASS ENCRYPTION_KEY
SESSION_SECRET PRIVATE_KEY GITHUB_TOKEN WEBHOOK_SECRET ADMIN_PASSWORD REFRESH_TOKEN password
apiKey api_key secret token clientSecret client_secret accessToken access_token auth_token
dbPassword db-password secretKey api-key privateKey bearerToken X-Api-Key x-auth-token passwd pwd
appSecret signing_key master_key accountKey passphrase
""".split()

# NAME and SECRET are replaced by the planted values.
PLACES = {
    "env": "HOST=db1\nNAME=SECRET\nDEBUG=1\n",
    "env quoted": 'NAME="SECRET"\n',
    "export": "$ export NAME=SECRET && ./run.sh",
    "docker -e": "docker run -d -e NAME=SECRET --name app img:1",
    "compose": "services:\n  app:\n    environment:\n      - NAME=SECRET\n      - MODE=prod\n",
    "compose map": "    environment:\n      NAME: SECRET\n      MODE: prod\n",
    "yaml": "db:\n  host: localhost\n  NAME: SECRET\n",
    "yaml quoted": 'auth:\n  NAME: "SECRET"\n',
    "json": '{"host": "x", "NAME": "SECRET", "n": 3}',
    "json compact": '{"NAME":"SECRET"}',
    "json nested": '{\\"NAME\\": \\"SECRET\\", \\"port\\": 5432}',
    "json twice nested": '{\\\\\\"NAME\\\\\\":\\\\\\"SECRET\\\\\\"}',
    "python": "NAME = 'SECRET'\nrun(NAME)",
    "python kwarg": 'connect(host="db", NAME="SECRET", port=1)',
    "python dict": "conf = {'NAME': 'SECRET'}",
    "python typed": 'NAME: str = "SECRET"',
    "python environ": 'os.environ["NAME"] = "SECRET"',
    "js": "const NAME = 'SECRET';",
    "js object": "export default { NAME: 'SECRET', retries: 3 }",
    "ts": 'const NAME: string = "SECRET";',
    "go": 'NAME := "SECRET"',
    "go typed": 'var NAME string = "SECRET"',
    "go header": 'req.Header.Set("NAME", "SECRET")',
    "java": 'private static final String NAME = "SECRET";',
    "java setter": 'props.setProperty("NAME", "SECRET");',
    "csharp": 'public string NAME = "SECRET";',
    "ruby": "ENV['NAME'] = 'SECRET'",
    "ruby hash": ":NAME => 'SECRET',",
    "php": "define('NAME', 'SECRET');",
    "php array": "'NAME' => 'SECRET',",
    "rust": 'let NAME = "SECRET";',
    "xml": "<conf><host>a</host><NAME>SECRET</NAME></conf>",
    "xml property": '<property name="NAME" value="SECRET"/>',
    "xml add": '<add key="NAME" value="SECRET" />',
    "ini": "[auth]\nNAME = SECRET\nuser = bob\n",
    "properties": "app.NAME=SECRET\n",
    "terraform": 'variable "x" {}\n  NAME = "SECRET"\n',
    "tfvars": 'NAME       = "SECRET"\n',
    "k8s env": "        - name: NAME\n          value: SECRET\n",
    "k8s secret": "kind: Secret\nstringData:\n  NAME: SECRET\n",
    "cli flag": "tool login --NAME SECRET --region eu",
    "cli flag eq": "tool login --NAME=SECRET",
    "curl header": "curl -H 'NAME: SECRET' https://api.internal/x",
    "query": "GET https://api.internal/v1?NAME=SECRET&page=2",
    "log": "2024-05-01 12:00:00 INFO started with NAME=SECRET retries=3",
    "log colon": "[DEBUG] NAME: SECRET",
    "prose": "The NAME is SECRET and works.",
    "prose quoted": 'I set NAME to "SECRET" in the console.',
    "markdown": "- **NAME**: `SECRET`",
    "table": "| NAME | SECRET |",
    "listing": "     7\u2192NAME=SECRET\n     8\u2192B=2",
    "diff": "-NAME=old\n+NAME=SECRET",
    "shell single": "NAME='SECRET' ./deploy",
    "fish": "set -x NAME SECRET",
    "powershell": '$env:NAME = "SECRET"',
    "gh secret": 'gh secret set NAME --body "SECRET"',
    "connection string": "Server=db;User Id=sa;NAME=SECRET;Encrypt=true",
    "form": "username=bob&NAME=SECRET",
    "toml": 'NAME = "SECRET"',
    "dart": "final NAME = 'SECRET';",
    "heroku": "heroku config:set NAME=SECRET -a app",
    "helm": "helm install x y --set auth.NAME=SECRET",
    "dockerfile": "ENV NAME SECRET\nRUN make",
    "dockerfile eq": "ARG NAME=SECRET\n",
    "kotlin": 'val NAME = "SECRET"',
    "swift": 'let NAME: String = "SECRET"',
    "scala": 'val NAME: String = "SECRET"',
    "elixir": 'config :app, NAME: "SECRET"',
    "lua": 'local NAME = "SECRET"',
    "perl": "my $NAME = 'SECRET';",
    "c": '#define NAME "SECRET"',
    "cpp": 'const std::string NAME = "SECRET";',
    "spring": "spring.datasource.NAME=SECRET",
    "ansible": "    NAME: 'SECRET'\n    become: true",
    "systemd": 'Environment="NAME=SECRET"',
    "github actions": "        env:\n          NAME: SECRET\n",
    "jenkins": "<NAME>SECRET</NAME>\n<id>x</id>",
    "maven": "<server><id>a</id><NAME>SECRET</NAME></server>",
    "json log": '{"level":"info","msg":"cfg","NAME":"SECRET"}',
    "logfmt": 'level=info NAME=SECRET msg="ok"',
    "python repr": "Config(host='x', NAME='SECRET')",
    "js header": "headers: { 'NAME': 'SECRET' }",
    "js env": "process.env.NAME = 'SECRET'",
    "sh default": 'NAME=${NAME:-"SECRET"}',
    "assert": 'assert cfg.NAME == "SECRET"',
    "sql": "INSERT INTO t (NAME) VALUES ('SECRET')",
    "cmd set": "set NAME=SECRET",
    "setx": 'setx NAME "SECRET"',
    "escaped newline": "A=1\\nNAME=SECRET\\nB=2",
    "terraform output": 'NAME = "SECRET" -> null',
    "http form": "Content-Disposition: form-data; name=NAME\r\n\r\nSECRET\r\n",
    "html": '<input type="hidden" name="NAME" value="SECRET">',
    "plist": "<key>NAME</key>\n<string>SECRET</string>",
    "graphql": 'login(NAME: "SECRET") { id }',
    "csv": "name,value\nNAME,SECRET\n",
    "colour": "\x1b[36mNAME\x1b[0m=SECRET",
}
# Written when the rules were finished, and measured without changing them.
HELD_OUT = {
    "nginx": 'proxy_set_header NAME "SECRET";',
    "vault": "vault kv put kv/app NAME=SECRET",
    "aws configure": "aws configure set NAME SECRET --profile x",
    "kubectl": "kubectl create secret generic app --from-literal=NAME=SECRET",
    "groovy": 'withEnv(["NAME=SECRET"]) { sh "make" }',
    "template literal": "const config = { auth: { NAME: `SECRET` } }",
    "r": 'Sys.setenv(NAME = "SECRET")',
    "gradle": 'buildConfigField("String", "NAME", "\\"SECRET\\"")',
    "echo": 'echo "NAME=SECRET" >> .env',
    "sed": "sed -i 's/^NAME=.*/NAME=SECRET/' .env",
    "postman": '{"key": "NAME", "value": "SECRET", "type": "text"}',
    "docker inspect": '"Env": ["PATH=/bin", "NAME=SECRET"]',
    "curl json": 'curl -d \'{"NAME":"SECRET"}\' https://x',
    "curl form": 'curl --data-urlencode "NAME=SECRET" https://x',
    "locals": "  NAME = 'SECRET'\n  retries = 3\n",
    "json5": "  NAME: 'SECRET', // rotate",
    "haskell": 'NAME = "SECRET" :: String',
    "clojure": '{:NAME "SECRET"}',
    "apache": "SetEnv NAME SECRET\n",
    "typed json": '{"NAME":{"type":"string","value":"SECRET"}}',
    "yaml list": "  - NAME: SECRET\n",
    "equals spaced": "NAME   =   SECRET",
    "xml attribute": '<db user="sa" NAME="SECRET"/>',
    "dotted": "app.config.NAME = 'SECRET';",
    "kwargs line": "    NAME='SECRET',\n    timeout=3,\n",
    "chat": "here is the NAME: SECRET please use it",
    "arrow": "NAME -> SECRET",
    "log json escaped": 'msg="{\\"NAME\\":\\"SECRET\\"}"',
    "ssh config": "    NAME SECRET\n",
    "query first": "https://h/cb?NAME=SECRET#x",
}


def shape(rng: random.Random, template: str) -> str:
    return re.sub(
        r"<([a-z])(\d+)>", lambda m: "".join(rng.choices(_CLASSES[m[1]], k=int(m[2]))), template
    )


def value(rng: random.Random) -> str:
    """Return a password or key as people and consoles create them."""
    word = rng.choice("Summer Winter Dragon Falcon Monkey Coffee Purple Rocket".split())
    makes: list[Callable[[], str]] = [
        lambda: shape(rng, f"<a{rng.randint(16, 64)}>"),
        lambda: shape(rng, f"<h{rng.choice([32, 40, 64])}>"),
        lambda: shape(rng, f"<b{rng.choice([22, 43])}>") + "=",
        lambda: shape(rng, f"<l{rng.randint(20, 40)}>"),
        lambda: shape(rng, f"<w{rng.randint(20, 48)}>"),
        lambda: shape(rng, f"<a{rng.randint(8, 15)}>"),
        lambda: word + str(rng.randint(100, 9999)) + rng.choice("!#%*"),
        lambda: (
            shape(rng, "<a5>") + rng.choice("!@#%^*") + shape(rng, "<a5>") + rng.choice("!@#%^*")
        ),
        lambda: shape(rng, "<h8>-<h4>-<h4>-<h4>-<h12>"),
    ]
    return rng.choice(makes)()


def planted_shapes(seed: int, each: int = 5) -> Iterator[tuple[str, str, str]]:
    rng = random.Random(seed)
    for template in SHAPES:
        for _ in range(each):
            secret = shape(rng, template)
            yield (
                template,
                secret,
                rng.choice(SHAPE_PLACES)
                .replace("{{", "{")
                .replace("}}", "}")
                .replace("{}", secret),
            )


def planted_values(
    seed: int, places: dict[str, str], each: int = 40
) -> Iterator[tuple[str, str, str]]:
    rng = random.Random(seed)
    for place, template in places.items():
        for _ in range(each):
            secret = value(rng)
            yield (
                place,
                secret,
                template.replace("SECRET", "\0")
                .replace("NAME", rng.choice(NAMES))
                .replace("\0", secret),
            )


def recall(
    redactor: Redactor, planted: Iterator[tuple[str, str, str]], missed: list[tuple[str, str]]
) -> tuple[float, Counter[str]]:
    """Return the share of planted secrets that were removed, and the number that stayed by
    group."""
    total, stayed = 0, Counter[str]()
    for group, secret, text in planted:
        total += 1
        told = (
            secret.removeprefix("https://").rsplit("/", 1)[-1]
            if "://" in secret and "telegram" not in secret
            else secret
        )
        if told in redactor.text(text):
            stayed[group] += 1
            missed.append((group, text))
    return 1 - stayed.total() / total, stayed


def values_in(folder: Path) -> Iterator[tuple[bytes, Any]]:
    """Yield every JSON line under a folder, and every other text file as one string."""
    for path in sorted(folder.rglob("*")):
        if not path.is_file():
            continue
        data = path.read_bytes()
        if path.suffix == ".jsonl":
            for line in data.splitlines():
                try:
                    yield line, json.loads(line)
                except ValueError:
                    continue
        elif b"\0" not in data[:4096]:
            text = data.decode("utf-8", "replace")
            try:
                yield data, json.loads(text)
            except ValueError:
                yield data, text


def false_hits(folder: Path, samples: int) -> None:
    redactor, size, shown = Redactor(b"bench" * 8), 0, []
    spans = redactor._spans

    def noted(data: bytes) -> Any:
        for start, end, kind in spans(data):
            shown.append(
                (kind, data[max(0, start - 50) : start], data[start:end][:60], data[end : end + 15])
            )
            yield start, end, kind

    redactor._spans = noted  # type: ignore[method-assign]
    for raw, each in values_in(folder):
        size += len(raw)
        redactor.value(each)
    print(
        f"{folder}: {redactor.hits.total()} hits in {size / 1e6:.1f} MB,"
        f" {redactor.hits.total() / size * 1e6:.2f}/MB {dict(redactor.hits)}"
    )
    unlike = list(
        {
            (kind, secret): (kind, before, secret, after) for kind, before, secret, after in shown
        }.values()
    )
    for kind, before, secret, after in random.Random(1).sample(unlike, min(samples, len(unlike))):
        print(f"    {kind}: {before!r} >>> {secret!r} <<< {after!r}")


def speed(folder: Path) -> None:
    lines = [
        line for path in sorted(folder.rglob("*.jsonl")) for line in path.read_bytes().splitlines()
    ]
    if not lines:
        return
    redactor = Redactor(b"bench" * 8)
    first, _ = _timed(lambda: redactor.suspects(lines))
    scan, found = min(
        (_timed(lambda: redactor.suspects(lines)) for _ in range(3)), key=lambda run: run[0]
    )
    decoded = [value for n in found for value in _decoded(lines[n])]
    search, _ = _timed(lambda: [redactor.value(each) for each in decoded])
    size, suspect = sum(map(len, lines)) / 1e6, sum(len(lines[n]) for n in found) / 1e6
    print(f"suspects: {size / scan:.0f} MB/s of CPU time ({size / first:.0f} the first time)")
    print(f"flagged: {len(found) / len(lines):.1%} of lines, {suspect / size:.1%} of bytes")
    print(
        f"value on those: {search:.2f} s, {suspect / search:.0f} MB/s; both together"
        f" {size / (scan + search):.0f} MB/s"
    )


def _decoded(line: bytes) -> list[Any]:
    try:
        return [json.loads(line)]
    except ValueError:
        return []


def _timed(run: Callable[[], Any]) -> tuple[float, Any]:
    start = time.process_time()
    result = run()
    return time.process_time() - start, result


def hostile(redactor: Redactor) -> None:
    """Return a megabyte of each hostile kind. None may take much longer than the others."""
    units = [
        "a",
        "=",
        "aGVsbG8gd29ybGQ",
        "-----BEGIN ",
        "-----BEGIN PRIVATE KEY-----",
        "password=",
        "password=1",
        'password="',
        "eyJ",
        "eyJhbGci.",
        '"',
        "\\",
        "'\\",
    ]
    units += [
        "://",
        "://a:",
        "://a:b1@",
        "sk-ant-api03-",
        "AKIA",
        "token ",
        "key: a1 ",
        "Authorization: ",
        "ghp_" + "a1" * 18 + " ",
        "\0",
        "\ud800",
    ]
    for unit in units:
        text = unit * (1_000_000 // len(unit))
        taken, _ = _timed(lambda text=text: redactor.text(text))  # type: ignore[misc]
        scan, _ = _timed(
            lambda text=text: redactor.suspects([json.dumps(text).encode()])  # type: ignore[misc]
        )
        print(f"    {unit[:30]!r:34} text {taken:6.3f} s   suspects {scan:6.3f} s")


def main(folders: list[str]) -> None:
    redactor, missed = Redactor(b"bench" * 8), list[tuple[str, str]]()
    share, stayed = recall(redactor, planted_shapes(1), missed)
    print(f"recall on {len(SHAPES)} provider shapes: {share:.3f}; stayed: {dict(stayed)}")
    for name, places in (("tuned", PLACES), ("held out", HELD_OUT)):
        share, stayed = recall(redactor, planted_values(2, places), missed)
        print(
            f"recall on anchored values, {name} places: {share:.3f}; stayed, of 40 each:"
            f" {dict(stayed.most_common())}"
        )
    for group, text in (
        random.Random(3).sample(missed, min(40, len(missed))) if "--missed" in folders else ()
    ):
        print(f"    {group}: {text!r}")
    hostile(redactor)
    for folder in folders:
        if not folder.startswith("-"):
            speed(Path(folder))
            false_hits(Path(folder), 20)


if __name__ == "__main__":
    main(sys.argv[1:])
