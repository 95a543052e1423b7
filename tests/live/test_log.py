"""The log itself: sessions made, opened, listed and deleted; records in order, whoever writes
them."""

import json
import os
import shutil
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from runlore.errors import Conflict, InvalidId, LeaseLost, LogError, SessionBusy, SessionNotFound
from runlore.live import SessionStore
from runlore.live.folder import backend, index, log_file, log_reader, snapshots
from runlore.live.log import LiveSession
from tests.live.folders import log_of

pytestmark = pytest.mark.folder


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def texts(session: LiveSession) -> list[str]:
    return [message["content"] for message in session.messages()]


# ── sessions ──────────────────────────────────────────────────────────────────────────────────────


def test_a_session_keeps_what_it_was_made_with(store: SessionStore) -> None:
    made = store.create(
        "A title",
        provider="p",
        model="m",
        cwd="/work/x",
        api_base="http://a",
        agent="mine",
        id="one",
        team="red",
    )
    meta = store.open("one").meta
    assert meta == made.meta
    known = {
        "title": "A title",
        "provider": "p",
        "model": "m",
        "cwd": "/work/x",
        "api_base": "http://a",
        "agent": "mine",
    }
    assert {name: getattr(meta, name) for name in known} == known
    assert meta.extra == {"team": "red"}


def test_a_relative_cwd_is_made_absolute(store: SessionStore) -> None:
    assert store.create(cwd=".").meta.cwd == os.getcwd()


def test_files_are_for_this_user_alone(store: SessionStore) -> None:
    session = store.create()
    session.append(
        {
            "role": "user",
            "content": [{"type": "tool_result", "tool_use_id": "a", "content": "x" * 100_000}],
        }
    )
    session.append(user("hello"))
    session.compact("short")
    store.open(session.id, exclusive=True).close()
    for path in [store.path, *store.path.rglob("*")]:
        allowed = 0o700 if path.is_dir() else 0o600
        # SQLite gives them the mode of its file.
        if path.name not in ("index.db-wal", "index.db-shm"):
            assert path.stat().st_mode & 0o777 == allowed, path


def test_an_id_is_not_given_twice(store: SessionStore) -> None:
    store.create("first", id="one").append(user("hello"))
    with pytest.raises(Conflict):
        store.create("second", id="one")
    assert store.open("one").meta.title == "first"


def test_what_a_crash_in_the_making_left_can_be_made_again(store: SessionStore) -> None:
    (store.path / "one").mkdir(parents=True)
    (store.path / "one/log.jsonl").touch()
    assert texts(store.open("one")) == []
    store.create("again", id="one")
    assert store.open("one").meta.title == "again"


@pytest.mark.parametrize(
    "id",
    [
        "",
        ".",
        "..",
        "../x",
        "a/../b",
        "/etc",
        "a//b",
        "a/",
        "a\\..\\b",
        "a" * 201,
        "a\0",
        " a",
        "\ud800",
    ],
)
def test_an_id_that_leads_elsewhere_is_refused(store: SessionStore, id: str) -> None:
    for refused in (store.open, store.delete, store.restore, lambda id: store.create(id=id)):
        with pytest.raises(InvalidId):
            refused(id)


def test_a_link_out_of_the_store_is_no_session(store: SessionStore, tmp_path: Path) -> None:
    elsewhere = SessionStore(tmp_path / "elsewhere")
    elsewhere.create(id="one")
    store.create(id="two")
    (store.path / "one").symlink_to(elsewhere.path / "one")
    with pytest.raises(SessionNotFound):
        store.delete("one")
    assert [info.id for info in store.list()] == ["two"]
    assert (elsewhere.path / "one/log.jsonl").exists()


def test_a_draft_is_on_disk_after_its_first_append(store: SessionStore) -> None:
    draft = store.draft("later", id="one")
    assert (draft.messages(), draft.tail(), list(draft.records()), draft.is_draft) == (
        [],
        [],
        [],
        True,
    )
    assert draft.meta.title == "later"
    assert not store.path.exists()
    draft.append(user("hello"))
    assert [record.type for record in store.open("one").records()] == ["session", "message"]
    assert not draft.is_draft


def test_a_draft_may_begin_with_a_long_tool_result(tmp_path: Path) -> None:
    store = SessionStore(tmp_path / "new" / "store")
    result = {"type": "tool_result", "tool_use_id": "call", "content": "x" * 70_000}
    for first in ("message", "tool_finished"):
        draft = store.draft(id=first)
        if first == "message":
            record = draft.append({"role": "user", "content": [result]})
            output = record.payload["content"][0]["output"]
        else:
            output = draft.tool_finished("call", result["content"]).payload["whole"]
        assert len(list((draft.path / "outputs").iterdir())) == 1
        assert draft.path.stat().st_mode & 0o777 == 0o700
        assert store.open(first).output(output) == b"x" * 70_000
    assert [info.id for info in store.list()] == ["tool_finished", "message"]


