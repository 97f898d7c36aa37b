"""File patterns of fileset() with Terraform's semantics. `*` and `?` match within one name, `[a-z]` and `[^a-z]` match
a character, `{a,b}` are alternatives, `**` matches any directories, and a backslash escapes the next character. `.`,
`..` and repeated slashes are as in paths. Links to directories are followed without cycles.
"""

import os
import posixpath
import re
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Final, Protocol, TypeAlias

from nexusform.language.evaluation_run import FileProblem, MissingDirectory

MATCH_CAP: Final = 100_000  # files per fileset()
DIRECTORY_CAP: Final = 100_000  # directories read per fileset()
_ALTERNATIVES_CAP: Final = 1000  # patterns per expansion of braces
_BRACES: Final = re.compile(r"\\.|\[[^\]]*\]|[{},]", re.DOTALL)  # and escapes and classes, to skip braces in them
_SIGNS: Final = re.compile(r"\\.|.", re.DOTALL)  # a character, or a backslash with one

_Matches: TypeAlias = Callable[[str], bool]
# A literal name, a predicate for names, or None for any directories.
_Segment: TypeAlias = str | _Matches | None


class DirectoryReader(Protocol):
    """File system operations needed for matching."""

    def is_start_directory(self, path: Path) -> bool:
        """Return whether the directory to search exists. Raises FileProblem outside of the confinement."""
        ...

    def is_directory(self, path: Path) -> bool:
        """Return whether a path found by the search is a readable directory; False outside of the confinement."""
        ...

    def is_readable_file(self, path: Path) -> bool:
        """Return whether a regular file exists. Raises FileProblem outside of the confinement."""
        ...


def find_matching_files(base: str, pattern: str, directories: DirectoryReader) -> list[str]:
    """Return the matching files, sorted, relative to `base`. Raises FileProblem, MissingDirectory. Braces are expanded
    first: `{a,b}/*.yaml` are the patterns `a/*.yaml` and `b/*.yaml`. Each pattern is then matched name by name, from
    its start directory on.
    """
    paths: set[str] = set()
    expanded: list[str] = []  # patterns without braces
    pending = [pattern]
    while pending:
        candidate = pending.pop()
        alternatives = _expand_first_braces(candidate, pattern)
        if alternatives is None:  # no braces are left
            expanded.append(candidate)
        else:
            pending += alternatives
        if len(expanded) + len(pending) > _ALTERNATIVES_CAP:
            raise FileProblem(f'The braces of "{pattern}" expand to more than {_ALTERNATIVES_CAP} patterns.')
    for plain_pattern in expanded:
        names = posixpath.normpath(plain_pattern.lstrip("/") or ".").split("/")
        parent_count = names.count("..")  # they are at the start
        root = Path(os.path.normpath(Path(base, *names[:parent_count])))
        if not directories.is_start_directory(root):
            raise MissingDirectory(f'There is no directory "{root}".')
        segments = [_parse_segment(name, pattern) for name in names[parent_count:] if name != "."]
        for path in _find_files(root, segments, directories):
            paths.add(os.path.relpath(root / path, base).replace(os.sep, "/"))
            if len(paths) > MATCH_CAP:
                raise FileProblem(f'More than {MATCH_CAP} files match "{pattern}" below "{base}".')
    return sorted(paths)


def _find_files(root: Path, segments: list[_Segment], directories: DirectoryReader) -> Iterator[str]:
    """Yield the files below `root` that match the segments of a pattern, as paths relative to `root`. A segment matches
    the names of one level, and None (written `**`) any number of levels: `a/**/*.yaml`. `**` does not follow links to a
    parent.
    """
    visited: set[tuple[str, int]] = set()
    pending = [("", 0)] if segments else []  # directories, each with the position of the segment for its names
    while pending:
        entry = pending.pop()
        if entry in visited:
            continue
        visited.add(entry)
        if len(visited) > DIRECTORY_CAP:
            raise FileProblem(f'"{root}" has more than {DIRECTORY_CAP} directories below it.')
        directory, position = entry
        segment = segments[position]
        is_last = position + 1 == len(segments)
        if segment is None and not is_last:  # `**` also matches no level: `a/**/b` finds `a/b`
            pending.append((directory, position + 1))
        next_position = position if segment is None else position + 1  # `**` continues below
        for name in _list_names(root / directory, segment):
            path = posixpath.join(directory, name)
            if is_last and directories.is_readable_file(root / path):
                yield path
            elif next_position < len(segments) and directories.is_directory(root / path):
                is_cycle = segment is None and _is_cyclic_link(root, path)
                if not is_cycle:
                    pending.append((path, next_position))


