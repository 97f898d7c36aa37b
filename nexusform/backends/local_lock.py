"""Lock next to a local state: a file with its holder.

The lock has two mechanisms: the file exists (completed under another name and linked, so that only
one process can create it), and its holder has a flock on it, released by the system when the
process ends. A process that finds the file and gets the flock knows that the holder on this host is
dead; under that flock it renames a file of its own over it. Of two competing processes, one gets
the flock; the other one gets it later and detects that the file at the path is another one.
"""

import errno
import os
import re
import stat
import sys
from contextlib import suppress
from enum import Enum
from pathlib import Path
from typing import Final

from nexusform.backends import locks
from nexusform.backends.state_files import convert_os_errors
from nexusform.files.directories import make_directories, open_parent
from nexusform.files.regular_files import (
    FileTooLarge,
    NotRegularFile,
    create_file,
    open_regular_file,
    read_regular,
    remove_file,
    write_all_bytes,
)
from nexusform.interfaces.state_storage import BackendProblem, LockInfo, StateLocked

# Other users may read the holder of the lock.
_READABLE: Final = 0o644
_ATTEMPTS: Final = 100

_MAXIMUM_BYTES: Final = 1 << 20
_START: Final = "Start"
_BOOT_ID: Final = "/proc/sys/kernel/random/boot_id"
_START_FIELD: Final = 19


class _FlockResult(Enum):
    TAKEN = 1
    HELD = 2
    UNSUPPORTED = 3


def _try_exclusive_file_lock(descriptor: int) -> _FlockResult:
    """Try to get the flock of an open file without waiting.

    Another process may hold it, or flocks be unsupported.
    """
    if sys.platform == "win32":
        return _FlockResult.UNSUPPORTED
    import fcntl

    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as problem:
        is_held = problem.errno in (errno.EWOULDBLOCK, errno.EACCES)
        return _FlockResult.HELD if is_held else _FlockResult.UNSUPPORTED
    return _FlockResult.TAKEN


class LocalLockFile:
    """Lock file at one path.

    Raises BackendProblem for errors of the file system.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        # Of the file, while this object holds the lock.
        self._descriptor: int | None = None
        # For the file, outermost first.
        self._created_directories: list[Path] = []

    def acquire(self, info: LockInfo) -> list[str]:
        """Acquire the lock or raise StateLocked; return warnings if a dead holder was replaced."""
        with convert_os_errors("create the lock file", self._path):
            for _ in range(_ATTEMPTS):
                try:
                    if self._create_lock_file(info):
                        return []  # acquired
                    warnings = self._replace_dead_holder(info)
                except FileNotFoundError:
                    # The lock was released, or its empty directory was removed.
                    continue
                # Else the lock changed meanwhile: try again.
                if warnings is not None:
                    return warnings
        raise StateLocked(self.read_holder())

    def read_holder(self) -> LockInfo | None:
        """Return the holder in the file, None without a lock."""
        with convert_os_errors("read the lock file", self._path):
            try:
                data = read_regular(self._path, _MAXIMUM_BYTES, follow=False)
            except FileNotFoundError:
                return None
            except (NotRegularFile, FileTooLarge):
                # A lock nevertheless, of an unknown holder.
                data = b""
        return locks.parse_lock(data)

    def release(self, lock_id: str) -> None:
        """Release the lock; a BackendProblem if it is no longer held under this id."""
        try:
            holder = self.read_holder()
            if holder is None or holder.id != lock_id:
                raise BackendProblem(locks.format_unlock_failure(lock_id, holder))
            self._remove_lock_file()
        finally:
            self._release_file_lock()

    def forget(self) -> None:
        """End the lock held here after its file was removed with its directory."""
        self._release_file_lock()

    def remove_abandoned_files(self) -> None:
        """Remove temporary lock files of killed processes: those without a flock."""
        name = re.compile(re.escape(self._path.name) + r"\.[0-9a-f]{16}\.tmp")
        with suppress(OSError):
            paths = [path for path in self._path.parent.iterdir() if name.fullmatch(path.name)]
            for path in paths:
                with suppress(OSError, NotRegularFile):
                    _remove_unlocked_file(path)

    def break_lock(self, lock_id: str) -> None:
        """Remove the lock of another process."""
        locks.check_breakable(lock_id, self.read_holder())
        self._remove_lock_file()
        self._release_file_lock()

    def check_still_held(self) -> None:
        """Raise a BackendProblem if this object held the lock and another process broke it."""
        if self._descriptor is not None and not self._is_same_file_at_path(self._descriptor):
            detail = (
                f'Another process broke the lock "{self._path}" during this run. This run writes '
                "nothing more."
            )
            raise BackendProblem(detail)

    def _create_lock_file(self, info: LockInfo) -> bool:
        """Create the lock file, complete from the start; False if there is one."""
        self._created_directories += make_directories(self._path.parent)
        temporary_path, descriptor = self._write_temporary_lock_file(info)
        try:
            try:
                # Atomic: no process finds an incomplete file.
                _give_second_name(temporary_path, self._path.name)
            except FileExistsError:
                os.close(descriptor)
                return False
            except OSError:
                # A file system without hard links.
                os.close(descriptor)
                try:
                    descriptor = _write_lock_file(self._path, info)
                except FileExistsError:
                    # Another process was faster.
                    return False
        finally:
            remove_file(temporary_path, missing_ok=True)
        self._descriptor = descriptor
        return True

    def _write_temporary_lock_file(self, info: LockInfo) -> tuple[Path, int]:
        """Create a complete lock file with its flock, under a temporary name.

        Return its path and descriptor.
        """
        temporary_path = self._path.with_name(f"{self._path.name}.{os.urandom(8).hex()}.tmp")
        return temporary_path, _write_lock_file(temporary_path, info)

    def _replace_dead_holder(self, info: LockInfo) -> list[str] | None:
        """Replace a dead holder and return a warning; None if the file changed meanwhile.

        May raise StateLocked.
        """
        try:
            descriptor = self._open_existing()
        except NotRegularFile:
            raise StateLocked(self.read_holder()) from None
        try:
            has_flock = _try_exclusive_file_lock(descriptor) is _FlockResult.TAKEN
            if not self._is_same_file_at_path(descriptor):
                # Its holder released or replaced it.
                return None
            # The holder lives, or without flock support it cannot be replaced without a race.
            if not has_flock:
                raise StateLocked(self.read_holder())
            data = os.read(descriptor, _MAXIMUM_BYTES)
            holder = locks.parse_lock(data)
            # Distinguishes processes with the same number.
            start = locks.read_lock_member(data, _START)
            if holder.host != os.uname().nodename or not is_process_dead(holder.pid, start):
                # It lives, or its machine is another one.
                raise StateLocked(holder)
            temporary_path, own_descriptor = self._write_temporary_lock_file(info)
            directory, temporary_name = open_parent(temporary_path)
            with directory:
                directory.rename(temporary_name, self._path.name)
            self._descriptor = own_descriptor
            former_holder = locks.describe_lock_holder(holder)
            return [f"The lock of {former_holder} was replaced: that process no longer runs."]
        finally:
            os.close(descriptor)

    def _open_existing(self) -> int:
        """Open the lock file and return its descriptor.

        It is writable if permitted: NFS requires it for a flock.
        """
        try:
            return open_regular_file(self._path, os.O_RDWR, follow=False)
        except PermissionError:
            # The file of another user.
            return open_regular_file(self._path, follow=False)

    def _is_same_file_at_path(self, descriptor: int) -> bool:
        """Return True if the open file is still at the path of the lock.

        It may have been removed or replaced.
        """
        try:
            return os.path.samestat(os.fstat(descriptor), self._path.lstat())
        except FileNotFoundError:
            return False

    def _remove_lock_file(self) -> None:
        """Remove the lock file, also an empty directory at its path."""
        with convert_os_errors("remove the lock file", self._path), suppress(FileNotFoundError):
            directory, name = open_parent(self._path)
            with directory:
                if stat.S_ISDIR(directory.get_status(name).st_mode):
                    directory.remove_directory(name)
                else:
                    directory.remove_file(name)

    def _release_file_lock(self) -> None:
        """Release the flock, and remove directories created only for the lock."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None
        # A directory in use stays.
        with suppress(OSError):
            while self._created_directories:
                parent, name = open_parent(self._created_directories.pop())
                with parent:
                    parent.remove_directory(name)
        self._created_directories = []