def test_ensure_opens_or_drafts(store: SessionStore) -> None:
    store.ensure("one", model="m").append(user("a"))
    store.ensure("one", model="other").append(user("b"))
    assert texts(store.open("one")) == ["a", "b"]
    assert store.open("one").meta.model == "m"


def test_absent_is_not_empty(store: SessionStore) -> None:
    with pytest.raises(SessionNotFound):
        store.open("one")
    assert store.create(id="one").messages() == []


def test_the_title_is_the_first_real_text_of_the_user(store: SessionStore) -> None:
    session = store.create()
    assert session.meta.title == "New chat"
    session.append({"role": "assistant", "content": "I begin"})
    session.append(
        {
            "role": "user",
            "content": [{"type": "tool_result", "tool_use_id": "a", "content": "result"}],
        }
    )
    session.append({"role": "user", "content": "  \n "})
    assert session.meta.title == "New chat"
    session.append(
        {
            "role": "user",
            "content": [
                {"type": "image"},
                {"type": "text", "text": "Please\nlook  at " + "this " * 20},
            ],
        }
    )
    assert session.meta.title == "Please look at this this this this this this thi"
    session.append(user("Something else"))
    assert (
        store.latest().title  # type: ignore[union-attr]
        == session.meta.title
        == "Please look at this this this this this this thi"
    )


def test_a_title_that_was_given_stays(store: SessionStore) -> None:
    session = store.create("New chat")
    session.append(user("hello"))
    assert session.meta.title == "New chat"
    session.set_title("Better")
    session.append(user("hello again"))
    assert store.list()[0].title == "Better"


@pytest.mark.parametrize(
    "message",
    [
        "hello",
        None,
        ["hello"],
        {"content": "hello"},
        {"role": "user"},
        {"role": "user", "content": 7},
    ],
)
def test_what_is_no_message_is_refused_with_a_word(store: SessionStore, message: Any) -> None:
    session = store.create()
    with pytest.raises(LogError, match="a message needs a role"):
        session.append(message)
    with pytest.raises(LogError, match="a message needs a role"):
        session.append_many([user("fine"), message])
    assert session.messages() == []


# ── listing ───────────────────────────────────────────────────────────────────────────────────────


def test_list_is_newest_first_and_by_cwd_and_agent(store: SessionStore) -> None:
    for n in range(6):
        store.create(f"s{n}", cwd=f"/work/{n % 2}", agent=f"a{n % 3}").close()
    assert [info.title for info in store.list()] == ["s5", "s4", "s3", "s2", "s1", "s0"]
    assert [info.title for info in store.list(limit=2, offset=1)] == ["s4", "s3"]
    assert [info.title for info in store.list(cwd="/work/1")] == ["s5", "s3", "s1"]
    assert [info.title for info in store.list(cwd="/work/1", agent="a0")] == ["s3"]
    latest = store.latest(cwd="/work/0")
    assert latest is not None
    assert latest.title == "s4"
    assert store.latest(cwd="/nowhere") is None


def test_listing_opens_no_log(store: SessionStore, monkeypatch: pytest.MonkeyPatch) -> None:
    for n in range(5):
        store.create(f"s{n}").close()
    monkeypatch.setattr(SessionStore, "_look", lambda *_: pytest.fail("a log was opened"))
    assert len(store.list()) == len(SessionStore(store.path).list()) == 5
    assert store.latest() is not None


def test_list_follows_the_status_of_the_run(store: SessionStore) -> None:
    session = store.create(id="one")
    session.state.start(goal_id="g")
    assert [info.id for info in store.list(status="active")] == ["one"]
    session.state.complete()
    assert store.list(status="active") == []
    assert [info.status for info in store.list()] == ["completed"]


def test_an_append_moves_a_session_to_the_top(store: SessionStore) -> None:
    first, second = store.create("first"), store.create("second")
    assert [info.title for info in store.list()] == ["second", "first"]
    first.append(user("hello"))
    first.close()
    assert [info.title for info in store.list()] == ["first", "second"]
    second.close()


