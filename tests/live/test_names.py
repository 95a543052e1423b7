"""Ids of sessions are any printable text; their folders have names that every system takes."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runlore.errors import InvalidId
from runlore.live import SessionStore
from runlore.live.names import MAX_NAME_CHARS, id_of, name_of

IDS = ["user:42/chat", "a/b", ".hidden", "nul", "Con.txt", "x.", "ä", "a b", "~", "100%", "_", "."]


@pytest.mark.parametrize("id", IDS[:-1])
def test_an_id_is_stored_and_listed_as_it_was_given(tmp_path: Path, id: str) -> None:
    store = SessionStore(tmp_path)
    with store.create(id=id) as session:
        session.append({"role": "user", "content": "x"})
        assert session.id == id
        assert session.path.parent == tmp_path
        fork = session.fork(id=f"{id}+")
        assert (fork.id, fork.meta.origin and fork.meta.origin["session"]) == (f"{id}+", id)
    assert {info.id for info in store.list()} == {id, f"{id}+"}
    store.delete(id)
    assert store.trash() == [id]
    assert [info.id for info in store.list()] == [f"{id}+"]
    assert len(store.restore(id).messages()) == 1
    assert {info.id for info in SessionStore(tmp_path).list()} == {id, f"{id}+"}


@given(st.text(max_size=60))
def test_every_id_is_refused_or_has_a_safe_name_of_its_own(id: str) -> None:
    try:
        name = name_of(id)
    except InvalidId:
        return
    assert id_of(name) == id
    assert len(name) <= MAX_NAME_CHARS
    assert set(name) <= set("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-%")
    assert name[0] not in "._-"
    assert name[-1] != "."


def test_a_folder_with_a_name_we_would_not_give_is_no_session(tmp_path: Path) -> None:
    store = SessionStore(tmp_path)
    store.create(id="a")
    (tmp_path / "a").rename(tmp_path / "%61")
    assert store.list() == []
