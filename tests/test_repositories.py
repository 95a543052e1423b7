"""One repository has one name, whichever of its folders and worktrees a session was run in."""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from runlore import adapters, config
from runlore.files.git import git_remote
from runlore.store import Filter, SessionPlace, open_store
from runlore.sync import pipeline
from runlore.sync.folders import project_of
from runlore.sync.repositories import name_repositories
from runlore.text.remotes import remote_name


@pytest.mark.parametrize(
    ("url", "name"),
    [
        ("https://example.com/acme/shop.git", "acme/shop"),
        ("https://user:word@example.com:8443/acme/shop/", "acme/shop"),
        ("git@example.com:acme/shop.git", "acme/shop"),
        ("x:acme/shop.git", "acme/shop"),
        ("ssh://git@example.com:22/group/acme/shop", "acme/shop"),
        ("https://example.com/acme/_git/shop", "acme/shop"),
        ("https://example.com/shop", "shop"),
        ("/srv/git/shop.git", "shop"),
        ("../shop", "shop"),
        ("file:///srv/git/shop.git", "shop"),
        ("C:\\work\\shop", "shop"),
        ("https://example.com/..git", None),
        ("https://example.com", None),
        ("https://example.com/", None),
        ("git@example.com:.", None),
        ("..", None),
        (".", None),
        ("", None),
        ("https://example.com/a\x1b/b", None),
    ],
)
def test_a_remote_names_a_repository_and_never_a_host(url: str, name: str | None) -> None:
    assert remote_name(url) == name


@pytest.mark.parametrize(
    ("cwd", "root", "name"),
    [
        ("/home/ada/shop", "/home/ada/shop", "shop"),
        ("/home/ada/shop/", "/home/ada/shop", "shop"),
        ("/home/ada/shop/.claude/worktrees/brisk-otter-12ab", "/home/ada/shop", "shop"),
        ("/home/ada/shop/.claude/worktrees/2/web", "/home/ada/shop", "shop"),
        ("/home/ada/shop/.worktrees/fix", "/home/ada/shop", "shop"),
        ("/home/ada/shop/.some-worktrees/fix", "/home/ada/shop", "shop"),
        ("/home/ada/shop.worktrees/fix/web", "/home/ada/shop", "shop"),
        ("/home/ada/shop__worktrees/fix", "/home/ada/shop", "shop"),
        ("/home/ada/tool-worktrees/fix", "/home/ada/tool-worktrees/fix", "fix"),
        ("/home/ada/known-worktrees/fix", "/home/ada/known", "known"),
        ("/home/ada/known_worktrees/fix", "/home/ada/known", "known"),
        ("/home/ada/dev/shop/.conductor/oslo", "/home/ada/dev/shop", "shop"),
        ("/home/ada/.codex/worktrees/2/shop", "", "shop"),
        ("/home/ada/.codex/worktrees/f00d/shop/web", "", "shop"),
        ("/home/ada/.cursor/worktrees/shop/f00d", "", "shop"),
        ("/home/ada/.claude-worktrees/shop/brisk-otter", "", "shop"),
        ("/home/ada/conductor/workspaces/shop/oslo", "", "shop"),
        ("C:\\Users\\ada\\shop\\.claude\\worktrees\\x", "c:/Users/ada/shop", "shop"),
        ("c:/Users/ada/shop", "c:/Users/ada/shop", "shop"),
        ("/home/ada/worktrees", "/home/ada/worktrees", "worktrees"),
        ("/home/ada/shop/.claude/worktrees", "/home/ada/shop/.claude/worktrees", "worktrees"),
        ("/", "", ""),
    ],
)
def test_a_worktree_is_of_the_folder_that_it_belongs_to(cwd: str, root: str, name: str) -> None:
    assert project_of(cwd, known={"/home/ada/known"}) == (root, name)


