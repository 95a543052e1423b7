"""What a session store must survive, as checks for anyone's store: kills, torn tails, two writers,
clock steps, damage.

`run_store_conformance(factory)` needs one function of the store: `factory(folder, session_id)`
opens the session, or makes it, and returns something with `append(message)` and `messages()`;
`close()`, `compact(summary)` and `problems` are used when they are there. Messages are dicts with
`role` and `content`. The report says for each check whether it passed, and with what; nothing is
raised.
"""

from __future__ import annotations

import datetime
import hashlib
import os
import random
import select
import shutil
import signal
import struct
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Literal, NoReturn

import msgspec

Factory = Callable[[Path, str], Any]
Verdict = Literal["passed", "failed", "skipped"]
ID = "session"
PAGE_OF_TEXT = "ü€😀" + "x" * 1000
"""About 1 KB, with characters of two, three and four bytes."""


class Check(msgspec.Struct, frozen=True):
    name: str
    verdict: Verdict
    detail: str = ""


class StoreReport(msgspec.Struct, frozen=True):
    """What the checks found. `str(report)` is a table for people."""

    checks: list[Check]

    @property
    def failed(self) -> list[str]:
        return [check.name for check in self.checks if check.verdict == "failed"]

    @property
    def passed(self) -> list[str]:
        return [check.name for check in self.checks if check.verdict == "passed"]

    def __str__(self) -> str:
        width = max(len(check.name) for check in self.checks)
        return "\n".join(
            f"{check.name:{width}}  {check.verdict:7}  {check.detail}".rstrip()
            for check in self.checks
        )


class Failure(AssertionError):
    """A promise that the store did not keep."""


class Skipped(Exception):
    """A check that this store, or this system, has nothing for."""


def run_store_conformance(
    factory: Factory, *, kills: int = 40, seed: int = 0, only: Iterable[str] | None = None
) -> StoreReport:
    """Runs all checks, each in a folder of its own. `kills` is how often a writer is killed, for
    each of the two checks that do so."""
    checks = []
    for name, check in CHECKS.items():
        if only is not None and name not in only:
            continue
        with tempfile.TemporaryDirectory(
            prefix="runlore-conformance-", ignore_cleanup_errors=True
        ) as folder:
            trial = Trial(
                factory,
                Path(folder),
                random.Random(f"{seed}{name}"),  # noqa: S311
                kills,
            )  # a choice of moments, no secret
            checks.append(_verdict(name, check, trial))
    return StoreReport(checks)


def _verdict(name: str, check: Callable[[Trial], str | None], trial: Trial) -> Check:
    try:
        return Check(name, "passed", check(trial) or "")
    except Skipped as why:
        return Check(name, "skipped", str(why))
    except Failure as why:
        return Check(name, "failed", str(why))
    except Exception as error:  # The store is on trial: whatever it raises is the finding.
        return Check(name, "failed", f"{type(error).__name__}: {error}"[:300])


class Trial:
    """A store in a folder of its own, and the few things every check does with it."""

    def __init__(self, factory: Factory, folder: Path, rng: random.Random, kills: int) -> None:
        self.factory = factory
        self.root = folder
        self.folder = folder / "store"
        self.folder.mkdir()
        self.rng = rng
        self.kills = kills

    @contextmanager
    def session(self, folder: Path | None = None) -> Iterator[Any]:
        session = self.factory(folder or self.folder, ID)
        try:
            yield session
        finally:
            if hasattr(session, "close"):
                session.close()

    def append(self, *texts: str, folder: Path | None = None) -> None:
        with self.session(folder) as session:
            for text in texts:
                session.append(user(text))

    def texts(self, folder: Path | None = None) -> list[str]:
        with self.session(folder) as session:
            return [text_of(message) for message in session.messages()]

    def fresh(self) -> None:
        while self.folder.exists():
            # A database tidied up behind a reader, while the folder was being removed.
            with suppress(FileNotFoundError):
                shutil.rmtree(self.folder)
        self.folder.mkdir()

    def copy(self) -> Path:
        target = self.root / "copy"
        for attempt in range(10):
            shutil.rmtree(target, ignore_errors=True)
            try:
                shutil.copytree(self.folder, target)
                break
            except (shutil.Error, FileNotFoundError):
                # A file went away meanwhile: a database tidied up behind a reader.
                if attempt == 9:
                    raise
        return target


