"""What disks and crashes do to a log: nothing good is lost, and what was skipped is reported."""

import errno
import os
import random
import resource
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from bench.attack.logs import attack
from runlore.errors import Conflict, LogError, SessionNotFound
from runlore.live import SessionStore
from runlore.live.log import LiveSession
from tests.conftest import ALL


@pytest.fixture
def store(tmp_path: Path) -> SessionStore:
    return SessionStore(tmp_path / "store")


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def texts(session: LiveSession) -> list[str]:
    return [message["content"] for message in session.messages()]


def create_log(store: SessionStore, *said: str) -> Path:
    with store.create(id="one") as session:
        for text in said:
            session.append(user(text))
    return store.path / "one/log.jsonl"


def test_a_tail_torn_at_any_byte_is_set_aside_and_reported(store: SessionStore) -> None:
    log = create_log(store, "one", "two", "three €😀 end")
    whole = log.read_bytes()
    start = whole.rindex(b"\n", 0, -1) + 1
    for cut in range(start + 1, len(whole) - 1):
        log.write_bytes(whole[:cut])
        log.with_suffix(".torn").unlink(missing_ok=True)
        with store.open("one", readonly=True) as reader:
            assert texts(reader) == ["one", "two"]
        assert log.read_bytes() == whole[:cut]  # reading left it alone
        with store.open("one") as session:
            assert session.append(user("next")).seq == 3
            assert texts(session) == ["one", "two", "next"]
            assert [problem.offset for problem in session.problems] == [start]
            assert "log.torn" in session.problems[0].reason
        assert whole[start:cut] in log.with_suffix(".torn").read_bytes()


def test_a_whole_record_without_its_line_end_is_kept(store: SessionStore) -> None:
    log = create_log(store, "one", "two")
    log.write_bytes(log.read_bytes()[:-1])
    with store.open("one") as session:
        assert session.append(user("three")).seq == 3
        assert texts(session) == ["one", "two", "three"]
        assert session.problems == []


def test_a_torn_batch_is_gone_as_a_whole(store: SessionStore) -> None:
    log = create_log(store, "one")
    with store.open("one") as session:
        session.append_many([user(f"batch {n}") for n in range(5)])
    log.write_bytes(log.read_bytes()[:-20])
    with store.open("one") as session:
        session.append(user("next"))
        assert texts(session) == ["one", "next"]
        assert [record.seq for record in session.records()] == [0, 1, 2]


def test_a_handle_that_is_open_sees_what_another_one_could_not_finish(store: SessionStore) -> None:
    log = create_log(store, "one")
    session = store.open("one")
    session.append(user("two"))
    with log.open("ab") as file:
        file.write(b'{"n":3,"i":"00')
    session.append(user("three"))
    assert texts(session) == ["one", "two", "three"]
    assert len(session.problems) == 1


def test_what_another_writer_finished_but_for_the_line_end_is_counted(store: SessionStore) -> None:
    log = create_log(store, "one")
    session = store.open("one")
    session.append(user("two"))
    with store.open("one") as other:
        other.append(user("three"))
        other.append(user("four"))
    log.write_bytes(log.read_bytes()[:-1])
    assert session.append(user("five")).seq == 5
    assert [record.seq for record in session.records()] == [0, 1, 2, 3, 4, 5]
    assert session.problems == []


def test_what_another_writer_left_damaged_keeps_its_number(store: SessionStore) -> None:
    log = create_log(store, "one")
    session = store.open("one")
    session.append(user("two"))
    with store.open("one") as other:
        other.append(user("three"))
        other.append(user("four"))
    log.write_bytes(log.read_bytes().replace(b"four", b"f\xffur"))
    assert session.append(user("five")).seq == 5
    assert [record.seq for record in session.records()] == [0, 1, 2, 3, 5]
    assert len(session.problems) == 1


def test_nuls_after_a_loss_of_power_are_set_aside(store: SessionStore) -> None:
    log = create_log(store, "one")
    with log.open("ab") as file:
        file.write(b"\0" * 5000)
    with store.open("one") as session:
        session.append(user("two"))
        assert texts(session) == ["one", "two"]
        assert session.problems[0].size_bytes == 5000


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\n",
        b"\n\n\n",
        b"\0\0\0",
        b"garbage",
        b"[1]\n",
        b"null\n",
        b'{"n":"x"}\n',
        b"\xff\xfe\n",
    ],
)
def test_a_log_without_a_record_can_be_written(store: SessionStore, content: bytes) -> None:
    log = create_log(store)
    log.write_bytes(content)
    with store.open("one") as session:
        assert session.messages() == []
        session.append(user("first"))
        assert texts(session) == ["first"]
    assert texts(store.open("one")) == ["first"]


