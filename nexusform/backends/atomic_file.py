"""Files that are whole or not there: written aside, synced, then renamed into place."""

from __future__ import annotations

import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from nexusform.ports import BackendProblem

PRIVATE: Final = 0o600


@contextmanager
def explained(what: str, path: Path) -> Iterator[None]:
    """Turn an error of the operating system into a BackendProblem that says what could not be done."""
    try:
        yield
    except OSError as problem:
        why = problem.strerror or str(problem)
        hint = _HINTS.get(type(problem), "")
        raise BackendProblem(f'Cannot {what} "{path}": {why}.{hint}') from None


_HINTS: Final[dict[type[OSError], str]] = {
    PermissionError: " Give this user the right to it, or use another path.",
    IsADirectoryError: " A file is needed there.",
    NotADirectoryError: " A part of the path is a file where a directory is needed.",
}


def read_regular(path: Path) -> bytes | None:
    """The content of a regular file, None when there is none. Raises OSError, BackendProblem."""
    try:
        kind = path.stat().st_mode
    except FileNotFoundError:
        return None
    if not stat.S_ISREG(kind):
        raise BackendProblem(f'"{path}" is not a regular file; state is kept in regular files only.')
    return path.read_bytes()


def write_whole(path: Path, content: bytes, mode: int, backup: Path | None = None) -> None:
    """Replace the file at once; the one before is kept under `backup` when a name is given.

    A symbolic link is followed. Raises OSError; then the file is as it was.
    """
    target = path.resolve()
    aside = _aside(target)
    try:
        descriptor = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
        try:
            write_all(descriptor, content)
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        _keep_mode(target, aside)
        if backup is not None:
            _keep(target, backup)
        aside.replace(target)
    except BaseException:
        with suppress(OSError):
            aside.unlink()
        raise
    sync_directory(target.parent)


def write_all(descriptor: int, content: bytes) -> None:
    """Write every byte. Raises OSError."""
    rest = memoryview(content)
    while rest:
        rest = rest[os.write(descriptor, rest) :]


def _aside(path: Path) -> Path:
    return path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")


def _keep_mode(old: Path, new: Path) -> None:
    with suppress(FileNotFoundError):
        new.chmod(stat.S_IMODE(old.stat().st_mode))


def _keep(path: Path, backup: Path) -> None:
    """Give the file a second name, replacing what had it."""
    if not path.exists():
        return
    aside = _aside(backup)
    try:
        aside.hardlink_to(path)
    except OSError:
        import shutil

        shutil.copyfile(path, aside)  # a file system without hard links
    aside.replace(backup)


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


def make_directories(path: Path) -> list[Path]:
    """Make the directory and those above it; the ones made, outermost first. Raises OSError."""
    missing = []
    while not path.is_dir() and path != path.parent:
        missing.append(path)
        path = path.parent
    missing.reverse()
    for directory in missing:
        directory.mkdir(exist_ok=True)
        sync_directory(directory.parent)
    return missing
