"""Names of others as text: one token each, whatever characters they contain.

A name of a foreign document may have line breaks, colours and marks of direction. Printed as it is,
it could write a line of its author's choice into a plan or a comment.
"""

from __future__ import annotations

import re
from typing import Final

_CONTROLS: Final = "\x00-\x08\x0b-\x1f\x7f-\x9f"
# Bidirectional controls make text read otherwise than it is, and characters with the property
# Default_Ignorable_Code_Point of Unicode are not seen. Joiners and selectors are separate.
_INVISIBLE: Final = (
    "\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b\u200e\u200f\u202a-\u202e"
    "\u2060-\u206f\u3164\ufeff\uffa0\ufff0-\ufff8\U0001bca0-\U0001bca3\U0001d173-\U0001d17a"
    "\U000e0000-\U000e00ff\U000e01f0-\U000e0fff"
)
_JOINERS: Final = "\u200c\u200d"
_SELECTORS: Final = "\ufe00-\ufe0f\U000e0100-\U000e01ef"
# Line separators of other systems would end log lines, and non-characters are invalid in XML.
_NON_TEXT: Final = "\u2028\u2029\ufffe\uffff\ud800-\udfff"
# Emoji and some scripts are written with joiners and selectors: one stays after a visible character
# that is not ASCII, and a joiner also after the selector of one.
_VISIBLE: Final = f"[^\\x00-\\xa0{_INVISIBLE}{_NON_TEXT}{_JOINERS}{_SELECTORS}]"
INVISIBLE_PATTERN: Final = (
    f"(?:[{_CONTROLS}{_INVISIBLE}{_NON_TEXT}]|(?<!{_VISIBLE})[{_SELECTORS}]"
    f"|(?<!{_VISIBLE})(?<!{_VISIBLE}[{_SELECTORS}])[{_JOINERS}])"
)
_CONTROL: Final = re.compile(INVISIBLE_PATTERN)
_NAME_ESCAPES: Final = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}
_NAME_CHARACTER: Final = re.compile(f"[\\n\\t]|{INVISIBLE_PATTERN}")


def escape_name(text: str) -> str:
    r"""Escape a text that belongs on one line: a name, a cell, a sentence with names in it.

    Line breaks and tabs become `\\n` and `\\t`, other control and invisible characters their code
    points. The result has no line break, and reads in the order of its characters.
    """
    if text.isascii() and text.isprintable():
        return text
    return _NAME_CHARACTER.sub(lambda match: _escape_character(match[0]), text)


def escape_control_characters(text: str) -> str:
    """Escape control and invisible characters by their code points, except newline and tab."""
    if text.isascii() and text.isprintable():
        return text
    return _CONTROL.sub(lambda match: format_code_point(match[0]), text)


def format_code_point(character: str) -> str:
    """Format the code point of a character with a backslash."""
    code = ord(character)
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def _escape_character(character: str) -> str:
    return _NAME_ESCAPES.get(character) or format_code_point(character)
