"""Redaction in a sync: of records and events before they are stored, and of what is stored when
the rules are newer."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from operator import attrgetter
from pathlib import Path
from typing import Any

import msgspec

from ..adapters import Facts, Record
from ..config import Config, make_home
from ..model import Call, SessionEvent
from ..redact.engine import Redactor, rules_from_config, without_noted
from ..redact.key import load_key
from ..store import LedgerCall, Store
from ..store.cleaning import clean_carry, clean_facts, redact_record
from ..store.natives import hidden_id

CALL_TEXTS = ("provider", "model", "tier", "region", "request_id")
"""The texts of a call, except its key."""

EVENT_NAMES = ("tool", "model", "cwd", "git_branch", "native", "call_id")
"""The fields of an event that may come from another record than its own."""

Secrets = dict[int, dict[str, str]]
"""By the number of a record: its secrets, each with its mark."""


class RedactSetting(msgspec.Struct, kw_only=True):
    """What a process needs to redact."""

    key_path: str
    rules: list[dict[str, Any]] = []


def redact_setting(config: Config) -> RedactSetting | None:
    """Return the setting of the redaction; None if it is disabled.

    Creates the key if there is none yet. Raises ConfigError for a wrong rule of the user's own.
    """
    if not config.redact.enabled:
        return None
    key = config.home / "redact.key"
    make_home(config.home)
    load_key(key)
    rules_from_config(config.redact.rules)
    return RedactSetting(key_path=str(key), rules=config.redact.rules)


def redact_stored(store: Store, config: Config) -> dict[str, int]:
    """Apply the rules to stored sources of older rules; return the number of hits by kind."""
    setting = redact_setting(config)
    assert setting is not None
    redactor = _make_redactor(setting)
    stale = store.sources.unredacted(redactor.version)
    while stale:
        for number, _ in stale:
            store.retention.redact_again(number, redactor.version, redactor)
        stale = store.sources.unredacted(redactor.version)
    if redactor.hits:
        store.retention.purge()
    return redactor.hits


class Cleaner:
    """Removes secrets from what an adapter gives. Without a setting everything stays as it is."""

    def __init__(self, setting: RedactSetting | None) -> None:
        self._redactor = None if setting is None else _make_redactor(setting)
        self.version = self._redactor.version if self._redactor else ""

    @property
    def hits(self) -> dict[str, int]:
        """The number of secrets so far, by kind."""
        return dict(self._redactor.hits) if self._redactor else {}

    def clean_records(self, records: list[Record], first: int) -> tuple[list[Record], Secrets]:
        """Return the records without secrets, and the secrets. `first` is the first number.

        One scan over all bytes finds the few records that are worth a closer look.
        """
        secrets: Secrets = {}
        redactor = self._redactor
        if redactor is None:
            return records, secrets
        suspects = frozenset(redactor.suspects([record.data for record in records]))
        cleaned = list(records)
        number = first
        for n, record in enumerate(records):
            # A sidecar is plain text, and belongs to the record that follows it.
            is_sidecar = record.sidecar is not None
            if is_sidecar or n in suspects or number in secrets:
                redactor.noted = secrets.get(number, {})
                data = redact_record(record.data, redactor)
                if data is not record.data:
                    cleaned[n] = msgspec.structs.replace(record, data=data)
                    secrets[number] = redactor.noted
            number += not is_sidecar
        redactor.noted = None
        return cleaned, secrets

    def clean_event(
        self, flavor: str, event: SessionEvent, body: str, secrets: dict[str, str]
    ) -> tuple[SessionEvent, str]:
        """Return an event and its body without the secrets of its record.

        The context that gave a secret away may be gone where the record is taken apart, so the
        known secrets are removed first.
        """
        redactor = self._redactor
        assert redactor is not None

        def clean(text: str) -> str:
            return redactor.text(without_noted(text, secrets))

        names = {text: clean(text) for text in _all_names(event) if text}
        cleaned = msgspec.structs.replace(
            replace_names(flavor, event, names),
            summary=event.summary and clean(event.summary),
            files=tuple(clean(file) for file in event.files),
            refs=tuple(clean(ref) for ref in event.refs),
        )
        return cleaned, clean(body)

    def unclean_names(self, events: Iterable[SessionEvent]) -> dict[str, str]:
        """Return the names in events that have secrets, each as it may be stored.

        A name may come from another record than its event: a result has the name of its call's
        tool, and any event the folder, branch and model that the adapter remembers.
        """
        names = {text for event in events for text in _all_names(event)}
        return self._unclean(names - {None, ""})

    def _unclean(self, names: set[str]) -> dict[str, str]:
        """Return those of the names that have secrets, as they may be stored: mostly none."""
        redactor = self._redactor
        # One look at all of them together is enough to see that there is nothing.
        joined = "\n".join(names).encode("utf-8", "surrogatepass")
        if redactor is None or not redactor.suspects([joined]):
            return {}
        return {name: clean for name in names if (clean := redactor.text(name)) != name}

    def clean_calls(self, calls: list[LedgerCall]) -> list[LedgerCall]:
        """Return the calls without secrets: one may stand where the model should."""
        every = [call for entry in calls for call in (entry.call, *entry.superseded)]
        unclean = self._unclean({text for call in every for text in _texts_of(call).values()})
        if not unclean:
            return calls
        return [
            msgspec.structs.replace(
                entry,
                call=_clean_call(entry.call, unclean),
                superseded=tuple(_clean_call(call, unclean) for call in entry.superseded),
            )
            for entry in calls
        ]

    def clean_carry(self, carry: bytes) -> bytes:
        redactor = self._redactor
        if redactor is None or not _may_have_secrets(carry, redactor):
            return carry
        return clean_carry(carry, redactor)

    def clean_facts(self, facts: Facts) -> Facts:
        return clean_facts(facts, self.clean_text)

    def clean_text(self, text: str) -> str:
        return self._redactor.text(text) if self._redactor else text


def replace_names(flavor: str, event: SessionEvent, names: Mapping[str, str]) -> SessionEvent:
    """Return an event with other names in place of some."""
    changes = {
        field: names[text]
        for field in EVENT_NAMES
        if (text := getattr(event, field)) in names and names[text] != text
    }
    native = event.native_id
    if native is not None and names.get(native, native) != native:
        changes["native_id"] = hidden_id(flavor, native)
    return msgspec.structs.replace(event, **changes) if changes else event


_all_names = attrgetter(*EVENT_NAMES, "native_id")
"""Returns the names in an event, which may be None."""


def _may_have_secrets(carry: bytes, redactor: Redactor) -> bool:
    """Look at all of a carry at once, which is enough to see that most have no secret."""
    try:
        return bool(redactor.suspects([msgspec.json.encode(msgspec.msgpack.decode(carry))]))
    except (msgspec.DecodeError, TypeError, RecursionError):  # JSON has no such value.
        return True


def _clean_call(call: Call, names: Mapping[str, str]) -> Call:
    texts = _texts_of(call)
    changes = {field: names[text] for field, text in texts.items() if text in names}
    return msgspec.structs.replace(call, **changes) if changes else call


def _texts_of(call: Call) -> dict[str, str]:
    return {field: text for field in CALL_TEXTS if (text := getattr(call, field))}


def _make_redactor(setting: RedactSetting) -> Redactor:
    return Redactor(load_key(Path(setting.key_path)), rules_from_config(setting.rules))
