"""State in a file of this machine, the default.

For a state file F: `F.lock.info` is the lock with its holder, `F.journal` the records of an apply
since F was written, `F.backup` the previous version, and `F.d/NAME/` has the files of the workspace
NAME. Directories are created on the first write. If F is a link to a file, the other files are next
to the real file, so that all users share one lock.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from nexusform.backends.backend_definition import (
    DEFAULT_WORKSPACE,
    MAXIMUM_SIZE,
    BackendDefinition,
    Directories,
    check_deletable,
    check_name,
    sort_workspaces,
)
from nexusform.backends.guarded_backend import OverwriteGuardBackend
from nexusform.backends.local_lock import LocalLockFile
from nexusform.backends.state_files import JournalFile, convert_os_errors, read_file
from nexusform.files.directories import LinkInWorkTree, open_parent, resolve_links
from nexusform.files.regular_files import (
    PRIVATE,
    UNCONFINED,
    Confinement,
    OutsideConfinement,
    remove_abandoned_temporary_files,
    write_file_atomically,
)
from nexusform.interfaces.state_storage import (
    BackendProblem,
    LockInfo,
    StateBackend,
    StoredStateVersion,
)
from nexusform.schemas.block_schema import AttributeSchema, BlockSchema
from nexusform.schemas.value_types import STRING

DEFAULT_PATH: Final = "state/nexusform.nfstate"
_SUFFIXES: Final = ("", ".lock.info", ".journal", ".backup")
# A moved journal of another document.
_JOURNAL_COPY: Final = re.compile(r"\.journal\.old[0-9]*")

# Suffixes of temporary files next to a state: of the lock, and of atomic writes.
_TEMPORARY_FILE: Final = re.compile(
    r"\.lock\.info\.[0-9a-f]{16}\.tmp|\.(?:\.[a-z.]+)?\.[0-9]+-[0-9a-f]{16}\.tmp"
)

# Rest of an interrupted workspace deletion.
_DELETED_WORKSPACE: Final = re.compile(r"\..+\.[0-9a-f]{16}\.deleted")


class LocalBackend:
    """State of one workspace in files.

    Raises BackendProblem outside the confinement.
    """

    def __init__(
        self,
        path: str,
        workspace_directory: str = "",
        workspace: str = DEFAULT_WORKSPACE,
        confinement: Confinement = UNCONFINED,
        maximum_size: int = MAXIMUM_SIZE,
    ) -> None:
        """Locate state, lock and journal.

        `workspace_directory` contains all other workspaces (default: `PATH.d`).
        """
        self._maximum_size = maximum_size
        self._confinement = confinement
        # The state of the default workspace.
        self._base = Path(path)
        self._workspace = workspace
        # A directory for each other workspace.
        self._workspaces = Path(workspace_directory or f"{path}.d")
        self._display_path = self._build_workspace_state_path(workspace)
        # Resolved once: a link changed meanwhile must not separate the state from its lock.
        self._path = self._display_path
        if confinement.root or self._display_path.is_symlink():
            self._path = self._resolve_state_path(self._display_path)
        self._lock = LocalLockFile(_build_sibling_path(self._path, ".lock.info"))
        self._journal = JournalFile(
            _build_sibling_path(self._path, ".journal"), self.read, maximum_size
        )

    def describe(self) -> str:
        """Return the path of the state file."""
        return str(self._display_path)

    def read(self) -> bytes | None:
        """Return the state document, None if there is none.

        A link to a missing directory is an error: the state may be on a file system that
        is not mounted.
        """
        with convert_os_errors("read the state", self._path):
            document = read_file(self._path, self._maximum_size)
        if document is None:
            self._check_links()
        return document

    def _check_links(self) -> None:
        """Raise a BackendProblem if a link on the path leads to a missing directory.

        A link of the state itself may lead to a file that is still to be written.
        """
        for path in (self._display_path, *self._display_path.parents):
            with convert_os_errors("read the state", path):
                is_broken = path.is_symlink() and not path.exists()
            target = Path(os.path.realpath(path)) if is_broken else path
            directory = target.parent if path == self._display_path else target
            if is_broken and not directory.is_dir():
                raise BackendProblem(
                    f'"{path}" is a link to "{target}", but the directory "{directory}" does not '
                    "exist. Mount its file system, or remove the link to begin with an empty state."
                )

    def write(self, document: bytes) -> None:
        """Replace the document; the previous one becomes the backup.

        An equal document is not written.
        """
        self._lock.check_still_held()
        if document == self.read():
            return
        self._journal.mark_base(document)
        with convert_os_errors("write the state", self._path):
            write_file_atomically(
                self._path,
                document,
                PRIVATE,
                backup_name=_build_sibling_path(self._path, ".backup").name,
                makes_directories=True,
            )

    def append(self, record: bytes) -> None:
        """Add one record to the journal, durable on return."""
        self.append_all([record])

    def append_all(self, records: Sequence[bytes]) -> None:
        """Add records in order, all durable on return; an interruption keeps a prefix of them."""
        self._lock.check_still_held()
        self._journal.append_lines(records)

    def read_journal(self) -> list[bytes]:
        """Return all complete records not in the document yet.

        A record cut off by a crash is ignored.
        """
        return self._journal.list_pending()

    def move_foreign_journal(self) -> str:
        """Move a journal that continues another document to a file beside it.

        Return the path of that file, "" if there is no such journal.
        """
        self._lock.check_still_held()
        return self._journal.move_if_foreign()

    def write_merged_state(self, document: bytes, keep: Sequence[bytes] = ()) -> None:
        """Write the document and empty the journal, so that nothing counts twice after a crash.

        The journal first gets a mark of the new document: lines before it count only until this
        document is written.
        """
        self._lock.check_still_held()
        self._journal.mark_compacted(document, keep)
        self.write(document)
        if keep:
            self._journal.mark_written()
        else:
            self._journal.remove()

    def list_versions(self) -> list[StoredStateVersion]:
        """Return the previous document as the version "backup" with its time of writing.

        Return [] without a previous document.
        """
        backup = _build_sibling_path(self._path, ".backup")
        with convert_os_errors("check the backup", backup):
            try:
                change_time = backup.lstat().st_mtime
            except FileNotFoundError:
                return []
        time_text = datetime.fromtimestamp(change_time, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        return [StoredStateVersion("backup", time_text)]

    def read_version(self, version: str) -> bytes:
        """Return the backup.

        Raises BackendProblem for another id.
        """
        backup = _build_sibling_path(self._path, ".backup")
        with convert_os_errors("read the backup", backup):
            document = read_file(backup, self._maximum_size) if version == "backup" else None
        if document is None:
            raise BackendProblem(f'No version "{version}" of "{self._path}".')
        return document

    def lock(self, info: LockInfo) -> list[str]:
        """Acquire the lock or raise StateLocked.

        Replace a holder that died on this host, and return a warning. Then remove the files left
        by killed runs.
        """
        self._check_links()
        warnings = self._lock.acquire(info)
        self._lock.remove_abandoned_files()
        self._journal.remove_if_merged()
        for suffix in ("", ".backup"):
            remove_abandoned_temporary_files(_build_sibling_path(self._path, suffix), minimum_age=0)
        return warnings

    def unlock(self, lock_id: str) -> None:
        """Release the lock."""
        self._lock.release(lock_id)

    def read_lock(self) -> LockInfo | None:
        """Return the holder of the lock."""
        return self._lock.read_holder()

    def force_unlock(self, lock_id: str) -> None:
        """Break the lock with this id."""
        self._lock.break_lock(lock_id)

    def list_workspaces(self) -> list[str]:
        """Return the default workspace and those with a directory that is not being deleted."""
        with convert_os_errors("list the workspaces in", self._workspaces):
            try:
                directory = Path(self._resolve_confined_path(self._workspaces))
                entries = [entry for entry in directory.iterdir() if entry.is_dir()]
                names = [
                    entry.name
                    for entry in entries
                    if _DELETED_WORKSPACE.fullmatch(entry.name) is None
                ]
            except FileNotFoundError:
                names = []
        return sort_workspaces(names)

    def select_workspace(self, name: str) -> LocalBackend:
        """Return the backend of another workspace."""
        return LocalBackend(
            str(self._base), str(self._workspaces), name, self._confinement, self._maximum_size
        )

    def delete_workspace(self, name: str) -> None:
        """Remove a workspace, with the lock held on it here.

        Its directory is renamed first, so that it is deleted completely or not at all.
        """
        check_deletable(name, self.list_workspaces())
        self._lock.check_still_held()
        path = Path(self._resolve_confined_path(self._build_workspace_state_path(name)))
        directory = path.parent
        with convert_os_errors("delete the workspace in", directory):
            names = {entry.name for entry in directory.iterdir()}
            own_names = {name for name in names if _is_nexusform_file(name, path.name)}
            foreign_names = sorted(names - own_names)
            if foreign_names:
                raise BackendProblem(
                    f'Cannot delete the workspace "{name}": "{directory}" contains '
                    f'"{foreign_names[0]}", which is not a file of its state. Move it away.'
                )
            new_name = f".{name}.{os.urandom(8).hex()}.deleted"
            workspaces, _ = open_parent(directory)
            with workspaces:
                workspaces.rename(directory.name, new_name)
                with workspaces.open_directory(new_name) as renamed:
                    for own_name in own_names:
                        renamed.remove_file(own_name, missing_ok=True)
                workspaces.remove_directory(new_name)
        if name == self._workspace:
            self._lock.forget()

    def _resolve_confined_path(self, path: Path) -> str:
        try:
            return self._confinement.resolve(path)
        except OutsideConfinement as problem:
            raise BackendProblem(
                f'Cannot keep the state at "{path}": {problem.strerror}.'
            ) from None

    def _resolve_state_path(self, path: Path) -> Path:
        """Follow the links of the user to the state.

        Raises BackendProblem for a committed one, or outside the confinement.
        """
        real_path = Path(os.path.realpath(self._resolve_confined_path(path)))
        try:
            resolve_links(path)
        except LinkInWorkTree as problem:
            detail = f'Cannot keep the state at "{path}": {problem.strerror}.'
            raise BackendProblem(detail) from None
        except OSError:
            # The first read or write reports it.
            return real_path
        return real_path

    def _build_workspace_state_path(self, workspace: str) -> Path:
        check_name(workspace)
        if workspace == DEFAULT_WORKSPACE:
            return self._base
        return self._workspaces / workspace / self._base.name


def _is_nexusform_file(name: str, state: str) -> bool:
    """Return whether a file next to a state belongs to nexusform.

    Temporary files may remain after a crash.
    """
    is_state_file = any(name == state + suffix for suffix in _SUFFIXES)
    # Names of temporary files contain the name of the state.
    rest = name.replace(state, "", 1)
    patterns = (_JOURNAL_COPY, _TEMPORARY_FILE)
    return is_state_file or (rest != name and any(item.fullmatch(rest) for item in patterns))


def _build_sibling_path(path: Path, suffix: str) -> Path:
    return path.with_name(path.name + suffix)


_SCHEMA: Final = BlockSchema(
    {
        "path": AttributeSchema(
            STRING,
            f'The state file, relative to the root module. Default: "{DEFAULT_PATH}".',
            optional=True,
        ),
        "workspace_dir": AttributeSchema(
            STRING,
            "Directory of other workspaces. Default: path of the state file with `.d`.",
            optional=True,
        ),
    },
    description="State in a local file.",
)


def _open_backend(settings: Mapping[str, Any], directories: Directories) -> StateBackend:
    """Build the local backend of the settings; relative paths start at the root module."""
    root = Path(directories.directory)
    workspaces = settings.get("workspace_dir")
    return LocalBackend(
        str(root / (settings.get("path") or DEFAULT_PATH)),
        str(root / workspaces) if workspaces else "",
        confinement=directories.confinement,
        maximum_size=directories.maximum_size,
    )


LOCAL: Final = BackendDefinition(_SCHEMA, _open_backend, is_remote=False)


def is_local_state(backend: StateBackend) -> bool:
    """Return whether the state is in a file of this machine."""
    return isinstance(backend, OverwriteGuardBackend) and isinstance(backend.inner, LocalBackend)