# ── the checks ────────────────────────────────────────────────────────────────────────────────────


def keeps_what_it_was_given(trial: Trial) -> None:
    texts = [f"message {n}" for n in range(100)]
    trial.append(*texts[:50])
    trial.append(*texts[50:])
    expect(trial.texts() == texts, "what was appended by two handles is not what a third one reads")


def survives_kill(trial: Trial) -> str:
    """A writer is killed at a random moment. All that it was told is kept, the session opens, and
    the next append is kept too."""
    need_fork()
    acked = 0
    for number in range(trial.kills):
        if number % 10 == 0:
            trial.fresh()
        before = len(trial.texts())
        count = kill_while(
            trial, lambda session, told, number=number: write_and_tell(session, told, number)
        )
        acked += count
        texts = trial.texts()
        wanted = [f"{number}-{n}" for n in range(count)]
        found = [text.partition(" ")[0] for text in texts[before:]]
        expect(
            found[:count] == wanted,
            f"kill {number}: {count} messages were acknowledged, {len(found)} are there",
        )
        trial.append(f"after {number}")
        expect(
            trial.texts()[-1] == f"after {number}",
            f"kill {number}: the append after it is not there",
        )
    return f"{trial.kills} kills, {acked} acknowledged messages"


def survives_torn_tail(trial: Trial) -> str:
    """The last message is cut at every byte. The others are kept, and the next append is not
    swallowed."""
    start, end, path = last_message(trial, "z€😀")
    for cut in range(start, end):
        folder = trial.copy()
        os.truncate(folder / path, cut)
        where = f"cut at byte {cut - start} of {end - start}"
        expect(trial.texts(folder)[:2] == ["one", "two"], f"{where}: earlier messages are lost")
        trial.append("next", folder=folder)
        texts = trial.texts(folder)
        expect(
            texts[:2] == ["one", "two"] and texts[-1] == "next",
            f"{where}: after the next append there is {texts}",
        )
    return f"{end - start} cuts"


def survives_empty_file(trial: Trial) -> None:
    """Each file in turn has no bytes, as after a crash between making and writing it. The session
    opens and takes appends."""
    trial.append("one", "two")
    for path in files(trial.folder):
        folder = trial.copy()
        if not (folder / path).exists():  # What a database keeps beside its file while it is open.
            continue
        os.truncate(folder / path, 0)
        trial.append("next", folder=folder)
        expect(
            trial.texts(folder)[-1:] == ["next"],
            f"with an empty {path} the next append is not there",
        )


def keeps_two_writers_apart(trial: Trial) -> str:
    """Two processes append to one session at the same time: nothing is lost, nothing twice, each
    one's order is kept."""
    need_fork()
    count = 200
    trial.append("first")
    writers = [
        start(trial, lambda session, _, name=name: write(session, name, count))
        for name in ("a", "b")
    ]
    statuses = [os.waitpid(pid, 0)[1] for pid, _ in writers]
    for _, pipe in writers:
        os.close(pipe)
    expect(not any(statuses), "a writer was given an error")
    texts = trial.texts()
    for name in ("a", "b"):
        own = [text for text in texts if text.startswith(f"{name}-")]
        expect(
            own == [f"{name}-{n}" for n in range(count)],
            f"writer {name}: {len(own)} of {count} messages, or not in order",
        )
    return f"2 × {count} messages"


def does_not_order_by_clock(trial: Trial) -> None:
    """The clock goes back an hour in the middle, in a process of its own. The order is that of the
    appends."""
    need_fork()

    def work(session: Any, _: Callable[[], None]) -> None:
        session.append(user("one"))
        step_clock(-3600)
        for text in ("two", "three"):
            session.append(user(text))
        step_clock(0)
        session.append(user("four"))

    pid, pipe = start(trial, work)
    os.close(pipe)
    expect(os.waitpid(pid, 0)[1] == 0, "appending raised an error")
    expect(trial.texts() == ["one", "two", "three", "four"], f"the order is {trial.texts()}")


