"""The index over words that a server keeps: what is in its volumes when segments come, change and go, and how it is put right."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from runlore import doctor, pipeline
from runlore.config import Config
from runlore.doctor import checks
from runlore.errors import StoreError, StoreLost
from runlore.model import Digest
from runlore.store import Batch, Store, _postgres_index, _postgres_put, open_store
from runlore.store._pages import make_pages, read_pages
from runlore.store._postgres_index import LARGE_BYTES, MOST_ALIKE, VOLUME_BYTES, alike_in
from runlore.store._postgres_read import unpacked_ids
from runlore.store._postgres_words import LONGEST, words_in
from runlore.store.postgres import PostgresStore
from tests.postgres import Server
from tests.store.test_contract import Agent
from tests.store.test_postgres import is_right
from tests.toy import Toy, line

NOW = datetime(2027, 1, 1, tzinfo=UTC)


@pytest.fixture
def address(server: Server) -> str:
    return server.make_schema()


@pytest.fixture
def store(address: str) -> Iterator[PostgresStore]:
    with closing(PostgresStore(address, machine="desk", author="ann")) as made:
        yield made


@pytest.fixture
def config(home: Path) -> Config:
    home.chmod(0o700)
    return Config(home=home, store="")


class Agents:
    """Toy sessions by name."""

    def __init__(self, store: Store, toy: Toy, root: Path) -> None:
        self.store, self.toy, self.root = store, toy, root
        self.made: dict[str, Agent] = {}

    def __getitem__(self, name: str) -> Agent:
        return self.made.setdefault(name, Agent(self.store, self.toy, self.root / f"{name}.jsonl"))

    def say(self, name: str, text: str, **fields: object) -> None:
        """Appends to a session."""
        self[name].put(line(id=f"{name}-{self._lines(name)}", text=text, **fields))

    def say_instead(self, name: str, *texts: str) -> None:
        """Has a session say something else, as a newer adapter may make it of the same records."""
        self[name].file.write_bytes(b"".join(line(id=f"{name}-{n}", text=text) for n, text in enumerate(texts)))
        self.store.rederive(self[name].number, self[name].fresh())

    def _lines(self, name: str) -> int:
        file = self[name].file
        return file.read_bytes().count(b"\n") if file.exists() else 0


@pytest.fixture
def agents(store: PostgresStore, toy: Toy, tmp_path: Path) -> Agents:
    return Agents(store, toy, tmp_path / "toy")


@pytest.fixture
def are_two_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two volumes of about the same size are many."""
    monkeypatch.setattr(_postgres_index, "MOST_ALIKE", 2)


def bind(store: PostgresStore) -> None:
    """What is done at the end of a sync."""
    with store.sync_lock():
        pass


@contextmanager
def writing(store: PostgresStore) -> Iterator[None]:
    """A transaction of who has the lock of the store."""
    with store.transaction():
        store._lock_for_writing()
        yield


@contextmanager
def taken_back(store: PostgresStore) -> Iterator[None]:
    """A transaction of which nothing is kept."""
    with suppress(ZeroDivisionError), store.transaction():
        yield
        raise ZeroDivisionError


def volumes(store: PostgresStore) -> list[int]:
    return [number for (number,) in store.rows("select number from volumes order by 1")]


def struck(store: PostgresStore) -> list[tuple[int, int]]:
    return [(id_, until) for id_, until in store.rows("select id, until from struck order by 1, 2")]


def written(store: PostgresStore) -> dict[bytes, set[str]]:
    """Every word on any page, also of what was struck or is of no volume, and the sessions that it is said to be of. Without those that
    are added to every segment, for filters."""
    names: dict[int, str] = dict(store.rows("select number, uid from sessions"))
    ids = {number: memoryview(unpacked_ids(packed)).cast("q") for number, packed in store.rows("select number, ids from volumes")}
    made: dict[bytes, set[str]] = {}
    for volume, first, body in store.rows("select volume, first, body from pages"):
        words = list(read_pages([body]))
        assert words[0][0] == first
        for word, places in words:
            if word.startswith(b"zq"):
                continue
            of = made.setdefault(word, set())
            of.update(names.get(ids[volume][n] >> 20, "nobody") if volume in ids else "no volume" for n, _ in places)
    return made


def uids(store: Store, term: str, *, prefix: bool = False, column: str | None = None) -> list[str]:
    """The sessions in which a search finds a term."""
    names: dict[int, str] = dict(store.rows("select number, uid from sessions"))
    found = store.postings(term, prefix=prefix, column=column)
    assert found == sorted(set(found)), "each once, ascending"
    return sorted({names[id_ >> 20].removeprefix("toy:") for id_ in found})


def digest_of(store: Store, uid: str, **fields: object) -> Digest:
    session = store.session(uid)
    assert session is not None
    covers = {"last_seq": session.last_seq, "content_hash": session.content_hash}
    return Digest.from_dict({"session_uid": uid, "version": 1, "covers": covers, **fields})


