"""The patterns of fileset(), as Terraform reads them: which files below a directory they name.

`*` and `?` stand for what is within one name, `[a-z]` and `[^a-z]` for a character, `{a,b}` for one or the
other, `**` for any directories, and a backslash takes the sign after it as it is. `.`, `..` and repeated
slashes mean what they mean in a path. Links to directories are followed, but not round and round.
"""

from __future__ import annotations

import os
import posixpath
import re
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Final, Protocol, TypeAlias

from nexusform.language.evaluation import FileProblem, NoDirectory

MATCH_CAP: Final = 100_000  # files that one fileset() may give
DIRECTORY_CAP: Final = 100_000  # directories that one fileset() may look into
_ALTERNATIVES_CAP: Final = 1000  # patterns that the braces of one may stand for

_Matches: TypeAlias = Callable[[str], bool]
# A name as it is, what a name must match, or None: any directories.
_Segment: TypeAlias = str | _Matches | None


class Directories(Protocol):
    """What is asked of a file system."""

    def may_start(self, path: Path) -> bool:
        """Whether a directory stands there. Raises FileProblem where configuration may not look."""
        ...

    def is_directory(self, path: Path) -> bool:
        """Whether a directory stands there that may be looked into."""
        ...

    def is_file(self, path: Path) -> bool:
        """Whether a regular file stands there. Raises FileProblem where configuration may not look."""
        ...


def matching_files(base: str, pattern: str, directories: Directories) -> list[str]:
    """The files that match, sorted, relative to `base`, with slashes. Raises FileProblem, NoDirectory."""
    paths: set[str] = set()
    for alternative in _alternatives(pattern):
        names = posixpath.normpath(alternative.lstrip("/") or ".").split("/")
        climbs = names.count("..")  # they stand at the start
        root = Path(os.path.normpath(Path(base, *names[:climbs])))
        if not directories.may_start(root):
            raise NoDirectory(f'There is no directory "{root}".')
        segments = [_segment(name, pattern) for name in names[climbs:] if name != "."]
        for path in _files(root, segments, directories):
            paths.add(os.path.relpath(root / path, base).replace(os.sep, "/"))
            if len(paths) > MATCH_CAP:
                raise FileProblem(f'More than {MATCH_CAP} files match "{pattern}" below "{base}".')
    return sorted(paths)


def _files(root: Path, segments: list[_Segment], directories: Directories) -> Iterator[str]:
    # Goes from directory to directory with the segments that are left.
    seen: set[tuple[str, int]] = set()
    rest = [("", 0)] if segments else []
    while rest:
        place = rest.pop()
        if place in seen:
            continue
        seen.add(place)
        if len(seen) > DIRECTORY_CAP:
            raise FileProblem(f'More than {DIRECTORY_CAP} directories stand below "{root}".')
        within, position = place
        segment = segments[position]
        is_last = position + 1 == len(segments)
        if segment is None and not is_last:
            rest.append((within, position + 1))
        for name in _names(root / within, segment):
            path = posixpath.join(within, name)
            there = root / path
            if is_last and directories.is_file(there):
                yield path
            elif segment is None:
                if directories.is_directory(there) and not _leads_back(root, path):
                    rest.append((path, position))
            elif not is_last and directories.is_directory(there):
                rest.append((path, position + 1))


def _names(directory: Path, segment: _Segment) -> list[str]:
    """The names in a directory that a segment matches."""
    if isinstance(segment, str):
        return [segment]
    try:
        names = [entry.name for entry in directory.iterdir()]
    except (OSError, ValueError):
        return []
    return names if segment is None else [name for name in names if segment(name)]


def _leads_back(root: Path, path: str) -> bool:
    # Whether it is a link to a directory that it stands in.
    there = root / path
    if not there.is_symlink():
        return False
    real = there.resolve()
    around = [root, *[root / directory for directory in Path(path).parents]]
    return any(directory.resolve().is_relative_to(real) for directory in around)


# --- reading patterns --------------------------------------------------------------------------


_BRACES: Final = re.compile(r"\\.|\[[^\]]*\]|[{},]", re.DOTALL)
_SIGNS: Final = re.compile(r"\\.|.", re.DOTALL)


def _wrong(pattern: str) -> FileProblem:
    return FileProblem(f'"{pattern}" is not a valid file pattern.')


def _alternatives(pattern: str) -> list[str]:
    # The patterns without braces that one with braces stands for.
    plain: list[str] = []
    rest = [pattern]
    while rest:
        parts = _first_braces(rest[-1], pattern)
        each = rest.pop()
        if parts is None:
            plain.append(each)
        else:
            rest += parts
        if len(plain) + len(rest) > _ALTERNATIVES_CAP:
            raise FileProblem(f'The braces of "{pattern}" stand for more than {_ALTERNATIVES_CAP} patterns.')
    return plain


def _first_braces(text: str, pattern: str) -> list[str] | None:
    # The text with each of the alternatives of its first pair of braces, None when there is none.
    depth = 0
    cuts: list[int] = []
    for sign in _BRACES.finditer(text):
        if sign[0] == "{":
            depth += 1
            if depth == 1:
                cuts = [sign.start()]
        elif depth == 1 and sign[0] in ",}":
            cuts.append(sign.start())
            if sign[0] == "}":
                before, after = text[: cuts[0]], text[sign.end() :]
                spans = pairwise(cuts)
                return [before + text[start + 1 : end] + after for start, end in spans]
        elif sign[0] == "}" and depth:
            depth -= 1
    if depth:
        raise _wrong(pattern)
    return None


def _segment(name: str, pattern: str) -> _Segment:
    """One segment of a pattern: a name, a predicate of names, or None for `**`."""
    import re2

    if name == "**":
        return None
    signs = _SIGNS.findall(name)
    if signs and signs[-1] == "\\":
        raise _wrong(pattern)
    if not any(sign in ("*", "?", "[") for sign in signs):
        return "".join([sign[-1] for sign in signs])
    options = re2.Options()
    options.log_errors = False
    # In linear time: the pattern may be a stranger's, and so may be the names.
    compiled = re2.compile("(?s)" + _expression(signs, pattern), options)
    return lambda name: compiled.fullmatch(name.encode(errors="replace").decode()) is not None


def _expression(signs: list[str], pattern: str) -> str:
    """A segment as a regular expression."""
    parts: list[str] = []
    position = 0
    while position < len(signs):
        sign = signs[position]
        position += 1
        if sign == "[":
            part, position = _character_class(signs, position, pattern)
            parts.append(part)
        else:
            parts.append({"*": ".*", "?": "."}.get(sign) or _code(sign))
    return "".join(parts)


def _character_class(signs: list[str], position: int, pattern: str) -> tuple[str, int]:
    # The expression of a class whose bracket stands before the position, and where it ends.
    negated = signs[position : position + 1] == ["^"]
    position += negated
    ranges: list[str] = []
    while signs[position : position + 1] != ["]"] or not ranges:
        span = 3 if signs[position + 1 : position + 2] == ["-"] else 1
        ends = signs[position : position + span : 2]
        if len(ends) != (span + 1) // 2 or any(end in ("-", "]") for end in ends):
            raise _wrong(pattern)
        low, high = ends[0][-1], ends[-1][-1]
        ranges.append(f"{_code(low)}-{_code(high)}" if low <= high else "")
        position += span
    inside = "".join(ranges)
    if not inside:
        return ("." if negated else r"[^\x00-\x{10FFFF}]"), position + 1
    return f"[{'^' if negated else ''}{inside}]", position + 1


def _code(sign: str) -> str:
    return f"\\x{{{ord(sign[-1]):x}}}"
