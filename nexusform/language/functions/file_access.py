"""Functions that read files, through the Files port, and functions on paths."""

import posixpath
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Final

from nexusform.language.evaluation_run import FileProblem, Files, MissingDirectory
from nexusform.language.functions.encoding import decode_utf8
from nexusform.language.functions.function import Function, FunctionProblem, Parameter, build_plain_function
from nexusform.language.functions.hashing import HASHES, encode_base64
from nexusform.schemas.value_types import BOOL, STRING, SetType
from nexusform.values.typed_value import Value, build_set

_PATH: Final = [("path", STRING, "a path, relative to the working directory")]


def _get_base_name(path: str) -> str:
    if not path:
        return "."
    return path.rstrip("/").rpartition("/")[2] or "/"


def _get_directory(path: str) -> str:
    """Return a path without its last part: "." for a name alone."""
    head = path.rpartition("/")[0]
    if not head and path.startswith("/"):
        return "/"
    return posixpath.normpath(head) if head else "."


PATH_FUNCTIONS: Final = (
    build_plain_function(
        "basename",
        "The last part of a path.",
        _PATH,
        compute=_get_base_name,
        examples=[('basename("foo/bar/baz.txt")', '"baz.txt"')],
    ),
    build_plain_function(
        "dirname",
        "A path without its last part.",
        _PATH,
        compute=_get_directory,
        examples=[('dirname("foo/bar/baz.txt")', '"foo/bar"'), ('dirname("foo")', '"."')],
    ),
)


class FileReader:
    """Reader of files for functions: relative paths start at the base directory."""

    def __init__(self, files: Files, base_directory: str) -> None:
        self._files = files
        self._base = base_directory

    def resolve(self, path: str) -> str:
        """Return the path to read: `~` expanded, relative to the base directory. Raises FunctionProblem."""
        expanded = self.expand_home(path)
        if self._base in {"", "."} or expanded.startswith("/"):
            return expanded
        return posixpath.join(self._base, expanded)

    def read(self, path: str) -> bytes:
        """Read the content of a file. Raises FunctionProblem."""
        full_path = self.resolve(path)
        with _convert_file_problems():
            return self._files.read(full_path)

    def read_text(self, path: str) -> str:
        """Read the content of a text file. Raises FunctionProblem."""
        return decode_utf8(self.read(path), f'the content of "{path}"')

    def is_file(self, path: str) -> bool:
        """Check whether a file exists. Raises FunctionProblem."""
        full_path = self.resolve(path)
        with _convert_file_problems():
            return self._files.is_file(full_path)

    def find_files(self, path: str, pattern: str) -> list[str]:
        """Find the files below a directory that match, none if it does not exist. Raises FunctionProblem."""
        full_path = self.resolve(path)
        with _convert_file_problems(), suppress(MissingDirectory):
            return self._files.find_files(full_path, pattern)
        return []

    def resolve_path(self, path: str) -> str:
        """Return the absolute form of a path. Raises FunctionProblem."""
        with _convert_file_problems():
            return self._files.resolve_path(path)

    def expand_home(self, path: str) -> str:
        """Replace `~` at the start. Raises FunctionProblem."""
        with _convert_file_problems():
            return self._files.expand_home(path)


@contextmanager
def _convert_file_problems() -> Iterator[None]:
    try:
        yield
    except FileProblem as problem:
        raise FunctionProblem(str(problem).rstrip("."), argument=0) from None


def _build_file_hash(reader: FileReader, name: str, description: str, digest: Callable[[bytes], str]) -> Function:
    return build_plain_function(
        f"file{name}", f"The {description} of a file.", _PATH, compute=lambda path: digest(reader.read(path))
    )


def build_file_functions(reader: FileReader) -> tuple[Function, ...]:
    """Build the functions that read files."""

    def list_files(path: Value, pattern: Value) -> Value:
        names = reader.find_files(path.raw, pattern.raw)
        return build_set([Value(STRING, name) for name in names], STRING)

    return (
        build_plain_function("abspath", "The absolute form of a path.", _PATH, compute=reader.resolve_path),
        build_plain_function("file", "The content of a text file (UTF-8).", _PATH, compute=reader.read_text),
        build_plain_function(
            "filebase64", "The content of a file in base64.", _PATH, compute=lambda p: encode_base64(reader.read(p))
        ),
        *[_build_file_hash(reader, *hash_entry) for hash_entry in HASHES],
        build_plain_function(
            "fileexists", "Whether a regular file exists at a path.", _PATH, returns=BOOL, compute=reader.is_file
        ),
        Function(
            "fileset",
            "The files below a directory that match a pattern: *, **, ?, [a-z] and {a,b}.",
            (Parameter("path", STRING, "the directory"), Parameter("pattern", STRING, "the pattern")),
            returns=SetType(STRING),
            body=list_files,
        ),
        build_plain_function(
            "pathexpand",
            "A path with ~ at its start replaced by the home directory.",
            _PATH,
            compute=reader.expand_home,
        ),
    )
