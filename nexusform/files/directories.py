"""Directories held open: files are created, renamed and removed relative to a descriptor.

A work tree may be prepared by others, and a committed link may lead to any directory of the user.
So the path of a written file is followed part by part, and such a link on it is an error. A link
of the user is followed: one outside of the work tree, or one that git does not track.
"""

import errno
import os
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import lru_cache
from pathlib import Path
from typing import Final, Self

# The default name of the data directory.
DATA_DIRECTORY: Final = ".nexusform"
# Windows opens no directories, and its links need a privilege: there, paths are joined.
_HAS_DESCRIPTORS: Final = os.open in os.supports_dir_fd
_NO_FOLLOW: Final = getattr(os, "O_NOFOLLOW", 0)
# A directory that may be passed, but not listed, has no other descriptor.
_PASS_FLAGS: Final = (
    getattr(os, "O_PATH", os.O_RDONLY)
    | getattr(os, "O_DIRECTORY", 0)
    | getattr(os, "O_CLOEXEC", 0)
    | _NO_FOLLOW
)
_LIST_FLAGS: Final = (
    os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_CLOEXEC", 0) | _NO_FOLLOW
)
_MAX_LINKS: Final = 40
_GIT_SECONDS: Final = 60
_UNTRACKED: Final = 1


class LinkInWorkTree(OSError):
    """Link of a work tree on the path of a file to write."""

    def __init__(self, link: str, target: str) -> None:
        shown_link = os.path.relpath(link) if link.startswith(f"{_get_current_path()}/") else link
        remedy = (
            "set NF_DATA_DIR to a directory outside of the work tree"
            if DATA_DIRECTORY in Path(link).parts
            else "use the path of its target"
        )
        super().__init__(
            errno.ELOOP,
            f'"{shown_link}" in the work tree is a link to "{target}", which is not followed. '
            f"Remove the link. If it is yours, {remedy}",
        )


class _RelativeOpening(threading.local):
    """Whether this thread opens a name relative to a descriptor."""

    is_active: bool = False


_RELATIVE_OPENING: Final = _RelativeOpening()


def is_opening_relative_name() -> bool:
    """Return whether this thread opens an entry of an open directory.

    The sandbox checked the path of the directory, and cannot check a name.
    """
    return _RELATIVE_OPENING.is_active


@contextmanager
def _open_relative_name() -> Iterator[None]:
    _RELATIVE_OPENING.is_active = True
    try:
        yield
    finally:
        _RELATIVE_OPENING.is_active = False