def noise(count: int, seed: int = 1) -> str:
    """Words that nobody else says."""
    chosen = random.Random(seed)
    return " ".join(chosen.randbytes(5).hex() for _ in range(count))


# ── volumes ──────────────────────────────────────────────────────────────────────────────────────────────────────────
def test_what_is_put_at_several_times_makes_several_volumes_and_all_of_it_is_found(store: PostgresStore, agents: Agents) -> None:
    for n in range(5):
        agents.say(f"s{n}", f"apple w{n} green pear")
    assert len(volumes(store)) == 5
    everybody = [f"s{n}" for n in range(5)]
    assert uids(store, "apple") == everybody
    assert uids(store, "ap", prefix=True) == everybody
    assert uids(store, "green pear") == everybody
    assert uids(store, "pear green") == []
    assert uids(store, "apple", column="prompt") == everybody
    assert uids(store, "apple", column="tool") == []
    assert [uids(store, f"w{n}") for n in range(5)] == [[name] for name in everybody]


def test_what_is_put_in_one_transaction_makes_one_volume_and_is_found_in_it(store: PostgresStore, agents: Agents) -> None:
    with store.transaction():
        for n in range(5):
            agents.say(f"s{n}", f"apple w{n}")
    assert len(volumes(store)) == 1
    assert len(uids(store, "apple")) == 5


def test_whoever_writes_finds_what_waits(store: PostgresStore, address: str, agents: Agents) -> None:
    with store.transaction(), closing(PostgresStore(address, read_only=True)) as reader:
        agents.say("s", "apple")
        assert uids(store, "apple") == ["s"]
        assert uids(reader, "apple") == []
    assert uids(store, "apple") == ["s"]


def test_words_make_a_volume_when_they_are_many_and_not_before(
    store: PostgresStore, agents: Agents, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_postgres_put, "VOLUME_BYTES", 10_000)
    with store.transaction():
        for n in range(10):
            agents.say(f"s{n}", noise(300, seed=n))  # Of 3,300 bytes.
    assert store.rows("select segments from volumes order by number") == [(4,), (4,), (2,)]


def test_small_volumes_are_bound_at_the_end_of_a_sync_and_none_is_lost(
    store: PostgresStore, agents: Agents, toy: Toy, tmp_path: Path, config: Config
) -> None:
    for n in range(MOST_ALIKE - 2):
        agents.say(f"s{n}", f"apple w{n}")
    for n in range(MOST_ALIKE - 2, MOST_ALIKE):
        assert len(volumes(store)) == n
        (tmp_path / f"toy/s{n}.jsonl").write_bytes(line(id=f"s{n}", text=f"apple w{n}"))
        pipeline.sync(store, config, roots=[str(tmp_path / "toy")], workers=0)
    assert len(volumes(store)) == 1
    assert store.rows("select segments from volumes") == [(MOST_ALIKE,)]
    assert {volume for (volume,) in store.rows("select volume from pages")} == set(volumes(store)), "no page is left of the others"
    assert len(uids(store, "apple")) == MOST_ALIKE
    assert [uids(store, f"w{n}") for n in range(MOST_ALIKE)] == [[f"s{n}"] for n in range(MOST_ALIKE)]
    assert is_right(store, config) == []


SMALL, MIDDLE, LARGE = LARGE_BYTES[1:]


@pytest.mark.parametrize(
    ("sizes", "chosen"),
    [
        ([], []),
        ([1] * 7, []),
        ([1] * 8, [*range(8)]),
        ([0] * 8, [*range(8)]),
        ([1] * 20, [*range(8)]),
        ([SMALL - 1] * 7 + [SMALL], []),
        ([SMALL] * 7 + [SMALL - 1] * 7 + [MIDDLE] * 7, []),
        ([SMALL] * 7 + [1, MIDDLE, LARGE, MIDDLE - 1], [*range(7), 10]),
        ([MIDDLE] * 8 + [SMALL] * 8 + [1] * 8, [*range(16, 24)]),
        ([MIDDLE] * 8 + [SMALL] * 8, [*range(8, 16)]),
        ([LARGE - 1] * 8, [*range(8)]),
        ([LARGE] * 50, []),
    ],
)
def test_volumes_are_bound_with_those_of_about_their_size_the_smallest_first(sizes: list[int], chosen: list[int]) -> None:
    assert alike_in(list(enumerate(sizes))) == chosen


def test_many_that_write_without_a_sync_leave_few_volumes(store: PostgresStore, agents: Agents, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_postgres_index, "CHECK_EVERY", 10)
    most = 0
    for n in range(34):
        agents.say(f"s{n}", f"apple w{n}")
        most = max(most, len(volumes(store)))
    assert most < 10 + MOST_ALIKE
    assert len(volumes(store)) < 10 + MOST_ALIKE
    assert len(uids(store, "apple")) == 34
    assert all(uids(store, f"w{n}") == [f"s{n}"] for n in range(34))


