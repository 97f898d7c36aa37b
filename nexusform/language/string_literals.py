"""What a literal piece of a string means: escapes decoded, Unicode normalised."""

from __future__ import annotations

import re
from collections.abc import Callable
from unicodedata import normalize

_ESCAPE = re.compile(
    r"\\(?:u[0-9a-fA-F]{0,4}|U[0-9a-fA-F]{0,8}|.|\Z)|\$\$\{|%%\{",
    re.DOTALL,
)
_TEMPLATE_ESCAPE = re.compile(r"([$%])\1\{")
_SIMPLE = {"\\n": "\n", "\\r": "\r", "\\t": "\t", '\\"': '"', "\\\\": "\\", "$${": "${", "%%{": "%{"}

Complain = Callable[[str, int, int], None]  # what is wrong, and from which to which character


def normalized(text: str) -> str:
    """The text in Unicode normal form C, as HCL keeps every string."""
    return text if text.isascii() else normalize("NFC", text)


def decode_quoted(text: str, complain: Complain) -> str:
    """The meaning of what stands between quotation marks. `complain` hears of bad escapes."""
    if "\\" not in text and "{" not in text:
        return normalized(text)

    def replace(match: re.Match[str]) -> str:
        escape = match.group()
        simple = _SIMPLE.get(escape)
        if simple is not None:
            return simple
        problem, meaning = _unusual(escape)
        if problem:
            complain(problem, *match.span())
        return meaning

    return normalized(_ESCAPE.sub(replace, text))


def _unusual(escape: str) -> tuple[str, str]:
    r"""What is wrong with an escape (nothing for a good \u or \U) and what it stands for."""
    selector = escape[1:2]
    if len(escape) in {6, 10} and (selector == "U") == (len(escape) == 10):
        code = int(escape[2:], base=16)  # noqa: FURB166 - "\\u" is no prefix that int() knows
        if code > 0x10FFFF or 0xD800 <= code <= 0xDFFF:
            return f"Cannot encode character U+{code:04x} in UTF-8.", ""
        return "", chr(code)
    if selector == "u":
        return "The \\u escape sequence must be followed by four hexadecimal digits.", ""
    if selector == "U":
        return "The \\U escape sequence must be followed by eight hexadecimal digits.", ""
    if not selector:
        return "Backslash must be followed by an escape sequence selector character.", ""
    return f'The symbol "{selector}" is not a valid escape sequence selector.', selector


def decode_plain(text: str) -> str:
    """The meaning of a literal piece of a heredoc or template file: only `$${` and `%%{` are escapes."""
    if "{" in text:
        text = _TEMPLATE_ESCAPE.sub(r"\1{", text)
    return normalized(text)
