"""Colours, widths and wrapping of terminal text (ANSI).

Plain text equals coloured text minus its escapes. Control characters of user text never
reach the terminal.
"""

import re
from collections.abc import Iterable, Sequence
from typing import Final

_STYLE_CODES = {
    "bold": "1",
    "underline": "4",
    "red": "31",
    "green": "32",
    "yellow": "33",
    "cyan": "36",
    "grey": "90",
}
_ESCAPE = re.compile(r"\x1b\[[0-9;]*m")
_ITEM = re.compile(r" +(?:-|\d+\.) ")
_LABEL = re.compile(r" {1,20}[\w ]{1,20} *: ")
# Narrower text, in columns, is not wrapped.
_MIN_WIDTH = 20
_ELLIPSIS: Final = "..."
_SYMBOL_COLOURS: Final = {
    "+": "green",
    "-": "red",
    "~": "yellow",
    "<=": "cyan",
    ".": "red",
    "=": "grey",
}


class Painter:
    """Text colouring that can be switched off."""

    __slots__ = ("colour",)

    def __init__(self, colour: bool) -> None:
        self.colour = colour

    def __call__(self, text: str, *styles: str) -> str:
        """Return the text in the given styles ("bold", "red", ...)."""
        if not self.colour or not text or not styles:
            return text
        codes = ";".join(_STYLE_CODES[style] for style in styles)
        return f"\x1b[{codes}m{text}\x1b[0m"


PLAIN = Painter(colour=False)


def render_symbol(symbol: str, paint: Painter = PLAIN) -> str:
    """Render the symbol of an action in the four columns before a header: "  + " or "-/+ "."""
    # A replacement has two signs (`-/+`), an unchanged object none.
    painted_signs = "/".join(
        paint(sign, _SYMBOL_COLOURS.get(sign, "")) for sign in symbol.split("/")
    )
    return f"{' ' * (3 - len(symbol))}{painted_signs} "


def strip_colours(text: str) -> str:
    """Remove the colour escapes from a text."""
    return _ESCAPE.sub("", text)


def count_columns(text: str) -> int:
    """Count the terminal columns of a text without its escapes."""
    if "\x1b" in text:
        text = strip_colours(text)
    return len(text) if text.isascii() else sum(map(_count_character_columns, text))


def _count_character_columns(character: str) -> int:
    """Return the width of a character.

    It is 0 for a combining character, and 2 for wide ones such as Chinese.
    """
    from unicodedata import combining, east_asian_width

    if combining(character):
        return 0
    return 2 if east_asian_width(character) in "WF" else 1


def compute_column_widths(rows: Iterable[Sequence[str]]) -> list[int]:
    """Compute the width of each column of a table.

    All rows have the same number of cells.
    """
    return [max(map(count_columns, cells)) for cells in zip(*rows, strict=True)]


def fill_to_width(text: str, width: int, *, right: bool = False) -> str:
    """Fill the text with spaces to `width` columns; `right` aligns it to the right."""
    fill = " " * max(0, width - count_columns(text))
    return fill + text if right else text + fill


def truncate_around(parts: Sequence[str], width: int) -> tuple[str, str, str]:
    """Truncate a line to the width.

    Its parts are the texts before, in and after the highlight; the text before it loses its
    beginning, the others their ends.
    """
    before, highlight, after = parts
    total = count_columns(before) + count_columns(highlight) + count_columns(after)
    if total <= width:
        return before, highlight, after
    # The highlight may be long, but leaves the texts before and after it a third of the width each,
    # if they need it.
    third = width // 3
    reserved_before = min(count_columns(before), third)
    reserved_after = min(count_columns(after), third)
    highlight = truncate_end(highlight, width - reserved_before - reserved_after)
    before_width = width - count_columns(highlight) - reserved_after
    # Its end stays, next to the highlight.
    before = truncate_end(before[::-1], before_width)[::-1]
    return (
        before,
        highlight,
        truncate_end(after, width - count_columns(highlight) - count_columns(before)),
    )


def truncate_end(text: str, width: int) -> str:
    """Return at most `width` columns of a text, with `...` in place of its end."""
    if count_columns(text) <= width:
        return text
    head = text[: max(0, width - len(_ELLIPSIS))]
    while count_columns(head) > width - len(_ELLIPSIS):
        head = head[:-1]
    return f"{head}{_ELLIPSIS}"


def wrap_lines(text: str, width: int) -> list[str]:
    """Wrap a text at words and return its lines.

    Lines with a leading space stay as they are, except list items (` - `, ` 1. `). A `width` below
    20 turns wrapping off. A word longer than a line gets its own line.
    """
    lines: list[str] = []
    for line in text.split("\n"):
        list_item = _ITEM.match(line)
        is_fixed = list_item is None and line.startswith(" ")
        if is_fixed or _is_within_width(line, width):
            lines.append(line.rstrip())
        else:
            indent = list_item.end() if list_item is not None else 0
            lines += _fill_wrapped_lines(
                line[indent:].split(" "), width, line[:indent], " " * indent
            )
    return lines


def indent_lines(lines: Iterable[str], margin: str) -> list[str]:
    """Return the lines, each after the margin."""
    return [f"{margin}{line}" for line in lines]


def _is_within_width(line: str, width: int) -> bool:
    """Return whether a line stays as it is.

    A `width` below 20 turns wrapping off.
    """
    return width < _MIN_WIDTH or count_columns(line) <= width


def wrap_hanging(text: str, width: int) -> str:
    """Wrap every line of a text.

    Indent further lines to the text after a label (`machine : `), else by two columns. An indented
    line after the first one is a command, to be copied whole: it stays as it is.
    """
    lines: list[str] = []
    for line in text.split("\n"):
        label = _LABEL.match(line)
        indent = label.end() if label is not None else 2
        is_command = bool(lines) and line.startswith(" ")
        if is_command or _is_within_width(line, width):
            lines.append(line)
        else:
            lines += _fill_wrapped_lines(
                line[indent:].split(" "), width, line[:indent], " " * indent
            )
    return "\n".join(lines)


def wrap_line(text: str, indent: int, width: int) -> list[str]:
    """Wrap one line at words and indent further lines by `indent` columns.

    A `width` below 20 turns wrapping off.
    """
    if _is_within_width(text, width):
        return [text]
    start = len(text) - len(text.lstrip(" "))
    return [*_fill_wrapped_lines(text[start:].split(" "), width, text[:start], " " * indent)]


def _fill_wrapped_lines(
    words: Sequence[str], width: int, first_margin: str, margin: str
) -> Iterable[str]:
    """Join words to lines of at most `width` columns.

    `first_margin` precedes the first line, `margin` each other.
    """
    line_margin = first_margin
    content = ""
    for word in words:
        if (
            content
            and count_columns(line_margin) + count_columns(content) + 1 + count_columns(word)
            > width
        ):
            # A word is "" between two spaces.
            yield f"{line_margin}{content}".rstrip()
            line_margin = margin
            content = word
        else:
            content = f"{content} {word}" if content else word
    if content:
        yield f"{line_margin}{content}"
