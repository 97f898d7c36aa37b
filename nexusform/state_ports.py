"""What nexusform asks of whoever keeps a state: bytes, a journal beside them, and a lock."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Protocol, runtime_checkable

from msgspec import Struct


class LockInfo(Struct, frozen=True):
    """Who holds a lock: JSON keys ID, Operation, Info, Who, Version, Created, Path and our own
    Host, Pid, Link (the CI job).
    """

    id: str
    operation: str
    who: str
    version: str
    created: str
    path: str
    host: str
    pid: int
    info: str = ""
    link: str = ""


class LockHeld(Exception):
    """Somebody else holds the lock."""

    def __init__(self, holder: LockInfo | None) -> None:
        super().__init__("the state is locked")
        self.holder = holder


class BackendProblem(Exception):
    """The backend cannot do what was asked; the message is for the user."""


class StateBackend(Protocol):
    """Where the state of one workspace lives: bytes, a journal beside them, and a lock."""

    def describe(self) -> str:
        """Where it is, for messages: a path or a URL."""
        ...

    def read(self) -> bytes | None:
        """The state document, None when there is none."""
        ...

    def write(self, document: bytes) -> None:
        """Replace the document atomically; the previous one is kept as a backup where the kind
        of backend can.
        """
        ...

    def append(self, record: bytes) -> None:
        """Add one record (one line, no newline inside) to the journal, durable on return."""
        ...

    def journal(self) -> list[bytes]:
        """All whole records since the last compaction; a torn last one is left out."""
        ...

    def compact(self, document: bytes, keep: Sequence[bytes] = ()) -> None:
        """Write the document, then empty the journal but for the records to `keep`.

        Only the lock's holder calls it. After a crash in between the journal holds the records to
        keep at least once, and all others either count or are in the document.
        """
        ...

    def lock(self, info: LockInfo) -> list[str]:
        """Take the lock or raise LockHeld. Returns warnings (a dead holder was replaced)."""
        ...

    def unlock(self, lock_id: str) -> None:
        """Give the lock back. Raises BackendProblem when the id is not the holder's."""
        ...

    def holder(self) -> LockInfo | None:
        """Who holds the lock now."""
        ...

    def force_unlock(self, lock_id: str) -> None:
        """Break the lock with this id. Raises BackendProblem when another or none is held."""
        ...

    def workspaces(self) -> list[str]:
        """Names of the workspaces that exist, "default" first, then by name."""
        ...

    def for_workspace(self, name: str) -> StateBackend:
        """The same place, another workspace."""
        ...

    def delete_workspace(self, name: str) -> None:
        """Remove a workspace's state."""
        ...


@runtime_checkable
class AppendsMany(Protocol):
    """A backend that can add several journal records with one flush; a kill keeps a prefix."""

    def append_all(self, records: Sequence[bytes]) -> None:
        """Add records in order, all durable on return."""
        ...


class StoredVersion(Struct, frozen=True):
    """An earlier state document: the id by which the backend knows it, and when it was written."""

    id: str
    written: str


@runtime_checkable
class KeepsHistory(Protocol):
    """A backend that keeps earlier documents."""

    def history(self) -> list[StoredVersion]:
        """The earlier documents, newest first; what stands now is not among them."""
        ...

    def read_version(self, version: str) -> bytes:
        """One of them by its id. Raises BackendProblem when it is gone."""
        ...


@runtime_checkable
class WantsCheckpoints(Protocol):
    """A backend whose journal does not outlive this machine: it wants the document now and then."""

    def checkpoint_due(self) -> bool:
        """Whether it is time for another one."""
        ...

    def checkpoint(self, document: bytes, records: Sequence[bytes]) -> None:
        """Replace the document in the middle of an apply.

        `records` are what the journal must still hold beside it: the intents without an outcome.
        """
        ...


SEALED_HEAD: Final = b'{"encryption":'


def is_sealed(document: bytes) -> bool:
    """Whether this is an encrypted document."""
    return document.startswith(SEALED_HEAD)


@runtime_checkable
class SealsDocuments(Protocol):
    """A backend that encrypts what another one, `inner`, keeps."""

    inner: StateBackend

    def is_outdated(self) -> bool:
        """Whether a document stands that was written with another method than is written with now."""
        ...

    def check(self) -> None:
        """Raise a BackendProblem when nothing could be written: no key is at hand."""
        ...

    def sealed(self, document: bytes) -> bytes:
        """A state document as this backend would store it. Raises BackendProblem."""
        ...
