"""Lists of site names in one line."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from nexusform.diagnostics.phrases import compute_natural_sort_key, format_first_items

_MAX_NAMES: Final = 8


def format_names(names: Sequence[str], max_names: int = _MAX_NAMES) -> str:
    """Format names in natural order: `lon1, lon2 and 3 more`."""
    return format_first_items(sorted(names, key=compute_natural_sort_key), max_names)
