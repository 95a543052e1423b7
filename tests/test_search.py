"""What a query finds, in what order, and what is shown of it. The agent is made up; see `toy`."""

from __future__ import annotations

import random
import unicodedata
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import apsw
import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from runlore import adapters
from runlore import search as engine
from runlore.errors import NotFound, RunloreError
from runlore.search import Answer, QueryError, advice, parse, ranked, scan
from runlore.search.text import SNIPPET_BYTES, snippet
from runlore.store import Store, open_store
from runlore.store.segments import SEGMENT_BYTES
from runlore.sync.prepare import Job, Preparer, Setting
from runlore.sync.redaction import RedactSetting
from tests.toy import Toy, line

NOW = datetime(2026, 3, 14, 12, tzinfo=UTC)


class Lore:
    """A store that is filled session by session."""

    def __init__(self, folder: Path, adapter: Toy) -> None:
        self.folder, self.adapter = folder / "toy", adapter
        self.folder.mkdir(parents=True, exist_ok=True)
        self.store: Store = open_store(str(folder / "runlore.db"))
        self.preparer = Preparer(Setting(redact=RedactSetting(key_path=str(folder / "key"))))

    def add(self, name: str, *events: str | dict[str, Any]) -> Lore:
        """Appends to the file of a session, and puts what is new in it. A text alone is a
        prompt."""
        file = self.folder / f"{name}.jsonl"
        done = file.read_bytes().count(b"\n") if file.exists() else 0
        with file.open("ab") as out:
            for n, event in enumerate(events, done):
                out.write(
                    line(
                        **{
                            "id": f"{name}-{n}",
                            **({"text": event} if isinstance(event, str) else event),
                        }
                    )
                )
        source = next(s for s in self.adapter.discover(self.folder) if s.path == str(file))
        state = self.store.sources.by_path().get(str(file))
        job = Job(source=source)
        if state is not None and state.position.offset:
            job = Job(
                source=source, since=state.position, resume=self.store.sources.resume(state.number)
            )
        batch = self.preparer.prepare(job).batch
        assert batch is not None
        self.store.ingest.put(batch)
        return self

    def search(self, text: str, **options: Any) -> Answer:
        return engine.search(self.store, text, **options)

    def uids_of(self, text: str, **options: Any) -> list[str]:
        """The names of the sessions, the best first."""
        return names(self.search(text, **options))

    def places(self, text: str) -> list[tuple[str, list[int]]]:
        """The sessions, and which events are shown of each."""
        return [
            (hit.session.uid.partition(":")[2], [event.seq for event in hit.events])
            for hit in self.search(text).hits
        ]


def names(answer: Answer) -> list[str]:
    return [hit.session.uid.partition(":")[2] for hit in answer.hits]


def marked(answer: Answer) -> list[str]:
    """What is marked in all snippets."""
    return [
        event.snippet[a:b] for hit in answer.hits for event in hit.events for a, b in event.marks
    ]


@pytest.fixture
def lore(tmp_path: Path, toy: Toy) -> Iterator[Lore]:
    made = Lore(tmp_path, toy)
    yield made
    made.store.close()


def call(text: str, tool: str = "Bash", **more: Any) -> dict[str, Any]:
    return {"kind": "tool_call", "tool": tool, "text": text, **more}


def result(text: str, tool: str = "Bash", **more: Any) -> dict[str, Any]:
    return {"kind": "tool_result", "tool": tool, "text": text, **more}


# ── injected text ─────────────────────────────────────────────────────────────────────────────────
def injected(text: str) -> dict[str, Any]:
    return {"kind": "lifecycle", "text": text}


def test_injected_text_comes_last_and_says_so(lore: Lore) -> None:
    for n in range(30):
        lore.add(f"s{n}", "hello", injected("skills: deploy deploy deploy, release, deploy"))
    lore.add("real", injected("skills: deploy, release"), "hello", result("deploy failed"))
    answer = lore.search("deploy", limit=5)
    assert names(answer)[0] == "real"
    assert [(event.seq, event.is_injected) for event in answer.hits[0].events] == [(2, False)]
    assert len(answer.hits) == 5
    assert [event.is_injected for event in answer.hits[1].events] == [True]
    assert lore.search("deploy", limit=5).total == 31


def test_injected_text_can_be_asked_for_as_a_hit_calls_it(lore: Lore) -> None:
    lore.add("one", injected("skills: deploy, release"), "please deploy")
    lore.add("two", "please deploy")
    [hit] = lore.search("deploy kind:injected").hits
    assert [(event.seq, event.is_injected) for event in hit.events] == [(0, True)]


def test_injected_text_is_shown_only_for_words_that_nothing_else_has(lore: Lore) -> None:
    lore.add("one", injected("skills: deploy, release"), "please deploy")
    assert lore.places("deploy") == [("one", [1])]
    assert lore.places("release") == [("one", [0])]
    assert lore.places("deploy release") == [("one", [0, 1])]
    assert lore.places("deploy kind:lifecycle") == [("one", [0])]


def test_what_was_said_far_behind_an_injected_text_is_found(lore: Lore) -> None:
    filler = [f"filler {'x' * SEGMENT_BYTES}" for _ in range(2)]
    lore.add("long", injected("deploy " * 50), *filler, "now deploy it")
    lore.add("other", injected("deploy " * 50))
    assert lore.places("deploy")[0] == ("long", [3])


