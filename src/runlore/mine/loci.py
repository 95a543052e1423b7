"""The subjects of signals, as typed values.

A locus has a `key`: signals of one type with the same key are one pattern, and the key is part of
the pattern's id. Fields that are not part of the key describe the locus for the lesson that is
drafted from it.
"""

from __future__ import annotations

from typing import Protocol

import msgspec

from .changes import Change


class Locus(Protocol):
    """The subject of a signal."""

    @property
    def key(self) -> str:
        """Return the text that makes two loci the same."""

    @property
    def error(self) -> str:
        """Return the fingerprint of the error this is about; an empty text if there is none."""


class AboutError(msgspec.Struct, frozen=True):
    """The base of loci about an error."""

    fingerprint: str

    @property
    def key(self) -> str:
        return self.fingerprint

    @property
    def error(self) -> str:
        return self.fingerprint


class AboutNoError(msgspec.Struct, frozen=True):
    """The base of loci about something else."""

    @property
    def error(self) -> str:
        return ""


class ErrorLocus(AboutError, frozen=True):
    """An error, whichever tool, agent or repository printed it."""

    template: str = ""
    """The error in words for people. Not part of the key."""


class ToolErrorLocus(AboutError, frozen=True, kw_only=True):
    """An error that a tool answers with.

    The tool is known by its action, because agents name their tools differently.
    """

    action: str
    tool: str = ""
    """The agent's name of the tool. Not part of the key."""

    @property
    def key(self) -> str:
        return f"{self.action}\0{self.fingerprint}"


class FlakyTestLocus(AboutError, frozen=True):
    """A test that fails with this error and passes when it is run again."""


class CommandLocus(AboutNoError, frozen=True):
    """A command, by its program and subcommand (`commands.command_head`)."""

    head: str

    @property
    def key(self) -> str:
        return self.head


class FileLocus(AboutNoError, frozen=True):
    """A file, by the last parts of its path (`commands.short_path`)."""

    path: str

    @property
    def key(self) -> str:
        return self.path


class ChangeLocus(AboutNoError, frozen=True):
    """A change after which a call succeeded (`changes`), and what it is a change for."""

    change: Change
    topic: str = ""
    """The family of the error; empty if the change says enough by itself."""

    @property
    def key(self) -> str:
        return f"{self.change.key} | {self.topic}" if self.topic else self.change.key


class SkillLocus(AboutNoError, frozen=True):
    """A skill of a live session."""

    name: str

    @property
    def key(self) -> str:
        return self.name


class WordsLocus(AboutNoError, frozen=True):
    """A set of words. Loci that share most of their words become one pattern (`similarity`)."""

    words: frozenset[str]

    @property
    def key(self) -> str:
        return " ".join(sorted(self.words))


class SessionLocus(AboutNoError, frozen=True):
    """An aspect of a session as a whole, such as its cost."""

    aspect: str

    @property
    def key(self) -> str:
        return self.aspect
