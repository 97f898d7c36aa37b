"""Functions on text.

Positions and lengths count grapheme clusters (characters, as seen by a reader).
"""

import unicodedata
from collections.abc import Callable
from functools import partial
from typing import Final

from nexusform.language.functions.function import (
    Example,
    FixedProblem,
    Function,
    FunctionProblem,
    Parameter,
    build_plain_function,
    check_text_length,
)
from nexusform.language.syntax.scanner import count_clusters
from nexusform.schemas.value_types import BOOL, NUMBER, STRING, ListType
from nexusform.values.typed_value import FALSE, TRUE, UNKNOWN, Value, build_boolean, get_refinement

_STRINGS: Final = ListType(STRING)


def split_clusters(text: str) -> list[str]:
    """Split the text into grapheme clusters (characters, as seen by a reader)."""
    if text.isascii() and "\r\n" not in text:
        return list(text)
    pieces: list[str] = []
    start = 0
    while start < len(text):
        end = start + 1
        # A combining character always belongs to the cluster: no count is needed.
        while end < len(text) and (
            unicodedata.combining(text[end]) or count_clusters(text[start : end + 1]) == 1
        ):
            end += 1
        pieces.append(text[start:end])
        start = end
    return pieces


def _change_case(change: Callable[[str], str], text: str) -> str:
    """Change the case of a text by character, with a method of Python's texts (`change`).

    The length never changes: `ß` has no capital of one character, and is kept.
    """
    if text.isascii():
        return change(text)
    return "".join(
        [_change_case_unless_length_changes(character, change(character)) for character in text]
    )


def _change_case_unless_length_changes(before: str, after: str) -> str:
    """Return the changed character if it is a single one, else the character itself.

    The dotted capital I gives i.
    """
    if len(after) == 1:
        return after
    return "i" if before == "\u0130" and after[0] == "i" else before


def _convert_to_title_case(text: str) -> str:
    """Build the title form: words start with capitals.

    Outside of ASCII only space separates words.
    """
    capital = partial(_change_case, str.title)
    result = []
    is_word_start = True
    for character in text:
        result.append(capital(character) if is_word_start else character)
        is_ascii_word = character.isalnum() or character == "_"
        is_word_start = not is_ascii_word if character.isascii() else character.isspace()
    return "".join(result)


def _add_indentation(spaces: int, text: str) -> str:
    """Indent all lines but the first.

    Raises FunctionProblem for an invalid number or a result too long.
    """
    if not isinstance(spaces, int) or spaces < 0 or spaces > 10_000:
        raise FixedProblem(
            "the number of spaces must be a whole number from 0 to 10000", argument=0
        )
    check_text_length(len(text) + spaces * text.count("\n"))
    return text.replace("\n", "\n" + " " * spaces)


def _slice_text(text: str, offset: int, length: int) -> str:
    """Return characters as seen by a reader.

    A negative offset counts from the end, any negative length is no limit.
    """
    if not isinstance(offset, int) or not isinstance(length, int):
        raise FixedProblem("offset and length must be whole numbers", argument=1)
    characters = split_clusters(text)
    if offset < 0:
        offset = max(offset + len(characters), 0)
    end = len(characters) if length < 0 else offset + length
    return unicodedata.normalize("NFC", "".join(characters[offset:end]))


def _split_text(separator: Value, text: Value) -> Value:
    """Split a text at each separator.

    The separator "" gives a list of single characters.
    """
    parts = text.raw.split(separator.raw) if separator.raw else list(text.raw)
    return Value(_STRINGS, tuple([Value(STRING, p) for p in parts]))


def _join_texts(separator: Value, *lists: Value) -> Value:
    """Join the strings of all lists.

    The text is unknown if one is. Raises FunctionProblem for an earlier null.
    """
    if not lists:
        raise FixedProblem("at least one list is required")
    pieces: list[str] = []
    for position, strings in enumerate(lists, 1):
        for index, item in enumerate(strings.raw):
            if item.raw is UNKNOWN:
                return Value(STRING, UNKNOWN)
            if item.raw is None:
                raise FunctionProblem(
                    f"element {index} is null; cannot concatenate null values", argument=position
                )
            pieces.append(item.raw)
    # Before it is built.
    check_text_length(sum(map(len, pieces)) + len(separator.raw) * len(pieces))
    return Value(STRING, separator.raw.join(pieces))


def _has_prefix(text: Value, prefix: Value) -> Value:
    """Check for a prefix.

    An unknown text may have a known start, and it may be enough to decide.
    """
    if text.raw is not UNKNOWN:
        return build_boolean(text.raw.startswith(prefix.raw))
    known_prefix = get_refinement(text).prefix
    if known_prefix.startswith(prefix.raw):
        return TRUE
    # FALSE: they differ already.
    return Value(BOOL, UNKNOWN) if prefix.raw.startswith(known_prefix) else FALSE


