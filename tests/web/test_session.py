"""The page of one session, and what it asks for as it is read."""

from __future__ import annotations

import base64
import json
import re
from contextlib import closing
from hashlib import sha256
from pathlib import Path
from urllib.parse import quote

import pytest

from runlore import config as settings
from runlore.config import Config
from runlore.store import open_store
from runlore.store.values import Marks
from runlore.sync import pipeline
from runlore.web.session import PART
from tests.toy import Toy, line
from tests.web.conftest import SHOP, Client, serving

PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg=="
)
OFFLINE = "21636369-8b52-4b4a-97b7-50923ceb3ffd"


def blocks(page: str) -> list[int]:
    return [int(seq) for seq in re.findall(r'<article class="block [^"]*" id="(\d+)"', page)]


def test_a_session_reads_in_turns_with_what_they_cost(client: Client) -> None:
    page = client.get(f"/s/{SHOP}")
    assert "<h1>Fix the flaky checkout test</h1>" in page
    assert "<span>turn 1</span>" in page
    assert "$0.05" in page
    assert '<span class="bad">38 passed, 2 failed</span>' in page
    assert "<code>time.sleep(0.05)</code>" in page
    assert '<span class="add">+' in page
    assert "claude --resume cd613e30" in page


def test_a_page_tells_what_happened_from_the_digest(client: Client) -> None:
    page = client.get(f"/s/{SHOP}")
    told = page.partition("<summary>What happened</summary>")[2].partition("</details>")[0]
    names = re.findall(r"<h3>([^<]+)</h3>", told)
    assert names[:4] == ["asked", "the agent’s last words", "ended", "files changed"]
    assert f'<a href="/s/{quote(SHOP, safe="")}' in told or f"/s/{SHOP}" in told


def test_a_session_answers_to_the_beginning_of_its_id(client: Client) -> None:
    assert "Fix the flaky" in client.get("/s/cd613e30")
    assert client.ask("/s/no-such-session").status == 404


def test_subagents_are_where_they_were_started_and_on_their_own_page(client: Client) -> None:
    page = client.get(f"/s/{SHOP}")
    (uid,) = re.findall(r'data-sub="([^"]+)"', page)
    inside = client.get(f"/x/part/{uid.replace('/', '%2F')}?inside&n=0")
    assert "article" in inside
    assert ' id="' not in inside  # Its numbers are not those of the page around it.
    assert "subagent of" in client.get(f"/s/{uid}")


def test_a_branch_that_was_left_can_be_read(client: Client) -> None:
    page = client.get(f"/s/{OFFLINE}")
    assert "Rewound to here: 4 events left behind" in page
    left = client.get(f"/s/{OFFLINE}?branch=1")
    assert set(blocks(left)) - set(blocks(page))
    assert set(blocks(client.get(f"/s/{OFFLINE}?branch=all"))) == set(blocks(page)) | set(
        blocks(left)
    )
    assert client.ask(f"/s/{OFFLINE}?branch=9").status == 404


def test_what_the_model_saw_is_shown_for_any_event(client: Client) -> None:
    seen = client.get(f"/x/seen/{SHOP}?seq=3")
    assert "The checkout test fails about one run in ten" in seen
    assert "when event 3 had happened" in seen
    assert client.ask(f"/x/seen/{SHOP}?seq=9999").status == 404
    assert client.ask(f"/x/seen/{SHOP}?seq=x").status == 404


def test_the_agents_own_record_is_shown_on_demand(client: Client) -> None:
    raw = client.get(f"/x/raw/{SHOP}?seq=0")
    assert "&#34;sessionId&#34;: &#34;cd613e30" in raw


def test_words_are_found_within_the_session(client: Client) -> None:
    found = client.get(f"/x/find/{SHOP}?q=flak+clock")
    assert re.search(r'<a href="#\d+" data-place>', client.get(f"/x/find/{SHOP}?q=clo")), found
    assert "0 places" in client.get(f"/x/find/{SHOP}?q=zzqxnever")
    assert "shop-api" not in client.get(f"/x/find/{OFFLINE}?q=redis")


@pytest.fixture
def long(home: Path, toy: Toy) -> Config:
    """A session of many parts, with a picture and a text that is longer than what is shown of
    it."""
    picture = f"[image image/png 1 KB sha256:{sha256(PNG).hexdigest()[:16]}]"
    root = home / ".toy"
    root.mkdir()
    records = [
        line(s="long", id=f"n{n}", up=f"n{n - 1}" if n else None, text=f"message {n}", at=n)
        for n in range(PART * 3 + 5)
    ]
    records[1] = line(
        s="long", id="n1", up="n0", text=picture, data=base64.b64encode(PNG).decode(), at=1
    )
    records[2] = line(
        s="long", id="n2", up="n1", kind="assistant_msg", text="word " * 10_000 + "the end", at=2
    )
    (root / "long.jsonl").write_bytes(b"".join(records))
    config = settings.load()
    settings.make_home(config.home)
    with closing(open_store(config.store)) as store:
        pipeline.sync(store, config)
    return config


@pytest.fixture
def alike(home: Path, toy: Toy) -> None:
    """Two sessions about the same, and one about something else. Toy titles are hostile."""
    root = home / ".toy"
    root.mkdir()
    texts = {"one": "mend the invoice rounding", "two": "invoice rounding again", "three": "fence"}
    for name, text in texts.items():
        records = line(s=name, id=name, text=text), line(s=name, title=f"<b>{text}</b>")
        (root / f"{name}.jsonl").write_bytes(b"".join(records))
    config = settings.load()
    settings.make_home(config.home)
    with closing(open_store(config.store)) as store:
        pipeline.sync(store, config)


