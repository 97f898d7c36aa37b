"""Functions that read files, through the Files port, and those on paths."""

from __future__ import annotations

import posixpath
from collections.abc import Callable
from contextlib import suppress
from typing import Final, TypeVar

from nexusform.language.evaluation import FileProblem, Files, NoDirectory
from nexusform.language.functions.base64_text import encode_base64
from nexusform.language.functions.encoding import utf8_text
from nexusform.language.functions.function import (
    Function,
    FunctionProblem,
    Parameter,
    plain_function,
)
from nexusform.language.functions.hashing import HASHES
from nexusform.value_types import BOOL, STRING, SetType
from nexusform.values import Value, set_value

_T = TypeVar("_T")

_PATH: Final = [("path", STRING, "a path, relative to the working directory")]


def _base_name(path: str) -> str:
    if not path:
        return "."
    return path.rstrip("/").rpartition("/")[2] or "/"


def _directory(path: str) -> str:
    head = path.rpartition("/")[0]
    if not head and path.startswith("/"):
        return "/"
    return posixpath.normpath(head) if head else "."


PATH_FUNCTIONS: Final = (
    plain_function(
        "basename",
        "The last part of a path.",
        _PATH,
        returns=STRING,
        compute=_base_name,
        examples=[('basename("foo/bar/baz.txt")', '"baz.txt"')],
    ),
    plain_function(
        "dirname",
        "A path without its last part.",
        _PATH,
        returns=STRING,
        compute=_directory,
        examples=[('dirname("foo/bar/baz.txt")', '"foo/bar"'), ('dirname("foo")', '"."')],
    ),
)


class FileReader:
    """Reads files for functions: relative paths start at the base directory."""

    def __init__(self, files: Files, base_directory: str) -> None:
        self._files = files
        self._base = base_directory

    def place(self, path: str) -> str:
        """The path as the port takes it. Raises FunctionProblem."""
        expanded = _ask(lambda: self._files.expand_home(path))
        if self._base in {"", "."} or expanded.startswith("/"):
            return expanded
        return posixpath.join(self._base, expanded)

    def read(self, path: str) -> bytes:
        """The content of a file. Raises FunctionProblem."""
        place = self.place(path)
        return _ask(lambda: self._files.read(place))

    def read_text(self, path: str) -> str:
        """The content of a text file. Raises FunctionProblem."""
        hint = f'the content of "{path}"'
        return utf8_text(self.read(path), hint)

    def exists(self, path: str) -> bool:
        """Whether there is such a file. Raises FunctionProblem."""
        place = self.place(path)
        return _ask(lambda: self._files.exists(place))

    def glob(self, path: str, pattern: str) -> list[str]:
        """The files below a directory that match, none where it does not exist. Raises FunctionProblem."""
        place = self.place(path)

        def names() -> list[str]:
            with suppress(NoDirectory):
                return self._files.glob(place, pattern)
            return []

        return _ask(names)

    def absolute(self, path: str) -> str:
        """The absolute form of a path. Raises FunctionProblem."""
        return _ask(lambda: self._files.absolute(path))

    def expand_home(self, path: str) -> str:
        """`~` replaced. Raises FunctionProblem."""
        return _ask(lambda: self._files.expand_home(path))


def _ask(question: Callable[[], _T]) -> _T:
    try:
        return question()
    except FileProblem as problem:
        raise FunctionProblem(str(problem).rstrip("."), 0) from None


def _file_set(reader: FileReader) -> Function:
    def body(path: Value, pattern: Value) -> Value:
        names = reader.glob(path.raw, pattern.raw)
        return set_value([Value(STRING, name) for name in names], STRING)

    return Function(
        "fileset",
        "The files below a directory that match a pattern: *, **, ?, [a-z] and {a,b}.",
        (Parameter("path", STRING, "the directory"), Parameter("pattern", STRING, "the pattern")),
        SetType(STRING),
        body,
    )


def _file_hash(reader: FileReader, name: str, what: str, digest: Callable[[bytes], str]) -> Function:
    return plain_function(
        f"file{name}",
        f"The {what} of a file.",
        _PATH,
        returns=STRING,
        compute=lambda path: digest(reader.read(path)),
        examples=[],
    )


def file_functions(reader: FileReader) -> tuple[Function, ...]:
    """The functions that read files."""

    def text(name: str, description: str, compute: Callable[[str], str]) -> Function:
        return plain_function(name, description, _PATH, returns=STRING, compute=compute, examples=[])

    return (
        text("abspath", "The absolute form of a path.", reader.absolute),
        text("file", "The content of a text file (UTF-8).", reader.read_text),
        text("filebase64", "The content of a file in base64.", lambda p: encode_base64(reader.read(p))),
        *[_file_hash(reader, *each) for each in HASHES],
        plain_function(
            "fileexists",
            "Whether a regular file exists at a path.",
            _PATH,
            returns=BOOL,
            compute=reader.exists,
            examples=[],
        ),
        _file_set(reader),
        text("pathexpand", "A path with ~ at its start replaced by the home directory.", reader.expand_home),
    )
