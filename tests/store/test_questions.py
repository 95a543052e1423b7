"""Questions in plain words: what answers them, in what order, the same in every store."""

from __future__ import annotations

import random
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import pytest

from runlore.errors import NotFound
from runlore.search import Answer, parse, related, search
from runlore.search.dates import find_period
from runlore.search.questions import find_clues, is_question
from runlore.search.stems import forms_of
from runlore.store import Store, open_store
from runlore.store.postgres.store import PostgresStore
from tests.store.test_postgres_index import Agents
from tests.toy import Toy, line

CHATS = {
    "camping": (
        "Mira: Hey Jo! How was the weekend?",
        "Jo: Great, we went camping at the lake with the kids. The tent leaked all night.",
        "Mira: Oh no! Did you get any sleep?",
        "Jo: Hardly. But the kids loved the canoe.",
    ),
    "piano": (
        "Jo: I finally bought a second-hand piano.",
        "Mira: Lovely! Will you take lessons?",
        "Jo: Every Thursday, with an old neighbour who taught at the conservatory.",
        "Mira: I used to play the violin, but sold it.",
    ),
    "pottery": (
        "Mira: My pottery class starts next week. I'm nervous.",
        "Jo: You'll be fine. What made you sign up?",
        "Mira: My therapist suggested doing something with my hands.",
        "Jo: Good advice. Bring me a mug.",
    ),
    "adoption": (
        "Jo: We met the adoption agency today.",
        "Mira: Wow, how did it go?",
        "Jo: They were kind. It takes about two years, with interviews and home visits.",
        "Mira: I'm so happy for you two.",
    ),
    "marathon": (
        "Mira: I ran the half marathon in Leeds, in the rain.",
        "Jo: Congratulations! What was your time?",
        "Mira: Just under two hours. My knee hurts now.",
        "Jo: See a physio before the next race.",
    ),
    "job": (
        "Jo: I quit the bakery. I start at the library in autumn.",
        "Mira: Finally! You always loved books.",
        "Jo: Less money, but no more getting up at three.",
        "Mira: We should celebrate with dinner.",
    ),
}
ASKED = {
    "When did Jo go camping with the children?": "camping",
    "What leaked during the night?": "camping",
    "Who teaches Jo the piano?": "piano",
    "Which instrument did Mira sell?": "piano",
    "Why did Mira sign up for a pottery class?": "pottery",
    "What did the therapist suggest to Mira?": "pottery",
    "How long will the adoption take?": "adoption",
    "Where did Mira run a half marathon?": "marathon",
    "What is wrong with Mira's knee?": "marathon",
    "Where will Jo be working after quitting the bakery?": "job",
}


@pytest.fixture
def agents(store: Store, toy: Toy, tmp_path: Path) -> Agents:
    return Agents(store, toy, tmp_path / "toy")


def names(answer: Answer) -> list[str]:
    return [hit.session.uid.partition(":")[2] for hit in answer.hits]


def say_all(agents: Agents) -> None:
    for name, turns in CHATS.items():
        for turn, text in enumerate(turns):
            agents.say(name, text, kind="assistant_msg" if turn % 2 else "user_msg")


def test_questions_about_chats_are_answered_first(store: Store, agents: Agents) -> None:
    say_all(agents)
    firsts = {question: names(search(store, question))[:1] for question in ASKED}
    assert firsts == {question: [name] for question, name in ASKED.items()}


def test_words_of_a_question_may_have_other_endings(store: Store, agents: Agents) -> None:
    agents.say("trip", "I am organizing the excursion")
    agents.say("other", "the weather is nice")
    assert names(search(store, "who organized the excursions?")) == ["trip"]


def test_exact_words_stay_exact(store: Store, agents: Agents) -> None:
    agents.say("organizing", "organizing the excursion")
    agents.say("organized", "we organized one excursion")
    assert names(search(store, "organized excursion")) == ["organized"]


def test_a_question_forgives_words_that_nobody_has_and_names_them(
    store: Store, agents: Agents
) -> None:
    agents.say("login", "the login page rejects every password")
    agents.say("other", "the page is blue")
    answer = search(store, "why does the frobnicator login reject passwords?")
    assert names(answer)[0] == "login"
    assert answer.missing == ["frobnicator"]


def test_stop_words_choose_nothing(store: Store, agents: Agents) -> None:
    agents.say("words", "where did we do this, and what was it about then")
    agents.say("parser", "a parser of brackets")
    assert names(search(store, "where did we do the parser?")) == ["parser"]


def test_the_snippet_shows_the_passage_that_answers(store: Store, agents: Agents) -> None:
    agents.say("long", "the cache again. " + "unrelated words follow here. " * 400)
    agents.say("long", "and eviction of the cache happens at midnight", kind="assistant_msg")
    (hit,) = search(store, "when does the eviction of the cache happen?").hits
    (event,) = [event for event in hit.events if "midnight" in event.snippet]
    assert [event.snippet[a:b] for a, b in event.marks] == ["eviction", "cache"]


def test_what_was_said_comes_before_what_a_tool_printed(store: Store, agents: Agents) -> None:
    agents.say("tool", "lock contention in the writer", kind="tool_result")
    agents.say("said", "lock contention in the writer")
    assert names(search(store, "why is there lock contention in the writer?")) == ["said", "tool"]


def test_words_near_each_other_come_before_words_apart(store: Store, agents: Agents) -> None:
    agents.say("apart", "refund. " + "nothing of interest in this line. " * 300 + " webhook")
    agents.say("near", "nothing here. " * 300 + " the refund webhook" + " nothing there" * 300)
    assert names(search(store, "refund webhook")) == ["near", "apart"]


