"""JSON file that simulates the real site: existing objects, separate from the state.

The file is a JSON list of {type, id, creation, attributes}, sorted by the first three; users edit
it. An effect is durable before the provider returns. Small files are rewritten completely each
time; for larger ones effects are appended to a log next to the file (`FILE.pending`), merged at the
end of the run, or after a crash with the next change. Readers write nothing.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from threading import Lock
from typing import Any, Final, TypeAlias

from msgspec import Struct

from nexusform.files.directories import LinkInWorkTree, resolve_links
from nexusform.files.regular_files import (
    PRIVATE,
    FileTooLarge,
    NotRegularFile,
    create_file,
    read_regular,
    remove_file,
    sync_directory,
    write_all_bytes,
    write_file_atomically,
)
from nexusform.interfaces.plugins import ObjectKey, ProviderProblem
from nexusform.state import json_codec

Attributes: TypeAlias = Mapping[str, Any]
_FileIdentities: TypeAlias = tuple[tuple[int, int, int] | None, tuple[int, int, int] | None]

# Bytes; a larger file is an error.
SIZE_LIMIT_BYTES: Final = 512 * 1024 * 1024
# Objects; with more of them changes are appended to the log.
REWRITE_LIMIT: Final = 200


class Reality:
    """Objects of a reality file, safe for several threads."""

    def __init__(self, path: Path) -> None:
        """Resolve a link to its target and start without reading.

        The log of pending changes is next to the file.
        """
        # A link to the file is kept: writes replace the real file.
        self._path = _resolve_link(path) if path.is_symlink() else path
        self._log_path = self._path.with_name(self._path.name + ".pending")
        # For the objects and pending changes.
        self._lock = Lock()
        # One write to the disk at a time.
        self._flushing = Lock()
        # None: the file is not read yet.
        self._objects: dict[ObjectKey, Attributes] | None = None
        # Changes made in memory, but not on the disk yet.
        self._pending: list[_PendingChange] = []
        # Reason by the number of the change.
        self._failures: dict[int, ProviderProblem] = {}
        # Last number of the changes.
        self._last_number = 0
        # Number of the last change on the disk.
        self._last_durable = 0
        self._log: int | None = None  # descriptor
        self._log_size = 0
        # Whether it ends with a part of a failed write, impossible to remove.
        self._is_log_damaged = False
        # Of file and log at the last read or write.
        self._known_identities: _FileIdentities = (None, None)
        # Log of an interrupted run, already applied to the objects.
        self._has_leftover_log = False

    def load(self) -> None:
        """Read the file now: a plan reports its errors."""
        with self._lock:
            self._get_objects()

    def check_presence(self) -> None:
        """Raise a ProviderProblem if there is no file: the objects are then unknown."""
        with self._lock:
            self._get_objects()
            if self._known_identities == (None, None):
                raise ProviderProblem(
                    f"The reality file {self._path} does not exist, so the objects in state are "
                    "unknown. Restore the file. If they were all deleted, write [] into it."
                )

    def get_attributes(self, key: ObjectKey) -> Attributes | None:
        """Return the attributes under a key, or None."""
        with self._lock:
            return self._get_objects().get(key)

    def find_objects(
        self, resource_type: str, object_id: str
    ) -> list[tuple[ObjectKey, Attributes]]:
        """Return all objects of a type with an id, by creation number."""
        with self._lock:
            matches = [
                (k, a)
                for k, a in self._get_objects().items()
                if (k.type, k.id) == (resource_type, object_id)
            ]
        return sorted(matches, key=lambda pair: pair[0].creation)

    def close(self) -> None:
        """Merge the log into the file.

        On failure, everything stays durable in the log.
        """
        with self._flushing, self._lock, suppress(ProviderProblem):
            if self._log is not None:
                self._rewrite_file()

    def set_attributes(self, key: ObjectKey, attributes: Attributes | None) -> None:
        """Set the attributes of an object, or remove it (None), if it exists; durable on return."""
        with self._lock:
            objects = self._get_objects()
            before = objects.get(key)
            # Nothing to remove.
            if attributes is None and before is None:
                return
            _set_object(objects, key, attributes)
            self._last_number += 1
            number = self._last_number
            line = json_codec.render_json([key.type, key.id, key.creation, attributes]) + b"\n"
            self._pending.append(_PendingChange(number, key, before, line))
        self._wait_until_durable(number)

    def _wait_until_durable(self, number: int) -> None:
        """Wait until the change `number` is on disk; the first caller writes the changes of all.

        Raises ProviderProblem if the change could not be written: then it is undone.
        """
        with self._flushing:
            if number in self._failures:
                raise self._failures.pop(number)
            # Written by another caller.
            if self._last_durable >= number:
                return
            with self._lock:
                batch = self._pending
                self._pending = []
                try:
                    # Write a small file again instead of a log. A log left by an earlier run is
                    # merged by this, too.
                    is_small = len(self._get_objects()) <= REWRITE_LIMIT and self._log is None
                    needs_rewrite = is_small or self._has_leftover_log
                    if needs_rewrite:
                        self._rewrite_file()
                except ProviderProblem as problem:
                    self._undo_changes(batch, problem)
            if not needs_rewrite:
                try:
                    self._write_log(b"".join(change.line for change in batch))
                except ProviderProblem as problem:
                    with self._lock:
                        # Later changes may depend on those undone now.
                        self._undo_changes([*batch, *self._pending], problem)
                        self._pending = []
            self._last_durable = max(batch[-1].number, self._last_durable)
        if number in self._failures:
            raise self._failures.pop(number)

    def _undo_changes(self, batch: Sequence[_PendingChange], problem: ProviderProblem) -> None:
        """Undo unwritable changes in memory, so that no later write makes them durable."""
        assert self._objects is not None, "what changed was loaded"
        for change in reversed(batch):
            _set_object(self._objects, change.key, change.before)
            self._failures[change.number] = problem

    def _write_log(self, lines: bytes) -> None:
        """Append lines to the log, durable on return.

        Raises ProviderProblem.
        """
        self._reject_concurrent_file_change()
        if self._is_log_damaged:
            raise ProviderProblem(f"{self._log_path} cannot be written: an earlier write failed.")
        try:
            if self._log is None:
                self._log = create_file(self._log_path)
                self._log_size = 0
                sync_directory(self._path.parent)
            write_all_bytes(self._log, lines)
            os.fsync(self._log)
            self._log_size += len(lines)
            self._known_identities = self._read_file_identities()
        except OSError as problem:
            # Remove the written part of the lines.
            if self._log is not None:
                try:
                    os.ftruncate(self._log, self._log_size)
                    os.lseek(self._log, self._log_size, os.SEEK_SET)
                except OSError:
                    self._is_log_damaged = True
                self._known_identities = self._read_file_identities()
            raise ProviderProblem(
                f"{self._log_path} cannot be written: {problem.strerror}."
            ) from None

    def _rewrite_file(self) -> None:
        """Write the whole file atomically, then delete the log.

        Raises ProviderProblem if the file is not written.
        """
        self._reject_concurrent_file_change()
        try:
            objects = self._get_objects()
            ordered = sorted(objects, key=lambda key: (key.type, key.id, key.creation))
            rows = [
                {"type": k.type, "id": k.id, "creation": k.creation, "attributes": objects[k]}
                for k in ordered
            ]
            document = json_codec.render_json(rows, indent=True) + b"\n"
            write_file_atomically(self._path, document, PRIVATE, makes_directories=True)
        except OSError as problem:
            raise ProviderProblem(
                f"The reality file {self._path} cannot be written: {problem.strerror}."
            ) from None
        # The change is durable now: a log that cannot be removed is removed with the next change.
        self._has_leftover_log = True
        with suppress(OSError):
            if self._log is not None:
                log = self._log
                self._log = None
                os.close(log)
            remove_file(self._log_path, missing_ok=True)
            self._has_leftover_log = False
        self._known_identities = self._read_file_identities()

    def _reject_concurrent_file_change(self) -> None:
        """Raise a ProviderProblem if another process wrote since the last read.

        Its changes would be lost.
        """
        if self._known_identities != self._read_file_identities():
            event = f"Another process changed the reality file {self._path} during this run."
            raise ProviderProblem(f"{event} It was not overwritten.")

    def _read_file_identities(self) -> _FileIdentities:
        return _read_file_identity(self._path), _read_file_identity(self._log_path)

    def _get_objects(self) -> dict[ObjectKey, Attributes]:
        """Return the objects by key.

        The first call reads the file, then changes of an interrupted run in the log.
        """
        if self._objects is None:
            # To notice later writes of other processes.
            self._known_identities = self._read_file_identities()
            objects = _parse_objects(_read_reality_file(self._path), self._path)
            log = _read_reality_file(self._log_path, follow=False)
            # An incomplete last line was never confirmed.
            for line in log.split(b"\n")[:-1]:
                _set_object(objects, *_parse_change_record(line, self._log_path))
            self._objects = objects
            self._has_leftover_log = os.path.lexists(self._log_path)
        return self._objects


def _read_file_identity(path: Path) -> tuple[int, int, int] | None:
    """Return the identity of a file's present version; None if it is missing."""
    try:
        status = path.lstat()
    except OSError:
        return None
    return status.st_ino, status.st_mtime_ns, status.st_size


