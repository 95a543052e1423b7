r"""The forms of secrets: the table of patterns that `redact` runs.

Patterns only; nothing here scans, judges or replaces. Written from the token shapes that providers
publish. A row of `_SHAPES` reads `kind  lead  body [rest]`: the fixed opening, then the alphabet
and least length of what follows, then (where the token goes on) a pattern for the rest.

Every rule also has a gate: a pattern that is cheap to look for in undecoded JSON and matches there
whenever the rule matches in a decoded string. So a gate allows `\n`, `\"`, `\/` where a rule allows
a newline, a quote, a slash. A gate has a repetition count (`{24}`) only where that keeps many lines
out: all gates run as one automaton, and the states of a count multiply with all others.
"""

import re
from collections.abc import Iterable

import msgspec

from runlore.redact import blocks, sentences

# Raised when what is found changes: stored text made by older rules can then be told apart.
RULES_VERSION = 5


class Rule(msgspec.Struct, frozen=True):
    """`pattern` (RE2) finds a secret: its first non-empty group, or all of the match when it has no
    group.

    `keywords` are plain words, at least one of which is near every match; they keep the scan fast.
    Without any, and when the pattern does not open with a word, every line has to be decoded and
    searched.
    """

    name: str
    pattern: str
    keywords: tuple[str, ...] = ()
    gate: str = ""


_ALPHABETS = {
    "a": "A-Za-z0-9",
    "b": "A-Za-z0-9+/=",
    "c": "A-Za-z0-9./",
    "h": "0-9a-f",
    "l": "a-z0-9",
    "u": "A-Z0-9",
    "w": "A-Za-z0-9_-",
    "z": "A-Za-z0-9_.=-",
}