def test_injected_text_that_is_proven_late_comes_last_too(
    lore: Lore, monkeypatch: pytest.MonkeyPatch
) -> None:
    filler = "filler " * (SEGMENT_BYTES // 7)
    other = [call("ls"), result(f"needle {filler}", tool="Read")]
    lore.add("late", *other * 6, {**injected("needle"), "tool": "Bash"})
    lore.add("real", call("needle"), *[result(f"other {filler}", tool="Read")] * 2)
    assert lore.uids_of("needle") == ["late", "real"], "the first is looked at first"
    monkeypatch.setattr(ranked, "MAX_FIRST_PROOFS", 3)
    answer = lore.search("tool:Bash needle")
    assert (names(answer), answer.is_partial) == (["real", "late"], False)
    assert [event.is_injected for event in answer.hits[1].events] == [True]


def test_newest_first_is_not_changed_by_injected_text(lore: Lore) -> None:
    lore.add("old", {"text": "deploy", "at": 1})
    lore.add("new", {**injected("deploy"), "at": 100})
    assert lore.uids_of("deploy", sort="newest") == ["new", "old"]
    assert lore.uids_of("deploy") == ["old", "new"]


# ── words ─────────────────────────────────────────────────────────────────────────────────────────
def test_a_session_matches_when_every_word_is_in_one_of_its_events(lore: Lore) -> None:
    lore.add("a", "alpha", "beta").add("b", "alpha").add("c", "beta")
    assert lore.uids_of("alpha beta") == ["a"]
    assert sorted(lore.uids_of("alpha")) == ["a", "b"]


def test_case_does_not_matter(lore: Lore) -> None:
    lore.add("a", "ModuleNotFoundError: no module")
    assert (
        lore.uids_of("modulenotfounderror")
        == lore.uids_of("MODULENOTFOUNDERROR")
        == lore.uids_of("ModuleNotFoundError")
        == ["a"]
    )


@pytest.mark.parametrize("query", ["cafe", "café", "CAFÉ", "cafe\u0301"])
@pytest.mark.parametrize("text", ["a cafe here", "a café here", "a CAFÉ here", "a cafe\u0301 here"])
def test_accents_do_not_matter(lore: Lore, query: str, text: str) -> None:
    lore.add("a", text)
    answer = lore.search(query)
    assert names(answer) == ["a"]
    assert unicodedata.normalize("NFC", marked(answer)[0]).lower() in ("cafe", "café")


def test_a_word_is_not_found_inside_another(lore: Lore) -> None:
    lore.add("a", "string theory")
    assert lore.uids_of("in") == []
    assert lore.uids_of("the") == []


def test_words_end_where_an_event_ends(lore: Lore) -> None:
    """Bodies are stored one behind the other without a gap."""
    lore.add("a", "foo", "bar", call("baz"))
    assert lore.uids_of("foobar") == []
    assert lore.places("foo bar") == [("a", [0, 1])]
    assert lore.places("tool:bash baz") == [("a", [2])]


@pytest.mark.parametrize("end", ["alpha", "I", "7", "é", "搜索", "parseUrl", "a_b"])
@pytest.mark.parametrize("filter_", ["", " kind:user_msg", " -nothing"])
def test_the_first_and_the_last_word_of_an_event_are_found(
    lore: Lore, end: str, filter_: str
) -> None:
    lore.add("a", f"before{end}", f"{end} in between {end}", f"{end}", f"{end}after", "x", "y")
    answer = lore.search(end + filter_)
    assert [event.seq for event in answer.hits[0].events if event.seq in (1, 2)] == [1, 2]
    shown = next(event for event in answer.hits[0].events if event.seq == 1)
    assert [shown.snippet[a:b] for a, b in shown.marks] == [end, end]


def test_words_at_the_ends_of_segments_are_found_and_not_joined(lore: Lore) -> None:
    filler = "filler " * (SEGMENT_BYTES // 7)
    lore.add("a", f"{filler} north", f"south {filler} east", "west", f"{filler} need", "le end")
    assert lore.store.index.segment_count() == 4
    for word, seq in (
        ("north", 0),
        ("south", 1),
        ("east", 1),
        ("west", 2),
        ("need", 3),
        ("le", 4),
        ("end", 4),
    ):
        assert lore.places(word) == [("a", [seq])], word
        assert lore.places(f"{word} kind:user_msg -zebra") == [("a", [seq])], word
    assert (
        lore.uids_of('"north south"')
        == lore.uids_of("northsouth")
        == lore.uids_of("needle")
        == lore.uids_of('"need le"')
        == []
    )
    assert lore.uids_of("north south east west end") == ["a"]
    assert matches(lore, r"\bnorth$") == [("a", [0])]
    assert matches(lore, r"^le\b") == [("a", [4])]
    assert matches(lore, "need\\s*le") == []


@pytest.mark.parametrize(
    "sign", ["🙂", "🤖", "🚀", "👍🏽", "⚠\ufe0f", "✅", "\ue0b0", "\ufeff", "…"]
)
def test_a_sign_is_no_part_of_the_word_beside_it(lore: Lore, sign: str) -> None:
    lore.add("a", f"{sign}alpha{sign} beta{sign}gamma parseHttp{sign}")
    for query in ("alpha", "beta", "gamma", "http", '"beta gamma"'):
        assert lore.uids_of(query) == lore.uids_of(f"{query} kind:user_msg") == ["a"], query
    assert lore.uids_of("betagamma") == []


def test_a_letter_with_two_small_forms_is_one(lore: Lore) -> None:
    lore.add("a", "Ο ΛΌΓΟΣ")
    assert [marked(lore.search(query)) for query in ("λόγος", "λόγοσ", "ΛΌΓΟΣ kind:user_msg")] == [
        ["ΛΌΓΟΣ"]
    ] * 3


@pytest.mark.parametrize(
    "query", ["parseHttpUrl", "parsehttpurl", "http", "url", "HTTP", "par*", "htt*"]
)
def test_words_of_mixed_case_are_found_whole_and_in_parts(lore: Lore, query: str) -> None:
    lore.add("a", "call parseHttpUrl(x)").add("b", "nothing of the kind")
    answer = lore.search(query)
    assert names(answer) == ["a"]
    assert marked(answer), "the part is marked"


@pytest.mark.parametrize("query", ["parse_http", "parse", "http", "PARSE_HTTP"])
def test_words_with_underscores_are_found_whole_and_in_parts(lore: Lore, query: str) -> None:
    lore.add("a", "call parse_http(x)").add("b", "nothing")
    assert lore.uids_of(query) == ["a"]


@pytest.mark.parametrize(
    "query",
    ["src/app/main.py", "app/main.py", "main.py", "main", "src/app", "app", "/src/app/main.py"],
)
def test_paths_are_found_whole_and_in_parts(lore: Lore, query: str) -> None:
    lore.add("a", "see src/app/main.py, please").add("b", "src, app")
    assert lore.uids_of(query)[0] == "a"


def test_an_identifier_is_one_word_and_not_its_parts_anywhere(lore: Lore) -> None:
    lore.add("a", "http and parse").add("b", "parse_http")
    assert lore.uids_of("parse_http") == ["b"]


@pytest.mark.parametrize("query", ["“http”", "http…", "→http", "(http)", "http;", "'http'"])
def test_signs_around_a_word_do_not_matter(lore: Lore, query: str) -> None:
    lore.add("a", f"see {query} there")
    for asked in (query, "http"):
        answer = lore.search(asked)
        assert names(answer) == ["a"]
        assert "http" in marked(answer)


def test_options_are_words_and_not_exclusions(lore: Lore) -> None:
    lore.add("a", "ran make --jobs=4")
    assert lore.uids_of("make --jobs=4") == ["a"]


# ── scripts without spaces ────────────────────────────────────────────────────────────────────────
@pytest.mark.parametrize(
    ("text", "query"),
    [
        ("请修复搜索功能的错误", "搜索"),
        ("请修复搜索功能的错误", "搜索功能"),
        ("请修复搜索功能的错误", "误"),
        ("请修复搜索功能的错误", "请"),
        ("検索機能を修正してください", "修正"),
        ("エラーが発生しました", "エラー"),
        ("검색 기능을 고쳐 주세요", "검색"),
        ("검색 기능을 고쳐 주세요", "기능"),
        ("使用parseHttp函数", "parsehttp"),
        ("使用parse_http函数", "parse_http"),
        ("使用http协议", "http"),
        ("使用http协议", "使用http协议"),
        ("使用 http 协议", "http 协议"),
    ],
)
def test_chinese_japanese_and_korean_are_found(lore: Lore, text: str, query: str) -> None:
    lore.add("a", text).add("b", "plain words")
    answer = lore.search(query)
    assert names(answer) == ["a"]
    assert marked(answer)


def test_characters_must_stand_together(lore: Lore) -> None:
    lore.add("a", "搜索 索功").add("b", "搜索功能")
    assert lore.uids_of("搜索功能") == ["b"]
    assert lore.uids_of("搜索功") == ["b"]


@pytest.mark.parametrize(
    "query",
    ["tab关", "把tab关掉", "tab关*", "様々", "様々な", "々", '"说 你好 世界"', "你好，世界"],
)
def test_single_characters_repetition_marks_and_signs_between_are_found(
    lore: Lore, query: str
) -> None:
    lore.add("a", "我把tab关掉了。様々な理由。说：“你好”，世界").add(
        "b", "tab 掉关 様 理由 世界，你好 说我的"
    )
    assert lore.uids_of(query) == lore.uids_of(f"{query} kind:user_msg") == ["a"]
    assert marked(lore.search(query))


# ── phrases, prefixes, OR, minus ──────────────────────────────────────────────────────────────────
def test_a_phrase_is_found_in_its_order(lore: Lore) -> None:
    lore.add("a", "connection refused by peer").add("b", "refused connection")
    assert lore.uids_of('"connection refused"') == ["a"]


def test_a_phrase_may_have_any_signs_between_its_words(lore: Lore) -> None:
    lore.add("a", "connection — refused").add("b", "connection\n\trefused").add(
        "c", "connection é refused"
    )
    assert sorted(lore.uids_of('"connection refused"')) == ["a", "b"]


def test_colours_in_a_query_are_no_words(lore: Lore) -> None:
    lore.add("a", "Running \x1b[1mPostToolUse\x1b[22m now")
    assert (
        lore.uids_of("\x1b[1mPostToolUse\x1b[22m")
        == lore.uids_of('"Running \x1b[1mPostToolUse\x1b[22m"')
        == ["a"]
    )


def test_a_phrase_does_not_lie_across_two_events(lore: Lore) -> None:
    lore.add("a", "the connection", "refused it")
    assert lore.uids_of('"connection refused"') == []
    assert lore.uids_of("connection refused") == ["a"]


def test_a_phrase_is_not_found_in_the_parts_that_the_index_appends(lore: Lore) -> None:
    lore.add("a", "parseAlpha betaUrl")
    assert lore.uids_of('"alpha beta"') == []


def test_a_quote_that_is_not_closed_is_a_phrase(lore: Lore) -> None:
    lore.add("a", "connection refused").add("b", "refused connection")
    assert lore.uids_of('"connection refused') == ["a"]


def test_a_prefix_finds_all_words_that_begin_so(lore: Lore) -> None:
    lore.add("a", "timeout").add("b", "timed").add("c", "untimely")
    assert sorted(lore.uids_of("tim*")) == ["a", "b"]
    assert lore.uids_of("timeo*") == ["a"]


def test_a_prefix_may_end_a_path(lore: Lore) -> None:
    lore.add("a", "src/app/main.py").add("b", "src/app/other.py")
    assert lore.uids_of("src/app/ma*") == ["a"]


def test_or_joins_its_two_neighbours(lore: Lore) -> None:
    lore.add("a", "alpha gamma").add("b", "beta gamma").add("c", "alpha beta").add("d", "gamma")
    assert sorted(lore.uids_of("alpha OR beta gamma")) == ["a", "b"]
    assert sorted(lore.uids_of("gamma alpha OR beta")) == ["a", "b"]
    assert sorted(lore.uids_of('"alpha gamma" OR "beta gamma"')) == ["a", "b"]


def test_or_without_neighbours_means_nothing(lore: Lore) -> None:
    lore.add("a", "alpha").add("b", "beta")
    assert lore.uids_of("OR alpha") == lore.uids_of("alpha OR") == ["a"]
    assert sorted(lore.uids_of("alpha OR OR beta")) == ["a", "b"]


def test_or_in_small_letters_is_a_word(lore: Lore) -> None:
    lore.add("a", "this or that").add("b", "this that")
    assert lore.uids_of("this or that") == ["a"]


def test_or_does_not_reach_across_a_field(lore: Lore) -> None:
    lore.add("a", call("alpha")).add("b", call("alpha beta"))
    assert lore.uids_of("alpha OR tool:Bash beta") == ["b"]


def test_or_joins_no_words_but_its_neighbours(lore: Lore) -> None:
    def groups(text: str) -> list[list[str]]:
        return [[term.text for term in group] for group in parse(text).groups]

    assert groups("alpha beta alpha OR gamma") == [["alpha"], ["beta"], ["alpha", "gamma"]]
    assert groups("alpha alpha OR beta OR gamma") == [["alpha"], ["alpha", "beta", "gamma"]]
    assert (
        groups("alpha -noise OR beta") == groups("alpha kind:edit OR beta") == [["alpha"], ["beta"]]
    )
    lore.add("a", "alpha beta").add("b", "alpha gamma").add("c", "beta gamma")
    assert lore.uids_of("alpha beta alpha OR gamma") == ["a"]


def test_what_no_session_has_of_an_or_is_named_whole(lore: Lore) -> None:
    lore.add("a", "alpha")
    assert lore.search("alpha beta OR gamma").missing == ["beta OR gamma"]


def test_minus_leaves_out_events_that_have_the_word(lore: Lore) -> None:
    lore.add("a", "alpha beta", "alpha gamma").add("b", "alpha beta").add("c", "alpha", "beta")
    assert sorted(lore.places("alpha -beta")) == [("a", [1]), ("c", [0])]


def test_minus_knows_phrases_accents_and_parts(lore: Lore) -> None:
    lore.add("a", "alpha parseHttp").add("b", "alpha café").add("c", "alpha in a row").add(
        "d", "alpha a in row"
    )
    assert sorted(lore.uids_of("alpha -http")) == ["b", "c", "d"]
    assert sorted(lore.uids_of("alpha -cafe")) == ["a", "c", "d"]
    assert sorted(lore.uids_of('alpha -"in a"')) == ["a", "b", "d"]


def test_every_word_must_be_in_an_event_that_is_not_left_out(lore: Lore) -> None:
    lore.add("a", "alpha", "beta noise").add("b", "alpha", "beta")
    assert lore.uids_of("alpha beta -noise") == ["b"]


def test_minus_alone_is_refused(lore: Lore) -> None:
    with pytest.raises(QueryError, match="alone"):
        lore.search("-alpha")


# ── which events ──────────────────────────────────────────────────────────────────────────────────
def test_a_word_and_a_tool_must_be_in_the_same_event(lore: Lore) -> None:
    lore.add("a", call("pytest"), call("needle", tool="Read")).add("b", call("needle"))
    assert lore.places("tool:Bash needle") == [("b", [0])]
    assert lore.places("tool:read needle") == [("a", [1])]


def test_every_word_must_be_in_a_chosen_event(lore: Lore) -> None:
    lore.add("a", call("alpha"), "beta").add("b", call("alpha"), call("beta"))
    assert lore.uids_of("tool:Bash alpha beta") == ["b"]


def test_errors_are_chosen_by_event(lore: Lore) -> None:
    lore.add("a", result("alpha", error=True), result("beta")).add("b", result("beta", error=True))
    assert lore.places("is:error beta") == [("b", [0])]
    assert sorted(lore.places("is:error")) == [("a", [0]), ("b", [0])]


def test_a_kind_chooses_events(lore: Lore) -> None:
    lore.add("a", "needle", {"kind": "assistant_msg", "text": "other"}).add(
        "b", {"kind": "assistant_msg", "text": "needle"}
    )
    assert lore.uids_of("kind:user_msg needle") == ["a"]
    assert lore.uids_of("kind:assistant_msg needle") == ["b"]
    assert sorted(lore.uids_of("kind:assistant_msg kind:user_msg needle")) == ["a", "b"]


def test_calls_include_edits_and_test_runs(lore: Lore) -> None:
    lore.add("a", {"kind": "edit", "text": "needle"}).add(
        "b", {"kind": "test_run", "text": "needle"}
    ).add("c", "needle")
    assert sorted(lore.uids_of("kind:tool_call needle")) == ["a", "b"]
    assert lore.uids_of("kind:edit needle") == ["a"]


def test_a_field_given_twice_means_either(lore: Lore) -> None:
    lore.add("a", call("needle")).add("b", call("needle", tool="Read")).add(
        "c", call("needle", tool="Grep")
    )
    assert sorted(lore.uids_of("tool:Bash tool:Read needle")) == ["a", "b"]
    assert sorted(lore.uids_of("session:toy:a session:c needle")) == ["a", "c"]


def test_a_file_is_named_by_the_end_of_its_path(lore: Lore) -> None:
    lore.add("a", call("read /w/src/main.py", tool="Read", files=["/w/src/main.py"]))
    lore.add("b", call("read /w/src/domain.py", tool="Read", files=["/w/src/domain.py"]), "main.py")
    for name in ("main.py", "src/main.py", "/w/src/main.py", "SRC/Main.py", "src\\main.py"):
        assert lore.uids_of(f"file:{name}") == ["a"], name
    assert lore.uids_of("file:ain.py") == []
    assert lore.uids_of("file:main.py read") == ["a"]


@pytest.mark.parametrize(
    ("pattern", "names_found"),
    [
        ("*.py", ["a", "b"]), ("src/*.py", ["a", "b"]), ("ma*.py", ["a"]), ("main.?y", ["a"]),
        ("*_main.py", ["b"]), ("*/main.py", ["a"]),
        ("*", ["a", "b", "c"]), ("*.rs", []), ("[[]id]/*", []), ("app/[id]/page.tsx", ["c"]),
        ("[id]/*.TSX", ["c"]),
        ("app/*/page.*", ["c"]),
    ],
)  # fmt: skip
def test_stars_in_the_name_of_a_file(lore: Lore, pattern: str, names_found: list[str]) -> None:
    lore.add("a", call("read /w/src/main.py", tool="Read", files=["/w/src/main.py"]), "main.rs")
    lore.add("b", call("read /w/src/do_main.py", tool="Read", files=["/w/src/do_main.py"]))
    lore.add("c", call("read /w/app/[id]/page.tsx", tool="Read", files=["/w/app/[id]/page.tsx"]))
    assert sorted(lore.uids_of(f"file:{pattern}")) == names_found
    assert sorted(lore.uids_of(f"file:{pattern} read")) == names_found


def test_the_fields_of_a_file_url_are_none(lore: Lore) -> None:
    lore.add("a", "open file:///tmp/x.html now")
    assert lore.uids_of("file:///tmp/x.html") == ["a"]


def test_filters_alone_show_the_events_they_choose(lore: Lore) -> None:
    lore.add("a", "hello", call("one"), call("two"), call("three"), call("four"))
    assert lore.places("tool:Bash") == [("a", [1, 2, 3])]


def test_a_tool_with_signs_in_its_name_is_found(lore: Lore) -> None:
    lore.add("a", call("needle", tool="mcp__git-hub__list.all"))
    assert lore.uids_of("tool:mcp__git-hub__list.all needle") == ["a"]


def test_the_words_that_mark_kinds_are_in_no_text(lore: Lore) -> None:
    lore.add("a", call("needle"))
    assert lore.uids_of("zqtoolbash") == []
    assert lore.uids_of("zqkind*") == []


# ── which sessions ────────────────────────────────────────────────────────────────────────────────
def test_session_fields_choose_sessions(lore: Lore) -> None:
    lore.add("one", "needle").add("two", "needle")
    assert lore.uids_of("needle session:toy:one") == ["one"]
    assert lore.uids_of("needle session:tw") == ["two"]
    assert lore.uids_of("needle session:toy:one#0") == ["one"]
    assert lore.uids_of("needle cwd:/work/two") == ["two"]
    assert lore.uids_of("needle cwd:*tw*") == ["two"]
    assert sorted(lore.uids_of("needle agent:toy branch:main")) == ["one", "two"]
    assert lore.uids_of("needle agent:toy branch:other") == []


def test_a_session_is_named_in_all_the_ways_that_other_commands_know(lore: Lore) -> None:
    lore.add("one", {"text": "needle", "at": 0}).add("two", {"text": "needle", "at": 99})
    assert (
        lore.uids_of("needle session:latest")
        == lore.uids_of("needle session:LATEST:toy")
        == ["two"]
    )
    assert lore.uids_of("needle session:TOY:one") == ["one"]
    assert sorted(lore.uids_of("needle session:latest session:one")) == ["one", "two"]
    for name, told in {"nope": "nope", "latest:nope": "nope", "#3": "#3"}.items():
        with pytest.raises(NotFound, match=told):
            lore.search(f"needle session:{name}")
        with pytest.raises(NotFound, match=told):
            engine.regex(lore.store, "needle", fields=f"session:{name}")


def test_an_agent_is_known_by_its_adapter_or_by_its_sessions(
    lore: Lore, monkeypatch: pytest.MonkeyPatch
) -> None:
    lore.add("a", "needle")
    with pytest.raises(QueryError, match="there is no agent 'other'; there are: toy"):
        lore.search("needle agent:other")
    monkeypatch.setattr(adapters, "names", lambda: ("other",))
    assert lore.uids_of("needle agent:other") == []
    assert lore.uids_of("needle agent:toy") == ["a"], (
        "the adapter of a stored session need not be installed"
    )


def test_times_choose_sessions(lore: Lore) -> None:
    lore.add("old", {"text": "needle", "at": 0}).add("new", {"text": "needle", "at": 10 * 86_400})
    assert lore.uids_of("needle after:2026-01-05") == ["new"]
    assert lore.uids_of("needle before:2026-01-05") == ["old"]
    assert parse("after:7d", NOW).sessions[0][0].since == NOW - timedelta(days=7)


def test_fields_alone_list_sessions_newest_first(lore: Lore) -> None:
    lore.add("old", {"text": "x", "at": 0}).add("new", {"text": "y", "at": 86_400}).add(
        "mid", {"text": "z", "at": 3600}
    )
    assert lore.uids_of("agent:toy") == ["new", "mid", "old"]
    assert lore.search("agent:toy", limit=2).total == 3


def test_an_unknown_field_is_a_word(lore: Lore) -> None:
    lore.add("a", "error:timeout in http://localhost:80")
    assert lore.uids_of("error:timeout") == lore.uids_of("http://localhost:80") == ["a"]


@pytest.mark.parametrize(
    "query",
    [
        "is:done", "after:whenever", "before:99999-99-99", "-agent:x", 'is:"two\nlines"',
        "after:0001-01-01T00:00+23:59",
        "kind:nope x", "kind:edit kind:nope", "file:", "x Tool: y", 'cwd:""', "-file: x", "OR",
        "OR OR", "*** OR",
    ],
)  # fmt: skip
def test_a_value_that_makes_no_sense_is_refused_in_one_line(lore: Lore, query: str) -> None:
    with pytest.raises(QueryError) as caught:
        lore.search(query)
    assert "\n" not in str(caught.value)


# ── words that are missing ────────────────────────────────────────────────────────────────────────
def test_when_no_session_has_all_words_those_with_the_most_and_rarest_are_shown(lore: Lore) -> None:
    lore.add("a", "alpha beta gamma").add("b", "alpha").add("c", "alpha")
    answer = lore.search("alpha beta gamma delta")
    assert names(answer) == ["a"]
    assert answer.missing == answer.hits[0].missing == ["delta"]


def test_a_rare_word_outweighs_a_common_one(lore: Lore) -> None:
    lore.add("a", "rare")
    for n in range(20):
        lore.add(f"s{n}", "common")
    answer = lore.search("rare common")
    assert names(answer)[0] == "a"
    assert answer.missing == ["common"]


def test_a_word_that_nobody_has_is_named(lore: Lore) -> None:
    lore.add("a", "alpha")
    answer = lore.search("nowhere")
    assert (answer.hits, answer.total, answer.missing) == ([], 0, ["nowhere"])


@pytest.mark.parametrize(
    "fields", ["tool:Nope", "kind:thinking", "tool:Bash", "branch:nope", "is:error", "file:nope.py"]
)
def test_a_word_that_fields_hide_is_not_missing(lore: Lore, fields: str) -> None:
    lore.add("a", "alpha beta", call("gamma"))
    for words in ("alpha", "alpha beta"):
        answer = lore.search(f"{fields} {words}")
        assert (answer.hits, answer.missing) == ([], [])
    assert lore.search(f"{fields} alpha nowhere").missing == ["nowhere"]


def test_what_no_chosen_event_has_is_missing(lore: Lore) -> None:
    lore.add("a", call("alpha"), "beta")
    answer = lore.search("tool:Bash alpha beta")
    assert names(answer) == ["a"]
    assert answer.missing == ["beta"]


def test_of_an_identifier_that_nobody_has_the_parts_are_looked_for(lore: Lore) -> None:
    lore.add("a", "calls to_matrix twice").add("b", "unrelated calls")
    answer = lore.search("calls quaternion.to_matrix(x)")
    assert names(answer)[0] == "a"
    assert answer.missing == ["quaternion.to_matrix(x)"]


def test_a_sentence_also_finds_sessions_that_lack_a_word(lore: Lore) -> None:
    lore.add("all", "loading the model from disk fails with zlib").add(
        "most", "loading the model from disk with zlib"
    )
    lore.add("few", "the model")
    answer = lore.search("loading the model from disk fails with zlib")
    assert sorted(names(answer)) == ["all", "most"]
    assert {name: hit.missing for name, hit in zip(names(answer), answer.hits, strict=True)} == {
        "all": [],
        "most": ["fails"],
    }
    assert answer.missing == []


def test_few_words_are_meant_as_they_stand(lore: Lore) -> None:
    lore.add("all", "alpha beta gamma delta").add("most", "alpha beta gamma")
    assert lore.uids_of("alpha beta gamma delta") == ["all"]


def test_what_is_no_word_is_ignored_and_said(lore: Lore) -> None:
    lore.add("a", "alpha")
    answer = lore.search("alpha *** ++")
    assert names(answer) == ["a"]
    assert answer.ignored == ["***", "++"]
    assert lore.search("***").hits == []


@pytest.mark.parametrize(
    ("query", "signs"),
    [
        ("C++", ["++"]),
        ("g++ C#", ["#", "++"]),
        ('"a C++ file" ++', ["++"]),
        ("a+b f(x)++y #1 x.y()", []),
    ],
)
def test_signs_that_make_a_name_are_ignored_and_said(query: str, signs: list[str]) -> None:
    assert list(parse(query).ignored) == signs


def test_more_words_than_are_asked_for_are_said(lore: Lore) -> None:
    lore.add("a", "alpha")
    assert len(lore.search(" ".join(f"word{n}" for n in range(200))).ignored) == 200 - 32
    assert len(lore.search(" OR ".join(f"word{n}" for n in range(200))).ignored) == 200 - 32


def test_a_word_twice_is_one_word(lore: Lore) -> None:
    assert len(parse("alpha alpha alpha").groups) == 1


# ── the order ─────────────────────────────────────────────────────────────────────────────────────
def test_what_was_said_counts_more_than_what_a_tool_printed(lore: Lore) -> None:
    lore.add("printed", result("deadlock")).add(
        "said", {"kind": "assistant_msg", "text": "deadlock"}
    )
    assert lore.uids_of("deadlock") == ["said", "printed"]


def test_a_session_about_it_comes_before_a_long_one_that_mentions_it(lore: Lore) -> None:
    filler = "some other words here " * 4000
    lore.add("long", *([filler] * 5), "deadlock").add("short", "deadlock")
    assert lore.uids_of("deadlock") == ["short", "long"]


def test_ties_go_to_the_session_that_started_last_and_then_to_the_uid(lore: Lore) -> None:
    for name, at in (("c", 5), ("a", 5), ("z", 9), ("b", 5), ("y", 1)):
        lore.add(name, {"text": "needle", "at": at})
    assert lore.uids_of("needle") == ["z", "a", "b", "c", "y"]
    assert lore.uids_of("needle", limit=3) == ["z", "a", "b"]


def test_the_newest_can_come_first(lore: Lore) -> None:
    lore.add("old", "needle needle", {"text": "needle", "at": 0}).add(
        "new", {"text": "one needle", "at": 99}
    )
    assert lore.uids_of("needle", sort="newest") == ["new", "old"]


def test_the_order_does_not_depend_on_when_and_how_sessions_were_read(
    tmp_path: Path, toy: Toy
) -> None:
    rng = random.Random(3)
    words = ["alpha", "beta", "gamma", "delta"]
    texts = {
        f"s{n}": [" ".join(rng.choices(words, k=rng.randint(1, 3))) for _ in range(6)]
        for n in range(12)
    }
    whole, bits = Lore(tmp_path / "whole", toy), Lore(tmp_path / "bits", toy)
    for name, events in texts.items():
        whole.add(name, *({"text": text, "at": 7} for text in events))
    for name in reversed(texts):
        for text in texts[name]:
            bits.add(name, {"text": text, "at": 7})
    for query in (
        "alpha",
        "alpha beta",
        '"alpha beta"',
        "alpha -beta",
        "gam* delta",
        "alpha OR gamma",
    ):
        first, second = whole.search(query), bits.search(query)
        assert names(first) == names(second) == names(whole.search(query))
        assert [hit.score for hit in first.hits] == [hit.score for hit in second.hits]
        assert [hit.events for hit in first.hits] == [hit.events for hit in second.hits]
    whole.store.close()
    bits.store.close()


# ── what is shown ─────────────────────────────────────────────────────────────────────────────────
def test_marks_are_where_the_words_are(lore: Lore) -> None:
    lore.add("a", "x " * 300 + "the Needle, parseNeedle and needle_in " + "y " * 300)
    answer = lore.search("needle")
    assert marked(answer) == ["Needle", "Needle", "needle"]
    (event,) = answer.hits[0].events
    assert event.snippet.startswith("…")
    assert event.snippet.endswith("…")
    assert len(event.snippet) <= SNIPPET_BYTES + 2


def test_marks_are_right_behind_characters_of_many_bytes(lore: Lore) -> None:
    lore.add("a", "😀日本語é" * 50 + " needle 😀 日本語")
    assert marked(lore.search("needle")) == ["needle"]
    assert marked(lore.search("日本語"))[-1] == "日本語"


def test_a_snippet_is_one_line_without_control_characters(lore: Lore) -> None:
    lore.add("a", "one\r\n\x1b[31mneedle\x1b[0m\x07\ttwo\x9b3\u2028end")
    (event,) = lore.search("needle").hits[0].events
    assert all(c.isprintable() for c in event.snippet)
    assert [event.snippet[a:b] for a, b in event.marks] == ["needle"]


def test_the_events_with_the_most_words_are_shown_in_their_order(lore: Lore) -> None:
    lore.add("a", "alpha", "alpha beta", "beta", "alpha gamma beta", "gamma", "alpha beta gamma")
    assert lore.places("alpha beta gamma") == [("a", [1, 3, 5])]


def test_as_many_events_of_a_session_as_are_asked_for(
    lore: Lore, monkeypatch: pytest.MonkeyPatch
) -> None:
    filler = "filler " * (SEGMENT_BYTES // 7)
    lore.add(
        "a",
        *(
            f"needle {n} {'odd' if n % 2 else ''} {'thread' if n % 3 else filler}"
            for n in range(30)
        ),
    )
    assert lore.store.index.segment_count() > 5

    def seqs(text: str, events: int) -> list[int]:
        return [event.seq for event in lore.search(text, events=events).hits[0].events]

    assert seqs("needle", 99) == list(range(30))
    assert seqs("needle thread", 99) == list(range(30))
    assert seqs("needle -odd", 99) == list(range(0, 30, 2))
    assert len(seqs("needle", 20)) == 20
    assert [
        event.seq for event in engine.regex(lore.store, "need.e", events=99).hits[0].events
    ] == list(range(30))
    monkeypatch.setattr(ranked, "MAX_PROOFS", 3)
    answer = lore.search("needle -odd", events=99)
    assert (names(answer), answer.is_partial) == (
        ["a"],
        True,
    ), "it matches, whatever else there is in it"


@given(
    st.binary(max_size=400),
    st.lists(st.tuples(st.integers(0, 400), st.integers(0, 60)), max_size=8),
)
def test_a_snippet_can_be_made_of_anything(body: bytes, spots: list[tuple[int, int]]) -> None:
    places = [
        (first, min(first + length, len(body))) for first, length in spots if first < len(body)
    ]
    text, marks = snippet(body, [(a, b) for a, b in places if a <= b])
    assert len(text) <= SNIPPET_BYTES + 2
    assert all(0 <= a < b <= len(text) for a, b in marks)
    assert all(first[1] <= second[0] for first, second in pairwise(marks))


# ── copies, subagents, limits ─────────────────────────────────────────────────────────────────────
def test_a_copy_is_found_once_where_it_happened(lore: Lore) -> None:
    lore.add("first", {"id": "x", "text": "needle"}, "more")
    lore.add("second", {"id": "x2", "of": "x", "text": "needle"}, "other")
    assert lore.uids_of("needle") == ["first"]
    assert names(engine.regex(lore.store, "need.e")) == ["first"]


def test_what_was_forgotten_is_not_found(lore: Lore) -> None:
    lore.add("a", "needle").add("b", "needle")
    lore.store.retention.forget(["toy:a"], NOW)
    assert lore.uids_of("needle") == ["b"]
    assert names(engine.regex(lore.store, "needle")) == ["b"]


def test_what_is_appended_is_found_at_once(lore: Lore) -> None:
    lore.add("a", "alpha")
    assert lore.uids_of("needle") == []
    lore.add("a", "needle")
    assert lore.places("needle") == [("a", [1])]


def test_an_answer_says_when_not_everything_was_looked_at(
    lore: Lore, monkeypatch: pytest.MonkeyPatch
) -> None:
    for n in range(6):
        lore.add(f"s{n}", "the connection", "refused")
    monkeypatch.setattr(ranked, "MAX_PROOFS", 3)
    answer = lore.search('"connection refused"')
    assert answer.hits == []
    monkeypatch.setattr(ranked, "MAX_PROOFS", 300)
    assert not lore.search('"connection refused"').is_partial
    for n in range(6):
        lore.add(f"s{n}", call("one needle", tool="Read"), call("two"))
    monkeypatch.setattr(ranked, "MAX_PROOFS", 3)
    assert lore.search("tool:Bash needle").is_partial


def test_a_long_session_that_does_not_match_hides_no_other(
    lore: Lore, monkeypatch: pytest.MonkeyPatch
) -> None:
    filler = "filler " * (SEGMENT_BYTES // 7)
    for _ in range(6):
        lore.add("long", *([call("ls"), result(f"needle {filler}", tool="Read")] * 2))
    lore.add("short", call("needle"), *([result(f"other {filler}", tool="Read")] * 2))
    lore.add("late", *([call("ls"), result(f"needle {filler}", tool="Read")] * 4), call("needle"))
    assert lore.uids_of("needle")[-1] == "short", "the others are looked at first"
    monkeypatch.setattr(ranked, "MAX_FIRST_PROOFS", 3)
    answer = lore.search("tool:Bash needle")
    assert (sorted(names(answer)), answer.is_partial) == (["late", "short"], False)
    assert names(answer) == [name for name in lore.uids_of("needle") if name != "long"], (
        "in the order of their rank"
    )
    monkeypatch.setattr(ranked, "MAX_PROOFS", 10)
    answer = lore.search("tool:Bash needle")
    assert (names(answer), answer.is_partial) == (["short"], True)


def test_the_total_counts_what_the_limit_hides(lore: Lore) -> None:
    for n in range(5):
        lore.add(f"s{n}", "needle")
    answer = lore.search("needle", limit=2)
    assert (len(answer.hits), answer.total) == (2, 5)


@pytest.mark.parametrize("limit", [0, -1])
def test_a_limit_of_nothing_gives_nothing_and_the_total(lore: Lore, limit: int) -> None:
    lore.add("a", "needle").add("b", "needle")
    assert [(answer.hits, answer.total) for answer in (lore.search("needle", limit=limit),)] == [
        ([], 2)
    ]
    assert engine.regex(lore.store, "needle", limit=limit).hits == []


def test_the_total_is_exact_when_there_is_room_left(lore: Lore) -> None:
    lore.add("a", "one two").add("b", "one", "two").add("c", "one", call("two"))
    assert lore.search('"one two"').total == 1
    assert lore.search("two tool:Bash").total == 1
    assert lore.search("two tool:Bash", limit=1).total >= 1


# ── what is said of a query ───────────────────────────────────────────────────────────────────────
@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("tol:Bash x", "tol: is no field; did you mean tool:?"),
        ("project:x", "project: is no field; did you mean repo:?"),
        ("-role:user x", "role: is no field; did you mean kind:?"),
        ("NOT mirror", "NOT is looked for as a word; use -mirror"),
        (
            "mirror AND pipeline",
            "AND is looked for as a word; leave it out: every word must be there",
        ),
        (
            "tool:Bash OR kind:edit",
            (
                "OR joins two words, and is ignored elsewhere; a field that is given twice means"
                " either"
            ),
        ),
        (
            "mirror OR",
            (
                "OR joins two words, and is ignored elsewhere; a field that is given twice means"
                " either"
            ),
        ),
        (
            "mirror OR -pipeline",
            (
                "OR joins two words, and is ignored elsewhere; a field that is given twice means"
                " either"
            ),
        ),
    ],
)
def test_what_looks_like_syntax_and_is_none_is_said(query: str, said: str) -> None:
    assert engine.remarks(query) == [said]


@pytest.mark.parametrize(
    "query",
    [
        "not mirror", '"NOT mirror"', '"mirror AND pipeline"', "-NOT x", "a OR b", "a OR OR b",
        "std::vector", "http://x.y:80",
        "C:\\x", "error:timeout", "localhost:80", "node:fs", "tool:Bash", "12:30", "x NOT", "",
    ],
)  # fmt: skip
def test_what_people_paste_is_not_remarked_on(query: str) -> None:
    assert engine.remarks(query) == []


def test_remarks_are_few_and_soon_made() -> None:
    log = (
        " ".join(
            f"{a}{b}ol:x NOT y"
            for a in "abcdefghijklmnopqrstuvwxyz"
            for b in "abcdefghijklmnopqrstuvwxyz"
        )
        * 100
    )
    assert 0 < len(engine.remarks(log)) <= 4


def blamed(lore: Lore, text: str) -> list[str]:
    answer = lore.search(text)
    assert answer.missing or not answer.hits
    return engine.blame(lore.store, parse(text))


def test_fields_that_choose_nothing_are_named(lore: Lore) -> None:
    lore.add("a", call("alpha"), "beta")
    assert blamed(lore, "tool:Nope alpha") == [
        "no event matches tool:Nope",
        "without tool:Nope there is 1 session",
    ]
    assert blamed(lore, "tool:Nope tool:Nada nowhere") == ["no event matches tool:Nope tool:Nada"]
    assert blamed(lore, "file:alpha") == ["no event matches file:alpha"]
    assert blamed(lore, 'branch:"a b" tool:Bash is:error alpha') == [
        'no session matches branch:"a b"',
        "no event matches is:error",
        'without branch:"a b" is:error there is 1 session',
    ]
    assert engine.blame(lore.store, parse("tool:Nope"), is_words=False) == [
        "no event matches tool:Nope"
    ]


def test_the_field_that_is_one_too_many_is_named(lore: Lore) -> None:
    lore.add("old", {"text": "alpha", "at": 0}, call("beta", at=1)).add(
        "new", {"text": "beta", "at": 10 * 86_400}
    )
    assert blamed(lore, "after:2026-01-05 alpha") == ["without after:2026-01-05 there is 1 session"]
    assert blamed(lore, "tool:Bash alpha") == ["without tool:Bash there is 1 session"]
    assert blamed(lore, "tool:Bash alpha beta") == ["without tool:Bash there is 1 session"], (
        "which is what the best hit lacks"
    )
    assert blamed(lore, "after:2026-01-05 tool:Bash beta") == [
        "without after:2026-01-05 there is 1 session",
        "without tool:Bash there is 1 session",
    ]
    assert blamed(lore, "after:2026-01-05 tool:Bash alpha") == [
        "without after:2026-01-05 tool:Bash there is 1 session"
    ]
    assert blamed(lore, "alpha -alpha") == ["without -alpha there is 1 session"]
    assert blamed(lore, "tool:Bash nowhere") == []


def test_words_alone_are_not_the_fault_of_a_field(lore: Lore) -> None:
    lore.add("a", "loading the model from disk")
    assert blamed(lore, "loading the model from disk fails with zlib") == []
    assert blamed(lore, "nowhere") == []


def test_what_would_be_found_is_counted(lore: Lore, monkeypatch: pytest.MonkeyPatch) -> None:
    lore.add("a", "beta", call("other"))
    for n in range(4):
        lore.add(f"s{n}", "alpha", call("beta"))
    assert blamed(lore, "tool:Bash alpha") == ["without tool:Bash there are 4 sessions"]
    monkeypatch.setattr(advice, "MAX_COUNTED", 2)
    assert blamed(lore, "tool:Bash alpha") == ["without tool:Bash there are 4 sessions"]
    assert blamed(lore, "session:a kind:tool_call beta") == [
        "without session:a there are 2 sessions or more",
        "without kind:tool_call there is 1 session",
    ]


# ── what is damaged, or changes meanwhile ─────────────────────────────────────────────────────────
def damage(lore: Lore, name: str, *, at: int = 20) -> None:
    """Flips a bit in every body of a session, as a disk may."""
    db = apsw.Connection(str(lore.folder.parent / "runlore.db"))
    sql = (
        "select id, body from segments where session = (select number from sessions where uid = ?)"
    )
    rows: list[Any] = db.execute(sql, (f"toy:{name}",)).fetchall()
    for id_, body in rows:
        at = min(at, len(body) - 1)
        db.execute(
            "update segments set body = ? where id = ?",
            (body[:at] + bytes([body[at] ^ 1]) + body[at + 1 :], id_),
        )
    db.close()


@pytest.mark.parametrize("at", [0, 20])
def test_a_damaged_text_hides_neither_its_session_nor_others(lore: Lore, at: int) -> None:
    lore.add("good", "needle here").add("bad", "needle in a text that is long enough")
    damage(lore, "bad", at=at)
    answer = lore.search("needle")
    assert answer.is_damaged
    assert {
        name: len(hit.events) for name, hit in zip(names(answer), answer.hits, strict=True)
    } == {"good": 1, "bad": 0}
    assert not lore.search("here").is_damaged
    for query in ("needle kind:user_msg", '"needle here"'):
        assert lore.uids_of(query) == ["good"], "what cannot be read proves nothing"


def test_of_a_session_with_a_damaged_text_another_is_shown(lore: Lore) -> None:
    filler = "filler " * (SEGMENT_BYTES // 7)
    lore.add("a", "needle one", filler, "needle two")
    db = apsw.Connection(str(lore.folder.parent / "runlore.db"))
    db.execute("update segments set hash = zeroblob(16) where id = (select min(id) from segments)")
    db.close()
    answer = lore.search("needle")
    assert (answer.is_damaged, [event.snippet for event in answer.hits[0].events]) == (
        True,
        ["needle two"],
    )


def test_a_regular_expression_tells_of_damage(lore: Lore) -> None:
    lore.add("good", {"text": "needle here", "at": 99}).add(
        "bad", {"text": "needle in a text that is long enough", "at": 0}
    )
    db = apsw.Connection(str(lore.folder.parent / "runlore.db"))
    db.execute(
        "update segments set hash = zeroblob(16) where session = (select number from sessions where"
        " uid = 'toy:bad')"
    )
    db.close()
    answer = engine.regex(lore.store, "need.e")
    assert (names(answer), answer.is_damaged) == (["good"], True)
    damage(lore, "bad", at=0)
    assert engine.regex(lore.store, "need.e").is_damaged


def test_a_flipped_bit_in_an_event_is_damage(lore: Lore) -> None:
    lore.add("a", call("needle in main.py", files=["main.py"]))
    db = apsw.Connection(str(lore.folder.parent / "runlore.db"))
    db.execute("update events set rest = x'c1'")
    db.close()
    assert lore.search("needle file:main.py").is_damaged
    assert lore.uids_of("needle") == ["a"]


def test_bodies_and_events_of_a_segment_are_of_the_same_moment(
    lore: Lore, monkeypatch: pytest.MonkeyPatch
) -> None:
    lore.add("a", "first needle", "second")
    (id_,) = lore.store.index.postings("needle")
    before = lore.store.index.segment(id_)
    other = apsw.Connection(str(lore.folder.parent / "runlore.db"))
    db = lore.store.db  # type: ignore[attr-defined]
    plain = db.all

    def derived_meanwhile(sql: str, bindings: Any = ()) -> Any:
        other.execute('update events set "offset" = "offset" + 7')
        return plain(sql, bindings)

    monkeypatch.setattr(db, "all", derived_meanwhile)
    assert lore.store.index.segment(id_) == before
    assert lore.store.index.segment(id_) != before, "the next one sees what is new"
    other.close()


# ── regular expressions ───────────────────────────────────────────────────────────────────────────
def matches(lore: Lore, pattern: str, **options: Any) -> list[tuple[str, list[int]]]:
    answer = engine.regex(lore.store, pattern, **options)
    return [
        (name, [event.seq for event in hit.events])
        for name, hit in zip(names(answer), answer.hits, strict=True)
    ]


def test_a_regular_expression_looks_through_all_texts_newest_first(lore: Lore) -> None:
    lore.add("old", {"text": "error 404", "at": 0}).add(
        "new", {"text": "error 500", "at": 99}, "fine"
    ).add("none", "error x")
    assert matches(lore, r"error \d+") == [("new", [0]), ("old", [0])]
    answer = engine.regex(lore.store, r"error \d+")
    assert marked(answer) == ["error 500", "error 404"]
    assert not answer.is_partial


def test_a_regular_expression_stops_at_the_limit(lore: Lore) -> None:
    for n in range(5):
        lore.add(f"s{n}", {"text": "needle", "at": n})
    answer = engine.regex(lore.store, "needle", limit=2)
    assert names(answer) == ["s4", "s3"]
    assert answer.is_partial


def test_a_regular_expression_does_not_reach_across_events(lore: Lore) -> None:
    lore.add("a", "foo", "bar")
    assert matches(lore, "foobar") == []
    assert matches(lore, "o.*b") == []


@pytest.mark.parametrize(
    "pattern",
    [
        r"^bar",
        r"bar$",
        r"\bbar\b",
        r"^bar$",
        r"(?i)^BAR",
        r"\Abar",
        r"bar\z",
        r"^(bar|[$^\]b]+)$",
        r"\Qbar\E$",
    ],
)
def test_ends_of_lines_and_words_are_those_of_the_event(lore: Lore, pattern: str) -> None:
    lore.add("a", "foo", "bar", "foo")
    assert matches(lore, pattern) == [("a", [1])]


def test_a_regular_expression_sees_what_was_printed_and_shows_it_without_colours(
    lore: Lore,
) -> None:
    lore.add("a", "all \x1b[31mred\x1b[0m")
    answer = engine.regex(lore.store, r"\x1b\[31mr")
    assert names(answer) == ["a"]
    assert "\x1b" not in answer.hits[0].events[0].snippet
    assert lore.uids_of("red") == ["a"]


def test_lines_are_the_lines_of_a_text(lore: Lore) -> None:
    lore.add("a", "one\nbar\ntwo")
    assert matches(lore, "^bar$") == [("a", [0])]


def test_a_regular_expression_with_fields(lore: Lore) -> None:
    lore.add("a", call("needle"), "needle").add("b", "needle")
    assert matches(lore, "needle", fields="tool:Bash") == [("a", [0])]
    assert matches(lore, "needle", fields="session:b") == [("b", [0])]
    with pytest.raises(QueryError):
        engine.regex(lore.store, "needle", fields="word")


@pytest.mark.parametrize(
    "pattern", ["(", "a(?=b)", r"(a)\1", "", "[z-a]", "a{1001}", "\ud800", "*"]
)
def test_a_pattern_that_cannot_be_used_is_refused_in_one_line(lore: Lore, pattern: str) -> None:
    with pytest.raises(QueryError) as caught:
        engine.regex(lore.store, pattern)
    assert "\n" not in str(caught.value)
    assert "(?m)" not in str(caught.value)


def test_a_pattern_without_conditions_fits_wherever_the_pattern_does() -> None:
    assert scan.without_conditions(r"^a\b[$^\]]\$\\b$") == r"(?:)a(?:)[$^\]]\$\\b(?:)"
    assert scan.without_conditions(r"[]^$]x[[:alpha:]$]\Q^$\E^") == r"[]^$]x[[:alpha:]$]\Q^$\E(?:)"


# ── anything at all ───────────────────────────────────────────────────────────────────────────────
WORDS = """alpha "alpha beta" - -beta OR AND NEAR NEAR( ( ) * al* ^ : agent: agent:toy is:error is:
tool: tool:Bash after:7d file:x " "" ' \\ \0 \ud800 日本 字 é -日本 session: session:toy:a
kind:tool_call before:zz
repo:[ repo:* cwd:] {prompt} prompt:alpha -"x --x a*b x"""
PIECES = st.sampled_from(WORDS.split())
PATTERNS = st.lists(
    st.sampled_from([*r"ab^$\bBQE[]()*+?{2}|.:", "[:alpha:]", "(?i)", "\x1b"]), max_size=12
).map("".join)


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    adapter = Toy()
    made = Lore(tmp_path_factory.mktemp("lore"), adapter)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(adapters, "get", lambda name: adapter)
        made.add(
            "a", "alpha beta 日本語", call("gamma é \x1b[31malpha"), result("boom", error=True)
        ).add("b", "alpha", "beta delta")
    yield made.store
    made.store.close()


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    text=st.one_of(
        st.text(),
        st.lists(st.one_of(PIECES, st.text(max_size=5)), max_size=12).map(" ".join),
        st.text(max_size=30).map("why did {} fail in May?".format),
    )
)
def test_any_text_gives_an_answer_or_an_error_in_one_line(filled: Store, text: str) -> None:
    answer = one_line(lambda: engine.search(filled, text))
    if answer is not None:
        assert not any(
            "\n" in said for said in (*engine.remarks(text), *engine.blame(filled, parse(text)))
        )


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(pattern=st.one_of(st.text(), PATTERNS))
def test_any_pattern_gives_an_answer_or_an_error_in_one_line(filled: Store, pattern: str) -> None:
    answer = one_line(lambda: engine.regex(filled, pattern))
    if answer is not None:
        by_hand = scan.compile_pattern(pattern)
        expected = {
            uid
            for uid in ("toy:a", "toy:b")
            if any(by_hand.search(body.encode()) for body in filled.sessions.bodies(uid).values())
        }
        assert {hit.session.uid for hit in answer.hits} == expected


def one_line(ask: Callable[[], Answer]) -> Answer | None:
    refused = ""
    try:
        answer = ask()
    except RunloreError as error:
        refused = str(error)
    if refused:
        assert "\n" not in refused
        return None
    for hit in answer.hits:
        for event in hit.events:
            assert all(0 <= a < b <= len(event.snippet) for a, b in event.marks)
    assert msgspec.json.encode(answer)
    return answer


def test_a_query_of_any_length_is_answered(filled: Store) -> None:
    for text in (
        "alpha " * 10_000,
        "a." * 10_000,
        '"' + "alpha " * 10_000,
        "x" * 100_000,
        "-" * 10_000,
        "alpha OR " * 5_000,
    ):
        engine.search(filled, text)
