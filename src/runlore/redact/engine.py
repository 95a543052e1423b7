"""Redact secrets before anything is stored or indexed: each becomes `[redacted:<kind>:<6 hex>]`.

The six digits are a keyed hash: the same secret has the same marker everywhere, and the marker does
not reveal it. `suspects` quickly finds the undecoded JSON records that have to be decoded and
searched. The patterns are in `rules` (tokens recognized by their form) and `assigned` (values
recognized by their name). Nothing here knows an agent, a file format other than JSON, or whether a
secret still works.
"""

import hashlib
import hmac
import json
import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property, lru_cache
from itertools import accumulate
from typing import Annotated, Any

import msgspec
import re2

from runlore.errors import ConfigError
from runlore.redact import assigned, blocks, rules, sentences, views
from runlore.redact.key import load_key
from runlore.redact.randomness import wordlike
from runlore.redact.rules import RULES_VERSION, Rule
from runlore.redact.tries import MAX_LEAD_BYTES, Tries

__all__ = ["RULES_VERSION", "Redactor", "Rule", "load_key", "rules_from_config", "without_noted"]

# Nothing an agent writes nests this deep. Deeper values are treated as their JSON text.
_DEPTH = 200
_NAMES = 10_000
_MIN_CHARS = 8  # No built-in rule matches less.
# Maximum bytes of a named value: the name, the separator, and 4096 bytes of the value.
_MAX_NAMED_BYTES = 4608
# Bytes that are searched at a time. Without a limit, each of many names in a row would be followed
# to the end of the text.
_WINDOW = 4 * _MAX_NAMED_BYTES
# Bytes that show whether a secret is recognized by its place. If a text is longer, it is searched
# for them once more: otherwise each of many openings in a row would be followed to its end.
_MAX_PLACED_BYTES = 1024
_MARKER = re.compile(rb"(\[redacted:[^\s:\]]{1,64}:[0-9a-f]{6}\])")
# A line of a key, or its short last one. It is too long to occur by chance.
_LONG_PART = re.compile(r"[A-Za-z0-9/][^\s\"'\\]{11,}")
# Bytes of a match that decide whether it is a secret. The decisions are cached.
_MAX_JUDGED_BYTES = 1024
# Inside an image or a signature anything can look like a token.
_BLOB = re.compile(rb"[\w+/-]{48}")

# Rounds of redaction. Each finds what the one before has uncovered; a second one is rare.
_MAX_ROUNDS = 8

_Span = tuple[int, int, str]


