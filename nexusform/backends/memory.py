"""State in the memory of this process: for tests and for previews of plans."""

from __future__ import annotations

from collections.abc import Sequence
from threading import RLock
from typing import Final

from msgspec import Struct, field

from nexusform.backends import locks
from nexusform.backends.backend_definition import (
    DEFAULT_WORKSPACE,
    BackendDefinition,
    check_deletable,
    check_name,
    sort_workspaces,
)
from nexusform.backends.journal_lines import check_journal_records
from nexusform.interfaces.state_storage import (
    BackendProblem,
    LockInfo,
    StateLocked,
    StoredStateVersion,
)
from nexusform.schemas.block_schema import BlockSchema


class _Workspace(Struct):
    document: bytes | None = None
    backup: bytes | None = None
    journal: list[bytes] = field(default_factory=list)
    holder: LockInfo | None = None


class MemoryBackend:
    """One workspace; backends created by `select_workspace` share the same memory."""

    def __init__(
        self, workspace: str = DEFAULT_WORKSPACE, shared: dict[str, _Workspace] | None = None
    ) -> None:
        check_name(workspace)
        self._name = workspace
        # All workspaces of this memory by name.
        self._shared = {} if shared is None else shared
        self._guard = RLock()

    def describe(self) -> str:
        """Return a text with the workspace."""
        return f"memory ({self._name})"

    def read(self) -> bytes | None:
        """Return the state document, None if there is none."""
        return self._workspace.document

    def write(self, document: bytes) -> None:
        """Replace the document; the previous one becomes the backup."""
        with self._guard:
            if document != self._workspace.document:
                self._workspace.backup = self._workspace.document
                self._workspace.document = document

    def append(self, record: bytes) -> None:
        """Add one record to the journal."""
        self.append_all([record])

    def append_all(self, records: Sequence[bytes]) -> None:
        """Add records in order."""
        check_journal_records(records)
        with self._guard:
            self._workspace.journal.extend(records)

    def read_journal(self) -> list[bytes]:
        """Return all records not in the document yet."""
        return list(self._workspace.journal)

    def move_foreign_journal(self) -> str:
        """Return "": the journal is stored with its document, so it continues no other one."""
        return ""

    def write_merged_state(self, document: bytes, keep: Sequence[bytes] = ()) -> None:
        """Write the document and empty the journal except for records to keep."""
        with self._guard:
            self.write(document)
            self._workspace.journal[:] = keep

    def list_versions(self) -> list[StoredStateVersion]:
        """Return the previous document as the version "backup"; [] without one."""
        return (
            [StoredStateVersion("backup", "backup")] if self._workspace.backup is not None else []
        )

    def read_version(self, version: str) -> bytes:
        """Return the backup.

        Raises BackendProblem for another id.
        """
        if version != "backup" or self._workspace.backup is None:
            raise BackendProblem(f'No version "{version}" in memory.')
        return self._workspace.backup

    def lock(self, info: LockInfo) -> list[str]:
        """Acquire the lock or raise StateLocked."""
        with self._guard:
            if self._workspace.holder is not None:
                raise StateLocked(self._workspace.holder)
            self._workspace.holder = info
        return []

    def unlock(self, lock_id: str) -> None:
        """Release the lock."""
        self.force_unlock(lock_id)

    def read_lock(self) -> LockInfo | None:
        """Return the holder of the lock."""
        return self._workspace.holder

    def force_unlock(self, lock_id: str) -> None:
        """Break the lock with this id."""
        with self._guard:
            locks.check_breakable(lock_id, self._workspace.holder)
            self._workspace.holder = None

    def list_workspaces(self) -> list[str]:
        """Return the default workspace and those with a document."""
        names = [name for name, workspace in self._shared.items() if workspace.document is not None]
        return sort_workspaces(names)

    def select_workspace(self, name: str) -> MemoryBackend:
        """Return the backend of another workspace in the same memory."""
        return MemoryBackend(name, self._shared)

    def delete_workspace(self, name: str) -> None:
        """Remove a workspace."""
        check_deletable(name, self.list_workspaces())
        del self._shared[name]

    @property
    def _workspace(self) -> _Workspace:
        return self._shared.setdefault(self._name, _Workspace())


_SCHEMA: Final = BlockSchema({}, description="State in memory, lost when the command ends.")

MEMORY: Final = BackendDefinition(
    _SCHEMA, lambda _settings, _directories: MemoryBackend(), is_remote=False
)