def test_the_index_can_be_deleted(store: SessionStore) -> None:
    for n in range(3):
        with store.create(f"s{n}") as session:
            session.append(user("hello"))
    before = store.list()
    for names in (
        ["index.db"],
        ["index.db-wal", "index.db-shm"],
        ["index.db", "index.db-wal", "index.db-shm"],
    ):
        for name in names:
            (store.path / index.PLACE / name).unlink(missing_ok=True)
        assert SessionStore(store.path).list() == before
    store.reindex()
    assert store.list() == before


def test_who_has_a_deleted_index_open_tells_the_next_one(store: SessionStore) -> None:
    session = store.create("one")
    other = SessionStore(store.path)
    other.reindex()
    session.set_title("renamed")
    assert [info.title for info in other.list()] == ["renamed"]


def test_a_damaged_index_is_made_again(store: SessionStore) -> None:
    store.create("one").close()
    store.close()
    path = store.path / index.PLACE / "index.db"
    path.write_bytes(b"\xff" * 8192)
    assert [info.title for info in SessionStore(store.path).list()] == ["one"]


def test_a_session_that_came_from_elsewhere_is_listed(store: SessionStore, tmp_path: Path) -> None:
    store.create("here").close()
    assert len(store.list()) == 1
    other = SessionStore(tmp_path / "other")
    other.create("there", id="there").close()
    (other.path / "there").rename(store.path / "there")
    assert {info.title for info in store.list()} == {"here", "there"}
    (store.path / "there").rename(tmp_path / "gone")
    assert {info.title for info in store.list()} == {"here"}


