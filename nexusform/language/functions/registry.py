"""Every function by name: what a configuration may call."""

from __future__ import annotations

from typing import Final

from nexusform.language.functions import (
    conversions,
    numeric,
    sequences,
    text,
)
from nexusform.language.functions.function import Function, Functions

_FAMILIES: Final = (
    ("Numbers", numeric.FUNCTIONS),
    ("Text", text.FUNCTIONS),
    ("Lists", sequences.FUNCTIONS),
    ("Types and marks", conversions.FUNCTIONS),
)


def pure_functions() -> Functions:
    """The functions that need nothing from outside."""
    found: dict[str, Function] = {}
    for _, family in _FAMILIES:
        found.update({f.name: f for f in family})
    return found
