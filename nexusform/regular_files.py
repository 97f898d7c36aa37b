"""Reading and writing files of a work tree that somebody else may have laid out.

Reads are bounded and refuse what is no regular file: a pipe would make us wait, a device would never end.
What is written is made complete under a name that nobody can foresee and then renamed into place, so that a
link prepared there is replaced and not followed. A run may be confined: then what configuration names is read
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

PRIVATE: Final = 0o600
_NOT_FOLLOWED: Final = getattr(os, "O_NOFOLLOW", 0)  # Windows has neither these flags nor such links
_CHUNK: Final = 1 << 20
_AT_ONCE: Final = getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0) | getattr(os, "O_CLOEXEC", 0)
_REPOSITORY: Final = ".git"  # holds credentials of the checkout
_SYSTEM: Final = ("/proc", "/sys", "/dev")
_NEW: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | _NOT_FOLLOWED | _AT_ONCE


class NotRegular(OSError):
    """A pipe, a device, a directory; or a link where a file of our own is expected."""

    def __init__(self) -> None:
        super().__init__(errno.EINVAL, "it is not a regular file")


class TooLarge(OSError):
    """More bytes than the reader takes."""

    def __init__(self, most: int) -> None:
        super().__init__(errno.EFBIG, f"it is larger than {most} bytes")


class Outside(OSError):
    """A path that configuration names leads to where a confined run reads nothing."""

    def __init__(self, root: str, why: str = "") -> None:
        only = f"only {root}; {why}" if why else f"only {root}"
        super().__init__(errno.EACCES, f"it leads to where -confine lets no configuration look ({only})")


class Confinement(Struct, frozen=True):
    """Where paths that configuration names may lead: below `root` ("": anywhere), but to none of `hidden`.

    Both are absolute and free of links. Every such path passes `admitted` before a file system is asked.
    `is_operators`: the operator named the path, or the directory that it is below, by whatever name. `why`
    tells those who asked for none how it came about, and how to lift it.
    """

    root: str = ""
    hidden: tuple[str, ...] = ()
    is_operators: bool = False
    why: str = ""

    def admitted(self, path: str | Path) -> str:
        """What to open in place of a path of the configuration, links resolved. Raises Outside.

        The path as written is looked at first, so that nothing is asked about a path that is plainly outside.
        """
        written = os.fspath(path)
        if not self.root or "\0" in written:  # no file has such a name, and whoever opens it says so
            return written
        if not self.is_operators and not self.holds(written):
            raise Outside(self.root, self.why)
        real = os.path.realpath(written)
        if not _is_below(real, self.root):
            raise Outside(self.root, self.why)
        if any(part.casefold() == _REPOSITORY for part in Path(real).relative_to(self.root).parts):
            raise Outside(self.root, self.why)
        if any(
            _is_below(real, hidden) for hidden in (*self.hidden, *_SYSTEM) if not _is_below(self.root, hidden)
        ):
            raise Outside(self.root, self.why)
        return real

    def followed(self, path: str | Path) -> str:
        """What to open in place of a path of the operator, who may read anything. Raises Outside.

        One that leads through the work tree must stay there as well.
        """
        return self.of_operator(path).admitted(path)

    def of_operator(self, path: str | Path) -> Confinement:
        """The confinement of a path that the operator names, and of what is below it: none, unless it leads
        through the work tree. There the name is the operator's, but others say what it stands for.
        """
        if not self.root:
            return FREE
        is_inside = self.holds(path) or self.holds(os.path.realpath(Path(path).parent))
        return replace(self, is_operators=True) if is_inside else FREE

    def holds(self, path: str | Path) -> bool:
        """Whether a run is confined, and a path as it is written is below the root."""
        return bool(self.root) and _is_below(os.path.abspath(path), self.root)  # noqa: PTH100 - links stay


def _is_below(path: str, directory: str) -> bool:
    return path == directory or path.startswith(directory.rstrip(os.sep) + os.sep)


FREE: Final = Confinement()


def open_regular(path: str | Path, flags: int = os.O_RDONLY, *, follow: bool = True) -> int:
    """A descriptor of a file that exists; without `follow` of no link. Raises OSError, NotRegular."""
    try:
        descriptor = os.open(path, flags | _AT_ONCE | (0 if follow else _NOT_FOLLOWED))
    except OSError as problem:
        # A link where none is followed; a pipe or a directory that is opened for writing.
        if problem.errno in (errno.ELOOP, errno.EMLINK, errno.ENXIO, errno.EISDIR):
            raise NotRegular from None
        raise
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise NotRegular
    return descriptor


def read_regular(path: str | Path, most: int, *, follow: bool = True) -> bytes:
    """The whole content of a regular file. Raises OSError, NotRegular, TooLarge (more bytes than `most`)."""
    with os.fdopen(open_regular(path, follow=follow), "rb") as file:
        # As many bytes are set aside as are asked for, so not the most at once.
        size = os.fstat(file.fileno()).st_size
        if size > most:
            raise TooLarge(most)
        content = file.read(size + 1)
        while len(content) <= most and (further := file.read(_CHUNK)):
            content += further
    if len(content) > most:
        raise TooLarge(most)
    return content


def open_to_read(path: str | Path, most: int) -> BinaryIO:
    """A regular file of at most so many bytes, to be read piece by piece. Raises as `read_regular` does."""
    file = os.fdopen(open_regular(path), "rb")
    if os.fstat(file.fileno()).st_size > most:
        file.close()
        raise TooLarge(most)
    return file


def create(path: str | Path, mode: int = PRIVATE) -> int:
    """A descriptor of a new file; nothing may stand there, not even a link. Raises OSError."""
    return os.open(path, _NEW, mode)


def write_whole(
    path: Path,
    content: bytes | Iterable[bytes],
    mode: int,
    *,
    backup: Path | None = None,
    durable: bool = True,
) -> None:
    """Put a file at a path at once, in place of a file or link there. It may come in pieces.

    The one before keeps its mode, and is kept under `backup` when a name is given. Raises OSError; then
    what stood at the path is as it was.
    """
    aside = _beside(path)
    if durable:  # what need not last, such as a cache, has folders that are long to look through
        _remove_leftovers(path)
    former: Path | None = None
    try:
        descriptor = create(aside, mode)
        try:
            for piece in (content,) if isinstance(content, bytes) else content:
                write_all(descriptor, piece)
            if durable:
                os.fsync(descriptor)
        finally:
            os.close(descriptor)
        _keep_mode(path, aside)
        if backup is not None:
            _remove_leftovers(backup)
            former = _second_name(path, backup)
        aside.replace(path)
        if backup is not None and former is not None:
            _keep(former, path, backup)
    except BaseException:
        for left in (aside, former):
            with suppress(OSError):
                if left is not None:
                    left.unlink()
        raise
    if durable:
        sync_directory(path.parent)


def write_all(descriptor: int, content: bytes) -> None:
    """Write every byte. Raises OSError."""
    rest = memoryview(content)
    while rest:
        rest = rest[os.write(descriptor, rest) :]


def sync_directory(path: Path) -> None:
    """Make names in a directory durable, where the system can."""
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except OSError:
        return  # Windows opens no directories
    try:
        with suppress(OSError):
            os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _beside(path: Path) -> Path:
    return path.with_name(f".{path.name}.{os.getpid()}-{os.urandom(8).hex()}.tmp")


_LEFT_FOR: Final = 60  # seconds; what is still being written on another machine is younger


def _remove_leftovers(path: Path) -> None:
    """Remove what processes that died had begun to write for this path."""
    prefix = f".{path.name}."
    name = re.compile(r"([0-9]+)-[0-9a-f]{16}\.tmp")
    with suppress(OSError), os.scandir(path.parent) as entries:
        for entry in entries:
            if not entry.name.startswith(prefix):
                continue
            match = name.fullmatch(entry.name, len(prefix))
            if match is None or not entry.is_file(follow_symlinks=False):
                continue
            old = time.time() - entry.stat(follow_symlinks=False).st_mtime > _LEFT_FOR
            if old and not is_alive(int(match[1])):
                Path(entry.path).unlink(missing_ok=True)


def is_alive(process: int) -> bool:
    """Whether a process of this machine goes on; where that cannot be told, it does."""
    if sys.platform == "win32":
        return True  # to ask would be to end it
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):
        return True
    return True


def _keep_mode(old: Path, new: Path) -> None:
    with suppress(FileNotFoundError):
        status = old.lstat()
        if stat.S_ISREG(status.st_mode):
            new.chmod(stat.S_IMODE(status.st_mode))


def _second_name(path: Path, backup: Path) -> Path | None:
    """The file under a passing name beside its backup, None when there is nothing to keep."""
    if path.is_symlink() or not path.exists():
        return None
    aside = _beside(backup)
    try:
        aside.hardlink_to(path)
    except OSError:
        # A file system without hard links.
        descriptor = create(aside)
        with os.fdopen(descriptor, "wb") as copy, path.open("rb") as original:
            import shutil

            shutil.copyfileobj(original, copy)
    return aside


def _keep(former: Path, path: Path, backup: Path) -> None:
    """Make what stood at the path the backup, or put it back there.

    Last of all: the backup may be what is being written again, and a kill before must not take it away.
    """
    try:
        former.replace(backup)
    except OSError:
        former.replace(path)
        raise
