"""State in a file of this machine, the default.

For a state file F: `F.lock.info` says who holds the lock, `F.journal` what an apply has done
since F was written, `F.backup` is the version before, and `F.d/NAME/` holds the files of the
workspace NAME. Directories are made on the first write. Where F is a link to a file, the files beside it
stand beside the real file, so that everybody who reaches it meets the same lock.
"""

from __future__ import annotations

import os
import re
import secrets
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from nexusform.backends.backend_kind import BackendKind, Directories
from nexusform.backends.local_lock import LocalLock
from nexusform.backends.refusals import DEFAULT, LARGEST, check_name
from nexusform.backends.state_files import JournalFile, explained, make_directories, read_file
from nexusform.regular_files import FREE, PRIVATE, Confinement, Outside, write_whole
from nexusform.schema import Attribute, BlockSchema
from nexusform.state_ports import BackendProblem, LockInfo, StateBackend, StoredVersion
from nexusform.value_types import STRING

DEFAULT_PATH: Final = "state/nexusform.nfstate"

_SUFFIXES: Final = ("", ".lock.info", ".journal", ".backup")
# What a temporary file beside a state adds to its name: of the lock, and of what is written whole.
_LEFT_BEHIND: Final = re.compile(
    r"\.lock\.info\.[0-9a-f]{16}\.tmp|\.(?:\.[a-z.]+)?\.[0-9]+-[0-9a-f]{16}\.tmp"
)

_DELETED: Final = re.compile(
    r"\..+\.[0-9a-f]{16}\.deleted"
)  # what a kill leaves of a workspace that is deleted


