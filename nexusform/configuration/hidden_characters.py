"""Characters that no reader sees and that change what is read: they warn wherever a file holds them.

Bidirectional controls turn the order of a line round, zero-width characters and tags make two names that
look alike differ. Neither harms a plan; both can hide from a reviewer what it will do.
"""

from __future__ import annotations

import re
from typing import Final

from nexusform.diagnostics import Diagnostic, warning
from nexusform.language.positions import Positions
from nexusform.source import SourceFile, Span

_BIDIRECTIONAL: Final = "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"
_ZERO_WIDTH: Final = "\u180e\u200b-\u200d\u2060-\u2064\ufeff"
_TAGS: Final = "\U000e0000-\U000e007f"
_HIDDEN: Final = re.compile(f"[{_BIDIRECTIONAL}{_ZERO_WIDTH}{_TAGS}]")
_BYTE_ORDER_MARK: Final = "\ufeff"
_MOST_LINES: Final = 5


def hidden_characters(source: SourceFile) -> list[Diagnostic]:
    """One warning for a file that holds any, at the first of them."""
    text = source.text
    if text.isascii():
        return []
    # At its very beginning a file may say so that it is UTF-8.
    start = 1 if text.startswith(_BYTE_ORDER_MARK) else 0
    places = [match.start() for match in _HIDDEN.finditer(text, start)]
    if not places:
        return []
    positions = Positions(source.name, text)
    first = Span(source.name, positions.at(places[0]), positions.at(places[0] + 1))
    lines = list(dict.fromkeys(positions.at(place).line for place in places))
    listed = ", ".join(map(str, lines[:_MOST_LINES])) + (", ..." if len(lines) > _MOST_LINES else "")
    detail = (
        f"U+{ord(text[places[0]]):04X} stands here and is not seen; this file has {len(places)} of its "
        f"kind, on line {listed}. Such characters turn the order of a line round, or make names differ that "
        "look alike. Take them out, or write them as \\uNNNN."
    )
    return [warning("hidden-characters", detail, first)]
