"""Bring files into canonical style: which files, and writing them back whole."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from difflib import unified_diff
from pathlib import Path
from typing import Final

from msgspec import Struct, field

from nexusform.configuration.loader import LARGEST_FILE
from nexusform.diagnostics import Diagnostic, error, has_errors
from nexusform.language.formatter import format_text
from nexusform.regular_files import FREE, Confinement, TooLarge, read_regular, write_whole
from nexusform.source import SourceFile

ENDINGS: Final = (".nf.hcl", ".nfvars.hcl", ".nftest.hcl")
STDIN: Final = "<stdin>"


class Formatted(Struct, frozen=True):
    """One text before and after; equal when it was in style already."""

    source: SourceFile
    text: str

    @property
    def changed(self) -> bool:
        """Whether it was not in style."""
        return self.text != self.source.text

    @property
    def difference(self) -> str:
        """The change as a unified diff, "" when there is none."""
        name = self.source.name
        lines = unified_diff(
            self.source.text.splitlines(keepends=True),
            self.text.splitlines(keepends=True),
            f"old/{name}",
            f"new/{name}",
        )
        return "".join(
            line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines
        )


class Formatting(Struct):
    """What was looked at: files in order, and what could not be read, understood or written."""

    files: list[Formatted] = field(default_factory=list)
    problems: list[Diagnostic] = field(default_factory=list)
    sources: dict[str, SourceFile] = field(default_factory=dict)

    def add(self, source: SourceFile) -> Formatted | None:
        """Format one text; None, with its problems told, when its syntax is wrong."""
        self.sources[source.name] = source
        text, problems = format_text(source)
        self.problems += problems
        if has_errors(problems):
            return None
        formatted = Formatted(source, text)
        self.files.append(formatted)
        return formatted


def format_paths(
    paths: Sequence[str], *, recursive: bool, write: bool, confinement: Confinement = FREE
) -> Formatting:
    """Format files, and the files of directories, below them too when `recursive`."""
    done = Formatting()
    for path in _files(paths, done.problems, recursive=recursive):
        source = _read(path, confinement, done.problems)
        formatted = done.add(source) if source is not None else None
        if formatted is None or not formatted.changed or not write:
            continue
        try:
            # A file that is reached by a link stays behind it.
            write_whole(Path(path).resolve(), formatted.text.encode(), 0o644)
        except OSError as problem:
            done.problems.append(
                error("file-cannot-be-written", f'"{path}" cannot be written: {problem.strerror or problem}.')
            )
    return done


def _files(paths: Sequence[str], problems: list[Diagnostic], *, recursive: bool) -> Iterator[str]:
    """The files that are asked for, each once, in the order of the paths and then by name."""
    seen: set[str] = set()
    for path in paths:
        for file in _below(path, problems, recursive=recursive):
            if file not in seen:
                seen.add(file)
                yield file


def _below(path: str, problems: list[Diagnostic], *, recursive: bool) -> Iterator[str]:
    """The files that can be formatted at a path or below it."""
    path = os.path.normpath(path)
    if not Path(path).is_dir():
        if not Path(path).exists():
            problems.append(error("no-such-file", f'There is no file or directory "{path}".'))
        elif not path.endswith(ENDINGS):
            listed = ", ".join(f"*{ending}" for ending in ENDINGS)
            detail = f'"{path}" is none of the files that can be formatted: {listed}.'
            problems.append(error("unsupported-file", detail))
        else:
            yield path
        return
    try:
        names = sorted(os.listdir(path), key=os.fsencode)  # noqa: PTH208 - names, not paths
    except OSError as problem:
        problems.append(error("unreadable-directory", f'"{path}" cannot be read: {problem.strerror}.'))
        return
    for name in names:
        inner = os.path.normpath(os.path.join(path, name))  # noqa: PTH118 - shown as given
        if _ignored(name):
            continue
        if Path(inner).is_dir():
            if recursive and not Path(inner).is_symlink():
                yield from _below(inner, problems, recursive=True)
        elif name.endswith(ENDINGS):
            yield inner


def _ignored(name: str) -> bool:
    """Hidden files and those that editors leave behind."""
    return name.startswith(".") or name.endswith("~") or (name.startswith("#") and name.endswith("#"))


def _read(path: str, confinement: Confinement, problems: list[Diagnostic]) -> SourceFile | None:
    try:
        raw = read_regular(confinement.followed(path), LARGEST_FILE)
    except TooLarge:
        problems.append(_too_large(path))
        return None
    except OSError as problem:
        problems.append(error("unreadable-file", f'"{path}" cannot be read: {problem.strerror}.'))
        return None
    return decoded(raw, path, problems)


def _too_large(name: str) -> Diagnostic:
    return error("file-too-large", f'"{name}" is larger than {LARGEST_FILE // 2**20} MiB. Split it up.')


def decoded(raw: bytes, name: str, problems: list[Diagnostic]) -> SourceFile | None:
    """A text to format; None after a diagnostic when it is too long or not UTF-8."""
    if len(raw) > LARGEST_FILE:
        problems.append(_too_large(name))
        return None
    try:
        return SourceFile(name, raw.decode())
    except UnicodeDecodeError as problem:
        detail = f'"{name}" is not UTF-8: byte {problem.start} belongs to no character. Save it as UTF-8.'
        problems.append(error("invalid-character-encoding", detail))
        return None
