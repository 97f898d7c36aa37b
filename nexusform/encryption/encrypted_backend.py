"""Backend with documents and journal encrypted by this process."""

from __future__ import annotations

from collections.abc import Sequence

from nexusform.encryption.document_cipher import JOURNAL, STATE, DocumentCipher
from nexusform.encryption.key_providers import EncryptionProblem
from nexusform.interfaces.state_storage import (
    BackendProblem,
    BatchJournalBackend,
    CheckpointBackend,
    LockInfo,
    StateBackend,
    StoredStateVersion,
    VersionedBackend,
)


class EncryptedBackend:
    """Encryption around another backend. The lock information stays readable."""

    def __init__(self, inner: StateBackend, cipher: DocumentCipher) -> None:
        self.inner = inner
        self._cipher = cipher

    def describe(self) -> str:
        """Return the location of the inner backend."""
        return self.inner.describe()

    def read(self) -> bytes | None:
        """Return the state document, None if there is none. Raises BackendProblem if no key decrypts it."""
        document = self.inner.read()
        return None if document is None else self._cipher.decrypt(document, STATE, self.describe())

    def write(self, document: bytes) -> None:
        """Encrypt and replace the document, unless the stored one is equal and has the current method."""
        stored = self.inner.read()
        if stored is None or not self._cipher.is_current(stored) or self._decrypt_or_none(stored) != document:
            self.inner.write(self._cipher.encrypt(document, STATE))

    def is_outdated(self) -> bool:
        """Return whether the stored document is encrypted by a fallback, and to be written again."""
        document = self.inner.read()
        return document is not None and not self._cipher.is_current(document)

    def check(self) -> None:
        """Raise a BackendProblem if no key for writing is available."""
        self._cipher.check()

    def encrypt_document(self, document: bytes) -> bytes:
        """Return a state document as stored by this backend. Raises BackendProblem."""
        return self._cipher.encrypt(document, STATE)

    def append(self, record: bytes) -> None:
        """Add one encrypted record to the journal."""
        self.inner.append(self._cipher.encrypt(record, JOURNAL))

    def append_all(self, records: Sequence[bytes]) -> None:
        """Add records in order, encrypted; with a single call if the inner backend has one for several."""
        encrypted_records = self._encrypt_records(records)
        if isinstance(self.inner, BatchJournalBackend):
            self.inner.append_all(encrypted_records)
            return
        for record in encrypted_records:
            self.inner.append(record)

    def read_journal(self) -> list[bytes]:
        """Return the records that are not in the document yet. Raises BackendProblem."""
        name = f"The journal of {self.describe()}"
        return [self._cipher.decrypt(record, JOURNAL, name) for record in self.inner.read_journal()]

    def write_merged_state(self, document: bytes, keep: Sequence[bytes] = ()) -> None:
        """Encrypt and write the document, then empty the journal except for records to keep."""
        encrypted_records = self._encrypt_records(keep)
        self.inner.write_merged_state(self._cipher.encrypt(document, STATE), encrypted_records)

    def lock(self, info: LockInfo) -> list[str]:
        """Acquire the lock or raise StateLocked."""
        return self.inner.lock(info)

    def unlock(self, lock_id: str) -> None:
        """Release the lock."""
        self.inner.unlock(lock_id)

    def read_lock(self) -> LockInfo | None:
        """Return the holder of the lock."""
        return self.inner.read_lock()

    def force_unlock(self, lock_id: str) -> None:
        """Break the lock with this id."""
        self.inner.force_unlock(lock_id)

    def list_workspaces(self) -> list[str]:
        """Return the workspaces of the inner backend."""
        return self.inner.list_workspaces()

    def select_workspace(self, name: str) -> EncryptedBackend:
        """Return the backend of another workspace with the same keys."""
        return EncryptedBackend(self.inner.select_workspace(name), self._cipher)

    def delete_workspace(self, name: str) -> None:
        """Remove a workspace's state."""
        self.inner.delete_workspace(name)

    def list_versions(self) -> list[StoredStateVersion]:
        """Return the earlier documents, newest first; none if the inner backend keeps none."""
        return self.inner.list_versions() if isinstance(self.inner, VersionedBackend) else []

    def read_version(self, version: str) -> bytes:
        """Return an earlier document by its id. Raises BackendProblem."""
        if not isinstance(self.inner, VersionedBackend):
            raise BackendProblem(f'No version "{version}" of {self.describe()}.')
        return self._cipher.decrypt(self.inner.read_version(version), STATE, f"Version {version}")

    def needs_checkpoint(self) -> bool:
        """Return whether the inner backend needs the document now."""
        return isinstance(self.inner, CheckpointBackend) and self.inner.needs_checkpoint()

    def write_checkpoint(self, document: bytes, records: Sequence[bytes]) -> None:
        """Write the encrypted document to the inner backend during an apply."""
        assert isinstance(self.inner, CheckpointBackend)
        encrypted_records = self._encrypt_records(records)
        self.inner.write_checkpoint(self._cipher.encrypt(document, STATE), encrypted_records)

    def _decrypt_or_none(self, document: bytes) -> bytes | None:
        """Return the document; None if no key decrypts it. Then it is replaced without comparison."""
        try:
            return self._cipher.decrypt(document, STATE, self.describe())
        except EncryptionProblem:
            return None

    def _encrypt_records(self, records: Sequence[bytes]) -> list[bytes]:
        return [self._cipher.encrypt(record, JOURNAL) for record in records]
