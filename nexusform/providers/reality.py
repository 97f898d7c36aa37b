"""A file that plays the part of the real site: what stands, apart from what state remembers.

The file is a JSON list of {type, id, creation, attributes}, sorted by the first three; people edit
it. An effect is durable before the provider answers. Small realities are rewritten as a whole each
time; in larger ones effects go to a log beside the file (`FILE.pending`), which is folded in when the run
ends, or after a kill with the next change. Whoever only reads writes nothing.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from threading import Lock
from typing import Any, Final, TypeAlias

from msgspec import Struct

from nexusform.ports import ObjectKey, ProviderProblem
from nexusform.regular_files import (
    PRIVATE,
    NotRegular,
    TooLarge,
    create,
    read_regular,
    sync_directory,
    write_all,
    write_whole,
)
from nexusform.state import json_text

Attributes: TypeAlias = Mapping[str, Any]
_Marks: TypeAlias = tuple[tuple[int, int, int] | None, tuple[int, int, int] | None]

SIZE_LIMIT: Final = 512 * 1024 * 1024  # bytes; a reality beyond it is a mistake
REWRITTEN_BELOW: Final = 200  # objects; more than these go to the log


class Reality:
    """The objects of a reality file. Calls may come from several threads at once."""

    def __init__(self, path: Path) -> None:
        # A link to the file stays one: what is written stands in the place of the real file.
        self._path = Path(os.path.realpath(path)) if path.is_symlink() else path
        self._log_path = self._path.with_name(self._path.name + ".pending")
        self._lock = Lock()
        self._flushing = Lock()
        self._objects: dict[ObjectKey, Attributes] | None = None
        self._pending: list[_Pending] = []
        self._undone: dict[int, ProviderProblem] = {}  # why, by the number of the change
        self._taken = 0
        self._durable = 0
        self._log: int | None = None
        self._log_size = 0
        self._torn = False  # the log ends with what a failed write left, and could not be cut
        self._seen: _Marks | None = None  # how file and log stood when they were read or written last
        self._left_over = False  # a log of a run that was killed, already among the objects

    def get(self, key: ObjectKey) -> Attributes | None:
        """What stands under a key, or None."""
        with self._lock:
            return self._loaded().get(key)

    def named(self, resource_type: str, object_id: str) -> list[tuple[ObjectKey, Attributes]]:
        """All objects of a type with an id, by creation number."""
        with self._lock:
            matches = [
                (k, a) for k, a in self._loaded().items() if (k.type, k.id) == (resource_type, object_id)
            ]
        return sorted(matches, key=lambda pair: pair[0].creation)

    def put(self, key: ObjectKey, attributes: Attributes) -> None:
        """Set what stands under a key; durable on return."""
        self._change(key, attributes)

    def remove(self, key: ObjectKey) -> None:
        """Take an object away; durable on return. None there is no error."""
        self._change(key, None)

    def close(self) -> None:
        """Fold the log into the file. Where that fails, all of it is durable in the log, and stays there."""
        with self._flushing, self._lock, suppress(ProviderProblem):
            if self._log is not None:
                self._rewrite()

    # --- changes -------------------------------------------------------------------------------

    def _change(self, key: ObjectKey, attributes: Attributes | None) -> None:
        """Set an object, or remove it with None; on return that is on the disk."""
        with self._lock:
            objects = self._loaded()
            before = objects.get(key)
            if attributes is None and before is None:
                return
            _set(objects, key, attributes)
            self._taken += 1
            ticket = self._taken
            self._pending.append(_Pending(ticket, key, before, _line(key, attributes)))
        self._make_durable(ticket)

    def _make_durable(self, ticket: int) -> None:
        """Wait until the change with this number is on disk; whoever comes first writes for all."""
        with self._flushing:
            if ticket in self._undone:
                raise self._undone.pop(ticket)
            if self._durable >= ticket:
                return
            with self._lock:
                batch, self._pending = self._pending, []
                try:
                    small = len(self._loaded()) <= REWRITTEN_BELOW and self._log is None
                    folded = small or self._left_over
                    if folded:
                        self._rewrite()
                except ProviderProblem as problem:
                    self._undo(batch, problem)
            if not folded:
                self._append_all(batch)
            self._durable = max(batch[-1].number, self._durable)
        if ticket in self._undone:
            raise self._undone.pop(ticket)

    def _append_all(self, batch: Sequence[_Pending]) -> None:
        """Write changes to the log; what cannot be written is undone."""
        try:
            self._append(b"".join(each.line for each in batch))
        except ProviderProblem as problem:
            with self._lock:
                # What came meanwhile may stand on what is undone now.
                self._undo([*batch, *self._pending], problem)
                self._pending = []

    def _undo(self, batch: Sequence[_Pending], problem: ProviderProblem) -> None:
        """Take back in memory what could not be written, so that no later write makes it durable."""
        assert self._objects is not None, "what changed was loaded"
        for change in reversed(batch):
            _set(self._objects, change.key, change.before)
            self._undone[change.number] = problem

    def _append(self, lines: bytes) -> None:
        """Write lines to the log, durable on return. Raises ProviderProblem."""
        self._check_unchanged()
        if self._torn:
            raise ProviderProblem(f"{self._log_path} cannot be written since an earlier write to it failed.")
        try:
            if self._log is None:
                self._log = create(self._log_path)
                self._log_size = 0
                sync_directory(self._path.parent)
            write_all(self._log, lines)
            os.fsync(self._log)
            self._log_size += len(lines)
            self._seen = self._marks()
        except OSError as problem:
            self._cut_log()
            raise ProviderProblem(f"{self._log_path} cannot be written: {problem.strerror}.") from None

    def _cut_log(self) -> None:
        """Take what a failed write left out of the log."""
        if self._log is None:
            return
        try:
            os.ftruncate(self._log, self._log_size)
            os.lseek(self._log, self._log_size, os.SEEK_SET)
        except OSError:
            self._torn = True
        self._seen = self._marks()

    def _rewrite(self) -> None:
        """Write the whole file atomically, then drop the log."""
        self._check_unchanged()
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            write_whole(self._path, _document(self._loaded()), PRIVATE)
        except OSError as problem:
            raise ProviderProblem(
                f"The reality file {self._path} cannot be written: {problem.strerror}."
            ) from None
        # From here on the change is made: a log that cannot be removed is removed with the next change.
        self._left_over = True
        with suppress(OSError):
            if self._log is not None:
                log, self._log = self._log, None
                os.close(log)
            self._log_path.unlink(missing_ok=True)
            self._left_over = False
        self._seen = self._marks()

    def _check_unchanged(self) -> None:
        """Raise a ProviderProblem when somebody else wrote since: what they made would be gone."""
        if self._seen is not None and self._seen != self._marks():
            raise ProviderProblem(
                f"The reality file {self._path} was changed by somebody else while this run went on. Nothing "
                "is written over that."
            )

    def _marks(self) -> _Marks:
        return _mark(self._path), _mark(self._log_path)

    # --- reading -------------------------------------------------------------------------------

    def _loaded(self) -> dict[ObjectKey, Attributes]:
        """The objects, read once: the file, and the log over it."""
        if self._objects is None:
            self._seen = self._marks()
            objects = _parse(_content(self._path), self._path)
            log = _content(self._log_path, follow=False)
            for line in log.split(b"\n")[:-1]:  # a torn last line was never answered for
                _replay(line, objects, self._log_path)
            self._objects = objects
            self._left_over = os.path.lexists(self._log_path)
        return self._objects


def _mark(path: Path) -> tuple[int, int, int] | None:
    """What tells a file from the one that stood there before; None when none stands."""
    try:
        status = path.lstat()
    except OSError:
        return None
    return status.st_ino, status.st_mtime_ns, status.st_size


class _Pending(Struct, frozen=True):
    # A change that is made in memory and not durable yet; `before` is what it took the place of.
    number: int
    key: ObjectKey
    before: Attributes | None
    line: bytes


def _set(objects: dict[ObjectKey, Attributes], key: ObjectKey, attributes: Attributes | None) -> None:
    if attributes is None:
        objects.pop(key, None)
    else:
        objects[key] = attributes


def _line(key: ObjectKey, attributes: Attributes | None) -> bytes:
    return json_text.dumps([key.type, key.id, key.creation, attributes]) + b"\n"


def _replay(line: bytes, objects: dict[ObjectKey, Attributes], path: Path) -> None:
    try:
        kind, name, creation, attributes = json_text.loads(line)
    except (ValueError, json_text.JsonProblem):
        raise ProviderProblem(f"{path} is damaged: it holds a line that is not a change record.") from None
    key = ObjectKey(kind, name, creation)
    _set(objects, key, attributes)


def _document(objects: Mapping[ObjectKey, Attributes]) -> bytes:
    ordered = sorted(objects, key=lambda key: (key.type, key.id, key.creation))
    rows = [{"type": k.type, "id": k.id, "creation": k.creation, "attributes": objects[k]} for k in ordered]
    return json_text.dumps(rows, indent=True) + b"\n"


def _content(path: Path, *, follow: bool = True) -> bytes:
    """The bytes of a regular file, b"" when there is none."""
    try:
        return read_regular(path, SIZE_LIMIT, follow=follow)
    except FileNotFoundError:
        return b""
    except NotRegular:
        raise ProviderProblem(f"The reality file {path} is not a regular file.") from None
    except TooLarge:
        raise ProviderProblem(f"The reality file {path} is larger than {SIZE_LIMIT} bytes.") from None
    except OSError as problem:
        raise ProviderProblem(f"The reality file {path} cannot be read: {problem.strerror}.") from None


def _parse(content: bytes, path: Path) -> dict[ObjectKey, Attributes]:
    """The objects in a reality file. Raises ProviderProblem."""
    if not content.strip():
        return {}
    try:
        rows = json_text.loads(content)
    except json_text.JsonProblem as problem:
        before = json_text.as_text(content)[: problem.offset]
        line, column = before.count("\n") + 1, problem.offset - before.rfind("\n")
        raise ProviderProblem(
            f"The reality file {path} is not JSON: line {line}, column {column}: {problem.message}."
        ) from None
    if not isinstance(rows, list):
        raise ProviderProblem(
            f"The reality file {path} must be a list of {{type, id, creation, attributes}}."
        )
    objects: dict[ObjectKey, Attributes] = {}
    for position, row in enumerate(rows):
        key = _key_of(row)
        if key is None:
            raise ProviderProblem(
                f"The reality file {path}: entry {position} must be an object with type and id (texts), "
                "creation (a whole number) and attributes (an object)."
            )
        if key in objects:
            raise ProviderProblem(
                f"The reality file {path}: entry {position} repeats {key.type} {key.id}, "
                f"creation {key.creation}."
            )
        objects[key] = row["attributes"]
    return objects


def _key_of(row: Any) -> ObjectKey | None:
    match row:
        case {"type": str(kind), "id": str(name), "attributes": dict(), **rest}:
            creation = rest.get("creation", 0)
            return ObjectKey(kind, name, creation) if type(creation) is int else None
    return None
