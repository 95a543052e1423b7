"""`secrets --check`: what is left in a store is found wherever it stands, and a sync leaves
nothing. Every secret here is made up."""

import json
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner

from runlore import config as config_module
from runlore.cli import cli
from runlore.config import Redact
from runlore.doctor.leftovers import Leftover, find_leftovers
from runlore.redact.engine import Redactor
from runlore.store import Store
from runlore.sync import pipeline
from tests.toy import Toy, line

SECRET = "ghp_" + "a1B2c3D4e5F6g7H8i9J0" + "k1L2m3N4o5P6q7R8"


@pytest.fixture
def root(home: Path, toy: Toy) -> Path:
    made = home / ".toy"
    made.mkdir()
    return made


def left_in(store: Store) -> list[Leftover]:
    return list(find_leftovers(store, config_module.load().home, Redactor(bytes(32))))


def sync(store: Store, *, redact: bool = True) -> None:
    config = msgspec.structs.replace(config_module.load(), redact=Redact(enabled=redact))
    pipeline.sync(store, config, quiet_s=0)


def test_what_was_stored_without_redaction_is_found_in_every_place(
    store: Store, root: Path
) -> None:
    text = line(id="a", text=f"use {SECRET}", tool=SECRET, files=[f"/{SECRET}"])
    (root / "s1.jsonl").write_bytes(text + line(title=f"about {SECRET}"))
    sync(store, redact=False)
    places = {(one.place, one.field) for one in left_in(store)}
    assert places >= {
        ("sessions", "title"),
        ("events", "tool"),
        ("events", "rest"),
        ("bodies", "text"),
        ("records", "body"),
        ("streams", "facts"),
    }
    assert all(one.kind == "github" for one in left_in(store))
    assert SECRET not in str(left_in(store))


def test_a_sync_leaves_nothing_also_of_what_was_stored_before(store: Store, root: Path) -> None:
    text = line(id="a", text=f"use {SECRET}", tool=SECRET, files=[f"/{SECRET}"])
    (root / "s1.jsonl").write_bytes(text + line(title=f"about {SECRET}"))
    sync(store, redact=False)
    sync(store)
    assert left_in(store) == []


def test_a_leftover_in_a_session_names_its_event(store: Store, root: Path) -> None:
    (root / "s1.jsonl").write_bytes(line(id="a", text="one") + line(id="b", up="a", text="two"))
    sync(store)
    assert left_in(store) == []
    store.db.execute("update events set summary = ? where seq = 1", (SECRET,))  # type: ignore[attr-defined]
    assert left_in(store) == [
        Leftover(place="events", field="summary", kind="github", session="toy:s1", event=1)
    ]


def test_files_beside_the_store_are_looked_at(store: Store, root: Path) -> None:
    home = config_module.load().home
    (home / "lessons").mkdir(parents=True)
    (home / "lessons" / "x.md").write_text(f"one\nuse {SECRET}\n")
    (home / "delivered.jsonl").write_text(json.dumps({"text": f"use {SECRET}"}) + "\n")
    key = ["-----BEGIN RSA PRIVATE KEY-----", *["MIIEowIBAAKCAQEAq3Jk7Zx81Lm4Np8Rt2Uv6"] * 3]
    (home / "lessons" / "y.md").write_text("\n".join([*key, "-----END RSA PRIVATE KEY-----"]))
    assert {(Path(one.place).name, one.field) for one in left_in(store)} == {
        ("x.md", "line 2"),
        ("y.md", "text"),
        ("delivered.jsonl", "line 1"),
    }


def test_the_command_shows_places_and_not_secrets(
    store: Store, url: str, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RUNLORE_STORE", url)
    (root / "s1.jsonl").write_bytes(line(id="a", text=f"use {SECRET}"))
    sync(store, redact=False)
    shown = CliRunner().invoke(cli, ["secrets", "--check"])
    assert shown.exit_code == 1
    assert "bodies.text  toy:s1#0" in shown.output
    assert SECRET not in shown.output
    answer = json.loads(CliRunner().invoke(cli, ["secrets", "--check", "--json"]).stdout)
    assert {one["place"] for one in answer} >= {"bodies", "records"}
    sync(store)
    assert CliRunner().invoke(cli, ["secrets", "--check"]).exit_code == 0