_SHAPES = r"""
anthropic       sk-ant-[a-z]{3,8}[0-9]{2}-  w20
openai          sk-(?:proj|svcacct|admin|None|service)-  w20
openai          sess-                       a40
openrouter      sk-or-v[0-9]-               h32
langfuse        sk-lf-                      w36
helicone        sk-helicone-                w20
letta           sk-let-                     b40
litellm         sk-litellm-                 w20
google          AIza                        w35
google          GOCSPX-                     w24
google          ya29\.                      z20
google          AQ\.Ab                      w30
google          GOOG1?E?                    u55
groq            gsk_                        a40
xai             xai-                        a40
replicate       r8_                         a36
perplexity      pplx-                       a40
huggingface     hf_                         a30
huggingface     api_org_                    a30
together        tgp_v1_                     w40
fireworks       fw_                         a22
cerebras        csk-                        l40
nvidia          nvapi-                      w50
elevenlabs      sk_                         h48
langsmith       ls(?:v2_(?:pt|sk)_|__)      h32
tavily          tvly-                       w24
firecrawl       fc-                         h32
pinecone        pcsk_                       w50
jina            jina_                       w50
llamacloud      llx-                        a40
e2b             e2b_                        h40
runpod          rpa_                        u36
voyage          pa-                         w43
mem0            m0-                         a40
context7        ctx7sk-                     w30
cursor          (?:key|crsr)_               h60
wandb           wandb_v[0-9]_               w40
posthog         ph[xs]_                     a40
modal           a[ks]-                      a22
aws             (?:AKIA|ASIA|ABIA|ACCA)     u16
aws             ABSK                        b100
aws             bedrock-api-key-            b40
aws             (?:IQoJb3JpZ2lu|FwoGZXIvYXdz|AQoDYXdz)  b100
aws             amzn\.mws\.                 w36
alibaba         LTAI                        a12
tencent         AKID                        a32
yandex          AQVN                        w35
yandex          t1\.9eu                     w40  (?:\.[A-Za-z0-9_=-]+)?
scaleway        SCW                         u17
exoscale        EXO                         h24
digitalocean    do[oprt]_v1_                h64
fly             fm[12][ar]?_                b60
fly             fo1_                        w40
render          rnd_                        a28
vercel          vc[apirk]_                  a24
vercel          vercel_blob_rw_             w30
netlify         nf[puc]_                    a36
heroku          HRKU-                       w36
cloudflare      v1\.0-                      h24  -[0-9a-f]{100,}
supabase        sbp_                        w40
supabase        sb_secret_                  w20
planetscale     pscale_(?:tkn|pw|oauth|oatkn)_  z32
neon            napi_                       l40
mongodb         mdb_sa_sk_                  w30
cockroach       CCDB1_                      a22  _[A-Za-z0-9]{30,}
databricks      d(?:api|ose|kea|sapi)       h32  (?:-[0-9])?
aiven           AVNS_                       w16
pulumi          pul-                        h40
vault           hv[sbr]\.                   w24
doppler         dp\.(?:pt|st|ct|sa|scim|audit|said)\.(?:[a-z0-9_-]{2,35}\.)?  a40
onepassword     ops_eyJ                     b100
onepassword     A3-                         u6   -[A-Z0-9]{6,11}(?:-[A-Z0-9]{5,6}){3,4}
tailscale       tskey-[a-z]{2,10}-          w20
grafana         gl(?:c|sa)_                 b32  (?:_[0-9a-f]{8})?
newrelic        NR(?:AK|JS|II|IQ|RA|SP|BR|AA|AL)-  w19
sentry          sntry[sua]_                 b60
dynatrace       dt0[a-z][0-9]{2}\.          u24  \.[A-Z0-9]{60,}
honeycomb       hc[abix][il][kc]_           l40
axiom           xa(?:a|p)t-                 w36
launchdarkly    (?:sdk|api|mob)-            h8   -[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}
segment         sgp_                        a60
sourcegraph     sgp_(?:[0-9a-f]{16}_|local_)?  h40
sourcegraph     sl[kw]_                     h60
configcat       configcat-(?:sdk-1|proxy/(?:sdk|test))/  w20
github          gh[opsur]_                  a30
github          github_pat_                 w36
gitlab          gl(?:pat|dt|rt|rtr|cbt|ptt|ft|imt|agent|oas|soat|ffct|wt)-  w20
gitlab          GR1348941                   w20
bitbucket       ATBB                        a24
bitbucket       ATCTT3xFf                   z50
atlassian       ATATT3                      z50
atlassian       ATOA                        w50
circleci        CCI(?:PAT|PRJ)_             w40
buildkite       bk(?:ua|aj|cp|at|ps)_       a36
sonar           sq[upa]_                    h40
jfrog           AKCp                        a60
jfrog           cmVmdGtu                    a50
octopus         API-                        u26
harness         (?:pat|sat)\.               w22  \.[0-9a-zA-Z]{24}\.[A-Za-z0-9]{20}
npm             npm_                        a36
pypi            pypi-                       w50
rubygems        rubygems_                   h48
crates          cio                         a32
nuget           oy2                         l43
clojars         CLOJARS_                    l60
docker          dckr_[po]at_                w24
packagist       packagist_[ou][a-z]{1,2}_   h60
deno            dd[po]_                     a36
slack           xox[abceoprsd]-             w10
slack           xoxe\.xox[bp]-              w40
slack           x(?:app|wfp)-[0-9]-         w30
stripe          [sr]k_(?:live|test|prod)_   a10
stripe          whsec_                      b24
twilio          SK                          h32
sendgrid        SG\.                        w16  [A-Za-z0-9_-]{0,16}\.[A-Za-z0-9_-]{16,}
mailgun         (?:key|pubkey)-             h32
mandrill        md-                         w22
brevo           x(?:keysib|smtpsib)-        h64  -[A-Za-z0-9]{16,}
resend          re_                         a8   _[A-Za-z0-9]{20,}
mailersend      mlsn\.                      h60
klaviyo         pk_                         h34
shopify         shp(?:at|ca|pa|ss|ua|tka)_  h32
square          sq0[a-z]{3}-                w22
square          EAAA                        w56
paypal          access_token\$(?:production|sandbox)\$  l16  \$[0-9a-f]{32}
plaid (?:access|public)-(?:sandbox|development|production)- h8 (?:-[0-9a-f]{4}){3}-[0-9a-f]{12}
razorpay        rzp_(?:live|test)_          a14
flutterwave     FLW(?:PUB|SEC)K(?:_TEST)?-  h12  [0-9a-f]*(?:-X)?
gocardless      (?:live|sandbox)_           w40
paddle          pdl_[a-z]{4}_apikey_        w40
easypost        EZ[AT]K                     a50
lob             (?:live|test)_(?:pub_)?     h31
shippo          shippo_(?:live|test)_       h40
duffel          duffel_(?:live|test)_       w40
adyen           AQE[a-z0-9]hm               b40
linear          lin_(?:api|oauth)_          a32
notion          ntn_                        a40
notion          secret_                     a43
figma           fig[douw]r?_                w36
airtable        pat                         a14  \.[0-9a-f]{60,}
clickup         pk_[0-9]{5,9}_              u32
trello          ATTA                        h60
typeform        tfp_                        w40
contentful      CFPAT-                      w40
readme          rdme_                       l60
hubspot         pat-(?:na|eu|ap)[0-9]-      h8   (?:-[0-9a-f]{4}){3}-[0-9a-f]{12}
intercom        dG9rO                       b40
salesforce      00D                         a12  [A-Za-z0-9]{0,3}![A-Za-z0-9._]{60,}
dropbox         sl\.                        w100
postman         PMAK-                       h24  -[0-9a-f]{30,}
mapbox          [spt]k\.eyJ                 w20  [A-Za-z0-9_-]*\.[A-Za-z0-9_-]{20,}
frameio         fio-u-                      w60
stytch          secret-(?:live|test)-       w30
scalingo        tk-us-                      w48
prefect         pn[ub]_                     a36
dbt             dbt[uc]_                    w36
kong            kpat_                       a40
onesignal       os_v2_(?:app|org)_          l60
alchemy         alcht_                      a30
defined         dnkey-                      w26
openshift       sha256~                     w40
portainer       ptr_                        b40
rancher         token-[a-z0-9]{5}:          l50
adafruit        aio_                        a28
adobe           p8e-                        l32
zoho            1000\.                      h32  \.[0-9a-f]{32}
twitch          oauth:                      l30
facebook        EAA[A-Z]                    a80
instagram       IGQ[A-Z]                    w60
linkedin        WPL_AP[0-9]\.               z20
twitter         AAAAAAAAAAAAAAAAAAAA        b40  [A-Za-z0-9%]*
webex           Y2lzY29zcGFyazovL           b40
age             AGE-SECRET-KEY-1            u58
nostr           nsec1                       l58
bitcoin         [xyz]prv                    a100
minisign        RWRTY0Iy                    b40
infracost       ico-                        a32
checkly         cu_                         h32
sanity          sk                          a100
telnyx          KEY0                        w40
rootly          rootly_                     h60
asana           [01]/[0-9]{12,}:            h32
asana           2/[0-9]{12,}/[0-9]{12,}:    h32
influx          apiv3_                      w60
bcrypt          \$2[abxy]\$[0-9]{2}\$       c20
crypt           \$(?:5|6|y|apr1)\$[A-Za-z0-9./$=,]{4,40}\$  c20
argon2          \$argon2(?:id|i|d)\$v=[0-9]{2}\$m=[0-9]+,t=[0-9]+,p=[0-9]+\$  b16  [A-Za-z0-9+/$]*
prefixed        sk-                         a20
prefixed        (?:live|prod|sk|pat|secret|token|apikey|api_key|access_key)[_-]  a24
"""

