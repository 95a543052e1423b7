"""One repository, one name: which sessions are of the same repository, and what it is called. Pure.

A name is learned from any session of a folder or of its worktrees, and holds for all of them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping

from ..store import SessionPlace
from ..text.remotes import is_repository
from .folders import Project, folders_above, normal_path, project_of

Git = Callable[[str], str | None]
"""Returns the name of a folder's repository, as git has it on this machine."""

_Key = tuple[str | None, str]
"""A machine, and a folder or a name there."""


def name_repositories(places: Iterable[SessionPlace], git: Git) -> dict[int, str | None]:
    """Return the names of repositories that differ from the stored ones, by number of session.

    The name of a folder is the first that is known: its remote on this machine; what git told a
    session of the folder or of a worktree; what was stored when the folder was still there; the
    repository of a pull request if it is called like the folder; that of a folder above; the name
    of the folder itself. In a folder that is no project's own, or whose sessions tell of several
    repositories, each session has the name that it tells.
    """
    names: dict[int, str | None] = {}
    folders: dict[tuple[str | None, Project], _Folder] = {}
    places = list(places)
    by_cwd: dict[_Key, list[SessionPlace]] = {}
    for place in places:
        if place.cwd is None:
            own = (place.recorded, place.linked, place.repo)
            names[place.number] = next(filter(None, map(valid, own)), None)
        else:
            by_cwd.setdefault((place.machine, place.cwd), []).append(place)
    known: dict[str | None, set[str]] = {}
    for machine, cwd in by_cwd:
        known.setdefault(machine, set()).add(normal_path(cwd))
    for (machine, cwd), some in by_cwd.items():
        project = project_of(cwd, known[machine])
        folders.setdefault((machine, project), _Folder(project)).places.extend(some)
    roots: dict[_Key, str] = {}
    for (machine, project), folder in folders.items():
        folder.learn(git if machine is None else None)
        if folder.name and "/" in folder.name and not project.is_common:
            roots[machine, project.root] = folder.name
    apart = _unique_names(roots)
    for (machine, _), folder in folders.items():
        names |= folder.name_sessions(machine, roots, apart)
    return {place.number: name for place in places if (name := names[place.number]) != place.repo}


def valid(name: str | None) -> str | None:
    """Return a name if it can be that of a repository, and not `.`, nothing or only a host."""
    return name if name and is_repository(name) else None


class _Folder:
    """The sessions of a folder and of its worktrees, and what they tell of its name."""

    def __init__(self, project: Project) -> None:
        self.project = project
        self.places: list[SessionPlace] = []
        self.name: str | None = None
        """The name of the repository for all sessions, if it is known."""

    def learn(self, git: Git | None) -> None:
        """Find the name, from git and from what the sessions tell and have."""
        here = self._ask(git) if git else None
        recorded = Counter(name for place in self.places if (name := valid(place.recorded)))
        linked = Counter(name for place in self.places if (name := valid(place.linked)))
        known = [place.repo for place in self.places if place.repo and _has_owner(place.repo)]
        stored = Counter(name for name in known if name not in recorded and name not in linked)
        own = {name: count for name, count in linked.items() if _is_called(name, self.project.name)}
        names = [here]
        if not self.project.is_common and (not recorded or _choose(recorded)):
            names += [_choose(recorded), _choose(stored), _choose(own)]
        elif not self.project.root and _choose(recorded):
            names.append(_choose(recorded))
        self.name = _best(names)

    def _ask(self, git: Git) -> str | None:
        """Return what git says of the folder, or of a worktree that is still there."""
        folders = dict.fromkeys([self.project.root, *sorted(p.cwd or "" for p in self.places)])
        return _best([git(folder) for folder in folders if folder])

    def name_sessions(
        self, machine: str | None, roots: Mapping[_Key, str], apart: Mapping[_Key, str]
    ) -> dict[int, str | None]:
        """Return the name of each session, by its number."""
        default = self.name or self._inherited(machine, roots, apart) or valid(self.project.name)
        return {
            place.number: self.name or valid(place.recorded) or self._stored(place) or default
            for place in self.places
        }

    def _inherited(
        self, machine: str | None, roots: Mapping[_Key, str], apart: Mapping[_Key, str]
    ) -> str | None:
        """Return the name that the folder has from another one."""
        if not self.project.root:
            return apart.get((machine, self.project.name.casefold()))
        above = folders_above(self.project.root)
        return next((roots[machine, root] for root in above if (machine, root) in roots), None)

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
    `host/name`."""
    owner, slash, _ = name.partition("/")
    return bool(slash) and "." not in owner and is_repository(name)
