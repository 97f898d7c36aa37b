"""regex, regexall and replace.

Patterns are RE2's, evaluated by RE2 itself (google-re2).

The package's error messages differ from those of Go's implementation, and it accepts a few patterns
that Go rejects; both are corrected here.
"""

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache, partial
from typing import Any, Final

from msgspec import Struct

from nexusform.diagnostics.phrases import enclose
from nexusform.language.functions.function import (
    Example,
    FixedProblem,
    Function,
    FunctionProblem,
    Parameter,
    check_text_length,
)
from nexusform.schemas.value_types import DYNAMIC, STRING, ListType, ObjectType, TupleType, Type
from nexusform.values.typed_value import UNKNOWN, Value, build_object, build_tuple

# Enough for a counted repetition of a Unicode class, which Go's implementation accepts, too.
_MAX_MEMORY: Final = 64 * 1024 * 1024


class CompiledPattern(Struct, frozen=True):
    """Compiled pattern.

    `names` has one item for every group, None for an unnamed one.
    """

    engine: Any
    names: tuple[str | None, ...]


_GO_MESSAGES: Final = {
    "missing ]": "missing closing ]",
    "missing )": "missing closing )",
    "trailing \\": "trailing backslash at end of expression",
    "no argument for repetition operator": "missing argument to repetition operator",
    "invalid repetition size": "invalid repeat count",
    "bad repetition operator": "invalid nested repetition operator",
    "invalid perl operator": "invalid or unsupported Perl syntax",
    "invalid named capture group": "invalid named capture",
}

# Tokens of a pattern accepted by RE2. Brackets inside the first three open no group.
_TOKEN: Final = re.compile(
    r"""
    \\Q.*?(?:\\E|\Z)                                     # literal text
    | \\.                                                 # an escape sequence
    | \[\^?\]?(?:\[:\^?\w+:\]|\\.|[^\]\\])*\]               # a class
    | \(\?P?<(?P<name>[^>]*)>                             # a group with a name
    | (?P<plain>\((?!\?))                                 # a group without
    """,
    re.VERBOSE | re.DOTALL,
)
_GROUP_NAME: Final = re.compile(r"[A-Za-z0-9_]+")


def _build_pattern_error(message: str, part: str) -> FunctionProblem:
    """Build the error for a pattern rejected by RE2 or Go, with the invalid part."""
    return FunctionProblem(f"invalid regexp pattern: {message}{enclose(': `', part, '`')}")


@lru_cache(maxsize=256)
def _compile_pattern(pattern: str) -> CompiledPattern:
    """Compile a pattern.

    Raises FunctionProblem if RE2 or Go rejects it.
    """
    import re2

    options = re2.Options()
    options.log_errors = False
    options.max_mem = _MAX_MEMORY
    try:
        engine = re2.compile(pattern, options)
    except re2.error as problem:
        message, _, part = problem.args[0].decode(errors="replace").partition(": ")
        raise _build_pattern_error(_GO_MESSAGES.get(message, message), part) from None
    # The names of all groups, as in Go (None: without a name). The package lists each name once.
    names: list[str | None] = []
    for token in _TOKEN.finditer(pattern):
        name = token["name"]
        # A single byte: accepted by RE2 alone.
        if token.group() == "\\C":
            raise _build_pattern_error("invalid escape sequence", "\\C")
        if name is not None and not _GROUP_NAME.fullmatch(name):
            raise _build_pattern_error("invalid named capture", token.group())
        # Plain: "(" of a group without a name.
        if name is not None or token["plain"]:
            names.append(name)
    return CompiledPattern(engine, tuple(names))


def _compile_pattern_argument(pattern: str, position: int = 0) -> CompiledPattern:
    """Compile the pattern in the argument at `position`.

    Raises FunctionProblem for this argument.
    """
    try:
        return _compile_pattern(pattern)
    except FunctionProblem as problem:
        raise FunctionProblem(problem.message, position) from None


def _list_matches(pattern: CompiledPattern, text: str) -> Iterator[Any]:
    """Yield the matches from left to right, without an empty one right after another match."""
    end = -1
    for match in pattern.engine.finditer(text):
        if match.start() == match.end() == end:
            # Empty, and right after the last one.
            continue
        end = match.end()
        yield match


def _find_capture_type(pattern: CompiledPattern) -> Type:
    """Return the type of a match result: a text, a tuple of groups, or an object of named ones."""
    names = pattern.names
    if not names:
        return STRING
    attributes = {name: STRING for name in names if name is not None}
    if not attributes:
        return TupleType((STRING,) * len(names))
    if None in names:
        raise FixedProblem(
            "invalid regexp pattern: cannot mix both named and unnamed capture groups", argument=0
        )
    return ObjectType.create(attributes)


def _build_match_groups(pattern: CompiledPattern, match: Any) -> Value:
    """Build the match result: its text, or its groups."""
    names = pattern.names
    if not names:
        return Value(STRING, match.group())
    # Null for a group without a text.
    groups = [Value(STRING, text) for text in match.groups()]
    # The type check allows no mixture of named and unnamed groups.
    if names[0] is None:
        return build_tuple(groups)
    # Of groups with the same name the last one counts.
    return build_object(
        {name: group for name, group in zip(names, groups, strict=True) if name is not None}
    )


