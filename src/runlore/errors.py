"""Everything that runlore raises on purpose.

    RunloreError
    ├── ModelError (ValueError)        a value breaks its own rules
    │   └── MissingField (TypeError)   a required field is missing
    ├── ConfigError                    config.toml or an environment variable is invalid
    ├── ReadError                      a source cannot be read; the sync continues with the next
    │   └── Rejected                   a source exceeds a limit; it is not tried unchanged again
    ├── StoreError                     the store cannot do what was requested
    │   ├── StoreMissing               there is no store yet
    │   ├── StoreBusy                  another process is writing
    │   ├── StoreLost                  the connection was lost, or a transaction undone; retry
    │   ├── StoreTooNew                the store was made by a newer runlore
    │   └── StoreTooOld                the store was made before the first release
    ├── NotFound                       nothing in the store has that name
    ├── Ambiguous                      several sessions or lessons have that name
    └── LogError                       a live session log cannot do what was requested
        ├── SessionNotFound            no live session has that id
        ├── InvalidId (ValueError)     the id cannot name a session
        ├── SessionBusy                another process holds the session's lease or its log's lock
        │   └── LeaseLost              another process took over our lease
        ├── Conflict                   the log has grown since the caller read it
        ├── IllegalTransition          a status cannot follow the one before
        └── CheckpointError            a checkpoint is missing or damaged

The query language adds QueryError, the MCP server BadArguments and BadCursor. All derive directly
from RunloreError.

A message says in one line what failed, on what, and what to do; the command line prints it
unchanged. Programs use `code`, which does not change with the words, and `hint`, the next thing to
try. An error may have a hint of its own.
"""


class RunloreError(Exception):
    """The base of all errors that runlore raises on purpose."""

    code = "failed"
    hint: str | None = None


class ModelError(RunloreError, ValueError):
    """A value breaks its own rules."""

    code = "invalid_value"


class MissingField(ModelError, TypeError):
    """A required field is missing."""

    code = "missing_field"


class ConfigError(RunloreError):
    """config.toml or an environment variable is invalid."""

    code = "config"
    hint = "correct config.toml or the environment variable that the message names"


class ReadError(RunloreError):
    """A source cannot be read. `path` and `reason` are also available separately."""

    code = "unreadable"
    hint = "the next sync tries it again"

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(f"{path}: {reason}")
        self.path = path
        self.reason = reason

    def __reduce__(self) -> tuple[type["ReadError"], tuple[str, str]]:
        return (type(self), (self.path, self.reason))


class Rejected(ReadError):
    """A source exceeds a limit that no real one comes near. It is read again when it, or its
    adapter, has changed."""

    code = "rejected"
    hint = "it is read again when it has changed"


class StoreError(RunloreError):
    """The store cannot do what was requested."""

    code = "store"
    hint = "run `runlore doctor` to check the store"


class StoreMissing(StoreError):
    """There is no store yet."""

    code = "no_store"
    hint = "run `runlore sync`"


class StoreBusy(StoreError):
    """Another process is writing."""

    code = "store_busy"
    hint = "try again in a moment; readers are never blocked"


class StoreLost(StoreError):
    """The connection to the database was lost, or it undid the transaction. Nothing was written."""

    code = "store_lost"
    hint = "try again; what was committed is safe"


class StoreTooNew(StoreError):
    """The store was made by a newer runlore."""

    code = "store_too_new"
    hint = "update runlore, or name another store in RUNLORE_STORE"


class StoreTooOld(StoreError):
    """The store was made by a development version, before the first release."""

    code = "store_too_old"
    hint = "move the store away, keep it, and run `runlore sync`; or name another in RUNLORE_STORE"


class NotFound(RunloreError):
    """Nothing in the store has that name: no session, event, lesson or error."""

    code = "not_found"
    hint = "`runlore sync` reads what is new; `runlore ls` lists what is stored"


class Ambiguous(RunloreError):
    """Several sessions or lessons have that name."""

    code = "ambiguous"
    hint = "give more of the id"


class LogError(RunloreError):
    """A live session log cannot do what was requested."""

    code = "log"


class SessionNotFound(LogError):
    """No live session has that id."""

    code = "session_not_found"
    hint = "`runlore live ls` lists live sessions"


class InvalidId(LogError, ValueError):
    """The id cannot name a session: it is empty, too long, or could lead out of the store."""

    code = "invalid_id"
    hint = "use letters, digits, dots, dashes and underscores"


class SessionBusy(LogError):
    """Another process holds the session's lease, or does not release the lock of its log.

    `owner` names the holder of the lease, for a takeover.
    """

    code = "session_busy"
    hint = "wait for its owner, or take the session over if the owner is gone"

    def __init__(self, message: str, owner: str | None = None) -> None:
        super().__init__(message)
        self.owner = owner


class LeaseLost(SessionBusy):
    """Another process took over our lease. Further writes of this handle are refused."""

    code = "lease_lost"
    hint = "open the session again"


class Conflict(LogError):
    """The log has grown since the caller read it.

    `expected` is the last seq that the caller knew, `actual` the last one in the log.
    """

    code = "conflict"
    hint = "read the session again, then retry"

    def __init__(
        self, message: str, expected: int | None = None, actual: int | None = None
    ) -> None:
        super().__init__(message)
        self.expected = expected
        self.actual = actual


class IllegalTransition(LogError):
    """A status cannot follow the one before."""

    code = "illegal_transition"
    hint = "`runlore live state` shows the status"


class CheckpointError(LogError):
    """A checkpoint is missing or damaged. Resuming without it would start over."""

    code = "checkpoint"
    hint = "`runlore live checkpoints` lists the checkpoints"