def test_list_works_where_nothing_can_be_written(
    store: SessionStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.create("one").close()

    def refuse(self: Any) -> Any:
        raise PermissionError

    monkeypatch.setattr(index.Index, "_open", refuse)
    assert [info.title for info in SessionStore(store.path).list()] == ["one"]


# ── deleting ──────────────────────────────────────────────────────────────────────────────────────


def test_delete_goes_to_a_trash_that_can_be_emptied(store: SessionStore) -> None:
    store.create("one", id="one").append(user("hello"))
    store.delete("one")
    assert store.list() == []
    assert list(store.trash()) == ["one"]
    with pytest.raises(SessionNotFound):
        store.delete("one")
    assert texts(store.restore("one")) == ["hello"]
    assert [info.id for info in store.list()] == ["one"]
    store.delete("one")
    store.create(id="one")
    with pytest.raises(Conflict):
        store.restore("one")
    assert store.empty_trash() == 1
    assert list(store.trash()) == []


def test_what_cannot_be_deleted_for_good_is_told(
    store: SessionStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.create(id="one")
    store.delete("one")

    def refuse(path: Any) -> None:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(shutil, "rmtree", refuse)
    with pytest.raises(LogError, match="Permission denied"):
        store.empty_trash()
    assert list(store.trash()) == ["one"]


def test_who_has_a_deleted_session_open_is_told(store: SessionStore) -> None:
    session = store.create(id="one")
    session.append(user("hello"))
    store.delete("one")
    with pytest.raises(SessionNotFound):
        session.append(user("lost"))
    store.restore("one").close()
    session.append(user("kept"))
    assert texts(store.open("one")) == ["hello", "kept"]


def test_clear_is_a_record(store: SessionStore) -> None:
    session = store.create(id="one")
    first = session.append(user("hello"))
    session.clear()
    assert session.messages() == []
    assert [record.type for record in session.records()] == ["session", "message", "clear"]
    session.rewind(to=first)
    assert texts(session) == ["hello"]


# ── records ───────────────────────────────────────────────────────────────────────────────────────


def test_seq_has_no_gaps_and_ids_grow(store: SessionStore) -> None:
    session = store.create()
    for n in range(50):
        session.append(user(str(n)))
        session.record("state.anything", {"n": n})
        session.append_many([user("a"), user("b")])
    records = list(session.records())
    assert [record.seq for record in records] == list(range(1 + 50 * 4))
    ids = [record.id for record in records]
    assert ids == sorted(set(ids))
    assert all(record.ts.tzinfo is UTC for record in records)


def test_types_that_nobody_knows_are_kept(store: SessionStore) -> None:
    session = store.create(id="one")
    session.record("from.the.future", {"a": [1, {"b": None}]})
    assert [record.payload for record in store.open("one").records(after=0)] == [
        {"a": [1, {"b": None}]}
    ]


def test_fields_that_nobody_knows_do_not_cost_the_record(store: SessionStore) -> None:
    session = store.create(id="one")
    with (session.path / "log.jsonl").open("a") as file:
        file.write(
            '{"n":1,"i":"'
            + "f" * 24
            + '","d":"2026-01-01T00:00:00Z","t":"message","z":7,"p":{"role":"user","content":"by'
            ' hand"}}\n'
        )
    assert texts(session) == ["by hand"]
    record = session.append(user("next"))
    assert record.seq == 2
    session.append(user("the one after"))
    # Ids should grow and that one leaves no room to; it is found all the same.
    session.rewind(to=record)
    assert texts(session) == ["by hand", "next"]


def test_a_key_is_used_once(store: SessionStore) -> None:
    session = store.create(id="one")
    first = session.append(user("pay"), key="order-7")
    assert session.append(user("pay"), key="order-7").seq == first.seq
    again = store.open("one")
    assert again.append(user("pay"), key="order-7").id == first.id
    batch = again.append_many([user("a"), user("b")], key="batch")
    assert [
        record.seq for record in store.open("one").append_many([user("a"), user("b")], key="batch")
    ] == [r.seq for r in batch]
    session.append(user("other"), key="order-8")
    assert again.append(user("other"), key="order-8").payload == user("other")
    assert texts(session) == ["pay", "a", "b", "other"]


def test_expect_refuses_what_was_decided_on_old_news(store: SessionStore) -> None:
    session, other = store.create(id="one"), store.open("one")
    seen = session.append(user("a")).seq
    other.append(user("b"), expect=seen)
    with pytest.raises(Conflict) as caught:
        session.append(user("c"), expect=seen)
    assert (caught.value.expected, caught.value.actual) == (seen, seen + 1)
    assert texts(session) == ["a", "b"]
    with pytest.raises(Conflict):
        store.draft().append(user("x"), expect=5)


def test_a_payload_that_json_cannot_hold_is_refused_and_harms_nothing(store: SessionStore) -> None:
    session = store.create()
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]
    for bad in ({"a": object()}, {"a": deep}):
        with pytest.raises(LogError):
            session.record("x", bad)
    with pytest.raises(LogError):
        session.append({"role": "user"})
    assert session.append(user("good")).seq == 1
    while deep:  # Taking it apart all at once would end the interpreter.
        deep = deep.pop()


@pytest.mark.parametrize(
    "text",
    ["\0", "half a pair: \ud83d", "\udc00", "\u2028\x85\r\n", "}\n{", '"c":"00000000"}', "\\ud800"],
)
def test_any_text_comes_back(store: SessionStore, text: str) -> None:
    session = store.create(id="one")
    session.append_many([user(text), {"role": "user", "content": "k", text: text}])
    session.append({"role": "assistant", "content": [{"type": "text", "text": text}]}, key=text)
    again = store.open("one")
    assert again.messages() == [
        user(text),
        {"role": "user", "content": "k", text: text},
        {"role": "assistant", "content": [{"type": "text", "text": text}]},
    ]
    last = {"role": "assistant", "content": [{"type": "text", "text": text}]}
    assert again.append(last, key=text).seq == 3
    assert again.problems == []


def test_a_message_of_50_mb_is_a_message(store: SessionStore) -> None:
    session = store.create(id="one")
    session.append(user("before"))
    record = session.append(user("x" * 50_000_000))
    session.append(user("after"))
    again = store.open("one")
    assert [len(text) for text in texts(again)] == [6, 50_000_000, 5]
    assert again.find(record.id).seq == record.seq
    assert [r.seq for r in again.tail(2)] == [2, 3]
    assert next(again.records(after=2)).payload == user("after")


def test_the_clock_may_step_back(store: SessionStore, monkeypatch: pytest.MonkeyPatch) -> None:
    session = store.create(id="one")
    first = session.append(user("a"))
    real, back = time.time_ns, timedelta(hours=1)

    class Stepped(datetime):
        @classmethod
        def now(cls, tz: Any = None) -> Any:
            return datetime.now(tz) - back

    monkeypatch.setattr(time, "time_ns", lambda: real() - 3_600_000_000_000)
    monkeypatch.setattr(log_file, "datetime", Stepped)
    second = session.append(user("b"))
    third = store.open("one").append(user("c"))
    assert first.id < second.id < third.id
    assert second.ts < first.ts
    assert texts(store.open("one")) == ["a", "b", "c"]
    assert store.open("one").find(third.id).seq == third.seq


def test_records_are_found_without_reading_what_lies_before(
    store: SessionStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = store.create(id="one")
    ids = [session.append(user(f"{n} " + "x" * 1000)).id for n in range(5000)]
    again = store.open("one")
    read = 0
    real: Callable[[int, int, int], bytes] = log_reader.__dict__["read_at"]

    def counting(fd: int, size: int, offset: int) -> bytes:
        nonlocal read
        data = real(fd, size, offset)
        read += len(data)
        return data

    monkeypatch.setattr(log_reader, "read_at", counting)
    assert next(again.records(after=3000)).seq == 3001
    assert again.find(ids[4000]).seq == 4001
    assert [record.seq for record in again.tail(3)] == [4998, 4999, 5000]
    assert read < 1_500_000  # of 5.5 MB, for three questions


def test_what_a_compaction_covers_is_not_read_again(
    store: SessionStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    with store.create(id="one") as session:
        for n in range(1500):
            session.append(user(f"{n} " + "x" * 1000))
        session.compact("much was said")
        session.append(user("go on"))
    session, read = store.open("one"), []
    real: Callable[[int, int, int], bytes] = vars(log_reader)["read_at"]

    def counting(fd: int, size: int, offset: int) -> bytes:
        found = real(fd, size, offset)
        read.append(len(found))
        return found

    monkeypatch.setattr(log_reader, "read_at", counting)
    assert texts(session)[2:] == ["go on"]
    assert sum(read) < (session.path / "log.jsonl").stat().st_size / 4


def test_find_says_when_there_is_none(store: SessionStore) -> None:
    session = store.create()
    for wrong in (7, -1, "f" * 24, "0" * 24, "", "no id"):
        with pytest.raises(LogError):
            session.find(wrong)


def test_tail_gives_the_last_records(store: SessionStore) -> None:
    session = store.create()
    assert [record.seq for record in session.tail(5)] == [0]
    for n in range(30):
        session.append_many([user(f"{n}a"), user(f"{n}b")])
    assert [record.seq for record in session.tail(5)] == [56, 57, 58, 59, 60]
    assert session.tail(0) == []
    assert len(session.tail(1000)) == 61


def test_follow_gives_what_anyone_appends(store: SessionStore) -> None:
    session = store.create(id="one")
    session.append(user("before"))
    seen: list[int] = []

    def watch() -> None:
        with store.open("one", readonly=True) as other:
            for record in other.follow(poll_s=0.005, timeout_s=20):
                seen.append(record.seq)
                if len(seen) == 2:
                    return

    thread = threading.Thread(target=watch)
    thread.start()
    deadline = time.monotonic() + 20
    while thread.is_alive() and time.monotonic() < deadline:
        time.sleep(0.02)
        store.open("one").append(user("more"))
    thread.join()
    assert len(seen) == 2
    assert seen[1] == seen[0] + 1 > 2
    assert [record.seq for record in session.follow(after=1, poll_s=0.001, timeout_s=0.01)][:2] == [
        2,
        3,
    ]


# ── writers ───────────────────────────────────────────────────────────────────────────────────────


def test_threads_share_a_handle(store: SessionStore) -> None:
    session = store.create()
    threads = [
        threading.Thread(
            target=lambda name=name: [session.append(user(f"{name}{n}")) for n in range(200)]
        )
        for name in "abcd"
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found = texts(session)
    assert len(found) == 800
    for name in "abcd":
        assert [text for text in found if text[0] == name] == [f"{name}{n}" for n in range(200)]
    assert [record.seq for record in session.records()] == list(range(801))


def test_power_waits_for_the_disk_once_for_all_who_wait(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = SessionStore(tmp_path, durability="power").create()
    syncs = 0
    gate = threading.Event()

    def slow(fd: int) -> None:
        nonlocal syncs
        syncs += 1
        gate.wait(5)

    monkeypatch.setattr(log_file, "sync", slow)
    threads = [threading.Thread(target=session.append, args=(user(str(n)),)) for n in range(8)]
    for thread in threads:
        thread.start()
    deadline = time.monotonic() + 5
    while len(list(session.records())) < 9 and time.monotonic() < deadline:
        time.sleep(0.005)
    time.sleep(0.2)  # What can be read has been written, but who wrote it may not know yet.
    gate.set()
    for thread in threads:
        thread.join()
    assert 1 <= syncs <= 2  # the first one's, and one for the seven that were written meanwhile


def test_a_lease_keeps_others_out(store: SessionStore) -> None:
    session = store.create(id="one")
    session.append(user("a"))
    holder = store.open("one", exclusive=True, owner="worker-1")
    assert holder.append(user("b")).epoch == 1
    with pytest.raises(SessionBusy) as caught:
        session.append(user("x"))
    assert caught.value.owner == "worker-1"
    with pytest.raises(SessionBusy):
        store.open("one", exclusive=True)
    with pytest.raises(SessionBusy):
        store.open("one").append(user("x"))
    with pytest.raises(SessionBusy):
        store.delete("one")
    assert texts(store.open("one", readonly=True)) == ["a", "b"]
    holder.close()
    session.append(user("c"))
    assert texts(session) == ["a", "b", "c"]


def test_a_lease_can_be_taken_over_by_name_which_fences_its_holder(store: SessionStore) -> None:
    store.create(id="one")
    old = store.open("one", exclusive=True, owner="worker-1")
    with pytest.raises(SessionBusy):
        store.open("one", exclusive=True, owner="worker-2", take_over="someone else")
    new = store.open("one", exclusive=True, owner="worker-2", take_over="worker-1")
    with pytest.raises(LeaseLost) as caught:
        old.append(user("too late"))
    assert caught.value.owner == "worker-2"
    with pytest.raises(SessionBusy):
        old.append(user("still too late"))
    assert new.append(user("mine")).epoch == 2
    old.close()
    assert new.append(user("still mine")).epoch == 2
    assert texts(new) == ["mine", "still mine"]


def test_a_snapshot_can_be_deleted_damaged_or_of_another_log(store: SessionStore) -> None:
    session = store.create(id="one")
    for n in range(10):
        session.append(user(str(n)))
    session.put_snapshot("mine", 7, b"seven")
    path = session.path / "snapshots/mine"
    whole = path.read_bytes()
    assert store.open("one").snapshot("mine") == (7, b"seven")
    for bad in (
        b"",
        whole[:-1],
        whole[: len(whole) // 2],
        b"\0" * len(whole),
        whole.replace(b"seven", b"eight"),
    ):
        path.write_bytes(bad)
        assert store.open("one").snapshot("mine") is None
    path.write_bytes(whole)
    (session.path / "log.jsonl").write_bytes(
        b"".join((session.path / "log.jsonl").read_bytes().splitlines(True)[:5])
    )
    assert store.open("one").snapshot("mine") is None
    assert store.open("one").snapshot("other") is None


def test_a_view_comes_back_from_its_snapshot_and_without_it(store: SessionStore) -> None:
    with store.create(id="one") as session:
        for n in range(20):
            session.append(user(str(n)))
        session.compact("half")
        for n in range(200):
            session.append(user(f"after {n}"))
    view = store.open("one").messages()
    path = store.path / "one/snapshots/view"
    assert path.exists()
    path.write_bytes(b"")
    assert store.open("one").messages() == view
    path.unlink()
    assert store.open("one").messages() == view


def test_what_is_opened_for_reading_is_not_written(store: SessionStore) -> None:
    store.create(id="one").append(user("a"))
    session = store.open("one", readonly=True)
    with pytest.raises(LogError):
        session.append(user("b"))
    with pytest.raises(LogError):
        store.open("one", readonly=True, exclusive=True)
    session.put_snapshot("x", 1, b"")
    assert not (session.path / "snapshots").exists()


def test_a_newer_format_is_read_and_not_written(store: SessionStore) -> None:
    session = store.create(id="one")
    session.append(user("a"))
    log = session.path / "log.jsonl"
    lines = log.read_text().splitlines(True)
    first = json.loads(lines[0])
    first["p"]["version"] = 99
    del first["c"]
    log.write_text("".join([json.dumps(first) + "\n", *lines[1:]]))
    with pytest.raises(LogError, match="newer"):
        store.open("one")
    assert texts(store.open("one", readonly=True)) == ["a"]


def test_a_newer_format_is_told_also_when_the_first_line_is_long(store: SessionStore) -> None:
    """A draft's own record shares its line with what was appended first."""
    session = store.draft(id="one")
    session.append(user("long " * 100_000))
    log = session.path / "log.jsonl"
    store.open("one").close()
    line, _, _ = log.read_bytes().replace(b'"version":1', b'"version":99', 1).rpartition(b',"c":')
    log.write_bytes(line + b"}\n")
    with pytest.raises(LogError, match="newer"):
        store.open("one")


def test_the_version_of_the_log_is_not_the_callers(store: SessionStore) -> None:
    with pytest.raises(LogError, match="version"):
        store.create(version=2)


def test_long_tool_output_is_kept_beside_the_log(store: SessionStore) -> None:
    session = store.create(id="one")
    long = "begin " + "ü" * 200_000 + " end"
    result = {"type": "tool_result", "tool_use_id": "t", "content": long, "is_error": False}
    parts = {
        "type": "tool_result",
        "tool_use_id": "u",
        "content": [{"type": "text", "text": long}, {"type": "image"}],
    }
    session.append(
        {
            "role": "assistant",
            "content": [{"type": "tool_use", "id": id, "name": "x", "input": {}} for id in "tu"],
        }
    )
    record = session.append({"role": "user", "content": [result, parts]})
    block = record.payload["content"][0]
    assert block["content"].startswith("begin ")
    assert block["content"].endswith(" end")
    assert len(block["content"]) < 10_000
    assert store.open("one").output(block["output"]).decode() == long
    assert (
        store.open("one")
        .output(record.payload["content"][1]["content"][0]["output"]["sha256"])
        .decode()
        == long
    )
    assert len(list((session.path / "outputs").iterdir())) == 1
    assert result["content"] == long  # what the caller has is left alone
    path = session.path / "outputs" / block["output"]["sha256"]
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(LogError, match="damaged"):
        session.output(block["output"])
    for wrong in ("../log.jsonl", "", {"sha256": 7}):
        with pytest.raises(LogError):
            session.output(wrong)


def test_durability_is_one_of_two_words(tmp_path: Path) -> None:
    with pytest.raises(LogError):
        SessionStore(tmp_path, durability="often")  # type: ignore[arg-type]


def test_without_a_path_the_store_is_in_the_home_of_runlore(home: Path) -> None:
    store = SessionStore()
    store.create(id="one")
    assert (home / ".runlore/live/one/log.jsonl").exists()


def test_threads_share_a_handle_that_has_seen_nothing_yet(
    store: SessionStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of two first appends, one is slow to read the snapshot: what was folded meanwhile is not
    thrown away."""
    with store.create(id="one") as session:
        session.append(user("before"))
    session = store.open("one")
    real, slow, done = snapshots.FolderSnapshots.read, threading.Event(), threading.Event()
    main = threading.get_ident()

    def read(*args: Any) -> Any:
        if threading.get_ident() != main and not slow.is_set():
            slow.set()
            done.wait(0.5)
        return real(*args)

    monkeypatch.setattr(snapshots.FolderSnapshots, "read", read)
    thread = threading.Thread(target=session.append, args=(user("slow"),))
    thread.start()
    assert slow.wait(5)
    for n in range(3):
        session.append(user(str(n)))
    done.set()
    thread.join()
    assert texts(session) == ["before", "slow", "0", "1", "2"]


def test_power_waits_also_in_the_next_session_of_a_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What had reached the disk of the one before says nothing of this one."""
    store = SessionStore(tmp_path, durability="power")
    session = store.create(id="one")
    session.append(user("long " * 1000))
    session.close()
    store.delete("one")
    store.create(id="one").close()
    synced: list[int] = []
    monkeypatch.setattr(log_file, "sync", synced.append)
    session.append(user("short"))
    assert texts(store.open("one")) == ["short"]
    assert synced


def test_a_barrier_waits_for_what_others_wrote(
    store: SessionStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.create(id="one").append(user("by another handle"))
    synced: list[int] = []
    monkeypatch.setattr(log_file, "sync", synced.append)
    store.open("one").sync()
    assert len(synced) == 1


def test_a_batch_that_made_the_session_is_given_back_as_it_was(store: SessionStore) -> None:
    session = store.draft(id="one")
    batch = [user("a"), user("b")]
    first = session.append_many(batch, key="turn-1")
    assert session.append_many(batch, key="turn-1") == first
    assert store.open("one").append_many(batch, key="turn-1") == first
    assert [record.payload["content"] for record in first] == ["a", "b"]


def test_of_a_batch_only_what_is_not_known_is_appended(store: SessionStore) -> None:
    session = store.create(id="one")
    first = session.record("note", {"n": 1, "at": (1, 2)}, key="a")
    items: list[Any] = [
        ("note", {"n": 1, "at": (1, 2)}, "a"),
        ("note", {"n": 2}, "b"),
        ("note", {}, None),
    ]
    for handle in (session, store.open("one")):
        records = handle.record_many(items)
        assert (records[0].seq, records[0].id) == (first.seq, first.id)
        assert [record.payload for record in records[1:]] == [{"n": 2}, {}]
        assert records[1].seq == 2
    assert [record.seq for record in session.records()] == [0, 1, 2, 3, 4]
    again = session.append_many([user("x"), user("y")], key="turn")
    assert session.append_many([user("x"), user("y"), user("z")], key="turn")[:2] == again
    assert texts(session) == ["x", "y", "z"]


@pytest.mark.parametrize("other", [("note", {"n": 2}), ("title", {"n": 1})])
def test_a_key_that_was_used_for_something_else_is_a_conflict(
    store: SessionStore, other: tuple[str, dict[str, Any]]
) -> None:
    session = store.create(id="one")
    session.record("note", {"n": 1}, key="a")
    with pytest.raises(Conflict, match="'a' was used for another record"):
        session.record(*other, key="a")
    with pytest.raises(Conflict):
        session.record_many([("note", {"n": 3}, "b"), (*other, "a")])
    with pytest.raises(Conflict):
        session.record_many([("note", {"n": 3}, "b"), ("note", {"n": 4}, "b")])
    assert session.last_seq == 1


@pytest.mark.parametrize("path", ["mysql://me:secret@host/db", "s3://bucket/a", "file:///x"])
def test_what_is_no_folder_is_refused_and_its_password_not_shown(
    path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(LogError, match="no kind of session store") as raised:
        SessionStore(path)
    assert "secret" not in str(raised.value)
    assert not any(path.name != "home" for path in tmp_path.iterdir())


@pytest.mark.parametrize(
    "value", [b"bytes", datetime(2026, 1, 2, tzinfo=UTC), {1, 2}, {1: "a"}, Decimal("1.5")]
)
def test_what_would_come_back_as_something_else_is_refused(store: SessionStore, value: Any) -> None:
    session = store.create(id="one")
    with pytest.raises(LogError, match="payload"):
        session.record("note", {"value": [value]})
    with pytest.raises(LogError, match="payload"):
        session.append({"role": "user", "content": [{"type": "image", "data": value}]})
    with pytest.raises(LogError, match="payload"):
        session.tool_finished("call", {"data": value})
    with pytest.raises(LogError, match="payload"):
        store.create(id="two", about=value)
    assert session.last_seq == 0


@pytest.mark.parametrize(("type", "key"), [("note", 5), (5, None), ("", None), ("note", b"key")])
def test_what_could_be_written_and_not_be_read_is_refused(
    store: SessionStore, type: Any, key: Any
) -> None:
    session = store.create(id="one")
    with pytest.raises(LogError):
        session.record(type, {"n": 1}, key=key)
    assert session.append(user("next")).seq == 1
    assert not session.problems


def test_who_ensures_a_session_that_another_one_makes_meanwhile_joins_it(
    store: SessionStore,
) -> None:
    one, two = store.ensure("one", title="first"), store.ensure("one", title="second")
    one.append(user("a"))
    two.append(user("b"))
    two.append(user("c"))
    one.append(user("d"))
    assert texts(one) == texts(two) == ["a", "b", "c", "d"]
    assert one.meta.title == two.meta.title == "first"
    assert [record.type for record in one.records()].count("session") == 1


def test_who_ensures_a_session_to_read_it_sees_what_another_one_makes_of_it(
    store: SessionStore,
) -> None:
    early = store.ensure("one")
    assert early.is_draft
    assert not [*early.follow(timeout_s=0)]
    assert texts(early) == []
    following = early.follow(after=-1, poll_s=0.01, timeout_s=10)
    store.ensure("one", title="theirs").append(user("a"))
    assert next(following).type == "session"
    assert next(following).payload == user("a")
    assert (texts(early), early.meta.title, early.is_draft) == (["a"], "theirs", False)
    assert early.append(user("b")).seq == 2


def test_a_draft_of_an_id_that_was_taken_meanwhile_is_refused(
    store: SessionStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also when both had made the file, and only one had written to it."""
    one, two = store.draft(id="one"), store.draft(id="one")
    real = log_file.LogFile.create

    def create(file: log_file.LogFile) -> None:
        real(file)
        if file is log_of(two).file:
            (store.path / "one/log.jsonl").write_bytes(
                (store.path / "other/log.jsonl").read_bytes()
            )

    one.append(user("a"))
    (store.path / "one").rename(store.path / "other")
    monkeypatch.setattr(log_file.LogFile, "create", create)
    with pytest.raises(Conflict, match="exists"):
        two.append(user("b"))
    assert texts(store.open("one")) == ["a"]


def test_tail_cuts_batches_where_it_is_told_to(store: SessionStore) -> None:
    session = store.create()
    session.record_many([("note", {"n": n}, None) for n in range(3)])
    for n in range(3, 500):
        session.record("note", {"n": n})
    for count in (1, 2, 400, 498, 501, 1000):
        assert [record.seq for record in session.tail(count)] == list(range(501))[-count:]
    assert session.tail(0) == []


def test_with_power_a_fork_and_what_is_restored_have_their_names_on_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise a loss of power would take the folder away, and with it all that is appended there
    and acknowledged."""
    store = SessionStore(tmp_path / "store", durability="power")
    session = store.create(id="one")
    session.append(user("a"))
    synced: list[Path] = []
    monkeypatch.setattr(backend, "sync_folder", synced.append)
    session.fork(id="two")
    store.delete("two")
    store.restore("two")
    assert synced == [store.path, store.path]
