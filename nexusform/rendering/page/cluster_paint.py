"""How maps tell clusters apart: a colour, a pattern and a key of a few characters each.

The colours are those of Okabe and Ito, which people with any kind of colour vision can tell apart;
patterns change with them, so that no cluster is known by its colour alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from msgspec import Struct

from nexusform.rendering.page.rack_map import OUTSIDE, short_names

# Fill and the text colour that is easier to read on it.
COLOURS: Final = (
    ("#56b4e9", "#000000"),
    ("#e69f00", "#000000"),
    ("#009e73", "#000000"),
    ("#f0e442", "#000000"),
    ("#0072b2", "#ffffff"),
    ("#d55e00", "#000000"),
    ("#cc79a7", "#000000"),
)
GREY: Final = ("#bdbdbd", "#000000")
PATTERNS: Final = ("plain", "rising", "level", "dots", "falling", "upright", "cross")


class Paint(Struct, frozen=True):
    """What a cluster's VMs look like; `colour` and `pattern` are indexes, -1 is grey and plain."""

    cluster: str
    key: str
    colour: int
    pattern: int

    @property
    def fill(self) -> str:
        """The fill colour."""
        return (COLOURS[self.colour] if self.colour >= 0 else GREY)[0]

    @property
    def ink(self) -> str:
        """The text colour on it."""
        return (COLOURS[self.colour] if self.colour >= 0 else GREY)[1]

    @property
    def pattern_name(self) -> str:
        """The pattern's name."""
        return PATTERNS[self.pattern] if self.pattern >= 0 else PATTERNS[0]


def paints(clusters: Sequence[str]) -> dict[str, Paint]:
    """A paint per cluster, in the order given; the pattern shifts each time the colours start anew."""
    keys = short_names(clusters)
    found: dict[str, Paint] = {}
    for number, cluster in enumerate(name for name in clusters if name != OUTSIDE):
        colour = number % len(COLOURS)
        pattern = (number + number // len(COLOURS)) % len(PATTERNS)
        found[cluster] = Paint(cluster, keys[cluster], colour, pattern)
    if OUTSIDE in clusters:
        found[OUTSIDE] = Paint(OUTSIDE, keys[OUTSIDE], -1, -1)
    return found
