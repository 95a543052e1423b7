"""The JSON API: every endpoint answers in its shape, and the document says so."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import jsonschema
import msgspec
import pytest
from openapi_spec_validator import OpenAPIV31SpecValidator

from runlore import config
from runlore.config import Config
from runlore.live import SessionStore
from runlore.store import open_store
from runlore.web.api import ENDPOINTS, Endpoint, document
from runlore.web.app import ROUTES
from runlore.web.json_answers import ROOT
from tests.ledgers import call, keep
from tests.web.conftest import SHOP, Client, serving

ASKED = {
    "/errors": "?least=1",
    "/context/{uid:path}": "?seq=8",
    "/raw/{uid:path}": "?seq=0",
    "/find/{uid:path}": "?q=clock",
    "/usage": "?by=session&since=all",
}
"""What must be asked with an endpoint, or makes its answer more telling."""


@pytest.fixture
def run_id(demo: Config) -> str:
    store = SessionStore(demo.home / "live")
    with store.create("A run") as session:
        session.state.start("g1")
        session.state.progress("fetch", buffer={"rows": 10})
        session.state.checkpoint("fetch")
        with session.skill("tdd") as run, run.attempt(model="small") as attempt:
            attempt.verified(by="exit_code", command="pytest", exit_code=0)
    store.close()
    return session.id


@pytest.mark.parametrize("endpoint", ENDPOINTS, ids=lambda endpoint: endpoint.path)
def test_an_answer_has_the_shape_that_is_documented(
    endpoint: Endpoint, run_id: str, client: Client
) -> None:
    path = (
        endpoint.path.replace("{uid:path}", SHOP)
        .replace("{id}", run_id)
        .replace("{fingerprint}", fingerprint(client))
    )
    answer = client.ask(f"{ROOT}{path}{ASKED.get(endpoint.path, '')}")
    assert (answer.status, answer.headers["content-type"]) == (200, "application/json")
    found = msgspec.json.decode(answer.body, type=endpoint.type, strict=True)
    assert found or endpoint.path == "/retention"  # The settings let nothing go.
    assert known(json.loads(answer.text), schema_of(endpoint))


def fingerprint(client: Client) -> str:
    return str(json.loads(client.get(f"{ROOT}/errors?least=1"))["found"][0]["fingerprint"])


def schema_of(endpoint: Endpoint) -> Any:
    get = document()["paths"][ROOT + endpoint.path.replace(":path}", "}")]["get"]
    return get["responses"]["200"]["content"]["application/json"]["schema"]


def known(value: Any, schema: dict[str, Any]) -> bool:
    """Whether every field of the value is in the schema: what a client would be surprised by."""
    if ref := schema.get("$ref"):
        schema = document_schemas()[ref.rpartition("/")[2]]
    if options := schema.get("anyOf"):
        return any(known(value, option) for option in options)
    if isinstance(value, list):
        return (
            all(known(item, schema.get("items") or {}) for item in value)
            if isinstance(schema.get("items"), dict)
            else True
        )
    if isinstance(value, dict) and "properties" in schema:
        return bool(set(schema.get("required", ())) <= value.keys() <= schema["properties"].keys())
    return True


def document_schemas() -> dict[str, Any]:
    schemas: dict[str, Any] = document()["components"]["schemas"]
    return schemas


def test_the_document_is_valid_openapi(client: Client) -> None:
    shown = json.loads(client.get(f"{ROOT}/openapi.json"))
    assert not list(OpenAPIV31SpecValidator(shown).iter_errors())
    for schema in schemas_in(shown):
        jsonschema.Draft202012Validator.check_schema(schema)


def schemas_in(shown: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield from shown["components"]["schemas"].values()
    for methods in shown["paths"].values():
        (method,) = methods.values()
        yield from (one["schema"] for one in method["parameters"])
        for response in method["responses"].values():
            yield response["content"]["application/json"]["schema"]


def test_the_document_has_every_route_and_no_other(client: Client) -> None:
    made = json.loads(client.get(f"{ROOT}/openapi.json"))
    routes = {
        re.sub(r":\w+}", "}", route.path) for route in ROUTES if route.path.startswith(ROOT)
    } - {f"{ROOT}/openapi.json"}
    assert made["paths"].keys() == routes
    assert made["openapi"].startswith("3.1")
    text = json.dumps(made)
    references = set(re.findall(r'"#/components/schemas/([^"]+)"', text))
    assert references == made["components"]["schemas"].keys()
    for path, methods in made["paths"].items():
        (method,) = methods.values()
        assert method["summary"], path
        named = {part["name"] for part in method["parameters"] if part["in"] == "path"}
        assert named == set(re.findall(r"{(\w+)}", path))


@pytest.mark.parametrize(
    ("path", "status", "code"),
    [
        ("/session/nobody", 404, "not_found"),
        ("/events/nobody", 404, "not_found"),
        ("/sessions?sort=wrong", 400, "invalid_value"),
        ("/sessions?q=OR", 400, "query"),
        ("/nothing", 404, "failed"),
        ("/live/nobody", 404, "session_not_found"),
    ],
)
def test_what_cannot_be_answered_has_a_code(
    client: Client, path: str, status: int, code: str
) -> None:
    answer = client.ask(ROOT + path)
    assert answer.status == status
    assert json.loads(answer.text)["error"]["code"] == code


def test_usage_says_how_many_subagents_a_session_has(home: Path) -> None:
    setting = config.load()
    config.make_home(setting.home)
    below = {"parent_uid": "toy:s1", "relation": "subagent"}
    with closing(open_store(setting.store)) as store:
        keep(store, [call("a"), call("b", "s2"), call("c", "s3")], {"s2": below, "s3": below})
    with serving() as client:
        found = json.loads(client.get(f"{ROOT}/usage?by=session&since=all"))
    assert [row["calls"] for row in found["rows"]] == [3]
    alone = found["alone"]
    assert [(one["key"], one["calls"], one["subagents"]) for one in alone] == [("toy:s1", 1, 2)]


def test_events_are_given_with_their_texts_and_in_parts(client: Client) -> None:
    found = json.loads(client.get(f"{ROOT}/events/{SHOP}?first=7&last=8"))
    assert [one["event"]["seq"] for one in found] == [7, 8]
    assert "pytest -q" in found[0]["body"]


def test_nothing_can_be_changed_through_it(client: Client) -> None:
    for endpoint in ENDPOINTS:
        path = ROOT + endpoint.path.replace("{uid:path}", SHOP).replace("{id}", "x").replace(
            "{fingerprint}", "x"
        )
        assert client.ask(path, "POST", origin=client.url).status == 405


def test_fields_are_described_where_they_are_declared() -> None:
    schemas = document()["components"]["schemas"]
    assert schemas["Explanation"]["properties"]["elsewhere"]["description"].startswith("Calls of")
    listed = schemas["SessionLine"]["properties"]
    assert listed["task_ref"]["description"] == "The issue or task that it was about."
    assert listed["uid"]["description"].startswith("`agent:native id`")
