"""Whatever items of OpenAI come in go out again, byte by byte, also through a log."""

import json
import tempfile
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from runlore.live import SessionStore
from runlore.live.convert import (
    from_openai_chat,
    from_openai_responses,
    to_openai_chat,
    to_openai_responses,
)

TEXT = st.sampled_from(["", "a", "two\nlines", " ", "é"])
CALL = st.sampled_from(["c1", "c2", "c3"])
URL = st.sampled_from(["https://example.com/a.png", "data:image/png;base64,aGk="])
ARGUMENTS = st.sampled_from(["{}", '{"a":1}', '{"a":  1}', "not json", "", '"text"', "[1]"])


@st.composite
def mixed(draw: st.DrawFn, /, **fields: Any) -> dict[str, Any]:
    """An object with these fields, in any order, and perhaps with fields of its own."""
    value = {
        name: draw(of) if isinstance(of, st.SearchStrategy) else of for name, of in fields.items()
    }
    extra = draw(st.dictionaries(st.sampled_from(["id", "status", "n"]), st.just("x"), max_size=2))
    return dict(draw(st.permutations([*value.items(), *extra.items()])))


def parts(kind: str) -> st.SearchStrategy[list[dict[str, Any]]]:
    return st.lists(
        st.one_of(
            mixed(type=f"{kind}_text", text=TEXT),
            mixed(type="input_image", image_url=URL),
            mixed(type="input_image", file_id=TEXT),
            mixed(type="input_file", filename=TEXT, file_data=URL),
            mixed(type="input_file", file_url=URL),
            mixed(type="refusal", refusal=TEXT),
            mixed(type="other", value=st.just(1)),
        ),
        max_size=3,
    )


ITEMS = st.lists(
    st.one_of(
        mixed(
            role=st.sampled_from(["user", "system", "developer"]),
            content=st.one_of(TEXT, parts("input")),
        ),
        mixed(type="message", role=st.just("user"), content=parts("input")),
        mixed(type="message", role=st.just("assistant"), content=parts("output")),
        mixed(role=st.just("assistant"), content=TEXT),
        mixed(type="function_call", call_id=CALL, name=TEXT, arguments=ARGUMENTS),
        mixed(type="function_call_output", call_id=CALL, output=st.one_of(TEXT, parts("input"))),
        mixed(type="reasoning", summary=st.just([{"type": "summary_text", "text": "hm"}])),
        mixed(type="web_search_call", action=st.just({"type": "search"})),
        mixed(type="item_reference"),
    ),
    max_size=8,
)
CHAT = st.lists(
    st.one_of(
        mixed(role=st.sampled_from(["user", "system", "developer"]), content=TEXT),
        mixed(role=st.just("user"), content=st.lists(st.one_of(
            mixed(type="text", text=TEXT),
            mixed(type="image_url", image_url=mixed(url=URL)),
            mixed(type="file", file=mixed(file_id=TEXT)),
            mixed(type="input_audio", input_audio=st.just({"data": "aGk="})),
        ), max_size=3)),
        mixed(role=st.just("assistant"), content=st.one_of(TEXT, st.none())),
        mixed(role=st.just("assistant"), content=st.none(), tool_calls=st.lists(
            mixed(id=CALL, type="function", function=mixed(name=TEXT, arguments=ARGUMENTS)),
            min_size=1, max_size=2)),
        mixed(role=st.just("tool"), tool_call_id=CALL, content=TEXT),
    ),
    max_size=8,
)  # fmt: skip


@settings(max_examples=80, deadline=None)
@given(ITEMS)
def test_items_of_openai_responses_come_back_byte_by_byte(items: list[dict[str, Any]]) -> None:
    messages = json.loads(json.dumps(from_openai_responses(items)))
    again = to_openai_responses(messages, repaired=False)["input"]
    assert json.dumps(again) == json.dumps(items)


@settings(max_examples=80, deadline=None)
@given(CHAT)
def test_messages_of_openai_chat_come_back_byte_by_byte(given: list[dict[str, Any]]) -> None:
    messages = json.loads(json.dumps(from_openai_chat(given)))
    again = to_openai_chat(messages, repaired=False)["messages"]
    assert json.dumps(again) == json.dumps(given)


@settings(max_examples=15, deadline=None)
@given(ITEMS)
def test_they_come_back_from_a_log(items: list[dict[str, Any]]) -> None:
    with tempfile.TemporaryDirectory() as folder, SessionStore(folder).create() as session:
        session.append_many(from_openai_responses(items))
        again = to_openai_responses(session.messages(repaired=False), repaired=False)["input"]
    assert json.dumps(again) == json.dumps(items)
