"""State in the memory of this process: for tests and for looking at what a plan would do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from threading import RLock
from typing import Any, Final

from msgspec import Struct, field

from nexusform.backends.backend_kind import BackendKind, Directories
from nexusform.backends.refusals import DEFAULT, check_name
from nexusform.schema import BlockSchema
from nexusform.state_ports import BackendProblem, LockHeld, LockInfo, StateBackend, StoredVersion


class _Workspace(Struct):
    document: bytes | None = None
    backup: bytes | None = None
    journal: list[bytes] = field(default_factory=list)
    holder: LockInfo | None = None


class MemoryBackend:
    """One workspace; backends made by `for_workspace` share the same memory."""

    def __init__(self, workspace: str = DEFAULT, shared: dict[str, _Workspace] | None = None) -> None:
        check_name(workspace)
        self._name = workspace
        self._shared = {} if shared is None else shared
        self._guard = RLock()

    def describe(self) -> str:
        """That it is in memory, and the workspace."""
        return f"memory ({self._name})"

    def read(self) -> bytes | None:
        """The state document, None when there is none."""
        return self._here.document

    def write(self, document: bytes) -> None:
        """Replace the document; the one before is kept as the backup."""
        with self._guard:
            if document != self._here.document:
                self._here.backup, self._here.document = self._here.document, document

    def append(self, record: bytes) -> None:
        """Add one record to the journal."""
        self.append_all([record])

    def append_all(self, records: Sequence[bytes]) -> None:
        """Add records in order."""
        if any(b"\n" in record for record in records):
            raise ValueError("a journal record is one line")
        with self._guard:
            self._here.journal.extend(records)

    def journal(self) -> list[bytes]:
        """All records since the last compaction."""
        return list(self._here.journal)

    def compact(self, document: bytes, keep: Sequence[bytes] = ()) -> None:
        """Write the document and empty the journal but for what is to be kept."""
        with self._guard:
            self.write(document)
            self._here.journal[:] = keep

    def history(self) -> list[StoredVersion]:
        """The document before the last one."""
        return [StoredVersion("backup", "backup")] if self._here.backup is not None else []

    def read_version(self, version: str) -> bytes:
        """The backup. Raises BackendProblem for another id."""
        if version != "backup" or self._here.backup is None:
            raise BackendProblem(f'There is no version "{version}" in memory.')
        return self._here.backup

    def lock(self, info: LockInfo) -> list[str]:
        """Take the lock or raise LockHeld."""
        with self._guard:
            if self._here.holder is not None:
                raise LockHeld(self._here.holder)
            self._here.holder = info
        return []

    def unlock(self, lock_id: str) -> None:
        """Give the lock back."""
        self.force_unlock(lock_id)

    def holder(self) -> LockInfo | None:
        """Who holds the lock now."""
        return self._here.holder

    def force_unlock(self, lock_id: str) -> None:
        """Break the lock with this id."""
        with self._guard:
            holder = self._here.holder
            if holder is None or holder.id != lock_id:
                now = f"it is held by {holder.who} under the ID {holder.id}" if holder else "nobody holds it"
                raise BackendProblem(f'The lock "{lock_id}" was not released: {now}.')
            self._here.holder = None

    def workspaces(self) -> list[str]:
        """The default workspace and those with a document."""
        kept = [name for name, workspace in self._shared.items() if workspace.document is not None]
        return [DEFAULT, *sorted(name for name in kept if name != DEFAULT)]

    def for_workspace(self, name: str) -> MemoryBackend:
        """The same memory, another workspace."""
        return MemoryBackend(name, self._shared)

    def delete_workspace(self, name: str) -> None:
        """Forget a workspace."""
        check_name(name)
        if name == DEFAULT:
            raise BackendProblem(f'The workspace "{DEFAULT}" cannot be deleted.')
        if name not in self.workspaces():
            raise BackendProblem(f'There is no workspace "{name}".')
        del self._shared[name]

    @property
    def _here(self) -> _Workspace:
        return self._shared.setdefault(self._name, _Workspace())


# --- the kind ------------------------------------------------------------------------------------

_SCHEMA: Final = BlockSchema({}, description="State in memory, lost when the command ends.")


def _open(_settings: Mapping[str, Any], _directories: Directories) -> StateBackend:
    return MemoryBackend()


MEMORY: Final = BackendKind(_SCHEMA, _open, is_remote=False)
