"""Elements of pictures, and the SVG document around them."""

from collections.abc import Sequence
from typing import Final

from nexusform.rendering.notation.markup import Markup, build_svg_element, join_markup
from nexusform.rendering.page.map_legend import STYLE

MARGIN: Final = 16
MAX_BYTES: Final = 5_000_000
_VERDICT_HEIGHT: Final = 26
_HEADING_LETTER_WIDTH: Final = 9  # pixels


def render_document(
    title: str, description: str, drawings: Sequence[Markup], width: int, height: int, verdict: str
) -> str:
    """Render a whole file: drawings with margins on a white page.

    Of this size, below the verdict if there is one.
    """
    if verdict:
        width = max(width, round(len(verdict) * _HEADING_LETTER_WIDTH))
        description = f"{verdict}. {description}"
        drawings = [
            render_text(MARGIN, MARGIN + 14, verdict, "heading"),
            translate_parts(drawings, 0, _VERDICT_HEIGHT),
        ]
        height += _VERDICT_HEIGHT
    page_width = width + 2 * MARGIN
    picture = build_svg_element(
        "svg",
        build_svg_element("title", title, id="map-title"),
        build_svg_element("desc", description, id="map-desc"),
        STYLE,
        build_svg_element("rect", class_="page", width=page_width, height=height),
        drawings,
        xmlns="http://www.w3.org/2000/svg",
        viewBox=f"0 0 {page_width} {height}",
        width=page_width,
        height=height,
        role="img",
        aria_labelledby="map-title map-desc",
    )
    return f"{picture}\n"


def translate_parts(parts: Sequence[Markup], left: int, top: int) -> Markup:
    """Return drawings moved to another position."""
    return build_svg_element("g", parts, transform=f"translate({left} {top})")


def render_text(left: float, top: float, text: str, kind: str) -> Markup:
    """Render text at a position in the CSS class `kind`."""
    return build_svg_element("text", join_markup(text), class_=kind, x=round(left, 2), y=top)
