"""The lock beside a local state: a file that says who holds it.

Two things together: the file exists (made complete under another name and linked into place, so
only one can make it), and its holder keeps a flock on it, which the system lifts when the
process ends. Whoever finds the file and gets the flock knows that the holder on this host is
gone; under that flock it renames a file of its own over it. Of two that try, one gets the flock;
the other, getting it later, sees that the file at the path is no longer the one it locked.
"""

from __future__ import annotations

import errno
import os
import secrets
import socket
import sys
from contextlib import suppress
from enum import Enum
from pathlib import Path
from typing import Final

from nexusform.backends import locks
from nexusform.backends.state_files import explained, make_directories
from nexusform.regular_files import NotRegular, TooLarge, create, open_regular, read_regular, write_all
from nexusform.state_ports import BackendProblem, LockHeld, LockInfo

_READABLE: Final = 0o644  # others are to see who holds the lock
_ATTEMPTS: Final = 100
_MOST_BYTES: Final = 1 << 20
_START: Final = "Start"
_BOOT_ID: Final = "/proc/sys/kernel/random/boot_id"
# Fields of /proc/PID/stat, counted from the one after the command's name.
_STATE_FIELD: Final = 0
_START_FIELD: Final = 19


class _Flock(Enum):
    TAKEN = 1
    HELD = 2
    UNSUPPORTED = 3


def _flock(descriptor: int) -> _Flock:
    """Try to take the flock of an open file."""
    if sys.platform == "win32":
        return _Flock.UNSUPPORTED
    import fcntl

    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as problem:
        held = problem.errno in (errno.EWOULDBLOCK, errno.EACCES)
        return _Flock.HELD if held else _Flock.UNSUPPORTED
    return _Flock.TAKEN