def named(
    *places: tuple[str | None, str | None, str | None, str | None],
    git: dict[str, str] | None = None,
) -> list[str | None]:
    """The names of sessions, given cwd, stored name, told name, and that of a pull request. The
    order in which they were stored makes no difference, and neither does a second time."""
    found = [
        SessionPlace(number=number, cwd=cwd, repo=repo, recorded=told, linked=linked)
        for number, (cwd, repo, told, linked) in enumerate(places)
    ]
    ask = (git or {}).get
    changes = name_repositories(found, ask)
    for seed in range(5):
        shuffled = random.Random(seed).sample(found, len(found))
        assert name_repositories(shuffled, ask) == changes
    for place in found:
        place.repo = changes.get(place.number, place.repo)
    assert name_repositories(found, ask) == {}, "the second time changes nothing"
    return [place.repo for place in found]


SHOP = "/home/ada/dev/shop"


def test_what_one_session_tells_holds_for_all_of_the_folder_and_its_worktrees() -> None:
    assert named(
        (SHOP, "shop", None, None),
        (SHOP, "acme/shop", "acme/shop", None),
        (SHOP + "/.claude/worktrees/brisk-otter", "brisk-otter", None, None),
        (SHOP + ".worktrees/fix", "fix", None, None),
        ("/home/ada/dev/other", "other", None, None),
    ) == ["acme/shop"] * 4 + ["other"]


def test_a_folder_beside_a_known_one_may_hold_its_worktrees() -> None:
    beside = (SHOP + "-worktrees/fix", "fix", None, None)
    assert named(beside, (SHOP, None, "acme/shop", None)) == ["acme/shop", "acme/shop"]
    assert named(beside) == ["fix"]


def test_a_worktree_tells_the_name_of_its_repository() -> None:
    assert named(
        (SHOP, "shop", None, None), (SHOP + "/.worktrees/2", "acme/shop", "acme/shop", None)
    ) == ["acme/shop", "acme/shop"]


def test_a_worktree_that_lies_apart_has_the_name_of_the_one_repository_called_so() -> None:
    apart = "/home/ada/.codex/worktrees/2/shop"
    told = (SHOP, "shop", "acme/shop", None)
    assert named((apart, "shop", None, None), told) == ["acme/shop", "acme/shop"]
    other = ("/home/ada/old/shop", "shop", "globex/shop", None)
    assert named((apart, "2", None, None), told, other) == ["shop", "acme/shop", "globex/shop"]
    assert named((apart, None, None, None)) == ["shop"]


def test_a_pull_request_names_a_folder_that_is_called_like_its_repository() -> None:
    assert named((SHOP, "shop", None, None), (SHOP, "acme/shop", None, "acme/shop")) == [
        "acme/shop", "acme/shop",
    ]  # fmt: skip
    tasks = "/home/ada/work/tasks"
    assert named((tasks, "tasks", None, None), (tasks, "acme/shop", None, "acme/shop")) == [
        "tasks", "tasks",
    ]  # fmt: skip
    assert named((None, None, None, "acme/shop")) == ["acme/shop"]


def test_git_on_this_machine_knows_best() -> None:
    assert named((SHOP, "shop", "old/shop", None), git={SHOP: "acme/shop"}) == ["acme/shop"]
    assert named((SHOP, "shop", "acme/shop", None), git={SHOP: "shop"}) == ["acme/shop"]
    assert named((SHOP + "/.claude/worktrees/x", None, None, None), git={SHOP: "acme/shop"}) == [
        "acme/shop"
    ]
    assert named((SHOP + "/web", "web", None, None), git={SHOP + "/web": "shop"}) == ["shop"]


def test_what_git_said_while_the_folder_was_there_stays_and_holds_for_later_sessions() -> None:
    clone = "/home/ada/dev/clone"
    assert named((clone, "acme/shop", None, None), (clone, "clone", None, None)) == [
        "acme/shop", "acme/shop",
    ]  # fmt: skip


def test_a_folder_below_a_repository_is_of_it() -> None:
    assert named((SHOP, None, "acme/shop", None), (SHOP + "/web", "web", None, None)) == [
        "acme/shop", "acme/shop",
    ]  # fmt: skip
    assert named((SHOP, None, "acme/shop", None), (SHOP + "/lib", None, "acme/lib", None)) == [
        "acme/shop", "acme/lib",
    ]  # fmt: skip
    # Of a home that is a repository not everything is part.
    assert named(("/home/ada", None, "ada/dotfiles", None), (SHOP, None, None, None)) == [
        "ada/dotfiles", "shop",
    ]  # fmt: skip


