"""A backend whose documents and journal are encrypted before they leave this process."""

from __future__ import annotations

from collections.abc import Sequence

from nexusform.encryption.envelope import JOURNAL, STATE, Sealer
from nexusform.encryption.keys import EncryptionProblem
from nexusform.state_ports import (
    AppendsMany,
    BackendProblem,
    KeepsHistory,
    LockInfo,
    StateBackend,
    StoredVersion,
    WantsCheckpoints,
)


class EncryptedBackend:
    """Another backend, seen through encryption. The lock's information stays readable for everybody."""

    def __init__(self, inner: StateBackend, sealer: Sealer) -> None:
        self.inner = inner
        self._sealer = sealer

    def describe(self) -> str:
        """Where the inner backend keeps it."""
        return self.inner.describe()

    def read(self) -> bytes | None:
        """The state document, None when there is none. Raises BackendProblem when no key opens it."""
        document = self.inner.read()
        return None if document is None else self._open(document, STATE, self.describe())

    def write(self, document: bytes) -> None:
        """Encrypt and replace the document. The same document under the same method: nothing."""
        standing = self.inner.read()
        current = standing is not None and self._sealer.is_current(standing)
        if not current or self._open_if_possible(standing) != document:
            self.inner.write(self._seal(document, STATE))

    def is_outdated(self) -> bool:
        """Whether a document stands that was written with another method than is written with now."""
        document = self.inner.read()
        return document is not None and not self._sealer.is_current(document)

    def check(self) -> None:
        """Raise a BackendProblem when nothing could be written: no key is at hand."""
        try:
            self._sealer.check()
        except EncryptionProblem as problem:
            raise BackendProblem(str(problem)) from None

    def sealed(self, document: bytes) -> bytes:
        """A state document as this backend would store it. Raises BackendProblem."""
        return self._seal(document, STATE)

    def append(self, record: bytes) -> None:
        """Add one encrypted record to the journal."""
        self.inner.append(self._seal(record, JOURNAL))

    def append_all(self, records: Sequence[bytes]) -> None:
        """Add encrypted records in order."""
        sealed = [self._seal(record, JOURNAL) for record in records]
        if isinstance(self.inner, AppendsMany):
            self.inner.append_all(sealed)
            return
        for record in sealed:
            self.inner.append(record)

    def journal(self) -> list[bytes]:
        """The records that are not in the document yet. Raises BackendProblem when no key opens one."""
        name = f"The journal of {self.describe()}"
        return [self._open(record, JOURNAL, name) for record in self.inner.journal()]

    def compact(self, document: bytes, keep: Sequence[bytes] = ()) -> None:
        """Encrypt and write the document, then empty the journal but for what is to be kept."""
        sealed = [self._seal(record, JOURNAL) for record in keep]
        self.inner.compact(self._seal(document, STATE), sealed)

    def lock(self, info: LockInfo) -> list[str]:
        """Take the lock or raise LockHeld."""
        return self.inner.lock(info)

    def unlock(self, lock_id: str) -> None:
        """Give the lock back."""
        self.inner.unlock(lock_id)

    def holder(self) -> LockInfo | None:
        """Who holds the lock now."""
        return self.inner.holder()

    def force_unlock(self, lock_id: str) -> None:
        """Break the lock with this id."""
        self.inner.force_unlock(lock_id)

    def workspaces(self) -> list[str]:
        """The workspaces of the inner backend."""
        return self.inner.workspaces()

    def for_workspace(self, name: str) -> EncryptedBackend:
        """The same place and keys, another workspace."""
        return EncryptedBackend(self.inner.for_workspace(name), self._sealer)

    def delete_workspace(self, name: str) -> None:
        """Remove a workspace's state."""
        self.inner.delete_workspace(name)

    def history(self) -> list[StoredVersion]:
        """The earlier documents, newest first; none where the inner backend keeps none."""
        return self.inner.history() if isinstance(self.inner, KeepsHistory) else []

    def read_version(self, version: str) -> bytes:
        """One of them by its id. Raises BackendProblem."""
        if not isinstance(self.inner, KeepsHistory):
            raise BackendProblem(f'There is no version "{version}" of {self.describe()}.')
        return self._open(self.inner.read_version(version), STATE, f"Version {version}")

    def checkpoint_due(self) -> bool:
        """Whether the inner backend wants the document now."""
        return isinstance(self.inner, WantsCheckpoints) and self.inner.checkpoint_due()

    def checkpoint(self, document: bytes, records: Sequence[bytes]) -> None:
        """Give the inner backend the encrypted document in the middle of an apply."""
        assert isinstance(self.inner, WantsCheckpoints)
        sealed = [self._seal(record, JOURNAL) for record in records]
        self.inner.checkpoint(self._seal(document, STATE), sealed)

    def _open_if_possible(self, document: bytes | None) -> bytes | None:
        """The document, None as well when it cannot be opened (it is about to be replaced)."""
        if document is None:
            return None
        try:
            return self._sealer.open(document, STATE, self.describe())
        except EncryptionProblem:
            return None

    def _seal(self, document: bytes, purpose: str) -> bytes:
        try:
            return self._sealer.seal(document, purpose)
        except EncryptionProblem as problem:
            raise BackendProblem(str(problem)) from None

    def _open(self, document: bytes, purpose: str, name: str) -> bytes:
        try:
            return self._sealer.open(document, purpose, name)
        except EncryptionProblem as problem:
            raise BackendProblem(str(problem)) from None