class LocalLock:
    """The lock file at one path. Raises BackendProblem when the file system refuses."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._descriptor: int | None = None
        self._made: list[Path] = []

    def take(self, info: LockInfo) -> list[str]:
        """Take the lock or raise LockHeld; warnings when a dead holder was replaced."""
        with explained("make the lock file", self._path):
            for _ in range(_ATTEMPTS):
                try:
                    if self._create(info):
                        return []
                    warnings = self._take_over(info)
                except FileNotFoundError:
                    continue  # somebody gave the lock back, or took its empty directory away
                if warnings is not None:
                    return warnings
        raise LockHeld(self.holder())

    def holder(self) -> LockInfo | None:
        """Who the file says holds the lock, None when there is none."""
        data = self._content()
        return locks.from_json(data) if data is not None else None

    def release(self, lock_id: str) -> None:
        """Give the lock back; a BackendProblem when it is no longer held under this id."""
        try:
            holder = self.holder()
            if holder is None or holder.id != lock_id:
                now = f"it is held by {locks.describe(holder)}" if holder else "nobody holds it"
                raise BackendProblem(f'The lock "{lock_id}" was not released: {now} now. Somebody broke it.')
            self._remove()
        finally:
            self._let_go()

    def break_lock(self, lock_id: str) -> None:
        """Remove the lock of another process."""
        holder = self.holder()
        if holder is None:
            raise BackendProblem(f'Nothing to unlock: nobody holds the lock "{self._path}".')
        if holder.id != lock_id:
            raise BackendProblem(
                f'Not unlocked: the lock is held by {locks.describe(holder)}, not by "{lock_id}".'
            )
        self._remove()
        self._let_go()

    def check_still_held(self) -> None:
        """Raise a BackendProblem when this object took the lock and somebody broke it since."""
        if self._descriptor is not None and not self._is_at_path(self._descriptor):
            raise BackendProblem(
                f'The lock "{self._path}" was broken by somebody else while it was held here. Nothing more '
                "is written, so that two runs do not write over each other."
            )

    # --- how ---------------------------------------------------------------------------------

    def _content(self) -> bytes | None:
        with explained("read the lock file", self._path):
            try:
                return read_regular(self._path, _MOST_BYTES, follow=False)
            except FileNotFoundError:
                return None
            except (NotRegular, TooLarge):
                return b""  # a lock all the same, of nobody knows whom

    def _create(self, info: LockInfo) -> bool:
        """Make the file if there is none. Raises OSError."""
        self._made += make_directories(self._path.parent)
        aside, descriptor = self._prepare(info)
        try:
            try:
                self._path.hardlink_to(aside)
            except FileExistsError:
                os.close(descriptor)
                return False
            except OSError:
                # A file system without hard links.
                os.close(descriptor)
                return self._create_in_place(info)
        finally:
            aside.unlink()
        self._descriptor = descriptor
        return True

    def _create_in_place(self, info: LockInfo) -> bool:
        """Make the lock file where links are not possible; whether that was this run."""
        try:
            descriptor = create(self._path, _READABLE)
        except FileExistsError:
            return False
        _flock(descriptor)
        write_all(descriptor, _text(info))
        os.fsync(descriptor)
        self._descriptor = descriptor
        return True

    def _prepare(self, info: LockInfo) -> tuple[Path, int]:
        """A complete lock file under a name of its own, flocked."""
        aside = self._path.with_name(f"{self._path.name}.{secrets.token_hex(8)}.tmp")
        descriptor = create(aside, _READABLE)
        _flock(descriptor)
        write_all(descriptor, _text(info))
        os.fsync(descriptor)
        return aside, descriptor

    def _take_over(self, info: LockInfo) -> list[str] | None:
        """Replace a dead holder; None when the file changed meanwhile. May raise LockHeld, OSError."""
        try:
            descriptor = self._open_existing()
        except NotRegular:
            raise LockHeld(self.holder()) from None
        try:
            # Where flock is not supported nobody can be replaced without a race.
            taken = _flock(descriptor) is _Flock.TAKEN
            if not self._is_at_path(descriptor):
                return None
            if not taken:
                raise LockHeld(self.holder())
            data = os.read(descriptor, _MOST_BYTES)
            holder = locks.from_json(data)
            if not _is_dead(holder, locks.member(data, _START)):
                raise LockHeld(holder)
            aside, ours = self._prepare(info)
            aside.replace(self._path)
            self._descriptor = ours
            who = locks.describe(holder)
            return [f"The lock of {who} was taken over: that process no longer runs."]
        finally:
            os.close(descriptor)

    def _open_existing(self) -> int:
        try:
            return open_regular(self._path, os.O_RDWR, follow=False)
        except PermissionError:
            return open_regular(self._path, follow=False)

    def _is_at_path(self, descriptor: int) -> bool:
        try:
            return os.path.samestat(os.fstat(descriptor), self._path.lstat())
        except FileNotFoundError:
            return False

    def _remove(self) -> None:
        with explained("remove the lock file", self._path), suppress(FileNotFoundError):
            if self._path.is_dir() and not self._path.is_symlink():
                self._path.rmdir()
            else:
                self._path.unlink()

    def _let_go(self) -> None:
        """Give the flock back."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None
        # Directories that only the lock needed go again; one that is in use by now stays.
        with suppress(OSError):
            while self._made:
                self._made.pop().rmdir()
        self._made = []


def _text(info: LockInfo) -> bytes:
    return locks.to_json(info, **{_START: start_mark(info.pid)})


def _is_dead(holder: LockInfo, mark: str) -> bool:
    return holder.host == socket.gethostname() and is_gone(holder.pid, mark)


# --- whether a process of this host still runs, told apart from a later one with its number ------


def start_mark(pid: int) -> str:
    """A text that no other process of this number ever has; "" when the system does not tell."""
    boot, fields = _content(_BOOT_ID), _fields(pid)
    if not boot or len(fields) <= _START_FIELD:
        return ""
    return f"{boot.strip()}/{fields[_START_FIELD]}"


def is_gone(pid: int, mark: str) -> bool:
    """Whether the process that had this number and start mark has ended, as far as can be told."""
    if pid <= 0 or sys.platform == "win32":
        return False
    try:
        with suppress(PermissionError):  # it runs, but belongs to somebody else
            os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return True
    fields = _fields(pid)
    if fields and fields[_STATE_FIELD] in ("Z", "X"):
        return True  # ended, and only not yet collected by its parent
    return bool(mark) and start_mark(pid) not in (mark, "")


def _fields(pid: int) -> list[str]:
    return _content(f"/proc/{pid}/stat").rpartition(")")[2].split()


def _content(path: str) -> str:
    """The lock file; None when there is none."""
    try:
        return Path(path).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