def test_a_folder_has_the_name_of_one_above_only_as_long_as_that_has_it() -> None:
    web = (SHOP + "/web", "acme/shop", None, None)
    first, second = (SHOP, "acme/shop", None, "acme/shop"), (SHOP, None, "globex/shop", None)
    assert named(web, first, second) == ["globex/shop"] * 3
    several = [(SHOP, "acme/shop", "acme/shop", None), (SHOP, None, "acme/mill", None)]
    assert named(web, *several) == ["web", "acme/shop", "acme/mill"]
    lib = (SHOP + "/lib", "acme/lib", None, None)
    assert named(lib, first, second) == ["acme/lib", "globex/shop", "globex/shop"]
    local = (SHOP + "/web", "acme/shop", "shop", None)
    assert named(local, (SHOP, None, "acme/shop", None)) == ["shop", "acme/shop"]


def test_the_order_in_which_sessions_come_changes_no_name() -> None:
    folders = [SHOP, SHOP + "/web", SHOP + "/.worktrees/x", SHOP + ".worktrees/y", "/tmp"]
    folders += ["/home/ada/.codex/worktrees/2/shop", "/home/ada/dev/mill", "/home/ada"]
    names = [None, None, None, "acme/shop", "globex/shop", "mill", "acme/mill", "."]
    for seed in range(3000):
        dice = random.Random(seed)
        sessions = [
            (number, dice.choice(folders), dice.choice(names), dice.choice(names))
            for number in range(dice.randrange(2, 5))
        ]
        answers = []
        for order in (sessions, dice.sample(sessions, len(sessions))):
            places: list[SessionPlace] = []
            for number, cwd, told, linked in order:
                own = told if told and told != "." else project_of(cwd).name
                place = SessionPlace(number=number, cwd=cwd, repo=own, recorded=told, linked=linked)
                places.append(place)
                changes = name_repositories(places, lambda _: None, {cwd})
                for one in places:
                    one.repo = changes.get(one.number, one.repo)
            answers.append({place.number: place.repo for place in places})
        assert answers[0] == answers[1], seed


def test_an_owner_may_have_a_dot() -> None:
    docs = "/home/ada/dev/site"
    assert named((docs, "next.js/docs", None, None), (docs, None, None, None)) == [
        "next.js/docs", "next.js/docs",
    ]  # fmt: skip
    assert named((docs, "git.example.eu/docs", None, None)) == ["site"]


def test_a_folder_that_is_no_projects_own_teaches_nothing() -> None:
    assert named(
        ("/testbed", None, "acme/shop", None),
        ("/testbed", None, "acme/mill", None),
        ("/testbed", None, None, None),
        ("/tmp", "acme/shop", None, "acme/shop"),
        ("/tmp", None, None, None),
    ) == ["acme/shop", "acme/mill", "testbed", "tmp", "tmp"]


def test_a_folder_with_several_repositories_has_no_name_of_its_own() -> None:
    assert named(
        (SHOP, None, "acme/shop", None),
        (SHOP, None, "acme/mill", None),
        (SHOP, "shop", None, None),
    ) == ["acme/shop", "acme/mill", "shop"]


def test_a_repository_that_moved_to_another_owner_has_one_name() -> None:
    assert (
        named(
            (SHOP, None, "globex/shop", None),
            (SHOP, None, "acme/shop", None),
            (SHOP, None, "acme/shop", None),
        )
        == ["acme/shop"] * 3
    )


@pytest.mark.parametrize("nonsense", [".", "..", "", "example.com/.", "example.com/shop", "/"])
def test_what_is_no_name_is_not_one(nonsense: str) -> None:
    assert named((SHOP, nonsense, None, None)) == ["shop"]
    told = None if nonsense == "example.com/shop" else nonsense
    assert named((SHOP, "shop", told, told), (None, nonsense or None, told, None))[0] == "shop"


def test_folders_of_other_machines_are_not_looked_at() -> None:
    place = SessionPlace(number=1, cwd=SHOP, repo=None, machine="attic")
    assert name_repositories([place], {SHOP: "acme/shop"}.get) == {1: "shop"}


def test_a_path_is_data_and_is_never_opened(tmp_path: Path) -> None:
    assert project_of(str(tmp_path / "gone" / ".worktrees" / "x")).name == "gone"


