"""Reading and writing files of a work tree that may be prepared by others.

Reads are bounded and reject anything but regular files: a pipe would block, a device would never
end. Files are written under an unpredictable name and then renamed, so that a prepared link is
replaced and not followed. A run may be confined: then files referenced by configuration are read
below one directory only.
"""

from __future__ import annotations

import errno
import os
import re
import stat
import sys
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO, Final

from msgspec import Struct
from msgspec.structs import replace

from nexusform.files.directories import LinkInWorkTree, OpenDirectory, open_directory, open_parent

PRIVATE: Final = 0o600
# Windows has neither these flags nor such links.
_NO_FOLLOW: Final = getattr(os, "O_NOFOLLOW", 0)
_CHUNK: Final = 1 << 20
_OPEN_FLAGS: Final = (
    getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0) | getattr(os, "O_CLOEXEC", 0)
)
_SYSTEM_DIRECTORIES: Final = ("/proc", "/sys", "/dev")
_WRITE_FLAGS: Final = os.O_WRONLY | os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_TRUNC
CREATE_FLAGS: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | _NO_FOLLOW | _OPEN_FLAGS


class NotRegularFile(OSError):
    """Pipe, device or directory; or a link in place of a file of our own."""

    def __init__(self) -> None:
        super().__init__(errno.EINVAL, "it is not a regular file")


class FileTooLarge(OSError):
    """File with more bytes than the reader accepts."""

    def __init__(self, max_bytes: int) -> None:
        super().__init__(errno.EFBIG, f"it is larger than {max_bytes} bytes")


class OutsideConfinement(OSError):
    """Path referenced by configuration that leads outside of the confinement."""

    def __init__(self, root: str, reason: str = "") -> None:
        scope = f"only {root}; {reason}" if reason else f"only {root}"
        super().__init__(errno.EACCES, f"-confine does not allow it ({scope})")


class Confinement(Struct, frozen=True):
    """Allowed targets of paths referenced by configuration.

    A target is below `root` ("": anywhere), but not in `hidden`. Both are absolute and free of
    links. Paths in `revealed` are allowed in spite of both: directories of downloaded modules.
    Every such path passes `resolve` before any access. `is_operator_path` means that the
    operator chose the path, or a directory above it. `reason` explains the confinement, and how
    to disable it.
    """

    root: str = ""
    hidden: tuple[str, ...] = ()
    revealed: tuple[str, ...] = ()
    is_operator_path: bool = False
    reason: str = ""

    def resolve(self, path: str | Path) -> str:
        """Return the path to open for a path of the configuration, links resolved.

        Raises OutsideConfinement. Hidden, Git and system directories are outside, too, and files
        with a name elsewhere. The unresolved path is checked first: before any access.
        """
        path_text = os.fspath(path)
        # Not confined, or a name no file has: opening it fails.
        if not self.root or "\0" in path_text:
            return path_text
        if self.revealed and self._is_revealed(path_text):
            return os.path.realpath(path_text)
        # The operator may name links to the root.
        if not self.is_operator_path and not self.is_inside(path_text):
            raise OutsideConfinement(self.root, self.reason)
        real_path = os.path.realpath(path_text)
        if not is_path_below(real_path, self.root):
            raise OutsideConfinement(self.root, self.reason)
        directories_and_name = Path(real_path).relative_to(self.root).parts
        # It holds credentials of the checkout.
        if ".git" in map(str.casefold, directories_and_name):
            raise OutsideConfinement(self.root, self.reason)
        for directory in (*self.hidden, *_SYSTEM_DIRECTORIES):
            # All paths would be rejected, so ignore this directory.
            hides_root = is_path_below(self.root, directory)
            if is_path_below(real_path, directory) and not hides_root:
                raise OutsideConfinement(self.root, self.reason)
        if _has_names_elsewhere(real_path):
            reason = "it is a hard link to a file elsewhere: replace it by a copy"
            raise OutsideConfinement(self.root, reason)
        return real_path

    def reveal(self, directory: str) -> Confinement:
        """Return the confinement that also allows a directory of downloaded modules.

        Return it unchanged if its path leads out of the work tree by a link: others could have
        put it there.
        """
        if not self.root:
            return self
        with suppress(OSError):
            confinement = replace(self, hidden=(), revealed=())
            paths = (os.path.abspath(directory), confinement.resolve_path_of_operator(directory))  # noqa: PTH100
            return replace(self, revealed=(paths[0], os.path.realpath(paths[1])))
        return self

    def _is_revealed(self, path: str) -> bool:
        """Return whether a path and its target are in a revealed directory."""
        absolute_path = os.path.abspath(path)  # noqa: PTH100 - links stay
        # The unresolved path first: before any access.
        if not any(is_path_below(absolute_path, directory) for directory in self.revealed):
            return False
        real_path = os.path.realpath(path)
        return any(is_path_below(real_path, directory) for directory in self.revealed)

    def resolve_path_of_operator(self, path: str | Path) -> str:
        """Return the path to open for a path of the operator, who may read anything.

        Raises OutsideConfinement. A path through the work tree must stay there as well.
        """
        return self.get_operator_confinement(path).resolve(path)

    def get_operator_confinement(self, path: str | Path) -> Confinement:
        """Return the confinement of a path chosen by the operator, and of files below it.

        Outside the work tree it is UNCONFINED. A path in the work tree, also through links, stays
        confined: others could put a link there.
        """
        if not self.root:
            return UNCONFINED
        is_inside = self.is_inside(path) or self.is_inside(os.path.realpath(Path(path).parent))
        return replace(self, is_operator_path=True) if is_inside else UNCONFINED

    def is_inside(self, path: str | Path) -> bool:
        """Check whether a run is confined, and the unresolved path is below the root."""
        return bool(self.root) and is_path_below(os.path.abspath(path), self.root)  # noqa: PTH100 - links stay