class Redactor:
    """Redacts with the built-in rules and the user's own.

    It counts, so it is not for several threads at once.
    """

    def __init__(self, key: bytes, rules: Sequence[Rule] = ()) -> None:
        self._key = key
        self._own = tuple(rules)
        own = msgspec.json.encode(self._own)
        self.version = f"{RULES_VERSION}" + (
            f"+{hashlib.sha256(own).hexdigest()[:8]}" if rules else ""
        )
        self.hits: Counter[str] = Counter()
        self.noted: dict[str, str] | None = None
        """A dict here collects the secrets, each with its marker: see `without_noted`."""
        self._clean_names: set[Any] = set()
        self._own_gates = [_own_gate(rule) for rule in self._own]

    def suspects(self, records: Sequence[bytes]) -> list[int]:
        """Return the numbers of the undecoded JSON records that may hold something to redact."""
        if not all(self._own_gates):  # A rule of the user's own may match anything.
            return [n for n, record in enumerate(records) if record]
        return [n for n, record in enumerate(records) if self._opens(record)]

    def text(self, text: str) -> str:
        """Return the text without its secrets; the same object when there are none."""
        if len(text) < _MIN_CHARS and not self._own:
            return text
        data = text.encode("utf-8", "surrogatepass")
        clean = self._bytes(data)
        return text if clean is data else clean.decode("utf-8", "surrogatepass")

    def value(self, value: Any) -> Any:
        """Return a decoded JSON value without its secrets, in keys too; the same object when
        there are none."""
        return self._without_spread_keys(self._value(value, _DEPTH))

    def _without_spread_keys(self, value: Any) -> Any:
        """Return a value without private keys that are spread over its strings, line by line."""
        texts = list(_leaves(value))
        if not any(map(_KEY_MARK.search, texts)):
            return value
        leaves = [text.encode("utf-8", "surrogatepass") for text in texts]
        clean = list(leaves)
        starts = [0, *accumulate(len(leaf) + 1 for leaf in leaves)]
        joined = b"\n".join(leaves)
        for start, end in reversed(list(blocks.key_spans(joined))):
            first, last = (bisect_right(starts, at) - 1 for at in (start, end - 1))
            if first == last:
                continue
            marker = self._marker("private-key", joined[start:end])
            for number in range(first, last + 1):
                offset, leaf = starts[number], clean[number]
                before = leaf[: max(0, start - offset)]
                clean[number] = before + marker + leaf[min(len(leaf), end - offset) :]
        if clean == leaves:
            return value
        return _with_leaves(value, (leaf.decode("utf-8", "surrogatepass") for leaf in clean))

    def _value(self, value: Any, depth: int) -> Any:
        if isinstance(value, str):
            return self.text(value)
        if not isinstance(value, (dict, list)):
            return value
        if not depth:
            return self._too_deep(value)
        if isinstance(value, list):
            return self._list(value, depth - 1)
        pairs = [
            (self._key_text(name), self._named(name, item, depth - 1))
            for name, item in value.items()
        ]
        unchanged = all(
            new is name and item is value[name]
            for (new, item), name in zip(pairs, value, strict=True)
        )
        return value if unchanged else dict(pairs)

    def _key_text(self, name: Any) -> Any:
        """Redact a name. Records repeat the same few names, so clean ones are remembered."""
        if name in self._clean_names:
            return name
        clean = self._value(name, 1)
        if clean is name and len(self._clean_names) < _NAMES:
            self._clean_names.add(name)
        return clean

    def _list(self, value: list[Any], depth: int) -> list[Any]:
        flags = [
            "",
            *(item if isinstance(item, str) and item.startswith("-") else "" for item in value),
        ]
        items = [self._named(flag, item, depth) for flag, item in zip(flags, value, strict=False)]
        return value if all(map(_same, items, value)) else items

    def _named(self, name: str, item: Any, depth: int) -> Any:
        """Redact an item after its name: the key of a dict, or a flag in a list.

        The name may be all that shows that the item is a secret.
        """
        clean = self._value(item, depth)
        if clean is not item or not isinstance(item, str) or not _may_name_secret(name):
            return clean
        opening = f'"{name}":"'.encode("utf-8", "surrogatepass")
        data = opening + item.encode("utf-8", "surrogatepass") + b'"'
        whole = (len(opening), len(data) - 1, "assigned")
        if _MARKER.search(data) or whole not in self._spans(data):
            return item
        return self._marker("assigned", data[whole[0] : whole[1]]).decode()

    def _too_deep(self, value: Any) -> Any:
        try:
            text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
        except RecursionError:
            return "[too deep]"
        clean = self.text(text)
        return value if clean is text else clean

    def _bytes(self, data: bytes) -> bytes:
        """Redact until nothing more is found, so that another pass changes nothing.

        Markers are never redacted again.
        """
        known: dict[bytes, list[_Span]] = {}  # Texts repeat themselves, and so do their parts.
        for _ in range(_MAX_ROUNDS):
            parts = _MARKER.split(data) if b"[redacted:" in data else [data]
            clean = [
                part if i % 2 else self._clean_part(part, known) for i, part in enumerate(parts)
            ]
            if all(map(_same, clean, parts)):
                break
            data = b"".join(clean)
        return data

    def _clean_part(self, data: bytes, known: dict[bytes, list[_Span]]) -> bytes:
        spans = known.get(data)
        if spans is None:
            spans = _merged([_whole(data, *span) for span in self._spans(data)])
            known[data] = spans
        if not spans:
            return data
        parts: list[bytes] = []
        at = 0
        for start, end, kind in spans:
            parts += data[at:start], self._marker(kind, data[start:end])
            at = end
        return b"".join([*parts, data[at:]])

    def _marker(self, kind: str, secret: bytes) -> bytes:
        self.hits[kind] += 1
        marker = f"[redacted:{kind}:{hmac.digest(self._key, secret, 'sha256').hex()[:6]}]"
        if self.noted is not None:
            text = secret.decode("utf-8", "replace")
            self.noted |= dict.fromkeys([text, *_LONG_PART.findall(text)], marker)
        return marker.encode()

    def _spans(self, data: bytes) -> Iterator[_Span]:
        """Find the secrets. The spans may overlap."""
        if self._opens(data):
            around, inside = views.split_codes(data)
            if around is None:
                yield from self._find_in_readings(data)
            for view in (around, inside):
                if view is not None and self._opens(view.data):
                    for start, end, kind in self._find_in_readings(view.data):
                        yield *view.locate(start, end), kind
        yield from self._find_owned(data)

    def _find_in_readings(self, data: bytes) -> Iterator[_Span]:
        """Find the secrets in a text as it is, and decoded, and with its lines joined."""
        yield from self._spans_in(data)
        for view in views.decoded(data):
            for start, end, kind in self._spans_in(view.data):
                yield *view.locate(start, end), kind
        yield from self._find_wrapped(data)

    def _opens(self, data: bytes) -> bool:
        """Return True if there may be a secret, in decoded text or undecoded JSON."""
        return self._gate.search(data) is not None or sentences.names_password(data)

    def _find_wrapped(self, data: bytes) -> Iterator[_Span]:
        """Find secrets that continue in the next line."""
        opened = (match.span(1) for match in _compile(rules.WRAPPED).finditer(data))
        view = views.joined_lines(data, opened)
        for start, end, kind in self._spans_in(view.data) if view else ():
            parts = view.parts_of(start, end) if view else []
            if view and (len(parts) == 1 or not wordlike(parts[-1].decode("latin-1"))):
                yield *view.locate(start, end), kind

    def _spans_in(self, data: bytes) -> Iterator[_Span]:
        """Find the secrets in one way to read a text."""
        opened = self._gate.search(data)
        at = opened.start() if opened else len(data)
        is_placed = passed_over = False
        tries = Tries(data)
        while at < len(data):
            if known := tries.find_known(at):
                step, spans = known
                yield from spans
                at, passed_over = at + step, True
                continue
            is_placed = is_placed or (
                self._placed_gate.match(data, at, at + _MAX_PLACED_BYTES) is not None
            )
            passed_over = passed_over or at + _MAX_PLACED_BYTES < len(data)
            spans = self._spans_at(data, at)
            yield from spans
            after = max((span[1] for span in spans), default=0) or tries.next_after(at)
            passed_over = passed_over or after > at + 1 or after + _WINDOW < len(data)
            match = self._next_match(data, after)
            following = match.start() if match else len(data)
            tries.learn(at, following - at, spans)
            at = following
        # The place of a secret may have been passed over inside another secret, or where a match is
        # longer than the window.
        if is_placed or (opened and passed_over and self._placed_gate.search(data, opened.start())):
            yield from self._find_placed(data)
        yield from self._find_spoken(data)

    def _spans_at(self, data: bytes, at: int) -> list[_Span]:
        """Return the secret that begins here, and the tokens that directly follow it."""
        spans: list[_Span] = []
        span = self._span_at(data, at)
        while span:
            spans.append(span)
            if span[2] == "assigned" and (token := self._token_at(data, span[0] - 1)):
                spans.append(token)
            span = self._token_after(data, span[1])
        return spans

    def _find_spoken(self, data: bytes) -> Iterator[_Span]:
        """Find passwords that a sentence names."""
        known: dict[bytes, list[tuple[int, int]]] = {}
        for name in _compile(sentences.NAMES).finditer(data):
            at = name.start()
            # With the byte before it, on which the beginning of a word depends.
            sentence = data[max(0, at - 1) : at + sentences.MAX_BYTES]
            spans = known.get(sentence)
            if spans is None:
                spans = known[sentence] = list(_spoken_at(data, at))
            for start, end in spans:
                yield at + start, at + end, "assigned"
        for match in _compile(sentences.LOGIN).finditer(data):
            if assigned.is_spoken(match[1].decode("ascii"), is_linked=False):
                yield *match.span(1), "assigned"

    def _span_at(self, data: bytes, at: int) -> _Span | None:
        """Return the named value or the token that begins here."""
        # A name starts with a letter, the match of a token with what comes before it. Only at the
        # very start it can be either.
        span = _assigned_at(data, at) if data[at : at + 1].isalpha() else self._token_at(data, at)
        return span or (None if at else self._token_at(data, at))

    def _find_owned(self, data: bytes) -> Iterator[_Span]:
        """Find what matches the user's own rules."""
        for rule, pattern in self._owned:
            for match in pattern.finditer(data):
                start, end = match.span(match.lastindex or 0)
                if start < end:
                    yield start, end, rule.name

    def _next_match(self, data: bytes, at: int) -> Any:
        """Return the first match of the gate from `at` on, searching one window at a time."""
        while at < len(data):
            if match := self._gate.search(data, at, at + _WINDOW):
                return match
            if at + _WINDOW >= len(data):
                break
            at += _WINDOW - _MAX_NAMED_BYTES
        return None

    def _token_at(self, data: bytes, at: int) -> _Span | None:
        numbers = self._leads.Match(data[at : at + MAX_LEAD_BYTES])
        if not numbers:
            return None
        candidates, pattern = _candidates(tuple(sorted(numbers)))
        match = pattern.match(data, at, at + MAX_LEAD_BYTES) or pattern.match(data, at)
        if not match:
            return None
        start, end = match.span(match.lastindex)
        rule = candidates[match.lastindex - 1]
        is_cut = end == at + MAX_LEAD_BYTES
        judged = (
            _end_of(rule, data, start, start + _MAX_JUDGED_BYTES)
            if is_cut
            else min(end, start + _MAX_JUDGED_BYTES)
        )
        if _in_blob(data, start) or not assigned.is_token(data[start:judged].decode("ascii")):
            return None
        return start, _end_of(rule, data, start, len(data)) if is_cut else end, rule.name

    def _token_after(self, data: bytes, at: int) -> _Span | None:
        """Return the token that directly follows a secret, if there is one.

        Otherwise it would be found only after the secret is redacted, in another pass over the
        whole text.
        """
        if not (data[at : at + 1].isalnum() or data[at : at + 1] == b"$"):
            return None
        span = self._token_at(data[at : at + _WINDOW], 0)
        if span and span[1] == _WINDOW:
            span = self._token_at(data[at:], 0)
        return (at + span[0], at + span[1], span[2]) if span else None

    def _find_placed(self, data: bytes) -> Iterator[_Span]:
        for start, end in blocks.key_spans(data):
            yield start, end, "private-key"
        for start, end in blocks.kubernetes_spans(data):
            yield start, end, "kubernetes"
        for rule, match in self._placed_matches(data):
            start, end = match.span(match.lastindex)
            if assigned.is_placed(
                data[start : min(end, start + _MAX_JUDGED_BYTES)].decode("utf-8", "replace"),
                rule.name,
            ):
                yield start, end, rule.name

    def _placed_matches(self, data: bytes) -> Iterator[tuple[Rule, Any]]:
        for rule in rules.PLACED:
            if _compile(rule.gate).search(data):
                yield from ((rule, match) for match in _compile(rule.pattern).finditer(data))
        for rule in rules.MARKED:
            # Only near the marks: in a long image, every byte could be the start of some of these.
            for start, end in _windows(
                (mark.span() for mark in _compile(rule.gate).finditer(data)), rules.MARKED_REACH
            ):
                matches = _compile(rule.pattern).finditer(data, start, end)
                yield from (
                    (rule, match) for match in matches if not _in_blob(data, match.start(1))
                )

    # Patterns are compiled when they are first needed: a sync with nothing new needs none.

    @cached_property
    def _gate(self) -> Any:
        """Matches whatever may hold a secret, in one automaton for all rules."""
        tokens = [rules.LED_GATE, rules.WRAPPED_GATE]
        built_in = [rules.ESCAPED_ASCII, rules.PLACED_GATE, *tokens, assigned.GATE, views.GATE]
        return _compile("|".join([*built_in, *filter(None, self._own_gates)]))

    @cached_property
    def _leads(self) -> Any:
        """The set of patterns that finds which tokens may begin at the start of a text.

        The full patterns are compiled only for the tokens that occur, which are few.
        """
        leads = re2.Set.MatchSet(_options())
        for lead in rules.LEADS:
            leads.Add(lead.encode())
        leads.Compile()
        return leads

    @cached_property
    def _placed_gate(self) -> Any:
        return _compile(rules.PLACED_GATE)

    @cached_property
    def _owned(self) -> list[tuple[Rule, Any]]:
        return [(rule, _compile(rule.pattern, utf8=True)) for rule in self._own]


