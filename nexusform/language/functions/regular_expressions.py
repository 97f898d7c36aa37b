"""regex, regexall and replace. Patterns are RE2's, and RE2 itself (google-re2) searches.

The package speaks of mistakes in other words than Go's implementation, whose words people know,
and takes a few patterns that Go refuses; both are put right here.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any, Final

from msgspec import Struct

from nexusform.language.functions.function import (
    Example,
    FixedProblem,
    Function,
    FunctionProblem,
    Parameter,
    check_length,
)
from nexusform.value_types import DYNAMIC, STRING, ListType, ObjectType, TupleType, Type
from nexusform.values import UNKNOWN, Value, object_value, tuple_value

# As much as a counted repetition of a Unicode class needs, which Go's implementation takes, too.
_MOST_MEMORY: Final = 64 * 1024 * 1024


class Pattern(Struct, frozen=True):
    """A compiled pattern. `names` has one item for every group, None where it has no name."""

    engine: Any
    names: tuple[str | None, ...]


_MISTAKES: Final = {
    "missing ]": "missing closing ]",
    "missing )": "missing closing )",
    "trailing \\": "trailing backslash at end of expression",
    "no argument for repetition operator": "missing argument to repetition operator",
    "invalid repetition size": "invalid repeat count",
    "bad repetition operator": "invalid nested repetition operator",
    "invalid perl operator": "invalid or unsupported Perl syntax",
    "invalid named capture group": "invalid named capture",
}

# What may stand in a pattern that RE2 has accepted. Brackets inside the first three open no group.
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


def _invalid(mistake: str, part: str) -> FunctionProblem:
    # A pattern that RE2 or Go would refuse, and the part where the mistake is.
    where = f": `{part}`" if part else ""
    return FunctionProblem(f"invalid regexp pattern: {mistake}{where}")


@lru_cache(maxsize=256)
def _compile(pattern: str) -> Pattern:
    # Raises FunctionProblem.
    import re2

    options = re2.Options()
    options.log_errors = False
    options.max_mem = _MOST_MEMORY
    try:
        engine = re2.compile(pattern, options)
    except re2.error as refusal:
        mistake, _, part = refusal.args[0].decode(errors="replace").partition(": ")
        raise _invalid(_MISTAKES.get(mistake, mistake), part) from None
    return Pattern(engine, _group_names(pattern))


def _group_names(pattern: str) -> tuple[str | None, ...]:
    # The package knows one group for a name, Go knows all. Raises FunctionProblem.
    names: list[str | None] = []
    for token in _TOKEN.finditer(pattern):
        name = token["name"]
        if token.group() == "\\C":
            raise _invalid("invalid escape sequence", "\\C")
        if name is not None and not _GROUP_NAME.fullmatch(name):
            raise _invalid("invalid named capture", token.group())
        if name is not None or token["plain"]:
            names.append(name)
    return tuple(names)


def _compiled(pattern: str, position: int = 0) -> Pattern:
    # `position` is that of the argument which holds the pattern.
    try:
        return _compile(pattern)
    except FunctionProblem as problem:
        raise FunctionProblem(problem.message, position) from None


def _matches(pattern: Pattern, text: str) -> Iterator[Any]:
    # Every match from left to right; an empty one right after another match does not count.
    end = -1
    for match in pattern.engine.finditer(text):
        if match.start() == match.end() == end:
            continue
        end = match.end()
        yield match


def _capture_type(pattern: Pattern) -> Type:
    """The type of what a match gives: a text, a tuple of groups, or an object of named ones."""
    names = pattern.names
    if not names:
        return STRING
    named = {name: STRING for name in names if name is not None}
    if not named:
        return TupleType((STRING,) * len(names))
    if None in names:
        raise FixedProblem("invalid regexp pattern: cannot mix both named and unnamed capture groups", 0)
    return ObjectType.of(named)


def _captures(pattern: Pattern, match: Any) -> Value:
    """What a match gives: its text, or its groups."""
    names = pattern.names
    if not names:
        return Value(STRING, match.group())
    groups = [Value(STRING, text) for text in match.groups()]
    if names[0] is None:
        return tuple_value(groups)
    # Of groups with the same name the last one counts.
    return object_value({name: group for name, group in zip(names, groups, strict=True) if name is not None})


def _regex_type(arguments: Sequence[Value]) -> Type:
    pattern = arguments[0].raw
    return DYNAMIC if pattern is UNKNOWN else _capture_type(_compiled(pattern))


def _regex(pattern: Value, text: Value) -> Value:
    compiled = _compiled(pattern.raw)
    _capture_type(compiled)
    first = next(_matches(compiled, text.raw), None)
    if first is None:
        raise FixedProblem("pattern did not match any part of the given string")
    return _captures(compiled, first)


def _regex_all_type(arguments: Sequence[Value]) -> Type:
    return ListType(_regex_type(arguments))


def _regex_all(pattern: Value, text: Value) -> Value:
    compiled = _compiled(pattern.raw)
    kind = _capture_type(compiled)
    return Value(ListType(kind), tuple([_captures(compiled, m) for m in _matches(compiled, text.raw)]))


def _replace(text: Value, substring: Value, replacement: Value) -> Value:
    """`replace`: all occurrences of a text, or of a pattern between slashes."""
    pattern = substring.raw
    if not (len(pattern) > 1 and pattern[0] == pattern[-1] == "/"):
        check_length(len(text.raw) + text.raw.count(pattern) * len(replacement.raw))
        return Value(STRING, text.raw.replace(pattern, replacement.raw))
    compiled = _compiled(pattern[1:-1], 1)
    pieces: list[str] = []
    at = length = 0
    for match in _matches(compiled, text.raw):
        pieces += (text.raw[at : match.start()], _expanded(replacement.raw, compiled, match))
        length += len(pieces[-1])
        check_length(length)
        at = match.end()
    pieces.append(text.raw[at:])
    return Value(STRING, "".join(pieces))


_REFERENCE: Final = re.compile(r"\$(?:(\$)|(\w+)|\{(\w+)\})")
_GROUP_NUMBER: Final = re.compile(r"0|[1-9][0-9]{0,8}")


def _expanded(template: str, pattern: Pattern, match: Any) -> str:
    # `$1`, `${1}`, `$name` and `${name}` stand for groups, `$$` for a dollar.
    def replaced(reference: re.Match[str]) -> str:
        if reference[1]:
            return "$"
        name = reference[2] or reference[3]
        if not _GROUP_NUMBER.fullmatch(name):
            return _named_group(name, pattern, match)
        number = int(name)
        return (match.group(number) or "") if number <= len(pattern.names) else ""

    return _REFERENCE.sub(replaced, template)


def _named_group(name: str, pattern: Pattern, match: Any) -> str:
    # Of groups with the same name the first one that took part.
    texts = [text for group, text in zip(pattern.names, match.groups(), strict=True) if group == name]
    return next((text for text in texts if text is not None), "")


_PATTERN: Final = Parameter("pattern", STRING, "the pattern in RE2 syntax")
_TEXT: Final = Parameter("string", STRING, "the text to search")

FUNCTIONS: Final = (
    Function(
        "regex",
        "The first match of a pattern: its text, its groups as a list, or named groups as an object.",
        (_PATTERN, _TEXT),
        _regex_type,
        _regex,
        (
            Example('regex("[a-z]+", "53453453.345345aaabbbccc23454")', '"aaabbbccc"'),
            Example('regex("(?P<major>\\\\d+)\\\\.(?P<minor>\\\\d+)", "1.28").minor', '"28"'),
        ),
    ),
    Function(
        "regexall",
        "All matches of a pattern, each as from `regex`.",
        (_PATTERN, _TEXT),
        _regex_all_type,
        _regex_all,
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
        _replace,
        (
            Example('replace("1 + 2 + 3", "+", "-")', '"1 - 2 - 3"'),
            Example('replace("hello world", "/w.*d/", "everybody")', '"hello everybody"'),
        ),
    ),
)
