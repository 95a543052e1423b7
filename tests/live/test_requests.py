"""What happens around a message: a stream, an approval, a request to the model and its usage."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from runlore.errors import LogError
from runlore.live import AsyncSessionStore, LiveSession, SessionStore
from runlore.live.views import context_tokens, find_usage


@pytest.fixture
def session(tmp_path: Path) -> LiveSession:
    return SessionStore(tmp_path).create(id="one")


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def call(id: str = "a") -> dict[str, Any]:
    block = {"type": "tool_use", "id": id, "name": "pay", "input": {"usd": 5}}
    return {"role": "assistant", "content": [block]}


def size_of(session: LiveSession) -> int:
    return (session.path / "log.jsonl").stat().st_size


# ── streams ───────────────────────────────────────────────────────────────────────────────────────
def test_a_streamed_answer_costs_at_most_three_times_its_size(session: LiveSession) -> None:
    before = size_of(session)
    answer = "word " * 2048
    with session.stream() as stream:
        for start in range(0, len(answer), 16):
            stream.text(answer[start : start + 16])
    assert session.messages() == [
        {"role": "assistant", "content": [{"type": "text", "text": answer}]}
    ]
    assert size_of(session) - before <= 3 * len(answer)


def test_a_stream_that_is_cut_off_shows_what_had_arrived(session: LiveSession) -> None:
    session.append(user("Tell me."))

    def answer() -> None:
        with session.stream() as stream:
            stream.thinking("Hm. ")
            stream.thinking("Well.")
            for _ in range(300):
                stream.text("abc")
            stream.block(call()["content"][0])
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        answer()
    assert session._store.open("one").messages()[1:] == [
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": "Hm. Well."},
                {"type": "text", "text": "abc" * 300},
            ],
            "partial": True,
        }
    ]
    # The next try begins anew, and the whole message replaces it.
    stream = session.stream(key="answer")
    stream.text("new")
    stream.flush()
    assert session.messages()[1]["content"] == [{"type": "text", "text": "new"}]
    stream.finish({"role": "assistant", "content": "all of it"})
    assert session.messages()[1] == {"role": "assistant", "content": "all of it"}
    assert session.messages(last=1) == session.messages()[1:]
    with pytest.raises(LogError):
        stream.finish()


def test_a_stream_is_written_asynchronously(tmp_path: Path) -> None:
    async def live() -> list[dict[str, Any]]:
        async with await AsyncSessionStore(tmp_path).create() as session:
            async with session.stream() as stream:
                await stream.text("a")
                await stream.flush()
                await stream.text("b")
            assert stream.record is not None
            return await session.messages()

    content = [{"type": "text", "text": "ab"}]
    assert asyncio.run(live()) == [{"role": "assistant", "content": content}]


# ── approvals ─────────────────────────────────────────────────────────────────────────────────────
def test_an_approved_call_can_be_run_by_the_next_process(session: LiveSession) -> None:
    session.append(user("Pay."))
    session.append(call())
    session.tool_waiting("a")
    assert [one.call_id for one in session.recover().waiting] == ["a"]
    session.tool_decided("a", True, by="ann", payload={"usd": 4})
    (approved,) = session._store.open("one").recover().approved
    assert (approved.decided_by, approved.decision) == ("ann", {"usd": 4})
    assert len(session.messages()) == 2  # It stays open, and is not taken for interrupted.
    session.tool_started("a", "pay", {"usd": 4})
    assert session.recover().approved == []
    session.tool_finished("a", "paid")
    assert session.messages()[2]["content"][0]["content"] == "paid"


def test_a_refusal_is_shown_to_the_model(session: LiveSession) -> None:
    session.append(call())
    session.tool_waiting("a")
    session.tool_decided("a", False, by="ann", payload="too expensive")
    assert [one.decided_by for one in session.recover().refused] == ["ann"]
    (block,) = session.messages()[1]["content"]
    assert block["is_error"]
    assert "refused: too expensive" in block["content"]


def test_an_approved_call_is_not_compacted_away(session: LiveSession) -> None:
    session.append(user("Pay."))
    session.append(call())
    session.tool_decided("a", True)
    session.compact("paying")
    assert session.messages()[-1] == call()


# ── usage ─────────────────────────────────────────────────────────────────────────────────────────
def test_a_request_to_the_model_has_its_time_and_usage(session: LiveSession) -> None:
    started = session.model_started("m-1")
    finished = session.model_finished({"input_tokens": 900, "output_tokens": 5}, started=started)
    assert finished.payload["model"] == "m-1"
    assert finished.payload["started"] == started.id
    assert 0 <= finished.payload["duration_ms"] < 60_000
    assert session.should_compact(1000)
    assert not session.should_compact(2000)
    session.append({"role": "assistant", "content": "x", "usage": {"input_tokens": 10}})
    assert not session.should_compact(1000)  # The message is newer.
    session.model_finished({"input_tokens": 900})
    session.compact("short")
    assert not session.should_compact(1000)  # It counted what is gone.


@pytest.mark.parametrize(
    ("message", "tokens"),
    [
        ({"usage": {"input_tokens": 10, "cache_read_input_tokens": 90}}, 100),  # Anthropic
        ({"usage": {"prompt_tokens": 100, "prompt_tokens_details": {"cached_tokens": 90}}}, 100),
        ({"usageMetadata": {"promptTokenCount": 100, "candidatesTokenCount": 5}}, 100),  # Gemini
        ({"usage_metadata": {"input_tokens": 100, "output_tokens": 5, "total_tokens": 105}}, 100),
        ({"response_metadata": {"token_usage": {"prompt_tokens": 100}}}, 100),  # LangChain
        (
            {"metadata": {"usage": {"inputTokens": 10, "cacheReadInputTokens": 90}}},  # Bedrock
            100,
        ),
        (
            {
                "usage": {  # pydantic-ai counts cached tokens twice, and says so by the total.
                    "input_tokens": 100,
                    "cache_read_tokens": 90,
                    "output_tokens": 5,
                    "total_tokens": 105,
                }
            },
            100,
        ),
        ({"prompt_eval_count": 100, "eval_count": 5}, 100),  # Ollama
        ({"meta": {"usage": {"input_token_count": 100}}}, 100),
    ],
)
def test_usage_is_found_where_each_provider_puts_it(message: dict[str, Any], tokens: int) -> None:
    usage = find_usage({"role": "assistant", "content": "x", **message})
    assert usage is not None
    assert context_tokens(usage) == tokens
    assert find_usage({"role": "assistant", "content": "x"}) is None