def _build_text_function(
    name: str, description: str, compute: Callable[[str], str], *examples: tuple[str, str]
) -> Function:
    return build_plain_function(
        name, description, [("str", STRING, "the text")], compute=compute, examples=examples
    )


FUNCTIONS: Final = (
    _build_text_function(
        "chomp",
        "The text without trailing newlines.",
        lambda text: text.rstrip("\r\n"),
        ('chomp("hello\\n")', '"hello"'),
        ('chomp("hello\\r\\n\\n")', '"hello"'),
    ),
    build_plain_function(
        "endswith",
        "Whether the text ends with a suffix.",
        [("str", STRING, "the text"), ("suffix", STRING, "the suffix")],
        returns=BOOL,
        compute=str.endswith,
        examples=[('endswith("hello world", "world")', "true")],
    ),
    build_plain_function(
        "indent",
        "The text with every line but the first indented.",
        [("spaces", NUMBER, "number of spaces"), ("str", STRING, "the text")],
        compute=_add_indentation,
        examples=[('indent(2, "a\\nb")', '"a\\n  b"')],
    ),
    Function(
        "join",
        "The strings of one or more lists, joined with a separator.",
        (Parameter("separator", STRING, "the separator"),),
        STRING,
        _join_texts,
        (
            Example('join(", ", ["foo", "bar"])', '"foo, bar"'),
            Example('join("-", ["a"], ["b"])', '"a-b"'),
        ),
        Parameter("lists", _STRINGS, "lists of strings"),
    ),
    _build_text_function(
        "lower",
        "The text in lower case.",
        partial(_change_case, str.lower),
        ('lower("HELLO")', '"hello"'),
    ),
    Function(
        "split",
        "The parts of a text between separators.",
        (Parameter("separator", STRING, "the separator"), Parameter("str", STRING, "the text")),
        _STRINGS,
        _split_text,
        (
            Example('split(",", "a,b")', 'tolist(["a", "b"])'),
            Example('split(",", "")', 'tolist([""])'),
        ),
    ),
    Function(
        "startswith",
        "Whether the text starts with a prefix.",
        (
            Parameter("str", STRING, "the text", allow_unknown=True),
            Parameter("prefix", STRING, "the prefix"),
        ),
        BOOL,
        _has_prefix,
        (Example('startswith("hello world", "hello")', "true"),),
    ),
    build_plain_function(
        "strcontains",
        "Whether the text contains another text.",
        [("str", STRING, "the text"), ("substr", STRING, "the text to find")],
        returns=BOOL,
        compute=lambda text, part: part in text,
        examples=[('strcontains("hello world", "wor")', "true")],
    ),
    _build_text_function(
        "strrev",
        "The text in reverse order.",
        lambda text: unicodedata.normalize("NFC", "".join(reversed(split_clusters(text)))),
        ('strrev("hello")', '"olleh"'),
    ),
    build_plain_function(
        "substr",
        "A part of the text by offset and length.",
        [
            ("str", STRING, "the text"),
            ("offset", NUMBER, "start of the part, from 0; negative counts from the end"),
            ("length", NUMBER, "number of characters, -1 for the rest"),
        ],
        compute=_slice_text,
        examples=[('substr("hello world", 1, 4)', '"ello"'), ('substr("hello", -3, -1)', '"llo"')],
    ),
    _build_text_function(
        "title",
        "The text with the first letter of each word in upper case.",
        _convert_to_title_case,
        ('title("hello world")', '"Hello World"'),
    ),
    build_plain_function(
        "trim",
        "The text without leading and trailing characters of a set.",
        [("str", STRING, "the text"), ("cutset", STRING, "the characters to remove")],
        compute=lambda text, cut: text.strip(cut) if cut else text,
        examples=[('trim("?!hello?!", "!?")', '"hello"')],
    ),
    build_plain_function(
        "trimprefix",
        "The text without a prefix.",
        [("str", STRING, "the text"), ("prefix", STRING, "the text to remove")],
        compute=str.removeprefix,
        examples=[('trimprefix("helloworld", "hello")', '"world"')],
    ),
    _build_text_function(
        "trimspace",
        "The text without leading and trailing white space.",
        str.strip,
        ('trimspace("  hello\\n\\n")', '"hello"'),
    ),
    build_plain_function(
        "trimsuffix",
        "The text without a suffix.",
        [("str", STRING, "the text"), ("suffix", STRING, "the text to remove")],
        compute=str.removesuffix,
        examples=[('trimsuffix("helloworld", "world")', '"hello"')],
    ),
    _build_text_function(
        "upper",
        "The text in upper case.",
        partial(_change_case, str.upper),
        ('upper("hello")', '"HELLO"'),
    ),
)
