"""Everything runlore raises on purpose.

    RunloreError
    ├── ModelError (ValueError)        a value that breaks its own rules
    │   └── MissingField (TypeError)   a required field is not there
    ├── ConfigError                    config.toml or an environment variable cannot be used
    ├── ReadError                      a source cannot be read; the sync goes on with the next
    ├── StoreError                     the store cannot do what was asked
    │   ├── StoreMissing               there is none yet
    │   ├── StoreBusy                  another process is writing
    │   ├── StoreLost                  the database went away, or undid what was begun; it can be tried again
    │   └── StoreTooNew                made by a newer runlore
    ├── NotFound                       no session answers to that name
    ├── Ambiguous                      more than one session does
    └── LogError                       a live session log cannot do what was asked
        ├── SessionNotFound            no log has that id
        ├── InvalidId (ValueError)     an id that cannot name a session
        ├── SessionBusy                another process holds the session's lease
        │   └── LeaseLost              the lease was ours, and someone took it over
        ├── Conflict                   the log went on since the caller looked
        ├── IllegalTransition          a status that cannot follow the one before
        └── CheckpointError            a checkpoint is missing or damaged

The message says what failed, on what, and what to do about it, in one line: the command line prints it as it is. Programs get
`code`, which stays the same when the words change, and `hint`: what to try next. An error may bring a hint of its own.
"""


class RunloreError(Exception):
    """The root of the tree; catching it catches all of ours and nothing else."""

    code = "failed"
    hint: str | None = None


class ModelError(RunloreError, ValueError):
    """A value that breaks its own rules."""

    code = "invalid_value"


class MissingField(ModelError, TypeError):
    """A required field is not there."""

    code = "missing_field"


class ConfigError(RunloreError):
    """config.toml or an environment variable cannot be used."""

    code = "config"
    hint = "correct config.toml or the environment variable that the message names"


class ReadError(RunloreError):
    """A source cannot be read. Carries the source's path and the reason apart, for the summary."""

    code = "unreadable"
    hint = "the next sync tries it again"

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(f"{path}: {reason}")
        self.path = path
        self.reason = reason

    def __reduce__(self) -> tuple[type["ReadError"], tuple[str, str]]:
        return (ReadError, (self.path, self.reason))


class StoreError(RunloreError):
    """The store cannot do what was asked."""

    code = "store"
    hint = "`runlore doctor` looks at the store"


class StoreMissing(StoreError):
    """There is no store yet."""

    code = "no_store"
    hint = "run `runlore sync`"


class StoreBusy(StoreError):
    """Another process is writing."""

    code = "store_busy"
    hint = "try again in a moment; readers are never blocked"


class StoreLost(StoreError):
    """The database went away, or undid what was begun: nothing of it was kept, and it can be tried again."""

    code = "store_lost"
    hint = "try again; what was committed is safe"


class StoreTooNew(StoreError):
    """The store was made by a newer runlore."""

    code = "store_too_new"
    hint = "update runlore, or name another store in RUNLORE_STORE"


class NotFound(RunloreError):
    """No session answers to that name."""

    code = "not_found"
    hint = "`runlore sync` reads what is new; `runlore ls` lists what is stored"


class Ambiguous(RunloreError):
    """More than one session answers to that name."""

    code = "ambiguous"
    hint = "give more of the id"


class LogError(RunloreError):
    """A live session log cannot do what was asked."""

    code = "log"


class SessionNotFound(LogError):
    """No live session log has that id."""

    code = "session_not_found"
    hint = "`runlore live ls` lists live sessions"


class InvalidId(LogError, ValueError):
    """An id that cannot name a session: empty, too long, or with signs that could lead out of the store."""

    code = "invalid_id"
    hint = "letters, digits, dot, dash and underscore are safe in an id"


class SessionBusy(LogError):
    """Another process holds the session's lease. `owner` is the name to give when it is to be taken over."""

    code = "session_busy"
    hint = "wait for its owner, or take it over if that is gone"

    def __init__(self, message: str, owner: str | None = None) -> None:
        super().__init__(message)
        self.owner = owner


class LeaseLost(SessionBusy):
    """The lease was ours, and someone took it over: what this handle still wants to write is refused."""

    code = "lease_lost"
    hint = "open the session again"


class Conflict(LogError):
    """The log went on since the caller looked: `expected` is the last seq it knew, `actual` the last there is."""

    code = "conflict"
    hint = "read the session again, then try once more"

    def __init__(self, message: str, expected: int | None = None, actual: int | None = None) -> None:
        super().__init__(message)
        self.expected = expected
        self.actual = actual


class IllegalTransition(LogError):
    """A status that cannot follow the one before."""

    code = "illegal_transition"
    hint = "`runlore live state` shows the status"


class CheckpointError(LogError):
    """A checkpoint is missing or damaged, so that resuming from it would mean to start over unasked."""

    code = "checkpoint"
    hint = "`runlore live checkpoints` lists those that there are"