def is_path_below(path: str, directory: str) -> bool:
    """Return whether an absolute path is a directory or in it, by its text."""
    return path == directory or path.startswith(directory.rstrip(os.sep) + os.sep)


def _has_names_elsewhere(path: str) -> bool:
    """Return whether a file has names outside of its directory: hard links.

    A file that is being replaced has a second name beside it. An absent file has no name.
    """
    with suppress(OSError):
        status = os.lstat(path)
        if stat.S_ISREG(status.st_mode) and status.st_nlink > 1:
            with os.scandir(os.path.dirname(path)) as entries:  # noqa: PTH120
                names = sum(entry.inode() == status.st_ino for entry in entries)
            return names < status.st_nlink
    return False


UNCONFINED: Final = Confinement()


def open_regular_file(path: str | Path, flags: int = os.O_RDONLY, *, follow: bool = True) -> int:
    """Open a regular file and return its descriptor.

    Without `follow`, a link raises NotRegularFile; a file opened for writing is never one, and
    no committed link is on its path. Raises OSError.
    """
    try:
        if flags & _WRITE_FLAGS:
            directory, name = open_parent(path)
            with directory:
                descriptor = directory.open_file(name, flags | _OPEN_FLAGS, PRIVATE)
        else:
            descriptor = os.open(path, flags | _OPEN_FLAGS | (0 if follow else _NO_FOLLOW), PRIVATE)
    except LinkInWorkTree:
        raise
    except OSError as problem:
        # A link without `follow`, or a pipe or a directory opened for writing.
        if problem.errno in (errno.ELOOP, errno.EMLINK, errno.ENXIO, errno.EISDIR):
            raise NotRegularFile from None
        raise
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise NotRegularFile
    return descriptor


def read_regular(path: str | Path, max_bytes: int, *, follow: bool = True) -> bytes:
    """Read a whole regular file.

    Raises OSError, NotRegularFile, FileTooLarge (more than `max_bytes`).
    """
    with os.fdopen(open_regular_file(path, follow=follow), "rb") as file:
        # A read allocates its full size, so do not read the maximum at once.
        size = os.fstat(file.fileno()).st_size
        if size > max_bytes:
            raise FileTooLarge(max_bytes)
        # One byte more, in case it grew.
        content = file.read(size + 1)
        while len(content) <= max_bytes and (chunk := file.read(_CHUNK)):
            content += chunk
    if len(content) > max_bytes:
        raise FileTooLarge(max_bytes)
    return content


def open_regular_to_read(path: str | Path, max_bytes: int) -> BinaryIO:
    """Open a regular file of at most this size, to be read in pieces.

    Raises as `read_regular`.
    """
    file = os.fdopen(open_regular_file(path), "rb")
    if os.fstat(file.fileno()).st_size > max_bytes:
        file.close()
        raise FileTooLarge(max_bytes)
    return file


def create_file(path: str | Path, mode: int = PRIVATE) -> int:
    """Create a new file and return its descriptor.

    Raises OSError if the path exists, even as a link.
    """
    directory, name = open_parent(path)
    with directory:
        return directory.open_file(name, CREATE_FLAGS, mode)


def remove_file(path: str | Path, *, missing_ok: bool = False) -> None:
    """Remove a file or a link, with the names on disk unchanged until a sync.

    Raises OSError.
    """
    try:
        directory, name = open_parent(path)
    except FileNotFoundError:
        if missing_ok:
            return
        raise
    with directory:
        directory.remove_file(name, missing_ok=missing_ok)


