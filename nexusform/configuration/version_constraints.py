"""Version constraints, of nexusform and of modules.

They are those of Terraform, but `~> 1` allows only versions below 2.0.0.
"""

import re
from collections.abc import Iterable
from typing import Final

_VERSION: Final = re.compile(
    r"v?(0|[1-9][0-9]{0,8})\.(0|[1-9][0-9]{0,8})\.(0|[1-9][0-9]{0,8})"
    r"(?:-([0-9A-Za-z.-]+))?(?:\+[0-9A-Za-z.-]+)?"
)
_TERM: Final = re.compile(
    r"\s*(=|!=|>=|<=|>|<|~>)?\s*v?([0-9]{1,9}(?:\.[0-9]{1,9}){0,2})(?:-([0-9A-Za-z.-]+))?\s*"
)
# Numbers, then the words of a prerelease: numbers sort before names, prereleases before releases.
_SortKey = tuple[tuple[int, int, int], bool, tuple[tuple[int, int, str], ...]]


def build_version_key(version: str) -> _SortKey | None:
    """Return the key to sort a semantic version by; None for another text."""
    match = _VERSION.fullmatch(version)
    if match is None:
        return None
    major, minor, patch, prerelease = match.groups()
    return _build_key((int(major), int(minor), int(patch)), prerelease)


def _build_key(numbers: tuple[int, int, int], prerelease: str | None) -> _SortKey:
    words = tuple(
        (0, int(word), "") if word.isdecimal() else (1, 0, word)
        for word in (prerelease or "").split(".")
        if word
    )
    return numbers, prerelease is None, words


def is_constraint_valid(constraint: str) -> bool:
    """Return whether a text is a version constraint."""
    return all(map(_TERM.fullmatch, constraint.split(",")))


def is_version_matching(version: str, constraint: str) -> bool:
    """Return whether a version satisfies every term of a valid constraint ("": any release).

    A prerelease is matched by its exact version only.
    """
    key = build_version_key(version)
    if key is None:
        return False
    terms = [_TERM.fullmatch(text) for text in constraint.split(",")] if constraint.strip() else []
    is_named_exactly = False
    for term in terms:
        if term is None:
            return False
        operator, text, prerelease = term.groups()
        parts = [int(part) for part in text.split(".")]
        major, minor, patch = [*parts, 0, 0][:3]
        wanted = _build_key((major, minor, patch), prerelease)
        if operator in (None, "=") and key == wanted:
            is_named_exactly = True
        if not _is_term_satisfied(key, operator or "=", wanted, len(parts)):
            return False
    is_release = key[1]
    return is_release or is_named_exactly


def _is_term_satisfied(key: _SortKey, operator: str, wanted: _SortKey, part_count: int) -> bool:
    if operator == "~>":
        major, minor, _ = wanted[0]
        # `~> 1.2.3` allows versions below 1.3.0; `~> 1.2` and `~> 1` those below 2.0.0.
        upper = (major, minor + 1, 0) if part_count == 3 else (major + 1, 0, 0)
        return wanted <= key and key[0] < upper
    comparisons = {
        "=": key == wanted,
        "!=": key != wanted,
        ">": key > wanted,
        "<": key < wanted,
        ">=": key >= wanted,
        "<=": key <= wanted,
    }
    return comparisons[operator]


def sort_versions(versions: Iterable[str], constraint: str | None = None) -> list[str]:
    """Return the semantic versions that satisfy a constraint, the newest last.

    Without a constraint, prereleases are included.
    """
    keys = {version: build_version_key(version) for version in versions}
    return sorted(
        (
            version
            for version, key in keys.items()
            if key is not None and (constraint is None or is_version_matching(version, constraint))
        ),
        key=lambda version: keys[version] or (),
    )
