"""What the adapter of Copilot CLI promises beyond what its fixtures show: which file is read, what
is new in it, and tokens."""

import json
import os
import shutil
from collections import Counter
from pathlib import Path

import pytest

from runlore import config
from runlore.adapters import Normalized, Source, get
from runlore.model import Session
from runlore.store import Store
from runlore.sync import pipeline
from runlore.timeline import model_context

ADAPTER = get("copilot_cli")
FIXTURES = Path(__file__).parent / "fixtures/copilot_cli"
MAIN = "c0de0000-0000-4000-8000-000000000a00"
LOG = f"session-state/{MAIN}/events.jsonl"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return Path(shutil.copytree(FIXTURES / "basic/root", tmp_path / ".copilot"))


def sync(store: Store, root: Path) -> pipeline.Report:
    report = pipeline.sync(store, config.load(), agents=["copilot_cli"], roots=[str(root)])
    assert not report.problems
    return report


def only(root: Path) -> Source:
    (source,) = ADAPTER.discover(root)
    return source


def normalized(source: Source) -> Normalized:
    return ADAPTER.normalize(source, ADAPTER.read(source, None), None)


def test_what_was_added_is_read_alone(root: Path) -> None:
    source, path = only(root), root / LOG
    records = [record for record in ADAPTER.read(source, None) if record.sidecar is None]
    since = ADAPTER.position(source, records[-1].end, len(records))
    with path.open("a") as file:
        file.write(
            '{"type":"user.message","id":"new","data":{"content":"more"}}\n{"type":"user.mess'
        )
    assert ADAPTER.follows(only(root), since)
    (record,) = [record for record in ADAPTER.read(only(root), since) if record.sidecar is None]
    assert json.loads(record.data)["id"] == "new"


def test_a_title_that_comes_later_is_taken_without_reading_the_log_again(
    root: Path, store: Store
) -> None:
    about = root / f"session-state/{MAIN}/workspace.yaml"
    about.unlink()
    sync(store, root)
    assert store.sessions.get(f"copilot_cli:{MAIN}").title == "Totals and tax"  # type: ignore[union-attr] # it is there
    about.write_text('summary: "The \\"new\\" title"\n')
    os.utime(about, (4_000_000_000, 4_000_000_000))
    report = sync(store, root)
    assert (report.found, report.events) == ({"grown": 1}, 0)
    assert store.sessions.get(f"copilot_cli:{MAIN}").title == 'The "new" title'  # type: ignore[union-attr] # it is there
    assert sync(store, root).found == {"unchanged": 1}


@pytest.mark.parametrize(
    "summary",
    [
        '"The \\"new\\" title\n  of the shop"',
        "'The \"new\" title\n  of the shop'",
        'The "new" title\n  of the shop',
        '"The \\"new\\" \\\n  title of the shop"',
    ],
)
def test_a_title_on_several_lines_is_read_whole(root: Path, store: Store, summary: str) -> None:
    about = root / f"session-state/{MAIN}/workspace.yaml"
    about.write_text(f"id: {MAIN}\nsummary: {summary}\ncwd: /home/ada\n")
    sync(store, root)
    session = store.sessions.get(f"copilot_cli:{MAIN}")
    assert session is not None
    assert session.title == 'The "new" title of the shop'


def test_a_rewind_cuts_the_log_and_what_was_cut_stays(root: Path, store: Store) -> None:
    path = root / LOG
    sync(store, root)
    lines = path.read_bytes().splitlines(keepends=True)
    kept = next(n for n, line in enumerate(lines) if b"and now the tax" in line)
    path.write_bytes(
        b"".join(lines[:kept])
        + b'{"type":"user.message","id":"again","data":{"content":"something else"}}\n'
    )
    assert sync(store, root).found == {"rewritten": 1}
    events = list(store.sessions.events(f"copilot_cli:{MAIN}"))
    assert [
        event.is_gone
        for event in events
        if event.summary in ("and now the tax", "why is the total wrong?")
    ] == [False, True]
    assert [event.is_gone for event in events if event.summary == "something else"] == [False]