class _PendingChange(Struct, frozen=True):
    # Change in memory that is not durable yet; `before` is the previous value.
    number: int
    key: ObjectKey
    before: Attributes | None
    line: bytes


def _set_object(
    objects: dict[ObjectKey, Attributes], key: ObjectKey, attributes: Attributes | None
) -> None:
    """Set the attributes of an object, or remove it (None)."""
    if attributes is None:
        objects.pop(key, None)
    else:
        objects[key] = attributes


def _resolve_link(path: Path) -> Path:
    """Follow a link of the user to a reality file.

    Raises ProviderProblem for a committed link.
    """
    try:
        return Path(resolve_links(path))
    except LinkInWorkTree as problem:
        raise ProviderProblem(f"The reality file {path}: {problem.strerror}.") from None
    except OSError:
        # The first read reports it.
        return path


def _read_reality_file(path: Path, *, follow: bool = True) -> bytes:
    """Return the bytes of a regular file, b"" if it is missing.

    Raises ProviderProblem if it cannot be read.
    """
    try:
        return read_regular(path, SIZE_LIMIT_BYTES, follow=follow)
    except FileNotFoundError:
        return b""
    except NotRegularFile:
        raise ProviderProblem(f"The reality file {path} is not a regular file.") from None
    except FileTooLarge:
        raise ProviderProblem(
            f"The reality file {path} is larger than {SIZE_LIMIT_BYTES} bytes."
        ) from None
    except OSError as problem:
        raise ProviderProblem(
            f"The reality file {path} cannot be read: {problem.strerror}."
        ) from None