def test_a_changed_byte_costs_its_record_and_nothing_else(
    store: SessionStore, loops: Callable[[int], int]
) -> None:
    log = create_log(store, *(f"message {n} €" for n in range(20)))
    whole = log.read_bytes()
    rng = random.Random(7)
    for _ in range(loops(1000)):
        data = bytearray(whole)
        place = rng.randrange(len(data))
        data[place] = rng.choice([value for value in range(256) if value != data[place]])
        log.write_bytes(bytes(data))
        (store.path / "one/snapshots/view").unlink(missing_ok=True)
        line = whole.count(b"\n", 0, place)
        with store.open("one") as session:
            found = [record.seq for record in session.records()]
            is_line_end = whole[place] == 0x0A
            assert set(range(21)) - set(found) <= ({line} if not is_line_end else set()), place
            assert session.problems or found == list(range(21))
            for record in session.records(after=0):
                # what is given out is what was written
                assert record.payload == user(f"message {record.seq - 1} €")
            after = session.append(user("next"))
            assert after.seq == 21, place
            assert [record.seq for record in session.records()] == [*found, 21]


def test_two_records_that_lost_the_line_end_between_them_are_both_read(store: SessionStore) -> None:
    log = create_log(store, "one", "two", "three")
    lines = log.read_bytes().split(b"\n")
    log.write_bytes(b"\n".join([lines[0], lines[1] + b"\0garbage" + lines[2], lines[3], b""]))
    session = store.open("one")
    assert texts(session) == ["one", "two", "three"]
    assert len(session.problems) == 1
    assert "2 records in it could be read" in session.problems[0].reason


