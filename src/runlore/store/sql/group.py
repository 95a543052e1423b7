"""The state of the group of batches that is being put, shared by several parts of a store."""

from __future__ import annotations

from collections.abc import Set

from ..known import Known


class PutGroup:
    """The group of batches that is being put, if any."""

    def __init__(self) -> None:
        self.known: Known | None = None
        self.unread: Set[int] = frozenset()
        """Sessions of a source that is read anew which this reading has not come to yet: what is
        stored of them is from an earlier reading."""

    def forget(self) -> None:
        """Ask the database anew for the batches still to be put, because something was written
        that no plan knows of."""
        if self.known is not None:
            self.known.forget()

    def forget_source(self, agent: str, path: str) -> None:
        """Forget the batches of a source that will not be put, and ask anew for the others."""
        if self.known is not None:
            self.known.pending = {
                key: batch
                for key, batch in self.known.pending.items()
                if (batch.source.agent, batch.source.path) != (agent, path)
            }
        self.forget()

    # As a `Pending` part of a transaction.
    def flush(self) -> None:
        """There is nothing to write."""

    def clear(self) -> None:
        self.forget()