def _parse_objects(content: bytes, path: Path) -> dict[ObjectKey, Attributes]:
    """Parse the content of a reality file; an empty one has no objects.

    Raises ProviderProblem.
    """
    if not content.strip():
        return {}
    try:
        rows = json_codec.parse_json(content)
    except json_codec.JsonProblem as problem:
        before = json_codec.decode_text_for_display(content)[: problem.offset]
        line = before.count("\n") + 1
        column = problem.offset - before.rfind("\n")
        raise ProviderProblem(
            f"The reality file {path} is not JSON: line {line}, column {column}: {problem.message}."
        ) from None
    if not isinstance(rows, list):
        raise ProviderProblem(
            f"The reality file {path} must be a list of {{type, id, creation, attributes}}."
        )
    objects: dict[ObjectKey, Attributes] = {}
    for position, row in enumerate(rows):
        match row:
            case {"type": str(kind), "id": str(name), "attributes": dict(attributes)} if (
                # True is an int, too.
                type(creation := row.get("creation", 0)) is int
            ):
                key = ObjectKey(kind, name, creation)
            case _:
                raise ProviderProblem(
                    f"The reality file {path}: entry {position} must be an object with type and id "
                    "(texts), creation (a whole number) and attributes (an object)."
                )
        if key in objects:
            repeated = f"{key.type} {key.id}, creation {key.creation}"
            raise ProviderProblem(f"The reality file {path}: entry {position} repeats {repeated}.")
        objects[key] = attributes
    return objects


def _parse_change_record(line: bytes, path: Path) -> tuple[ObjectKey, Attributes | None]:
    """Parse a line [type, id, creation number, attributes]; attributes None mean removal.

    Raises ProviderProblem.
    """
    with suppress(json_codec.JsonProblem):
        match json_codec.parse_json(line):
            case [str(kind), str(name), int(creation), dict() | None as attributes]:
                return ObjectKey(kind, name, creation), attributes
    raise ProviderProblem(f"{path} is damaged: a line is not a change record.")
