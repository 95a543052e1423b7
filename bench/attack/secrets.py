"""Plant secrets in transcripts, sync, and look for them in every byte of the store.

`python -m bench.attack secrets` prints a row for each place, with the kinds that stayed.
`python -m bench.attack.secrets` prints the kinds too: how many of their plants stayed.
"""

import contextlib
import json
import os
import re
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import apsw
import msgspec
import zstandard

from bench.attack import Result
from bench.attack._plants import PLACES, Plant, Records, make_plants, traces
from bench.redact import SHAPES
from runlore import config
from runlore.redact.engine import Redactor
from runlore.store import open_store
from runlore.sync import pipeline


def attack(scale: float, scratch: Path) -> Iterator[Result]:
    """Yield a result for each place."""
    for place, stayed, tried in plant_all(scale, scratch):
        kinds = [plant.kind for plant in stayed]
        note = f"stayed: {', '.join(kinds[:6])}{' …' if len(kinds) > 6 else ''}" if kinds else ""
        yield Result(f"a secret planted: {place}", tried, tried - len(kinds), note)
    yield slow_text(scale)


def slow_text(scale: float) -> Result:
    """Redact text that is written to be slow: a megabyte may take a second of CPU."""
    redactor = Redactor(bytes(32))
    redactor.text("password=abc12345")  # The automaton is compiled.
    size = round(1_000_000 * scale)
    taken = {unit: _seconds(redactor, unit, size) / scale for unit in hostile_units()}
    slow = sorted((unit for unit in taken if taken[unit] > 1), key=lambda unit: -taken[unit])
    worst = max(taken, key=lambda unit: taken[unit])
    note = f"worst: {taken[worst]:.1f} s of CPU for a megabyte of {worst[:24]!r}"
    return Result("a megabyte of slow text, each rule", len(taken), len(taken) - len(slow), note)


def hostile_units() -> list[str]:
    """Return what a text repeats: the openings of all tokens, alone and as near matches."""
    leads = sorted({lead for shape in SHAPES if (lead := shape.split("<")[0])})
    return [*leads, *(f"{lead}a1a1a1a1a1 " for lead in leads), *_OTHER_UNITS]


_OTHER_UNITS = (
    *("password=1", "password=1 ", 'password="', "password is ", "pw is a1 ", "пароль: ", "a:1 "),
    *("Cookie: a=", "-b a=", "docker login ", "mot de passe est ", "_pat=a", "Authorization: "),
    *("eyJhbGci.", "://a:b1@", "Bearer ", "-u a:", "%41", "%3D ", "\\u0041", "\x1b[0m", "ghp_a\n"),
    *("\x1b", "\x1b]8;;a\x07", "a\x08", "cookies={'a':'", "TRUE\t/\tTRUE\t1\ta\t", "the pass "),
    *("zip -P Zk29xqPLm7Rt a.zip ", "the password is Zk29xqPLm7Rt ", "log in a / b1 ", "net use "),
    *("-----BEGIN PRIVATE KEY-----", "-----END PRIVATE KEY-----\n", "Private-Lines: 1\n"),
    *("kind: Secret\ndata: abcdefgh\n", "aGVsbG8gd29ybGQgaGVsbG8gd29ybGQg ", "x" * 76 + "\n"),
    *("docker login -p abcdefgh ", "mysql -pabcdefgh1 ", "password=Zk29xqPLm7Rt ", "_mmk", "NRAL"),
    *(
        "password=\u201ca1b2c3d4\u201d",
        ";pwd=abcdefg; ",
        "a\x1b",
        "a\0",
        "\x1b]a\x07",
        "a\u200b",
        "&lt;",
    ),
    *("%2Fa", "\\u5bc6\\u7801 ", "\x1b]8;;", "AKIAABCDEFGHIJKLMNOP ", "podman login -p x1y2z3 "),
)


