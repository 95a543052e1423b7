"""One repository, one name: group sessions by repository, and choose the name. Pure.

A name is learned from any session of a folder or of its worktrees, and holds for all of them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Container, Iterable, Mapping

from ..store import SessionPlace
from ..text.remotes import is_repository
from .folders import Project, folders_above, normal_path, project_of

Git = Callable[[str], str | None]
"""Returns the name of a folder's repository, as git has it on this machine."""

_Key = tuple[str | None, str]
"""A machine, and a folder or a name there."""


def name_repositories(
    places: Iterable[SessionPlace], git: Git, new: Container[str] | None = None
) -> dict[int, str | None]:
    """Return the names of repositories that differ from the stored ones, by number of session.

    The name of a folder is the first that is known: its remote on this machine; what git told a
    session of the folder or of a worktree; what was stored when the folder was still there; the
    repository of a pull request if it is called like the folder; that of a folder above; the name
    of the folder itself. In a folder that is no project's own, or whose sessions tell of several
    repositories, each session has the name that it tells.

    Git is asked about folders with a session in one of `new` (None for all), and about those that
    would get another name without it. For the others, what is stored is what git said before.
    """
    places = list(places)
    names: dict[int, str | None] = {}
    for place in places:
        if place.cwd is None:
            own = (place.recorded, place.linked, place.repo)
            names[place.number] = next(filter(None, map(valid, own)), None)
    folders = _group(places)
    undecided = [folder for folder in folders if new is None or folder.has_session_in(new)]
    for folder in folders:
        folder.learn()
    while True:
        for folder in undecided:
            folder.ask(git)
        roots = {
            (folder.machine, folder.project.root): folder.name
            for folder in folders
            if folder.name and "/" in folder.name and not folder.project.is_common
        }
        apart = _unique_names(roots)
        for folder in folders:
            names |= folder.name_sessions(roots, apart)
        undecided = [folder for folder in folders if folder.may_be_wrong(names)]
        if not undecided:
            break
    return {place.number: name for place in places if (name := names[place.number]) != place.repo}


def _group(places: Iterable[SessionPlace]) -> list[_Folder]:
    """Return the folders of repositories, with the sessions of each and of its worktrees."""
    by_cwd: dict[_Key, list[SessionPlace]] = {}
    known: dict[str | None, set[str]] = {}
    for place in places:
        if place.cwd is not None:
            by_cwd.setdefault((place.machine, place.cwd), []).append(place)
    for machine, cwd in by_cwd:
        known.setdefault(machine, set()).add(normal_path(cwd))
    folders: dict[tuple[str | None, Project], _Folder] = {}
    for (machine, cwd), some in by_cwd.items():
        project = project_of(cwd, known[machine])
        folders.setdefault((machine, project), _Folder(machine, project)).places.extend(some)
    stored: dict[_Key, set[str | None]] = {}
    for folder in folders.values():
        names = stored.setdefault((folder.machine, folder.project.root), set())
        names.update(name for place in folder.places for name in (place.repo, place.recorded))
    for folder in folders.values():
        for root in folders_above(folder.project.root):
            folder.above |= stored.get((folder.machine, root), set())
    return list(folders.values())


def valid(name: str | None) -> str | None:
    """Return a name if it can be that of a repository, and not `.`, nothing or only a host."""
    return name if name and is_repository(name) else None


