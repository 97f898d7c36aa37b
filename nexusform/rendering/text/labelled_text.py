"""Text beside labels, wrapped at words."""

from __future__ import annotations

from typing import Final

from nexusform.rendering.notation.colours import count_columns, fill_to_width, wrap_lines

_MIN_WIDTH = 20  # columns for a sentence next to its label; with fewer it is put below
_BELOW_INDENT: Final = 6  # indent of a text below its label


def render_labelled_text(label: str, text: str, indent: int, width: int, gap: int = 2) -> list[str]:
    """Return lines with `label` and the text in a column at `indent`. After a longer label the text follows
    on the same line if it fits, else below. The label may contain colours and is followed by at least `gap`
    spaces. Lines have no trailing spaces.
    """
    if count_columns(label) > width and " " in label.strip():
        # Names may be as long as a line, so the last word of a label moves below.
        front, _, last_word = label.rpartition(" ")
        return [front.rstrip(), *render_labelled_text(f"      {last_word}", text, indent, width, gap)]
    text_width = width - indent
    longest_word = max(map(count_columns, text.split()), default=0)
    if text_width < _MIN_WIDTH or text_width < longest_word <= width - _BELOW_INDENT:
        indent, text_width = _BELOW_INDENT, width - _BELOW_INDENT
    if label and count_columns(label) + gap > indent and count_columns(label) + gap + count_columns(text) <= width:
        return [f"{label}{' ' * gap}{text}".rstrip()]
    wrapped = wrap_lines(text, max(text_width, _MIN_WIDTH)) if text else []
    if not wrapped:
        return [label.rstrip()]
    margin = " " * indent
    if count_columns(label) + gap > indent and label:
        return [label.rstrip(), *(f"{margin}{line}" for line in wrapped)]
    first_line, *further_lines = wrapped
    return [f"{fill_to_width(label, indent)}{first_line}", *(f"{margin}{line}" for line in further_lines)]


def truncate_lines(lines: list[str], maximum: int, width: int) -> list[str]:
    """Return at most `maximum` lines; "..." marks omitted text."""
    if len(lines) <= maximum:
        return lines
    last_line = lines[maximum - 1]
    while count_columns(last_line) + 4 > width and " " in last_line.strip():
        last_line = last_line.rpartition(" ")[0]
    return [*lines[: maximum - 1], f"{last_line} ..."]
