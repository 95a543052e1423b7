"""`forget`, `demo`, `autostart` and `completion`."""

from __future__ import annotations

import json
import os
import plistlib
import shutil
import subprocess
from contextlib import closing
from pathlib import Path

import pytest

from runlore import config
from runlore.adapters import Source
from runlore.cli.commands import autostart, demo, up
from runlore.errors import RunloreError
from runlore.store import open_store
from tests.cli.conftest import Run
from tests.toy import Toy, line


def uids(run: Run) -> list[str]:
    return [row["uid"] for row in json.loads(run("ls", "--json", "--all-subagents").stdout)]


# ── forget ────────────────────────────────────────────────────────────────────────────────────────
def test_forget_first_shows_what_would_go(run: Run, stored: Path) -> None:
    result = run("forget", "alpha")
    assert "alpha" in result.stdout
    assert "would forget 1 session with 6 events" in result.stderr
    assert "own files stay" in result.stderr
    assert "[exclude]" in result.stderr
    assert uids(run) == ["toy:beta", "toy:alpha"]


def test_what_is_forgotten_is_not_brought_back_by_a_sync(run: Run, stored: Path) -> None:
    assert "forgotten: 1 session" in run("forget", "alpha", "--yes").stderr
    run("sync")
    assert uids(run) == ["toy:beta"]
    assert (stored / "alpha.jsonl").exists()
    with closing(open_store(config.load().store, read_only=True)) as store:
        assert store.sources.tombstones() == {"toy:alpha"}


def test_forget_takes_filters_and_answers_in_json(run: Run, stored: Path) -> None:
    data = json.loads(run("forget", "--errors", "--json").stdout)
    assert data["dry_run"] is True
    assert data["sessions"] == ["toy:alpha"]
    assert data["events"] == 6
    assert json.loads(run("forget", "--errors", "--json", "--yes").stdout)["dry_run"] is False
    assert uids(run) == ["toy:beta"]


def test_forget_names_the_sessions_that_show_copies(run: Run, stored: Path) -> None:
    copies = b"".join(
        line(s="gamma", id=f"a{n}", of=f"a{n}", text="copy", at=n) for n in range(1, 7)
    )
    (stored / "gamma.jsonl").write_bytes(copies + line(s="gamma", id="new", text="go on", at=300))
    run("sync")
    assert (
        "1 other session shows parts of these as copies; those parts go as well: toy:gamma\n"
        in run("forget", "alpha").stderr
    )
    assert json.loads(run("forget", "alpha", "--json").stdout)["copies"] == ["toy:gamma"]
    assert "as copies" not in run("forget", "beta").stderr
    assert "as copies" not in run("forget", "alpha", "gamma").stderr
    assert "those parts went as well: toy:gamma\n" in run("forget", "alpha", "--yes").stderr


def test_forget_without_a_choice_is_refused(run: Run, stored: Path) -> None:
    assert run("forget").exit_code == 2
    assert run("forget", "--all-subagents", "--yes").exit_code == 2
    assert "nothing to forget" in run("forget", "--repo", "nowhere", "--yes").stderr
    assert len(uids(run)) == 2


def test_forget_takes_names_or_filters_and_not_both(run: Run, stored: Path) -> None:
    result = run("forget", "alpha", "--errors", "--yes")
    assert result.exit_code == 2
    assert "name sessions or choose them by filters, not both" in result.stderr
    assert len(uids(run)) == 2


@pytest.mark.parametrize(
    "words",
    [
        ["--repo", "alph"],
        ["--branch", "mai"],
        ["--branch", "n"],
        ["--cwd", "work"],
        ["--cwd", "alpha"],
    ],
)
def test_forget_takes_names_of_things_at_their_word(
    run: Run, stored: Path, words: list[str]
) -> None:
    assert json.loads(run("forget", *words, "--json").stdout)["sessions"] == []


@pytest.mark.parametrize(
    ("words", "found"),
    [
        (["--repo", "alpha"], 1),
        (["--branch", "main"], 2),
        (["--branch", "m*"], 2),
        (["--cwd", "/work/alpha"], 1),
        (["--cwd", "*/alpha"], 1),
    ],
)
def test_forget_takes_whole_names_and_patterns(
    run: Run, stored: Path, words: list[str], found: int
) -> None:
    assert len(json.loads(run("forget", *words, "--json").stdout)["sessions"]) == found


def test_forget_lists_the_newest_first_as_ls_does(run: Run, stored: Path) -> None:
    (stored / "gamma.jsonl").write_bytes(line(s="gamma", id="g", text="x", at=50))
    run("sync")
    assert [
        row.split()[0] for row in run("forget", "alpha", "gamma", "beta").stdout.splitlines()[1:]
    ] == ["beta", "gamma", "alpha"]