class OpenDirectory:
    """Directory held open; the names of its methods are entries, never paths or links."""

    def __init__(self, path: str, descriptor: int | None) -> None:
        """Own an open descriptor; None on a system without."""
        self.path = path
        self._descriptor = descriptor

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the descriptor."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def _locate(self, name: str) -> str:
        """Return the name, to use with the descriptor, or the path on a system without."""
        if not name or name in (".", "..") or "/" in name:
            raise OSError(errno.EINVAL, f"{name!a} is not the name of a file")
        return name if self._descriptor is not None else os.path.join(self.path, name)  # noqa: PTH118

    def open_file(self, name: str, flags: int, mode: int = 0o600) -> int:
        """Open a file without following a link, and return its descriptor.

        Raises OSError.
        """
        located_name = self._locate(name)
        with _open_relative_name():
            return os.open(located_name, flags | _NO_FOLLOW, mode, dir_fd=self._descriptor)

    def open_directory(self, name: str, *, create: bool = False, mode: int = 0o777) -> Self:
        """Open a directory in this one, created if missing.

        Raises OSError; LinkInWorkTree for a link.
        """
        located_name = self._locate(name)
        if create:
            with suppress(FileExistsError):
                self.make_directory(name, mode)
        status = self.get_status(name)
        path = os.path.join(self.path, name)  # noqa: PTH118
        if stat.S_ISLNK(status.st_mode):
            raise LinkInWorkTree(path, self.read_link(name))
        if not stat.S_ISDIR(status.st_mode):
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))
        if self._descriptor is None:
            return type(self)(path, None)
        with _open_relative_name():
            descriptor = os.open(located_name, _PASS_FLAGS, dir_fd=self._descriptor)
        return type(self)(path, descriptor)

    def open_again(self) -> Self:
        """Open this directory a second time, to be closed on its own.

        Raises OSError.
        """
        descriptor = None if self._descriptor is None else os.dup(self._descriptor)
        return type(self)(self.path, descriptor)

    def open_parent_directory(self) -> Self:
        """Open the directory around this one.

        Raises OSError.
        """
        path = os.path.dirname(self.path)  # noqa: PTH120
        if self._descriptor is None:
            return type(self)(path, None)
        with _open_relative_name():
            descriptor = os.open("..", _PASS_FLAGS, dir_fd=self._descriptor)
        return type(self)(path, descriptor)

    def make_directory(self, name: str, mode: int = 0o777) -> None:
        """Create a directory.

        Raises OSError, also if the name exists.
        """
        os.mkdir(self._locate(name), mode, dir_fd=self._descriptor)

    def make_link(self, name: str, target: str) -> None:
        """Create a link.

        Raises OSError, also if the name exists.
        """
        os.symlink(target, self._locate(name), dir_fd=self._descriptor)

    def make_second_name(self, name: str, new_name: str, target: "OpenDirectory") -> None:
        """Give a file a second name in a directory.

        Raises OSError, also if the new name exists, or without hard links.
        """
        os.link(
            self._locate(name),
            target._locate(new_name),  # noqa: SLF001 - of this class
            src_dir_fd=self._descriptor,
            dst_dir_fd=target._descriptor,  # noqa: SLF001 - of this class
            follow_symlinks=False,
        )

    def get_status(self, name: str) -> os.stat_result:
        """Return the status of an entry, without following a link.

        Raises OSError.
        """
        return os.stat(self._locate(name), dir_fd=self._descriptor, follow_symlinks=False)

    def has_entry(self, name: str) -> bool:
        """Return whether an entry exists, also a broken link.

        Raises OSError.
        """
        try:
            self.get_status(name)
        except FileNotFoundError:
            return False
        return True

    def read_link(self, name: str) -> str:
        """Return the target of a link.

        Raises OSError.
        """
        return os.readlink(self._locate(name), dir_fd=self._descriptor)

    def set_mode(self, name: str, mode: int) -> None:
        """Set the mode of a file that is not a link.

        Raises OSError.
        """
        if self._descriptor is None:
            os.chmod(self._locate(name), mode)  # noqa: PTH101
            return
        descriptor = self.open_file(name, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
        try:
            os.fchmod(descriptor, mode)
        finally:
            os.close(descriptor)

    def rename(self, name: str, new_name: str, target: "OpenDirectory | None" = None) -> None:
        """Rename an entry, in place of a file of the new name, also into another directory.

        Raises OSError.
        """
        directory = target or self
        os.replace(
            self._locate(name),
            directory._locate(new_name),  # noqa: SLF001 - of this class
            src_dir_fd=self._descriptor,
            dst_dir_fd=directory._descriptor,  # noqa: SLF001 - of this class
        )

    def remove_file(self, name: str, *, missing_ok: bool = False) -> None:
        """Remove a file or a link.

        Raises OSError.
        """
        try:
            os.unlink(self._locate(name), dir_fd=self._descriptor)
        except FileNotFoundError:
            if not missing_ok:
                raise

    def remove_directory(self, name: str) -> None:
        """Remove an empty directory.

        Raises OSError.
        """
        os.rmdir(self._locate(name), dir_fd=self._descriptor)

    def remove_tree(self, name: str) -> None:
        """Remove a directory with its entries, or a file or link of this name.

        Raises OSError.
        """
        if not stat.S_ISDIR(self.get_status(name).st_mode):
            self.remove_file(name)
            return
        # Opened directories with the names that are still to be removed; the deepest one is last.
        directory = self.open_directory(name)
        levels = [(directory, directory.list_names())]
        try:
            while levels:
                directory, names = levels[-1]
                if not names:
                    directory.close()
                    levels.pop()
                    parent = levels[-1][0] if levels else self
                    parent.remove_directory(os.path.basename(directory.path))  # noqa: PTH119
                    continue
                entry = names.pop()
                if stat.S_ISDIR(directory.get_status(entry).st_mode):
                    subdirectory = directory.open_directory(entry)
                    levels.append((subdirectory, subdirectory.list_names()))
                else:
                    directory.remove_file(entry)
        finally:
            for directory, _ in levels:
                directory.close()

    def list_names(self) -> list[str]:
        """Return the names of all entries, sorted.

        Raises OSError.
        """
        if self._descriptor is None:
            return sorted(os.listdir(self.path))  # noqa: PTH208
        with _open_relative_name():
            descriptor = os.open(".", _LIST_FLAGS, dir_fd=self._descriptor)
        try:
            return sorted(os.listdir(descriptor), key=os.fsencode)  # noqa: PTH208
        finally:
            os.close(descriptor)

    def sync(self) -> None:
        """Sync the names to disk, if the system supports it."""
        if self._descriptor is None:
            return
        with suppress(OSError), _open_relative_name():
            descriptor = os.open(".", _LIST_FLAGS, dir_fd=self._descriptor)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)


