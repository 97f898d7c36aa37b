"""How maps tell clusters apart, by a colour, a pattern and a short key each; and the legend in SVG.

The colours are those of Okabe and Ito, which people with any kind of colour vision can tell apart;
patterns change with them, so that no cluster is known by its colour alone.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Final

from msgspec import Struct

from nexusform.rendering.notation.markup import Markup, shape
from nexusform.rendering.page.rack_map import OUTSIDE, Mark, SiteMap, short_names
from nexusform.rendering.report.folding import names_text
from nexusform.words import counted

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
    def tone(self) -> str:
        """The class of text on it: "light" or "dark"."""
        return "light" if self.ink == "#ffffff" else "dark"

    @property
    def pattern_name(self) -> str:
        """The pattern's name."""
        return PATTERNS[self.pattern] if self.pattern >= 0 else PATTERNS[0]


def paints(clusters: Sequence[str]) -> dict[str, Paint]:
    """A paint per cluster, in the order given; the pattern shifts each time the colours start anew."""
    keys = short_names(clusters)
    by_cluster: dict[str, Paint] = {}
    for number, cluster in enumerate(name for name in clusters if name != OUTSIDE):
        colour = number % len(COLOURS)
        pattern = (number + number // len(COLOURS)) % len(PATTERNS)
        by_cluster[cluster] = Paint(cluster, keys[cluster], colour, pattern)
    if OUTSIDE in clusters:
        by_cluster[OUTSIDE] = Paint(OUTSIDE, keys[OUTSIDE], -1, -1)
    return by_cluster


# --- in SVG ------------------------------------------------------------------------------------

STYLE: Final = Markup(
    "<style>"
    "text{font-family:system-ui,'Segoe UI',Roboto,'DejaVu Sans',Helvetica,Arial,sans-serif;"
    "font-size:11px;fill:#1b1f24}"
    ".page{fill:#ffffff}.heading{font-size:16px;font-weight:600}.side{font-size:13px;font-weight:600}"
    ".rack{font-size:11px;font-weight:600}.small{font-size:8px}.slim{font-size:10px;fill:#57606a}"
    ".slot{fill:#57606a;text-anchor:end;font-size:10px}"
    ".key{text-anchor:middle;font-size:10px;font-weight:600}.dark{fill:#000000}.light{fill:#ffffff}"
    ".cell{fill:#f3f4f6;stroke:#8c959f;stroke-width:.75}.refused{fill:url(#refusing)}"
    ".vm{stroke:#00000066;stroke-width:.75}.bare{stroke-width:.4}"
    ".placed{stroke:#000000;stroke-width:2.5}.moved{stroke:#000000;stroke-width:2.5;stroke-dasharray:4 2}"
    ".removed{stroke:#b3001b;stroke-width:2.5;stroke-dasharray:1.5 2;fill-opacity:.55}"
    ".bare.placed,.bare.moved,.bare.removed{stroke-width:1.2}"
    "</style>"
)

_LINES: Final = {
    "rising": "M-1 7L7 -1M-1 1L1 -1M5 7L7 5",
    "falling": "M-1 -1L7 7M5 -1L7 1M-1 5L1 7",
    "level": "M0 1.5H6M0 4.5H6",
    "upright": "M1.5 0V6M4.5 0V6",
    "cross": "M0 3H6M3 0V6",
}
_ENTRY: Final = 170
_FEW_RUNS: Final = 4  # of names in a line
_MOST_NAMED: Final = 16  # clusters, as on the page
_ENTRY_HEIGHT: Final = 18


def definitions(maps: Iterable[SiteMap]) -> Markup:
    """The patterns that the maps use."""
    used: set[str] = set()
    for site in maps:
        used |= {paint.pattern_name for paint in paints(site.clusters).values()}
    patterns: list[Markup] = []
    for name, lines in _LINES.items():
        if name in used:
            drawn = shape("path", d=lines, fill="none", stroke="#000000", stroke_opacity=0.28)
            patterns.append(_pattern(name, drawn))
    if "dots" in used:
        dot = shape("circle", cx=3, cy=3, r=1.2, fill="#000000", fill_opacity=0.3)
        patterns.append(_pattern("dots", dot))
    hatch = [
        shape("rect", width=6, height=6, fill="#e3e6ea"),
        shape("path", d="M-1 7L7 -1", stroke="#8c959f", stroke_width=1),
    ]
    return shape("defs", patterns, _pattern("refusing", hatch))


def _pattern(name: str, inside: Markup | Sequence[Markup]) -> Markup:
    return shape("pattern", inside, id=name, width=6, height=6, patternUnits="userSpaceOnUse")


def clusters_legend(
    every: Sequence[Paint], counts: Mapping[str, int], changing: AbstractSet[str], width: int
) -> tuple[list[Markup], int]:
    """A swatch with its key, name and number of VMs per cluster; and how high that is. Of very many those
    that change, and the names of the others in a line.
    """
    across = max(width // _ENTRY, 1)
    entries = list(every)
    if len(entries) > _MOST_NAMED:
        entries = [paint for paint in every if paint.cluster in changing]
    if len(entries) > _MOST_NAMED:
        entries = []
    parts: list[Markup] = []
    for number, paint in enumerate(entries):
        line, column = divmod(number, across)
        label = f"{_short(paint.cluster)} ({counts.get(paint.cluster, 0):,})"
        parts += _entry(paint, label, column * _ENTRY, line * _ENTRY_HEIGHT)
    lines = math.ceil(len(entries) / across)
    others = [paint.cluster for paint in every if paint not in entries]
    if others:
        noun = "more cluster" if entries else "cluster"
        words = f"{counted(len(others), noun)}: {names_text(others, _FEW_RUNS)}"
        parts.append(shape("text", words, x=0, y=lines * _ENTRY_HEIGHT + 11))
        lines += 1
    return parts, lines * _ENTRY_HEIGHT + 4


def _entry(paint: Paint, label: str, left: int, top: int) -> list[Markup]:
    """One cluster of the legend: swatch, key and label."""
    box = {"x": left, "y": top, "width": 26, "height": 14}
    parts = [shape("rect", class_="vm", **box, fill=paint.fill)]
    if paint.pattern > 0:
        parts.append(shape("rect", **box, fill=f"url(#{paint.pattern_name})"))
    parts.append(shape("text", paint.key, class_=f"key {paint.tone}", x=left + 13, y=top + 11))
    parts.append(shape("text", label, x=left + 32, y=top + 11))
    return parts


def _short(name: str) -> str:
    return name if len(name) <= 18 else f"{name[:17]}\N{HORIZONTAL ELLIPSIS}"


def marks_legend(plain: Mark | None) -> list[Markup]:
    """What the outlines and signs mean; a `plain` mark, which most VMs would have, has none."""
    parts: list[Markup] = []
    signs = (
        ("placed", "+", "placed"),
        ("moved", "~", "moved"),
        ("removed", "\N{MINUS SIGN}", "removed"),
        ("", "", "free"),
    )
    for number, (kind, sign, word) in enumerate(signs):
        left = number * 104
        if kind and kind == plain:
            parts.append(shape("text", f"no sign: {word}", x=left + 1, y=11))
            continue
        name = f"vm {kind}" if kind else "cell"
        fill = "#ffffff" if kind else None
        parts.append(shape("rect", class_=name, x=left + 1, y=1, width=24, height=12, fill=fill))
        if sign:
            parts.append(shape("text", sign, class_="key dark", x=left + 13, y=11))
        parts.append(shape("text", word, x=left + 31, y=11))
    left = len(signs) * 104
    parts.append(shape("rect", class_="cell refused", x=left + 1, y=1, width=24, height=12))
    parts.append(shape("text", "takes no new VMs", x=left + 31, y=11))
    return parts