def test_the_time_that_a_question_names_is_a_hint(store: Store, agents: Agents) -> None:
    for name, days in (("march", 70), ("may", 130), ("july", 190)):
        agents.say(name, "we upgraded the database", at=days * 86_400)
    assert names(search(store, "how did we upgrade the database in May 2026?")) == [
        "may",
        "july",
        "march",
    ]


def test_a_recent_session_does_not_beat_a_better_one(store: Store, agents: Agents) -> None:
    agents.say("old", "we upgraded the database to version nine", at=0)
    agents.say("new", "the database is slow today", at=2000 * 86_400)
    assert names(search(store, "how did we upgrade the database?"))[0] == "old"


def test_a_score_is_the_sum_of_what_explains_it(store: Store, agents: Agents) -> None:
    say_all(agents)
    for text in ("What leaked during the night?", "tent leaked", "camping"):
        for hit in search(store, text).hits:
            assert hit.why
            assert sum(hit.why.values()) == pytest.approx(hit.score, abs=0.01)


def test_any_of_several_words_is_found_in_its_column(store: Store, agents: Agents) -> None:
    agents.say("one", "apples and pears")
    agents.say("two", "no fruit", kind="assistant_msg")
    agents.say("three", "apple juice", kind="tool_result")
    index = store.index
    assert len(index.having(["apple", "apples"])) == 2
    assert len(index.having(["apple", "apples"], column="said")) == 1
    assert len(index.having(["fruit", "juice"], column="tool")) == 1
    assert index.having(["absent", "missing"]) == []


@pytest.mark.parametrize("seed", range(3))
def test_a_server_gives_the_same_order_as_a_file(
    server: object, toy: Toy, tmp_path: Path, seed: int
) -> None:
    chosen = random.Random(seed)
    words = "cache lock writer refund webhook parser tokens deploy failing errors pool".split()
    address = server.make_schema()  # type: ignore[attr-defined]
    with (
        closing(open_store(str(tmp_path / "alone.db"))) as file,
        closing(PostgresStore(address, machine="desk", author="ann")) as remote,
    ):
        pair = [Agents(file, toy, tmp_path / "one"), Agents(remote, toy, tmp_path / "two")]
        for _ in range(40):
            name = f"s{chosen.randrange(12)}"
            text = " ".join(chosen.choices(words, k=chosen.randrange(1, 9)))
            kind = chosen.choice(["user_msg", "assistant_msg", "tool_result"])
            for agents in pair:
                agents.say(name, text, kind=kind)
        for _ in range(12):
            some = " ".join(chosen.sample(words, 3))
            for text in (f"why did the {some} fail?", some, some.partition(" ")[0]):
                first, second = (
                    [(hit.session.uid, hit.score, hit.events) for hit in search(one, text).hits]
                    for one in (file, remote)
                )
                assert first == second, text


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("where did we fix the login?", True),
        ("why broken?", False),
        ("login fails", False),
        ("how does the parser work", True),
        ("agent:claude why is the build broken?", True),
        ("wo wurde der Parser repariert?", True),
        ("the session in which we talked about retries", True),
        ("what is it?", False),
        ("where -login fails now?", False),
        ("where is log* written?", False),
        ("tool:Bash why is the build broken?", False),
    ],
)
def test_a_question_is_recognized_by_its_form(text: str, expected: bool) -> None:
    assert is_question(parse(text)) is expected


def test_identifiers_of_a_question_count_whole_and_in_parts() -> None:
    clues = find_clues(parse("why does parse_http fail in gitsync's worker?"))
    assert [(clue.text, clue.is_exact, clue.is_part) for clue in clues] == [
        ("parse_http", True, False),
        ("parse", False, True),
        ("http", False, True),
        ("fail", False, False),
        ("gitsync", False, False),
        ("worker", False, False),
    ]


@pytest.mark.parametrize(
    ("word", "others"),
    [
        ("organized", {"organize", "organizing", "organization"}),
        ("stories", {"story"}),
        ("running", {"run", "runs", "ran"}),
        ("go", {"went", "gone"}),
        ("cases", {"case", "casing"}),
    ],
)
def test_a_word_has_the_forms_of_its_stem(word: str, others: set[str]) -> None:
    assert others <= forms_of(word)
    assert "organ" not in forms_of("go")


@pytest.mark.parametrize(
    ("text", "first", "days"),
    [
        ("what did we do in May?", "2026-05-01", 31),
        ("what did we do in December?", "2025-12-01", 31),
        ("what was fixed on 3 March 2025", "2025-03-03", 1),
        ("which sessions last week broke", "2026-06-01", 7),
        ("what happened on 2026-03-14?", "2026-03-14", 1),
        ("may this break?", None, 0),
        ("what is the 404 about?", None, 0),
    ],
)
def test_a_question_may_name_a_time(text: str, first: str | None, days: int) -> None:
    period = find_period(text.split(), datetime(2026, 6, 10, 12, tzinfo=UTC))
    named = period and (
        period.first.astimezone().date().isoformat(),
        round((period.last - period.first).total_seconds() / 86_400),
    )
    assert named == (first and (first, days))


def test_sessions_with_the_same_files_or_words_are_related(store: Store, agents: Agents) -> None:
    agents.say("first", "repair the invoice rounding")
    agents["first"].put(line(title="repair the invoice rounding"))
    agents.say("second", "the invoice has a rounding difference again")
    agents.say("third", "paint the fence")
    found = related(store, "toy:first")
    assert [(one.session.uid, one.why) for one in found] == [
        ("toy:second", ["same words: invoice, rounding"])
    ]
    with pytest.raises(NotFound):
        related(store, "toy:nobody")
