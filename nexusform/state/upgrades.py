"""Documents of older versions brought up to date, one function per step.

A step takes the whole document as plain data and gives a new one of the next version; it must
not look at anything else. To change the format: raise CURRENT and add the step from the version
before to UPGRADES.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

Step: TypeAlias = Callable[[dict[str, Any]], dict[str, Any]]

CURRENT: Final = 1

# The version that a step starts from -> the step to the next one. Version 1 is the first.
UPGRADES: Final[Mapping[int, Step]] = {}


def upgrade(
    document: dict[str, Any],
    version: int,
    steps: Mapping[int, Step] = UPGRADES,
    current: int = CURRENT,
) -> dict[str, Any] | None:
    """The document as the current version has it, or None when no steps lead there."""
    for number in range(version, current):
        step = steps.get(number)
        if step is None:
            return None
        document = step(document) | {"version": number + 1}
    return document
