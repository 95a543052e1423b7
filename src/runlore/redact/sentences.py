"""Passwords that are named in a sentence: "the password for staging is …", "das Passwort lautet
…", "пароль: …", "密码是 …".

The words for a password, and how they are linked with it, in languages that people write to agents.
`assigned.is_spoken` judges the value.
"""

import re2

_BYTES = re2.Options()
_BYTES.encoding = re2.Options.Encoding.LATIN1

_ASCII = (
    "password,passwort,passwd,passcode,passphrase,kennwort,pwd,pw,wachtwoord,senha,heslo,parola,"
    "salasana,passord,adgangskode,mot de passe,mdp,palavra-passe,kata sandi,clave"
).split(",")
# Only so: `pass` alone is a verb, and the verdict on a test.
_SHORT = r"(?:my|the|your|our|db|root|admin|sudo|ssh|user|new|old|login|database) pass\b"
_OTHER = (
    "contraseña,пароль,пароля,паролем,лозинка,hasło,hasła,lösenord,lösenordet,şifre,şifresi,"
    "parolası,jelszó,κωδικός,पासवर्ड,密码,密碼,口令,パスワード,비밀번호,암호,סיסמה,كلمة المرور,"
    "mật khẩu,รหัสผ่าน"
).split(",")
_LINKS = (
    "is was are ist lautet war est es era é è foi to är er on bo je equals became c'est será é:"
).split()
_MARKS = ": = ： — – -> → 是 为 為 は が 는 은 이 가 =>".split()


def _as_bytes(text: str) -> str:
    """Return a pattern for the UTF-8 bytes of a text."""
    return "".join(
        chr(byte) if chr(byte).isalnum() and byte < 128 else rf"\x{byte:02x}"
        for byte in text.encode()
    )


def _as_escapes(text: str) -> str:
    """Return a pattern for the beginning of a text as JSON writes it without UTF-8."""
    letters = [_as_bytes(each) if each.isascii() else rf"\\+u{ord(each):04x}" for each in text]
    last = [n for n, each in enumerate(text) if not each.isascii()][:3][-1]
    return "".join(letters[: last + 1])


def _capitals(words: list[str]) -> list[str]:
    spellings = {*words, *(word.capitalize() for word in words), *map(str.upper, words)}
    return sorted(word for word in spellings if not word.isascii())


def _either(patterns: list[str]) -> str:
    return f"(?:{'|'.join(patterns)})"


_ASCII_NAMES = rf"(?i:{'|'.join(map(_as_bytes, _ASCII))}|{_SHORT})"
NAMES = (
    rf"(?:(?:\b|\\[nrt]){_ASCII_NAMES}|{_either([_as_bytes(word) for word in _capitals(_OTHER)])})"
)
_LINK = (
    rf"(?:[ ](?:{'|'.join(map(_as_bytes, _LINKS))})[ ]?:?[ ]"
    rf"|[ ]?(?:{'|'.join(map(_as_bytes, _MARKS))})[ ]?)"
)
_ADVERB = r"(?:(?:now|still|currently|again|jetzt|nun|maintenant|ahora|agora|ora|nu)[ ])?"
# Up to a few words between the name and the link: "for the staging database".
_BETWEEN = r"[^\r\n:=.!?\"\\\x00-\x1f]{0,60}?"
_OPENING = r"(?:[\"'\x60*]|\\+[\"'\x60]|\xe2\x80[\x98\x9c]|\xc2\xab ?|\xe3\x80\x8c){0,3}"
_VALUE = r"[A-Za-z0-9!#$%&*+./=?@^_~|-]{7,100}[A-Za-z0-9!#$%&*+=?@^_~-]"

MAX_BYTES = 300
"""The length of a sentence, from this word to the end of the password."""
PATTERN = f"{NAMES}{_BETWEEN}{_LINK}{_ADVERB}{_OPENING}({_VALUE})"
UNLINKED = f"{NAMES}[ ]{_OPENING}({_VALUE})"
"""A password right behind the word for it: "with the password …". It must be random."""

_LOGIN = (
    "credentials?|creds|log ?in|logged in|sign in|zugangsdaten|anmeldedaten|identifiants"
    "|credenciales|credenciais|credenziali|inloggegevens"
)
_USER = r"[\w.@+-]{2,60}"
LOGIN = (
    rf"(?i:{_LOGIN})[^\r\n\"\\]{{0,60}}?[ :=(\x60]{_USER}[\x60]? / {_OPENING}"
    r"([A-Za-z0-9!#$%&*+=?@^_~-]{8,64})"
)
"""A user and a password: "log in with admin / …". It must be random."""

# English names are in the gate of `assigned`, with the words that may follow them.
_RARE = "|".join(_as_bytes(name) for name in _ASCII if not name.startswith(("pass", "pw")))
GATE = rf"(?i:{_RARE}|[^a-z0-9_]pw (?:is|was) |pass(?:word|wort) (?:\xc3|\\+u00))"
"""Matches near a sentence in a language that is written with ASCII."""

_WITH_DIGIT = r"[A-Za-z0-9!#$%&*+/=?@^_~-]*[0-9]"
_LONG = re2.compile(
    rf"(?i:{_SHORT[:-2]} "
    rf"|pass(?:word|wort|code|phrase)[\s\\](?:[^.?!:=\"]*[\s\x60*'\\])?{_WITH_DIGIT}"
    rf"|(?:{_LOGIN})[^\"\r\n]* / [\"'\x60*\\]*{_WITH_DIGIT})".encode(),
    _BYTES,
)
_UTF8 = re2.compile("|".join(_as_bytes(word) for word in _capitals(_OTHER)).encode(), _BYTES)
_ESCAPES = re2.compile(
    f"(?i:{'|'.join(sorted({_as_escapes(word) for word in _capitals(_OTHER)}))})".encode()
)


def names_password(data: bytes) -> bool:
    """Return True if a text may name a password in ways that are not in the gates.

    These are words that are not ASCII, and any words between a name and a password. With them the
    automaton of all gates would be too large for its memory.
    """
    if _LONG.search(data) is not None:
        return True
    if not data.isascii():
        return _UTF8.search(data) is not None
    return rb"\u" in data and _ESCAPES.search(data) is not None