# Tokens told by something in their middle or at their end, which is the gate and at most
# MARKED_REACH bytes from either end.
MARKED_REACH = 120
_MARKED = (
    Rule("azure", r"[\w~.-]{3}[0-9]Q~[\w~.-]{31,34}", gate=r"Q~[\w~.-]{31}"),
    Rule("azure", r"[A-Za-z0-9]{40,60}JQQJ99[A-Za-z0-9]{20,40}", gate=r"JQQJ99[A-Za-z0-9]{16}"),
    Rule(
        "azure",
        r"[A-Za-z0-9+/]{32,80}(?:\+ASt|\+AMC|\+ABa|\+AEh|\+ARm|\+ACR|ACDb|AIoT|APIM|AzFu|AzSe|AzCa)"
        r"[A-Za-z0-9+/]{5,8}={0,2}\b",
        gate=r"(?:\+A(?:St|MC|Ba|Eh|Rm|CR)|ACDb|AIoT|APIM|Az(?:Fu|Se|Ca))[A-Za-z0-9+/\\]{5}",
    ),
    Rule("azure", r"[A-Za-z0-9]{60,76}AZDO[A-Za-z0-9]{4}", gate=r"AZDO[A-Za-z0-9]{4}"),
    Rule("terraform", r"[A-Za-z0-9]{14}\.atlasv1\.[\w=-]{40,}", gate=r"\.atlasv1\."),
    Rule("newrelic", r"(?:eu01xx)?[0-9a-fA-F]{30,40}NRAL", gate="NRAL"),
    Rule("telegram", r"(?:bot)?[0-9]{8,10}:AA[\w-]{32,}", gate=r":AA[\w-]{32}"),
    Rule("discord", r"[MNO][\w-]{23,27}\.[\w-]{6}\.[\w-]{27,}", gate=r"\.[\w-]{6}\.[\w-]{27}"),
    Rule("discord", r"mfa\.[\w-]{80,}", gate=r"mfa\.[\w-]{16}"),
    Rule("mailchimp", r"[0-9a-f]{32}-us[0-9]{1,2}", gate=r"-us[0-9]"),
    Rule("mailgun", r"[0-9a-f]{32}-[0-9a-f]{8}-[0-9a-f]{8}", gate=r"-[0-9a-f]{8}-[0-9a-f]{8}"),
    Rule(
        "rapidapi",
        r"[0-9a-z]{10}msh[0-9a-z]{15}p1[0-9a-z]{5}jsn[0-9a-z]{12}",
        gate=r"msh[0-9a-z]{15}p1",
    ),
    Rule("maxmind", r"[A-Za-z0-9]{6}_[A-Za-z0-9]{29}_mmk", gate="_mmk"),
    Rule("google", r"1//0[\w-]{40,}", gate=r"1\\*/\\*/0[\w-]{16}"),
)