def test_only_logs_of_sessions_are_opened(root: Path) -> None:
    for name in (
        "config.json",
        "session-store.db",
        "logs/process.jsonl",
        f"session-state/{MAIN}/files/data.jsonl",
    ):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text("{}\n")
    assert [source.path for source in ADAPTER.discover(root)] == [str(root / LOG)]


def test_a_log_beside_its_folder_goes_before_the_one_in_it_and_both_before_a_document(
    root: Path,
) -> None:
    flat = root / f"session-state/{MAIN}.jsonl"
    shutil.copyfile(root / LOG, flat)
    document = root / f"history-session-state/session_{MAIN}_1759000000000.json"
    document.parent.mkdir()
    document.write_text('{"sessionId": "x", "timeline": []}')
    assert only(root).path == str(flat)
    flat.unlink()
    assert only(root).path == str(root / LOG)
    (root / LOG).unlink()
    assert only(root).path == str(document)


def test_a_document_that_is_no_session_is_named_and_nothing_else_is_lost(
    root: Path, store: Store
) -> None:
    folder = root / "history-session-state"
    folder.mkdir()
    (folder / "session_a_1.json").write_text("{")
    (folder / "session_b_1.json").write_text("[]")
    report = pipeline.sync(store, config.load(), agents=["copilot_cli"], roots=[str(root)])
    reasons = sorted(reason for _, reason in report.problems)
    assert reasons == [
        "no whole JSON document; it is read again when it has changed",
        "not a session: it has no timeline",
    ]
    assert report.new_sessions == 1


@pytest.mark.parametrize(
    ("case", "wanted"),
    [
        ("basic", (620 + 2000, 274 + 8 + 55, 7000, 2500)),
        ("totals", (500, 75, 1900, 100)),
        ("unnamed-model", (1000 + 1000, 160 + 55, 4000, 0)),
    ],
)
def test_tokens_are_those_of_the_totals(case: str, wanted: tuple[int, ...]) -> None:
    """In `basic` a second run counts for itself; in `totals` it goes on from the first. In
    `unnamed-model` no message says which model wrote it."""
    found = normalized(only(FIXTURES / case / "root"))
    largest = {
        call.key: call for call, _ in sorted(found.calls, key=lambda item: item[0].total)
    }.values()
    calls = tuple(
        sum(getattr(call, name) for call in largest)
        for name in ("input_tokens", "output_tokens", "cache_read_tokens", "cache_write_5m_tokens")
    )
    used = [event.usage for event in found.events if event.usage]
    events = tuple(
        sum(getattr(usage, name) for usage in used)
        for name in ("input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens")
    )
    assert calls == events == wanted


def test_calls_get_the_model_that_the_end_of_the_run_names(store: Store) -> None:
    sync(store, FIXTURES / "unnamed-model/root")
    hashes = [number for (number,) in store.maintenance.rows("select hash from calls")]
    output: Counter[str | None] = Counter()
    for entry in store.ledger.find(hashes):
        output[entry.call.model] += entry.call.output_tokens
    assert output == {"claude-sonnet-4.5": 160 + 50, "gpt-5-mini": 5}


def test_the_model_sees_the_summary_in_place_of_what_was_compacted(
    store: Store, root: Path
) -> None:
    sync(store, root)
    events = list(store.sessions.events(f"copilot_cli:{MAIN}"))
    place = next(event.seq for event in events if event.native == "abort")
    seen = [found.event.summary for found in model_context(events, place)]
    assert seen[0] == "The total was fixed; the tax is next."
    assert "why is the total wrong?" not in seen


def test_a_session_is_taken_up_again_by_its_name() -> None:
    def resume(native: str) -> list[str] | None:
        return ADAPTER.resume(
            Session(
                session_uid=f"copilot_cli:{native}", flavor="copilot_cli", native_session_id=native
            )
        )

    assert resume("s1") == resume("s1/agent-t-1") == ["copilot", "--resume", "s1"]