def without_noted(text: str, noted: Mapping[str, str]) -> str:
    """Return the text without secrets that were noted elsewhere, nor the lines of longer ones.

    This is for parts of a record: where lines are taken apart, as in a diff, the context that
    showed a secret may be gone.
    """
    for secret in sorted(noted, key=len, reverse=True):
        text = text.replace(secret, noted[secret])
    return text


def rules_from_config(items: list[dict[str, Any]]) -> tuple[Rule, ...]:
    """Return the `[[redact.rules]]` of config.toml. Raises ConfigError for the first wrong one."""
    return tuple(_rule_from_config(item) for item in items)


def _rule_from_config(item: dict[str, Any]) -> Rule:
    try:
        rule = msgspec.convert(item, _ConfiguredRule)
    except msgspec.ValidationError as error:
        raise ConfigError(f"redact.rules: {error}") from None
    try:
        _compile(rule.pattern, utf8=True)
    except re2.error as error:
        reason = (
            error.args[0].decode()
            if error.args and isinstance(error.args[0], bytes)
            else str(error)
        )
        raise ConfigError(
            f"redact.rules: the pattern of {rule.name!r} cannot be used: {reason}"
        ) from None
    return Rule(rule.name, rule.pattern, tuple(rule.keywords))


class _ConfiguredRule(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    name: Annotated[str, msgspec.Meta(pattern="^[A-Za-z0-9_-]{1,40}$")]
    pattern: Annotated[str, msgspec.Meta(min_length=1)]
    keywords: list[Annotated[str, msgspec.Meta(min_length=1)]] = []


def _own_gate(rule: Rule) -> str:
    """Return a pattern that matches near every match of a user's rule.

    It is empty, and matches everywhere, if nothing narrower is certain.
    """
    words = [
        max(_PLAIN.findall(word), key=len, default="")
        for word in rule.keywords or [_opening(rule.pattern)]
    ]
    return f"(?i:{'|'.join(map(re.escape, words))})" if all(words) else ""


def _opening(pattern: str) -> str:
    """Return the plain text that every match of a pattern starts with, if that is obvious."""
    match = re.match(r"(?:\\b)?([A-Za-z0-9_-]{3,})([?*{]?)", pattern)
    if not match or "|" in pattern:
        return ""
    return match[1][:-1] if match[2] else match[1]


_KEY_MARK = re.compile("PRIVATE KEY|Static key V1|Private-Lines: [0-9]")
_PLAIN = re.compile(r"[A-Za-z0-9_.:=@-]+")  # Reads the same in JSON, however it was escaped.
# A first look at a name; `assigned` decides.
_NAMED = re.compile(r"(?i)pass|pwd|secret|token|cred|auth|key")


@lru_cache(_NAMES)
def _may_name_secret(name: Any) -> bool:
    # An adapter's carry may have numbers for names.
    return isinstance(name, str) and _NAMED.search(name) is not None


@lru_cache(1024)
def _candidates(numbers: tuple[int, ...]) -> tuple[list[Rule], Any]:
    """Return the rules of these tokens, and a pattern for all of them."""
    candidates = [rules.LED[n] for n in numbers]
    return candidates, _compile(rules.led_pattern(candidates))


@lru_cache(1024)
def _compile(pattern: str, *, utf8: bool = False) -> Any:
    return re2.compile(pattern.encode(), _options(utf8=utf8))


def _options(*, utf8: bool = False) -> Any:
    options = re2.Options()
    options.log_errors = False
    # RE2 uses a third of this for its states. If they do not fit, it discards them and slows down.
    options.max_mem = 128 << 20
    if not utf8:
        options.encoding = re2.Options.Encoding.LATIN1
    return options


def _end_of(rule: Rule, data: bytes, start: int, limit: int) -> int:
    end: int = _compile(rule.pattern).match(data, start, limit).end()
    return end


def _leaves(value: Any) -> Iterator[str]:
    """Yield the strings of a JSON value, in order."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, (dict, list)):
        for item in value.values() if isinstance(value, dict) else value:
            yield from _leaves(item)


def _with_leaves(value: Any, leaves: Iterator[str]) -> Any:
    """Return a JSON value with other strings in place of its own."""
    if isinstance(value, str):
        return next(leaves)
    if isinstance(value, dict):
        return {name: _with_leaves(item, leaves) for name, item in value.items()}
    return [_with_leaves(item, leaves) for item in value] if isinstance(value, list) else value


def _in_blob(data: bytes, at: int) -> bool:
    return bool(_BLOB.fullmatch(data, max(0, at - 48), at))


def _windows(spans: Iterator[tuple[int, int]], reach: int) -> Iterator[tuple[int, int]]:
    """Yield the spans with `reach` bytes before and after; overlapping ones are joined."""
    start = end = -1
    for first, last in spans:
        if first - reach > end:
            if end >= 0:
                yield start, end
            start = max(0, first - reach)
        end = last + reach
    if end >= 0:
        yield start, end


def _spoken_at(data: bytes, at: int) -> Iterator[tuple[int, int]]:
    """Yield where a password begins and ends behind the word for it, counted from that word."""
    end = at + sentences.MAX_BYTES
    for pattern, is_linked in ((sentences.PATTERN, True), (sentences.UNLINKED, False)):
        match = _compile(pattern).match(data, at, end)
        if match and assigned.is_spoken(match[1].decode("ascii"), is_linked=is_linked):
            yield match.start(1) - at, match.end(1) - at


def _assigned_at(data: bytes, at: int) -> _Span | None:
    span = assigned.secret_at(data, at)
    return (*span, "assigned") if span else None


def _whole(data: bytes, start: int, end: int, kind: str) -> _Span:
    """Extend a span to whole characters. Patterns count bytes, and may stop inside one."""
    while start > 0 and data[start] & 0xC0 == 0x80:
        start -= 1
    while end < len(data) and data[end] & 0xC0 == 0x80:
        end += 1
    return start, end, kind


def _merged(spans: list[_Span]) -> list[_Span]:
    """Sort spans, and join those that overlap.

    The rule that starts first names them, if it is more precise than `assigned`.
    """
    merged: list[_Span] = []
    for start, end, kind in sorted(spans, key=lambda span: (span[0], span[2] == "assigned")):
        if merged and start < merged[-1][1]:
            first = merged.pop()
            start, end, kind = first[0], max(end, first[1]), first[2]
        merged.append((start, end, kind))
    return merged


def _same(one: Any, other: Any) -> bool:
    return one is other