class LocalBackend:
    """The state of one workspace in files; `path` is that of the default workspace.

    Raises BackendProblem for files outside of the confinement.
    """

    def __init__(
        self,
        path: str,
        workspace_directory: str = "",
        workspace: str = DEFAULT,
        confinement: Confinement = FREE,
        largest: int = LARGEST,
    ) -> None:
        self._largest = largest
        self._confinement = confinement
        self._base = Path(path)
        self._workspaces = Path(workspace_directory or f"{path}.d")
        self._shown = self._path_of(workspace)
        # Once: a link that is turned elsewhere meanwhile must not part the state from its lock.
        self._path = self._shown
        if confinement.root or self._shown.is_symlink():
            self._path = Path(os.path.realpath(self._admitted(self._shown)))
        self._lock = LocalLock(_beside(self._path, ".lock.info"))
        self._journal = JournalFile(_beside(self._path, ".journal"), largest)

    def describe(self) -> str:
        """The path of the state file."""
        return str(self._shown)

    def read(self) -> bytes | None:
        """The state document, None when there is none."""
        with explained("read the state", self._path):
            return read_file(self._path, self._largest)

    def write(self, document: bytes) -> None:
        """Replace the document; the one before becomes the backup. The same document: nothing."""
        self._lock.check_still_held()
        before = self.read()
        if document == before:
            return
        with explained("write the state", self._path):
            make_directories(self._path.parent)
            write_whole(self._path, document, PRIVATE, backup=_beside(self._path, ".backup"))

    def append(self, record: bytes) -> None:
        """Add one record to the journal, durable on return."""
        self.append_all([record])

    def append_all(self, records: Sequence[bytes]) -> None:
        """Add records in order, all durable on return; a kill meanwhile keeps the first of them."""
        self._lock.check_still_held()
        self._journal.append(records)

    def journal(self) -> list[bytes]:
        """All whole records since the last compaction."""
        return self._journal.pending(self.read)

    def compact(self, document: bytes, keep: Sequence[bytes] = ()) -> None:
        """Write the document and empty the journal, so that a crash in between counts nothing twice."""
        self._lock.check_still_held()
        self._journal.mark_compacted(document, keep)
        self.write(document)
        if not keep:
            self._journal.remove()

    def history(self) -> list[StoredVersion]:
        """The document before the last one, by the time at which it was written."""
        backup = _beside(self._path, ".backup")
        with explained("look at the backup", backup):
            try:
                changed = backup.lstat().st_mtime
            except FileNotFoundError:
                return []
        written = datetime.fromtimestamp(changed, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        return [StoredVersion("backup", written)]

    def read_version(self, version: str) -> bytes:
        """The backup. Raises BackendProblem for another id."""
        backup = _beside(self._path, ".backup")
        with explained("read the backup", backup):
            document = read_file(backup, self._largest) if version == "backup" else None
        if document is None:
            raise BackendProblem(f'There is no version "{version}" of "{self._path}".')
        return document

    def lock(self, info: LockInfo) -> list[str]:
        """Take the lock or raise LockHeld; a holder that died on this host is replaced."""
        return self._lock.take(info)

    def unlock(self, lock_id: str) -> None:
        """Give the lock back."""
        self._lock.release(lock_id)

    def holder(self) -> LockInfo | None:
        """Who holds the lock now."""
        return self._lock.holder()

    def force_unlock(self, lock_id: str) -> None:
        """Break the lock with this id."""
        self._lock.break_lock(lock_id)

    def workspaces(self) -> list[str]:
        """The default workspace and those that have a directory."""
        with explained("list the workspaces in", self._workspaces):
            try:
                directory = Path(self._admitted(self._workspaces))
                entries = [entry for entry in directory.iterdir() if entry.is_dir()]
                names = [entry.name for entry in entries if _DELETED.fullmatch(entry.name) is None]
            except FileNotFoundError:
                names = []
        return [DEFAULT, *sorted(name for name in names if name != DEFAULT)]

    def for_workspace(self, name: str) -> LocalBackend:
        """The same place, another workspace."""
        return LocalBackend(str(self._base), str(self._workspaces), name, self._confinement, self._largest)

    def delete_workspace(self, name: str) -> None:
        """Remove the files of a workspace and its directory: this goes first, by another name, so that it is
        deleted as a whole or stands as it was.
        """
        check_name(name)
        if name == DEFAULT:
            raise BackendProblem(f'The workspace "{DEFAULT}" cannot be deleted.')
        path = self._path_of(name)
        path = Path(self._admitted(path))
        directory = path.parent
        if not directory.is_dir():
            raise BackendProblem(f'There is no workspace "{name}".')
        with explained("delete the workspace in", directory):
            ours = [entry for entry in directory.iterdir() if _is_ours(entry.name, path.name)]
            others = sorted({entry.name for entry in directory.iterdir()} - {entry.name for entry in ours})
            if others:
                raise BackendProblem(
                    f'The workspace "{name}" is not deleted: "{directory}" holds "{others[0]}", which is not '
                    "nexusform's. Move it away."
                )
            going = directory.with_name(f".{name}.{secrets.token_hex(8)}.deleted")
            directory.rename(going)
            for entry in ours:
                (going / entry.name).unlink(missing_ok=True)
            going.rmdir()

    def _admitted(self, path: Path) -> str:
        try:
            return self._confinement.admitted(path)
        except Outside as problem:
            raise BackendProblem(f'The state cannot be kept at "{path}": {problem.strerror}.') from None

    def _path_of(self, workspace: str) -> Path:
        check_name(workspace)
        if workspace == DEFAULT:
            return self._base
        return self._workspaces / workspace / self._base.name


def _is_ours(name: str, state: str) -> bool:
    """Whether a file beside a state is nexusform's: one of the state's, or what a kill left of one."""
    kept = any(name == state + suffix for suffix in _SUFFIXES)
    return kept or (state in name and _LEFT_BEHIND.fullmatch(name.replace(state, "", 1)) is not None)


def _beside(path: Path, suffix: str) -> Path:
    return path.with_name(path.name + suffix)


# --- the kind ------------------------------------------------------------------------------------

_SCHEMA: Final = BlockSchema(
    {
        "path": Attribute(
            STRING,
            f'The state file, relative to the root module. Default: "{DEFAULT_PATH}".',
            optional=True,
        ),
        "workspace_dir": Attribute(
            STRING,
            "Directory of other workspaces. Default: path of the state file with `.d`.",
            optional=True,
        ),
    },
    description="State in a local file.",
)


def _open(settings: Mapping[str, Any], directories: Directories) -> StateBackend:
    root = Path(directories.directory)
    workspaces = settings.get("workspace_dir")
    return LocalBackend(
        str(root / (settings.get("path") or DEFAULT_PATH)),
        str(root / workspaces) if workspaces else "",
        confinement=directories.confinement,
        largest=directories.largest,
    )


LOCAL: Final = BackendKind(_SCHEMA, _open, is_remote=False)
