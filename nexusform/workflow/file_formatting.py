"""Formatting of files in canonical style."""

import os
from collections.abc import Iterator, Sequence
from difflib import unified_diff
from pathlib import Path
from typing import Final

from msgspec import Struct, field

from nexusform.configuration.loader import MAX_FILE_BYTES
from nexusform.diagnostics.diagnostic import Diagnostic, SourceFile, build_error, has_errors
from nexusform.files.directories import resolve_links
from nexusform.files.regular_files import (
    UNCONFINED,
    Confinement,
    FileTooLarge,
    read_regular,
    write_file_atomically,
)
from nexusform.language.formatter import format_text

ENDINGS: Final = (".nf.hcl", ".nfvars.hcl", ".nftest.hcl")
STDIN: Final = "<stdin>"


class FormattedFile(Struct, frozen=True):
    """One text as read (`source`) and in canonical style (`text`)."""

    source: SourceFile
    text: str

    @property
    def is_changed(self) -> bool:
        """Whether formatting changed the text."""
        return self.text != self.source.text

    @property
    def difference(self) -> str:
        """The change as a unified diff; "" without a change.

        A missing newline at the end is marked as by diff.
        """
        lines = unified_diff(
            self.source.text.splitlines(keepends=True),
            self.text.splitlines(keepends=True),
            f"old/{self.source.name}",
            f"new/{self.source.name}",
        )
        return "".join(
            line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n"
            for line in lines
        )


class FormattingResult(Struct):
    """The formatted files in order, and problems of reading, parsing and writing."""

    files: list[FormattedFile] = field(default_factory=list)
    problems: list[Diagnostic] = field(default_factory=list)
    sources: dict[str, SourceFile] = field(default_factory=dict)

    def format_file(self, path: str, confinement: Confinement) -> FormattedFile | None:
        """Format a file and record it with its problems; None after an error."""
        try:
            raw = read_regular(confinement.resolve_path_of_operator(path), MAX_FILE_BYTES)
        except FileTooLarge:
            self.problems.append(_build_size_error(path))
        except OSError as problem:
            self.problems.append(
                build_error("unreadable-file", f'"{path}" cannot be read: {problem.strerror}.')
            )
        else:
            return self.format_document(raw, path)
        return None

    def format_document(self, raw: bytes, name: str) -> FormattedFile | None:
        """Format the bytes of a file and record it with its problems; None after an error.

        Nothing is written here.
        """
        if len(raw) > MAX_FILE_BYTES:
            self.problems.append(_build_size_error(name))
            return None
        try:
            source = SourceFile(name, raw.decode())
        except UnicodeDecodeError as problem:
            detail = f'"{name}" is not UTF-8: byte {problem.start} is invalid. Save it as UTF-8.'
            self.problems.append(build_error("invalid-character-encoding", detail))
            return None
        self.sources[name] = source
        text, problems = format_text(source)
        self.problems += problems
        if has_errors(problems):
            return None
        formatted = FormattedFile(source, text)
        self.files.append(formatted)
        return formatted


def format_paths(
    paths: Sequence[str], *, recursive: bool, write: bool, confinement: Confinement = UNCONFINED
) -> FormattingResult:
    """Format files, and the files in directories (with subdirectories if `recursive`).

    `write` saves changed files.
    """
    result = FormattingResult()
    for path in _list_files(paths, result.problems, recursive=recursive):
        formatted = result.format_file(path, confinement)
        if formatted is None or not formatted.is_changed or not write:
            # None after an error, already added to the result.
            continue
        try:
            # The path is resolved, so a link is kept.
            write_file_atomically(resolve_links(path), formatted.text.encode(), 0o644)
        except OSError as problem:
            result.problems.append(
                build_error("unwritable-file", f'"{path}" cannot be written: {problem.strerror}.')
            )
    return result


def _list_files(
    paths: Sequence[str], problems: list[Diagnostic], *, recursive: bool
) -> Iterator[str]:
    """Yield each requested file once: in the order of the paths, and by name within a directory."""
    visited: set[str] = set()
    for path in paths:
        for file in _find_files(path, problems, recursive=recursive):
            if file not in visited:
                visited.add(file)
                yield file


def _find_files(path: str, problems: list[Diagnostic], *, recursive: bool) -> Iterator[str]:
    """Yield a file, or the files with a known ending in a directory.

    Add problems for unusable paths.
    """
    path = os.path.normpath(path)
    if Path(path).is_dir():
        yield from _find_files_in_directory(path, problems, recursive=recursive)
    elif not Path(path).exists():
        problems.append(build_error("no-such-file", f'There is no file or directory "{path}".'))
    elif not path.endswith(ENDINGS):
        patterns = ", ".join(f"*{ending}" for ending in ENDINGS)
        detail = f'"{path}" is not a file that nexusform can format: {patterns}.'
        problems.append(build_error("unsupported-file", detail))
    else:
        yield path


def _find_files_in_directory(
    directory: str, problems: list[Diagnostic], *, recursive: bool
) -> Iterator[str]:
    """Yield the files to format in a directory.

    Hidden files and the copies of editors (`a~`, `#a#`) are left out.
    """
    try:
        names = sorted(os.listdir(directory), key=os.fsencode)  # noqa: PTH208 - names, not paths
    except OSError as problem:
        problems.append(
            build_error(
                "unreadable-directory", f'"{directory}" cannot be read: {problem.strerror}.'
            )
        )
        return
    for name in names:
        is_copy_of_editor = name.endswith("~") or name[0] == name[-1] == "#"
        if name.startswith(".") or is_copy_of_editor:
            continue
        path = os.path.normpath(os.path.join(directory, name))  # noqa: PTH118 - shown as given
        if not Path(path).is_dir():
            if name.endswith(ENDINGS):
                yield path
        elif recursive and not Path(path).is_symlink():
            yield from _find_files_in_directory(path, problems, recursive=True)


def _build_size_error(name: str) -> Diagnostic:
    return build_error(
        "file-too-large", f'"{name}" is larger than {MAX_FILE_BYTES // 2**20} MiB. Split it up.'
    )
