"""The index over words that PostgreSQL keeps: what is found when segments come, change and go, and
how it is put right."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path

import pytest

from runlore import doctor
from runlore.config import Config
from runlore.doctor import file_checks
from runlore.model import Digest
from runlore.store import Batch, Store, open_store
from runlore.store.postgres.store import PostgresStore
from runlore.store.tsvectors import MAX_WORD_CHARS
from tests.postgres import Server
from tests.store.test_contract import Agent
from tests.store.test_postgres import is_right
from tests.toy import Toy, line

NOW = datetime(2027, 1, 1, tzinfo=UTC)
SOME = "(select min(id) from search)"


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
        self[name].file.write_bytes(
            b"".join(line(id=f"{name}-{n}", text=text) for n, text in enumerate(texts))
        )
        self.store.ingest.rederive(self[name].number, self[name].fresh())

    def _lines(self, name: str) -> int:
        file = self[name].file
        return file.read_bytes().count(b"\n") if file.exists() else 0


@pytest.fixture
def agents(store: PostgresStore, toy: Toy, tmp_path: Path) -> Agents:
    return Agents(store, toy, tmp_path / "toy")


@contextmanager
def taken_back(store: PostgresStore) -> Iterator[None]:
    """A transaction of which nothing is kept."""
    with suppress(ZeroDivisionError), store.transaction():
        yield
        raise ZeroDivisionError


def words_in(store: PostgresStore) -> dict[str, set[str]]:
    """Every word that the index has, and the sessions that it is of. Without those that are added
    to every segment, for filters."""
    names: dict[int, str] = dict(store.maintenance.rows("select number, uid from sessions"))
    sql = "select session, tsvector_to_array(prompt || reply || tool) from ({}) s"
    columns = ", ".join(f"coalesce({name}, '') as {name}" for name in ("prompt", "reply", "tool"))
    words: dict[str, set[str]] = {}
    for session, of in store.maintenance.rows(sql.format(f"select session, {columns} from search")):
        for word in of:
            if not word.startswith("zq"):
                words.setdefault(word, set()).add(names.get(session, "nobody"))
    return words


def uids(store: Store, term: str, *, prefix: bool = False, column: str | None = None) -> list[str]:
    """The sessions in which a search finds a term."""
    names: dict[int, str] = dict(store.maintenance.rows("select number, uid from sessions"))
    found = store.index.postings(term, prefix=prefix, column=column)
    assert found == sorted(set(found)), "each once, ascending"
    return sorted({names[id_ >> 20].removeprefix("toy:") for id_ in found})


def digest_of(store: Store, uid: str, **fields: object) -> Digest:
    session = store.sessions.get(uid)
    assert session is not None
    covers = {"last_seq": session.last_seq, "content_hash": session.content_hash}
    return Digest.from_dict({"session_uid": uid, "version": 1, "covers": covers, **fields})


def test_what_is_put_is_found_by_words_prefixes_phrases_and_columns(
    store: PostgresStore, agents: Agents
) -> None:
    for n in range(5):
        agents.say(f"s{n}", f"apple w{n} green pear")
    everybody = [f"s{n}" for n in range(5)]
    assert uids(store, "apple") == everybody
    assert uids(store, "ap", prefix=True) == everybody
    assert uids(store, "green pear") == everybody
    assert uids(store, "pear green") == []
    assert uids(store, "apple", column="prompt") == everybody
    assert uids(store, "apple", column="tool") == []
    assert [uids(store, f"w{n}") for n in range(5)] == [[name] for name in everybody]


def test_whoever_writes_finds_it_before_others_do(
    store: PostgresStore, address: str, agents: Agents
) -> None:
    with store.transaction(), closing(PostgresStore(address, read_only=True)) as reader:
        agents.say("s", "apple")
        assert uids(store, "apple") == ["s"]
        assert uids(reader, "apple") == []
    assert uids(store, "apple") == ["s"]


# ── segments that are written again ───────────────────────────────────────────────────────────────
def test_a_segment_that_grows_is_found_by_all_its_words_and_once(
    store: PostgresStore, agents: Agents, config: Config
) -> None:
    agents.say("other", "green")
    agents.say("s", "apple green")
    (id_,) = store.index.postings("apple")
    agents.say("s", "pear green")
    assert store.index.postings("apple") == store.index.postings("pear") == [id_]
    assert uids(store, "green") == ["other", "s"]
    assert uids(store, "apple green") == uids(store, "pear green") == ["s"]
    assert is_right(store, config) == []


def test_a_segment_that_is_written_again_is_not_found_by_words_that_are_gone(
    store: PostgresStore, agents: Agents, config: Config
) -> None:
    agents.say("other", "apple")
    agents.say("s", "apple green")
    (id_,) = store.index.postings("green")
    agents.say_instead("s", "quince green", "red plum")
    assert store.index.postings("quince") == [id_], "under the same id"
    assert uids(store, "apple") == ["other"]
    assert uids(store, "app", prefix=True) == ["other"]
    assert uids(store, "apple green") == []
    assert [uids(store, word) for word in ("quince", "green", "plum", "quince green")] == [
        ["s"]
    ] * 4
    assert is_right(store, config) == []


# ── transactions ──────────────────────────────────────────────────────────────────────────────────
def test_what_is_put_and_dropped_in_one_transaction_leaves_nothing(
    store: PostgresStore, agents: Agents
) -> None:
    with store.transaction():
        agents.say("s", "apple")
        store.retention.drop_sessions(
            [number for (number,) in store.maintenance.rows("select number from sessions")]
        )
    assert store.maintenance.rows("select * from search") == []


def test_what_is_put_and_put_again_in_one_transaction_is_written_once(
    store: PostgresStore, agents: Agents, config: Config
) -> None:
    agents.say("s", "cherry")
    with store.transaction():
        agents.say("s", "apple")
        agents.say_instead("s", "pear")
        agents.say("s", "plum")
    assert store.maintenance.rows("select count(*) from search") == [(1,)]
    assert set(words_in(store)) == {"pear", "plum"}
    assert is_right(store, config) == []


def test_a_step_that_fails_leaves_the_words_before_it_and_none_of_its_own(
    store: PostgresStore, agents: Agents, config: Config
) -> None:
    agents.say("s", "apple")

    def broken() -> Iterator[Batch]:
        yield from agents["s"].fresh()
        yield from agents["new"].fresh()
        assert uids(store, "pear") == ["other"]
        raise ZeroDivisionError

    with store.transaction():
        agents.say("other", "pear")
        agents.say("s", "green")
        right = agents["s"].file.read_bytes()
        agents["s"].file.write_bytes(line(id="s-0", text="plum"))
        agents["new"].file.write_bytes(line(id="n", text="quince"))
        with pytest.raises(ZeroDivisionError):
            store.ingest.rederive(agents["s"].number, broken())
        agents["s"].file.write_bytes(right)
        agents.say("last", "cherry")
    words = ("apple", "green", "pear", "cherry", "plum", "quince")
    assert [uids(store, word) for word in words] == [["s"], ["s"], ["other"], ["last"], [], []]
    assert {"plum", "quince"}.isdisjoint(words_in(store))
    assert is_right(store, config) == []


def test_a_transaction_that_is_taken_back_leaves_no_words(
    store: PostgresStore, agents: Agents, config: Config
) -> None:
    agents.say("s", "apple")
    right = agents["s"].file.read_bytes()
    with taken_back(store):
        agents.say_instead("s", "plum")
        agents.say("new", "quince")
        assert uids(store, "plum") == ["s"]
    agents["s"].file.write_bytes(right)
    assert set(words_in(store)) == {"apple"}
    agents.say("later", "pear")
    assert [uids(store, word) for word in ("apple", "plum", "quince", "pear")] == [
        ["s"],
        [],
        [],
        ["later"],
    ]
    agents["new"].file.unlink()
    assert is_right(store, config) == []


# ── forgetting ────────────────────────────────────────────────────────────────────────────────────
def test_no_word_of_what_is_forgotten_is_left(
    store: PostgresStore, agents: Agents, config: Config, server: Server
) -> None:
    agents.say("s", "apple secretword same")
    agents.say("other", "apple pear")
    agents.say_instead("s", "apple secretplace same")
    agents.say("s", "secretend " + " ".join(f"secret{n}" for n in range(2000)))
    store.retention.forget(["toy:s"], NOW)
    assert words_in(store) == {"apple": {"toy:other"}, "pear": {"toy:other"}}
    assert uids(store, "apple") == ["other"]
    assert is_right(store, config) == []
    # Neither in the table nor in the index, as the server's files have them.
    server.execute("checkpoint")
    names = (
        "select pg_relation_filepath(c.oid) from pg_class c where relkind in ('r', 'i', 't') and"
        " relname ~ 'search|segments'"
    )
    toasts = (
        "select pg_relation_filepath(reltoastrelid) from pg_class where relname ~ 'search|segments'"
        " and reltoastrelid <> 0"
    )
    files = [
        server.folder / path
        for (path,) in store.maintenance.rows(f"{names} union {toasts}")
        if path
    ]
    assert not [file for file in files if file.exists() and b"secretplace" in file.read_bytes()]


def test_no_word_of_what_is_evicted_is_left_but_what_its_digest_quotes(
    store: PostgresStore, agents: Agents, config: Config
) -> None:
    with store.transaction():
        agents.say("other", "apple pear")
        agents.say("s", "apple secretword")
        agents.say("s", "secretplace")
    store.digests.put(digest_of(store, "toy:s", excerpts=[{"seq": 0, "text": "apple"}]), NOW)
    store.retention.evict(["toy:s"], NOW)
    assert [uids(store, word) for word in ("apple", "secretword", "secretplace")] == [
        ["other", "s"],
        [],
        [],
    ]
    store.retention.shrink()
    assert words_in(store) == {"apple": {"toy:other", "toy:s"}, "pear": {"toy:other"}}
    assert uids(store, "apple") == ["other", "s"]
    assert store.maintenance.check_index(None) == {}
    assert is_right(store, config) == []


# ── readers ───────────────────────────────────────────────────────────────────────────────────────
def test_a_reader_answers_as_of_its_snapshot(
    store: PostgresStore, address: str, agents: Agents
) -> None:
    for n in range(3):
        agents.say(f"s{n}", f"apple green pear w{n}")
    everybody = [f"s{n}" for n in range(3)]
    with (
        closing(PostgresStore(address, read_only=True)) as reader,
        closing(PostgresStore(address, read_only=True)) as later,
    ):
        assert uids(later, "apple") == everybody
        with reader.snapshot():
            assert uids(reader, "apple") == everybody
            agents.say_instead("s0", "plum")
            agents.say("s3", "apple green pear")
            # Others than what it has asked for already.
            for term in ("apple", "pear", "green pear", "w0"):
                assert uids(reader, term) == (["s0"] if term == "w0" else everybody), term
            assert uids(reader, "gr", prefix=True) == everybody
            assert uids(reader, "plum") == []
        for one in (reader, later):
            assert [uids(one, term) for term in ("w0", "plum")] == [[], ["s0"]]
            assert uids(one, "apple") == uids(one, "green pear") == ["s1", "s2", "s3"]


# ── the doctor ────────────────────────────────────────────────────────────────────────────────────
@pytest.fixture
def filled(store: PostgresStore, agents: Agents, toy: Toy) -> PostgresStore:
    """Three sessions; one of the segments was written again."""
    with store.transaction():
        agents.say("a", "apple green pear")
        agents.say("b", "green apple")
        agents.say("b", "apple", kind="assistant_msg")
    with store.transaction():
        agents.say("c", "cherry green pear", kind="tool_result")
        agents.say("a", "pear plum")
    return store


DAMAGE = {
    "words that are gone": f"delete from search where id = {SOME}",
    "all words are gone": "delete from search",
    "words of another segment": f"update search set prompt = 'something else' where id = {SOME}",
    "a word too many": "update search set reply = coalesce(reply, '') || 'date'::tsvector",
    "words in a part of their own": (
        "insert into search select session, id, 1, 'apple', null, null from search where id ="
        f" {SOME}"
    ),
    "words of another segment in their order": (
        "update segments set stream = (select stream from segments order by id desc limit 1)"
    ),
    "words in their order that cannot be read": "update segments set stream = '\\x00'",
    "no words in their order": "update segments set stream = null",
}  # fmt: skip


def answers(store: Store) -> dict[str, list[str]]:
    """What a search finds, of each kind."""
    made = {
        word: uids(store, word) for word in ("apple", "pear", "plum", "cherry", "green", "nothing")
    }
    made |= {f"{word}*": uids(store, word, prefix=True) for word in ("p", "gre", "appl", "x")}
    made |= {
        phrase: uids(store, phrase)
        for phrase in ("green pear", "pear green", "apple green", "pear plum")
    }
    made |= {
        f"ap* in {column}": uids(store, "ap", prefix=True, column=column)
        for column in ("prompt", "reply", "tool", "said")
    }
    return made


def index_problems(report: doctor.Report) -> list[str]:
    return next(check.problems for check in report.checks if check.name == "index")


def is_mended(store: PostgresStore, config: Config, before: dict[str, list[str]]) -> bool:
    """Whether a repair makes all of it right."""
    report = doctor.examine(store, config, full=True, repair=True)
    assert report.ok
    assert report.repaired
    assert is_right(store, config) == []
    return answers(store) == before


def test_the_answers_of_an_index_that_is_right(filled: PostgresStore, config: Config) -> None:
    assert is_right(filled, config) == []
    assert (
        filled.maintenance.check_index(
            [id_ for (id_,) in filled.maintenance.rows("select id from segments")]
        )
        == {}
    )
    assert answers(filled) == {
        "apple": ["a", "b"], "pear": ["a", "c"], "plum": ["a"], "cherry": ["c"],
        "green": ["a", "b", "c"], "nothing": [],
        "p*": ["a", "c"], "gre*": ["a", "b", "c"], "appl*": ["a", "b"], "x*": [],
        "green pear": ["a", "c"], "pear green": [], "apple green": ["a"], "pear plum": ["a"],
        "ap* in prompt": ["a", "b"], "ap* in reply": ["b"], "ap* in tool": [],
        "ap* in said": ["a", "b"],
    }  # fmt: skip


@pytest.mark.parametrize("kind", DAMAGE)
def test_damage_to_the_index_is_found_and_made_right(
    filled: PostgresStore, config: Config, kind: str
) -> None:
    before = answers(filled)
    filled.db.execute(DAMAGE[kind])
    report = doctor.examine(filled, config, full=True)
    assert index_problems(report)
    assert not report.hopeless
    assert is_mended(filled, config, before)


@pytest.mark.parametrize("kind", DAMAGE)
def test_damage_to_the_index_is_found_also_by_who_looks_at_some_segments(
    filled: PostgresStore, config: Config, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    monkeypatch.setattr(file_checks, "INDEX_SAMPLE", 3)
    assert index_problems(doctor.examine(filled, config)) == []
    filled.db.execute(DAMAGE[kind])
    assert index_problems(doctor.examine(filled, config))


def test_a_segment_that_is_only_in_the_index_is_found_and_removed(
    filled: PostgresStore, config: Config
) -> None:
    before = answers(filled)
    (session,) = filled.maintenance.rows("select min(session) from search")[0]
    stray = (session << 20) + 77
    filled.db.execute(
        "insert into search values (?, ?, 0, 'apple stray', null, null)", (session, stray)
    )
    assert (
        filled.maintenance.check_index(None)
        == filled.maintenance.check_index([])
        == {stray: "is in the index and nowhere else"}
    )
    assert is_mended(filled, config, before)
    assert "stray" not in words_in(filled)


def test_a_phrase_is_found_by_the_transaction_that_puts_it(
    store: PostgresStore, agents: Agents
) -> None:
    agents.say("a", "green apple")
    with store.transaction():
        assert uids(store, "green apple") == ["a"]
        agents.say("b", "green apple")
        assert uids(store, "green apple") == ["a", "b"]


def test_a_word_that_is_longer_than_the_index_has_is_right(
    store: PostgresStore, agents: Agents, config: Config
) -> None:
    long = "x" * (MAX_WORD_CHARS + 40)
    agents.say("s", f"{long} apple")
    (id_,) = store.index.postings("apple")
    assert store.index.postings(long) == [id_]
    assert store.index.postings(long[:-1]) == []
    assert store.index.postings(long[:-1], prefix=True) == [id_]
    assert is_right(store, config) == []
    assert store.maintenance.check_index([id_]) == {}, "also for who looks at some"


def test_the_index_is_made_again_whole_or_in_part(filled: PostgresStore, config: Config) -> None:
    before = answers(filled)
    ids = [id_ for (id_,) in filled.maintenance.rows("select id from segments order by id")]
    for some in (ids[:1], ids, [], None, ids[1:]):
        filled.maintenance.reindex(some)
        assert answers(filled) == before
        assert is_right(filled, config) == []


# ── all of it together ────────────────────────────────────────────────────────────────────────────
@pytest.mark.parametrize("seed", range(3))
def test_whatever_happens_a_server_finds_what_a_file_does(
    store: PostgresStore, toy: Toy, tmp_path: Path, seed: int
) -> None:
    chosen = random.Random(seed)
    words = [
        f"{stem}{end}"
        for stem in ("ap", "app", "green", "é", "日本")
        for end in ("", "le", "les", "s")
    ]
    with closing(open_store(str(tmp_path / "alone.db"))) as file:
        pair = [Agents(store, toy, tmp_path / "one"), Agents(file, toy, tmp_path / "two")]

        def happen() -> None:
            name, what = f"s{chosen.randrange(6)}", chosen.random()
            texts = [
                " ".join(chosen.choices(words, k=chosen.randrange(1, 12)))
                for _ in range(chosen.randrange(1, 4))
            ]
            kind = chosen.choice(["user_msg", "assistant_msg", "tool_result"])
            for agents in pair:
                is_there = agents.store.sessions.get(f"toy:{name}") is not None
                if what < 0.7 or not is_there:
                    agents.say(name, texts[0], kind=kind)
                elif what < 0.9:
                    agents.say_instead(name, *texts)
                else:
                    agents.store.retention.evict([f"toy:{name}"], NOW)
                    agents.say(name, texts[0], kind=kind)

        for _ in range(12):
            with store.transaction(), file.transaction():
                for _ in range(chosen.randrange(1, 5)):
                    happen()
            for word in words:
                for prefix in (False, True):
                    for column in (None, "said", "prompt", "reply", "tool"):
                        assert uids(store, word, prefix=prefix, column=column) == uids(
                            file, word, prefix=prefix, column=column
                        )
                phrase = f"{chosen.choice(words)} {word}"
                assert uids(store, phrase) == uids(file, phrase)
        assert store.maintenance.check_index(None) == {}
        for agents in pair:
            agents.store.retention.forget(["toy:s0", "toy:s1"], NOW)
        assert {uid for of in words_in(store).values() for uid in of} <= {
            f"toy:s{n}" for n in range(2, 6)
        }
        assert all(uids(store, word) == uids(file, word) for word in words)