# ── through a sync ────────────────────────────────────────────────────────────────────────────────
def claude(home: Path, name: str, cwd: str, pull: str | None = None) -> None:
    lines: list[dict[str, object]] = [
        {
            "type": "user", "uuid": f"{name}-1", "parentUuid": None, "sessionId": name, "cwd": cwd,
            "timestamp": "2026-03-02T09:00:00Z", "message": {"role": "user", "content": "hello"},
        },
    ]  # fmt: skip
    if pull is not None:
        url = f"https://example.com/{pull}/pull/7"
        more = {"prNumber": 7, "prUrl": url, "prRepository": pull}
        lines.append({"type": "pr-link", "sessionId": name, **more})
    write(home / ".claude/projects/p" / f"{name}.jsonl", lines)


def codex(home: Path, name: str, cwd: str, remote: str) -> None:
    time = "2026-03-02T09:00:00.000Z"
    about = {"id": name, "timestamp": time, "cwd": cwd, "git": {"repository_url": remote}}
    said = {"type": "user_message", "message": "hello"}
    lines: list[dict[str, object]] = [
        {"timestamp": time, "type": "session_meta", "payload": about},
        {"timestamp": time, "type": "event_msg", "payload": said},
    ]
    write(home / ".codex/sessions/2026/03/02" / f"rollout-2026-03-02T09-00-00-{name}.jsonl", lines)


def write(file: Path, lines: list[dict[str, object]]) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))


ID = "019cadc6-9a80-7000-8000-00000000000"
WORKTREE = SHOP + "/.claude/worktrees/brisk-otter"
STEPS: dict[str, Callable[[Path], None]] = {
    "a": lambda home: claude(home, "a", SHOP),
    "b": lambda home: claude(home, "b", WORKTREE),
    "c": lambda home: claude(home, "c", SHOP, pull="globex/shop"),
    "d": lambda home: codex(home, ID + "1", SHOP, "https://example.com/..git"),
    "e": lambda home: codex(home, ID + "2", SHOP, "https://example.com/acme/shop.git"),
}


@pytest.mark.parametrize("order", ["abcde", "edcba", "cadeb"])
def test_a_name_reaches_sessions_that_were_stored_before_it_was_known(
    home: Path, tmp_path: Path, order: str
) -> None:
    settings = config.load()
    with closing(open_store(str(tmp_path / "store.db"))) as store:
        for step in order:
            STEPS[step](home)
            pipeline.sync(store, settings)
        lines = store.sessions.select(Filter())
        assert {line.repo for line in lines} == {"acme/shop"}
        assert len(lines) == len(order)
        # A session that goes on keeps the name.
        with (home / ".claude/projects/p/b.jsonl").open("a") as file:
            file.write(
                '{"type":"user","uuid":"b-2","sessionId":"b","message":{"content":"more"},'
                f'"cwd":"{WORKTREE}"}}\n'
            )
        pipeline.sync(store, settings)
        assert {line.repo for line in store.sessions.select(Filter())} == {"acme/shop"}
        STEPS["d"](home)
        codex(home, ID + "3", "/home/ada/dev/mill", "https://example.com/..git")
        pipeline.sync(store, settings)
        assert {line.repo for line in store.sessions.select(Filter())} == {"acme/shop", "mill"}