def _list_names(directory: Path, segment: _Segment) -> list[str]:
    """List the names in a directory that match a segment: a literal name, a function that checks a name, or None (`**`)
    for all names. A literal name is returned unchecked, so it may not exist.
    """
    if isinstance(segment, str):
        return [segment]
    try:
        names = [entry.name for entry in directory.iterdir()]
    except (OSError, ValueError):
        return []  # unreadable directories have no matches
    return names if segment is None else [name for name in names if segment(name)]


def _is_cyclic_link(root: Path, path: str) -> bool:
    """Return whether a path is a link to one of its parent directories, or to a directory above `root`."""
    link = root / path
    if not link.is_symlink():
        return False
    target = link.resolve()
    parents = (root / directory for directory in Path(path).parents)  # the last one is `root`
    return any(parent.resolve().is_relative_to(target) for parent in parents)


def _create_pattern_error(pattern: str) -> FileProblem:
    return FileProblem(f'"{pattern}" is not a valid file pattern.')


def _expand_first_braces(text: str, pattern: str) -> list[str] | None:
    """Replace the first pair of braces by each of its alternatives: `a{b,c}d` gives `abd` and `acd`. Return None
    without braces. Raises FileProblem, about the whole `pattern`, for a brace without its end.
    """
    depth = 0
    cuts: list[int] = []  # the offsets of the outermost `{`, its commas and `}`
    for sign in _BRACES.finditer(text):
        if sign[0] == "{":
            depth += 1
            if depth == 1:
                cuts = [sign.start()]
        elif depth == 1 and sign[0] in ",}":
            cuts.append(sign.start())
            if sign[0] == "}":
                before, after = text[: cuts[0]], text[sign.end() :]
                return [before + text[start + 1 : end] + after for start, end in pairwise(cuts)]
        elif sign[0] == "}" and depth:
            depth -= 1
    if depth:
        raise _create_pattern_error(pattern)
    return None


def _parse_segment(name: str, pattern: str) -> _Segment:
    """Parse one segment of a pattern to a literal name, a predicate for names, or None for `**`. Raises FileProblem. A
    segment has the signs `*`, `?` and `[...]`; a backslash before a sign makes it a plain character.
    """
    import re2

    if name == "**":
        return None
    signs = _SIGNS.findall(name)
    if signs[-1] == "\\":
        raise _create_pattern_error(pattern)
    if not any(sign in ("*", "?", "[") for sign in signs):
        return "".join([sign[-1] for sign in signs])  # without backslashes
    options = re2.Options()
    options.log_errors = False
    # re2 matches in linear time; pattern and names may be untrusted.
    parts: list[str] = []
    position = 0
    while position < len(signs):
        sign = signs[position]
        position += 1
        if sign == "[":
            part, position = _parse_character_class(signs, position, pattern)
            parts.append(part)
        else:
            parts.append({"*": ".*", "?": "."}.get(sign) or _escape_sign(sign))
    compiled = re2.compile("(?s)" + "".join(parts), options)
    return lambda name: compiled.fullmatch(name.encode(errors="replace").decode()) is not None


def _parse_character_class(signs: list[str], position: int, pattern: str) -> tuple[str, int]:
    """Return the regular expression of a character class, and the position after its `]`; `position` is after its `[`.
    A sign is a character, or a backslash with a character. Raises an error about the whole `pattern`.
    """
    is_negated = signs[position : position + 1] == ["^"]
    position += is_negated  # 1 for the `^`
    ranges: list[str] = []
    while signs[position : position + 1] != ["]"] or not ranges:  # an empty class `[]` is an error, raised below
        # A single sign is its own range; `a-z` has three signs, and the first and last are its ends.
        span = 3 if signs[position + 1 : position + 2] == ["-"] else 1
        ends = signs[position : position + span : 2]
        if len(ends) != (span + 1) // 2 or any(end in ("-", "]") for end in ends):  # an end is missing or not escaped
            raise _create_pattern_error(pattern)
        low, high = ends[0][-1], ends[-1][-1]  # without a backslash
        ranges.append(f"{_escape_sign(low)}-{_escape_sign(high)}" if low <= high else "")  # "": a reversed range
        position += span
    content = "".join(ranges)
    if not content:  # all ranges are reversed, such as `z-a`: no character, or any if negated
        return ("." if is_negated else r"[^\x00-\x{10FFFF}]"), position + 1
    return f"[{'^' if is_negated else ''}{content}]", position + 1


def _escape_sign(sign: str) -> str:
    """Return a character (without its backslash) as a hexadecimal escape for re2."""
    return f"\\x{{{ord(sign[-1]):x}}}"