# Before a line: its number in a listing (`12\t`, `12→`, `12:`), or how a change marks it. Also as
# JSON writes it.
LISTED = r"[0-9]{1,6}(?:\xe2\x86\x92|\\+u2192|\\+t|[\t:|])"
_GAP = rf"(?:[\s+-]|\\+[nrtf]|{LISTED})"

_USERINFO = r"[^\s/@:\"'<>\x60\\|(){}$]"
_WORD = r"[^\s/@\"'<>\x60\\|{}]"

_BEGIN = r"(?:\b|\\[nrt])"  # Of a word, also behind a newline as JSON in JSON writes it.
_TAB = r"(?:[\t ]|\\+t)+"
_REGISTRIES = "docker|podman|nerdctl|buildah|skopeo|oras|helm registry|crane auth|az acr"
_AT = r":\\*/\\*/[^\s/@\"<>]+@"

# Secrets told by what stands around them: the group is the secret.
PLACED = (
    Rule(
        "jwt",
        r"(eyJ[\w-]{8,}\.eyJ[\w-]{8,}(?:\.[\w-]*)?|eyJ[\w-]{16,}\.[\w-]*\.[\w-]{16,}(?:\.[\w-]+)*)",
        gate=r"eyJ[\w-]+\.",
    ),
    Rule(
        "url-password", rf":\\*/\\*/{_USERINFO}{{0,80}}:({_WORD}{{3,200}})@[\w\[$%{{.-]", gate=_AT
    ),
    Rule("url-token", rf":\\*/\\*/({_USERINFO}{{16,200}}):?(?:x-oauth-basic)?@[\w\[.-]", gate=_AT),
    Rule(
        "slack",
        r"hooks\.slack(?:-gov)?\.com\\*/[a-z]{4,12}\\*/([\w/\\-]{20,})",
        gate=r"hooks\.slack",
    ),
    Rule(
        "discord",
        r"discord(?:app)?\.com\\*/api\\*/(?:v[0-9]+\\*/)?webhooks\\*/([0-9]{10,21}\\*/[\w-]{40,})",
        gate=r"discord(?:app)?\.com",
    ),
    Rule(
        "teams",
        r"webhook\.office\.com\\*/webhookb2\\*/([\w/\\@-]{40,})",
        gate=r"webhook\.office\.com",
    ),
    Rule(
        "zapier",
        r"hooks\.zapier\.com\\*/hooks\\*/catch\\*/([0-9]+\\*/[A-Za-z0-9]+)",
        gate=r"hooks\.zapier",
    ),
    Rule("ifttt", r"maker\.ifttt\.com[\w/\\{}-]{4,80}/key\\*/([\w-]{16,})", gate=r"maker\.ifttt"),
    Rule(
        "feishu",
        r"open\.(?:feishu\.cn|larksuite\.com)\\*/open-apis\\*/bot\\*/v2\\*/hook\\*/([\w-]{20,})",
        gate=r"open\.(?:feishu|larksuite)",
    ),
    Rule("wecom", r"qyapi\.weixin\.qq\.com[\w/\\-]{4,40}\?key=([\w-]{20,})", gate=r"qyapi\.weixin"),
    Rule(
        "signed-url",
        r"(?i)[?&;](?:sig|signature|x-(?:amz|goog)-signature|x-amz-security-token)="
        r"([\w%+/=.~-]{16,})",
        gate=r"(?i:sig|signature|security-token)=[\w%+/\\=.~-]{16}",
    ),
    Rule(
        "aws",
        r"(?:AKIA|ASIA)[A-Z0-9]{16}(?:[^A-Za-z0-9+/]{1,12}|"
        rf"{_GAP}{{1,16}})"
        r"([A-Za-z0-9+/]{40})(?:[^A-Za-z0-9+/=]|$)",
        gate=r"(?:AKIA|ASIA)[A-Z0-9]{16}",
    ),
    Rule(
        "authorization",
        r"(?i)authorization(?:\\*[\"'\]])*\s{0,3}[:=,]+\s{0,3}(?:\\*[\"'\x60f])*"
        r"(?:(?:bearer|basic|token|digest|apikey|api-key|key|ssws|bot|negotiate)\s+)?"
        r"([\w.~+/=:|%-]{8,})",
        gate=(
            r"(?i:authorization)(?:[\s\"'\\\]:=,\x60]|[nrtf])+"
            r"(?:[A-Za-z-]{3,9}(?:\s|\\+[nrtf])+)?[\w.~+/\\=:|%-]{8}"
        ),
    ),
    Rule(
        "bearer",
        rf"(?i){_BEGIN}" r"bearer(?:\s|\\+[nrt]|\\*[\"'\x60]|[:=]){1,4}([\w.~+/=|%-]{16,})",
        gate=r"(?i:bearer)(?:[\s\"'\\\x60:=]|[nrt])+[\w.~+/\\=|%-]{16}",
    ),
    Rule(
        "basic-auth",
        r"\s(?:-u|-U|--user|--proxy-user)[= ]?["
        r" ]?\\*[\"']?[\w.@+-]{0,64}:([^\s\"'\\\x60:/]{6,100})",
        gate=r"(?:-u|-U|--user|--proxy-user)[= ]?[ ]?\\*[\"']?[\w.@+-]*:[^\s\"'\x60:]{6}",
    ),
    Rule(
        "cookie",
        # All of the header, because any of the pairs may be the session.
        rf"(?i){_BEGIN}"
        r"cookie\\*[\"']?\s{0,3}[:=,]\s{0,3}\\*[\"'\x60]?"
        r"([\w.!#$%&*+^~|-]{1,80}=[^\r\n\"'\\\x60<>]{8,})",
        gate=r"(?i:cookie)(?:[\s\"'\\:=,\x60]|[nrt])+[\w.!#$%&*+^~|-]+=",
    ),
    Rule(
        "cookie",
        r"\s(?:-b|--cookie)[= ]{1,3}\\*[\"']?([\w.!#$%&*+^~|-]{1,80}=[^\s\"'\\\x60<>]{8,})",
        gate=r"(?:-b|--cookie)[= ]+\\*[\"']?[\w.!#$%&*+^~|-]+=",
    ),
    Rule(
        "cookie-value",  # `cookies={'sessionid': '…'}`
        r"(?i)cookies?\\*[\"']?\s?[=:(]\s?\{\s?\\*[\"'][\w.-]{1,80}\\*[\"']\s?:\s?\\*[\"']"
        r"([^\s\"'\\]{16,})",
        gate=r"(?i:cookies?)[\s\"'\\=:(]+\{",
    ),
    Rule(
        "cookie-value",  # In a file of cookies, as curl writes it.
        rf"(?:TRUE|FALSE){_TAB}/[^\s\\]*{_TAB}(?:TRUE|FALSE){_TAB}[0-9]{{1,12}}{_TAB}"
        rf"[\w.!#$%&*+^~-]{{1,80}}{_TAB}"
        r"([^\s\"'\\]{8,})",
        gate=rf"(?:TRUE|FALSE){_TAB}[0-9]+{_TAB}",
    ),
    Rule(
        "password",  # Sent to a program that asks for it.
        rf"(?i){_BEGIN}"
        r"(?:echo|printf)(?: -n)?(?: \\*[\"']?%s\\*[\"']?)? \\*[\"']?"
        r"([^\s\"'\\$|%\x60]{6,200})"
        r"\\*[\"']?\s?\|\s?(?:sudo -S|[a-z ]{1,30} login\b|[^\r\n|;]{1,80}--(?:password-stdin"
        r"|with-token))",
        gate=r"\| ?(?:sudo -S|[a-z]+ (?:[a-z]+ )?login)|--password-stdin|--with-token",
    ),
    Rule(
        "password",  # Commands whose `-p` or `-P` is a password.
        rf"{_BEGIN}"
        r"(?:az login|mongo(?:sh|dump|restore|import|export)?|sqlcmd|bcp|zip|unzip)\s"
        r"(?:[^\r\n|;&]{0,200}?\s)?(?:-p|-P)[= ]{1,3}\\*[\"']?([^\s\"'\\]{6,100})",
        gate=r"az login |mongo[a-z]* -|sqlcmd -|bcp |zip -",
    ),
    Rule(
        "password",
        rf"{_BEGIN}"
        r"htpasswd\s(?:-[a-zA-Z0-9]+\s){0,4}[^\s-]\S{0,200}\s[\w.@-]{1,64}\s\\*[\"']?"
        r"([^\s\"'\\]{6,100})",
        gate=r"htpasswd -",
    ),
    Rule(
        "password",
        rf"(?i){_BEGIN}"
        r"net use\s[^\r\n]{0,200}?/user:[^\s]{1,80}\s\\*[\"']?([^\s\"'\\/]{6,100})",
        gate=r"(?i:net use) ",
    ),
    Rule(
        "kubernetes",
        r"--from-literal[= ]\\*[\"']?[\w.-]{1,80}=\\*[\"']?([^\s\"'\\]{6,200})",
        gate=r"--from-literal",
    ),
    Rule(
        "password",  # In .pgpass.
        r"[\w.*-]{1,80}:(?:5432|5433|6432):[\w*-]{1,63}:[\w*-]{1,63}:([^\s\"':\\]{6,200})",
        gate=r":(?:5432|5433|6432):[A-Za-z0-9_*-]+:[A-Za-z0-9_*-]+:",
    ),
    Rule(
        "password",
        rf"{_BEGIN}" r"WIFI:[^\s\"]{0,100}?\bP:([^\s;\"\\]{8,63});",
        gate="WIFI:",
    ),
    Rule(
        "password",  # As Google makes them for programs: letters alone.
        r"(?i)pass(?:word|wd)?\\*[\"']?\s?[=:]\s?\\*[\"']?([a-z]{4}(?: ?[a-z]{4}){3})(?:[^\w ]|$)",
        gate=r"(?i:pass(?:word|wd)?)[\s\"'\\]*[=:][\s\"'\\]*[a-z]{4} ?[a-z]{4} ?[a-z]{4} ?[a-z]{4}",
    ),
    Rule(
        "password",
        rf"(?i)(?:{_REGISTRIES}) login\s(?:[^\r\n|;&]{{0,200}}?\s)?(?:-p|--password)[= ]{{0,3}}"
        r"[\"']?([^\s\"'\\]{4,100})",
        gate=rf"(?i:{_REGISTRIES}) login\s",
    ),
    Rule(
        "assigned",
        r"(?i)_pat\\*[\"'\]]*\s{0,3}[:=]\s{0,3}\\*[\"'\x60]?([a-z0-9_-]{20,200})",
        gate=r"(?i:_pat)[\s\"'\\\]]*[:=][\s\"'\\\x60]*[A-Za-z0-9_-]",
    ),
    Rule(
        "password",  # In a connection string.
        r"(?i)[;\"'\s](?:password|pwd) ?= ?([^;\s\"'\\<>{}]{6,200});",
        gate=r"(?i:password|pwd) ?= ?[^;\s\"'\\<>{}]{6}",
    ),
    Rule(
        "password", rf"(?i){_BEGIN}" r"sshpass\s+-p\s?[\"']?([^\s\"'\\]{4,})", gate=r"(?i:sshpass)"
    ),
    Rule(
        "password",
        rf"(?i){_BEGIN}" r"(?:mysql|mysqldump|mysqladmin|mariadb)[ \w.=-]{0,60} -p([^\s\"'\\]{6,})",
        gate=r"(?i:mysql[a-z]*|mariadb)[ \w.=-]*? -p",
    ),
    Rule(
        "password",
        rf"(?i){_BEGIN}" r"redis-cli[ \w.=-]{0,60} -a\s?[\"']?([^\s\"'\\]{6,})",
        gate=r"(?i:redis-cli)[ \w.=-]*? -a",
    ),
    Rule(
        "password",
        rf"(?i){_BEGIN}identified{_GAP}+(?:with\s+\w+{_GAP}+)?by{_GAP}+(?:password\s+)?"
        r"\\*[\"']([^\s\"'\\]{4,})",
        gate=rf"(?i:identified){_GAP}+(?i:by|with)",
    ),
    Rule(
        "password",
        rf"(?i){_BEGIN}login\s+[\w.@+-]{{1,64}}{_GAP}+password" r"\s+([^\s\"'\\]{4,})",
        gate=rf"(?i:login)(?:\s|\\+[nrtf])+[\w.@+-]+{_GAP}+(?i:password)",
    ),
)