def open_directory(path: str | Path, *, create: bool = False, mode: int = 0o777) -> OpenDirectory:
    """Open a directory, created with its parents if missing (`mode` is that of the last one).

    Raises OSError; LinkInWorkTree if a committed link is on the path.
    """
    _declare_opening(path, os.O_RDWR)
    return _open_path(path, create=create, mode=mode)


def open_parent(path: str | Path, *, create: bool = False) -> tuple[OpenDirectory, str]:
    """Open the directory of a file, created if missing; return it with the name of the file.

    Raises OSError; LinkInWorkTree if a committed link is on the path to the directory.
    """
    parent, name = os.path.split(os.fspath(path))
    if name in ("", ".", ".."):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    _declare_opening(path, os.O_RDWR | _NO_FOLLOW)
    return _open_path(parent or ".", create=create), name


def _declare_opening(path: str | Path, flags: int) -> None:
    """Raise the audit event of Python for a path, so that a sandbox can reject it.

    The path is followed by names relative to descriptors, of which an event does not tell.
    """
    sys.audit("open", os.fspath(path), None, flags)


def _open_path(path: str | Path, *, create: bool, mode: int = 0o777) -> OpenDirectory:
    directory, missing = _follow_path(path)
    if missing and not create:
        directory.close()
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
    for position, name in enumerate(missing):
        is_last = position == len(missing) - 1
        with directory as parent:
            directory = parent.open_directory(name, create=True, mode=mode if is_last else 0o777)
            parent.sync()
    return directory


def make_directories(path: str | Path, mode: int = 0o777) -> list[Path]:
    """Create a directory and its parents; return the created ones, outermost first.

    Raises OSError; LinkInWorkTree if a committed link is on the path.
    """
    directory, missing = _follow_path(path)
    directory.close()
    if missing:
        open_directory(path, create=True, mode=mode).close()
    # The parts as the caller writes them, so that they can be removed by these paths.
    parts = [Path(path), *Path(path).parents][: len(missing)]
    return parts[::-1]


def remove_tree(path: str | Path) -> None:
    """Remove a directory with its files.

    Raises OSError.
    """
    directory, name = open_parent(path)
    with directory:
        directory.remove_tree(name)


def resolve_links(path: str | Path) -> str:
    """Return the path of a file to write with its links followed, also one of its last part.

    Raises OSError; LinkInWorkTree if a committed link is on the path.
    """
    directory, missing = _follow_path(path, follows_files=True)
    directory.close()
    return os.path.join(directory.path, *missing)  # noqa: PTH118