def test_a_full_disk_leaves_the_log_as_it_was(
    store: SessionStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = store.create(id="one")
    session.append(user("one"))
    before = (session.path / "log.jsonl").read_bytes()
    real = os.write
    answers: Iterator[int | OSError] = iter([40, OSError(errno.ENOSPC, "No space left on device")])

    def full(fd: int, data: Any) -> int:
        answer = next(answers)
        if isinstance(answer, OSError):
            raise answer
        return real(fd, bytes(data)[:answer])

    monkeypatch.setattr(os, "write", full)
    with pytest.raises(LogError, match="No space left"):
        session.append(user("two"))
    monkeypatch.undo()
    assert (session.path / "log.jsonl").read_bytes() == before
    assert session.append(user("three")).seq == 2
    assert texts(session) == ["one", "three"]
    assert session.problems == []


def test_a_write_that_comes_in_pieces_is_finished(
    store: SessionStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = store.create(id="one")
    real = os.write
    monkeypatch.setattr(os, "write", lambda fd, data: real(fd, bytes(data)[:7]))
    session.append(user("in pieces"))
    monkeypatch.undo()
    assert texts(store.open("one")) == ["in pieces"]


def test_a_file_that_may_not_grow_is_left_as_it_was(store: SessionStore) -> None:
    """As a full disk, but the kernel itself says no in the middle of a record."""
    session = store.create(id="one")
    session.append(user("one"))
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            size = (session.path / "log.jsonl").stat().st_size
            resource.setrlimit(resource.RLIMIT_FSIZE, (size + 100, size + 100))
            try:
                session.append(user("x" * 1000))
            except LogError:
                status = 0 if (session.path / "log.jsonl").stat().st_size == size else 2
        finally:
            os._exit(status)
    assert os.waitpid(pid, 0)[1] == 0
    session.append(user("two"))
    assert texts(session) == ["one", "two"]
    assert session.problems == []


def test_a_folder_that_cannot_be_written_can_be_read(
    store: SessionStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    create_log(store, "one", "two")
    real = os.open

    def read_only(path: Any, flags: int, *rest: Any, **more: Any) -> int:
        if flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT):
            raise OSError(errno.EROFS, "Read-only file system", str(path))
        return real(path, flags, *rest, **more)

    def refuse(*_: Any, **__: Any) -> None:
        raise OSError(errno.EROFS, "Read-only file system")

    monkeypatch.setattr(os, "open", read_only)
    monkeypatch.setattr(os, "mkdir", refuse)
    session = store.open("one")
    assert texts(session) == ["one", "two"]
    assert len(session.tail(5)) == 3
    assert session.meta.title == "one"
    with pytest.raises(LogError, match="Read-only"):
        session.append(user("three"))
    with pytest.raises(LogError, match="Read-only"):
        store.create(id="two")
    session.close()


def test_a_log_that_shrank_under_a_handle_goes_on_from_what_is_there(store: SessionStore) -> None:
    """A loss of power may take the end of a file that `process` never promised to keep."""
    log = create_log(store, "one", "two", "three")
    session = store.open("one")
    session.append(user("four"))
    lines = log.read_bytes().splitlines(True)
    log.write_bytes(b"".join(lines[:3]))
    assert texts(store.open("one")) == ["one", "two"]
    assert session.append(user("five")).seq == 3
    assert texts(store.open("one")) == ["one", "two", "five"]
    assert texts(session) == ["one", "two", "five"]


def test_a_log_that_was_found_sound_is_checked_again_when_it_changed(store: SessionStore) -> None:
    log = create_log(store, *(f"message {n}" for n in range(200)))
    assert (store.path / "one/snapshots/view").exists()
    assert len(texts(store.open("one"))) == 200
    time.sleep(0.02)  # The clock of a file system ticks every few milliseconds.
    with log.open("r+b") as file:
        place = log.read_bytes().index(b"message 77")
        file.seek(place)
        file.write(b"massage")
    session = store.open("one")
    assert texts(session) == [f"message {n}" for n in range(200) if n != 77]
    assert len(session.problems) == 1


def test_a_changed_number_leads_nobody_past_good_records(store: SessionStore) -> None:
    """Records are found by the numbers of lines in the middle of the file; one that lies must not
    be followed."""
    log = create_log(store, *("x" * 500 for _ in range(400)))
    whole = log.read_bytes()
    lines = whole.splitlines(keepends=True)
    for number in range(100, 400, 2):
        told = b'{"n":%d,' % number
        assert lines[number].startswith(told)
        for lie in (b'{"n":000,', b'{"n":999,'):
            log.write_bytes(whole.replace(told, lie))
            with store.open("one", readonly=True) as session:
                for seq in (5, number - 4, number - 1):
                    assert next(session.records(seq - 1)).seq == seq
                assert session.find(number + 1).seq == number + 1


def test_a_damaged_line_end_of_the_last_record_costs_nothing(store: SessionStore) -> None:
    log = create_log(store, "one", "two")
    log.write_bytes(log.read_bytes()[:-1] + b"\x0b")
    with store.open("one") as session:
        assert session.append(user("three")).seq == 3
        assert texts(session) == ["one", "two", "three"]
        assert [problem.reason.partition(":")[0] for problem in session.problems] == [
            "damaged line skipped"
        ]
    assert not log.with_suffix(".torn").exists()


def test_a_torn_tail_that_cannot_be_set_aside_is_an_error_of_ours(store: SessionStore) -> None:
    log = create_log(store, "one")
    log.write_bytes(log.read_bytes() + b'{"n":2,"i"')
    log.with_suffix(".torn").mkdir()
    with store.open("one") as session:
        with pytest.raises(LogError, match="set aside"):
            session.append(user("two"))
        log.with_suffix(".torn").rmdir()
        session.append(user("two"))
        assert texts(session) == ["one", "two"]


def test_a_handle_of_a_deleted_session_does_not_write_into_the_next_one_of_its_name(
    store: SessionStore,
) -> None:
    create_log(store, "old")
    late, other = store.open("one"), store.open("one")
    late.append(user("late"))
    # More than the other handle reads record by record, so it never sees the next record.
    other.append(user("x" * (5 << 20)))
    other.close()
    store.delete("one")
    store.create(id="one").append(user("new"))
    with pytest.raises(SessionNotFound):
        late.append(user("into the trash"))
    assert texts(store.open("one")) == ["new"]


def damage(log: Path, record: bytes) -> None:
    """Change a byte in the payload of the line that holds this text."""
    data = log.read_bytes()
    assert data.count(record) == 1
    log.write_bytes(data.replace(record, b"#" + record[1:]))


def test_a_damaged_compaction_gives_back_what_it_covered(store: SessionStore) -> None:
    """The snapshot of the view knows the compaction, whose summary nobody can read any more."""
    log = create_log(store, "one", "two")
    with store.open("one") as session:
        session.compact("a summary")
        session.append(user("three"))
    assert (store.path / "one/snapshots/view").exists()
    damage(log, b"a summary")
    with store.open("one") as session:
        assert texts(session) == ["one", "two", "three"]
        assert [problem.lost for problem in session.check()] == [(3, 3)]
        session.append(user("four"))
        assert texts(session) == ["one", "two", "three", "four"]
        session.compact("another summary")
        assert len(session.messages()) == 2


def test_a_damaged_last_message_of_a_branch_costs_itself(store: SessionStore) -> None:
    log = create_log(store, "one", "two", "left behind")
    with store.open("one") as session:
        session.rewind(to=1)
        for _ in range(100):  # Enough for a snapshot.
            session.append(user("more"))
    damage(log, b"left behind")
    with store.open("one") as session:
        assert [(branch.seq, branch.is_active) for branch in session.branches()] == [
            (2, False),
            (104, True),
        ]
        assert texts(session) == ["one", *["more"] * 100]


def test_a_session_whose_last_record_is_damaged_can_be_forked(store: SessionStore) -> None:
    log = create_log(store, *["x" * 300] * 100, "x" * 299 + "y")
    damage(log, b'y"}')
    with store.open("one") as session, session.fork(id="fork") as fork:
        assert texts(fork) == ["x" * 300] * 100


def test_the_records_that_are_lost_are_named(store: SessionStore) -> None:
    log = create_log(store, *(f"message {n}" for n in range(10)))
    damage(log, b"message 2")
    damage(log, b"message 3")
    damage(log, b"message 9")
    with store.open("one", readonly=True) as session:
        assert [problem.lost for problem in session.check()] == [(3, 4), (3, 4), (10, 10)]


def test_lines_that_were_taken_out_are_missed(store: SessionStore) -> None:
    log = create_log(store, *(f"message {n}" for n in range(5)))
    lines = log.read_bytes().splitlines(keepends=True)
    log.write_bytes(b"".join(lines[:2] + lines[4:]))
    with store.open("one", readonly=True) as session:
        assert [(problem.lost, problem.offset) for problem in session.check()] == [
            ((2, 3), len(lines[0]) + len(lines[1]))
        ]


def test_a_damaged_last_record_does_not_refuse_those_who_expect_what_they_read(
    store: SessionStore,
) -> None:
    log = create_log(store, "one", "two", "three")
    damage(log, b"three")
    with store.open("one") as session:
        assert session.last_seq == 2
        assert session.append(user("four"), expect=session.last_seq).seq == 4
        with pytest.raises(Conflict):
            session.append(user("five"), expect=2)


def test_a_damaged_record_that_was_read_before_keeps_its_number(store: SessionStore) -> None:
    log = create_log(store, "one")
    session = store.open("one")
    session.append(user("two"))
    with store.open("one") as other:
        other.append(user("three"))
    damage(log, b"three")
    assert texts(session) == ["one", "two"]
    assert session.append(user("four")).seq == 4


def test_a_redo_whose_rewind_is_damaged_undoes_no_other(store: SessionStore) -> None:
    log = create_log(store, "one", "two", "three")
    with store.open("one") as session:
        session.rewind(to=2)
        session.rewind(to=1)
        session.redo()
        assert texts(session) == ["one", "two"]
    lines = log.read_bytes().splitlines(keepends=True)
    lines[5] = lines[5].replace(b'"rewind"', b'"remind"')
    log.write_bytes(b"".join(lines))
    assert texts(store.open("one")) == ["one", "two"]


def test_seqs_that_a_writer_without_the_lock_gave_twice_are_reported(store: SessionStore) -> None:
    log = create_log(store, "one", "two")
    session = store.open("one")
    session.append(user("three"))
    lines = log.read_bytes().splitlines(keepends=True)
    with log.open("ab") as file:
        file.write(lines[2])
    assert session.append(user("four")).seq == 4
    assert [record.seq for record in session.records()] == [0, 1, 2, 3, 2, 4]
    assert texts(session) == ["one", "two", "three", "two", "four"]
    with store.open("one") as other:
        [problem] = other.check()
        assert "record 2 follows record 3" in problem.reason
        assert other.append(user("five")).seq == 5


def test_any_damaged_byte_costs_its_record_alone(tmp_path: Path) -> None:
    """A tenth of `python -m bench.attack logs`."""
    for result in attack(0.1 if ALL else 0.01, tmp_path):
        assert result.held == result.tried, (result.case, result.note)


def test_a_checksum_with_a_damaged_name_is_not_read_as_a_key(store: SessionStore) -> None:
    log = create_log(store, "one", "two")
    written = list(store.open("one").records())
    data = log.read_bytes()
    place = data.rindex(b',"c":"')
    log.write_bytes(data[:place] + b',"k":"' + data[place + 6 :])
    with store.open("one") as session:
        assert list(session.records()) == written
        assert [record.key for record in session.tail(1)] == [None]
        assert texts(session) == ["one", "two"]
