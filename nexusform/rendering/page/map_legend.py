"""Styles of clusters on maps (colour, pattern and short key), and the SVG legend.

The colours are those of Okabe and Ito, suitable for all kinds of colour vision. Patterns vary with
them, so that colour is never the only difference.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Final

from msgspec import Struct

from nexusform.diagnostics.name_ranges import format_names
from nexusform.diagnostics.phrases import format_count
from nexusform.rendering.notation.markup import Markup, build_svg_element
from nexusform.rendering.report.rack_map import OUTSIDE, ChangeMark, SiteMap, build_short_names

# Fill and the text colour with better contrast on it.
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
_PAINTS: Final = (*COLOURS, GREY)
PATTERNS: Final = ("plain", "rising", "level", "dots", "falling", "upright", "cross")


class ClusterStyle(Struct, frozen=True):
    """Style of the VMs of a cluster; `colour` and `pattern` are indexes, colour -1 is grey."""

    cluster: str
    key: str
    colour: int
    pattern: int

    @property
    def fill(self) -> str:
        """The fill colour."""
        # (fill, text colour).
        return _PAINTS[self.colour][0]

    @property
    def tone(self) -> str:
        """The class of text on the fill: "light" or "dark"."""
        _, text_colour = _PAINTS[self.colour]
        return "light" if text_colour == "#ffffff" else "dark"

    @property
    def pattern_name(self) -> str:
        """The name of the pattern."""
        return PATTERNS[self.pattern]


def build_cluster_styles(clusters: Sequence[str]) -> dict[str, ClusterStyle]:
    """Build a style per cluster in the given order.

    When colours repeat, other patterns distinguish clusters.
    """
    keys = build_short_names(clusters)
    by_cluster: dict[str, ClusterStyle] = {}
    for number, cluster in enumerate(name for name in clusters if name != OUTSIDE):
        colour = number % len(COLOURS)
        # When colours repeat, it moves on by one.
        pattern = (number + number // len(COLOURS)) % len(PATTERNS)
        by_cluster[cluster] = ClusterStyle(cluster, keys[cluster], colour, pattern)
    if OUTSIDE in clusters:
        # Grey, for unmanaged VMs.
        by_cluster[OUTSIDE] = ClusterStyle(OUTSIDE, keys[OUTSIDE], colour=-1, pattern=0)
    return by_cluster


STYLE: Final = Markup(
    "<style>"
    "text{font-family:system-ui,'Segoe UI',Roboto,'DejaVu Sans',Helvetica,Arial,sans-serif;"
    "font-size:11px;fill:#1b1f24}"
    ".page{fill:#ffffff}.heading{font-size:16px;font-weight:600}.side{font-size:13px;font-weight:600}"
    ".rack{font-size:11px;font-weight:600}.small{font-size:8px}.slim{font-size:10px;fill:#57606a}"
    ".slot{fill:#57606a;text-anchor:end;font-size:10px}"
    ".key{text-anchor:middle;font-size:10px;font-weight:600}.dark{fill:#000000}.light{fill:#ffffff}"
    ".cell{fill:#f3f4f6;stroke:#8c959f;stroke-width:.75}.closed{fill:url(#closed-cells)}"
    ".vm{stroke:#00000066;stroke-width:.75}.bare{stroke-width:.4}"
    ".placed{stroke:#000000;stroke-width:2.5}"
    ".moved{stroke:#000000;stroke-width:2.5;stroke-dasharray:4 2}"
    ".removed{stroke:#b3001b;stroke-width:2.5;stroke-dasharray:1.5 2;fill-opacity:.55}"
    ".choice{stroke:#b3001b;stroke-width:2.5;stroke-dasharray:4 2}"
    ".bare.placed,.bare.moved,.bare.removed,.bare.choice{stroke-width:1.2}"
    "</style>"
)


def _build_line_pattern(path_data: str) -> Markup:
    return build_svg_element(
        "path", d=path_data, fill="none", stroke="#000000", stroke_opacity=0.28
    )


_PATTERN_CONTENTS: Final = {
    "rising": _build_line_pattern("M-1 7L7 -1M-1 1L1 -1M5 7L7 5"),
    "falling": _build_line_pattern("M-1 -1L7 7M5 -1L7 1M-1 5L1 7"),
    "level": _build_line_pattern("M0 1.5H6M0 4.5H6"),
    "upright": _build_line_pattern("M1.5 0V6M4.5 0V6"),
    "cross": _build_line_pattern("M0 3H6M3 0V6"),
    "dots": build_svg_element("circle", cx=3, cy=3, r=1.2, fill="#000000", fill_opacity=0.3),
}
_ENTRY_WIDTH: Final = 170
# Limit of runs of names in a line.
_MAX_RUNS: Final = 4
# Limit of clusters, as on the page.
_MAX_CLUSTERS: Final = 16
_ENTRY_HEIGHT: Final = 18


def build_pattern_definitions(maps: Iterable[SiteMap]) -> Markup:
    """Build the fill patterns of the clusters on the maps.

    The hatching of machines closed to new VMs is built, too.
    """
    used_names: set[str] = set()
    for site in maps:
        used_names |= {style.pattern_name for style in build_cluster_styles(site.clusters).values()}
    patterns = [
        _build_fill_pattern(name, content)
        for name, content in _PATTERN_CONTENTS.items()
        if name in used_names
    ]
    hatch = [
        build_svg_element("rect", width=6, height=6, fill="#e3e6ea"),
        build_svg_element("path", d="M-1 7L7 -1", stroke="#8c959f", stroke_width=1),
    ]
    return build_svg_element("defs", patterns, _build_fill_pattern("closed-cells", hatch))


def _build_fill_pattern(name: str, content: Markup | Sequence[Markup]) -> Markup:
    return build_svg_element(
        "pattern", content, id=name, width=6, height=6, patternUnits="userSpaceOnUse"
    )


def render_cluster_legend(
    styles: Sequence[ClusterStyle],
    counts: Mapping[str, int],
    changed_clusters: AbstractSet[str],
    width: int,
) -> tuple[list[Markup], int]:
    """Return the elements and the height of the legend.

    A cluster has a swatch, key, name and VMs (`counts`). Of too many clusters, only changed ones
    have swatches, or none if these are too many. The others are listed by name.
    """
    columns_per_line = max(width // _ENTRY_WIDTH, 1)
    entries = list(styles)
    if len(entries) > _MAX_CLUSTERS:
        entries = [style for style in styles if style.cluster in changed_clusters]
    # Too many clusters have changes.
    if len(entries) > _MAX_CLUSTERS:
        entries = []
    parts: list[Markup] = []
    for number, style in enumerate(entries):
        line, column = divmod(number, columns_per_line)
        vm_count = counts.get(style.cluster, 0)
        parts += _render_legend_entry(style, vm_count, column * _ENTRY_WIDTH, line * _ENTRY_HEIGHT)
    lines = math.ceil(len(entries) / columns_per_line)
    remaining_clusters = [style.cluster for style in styles if style not in entries]
    if remaining_clusters:
        noun = "more cluster" if entries else "cluster"
        text = (
            f"{format_count(len(remaining_clusters), noun)}: "
            f"{format_names(remaining_clusters, _MAX_RUNS)}"
        )
        parts.append(
            build_svg_element("text", text, x=0, y=lines * _ENTRY_HEIGHT + 11)
        )  # the baseline
        lines += 1
    # With a gap below.
    return parts, lines * _ENTRY_HEIGHT + 4


def _render_legend_entry(
    style: ClusterStyle, vm_count: int, left: int, top: int
) -> Iterator[Markup]:
    """Yield the elements of a cluster.

    They are its swatch with the key, then its name, cut if it is long, and its number of VMs.
    """
    name = (
        style.cluster
        if len(style.cluster) <= 18
        else f"{style.cluster[:17]}\N{HORIZONTAL ELLIPSIS}"
    )
    box = {"x": left, "y": top, "width": 26, "height": 14}
    yield build_svg_element("rect", class_="vm", **box, fill=style.fill)
    if style.pattern > 0:  # 0: plain
        yield build_svg_element("rect", **box, fill=f"url(#{style.pattern_name})")
    yield build_svg_element("text", style.key, class_=f"key {style.tone}", x=left + 13, y=top + 11)
    yield build_svg_element("text", f"{name} ({vm_count:,})", x=left + 32, y=top + 11)


def render_mark_legend(unmarked: ChangeMark | None, *, has_choice: bool = False) -> list[Markup]:
    """Render the meaning of outlines and signs.

    VMs with the mark `unmarked` (None: none) have no sign on the map. With `has_choice`, some VMs
    may be removed.
    """
    parts: list[Markup] = []
    # Label, sign, class and fill.
    signs = (
        ("placed", "+", "vm placed", "#ffffff"),
        ("moved", "~", "vm moved", "#ffffff"),
        ("removed", "\N{MINUS SIGN}", "vm removed", "#ffffff"),
        *((("may leave", "?", "vm choice", "#ffffff"),) if has_choice else ()),
        # An empty cell.
        ("free", "", "cell", None),
    )
    for number, (label, sign, css_class, fill) in enumerate(signs):
        # The width of an entry.
        left = number * 104
        if label == unmarked:
            parts.append(build_svg_element("text", f"no sign: {label}", x=left + 1, y=11))
            continue
        parts.append(
            build_svg_element(
                "rect", class_=css_class, x=left + 1, y=1, width=24, height=12, fill=fill
            )
        )
        if sign:
            parts.append(build_svg_element("text", sign, class_="key dark", x=left + 13, y=11))
        parts.append(build_svg_element("text", label, x=left + 31, y=11))
    left = len(signs) * 104
    parts.append(
        build_svg_element("rect", class_="cell closed", x=left + 1, y=1, width=24, height=12)
    )
    parts.append(build_svg_element("text", "takes no new VMs", x=left + 31, y=11))
    return parts
