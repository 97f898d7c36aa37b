"""regex, regexall and replace. Patterns are RE2's; re2.py turns them into Python's."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

from nexusform.language.functions.function import Example, Function, FunctionProblem, Parameter, check_length
from nexusform.language.functions.linear_patterns import Match, Pattern, TooSlow
from nexusform.language.functions.re2 import PatternProblem, compile_re2
from nexusform.value_types import DYNAMIC, STRING, ListType, ObjectType, TupleType, Type
from nexusform.values import UNKNOWN, Value, object_value, tuple_value


def _compiled(pattern: str, position: int = 0) -> Pattern:
    try:
        return compile_re2(pattern)
    except PatternProblem as problem:
        raise FunctionProblem(f"invalid regexp pattern: {problem}", position) from None


def matches(pattern: Pattern, text: str) -> Iterator[Match]:
    """Every match from left to right; an empty one right after another match does not count.

    Raises FunctionProblem when finding them would take too long.
    """
    end = -1
    try:
        for match in pattern.finditer(text):
            if match.start() == match.end() == end:
                continue
            end = match.end()
            yield match
    except TooSlow:
        raise FunctionProblem("matching this pattern against so long a text would take too long") from None


def _capture_type(pattern: Pattern) -> Type:
    if pattern.groups == 0:
        return STRING
    if not pattern.groupindex:
        return TupleType((STRING,) * pattern.groups)
    if len(pattern.groupindex) != pattern.groups:
        raise FunctionProblem("invalid regexp pattern: cannot mix both named and unnamed capture groups", 0)
    return ObjectType.of(dict.fromkeys(pattern.groupindex, STRING))


def _captures(pattern: Pattern, match: Match) -> Value:
    if pattern.groups == 0:
        return Value(STRING, match.group())
    if pattern.groupindex:
        return object_value({n: Value(STRING, match.group(n)) for n in pattern.groupindex})
    return tuple_value([Value(STRING, g) for g in match.groups()])


def _regex_type(arguments: Sequence[Value]) -> Type:
    pattern = arguments[0].raw
    return DYNAMIC if pattern is UNKNOWN else _capture_type(_compiled(pattern))


def _regex(pattern: Value, text: Value) -> Value:
    compiled = _compiled(pattern.raw)
    _capture_type(compiled)
    found = next(matches(compiled, text.raw), None)
    if found is None:
        raise FunctionProblem("pattern did not match any part of the given string")
    return _captures(compiled, found)


def _regex_all_type(arguments: Sequence[Value]) -> Type:
    return ListType(_regex_type(arguments))


def _regex_all(pattern: Value, text: Value) -> Value:
    compiled = _compiled(pattern.raw)
    kind = _capture_type(compiled)
    return Value(ListType(kind), tuple([_captures(compiled, m) for m in matches(compiled, text.raw)]))


def _replace(text: Value, wanted: Value, replacement: Value) -> Value:
    pattern = wanted.raw
    if not (len(pattern) > 1 and pattern[0] == pattern[-1] == "/"):
        check_length(len(text.raw) + text.raw.count(pattern) * len(replacement.raw))
        return Value(STRING, text.raw.replace(pattern, replacement.raw))
    compiled = _compiled(pattern[1:-1], 1)
    pieces: list[str] = []
    at = length = 0
    for match in matches(compiled, text.raw):
        pieces += (text.raw[at : match.start()], _expanded(replacement.raw, compiled, match))
        length += len(pieces[-1])
        check_length(length)
        at = match.end()
    pieces.append(text.raw[at:])
    return Value(STRING, "".join(pieces))


_REFERENCE: Final = re.compile(r"\$(?:(\$)|(\w+)|\{(\w+)\})")


def _expanded(template: str, pattern: Pattern, match: Match) -> str:
    # `$1`, `${1}`, `$name` and `${name}` stand for groups, `$$` for a dollar.
    def one(reference: re.Match[str]) -> str:
        if reference[1]:
            return "$"
        name = reference[2] or reference[3]
        if name.isdecimal():
            number = int(name)
            return (match.group(number) or "") if number <= pattern.groups else ""
        return (match.group(name) or "") if name in pattern.groupindex else ""

    return _REFERENCE.sub(one, template)


_PATTERN: Final = Parameter("pattern", STRING, "the pattern, in RE2's syntax")
_TEXT: Final = Parameter("string", STRING, "the text to search")

FUNCTIONS: Final = (
    Function(
        "regex",
        "The first match of a pattern: its text, or its groups as a list or (when named) an object.",
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
        "Every match of a pattern, as `regex` gives one.",
        (_PATTERN, _TEXT),
        _regex_all_type,
        _regex_all,
        (Example('regexall("[a-z]+", "1234abcd5678efgh9")', 'tolist(["abcd", "efgh"])'),),
    ),
    Function(
        "replace",
        "The text with every occurrence of another replaced; between slashes the other is a pattern.",
        (
            Parameter("str", STRING, "the text"),
            Parameter("substr", STRING, "what to replace, or /pattern/"),
            Parameter("replace", STRING, "what to put there; $1 and $name are groups of a pattern"),
        ),
        STRING,
        _replace,
        (
            Example('replace("1 + 2 + 3", "+", "-")', '"1 - 2 - 3"'),
            Example('replace("hello world", "/w.*d/", "everybody")', '"hello everybody"'),
        ),
    ),
)
