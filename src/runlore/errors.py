"""Everything runlore raises on purpose.

    RunloreError
    ├── ModelError (ValueError)        a value that breaks its own rules
    │   └── MissingField (TypeError)   a required field is not there
    ├── ConfigError                    config.toml or an environment variable cannot be used
    ├── ReadError                      a source cannot be read; the sync goes on with the next
    ├── StoreError                     the store cannot do what was asked
    │   ├── StoreBusy                  another process is writing
    │   └── StoreTooNew                made by a newer runlore
    ├── NotFound                       no session answers to that name
    └── Ambiguous                      more than one session does

The message says what failed, on what, and what to do about it, in one line: the command line prints it as it is.
"""


class RunloreError(Exception):
    """The root of the tree; catching it catches all of ours and nothing else."""


class ModelError(RunloreError, ValueError):
    """A value that breaks its own rules."""


class MissingField(ModelError, TypeError):
    """A required field is not there."""


class ConfigError(RunloreError):
    """config.toml or an environment variable cannot be used."""


class ReadError(RunloreError):
    """A source cannot be read. Carries the source's path and the reason apart, for the summary."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(f"{path}: {reason}")
        self.path = path
        self.reason = reason

    def __reduce__(self) -> tuple[type["ReadError"], tuple[str, str]]:
        return (ReadError, (self.path, self.reason))


class StoreError(RunloreError):
    """The store cannot do what was asked."""


class StoreBusy(StoreError):
    """Another process is writing."""


class StoreTooNew(StoreError):
    """The store was made by a newer runlore."""


class NotFound(RunloreError):
    """No session answers to that name."""


class Ambiguous(RunloreError):
    """More than one session answers to that name."""
