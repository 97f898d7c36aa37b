"""Access to the file system and the clock, and output files: plans, reports, rescued state."""

import os
import re
import stat
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from io import FileIO
from pathlib import Path
from typing import BinaryIO, Final

from nexusform.configuration.declarations.limits import DEFAULT, VARIABLE_PREFIX
from nexusform.diagnostics.diagnostic import DiagnosticsError, build_error
from nexusform.files.directories import LinkInWorkTree, open_parent
from nexusform.files.regular_files import (
    PRIVATE,
    UNCONFINED,
    Confinement,
    FileTooLarge,
    NotRegularFile,
    OutsideConfinement,
    create_file,
    open_regular_file,
    open_regular_to_read,
    read_regular,
    remove_file,
    write_file_atomically,
)
from nexusform.files.run_log import log_event
from nexusform.interfaces.plugins import FileProblem

# Maximum bytes per `file`.
SIZE_CAP: Final = 64 * 1024 * 1024
_SYSTEM_STREAM: Final = re.compile(
    r"/dev/(?:std(?:in|out|err)|fd/\d+)|/proc/(?:self|thread-self|\d+)/(?:.*/)?fd/\d+"
)

# A plan, a key, another binary file, or JSON other than our reports, events and exports.
_FOREIGN_DOCUMENT: Final = re.compile(
    rb'(?!\s*\{\s*"(?:format_version|\$schema": "https://docs\.oasis|event": "(?:REQ|COMM)|'
    rb'@level"|//": "Written by nexusform|'
    rb'[^"]+": \{\s*"vnfInstanceId))(?:\s*[{\[]|PK|-----BEGIN|[^\0]*\0)'
)


def read_file(
    path: str, max_bytes: int, confinement: Confinement = UNCONFINED, *, hint: str = ""
) -> bytes:
    """Read a file of at most `max_bytes`; `hint` explains how to allow more.

    Raises FileProblem.
    """
    log_event("debug", "file read", path=path)
    with _convert_os_errors_to_file_problems(path, max_bytes, hint):
        return read_regular(confinement.resolve(path), max_bytes)


def open_file(
    path: str, max_bytes: int, confinement: Confinement = UNCONFINED, *, hint: str = ""
) -> BinaryIO:
    """Open a file for reading in pieces, with the checks of `read_file`."""
    log_event("debug", "file read", path=path)
    with _convert_os_errors_to_file_problems(path, max_bytes, hint):
        return open_regular_to_read(confinement.resolve(path), max_bytes)


@contextmanager
def _convert_os_errors_to_file_problems(path: str, max_bytes: int, hint: str) -> Iterator[None]:
    """Raise FileProblem with a message for each kind of error in reading a file."""
    try:
        yield
    except FileNotFoundError:
        raise FileProblem(f'There is no file "{path}".') from None
    except NotRegularFile:
        raise FileProblem(f'"{path}" is not a regular file.') from None
    except FileTooLarge:
        detail = f'"{path}" is larger than {max_bytes} bytes, the limit for files. {hint}'
        raise FileProblem(detail.rstrip()) from None
    except OSError as problem:
        raise FileProblem(f'"{path}" cannot be read: {problem.strerror}.') from None
    except ValueError:
        raise FileProblem(f"{path!r} is not the name of a file.") from None


class ConfinedFileAccess:
    """Bounded reads of regular files within a confinement."""

    def __init__(
        self, confinement: Confinement = UNCONFINED, budget_mib: int = DEFAULT.read_mib
    ) -> None:
        self._confinement = confinement
        self._budget_mib = budget_mib
        # Number of bytes so far.
        self._read_bytes = 0

    def read(self, path: str) -> bytes:
        """Return the whole content.

        Raises FileProblem for missing, special or too large files. Raises DiagnosticsError if the
        read budget is exhausted; this ends the run even inside `try` or `can`.
        """
        remaining_bytes = (self._budget_mib << 20) - self._read_bytes
        if remaining_bytes <= 0:
            detail = (
                f'"{path}" is not read: this run already read {self._budget_mib:,} MiB of files, '
                "the limit. To read more, raise the limit: -limit=read_mib=N or "
                f"{VARIABLE_PREFIX}READ_MIB=N."
            )
            raise DiagnosticsError(build_error("read-budget", detail))
        content = read_file(path, SIZE_CAP, self._confinement)
        self._read_bytes += len(content)
        return content

    def is_file(self, path: str) -> bool:
        """Return whether a file exists.

        Raises FileProblem for other kinds, or outside of the confinement.
        """
        try:
            status = Path(self._confinement.resolve(path)).stat()
        except (FileNotFoundError, NotADirectoryError):
            return False
        except OutsideConfinement as problem:
            raise _create_outside_error(path, problem) from None
        except (OSError, ValueError) as problem:
            raise FileProblem(f'"{path}" cannot be read: {problem}.') from None
        if not stat.S_ISREG(status.st_mode):
            kind = "a directory" if stat.S_ISDIR(status.st_mode) else "no regular file"
            raise FileProblem(f'"{path}" is {kind}, not a file.')
        return True

    def find_files(self, base: str, pattern: str) -> list[str]:
        """Return the regular files below `base` matching the pattern, sorted.

        The paths are relative to `base`, with slashes.
        """
        from nexusform.workflow.opening.file_patterns import find_matching_files

        return find_matching_files(base or ".", pattern, self)

    def is_start_directory(self, path: Path) -> bool:
        """Return whether a directory exists.

        Raises FileProblem outside of the confinement.
        """
        return self._check_path(path, Path.is_dir)

    def resolve_path(self, path: str) -> str:
        """Return the absolute path without `.` and `..`."""
        return os.path.normpath(Path.cwd() / path).replace(os.sep, "/")

    def expand_home(self, path: str) -> str:
        """Replace a leading `~` with the home directory.

        Raises FileProblem if confined or for unknown users.
        """
        if not path.startswith("~"):
            return path
        if self._confinement.root:
            raise _create_outside_error(
                path, OutsideConfinement(self._confinement.root, self._confinement.reason)
            )
        try:
            return str(Path(path).expanduser())
        except RuntimeError:
            raise FileProblem(f'"{path}" is the home directory of an unknown user.') from None

    def is_directory(self, path: Path) -> bool:
        """Return whether a directory exists within the confinement; False outside of it."""
        try:
            return Path(self._confinement.resolve(path)).is_dir()
        except (OSError, ValueError):
            return False

    def is_readable_file(self, path: Path) -> bool:
        """Return whether a readable regular file exists.

        Raises FileProblem outside of the confinement.
        """
        return self._check_path(path, Path.is_file)

    def _check_path(self, path: Path, check: Callable[[Path], bool]) -> bool:
        """Return the result of a check of a path; False if it fails.

        Raises FileProblem outside of the confinement.
        """
        try:
            return check(Path(self._confinement.resolve(path)))
        except OutsideConfinement as problem:
            raise _create_outside_error(str(path), problem) from None
        except (OSError, ValueError):
            # For example a name longer than any file system allows.
            return False


