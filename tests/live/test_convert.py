"""Messages to and from the shapes of providers: nothing a provider would refuse, nothing said is
lost on the way."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runlore.live import SessionStore, views
from runlore.live.convert import (
    from_anthropic,
    from_openai_chat,
    from_openai_responses,
    to_anthropic,
    to_openai_chat,
    to_openai_responses,
)  # fmt: skip

PNG = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "aGk="}}
PDF = {
    "type": "document",
    "title": "a.pdf",
    "source": {"type": "base64", "media_type": "application/pdf", "data": "aGk="},
}
CALL = {"type": "tool_use", "id": "t1", "name": "run", "input": {"cmd": "ls"}}
RESULT = {
    "type": "tool_result",
    "tool_use_id": "t1",
    "content": "a.txt",
    "is_error": False,
    "display_text": "1 file",
    "output": {"sha256": "x"},
}
TALK: list[dict[str, Any]] = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": [{"type": "text", "text": "Look"}, PNG, PDF]},
    {
        "role": "assistant",
        "content": [
            {"type": "thinking", "thinking": "hm", "signature": "s"},
            {"type": "text", "text": "I look."},
            CALL,
        ],
    },
    {"role": "user", "content": [RESULT, {"type": "text", "text": "and?"}]},
    {"role": "assistant", "content": "One file.", "meta": {"x": 1}},
]


def test_anthropic_gets_what_it_takes() -> None:
    request = to_anthropic(TALK)
    assert request["system"] == [{"type": "text", "text": "Be brief."}]
    assert [message["role"] for message in request["messages"]] == [
        "user",
        "assistant",
        "user",
        "assistant",
    ]
    assert request["messages"][0]["content"] == [{"type": "text", "text": "Look"}, PNG, PDF]
    assert request["messages"][1]["content"][0] == {
        "type": "thinking",
        "thinking": "hm",
        "signature": "s",
    }
    assert request["messages"][2]["content"] == [
        {"type": "tool_result", "tool_use_id": "t1", "content": "a.txt", "is_error": False},
        {"type": "text", "text": "and?"},
    ]
    assert request["messages"][3] == {
        "role": "assistant",
        "content": [{"type": "text", "text": "One file."}],
    }
    assert from_anthropic(request)[1:] == request["messages"]
    assert from_anthropic(request)[0] == {"role": "system", "content": request["system"]}
    assert from_anthropic(request["messages"]) == request["messages"]


def test_anthropic_is_not_given_what_it_refuses() -> None:
    messages: list[dict[str, Any]] = [
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": "no signature"},
                {"type": "text", "text": ""},
                CALL,
            ],
        },
        {"role": "user", "content": [{"type": "text", "text": "first"}, RESULT]},
        {"role": "user", "content": "second"},
        {"role": "assistant", "content": ""},
    ]
    sent = to_anthropic(messages)["messages"]
    assert [message["role"] for message in sent] == ["user", "assistant", "user"]
    assert sent[1]["content"] == [CALL]
    assert [block["type"] for block in sent[2]["content"]] == ["tool_result", "text", "text"]


def test_openai_chat_gets_tools_as_messages_of_their_own() -> None:
    sent = to_openai_chat(TALK)["messages"]
    assert [message["role"] for message in sent] == [
        "system",
        "user",
        "assistant",
        "tool",
        "user",
        "assistant",
    ]
    assert sent[1]["content"][1] == {
        "type": "image_url",
        "image_url": {"url": "data:image/png;base64,aGk="},
    }
    assert sent[1]["content"][2]["file"]["filename"] == "a.pdf"
    assert sent[2]["content"] == "I look."
    assert sent[2]["tool_calls"] == [
        {"id": "t1", "type": "function", "function": {"name": "run", "arguments": '{"cmd":"ls"}'}}
    ]
    assert sent[3] == {"role": "tool", "tool_call_id": "t1", "content": "a.txt"}
    assert sent[4] == {"role": "user", "content": "and?"}
    back = from_openai_chat({"messages": sent})
    assert back[1]["content"] == [{"type": "text", "text": "Look"}, PNG, PDF]
    assert back[2]["content"] == [{"type": "text", "text": "I look."}, CALL]
    assert back[3]["content"] == [{"type": "tool_result", "tool_use_id": "t1", "content": "a.txt"}]
    assert back[5] == {"role": "assistant", "content": "One file."}
    assert to_openai_chat(back)["messages"] == sent


def test_a_picture_in_a_result_reaches_openai_behind_it() -> None:
    messages = [
        {"role": "assistant", "content": [CALL]},
        {
            "role": "user",
            "content": [{**RESULT, "content": [{"type": "text", "text": "see"}, PNG]}],
        },
    ]
    sent = to_openai_chat(messages)["messages"]
    assert [message["role"] for message in sent] == ["assistant", "tool", "user"]
    assert sent[1]["content"] == "see"
    assert sent[2]["content"][0]["type"] == "image_url"
    assert [part["type"] for part in to_openai_responses(messages)["input"][1]["output"]] == [
        "input_text",
        "input_image",
    ]


def test_openai_responses_gets_items() -> None:
    reasoning = {
        "type": "reasoning",
        "id": "rs_1",
        "summary": [{"type": "summary_text", "text": "hm"}],
        "encrypted_content": "…",
    }
    messages = [
        *TALK[:2],
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": "hm", "native": reasoning},
                *TALK[2]["content"],
            ],
        },
    ]
    items = to_openai_responses([*messages, *TALK[3:]])["input"]
    assert [item["type"] for item in items] == [
        "message", "message", "reasoning", "message", "function_call", "function_call_output",
        "message", "message",
    ]  # fmt: skip
    assert items[0]["content"] == [{"type": "input_text", "text": "Be brief."}]
    assert [part["type"] for part in items[1]["content"]] == [
        "input_text",
        "input_image",
        "input_file",
    ]
    assert items[2] == reasoning
    assert items[4] == {
        "type": "function_call",
        "call_id": "t1",
        "name": "run",
        "arguments": '{"cmd":"ls"}',
    }
    assert items[5] == {"type": "function_call_output", "call_id": "t1", "output": "a.txt"}
    assert to_openai_responses(from_openai_responses({"input": items}))["input"] == items
    assert from_openai_responses({"input": "hello"}) == [{"role": "user", "content": "hello"}]


def test_unknown_items_come_back_as_they_were() -> None:
    item = {"type": "web_search_call", "id": "ws_1", "status": "completed"}
    assert to_openai_responses(from_openai_responses([item]))["input"] == [item]


def test_arguments_that_are_not_json_are_kept() -> None:
    chat = {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": "t1", "function": {"name": "run", "arguments": "{broken"}}],
    }
    back = from_openai_chat([chat])
    assert back[0]["content"][0]["input"] == "{broken"
    assert (
        to_openai_chat(back)["messages"][0]["tool_calls"][0]["function"]["arguments"] == "{broken"
    )


@pytest.mark.parametrize("convert", [to_anthropic, to_openai_chat, to_openai_responses])
@pytest.mark.parametrize(
    "content",
    [
        [],
        [None, 7],
        [{}],
        [{"type": 7}],
        [{"type": "image"}],
        [{"type": "document", "source": 7}],
        "",
    ],
)
def test_strange_messages_do_no_harm(convert: Any, content: Any) -> None:
    json.dumps(
        convert(
            [
                {"role": role, "content": content}
                for role in ("system", "user", "assistant", "new", "user")
            ]
        )
    )


blocks = st.one_of(
    st.builds(lambda text: {"type": "text", "text": text}, st.text(max_size=5)),
    st.builds(
        lambda id: {"type": "tool_use", "id": id, "name": "run", "input": {}},
        st.sampled_from("abcd"),
    ),
    st.builds(
        lambda id: {"type": "tool_result", "tool_use_id": id, "content": f"result {id}"},
        st.sampled_from("abcd"),
    ),
    st.just({"type": "thinking", "thinking": "hm"}),
)
talks = st.lists(
    st.builds(
        lambda role, content: {"role": role, "content": content},
        st.sampled_from(["user", "assistant", "system"]),
        st.lists(blocks, max_size=4),
    ),
    max_size=8,
)


@given(talks)
def test_whatever_was_said_the_rules_of_adjacency_hold(messages: list[dict[str, Any]]) -> None:
    sent = to_anthropic(messages)["messages"]
    assert [m["role"] for m in sent] == [("user", "assistant")[n % 2] for n in range(len(sent))]
    for n, message in enumerate(sent):
        calls = [b["id"] for b in message["content"] if b["type"] == "tool_use"]
        results = (
            [b["tool_use_id"] for b in sent[n + 1]["content"] if b["type"] == "tool_result"]
            if n + 1 < len(sent)
            else []
        )
        if message["role"] == "assistant":
            assert sorted(calls) == sorted(results)
            kinds = (
                [b["type"] == "tool_result" for b in sent[n + 1]["content"]]
                if n + 1 < len(sent)
                else []
            )
            assert kinds == sorted(kinds, reverse=True)
    waiting: list[str] = []
    for message in to_openai_chat(messages)["messages"]:
        if message["role"] == "tool":
            waiting.remove(message["tool_call_id"])
        else:
            assert not waiting
            waiting = [call["id"] for call in message.get("tool_calls", ())]
    assert not waiting
    items = to_openai_responses(messages)["input"]
    called = [item["call_id"] for item in items if item["type"] == "function_call"]
    assert sorted(called) == sorted(
        item["call_id"] for item in items if item["type"] == "function_call_output"
    )


@given(talks)
def test_what_is_in_order_is_what_working_it_out_leaves_alone(
    messages: list[dict[str, Any]],
) -> None:
    entries = [views.Entry(message) for message in messages]
    if views.is_in_order(messages):
        assert not [*views._unanswered(entries)]
        assert [entry.message for entry in views.close_calls(entries, {})] == messages


@given(st.lists(st.lists(st.sampled_from("abcd"), unique=True, max_size=3), max_size=5))
def test_whole_loops_are_in_order_and_cut_ones_are_not(loops: list[list[str]]) -> None:
    messages = []
    for ids in loops:
        messages.append({"role": "assistant", "content": [{**CALL, "id": id} for id in ids]})
        messages.append({"role": "user", "content": [{**RESULT, "tool_use_id": id} for id in ids]})
    assert views.is_in_order(messages)
    assert views.adjacent(messages) == messages
    assert views.is_in_order(messages[:-1]) == (not loops or not loops[-1])
    assert views.is_in_order(messages[1:]) == (not loops or not loops[0])


@given(talks)
def test_the_words_of_people_and_models_all_arrive(messages: list[dict[str, Any]]) -> None:
    texts = [
        b["text"]
        for m in messages
        for b in m["content"]
        if b["type"] == "text" and m["role"] != "system"
    ]
    said = "".join(text for text in texts if text.strip())  # A block with nothing in it is refused.
    anthropic = "".join(
        b["text"]
        for m in to_anthropic(messages)["messages"]
        for b in m["content"]
        if b["type"] == "text"
    )
    assert anthropic.removeprefix("(The beginning of the conversation is not included.)") == said


def test_anthropic_gets_arguments_as_an_object_and_no_blank_text() -> None:
    """Another provider's model may have written arguments that are no JSON; a request with them
    would be refused for good."""
    written = {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": "t1", "function": {"name": "run", "arguments": "{oops"}}],
    }
    messages = from_openai_chat(
        [
            {"role": "user", "content": " \n"},
            written,
            {"role": "tool", "tool_call_id": "t1", "content": "no"},
        ]
    )
    request = to_anthropic(messages)
    blocks = [block for message in request["messages"] for block in message["content"]]
    assert [block["input"] for block in blocks if block["type"] == "tool_use"] == [
        {"arguments": "{oops"}
    ]
    assert all(block["text"].strip() for block in blocks if block["type"] == "text")
    assert (
        to_openai_chat(messages)["messages"][1]["tool_calls"][0]["function"]["arguments"] == "{oops"
    )


def test_what_only_one_provider_knows_is_not_sent_to_another() -> None:
    items: list[dict[str, Any]] = [
        {"role": "user", "content": "look it up"},
        {"type": "web_search_call", "id": "w1", "status": "completed"},
        {
            "type": "message",
            "role": "assistant",
            "content": [{"type": "output_text", "text": "Found."}],
        },
    ]
    messages = from_openai_responses(items)
    assert [block["type"] for block in to_anthropic(messages)["messages"][1]["content"]] == ["text"]
    assert items[1] in to_openai_responses(messages)["input"]


def test_results_of_any_content_are_taken() -> None:
    for content in (["text", 5, None], [{"text": "untyped"}], {"n": 1}, None):
        messages = [
            {"role": "assistant", "content": [CALL]},
            {"role": "user", "content": [{**RESULT, "content": content}]},
        ]
        for convert in (to_anthropic, to_openai_chat, to_openai_responses):
            json.dumps(convert(messages))
    parts = to_anthropic(
        [
            {"role": "assistant", "content": [CALL]},
            {"role": "user", "content": [{**RESULT, "content": ["text"]}]},
        ]
    )
    assert parts["messages"][2]["content"][0]["content"] == [{"type": "text", "text": "text"}]


RESPONSES: list[dict[str, Any]] = [
    {"role": "developer", "content": "Be brief."},
    {
        "type": "message",
        "id": "msg_0",
        "role": "user",
        "status": "completed",
        "content": [
            {"type": "input_text", "text": "Look"},
            {"type": "input_image", "file_id": "file_1", "detail": "high"},
            {"type": "input_image", "image_url": "https://example.com/a.png", "detail": "low"},
            {"type": "input_file", "file_id": "file_2"},
            {"type": "input_file", "file_url": "https://example.com/a.pdf"},
        ],
    },
    {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "…"},
    {
        "type": "message",
        "id": "msg_1",
        "role": "assistant",
        "status": "completed",
        "content": [
            {
                "type": "output_text",
                "text": "See the source.",
                "annotations": [{"type": "url_citation", "url": "https://example.com"}],
                "logprobs": [],
            },
            {"type": "refusal", "refusal": "Not that."},
        ],
    },
    {"type": "message", "id": "msg_2", "role": "assistant", "content": []},
    {
        "type": "function_call",
        "id": "fc_1",
        "call_id": "c1",
        "name": "run",
        "arguments": '{"b": 1,  "a": 2}',
        "status": "completed",
    },
    {
        "type": "function_call_output",
        "id": "fco_1",
        "call_id": "c1",
        "output": [{"type": "input_image", "file_id": "file_3"}],
        "status": "completed",
    },
    {"type": "web_search_call", "id": "ws_1", "status": "completed"},
]


def test_every_item_of_openai_responses_goes_out_as_it_came_in() -> None:
    messages = from_openai_responses({"output": RESPONSES})
    messages = json.loads(json.dumps(messages))  # As a log gives it back.
    assert to_openai_responses(messages)["input"] == RESPONSES
    assert json.dumps(to_openai_responses(messages)["input"]) == json.dumps(RESPONSES)
    sent = json.dumps([to_anthropic(messages), to_openai_chat(messages)])
    assert "native" not in sent
    assert "fc_1" not in sent
    assert "file_1" not in json.dumps(to_anthropic(messages))
    assert "file_2" in json.dumps(to_openai_chat(messages))


def test_a_block_that_was_changed_goes_out_as_it_is() -> None:
    messages = from_openai_responses(RESPONSES)
    messages[1] = {**messages[1], "content": "Something else"}
    said = messages[2]["content"]
    said[1] = {**said[1], "text": "Redacted."}
    items = to_openai_responses(messages)["input"]
    assert items[1]["content"] == [{"type": "input_text", "text": "Something else"}]
    assert {"type": "output_text", "text": "Redacted."} in items[3]["content"]
    assert "See the source." not in json.dumps(items)


CHAT: list[dict[str, Any]] = [
    {"role": "developer", "content": "Be brief."},
    {
        "role": "user",
        "name": "ann",
        "content": [
            {"type": "text", "text": "Look"},
            {
                "type": "image_url",
                "image_url": {"url": "https://example.com/a.png", "detail": "low"},
            },
            {"type": "file", "file": {"file_id": "file_1"}},
            {"type": "input_audio", "input_audio": {"data": "aGk=", "format": "wav"}},
        ],
    },
    {
        "role": "assistant",
        "content": None,
        "refusal": None,
        "tool_calls": [
            {"id": "c1", "type": "function", "function": {"name": "run", "arguments": '{"a":  1}'}}
        ],
    },
    {"role": "tool", "tool_call_id": "c1", "content": [{"type": "text", "text": "done"}]},
    {"role": "assistant", "content": "Done.", "audio": {"id": "audio_1"}},
]


def test_every_message_of_openai_chat_goes_out_as_it_came_in() -> None:
    messages = json.loads(json.dumps(from_openai_chat(CHAT)))
    assert to_openai_chat(messages)["messages"] == CHAT
    assert "native" not in json.dumps([to_anthropic(messages), to_openai_responses(messages)])


def test_signed_thinking_comes_back_to_anthropic() -> None:
    request = {
        "messages": [
            {"role": "user", "content": [{"type": "text", "text": "Think."}, PNG, PDF]},
            {
                "role": "assistant",
                "content": [
                    {"type": "thinking", "thinking": "hm", "signature": "c2ln"},
                    {"type": "redacted_thinking", "data": "eHg="},
                    {"type": "text", "text": "Done.", "citations": [{"type": "page_location"}]},
                ],
            },
        ]
    }
    assert to_anthropic(from_anthropic(request)) == request


def test_raw_messages_of_openai_chat_are_calls_and_results(tmp_path: Path) -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "run", "arguments": '{"a":1}'}}
    raw: list[dict[str, Any]] = [
        {"role": "user", "content": "Run it."},
        {"role": "assistant", "content": "Yes.", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c1", "content": "done"},
    ]
    with SessionStore(tmp_path).create() as session:
        session.append_many(raw)
        assert session.recover().calls == []
        messages = session.messages()
    assert messages[2]["content"] == [
        {"type": "tool_result", "tool_use_id": "c1", "content": "done"}
    ]
    assert to_openai_chat(messages)["messages"] == raw
    assert to_openai_chat(raw)["messages"] == raw
    assert to_anthropic(raw)["messages"][2]["content"][0]["type"] == "tool_result"
