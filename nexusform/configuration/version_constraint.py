"""Version constraints: `>= 0.1, < 2`, `~> 1.2`, `!= 1.3.0`, `1.2.3`."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Final

_TERM = re.compile(r"\s*(=|!=|>=|<=|>|<|~>)?\s*v?(\d+(?:\.\d+){0,2})(-[0-9A-Za-z.-]+)?\s*")
_Version = tuple[int, int, int]

_COMPARE: Final[Mapping[str, Callable[[_Version, _Version], bool]]] = {
    "": lambda have, want: have == want,
    "=": lambda have, want: have == want,
    "!=": lambda have, want: have != want,
    ">": lambda have, want: have > want,
    "<": lambda have, want: have < want,
    ">=": lambda have, want: have >= want,
    "<=": lambda have, want: have <= want,
}


def satisfies(version: str, constraint: str) -> bool | None:
    """Whether the version keeps every term of the constraint; None when that is no constraint.

    Pre-release and build suffixes are left out of the comparison.
    """
    terms = [_TERM.fullmatch(part) for part in constraint.split(",")]
    have = _numbers(re.split(r"[^0-9.]", version, maxsplit=1)[0])
    kept = True
    for term in terms:
        if term is None:
            return None
        operator, want = term.group(1) or "", term.group(2)
        if operator == "~>":
            kept = kept and _numbers(want) <= have < _above(want)
        else:
            kept = kept and _COMPARE[operator](have, _numbers(want))
    return kept


def _numbers(text: str) -> _Version:
    parts = [int(p) for p in text.split(".") if p]
    first, second, third = [*parts, 0, 0, 0][:3]
    return first, second, third


def _above(text: str) -> _Version:
    # `~> 1.2.3` allows the last part to grow: below 1.3; `~> 1.2`: below 2.
    parts = [int(p) for p in text.split(".")]
    if len(parts) == 3:
        return parts[0], parts[1] + 1, 0
    return parts[0] + 1, 0, 0