def _create_outside_error(path: str, problem: OutsideConfinement) -> FileProblem:
    return FileProblem(f'"{path}" cannot be read: {problem.strerror}.')


class SystemClock:
    """The clock of this machine."""

    def read_time(self) -> datetime:
        """Return the current time, UTC."""
        return datetime.now(UTC)

    def sleep(self, seconds: float) -> None:
        """Wait for the given seconds."""
        time.sleep(seconds)


def write_output(
    path: str, content: bytes | Iterable[bytes], *, private: bool = False, durable: bool = True
) -> None:
    """Write a file atomically, also in pieces; `private` restricts access to the owner.

    A file not `durable` is for this command only, so it is not synced. A link is replaced, not
    followed, because an untrusted work tree may contain any link. A pipe or /dev/stdout is written
    directly. Raises OSError.
    """
    target = Path(path)
    if is_stream_or_directory(target):
        with target.open("wb") as stream:
            stream.writelines((content,) if isinstance(content, bytes) else content)
        return
    # An older file may be readable by others.
    mode = PRIVATE if private else 0o666
    write_file_atomically(target, content, mode, durable=durable, keeps_mode=not private)


def open_output(path: str) -> FileIO:
    """Create or replace a file that is written piece by piece; a pipe is opened as it is.

    Nothing is buffered. Raises OSError.
    """
    if is_stream_or_directory(Path(path)):
        return FileIO(path, "w")
    remove_older_output(path)
    return FileIO(create_file(path, 0o666), "w")


def may_be_input(path: str, confinement: Confinement) -> bool:
    """Return whether the file at an output path may be the user's.

    Such a file is not empty, and unlike the outputs of nexusform.
    """
    target = Path(path)
    if is_stream_or_directory(target):
        return False
    try:
        with os.fdopen(open_regular_file(confinement.resolve_path_of_operator(path)), "rb") as file:
            head = file.read(4096)
    except OSError:
        # No file, or a link to replace.
        return False
    # Outputs of nexusform of this kind have these beginnings.
    is_data = target.suffix in (".csv", ".yaml", ".yml", ".tftpl")
    is_foreign = is_data and not head.startswith(
        (b"kind,address,", b"# Written by nexusform", b"#!")
    )
    return bool(head) and (is_foreign or bool(_FOREIGN_DOCUMENT.match(head)))


def remove_older_output(path: str) -> None:
    """Delete the older file at an output path; a stream or a directory stays.

    Raises OSError.
    """
    target = Path(path)
    if not is_stream_or_directory(target):
        remove_file(path, missing_ok=True)


def explain_unwritable_file(path: str) -> str:
    """Return why a file cannot be written; "" if it probably can."""
    target = Path(path)
    folder = target.parent
    if target.is_dir():
        return f'"{path}" is a directory.'
    if not folder.is_dir():
        return f'"{path}" cannot be written: there is no directory "{folder}".'
    # The write reports other problems.
    with suppress(OSError):
        try:
            open_parent(path)[0].close()
        except LinkInWorkTree as problem:
            return f'"{path}" cannot be written: {problem.strerror}.'
    if not is_stream_or_directory(target) and not os.access(folder, os.W_OK):
        return f'"{path}" cannot be written: no write permission in the directory "{folder}".'
    return ""


def is_stream_or_directory(path: Path) -> bool:
    """Return whether a path must not be replaced.

    This holds for a pipe, a device, a directory or a system link such as /dev/stdout (possibly to a
    file). Files (also in /dev/shm), other links and missing paths may be replaced.
    """
    if _SYSTEM_STREAM.fullmatch(str(path.absolute())):
        return True
    try:
        kind = path.lstat().st_mode
    except FileNotFoundError:
        return False
    return not (stat.S_ISREG(kind) or stat.S_ISLNK(kind))