def _remove_unlocked_file(path: Path) -> None:
    """Remove a temporary lock file, unless a process has the flock.

    Raises OSError.
    """
    descriptor = open_regular_file(path, follow=False)
    try:
        if _try_exclusive_file_lock(descriptor) is _FlockResult.TAKEN:
            remove_file(path, missing_ok=True)
    finally:
        os.close(descriptor)


def _give_second_name(path: Path, name: str) -> None:
    """Give a file a second name in its directory.

    Raises OSError, also if the name exists.
    """
    directory, old_name = open_parent(path)
    with directory:
        directory.make_second_name(old_name, name, directory)


def _write_lock_file(path: Path, info: LockInfo) -> int:
    """Create a complete lock file with its flock, and return its descriptor.

    Raises OSError.
    """
    descriptor = create_file(path, _READABLE)
    _try_exclusive_file_lock(descriptor)
    write_all_bytes(descriptor, locks.format_lock(info, **{_START: read_process_start(info.pid)}))
    os.fsync(descriptor)
    return descriptor


def read_process_start(pid: int) -> str:
    """Return a text unique to the process with this number; "" if the system has none."""
    boot = _read_text(_BOOT_ID)
    fields = _read_process_fields(pid)
    if not boot or len(fields) <= _START_FIELD:
        # No /proc, or no such process.
        return ""
    return f"{boot.strip()}/{fields[_START_FIELD]}"


def is_process_dead(pid: int, start: str) -> bool:
    """Return whether a process has ended, False if unknown.

    `start` is a text unique to it, "" if unknown: a later process with the same number
    has another one.
    """
    if pid <= 0 or sys.platform == "win32":
        return False
    try:
        # It runs, but belongs to another user.
        with suppress(PermissionError):
            os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return True
    fields = _read_process_fields(pid)
    # The state: ended, but not yet collected by its parent.
    if fields and fields[0] in ("Z", "X"):
        return True
    # A later process; "": unknown.
    return bool(start) and read_process_start(pid) not in (start, "")


def _read_process_fields(pid: int) -> list[str]:
    """Return the fields after the program name in /proc/PID/stat, from the process state on.

    Return [] if the file is unreadable.
    """
    return _read_text(f"/proc/{pid}/stat").rpartition(")")[2].split()


def _read_text(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