def test_what_git_said_of_a_folder_that_is_gone_survives_a_newer_adapter(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clone = home / "dev" / "clone"
    (clone / ".git").mkdir(parents=True)
    (clone / ".git/config").write_text('[remote "origin"]\nurl = git@example.com:acme/shop.git\n')
    claude(home, "a", str(clone))
    with closing(open_store(str(tmp_path / "store.db"))) as store:
        pipeline.sync(store, config.load())
        shutil.rmtree(clone)
        claude(home, "b", str(clone))
        adapter = adapters.get("claude")
        monkeypatch.setattr(type(adapter), "version", adapter.version + 1)
        assert pipeline.sync(store, config.load()).found == {"outdated": 1, "new": 1}
        assert [line.repo for line in store.sessions.select(Filter())] == ["acme/shop"] * 2


def test_a_sync_that_is_killed_after_reading_leaves_names_that_fit_together(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for step in "ae":
        STEPS[step](home)
    monkeypatch.setattr("runlore.sync.ingest.COMMIT_BYTES", 1)
    monkeypatch.setattr(pipeline.SyncRun, "price", lambda self: 1 / 0)
    with closing(open_store(str(tmp_path / "store.db"))) as store:
        with pytest.raises(ZeroDivisionError):
            pipeline.sync(store, config.load())
        assert {line.repo for line in store.sessions.select(Filter())} == {"acme/shop"}


def test_names_fit_together_again_after_the_sync_that_follows_a_killed_one(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for step in "ae":
        STEPS[step](home)
    monkeypatch.setattr("runlore.sync.ingest.COMMIT_BYTES", 1)
    with closing(open_store(str(tmp_path / "store.db"))) as store:
        with monkeypatch.context() as killed:
            killed.setattr("runlore.sync.ingest.name_repositories", lambda *_: 1 / 0)
            with pytest.raises(ZeroDivisionError):
                pipeline.sync(store, config.load())
        assert {line.repo for line in store.sessions.select(Filter())} == {"shop", "acme/shop"}
        claude(home, "z", "/home/ada/dev/mill")
        pipeline.sync(store, config.load())
        names = sorted(line.repo or "" for line in store.sessions.select(Filter()))
        assert names == ["acme/shop", "acme/shop", "mill"]


def make_clone(folder: Path, url: str) -> str:
    (folder / ".git").mkdir(parents=True)
    (folder / ".git/config").write_text(f'[remote "origin"]\nurl = {url}\n')
    return str(folder)


def test_git_is_asked_about_the_folders_of_new_sessions_only(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folders = [
        make_clone(home / "dev" / name, f"git@example.com:acme/{name}.git") for name in "abcd"
    ]
    for name, folder in zip("abc", folders, strict=False):
        claude(home, name, folder)
    asked: list[str] = []

    def note(folder: Path) -> str | None:
        asked.append(str(folder))
        return git_remote(folder)

    monkeypatch.setattr("runlore.sync.places.git_remote", note)
    with closing(open_store(str(tmp_path / "store.db"))) as store:
        pipeline.sync(store, config.load())
        assert set(asked) == set(folders[:3])
        asked.clear()
        claude(home, "d", folders[3])
        pipeline.sync(store, config.load())
        assert asked == folders[3:]
        names = {line.repo for line in store.sessions.select(Filter())}
        assert names == {"acme/a", "acme/b", "acme/c", "acme/d"}


def test_git_is_asked_once_more_where_a_name_would_change_without_it() -> None:
    for told, stored, said in [
        ("old/shop", "acme/shop", "acme/shop"),  # Git on this machine knows best.
        (None, "shop", "shop"),  # A repository without a remote, and a folder below it.
    ]:
        place = SessionPlace(number=1, cwd=SHOP + "/web", repo=stored, recorded=told)
        above = SessionPlace(number=2, cwd=SHOP, repo="acme/all", recorded="acme/all")
        assert name_repositories([place, above], {SHOP + "/web": said}.get, new=()) == {}


def test_names_are_the_same_whether_git_is_asked_about_all_or_about_what_is_new() -> None:
    folders = [SHOP, SHOP + "/web", SHOP + "/.worktrees/x", "/home/ada/dev/mill", "/tmp"]
    folders += ["/home/ada/.codex/worktrees/2/shop", "/home/ada/dev/mill/lib"]
    for seed in range(400):
        dice = random.Random(seed)
        names = [None, None, None, "acme/shop", "old/shop", "mill", "acme/mill"]
        git = {folder: dice.choice(names) for folder in folders}
        some, every = list[SessionPlace](), list[SessionPlace]()
        for number in range(dice.randrange(2, 6)):
            cwd, told = dice.choice(folders), dice.choice(names)
            repo = git[cwd] or told or project_of(cwd).name
            for places, new in ((some, {cwd}), (every, None)):
                places.append(SessionPlace(number=number, cwd=cwd, repo=repo, recorded=told))
                changes = name_repositories(places, git.get, new)
                for place in places:
                    place.repo = changes.get(place.number, place.repo)
        assert [place.repo for place in some] == [place.repo for place in every], seed