def _seconds(redactor: Redactor, unit: str, size: int) -> float:
    text = unit * (size // len(unit.encode()))
    began = time.process_time()
    redactor.text(text)
    return time.process_time() - began


def plant_all(scale: float, scratch: Path) -> Iterator[tuple[str, list[Plant], int]]:
    """Yield each place with the plants that stayed there, and how many there were."""
    for place, build in list(PLACES.items())[:: max(1, round(0.02 / scale))]:
        plants = make_plants(place)[:: round(1 / scale)]
        home = scratch / place.replace(" ", "-").replace(":", "")
        stored = _store_of(home, [build(plant.text) for plant in plants])
        yield place, [plant for plant in plants if _stays(plant, stored)], len(plants)


def _stays(plant: Plant, stored: str) -> bool:
    return any(trace in stored for trace in traces(plant))


def _store_of(home: Path, transcripts: list[Records]) -> str:
    """Sync these transcripts into a new store, and return all text that it holds."""
    before = dict(os.environ)
    os.environ.update(HOME=str(home), RUNLORE_HOME=str(home / ".runlore"))
    os.environ.pop("RUNLORE_STORE", None)
    try:
        for part in (0, 1):
            for n, records in enumerate(transcripts):
                _write(home, n, records, part)
            setting = config.load()
            store = open_store(setting.store)
            try:
                pipeline.sync(store, setting, workers=1, quiet_s=0)
            finally:
                store.close()
            if "split" not in transcripts[0][0]:
                break
        return "\n".join(texts_in(home / ".runlore" / "runlore.db"))
    finally:
        os.environ.clear()
        os.environ.update(before)


def _write(home: Path, n: int, records: Records, part: int) -> None:
    """Write a transcript; one that begins with `split` in two parts, for two syncs."""
    if "split" in records[0]:
        at, records = records[0]["split"], records[1:]
        records = records[at:] if part else records[:at]
    name = f"{n:08}-0000-4000-8000-000000000000"
    file = home / ".claude/projects/-home-dev-shop" / f"{name}.jsonl"
    if "payload" in records[0]:
        file = home / ".codex/sessions/2026/03/02" / f"rollout-2026-03-02T09-00-00-{name}.jsonl"
    file.parent.mkdir(parents=True, exist_ok=True)
    lines = [json.dumps(record).replace("SESSION", name) + "\n" for record in records]
    # Ids of events are unique among all transcripts: equal ones would be copies.
    lines = [re.sub('"(u[0-9])', rf'"{n}-\1', line) for line in lines]
    lines = [line.replace("toolu_1", f"toolu_{n}") for line in lines]
    with file.open("a", encoding="utf-8") as out:
        out.writelines(lines)
    os.utime(file, (1_750_000_000 + part, 1_750_000_000 + part))


def texts_in(file: Path) -> Iterator[str]:
    """Yield every text in a SQLite store: columns, unpacked blobs, words of the index."""
    connection = apsw.Connection(str(file))
    connection.execute("create virtual table temp.words using fts5vocab(main, search, row)")
    yield from (term for (term,) in connection.execute("select term from temp.words"))
    names = "select name from sqlite_schema where type = 'table' and name not like 'search%'"
    for (table,) in connection.execute(names).fetchall():
        for row in connection.execute(f'select * from "{table}"'):
            for value in row:
                yield from _texts(value)
    connection.close()


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, bytes):
        yield from _unpacked(value)
    elif isinstance(value, dict):
        for pair in value.items():
            yield from (text for each in pair for text in _texts(each))
    elif isinstance(value, list):
        yield from (text for each in value for text in _texts(each))
    elif isinstance(value, str):
        yield value
        yield value.replace('\\"', '"').replace("\\\\", "\\")


def _unpacked(data: bytes) -> Iterator[str]:
    with contextlib.suppress(zstandard.ZstdError):
        data = zstandard.ZstdDecompressor().decompressobj().decompress(data)
    try:
        value = msgspec.msgpack.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError):
        value = data.decode("utf-8", "replace")
    yield from _texts(value if isinstance(value, (dict, list)) else data.decode("utf-8", "replace"))


def main() -> None:
    """Print what stayed by place and by kind."""
    kinds, tried, stayed_in_all = Counter[str](), 0, 0
    with tempfile.TemporaryDirectory(prefix="runlore-secrets-") as scratch:
        for place, stayed, count in plant_all(1.0, Path(scratch)):
            tried, stayed_in_all = tried + count, stayed_in_all + len(stayed)
            kinds.update(plant.kind for plant in stayed)
            print(f"{place:36} {count - len(stayed):4} of {count} gone", flush=True)
    for kind, count in kinds.most_common():
        print(f"    {count:3} of {len(PLACES)} stayed: {kind}")
    print(f"{1 - stayed_in_all / tried:.1%} of {tried} gone")


if __name__ == "__main__":
    sys.exit(main())