def survives_damage(trial: Trial) -> str:
    """One byte of a message in the middle is changed. The others are kept, and changed text is not
    given out as if it were right."""
    start, end, path = last_message(trial, "hello world")
    trial.append("four", "five")
    silent = 0
    for place in range(start, end):
        folder = trial.copy()
        data = bytearray((folder / path).read_bytes())
        data[place] ^= 0x01 if data[place] != 0x0B else 0x02
        (folder / path).write_bytes(bytes(data))
        with trial.session(folder) as session:
            texts = [text_of(message) for message in session.messages()]
            told = bool(getattr(session, "problems", None))
        rest = [text for text in texts if text in ("one", "two", "four", "five")]
        expect(
            rest == ["one", "two", "four", "five"],
            f"byte {place - start} changed: left are {texts}",
        )
        silent += texts != ["one", "two", "hello world", "four", "five"] and not told
    expect(not silent, f"{silent} of {end - start} damages went unreported")
    return f"{end - start} damages"


def survives_kill_in_compaction(trial: Trial) -> str:
    """A process is killed while it compacts. Either everything is in view, or the summary is."""
    need_fork()
    texts = [f"fact {n}" for n in range(40)]
    for number in range(trial.kills):
        trial.fresh()
        trial.append(*texts)
        with trial.session() as session:
            if not hasattr(session, "compact"):
                raise Skipped("it does not compact")
        kill_while(trial, compact_and_tell)
        seen = trial.texts()
        expect(
            any("SUMMARY" in text for text in seen) or seen[:40] == texts,
            f"kill {number}: {len(seen)} of 40 messages, and no summary",
        )
        trial.append("next")
        expect(trial.texts()[-1] == "next", f"kill {number}: the append after it is not there")
    return f"{trial.kills} kills"


def reading_does_not_write(trial: Trial) -> None:
    """A session whose tool is still at work is read by someone else. No file changes, and the
    result is there once."""
    call = {"type": "tool_use", "id": "call-1", "name": "sleep", "input": {}}
    result = {"type": "tool_result", "tool_use_id": "call-1", "content": "done"}
    with trial.session() as session:
        session.append(user("go"))
        session.append({"role": "assistant", "content": [call]})
        before = digest_of(trial.folder)
        trial.texts()
        expect(digest_of(trial.folder) == before, "reading the session changed its files")
        session.append({"role": "user", "content": [result]})
    with trial.session() as session:
        blocks = [
            block
            for message in session.messages()
            if isinstance(message.get("content"), list)
            for block in message["content"]
        ]
    results = [block for block in blocks if block.get("type") == "tool_result"]
    expect(
        len(results) == 1 and results[0].get("content") == "done",
        f"the call has {len(results)} results",
    )


def stays_in_its_folder(trial: Trial) -> None:
    """Ids that lead elsewhere are refused."""
    for id in ("../outside", "..", "", str(trial.root / "outside"), "a/../../outside", "a\0b"):
        try:
            session = trial.factory(trial.folder, id)
            session.append(user("x"))
        except Exception:  # refused, in the store's own words  # noqa: S112
            continue
        raise Failure(f"a session was made under the id {id!r}")
    expect(sorted(os.listdir(trial.root)) == ["store"], "something was made outside of the store")


def takes_any_text(trial: Trial) -> None:
    texts = ["\0", "half a pair: \ud83d", "\u2028\r\n", "x" * 300_000, ""]
    trial.append(*texts)
    expect(
        trial.texts() == texts,
        "text with a NUL, half a surrogate pair, line separators or much of it does not come back",
    )


CHECKS: dict[str, Callable[[Trial], str | None]] = {
    "keeps what it was given": keeps_what_it_was_given,
    "survives kill -9": survives_kill,
    "survives a torn tail": survives_torn_tail,
    "survives an empty file": survives_empty_file,
    "keeps two writers apart": keeps_two_writers_apart,
    "does not order by the clock": does_not_order_by_clock,
    "survives damage": survives_damage,
    "survives kill -9 in compaction": survives_kill_in_compaction,
    "reading does not write": reading_does_not_write,
    "stays in its folder": stays_in_its_folder,
    "takes any text": takes_any_text,
}


# ── what they are made of ─────────────────────────────────────────────────────────────────────────


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def text_of(message: Any) -> str:
    content = message.get("content")
    if isinstance(content, list):
        return "".join(str(block.get("text", "")) for block in content if isinstance(block, dict))
    return str(content)