def test_the_doctor_does_not_miss_what_was_forgotten(run: Run, stored: Path) -> None:
    run("forget", "alpha", "--yes")
    (stored / "alpha.jsonl").unlink()
    notes = [
        note
        for check in json.loads(run("doctor", "--json").stdout)["checks"]
        for note in check["notes"]
    ]
    assert notes == []


def test_every_command_says_the_same_of_an_empty_store(run: Run, stored: Path) -> None:
    run("forget", "alpha", "beta", "--yes")
    said = "the store is empty; run `runlore sync`, or `runlore demo` for something to look at\n"
    assert json.loads(run("ls", "--json").stderr)["error"]["message"] == said.strip()
    for words in (["ls"], ["show"], ["show", "abc"], ["resume", "latest:toy"], ["search", "x"],
    ["file", "x"],
                  ["forget", "--errors"], ["forget", "abc"]):  # fmt: skip
        result = run(*words)
        assert (result.exit_code, result.stderr.removeprefix("runlore: ")) == (1, said), words


# ── demo ──────────────────────────────────────────────────────────────────────────────────────────
def test_the_demo_is_a_store_to_look_around_in(
    run: Run, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    result = run("demo")
    assert "Fix the flaky checkout" in result.stdout
    assert (
        f"  export RUNLORE_HOME={home / '.runlore/demo'}\n  runlore show latest:shop-api\n"
        in result.stderr
    )
    assert "  runlore search ModuleNotFoundError\n" in result.stderr
    assert "Fix the flaky" in run("demo").stdout, "it can be made twice"
    monkeypatch.setenv("RUNLORE_HOME", str(home / ".runlore/demo"))
    rows = json.loads(run("ls", "--json", "--all-subagents").stdout)
    assert {row["repo"] for row in rows} == {"shop-api", "weather-cli"}
    assert any(row["errors"] for row in rows)
    assert any(row["relation"] == "subagent" for row in rows)
    texts = "".join(run("show", row["uid"]).stdout for row in rows)
    assert all(
        word in texts
        for word in (
            "100 passed",
            "+from collections.abc",
            "rewound to here",
            "compacted",
            "refused",
            "◦ ",
        )
    )
    assert "summary of what came before" in texts
    assert run("show", "latest:shop-api", "--context", "20").exit_code == 0


def test_a_sync_keeps_out_of_the_demo(
    run: Run, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = run("demo").stdout
    monkeypatch.setenv("RUNLORE_HOME", str(home / ".runlore/demo"))
    for words in (["sync"], ["sync", "--dry-run"]):
        result = run(*words)
        assert (result.exit_code, result.stdout) == (1, ""), words
        assert "invented sessions" in result.stderr
        assert "unset RUNLORE_HOME" in result.stderr
    assert run("up", "--once", "--port", "0").exit_code == 0, "it shows the demo"
    monkeypatch.delenv("RUNLORE_HOME")
    assert run("demo").stdout == before


def test_the_demo_suggests_what_can_be_typed(
    run: Run, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.argv", ["/my venv/bin/runlore", "demo"])
    monkeypatch.setenv("PATH", str(home))
    assert "  '/my venv/bin/runlore' show latest:shop-api\n" in run("demo").stderr
    program = home / "runlore"
    program.touch(mode=0o700)
    assert "  runlore show latest:shop-api\n" in run("demo").stderr


def test_the_demo_keeps_out_of_a_real_store(run: Run, home: Path, tmp_path: Path) -> None:
    assert "your own store" in run("demo", "--home", str(home / ".runlore")).stderr
    elsewhere = tmp_path / "elsewhere"
    assert json.loads(run("demo", "--home", str(elsewhere), "--json").stdout)["home"] == str(
        elsewhere
    )
    with closing(open_store(str(elsewhere / "runlore.db"))) as store:
        source = Source(agent="toy", path="/real/a.jsonl", root="/real", size=1, mtime_ns=1)
        store.sources.touch(source, adapter_version=1, redact_version="")
    assert "a store of real sessions" in run("demo", "--home", str(elsewhere)).stderr


def test_the_demo_is_made_again_by_a_runlore_that_is_installed_elsewhere(
    run: Run, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers, original = [], demo.PACKAGED
    for n, gone in enumerate((False, True, False)):
        place = tmp_path / f"venv-{n}/lib/runlore/cli/demo"
        shutil.copytree(original, place)
        monkeypatch.setattr(demo, "PACKAGED", place)
        result = run("demo", "--json")
        assert result.exit_code == 0, result.stderr
        up.demo(config.load())()  # What `up` shows is the same one.
        with monkeypatch.context() as patch:
            patch.setenv("RUNLORE_HOME", str(home / ".runlore/demo"))
            rows = json.loads(run("ls", "--all-subagents", "--json").stdout)
        assert all(row["source_path"].startswith(str(place)) for row in rows)
        assert not any(row["source_missing_at"] for row in rows)
        answers.append((result.stdout, [(row["uid"], row["events"], row["usd"]) for row in rows]))
        if gone:
            shutil.rmtree(tmp_path / f"venv-{n}")
    assert answers[0] == answers[1] == answers[2]


# ── autostart ─────────────────────────────────────────────────────────────────────────────────────
WORDS = ["/opt/my python/bin/python3", "-m", "runlore", "sync"]


def test_systemd_gets_a_timer_and_a_service() -> None:
    job = autostart.make_job("linux", WORDS, 15, {"RUNLORE_HOME": "/a b/50%"})
    (service_path, service), (timer_path, timer) = job.files.items()
    assert service_path.endswith("systemd/user/runlore-sync.service")
    assert timer_path.endswith("systemd/user/runlore-sync.timer")
    assert 'ExecStart="/opt/my python/bin/python3" "-m" "runlore" "sync"\n' in service
    assert 'Environment="RUNLORE_HOME=/a b/50%%"\n' in service
    assert "OnUnitActiveSec=15min\n" in timer
    assert job.on[-1] == ["systemctl", "--user", "enable", "--now", "runlore-sync.timer"]


def test_launchd_gets_a_property_list() -> None:
    job = autostart.make_job("darwin", WORDS, 5, {"RUNLORE_STORE": "/s.db"})
    ((path, text),) = job.files.items()
    assert path.endswith("LaunchAgents/io.github.runlore.sync.plist")
    settings = plistlib.loads(text.encode())
    assert (settings["ProgramArguments"], settings["StartInterval"]) == (WORDS, 300)
    assert settings["EnvironmentVariables"] == {"RUNLORE_STORE": "/s.db"}


def test_the_task_scheduler_gets_one_command() -> None:
    job = autostart.make_job("win32", WORDS, 30, {})
    assert job.files == {}
    assert job.status[-1] == "/XML", "in no language but XML"
    assert job.on[0][-4:-1] == ["30", "/TR", '"/opt/my python/bin/python3" -m runlore sync']


def test_an_unknown_system_is_refused() -> None:
    with pytest.raises(RunloreError, match="does not know this system"):
        autostart.make_job("plan9", WORDS, 15, {})


class Manager:
    """Stands for the system's manager, which a test must not switch."""

    ON, OFF, STATUS = (
        {"enable", "bootstrap", "/Create"},
        {"disable", "bootout", "/Delete"},
        {"is-active", "print", "/Query"},
    )

    def __init__(self, refuses: str = "", tells: str = "") -> None:
        self.refuses, self.tells, self.steps, self.is_on = refuses, tells, list[list[str]](), False

    def __call__(self, words: list[str]) -> subprocess.CompletedProcess[str]:
        self.steps.append(words)
        if self.STATUS & set(words):
            return subprocess.CompletedProcess(words, 0 if self.is_on else 3, self.tells, "")
        if self.refuses:
            return subprocess.CompletedProcess(words, 1, "", self.refuses)
        if self.is_on and "bootstrap" in words:
            return subprocess.CompletedProcess(
                words, 5, "", "Bootstrap failed: 5: Input/output error\n"
            )
        self.is_on = (self.is_on or bool(self.ON & set(words))) and not self.OFF & set(words)
        return subprocess.CompletedProcess(words, 0, "", "")


@pytest.fixture
def linux(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.platform", "linux")


@pytest.mark.usefixtures("linux")
def test_autostart_is_switched_on_and_off(
    run: Run, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    manager = Manager()
    monkeypatch.setattr(autostart, "start", manager)
    folder = home / ".config/systemd/user"
    assert run("autostart", "status").stdout == "off\n"
    assert "every 20 minutes" in run("autostart", "on", "--every", "20").stderr
    assert sorted(path.name for path in folder.iterdir()) == [
        "runlore-sync.service",
        "runlore-sync.timer",
    ]
    assert json.loads(run("autostart", "status", "--json").stdout)["on"] is True
    assert run("autostart", "off").stdout == "off\n"
    assert not list(folder.iterdir())


@pytest.mark.usefixtures("linux")
def test_autostart_leaves_nothing_behind_when_it_is_refused(
    run: Run, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(autostart, "start", Manager("Failed to connect to bus\n"))
    result = run("autostart", "on")
    assert result.exit_code == 1
    assert result.stderr.startswith(
        "runlore: systemd refused: Failed to connect to bus; `crontab -e` with the line `*/15 * *"
        " * * "
    )
    assert result.stderr.endswith(
        " -m runlore sync` does the same, or leave `runlore sync --watch` running\n"
    )
    assert not (home / ".config").exists(), "no empty folder either"


@pytest.mark.usefixtures("linux")
def test_a_machine_without_a_manager_is_told_so(
    run: Run, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(home))
    assert run("autostart", "on").stderr.startswith(
        "runlore: systemctl is not on this machine; `crontab -e` with the line "
    )
    assert not (home / ".config/systemd").exists()


@pytest.mark.parametrize("platform", ["linux", "darwin"])
def test_autostart_twice_takes_the_new_interval(
    run: Run, home: Path, monkeypatch: pytest.MonkeyPatch, platform: str
) -> None:
    monkeypatch.setattr("sys.platform", platform)
    manager = Manager()
    monkeypatch.setattr(autostart, "start", manager)
    assert run("autostart", "on", "--every", "20").exit_code == 0
    manager.steps.clear()
    assert run("autostart", "on", "--every", "30").exit_code == 0
    words = [
        word
        for step in manager.steps
        for word in step
        if word in Manager.ON | Manager.OFF | {"daemon-reload"}
    ]
    assert (
        words
        == {"linux": ["disable", "daemon-reload", "enable"], "darwin": ["bootout", "bootstrap"]}[
            platform
        ]
    )
    data = json.loads(run("autostart", "status", "--json").stdout)
    assert (data["on"], data["every_minutes"]) == (True, 30)
    assert len(data["files"]) == {"linux": 2, "darwin": 1}[platform]
    data = json.loads(run("autostart", "off", "--json").stdout)
    assert (data["on"], data["every_minutes"], data["files"]) == (False, None, {})


@pytest.mark.parametrize(("interval", "minutes"), [("PT15M", 15), ("PT2H", 120), ("PT1H30M", 90)])
def test_the_task_scheduler_tells_how_often(
    run: Run, monkeypatch: pytest.MonkeyPatch, interval: str, minutes: int
) -> None:
    monkeypatch.setattr("sys.platform", "win32")
    manager = Manager(tells=f"<Repetition>\n<Interval>{interval}</Interval>\n</Repetition>")
    monkeypatch.setattr(autostart, "start", manager)
    assert json.loads(run("autostart", "status", "--json").stdout)["every_minutes"] is None
    run("autostart", "on")
    assert json.loads(run("autostart", "status", "--json").stdout)["every_minutes"] == minutes


@pytest.mark.usefixtures("linux")
def test_autostart_keeps_the_variables_that_agents_are_found_by(
    run: Run, toy: Toy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Toy, "roots", ("$TOY_DIR/logs", "$TOY_OTHER", "~/.toy"))
    monkeypatch.setenv("TOY_DIR", "/my toys")
    text = run("autostart", "on", "--dry-run").stdout
    assert 'Environment="TOY_DIR=/my toys"\n' in text
    assert "TOY_OTHER" not in text


@pytest.mark.usefixtures("linux")
def test_a_dry_run_of_autostart_prints_the_files(run: Run, home: Path) -> None:
    assert "OnUnitActiveSec=15min" in run("autostart", "on", "--dry-run").stdout
    assert not (home / ".config").exists()


# ── completion ────────────────────────────────────────────────────────────────────────────────────
@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_the_completion_script_is_for_runlore(run: Run, shell: str) -> None:
    assert "_RUNLORE_COMPLETE" in run("completion", shell).stdout


@pytest.mark.parametrize(
    ("words", "found"),
    [
        ("show al", "alpha"),
        ("show toy:be", "toy:beta"),
        ("resume lat", "latest"),
        ("ls --agent t", "toy"),
        ("forge", "forget"),
        ("show latest:t", "latest:toy"),
        ("show latest:al", "latest:alpha"),
        ("ls --repo b", "beta"),
    ],
)
def test_sessions_agents_and_commands_complete(
    run: Run, stored: Path, monkeypatch: pytest.MonkeyPatch, words: str, found: str
) -> None:
    monkeypatch.setenv("_RUNLORE_COMPLETE", "zsh_complete")
    monkeypatch.setenv("COMP_WORDS", f"runlore {words}")
    monkeypatch.setenv("COMP_CWORD", str(len(words.split())))
    assert found in run().stdout.replace("\\:", ":").split("\n")


def test_completion_without_a_store_is_silent(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("_RUNLORE_COMPLETE", "bash_complete")
    monkeypatch.setenv("COMP_WORDS", "runlore show a")
    monkeypatch.setenv("COMP_CWORD", "2")
    result = run()
    assert (result.stdout.strip(), result.stderr) == ("", "")


def test_a_demo_fits_beside_a_store_named_by_the_environment(
    run: Run, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RUNLORE_STORE", os.fspath(home / "mine.db"))
    text = run("demo").stderr
    assert (
        f"  export RUNLORE_STORE={home / '.runlore/demo/runlore.db'}\n  runlore show latest" in text
    )
    assert f"`export RUNLORE_STORE={home / 'mine.db'}` leads back" in text