def _find_regex_result_type(arguments: Sequence[Value]) -> Type:
    """Return the type of `regex`.

    It depends on the groups of the pattern, so it is open for an unknown one.
    """
    pattern = arguments[0].raw
    return DYNAMIC if pattern is UNKNOWN else _find_capture_type(_compile_pattern_argument(pattern))


def _find_first_match(pattern: Value, text: Value) -> Value:
    """Return the first match.

    Raises FunctionProblem without one.
    """
    compiled_pattern = _compile_pattern_argument(pattern.raw)
    # Raises FunctionProblem for both named and unnamed groups.
    _find_capture_type(compiled_pattern)
    first = next(_list_matches(compiled_pattern, text.raw), None)
    if first is None:
        raise FixedProblem("pattern did not match any part of the given string")
    return _build_match_groups(compiled_pattern, first)


def _find_all_matches(pattern: Value, text: Value) -> Value:
    """Evaluate `regexall`: a list with a text, tuple or object per match."""
    compiled_pattern = _compile_pattern_argument(pattern.raw)
    match_type = _find_capture_type(compiled_pattern)
    return Value(
        ListType(match_type),
        tuple(
            [
                _build_match_groups(compiled_pattern, m)
                for m in _list_matches(compiled_pattern, text.raw)
            ]
        ),
    )


def _replace_all(text: Value, substring: Value, replacement: Value) -> Value:
    """Replace all occurrences of a text, or of a pattern between slashes."""
    pattern = substring.raw
    if not (len(pattern) > 1 and pattern[0] == pattern[-1] == "/"):
        check_text_length(len(text.raw) + text.raw.count(pattern) * len(replacement.raw))
        return Value(STRING, text.raw.replace(pattern, replacement.raw))
    compiled_pattern = _compile_pattern_argument(pattern[1:-1], position=1)
    pieces: list[str] = []
    offset = length = 0
    for match in _list_matches(compiled_pattern, text.raw):
        replace_reference = partial(_replace_reference, compiled_pattern, match)
        pieces += (
            text.raw[offset : match.start()],
            _REFERENCE.sub(replace_reference, replacement.raw),
        )
        # Of the replacements alone: the rest is not longer than the text.
        length += len(pieces[-1])
        check_text_length(length)
        offset = match.end()
    pieces.append(text.raw[offset:])
    return Value(STRING, "".join(pieces))


_REFERENCE: Final = re.compile(r"\$(?:(\$)|(\w+)|\{(\w+)\})")
_GROUP_NUMBER: Final = re.compile(r"0|[1-9][0-9]{0,8}")


def _replace_reference(pattern: CompiledPattern, match: Any, reference: re.Match[str]) -> str:
    """Return the text of a reference in a replacement, for a match of the pattern.

    `_REFERENCE` finds the references. `$1`, `${1}`, `$name` and `${name}` are groups of the match,
    "" for missing ones; `$$` is a dollar.
    """
    second_dollar, plain_name, braced_name = reference.groups()
    if second_dollar:
        return "$"
    name = plain_name or braced_name
    if not _GROUP_NUMBER.fullmatch(name):
        # Several groups may have the name: use the first with a text in this match.
        groups = zip(pattern.names, match.groups(), strict=True)
        return next((text for group, text in groups if group == name and text is not None), "")
    # 0 is the whole match.
    texts_by_number = dict(enumerate((match.group(), *match.groups())))
    return texts_by_number.get(int(name)) or ""


_PATTERN: Final = Parameter("pattern", STRING, "the pattern in RE2 syntax")
_TEXT: Final = Parameter("string", STRING, "the text to search")

FUNCTIONS: Final = (
    Function(
        "regex",
        (
            "The first match of a pattern: its text, its groups as a list, or named groups as an "
            "object."
        ),
        (_PATTERN, _TEXT),
        _find_regex_result_type,
        _find_first_match,
        (
            Example('regex("[a-z]+", "53453453.345345aaabbbccc23454")', '"aaabbbccc"'),
            Example('regex("(?P<major>\\\\d+)\\\\.(?P<minor>\\\\d+)", "1.28").minor', '"28"'),
        ),
    ),
    Function(
        "regexall",
        "All matches of a pattern, each as from `regex`.",
        (_PATTERN, _TEXT),
        lambda arguments: ListType(_find_regex_result_type(arguments)),
        _find_all_matches,
        (Example('regexall("[a-z]+", "1234abcd5678efgh9")', 'tolist(["abcd", "efgh"])'),),
    ),
    Function(
        "replace",
        "The text with every occurrence of another text or /pattern/ replaced.",
        (
            Parameter("str", STRING, "the text"),
            Parameter("substr", STRING, "the text to replace, or /pattern/"),
            Parameter("replace", STRING, "the replacement; $1 and $name are groups of a pattern"),
        ),
        STRING,
        _replace_all,
        (
            Example('replace("1 + 2 + 3", "+", "-")', '"1 - 2 - 3"'),
            Example('replace("hello world", "/w.*d/", "everybody")', '"hello everybody"'),
        ),
    ),
)
