"""A call that succeeded once an argument was quoted."""

from __future__ import annotations

from collections.abc import Sequence

from ..change_lessons import Situation, Words, draft_change, find_ends, mine_changes
from ..drafts import Draft, Group
from ..ends import End

__all__ = ["KIND", "draft", "find_ends", "mine"]

KIND = "quoted"

mine = mine_changes("quoted")


def draft(group: Group, ends: Sequence[End]) -> Draft | None:
    return draft_change(group, ends, KIND, _word)


def _word(situation: Situation) -> Words:
    char = situation.change.added
    return _WORDS.get(char) or Words(
        when=f"A word of a shell command has a bare {_name(char)} that the program is to get.",
        do=f"Put that word in single quotes: the shell takes {_name(char)} for itself otherwise.",
        avoid=f"Leaving a word with {_name(char)} without quotes.",
    )


def _name(char: str) -> str:
    return "backquote" if char == "`" else f"`{char}`"


_WORDS = {
    "glob": Words(
        when=(
            "A command line for zsh has a bare argument with `?`, `*` or `[` that is no file"
            " pattern: an address with a query (`gh api …?ref=main`), `--include=*.go`."
        ),
        do=(
            "Put that argument in single quotes, or in double ones if it has a variable. zsh looks"
            " for matching files itself and stops with `no matches found` before the program"
            " starts; bash would have passed it on."
        ),
        avoid="Leaving an address with `?`, or a pattern such as `--include=*.go`, without quotes.",
    ),
    "=": Words(
        when="A word of a command line for zsh begins with `=`, such as the separator `echo ===`.",
        do=(
            "Quote it (`echo '==='`), or use another separator. zsh replaces `=name` with the path"
            " of the program `name`. If there is none it says `== not found`, and the rest of the"
            " line is not run."
        ),
        avoid="Bare lines of `=` between the parts of one command.",
    ),
    "$": Words(
        when="A path in a shell command has a `$` in it, as files of routes have (`$id.tsx`).",
        do=(
            "Put the path in single quotes. The shell replaces `$id` with an empty text otherwise,"
            " and the program looks for a file of another name."
        ),
        avoid="Double quotes, in which `$` is replaced as well.",
    ),
}