def test_a_number_of_a_volume_is_never_given_again(store: PostgresStore, agents: Agents) -> None:
    agents.say("s", "apple")
    (before,) = volumes(store)
    store.forget(["toy:s"], NOW)
    assert volumes(store) == []
    with taken_back(store):
        agents.say("t", "pear")
        assert uids(store, "pear") == ["t"]
    agents.say("u", "plum")
    (after,) = volumes(store)
    assert after > before + 1
    assert (uids(store, "pear"), uids(store, "plum")) == ([], ["u"])


@pytest.mark.usefixtures("are_two_alike")
def test_segments_without_a_word_are_in_volumes_without_a_page(store: PostgresStore) -> None:
    for id_ in (5, 3):
        with writing(store):
            store._to_index[id_] = None, b"", None
    bind(store)
    ((segments, size, ids),) = store.rows("select segments, size, ids from volumes")
    assert (segments, size, [*memoryview(unpacked_ids(ids)).cast("q")]) == (2, 0, [5, 3])
    assert store.rows("select * from pages") == []


# ── segments that are written again ──────────────────────────────────────────────────────────────────────────────────
@pytest.mark.usefixtures("are_two_alike")
def test_a_segment_that_grows_is_found_by_all_its_words_and_once(store: PostgresStore, agents: Agents, config: Config) -> None:
    agents.say("other", "green")
    agents.say("s", "apple green")
    (id_,) = store.postings("apple")
    agents.say("s", "pear green")
    for _ in range(2):
        assert store.postings("apple") == store.postings("pear") == [id_]
        assert uids(store, "green") == ["other", "s"]
        assert uids(store, "apple green") == uids(store, "pear green") == ["s"]
        bind(store)
    assert (len(volumes(store)), struck(store)) == (1, [])
    assert is_right(store, config) == []


@pytest.mark.usefixtures("are_two_alike")
def test_a_segment_that_is_written_again_is_not_found_by_words_that_are_gone(store: PostgresStore, agents: Agents, config: Config) -> None:
    agents.say("other", "apple")
    agents.say("s", "apple green")
    (id_,) = store.postings("green")
    agents.say_instead("s", "quince green", "red plum")
    assert store.postings("quince") == [id_], "under the same id"
    for _ in range(2):
        assert uids(store, "apple") == ["other"]
        assert uids(store, "app", prefix=True) == ["other"]
        assert uids(store, "apple green") == []
        assert [uids(store, word) for word in ("quince", "green", "plum", "quince green")] == [["s"]] * 4
        bind(store)
    assert written(store)[b"apple"] == {"toy:other"}, "and when it was bound it is not there any more"
    assert struck(store) == []
    assert is_right(store, config) == []


@pytest.mark.usefixtures("are_two_alike")
def test_a_segment_that_was_struck_again_and_again_has_its_last_words(store: PostgresStore, agents: Agents, config: Config) -> None:
    for n in range(5):
        agents.say("s", "one") if n == 0 else agents.say_instead("s", f"w{n} same")
    (id_,) = store.postings("same")
    assert struck(store) == [(id_, volume) for volume in volumes(store)[:-1]]
    for _ in range(2):
        assert [uids(store, word) for word in ("one", "w1", "w2", "w3", "w4", "same")] == [[], [], [], [], ["s"], ["s"]]
        bind(store)
    assert set(written(store)) == {b"w4", b"same"}
    assert struck(store) == []
    assert is_right(store, config) == []


