"""What the model should see: rewinds, branches, compactions, interrupted tools. Reading writes
nothing."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from runlore.errors import Conflict, LogError
from runlore.live import SessionStore, should_compact
from runlore.live.log import LiveSession
from runlore.live.views import (
    INTERRUPTED,
    SUMMARY_ACK,
    SUMMARY_HEAD,
    SUMMARY_PROMPT,
    context_tokens,
)


@pytest.fixture
def session(store: SessionStore) -> LiveSession:
    return store.create(id="one")


def user(content: Any) -> dict[str, Any]:
    return {"role": "user", "content": content}


def assistant(content: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": content}


def call(*ids: str) -> dict[str, Any]:
    return assistant(
        [{"type": "tool_use", "id": id, "name": "run", "input": {"n": id}} for id in ids]
    )


def result(*ids: str) -> dict[str, Any]:
    return user(
        [{"type": "tool_result", "tool_use_id": id, "content": f"result of {id}"} for id in ids]
    )


def say(session: LiveSession, *texts: str) -> list[Any]:
    return [session.append(user(text)) for text in texts]


def texts(messages: LiveSession | list[dict[str, Any]]) -> list[str]:
    messages = messages.messages() if isinstance(messages, LiveSession) else messages
    return [
        (
            m["content"]
            if isinstance(m["content"], str)
            else "".join(b.get("text", "") for b in m["content"])
        )
        for m in messages
    ]


def with_summary(summary: str, *more: str) -> list[str]:
    return [SUMMARY_HEAD + summary, SUMMARY_ACK, *more]


# ── rewind, redo, branches ────────────────────────────────────────────────────────────────────────


def test_rewind_keeps_what_came_after_in_the_record(session: LiveSession) -> None:
    a, b, _ = say(session, "a", "b", "c")
    session.rewind(to=b)
    assert texts(session) == ["a", "b"]
    say(session, "d")
    assert texts(session) == ["a", "b", "d"]
    session.rewind(before=b)
    assert texts(session) == ["a"]
    session.rewind()
    assert texts(session) == []
    session.rewind(to=a.seq)
    assert texts(session) == ["a"]
    assert [r.payload["content"] for r in session.records() if r.type == "message"] == [
        "a",
        "b",
        "c",
        "d",
    ]


def test_redo_takes_rewinds_back_one_by_one(session: LiveSession) -> None:
    a, b, _ = say(session, "a", "b", "c")
    session.rewind(to=b)
    session.rewind(to=a)
    session.redo()
    assert texts(session) == ["a", "b"]
    session.redo()
    assert texts(session) == ["a", "b", "c"]
    with pytest.raises(LogError, match="nothing to redo"):
        session.redo()
    session.rewind(to=a)
    say(session, "d")
    with pytest.raises(LogError, match="nothing to redo"):
        session.redo()


def test_a_rewind_to_what_is_not_there_is_refused(session: LiveSession) -> None:
    say(session, "a")
    for wrong in (-1, 7, "no id", "f" * 24):
        with pytest.raises(LogError):
            session.rewind(to=wrong)
    assert texts(session) == ["a"]


@pytest.mark.parametrize(
    "payload", [{}, {"seq": "1"}, {"seq": -5}, {"seq": 99}, {"seq": None}, {"seq": [1]}]
)
def test_a_rewind_that_makes_no_sense_changes_nothing(
    session: LiveSession, payload: dict[str, Any]
) -> None:
    say(session, "a", "b")
    session.record("rewind", payload)
    session.record("redo", payload)
    assert texts(session) == ["a", "b"]


def test_branches_are_listed_and_can_be_gone_back_to(session: LiveSession) -> None:
    a, b, c = say(session, "a", "b", "c")
    session.rewind(to=a)
    (d,) = say(session, "d")
    assert [(branch.tip, branch.is_active) for branch in session.branches()] == [
        (c.id, False),
        (d.id, True),
    ]
    session.rewind(to=c)
    assert texts(session) == ["a", "b", "c"]
    assert [branch.is_active for branch in session.branches()] == [True, False]
    (e,) = say(session, "e")  # goes on where the first branch ended: not a third one
    assert [branch.tip for branch in session.branches()] == [d.id, e.id]
    session.rewind(to=d)
    assert texts(session) == ["a", "d"]
    assert texts(session.at(b).messages) == ["a", "b"]


def test_a_branch_is_where_it_was_after_reopening(session: LiveSession, address: str) -> None:
    a, *_ = say(session, "a", "b")
    session.rewind(to=a)
    say(session, "c")
    session.close()
    again = SessionStore(address).open("one")
    assert texts(again) == ["a", "c"]
    assert len(again.branches()) == 2


def test_at_gives_the_view_as_it_was(session: LiveSession) -> None:
    a, b = say(session, "a", "b")
    back = session.rewind(to=a)
    (c,) = say(session, "c")
    compact = session.compact("s")
    say(session, "d")
    expected = [
        (a, ["a"]),
        (b, ["a", "b"]),
        (back, ["a"]),
        (c, ["a", "c"]),
        (compact, with_summary("s")),
    ]
    for record, view in expected:
        assert texts(session.at(record.id).messages) == view
    assert texts(session.at(0).messages) == []


# ── compaction ────────────────────────────────────────────────────────────────────────────────────


def test_a_summary_stands_for_what_it_covers(session: LiveSession) -> None:
    say(session, "a", "b")
    record = session.compact("ab", provider="p", model="m", usage={"input_tokens": 7})
    assert record.payload == {
        "summary": "ab",
        "upto": 2,
        "compacted_count": 2,
        "provider": "p",
        "model": "m",
        "usage": {"input_tokens": 7},
    }
    say(session, "c")
    assert texts(session) == with_summary("ab", "c")
    assert [m["meta"] for m in session.messages()[:2]] == [{"synthetic": True}] * 2
    session.compact("abc")
    say(session, "d")
    assert texts(session) == with_summary("abc", "d")


def test_rewinding_across_a_compaction_restores_what_it_covered(session: LiveSession) -> None:
    a, b = say(session, "a", "b")
    session.compact("first")
    (c,) = say(session, "c")
    session.compact("second")
    say(session, "d")
    session.rewind(to=c)
    assert texts(session) == with_summary("first", "c")
    session.rewind(to=a)
    assert texts(session) == ["a"]
    session.redo()
    session.redo()
    assert texts(session) == with_summary("second", "d")
    session.rewind(to=b)
    say(session, "e")
    assert texts(session) == ["a", "b", "e"]


def test_a_rewind_and_then_a_compaction_covers_what_is_in_view(session: LiveSession) -> None:
    a, *_ = say(session, "a", "b")
    session.rewind(to=a)
    say(session, "new")
    assert texts(session) == ["a", "new"]
    session.compact("a and new")
    say(session, "c")
    assert texts(session) == with_summary("a and new", "c")


def test_messages_appended_while_the_summary_was_made_stay(session: LiveSession) -> None:
    _, b = say(session, "a", "b")
    say(session, "meanwhile")
    session.compact("ab", upto=b)
    assert texts(session) == with_summary("ab", "meanwhile")
    say(session, "later")
    assert texts(session) == with_summary("ab", "meanwhile", "later")


def test_what_was_cleared_is_not_brought_back_by_an_older_compaction(session: LiveSession) -> None:
    a, _ = say(session, "a", "b")
    session.clear()
    say(session, "c")
    # as someone does who looked before it was cleared
    session.record("compact", {"summary": "a", "upto": a.seq})
    assert texts(session) == with_summary("a", "c")


def test_a_compaction_of_nothing_is_refused(session: LiveSession) -> None:
    with pytest.raises(LogError, match="nothing to compact"):
        session.compact("x")
    a, _ = say(session, "a", "b")
    session.clear()
    with pytest.raises(LogError, match="nothing to compact"):
        session.compact("x", upto=a)


def test_a_call_that_waits_is_never_covered(session: LiveSession) -> None:
    say(session, "a")
    session.append(call("t1"))
    session.tool_waiting("t1")
    session.compact("a")
    assert texts(session) == with_summary("a", "")
    assert [c.fate for c in session.recover().calls] == ["waiting"]
    session.append(result("t1"))
    assert session.messages()[-1] == result("t1")


def test_a_result_whose_call_was_covered_is_not_sent(session: LiveSession) -> None:
    say(session, "a")
    covered = session.append(call("t1"))
    session.append(result("t1"))
    session.compact("a and the call", upto=covered)
    say(session, "b")
    assert texts(session) == with_summary("a and the call", "b")


def test_the_prompt_for_a_summary_asks_for_five_things() -> None:
    for heading in (
        "User Requests",
        "Completed Work",
        "Current State",
        "Key Decisions",
        "Next Steps",
    ):
        assert f"## {heading}" in SUMMARY_PROMPT


@pytest.mark.parametrize(
    ("usage", "tokens"),
    [
        ({"input_tokens": 100}, 100),
        ({"prompt_tokens": 100, "prompt_tokens_details": {"cached_tokens": 90}}, 100),
        ({"prompt_token_count": 100, "cached_content_token_count": 90}, 100),
        (
            {"input_tokens": 10, "cache_read_input_tokens": 80, "cache_creation_input_tokens": 10},
            100,
        ),
        ({"input_tokens": 0, "cache_read_input_tokens": 100}, 100),
        ({"input_tokens": 100, "input_tokens_details": {"cached_tokens": 90}}, 100),
        ({"input_tokens": 60, "cache_read_tokens": 20, "cache_write_tokens": 20}, 100),
        ({"input_tokens": "many", "output_tokens": 7}, 0),
        ({"input_tokens": True}, 0),
    ],
)
def test_cached_tokens_fill_the_window_too(usage: dict[str, Any], tokens: int) -> None:
    assert context_tokens(usage) == tokens


def test_should_compact_at_the_threshold() -> None:
    usage = {"input_tokens": 10, "cache_read_input_tokens": 150}
    assert should_compact(usage, 200)
    assert not should_compact(usage, 201)
    assert not any(
        [
            should_compact(None, 200),
            should_compact({}, 200),
            should_compact(usage, 0),
            should_compact(usage, 200, 0),
        ]
    )


def test_a_session_knows_by_its_last_usage(session: LiveSession) -> None:
    assert not session.should_compact(100)
    session.append({**assistant("x"), "usage": {"input_tokens": 10, "cache_read_input_tokens": 90}})
    say(session, "y")
    assert session.should_compact(100)
    assert not session.should_compact(1000)
    assert session.should_compact(1000, {"input_tokens": 900})
    session.compact("s")
    assert not session.should_compact(100)


# ── fork ──────────────────────────────────────────────────────────────────────────────────────────


def test_a_fork_goes_its_own_way_and_names_its_origin(session: LiveSession, address: str) -> None:
    a, b, _ = say(session, "a", "b", "c")
    fork = session.fork(at=b, id="two")
    assert fork.meta.origin == {"session": "one", "record": b.id, "seq": b.seq}
    assert fork.meta.title == "a"
    assert texts(fork) == ["a", "b"]
    say(fork, "d")
    assert texts(fork) == ["a", "b", "d"]
    assert texts(session) == ["a", "b", "c"]
    assert fork.find(a.id).payload == user("a")  # the same record, by the same name
    ids = [record.id for record in fork.records()]
    assert ids == sorted(ids)
    assert [record.seq for record in fork.records()] == [0, 1, 2, 3]
    SessionStore(address).delete("one")
    assert texts(SessionStore(address).open("two")) == ["a", "b", "d"]


@pytest.mark.folder
def test_a_fork_of_an_old_session_is_the_latest(address: str) -> None:
    """Its records keep their times; the session is new."""
    store = SessionStore(address)
    old = store.create(id="old")
    line = '{"n":1,"i":"%s","d":"%s","t":"message","p":{"role":"user","content":"long ago"}}\n'
    with (old.path / "log.jsonl").open("a") as file:
        file.write(line % ("0" * 24, "2020-01-01T00:00:00Z"))
    store.create(id="other").append(user("meanwhile"))
    with old.fork(id="new") as made:
        assert texts(made) == ["long ago"]
        assert made.meta.updated_at >= made.meta.created_at
    latest = store.latest()
    assert latest is not None
    assert latest.id == "new"


@pytest.mark.folder
def test_a_time_without_zone_does_no_harm(address: str) -> None:
    store = SessionStore(address)
    session = store.create(id="one")
    with (session.path / "log.jsonl").open("a") as file:
        file.write(
            '{"n":1,"i":"%s","d":"2020-01-01T00:00:00","t":"message","p":{"role":"user",'
            '"content":"by'
            ' hand"}}\n' % ("0" * 24)
        )
    store.reindex()
    (info,) = store.list()
    assert info.messages == 1
    assert info.updated_at.tzinfo is not None


def test_a_fork_takes_compactions_and_outputs_along(session: LiveSession) -> None:
    say(session, "left behind")
    session.rewind()
    a, b = say(session, "a", "b")
    say(session, "c")
    session.compact("ab", upto=b)
    session.append(call("t"))
    session.append(user([{"type": "tool_result", "tool_use_id": "t", "content": "x" * 100_000}]))
    fork = session.fork()
    assert fork.messages() == session.messages()
    assert fork.messages()[-1]["content"][0]["content"] == "x" * 100_000
    fork.rewind(to=a.id)
    assert texts(fork) == ["a"]
    assert "left behind" not in [record.payload.get("content") for record in fork.records()]


def test_a_fork_of_an_abandoned_branch(session: LiveSession) -> None:
    a, b = say(session, "a", "b")
    session.rewind(to=a)
    say(session, "c")
    assert texts(session.fork(at=b)) == ["a", "b"]
    assert texts(session.fork(at=0)) == []


def test_a_fork_does_not_take_an_id_that_is_taken(session: LiveSession, address: str) -> None:
    say(session, "a")
    with pytest.raises(Conflict):
        session.fork(id="one")
    with pytest.raises(LogError):
        SessionStore(address).draft().fork()
    assert [info.id for info in SessionStore(address).list()] == ["one"]


# ── tools ─────────────────────────────────────────────────────────────────────────────────────────


def results_in(message: dict[str, Any]) -> dict[str, Any]:
    return {
        block["tool_use_id"]: block["content"]
        for block in message["content"]
        if block["type"] == "tool_result"
    }


def test_what_is_complete_is_given_back_as_it_was(session: LiveSession) -> None:
    said = [
        user("go"),
        call("t1", "t2"),
        user([*result("t1", "t2")["content"], {"type": "text", "text": "and"}]),
        assistant("done"),
    ]
    for message in said:
        session.append(message)
    assert session.messages() == said
    assert session.recover().calls == []


def test_interrupted_calls_are_closed_beside_their_call_in_every_loop(session: LiveSession) -> None:
    for message in (
        call("t1"),
        user("never mind"),
        call("t2", "t3"),
        result("t3"),
        user("and now?"),
        call("t4"),
    ):
        session.append(message)
    view = session.messages()
    assert results_in(view[1]) == {"t1": INTERRUPTED}
    assert view[2] == user("never mind")
    assert results_in(view[4]) == {"t2": INTERRUPTED, "t3": "result of t3"}
    assert view[5] == user("and now?")
    assert results_in(view[7]) == {"t4": INTERRUPTED}
    assert view[7]["content"][0]["is_error"] is True
    assert [record.type for record in session.records()] == ["session"] + ["message"] * 6


def test_a_late_result_is_put_beside_its_call_and_given_once(session: LiveSession) -> None:
    for message in (
        call("t1"),
        user("waiting"),
        user([*result("t1")["content"], {"type": "text", "text": "late"}]),
        result("t1"),
    ):
        session.append(message)
    view = session.messages()
    assert results_in(view[1]) == {"t1": "result of t1"}
    assert view[2:] == [user("waiting"), user([{"type": "text", "text": "late"}])]


def test_a_result_without_a_call_is_left_out(session: LiveSession) -> None:
    session.append(result("t0"))
    say(session, "a")
    assert session.messages() == [user("a")]
    assert session.messages(repaired=False) == [result("t0"), user("a")]


def test_an_id_that_is_used_twice_needs_two_results(session: LiveSession) -> None:
    for message in (call("t1"), result("t1"), call("t1"), user("x")):
        session.append(message)
    view = session.messages()
    assert [results_in(view[n]) for n in (1, 3)] == [{"t1": "result of t1"}, {"t1": INTERRUPTED}]


@pytest.mark.parametrize(
    "content",
    [
        [None, 7, "x"],
        [{"type": "tool_use"}],
        [{"type": "tool_use", "id": 7}],
        [{"type": "tool_result"}],
        [{}],
        [{"type": "new", "a": 1}],
    ],
)
def test_strange_blocks_do_no_harm(session: LiveSession, content: list[Any]) -> None:
    session.append(assistant(content))
    session.append(user(content))
    session.append(call("t1"))
    assert results_in(session.messages()[-1]) == {"t1": INTERRUPTED}


@pytest.mark.parametrize(
    "payload",
    [
        {},
        {"role": 7},
        {"content": None},
        {"role": "user", "content": 7},
        {"role": "assistant", "content": {}},
    ],
)
def test_strange_messages_from_elsewhere_do_no_harm(
    session: LiveSession, payload: dict[str, Any]
) -> None:
    session.record("message", payload)
    session.append(call("t1"))
    assert session.messages()[0] == payload
    assert results_in(session.messages()[-1]) == {"t1": INTERRUPTED}
    session.compact("fine")
    session.record("compact", {"summary": 7})
    assert texts(session)[0] == SUMMARY_HEAD


@contextmanager
def another_process(work: Callable[[], object]) -> Iterator[Callable[[], None]]:
    """One that has done this work and lives on, until it is told to end."""
    ready, ready_w = os.pipe()
    go, go_w = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            work()
            os.write(ready_w, b".")
            os.read(go, 1)
        finally:
            os._exit(0)
    os.read(ready, 1)

    def end() -> None:
        os.write(go_w, b".")
        os.waitpid(pid, 0)

    yield end
    for fd in (ready, ready_w, go, go_w):
        os.close(fd)


@pytest.mark.folder
def test_a_tool_that_runs_in_another_process_is_not_interrupted(
    session: LiveSession, address: str
) -> None:
    def work() -> None:
        other = SessionStore(address).open("one")
        other.append(call("t1"))
        other.tool_started("t1", "run")

    with another_process(work) as end:
        before = (session.path / "log.jsonl").read_bytes()
        assert session.messages() == [call("t1")]
        assert [c.fate for c in session.recover().calls] == ["running"]
        assert (session.path / "log.jsonl").read_bytes() == before
        end()
    assert [c.fate for c in session.recover().calls] == ["unknown"]
    assert "not known" in results_in(session.messages()[-1])["t1"]


def test_a_call_in_the_hands_of_the_runs_owner_is_not_interrupted(
    session: LiveSession, address: str
) -> None:
    """Also when the owner keeps no ledger, or has not come to say that the tool began."""

    def work() -> None:
        other = SessionStore(address).open("one")
        other.state.start(goal_id="goal")
        other.append(call("t1"))

    with another_process(work) as end:
        assert session.messages() == [call("t1")]
        assert [c.fate for c in session.recover().calls] == ["running"]
        end()
    assert results_in(session.messages()[-1]) == {"t1": INTERRUPTED}


def test_a_call_in_the_hands_of_the_lease_holder_is_not_interrupted(
    session: LiveSession, address: str
) -> None:
    holder = SessionStore(address).open("one", exclusive=True)
    holder.append(call("t1"))
    assert session.messages() == [call("t1")]
    assert holder.messages() != [call("t1")]
    holder.close()
    assert results_in(session.messages()[-1]) == {"t1": INTERRUPTED}


def test_a_call_that_waits_for_approval_is_not_interrupted(session: LiveSession) -> None:
    session.append(call("t1", "t2"))
    session.tool_waiting("t1")
    session.append(result("t2"))
    assert session.messages() == [call("t1", "t2"), result("t2")]
    say(session, "still there?")  # Now something follows, and providers want a result before it.
    view = session.messages()
    assert "waiting for approval" in results_in(view[1])["t1"]
    assert view[1]["content"][1].get("is_error") is False
    assert view[2] == user("still there?")


def test_the_ledger_says_what_became_of_each_call(session: LiveSession) -> None:
    session.append(call("done", "begun", "safe", "never", "answered"))
    for id, replay in (
        ("done", "never"),
        ("begun", "never"),
        ("safe", "safe"),
        ("answered", "never"),
    ):
        record = session.tool_started(id, "run", {"n": id}, replay=replay)  # type: ignore[arg-type]
    session.tool_finished("done", "its output")
    session.tool_finished("answered", "x")
    session.append(result("answered"))
    dead = {**record.payload, "owner": {**record.payload["owner"], "pid": 2**22 + 7}}
    for id, replay in (("begun", "never"), ("safe", "safe")):
        session.record("tool_started", {**dead, "call_id": id, "replay": replay})
    recovery = session.recover()
    assert [c.call_id for c in recovery.settled] == ["done"]
    assert recovery.settled[0].output == "its output"
    assert [c.call_id for c in recovery.not_started] == ["never"]
    assert [(c.call_id, c.replay, c.name, c.input) for c in recovery.unknown] == [
        ("begun", "never", "run", {"n": "begun"}),
        ("safe", "safe", "run", {"n": "safe"}),
    ]
    found = results_in(session.messages()[1])
    assert found["done"] == "its output"
    assert "before the tool began" in found["never"]
    assert found["answered"] == "result of answered"


def test_a_long_output_in_the_ledger_is_kept_beside_the_log(session: LiveSession) -> None:
    session.append(call("t1"))
    session.tool_started("t1")
    record = session.tool_finished("t1", "x" * 100_000)
    assert len(record.payload["output"]) < 10_000
    assert session.output(record.payload["whole"]) == b"x" * 100_000
    assert results_in(session.messages()[1])["t1"] == "x" * 100_000
    assert results_in(session.messages(whole=False)[1])["t1"] == record.payload["output"]
    assert session.recover().settled[0].output == "x" * 100_000


def test_a_long_text_among_the_blocks_of_an_output_is_kept_beside_the_log(
    session: LiveSession,
) -> None:
    session.append(call("t1"))
    record = session.tool_finished(
        "t1", [{"type": "text", "text": "x" * 100_000}, {"type": "image"}, 7]
    )
    text, *others = record.payload["output"]
    assert len(text["text"]) < 10_000
    assert others == [{"type": "image"}, 7]
    assert session.output(text["output"]) == b"x" * 100_000
    assert session.recover().settled[0].output[0] == {"type": "text", "text": "x" * 100_000}


@pytest.mark.parametrize(
    "more",
    [
        {},
        {"output": "own", "model_text": "m" * 90_000, "display_text": "d" * 90_000},
        {"whole": "own"},
        {"content": [{"type": "text", "text": "p" * 80_000}, {"type": "image"}]},
        {"content": [{"type": "text", "text": "p" * 80_000, "output": "own"}]},
        {"content": "half \ud83d " + "€" * 70_000},
    ],
)
@pytest.mark.folder
def test_a_long_result_comes_back_as_it_was_appended(
    session: LiveSession, more: dict[str, Any]
) -> None:
    session.append(call("t"))
    block = {"type": "tool_result", "tool_use_id": "t", "content": "x" * 100_000, **more}
    record = session.append(user([block]))
    assert session.messages()[-1] == user([block])
    assert session.conversation().messages[-1] == user([block])
    assert session.conversation().entries[-1].record == record
    if "whole" not in more:
        [short] = session.messages(whole=False)[-1]["content"]
        assert len(str(short)) < 90_000
    for file in (session.path / "outputs").glob("*"):
        file.unlink()
    assert session.messages() == session.messages(whole=False)


@pytest.mark.parametrize("owner", [None, 7, {}, {"pid": "x"}, {"pid": 1e99}])
def test_a_strange_owner_is_not_alive(session: LiveSession, owner: Any) -> None:
    session.append(call("t1"))
    session.record("tool_started", {"call_id": "t1", "owner": owner, "replay": 7})
    assert [(c.fate, c.replay) for c in session.recover().calls] == [("unknown", "never")]


# ── streams ───────────────────────────────────────────────────────────────────────────────────────


def test_a_stream_is_kept_while_it_comes_in_and_replaced_by_the_whole(session: LiveSession) -> None:
    say(session, "go")
    session.append(assistant("Let"), partial=True)
    session.append(assistant("Let me"), partial=True)
    assert session.messages() == [user("go"), {**assistant("Let me"), "partial": True}]
    session.append(assistant("Let me see."))
    assert session.messages() == [user("go"), assistant("Let me see.")]


def test_a_stream_that_was_cut_off_is_kept_and_marked_without_its_calls(
    session: LiveSession,
) -> None:
    cut = [{"type": "text", "text": "I will"}, *call("t1")["content"]]
    session.append(assistant(cut), partial=True)
    say(session, "go on")
    assert session.messages() == [
        {**assistant([{"type": "text", "text": "I will"}]), "partial": True},
        user("go on"),
    ]
    assert session.messages(partial=False) == [user("go on")]
    assert session.recover().calls == []


@pytest.mark.folder
def test_a_batch_is_one_line(session: LiveSession) -> None:
    records = session.append_many([user("a"), assistant("b"), user("c")])
    assert [record.seq for record in records] == [1, 2, 3]
    assert (session.path / "log.jsonl").read_bytes().count(b"\n") == 2
    session.rewind(to=records[1])
    assert texts(session) == ["a", "b"]
    assert session.append_many([]) == []


def test_a_fork_knows_what_became_of_the_calls_it_took_along(session: LiveSession) -> None:
    asked = session.append(call("a", "b", "c"))
    session.tool_started("a")
    session.tool_finished("a", "done")
    session.tool_started("b", replay="safe")
    session.append(user("on another line"))
    session.rewind(to=asked)
    with session.fork() as fork:
        assert fork.messages()[1]["content"][0] == session.messages()[1]["content"][0]
        fates = {one.call_id: (one.fate, one.replay) for one in fork.recover().calls}
        # The tool still runs, for the other session: its result will not come here.
        assert fates == {
            "a": ("settled", "never"),
            "b": ("unknown", "safe"),
            "c": ("not_started", "never"),
        }
    assert {one.call_id: one.fate for one in session.recover().calls}["b"] == "running"


@pytest.mark.parametrize(
    ("output", "content"),
    [({"n": 1}, '{"n": 1}'), (["a", "b"], '["a", "b"]'), (7, "7"), (None, ""), ("x", "x")],
)
def test_a_settled_call_shows_any_output_as_a_provider_takes_it(
    session: LiveSession, output: Any, content: str
) -> None:
    session.append(call("a"))
    session.tool_started("a")
    session.tool_finished("a", output)
    assert session.messages()[1]["content"][0]["content"] == content
    parts = [{"type": "text", "text": "t"}]
    session.tool_finished("a", parts)
    assert session.messages()[1]["content"][0]["content"] == parts


def test_a_fork_carries_everything_on_request(address: str) -> None:
    store = SessionStore(address)
    with store.create("work", id="one") as session:
        session.append({"role": "user", "content": "go"})
        session.state.start("goal")
        session.state.progress("search", buffer={"hits": 3})
        session.state.checkpoint("search", id="cp", next_node="write")
        with session.skill("tdd") as run, run.attempt("m") as attempt:
            attempt.output("done")
        session.record("my.note", {"n": 1})
        fork = session.fork(all=True)
        plain = session.fork()
    assert plain.state.current.status == "new"
    assert [record.type for record in plain.records()] == ["session", "message"]
    state = fork.state
    assert [point.id for point in state.checkpoints] == ["cp"]
    assert (state.current.status, state.current.data_buffer) == ("paused", {"hits": 3})
    assert "forked from one" in str(state.current.progress.pause_reason)
    assert [entry.skill for entry in fork.skills.entries()] == ["tdd"]
    assert [record.payload for record in fork.records() if record.type == "my.note"] == [{"n": 1}]
    assert fork.messages() == [{"role": "user", "content": "go"}]
    assert state.resume("cp").progress.resume_from == "write"
    assert fork.check() == []