def write_file_atomically(
    path: str | Path,
    content: bytes | Iterable[bytes],
    mode: int,
    *,
    backup_name: str = "",
    durable: bool = True,
    keeps_mode: bool = True,
    makes_directories: bool = False,
) -> None:
    """Write a file atomically, replacing a file or link at the path.

    The content may be in pieces. With `keeps_mode` the mode of an earlier regular file at the
    path replaces `mode`. Its content is kept under `backup_name` if given. Raises OSError; then
    the earlier file is unchanged.
    """
    directory, name = open_parent(path, create=makes_directories)
    with directory:
        temporary_name = _build_temporary_name(name)
        # Caches need no durability, and their folders take long to scan.
        if durable:
            _remove_abandoned_files(directory, name)
        # A temporary second name of the earlier file.
        old_name = ""
        try:
            descriptor = directory.open_file(temporary_name, CREATE_FLAGS, mode)
            try:
                for chunk in (content,) if isinstance(content, bytes) else content:
                    write_all_bytes(descriptor, chunk)
                if durable:
                    os.fsync(descriptor)
            finally:
                os.close(descriptor)
            if keeps_mode:
                _copy_file_mode(directory, name, temporary_name)
            if backup_name:
                _remove_abandoned_files(directory, backup_name)
                old_name = _link_old_file(directory, name, backup_name)
            directory.rename(temporary_name, name)
            if old_name:
                _replace_backup_file(directory, old_name, name, backup_name)
        except BaseException:
            for leftover in filter(None, (temporary_name, old_name)):
                with suppress(OSError):
                    directory.remove_file(leftover)
            raise
        if durable:
            directory.sync()


def write_all_bytes(descriptor: int, content: bytes) -> None:
    """Write every byte.

    Raises OSError.
    """
    remaining = memoryview(content)
    while remaining:
        remaining = remaining[os.write(descriptor, remaining) :]


def sync_directory(path: str | Path) -> None:
    """Sync the names in a directory to disk, if the system supports it."""
    with suppress(OSError), open_directory(path) as directory:
        directory.sync()


def _build_temporary_name(name: str) -> str:
    return f".{name}.{os.getpid()}-{os.urandom(8).hex()}.tmp"


# Seconds; files being written by another machine are younger.
_LEFTOVER_SECONDS: Final = 60


def remove_abandoned_temporary_files(path: Path, minimum_age: int = _LEFTOVER_SECONDS) -> None:
    """Remove partial files of terminated processes for this path.

    The holder of a lock passes 0 seconds as `minimum_age`: no other machine writes the path.
    """
    with suppress(OSError):
        directory, name = open_parent(path)
        with directory:
            _remove_abandoned_files(directory, name, minimum_age)


def _remove_abandoned_files(
    directory: OpenDirectory, name: str, minimum_age: int = _LEFTOVER_SECONDS
) -> None:
    """Remove partial files of terminated processes for a name; a problem is ignored."""
    # Process number, random digits.
    pattern = re.compile(re.escape(f".{name}.") + r"([0-9]+)-[0-9a-f]{16}\.tmp")
    with suppress(OSError):
        for entry in directory.list_names():
            match = pattern.fullmatch(entry)
            if match is None:
                # Not a temporary file of ours.
                continue
            status = directory.get_status(entry)
            is_old = time.time() - status.st_mtime >= minimum_age
            # A live process of this machine may be slow; one of another machine is not visible, but
            # its files are new.
            is_abandoned = is_old and not is_process_alive(int(match[1]))
            if stat.S_ISREG(status.st_mode) and is_abandoned:
                directory.remove_file(entry, missing_ok=True)


def is_process_alive(process: int) -> bool:
    """Check whether a process of this machine is running; True if unknown."""
    if sys.platform == "win32":
        # The call `os.kill` would terminate it.
        return True
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):
        # Of another user, or no number of a process.
        return True
    return True


def _copy_file_mode(directory: OpenDirectory, old_name: str, new_name: str) -> None:
    """Give the new file the mode of the old one, if that is a regular file."""
    with suppress(FileNotFoundError):
        status = directory.get_status(old_name)
        if stat.S_ISREG(status.st_mode):
            directory.set_mode(new_name, stat.S_IMODE(status.st_mode))


def _link_old_file(directory: OpenDirectory, name: str, backup_name: str) -> str:
    """Give a file a temporary second name (or copy it) for its backup.

    Return this name, or "" for no file or a link.
    """
    if not directory.has_entry(name) or not stat.S_ISREG(directory.get_status(name).st_mode):
        # Of a link only the link is replaced: its target stays.
        return ""
    temporary_name = _build_temporary_name(backup_name)
    try:
        directory.make_second_name(name, temporary_name, directory)
    except OSError:
        # A file system without hard links.
        descriptor = directory.open_file(temporary_name, CREATE_FLAGS, PRIVATE)
        original_descriptor = directory.open_file(name, os.O_RDONLY | _OPEN_FLAGS)
        with os.fdopen(descriptor, "wb") as copy, os.fdopen(original_descriptor, "rb") as original:
            import shutil

            shutil.copyfileobj(original, copy)
    return temporary_name


def _replace_backup_file(
    directory: OpenDirectory, old_name: str, name: str, backup_name: str
) -> None:
    """Rename the old file to the backup.

    If this fails, restore it under its name, and raise the OSError.
    """
    try:
        directory.rename(old_name, backup_name)
    except OSError:
        directory.rename(old_name, name)
        raise


def list_directory(directory: str) -> list[str]:
    """Return the names in a directory, sorted; none if it cannot be read."""
    try:
        return sorted(os.listdir(directory), key=os.fsencode)  # noqa: PTH208 - names, not paths
    except OSError:
        return []
