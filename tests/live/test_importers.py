"""What older programs left: conversations, skill logs, run states. All that is good is read, the
rest is named; nothing is written."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from runlore.errors import ReadError
from runlore.live import SessionStore, importers

CORPUS = Path(__file__).parents[3] / "shared/corpus"


def chat_line(role: str, text: str, **more: Any) -> dict[str, Any]:
    return {"role": role, "content": [{"type": "text", "text": text}], **more}


def rewind(to: Any) -> dict[str, Any]:
    return {"role": "rewind", "meta": {"rewind_to": to, "created_at": "2026-03-01T10:00:00+00:00"}}


def chat(
    folder: Path, *lines: dict[str, Any] | bytes, meta: dict[str, Any] | bytes | None = None
) -> Path:
    """A folder as the program left it; format 5 unless `meta` says otherwise."""
    folder.mkdir(parents=True)
    (folder / "tool-output").mkdir()
    if meta is None:
        meta = {
            "id": folder.name,
            "title": "New chat",
            "provider": "anthropic",
            "model": "m-1",
            "cwd": "/p",
            "message_format_version": 5,
            "created_at": "2026-03-01T09:00:00+00:00",
            "updated_at": "2026-03-01T09:00:00+00:00",
        }
    (folder / "meta.json").write_bytes(
        meta if isinstance(meta, bytes) else json.dumps(meta, indent=2).encode()
    )
    data = [
        line if isinstance(line, bytes) else json.dumps(line, ensure_ascii=False).encode() + b"\n"
        for line in lines
    ]
    (folder / "messages.jsonl").write_bytes(b"".join(data))
    return folder


def entry(**more: Any) -> bytes:
    """A line as the program wrote it: the four fields that are always there, then those that say
    something."""
    data = {
        "session_id": "s-1",
        "timestamp": "2026-03-01T10:00:00.5Z",
        "skill": "tdd",
        "final_status": "ok",
        **more,
    }
    return json.dumps(data, separators=(",", ":")).encode() + b"\n"


def skill_log(tmp_path: Path, *lines: bytes, name: str = "s-1.jsonl") -> Path:
    file = tmp_path / name
    file.write_bytes(b"".join(lines))
    return file


# ── skill logs ────────────────────────────────────────────────────────────────────────────────────


def test_an_old_skill_log_is_read_with_every_field(tmp_path: Path) -> None:
    attempts = [
        {"attempt": 1, "model": "small", "output_summary": "tried", "runner_output": "log",
        "verified": False, "tier": "local",
         "duration_ms": 7, "warm_start": True, "verdict": "escalate", "feedback": "wrong"},
        {"attempt": 2, "model": "large", "verified": True},
        {"attempt": 3, "model": "large", "verified": False},
    ]  # fmt: skip
    line = entry(phase="red", project_root="/p", input={"a": 1}, attempts=attempts,
    file_path="/p/a", model_used="other", duration_ms=12,
                 message="done", novelty=True)  # fmt: skip
    (found,) = importers.read_skills(skill_log(tmp_path, line)).entries
    assert (found.session_id, found.skill, found.phase, found.project_root, found.file_path) == (
        "s-1",
        "tdd",
        "red",
        "/p",
        "/p/a",
    )
    assert (found.input, found.duration_ms, found.message, found.final_status) == (
        {"a": 1},
        12,
        "done",
        "pass",
    )
    assert found.timestamp == datetime(2026, 3, 1, 10, 0, 0, 500_000, UTC)
    first = found.attempts[0]
    assert (first.attempt, first.model, first.output_summary, first.runner_output) == (
        1,
        "small",
        "tried",
        "log",
    )
    assert (first.tier, first.duration_ms, first.warm_start, first.verdict, first.feedback) == (
        "local",
        7,
        True,
        "escalate",
        "wrong",
    )
    assert [one.verified for one in found.attempts] == [False, True, None]
    assert found.extra == {"novelty": True, "model_used": "other"}
    assert found.model_used == "large"


def test_a_line_of_many_megabytes_is_read(tmp_path: Path) -> None:
    (found,) = importers.read_skills(skill_log(tmp_path, entry(input="x" * 20_000_000))).entries
    assert len(found.input) == 20_000_000


def test_one_corrupt_line_costs_one_entry(tmp_path: Path) -> None:
    file = skill_log(
        tmp_path,
        entry(skill="a"),
        b'{"session_id":"s-1",\xff\xfe}\n',
        b"[1]\n",
        b"   \n",
        entry(skill="b"),
        b'{"session_id":"s',
    )
    before = file.read_bytes()
    found = importers.read_skills(file)
    assert [one.skill for one in found.entries] == ["a", "b"]
    offsets = [
        before.index(b'{"session_id":"s-1",\xff'),
        before.index(b"[1]"),
        before.rindex(b'{"session_id":"s'),
    ]
    assert [problem.offset for problem in found.problems] == offsets
    assert file.read_bytes() == before


def test_an_entry_that_was_glued_to_a_torn_one_is_found(tmp_path: Path) -> None:
    torn = entry(skill="a", message="ä" * 30)[:-25]
    found = importers.read_skills(
        skill_log(tmp_path, torn, entry(skill="b"), entry(skill="c").strip(), entry(skill="d"))
    )
    assert [one.skill for one in found.entries] == ["b", "c", "d"]
    assert len(found.problems) == 1


def test_bad_text_costs_nothing_else(tmp_path: Path) -> None:
    found = importers.read_skills(
        skill_log(
            tmp_path,
            b"\0\0\0" + entry(message="half \ud83d"),
            entry(message="MARK").replace(b"MARK", b"\xff!"),
        )
    )
    assert [one.message for one in found.entries] == ["half �", "�!"]


@pytest.mark.parametrize(
    "time", ["0001-01-01T00:00:00Z", "", None, 17, "yesterday", "0001-01-01T00:00:00+14:00"]
)
def test_an_entry_without_a_time_gets_that_of_its_neighbour(tmp_path: Path, time: Any) -> None:
    found = importers.read_skills(skill_log(tmp_path, entry(), entry(timestamp=time)))
    assert [one.timestamp for one in found.entries] == [found.entries[0].timestamp] * 2
    assert len(found.problems) == 1


def test_a_lone_entry_without_a_time_gets_that_of_the_file(tmp_path: Path) -> None:
    file = skill_log(tmp_path, entry(timestamp="0001-01-01T00:00:00Z"))
    assert importers.read_skills(file).entries[0].timestamp == datetime.fromtimestamp(
        file.stat().st_mtime, UTC
    )


def test_a_missing_skill_log_is_not_an_empty_one(tmp_path: Path) -> None:
    assert importers.read_skills(skill_log(tmp_path)).entries == []
    with pytest.raises(ReadError, match="no such file"):
        importers.read_skills(tmp_path / "none.jsonl")


@pytest.mark.parametrize(
    "value",
    [None, 17, "x", [], {}, True, [None, 3, {"attempt": "x", "verified": 1, "verdict": []}]],
)
@pytest.mark.parametrize(
    "field",
    ["attempts", "skill", "final_status", "timestamp", "session_id", "duration_ms", "model_used"],
)
def test_a_wrong_value_costs_its_field(tmp_path: Path, field: str, value: Any) -> None:
    (found,) = importers.read_skills(
        skill_log(tmp_path, entry(**{"message": "kept", field: value}))
    ).entries
    assert found.message == "kept"


# ── conversations ─────────────────────────────────────────────────────────────────────────────────


def test_an_old_conversation_is_read_in_steps(tmp_path: Path) -> None:
    folder = chat(
        tmp_path / "c1",
        chat_line("user", "a"),
        chat_line("assistant", "b"),
        chat_line("compact", "sum"),
        chat_line("user", "c"),
        rewind(2),
    )
    found = importers.read_chat(folder)
    assert (found.id, found.title, found.text("model"), found.text("cwd")) == (
        "c1",
        None,
        "m-1",
        "/p",
    )
    assert [(step.kind, step.to) for step in found.steps] == [
        ("message", -1), ("message", -1), ("compact", -1), ("message", -1), ("rewind", 2),
    ]  # fmt: skip
    assert not found.problems


def test_since_format_six_a_compaction_is_one_item_of_the_list(tmp_path: Path) -> None:
    lines = [chat_line("user", "a", meta={"created_at": "2026-03-01T10:00:00+00:00"}),
    chat_line("assistant", "b"), chat_line("compact", "sum"),
             chat_line("user", "c"), rewind(2)]  # fmt: skip
    newer = importers.read_chat(chat(tmp_path / "c1", *lines, meta={"title": "T"}))
    assert newer.steps[-1].to == 1
    assert newer.title == "T"


@pytest.mark.parametrize("to", [-1, None, "2", [1], 1.5, True])
def test_a_rewind_to_no_place_takes_nothing_back(tmp_path: Path, to: Any) -> None:
    found = importers.read_chat(
        chat(
            tmp_path / "c1",
            chat_line("user", "a"),
            chat_line("user", "b"),
            rewind(to),
            chat_line("user", "c"),
        )
    )
    assert [step.kind for step in found.steps] == ["message"] * 3
    assert len(found.problems) == 1


def test_a_rewind_that_says_no_place_goes_to_the_start_and_one_too_far_does_nothing(
    tmp_path: Path,
) -> None:
    found = importers.read_chat(
        chat(tmp_path / "c1", chat_line("user", "a"), rewind(9), {"role": "rewind"})
    )
    assert [step.to for step in found.steps] == [-1, 0, -1]


@pytest.mark.parametrize("meta", [b"", b"{", b"[]", b"\xff"])
def test_a_conversation_whose_meta_was_lost_is_still_read(tmp_path: Path, meta: bytes) -> None:
    found = importers.read_chat(chat(tmp_path / "c1", chat_line("user", "a"), meta=meta))
    assert len(found.steps) == 1
    assert [problem.reason.partition(":")[0] for problem in found.problems] == ["meta.json"]


def test_a_torn_message_does_not_take_the_next_with_it(tmp_path: Path) -> None:
    torn = json.dumps(chat_line("user", "zwei ä"), ensure_ascii=False).encode()
    torn = torn[: torn.index("ä".encode()) + 1]
    found = importers.read_chat(
        chat(
            tmp_path / "c1",
            chat_line("user", "one"),
            torn,
            chat_line("user", "two"),
            chat_line("user", "three"),
            torn,
        )
    )
    assert [step.message["content"][0]["text"] for step in found.steps] == ["one", "two", "three"]
    assert len(found.problems) == 2


def test_a_newer_format_is_named(tmp_path: Path) -> None:
    found = importers.read_chat(
        chat(tmp_path / "c1", chat_line("user", "a"), meta={"message_format_version": 9})
    )
    assert "format 9 is newer" in found.problems[0].reason


# ── taking over ───────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def store(tmp_path: Path) -> SessionStore:
    return SessionStore(tmp_path / "live")


def texts(store: SessionStore, id: str) -> list[str]:
    """What the model would see, one text for each message."""
    return [_text(message["content"]) for message in store.open(id, readonly=True).messages()]


def _text(content: Any) -> str:
    if isinstance(content, str):
        return content
    return " ".join(
        block.get("text") or str(block.get("content", block.get("type"))) for block in content
    )


def files(folder: Path) -> dict[str, tuple[bytes, int]]:
    return {
        str(file): (file.read_bytes(), file.stat().st_mtime_ns)
        for file in folder.rglob("*")
        if file.is_file()
    }


def test_a_conversation_is_taken_over_with_its_rewinds(store: SessionStore, tmp_path: Path) -> None:
    lines = [
        chat_line("user", "a"),
        chat_line("assistant", "b"),
        chat_line("user", "c"),
        rewind(2),
        chat_line("user", "d"),
        rewind(1),
        chat_line("user", "e"),
    ]
    folder = chat(tmp_path / "c1", *lines)
    before = files(folder)
    done = importers.import_log(folder, store)
    assert (done.session_id, done.added, done.problems) == ("c1", 7, [])
    assert texts(store, "c1") == ["a", "e"]
    session = store.open("c1", readonly=True)
    assert sorted(branch.messages for branch in session.branches()) == [1, 1, 3]
    assert (session.meta.model, session.meta.cwd, session.meta.title) == ("m-1", "/p", "a")
    assert files(folder) == before


def test_a_compaction_stands_in_place_of_what_it_covers_and_can_be_rewound(
    store: SessionStore, tmp_path: Path
) -> None:
    importers.import_log(
        chat(
            tmp_path / "c1",
            chat_line("user", "a"),
            chat_line("assistant", "b"),
            chat_line("compact", "sum"),
            chat_line("user", "c"),
        ),
        store,
    )
    assert [text[:30] for text in texts(store, "c1")] == [
        "[Conversation Summary]\n\nsum",
        "Understood. I have the summary",
        "c",
    ]
    session = store.open("c1")
    session.rewind(to=2)
    assert texts(store, "c1") == ["a", "b"], "which the older program could not do"


def test_a_rewind_behind_a_compaction_keeps_the_summary(
    store: SessionStore, tmp_path: Path
) -> None:
    lines = [
        chat_line("user", "a"),
        chat_line("compact", "one"),
        chat_line("user", "b"),
        chat_line("compact", "two"),
        chat_line("user", "c"),
        rewind(2),
        chat_line("user", "d"),
    ]
    importers.import_log(chat(tmp_path / "c1", *lines), store)
    assert [text[-3:] for text in texts(store, "c1")] == ["two", "re.", "d"]


def test_what_is_new_is_taken_over_when_it_is_done_again(
    store: SessionStore, tmp_path: Path
) -> None:
    folder = chat(tmp_path / "c1", chat_line("user", "a"), chat_line("assistant", "b"))
    assert importers.import_log(folder, store).added == 2
    assert importers.import_log(folder, store).added == 0
    with (folder / "messages.jsonl").open("ab") as file:
        file.write(
            json.dumps(rewind(1)).encode()
            + b"\n"
            + json.dumps(chat_line("user", "c")).encode()
            + b"\n"
        )
    assert importers.import_log(folder, store).added == 2
    assert texts(store, "c1") == ["a", "c"]


def test_interrupted_calls_are_closed_in_the_view_beside_their_call(
    store: SessionStore, tmp_path: Path
) -> None:
    call = {
        "role": "assistant",
        "content": [{"type": "tool_use", "id": "t1", "name": "bash", "input": {"command": "make"}}],
    }
    importers.import_log(
        chat(tmp_path / "c1", chat_line("user", "a"), call, chat_line("user", "and?")), store
    )
    messages = store.open("c1", readonly=True).messages()
    assert [message["role"] for message in messages] == ["user", "assistant", "user", "user"]
    assert messages[2]["content"][0]["tool_use_id"] == "t1"
    assert messages[2]["content"][0]["is_error"]


def test_blocks_are_put_into_our_words(store: SessionStore, tmp_path: Path) -> None:
    thinking = {"type": "thinking", "text": "hm", "meta": {"n": 1}}
    thought = {"role": "assistant", "content": [thinking], "meta": {"usage": {"input_tokens": 5}}}
    result = {
        "role": "user",
        "content": [
            {
                "type": "tool_result",
                "tool_use_id": "t",
                "model_text": "for it",
                "display_text": "for you",
                "is_error": False,
            }
        ],
    }
    newer = {
        "role": "user",
        "content": [
            {"type": "tool_result", "tool_use_id": "u", "output": "out", "is_error": False}
        ],
    }
    found = [importers.to_message(message) for message in (thought, result, newer)]
    assert found[0]["content"][0] == {"type": "thinking", "thinking": "hm", "meta": {"n": 1}}
    assert found[0]["usage"] == {"input_tokens": 5}
    assert found[1]["content"][0] == {
        "type": "tool_result",
        "tool_use_id": "t",
        "content": "for it",
        "display_text": "for you",
        "is_error": False,
    }
    assert found[2]["content"][0] == {
        "type": "tool_result",
        "tool_use_id": "u",
        "content": "out",
        "is_error": False,
    }


@pytest.mark.parametrize("content", [None, 17, {"a": 1}, "text", [], [None, 3, "x", {"type": 1}]])
def test_a_message_with_strange_content_is_kept(
    store: SessionStore, tmp_path: Path, content: Any
) -> None:
    importers.import_log(
        chat(tmp_path / "c1", {"role": "user", "content": content, "colour": "red"}), store
    )
    assert store.open("c1", readonly=True).messages()[0]["colour"] == "red"


def test_an_old_name_that_could_lead_elsewhere_is_written_anew(
    store: SessionStore, tmp_path: Path
) -> None:
    one, other = (
        importers.import_log(chat(tmp_path / name, chat_line("user", "a")), store).session_id
        for name in ("my chat ", "my-chat ")
    )
    assert one.startswith("my-chat-")
    assert one != other
    assert sorted(info.id for info in store.list()) == sorted([one, other])


def test_a_session_of_ours_is_not_mixed_with_an_old_one_of_its_name(
    store: SessionStore, tmp_path: Path
) -> None:
    store.create(id="c1").append(chat_line("user", "mine"))
    with pytest.raises(ReadError, match="another session"):
        importers.import_log(chat(tmp_path / "c1", chat_line("user", "theirs")), store)
    assert texts(store, "c1") == ["mine"]


def test_a_skill_log_is_taken_over_once(store: SessionStore, tmp_path: Path) -> None:
    file = skill_log(
        tmp_path,
        entry(attempts=[{"attempt": 1, "model": "m", "verified": True}]),
        entry(skill="b", final_status="error"),
    )
    assert [importers.import_log(file, store).added for _ in range(2)] == [2, 0]
    skills = store.open("s-1", readonly=True).skills
    assert skills.entries() == importers.read_skills(file).entries
    assert skills.rate("tdd", "m") == 1.0
    assert skills.rate("b") == 0.0


def state(**more: Any) -> dict[str, Any]:
    return {
        "schema_version": "1.1", "session_id": "session_20260301_100000_8a5af188",
        "status": "failed", "goal_id": "g1",
        "timestamps": {"started_at": "2026-03-01T10:00:00", "updated_at": "2026-03-01T10:00:09",
        "completed_at": "2026-03-01T10:00:09"},
        "progress": {"current_node": "writer", "path": ["search", "writer"], "steps_executed": 3},
        "memory": {"topic": "x"},
        "result": {"success": False, "error": "429", "output": {}}, "duration_ms": 9000,
        "is_resumable": True, "colour": "red", **more,
    }  # fmt: skip


def test_an_old_run_is_taken_over_as_the_beginning_of_a_session(
    store: SessionStore, tmp_path: Path
) -> None:
    folder = tmp_path / "session_20260301_100000_8a5af188"
    folder.mkdir()
    (folder / "state.json").write_text(json.dumps(state()))
    before = files(folder)
    assert [importers.import_log(path, store).added for path in (folder, folder)] == [1, 0]
    run = store.open(folder.name, readonly=True).state.current
    assert (run.status, run.progress.path, run.data_buffer, run.result.error) == (
        "failed",
        ("search", "writer"),
        {"topic": "x"},
        "429",
    )
    assert run.extra == {"colour": "red"}
    assert files(folder) == before


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{",
        b"[]",
        b"{}",
        json.dumps(state(status="meh")).encode(),
        json.dumps(state(timestamps=3)).encode(),
    ],
)
def test_a_run_that_cannot_be_one_is_refused_with_its_reason(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "state.json").write_bytes(data)
    with pytest.raises(ReadError, match=r"state\.json"):
        importers.read_state(tmp_path)


def test_what_is_no_old_log_is_refused(store: SessionStore, tmp_path: Path) -> None:
    with pytest.raises(ReadError, match="neither"):
        importers.import_log(tmp_path, store)


def test_a_folder_of_old_logs_is_taken_over_but_for_what_cannot_be_read(
    store: SessionStore, tmp_path: Path
) -> None:
    folder = tmp_path / "sessions"
    chat(folder / "c1", chat_line("user", "a"))
    (folder / "r1").mkdir()
    (folder / "r1" / "state.json").write_bytes(b"{")
    (folder / "empty").mkdir()
    skill_log(folder, entry(), name="k1.jsonl")
    done = list(importers.import_all(folder, store))
    assert [
        one.session_id if isinstance(one, importers.Imported) else type(one) for one in done
    ] == [
        "c1",
        "k1",
        ReadError,
    ]


# ── real ones ─────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.skipif(not CORPUS.is_dir(), reason="the corpus is not here")
def test_real_conversations_are_taken_over(store: SessionStore) -> None:
    folders = sorted(
        file.parent for file in CORPUS.glob("mycode/*/.mycode/sessions/*/messages.jsonl")
    )
    assert folders
    for folder in folders:
        before = files(folder)
        lines = [
            json.loads(line)
            for line in (folder / "messages.jsonl").read_text(encoding="utf-8").splitlines()
        ]
        done = importers.import_log(folder, store)
        assert done.added == len(lines)
        assert [
            problem.reason for problem in done.problems if "meta.json" not in problem.reason
        ] == []
        seen = store.open(done.session_id, readonly=True).messages()
        last = [line for line in lines if line["role"] in ("user", "assistant")][-1]
        assert seen[-1] == importers.to_message(last)
        assert any("Conversation Summary" in str(message) for message in seen) == any(
            line["role"] == "compact" for line in lines
        )
        assert files(folder) == before


@pytest.mark.skipif(not CORPUS.is_dir(), reason="the corpus is not here")
def test_real_runs_are_taken_over(store: SessionStore) -> None:
    states = sorted(CORPUS.glob("hive/**/state.json"))
    assert states
    for file in states:
        done = importers.import_log(file.parent, store)
        run, plain = (
            store.open(done.session_id, readonly=True).state.current,
            json.loads(file.read_text(encoding="utf-8")),
        )
        assert run.status == plain["status"]
        assert run.data_buffer == plain.get("data_buffer", plain.get("memory"))
        assert len(run.decisions) == len(plain["decisions"])
