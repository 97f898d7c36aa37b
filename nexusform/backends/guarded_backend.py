"""Backend for commands: it overwrites nothing unread, and its operations end.

Directly before the first write under a lock, journal or document, the state is read again. If it
differs from the one read before, nothing is written: an answer was wrong, or another process wrote
without the lock. On this machine this precedes each write of a document: a process with -lock=false
may write during an apply. Servers may return a written document in another form.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final, Protocol, TypeVar, runtime_checkable

import msgspec
from msgspec import Struct

from nexusform.files.run_log import log_event
from nexusform.interfaces.state_storage import (
    BackendProblem,
    BatchJournalBackend,
    CheckpointBackend,
    LockInfo,
    StateBackend,
    StateLocked,
    StoredStateVersion,
    VersionedBackend,
)

if TYPE_CHECKING:
    from nexusform.network.deadlines import DeadlineRunner

_UNREAD: Final = "unread"
_NO_DOCUMENT: Final = "nothing"
_Result = TypeVar("_Result")


@runtime_checkable
class LeaseLockBackend(Protocol):
    """Backend with a lock that expires unless it is renewed."""

    def check_lease(self) -> None:
        """Raise a BackendProblem if this process held the lock and lost it.

        It is lost if its lease ended or another process took it.
        """


def guard_backend(inner: StateBackend, *, is_remote: bool) -> StateBackend:
    """Return a backend never overwriting changes of other processes.

    A remote one has a deadline for each operation.
    """
    kind = (
        _GuardedVersionedBackend if isinstance(inner, VersionedBackend) else OverwriteGuardBackend
    )
    return kind(inner, is_remote=is_remote)


class OverwriteGuardBackend:
    """Guard around another backend; see the module docstring."""

    def __init__(self, inner: StateBackend, *, is_remote: bool) -> None:
        """Guard `inner`; calls of a remote one get a deadline, and check its lease.

        A remote backend without a lease gets only the deadline.
        """
        self.inner = inner
        self._is_remote = is_remote
        self._deadline: DeadlineRunner | None = None
        if is_remote:
            from nexusform.network.deadlines import DeadlineRunner

            check_lease = (
                inner.check_lease if isinstance(inner, LeaseLockBackend) else lambda: None
            )  # no lease
            self._deadline = DeadlineRunner(inner.describe, check_lease)
        # Digest of the document read or written last.
        self._known_digest = _UNREAD
        # Description of this document, for messages.
        self._known_description = ""
        # Whether the document was verified since the lock was acquired.
        self._has_verified = False

    def describe(self) -> str:
        """Return the location of the state."""
        return self.inner.describe()

    def read(self) -> bytes | None:
        """Return the state document, None if there is none."""
        document = self._run("read the state", self.inner.read)
        # Later, only our own writes change it.
        if not self._has_verified:
            self._record_known_state_document(document)
        return document

    def write(self, document: bytes) -> None:
        """Replace the document that was read."""
        self._verify_state_document_unchanged(replaces=True)
        self._run("write the state", lambda: self.inner.write(document), len(document))
        self._record_known_state_document(document)

    def append(self, record: bytes) -> None:
        """Add one record to the journal of the state that was read."""
        self.append_all([record])

    def append_all(self, records: Sequence[bytes]) -> None:
        """Add records in order, all durable on return."""
        from nexusform.backends.journal_lines import check_journal_records

        check_journal_records(records)
        # Else there is nothing to compare: an append overwrites nothing.
        if self._known_digest != _UNREAD:
            self._verify_state_document_unchanged()
        size = sum(map(len, records))
        self._run("write to the journal", lambda: self._append_journal_records(records), size)

    def read_journal(self) -> list[bytes]:
        """Return the records that are not in the document yet."""
        return self._run("read the journal", self.inner.read_journal)

    def move_foreign_journal(self) -> str:
        """Move a journal that continues another document to a file beside it.

        Return the path of that file, "" if there is no such journal.
        """
        return self._run("move the journal", self.inner.move_foreign_journal)

    def write_merged_state(self, document: bytes, keep: Sequence[bytes] = ()) -> None:
        """Replace the document that was read, then empty the journal except for records to keep."""
        self._verify_state_document_unchanged(replaces=True)
        size = len(document) + sum(map(len, keep))
        self._run("write the state", lambda: self.inner.write_merged_state(document, keep), size)
        self._record_known_state_document(document)

    def needs_checkpoint(self) -> bool:
        """Return whether it is time to write the document during an apply.

        Return False for a backend without checkpoints.
        """
        return isinstance(self.inner, CheckpointBackend) and self.inner.needs_checkpoint()

    def write_checkpoint(self, document: bytes, records: Sequence[bytes]) -> None:
        """Replace the document during an apply, in a backend with checkpoints.

        Only `records` stay in the journal.
        """
        self._verify_state_document_unchanged(replaces=True)
        inner = self.inner
        assert isinstance(inner, CheckpointBackend)
        self._run(
            "write the state", lambda: inner.write_checkpoint(document, records), len(document)
        )
        self._record_known_state_document(document)

    def lock(self, info: LockInfo) -> list[str]:
        """Acquire the lock or raise StateLocked.

        Return the warnings of the backend.
        """
        # Another process may have written before.
        self._has_verified = False
        return self._run("lock the state", lambda: self.inner.lock(info))

    def unlock(self, lock_id: str) -> None:
        """Release the lock."""
        # Another process may write from now on.
        self._has_verified = False
        self._run("unlock the state", lambda: self.inner.unlock(lock_id))

    def read_lock(self) -> LockInfo | None:
        """Return the holder of the lock."""
        return self._run("read the lock", self.inner.read_lock)

    def force_unlock(self, lock_id: str) -> None:
        """Break the lock with this id."""
        self._run("break the lock", lambda: self.inner.force_unlock(lock_id))

    def list_workspaces(self) -> list[str]:
        """Return the workspaces."""
        return self._run("list the workspaces", self.inner.list_workspaces)

    def select_workspace(self, name: str) -> StateBackend:
        """Return the backend of another workspace."""
        return guard_backend(self.inner.select_workspace(name), is_remote=self._is_remote)

    def delete_workspace(self, name: str) -> None:
        """Remove a workspace's state, with the lock held on it here."""
        self._run("delete the workspace", lambda: self.inner.delete_workspace(name))

    def _run(self, description: str, work: Callable[[], _Result], size: int = 0) -> _Result:
        """Run an operation on `size` bytes.

        A remote operation has a deadline, and its errors become a BackendProblem.
        """
        if self._deadline is None:
            # A local backend.
            return work()
        try:
            return self._deadline.run(description, work, size)
        except (BackendProblem, StateLocked):
            raise
        except Exception as problem:
            # Clients of services fail in many ways on answers of other servers.
            log_event("debug", "a client failed", what=description, problem=repr(problem))
            raise BackendProblem(
                f"Cannot {description} at {self.describe()}: the server's answer is incomplete or "
                f"invalid ({type(problem).__name__}). Check the server and the address."
            ) from problem

    def _append_journal_records(self, records: Sequence[bytes]) -> None:
        """Append records at once if the backend can, else one by one."""
        if isinstance(self.inner, BatchJournalBackend):
            self.inner.append_all(records)
            return
        for record in records:
            self.inner.append(record)

    def _record_known_state_document(self, document: bytes | None) -> None:
        self._known_digest = _compute_state_document_digest(document)
        self._known_description = _describe_state_document(document)

    def _verify_state_document_unchanged(self, *, replaces: bool = False) -> None:
        """Verify before the first write, and before each that `replaces`, that it is unchanged.

        Raises BackendProblem.
        """
        if self._has_verified and (self._is_remote or not replaces):
            return
        stored = self._run("read the state", self.inner.read)
        # This run has not read it.
        if self._known_digest == _UNREAD:
            if stored is not None:
                raise BackendProblem(
                    f"{self.describe()} contains {_describe_state_document(stored)}, which this "
                    "run has not "
                    "read. It was not overwritten."
                )
        elif _compute_state_document_digest(stored) != self._known_digest:
            raise BackendProblem(
                f"{self.describe()} now contains {_describe_state_document(stored)}; before, it "
                f"contained {self._known_description}. Another process wrote it without the lock, "
                "or the server's answer was wrong. It was not overwritten. Run the command again."
            )
        self._has_verified = True


