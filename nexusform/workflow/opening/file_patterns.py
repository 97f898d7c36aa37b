"""File patterns of fileset() with Terraform's semantics.

`*` and `?` match within one name, `[a-z]` and `[^a-z]` match a character, `{a,b}` are alternatives,
`**` matches any directories, and a backslash escapes the next character. `.`, `..` and repeated
slashes are as in paths. Links to directories are followed without cycles.
"""

import os
import posixpath
import re
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Final, Protocol, TypeAlias

from nexusform.language.evaluation_run import FileProblem, MissingDirectory

# Limit of files per `fileset`.
MATCH_CAP: Final = 100_000
# Limit of directories read per `fileset`.
DIRECTORY_CAP: Final = 100_000
# Limit of patterns per expansion of braces.
_ALTERNATIVES_CAP: Final = 1000
# And escapes and classes, to skip braces in them.
_BRACES: Final = re.compile(r"\\.|\[[^\]]*\]|[{},]", re.DOTALL)
# A character of a class, perhaps after a backslash; a range of such characters, `a-z` or just `a`;
# parts of a segment.
_CLASS_CHARACTER: Final = r"(?:\\.|[^\\\]-])"
_RANGE: Final = re.compile(rf"({_CLASS_CHARACTER})(?:-({_CLASS_CHARACTER}))?", re.DOTALL)
_TOKEN: Final = re.compile(
    rf"\[(?P<caret>\^?+)(?P<ranges>(?:{_RANGE.pattern})+)\]|\\.|.", re.DOTALL
)

_Matches: TypeAlias = Callable[[str], bool]
# A literal name, a predicate for names, or None for any directories.
_Segment: TypeAlias = str | _Matches | None


class DirectoryReader(Protocol):
    """File system operations needed for matching."""

    def is_start_directory(self, path: Path) -> bool:
        """Return whether the directory to search exists.

        Raises FileProblem outside of the confinement.
        """
        ...

    def is_directory(self, path: Path) -> bool:
        """Return whether a path found by the search is a readable directory.

        A path outside of the confinement is not readable.
        """
        ...

    def is_readable_file(self, path: Path) -> bool:
        """Return whether a regular file exists.

        Raises FileProblem outside of the confinement.
        """
        ...


def find_matching_files(base: str, pattern: str, directories: DirectoryReader) -> list[str]:
    """Return the matching files, sorted, relative to `base`.

    Raises FileProblem, MissingDirectory. Braces are expanded first: `{a,b}/*.yaml` are the
    patterns `a/*.yaml` and `b/*.yaml`. Each pattern is then matched name by name, from its
    start directory on.
    """
    paths: set[str] = set()
    # Patterns without braces.
    expanded: list[str] = []
    pending = [pattern]
    while pending:
        candidate = pending.pop()
        alternatives = _expand_first_braces(candidate, pattern)
        # No braces are left.
        if alternatives is None:
            expanded.append(candidate)
        else:
            pending += alternatives
        if len(expanded) + len(pending) > _ALTERNATIVES_CAP:
            raise FileProblem(
                f'The braces of "{pattern}" expand to more than {_ALTERNATIVES_CAP} patterns.'
            )
    for plain_pattern in expanded:
        names = posixpath.normpath(plain_pattern.lstrip("/") or ".").split("/")
        # They are at the start.
        parent_count = names.count("..")
        root = Path(os.path.normpath(Path(base, *names[:parent_count])))
        if not directories.is_start_directory(root):
            raise MissingDirectory(f'There is no directory "{root}".')
        segments = [_parse_segment(name, pattern) for name in names[parent_count:] if name != "."]
        for path in _find_files(root, segments, directories):
            paths.add(os.path.relpath(root / path, base).replace(os.sep, "/"))
            if len(paths) > MATCH_CAP:
                raise FileProblem(f'More than {MATCH_CAP} files match "{pattern}" below "{base}".')
    return sorted(paths)


def _find_files(
    root: Path, segments: list[_Segment], directories: DirectoryReader
) -> Iterator[str]:
    """Yield the files below `root` that match the segments of a pattern.

    Paths are relative to `root`.

    A segment matches the names of one level, and None (written `**`) any number of levels:
    `a/**/*.yaml`. `**` does not follow links to a parent.
    """
    visited: set[tuple[str, int]] = set()
    # Directories, each with the position of the segment for its names.
    pending = [("", 0)] if segments else []
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
        # `**` also matches no level: `a/**/b` finds `a/b`.
        if segment is None and not is_last:
            pending.append((directory, position + 1))
        # `**` continues below.
        next_position = position if segment is None else position + 1
        for name in _list_names(root / directory, segment):
            path = posixpath.join(directory, name)
            if is_last and directories.is_readable_file(root / path):
                yield path
            elif next_position < len(segments) and directories.is_directory(root / path):
                is_cycle = segment is None and _is_cyclic_link(root, path)
                if not is_cycle:
                    pending.append((path, next_position))