def _follow_path(
    path: str | Path, *, follows_files: bool = False
) -> tuple[OpenDirectory, list[str]]:
    """Open the directories of a path as far as they exist; return the last one, and missing parts.

    With `follows_files` the path may be that of a file, or of a link to one: then the last part
    is returned as missing. Raises OSError; LinkInWorkTree if a committed link is on the path.
    """
    parts = _split_path(os.path.join(_get_current_path(), path))  # noqa: PTH118
    directory = _open_root(parts)
    work_tree = ""
    link_count = 0
    try:
        while parts:
            work_tree = _find_work_tree(directory, work_tree)
            name = parts.pop()
            if name == "..":
                directory = _enter(directory, directory.open_parent_directory())
                continue
            try:
                mode = directory.get_status(name).st_mode
            except FileNotFoundError:
                return directory, [name, *reversed(parts)]
            if stat.S_ISLNK(mode):
                link_count += 1
                parts += _split_path(_read_link_of_user(directory, name, work_tree, link_count))
                directory = _enter(directory, _open_root(parts))
                work_tree = ""
            elif follows_files and not parts and not stat.S_ISDIR(mode):
                return directory, [name]
            else:
                directory = _enter(directory, directory.open_directory(name))
    except BaseException:
        directory.close()
        raise
    return directory, []


def _read_link_of_user(directory: OpenDirectory, name: str, work_tree: str, link_count: int) -> str:
    """Return the absolute target of a link on a path.

    Raises OSError for too many links on it; LinkInWorkTree for a committed link.
    """
    if link_count > _MAX_LINKS:
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
    link = os.path.join(directory.path, name)  # noqa: PTH118
    target = directory.read_link(name)
    if not _is_link_of_user(link, work_tree):
        raise LinkInWorkTree(link, target)
    return os.path.join(directory.path, target)  # noqa: PTH118


def _enter(directory: OpenDirectory, next_directory: OpenDirectory) -> OpenDirectory:
    """Close a directory, and return the next one of a path."""
    directory.close()
    return next_directory


def _get_current_path() -> str:
    """Return the path of the current directory; "/" if it is deleted."""
    try:
        return os.getcwd()  # noqa: PTH109
    except FileNotFoundError:
        return os.sep


def _split_path(path: str) -> list[str]:
    """Return the parts of an absolute path, last one first, without "." and empty ones."""
    drive, rest = os.path.splitdrive(path)
    parts = [part for part in rest.replace(os.sep, "/").split("/") if part not in ("", ".")]
    return [*reversed(parts), *([drive] if drive else [])]


def _open_root(parts: list[str]) -> OpenDirectory:
    """Open the root directory; on Windows that of the drive, removed from the parts."""
    if not _HAS_DESCRIPTORS:
        return OpenDirectory(f"{parts.pop()}{os.sep}", None)
    with _open_relative_name():
        return OpenDirectory(os.sep, os.open(os.sep, _PASS_FLAGS))


def _find_work_tree(directory: OpenDirectory, outer_work_tree: str) -> str:
    """Return the path of the work tree of git that a directory is the top of, else the outer one.

    An unreadable directory is no top.
    """
    with suppress(OSError):
        if directory.has_entry(".git"):
            return directory.path
    return outer_work_tree


def _is_link_of_user(link: str, work_tree: str) -> bool:
    """Return whether a link was made by the user, who may lead a path to anywhere.

    Without a repository nothing tells who made it. Then the data directory has no links.
    """
    if not work_tree:
        return DATA_DIRECTORY not in Path(link).parts
    status = os.lstat(link)
    return _is_untracked(link, work_tree, (status.st_ino, status.st_ctime_ns))


@lru_cache(maxsize=256)
def _is_untracked(path: str, work_tree: str, version: tuple[int, int]) -> bool:  # noqa: ARG001
    """Return whether git knows that it does not track a path; False if it cannot be asked.

    The answer is kept for a `version` of the link: its number and time of change.
    """
    # No setting of the work tree or of the machine starts a program.
    settings = ("safe.directory=*", "core.fsmonitor=false", "core.hooksPath=/dev/null")
    command = ["git", "--literal-pathspecs", *[word for pair in settings for word in ("-c", pair)]]
    command += ["ls-files", "--error-unmatch", "--", os.path.relpath(path, work_tree)]
    environment = {
        "PATH": os.environ.get("PATH", os.defpath),
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": os.devnull,
        "LC_ALL": "C",
    }
    try:
        result = subprocess.run(  # noqa: S603 - a fixed program with fixed settings
            command,
            cwd=work_tree,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_GIT_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return result.returncode == _UNTRACKED