# Counting on to the end of a long token makes the gate slower (more states) than the lines it
# saves.
_GATED = 24


_ROWS = [row.split() for row in _SHAPES.split("\n")[1:-1]]


def _shapes() -> tuple[Rule, ...]:
    rules = []
    for kind, lead, body, *rest in _ROWS:
        alphabet, least = _ALPHABETS[body[0]], int(body[1:])
        # With an end that need not be there, what comes before it may be longer: else the rest of a
        # long token would stay.
        is_exact = rest and not rest[0].endswith(")?")
        pattern = f"{lead}[{alphabet}]{{{least}{'' if is_exact else ','}}}{''.join(rest)}"
        gate_lead, gate_alphabet = lead.replace("/", r"\\*/"), alphabet.replace("/", r"/\\")
        gate_rest = rest[0] if rest and least <= _GATED else ""
        rules.append(
            Rule(
                kind,
                pattern,
                gate=f"{gate_lead}[{gate_alphabet}]{{{min(least, _GATED)}}}{gate_rest}",
            )
        )
    return tuple(rules)


# A token starts where no word is under way. An escape may end in a letter or digit: `\nAKIA…`,
# `key%3DAKIA…`.
_START = r"(?:^|[^A-Za-z0-9]|\\[nrtbf]|\\u[0-9a-fA-F]{4}|%[0-9A-Fa-f]{2})"

