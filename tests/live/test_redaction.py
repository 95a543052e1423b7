"""What is redacted or purged is nowhere on the disk any more; what is beside it stays."""

import os
from pathlib import Path
from typing import Any

import msgspec
import pytest

from runlore.errors import LogError, SessionBusy, SessionNotFound
from runlore.live import LiveSession, SessionStore
from runlore.model import LogRecord

SECRET = "hunter2-correct-horse"


@pytest.fixture
def store(tmp_path: Path) -> SessionStore:
    return SessionStore(tmp_path / "store")


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def holders(store: SessionStore, text: str = SECRET) -> list[str]:
    """The files of a store in which a text is."""
    return [
        os.path.relpath(os.path.join(folder, name), store.path)
        for folder, _, names in os.walk(store.path)
        for name in names
        if text.encode() in Path(folder, name).read_bytes()
    ]


def with_secrets(store: SessionStore) -> tuple[LiveSession, list[LogRecord]]:
    session = store.create(id="one")
    call = {"type": "tool_use", "id": "a", "name": "login", "input": {"password": SECRET}}
    block = {"type": "tool_result", "tool_use_id": "a", "content": f"{SECRET} " * 9000}
    records = [
        session.append(user(f"my password is {SECRET}")),
        session.append({"role": "assistant", "content": [call]}),
        session.tool_started("a", "login", {"password": SECRET}),
        session.append({"role": "user", "content": [block]}),
        *session.append_many([user("beside"), user(f"again {SECRET}")])[1:],
        session.record("own", {"value": SECRET, "list": [SECRET]}, key="k"),
        session.update_meta(password=SECRET),
    ]
    return session, records


class Payloads(msgspec.Struct):
    seen: list[dict[str, Any]] = []

    def add(self, record: LogRecord) -> None:
        self.seen.append(record.payload)


def test_a_redacted_record_is_nowhere_and_keeps_its_place(store: SessionStore) -> None:
    session, records = with_secrets(store)
    fold = session.fold("payloads", Payloads)
    assert len(fold.value.seen) == session.last_seq + 1
    fold.save()
    (session.path / "log.torn").write_text(SECRET)
    assert [info.title for info in store.list()] == [f"my password is {SECRET}"]
    assert len(holders(store)) >= 5
    for record in records:
        left = session.redact(record)
        assert (left.seq, left.id, left.ts) == (record.seq, record.id, record.ts)
    assert holders(store) == []
    assert SECRET not in str(fold.value.seen)
    for one in (session, SessionStore(store.path).open("one")):
        assert one.messages() == [
            user("[redacted]"),
            {
                "role": "assistant",
                "content": [{"type": "tool_use", "id": "a", "name": "login", "input": {}}],
            },
            {
                "role": "user",
                "content": [{"type": "tool_result", "tool_use_id": "a", "content": "[redacted]"}],
            },
            user("beside"),
            user("[redacted]"),
        ]
        assert one.check() == []
    assert [info.title for info in store.list()] == ["New chat"]
    session.append(user("and on"))
    assert session.messages()[-1] == user("and on")


def test_a_replacement_takes_the_place_if_it_fits(store: SessionStore) -> None:
    session = store.create(id="one")
    record = session.append(user(f"the key is {SECRET}, use it"))
    with pytest.raises(LogError, match="too long"):
        session.redact(record, user("x" * 1000))
    session.redact(record, user("the key is …, use it"))
    assert session.messages() == [user("the key is …, use it")]
    tiny = session.append(user("x"))
    session.redact(tiny)
    assert session.messages()[1]["content"] in ("-", "")
    with pytest.raises(LogError):
        store.open("one", readonly=True).redact(tiny)


def test_an_output_that_another_record_needs_stays(store: SessionStore) -> None:
    session = store.create(id="one")
    ref = session.put_output("x" * 100_000)
    one, other = (session.record("own", {"ref": ref, "n": n}) for n in range(2))
    session.redact(one)
    assert session.output(ref)
    session.redact(other)
    with pytest.raises(LogError):
        session.output(ref)


def test_nothing_is_redacted_in_a_session_that_another_holds(store: SessionStore) -> None:
    session, records = with_secrets(store)
    with store.open("one", exclusive=True, owner="other"), pytest.raises(SessionBusy):
        session.redact(records[0])
    assert session.find(records[0].id).payload == records[0].payload


@pytest.mark.parametrize("first", ["live", "deleted", "deleted twice"])
def test_a_purged_session_leaves_nothing(store: SessionStore, first: str) -> None:
    with_secrets(store)[0].close()
    with store.create(id="two") as other:
        other.append(user("stays"))
    assert len(store.list()) == 2
    if first != "live":
        store.delete("one")
    if first == "deleted twice":
        with_secrets(store)[0].close()
        store.delete("one")
        store.delete("two")
    store.purge("one")
    assert holders(store) == []
    assert "one" not in store.trash()
    if first == "deleted twice":
        assert store.restore("two").messages() == [user("stays")]
    assert [info.id for info in store.list()] == ["two"]
    with pytest.raises(SessionNotFound):
        store.purge("one")


def test_an_open_handle_of_a_purged_session_writes_nowhere(store: SessionStore) -> None:
    session, _ = with_secrets(store)
    store.purge("one")
    with pytest.raises(SessionNotFound):
        session.append(user("more"))
    assert not (store.path / "one").exists()
