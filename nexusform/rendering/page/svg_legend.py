"""What goes with an SVG rack map: its style, its patterns, and the legend."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from nexusform.rendering.notation.markup import Markup, shape
from nexusform.rendering.page.cluster_paint import Paint, paints
from nexusform.rendering.page.rack_map import SiteMap

STYLE: Final = Markup(
    "<style>"
    "text{font-family:system-ui,'Segoe UI',Roboto,'DejaVu Sans',Helvetica,Arial,sans-serif;"
    "font-size:11px;fill:#1b1f24}"
    ".page{fill:#ffffff}.heading{font-size:16px;font-weight:600}.side{font-size:13px;font-weight:600}"
    ".rack{font-size:11px;font-weight:600}.small{font-size:8px}"
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
_ENTRY_HEIGHT: Final = 18


def definitions(maps: Iterable[SiteMap]) -> Markup:
    """The patterns that the maps use."""
    used = {paint.pattern_name for site in maps for paint in paints(site.clusters).values()}
    found = [
        _pattern(name, shape("path", d=lines, fill="none", stroke="#000000", stroke_opacity=0.28))
        for name, lines in _LINES.items()
        if name in used
    ]
    if "dots" in used:
        found.append(_pattern("dots", shape("circle", cx=3, cy=3, r=1.2, fill="#000000", fill_opacity=0.3)))
    hatch = [
        shape("rect", width=6, height=6, fill="#e3e6ea"),
        shape("path", d="M-1 7L7 -1", stroke="#8c959f", stroke_width=1),
    ]
    return shape("defs", found, _pattern("refusing", hatch))


def _pattern(name: str, inside: Markup | Sequence[Markup]) -> Markup:
    return shape("pattern", inside, id=name, width=6, height=6, patternUnits="userSpaceOnUse")


def clusters_legend(
    entries: Sequence[Paint], counts: Mapping[str, int], width: int
) -> tuple[list[Markup], int]:
    """A swatch with its key, name and number of VMs per cluster; and how high that is."""
    across = max(width // _ENTRY, 1)
    parts: list[Markup] = []
    for number, paint in enumerate(entries):
        left, top = number % across * _ENTRY, number // across * _ENTRY_HEIGHT
        parts.append(shape("rect", class_="vm", x=left, y=top, width=26, height=14, fill=paint.fill))
        if paint.pattern > 0:
            parts.append(
                shape("rect", x=left, y=top, width=26, height=14, fill=f"url(#{paint.pattern_name})")
            )
        ink = "light" if paint.ink == "#ffffff" else "dark"
        parts.append(shape("text", paint.key, class_=f"key {ink}", x=left + 13, y=top + 11))
        told = f"{_short(paint.cluster)} ({counts.get(paint.cluster, 0)})"
        parts.append(shape("text", told, x=left + 32, y=top + 11))
    return parts, -(-len(entries) // across) * _ENTRY_HEIGHT + 4


def _short(name: str) -> str:
    return name if len(name) <= 18 else f"{name[:17]}\N{HORIZONTAL ELLIPSIS}"


def marks_legend() -> list[Markup]:
    """What the outlines and signs mean."""
    parts: list[Markup] = []
    signs = (
        ("placed", "+", "placed"),
        ("moved", "~", "moved"),
        ("removed", "\N{MINUS SIGN}", "removed"),
        ("", "", "free"),
    )
    for number, (kind, sign, word) in enumerate(signs):
        left = number * 85
        name = f"vm {kind}" if kind else "cell"
        fill = "#ffffff" if kind else None
        parts.append(shape("rect", class_=name, x=left + 1, y=1, width=24, height=12, fill=fill))
        if sign:
            parts.append(shape("text", sign, class_="key dark", x=left + 13, y=11))
        parts.append(shape("text", word, x=left + 31, y=11))
    left = len(signs) * 85
    parts.append(shape("rect", class_="cell refused", x=left + 1, y=1, width=24, height=12))
    parts.append(shape("text", "takes no new VMs", x=left + 31, y=11))
    return parts
