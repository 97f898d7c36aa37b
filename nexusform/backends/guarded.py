"""A backend as commands see it: it writes over nothing that was not read, and it comes to an end.

Directly before the first write under a lock, journal or document, the state is read once more. When it is
another one than was read before, nothing is written: an answer was wrong, or somebody wrote without the lock.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from typing import Final, Protocol, TypeVar, runtime_checkable

import msgspec
from msgspec import Struct

from nexusform.backends.deadlines import Deadline
from nexusform.backends.journal_lines import check_records
from nexusform.log import log
from nexusform.state_ports import (
    AppendsMany,
    BackendProblem,
    KeepsHistory,
    LockHeld,
    LockInfo,
    StateBackend,
    StoredVersion,
    WantsCheckpoints,
)

_UNREAD: Final = "unread"
_NOTHING: Final = "nothing"
_Result = TypeVar("_Result")


@runtime_checkable
class HoldsLease(Protocol):
    """A backend whose lock runs out unless it is renewed."""

    def check_lease(self) -> None:
        """Raise a BackendProblem when the lock was held and is lost."""
        ...


def guarded(inner: StateBackend, *, is_remote: bool) -> StateBackend:
    """A backend that is seen so; a remote one has a deadline for each operation."""
    kind = _GuardedWithHistory if isinstance(inner, KeepsHistory) else GuardedBackend
    return kind(inner, is_remote=is_remote)


class GuardedBackend:
    """Another backend; see the module."""

    def __init__(self, inner: StateBackend, *, is_remote: bool) -> None:
        self.inner = inner
        self._is_remote = is_remote
        lease = inner.check_lease if isinstance(inner, HoldsLease) else lambda: None
        self._deadline = Deadline(inner.describe, lease)
        self._seen = _UNREAD  # what was read or written last
        self._seen_in_words = ""
        self._has_begun = False  # to write since the lock was taken

    def describe(self) -> str:
        """Where the state is."""
        return self.inner.describe()

    def read(self) -> bytes | None:
        """The state document, None when there is none."""
        document = self._read()
        if not self._has_begun:
            self._see(document)
        return document

    def write(self, document: bytes) -> None:
        """Replace the document that was read."""
        self._begin()
        self._within("write the state", lambda: self.inner.write(document), len(document))
        self._see(document)

    def append(self, record: bytes) -> None:
        """Add one record to the journal of the state that was read."""
        self.append_all([record])

    def append_all(self, records: Sequence[bytes]) -> None:
        """Add records in order, all durable on return."""
        check_records(records)
        if self._seen != _UNREAD:  # a journal is never written over
            self._begin()
        size = sum(map(len, records))
        self._within("write to the journal", lambda: self._append_all(records), size)

    def journal(self) -> list[bytes]:
        """The records that are not in the document yet."""
        return self._within("read the journal", self.inner.journal)

    def compact(self, document: bytes, keep: Sequence[bytes] = ()) -> None:
        """Replace the document that was read, then empty the journal but for what is to be kept."""
        self._begin()
        size = len(document) + sum(map(len, keep))
        self._within("write the state", lambda: self.inner.compact(document, keep), size)
        self._see(document)

    def checkpoint_due(self) -> bool:
        """Whether the inner backend wants the document now."""
        return isinstance(self.inner, WantsCheckpoints) and self.inner.checkpoint_due()

    def checkpoint(self, document: bytes, records: Sequence[bytes]) -> None:
        """Give the inner backend the document in the middle of an apply."""
        self._begin()
        inner = self.inner
        assert isinstance(inner, WantsCheckpoints)
        self._within("write the state", lambda: inner.checkpoint(document, records), len(document))
        self._see(document)

    def lock(self, info: LockInfo) -> list[str]:
        """Take the lock or raise LockHeld."""
        self._has_begun = False
        return self._within("lock the state", lambda: self.inner.lock(info))

    def unlock(self, lock_id: str) -> None:
        """Give the lock back."""
        self._has_begun = False
        self._within("unlock the state", lambda: self.inner.unlock(lock_id))

    def holder(self) -> LockInfo | None:
        """Who holds the lock now."""
        return self._within("look at the lock", self.inner.holder)

    def force_unlock(self, lock_id: str) -> None:
        """Break the lock with this id."""
        self._within("break the lock", lambda: self.inner.force_unlock(lock_id))

    def workspaces(self) -> list[str]:
        """The workspaces that there are."""
        return self._within("list the workspaces", self.inner.workspaces)

    def for_workspace(self, name: str) -> StateBackend:
        """The same place, another workspace."""
        return guarded(self.inner.for_workspace(name), is_remote=self._is_remote)

    def delete_workspace(self, name: str) -> None:
        """Remove a workspace's state."""
        self._within("delete the workspace", lambda: self.inner.delete_workspace(name))

    # --- how ---------------------------------------------------------------------------------

    def _within(self, what: str, work: Callable[[], _Result], size: int = 0) -> _Result:
        if not self._is_remote:
            return work()
        try:
            return self._deadline.within(what, work, size)
        except (BackendProblem, LockHeld):
            raise
        except Exception as problem:
            # Clients of services stumble in many ways over answers of somebody else.
            log("debug", "a client failed", what=what, problem=repr(problem))
            raise BackendProblem(
                f"Cannot {what} at {self.describe()}: the server's answer broke off or cannot be understood "
                f"({type(problem).__name__}). Is the server well, and is that the address of such a service?"
            ) from problem

    def _read(self) -> bytes | None:
        return self._within("read the state", self.inner.read)

    def _append_all(self, records: Sequence[bytes]) -> None:
        if isinstance(self.inner, AppendsMany):
            self.inner.append_all(records)
            return
        for record in records:
            self.inner.append(record)

    def _see(self, document: bytes | None) -> None:
        self._seen = _digest(document)
        self._seen_in_words = _in_words(document)

    def _begin(self) -> None:
        """Before the first write: raise a BackendProblem unless what stands is what was read."""
        if self._has_begun:
            return
        standing = self._read()
        if self._seen == _UNREAD:
            if standing is not None:
                raise BackendProblem(
                    f"{self.describe()} holds {_in_words(standing)}, which was not read. It was not written "
                    "over."
                )
        elif _digest(standing) != self._seen:
            raise BackendProblem(
                f"{self.describe()} holds {_in_words(standing)} now, and {self._seen_in_words} was read "
                "before. Somebody wrote it without the lock, or the server answered wrongly. It was not "
                "written over. Run the command again."
            )
        self._has_begun = True


class _GuardedWithHistory(GuardedBackend):
    """One that keeps earlier documents."""

    def history(self) -> list[StoredVersion]:
        """The earlier documents, newest first."""
        inner = self.inner
        assert isinstance(inner, KeepsHistory)
        return self._within("list the history", inner.history)

    def read_version(self, version: str) -> bytes:
        """One of them by its id. Raises BackendProblem when it is gone."""
        inner = self.inner
        assert isinstance(inner, KeepsHistory)
        return self._within("read the history", lambda: inner.read_version(version))


def _digest(document: bytes | None) -> str:
    # Line ends at the end say nothing: s3 adds one when a lock is taken over.
    return _NOTHING if document is None else hashlib.sha256(document.rstrip(b"\n")).hexdigest()


class _Naming(Struct, frozen=True):
    """What names a state among the members of its document; the rest is passed over."""

    lineage: str
    serial: int


def _in_words(document: bytes | None) -> str:
    """What a document is, as far as it says so."""
    if document is None:
        return "no state"
    try:
        naming = msgspec.json.decode(document, type=_Naming)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return f"a document of {len(document)} bytes"
    return f'the state with lineage "{naming.lineage}", serial {naming.serial}'
