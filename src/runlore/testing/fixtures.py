"""Fixtures of adapters: a folder `<agent>/<case>/` with `root/` and `expected.json`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from .. import adapters
from ..adapters import Adapter, Normalized, Record, Source


class Fixture(msgspec.Struct, frozen=True):
    agent: str
    case: str
    folder: Path

    @property
    def adapter(self) -> Adapter:
        return adapters.get(self.agent)

    @property
    def root(self) -> Path:
        return self.folder / "root"

    @property
    def expected(self) -> Path:
        return self.folder / "expected.json"


def iter_fixtures(folder: Path) -> Iterator[Fixture]:
    """Yield all fixtures below a folder, sorted: `<folder>/<agent>/<case>/root`."""
    for root in sorted(folder.glob("*/*/root")):
        yield Fixture(root.parent.parent.name, root.parent.name, root.parent)


def derive(adapter: Adapter, root: Path) -> list[dict[str, Any]]:
    """Return an adapter's reading of a folder, for comparing: one entry for each source.

    Defaults are left out.
    """
    return [
        _readable(source, adapter.normalize(source, records, None))
        for source, records in read_sources(adapter, root)
    ]


def read_sources(adapter: Adapter, root: Path) -> Iterator[tuple[Source, list[Record]]]:
    """Yield the sources of a folder with their records, as of files that are written no more:
    what they say does not depend on when they were copied here."""
    for source in adapter.discover(root):
        quiet = msgspec.structs.replace(source, mtime_ns=0)
        yield source, list(adapter.read(quiet, None))


def _readable(source: Source, found: Normalized) -> dict[str, Any]:
    events = []
    for event, body, parent, original in zip(
        found.events, found.bodies, found.parents, found.originals, strict=True
    ):
        default = type(event)(session_uid=event.session_uid, seq=-0).to_dict()
        row = {
            name: value
            for name, value in event.to_dict().items()
            if name in ("session_uid", "seq") or value != default.get(name)
        }
        twin = found.twins.get(event.native_id or "")
        more = {"body": body, "parent": parent, "original": original, "twin": twin}
        events.append({**row, **{name: value for name, value in more.items() if value}})
    facts = msgspec.to_builtins(found.facts)
    for about in facts.values():  # The fixture is in another folder on every machine,
        if str(about.get("cwd", "")).startswith(source.root):
            about["cwd"] = Path(about["cwd"]).relative_to(source.root).as_posix()
        about.pop("written_at", None)  # and was written at another time.
    return {
        "source": Path(source.path).relative_to(source.root).as_posix(),
        "facts": facts,
        "events": events,
        "aliases": found.aliases,
        "merged": found.merged,
        "skips": [f"{skip.offset}: {skip.reason}" for skip in found.skips],
    }
