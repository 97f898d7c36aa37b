"""The scale that two rules share: the largest figure becomes 100."""

from __future__ import annotations

from collections.abc import Sequence


def to_hundred(raws: Sequence[int]) -> list[int]:
    """Each figure as whole hundredths of the largest; all 0 when that is 0."""
    largest = max(raws)
    return [100 * raw // largest for raw in raws] if largest else [0] * len(raws)
