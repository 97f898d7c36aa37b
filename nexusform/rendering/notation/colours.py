"""Colours and widths of terminal text: a small ANSI helper, nothing more.

Plain text equals coloured text minus its escapes; what users wrote never reaches the terminal
with control characters in it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Final

_CODES = {
    "bold": "1",
    "underline": "4",
    "red": "31",
    "green": "32",
    "yellow": "33",
    "cyan": "36",
    "grey": "90",
}
_ESCAPE = re.compile(r"\x1b\[[0-9;]*m")
_CONTROLS = "\x00-\x08\x0b-\x1f\x7f-\x9f"
# Bidirectional controls make text read otherwise than it is; zero-width ones and tags are not seen. Joiners
# stay: emoji and some scripts are written with them.
_UNSEEN = "\u061c\u180e\u200b\u200e\u200f\u202a-\u202e\u2060-\u2064\u2066-\u2069\ufeff\U000e0000-\U000e007f"
# Line ends of other systems, and what is no character: the former end lines of logs, the latter XML.
_NOT_TEXT = "\u2028\u2029\ufffe\uffff\ud800-\udfff"
_ITEM = re.compile(r" +(?:-|\d+\.) ")
_LABEL = re.compile(r" {1,20}[\w ]{1,20} *: ")
_NARROWEST = 20  # columns that text is wrapped to
UNSEEN: Final = f"[{_CONTROLS}{_UNSEEN}{_NOT_TEXT}]"  # a pattern
_CONTROL = re.compile(UNSEEN)


class Painter:
    """Puts text into colour, or leaves it alone when colour is off."""

    __slots__ = ("colour",)

    def __init__(self, colour: bool) -> None:
        self.colour = colour

    def __call__(self, text: str, *styles: str) -> str:
        """The text in the given styles ("bold", "red", ...)."""
        if not self.colour or not text or not styles:
            return text
        codes = ";".join(_CODES[style] for style in styles)
        return f"\x1b[{codes}m{text}\x1b[0m"


PLAIN = Painter(colour=False)


def strip_colours(text: str) -> str:
    """The text without its colour escapes."""
    return _ESCAPE.sub("", text)


def harmless(text: str) -> str:
    r"""The text with control and unseen characters (newline and tab aside) written as `\uXXXX`."""
    if text.isascii() and text.isprintable():
        return text
    return _CONTROL.sub(_spelled_out, text)


def _spelled_out(match: re.Match[str]) -> str:
    code = ord(match.group())
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def columns(text: str) -> int:
    """How many terminal columns the text takes, escapes not counted."""
    if "\x1b" in text:
        text = strip_colours(text)
    return len(text) if text.isascii() else sum(map(_character_columns, text))


def _character_columns(character: str) -> int:
    from unicodedata import combining, east_asian_width

    if combining(character):
        return 0
    return 2 if east_asian_width(character) in "WF" else 1


def column_widths(rows: Iterable[Sequence[str]]) -> list[int]:
    """How wide each column of a table is; rows have one number of cells."""
    return [max(map(columns, cells)) for cells in zip(*rows, strict=True)]


def pad(text: str, width: int, *, right: bool = False) -> str:
    """The text filled with spaces to `width` columns; `right` aligns it to the right."""
    fill = " " * max(0, width - columns(text))
    return fill + text if right else text + fill


def wrap(text: str, width: int) -> list[str]:
    """The lines of a text wrapped at words.

    Lines that start with a space are kept as they are, but for items of a list (` - `, ` 1. `). `width`
    below 20 turns wrapping off. Words longer than a line stand on one of their own.
    """
    lines: list[str] = []
    for line in text.split("\n"):
        list_item = _ITEM.match(line)
        is_fixed = list_item is None and line.startswith(" ")
        if is_fixed or width < _NARROWEST or columns(line) <= width:
            lines.append(line.rstrip())
        else:
            indent = list_item.end() if list_item is not None else 0
            first_line, *further_lines = _fill(line[indent:].split(" "), width - indent)
            lines += [
                f"{line[:indent]}{first_line}",
                *(f"{' ' * indent}{further}" for further in further_lines),
            ]
    return lines


def hang(text: str, width: int) -> str:
    """The text with every line wrapped at words; what follows is set below what stands after the label of a
    line (`  4 machine  : rack3-bm12 (...`), and by two columns where a line has none.
    """
    lines: list[str] = []
    for line in text.split("\n"):
        label = _LABEL.match(line)
        indent = label.end() if label is not None else 2
        if width < _NARROWEST or columns(line) <= width:
            lines.append(line)
            continue
        first_line, *further_lines = _fill(line[indent:].split(" "), width - indent)
        lines += [f"{line[:indent]}{first_line}", *(f"{' ' * indent}{further}" for further in further_lines)]
    return "\n".join(lines)


def indented(text: str, indent: int, width: int) -> list[str]:
    """One line wrapped at words, what follows set in by `indent` columns. `width` below 20 turns it off."""
    if width < _NARROWEST or columns(text) <= width:
        return [text]
    start = len(text) - len(text.lstrip(" "))
    first, *words = text[start:].split(" ")
    lines: list[str] = []
    line = f"{text[:start]}{first}"
    for word in words:
        if columns(line) + 1 + columns(word) > width:
            lines.append(line.rstrip())
            line = f"{' ' * indent}{word}"
        elif line.strip():
            line = f"{line} {word}"
        else:
            line = f"{' ' * indent}{word}"
    return [*lines, line]


def _fill(words: Iterable[str], width: int) -> Iterable[str]:
    """Words put together to lines of at most `width` columns."""
    line = ""
    for word in words:
        if line and columns(line) + 1 + columns(word) > width:
            yield line.rstrip()
            line = word
        else:
            line = f"{line} {word}" if line else word
    if line:
        yield line