LED = _shapes()
LEADS = tuple(_START + lead for _, lead, *_ in _ROWS)
"""How each of them opens."""
# In order, so that RE2 sees which begin alike: its automaton then follows one of them instead of
# many.
LED_GATE = f"{_START}(?:{'|'.join(sorted(rule.gate for rule in LED))})"
MARKED = tuple(Rule(rule.name, f"{_START}({rule.pattern})", gate=rule.gate) for rule in _MARKED)
ESCAPED_ASCII = r"\\u00[2-7]"  # A letter may hide in it, so its line is decoded whatever it says.
PLACED_GATE = "|".join(
    sorted(
        {
            blocks.KEY_GATE,
            blocks.KUBERNETES_GATE,
            sentences.GATE,
            *(rule.gate for rule in PLACED + MARKED),
        }
    )
)


def _wrapped() -> str:
    """Return a pattern for a token that continues in the next line; its group is the line end.

    Short leads are left out: they would begin too many words.
    """
    opened = [
        f"{lead}[{_ALPHABETS[body[0]]}]*"
        for _, lead, body, *_ in _ROWS
        if _shortest_length(lead) > 3
    ]
    return rf"{_START}(?:{'|'.join(sorted(opened))})(\r?\n|\\+r?\\*n)"


def _shortest_length(lead: str) -> int:
    """Return about how many characters a lead has: one for a class, the first of several words."""
    return len(re.sub(r"\\|\(\?:|\|[^)]*\)|\)|\{.*?\}", "", re.sub(r"\[.*?\]", "x", lead)))


WRAPPED = _wrapped()
WRAPPED_GATE = WRAPPED.replace("/", r"/\\") + r"[ \t+>|0-9:\\-]*[A-Za-z0-9_+/-]{4}"


def led_pattern(rules: Iterable[Rule]) -> str:
    """Finds a token of any of these, which is the group of its rule."""
    return f"{_START}(?:{'|'.join(f'({rule.pattern})' for rule in rules)})"