def _list_names(directory: Path, segment: _Segment) -> list[str]:
    """List the names in a directory that match a segment.

    A literal name, a function that checks a name, or None (`**`) for all names. A literal name is
    returned unchecked, so it may not exist.
    """
    if isinstance(segment, str):
        return [segment]
    try:
        names = [entry.name for entry in directory.iterdir()]
    except (OSError, ValueError):
        # Unreadable directories have no matches.
        return []
    return names if segment is None else [name for name in names if segment(name)]


def _is_cyclic_link(root: Path, path: str) -> bool:
    """Return whether a path is a link to one of its parents, or above `root`.

    Both are directories.
    """
    link = root / path
    if not link.is_symlink():
        return False
    target = link.resolve()
    # The last one is `root`.
    parents = (root / directory for directory in Path(path).parents)
    return any(parent.resolve().is_relative_to(target) for parent in parents)


def _create_pattern_error(pattern: str) -> FileProblem:
    return FileProblem(f'"{pattern}" is not a valid file pattern.')


def _expand_first_braces(text: str, pattern: str) -> list[str] | None:
    """Replace the first pair of braces by each of its alternatives.

    `a{b,c}d` gives `abd` and `acd`. Return None without braces. Raises FileProblem, about the whole
    `pattern`, for a brace without its end.
    """
    depth = 0
    # The offsets of the outermost `{`, its commas and `}`.
    cuts: list[int] = []
    for sign in _BRACES.finditer(text):
        if sign[0] == "{":
            depth += 1
            if depth == 1:
                cuts = [sign.start()]
        elif depth == 1 and sign[0] in ",}":
            cuts.append(sign.start())
            if sign[0] == "}":
                before = text[: cuts[0]]
                after = text[sign.end() :]
                return [before + text[start + 1 : end] + after for start, end in pairwise(cuts)]
        elif sign[0] == "}" and depth:
            depth -= 1
    if depth:
        raise _create_pattern_error(pattern)
    return None


def _parse_segment(name: str, pattern: str) -> _Segment:
    """Parse one segment of a pattern to a literal name, a predicate for names, or None for `**`.

    Raises FileProblem. A segment has the wildcards `*`, `?` and `[...]`; a backslash before a
    character makes it a plain one.
    """
    import re2

    if name == "**":
        return None
    tokens: list[re.Match[str]] = []
    for token in _TOKEN.finditer(name):
        # A bracket without a valid class, or a backslash without a character.
        if token[0] in ("[", "\\"):
            raise _create_pattern_error(pattern)
        tokens.append(token)
    if not any(token[0].startswith(("*", "?", "[")) for token in tokens):
        return "".join([token[0][-1] for token in tokens])  # without backslashes
    # Parts of a regular expression.
    parts: list[str] = []
    for token in tokens:
        if token["ranges"]:
            parts.append(_convert_character_class(token["ranges"], is_negated=bool(token["caret"])))
        else:
            parts.append({"*": ".*", "?": "."}.get(token[0]) or _escape_character(token[0]))
    options = re2.Options()
    options.log_errors = False
    # The library re2 matches in linear time; pattern and names may be untrusted.
    compiled = re2.compile("(?s)" + "".join(parts), options)
    return lambda name: compiled.fullmatch(name.encode(errors="replace").decode()) is not None


def _convert_character_class(ranges: str, *, is_negated: bool) -> str:
    r"""Return the regular expression of a character class.

    For example, `a-c_` becomes `[\x{61}-\x{63}\x{5f}-\x{5f}]`.
    """
    content = ""
    for first, last in _RANGE.findall(ranges):
        # Without backslashes; a single character is its own range.
        low = first[-1]
        high = (last or first)[-1]
        # Otherwise no character is in the range, such as `z-a`.
        if low <= high:
            content += f"{_escape_character(low)}-{_escape_character(high)}"
    if not content:
        # Any character, or none.
        return "." if is_negated else r"[^\x00-\x{10FFFF}]"
    return f"[{'^' if is_negated else ''}{content}]"


def _escape_character(text: str) -> str:
    """Return a character, perhaps after a backslash, as a hexadecimal escape for re2."""
    return f"\\x{{{ord(text[-1]):x}}}"