class _Folder:
    """The sessions of a folder and of its worktrees, and what they tell of its name."""

    def __init__(self, machine: str | None, project: Project) -> None:
        self.machine, self.project = machine, project
        self.places: list[SessionPlace] = []
        self.name: str | None = None
        """The name of the repository for all sessions, if it is known."""
        self.above: set[str | None] = set()
        """The names of sessions in folders above. The folder may have them from there, and not keep
        them when these are called otherwise."""
        self._is_asked = machine is not None  # Those of other machines are not here.

    def has_session_in(self, cwds: Container[str]) -> bool:
        return any(place.cwd in cwds for place in self.places)

    def may_be_wrong(self, names: Mapping[int, str | None]) -> bool:
        """Return True if sessions get other names, and git may know better."""
        return not self._is_asked and any(names[one.number] != one.repo for one in self.places)

    def learn(self) -> None:
        """Find the name, from what the sessions tell and have."""
        self.name = _best(self._names())

    def ask(self, git: Git) -> None:
        """Find the name, also from git: of the folder, or of a worktree that is still there."""
        if not self._is_asked:
            self._is_asked = True
            folders = dict.fromkeys([self.project.root, *sorted(p.cwd or "" for p in self.places)])
            here = _best([git(folder) for folder in folders if folder])
            self.name = _best([here, *self._names()])

    def _names(self) -> list[str | None]:
        recorded = Counter(name for place in self.places if (name := valid(place.recorded)))
        linked = Counter(name for place in self.places if (name := valid(place.linked)))
        known = [place.repo for place in self.places if place.repo and _has_owner(place.repo)]
        others = self.above.union(recorded, linked)
        stored = Counter(name for name in known if name not in others)
        own = {name: count for name, count in linked.items() if _is_called(name, self.project.name)}
        if not self.project.is_common and (not recorded or _choose(recorded)):
            return [_choose(recorded), _choose(stored), _choose(own)]
        return [] if self.project.root else [_choose(recorded)]

    def name_sessions(
        self, roots: Mapping[_Key, str], apart: Mapping[_Key, str]
    ) -> dict[int, str | None]:
        """Return the name of each session, by its number."""
        default = self.name or self._inherited(roots, apart) or valid(self.project.name)
        return {
            place.number: self.name or valid(place.recorded) or self._stored(place) or default
            for place in self.places
        }

    def _inherited(self, roots: Mapping[_Key, str], apart: Mapping[_Key, str]) -> str | None:
        """Return the name that the folder has from another one."""
        if not self.project.root:
            return apart.get((self.machine, self.project.name.casefold()))
        above = ((self.machine, root) for root in folders_above(self.project.root))
        return next((roots[key] for key in above if key in roots), None)

    def _stored(self, place: SessionPlace) -> str | None:
        """Return the stored name of a session in a folder that is no project's own."""
        is_own = self.project.root and self.project.is_common and place.repo != place.linked
        return place.repo if is_own and place.repo and _has_owner(place.repo) else None


def _best(names: Iterable[str | None]) -> str | None:
    """Return the first name with an owner, else the first."""
    known = [name for name in names if name]
    return next((name for name in known if "/" in name), known[0] if known else None)


def _choose(names: Mapping[str, int]) -> str | None:
    """Return the name that most sessions have, with an owner if one has any. None if they are of
    several repositories."""
    if len({name.rpartition("/")[2].casefold() for name in names}) != 1:
        return None
    return max(names, key=lambda name: ("/" in name, names[name], name))


def _unique_names(roots: Mapping[_Key, str]) -> dict[_Key, str]:
    """Return names by machine and by what follows their last slash, where it is that of one
    only."""
    found: dict[_Key, set[str]] = {}
    for (machine, _), name in roots.items():
        found.setdefault((machine, name.rpartition("/")[2].casefold()), set()).add(name)
    return {key: next(iter(names)) for key, names in found.items() if len(names) == 1}


def _is_called(name: str, folder: str) -> bool:
    return name.rpartition("/")[2].casefold() == folder.casefold()


def _has_owner(name: str) -> bool:
    """Return True if a name has an owner, which is no host: older versions stored
    `host/name`. An owner may have a dot, as in `next.js/docs`."""
    owner, slash, _ = name.partition("/")
    is_host = owner.count(".") > 1 or owner.casefold().endswith(_HOST_ENDS)
    return bool(slash) and not is_host and is_repository(name)


_HOST_ENDS = (".com", ".org", ".net", ".dev", ".local", ".lan", ".internal")