def expect(is_so: bool, otherwise: str) -> None:
    if not is_so:
        raise Failure(otherwise)


def need_fork() -> None:
    if not hasattr(os, "fork"):
        raise Skipped("this system cannot fork")


def write(session: Any, name: str, count: int) -> None:
    for n in range(count):
        session.append(user(f"{name}-{n}"))


def write_and_tell(session: Any, told: Callable[[], None], number: int) -> NoReturn:
    n = 0
    while True:
        session.append(user(f"{number}-{n} {PAGE_OF_TEXT}"))
        told()
        n += 1


def compact_and_tell(session: Any, told: Callable[[], None]) -> NoReturn:
    told()
    while True:
        session.compact("SUMMARY")
        session.append(user("more"))


def start(trial: Trial, work: Callable[..., object]) -> tuple[int, int]:
    """A process that opens the session and does the work; its pid, and a pipe on which it tells
    each time it was acknowledged."""
    read, written = os.pipe()
    pid = os.fork()
    if pid:
        os.close(written)
        return pid, read
    status = 1
    try:
        os.close(read)
        session = trial.factory(trial.folder, ID)
        work(session, lambda: os.write(written, b"."))
        status = 0
    finally:
        os._exit(status)


def kill_while(trial: Trial, work: Callable[..., object]) -> int:
    """Kills a process in the middle of its work; how often it had told us of a success."""
    pid, pipe = start(trial, work)
    try:
        is_alive = bool(select.select([pipe], [], [], 30)[0])
        time.sleep(trial.rng.uniform(0.0005, 0.02) if is_alive else 0)
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        told = 0
        while chunk := os.read(pipe, 1 << 16):
            told += len(chunk)
        return told
    finally:
        os.close(pipe)


def last_message(trial: Trial, text: str) -> tuple[int, int, Path]:
    """Appends two messages and then this one; which bytes of which file are the last one's."""
    trial.append("one", "two")
    before = sizes(trial.folder)
    trial.append(text)
    grown = {
        path: size
        for path, size in sizes(trial.folder).items()
        if size > before.get(path, 0) and path in before
    }
    there = (path for path in grown if (trial.folder / path).exists())
    holding = [
        path
        for path in there
        if text.encode()[:5] in (trial.folder / path).read_bytes()[before[path] :]
    ]
    if not holding:
        raise Skipped("no file holds the text of a message at its end")
    return before[holding[0]], grown[holding[0]], holding[0]


def files(folder: Path) -> list[Path]:
    return sorted(path.relative_to(folder) for path in folder.rglob("*") if path.is_file())


def sizes(folder: Path) -> dict[Path, int]:
    found = {}
    for path in files(folder):
        with suppress(FileNotFoundError):  # A database tidied up behind a reader.
            found[path] = (folder / path).stat().st_size
    return found


def digest_of(folder: Path) -> str:
    digest = hashlib.sha256()
    for path in files(folder):
        data = (folder / path).read_bytes()
        digest.update(str(path).encode() + struct.pack("q", len(data)) + data)
    return digest.hexdigest()


def step_clock(seconds: float) -> None:
    """Moves the clock of this process, as far as Python code reads it. Only for a child that ends
    soon."""
    real = _REAL.setdefault("time", time.time)
    real_ns = _REAL.setdefault("time_ns", time.time_ns)
    base: Any = _REAL.setdefault("datetime", datetime.datetime)

    class AnyTime(type):
        def __instancecheck__(cls, value: object) -> bool:
            return isinstance(value, base)  # Times from before the step are times, too.

    class Stepped(base, metaclass=AnyTime):  # type: ignore[misc]
        @classmethod
        def now(cls, tz: Any = None) -> Any:
            return base.now(tz) + datetime.timedelta(seconds=seconds)

        @classmethod
        def utcnow(cls) -> Any:
            return base.now(datetime.UTC).replace(tzinfo=None) + datetime.timedelta(seconds=seconds)

    time.time = lambda: real() + seconds
    time.time_ns = lambda: real_ns() + int(seconds * 1e9)
    for module in list(sys.modules.values()):
        for name in ("datetime", "_datetime"):
            value = getattr(module, name, None)
            if isinstance(value, type) and issubclass(value, base):
                setattr(module, name, Stepped)


_REAL: dict[str, Any] = {}