@pytest.mark.usefixtures("are_two_alike")
def test_what_was_struck_in_a_volume_that_is_not_bound_stays_struck(
    store: PostgresStore, agents: Agents, config: Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A segment is in three volumes. The first is larger than the others, and these are bound without it."""
    monkeypatch.setattr(_postgres_index, "MOST_STRUCK", 0)
    agents.say("s", f"apple {noise(4000)}")
    agents.say_instead("s", "pear")
    agents.say_instead("s", "plum")
    first, second, _ = volumes(store)
    assert SMALL < store.rows("select size from volumes order by 1 desc")[0][0] < MIDDLE
    (id_,) = store.postings("plum")
    assert struck(store) == [(id_, first), (id_, second)]
    bind(store)
    assert (volumes(store)[0], len(volumes(store)), struck(store)) == (first, 2, [(id_, first)])
    assert [uids(store, word) for word in ("apple", "pear", "plum")] == [[], [], ["s"]]
    assert (b"apple" in written(store), b"pear" in written(store)) == (True, False)
    assert is_right(store, config) == []


def test_volumes_of_which_much_was_struck_are_written_anew(
    store: PostgresStore, agents: Agents, config: Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_postgres_index, "MOST_ALIKE", 3)
    with store.transaction():
        for n in range(23):
            agents.say(f"s{n}", f"apple w{n} {noise(300, seed=n)}")
    (first,) = volumes(store)
    for n in range(3):
        agents.say_instead(f"s{n}", "pear")
    bind(store)
    assert (volumes(store)[0], len(volumes(store)), len(struck(store))) == (first, 2, 3), "three of 26 are not many"
    for n in range(3, 6):
        agents.say_instead(f"s{n}", "pear")
    bind(store)
    assert first not in volumes(store)
    assert struck(store) == []
    assert [word for n in range(6) if (word := b"w%d" % n) in written(store)] == []
    assert uids(store, "apple") == sorted(f"s{n}" for n in range(6, 23))
    assert uids(store, "pear") == sorted(f"s{n}" for n in range(6))
    assert is_right(store, config) == []


def test_volumes_of_which_all_was_struck_do_not_wait_for_others_that_are_alike(store: PostgresStore, agents: Agents) -> None:
    """As after a newer adapter: everything was derived again."""
    with store.transaction():
        for n in range(5):
            agents.say(f"s{n}", f"apple w{n}")
    with store.transaction():
        for n in range(5):
            agents.say_instead(f"s{n}", "pear")
    bind(store)
    assert struck(store) == []
    assert set(written(store)) == {b"pear"}


# ── transactions ─────────────────────────────────────────────────────────────────────────────────────────────────────
def test_what_is_put_and_dropped_in_one_transaction_leaves_nothing(store: PostgresStore, agents: Agents) -> None:
    with store.transaction():
        agents.say("s", "apple")
        store._drop_sessions([number for (number,) in store.rows("select number from sessions")])
    assert (volumes(store), store.rows("select * from pages"), struck(store)) == ([], [], [])


def test_what_is_put_and_put_again_in_one_transaction_is_written_once(store: PostgresStore, agents: Agents, config: Config) -> None:
    with store.transaction():
        agents.say("s", "apple")
        agents.say_instead("s", "pear")
        agents.say("s", "plum")
    assert store.rows("select segments from volumes") == [(1,)]
    assert (set(written(store)), struck(store)) == ({b"pear", b"plum"}, [])
    assert is_right(store, config) == []


@pytest.mark.parametrize("enough", [1, VOLUME_BYTES])
def test_a_volume_that_was_written_in_the_same_transaction_is_struck_as_well(
    store: PostgresStore, agents: Agents, config: Config, monkeypatch: pytest.MonkeyPatch, enough: int
) -> None:
    monkeypatch.setattr(_postgres_put, "VOLUME_BYTES", enough)
    agents.say("s", "apple")
    with store.transaction():
        agents.say("s", "pear")
        agents.say_instead("s", "plum")
        agents.say("s", "quince")
    assert [uids(store, word) for word in ("apple", "pear", "plum", "quince")] == [[], [], ["s"], ["s"]]
    assert is_right(store, config) == []


@pytest.mark.parametrize("enough", [1, VOLUME_BYTES])
def test_a_step_that_fails_leaves_the_words_that_waited_and_none_of_its_own(
    store: PostgresStore, agents: Agents, config: Config, monkeypatch: pytest.MonkeyPatch, enough: int
) -> None:
    """Also where the step writes a volume of those that waited."""
    agents.say("s", "apple")

    def broken() -> Iterator[Batch]:
        yield from agents["s"].fresh()
        yield from agents["new"].fresh()
        assert uids(store, "pear") == ["other"]
        raise ZeroDivisionError

    with store.transaction():
        agents.say("other", "pear")
        agents.say("s", "green")  # Struck before, and waits: the step takes it out.
        right = agents["s"].file.read_bytes()
        agents["s"].file.write_bytes(line(id="s-0", text="plum"))
        agents["new"].file.write_bytes(line(id="n", text="quince"))
        monkeypatch.setattr(_postgres_put, "VOLUME_BYTES", enough)
        with pytest.raises(ZeroDivisionError):
            store.rederive(agents["s"].number, broken())
        agents["s"].file.write_bytes(right)
        agents.say("last", "cherry")
    words = ("apple", "green", "pear", "cherry", "plum", "quince")
    assert [uids(store, word) for word in words] == [["s"], ["s"], ["other"], ["last"], [], []]
    assert {b"plum", b"quince"}.isdisjoint(written(store))
    assert is_right(store, config) == []


@pytest.mark.parametrize("enough", [1, VOLUME_BYTES])
def test_a_transaction_that_is_taken_back_leaves_no_words_and_strikes_none(
    store: PostgresStore, agents: Agents, config: Config, monkeypatch: pytest.MonkeyPatch, enough: int
) -> None:
    monkeypatch.setattr(_postgres_put, "VOLUME_BYTES", enough)
    agents.say("s", "apple")
    before = volumes(store)
    right = agents["s"].file.read_bytes()
    with taken_back(store):
        agents.say_instead("s", "plum")
        agents.say("new", "quince")
    agents["s"].file.write_bytes(right)
    assert (volumes(store), struck(store), set(written(store))) == (before, [], {b"apple"})
    agents.say("later", "pear")
    assert set(written(store)) == {b"apple", b"pear"}, "they do not come with the next"
    assert [uids(store, word) for word in ("apple", "plum", "quince", "pear")] == [["s"], [], [], ["later"]]
    agents["new"].file.unlink()
    assert is_right(store, config) == []


# ── forgetting ───────────────────────────────────────────────────────────────────────────────────────────────────────
@pytest.mark.parametrize("way", ["apart", "together", "bound"])
def test_no_word_of_what_is_forgotten_is_left_on_any_page(
    store: PostgresStore, agents: Agents, config: Config, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    if way == "together":
        with store.transaction():
            agents.say("s", "apple secretword same")
            agents.say("other", "apple pear")
    else:
        agents.say("s", "apple secretword same")
        agents.say("other", "apple pear")
    agents.say_instead("s", "apple secretplace same")
    agents.say("s", "secretend " + " ".join(f"secret{n}" for n in range(2000)))
    assert b"secretword" in written(store), "it was struck, and is still there"
    if way == "bound":
        monkeypatch.setattr(_postgres_index, "MOST_ALIKE", 2)
        bind(store)
        assert b"secretword" not in written(store)
    store.forget(["toy:s"], NOW)
    assert written(store) == {b"apple": {"toy:other"}, b"pear": {"toy:other"}}
    assert not [1 for first, body in store.rows("select first, body from pages") if b"secret" in first + body]
    assert struck(store) == []
    assert uids(store, "apple") == ["other"]
    assert is_right(store, config) == []


def test_no_word_of_what_is_evicted_is_left_but_what_its_digest_quotes(store: PostgresStore, agents: Agents, config: Config) -> None:
    with store.transaction():
        agents.say("other", "apple pear")
        agents.say("s", "apple secretword")
        agents.say("s", "secretplace")
    store.put_digest(digest_of(store, "toy:s", excerpts=[{"seq": 0, "text": "apple"}]), NOW)
    store.evict(["toy:s"], NOW)
    assert [uids(store, word) for word in ("apple", "secretword", "secretplace")] == [["other", "s"], [], []]
    store.shrink()
    assert written(store) == {b"apple": {"toy:other", "toy:s"}, b"pear": {"toy:other"}}
    assert struck(store) == []
    assert uids(store, "apple") == ["other", "s"]
    assert store.check_index(None) == {}
    assert is_right(store, config) == []


def test_who_gives_room_back_leaves_nothing_that_was_struck(store: PostgresStore, agents: Agents) -> None:
    agents.say("s", "apple")
    agents.say_instead("s", "pear")
    store.purge()
    assert (set(written(store)), struck(store)) == ({b"pear"}, [])
    assert uids(store, "pear") == ["s"]


# ── readers ──────────────────────────────────────────────────────────────────────────────────────────────────────────
@pytest.mark.usefixtures("are_two_alike")
def test_a_reader_answers_as_of_its_snapshot_while_volumes_are_bound(store: PostgresStore, address: str, agents: Agents) -> None:
    for n in range(3):
        agents.say(f"s{n}", f"apple green pear w{n}")
    everybody = [f"s{n}" for n in range(3)]
    with closing(PostgresStore(address, read_only=True)) as reader, closing(PostgresStore(address, read_only=True)) as later:
        assert uids(later, "apple") == everybody
        with reader.snapshot():
            assert uids(reader, "apple") == everybody
            agents.say_instead("s0", "plum")
            bind(store)
            agents.say("s3", "apple green pear")
            for term in ("apple", "pear", "green pear", "w0"):  # Others than what it has asked for already.
                assert uids(reader, term) == (["s0"] if term == "w0" else everybody), term
            assert uids(reader, "gr", prefix=True) == everybody
            assert uids(reader, "plum") == []
        for one in (reader, later):
            assert [uids(one, term) for term in ("w0", "plum")] == [[], ["s0"]]
            assert uids(one, "apple") == uids(one, "green pear") == ["s1", "s2", "s3"]


# ── the doctor ───────────────────────────────────────────────────────────────────────────────────────────────────────
@pytest.fixture
def filled(store: PostgresStore, agents: Agents, toy: Toy) -> PostgresStore:
    """Sessions in two volumes; one of the segments was written again."""
    with store.transaction():
        agents.say("a", "apple green pear")
        agents.say("b", "green apple")
        agents.say("b", "apple", kind="assistant_msg")
    with store.transaction():
        agents.say("c", "cherry green pear", kind="tool_result")
        agents.say("a", "pear plum")
    return store


FIRST = "(select min(number) from volumes)"
LAST = "(select max(number) from volumes)"
A_PAGE = f"from pages where volume = {LAST}"
STRAY = (7 << 20) + 1

DAMAGE = {
    "a volume that is gone": f"delete from volumes where number = {LAST}",
    "the first volume is gone": f"delete from volumes where number = {FIRST}",
    "all volumes are gone": "delete from volumes",
    "a page that is gone": f"delete from pages where volume = {LAST}",
    "all pages are gone": "delete from pages",
    "ids that cannot be read": f"update volumes set ids = '\\x00' where number = {FIRST}",
    "ids of something else": f"update volumes set ids = (select ids from volumes where number = {FIRST})",
    "a volume that is there twice": (
        f"insert into volumes select 1000, 1, segments, size, ids from volumes where number = {LAST};"
        " insert into pages select 1000, first, part, body from pages where volume = (select max(number) from volumes where number < 1000)"
    ),
    "pages of another volume": (
        f"delete from pages where volume = {LAST}; insert into pages select {LAST}, first, part, body from pages where volume = {FIRST}"
    ),
    "a segment that was not struck": "delete from struck",
    "a segment that was struck and is there": f"insert into struck select id, {LAST} from segments on conflict do nothing",
    "words of another segment in their order": "update segments set stream = (select stream from segments order by id desc limit 1)",
    "words in their order that cannot be read": "update segments set stream = '\\x00'",
    "no words in their order": "update segments set stream = null",
}  # fmt: skip


def answers(store: Store) -> dict[str, list[str]]:
    """What a search finds, of each kind."""
    made = {word: uids(store, word) for word in ("apple", "pear", "plum", "cherry", "green", "nothing")}
    made |= {f"{word}*": uids(store, word, prefix=True) for word in ("p", "gre", "appl", "x")}
    made |= {phrase: uids(store, phrase) for phrase in ("green pear", "pear green", "apple green", "pear plum")}
    made |= {f"ap* in {column}": uids(store, "ap", prefix=True, column=column) for column in ("prompt", "reply", "tool", "said")}
    return made


def index_problems(report: doctor.Report) -> list[str]:
    return next(check.problems for check in report.checks if check.name == "index")


def damage(store: PostgresStore, sql: str) -> None:
    for one in sql.split(";"):
        store.db.execute(one)


def is_mended(store: PostgresStore, config: Config, before: dict[str, list[str]]) -> bool:
    """Whether a repair makes all of it right, also for what is bound later."""
    report = doctor.examine(store, config, full=True, repair=True)
    assert report.ok
    assert report.repaired
    assert is_right(store, config) == []
    assert answers(store) == before
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_postgres_index, "MOST_ALIKE", 2)
        bind(store)
    assert is_right(store, config) == []
    return answers(store) == before


def test_the_answers_of_an_index_that_is_right(filled: PostgresStore, config: Config) -> None:
    assert is_right(filled, config) == []
    assert filled.check_index([id_ for (id_,) in filled.rows("select id from segments")]) == {}
    assert answers(filled) == {
        "apple": ["a", "b"], "pear": ["a", "c"], "plum": ["a"], "cherry": ["c"], "green": ["a", "b", "c"], "nothing": [],
        "p*": ["a", "c"], "gre*": ["a", "b", "c"], "appl*": ["a", "b"], "x*": [],
        "green pear": ["a", "c"], "pear green": [], "apple green": ["a"], "pear plum": ["a"],
        "ap* in prompt": ["a", "b"], "ap* in reply": ["b"], "ap* in tool": [], "ap* in said": ["a", "b"],
    }  # fmt: skip


@pytest.mark.parametrize("kind", DAMAGE)
def test_damage_to_the_index_is_found_and_made_right(filled: PostgresStore, config: Config, kind: str) -> None:
    before = answers(filled)
    damage(filled, DAMAGE[kind])
    report = doctor.examine(filled, config, full=True)
    assert index_problems(report)
    assert not report.hopeless
    assert is_mended(filled, config, before)


@pytest.mark.parametrize("kind", DAMAGE)
def test_damage_to_the_index_is_found_also_by_who_looks_at_some_segments(
    filled: PostgresStore, config: Config, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    monkeypatch.setattr(checks, "INDEX_SAMPLE", 2)
    assert index_problems(doctor.examine(filled, config)) == []
    damage(filled, DAMAGE[kind])
    assert index_problems(doctor.examine(filled, config))


def test_a_segment_that_is_only_in_the_index_is_found_and_struck(filled: PostgresStore, config: Config) -> None:
    before = answers(filled)
    with writing(filled):
        filled._to_index[STRAY] = b"apple stray", None, None
    assert filled.check_index(None) == filled.check_index([]) == {STRAY: "is in the index and nowhere else"}
    assert is_mended(filled, config, before)
    assert b"stray" not in written(filled)


def test_a_segment_that_is_in_the_index_twice_is_found_and_struck(filled: PostgresStore, config: Config) -> None:
    before = answers(filled)
    (id_,) = filled.postings("cherry")
    with writing(filled):
        filled._to_index[id_] = b"cherry date", None, None
    assert filled.check_index([]) == {id_: "is in the index twice"}
    assert filled.check_index(None)[id_]
    assert is_mended(filled, config, before)
    assert uids(filled, "date") == []
    assert b"date" not in written(filled)


def test_a_segment_that_is_in_one_volume_twice_is_found_and_struck(filled: PostgresStore, config: Config) -> None:
    before = answers(filled)
    known = filled.rows("select id, stream from segments order by id")
    (id_,) = filled.postings("cherry")
    damage(filled, "delete from volumes; delete from pages; delete from struck")
    with writing(filled):
        pages = make_pages([(b"date", None, None), *(words_in(stream) for _, stream in known)])
        filled._add_volume([id_, *(one for one, _ in known)], pages)
    assert uids(filled, "date") == ["c"]
    assert filled.check_index(None)[id_]
    assert filled.check_index([])[id_]
    assert is_mended(filled, config, before)
    assert uids(filled, "date") == []


def is_said_to_be_wrong(store: PostgresStore) -> bool:
    try:
        return bool(store.check_index(None))
    except StoreError as error:
        return "the index over words is damaged (volume" in str(error)


def test_any_bit_of_a_page_that_is_another_is_found_and_made_right(filled: PostgresStore, config: Config) -> None:
    before = answers(filled)
    ((first, body),) = filled.rows(f"select first, body {A_PAGE}")
    sql = f"update pages set body = ? where volume = {LAST} and first = ?"
    for at in range(len(body)):
        for change in (1, 2, 8, 128):
            filled.db.execute(sql, (body[:at] + bytes([body[at] ^ change]) + body[at + 1 :], first))
            assert is_said_to_be_wrong(filled), f"bit {change} of byte {at} says nothing"
    assert is_mended(filled, config, before)


def test_pages_of_no_volume_are_found_and_removed(filled: PostgresStore, config: Config) -> None:
    """No search finds their words, and no forgetting removes them."""
    damage(filled, DAMAGE["a volume that is gone"])
    doctor.examine(filled, config, full=True, repair=True)
    assert is_right(filled, config) == []
    assert not [word for word, of in written(filled).items() if "no volume" in of]


HARM = {
    "a page": "update pages set body = '\\xff'",
    "a page too long by a byte": "update pages set body = body || '\\xff'",
    "which segments a volume has": "update volumes set ids = '\\x00'",
}


@pytest.mark.parametrize("kind", HARM)
def test_damage_is_told_by_whoever_searches_and_undone_by_whoever_forgets(
    filled: PostgresStore, agents: Agents, config: Config, kind: str
) -> None:
    """Else no word that is forgotten would leave, and nothing else either."""
    damage(filled, HARM[kind])
    with pytest.raises(StoreError, match="run `runlore doctor --repair`"):
        filled.postings("z", prefix=True)  # To the end of the last page.
    filled.forget(["toy:c"], datetime.now(UTC))
    assert b"cherry" not in written(filled)
    assert struck(filled) == []
    assert is_right(filled, config) == []
    assert (uids(filled, "apple"), uids(filled, "plum"), uids(filled, "apple green")) == (["a", "b"], ["a"], ["a"])


@pytest.mark.parametrize("kind", HARM)
def test_damage_keeps_nobody_from_putting_more(
    filled: PostgresStore, agents: Agents, config: Config, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    monkeypatch.setattr(_postgres_index, "MOST_ALIKE", 2)
    monkeypatch.setattr(_postgres_index, "CHECK_EVERY", 1)
    damage(filled, HARM[kind])
    agents.say("d", "date")
    bind(filled)
    assert filled.bodies("toy:d") == {0: "date"}
    filled.reindex(None)
    assert is_right(filled, config) == []
    assert uids(filled, "date") == ["d"]


def test_a_lost_connection_is_no_damage(filled: PostgresStore, monkeypatch: pytest.MonkeyPatch) -> None:
    def away(sql: str, bindings: Sequence[Any] = ()) -> list[Any]:
        if "pages" in sql:
            raise StoreLost("the server went away")
        return PostgresStore._all(filled, sql, bindings)

    monkeypatch.setattr(filled, "_all", away)
    with pytest.raises(StoreLost):
        filled.check_index(None)


def test_what_is_struck_waits_for_who_binds(filled: PostgresStore, address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else the segment would stand in a volume that was made meanwhile, and count there."""
    monkeypatch.setattr(_postgres_index, "MOST_ALIKE", 2)
    number = filled.postings("cherry")[0] >> 20
    with closing(PostgresStore(address, machine="desk", author="ben")) as other:
        with ThreadPoolExecutor(1) as beside:
            with filled.transaction():
                filled.drop_strays([number])
                bound = beside.submit(bind, other)
                with pytest.raises(TimeoutError):
                    bound.result(0.3)
            bound.result(10)
        assert other.postings("cherry") == []
        assert other.check_index(None) == {}


def test_a_reader_notices_that_a_server_was_set_back(store: PostgresStore, address: str, agents: Agents) -> None:
    """Then numbers are given again, to other volumes."""
    agents.say("a", "apple")
    with closing(PostgresStore(address, read_only=True)) as reader:
        assert uids(reader, "apple") == ["a"]
        store.forget(["toy:a"], datetime.now(UTC))
        store.db.execute("alter sequence volume_numbers restart")
        agents.say("b", "apple")
        assert store.rows("select number from volumes") == [(1,)]
        assert uids(reader, "apple") == ["b"]


def test_a_phrase_is_found_by_the_transaction_that_puts_it(store: PostgresStore, agents: Agents) -> None:
    agents.say("a", "green apple")
    with store.transaction():
        assert uids(store, "green apple") == ["a"]
        agents.say("b", "green apple")
        assert uids(store, "green apple") == ["a", "b"]


def test_a_word_that_is_longer_than_the_index_has_is_right(store: PostgresStore, agents: Agents, config: Config) -> None:
    long = "x" * (LONGEST + 40)
    agents.say("s", f"{long} apple")
    (id_,) = store.postings("apple")
    assert store.postings(long) == [id_]
    assert store.postings(long[:-1]) == []
    assert store.postings(long[:-1], prefix=True) == [id_]
    assert is_right(store, config) == []
    assert store.check_index([id_]) == {}, "also for who looks at some"


def test_the_index_is_made_again_whole_or_in_part(filled: PostgresStore, config: Config) -> None:
    before = answers(filled)
    ids = [id_ for (id_,) in filled.rows("select id from segments order by id")]
    for some in (ids[:1], ids, [], None, ids[1:]):
        filled.reindex(some)
        assert answers(filled) == before
        assert is_right(filled, config) == []


# ── all of it together ───────────────────────────────────────────────────────────────────────────────────────────────
@pytest.mark.parametrize("seed", range(3))
def test_whatever_happens_a_server_finds_what_a_file_does(
    store: PostgresStore, toy: Toy, tmp_path: Path, config: Config, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    monkeypatch.setattr(_postgres_index, "MOST_ALIKE", 3)
    monkeypatch.setattr(_postgres_index, "CHECK_EVERY", 7)
    monkeypatch.setattr(_postgres_index, "LARGE_BYTES", (200, 600, 1 << 21))
    monkeypatch.setattr(_postgres_put, "VOLUME_BYTES", 150)
    chosen = random.Random(seed)
    words = [f"{stem}{end}" for stem in ("ap", "app", "green", "é", "日本") for end in ("", "le", "les", "s")]
    with closing(open_store(str(tmp_path / "alone.db"))) as file:
        pair = [Agents(store, toy, tmp_path / "one"), Agents(file, toy, tmp_path / "two")]

        def happen() -> None:
            name, what = f"s{chosen.randrange(6)}", chosen.random()
            texts = [" ".join(chosen.choices(words, k=chosen.randrange(1, 12))) for _ in range(chosen.randrange(1, 4))]
            kind = chosen.choice(["user_msg", "assistant_msg", "tool_result"])
            for agents in pair:
                is_there = agents.store.session(f"toy:{name}") is not None
                if what < 0.7 or not is_there:
                    agents.say(name, texts[0], kind=kind)
                elif what < 0.9:
                    agents.say_instead(name, *texts)
                else:
                    agents.store.evict([f"toy:{name}"], NOW)
                    agents.say(name, texts[0], kind=kind)

        for n in range(12):
            with store.transaction(), file.transaction():
                for _ in range(chosen.randrange(1, 5)):
                    happen()
            if n % 4 == 3:
                bind(store)
            for word in words:
                for prefix in (False, True):
                    for column in (None, "said", "prompt", "reply", "tool"):
                        assert uids(store, word, prefix=prefix, column=column) == uids(file, word, prefix=prefix, column=column)
                phrase = f"{chosen.choice(words)} {word}"
                assert uids(store, phrase) == uids(file, phrase)
        assert store.check_index(None) == {}
        for agents in pair:
            agents.store.forget(["toy:s0", "toy:s1"], NOW)
        assert {uid for of in written(store).values() for uid in of} <= {f"toy:s{n}" for n in range(2, 6)}
        assert all(uids(store, word) == uids(file, word) for word in words)