class _GuardedVersionedBackend(OverwriteGuardBackend):
    """Guarded backend with earlier documents."""

    def list_versions(self) -> list[StoredStateVersion]:
        """Return the earlier documents, newest first."""
        inner = self.inner
        assert isinstance(inner, VersionedBackend)
        return self._run("list the history", inner.list_versions)

    def read_version(self, version: str) -> bytes:
        """Return an earlier document by its id.

        Raises BackendProblem if it is missing.
        """
        inner = self.inner
        assert isinstance(inner, VersionedBackend)
        return self._run("read the history", lambda: inner.read_version(version))


def _compute_state_document_digest(document: bytes | None) -> str:
    # Trailing line ends are irrelevant: s3 adds one when a lock is replaced.
    return _NO_DOCUMENT if document is None else hashlib.sha256(document.rstrip(b"\n")).hexdigest()


class _StateIdentity(Struct, frozen=True):
    """Identifying members of a state document; others are ignored."""

    lineage: str
    serial: int


def _describe_state_document(document: bytes | None) -> str:
    """Describe a document for a message: by lineage and serial, or by size if it is no state."""
    if document is None:
        return "no state"
    try:
        identity = msgspec.json.decode(document, type=_StateIdentity)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return f"a document of {len(document)} bytes"
    return f'the state with lineage "{identity.lineage}", serial {identity.serial}'
