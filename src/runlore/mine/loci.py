"""The subjects of signals, as typed values.

A locus has a `key`: signals of one type with the same key are one pattern, and the key is part of
the pattern's id. Fields that are not part of the key describe the locus for the lesson that is
drafted from it.
"""

from __future__ import annotations

import msgspec

from .changes import Change


class Locus(msgspec.Struct, frozen=True):
    """The base of all loci."""

    @property
    def key(self) -> str:
        """Return the text that makes two loci the same."""
        raise NotImplementedError

    @property
    def error(self) -> str:
        """Return the fingerprint of the error this is about; an empty text if there is none."""
        return ""


class ErrorLocus(Locus, frozen=True):
    """An error, whichever tool, agent or repository printed it."""

    fingerprint: str
    template: str = ""
    """The error in words for people. Not part of the key."""

    @property
    def key(self) -> str:
        return self.fingerprint

    @property
    def error(self) -> str:
        return self.fingerprint


class ToolErrorLocus(Locus, frozen=True):
    """An error that a tool answers with.

    The tool is known by its action, because agents name their tools differently.
    """

    action: str
    fingerprint: str
    tool: str = ""
    """The agent's name of the tool. Not part of the key."""

    @property
    def key(self) -> str:
        return f"{self.action}\0{self.fingerprint}"

    @property
    def error(self) -> str:
        return self.fingerprint


class FlakyTestLocus(Locus, frozen=True):
    """A test that fails with this error and passes when it is run again."""

    fingerprint: str

    @property
    def key(self) -> str:
        return self.fingerprint

    @property
    def error(self) -> str:
        return self.fingerprint


class CommandLocus(Locus, frozen=True):
    """A command, by its program and subcommand (`commands.command_head`)."""

    head: str

    @property
    def key(self) -> str:
        return self.head


class FileLocus(Locus, frozen=True):
    """A file, by the last parts of its path (`commands.short_path`)."""

    path: str

    @property
    def key(self) -> str:
        return self.path


class ChangeLocus(Locus, frozen=True):
    """A change after which a call succeeded (`changes`), and what it is a change for."""

    change: Change
    topic: str = ""
    """The family of the error; empty if the change says enough by itself."""

    @property
    def key(self) -> str:
        return f"{self.change.key} | {self.topic}" if self.topic else self.change.key


class SkillLocus(Locus, frozen=True):
    """A skill of a live session."""

    name: str

    @property
    def key(self) -> str:
        return self.name


class WordsLocus(Locus, frozen=True):
    """A set of words. Loci that share most of their words become one pattern (`similarity`)."""

    words: frozenset[str]

    @property
    def key(self) -> str:
        return " ".join(sorted(self.words))


class SessionLocus(Locus, frozen=True):
    """An aspect of a session as a whole, such as its cost."""

    aspect: str

    @property
    def key(self) -> str:
        return self.aspect
