"""Scaling shared by two rules: the largest figure becomes 100."""

from __future__ import annotations

from collections.abc import Sequence


def scale_to_hundred(raws: Sequence[int]) -> list[int]:
    """Return each figure as whole per cent of the largest; all 0 if that is 0."""
    largest = max(raws)
    return [100 * raw // largest for raw in raws] if largest else [0] * len(raws)
