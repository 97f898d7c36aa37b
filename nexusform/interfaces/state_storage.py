"""Interfaces of state storage: the state document, a journal and a lock."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Protocol, runtime_checkable

from msgspec import Struct


class LockInfo(Struct, frozen=True):
    """Holder of a lock: Terraform's JSON keys and our own Host, Pid, Link (the CI job)."""

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


class StateLocked(Exception):
    """State lock error, with its holder."""

    def __init__(self, holder: LockInfo | None) -> None:
        super().__init__("the state is locked")
        self.holder = holder


class BackendProblem(Exception):
    """Operation that the backend cannot complete; the message is for the user."""


class StateBackend(Protocol):
    """Storage of one workspace's state: bytes, a journal and a lock."""

    def describe(self) -> str:
        """Describe the location for messages: a path or a URL."""

    def read(self) -> bytes | None:
        """Read the state document; None if there is none."""

    def write(self, document: bytes) -> None:
        """Write the document atomically.

        The previous one is kept as a backup if the backend supports it.
        """

    def append(self, record: bytes) -> None:
        """Append one record (one line, no newline inside) to the journal, durable on return."""

    def read_journal(self) -> list[bytes]:
        """Read all records not in the document yet.

        A last record cut off by a crash is ignored.
        """

    def move_foreign_journal(self) -> str:
        """Move a journal that continues another document to a file beside it.

        Return the path of that file, "" if there is no such journal. Only the holder of the
        lock calls this.
        """

    def write_merged_state(self, document: bytes, keep: Sequence[bytes] = ()) -> None:
        """Write the document, then clear the journal except for the records to `keep`.

        Only the holder of the lock calls this. A crash in between loses no record: each is in the
        document, or in the journal at least once.
        """

    def lock(self, info: LockInfo) -> list[str]:
        """Lock the state or raise StateLocked.

        Return warnings (a dead holder was replaced).
        """

    def unlock(self, lock_id: str) -> None:
        """Release the lock.

        Raises BackendProblem for another holder's id.
        """

    def read_lock(self) -> LockInfo | None:
        """Return the current holder of the lock; None if it is free."""

    def force_unlock(self, lock_id: str) -> None:
        """Remove the lock with this id.

        Raises BackendProblem if the id differs or there is no lock.
        """

    def list_workspaces(self) -> list[str]:
        """List the names of existing workspaces, "default" first, then by name."""

    def select_workspace(self, name: str) -> StateBackend:
        """Return the same storage for another workspace."""

    def delete_workspace(self, name: str) -> None:
        """Delete a workspace's state.

        The lock's holder deletes its own workspace; its lock ends with it, and is not released.
        """


@runtime_checkable
class BatchJournalBackend(Protocol):
    """Backend that can append several journal records with one flush; a kill keeps a prefix."""

    def append_all(self, records: Sequence[bytes]) -> None:
        """Append records in order, all durable on return."""


class StoredStateVersion(Struct, frozen=True):
    """Earlier state document: its id at the backend, and its time."""

    id: str
    written_at: str


@runtime_checkable
class VersionedBackend(Protocol):
    """Backend that keeps earlier documents."""

    def list_versions(self) -> list[StoredStateVersion]:
        """List the earlier documents, newest first, without the current one."""

    def read_version(self, version: str) -> bytes:
        """Read an earlier document by its id.

        Raises BackendProblem if it is missing.
        """


@runtime_checkable
class CheckpointBackend(Protocol):
    """Backend with a journal on this machine only: it needs the document at intervals."""

    def needs_checkpoint(self) -> bool:
        """Check whether the document is to be written during an apply, since the last is old."""

    def write_checkpoint(self, document: bytes, records: Sequence[bytes]) -> None:
        """Replace the document during an apply.

        Only `records`, the steps in progress, remain of the journal.
        """


@runtime_checkable
class WarningBackend(Protocol):
    """Backend that may be unable to notice that what it has read is wrong."""

    def list_warnings(self) -> list[str]:
        """Return the warnings of the reads and writes so far."""


def list_backend_warnings(backend: object) -> list[str]:
    """Return the warnings of a backend, or of the one that it wraps (`inner`)."""
    while not isinstance(backend, WarningBackend):
        backend = getattr(backend, "inner", None)
        if backend is None:
            return []
    return backend.list_warnings()


ENCRYPTED_PREFIX: Final = b'{"encryption":'


def is_encrypted(document: bytes) -> bool:
    """Check whether this is an encrypted document."""
    return document.startswith(ENCRYPTED_PREFIX)


@runtime_checkable
class EncryptingBackend(Protocol):
    """Backend that encrypts the documents of another one, `inner`."""

    inner: StateBackend

    def is_outdated(self) -> bool:
        """Check whether an existing document has another encryption method than configured."""

    def check(self) -> None:
        """Check that a key is available for writing; raise BackendProblem otherwise."""

    def encrypt_document(self, document: bytes) -> bytes:
        """Encrypt a state document as stored by this backend.

        Raises BackendProblem.
        """