def test_sessions_about_the_same_are_listed_on_demand(alike: None) -> None:
    with serving() as client:
        assert "data-related" in client.get("/s/toy:one")
        (listed,) = re.findall(r"<li>(.*?)</li>", client.get("/x/related/toy:one"))
        assert 'href="/s/toy:two"' in listed
        assert "&lt;b&gt;invoice rounding again" in listed
        assert "same words: " in listed
        assert "No session is about the same" in client.get("/x/related/toy:three")
        assert client.ask("/x/related/toy:nobody").status == 404


def test_a_long_session_comes_in_parts(long: Config) -> None:
    with serving() as client:
        page = client.get("/s/toy:long")
        assert blocks(page) == list(range(PART))
        parts = json.loads(client.get("/x/parts/toy:long"))["parts"]
        assert [(part["first"], part["last"]) for part in parts] == [
            (0, 59),
            (60, 119),
            (120, 179),
            (180, 184),
        ]
        assert blocks(client.get("/x/part/toy:long?n=3")) == list(range(180, 185))
        assert blocks(client.get("/s/toy:long?at=130")) == list(range(120, 180))
        assert client.ask("/x/part/toy:long?n=9").status == 404


def test_a_long_text_is_folded_and_can_be_had_whole(long: Config) -> None:
    with serving() as client:
        page = client.get("/s/toy:long")
        assert 'data-whole="2"' in page
        assert "the end" not in page
        assert "the end" in client.get("/x/text/toy:long?seq=2")


def test_a_picture_comes_out_of_the_agents_record(long: Config) -> None:
    with serving() as client:
        (url,) = re.findall(r'<img [^>]*src="([^"]+)"', client.get("/s/toy:long"))
        answer = client.ask(url.replace("&amp;", "&"))
        assert (answer.headers["content-type"], answer.body) == ("image/png", PNG)
        assert client.ask("/x/image/toy:long?seq=1&sha=0123456789abcdef").status == 404
        assert client.ask("/x/image/toy:long?seq=1&sha=").status == 404


def test_a_session_that_grew_is_read_anew(long: Config, home: Path) -> None:
    with serving() as client:
        assert len(json.loads(client.get("/x/parts/toy:long"))["parts"]) == 4
        with open(home / ".toy/long.jsonl", "ab") as file:
            file.write(
                b"".join(line(s="long", id=f"m{n}", text="more", at=1000 + n) for n in range(PART))
            )
        with closing(open_store(long.store)) as store:
            pipeline.sync(store, long)
        assert len(json.loads(client.get("/x/parts/toy:long"))["parts"]) == 5


def test_the_page_of_a_session_has_the_name_that_somebody_gave_it(long: Config) -> None:
    with closing(open_store(long.store)) as store:
        store.sessions.mark("toy:long", Marks(name="The long one"))
    with serving() as client:
        assert "<h1>The long one</h1>" in client.get("/s/toy:long")


def test_a_session_can_be_taken_from_its_page(client: Client) -> None:
    for kind, begin in (
        ("md", "# Fix the flaky"),
        ("jsonl", '{"type":"session"'),
        ("html", "<!doctype html>"),
    ):
        answer = client.ask(f"/export/{SHOP}?format={kind}")
        assert answer.text.startswith(begin)
        assert f'.{kind}"' in answer.headers["content-disposition"]
        assert answer.headers["content-disposition"].startswith("attachment")
    assert client.get(f"/export/{SHOP}?format=md&first=7&last=7").count("**7. Bash**") == 1
    assert client.get(f"/x/markdown/{SHOP}?seq=8").startswith("**7. Bash**")
    assert client.ask(f"/export/{SHOP}?format=exe").status == 404
    assert client.ask(f"/export/{SHOP}?first=7&last=3").status == 404
    assert client.ask("/export/nobody").status == 404


def test_a_session_with_letters_of_any_language_in_its_id_can_be_taken(
    home: Path, toy: Toy
) -> None:
    (home / ".toy").mkdir()
    (home / ".toy/one.jsonl").write_bytes(line(s="Грüße 名", id="n0", text="hello", at=0))
    config = settings.load()
    settings.make_home(config.home)
    with closing(open_store(config.store)) as store:
        pipeline.sync(store, config)
    with serving() as client:
        answer = client.ask(f"/export/{quote('toy:Грüße 名')}?format=md")
    assert "hello" in answer.text
    assert answer.headers["content-disposition"] == 'attachment; filename="toy-e-.md"'


def test_a_subagent_that_no_call_started_is_not_lost(home: Path) -> None:
    project = home / ".claude/projects/-home-x"
    (project / "one/subagents").mkdir(parents=True)
    for path, agent, text in (
        ("one.jsonl", None, "look around"),
        ("one/subagents/agent-a1.jsonl", "a1", "look <under> the bed"),
    ):
        record = {
            "type": "user", "uuid": f"u-{agent}", "parentUuid": None, "sessionId": "one",
            "cwd": "/x", "isSidechain": agent is not None,
            "timestamp": "2026-03-01T10:00:00.000Z", "message": {"role": "user", "content": text},
            **({"agentId": agent} if agent else {}),
        }  # fmt: skip
        (project / path).write_text(json.dumps(record) + "\n")
    config = settings.load()
    settings.make_home(config.home)
    with closing(open_store(config.store)) as store:
        pipeline.sync(store, config)
    with serving() as client:
        page = client.get("/s/claude:one")
        below = json.loads(client.get("/api/v1/sessions?parent=claude:one"))["sessions"]
    assert "1 subagent without a call that started it" in page
    assert [one["session"]["uid"] for one in below] == ["claude:one/agent-a1"]
    assert '<a href="/s/claude:one%2Fagent-a1">look &lt;under&gt; the bed</a>' in page
